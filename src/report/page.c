/*
 * page.c -- the page: assets/page.html with its {{places}} filled.
 *
 * Tables and texts are written here, so that the page says all of it without a script; the script
 * draws and sorts. Whatever came out of a result file goes through report_put_html or
 * report_put_json, and the page's policy lets only scripts run that carry the page's nonce, which
 * no result file can know.
 */
#include "base/memory.h"
#include "base/units.h"
#include "report/report_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { NONCE_BYTES = 33 };

struct page {
    const struct report *report;
    FILE *out;
    char nonce[NONCE_BYTES];
};

/* ---- Small pieces ------------------------------------------------------------------------------
 */

static void put_asset(FILE *out, const char *start, const char *end)
{
    fwrite(start, 1, (size_t)(end - start), out);
}

/* A label whose mark "(modelled)" becomes a badge. */
static void put_label(FILE *out, const struct report_row *row)
{
    static const char mark[] = " (modelled)";
    size_t length = strlen(row->label);
    size_t mark_length = sizeof(mark) - 1;
    bool marked = row->modelled && length > mark_length &&
                  strcmp(row->label + length - mark_length, mark) == 0;
    report_put_html_part(out, row->label, marked ? length - mark_length : length);
    if (marked)
        fputs(" <span class=\"badge modelled\">modelled</span>", out);
}

/* Names end in their units: bytes and seconds are shown as people say them, the number beside. */
static void put_fact(FILE *out, const char *name, const char *text)
{
    char readable[UNITS_TEXT_BYTES];
    size_t length = strlen(name);
    char *end;
    double number = strtod(text, &end);
    bool is_number = *text != '\0' && *end == '\0';
    if (is_number && number >= 1024 && length > 6 && strcmp(name + length - 6, "_bytes") == 0) {
        fprintf(out, "<span title=\"%.0f bytes\">%s</span>", number,
                units_format_size(number, readable));
        return;
    }
    report_put_html(out, text);
}

static void put_number_cell(FILE *out, double sort, const char *text)
{
    fprintf(out, "<td class=\"number\" data-sort=\"%.9g\">%s</td>", sort, text);
}

/* units.h keeps to ASCII for terminals; a page may have its Greek. */
static const char *duration_text(double duration_ns, char text[UNITS_TEXT_BYTES + 1])
{
    if (duration_ns == 0)
        return "0";
    units_format_duration(duration_ns, text);
    size_t length = strlen(text);
    if (length > 3 && strcmp(text + length - 3, " us") == 0)
        memcpy(text + length - 2, "\xc2\xb5s", sizeof("\xc2\xb5s"));
    return text;
}

/* ---- The head ----------------------------------------------------------------------------------
 */

static firn_rc put_title(struct page *page)
{
    const struct report *report = page->report;
    bool same = true;
    for (unsigned i = 1; i < report->file_count; i++)
        same &= strcmp(report->files[i].title, report->files[0].title) == 0;
    report_put_html(page->out, report->files[0].title);
    for (unsigned i = 1; i < report->file_count && !same; i++) {
        fputs(" \xc2\xb7 ", page->out);
        report_put_html(page->out, report->files[i].title);
    }
    return FIRN_OK;
}

static const char *common_fact(const struct report *report, const char *section, const char *name)
{
    for (unsigned i = 0; i < report->setting_count; i++) {
        const struct report_setting *setting = &report->settings[i];
        if (strcmp(setting->section, section) == 0 && strcmp(setting->name, name) == 0)
            return setting->same && *setting->texts[0] != '\0' ? setting->texts[0] : NULL;
    }
    return NULL;
}

/* What all runs share of the machine, in a line. */
static firn_rc put_machine(struct page *page)
{
    static const char *const names[] = {"processor", "processors",   "memory_bytes", "system",
                                        "kernel",    "device_model", "device",       "file_system"};
    bool first = true;
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = common_fact(page->report, "machine", names[i]);
        if (text == NULL)
            continue;
        fputs(first ? "" : " \xc2\xb7 ", page->out);
        put_fact(page->out, names[i], text);
        if (strcmp(names[i], "processors") == 0)
            fputs(strcmp(text, "1") == 0 ? " processor" : " processors", page->out);
        first = false;
    }
    if (first)
        fputs("several machines: see the setup", page->out);
    return FIRN_OK;
}

