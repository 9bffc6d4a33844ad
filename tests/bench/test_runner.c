#include "bench/runner.h"

#include "base/memory.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "repeat.h"

/* A workload whose operations only take time on the run's clock. */
struct service {
    struct clock *clock;
    uint64_t service_ns;
    uint64_t slow_until_ns; /* clock time until which an operation takes slow_ns */
    uint64_t slow_ns;
    unsigned failing_worker; /* fails instead of its first operation ... */
    unsigned unready_worker; /* ... or before it is ready; UINT_MAX for none */
    bool hang;               /* worker 0 never returns from its first operation */
    pthread_mutex_t hanging;
    unsigned started, intervals;
    unsigned stop_after; /* intervals; 0: never */
    atomic_bool stop;
    struct runner_backlog worst;
};

static firn_rc serve(struct runner_worker *worker, void *context)
{
    struct service *service = context;
    unsigned number = runner_worker_number(worker);
    uint64_t now_ns = 0;
    if (number == service->unready_worker)
        return rc_raise(FIRN_E_NOMEM, "worker %u is not ready", number);
    if (!runner_ready(worker, &now_ns))
        return FIRN_OK;
    for (;;) {
        uint64_t scheduled_ns = 0;
        enum runner_turn turn = runner_next(worker, now_ns, &scheduled_ns);
        if (turn == RUNNER_STOP)
            return FIRN_OK;
        if (turn == RUNNER_WAIT) {
            now_ns = runner_wait(worker, scheduled_ns);
            continue;
        }
        if (number == service->failing_worker)
            return rc_raise(FIRN_E_IO, "worker %u failed", number);
        if (service->hang && number == 0)
            pthread_mutex_lock(&service->hanging);
        uint64_t start_ns = clock_now(service->clock);
        bool slow = start_ns < service->slow_until_ns;
        clock_wait_until(service->clock,
                         start_ns + (slow ? service->slow_ns : service->service_ns));
        now_ns = clock_now(service->clock);
        runner_record(worker, 0, true, scheduled_ns, start_ns, now_ns, 100);
    }
}

static void note_start(void *context)
{
    ((struct service *)context)->started++;
}

static void note_interval(const struct meter_interval *interval,
                          const struct runner_backlog *backlog, void *context)
{
    struct service *service = context;
    (void)interval;
    if (backlog->behind_ns > service->worst.behind_ns)
        service->worst = *backlog;
    if (++service->intervals == service->stop_after)
        atomic_store(&service->stop, true);
}

static struct service make_service(uint64_t service_ns)
{
    struct service service = {
        .service_ns = service_ns, .failing_worker = UINT32_MAX, .unready_worker = UINT32_MAX};
    assert_int_equal(clock_open_virtual(&service.clock), FIRN_OK);
    return service;
}

static firn_rc run(struct service *service, struct runner_options options,
                   struct runner_outcome *outcome)
{
    struct runner_workload workload = {
        .kinds = {"operation"}, .unjudged_kind = METER_KINDS_MAX, .work = serve};
    workload.context = service;
    options.clock = service->clock;
    options.directory = ".";
    options.stop = &service->stop;
    options.callbacks = (struct runner_callbacks){note_start, note_interval, service};
    if (options.interval_ns == 0)
        options.interval_ns = NS_PER_S;
    if (options.shutdown_ns == 0)
        options.shutdown_ns = UINT64_MAX;
    return runner_run(&options, &workload, outcome);
}

static uint64_t operations(const struct runner_outcome *outcome)
{
    return outcome->total->kinds[0].latency_ns.count;
}

