/*
 * io.c -- systems, files, directories and single requests, over any driver.
 */
#include "io/io.h"

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "io/core_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    ATTEMPTS_MAX = 1000, /* at a call that is interrupted */
    ZEROS_BYTES = 1 << 20,
};

/* Let `error` be what a driver says, as an errno; a call that was only interrupted is made again.
 */
#define DRIVER_CALL(error, call)                                                                   \
    do {                                                                                           \
        int attempts_ = 0;                                                                         \
        do                                                                                         \
            (error) = -(call);                                                                     \
        while ((error) == EINTR && ++attempts_ < ATTEMPTS_MAX);                                    \
    } while (0)

/* ---- Names ---- */

const char *io_class_name(enum io_class class)
{
    static const char *const names[IO_CLASS_COUNT] = {
        "table", "undo", "system", "doublewrite", "redo", "binlog", "temporary",
    };
    ASSERT(class < IO_CLASS_COUNT);
    return names[class];
}

const char *io_backend_name(enum io_backend backend)
{
    static const char *const names[IO_BACKEND_COUNT] = {
        "auto", "io_uring", "libaio", "threads", "null",
    };
    ASSERT(backend < IO_BACKEND_COUNT);
    return names[backend];
}

/* ---- Systems ---- */

firn_rc io_system_create(struct io_driver *driver, struct io_system **system)
{
    struct io_system *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL) {
        driver->ops->destroy(driver);
        return rc_raise(FIRN_E_NOMEM, "no memory for an I/O system");
    }
    made->driver = driver;
    pthread_mutex_init(&made->mutex, NULL);
    *system = made;
    return FIRN_OK;
}

/* The first backend from `wanted` on that works here; threads always do. One warning tells why
   those before it do not. */
static enum io_backend choose_backend(enum io_backend wanted)
{
    enum io_backend backend = wanted == IO_BACKEND_AUTO ? IO_BACKEND_URING : wanted;
    char why[256];
    size_t length = 0;
    for (; backend < IO_BACKEND_THREADS; backend++) {
        int error = -posix_backend_probe(backend);
        if (error == 0)
            break;
        char reason[64];
        length +=
            (size_t)snprintf(why + length, sizeof(why) - length,
                             length == 0 ? "%s is not available here (%s)" : ", nor is %s (%s)",
                             io_backend_name(backend), strerror_r(error, reason, sizeof(reason)));
    }
    if (length != 0)
        log_warning("%s; using %s", why, io_backend_name(backend));
    return backend;
}

