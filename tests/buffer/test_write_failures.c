/*
 * Each operation and each allocation fails while pages are changed and written: the failure is
 * reported, nothing is lost, and afterwards pages are written or cleanly refused.
 */
#include "buffer/write_fixture.h"

#include "base/memory.h"

#include <errno.h>

enum { CHANGES = 30 };

/* Go on after failures, as a server would: what could not be written is tried again. @return the
   first failure */
static firn_rc work(struct world *world, uint64_t seed)
{
    struct rng rng;
    firn_rc first = FIRN_OK;
    rng_init(&rng, seed);
    for (unsigned i = 0; i < CHANGES; i++) {
        firn_rc rc = world_change(world, world_random_change(&rng));
        if (rc == FIRN_OK && i % 5 == 4)
            rc = buffer_flush(world->pool, redo_reserved_lsn(world->redo) - 3 * FAKE_FRAME_BYTES);
        if (rc == FIRN_OK && i % 9 == 8)
            rc = buffer_clean(world->pool);
        if (first == FIRN_OK)
            first = rc;
    }
    return first;
}

/* Everything can be written now, or nothing ever again: then the pages are as they should be all
   the same, and no checkpoint has passed what is not durable. */
static void assert_usable_or_stopped(struct world *world)
{
    firn_rc rc = buffer_flush(world->pool, UINT64_MAX);
    if (rc == FIRN_OK) {
        assert_true(buffer_clean_lsn(world->pool) == redo_reserved_lsn(world->redo));
    } else {
        assert_int_equal(rc, FIRN_E_STOPPED);
        ASSERT_TEXT("since a sync failed");
        assert_int_equal(buffer_clean(world->pool), FIRN_E_STOPPED);
    }
}

/* One disk with all pages made and written: where each try begins. */
static struct sim_disk *made_disk(struct redo *redo)
{
    struct sim_disk *disk = world_disk();
    struct world world;
    fake_redo_init(redo);
    ASSERT_OK(world_open(&world, disk, redo, world_options()));
    ASSERT_OK(world_make_pages(&world));
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    ASSERT_OK(redo_checkpoint(redo, buffer_clean_lsn(world.pool)));
    world_close(&world);
    return disk;
}

/* @return false when the plans hit nothing any more */
static bool try_plans(const struct sim_disk *made, const struct redo *made_redo,
                      const struct fault_plan *plans, unsigned count, enum sim_cut cut)
{
    struct sim_disk *disk = sim_disk_clone(made);
    struct redo redo;
    struct world world;
    fake_redo_copy(&redo, made_redo);
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    fault_set_plans(world.faults, plans, count);
    firn_rc rc = work(&world, 1);
    bool hit = fault_hits(world.faults) > 0;
    if (!hit)
        ASSERT_OK(rc);
    fault_set_plans(world.faults, NULL, 0);
    if (cut == SIM_CUT_KEEP) /* else what is to be repaired might be written once more */
        assert_usable_or_stopped(&world);
    sim_disk_cut(disk, cut, 1);
    world_close(&world);
    assert_true(world_survives(disk, &redo, world_options()));
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
    return hit;
}

static void try_each(const struct fault_plan *pattern, unsigned count, enum sim_cut cut)
{
    struct redo redo;
    struct sim_disk *disk = made_disk(&redo);
    bool hit = true;
    for (uint64_t first = 1; hit; first++) {
        struct fault_plan plans[FAULT_PLANS_MAX];
        for (unsigned i = 0; i < count; i++) {
            plans[i] = pattern[i];
            plans[i].first += first - 1;
        }
        hit = try_plans(disk, &redo, plans, count, cut);
    }
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_each_write_may_fail_once(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOSPC};
    for (unsigned i = 0; i < ARRAY_COUNT(errors); i++) {
        struct fault_plan plan = {
            .kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 1, .error = errors[i]};
        try_each(&plan, 1, SIM_CUT_KEEP);
        try_each(&plan, 1, SIM_CUT_TEAR);
    }
}

static void test_each_write_may_come_back_short(void **state)
{
    (void)state;
    struct fault_plan plan = {.kind = FAULT_SHORT, .targets = FAULT_WRITES, .first = 1};
    try_each(&plan, 1, SIM_CUT_KEEP);
}

