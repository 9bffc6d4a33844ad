/*
 * host.h -- what the machine did meanwhile: iostat's columns for a device, the processors' time,
 * ours.
 *
 * Sampled by the reporter at each interval, so the columns stand on the same clock as the rates.
 */
#ifndef FIRN_BENCH_HOST_H
#define FIRN_BENCH_HOST_H

#include "base/rc.h"

#include <stdbool.h>
#include <stdint.h>

/** One interval of a block device, named and computed as by iostat -x (sysstat 12). */
struct host_device_sample {
    double r_s, w_s, f_s;  /* requests completed a second: reads, writes, flushes */
    double rkb_s, wkb_s;   /* KiB a second */
    double rrqm_s, wrqm_s; /* merged a second */
    double r_await_ms, w_await_ms, f_await_ms;
    double rareq_kb, wareq_kb; /* mean size, KiB */
    double aqu_sz;             /* mean number under way */
    double util_percent;
};

/** One interval of all processors (they add up to 100), and of this process. */
struct host_cpu_sample {
    double user_percent, system_percent, iowait_percent, idle_percent, steal_percent;
    double process_user_percent,
        process_system_percent; /* of one processor: 200 is two busy ones */
};

struct host_sample {
    bool has_device; /* false where the directory lies on no block device (tmpfs, network) */
    struct host_device_sample device;
    struct host_cpu_sample cpu;
};

struct host_sampler;

/** Watch the machine and the device under a directory. Errors: FIRN_E_NOMEM. */
firn_rc host_sampler_open(const char *directory, struct host_sampler **sampler);
void host_sampler_close(struct host_sampler *sampler);

/** @return the device's name in /proc/diskstats, such as "vda" or "nvme0n1"; "" for none. */
const char *host_sampler_device(const struct host_sampler *sampler);

/** What happened since the last call (or the opening). */
void host_sampler_take(struct host_sampler *sampler, struct host_sample *sample);

/** What a report says of the machine. Texts are "" and numbers 0 where the system does not tell. */
struct host_machine {
    char processor[96];
    unsigned processors;
    uint64_t memory_bytes;
    char kernel[96];
    char system[96];         /* "Debian GNU/Linux 12 (bookworm)" */
    char virtualization[32]; /* "kvm", "none", "" */
    char file_system[32];    /* "ext4" */
    char mount_options[192];
    char device[48], device_model[64], device_scheduler[32];
    char device_write_cache[16]; /* "write back": volatile, syncs flush it; "write through" */
    uint64_t device_bytes;
    bool device_rotational;
    uint32_t device_logical_block_bytes, device_physical_block_bytes;
    uint64_t directory_free_bytes;
};

/** Describe the machine and what lies under a directory. Never fails: unknown stays empty. */
void host_describe(const char *directory, struct host_machine *machine);

#endif
