/*
 * A limit on the log's growth: who comes to it tells, or waits while it moves on; nobody waits
 * behind one that was taken away, nor behind a log that has failed.
 */
#include "redo_support.h"

#include "base/check.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic unsigned told;

static void tell(void *context)
{
    (void)context;
    atomic_fetch_add(&told, 1);
}

static void limit_open(struct log *log)
{
    log_make(log);
    ASSERT_OK(redo_open(&log->options, &log->redo));
    ASSERT_OK(redo_recovered(log->redo, redo_checkpoint_lsn(log->redo)));
    atomic_store(&told, 0);
    redo_set_at_limit(log->redo, tell, NULL);
}

static void limit_close(struct log *log)
{
    redo_close(log->redo);
    io_system_close(log->system);
    sim_disk_destroy(log->disk);
}

/* Ask for room and append a small frame. */
static firn_rc grow(struct redo *redo)
{
    struct redo_room room = {0};
    uint64_t end_lsn;
    FIRN_TRY(redo_reserve(redo, 100, &room));
    firn_rc rc = log_append_sized(redo, 1, 100, &end_lsn);
    redo_unreserve(redo, &room);
    return rc;
}

static uint64_t limit_waits(struct redo *redo)
{
    struct redo_counters counters;
    redo_counters(redo, &counters);
    return counters.limit_waits;
}

static void test_who_comes_to_a_limit_tells_once_and_goes_on(void **state)
{
    (void)state;
    struct log log;
    limit_open(&log);
    redo_set_limit(log.redo, redo_reserved_lsn(log.redo) + 200, 0);
    ASSERT_OK(grow(log.redo));
    assert_int_equal(atomic_load(&told), 0);
    for (unsigned i = 0; i < 5; i++)
        ASSERT_OK(grow(log.redo));
    assert_int_equal(atomic_load(&told), 1);
    redo_set_limit(log.redo, redo_reserved_lsn(log.redo), 0);
    ASSERT_OK(grow(log.redo));
    assert_int_equal(atomic_load(&told), 2);
    assert_int_equal(limit_waits(log.redo), 0);
    limit_close(&log);
}

static void test_the_log_grows_no_faster_than_a_limit_moves(void **state)
{
    (void)state;
    struct log log;
    limit_open(&log);
    uint64_t began_lsn = redo_reserved_lsn(log.redo);
    uint64_t began_ns = clock_now(clock_real());
    uint64_t bytes_s = 100000;
    redo_set_limit(log.redo, began_lsn, bytes_s);
    for (unsigned i = 0; i < 50; i++)
        ASSERT_OK(grow(log.redo));
    double grown = (double)(redo_reserved_lsn(log.redo) - began_lsn);
    double passed_s = (double)(clock_now(clock_real()) - began_ns) / 1e9;
    assert_true(grown - 200 <= (double)bytes_s * passed_s); /* the last one is not waited for */
    assert_true(limit_waits(log.redo) > 0);
    assert_int_equal(atomic_load(&told), 0);
    limit_close(&log);
}

static void *grow_in_thread(void *context)
{
    static firn_rc rc;
    rc = grow(context);
    return &rc;
}

/* Let a thread wait at a limit that does not move to speak of. */
static pthread_t start_waiting(struct redo *redo)
{
    pthread_t thread;
    redo_set_limit(redo, REDO_FIRST_LSN, 1);
    assert_int_equal(pthread_create(&thread, NULL, grow_in_thread, redo), 0);
    while (limit_waits(redo) == 0)
        usleep(100);
    return thread;
}

static firn_rc join(pthread_t thread)
{
    void *rc;
    assert_int_equal(pthread_join(thread, &rc), 0);
    return *(firn_rc *)rc;
}

static void test_taking_the_limit_away_lets_everybody_go(void **state)
{
    (void)state;
    struct log log;
    limit_open(&log);
    pthread_t thread = start_waiting(log.redo);
    redo_set_limit(log.redo, UINT64_MAX, 0);
    ASSERT_OK(join(thread));
    limit_close(&log);
}

static void test_nobody_waits_behind_a_log_that_has_failed(void **state)
{
    (void)state;
    struct log log;
    limit_open(&log);
    ASSERT_OK(grow(log.redo));
    pthread_t thread = start_waiting(log.redo);
    sim_disk_cut(log.disk, SIM_CUT_KEEP, 1);
    assert_int_equal(redo_flush(log.redo, redo_reserved_lsn(log.redo), REDO_FLUSH_SYNC),
                     FIRN_E_STOPPED);
    assert_int_equal(join(thread), FIRN_E_STOPPED);
    limit_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_comes_to_a_limit_tells_once_and_goes_on),
        cmocka_unit_test(test_the_log_grows_no_faster_than_a_limit_moves),
        cmocka_unit_test(test_taking_the_limit_away_lets_everybody_go),
        cmocka_unit_test(test_nobody_waits_behind_a_log_that_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
