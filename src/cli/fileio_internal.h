/*
 * fileio_internal.h -- the fileio command: fileio.c does, fileio_options.c understands,
 * fileio_print.c says it as sysbench does.
 */
#ifndef FIRN_CLI_FILEIO_INTERNAL_H
#define FIRN_CLI_FILEIO_INTERNAL_H

#include "bench/fileio.h"
#include "cli/options.h"

#include <stdio.h>

enum { FILEIO_PERCENTILES_MAX = 8, FILEIO_CHECKPOINTS_MAX = 256 };

enum fileio_preset { FILEIO_PRESET_NONE, FILEIO_PRESET_SURVEY };

/** sysbench's levels that matter here. */
enum fileio_verbosity { FILEIO_WARNINGS = 2, FILEIO_NOTICES = 3, FILEIO_DEBUG = 5 };

/** Everything the command line says. */
struct fileio_command {
    struct fileio_config config;
    const char *percentiles_text;
    const char *checkpoints_text;
    const char *shutdown_text;
    const char *time_scale_text;
    const char *json_path; /* NULL: no result file; "-": standard output */
    uint64_t report_ns;    /* 0: no lines meanwhile */
    uint64_t interval_ns;  /* 0: chosen from report_ns */
    uint64_t verbosity;
    bool histogram;
    bool debug;
    int preset;

    /* From the texts. */
    double percentiles[FILEIO_PERCENTILES_MAX];
    unsigned percentile_count;                       /* 0: disabled */
    uint64_t checkpoints_ns[FILEIO_CHECKPOINTS_MAX]; /* ascending */
    unsigned checkpoint_count;
};

/** The command's options. */
extern const struct option_table fileio_options;

/**
 * Understand a command line.
 *
 * @param argv    argv[0] is the command's name
 * @param words   filled on success; the positional words are not looked at
 * @return FIRN_OK; FIRN_E_INVALID
 */
firn_rc fileio_parse(int argc, char *const *argv, struct fileio_command *command,
                     struct option_words *words);

/** Read the value of --time-scale. @param time_scale  set on success: 0 for "max" */
firn_rc fileio_parse_time_scale(const char *text, double *time_scale);

/** Say on standard error which of the words are old forms, and which new ones stand for them. */
void fileio_warn_of_old_forms(int argc, char *const *argv);

/** Say which options that were given have no effect on this run. */
void fileio_warn_of_idle_options(const struct fileio_command *command,
                                 const struct option_words *words);

/** Carry out --preset=survey. @return the exit status */
int fileio_run_preset(const struct fileio_command *command, const struct option_words *words);

/** What the intervals since some moment add up to. About 120 KB. */
struct fileio_window {
    uint64_t start_ns; /* since measuring started */
    uint64_t length_ns;
    struct meter_kind_data kinds[FILEIO_KIND_COUNT];
};

/** Empty a window; it then starts at a time. */
void fileio_window_reset(struct fileio_window *window, uint64_t start_ns);

/** Add an interval that follows what is in the window. */
void fileio_window_add(struct fileio_window *window, const struct meter_interval *interval);

/** The lines before a run: sysbench's options block and its description of the files. */
void fileio_print_setup(FILE *out, const struct fileio_command *command);

/** "Extra file open flags: ..." */
void fileio_print_flags(FILE *out, unsigned extra_flags);

/** "[ 10s ] reads: ...", and the queue's line in an open loop. */
void fileio_print_interval(FILE *out, const struct fileio_command *command,
                           const struct fileio_window *window,
                           const struct runner_backlog *backlog);

/**
 * sysbench's report over a window: file operations, throughput, general statistics, latency.
 *
 * @param end_ns   the run's time until then
 * @param outcome  at the end of the run: adds the final syncs and the fairness of threads; else
 *                 NULL
 */
void fileio_print_report(FILE *out, const struct fileio_command *command,
                         const struct fileio_window *window, uint64_t end_ns,
                         const struct fileio_outcome *outcome);

/** What sysbench does not tell: each kind of operation, the judgement, what stood under it. */
void fileio_print_more(FILE *out, const struct fileio_command *command,
                       const struct fileio_outcome *outcome);

/** --histogram: all events' latencies. */
void fileio_print_histogram(FILE *out, const struct fileio_command *command,
                            const struct fileio_window *window);

#endif
