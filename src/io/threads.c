/*
 * threads.c -- queues by a pool of threads that block in preadv, pwritev and fsync.
 *
 * Each queue has its own pool, so nobody waits for another queue's slow request. Threads are
 * started as requests find no idle one, at most the depth or THREADS_MAX of them.
 */
#include "base/check.h"
#include "base/memory.h"
#include "io/posix_internal.h"
#include "io/request_list_internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

enum {
    THREADS_MAX = 64, /* a disk has hardly more to do at once; the rest waits in the queue */
    THREAD_STACK_BYTES = 256 << 10,
};

struct threads_queue {
    struct io_driver_queue base;
    struct clock *clock;
    unsigned threads_max;
    pthread_mutex_t mutex;       /* protects what follows; nothing else is locked meanwhile */
    pthread_cond_t work;         /* there is something to do, or it is time to end */
    pthread_cond_t reaped;       /* `done` has grown to done_wanted */
    struct request_list waiting; /* not yet begun */
    struct request_list done;
    unsigned done_wanted; /* what the reaper waits for; UINT32_MAX while it does not */
    unsigned idle;        /* threads that wait for work */
    unsigned threads;
    bool ending;
    pthread_t ids[THREADS_MAX];
};

static int threads_probe(void)
{
    return 0;
}

static void *thread_main(void *argument)
{
    struct threads_queue *queue = argument;
    pthread_mutex_lock(&queue->mutex);
    while (true) {
        while (queue->waiting.count == 0 && !queue->ending) {
            queue->idle++;
            pthread_cond_wait(&queue->work, &queue->mutex);
            queue->idle--;
        }
        if (queue->waiting.count == 0)
            break;
        struct io_request *request = request_list_take(&queue->waiting);
        pthread_mutex_unlock(&queue->mutex);
        request->result = posix_execute(request);
        pthread_mutex_lock(&queue->mutex);
        request_list_append(&queue->done, request);
        if (queue->done.count == queue->done_wanted)
            pthread_cond_signal(&queue->reaped);
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

static int threads_queue_open(struct io_driver *driver, unsigned depth,
                              struct io_driver_queue **queue)
{
    struct threads_queue *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return -ENOMEM;
    made->base.ops = driver->ops;
    made->clock = driver->clock;
    made->threads_max = depth < THREADS_MAX ? depth : THREADS_MAX;
    made->done_wanted = UINT32_MAX;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->work, NULL);
    pthread_cond_init(&made->reaped, NULL);
    *queue = &made->base;
    return 0;
}

static void threads_queue_close(struct io_driver_queue *base)
{
    struct threads_queue *queue = (struct threads_queue *)base;
    pthread_mutex_lock(&queue->mutex);
    ASSERT(queue->waiting.count == 0 && queue->done.count == 0);
    queue->ending = true;
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
    for (unsigned i = 0; i < queue->threads; i++)
        pthread_join(queue->ids[i], NULL);
    pthread_cond_destroy(&queue->reaped);
    pthread_cond_destroy(&queue->work);
    pthread_mutex_destroy(&queue->mutex);
    memory_free(queue);
}

/* Signals are for the threads of whoever uses us. */
static bool start_thread(struct threads_queue *queue)
{
    sigset_t all;
    sigset_t before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&queue->ids[queue->threads], &attributes, thread_main, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        return false;
    queue->threads++;
    return true;
}

/* Have a thread for each request that waits, as far as allowed. One that was woken before counts as
   idle until it runs, and the request that it was woken for still waits then. */
static void wake_threads(struct threads_queue *queue, unsigned count)
{
    for (unsigned i = 0; i < count && i < queue->idle; i++)
        pthread_cond_signal(&queue->work);
    for (unsigned i = queue->idle; i < queue->waiting.count && queue->threads < queue->threads_max;
         i++)
        if (!start_thread(queue))
            break;
}

static int threads_queue_submit(struct io_driver_queue *base, struct io_request *const *requests,
                                unsigned count)
{
    struct threads_queue *queue = (struct threads_queue *)base;
    pthread_mutex_lock(&queue->mutex);
    for (unsigned i = 0; i < count; i++)
        request_list_append(&queue->waiting, requests[i]);
    wake_threads(queue, count);
    if (queue->threads == 0) {
        /* No thread is to be had, so none competes for these: do them here. */
        while (queue->waiting.count > 0) {
            struct io_request *request = request_list_take(&queue->waiting);
            request->result = posix_execute(request);
            request_list_append(&queue->done, request);
        }
    }
    pthread_mutex_unlock(&queue->mutex);
    return (int)count;
}

static void wait_for_done(struct threads_queue *queue, unsigned count, uint64_t deadline_ns)
{
    struct timespec limit;
    struct timespec until;
    if (queue->done.count >= count)
        return;
    bool limited = posix_wait_limit(queue->clock, deadline_ns, &limit);
    if (limited) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        uint64_t nanoseconds = (uint64_t)until.tv_nsec + (uint64_t)limit.tv_nsec;
        until.tv_sec += limit.tv_sec + (time_t)(nanoseconds / NS_PER_S);
        until.tv_nsec = (long)(nanoseconds % NS_PER_S);
    }
    queue->done_wanted = count;
    int error = 0;
    while (queue->done.count < count && error == 0)
        error = limited
                    ? pthread_cond_clockwait(&queue->reaped, &queue->mutex, CLOCK_MONOTONIC, &until)
                    : pthread_cond_wait(&queue->reaped, &queue->mutex);
    queue->done_wanted = UINT32_MAX;
}

static int threads_queue_reap(struct io_driver_queue *base, unsigned min_count, unsigned max_count,
                              uint64_t deadline_ns, struct io_request **requests)
{
    struct threads_queue *queue = (struct threads_queue *)base;
    pthread_mutex_lock(&queue->mutex);
    wait_for_done(queue, min_count, deadline_ns);
    unsigned count = request_list_take_many(&queue->done, max_count, requests);
    pthread_mutex_unlock(&queue->mutex);
    return (int)count;
}

const struct posix_queue_ops threads_queue_ops = {
    .probe = threads_probe,
    .queue_open = threads_queue_open,
    .queue_close = threads_queue_close,
    .queue_submit = threads_queue_submit,
    .queue_reap = threads_queue_reap,
};
