#include "base/check.h"
#include "base/memory.h"
#include "report/report_internal.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[] = {"operations", "bytes",  "mean_us",
                                         "p50_us",     "p95_us", "p99_us",
                                         "p999_us",    "max_us", "schedule_p99_us"};
static const struct report_column_list kind_list = {kind_names, 9, 8};

/* A kind's columns stand beside the intervals' own in one object. */
static bool is_interval_column(const char *name)
{
    static const char *const taken[] = {"start_s", "length_s", "silence_ms", "silent_ms"};
    for (unsigned i = 0; i < ARRAY_COUNT(taken); i++)
        if (strcmp(name, taken[i]) == 0)
            return true;
    return false;
}

/* ---- Columns ---- */

static firn_rc read_column(const struct report_reader *reader, const json_t *array,
                           const char *where, const char *name, unsigned count, double **values)
{
    if (!json_is_array(array))
        return report_damaged(reader, where, name, "is no array");
    if (json_array_size(array) != count)
        return report_damaged(reader, where, name, "has not one element an interval");
    double *column = memory_alloc((count + 1) * sizeof(*column));
    if (column == NULL)
        return report_no_memory(reader);
    *values = column;
    for (unsigned i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, i);
        column[i] = json_is_null(value) ? NAN : json_number_value(value);
        if (!json_is_number(value) && !json_is_null(value))
            return report_damaged(reader, where, name, "holds something that is no number");
        if (column[i] < 0)
            return report_damaged(reader, where, name, "holds a negative number");
        if (column[i] > REPORT_NUMBER_MAX)
            return report_damaged(reader, where, name, "holds a number larger than any of a run");
    }
    return FIRN_OK;
}

firn_rc report_section_read(const struct report_reader *reader, const json_t *object,
                            const char *where, const char *name,
                            const struct report_column_list *list, unsigned interval_count,
                            struct report_section *section)
{
    section->name = memory_copy_text(name);
    section->columns = memory_zalloc(list->count, sizeof(*section->columns));
    if (section->name == NULL || section->columns == NULL)
        return report_no_memory(reader);
    section->column_count = list->count;
    for (unsigned i = 0; i < list->count; i++) {
        section->columns[i].name = list->names[i];
        const json_t *array = json_object_get(object, list->names[i]);
        if (array == NULL && i < list->required)
            return report_damaged(reader, where, list->names[i], "is missing");
        if (array != NULL)
            FIRN_TRY(read_column(reader, array, where, list->names[i], interval_count,
                                 &section->columns[i].values));
    }
    return FIRN_OK;
}

void report_section_free(struct report_section *section)
{
    for (unsigned i = 0; i < section->column_count; i++)
        memory_free(section->columns[i].values);
    memory_free(section->columns);
    memory_free(section->name);
}

/* Whatever is computed per interval needs these; only latencies may be null. */
firn_rc report_section_complete(const struct report_reader *reader, const char *where,
                                const struct report_section *section, unsigned column,
                                unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (isnan(section->columns[column].values[i]))
            return report_damaged(reader, where, section->columns[column].name, "holds null");
    return FIRN_OK;
}

/* ---- Interval histograms ---- */

struct heat_pairs {
    unsigned count, capacity;
};

static firn_rc heat_append(const struct report_reader *reader, struct report_heat *heat,
                           struct heat_pairs *pairs, unsigned bucket, double value)
{
    if (pairs->count == pairs->capacity) {
        unsigned capacity = pairs->capacity == 0 ? 1024 : pairs->capacity * 2;
        uint8_t *buckets = memory_realloc(heat->buckets, capacity * sizeof(*buckets));
        if (buckets == NULL)
            return report_no_memory(reader);
        heat->buckets = buckets;
        double *counts = memory_realloc(heat->counts, capacity * sizeof(*counts));
        if (counts == NULL)
            return report_no_memory(reader);
        heat->counts = counts;
        pairs->capacity = capacity;
    }
    heat->buckets[pairs->count] = (uint8_t)bucket;
    heat->counts[pairs->count++] = value;
    return FIRN_OK;
}

