/*
 * counters.c -- what the pool has done, counted without making anybody wait.
 *
 * Threads count fixes in shards of their own, as far as there are shards for them. A view counts in
 * its thread and passes on a thousand at a time, so that looking at a page writes nothing shared.
 */
#include "buffer/pool_internal.h"

enum { VIEWS_AT_ONCE = 1024 };

static atomic_uint threads_so_far;

/* Small and of static storage: its model saves a call for each access from a shared library. */
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned thread_shard; /* + 1 */
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned thread_views;

struct buffer_shard *counters_shard(struct buffer_pool *pool)
{
    if (__builtin_expect(thread_shard == 0, 0))
        thread_shard = atomic_fetch_add_explicit(&threads_so_far, 1, memory_order_relaxed) %
                           BUFFER_COUNTER_SHARDS +
                       1;
    return &pool->shards[thread_shard - 1];
}

void counters_view(struct buffer_pool *pool)
{
    if (__builtin_expect(++thread_views % VIEWS_AT_ONCE == 0, 0))
        atomic_fetch_add_explicit(&counters_shard(pool)->fixes, VIEWS_AT_ONCE,
                                  memory_order_relaxed);
}

void buffer_counters(struct buffer_pool *pool, struct buffer_counters *counters)
{
    *counters = (struct buffer_counters){
        .size_bytes = atomic_load_explicit(&pool->size_bytes, memory_order_relaxed),
        .pages_total = atomic_load_explicit(&pool->frame_count, memory_order_relaxed),
        .pages_read = atomic_load_explicit(&pool->pages_read, memory_order_relaxed),
        .pages_read_ahead = atomic_load_explicit(&pool->pages_read_ahead, memory_order_relaxed),
        .free_waits = atomic_load_explicit(&pool->free_waits, memory_order_relaxed),
    };
    for (unsigned i = 0; i < BUFFER_COUNTER_SHARDS; i++) {
        struct buffer_shard *shard = &pool->shards[i];
        counters->fixes += atomic_load_explicit(&shard->fixes, memory_order_relaxed);
        counters->misses += atomic_load_explicit(&shard->misses, memory_order_relaxed);
    }
    pthread_mutex_lock(&pool->lists_lock);
    counters->pages_free = pool->lists[BUFFER_LIST_FREE].count;
    counters->pages_old = pool->lists[BUFFER_LIST_OLD].count + pool->lists[BUFFER_LIST_COLD].count;
    counters->pages_data = counters->pages_old + pool->lists[BUFFER_LIST_YOUNG].count;
    counters->pages_made_young = pool->made_young;
    counters->pages_not_made_young = pool->not_made_young;
    counters->pages_evicted = pool->evicted;
    counters->read_ahead_evicted = pool->read_ahead_evicted;
    pthread_mutex_unlock(&pool->lists_lock);
    buffer_writer_counters(pool, counters);
}
