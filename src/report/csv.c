#include "report/report_internal.h"

#include <math.h>

/* Numbers as R, pandas and spreadsheets read them; nothing where there is none. */
static void put_number(FILE *out, double number)
{
    if (isnan(number))
        return;
    fprintf(out, "%.12g", number);
}

static void put_cell(FILE *out, double number)
{
    fputc(',', out);
    put_number(out, number);
}

/* ---- summary.csv: a line for each kind of each row ---- */

static void put_summary_kind(const struct report_row_kind *kind, FILE *out)
{
    fputc(',', out);
    report_put_csv(out, kind->name);
    put_cell(out, kind->operations_per_s);
    put_cell(out, kind->mib_per_s);
    put_cell(out, kind->share);
    for (unsigned l = 0; l < LATENCY_COUNT; l++)
        put_cell(out, kind->has_latency ? kind->latency_us[l] : NAN);
    fputc('\n', out);
}

static void put_summary_row(const struct report *report, const struct report_row *row, FILE *out)
{
    report_put_csv(out, row->label);
    fputc(',', out);
    report_put_csv(out, report->files[row->file].path);
    fprintf(out, ",%d,%u,%u", row->modelled, row->run_count, row->rate_count);
    put_cell(out, row->mean_rate);
    put_cell(out, row->rate.median);
    put_cell(out, row->rate.low);
    put_cell(out, row->rate.high);
    put_cell(out, row->rate.confidence);
    put_cell(out, row->mib_per_s);
    bool has_ratio = report_row_has_ratio(row);
    fputc(',', out);
    report_put_csv(out, has_ratio ? report->rows[row->baseline].label : "");
    put_cell(out, has_ratio ? row->ratio.ratio : NAN);
    put_cell(out, has_ratio ? row->ratio.low : NAN);
    put_cell(out, has_ratio ? row->ratio.high : NAN);
    fputc(',', out);
    report_put_csv(out, has_ratio ? row->ratio.differences : "");
    put_cell(out, row->variation);
    put_cell(out, row->longest_silence_ms);
    fprintf(out, ",%u,%.12g,%u,%.12g,%d", row->stalls, row->stalled_s, row->slowdowns,
            row->slowed_s, row->steady);
}

void report_write_summary_csv(const struct report *report, FILE *out)
{
    fputs(
        "run,file,modelled,repeats,values,mean_per_s,median_per_s,low_per_s,high_per_s,confidence,"
        "median_mib_per_s,baseline,ratio,ratio_low,ratio_high,differing_settings,"
        "relative_variation,longest_silence_ms,stalls,stalled_s,slowdowns,slowed_s,steady,"
        "kind,operations_per_s,mib_per_s,share,p50_us,p95_us,p99_us,p999_us,max_us\n",
        out);
    for (unsigned i = 0; i < report->row_count; i++) {
        const struct report_row *row = &report->rows[i];
        for (unsigned k = 0; k < row->kind_count; k++) {
            put_summary_row(report, row, out);
            put_summary_kind(&row->kinds[k], out);
        }
        if (row->kind_count == 0) {
            put_summary_row(report, row, out);
            fputs(",,,,,,,,,\n", out);
        }
    }
}

/* ---- intervals-*.csv: a line for each interval ---- */

static void put_heads(const struct report_section *section, const char *prefix, FILE *out)
{
    for (unsigned i = 0; i < section->column_count; i++) {
        if (section->columns[i].values == NULL)
            continue;
        fputc(',', out);
        char name[160];
        snprintf(name, sizeof(name), "%s_%s", prefix, section->columns[i].name);
        report_put_csv(out, name);
    }
}

static void put_values(const struct report_section *section, unsigned interval, FILE *out)
{
    for (unsigned i = 0; i < section->column_count; i++)
        if (section->columns[i].values != NULL)
            put_cell(out, section->columns[i].values[interval]);
}

void report_write_intervals_csv(const struct report_run *run, FILE *out)
{
    fputs("start_s,length_s,silence_ms,silent_ms,warmup,rate_per_s,mib_per_s", out);
    for (unsigned k = 0; k < run->kind_count; k++)
        put_heads(&run->kinds[k].columns, run->kinds[k].name, out);
    put_heads(&run->device, "device", out);
    put_heads(&run->cpu, "cpu", out);
    fputc('\n', out);
    for (unsigned i = 0; i < run->interval_count; i++) {
        put_number(out, run->intervals.columns[INTERVAL_START_S].values[i]);
        for (unsigned c = INTERVAL_LENGTH_S; c <= INTERVAL_SILENT_MS; c++)
            put_cell(out, run->intervals.columns[c].values[i]);
        fprintf(out, ",%d", i < run->judged_first);
        put_cell(out, run->rate[i]);
        put_cell(out, run->mib[i]);
        for (unsigned k = 0; k < run->kind_count; k++)
            put_values(&run->kinds[k].columns, i, out);
        put_values(&run->device, i, out);
        put_values(&run->cpu, i, out);
        fputc('\n', out);
    }
}