static void test_each_write_may_fail_halfway(void **state)
{
    (void)state;
    struct fault_plan plans[] = {
        {.kind = FAULT_SHORT, .targets = FAULT_WRITES, .first = 1},
        {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 2},
    };
    try_each(plans, ARRAY_COUNT(plans), SIM_CUT_KEEP);
    try_each(plans, ARRAY_COUNT(plans), SIM_CUT_TEAR);
}

/* ---- A page that a failed write has torn in its place ---- */

/* Batches of other pages come, enough to overwrite every area: they must take the torn page along,
   for its image is nowhere else. */
static void test_a_torn_page_goes_along_with_every_batch_until_it_is_whole(void **state)
{
    (void)state;
    for (unsigned batches = 0; batches < 2 * DOUBLEWRITE_AREAS; batches++) {
        struct redo redo;
        struct sim_disk *disk = made_disk(&redo);
        struct world world;
        ASSERT_OK(world_open(&world, disk, &redo, world_options()));
        world_tear_page(&world);
        for (unsigned i = 0; i < batches; i++) {
            world_change_one(&world, page_id_of(1, i));
            ASSERT_OK(buffer_flush_space(world.pool, 1));
        }
        sim_disk_cut(disk, SIM_CUT_KEEP, 1);
        world_close(&world);
        assert_true(world_survives(disk, &redo, world_options()));
        fake_redo_free(&redo);
        sim_disk_destroy(disk);
    }
}

/* @return false if the batch ended before the cut */
static bool cut_next_batch(const struct sim_disk *made, const struct redo *made_redo, uint64_t step,
                           enum sim_cut cut, uint64_t seed)
{
    struct redo redo;
    struct sim_disk *disk = sim_disk_clone(made);
    struct world world;
    fake_redo_copy(&redo, made_redo);
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    world_tear_page(&world);
    world_change_one(&world, world_torn_page); /* so that its next image is another one */
    world_change_one(&world, page_id_of(1, 1));
    sim_disk_cut_after(disk, step, cut, seed);
    buffer_flush(world.pool, UINT64_MAX);
    bool is_cut = sim_disk_is_cut(disk);
    test_count(TEST_CUTS, is_cut);
    sim_disk_cut(disk, SIM_CUT_KEEP, seed);
    world_close(&world);
    assert_true(world_survives(disk, &redo, world_options()));
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
    return is_cut;
}

