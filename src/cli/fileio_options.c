#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/fileio_internal.h"
#include "io/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(member)  offsetof(struct fileio_command, member)
#define CONFIG(member) offsetof(struct fileio_command, config.member)
#define DAY_NS         (86400.0 * 1e9)

static const char *const mode_words[] = {"seqwr", "seqrewr", "seqrd", "rndrd",
                                         "rndwr", "rndrw",   "none",  NULL};
static const char *const io_mode_words[] = {"sync", "async", "mmap", NULL};
static const char *const backend_words[] = {"auto", "io_uring", "libaio", "threads", "null", NULL};
static const char *const flag_words[] = {"sync", "dsync", "direct", NULL};
static const char *const fsync_words[] = {"fsync", "fdatasync", NULL};
static const char *const rand_words[] = {"uniform", "gaussian", "special",
                                         "pareto",  "zipfian",  NULL};
static const char *const gap_words[] = {"poisson", "even", NULL};
static const char *const preset_words[] = {"none", "survey", NULL};

#define OPTION(word, kind, place, initial, unit, ...)                                              \
    {                                                                                              \
        .name = (word), .type = OPTION_##kind, .offset = (place), .default_text = (initial),       \
        .value_name = (unit), __VA_ARGS__                                                          \
    }
#define ALIAS(word, target)                                                                        \
    {                                                                                              \
        .name = (word), .alias_of = (target)                                                       \
    }

