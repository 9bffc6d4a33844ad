#include "base/check.h"
#include "base/clock.h"
#include "bench/result_internal.h"

#include <math.h>

enum {
    RATE_DIGITS = 6,
    LATENCY_DIGITS = 5, /* percentiles are off by 0.8 percent anyway, maxima are not */
    HOST_DIGITS = 4,
    SHARE_DIGITS = 4,
};

static json_t *number_us(double time_ns)
{
    return result_number(time_ns / 1e3, LATENCY_DIGITS);
}

/* ---- The intervals' columns ---- */

static json_t *count_column(struct result_builder *builder, const uint64_t *counts, unsigned count)
{
    json_t *column = json_array();
    for (unsigned i = 0; i < count; i++)
        result_append(builder, column, json_integer((json_int_t)counts[i]));
    return column;
}

static json_t *time_column(struct result_builder *builder, const uint64_t *times_ns, unsigned count,
                           double unit_ns)
{
    json_t *column = json_array();
    for (unsigned i = 0; i < count; i++)
        result_append(builder, column, result_time(times_ns[i], unit_ns));
    return column;
}

/* Null where nothing was completed. */
static json_t *latency_column(struct result_builder *builder, const struct series_kind *kind,
                              const uint64_t *times_ns, unsigned count)
{
    json_t *column = json_array();
    for (unsigned i = 0; i < count; i++)
        result_append(builder, column,
                      kind->operations[i] == 0 ? json_null() : number_us((double)times_ns[i]));
    return column;
}

static json_t *mean_column(struct result_builder *builder, const struct series_kind *kind,
                           unsigned count)
{
    json_t *column = json_array();
    for (unsigned i = 0; i < count; i++)
        result_append(builder, column,
                      kind->operations[i] == 0 ? json_null() : number_us(kind->mean_ns[i]));
    return column;
}

static json_t *histogram_column(struct result_builder *builder, const struct series_kind *kind,
                                unsigned count)
{
    json_t *column = json_array();
    for (unsigned i = 0; i < count; i++) {
        json_t *pairs = json_array();
        for (const uint32_t *number = kind->histogram[i]; *number != UINT32_MAX; number++)
            result_append(builder, pairs, json_integer(*number));
        result_append(builder, column, pairs);
    }
    return column;
}

static json_t *kind_columns(struct result_builder *builder, const struct series_kind *kind,
                            unsigned count)
{
    json_t *columns = json_object();
    result_put(builder, columns, "operations", count_column(builder, kind->operations, count));
    result_put(builder, columns, "bytes", count_column(builder, kind->bytes, count));
    result_put(builder, columns, "mean_us", mean_column(builder, kind, count));
    const struct {
        const char *name;
        const uint64_t *times_ns;
    } latencies[] = {
        {"p50_us", kind->p50_ns},   {"p95_us", kind->p95_ns}, {"p99_us", kind->p99_ns},
        {"p999_us", kind->p999_ns}, {"max_us", kind->max_ns},
    };
    for (size_t i = 0; i < ARRAY_COUNT(latencies); i++)
        result_put(builder, columns, latencies[i].name,
                   latency_column(builder, kind, latencies[i].times_ns, count));
    if (kind->schedule_p99_ns != NULL)
        result_put(builder, columns, "schedule_p99_us",
                   latency_column(builder, kind, kind->schedule_p99_ns, count));
    result_put(builder, columns, "histogram", histogram_column(builder, kind, count));
    return columns;
}

json_t *result_intervals(struct result_builder *builder, const struct result_run *run,
                         unsigned used_kinds)
{
    const struct series *series = run->series;
    unsigned count = series->count;
    json_t *intervals = json_object();
    result_put(builder, intervals, "start_s", time_column(builder, series->start_ns, count, 1e9));
    result_put(builder, intervals, "length_s", time_column(builder, series->length_ns, count, 1e9));
    result_put(builder, intervals, "silence_ms",
               time_column(builder, series->silence_ns, count, 1e6));
    result_put(builder, intervals, "silent_ms",
               time_column(builder, series->silent_ns, count, 1e6));
    for (unsigned k = 0; k < series->kind_count; k++)
        if ((used_kinds >> k & 1) != 0)
            result_put(builder, intervals, run->kinds[k],
                       kind_columns(builder, &series->kinds[k], count));
    return intervals;
}

/* ---- The machine's columns ---- */

struct host_column {
    const char *name;
    size_t offset; /* of a double in struct host_sample */
};

#define DEVICE_COLUMN(field)                                                                       \
    {                                                                                              \
#field, offsetof(struct host_sample, device.field)                                         \
    }
