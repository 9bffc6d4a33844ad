#include "base/check.h"
#include "base/near.h"
#include "cli/binlog_internal.h"
#include "cli/command.h"
#include "cli/interrupt.h"

#include <string.h>

/* ---- Options ---- */

#define FIELD(member) offsetof(struct binlog_command_options, member)

static const char *const sync_words[] = {"together", "separate", NULL};

static const struct option_spec specs[] = {
    {.type = OPTION_SECTION, .help = "Which part"},
    {.name = "start-file",
     .type = OPTION_COUNT,
     .offset = FIELD(start_file),
     .default_text = "0",
     .value_name = "N",
     .max = 999999999,
     .help = "Of a directory: begin with binlog.N; 0: with the oldest."},
    {.name = "start-position",
     .type = OPTION_COUNT,
     .offset = FIELD(start_position),
     .default_text = "0",
     .value_name = "N",
     .help = "Begin there in the first file: where a group begins, as show prints it."},
    {.name = "stop-position",
     .type = OPTION_COUNT,
     .offset = FIELD(stop_position),
     .default_text = "0",
     .value_name = "N",
     .help = "End before the first group at or behind it in the last file; 0: at its end."},
    {.name = "start-datetime",
     .type = OPTION_TEXT,
     .offset = FIELD(start_datetime),
     .value_name = "TIME",
     .help = "Begin with the first group committed then or later: \"YYYY-MM-DD hh:mm:ss\", local "
             "time."},
    {.name = "stop-datetime",
     .type = OPTION_TEXT,
     .offset = FIELD(stop_datetime),
     .value_name = "TIME",
     .help = "End before the first group committed then or later."},
    {.name = "start-group",
     .type = OPTION_COUNT,
     .offset = FIELD(start_group),
     .default_text = "0",
     .value_name = "N",
     .help = "Begin with the group of that number; 0: with the first."},
    {.name = "stop-group",
     .type = OPTION_COUNT,
     .offset = FIELD(stop_group),
     .default_text = "0",
     .value_name = "N",
     .help = "End behind the group of that number; 0: with the last."},
    {.name = "tree",
     .type = OPTION_TEXT,
     .offset = FIELD(tree),
     .value_name = "NAME",
     .help = "Only changes of that tree."},
    {.name = "json",
     .type = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "Print events as JSON, one a line; of apply the summary."},
    {.type = OPTION_SECTION, .help = "apply"},
    {.name = "create",
     .type = OPTION_FLAG,
     .offset = FIELD(create),
     .help = "Make the environment if there is none."},
    {.name = "idempotent",
     .type = OPTION_FLAG,
     .offset = FIELD(idempotent),
     .help = "Do not compare what is there with what the log says was there."},
    {.name = "ignore-statements",
     .type = OPTION_FLAG,
     .offset = FIELD(ignore_statements),
     .help = "Leave statements out; otherwise the first one ends it."},
    {.name = "binlog",
     .type = OPTION_FLAG,
     .offset = FIELD(binlog),
     .help = "Write what is applied into the environment's own binary log, too."},
    {.name = "log-bin", .alias_of = "binlog"},
    {.name = "binlog-sync",
     .type = OPTION_CHOICE,
     .offset = FIELD(binlog_sync),
     .default_text = "together",
     .value_name = "HOW",
     .choices = sync_words,
     .help = "With --binlog: together with the log, one sync a commit; separate, two."},
    {.name = "server-id",
     .type = OPTION_COUNT,
     .offset = FIELD(server_id),
     .default_text = "1",
     .value_name = "N",
     .min = 1,
     .max = 4294967295.0,
     .help = "With --binlog: whose groups these are."},
    {.name = "max-binlog-size",
     .type = OPTION_SIZE,
     .offset = FIELD(max_binlog_size_bytes),
     .default_text = "1G",
     .value_name = "SIZE",
     .min = BINLOG_MAX_MIN_BYTES,
     .max = 0x1p40,
     .help = "With --binlog: a file ends before a group goes beyond it."},
    {.name = "binlog-cache-size",
     .type = OPTION_SIZE,
     .offset = FIELD(binlog_cache_size_bytes),
     .default_text = "256K",
     .value_name = "SIZE",
     .min = BINLOG_CACHE_MIN_BYTES,
     .max = BINLOG_CACHE_MAX_BYTES,
     .help = "With --binlog: what a transaction keeps in memory; a larger one goes by a file."},
    {.name = "binlog-expire-logs-seconds",
     .type = OPTION_COUNT,
     .offset = FIELD(binlog_expire_s),
     .default_text = "2592000",
     .value_name = "N",
     .max = 4294967295.0,
     .help = "With --binlog: older files are removed; 0: none."},
    ENVIRONMENT_OPTIONS(FIELD(environment)),
    {0},
};