static const struct option_spec specs[] = {
    {.type = OPTION_SECTION, .help = "Files"},
    OPTION("dir", TEXT, CONFIG(directory), ".", "DIR", .help = "Where the test files lie."),
    OPTION("file-num", COUNT, CONFIG(file_num), "128", "N", .min = 1, .max = 1e6,
           .help = "Number of files."),
    OPTION("file-block-size", SIZE, CONFIG(file_block_size), "16384", "SIZE", .min = 1,
           .max = 1 << 30, .help = "Size of a read or write."),
    OPTION("file-total-size", SIZE, CONFIG(file_total_size), "2G", "SIZE", .min = 1, .max = 0x1p60,
           .help = "Size of all files together."),

    {.type = OPTION_SECTION, .help = "Work"},
    OPTION("file-test-mode", CHOICE, CONFIG(file_test_mode), "none", "MODE", .choices = mode_words,
           .help = "What a run does: write new files in order, rewrite them, read them, or access "
                   "blocks at random."),
    OPTION("file-io-mode", CHOICE, CONFIG(file_io_mode), "sync", "MODE", .choices = io_mode_words,
           .help = "One system call at a time, a queue of requests in each thread, or mappings."),
    OPTION("io-depth", COUNT, CONFIG(io_depth), "128", "N", .min = 1, .max = 4096,
           .help = "Requests each thread keeps under way in async mode."),
    OPTION("io-backend", CHOICE, CONFIG(io_backend), "auto", "NAME", .choices = backend_words,
           .help = "What carries the queues of async mode; null moves no bytes and shows what "
                   "firn itself costs."),
    OPTION("file-extra-flags", SET, CONFIG(extra_flags), "", "LIST", .choices = flag_words,
           .help = "How files are opened besides."),
    OPTION("file-fsync-freq", COUNT, CONFIG(fsync_freq), "100", "N",
           .help = "Sync all files after so many reads and writes; 0: never."),
    OPTION("file-fsync-all", FLAG, CONFIG(fsync_all), NULL, NULL,
           .help = "Sync after each write, as part of it; --file-fsync-freq and --file-fsync-end "
                   "are then off."),
    OPTION("file-fsync-end", FLAG, CONFIG(fsync_end), "on", NULL,
           .help = "Sync all files at the end of a run."),
    OPTION("file-fsync-mode", CHOICE, CONFIG(fsync_mode), "fsync", "CALL", .choices = fsync_words,
           .help = "How files are synced."),
    OPTION("file-merged-requests", COUNT, CONFIG(merged_requests), "0", "N",
           .help = "Blocks in one request of the sequential modes; 0 as 1."),
    OPTION("file-rw-ratio", NUMBER, CONFIG(rw_ratio), "1.5", "N", .max = 1e9,
           .help = "Reads for each write in mode rndrw."),
    OPTION("validate", FLAG, CONFIG(validate), NULL, NULL,
           .help = "Write blocks that tell file, offset, write and checksum, and prove each block "
                   "that is read. Prepare with it first; 'verify' proves all blocks, also after "
                   "a crash."),

    {.type = OPTION_SECTION, .help = "Load"},
    OPTION("threads", COUNT, CONFIG(threads), "1", "N", .min = 1, .max = 65536,
           .help = "Worker threads."),
    OPTION("time", DURATION, CONFIG(time_ns), "10", "TIME", .max = 3650 * DAY_NS,
           .help = "How long to measure; 0: no limit."),
    OPTION("events", COUNT, CONFIG(events), "0", "N",
           .help = "How many operations to measure; 0: no limit."),
    OPTION("warmup-time", DURATION, CONFIG(warmup_ns), "0", "TIME", .max = 3650 * DAY_NS,
           .help = "Run for so long before measuring."),
    OPTION("rate", NUMBER, CONFIG(rate), "0", "N", .max = 1e9,
           .help = "Operations a second that arrive whether or not earlier ones are done (open "
                   "loop); latencies then count from the arrival. 0: each thread goes on as "
                   "soon as it can."),
    OPTION("rate-distribution", CHOICE, CONFIG(rate_distribution), "poisson", "HOW",
           .choices = gap_words, .help = "Gaps between arrivals: exponential, or all equal."),
    OPTION("forced-shutdown", TEXT, FIELD(shutdown_text), "off", "TIME",
           .help = "Abandon operations that hang so long after --time, report, and exit with "
                   "status 1; TIME in seconds or as a percentage of --time."),
    OPTION("thread-stack-size", SIZE, CONFIG(thread_stack_bytes), "1M", "SIZE", .min = 65536,
           .max = 1 << 30, .help = "Stack of each worker."),

    {.type = OPTION_SECTION, .help = "Randomness"},
    OPTION("rand-type", CHOICE, CONFIG(rand_type), "uniform", "KIND", .choices = rand_words,
           .help = "Which blocks the random modes prefer. (sysbench's own fileio takes uniform "
                   "whatever it is told.)"),
    OPTION("rand-seed", COUNT, CONFIG(rand_seed), "0", "N", .max = 0x1p53,
           .help = "Equal seeds give equal accesses; 0: from the time."),
    OPTION("rand-spec-iter", COUNT, CONFIG(rand_spec_iter), "12", "N", .min = 1, .max = 1000,
           .help = "gaussian, special: uniform numbers in each mean."),
    OPTION("rand-spec-pct", NUMBER, CONFIG(rand_spec_pct), "1", "N", .max = 100,
           .help = "special: percentage of the blocks that is special."),
    OPTION("rand-spec-res", NUMBER, CONFIG(rand_spec_res), "75", "N", .max = 100,
           .help = "special: percentage of the accesses that goes there."),
    OPTION("rand-pareto-h", NUMBER, CONFIG(rand_pareto_h), "0.2", "N", .max = 1,
           .help = "pareto: this share of the blocks gets all but this share of the accesses."),
    OPTION("rand-zipfian-exp", NUMBER, CONFIG(rand_zipfian_exp), "0.8", "N", .max = 100,
           .help = "zipfian: block k is accessed in proportion to k to the minus this."),

    {.type = OPTION_SECTION, .help = "Report"},
    OPTION("report-interval", DURATION, FIELD(report_ns), "0", "TIME", .max = 3650 * DAY_NS,
           .help = "Print a line so often; 0: none."),
    OPTION("report-checkpoints", TEXT, FIELD(checkpoints_text), "", "LIST",
           .help = "Print a whole report at these times, in seconds from the start, and count "
                   "anew."),
    OPTION("interval", DURATION, FIELD(interval_ns), "0", "TIME", .max = DAY_NS,
           .help = "Intervals of measuring, at least 10ms; 0: as --report-interval, but no "
                   "longer than 1s."),
    OPTION("percentile", TEXT, FIELD(percentiles_text), "95", "LIST",
           .help = "Percentiles of the latency to print; 0: none."),
    OPTION("histogram", FLAG, FIELD(histogram), NULL, NULL,
           .help = "Print the latencies' histogram."),
    OPTION("json", TEXT, FIELD(json_path), NULL, "FILE",
           .help = "Write the result for 'firn report'; without FILE, or as -, to standard output, "
                   "the rest then to standard error."),
    OPTION("verbosity", COUNT, FIELD(verbosity), "3", "N", .max = 5,
           .help = "Below 3 only warnings and errors are printed; 5 adds a line for each thread."),
    OPTION("debug", FLAG, FIELD(debug), NULL, NULL, .help = "As --verbosity=5."),

    {.type = OPTION_SECTION, .help = "Other devices"},
    OPTION("device", TEXT, CONFIG(device), NULL, "MODEL",
           .help = "Run as if on this device model ('firn device list'); results say so."),
    OPTION("time-scale", TEXT, FIELD(time_scale_text), "1", "N",
           .help = "With --device: how much faster its time passes than real time; max: as fast "
                   "as the processor allows."),
    OPTION("preset", CHOICE, FIELD(preset), "none", "NAME", .choices = preset_words,
           .help = "survey: measure what a database would find, as 'firn survey' does."),

    ALIAS("file-async-backlog", "io-depth"),
    ALIAS("num-threads", "threads"),
    ALIAS("max-time", "time"),
    ALIAS("max-requests", "events"),
    ALIAS("tx-rate", "rate"),
    ALIAS("seed-rng", "rand-seed"),
    {.name = "rand-init", .ignored_value = true},
    {.name = "init-rng", .ignored_value = true},
    {0},
};

