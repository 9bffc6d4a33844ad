#include "base/check.h"
#include "bench/runner_internal.h"

/* Each worker may claim one arrival ahead of its time. Free workers so claim the next ones in
   order, and a busy one claims none: they all serve one queue first come, first served. */
static uint64_t claim_arrival(struct runner *runner)
{
    struct runner_schedule *schedule = &runner->schedule;
    pthread_mutex_lock(&schedule->mutex);
    double arrival_ns = schedule->next_ns;
    schedule->next_ns +=
        schedule->even ? schedule->gap_ns : rng_exponential(&schedule->rng, schedule->gap_ns);
    pthread_mutex_unlock(&schedule->mutex);
    return runner->start_ns + (uint64_t)arrival_ns;
}

/* Is there one more in the limit of events? The warm-up is not limited. */
static bool claim_event(struct runner *runner, uint64_t scheduled_ns)
{
    if (runner->options.events == 0 || scheduled_ns < runner->measure_ns)
        return true;
    if (atomic_fetch_add_explicit(&runner->events_claimed, 1, memory_order_relaxed) <
        runner->options.events)
        return true;
    atomic_store_explicit(&runner->events_done, true, memory_order_relaxed);
    return false;
}

enum runner_turn runner_next_paced(struct runner_worker *worker, uint64_t now_ns,
                                   uint64_t *scheduled_ns)
{
    struct runner *runner = worker->runner;
    if (!worker->has_arrival) {
        worker->arrival_ns = runner->options.rate_per_s > 0 ? claim_arrival(runner) : now_ns;
        if (!claim_event(runner, worker->arrival_ns))
            return RUNNER_STOP;
    }
    *scheduled_ns = worker->arrival_ns;
    worker->has_arrival = worker->arrival_ns > now_ns;
    if (worker->has_arrival)
        return RUNNER_WAIT;
    uint64_t begun = atomic_load_explicit(&worker->begun, memory_order_relaxed);
    atomic_store_explicit(&worker->begun, begun + 1, memory_order_relaxed);
    return RUNNER_GO;
}

uint64_t runner_slice_end(const struct runner *runner, uint64_t now_ns, uint64_t until_ns)
{
    double scale = clock_scale(runner->options.clock);
    if (scale == 0 || until_ns <= now_ns)
        return until_ns; /* virtual time passes as soon as everybody waits */
    uint64_t slice_ns = (uint64_t)((double)RUNNER_SLICE_NS * scale);
    return until_ns - now_ns > slice_ns ? now_ns + slice_ns : until_ns;
}

uint64_t runner_wait(struct runner_worker *worker, uint64_t until_ns)
{
    struct clock *clock = worker->runner->options.clock;
    if (until_ns > worker->deadline_ns)
        until_ns = worker->deadline_ns;
    uint64_t now_ns = clock_now(clock);
    while (now_ns < until_ns && !runner_is_stopped(worker)) {
        clock_wait_until(clock, runner_slice_end(worker->runner, now_ns, until_ns));
        now_ns = clock_now(clock);
    }
    return now_ns;
}

void runner_backlog_at(struct runner *runner, uint64_t now_ns, struct runner_backlog *backlog)
{
    *backlog = (struct runner_backlog){0};
    if (runner->options.rate_per_s == 0)
        return;
    if (now_ns > runner->deadline_ns) /* what arrives later is nobody's work any more */
        now_ns = runner->deadline_ns;
    pthread_mutex_lock(&runner->schedule.mutex);
    uint64_t next_ns = runner->start_ns + (uint64_t)runner->schedule.next_ns;
    pthread_mutex_unlock(&runner->schedule.mutex);
    if (next_ns < now_ns) {
        backlog->behind_ns = now_ns - next_ns;
        backlog->queue_length =
            1 + (uint64_t)((double)backlog->behind_ns / runner->schedule.gap_ns);
    }
    uint64_t under_way = 0;
    for (unsigned i = 0; i < runner->options.threads; i++) {
        struct runner_worker *worker = &runner->workers[i];
        /* In this order: a completion is never seen without its beginning. */
        uint64_t completed = atomic_load_explicit(&worker->completed, memory_order_acquire);
        uint64_t begun = atomic_load_explicit(&worker->begun, memory_order_acquire);
        under_way += begun - completed;
    }
    backlog->concurrency = (unsigned)under_way;
}
