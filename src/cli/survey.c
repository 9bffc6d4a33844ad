#include "base/memory.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/fileio_internal.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/survey_internal.h"
#include "io/model.h"
#include "report/report.h"

#include <string.h>

enum { DATA_FILES = 8, FILE_GRAIN_BYTES = 1024 * 1024, LOG_SHARE = 2 };

static const uint64_t LOG_MAX_BYTES = UINT64_C(1) << 30;

static const char *const backends[] = {"auto", "io_uring", "libaio", "threads", NULL};

#define FIELD(name) offsetof(struct survey_options, name)

static const struct option_spec options[] = {
    {.type = OPTION_SECTION, .help = "Measuring"},
    {.name = "size",
     .type = OPTION_SIZE,
     .offset = FIELD(size_bytes),
     .default_text = "2G",
     .value_name = "SIZE",
     .min = 16.0 * 1024 * 1024,
     .max = 1024.0 * 1024 * 1024 * 1024 * 1024,
     .help = "Space that the test files take, and that the random blocks are drawn from. Larger "
             "than any cache on the way (controller, host) shows the device itself."},
    {.name = "time",
     .type = OPTION_DURATION,
     .offset = FIELD(time_ns),
     .default_text = "190",
     .value_name = "TIME",
     .min = 2e9,
     .max = 7 * 86400e9,
     .help = "Of all measurements together; a third of it goes to the run that shows whether "
             "writes hold their rate. Preparing the files comes on top."},
    {.name = "io-backend",
     .type = OPTION_CHOICE,
     .offset = FIELD(io_backend),
     .default_text = "auto",
     .value_name = "NAME",
     .choices = backends,
     .help = "How queues of requests reach the system."},
    {.name = "device",
     .type = OPTION_TEXT,
     .offset = FIELD(device),
     .value_name = "MODEL",
     .help = "Survey a model instead of this machine's disk: a name of 'firn device list', such as "
             "hdd-7200. The result says that it is modelled."},
    {.name = "time-scale",
     .type = OPTION_TEXT,
     .offset = FIELD(time_scale_text),
     .default_text = "max",
     .value_name = "N",
     .help = "With --device: how much faster its time passes than real time; max: as fast as the "
             "processor allows."},
    {.type = OPTION_SECTION, .help = "Output"},
    {.name = "output",
     .type = OPTION_TEXT,
     .offset = FIELD(output),
     .value_name = "DIRECTORY",
     .help = "Where survey.json and the report go; the surveyed directory by default."},
    {.name = "o", .alias_of = "output"},
    {.name = "pictures",
     .type = OPTION_FLAG,
     .offset = FIELD(pictures),
     .default_text = "on",
     .help = "Write the report's pictures as SVG and PNG too."},
    {.name = "json",
     .type = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "Print the result as JSON instead of the summary."},
    {.name = "keep",
     .type = OPTION_FLAG,
     .offset = FIELD(keep),
     .help = "Leave the test files, so that the next survey need not write them."},
    {0},
};

static const struct option_table table = {
    .usage = "firn survey [OPTION...] [DIRECTORY]",
    .intro = "Measure how the disk under DIRECTORY (./survey by default) will serve a database: "
             "what a sync costs, random and sequential reads and writes by threads and by depth, a "
             "mixed load, and whether writes hold their rate. Prints a summary with a verdict, and "
             "writes report.html, which opens in any browser.\n\nOnly files in DIRECTORY's "
             "folders firn-survey-data and firn-survey-log are written, and they are removed at "
             "the end. Ctrl-C ends the survey with a report of what was measured.",
    .outro = "Examples:\n"
             "  firn survey /var/lib/mysql-new\n"
             "  firn survey --size=64G --time=1h -o ~/reports/san /mnt/san\n"
             "  firn survey --device=hdd-15k:raid10x8+cache=512M",
    .options = options,
};

static char *join(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = memory_alloc(size);
    bool slash = directory[0] != '\0' && directory[strlen(directory) - 1] == '/';
    if (path != NULL)
        snprintf(path, size, "%s%s%s", directory, slash ? "" : "/", name);
    return path;
}

/* What can be said before anything is touched. */
static firn_rc check_options(const struct option_words *words, struct survey *survey)
{
    const struct survey_options *o = &survey->options;
    struct model_spec spec;
    if (words->positional_count > 1)
        return rc_raise(FIRN_E_INVALID, "one directory at a time; \"%s\" is a second one",
                        words->positional[1]);
    if (o->device == NULL && options_given(&table, words, "time-scale"))
        return rc_raise(FIRN_E_INVALID,
                        "--time-scale needs --device: a real device keeps its own time");
    if (o->device != NULL) {
        FIRN_TRY(model_find(o->device, &spec));
        snprintf(survey->model_text, sizeof(survey->model_text), "%s", spec.text);
        return fileio_parse_time_scale(o->time_scale_text, &survey->target.time_scale);
    }
    survey->target.time_scale = 1;
    return FIRN_OK;
}

