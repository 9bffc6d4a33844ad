#include "cli/survey_internal.h"

#include "base/check.h"
#include "base/units.h"
#include "cli/terminal.h"

#include <string.h>

enum { LABEL_COLUMNS = 24, CELL_COLUMNS = 7, TOPIC_COLUMNS = 18 };

/* "14.1 k" -> "14.1k": eight columns must fit 80 characters. */
static char *compact(char text[UNITS_TEXT_BYTES])
{
    char *blank = strchr(text, ' ');
    if (blank != NULL)
        memmove(blank, blank + 1, strlen(blank));
    return text;
}

static void print_count(FILE *out, double count)
{
    char text[UNITS_TEXT_BYTES];
    fprintf(out, " %*s", CELL_COLUMNS - 1, compact(units_format_count(count, text)));
}

static void print_time(FILE *out, double us)
{
    char text[UNITS_TEXT_BYTES];
    fprintf(out, " %*s", CELL_COLUMNS - 1, compact(units_format_duration(us * 1000, text)));
}

static void print_heading(const struct survey *survey, FILE *out)
{
    char size[UNITS_TEXT_BYTES];
    const struct host_machine *machine = &survey->machine;
    fprintf(out, "Survey of %s: %s in %u files, %s, %s\n", survey->directory,
            units_format_size((double)survey->target.data_bytes, size),
            (unsigned)survey->target.data_files, survey->direct ? "direct" : "buffered",
            survey->storage);
    if (survey->options.device != NULL)
        fprintf(out, "Modelled: %s\n", survey->model_text);
    else
        fprintf(out, "%s on %s%s%s; %u processors; %s\n",
                machine->file_system[0] == '\0' ? "unknown file system" : machine->file_system,
                machine->device[0] == '\0' ? "no block device" : machine->device,
                machine->device_model[0] == '\0' ? "" : ", ", machine->device_model,
                machine->processors, machine->system);
}

static void print_sync_row(const struct survey_findings *findings, enum survey_work work,
                           const char *label, FILE *out)
{
    const struct survey_outcome *outcome = survey_find(findings, work, 0);
    if (outcome == NULL)
        return;
    fprintf(out, "  %-*s", LABEL_COLUMNS + 8, label);
    print_count(out, outcome->write.per_s);
    print_time(out, outcome->write.p50_us);
    print_time(out, outcome->write.p99_us);
    print_time(out, outcome->write.max_us);
    fputc('\n', out);
}

static void print_syncs(const struct survey_findings *findings, FILE *out)
{
    if (survey_find(findings, SURVEY_APPEND, 0) == NULL)
        return;
    fprintf(out, "\n%-*s%*s%*s%*s%*s\n", LABEL_COLUMNS + 10, "Synced writes (fdatasync)",
            CELL_COLUMNS, "/s", CELL_COLUMNS, "median", CELL_COLUMNS, "p99", CELL_COLUMNS, "max");
    print_sync_row(findings, SURVEY_APPEND, "append 4 KiB, 1 thread", out);
    print_sync_row(findings, SURVEY_OVERWRITE, "overwrite 16 KiB, 1 thread", out);
    print_sync_row(findings, SURVEY_SYNC_MANY, "write 16 KiB, 8 threads, 8 files", out);
}

enum series_value { SERIES_PER_S, SERIES_P99 };

static void print_series(const struct survey_findings *findings, enum survey_work work,
                         enum series_value value, const char *label, FILE *out)
{
    bool reads = work == SURVEY_READ_THREADS || work == SURVEY_READ_DEPTH;
    if (survey_find(findings, work, 1) == NULL)
        return;
    fprintf(out, "  %-*s", LABEL_COLUMNS - 2, label);
    for (unsigned x = 1; x <= 128; x *= 2) {
        const struct survey_outcome *outcome = survey_find(findings, work, x);
        if (outcome == NULL)
            break;
        const struct survey_rate *rate = reads ? &outcome->read : &outcome->write;
        if (value == SERIES_PER_S)
            print_count(out, rate->per_s);
        else
            print_time(out, rate->p99_us);
    }
    fputc('\n', out);
}

