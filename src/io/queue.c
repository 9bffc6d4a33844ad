/*
 * queue.c -- batches: merging, the depth, short transfers and giving each request its own answer.
 *
 * A caller's request is always in one of three places: held (waiting for a place in the depth),
 * under way (the driver has it), or done (waiting to be handed back). Where adjacent requests were
 * merged, the driver has a carrier, which is the queue's, and the carrier has the requests.
 */
#include "base/check.h"
#include "base/memory.h"
#include "io/core_internal.h"
#include "io/request_list_internal.h"

#include <errno.h>
#include <unistd.h>

enum {
    QUEUE_DEPTH_MAX = 4096,
    MERGE_MEMBERS_MAX = 256, /* 1 MiB of 4 KiB pages; well under the kernel's 1024 vectors */
    SORT_BINS = 32,          /* lists of 1, 2, 4, ... requests: more than memory holds */
    REFUSALS_MAX = 1000,     /* a millisecond each: the kernel is not getting better */
    REFUSAL_PAUSE_US = 1000,
};

/* A merged request under way. The request comes first: the one is found from the other. */
struct carrier {
    struct io_request request;
    struct carrier *next_free;
    struct iovec vectors[MERGE_MEMBERS_MAX];
};

struct io_queue {
    struct io_system *system;
    struct clock *clock;
    pthread_t owner; /* who opened it and alone may use it */
    struct io_driver_queue *driver_queue;
    unsigned depth;
    uint32_t merge_max_bytes;
    unsigned under_way; /* what the driver has, at most depth ... */
    unsigned carriers;  /* ... and how much of it is merged */
    unsigned pending;   /* callers' requests not yet handed back */
    unsigned refusals;  /* in a row, with nothing under way */
    struct request_list held;
    struct request_list done;
    struct carrier *free_carriers;
    struct queue_counters counters;
    struct io_request *scratch[]; /* depth of them: what is offered to or returned by the driver */
};

/* ---- Merging ---- */

static bool sorts_before(const struct io_request *left, const struct io_request *right)
{
    if (left->file != right->file)
        return left->file->number < right->file->number;
    if (left->op != right->op)
        return left->op < right->op;
    return left->offset < right->offset;
}

static struct io_request *merge_sorted(struct io_request *left, struct io_request *right)
{
    struct io_request *first = NULL;
    struct io_request **link = &first;
    while (left != NULL && right != NULL) {
        struct io_request **from = sorts_before(right, left) ? &right : &left;
        *link = *from;
        link = &(*from)->next;
        *from = *link;
    }
    *link = left != NULL ? left : right;
    return first;
}

/* Bottom-up merge sort of a linked list: stable, and it needs no memory, so a batch cannot fail. */
static void list_sort(struct request_list *list)
{
    struct io_request *bins[SORT_BINS] = {NULL};
    unsigned used = 0;
    struct io_request *next;
    for (struct io_request *request = list->first; request != NULL; request = next) {
        next = request->next;
        request->next = NULL;
        struct io_request *run = request;
        unsigned bin = 0;
        for (; bin < used && bins[bin] != NULL; bin++) {
            run = merge_sorted(bins[bin], run);
            bins[bin] = NULL;
        }
        if (bin == used)
            used++;
        bins[bin] = run;
    }
    struct io_request *sorted = NULL;
    for (unsigned bin = 0; bin < used; bin++)
        sorted = merge_sorted(bins[bin], sorted);
    list->first = sorted;
    while (sorted->next != NULL)
        sorted = sorted->next;
    list->last = sorted;
}

static bool list_is_sorted(const struct request_list *list)
{
    for (const struct io_request *r = list->first; r->next != NULL; r = r->next)
        if (sorts_before(r->next, r))
            return false;
    return true;
}

static bool is_adjacent(const struct io_request *left, const struct io_request *right)
{
    return left->file == right->file && left->op == right->op && !op_is_sync(left->op) &&
           !left->is_atomic && !right->is_atomic &&
           left->offset + left->size_bytes == right->offset;
}

/* Find the runs that will travel together. Until it is dispatched, the first request of a run says
   in vector_count how many follow each other, itself included. */
static void group_batch(const struct io_queue *queue, struct request_list *batch)
{
    if (!list_is_sorted(batch))
        list_sort(batch);
    struct io_request *first = batch->first;
    uint64_t run_bytes = first->size_bytes;
    for (struct io_request *r = first; r->next != NULL; r = r->next) {
        struct io_request *next = r->next;
        if (is_adjacent(r, next) && run_bytes + next->size_bytes <= queue->merge_max_bytes &&
            first->vector_count < MERGE_MEMBERS_MAX) {
            first->vector_count++;
            run_bytes += next->size_bytes;
        } else {
            first = next;
            run_bytes = next->size_bytes;
        }
    }
}