static firn_rc put_created(struct page *page)
{
    const struct report *report = page->report;
    const char *first = report->files[0].created;
    const char *last = first;
    for (unsigned i = 1; i < report->file_count; i++) {
        first = strcmp(report->files[i].created, first) < 0 ? report->files[i].created : first;
        last = strcmp(report->files[i].created, last) > 0 ? report->files[i].created : last;
    }
    report_put_html(page->out, first);
    if (strcmp(first, last) != 0) {
        fputs(" to ", page->out);
        report_put_html(page->out, last);
    }
    return FIRN_OK;
}

/* ---- Verdicts ----------------------------------------------------------------------------------
 */

static void put_tag(FILE *out, const struct report_row *row)
{
    if (row->stalls > 0)
        fprintf(out, "<span class=\"tag stall\">%u stall%s</span> ", row->stalls,
                row->stalls == 1 ? "" : "s");
    if (row->slowdowns > 0)
        fprintf(out, "<span class=\"tag slowdown\">%u slowdown%s</span> ", row->slowdowns,
                row->slowdowns == 1 ? "" : "s");
    if (row->mean_rate == 0)
        fputs("<span class=\"tag stall\">nothing done</span> ", out);
    else if (row->stalls == 0 && row->slowdowns == 0)
        fprintf(out, "<span class=\"tag %s</span> ",
                row->steady ? "steady\">steady" : "open\">no steady state found");
}

static firn_rc put_verdict(struct page *page, const struct report_row *row)
{
    char *text;
    FIRN_TRY(report_row_verdict(page->report, row, &text));
    fputs("<li><h3>", page->out);
    put_label(page->out, row);
    fputs("</h3><p>", page->out);
    put_tag(page->out, row);
    report_put_html(page->out, text);
    if (report_row_has_ratio(row)) {
        char ratio[REPORT_RATIO_BYTES];
        report_row_ratio_text(row, ratio);
        fprintf(page->out, " <span class=\"aside\">%s.</span>", ratio);
    }
    fputs("</p></li>\n", page->out);
    memory_free(text);
    return FIRN_OK;
}

static bool is_quiet(const struct report_row *row)
{
    return row->stalls == 0 && row->slowdowns == 0;
}

static firn_rc put_verdict_list(struct page *page, bool quiet, bool all)
{
    fputs("<ul class=\"verdicts\">\n", page->out);
    for (unsigned i = 0; i < page->report->row_count; i++)
        if (all || is_quiet(&page->report->rows[i]) == quiet)
            FIRN_TRY(put_verdict(page, &page->report->rows[i]));
    fputs("</ul>\n", page->out);
    return FIRN_OK;
}

/* A survey's findings: the runs judged together. */
static void put_findings(FILE *out, const struct report *report, const struct report_file *file)
{
    if (file->finding_count == 0)
        return;
    if (report->file_count > 1) {
        fputs("<h3>", out);
        report_put_html(out, file->label);
        fputs("</h3>\n", out);
    }
    fputs("<dl class=\"findings\">\n", out);
    for (unsigned i = 0; i < file->finding_count; i++) {
        const struct report_finding *finding = &file->findings[i];
        fprintf(out, "<dt%s>", finding->warns ? " class=\"warns\"" : "");
        report_put_html(out, finding->topic);
        fputs(finding->warns ? " <span class=\"tag slowdown\">note</span></dt><dd>" : "</dt><dd>",
              out);
        report_put_html(out, finding->text);
        fputs("</dd>\n", out);
    }
    fputs("</dl>\n", out);
}

