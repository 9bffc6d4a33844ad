/*
 * counters.c -- what each class of files has cost, counted without making anybody wait.
 */
#include "base/check.h"
#include "base/memory.h"
#include "io/core_internal.h"

static void counters_reset(struct io_counters *counters)
{
    *counters = (struct io_counters){0};
    histogram_reset(&counters->read_ns);
    histogram_reset(&counters->write_ns);
    histogram_reset(&counters->sync_ns);
}

static void counters_init_zeroed(struct io_counters *counters)
{
    histogram_init_zeroed(&counters->read_ns);
    histogram_init_zeroed(&counters->write_ns);
    histogram_init_zeroed(&counters->sync_ns);
}

bool counters_prepare_class(struct io_system *system, enum io_class class)
{
    if (atomic_load_explicit(&system->shared[class], memory_order_acquire) != NULL)
        return true;
    struct shared_counters *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return false;
    counters_init_zeroed(&made->closed);
    for (unsigned i = 0; i < COUNTER_STRIPES; i++)
        counters_init_zeroed(&made->stripes[i]);
    struct shared_counters *none = NULL;
    if (!atomic_compare_exchange_strong(&system->shared[class], &none, made))
        memory_free(made);
    return true;
}

void counters_attach(struct io_system *system, struct queue_counters *counters)
{
    pthread_mutex_lock(&system->mutex);
    counters->next = system->queue_counters;
    system->queue_counters = counters;
    pthread_mutex_unlock(&system->mutex);
}

struct io_counters *counters_add_class(struct queue_counters *counters, enum io_class class)
{
    struct io_counters *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return NULL;
    counters_init_zeroed(made);
    atomic_store_explicit(&counters->classes[class], made, memory_order_release);
    return made;
}

/* Only one thread may write `into`; others may be writing `from`. */
static void counters_merge(struct io_counters *into, const struct io_counters *from)
{
#define MERGE(field) counter_add(&into->field, __atomic_load_n(&from->field, __ATOMIC_RELAXED))
    MERGE(reads);
    MERGE(writes);
    MERGE(syncs);
    MERGE(bytes_read);
    MERGE(bytes_written);
    MERGE(merged);
    MERGE(continued);
    MERGE(failed);
#undef MERGE
    histogram_merge(&into->read_ns, &from->read_ns);
    histogram_merge(&into->write_ns, &from->write_ns);
    histogram_merge(&into->sync_ns, &from->sync_ns);
}

void counters_detach(struct io_system *system, struct queue_counters *counters)
{
    pthread_mutex_lock(&system->mutex);
    struct queue_counters **link = &system->queue_counters;
    while (*link != counters)
        link = &(*link)->next;
    *link = counters->next;
    for (unsigned c = 0; c < IO_CLASS_COUNT; c++) {
        struct io_counters *own = counters->classes[c];
        if (own == NULL)
            continue;
        /* It counted requests of files, and opening a file of the class made its counters. */
        counters_merge(&atomic_load(&system->shared[c])->closed, own);
        memory_free(own);
        counters->classes[c] = NULL;
    }
    pthread_mutex_unlock(&system->mutex);
}

void counters_record(struct io_counters *counters, const struct io_request *request)
{
    if (__builtin_expect(request->rc != FIRN_OK, 0)) {
        counter_add(&counters->failed, 1);
        return;
    }
    uint64_t taken_ns = request->done_ns - request->submit_ns;
    switch (request->op) {
    case IO_OP_READ:
        counter_add(&counters->reads, 1);
        counter_add(&counters->bytes_read, request->size_bytes);
        histogram_record(&counters->read_ns, taken_ns);
        break;
    case IO_OP_WRITE:
        counter_add(&counters->writes, 1);
        counter_add(&counters->bytes_written, request->size_bytes);
        histogram_record(&counters->write_ns, taken_ns);
        break;
    case IO_OP_SYNC_DATA:
    case IO_OP_SYNC_ALL:
        counter_add(&counters->syncs, 1);
        histogram_record(&counters->sync_ns, taken_ns);
        break;
    }
}

/* Threads take stripes in turn as they come, so that few share one. */
static unsigned stripe_of_thread(void)
{
    static atomic_uint threads;
    static _Thread_local unsigned number; /* 0 until the thread has one */
    if (number == 0)
        number = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % COUNTER_STRIPES;
    return number - 1;
}

void counters_record_shared(struct io_system *system, const struct io_request *request,
                            unsigned continued)
{
    struct io_counters *counters =
        &atomic_load_explicit(&system->shared[request->file->class], memory_order_acquire)
             ->stripes[stripe_of_thread()];
#define ADD(field, added) __atomic_fetch_add(&counters->field, added, __ATOMIC_RELAXED)
    if (continued != 0)
        ADD(continued, continued);
    if (request->rc != FIRN_OK) {
        ADD(failed, 1);
        return;
    }
    uint64_t taken_ns = request->done_ns - request->submit_ns;
    switch (request->op) {
    case IO_OP_READ:
        ADD(reads, 1);
        ADD(bytes_read, request->size_bytes);
        histogram_record_shared(&counters->read_ns, taken_ns);
        break;
    case IO_OP_WRITE:
        ADD(writes, 1);
        ADD(bytes_written, request->size_bytes);
        histogram_record_shared(&counters->write_ns, taken_ns);
        break;
    case IO_OP_SYNC_DATA:
    case IO_OP_SYNC_ALL:
        ADD(syncs, 1);
        histogram_record_shared(&counters->sync_ns, taken_ns);
        break;
    }
#undef ADD
}

void io_system_counters(struct io_system *system, enum io_class class, struct io_counters *counters)
{
    ASSERT(class <= IO_CLASS_COUNT);
    unsigned first = class == IO_CLASS_COUNT ? 0 : class;
    unsigned last = class == IO_CLASS_COUNT ? IO_CLASS_COUNT - 1 : class;
    counters_reset(counters);
    pthread_mutex_lock(&system->mutex);
    for (unsigned c = first; c <= last; c++) {
        const struct shared_counters *shared = atomic_load(&system->shared[c]);
        if (shared == NULL)
            continue;
        counters_merge(counters, &shared->closed);
        for (unsigned i = 0; i < COUNTER_STRIPES; i++)
            counters_merge(counters, &shared->stripes[i]);
        for (struct queue_counters *q = system->queue_counters; q != NULL; q = q->next) {
            const struct io_counters *own = atomic_load(&q->classes[c]);
            if (own != NULL)
                counters_merge(counters, own);
        }
    }
    pthread_mutex_unlock(&system->mutex);
}
