#include "base/memory.h"
#include "report/report_internal.h"

#include <math.h>
#include <string.h>

const char *const report_latency_names[LATENCY_COUNT] = {"p50", "p95", "p99", "p99.9", "max"};

static firn_rc no_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory for the table of runs");
}

/* ---- One run ---- */

/* Values of whole intervals after the warm-up, ascending. The last interval of a run may be a scrap
   whose rate says nothing. */
static unsigned judged_values(const struct report_run *run, const double *column, double *values)
{
    const double *length_s = run->intervals.columns[INTERVAL_LENGTH_S].values;
    unsigned count = 0;
    for (unsigned i = run->judged_first; i < run->interval_count; i++)
        if (length_s[i] >= run->interval_s / 2)
            values[count++] = column[i];
    if (count == 0)
        for (unsigned i = run->judged_first; i < run->interval_count; i++)
            values[count++] = column[i];
    stats_sort(values, count);
    return count;
}

static void compute_densities(struct report_run *run, double *values, unsigned count)
{
    if (count > 0 && values[count - 1] <= 0)
        count = 0; /* a peak at nothing would dwarf what is compared with it */
    report_density_compute(values, count, &run->density);
    unsigned zeros = 0;
    for (unsigned i = 0; i < count; i++) {
        zeros += values[i] <= 0;
        values[i] = values[i] > 0 ? log10(values[i]) : 0;
    }
    report_density_compute(values + zeros, count - zeros, &run->density_log);
}

/* Medians and densities. */
static firn_rc run_compute(struct report_run *run, struct stats_median *rate, unsigned *rate_count,
                           double *mib_per_s)
{
    double *values = memory_alloc((run->interval_count + 1) * sizeof(*values));
    if (values == NULL)
        return no_memory();
    *rate_count = judged_values(run, run->mib, values);
    *mib_per_s = stats_quantile_sorted(values, *rate_count, 0.5);
    judged_values(run, run->rate, values);
    *rate = stats_median_sorted(values, *rate_count);
    compute_densities(run, values, *rate_count);
    memory_free(values);
    return FIRN_OK;
}

static unsigned count_events(const struct report_judgement *judgement, bool is_stall)
{
    unsigned count = 0;
    for (unsigned i = 0; i < judgement->event_count; i++)
        count += judgement->events[i].is_stall == is_stall;
    return count;
}

/* ---- Repeats ---- */

/* A figure of each repeat, taken by place since figures are members of different structs. */
typedef double run_figure(const struct report_run *run, unsigned place);

static double median_of_repeats(const struct report *report, const struct report_row *row,
                                run_figure *figure, unsigned place, double *values)
{
    for (unsigned i = 0; i < row->run_count; i++)
        values[i] = figure(&report->runs[row->runs[i]], place);
    stats_sort(values, row->run_count);
    return stats_quantile_sorted(values, row->run_count, 0.5);
}

static double highest_of_repeats(const struct report *report, const struct report_row *row,
                                 run_figure *figure, unsigned place, double *values)
{
    median_of_repeats(report, row, figure, place, values);
    return values[row->run_count - 1];
}

static double figure_variation(const struct report_run *run, unsigned place)
{
    (void)place;
    return run->judgement.relative_variation;
}

static double figure_mean_rate(const struct report_run *run, unsigned place)
{
    (void)place;
    return run->judgement.mean_rate;
}

static double figure_silence(const struct report_run *run, unsigned place)
{
    (void)place;
    return run->judgement.longest_silence_ms;
}

static double figure_warmup(const struct report_run *run, unsigned place)
{
    (void)place;
    return run->judgement.warmup_s;
}

static double figure_operations(const struct report_run *run, unsigned kind)
{
    return run->kinds[kind].operations_per_s;
}

static double figure_bytes(const struct report_run *run, unsigned kind)
{
    return run->kinds[kind].bytes_per_s;
}

static double figure_latency(const struct report_run *run, unsigned place)
{
    return run->kinds[place / LATENCY_COUNT].latency_us[place % LATENCY_COUNT];
}

/* Repeats are alike in their settings and so in their kinds of operation, unless one did nothing of
   a kind (or a file was made up): then no kind is shown, for the lines would not be of all repeats.
 */
static bool all_have_kinds(const struct report *report, const struct report_row *row)
{
    const struct report_run *first = &report->runs[row->runs[0]];
    for (unsigned i = 1; i < row->run_count; i++) {
        const struct report_run *run = &report->runs[row->runs[i]];
        if (run->kind_count != first->kind_count)
            return false;
        for (unsigned k = 0; k < first->kind_count; k++)
            if (strcmp(run->kinds[k].name, first->kinds[k].name) != 0)
                return false;
    }
    return true;
}

