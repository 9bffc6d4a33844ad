/*
 * Power cuts in transactions over tables, and in making and dropping tables: at steps of a fixed
 * load, each recovered, with more cuts in the recovery, and judged.
 */
#include "table/table_load.h"

enum { TXNS = 30, CUTS = 24 };

/* A disk with a store and its first table, closed. */
static struct sim_disk *disk_with_table(struct load *load, uint64_t seed)
{
    struct world world;
    table_world_init(&world, disk_make(), seed, 4096);
    ASSERT_OK(load_run(&world, load, 12));
    world_end(&world);
    return world.disk;
}

/* As world_recover: with further cuts, until one opening gets through. */
static firn_rc recover(struct world *world, struct rng *rng, unsigned cuts)
{
    for (;;) {
        world_restore(world, rng_next(rng));
        if (cuts > 0 && rng_below(rng, 3) == 0)
            sim_disk_cut_after(world->disk, 1 + rng_below(rng, 40),
                               all_cuts[rng_below(rng, ARRAY_COUNT(all_cuts))], rng_next(rng));
        firn_rc rc = table_world_open(world);
        sim_disk_cut_after(world->disk, 0, SIM_CUT_KEEP, 0);
        if (!sim_disk_is_cut(world->disk))
            return rc;
        world_count_cut(world);
        cuts--;
    }
}

static const char *cut_once(const struct sim_disk *base, const struct load *before, uint64_t step,
                            enum sim_cut cut, uint64_t seed)
{
    struct load *load = malloc(sizeof *load);
    *load = *before;
    struct world world;
    struct rng rng;
    rng_init(&rng, seed * 1000003 + step);
    table_world_init(&world, sim_disk_clone(base), seed, 4096);
    sim_disk_cut_after(world.disk, step, cut, rng_next(&rng));
    if (load_run(&world, load, TXNS) == FIRN_OK)
        sim_disk_cut(world.disk, cut, rng_next(&rng));
    assert_true(sim_disk_is_cut(world.disk));
    world_count_cut(&world);
    const char *wrong = NULL;
    if (recover(&world, &rng, 2) != FIRN_OK)
        wrong = firn_error_text();
    if (wrong == NULL)
        wrong = load_wrong(&world, load);
    if (wrong == NULL) {
        world_abandon(&world);
        if (load_run(&world, load, 8) != FIRN_OK || table_world_open(&world) != FIRN_OK)
            wrong = firn_error_text();
        else
            wrong = load_wrong(&world, load);
    }
    world_end(&world);
    sim_disk_destroy(world.disk);
    free(load);
    return wrong;
}

static uint64_t count_steps(const struct sim_disk *base, const struct load *before, uint64_t seed)
{
    struct load *load = malloc(sizeof *load);
    *load = *before;
    struct world world;
    table_world_init(&world, sim_disk_clone(base), seed, 4096);
    uint64_t first = sim_disk_steps(world.disk);
    ASSERT_OK(load_run(&world, load, TXNS));
    uint64_t steps = sim_disk_steps(world.disk) - first;
    world_end(&world);
    sim_disk_destroy(world.disk);
    free(load);
    return steps;
}

static void no_cut_leaves_half_a_transaction_or_half_a_table(void **state)
{
    (void)state;
    uint64_t seed = test_seed(5);
    bool all = test_tries_all();
    struct load *load = malloc(sizeof *load);
    load_init(load, seed);
    struct sim_disk *base = disk_with_table(load, seed);
    uint64_t steps = count_steps(base, load, seed);
    uint64_t stride = all || steps < CUTS ? 1 : steps / CUTS;
    print_message("# %llu steps\n", (unsigned long long)steps);
    for (uint64_t step = 1 + (all ? 0 : seed % stride); step <= steps + 1; step += stride) {
        for (unsigned mode = 0; mode < ARRAY_COUNT(all_cuts); mode++) {
            if (!all && mode != (step / stride) % ARRAY_COUNT(all_cuts))
                continue;
            const char *wrong = cut_once(base, load, step, all_cuts[mode], seed);
            if (wrong != NULL)
                fail_msg("cut %s at step %llu: %s", cut_name(all_cuts[mode]),
                         (unsigned long long)step, wrong);
        }
    }
    sim_disk_destroy(base);
    free(load);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_cut_leaves_half_a_transaction_or_half_a_table),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