const struct option_table fileio_options = {
    .usage = "firn fileio [OPTION...] prepare|run|verify|cleanup",
    .intro = "Measure reading and writing of files as databases do it: sysbench's fileio test, "
             "with its options, lines and figures, and each operation timed to its completion.",
    .outro = "Examples:\n"
             "  firn fileio --file-num=4 --file-total-size=2G prepare\n"
             "  firn fileio --file-num=4 --file-total-size=2G --file-test-mode=rndrw \\\n"
             "      --file-io-mode=async --io-depth=32 --file-extra-flags=direct \\\n"
             "      --report-interval=1 --json=result.json run\n"
             "  firn report result.json",
    .options = specs,
};

/* ---- Old forms and idle options ---- */

static bool is_option(const char *word, const char *name)
{
    size_t length = strlen(name);
    return strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, length) == 0 &&
           (word[2 + length] == '=' || word[2 + length] == '\0');
}

void fileio_warn_of_old_forms(int argc, char *const *argv)
{
    static const char *const forms[][2] = {
        {"num-threads", "threads"}, {"max-time", "time"},      {"max-requests", "events"},
        {"tx-rate", "rate"},        {"seed-rng", "rand-seed"},
    };
    for (int i = 1; i < argc; i++) {
        for (size_t f = 0; f < ARRAY_COUNT(forms); f++)
            if (is_option(argv[i], forms[f][0]))
                fprintf(stderr, "WARNING: --%s is deprecated, use --%s instead\n", forms[f][0],
                        forms[f][1]);
        if (is_option(argv[i], "init-rng") || is_option(argv[i], "rand-init"))
            fprintf(stderr, "WARNING: %.*s is deprecated: random numbers are always initialized\n",
                    (int)strcspn(argv[i], "="), argv[i]);
    }
}

void fileio_warn_of_idle_options(const struct fileio_command *command,
                                 const struct option_words *words)
{
    const struct fileio_config *config = &command->config;
    int mode = config->file_test_mode;
    bool random = mode == FILEIO_RNDRD || mode == FILEIO_RNDWR || mode == FILEIO_RNDRW;
    const struct {
        const char *name;
        bool works;
        const char *where;
    } rules[] = {
        {"io-depth", config->file_io_mode == FILEIO_ASYNC, "with --file-io-mode=async"},
        {"io-backend",
         config->file_io_mode == FILEIO_ASYNC || config->io_backend == IO_BACKEND_NULL,
         "with --file-io-mode=async"},
        {"file-rw-ratio", mode == FILEIO_RNDRW, "in mode rndrw"},
        {"file-merged-requests", !random, "in the sequential modes"},
        {"rand-type", random, "in the random modes"},
        {"rand-spec-pct", config->rand_type == DISTRIBUTION_SPECIAL, "with --rand-type=special"},
        {"rand-spec-res", config->rand_type == DISTRIBUTION_SPECIAL, "with --rand-type=special"},
        {"rand-spec-iter",
         config->rand_type == DISTRIBUTION_SPECIAL || config->rand_type == DISTRIBUTION_GAUSSIAN,
         "with --rand-type=special and gaussian"},
        {"rand-pareto-h", config->rand_type == DISTRIBUTION_PARETO, "with --rand-type=pareto"},
        {"rand-zipfian-exp", config->rand_type == DISTRIBUTION_ZIPFIAN, "with --rand-type=zipfian"},
        {"rate-distribution", config->rate > 0, "with --rate"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++)
        if (!rules[i].works && options_given(&fileio_options, words, rules[i].name))
            log_warning("--%s has an effect only %s", rules[i].name, rules[i].where);
}

/* ---- Texts ---- */

/* Take the next item of a list separated by commas. @return false at its end */
static bool next_item(const char **list, char item[32])
{
    if (**list == '\0')
        return false;
    size_t length = strcspn(*list, ",");
    snprintf(item, 32, "%.*s", (int)(length < 31 ? length : 31), *list);
    *list += length + ((*list)[length] == ',');
    return true;
}

static bool parse_decimal(const char *text, double *number)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        return false;
    *number = value;
    return true;
}