static struct carrier *carrier_take(struct io_queue *queue)
{
    struct carrier *carrier = queue->free_carriers;
    if (carrier == NULL)
        return memory_alloc(sizeof(*carrier));
    queue->free_carriers = carrier->next_free;
    return carrier;
}

static void carrier_release(struct io_queue *queue, struct carrier *carrier)
{
    carrier->next_free = queue->free_carriers;
    queue->free_carriers = carrier;
}

/* Put a held run of `count` requests into a carrier. @return NULL without memory, the run as it was
 */
static struct io_request *carrier_load(struct io_queue *queue, unsigned count)
{
    struct carrier *carrier = carrier_take(queue);
    if (carrier == NULL)
        return NULL;
    struct io_request *first = queue->held.first;
    struct request_list members = {0};
    uint32_t size_bytes = 0;
    unsigned vectors = 0;
    for (unsigned i = 0; i < count; i++) {
        struct io_request *member = request_list_take(&queue->held);
        struct iovec *last = vectors > 0 ? &carrier->vectors[vectors - 1] : NULL;
        member->vector_count = 1;
        if (last != NULL && (char *)last->iov_base + last->iov_len == (char *)member->buffer)
            last->iov_len += member->size_bytes;
        else
            carrier->vectors[vectors++] = member->vector;
        size_bytes += member->size_bytes;
        request_list_append(&members, member);
    }
    carrier->request = (struct io_request){
        .file = first->file,
        .op = first->op,
        .size_bytes = size_bytes,
        .buffer = first->buffer,
        .offset = first->offset,
        .submit_ns = first->submit_ns,
        .members = members.first,
        .vectors = carrier->vectors,
        .vector_count = vectors,
    };
    return &carrier->request;
}

/* ---- Completion ---- */

static struct io_counters *counters_of(struct io_queue *queue, const struct io_request *request)
{
    return atomic_load_explicit(&queue->counters.classes[request->file->class],
                                memory_order_relaxed);
}

static void queue_finish(struct io_queue *queue, struct io_request *request, uint64_t now_ns)
{
    request->done_ns = now_ns;
    counters_record(counters_of(queue, request), request);
    request_list_append(&queue->done, request);
}

/*
 * End a carrier. Members that were moved whole are done. If it failed or came back short, the
 * others are tried alone, so that one bad page fails one request, and each learns its own reason.
 */
static void carrier_settle(struct io_queue *queue, struct io_request *request, uint64_t now_ns)
{
    if (request->result < 0 && request_wants_retry(request)) {
        request_list_prepend(&queue->held, request);
        return;
    }
    struct io_counters *counters = counters_of(queue, request);
    uint64_t moved_bytes = request->result < 0 ? 0 : (uint64_t)request->result;
    uint64_t end_bytes = 0;
    uint64_t together = 0;
    struct request_list alone = {0};
    struct io_request *next;
    for (struct io_request *member = request->members; member != NULL; member = next) {
        next = member->next;
        end_bytes += member->size_bytes;
        if (end_bytes <= moved_bytes) {
            member->result = member->size_bytes;
            queue_finish(queue, member, now_ns);
            together++;
        } else {
            request_list_append(&alone, member);
        }
    }
    if (together > 1)
        counter_add(&counters->merged, together - 1);
    if (alone.count != 0 && moved_bytes != 0)
        counter_add(&counters->continued, 1);
    request_list_join(&alone, &queue->held);
    queue->held = alone;
    carrier_release(queue, (struct carrier *)request);
}

static void queue_settle(struct io_queue *queue, struct io_request *request, uint64_t now_ns)
{
    if (__builtin_expect(request->members != NULL, 0)) {
        queue->carriers--;
        carrier_settle(queue, request, now_ns);
        return;
    }
    switch (request_settle(request)) {
    case REQUEST_DONE:
        queue_finish(queue, request, now_ns);
        break;
    case REQUEST_CONTINUE:
        counter_add(&counters_of(queue, request)->continued, 1);
        request_list_prepend(&queue->held, request);
        break;
    case REQUEST_RETRY:
        request_list_prepend(&queue->held, request);
        break;
    }
}

/* ---- Dispatch ---- */

