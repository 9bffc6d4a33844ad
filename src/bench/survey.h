/*
 * survey.h -- what a database would find on a device: the plan of measurements and their meaning.
 *
 * A survey is a list of phases, each one fileio run. The plan says what each does and for how long;
 * the verdict turns their figures into sentences a DBA can act on. Neither touches a file: the
 * command runs the phases between.
 */
#ifndef FIRN_BENCH_SURVEY_H
#define FIRN_BENCH_SURVEY_H

#include "bench/fileio.h"
#include "bench/host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What a phase does. */
enum survey_work {
    SURVEY_APPEND,    /* 4 KiB appended, buffered, then fdatasync: how a binary log grows */
    SURVEY_OVERWRITE, /* 16 KiB written in place, direct, then fdatasync: a preallocated redo log */
    SURVEY_SYNC_MANY, /* the same by several threads, each with files of its own */
    SURVEY_SEQ_READ,
    SURVEY_SEQ_WRITE,
    SURVEY_READ_THREADS, /* 16 KiB at random, one request a thread */
    SURVEY_READ_DEPTH,   /* the same by one thread with a queue */
    SURVEY_WRITE_THREADS,
    SURVEY_WRITE_DEPTH,
    SURVEY_MIXED,  /* reads 3 : 2 writes, a sync every 100 requests: a busy server */
    SURVEY_STEADY, /* random writes for a minute */
    SURVEY_WORK_COUNT,
};

enum { SURVEY_PHASES_MAX = 48 };

/** One measurement. */
struct survey_phase {
    enum survey_work work;
    char name[80];        /* unique in the survey: "random read, depth 32" */
    const char *group;    /* phases that differ in threads or depth only share it; else NULL */
    const char *axis;     /* what they differ in: "threads" or "depth"; else NULL */
    unsigned threads;     /* workers */
    unsigned depth;       /* requests a worker keeps under way; 0: synchronous calls */
    uint32_t block_bytes; /* of a request */
    uint64_t warmup_ns;   /* run but not measured */
    uint64_t time_ns;     /* measured */
    uint64_t interval_ns;
};

/**
 * Lay down the phases in the order of running.
 *
 * @param time_ns  what all phases together may take, warm-ups included
 * @param phases   filled
 * @return how many, at most SURVEY_PHASES_MAX
 */
unsigned survey_plan(uint64_t time_ns, struct survey_phase phases[SURVEY_PHASES_MAX]);

/** What all phases of a survey have in common. */
struct survey_target {
    const char *log_directory;  /* a file that grows to log_bytes at most */
    const char *data_directory; /* the others, of data_bytes in data_files files */
    uint64_t log_bytes, data_bytes, data_files;
    int io_backend;     /* enum io_backend */
    const char *device; /* a model, or NULL; see fileio_config */
    double time_scale;
    uint64_t seed; /* of the random blocks; not 0 */
};

/** Set a configuration to what fileio_prepare and fileio_cleanup need for the survey's files. The
 * log file needs no preparing: the phase that lets it grow makes it.
 *
 * @param log  the log file rather than the data files
 */
void survey_config_files(const struct survey_target *target, bool log,
                         struct fileio_config *config);

/** Set a configuration to what a phase does. */
void survey_config_phase(const struct survey_target *target, const struct survey_phase *phase,
                         struct fileio_config *config);

/** One kind of operation in a phase; all 0 where it does not occur. */
struct survey_rate {
    double per_s;
    double bytes_per_s;
    double p50_us, p99_us, max_us;
};

/** What a phase measured. */
struct survey_outcome {
    bool measured; /* false: not reached, and nothing else is set */
    struct survey_rate read, write, sync;
    double relative_variation;   /* of the intervals' rates */
    double longest_silence_ms;   /* nothing completed */
    double stalled_s, slowed_s;  /* judge.h */
    double start_rate, end_rate; /* median operations/s in the first and the last quarter */
    double cpu_idle_percent;     /* of all processors; iowait counts as idle */
    double cpu_steal_percent;
    double process_percent;    /* our own processor time: 200 is two busy processors */
    char judgement_text[1024]; /* sentences */
};

/** Take from a fileio run what the summary and the verdict need. FIRN_E_NOMEM. */
firn_rc survey_take(const struct fileio_outcome *run, struct survey_outcome *outcome);

/** Everything the verdict looks at. */
struct survey_findings {
    const struct survey_phase *phases;
    const struct survey_outcome *outcomes; /* one for each phase */
    unsigned count;
    const struct host_machine *machine;
    uint64_t size_bytes; /* of the files */
    bool direct;         /* the page cache was passed by */
    const char *model;   /* the device model, or NULL on a real device */
};

enum survey_severity { SURVEY_TELLS, SURVEY_WARNS };

enum { SURVEY_LINES_MAX = 20 };

/** A verdict: sentences by importance, warnings last. */
struct survey_verdict {
    unsigned count;
    struct {
        enum survey_severity severity;
        const char *topic; /* one or two words: "commits", "random reads" */
        char text[1400];
    } lines[SURVEY_LINES_MAX];
};

/** Say what the findings mean. Phases that were not measured are passed over. */
void survey_judge(const struct survey_findings *findings, struct survey_verdict *verdict);

/** @return the verdict as a result file holds it, to be given back with json_decref; NULL without
 * memory. */
json_t *survey_verdict_json(const struct survey_verdict *verdict);

/** @return the outcome of the only phase of this work, or of the one with `x` threads or depth;
 * NULL if it was not measured. */
const struct survey_outcome *survey_find(const struct survey_findings *findings,
                                         enum survey_work work, unsigned x);

#endif
