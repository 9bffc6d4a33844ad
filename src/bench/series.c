#include "bench/series.h"

#include "base/check.h"
#include "base/memory.h"

#include <limits.h>
#include <string.h>

/* A kind's histogram of an interval on its way into the series: counts by coarse bucket. */
struct coarse {
    uint64_t counts[SERIES_BUCKETS];
    unsigned used;
};

firn_rc series_open(unsigned kind_count, uint64_t interval_ns, bool open_loop,
                    struct series **series)
{
    ASSERT(kind_count > 0 && kind_count <= METER_KINDS_MAX && interval_ns > 0);
    struct series *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the intervals of a run");
    made->kind_count = kind_count;
    made->interval_ns = interval_ns;
    made->open_loop = open_loop;
    *series = made;
    return FIRN_OK;
}

static void kind_free(struct series_kind *kind, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        memory_free(kind->histogram[i]);
    memory_free(kind->histogram);
    memory_free(kind->operations);
    memory_free(kind->bytes);
    memory_free(kind->mean_ns);
    memory_free(kind->p50_ns);
    memory_free(kind->p95_ns);
    memory_free(kind->p99_ns);
    memory_free(kind->p999_ns);
    memory_free(kind->max_ns);
    memory_free(kind->schedule_p99_ns);
}

void series_close(struct series *series)
{
    if (series == NULL)
        return;
    for (unsigned k = 0; k < series->kind_count; k++)
        kind_free(&series->kinds[k], series->count);
    memory_free(series->start_ns);
    memory_free(series->length_ns);
    memory_free(series->silence_start_ns);
    memory_free(series->silence_ns);
    memory_free(series->silent_ns);
    memory_free(series->silences);
    memory_free(series);
}

static bool grow_counts(uint64_t **column, unsigned capacity)
{
    uint64_t *grown = memory_realloc(*column, capacity * sizeof(*grown));
    if (grown != NULL)
        *column = grown;
    return grown != NULL;
}

static bool grow_kind(struct series_kind *kind, unsigned capacity, bool open_loop)
{
    double *mean_ns = memory_realloc(kind->mean_ns, capacity * sizeof(*mean_ns));
    if (mean_ns == NULL)
        return false;
    kind->mean_ns = mean_ns;
    uint32_t **histogram = memory_realloc(kind->histogram, capacity * sizeof(*histogram));
    if (histogram == NULL)
        return false;
    kind->histogram = histogram;
    return grow_counts(&kind->operations, capacity) && grow_counts(&kind->bytes, capacity) &&
           grow_counts(&kind->p50_ns, capacity) && grow_counts(&kind->p95_ns, capacity) &&
           grow_counts(&kind->p99_ns, capacity) && grow_counts(&kind->p999_ns, capacity) &&
           grow_counts(&kind->max_ns, capacity) &&
           (!open_loop || grow_counts(&kind->schedule_p99_ns, capacity));
}

/* Columns grown before another one failed are only larger than they need be. */
static bool reserve_interval(struct series *series)
{
    if (series->count < series->capacity)
        return true;
    unsigned capacity = series->capacity == 0 ? 64 : series->capacity * 2;
    for (unsigned k = 0; k < series->kind_count; k++)
        if (!grow_kind(&series->kinds[k], capacity, series->open_loop))
            return false;
    if (!grow_counts(&series->start_ns, capacity) || !grow_counts(&series->length_ns, capacity) ||
        !grow_counts(&series->silence_start_ns, capacity) ||
        !grow_counts(&series->silence_ns, capacity) || !grow_counts(&series->silent_ns, capacity))
        return false;
    series->capacity = capacity;
    return true;
}

static bool reserve_silences(struct series *series, unsigned more)
{
    unsigned capacity = series->silence_capacity == 0 ? 64 : series->silence_capacity;
    while (capacity - series->silence_count < more)
        capacity *= 2;
    if (capacity == series->silence_capacity)
        return true;
    struct meter_silence *grown =
        memory_realloc(series->silences, capacity * sizeof(*series->silences));
    if (grown == NULL)
        return false;
    series->silences = grown;
    series->silence_capacity = capacity;
    return true;
}

