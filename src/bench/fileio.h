/*
 * fileio.h -- the fileio workload: sysbench's file tests, measured I/O by I/O.
 *
 * fileio_prepare makes files test_file.0, test_file.1, ... in a directory, fileio_run reads and
 * writes them, fileio_verify proves what validating runs have written, fileio_cleanup removes them.
 * The directory is locked meanwhile. A configuration starts from fileio_config_defaults, which are
 * sysbench's; its fields have the types that option tables bind to.
 *
 * A mapped run (FILEIO_MMAP) handles SIGBUS for the process: one at a time.
 *
 * All functions validate the configuration before they touch a file (FIRN_E_INVALID), and say what
 * is wrong in terms of the command's options.
 */
#ifndef FIRN_BENCH_FILEIO_H
#define FIRN_BENCH_FILEIO_H

#include "bench/distribution.h"
#include "bench/result.h"
#include "bench/runner.h"
#include "io/io.h"

enum fileio_mode {
    FILEIO_SEQWR,   /* write new files from the beginning to the end, and again */
    FILEIO_SEQREWR, /* the same over the files that are there */
    FILEIO_SEQRD,
    FILEIO_RNDRD,
    FILEIO_RNDWR,
    FILEIO_RNDRW,
    FILEIO_MODE_COUNT, /* none chosen */
};

enum fileio_io_mode { FILEIO_SYNC, FILEIO_ASYNC, FILEIO_MMAP };

/** Bits of fileio_config.extra_flags, in sysbench's order. */
enum fileio_flags { FILEIO_FLAG_SYNC = 1, FILEIO_FLAG_DSYNC = 2, FILEIO_FLAG_DIRECT = 4 };

enum fileio_fsync_mode { FILEIO_FSYNC, FILEIO_FDATASYNC };

/** Kinds of operations, as the meter and the results number them. */
enum fileio_kind { FILEIO_READ, FILEIO_WRITE, FILEIO_SYNCING, FILEIO_KIND_COUNT };

/** Sizes in bytes, times in ns. Texts are borrowed. */
struct fileio_config {
    const char *directory;
    uint64_t file_num;
    uint64_t file_block_size;
    uint64_t file_total_size;
    int file_test_mode;   /* enum fileio_mode */
    int file_io_mode;     /* enum fileio_io_mode */
    uint64_t io_depth;    /* requests under way in each thread, in async mode */
    int io_backend;       /* enum io_backend */
    unsigned extra_flags; /* enum fileio_flags */
    uint64_t fsync_freq;  /* all files are synced after so many reads and writes; 0: never */
    bool fsync_all;       /* each write is synced before it counts; the two others are then off */
    bool fsync_end;       /* all files are synced after the run */
    int fsync_mode;       /* enum fileio_fsync_mode */
    uint64_t merged_requests; /* blocks in one request of the sequential modes; 0 as 1 */
    double rw_ratio;          /* reads for each write, in rndrw */

    uint64_t threads;
    uint64_t events; /* 0: no limit */
    uint64_t time_ns;
    uint64_t warmup_ns;
    uint64_t interval_ns; /* of measuring, at least 10 ms */
    uint64_t shutdown_ns; /* as runner_options.shutdown_ns */
    uint64_t thread_stack_bytes;
    double rate;           /* operations/s, open loop; 0: closed loop */
    int rate_distribution; /* 0 exponential gaps, 1 equal ones */
    bool validate;
    uint64_t rand_seed; /* 0: from the time */
    int rand_type;      /* enum distribution_kind */
    uint64_t rand_spec_iter;
    double rand_spec_pct;
    double rand_spec_res;
    double rand_pareto_h;
    double rand_zipfian_exp;

    const char *device; /* a device model's name, see model_find; NULL: the real device */
    double time_scale;  /* model time against real time; 1 as a rule, 0 for a virtual clock */
};

/** Set everything to sysbench's defaults; the directory is "." and the interval 1 s. */
void fileio_config_defaults(struct fileio_config *config);