firn_rc io_system_open(enum io_backend backend, struct clock *clock, struct io_system **system)
{
    ASSERT(backend < IO_BACKEND_COUNT);
    struct io_driver *driver = posix_driver_create(choose_backend(backend), clock);
    if (driver == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for an I/O system");
    return io_system_create(driver, system);
}

void io_system_close(struct io_system *system)
{
    if (system == NULL)
        return;
    ASSERT(atomic_load(&system->files) == 0 && atomic_load(&system->queues) == 0);
    system->driver->ops->destroy(system->driver);
    for (unsigned c = 0; c < IO_CLASS_COUNT; c++)
        memory_free(atomic_load(&system->shared[c]));
    pthread_mutex_destroy(&system->mutex);
    memory_free(system);
}

enum io_backend io_system_backend(const struct io_system *system)
{
    return system->driver->backend;
}

const char *io_system_describe(const struct io_system *system)
{
    return system->driver->name;
}

struct clock *io_system_clock(const struct io_system *system)
{
    return system->driver->clock;
}

struct io_driver *io_system_driver(struct io_system *system)
{
    return system->driver;
}

void io_system_set_driver(struct io_system *system, struct io_driver *driver)
{
    ASSERT(atomic_load(&system->files) == 0 && atomic_load(&system->queues) == 0);
    system->driver = driver;
}

/* ---- Files ---- */

static void warn_if_refused(struct io_system *system, const char *path)
{
    if (!atomic_exchange(&system->warned_buffered, true))
        log_warning("the file system of %s refuses direct I/O; using the page cache, so latencies "
                    "are memory's more than the device's",
                    path);
}

firn_rc io_file_open(struct io_system *system, enum io_class class, const char *path,
                     unsigned flags, struct io_file **file)
{
    ASSERT(class < IO_CLASS_COUNT);
    size_t path_bytes = strlen(path) + 1;
    struct io_file *made = memory_alloc(sizeof(*made) + path_bytes);
    if (made == NULL || !counters_prepare_class(system, class)) {
        memory_free(made);
        return rc_raise(FIRN_E_NOMEM, "cannot open %s: no memory", path);
    }
    struct io_handle_info info = {.alignment = 1};
    int error;
    DRIVER_CALL(error, system->driver->ops->open(system->driver, class, path, flags, &info));
    if (error != 0) {
        memory_free(made);
        return io_raise(error, "cannot %s %s", (flags & IO_OPEN_CREATE) != 0 ? "create" : "open",
                        path);
    }
    ENSURE(info.alignment != 0 && (info.alignment & (info.alignment - 1)) == 0);
    *made = (struct io_file){.system = system,
                             .handle = info.handle,
                             .number = atomic_fetch_add(&system->opened, 1),
                             .class = class,
                             .alignment = info.alignment,
                             .atomic_write_bytes = info.atomic_write_bytes,
                             .flags = flags,
                             .direct = info.direct};
    memcpy(made->path, path, path_bytes);
    if ((flags & IO_OPEN_DIRECT) != 0 && !info.direct)
        warn_if_refused(system, path);
    atomic_fetch_add(&system->files, 1);
    *file = made;
    return FIRN_OK;
}

firn_rc io_file_close(struct io_file *file)
{
    struct io_system *system = file->system;
    firn_rc rc = FIRN_OK;
    /* On Linux a file is gone even after EINTR: closing again could hit another one. */
    int error = -system->driver->ops->close(system->driver, file->handle);
    if (error != 0 && error != EINTR)
        rc = io_raise(error, "closing %s reported a failure", file->path);
    memory_free(file);
    atomic_fetch_sub(&system->files, 1);
    return rc;
}

struct io_system *io_file_system(const struct io_file *file)
{
    return file->system;
}

const char *io_file_path(const struct io_file *file)
{
    return file->path;
}

bool io_file_is_direct(const struct io_file *file)
{
    return file->direct;
}

uint32_t io_file_alignment(const struct io_file *file)
{
    return file->alignment;
}

uint32_t io_file_atomic_write_bytes(const struct io_file *file)
{
    return file->atomic_write_bytes;
}

firn_rc io_file_size(struct io_file *file, uint64_t *size_bytes)
{
    struct io_driver *driver = file->system->driver;
    uint64_t size = 0;
    int error;
    DRIVER_CALL(error, driver->ops->size(driver, file->handle, &size));
    if (error != 0)
        return io_raise(error, "cannot tell the size of %s", file->path);
    *size_bytes = size;
    return FIRN_OK;
}

static firn_rc refuse_read_only(const struct io_file *file)
{
    if ((file->flags & IO_OPEN_READ_ONLY) == 0)
        return FIRN_OK;
    return rc_raise(FIRN_E_PERMISSION, "cannot change the size of %s: it was opened read-only",
                    file->path);
}

/* @return 0 or an errno */
static int driver_set_size(struct io_file *file, uint64_t size_bytes)
{
    struct io_driver *driver = file->system->driver;
    int error;
    DRIVER_CALL(error, driver->ops->set_size(driver, file->handle, size_bytes));
    return error;
}

firn_rc io_file_set_size(struct io_file *file, uint64_t size_bytes)
{
    FIRN_TRY(refuse_read_only(file));
    int error = size_bytes > INT64_MAX ? EFBIG : driver_set_size(file, size_bytes);
    if (error != 0)
        return io_raise(error, "cannot set the size of %s to %llu bytes", file->path,
                        (unsigned long long)size_bytes);
    return FIRN_OK;
}

/* ---- One request at once ---- */

/* Carry a prepared request to its end. @return how often it was continued */
static unsigned request_execute(struct io_request *request)
{
    struct io_driver *driver = request->file->system->driver;
    unsigned continued = 0;
    enum request_verdict verdict;
    do {
        request->handle = request->file->handle;
        request->result = driver->ops->execute(driver, request);
        verdict = request_settle(request);
        continued += verdict == REQUEST_CONTINUE;
    } while (verdict != REQUEST_DONE);
    return continued;
}

firn_rc io_execute(struct io_request *request)
{
    struct io_system *system = request->file->system;
    struct clock *clock = system->driver->clock;
    unsigned continued = 0;
    request->submit_ns = clock_now(clock);
    if (request_prepare(request) && !request_refuse_sync(request))
        continued = request_execute(request);
    request->done_ns = clock_now(clock);
    counters_record_shared(system, request, continued);
    return io_request_raise(request);
}

firn_rc io_read(struct io_file *file, void *buffer, size_t size_bytes, uint64_t offset)
{
    if (size_bytes > UINT32_MAX)
        return rc_raise(FIRN_E_INVALID, "cannot read %zu bytes of %s at once: 4 GiB are the limit",
                        size_bytes, file->path);
    struct io_request request = {.file = file,
                                 .op = IO_OP_READ,
                                 .size_bytes = (uint32_t)size_bytes,
                                 .buffer = buffer,
                                 .offset = offset};
    return io_execute(&request);
}

firn_rc io_write(struct io_file *file, const void *buffer, size_t size_bytes, uint64_t offset)
{
    if (size_bytes > UINT32_MAX)
        return rc_raise(FIRN_E_INVALID, "cannot write %zu bytes to %s at once: 4 GiB are the limit",
                        size_bytes, file->path);
    struct io_request request = {.file = file,
                                 .op = IO_OP_WRITE,
                                 .size_bytes = (uint32_t)size_bytes,
                                 .buffer = (void *)(uintptr_t)buffer,
                                 .offset = offset};
    return io_execute(&request);
}

firn_rc io_sync(struct io_file *file, enum io_sync_kind kind)
{
    struct io_request request = {
        .file = file,
        .op = kind == IO_SYNC_ALL ? IO_OP_SYNC_ALL : IO_OP_SYNC_DATA,
    };
    return io_execute(&request);
}

/* ---- Allocation ---- */

/* Write zeros over [start, end), both aligned; these are not a caller's requests, so uncounted.
   @return 0 or an errno */
static int write_zeros(struct io_file *file, uint64_t start, uint64_t end)
{
    void *zeros = memory_alloc_aligned(ZEROS_BYTES, 4096);
    if (zeros == NULL)
        return ENOMEM;
    memset(zeros, 0, ZEROS_BYTES);
    int error = 0;
    while (start < end && error == 0) {
        uint64_t left_bytes = end - start;
        struct io_request request = {
            .file = file,
            .op = IO_OP_WRITE,
            .size_bytes = left_bytes < ZEROS_BYTES ? (uint32_t)left_bytes : ZEROS_BYTES,
            .buffer = zeros,
            .offset = start,
        };
        if (request_prepare(&request))
            request_execute(&request);
        error = request.rc == FIRN_OK ? 0 : request.error != 0 ? request.error : EINVAL;
        start += request.size_bytes;
    }
    memory_free(zeros);
    return error;
}

/* Grow a file from old_bytes to new_bytes by writing. What lies before old_bytes is left alone:
   writing there could destroy what another thread writes meanwhile, and its holes read as zero
   already. */
static int grow_by_writing(struct io_file *file, uint64_t old_bytes, uint64_t new_bytes)
{
    if (new_bytes <= old_bytes)
        return 0;
    uint64_t mask = file->alignment - 1;
    uint64_t start = (old_bytes + mask) & ~mask;
    uint64_t end = (new_bytes + mask) & ~mask;
    int error = 0;
    if (start != old_bytes) /* direct writes start at a block; the rest of the last one is zero */
        error = driver_set_size(file, start);
    if (error == 0)
        error = write_zeros(file, start, end);
    if (error == 0 && end != new_bytes)
        error = driver_set_size(file, new_bytes);
    return error;
}

firn_rc io_file_allocate(struct io_file *file, uint64_t offset, uint64_t size_bytes)
{
    struct io_driver *driver = file->system->driver;
    uint64_t old_bytes = 0;
    FIRN_TRY(refuse_read_only(file));
    FIRN_TRY(io_file_size(file, &old_bytes));
    int error = EFBIG;
    if (size_bytes <= INT64_MAX && offset <= INT64_MAX - size_bytes) {
        if (size_bytes == 0)
            return FIRN_OK;
        DRIVER_CALL(error, driver->ops->allocate(driver, file->handle, offset, size_bytes));
        if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL)
            error = grow_by_writing(file, old_bytes, offset + size_bytes);
    }
    if (error == 0)
        return FIRN_OK;
    /* A failure half-way may have grown the file already. */
    uint64_t now_bytes = 0;
    int size_error;
    DRIVER_CALL(size_error, driver->ops->size(driver, file->handle, &now_bytes));
    if (size_error == 0 && now_bytes > old_bytes)
        driver_set_size(file, old_bytes);
    return io_raise(error, "cannot allocate %llu bytes at offset %llu of %s",
                    (unsigned long long)size_bytes, (unsigned long long)offset, file->path);
}

