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
    uint64_t grain_ns; /* how exactly starts are known */
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

/** Find the stretches that are clearly below what is usual around them. FIRN_E_NOMEM. */
firn_rc judge_find_slowdowns(const struct judge_activity *activity, unsigned count,
                             struct judge_events *slowdowns);

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
