/*
 * posix.c -- the driver of real files: paths, files and single requests by system calls. Queues are
 * the backends' (uring.c, libaio.c, threads.c, null.c).
 */
#include "base/check.h"
#include "base/memory.h"
#include "io/io_internal.h"
#include "io/posix_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    ALIGNMENT_DEFAULT_BYTES = 4096, /* enough for every device and file system in use */
    ALIGNMENT_MIN_BYTES = 512,
    CONTROL_TEXT_BYTES = 32,
    LOCK_ATTEMPTS_MAX = 100,
};

static const char lock_name[] = "firn.lock";

struct posix_driver {
    struct io_driver base;
    struct io_driver_ops ops; /* posix_base_ops with the backend's queues */
};

static int error_or(int result)
{
    return result < 0 ? -errno : result;
}

/* ---- Direct I/O ---- */

static bool is_power_of_two(uint64_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

/* The logical block size of the disk that a file's device number names; partitions have it in their
   parent. @return 0 if there is no such disk (overlay, network, several devices) */
static uint32_t sysfs_block_bytes(dev_t device)
{
    static const char *const places[] = {"queue", "../queue"};
    for (unsigned i = 0; i < ARRAY_COUNT(places); i++) {
        char path[128];
        snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/logical_block_size", major(device),
                 minor(device), places[i]);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        unsigned bytes = 0;
        int found = fscanf(file, "%u", &bytes);
        fclose(file);
        if (found == 1 && is_power_of_two(bytes))
            return bytes;
    }
    return 0;
}

/*
 * What direct I/O on an open file must be aligned to: as the kernel says (statx, 6.1 and later),
 * else the disk's logical block, else the file system's block where that is a likely one.
 *
 * @return 0 when the file cannot do direct I/O
 */
static uint32_t direct_alignment(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx extended;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &extended) == 0 &&
        (extended.stx_mask & STATX_DIOALIGN) != 0) {
        uint32_t memory = extended.stx_dio_mem_align;
        uint32_t offset = extended.stx_dio_offset_align;
        return memory > offset ? memory : offset;
    }
#endif
    struct stat status;
    if (fstat(fd, &status) != 0)
        return ALIGNMENT_DEFAULT_BYTES;
    uint32_t block_bytes =
        sysfs_block_bytes(S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev);
    if (block_bytes == 0)
        block_bytes = (uint32_t)status.st_blksize;
    if (!is_power_of_two(block_bytes) || block_bytes < ALIGNMENT_MIN_BYTES ||
        block_bytes > ALIGNMENT_DEFAULT_BYTES)
        return ALIGNMENT_DEFAULT_BYTES;
    return block_bytes;
}

/* What the kernel says of atomic writes of up to how many bytes. These lines spell out what headers
   older than Linux 6.11 do not have; the layout of statx(2) is the kernel's promise. */
static uint32_t atomic_write_bytes(int fd)
{
    enum { STATX_WRITE_ATOMIC_MASK = 0x10000, AT_UNIT_MIN = 0xa8, AT_UNIT_MAX = 0xac };
    struct statx extended;
    uint32_t unit_min;
    uint32_t unit_max;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_WRITE_ATOMIC_MASK, &extended) != 0 ||
        (extended.stx_mask & STATX_WRITE_ATOMIC_MASK) == 0)
        return 0;
    memcpy(&unit_min, (const char *)&extended + AT_UNIT_MIN, sizeof(unit_min));
    memcpy(&unit_max, (const char *)&extended + AT_UNIT_MAX, sizeof(unit_max));
    return unit_min != 0 && is_power_of_two(unit_max) ? unit_max : 0;
}

/* Leave the page cache, if the file system lets us. It is asked for after opening, not with it: a
   refusal then comes before anything was created or cut off. */
static void try_direct(int fd, struct io_handle_info *info)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
        return;
    uint32_t alignment = direct_alignment(fd);
    if (alignment == 0) {
        fcntl(fd, F_SETFL, flags);
        return;
    }
    info->direct = true;
    info->alignment = alignment;
    info->atomic_write_bytes = atomic_write_bytes(fd);
}

/* ---- Files ---- */

static void lift_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

void io_lift_file_limit(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, lift_file_limit);
}

static int open_flags(unsigned flags)
{
    int mode = (flags & IO_OPEN_READ_ONLY) != 0 ? O_RDONLY : O_RDWR;
    if ((flags & IO_OPEN_CREATE) != 0)
        mode |= O_CREAT;
    if ((flags & IO_OPEN_EXCLUSIVE) != 0)
        mode |= O_EXCL;
    if ((flags & IO_OPEN_TRUNCATE) != 0)
        mode |= O_TRUNC;
    if ((flags & IO_OPEN_SYNC) != 0)
        mode |= O_SYNC;
    if ((flags & IO_OPEN_DSYNC) != 0)
        mode |= O_DSYNC;
    return mode | O_CLOEXEC | O_NOCTTY;
}

