/*
 * libaio.c -- queues by io_submit and io_getevents: asynchronous for direct files; for buffered
 * ones submitting waits for the copy.
 */
#include "base/memory.h"
#include "io/posix_internal.h"
#include "io/request_list_internal.h"

#include <errno.h>
#include <libaio.h>

struct libaio_queue {
    struct io_driver_queue base;
    io_context_t context;
    struct clock *clock;
    struct request_list done; /* ended without the kernel's queue */
    struct io_event *events;  /* depth of each: scratch */
    struct iocb **pointers;
    struct iocb *blocks;
};

static int libaio_probe(void)
{
    io_context_t context = NULL;
    int result = io_setup(1, &context);
    if (result == 0)
        io_destroy(context);
    return result;
}

static int libaio_queue_open(struct io_driver *driver, unsigned depth,
                             struct io_driver_queue **queue)
{
    struct libaio_queue *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return -ENOMEM;
    made->base.ops = driver->ops;
    made->clock = driver->clock;
    made->events = memory_zalloc(depth, sizeof(made->events[0]));
    made->pointers = memory_zalloc(depth, sizeof(made->pointers[0]));
    made->blocks = memory_zalloc(depth, sizeof(made->blocks[0]));
    int result = -ENOMEM;
    if (made->events != NULL && made->pointers != NULL && made->blocks != NULL)
        result = io_setup((int)depth, &made->context);
    if (result < 0) {
        memory_free(made->blocks);
        memory_free(made->pointers);
        memory_free(made->events);
        memory_free(made);
        return result;
    }
    for (unsigned i = 0; i < depth; i++)
        made->pointers[i] = &made->blocks[i];
    *queue = &made->base;
    return 0;
}

static void libaio_queue_close(struct io_driver_queue *base)
{
    struct libaio_queue *queue = (struct libaio_queue *)base;
    io_destroy(queue->context);
    memory_free(queue->blocks);
    memory_free(queue->pointers);
    memory_free(queue->events);
    memory_free(queue);
}

/* The kernel copies what this fills before io_submit returns, so a block is free again at once. */
static void fill_block(struct iocb *block, struct io_request *request)
{
    int fd = ((const struct posix_handle *)request->handle)->fd;
    const struct iovec *vectors = request->vectors;
    int count = (int)request->vector_count;
    long long offset = (long long)request->offset;
    switch (request->op) {
    case IO_OP_READ:
        if (count == 1)
            io_prep_pread(block, fd, vectors->iov_base, vectors->iov_len, offset);
        else
            io_prep_preadv(block, fd, vectors, count, offset);
        break;
    case IO_OP_WRITE:
        if (count == 1)
            io_prep_pwrite(block, fd, vectors->iov_base, vectors->iov_len, offset);
        else
            io_prep_pwritev(block, fd, vectors, count, offset);
        block->aio_rw_flags = request->is_atomic ? POSIX_RWF_ATOMIC : 0;
        break;
    case IO_OP_SYNC_DATA:
        io_prep_fdsync(block, fd);
        break;
    case IO_OP_SYNC_ALL:
        io_prep_fsync(block, fd);
        break;
    }
    block->data = request;
}

/* What the kernel refuses to queue ends here. Kernels before 4.18 queue no syncs: they are carried
   out by the caller. */
static void finish_here(struct libaio_queue *queue, struct io_request *request, int result)
{
    bool sync = request->op == IO_OP_SYNC_DATA || request->op == IO_OP_SYNC_ALL;
    request->result = sync && result == -EINVAL ? posix_execute(request) : result;
    request_list_append(&queue->done, request);
}

static int libaio_queue_submit(struct io_driver_queue *base, struct io_request *const *requests,
                               unsigned count)
{
    struct libaio_queue *queue = (struct libaio_queue *)base;
    for (unsigned i = 0; i < count; i++)
        fill_block(&queue->blocks[i], requests[i]);
    unsigned taken = 0;
    while (taken < count) {
        int result = io_submit(queue->context, (long)(count - taken), queue->pointers + taken);
        if (result > 0)
            taken += (unsigned)result;
        else if (result == 0 || result == -EAGAIN)
            break;
        else
            finish_here(queue, requests[taken++], result);
    }
    return (int)taken;
}

static int libaio_queue_reap(struct io_driver_queue *base, unsigned min_count, unsigned max_count,
                             uint64_t deadline_ns, struct io_request **requests)
{
    struct libaio_queue *queue = (struct libaio_queue *)base;
    unsigned count = request_list_take_many(&queue->done, max_count, requests);
    if (count == max_count)
        return (int)count;
    long missing = min_count > count ? (long)(min_count - count) : 0;
    struct timespec limit = {0};
    bool limited = missing == 0 || posix_wait_limit(queue->clock, deadline_ns, &limit);
    int result = io_getevents(queue->context, missing, (long)(max_count - count), queue->events,
                              limited ? &limit : NULL);
    if (result < 0)
        return count > 0 ? (int)count : result;
    for (int i = 0; i < result; i++) {
        struct io_request *request = queue->events[i].data;
        request->result = (int64_t)queue->events[i].res;
        requests[count++] = request;
    }
    return (int)count;
}

const struct posix_queue_ops libaio_queue_ops = {
    .probe = libaio_probe,
    .queue_open = libaio_queue_open,
    .queue_close = libaio_queue_close,
    .queue_submit = libaio_queue_submit,
    .queue_reap = libaio_queue_reap,
};
