/*
 * fileio_print.c -- the lines of a run. The first part reads, line by line, as sysbench 1.0's,
 * since scripts parse them; what sysbench does not tell follows behind.
 */
#include "base/check.h"
#include "cli/fileio_internal.h"
#include "cli/terminal.h"
#include "firn.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

static const double MIB = 1024.0 * 1024.0;

enum { DIGITS_BYTES = 32 };

/* Arrivals come in bunches: only a queue as long as this says that the rate was too high. */
#define OVERLOAD_NS (100 * NS_PER_MS)

/* sysbench writes sizes with five digits: "16Ki", "2Gi", "1.9531Mi". */
static const char *short_size(double bytes, char text[DIGITS_BYTES])
{
    static const char units[] = "KMGTP";
    int unit = -1;
    for (; bytes >= 1024 && unit < (int)sizeof(units) - 2; unit++)
        bytes /= 1024;
    if (unit < 0)
        snprintf(text, DIGITS_BYTES, "%.5g", bytes);
    else
        snprintf(text, DIGITS_BYTES, "%.5g%ci", bytes, units[unit]);
    return text;
}

static double seconds(uint64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

static double milliseconds(double ns)
{
    return ns / (double)NS_PER_MS;
}

/* ---- Before the run ---- */

void fileio_print_flags(FILE *out, unsigned extra_flags)
{
    fprintf(out, "Extra file open flags: %s%s%s%s\n", extra_flags == 0 ? "(none)" : "",
            (extra_flags & FILEIO_FLAG_SYNC) != 0 ? "sync " : "",
            (extra_flags & FILEIO_FLAG_DSYNC) != 0 ? "dsync " : "",
            (extra_flags & FILEIO_FLAG_DIRECT) != 0 ? "directio" : "");
}

static void print_checkpoint_times(FILE *out, const struct fileio_command *command)
{
    if (command->checkpoint_count == 0)
        return;
    fprintf(out, "Report checkpoint(s) at ");
    for (unsigned i = 0; i < command->checkpoint_count; i++)
        fprintf(out, "%s%g", i == 0 ? "" : ", ", seconds(command->checkpoints_ns[i]));
    fprintf(out, " seconds\n");
}

static void print_options(FILE *out, const struct fileio_command *command)
{
    const struct fileio_config *config = &command->config;
    fprintf(out, "firn %s (%s)\n\n", firn_version(), firn_commit());
    fprintf(out, "Running the test with following options:\n");
    fprintf(out, "Number of threads: %" PRIu64 "\n", config->threads);
    if (config->warmup_ns != 0)
        fprintf(out, "Warmup time: %gs\n", seconds(config->warmup_ns));
    if (config->rate > 0)
        fprintf(out, "Target transaction rate: %.15g/sec\n", config->rate);
    if (command->report_ns != 0)
        fprintf(out, "Report intermediate results every %g second(s)\n",
                seconds(command->report_ns));
    print_checkpoint_times(out, command);
    if (config->validate)
        fprintf(out, "Validation checks: on.\n\n");
    if (config->rand_seed != 0)
        fprintf(out, "Initializing random number generator from seed (%" PRIu64 ").\n\n",
                config->rand_seed);
    else
        fprintf(out, "Initializing random number generator from current time\n\n");
    if (config->shutdown_ns != UINT64_MAX)
        fprintf(out, "Forcing shutdown in %.0f seconds\n",
                seconds(config->time_ns + config->shutdown_ns));
    fprintf(out, "\n");
}

static const char *mode_text(int mode)
{
    static const char *const texts[] = {
        "sequential write (creation)",
        "sequential rewrite",
        "sequential read",
        "random read",
        "random write",
        "random r/w",
    };
    return texts[mode];
}

static void print_files(FILE *out, const struct fileio_config *config)
{
    char size[DIGITS_BYTES];
    uint64_t file_bytes = fileio_file_size(config);
    uint64_t block_bytes = config->file_block_size;
    fileio_print_flags(out, config->extra_flags);
    fprintf(out, "%" PRIu64 " files, %sB each\n", config->file_num,
            short_size((double)file_bytes, size));
    fprintf(out, "%sB total file size\n",
            short_size((double)(file_bytes * config->file_num), size));
    fprintf(out, "Block size %sB\n", short_size((double)block_bytes, size));
    if (config->merged_requests > 0)
        fprintf(out, "Merging requests up to %sB for sequential IO.\n",
                short_size((double)(block_bytes * config->merged_requests), size));
}

void fileio_print_setup(FILE *out, const struct fileio_command *command)
{
    static const char *const io_modes[] = {"synchronous", "asynchronous", "fast mmaped"};
    const struct fileio_config *config = &command->config;
    int mode = config->file_test_mode;
    print_options(out, command);
    print_files(out, config);
    if (mode == FILEIO_RNDRD || mode == FILEIO_RNDWR || mode == FILEIO_RNDRW) {
        fprintf(out, "Number of IO requests: %" PRIu64 "\n", config->events);
        fprintf(out, "Read/Write ratio for combined random IO test: %2.2f\n", config->rw_ratio);
    }
    if (config->fsync_freq > 0 && !config->fsync_all)
        fprintf(out, "Periodic FSYNC enabled, calling fsync() each %" PRIu64 " requests.\n",
                config->fsync_freq);
    if (config->fsync_end && !config->fsync_all)
        fprintf(out, "Calling fsync() at the end of test, Enabled.\n");
    if (config->fsync_all)
        fprintf(out, "Calling fsync() after each write operation.\n");
    fprintf(out, "Using %s I/O mode\n", io_modes[config->file_io_mode]);
    if (config->validate)
        fprintf(out, "Using checksums validation.\n");
    fprintf(out, "Doing %s test\n", mode_text(mode));
}

/* ---- Windows ---- */

void fileio_window_reset(struct fileio_window *window, uint64_t start_ns)
{
    window->start_ns = start_ns;
    window->length_ns = 0;
    for (unsigned i = 0; i < FILEIO_KIND_COUNT; i++) {
        window->kinds[i].bytes = 0;
        histogram_reset(&window->kinds[i].latency_ns);
        histogram_reset(&window->kinds[i].response_ns);
    }
}

void fileio_window_add(struct fileio_window *window, const struct meter_interval *interval)
{
    window->length_ns = interval->start_ns + interval->length_ns - window->start_ns;
    for (unsigned i = 0; i < FILEIO_KIND_COUNT; i++) {
        window->kinds[i].bytes += interval->kinds[i].bytes;
        histogram_merge(&window->kinds[i].latency_ns, &interval->kinds[i].latency_ns);
        histogram_merge(&window->kinds[i].response_ns, &interval->kinds[i].response_ns);
    }
}

/* All events' latencies, from the arrival in an open loop. The sync of --file-fsync-all is part of
   its write. */
static void merge_events(const struct fileio_command *command, const struct fileio_window *window,
                         struct histogram *events)
{
    bool open_loop = command->config.rate > 0;
    histogram_reset(events);
    for (unsigned i = 0; i < FILEIO_KIND_COUNT; i++) {
        const struct meter_kind_data *kind = &window->kinds[i];
        if (i != FILEIO_SYNCING || !command->config.fsync_all)
            histogram_merge(events, open_loop ? &kind->response_ns : &kind->latency_ns);
    }
}

static double per_second(double amount, uint64_t length_ns)
{
    return length_ns == 0 ? 0 : amount / seconds(length_ns);
}

static double kind_rate(const struct fileio_window *window, unsigned kind)
{
    return per_second((double)window->kinds[kind].latency_ns.count, window->length_ns);
}

static double kind_mib_rate(const struct fileio_window *window, unsigned kind)
{
    return per_second((double)window->kinds[kind].bytes / MIB, window->length_ns);
}

/* ---- Meanwhile ---- */

/* Whole seconds as sysbench has them, when intervals are. */
static int time_decimals(const struct fileio_command *command)
{
    if (command->report_ns % NS_PER_S == 0)
        return 0;
    if (command->report_ns % (100 * NS_PER_MS) == 0)
        return 1;
    return command->report_ns % (10 * NS_PER_MS) == 0 ? 2 : 3;
}

void fileio_print_interval(FILE *out, const struct fileio_command *command,
                           const struct fileio_window *window, const struct runner_backlog *backlog)
{
    struct histogram events;
    int decimals = time_decimals(command);
    double time_s = seconds(window->start_ns + window->length_ns);
    merge_events(command, window, &events);
    fprintf(out, "[ %.*fs ] reads: %4.2f MiB/s writes: %4.2f MiB/s fsyncs: %4.2f/s", decimals,
            time_s, kind_mib_rate(window, FILEIO_READ), kind_mib_rate(window, FILEIO_WRITE),
            kind_rate(window, FILEIO_SYNCING));
    if (command->percentile_count == 0)
        fprintf(out, " latency (ms,0%%): %4.3f", 0.0);
    for (unsigned i = 0; i < command->percentile_count; i++) {
        double percent = command->percentiles[i];
        fprintf(out, " latency (ms,%g%%): %4.3f", percent,
                milliseconds((double)histogram_percentile(&events, percent)));
    }
    fprintf(out, "\n");
    if (command->config.rate > 0)
        fprintf(out, "[ %.*fs ] queue length: %" PRIu64 " concurrency: %u behind (ms): %.3f\n",
                decimals, time_s, backlog->queue_length, backlog->concurrency,
                milliseconds((double)backlog->behind_ns));
    fflush(out);
}

/* ---- At the end: sysbench's report ---- */

static void print_latency(FILE *out, const struct fileio_command *command,
                          const struct histogram *events)
{
    double min_ns = events->count == 0 ? 0 : (double)events->min;
    fprintf(out, "Latency (ms):\n");
    fprintf(out, "         min: %39.2f\n", milliseconds(min_ns));
    fprintf(out, "         avg: %39.2f\n", milliseconds(histogram_mean(events)));
    fprintf(out, "         max: %39.2f\n", milliseconds((double)events->max));
    if (command->percentile_count == 0)
        fprintf(out, "         percentile stats:               disabled\n");
    for (unsigned i = 0; i < command->percentile_count; i++) {
        char percent[DIGITS_BYTES];
        double value_ns = (double)histogram_percentile(events, command->percentiles[i]);
        snprintf(percent, sizeof(percent), "%g", command->percentiles[i]);
        int width = strlen(percent) > 3 ? 30 - (int)strlen(percent) : 27;
        fprintf(out, "        %3sth percentile: %*.2f\n", percent, width, milliseconds(value_ns));
    }
    fprintf(out, "         sum: %39.2f\n\n", milliseconds((double)events->sum));
}

static void print_fairness(FILE *out, const struct fileio_command *command,
                           const struct runner_outcome *run)
{
    double count = run->worker_count;
    double events = 0;
    double busy_s = 0;
    double events_square = 0;
    double busy_square = 0;
    for (unsigned i = 0; i < run->worker_count; i++) {
        events += (double)run->workers[i].operations / count;
        busy_s += seconds(run->workers[i].busy_ns) / count;
    }
    for (unsigned i = 0; i < run->worker_count; i++) {
        events_square += pow((double)run->workers[i].operations - events, 2);
        busy_square += pow(seconds(run->workers[i].busy_ns) - busy_s, 2);
    }
    fprintf(out, "Threads fairness:\n");
    fprintf(out, "    events (avg/stddev):           %.4f/%3.2f\n", events,
            sqrt(events_square / count));
    fprintf(out, "    execution time (avg/stddev):   %.4f/%3.2f\n\n", busy_s,
            sqrt(busy_square / count));
    if (command->verbosity < FILEIO_DEBUG)
        return;
    fprintf(out, "Verbose per-thread statistics:\n\n");
    for (unsigned i = 0; i < run->worker_count; i++)
        fprintf(out,
                "    thread #%3u: events: %" PRIu64 "  total time taken by event execution: "
                "%.4fs\n",
                i, run->workers[i].operations, seconds(run->workers[i].busy_ns));
    fprintf(out, "\n");
}

void fileio_print_report(FILE *out, const struct fileio_command *command,
                         const struct fileio_window *window, uint64_t end_ns,
                         const struct fileio_outcome *outcome)
{
    struct histogram events;
    double syncs = (double)window->kinds[FILEIO_SYNCING].latency_ns.count;
    uint64_t length_ns = window->length_ns;
    if (outcome != NULL) {
        syncs += (double)outcome->final_syncs;
        length_ns += outcome->final_sync_ns;
        end_ns += outcome->final_sync_ns;
    }
    const struct meter_kind_data *reads = &window->kinds[FILEIO_READ];
    const struct meter_kind_data *writes = &window->kinds[FILEIO_WRITE];
    merge_events(command, window, &events);
    fprintf(out, "\nFile operations:\n");
    fprintf(out, "    reads/s:                      %4.2f\n",
            per_second((double)reads->latency_ns.count, length_ns));
    fprintf(out, "    writes/s:                     %4.2f\n",
            per_second((double)writes->latency_ns.count, length_ns));
    fprintf(out, "    fsyncs/s:                     %4.2f\n", per_second(syncs, length_ns));
    fprintf(out, "\nThroughput:\n");
    fprintf(out, "    read, MiB/s:                  %4.2f\n",
            per_second((double)reads->bytes / MIB, length_ns));
    fprintf(out, "    written, MiB/s:               %4.2f\n",
            per_second((double)writes->bytes / MIB, length_ns));
    fprintf(out, "\nGeneral statistics:\n");
    fprintf(out, "    total time:                          %.4fs\n", seconds(end_ns));
    fprintf(out, "    total number of events:              %" PRIu64 "\n\n",
            (uint64_t)events.count);
    print_latency(out, command, &events);
    if (outcome != NULL)
        print_fairness(out, command, &outcome->run);
}

void fileio_print_histogram(FILE *out, const struct fileio_command *command,
                            const struct fileio_window *window)
{
    enum { STEP = 2, WIDTH = 40 }; /* 32 lines to an octave, about what sysbench prints */
    struct histogram events;
    uint64_t most = 0;
    merge_events(command, window, &events);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i += STEP)
        if (events.buckets[i] + events.buckets[i + 1] > most)
            most = events.buckets[i] + events.buckets[i + 1];
    if (most == 0)
        return;
    fprintf(out, "Latency histogram (values are in milliseconds)\n");
    fprintf(out, "       value  ------------- distribution ------------- count\n");
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i += STEP) {
        uint64_t count = events.buckets[i] + events.buckets[i + 1];
        if (count == 0)
            continue;
        int width = (int)floor((double)count * WIDTH / (double)most + 0.5);
        fprintf(out, "%12.3f |%-40.*s %" PRIu64 "\n",
                milliseconds((double)histogram_bucket_start(i + 1)), width,
                "****************************************", count);
    }
    fprintf(out, " \n");
}

