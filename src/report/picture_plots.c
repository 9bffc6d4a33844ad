/* picture_plots.c -- the gnuplot commands of each picture. */
#include "base/check.h"
#include "report/picture_internal.h"

#include <math.h>
#include <string.h>

/* Okabe and Ito's colours, which people with any kind of colour vision tell apart. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#555555", "#7a6a00", "#56b4e9"};
enum { COLOUR_COUNT = 8 };

/* Long runs are told in minutes or hours. */
struct time_unit {
    double seconds;
    const char *name;
};

static struct time_unit time_unit(double longest_s)
{
    if (longest_s > 3 * 3600)
        return (struct time_unit){3600, "hours"};
    if (longest_s > 600)
        return (struct time_unit){60, "minutes"};
    return (struct time_unit){1, "seconds"};
}

static double run_length_s(const struct report_run *run)
{
    if (run->interval_count == 0)
        return 0;
    unsigned last = run->interval_count - 1;
    return run->intervals.columns[INTERVAL_START_S].values[last] +
           run->intervals.columns[INTERVAL_LENGTH_S].values[last];
}

/* ---- Pieces of plots ---- */

static void put_style(FILE *out, unsigned number)
{
    fprintf(out, " lc rgb '%s' dt %u", colours[number % COLOUR_COUNT],
            1 + number / COLOUR_COUNT % 5);
}

static void put_title(FILE *out, const char *text)
{
    fputs(" title ", out);
    report_put_gnuplot(out, text);
}

/* Between the parts of a plot; before the first the command itself. */
static void put_part(FILE *out, bool *first)
{
    fputs(*first ? "plot \\\n    " : ", \\\n    ", out);
    *first = false;
}

static void put_lines(FILE *out, bool *first, unsigned run, unsigned column, unsigned style,
                      const char *title)
{
    put_part(out, first);
    fprintf(out, "$time_%u using ($1/unit):%u with lines lw 1.3", run, column);
    put_style(out, style);
    put_title(out, title);
}

/* ---- Pictures of all runs ---- */

static void put_timeline(const struct report *report, const struct picture *picture, FILE *out)
{
    double longest_s = 0;
    for (unsigned i = 0; i < report->run_count; i++)
        longest_s = fmax(longest_s, run_length_s(&report->runs[i]));
    struct time_unit unit = time_unit(longest_s);
    fprintf(out,
            "unit = %.0f\nset title 'Throughput over time'\n"
            "set xlabel '%s since the start of the run'\nset ylabel 'operations/s'\n"
            "set xrange [0:%.9g]\n",
            unit.seconds, unit.name, longest_s / unit.seconds);
    fputs(picture->log ? "set logscale y\n" : "set yrange [0:*]\n", out);
    bool first = true;
    for (unsigned i = 0; i < report->run_count; i++)
        if (picture_has_rate(&report->runs[i]))
            put_lines(out, &first, i, PICTURE_RATE, report->runs[i].row, report->runs[i].label);
    fputc('\n', out);
}

/* Each interval is a dot at a random place beside its run's number; medians are bars. */
static void put_jitter(const struct report *report, const struct picture *picture, FILE *out)
{
    fputs("set title 'Throughput of the intervals, and medians'\nset ylabel 'operations/s'\n"
          "set xtics 1 scale 0\nset xlabel 'run'\n",
          out);
    fprintf(out, "set xrange [0.4:%u.6]\n", report->row_count);
    fputs(picture->log ? "set logscale y\n" : "set yrange [0:*]\n", out);
    for (unsigned i = 0; i < report->row_count; i++)
        if (report->rows[i].rate.median > 0)
            fprintf(out,
                    "set arrow from %u.62,%.9g to %u.38,%.9g nohead front lw 3 lc rgb '#222222'\n",
                    i, report->rows[i].rate.median, i + 1, report->rows[i].rate.median);
    fputs("dice = rand(42)\n", out);
    bool first = true;
    for (unsigned i = 0; i < report->run_count; i++) {
        const struct report_run *run = &report->runs[i];
        if (!picture_has_rate(run))
            continue;
        put_part(out, &first);
        fprintf(out, "$values_%u using (%u+(rand(0)-0.5)*0.6):(%s) with points pt 7 ps 0.35", i,
                run->row + 1, picture->log ? "$1>0?$1:NaN" : "$1");
        put_style(out, run->row);
        put_title(out, run->label);
    }
    fputc('\n', out);
}

