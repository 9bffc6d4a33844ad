/*
 * Locks, one thread: what goes with what, who goes first, who gives up, and what is said then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/lock_fixture.h"

#include <stdio.h>
#include <string.h>

enum { OWNERS = 9 };

static struct lock_table *table;
static struct lock_owner owners[OWNERS];
static struct lock_owner *const a = &owners[0];
static struct lock_owner *const b = &owners[1];
static struct lock_owner *const c = &owners[2];

static int setup(void **state)
{
    (void)state;
    table = table_open();
    owners_begin(owners, OWNERS, table);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    owners_end(owners, OWNERS);
    struct lock_counters counters;
    lock_counters(table, &counters);
    assert_int_equal(counters.locks, 0);
    assert_false(lock_gaps_exist(table, TEST_INDEX));
    lock_table_close(table);
    return 0;
}

static bool conflicts(struct lock_owner *owner, const char *key, enum lock_part part,
                      enum lock_mode mode)
{
    struct lock_request request = request_of(key, part, mode);
    return lock_conflicts(owner, &request);
}

static void give_back(struct lock_owner *owner, const char *key, enum lock_part part,
                      enum lock_mode mode)
{
    struct lock_request request = request_of(key, part, mode);
    lock_release(owner, &request);
}

static void enter(struct lock_owner *owner, const char *key)
{
    struct lock_request request = request_of(key, LOCK_ROW, LOCK_EXCLUSIVE);
    ASSERT_OK(lock_enter_implicit(owner, &request));
}

/* ---- What goes with what ---- */

struct kind {
    enum lock_part part;
    enum lock_mode mode;
};

static const struct kind kinds[] = {
    {LOCK_ROW, LOCK_SHARED},       {LOCK_ROW, LOCK_EXCLUSIVE},   {LOCK_GAP, LOCK_SHARED},
    {LOCK_GAP, LOCK_EXCLUSIVE},    {LOCK_NEXT_KEY, LOCK_SHARED}, {LOCK_NEXT_KEY, LOCK_EXCLUSIVE},
    {LOCK_INSERT, LOCK_EXCLUSIVE}, {LOCK_WHOLE, LOCK_IS},        {LOCK_WHOLE, LOCK_IX},
    {LOCK_WHOLE, LOCK_SHARED},     {LOCK_WHOLE, LOCK_EXCLUSIVE},
};

/* One row for what is held, one column for what is asked for; W: it waits. */
/* clang-format off */
static const char *const matrix[] = {
    /*             row S X  gap S X  next S X  insert  IS IX S X */
    /* row S    */ ".W..." "W.....",
    /* row X    */ "WW..W" "W.....",
    /* gap S    */ "....." ".W....",
    /* gap X    */ "....." ".W....",
    /* next S   */ ".W..." "WW....",
    /* next X   */ "WW..W" "WW....",
    /* insert   */ "....." "......",
    /* IS       */ "....." ".....W",
    /* IX       */ "....." "....WW",
    /* index S  */ "....." "...W.W",
    /* index X  */ "....." "..WWWW",
};
/* clang-format on */

static void what_conflicts_waits_and_nothing_else(void **state)
{
    (void)state;
    for (size_t held = 0; held < ARRAY_COUNT(kinds); held++)
        for (size_t asked = 0; asked < ARRAY_COUNT(kinds); asked++) {
            bool waits = matrix[held][asked] == 'W';
            struct kind first = kinds[held];
            struct kind second = kinds[asked];
            assert_int_equal(ask(a, "k", first.part, first.mode), LOCK_GRANTED);
            if (conflicts(b, "k", second.part, second.mode) != waits)
                fail_msg("%s %s behind %s %s: wrong", lock_mode_name(second.mode),
                         lock_part_name(second.part), lock_mode_name(first.mode),
                         lock_part_name(first.part));
            struct lock_request request = request_of("k", second.part, second.mode);
            enum lock_answer answer;
            ASSERT_OK(lock_request(b, &request, false, &answer));
            assert_int_equal(answer, waits ? LOCK_REFUSED : LOCK_GRANTED);
            lock_release_all(b);
            assert_int_equal(ask(b, "k", second.part, second.mode),
                             waits ? LOCK_QUEUED : LOCK_GRANTED);
            lock_release_all(a);
            if (waits)
                ASSERT_OK(lock_wait(b, 0));
            lock_release_all(b);
        }
}

