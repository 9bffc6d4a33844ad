/*
 * uring.c -- queues by io_uring.
 *
 * The ring is set up for the one thread that opens it and collects its completions itself
 * (SINGLE_ISSUER, DEFER_TASKRUN; Linux 6.1): completing then interrupts nobody.
 */
#include "base/check.h"
#include "base/memory.h"
#include "io/posix_internal.h"

#include <errno.h>
#include <liburing.h>

struct uring_queue {
    struct io_driver_queue base;
    struct io_uring ring;
    struct clock *clock;
};

/* What the kernel may know, newest first. */
static const unsigned setup_flags[] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
        IORING_SETUP_SUBMIT_ALL,                                                     /* 6.1 */
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL, /* 5.19 */
    0,
};

/* The descriptor is registered so that each call is spared looking it up; a kernel that cannot
   (before 5.18) does without. */
static int ring_open(unsigned depth, struct io_uring *ring)
{
    int result = -EINVAL;
    for (unsigned i = 0; i < ARRAY_COUNT(setup_flags) && result == -EINVAL; i++)
        result = io_uring_queue_init(depth, ring, setup_flags[i]);
    if (result == 0)
        io_uring_register_ring_fd(ring);
    return result;
}

/* Setting up is not enough: a filter may allow that and forbid the rest. */
static int uring_probe(void)
{
    struct io_uring ring;
    int result = ring_open(1, &ring);
    if (result != 0)
        return result;
    io_uring_prep_nop(io_uring_get_sqe(&ring));
    result = io_uring_submit_and_wait(&ring, 1);
    if (result >= 0 && (ring.features & IORING_FEAT_EXT_ARG) == 0)
        result = -EOPNOTSUPP; /* before 5.11: no waiting until a deadline */
    io_uring_queue_exit(&ring);
    return result < 0 ? result : 0;
}

static int uring_queue_open(struct io_driver *driver, unsigned depth,
                            struct io_driver_queue **queue)
{
    struct uring_queue *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return -ENOMEM;
    made->base.ops = driver->ops;
    made->clock = driver->clock;
    int result = ring_open(depth, &made->ring);
    if (result != 0) {
        memory_free(made);
        return result;
    }
    *queue = &made->base;
    return 0;
}

static void uring_queue_close(struct io_driver_queue *base)
{
    struct uring_queue *queue = (struct uring_queue *)base;
    io_uring_queue_exit(&queue->ring);
    memory_free(queue);
}

static void fill_entry(struct io_uring_sqe *entry, struct io_request *request)
{
    int fd = ((const struct posix_handle *)request->handle)->fd;
    const struct iovec *vectors = request->vectors;
    unsigned count = request->vector_count;
    switch (request->op) {
    case IO_OP_READ:
        if (count == 1)
            io_uring_prep_read(entry, fd, vectors->iov_base, (unsigned)vectors->iov_len,
                               request->offset);
        else
            io_uring_prep_readv(entry, fd, vectors, count, request->offset);
        break;
    case IO_OP_WRITE:
        if (count == 1)
            io_uring_prep_write(entry, fd, vectors->iov_base, (unsigned)vectors->iov_len,
                                request->offset);
        else
            io_uring_prep_writev(entry, fd, vectors, count, request->offset);
        entry->rw_flags = request->is_atomic ? POSIX_RWF_ATOMIC : 0;
        break;
    case IO_OP_SYNC_DATA:
        io_uring_prep_fsync(entry, fd, IORING_FSYNC_DATASYNC);
        break;
    case IO_OP_SYNC_ALL:
        io_uring_prep_fsync(entry, fd, 0);
        break;
    }
    io_uring_sqe_set_data(entry, request);
}

/* What stands in the ring counts as taken: entries that the kernel did not consume this time go
   with the next call, so a failure to submit is only a delay. */
static int uring_queue_submit(struct io_driver_queue *base, struct io_request *const *requests,
                              unsigned count)
{
    struct uring_queue *queue = (struct uring_queue *)base;
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_sqe *entry = io_uring_get_sqe(&queue->ring);
        ENSURE(entry != NULL);
        fill_entry(entry, requests[i]);
    }
    io_uring_submit(&queue->ring);
    return (int)count;
}

static unsigned collect(struct uring_queue *queue, unsigned max_count, struct io_request **requests)
{
    struct io_uring_cqe *entry;
    unsigned head;
    unsigned count = 0;
    io_uring_for_each_cqe(&queue->ring, head, entry)
    {
        if (count == max_count)
            break;
        struct io_request *request = io_uring_cqe_get_data(entry);
        request->result = entry->res;
        requests[count++] = request;
    }
    io_uring_cq_advance(&queue->ring, count);
    return count;
}

/* @return -ETIME when the deadline passed first */
static int enter_and_wait(struct uring_queue *queue, unsigned count, uint64_t deadline_ns)
{
    struct timespec limit;
    if (!posix_wait_limit(queue->clock, deadline_ns, &limit))
        return io_uring_submit_and_wait(&queue->ring, count);
    struct __kernel_timespec kernel_limit = {.tv_sec = limit.tv_sec, .tv_nsec = limit.tv_nsec};
    struct io_uring_cqe *first;
    return io_uring_submit_and_wait_timeout(&queue->ring, &first, count, &kernel_limit, NULL);
}

/* Completions may be waiting for this thread to enter the kernel, or entries to be submitted. */
static bool must_enter(const struct io_uring *ring)
{
    unsigned flags = IO_URING_READ_ONCE(*ring->sq.kflags);
    return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0 ||
           io_uring_sq_ready(ring) != 0;
}

static int uring_queue_reap(struct io_driver_queue *base, unsigned min_count, unsigned max_count,
                            uint64_t deadline_ns, struct io_request **requests)
{
    struct uring_queue *queue = (struct uring_queue *)base;
    unsigned count = collect(queue, max_count, requests);
    while (count < min_count) {
        int result = enter_and_wait(queue, min_count - count, deadline_ns);
        count += collect(queue, max_count - count, requests + count);
        if (result == -ETIME)
            break;
        if (result < 0 && result != -EINTR)
            return count > 0 ? (int)count : result;
    }
    /* The kernel ends a wait early when it has enough. Taking along what else is complete makes
       the next batch larger: cheaper by more than this call costs. */
    if (count < max_count && must_enter(&queue->ring)) {
        io_uring_submit_and_get_events(&queue->ring);
        count += collect(queue, max_count - count, requests + count);
    }
    return (int)count;
}

const struct posix_queue_ops uring_queue_ops = {
    .probe = uring_probe,
    .queue_open = uring_queue_open,
    .queue_close = uring_queue_close,
    .queue_submit = uring_queue_submit,
    .queue_reap = uring_queue_reap,
};