/* On the logarithmic axis the blocks hold log10 of the rates, and the marks are put by hand. */
static void put_density_marks(const struct report *report, FILE *out)
{
    double low = INFINITY;
    double high = -INFINITY;
    for (unsigned i = 0; i < report->run_count; i++)
        if (picture_has_rate(&report->runs[i])) {
            low = fmin(low, report->runs[i].density_log.low);
            high = fmax(high, report->runs[i].density_log.high);
        }
    fprintf(out, "set xrange [%.6g:%.6g]\nset xtics (", low, high);
    const char *separator = "";
    for (double decade = floor(low); decade <= high; decade++)
        for (unsigned digit = 1; digit <= 5; digit += digit == 1 ? 1 : 3) {
            double place = decade + log10(digit);
            if (place < low || place > high)
                continue;
            fprintf(out, "%s'%.15g' %.6f", separator, digit * pow(10, decade), place);
            separator = ", ";
        }
    fputs(")\n", out);
}

static void put_density(const struct report *report, const struct picture *picture, FILE *out)
{
    fputs("set title 'Density of the throughput of the intervals'\nset xlabel 'operations/s'\n"
          "set ylabel 'density'\nunset ytics\nset yrange [0:*]\n",
          out);
    if (picture->log)
        put_density_marks(report, out);
    bool first = true;
    for (unsigned i = 0; i < report->run_count; i++) {
        const struct report_run *run = &report->runs[i];
        if (!picture_has_rate(run))
            continue;
        put_part(out, &first);
        fprintf(out, "$density_%s%u using 1:2 with lines lw 1.6", picture->log ? "log_" : "", i);
        put_style(out, run->row);
        put_title(out, run->label);
    }
    fputc('\n', out);
}

/* How many nines the largest histogram can tell apart: one operation of a million has six. */
static double most_nines(const struct report *report)
{
    double most = 1;
    for (unsigned i = 0; i < report->run_count; i++)
        for (unsigned k = 0; k < report->runs[i].kind_count; k++) {
            const struct report_histogram *histogram = &report->runs[i].kinds[k].histogram;
            double total = 0;
            for (unsigned b = 0; b < histogram->count; b++)
                total += histogram->counts[b];
            if (picture_has_percentiles(&report->runs[i].kinds[k]))
                most = fmax(most, log10(total));
        }
    return most;
}

/* The axis counts nines: half of the operations are left of 0.3, 99 % left of 2. */
static void put_percentiles(const struct report *report, FILE *out)
{
    static const char *const marks[] = {"90",     "99",      "99.9",     "99.99",
                                        "99.999", "99.9999", "99.99999", "99.999999"};
    double nines = most_nines(report);
    fprintf(out,
            "set title 'Latency of the whole run by percentile'\nset xlabel 'percentile'\n"
            "set ylabel 'milliseconds'\nset logscale y\nset xrange [0:%.6g]\n"
            "set xtics ('0' 0, '50' 0.30103",
            nines);
    for (unsigned i = 0; i < ARRAY_COUNT(marks) && i + 1 <= nines; i++)
        fprintf(out, ", '%s' %u", marks[i], i + 1);
    fputs(")\n", out);
    bool first = true;
    for (unsigned i = 0; i < report->run_count; i++) {
        const struct report_run *run = &report->runs[i];
        for (unsigned k = 0; k < run->kind_count; k++) {
            if (!picture_has_percentiles(&run->kinds[k]))
                continue;
            put_part(out, &first);
            fprintf(
                out,
                "$percentile_%u_%u using 1:($2>0?$2/1000:NaN) with lines lw 1.6 lc rgb '%s' dt %u",
                i, k, colours[run->row % COLOUR_COUNT], 1 + k % 5);
            fputs(" title ", out);
            report_put_gnuplot(out, run->label);
            fputs(".': '.", out);
            report_put_gnuplot(out, run->kinds[k].name);
        }
    }
    fputc('\n', out);
}

/* ---- A group: throughput above, response times below ---- */

