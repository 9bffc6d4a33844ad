/*
 * Power cuts in everything a store does. A fixed load is cut at every step it takes; random loads
 * at random steps. What is left is recovered, with more cuts in the recovery, and judged.
 *
 * The judge is judged: with a sync left out, or torn pages not repaired, it must find fault.
 */
#include "store/store_world.h"

enum { LOAD_OPS = 260 };

/** A disk with a store that was used a little and closed. */
static struct sim_disk *disk_with_store(struct lane *lane, uint64_t seed)
{
    struct world world;
    world_init(&world, disk_make(), seed);
    struct store_session *session;
    ASSERT_OK(world_open(&world));
    ASSERT_OK(store_session_open(world.store, &session));
    for (unsigned i = 0; i < 200; i++) {
        ASSERT_OK(lane_step(lane, session, world.tree));
        if (i == 100) /* pages are written over others: there is a doublewrite file */
            ASSERT_OK(store_checkpoint(world.store));
    }
    ASSERT_OK(lane_commit(lane, session));
    store_session_close(session);
    ASSERT_OK(store_close(world.store));
    world.store = NULL;
    world_end(&world);
    return world.disk;
}

/** Open, do operations with commits, ticks and checkpoints among them, close. Single-threaded: the
 * same seed takes the same steps. @return the first failure */
static firn_rc run_load(struct world *world, struct lane *lane, unsigned ops, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    FIRN_TRY(world_open(world));
    struct store_session *session;
    FIRN_TRY(store_session_open(world->store, &session));
    firn_rc rc = FIRN_OK;
    for (unsigned i = 0; i < ops && rc == FIRN_OK; i++) {
        rc = lane_step(lane, session, world->tree);
        if (rc == FIRN_OK && rng_below(&rng, 4) == 0)
            rc = lane_commit(lane, session);
        if (rc == FIRN_OK && rng_below(&rng, 40) == 0)
            rc = store_tick(world->store);
        if (rc == FIRN_OK && rng_below(&rng, 90) == 0)
            rc = store_checkpoint(world->store);
    }
    store_session_close(session);
    FIRN_TRY(rc);
    rc = store_close(world->store);
    world->store = NULL;
    return rc;
}

struct cut_plan {
    uint64_t step;
    enum sim_cut cut;
    uint64_t seed;
    unsigned ops;
    bool no_doublewrite;
    bool skip_log_sync;
    bool skip_data_sync;
};

/** Run the load on a copy of a disk, cut it, recover, judge; go on a little and judge again.
 * @return NULL, or what is wrong */
static const char *cut_once(const struct sim_disk *base, const struct lane *before,
                            const struct cut_plan *plan)
{
    struct lane *lane = malloc(sizeof *lane);
    *lane = *before;
    struct world world;
    struct rng rng;
    rng_init(&rng, plan->seed * 1000003 + plan->step); /* each cut tears in its own way */
    world_init(&world, sim_disk_clone(base), plan->seed);
    world.options.doublewrite =
        plan->no_doublewrite ? BUFFER_DOUBLEWRITE_OFF : BUFFER_DOUBLEWRITE_ON;
    world.options.canary_skip_log_sync = plan->skip_log_sync;
    world.options.canary_skip_data_sync = plan->skip_data_sync;
    sim_disk_cut_after(world.disk, plan->step, plan->cut, rng_next(&rng));
    firn_rc rc = run_load(&world, lane, plan->ops, plan->seed);
    if (rc == FIRN_OK)
        sim_disk_cut(world.disk, plan->cut, rng_next(&rng));
    assert_true(sim_disk_is_cut(world.disk));
    world_count_cut(&world);
    const char *wrong = NULL;
    if (world_recover(&world, &rng, 2) != FIRN_OK)
        wrong = firn_error_text();
    if (wrong == NULL)
        wrong = world_wrong(&world, &lane, 1);
    if (wrong == NULL) {
        world_abandon(&world);
        if (run_load(&world, lane, 30, plan->seed + 1) != FIRN_OK || world_open(&world) != FIRN_OK)
            wrong = firn_error_text();
        else
            wrong = world_wrong(&world, &lane, 1);
    }
    world_end(&world);
    sim_disk_destroy(world.disk);
    free(lane);
    return wrong;
}

/** @return steps that the load takes on a copy of a disk. */
static uint64_t count_steps(const struct sim_disk *base, const struct lane *before, unsigned ops,
                            uint64_t seed)
{
    struct lane *lane = malloc(sizeof *lane);
    *lane = *before;
    struct world world;
    world_init(&world, sim_disk_clone(base), seed);
    uint64_t first = sim_disk_steps(world.disk);
    ASSERT_OK(run_load(&world, lane, ops, seed));
    uint64_t steps = sim_disk_steps(world.disk) - first;
    world_end(&world);
    sim_disk_destroy(world.disk);
    free(lane);
    return steps;
}

