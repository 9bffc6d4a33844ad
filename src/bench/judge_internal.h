/*
 * judge_internal.h -- the parts of a judgement; README.md gives the rules they follow.
 */
#ifndef FIRN_BENCH_JUDGE_INTERNAL_H
#define FIRN_BENCH_JUDGE_INTERNAL_H

#include "bench/judge.h"

/** Events of one kind, ascending. */
struct judge_events {
    struct judge_event *items;
    unsigned count, capacity;
    uint64_t grain_ns; /* what the starts were found among; they are known to a part of it */
};

/** An interval without its stalls. */
struct judge_activity {
    uint64_t start_ns, length_ns;
    uint64_t active_ns; /* length without stalls */
    double operations;
};

/** @return operations a second of the time outside stalls; NAN where too little of it is left. */
double judge_active_rate(const struct judge_activity *activity);

/** Append an event. FIRN_E_NOMEM. */
firn_rc judge_events_add(struct judge_events *events, const struct judge_event *event);

/**
 * Find the silences that are much longer than the run's usual gaps.
 *
 * @param stalls        empty; filled
 * @param usual_gap_ns  set on success
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc judge_find_stalls(const struct judge_input *input, struct judge_events *stalls,
                          uint64_t *usual_gap_ns);

/** Fill activity (one element a sample) from the samples and the stalls. */
void judge_fill_activity(const struct judge_input *input, const struct judge_events *stalls,
                         struct judge_activity *activity);

/** Find how many intervals at the beginning are unlike the rest. FIRN_E_NOMEM. */
firn_rc judge_find_warmup(const struct judge_activity *activity, unsigned count,
                          unsigned *warmup_intervals);

enum { JUDGE_BINS_MIN = 12 };

/** Intervals joined until each has operations enough; what is all stall is left out. */
struct judge_bins {
    unsigned count;    /* 0 when the run is too short or too thin; then there are no arrays */
    uint64_t grain_ns; /* length of a usual bin */
    uint64_t *start_ns, *end_ns;
    double *operations, *active_ns;
    double *baseline; /* operations that would have been usual */
    double *share;    /* operations / baseline */
    bool *taken;      /* in a slowdown that was found */
    double *scratch;  /* count of them, for whoever needs it */
};

/** Join intervals. Give the bins back with judge_bins_free. FIRN_E_NOMEM. */
firn_rc judge_bins_open(const struct judge_activity *activity, unsigned count,
                        struct judge_bins *bins);
void judge_bins_free(struct judge_bins *bins);

/** Fill baseline and share: the median around each bin of what is not taken, with its trend. */
void judge_bins_compare(struct judge_bins *bins);

/** @return whether the rate has two levels, each for much of the time. */
struct judge_speeds judge_bins_speeds(struct judge_bins *bins);

/**
 * Find the stretches that are clearly below what is usual around them, or two speeds.
 *
 * @param slowdowns  empty; filled unless there are two speeds
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc judge_find_slowdowns(const struct judge_activity *activity, unsigned count,
                             struct judge_events *slowdowns, struct judge_speeds *speeds);

/** Find the longest steady stretch of samples (the ones after the warm-up). FIRN_E_NOMEM. */
firn_rc judge_find_steady(const struct judge_sample *samples, unsigned count,
                          struct judgement *judgement);

/**
 * Find out whether events come at equal distances.
 *
 * @param period  filled, its number of events also when no period is found
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc judge_find_period(const struct judge_events *events, struct judge_period *period);

#endif