static void row_kind(const struct report *report, struct report_row *row, unsigned number,
                     double *values)
{
    struct report_row_kind *kind = &row->kinds[number];
    const struct report_kind *first = &report->runs[row->runs[0]].kinds[number];
    kind->name = first->name;
    kind->operations_per_s = median_of_repeats(report, row, figure_operations, number, values);
    kind->mib_per_s =
        median_of_repeats(report, row, figure_bytes, number, values) / (1024.0 * 1024.0);
    kind->has_latency = true;
    for (unsigned i = 0; i < row->run_count; i++)
        kind->has_latency &= report->runs[row->runs[i]].kinds[number].has_latency;
    for (unsigned l = 0; l < LATENCY_COUNT; l++) {
        unsigned place = number * LATENCY_COUNT + l;
        kind->latency_us[l] = l == LATENCY_MAX
                                  ? highest_of_repeats(report, row, figure_latency, place, values)
                                  : median_of_repeats(report, row, figure_latency, place, values);
    }
}

static firn_rc row_kinds(const struct report *report, struct report_row *row, double *values)
{
    row->kind_count = all_have_kinds(report, row) ? report->runs[row->runs[0]].kind_count : 0;
    row->kinds = memory_zalloc(row->kind_count + 1, sizeof(*row->kinds));
    if (row->kinds == NULL)
        return no_memory();
    double total = 0;
    for (unsigned k = 0; k < row->kind_count; k++) {
        row_kind(report, row, k, values);
        total += row->kinds[k].operations_per_s;
    }
    for (unsigned k = 0; k < row->kind_count && total > 0; k++)
        row->kinds[k].share = row->kinds[k].operations_per_s / total;
    return FIRN_OK;
}

static firn_rc row_rates(struct report *report, struct report_row *row, double *rates, double *mibs)
{
    for (unsigned i = 0; i < row->run_count; i++) {
        struct stats_median median;
        unsigned count = 0;
        FIRN_TRY(run_compute(&report->runs[row->runs[i]], &median, &count, &mibs[i]));
        rates[i] = median.median;
        row->rate = median;
        row->rate_count = count;
    }
    stats_sort(mibs, row->run_count);
    row->mib_per_s = stats_quantile_sorted(mibs, row->run_count, 0.5);
    if (row->run_count > 1) {
        stats_sort(rates, row->run_count);
        row->rate = stats_median_sorted(rates, row->run_count);
        row->rate_count = row->run_count;
    }
    return FIRN_OK;
}

static firn_rc row_compute(struct report *report, struct report_row *row)
{
    double *values = memory_alloc(2 * row->run_count * sizeof(*values));
    if (values == NULL)
        return no_memory();
    firn_rc rc;
    FIRN_TRY_GOTO(row_rates(report, row, values, values + row->run_count), done);
    row->mean_rate = median_of_repeats(report, row, figure_mean_rate, 0, values);
    row->variation = median_of_repeats(report, row, figure_variation, 0, values);
    row->warmup_s = median_of_repeats(report, row, figure_warmup, 0, values);
    row->longest_silence_ms = highest_of_repeats(report, row, figure_silence, 0, values);
    row->steady = true;
    for (unsigned i = 0; i < row->run_count; i++) {
        const struct report_judgement *judgement = &report->runs[row->runs[i]].judgement;
        row->steady &= judgement->steady;
        row->stalls += count_events(judgement, true);
        row->slowdowns += count_events(judgement, false);
        row->stalled_s += judgement->stalled_s;
        row->slowed_s += judgement->slowed_s;
    }
    rc = row_kinds(report, row, values);
done:
    memory_free(values);
    return rc;
}

/* ---- Rows ---- */

static struct report_row *find_row(struct report *report, const struct report_run *run)
{
    for (unsigned i = 0; i < report->row_count; i++)
        if (report_runs_alike(&report->runs[report->rows[i].runs[0]], run))
            return &report->rows[i];
    return NULL;
}

/* Namesakes of several files stand below one another, in the order of the first file. */
static void order_rows(struct report *report)
{
    for (unsigned i = 1; i < report->row_count; i++) {
        unsigned place = i;
        for (unsigned before = 0; before < i; before++)
            if (strcmp(report->rows[before].name, report->rows[i].name) == 0)
                place = before + 1;
        struct report_row row = report->rows[i];
        memmove(&report->rows[place + 1], &report->rows[place],
                (i - place) * sizeof(*report->rows));
        report->rows[place] = row;
    }
    for (unsigned i = 0; i < report->row_count; i++)
        for (unsigned r = 0; r < report->rows[i].run_count; r++)
            report->runs[report->rows[i].runs[r]].row = i;
}

