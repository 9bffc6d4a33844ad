/*
 * The power is cut at every step of a life of undo logs, and at random ones of longer lives, with
 * further cuts in the openings. What is found is a state between the last acknowledged and the last
 * begun, and it goes on from there.
 */
#include "txn/undo_model.h"

static struct sim_disk *made;
static struct rng rng;
static uint64_t seed;

/* Recover, with more cuts on the way. */
static void recover(struct sim_disk *disk, enum sim_cut cut)
{
    for (unsigned tries = 0;; tries++) {
        sim_disk_restore(disk);
        if (tries < 2)
            sim_disk_cut_after(disk, 1 + rng_below(&rng, 25), cut, rng_next(&rng));
        firn_rc rc = undo_world_open(disk, seed);
        if (!sim_disk_is_cut(disk)) {
            sim_disk_cut_after(disk, 0, cut, 0);
            ASSERT_OK(rc);
            return;
        }
        undo_world_abandon();
    }
}

/* The power stays on from here. @return whether it went before */
static bool was_cut_off(struct sim_disk *disk)
{
    bool is_cut = sim_disk_is_cut(disk);
    sim_disk_cut_after(disk, 0, SIM_CUT_KEEP, 0);
    test_count(TEST_CUTS, is_cut);
    return is_cut;
}

/* Live until the power goes at a step, and judge. @return false if it did not go */
static bool live_and_cut(struct sim_disk *disk, unsigned steps, uint64_t step, enum sim_cut cut)
{
    sim_disk_cut_after(disk, step, cut, seed + step);
    firn_rc rc = model_live(steps);
    bool is_cut = was_cut_off(disk);
    if (!is_cut)
        ASSERT_OK(rc);
    undo_world_abandon();
    if (!is_cut)
        return false;
    recover(disk, cut);
    undo_world_check();
    model_judge();
    undo_world_check();
    model_end_found();
    return true;
}

/* A short run takes every other step. */
static void every_step_can_be_the_last(void **state)
{
    (void)state;
    unsigned rounds = test_runs(1);
    for (unsigned round = 0; round < rounds; round++) {
        bool was_cut = true;
        uint64_t step = 1;
        for (; was_cut; step += test_tries_all() ? 1 : 2) {
            struct sim_disk *disk = sim_disk_clone(made);
            model_begin(seed + round);
            ASSERT_OK(undo_world_open(disk, seed));
            was_cut =
                live_and_cut(disk, 120, step, all_cuts[(step + round) % ARRAY_COUNT(all_cuts)]);
            if (was_cut)
                undo_world_abandon();
            sim_disk_destroy(disk);
        }
        assert_true(step > 5);
    }
}

/* One disk, cut again and again. */
static void it_goes_on_after_each_cut(void **state)
{
    (void)state;
    unsigned rounds = test_runs(2);
    for (unsigned round = 0; round < rounds; round++) {
        struct sim_disk *disk = sim_disk_clone(made);
        model_begin(seed + 1000 + round);
        ASSERT_OK(undo_world_open(disk, seed));
        for (unsigned i = 0; i < 8; i++) {
            enum sim_cut cut = all_cuts[rng_below(&rng, ARRAY_COUNT(all_cuts))];
            if (!live_and_cut(disk, 300, 1 + rng_below(&rng, 120), cut)) {
                ASSERT_OK(undo_world_open(disk, seed));
                model_judge();
                model_end_found();
            }
        }
        undo_world_abandon();
        sim_disk_destroy(disk);
    }
}

/* Making the tablespaces is cut; the environment is being made, so it is made to the end. */
static void making_can_be_cut_at_every_step(void **state)
{
    (void)state;
    bool was_cut = true;
    for (uint64_t step = 1; was_cut; step++) {
        struct sim_disk *disk = disk_make();
        world_make(&world, disk, PAGE);
        ASSERT_OK(redo_flush(world.redo, redo_reserved_lsn(world.redo), REDO_FLUSH_SYNC));
        enum sim_cut cut = all_cuts[step % ARRAY_COUNT(all_cuts)];
        sim_disk_cut_after(disk, step, cut, seed + step);
        firn_rc rc = undo_world_open_set(true, TABLESPACES);
        was_cut = was_cut_off(disk);
        if (!was_cut)
            ASSERT_OK(rc);
        undo_world_abandon();
        sim_disk_restore(disk);
        ASSERT_OK(world_open(&world, disk, PAGE, seed));
        ASSERT_OK(undo_world_open_set(true, TABLESPACES));
        undo_world_check();
        undo_world_abandon();
        sim_disk_destroy(disk);
    }
}

/* An id that a record says was covered before: whatever survives, drawing begins above it. */
static void ids_stay_above_all_that_records_say(void **state)
{
    (void)state;
    bool was_cut = true;
    for (uint64_t step = 1; was_cut; step++) {
        struct sim_disk *disk = sim_disk_clone(made);
        enum sim_cut cut = all_cuts[step % ARRAY_COUNT(all_cuts)];
        model_begin(seed);
        ASSERT_OK(undo_world_open(disk, seed));
        sim_disk_cut_after(disk, step, cut, seed + step);
        firn_rc rc = FIRN_OK;
        for (unsigned i = 0; i < 6 && rc == FIRN_OK; i++) {
            struct undo_log log;
            undo_pointer at;
            uint64_t id = 1 + i * UINT64_C(40000);
            rc = undo_cover_id(undo, &world.mtr, id);
            if (rc == FIRN_OK)
                rc = undo_begin(undo, &world.mtr, id, &log);
            if (rc == FIRN_OK)
                rc = append_to(&log, &world.mtr, span_of("record", 6), &at);
            if (rc == FIRN_OK)
                rc = redo_flush(world.redo, redo_reserved_lsn(world.redo), REDO_FLUSH_SYNC);
        }
        was_cut = was_cut_off(disk);
        undo_world_abandon();
        sim_disk_restore(disk);
        ASSERT_OK(undo_world_open(disk, seed));
        uint64_t most = 0;
        for (unsigned i = 0; i < undo_segment_count(undo); i++)
            most++;
        if (most > 0)
            assert_true(undo_first_id(undo) > (most - 1) * UINT64_C(40000));
        undo_world_abandon();
        sim_disk_destroy(disk);
    }
}

static int setup(void **state)
{
    (void)state;
    seed = test_seed(23);
    rng_init(&rng, seed);
    mtr_verify_changes(true);
    made = disk_make();
    undo_world_make(made);
    undo_close(undo);
    undo = NULL;
    world_close(&world);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_disk_destroy(made);
    undo_buffer_free(&model.buffer);
    mtr_verify_changes(false);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_can_be_the_last),
        cmocka_unit_test(it_goes_on_after_each_cut),
        cmocka_unit_test(making_can_be_cut_at_every_step),
        cmocka_unit_test(ids_stay_above_all_that_records_say),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