/** @return FIRN_OK, or FIRN_E_INVALID with what cannot be, or not together. A run needs a test
 * mode, the others do not. */
firn_rc fileio_config_check(const struct fileio_config *config, bool for_run);

/** @return the size of each file in bytes. */
uint64_t fileio_file_size(const struct fileio_config *config);

/** What a caller is told meanwhile; every function may be NULL. */
struct fileio_callbacks {
    /** prepare: a file is begun. `what` is "Creating", "Extending existing", "Reusing existing",
     * "Rewriting existing" or "Shortening existing". */
    void (*file)(const char *what, const char *name, void *context);
    /** prepare and verify: bytes done of all that are to be. Called for each MiB or so. */
    void (*progress)(uint64_t done_bytes, uint64_t total_bytes, void *context);
    /** verify: a bad block, as a sentence with file and offset. */
    void (*bad_block)(const char *text, void *context);
    /** run: the files are open; the workers begin, with the warm-up if there is one. */
    void (*started)(void *context);
    /** run: an interval is over. */
    void (*interval)(const struct meter_interval *interval, const struct runner_backlog *backlog,
                     void *context);
    void *context;
    const atomic_bool *stop; /* set it to end what goes on; or NULL */
};

/**
 * Make the files, or what of them is missing; with validate, all their blocks are written anew.
 *
 * Without enough free space nothing is begun; when space runs out all the same, what was made is
 * removed. A stopped preparation leaves what there is, for the next one to go on.
 *
 * @param written_bytes  set on success
 * @return FIRN_OK; FIRN_E_STOPPED (callbacks->stop); FIRN_E_BUSY when another run has the
 *         directory; FIRN_E_EXISTS when it holds more files than file_num; FIRN_E_NOSPACE, ...
 */
firn_rc fileio_prepare(const struct fileio_config *config, const struct fileio_callbacks *callbacks,
                       uint64_t *written_bytes);

/** Remove the files. @param removed  set on success: how many there were. */
firn_rc fileio_cleanup(const struct fileio_config *config, uint64_t *removed);

/**
 * Read every block of the files and prove that each is a whole block written to just this place by
 * a prepare or run with validate.
 *
 * @param blocks  set when all blocks were read: how many
 * @param bad     set likewise: how many of them are not sound; each was given to bad_block
 * @return FIRN_OK also when blocks are bad; else why they could not be read
 */
firn_rc fileio_verify(const struct fileio_config *config, const struct fileio_callbacks *callbacks,
                      uint64_t *blocks, uint64_t *bad);

/** What came out of a run. */
struct fileio_outcome {
    struct runner_outcome run;
    uint64_t final_syncs; /* after the run, by fsync_end; not part of run */
    uint64_t final_sync_ns;
    uint64_t seed;     /* in force */
    char storage[128]; /* what stood under the files, as io_system_describe */
    enum io_backend backend;
    bool direct;    /* were the files really read and written past the page cache? */
    char model[64]; /* "" on the real device */
    double time_scale;
};

/**
 * Run the test on files that fileio_prepare made.
 *
 * @param outcome  filled on success; give it back with fileio_outcome_free
 * @return FIRN_OK, also when callbacks->stop ended it; FIRN_E_INVALID; FIRN_E_NOT_FOUND,
 * FIRN_E_SHORT or FIRN_E_EXISTS when the files are not as the configuration says; FIRN_E_BUSY;
 *         FIRN_E_CORRUPT when validate found a bad block; what I/O says
 */
firn_rc fileio_run(const struct fileio_config *config, const struct fileio_callbacks *callbacks,
                   struct fileio_outcome *outcome);
void fileio_outcome_free(struct fileio_outcome *outcome);

/** Fill the parts of a result's run that an outcome holds: all but name, group, setup and extra.
 * The outcome must live until result_add is done. */
void fileio_outcome_result(const struct fileio_outcome *outcome, struct result_run *run);

/** @return "rndrw", "async", ... as the options are written; static. */
const char *fileio_mode_name(enum fileio_mode mode);
const char *fileio_io_mode_name(enum fileio_io_mode io_mode);

#endif
