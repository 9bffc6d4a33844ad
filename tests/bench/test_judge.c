#include "base/memory.h"
#include "bench/judge.h"
#include "bench/judge_internal.h"
#include "bench/judge_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "repeat.h"

static const double INTERVALS_S[] = {0.1, 1, 10};

static void assert_close(double value, double expected, double error)
{
    if (!(fabs(value - expected) <= error))
        fail_msg("%g is not within %g of %g", value, error, expected);
}

static struct judgement judge_plan(const struct run_plan *plan, uint64_t seed)
{
    struct made_run run = run_make(plan, seed);
    struct judgement judgement;
    run_judge(&run, &judgement);
    run_free(&run);
    return judgement;
}

/* ---- Stalls ---- */

static void four_seconds_of_standstill_in_ten_are_stalls_at_any_interval(void **state)
{
    (void)state;
    static const double phases_s[] = {3, 8.25, 9.999};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned p = 0; p < 3; p++) {
            struct run_plan plan = {.run_s = 124,
                                    .interval_s = INTERVALS_S[i],
                                    .rate = 5000,
                                    .variation = 0.03,
                                    .stalls = {10, 4, phases_s[p]}};
            struct judgement judgement = judge_plan(&plan, 1);
            assert_true(judgement.stalls.found);
            assert_int_equal(judgement.slowdowns.events, 0);
            assert_in_range(judgement.stalls.events, 11, 13);
            assert_close((double)judgement.stalls.period_ns / 1e9, 10, 0.001);
            assert_close((double)judgement.stalls.length_ns / 1e9, 4, 0.001);
            assert_close((double)judgement.longest_silence_ns / 1e9, 4, 0.001);
            judge_free(&judgement);
        }
}

static void stalls_shorter_than_the_interval_are_each_found(void **state)
{
    (void)state;
    struct run_plan plan = {
        .run_s = 300, .interval_s = 10, .rate = 5000, .variation = 0.03, .stalls = {1.7, 0.2, 0.5}};
    struct judgement judgement = judge_plan(&plan, 1);
    assert_true(judgement.stalls.found);
    assert_close((double)judgement.stalls.period_ns / 1e9, 1.7, 0.001);
    assert_close((double)judgement.stalls.length_ns / 1e9, 0.2, 0.001);
    assert_int_equal(judgement.stalls.events, 177);
    judge_free(&judgement);
}

static void a_run_that_ends_in_silence_has_stalled(void **state)
{
    (void)state;
    struct run_plan plan = {
        .run_s = 60, .interval_s = 1, .rate = 5000, .variation = 0.03, .stalls = {100, 30, 48}};
    struct judgement judgement = judge_plan(&plan, 1);
    assert_int_equal(judgement.event_count, 1);
    assert_int_equal(judgement.events[0].kind, JUDGE_STALL);
    assert_close((double)judgement.events[0].start_ns / 1e9, 48, 0.001);
    assert_close((double)judgement.stalled_ns / 1e9, 12, 0.001);
    assert_false(judgement.stalls.found);
    judge_free(&judgement);
}

static double gap_poisson(struct rng *rng, void *context)
{
    return rng_exponential(rng, *(double *)context);
}

/* One request after the other on a disk: its service time varies by some 30 %. */
static double gap_disk(struct rng *rng, void *context)
{
    return *(double *)context * (0.7 + 0.6 * rng_unit(rng));
}

/* A hundred writes into a cache, then a sync of 0.3 s. */
static double gap_bursts(struct rng *rng, void *context)
{
    (void)context;
    return rng_below(rng, 100) == 0 ? 0.3 * (0.8 + 0.4 * rng_unit(rng)) : 0.0005;
}

static void the_gaps_of_slow_devices_are_no_stalls(void **state)
{
    (void)state;
    static const double rates[] = {0.5, 2, 5, 15, 50, 200};
    for (unsigned i = 0; i < 6; i++) {
        double mean_s = 1 / rates[i];
        struct made_run run = run_make_from_gaps(600, 1, gap_disk, &mean_s, NULL, test_seed(1));
        struct judgement judgement;
        run_judge(&run, &judgement);
        assert_int_equal(judgement.stalls.events, 0);
        judge_free(&judgement);
        run_free(&run);
    }
    struct made_run run = run_make_from_gaps(600, 1, gap_bursts, NULL, NULL, test_seed(1));
    struct judgement judgement;
    run_judge(&run, &judgement);
    assert_int_equal(judgement.stalls.events, 0);
    judge_free(&judgement);
    run_free(&run);
}