static firn_rc parse_percentiles(struct fileio_command *command)
{
    const char *list = command->percentiles_text;
    char item[32];
    while (next_item(&list, item)) {
        double percent = 0;
        if (!parse_decimal(item, &percent) || percent < 0 || percent > 100)
            return rc_raise(FIRN_E_INVALID, "--percentile: \"%s\" is not a number from 0 to 100",
                            item);
        if (command->percentile_count == FILEIO_PERCENTILES_MAX)
            return rc_raise(FIRN_E_INVALID, "--percentile: %d are the most at once",
                            FILEIO_PERCENTILES_MAX);
        command->percentiles[command->percentile_count++] = percent;
    }
    if (command->percentile_count == 1 && command->percentiles[0] == 0)
        command->percentile_count = 0;
    return FIRN_OK;
}

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static firn_rc parse_checkpoints(struct fileio_command *command)
{
    const char *list = command->checkpoints_text;
    char item[32];
    while (next_item(&list, item)) {
        if (command->checkpoint_count == FILEIO_CHECKPOINTS_MAX)
            return rc_raise(FIRN_E_INVALID, "--report-checkpoints: %d are the most",
                            FILEIO_CHECKPOINTS_MAX);
        firn_rc rc =
            units_parse_duration(item, &command->checkpoints_ns[command->checkpoint_count]);
        if (rc != FIRN_OK)
            return rc_raise(rc, "--report-checkpoints: %s", firn_error_text());
        command->checkpoint_count++;
    }
    qsort(command->checkpoints_ns, command->checkpoint_count, sizeof(uint64_t), compare_times);
    return FIRN_OK;
}

static firn_rc parse_shutdown(struct fileio_command *command)
{
    struct fileio_config *config = &command->config;
    const char *text = command->shutdown_text;
    char number[32];
    double percent = 0;
    size_t length = strlen(text);
    if (strcmp(text, "off") == 0 || config->time_ns == 0)
        return FIRN_OK;
    if (length > 1 && length < sizeof(number) && text[length - 1] == '%') {
        snprintf(number, sizeof(number), "%.*s", (int)length - 1, text);
        if (parse_decimal(number, &percent) && percent >= 0 && percent <= 10000) {
            config->shutdown_ns = (uint64_t)((double)config->time_ns * percent / 100);
            return FIRN_OK;
        }
    }
    firn_rc rc = units_parse_duration(text, &config->shutdown_ns);
    return rc == FIRN_OK ? rc : rc_raise(rc, "--forced-shutdown: %s", firn_error_text());
}

firn_rc fileio_parse_time_scale(const char *text, double *time_scale)
{
    double scale = 0;
    if (strcmp(text, "max") != 0 && (!parse_decimal(text, &scale) || !(scale > 0)))
        return rc_raise(FIRN_E_INVALID, "--time-scale: \"%s\" is neither a number above 0 nor max",
                        text);
    *time_scale = scale;
    return FIRN_OK;
}

/* A line is printed at the end of a whole number of intervals. */
static firn_rc choose_interval(struct fileio_command *command)
{
    uint64_t report_ns = command->report_ns;
    uint64_t interval_ns = command->interval_ns;
    if (report_ns != 0 && report_ns < 10 * NS_PER_MS)
        return rc_raise(FIRN_E_INVALID, "--report-interval must be at least 10ms, or 0");
    if (interval_ns == 0) {
        uint64_t parts = (report_ns + NS_PER_S - 1) / NS_PER_S;
        interval_ns = report_ns == 0 ? NS_PER_S : report_ns / parts;
    } else if (interval_ns < 10 * NS_PER_MS) {
        return rc_raise(FIRN_E_INVALID, "--interval must be at least 10ms");
    } else if (report_ns % interval_ns != 0) {
        return rc_raise(FIRN_E_INVALID, "--report-interval must be a multiple of --interval");
    }
    command->config.interval_ns = interval_ns;
    return FIRN_OK;
}

static firn_rc parse_texts(struct fileio_command *command)
{
    FIRN_TRY(parse_percentiles(command));
    FIRN_TRY(parse_checkpoints(command));
    FIRN_TRY(parse_shutdown(command));
    FIRN_TRY(fileio_parse_time_scale(command->time_scale_text, &command->config.time_scale));
    FIRN_TRY(choose_interval(command));
    if (command->config.device != NULL) {
        struct model_spec spec;
        FIRN_TRY(model_find(command->config.device, &spec));
    }
    if (command->debug)
        command->verbosity = FILEIO_DEBUG;
    return FIRN_OK;
}

firn_rc fileio_parse(int argc, char *const *argv, struct fileio_command *command,
                     struct option_words *words)
{
    struct option_words found;
    memset(command, 0, sizeof(*command));
    fileio_config_defaults(&command->config);
    options_defaults(&fileio_options, command);
    FIRN_TRY(options_parse(&fileio_options, argc, argv, command, &found));
    firn_rc rc = found.help_wanted ? FIRN_OK : parse_texts(command);
    if (rc != FIRN_OK)
        options_free(&found);
    else
        *words = found;
    return rc;
}