static void a_closed_loop_lasts_as_long_as_asked_for(void **state)
{
    (void)state;
    struct service service = make_service(NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {.threads = 2, .time_ns = 5 * NS_PER_S};
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(outcome.end, RUNNER_END_TIME);
    assert_int_equal(outcome.elapsed_ns, 5 * NS_PER_S);
    assert_int_equal(operations(&outcome), 10000);
    assert_int_equal(outcome.total->kinds[0].bytes, 1000000);
    assert_int_equal(outcome.total->kinds[0].latency_ns.max, NS_PER_MS);
    assert_int_equal(service.started, 1);
    /* Five intervals, each with its share; what completes on a border may count on either side. */
    assert_int_equal(outcome.series->count, 5);
    assert_int_equal(service.intervals, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_in_range(outcome.series->kinds[0].operations[i], 1996, 2004);
    assert_int_equal(outcome.worker_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(outcome.workers[i].operations, 5000);
        assert_int_equal(outcome.workers[i].busy_ns, 5 * NS_PER_S);
    }
    runner_outcome_free(&outcome);
    clock_close(service.clock);
}

static void what_is_under_way_at_the_end_belongs_to_the_last_interval(void **state)
{
    (void)state;
    struct service service = make_service(300 * NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {.threads = 1, .time_ns = 2 * NS_PER_S};
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(operations(&outcome), 7);
    assert_int_equal(outcome.elapsed_ns, 2100 * NS_PER_MS);
    assert_int_equal(outcome.series->count, 2);
    assert_int_equal(outcome.series->length_ns[1], 1100 * NS_PER_MS);
    runner_outcome_free(&outcome);
    clock_close(service.clock);
}

static void a_limit_of_events_is_met_exactly(void **state)
{
    (void)state;
    struct service service = make_service(NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {.threads = 3, .events = 1000};
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(outcome.end, RUNNER_END_EVENTS);
    assert_int_equal(operations(&outcome), 1000);
    assert_int_equal(outcome.elapsed_ns, 334 * NS_PER_MS);
    runner_outcome_free(&outcome);
    clock_close(service.clock);
}

static void the_warm_up_is_not_measured(void **state)
{
    (void)state;
    struct service service = make_service(NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {
        .threads = 2, .warmup_ns = 2 * NS_PER_S, .time_ns = 3 * NS_PER_S};
    service.slow_until_ns = 2 * NS_PER_S;
    service.slow_ns = 30 * NS_PER_MS; /* the last slow one ends 10 ms into the measuring */
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(outcome.elapsed_ns, 3 * NS_PER_S);
    assert_int_equal(operations(&outcome), 2 * (1 + 2990));
    assert_int_equal(outcome.workers[0].operations, 2990);
    assert_int_equal(outcome.series->count, 3);
    assert_int_equal(service.started, 1);
    runner_outcome_free(&outcome);
    clock_close(service.clock);
}

static void events_are_counted_after_the_warm_up(void **state)
{
    (void)state;
    struct service service = make_service(NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {.threads = 1, .warmup_ns = 500 * NS_PER_MS + 1, .events = 100};
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(outcome.workers[0].operations, 100);
    runner_outcome_free(&outcome);
    clock_close(service.clock);
}

static void an_open_loop_keeps_its_schedule(void **state)
{
    (void)state;
    struct service service = make_service(3 * NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {
        .threads = 4, .time_ns = 5 * NS_PER_S, .rate_per_s = 1000, .rate_even = true};
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(operations(&outcome), 5000);
    assert_int_equal(outcome.total->kinds[0].response_ns.max, 3 * NS_PER_MS);
    assert_int_equal(service.worst.behind_ns, 0);
    assert_int_equal(outcome.backlog.queue_length, 0);
    runner_outcome_free(&outcome);
    clock_close(service.clock);
}

static void overload_is_told_and_is_no_error(void **state)
{
    (void)state;
    struct service service = make_service(2 * NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {
        .threads = 1, .time_ns = 4 * NS_PER_S, .rate_per_s = 1000, .rate_even = true};
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(operations(&outcome), 2000);
    assert_int_equal(outcome.total->kinds[0].latency_ns.max, 2 * NS_PER_MS);
    /* The last of 2000 was due after 2 s and done after 4. */
    assert_in_range(outcome.total->kinds[0].response_ns.max, 1990 * NS_PER_MS, 2010 * NS_PER_MS);
    assert_in_range(outcome.backlog.behind_ns, 1990 * NS_PER_MS, 2010 * NS_PER_MS);
    assert_in_range(outcome.backlog.queue_length, 1990, 2010);
    assert_in_range(service.worst.behind_ns, 1990 * NS_PER_MS, 2010 * NS_PER_MS);
    runner_outcome_free(&outcome);
    clock_close(service.clock);
}

static void poisson_arrivals_vary_as_much_as_their_mean(void **state)
{
    (void)state;
    enum { RATE = 200, SECONDS = 150 };
    struct service service = make_service(1000);
    struct runner_outcome outcome;
    struct runner_options options = {
        .threads = 2, .time_ns = SECONDS * NS_PER_S, .rate_per_s = RATE, .seed = test_seed(1)};
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    double mean = (double)operations(&outcome) / SECONDS;
    double variance = 0;
    assert_int_equal(outcome.series->count, SECONDS);
    for (unsigned i = 0; i < SECONDS; i++)
        variance += pow((double)outcome.series->kinds[0].operations[i] - mean, 2) / SECONDS;
    /* Six standard deviations of either estimate. */
    assert_true(fabs(mean - RATE) < 6 * sqrt((double)RATE / SECONDS));
    assert_true(fabs(variance / mean - 1) < 6 * sqrt(2.0 / SECONDS));
    runner_outcome_free(&outcome);
    clock_close(service.clock);
}

static void a_failing_worker_ends_the_run_with_its_reason(void **state)
{
    (void)state;
    struct service service = make_service(NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {.threads = 4};
    service.failing_worker = 2;
    assert_int_equal(run(&service, options, &outcome), FIRN_E_IO);
    assert_string_equal(firn_error_text(), "worker 2 failed");
    clock_close(service.clock);
}

static void nobody_starts_when_one_is_not_ready(void **state)
{
    (void)state;
    struct service service = make_service(NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {.threads = 4};
    service.unready_worker = 3;
    assert_int_equal(run(&service, options, &outcome), FIRN_E_NOMEM);
    assert_string_equal(firn_error_text(), "worker 3 is not ready");
    assert_int_equal(service.started, 0);
    clock_close(service.clock);
}

static void a_run_that_is_stopped_keeps_what_it_has(void **state)
{
    (void)state;
    struct service service = make_service(NS_PER_MS);
    struct runner_outcome outcome;
    struct runner_options options = {.threads = 2};
    service.stop_after = 3;
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(outcome.end, RUNNER_END_STOPPED);
    assert_in_range(outcome.elapsed_ns, 3 * NS_PER_S, 5 * NS_PER_S);
    assert_in_range(operations(&outcome), 6000, 10000);
    runner_outcome_free(&outcome);
    clock_close(service.clock);
}

static void a_run_stopped_in_its_warm_up_has_measured_nothing(void **state)
{
    (void)state;
    struct service service = {
        .service_ns = NS_PER_MS, .failing_worker = UINT32_MAX, .unready_worker = UINT32_MAX};
    struct runner_outcome outcome;
    struct runner_options options = {.threads = 2, .warmup_ns = 600 * NS_PER_S};
    service.clock = clock_real();
    atomic_store(&service.stop, true);
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(outcome.end, RUNNER_END_STOPPED);
    assert_int_equal(outcome.elapsed_ns, 0);
    assert_int_equal(outcome.series->count, 0);
    assert_int_equal(operations(&outcome), 0);
    runner_outcome_free(&outcome);
}

static void a_worker_that_hangs_is_abandoned(void **state)
{
    (void)state;
    /* Static, since the worker hangs to the end of the process. */
    static struct service service;
    struct runner_outcome outcome;
    struct runner_options options = {
        .threads = 2, .time_ns = 300 * NS_PER_MS, .shutdown_ns = 50 * NS_PER_MS};
    service = (struct service){.service_ns = NS_PER_MS,
                               .failing_worker = UINT32_MAX,
                               .unready_worker = UINT32_MAX,
                               .hang = true};
    pthread_mutex_init(&service.hanging, NULL);
    pthread_mutex_lock(&service.hanging);
    service.clock = clock_real();
    assert_int_equal(run(&service, options, &outcome), FIRN_OK);
    assert_int_equal(outcome.end, RUNNER_END_ABANDONED);
    assert_int_equal(outcome.abandoned, 1);
    assert_true(operations(&outcome) > 0);
    runner_outcome_free(&outcome);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct runner_options cases[] = {
        {.threads = 0},
        {.threads = 100000},
        {.threads = 1, .interval_ns = NS_PER_MS},
        {.threads = 1, .rate_per_s = -1},
        {.threads = 1, .rate_per_s = NAN},
    };
    struct service service = make_service(NS_PER_MS);
    struct runner_outcome outcome;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(run(&service, cases[i], &outcome), FIRN_E_INVALID);
    clock_close(service.clock);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    firn_rc rc = FIRN_E_NOMEM;
    long failures = 0;
    for (; rc != FIRN_OK; failures++) {
        struct service service = make_service(NS_PER_MS);
        struct runner_outcome outcome;
        struct runner_options options = {.threads = 2, .events = 20, .interval_ns = 10 * NS_PER_MS};
        memory_fail_after(failures);
        rc = run(&service, options, &outcome);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        if (rc == FIRN_OK)
            runner_outcome_free(&outcome);
        clock_close(service.clock);
    }
    assert_true(failures > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_loop_lasts_as_long_as_asked_for),
        cmocka_unit_test(what_is_under_way_at_the_end_belongs_to_the_last_interval),
        cmocka_unit_test(a_limit_of_events_is_met_exactly),
        cmocka_unit_test(the_warm_up_is_not_measured),
        cmocka_unit_test(events_are_counted_after_the_warm_up),
        cmocka_unit_test(an_open_loop_keeps_its_schedule),
        cmocka_unit_test(overload_is_told_and_is_no_error),
        cmocka_unit_test(poisson_arrivals_vary_as_much_as_their_mean),
        cmocka_unit_test(a_failing_worker_ends_the_run_with_its_reason),
        cmocka_unit_test(nobody_starts_when_one_is_not_ready),
        cmocka_unit_test(a_run_that_is_stopped_keeps_what_it_has),
        cmocka_unit_test(a_run_stopped_in_its_warm_up_has_measured_nothing),
        cmocka_unit_test(a_worker_that_hangs_is_abandoned),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