static void put_group_panel(const struct report *report, const struct picture_group *group,
                            bool latencies, FILE *out)
{
    bool first = true;
    struct picture_group other;
    for (unsigned g = 0; picture_group_at(report, g, &other); g++) {
        if (strcmp(other.name, group->name) != 0)
            continue;
        const char *file = report->files[other.file].label;
        const char *colour = colours[other.file % COLOUR_COUNT];
        put_part(out, &first);
        fprintf(out, "$group_%u using 1:%s with linespoints pt 7 lw 1.6 lc rgb '%s' title ", g,
                latencies ? "($5/1000)" : "2", colour);
        fputs(latencies ? "'p50, '." : "", out);
        report_put_gnuplot(out, file);
        put_part(out, &first);
        if (!latencies) {
            fprintf(out, "$group_%u using 1:2:3:4 with yerrorbars pt 0 lc rgb '%s' notitle", g,
                    colour);
            continue;
        }
        fprintf(out,
                "$group_%u using 1:($7/1000) with linespoints pt 6 lw 1.2 dt 2 lc rgb '%s' "
                "title 'p99, '.",
                g, colour);
        report_put_gnuplot(out, file);
    }
    fputc('\n', out);
}

static bool group_has(const struct report *report, const struct picture_group *group,
                      bool latencies)
{
    for (unsigned i = 0; i < report->row_count; i++) {
        const struct report_row *row = &report->rows[i];
        const struct report_run *run = &report->runs[row->runs[0]];
        if (run->group == NULL || strcmp(run->group, group->name) != 0)
            continue;
        if (latencies ? row->kind_count > 0 && row->kinds[0].has_latency : row->rate.median > 0)
            return true;
    }
    return false;
}

static void put_group(const struct report *report, unsigned number, FILE *out)
{
    struct picture_group group;
    picture_group_at(report, number, &group);
    fputs("set multiplot layout 2,1 title ", out);
    report_put_gnuplot(out, group.name);
    fputs("\nset xlabel ", out);
    report_put_gnuplot(out, group.axis);
    fputs("\nset offsets graph 0.03, graph 0.03, 0, 0\nset ylabel 'operations/s, 95 % interval'\n"
          "set yrange [0:*]\n",
          out);
    if (group_has(report, &group, false))
        put_group_panel(report, &group, false, out);
    fputs("set ylabel 'milliseconds'\nset yrange [0:*]\n", out);
    if (group_has(report, &group, true))
        put_group_panel(report, &group, true, out);
    fputs("unset multiplot\n", out);
}

/* ---- A run: panels over one time axis ---- */

static bool has_device(const struct report_run *run)
{
    return picture_any_above(run->device.columns[DEVICE_UTIL_PERCENT].values, run->interval_count,
                             0);
}

static bool has_cpu(const struct report_run *run)
{
    return picture_any_above(run->cpu.columns[CPU_USER_PERCENT].values, run->interval_count, 0);
}

static unsigned panel_count(const struct report_run *run)
{
    unsigned count = 1U + has_device(run) + has_cpu(run);
    for (unsigned k = 0; k < run->kind_count; k++)
        count += picture_has_latencies(run, k);
    return count;
}

static void put_run_throughput(const struct report_run *run, unsigned number, double unit_s,
                               FILE *out)
{
    for (unsigned i = 0; i < run->judgement.event_count; i++) {
        const struct report_event *event = &run->judgement.events[i];
        fprintf(out,
                "set object rectangle from %.9g, graph 0 to %.9g, graph 1 behind fc rgb '%s' "
                "fs solid 0.35 noborder\n",
                event->start_s / unit_s, (event->start_s + event->length_s) / unit_s,
                event->is_stall ? "#c62828" : "#e6a100");
    }
    fputs("set ylabel 'operations/s'\nset yrange [0:*]\n", out);
    bool first = true;
    put_lines(out, &first, number, PICTURE_RATE, 0,
              "throughput (stalls shaded red, slowdowns amber)");
    fputs("\nunset object\n", out);
}

static void put_run_latencies(const struct report_run *run, unsigned number, unsigned kind,
                              FILE *out)
{
    static const char *const shades[LATENCY_COUNT] = {"#1f4e79", "#2a7ab0", "#3fa37c", "#d08a1d",
                                                      "#b0402a"};
    fputs("set ylabel 'milliseconds'\nset logscale y\nset yrange [*:*]\n", out);
    bool first = true;
    for (unsigned l = 0; l < LATENCY_COUNT; l++) {
        put_part(out, &first);
        unsigned column = PICTURE_LATENCIES + kind * LATENCY_COUNT + l;
        fprintf(
            out,
            "$time_%u using ($1/unit):($%u>0?$%u/1000:NaN) with lines lw 1.2 lc rgb '%s' title ",
            number, column, column, shades[l]);
        report_put_gnuplot(out, run->kinds[kind].name);
        fprintf(out, ".' %s'", report_latency_names[l]);
    }
    fputs("\nunset logscale y\n", out);
}

