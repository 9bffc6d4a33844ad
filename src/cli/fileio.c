#include "base/check.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/fileio_internal.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BAD_BLOCKS_SHOWN = 20 };

/* What the callbacks work on. */
struct session {
    const struct fileio_command *command;
    FILE *out; /* the text; a sink below FILEIO_NOTICES */
    struct progress progress;
    const char *what; /* of the progress */
    bool progressing;
    uint64_t bad_shown;

    /* Runs. */
    struct fileio_window *since_line;
    struct fileio_window *since_checkpoint;
    uint64_t next_line_ns;
    unsigned next_checkpoint;
};

/* ---- Prepare, verify, cleanup ---- */

static void show_progress(uint64_t done_bytes, uint64_t total_bytes, void *context)
{
    struct session *session = context;
    if (total_bytes == 0)
        return;
    if (!session->progressing)
        progress_start(&session->progress, session->what, PROGRESS_BYTES, (double)total_bytes);
    session->progressing = true;
    progress_update(&session->progress, (double)done_bytes);
}

static void end_progress(struct session *session)
{
    if (session->progressing)
        progress_end(&session->progress);
    session->progressing = false;
}

static void show_file(const char *what, const char *name, void *context)
{
    struct session *session = context;
    if (session->progressing)
        progress_wipe(&session->progress);
    fprintf(session->out, "%s file %s\n", what, name);
    fflush(session->out);
}

static void show_bad_block(const char *text, void *context)
{
    struct session *session = context;
    if (session->progressing)
        progress_wipe(&session->progress);
    if (session->bad_shown++ < BAD_BLOCKS_SHOWN)
        fprintf(stdout, "%s\n", text);
}

static int prepare(struct session *session)
{
    const struct fileio_config *config = &session->command->config;
    struct fileio_callbacks callbacks = {
        .file = show_file,
        .progress = show_progress,
        .context = session,
        .stop = interrupt_watch(),
    };
    uint64_t file_bytes = fileio_file_size(config);
    uint64_t written_bytes = 0;
    fprintf(session->out, "%" PRIu64 " files, %" PRIu64 "Kb each, %" PRIu64 "Mb total\n",
            config->file_num, file_bytes / 1024, file_bytes * config->file_num / (1024 * 1024));
    fprintf(session->out, "Creating files for the test...\n");
    fileio_print_flags(session->out, config->extra_flags);
    session->what = "prepare";
    uint64_t start_ns = clock_now(clock_real());
    firn_rc rc = fileio_prepare(config, &callbacks, &written_bytes);
    double elapsed_s = (double)(clock_now(clock_real()) - start_ns) / (double)NS_PER_S;
    end_progress(session);
    if (rc != FIRN_OK)
        return command_fail("fileio");
    if (written_bytes == 0)
        fprintf(session->out, "No bytes written.\n");
    else
        fprintf(session->out, "%" PRIu64 " bytes written in %.2f seconds (%.2f MiB/sec).\n",
                written_bytes, elapsed_s, (double)written_bytes / 1024 / 1024 / elapsed_s);
    return COMMAND_OK;
}

static int verify(struct session *session)
{
    struct fileio_callbacks callbacks = {
        .progress = show_progress,
        .bad_block = show_bad_block,
        .context = session,
        .stop = interrupt_watch(),
    };
    uint64_t blocks = 0;
    uint64_t bad = 0;
    session->what = "verify";
    fprintf(session->out, "Verifying test files...\n");
    firn_rc rc = fileio_verify(&session->command->config, &callbacks, &blocks, &bad);
    end_progress(session);
    if (rc != FIRN_OK)
        return command_fail("fileio");
    if (session->bad_shown > BAD_BLOCKS_SHOWN)
        fprintf(stdout, "... and %" PRIu64 " more\n", session->bad_shown - BAD_BLOCKS_SHOWN);
    fprintf(session->out, "%" PRIu64 " blocks verified, %" PRIu64 " bad.\n", blocks, bad);
    if (bad == 0)
        return COMMAND_OK;
    rc_raise(FIRN_E_CORRUPT, "%" PRIu64 " of %" PRIu64 " blocks are not what was written", bad,
             blocks);
    return command_fail("fileio");
}

