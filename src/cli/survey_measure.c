#include "cli/survey_internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/fileio_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* What is left free, whatever the survey writes: databases beside it go on. */
static const double RESERVE_SHARE = 0.05;
static const double RESERVE_MAX_BYTES = 1024.0 * 1024 * 1024;

struct survey_findings survey_findings(const struct survey *survey)
{
    return (struct survey_findings){
        .phases = survey->phases,
        .outcomes = survey->outcomes,
        .count = survey->count,
        .machine = &survey->machine,
        .size_bytes = survey->target.data_bytes,
        .direct = survey->direct,
        .model = survey->options.device,
    };
}

/* ---- Before ---- */

/* *made: it was not there. */
static firn_rc make_directory(struct survey *survey, const char *path, bool *made)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        FIRN_TRY(io_make_directory(survey->system, path));
        *made = true;
        return FIRN_OK;
    }
    if (!S_ISDIR(status.st_mode))
        return rc_raise(FIRN_E_INVALID, "%s is not a directory", path);
    *made = false;
    return FIRN_OK;
}

/* What the files of an earlier survey hold need not be found again. */
static double present_bytes(const char *directory)
{
    double present = 0;
    DIR *stream = opendir(directory);
    if (stream == NULL)
        return 0;
    for (struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        struct stat status;
        if (fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode))
            present += (double)status.st_blocks * 512;
    }
    closedir(stream);
    return present;
}

static firn_rc check_space(const struct survey *survey)
{
    char free_text[UNITS_TEXT_BYTES];
    char wanted_text[UNITS_TEXT_BYTES];
    char reserve_text[UNITS_TEXT_BYTES];
    struct statvfs status;
    if (statvfs(survey->directory, &status) != 0)
        return rc_raise_errno(errno, "cannot tell the free space of %s", survey->directory);
    double free_bytes = (double)status.f_bavail * (double)status.f_frsize;
    double reserve = RESERVE_SHARE * (double)status.f_blocks * (double)status.f_frsize;
    reserve = reserve > RESERVE_MAX_BYTES ? RESERVE_MAX_BYTES : reserve;
    double wanted = (double)survey->target.data_bytes + (double)survey->target.log_bytes -
                    present_bytes(survey->data_directory) - present_bytes(survey->log_directory);
    if (wanted <= 0 || free_bytes >= wanted + reserve)
        return FIRN_OK;
    return rc_raise(FIRN_E_NOSPACE,
                    "%s has %s free; the survey would write %s and must leave %s; choose a smaller "
                    "--size or another directory",
                    survey->directory, units_format_size(free_bytes, free_text),
                    units_format_size(wanted, wanted_text),
                    units_format_size(reserve, reserve_text));
}

static void show_prepared(uint64_t done_bytes, uint64_t total_bytes, void *context)
{
    struct survey *survey = context;
    survey->progress.total = (double)total_bytes;
    progress_update(&survey->progress, (double)done_bytes);
}

static firn_rc prepare_files(struct survey *survey)
{
    struct fileio_config config;
    struct fileio_callbacks callbacks = {
        .progress = show_prepared, .context = survey, .stop = survey->stop};
    uint64_t written = 0;
    survey_config_files(&survey->target, false, &config);
    progress_start(&survey->progress, "preparing files", PROGRESS_BYTES,
                   (double)config.file_total_size);
    firn_rc rc = fileio_prepare(&config, &callbacks, &written);
    progress_end(&survey->progress);
    return rc;
}

static firn_rc open_result(struct survey *survey, int argc, char *const *argv)
{
    static char firn[] = "firn";
    char title[PATH_MAX];
    char **words = memory_zalloc((size_t)argc + 1, sizeof(*words));
    if (words == NULL)
        return rc_raise(FIRN_E_NOMEM, "not enough memory for the result");
    words[0] = firn;
    memcpy(words + 1, argv, (size_t)argc * sizeof(*words));
    snprintf(title, sizeof(title), "Survey of %s", survey->directory);
    firn_rc rc = result_open(title, argc + 1, words, survey->directory, &survey->result);
    memory_free(words);
    return rc;
}

/* The progress line must not stand in the way, and 40 openings must not warn 40 times. */
static void show_warning(enum log_level level, const char *text, void *context)
{
    struct survey *survey = context;
    for (unsigned i = 0; i < survey->warnings.count; i++)
        if (strncmp(text, survey->warnings.texts[i], WARNING_BYTES - 1) == 0)
            return;
    if (survey->warnings.count < WARNINGS_MAX)
        snprintf(survey->warnings.texts[survey->warnings.count++], WARNING_BYTES, "%s", text);
    progress_wipe(&survey->progress);
    fprintf(stderr, "%s: %s\n", level == LOG_WARNING ? "warning" : "note", text);
}

firn_rc survey_prepare(struct survey *survey, int argc, char *const *argv)
{
    bool made = false;
    log_set_sink(show_warning, survey);
    FIRN_TRY(io_system_open(IO_BACKEND_THREADS, clock_real(), &survey->system));
    FIRN_TRY(make_directory(survey, survey->directory, &survey->made_directory));
    FIRN_TRY(io_lock_directory(survey->system, survey->directory, &survey->lock));
    FIRN_TRY(check_space(survey));
    FIRN_TRY(make_directory(survey, survey->output, &survey->made_output));
    if (access(survey->output, W_OK) != 0)
        return rc_raise_errno(errno, "cannot write into %s", survey->output);
    FIRN_TRY(make_directory(survey, survey->log_directory, &made));
    FIRN_TRY(make_directory(survey, survey->data_directory, &made));
    FIRN_TRY(prepare_files(survey));
    host_describe(survey->directory, &survey->machine);
    return open_result(survey, argc, argv);
}