/* The next system request from what is held. @return NULL if what was next ended without one */
static struct io_request *take_held(struct io_queue *queue)
{
    struct io_request *first = queue->held.first;
    if (first->members == NULL && first->vector_count > 1) {
        unsigned count = first->vector_count;
        struct io_request *carrier = carrier_load(queue, count);
        if (carrier != NULL)
            return carrier;
        first->vector_count = 1; /* without memory the run travels one by one */
        first->next->vector_count = count - 1;
    }
    request_list_take(&queue->held);
    if (request_refuse_sync(first)) {
        queue_finish(queue, first, clock_now(queue->clock));
        return NULL;
    }
    return first;
}

static unsigned collect_offer(struct io_queue *queue)
{
    unsigned count = 0;
    while (queue->held.first != NULL && queue->under_way + count < queue->depth) {
        struct io_request *request = take_held(queue);
        if (request == NULL)
            continue;
        request->handle = request->file->handle;
        queue->carriers += request->members != NULL;
        queue->scratch[count++] = request;
    }
    return count;
}

/* End requests as if the driver had carried them out with this result. */
static void fail_offer(struct io_queue *queue, unsigned count, int64_t result)
{
    uint64_t now_ns = clock_now(queue->clock);
    for (unsigned i = 0; i < count; i++) {
        queue->scratch[i]->result = result;
        queue->scratch[i]->retries = UINT32_MAX;
        queue_settle(queue, queue->scratch[i], now_ns);
    }
}

static void return_offer(struct io_queue *queue, unsigned taken, unsigned count)
{
    while (count > taken) {
        struct io_request *request = queue->scratch[--count];
        queue->carriers -= request->members != NULL;
        request_list_prepend(&queue->held, request);
    }
}

/* Start what the depth allows of what is held. On return something is under way, or all is done, or
   the kernel has to be asked again. */
static void queue_dispatch(struct io_queue *queue)
{
    while (queue->held.first != NULL && queue->under_way < queue->depth) {
        unsigned count = collect_offer(queue);
        if (count == 0)
            continue;
        int taken =
            queue->driver_queue->ops->queue_submit(queue->driver_queue, queue->scratch, count);
        if (taken == -EINTR || taken == -EAGAIN)
            taken = 0;
        if (taken < 0) {
            fail_offer(queue, count, taken);
            continue;
        }
        ENSURE((unsigned)taken <= count);
        queue->under_way += (unsigned)taken;
        if ((unsigned)taken == count) {
            queue->refusals = 0;
            continue;
        }
        if (queue->under_way == 0 && ++queue->refusals > REFUSALS_MAX) {
            queue->refusals = 0;
            fail_offer(queue, count, -EAGAIN);
            continue;
        }
        return_offer(queue, (unsigned)taken, count);
        return;
    }
}

/* ---- The interface ---- */

static const char *likely_reason(enum io_backend backend, int error)
{
    if (backend == IO_BACKEND_LIBAIO && error == EAGAIN)
        return " (fs.aio-max-nr leaves no room for it)";
    if (backend == IO_BACKEND_URING && error == ENOMEM)
        return " (ulimit -l may be too low for it)";
    return "";
}

firn_rc io_queue_open(struct io_system *system, const struct io_queue_options *options,
                      struct io_queue **queue)
{
    if (options->depth < 1 || options->depth > QUEUE_DEPTH_MAX)
        return rc_raise(FIRN_E_INVALID, "a queue depth of %u is outside 1 to %u", options->depth,
                        QUEUE_DEPTH_MAX);
    struct io_queue *made =
        memory_zalloc(1, sizeof(*made) + options->depth * sizeof(made->scratch[0]));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a queue of depth %u", options->depth);
    struct io_driver *driver = system->driver;
    int error = -driver->ops->queue_open(driver, options->depth, &made->driver_queue);
    if (error != 0) {
        memory_free(made);
        return io_raise(error, "cannot open a queue of depth %u by %s%s", options->depth,
                        driver->name, likely_reason(driver->backend, error));
    }
    made->system = system;
    made->owner = pthread_self();
    made->clock = driver->clock;
    made->depth = options->depth;
    made->merge_max_bytes = options->merge_max_bytes;
    counters_attach(system, &made->counters);
    atomic_fetch_add(&system->queues, 1);
    *queue = made;
    return FIRN_OK;
}

