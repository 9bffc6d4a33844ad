/*
 * A long log: written, found after a crash, read back to its beginning, purged in many steps.
 */
#include "txn/undo_world.h"

enum { RECORDS = 100000 };

static uint8_t scratch[PAGE];

static struct span small_record(uint64_t number)
{
    put_u64(scratch, number);
    memset(scratch + 8, (int)(number & 0xff), 92);
    return span_of(scratch, 100);
}

/* The log is smaller than what is written: pages must be, too. */
static firn_rc urge(void *pool)
{
    return buffer_clean(pool);
}

/* Close cleanly and open: of the long log only its ends are read. */
static void open_again(struct sim_disk *disk)
{
    struct buffer_counters before;
    struct buffer_counters after;
    undo_close(undo);
    world_close(&world);
    ASSERT_OK(world_open(&world, disk, PAGE, 7));
    redo_set_urge(world.redo, urge, world.pool);
    buffer_counters(world.pool, &before);
    ASSERT_OK(undo_world_open_set(false, TABLESPACES));
    buffer_counters(world.pool, &after);
    assert_true(after.misses - before.misses < 10);
}

static firn_rc keep(const struct undo_unfinished *found, const struct undo_log *log, void *context)
{
    assert_int_equal(found->txn_id, 5);
    *(struct undo_log *)context = *log;
    return FIRN_OK;
}

static void a_hundred_thousand_records_are_walked_back(void **state)
{
    (void)state;
    struct sim_disk *disk = disk_make();
    struct undo_log log = {0};
    struct undo_buffer buffer = {0};
    struct undo_finished finished;
    struct undo_counters counters;
    undo_world_make(disk);
    redo_set_urge(world.redo, urge, world.pool);
    ASSERT_OK(undo_begin(undo, &world.mtr, 5, &log));
    for (uint64_t i = 0; i < RECORDS; i++) {
        undo_pointer at;
        ASSERT_OK(append_to(&log, &world.mtr, small_record(i), &at));
    }
    open_again(disk);
    ASSERT_OK(undo_each_unfinished(undo, keep, &log));
    undo_pointer last = log.last;
    for (uint64_t i = RECORDS; i-- > 0;) {
        struct span record;
        undo_pointer this = last;
        ASSERT_OK(undo_read(undo, last, &buffer, &record, &last));
        assert_int_equal(get_u64(record.bytes), i);
        /* As rolling back does from time to time. */
        if (i % 20000 == 0)
            ASSERT_OK(undo_rewind(&log, &world.mtr, i > 0 ? this : 0));
    }
    assert_true(last == 0);
    ASSERT_OK(finish(&log, &world.mtr, UNDO_ROLLED_BACK, 1));
    ASSERT_OK(undo_counters(undo, &counters));
    assert_true(counters.pages > RECORDS / 40 && counters.pages < RECORDS / 30);
    ASSERT_OK(undo_purge_first(undo, 0, &finished));
    assert_true(finished.last == 0);
    ASSERT_OK(undo_purge_done(undo, &world.mtr, 0));
    ASSERT_OK(undo_counters(undo, &counters));
    assert_int_equal(counters.pages, 1);
    undo_world_check();
    undo_buffer_free(&buffer);
    undo_world_abandon();
    sim_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_records_are_walked_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
