/*
 * runner.h -- carries a workload: worker threads, a common start, warm-up, pacing, intervals, the
 * end.
 *
 * The runner knows nothing of what an operation is. A workload is one function that each worker
 * thread runs: it sets itself up, meets the others at runner_ready(), asks runner_next() before
 * each operation whether to go on, and gives each completed one to runner_record(). Meanwhile the
 * calling thread closes an interval at a time, samples the machine, and reports.
 *
 * Closed loop: a worker may always go on until time, events or a signal end the run. Open loop
 * (rate_per_s): operations have schedules, one stream for all workers; whoever is free claims the
 * earliest, so the workers serve one queue in order of arrival. When they do not keep up, the
 * schedule runs ahead of them: that is told (struct runner_backlog) and seen in the response times,
 * and is no error.
 *
 * On a virtual clock all workers and the calling thread join the clock; a worker waits by nothing
 * but runner_wait() and requests of an io_system on the same clock.
 */
#ifndef FIRN_BENCH_RUNNER_H
#define FIRN_BENCH_RUNNER_H

#include "base/clock.h"
#include "base/rc.h"
#include "bench/host.h"
#include "bench/judge.h"
#include "bench/meter.h"
#include "bench/series.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct runner;
struct runner_worker;

/** How far an open loop is behind its schedule; all 0 in a closed loop. */
struct runner_backlog {
    uint64_t queue_length; /* operations that are due and not begun, from the rate and behind_ns */
    unsigned concurrency;  /* operations begun and not completed */
    uint64_t behind_ns;    /* how long the oldest of the queue has been due */
};

/** What the calling thread is told meanwhile; every function may be NULL. */
struct runner_callbacks {
    /** All workers are ready and begin; the warm-up first if there is one. */
    void (*started)(void *context);
    /** An interval after the warm-up is over. It is valid for the call. */
    void (*interval)(const struct meter_interval *interval, const struct runner_backlog *backlog,
                     void *context);
    void *context;
};

/** Body of a worker thread. FIRN_OK, or a failure that ends the run. */
typedef firn_rc runner_function(struct runner_worker *worker, void *context);

/** A workload, as the runner sees it. */
struct runner_workload {
    const char *kinds[METER_KINDS_MAX]; /* its operations; ends with NULL or the array */
    unsigned unjudged_kind; /* not part of the judged rate, as syncs; METER_KINDS_MAX for none */
    runner_function *work;
    void *context;
};

struct runner_options {
    struct clock *clock;
    const char *directory; /* whose device is sampled */
    unsigned threads;
    size_t thread_stack_bytes; /* 0: the system's default */
    uint64_t warmup_ns;        /* run before the measuring, not measured */
    uint64_t time_ns;          /* of measuring; 0: no limit */
    uint64_t events;           /* operations to measure; 0: no limit */
    uint64_t shutdown_ns; /* workers not back so long after time_ns are abandoned; UINT64_MAX: never
                           */
    double rate_per_s;    /* open loop, all workers together; 0: closed loop */
    bool rate_even;       /* equal gaps; otherwise exponential ones (Poisson arrivals) */
    uint64_t seed;        /* of the arrivals */
    uint64_t interval_ns; /* at least 10 ms */
    const atomic_bool *stop; /* ends the run soon after somebody sets it; or NULL */
    struct runner_callbacks callbacks;
};

/** Why a run ended. */
enum runner_end {
    RUNNER_END_TIME,
    RUNNER_END_EVENTS,
    RUNNER_END_STOPPED,   /* options.stop was set */
    RUNNER_END_ABANDONED, /* after shutdown_ns some workers still hung */
};

/** What a worker did after the warm-up. */
struct runner_worker_outcome {
    uint64_t operations;
    uint64_t busy_ns; /* sum of its operations' latencies (open loop: response times) */
};

struct runner_outcome {
    enum runner_end end;
    uint64_t start_unix_ms;             /* when measuring started */
    uint64_t elapsed_ns;                /* from there to the last completion */
    const struct meter_interval *total; /* the latencies' histograms are exact over the whole run */
    struct series *series;
    struct host_sample *host; /* series->count of them */
    char host_device[48];
    struct judgement judgement;
    char judgement_text[1024];
    struct runner_worker_outcome *workers;
    unsigned worker_count;
    unsigned abandoned;            /* workers still hanging */
    struct runner_backlog backlog; /* at the end */
    struct meter *meter;           /* owns total */
};

