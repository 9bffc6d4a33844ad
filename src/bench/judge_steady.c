#include "base/check.h"
#include "base/memory.h"
#include "bench/judge_internal.h"
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

enum {
    BATCH_INTERVALS_MAX = 5,
    BATCHES = 40, /* of a run that has intervals enough */
    INTERVALS_MIN = 10,
    UNLIKE_BATCHES_MIN = 2, /* one may be an outlier */
    WINDOW_ROUNDS = 5,
    ROUNDS = 10, /* of a run that has intervals enough */
};

/* SNIA's limits, as shares of the window's average. */
#define RANGE_MAX 0.20
#define SLOPE_MAX 0.10

/* A beginning is unlike the rest when it is off by so much of the rest's median, lies outside of
   what all but one in twenty batches of the rest do, and that range away or (the more batches
   agree) this part of it. */
#define UNLIKE_SHARE     0.05
#define UNLIKE_QUANTILE  0.025
#define UNLIKE_RANGE_MIN 0.5
#define UNLIKE_PART      0.8 /* of the batches of the beginning lie outside */

/* Means of batches of intervals' rates; a batch without a rate repeats the one before. */
static unsigned batches_fill(const struct judge_activity *activity, unsigned count,
                             unsigned intervals, double *batches)
{
    unsigned used = 0;
    for (unsigned i = 0; i + intervals <= count; i += intervals) {
        struct judge_activity sum = {0};
        for (unsigned j = i; j < i + intervals; j++) {
            sum.length_ns += activity[j].length_ns;
            sum.active_ns += activity[j].active_ns;
            sum.operations += activity[j].operations;
        }
        double rate = judge_active_rate(&sum);
        batches[used] = isnan(rate) ? (used == 0 ? 0 : batches[used - 1]) : rate;
        used++;
    }
    return used;
}

/* MSER (White, "An effective truncation heuristic for bias reduction in simulation output", 1997):
   leave out as many batches at the beginning as makes the confidence interval of the rest's mean
   narrowest. More than half are never left out; a minimum there means that the run never settled,
   and nothing is. */
static unsigned mser_truncation(const double *batches, unsigned count)
{
    double sum = 0;
    double squares = 0;
    double best = INFINITY;
    unsigned truncation = 0;
    /* Deviations from some value near the mean keep the digits that squares would cancel. */
    double origin = stats_mean(batches, count);
    for (unsigned left = count; left-- > 0;) {
        double value = batches[left] - origin;
        double n = (double)(count - left);
        sum += value;
        squares += value * value;
        if (left > count / 2)
            continue;
        double error = (squares - sum * sum / n) / (n * n);
        if (error <= best) {
            best = error;
            truncation = left;
        }
    }
    return truncation == count / 2 ? 0 : truncation;
}

/* How far the second half lies from the first: a run that goes on moving never warmed up. */
static double moved(const double *batches, unsigned count, double *scratch)
{
    unsigned half = count / 2;
    for (unsigned i = 0; i < count; i++)
        scratch[i] = batches[i];
    return fabs(stats_quantile(scratch, half, 0.5) -
                stats_quantile(scratch + half, count - half, 0.5));
}

/*
 * How many of the first batches are really another thing than the rest. Where the rest is noisy
 * MSER's minimum is flat and lies late, so batches that the rest holds too are given back first.
 * What remains must differ by more than the rest does in itself: chance puts some extreme batch in
 * front of one run in ten or so.
 */
static unsigned unlike_rest(const double *batches, unsigned first, unsigned count, double *scratch)
{
    unsigned rest = count - first;
    for (unsigned i = 0; i < rest; i++)
        scratch[i] = batches[first + i];
    double low = stats_quantile(scratch, rest, UNLIKE_QUANTILE);
    double high = stats_quantile(scratch, rest, 1 - UNLIKE_QUANTILE);
    double median = stats_quantile(scratch, rest, 0.5);
    bool below = batches[0] < median;
    unsigned outside = 0;
    unsigned agreeing = 0;
    for (unsigned i = 0; i < first; i++) {
        if (below ? batches[i] >= low : batches[i] <= high)
            continue;
        outside++;
        if (outside >= UNLIKE_PART * (i + 1))
            agreeing = i + 1;
    }
    first = agreeing;
    if (first < UNLIKE_BATCHES_MIN)
        return 0;
    for (unsigned i = 0; i < first; i++)
        scratch[i] = batches[i];
    double begin = stats_quantile(scratch, first, 0.5);
    double off = fabs(begin - median);
    return off > UNLIKE_SHARE * median &&
                   off > (high - low) * fmax(UNLIKE_RANGE_MIN, 1 / sqrt((double)first)) &&
                   4 * moved(batches + first, count - first, scratch) < off
               ? first
               : 0;
}

