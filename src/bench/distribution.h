/*
 * distribution.h -- which block comes next: uniform, or with some blocks hotter than others.
 *
 * The distributions and their parameters are sysbench's.
 */
#ifndef FIRN_BENCH_DISTRIBUTION_H
#define FIRN_BENCH_DISTRIBUTION_H

#include "base/rc.h"
#include "base/rng.h"

#include <stdint.h>

enum distribution_kind {
    DISTRIBUTION_UNIFORM,
    DISTRIBUTION_GAUSSIAN, /* mean of `iterations` uniform draws: a bell around the middle */
    DISTRIBUTION_SPECIAL,  /* special_share of the draws fall, uniformly, into the special_range in
                              the middle; the others as gaussian */
    DISTRIBUTION_PARETO,   /* a share pareto_h of the range gets 1 - pareto_h of the draws */
    DISTRIBUTION_ZIPFIAN,  /* the k-th value is drawn in proportion to k^-zipfian_exponent */
};

struct distribution_options {
    enum distribution_kind kind;
    unsigned iterations;     /* gaussian, special; at least 1 */
    double special_range;    /* 0 to 1 */
    double special_share;    /* 0 to 1 */
    double pareto_h;         /* above 0, below 1 */
    double zipfian_exponent; /* 0 or more */
};

/** A distribution over 0 to count - 1; the fields are distribution.c's. Any number of threads may
 * draw from one. */
struct distribution {
    struct distribution_options options;
    uint64_t count;
    double pareto_power;
    double
        zipfian_h_first; /* integral of the hat from 1/2 to 1 1/2 less the first value's weight */
    double zipfian_h_count; /* ... at count + 1/2 */
    double zipfian_shift;   /* below it the hat needs no test */
};

/**
 * Prepare to draw.
 *
 * @param count  values to draw from; at least 1
 * @return FIRN_OK; FIRN_E_INVALID when a parameter is out of its range
 */
firn_rc distribution_init(const struct distribution_options *options, uint64_t count,
                          struct distribution *distribution);

/** @return a value below count. */
uint64_t distribution_draw(const struct distribution *distribution, struct rng *rng);

#endif