static int cleanup(struct session *session)
{
    uint64_t removed = 0;
    fprintf(session->out, "Removing test files...\n");
    if (fileio_cleanup(&session->command->config, &removed) != FIRN_OK)
        return command_fail("fileio");
    return COMMAND_OK;
}

/* ---- Run ---- */

static void show_start(void *context)
{
    struct session *session = context;
    const struct fileio_command *command = session->command;
    uint64_t time_ns = command->config.time_ns;
    fprintf(session->out, "Threads started!\n\n");
    if (command->config.warmup_ns != 0)
        fprintf(session->out, "Warming up for %g seconds...\n\n",
                (double)command->config.warmup_ns / (double)NS_PER_S);
    fflush(session->out);
    session->progressing = command->report_ns == 0 && time_ns != 0 && command->config.events == 0;
    if (session->progressing)
        progress_start(&session->progress, "run", PROGRESS_SHARE, (double)time_ns);
}

/* A line is due when an interval ends nearer to its time than to the interval's own start. */
static void show_line(struct session *session, uint64_t end_ns,
                      const struct runner_backlog *backlog)
{
    const struct fileio_command *command = session->command;
    if (command->report_ns == 0 || end_ns + command->config.interval_ns / 2 < session->next_line_ns)
        return;
    fileio_print_interval(session->out, command, session->since_line, backlog);
    fileio_window_reset(session->since_line, end_ns);
    while (session->next_line_ns <= end_ns + command->config.interval_ns / 2)
        session->next_line_ns += command->report_ns;
}

static void show_checkpoint(struct session *session, uint64_t end_ns)
{
    const struct fileio_command *command = session->command;
    if (session->next_checkpoint == command->checkpoint_count ||
        end_ns + command->config.interval_ns / 2 <
            command->checkpoints_ns[session->next_checkpoint])
        return;
    fprintf(session->out, "[ %.0fs ] Checkpoint report:\n", (double)end_ns / (double)NS_PER_S);
    fileio_print_report(session->out, command, session->since_checkpoint, end_ns, NULL);
    fflush(session->out);
    fileio_window_reset(session->since_checkpoint, end_ns);
    while (session->next_checkpoint < command->checkpoint_count &&
           command->checkpoints_ns[session->next_checkpoint] <=
               end_ns + command->config.interval_ns / 2)
        session->next_checkpoint++;
}

static void show_interval(const struct meter_interval *interval,
                          const struct runner_backlog *backlog, void *context)
{
    struct session *session = context;
    uint64_t end_ns = interval->start_ns + interval->length_ns;
    fileio_window_add(session->since_checkpoint, interval);
    if (session->command->report_ns != 0)
        fileio_window_add(session->since_line, interval);
    show_checkpoint(session, end_ns);
    show_line(session, end_ns, backlog);
    if (session->progressing)
        progress_update(&session->progress, (double)end_ns);
}

static void show_outcome(const struct session *session, const struct fileio_outcome *outcome)
{
    const struct fileio_command *command = session->command;
    if (command->histogram)
        fileio_print_histogram(session->out, command, session->since_checkpoint);
    fileio_print_report(session->out, command, session->since_checkpoint, outcome->run.elapsed_ns,
                        outcome);
    fileio_print_more(session->out, command, outcome);
    fflush(session->out);
}

static json_t *extra_json(const struct fileio_outcome *outcome)
{
    const struct runner_backlog *backlog = &outcome->run.backlog;
    return json_pack(
        "{s:s, s:b, s:I, s:f, s:f, s:I, s:b}", "backend", io_backend_name(outcome->backend),
        "direct", (int)outcome->direct, "final_syncs", (json_int_t)outcome->final_syncs,
        "final_sync_s", (double)outcome->final_sync_ns / 1e9, "behind_s",
        (double)backlog->behind_ns / 1e9, "queue_length", (json_int_t)backlog->queue_length,
        "stopped", (int)(outcome->run.end == RUNNER_END_STOPPED));
}

static void name_run(const struct fileio_config *config, char *name, size_t size_bytes)
{
    static const char *const modes[] = {
        "sequential write", "sequential rewrite", "sequential read",
        "random read",      "random write",       "random read and write",
    };
    char block[UNITS_TEXT_BYTES];
    char depth[32] = "";
    units_format_size((double)config->file_block_size, block);
    if (config->file_io_mode == FILEIO_ASYNC)
        snprintf(depth, sizeof(depth), ", depth %" PRIu64, config->io_depth);
    snprintf(name, size_bytes, "%s %s, %s%s, %" PRIu64 " %s", modes[config->file_test_mode], block,
             fileio_io_mode_name((enum fileio_io_mode)config->file_io_mode), depth, config->threads,
             config->threads == 1 ? "thread" : "threads");
}

