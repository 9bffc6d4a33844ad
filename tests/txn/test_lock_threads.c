/*
 * Locks by many threads. Transactions work on rows as they will in a tree: a latch makes looking at
 * a row and locking it one step, who changes a row has it implicitly, and whoever must wait gives
 * the latch back and begins anew. What the locks promise is looked at in the rows themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/lock_fixture.h"

#include "base/inject.h"
#include "base/rng.h"
#include "repeat.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 6, WORKERS = 8, TRANSACTIONS = 300, STEPS_MAX = 4, CROWD = 200, CROWD_ROUNDS = 10 };

/* For ever, but a test that waits for ever says nothing. */
#define LONG_NS (120 * NS_PER_S)

struct row {
    pthread_mutex_t latch;
    struct lock_owner *writer; /* open, or NULL */
    unsigned value;            /* changed by the writer alone */
    unsigned inserts;          /* into the gap in front of it */
    char key[4];
};

struct worker {
    struct lock_owner owner;
    struct rng rng;
    bool has_written[ROWS];
    unsigned values[ROWS]; /* what it wrote or read under a lock */
    bool has_read[ROWS];
    unsigned inserts[ROWS]; /* what it saw in a gap that it has locked, and its own since */
    bool has_gap[ROWS];
    unsigned done;
};

static struct lock_table *table;
static struct row rows[ROWS];
static struct worker workers[WORKERS];
static _Atomic unsigned working;
static _Atomic unsigned faults;
static _Atomic unsigned victims;

static void blame(const char *what, firn_rc rc)
{
    if (atomic_fetch_add(&faults, 1) == 0)
        print_error("%s: %s (%s)\n", what, firn_rc_text(rc), firn_error_text());
}

/* ---- Steps; FIRN_OK, or what a wait ended with ---- */

/* Under the latch, which is given back before waiting. @return true if the row is locked now, the
 * latch still held; false: rc is set, and if it is FIRN_OK look again */
static bool lock_row(struct worker *worker, struct row *row, enum lock_part part,
                     enum lock_mode mode, firn_rc *rc)
{
    struct lock_request request = request_of(row->key, part, mode);
    enum lock_answer answer = LOCK_REFUSED;
    *rc = FIRN_OK;
    if (part != LOCK_INSERT && row->writer != NULL && row->writer != &worker->owner) {
        struct lock_request implicit = request_of(row->key, LOCK_ROW, LOCK_EXCLUSIVE);
        *rc = lock_enter_implicit(row->writer, &implicit);
    }
    if (*rc == FIRN_OK)
        *rc = lock_request(&worker->owner, &request, true, &answer);
    if (*rc == FIRN_OK && answer != LOCK_QUEUED)
        return true;
    pthread_mutex_unlock(&row->latch);
    bool is_short = rng_below(&worker->rng, 32) == 0;
    if (*rc == FIRN_OK)
        *rc = lock_wait(&worker->owner, is_short ? 20 * NS_PER_US : LONG_NS);
    if (*rc == FIRN_E_LOCK_WAIT && !is_short)
        blame("a wait never ended", *rc);
    return false;
}

static firn_rc write_row(struct worker *worker, unsigned which)
{
    struct row *row = &rows[which];
    struct lock_request request = request_of(row->key, LOCK_ROW, LOCK_EXCLUSIVE);
    for (firn_rc rc;;) {
        pthread_mutex_lock(&row->latch);
        if (row->writer == &worker->owner)
            break;
        /* Locked by being changed, unless somebody has it or waits for it. */
        if (row->writer == NULL && !lock_conflicts(&worker->owner, &request))
            break;
        if (lock_row(worker, row, LOCK_ROW, LOCK_EXCLUSIVE, &rc))
            break;
        FIRN_TRY(rc);
    }
    if (worker->has_read[which] && row->value != worker->values[which])
        blame("what was read under a lock has changed", FIRN_OK);
    row->writer = &worker->owner;
    worker->values[which] = ++row->value;
    worker->has_written[which] = true;
    atomic_fetch_add(&worker->owner.weight, 1);
    pthread_mutex_unlock(&row->latch);
    return FIRN_OK;
}

static firn_rc read_row(struct worker *worker, unsigned which, bool with_gap)
{
    struct row *row = &rows[which];
    for (firn_rc rc;;) {
        pthread_mutex_lock(&row->latch);
        if (lock_row(worker, row, with_gap ? LOCK_NEXT_KEY : LOCK_ROW, LOCK_SHARED, &rc))
            break;
        FIRN_TRY(rc);
    }
    if ((worker->has_read[which] || worker->has_written[which]) &&
        row->value != worker->values[which])
        blame("what was read before has changed", FIRN_OK);
    if (with_gap && !worker->has_gap[which])
        worker->inserts[which] = row->inserts;
    worker->values[which] = row->value;
    worker->has_read[which] = true;
    worker->has_gap[which] |= with_gap;
    pthread_mutex_unlock(&row->latch);
    return FIRN_OK;
}

