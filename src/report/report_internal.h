/*
 * report_internal.h -- what was read, what is computed of it, and the writers' common tools.
 *
 * Loading checks everything, so that the writers need no doubt: columns of a
 * run have one element an interval, texts are valid UTF-8, numbers finite and not negative; only
 * latency columns hold NaN, where nothing completed.
 */
#ifndef FIRN_REPORT_REPORT_INTERNAL_H
#define FIRN_REPORT_REPORT_INTERNAL_H

#include "base/units.h"
#include "bench/meter.h"
#include "bench/stats.h"
#include "report/report.h"

#include <stdint.h>

/* Bounds that keep work over a hostile file in proportion; far above what firn writes. */
enum {
    REPORT_RUNS_MAX = 1000,
    REPORT_FACTS_MAX = 1000,
    REPORT_INTERVALS_MAX = 10 * 1000 * 1000,
    REPORT_HEAT_CELLS_MAX = 7200, /* time steps of the heat map kept for the page */
    REPORT_HEAT_BUCKETS = 172,    /* four an octave up to 2^43 ns */
    REPORT_WHERE_BYTES = 160,     /* a place in a file, for messages; longer ones are cut */
    REPORT_DENSITY_POINTS = 512,
    REPORT_SLUG_BYTES = 40,
    REPORT_RATIO_BYTES = 128,
};

/* No figure of a real run is larger; sums and products of such figures stay finite. */
#define REPORT_NUMBER_MAX 1e18

/* ---- What was read ---- */

struct report_column {
    const char *name; /* static */
    double *values;   /* NULL: the file does not have it */
};

/** Columns that belong together: one element an interval each. */
struct report_section {
    char *name; /* "intervals", a kind, "device", "cpu" */
    unsigned column_count;
    struct report_column *columns;
};

/* The columns of section "intervals", of each kind, of the device and the processors, by place. */
enum { INTERVAL_START_S, INTERVAL_LENGTH_S, INTERVAL_SILENCE_MS, INTERVAL_SILENT_MS };
enum {
    KIND_OPERATIONS,
    KIND_BYTES,
    KIND_MEAN_US,
    KIND_P50_US,
    KIND_P95_US,
    KIND_P99_US,
    KIND_P999_US,
    KIND_MAX_US,
    KIND_SCHEDULE_P99_US,
};

enum { DEVICE_R_AWAIT_MS = 7, DEVICE_W_AWAIT_MS = 8, DEVICE_UTIL_PERCENT = 13 };
enum { CPU_USER_PERCENT, CPU_SYSTEM_PERCENT, CPU_IOWAIT_PERCENT, CPU_STEAL_PERCENT = 4 };

enum { LATENCY_P50, LATENCY_P95, LATENCY_P99, LATENCY_P999, LATENCY_MAX, LATENCY_COUNT };

/** "p50", "p95", "p99", "p99.9", "max". */
extern const char *const report_latency_names[LATENCY_COUNT];

/** Counts of latencies in cells of time, sparse: cell c has the pairs first[c] to first[c + 1]. */
struct report_heat {
    unsigned cell_count;
    unsigned intervals_per_cell;
    unsigned *first; /* cell_count + 1 of them */
    uint8_t *buckets;
    double *counts;
};

/** A histogram of the whole run: lower bounds in ns, ascending, and counts. */
struct report_histogram {
    unsigned count;
    double *low_ns, *counts;
};

struct report_kind {
    char *name;
    struct report_section columns;
    double operations, operations_per_s, bytes_per_s;
    bool has_latency;
    double latency_us[LATENCY_COUNT];
    struct report_heat heat;           /* cell_count 0: the file has none */
    struct report_histogram histogram; /* count 0: the file has none */
};

/** How often a run had which rate: a curve of area 1 over equal steps from low to high. */
struct report_density {
    double low, high; /* equal: there is none */
    double values[REPORT_DENSITY_POINTS];
};

