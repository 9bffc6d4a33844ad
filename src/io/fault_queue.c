/*
 * Faults in queues. Each request travels below as a copy, so that the caller's is left as it is.
 * What is slow or stuck is carried out like the others and then held back here, so that it stops
 * nobody else: reaping waits below, or on the clock, until the next one may go.
 */
#include "io/fault_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <errno.h>

/* A queue below that takes nothing though nothing is under way is asked so often again. */
enum { REFUSALS_MAX = 1000 };

/* A request taken. On one list of the queue at a time, or under way below. */
struct fault_slot {
    struct io_request copy; /* first: what comes back from below is this */
    struct io_request *original;
    struct fault fault;
    uint64_t due_ns; /* FAULT_SLOW, once held */
    struct fault_slot *next;
};

struct slot_list {
    struct fault_slot *first;
    struct fault_slot **end;
    unsigned count;
};

struct fault_queue {
    struct io_driver_queue base;
    struct fault_driver *driver;
    struct io_driver_queue *below;
    unsigned depth;
    unsigned below_count;       /* under way below */
    struct slot_list free;      /* in use by nobody */
    struct slot_list backlog;   /* to be submitted below ... */
    unsigned refusals;          /* ... in vain so many times */
    struct slot_list held;      /* slow or stuck */
    struct slot_list done;      /* to be handed back */
    struct io_request **copies; /* room for `depth` */
    struct fault_slot slots[];
};

/* ---- Lists ---- */

static void list_init(struct slot_list *list)
{
    *list = (struct slot_list){.end = &list->first};
}

static void list_append(struct slot_list *list, struct fault_slot *slot)
{
    slot->next = NULL;
    *list->end = slot;
    list->end = &slot->next;
    list->count++;
}

static struct fault_slot *list_take(struct slot_list *list)
{
    struct fault_slot *slot = list->first;
    list->first = slot->next;
    if (list->first == NULL)
        list->end = &list->first;
    list->count--;
    return slot;
}

/* ---- Opening and closing ---- */

int fault_queue_open(struct io_driver *driver, unsigned depth, struct io_driver_queue **queue)
{
    struct fault_driver *self = (struct fault_driver *)driver;
    struct fault_queue *made =
        memory_zalloc(1, sizeof(*made) + (size_t)depth * sizeof(made->slots[0]));
    if (made == NULL)
        return -ENOMEM;
    int rc = -ENOMEM;
    made->copies = memory_zalloc(depth, sizeof(made->copies[0]));
    if (made->copies != NULL)
        rc = self->below->ops->queue_open(self->below, depth, &made->below);
    if (rc != 0) {
        memory_free(made->copies);
        memory_free(made);
        return rc;
    }
    made->base.ops = driver->ops;
    made->driver = self;
    made->depth = depth;
    list_init(&made->free);
    list_init(&made->backlog);
    list_init(&made->held);
    list_init(&made->done);
    for (unsigned i = 0; i < depth; i++)
        list_append(&made->free, &made->slots[i]);
    *queue = &made->base;
    return 0;
}

void fault_queue_close(struct io_driver_queue *queue_)
{
    struct fault_queue *queue = (struct fault_queue *)queue_;
    ASSERT(queue->free.count == queue->depth);
    queue->below->ops->queue_close(queue->below);
    memory_free(queue->copies);
    memory_free(queue);
}

/* ---- Submitting ---- */

static void backlog_fail(struct fault_queue *queue, int error)
{
    while (queue->backlog.count > 0) {
        struct fault_slot *slot = list_take(&queue->backlog);
        slot->copy.result = error;
        list_append(&queue->done, slot);
    }
}

/* Submit below what is left of the backlog. */
static void queue_offer(struct fault_queue *queue)
{
    if (queue->backlog.count == 0)
        return;
    unsigned count = 0;
    for (struct fault_slot *slot = queue->backlog.first; slot != NULL; slot = slot->next)
        queue->copies[count++] = &slot->copy;
    int taken = queue->below->ops->queue_submit(queue->below, queue->copies, count);
    if (taken == -EINTR || taken == -EAGAIN)
        taken = 0;
    if (taken < 0) {
        backlog_fail(queue, taken);
        return;
    }
    queue->below_count += (unsigned)taken;
    for (int i = 0; i < taken; i++)
        list_take(&queue->backlog);
    queue->refusals = queue->below_count > 0 ? 0 : queue->refusals + 1;
    if (queue->refusals > REFUSALS_MAX)
        backlog_fail(queue, -EAGAIN);
}

