/*
 * posix_internal.h -- real files: posix.c serves paths and single requests, the backends their
 * queues.
 */
#ifndef FIRN_IO_POSIX_INTERNAL_H
#define FIRN_IO_POSIX_INTERNAL_H

#include "io/io_internal.h"

/** RWF_ATOMIC, which headers older than Linux 6.11 do not have. */
enum { POSIX_RWF_ATOMIC = 0x40 };

/** A real file's handle. */
struct posix_handle {
    int fd;
};

/** Carry out a request by one blocking system call. @return bytes moved or a negative errno */
int64_t posix_execute(const struct io_request *request);

/**
 * How long the kernel may let us wait for a deadline of a clock.
 *
 * Virtual time stands still while a thread works, and waiting for a real file is work, so it does
 * not come to a deadline.
 *
 * @param limit  set when there is one: time from now, 0 if the deadline has passed
 * @return false to wait without limit
 */
bool posix_wait_limit(struct clock *clock, uint64_t deadline_ns, struct timespec *limit);

/** The queue part of a backend; posix.c builds each backend's io_driver_ops from it. */
struct posix_queue_ops {
    /* Does the backend work here? 0, or a negative errno that says why not. */
    int (*probe)(void);
    int (*queue_open)(struct io_driver *driver, unsigned depth, struct io_driver_queue **queue);
    void (*queue_close)(struct io_driver_queue *queue);
    int (*queue_submit)(struct io_driver_queue *queue, struct io_request *const *requests,
                        unsigned count);
    int (*queue_reap)(struct io_driver_queue *queue, unsigned min_count, unsigned max_count,
                      uint64_t deadline_ns, struct io_request **requests);
};
extern const struct posix_queue_ops uring_queue_ops;
extern const struct posix_queue_ops libaio_queue_ops;
extern const struct posix_queue_ops threads_queue_ops;
extern const struct posix_queue_ops null_queue_ops;

#endif