static void slow_devices_that_stall_are_told_from_slow_devices(void **state)
{
    (void)state;
    struct train stalls = {10, 4, 3};
    static const double rates[] = {2, 15, 200};
    for (unsigned i = 0; i < 3; i++) {
        double mean_s = 1 / rates[i];
        struct made_run run = run_make_from_gaps(120, 1, gap_disk, &mean_s, &stalls, test_seed(1));
        struct judgement judgement;
        run_judge(&run, &judgement);
        assert_int_equal(judgement.stalls.events, 12);
        assert_true(judgement.stalls.found);
        assert_close((double)judgement.stalls.period_ns / 1e9, 10, 0.5);
        assert_close((double)judgement.stalls.length_ns / 1e9, 4, mean_s);
        judge_free(&judgement);
        run_free(&run);
    }
    struct made_run run = run_make_from_gaps(120, 1, gap_bursts, NULL, &stalls, test_seed(1));
    struct judgement judgement;
    run_judge(&run, &judgement);
    assert_int_equal(judgement.stalls.events, 12);
    judge_free(&judgement);
    run_free(&run);
}

/* Poisson arrivals have no usual gap, only a usual mean: about one run in a thousand, and rather
   more of short ones, may show a gap past the limit. */
static void random_arrivals_are_hardly_ever_stalls(void **state)
{
    (void)state;
    enum { RUNS = 300 };
    static const double rates[] = {0.5, 2, 5, 15, 50, 100};
    static const double runs_s[] = {20, 60, 300};
    for (unsigned i = 0; i < 6; i++)
        for (unsigned r = 0; r < 3; r++) {
            double mean_s = 1 / rates[i];
            unsigned wrong = 0;
            for (uint64_t seed = 1; seed <= RUNS; seed++) {
                struct made_run run =
                    run_make_from_gaps(runs_s[r], 1, gap_poisson, &mean_s, NULL, seed);
                struct judgement judgement;
                run_judge(&run, &judgement);
                wrong += judgement.stalls.events != 0;
                judge_free(&judgement);
                run_free(&run);
            }
            if (wrong > RUNS / 50)
                fail_msg("%u of %d runs of %g s at %g/s have stalls", wrong, RUNS, runs_s[r],
                         rates[i]);
        }
}

static void a_few_completions_between_silences_do_not_part_a_stall(void **state)
{
    (void)state;
    struct run_plan plan = {.run_s = 60, .interval_s = 1, .rate = 5000, .variation = 0.03};
    struct made_run run = run_make(&plan, 1);
    run_add_silence(&run, 20, 22);
    run_add_silence(&run, 22.05, 24);
    run_add_silence(&run, 30, 32);
    run_fill_silences(&run, 60);
    struct judgement judgement;
    run_judge(&run, &judgement);
    assert_int_equal(judgement.event_count, 2);
    assert_close((double)judgement.events[0].length_ns / 1e9, 4, 0.001);
    assert_close((double)judgement.events[1].length_ns / 1e9, 2, 0.001);
    judge_free(&judgement);
    run_free(&run);
}

/* ---- Slowdowns ---- */

static void ten_seconds_at_60_percent_in_a_minute_are_slowdowns(void **state)
{
    (void)state;
    static const double intervals_s[] = {0.01, 0.1, 1, 2};
    for (unsigned i = 0; i < 4; i++) {
        struct run_plan plan = {.run_s = 600,
                                .interval_s = intervals_s[i],
                                .rate = 5000,
                                .variation = 0.05,
                                .slow = {60, 10, 45.3},
                                .slow_share = 0.6};
        struct judgement judgement = judge_plan(&plan, 1);
        assert_int_equal(judgement.stalls.events, 0);
        assert_int_equal(judgement.slowdowns.events, 10);
        assert_true(judgement.slowdowns.found);
        assert_close((double)judgement.slowdowns.period_ns / 1e9, 60, intervals_s[i]);
        assert_close((double)judgement.slowdowns.length_ns / 1e9, 10, intervals_s[i]);
        assert_close(judgement.slowdowns.rate_share, 0.6, 0.03);
        assert_close((double)judgement.slowed_ns / 1e9, 100, 10 * intervals_s[i]);
        judge_free(&judgement);
    }
}