/* ---- Directories ---- */

firn_rc io_remove(struct io_system *system, const char *path)
{
    int error;
    DRIVER_CALL(error, system->driver->ops->remove(system->driver, path));
    return error == 0 ? FIRN_OK : io_raise(error, "cannot remove %s", path);
}

firn_rc io_rename(struct io_system *system, const char *from, const char *to)
{
    int error;
    DRIVER_CALL(error, system->driver->ops->rename(system->driver, from, to));
    return error == 0 ? FIRN_OK : io_raise(error, "cannot rename %s to %s", from, to);
}

firn_rc io_make_directory(struct io_system *system, const char *path)
{
    int error;
    DRIVER_CALL(error, system->driver->ops->make_directory(system->driver, path));
    return error == 0 ? FIRN_OK : io_raise(error, "cannot make the directory %s", path);
}

firn_rc io_remove_directory(struct io_system *system, const char *path)
{
    int error;
    DRIVER_CALL(error, system->driver->ops->remove_directory(system->driver, path));
    return error == 0 ? FIRN_OK : io_raise(error, "cannot remove the directory %s", path);
}

/* These say that the directory could not be reached, not that syncing it went wrong. */
static bool is_reaching_error(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM ||
           error == ELOOP || error == ENAMETOOLONG || error == EMFILE || error == ENFILE ||
           error == ENOMEM;
}

