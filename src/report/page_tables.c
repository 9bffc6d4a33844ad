/* page_tables.c -- the page's tables: the summary, and the setups side by side. */
#include "report/page_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Small pieces ---- */

/* A label whose mark "(modelled)" becomes a badge. */
void page_put_label(FILE *out, const struct report_row *row)
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

/* Names end in their units: bytes are shown as people say them, the number on demand. */
void page_put_fact(FILE *out, const char *name, const char *text)
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

/* units.h keeps to ASCII for terminals; a page may have its Greek. */
const char *page_duration(double duration_ns, char text[PAGE_DURATION_BYTES])
{
    if (duration_ns == 0)
        return "0";
    units_format_duration(duration_ns, text);
    size_t length = strlen(text);
    if (length > 3 && strcmp(text + length - 3, " us") == 0)
        memcpy(text + length - 2, "\xc2\xb5s", sizeof("\xc2\xb5s"));
    return text;
}

static void put_number_cell(FILE *out, double sort, const char *text)
{
    fprintf(out, "<td class=\"number\" data-sort=\"%.9g\">%s</td>", sort, text);
}

/* ---- The summary table ---- */

static void put_kind_cells(FILE *out, const struct report_row *row, unsigned k)
{
    char text[PAGE_DURATION_BYTES];
    const struct report_row_kind *kind = &row->kinds[k];
    fputs("<td class=\"kind\">", out);
    report_put_html(out, kind->name);
    if (row->kind_count > 1)
        fprintf(out, " <span class=\"aside\">%.0f %%</span>", kind->share * 100);
    fputs("</td>", out);
    for (unsigned l = 0; l < LATENCY_COUNT; l++)
        put_number_cell(out, kind->has_latency ? kind->latency_us[l] : -1,
                        kind->has_latency ? page_duration(kind->latency_us[l] * 1e3, text)
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
    char text[PAGE_DURATION_BYTES];
    fprintf(out, "<td rowspan=\"%u\" class=\"number\" data-sort=\"%.9g\">", rows, length_s);
    if (events == 0)
        fputs("0</td>", out);
    else
        fprintf(out, "%u<span class=\"under\">%s</span></td>", events,
                page_duration(length_s * 1e9, text));
}

static void put_row(FILE *out, const struct report_row *row, unsigned number)
{
    char text[PAGE_DURATION_BYTES];
    unsigned rows = row->kind_count > 0 ? row->kind_count : 1;
    fprintf(out, "<tbody data-row=\"%u\"><tr><td rowspan=\"%u\" class=\"number key\">%u</td>",
            number, rows, number + 1);
    fprintf(out, "<th scope=\"rowgroup\" rowspan=\"%u\">", rows);
    page_put_label(out, row);
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
            row->longest_silence_ms, page_duration(row->longest_silence_ms * 1e6, text));
    for (unsigned k = 0; k < row->kind_count; k++) {
        fputs(k == 0 ? "" : "<tr>", out);
        put_kind_cells(out, row, k);
        fputs("</tr>\n", out);
    }
    fputs(row->kind_count == 0 ? "<td colspan=\"6\"></td></tr></tbody>\n" : "</tbody>\n", out);
}

firn_rc page_put_summary(struct page *page)
{
    for (unsigned i = 0; i < page->report->row_count; i++)
        put_row(page->out, &page->report->rows[i], i);
    return FIRN_OK;
}

/* ---- Setup ---- */

firn_rc page_put_same(struct page *page)
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
        page_put_fact(page->out, setting->name, setting->texts[0]);
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
            page_put_fact(out, setting->name, text);
        fputs("</td>", out);
        before = text;
    }
    fputs("</tr>\n", out);
}

firn_rc page_put_different(struct page *page)
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
        page_put_label(page->out, &report->rows[r]);
        fputs("</th>", page->out);
    }
    fputs("</tr></thead><tbody>\n", page->out);
    for (unsigned i = 0; i < report->setting_count; i++)
        if (!report->settings[i].same)
            put_difference(page->out, report, &report->settings[i]);
    fputs("</tbody>\n</table>\n</div>\n<h3>What all runs share</h3>\n", page->out);
    return FIRN_OK;
}

firn_rc page_put_sources(struct page *page)
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
