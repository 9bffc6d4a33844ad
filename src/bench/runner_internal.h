/*
 * runner_internal.h -- what the runner's two halves share: runner.c starts, watches and ends the
 * workers; runner_pace.c lets their operations go.
 *
 * Lock order: runner.mutex before schedule.mutex. Both are held for moments only, and nobody waits
 * for the clock with one of them, so they do not hold up virtual time.
 */
#ifndef FIRN_BENCH_RUNNER_INTERNAL_H
#define FIRN_BENCH_RUNNER_INTERNAL_H

#include "base/rng.h"
#include "bench/runner.h"

#include <pthread.h>

/** The arrivals of an open loop, drawn one ahead. */
struct runner_schedule {
    pthread_mutex_t mutex;
    struct rng rng;
    double gap_ns; /* mean */
    bool even;
    double next_ns; /* the first arrival nobody has claimed, since start_ns */
};

struct runner {
    struct runner_options options;
    struct runner_workload workload;
    struct meter *meter;
    struct series *series;
    struct host_sampler *host;
    struct host_sample *samples;
    unsigned sample_capacity;
    struct runner_worker *workers;
    pthread_t *threads;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned arrived; /* workers that are ready or have failed before */
    unsigned running; /* workers that have not returned */
    bool called_off;  /* some worker failed before the start: nobody starts */
    bool go;
    bool watching; /* from the start until the instruments go into the outcome */
    firn_rc rc;    /* of the first failure ... */
    char error_text[1024];
    const struct meter_interval *last; /* closed by the last worker */
    uint64_t finished_ns;              /* when */

    atomic_bool stop;
    atomic_bool events_done; /* the limit of events was reached */
    bool stop_asked;         /* options.stop was seen */
    uint64_t start_ns, measure_ns, deadline_ns;
    uint64_t start_unix_ms;
    _Atomic uint64_t events_claimed;
    struct runner_schedule schedule;
};

/** Workers look for a stop so often while they wait; real time. */
#define RUNNER_SLICE_NS (50 * NS_PER_MS)

/** @return a wait's next stretch: the time until which nobody needs to look for a stop. */
uint64_t runner_slice_end(const struct runner *runner, uint64_t now_ns, uint64_t until_ns);

/** How far the open loop is behind at a time. */
void runner_backlog_at(struct runner *runner, uint64_t now_ns, struct runner_backlog *backlog);

#endif