/**
 * Run a workload and wait for its end.
 *
 * @param outcome  filled on success; give it back with runner_outcome_free. Not filled when a
 *                 worker failed.
 * @return FIRN_OK; FIRN_E_NOMEM; FIRN_E_INVALID (an option out of range); what the first failing
 *         worker returned, with its error text
 */
firn_rc runner_run(const struct runner_options *options, const struct runner_workload *workload,
                   struct runner_outcome *outcome);

/** Free what an outcome holds. After RUNNER_END_ABANDONED what hanging workers may touch stays; the
 * process should end soon. */
void runner_outcome_free(struct runner_outcome *outcome);

/* ---- For workers ---- */

/** May an operation begin? */
enum runner_turn {
    RUNNER_GO,
    RUNNER_WAIT, /* open loop: not before the schedule that was stored; runner_wait, or poll on */
    RUNNER_STOP,
};

/** A worker's side of the runner. The fields are the runner's. */
struct runner_worker {
    struct runner *runner;
    struct meter_worker *meter;
    const atomic_bool *stop;
    uint64_t measure_ns;  /* what starts earlier is warm-up */
    uint64_t deadline_ns; /* nothing begins from here on */
    bool plain;           /* closed loop without a limit of events */
    bool arrived;         /* at runner_ready */
    bool has_arrival;     /* an arrival was claimed whose time has not come */
    uint64_t arrival_ns;
    unsigned number;
    _Atomic uint64_t begun;     /* operations let go, for the concurrency */
    _Atomic uint64_t completed; /* of those */
    struct runner_worker_outcome outcome;
};

/** @return the worker's number, 0 to threads - 1. */
unsigned runner_worker_number(const struct runner_worker *worker);

/**
 * Meet the other workers after setting up; the run's time starts here.
 *
 * @param now_ns  set on true: the clock's time
 * @return false when the run will not start since another worker failed: clean up and return
 * FIRN_OK
 */
bool runner_ready(struct runner_worker *worker, uint64_t *now_ns);

/** @return whether the run is to end before its time: a worker failed or somebody asked for it. */
static inline bool runner_is_stopped(const struct runner_worker *worker)
{
    return atomic_load_explicit(worker->stop, memory_order_relaxed);
}

/** runner_next() for limited and open-loop runs. */
enum runner_turn runner_next_paced(struct runner_worker *worker, uint64_t now_ns,
                                   uint64_t *scheduled_ns);

/**
 * Ask for the next operation.
 *
 * @param now_ns        the clock's time, as fresh as the caller happens to have it
 * @param scheduled_ns  set on RUNNER_GO: when it should begin (closed loop: now_ns); on
 *                      RUNNER_WAIT: when to ask again
 */
static inline enum runner_turn runner_next(struct runner_worker *worker, uint64_t now_ns,
                                           uint64_t *scheduled_ns)
{
    if (now_ns >= worker->deadline_ns || atomic_load_explicit(worker->stop, memory_order_relaxed))
        return RUNNER_STOP;
    if (!worker->plain)
        return runner_next_paced(worker, now_ns, scheduled_ns);
    *scheduled_ns = now_ns;
    return RUNNER_GO;
}

/** Wait until a time, the run's end, or a stop; whichever is first. @return the clock's time. */
uint64_t runner_wait(struct runner_worker *worker, uint64_t until_ns);

/**
 * Record a completed operation. Each RUNNER_GO has one record that counts (counted = true); what an
 * operation does besides, as the sync that makes a write durable, is recorded with counted = false.
 *
 * @param scheduled_ns  what runner_next stored
 * @param start_ns      when it began; done_ns when it was complete
 */
static inline void runner_record(struct runner_worker *worker, unsigned kind, bool counted,
                                 uint64_t scheduled_ns, uint64_t start_ns, uint64_t done_ns,
                                 uint64_t bytes)
{
    meter_record(worker->meter, kind, scheduled_ns, start_ns, done_ns, bytes);
    if (!counted)
        return;
    if (!worker->plain)
        atomic_store_explicit(&worker->completed,
                              atomic_load_explicit(&worker->completed, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    if (start_ns < worker->measure_ns)
        return;
    worker->outcome.operations++;
    worker->outcome.busy_ns += done_ns - scheduled_ns;
}

#endif