static firn_rc sum_interval(const struct report_reader *reader, const json_t *array,
                            const char *where, double sums[REPORT_HEAT_BUCKETS])
{
    size_t size = json_array_size(array);
    if (!json_is_array(array) || size % 2 != 0)
        return report_damaged(reader, where, "histogram", "holds what is no list of pairs");
    for (size_t i = 0; i < size; i += 2) {
        double bucket = json_number_value(json_array_get(array, i));
        double value = json_number_value(json_array_get(array, i + 1));
        if (!(bucket >= 0 && bucket < REPORT_HEAT_BUCKETS) || value < 0 ||
            value > REPORT_NUMBER_MAX)
            return report_damaged(reader, where, "histogram", "holds what is no bucket");
        sums[(unsigned)bucket] += value;
    }
    return FIRN_OK;
}

static firn_rc heat_read(const struct report_reader *reader, const json_t *array, const char *where,
                         unsigned interval_count, struct report_heat *heat)
{
    if (json_array_size(array) != interval_count)
        return report_damaged(reader, where, "histogram", "has not one element an interval");
    unsigned per_cell = (interval_count + REPORT_HEAT_CELLS_MAX - 1) / REPORT_HEAT_CELLS_MAX;
    if (per_cell == 0)
        return FIRN_OK;
    unsigned cells = (interval_count + per_cell - 1) / per_cell;
    heat->intervals_per_cell = per_cell;
    heat->first = memory_zalloc(cells + 1, sizeof(*heat->first));
    if (heat->first == NULL)
        return report_no_memory(reader);
    struct heat_pairs pairs = {0};
    for (unsigned cell = 0; cell < cells; cell++) {
        double sums[REPORT_HEAT_BUCKETS] = {0};
        for (unsigned i = cell * per_cell; i < (cell + 1) * per_cell && i < interval_count; i++)
            FIRN_TRY(sum_interval(reader, json_array_get(array, i), where, sums));
        for (unsigned bucket = 0; bucket < REPORT_HEAT_BUCKETS; bucket++)
            if (sums[bucket] > 0)
                FIRN_TRY(heat_append(reader, heat, &pairs, bucket, sums[bucket]));
        heat->first[cell + 1] = pairs.count;
    }
    heat->cell_count = cells;
    return FIRN_OK;
}

/* ---- Kinds ---- */

static firn_rc read_histogram(const struct report_reader *reader, const json_t *object,
                              const char *where, struct report_histogram *histogram)
{
    json_t *pairs;
    FIRN_TRY(report_member(reader, object, where, "pairs", JSON_ARRAY, &pairs));
    size_t count = json_array_size(pairs);
    histogram->low_ns = memory_alloc((count + 1) * sizeof(double));
    histogram->counts = memory_alloc((count + 1) * sizeof(double));
    if (histogram->low_ns == NULL || histogram->counts == NULL)
        return report_no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(pairs, i);
        double low_ns = json_number_value(json_array_get(pair, 0));
        double value = json_number_value(json_array_get(pair, 1));
        if (json_array_size(pair) != 2 || low_ns < 0 || low_ns > REPORT_NUMBER_MAX || value < 0 ||
            value > REPORT_NUMBER_MAX)
            return report_damaged(reader, where, "pairs", "holds something that is no bucket");
        if (i > 0 && low_ns <= histogram->low_ns[i - 1])
            return report_damaged(reader, where, "pairs", "does not ascend");
        histogram->low_ns[i] = low_ns;
        histogram->counts[i] = value;
    }
    histogram->count = (unsigned)count;
    return FIRN_OK;
}

