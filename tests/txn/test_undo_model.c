/*
 * Random logs, rewinds, ends, purges, truncations and openings against a history of them.
 */
#include "txn/undo_model.h"

static int setup(void **state)
{
    (void)state;
    mtr_verify_changes(true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mtr_verify_changes(false);
    return 0;
}

/* Read an open transaction back to its beginning. */
static void check_live(const struct live *live)
{
    undo_pointer last = live->log.last;
    for (unsigned i = live->count; i-- > 0;) {
        struct span record;
        assert_true(last == live->pointers[i]);
        ASSERT_OK(undo_read(undo, last, &model.buffer, &record, &last));
    }
    assert_true(last == 0);
}

static void live_and_open_again(struct sim_disk *disk, unsigned lives)
{
    for (unsigned i = 0; i < lives; i++) {
        ASSERT_OK(model_live(250));
        for (unsigned k = 0; k < MODEL_LIVE; k++)
            if (model.live[k].is_open)
                check_live(&model.live[k]);
        undo_world_check();
        ASSERT_OK(model_flush());
        undo_world_reopen(disk);
        undo_world_check();
        model_judge();
        model_end_found();
        undo_world_check();
    }
}

static void what_was_written_is_found(void **state)
{
    (void)state;
    uint64_t seed = test_seed(11);
    unsigned rounds = test_runs(4);
    for (unsigned round = 0; round < rounds; round++) {
        struct sim_disk *disk = disk_make();
        undo_world_make(disk);
        model_begin(seed + round);
        live_and_open_again(disk, 6);
        undo_world_abandon();
        sim_disk_destroy(disk);
    }
    undo_buffer_free(&model.buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_found),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
