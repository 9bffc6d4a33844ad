/* Each I/O fails in turn while an environment is made, used and closed. */
#include "engine/store_fail.h"

#include <errno.h>

/* @return false when no operation was hit: k is beyond the last one */
static bool fail_io(const struct sim_disk *start, struct attempt *attempt, uint64_t k,
                    const struct fault_plan *kind)
{
    struct sim_disk *disk = sim_disk_clone(start);
    struct io_system *system = disk_open(disk, 1);
    struct fault_injector *faults;
    struct fault_plan plan = *kind;
    plan.first = k;
    ASSERT_OK(fault_attach(system, 1, &faults));
    fault_set_plans(faults, &plan, 1);
    run(system, attempt);
    bool hit = fault_hits(faults) > 0;
    assert_true(hit || attempt->rc == FIRN_OK);
    io_system_close(system);
    judge(disk, attempt);
    sim_disk_destroy(disk);
    return hit;
}

static void fail_each_io(struct attempt attempt, struct fault_plan kind)
{
    struct sim_disk *start = attempt.create ? disk_make() : disk_with_environment();
    uint64_t k = 1;
    unsigned failures = 0;
    while (fail_io(start, &attempt, k, &kind)) {
        failures += attempt.rc != FIRN_OK;
        k++;
    }
    print_message("# %u of %llu operations led to a failure\n", failures, (unsigned long long)k);
    assert_true(k > 20);
    sim_disk_destroy(start);
}

static void a_creation_survives_each_failed_operation(void **state)
{
    (void)state;
    fail_each_io((struct attempt){.create = true},
                 (struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_ALL});
}

static void an_opening_survives_each_failed_operation(void **state)
{
    (void)state;
    fail_each_io((struct attempt){.shared = STORE_TREE_SHARED},
                 (struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_ALL});
}

static void a_full_disk_at_any_write_loses_nothing(void **state)
{
    (void)state;
    fail_each_io((struct attempt){.create = false},
                 (struct fault_plan){.kind = FAULT_ERROR,
                                     .targets = FAULT_WRITES | FAULT_METADATA,
                                     .error = ENOSPC});
}

static void a_short_transfer_is_no_failure(void **state)
{
    (void)state;
    struct attempt attempt = {.create = true};
    struct sim_disk *start = disk_make();
    struct fault_plan kind = {.kind = FAULT_SHORT, .targets = FAULT_ALL};
    for (uint64_t k = 1; fail_io(start, &attempt, k, &kind); k += 3)
        assert_int_equal(attempt.rc, FIRN_OK);
    sim_disk_destroy(start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_creation_survives_each_failed_operation),
        cmocka_unit_test(an_opening_survives_each_failed_operation),
        cmocka_unit_test(a_full_disk_at_any_write_loses_nothing),
        cmocka_unit_test(a_short_transfer_is_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
