/*
 * workload.h -- what is done to an engine, and what is measured of it.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "kv.h"

enum work {
    WORK_FILL,      /* rows in random key order, 1,000 a transaction, by one thread */
    WORK_GET,       /* a random row */
    WORK_SCAN,      /* all rows in key order, again and again */
    WORK_INCREMENT, /* read a random row, change it, write it */
    WORK_INSERT,    /* a new row with a random key */
    WORK_CRASH,     /* overwrite random rows until the log has crash_log_bytes, then kill -9 */
    WORK_RECOVER,   /* open after that, get the last acknowledged row */
};

struct workload {
    enum work work;
    uint64_t rows; /* that are there, or are to be filled in */
    unsigned threads;
    double seconds;      /* how long, unless */
    uint64_t ops;        /* so many operations a thread are wanted; 0: by time */
    uint64_t warm_ops;   /* the same work before, not counted: so many operations, and then */
    double warm_seconds; /* so long */
    uint64_t seed;       /* of the choice of rows; new rows differ between seeds */
    uint64_t crash_log_bytes;
};

struct figures {
    uint64_t ops;
    double seconds;
    double cpu_seconds; /* user and system, of all threads */
    uint64_t syncs;
    uint64_t read_bytes; /* from the device, as the kernel counts them for the process */
    uint64_t write_bytes;
    double worst_ms; /* the longest operation; writes only */
    double close_seconds;
    uint64_t close_write_bytes; /* write_bytes and what closing added */
    uint64_t log_bytes;         /* WORK_CRASH, WORK_RECOVER */
    uint64_t memory_peak_bytes; /* resident */
};

/** Open the store, do the work, close it. WORK_CRASH does not return. */
void workload_run(const struct kv_driver *driver, const struct kv_options *options,
                  const struct workload *workload, struct figures *figures);

#endif
