/* The table as JSON, for --json and for the page. */
#include "report/report_internal.h"

json_t *report_json_with(json_t *object, const char *name, json_t *value)
{
    if (object == NULL || value == NULL) {
        json_decref(object);
        json_decref(value);
        return NULL;
    }
    if (json_object_set_new(object, name, value) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *report_json_appended(json_t *array, json_t *value)
{
    if (array == NULL || value == NULL) {
        json_decref(array);
        json_decref(value);
        return NULL;
    }
    if (json_array_append_new(array, value) != 0) {
        json_decref(array);
        return NULL;
    }
    return array;
}

static json_t *kind_json(const struct report_row_kind *kind)
{
    static const char *const members[LATENCY_COUNT] = {"p50", "p95", "p99", "p999", "max"};
    json_t *latency = kind->has_latency ? json_object() : json_null();
    for (unsigned l = 0; l < LATENCY_COUNT && kind->has_latency; l++)
        latency = report_json_with(latency, members[l], json_real(kind->latency_us[l]));
    return report_json_with(json_pack("{sssfsfsf}", "name", kind->name, "operations_per_s",
                                      kind->operations_per_s, "mib_per_s", kind->mib_per_s, "share",
                                      kind->share),
                            "latency_us", latency);
}

static json_t *kinds_json(const struct report_row *row)
{
    json_t *array = json_array();
    for (unsigned k = 0; k < row->kind_count; k++)
        array = report_json_appended(array, kind_json(&row->kinds[k]));
    return array;
}

json_t *report_ratio_json(const struct report_ratio *ratio)
{
    if (ratio->ratio <= 0)
        return json_null();
    return json_pack("{sfsfsfsbsiss}", "ratio", ratio->ratio, "low", ratio->low, "high",
                     ratio->high, "sound", ratio->sound, "differences",
                     (int)ratio->difference_count, "differing", ratio->differences);
}

static json_t *row_json(const struct report *report, const struct report_row *row)
{
    const struct report_run *run = &report->runs[row->runs[0]];
    json_t *object =
        json_pack("{sssssssbsbsisf}", "label", row->label, "name", row->name, "file",
                  report->files[row->file].path, "modelled", row->modelled, "steady", row->steady,
                  "repeats", (int)row->run_count, "mib_per_s", row->mib_per_s);
    object = report_json_with(object, "operations_per_s",
                              json_pack("{sfsfsfsfsfsi}", "mean", row->mean_rate, "median",
                                        row->rate.median, "low", row->rate.low, "high",
                                        row->rate.high, "confidence", row->rate.confidence,
                                        "values", (int)row->rate_count));
    object = report_json_with(object, "warmup_s", json_real(row->warmup_s));
    object = report_json_with(object, "relative_variation", json_real(row->variation));
    object = report_json_with(object, "longest_silence_ms", json_real(row->longest_silence_ms));
    object = report_json_with(object, "stalls", json_integer(row->stalls));
    object = report_json_with(object, "stalled_s", json_real(row->stalled_s));
    object = report_json_with(object, "slowdowns", json_integer(row->slowdowns));
    object = report_json_with(object, "slowed_s", json_real(row->slowed_s));
    object = report_json_with(object, "baseline",
                              row->baseline < 0 ? json_null()
                                                : json_string(report->rows[row->baseline].label));
    object = report_json_with(object, "ratio", report_ratio_json(&row->ratio));
    object = report_json_with(object, "kinds", kinds_json(row));
    if (run->group != NULL)
        object = report_json_with(
            object, "group",
            json_pack("{sssssf}", "name", run->group, "axis", run->group_axis, "x", run->group_x));
    return object;
}

json_t *report_json(const struct report *report)
{
    json_t *rows = json_array();
    for (unsigned i = 0; i < report->row_count; i++)
        rows = report_json_appended(rows, row_json(report, &report->rows[i]));
    return report_json_with(json_object(), "runs", rows);
}