firn_rc judge_find_warmup(const struct judge_activity *activity, unsigned count,
                          unsigned *warmup_intervals)
{
    *warmup_intervals = 0;
    if (count < INTERVALS_MIN)
        return FIRN_OK;
    unsigned intervals = count / BATCHES;
    intervals = intervals == 0                    ? 1
                : intervals > BATCH_INTERVALS_MAX ? BATCH_INTERVALS_MAX
                                                  : intervals;
    double *batches = memory_alloc(2 * (size_t)count * sizeof(*batches));
    if (batches == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge a run of %u intervals", count);
    unsigned used = batches_fill(activity, count, intervals, batches);
    unsigned first = mser_truncation(batches, used);
    *warmup_intervals = unlike_rest(batches, first, used, batches + count) * intervals;
    memory_free(batches);
    return FIRN_OK;
}

/* SNIA Solid State Storage Performance Test Specification (Enterprise), "steady state": within a
   window of five rounds the values' range is within 20 % of their average and the best straight
   line through them rises or falls by no more than 10 % of it. */
static bool window_is_steady(const double *rounds)
{
    double average = stats_mean(rounds, WINDOW_ROUNDS);
    double low = rounds[0];
    double high = rounds[0];
    double product = 0;
    double squares = 0;
    for (int i = 0; i < WINDOW_ROUNDS; i++) {
        double x = i - (WINDOW_ROUNDS - 1) / 2.0;
        low = fmin(low, rounds[i]);
        high = fmax(high, rounds[i]);
        product += x * rounds[i];
        squares += x * x;
    }
    double rise = product / squares * (WINDOW_ROUNDS - 1);
    return average > 0 && high - low <= RANGE_MAX * average && fabs(rise) <= SLOPE_MAX * average;
}

static unsigned rounds_fill(const struct judge_sample *samples, unsigned count, unsigned intervals,
                            double *rounds)
{
    unsigned used = 0;
    for (unsigned i = 0; i + intervals <= count; i += intervals) {
        double operations = 0;
        uint64_t length_ns = 0;
        for (unsigned j = i; j < i + intervals; j++) {
            operations += samples[j].operations;
            length_ns += samples[j].length_ns;
        }
        rounds[used++] = length_ns == 0 ? 0 : operations / (double)length_ns;
    }
    return used;
}

firn_rc judge_find_steady(const struct judge_sample *samples, unsigned count,
                          struct judgement *judgement)
{
    if (count < WINDOW_ROUNDS)
        return FIRN_OK;
    unsigned intervals = count < 2 * ROUNDS ? 1 : count / ROUNDS;
    double *rounds = memory_alloc((count / intervals + 1) * sizeof(*rounds));
    if (rounds == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge a run of %u intervals", count);
    unsigned used = rounds_fill(samples, count, intervals, rounds);
    unsigned best_first = 0, best_rounds = 0;
    unsigned rounds_here = 0; /* of the stretch of steady windows that ends here */
    for (unsigned first = 0; first + WINDOW_ROUNDS <= used; first++) {
        if (!window_is_steady(rounds + first)) {
            rounds_here = 0;
            continue;
        }
        rounds_here = rounds_here == 0 ? WINDOW_ROUNDS : rounds_here + 1;
        if (rounds_here > best_rounds) {
            best_rounds = rounds_here;
            best_first = first + WINDOW_ROUNDS - rounds_here;
        }
    }
    memory_free(rounds);
    if (best_rounds == 0)
        return FIRN_OK;
    /* What is left over of a last round counts to a stretch that reaches it. */
    unsigned end = (best_first + best_rounds) * intervals;
    const struct judge_sample *last =
        &samples[best_first + best_rounds == used ? count - 1 : end - 1];
    judgement->steady = true;
    judgement->steady_start_ns = samples[best_first * intervals].start_ns;
    judgement->steady_length_ns = last->start_ns + last->length_ns - judgement->steady_start_ns;
    return FIRN_OK;
}