static firn_rc insert_before(struct worker *worker, unsigned which)
{
    struct row *row = &rows[which];
    for (firn_rc rc;;) {
        pthread_mutex_lock(&row->latch);
        if (!lock_gaps_exist(table, TEST_INDEX))
            break;
        if (lock_row(worker, row, LOCK_INSERT, LOCK_EXCLUSIVE, &rc))
            break;
        FIRN_TRY(rc);
    }
    row->inserts++;
    worker->inserts[which]++;
    pthread_mutex_unlock(&row->latch);
    return FIRN_OK;
}

/* ---- Transactions ---- */

static firn_rc work(struct worker *worker)
{
    unsigned steps = 1 + (unsigned)rng_below(&worker->rng, STEPS_MAX);
    for (unsigned i = 0; i < steps; i++) {
        unsigned which = (unsigned)rng_below(&worker->rng, ROWS);
        unsigned what = (unsigned)rng_below(&worker->rng, 8);
        if (what < 4)
            FIRN_TRY(write_row(worker, which));
        else if (what < 7)
            FIRN_TRY(read_row(worker, which, what == 6));
        else
            FIRN_TRY(insert_before(worker, which));
        if (rng_below(&worker->rng, 4) == 0)
            sched_yield();
    }
    return FIRN_OK;
}

static void end(struct worker *worker)
{
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *row = &rows[i];
        pthread_mutex_lock(&row->latch);
        if (worker->has_written[i] &&
            (row->writer != &worker->owner || row->value != worker->values[i]))
            blame("somebody else has changed a row that was locked", FIRN_OK);
        if (worker->has_read[i] && row->value != worker->values[i])
            blame("what was read under a lock has changed by the end", FIRN_OK);
        if (worker->has_gap[i] && row->inserts != worker->inserts[i])
            blame("something came into a gap that was locked", FIRN_OK);
        if (worker->has_written[i])
            row->writer = NULL; /* from now on nobody enters a lock for us */
        worker->has_written[i] = worker->has_read[i] = worker->has_gap[i] = false;
        pthread_mutex_unlock(&row->latch);
    }
    atomic_store(&worker->owner.weight, 0);
    lock_release_all(&worker->owner);
}

static void *storm(void *argument)
{
    struct worker *worker = argument;
    while (worker->done < TRANSACTIONS) {
        firn_rc rc = work(worker);
        end(worker);
        if (rc == FIRN_OK)
            worker->done++;
        else if (rc == FIRN_E_DEADLOCK)
            atomic_fetch_add(&victims, 1);
        else if (rc != FIRN_E_LOCK_WAIT && rc != FIRN_E_CANCELLED)
            blame("a lock could not be had", rc);
    }
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static void ignore(const struct lock_info *info, void *context)
{
    *(uint64_t *)context += info->owner_id;
}

static void *disturb(void *argument)
{
    struct rng rng;
    uint64_t sum = 0;
    rng_init(&rng, *(const uint64_t *)argument);
    while (atomic_load(&working) > 0) {
        lock_cancel(&workers[rng_below(&rng, WORKERS)].owner);
        if (rng_below(&rng, 64) == 0)
            lock_each(table, ignore, &sum);
        sched_yield();
    }
    return NULL;
}

static void run_storm(uint64_t seed, bool disturbed)
{
    pthread_t threads[WORKERS + 1];
    table = table_open();
    atomic_store(&working, WORKERS);
    for (unsigned i = 0; i < ROWS; i++) {
        rows[i] = (struct row){.value = 0};
        pthread_mutex_init(&rows[i].latch, NULL);
        snprintf(rows[i].key, sizeof(rows[i].key), "%u", i);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.done = 0};
        lock_owner_init(&workers[i].owner, table);
        atomic_store(&workers[i].owner.id, i + 1);
        rng_init(&workers[i].rng, seed * WORKERS + i);
        pthread_create(&threads[i], NULL, storm, &workers[i]);
    }
    if (disturbed)
        pthread_create(&threads[WORKERS], NULL, disturb, &seed);
    for (unsigned i = 0; i < (disturbed ? WORKERS + 1U : WORKERS); i++)
        pthread_join(threads[i], NULL);
    struct lock_counters counters;
    lock_counters(table, &counters);
    assert_int_equal(counters.locks, 0);
    assert_false(lock_gaps_exist(table, TEST_INDEX));
    for (unsigned i = 0; i < WORKERS; i++)
        lock_owner_free(&workers[i].owner);
    for (unsigned i = 0; i < ROWS; i++)
        pthread_mutex_destroy(&rows[i].latch);
    lock_table_close(table);
    assert_int_equal(atomic_load(&faults), 0);
}

