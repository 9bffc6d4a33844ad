#include "base/check.h"
#include "base/memory.h"
#include "base/near.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/kv_internal.h"

#include <errno.h>
#include <string.h>

/* ---- Options ---- */

#define FIELD(member) offsetof(struct kv_options, member)

static const struct option_spec specs[] = {
    {.type = OPTION_SECTION, .help = "Every action"},
    {.name = "tree",
     .type = OPTION_TEXT,
     .offset = FIELD(tree),
     .default_text = "main",
     .value_name = "NAME",
     .help = "Which tree; load makes it if there is none."},
    {.type = OPTION_SECTION, .help = "load"},
    {.name = "shared",
     .type = OPTION_FLAG,
     .offset = FIELD(shared),
     .help = "Make a new tree in the system tablespace instead of a file of its own."},
    {.name = "bulk",
     .type = OPTION_FLAG,
     .offset = FIELD(bulk),
     .help = "Build an empty tree from its leaves up, all in one commit. Keys must ascend by their "
             "bytes."},
    {.name = "fill-factor",
     .type = OPTION_COUNT,
     .offset = FIELD(fill_factor),
     .default_text = "100",
     .value_name = "N",
     .min = 50,
     .max = 100,
     .help = "With --bulk: how full pages become, in percent."},
    {.name = "threads",
     .type = OPTION_COUNT,
     .offset = FIELD(threads),
     .default_text = "1",
     .value_name = "N",
     .min = 1,
     .max = 1024,
     .help = "Threads that insert. Lines of one key stay in order."},
    {.type = OPTION_SECTION, .help = "load and delete"},
    {.name = "commit-every",
     .type = OPTION_COUNT,
     .offset = FIELD(commit_every),
     .default_text = "1000",
     .value_name = "N",
     .min = 1,
     .max = 1e9,
     .help = "Rows between commits of a thread; each row is atomic by itself."},
    {.name = "ack",
     .type = OPTION_FLAG,
     .offset = FIELD(ack),
     .help = "Print each key once it is committed; the summary then goes to standard error."},
    {.name = "json",
     .type = OPTION_FLAG,
     .offset = FIELD(json),
     .help = "Print the summary as JSON."},
    {.type = OPTION_SECTION, .help = "scan"},
    {.name = "from",
     .type = OPTION_TEXT,
     .offset = FIELD(from),
     .value_name = "KEY",
     .help = "Keys at or above it."},
    {.name = "to",
     .type = OPTION_TEXT,
     .offset = FIELD(to),
     .value_name = "KEY",
     .help = "Keys below it."},
    {.name = "prefix",
     .type = OPTION_TEXT,
     .offset = FIELD(prefix),
     .value_name = "KEY",
     .help = "Keys that begin with it."},
    {.name = "reverse", .type = OPTION_FLAG, .offset = FIELD(reverse), .help = "Largest first."},
    {.name = "limit",
     .type = OPTION_COUNT,
     .offset = FIELD(limit),
     .default_text = "0",
     .value_name = "N",
     .help = "So many rows at most; 0: all."},
    {.name = "count",
     .type = OPTION_FLAG,
     .offset = FIELD(count),
     .help = "Print how many rows there are, not the rows."},
    {.type = OPTION_SECTION, .help = "get"},
    {.name = "raw",
     .type = OPTION_FLAG,
     .offset = FIELD(raw),
     .help = "Print values only, byte for byte, nothing between."},
    ENVIRONMENT_OPTIONS(FIELD(environment)),
    {0},
};

static const struct option_table table = {
    .usage = "firn kv [OPTION...] DIR load|get [KEY...]|scan|delete [KEY...]|drop",
    .intro = "Keys and values in a directory, an environment of trees: \"load\" puts lines of key, "
             "TAB, value from standard input, \"get\" prints keys with their values, \"scan\" "
             "prints all in order or a range, \"delete\" removes keys, \"drop\" a whole tree. "
             "Without KEYs, get and delete read them from standard input, one a line. In lines and "
             "on the command line \\t, \\n, \\r, \\0, \\\\ and \\xHH stand for a TAB, a line feed, "
             "a carriage return, a zero byte, a backslash and any byte.",
    .outro = "Examples:\n"
             "  printf 'apple\\tred\\nplum\\tblue\\n' | firn kv fruit load\n"
             "  firn kv fruit get apple\n"
             "  firn kv fruit scan --from=b --limit=10\n"
             "  firn kv big load --bulk --buffer-pool-size=1G --redo-dir=/fast < sorted.tsv",
    .options = specs,
};

