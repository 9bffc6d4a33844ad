#include "base/check.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/environment.h"

#include <errno.h>
#include <string.h>

struct check_options {
    struct environment_options environment;
    uint64_t threads;
    bool json;
};

#define FIELD(member) offsetof(struct check_options, member)

static const struct option_spec specs[] = {
    {.type = OPTION_SECTION, .help = "Checking"},
    {.name = "threads",
     .type = OPTION_COUNT,
     .offset = FIELD(threads),
     .default_text = "4",
     .value_name = "N",
     .min = 1,
     .max = 64,
     .help = "Threads that read and judge."},
    {.name = "json",
     .type = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "Print the problems and the figures as JSON."},
    ENVIRONMENT_OPTIONS(FIELD(environment)),
    {0},
};

static const struct option_table table = {
    .usage = "firn check [OPTION...] DIR",
    .intro =
        "Check everything in an environment: every page of every file is read and its checksum "
        "and identity are judged; every tree is walked, its order, its links and its large values; "
        "and every page that is in use must be reached exactly once. Prints a sentence for each "
        "problem. An environment that was not closed is recovered first. Nobody else may have it "
        "open.",
    .outro = "Examples:\n"
             "  firn check fruit\n"
             "  firn check --json --threads=16 /var/lib/firn/big",
    .options = specs,
};

/** What was found: in text, problems are printed as they come. */
struct findings {
    struct progress progress;
    const char *phase;
    json_t *problems; /* NULL: print them */
    bool incomplete;  /* a problem could not be kept */
};

static void take_problem(const char *problem, void *context)
{
    struct findings *findings = context;
    if (findings->problems == NULL) {
        progress_wipe(&findings->progress);
        puts(problem);
        fflush(stdout);
        return;
    }
    /* Names of files may be any bytes, JSON may not. */
    json_t *text = json_string(problem);
    if (text == NULL)
        text = json_string("(a problem whose text is not UTF-8)");
    if (json_array_append_new(findings->problems, text) != 0)
        findings->incomplete = true;
}

static void take_progress(const struct recovery_progress *progress, void *context)
{
    struct findings *findings = context;
    if (findings->phase != progress->phase) {
        progress_end(&findings->progress);
        progress_start(&findings->progress, progress->phase, PROGRESS_BYTES,
                       (double)progress->total_bytes);
        findings->phase = progress->phase;
    }
    progress_update(&findings->progress, (double)progress->done_bytes);
}

static firn_rc print_json(const char *directory, struct findings *findings,
                          const struct store_check_result *result)
{
    json_t *object =
        json_pack("{s:s%, s:b, s:I, s:I, s:I, s:I, s:O}", "directory", directory, strlen(directory),
                  "passed", result->problems == 0, "tablespaces", (json_int_t)result->spaces,
                  "pages", (json_int_t)result->pages, "trees", (json_int_t)result->trees, "rows",
                  (json_int_t)result->rows, "problems", findings->problems);
    bool printed =
        object != NULL && !findings->incomplete && json_dumpf(object, stdout, JSON_INDENT(2)) == 0;
    json_decref(object);
    if (!printed)
        return rc_raise(FIRN_E_NOMEM, "cannot print what was found");
    putchar('\n');
    return FIRN_OK;
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void print_text(const struct store_check_result *result)
{
    printf("%llu tablespace%s, %llu page%s, %llu tree%s, %llu row%s: ",
           (unsigned long long)result->spaces, plural(result->spaces),
           (unsigned long long)result->pages, plural(result->pages),
           (unsigned long long)result->trees, plural(result->trees),
           (unsigned long long)result->rows, plural(result->rows));
    if (result->problems == 0)
        puts("everything is right");
    else
        printf("%llu problem%s\n", (unsigned long long)result->problems, plural(result->problems));
}

/* Problems are a result, and are printed; other failures ended the check. */
static firn_rc check_store(const struct check_options *options, struct store *store,
                           const char *directory, struct findings *findings)
{
    struct store_check_result result;
    firn_rc rc = store_check(store, (unsigned)options->threads, take_problem, findings,
                             take_progress, &result);
    progress_end(&findings->progress);
    if (rc != FIRN_OK && (rc != FIRN_E_CORRUPT || result.problems == 0))
        return rc;
    if (options->json)
        FIRN_TRY(print_json(directory, findings, &result));
    else
        print_text(&result);
    if (fflush(stdout) != 0 || ferror(stdout))
        return rc_raise_errno(errno, "cannot write to standard output");
    return rc;
}

static int run(const struct check_options *options, const struct option_words *words)
{
    struct environment environment;
    struct findings findings = {.problems = NULL};
    const char *directory = words->positional[0];
    int status = COMMAND_OK;
    if (environment_open(&options->environment, &table, words, directory, false, &environment) !=
        FIRN_OK)
        return command_fail("check");
    firn_rc rc = FIRN_OK;
    if (options->json && (findings.problems = json_array()) == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "no memory for the check");
    if (rc == FIRN_OK)
        rc = check_store(options, environment.store, directory, &findings);
    json_decref(findings.problems);
    if (rc != FIRN_OK)
        status = command_fail("check");
    if (environment_close(&environment) != FIRN_OK)
        status = command_fail("check");
    return status;
}

static firn_rc check_words(const struct check_options *options, const struct option_words *words)
{
    FIRN_TRY(environment_check_directory(words));
    return environment_check_devices(options->environment.device);
}

int command_check(int argc, char **argv)
{
    struct check_options options;
    struct option_words words;
    options_defaults(&table, &options);
    environment_accept_old_names(&table, argc, argv);
    if (options_parse(&table, argc, argv, &options, &words) != FIRN_OK)
        return command_usage("check");
    int status = COMMAND_OK;
    if (words.help_wanted)
        options_help(&table, stdout);
    else if (check_words(&options, &words) != FIRN_OK)
        status = command_usage("check");
    else
        status = run(&options, &words);
    options_free(&words);
    return status;
}
