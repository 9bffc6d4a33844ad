#include "base/memory.h"
#include "report/report_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESULT_VERSION = 1 };

/* ---- Members of objects ---- */

firn_rc report_damaged(const struct report_reader *reader, const char *where, const char *name,
                       const char *problem)
{
    return rc_raise(FIRN_E_INVALID,
                    "%s: %s%s%s %s: it is not a result as docs/result.schema.json describes it; "
                    "write it again with firn",
                    reader->path, where, *where == '\0' || *name == '\0' ? "" : ".", name, problem);
}

firn_rc report_no_memory(const struct report_reader *reader)
{
    return rc_raise(FIRN_E_NOMEM, "%s: no memory to read it", reader->path);
}

static bool is_type(const json_t *value, json_type type)
{
    if (type == JSON_REAL)
        return json_is_number(value);
    if (type == JSON_TRUE)
        return json_is_boolean(value);
    return json_typeof(value) == type;
}

firn_rc report_member(const struct report_reader *reader, const json_t *object, const char *where,
                      const char *name, json_type type, json_t **value)
{
    static const char *const problems[] = {
        [JSON_OBJECT] = "is no object", [JSON_ARRAY] = "is no array",
        [JSON_STRING] = "is no text",   [JSON_INTEGER] = "is no whole number",
        [JSON_REAL] = "is no number",   [JSON_TRUE] = "is neither true nor false",
    };
    json_t *found = json_object_get(object, name);
    if (found == NULL)
        return report_damaged(reader, where, name, "is missing");
    if (!is_type(found, type))
        return report_damaged(reader, where, name, problems[type]);
    *value = found;
    return FIRN_OK;
}

firn_rc report_member_text(const struct report_reader *reader, const json_t *object,
                           const char *where, const char *name, char **text)
{
    json_t *value = NULL;
    FIRN_TRY(report_member(reader, object, where, name, JSON_STRING, &value));
    char *copy = memory_copy_text(json_string_value(value));
    if (copy == NULL)
        return report_no_memory(reader);
    *text = copy;
    return FIRN_OK;
}

firn_rc report_member_number(const struct report_reader *reader, const json_t *object,
                             const char *where, const char *name, double *number)
{
    json_t *value = NULL;
    FIRN_TRY(report_member(reader, object, where, name, JSON_REAL, &value));
    if (json_number_value(value) < 0)
        return report_damaged(reader, where, name, "is negative");
    if (json_number_value(value) > REPORT_NUMBER_MAX)
        return report_damaged(reader, where, name, "is larger than any figure of a run");
    *number = json_number_value(value);
    return FIRN_OK;
}

/* ---- The document ---- */

static void file_free(struct report_file *file)
{
    for (unsigned i = 0; i < file->finding_count; i++) {
        memory_free(file->findings[i].topic);
        memory_free(file->findings[i].text);
    }
    memory_free(file->findings);
    memory_free(file->path);
    memory_free(file->label);
    memory_free(file->title);
    memory_free(file->created);
    memory_free(file->command);
}

/* The end came too early, perhaps within a number or a word: those seem complete but wrong. */
static bool was_cut(const json_error_t *error, const char *bytes, size_t size_bytes)
{
    return json_error_code(error) == json_error_premature_end_of_input ||
           (bytes[0] == '{' && (size_t)error->position >= size_bytes);
}

static firn_rc parse(const char *path, const char *bytes, size_t size_bytes, json_t **document)
{
    if (size_bytes == 0)
        return rc_raise(FIRN_E_INVALID,
                        "%s is empty: the run that was to fill it did not end; run it again", path);
    json_error_t error;
    json_t *parsed = json_loadb(bytes, size_bytes, 0, &error);
    if (parsed != NULL) {
        *document = parsed;
        return FIRN_OK;
    }
    if (json_error_code(&error) == json_error_out_of_memory)
        return rc_raise(FIRN_E_NOMEM, "%s: no memory to read it", path);
    if (was_cut(&error, bytes, size_bytes))
        return rc_raise(FIRN_E_INVALID,
                        "%s ends in the middle, in line %d: it was cut off; copy it again, or run "
                        "the measurement again",
                        path, error.line);
    return rc_raise(FIRN_E_INVALID,
                    "%s is not JSON (line %d, column %d: %s): name a result file that firn wrote",
                    path, error.line, error.column, error.text);
}

static firn_rc check_format(const struct report_reader *reader, const json_t *document)
{
    const char *format = json_string_value(json_object_get(document, "format"));
    if (format == NULL || strcmp(format, "firn-result") != 0)
        return rc_raise(FIRN_E_INVALID,
                        "%s is JSON but no result of firn's (its \"format\" is not "
                        "\"firn-result\"): name a result file that firn wrote",
                        reader->path);
    json_t *version;
    FIRN_TRY(report_member(reader, document, "", "version", JSON_INTEGER, &version));
    if (json_integer_value(version) != RESULT_VERSION)
        return rc_raise(FIRN_E_INVALID,
                        "%s is a result of version %lld, and this firn reads version %d: report it "
                        "with the firn that wrote it",
                        reader->path, (long long)json_integer_value(version), RESULT_VERSION);
    return FIRN_OK;
}

