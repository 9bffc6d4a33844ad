/*
 * The power is cut at every step of a life of tablespaces. What was acknowledged is there, what was
 * not is there wholly or not at all, and the maps are right.
 */
#include "base/inject.h"
#include "space/space_life.h"

static struct sim_disk *made; /* an environment with nothing but the system tablespace */
static struct rng rng;
static uint64_t seed;

/** Somebody takes a checkpoint at the worst time: a record is durable, what it tells is not done.
 */
static void at_injection_point(const char *point, void *context)
{
    (void)context;
    if (strcmp(point, "space-record-durable") == 0 && !sim_disk_is_cut(world.disk))
        checkpoint();
}

/** Live until the power goes at a step. @return true if it went */
static bool live_until(struct sim_disk *disk, uint64_t step, enum sim_cut cut)
{
    memset(tables, 0, sizeof tables);
    ASSERT_OK(world_open(&world, disk, PAGE, seed));
    sim_disk_cut_after(disk, step, cut, seed + step);
    firn_rc rc = live();
    bool is_cut = sim_disk_is_cut(disk);
    if (!is_cut)
        ASSERT_OK(rc);
    world_abandon(&world);
    return is_cut;
}

/** Recover, with more cuts on the way. */
static void recover(struct sim_disk *disk, enum sim_cut cut)
{
    for (unsigned tries = 0;; tries++) {
        sim_disk_restore(disk);
        if (tries < 3)
            sim_disk_cut_after(disk, 1 + rng_below(&rng, 25), cut, rng_next(&rng));
        firn_rc rc = world_open(&world, disk, PAGE, seed);
        if (!sim_disk_is_cut(disk)) {
            sim_disk_cut_after(disk, 0, cut, 0);
            ASSERT_OK(rc);
            return;
        }
        test_count(TEST_CUTS, 1);
        world_abandon(&world);
    }
}

/** @return false if the power was still on in the end */
static bool cut_at(uint64_t step, enum sim_cut cut)
{
    struct sim_disk *disk = sim_disk_clone(made);
    bool is_cut = live_until(disk, step, cut);
    if (is_cut) {
        test_count(TEST_CUTS, 1);
        recover(disk, cut);
        check_world();
        if (step % 8 == 0)
            go_on();
        world_abandon(&world);
    }
    sim_disk_destroy(disk);
    return is_cut;
}

/* In each round each step is cut once; in four rounds, in each of the four ways. */
static void every_step_can_be_the_last(void **state)
{
    (void)state;
    for (unsigned round = 0, runs = test_runs(2); round < runs; round++, seed += 1000) {
        uint64_t step = 1;
        while (cut_at(step, all_cuts[(step + round) % ARRAY_COUNT(all_cuts)]))
            step++;
        assert_true(step > 100);
    }
}

static int setup(void **state)
{
    (void)state;
    seed = test_seed(5);
    rng_init(&rng, seed);
    mtr_verify_changes(true);
    inject_set(at_injection_point, NULL);
    made = disk_make();
    world_make(&world, made, PAGE);
    world_close(&world);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_disk_destroy(made);
    inject_set(NULL, NULL);
    mtr_verify_changes(false);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_can_be_the_last),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
