#include "base/memory.h"
#include "report/report_internal.h"

#include <stdlib.h>
#include <string.h>

static const struct report_fact *find_fact(const struct report_facts *facts, const char *section,
                                           const char *name)
{
    for (unsigned i = 0; i < facts->count; i++)
        if (strcmp(facts->facts[i].name, name) == 0 &&
            strcmp(facts->facts[i].section, section) == 0)
            return &facts->facts[i];
    return NULL;
}

/* ---- Pairs of runs ---- */

/* A fact that one of the two lacks is different unless it does not count at all. */
static bool differs(const struct report_fact *left, const struct report_fact *right)
{
    if (left == NULL || right == NULL)
        return (left == NULL ? right : left)->compared;
    return left->compared && right->compared && strcmp(left->text, right->text) != 0;
}

/* Call `found` for each fact that differs, until it returns false. */
static bool each_difference(const struct report_run *left, const struct report_run *right,
                            bool (*found)(const struct report_fact *fact, void *context),
                            void *context)
{
    for (unsigned i = 0; i < left->facts.count; i++) {
        const struct report_fact *fact = &left->facts.facts[i];
        if (differs(fact, find_fact(&right->facts, fact->section, fact->name)) &&
            !found(fact, context))
            return false;
    }
    for (unsigned i = 0; i < right->facts.count; i++) {
        const struct report_fact *fact = &right->facts.facts[i];
        if (find_fact(&left->facts, fact->section, fact->name) == NULL && differs(NULL, fact) &&
            !found(fact, context))
            return false;
    }
    return true;
}

static bool stop(const struct report_fact *fact, void *context)
{
    (void)fact;
    (void)context;
    return false;
}

bool report_runs_alike(const struct report_run *left, const struct report_run *right)
{
    return strcmp(left->name, right->name) == 0 && each_difference(left, right, stop, NULL);
}

/* Another machine differs in a dozen properties and another firn in its commit and version, but
   that is one difference each: the one thing that may be under comparison. The drivers' names
   follow from mode, backend and device, and are a difference where none of these is: a backend that
   fell back. */
struct difference_list {
    FILE *out;
    unsigned count;
    bool machine, firn, storage, storage_is_explained;
};

static bool explains_storage(const char *name)
{
    return strstr(name, "io_mode") != NULL || strstr(name, "io_backend") != NULL ||
           strstr(name, "device") != NULL;
}

static void add_name(struct difference_list *list, const char *name)
{
    fprintf(list->out, "%s%s", list->count == 0 ? "" : ", ", name);
    list->count++;
}

static bool add_difference(const struct report_fact *fact, void *context)
{
    struct difference_list *list = context;
    if (strcmp(fact->section, "machine") == 0) {
        if (!list->machine)
            add_name(list, fact->section);
        list->machine = true;
    } else if (strcmp(fact->section, "firn") == 0) {
        if (!list->firn)
            add_name(list, fact->section);
        list->firn = true;
    } else if (strcmp(fact->name, "storage") == 0 && strcmp(fact->section, "run") == 0) {
        list->storage = true;
    } else {
        add_name(list, fact->name);
        list->storage_is_explained |= explains_storage(fact->name);
    }
    return true;
}

firn_rc report_runs_differ(const struct report_run *left, const struct report_run *right,
                           unsigned *count, char **names)
{
    char *text = NULL;
    size_t size_bytes;
    struct difference_list list = {.out = open_memstream(&text, &size_bytes)};
    if (list.out == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to compare the runs' settings");
    each_difference(left, right, add_difference, &list);
    if (list.storage && !list.storage_is_explained)
        add_name(&list, "storage");
    bool failed = ferror(list.out) != 0;
    failed |= fclose(list.out) != 0;
    char *copy = failed ? NULL : memory_copy_text(text);
    free(text);
    if (copy == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to compare the runs' settings");
    *count = list.count;
    *names = copy;
    return FIRN_OK;
}

/* ---- All runs ---- */

static struct report_setting *find_setting(struct report *report, const struct report_fact *fact)
{
    for (unsigned i = 0; i < report->setting_count; i++)
        if (strcmp(report->settings[i].name, fact->name) == 0 &&
            strcmp(report->settings[i].section, fact->section) == 0)
            return &report->settings[i];
    return NULL;
}

static firn_rc add_setting(struct report *report, const struct report_fact *fact)
{
    struct report_setting *larger =
        memory_realloc(report->settings, (report->setting_count + 1) * sizeof(*report->settings));
    if (larger == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the table of settings");
    report->settings = larger;
    struct report_setting *setting = &larger[report->setting_count];
    *setting = (struct report_setting){.section = fact->section, .name = fact->name};
    setting->texts = memory_zalloc(report->run_count, sizeof(*setting->texts));
    if (setting->texts == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the table of settings");
    report->setting_count++;
    return FIRN_OK;
}

static bool is_same(const struct report_setting *setting, unsigned run_count)
{
    for (unsigned i = 0; i < run_count; i++)
        if (setting->texts[i] == NULL || strcmp(setting->texts[i], setting->texts[0]) != 0)
            return false;
    return true;
}

firn_rc report_settings_build(struct report *report)
{
    for (unsigned r = 0; r < report->run_count; r++) {
        const struct report_facts *facts = &report->runs[r].facts;
        for (unsigned i = 0; i < facts->count; i++) {
            if (find_setting(report, &facts->facts[i]) == NULL)
                FIRN_TRY(add_setting(report, &facts->facts[i]));
            struct report_setting *setting = find_setting(report, &facts->facts[i]);
            setting->texts[r] = facts->facts[i].text;
            setting->compared |= facts->facts[i].compared;
        }
    }
    for (unsigned i = 0; i < report->setting_count; i++)
        report->settings[i].same = is_same(&report->settings[i], report->run_count);
    return FIRN_OK;
}

void report_settings_free(struct report *report)
{
    for (unsigned i = 0; i < report->setting_count; i++)
        memory_free(report->settings[i].texts);
    memory_free(report->settings);
}