/* ---- At the end: ours ---- */

static const char *const kind_names[] = {"read", "write", "sync"};

/* A sentence or two, indented and wrapped. */
static void print_note(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print_note(FILE *out, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    terminal_wrap(out, text, 0, 4, terminal_text_width(out));
}

static void print_kind(FILE *out, const char *name, const struct meter_kind_data *kind,
                       uint64_t length_ns, const struct histogram *latency)
{
    static const double percentiles[] = {50, 95, 99, 99.9};
    if (latency->count == 0)
        return;
    fprintf(out, "    %-6s %11.2f %9.2f", name, per_second((double)latency->count, length_ns),
            per_second((double)kind->bytes / MIB, length_ns));
    for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
        fprintf(out, " %8.3f", milliseconds((double)histogram_percentile(latency, percentiles[i])));
    fprintf(out, " %8.3f\n", milliseconds((double)latency->max));
}

static void print_kinds(FILE *out, const struct fileio_command *command,
                        const struct fileio_outcome *outcome)
{
    const struct meter_interval *total = outcome->run.total;
    fprintf(out, "By operation, latency (ms):\n");
    fprintf(out, "    %-6s %11s %9s %8s %8s %8s %8s %8s\n", "", "ops/s", "MiB/s", "p50", "p95",
            "p99", "p99.9", "max");
    for (unsigned i = 0; i < FILEIO_KIND_COUNT; i++) {
        const struct meter_kind_data *kind = &total->kinds[i];
        print_kind(out, kind_names[i], kind, total->length_ns, &kind->latency_ns);
    }
    if (command->config.rate > 0) {
        fprintf(out, "    from schedule:\n");
        for (unsigned i = 0; i < FILEIO_KIND_COUNT; i++) {
            const struct meter_kind_data *kind = &total->kinds[i];
            print_kind(out, kind_names[i], kind, total->length_ns, &kind->response_ns);
        }
    }
    fprintf(out, "\n");
}

/* The end of an open loop that could not keep up is no error, but must not be missed. */
static void print_backlog(FILE *out, const struct fileio_command *command,
                          const struct runner_outcome *run)
{
    if (command->config.rate == 0)
        return;
    double done = 0;
    for (unsigned i = 0; i < FILEIO_KIND_COUNT; i++)
        done += (double)run->total->kinds[i].latency_ns.count;
    if (run->backlog.behind_ns > OVERLOAD_NS)
        print_note(out,
                   "Overload: %.0f operations/s arrived, %.0f were done; at the end the schedule "
                   "was %.3f s ahead and about %" PRIu64 " operations were waiting.",
                   command->config.rate, per_second(done, run->total->length_ns),
                   seconds(run->backlog.behind_ns), run->backlog.queue_length);
    else
        print_note(out, "The arrival rate of %.15g/s was met.", command->config.rate);
}

static void print_judgement(FILE *out, const struct fileio_command *command,
                            const struct fileio_outcome *outcome)
{
    const struct runner_outcome *run = &outcome->run;
    fprintf(out, "Judgement:\n");
    print_note(out, "%s", run->judgement_text);
    print_backlog(out, command, run);
    if (outcome->final_syncs > 0)
        print_note(out,
                   "The final sync of %" PRIu64 " files took %.3f s; sysbench's figures above "
                   "count it in, those by operation do not.",
                   outcome->final_syncs, seconds(outcome->final_sync_ns));
    if (run->end == RUNNER_END_STOPPED)
        print_note(out, "The run was stopped before its time.");
    if (run->end == RUNNER_END_ABANDONED)
        print_note(out, "%u threads hung and were abandoned.", run->abandoned);
}

void fileio_print_more(FILE *out, const struct fileio_command *command,
                       const struct fileio_outcome *outcome)
{
    const struct fileio_config *config = &command->config;
    print_kinds(out, command, outcome);
    print_judgement(out, command, outcome);
    fprintf(out, "\nSetup:\n    %s I/O by %s, %s\n    seed %" PRIu64 ", files in %s\n",
            fileio_io_mode_name((enum fileio_io_mode)config->file_io_mode), outcome->storage,
            outcome->direct ? "direct" : "through the page cache", outcome->seed,
            config->directory);
    if (outcome->model[0] == '\0')
        return;
    if (outcome->time_scale == 0)
        fprintf(out, "    modelled: %s, in virtual time\n", outcome->model);
    else
        fprintf(out, "    modelled: %s, time x %g\n", outcome->model, outcome->time_scale);
}
