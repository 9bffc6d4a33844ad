#include "base/histogram.h"

#include "base/check.h"

#include <assert.h>
#include <math.h>

static_assert(HISTOGRAM_BUCKETS == 37 * 64, "36 octaves of 64 parts after the first 64 values");

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void store(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

uint64_t histogram_bucket_start(unsigned bucket)
{
    ASSERT(bucket <= HISTOGRAM_BUCKETS);
    if (bucket < (2U << HISTOGRAM_SUB_BITS))
        return bucket;
    unsigned shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
    uint64_t part = bucket - (shift << HISTOGRAM_SUB_BITS);
    return part << shift;
}

void histogram_reset(struct histogram *histogram)
{
    store(&histogram->count, 0);
    store(&histogram->sum, 0);
    store(&histogram->min, UINT64_MAX);
    store(&histogram->max, 0);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        store(&histogram->buckets[i], 0);
}

void histogram_clear(struct histogram *histogram)
{
    unsigned last = histogram_bucket(load(&histogram->max));
    for (unsigned i = histogram_bucket(load(&histogram->min)); i <= last; i++)
        store(&histogram->buckets[i], 0);
    store(&histogram->count, 0);
    store(&histogram->sum, 0);
    store(&histogram->min, UINT64_MAX);
    store(&histogram->max, 0);
}

void histogram_record_shared(struct histogram *histogram, uint64_t value)
{
    atomic_fetch_add_explicit(&histogram->buckets[histogram_bucket(value)], 1,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value, memory_order_relaxed);
    uint64_t seen = load(&histogram->min);
    while (value < seen && !atomic_compare_exchange_weak(&histogram->min, &seen, value))
        ;
    seen = load(&histogram->max);
    while (value > seen && !atomic_compare_exchange_weak(&histogram->max, &seen, value))
        ;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    store(&into->count, load(&into->count) + load(&from->count));
    store(&into->sum, load(&into->sum) + load(&from->sum));
    if (load(&from->min) < load(&into->min))
        store(&into->min, load(&from->min));
    if (load(&from->max) > load(&into->max))
        store(&into->max, load(&from->max));
    unsigned last = histogram_bucket(load(&from->max));
    for (unsigned i = histogram_bucket(load(&from->min)); i <= last; i++) {
        uint64_t added = load(&from->buckets[i]);
        if (added != 0)
            store(&into->buckets[i], load(&into->buckets[i]) + added);
    }
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    uint64_t total = 0;
    unsigned first = histogram_bucket(load(&histogram->min));
    unsigned last = histogram_bucket(load(&histogram->max));
    for (unsigned i = first; i <= last; i++)
        total += load(&histogram->buckets[i]);
    if (total == 0)
        return 0;
    uint64_t rank = (uint64_t)ceil((double)total * percent / 100.0);
    if (rank == 0)
        rank = 1;
    uint64_t seen = 0;
    unsigned bucket = first;
    for (; bucket < last; bucket++) {
        seen += load(&histogram->buckets[bucket]);
        if (seen >= rank)
            break;
    }
    uint64_t start = histogram_bucket_start(bucket);
    uint64_t value = start + (histogram_bucket_start(bucket + 1) - start) / 2;
    uint64_t min = load(&histogram->min);
    uint64_t max = load(&histogram->max);
    return value < min ? min : value > max ? max : value;
}

double histogram_mean(const struct histogram *histogram)
{
    uint64_t count = load(&histogram->count);
    return count == 0 ? 0.0 : (double)load(&histogram->sum) / (double)count;
}
