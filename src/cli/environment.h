/*
 * environment.h -- what every command on an environment has in common: the options with InnoDB's
 * names, devices, opening with progress, closing.
 */
#ifndef FIRN_CLI_ENVIRONMENT_H
#define FIRN_CLI_ENVIRONMENT_H

#include "cli/options.h"
#include "cli/progress.h"
#include "engine/store.h"

/** The values of the options; a member of a command's configuration. */
struct environment_options {
    uint64_t buffer_pool_size_bytes;
    uint64_t page_size_bytes;
    uint64_t log_file_size_bytes;
    uint64_t log_files;
    uint64_t log_buffer_size_bytes;
    uint64_t flush_log_at_commit;
    int doublewrite;
    int flush_method;
    int io_backend;
    uint64_t io_capacity;
    uint64_t io_capacity_max;
    uint64_t max_dirty_pages_pct;
    uint64_t old_blocks_pct;
    bool dump_at_shutdown;
    bool load_at_startup;
    uint64_t dump_pct;
    uint64_t autoextend_bytes;
    uint64_t recovery_threads;
    const char *class_directories[IO_CLASS_COUNT];
    const char *device;
};

extern const char *const environment_doublewrite_words[];
extern const char *const environment_flush_method_words[];
extern const char *const environment_backend_words[];

/** The entries of an option table, for options at `place` in the configuration. */
#define ENVIRONMENT_FIELD(place, member) (place) + offsetof(struct environment_options, member)
#define ENVIRONMENT_DIRECTORY(place, word, class, what)                                            \
    {                                                                                              \
        .name = (word), .type = OPTION_TEXT,                                                       \
        .offset = ENVIRONMENT_FIELD(place, class_directories[class]), .value_name = "DIR",         \
        .help = "Where " what " lie, if not in DIR itself; made with the environment. A relative " \
                "name counts from DIR."                                                            \
    }
