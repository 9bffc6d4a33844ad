/* Names that tell files, rows and runs apart, and the baseline found by such a name. */
#include "base/memory.h"
#include "report/report_internal.h"

#include <string.h>

static firn_rc no_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory for the labels of the runs");
}

/* ---- Files ---- */

/* The name without directory and ".json". */
static void file_stem(const char *path, const char **start, size_t *length)
{
    const char *slash = strrchr(path, '/');
    *start = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
    *length = strlen(*start);
    if (*length > 5 && strcmp(*start + *length - 5, ".json") == 0)
        *length -= 5;
}

static bool stem_is_unique(const struct report *report, unsigned file)
{
    const char *start;
    size_t length;
    file_stem(report->files[file].path, &start, &length);
    for (unsigned i = 0; i < report->file_count; i++) {
        const char *other;
        size_t other_length;
        file_stem(report->files[i].path, &other, &other_length);
        if (i != file && other_length == length && memcmp(other, start, length) == 0)
            return false;
    }
    return true;
}

static firn_rc label_files(struct report *report)
{
    for (unsigned i = 0; i < report->file_count; i++) {
        struct report_file *file = &report->files[i];
        file->label = memory_copy_text(file->path);
        if (file->label == NULL)
            return no_memory();
        const char *start;
        size_t length;
        if (stem_is_unique(report, i)) {
            file_stem(file->label, &start, &length);
            memmove(file->label, start, length);
            file->label[length] = '\0';
        }
    }
    return FIRN_OK;
}

/* ---- Rows and runs ---- */

static firn_rc join_label(char **label, const char *name, const char *separator, const char *rest,
                          const char *end)
{
    size_t room = strlen(name) + strlen(separator) + strlen(rest) + strlen(end) + 1;
    char *text = memory_alloc(room);
    if (text == NULL)
        return no_memory();
    snprintf(text, room, "%s%s%s%s", name, separator, rest, end);
    memory_free(*label);
    *label = text;
    return FIRN_OK;
}

static bool has_namesake(const struct report *report, const struct report_row *row)
{
    for (unsigned i = 0; i < report->row_count; i++)
        if (&report->rows[i] != row && strcmp(report->rows[i].name, row->name) == 0)
            return true;
    return false;
}

static bool label_is_taken(const struct report *report, unsigned row)
{
    for (unsigned i = 0; i < row; i++)
        if (strcmp(report->rows[i].label, report->rows[row].label) == 0)
            return true;
    return false;
}

/* Name, where a namesake makes it needed the file, and the mark of models. */
static firn_rc label_row(struct report *report, unsigned number)
{
    struct report_row *row = &report->rows[number];
    bool qualified = has_namesake(report, row);
    const char *modelled = row->modelled ? " (modelled)" : "";
    char end[64];
    if (qualified && row->run_count > 1)
        snprintf(end, sizeof(end), " and %u more%s", row->run_count - 1, modelled);
    else
        snprintf(end, sizeof(end), "%s", modelled);
    FIRN_TRY(join_label(&row->label, row->name, qualified ? " \xc2\xb7 " : "",
                        qualified ? report->files[row->file].label : "", end));
    for (unsigned copy = 2; label_is_taken(report, number); copy++) {
        snprintf(end, sizeof(end), " #%u%s", copy, modelled);
        FIRN_TRY(join_label(&row->label, row->name, "", "", end));
    }
    return FIRN_OK;
}

static firn_rc label_runs(struct report *report, const struct report_row *row)
{
    for (unsigned i = 0; i < row->run_count; i++) {
        char number[32] = "";
        if (row->run_count > 1)
            snprintf(number, sizeof(number), "repeat %u", i + 1);
        FIRN_TRY(join_label(&report->runs[row->runs[i]].label, row->label,
                            row->run_count > 1 ? ", " : "", number, ""));
    }
    return FIRN_OK;
}

firn_rc report_labels_build(struct report *report)
{
    FIRN_TRY(label_files(report));
    for (unsigned i = 0; i < report->row_count; i++) {
        FIRN_TRY(label_row(report, i));
        FIRN_TRY(label_runs(report, &report->rows[i]));
    }
    return FIRN_OK;
}

/* ---- The baseline ---- */

static firn_rc baseline_not_found(const struct report *report, const char *name)
{
    char list[512] = "";
    size_t used = 0;
    for (unsigned i = 0; i < report->row_count && used < sizeof(list); i++) {
        int length = snprintf(list + used, sizeof(list) - used, "%s\"%s\"", i == 0 ? "" : ", ",
                              report->rows[i].label);
        used += length < 0 ? 0 : (size_t)length;
    }
    return rc_raise(FIRN_E_NOT_FOUND,
                    "no run or file is called \"%s\": choose the baseline from the files given or "
                    "from %s%s",
                    name, list, used >= sizeof(list) ? "..." : "");
}

static firn_rc find_baseline(struct report *report, const char *name)
{
    for (unsigned i = 0; i < report->file_count; i++)
        if (strcmp(report->files[i].label, name) == 0 || strcmp(report->files[i].path, name) == 0) {
            report->baseline_file = (int)i;
            return FIRN_OK;
        }
    for (unsigned i = 0; i < report->row_count; i++)
        if (strcmp(report->rows[i].label, name) == 0 || strcmp(report->rows[i].name, name) == 0) {
            report->baseline_row = (int)i;
            return FIRN_OK;
        }
    return baseline_not_found(report, name);
}

static firn_rc first_row_suits_all(const struct report *report, bool *suits)
{
    *suits = report->row_count > 1;
    for (unsigned i = 1; i < report->row_count && *suits; i++) {
        unsigned count;
        char *names;
        FIRN_TRY(report_runs_differ(&report->runs[report->rows[0].runs[0]],
                                    &report->runs[report->rows[i].runs[0]], &count, &names));
        memory_free(names);
        *suits = count <= 1;
    }
    return FIRN_OK;
}

firn_rc report_baseline_choose(struct report *report, const char *name)
{
    if (name != NULL)
        return find_baseline(report, name);
    for (unsigned i = 0; i < report->row_count; i++)
        if (report->rows[i].file == 0 && has_namesake(report, &report->rows[i])) {
            report->baseline_file = 0;
            return FIRN_OK;
        }
    bool suits;
    FIRN_TRY(first_row_suits_all(report, &suits));
    if (suits)
        report->baseline_row = 0;
    return FIRN_OK;
}