static void print_random(const struct survey_findings *findings, FILE *out)
{
    if (survey_find(findings, SURVEY_READ_THREADS, 1) == NULL)
        return;
    fprintf(out, "\n%-*s", LABEL_COLUMNS, "Random 16 KiB");
    for (unsigned x = 1; x <= 128; x *= 2)
        fprintf(out, "%*u", CELL_COLUMNS, x);
    fputc('\n', out);
    print_series(findings, SURVEY_READ_THREADS, SERIES_PER_S, "reads/s by threads", out);
    print_series(findings, SURVEY_READ_THREADS, SERIES_P99, "  p99", out);
    print_series(findings, SURVEY_READ_DEPTH, SERIES_PER_S, "reads/s by depth", out);
    print_series(findings, SURVEY_READ_DEPTH, SERIES_P99, "  p99", out);
    print_series(findings, SURVEY_WRITE_THREADS, SERIES_PER_S, "writes/s by threads", out);
    print_series(findings, SURVEY_WRITE_THREADS, SERIES_P99, "  p99", out);
    print_series(findings, SURVEY_WRITE_DEPTH, SERIES_PER_S, "writes/s by depth", out);
    print_series(findings, SURVEY_WRITE_DEPTH, SERIES_P99, "  p99", out);
}

static void print_rate(const char *what, const struct survey_rate *rate, FILE *out)
{
    char text[UNITS_TEXT_BYTES];
    char high[UNITS_TEXT_BYTES];
    fprintf(out, "%s %s/s (p99 %s)", what, units_format_count(rate->per_s, text),
            units_format_duration(rate->p99_us * 1000, high));
}

static void print_others(const struct survey_findings *findings, FILE *out)
{
    char text[UNITS_TEXT_BYTES];
    const struct survey_outcome *read = survey_find(findings, SURVEY_SEQ_READ, 0);
    const struct survey_outcome *write = survey_find(findings, SURVEY_SEQ_WRITE, 0);
    const struct survey_outcome *mixed = survey_find(findings, SURVEY_MIXED, 0);
    if (read != NULL) {
        fprintf(out, "\n%-*s reads %s/s", TOPIC_COLUMNS, "Sequential 1 MiB",
                units_format_size(read->read.bytes_per_s, text));
        if (write != NULL)
            fprintf(out, ", writes %s/s", units_format_size(write->write.bytes_per_s, text));
        fputc('\n', out);
    }
    if (mixed != NULL) {
        fprintf(out, "%-*s ", TOPIC_COLUMNS, "Mixed, 16 threads");
        print_rate("reads", &mixed->read, out);
        fputs(", ", out);
        print_rate("writes", &mixed->write, out);
        fputc('\n', out);
    }
}

static void print_verdict(const struct survey_findings *findings, FILE *out)
{
    static struct survey_verdict verdict;
    int width = terminal_text_width(out);
    survey_judge(findings, &verdict);
    if (verdict.count == 0)
        return;
    fputs("\nVerdict\n", out);
    for (unsigned i = 0; i < verdict.count; i++) {
        bool warns = verdict.lines[i].severity == SURVEY_WARNS;
        int column = fprintf(out, "%s %s", warns ? "!" : " ", verdict.lines[i].topic);
        ASSERT(column < TOPIC_COLUMNS + 2);
        terminal_wrap(out, verdict.lines[i].text, column, TOPIC_COLUMNS + 2, width);
    }
}

void survey_print(const struct survey *survey, FILE *out)
{
    struct survey_findings findings = survey_findings(survey);
    print_heading(survey, out);
    print_syncs(&findings, out);
    print_random(&findings, out);
    print_others(&findings, out);
    print_verdict(&findings, out);
}
