/*
 * result.h -- a result file: JSON as docs/result.schema.json lays down.
 *
 * A file holds one or many runs, each with its setup, its intervals, its host columns, its summary
 * and the judgement. The writer builds it run by run and replaces the file in one rename, so that
 * an interrupted survey leaves the runs it finished.
 */
#ifndef FIRN_BENCH_RESULT_H
#define FIRN_BENCH_RESULT_H

#include "bench/host.h"
#include "bench/judge.h"
#include "bench/meter.h"
#include "bench/series.h"

#include <jansson.h>

struct result;

/**
 * Start a result. Texts may hold any bytes, here and in runs: what is not UTF-8 is written as \xNN.
 *
 * @param title      what was measured, for people
 * @param argv       the command line; words that hold a password must have been blanked
 * @param directory  where the files lie, for the machine's description
 * @param result     set on success; give it back with result_close
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc result_open(const char *title, int argc, char *const *argv, const char *directory,
                    struct result **result);

/** Free a result; NULL is allowed. */
void result_close(struct result *result);

/** One finished run, everything borrowed for the call but `setup`, whose reference is taken. */
struct result_run {
    const char *name; /* unique in the file: "random read 16 KiB, async, depth 32" */
    const char
        *group; /* runs that differ in one number are a group: "random read by threads"; or NULL */
    double group_x;         /* that number */
    const char *group_axis; /* what it is: "threads" */
    const char *workload;   /* "fileio" */
    const char *storage;    /* io_system_describe */
    const char *model;      /* the device model, or NULL on a real device */
    double time_scale;      /* of the clock; 0 for virtual */
    json_t *setup;          /* object: option name (units last) -> value */
    uint64_t start_unix_ms;
    const char *const *kinds;
    const struct series *series;
    const struct meter_interval *total;
    const struct host_sample *host; /* one for each interval of the series; or NULL */
    const char *host_device;
    const struct judgement *judgement;
    const char *judgement_text;
    json_t *extra; /* object or NULL: the workload's own figures; reference taken */
};

/**
 * Add a run. Kinds that never completed an operation are left out, unless none ever did.
 *
 * @return FIRN_OK; FIRN_E_EXISTS when a run of this name is in it already; FIRN_E_NOMEM
 */
firn_rc result_add(struct result *result, const struct result_run *run);

/**
 * Say what the runs together mean, in place of an earlier verdict.
 *
 * @param verdict  an array as docs/result.schema.json has it, whose reference is taken; or NULL
 * @return FIRN_OK; FIRN_E_NOMEM, also for NULL
 */
firn_rc result_set_verdict(struct result *result, json_t *verdict);

/**
 * Write the file: a temporary beside it, synced, renamed; so there is the old file or the new one,
 * whatever happens. A path that is no regular file (a pipe, /dev/stdout) is written to instead.
 *
 * @return FIRN_OK, or as files fail; then nothing is left behind
 */
firn_rc result_write(const struct result *result, const char *path);

/** @return the whole document; borrowed. For --json on standard output. */
json_t *result_document(const struct result *result);

#endif