static int posix_open(struct io_driver *driver, enum io_class class, const char *path,
                      unsigned flags, struct io_handle_info *info)
{
    (void)driver;
    (void)class;
    struct posix_handle *handle = memory_alloc(sizeof(*handle));
    if (handle == NULL)
        return -ENOMEM;
    handle->fd = open(path, open_flags(flags), 0600);
    struct stat status;
    int error = handle->fd < 0 || fstat(handle->fd, &status) != 0 ? errno : 0;
    if (error == 0 && S_ISDIR(status.st_mode)) /* to be read from, open(2) lets them pass */
        error = EISDIR;
    if (error != 0) {
        if (handle->fd >= 0)
            close(handle->fd);
        memory_free(handle);
        return -error;
    }
    *info = (struct io_handle_info){.handle = handle, .alignment = 1};
    if ((flags & IO_OPEN_DIRECT) != 0)
        try_direct(handle->fd, info);
    return 0;
}

static int posix_close(struct io_driver *driver, void *opaque)
{
    (void)driver;
    struct posix_handle *handle = opaque;
    int result = error_or(close(handle->fd));
    memory_free(handle);
    return result;
}

static int posix_size(struct io_driver *driver, void *opaque, uint64_t *size_bytes)
{
    (void)driver;
    const struct posix_handle *handle = opaque;
    /* Seeking rather than fstat, so that a block device has a size too. */
    off_t end = lseek(handle->fd, 0, SEEK_END);
    if (end < 0)
        return -errno;
    *size_bytes = (uint64_t)end;
    return 0;
}

static int posix_set_size(struct io_driver *driver, void *opaque, uint64_t size_bytes)
{
    (void)driver;
    const struct posix_handle *handle = opaque;
    return error_or(ftruncate(handle->fd, (off_t)size_bytes));
}

static int posix_allocate(struct io_driver *driver, void *opaque, uint64_t offset,
                          uint64_t size_bytes)
{
    (void)driver;
    const struct posix_handle *handle = opaque;
    return error_or(fallocate(handle->fd, 0, (off_t)offset, (off_t)size_bytes));
}

int64_t posix_execute(const struct io_request *request)
{
    int fd = ((const struct posix_handle *)request->handle)->fd;
    const struct iovec *vectors = request->vectors;
    int count = (int)request->vector_count;
    off_t offset = (off_t)request->offset;
    ssize_t result = -1;
    switch (request->op) {
    case IO_OP_READ:
        result = count == 1 ? pread(fd, vectors->iov_base, vectors->iov_len, offset)
                            : preadv(fd, vectors, count, offset);
        break;
    case IO_OP_WRITE:
        if (request->is_atomic)
            result = pwritev2(fd, vectors, count, offset, POSIX_RWF_ATOMIC);
        else
            result = count == 1 ? pwrite(fd, vectors->iov_base, vectors->iov_len, offset)
                                : pwritev(fd, vectors, count, offset);
        break;
    case IO_OP_SYNC_DATA:
        result = fdatasync(fd);
        break;
    case IO_OP_SYNC_ALL:
        result = fsync(fd);
        break;
    }
    return result < 0 ? -errno : result;
}

bool posix_wait_limit(struct clock *clock, uint64_t deadline_ns, struct timespec *limit)
{
    if (deadline_ns == UINT64_MAX || clock_is_virtual(clock))
        return false;
    uint64_t now_ns = clock_now(clock);
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    double real_ns = ceil((double)left_ns / clock_scale(clock));
    limit->tv_sec = (time_t)(real_ns / (double)NS_PER_S);
    limit->tv_nsec = (long)(real_ns - (double)limit->tv_sec * (double)NS_PER_S);
    return true;
}

static int64_t posix_driver_execute(struct io_driver *driver, const struct io_request *request)
{
    if (driver->backend == IO_BACKEND_NULL)
        return request->size_bytes;
    return posix_execute(request);
}

/* ---- Directories ---- */

static int posix_remove(struct io_driver *driver, const char *path)
{
    (void)driver;
    return error_or(unlink(path));
}

static int posix_rename(struct io_driver *driver, const char *from, const char *to)
{
    (void)driver;
    return error_or(rename(from, to));
}

static int posix_make_directory(struct io_driver *driver, const char *path)
{
    (void)driver;
    return error_or(mkdir(path, 0700));
}

static int posix_remove_directory(struct io_driver *driver, const char *path)
{
    (void)driver;
    return error_or(rmdir(path));
}

static int posix_sync_directory(struct io_driver *driver, const char *path)
{
    (void)driver;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* A file system without such a call (EINVAL) has nothing to sync there. */
    int result = fsync(fd) != 0 && errno != EINVAL ? -errno : 0;
    close(fd);
    return result;
}

