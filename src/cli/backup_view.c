#include "base/clock.h"
#include "cli/backup_internal.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <string.h>

/* ---- Looking on ---- */

static void show_progress(const struct recovery_progress *progress, void *context)
{
    struct backup_view *view = context;
    double total = (double)(progress->total_bytes != 0 ? progress->total_bytes : 1);
    if (view->phase != progress->phase) {
        backup_view_end(view);
        progress_start(&view->progress, progress->phase, PROGRESS_BYTES, total);
        view->phase = progress->phase;
    }
    view->progress.total = total;
    progress_update(&view->progress, (double)progress->done_bytes);
}

void backup_view_begin(struct backup_view *view, uint64_t threads, double throttle_mb_s,
                       const char *directory, struct backup_options *options)
{
    *view = (struct backup_view){.start_ns = clock_now(clock_real())};
    backup_options_init(options);
    options->directory = directory;
    options->threads = (unsigned)threads;
    options->throttle_bytes_s = (uint64_t)(throttle_mb_s * 1e6);
    options->progress = show_progress;
    options->progress_context = view;
    options->stop = interrupt_watch();
}

void backup_view_end(struct backup_view *view)
{
    if (view->phase != NULL)
        progress_end(&view->progress);
    view->phase = NULL;
}

static void keep_finding(struct backup_view *view, const struct finding *finding)
{
    /* Names of files may be any bytes, JSON may not. */
    json_t *text = json_string(finding->text);
    json_t *file = json_string(finding->file != NULL ? finding->file : "firn.backup");
    json_t *object =
        json_pack("{s:s, s:o, s:o}", "severity", finding_severity_name(finding->severity), "file",
                  file != NULL ? file : json_string("(not UTF-8)"), "text",
                  text != NULL ? text : json_string("(not UTF-8)"));
    bool kept = object != NULL;
    if (kept && finding->offset != FINDING_NOWHERE)
        kept =
            json_object_set_new(object, "offset", json_integer((json_int_t)finding->offset)) == 0;
    if (json_array_append_new(view->findings, object) != 0 || !kept)
        view->incomplete = true;
}

void backup_view_finding(const struct finding *finding, void *context)
{
    struct backup_view *view = context;
    view->damages++;
    if (view->findings != NULL) {
        keep_finding(view, finding);
        return;
    }
    if (view->phase != NULL)
        progress_wipe(&view->progress);
    printf("%s: %s\n", finding_severity_name(finding->severity), finding->text);
    fflush(stdout);
}

/* ---- Telling ---- */

void backup_print_size(const struct backup_info *info)
{
    char bytes[UNITS_TEXT_BYTES];
    char log[UNITS_TEXT_BYTES];
    printf("%llu tablespace%s, %s, %s of log", (unsigned long long)info->files,
           info->files == 1 ? "" : "s", units_format_size((double)info->bytes, bytes),
           units_format_size((double)info->log_bytes, log));
}

static double seconds_of(const struct backup_view *view)
{
    return (double)(clock_now(clock_real()) - view->start_ns) / (double)NS_PER_S;
}

void backup_print_time(const struct backup_view *view, const struct backup_info *info)
{
    char time[UNITS_TEXT_BYTES];
    char rate[UNITS_TEXT_BYTES];
    double seconds = seconds_of(view);
    double bytes = (double)(info->bytes + info->log_bytes);
    printf(" in %s (%s/s)", units_format_duration(seconds * (double)NS_PER_S, time),
           units_format_size(seconds > 0 ? bytes / seconds : 0, rate));
}

json_t *backup_json(const struct backup_view *view, const struct backup_info *info,
                    const char *directory)
{
    json_t *name = json_string(directory);
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:f}", "backup",
                     name != NULL ? name : json_string("(not UTF-8)"), "tablespaces",
                     (json_int_t)info->files, "bytes", (json_int_t)info->bytes, "log_bytes",
                     (json_int_t)info->log_bytes, "checkpoint_lsn",
                     (json_int_t)info->checkpoint_lsn, "end_lsn", (json_int_t)info->end_lsn,
                     "page_size_bytes", (json_int_t)info->page_size_bytes, "begun", info->begun,
                     "ended", info->ended, "seconds", seconds_of(view));
}

firn_rc backup_print_json(json_t *object)
{
    bool printed = object != NULL && json_dumpf(object, stdout, JSON_INDENT(2)) == 0;
    json_decref(object);
    if (!printed)
        return rc_raise(FIRN_E_NOMEM, "cannot print the result");
    putchar('\n');
    return FIRN_OK;
}

firn_rc backup_end_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return rc_raise_errno(errno, "cannot write to standard output");
    return FIRN_OK;
}

const char *backup_word(const char *given, const struct option_words *words, int *next)
{
    if (given != NULL)
        return given;
    return *next < words->positional_count ? words->positional[(*next)++] : NULL;
}