static firn_rc add_run(struct result *result, const struct fileio_command *command,
                       const struct fileio_outcome *outcome)
{
    char name[128];
    struct result_run run = {.name = name,
                             .setup = options_json(&fileio_options, command),
                             .extra = extra_json(outcome)};
    name_run(&command->config, name, sizeof(name));
    fileio_outcome_result(outcome, &run);
    if (run.setup == NULL || run.extra == NULL ||
        json_object_set_new(run.setup, "rand_seed", json_integer((json_int_t)outcome->seed)) != 0) {
        json_decref(run.setup);
        json_decref(run.extra);
        return rc_raise(FIRN_E_NOMEM, "no memory for the result");
    }
    return result_add(result, &run);
}

static firn_rc write_json(const struct fileio_command *command, int argc, char **argv,
                          const struct fileio_outcome *outcome)
{
    struct result *result = NULL;
    firn_rc rc;
    if (command->json_path == NULL)
        return FIRN_OK;
    FIRN_TRY(result_open("fileio", argc, argv, command->config.directory, &result));
    FIRN_TRY_GOTO(add_run(result, command, outcome), done);
    if (strcmp(command->json_path, "-") != 0) {
        rc = result_write(result, command->json_path);
    } else if (json_dumpf(result_document(result), stdout, JSON_INDENT(1)) != 0 ||
               fputc('\n', stdout) == EOF || fflush(stdout) != 0) {
        rc = rc_raise(FIRN_E_IO, "cannot write the result to standard output");
    }
done:
    result_close(result);
    return rc;
}

/* A result that cannot be kept must be known before the hours it takes, not after. */
static firn_rc check_json_path(const char *path)
{
    char directory[PATH_MAX];
    struct stat status;
    if (path == NULL || strcmp(path, "-") == 0)
        return FIRN_OK;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return rc_raise(FIRN_E_INVALID, "--json: %s is a directory; name a file", path);
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);
    snprintf(directory, sizeof(directory), "%.*s", length, path);
    if (access(length == 0 ? "." : directory, W_OK | X_OK) != 0)
        return rc_raise_errno(errno, "--json: cannot write %s", path);
    return FIRN_OK;
}

static bool open_windows(struct session *session)
{
    session->since_line = memory_alloc(sizeof(*session->since_line));
    session->since_checkpoint = memory_alloc(sizeof(*session->since_checkpoint));
    if (session->since_line == NULL || session->since_checkpoint == NULL)
        return false;
    fileio_window_reset(session->since_line, 0);
    fileio_window_reset(session->since_checkpoint, 0);
    session->next_line_ns = session->command->report_ns;
    return true;
}

static int run_and_report(struct session *session, int argc, char **argv)
{
    const struct fileio_command *command = session->command;
    const struct fileio_config *config = &command->config;
    struct fileio_callbacks callbacks = {
        .started = show_start,
        .interval = show_interval,
        .context = session,
        .stop = interrupt_watch(),
    };
    struct fileio_outcome outcome;
    firn_rc rc = fileio_run(config, &callbacks, &outcome);
    end_progress(session);
    if (rc != FIRN_OK)
        return command_fail("fileio");
    show_outcome(session, &outcome);
    int status =
        write_json(command, argc, argv, &outcome) == FIRN_OK ? COMMAND_OK : command_fail("fileio");
    if (outcome.run.end == RUNNER_END_ABANDONED) {
        fprintf(stderr, "firn fileio: %u threads did not come back within --forced-shutdown=%s\n",
                outcome.run.abandoned, command->shutdown_text);
        fflush(NULL);
        _exit(COMMAND_FAILED); /* they may hang in the kernel for ever */
    }
    /* Without a limit, an interruption is how a run ends. */
    if (outcome.run.end == RUNNER_END_STOPPED && (config->time_ns != 0 || config->events != 0))
        status = COMMAND_FAILED;
    fileio_outcome_free(&outcome);
    return status;
}