int fault_queue_submit(struct io_driver_queue *queue_, struct io_request *const *requests,
                       unsigned count)
{
    struct fault_queue *queue = (struct fault_queue *)queue_;
    ENSURE(count <= queue->free.count);
    for (unsigned i = 0; i < count; i++) {
        struct fault_slot *slot = list_take(&queue->free);
        const struct fault_handle *handle = requests[i]->handle;
        slot->copy = *requests[i];
        slot->original = requests[i];
        slot->fault =
            fault_decide(&queue->driver->injector, fault_target_of(slot->copy.op), handle->class);
        if (fault_answers(&slot->copy, &slot->fault)) {
            list_append(&queue->done, slot);
            continue;
        }
        fault_distort(&slot->copy, &slot->fault);
        list_append(&queue->backlog, slot);
    }
    queue_offer(queue);
    return (int)count;
}

/* ---- Reaping ---- */

/* Take what is complete below. @return 0, or a negative errno of the queue below */
static int queue_collect(struct fault_queue *queue, unsigned min_count, uint64_t deadline_ns)
{
    int count = queue->below->ops->queue_reap(queue->below, min_count, queue->depth, deadline_ns,
                                              queue->copies);
    if (count < 0)
        return count;
    queue->below_count -= (unsigned)count;
    uint64_t now_ns = clock_now(queue->driver->base.clock);
    for (int i = 0; i < count; i++) {
        struct fault_slot *slot = (struct fault_slot *)queue->copies[i];
        fault_spoil(&slot->copy, &slot->fault, slot->copy.result);
        slot->due_ns = now_ns + slot->fault.delay_ns;
        bool holds = slot->fault.kind == FAULT_SLOW || slot->fault.kind == FAULT_STUCK;
        list_append(holds ? &queue->held : &queue->done, slot);
    }
    return 0;
}

/* Let go what is due or no longer stuck. @return when to look again at what is left */
static uint64_t queue_let_go(struct fault_queue *queue)
{
    struct slot_list held = queue->held;
    uint64_t now_ns = clock_now(queue->driver->base.clock);
    uint64_t next_ns = UINT64_MAX;
    list_init(&queue->held);
    for (unsigned left = held.count; left > 0; left--) {
        struct fault_slot *slot = held.first;
        held.first = slot->next;
        bool stuck = fault_is_stuck(&queue->driver->injector, &slot->fault);
        bool early = slot->fault.kind == FAULT_SLOW && slot->due_ns > now_ns;
        list_append(stuck || early ? &queue->held : &queue->done, slot);
        uint64_t look_ns = stuck ? now_ns + FAULT_POLL_NS : early ? slot->due_ns : UINT64_MAX;
        next_ns = look_ns < next_ns ? look_ns : next_ns;
    }
    return next_ns;
}

/* Wait below if anything is under way there, else on the clock. */
static int queue_wait(struct fault_queue *queue, uint64_t until_ns)
{
    if (queue->below_count > 0)
        return queue_collect(queue, 1, until_ns);
    struct clock *clock = queue->driver->base.clock;
    if (queue->backlog.count > 0)
        clock_wait_until(clock, clock_now(clock) + FAULT_POLL_NS);
    else if (until_ns != UINT64_MAX)
        clock_wait_until(clock, until_ns);
    return 0;
}

int fault_queue_reap(struct io_driver_queue *queue_, unsigned min_count, unsigned max_count,
                     uint64_t deadline_ns, struct io_request **requests)
{
    struct fault_queue *queue = (struct fault_queue *)queue_;
    int rc = queue->below_count > 0 ? queue_collect(queue, 0, deadline_ns) : 0;
    for (;;) {
        uint64_t until_ns = queue_let_go(queue);
        queue_offer(queue);
        if (rc < 0 || queue->done.count >= min_count ||
            clock_now(queue->driver->base.clock) >= deadline_ns)
            break;
        rc = queue_wait(queue, until_ns < deadline_ns ? until_ns : deadline_ns);
    }
    if (rc < 0 && queue->done.count == 0)
        return rc;
    unsigned count = 0;
    while (count < max_count && queue->done.count > 0) {
        struct fault_slot *slot = list_take(&queue->done);
        slot->original->result = slot->copy.result;
        requests[count++] = slot->original;
        list_append(&queue->free, slot);
    }
    return (int)count;
}
