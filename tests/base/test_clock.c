#include "base/check.h"
#include "base/futex.h"
#include "base/rng.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "repeat.h"

enum { THREADS = 8 };

static struct clock *virtual_clock(void)
{
    struct clock *clock = NULL;
    assert_int_equal(clock_open_virtual(&clock), FIRN_OK);
    return clock;
}

/* ---- Kinds of clocks ---- */

static void kinds_tell_what_they_are(void **state)
{
    (void)state;
    struct clock *scaled = NULL;
    struct clock *virtual = virtual_clock();
    assert_int_equal(clock_open_scaled(25, &scaled), FIRN_OK);
    assert_false(clock_is_virtual(clock_real()));
    assert_false(clock_is_virtual(scaled));
    assert_true(clock_is_virtual(virtual));
    assert_true(clock_scale(clock_real()) == 1);
    assert_true(clock_scale(scaled) == 25);
    assert_true(clock_scale(virtual) == 0);
    clock_close(scaled);
    clock_close(virtual);
    clock_close(NULL);
    clock_close(clock_real());
    assert_true(clock_now(clock_real()) > 0);
}

static void a_scale_must_be_above_0(void **state)
{
    (void)state;
    struct clock *clock = NULL;
    static const double scales[] = {0, -1, 1.0 / 0.0, 0.0 / 0.0};
    for (unsigned i = 0; i < ARRAY_COUNT(scales); i++)
        assert_int_equal(clock_open_scaled(scales[i], &clock), FIRN_E_INVALID);
    assert_null(clock);
}

static void the_real_clock_waits_as_long_as_told(void **state)
{
    (void)state;
    uint64_t start_ns = clock_now(clock_real());
    clock_wait_until(clock_real(), start_ns);
    for (unsigned i = 1; i <= 10; i++) {
        uint64_t deadline_ns = start_ns + i * 300 * NS_PER_US;
        clock_wait_until(clock_real(), deadline_ns);
        assert_true(clock_now(clock_real()) >= deadline_ns);
    }
}

static void a_scaled_clock_runs_faster_or_slower(void **state)
{
    (void)state;
    static const double scales[] = {100, 0.1};
    for (unsigned i = 0; i < ARRAY_COUNT(scales); i++) {
        struct clock *clock = NULL;
        uint64_t real_ns = clock_now(clock_real());
        assert_int_equal(clock_open_scaled(scales[i], &clock), FIRN_OK);
        uint64_t opened_ns = clock_now(clock_real());
        uint64_t deadline_ns = (uint64_t)(5e6 * scales[i]); /* 5 ms of real time */
        clock_wait_until(clock, deadline_ns);
        uint64_t shown_ns = clock_now(clock);
        uint64_t end_ns = clock_now(clock_real());
        assert_true(shown_ns >= deadline_ns);
        /* Between the two instants in which it may have been made. */
        assert_true((double)shown_ns <= scales[i] * (double)(end_ns - real_ns) + 1);
        assert_true((double)clock_now(clock) >= scales[i] * (double)(end_ns - opened_ns) - 1);
        clock_close(clock);
    }
}

/* ---- Virtual time ---- */

static void virtual_time_jumps_to_the_deadline(void **state)
{
    (void)state;
    struct clock *clock = virtual_clock();
    clock_join(clock);
    assert_int_equal(clock_now(clock), 0);
    clock_wait_until(clock, 86400 * NS_PER_S);
    assert_int_equal(clock_now(clock), 86400 * NS_PER_S);
    clock_wait_until(clock, 5);
    assert_int_equal(clock_now(clock), 86400 * NS_PER_S);
    clock_leave(clock);
    clock_close(clock);
}

struct sleeper {
    struct clock *clock;
    uint64_t seed;
    _Atomic uint64_t *latest_ns; /* the greatest deadline that anybody has come back from */
    uint64_t end_ns;
    unsigned naps;
    bool good;
    pthread_t thread;
};

static void *nap(void *context)
{
    struct sleeper *sleeper = context;
    struct rng rng;
    rng_init(&rng, sleeper->seed);
    uint64_t deadline_ns = 0;
    sleeper->good = true;
    for (unsigned i = 0; i < sleeper->naps; i++) {
        deadline_ns += rng_below(&rng, 1000);
        clock_wait_until(sleeper->clock, deadline_ns);
        /* All others wait for later instants or have come back from this one. */
        sleeper->good = sleeper->good && clock_now(sleeper->clock) == deadline_ns &&
                        atomic_load(sleeper->latest_ns) <= deadline_ns;
        atomic_store(sleeper->latest_ns, deadline_ns);
    }
    sleeper->end_ns = deadline_ns;
    clock_leave(sleeper->clock);
    return NULL;
}