/* A word of a command line as a shell would need it. */
static void put_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=./:,@%";
    if (*word != '\0' && strspn(word, plain) == strlen(word)) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

static firn_rc read_command(const struct report_reader *reader, const json_t *document,
                            char **command)
{
    json_t *words;
    FIRN_TRY(report_member(reader, document, "", "command", JSON_ARRAY, &words));
    char *text = NULL;
    size_t size_bytes;
    FILE *out = open_memstream(&text, &size_bytes);
    if (out == NULL)
        return report_no_memory(reader);
    bool all_text = true;
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        all_text &= word != NULL;
        fputs(i == 0 ? "" : " ", out);
        put_word(out, word == NULL ? "" : word);
    }
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    char *copy = failed || !all_text ? NULL : memory_copy_text(text);
    free(text);
    if (!all_text)
        return report_damaged(reader, "", "command", "holds something that is no text");
    if (copy == NULL)
        return report_no_memory(reader);
    *command = copy;
    return FIRN_OK;
}

/* Facts that all runs of a file share are kept with each run: comparing is then one thing. */
static firn_rc read_shared_facts(const struct report_reader *reader, const json_t *document,
                                 const struct report_file *file, struct report_facts *facts)
{
    json_t *machine;
    json_t *firn;
    FIRN_TRY(report_member(reader, document, "", "machine", JSON_OBJECT, &machine));
    FIRN_TRY(report_member(reader, document, "", "firn", JSON_OBJECT, &firn));
    FIRN_TRY(report_facts_read(reader, machine, "machine", "machine", facts));
    FIRN_TRY(report_facts_read(reader, firn, "firn", "firn", facts));
    FIRN_TRY(report_fact_add(facts, "run", "command", file->command, false));
    return report_fact_add(facts, "run", "file", file->path, false);
}

static firn_rc read_findings(const struct report_reader *reader, const json_t *document,
                             struct report_file *file)
{
    if (json_object_get(document, "verdict") == NULL)
        return FIRN_OK;
    json_t *elements;
    FIRN_TRY(report_member(reader, document, "", "verdict", JSON_ARRAY, &elements));
    file->findings = memory_zalloc(json_array_size(elements) + 1, sizeof(*file->findings));
    if (file->findings == NULL)
        return report_no_memory(reader);
    for (size_t i = 0; i < json_array_size(elements); i++) {
        const json_t *element = json_array_get(elements, i);
        char where[32];
        snprintf(where, sizeof(where), "verdict[%zu]", i);
        struct report_finding *finding = &file->findings[file->finding_count++];
        json_t *severity = NULL;
        FIRN_TRY(report_member(reader, element, where, "severity", JSON_STRING, &severity));
        finding->warns = strcmp(json_string_value(severity), "warns") == 0;
        FIRN_TRY(report_member_text(reader, element, where, "topic", &finding->topic));
        FIRN_TRY(report_member_text(reader, element, where, "text", &finding->text));
    }
    return FIRN_OK;
}

static firn_rc read_file(const struct report_reader *reader, const json_t *document,
                         struct report_file *file)
{
    FIRN_TRY(report_member_text(reader, document, "", "title", &file->title));
    FIRN_TRY(report_member_text(reader, document, "", "created", &file->created));
    FIRN_TRY(read_command(reader, document, &file->command));
    FIRN_TRY(read_findings(reader, document, file));
    file->path = memory_copy_text(reader->path);
    return file->path != NULL ? FIRN_OK : report_no_memory(reader);
}

static firn_rc read_runs(const struct report_reader *reader, const json_t *document,
                         const struct report_file *file, struct report *report, unsigned *added)
{
    json_t *elements;
    FIRN_TRY(report_member(reader, document, "", "runs", JSON_ARRAY, &elements));
    size_t count = json_array_size(elements);
    if (count == 0)
        return rc_raise(FIRN_E_INVALID,
                        "%s holds no run: it was stopped before the first one ended; run it again",
                        reader->path);
    if (report->run_count + count > REPORT_RUNS_MAX)
        return rc_raise(FIRN_E_INVALID, "%s: there would be more than %d runs: report fewer files",
                        reader->path, REPORT_RUNS_MAX);
    struct report_run *runs =
        memory_realloc(report->runs, (report->run_count + count) * sizeof(*runs));
    if (runs == NULL)
        return report_no_memory(reader);
    report->runs = runs;
    for (size_t i = 0; i < count; i++) {
        struct report_run *run = &runs[report->run_count + *added];
        memset(run, 0, sizeof(*run));
        run->file = report->file_count;
        FIRN_TRY(report_run_read(reader, json_array_get(elements, i), (unsigned)i, run));
        (*added)++;
        FIRN_TRY(read_shared_facts(reader, document, file, &run->facts));
    }
    return FIRN_OK;
}

