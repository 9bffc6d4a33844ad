#include "base/check.h"
#include "cli/backup_internal.h"
#include "cli/command.h"

struct restore_command {
    struct environment_options environment;
    const char *backup;
    const char *directory;
    uint64_t threads;
    bool json;
};

#define FIELD(member) offsetof(struct restore_command, member)

static const struct option_spec specs[] = {
    {.type = OPTION_SECTION, .help = "The backup"},
    {.name = "target-dir",
     .type = OPTION_TEXT,
     .offset = FIELD(backup),
     .value_name = "BACKUP",
     .help = "Where the backup is: the same as the word BACKUP."},
    {.name = "datadir",
     .type = OPTION_TEXT,
     .offset = FIELD(directory),
     .value_name = "DIR",
     .help = "Where the environment goes: the same as the word DIR."},
    {.name = "threads",
     .type = OPTION_COUNT,
     .offset = FIELD(threads),
     .default_text = "2",
     .value_name = "N",
     .min = 1,
     .max = 64,
     .help = "Threads that verify and copy, a MiB each at a time."},
    {.name = "parallel", .alias_of = "threads"},
    {.name = "json",
     .type = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "Print the result as JSON."},
    ENVIRONMENT_OPTIONS(FIELD(environment)),
    {0},
};

static const struct option_table table = {
    .usage = "firn restore [OPTION...] BACKUP DIR",
    .intro =
        "Make an environment in DIR of what firn backup left in BACKUP: verify all of it, copy it, "
        "recover it, close it. DIR is made if it is missing and must be empty. Everything lies in "
        "DIR, wherever it lay before, but for classes of files that get directories of their own "
        "here (--tables-dir and others). DIR is no environment before all of it is there and "
        "durable; a restore that was interrupted is begun anew by the same command. The backup is "
        "not changed.",
    .outro = "Examples:\n"
             "  firn restore /backup/shop-monday /var/lib/firn/shop\n"
             "  firn restore --tables-dir=/ssd/shop --redo-dir=/nvme/shop \\\n"
             "      /backup/shop-monday /var/lib/firn/shop",
    .options = specs,
};

static firn_rc print_result(const struct restore_command *options, const struct backup_view *view,
                            const struct backup_info *info, const struct recovery_result *recovery)
{
    if (options->json) {
        json_t *object = backup_json(view, info, options->backup);
        json_t *name = json_string(options->directory);
        bool right = object != NULL &&
                     json_object_set_new(object, "directory",
                                         name != NULL ? name : json_string("(not UTF-8)")) == 0 &&
                     json_object_set_new(object, "records_applied",
                                         json_integer((json_int_t)recovery->records_applied)) == 0;
        if (!right)
            json_decref(object);
        return backup_print_json(right ? object : NULL);
    }
    backup_print_size(info);
    backup_print_time(view, info);
    printf(": restored as of %s, LSN %llu\n", info->ended, (unsigned long long)info->end_lsn);
    return FIRN_OK;
}

static int run(void *context, const struct option_words *words)
{
    const struct restore_command *options = context;
    struct environment environment;
    struct backup_options from;
    struct backup_view view;
    struct backup_info info;
    struct recovery_result recovery;
    if (environment_prepare(&options->environment, &table, words, options->directory,
                            &environment) != FIRN_OK)
        return command_fail("restore");
    backup_view_begin(&view, options->threads, 0, options->backup, &from);
    from.io_backend = environment.options.io_backend;
    from.direct = environment.options.direct;
    environment.options.progress = from.progress;
    environment.options.progress_context = from.progress_context;
    firn_rc rc = store_restore(&from, &environment.options, &info, &recovery);
    backup_view_end(&view);
    if (rc == FIRN_OK)
        rc = print_result(options, &view, &info, &recovery);
    if (rc == FIRN_OK)
        rc = backup_end_output();
    int status = rc == FIRN_OK ? COMMAND_OK : command_fail("restore");
    if (environment_close(&environment) != FIRN_OK)
        status = command_fail("restore");
    return status;
}

static firn_rc check_words(void *context, const struct option_words *words)
{
    struct restore_command *options = context;
    int next = 0;
    options->backup = backup_word(options->backup, words, &next);
    options->directory = backup_word(options->directory, words, &next);
    if (options->backup == NULL)
        return rc_raise(FIRN_E_INVALID, "which backup, and where to?");
    if (options->directory == NULL)
        return rc_raise(FIRN_E_INVALID, "restore where to?");
    if (next < words->positional_count)
        return rc_raise(FIRN_E_INVALID, "what is \"%s\" for? The directories are known without it",
                        words->positional[next]);
    if (options_given(&table, words, "page-size"))
        return rc_raise(FIRN_E_INVALID,
                        "--page-size: the pages of a backup have the size that they have");
    return environment_check_devices(options->environment.device);
}

int command_restore(int argc, char **argv)
{
    static const struct environment_command command = {"restore", &table, check_words, run};
    struct restore_command options;
    return environment_command(&command, &options, argc, argv);
}