/* ---- Actions ---- */

enum kv_action_kind { KV_LOAD = 1, KV_GET = 2, KV_SCAN = 4, KV_DELETE = 8, KV_DROP = 16 };

struct kv_action {
    const char *name;
    enum kv_action_kind kind;
    bool takes_keys;
    firn_rc (*run)(const struct kv_run *run);
};

static const struct kv_action actions[] = {
    {"load", KV_LOAD, false, kv_load}, {"get", KV_GET, true, kv_get},
    {"scan", KV_SCAN, false, kv_scan}, {"delete", KV_DELETE, true, kv_delete},
    {"drop", KV_DROP, false, kv_drop},
};

static firn_rc find_action(const char *word, const struct kv_action **action)
{
    const char *names[ARRAY_COUNT(actions)];
    char near[NEAR_TEXT_BYTES];
    for (size_t i = 0; i < ARRAY_COUNT(actions); i++) {
        names[i] = actions[i].name;
        if (strcmp(word, names[i]) == 0) {
            *action = &actions[i];
            return FIRN_OK;
        }
    }
    return rc_raise(FIRN_E_INVALID, "there is no \"firn kv DIR %s\"%s", word,
                    near_text(word, names, ARRAY_COUNT(names), "", near));
}

/* An option that means nothing to the action is a misunderstanding. */
static firn_rc check_option_uses(const struct kv_action *action, const struct option_words *words)
{
    static const struct {
        const char *name;
        unsigned actions;
        const char *where;
    } uses[] = {
        {"shared", KV_LOAD, "load"},
        {"bulk", KV_LOAD, "load"},
        {"fill-factor", KV_LOAD, "load"},
        {"threads", KV_LOAD, "load"},
        {"commit-every", KV_LOAD | KV_DELETE, "load and delete"},
        {"ack", KV_LOAD | KV_DELETE, "load and delete"},
        {"json", KV_LOAD | KV_DELETE, "load and delete"},
        {"from", KV_SCAN, "scan"},
        {"to", KV_SCAN, "scan"},
        {"prefix", KV_SCAN, "scan"},
        {"reverse", KV_SCAN, "scan"},
        {"limit", KV_SCAN, "scan"},
        {"count", KV_SCAN, "scan"},
        {"raw", KV_GET, "get"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(uses); i++)
        if (!(uses[i].actions & action->kind) && options_given(&table, words, uses[i].name))
            return rc_raise(FIRN_E_INVALID, "--%s is for %s, not for %s", uses[i].name,
                            uses[i].where, action->name);
    return FIRN_OK;
}

static firn_rc check_combinations(const struct kv_action *action, const struct kv_options *options,
                                  const struct option_words *words)
{
    static const char *const not_bulk[] = {"threads", "commit-every", "ack"};
    for (size_t i = 0; options->bulk && i < ARRAY_COUNT(not_bulk); i++)
        if (options_given(&table, words, not_bulk[i]))
            return rc_raise(FIRN_E_INVALID,
                            "--bulk builds in one thread and commits once, so --%s has no meaning "
                            "with it",
                            not_bulk[i]);
    if (!options->bulk && options_given(&table, words, "fill-factor"))
        return rc_raise(FIRN_E_INVALID, "--fill-factor needs --bulk");
    if (action->kind == KV_DROP && !options_given(&table, words, "tree"))
        return rc_raise(FIRN_E_INVALID, "drop which tree? Name it with --tree");
    return environment_check_devices(options->environment.device);
}

static firn_rc check_words(void *context, const struct option_words *words)
{
    struct kv_options *options = context;
    if (words->positional_count < 2)
        return rc_raise(
            FIRN_E_INVALID,
            "which directory, and what shall be done: load, get, scan, delete or drop?");
    FIRN_TRY(find_action(words->positional[1], &options->action));
    if (!options->action->takes_keys && words->positional_count > 2)
        return rc_raise(FIRN_E_INVALID, "\"%s\" is one word too many", words->positional[2]);
    FIRN_TRY(check_option_uses(options->action, words));
    return check_combinations(options->action, options, words);
}

/* ---- Output ---- */

firn_rc kv_end_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return rc_raise_errno(errno, "cannot write to standard output");
    return FIRN_OK;
}

