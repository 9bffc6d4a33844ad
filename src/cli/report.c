#include "report/report.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/options.h"

#include <errno.h>
#include <string.h>

struct report_configuration {
    const char *output;
    const char *baseline;
    bool pictures;
    bool json;
};

#define FIELD(name) offsetof(struct report_configuration, name)

static const struct option_spec report_specs[] = {
    {.name = "output",
     .type = OPTION_TEXT,
     .offset = FIELD(output),
     .value_name = "DIR",
     .help = "Where the report goes; made if it does not exist. An earlier report there is "
             "replaced, other files are never overwritten. The default is the first FILE's name "
             "with .report in place of .json."},
    {.name = "o", .alias_of = "output"},
    {.name = "baseline",
     .type = OPTION_TEXT,
     .offset = FIELD(baseline),
     .value_name = "NAME",
     .help = "What ratios are taken against: a run's name, or one of the files, whose runs are "
             "then compared with those of the same name. The page can change it. By default the "
             "first file if its runs have namesakes, else the first run if the others differ from "
             "it in one setting at most, else nothing."},
    {.name = "pictures",
     .type = OPTION_FLAG,
     .offset = FIELD(pictures),
     .default_text = "on",
     .help = "Draw each picture as SVG and PNG too. Needs gnuplot."},
    {.name = "json",
     .type = OPTION_FLAG,
     .offset = FIELD(json),
     .default_text = "off",
     .help = "Print the table as JSON instead of text."},
    {.name = NULL},
};

static const struct option_table report_table = {
    .usage = "firn report [OPTION...] FILE...",
    .intro = "Put results of firn's benchmarks (the JSON files they write) into a table, one HTML "
             "page that opens offline, CSV files and pictures. Runs of one name in several files "
             "are repeats if they are alike in every setting, and compared if not.",
    .outro = "Examples:\n"
             "  firn report survey.json\n"
             "  firn report before.json after.json -o comparison --baseline=before.json\n",
    .options = report_specs,
};

static firn_rc default_directory(const char *file, char **directory)
{
    static const char ending[] = ".json";
    size_t length = strlen(file);
    if (length > sizeof(ending) - 1 && strcmp(file + length - (sizeof(ending) - 1), ending) == 0)
        length -= sizeof(ending) - 1;
    size_t room = length + sizeof(".report");
    char *text = memory_alloc(room);
    if (text == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the name of the report's directory");
    snprintf(text, room, "%.*s.report", (int)length, file);
    *directory = text;
    return FIRN_OK;
}

static firn_rc print_table(const struct report *report, bool as_json)
{
    if (!as_json)
        return report_print(report, stdout);
    json_t *table = report_json(report);
    if (table == NULL || json_dumpf(table, stdout, JSON_INDENT(2)) != 0) {
        json_decref(table);
        return rc_raise(FIRN_E_NOMEM, "no memory for the table");
    }
    putchar('\n');
    json_decref(table);
    return FIRN_OK;
}

static firn_rc make_report(const struct report_configuration *configuration,
                           const struct option_words *words)
{
    struct report *report = NULL;
    char *directory = NULL;
    firn_rc rc;
    FIRN_TRY_GOTO(report_open(&report), done);
    for (int i = 0; i < words->positional_count; i++)
        FIRN_TRY_GOTO(report_add_file(report, words->positional[i]), done);
    FIRN_TRY_GOTO(report_summarize(report, configuration->baseline), done);
    FIRN_TRY_GOTO(default_directory(words->positional[0], &directory), done);
    struct report_output output = {
        .directory = configuration->output != NULL ? configuration->output : directory,
        .pictures = configuration->pictures,
    };
    FIRN_TRY_GOTO(report_write(report, &output), done);
    FIRN_TRY_GOTO(print_table(report, configuration->json), done);
    if (!configuration->json)
        printf("\nReport: %s/report.html\n", output.directory);
    if (fflush(stdout) != 0 || ferror(stdout))
        rc = rc_raise_errno(errno, "cannot write to standard output");
done:
    memory_free(directory);
    report_close(report);
    return rc;
}

int command_report(int argc, char **argv)
{
    struct report_configuration configuration;
    struct option_words words;
    options_defaults(&report_table, &configuration);
    if (options_parse(&report_table, argc, argv, &configuration, &words) != FIRN_OK)
        return command_usage("report");
    int status = COMMAND_OK;
    if (words.help_wanted) {
        options_help(&report_table, stdout);
    } else if (words.positional_count == 0) {
        rc_raise(FIRN_E_INVALID, "no result file is named: which one shall be reported?");
        status = command_usage("report");
    } else if (make_report(&configuration, &words) != FIRN_OK) {
        status = command_fail("report");
    }
    options_free(&words);
    return status;
}