static firn_rc put_file_verdicts(struct page *page)
{
    for (unsigned i = 0; i < page->report->file_count; i++)
        put_findings(page->out, page->report, &page->report->files[i]);
    for (unsigned i = 0; i < page->report->file_count; i++) {
        char *text;
        FIRN_TRY(report_file_verdict(page->report, i, &text));
        if (text == NULL)
            continue;
        fputs("<p class=\"headline\">", page->out);
        report_put_html(page->out, text);
        fputs(".</p>\n", page->out);
        memory_free(text);
    }
    return FIRN_OK;
}

/* Few runs are said one by one; of many, those in trouble first and the others on demand. */
static firn_rc put_verdicts(struct page *page)
{
    enum { ALL_SHOWN_MAX = 6 };
    const struct report *report = page->report;
    FIRN_TRY(put_file_verdicts(page));
    if (report->row_count <= ALL_SHOWN_MAX)
        return put_verdict_list(page, false, true);
    unsigned quiet = 0;
    for (unsigned i = 0; i < report->row_count; i++)
        quiet += is_quiet(&report->rows[i]);
    if (quiet < report->row_count)
        FIRN_TRY(put_verdict_list(page, false, false));
    if (quiet == 0)
        return FIRN_OK;
    fprintf(page->out, "<details><summary>%u of %u runs: neither stall nor slowdown</summary>\n",
            quiet, report->row_count);
    FIRN_TRY(put_verdict_list(page, true, false));
    fputs("</details>\n", page->out);
    return FIRN_OK;
}

static firn_rc put_warning(struct page *page)
{
    unsigned unlike = 0;
    unsigned compared = 0;
    for (unsigned i = 0; i < page->report->row_count; i++) {
        unlike += report_row_is_unlike(&page->report->rows[i]);
        compared += report_row_has_ratio(&page->report->rows[i]);
    }
    fprintf(page->out,
            "<p id=\"unlike\" class=\"warning\" role=\"status\"%s><strong>Unlike setups.</strong> "
            "<span>%u of %u</span> compared runs differ from their baseline in more than one "
            "setting, so their ratios do not tell which of them made the difference. They are "
            "marked \xe2\x89\xa0 below; <a href=\"#setup\">the setup</a> has the settings side by "
            "side.</p>\n",
            unlike == 0 ? " hidden" : "", unlike, compared);
    return FIRN_OK;
}

/* ---- The summary table -------------------------------------------------------------------------
 */

static void put_kind_cells(FILE *out, const struct report_row *row, unsigned k)
{
    char text[UNITS_TEXT_BYTES + 1];
    const struct report_row_kind *kind = &row->kinds[k];
    fputs("<td class=\"kind\">", out);
    report_put_html(out, kind->name);
    if (row->kind_count > 1)
        fprintf(out, " <span class=\"aside\">%.0f %%</span>", kind->share * 100);
    fputs("</td>", out);
    for (unsigned l = 0; l < LATENCY_COUNT; l++)
        put_number_cell(out, kind->has_latency ? kind->latency_us[l] : -1,
                        kind->has_latency ? duration_text(kind->latency_us[l] * 1e3, text)
                                          : "\xe2\x80\x93");
}

static void put_rate_cell(FILE *out, const struct report_row *row, unsigned rows)
{
    char median[UNITS_TEXT_BYTES];
    char low[UNITS_TEXT_BYTES];
    char high[UNITS_TEXT_BYTES];
    fprintf(out,
            "<td rowspan=\"%u\" class=\"number\" data-sort=\"%.9g\" title=\"of %u values\">"
            "<strong>%s</strong><span class=\"under\">%s \xe2\x80\x93 %s%s</span></td>",
            rows, row->rate.median, row->rate_count, units_format_count(row->rate.median, median),
            units_format_count(row->rate.low, low), units_format_count(row->rate.high, high),
            row->rate.confidence > 0 ? "" : "*");
}

