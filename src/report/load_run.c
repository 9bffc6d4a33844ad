#include "base/check.h"
#include "base/memory.h"
#include "report/report_internal.h"

#include <math.h>
#include <string.h>

static const char *const interval_names[] = {"start_s", "length_s", "silence_ms", "silent_ms"};
static const char *const device_names[] = {
    "r_s",        "w_s",        "f_s",        "rkb_s",    "wkb_s",    "rrqm_s", "wrqm_s",
    "r_await_ms", "w_await_ms", "f_await_ms", "rareq_kb", "wareq_kb", "aqu_sz", "util_percent"};
static const char *const cpu_names[] = {
    "user_percent",  "system_percent",       "iowait_percent",        "idle_percent",
    "steal_percent", "process_user_percent", "process_system_percent"};

static const struct report_column_list interval_list = {interval_names, 4, 4};
static const struct report_column_list device_list = {device_names, 14, 0};
static const struct report_column_list cpu_list = {cpu_names, 7, 0};

/* ---- Facts ---- */

firn_rc report_fact_add(struct report_facts *facts, const char *section, const char *name,
                        const char *text, bool compared)
{
    if (facts->count == facts->capacity) {
        unsigned capacity = facts->capacity == 0 ? 64 : facts->capacity * 2;
        struct report_fact *larger = memory_realloc(facts->facts, capacity * sizeof(*larger));
        if (larger == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for a run's settings");
        facts->facts = larger;
        facts->capacity = capacity;
    }
    struct report_fact fact = {.section = section, .compared = compared};
    fact.name = memory_copy_text(name);
    fact.text = memory_copy_text(text);
    if (fact.name == NULL || fact.text == NULL) {
        memory_free(fact.name);
        memory_free(fact.text);
        return rc_raise(FIRN_E_NOMEM, "no memory for a run's settings");
    }
    facts->facts[facts->count++] = fact;
    return FIRN_OK;
}

/* Like runs differ in these too: in chance, in where and how much they wrote and printed, in the
   speed of a model's clock. What directories differ in is told by the machine's device. */
static bool is_noise(const char *name)
{
    static const char *const names[] = {"directory_free_bytes",
                                        "dir",
                                        "json",
                                        "verbosity",
                                        "debug",
                                        "histogram",
                                        "percentile",
                                        "time_scale",
                                        "report_checkpoints"};
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    size_t length = strlen(name);
    return length >= 4 && strcmp(name + length - 4, "seed") == 0;
}

firn_rc report_facts_read(const struct report_reader *reader, const json_t *object,
                          const char *where, const char *section, struct report_facts *facts)
{
    if (json_object_size(object) > REPORT_FACTS_MAX)
        return report_damaged(reader, where, "", "has too many members");
    const char *name;
    json_t *value = NULL;
    json_object_foreach((json_t *)object, name, value)
    {
        char number[64];
        const char *text = number;
        if (json_is_string(value))
            text = json_string_value(value);
        else if (json_is_integer(value))
            snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
        else if (json_is_real(value))
            snprintf(number, sizeof(number), "%.12g", json_real_value(value));
        else if (json_is_boolean(value))
            text = json_is_true(value) ? "on" : "off";
        else if (json_is_null(value))
            text = "none";
        else
            return report_damaged(reader, where, name, "is neither text nor number");
        FIRN_TRY(report_fact_add(facts, section, name, text, !is_noise(name)));
    }
    return FIRN_OK;
}

/* ---- The judgement ---- */

static firn_rc read_events(const struct report_reader *reader, const json_t *array,
                           const char *where, struct report_judgement *judgement)
{
    judgement->events = memory_zalloc(json_array_size(array) + 1, sizeof(*judgement->events));
    if (judgement->events == NULL)
        return report_no_memory(reader);
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *element = json_array_get(array, i);
        struct report_event *event = &judgement->events[i];
        char inner[REPORT_WHERE_BYTES];
        snprintf(inner, sizeof(inner), "%.100s.events[%zu]", where, i);
        json_t *kind;
        FIRN_TRY(report_member(reader, element, inner, "kind", JSON_STRING, &kind));
        event->is_stall = strcmp(json_string_value(kind), "stall") == 0;
        if (!event->is_stall && strcmp(json_string_value(kind), "slowdown") != 0)
            return report_damaged(reader, inner, "kind", "is neither stall nor slowdown");
        FIRN_TRY(report_member_number(reader, element, inner, "start_s", &event->start_s));
        FIRN_TRY(report_member_number(reader, element, inner, "length_s", &event->length_s));
    }
    judgement->event_count = (unsigned)json_array_size(array);
    return FIRN_OK;
}