static void what_is_held_covers_what_is_weaker(void **state)
{
    (void)state;
    ask(a, "k", LOCK_NEXT_KEY, LOCK_EXCLUSIVE);
    assert_int_equal(ask(a, "k", LOCK_ROW, LOCK_SHARED), LOCK_HELD);
    assert_int_equal(ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_HELD);
    assert_int_equal(ask(a, "k", LOCK_GAP, LOCK_EXCLUSIVE), LOCK_HELD);
    assert_int_equal(ask(a, "k", LOCK_NEXT_KEY, LOCK_SHARED), LOCK_HELD);
    assert_int_equal(ask(a, "k", LOCK_INSERT, LOCK_EXCLUSIVE), LOCK_GRANTED);
    ask(b, "l", LOCK_ROW, LOCK_SHARED);
    ask(b, "l", LOCK_GAP, LOCK_SHARED);
    assert_int_equal(ask(b, "l", LOCK_NEXT_KEY, LOCK_SHARED), LOCK_HELD);
    assert_int_equal(ask(b, "l", LOCK_NEXT_KEY, LOCK_EXCLUSIVE), LOCK_GRANTED);
    ask(c, NULL, LOCK_WHOLE, LOCK_EXCLUSIVE);
    for (enum lock_mode mode = LOCK_IS; mode <= LOCK_EXCLUSIVE; mode++)
        assert_int_equal(ask(c, NULL, LOCK_WHOLE, mode), LOCK_HELD);
}

static void names_differ_by_index_key_and_supremum(void **state)
{
    (void)state;
    ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE);
    ask(a, NULL, LOCK_NEXT_KEY, LOCK_EXCLUSIVE);
    struct lock_request other_index = request_of("k", LOCK_ROW, LOCK_EXCLUSIVE);
    other_index.index_id++;
    assert_false(lock_conflicts(b, &other_index));
    assert_false(conflicts(b, "", LOCK_ROW, LOCK_EXCLUSIVE));
    assert_false(conflicts(b, "", LOCK_INSERT, LOCK_EXCLUSIVE));
    assert_true(conflicts(b, NULL, LOCK_INSERT, LOCK_EXCLUSIVE));
    char keys[2][40] = {{0}};
    for (size_t i = 0; i < sizeof(keys[0]); i++)
        for (size_t length = i + 1; length <= sizeof(keys[0]); length++) {
            struct lock_request request = request_of("", LOCK_ROW, LOCK_EXCLUSIVE);
            enum lock_answer answer;
            request.key = span_of(keys[0], length);
            ASSERT_OK(lock_request(c, &request, true, &answer));
            keys[1][i] = 1; /* one byte differs */
            request.key = span_of(keys[1], length);
            assert_false(lock_conflicts(b, &request));
            keys[1][i] = 0;
            assert_true(lock_conflicts(b, &request));
            lock_release_all(c);
        }
}

/* ---- Who goes first ---- */

static void who_comes_first_goes_first(void **state)
{
    (void)state;
    ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE);
    for (size_t i = 1; i < 5; i++)
        assert_int_equal(ask(&owners[i], "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    for (size_t i = 1; i < 5; i++) {
        lock_release_all(&owners[i - 1]);
        for (size_t k = i; k < 5; k++)
            assert_int_equal(is_told(&owners[k]), k == i);
        ASSERT_OK(lock_wait(&owners[i], UINT64_MAX));
    }
}