static void slowdowns_as_long_as_the_interval_are_known_by_their_beat(void **state)
{
    (void)state;
    for (unsigned aligned = 0; aligned <= 1; aligned++) {
        struct run_plan plan = {.run_s = 1200,
                                .interval_s = 10,
                                .rate = 5000,
                                .variation = 0.02,
                                .slow = {60, 10, aligned ? 40 : 43},
                                .slow_share = 0.4};
        struct judgement judgement = judge_plan(&plan, 1);
        assert_int_equal(judgement.slowdowns.events, 20);
        assert_true(judgement.slowdowns.found);
        assert_close((double)judgement.slowdowns.period_ns / 1e9, 60, 0.1);
        judge_free(&judgement);
    }
    /* The same number of low intervals, anywhere. */
    unsigned wrong = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct run_plan plan = {.run_s = 1200, .interval_s = 10, .rate = 5000, .variation = 0.02};
        struct made_run run = run_make(&plan, seed);
        struct rng rng;
        rng_init(&rng, seed);
        for (unsigned i = 0; i < run.count; i++)
            if (rng_below(&rng, 12) == 0)
                run.samples[i].operations *= 0.4;
        struct judgement judgement;
        run_judge(&run, &judgement);
        wrong += judgement.slowdowns.events != 0;
        judge_free(&judgement);
        run_free(&run);
    }
    if (wrong > 200 / 50)
        fail_msg("%u of 200 runs with low intervals at random have slowdowns", wrong);
}

static void stalls_and_slowdowns_in_one_run_are_told_apart(void **state)
{
    (void)state;
    static const double intervals_s[] = {0.1, 1};
    for (unsigned i = 0; i < 2; i++) {
        /* Stalls from 2 s to 6 s in each ten, slow from 50 s to 60 s in each minute: the
           slowdowns hold a stall each. */
        struct run_plan plan = {.run_s = 600,
                                .interval_s = intervals_s[i],
                                .rate = 5000,
                                .variation = 0.05,
                                .stalls = {10, 4, 2},
                                .slow = {60, 10, 50},
                                .slow_share = 0.6};
        struct judgement judgement = judge_plan(&plan, 1);
        assert_int_equal(judgement.stalls.events, 60);
        assert_true(judgement.stalls.found);
        assert_close((double)judgement.stalls.length_ns / 1e9, 4, 0.001);
        assert_close((double)judgement.stalled_ns / 1e9, 240, 0.1);
        assert_int_equal(judgement.slowdowns.events, 10);
        assert_true(judgement.slowdowns.found);
        assert_close((double)judgement.slowdowns.period_ns / 1e9, 60, intervals_s[i]);
        assert_close((double)judgement.slowdowns.length_ns / 1e9, 10, intervals_s[i]);
        assert_close(judgement.slowdowns.rate_share, 0.6, 0.03);
        assert_close((double)judgement.slowed_ns / 1e9, 60, 10 * intervals_s[i]);
        judge_free(&judgement);
    }
}

static void a_drop_every_twenty_minutes_is_found_in_hours(void **state)
{
    (void)state;
    static const double intervals_s[] = {1, 10};
    static const double lengths_s[] = {30, 60};
    for (unsigned i = 0; i < 2; i++)
        for (unsigned l = 0; l < 2; l++) {
            struct run_plan plan = {.run_s = 4 * 3600,
                                    .interval_s = intervals_s[i],
                                    .rate = 148 * 64, /* MiB/s, in operations of 16 KiB */
                                    .variation = 0.03,
                                    .slow = {1200, lengths_s[l], 605},
                                    .slow_share = 87.0 / 148};
            struct judgement judgement = judge_plan(&plan, 1);
            assert_int_equal(judgement.slowdowns.events, 12);
            assert_true(judgement.slowdowns.found);
            assert_close((double)judgement.slowdowns.period_ns / 1e9, 1200, 2);
            assert_close((double)judgement.slowdowns.length_ns / 1e9, lengths_s[l],
                         intervals_s[i] / 2);
            assert_close(judgement.slowdowns.rate_share, 87.0 / 148, 0.03);
            assert_true(judgement.steady);
            judge_free(&judgement);
        }
}