const struct option_table binlog_table = {
    .usage = "firn binlog [OPTION...] show DIR|FILE...\n"
             "       firn binlog [OPTION...] apply ENVIRONMENT DIR|FILE...",
    .intro = "What committed transactions did, in their order. \"show\" prints the groups of a "
             "binary log: of a directory with its binlog.index, or of single files. \"apply\" "
             "carries them out in an environment, each as one transaction, and leaves out what "
             "it has already: so a backup is brought to any later moment.",
    .outro = "Examples:\n"
             "  firn binlog show fruit\n"
             "  firn binlog show --json --start-datetime='2026-11-30 12:00:00' fruit\n"
             "  firn binlog apply --stop-datetime='2026-11-30 12:34:56' restored fruit\n"
             "  firn binlog apply --create --stop-group=1000 copy fruit/binlog.000001",
    .options = specs,
};

/* ---- The command ---- */

enum action { ACTION_SHOW, ACTION_APPLY };

static firn_rc find_action(const char *word, enum action *action)
{
    static const char *const names[] = {"show", "apply"};
    char near[NEAR_TEXT_BYTES];
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(word, names[i]) == 0) {
            *action = (enum action)i;
            return FIRN_OK;
        }
    return rc_raise(FIRN_E_INVALID, "there is no \"firn binlog %s\"%s", word,
                    near_text(word, names, ARRAY_COUNT(names), "", near));
}

/* An option that means nothing to the action is a misunderstanding. */
static firn_rc check_uses(enum action action, const struct binlog_command_options *options,
                          const struct option_words *words)
{
    static const char *const with_binlog[] = {"binlog-sync", "server-id", "max-binlog-size",
                                              "binlog-cache-size", "binlog-expire-logs-seconds"};
    bool of_apply = false;
    for (const struct option_spec *spec = specs; action == ACTION_SHOW && spec->help != NULL;
         spec++) {
        if (spec->type == OPTION_SECTION && strcmp(spec->help, "apply") == 0)
            of_apply = true;
        if (of_apply && spec->name != NULL && spec->alias_of == NULL &&
            options_given(&binlog_table, words, spec->name))
            return rc_raise(FIRN_E_INVALID, "--%s is for apply, not for show", spec->name);
    }
    for (size_t i = 0; !options->binlog && i < ARRAY_COUNT(with_binlog); i++)
        if (options_given(&binlog_table, words, with_binlog[i]))
            return rc_raise(FIRN_E_INVALID, "--%s needs --binlog", with_binlog[i]);
    return environment_check_devices(options->environment.device);
}

static firn_rc check_words(struct binlog_command_options *options, const struct option_words *words,
                           enum action *action)
{
    if (words->positional_count == 0)
        return rc_raise(FIRN_E_INVALID, "what shall be done: show or apply?");
    FIRN_TRY(find_action(words->positional[0], action));
    if (*action == ACTION_APPLY && words->positional_count < 3)
        return rc_raise(FIRN_E_INVALID, "apply what to which environment? Name the environment's "
                                        "directory, then the binary log's directory or files");
    if (words->positional_count < 2)
        return rc_raise(FIRN_E_INVALID, "which directory, or which file?");
    if (options->start_datetime != NULL)
        FIRN_TRY(binlog_parse_time(options->start_datetime, "start-datetime", &options->start_us));
    if (options->stop_datetime != NULL)
        FIRN_TRY(binlog_parse_time(options->stop_datetime, "stop-datetime", &options->stop_us));
    return check_uses(*action, options, words);
}

static int run(const struct binlog_command_options *options, const struct option_words *words,
               enum action action)
{
    const atomic_bool *stop = interrupt_watch();
    char *const *paths = words->positional + 1;
    int count = words->positional_count - 1;
    firn_rc rc = action == ACTION_SHOW ? binlog_show(options, paths, count, stop)
                                       : binlog_apply(options, words, paths, count, stop);
    return rc == FIRN_OK ? COMMAND_OK : command_fail("binlog");
}

int command_binlog(int argc, char **argv)
{
    struct binlog_command_options options;
    struct option_words words;
    enum action action = ACTION_SHOW;
    options_defaults(&binlog_table, &options);
    options.start_us = options.stop_us = 0;
    environment_accept_old_names(&binlog_table, argc, argv);
    if (options_parse(&binlog_table, argc, argv, &options, &words) != FIRN_OK)
        return command_usage("binlog");
    int status = COMMAND_OK;
    if (words.help_wanted)
        options_help(&binlog_table, stdout);
    else if (check_words(&options, &words, &action) != FIRN_OK)
        status = command_usage("binlog");
    else
        status = run(&options, &words, action);
    options_free(&words);
    return status;
}