#define ENVIRONMENT_OPTIONS(place)                                                                 \
    {.type = OPTION_SECTION, .help = "Memory"},                                                    \
        {.name = "buffer-pool-size",                                                               \
         .type = OPTION_SIZE,                                                                      \
         .offset = ENVIRONMENT_FIELD(place, buffer_pool_size_bytes),                               \
         .default_text = "128M",                                                                   \
         .value_name = "SIZE",                                                                     \
         .min = 1 << 20,                                                                           \
         .max = 0x1p50,                                                                            \
         .help = "Memory for pages."},                                                             \
        {.name = "log-buffer-size",                                                                \
         .type = OPTION_SIZE,                                                                      \
         .offset = ENVIRONMENT_FIELD(place, log_buffer_size_bytes),                                \
         .default_text = "16M",                                                                    \
         .value_name = "SIZE",                                                                     \
         .min = 8 << 20,                                                                           \
         .max = 1 << 30,                                                                           \
         .help = "Memory for log that is not written yet."},                                       \
        {.name = "old-blocks-pct",                                                                 \
         .type = OPTION_COUNT,                                                                     \
         .offset = ENVIRONMENT_FIELD(place, old_blocks_pct),                                       \
         .default_text = "37",                                                                     \
         .value_name = "N",                                                                        \
         .min = 5,                                                                                 \
         .max = 95,                                                                                \
         .help = "Share of the pool for pages that were touched only once."},                      \
        {.name = "buffer-pool-dump-at-shutdown",                                                   \
         .type = OPTION_FLAG,                                                                      \
         .offset = ENVIRONMENT_FIELD(place, dump_at_shutdown),                                     \
         .default_text = "on",                                                                     \
         .help = "Note at the end which pages are in the pool."},                                  \
        {.name = "buffer-pool-dump-pct",                                                           \
         .type = OPTION_COUNT,                                                                     \
         .offset = ENVIRONMENT_FIELD(place, dump_pct),                                             \
         .default_text = "25",                                                                     \
         .value_name = "N",                                                                        \
         .min = 1,                                                                                 \
         .max = 100,                                                                               \
         .help = "How many of them."},                                                             \
        {.name = "buffer-pool-load-at-startup",                                                    \
         .type = OPTION_FLAG,                                                                      \
         .offset = ENVIRONMENT_FIELD(place, load_at_startup),                                      \
         .default_text = "on",                                                                     \
         .help = "Read them again at the start, in the background."},                              \
        {.type = OPTION_SECTION, .help = "Durability and writing"},                                \
        {.name = "flush-log-at-commit",                                                            \
         .type = OPTION_COUNT,                                                                     \
         .offset = ENVIRONMENT_FIELD(place, flush_log_at_commit),                                  \
         .default_text = "1",                                                                      \
         .value_name = "N",                                                                        \
         .max = 2,                                                                                 \
         .help =                                                                                   \
             "What a commit waits for: 1, the log is synced; 2, the system has it; 0, nothing. "   \
             "With 0 and 2 it is synced once a second."},                                          \
        {.name = "doublewrite",                                                                    \
         .type = OPTION_CHOICE,                                                                    \
         .offset = ENVIRONMENT_FIELD(place, doublewrite),                                          \
         .default_text = "on",                                                                     \
         .value_name = "HOW",                                                                      \
         .choices = environment_doublewrite_words,                                                 \
         .help = "Write pages twice, so that one torn by a power cut is mended; detect: not "      \
                 "where the device writes pages atomically."},                                     \
        {.name = "flush-method",                                                                   \
         .type = OPTION_CHOICE,                                                                    \
         .offset = ENVIRONMENT_FIELD(place, flush_method),                                         \
         .default_text = "O_DIRECT",                                                               \
         .value_name = "HOW",                                                                      \
         .choices = environment_flush_method_words,                                                \
         .help = "Past the page cache of the system, or through it."},                             \
        {.name = "io-capacity",                                                                    \
         .type = OPTION_COUNT,                                                                     \
         .offset = ENVIRONMENT_FIELD(place, io_capacity),                                          \
         .default_text = "200",                                                                    \
         .value_name = "N",                                                                        \
         .min = 1,                                                                                 \
         .max = 1e7,                                                                               \
         .help = "Pages a second that are written in the background when nothing presses."},       \
        {.name = "io-capacity-max",                                                                \
         .type = OPTION_COUNT,                                                                     \
         .offset = ENVIRONMENT_FIELD(place, io_capacity_max),                                      \
         .default_text = "2000",                                                                   \
         .value_name = "N",                                                                        \
         .min = 1,                                                                                 \
         .max = 1e7,                                                                               \
         .help = "The same when the log fills up."},                                               \
        {.name = "max-dirty-pages-pct",                                                            \
         .type = OPTION_COUNT,                                                                     \
         .offset = ENVIRONMENT_FIELD(place, max_dirty_pages_pct),                                  \
         .default_text = "90",                                                                     \
         .value_name = "N",                                                                        \
         .min = 1,                                                                                 \
         .max = 99,                                                                                \
         .help = "Share of the pool that may wait to be written."},                                \
        {.name = "io-backend",                                                                     \
         .type = OPTION_CHOICE,                                                                    \
         .offset = ENVIRONMENT_FIELD(place, io_backend),                                           \
         .default_text = "auto",                                                                   \
         .value_name = "NAME",                                                                     \
         .choices = environment_backend_words,                                                     \
         .help = "How batches of requests reach the system."},                                     \
        {.name = "recovery-threads",                                                               \
         .type = OPTION_COUNT,                                                                     \
         .offset = ENVIRONMENT_FIELD(place, recovery_threads),                                     \
         .default_text = "0",                                                                      \
         .value_name = "N",                                                                        \
         .max = 64,                                                                                \
         .help = "After a crash; 0: one a processor, at most 8."},                                 \
        {.type = OPTION_SECTION, .help = "Files"},                                                 \
        {.name = "page-size",                                                                      \
         .type = OPTION_SIZE,                                                                      \
         .offset = ENVIRONMENT_FIELD(place, page_size_bytes),                                      \
         .default_text = "16K",                                                                    \
         .value_name = "SIZE",                                                                     \
         .min = PAGE_SIZE_MIN,                                                                     \
         .max = PAGE_SIZE_MAX,                                                                     \
         .help = "Of a new environment: 4K, 8K, 16K, 32K or 64K. One that is there keeps its "     \
                 "own."},                                                                          \
        {.name = "log-file-size",                                                                  \
         .type = OPTION_SIZE,                                                                      \
         .offset = ENVIRONMENT_FIELD(place, log_file_size_bytes),                                  \
         .default_text = "96M",                                                                    \
         .value_name = "SIZE",                                                                     \
         .min = 4 << 20,                                                                           \
         .max = 0x1p40,                                                                            \
         .help = "Of each file of the log. If it is given, an environment's log is changed to "    \
                 "it; otherwise it keeps its own."},                                               \
        {.name = "log-files",                                                                      \
         .type = OPTION_COUNT,                                                                     \
         .offset = ENVIRONMENT_FIELD(place, log_files),                                            \
         .default_text = "2",                                                                      \
         .value_name = "N",                                                                        \
         .min = 2,                                                                                 \
         .max = 100,                                                                               \
         .help = "How many files the log has; the same holds."},                                   \
        {.name = "log-files-in-group", .alias_of = "log-files"},                                   \
        {.name = "autoextend-increment",                                                           \
         .type = OPTION_SIZE,                                                                      \
         .offset = ENVIRONMENT_FIELD(place, autoextend_bytes),                                     \
         .default_text = "64M",                                                                    \
         .value_name = "SIZE",                                                                     \
         .min = 1 << 20,                                                                           \
         .max = 0x1p40,                                                                            \
         .help = "How much a tablespace grows at once, at most."},                                 \
        ENVIRONMENT_DIRECTORY(place, "tables-dir", IO_CLASS_TABLE, "the trees' tablespaces"),      \
        ENVIRONMENT_DIRECTORY(place, "undo-dir", IO_CLASS_UNDO, "undo tablespaces"),               \
        ENVIRONMENT_DIRECTORY(place, "system-dir", IO_CLASS_SYSTEM, "the system tablespaces"),     \
        ENVIRONMENT_DIRECTORY(place, "doublewrite-dir", IO_CLASS_DOUBLEWRITE,                      \
                              "the doublewrite files"),                                            \
        ENVIRONMENT_DIRECTORY(place, "redo-dir", IO_CLASS_REDO, "the log's files"),                \
        {.name = "log-group-home-dir", .alias_of = "redo-dir"},                                    \
        ENVIRONMENT_DIRECTORY(place, "binlog-dir", IO_CLASS_BINLOG, "binary logs"),                \
        ENVIRONMENT_DIRECTORY(place, "tmp-dir", IO_CLASS_TEMPORARY, "temporary tablespaces"),      \
        {.name = "tmpdir", .alias_of = "tmp-dir"},                                                 \
    {                                                                                              \
        .name = "device", .type = OPTION_TEXT, .offset = ENVIRONMENT_FIELD(place, device),         \
        .value_name = "LIST",                                                                      \
        .help = "Run as if files lay on other devices: CLASS=MODEL, with commas between; CLASS "   \
                "is table, undo, system, doublewrite, redo, binlog or temporary, or several with " \
                "+ between, which then share one device; MODEL alone is one device for all. "      \
                "'firn device list' names models. Such an environment does not survive a crash "   \
                "of this machine."                                                                 \
    }