static firn_rc fill_survey(const struct option_words *words, struct survey *survey)
{
    survey->directory = words->positional_count == 0 ? "survey" : words->positional[0];
    survey->output = survey->options.output == NULL ? survey->directory : survey->options.output;
    survey->log_directory = join(survey->directory, "firn-survey-log");
    survey->data_directory = join(survey->directory, "firn-survey-data");
    survey->result_path = join(survey->output, "survey.json");
    survey->report_path = join(survey->output, "report.html");
    if (survey->log_directory == NULL || survey->data_directory == NULL ||
        survey->result_path == NULL || survey->report_path == NULL)
        return rc_raise(FIRN_E_NOMEM, "not enough memory for a survey");
    uint64_t grain = (uint64_t)DATA_FILES * FILE_GRAIN_BYTES;
    uint64_t log_bytes = survey->options.size_bytes / LOG_SHARE;
    struct survey_target *target = &survey->target;
    target->log_directory = survey->log_directory;
    target->data_directory = survey->data_directory;
    target->log_bytes = log_bytes > LOG_MAX_BYTES ? LOG_MAX_BYTES : log_bytes / 4096 * 4096;
    target->data_bytes = survey->options.size_bytes / grain * grain;
    target->data_files = DATA_FILES;
    target->io_backend = survey->options.io_backend;
    target->device = survey->options.device;
    target->seed = 1;
    survey->count = survey_plan(survey->options.time_ns, survey->phases);
    return FIRN_OK;
}

/* The seconds are known for a real disk; a model in jumping time takes what it takes. */
static void announce(const struct survey *survey)
{
    char time[UNITS_TEXT_BYTES];
    double scale = survey->target.time_scale;
    if (scale == 0)
        fprintf(stderr, "firn survey: %u measurements of the model %s\n", survey->count,
                survey->options.device);
    else
        fprintf(stderr, "firn survey: %u measurements in %s, about %s after preparing the files\n",
                survey->count, survey->directory,
                progress_format_time((double)survey->options.time_ns / scale, time));
}

static firn_rc write_report(const struct survey *survey)
{
    struct report *report = NULL;
    struct report_output output = {.directory = survey->output,
                                   .pictures = survey->options.pictures};
    firn_rc rc = FIRN_OK;
    FIRN_TRY_GOTO(report_open(&report), end);
    FIRN_TRY_GOTO(report_add_file(report, survey->result_path), end);
    FIRN_TRY_GOTO(report_summarize(report, NULL), end);
    FIRN_TRY_GOTO(report_write(report, &output), end);
end:
    report_close(report);
    return rc;
}

static firn_rc print_json(const struct survey *survey)
{
    if (json_dumpf(result_document(survey->result), stdout, JSON_INDENT(1)) != 0 ||
        putchar('\n') == EOF || fflush(stdout) != 0)
        return rc_raise(FIRN_E_IO, "cannot write the result to standard output");
    return FIRN_OK;
}

/* The summary stands even where the report cannot be written. */
static int show(const struct survey *survey)
{
    int status = COMMAND_OK;
    if (!survey->options.json)
        survey_print(survey, stdout);
    else if (print_json(survey) != FIRN_OK)
        status = command_fail("survey");
    if (write_report(survey) != FIRN_OK)
        return command_fail("survey");
    fprintf(survey->options.json ? stderr : stdout, "\nReport: %s (data: %s)\n",
            survey->report_path, survey->result_path);
    return status;
}

static int run(struct survey *survey, int argc, char **argv)
{
    int status = COMMAND_OK;
    firn_rc rc = survey_prepare(survey, argc, argv);
    if (rc == FIRN_OK) {
        announce(survey);
        rc = survey_measure(survey);
    }
    if (rc == FIRN_E_STOPPED && atomic_load(survey->stop)) {
        fprintf(stderr, "firn survey: interrupted after %u of %u measurements\n", survey->done,
                survey->count);
        status = COMMAND_FAILED;
    } else if (rc != FIRN_OK) {
        status = command_fail("survey");
    }
    survey_clean(survey);
    if (survey->done != 0 && show(survey) != COMMAND_OK)
        status = COMMAND_FAILED;
    return status;
}

static void close_survey(struct survey *survey)
{
    result_close(survey->result);
    memory_free(survey->log_directory);
    memory_free(survey->data_directory);
    memory_free(survey->result_path);
    memory_free(survey->report_path);
    memory_free(survey);
}

int command_survey(int argc, char **argv)
{
    int status = COMMAND_USAGE;
    struct option_words words = {0};
    struct survey *survey = memory_zalloc(1, sizeof(*survey));
    if (survey == NULL) {
        rc_raise(FIRN_E_NOMEM, "not enough memory for a survey");
        return command_fail("survey");
    }
    survey->stop = interrupt_watch();
    options_defaults(&table, &survey->options);
    firn_rc rc = options_parse(&table, argc, argv, &survey->options, &words);
    if (rc == FIRN_OK && words.help_wanted) {
        options_help(&table, stdout);
        status = COMMAND_OK;
    } else if (rc != FIRN_OK || check_options(&words, survey) != FIRN_OK) {
        status = command_usage("survey");
    } else if (fill_survey(&words, survey) != FIRN_OK) {
        status = command_fail("survey");
    } else {
        status = run(survey, argc, argv);
    }
    options_free(&words);
    close_survey(survey);
    return status;
}