void kv_summary_start(const struct kv_run *run, struct kv_summary *summary)
{
    struct store_status status;
    store_status(run->store, &status);
    *summary = (struct kv_summary){
        .start_ns = clock_now(clock_real()),
        .start_syncs = status.redo.syncs,
        .start_log_bytes = status.redo.bytes,
    };
}

static firn_rc print_summary_json(FILE *out, const struct kv_summary *summary, double seconds,
                                  const struct store_status *status)
{
    json_t *object = json_pack("{s:I, s:f, s:f, s:I, s:I, s:I}", "rows", (json_int_t)summary->rows,
                               "seconds", seconds, "rows_per_s", (double)summary->rows / seconds,
                               "commits", (json_int_t)summary->commits, "log_syncs",
                               (json_int_t)(status->redo.syncs - summary->start_syncs), "log_bytes",
                               (json_int_t)(status->redo.bytes - summary->start_log_bytes));
    bool printed =
        object != NULL && json_dumpf(object, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    json_decref(object);
    if (!printed)
        return rc_raise(FIRN_E_NOMEM, "cannot print the summary");
    fputc('\n', out);
    return FIRN_OK;
}

firn_rc kv_summary_print(const struct kv_run *run, const struct kv_summary *summary,
                         const char *done)
{
    char rate[UNITS_TEXT_BYTES];
    struct store_status status;
    FILE *out = run->options->ack ? stderr : stdout;
    double seconds = (double)(clock_now(clock_real()) - summary->start_ns + 1) / (double)NS_PER_S;
    store_status(run->store, &status);
    if (run->options->json)
        return print_summary_json(out, summary, seconds, &status);
    fprintf(out, "%llu rows %s in %.3f s: %s rows/s, %llu commits, %llu log syncs\n",
            (unsigned long long)summary->rows, done, seconds,
            units_format_count((double)summary->rows / seconds, rate),
            (unsigned long long)summary->commits,
            (unsigned long long)(status.redo.syncs - summary->start_syncs));
    return FIRN_OK;
}

firn_rc kv_acks_add(struct kv_acks *acks, struct span key)
{
    size_t need = acks->size_bytes + kv_format_bound(key.size_bytes) + 1;
    if (need > acks->capacity) {
        uint8_t *text = memory_realloc(acks->text, 2 * need);
        if (text == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for the keys to be acknowledged");
        acks->text = text;
        acks->capacity = 2 * need;
    }
    acks->size_bytes += kv_format(key, acks->text + acks->size_bytes);
    acks->text[acks->size_bytes++] = '\n';
    return FIRN_OK;
}

firn_rc kv_acks_print(struct kv_acks *acks)
{
    if (acks->size_bytes == 0)
        return FIRN_OK;
    fwrite(acks->text, 1, acks->size_bytes, stdout);
    acks->size_bytes = 0;
    return kv_end_output();
}

void kv_acks_free(struct kv_acks *acks)
{
    memory_free(acks->text);
    *acks = (struct kv_acks){0};
}

firn_rc kv_raise_interrupted(const char *done, uint64_t rows)
{
    return rc_raise(FIRN_E_STOPPED, "interrupted after %llu rows were %s", (unsigned long long)rows,
                    done);
}

/* ---- The command ---- */

/* What went wrong is said before closing, which may take a while and fail as well. */
static int run(void *context, const struct option_words *words)
{
    const struct kv_options *options = context;
    struct environment environment;
    const atomic_bool *stop = interrupt_watch();
    bool create = options->action->kind == KV_LOAD;
    if (environment_open(&options->environment, &table, words, words->positional[0], create,
                         &environment) != FIRN_OK)
        return command_fail("kv");
    struct kv_run work = {
        .options = options,
        .store = environment.store,
        .keys = words->positional + 2,
        .key_count = words->positional_count - 2,
        .stop = stop,
    };
    int status = COMMAND_OK;
    firn_rc rc = options->action->run(&work);
    firn_rc output_rc = rc == FIRN_OK ? kv_end_output() : FIRN_OK;
    if (rc != FIRN_OK || output_rc != FIRN_OK)
        status = command_fail("kv");
    if (environment_close(&environment) != FIRN_OK)
        status = command_fail("kv");
    return status;
}

int command_kv(int argc, char **argv)
{
    static const struct environment_command command = {"kv", &table, check_words, run};
    struct kv_options options;
    return environment_command(&command, &options, argc, argv);
}
