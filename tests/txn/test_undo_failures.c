/*
 * Each allocation of memory, and each operation on a file, fails once in a life of undo logs: an
 * error, nothing changed or all of it, and it goes on; at the latest after opening again.
 */
#include "base/memory.h"
#include "io/fault.h"
#include "txn/undo_model.h"

#include <errno.h>

static struct sim_disk *made;
static uint64_t seed;

enum { STEPS = 72 };

static int setup(void **state)
{
    (void)state;
    seed = test_seed(3);
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

static void open_and_judge(struct sim_disk *disk)
{
    ASSERT_OK(undo_world_open(disk, seed));
    undo_world_check();
    model_judge();
    model_end_found();
    undo_world_check();
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    firn_rc rc = FIRN_E_NOMEM;
    long k = 0;
    for (; rc != FIRN_OK; k++) {
        struct sim_disk *disk = sim_disk_clone(made);
        model_begin(seed);
        ASSERT_OK(undo_world_open(disk, seed));
        memory_fail_after(k);
        rc = model_live(STEPS);
        memory_fail_after(-1);
        if (rc != FIRN_OK)
            assert_int_equal(rc, FIRN_E_NOMEM);
        undo_world_check();
        ASSERT_OK(model_live(STEPS));
        ASSERT_OK(model_flush());
        undo_world_abandon();
        open_and_judge(disk);
        undo_world_abandon();
        sim_disk_destroy(disk);
    }
    assert_true(k > 2);
}

static void opening_may_lack_memory(void **state)
{
    (void)state;
    struct sim_disk *disk = sim_disk_clone(made);
    firn_rc rc = FIRN_E_NOMEM;
    long k = 0;
    model_begin(seed);
    ASSERT_OK(undo_world_open(disk, seed));
    ASSERT_OK(model_live(3 * STEPS));
    ASSERT_OK(model_flush());
    for (; rc != FIRN_OK; k++) {
        undo_close(undo);
        undo = NULL;
        memory_fail_after(k);
        rc = undo_world_open_set(false, TABLESPACES);
        memory_fail_after(-1);
        if (rc != FIRN_OK)
            assert_int_equal(rc, FIRN_E_NOMEM);
    }
    assert_true(k > 6);
    undo_world_check();
    model_judge();
    undo_world_abandon();
    sim_disk_destroy(disk);
}

/* Let the k-th operation fail. @return false if there was no k-th */
static bool live_with_fault(uint64_t k, enum fault_kind kind, unsigned targets, int error)
{
    struct fault_injector *injector;
    struct sim_disk *disk = sim_disk_clone(made);
    model_begin(seed);
    world_begin(&world, disk, PAGE, seed);
    ASSERT_OK(fault_attach(world.system, seed, &injector));
    ASSERT_OK(world_go_on(&world));
    fault_set_plans(
        injector,
        &(struct fault_plan){.kind = kind, .targets = targets, .first = k, .error = error}, 1);
    firn_rc rc = undo_world_open_set(false, TABLESPACES);
    for (unsigned i = 0; i < 6 && rc == FIRN_OK; i++) {
        rc = model_live(STEPS / 6);
        if (rc == FIRN_OK)
            rc = model_flush();
    }
    bool hit = fault_hits(injector) > 0;
    fault_set_plans(injector, NULL, 0);
    undo_world_abandon();
    open_and_judge(disk);
    ASSERT_OK(model_live(STEPS));
    undo_world_abandon();
    sim_disk_destroy(disk);
    if (!hit)
        ASSERT_OK(rc);
    return hit;
}

static void fail_each(enum fault_kind kind, unsigned targets, int error)
{
    uint64_t k = 1;
    while (live_with_fault(k, kind, targets, error))
        k++;
    assert_true(k > 3);
}

static void each_operation_may_report_an_error(void **state)
{
    (void)state;
    fail_each(FAULT_ERROR, FAULT_ALL, EIO);
}

static void the_disk_may_be_full_at_each_write(void **state)
{
    (void)state;
    fail_each(FAULT_ERROR, FAULT_WRITES | FAULT_METADATA, ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(opening_may_lack_memory),
        cmocka_unit_test(each_operation_may_report_an_error),
        cmocka_unit_test(the_disk_may_be_full_at_each_write),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
