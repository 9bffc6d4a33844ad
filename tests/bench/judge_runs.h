/*
 * judge_runs.h -- made-up runs for the tests of the judge: what a meter would say of a device whose
 * behaviour is laid down.
 */
#ifndef TESTS_BENCH_JUDGE_RUNS_H
#define TESTS_BENCH_JUDGE_RUNS_H

#include "base/rng.h"
#include "bench/judge.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/** A train of windows: the first begins at phase_s, each lasts length_s, one every period_s. */
struct train {
    double period_s, length_s, phase_s; /* period_s of 0: none */
};

static inline bool in_train(const struct train *train, double at_s)
{
    if (train->period_s <= 0 || at_s < train->phase_s)
        return false;
    return fmod(at_s - train->phase_s, train->period_s) < train->length_s;
}

enum noise_shape { NOISE_NORMAL, NOISE_HEAVY, NOISE_SKEWED };

/** A run laid down by rates. */
struct run_plan {
    double run_s, interval_s;
    double rate;        /* operations/s at the start */
    double end_rate;    /* at the end, on a straight line; 0: as at the start */
    double variation;   /* standard deviation of an interval's rate, of the rate */
    double correlation; /* of neighbouring intervals' noise (autoregressive) */
    enum noise_shape shape;
    struct train stalls; /* nothing completes */
    struct train slow;   /* at slow_share of the rate */
    double slow_share;
    double switch_mean_s; /* two speeds, 1 and switch_share, for random times of this mean; 0: no */
    double switch_share;
    double ramp_s; /* a warm-up that grows from ramp_share of the rate to all of it */
    double ramp_share;
};

/** What the meter would have said. */
struct made_run {
    struct judge_sample *samples;
    unsigned count;
    struct meter_silence *silences;
    unsigned silence_count, silence_capacity;
};

static inline void run_free(struct made_run *run)
{
    free(run->samples);
    free(run->silences);
    *run = (struct made_run){0};
}

static inline void run_add_silence(struct made_run *run, double start_s, double end_s)
{
    if ((end_s - start_s) * 1e9 < (double)JUDGE_SILENCE_MIN_NS)
        return;
    if (run->silence_count == run->silence_capacity) {
        run->silence_capacity = run->silence_capacity == 0 ? 64 : 2 * run->silence_capacity;
        run->silences = realloc(run->silences, run->silence_capacity * sizeof(*run->silences));
    }
    run->silences[run->silence_count++] = (struct meter_silence){
        (uint64_t)(start_s * 1e9), (uint64_t)(end_s * 1e9) - (uint64_t)(start_s * 1e9)};
}

/* Fill the samples' longest silences from the list; one that the run ends in leaves the list, as
   the meter does it. */
static inline void run_fill_silences(struct made_run *run, double run_s)
{
    for (unsigned i = 0; i < run->count; i++) {
        struct judge_sample *sample = &run->samples[i];
        uint64_t end_ns = sample->start_ns + sample->length_ns;
        for (unsigned s = 0; s < run->silence_count; s++) {
            const struct meter_silence *silence = &run->silences[s];
            uint64_t silence_end_ns = silence->start_ns + silence->length_ns;
            if (silence->start_ns >= end_ns || silence_end_ns <= sample->start_ns)
                continue;
            uint64_t so_far_ns =
                (silence_end_ns < end_ns ? silence_end_ns : end_ns) - silence->start_ns;
            if (so_far_ns > sample->silence_ns) {
                sample->silence_ns = so_far_ns;
                sample->silence_start_ns = silence->start_ns;
            }
        }
    }
    if (run->silence_count != 0) {
        const struct meter_silence *last = &run->silences[run->silence_count - 1];
        if ((double)(last->start_ns + last->length_ns) >= run_s * 1e9 - 1)
            run->silence_count--;
    }
}

static inline double standard_normal(struct rng *rng)
{
    double u = 1 - rng_unit(rng);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * rng_unit(rng));
}

/* Mean 0, standard deviation 1 (heavy: Student's t of 3 degrees; skewed: a sharp top and a long
   tail below, as rates have when latencies have one above). */
static inline double make_noise(struct rng *rng, enum noise_shape shape)
{
    if (shape == NOISE_SKEWED)
        return 1 - rng_exponential(rng, 1);
    double z = standard_normal(rng);
    if (shape == NOISE_NORMAL)
        return z;
    double squares = 0;
    for (int i = 0; i < 3; i++) {
        double x = standard_normal(rng);
        squares += x * x;
    }
    return z / sqrt(squares / 3) / sqrt(3);
}

