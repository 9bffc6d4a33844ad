/* The table and the verdicts for a terminal, and the sentences that the page shows too. */
#include "base/memory.h"
#include "base/units.h"
#include "report/report_internal.h"

#include <math.h>
#include <string.h>

/* ---- Sentences ---- */

firn_rc report_row_verdict(const struct report *report, const struct report_row *row, char **text)
{
    const struct report_judgement *worst = &report->runs[row->runs[0]].judgement;
    for (unsigned i = 1; i < row->run_count; i++) {
        const struct report_judgement *judgement = &report->runs[row->runs[i]].judgement;
        if (judgement->stalled_s + judgement->slowed_s > worst->stalled_s + worst->slowed_s)
            worst = judgement;
    }
    char prefix[64] = "";
    if (row->run_count > 1)
        snprintf(prefix, sizeof(prefix), "The worst of %u repeats: ", row->run_count);
    size_t room = strlen(prefix) + strlen(worst->text) + 1;
    char *sentence = memory_alloc(room);
    if (sentence == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the verdict");
    snprintf(sentence, room, "%s%s", prefix, worst->text);
    *text = sentence;
    return FIRN_OK;
}

static bool is_interval(const struct report_row *row)
{
    return row->rate.confidence > 0;
}

void report_row_ratio_text(const struct report_row *row, char text[REPORT_RATIO_BYTES])
{
    snprintf(text, REPORT_RATIO_BYTES,
             "%.3g times the operations of the baseline (%s %.3g to %.3g)", row->ratio.ratio,
             row->ratio.sound ? "95 % interval" : "by the extremes", row->ratio.low,
             row->ratio.high);
}

/* Ratios of one file's runs to their namesakes: how many, and the sum of their logarithms. */
struct file_ratios {
    unsigned count;
    double log_sum;
    const struct report_row *lowest, *highest;
};

static void collect_ratios(const struct report *report, unsigned file, struct file_ratios *ratios)
{
    for (unsigned i = 0; i < report->row_count; i++) {
        const struct report_row *row = &report->rows[i];
        if (row->file != file || !report_row_has_ratio(row))
            continue;
        ratios->count++;
        ratios->log_sum += log(row->ratio.ratio);
        if (ratios->lowest == NULL || row->ratio.ratio < ratios->lowest->ratio.ratio)
            ratios->lowest = row;
        if (ratios->highest == NULL || row->ratio.ratio > ratios->highest->ratio.ratio)
            ratios->highest = row;
    }
}

/* The geometric mean is the one whose answer does not depend on which file is the baseline. */
firn_rc report_file_verdict(const struct report *report, unsigned file, char **text)
{
    struct file_ratios ratios = {0};
    *text = NULL;
    if (report->baseline_file < 0 || (unsigned)report->baseline_file == file)
        return FIRN_OK;
    collect_ratios(report, file, &ratios);
    if (ratios.count < 2)
        return FIRN_OK;
    enum { WORDS_BYTES = 256 };
    const char *label = report->files[file].label;
    const char *baseline = report->files[report->baseline_file].label;
    const char *lowest = ratios.lowest->name;
    const char *highest = ratios.highest->name;
    size_t room = strlen(label) + strlen(baseline) + strlen(lowest) + strlen(highest) + WORDS_BYTES;
    char *sentence = memory_alloc(room);
    if (sentence == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the verdict");
    snprintf(sentence, room,
             "%s does %.3g times the operations of %s: the geometric mean of %u runs, from %.3g "
             "(%s) to %.3g (%s)",
             label, exp(ratios.log_sum / ratios.count), baseline, ratios.count,
             ratios.lowest->ratio.ratio, lowest, ratios.highest->ratio.ratio, highest);
    *text = sentence;
    return FIRN_OK;
}

/* ---- The table ---- */

enum { NAME_COLUMNS_MAX = 52, NAME_END_COLUMNS = 16, CELL_BYTES = 48, CELLS = 10 };

/* Display columns of a UTF-8 text, near enough: code points. */
static unsigned text_columns(const char *text)
{
    unsigned columns = 0;
    for (; *text != '\0'; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

/* A name that is too wide loses its middle: the end tells files and models apart. */
static void put_name(FILE *out, const char *name, const char *indent, unsigned width)
{
    unsigned columns = text_columns(name);
    unsigned room = width - text_columns(indent);
    unsigned left_out = columns > room ? columns - room + 2 : 0;
    unsigned left_from = room - NAME_END_COLUMNS - 2;
    unsigned column = 0;
    char glyph[8];
    fputs(indent, out);
    while (*name != '\0') {
        size_t length = 1;
        while (((unsigned char)name[length] & 0xc0) == 0x80 && length < sizeof(glyph) - 1)
            length++;
        memcpy(glyph, name, length);
        glyph[length] = '\0';
        name += length;
        if (left_out > 0 && column == left_from)
            fputs("..", out);
        if (left_out == 0 || column < left_from || column >= left_from + left_out)
            report_put_terminal(out, glyph);
        column++;
    }
    if (columns < room)
        fprintf(out, "%*s", (int)(room - columns), "");
}

static const int cell_widths[CELLS] = {9, 17, 8, 8, 7, 7, 8, 8, 8, 9};

static void put_cells(FILE *out, char cells[CELLS][CELL_BYTES])
{
    unsigned last = CELLS;
    while (last > 0 && cells[last - 1][0] == '\0')
        last--;
    for (unsigned i = 0; i < last; i++) {
        /* "%" of a padded cell counts bytes; cells are ASCII. */
        fprintf(out, " %*s", cell_widths[i], cells[i]);
    }
    fputc('\n', out);
}

/* The places of the cells. */
enum { CELL_MEDIAN, CELL_INTERVAL, CELL_MEAN, CELL_MIB, CELL_RATIO, CELL_VARIATION, CELL_P50 };
enum { CELL_P99 = CELL_P50 + 1, CELL_MAX, CELL_SILENCE };

static void put_duration(char cell[CELL_BYTES], double duration_ns)
{
    char text[UNITS_TEXT_BYTES];
    snprintf(cell, CELL_BYTES, "%s", report_duration(duration_ns, text));
}

static void fill_rates(const struct report *report, const struct report_row *row,
                       char cells[CELLS][CELL_BYTES])
{
    const struct report_row *base = row->baseline < 0 ? NULL : &report->rows[row->baseline];
    char low[UNITS_TEXT_BYTES];
    char high[UNITS_TEXT_BYTES];
    units_format_count(row->rate.median, cells[CELL_MEDIAN]);
    snprintf(cells[CELL_INTERVAL], CELL_BYTES, "%s - %s%s", units_format_count(row->rate.low, low),
             units_format_count(row->rate.high, high), is_interval(row) ? "" : "*");
    units_format_count(row->mean_rate, cells[CELL_MEAN]);
    snprintf(cells[CELL_MIB], CELL_BYTES, "%.4g", row->mib_per_s);
    if (report_row_has_ratio(row))
        snprintf(cells[CELL_RATIO], CELL_BYTES, "%.3g%s", row->ratio.ratio,
                 report_row_is_unlike(row) ? "!" : "");
    else if (row == base)
        snprintf(cells[CELL_RATIO], CELL_BYTES, "1");
    snprintf(cells[CELL_VARIATION], CELL_BYTES, "%.3g%%", row->variation * 100);
    put_duration(cells[CELL_SILENCE], row->longest_silence_ms * 1e6);
}

static void fill_latencies(const struct report_row_kind *kind, char cells[CELLS][CELL_BYTES])
{
    if (!kind->has_latency)
        return;
    put_duration(cells[CELL_P50], kind->latency_us[LATENCY_P50] * 1e3);
    put_duration(cells[CELL_P99], kind->latency_us[LATENCY_P99] * 1e3);
    put_duration(cells[CELL_MAX], kind->latency_us[LATENCY_MAX] * 1e3);
}

static void put_row(const struct report *report, const struct report_row *row, unsigned width,
                    FILE *out)
{
    char cells[CELLS][CELL_BYTES] = {{0}};
    fill_rates(report, row, cells);
    if (row->kind_count == 1)
        fill_latencies(&row->kinds[0], cells);
    put_name(out, row->label, "", width);
    put_cells(out, cells);
    for (unsigned k = 0; k < row->kind_count && row->kind_count > 1; k++) {
        const struct report_row_kind *kind = &row->kinds[k];
        char of_kind[CELLS][CELL_BYTES] = {{0}};
        snprintf(of_kind[CELL_INTERVAL], CELL_BYTES, "%.3g%% of all", kind->share * 100);
        units_format_count(kind->operations_per_s, of_kind[CELL_MEAN]);
        fill_latencies(kind, of_kind);
        put_name(out, kind->name, "  ", width);
        put_cells(out, of_kind);
    }
}

static void put_notes(const struct report *report, FILE *out)
{
    bool few = false;
    bool unlike = false;
    for (unsigned i = 0; i < report->row_count; i++) {
        few |= !is_interval(&report->rows[i]);
        unlike |= report_row_is_unlike(&report->rows[i]);
    }
    if (few)
        fputs("*  fewer than 6 values: their minimum and maximum\n", out);
    if (report->baseline_file >= 0) {
        fputs("Ratios are to the run of the same name in ", out);
        report_put_terminal(out, report->files[report->baseline_file].path);
        fputs(".\n", out);
    } else if (report->baseline_row >= 0) {
        fputs("Ratios are to ", out);
        report_put_terminal(out, report->rows[report->baseline_row].label);
        fputs(".\n", out);
    }
    if (unlike)
        fputs(
            "!  differs from the baseline in more than one setting: the ratio does not tell which "
            "made it\n",
            out);
}

/* ---- Verdicts ---- */

static bool is_quiet(const struct report_row *row)
{
    return row->stalls == 0 && row->slowdowns == 0;
}

static void put_findings(const struct report *report, FILE *out)
{
    for (unsigned i = 0; i < report->file_count; i++)
        for (unsigned f = 0; f < report->files[i].finding_count; f++) {
            const struct report_finding *finding = &report->files[i].findings[f];
            if (report->file_count > 1) {
                report_put_terminal(out, report->files[i].label);
                fputs(", ", out);
            }
            report_put_terminal(out, finding->topic);
            fputs(": ", out);
            report_put_terminal(out, finding->text);
            fputc('\n', out);
        }
}

static firn_rc put_verdicts(const struct report *report, FILE *out)
{
    enum { ALL_SHOWN_MAX = 6 };
    unsigned left_out = 0;
    put_findings(report, out);
    for (unsigned i = 0; i < report->file_count; i++) {
        char *text;
        FIRN_TRY(report_file_verdict(report, i, &text));
        if (text == NULL)
            continue;
        report_put_terminal(out, text);
        fputs(".\n", out);
        memory_free(text);
    }
    for (unsigned i = 0; i < report->row_count; i++) {
        const struct report_row *row = &report->rows[i];
        if (report->row_count > ALL_SHOWN_MAX && is_quiet(row)) {
            left_out++;
            continue;
        }
        char *text;
        FIRN_TRY(report_row_verdict(report, row, &text));
        report_put_terminal(out, row->label);
        fputs(": ", out);
        report_put_terminal(out, text);
        fputc('\n', out);
        memory_free(text);
    }
    if (left_out > 0)
        fprintf(out, "%u of %u runs: neither stall nor slowdown.\n", left_out, report->row_count);
    return FIRN_OK;
}

firn_rc report_print(const struct report *report, FILE *out)
{
    unsigned width = NAME_END_COLUMNS + 8;
    for (unsigned i = 0; i < report->row_count; i++) {
        unsigned columns = text_columns(report->rows[i].label);
        width = columns > width ? columns : width;
    }
    width = width > NAME_COLUMNS_MAX ? NAME_COLUMNS_MAX : width;
    char heads[CELLS][CELL_BYTES] = {
        [CELL_MEDIAN] = "ops/s", [CELL_INTERVAL] = "95% interval",
        [CELL_MEAN] = "mean",    [CELL_MIB] = "MiB/s",
        [CELL_RATIO] = "ratio",  [CELL_VARIATION] = "varies",
        [CELL_P50] = "p50",      [CELL_P99] = "p99",
        [CELL_MAX] = "max",      [CELL_SILENCE] = "silence",
    };
    put_name(out, "run", "", width);
    put_cells(out, heads);
    for (unsigned i = 0; i < report->row_count; i++)
        put_row(report, &report->rows[i], width, out);
    put_notes(report, out);
    fputc('\n', out);
    return put_verdicts(report, out);
}