static void put_ratio_cell(FILE *out, const struct report_row *row, unsigned number, unsigned rows)
{
    fprintf(out, "<td rowspan=\"%u\" class=\"number ratio\" data-sort=\"%.9g\">", rows,
            row->ratio.ratio);
    if (report_row_has_ratio(row))
        fprintf(out, "<strong>%.3g</strong><span class=\"under\">%.3g \xe2\x80\x93 %.3g</span>",
                row->ratio.ratio, row->ratio.low, row->ratio.high);
    else
        fputs(row->baseline == (int)number ? "1" : "\xe2\x80\x93", out);
    if (report_row_is_unlike(row)) {
        fputs(" <span class=\"badge unlike\" title=\"differs in: ", out);
        report_put_html(out, row->ratio.differences);
        fprintf(out, "\">\xe2\x89\xa0 %u</span>", row->ratio.difference_count);
    }
    fputs("</td>", out);
}

static void put_event_cell(FILE *out, unsigned events, double length_s, unsigned rows)
{
    char text[UNITS_TEXT_BYTES + 1];
    fprintf(out, "<td rowspan=\"%u\" class=\"number\" data-sort=\"%.9g\">", rows, length_s);
    if (events == 0)
        fputs("0</td>", out);
    else
        fprintf(out, "%u<span class=\"under\">%s</span></td>", events,
                duration_text(length_s * 1e9, text));
}

static void put_row(FILE *out, const struct report_row *row, unsigned number)
{
    char text[UNITS_TEXT_BYTES + 1];
    unsigned rows = row->kind_count > 0 ? row->kind_count : 1;
    fprintf(out, "<tbody data-row=\"%u\"><tr><td rowspan=\"%u\" class=\"number key\">%u</td>",
            number, rows, number + 1);
    fprintf(out, "<th scope=\"rowgroup\" rowspan=\"%u\">", rows);
    put_label(out, row);
    if (row->run_count > 1)
        fprintf(out, " <span class=\"aside\">%u repeats</span>", row->run_count);
    fputs("</th>", out);
    put_rate_cell(out, row, rows);
    fprintf(out, "<td rowspan=\"%u\" class=\"number\" data-sort=\"%.9g\">%s</td>", rows,
            row->mean_rate, units_format_count(row->mean_rate, text));
    fprintf(out, "<td rowspan=\"%u\" class=\"number\" data-sort=\"%.9g\">%.4g</td>", rows,
            row->mib_per_s, row->mib_per_s);
    put_ratio_cell(out, row, number, rows);
    fprintf(out, "<td rowspan=\"%u\" class=\"number\" data-sort=\"%.9g\">%.1f %%</td>", rows,
            row->variation, row->variation * 100);
    put_event_cell(out, row->stalls, row->stalled_s, rows);
    put_event_cell(out, row->slowdowns, row->slowed_s, rows);
    fprintf(out, "<td rowspan=\"%u\" class=\"number\" data-sort=\"%.9g\">%s</td>", rows,
            row->longest_silence_ms, duration_text(row->longest_silence_ms * 1e6, text));
    for (unsigned k = 0; k < row->kind_count; k++) {
        fputs(k == 0 ? "" : "<tr>", out);
        put_kind_cells(out, row, k);
        fputs("</tr>\n", out);
    }
    fputs(row->kind_count == 0 ? "<td colspan=\"6\"></td></tr></tbody>\n" : "</tbody>\n", out);
}

static firn_rc put_summary(struct page *page)
{
    for (unsigned i = 0; i < page->report->row_count; i++)
        put_row(page->out, &page->report->rows[i], i);
    return FIRN_OK;
}

/* ---- Runs --------------------------------------------------------------------------------------
 */

static void put_run_facts(FILE *out, const struct report_run *run)
{
    char text[UNITS_TEXT_BYTES + 1];
    double total = 0;
    for (unsigned k = 0; k < run->kind_count; k++)
        total += run->kinds[k].operations;
    fputs("<p class=\"facts\">", out);
    for (unsigned k = 0; k < run->kind_count; k++) {
        const struct report_kind *kind = &run->kinds[k];
        fputs(k == 0 ? "" : " \xc2\xb7 ", out);
        report_put_html(out, kind->name);
        fprintf(out, " %.3g %% of operations (%s/s", total > 0 ? 100 * kind->operations / total : 0,
                units_format_count(kind->operations_per_s, text));
        if (kind->bytes_per_s > 0)
            fprintf(out, ", %s/s", units_format_size(kind->bytes_per_s, text));
        fputc(')', out);
    }
    fprintf(out, " \xc2\xb7 warm-up %s",
            run->judgement.warmup_s > 0 ? duration_text(run->judgement.warmup_s * 1e9, text)
                                        : "none");
    fputs("</p>\n", out);
}