static int posix_list(struct io_driver *driver, const char *path,
                      int (*function)(const char *name, void *context), void *context)
{
    (void)driver;
    DIR *directory = opendir(path);
    if (directory == NULL)
        return -errno;
    int result = 0;
    while (result == 0) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (entry == NULL) {
            result = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = function(entry->d_name, context);
    }
    closedir(directory);
    return result;
}

/* ---- The directory lock ----
 *
 * An open-file-description lock on a file in the directory, so that it excludes other holders in
 * this process too and ends with the process however that ends. The file is removed while still
 * locked; who opened it before that finds out by its inode and starts over.
 */

struct posix_lock {
    int fd;
    char path[];
};

/* @return 1 when locked, 0 when the file is no longer the one in the directory, or an errno */
static int lock_open_file(int fd, const char *path)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &range) != 0)
        return errno == EACCES ? -EWOULDBLOCK : -errno;
    struct stat locked;
    struct stat named;
    if (fstat(fd, &locked) != 0)
        return -errno;
    return stat(path, &named) == 0 && locked.st_dev == named.st_dev &&
           locked.st_ino == named.st_ino;
}

static long read_holder(int fd)
{
    char text[CONTROL_TEXT_BYTES] = "";
    if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    return strtol(text, NULL, 10);
}

/* For whoever is refused; the lock holds without it, so a full disk does not matter. */
static void write_holder(int fd)
{
    char text[CONTROL_TEXT_BYTES];
    int length = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)length, 0) != length)
        return;
}

static int posix_lock(struct io_driver *driver, const char *path, void **lock, long *holder)
{
    (void)driver;
    size_t path_bytes = strlen(path) + 1 + sizeof(lock_name);
    struct posix_lock *made = memory_alloc(sizeof(*made) + path_bytes);
    if (made == NULL)
        return -ENOMEM;
    snprintf(made->path, path_bytes, "%s/%s", path, lock_name);
    int result = 0;
    for (int i = 0; i < LOCK_ATTEMPTS_MAX && result == 0; i++) {
        made->fd = open(made->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0600);
        if (made->fd < 0) {
            result = -errno;
            break;
        }
        result = lock_open_file(made->fd, made->path);
        if (result == -EWOULDBLOCK)
            *holder = read_holder(made->fd);
        if (result != 1)
            close(made->fd);
    }
    if (result != 1) {
        memory_free(made);
        return result == 0 ? -EWOULDBLOCK : result;
    }
    write_holder(made->fd);
    *lock = made;
    return 0;
}

static void posix_unlock(struct io_driver *driver, void *opaque)
{
    (void)driver;
    struct posix_lock *lock = opaque;
    unlink(lock->path);
    close(lock->fd);
    memory_free(lock);
}

/* ---- Backends ---- */

static const struct posix_queue_ops *queue_ops_of(enum io_backend backend)
{
    switch (backend) {
    case IO_BACKEND_URING:
        return &uring_queue_ops;
    case IO_BACKEND_LIBAIO:
        return &libaio_queue_ops;
    case IO_BACKEND_NULL:
        return &null_queue_ops;
    default:
        ENSURE(backend == IO_BACKEND_THREADS);
        return &threads_queue_ops;
    }
}

int posix_backend_probe(enum io_backend backend)
{
    return queue_ops_of(backend)->probe();
}

static void posix_destroy(struct io_driver *driver)
{
    memory_free(driver);
}

static const struct io_driver_ops posix_base_ops = {
    .destroy = posix_destroy,
    .open = posix_open,
    .close = posix_close,
    .size = posix_size,
    .set_size = posix_set_size,
    .allocate = posix_allocate,
    .remove = posix_remove,
    .rename = posix_rename,
    .make_directory = posix_make_directory,
    .remove_directory = posix_remove_directory,
    .sync_directory = posix_sync_directory,
    .list = posix_list,
    .lock = posix_lock,
    .unlock = posix_unlock,
    .execute = posix_driver_execute,
};

struct io_driver *posix_driver_create(enum io_backend backend, struct clock *clock)
{
    struct posix_driver *driver = memory_zalloc(1, sizeof(*driver));
    if (driver == NULL)
        return NULL;
    const struct posix_queue_ops *queue_ops = queue_ops_of(backend);
    driver->ops = posix_base_ops;
    driver->ops.queue_open = queue_ops->queue_open;
    driver->ops.queue_close = queue_ops->queue_close;
    driver->ops.queue_submit = queue_ops->queue_submit;
    driver->ops.queue_reap = queue_ops->queue_reap;
    driver->base.ops = &driver->ops;
    driver->base.clock = clock;
    driver->base.backend = backend;
    snprintf(driver->base.name, sizeof(driver->base.name), "%s", io_backend_name(backend));
    return &driver->base;
}