/* floor(4 log2(value)), without the last bits of a logarithm deciding at the borders. */
static unsigned coarse_bucket(uint64_t value)
{
    static const uint64_t quarters[] = {77936, 92682, 110218}; /* 2^16 times 2^(1/4), ... */
    if (value == 0)
        return 0;
    unsigned octave = 63U - (unsigned)__builtin_clzll(value);
    uint64_t scaled = octave > 16 ? value >> (octave - 16) : value << (16 - octave);
    unsigned quarter = 0;
    while (quarter < ARRAY_COUNT(quarters) && scaled >= quarters[quarter])
        quarter++;
    return octave * SERIES_BUCKETS_PER_OCTAVE + quarter;
}

/* NULL when there is no memory. */
static uint32_t *coarse_pairs(const struct histogram *histogram)
{
    struct coarse coarse = {0};
    unsigned last = histogram_bucket(histogram->max);
    for (unsigned b = histogram_bucket(histogram->min); b <= last; b++) {
        uint64_t count = histogram->buckets[b];
        if (count == 0)
            continue;
        unsigned bucket = coarse_bucket(histogram_bucket_start(b));
        coarse.used += coarse.counts[bucket] == 0;
        coarse.counts[bucket] += count;
    }
    uint32_t *pairs = memory_alloc((2 * (size_t)coarse.used + 1) * sizeof(*pairs));
    if (pairs == NULL)
        return NULL;
    unsigned filled = 0;
    for (unsigned bucket = 0; bucket < SERIES_BUCKETS; bucket++) {
        if (coarse.counts[bucket] == 0)
            continue;
        pairs[filled++] = bucket;
        pairs[filled++] =
            coarse.counts[bucket] < UINT32_MAX ? (uint32_t)coarse.counts[bucket] : UINT32_MAX - 1;
    }
    pairs[filled] = UINT32_MAX;
    return pairs;
}

static void append_kind(struct series_kind *kind, unsigned i, const struct meter_kind_data *data,
                        uint32_t *pairs)
{
    const struct histogram *latency = &data->latency_ns;
    kind->operations[i] = latency->count;
    kind->bytes[i] = data->bytes;
    kind->mean_ns[i] = histogram_mean(latency);
    kind->p50_ns[i] = histogram_percentile(latency, 50);
    kind->p95_ns[i] = histogram_percentile(latency, 95);
    kind->p99_ns[i] = histogram_percentile(latency, 99);
    kind->p999_ns[i] = histogram_percentile(latency, 99.9);
    kind->max_ns[i] = latency->max;
    kind->histogram[i] = pairs;
    if (kind->schedule_p99_ns != NULL)
        kind->schedule_p99_ns[i] = histogram_percentile(&data->response_ns, 99);
}

static firn_rc no_memory(const struct series *series)
{
    return rc_raise(FIRN_E_NOMEM, "no memory for interval %u of the run; take longer intervals",
                    series->count);
}

firn_rc series_append(struct series *series, const struct meter_interval *interval)
{
    uint32_t *pairs[METER_KINDS_MAX] = {NULL};
    if (!reserve_interval(series) || !reserve_silences(series, interval->silence_count))
        return no_memory(series);
    for (unsigned k = 0; k < series->kind_count; k++) {
        pairs[k] = coarse_pairs(&interval->kinds[k].latency_ns);
        if (pairs[k] == NULL) {
            while (k > 0)
                memory_free(pairs[--k]);
            return no_memory(series);
        }
    }
    unsigned i = series->count++;
    for (unsigned k = 0; k < series->kind_count; k++)
        append_kind(&series->kinds[k], i, &interval->kinds[k], pairs[k]);
    series->start_ns[i] = interval->start_ns;
    series->length_ns[i] = interval->length_ns;
    series->silence_start_ns[i] = interval->silence_start_ns;
    series->silence_ns[i] = interval->silence_ns;
    series->silent_ns[i] = interval->silent_ns;
    if (interval->silence_count != 0)
        memcpy(series->silences + series->silence_count, interval->silences,
               interval->silence_count * sizeof(*series->silences));
    series->silence_count += interval->silence_count;
    return FIRN_OK;
}

uint64_t series_operations(const struct series *series, unsigned interval, unsigned except)
{
    ASSERT(interval < series->count);
    uint64_t operations = 0;
    for (unsigned k = 0; k < series->kind_count; k++)
        if (k != except)
            operations += series->kinds[k].operations[interval];
    return operations;
}

double series_rate(const struct series *series, unsigned interval, unsigned except)
{
    double operations = (double)series_operations(series, interval, except);
    uint64_t length_ns = series->length_ns[interval];
    return length_ns == 0 ? 0 : operations * 1e9 / (double)length_ns;
}