static void put_run_device(const struct report_run *run, unsigned number, FILE *out)
{
    fputs("set ylabel 'percent'\nset yrange [0:105]\nset y2label 'ms'\nset y2tics\n"
          "set y2range [0:*]\n",
          out);
    bool first = true;
    put_lines(out, &first, number, PICTURE_UTIL, 5, "device util");
    if (run->device.columns[DEVICE_R_AWAIT_MS].values != NULL)
        fprintf(out,
                ", \\\n    $time_%u using ($1/unit):%u axes x1y2 with lines lc rgb '%s' title "
                "'r_await'",
                number, PICTURE_R_AWAIT, colours[0]);
    if (run->device.columns[DEVICE_W_AWAIT_MS].values != NULL)
        fprintf(out,
                ", \\\n    $time_%u using ($1/unit):%u axes x1y2 with lines lc rgb '%s' title "
                "'w_await'",
                number, PICTURE_W_AWAIT, colours[1]);
    fputs("\nunset y2tics\nunset y2label\n", out);
}

static void put_run_cpu(const struct report_run *run, unsigned number, FILE *out)
{
    static const struct {
        unsigned column, place;
        const char *name, *colour;
    } shares[] = {
        {CPU_STEAL_PERCENT, PICTURE_STEAL, "steal", "#8f8f8f"},
        {CPU_IOWAIT_PERCENT, PICTURE_IOWAIT, "iowait", "#e6c37a"},
        {CPU_SYSTEM_PERCENT, PICTURE_SYSTEM, "system", "#d55e00"},
        {CPU_USER_PERCENT, PICTURE_USER, "user", "#0072b2"},
    };
    fputs("set ylabel '% of all processors'\nset yrange [0:100]\n", out);
    bool first = true;
    /* Each curve is the sum of itself and those below it, the highest drawn first. */
    for (unsigned i = 0; i < ARRAY_COUNT(shares); i++) {
        if (run->cpu.columns[shares[i].column].values == NULL)
            continue;
        put_part(out, &first);
        fprintf(out, "$time_%u using ($1/unit):(0", number);
        for (unsigned j = i; j < ARRAY_COUNT(shares); j++)
            if (run->cpu.columns[shares[j].column].values != NULL)
                fprintf(out, "+$%u", shares[j].place);
        fprintf(out, ") with filledcurves y1=0 lc rgb '%s' title '%s'", shares[i].colour,
                shares[i].name);
    }
    fputc('\n', out);
}

static void put_run(const struct report *report, unsigned number, FILE *out)
{
    const struct report_run *run = &report->runs[number];
    double length_s = run_length_s(run);
    struct time_unit unit = time_unit(length_s);
    fprintf(out, "set multiplot layout %u,1 margins 0.09,0.94,0.07,0.93 spacing 0,0.06 title ",
            panel_count(run));
    report_put_gnuplot(out, run->label);
    fprintf(out,
            "\nunit = %.0f\nset key at graph 1,1.02 bottom right horizontal\n"
            "set xrange [0:%.9g]\nset xlabel '%s since the start of the run' offset 0,0.6\n",
            unit.seconds, length_s / unit.seconds, unit.name);
    put_run_throughput(run, number, unit.seconds, out);
    for (unsigned k = 0; k < run->kind_count; k++)
        if (picture_has_latencies(run, k))
            put_run_latencies(run, number, k, out);
    if (has_device(run))
        put_run_device(run, number, out);
    if (has_cpu(run))
        put_run_cpu(run, number, out);
    fputs("unset multiplot\n", out);
}

/* ---- Any picture ---- */

void picture_put(const struct report *report, const struct picture *picture, FILE *out)
{
    switch (picture->kind) {
    case PICTURE_TIMELINE:
        put_timeline(report, picture, out);
        return;
    case PICTURE_JITTER:
        put_jitter(report, picture, out);
        return;
    case PICTURE_DENSITY:
        put_density(report, picture, out);
        return;
    case PICTURE_PERCENTILES:
        put_percentiles(report, out);
        return;
    case PICTURE_GROUP:
        put_group(report, picture->number, out);
        return;
    case PICTURE_RUN:
        put_run(report, picture->number, out);
        return;
    }
}

unsigned picture_height(const struct report *report, const struct picture *picture)
{
    if (picture->kind == PICTURE_RUN)
        return 80 + 230 * panel_count(&report->runs[picture->number]);
    return picture->kind == PICTURE_GROUP ? 800 : 600 + 12 * report->run_count;
}
