/*
 * Each allocation of memory, and each operation on a file, fails once in a life of tablespaces:
 * an error, nothing lost, and it goes on; at the latest after opening again.
 */
#include "base/memory.h"
#include "io/fault.h"
#include "space/space_life.h"

#include <errno.h>

static struct sim_disk *made;

static int setup(void **state)
{
    (void)state;
    mtr_verify_changes(true);
    made = disk_make();
    world_make(&world, made, PAGE);
    world_close(&world);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_disk_destroy(made);
    mtr_verify_changes(false);
    return 0;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    firn_rc rc = FIRN_E_NOMEM;
    for (long k = 0; rc != FIRN_OK; k++) {
        struct sim_disk *disk = sim_disk_clone(made);
        memset(tables, 0, sizeof tables);
        ASSERT_OK(world_open(&world, disk, PAGE, 1));
        memory_fail_after(k);
        rc = live();
        memory_fail_after(-1);
        if (rc != FIRN_OK)
            assert_int_equal(rc, FIRN_E_NOMEM);
        check_world();
        go_on();
        world_abandon(&world);
        sim_disk_destroy(disk);
    }
}

static void opening_may_lack_memory(void **state)
{
    (void)state;
    firn_rc rc = FIRN_E_NOMEM;
    for (long k = 0; rc != FIRN_OK; k++) {
        struct sim_disk *disk = sim_disk_clone(made);
        struct io_system *system = disk_open(disk, 1);
        struct space_set *set = NULL;
        world.system = system;
        world.page_size = PAGE;
        struct space_options options = world_space_options(&world);
        memory_fail_after(k);
        rc = space_set_open(&options, &set);
        if (rc == FIRN_OK)
            rc = space_scan(set, true);
        memory_fail_after(-1);
        if (rc != FIRN_OK)
            assert_int_equal(rc, FIRN_E_NOMEM);
        ASSERT_OK(space_set_close(set));
        io_system_close(system);
        sim_disk_destroy(disk);
    }
}

/** Let the k-th operation fail. @return what life came to, or FIRN_OK if there was no k-th */
static firn_rc live_with_fault(uint64_t k, enum fault_kind kind, unsigned targets, int error)
{
    struct fault_injector *injector;
    struct sim_disk *disk = sim_disk_clone(made);
    memset(tables, 0, sizeof tables);
    world_begin(&world, disk, PAGE, 1);
    ASSERT_OK(fault_attach(world.system, 1, &injector));
    ASSERT_OK(world_go_on(&world));
    fault_set_plans(
        injector,
        &(struct fault_plan){.kind = kind, .targets = targets, .first = k, .error = error}, 1);
    firn_rc rc = live();
    bool hit = fault_hits(injector) > 0;
    fault_set_plans(injector, NULL, 0);
    world_abandon(&world);
    ASSERT_OK(world_open(&world, disk, PAGE, 2));
    check_world();
    go_on();
    world_abandon(&world);
    sim_disk_destroy(disk);
    if (!hit)
        ASSERT_OK(rc);
    return hit ? FIRN_E_IO : FIRN_OK;
}

static void fail_each(enum fault_kind kind, unsigned targets, int error)
{
    for (uint64_t k = 1; live_with_fault(k, kind, targets, error) != FIRN_OK; k++)
        ;
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

static void each_transfer_may_be_short(void **state)
{
    (void)state;
    fail_each(FAULT_SHORT, FAULT_READS | FAULT_WRITES, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(opening_may_lack_memory),
        cmocka_unit_test(each_operation_may_report_an_error),
        cmocka_unit_test(the_disk_may_be_full_at_each_write),
        cmocka_unit_test(each_transfer_may_be_short),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