struct report_event {
    bool is_stall;
    double start_s, length_s;
};

struct report_judgement {
    char *text;
    bool steady;
    double warmup_s;
    double mean_rate, relative_variation, longest_silence_ms, stalled_s, slowed_s;
    struct report_event *events;
    unsigned event_count;
};

/** One thing that was so in a run: a setting, a property of the machine, a commit. */
struct report_fact {
    const char *section; /* static: "setup", "machine", "run", "firn" */
    char *name;
    char *text;
    bool compared; /* false: differs between like runs too (seeds, free space, times) */
};

struct report_facts {
    struct report_fact *facts;
    unsigned count, capacity;
};

struct report_run {
    char *name, *label;       /* label: unique in the report; set by report_summarize */
    unsigned file, row;       /* indices; row is set by report_summarize */
    char *group, *group_axis; /* NULL: in no group */
    double group_x;
    char *modelled; /* the device's name, NULL on a real one */
    double interval_s;
    unsigned interval_count;
    struct report_section intervals;
    unsigned kind_count;
    struct report_kind *kinds;
    char *device_name; /* "" for none */
    struct report_section device, cpu;
    struct report_judgement judgement;
    struct report_facts facts;
    /* Computed at loading, an element an interval: operations and MiB a second of the judged kinds:
       all but "sync", unless it is the only one. */
    double *rate, *mib;
    unsigned judged_first; /* the first interval after the warm-up */
    /* Of the rates after the warm-up; the second of their log10, those of 0 left out. */
    struct report_density density, density_log;
};

/** What the runs of a file mean together: a sentence of its own verdict. */
struct report_finding {
    char *topic, *text;
    bool warns;
};

struct report_file {
    char *path;
    char *label; /* unique in the report; set by report_summarize */
    char *title, *created, *command;
    struct report_finding *findings;
    unsigned finding_count;
    uint64_t device, inode; /* of the file system; both 0 for memory */
};

/* ---- What is computed ---- */

struct report_row_kind {
    const char *name;
    double operations_per_s, mib_per_s, share; /* share of the run's operations, 0 to 1 */
    bool has_latency;
    double latency_us[LATENCY_COUNT]; /* medians of the repeats; max: the highest */
};

/** How a row's median stands to another's. */
struct report_ratio {
    double ratio, low, high;   /* 0: the baseline's median is 0 */
    bool sound;                /* low to high is a 95 % interval, not from extremes of few values */
    unsigned difference_count; /* settings in which the two differ */
    char *differences;         /* their names, comma-separated */
};

/** A line of the table: a run, or repeats of one. */
struct report_row {
    char *label; /* marked "(modelled)" where it is */
    const char *name;
    unsigned file;
    bool modelled, steady;
    unsigned *runs; /* indices of the repeats */
    unsigned run_count;
    struct stats_median
        rate;            /* operations/s over intervals; of the repeats' medians over repeats */
    unsigned rate_count; /* how many values it is the median of */
    double mean_rate; /* operations/s after the warm-up, stalls and all: medians pass over them */
    double mib_per_s;
    double variation, longest_silence_ms, stalled_s, slowed_s, warmup_s;
    unsigned stalls, slowdowns;
    struct report_row_kind *kinds;
    unsigned kind_count;
    int baseline;              /* a row, perhaps this one; -1: none */
    struct report_ratio ratio; /* to the baseline, if that is another row; else zero */
};

/** A fact over all runs: equal in all, or with the runs' own texts. */
struct report_setting {
    const char *section, *name;
    const char **texts; /* a run each; NULL where the run lacks it */
    bool same, compared;
};

struct report {
    struct report_file *files;
    unsigned file_count;
    struct report_run *runs;
    unsigned run_count;
    struct report_row *rows;
    unsigned row_count;
    struct report_setting *settings;
    unsigned setting_count;
    int baseline_file; /* ratios are to the namesake in this file; -1: to baseline_row */
    int baseline_row;  /* -1: none */
};

