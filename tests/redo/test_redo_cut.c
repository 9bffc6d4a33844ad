/* The power is cut at every write and sync of work on a log, also while it is being opened again:
   what was acknowledged is there, in order, byte for byte, and nothing else but what followed it.
 */
#include "redo/redo_world.h"

enum { OPERATIONS = 40, LIVES = 3 };

static const uint64_t file_data_bytes = LOG_FILE_BYTES - 16384;

/* A closed log whose tail lies shortly before the end of one of its files, in the second round. */
static struct world *make_start(unsigned file, uint64_t seed)
{
    struct world *world = world_make(seed);
    firn_rc rc;
    assert_true(world_open(world, &rc));
    ASSERT_OK(rc);
    world_advance(world, REDO_FIRST_LSN + (3 + file) * file_data_bytes - 500000);
    if (redo_checkpoint_lsn(world->redo) + 400000 < world->end_lsn)
        ASSERT_OK(world_checkpoint(world));
    ASSERT_OK(redo_close(world->redo));
    world->redo = NULL;
    return world;
}

/* Live, be cut off, and live again a few times, the later cuts early, so that they come while the
   log is opened. @return false if something was wrong; *was_cut tells whether the first cut came */
static bool live_through(struct world *world, uint64_t first_cut, enum sim_cut cut, uint64_t seed,
                         bool *was_cut)
{
    struct rng rng;
    rng_init(&rng, seed);
    for (int life = 0; life < LIVES; life++) {
        firn_rc rc;
        uint64_t steps = life == 0 ? first_cut : 1 + rng_below(&rng, 12);
        world->options.direct = rng_below(&rng, 2) == 0;
        sim_disk_cut_after(world->disk, steps, cut, rng_next(&rng));
        if (!world_open(world, &rc))
            return false;
        if (rc == FIRN_OK)
            rc = world_work(world, OPERATIONS);
        bool is_cut = sim_disk_is_cut(world->disk);
        if ((rc == FIRN_OK) == is_cut)
            return WORLD_WRONG(world, "a life ended with %d: %s", rc, firn_error_text());
        test_count(TEST_CUTS, is_cut);
        if (life == 0)
            *was_cut = is_cut;
        sim_disk_cut_after(world->disk, 0, cut, 0);
        /* Else the process dies alone: what it wrote is in the caches still. */
        world_die(world, rng_next(&rng));
    }
    firn_rc rc;
    if (!world_open(world, &rc))
        return false;
    if (rc != FIRN_OK)
        return WORLD_WRONG(world, "the last opening failed with %d: %s", rc, firn_error_text());
    return true;
}

static void cut_everywhere(unsigned file, uint64_t seed)
{
    struct world *start = make_start(file, seed);
    /* All kept is what random cuts try. */
    for (size_t mode = 1; mode < sizeof(all_cuts) / sizeof(all_cuts[0]); mode++) {
        bool was_cut = true;
        for (uint64_t step = 1; was_cut; step++) {
            struct world *world = world_clone(start, seed);
            if (!live_through(world, step, all_cuts[mode], seed + step, &was_cut))
                fail_msg("cut %s at step %llu: %s", cut_name(all_cuts[mode]),
                         (unsigned long long)step, world->problem);
            world_destroy(world);
        }
    }
    world_destroy(start);
}

static void test_cuts_at_every_step_across_the_end_of_a_file(void **state)
{
    (void)state;
    cut_everywhere(0, test_seed(11));
}

static void test_cuts_at_every_step_across_the_end_of_the_ring(void **state)
{
    (void)state;
    cut_everywhere(1, test_seed(12));
}

static void test_random_cuts(void **state)
{
    (void)state;
    uint64_t seed = test_seed(13);
    struct rng rng;
    rng_init(&rng, seed);
    struct world *start = make_start(0, seed);
    for (unsigned run = 0, runs = test_runs(60); run < runs; run++) {
        uint64_t run_seed = rng_next(&rng);
        struct world *world = world_clone(start, run_seed);
        bool was_cut;
        enum sim_cut cut = all_cuts[rng_below(&rng, 4)];
        if (!live_through(world, 1 + rng_below(&rng, 60), cut, run_seed, &was_cut))
            fail_msg("run %u: %s", run, world->problem);
        world_destroy(world);
    }
    world_destroy(start);
}

static void fill_block(struct world *world)
{
    do
        ASSERT_OK(world_append(world));
    while (redo_reserved_lsn(world->redo) % 4096 != 0);
    ASSERT_OK(world_flush(world, REDO_FLUSH_WRITE));
}

/* Two blocks are written and not synced, and the first one may be lost alone. The next life's
   frames end where it ended, and are as large: what the second block holds must not follow them. */
static void test_frames_behind_the_end_do_not_come_back(void **state)
{
    (void)state;
    uint64_t seed = test_seed(15);
    struct world *start = world_make(seed);
    start->fixed_size_bytes = 16; /* a frame is as large as the one that begins a life */
    unsigned lost = 0;
    for (unsigned run = 0; run < 40; run++) {
        struct world *world = world_clone(start, seed + run);
        firn_rc rc;
        assert_true(world_open(world, &rc));
        ASSERT_OK(rc);
        fill_block(world);
        fill_block(world);
        uint64_t written = world->frames;
        sim_disk_cut(world->disk, SIM_CUT_REORDER, seed + run);
        for (int life = 0; life < 2; life++) {
            world_die(world, seed);
            if (!world_open(world, &rc))
                fail_msg("run %u: %s", run, world->problem);
            ASSERT_OK(rc);
            lost += world->frames == 0;
            if (world->frames < written)
                fill_block(world);
        }
        world_destroy(world);
    }
    world_destroy(start);
    assert_true(lost > 0);
}

/* The judge is judged: without syncs it must find something. */
static void test_a_log_that_does_not_sync_is_caught(void **state)
{
    (void)state;
    uint64_t seed = test_seed(14);
    struct world *start = make_start(0, seed);
    bool caught = false;
    start->options.skip_sync = true;
    for (uint64_t step = 5; step < 60 && !caught; step++) {
        struct world *world = world_clone(start, seed);
        bool was_cut;
        caught = !live_through(world, step, SIM_CUT_DROP, seed + step, &was_cut);
        world_destroy(world);
    }
    world_destroy(start);
    assert_true(caught);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts_at_every_step_across_the_end_of_a_file),
        cmocka_unit_test(test_cuts_at_every_step_across_the_end_of_the_ring),
        cmocka_unit_test(test_random_cuts),
        cmocka_unit_test(test_frames_behind_the_end_do_not_come_back),
        cmocka_unit_test(test_a_log_that_does_not_sync_is_caught),
    };
    return cmocka_run_group_tests_name("redo_cut", tests, NULL, NULL);
}
