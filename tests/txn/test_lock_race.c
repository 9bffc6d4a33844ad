/*
 * Two things that happen to one wait at the same moment, made to happen: at a place between
 * deciding and telling, or before the limit's end is looked at, the other thing is done. One thread
 * suffices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/lock_fixture.h"

#include "base/inject.h"

#include <string.h>

#ifndef NDEBUG

enum { OWNERS = 3 };

static struct lock_table *table;
static struct lock_owner owners[OWNERS];
static struct lock_owner *const a = &owners[0];
static struct lock_owner *const b = &owners[1];
static struct lock_owner *const c = &owners[2];

static const char *place;
static void (*act)(void);
static unsigned acts;

/* Once: what is done there passes other places. */
static void reached(const char *point, void *context)
{
    (void)context;
    if (act == NULL || strcmp(point, place) != 0)
        return;
    void (*now)(void) = act;
    act = NULL;
    acts++;
    now();
}

static void at(const char *point, void (*function)(void))
{
    place = point;
    act = function;
    acts = 0;
}

static int setup(void **state)
{
    (void)state;
    table = table_open();
    owners_begin(owners, OWNERS, table);
    act = NULL;
    inject_set(reached, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    inject_set(NULL, NULL);
    owners_end(owners, OWNERS);
    struct lock_counters counters;
    lock_counters(table, &counters);
    assert_int_equal(counters.locks, 0);
    lock_table_close(table);
    return 0;
}

static void a_waits_for_b(void)
{
    ask(b, "k", LOCK_ROW, LOCK_EXCLUSIVE);
    assert_int_equal(ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
}

static void release_b(void)
{
    lock_release_all(b);
}

static void cancel_a(void)
{
    lock_cancel(a);
}

static void what_is_granted_at_the_limit_is_held(void **state)
{
    (void)state;
    a_waits_for_b();
    at("lock-limit-over", release_b);
    ASSERT_OK(lock_wait(a, 0));
    assert_int_equal(acts, 1);
    assert_int_equal(ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_HELD);
}

static void who_is_granted_before_he_sleeps_does_not_sleep(void **state)
{
    (void)state;
    a_waits_for_b();
    at("lock-sleeps", release_b);
    ASSERT_OK(lock_wait(a, UINT64_MAX));
    assert_int_equal(acts, 1);
}

static void a_grant_that_is_not_yet_told_cannot_be_cancelled(void **state)
{
    (void)state;
    a_waits_for_b();
    at("lock-left", cancel_a);
    lock_release_all(b);
    assert_int_equal(acts, 1);
    ASSERT_OK(lock_wait(a, UINT64_MAX));
}

static void who_is_cancelled_is_not_granted(void **state)
{
    (void)state;
    a_waits_for_b();
    at("lock-decided", release_b);
    lock_cancel(a);
    assert_int_equal(acts, 1);
    assert_int_equal(lock_wait(a, UINT64_MAX), FIRN_E_CANCELLED);
    assert_int_equal(ask(c, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_GRANTED);
}

static void a_cancel_at_the_limit_cancels(void **state)
{
    (void)state;
    a_waits_for_b();
    at("lock-limit-over", cancel_a);
    assert_int_equal(lock_wait(a, 0), FIRN_E_CANCELLED);
    assert_int_equal(acts, 1);
}

static void b_closes_the_cycle(void)
{
    assert_int_equal(ask(b, "l", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
}

static void a_victim_at_the_limit_is_a_victim(void **state)
{
    (void)state;
    a->weight = 1;
    ask(a, "l", LOCK_ROW, LOCK_EXCLUSIVE);
    a_waits_for_b();
    at("lock-limit-over", b_closes_the_cycle);
    assert_int_equal(lock_wait(a, 0), FIRN_E_DEADLOCK);
    assert_int_equal(acts, 1);
    lock_release_all(a);
    ASSERT_OK(lock_wait(b, UINT64_MAX));
}

static void b_gives_up_and_ends(void)
{
    lock_cancel(b);
    assert_int_equal(lock_wait(b, UINT64_MAX), FIRN_E_CANCELLED);
    lock_release_all(b);
}

static void a_victim_is_not_granted_what_is_released_meanwhile(void **state)
{
    (void)state;
    a->weight = 1;
    ask(a, "l", LOCK_ROW, LOCK_EXCLUSIVE);
    ask(c, "m", LOCK_ROW, LOCK_EXCLUSIVE);
    a_waits_for_b();
    assert_int_equal(ask(b, "m", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    at("lock-decided", b_gives_up_and_ends);
    assert_int_equal(ask(c, "l", LOCK_ROW, LOCK_SHARED), LOCK_QUEUED); /* closes the cycle */
    assert_int_equal(acts, 1);
    assert_int_equal(ask(b, "k", LOCK_ROW, LOCK_SHARED), LOCK_QUEUED); /* behind the victim */
    assert_int_equal(lock_wait(a, UINT64_MAX), FIRN_E_DEADLOCK);
    ASSERT_OK(lock_wait(b, UINT64_MAX));
    lock_release_all(a);
    ASSERT_OK(lock_wait(c, UINT64_MAX));
}

static void the_gap_gets_a_twin(void)
{
    ASSERT_OK(lock_inherit(table, TEST_INDEX, span_of_text("j"), false, span_of_text("k"), false));
}

/* Of a's locks the latest goes first; meanwhile the gap that is still there gets a twin. */
static void what_is_entered_while_all_is_given_back_is_given_back(void **state)
{
    (void)state;
    ask(a, "k", LOCK_GAP, LOCK_SHARED);
    ask(a, "l", LOCK_ROW, LOCK_SHARED);
    at("lock-left", the_gap_gets_a_twin);
    lock_release_all(a);
    assert_int_equal(acts, 1);
    assert_false(lock_gaps_exist(table, TEST_INDEX));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_granted_at_the_limit_is_held),
        TEST(who_is_granted_before_he_sleeps_does_not_sleep),
        TEST(a_grant_that_is_not_yet_told_cannot_be_cancelled),
        TEST(who_is_cancelled_is_not_granted),
        TEST(a_cancel_at_the_limit_cancels),
        TEST(a_victim_at_the_limit_is_a_victim),
        TEST(a_victim_is_not_granted_what_is_released_meanwhile),
        TEST(what_is_entered_while_all_is_given_back_is_given_back),
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
