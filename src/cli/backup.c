#include "base/check.h"
#include "cli/backup_internal.h"
#include "cli/command.h"

struct backup_command {
    struct environment_options environment;
    const char *directory; /* NULL: a backup is verified */
    const char *target;
    bool verify;
    uint64_t threads;
    double throttle_mb_s;
    bool json;
};

#define FIELD(member) offsetof(struct backup_command, member)

static const struct option_spec specs[] = {
    {.type = OPTION_SECTION, .help = "The backup"},
    {.name = "target-dir",
     .type = OPTION_TEXT,
     .offset = FIELD(target),
     .value_name = "DEST",
     .help = "Where the backup is, or goes: the same as the word DEST."},
    {.name = "verify",
     .type = OPTION_FLAG,
     .offset = FIELD(verify),
     .help = "Take no backup: read all of one, and hold it against its checksums."},
    {.name = "threads",
     .type = OPTION_COUNT,
     .offset = FIELD(threads),
     .default_text = "2",
     .value_name = "N",
     .min = 1,
     .max = 64,
     .help = "Threads that copy or read, a MiB each at a time."},
    {.name = "parallel", .alias_of = "threads"},
    {.name = "throttle",
     .type = OPTION_NUMBER,
     .offset = FIELD(throttle_mb_s),
     .default_text = "0",
     .value_name = "MB/S",
     .max = 1e6,
     .help = "Copy no more than so many million bytes of tablespaces a second; 0: no limit."},
    {.name = "json",
     .type = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "Print the result as JSON."},
    ENVIRONMENT_OPTIONS(FIELD(environment)),
    {0},
};

static const struct option_table table = {
    .usage = "firn backup [OPTION...] DIR DEST\n       firn backup --verify [OPTION...] DEST",
    .intro =
        "Copy the environment in DIR to the directory DEST, which is made if it is missing and "
        "must be empty: each tablespace, and the log that a recovery of the copy needs. Every "
        "page is judged on the way, and damage ends the backup. DEST is a backup once the command "
        "has succeeded; what an interrupted one leaves says that it was not finished. One that was "
        "closed is not written to; one that was not is recovered first. Nobody else may have it "
        "open: a process that has takes its backups itself, while it works (store_backup).",
    .outro = "Examples:\n"
             "  firn backup /var/lib/firn/shop /backup/shop-monday\n"
             "  firn backup --throttle=50 --threads=4 /var/lib/firn/shop /backup/shop-monday\n"
             "  firn backup --verify /backup/shop-monday\n"
             "  firn restore /backup/shop-monday /var/lib/firn/shop2",
    .options = specs,
};

/* ---- Taking one ---- */

/* A store that was closed is only read. */
static firn_rc open_source(struct environment *environment)
{
    environment->options.read_only = true;
    firn_rc rc = environment_open_prepared(environment);
    if (rc != FIRN_E_STOPPED)
        return rc;
    environment->options.read_only = false;
    return environment_open_prepared(environment);
}

static firn_rc print_backup(const struct backup_command *options, const struct backup_view *view,
                            const struct backup_info *info)
{
    if (options->json)
        return backup_print_json(backup_json(view, info, options->target));
    backup_print_size(info);
    backup_print_time(view, info);
    printf(": backed up to LSN %llu\n", (unsigned long long)info->end_lsn);
    return FIRN_OK;
}

static int take(const struct backup_command *options, const struct option_words *words)
{
    struct environment environment;
    struct backup_options backup;
    struct backup_view view;
    struct backup_info info;
    if (environment_prepare(&options->environment, &table, words, options->directory,
                            &environment) != FIRN_OK)
        return command_fail("backup");
    firn_rc rc = open_source(&environment);
    if (rc == FIRN_OK) {
        backup_view_begin(&view, options->threads, options->throttle_mb_s, options->target,
                          &backup);
        backup.io_backend = environment.options.io_backend;
        backup.direct = environment.options.direct;
        rc = store_backup(environment.store, &backup, &info);
        backup_view_end(&view);
    }
    if (rc == FIRN_OK)
        rc = print_backup(options, &view, &info);
    if (rc == FIRN_OK)
        rc = backup_end_output();
    int status = rc == FIRN_OK ? COMMAND_OK : command_fail("backup");
    if (environment_close(&environment) != FIRN_OK)
        status = command_fail("backup");
    return status;
}

/* ---- Verifying one ---- */

static firn_rc print_verified(const struct backup_command *options, const struct backup_view *view,
                              const struct backup_info *info)
{
    if (options->json) {
        json_t *object = backup_json(view, info, options->target);
        bool right = object != NULL && !view->incomplete &&
                     json_object_set_new(object, "passed", json_boolean(view->damages == 0)) == 0 &&
                     json_object_set(object, "findings", view->findings) == 0;
        if (!right)
            json_decref(object);
        return backup_print_json(right ? object : NULL);
    }
    if (info->files != 0) {
        backup_print_size(info);
        printf(", of %s to LSN %llu: ", info->ended, (unsigned long long)info->end_lsn);
    }
    if (view->damages == 0)
        puts("everything is right");
    else
        printf("%llu damage%s\n", (unsigned long long)view->damages, view->damages == 1 ? "" : "s");
    return FIRN_OK;
}

static int verify(const struct backup_command *options)
{
    struct backup_options backup;
    struct backup_view view;
    struct backup_info info = {.files = 0};
    char text[1024] = "";
    backup_view_begin(&view, options->threads, 0, options->target, &backup);
    backup.io_backend = (enum io_backend)options->environment.io_backend;
    backup.direct = options->environment.flush_method == 0;
    firn_rc rc = FIRN_OK;
    if (options->json && (view.findings = json_array()) == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "no memory to verify a backup");
    if (rc == FIRN_OK)
        rc = backup_verify(&backup, backup_view_finding, &info);
    backup_view_end(&view);
    snprintf(text, sizeof(text), "%s", firn_error_text());
    firn_rc print_rc = FIRN_OK;
    if (rc == FIRN_OK || rc == FIRN_E_CORRUPT)
        print_rc = print_verified(options, &view, &info);
    if (print_rc == FIRN_OK)
        print_rc = backup_end_output();
    json_decref(view.findings);
    if (rc == FIRN_OK && print_rc == FIRN_OK)
        return COMMAND_OK;
    if (rc != FIRN_OK)
        rc_raise(rc, "%s", text);
    return command_fail("backup");
}

/* ---- The command line ---- */

static firn_rc check_words(void *context, const struct option_words *words)
{
    struct backup_command *options = context;
    int next = 0;
    options->directory = options->verify ? NULL : backup_word(NULL, words, &next);
    options->target = backup_word(options->target, words, &next);
    if (options->directory == NULL && !options->verify)
        return rc_raise(FIRN_E_INVALID, "which environment, and where to?");
    if (options->target == NULL)
        return rc_raise(FIRN_E_INVALID, options->verify ? "which backup?" : "backup where to?");
    if (next < words->positional_count)
        return rc_raise(FIRN_E_INVALID, "what is \"%s\" for? The directories are known without it",
                        words->positional[next]);
    return environment_check_devices(options->environment.device);
}

static int run(void *context, const struct option_words *words)
{
    const struct backup_command *options = context;
    return options->verify ? verify(options) : take(options, words);
}

int command_backup(int argc, char **argv)
{
    static const struct environment_command command = {"backup", &table, check_words, run};
    struct backup_command options;
    return environment_command(&command, &options, argc, argv);
}
