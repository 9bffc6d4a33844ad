#include "base/check.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/stat_internal.h"

#include <errno.h>

struct stat_options {
    struct environment_options environment;
    bool quick;
    uint64_t threads;
    bool json;
};

#define FIELD(member) offsetof(struct stat_options, member)

static const struct option_spec specs[] = {
    {.type = OPTION_SECTION, .help = "Figures"},
    {.name = "quick",
     .type = OPTION_FLAG,
     .offset = FIELD(quick),
     .help = "Do not walk the trees: their rows, fill and fragmentation are left out."},
    {.name = "threads",
     .type = OPTION_COUNT,
     .offset = FIELD(threads),
     .default_text = "4",
     .value_name = "N",
     .min = 1,
     .max = 64,
     .help = "Threads that walk a tree."},
    {.name = "json", .type = OPTION_FLAG, .offset = FIELD(json), .help = "Print JSON."},
    ENVIRONMENT_OPTIONS(FIELD(environment)),
    {0},
};

static const struct option_table table = {
    .usage = "firn stat [OPTION...] DIR",
    .intro = "Tell what is in an environment: tablespaces and their files; trees with their rows, "
             "pages, fill and fragmentation; the buffer pool's counters since it was opened for "
             "this; the log's capacity, checkpoint and age. An environment that was not closed is "
             "recovered first. Nobody else may have it open.",
    .outro = "Examples:\n"
             "  firn stat fruit\n"
             "  firn stat --quick --json /var/lib/firn/big",
    .options = specs,
};

/* ---- Gathering ---- */

static firn_rc raise_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory for the figures");
}

/* Make room for one more element. */
static firn_rc grow(void **array, size_t count, size_t *capacity, size_t element_bytes)
{
    if (count < *capacity)
        return FIRN_OK;
    size_t wanted = *capacity == 0 ? 16 : 2 * *capacity;
    void *grown = memory_realloc(*array, wanted * element_bytes);
    if (grown == NULL)
        return raise_memory();
    *array = grown;
    *capacity = wanted;
    return FIRN_OK;
}

static firn_rc take_space(const struct space_info *info, void *context)
{
    struct stat_report *report = context;
    void *array = report->spaces;
    firn_rc rc =
        grow(&array, report->space_count, &report->space_capacity, sizeof(*report->spaces));
    report->spaces = array;
    FIRN_TRY(rc);
    struct stat_space *space = &report->spaces[report->space_count++];
    *space = (struct stat_space){
        .name = memory_copy_text(info->name),
        .path = memory_copy_text(info->path),
        .class = info->class,
        .space = info->space,
        .pages = info->pages,
        .pages_used = info->pages_used,
    };
    return space->name != NULL && space->path != NULL ? FIRN_OK : raise_memory();
}

/** What a walk over the trees needs. */
struct walk {
    struct stat_report *report;
    const struct stat_options *options;
};

static void ignore_problem(const struct finding *finding, void *context)
{
    (void)finding;
    (void)context;
}

static firn_rc take_tree(const struct store_tree_info *info, struct btree *tree, void *context)
{
    struct walk *walk = context;
    struct stat_report *report = walk->report;
    void *array = report->trees;
    firn_rc rc = grow(&array, report->tree_count, &report->tree_capacity, sizeof(*report->trees));
    report->trees = array;
    FIRN_TRY(rc);
    struct stat_tree *entry = &report->trees[report->tree_count++];
    *entry = (struct stat_tree){
        .name = memory_copy_text(info->name),
        .shared = info->shared,
        .guest = info->guest,
        .walked = !walk->options->quick,
    };
    if (entry->name == NULL)
        return raise_memory();
    if (walk->options->quick)
        return FIRN_OK;
    struct btree_check_options check = {.threads = (unsigned)walk->options->threads,
                                        .report = ignore_problem};
    rc = btree_check(tree, &check, &entry->shape);
    entry->damaged = rc == FIRN_E_CORRUPT;
    return entry->damaged ? FIRN_OK : rc;
}

static firn_rc gather(const struct stat_options *options, struct store *store,
                      struct stat_report *report)
{
    struct walk walk = {.report = report, .options = options};
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        report->class_directories[class] = store_class_directory(store, class);
        report->devices[class] = io_system_describe(store_class_system(store, class));
    }
    report->log_file_size_bytes = redo_file_size_bytes(store_redo(store));
    report->log_files = redo_file_count(store_redo(store));
    FIRN_TRY(space_each(store_spaces(store), take_space, report));
    FIRN_TRY(store_each_tree(store, take_tree, &walk));
    store_status(store, &report->status);
    return FIRN_OK;
}

static void free_report(struct stat_report *report)
{
    for (size_t i = 0; i < report->space_count; i++) {
        memory_free(report->spaces[i].name);
        memory_free(report->spaces[i].path);
    }
    for (size_t i = 0; i < report->tree_count; i++)
        memory_free(report->trees[i].name);
    memory_free(report->spaces);
    memory_free(report->trees);
}

/* ---- The command ---- */

static firn_rc print_json(const struct stat_report *report)
{
    json_t *object = stat_json(report);
    bool printed =
        object != NULL && json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    json_decref(object);
    if (!printed)
        return rc_raise(FIRN_E_NOMEM, "cannot print the figures");
    putchar('\n');
    return FIRN_OK;
}

static firn_rc judge_trees(const struct stat_report *report)
{
    for (size_t i = 0; i < report->tree_count; i++)
        if (report->trees[i].damaged)
            return rc_raise(FIRN_E_CORRUPT, "tree %s is damaged; 'firn check %s' tells where",
                            report->trees[i].name, report->directory);
    return FIRN_OK;
}

static firn_rc show(const struct stat_options *options, struct store *store, const char *directory)
{
    struct stat_report report = {.directory = directory};
    firn_rc rc = gather(options, store, &report);
    if (rc == FIRN_OK && options->json)
        rc = print_json(&report);
    else if (rc == FIRN_OK)
        stat_print(&report);
    if (rc == FIRN_OK && (fflush(stdout) != 0 || ferror(stdout)))
        rc = rc_raise_errno(errno, "cannot write to standard output");
    if (rc == FIRN_OK)
        rc = judge_trees(&report);
    free_report(&report);
    return rc;
}

static int run(void *context, const struct option_words *words)
{
    const struct stat_options *options = context;
    struct environment environment;
    const char *directory = words->positional[0];
    int status = COMMAND_OK;
    if (environment_open(&options->environment, &table, words, directory, false, &environment) !=
        FIRN_OK)
        return command_fail("stat");
    if (show(options, environment.store, directory) != FIRN_OK)
        status = command_fail("stat");
    if (environment_close(&environment) != FIRN_OK)
        status = command_fail("stat");
    return status;
}

static firn_rc check_words(void *context, const struct option_words *words)
{
    const struct stat_options *options = context;
    FIRN_TRY(environment_check_directory(words));
    if (options->quick && options_given(&table, words, "threads"))
        return rc_raise(FIRN_E_INVALID, "--threads has no meaning with --quick");
    return environment_check_devices(options->environment.device);
}

int command_stat(int argc, char **argv)
{
    static const struct environment_command command = {"stat", &table, check_words, run};
    struct stat_options options;
    return environment_command(&command, &options, argc, argv);
}
