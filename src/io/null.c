/*
 * null.c -- queues that move nothing: what is left is what Firn itself costs.
 */
#include "base/memory.h"
#include "io/posix_internal.h"
#include "io/request_list_internal.h"

#include <errno.h>

struct null_queue {
    struct io_driver_queue base;
    struct request_list submitted;
};

static int null_probe(void)
{
    return 0;
}

static int null_queue_open(struct io_driver *driver, unsigned depth, struct io_driver_queue **queue)
{
    (void)depth;
    struct null_queue *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return -ENOMEM;
    made->base.ops = driver->ops;
    *queue = &made->base;
    return 0;
}

static void null_queue_close(struct io_driver_queue *queue)
{
    memory_free(queue);
}

static int null_queue_submit(struct io_driver_queue *base, struct io_request *const *requests,
                             unsigned count)
{
    struct null_queue *queue = (struct null_queue *)base;
    for (unsigned i = 0; i < count; i++) {
        requests[i]->result = requests[i]->size_bytes;
        request_list_append(&queue->submitted, requests[i]);
    }
    return (int)count;
}

static int null_queue_reap(struct io_driver_queue *base, unsigned min_count, unsigned max_count,
                           uint64_t deadline_ns, struct io_request **requests)
{
    (void)min_count;
    (void)deadline_ns;
    struct null_queue *queue = (struct null_queue *)base;
    return (int)request_list_take_many(&queue->submitted, max_count, requests);
}

const struct posix_queue_ops null_queue_ops = {
    .probe = null_probe,
    .queue_open = null_queue_open,
    .queue_close = null_queue_close,
    .queue_submit = null_queue_submit,
    .queue_reap = null_queue_reap,
};
