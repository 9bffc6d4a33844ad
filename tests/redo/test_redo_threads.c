/* Many threads append and wait for durability at once: nobody is told what is not so, nobody waits
   for ever, and each thread's frames are in the log in its order. */
#include "base/check.h"
#include "base/inject.h"
#include "redo/redo_support.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, FRAMES = 400 };

struct appender {
    pthread_t thread;
    struct redo *redo;
    uint32_t number;
    uint64_t seed;
    unsigned sync_percent;
    uint64_t acknowledged; /* frames known to be durable */
    uint64_t acknowledged_lsn;
};

static void append_one(struct appender *appender, struct rng *rng, uint32_t frame)
{
    uint8_t body[3000];
    struct redo_room room = {0};
    uint64_t end_lsn;
    uint32_t size = 16 + (uint32_t)rng_below(rng, rng_below(rng, 8) == 0 ? 2900 : 200);
    memset(body, (int)(appender->number * 16 + frame), size);
    put_u32(body, appender->number);
    put_u32(body + 4, frame);
    put_u32(body + 8, size);
    ENSURE(redo_reserve(appender->redo, size, &room) == FIRN_OK);
    ENSURE(redo_append(appender->redo, span_of(body, size), &end_lsn) == FIRN_OK);
    redo_unreserve(appender->redo, &room);
    enum redo_flush flush = rng_below(rng, 100) < appender->sync_percent ? REDO_FLUSH_SYNC
                            : rng_below(rng, 2) == 0                     ? REDO_FLUSH_WRITE
                                                                         : REDO_FLUSH_NONE;
    ENSURE(redo_flush(appender->redo, end_lsn, flush) == FIRN_OK);
    if (flush == REDO_FLUSH_SYNC) {
        ENSURE(redo_durable_lsn(appender->redo) >= end_lsn);
        appender->acknowledged = frame + 1;
        appender->acknowledged_lsn = end_lsn;
    }
}

static void *append_all(void *context)
{
    struct appender *appender = context;
    struct rng rng;
    rng_init(&rng, appender->seed);
    for (uint32_t i = 0; i < FRAMES; i++)
        append_one(appender, &rng, i);
    return NULL;
}

