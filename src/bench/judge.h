/*
 * judge.h -- what a run's throughput says in words: warm-up, steady state, stalls, slowdowns, dips
 * that come back.
 *
 * A stall is a silence: nothing completed, for much longer than this device's usual gaps. A
 * slowdown is a stretch in which operations completed all the time, but clearly fewer than the
 * run's median. The two ask for different cures, and an average over seconds shows both as the same
 * dent.
 */
#ifndef FIRN_BENCH_JUDGE_H
#define FIRN_BENCH_JUDGE_H

#include "base/rc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** One interval of the judged rate. */
struct judge_sample {
    uint64_t start_ns, length_ns;
    double operations;
    uint64_t silence_start_ns, silence_ns; /* as in struct meter_interval */
};

enum judge_kind { JUDGE_STALL, JUDGE_SLOWDOWN };

/** A stretch of trouble. */
struct judge_event {
    enum judge_kind kind;
    uint64_t start_ns;
    uint64_t length_ns;
    double rate_share; /* rate in it as a share of the median; 0 for a stall */
};

/** Events of one kind that come at equal distances. */
struct judge_period {
    bool found;
    uint64_t period_ns; /* median distance from start to start */
    double spread;      /* median absolute deviation of the distances, as a share of the period */
    unsigned events;
    uint64_t length_ns; /* median length of an event */
    double rate_share;  /* median */
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
};

/**
 * Judge a run.
 *
 * @param samples    the intervals, ascending, without gaps
 * @param count      how many; with fewer than 3 nothing but rates and silences is judged
 * @param judgement  filled; give it back with judge_free
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc judge(const struct judge_sample *samples, unsigned count, struct judgement *judgement);
void judge_free(struct judgement *judgement);

/**
 * Say it in a few sentences for people, such as "2 stalls, 4.01 s each, every 10 s: nothing
 * completed in them. Steady from 12 s on."
 *
 * @param text  size_bytes of room; always ended
 */
void judge_text(const struct judgement *judgement, char *text, size_t size_bytes);

#endif
