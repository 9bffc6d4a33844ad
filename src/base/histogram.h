/*
 * histogram.h -- latency histograms that merge.
 *
 * Log-linear buckets as in HdrHistogram and fio: each power of two is cut into 64 equal parts,
 * values below 128 have a bucket each. A value read back from a bucket (its middle) is off by at
 * most 1/128, 0.8 percent; minimum, maximum and sum are exact. Values are nanoseconds wherever a
 * histogram holds times; the last bucket takes everything from 2^42 ns (73 minutes) up.
 *
 * One thread may record while others read or merge from it: counters are relaxed atomics, so a
 * reader sees each counter whole, though not all of the same instant.
 */
#ifndef FIRN_BASE_HISTOGRAM_H
#define FIRN_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    HISTOGRAM_SUB_BITS = 6,
    HISTOGRAM_MAX_BITS = 42,
    HISTOGRAM_BUCKETS = (HISTOGRAM_MAX_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS,
};

struct histogram {
    _Atomic uint64_t count;
    _Atomic uint64_t sum;
    _Atomic uint64_t min; /* UINT64_MAX while empty */
    _Atomic uint64_t max;
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
};

/** @return the bucket a value falls into. */
static inline unsigned histogram_bucket(uint64_t value)
{
    if (value >> HISTOGRAM_MAX_BITS)
        return HISTOGRAM_BUCKETS - 1;
    if (value < (UINT64_C(2) << HISTOGRAM_SUB_BITS))
        return (unsigned)value;
    unsigned shift = 63U - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

/** @return the smallest value that falls into a bucket; for HISTOGRAM_BUCKETS the end of the last.
 */
uint64_t histogram_bucket_start(unsigned bucket);

/** Make zeroed memory an empty histogram. Its pages stay untouched until something is recorded, for
 * the many that never are used. */
static inline void histogram_init_zeroed(struct histogram *histogram)
{
    atomic_init(&histogram->min, UINT64_MAX);
}

/** Empty a histogram; call it once before first use. Nobody may record meanwhile. */
void histogram_reset(struct histogram *histogram);

/** Record a value. Only one thread at a time may record into a histogram. */
static inline void histogram_record(struct histogram *histogram, uint64_t value)
{
#define HISTOGRAM_STORE(field, new_value)                                                          \
    atomic_store_explicit(&histogram->field, new_value, memory_order_relaxed)
#define HISTOGRAM_LOAD(field) atomic_load_explicit(&histogram->field, memory_order_relaxed)
    unsigned bucket = histogram_bucket(value);
    HISTOGRAM_STORE(buckets[bucket], HISTOGRAM_LOAD(buckets[bucket]) + 1);
    HISTOGRAM_STORE(count, HISTOGRAM_LOAD(count) + 1);
    HISTOGRAM_STORE(sum, HISTOGRAM_LOAD(sum) + value);
    if (value < HISTOGRAM_LOAD(min))
        HISTOGRAM_STORE(min, value);
    if (value > HISTOGRAM_LOAD(max))
        HISTOGRAM_STORE(max, value);
#undef HISTOGRAM_STORE
#undef HISTOGRAM_LOAD
}

/** Record a value into a histogram that any number of threads record into. */
void histogram_record_shared(struct histogram *histogram, uint64_t value);

/** Empty a histogram that has been in use; costs the buckets between minimum and maximum only. */
void histogram_clear(struct histogram *histogram);

/** Add everything in `from` to `into`. Only one thread may write `into`. */
void histogram_merge(struct histogram *into, const struct histogram *from);

/**
 * The value below or at which a share of the recorded values lies.
 *
 * @param percent  0 to 100, such as 99.9
 * @return the middle of the bucket where the share is reached, held within minimum and maximum;
 *         0 for an empty histogram
 */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

/** @return the mean of the recorded values, 0.0 for an empty histogram. */
double histogram_mean(const struct histogram *histogram);

#endif