static void one_slowdown_is_found_wherever_it_lies(void **state)
{
    (void)state;
    static const double lengths_s[] = {10, 60, 130};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned p = 0; p < 4; p++) {
            const double phases_s[] = {80, 200, 580 - lengths_s[i], 600 - lengths_s[i]};
            struct run_plan plan = {.run_s = 600,
                                    .interval_s = 1,
                                    .rate = 5000,
                                    .variation = 0.05,
                                    .slow = {10000, lengths_s[i], phases_s[p]},
                                    .slow_share = 0.6};
            struct judgement judgement = judge_plan(&plan, 1);
            assert_int_equal(judgement.event_count, 1);
            assert_close((double)judgement.events[0].start_ns / 1e9, phases_s[p], 0.6);
            assert_close((double)judgement.events[0].length_ns / 1e9, lengths_s[i], 0.6);
            assert_close(judgement.events[0].rate_share, 0.6, 0.03);
            assert_false(judgement.slowdowns.found);
            assert_false(judgement.speeds.found);
            judge_free(&judgement);
        }
}

static void what_is_slow_for_long_is_a_second_speed(void **state)
{
    (void)state;
    static const struct train slows[] = {{10000, 240, 200}, {10, 4, 0}, {10000, 300, 300}};
    static const double shares[] = {0.4, 0.4, 0.5};
    for (unsigned i = 0; i < 3; i++) {
        struct run_plan plan = {.run_s = 600,
                                .interval_s = 1,
                                .rate = 5000,
                                .variation = 0.05,
                                .slow = slows[i],
                                .slow_share = 0.6};
        struct judgement judgement = judge_plan(&plan, 1);
        assert_int_equal(judgement.event_count, 0);
        if (i == 2) { /* a step in the middle: the first half is unlike the rest */
            assert_true(judgement.speeds.found || judgement.warmup_ns != 0);
        } else {
            assert_true(judgement.speeds.found);
            assert_close(judgement.speeds.slow_time_share, shares[i], 0.02);
            assert_close(judgement.speeds.slow_rate_share, 0.6, 0.03);
            char text[512];
            judge_text(&judgement, text, sizeof(text));
            assert_non_null(strstr(text, "Two speeds: for 40 % of the time work went on at 60 % "
                                         "of the other rate."));
        }
        judge_free(&judgement);
    }
}

static void an_interval_that_is_low_only_for_a_stall_is_no_slowdown(void **state)
{
    (void)state;
    /* 1.5 s in 3 s: at 1 s each interval is low in part, at 10 s all are equally low. */
    for (unsigned i = 0; i < 3; i++) {
        struct run_plan plan = {.run_s = 300,
                                .interval_s = INTERVALS_S[i],
                                .rate = 5000,
                                .variation = 0.05,
                                .stalls = {30, 1.5, 10.7}};
        struct judgement judgement = judge_plan(&plan, 1);
        assert_int_equal(judgement.slowdowns.events, 0);
        assert_int_equal(judgement.stalls.events, 10);
        judge_free(&judgement);
    }
}

static void a_slowdown_on_a_trend_is_found(void **state)
{
    (void)state;
    struct run_plan plan = {.run_s = 1200,
                            .interval_s = 1,
                            .rate = 8000,
                            .end_rate = 3000,
                            .variation = 0.05,
                            .slow = {200, 20, 130},
                            .slow_share = 0.6};
    struct judgement judgement = judge_plan(&plan, 1);
    assert_int_equal(judgement.slowdowns.events, 6);
    assert_true(judgement.slowdowns.found);
    assert_close(judgement.slowdowns.rate_share, 0.6, 0.04);
    assert_false(judgement.steady);
    judge_free(&judgement);
}

/* ---- Nothing there: how often something is seen all the same ---- */

static void assert_quiet(const char *what, const struct run_plan *plan, unsigned runs,
                         unsigned slowdowns_allowed, unsigned warmups_allowed)
{
    unsigned slowdowns = 0;
    unsigned periods = 0;
    unsigned warmups = 0;
    unsigned speeds = 0;
    for (uint64_t seed = 1; seed <= runs; seed++) {
        struct judgement judgement = judge_plan(plan, seed);
        assert_int_equal(judgement.stalls.events, 0);
        slowdowns += judgement.slowdowns.events != 0;
        periods += judgement.slowdowns.found;
        warmups += judgement.warmup_ns != 0;
        speeds += judgement.speeds.found;
        judge_free(&judgement);
    }
    bool speeds_wrong = plan->switch_mean_s <= 0 && speeds != 0;
    if (slowdowns > slowdowns_allowed || warmups > warmups_allowed || periods > 0 || speeds_wrong)
        fail_msg("%s, %g s: of %u runs %u have slowdowns, %u periodic ones, %u a warm-up, %u two "
                 "speeds",
                 what, plan->run_s, runs, slowdowns, periods, warmups, speeds);
}

