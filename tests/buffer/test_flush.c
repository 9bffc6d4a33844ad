/*
 * Flushing in virtual time: what is waited for and what is not, and what is done between the
 * batches of a long flush.
 */
#include "buffer/write_fixture.h"

#include <pthread.h>

enum { SOMEBODY_HOLDS_NS = 1000000 };

static struct sim_disk *disk;
static struct redo redo;
static struct world world;

static void open_pool(bool cleaner_thread)
{
    struct buffer_options options = world_options();
    ASSERT_OK(clock_open_virtual(&world_clock));
    clock_join(world_clock);
    disk = world_disk();
    options.cleaner_thread = cleaner_thread;
    fake_redo_init(&redo);
    ASSERT_OK(world_open(&world, disk, &redo, options));
    ASSERT_OK(world_make_pages(&world));
}

static int setup(void **state)
{
    (void)state;
    open_pool(false);
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    return 0;
}

static int setup_with_thread(void **state)
{
    (void)state;
    open_pool(true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clock_leave(world_clock); /* closing waits for the thread, which waits for time to pass */
    world_close(&world);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
    clock_close(world_clock);
    world_clock = NULL;
    return 0;
}

static struct buffer_counters counters_now(void)
{
    struct buffer_counters counters;
    buffer_counters(world.pool, &counters);
    return counters;
}

/* More pages are written than were asked for: that is no reason to wait and look again. */
static void a_flush_does_not_wait_for_pages_that_came_along(void **state)
{
    (void)state;
    world_tear_page(&world);
    world_change_one(&world, page_id_of(1, 5));
    uint64_t began_ns = clock_now(world_clock);
    uint64_t written = counters_now().pages_written;
    ASSERT_OK(buffer_flush_space(world.pool, 1));
    assert_int_equal(counters_now().pages_written - written, 2);
    assert_int_equal(counters_now().pages_dirty, 0);
    assert_true(clock_now(world_clock) == began_ns);
}

static pthread_barrier_t is_held;

static void *hold_a_page(void *context)
{
    struct buffer_frame *frame;
    uint64_t page_id = *(uint64_t *)context;
    ENSURE(buffer_fix(world.pool, page_id, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &frame) ==
           FIRN_OK);
    pthread_barrier_wait(&is_held);
    clock_wait_until(world_clock, clock_now(world_clock) + SOMEBODY_HOLDS_NS);
    buffer_unfix(world.pool, frame, BUFFER_EXCLUSIVE);
    clock_leave(world_clock);
    return NULL;
}

/* As many pages are written as were asked for, but not all those: one was latched. */
static void a_flush_waits_for_a_latched_page_although_another_came_along(void **state)
{
    (void)state;
    pthread_t holder;
    uint64_t page_id = page_id_of(1, 7);
    pthread_barrier_init(&is_held, NULL, 2);
    world_tear_page(&world);
    world_change_one(&world, page_id_of(1, 5));
    world_change_one(&world, page_id);
    clock_join(world_clock); /* for the thread */
    assert_int_equal(pthread_create(&holder, NULL, hold_a_page, &page_id), 0);
    pthread_barrier_wait(&is_held);
    ASSERT_OK(buffer_flush_space(world.pool, 1));
    assert_int_equal(counters_now().pages_dirty, 0);
    pthread_join(holder, NULL);
    pthread_barrier_destroy(&is_held);
}

/* Pages dirtied one after the other, a lot of log apart; no time passes, so the cleaner's thread
   does nothing. */
static void dirty_pages_far_apart(void)
{
    enum { PAGES = 20, CHANGES = 300 }; /* each more log than a checkpoint must gain */
    clock_wait_until(world_clock, clock_now(world_clock) + NS_PER_MS / 2);
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    for (unsigned page = 0; page < PAGES; page++)
        for (unsigned i = 0; i < CHANGES; i++)
            world_change_one(&world, page_id_of(0, page));
}

/* The cleaner's thread waits for the flush to end, so the flush takes checkpoints in its place. */
static void a_long_flush_takes_checkpoints_between_its_batches(void **state)
{
    (void)state;
    dirty_pages_far_apart();
    uint64_t began_lsn = redo_checkpoint_lsn(&redo);
    uint64_t checkpoints = atomic_load(&redo.checkpoints);
    uint64_t batches = counters_now().flush_batches;
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    batches = counters_now().flush_batches - batches;
    assert_true(batches >= 3);
    /* Between any two of them. */
    assert_true(atomic_load(&redo.checkpoints) - checkpoints >= batches - 1);
    assert_true(redo_checkpoint_lsn(&redo) > began_lsn);
}

static void a_long_flush_of_a_tablespace_takes_checkpoints_too(void **state)
{
    (void)state;
    dirty_pages_far_apart();
    uint64_t checkpoints = atomic_load(&redo.checkpoints);
    uint64_t limit_lsn = atomic_load(&redo.limit_lsn);
    ASSERT_OK(buffer_flush_space(world.pool, 0));
    assert_true(atomic_load(&redo.checkpoints) > checkpoints);
    assert_true(atomic_load(&redo.limit_lsn) > limit_lsn); /* and the log may grow meanwhile */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flush_does_not_wait_for_pages_that_came_along, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_flush_waits_for_a_latched_page_although_another_came_along, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_flush_takes_checkpoints_between_its_batches,
                                        setup_with_thread, teardown),
        cmocka_unit_test_setup_teardown(a_long_flush_of_a_tablespace_takes_checkpoints_too,
                                        setup_with_thread, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