static firn_rc put_runs(struct page *page)
{
    enum { ALL_OPEN_MAX = 3 };
    const struct report *report = page->report;
    for (unsigned i = 0; i < report->run_count; i++) {
        const struct report_run *run = &report->runs[i];
        fprintf(page->out,
                "<details class=\"run\" data-run=\"%u\"%s><summary><span class=\"key\">%u</span> ",
                i, report->run_count <= ALL_OPEN_MAX ? " open" : "", run->row + 1);
        report_put_html(page->out, run->label);
        fputs("</summary>\n<p>", page->out);
        report_put_html(page->out, run->judgement.text);
        fputs("</p>\n", page->out);
        put_run_facts(page->out, run);
        fputs("<div class=\"figures\"></div></details>\n", page->out);
    }
    return FIRN_OK;
}

/* ---- Setup -------------------------------------------------------------------------------------
 */

static firn_rc put_same(struct page *page)
{
    const char *section = "";
    for (unsigned i = 0; i < page->report->setting_count; i++) {
        const struct report_setting *setting = &page->report->settings[i];
        if (!setting->same)
            continue;
        if (strcmp(section, setting->section) != 0) {
            fprintf(page->out, "%s<div><h4>%s</h4><dl>\n", *section == '\0' ? "" : "</dl></div>",
                    setting->section);
            section = setting->section;
        }
        fputs("<dt>", page->out);
        report_put_html(page->out, setting->name);
        fputs("</dt><dd>", page->out);
        put_fact(page->out, setting->name, setting->texts[0]);
        fputs("</dd>\n", page->out);
    }
    if (*section != '\0')
        fputs("</dl></div>\n", page->out);
    return FIRN_OK;
}

static void put_difference(FILE *out, const struct report *report,
                           const struct report_setting *setting)
{
    fprintf(out, "<tr%s><th scope=\"row\">", setting->compared ? " class=\"differs\"" : "");
    report_put_html(out, setting->name);
    fprintf(out, " <span class=\"aside\">%s</span></th>", setting->section);
    const char *before = NULL;
    for (unsigned r = 0; r < report->row_count; r++) {
        const char *text = setting->texts[report->rows[r].runs[0]];
        bool changed =
            r > 0 && (text == NULL || before == NULL ? text != before : strcmp(text, before) != 0);
        fprintf(out, "<td%s>", changed && setting->compared ? " class=\"changed\"" : "");
        if (text == NULL)
            fputs("<span class=\"aside\">\xe2\x80\x93</span>", out);
        else
            put_fact(out, setting->name, text);
        fputs("</td>", out);
        before = text;
    }
    fputs("</tr>\n", out);
}

static firn_rc put_different(struct page *page)
{
    const struct report *report = page->report;
    if (report->row_count < 2)
        return FIRN_OK;
    fputs("<h3>What differs</h3>\n<div class=\"table-frame\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"Settings that differ\">\n<table id=\"different\">\n"
          "<thead><tr><th scope=\"col\">setting</th>",
          page->out);
    for (unsigned r = 0; r < report->row_count; r++) {
        fprintf(page->out, "<th scope=\"col\"><span class=\"key\">%u</span> ", r + 1);
        put_label(page->out, &report->rows[r]);
        fputs("</th>", page->out);
    }
    fputs("</tr></thead><tbody>\n", page->out);
    for (unsigned i = 0; i < report->setting_count; i++)
        if (!report->settings[i].same)
            put_difference(page->out, report, &report->settings[i]);
    fputs("</tbody>\n</table>\n</div>\n<h3>What all runs share</h3>\n", page->out);
    return FIRN_OK;
}

