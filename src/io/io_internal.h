/*
 * io_internal.h -- the vtable that drivers and decorators stand behind.
 *
 * A driver knows no retries, no counters and no merging: io.c and queue.c above it do all that
 * once. It carries out a request as far as one system call does and says how many bytes moved, or
 * which errno. A decorator is a driver that owns another one and whose handles own handles of that
 * one; it passes a request down with request->handle replaced, and the queue above sets the handle
 * anew each time it submits.
 */
#ifndef FIRN_IO_IO_INTERNAL_H
#define FIRN_IO_IO_INTERNAL_H

#include "io/io.h"

struct io_driver;
struct io_driver_queue;

/** What a driver says of a file it has opened. */
struct io_handle_info {
    void *handle;                /* the driver's own; goes into request->handle */
    uint32_t alignment;          /* a power of two; 1 when the page cache is used */
    uint32_t atomic_write_bytes; /* see io_file_atomic_write_bytes; 0 as a rule */
    bool direct; /* false although IO_OPEN_DIRECT was asked for: refused, and io.c warns of it */
};

/**
 * Every function returns 0 (or a count) or a negative errno. Those on paths and handles are called
 * by any thread; those on a queue by the thread that opened it.
 */
struct io_driver_ops {
    void (*destroy)(struct io_driver *driver); /* and of what it decorates */

    int (*open)(struct io_driver *driver, enum io_class class, const char *path, unsigned flags,
                struct io_handle_info *info);
    int (*close)(struct io_driver *driver, void *handle);
    int (*size)(struct io_driver *driver, void *handle, uint64_t *size_bytes);
    int (*set_size)(struct io_driver *driver, void *handle, uint64_t size_bytes);
    /* -EOPNOTSUPP where there is no such call; io_file_allocate then writes zeros. */
    int (*allocate)(struct io_driver *driver, void *handle, uint64_t offset, uint64_t size_bytes);

    int (*remove)(struct io_driver *driver, const char *path);
    int (*rename)(struct io_driver *driver, const char *from, const char *to);
    int (*make_directory)(struct io_driver *driver, const char *path);
    int (*remove_directory)(struct io_driver *driver, const char *path);
    int (*sync_directory)(struct io_driver *driver, const char *path);
    /* `function` returns 0 to go on; anything else ends the listing and is returned. */
    int (*list)(struct io_driver *driver, const char *path,
                int (*function)(const char *name, void *context), void *context);
    /* -EWOULDBLOCK when it is held; *holder is the process that holds it, 0 if unknown. */
    int (*lock)(struct io_driver *driver, const char *path, void **lock, long *holder);
    void (*unlock)(struct io_driver *driver, void *lock);

    /* Carry out one request now: its vectors at its offset, on request->handle. Returns bytes
       moved, 0 for syncs. An atomic one moves all bytes or none. */
    int64_t (*execute)(struct io_driver *driver, const struct io_request *request);

    int (*queue_open)(struct io_driver *driver, unsigned depth, struct io_driver_queue **queue);
    void (*queue_close)(struct io_driver_queue *queue); /* nothing is under way */
    /* Start requests; returns how many were taken, from the front. The queue above never lets more
       than `depth` be under way. Fewer than count only if the kernel is short of something: what
       was not taken is offered again after the next reap. A negative errno takes none and fails
       them all. While it has a request, a driver may use its next and result, and nothing else may
       have changed when it gives it back (a decorator restores what it replaced, but handle). */
    int (*queue_submit)(struct io_driver_queue *queue, struct io_request *const *requests,
                        unsigned count);
    /* Store completed requests, their result set, waiting until there are min_count, or until
       deadline_ns of the driver's clock (UINT64_MAX: without limit); min_count is never above what
       is under way, and max_count is at least 1. */
    int (*queue_reap)(struct io_driver_queue *queue, unsigned min_count, unsigned max_count,
                      uint64_t deadline_ns, struct io_request **requests);
};

/** The first member of every driver. */
struct io_driver {
    const struct io_driver_ops *ops;
    struct clock *clock;
    enum io_backend backend;
    char name[96]; /* what io_system_describe shows */
};

/** The first member of every driver's queue. */
struct io_driver_queue {
    const struct io_driver_ops *ops;
};

/** Make a system of a driver, which it then owns. On failure the driver is destroyed. */
firn_rc io_system_create(struct io_driver *driver, struct io_system **system);

/** @return the driver below a system, for decorators put around it later. */
struct io_driver *io_system_driver(struct io_system *system);

/** Put a decorator made around io_system_driver() in its place. No file or queue may be open. */
void io_system_set_driver(struct io_system *system, struct io_driver *driver);

/** Make the driver of real files with a backend that is known to work. @return NULL without memory.
 */
struct io_driver *posix_driver_create(enum io_backend backend, struct clock *clock);

/** Does a backend work here? @return 0, or a negative errno that says why not. */
int posix_backend_probe(enum io_backend backend);

#endif
