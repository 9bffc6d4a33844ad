#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "bench/runner_internal.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- Setting up and taking down ---- */

static void runner_free(struct runner *runner)
{
    memory_free(runner->threads);
    memory_free(runner->workers);
    memory_free(runner->samples);
    host_sampler_close(runner->host);
    series_close(runner->series);
    meter_close(runner->meter);
    pthread_mutex_destroy(&runner->schedule.mutex);
    pthread_cond_destroy(&runner->changed);
    pthread_mutex_destroy(&runner->mutex);
    memory_free(runner);
}

static firn_rc check_options(const struct runner_options *options)
{
    if (options->threads == 0 || options->threads > 65536)
        return rc_raise(FIRN_E_INVALID, "a run needs 1 to 65536 threads");
    if (options->interval_ns < 10 * NS_PER_MS)
        return rc_raise(FIRN_E_INVALID, "an interval must be at least 10 ms");
    if (!(options->rate_per_s >= 0) || options->rate_per_s > 1e9)
        return rc_raise(FIRN_E_INVALID, "a rate must be from 0 to 1e9 a second");
    return FIRN_OK;
}

static void init_locks(struct runner *runner)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&runner->mutex, NULL);
    pthread_cond_init(&runner->changed, &attributes);
    pthread_mutex_init(&runner->schedule.mutex, NULL);
    pthread_condattr_destroy(&attributes);
}

static firn_rc open_instruments(struct runner *runner)
{
    const struct runner_options *options = &runner->options;
    struct meter_options meter = {
        .clock = options->clock,
        .workers = options->threads,
        .interval_ns = options->interval_ns,
        .silence_min_ns = JUDGE_SILENCE_MIN_NS,
        .open_loop = options->rate_per_s > 0,
    };
    memcpy(meter.kinds, runner->workload.kinds, sizeof(meter.kinds));
    FIRN_TRY(meter_open(&meter, &runner->meter));
    FIRN_TRY(series_open(meter_kind_count(runner->meter), options->interval_ns, meter.open_loop,
                         &runner->series));
    return host_sampler_open(options->directory, &runner->host);
}

static firn_rc runner_create(const struct runner_options *options,
                             const struct runner_workload *workload, struct runner **runner)
{
    firn_rc rc;
    FIRN_TRY(check_options(options));
    struct runner *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a run");
    made->options = *options;
    made->workload = *workload;
    init_locks(made);
    FIRN_TRY_GOTO(open_instruments(made), failed);
    made->workers = memory_zalloc(options->threads, sizeof(*made->workers));
    made->threads = memory_zalloc(options->threads, sizeof(*made->threads));
    rc = FIRN_E_NOMEM;
    if (made->workers == NULL || made->threads == NULL) {
        rc_raise(rc, "no memory for %u worker threads", options->threads);
        goto failed;
    }
    made->schedule.even = options->rate_even;
    rng_init(&made->schedule.rng, options->seed);
    if (options->rate_per_s > 0)
        made->schedule.gap_ns = (double)NS_PER_S / options->rate_per_s;
    for (unsigned i = 0; i < options->threads; i++)
        made->workers[i] = (struct runner_worker){
            .runner = made,
            .number = i,
            .stop = &made->stop,
            .meter = meter_worker_at(made->meter, i),
            .plain = options->rate_per_s == 0 && options->events == 0,
        };
    *runner = made;
    return FIRN_OK;
failed:
    runner_free(made);
    return rc;
}

/* ---- Worker threads ---- */

unsigned runner_worker_number(const struct runner_worker *worker)
{
    return worker->number;
}

bool runner_ready(struct runner_worker *worker, uint64_t *now_ns)
{
    struct runner *runner = worker->runner;
    ASSERT(!worker->arrived);
    /* Everybody joins before anybody starts, so that virtual time waits for all. */
    clock_join(runner->options.clock);
    pthread_mutex_lock(&runner->mutex);
    worker->arrived = true;
    runner->arrived++;
    pthread_cond_broadcast(&runner->changed);
    while (!runner->go && !runner->called_off)
        pthread_cond_wait(&runner->changed, &runner->mutex);
    bool go = runner->go;
    pthread_mutex_unlock(&runner->mutex);
    if (go)
        *now_ns = runner->start_ns;
    return go;
}