/* Wait for at least wait_count system requests (or only look) and settle what has come back. */
static void queue_collect(struct io_queue *queue, unsigned wait_count, uint64_t deadline_ns)
{
    int count = queue->driver_queue->ops->queue_reap(queue->driver_queue, wait_count, queue->depth,
                                                     deadline_ns, queue->scratch);
    if (count == -EINTR || count == -EAGAIN || count == 0)
        return;
    /* Any other failure leaves buffers in the kernel's hands that nobody can get back. */
    ENSURE(count > 0 && (unsigned)count <= queue->under_way);
    uint64_t now_ns = clock_now(queue->clock);
    queue->under_way -= (unsigned)count;
    for (int i = 0; i < count; i++)
        queue_settle(queue, queue->scratch[i], now_ns);
}

void io_queue_close(struct io_queue *queue)
{
    if (queue == NULL)
        return;
    ASSERT(pthread_equal(queue->owner, pthread_self()));
    /* What is held stays unstarted; what comes back unfinished joins it. */
    while (queue->under_way > 0)
        queue_collect(queue, queue->under_way, UINT64_MAX);
    queue->driver_queue->ops->queue_close(queue->driver_queue);
    counters_detach(queue->system, &queue->counters);
    while (queue->held.first != NULL) {
        struct io_request *request = request_list_take(&queue->held);
        if (request->members != NULL)
            carrier_release(queue, (struct carrier *)request);
    }
    while (queue->free_carriers != NULL)
        memory_free(carrier_take(queue));
    atomic_fetch_sub(&queue->system->queues, 1);
    memory_free(queue);
}

firn_rc io_queue_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count)
{
    ASSERT(pthread_equal(queue->owner, pthread_self()));
    struct request_list batch = {0};
    struct request_list refused = {0};
    uint64_t now_ns = count > 0 ? clock_now(queue->clock) : 0;
    for (unsigned i = 0; i < count; i++) {
        struct io_request *request = requests[i];
        enum io_class class = request->file->class;
        if (counters_of(queue, request) == NULL &&
            counters_add_class(&queue->counters, class) == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory to count %s requests in a queue",
                            io_class_name(class));
        request->submit_ns = now_ns;
        request_list_append(request_prepare(request) ? &batch : &refused, request);
    }
    queue->pending += count;
    while (refused.first != NULL)
        queue_finish(queue, request_list_take(&refused), now_ns);
    if (batch.count > 1 && queue->merge_max_bytes != 0)
        group_batch(queue, &batch);
    request_list_join(&queue->held, &batch);
    queue_dispatch(queue);
    return FIRN_OK;
}

/* How many system requests to wait for so that `missing` callers' requests come back, but no more
   than needed: a merged one may bring them all. */
static unsigned count_to_wait_for(const struct io_queue *queue, unsigned missing)
{
    if (missing > 1 && queue->carriers > 0)
        return 1;
    return missing < queue->under_way ? missing : queue->under_way;
}

/* Go on until min_count are done, nothing is left to wait for or the deadline has passed; look at
   least once if none is. */
static void wait_for_done(struct io_queue *queue, unsigned min_count, uint64_t deadline_ns)
{
    bool looked = false;
    while (queue->done.count < min_count || (queue->done.count == 0 && !looked)) {
        if (queue->under_way == 0 && queue->held.first == NULL)
            return;
        if (looked && deadline_ns != UINT64_MAX && clock_now(queue->clock) >= deadline_ns)
            return;
        unsigned missing = queue->done.count < min_count ? min_count - queue->done.count : 0;
        if (queue->under_way > 0)
            queue_collect(queue, count_to_wait_for(queue, missing), deadline_ns);
        else if (missing > 0 && queue->refusals > 0)
            usleep(REFUSAL_PAUSE_US);
        queue_dispatch(queue);
        looked = true;
    }
}

unsigned io_queue_reap_until(struct io_queue *queue, unsigned min_count, unsigned max_count,
                             uint64_t deadline_ns, struct io_request **requests)
{
    ASSERT(pthread_equal(queue->owner, pthread_self()));
    ASSERT(max_count >= min_count);
    wait_for_done(queue, min_count, deadline_ns);
    unsigned count = request_list_take_many(&queue->done, max_count, requests);
    queue->pending -= count;
    return count;
}

unsigned io_queue_reap(struct io_queue *queue, unsigned min_count, unsigned max_count,
                       struct io_request **requests)
{
    return io_queue_reap_until(queue, min_count, max_count, UINT64_MAX, requests);
}

unsigned io_queue_pending(const struct io_queue *queue)
{
    return queue->pending;
}