static firn_rc read_summary(const struct report_reader *reader, const json_t *object,
                            const char *where, struct report_kind *kind)
{
    static const char *const members[LATENCY_COUNT] = {"p50_us", "p95_us", "p99_us", "p999_us",
                                                       "max_us"};
    FIRN_TRY(report_member_number(reader, object, where, "operations", &kind->operations));
    FIRN_TRY(
        report_member_number(reader, object, where, "operations_per_s", &kind->operations_per_s));
    FIRN_TRY(report_member_number(reader, object, where, "bytes_per_s", &kind->bytes_per_s));
    const json_t *latency = json_object_get(object, "latency");
    char inner[REPORT_WHERE_BYTES * 2];
    if (latency != NULL) {
        snprintf(inner, sizeof(inner), "%s.latency", where);
        for (unsigned i = 0; i < LATENCY_COUNT; i++)
            FIRN_TRY(
                report_member_number(reader, latency, inner, members[i], &kind->latency_us[i]));
        kind->has_latency = true;
    }
    const json_t *histogram = json_object_get(object, "histogram");
    if (histogram == NULL)
        return FIRN_OK;
    snprintf(inner, sizeof(inner), "%s.histogram", where);
    return read_histogram(reader, histogram, inner, &kind->histogram);
}

static firn_rc read_kind(const struct report_reader *reader, const json_t *element,
                         const char *where, const char *name, struct report_run *run)
{
    struct report_kind *kind = &run->kinds[run->kind_count++];
    kind->name = memory_copy_text(name);
    if (kind->name == NULL)
        return report_no_memory(reader);
    json_t *intervals;
    json_t *summary;
    json_t *columns;
    json_t *total;
    char inner[REPORT_WHERE_BYTES];
    snprintf(inner, sizeof(inner), "%s.intervals", where);
    FIRN_TRY(report_member(reader, element, where, "intervals", JSON_OBJECT, &intervals));
    FIRN_TRY(report_member(reader, intervals, inner, name, JSON_OBJECT, &columns));
    snprintf(inner, sizeof(inner), "%s.intervals.%s", where, name);
    FIRN_TRY(report_section_read(reader, columns, inner, name, &kind_list, run->interval_count,
                                 &kind->columns));
    FIRN_TRY(report_section_complete(reader, inner, &kind->columns, KIND_OPERATIONS,
                                     run->interval_count));
    FIRN_TRY(
        report_section_complete(reader, inner, &kind->columns, KIND_BYTES, run->interval_count));
    const json_t *histograms = json_object_get(columns, "histogram");
    if (histograms != NULL)
        FIRN_TRY(heat_read(reader, histograms, inner, run->interval_count, &kind->heat));
    snprintf(inner, sizeof(inner), "%s.summary", where);
    FIRN_TRY(report_member(reader, element, where, "summary", JSON_OBJECT, &summary));
    FIRN_TRY(report_member(reader, summary, inner, name, JSON_OBJECT, &total));
    snprintf(inner, sizeof(inner), "%s.summary.%s", where, name);
    return read_summary(reader, total, inner, kind);
}

firn_rc report_kinds_read(const struct report_reader *reader, const json_t *element,
                          const char *where, struct report_run *run)
{
    json_t *names;
    FIRN_TRY(report_member(reader, element, where, "kinds", JSON_ARRAY, &names));
    size_t count = json_array_size(names);
    if (count == 0 || count > METER_KINDS_MAX)
        return report_damaged(reader, where, "kinds", "has not 1 to 8 elements");
    run->kinds = memory_zalloc(count, sizeof(*run->kinds));
    if (run->kinds == NULL)
        return report_no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name == NULL || is_interval_column(name))
            return report_damaged(reader, where, "kinds", "holds what is no name of a kind");
        for (unsigned other = 0; other < run->kind_count; other++)
            if (strcmp(name, run->kinds[other].name) == 0)
                return report_damaged(reader, where, "kinds", "names a kind twice");
        FIRN_TRY(read_kind(reader, element, where, name, run));
    }
    return FIRN_OK;
}

void report_kind_free(struct report_kind *kind)
{
    memory_free(kind->name);
    report_section_free(&kind->columns);
    memory_free(kind->heat.first);
    memory_free(kind->heat.buckets);
    memory_free(kind->heat.counts);
    memory_free(kind->histogram.low_ns);
    memory_free(kind->histogram.counts);
}