/* The first failure is the run's; what fails after it may only be its echo. */
static void keep_failure(struct runner *runner, firn_rc rc)
{
    if (rc == FIRN_OK || runner->rc != FIRN_OK)
        return;
    runner->rc = rc;
    snprintf(runner->error_text, sizeof(runner->error_text), "%s", firn_error_text());
    atomic_store(&runner->stop, true);
}

/* The last worker closes the last interval itself, since its end is the run's: the calling thread
   may be asleep for a while yet. */
static void finish_worker(struct runner_worker *worker, firn_rc rc)
{
    struct runner *runner = worker->runner;
    pthread_mutex_lock(&runner->mutex);
    keep_failure(runner, rc);
    if (!worker->arrived) {
        ASSERT(rc != FIRN_OK);
        runner->arrived++;
        runner->called_off = true;
    }
    runner->running--;
    if (runner->running == 0 && runner->watching) {
        runner->finished_ns = clock_now(runner->options.clock);
        if (runner->finished_ns > runner->measure_ns)
            runner->last = meter_tick(runner->meter);
    }
    pthread_cond_broadcast(&runner->changed);
    pthread_mutex_unlock(&runner->mutex);
}

static void *run_worker(void *argument)
{
    struct runner_worker *worker = argument;
    struct clock *clock = worker->runner->options.clock;
    firn_rc rc = worker->runner->workload.work(worker, worker->runner->workload.context);
    bool joined = worker->arrived;
    finish_worker(worker, rc);
    if (joined)
        clock_leave(clock);
    return NULL;
}

/* Starts all threads or, when one cannot be had, none that works. */
static void start_threads(struct runner *runner, unsigned *started)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    int error = 0;
    if (runner->options.thread_stack_bytes != 0)
        error = pthread_attr_setstacksize(&attributes, runner->options.thread_stack_bytes);
    runner->running = runner->options.threads;
    unsigned i = 0;
    for (; error == 0 && i < runner->options.threads; i++) {
        error = pthread_create(&runner->threads[i], &attributes, run_worker, &runner->workers[i]);
        if (error != 0)
            break;
    }
    pthread_attr_destroy(&attributes);
    *started = i;
    if (error == 0)
        return;
    firn_rc rc = rc_raise_errno(error,
                                "cannot start thread %u of %u; try fewer --threads or another "
                                "--thread-stack-size",
                                i + 1, runner->options.threads);
    pthread_mutex_lock(&runner->mutex);
    keep_failure(runner, rc);
    runner->called_off = true;
    runner->arrived += runner->options.threads - i;
    runner->running -= runner->options.threads - i;
    pthread_cond_broadcast(&runner->changed);
    pthread_mutex_unlock(&runner->mutex);
}

/* ---- The calling thread: start, intervals, end ---- */

static uint64_t unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / NS_PER_MS;
}

/* With the mutex held: let everybody begin. */
static void start_workers(struct runner *runner)
{
    const struct runner_options *options = &runner->options;
    if (options->callbacks.started != NULL)
        options->callbacks.started(options->callbacks.context);
    runner->start_ns = clock_now(options->clock);
    runner->measure_ns = runner->start_ns + options->warmup_ns;
    runner->deadline_ns =
        options->time_ns == 0 ? UINT64_MAX : runner->measure_ns + options->time_ns;
    runner->schedule.next_ns =
        options->rate_even ? 0 : rng_exponential(&runner->schedule.rng, runner->schedule.gap_ns);
    for (unsigned i = 0; i < options->threads; i++) {
        runner->workers[i].measure_ns = runner->measure_ns;
        runner->workers[i].deadline_ns = runner->deadline_ns;
    }
    if (options->warmup_ns == 0) {
        runner->start_unix_ms = unix_ms();
        meter_start(runner->meter);
    }
    runner->go = true;
    runner->watching = true;
    pthread_cond_broadcast(&runner->changed);
}

static void look_for_stop(struct runner *runner)
{
    const atomic_bool *asked = runner->options.stop;
    if (asked == NULL || !atomic_load_explicit(asked, memory_order_relaxed))
        return;
    runner->stop_asked = true;
    atomic_store(&runner->stop, true);
}