static firn_rc read_judgement(const struct report_reader *reader, const json_t *element,
                              const char *run_where, struct report_judgement *judgement)
{
    json_t *object;
    json_t *value = NULL;
    char where[REPORT_WHERE_BYTES];
    snprintf(where, sizeof(where), "%s.judgement", run_where);
    FIRN_TRY(report_member(reader, element, run_where, "judgement", JSON_OBJECT, &object));
    FIRN_TRY(report_member_text(reader, object, where, "text", &judgement->text));
    FIRN_TRY(report_member(reader, object, where, "steady", JSON_TRUE, &value));
    judgement->steady = json_is_true(value);
    const struct {
        const char *name;
        double *number;
    } numbers[] = {
        {"warmup_s", &judgement->warmup_s},
        {"mean_rate_per_s", &judgement->mean_rate},
        {"relative_variation", &judgement->relative_variation},
        {"longest_silence_ms", &judgement->longest_silence_ms},
        {"stalled_s", &judgement->stalled_s},
        {"slowed_s", &judgement->slowed_s},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(numbers); i++)
        FIRN_TRY(report_member_number(reader, object, where, numbers[i].name, numbers[i].number));
    FIRN_TRY(report_member(reader, object, where, "events", JSON_ARRAY, &value));
    return read_events(reader, value, where, judgement);
}

/* ---- The run ---- */

static firn_rc read_modelled(const struct report_reader *reader, const json_t *element,
                             const char *where, struct report_run *run)
{
    const json_t *modelled = json_object_get(element, "modelled");
    if (modelled == NULL)
        return report_damaged(reader, where, "modelled", "is missing");
    if (json_is_null(modelled))
        return FIRN_OK;
    char inner[REPORT_WHERE_BYTES];
    char scale[32];
    double time_scale;
    snprintf(inner, sizeof(inner), "%s.modelled", where);
    FIRN_TRY(report_member_text(reader, modelled, inner, "device", &run->modelled));
    FIRN_TRY(report_member_number(reader, modelled, inner, "time_scale", &time_scale));
    snprintf(scale, sizeof(scale), "%.6g", time_scale);
    /* A setting "device" would say the same: one difference must not count twice. */
    bool compared = json_object_get(json_object_get(element, "setup"), "device") == NULL;
    FIRN_TRY(report_fact_add(&run->facts, "run", "modelled_device", run->modelled, compared));
    return report_fact_add(&run->facts, "run", "time_scale",
                           time_scale > 0 ? scale : "virtual time", false);
}

/* Facts of the run itself. */
static firn_rc read_run_facts(const struct report_reader *reader, const json_t *element,
                              const char *where, struct report_run *run)
{
    json_t *workload;
    json_t *storage;
    json_t *start;
    json_t *setup;
    char inner[REPORT_WHERE_BYTES];
    char interval[32];
    FIRN_TRY(report_member(reader, element, where, "workload", JSON_STRING, &workload));
    FIRN_TRY(report_member(reader, element, where, "storage", JSON_STRING, &storage));
    FIRN_TRY(report_member(reader, element, where, "start", JSON_STRING, &start));
    FIRN_TRY(report_member(reader, element, where, "setup", JSON_OBJECT, &setup));
    snprintf(inner, sizeof(inner), "%s.setup", where);
    snprintf(interval, sizeof(interval), "%.12g", run->interval_s);
    struct report_facts *facts = &run->facts;
    FIRN_TRY(report_fact_add(facts, "run", "workload", json_string_value(workload), true));
    FIRN_TRY(report_fact_add(facts, "run", "storage", json_string_value(storage), true));
    FIRN_TRY(report_fact_add(facts, "run", "interval_s", interval, false));
    FIRN_TRY(report_fact_add(facts, "run", "start", json_string_value(start), false));
    return report_facts_read(reader, setup, inner, "setup", facts);
}

static firn_rc read_group(const struct report_reader *reader, const json_t *element,
                          const char *where, struct report_run *run)
{
    if (json_object_get(element, "group") == NULL)
        return FIRN_OK;
    FIRN_TRY(report_member_text(reader, element, where, "group", &run->group));
    FIRN_TRY(report_member_text(reader, element, where, "group_axis", &run->group_axis));
    return report_member_number(reader, element, where, "group_x", &run->group_x);
}

static firn_rc read_host(const struct report_reader *reader, const json_t *element,
                         const char *where, struct report_run *run)
{
    const json_t *host = json_object_get(element, "host");
    const char *device_name = json_string_value(json_object_get(host, "device_name"));
    run->device_name = memory_copy_text(device_name == NULL ? "" : device_name);
    if (run->device_name == NULL)
        return report_no_memory(reader);
    char inner[REPORT_WHERE_BYTES];
    const json_t *device = json_object_get(host, "device");
    const json_t *cpu = json_object_get(host, "cpu");
    snprintf(inner, sizeof(inner), "%s.host.device", where);
    FIRN_TRY(report_section_read(reader, device, inner, "device", &device_list, run->interval_count,
                                 &run->device));
    snprintf(inner, sizeof(inner), "%s.host.cpu", where);
    return report_section_read(reader, cpu, inner, "cpu", &cpu_list, run->interval_count,
                               &run->cpu);
}