static void noise_gives_no_slowdowns_and_no_warmup(void **state)
{
    (void)state;
    enum { RUNS = 100 };
    static const char *const names[] = {"normal", "heavy-tailed", "skewed"};
    static const double variations[] = {0.05, 0.1, 0.2};
    static const double runs_s[] = {60, 600};
    for (unsigned r = 0; r < 2; r++)
        for (unsigned v = 0; v < 3; v++) {
            struct run_plan plan = {
                .run_s = runs_s[r], .interval_s = 1, .rate = 5000, .variation = variations[v]};
            for (int shape = NOISE_NORMAL; shape <= NOISE_SKEWED; shape++) {
                plan.shape = (enum noise_shape)shape;
                assert_quiet(names[shape], &plan, RUNS, RUNS / 25, RUNS / 25);
            }
            plan.shape = NOISE_NORMAL;
            plan.correlation = 0.7;
            assert_quiet("correlated", &plan, RUNS, RUNS / 20, RUNS / 10);
        }
}

static void a_trend_is_neither_slowdown_nor_warmup(void **state)
{
    (void)state;
    enum { RUNS = 60 };
    static const double ends[] = {500, 2500, 10000, 15000};
    static const double runs_s[] = {60, 600};
    for (unsigned r = 0; r < 2; r++)
        for (unsigned e = 0; e < 4; e++) {
            struct run_plan plan = {.run_s = runs_s[r],
                                    .interval_s = 1,
                                    .rate = 5000,
                                    .end_rate = ends[e],
                                    .variation = 0.05};
            assert_quiet("a trend", &plan, RUNS, RUNS / 25, RUNS / 25);
        }
}

/* As often slow as fast, but chance deals a run of few switches mostly fast times now and then. */
static void two_speeds_are_no_slowdowns(void **state)
{
    (void)state;
    enum { RUNS = 60 };
    static const double switches_s[] = {0.5, 2, 8, 30};
    for (unsigned i = 0; i < 4; i++) {
        struct run_plan plan = {.run_s = 1200,
                                .interval_s = 1,
                                .rate = 5000,
                                .variation = 0.05,
                                .switch_mean_s = switches_s[i],
                                .switch_share = 0.6};
        assert_quiet("two speeds", &plan, RUNS, RUNS / 10, RUNS / 20);
    }
}

static void random_events_keep_no_period(void **state)
{
    (void)state;
    enum { EVENTS_MAX = 40, RUNS = 2000 };
    static const struct {
        unsigned events;
        double allowed; /* share of runs */
    } cases[] = {{3, 0.045}, {4, 0.045}, {5, 0.025}, {6, 0.025}, {10, 0.008}, {40, 0.001}};
    struct rng rng;
    rng_init(&rng, 1);
    for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        unsigned found = 0;
        for (unsigned run = 0; run < RUNS; run++) {
            struct judge_event items[EVENTS_MAX];
            struct judge_events events = {.items = items, .count = cases[c].events};
            double at_ns = 0;
            for (unsigned i = 0; i < events.count; i++) {
                at_ns += rng_exponential(&rng, 60e9);
                items[i] = (struct judge_event){.start_ns = (uint64_t)at_ns, .length_ns = 1};
            }
            struct judge_period period;
            assert_int_equal(judge_find_period(&events, &period), FIRN_OK);
            found += period.found;
        }
        if (found > cases[c].allowed * RUNS)
            fail_msg("%u of %d runs of %u random events have a period", found, RUNS,
                     cases[c].events);
    }
}

/* ---- Warm-up and steady state ---- */