/* Everybody wakes exactly at the own deadline and in order, however the threads are scheduled. */
static void threads_wake_in_order_at_their_deadlines(void **state)
{
    (void)state;
    struct clock *clock = virtual_clock();
    struct sleeper sleepers[THREADS];
    _Atomic uint64_t latest_ns = 0;
    uint64_t seed = test_seed(1);
    uint64_t last_ns = 0;
    for (unsigned i = 0; i < THREADS; i++)
        clock_join(clock);
    for (unsigned i = 0; i < THREADS; i++) {
        sleepers[i] = (struct sleeper){
            .clock = clock, .seed = seed + i, .latest_ns = &latest_ns, .naps = 2000};
        assert_int_equal(pthread_create(&sleepers[i].thread, NULL, nap, &sleepers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(sleepers[i].thread, NULL);
        assert_true(sleepers[i].good);
        if (sleepers[i].end_ns > last_ns)
            last_ns = sleepers[i].end_ns;
    }
    assert_int_equal(clock_now(clock), last_ns);
    clock_close(clock);
}

static void *wait_once(void *context)
{
    struct sleeper *sleeper = context;
    clock_wait_until(sleeper->clock, 1000);
    sleeper->end_ns = clock_now(sleeper->clock);
    clock_leave(sleeper->clock);
    return NULL;
}

/* Time stands still while one of them works; leaving ends its vote. */
static void a_thread_that_works_holds_time_and_one_that_leaves_does_not(void **state)
{
    (void)state;
    struct clock *clock = virtual_clock();
    struct sleeper sleeper = {.clock = clock};
    clock_join(clock);
    clock_join(clock);
    assert_int_equal(pthread_create(&sleeper.thread, NULL, wait_once, &sleeper), 0);
    for (unsigned i = 0; i < 20; i++) {
        clock_wait_until(clock_real(), clock_now(clock_real()) + NS_PER_MS / 4);
        assert_int_equal(clock_now(clock), 0);
    }
    clock_leave(clock);
    pthread_join(sleeper.thread, NULL);
    assert_int_equal(sleeper.end_ns, 1000);
    clock_close(clock);
}

struct handoff {
    struct clock *clock;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    bool parked;
    uint64_t woken_ns;
    unsigned rounds;
};

static void *be_parked(void *context)
{
    struct handoff *handoff = context;
    pthread_mutex_lock(&handoff->mutex);
    for (unsigned i = 0; i < handoff->rounds; i++) {
        handoff->parked = true;
        clock_leave(handoff->clock);
        while (handoff->parked)
            pthread_cond_wait(&handoff->woken, &handoff->mutex);
        handoff->woken_ns = clock_now(handoff->clock);
    }
    pthread_mutex_unlock(&handoff->mutex);
    clock_leave(handoff->clock);
    return NULL;
}

/* A waker joins for whom it wakes: no time passes between waking and running. */
static void a_woken_thread_sees_the_time_it_was_woken_at(void **state)
{
    (void)state;
    struct handoff handoff = {.clock = virtual_clock(), .rounds = 500};
    pthread_t thread;
    pthread_mutex_init(&handoff.mutex, NULL);
    pthread_cond_init(&handoff.woken, NULL);
    clock_join(handoff.clock);
    clock_join(handoff.clock);
    assert_int_equal(pthread_create(&thread, NULL, be_parked, &handoff), 0);
    for (unsigned i = 1; i <= handoff.rounds; i++) {
        clock_wait_until(handoff.clock, i * 100);
        pthread_mutex_lock(&handoff.mutex);
        assert_true(handoff.parked);
        assert_true(i == 1 || handoff.woken_ns == (i - 1) * 100);
        handoff.parked = false;
        clock_join(handoff.clock);
        pthread_cond_signal(&handoff.woken);
        pthread_mutex_unlock(&handoff.mutex);
    }
    clock_leave(handoff.clock);
    pthread_join(thread, NULL);
    assert_int_equal(handoff.woken_ns, handoff.rounds * 100);
    pthread_cond_destroy(&handoff.woken);
    pthread_mutex_destroy(&handoff.mutex);
    clock_close(handoff.clock);
}

static void *come_and_go(void *context)
{
    struct sleeper *sleeper = context;
    struct rng rng;
    rng_init(&rng, sleeper->seed);
    sleeper->good = true;
    for (unsigned i = 0; i < sleeper->naps; i++) {
        uint64_t before_ns = clock_now(sleeper->clock);
        uint64_t deadline_ns = before_ns + rng_below(&rng, 100);
        clock_wait_until(sleeper->clock, deadline_ns);
        uint64_t after_ns = clock_now(sleeper->clock);
        sleeper->good = sleeper->good && after_ns >= deadline_ns && after_ns >= before_ns;
        if (rng_below(&rng, 10) == 0) {
            clock_leave(sleeper->clock);
            sched_yield();
            clock_join(sleeper->clock);
        }
    }
    clock_leave(sleeper->clock);
    return NULL;
}

/* A wakeup lost would hang the test. */
static void joining_and_leaving_loses_no_wakeup(void **state)
{
    (void)state;
    struct clock *clock = virtual_clock();
    struct sleeper sleepers[THREADS];
    uint64_t seed = test_seed(1);
    for (unsigned i = 0; i < THREADS; i++)
        clock_join(clock);
    for (unsigned i = 0; i < THREADS; i++) {
        sleepers[i] = (struct sleeper){.clock = clock, .seed = seed + i, .naps = 2000};
        assert_int_equal(pthread_create(&sleepers[i].thread, NULL, come_and_go, &sleepers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(sleepers[i].thread, NULL);
        assert_true(sleepers[i].good);
    }
    clock_close(clock);
}

/* ---- Words ---- */

struct word_sleeper {
    struct clock *clock;
    _Atomic uint32_t word;
    uint64_t deadline_ns;
    uint64_t woken_ns;
};

static void *sleep_on_word(void *context)
{
    struct word_sleeper *sleeper = context;
    while (atomic_load(&sleeper->word) == 0 && clock_now(sleeper->clock) < sleeper->deadline_ns)
        clock_sleep(sleeper->clock, &sleeper->word, 0, sleeper->deadline_ns);
    sleeper->woken_ns = clock_now(sleeper->clock);
    clock_leave(sleeper->clock);
    return NULL;
}

static void run_word_sleeper(struct word_sleeper *sleeper, uint64_t wake_at_ns)
{
    pthread_t thread;
    clock_join(sleeper->clock);
    clock_join(sleeper->clock);
    pthread_create(&thread, NULL, sleep_on_word, sleeper);
    if (wake_at_ns != UINT64_MAX) {
        clock_wait_until(sleeper->clock, wake_at_ns);
        atomic_store(&sleeper->word, 1);
        futex_wake(&sleeper->word, 1);
    }
    clock_leave(sleeper->clock);
    pthread_join(thread, NULL);
}

static void a_sleeper_wakes_when_woken_or_at_its_deadline(void **state)
{
    (void)state;
    static const uint64_t deadlines_ns[] = {UINT64_MAX, 50 * NS_PER_MS};
    struct clock *clocks[] = {virtual_clock(), NULL, clock_real()};
    assert_int_equal(clock_open_scaled(10, &clocks[1]), FIRN_OK);
    for (unsigned i = 0; i < ARRAY_COUNT(clocks); i++) {
        struct clock *clock = clocks[i];
        for (unsigned k = 0; k < ARRAY_COUNT(deadlines_ns); k++) {
            uint64_t now_ns = clock_now(clock);
            bool ends = deadlines_ns[k] != UINT64_MAX;
            struct word_sleeper sleeper = {
                .clock = clock, .deadline_ns = ends ? now_ns + deadlines_ns[k] : UINT64_MAX};
            run_word_sleeper(&sleeper, ends ? UINT64_MAX : now_ns + 20 * NS_PER_MS);
            uint64_t least_ns = ends ? sleeper.deadline_ns : now_ns + 20 * NS_PER_MS;
            assert_true(sleeper.woken_ns >= least_ns);
            assert_true(i > 0 || sleeper.woken_ns == least_ns);
        }
        clock_close(clock);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_tell_what_they_are),
        cmocka_unit_test(a_scale_must_be_above_0),
        cmocka_unit_test(the_real_clock_waits_as_long_as_told),
        cmocka_unit_test(a_scaled_clock_runs_faster_or_slower),
        cmocka_unit_test(virtual_time_jumps_to_the_deadline),
        cmocka_unit_test(threads_wake_in_order_at_their_deadlines),
        cmocka_unit_test(a_thread_that_works_holds_time_and_one_that_leaves_does_not),
        cmocka_unit_test(a_woken_thread_sees_the_time_it_was_woken_at),
        cmocka_unit_test(joining_and_leaving_loses_no_wakeup),
        cmocka_unit_test(a_sleeper_wakes_when_woken_or_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