/* ---- Phases ---- */

static void show_interval(const struct meter_interval *interval,
                          const struct runner_backlog *backlog, void *context)
{
    struct survey *survey = context;
    (void)backlog;
    progress_update(&survey->progress,
                    survey->planned_ns + (double)interval->start_ns + (double)interval->length_ns);
}

/* As `firn fileio` would keep it, so that its runs and a survey's can be compared. */
static json_t *phase_setup(const struct survey *survey, const struct survey_phase *phase)
{
    struct fileio_command command;
    options_defaults(&fileio_options, &command);
    survey_config_phase(&survey->target, phase, &command.config);
    command.interval_ns = phase->interval_ns;
    command.preset = FILEIO_PRESET_SURVEY;
    if (survey->options.device != NULL)
        command.time_scale_text = survey->options.time_scale_text;
    return options_json(&fileio_options, &command);
}

static firn_rc add_result(struct survey *survey, const struct survey_phase *phase,
                          const struct fileio_outcome *outcome)
{
    struct result_run run = {.name = phase->name,
                             .group = phase->group,
                             .group_axis = phase->axis,
                             .group_x = phase->depth == 0 ? phase->threads : phase->depth,
                             .setup = phase_setup(survey, phase)};
    if (run.setup == NULL)
        return rc_raise(FIRN_E_NOMEM, "not enough memory for the result");
    fileio_outcome_result(outcome, &run);
    return result_add(survey->result, &run);
}

/* The file always holds what the phases so far say, for whoever ends the survey before it is done.
 */
static firn_rc write_result(struct survey *survey)
{
    struct survey_verdict verdict;
    struct survey_findings findings = survey_findings(survey);
    survey_judge(&findings, &verdict);
    FIRN_TRY(result_set_verdict(survey->result, survey_verdict_json(&verdict)));
    return result_write(survey->result, survey->result_path);
}

static firn_rc take_phase(struct survey *survey, const struct fileio_outcome *outcome)
{
    const struct survey_phase *phase = &survey->phases[survey->done];
    /* The append phase is buffered on purpose. */
    if (phase->work != SURVEY_APPEND && !outcome->direct)
        survey->direct = false;
    snprintf(survey->storage, sizeof(survey->storage), "%s", outcome->storage);
    FIRN_TRY(survey_take(outcome, &survey->outcomes[survey->done]));
    FIRN_TRY(add_result(survey, phase, outcome));
    return write_result(survey);
}

static firn_rc run_phase(struct survey *survey)
{
    const struct survey_phase *phase = &survey->phases[survey->done];
    struct fileio_callbacks callbacks = {
        .interval = show_interval, .context = survey, .stop = survey->stop};
    struct fileio_config config;
    struct fileio_outcome outcome;
    snprintf(survey->label, sizeof(survey->label), "%u/%u %s", survey->done + 1, survey->count,
             phase->name);
    progress_label(&survey->progress, survey->label);
    survey->planned_ns += (double)phase->warmup_ns;
    survey_config_phase(&survey->target, phase, &config);
    FIRN_TRY(fileio_run(&config, &callbacks, &outcome));
    firn_rc rc = outcome.run.end == RUNNER_END_STOPPED ? rc_raise(FIRN_E_STOPPED, "interrupted")
                                                       : take_phase(survey, &outcome);
    fileio_outcome_free(&outcome);
    survey->planned_ns += (double)phase->time_ns;
    return rc;
}

firn_rc survey_measure(struct survey *survey)
{
    double total_ns = 0;
    for (unsigned i = 0; i < survey->count; i++)
        total_ns += (double)(survey->phases[i].warmup_ns + survey->phases[i].time_ns);
    survey->direct = true;
    progress_start(&survey->progress, "", PROGRESS_SHARE, total_ns);
    firn_rc rc = FIRN_OK;
    while (survey->done < survey->count && rc == FIRN_OK) {
        rc = run_phase(survey);
        survey->done += rc == FIRN_OK;
    }
    progress_end(&survey->progress);
    return rc;
}

/* ---- After ---- */

static void clean_files(struct survey *survey, bool log)
{
    struct fileio_config config;
    uint64_t removed = 0;
    const char *path = log ? survey->log_directory : survey->data_directory;
    survey_config_files(&survey->target, log, &config);
    if (access(path, F_OK) != 0)
        return;
    if (fileio_cleanup(&config, &removed) != FIRN_OK ||
        io_remove_directory(survey->system, path) != FIRN_OK)
        log_warning("%s is left behind: %s", path, firn_error_text());
}

void survey_clean(struct survey *survey)
{
    /* Without the lock the files are another survey's. */
    if (survey->lock != NULL && !survey->options.keep) {
        clean_files(survey, true);
        clean_files(survey, false);
    }
    if (survey->lock != NULL)
        io_unlock_directory(survey->lock);
    survey->lock = NULL;
    if (survey->made_output && survey->done == 0)
        (void)io_remove_directory(survey->system, survey->output);
    if (survey->made_directory && survey->done == 0)
        (void)io_remove_directory(survey->system, survey->directory);
    io_system_close(survey->system);
    survey->system = NULL;
    log_set_sink(NULL, NULL);
}