static firn_rc put_sources(struct page *page)
{
    for (unsigned i = 0; i < page->report->file_count; i++) {
        const struct report_file *file = &page->report->files[i];
        fputs("<tr><th scope=\"row\">", page->out);
        report_put_html(page->out, file->path);
        fputs("</th><td>", page->out);
        report_put_html(page->out, file->title);
        fputs("</td><td>", page->out);
        report_put_html(page->out, file->created);
        fputs("</td><td><code>", page->out);
        report_put_html(page->out, file->command);
        fputs("</code></td></tr>\n", page->out);
    }
    return FIRN_OK;
}

/* ---- Data and assets ---------------------------------------------------------------------------
 */

static firn_rc put_data(struct page *page)
{
    fputs("<script type=\"application/json\" id=\"data\">", page->out);
    FIRN_TRY(report_put_page_data(page->report, page->out));
    fputs("</script>\n", page->out);
    for (unsigned i = 0; i < page->report->run_count; i++) {
        fprintf(page->out, "<script type=\"application/json\" id=\"columns-%u\">", i);
        FIRN_TRY(report_put_page_columns(&page->report->runs[i], page->out));
        fputs("</script>\n", page->out);
    }
    return FIRN_OK;
}

static firn_rc put_style(struct page *page)
{
    put_asset(page->out, report_asset_dygraphs_style, report_asset_dygraphs_style_end);
    put_asset(page->out, report_asset_style, report_asset_style_end);
    return FIRN_OK;
}

static firn_rc put_script(struct page *page)
{
    put_asset(page->out, report_asset_dygraphs, report_asset_dygraphs_end);
    fputc('\n', page->out);
    put_asset(page->out, report_asset_data, report_asset_data_end);
    put_asset(page->out, report_asset_chart, report_asset_chart_end);
    put_asset(page->out, report_asset_script, report_asset_script_end);
    return FIRN_OK;
}

static firn_rc put_nonce(struct page *page)
{
    fputs(page->nonce, page->out);
    return FIRN_OK;
}

static firn_rc put_version(struct page *page)
{
    fprintf(page->out, "%s (%s)", firn_version(), firn_commit());
    return FIRN_OK;
}

/* ---- The template ------------------------------------------------------------------------------
 */

static const struct place {
    const char *name;
    firn_rc (*put)(struct page *page);
} places[] = {
    {"nonce", put_nonce},       {"title", put_title},     {"style", put_style},
    {"version", put_version},   {"machine", put_machine}, {"created", put_created},
    {"verdicts", put_verdicts}, {"warning", put_warning}, {"summary", put_summary},
    {"runs", put_runs},         {"same", put_same},       {"different", put_different},
    {"sources", put_sources},   {"data", put_data},       {"script", put_script},
};

static firn_rc fill_place(struct page *page, const char *name, size_t length)
{
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (strlen(places[i].name) == length && memcmp(places[i].name, name, length) == 0)
            return places[i].put(page);
    return rc_raise(FIRN_E_MISUSE, "the page has no place \"%.*s\"", (int)length, name);
}

static firn_rc make_nonce(char nonce[NONCE_BYTES])
{
    unsigned char random[(NONCE_BYTES - 1) / 2];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return rc_raise_errno(errno, "the system gives no random number for the page");
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(nonce + 2 * i, 3, "%02x", random[i]);
    return FIRN_OK;
}

firn_rc report_write_page(const struct report *report, FILE *out)
{
    struct page page = {.report = report, .out = out};
    FIRN_TRY(make_nonce(page.nonce));
    const char *next = report_asset_page;
    while (next < report_asset_page_end) {
        size_t left = (size_t)(report_asset_page_end - next);
        const char *open = memmem(next, left, "{{", 2);
        const char *close =
            open == NULL ? NULL : memmem(open, left - (size_t)(open - next), "}}", 2);
        if (close == NULL) {
            fwrite(next, 1, left, out);
            break;
        }
        fwrite(next, 1, (size_t)(open - next), out);
        FIRN_TRY(fill_place(&page, open + 2, (size_t)(close - open) - 2));
        next = close + 2;
    }
    return FIRN_OK;
}
