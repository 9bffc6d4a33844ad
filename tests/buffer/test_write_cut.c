/*
 * Power cuts at each step of changing and writing pages, and in recovery from that: what is durable
 * in the log is there afterwards. Without doublewrite, and without syncing the files, it must not
 * be: else this would judge nothing.
 */
#include "buffer/write_fixture.h"

enum { CHANGES = 40 };

/* Change pages; write some now and then, take checkpoints, commit. Same seed, same work. */
static firn_rc work(struct world *world, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    FIRN_TRY(world_make_pages(world));
    for (unsigned i = 0; i < CHANGES; i++) {
        FIRN_TRY(world_change(world, world_random_change(&rng)));
        uint64_t reserved_lsn = redo_reserved_lsn(world->redo);
        switch (rng_below(&rng, 8)) {
        case 0:
            FIRN_TRY(redo_flush(world->redo, reserved_lsn, REDO_FLUSH_SYNC));
            break;
        case 1:
            FIRN_TRY(buffer_flush(world->pool, reserved_lsn - 10 * FAKE_FRAME_BYTES));
            break;
        case 2:
            FIRN_TRY(redo_checkpoint(world->redo, buffer_clean_lsn(world->pool)));
            break;
        case 3:
            FIRN_TRY(buffer_clean(world->pool));
            break;
        default:
            break;
        }
    }
    FIRN_TRY(buffer_flush(world->pool, UINT64_MAX));
    return redo_checkpoint(world->redo, buffer_clean_lsn(world->pool));
}

/* Work until the power goes. @return false if the work ended before */
static bool work_until_cut(struct sim_disk *disk, struct redo *redo, struct buffer_options options,
                           uint64_t step, enum sim_cut cut, uint64_t seed)
{
    struct world world;
    ASSERT_OK(world_open(&world, disk, redo, options));
    sim_disk_cut_after(disk, step, cut, seed);
    firn_rc rc = work(&world, seed);
    bool is_cut = sim_disk_is_cut(disk);
    sim_disk_cut(disk, cut, seed);
    world_close(&world);
    if (!is_cut)
        ASSERT_OK(rc);
    return is_cut;
}

/* Let the power go in recovery, now and then. */
static void cut_recovery(struct sim_disk *disk, struct redo *redo, enum sim_cut cut,
                         struct rng *rng)
{
    while (rng_below(rng, 2) == 0) {
        struct world world;
        fake_redo_crash(redo);
        sim_disk_restore(disk);
        sim_disk_cut_after(disk, 1 + rng_below(rng, 10), cut, rng_next(rng));
        if (world_open(&world, disk, redo, world_options()) == FIRN_OK &&
            world_recover(&world) == FIRN_OK)
            buffer_flush(world.pool, UINT64_MAX);
        sim_disk_cut(disk, cut, rng_next(rng));
        test_count(TEST_CUTS, 1);
        world_close(&world);
    }
}

/* @return how many of the cuts at every `stride`-th step were not survived */
static unsigned try_cuts_on(struct sim_disk *original, struct buffer_options options,
                            enum sim_cut cut, uint64_t seed, unsigned stride, bool recovery_too)
{
    bool is_canary = options.doublewrite == BUFFER_DOUBLEWRITE_OFF || options.skip_data_sync;
    unsigned failures = 0;
    bool is_cut = true;
    struct rng rng;
    rng_init(&rng, seed);
    for (uint64_t step = 1; is_cut; step += stride) {
        struct sim_disk *disk = sim_disk_clone(original);
        struct redo redo;
        fake_redo_init(&redo);
        is_cut = work_until_cut(disk, &redo, options, step, cut, seed);
        if (recovery_too)
            cut_recovery(disk, &redo, cut, &rng);
        test_count(TEST_CUTS, !is_canary);
        if (!world_survives(disk, &redo, options)) {
            failures++;
            if (!is_canary)
                print_error("not survived: %s at step %llu, seed %llu: %s\n", cut_name(cut),
                            (unsigned long long)step, (unsigned long long)seed, firn_error_text());
        }
        fake_redo_free(&redo);
        sim_disk_destroy(disk);
    }
    sim_disk_destroy(original);
    return failures;
}

