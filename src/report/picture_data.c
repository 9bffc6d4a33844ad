/*
 * picture_data.c -- the data blocks of the gnuplot script.
 *
 * A picture is 1,200 points wide: of longer runs each of PICTURE_STRETCHES stretches leaves its
 * minimum and its maximum, in the order in which they came, so that no stall and no spike is lost.
 * Processor shares are added up in the picture and so are means instead.
 */
#include "base/memory.h"
#include "report/picture_internal.h"

#include <math.h>
#include <string.h>

enum { PICTURE_STRETCHES = 1500, PICTURE_POINTS_MAX = 6000 };

/* ---- Groups ---- */

static bool is_of_group(const struct picture_group *group, const struct report_run *run)
{
    return run->group != NULL && run->file == group->file && strcmp(run->group, group->name) == 0;
}

bool picture_group_at(const struct report *report, unsigned number, struct picture_group *group)
{
    for (unsigned i = 0; i < report->run_count; i++) {
        const struct report_run *run = &report->runs[i];
        if (run->group == NULL)
            continue;
        struct picture_group found = {
            .name = run->group, .axis = run->group_axis, .file = run->file};
        bool is_first = true;
        for (unsigned before = 0; before < i && is_first; before++)
            is_first = !is_of_group(&found, &report->runs[before]);
        if (is_first && number-- == 0) {
            *group = found;
            return true;
        }
    }
    return false;
}

static void put_value(FILE *out, double value)
{
    if (isnan(value))
        fputs(" NaN", out);
    else
        fprintf(out, " %.6g", value);
}

/* ---- Over time ---- */

/* What one column leaves of a stretch: two values. */
static void column_pair(const double *values, unsigned from, unsigned to, bool mean, double pair[2])
{
    unsigned lowest = from;
    unsigned highest = from;
    double sum = 0;
    unsigned count = 0;
    for (unsigned i = from; i < to; i++) {
        if (isnan(values[i]))
            continue;
        if (count == 0 || values[i] < values[lowest])
            lowest = i;
        if (count == 0 || values[i] > values[highest])
            highest = i;
        sum += values[i];
        count++;
    }
    if (mean) {
        pair[0] = pair[1] = count > 0 ? sum / count : NAN;
        return;
    }
    pair[0] = values[lowest < highest ? lowest : highest];
    pair[1] = values[lowest < highest ? highest : lowest];
}

enum { TIME_COLUMNS_MAX = PICTURE_LATENCIES + LATENCY_COUNT * METER_KINDS_MAX };

struct time_columns {
    unsigned count;
    const double *values[TIME_COLUMNS_MAX];
    bool mean[TIME_COLUMNS_MAX];
};

static void collect(struct time_columns *columns, const double *values, bool mean)
{
    columns->values[columns->count] = values;
    columns->mean[columns->count++] = mean;
}

/* In the order of the places PICTURE_RATE and on. */
static void time_columns(const struct report_run *run, struct time_columns *columns)
{
    static const unsigned latencies[] = {KIND_P50_US, KIND_P95_US, KIND_P99_US, KIND_P999_US,
                                         KIND_MAX_US};
    collect(columns, run->rate, false);
    collect(columns, run->device.columns[DEVICE_R_AWAIT_MS].values, false);
    collect(columns, run->device.columns[DEVICE_W_AWAIT_MS].values, false);
    collect(columns, run->device.columns[DEVICE_UTIL_PERCENT].values, false);
    collect(columns, run->cpu.columns[CPU_USER_PERCENT].values, true);
    collect(columns, run->cpu.columns[CPU_SYSTEM_PERCENT].values, true);
    collect(columns, run->cpu.columns[CPU_IOWAIT_PERCENT].values, true);
    collect(columns, run->cpu.columns[CPU_STEAL_PERCENT].values, true);
    for (unsigned k = 0; k < run->kind_count; k++)
        for (unsigned l = 0; l < LATENCY_COUNT; l++)
            collect(columns, run->kinds[k].columns.columns[latencies[l]].values, false);
}

