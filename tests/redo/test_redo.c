/* The log as its callers see it: what was appended is read back, in order, byte for byte. */
#include "redo/redo_support.h"

static void test_a_new_log_is_empty(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    log_make(&log);
    log_start(&log, &content);
    assert_int_equal(content.frames, 0);
    assert_int_equal(redo_checkpoint_lsn(log.redo), REDO_FIRST_LSN);
    assert_true(redo_reserved_lsn(log.redo) > REDO_FIRST_LSN);
    assert_int_equal(redo_durable_lsn(log.redo), redo_reserved_lsn(log.redo));
    log_close(&log);
    log_destroy(&log);
}

static void test_frames_are_read_back(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    log_make(&log);
    log_start(&log, &content);
    for (uint64_t i = 0; i < 1000; i++) {
        ASSERT_OK(log_append(log.redo, i, &log.end_lsn));
        assert_int_equal(redo_reserved_lsn(log.redo), log.end_lsn);
        if (i % 7 == 0) {
            ASSERT_OK(redo_flush(log.redo, log.end_lsn, REDO_FLUSH_SYNC));
            assert_int_equal(redo_durable_lsn(log.redo), log.end_lsn);
        }
    }
    ASSERT_OK(redo_tick(log.redo));
    log_close(&log);
    for (int opened = 0; opened < 3; opened++) {
        log_start(&log, &content);
        assert_int_equal(content.frames, 1000);
        assert_int_equal(content.first, 0);
        assert_int_equal(content.end_lsn, log.end_lsn);
        log_close(&log);
    }
    log_destroy(&log);
}

/* @return bytes that a frame of so many bytes' body costs when it is written at once */
static uint64_t written_for(struct log *log, uint64_t number, uint32_t size_bytes)
{
    struct redo_counters before, after;
    redo_counters(log->redo, &before);
    ASSERT_OK(log_append_sized(log->redo, number, size_bytes, &log->end_lsn));
    ASSERT_OK(redo_flush(log->redo, log->end_lsn, REDO_FLUSH_WRITE));
    redo_counters(log->redo, &after);
    assert_int_equal(after.writes, before.writes + 1);
    return after.written_bytes - before.written_bytes;
}

/* Past the page cache all of a block is written again; within it what is new. */
static void test_a_cached_block_takes_what_is_new(void **state)
{
    (void)state;
    for (int direct = 0; direct < 2; direct++) {
        struct log log;
        struct log_content content;
        log_make(&log);
        log.options.direct = direct;
        for (uint64_t life = 0; life < 2; life++) {
            log_start(&log, &content);
            assert_int_equal(content.frames, 5 * life);
            assert_true(log.end_lsn % 4096 < 3000);
            assert_int_equal(written_for(&log, 5 * life, 100), direct ? 4096 : 120);
            assert_int_equal(written_for(&log, 5 * life + 1, 100), direct ? 4096 : 120);
            assert_int_equal(written_for(&log, 5 * life + 2, 4060), 8192); /* into the next one */
            assert_int_equal(written_for(&log, 5 * life + 3, 240), direct ? 4096 : 256);
            assert_int_equal(written_for(&log, 5 * life + 4, 100), direct ? 4096 : 120);
            log_close(&log);
        }
        log_start(&log, &content);
        assert_int_equal(content.frames, 10);
        log_destroy(&log);
    }
}

static void test_lives_follow_one_another(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    log_make(&log);
    uint64_t number = 0;
    for (int life = 0; life < 20; life++) {
        log_start(&log, &content);
        assert_int_equal(content.frames, number);
        for (int i = 0; i < life; i++)
            ASSERT_OK(log_append(log.redo, number++, &log.end_lsn));
        ASSERT_OK(redo_tick(log.redo));
        log_close(&log);
    }
    log_destroy(&log);
}

static firn_rc checkpoint_all(void *context)
{
    struct log *log = context;
    return redo_checkpoint(log->redo, redo_reserved_lsn(log->redo));
}

static void test_the_ring_is_used_again_and_again(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    log_make(&log);
    log_start(&log, &content);
    redo_set_urge(log.redo, checkpoint_all, &log);
    uint64_t number = 0;
    struct redo_counters counters;
    while (redo_reserved_lsn(log.redo) < 5 * redo_capacity_bytes(log.redo))
        ASSERT_OK(log_append(log.redo, number++, &log.end_lsn));
    redo_counters(log.redo, &counters);
    assert_true(counters.space_waits >= 4 && counters.checkpoints >= 4);
    ASSERT_OK(redo_tick(log.redo));
    log_close(&log);
    log_start(&log, &content);
    assert_int_equal(content.last, number - 1);
    assert_int_equal(content.end_lsn, log.end_lsn);
    log_close(&log);
    log_destroy(&log);
}

static void test_the_largest_frame_is_read_back(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    log_make(&log);
    log_start(&log, &content);
    redo_set_urge(log.redo, checkpoint_all, &log);
    for (uint64_t i = 0; i < 6; i++) {
        struct redo_room room = {0};
        uint32_t size = REDO_FRAME_BODY_MAX - (uint32_t)i;
        ASSERT_OK(redo_reserve(log.redo, size, &room));
        ASSERT_OK(log_append_sized(log.redo, i, size, &log.end_lsn));
        redo_unreserve(log.redo, &room);
        ASSERT_OK(redo_flush(log.redo, log.end_lsn, i % 2 ? REDO_FLUSH_SYNC : REDO_FLUSH_WRITE));
    }
    log_close(&log);
    log_start(&log, &content);
    assert_int_equal(content.last, 5);
    assert_int_equal(content.end_lsn, log.end_lsn);
    log_close(&log);
    log_destroy(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_log_is_empty),
        cmocka_unit_test(test_frames_are_read_back),
        cmocka_unit_test(test_a_cached_block_takes_what_is_new),
        cmocka_unit_test(test_lives_follow_one_another),
        cmocka_unit_test(test_the_ring_is_used_again_and_again),
        cmocka_unit_test(test_the_largest_frame_is_read_back),
    };
    return cmocka_run_group_tests_name("redo", tests, NULL, NULL);
}