firn_rc io_sync_directory(struct io_system *system, const char *path)
{
    if (atomic_load(&system->directory_sync_failed))
        return rc_raise(FIRN_E_STOPPED,
                        "cannot sync the directory %s: an earlier directory sync failed, so names "
                        "may be lost; restart and recover",
                        path);
    int error;
    DRIVER_CALL(error, system->driver->ops->sync_directory(system->driver, path));
    if (error == 0)
        return FIRN_OK;
    if (!is_reaching_error(error))
        atomic_store(&system->directory_sync_failed, true);
    return io_raise(error, "cannot sync the directory %s", path);
}

struct list_call {
    io_list_function *function;
    void *context;
    firn_rc rc;
};

static int list_entry(const char *name, void *context)
{
    struct list_call *call = context;
    call->rc = call->function(name, call->context);
    return call->rc == FIRN_OK ? 0 : 1;
}

firn_rc io_list(struct io_system *system, const char *path, io_list_function *function,
                void *context)
{
    struct list_call call = {.function = function, .context = context};
    int result = system->driver->ops->list(system->driver, path, list_entry, &call);
    if (result < 0)
        return io_raise(-result, "cannot list the directory %s", path);
    return call.rc;
}

struct io_lock {
    struct io_system *system;
    void *lock; /* the driver's */
};

firn_rc io_lock_directory(struct io_system *system, const char *path, struct io_lock **lock)
{
    struct io_lock *made = memory_alloc(sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "cannot lock the directory %s: no memory", path);
    made->system = system;
    long holder = 0;
    int error;
    DRIVER_CALL(error, system->driver->ops->lock(system->driver, path, &made->lock, &holder));
    if (error == 0) {
        *lock = made;
        return FIRN_OK;
    }
    memory_free(made);
    if (error != EWOULDBLOCK)
        return io_raise(error, "cannot lock the directory %s", path);
    if (holder == 0)
        return rc_raise(FIRN_E_BUSY,
                        "the directory %s is in use by another process; wait for it or use another "
                        "directory",
                        path);
    return rc_raise(
        FIRN_E_BUSY,
        "the directory %s is in use by process %ld; wait for it or use another directory", path,
        holder);
}

void io_unlock_directory(struct io_lock *lock)
{
    if (lock == NULL)
        return;
    lock->system->driver->ops->unlock(lock->system->driver, lock->lock);
    memory_free(lock);
}