static void put_time_block(const struct report_run *run, unsigned number, FILE *out)
{
    const double *start_s = run->intervals.columns[INTERVAL_START_S].values;
    struct time_columns columns = {0};
    time_columns(run, &columns);
    unsigned length = run->interval_count / PICTURE_STRETCHES + 1;
    fprintf(out, "$time_%u << EOD\n", number);
    for (unsigned from = 0; from < run->interval_count; from += length) {
        unsigned to = from + length < run->interval_count ? from + length : run->interval_count;
        double pairs[TIME_COLUMNS_MAX][2];
        for (unsigned c = 0; c < columns.count; c++) {
            pairs[c][0] = pairs[c][1] = NAN;
            if (columns.values[c] != NULL)
                column_pair(columns.values[c], from, to, columns.mean[c], pairs[c]);
        }
        for (unsigned half = 0; half < (length > 1 ? 2 : 1); half++) {
            fprintf(out, "%.9g", start_s[half == 0 ? from : (from + to) / 2]);
            for (unsigned c = 0; c < columns.count; c++)
                put_value(out, pairs[c][half]);
            fputc('\n', out);
        }
    }
    fputs("EOD\n", out);
}

/* ---- Distributions ---- */

/* Every n-th interval's rate after the warm-up: a fair sample, and a file of bearable size. */
static void put_values_block(const struct report_run *run, unsigned number, FILE *out)
{
    unsigned count = run->interval_count - run->judged_first;
    unsigned step = count / PICTURE_POINTS_MAX + 1;
    fprintf(out, "$values_%u << EOD\n", number);
    for (unsigned i = run->judged_first; i < run->interval_count; i += step)
        fprintf(out, "%.6g\n", run->rate[i]);
    fputs("EOD\n", out);
}

static void put_density_block(const struct report_density *density, const char *name,
                              unsigned number, FILE *out)
{
    fprintf(out, "$density_%s%u << EOD\n", name, number);
    for (unsigned i = 0; i < REPORT_DENSITY_POINTS && density->high > density->low; i++)
        fprintf(out, "%.6g %.6g\n",
                density->low + (density->high - density->low) * i / (REPORT_DENSITY_POINTS - 1),
                density->values[i]);
    fputs("EOD\n", out);
}

/* A point where each bucket ends: the share of operations that took longer, as its count of nines,
   and the latency. */
static void put_percentile_block(const struct report_kind *kind, unsigned run, unsigned number,
                                 FILE *out)
{
    const struct report_histogram *histogram = &kind->histogram;
    double total = 0;
    double below = 0;
    for (unsigned i = 0; i < histogram->count; i++)
        total += histogram->counts[i];
    fprintf(out, "$percentile_%u_%u << EOD\n", run, number);
    for (unsigned i = 0; i < histogram->count && total > 0; i++) {
        below += histogram->counts[i];
        double share = 1 - below / total;
        if (share > 0)
            fprintf(out, "%.6g %.6g\n", -log10(share), histogram->low_ns[i] / 1e3);
    }
    fputs("EOD\n", out);
}

static void put_group_row(const struct report_row *row, double x, FILE *out)
{
    fprintf(out, "%.9g", x);
    put_value(out, row->rate.median);
    put_value(out, row->rate.low);
    put_value(out, row->rate.high);
    const struct report_row_kind *kind = row->kind_count > 0 ? &row->kinds[0] : NULL;
    for (unsigned l = 0; l < LATENCY_COUNT; l++)
        put_value(out, kind != NULL && kind->has_latency ? kind->latency_us[l] : NAN);
    fputc('\n', out);
}

/* The rows of a group in ascending order of what distinguishes them. */
static void put_group_block(const struct report *report, const struct picture_group *group,
                            unsigned number, FILE *out)
{
    fprintf(out, "$group_%u << EOD\n", number);
    double before = -1;
    for (;;) {
        const struct report_row *next = NULL;
        double x = INFINITY;
        for (unsigned i = 0; i < report->row_count; i++) {
            const struct report_row *row = &report->rows[i];
            const struct report_run *run = &report->runs[row->runs[0]];
            if (is_of_group(group, run) && run->group_x > before && run->group_x < x) {
                next = row;
                x = run->group_x;
            }
        }
        if (next == NULL)
            break;
        put_group_row(next, x, out);
        before = x;
    }
    fputs("EOD\n", out);
}

void picture_write_data(const struct report *report, FILE *out)
{
    for (unsigned i = 0; i < report->run_count; i++) {
        const struct report_run *run = &report->runs[i];
        put_time_block(run, i, out);
        put_values_block(run, i, out);
        put_density_block(&run->density, "", i, out);
        put_density_block(&run->density_log, "log_", i, out);
        for (unsigned k = 0; k < run->kind_count; k++)
            put_percentile_block(&run->kinds[k], i, k, out);
    }
    struct picture_group group;
    for (unsigned g = 0; picture_group_at(report, g, &group); g++)
        put_group_block(report, &group, g, out);
}