static void a_beginning_unlike_the_rest_is_warmup(void **state)
{
    (void)state;
    static const double shares[] = {0.2, 0.5, 1.8};
    for (unsigned i = 0; i < 3; i++) {
        struct run_plan plan = {.run_s = 300,
                                .interval_s = 1,
                                .rate = 5000,
                                .variation = 0.05,
                                .ramp_s = 40,
                                .ramp_share = shares[i]};
        struct judgement judgement = judge_plan(&plan, 1);
        assert_close((double)judgement.warmup_ns / 1e9, 35, 10);
        assert_close(judgement.median_rate, 5000, 100);
        assert_true(judgement.steady);
        assert_true(judgement.steady_start_ns >= judgement.warmup_ns);
        assert_int_equal(judgement.slowdowns.events, 0);
        judge_free(&judgement);
    }
}

static void the_warmup_is_never_more_than_half(void **state)
{
    (void)state;
    for (double ramp_s = 60; ramp_s <= 300; ramp_s += 40) {
        struct run_plan plan = {.run_s = 300,
                                .interval_s = 1,
                                .rate = 5000,
                                .variation = 0.02,
                                .ramp_s = ramp_s,
                                .ramp_share = 0.2};
        struct judgement judgement = judge_plan(&plan, 1);
        assert_true(judgement.warmup_ns <= 150 * NS_PER_S);
        judge_free(&judgement);
    }
}

static void make_rounds(struct judge_sample *samples, const double *rounds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        samples[i] = (struct judge_sample){
            .start_ns = i * NS_PER_S, .length_ns = NS_PER_S, .operations = rounds[i]};
}

static void steady_state_is_as_snia_defines_it(void **state)
{
    (void)state;
    /* Ten intervals are ten rounds. */
    static const struct {
        double rounds[10];
        bool steady;
        unsigned start, length;
    } cases[] = {
        {{100, 100, 100, 100, 100, 100, 100, 100, 100, 100}, true, 0, 10},
        {{109, 91, 109, 91, 109, 91, 109, 91, 109, 91}, true, 0, 10},      /* range 18 % */
        {{111, 89, 111, 89, 111, 89, 111, 89, 111, 89}, false, 0, 0},      /* 22 % */
        {{100, 102, 104, 106, 108, 110, 112, 114, 116, 118}, true, 0, 10}, /* slope 8 % */
        {{100, 103, 106, 109, 112, 115, 118, 122, 126, 130}, false, 0, 0}, /* 11 % */
        {{10, 40, 70, 100, 101, 99, 100, 100, 50, 20}, true, 3, 5},
        {{10, 40, 70, 90, 80, 99, 100, 100, 101, 99}, true, 5, 5},
    };
    for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct judge_sample samples[10];
        make_rounds(samples, cases[c].rounds, 10);
        struct judge_input input = {.samples = samples, .count = 10};
        struct judgement judgement;
        assert_int_equal(judge(&input, &judgement), FIRN_OK);
        if (judgement.steady != cases[c].steady)
            fail_msg("case %u", c);
        assert_int_equal(judgement.steady_start_ns, cases[c].start * NS_PER_S);
        assert_int_equal(judgement.steady_length_ns, cases[c].length * NS_PER_S);
        judge_free(&judgement);
    }
}

/* ---- The rest
 * ------------------------------------------------------------------------------------ */

static void runs_of_hardly_anything_are_judged_without_harm(void **state)
{
    (void)state;
    struct judge_sample samples[20];
    for (unsigned count = 0; count < 20; count++)
        for (unsigned operations = 0; operations < 3; operations++) {
            for (unsigned i = 0; i < count; i++)
                samples[i] = (struct judge_sample){.start_ns = i * NS_PER_S,
                                                   .length_ns = NS_PER_S,
                                                   .operations = operations,
                                                   .silence_start_ns = 0,
                                                   .silence_ns = (i + 1) * NS_PER_S};
            struct judge_input input = {.samples = samples, .count = count};
            struct judgement judgement;
            assert_int_equal(judge(&input, &judgement), FIRN_OK);
            assert_int_equal(judgement.event_count, judgement.stalls.events);
            assert_false(judgement.stalls.found);
            assert_true(count == 0 || judgement.mean_rate == operations);
            assert_int_equal(judgement.longest_silence_ns, count * NS_PER_S);
            char text[256];
            judge_text(&judgement, text, sizeof(text));
            assert_true(strlen(text) > 0 && strlen(text) < sizeof(text));
            judge_free(&judgement);
        }
}

