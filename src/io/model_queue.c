/*
 * Queues of a modelled device. Each request travels below as a copy, so that the caller's is left
 * as it is; syncs do not travel at all. A request is ready when it is done on both sides.
 */
#include "io/model_driver_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <errno.h>
#include <unistd.h>

enum {
    REFUSALS_MAX = 1000, /* a millisecond each, as the queue above */
    REFUSAL_PAUSE_US = 1000,
};

struct slot {
    struct io_request copy; /* first: what comes back from below is this */
    struct io_request *original;
    struct model_call call;
    bool below_done, model_done;
    struct slot *next;
};

struct slot_list {
    struct slot *first;
    struct slot **end;
    unsigned count;
};

struct model_queue {
    struct io_driver_queue base;
    struct model_driver *driver;
    struct io_driver_queue *below;
    unsigned depth;
    struct model_waiter waiter;
    unsigned below_count; /* under way below */
    unsigned late_count;  /* done by the model, not below */
    struct slot_list free;
    struct slot_list offer; /* to be submitted below ... */
    unsigned refusals;      /* ... in vain so many times, with nothing under way there */
    struct slot_list ready;
    struct io_request **copies; /* room for `depth` */
    struct slot slots[];
};

/* ---- Lists ---- */

static void list_init(struct slot_list *list)
{
    *list = (struct slot_list){.end = &list->first};
}

static void list_append(struct slot_list *list, struct slot *slot)
{
    slot->next = NULL;
    *list->end = slot;
    list->end = &slot->next;
    list->count++;
}

static struct slot *list_take(struct slot_list *list)
{
    struct slot *slot = list->first;
    list->first = slot->next;
    if (list->first == NULL)
        list->end = &list->first;
    list->count--;
    return slot;
}

/* ---- Opening and closing ---- */

int model_queue_open(struct io_driver *base, unsigned depth, struct io_driver_queue **queue)
{
    struct model_driver *driver = (struct model_driver *)base;
    struct model_queue *made =
        memory_zalloc(1, sizeof(*made) + (size_t)depth * sizeof(made->slots[0]));
    if (made == NULL)
        return -ENOMEM;
    int error = -ENOMEM;
    made->copies = memory_zalloc(depth, sizeof(*made->copies));
    if (made->copies != NULL)
        error = driver->below->ops->queue_open(driver->below, depth, &made->below);
    if (error != 0) {
        memory_free(made->copies);
        memory_free(made);
        return error;
    }
    made->base.ops = base->ops;
    made->driver = driver;
    made->depth = depth;
    model_waiter_init(&made->waiter);
    list_init(&made->free);
    list_init(&made->offer);
    list_init(&made->ready);
    for (unsigned i = 0; i < depth; i++)
        list_append(&made->free, &made->slots[i]);
    *queue = &made->base;
    return 0;
}

void model_queue_close(struct io_driver_queue *base)
{
    struct model_queue *queue = (struct model_queue *)base;
    ASSERT(queue->free.count == queue->depth);
    queue->below->ops->queue_close(queue->below);
    model_waiter_destroy(&queue->waiter);
    memory_free(queue->copies);
    memory_free(queue);
}

/* ---- Both sides ---- */

static void below_done(struct model_queue *queue, struct slot *slot)
{
    slot->below_done = true;
    if (slot->model_done) {
        queue->late_count--;
        list_append(&queue->ready, slot);
    }
}

static void model_done(struct model_queue *queue, struct slot *slot)
{
    slot->model_done = true;
    if (slot->call.error != 0)
        slot->copy.result = slot->call.error;
    if (slot->below_done)
        list_append(&queue->ready, slot);
    else
        queue->late_count++;
}

/* Take over what the model has done. The driver's mutex is held. */
static void take_modelled(struct model_queue *queue)
{
    struct model_call *call = queue->waiter.done;
    queue->waiter.done = NULL;
    queue->waiter.done_tail = &queue->waiter.done;
    while (call != NULL) {
        struct model_call *next = call->next;
        model_done(queue, (struct slot *)((char *)call - offsetof(struct slot, call)));
        call = next;
    }
}

static void offer_fails(struct model_queue *queue, int error)
{
    while (queue->offer.count > 0) {
        struct slot *slot = list_take(&queue->offer);
        slot->copy.result = error;
        below_done(queue, slot);
    }
}