static void every_wait_in_a_storm_of_deadlocks_ends(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    unsigned runs = test_runs(4);
    for (unsigned i = 0; i < runs; i++)
        run_storm(seed + i, i % 2 == 1);
    assert_true(atomic_load(&victims) > 0);
}

/* ---- One row, two hundred sessions ---- */

static unsigned shared_count; /* under the row's lock alone */
static _Atomic unsigned sleeps;

static void count_sleeps(const char *point, void *context)
{
    (void)context;
    if (strcmp(point, "lock-sleeps") == 0)
        atomic_fetch_add(&sleeps, 1);
}

static void *stand_in_the_crowd(void *argument)
{
    struct lock_owner owner;
    struct lock_request row = request_of("row", LOCK_ROW, LOCK_EXCLUSIVE);
    lock_owner_init(&owner, table);
    atomic_store(&owner.id, 1 + (uint64_t) * (const unsigned *)argument);
    for (unsigned i = 0; i < CROWD_ROUNDS; i++) {
        enum lock_answer answer;
        firn_rc rc = lock_request(&owner, &row, true, &answer);
        if (rc == FIRN_OK && answer == LOCK_QUEUED)
            rc = lock_wait(&owner, LONG_NS);
        if (rc != FIRN_OK)
            blame("the row was not had", rc);
        shared_count++;
        if (i % 4 == 0)
            sched_yield();
        lock_release_all(&owner);
    }
    lock_owner_free(&owner);
    return NULL;
}

static void a_crowd_on_one_row_wakes_one_by_one(void **state)
{
    (void)state;
    pthread_t threads[CROWD];
    unsigned numbers[CROWD];
    table = table_open();
    shared_count = 0;
    inject_set(count_sleeps, NULL);
    for (unsigned i = 0; i < CROWD; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, stand_in_the_crowd, &numbers[i]);
    }
    for (unsigned i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    inject_set(NULL, NULL);
    struct lock_counters counters;
    lock_counters(table, &counters);
    assert_int_equal(shared_count, CROWD * CROWD_ROUNDS);
    assert_int_equal(counters.requests, CROWD * CROWD_ROUNDS);
    assert_int_equal(counters.deadlocks, 0);
    assert_true(counters.waits > CROWD);
    assert_true(atomic_load(&sleeps) <= counters.waits); /* nobody is woken to sleep again */
    lock_table_close(table);
    assert_int_equal(atomic_load(&faults), 0);
}

/* ---- Virtual time ---- */

struct timed {
    struct lock_owner owner;
    struct clock *clock;
    uint64_t limit_ns;
    firn_rc rc;
    uint64_t ended_ns;
};

static void *wait_in_time(void *argument)
{
    struct timed *timed = argument;
    timed->rc = lock_wait(&timed->owner, timed->limit_ns);
    timed->ended_ns = clock_now(timed->clock);
    lock_release_all(&timed->owner);
    clock_leave(timed->clock);
    return NULL;
}

static void waits_end_at_their_moment_of_virtual_time(void **state)
{
    (void)state;
    struct clock *clock;
    ASSERT_OK(clock_open_virtual(&clock));
    table = table_open_with(clock, 1 << 20, true);
    struct timed timed[3] = {
        {.limit_ns = 50 * NS_PER_S}, {.limit_ns = 5 * NS_PER_S}, {.limit_ns = UINT64_MAX}};
    struct lock_owner holder;
    pthread_t threads[3];
    lock_owner_init(&holder, table);
    clock_join(clock);
    ask(&holder, "k", LOCK_ROW, LOCK_EXCLUSIVE);
    for (unsigned i = 0; i < 3; i++) {
        timed[i].clock = clock;
        lock_owner_init(&timed[i].owner, table);
        assert_int_equal(ask(&timed[i].owner, "k", LOCK_ROW, LOCK_EXCLUSIVE), LOCK_QUEUED);
        clock_join(clock);
        pthread_create(&threads[i], NULL, wait_in_time, &timed[i]);
    }
    clock_wait_until(clock, 10 * NS_PER_S);
    lock_release_all(&holder);
    clock_leave(clock);
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(timed[i].rc, i == 1 ? FIRN_E_LOCK_WAIT : FIRN_OK);
        assert_int_equal(timed[i].ended_ns, (i == 1 ? 5 : 10) * NS_PER_S);
        lock_owner_free(&timed[i].owner);
    }
    lock_owner_free(&holder);
    lock_table_close(table);
    clock_close(clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wait_in_a_storm_of_deadlocks_ends),
        cmocka_unit_test(a_crowd_on_one_row_wakes_one_by_one),
        cmocka_unit_test(waits_end_at_their_moment_of_virtual_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
