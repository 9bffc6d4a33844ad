/*
 * made_series.h -- made-up runs with latencies, as a meter and the host sampler would have seen
 * them; for tests of results and reports.
 */
#ifndef TESTS_BENCH_MADE_SERIES_H
#define TESTS_BENCH_MADE_SERIES_H

#include "bench/judge_runs.h"
#include "bench/result.h"
#include "bench/series.h"

#include <limits.h>

enum { MADE_KINDS = 3, MADE_BLOCK_BYTES = 16384, MADE_DRAWS = 200 };

static const char *const MADE_KIND_NAMES[METER_KINDS_MAX] = {"read", "write", "sync"};

/** A run: what judge_runs.h lays down, split into kinds, with latencies. */
struct made_plan {
    struct run_plan plan;       /* its rate is that of reads and writes */
    double write_share;         /* of the operations */
    double syncs_per_s;         /* beside them */
    double mean_us[MADE_KINDS]; /* of latencies outside trouble; they are log-normal */
    double spread;              /* standard deviation of their logarithm */
    bool open_loop;
    uint64_t seed;
};

/** What a runner hands over at the end. */
struct made_result {
    struct series *series;
    struct meter_interval *total;
    struct host_sample *host;
    struct judgement judgement;
    char text[1024];
};

/* Record a value `times` times. */
static inline void made_record(struct histogram *histogram, uint64_t value, uint64_t times)
{
    if (times == 0)
        return;
    histogram->buckets[histogram_bucket(value)] += times;
    histogram->count += times;
    histogram->sum += value * times;
    if (value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
}

static inline struct meter_interval *made_interval(void)
{
    struct meter_interval *interval =
        calloc(1, sizeof(*interval) + MADE_KINDS * sizeof(interval->kinds[0]));
    for (unsigned k = 0; k < MADE_KINDS; k++) {
        histogram_reset(&interval->kinds[k].latency_ns);
        histogram_reset(&interval->kinds[k].response_ns);
    }
    return interval;
}

/* The operations of one kind in an interval; the slower they come, the longer they take. */
static inline void made_fill_kind(struct rng *rng, const struct made_plan *plan, unsigned kind,
                                  uint64_t operations, double slowness,
                                  struct meter_kind_data *data)
{
    uint64_t left = operations;
    for (uint64_t draw = MADE_DRAWS; draw > 0 && left > 0; draw--) {
        uint64_t times = (left + draw - 1) / draw;
        double value =
            plan->mean_us[kind] * 1e3 * slowness * exp(plan->spread * standard_normal(rng));
        made_record(&data->latency_ns, (uint64_t)value, times);
        if (plan->open_loop)
            made_record(&data->response_ns,
                        (uint64_t)(value * (1 + rng_exponential(rng, slowness))), times);
        left -= times;
    }
    data->bytes += operations * (kind == 2 ? 0 : MADE_BLOCK_BYTES);
}

static inline struct host_sample made_host(const struct meter_interval *interval)
{
    double length_s = (double)interval->length_ns / 1e9;
    double reads = (double)interval->kinds[0].latency_ns.count / length_s;
    double writes = (double)interval->kinds[1].latency_ns.count / length_s;
    double busy = fmin(100, (reads + writes) / 50);
    return (struct host_sample){
        .has_device = true,
        .device = {.r_s = reads,
                   .w_s = writes,
                   .f_s = (double)interval->kinds[2].latency_ns.count / length_s,
                   .rkb_s = reads * 16,
                   .wkb_s = writes * 16,
                   .r_await_ms = histogram_mean(&interval->kinds[0].latency_ns) / 1e6,
                   .w_await_ms = histogram_mean(&interval->kinds[1].latency_ns) / 1e6,
                   .rareq_kb = reads > 0 ? 16 : 0,
                   .wareq_kb = writes > 0 ? 16 : 0,
                   .aqu_sz = busy / 10,
                   .util_percent = busy},
        .cpu = {.user_percent = 5 + busy / 20,
                .system_percent = 10 + busy / 10,
                .iowait_percent = 30 - busy / 10,
                .idle_percent = 55 - busy / 20,
                .process_user_percent = 10,
                .process_system_percent = 20},
    };
}

/** Make a run; everything is given back with made_free. */
static inline struct made_result made_run_of(const struct made_plan *plan)
{
    struct made_run run = run_make(&plan->plan, plan->seed);
    struct made_result made = {.total = made_interval(),
                               .host = calloc(run.count, sizeof(*made.host))};
    struct meter_interval *interval = made_interval();
    struct rng rng;
    rng_init(&rng, plan->seed + 1);
    if (series_open(MADE_KINDS, (uint64_t)(plan->plan.interval_s * 1e9), plan->open_loop,
                    &made.series) != FIRN_OK)
        abort();
    unsigned silence = 0;
    for (unsigned i = 0; i < run.count; i++) {
        const struct judge_sample *sample = &run.samples[i];
        uint64_t end_ns = sample->start_ns + sample->length_ns;
        *interval = (struct meter_interval){.start_ns = sample->start_ns,
                                            .length_ns = sample->length_ns,
                                            .silence_start_ns = sample->silence_start_ns,
                                            .silence_ns = sample->silence_ns,
                                            .silences = run.silences + silence};
        for (; silence < run.silence_count; silence++) {
            const struct meter_silence *ended = &run.silences[silence];
            if (ended->start_ns + ended->length_ns > end_ns)
                break;
            interval->silence_count++;
        }
        if (sample->silence_ns > 0)
            interval->silent_ns =
                sample->silence_ns < sample->length_ns ? sample->silence_ns : sample->length_ns;
        double slowness =
            fmin(50, plan->plan.rate * plan->plan.interval_s / fmax(sample->operations, 1));
        uint64_t operations = (uint64_t)sample->operations;
        uint64_t writes = (uint64_t)(sample->operations * plan->write_share + rng_unit(&rng));
        writes = writes < operations ? writes : operations;
        uint64_t syncs = (uint64_t)(plan->syncs_per_s * plan->plan.interval_s / slowness);
        const uint64_t counts[MADE_KINDS] = {operations - writes, writes, syncs};
        for (unsigned k = 0; k < MADE_KINDS; k++) {
            interval->kinds[k].bytes = 0;
            histogram_clear(&interval->kinds[k].latency_ns);
            histogram_clear(&interval->kinds[k].response_ns);
            made_fill_kind(&rng, plan, k, counts[k], slowness, &interval->kinds[k]);
            histogram_merge(&made.total->kinds[k].latency_ns, &interval->kinds[k].latency_ns);
            histogram_merge(&made.total->kinds[k].response_ns, &interval->kinds[k].response_ns);
            made.total->kinds[k].bytes += interval->kinds[k].bytes;
        }
        made.total->length_ns = end_ns;
        made.host[i] = made_host(interval);
        if (series_append(made.series, interval) != FIRN_OK)
            abort();
    }
    if (judge_series(made.series, 2, &made.judgement) != FIRN_OK)
        abort();
    judge_text(&made.judgement, made.text, sizeof(made.text));
    free(interval);
    run_free(&run);
    return made;
}

static inline void made_free(struct made_result *made)
{
    series_close(made->series);
    judge_free(&made->judgement);
    free(made->total);
    free(made->host);
}

/** Fill what a made run holds into a result's run; names and setup are the caller's. */
static inline struct result_run made_result_run(const struct made_result *made, const char *name)
{
    return (struct result_run){.name = name,
                               .workload = "fileio",
                               .storage = "io_uring",
                               .time_scale = 1,
                               .setup = json_object(),
                               .start_unix_ms = UINT64_C(1796050000000),
                               .kinds = MADE_KIND_NAMES,
                               .series = made->series,
                               .total = made->total,
                               .host = made->host,
                               .host_device = "sda",
                               .judgement = &made->judgement,
                               .judgement_text = made->text};
}

#endif