/* With the mutex held, which is let go meanwhile: wait until a time or until all workers have
   returned. @return whether they have */
static bool wait_for_workers(struct runner *runner, uint64_t until_ns)
{
    struct clock *clock = runner->options.clock;
    for (;;) {
        look_for_stop(runner);
        uint64_t now_ns = clock_now(clock);
        if (runner->running == 0 || now_ns >= until_ns)
            return runner->running == 0;
        uint64_t slice_ns = runner_slice_end(runner, now_ns, until_ns);
        if (clock_is_virtual(clock)) {
            pthread_mutex_unlock(&runner->mutex);
            clock_wait_until(clock, slice_ns);
            pthread_mutex_lock(&runner->mutex);
            continue;
        }
        uint64_t wake_ns =
            clock_now(clock_real()) + (uint64_t)((double)(slice_ns - now_ns) / clock_scale(clock));
        struct timespec wake = {.tv_sec = (time_t)(wake_ns / NS_PER_S),
                                .tv_nsec = (long)(wake_ns % NS_PER_S)};
        pthread_cond_timedwait(&runner->changed, &runner->mutex, &wake);
    }
}

/* With the mutex held: keep a closed interval, with what the machine did in it, and tell of it. */
static void keep_interval(struct runner *runner, const struct meter_interval *interval)
{
    if (runner->series->count == runner->sample_capacity) {
        unsigned capacity = runner->sample_capacity == 0 ? 64 : 2 * runner->sample_capacity;
        struct host_sample *grown =
            memory_realloc(runner->samples, capacity * sizeof(*runner->samples));
        if (grown == NULL) {
            keep_failure(runner, rc_raise(FIRN_E_NOMEM, "no memory for %u intervals", capacity));
            return;
        }
        runner->samples = grown;
        runner->sample_capacity = capacity;
    }
    firn_rc rc = series_append(runner->series, interval);
    if (rc != FIRN_OK) {
        keep_failure(runner, rc);
        return;
    }
    host_sampler_take(runner->host, &runner->samples[runner->series->count - 1]);
    const struct runner_callbacks *callbacks = &runner->options.callbacks;
    if (callbacks->interval == NULL)
        return;
    struct runner_backlog backlog;
    runner_backlog_at(runner, runner->measure_ns + interval->start_ns + interval->length_ns,
                      &backlog);
    callbacks->interval(interval, &backlog, callbacks->context);
}

/* With the mutex held. The border at the deadline is skipped: what is still under way then belongs
   to the last interval, which would otherwise be followed by a sliver. */
static bool watch(struct runner *runner)
{
    uint64_t interval_ns = runner->options.interval_ns;
    uint64_t shutdown_ns = UINT64_MAX;
    if (runner->deadline_ns < UINT64_MAX && runner->options.shutdown_ns < UINT64_MAX)
        shutdown_ns = runner->deadline_ns + runner->options.shutdown_ns;
    uint64_t border_ns = runner->measure_ns;
    for (;;) {
        do
            border_ns += interval_ns;
        while (border_ns == runner->deadline_ns || border_ns <= clock_now(runner->options.clock));
        if (wait_for_workers(runner, border_ns < shutdown_ns ? border_ns : shutdown_ns))
            return true;
        keep_interval(runner, meter_tick(runner->meter));
        if (border_ns >= shutdown_ns)
            return false;
    }
}

/* @return whether all workers came back */
static bool supervise(struct runner *runner)
{
    struct clock *clock = runner->options.clock;
    clock_join(clock);
    pthread_mutex_lock(&runner->mutex);
    while (runner->arrived < runner->options.threads)
        pthread_cond_wait(&runner->changed, &runner->mutex);
    bool all_back = true;
    if (!runner->called_off) {
        start_workers(runner);
        bool early = false; /* stopped in the warm-up: nothing was measured */
        if (runner->options.warmup_ns != 0) {
            early = wait_for_workers(runner, runner->measure_ns);
            runner->start_unix_ms = unix_ms();
            if (!early)
                meter_start(runner->meter);
        }
        struct host_sample before;
        host_sampler_take(runner->host, &before);
        all_back = early || watch(runner);
        if (runner->last != NULL && runner->rc == FIRN_OK)
            keep_interval(runner, runner->last);
    }
    pthread_mutex_unlock(&runner->mutex);
    clock_leave(clock);
    return all_back;
}