static void run_appenders(struct redo *redo, struct appender *appenders, unsigned sync_percent,
                          uint64_t seed)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        appenders[i] = (struct appender){
            .redo = redo, .number = i, .seed = seed + i, .sync_percent = sync_percent};
        assert_int_equal(pthread_create(&appenders[i].thread, NULL, append_all, &appenders[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(appenders[i].thread, NULL);
}

/* Count each thread's frames in the log, in its order, each whole. */
static void count_frames(struct redo *redo, uint32_t next[THREADS], uint64_t *end)
{
    struct redo_reader *reader;
    struct span body;
    uint64_t lsn;
    *end = redo_checkpoint_lsn(redo);
    ASSERT_OK(redo_reader_open(redo, *end, &reader));
    firn_rc rc;
    while ((rc = redo_reader_next(reader, &body, &lsn, end)) == FIRN_OK) {
        uint32_t number = get_u32(body.bytes);
        uint32_t frame = get_u32(body.bytes + 4);
        assert_true(number < THREADS);
        assert_int_equal(get_u32(body.bytes + 8), body.size_bytes);
        assert_int_equal(frame, next[number]);
        next[number]++;
        for (size_t i = 12; i < body.size_bytes; i++)
            assert_int_equal(body.bytes[i], (uint8_t)(number * 16 + frame));
    }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    redo_reader_close(reader);
}

static void append_and_read(unsigned sync_percent, uint64_t seed)
{
    struct log log;
    struct log_content content;
    struct appender appenders[THREADS];
    log_make(&log);
    log.options.flush_thread = true;
    log_start(&log, &content);
    run_appenders(log.redo, appenders, sync_percent, seed);
    log_close(&log);
    /* What is not durable is lost. */
    sim_disk_cut(log.disk, SIM_CUT_TEAR, seed);
    io_system_close(log.system);
    sim_disk_restore(log.disk);
    log.options.system = log.system = disk_open(log.disk, seed);

    uint32_t next[THREADS] = {0};
    uint64_t end;
    ASSERT_OK(redo_open(&log.options, &log.redo));
    count_frames(log.redo, next, &end);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_true(next[i] >= appenders[i].acknowledged);
        assert_true(end >= appenders[i].acknowledged_lsn);
    }
    log_destroy(&log);
}

static void test_what_was_acknowledged_is_there(void **state)
{
    (void)state;
    uint64_t seed = test_seed(21);
    append_and_read(100, seed);
    append_and_read(30, seed + 1);
    append_and_read(0, seed + 2);
}

/* ---- A small ring and a small buffer, with everybody pressing ---- */

static firn_rc checkpoint_all(void *context)
{
    struct redo *redo = context;
    return redo_checkpoint(redo, redo_reserved_lsn(redo));
}

static void *append_large(void *context)
{
    struct appender *appender = context;
    struct rng rng;
    rng_init(&rng, appender->seed);
    uint8_t *body = calloc(1, 2 << 20);
    for (int i = 0; i < 12; i++) {
        struct redo_room room = {0};
        uint64_t end_lsn;
        uint32_t size = 1 + (uint32_t)rng_below(&rng, (2 << 20) - 1);
        ENSURE(redo_reserve(appender->redo, size, &room) == FIRN_OK);
        ENSURE(redo_append(appender->redo, span_of(body, size), &end_lsn) == FIRN_OK);
        redo_unreserve(appender->redo, &room);
        if (i % 4 == 0)
            ENSURE(redo_flush(appender->redo, end_lsn, REDO_FLUSH_SYNC) == FIRN_OK);
    }
    free(body);
    return NULL;
}

static void test_a_small_ring_serves_many_large_frames(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    struct appender appenders[THREADS];
    uint64_t seed = test_seed(22);
    log_make(&log);
    log_start(&log, &content);
    redo_set_urge(log.redo, checkpoint_all, log.redo);
    for (uint32_t i = 0; i < THREADS; i++) {
        appenders[i] = (struct appender){.redo = log.redo, .seed = seed + i};
        assert_int_equal(pthread_create(&appenders[i].thread, NULL, append_large, &appenders[i]),
                         0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(appenders[i].thread, NULL);
    ASSERT_OK(redo_status(log.redo));
    struct redo_counters counters;
    redo_counters(log.redo, &counters);
    assert_true(counters.checkpoints > 0 && counters.bytes > redo_capacity_bytes(log.redo));
    log_destroy(&log);
}

/* ---- A thread that is kept from going on ---- */

/* What others do while a thread looks how much of the log is in use. */
static void others_go_on(const char *point, void *context)
{
    static const uint8_t body[64];
    struct redo *redo = context;
    if (strcmp(point, "redo-bytes-from") != 0)
        return;
    inject_set(NULL, NULL);
    uint64_t end_lsn;
    ENSURE(redo_append(redo, span_of(body, sizeof(body)), &end_lsn) == FIRN_OK);
    ENSURE(redo_checkpoint(redo, end_lsn) == FIRN_OK);
}

static void test_who_is_overtaken_while_it_looks_waits_for_nobody(void **state)
{
    (void)state;
#ifdef NDEBUG
    skip(); /* there are no injection points */
#endif
    struct log log;
    struct log_content content;
    struct redo_room room = {0};
    struct redo_counters counters;
    log_make(&log);
    log_start(&log, &content);
    inject_set(others_go_on, log.redo);
    ASSERT_OK(redo_reserve(log.redo, 100, &room)); /* for ever, if the log seems to be full */
    inject_set(NULL, NULL);
    redo_unreserve(log.redo, &room);
    redo_counters(log.redo, &counters);
    assert_int_equal(counters.space_waits, 0);
    log_destroy(&log);
}

/* ---- Failure ---- */

static void *append_until_stopped(void *context)
{
    struct appender *appender = context;
    for (uint32_t frame = 0;; frame++) {
        struct redo_room room = {0};
        uint64_t end_lsn = 0;
        uint8_t body[64] = {0};
        firn_rc rc = redo_reserve(appender->redo, sizeof(body), &room);
        if (rc == FIRN_OK)
            rc = redo_append(appender->redo, span_of(body, sizeof(body)), &end_lsn);
        redo_unreserve(appender->redo, &room);
        if (rc == FIRN_OK)
            rc = redo_flush(appender->redo, end_lsn, REDO_FLUSH_SYNC);
        if (rc != FIRN_OK) {
            ENSURE(rc == FIRN_E_STOPPED);
            return NULL;
        }
        appender->acknowledged = frame + 1;
    }
}

static void test_a_failed_sync_stops_everybody(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    struct appender appenders[THREADS];
    struct fault_injector *injector;
    log_make(&log);
    ASSERT_OK(fault_attach(log.system, 1, &injector));
    log_start(&log, &content);
    struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_SYNCS, .first = 20};
    fault_set_plans(injector, &plan, 1);
    for (uint32_t i = 0; i < THREADS; i++) {
        appenders[i] = (struct appender){.redo = log.redo};
        assert_int_equal(
            pthread_create(&appenders[i].thread, NULL, append_until_stopped, &appenders[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(appenders[i].thread, NULL);
    assert_int_equal(redo_status(log.redo), FIRN_E_STOPPED);
    ASSERT_TEXT("the log takes no more commits since this failure: cannot sync log/firn_redo.");
    log_destroy(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_acknowledged_is_there),
        cmocka_unit_test(test_a_small_ring_serves_many_large_frames),
        cmocka_unit_test(test_who_is_overtaken_while_it_looks_waits_for_nobody),
        cmocka_unit_test(test_a_failed_sync_stops_everybody),
    };
    return cmocka_run_group_tests_name("redo_threads", tests, NULL, NULL);
}
