/*
 * judge.h -- what a run's throughput says in words: warm-up, steady state, stalls, slowdowns, dips
 * that come back.
 *
 * A stall is a silence: nothing completed, for much longer than this device's usual gaps. A
 * slowdown is a stretch in which operations completed all the time, but clearly fewer than usual.
 * The two ask for different cures, and an average over seconds shows both as the same dent.
 */
#ifndef FIRN_BENCH_JUDGE_H
#define FIRN_BENCH_JUDGE_H

#include "base/rc.h"
#include "bench/series.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What a meter must list for judge: the shortest stall is four times as long. */
#define JUDGE_SILENCE_MIN_NS (25 * NS_PER_MS)

/** One interval of the judged rate. */
struct judge_sample {
    uint64_t start_ns, length_ns;
    double operations;
    uint64_t silence_start_ns, silence_ns; /* the longest, as in struct meter_interval */
};

/** A run to be judged. */
struct judge_input {
    const struct judge_sample *samples; /* ascending, without gaps */
    unsigned count;
    const struct meter_silence *silences; /* all of at least JUDGE_SILENCE_MIN_NS, by start; the one
                                             the run ends in may be missing */
    unsigned silence_count;
};

enum judge_kind { JUDGE_STALL, JUDGE_SLOWDOWN };

/** A stretch of trouble. */
struct judge_event {
    enum judge_kind kind;
    uint64_t start_ns;
    uint64_t length_ns;
    double rate_share; /* rate outside stalls, as a share of what was usual around it; 0 in a stall
                        */
};

/** Events of one kind, and whether they come at equal distances. */
struct judge_period {
    bool found; /* three or more that keep to a period; else period_ns and spread mean nothing */
    uint64_t period_ns; /* median distance from start to start */
    double spread;      /* median absolute deviation of the distances, as a share of the period */
    unsigned events;
    uint64_t length_ns; /* median length of an event */
    double rate_share;  /* median */
};

/** A rate with two levels, each for at least a quarter of the time: neither is a slowdown. */
struct judge_speeds {
    bool found;
    double slow_time_share; /* part of the time at the lower one */
    double slow_rate_share; /* its rate as a share of the upper one's */
};

struct judgement {
    uint64_t warmup_ns; /* the beginning that is unlike the rest; 0 for none */
    bool steady;        /* SNIA PTS: a window of five rounds within 20 % and a slope within 10 % */
    uint64_t steady_start_ns, steady_length_ns;
    double median_rate; /* operations/s over the intervals after the warm-up */
    double mean_rate;
    double relative_variation; /* standard deviation / mean of the intervals' rates after the
                                  warm-up */
    uint64_t longest_silence_ns, longest_silence_start_ns;
    uint64_t usual_gap_ns;      /* what a silence is measured against */
    struct judge_event *events; /* by start */
    unsigned event_count;
    uint64_t stalled_ns, slowed_ns; /* lengths of all events of the kind */
    struct judge_period stalls, slowdowns;
    struct judge_speeds speeds;
};

/**
 * Judge a run. src/bench/README.md says by which rules, and how far they are to be trusted.
 *
 * @param input      borrowed for the call; with fewer than 3 samples nothing but rates and silences
 *                   is judged
 * @param judgement  filled on success; give it back with judge_free
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc judge(const struct judge_input *input, struct judgement *judgement);

/**
 * Judge the run that a series holds.
 *
 * @param except  a kind that does not count into the rate (its completions do end silences), such
 *                as sync; UINT_MAX for none
 */
firn_rc judge_series(const struct series *series, unsigned except, struct judgement *judgement);

/** Free what judge has filled in; a zeroed judgement is allowed. */
void judge_free(struct judgement *judgement);

/**
 * Say it in a few sentences for people, such as "2 stalls, 4.01 s each, every 10 s: nothing
 * completed in them. Steady from 12 s on."
 *
 * @param text  size_bytes of room; always ended
 */
void judge_text(const struct judgement *judgement, char *text, size_t size_bytes);

#endif
