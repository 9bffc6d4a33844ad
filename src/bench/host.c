#include "bench/host.h"

#include "base/clock.h"
#include "base/memory.h"
#include "bench/host_internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

enum { SMALL_FILE_BYTES = 4096, DEVICE_NAME_BYTES = 48 };

/* A file of the kernel's, read whole into memory that grows as it must. */
struct host_file {
    char *memory;
    size_t capacity_bytes;
};

struct host_sampler {
    char device[DEVICE_NAME_BYTES];
    struct host_file file;
    uint64_t last_ns; /* of the real clock, whatever clock the run is on: these are real counters */
    struct host_disk_track disk;
    struct host_cpu_counters cpu;
    struct host_cpu_sample cpu_shares; /* of the last interval in which a tick passed */
    struct rusage usage;
};

/* An empty text when the file cannot be read. */
static struct host_text read_file(struct host_file *file, const char *path)
{
    struct host_text none = {"", 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return none;
    size_t used = 0;
    for (;;) {
        if (used == file->capacity_bytes) {
            size_t capacity_bytes = used == 0 ? 2 * SMALL_FILE_BYTES : 2 * used;
            char *grown = memory_realloc(file->memory, capacity_bytes);
            if (grown == NULL) {
                used = 0;
                break;
            }
            file->memory = grown;
            file->capacity_bytes = capacity_bytes;
        }
        ssize_t got = read(fd, file->memory + used, file->capacity_bytes - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    return used == 0 ? none : (struct host_text){file->memory, used};
}

/* A small file's text, trimmed; "" when it cannot be read. */
static void read_small(const char *path, char *text, size_t size_bytes)
{
    text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t got = read(fd, text, size_bytes - 1);
    close(fd);
    size_t length = got > 0 ? (size_t)got : 0;
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
}

static uint64_t read_number(const char *path)
{
    char text[32];
    read_small(path, text, sizeof(text));
    return strtoull(text, NULL, 10);
}

/* ---- Which device ---- */

/* The whole disk's name for a device number, by sysfs, where a device is a folder in its parent's:
   .../block/sda/sda1. "" when it is no block device. */
static void device_name(unsigned major_number, unsigned minor_number, char name[DEVICE_NAME_BYTES])
{
    char path[128], target[PATH_MAX];
    name[0] = '\0';
    snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major_number, minor_number);
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (length <= 0)
        return;
    target[length] = '\0';
    snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major_number, minor_number);
    if (access(path, F_OK) == 0) {
        char *cut = strrchr(target, '/');
        if (cut != NULL)
            *cut = '\0';
    }
    const char *last = strrchr(target, '/');
    last = last == NULL ? target : last + 1;
    if (strlen(last) >= DEVICE_NAME_BYTES)
        return;
    strcpy(name, last);
    /* sysfs cannot have the slash of names such as cciss/c0d0. */
    for (char *c = name; *c != '\0'; c++)
        if (*c == '!')
            *c = '/';
}

static bool find_mount(struct host_file *file, const char *directory, struct host_mount *mount)
{
    char path[PATH_MAX];
    if (realpath(directory, path) == NULL)
        return false;
    return host_parse_mountinfo(read_file(file, "/proc/self/mountinfo"), path, mount);
}

/* btrfs and others give their files a made-up device number (major 0); their mount names a device
   all the same. */
static void find_device(struct host_file *file, const char *directory, char name[DEVICE_NAME_BYTES])
{
    struct stat status;
    name[0] = '\0';
    if (stat(directory, &status) != 0)
        return;
    device_name(major(status.st_dev), minor(status.st_dev), name);
    struct host_mount mount;
    if (name[0] != '\0' || !find_mount(file, directory, &mount) || mount.source[0] != '/')
        return;
    if (stat(mount.source, &status) == 0 && S_ISBLK(status.st_mode))
        device_name(major(status.st_rdev), minor(status.st_rdev), name);
}

/* ---- Sampling ---- */

firn_rc host_sampler_open(const char *directory, struct host_sampler **sampler)
{
    struct host_sampler *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to watch the machine");
    find_device(&made->file, directory, made->device);
    struct host_device_sample none;
    host_track_disk(&made->disk, read_file(&made->file, "/proc/diskstats"), made->device, 0, &none);
    host_parse_cpu(read_file(&made->file, "/proc/stat"), &made->cpu);
    made->cpu_shares.idle_percent = 100;
    getrusage(RUSAGE_SELF, &made->usage);
    made->last_ns = clock_now(clock_real());
    *sampler = made;
    return FIRN_OK;
}

void host_sampler_close(struct host_sampler *sampler)
{
    if (sampler == NULL)
        return;
    memory_free(sampler->file.memory);
    memory_free(sampler);
}

const char *host_sampler_device(const struct host_sampler *sampler)
{
    return sampler->device;
}

static double seconds_between(struct timeval before, struct timeval after)
{
    return (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_usec - before.tv_usec) / 1e6;
}

void host_sampler_take(struct host_sampler *sampler, struct host_sample *sample)
{
    *sample = (struct host_sample){0};
    uint64_t now_ns = clock_now(clock_real());
    double elapsed_s = (double)(now_ns - sampler->last_ns) / 1e9;
    sample->has_device =
        host_track_disk(&sampler->disk, read_file(&sampler->file, "/proc/diskstats"),
                        sampler->device, elapsed_s, &sample->device);
    /* The kernel counts in ticks of 10 ms: a shorter time tells nothing, and the next one more. */
    struct host_cpu_counters cpu;
    if (host_parse_cpu(read_file(&sampler->file, "/proc/stat"), &cpu) &&
        host_cpu_shares(&sampler->cpu, &cpu, &sampler->cpu_shares))
        sampler->cpu = cpu;
    sample->cpu = sampler->cpu_shares;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (elapsed_s > 0) {
        sample->cpu.process_user_percent =
            100 * seconds_between(sampler->usage.ru_utime, usage.ru_utime) / elapsed_s;
        sample->cpu.process_system_percent =
            100 * seconds_between(sampler->usage.ru_stime, usage.ru_stime) / elapsed_s;
    }
    sampler->usage = usage;
    sampler->last_ns = now_ns;
}

/* ---- Describing ---- */

/* A hypervisor presents itself to the CPUID instruction, as processors do. */
static void find_virtualization(char *text, size_t size_bytes)
{
#if defined(__x86_64__) || defined(__i386__)
    static const struct {
        const char *signature, *name;
    } known[] = {
        {"KVMKVMKVM", "kvm"},          {"VMwareVMware", "vmware"}, {"Microsoft Hv", "microsoft"},
        {"XenVMMXenVMM", "xen"},       {"TCGTCGTCGTCG", "qemu"},   {"bhyve bhyve ", "bhyve"},
        {"ACRNACRNACRN", "acrn"},      {"QNXQVMBSQG", "qnx"},      {"VBoxVBoxVBox", "oracle"},
        {" lrpepyh  vr", "parallels"},
    };
    enum { LEAF_FEATURES = 1, LEAF_HYPERVISOR = 0x40000000, BIT_HYPERVISOR = 31 };
    unsigned a, b, c, d;
    if (!__get_cpuid(LEAF_FEATURES, &a, &b, &c, &d) || (c >> BIT_HYPERVISOR & 1) == 0) {
        snprintf(text, size_bytes, "none");
        return;
    }
    char signature[13] = {0};
    __cpuid(LEAF_HYPERVISOR, a, b, c, d);
    memcpy(signature, &b, 4);
    memcpy(signature + 4, &c, 4);
    memcpy(signature + 8, &d, 4);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(signature, known[i].signature) == 0) {
            snprintf(text, size_bytes, "%s", known[i].name);
            return;
        }
    snprintf(text, size_bytes, "unknown");
#else
    (void)size_bytes;
    text[0] = '\0';
#endif
}

