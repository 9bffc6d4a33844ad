/*
 * page.c -- the page: assets/page.html with its {{places}} filled.
 *
 * Tables and texts are written here, so that the page says all of it without a script; the script
 * draws and sorts. Whatever came out of a result file goes through report_put_html or
 * report_put_json, and the page's policy lets only scripts run that carry the page's nonce, which
 * no result file can know.
 */
#include "base/check.h"
#include "base/memory.h"
#include "report/page_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

extern const char report_asset_page[], report_asset_page_end[];

/* ---- Small pieces ---- */

static void put_asset(FILE *out, const char *start, const char *end)
{
    fwrite(start, 1, (size_t)(end - start), out);
}

/* ---- The head ---- */

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
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        const char *text = common_fact(page->report, "machine", names[i]);
        if (text == NULL)
            continue;
        fputs(first ? "" : " \xc2\xb7 ", page->out);
        page_put_fact(page->out, names[i], text);
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

/* ---- Verdicts ---- */

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
    page_put_label(page->out, row);
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
        fputs("<dt>", out);
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

static firn_rc put_folded(struct page *page, bool quiet, const char *summary, bool open)
{
    unsigned count = 0;
    for (unsigned i = 0; i < page->report->row_count; i++)
        count += is_quiet(&page->report->rows[i]) == quiet;
    if (count == 0)
        return FIRN_OK;
    fprintf(page->out, "<details%s><summary>%u of %u runs: %s</summary>\n", open ? " open" : "",
            count, page->report->row_count, summary);
    FIRN_TRY(put_verdict_list(page, quiet, false));
    fputs("</details>\n", page->out);
    return FIRN_OK;
}

/* Few runs are said one by one; of many, those in trouble first and the others on demand. Findings
   have said already what matters of all. */
static firn_rc put_verdicts(struct page *page)
{
    enum { ALL_SHOWN_MAX = 6 };
    const struct report *report = page->report;
    bool has_findings = false;
    for (unsigned i = 0; i < report->file_count; i++)
        has_findings |= report->files[i].finding_count > 0;
    FIRN_TRY(put_file_verdicts(page));
    if (report->row_count <= ALL_SHOWN_MAX && !has_findings)
        return put_verdict_list(page, false, true);
    FIRN_TRY(put_folded(page, false, "stalls or slowdowns", !has_findings));
    return put_folded(page, true, "neither stall nor slowdown", false);
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

/* ---- Runs ---- */

static void put_run_facts(FILE *out, const struct report_run *run)
{
    char text[PAGE_DURATION_BYTES];
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
            run->judgement.warmup_s > 0 ? page_duration(run->judgement.warmup_s * 1e9, text)
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

/* ---- Data and assets ---- */

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

/* assets.S embeds the files of assets/ and dygraphs under these names. */
#define PUT_ASSET(page, name)                                                                      \
    do {                                                                                           \
        extern const char report_asset_##name[], report_asset_##name##_end[];                      \
        put_asset((page)->out, report_asset_##name, report_asset_##name##_end);                    \
    } while (0)

static firn_rc put_style(struct page *page)
{
    PUT_ASSET(page, dygraphs_style);
    PUT_ASSET(page, style);
    return FIRN_OK;
}

static firn_rc put_script(struct page *page)
{
    PUT_ASSET(page, dygraphs);
    fputc('\n', page->out);
    PUT_ASSET(page, data);
    PUT_ASSET(page, chart);
    PUT_ASSET(page, comparison);
    PUT_ASSET(page, runs);
    PUT_ASSET(page, controls);
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

/* ---- The template ---- */

static const struct place {
    const char *name;
    firn_rc (*put)(struct page *page);
} places[] = {
    {"nonce", put_nonce},          {"title", put_title},
    {"style", put_style},          {"version", put_version},
    {"machine", put_machine},      {"created", put_created},
    {"verdicts", put_verdicts},    {"warning", put_warning},
    {"summary", page_put_summary}, {"runs", put_runs},
    {"same", page_put_same},       {"different", page_put_different},
    {"sources", page_put_sources}, {"data", put_data},
    {"script", put_script},
};

static firn_rc fill_place(struct page *page, const char *name, size_t length)
{
    for (unsigned i = 0; i < ARRAY_COUNT(places); i++)
        if (strlen(places[i].name) == length && memcmp(places[i].name, name, length) == 0)
            return places[i].put(page);
    return rc_raise(FIRN_E_MISUSE, "the page has no place \"%.*s\"", (int)length, name);
}

static firn_rc make_nonce(char nonce[PAGE_NONCE_BYTES])
{
    unsigned char random[(PAGE_NONCE_BYTES - 1) / 2];
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
