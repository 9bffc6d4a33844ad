/*
 * output.c -- the directory of a report, and what may be overwritten in it.
 *
 * The file report.files lists what a report wrote. Names in it are ours to replace and, when the
 * new report has no such file, to remove; every other file is somebody's.
 */
#include "base/log.h"
#include "base/memory.h"
#include "report/report_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char list_name[] = "report.files";
static const char list_head[] = "firn-report 1";

/* ---- Lists of names ---- */

struct name_list {
    char **names;
    unsigned count;
};

static firn_rc list_add(struct name_list *list, const char *name)
{
    char **larger = memory_realloc(list->names, (list->count + 1) * sizeof(*larger));
    if (larger == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the list of the report's files");
    list->names = larger;
    list->names[list->count] = memory_copy_text(name);
    if (list->names[list->count] == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the list of the report's files");
    list->count++;
    return FIRN_OK;
}

static bool list_has(const struct name_list *list, const char *name)
{
    for (unsigned i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0)
            return true;
    return false;
}

static void list_free(struct name_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        memory_free(list->names[i]);
    memory_free(list->names);
}

/* ---- Files of the directory ---- */

struct output {
    const struct report *report;
    const char *directory;
    struct name_list before, now;
};

static firn_rc join_path(const struct output *output, const char *name, char **path)
{
    size_t room = strlen(output->directory) + strlen(name) + 2;
    char *joined = memory_alloc(room);
    if (joined == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the name of a file of the report");
    snprintf(joined, room, "%s/%s", output->directory, name);
    *path = joined;
    return FIRN_OK;
}

typedef firn_rc write_content(const struct output *output, unsigned number, FILE *out);

/* Written beside and renamed: nobody sees half a file, and no link is followed. */
static firn_rc write_and_close(const struct output *output, const char *path, int descriptor,
                               write_content *content, unsigned number)
{
    FILE *out = fdopen(descriptor, "w");
    if (out == NULL) {
        close(descriptor);
        return rc_raise(FIRN_E_NOMEM, "no memory to write %s", path);
    }
    firn_rc rc = content(output, number, out);
    errno = 0;
    bool failed = fflush(out) != 0 || ferror(out) != 0;
    int error = errno != 0 ? errno : EIO;
    failed |= fclose(out) != 0;
    if (rc == FIRN_OK && failed)
        rc = rc_raise_errno(error, "cannot write %s", path);
    return rc;
}

static firn_rc write_file(const struct output *output, const char *name, write_content *content,
                          unsigned number)
{
    char *path = NULL;
    char *beside = NULL;
    firn_rc rc;
    FIRN_TRY_GOTO(join_path(output, name, &path), done);
    FIRN_TRY_GOTO(join_path(output, ".firn-report-XXXXXX", &beside), done);
    int descriptor = mkostemp(beside, O_CLOEXEC);
    if (descriptor < 0) {
        rc = rc_raise_errno(errno, "cannot write into %s", output->directory);
        goto done;
    }
    rc = write_and_close(output, path, descriptor, content, number);
    if (rc == FIRN_OK && rename(beside, path) != 0)
        rc = rc_raise_errno(errno, "cannot put %s in its place", path);
    if (rc != FIRN_OK)
        unlink(beside);
done:
    memory_free(beside);
    memory_free(path);
    return rc;
}

static firn_rc make_directory(const char *path)
{
    struct stat status;
    if (mkdir(path, 0700) == 0)
        return FIRN_OK;
    int error = errno;
    if (error == EEXIST && stat(path, &status) == 0 && !S_ISDIR(status.st_mode))
        return rc_raise(FIRN_E_EXISTS, "%s is a file: name a directory for the report", path);
    return error == EEXIST ? FIRN_OK : rc_raise_errno(error, "cannot make the directory %s", path);
}

/* ---- What was there ---- */

/* A list may have been edited: names that lead out of the directory are not believed. */
static bool is_inside(const char *name)
{
    return *name != '\0' && *name != '/' && strstr(name, "..") == NULL;
}

static firn_rc read_list(const struct output *output, struct name_list *list)
{
    char *path = NULL;
    FIRN_TRY(join_path(output, list_name, &path));
    FILE *in = fopen(path, "re");
    firn_rc rc = FIRN_OK;
    char line[256];
    bool is_ours = false;
    if (in == NULL) {
        if (errno != ENOENT)
            rc = rc_raise_errno(errno, "cannot read %s", path);
        goto done;
    }
    while (rc == FIRN_OK && fgets(line, sizeof(line), in) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (!is_ours && strcmp(line, list_head) != 0)
            rc = rc_raise(FIRN_E_EXISTS,
                          "%s is not the list of a report's files: choose another directory by -o",
                          path);
        else if (is_ours && is_inside(line))
            rc = list_add(list, line);
        is_ours = true;
    }
    fclose(in);
done:
    memory_free(path);
    return rc;
}

static firn_rc check_free(const struct output *output)
{
    for (unsigned i = 0; i < output->now.count; i++) {
        struct stat status;
        char *path = NULL;
        if (list_has(&output->before, output->now.names[i]))
            continue;
        FIRN_TRY(join_path(output, output->now.names[i], &path));
        bool exists = lstat(path, &status) == 0;
        firn_rc rc = exists ? rc_raise(FIRN_E_EXISTS,
                                       "%s exists and was not written by an earlier report: move "
                                       "it, or choose another directory by -o",
                                       path)
                            : FIRN_OK;
        memory_free(path);
        FIRN_TRY(rc);
    }
    return FIRN_OK;
}

static firn_rc remove_old(const struct output *output)
{
    for (unsigned i = 0; i < output->before.count; i++) {
        if (list_has(&output->now, output->before.names[i]))
            continue;
        char *path = NULL;
        FIRN_TRY(join_path(output, output->before.names[i], &path));
        if (unlink(path) != 0 && errno != ENOENT)
            log_warning("cannot remove %s of the report before this: %s", path, strerror(errno));
        memory_free(path);
    }
    return FIRN_OK;
}

/* ---- What there will be ---- */

static void intervals_name(const struct report *report, unsigned run, char name[128])
{
    char slug[REPORT_SLUG_BYTES];
    report_slug(report->runs[run].label, slug);
    snprintf(name, 128, "intervals-%02u-%s.csv", run + 1, slug);
}

static firn_rc list_files(struct output *output, bool pictures)
{
    char name[128];
    char stem[PICTURE_NAME_BYTES];
    FIRN_TRY(list_add(&output->now, "report.html"));
    FIRN_TRY(list_add(&output->now, "summary.csv"));
    for (unsigned i = 0; i < output->report->run_count; i++) {
        intervals_name(output->report, i, name);
        FIRN_TRY(list_add(&output->now, name));
    }
    if (!pictures)
        return FIRN_OK;
    FIRN_TRY(list_add(&output->now, "pictures/pictures.gp"));
    for (unsigned i = 0; report_picture_name(output->report, i, stem); i++) {
        snprintf(name, sizeof(name), "pictures/%s.svg", stem);
        FIRN_TRY(list_add(&output->now, name));
        snprintf(name, sizeof(name), "pictures/%s.png", stem);
        FIRN_TRY(list_add(&output->now, name));
    }
    return FIRN_OK;
}

/* The old names stay listed until their files are gone: should we be interrupted, the next report
   knows them still. */
static firn_rc content_list(const struct output *output, unsigned with_old, FILE *out)
{
    fprintf(out, "%s\n", list_head);
    for (unsigned i = 0; i < output->now.count; i++)
        fprintf(out, "%s\n", output->now.names[i]);
    for (unsigned i = 0; i < output->before.count && with_old; i++)
        fprintf(out, "%s\n", output->before.names[i]);
    return FIRN_OK;
}

static firn_rc content_page(const struct output *output, unsigned number, FILE *out)
{
    (void)number;
    return report_write_page(output->report, out);
}

static firn_rc content_summary(const struct output *output, unsigned number, FILE *out)
{
    (void)number;
    report_write_summary_csv(output->report, out);
    return FIRN_OK;
}

static firn_rc content_intervals(const struct output *output, unsigned number, FILE *out)
{
    report_write_intervals_csv(&output->report->runs[number], out);
    return FIRN_OK;
}

static firn_rc content_script(const struct output *output, unsigned number, FILE *out)
{
    (void)number;
    report_write_script(output->report, out);
    return FIRN_OK;
}

static firn_rc write_pictures(const struct output *output)
{
    char *directory = NULL;
    FIRN_TRY(join_path(output, "pictures", &directory));
    firn_rc rc = make_directory(directory);
    if (rc == FIRN_OK)
        rc = write_file(output, "pictures/pictures.gp", content_script, 0);
    if (rc == FIRN_OK)
        report_run_gnuplot(directory);
    memory_free(directory);
    return rc;
}

static firn_rc write_all(const struct output *output, bool pictures)
{
    char name[128];
    FIRN_TRY(write_file(output, list_name, content_list, true));
    FIRN_TRY(write_file(output, "report.html", content_page, 0));
    FIRN_TRY(write_file(output, "summary.csv", content_summary, 0));
    for (unsigned i = 0; i < output->report->run_count; i++) {
        intervals_name(output->report, i, name);
        FIRN_TRY(write_file(output, name, content_intervals, i));
    }
    if (pictures)
        FIRN_TRY(write_pictures(output));
    FIRN_TRY(remove_old(output));
    return write_file(output, list_name, content_list, false);
}

firn_rc report_write(const struct report *report, const struct report_output *options)
{
    struct output output = {.report = report, .directory = options->directory};
    firn_rc rc;
    FIRN_TRY_GOTO(list_files(&output, options->pictures), done);
    FIRN_TRY_GOTO(make_directory(options->directory), done);
    FIRN_TRY_GOTO(read_list(&output, &output.before), done);
    FIRN_TRY_GOTO(check_free(&output), done);
    rc = write_all(&output, options->pictures);
done:
    list_free(&output.before);
    list_free(&output.now);
    return rc;
}
