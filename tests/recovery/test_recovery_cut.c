/* The power is cut at every step of work on pages and of recovering from the cuts before: each page
   is as the log's end says, and the log ends behind what was acknowledged. */
#include "recovery/recovery_world.h"

enum { OPERATIONS = 60, LIVES = 4 };

/* An environment with something in it, not checkpointed, its process dead. */
static struct world *make_start(uint64_t seed)
{
    struct world *world = world_make(seed);
    ASSERT_OK(world_work(world, 200));
    ASSERT_OK(world_checkpoint(world));
    ASSERT_OK(world_work(world, 50));
    ASSERT_OK(world_flush(world));
    world_die(world, seed);
    return world;
}

static bool open_and_judge(struct world *world, firn_rc *rc)
{
    *rc = world_open(world);
    if (*rc != FIRN_OK)
        return true;
    if (!world_judge(world) && !sim_disk_is_cut(world->disk))
        return false;
    /* Judging evicts dirty pages, so it may be cut off itself. */
    world->problem[0] = '\0';
    world->end_lsn = world->durable_lsn = world->result.end_lsn;
    world_take_stock(world);
    return true;
}

static bool live_through(struct world *world, uint64_t first_cut, enum sim_cut cut, uint64_t seed,
                         bool *was_cut)
{
    struct rng rng;
    rng_init(&rng, seed);
    for (int life = 0; life < LIVES; life++) {
        firn_rc rc;
        uint64_t steps = life == 0 ? first_cut : 1 + rng_below(&rng, 30);
        sim_disk_cut_after(world->disk, steps, cut, rng_next(&rng));
        if (!open_and_judge(world, &rc))
            return false;
        if (rc == FIRN_OK && !sim_disk_is_cut(world->disk))
            rc = world_work(world, OPERATIONS);
        bool is_cut = sim_disk_is_cut(world->disk);
        if (rc != FIRN_OK && !is_cut)
            return WORLD_WRONG(world, "a life ended with %d: %s", rc, firn_error_text());
        test_count(TEST_CUTS, is_cut);
        if (life == 0)
            *was_cut = is_cut;
        sim_disk_cut_after(world->disk, 0, cut, 0);
        world_die(world, rng_next(&rng));
    }
    firn_rc rc;
    if (!open_and_judge(world, &rc))
        return false;
    if (rc != FIRN_OK)
        return WORLD_WRONG(world, "the last opening failed with %d: %s", rc, firn_error_text());
    return true;
}

static void cut_everywhere(struct world *start, unsigned first_mode, uint64_t seed)
{
    bool was_cut = true;
    unsigned step = 0;
    while (was_cut) {
        step++;
        struct world *world = world_clone(start, seed);
        enum sim_cut cut = all_cuts[(step + first_mode) % 4];
        if (!live_through(world, step, cut, seed + step, &was_cut))
            fail_msg("cut %s at step %u: %s", cut_name(cut), step, world->problem);
        world_destroy(world);
    }
}

static void test_cuts_at_every_step(void **state)
{
    (void)state;
    uint64_t seed = test_seed(31);
    for (unsigned run = 0, runs = test_runs(2); run < runs; run++) {
        struct world *start = make_start(seed + run);
        cut_everywhere(start, run, seed + run);
        world_destroy(start);
    }
}

/* A process dies with pages written and not synced: a sync failed, or it was killed before. The
   next one finds them whole; then the power goes, and takes what was not synced. */
static bool die_and_cut(struct world *world, uint64_t failing_sync, enum sim_cut cut, uint64_t seed)
{
    struct fault_injector *injector;
    firn_rc rc;
    ASSERT_OK(fault_attach(world->system, 1, &injector));
    if (!open_and_judge(world, &rc) || rc != FIRN_OK)
        return false;
    struct fault_plan plan = {.kind = FAULT_ERROR,
                              .targets = FAULT_SYNCS,
                              .first = failing_sync,
                              .every = 1,
                              .classes = 1U << IO_CLASS_TABLE | 1U << IO_CLASS_SYSTEM};
    fault_set_plans(injector, &plan, 1);
    (void)world_work(world, OPERATIONS);
    (void)buffer_flush(world->pool, UINT64_MAX);
    world_die(world, seed);
    if (!open_and_judge(world, &rc) || rc != FIRN_OK)
        return false;
    if (seed % 2 == 0)
        ASSERT_OK(world_checkpoint(world));
    else
        sim_disk_cut_after(world->disk, 1 + seed % 16, cut, seed);
    if (world_work(world, OPERATIONS / 4) == FIRN_OK)
        (void)buffer_flush(world->pool, UINT64_MAX);
    sim_disk_cut(world->disk, cut, seed);
    world_die(world, seed);
    return open_and_judge(world, &rc) && rc == FIRN_OK;
}

static void test_what_a_dead_process_has_not_synced_is_not_built_on(void **state)
{
    (void)state;
    uint64_t seed = test_seed(33);
    struct world *start = make_start(seed);
    for (unsigned run = 0; run < 48 * test_runs(1); run++) {
        enum sim_cut cut = run % 3 == 0 ? SIM_CUT_DROP : SIM_CUT_TEAR;
        struct world *world = world_clone(start, seed + run);
        if (!die_and_cut(world, 1 + run % 8, cut, seed + run))
            fail_msg("cut %s, run %u: %s %s", cut_name(cut), run, world->problem,
                     firn_error_text());
        world_destroy(world);
    }
    world_destroy(start);
}

/* The judge is judged: a log that does not sync must be caught. */
static void test_a_log_that_does_not_sync_is_caught(void **state)
{
    (void)state;
    uint64_t seed = test_seed(32);
    struct world *start = make_start(seed);
    start->skip_log_sync = true;
    bool caught = false;
    for (unsigned step = 20; step < 60 && !caught; step++) {
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
        cmocka_unit_test(test_cuts_at_every_step),
        cmocka_unit_test(test_what_a_dead_process_has_not_synced_is_not_built_on),
        cmocka_unit_test(test_a_log_that_does_not_sync_is_caught),
    };
    return cmocka_run_group_tests_name("recovery_cut", tests, NULL, NULL);
}