static int run(struct session *session, int argc, char **argv)
{
    const struct fileio_command *command = session->command;
    if (command->config.time_ns == 0 && command->config.events == 0)
        fprintf(stderr, "WARNING: Both event and time limits are disabled, running an endless "
                        "test\n");
    if (check_json_path(command->json_path) != FIRN_OK)
        return command_fail("fileio");
    io_lift_file_limit(); /* hundreds may be open at once */
    fileio_print_setup(session->out, command);
    fprintf(session->out, "Initializing worker threads...\n\n");
    fflush(session->out);
    int status = COMMAND_FAILED;
    if (open_windows(session)) {
        status = run_and_report(session, argc, argv);
    } else {
        rc_raise(FIRN_E_NOMEM, "no memory for the report");
        status = command_fail("fileio");
    }
    memory_free(session->since_line);
    memory_free(session->since_checkpoint);
    return status;
}

/* ---- The command ---- */

/* "--json" alone means standard output; getopt would take the next word for its file. And results
   want the whole command line: the list returned begins with "firn". */
static char **complete_words(int argc, char **argv)
{
    static char json_out[] = "--json=-";
    static char firn[] = "firn";
    char **words = memory_zalloc((size_t)argc + 2, sizeof(*words));
    if (words == NULL)
        return NULL;
    words[0] = firn;
    for (int i = 0; i < argc; i++)
        words[i + 1] = strcmp(argv[i], "--json") == 0 ? json_out : argv[i];
    return words;
}

static int carry_out(struct session *session, const char *verb, int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(struct session *session);
    } verbs[] = {{"prepare", prepare}, {"verify", verify}, {"cleanup", cleanup}};
    const struct fileio_config *config = &session->command->config;
    bool runs = strcmp(verb, "run") == 0;
    if (fileio_config_check(config, runs) != FIRN_OK)
        return command_usage("fileio");
    if (runs)
        return run(session, argc, argv);
    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++)
        if (strcmp(verb, verbs[i].name) == 0) {
            fprintf(session->out, "firn %s (%s)\n\n", firn_version(), firn_commit());
            return verbs[i].run(session);
        }
    rc_raise(FIRN_E_INVALID, "there is no \"%s\"; say prepare, run, verify or cleanup", verb);
    return command_usage("fileio");
}

/* Open the text's stream: standard output, or error when that is the result's, or nowhere. */
static FILE *open_text(const struct fileio_command *command)
{
    if (command->verbosity < FILEIO_NOTICES)
        return fopen("/dev/null", "we");
    bool json_to_stdout = command->json_path != NULL && strcmp(command->json_path, "-") == 0;
    return json_to_stdout ? stderr : stdout;
}

static int run_words(const struct fileio_command *command, const struct option_words *words,
                     int argc, char **argv)
{
    struct session session = {.command = command};
    if (words->positional_count != 1) {
        rc_raise(FIRN_E_INVALID, words->positional_count == 0
                                     ? "what is to be done is missing: prepare, run, verify or "
                                       "cleanup"
                                     : "one of prepare, run, verify and cleanup at a time");
        return command_usage("fileio");
    }
    session.out = open_text(command);
    if (session.out == NULL) {
        rc_raise(FIRN_E_IO, "cannot open /dev/null");
        return command_fail("fileio");
    }
    fileio_warn_of_old_forms(argc, argv);
    if (strcmp(words->positional[0], "run") == 0)
        fileio_warn_of_idle_options(command, words);
    int status = carry_out(&session, words->positional[0], argc, argv);
    if (session.out != stdout && session.out != stderr)
        fclose(session.out);
    return status;
}

int command_fileio(int argc, char **argv)
{
    struct fileio_command command;
    struct option_words words = {0};
    char **full = complete_words(argc, argv);
    if (full == NULL) {
        rc_raise(FIRN_E_NOMEM, "no memory for the command line");
        return command_fail("fileio");
    }
    int status = COMMAND_OK;
    if (fileio_parse(argc, full + 1, &command, &words) != FIRN_OK)
        status = command_usage("fileio");
    else if (words.help_wanted ||
             (words.positional_count == 1 && strcmp(words.positional[0], "help") == 0))
        options_help(&fileio_options, stdout);
    else if (command.preset == FILEIO_PRESET_SURVEY)
        status = fileio_run_preset(&command, &words);
    else
        status = run_words(&command, &words, argc + 1, full);
    options_free(&words);
    memory_free(full);
    return status;
}