static void memory_that_runs_out_is_reported(void **state)
{
    (void)state;
    struct run_plan plan = {.run_s = 600,
                            .interval_s = 1,
                            .rate = 5000,
                            .variation = 0.05,
                            .stalls = {20, 2, 1},
                            .slow = {60, 10, 45},
                            .slow_share = 0.6};
    struct made_run run = run_make(&plan, 1);
    struct judge_input input = {run.samples, run.count, run.silences, run.silence_count};
    long failures = 0;
    for (;; failures++) {
        struct judgement judgement;
        memory_fail_after(failures);
        firn_rc rc = judge(&input, &judgement);
        memory_fail_after(-1);
        if (rc == FIRN_OK) {
            assert_int_equal(judgement.stalls.events, 30);
            judge_free(&judgement);
            break;
        }
        assert_int_equal(rc, FIRN_E_NOMEM);
    }
    assert_true(failures > 10);
    run_free(&run);
}

static void the_text_says_what_was_found(void **state)
{
    (void)state;
    struct run_plan plan = {.run_s = 600,
                            .interval_s = 0.1,
                            .rate = 5000,
                            .variation = 0.02,
                            .stalls = {20, 2, 1},
                            .slow = {60, 10, 45},
                            .slow_share = 0.6};
    struct judgement judgement = judge_plan(&plan, 1);
    char text[1024];
    judge_text(&judgement, text, sizeof(text));
    assert_non_null(strstr(text, "30 stalls of 2 s, every 20 s: nothing was completed in them."));
    assert_non_null(strstr(text, "10 slowdowns of 10 s, every 1 min: work went on at 60 % of the "
                                 "usual rate."));
    assert_non_null(strstr(text, " operations/s, relative variation "));
    for (size_t room = 1; room < sizeof(text); room += 7) {
        char cut[sizeof(text)];
        memset(cut, 'x', sizeof(cut));
        judge_text(&judgement, cut, room);
        assert_true(strlen(cut) < room);
        assert_memory_equal(cut, text, strlen(cut));
    }
    judge_free(&judgement);

    plan = (struct run_plan){.run_s = 60, .interval_s = 1, .rate = 5000};
    judgement = judge_plan(&plan, 1);
    judge_text(&judgement, text, sizeof(text));
    assert_non_null(strstr(
        text, "No stalls. No slowdowns. Steady for 1 min from the start. Median 5 k operations/s"));
    judge_free(&judgement);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_seconds_of_standstill_in_ten_are_stalls_at_any_interval),
        cmocka_unit_test(stalls_shorter_than_the_interval_are_each_found),
        cmocka_unit_test(a_run_that_ends_in_silence_has_stalled),
        cmocka_unit_test(the_gaps_of_slow_devices_are_no_stalls),
        cmocka_unit_test(slow_devices_that_stall_are_told_from_slow_devices),
        cmocka_unit_test(random_arrivals_are_hardly_ever_stalls),
        cmocka_unit_test(a_few_completions_between_silences_do_not_part_a_stall),
        cmocka_unit_test(ten_seconds_at_60_percent_in_a_minute_are_slowdowns),
        cmocka_unit_test(slowdowns_as_long_as_the_interval_are_known_by_their_beat),
        cmocka_unit_test(stalls_and_slowdowns_in_one_run_are_told_apart),
        cmocka_unit_test(a_drop_every_twenty_minutes_is_found_in_hours),
        cmocka_unit_test(one_slowdown_is_found_wherever_it_lies),
        cmocka_unit_test(what_is_slow_for_long_is_a_second_speed),
        cmocka_unit_test(an_interval_that_is_low_only_for_a_stall_is_no_slowdown),
        cmocka_unit_test(a_slowdown_on_a_trend_is_found),
        cmocka_unit_test(noise_gives_no_slowdowns_and_no_warmup),
        cmocka_unit_test(a_trend_is_neither_slowdown_nor_warmup),
        cmocka_unit_test(two_speeds_are_no_slowdowns),
        cmocka_unit_test(random_events_keep_no_period),
        cmocka_unit_test(a_beginning_unlike_the_rest_is_warmup),
        cmocka_unit_test(the_warmup_is_never_more_than_half),
        cmocka_unit_test(steady_state_is_as_snia_defines_it),
        cmocka_unit_test(runs_of_hardly_anything_are_judged_without_harm),
        cmocka_unit_test(memory_that_runs_out_is_reported),
        cmocka_unit_test(the_text_says_what_was_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