static void describe_machine(struct host_file *file, struct host_machine *machine)
{
    struct host_text cpuinfo = read_file(file, "/proc/cpuinfo");
    host_parse_value(cpuinfo, "model name", ':', machine->processor, sizeof(machine->processor));
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    machine->processors = processors > 0 ? (unsigned)processors : 0;
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        machine->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    struct utsname names;
    if (uname(&names) == 0)
        snprintf(machine->kernel, sizeof(machine->kernel), "%.20s %.50s %.20s", names.sysname,
                 names.release, names.machine);
    host_parse_value(read_file(file, "/etc/os-release"), "PRETTY_NAME", '=', machine->system,
                     sizeof(machine->system));
    find_virtualization(machine->virtualization, sizeof(machine->virtualization));
}

static void describe_device(struct host_machine *machine)
{
    char name[DEVICE_NAME_BYTES], path[160], text[256];
    snprintf(name, sizeof(name), "%s", machine->device);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '/')
            *c = '!';
    snprintf(path, sizeof(path), "/sys/block/%s/device/model", name);
    read_small(path, machine->device_model, sizeof(machine->device_model));
    snprintf(path, sizeof(path), "/sys/block/%s/queue/scheduler", name);
    read_small(path, text, sizeof(text));
    host_parse_bracketed((struct host_text){text, strlen(text)}, machine->device_scheduler,
                         sizeof(machine->device_scheduler));
    snprintf(path, sizeof(path), "/sys/block/%s/queue/write_cache", name);
    read_small(path, machine->device_write_cache, sizeof(machine->device_write_cache));
    snprintf(path, sizeof(path), "/sys/block/%s/size", name);
    machine->device_bytes = read_number(path) * 512; /* always in sectors of 512 */
    snprintf(path, sizeof(path), "/sys/block/%s/queue/rotational", name);
    machine->device_rotational = read_number(path) != 0;
    snprintf(path, sizeof(path), "/sys/block/%s/queue/logical_block_size", name);
    machine->device_logical_block_bytes = (uint32_t)read_number(path);
    snprintf(path, sizeof(path), "/sys/block/%s/queue/physical_block_size", name);
    machine->device_physical_block_bytes = (uint32_t)read_number(path);
}

void host_describe(const char *directory, struct host_machine *machine)
{
    struct host_file file = {0};
    *machine = (struct host_machine){0};
    describe_machine(&file, machine);
    struct host_mount mount;
    if (find_mount(&file, directory, &mount)) {
        snprintf(machine->file_system, sizeof(machine->file_system), "%s", mount.type);
        snprintf(machine->mount_options, sizeof(machine->mount_options), "%s", mount.options);
    }
    find_device(&file, directory, machine->device);
    if (machine->device[0] != '\0')
        describe_device(machine);
    struct statvfs space;
    if (statvfs(directory, &space) == 0)
        machine->directory_free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    memory_free(file.memory);
}