/* ---- Loading: load.c, load_run.c, load_kind.c ---- */

/** Which file is being read, for messages. */
struct report_reader {
    const char *path;
};

/** The names that a section's columns have in the file; the first `required` must be there. */
struct report_column_list {
    const char *const *names;
    unsigned count, required;
};

/** Raise "PATH: WHERE.NAME PROBLEM" and what to do. @return FIRN_E_INVALID */
firn_rc report_damaged(const struct report_reader *reader, const char *where, const char *name,
                       const char *problem);

/** Raise that memory ran out. @return FIRN_E_NOMEM */
firn_rc report_no_memory(const struct report_reader *reader);

/**
 * Fetch a member of an object, of the type wanted.
 *
 * @param where  the object's place in the file, "" for the root
 * @param type   JSON_REAL stands for any number, JSON_TRUE for either boolean
 * @param value  set on success, borrowed
 */
firn_rc report_member(const struct report_reader *reader, const json_t *object, const char *where,
                      const char *name, json_type type, json_t **value);

/** Fetch a copy of a text member. */
firn_rc report_member_text(const struct report_reader *reader, const json_t *object,
                           const char *where, const char *name, char **text);

/** Fetch a number member that is not negative. */
firn_rc report_member_number(const struct report_reader *reader, const json_t *object,
                             const char *where, const char *name, double *number);

/** Add a fact, its texts copied. FIRN_E_NOMEM. */
firn_rc report_fact_add(struct report_facts *facts, const char *section, const char *name,
                        const char *text, bool compared);

/** Add every member of an object of scalars as facts of a section. */
firn_rc report_facts_read(const struct report_reader *reader, const json_t *object,
                          const char *where, const char *section, struct report_facts *facts);

/** Read the columns of a section that `object` has (NULL: none) into a zeroed section. What was
    read before a failure stays in the section, for report_section_free. */
firn_rc report_section_read(const struct report_reader *reader, const json_t *object,
                            const char *where, const char *name,
                            const struct report_column_list *list, unsigned interval_count,
                            struct report_section *section);

/** Check that a column has no null. */
firn_rc report_section_complete(const struct report_reader *reader, const char *where,
                                const struct report_section *section, unsigned column,
                                unsigned count);
void report_section_free(struct report_section *section);

/** Read all kinds of a run whose intervals are read: columns, histograms and totals. */
firn_rc report_kinds_read(const struct report_reader *reader, const json_t *element,
                          const char *where, struct report_run *run);
void report_kind_free(struct report_kind *kind);

/** Read an element of "runs" into a zeroed run. On failure what it holds is freed. */
firn_rc report_run_read(const struct report_reader *reader, const json_t *element, unsigned number,
                        struct report_run *run);
void report_run_free(struct report_run *run);

/* ---- Computing: tables.c, labels.c, settings.c ---- */

/** Compute how a row stands to another; give `ratio->differences` back with memory_free. */
firn_rc report_ratio_compute(const struct report *report, unsigned row, unsigned baseline,
                             struct report_ratio *ratio);

/** @return the row is compared with another one. */
bool report_row_has_ratio(const struct report_row *row);

/** @return it is compared with one that differs in more than one setting, so that the ratio does
    not tell which of them made it. */
bool report_row_is_unlike(const struct report_row *row);

/**
 * Estimate the density of values by Gaussian kernels.
 *
 * @param values   ascending
 * @param density  filled; low = high when there is no value
 */
void report_density_compute(const double *values, unsigned count, struct report_density *density);

/** Give files, rows and runs labels that are unique. FIRN_E_NOMEM. */
firn_rc report_labels_build(struct report *report);

/** Set baseline_file or baseline_row by name, or choose for NULL. */
firn_rc report_baseline_choose(struct report *report, const char *name);
void report_rows_free(struct report *report);

/** @return whether two runs are repeats: of the same name and alike in all that is compared. */
bool report_runs_alike(const struct report_run *left, const struct report_run *right);