/* Nor may the next batch's own images be torn over the only one of the page. */
static void test_a_torn_page_survives_a_cut_in_any_step_of_the_next_batch(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = made_disk(&redo);
    uint64_t seed = test_seed(1);
    bool is_cut = true;
    for (uint64_t step = 1; is_cut; step++)
        for (unsigned i = 0; i < 20; i++)
            is_cut =
                cut_next_batch(disk, &redo, step, i == 0 ? SIM_CUT_KEEP : SIM_CUT_TEAR, seed + i);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

/* While somebody changes the torn page it cannot be copied, and so nothing is written. */
static void test_a_torn_page_that_is_latched_is_waited_for(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = made_disk(&redo);
    struct world world;
    struct buffer_frame *frame;
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    world_tear_page(&world);
    world_change_one(&world, page_id_of(1, 1));
    ASSERT_OK(
        buffer_fix(world.pool, world_torn_page, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &frame));
    uint64_t steps = sim_disk_steps(disk);
    ASSERT_OK(buffer_clean(world.pool));
    assert_int_equal(sim_disk_steps(disk), steps);
    buffer_unfix(world.pool, frame, BUFFER_EXCLUSIVE);
    ASSERT_OK(buffer_clean(world.pool));
    assert_true(buffer_clean_lsn(world.pool) == redo_reserved_lsn(&redo));
    world_close(&world);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

/* It is discarded with its tablespace: nothing needs to be waited for. */
static void test_a_torn_page_that_is_discarded_is_forgotten(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = made_disk(&redo);
    struct world world;
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    world_tear_page(&world);
    buffer_discard(world.pool, 0, 0);
    world_change_one(&world, page_id_of(1, 1));
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    assert_true(buffer_clean_lsn(world.pool) == redo_reserved_lsn(&redo));
    world_close(&world);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

/* ---- What fails once ---- */

static void test_each_sync_may_fail(void **state)
{
    (void)state;
    struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_SYNCS, .first = 1};
    try_each(&plan, 1, SIM_CUT_KEEP);
    try_each(&plan, 1, SIM_CUT_DROP);
    try_each(&plan, 1, SIM_CUT_TEAR);
}

static void test_each_read_may_fail(void **state)
{
    (void)state;
    struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_READS, .first = 1};
    try_each(&plan, 1, SIM_CUT_KEEP);
}

/* A page that cannot be written for long holds the checkpoint back, but no other page. */
static void test_a_page_that_cannot_be_written_does_not_hold_others_up(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = made_disk(&redo);
    struct world world;
    struct buffer_counters counters;
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    /* The second of the batch's writes in place, and each third write: both pages of three. */
    uint64_t stuck_lsn = redo_reserved_lsn(&redo);
    struct fake_frame change = {.count = 3, .page_ids = {page_id_of(0, 1), page_id_of(0, 3), 5}};
    ASSERT_OK(world_change(&world, change));
    struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 3, .every = 4};
    fault_set_plans(world.faults, &plan, 1);
    assert_int_equal(buffer_flush(world.pool, UINT64_MAX), FIRN_E_IO);
    ASSERT_TEXT("/table1");
    buffer_writer_counters(world.pool, &counters);
    assert_int_equal(counters.pages_dirty, 1);
    assert_true(counters.clean_lsn == stuck_lsn);
    fault_set_plans(world.faults, NULL, 0);
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    world_close(&world);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_a_failed_log_stops_pages_from_being_written(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = made_disk(&redo);
    struct world world;
    struct buffer_counters counters;
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    redo.fails = true;
    ASSERT_OK(world_change(&world, (struct fake_frame){.count = 1, .page_ids = {3}}));
    uint64_t steps = sim_disk_steps(disk);
    assert_int_equal(buffer_flush(world.pool, UINT64_MAX), FIRN_E_STOPPED);
    assert_int_equal(sim_disk_steps(disk), steps);
    buffer_writer_counters(world.pool, &counters);
    assert_int_equal(counters.pages_dirty, 1);
    sim_disk_cut(disk, SIM_CUT_KEEP, 1);
    world_close(&world);
    assert_true(world_survives(disk, &redo, world_options()));
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    struct redo made_redo;
    struct sim_disk *made = made_disk(&made_redo);
    firn_rc rc = FIRN_E_NOMEM;
    for (long successes = 0; rc != FIRN_OK; successes++) {
        struct sim_disk *disk = sim_disk_clone(made);
        struct redo redo;
        struct world world;
        fake_redo_copy(&redo, &made_redo);
        ASSERT_OK(world_open(&world, disk, &redo, world_options()));
        memory_fail_after(successes);
        rc = work(&world, 1);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
        sim_disk_cut(disk, SIM_CUT_DROP, 1);
        world_close(&world);
        assert_true(world_survives(disk, &redo, world_options()));
        fake_redo_free(&redo);
        sim_disk_destroy(disk);
    }
    fake_redo_free(&made_redo);
    sim_disk_destroy(made);
}

static void test_each_allocation_of_opening_may_fail(void **state)
{
    (void)state;
    firn_rc rc = FIRN_E_NOMEM;
    struct redo redo;
    struct sim_disk *disk = made_disk(&redo);
    for (long successes = 0; rc != FIRN_OK; successes++) {
        struct buffer_options options = world_options();
        struct io_system *system = disk_open(disk, 1);
        struct buffer_pool *pool = NULL;
        options.redo = &redo;
        options.files.locate = world_locate;
        options.systems = &system;
        options.system_count = 1;
        options.doublewrite_system = system;
        options.cleaner_thread = true;
        memory_fail_after(successes);
        rc = buffer_open(&options, &pool);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        buffer_close(pool);
        io_system_close(system);
    }
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_write_may_fail_once),
        cmocka_unit_test(test_each_write_may_come_back_short),
        cmocka_unit_test(test_each_write_may_fail_halfway),
        cmocka_unit_test(test_a_torn_page_goes_along_with_every_batch_until_it_is_whole),
        cmocka_unit_test(test_a_torn_page_survives_a_cut_in_any_step_of_the_next_batch),
        cmocka_unit_test(test_a_torn_page_that_is_latched_is_waited_for),
        cmocka_unit_test(test_a_torn_page_that_is_discarded_is_forgotten),
        cmocka_unit_test(test_each_sync_may_fail),
        cmocka_unit_test(test_each_read_may_fail),
        cmocka_unit_test(test_a_page_that_cannot_be_written_does_not_hold_others_up),
        cmocka_unit_test(test_a_failed_log_stops_pages_from_being_written),
        cmocka_unit_test(test_each_allocation_may_fail),
        cmocka_unit_test(test_each_allocation_of_opening_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
