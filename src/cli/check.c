#include "base/check.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/environment.h"

#include <errno.h>
#include <string.h>

struct check_options {
    struct environment_options environment;
    uint64_t threads;
    bool offline;
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
    {.name = "offline",
     .type = OPTION_FLAG,
     .offset = FIELD(offline),
     .help = "Only look at the files as they lie there: every page, but no tree. Nothing is "
             "recovered, and nothing is written."},
    {.name = "json",
     .type = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "Print what was found and the figures as JSON."},
    ENVIRONMENT_OPTIONS(FIELD(environment)),
    {0},
};

static const struct option_table table = {
    .usage = "firn check [OPTION...] DIR",
    .intro =
        "Check everything in an environment. First all files as they lie there: labels, log, what "
        "each file says that it is. Then, if it can be opened, every page of every file, every "
        "tree, its order, its links and its large values, and that every page in use is reached "
        "exactly once; if it cannot, every page all the same. A line for each finding; what is "
        "damaged keeps nothing else from being looked at. An environment that was closed is not "
        "changed; one that was not is recovered first, unless damage was found. Nobody else may "
        "have it open.",
    .outro = "Examples:\n"
             "  firn check fruit\n"
             "  firn check --offline /var/lib/firn/big\n"
             "  firn check --json --threads=16 /var/lib/firn/big",
    .options = specs,
};

/** What was found: in text, findings are printed as they come. */
struct findings {
    struct progress progress;
    const char *phase;
    json_t *list; /* NULL: print them */
    uint64_t counts[FINDING_SEVERITIES];
    bool incomplete; /* a finding could not be kept */
};

/** How the check went. */
struct outcome {
    struct store_files_result files;
    struct store_check_result store;
    bool trees_were_walked;
    char why_not[1024]; /* they were not */
};

/* ---- Findings ---- */

static bool set_place(json_t *object, const struct finding *finding)
{
    bool right = true;
    if (finding->file != NULL) {
        /* Names of files may be any bytes, JSON may not. */
        json_t *file = json_string(finding->file);
        right = json_object_set_new(object, "file",
                                    file != NULL ? file : json_string("(not UTF-8)")) == 0;
    }
    if (finding->page != FINDING_NOWHERE)
        right &= json_object_set_new(object, "page", json_integer((json_int_t)finding->page)) == 0;
    if (finding->offset != FINDING_NOWHERE)
        right &=
            json_object_set_new(object, "offset", json_integer((json_int_t)finding->offset)) == 0;
    return right;
}

static void keep_finding(struct findings *findings, const struct finding *finding)
{
    json_t *text = json_string(finding->text);
    json_t *object =
        json_pack("{s:s, s:o}", "severity", finding_severity_name(finding->severity), "text",
                  text != NULL ? text : json_string("(a sentence that is not UTF-8)"));
    bool kept = object != NULL && set_place(object, finding);
    if (json_array_append_new(findings->list, object) != 0 || !kept)
        findings->incomplete = true;
}