/* Mean share of the full rate within an interval, and time without stall, by fine steps. */
static inline void interval_share(const struct run_plan *plan, double start_s, bool slow_speed,
                                  double *share)
{
    enum { STEPS = 200 };
    double sum = 0;
    for (int i = 0; i < STEPS; i++) {
        double at_s = start_s + (i + 0.5) / STEPS * plan->interval_s;
        if (in_train(&plan->stalls, at_s))
            continue;
        double part = in_train(&plan->slow, at_s) ? plan->slow_share : 1;
        if (slow_speed)
            part *= plan->switch_share;
        if (at_s < plan->ramp_s)
            part *= plan->ramp_share + (1 - plan->ramp_share) * at_s / plan->ramp_s;
        sum += part;
    }
    *share = sum / STEPS;
}

/** Make a run by a plan. */
static inline struct made_run run_make(const struct run_plan *plan, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    struct made_run run = {.count = (unsigned)(plan->run_s / plan->interval_s + 0.5)};
    run.samples = calloc(run.count, sizeof(*run.samples));
    double noise = 0;
    bool slow_speed = false;
    double switch_at_s =
        plan->switch_mean_s > 0 ? rng_exponential(&rng, plan->switch_mean_s) : INFINITY;
    for (unsigned i = 0; i < run.count; i++) {
        double start_s = i * plan->interval_s;
        while (start_s > switch_at_s) {
            slow_speed = !slow_speed;
            switch_at_s += rng_exponential(&rng, plan->switch_mean_s);
        }
        double share = 0;
        interval_share(plan, start_s, slow_speed, &share);
        double fresh = make_noise(&rng, plan->shape);
        noise = i == 0 ? fresh
                       : plan->correlation * noise +
                             sqrt(1 - plan->correlation * plan->correlation) * fresh;
        double rate = plan->rate;
        if (plan->end_rate > 0)
            rate += (plan->end_rate - plan->rate) * i / run.count;
        double factor = fmax(0, 1 + plan->variation * noise);
        run.samples[i].start_ns = (uint64_t)(start_s * 1e9 + 0.5);
        run.samples[i].length_ns =
            (uint64_t)((i + 1) * plan->interval_s * 1e9 + 0.5) - run.samples[i].start_ns;
        run.samples[i].operations = floor(rate * plan->interval_s * share * factor + 0.5);
    }
    if (plan->stalls.period_s > 0)
        for (double at_s = plan->stalls.phase_s; at_s < plan->run_s; at_s += plan->stalls.period_s)
            run_add_silence(&run, at_s, fmin(at_s + plan->stalls.length_s, plan->run_s));
    run_fill_silences(&run, plan->run_s);
    return run;
}

/** Make a run from the gaps between single completions: gap() gives the next one in seconds. */
static inline struct made_run run_make_from_gaps(double run_s, double interval_s,
                                                 double (*gap)(struct rng *rng, void *context),
                                                 void *context, const struct train *stalls,
                                                 uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    struct made_run run = {.count = (unsigned)(run_s / interval_s + 0.5)};
    run.samples = calloc(run.count, sizeof(*run.samples));
    for (unsigned i = 0; i < run.count; i++) {
        run.samples[i].start_ns = (uint64_t)(i * interval_s * 1e9 + 0.5);
        run.samples[i].length_ns =
            (uint64_t)((i + 1) * interval_s * 1e9 + 0.5) - run.samples[i].start_ns;
    }
    double last_s = 0;
    for (;;) {
        double at_s = last_s + gap(&rng, context);
        while (stalls != NULL && in_train(stalls, at_s))
            at_s = stalls->phase_s + stalls->length_s +
                   floor((at_s - stalls->phase_s) / stalls->period_s) * stalls->period_s + 1e-9;
        if (at_s >= run_s)
            break;
        run_add_silence(&run, last_s, at_s);
        unsigned i = (unsigned)(at_s / interval_s);
        run.samples[i < run.count ? i : run.count - 1].operations++;
        last_s = at_s;
    }
    run_add_silence(&run, last_s, run_s);
    run_fill_silences(&run, run_s);
    return run;
}

static inline void run_judge(const struct made_run *run, struct judgement *judgement)
{
    struct judge_input input = {run->samples, run->count, run->silences, run->silence_count};
    if (judge(&input, judgement) != FIRN_OK)
        abort();
}

#endif
