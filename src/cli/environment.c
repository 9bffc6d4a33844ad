#include "cli/environment.h"

#include "base/check.h"
#include "base/log.h"
#include "base/near.h"
#include "cli/command.h"
#include "io/model.h"

#include <string.h>

enum { DEVICE_ITEM_BYTES = 160 };

const char *const environment_doublewrite_words[] = {"on", "off", "detect", NULL};
const char *const environment_flush_method_words[] = {"O_DIRECT", "fsync", NULL};
const char *const environment_backend_words[] = {"auto", "io_uring", "libaio", "threads", NULL};

/* ---- Names ---- */

static bool is_known(const struct option_table *table, const char *name, size_t length)
{
    for (const struct option_spec *spec = table->options; spec->name != NULL || spec->help != NULL;
         spec++)
        if (spec->type != OPTION_SECTION && strlen(spec->name) == length &&
            strncmp(spec->name, name, length) == 0)
            return true;
    return false;
}

static void accept_old_name(const struct option_table *table, char *word)
{
    static const char prefix[] = "innodb-";
    char name[64];
    size_t length = strcspn(word, "=");
    if (length >= sizeof(name))
        return;
    for (size_t i = 0; i < length; i++)
        name[i] = word[i] == '_' ? '-' : word[i];
    bool prefixed = length > sizeof(prefix) && strncmp(name, prefix, sizeof(prefix) - 1) == 0;
    size_t skip = prefixed ? sizeof(prefix) - 1 : 0;
    if (!is_known(table, name + skip, length - skip))
        return;
    memcpy(word, name + skip, length - skip);
    memmove(word + length - skip, word + length, strlen(word + length) + 1);
}

void environment_accept_old_names(const struct option_table *table, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strncmp(argv[i], "--", 2) == 0)
            accept_old_name(table, argv[i] + 2);
}

int environment_command(const struct environment_command *command, void *options, int argc,
                        char **argv)
{
    struct option_words words;
    options_defaults(command->table, options);
    environment_accept_old_names(command->table, argc, argv);
    if (options_parse(command->table, argc, argv, options, &words) != FIRN_OK)
        return command_usage(command->name);
    int status = COMMAND_OK;
    if (words.help_wanted)
        options_help(command->table, stdout);
    else if (command->check(options, &words) != FIRN_OK)
        status = command_usage(command->name);
    else
        status = command->run(options, &words);
    options_free(&words);
    return status;
}

/* ---- Devices ---- */

/* One item of the list: which classes, and the model they lie on. */
struct device_item {
    unsigned classes;
    struct model_spec spec;
};

static bool find_class(const char *word, unsigned *classes)
{
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        if (strcmp(io_class_name(class), word) == 0) {
            *classes |= 1U << class;
            return true;
        }
    return false;
}

static firn_rc raise_class(const char *word)
{
    const char *names[IO_CLASS_COUNT];
    char near[NEAR_TEXT_BYTES];
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        names[class] = io_class_name(class);
    return rc_raise(FIRN_E_INVALID,
                    "--device: there is no class of files \"%s\"%s; there are table, undo, system, "
                    "doublewrite, redo, binlog and temporary",
                    word, near_text(word, names, IO_CLASS_COUNT, "", near));
}

/* "CLASS+CLASS=MODEL" or "MODEL". A model's own text has "=" only behind "+". */
static firn_rc parse_item(char *text, struct device_item *item)
{
    size_t length = strcspn(text, "=");
    size_t first = strcspn(text, "+=");
    char *model = text;
    char saved = text[first];
    *item = (struct device_item){.classes = 0};
    text[first] = '\0';
    bool has_classes = saved == '=' || (saved == '+' && find_class(text, &item->classes));
    text[first] = saved;
    if (has_classes) {
        model = text + length + (text[length] == '=');
        text[length] = '\0';
        char *rest = NULL;
        for (char *word = strtok_r(text, "+", &rest); word != NULL;
             word = strtok_r(NULL, "+", &rest))
            if (!find_class(word, &item->classes))
                return raise_class(word);
    }
    if (item->classes == 0)
        item->classes = (1U << IO_CLASS_COUNT) - 1;
    return model_find(model, &item->spec);
}

/* Call for each item of the list; a class may stand in one only. */
typedef firn_rc device_function(const struct device_item *item, void *context);

static firn_rc each_device(const char *list, device_function *function, void *context)
{
    unsigned seen = 0;
    while (list != NULL && *list != '\0') {
        char text[DEVICE_ITEM_BYTES];
        struct device_item item;
        size_t length = strcspn(list, ",");
        if (length >= sizeof(text))
            return rc_raise(FIRN_E_INVALID, "--device: \"%s\" is too long", list);
        snprintf(text, sizeof(text), "%.*s", (int)length, list);
        FIRN_TRY(parse_item(text, &item));
        if (seen & item.classes)
            return rc_raise(FIRN_E_INVALID, "--device: the class %s has two devices",
                            io_class_name((enum io_class)__builtin_ctz(seen & item.classes)));
        seen |= item.classes;
        FIRN_TRY(function(&item, context));
        list += length + (list[length] == ',');
    }
    return FIRN_OK;
}

