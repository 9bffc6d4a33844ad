/*
 * Snapshots that are just being taken while others look for them: purge asks how far it may go, and
 * the ring goes on, between reading the newest number and showing it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/snapshot_internal.h"

#include "base/inject.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#ifndef NDEBUG

#define ASSERT_OK(call) assert_int_equal(call, FIRN_OK)

enum { RING_IDS = 16, IDS = 100 };

static struct snapshot_set *set;
static struct snapshot *snapshot;
static uint64_t ids[IDS];
static void *(*look)(void *);
static pthread_t looker;
static _Atomic bool has_looked; /* or waits until the snapshot is there */
static uint64_t horizon;

/* In the middle of taking: two commits, and somebody who looks. */
static void reached(const char *point, void *context)
{
    (void)context;
    if (strcmp(point, "snapshot-unsettled") == 0)
        atomic_store(&has_looked, true);
    if (strcmp(point, "snapshot-number-read") != 0 || look == NULL)
        return;
    ASSERT_OK(snapshot_commit(set, ids[0], NULL, NULL, NULL));
    ASSERT_OK(snapshot_commit(set, ids[1], NULL, NULL, NULL));
    pthread_create(&looker, NULL, look, NULL);
    look = NULL;
    while (!atomic_load(&has_looked))
        sched_yield();
}

static void *ask_for_the_horizon(void *argument)
{
    horizon = snapshot_horizon(set);
    atomic_store(&has_looked, true);
    return argument;
}

static void *drive_the_ring_on(void *argument)
{
    for (unsigned i = 2; i < IDS; i++)
        if (snapshot_draw_id(set, &ids[i]) != FIRN_OK ||
            snapshot_commit(set, ids[i], NULL, NULL, NULL) != FIRN_OK)
            break;
    atomic_store(&has_looked, true);
    return argument;
}

static void take_while(void *(*looking)(void *))
{
    struct snapshot_options options = {.next_id = 1, .ring_ids = RING_IDS};
    ASSERT_OK(snapshot_set_open(&options, &set));
    ASSERT_OK(snapshot_new(set, &snapshot));
    ASSERT_OK(snapshot_draw_id(set, &ids[0]));
    ASSERT_OK(snapshot_draw_id(set, &ids[1]));
    atomic_store(&has_looked, false);
    look = looking;
    inject_set(reached, NULL);
    snapshot_take(snapshot);
    pthread_join(looker, NULL);
    inject_set(NULL, NULL);
    assert_int_equal(snapshot_number(snapshot), 0);
}

static void end(void)
{
    snapshot_free(snapshot);
    snapshot_set_close(set);
}

static void the_horizon_waits_for_a_snapshot_that_is_being_taken(void **state)
{
    (void)state;
    take_while(ask_for_the_horizon);
    assert_int_equal(horizon, 0);
    end();
}

static void the_ring_forgets_nothing_that_a_snapshot_being_taken_does_not_see(void **state)
{
    (void)state;
    take_while(drive_the_ring_on);
    for (unsigned i = 0; i < IDS; i++)
        assert_false(snapshot_sees(snapshot, ids[i]));
    assert_int_equal(snapshot_number_of(set, ids[0]), 1); /* the ring has forgotten it */
    snapshot_take(snapshot);
    for (unsigned i = 0; i < IDS; i++)
        assert_true(snapshot_sees(snapshot, ids[i]));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_horizon_waits_for_a_snapshot_that_is_being_taken),
        cmocka_unit_test(the_ring_forgets_nothing_that_a_snapshot_being_taken_does_not_see),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void this_build_has_no_injection_points(void **state)
{
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(this_build_has_no_injection_points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