#define CPU_COLUMN(field)                                                                          \
    {                                                                                              \
#field, offsetof(struct host_sample, cpu.field)                                            \
    }

static const struct host_column DEVICE_COLUMNS[] = {
    DEVICE_COLUMN(r_s),        DEVICE_COLUMN(w_s),          DEVICE_COLUMN(f_s),
    DEVICE_COLUMN(rkb_s),      DEVICE_COLUMN(wkb_s),        DEVICE_COLUMN(rrqm_s),
    DEVICE_COLUMN(wrqm_s),     DEVICE_COLUMN(r_await_ms),   DEVICE_COLUMN(w_await_ms),
    DEVICE_COLUMN(f_await_ms), DEVICE_COLUMN(rareq_kb),     DEVICE_COLUMN(wareq_kb),
    DEVICE_COLUMN(aqu_sz),     DEVICE_COLUMN(util_percent),
};

static const struct host_column CPU_COLUMNS[] = {
    CPU_COLUMN(user_percent),           CPU_COLUMN(system_percent),
    CPU_COLUMN(iowait_percent),         CPU_COLUMN(idle_percent),
    CPU_COLUMN(steal_percent),          CPU_COLUMN(process_user_percent),
    CPU_COLUMN(process_system_percent),
};

/* The columns of one part of the samples; null where the device was not there. */
static json_t *host_columns(struct result_builder *builder, const struct result_run *run,
                            const struct host_column *columns, size_t column_count, bool of_device)
{
    json_t *object = json_object();
    for (size_t c = 0; c < column_count; c++) {
        json_t *column = json_array();
        for (unsigned i = 0; i < run->series->count; i++) {
            const struct host_sample *sample = &run->host[i];
            const char *field = (const char *)sample + columns[c].offset;
            bool known = !of_device || sample->has_device;
            result_append(builder, column,
                          known ? result_number(*(const double *)(const void *)field, HOST_DIGITS)
                                : json_null());
        }
        result_put(builder, object, columns[c].name, column);
    }
    return object;
}

json_t *result_host(struct result_builder *builder, const struct result_run *run)
{
    json_t *host = json_object();
    bool has_device = false;
    for (unsigned i = 0; i < run->series->count; i++)
        has_device = has_device || run->host[i].has_device;
    if (has_device) {
        result_put(builder, host, "device_name", result_text(run->host_device));
        result_put(builder, host, "device",
                   host_columns(builder, run, DEVICE_COLUMNS, ARRAY_COUNT(DEVICE_COLUMNS), true));
    }
    result_put(builder, host, "cpu",
               host_columns(builder, run, CPU_COLUMNS, ARRAY_COUNT(CPU_COLUMNS), false));
    return host;
}

/* ---- The summary ---- */

static json_t *latency_summary(struct result_builder *builder, const struct histogram *histogram)
{
    static const struct {
        const char *name;
        double percent;
    } percentiles[] = {
        {"p50_us", 50}, {"p95_us", 95}, {"p99_us", 99}, {"p999_us", 99.9}, {"p9999_us", 99.99},
    };
    json_t *latency = json_object();
    result_put(builder, latency, "min_us", number_us((double)histogram->min));
    result_put(builder, latency, "mean_us", number_us(histogram_mean(histogram)));
    for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
        result_put(builder, latency, percentiles[i].name,
                   number_us((double)histogram_percentile(histogram, percentiles[i].percent)));
    result_put(builder, latency, "max_us", number_us((double)histogram->max));
    return latency;
}

static json_t *histogram_summary(struct result_builder *builder, const struct histogram *histogram)
{
    json_t *pairs = json_array();
    for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
        if (histogram->buckets[b] != 0)
            result_append(builder, pairs,
                          json_pack("[I, I]", (json_int_t)histogram_bucket_start(b),
                                    (json_int_t)histogram->buckets[b]));
    json_t *summary = json_object();
    result_put(builder, summary, "buckets_per_octave", json_integer(1 << HISTOGRAM_SUB_BITS));
    result_put(builder, summary, "pairs", pairs);
    return summary;
}

static json_t *kind_summary(struct result_builder *builder, const struct meter_kind_data *data,
                            double time_s)
{
    json_t *summary = json_object();
    uint64_t operations = data->latency_ns.count;
    double per_s = time_s > 0 ? 1 / time_s : 0;
    result_put(builder, summary, "operations", json_integer((json_int_t)operations));
    result_put(builder, summary, "bytes", json_integer((json_int_t)data->bytes));
    result_put(builder, summary, "operations_per_s",
               result_number((double)operations * per_s, RATE_DIGITS));
    result_put(builder, summary, "bytes_per_s",
               result_number((double)data->bytes * per_s, RATE_DIGITS));
    if (operations != 0) {
        result_put(builder, summary, "latency", latency_summary(builder, &data->latency_ns));
        result_put(builder, summary, "histogram", histogram_summary(builder, &data->latency_ns));
    }
    if (data->response_ns.count != 0)
        result_put(builder, summary, "schedule_latency",
                   latency_summary(builder, &data->response_ns));
    return summary;
}