static firn_rc collect_rows(struct report *report)
{
    report->rows = memory_zalloc(report->run_count, sizeof(*report->rows));
    if (report->rows == NULL)
        return no_memory();
    for (unsigned i = 0; i < report->run_count; i++) {
        struct report_run *run = &report->runs[i];
        struct report_row *row = find_row(report, run);
        if (row == NULL) {
            row = &report->rows[report->row_count];
            row->runs = memory_alloc(report->run_count * sizeof(*row->runs));
            if (row->runs == NULL)
                return no_memory();
            report->row_count++;
            row->name = run->name;
            row->file = run->file;
            row->modelled = run->modelled != NULL;
            row->baseline = -1;
        }
        row->runs[row->run_count++] = i;
    }
    order_rows(report);
    return FIRN_OK;
}

void report_rows_free(struct report *report)
{
    for (unsigned i = 0; i < report->row_count; i++) {
        memory_free(report->rows[i].label);
        memory_free(report->rows[i].runs);
        memory_free(report->rows[i].kinds);
        memory_free(report->rows[i].ratio.differences);
    }
    memory_free(report->rows);
}

/* ---- Ratios ---- */

/* The interval of a ratio from those of its parts, on the logarithms: the method of variance
   estimates recovery (Zou and Donner, "Construction of confidence limits about effect measures",
   Statistics in Medicine 27, 2008). */
static void ratio_of_medians(const struct stats_median *a, const struct stats_median *b,
                             struct report_ratio *ratio)
{
    if (b->median <= 0 || !isfinite(a->median / b->median))
        return;
    ratio->ratio = ratio->low = ratio->high = a->median / b->median;
    if (a->low <= 0 || b->low <= 0)
        return;
    double below = hypot(log(a->median / a->low), log(b->high / b->median));
    double above = hypot(log(a->high / a->median), log(b->median / b->low));
    double low = ratio->ratio * exp(-below);
    double high = ratio->ratio * exp(above);
    if (!isfinite(low) || !isfinite(high))
        return;
    ratio->low = low;
    ratio->high = high;
    ratio->sound = a->confidence > 0 && b->confidence > 0;
}

firn_rc report_ratio_compute(const struct report *report, unsigned row, unsigned baseline,
                             struct report_ratio *ratio)
{
    const struct report_row *a = &report->rows[row];
    const struct report_row *b = &report->rows[baseline];
    struct report_ratio computed = {0};
    ratio_of_medians(&a->rate, &b->rate, &computed);
    FIRN_TRY(report_runs_differ(&report->runs[b->runs[0]], &report->runs[a->runs[0]],
                                &computed.difference_count, &computed.differences));
    *ratio = computed;
    return FIRN_OK;
}

static int find_base(const struct report *report, const struct report_row *row)
{
    if (report->baseline_file < 0)
        return report->baseline_row;
    for (unsigned i = 0; i < report->row_count; i++)
        if ((int)report->rows[i].file == report->baseline_file &&
            strcmp(report->rows[i].name, row->name) == 0)
            return (int)i;
    return -1;
}

static firn_rc compute_ratios(struct report *report)
{
    for (unsigned i = 0; i < report->row_count; i++) {
        struct report_row *row = &report->rows[i];
        row->baseline = find_base(report, row);
        if (row->baseline >= 0 && row->baseline != (int)i)
            FIRN_TRY(report_ratio_compute(report, i, (unsigned)row->baseline, &row->ratio));
    }
    return FIRN_OK;
}

bool report_row_has_ratio(const struct report_row *row)
{
    return row->ratio.ratio > 0;
}

bool report_row_is_unlike(const struct report_row *row)
{
    return report_row_has_ratio(row) && row->ratio.difference_count > 1;
}

firn_rc report_summarize(struct report *report, const char *baseline)
{
    FIRN_TRY(collect_rows(report));
    for (unsigned i = 0; i < report->row_count; i++)
        FIRN_TRY(row_compute(report, &report->rows[i]));
    FIRN_TRY(report_labels_build(report));
    FIRN_TRY(report_settings_build(report));
    FIRN_TRY(report_baseline_choose(report, baseline));
    return compute_ratios(report);
}
