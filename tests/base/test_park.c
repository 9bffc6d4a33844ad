/*
 * Sleeping on futexes and locks in virtual time: whoever is to wake the sleeper may wait for time
 * to pass, and time passes; it does not between waking and getting to run.
 */
#include "base/check.h"
#include "base/futex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <limits.h>
#include <pthread.h>

enum { THREADS = 6, ROUNDS = 200, ODD = 3, EVEN = 2 };

struct stage {
    struct clock *clock;
    _Atomic uint32_t word;
    _Atomic unsigned running;
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    unsigned inside; /* under a lock */
    atomic_bool wrong;
};

static struct stage stage;

static void expect(bool is_so)
{
    if (!is_so)
        stage.wrong = true;
}

static pthread_t threads[THREADS];

static int setup(void **state)
{
    (void)state;
    memset(&stage, 0, sizeof(stage));
    pthread_mutex_init(&stage.mutex, NULL);
    pthread_rwlock_init(&stage.rwlock, NULL);
    return clock_open_virtual(&stage.clock) == FIRN_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    clock_close(stage.clock);
    pthread_rwlock_destroy(&stage.rwlock);
    pthread_mutex_destroy(&stage.mutex);
    return 0;
}

static void run(void *(*work)(void *), unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        clock_join(stage.clock); /* for the threads, so that time waits for all to start */
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i), 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    assert_false(stage.wrong);
}

static void pass(uint64_t time_ns)
{
    clock_wait_until(stage.clock, clock_now(stage.clock) + time_ns);
}

/* A thread whom somebody else has joined goes by the clock once it has waited on it. */
static void begin(void)
{
    pass(1);
    ENSURE(clock_joined() == stage.clock);
}

/* Thread 0 moves the word every microsecond; the others sleep until it has. */
static void *follow(void *context)
{
    begin();
    if ((uintptr_t)context == 0)
        for (uint32_t i = 1; i <= ROUNDS; i++) {
            pass(1000);
            atomic_store(&stage.word, i);
            futex_wake(&stage.word, INT_MAX);
        }
    else
        for (uint32_t seen = 0; seen < ROUNDS; seen = atomic_load(&stage.word)) {
            futex_wait(&stage.word, seen);
            /* No time passes between being woken and getting to run. */
            expect(clock_now(stage.clock) == 1 + UINT64_C(1000) * atomic_load(&stage.word));
        }
    clock_leave(stage.clock);
    return NULL;
}

static void time_passes_while_threads_sleep_on_a_word(void **state)
{
    (void)state;
    run(follow, THREADS);
    assert_int_equal(clock_now(stage.clock), 1 + UINT64_C(1000) * ROUNDS);
}

/* Sleepers of two kinds; thread 0 wakes them by kind and number. */
static void *sleep_in_kinds(void *context)
{
    uint32_t number = (uint32_t)(uintptr_t)context;
    begin();
    if (number == 0) {
        pass(1000); /* all others sleep */
        atomic_store(&stage.word, 1);
        expect(futex_wake_those(&stage.word, 2, 1) == 2 &&
               futex_wake_those(&stage.word, INT_MAX, 1) == ODD - 2 &&
               futex_wake_those(&stage.word, INT_MAX, 1) == 0 &&
               futex_wake(&stage.word, INT_MAX) == EVEN);
    } else {
        futex_wait_as(&stage.word, 0, number % 2 == 1 ? 1 : 2);
        expect(atomic_load(&stage.word) == 1);
    }
    clock_leave(stage.clock);
    return NULL;
}

static void sleepers_are_woken_by_kind_and_number(void **state)
{
    (void)state;
    run(sleep_in_kinds, THREADS);
}

static void *sleep_on_the_word(void *context)
{
    (void)context;
    begin();
    while (atomic_load(&stage.word) == 0)
        futex_wait(&stage.word, 0);
    clock_leave(stage.clock);
    return NULL;
}

static void the_waker_need_not_know_the_sleeper_s_clock(void **state)
{
    (void)state;
    struct clock *other;
    assert_int_equal(clock_open_virtual(&other), FIRN_OK);
    clock_join(stage.clock);
    assert_int_equal(pthread_create(&threads[0], NULL, sleep_on_the_word, NULL), 0);
    clock_join(other);
    while (!clock_parks())
        sched_yield();
    atomic_store(&stage.word, 1);
    /* 0 where it only had begun to fall asleep. */
    assert_in_range(futex_wake(&stage.word, 1), 0, 1);
    pthread_join(threads[0], NULL);
    clock_leave(other);
    clock_close(other);
}

/* Everybody holds the lock while time passes. */
static void *take_turns(void *context)
{
    (void)context;
    begin();
    for (unsigned i = 0; i < ROUNDS; i++) {
        lock_take(&stage.mutex);
        expect(stage.inside++ == 0);
        pass(10);
        stage.inside--;
        lock_give(&stage.mutex);
    }
    clock_leave(stage.clock);
    return NULL;
}

static void a_lock_may_be_held_while_time_passes(void **state)
{
    (void)state;
    run(take_turns, THREADS);
    assert_int_equal(clock_now(stage.clock), 1 + UINT64_C(10) * THREADS * ROUNDS);
}

/* Readers hold it together, writers alone. */
static void *share(void *context)
{
    bool writes = (uintptr_t)context < 2;
    begin();
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (writes) {
            lock_take_exclusive(&stage.rwlock);
            expect(atomic_fetch_add(&stage.running, 100) == 0);
        } else {
            lock_take_shared(&stage.rwlock);
            expect(atomic_fetch_add(&stage.running, 1) < 100);
        }
        pass(10);
        atomic_fetch_sub(&stage.running, writes ? 100 : 1);
        lock_give_rwlock(&stage.rwlock);
        pass(5); /* so that everybody gets it */
    }
    clock_leave(stage.clock);
    return NULL;
}

static void a_lock_may_be_shared_while_time_passes(void **state)
{
    (void)state;
    run(share, THREADS);
    assert_true(clock_now(stage.clock) < UINT64_C(15) * THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(time_passes_while_threads_sleep_on_a_word, setup, teardown),
        cmocka_unit_test_setup_teardown(sleepers_are_woken_by_kind_and_number, setup, teardown),
        cmocka_unit_test_setup_teardown(the_waker_need_not_know_the_sleeper_s_clock, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_lock_may_be_held_while_time_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lock_may_be_shared_while_time_passes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