/* ---- The outcome ---- */

static enum runner_end why_ended(const struct runner *runner, unsigned abandoned)
{
    if (abandoned > 0)
        return RUNNER_END_ABANDONED;
    if (runner->stop_asked)
        return RUNNER_END_STOPPED;
    return runner->events_done ? RUNNER_END_EVENTS : RUNNER_END_TIME;
}

static firn_rc judge_run(const struct runner *runner, struct runner_outcome *outcome)
{
    unsigned except = runner->workload.unjudged_kind;
    FIRN_TRY(judge_series(runner->series, except < METER_KINDS_MAX ? except : UINT_MAX,
                          &outcome->judgement));
    judge_text(&outcome->judgement, outcome->judgement_text, sizeof(outcome->judgement_text));
    return FIRN_OK;
}

/* Moves what the outcome owns out of the runner. */
static firn_rc make_outcome(struct runner *runner, unsigned abandoned,
                            struct runner_outcome *outcome)
{
    struct runner_outcome made = {.end = why_ended(runner, abandoned), .abandoned = abandoned};
    unsigned threads = runner->options.threads;
    uint64_t end_ns = abandoned > 0 ? clock_now(runner->options.clock) : runner->finished_ns;
    if (end_ns > runner->measure_ns)
        made.elapsed_ns = end_ns - runner->measure_ns;
    made.start_unix_ms = runner->start_unix_ms;
    runner_backlog_at(runner, end_ns, &made.backlog);
    made.workers = memory_zalloc(threads, sizeof(*made.workers));
    if (made.workers == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the outcome of %u threads", threads);
    for (unsigned i = 0; i < threads; i++)
        made.workers[i] = runner->workers[i].outcome;
    made.worker_count = threads;
    firn_rc rc = judge_run(runner, &made);
    if (rc != FIRN_OK) {
        memory_free(made.workers);
        return rc;
    }
    snprintf(made.host_device, sizeof(made.host_device), "%s", host_sampler_device(runner->host));
    made.total = meter_total(runner->meter);
    made.meter = runner->meter;
    made.series = runner->series;
    made.host = runner->samples;
    if (abandoned == 0) /* workers that hang still have it */
        runner->meter = NULL;
    runner->series = NULL;
    runner->samples = NULL;
    *outcome = made;
    return FIRN_OK;
}

firn_rc runner_run(const struct runner_options *options, const struct runner_workload *workload,
                   struct runner_outcome *outcome)
{
    struct runner *runner = NULL;
    unsigned started = 0;
    FIRN_TRY(runner_create(options, workload, &runner));
    start_threads(runner, &started);
    if (!supervise(runner)) {
        /* Threads that hang in the kernel cannot be ended; all they may touch stays. */
        for (unsigned i = 0; i < started; i++)
            pthread_detach(runner->threads[i]);
        pthread_mutex_lock(&runner->mutex);
        unsigned abandoned = runner->running;
        runner->watching = false;
        if (runner->rc != FIRN_OK)
            log_warning("%s", runner->error_text);
        pthread_mutex_unlock(&runner->mutex);
        return make_outcome(runner, abandoned, outcome);
    }
    for (unsigned i = 0; i < started; i++)
        pthread_join(runner->threads[i], NULL);
    firn_rc rc = runner->rc;
    if (rc != FIRN_OK)
        rc_raise(rc, "%s", runner->error_text);
    else
        rc = make_outcome(runner, 0, outcome);
    runner_free(runner);
    return rc;
}

void runner_outcome_free(struct runner_outcome *outcome)
{
    judge_free(&outcome->judgement);
    memory_free(outcome->workers);
    memory_free(outcome->host);
    series_close(outcome->series);
    if (outcome->abandoned == 0)
        meter_close(outcome->meter);
    *outcome = (struct runner_outcome){0};
}