static void readers_do_not_overtake_a_writer_that_waits(void **state)
{
    (void)state;
    ask(a, "k", LOCK_ROW, LOCK_SHARED);
    assert_int_equal(ask(b, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    assert_int_equal(ask(c, "k", LOCK_ROW, LOCK_SHARED), LOCK_QUEUED);
    assert_int_equal(ask(&owners[3], "k", LOCK_ROW, LOCK_SHARED), LOCK_QUEUED);
    assert_int_equal(lock_wait(b, 0), FIRN_E_LOCK_WAIT);
    ASSERT_OK(lock_wait(c, 0)); /* nothing is in their way any more */
    ASSERT_OK(lock_wait(&owners[3], 0));
}

static void who_holds_the_row_goes_ahead_of_who_waits(void **state)
{
    (void)state;
    ask(a, "k", LOCK_ROW, LOCK_SHARED);
    assert_int_equal(ask(b, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    assert_int_equal(ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_GRANTED);
    ask(c, "l", LOCK_ROW, LOCK_SHARED);
    ask(&owners[3], "l", LOCK_ROW, LOCK_SHARED);
    assert_int_equal(ask(&owners[4], "l", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    assert_int_equal(ask(c, "l", LOCK_NEXT_KEY, LOCK_EXCLUSIVE), LOCK_QUEUED);
    lock_release_all(&owners[3]);
    ASSERT_OK(lock_wait(c, 0)); /* and not owners[4], who came before */
    lock_release_all(c);
    ASSERT_OK(lock_wait(&owners[4], 0));
}

static void an_implicit_lock_is_before_all_who_wait_for_it(void **state)
{
    (void)state;
    enter(a, "k");
    enter(a, "k");
    assert_int_equal(ask(b, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    enter(a, "k");
    assert_int_equal(ask(c, "k", LOCK_ROW, LOCK_SHARED), LOCK_QUEUED);
    struct lock_counters counters;
    lock_counters(table, &counters);
    assert_int_equal(counters.locks, 3);
    assert_int_equal(ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_HELD);
    lock_release_all(a);
    ASSERT_OK(lock_wait(b, 0));
    assert_int_equal(lock_wait(c, 0), FIRN_E_LOCK_WAIT);
}

static void a_row_given_back_early_lets_others_on(void **state)
{
    (void)state;
    ask(a, "k", LOCK_ROW, LOCK_SHARED);
    ask(a, "k", LOCK_NEXT_KEY, LOCK_EXCLUSIVE);
    ask(a, "l", LOCK_ROW, LOCK_EXCLUSIVE);
    assert_int_equal(ask(b, "k", LOCK_ROW, LOCK_SHARED), LOCK_QUEUED);
    give_back(a, "k", LOCK_NEXT_KEY, LOCK_EXCLUSIVE);
    ASSERT_OK(lock_wait(b, 0));
    assert_true(conflicts(b, "k", LOCK_ROW, LOCK_EXCLUSIVE)); /* the first one stands */
    assert_false(conflicts(b, "k", LOCK_INSERT, LOCK_EXCLUSIVE));
    assert_true(conflicts(b, "l", LOCK_ROW, LOCK_SHARED));
    give_back(a, "l", LOCK_ROW, LOCK_EXCLUSIVE);
    assert_false(conflicts(b, "l", LOCK_ROW, LOCK_SHARED));
    give_back(a, "l", LOCK_ROW, LOCK_EXCLUSIVE); /* nothing to give back */
}

static void part_of_a_request_is_given_back_alone(void **state)
{
    (void)state;
    ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE);
    assert_int_equal(ask(a, "k", LOCK_NEXT_KEY, LOCK_EXCLUSIVE), LOCK_GRANTED);
    assert_true(conflicts(b, "k", LOCK_INSERT, LOCK_EXCLUSIVE));
    give_back(a, "k", LOCK_NEXT_KEY, LOCK_EXCLUSIVE);
    assert_false(conflicts(b, "k", LOCK_INSERT, LOCK_EXCLUSIVE));
    assert_true(conflicts(b, "k", LOCK_ROW, LOCK_SHARED));
}

/* ---- Who gives up ---- */

static void the_cheapest_of_a_cycle_gives_up_and_is_told_why(void **state)
{
    (void)state;
    static const char *const keys[] = {"0", "1", "2"};
    for (size_t cheapest = 0; cheapest < 3; cheapest++) {
        for (size_t i = 0; i < 3; i++) {
            owners[i].weight = i == cheapest ? 1 : 5;
            ask(&owners[i], keys[i], LOCK_ROW, LOCK_EXCLUSIVE);
        }
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(ask(&owners[i], keys[(i + 1) % 3], LOCK_ROW, LOCK_SHARED),
                             LOCK_QUEUED);
        assert_int_equal(lock_wait(&owners[cheapest], UINT64_MAX), FIRN_E_DEADLOCK);
        char expected[200];
        snprintf(
            expected, sizeof(expected),
            "transaction %zu waits for %zu, %zu for %zu, %zu for %zu; %zu was chosen to give up "
            "because it has changed least: roll it back and begin it again",
            cheapest + 1, (cheapest + 1) % 3 + 1, (cheapest + 1) % 3 + 1, (cheapest + 2) % 3 + 1,
            (cheapest + 2) % 3 + 1, cheapest + 1, cheapest + 1);
        assert_string_equal(firn_error_text(), expected);
        /* It still holds what it held; the one before waits on until it has rolled back. */
        size_t before = (cheapest + 2) % 3;
        lock_release_all(&owners[cheapest]);
        ASSERT_OK(lock_wait(&owners[before], UINT64_MAX));
        lock_release_all(&owners[before]);
        ASSERT_OK(lock_wait(&owners[(cheapest + 1) % 3], UINT64_MAX));
        lock_release_all(&owners[(cheapest + 1) % 3]);
    }
    struct lock_counters counters;
    lock_counters(table, &counters);
    assert_int_equal(counters.deadlocks, 3);
    assert_int_equal(counters.waits, 9);
}

static void of_equals_the_one_that_closes_the_cycle_gives_up(void **state)
{
    (void)state;
    ask(a, "k", LOCK_ROW, LOCK_SHARED);
    ask(b, "k", LOCK_ROW, LOCK_SHARED);
    assert_int_equal(ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    assert_int_equal(ask(b, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    assert_int_equal(lock_wait(b, UINT64_MAX), FIRN_E_DEADLOCK);
    lock_release_all(b);
    ASSERT_OK(lock_wait(a, UINT64_MAX));
}

static void a_long_cycle_is_described_by_its_beginning(void **state)
{
    (void)state;
    char key[OWNERS][2];
    for (size_t i = 0; i < OWNERS; i++) {
        snprintf(key[i], sizeof(key[i]), "%zu", i);
        ask(&owners[i], key[i], LOCK_ROW, LOCK_EXCLUSIVE);
    }
    for (size_t i = 0; i < OWNERS; i++)
        ask(&owners[i], key[(i + 1) % OWNERS], LOCK_ROW, LOCK_EXCLUSIVE);
    assert_int_equal(lock_wait(&owners[OWNERS - 1], UINT64_MAX), FIRN_E_DEADLOCK);
    assert_string_equal(firn_error_text(),
                        "transaction 9 waits for 1, 1 for 2, 2 for 3, 3 for 4, 4 for 5, and so on "
                        "through 3 others; 9 was chosen to give up because it has changed least: "
                        "roll it back and begin it again");
}

/* Two in the way, the arrow leads to the one that is in no cycle; when it goes, the other is found.
 */
static void a_cycle_is_found_when_an_arrow_turns(void **state)
{
    (void)state;
    ask(a, "k", LOCK_ROW, LOCK_SHARED);
    ask(b, "k", LOCK_ROW, LOCK_SHARED); /* the nearest */
    ask(c, "l", LOCK_ROW, LOCK_EXCLUSIVE);
    assert_int_equal(ask(c, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    assert_int_equal(ask(a, "l", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    c->weight = 1;
    lock_release_all(b);
    assert_int_equal(lock_wait(c, UINT64_MAX), FIRN_E_DEADLOCK);
    lock_release_all(c);
    ASSERT_OK(lock_wait(a, UINT64_MAX));
}

static void without_detection_only_the_limit_ends_a_wait(void **state)
{
    (void)state;
    struct lock_table *blind = table_open_with(clock_real(), 1 << 20, false);
    struct lock_owner two[2];
    owners_begin(two, 2, blind);
    ask(&two[0], "k", LOCK_ROW, LOCK_EXCLUSIVE);
    ask(&two[1], "l", LOCK_ROW, LOCK_EXCLUSIVE);
    assert_int_equal(ask(&two[0], "l", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    assert_int_equal(ask(&two[1], "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
    assert_int_equal(lock_wait(&two[0], 0), FIRN_E_LOCK_WAIT);
    assert_non_null(strstr(firn_error_text(), "transaction 1 has waited"));
    assert_non_null(strstr(firn_error_text(), "index 7 that transaction 2 holds"));
    assert_int_equal(lock_wait(&two[1], 0), FIRN_E_LOCK_WAIT);
    struct lock_counters counters;
    lock_counters(blind, &counters);
    assert_int_equal(counters.deadlocks, 0);
    assert_int_equal(counters.timeouts, 2);
    owners_end(two, 2);
    lock_table_close(blind);
}

static void a_limit_is_the_clocks(void **state)
{
    (void)state;
    struct clock *clock;
    ASSERT_OK(clock_open_virtual(&clock));
    clock_join(clock);
    struct lock_table *timed = table_open_with(clock, 1 << 20, true);
    struct lock_owner two[2];
    owners_begin(two, 2, timed);
    ask(&two[0], "k", LOCK_ROW, LOCK_EXCLUSIVE);
    ask(&two[1], "k", LOCK_ROW, LOCK_EXCLUSIVE);
    assert_int_equal(lock_wait(&two[1], 50 * NS_PER_S), FIRN_E_LOCK_WAIT);
    assert_int_equal(clock_now(clock), 50 * NS_PER_S);
    assert_string_equal(firn_error_text(),
                        "transaction 2 has waited 50 s for a lock in index 7 that transaction 1 "
                        "holds or asked for earlier; try again when that has ended");
    struct lock_counters counters;
    lock_counters(timed, &counters);
    assert_int_equal(counters.wait_ns, 50 * NS_PER_S);
    owners_end(two, 2);
    lock_table_close(timed);
    clock_leave(clock);
    clock_close(clock);
}

static void a_wait_is_cancelled_from_outside(void **state)
{
    (void)state;
    lock_cancel(b); /* it does not wait: nothing */
    ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE);
    ask(b, "k", LOCK_ROW, LOCK_EXCLUSIVE);
    ask(c, "k", LOCK_ROW, LOCK_EXCLUSIVE);
    lock_cancel(b);
    assert_int_equal(lock_wait(b, UINT64_MAX), FIRN_E_CANCELLED);
    assert_string_equal(firn_error_text(),
                        "transaction 2 was cancelled while it waited for transaction 1");
    lock_cancel(b);
    lock_release_all(a);
    ASSERT_OK(lock_wait(c, 0));
}

/* ---- Gaps ---- */

static void an_insert_waits_for_gap_locks_and_keeps_nothing(void **state)
{
    (void)state;
    assert_false(lock_gaps_exist(table, TEST_INDEX));
    ask(a, "m", LOCK_NEXT_KEY, LOCK_SHARED);
    assert_true(lock_gaps_exist(table, TEST_INDEX));
    assert_int_equal(ask(b, "m", LOCK_INSERT, LOCK_EXCLUSIVE), LOCK_QUEUED);
    assert_int_equal(ask(c, "m", LOCK_GAP, LOCK_SHARED), LOCK_GRANTED); /* though it is newer ... */
    lock_release_all(a);
    assert_int_equal(lock_wait(b, 0), FIRN_E_LOCK_WAIT); /* ... it is in the way */
    assert_int_equal(ask(b, "m", LOCK_INSERT, LOCK_EXCLUSIVE), LOCK_QUEUED);
    lock_release_all(c);
    ASSERT_OK(lock_wait(b, 0));
    struct lock_counters counters;
    lock_counters(table, &counters);
    assert_int_equal(counters.locks, 0);
}

static void inherit(const char *key, bool gone, const char *next)
{
    ASSERT_OK(lock_inherit(table, TEST_INDEX, span_of_text(key), gone,
                           next != NULL ? span_of_text(next) : span_of(NULL, 0), next == NULL));
}

static void gap_locks_cover_the_same_range_when_keys_come_and_go(void **state)
{
    (void)state;
    ask(a, "m", LOCK_NEXT_KEY, LOCK_EXCLUSIVE);
    ask(b, "m", LOCK_GAP, LOCK_SHARED);
    inherit("k", false, "m"); /* k comes into the gap before m */
    inherit("k", false, "m"); /* once is enough */
    struct lock_counters counters;
    lock_counters(table, &counters);
    assert_int_equal(counters.locks, 4);
    for (size_t i = 0; i < 3; i++) {
        assert_true(conflicts(&owners[i], "k", LOCK_INSERT, LOCK_EXCLUSIVE));
        assert_false(conflicts(&owners[i], "k", LOCK_ROW, LOCK_EXCLUSIVE));
        assert_true(conflicts(&owners[i], "m", LOCK_INSERT, LOCK_EXCLUSIVE));
    }
    inherit("m", true, NULL); /* m goes: what was before it is now before the supremum */
    assert_true(conflicts(c, NULL, LOCK_INSERT, LOCK_EXCLUSIVE));
    lock_release_all(b);
    assert_true(conflicts(c, NULL, LOCK_INSERT, LOCK_EXCLUSIVE));
    assert_false(conflicts(a, NULL, LOCK_INSERT, LOCK_EXCLUSIVE)); /* only its own is left */
    inherit("n", false, NULL);
    assert_true(conflicts(c, "n", LOCK_INSERT, LOCK_EXCLUSIVE));
}

/* ---- Memory ---- */

static void locks_keep_to_their_memory(void **state)
{
    (void)state;
    struct lock_table *small = table_open_with(clock_real(), 64 * 1024, true);
    struct lock_owner owner[2];
    owners_begin(owner, 2, small);
    for (unsigned round = 0; round < 3; round++) {
        unsigned granted = 0;
        firn_rc rc = FIRN_OK;
        while (rc == FIRN_OK) {
            struct lock_request request = request_of("", LOCK_ROW, LOCK_EXCLUSIVE);
            enum lock_answer answer;
            request.key = span_of(&granted, sizeof(granted));
            rc = lock_request(&owner[0], &request, true, &answer);
            granted += rc == FIRN_OK;
        }
        assert_int_equal(rc, FIRN_E_NOMEM);
        assert_string_equal(
            firn_error_text(),
            "locks have taken the 64 KiB that they may; lock fewer rows a transaction");
        assert_in_range(granted, 400, 1024);
        struct lock_request request = request_of("", LOCK_ROW, LOCK_EXCLUSIVE);
        request.key = span_of(&granted, sizeof(granted));
        assert_false(lock_conflicts(&owner[1], &request)); /* what failed left nothing */
        lock_release_all(&owner[0]);
    }
    owners_end(owner, 2);
    lock_table_close(small);
}

/* Everything that a table does, with the k-th allocation failing, for every k. */
static firn_rc try_everything(struct lock_table *tried, struct lock_owner *owner)
{
    struct lock_request row = request_of("k", LOCK_ROW, LOCK_EXCLUSIVE);
    struct lock_request gap = request_of("m", LOCK_NEXT_KEY, LOCK_SHARED);
    enum lock_answer answer;
    for (size_t i = 0; i < 20; i++) {
        struct lock_request request = row;
        request.index_id += i;
        FIRN_TRY(lock_request(&owner[0], &request, true, &answer));
    }
    FIRN_TRY(lock_enter_implicit(
        &owner[1],
        &(struct lock_request){.index_id = 1, .part = LOCK_ROW, .mode = LOCK_EXCLUSIVE}));
    FIRN_TRY(lock_request(&owner[1], &gap, true, &answer));
    FIRN_TRY(lock_inherit(tried, TEST_INDEX, span_of_text("l"), false, span_of_text("m"), false));
    FIRN_TRY(lock_request(&owner[1], &row, true, &answer));
    assert_int_equal(answer, LOCK_QUEUED);
    lock_release_all(&owner[0]);
    return lock_wait(&owner[1], UINT64_MAX);
}

static void every_failed_allocation_leaves_the_locks_as_they_were(void **state)
{
    (void)state;
    firn_rc rc = FIRN_E_NOMEM;
    for (long k = 0; rc != FIRN_OK; k++) {
        struct lock_table *tried = NULL;
        struct lock_options options = {clock_real(), 1 << 20, true};
        memory_fail_after(k);
        rc = lock_table_open(&options, &tried);
        if (rc == FIRN_OK) {
            struct lock_owner owner[2];
            owners_begin(owner, 2, tried);
            rc = try_everything(tried, owner);
            memory_fail_after(-1);
            owners_end(owner, 2);
            lock_table_close(tried);
        }
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        assert_in_range(k, 0, 20);
    }
}

/* ---- For people ---- */

struct seen {
    unsigned held;
    unsigned waiting;
};

static void see(const struct lock_info *info, void *context)
{
    struct seen *seen = context;
    assert_int_equal(info->index_id, TEST_INDEX);
    if (info->waits_for_id == 0) {
        assert_int_equal(info->owner_id, 1);
        seen->held++;
        return;
    }
    seen->waiting++;
    assert_int_equal(info->owner_id, 2);
    assert_int_equal(info->waits_for_id, 1);
    assert_int_equal(info->part, LOCK_NEXT_KEY);
    assert_int_equal(info->mode, LOCK_SHARED);
}

static void people_see_who_holds_and_who_waits(void **state)
{
    (void)state;
    struct seen seen = {0, 0};
    ask(a, "k", LOCK_ROW, LOCK_EXCLUSIVE);
    ask(a, NULL, LOCK_WHOLE, LOCK_IX);
    ask(b, "k", LOCK_NEXT_KEY, LOCK_SHARED);
    lock_each(table, see, &seen);
    assert_int_equal(seen.held, 2);
    assert_int_equal(seen.waiting, 1);
    assert_string_equal(lock_mode_name(LOCK_IX), "IX");
    assert_string_equal(lock_part_name(LOCK_GAP), "gap before rec");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_conflicts_waits_and_nothing_else),
        TEST(what_is_held_covers_what_is_weaker),
        TEST(names_differ_by_index_key_and_supremum),
        TEST(who_comes_first_goes_first),
        TEST(readers_do_not_overtake_a_writer_that_waits),
        TEST(who_holds_the_row_goes_ahead_of_who_waits),
        TEST(an_implicit_lock_is_before_all_who_wait_for_it),
        TEST(a_row_given_back_early_lets_others_on),
        TEST(part_of_a_request_is_given_back_alone),
        TEST(the_cheapest_of_a_cycle_gives_up_and_is_told_why),
        TEST(of_equals_the_one_that_closes_the_cycle_gives_up),
        TEST(a_long_cycle_is_described_by_its_beginning),
        TEST(a_cycle_is_found_when_an_arrow_turns),
        TEST(without_detection_only_the_limit_ends_a_wait),
        TEST(a_limit_is_the_clocks),
        TEST(a_wait_is_cancelled_from_outside),
        TEST(an_insert_waits_for_gap_locks_and_keeps_nothing),
        TEST(gap_locks_cover_the_same_range_when_keys_come_and_go),
        TEST(locks_keep_to_their_memory),
        TEST(every_failed_allocation_leaves_the_locks_as_they_were),
        TEST(people_see_who_holds_and_who_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