static firn_rc add_bytes(struct report *report, const char *path, const void *bytes,
                         size_t size_bytes, const struct stat *status)
{
    struct report_reader reader = {.path = path};
    struct report_file file = {.device = (uint64_t)status->st_dev,
                               .inode = (uint64_t)status->st_ino};
    unsigned added = 0;
    json_t *document = NULL;
    firn_rc rc;
    FIRN_TRY_GOTO(parse(path, bytes, size_bytes, &document), failed);
    FIRN_TRY_GOTO(check_format(&reader, document), failed);
    FIRN_TRY_GOTO(read_file(&reader, document, &file), failed);
    FIRN_TRY_GOTO(read_runs(&reader, document, &file, report, &added), failed);
    struct report_file *files =
        memory_realloc(report->files, (report->file_count + 1) * sizeof(*files));
    if (files == NULL) {
        rc = rc_raise(FIRN_E_NOMEM, "%s: no memory to read it", path);
        goto failed;
    }
    report->files = files;
    files[report->file_count++] = file;
    report->run_count += added;
    json_decref(document);
    return FIRN_OK;

failed:
    for (unsigned i = 0; i < added; i++)
        report_run_free(&report->runs[report->run_count + i]);
    file_free(&file);
    json_decref(document);
    return rc;
}

firn_rc report_add_memory(struct report *report, const char *path, const void *bytes,
                          size_t size_bytes)
{
    return add_bytes(report, path, bytes, size_bytes, &(struct stat){0});
}

/* ---- Files ---- */

/* The whole of a file, whether or not it has a size (a pipe has none). */
static firn_rc read_all(FILE *in, const char *path, char **bytes, size_t *size_bytes)
{
    char *room = NULL;
    size_t used = 0;
    for (size_t capacity = 1 << 16;; capacity *= 2) {
        char *larger = memory_realloc(room, capacity);
        if (larger == NULL) {
            memory_free(room);
            return rc_raise(FIRN_E_NOMEM, "%s: no memory to read it", path);
        }
        room = larger;
        used += fread(room + used, 1, capacity - used, in);
        if (used < capacity)
            break;
    }
    if (ferror(in)) {
        int error = errno;
        memory_free(room);
        return rc_raise_errno(error, "cannot read %s", path);
    }
    *bytes = room;
    *size_bytes = used;
    return FIRN_OK;
}

static firn_rc check_status(const struct report *report, const char *path,
                            const struct stat *status)
{
    if (S_ISDIR(status->st_mode))
        return rc_raise(FIRN_E_INVALID, "%s is a directory: name the result files in it", path);
    for (unsigned i = 0; i < report->file_count; i++)
        if (report->files[i].device == (uint64_t)status->st_dev &&
            report->files[i].inode == (uint64_t)status->st_ino)
            return rc_raise(FIRN_E_INVALID,
                            "%s is the same file as %s: its runs would pass for repeats; name it "
                            "once",
                            path, report->files[i].path);
    return FIRN_OK;
}

firn_rc report_add_file(struct report *report, const char *path)
{
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return rc_raise_errno(errno, "cannot open %s", path);
    char *bytes = NULL;
    size_t size_bytes = 0;
    struct stat status = {0};
    firn_rc rc;
    if (fstat(fileno(in), &status) != 0) {
        rc = rc_raise_errno(errno, "cannot read %s", path);
        goto done;
    }
    FIRN_TRY_GOTO(check_status(report, path, &status), done);
    FIRN_TRY_GOTO(read_all(in, path, &bytes, &size_bytes), done);
    rc = add_bytes(report, path, bytes, size_bytes, &status);
done:
    memory_free(bytes);
    fclose(in);
    return rc;
}

/* ---- The report ---- */

firn_rc report_open(struct report **report)
{
    struct report *opened = memory_zalloc(1, sizeof(*opened));
    if (opened == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a report");
    opened->baseline_file = -1;
    opened->baseline_row = -1;
    *report = opened;
    return FIRN_OK;
}

void report_close(struct report *report)
{
    if (report == NULL)
        return;
    report_rows_free(report);
    report_settings_free(report);
    for (unsigned i = 0; i < report->run_count; i++)
        report_run_free(&report->runs[i]);
    for (unsigned i = 0; i < report->file_count; i++)
        file_free(&report->files[i]);
    memory_free(report->runs);
    memory_free(report->files);
    memory_free(report);
}
