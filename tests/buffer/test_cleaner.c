/*
 * The cleaner's thread in virtual time: what becomes clean when nobody does anything, free frames
 * ahead of demand, checkpoints, limits for the log, and failures told to who asks for a round.
 */
#include "buffer/write_fixture.h"

static struct sim_disk *disk;
static struct redo redo;
static struct world world;

/* A pool whose cleaner lives in virtual time, with all pages made. */
static void open_pool(struct buffer_options options)
{
    ASSERT_OK(clock_open_virtual(&world_clock));
    clock_join(world_clock);
    disk = world_disk();
    options.cleaner_thread = true;
    fake_redo_init(&redo);
    ASSERT_OK(world_open(&world, disk, &redo, options));
    ASSERT_OK(world_make_pages(&world));
}

static int setup(void **state)
{
    (void)state;
    open_pool(world_options());
    return 0;
}

/* Who sets no capacity gets the usual one. */
static int setup_without_capacities(void **state)
{
    (void)state;
    struct buffer_options options = world_options();
    options.io_capacity = 0;
    options.io_capacity_max = 0;
    options.dirty_percent_max = 0;
    open_pool(options);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clock_leave(world_clock); /* closing waits for the thread, which waits for time to pass */
    world_close(&world);
    assert_true(atomic_load(&redo.limit_lsn) == UINT64_MAX);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
    clock_close(world_clock);
    world_clock = NULL;
    return 0;
}

static void pass(double time_s)
{
    clock_wait_until(world_clock, clock_now(world_clock) + (uint64_t)(time_s * (double)NS_PER_S));
}

static struct buffer_counters counters_now(void)
{
    struct buffer_counters counters;
    buffer_counters(world.pool, &counters);
    return counters;
}

static void test_an_idle_pool_becomes_clean_and_the_log_free(void **state)
{
    (void)state;
    assert_true(counters_now().pages_dirty > 0);
    pass(5);
    assert_int_equal(counters_now().pages_dirty, 0);
    assert_true(redo_checkpoint_lsn(&redo) == redo_reserved_lsn(&redo));
    uint64_t batches = counters_now().flush_batches;
    uint64_t steps = sim_disk_steps(disk);
    pass(60); /* and then it does nothing */
    assert_int_equal(counters_now().flush_batches, batches);
    assert_int_equal(sim_disk_steps(disk), steps);
}

/* Half the ring is full, so that pages are written for the log, as many as io_capacity_max allows.
 */
static void test_the_log_has_pages_written_where_no_capacity_is_set(void **state)
{
    (void)state;
    const uint64_t page_id = page_id_of(0, 1);
    world_change_one(&world, page_id); /* it is in the pool, so that no frame needs to be freed */
    pass(5);
    uint64_t written = counters_now().pages_written;
    while (redo_age_bytes(&redo) < redo_capacity_bytes(&redo) / 2)
        world_change_one(&world, page_id);
    pass(0.5); /* less than makes the log idle */
    assert_true(counters_now().pages_written > written);
}

static void test_frames_are_freed_ahead_of_demand(void **state)
{
    (void)state;
    pass(5);
    for (uint32_t i = 0; i < WORLD_PAGES; i++) {
        struct buffer_frame *frame;
        ASSERT_OK(
            buffer_fix(world.pool, page_id_of(0, i), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame));
        buffer_unfix(world.pool, frame, BUFFER_SHARED);
    }
    pass(2);
    assert_true(buffer_free_count(world.pool) >= buffer_free_low(world.pool));
    assert_true(buffer_free_low(world.pool) > 0);
}

static void test_a_page_that_is_latched_becomes_clean_when_it_is_let_go(void **state)
{
    (void)state;
    struct buffer_frame *frame;
    ASSERT_OK(world_change(&world, (struct fake_frame){.count = 1, .page_ids = {5}}));
    ASSERT_OK(buffer_fix(world.pool, 5, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &frame));
    pass(10);
    assert_int_equal(counters_now().pages_dirty, 1);
    buffer_unfix(world.pool, frame, BUFFER_EXCLUSIVE);
    pass(5);
    assert_int_equal(counters_now().pages_dirty, 0);
}

static void test_who_asks_for_a_round_is_told_how_it_ended(void **state)
{
    (void)state;
    struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 1, .every = 1};
    uint64_t clean_lsn = buffer_clean_lsn(world.pool);
    ASSERT_OK(buffer_clean(world.pool));
    assert_true(buffer_clean_lsn(world.pool) > clean_lsn);
    fault_set_plans(world.faults, &plan, 1);
    assert_int_equal(buffer_clean(world.pool), FIRN_E_IO);
    ASSERT_TEXT("/table"); /* a page that was just made goes to its place at once */
    fault_set_plans(world.faults, NULL, 0);
    ASSERT_OK(buffer_clean(world.pool));
}

static void test_a_failed_sync_stops_the_writer_and_lifts_the_logs_limit(void **state)
{
    (void)state;
    struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_SYNCS, .first = 1, .every = 1};
    ASSERT_OK(buffer_clean(world.pool));
    assert_true(atomic_load(&redo.limit_lsn) != UINT64_MAX);
    ASSERT_OK(world_change(&world, (struct fake_frame){.count = 1, .page_ids = {5}}));
    fault_set_plans(world.faults, &plan, 1);
    while (buffer_clean(world.pool) == FIRN_OK)
        ;
    fault_set_plans(world.faults, NULL, 0);
    assert_int_equal(buffer_clean(world.pool), FIRN_E_STOPPED);
    ASSERT_TEXT("since a sync failed");
    pass(5);
    assert_true(atomic_load(&redo.limit_lsn) == UINT64_MAX);
    assert_true(counters_now().pages_dirty > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_idle_pool_becomes_clean_and_the_log_free),
        cmocka_unit_test_setup_teardown(test_an_idle_pool_becomes_clean_and_the_log_free,
                                        setup_without_capacities, teardown),
        cmocka_unit_test_setup_teardown(test_the_log_has_pages_written_where_no_capacity_is_set,
                                        setup_without_capacities, teardown),
        TEST(test_frames_are_freed_ahead_of_demand),
        TEST(test_a_page_that_is_latched_becomes_clean_when_it_is_let_go),
        TEST(test_who_asks_for_a_round_is_told_how_it_ended),
        TEST(test_a_failed_sync_stops_the_writer_and_lifts_the_logs_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