static firn_rc accept_device(const struct device_item *item, void *context)
{
    (void)item;
    (void)context;
    return FIRN_OK;
}

firn_rc environment_check_directory(const struct option_words *words)
{
    if (words->positional_count == 0)
        return rc_raise(FIRN_E_INVALID, "which directory?");
    if (words->positional_count > 1)
        return rc_raise(FIRN_E_INVALID, "one directory at a time; \"%s\" is a second one",
                        words->positional[1]);
    return FIRN_OK;
}

firn_rc environment_check_devices(const char *text)
{
    return each_device(text, accept_device, NULL);
}

/* ---- Opening ---- */

static firn_rc open_device(const struct device_item *item, void *context)
{
    struct environment *environment = context;
    struct io_system *system = NULL;
    FIRN_TRY(io_system_open(environment->options.io_backend, clock_real(), &system));
    environment->systems[environment->system_count++] = system;
    FIRN_TRY(model_attach(system, &item->spec));
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        if (item->classes & 1U << class)
            environment->options.class_systems[class] = system;
    return FIRN_OK;
}

static void show_progress(const struct recovery_progress *progress, void *context)
{
    struct environment *environment = context;
    if (environment->progress_phase == NULL)
        progress_start(&environment->progress, progress->phase, PROGRESS_BYTES,
                       (double)progress->total_bytes);
    else if (strcmp(environment->progress_phase, progress->phase) != 0)
        progress_label(&environment->progress, progress->phase);
    environment->progress_phase = progress->phase;
    environment->progress.total = (double)progress->total_bytes;
    progress_update(&environment->progress, (double)progress->done_bytes);
}

/* What was not given stays 0 where an environment that is there has its own. */
static void fill_options(const struct environment_options *from, const struct option_table *table,
                         const struct option_words *words, struct store_options *to)
{
    store_options_init(to);
    to->io_backend = (enum io_backend)from->io_backend;
    to->direct = from->flush_method == 0;
    if (options_given(table, words, "page-size"))
        to->page_size_bytes = (uint32_t)from->page_size_bytes;
    if (options_given(table, words, "log-file-size"))
        to->log_file_size_bytes = from->log_file_size_bytes;
    if (options_given(table, words, "log-files"))
        to->log_files = (uint32_t)from->log_files;
    to->buffer_pool_size_bytes = from->buffer_pool_size_bytes;
    to->log_buffer_size_bytes = from->log_buffer_size_bytes;
    to->flush_log_at_commit = (enum redo_flush)from->flush_log_at_commit;
    to->doublewrite = (enum buffer_doublewrite)from->doublewrite;
    to->io_capacity = (unsigned)from->io_capacity;
    to->io_capacity_max = (unsigned)from->io_capacity_max;
    to->max_dirty_pages_pct = (unsigned)from->max_dirty_pages_pct;
    to->old_blocks_pct = (unsigned)from->old_blocks_pct;
    to->buffer_pool_dump_at_shutdown = from->dump_at_shutdown;
    to->buffer_pool_load_at_startup = from->load_at_startup;
    to->buffer_pool_dump_pct = (unsigned)from->dump_pct;
    to->autoextend_bytes = from->autoextend_bytes;
    to->recovery_threads = (unsigned)from->recovery_threads;
    memcpy(to->class_directories, from->class_directories, sizeof(to->class_directories));
}

static void close_devices(struct environment *environment)
{
    while (environment->system_count > 0)
        io_system_close(environment->systems[--environment->system_count]);
}

static void tell_recovery(const struct recovery_result *result)
{
    char size[UNITS_TEXT_BYTES];
    if (!result->was_clean)
        log_note("the environment had not been closed: recovered from %s of log (%llu pages, %u "
                 "torn pages mended)",
                 units_format_size((double)result->log_bytes, size),
                 (unsigned long long)result->pages, result->pages_repaired);
}

firn_rc environment_prepare(const struct environment_options *options,
                            const struct option_table *table, const struct option_words *words,
                            const char *directory, struct environment *environment)
{
    *environment = (struct environment){0};
    fill_options(options, table, words, &environment->options);
    environment->options.directory = directory;
    environment->options.progress = show_progress;
    environment->options.progress_context = environment;
    firn_rc rc = each_device(options->device, open_device, environment);
    if (rc != FIRN_OK)
        close_devices(environment);
    return rc;
}

firn_rc environment_open_prepared(struct environment *environment)
{
    struct recovery_result result;
    firn_rc rc = store_open(&environment->options, &environment->store, &result);
    if (environment->progress_phase != NULL)
        progress_end(&environment->progress);
    if (rc == FIRN_OK)
        tell_recovery(&result);
    return rc;
}

firn_rc environment_open(const struct environment_options *options,
                         const struct option_table *table, const struct option_words *words,
                         const char *directory, bool create, struct environment *environment)
{
    FIRN_TRY(environment_prepare(options, table, words, directory, environment));
    environment->options.create = create;
    firn_rc rc = environment_open_prepared(environment);
    if (rc != FIRN_OK)
        close_devices(environment);
    return rc;
}

firn_rc environment_close(struct environment *environment)
{
    firn_rc rc = environment->store == NULL ? FIRN_OK : store_close(environment->store);
    environment->store = NULL;
    close_devices(environment);
    return rc;
}
