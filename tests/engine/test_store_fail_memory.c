/* Each allocation fails in turn while an environment is made, used and closed. */
#include "engine/store_fail.h"

#include "base/memory.h"

static void fail_each_allocation(struct attempt attempt)
{
    struct sim_disk *start = attempt.create ? disk_make() : disk_with_environment();
    long k = 0;
    do {
        struct sim_disk *disk = sim_disk_clone(start);
        struct io_system *system = disk_open(disk, 1);
        memory_fail_after(k);
        run(system, &attempt);
        memory_fail_after(-1);
        assert_true(attempt.rc == FIRN_OK || attempt.rc == FIRN_E_NOMEM);
        io_system_close(system);
        judge(disk, &attempt);
        sim_disk_destroy(disk);
        k++;
    } while (attempt.rc != FIRN_OK || k < 30);
    print_message("# %ld allocations\n", k);
    sim_disk_destroy(start);
}

static void a_creation_survives_each_failed_allocation(void **state)
{
    (void)state;
    fail_each_allocation((struct attempt){.create = true, .shared = STORE_TREE_SHARED});
}

static void an_opening_survives_each_failed_allocation(void **state)
{
    (void)state;
    fail_each_allocation((struct attempt){.create = false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_creation_survives_each_failed_allocation),
        cmocka_unit_test(an_opening_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