/* Submit below what waits for it. What it refuses for good fails. */
static void offer_below(struct model_queue *queue)
{
    if (queue->offer.count == 0)
        return;
    unsigned count = 0;
    for (struct slot *slot = queue->offer.first; slot != NULL; slot = slot->next)
        queue->copies[count++] = &slot->copy;
    int taken = queue->below->ops->queue_submit(queue->below, queue->copies, count);
    if (taken < 0 && taken != -EINTR && taken != -EAGAIN)
        offer_fails(queue, taken);
    for (int i = 0; i < taken; i++)
        list_take(&queue->offer);
    queue->below_count += taken > 0 ? (unsigned)taken : 0;
    queue->refusals = queue->below_count > 0 ? 0 : queue->refusals + 1;
    if (queue->refusals > REFUSALS_MAX)
        offer_fails(queue, -EAGAIN);
}

/* Take over what is done below. @return 0, or a negative errno of the queue below */
static int take_below(struct model_queue *queue, unsigned min_count, uint64_t deadline_ns)
{
    if (queue->below_count == 0)
        return 0;
    int count = queue->below->ops->queue_reap(queue->below, min_count, queue->depth, deadline_ns,
                                              queue->copies);
    if (count < 0)
        return count;
    queue->below_count -= (unsigned)count;
    for (int i = 0; i < count; i++)
        below_done(queue, (struct slot *)queue->copies[i]);
    offer_below(queue);
    return 0;
}

/* ---- Submitting ---- */

int model_queue_submit(struct io_driver_queue *base, struct io_request *const *requests,
                       unsigned count)
{
    struct model_queue *queue = (struct model_queue *)base;
    struct model_driver *driver = queue->driver;
    ENSURE(count <= queue->free.count);
    pthread_mutex_lock(&driver->mutex);
    for (unsigned i = 0; i < count; i++) {
        struct slot *slot = list_take(&queue->free);
        const struct model_handle *handle = requests[i]->handle;
        enum io_op op = requests[i]->op;
        slot->copy = *requests[i];
        slot->copy.handle = handle->below;
        slot->copy.result = 0;
        slot->original = requests[i];
        slot->model_done = false;
        slot->below_done = op != IO_OP_READ && op != IO_OP_WRITE;
        slot->call.waiter = &queue->waiter;
        int error = model_call_start(driver, handle, op, slot->copy.offset,
                                     model_request_bytes(&slot->copy), &slot->call);
        if (error != 0) {
            slot->copy.result = error;
            list_append(&queue->ready, slot);
        } else if (!slot->below_done) {
            list_append(&queue->offer, slot);
        }
    }
    take_modelled(queue);
    model_hand_over(driver);
    pthread_mutex_unlock(&driver->mutex);
    offer_below(queue);
    return (int)count;
}

/* ---- Reaping ---- */

static bool deadline_passed(const struct model_queue *queue, uint64_t deadline_ns)
{
    return deadline_ns != UINT64_MAX && clock_now(queue->driver->base.clock) >= deadline_ns;
}

/* Wait for the side that is behind. */
static int wait_for_more(struct model_queue *queue, uint64_t deadline_ns)
{
    if (queue->late_count > 0) {
        offer_below(queue);
        if (queue->below_count == 0 && queue->offer.count > 0)
            usleep(REFUSAL_PAUSE_US);
        return take_below(queue, 1, deadline_ns);
    }
    pthread_mutex_lock(&queue->driver->mutex);
    model_catch_up(queue->driver);
    if (queue->waiter.done == NULL)
        model_wait(queue->driver, &queue->waiter, deadline_ns);
    take_modelled(queue);
    pthread_mutex_unlock(&queue->driver->mutex);
    return take_below(queue, 0, deadline_ns);
}

int model_queue_reap(struct io_driver_queue *base, unsigned min_count, unsigned max_count,
                     uint64_t deadline_ns, struct io_request **requests)
{
    struct model_queue *queue = (struct model_queue *)base;
    struct model_driver *driver = queue->driver;
    int error = take_below(queue, 0, deadline_ns);
    pthread_mutex_lock(&driver->mutex);
    model_catch_up(driver);
    take_modelled(queue);
    pthread_mutex_unlock(&driver->mutex);
    while (error == 0 && queue->ready.count < min_count && !deadline_passed(queue, deadline_ns))
        error = wait_for_more(queue, deadline_ns);
    pthread_mutex_lock(&driver->mutex);
    model_hand_over(driver);
    pthread_mutex_unlock(&driver->mutex);
    if (error < 0 && queue->ready.count == 0)
        return error;
    unsigned count = 0;
    while (count < max_count && queue->ready.count > 0) {
        struct slot *slot = list_take(&queue->ready);
        slot->original->result = slot->copy.result;
        requests[count++] = slot->original;
        list_append(&queue->free, slot);
    }
    return (int)count;
}
