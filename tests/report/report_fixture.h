/*
 * report_fixture.h -- result files for tests: small, valid, and easily spoilt.
 */
#ifndef REPORT_FIXTURE_H
#define REPORT_FIXTURE_H

#include "report/report_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Equal but for rounding. */
#define assert_close(actual, expected)                                                             \
    do {                                                                                           \
        double actual_ = (actual);                                                                 \
        double expected_ = (expected);                                                             \
        if (!(fabs(actual_ - expected_) <= 1e-9 * fmax(1, fabs(expected_))))                       \
            fail_msg("%s is %.12g, not %.12g", #actual, actual_, expected_);                       \
    } while (0)

/* What a test varies in a run; zeros and NULLs are sensible. */
struct fixture_run {
    const char *name;
    double rate;       /* of operations in each interval; they vary by `spread` of it */
    double spread;     /* a share */
    unsigned count;    /* intervals of 1 s; 0 means 20 */
    const char *kind;  /* "read" by default */
    bool sync;         /* has syncs too, as many as operations */
    const char *model; /* NULL: a real device */
    const char *mode;  /* the setting file_test_mode; "rndrd" by default */
    int threads, seed;
    const char *group;
    double warmup_s; /* operations are doubled in it */
    double stall_s;  /* one stall so long, 5 s after the start */
};

/* Rates around 1, spread evenly over -1 to 1, no neighbours alike. */
static inline double fixture_wave(unsigned interval)
{
    return (double)(interval * 7 % 20) / 9.5 - 1;
}

static inline double fixture_rate(const struct fixture_run *run, unsigned interval)
{
    double rate = run->rate * (1 + run->spread * fixture_wave(interval));
    return interval < run->warmup_s ? 2 * rate : rate;
}

static inline unsigned fixture_count(const struct fixture_run *run)
{
    return run->count == 0 ? 20 : run->count;
}

static inline json_t *fixture_kind(const struct fixture_run *run, double bytes)
{
    static const char *const latencies[] = {"mean_us", "p50_us",  "p95_us",
                                            "p99_us",  "p999_us", "max_us"};
    json_t *columns = json_object();
    json_t *operations = json_array();
    json_t *sizes = json_array();
    json_t *histogram = json_array();
    for (unsigned i = 0; i < fixture_count(run); i++) {
        json_array_append_new(operations, json_integer((json_int_t)fixture_rate(run, i)));
        json_array_append_new(sizes, json_real(bytes * floor(fixture_rate(run, i))));
        json_array_append_new(histogram, json_pack("[iiii]", 66, 3, 68, 1));
    }
    json_object_set_new(columns, "operations", operations);
    json_object_set_new(columns, "bytes", sizes);
    for (unsigned l = 0; l < 6; l++) {
        json_t *column = json_array();
        for (unsigned i = 0; i < fixture_count(run); i++)
            json_array_append_new(column, json_real(100.5 * (l + 1) + i));
        json_object_set_new(columns, latencies[l], column);
    }
    json_object_set_new(columns, "histogram", histogram);
    return columns;
}

static inline json_t *fixture_intervals(const struct fixture_run *run)
{
    json_t *start = json_array();
    json_t *length = json_array();
    json_t *silence = json_array();
    json_t *silent = json_array();
    for (unsigned i = 0; i < fixture_count(run); i++) {
        json_array_append_new(start, json_integer(i));
        json_array_append_new(length, json_integer(1));
        json_array_append_new(silence, json_real(1.25));
        json_array_append_new(silent, json_integer(0));
    }
    json_t *intervals = json_pack("{sososososo}", "start_s", start, "length_s", length,
                                  "silence_ms", silence, "silent_ms", silent,
                                  run->kind == NULL ? "read" : run->kind, fixture_kind(run, 16384));
    if (run->sync)
        json_object_set_new(intervals, "sync", fixture_kind(run, 0));
    return intervals;
}

static inline json_t *fixture_total(const struct fixture_run *run, double bytes_per_s)
{
    return json_pack("{sfsfsfsfs{sfsfsfsfsfsfsf}s{sis[[ff][ff]]}}", "operations",
                     run->rate * fixture_count(run), "bytes", bytes_per_s * fixture_count(run),
                     "operations_per_s", run->rate, "bytes_per_s", bytes_per_s, "latency", "min_us",
                     50.0, "mean_us", 110.0, "p50_us", 100.0, "p95_us", 200.0, "p99_us", 300.0,
                     "p999_us", 400.0, "max_us", 500.0, "histogram", "buckets_per_octave", 64,
                     "pairs", 1000.0, 90.0, 2000.0, 10.0);
}

static inline json_t *fixture_events(const struct fixture_run *run)
{
    if (run->stall_s == 0)
        return json_array();
    return json_pack("[{sssfsfsf}]", "kind", "stall", "start_s", 5.0, "length_s", run->stall_s,
                     "rate_share", 0.0);
}

static inline json_t *fixture_host(const struct fixture_run *run)
{
    json_t *util = json_array();
    json_t *user = json_array();
    json_t *iowait = json_array();
    for (unsigned i = 0; i < fixture_count(run); i++) {
        json_array_append_new(util, json_real(98.5));
        json_array_append_new(user, json_real(10));
        json_array_append_new(iowait, json_real(40));
    }
    return json_pack("{sss{so}s{soso}}", "device_name", "vda", "device", "util_percent", util,
                     "cpu", "user_percent", user, "iowait_percent", iowait);
}

static inline json_t *fixture_json_run(const struct fixture_run *run)
{
    const char *kind = run->kind == NULL ? "read" : run->kind;
    json_t *object = json_pack(
        "{sssssss{sssisi}sssis[s]s{sfso}}", "name", run->name, "workload", "fileio", "storage",
        run->model == NULL ? "io_uring, direct" : "modelled", "setup", "file_test_mode",
        run->mode == NULL ? "rndrd" : run->mode, "threads", run->threads, "rand_seed", run->seed,
        "start", "2026-11-30T14:45:00Z", "interval_s", 1, "kinds", kind, "summary", "time_s",
        (double)fixture_count(run), kind, fixture_total(run, run->rate * 16384));
    if (run->sync) {
        json_array_append_new(json_object_get(object, "kinds"), json_string("sync"));
        json_object_set_new(json_object_get(object, "summary"), "sync", fixture_total(run, 0));
    }
    json_object_set_new(object, "modelled",
                        run->model == NULL
                            ? json_null()
                            : json_pack("{sssf}", "device", run->model, "time_scale", 0.0));
    if (run->group != NULL) {
        json_object_set_new(object, "group", json_string(run->group));
        json_object_set_new(object, "group_x", json_integer(run->threads));
        json_object_set_new(object, "group_axis", json_string("threads"));
    }
    json_object_set_new(object, "intervals", fixture_intervals(run));
    json_object_set_new(object, "host", fixture_host(run));
    json_object_set_new(
        object, "judgement",
        json_pack("{sssbsfsfsfsfsfsfsosnsn}", "text", "Steady.", "steady", 1, "steady_start_s", 0.0,
                  "steady_length_s", 20.0, "warmup_s", run->warmup_s, "relative_variation",
                  run->spread / 2, "longest_silence_ms", 1.25 + 1000 * run->stall_s, "stalled_s",
                  run->stall_s, "events", fixture_events(run), "stall_period", "slowdown_period"));
    json_object_set_new(json_object_get(object, "judgement"), "slowed_s", json_integer(0));
    json_object_set_new(json_object_get(object, "judgement"), "mean_rate_per_s",
                        json_real(run->rate));
    return object;
}

/* A result of these runs, to be released with json_decref. */
static inline json_t *fixture_json(const struct fixture_run *runs, unsigned count)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < count; i++)
        json_array_append_new(array, fixture_json_run(&runs[i]));
    return json_pack("{sssisssss{ssss}s[ss]s{sssi}so}", "format", "firn-result", "version", 1,
                     "title", "A title", "created", "2026-11-30T14:45:00Z", "firn", "version",
                     "0.1.0", "commit", "abcdef", "command", "firn", "fileio", "machine",
                     "processor", "A processor", "memory_bytes", 1 << 30, "runs", array);
}

static inline firn_rc fixture_add_json(struct report *report, const char *path, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    assert_non_null(text);
    firn_rc rc = report_add_memory(report, path, text, strlen(text));
    free(text);
    json_decref(json);
    return rc;
}

static inline void fixture_add(struct report *report, const char *path,
                               const struct fixture_run *runs, unsigned count)
{
    assert_int_equal(fixture_add_json(report, path, fixture_json(runs, count)), FIRN_OK);
}

static inline struct report *fixture_open(void)
{
    struct report *report = NULL;
    assert_int_equal(report_open(&report), FIRN_OK);
    return report;
}

/* A summarized report of one file, to be closed with report_close. */
static inline struct report *fixture_report(const struct fixture_run *runs, unsigned count)
{
    struct report *report = fixture_open();
    fixture_add(report, "some/result.json", runs, count);
    assert_int_equal(report_summarize(report, NULL), FIRN_OK);
    return report;
}

#endif