/** Count and name the settings in which two runs differ. Another machine or another firn counts
   once; the storage only where neither mode, backend nor device explains it. `names` is to be
   given back with memory_free. */
firn_rc report_runs_differ(const struct report_run *left, const struct report_run *right,
                           unsigned *count, char **names);

/** Fill report->settings from the facts of all runs. FIRN_E_NOMEM. */
firn_rc report_settings_build(struct report *report);
void report_settings_free(struct report *report);

/* ---- Escaping: put.c ---- */

/** Write text for HTML content or a quoted attribute. */
void report_put_html(FILE *out, const char *text);

/** report_put_html of the first `length` bytes. */
void report_put_html_part(FILE *out, const char *text, size_t length);

/** Write text as one CSV field, quoted; what a spreadsheet would compute gets a quote mark in
    front. */
void report_put_csv(FILE *out, const char *text);

/** Write text as a string of gnuplot's in single quotes, where nothing is expanded. */
void report_put_gnuplot(FILE *out, const char *text);

/** Write a JSON value (NULL: memory ran out) so that it may stand in a script element. */
firn_rc report_put_json(FILE *out, const json_t *value);

/** Write text for a terminal: control characters become '?'. */
void report_put_terminal(FILE *out, const char *text);

/** units_format_duration, but "0" for none. */
const char *report_duration(double duration_ns, char text[UNITS_TEXT_BYTES]);

/** Make a part of a file name of a label: lower-case letters, digits, single hyphens; not empty. */
void report_slug(const char *label, char slug[REPORT_SLUG_BYTES]);

/* ---- Writing ---- */

/** Make a row's verdict: of repeats, that of the worst. Give it back with memory_free. */
firn_rc report_row_verdict(const struct report *report, const struct report_row *row, char **text);

/** Make the sentence that compares a file's runs with their namesakes in the baseline file; NULL
    where there are fewer than two. Without a full stop. Give it back with memory_free. */
firn_rc report_file_verdict(const struct report *report, unsigned file, char **text);

/** Say a row's ratio in words; it has one. */
void report_row_ratio_text(const struct report_row *row, char text[REPORT_RATIO_BYTES]);

/** Put a value into an object, or into an array. Takes both references; NULL for either, or failing
    memory, frees both, so that calls can be nested and only the last result be looked at. */
json_t *report_json_with(json_t *object, const char *name, json_t *value);
json_t *report_json_appended(json_t *array, json_t *value);

/** @return a ratio as an object, null for none; NULL without memory. */
json_t *report_ratio_json(const struct report_ratio *ratio);

/** Pack a column for the page (pack.c has the form). @return [scale, text]; NULL without memory */
json_t *report_pack_column(const double *values, unsigned count);

/** Pack a heat map for the page. @return an object; NULL without memory */
json_t *report_pack_heat(const struct report_heat *heat);

/** Write the data of the page: the table, the runs' properties, and the ratio of each pair. */
firn_rc report_put_page_data(const struct report *report, FILE *out);

/** Write all columns of a run for the page. */
firn_rc report_put_page_columns(const struct report_run *run, FILE *out);

/** Write summary.csv. */
void report_write_summary_csv(const struct report *report, FILE *out);

/** Write a run's intervals-*.csv. */
void report_write_intervals_csv(const struct report_run *run, FILE *out);

/* ---- Pictures: pictures.c, gnuplot.c ---- */

enum { PICTURE_NAME_BYTES = 64 };

/** Name picture `number` without its ending; false when there is none of that number. */
bool report_picture_name(const struct report *report, unsigned number,
                         char name[PICTURE_NAME_BYTES]);

/** Write the gnuplot script of all pictures, data included. */
void report_write_script(const struct report *report, FILE *out);

/** Draw by gnuplot, in the directory that holds pictures.gp. Failing is a warning, no error. */
void report_run_gnuplot(const char *directory);

#endif
