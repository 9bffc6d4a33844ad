/*
 * stats.h -- medians and how far to trust them.
 */
#ifndef FIRN_BENCH_STATS_H
#define FIRN_BENCH_STATS_H

#include <stddef.h>

/** A median with its confidence interval. */
struct stats_median {
    double median;
    double low, high; /* the interval; equal to minimum and maximum when there are too few values */
    double
        confidence; /* what it really covers, such as 0.961; 0 when there are fewer than 6 values */
};

/** @return the mean of count values, 0 for none. */
double stats_mean(const double *values, size_t count);

/** @return the standard deviation of a sample (n - 1), 0 for fewer than two values. */
double stats_deviation(const double *values, size_t count);

/** @return a quantile (0 to 1) of values sorted ascending, linear between neighbours; 0 for none.
 */
double stats_quantile_sorted(const double *sorted, size_t count, double quantile);

/**
 * The same quantile of values in any order, in linear time (Hoare's FIND, 1961).
 *
 * @param values  reordered
 */
double stats_quantile(double *values, size_t count, double quantile);

/** Sort ascending, in place. */
void stats_sort(double *values, size_t count);

/**
 * The median with an interval that covers the true one with at least 95 % confidence, by order
 * statistics and the binomial distribution; it assumes nothing of the shape, but independent
 * values.
 *
 * @param sorted  ascending
 */
struct stats_median stats_median_sorted(const double *sorted, size_t count);

#endif