/* Every step of one load; of all modes, or in the short run of one mode each and not every step. */
static void no_cut_at_any_step_loses_or_invents(void **state)
{
    (void)state;
    uint64_t seed = test_seed(3);
    bool all = test_tries_all();
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = disk_with_store(lane, seed);
    uint64_t steps = count_steps(base, lane, LOAD_OPS, seed);
    uint64_t stride = all || steps < 200 ? 1 : steps / 200;
    for (uint64_t step = 1 + (all ? 0 : seed % stride); step <= steps + 1; step += stride) {
        for (unsigned mode = 0; mode < ARRAY_COUNT(all_cuts); mode++) {
            if (!all && mode != (step / stride) % ARRAY_COUNT(all_cuts))
                continue;
            struct cut_plan plan = {
                .step = step, .cut = all_cuts[mode], .seed = seed, .ops = LOAD_OPS};
            const char *wrong = cut_once(base, lane, &plan);
            if (wrong != NULL)
                fail_msg("cut %s at step %llu of %llu: %s", cut_name(plan.cut),
                         (unsigned long long)step, (unsigned long long)steps, wrong);
        }
    }
    sim_disk_destroy(base);
    free(lane);
}

static void no_cut_in_random_loads_loses_or_invents(void **state)
{
    (void)state;
    uint64_t seed = test_seed(5);
    unsigned loads = test_runs(4);
    for (unsigned load = 0; load < loads; load++, seed++) {
        struct rng rng;
        rng_init(&rng, seed);
        struct lane *lane = lane_make(0, seed);
        struct sim_disk *base = disk_with_store(lane, seed);
        unsigned ops = 50 + (unsigned)rng_below(&rng, 500);
        uint64_t steps = count_steps(base, lane, ops, seed);
        for (unsigned i = 0; i < 25; i++) {
            struct cut_plan plan = {.step = 1 + rng_below(&rng, steps),
                                    .cut = all_cuts[rng_below(&rng, ARRAY_COUNT(all_cuts))],
                                    .seed = seed,
                                    .ops = ops};
            const char *wrong = cut_once(base, lane, &plan);
            if (wrong != NULL)
                fail_msg("seed %llu, cut %s at step %llu: %s", (unsigned long long)seed,
                         cut_name(plan.cut), (unsigned long long)plan.step, wrong);
        }
        sim_disk_destroy(base);
        free(lane);
    }
}

/* A store that does not exist yet is there whole after a cut, or is made by the next open. */
static void a_cut_while_a_store_is_made_leaves_it_makeable(void **state)
{
    (void)state;
    uint64_t seed = test_seed(7);
    unsigned stride = test_tries_all() ? 1 : 3;
    for (uint64_t step = 1;; step += stride) {
        struct lane *lane = lane_make(0, seed);
        struct rng rng;
        rng_init(&rng, seed + step);
        struct world world;
        world_init(&world, disk_make(), seed);
        sim_disk_cut_after(world.disk, step, all_cuts[step / stride % 4], seed + step);
        firn_rc rc = run_load(&world, lane, 5, seed);
        bool cut = sim_disk_is_cut(world.disk);
        if (!cut)
            ASSERT_OK(rc);
        if (cut) {
            world_count_cut(&world);
            rc = world_recover(&world, &rng, 2);
            const char *wrong = rc != FIRN_OK ? firn_error_text() : world_wrong(&world, &lane, 1);
            if (wrong != NULL)
                fail_msg("cut at step %llu: %s", (unsigned long long)step, wrong);
        }
        world_end(&world);
        sim_disk_destroy(world.disk);
        free(lane);
        if (!cut)
            break;
    }
}

/** Cut a weakened store at many steps. @return how often the judge found fault */
static unsigned faults_found(struct cut_plan plan, uint64_t seed)
{
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = disk_with_store(lane, seed);
    plan.ops = LOAD_OPS;
    plan.seed = seed;
    uint64_t steps = count_steps(base, lane, LOAD_OPS, seed);
    unsigned found = 0;
    for (uint64_t step = 1; step <= steps && found < 3; step += 1 + steps / 400) {
        plan.step = step;
        const char *wrong = cut_once(base, lane, &plan);
        if (wrong != NULL && found++ == 0)
            print_message("# caught at step %llu: %s\n", (unsigned long long)step, wrong);
    }
    sim_disk_destroy(base);
    free(lane);
    return found;
}

static void a_canary_without_doublewrite_is_caught(void **state)
{
    (void)state;
    struct cut_plan plan = {.cut = SIM_CUT_TEAR, .no_doublewrite = true};
    assert_int_not_equal(faults_found(plan, test_seed(11)), 0);
}

static void a_canary_without_the_log_s_sync_is_caught(void **state)
{
    (void)state;
    struct cut_plan plan = {.cut = SIM_CUT_DROP, .skip_log_sync = true};
    assert_int_not_equal(faults_found(plan, test_seed(12)), 0);
}

static void a_canary_without_the_tablespaces_sync_is_caught(void **state)
{
    (void)state;
    struct cut_plan plan = {.cut = SIM_CUT_DROP, .skip_data_sync = true};
    assert_int_not_equal(faults_found(plan, test_seed(13)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_cut_at_any_step_loses_or_invents),
        cmocka_unit_test(no_cut_in_random_loads_loses_or_invents),
        cmocka_unit_test(a_cut_while_a_store_is_made_leaves_it_makeable),
        cmocka_unit_test(a_canary_without_doublewrite_is_caught),
        cmocka_unit_test(a_canary_without_the_log_s_sync_is_caught),
        cmocka_unit_test(a_canary_without_the_tablespaces_sync_is_caught),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