static unsigned try_cuts(struct buffer_options options, enum sim_cut cut, uint64_t seed,
                         unsigned stride, bool recovery_too)
{
    return try_cuts_on(world_disk(), options, cut, seed, stride, recovery_too);
}

static void test_a_cut_at_any_step_is_survived(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++)
        for (unsigned i = 0; i < ARRAY_COUNT(all_cuts); i++)
            assert_int_equal(try_cuts(world_options(), all_cuts[i], seed + run, 1, false), 0);
}

static void test_cuts_in_recovery_are_survived(void **state)
{
    (void)state;
    uint64_t seed = test_seed(100);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++)
        for (unsigned i = 0; i < ARRAY_COUNT(all_cuts); i++)
            assert_int_equal(try_cuts(world_options(), all_cuts[i], seed + run, 5, true), 0);
}

/* The pages' bytes torn by sector are what doublewrite is for: the judge must see it missing. */
static void test_without_doublewrite_torn_pages_are_seen(void **state)
{
    (void)state;
    struct buffer_options options = world_options();
    options.doublewrite = BUFFER_DOUBLEWRITE_OFF;
    assert_true(try_cuts(options, SIM_CUT_TEAR, 1, 1, false) > 0);
}

/* A device that writes pages whole needs no doublewrite, and it is seen; one that does not, or that
   is not asked to, does. */
static void test_atomic_writes_take_the_place_of_doublewrite(void **state)
{
    (void)state;
    uint64_t seed = test_seed(7);
    struct buffer_options options = world_options();
    options.doublewrite = BUFFER_DOUBLEWRITE_DETECT;
    assert_int_equal(
        try_cuts_on(world_disk_with(WORLD_PAGE_BYTES), options, SIM_CUT_TEAR, seed, 1, false), 0);
    assert_int_equal(try_cuts_on(world_disk_with(1024), options, SIM_CUT_TEAR, seed, 1, false), 0);
    options.doublewrite = BUFFER_DOUBLEWRITE_OFF;
    assert_true(
        try_cuts_on(world_disk_with(WORLD_PAGE_BYTES), options, SIM_CUT_TEAR, seed, 1, false) > 0);
}

static void test_doublewrite_is_left_out_where_detected(void **state)
{
    (void)state;
    for (unsigned atomic = 0; atomic < 2; atomic++) {
        struct sim_disk *disk = world_disk_with(atomic != 0 ? 16384 : 0);
        struct buffer_options options = world_options();
        struct redo redo;
        struct world world;
        struct buffer_counters counters = {0};
        options.doublewrite = BUFFER_DOUBLEWRITE_DETECT;
        fake_redo_init(&redo);
        ASSERT_OK(world_open(&world, disk, &redo, options));
        ASSERT_OK(world_make_pages(&world));
        ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
        buffer_writer_counters(world.pool, &counters);
        uint64_t made = counters.pages_written;
        assert_int_equal(counters.doublewrite, atomic == 0);
        assert_int_equal(counters.doublewrite_pages, 0); /* the log has all of them */
        for (uint32_t page = 0; page < WORLD_PAGES; page++)
            ASSERT_OK(world_change(&world, (struct fake_frame){.count = 1, .page_ids = {page}}));
        ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
        buffer_writer_counters(world.pool, &counters);
        assert_int_equal(counters.doublewrite, atomic == 0);
        assert_int_equal(counters.doublewrite_pages,
                         atomic == 0 ? counters.pages_written - made : 0);
        world_close(&world);
        fake_redo_free(&redo);
        sim_disk_destroy(disk);
    }
}

static void test_a_missing_data_sync_is_seen(void **state)
{
    (void)state;
    struct buffer_options options = world_options();
    options.skip_data_sync = true;
    assert_true(try_cuts(options, SIM_CUT_DROP, 1, 1, false) > 0);
    assert_true(try_cuts(options, SIM_CUT_TEAR, 1, 1, false) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cut_at_any_step_is_survived),
        cmocka_unit_test(test_cuts_in_recovery_are_survived),
        cmocka_unit_test(test_without_doublewrite_torn_pages_are_seen),
        cmocka_unit_test(test_atomic_writes_take_the_place_of_doublewrite),
        cmocka_unit_test(test_doublewrite_is_left_out_where_detected),
        cmocka_unit_test(test_a_missing_data_sync_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
