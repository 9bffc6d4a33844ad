/*
 * series.h -- a run's intervals kept as columns, small enough for ten hours of seconds.
 */
#ifndef FIRN_BENCH_SERIES_H
#define FIRN_BENCH_SERIES_H

#include "bench/meter.h"

#include <stdbool.h>

/**
 * Buckets of a kept interval histogram: four for each power of two, bucket b from 2^(b/4) ns up. A
 * value within 1/64 of a border may have been counted on its other side.
 */
enum { SERIES_BUCKETS_PER_OCTAVE = 4, SERIES_BUCKETS = 43 * SERIES_BUCKETS_PER_OCTAVE };

/** One kind's columns; each array has series->count elements. Times in ns. */
struct series_kind {
    uint64_t *operations;
    uint64_t *bytes;
    double *mean_ns;
    uint64_t *p50_ns, *p95_ns, *p99_ns, *p999_ns, *max_ns; /* 0 where nothing completed */
    uint64_t *schedule_p99_ns; /* open loop: of response_ns; NULL in a closed loop */
    uint32_t **histogram; /* pairs (bucket, count) of the buckets in use, ended by UINT32_MAX */
};

struct series {
    unsigned count, capacity;
    unsigned kind_count;
    uint64_t interval_ns; /* as planned */
    bool open_loop;
    uint64_t *start_ns, *length_ns;
    uint64_t *silence_start_ns, *silence_ns, *silent_ns;
    struct meter_silence *silences; /* all that the intervals listed, by start */
    unsigned silence_count, silence_capacity;
    struct series_kind kinds[METER_KINDS_MAX];
};

/**
 * Make an empty series.
 *
 * @param kind_count   as the meter has, at most METER_KINDS_MAX
 * @param interval_ns  as planned, above 0
 * @param open_loop    keep schedule_p99_ns too
 * @param series       set on success; give it back with series_close
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc series_open(unsigned kind_count, uint64_t interval_ns, bool open_loop,
                    struct series **series);

/** Free a series; NULL is allowed. */
void series_close(struct series *series);

/** Append an interval of a meter with the same kinds. FIRN_E_NOMEM leaves the series as it was. */
firn_rc series_append(struct series *series, const struct meter_interval *interval);

/** @return operations of all kinds but `except` (pass UINT_MAX for none) in an interval. */
uint64_t series_operations(const struct series *series, unsigned interval, unsigned except);

/** @return series_operations a second; 0 for an interval without length. */
double series_rate(const struct series *series, unsigned interval, unsigned except);

#endif