static void take_finding(const struct finding *finding, void *context)
{
    struct findings *findings = context;
    findings->counts[finding->severity]++;
    if (findings->list != NULL) {
        keep_finding(findings, finding);
        return;
    }
    progress_wipe(&findings->progress);
    printf("%s: %s\n", finding_severity_name(finding->severity), finding->text);
    fflush(stdout);
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

/* ---- The result ---- */

static bool has_passed(const struct findings *findings)
{
    return findings->counts[FINDING_DAMAGE] == 0;
}

static bool is_complete(const struct findings *findings, const struct outcome *outcome)
{
    return outcome->trees_were_walked && findings->counts[FINDING_UNSEEN] == 0;
}

static uint64_t pages_of(const struct outcome *outcome)
{
    return outcome->trees_were_walked ? outcome->store.pages : outcome->files.pages;
}

static firn_rc print_json(const char *directory, struct findings *findings,
                          const struct outcome *outcome)
{
    const struct store_check_result *store = &outcome->store;
    json_t *why = outcome->trees_were_walked ? json_null() : json_string(outcome->why_not);
    json_t *object = json_pack(
        "{s:s%, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:O}", "directory",
        directory, strlen(directory), "passed", has_passed(findings), "complete",
        is_complete(findings, outcome), "closed", outcome->files.is_clean, "files",
        (json_int_t)outcome->files.files, "tablespaces", (json_int_t)store->spaces, "pages",
        (json_int_t)pages_of(outcome), "trees", (json_int_t)store->trees, "rows",
        (json_int_t)store->rows, "damages", (json_int_t)findings->counts[FINDING_DAMAGE],
        "warnings", (json_int_t)findings->counts[FINDING_WARNING], "pages_mended",
        (json_int_t)outcome->files.pages_mended, "trees_not_walked",
        why != NULL ? why : json_string("(a sentence that is not UTF-8)"), "findings",
        findings->list);
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

static void print_count(const char *lead, uint64_t count, const char *what)
{
    printf("%s%llu %s%s", lead, (unsigned long long)count, what, plural(count));
}

static void print_text(const struct findings *findings, const struct outcome *outcome)
{
    if (outcome->files.pages_mended != 0) {
        print_count("", outcome->files.pages_mended, "torn page");
        puts(" that recovery puts right");
    }
    if (!outcome->trees_were_walked)
        printf("not looked at: the trees and which pages they reach, because %s\n",
               outcome->why_not);
    if (outcome->trees_were_walked) {
        print_count("", outcome->store.spaces, "tablespace");
        print_count(", ", outcome->store.pages, "page");
        print_count(", ", outcome->store.trees, "tree");
        print_count(", ", outcome->store.rows, "row");
    } else {
        print_count("", outcome->files.files, "file");
        print_count(", ", outcome->files.pages, "page");
    }
    if (!has_passed(findings))
        print_count(": ", findings->counts[FINDING_DAMAGE], "damage");
    else
        fputs(is_complete(findings, outcome) ? ": everything is right"
                                             : ": nothing wrong in what was looked at",
              stdout);
    if (findings->counts[FINDING_WARNING] != 0)
        print_count(", ", findings->counts[FINDING_WARNING], "warning");
    putchar('\n');
}

/* ---- Checking ---- */

/* With damage in sight nothing is recovered: that would write to what somebody may want to save
   first. */
static bool may_open(const struct check_options *options, const struct findings *findings,
                     struct outcome *outcome)
{
    const char *why = NULL;
    if (options->offline)
        why = "--offline was given";
    else if (!outcome->files.is_clean && findings->counts[FINDING_DAMAGE] != 0)
        why = "the environment was not closed, and is not recovered while there is damage";
    if (why != NULL)
        snprintf(outcome->why_not, sizeof(outcome->why_not), "%s", why);
    return why == NULL;
}

/* Why it cannot be opened is a damage of its own if nothing was found that would be the reason. */
static firn_rc take_refusal(firn_rc rc, struct findings *findings, struct outcome *outcome)
{
    bool is_damage = rc == FIRN_E_CORRUPT || rc == FIRN_E_NOT_FOUND || rc == FIRN_E_UNSUPPORTED;
    struct finding finding = {
        .severity = is_damage ? FINDING_DAMAGE : FINDING_UNSEEN,
        .page = FINDING_NOWHERE,
        .offset = FINDING_NOWHERE,
        .text = outcome->why_not,
    };
    if (rc == FIRN_E_INVALID)
        return rc; /* an option, not the files */
    snprintf(outcome->why_not, sizeof(outcome->why_not), "the environment cannot be opened: %s",
             firn_error_text());
    if (findings->counts[FINDING_DAMAGE] == 0)
        take_finding(&finding, findings);
    return FIRN_OK;
}

static firn_rc walk_store(const struct check_options *options, struct environment *environment,
                          struct findings *findings, struct outcome *outcome)
{
    environment->options.read_only = outcome->files.is_clean;
    firn_rc rc = environment_open_prepared(environment);
    if (rc != FIRN_OK)
        return take_refusal(rc, findings, outcome);
    rc = store_check(environment->store, (unsigned)options->threads, take_finding, findings,
                     take_progress, &outcome->store);
    outcome->trees_were_walked = rc == FIRN_OK || rc == FIRN_E_CORRUPT;
    return rc == FIRN_E_CORRUPT ? FIRN_OK : rc;
}

static firn_rc check_all(const struct check_options *options, struct environment *environment,
                         struct findings *findings, struct outcome *outcome)
{
    unsigned threads = (unsigned)options->threads;
    FIRN_TRY(store_check_files(&environment->options, STORE_FILES_HEADS, threads, take_finding,
                               findings, take_progress, &outcome->files));
    if (may_open(options, findings, outcome))
        FIRN_TRY(walk_store(options, environment, findings, outcome));
    if (outcome->trees_were_walked)
        return FIRN_OK;
    struct store_files_result pages;
    FIRN_TRY(store_check_files(&environment->options, STORE_FILES_PAGES, threads, take_finding,
                               findings, take_progress, &pages));
    outcome->files = pages;
    return FIRN_OK;
}

static firn_rc print_outcome(const struct check_options *options, const char *directory,
                             struct findings *findings, const struct outcome *outcome)
{
    progress_end(&findings->progress);
    if (options->json)
        FIRN_TRY(print_json(directory, findings, outcome));
    else
        print_text(findings, outcome);
    if (fflush(stdout) != 0 || ferror(stdout))
        return rc_raise_errno(errno, "cannot write to standard output");
    return FIRN_OK;
}

/* Findings are a result, and are printed; other failures ended the check. */
static int judge(const struct check_options *options, const char *directory,
                 const struct findings *findings, const struct outcome *outcome)
{
    unsigned long long damages = findings->counts[FINDING_DAMAGE];
    if (damages != 0)
        rc_raise(FIRN_E_CORRUPT, "the environment in %s has %llu problem%s", directory, damages,
                 plural(damages));
    else if (findings->counts[FINDING_UNSEEN] != 0 ||
             (!outcome->trees_were_walked && !options->offline))
        rc_raise(FIRN_E_CORRUPT, "not all of the environment in %s was looked at%s%s", directory,
                 outcome->trees_were_walked ? "" : ": ", outcome->why_not);
    else
        return COMMAND_OK;
    command_fail("check");
    return damages != 0 ? COMMAND_FAILED : COMMAND_UNSEEN;
}

static int run(void *context, const struct option_words *words)
{
    const struct check_options *options = context;
    struct environment environment;
    struct findings findings = {.list = NULL};
    struct outcome outcome = {.trees_were_walked = false};
    const char *directory = words->positional[0];
    if (environment_prepare(&options->environment, &table, words, directory, &environment) !=
        FIRN_OK)
        return command_fail("check");
    firn_rc rc = FIRN_OK;
    if (options->json && (findings.list = json_array()) == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "no memory for the check");
    if (rc == FIRN_OK)
        rc = check_all(options, &environment, &findings, &outcome);
    if (rc == FIRN_OK)
        rc = print_outcome(options, directory, &findings, &outcome);
    int status =
        rc == FIRN_OK ? judge(options, directory, &findings, &outcome) : command_fail("check");
    json_decref(findings.list);
    if (environment_close(&environment) != FIRN_OK)
        status = command_fail("check");
    return status;
}

static firn_rc check_words(void *context, const struct option_words *words)
{
    const struct check_options *options = context;
    FIRN_TRY(environment_check_directory(words));
    return environment_check_devices(options->environment.device);
}

int command_check(int argc, char **argv)
{
    static const struct environment_command command = {"check", &table, check_words, run};
    struct check_options options;
    return environment_command(&command, &options, argc, argv);
}