json_t *result_summary(struct result_builder *builder, const struct result_run *run,
                       unsigned used_kinds)
{
    json_t *summary = json_object();
    double time_s = (double)run->total->length_ns / 1e9;
    result_put(builder, summary, "time_s", result_time(run->total->length_ns, 1e9));
    for (unsigned k = 0; k < run->series->kind_count; k++)
        if ((used_kinds >> k & 1) != 0)
            result_put(builder, summary, run->kinds[k],
                       kind_summary(builder, &run->total->kinds[k], time_s));
    return summary;
}

/* ---- The judgement ---- */

static json_t *period_value(struct result_builder *builder, const struct judge_period *period)
{
    if (!period->found)
        return json_null();
    json_t *value = json_object();
    result_put(builder, value, "period_s", result_number((double)period->period_ns / 1e9, 6));
    result_put(builder, value, "spread_share", result_number(period->spread, SHARE_DIGITS));
    result_put(builder, value, "events", json_integer(period->events));
    result_put(builder, value, "length_s", result_number((double)period->length_ns / 1e9, 6));
    result_put(builder, value, "rate_share", result_number(period->rate_share, SHARE_DIGITS));
    return value;
}

static json_t *speeds_value(struct result_builder *builder, const struct judge_speeds *speeds)
{
    if (!speeds->found)
        return json_null();
    json_t *value = json_object();
    result_put(builder, value, "slow_time_share",
               result_number(speeds->slow_time_share, SHARE_DIGITS));
    result_put(builder, value, "slow_rate_share",
               result_number(speeds->slow_rate_share, SHARE_DIGITS));
    return value;
}

static json_t *event_list(struct result_builder *builder, const struct judgement *judgement)
{
    json_t *events = json_array();
    for (unsigned i = 0; i < judgement->event_count; i++) {
        const struct judge_event *event = &judgement->events[i];
        json_t *value = json_object();
        result_put(builder, value, "kind",
                   json_string(event->kind == JUDGE_STALL ? "stall" : "slowdown"));
        result_put(builder, value, "start_s", result_time(event->start_ns, 1e9));
        result_put(builder, value, "length_s", result_time(event->length_ns, 1e9));
        result_put(builder, value, "rate_share", result_number(event->rate_share, SHARE_DIGITS));
        result_append(builder, events, value);
    }
    return events;
}

json_t *result_judgement(struct result_builder *builder, const struct judgement *judgement,
                         const char *text)
{
    json_t *value = json_object();
    result_put(builder, value, "text", result_text(text));
    result_put(builder, value, "warmup_s", result_time(judgement->warmup_ns, 1e9));
    result_put(builder, value, "steady", json_boolean(judgement->steady));
    if (judgement->steady) {
        result_put(builder, value, "steady_start_s", result_time(judgement->steady_start_ns, 1e9));
        result_put(builder, value, "steady_length_s",
                   result_time(judgement->steady_length_ns, 1e9));
    }
    result_put(builder, value, "median_rate_per_s",
               result_number(judgement->median_rate, RATE_DIGITS));
    result_put(builder, value, "mean_rate_per_s", result_number(judgement->mean_rate, RATE_DIGITS));
    result_put(builder, value, "relative_variation",
               result_number(judgement->relative_variation, SHARE_DIGITS));
    result_put(builder, value, "longest_silence_ms",
               result_time(judgement->longest_silence_ns, 1e6));
    result_put(builder, value, "longest_silence_start_s",
               result_time(judgement->longest_silence_start_ns, 1e9));
    result_put(builder, value, "usual_gap_ms",
               result_number((double)judgement->usual_gap_ns / 1e6, LATENCY_DIGITS));
    result_put(builder, value, "stalled_s", result_time(judgement->stalled_ns, 1e9));
    result_put(builder, value, "slowed_s", result_time(judgement->slowed_ns, 1e9));
    result_put(builder, value, "events", event_list(builder, judgement));
    result_put(builder, value, "stall_period", period_value(builder, &judgement->stalls));
    result_put(builder, value, "slowdown_period", period_value(builder, &judgement->slowdowns));
    result_put(builder, value, "two_speeds", speeds_value(builder, &judgement->speeds));
    return value;
}