static bool is_judged(const struct report_run *run, unsigned kind)
{
    return run->kind_count == 1 || strcmp(run->kinds[kind].name, "sync") != 0;
}

static firn_rc compute_rates(const struct report_reader *reader, struct report_run *run)
{
    run->rate = memory_zalloc(run->interval_count + 1, sizeof(*run->rate));
    run->mib = memory_zalloc(run->interval_count + 1, sizeof(*run->mib));
    if (run->rate == NULL || run->mib == NULL)
        return report_no_memory(reader);
    const double *start_s = run->intervals.columns[INTERVAL_START_S].values;
    const double *length_s = run->intervals.columns[INTERVAL_LENGTH_S].values;
    for (unsigned i = 0; i < run->interval_count; i++) {
        for (unsigned k = 0; k < run->kind_count; k++) {
            if (!is_judged(run, k))
                continue;
            const struct report_column *columns = run->kinds[k].columns.columns;
            run->rate[i] += columns[KIND_OPERATIONS].values[i] / length_s[i];
            run->mib[i] += columns[KIND_BYTES].values[i] / length_s[i] / (1024.0 * 1024.0);
        }
    }
    while (run->judged_first < run->interval_count &&
           start_s[run->judged_first] < run->judgement.warmup_s)
        run->judged_first++;
    if (run->judged_first == run->interval_count)
        run->judged_first = 0; /* nothing is left after the warm-up: show it all */
    return FIRN_OK;
}

static firn_rc check_times(const struct report_reader *reader, const char *where,
                           const struct report_run *run)
{
    const double *start_s = run->intervals.columns[INTERVAL_START_S].values;
    const double *length_s = run->intervals.columns[INTERVAL_LENGTH_S].values;
    for (unsigned column = 0; column < run->intervals.column_count; column++)
        FIRN_TRY(
            report_section_complete(reader, where, &run->intervals, column, run->interval_count));
    for (unsigned i = 0; i < run->interval_count; i++) {
        if (length_s[i] < 1e-6)
            return report_damaged(reader, where, "length_s", "holds less than a microsecond");
        if (i > 0 && start_s[i] <= start_s[i - 1])
            return report_damaged(reader, where, "start_s", "does not ascend");
    }
    return FIRN_OK;
}

static firn_rc read_intervals(const struct report_reader *reader, const json_t *element,
                              const char *where, struct report_run *run)
{
    json_t *intervals;
    char inner[REPORT_WHERE_BYTES];
    snprintf(inner, sizeof(inner), "%s.intervals", where);
    FIRN_TRY(report_member(reader, element, where, "intervals", JSON_OBJECT, &intervals));
    size_t count = json_array_size(json_object_get(intervals, "start_s"));
    if (count > REPORT_INTERVALS_MAX)
        return report_damaged(reader, inner, "start_s", "has too many elements");
    run->interval_count = (unsigned)count;
    FIRN_TRY(report_section_read(reader, intervals, inner, "intervals", &interval_list,
                                 run->interval_count, &run->intervals));
    return check_times(reader, inner, run);
}

static firn_rc read_run(const struct report_reader *reader, const json_t *element,
                        const char *where, struct report_run *run)
{
    FIRN_TRY(report_member_text(reader, element, where, "name", &run->name));
    FIRN_TRY(report_member_number(reader, element, where, "interval_s", &run->interval_s));
    FIRN_TRY(read_modelled(reader, element, where, run));
    FIRN_TRY(read_run_facts(reader, element, where, run));
    FIRN_TRY(read_group(reader, element, where, run));
    FIRN_TRY(read_intervals(reader, element, where, run));
    FIRN_TRY(report_kinds_read(reader, element, where, run));
    FIRN_TRY(read_host(reader, element, where, run));
    FIRN_TRY(read_judgement(reader, element, where, &run->judgement));
    return compute_rates(reader, run);
}

firn_rc report_run_read(const struct report_reader *reader, const json_t *element, unsigned number,
                        struct report_run *run)
{
    char where[32];
    snprintf(where, sizeof(where), "runs[%u]", number);
    firn_rc rc = read_run(reader, element, where, run);
    if (rc != FIRN_OK)
        report_run_free(run);
    return rc;
}

void report_run_free(struct report_run *run)
{
    for (unsigned i = 0; i < run->kind_count; i++)
        report_kind_free(&run->kinds[i]);
    for (unsigned i = 0; i < run->facts.count; i++) {
        memory_free(run->facts.facts[i].name);
        memory_free(run->facts.facts[i].text);
    }
    report_section_free(&run->intervals);
    report_section_free(&run->device);
    report_section_free(&run->cpu);
    memory_free(run->facts.facts);
    memory_free(run->kinds);
    memory_free(run->name);
    memory_free(run->label);
    memory_free(run->group);
    memory_free(run->group_axis);
    memory_free(run->modelled);
    memory_free(run->device_name);
    memory_free(run->judgement.text);
    memory_free(run->judgement.events);
    memory_free(run->rate);
    memory_free(run->mib);
}