/** A command on an environment: judge its words, then do it, each with its options. */
struct environment_command {
    const char *name;
    const struct option_table *table;
    firn_rc (*check)(void *options, const struct option_words *words);
    int (*run)(void *options, const struct option_words *words); /* its exit status */
};

/**
 * Do such a command, with --help, its defaults and MySQL's names of options.
 *
 * @param options  what the table fills
 * @return the exit status: of a command line that makes no sense COMMAND_USAGE
 */
int environment_command(const struct environment_command *command, void *options, int argc,
                        char **argv);

/** An environment that a command has open. */
struct environment {
    struct store *store;
    struct store_options options;              /* as the command line says */
    struct io_system *systems[IO_CLASS_COUNT]; /* of models, each once */
    unsigned system_count;
    struct progress progress;
    const char *progress_phase;
};

/**
 * Read the words of MySQL's configuration files as ours: "--innodb_log_file_size=1G" is
 * "--log-file-size=1G". Only names that the table then knows are touched, in place.
 */
void environment_accept_old_names(const struct option_table *table, int argc, char **argv);

/**
 * Open the environment in a directory, with progress on the terminal if it has to recover.
 *
 * @param table, words  to tell what was given from what is a default
 * @param create        make it if there is none
 * @param environment   set on success; environment_close
 * @return as store_open; FIRN_E_INVALID, FIRN_E_NOT_FOUND for the device list
 */
firn_rc environment_open(const struct environment_options *options,
                         const struct option_table *table, const struct option_words *words,
                         const char *directory, bool create, struct environment *environment);

/** environment_open in two steps, for who wants to look at the files first: the first one opens
 * devices and fills environment->options, the second one the store as these say. Whether or not the
 * second one was called, and succeeded, environment_close gives everything back. */
firn_rc environment_prepare(const struct environment_options *options,
                            const struct option_table *table, const struct option_words *words,
                            const char *directory, struct environment *environment);
firn_rc environment_open_prepared(struct environment *environment);

/** Flush and close. Everything is given back also on failure. */
firn_rc environment_close(struct environment *environment);

/** Judge the words of a command that is about one directory. FIRN_E_INVALID */
firn_rc environment_check_directory(const struct option_words *words);

/** Judge the device list without opening anything. */
firn_rc environment_check_devices(const char *text);

#endif
