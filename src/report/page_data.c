/* What the page's script works on: the table, properties of runs, ratios of pairs, columns. */
#include "base/memory.h"
#include "report/report_internal.h"

/* ---- Runs ---- */

static json_t *events_json(const struct report_judgement *judgement)
{
    json_t *events = json_array();
    for (unsigned i = 0; i < judgement->event_count; i++) {
        const struct report_event *event = &judgement->events[i];
        events = report_json_appended(
            events, json_pack("[bff]", event->is_stall, event->start_s, event->length_s));
    }
    return events;
}

static json_t *kinds_json(const struct report_run *run)
{
    json_t *kinds = json_array();
    for (unsigned k = 0; k < run->kind_count; k++)
        kinds = report_json_appended(kinds, json_string(run->kinds[k].name));
    return kinds;
}

static json_t *run_json(const struct report_run *run)
{
    json_t *object = json_pack("{sssisisfsisiss}", "label", run->label, "row", (int)run->row,
                               "file", (int)run->file, "interval_s", run->interval_s, "intervals",
                               (int)run->interval_count, "judged_first", (int)run->judged_first,
                               "device_name", run->device_name);
    object = report_json_with(object, "kinds", kinds_json(run));
    return report_json_with(object, "events", events_json(&run->judgement));
}

/* ---- Pairs ---- */

/* The page can take any row as baseline while the pairs are few; above that, the one chosen. */
enum { PAIRED_ROWS_MAX = 64 };

static json_t *ratios_to(const struct report *report, unsigned baseline)
{
    json_t *ratios = json_array();
    for (unsigned i = 0; i < report->row_count; i++) {
        if (i == baseline) {
            ratios = report_json_appended(ratios, json_null());
            continue;
        }
        struct report_ratio ratio;
        if (report_ratio_compute(report, i, baseline, &ratio) != FIRN_OK) {
            json_decref(ratios);
            return NULL;
        }
        ratios = report_json_appended(ratios, report_ratio_json(&ratio));
        memory_free(ratio.differences);
    }
    return ratios;
}

static json_t *pairs_json(const struct report *report)
{
    json_t *pairs = json_array();
    for (unsigned i = 0; i < report->row_count && report->row_count <= PAIRED_ROWS_MAX; i++)
        pairs = report_json_appended(pairs, ratios_to(report, i));
    return pairs;
}

/* The baseline in force, as the page names its choices. */
static json_t *chosen_json(const struct report *report)
{
    if (report->baseline_file >= 0)
        return json_sprintf("file:%d", report->baseline_file);
    if (report->baseline_row >= 0)
        return json_sprintf("row:%d", report->baseline_row);
    return json_string("none");
}

firn_rc report_put_page_data(const struct report *report, FILE *out)
{
    json_t *runs = json_array();
    json_t *files = json_array();
    for (unsigned i = 0; i < report->run_count; i++)
        runs = report_json_appended(runs, run_json(&report->runs[i]));
    for (unsigned i = 0; i < report->file_count; i++)
        files = report_json_appended(files, json_string(report->files[i].label));
    json_t *data = report_json_with(report_json(report), "members", runs);
    data = report_json_with(data, "files", files);
    data = report_json_with(data, "chosen", chosen_json(report));
    data = report_json_with(data, "pairs", pairs_json(report));
    firn_rc rc = report_put_json(out, data);
    json_decref(data);
    return rc;
}

/* ---- Columns ---- */

static json_t *section_json(const struct report_section *section, unsigned count)
{
    json_t *object = json_object();
    for (unsigned c = 0; c < section->column_count; c++)
        if (section->columns[c].values != NULL)
            object = report_json_with(object, section->columns[c].name,
                                      report_pack_column(section->columns[c].values, count));
    return object;
}

static json_t *kind_json(const struct report_run *run, const struct report_kind *kind)
{
    json_t *object = section_json(&kind->columns, run->interval_count);
    if (kind->heat.cell_count > 0)
        object = report_json_with(object, "heat", report_pack_heat(&kind->heat));
    if (kind->histogram.count > 0)
        object = report_json_with(
            object, "histogram",
            json_pack("[oo]", report_pack_column(kind->histogram.low_ns, kind->histogram.count),
                      report_pack_column(kind->histogram.counts, kind->histogram.count)));
    return object;
}

static json_t *density_json(const struct report_density *density)
{
    json_t *values = json_array();
    for (unsigned i = 0; i < REPORT_DENSITY_POINTS && density->high > density->low; i++)
        values = report_json_appended(values, json_real(density->values[i]));
    return report_json_with(json_pack("{sfsf}", "low", density->low, "high", density->high),
                            "values", values);
}

firn_rc report_put_page_columns(const struct report_run *run, FILE *out)
{
    json_t *kinds = json_array();
    for (unsigned k = 0; k < run->kind_count; k++)
        kinds = report_json_appended(kinds, kind_json(run, &run->kinds[k]));
    json_t *columns = report_json_with(json_object(), "intervals",
                                       section_json(&run->intervals, run->interval_count));
    columns = report_json_with(columns, "rate", report_pack_column(run->rate, run->interval_count));
    columns = report_json_with(columns, "mib", report_pack_column(run->mib, run->interval_count));
    columns = report_json_with(columns, "density", density_json(&run->density));
    columns = report_json_with(columns, "density_log", density_json(&run->density_log));
    columns = report_json_with(columns, "kinds", kinds);
    columns = report_json_with(columns, "device", section_json(&run->device, run->interval_count));
    columns = report_json_with(columns, "cpu", section_json(&run->cpu, run->interval_count));
    firn_rc rc = report_put_json(out, columns);
    json_decref(columns);
    return rc;
}
