/* While recovery runs every k-th operation of the device and every k-th allocation fails, by one
   thread and by several: an error, no crash, and the next recovery succeeds. */
#include "base/memory.h"
#include "recovery/recovery_world.h"

/* The thread sanitizer is slow and learns nothing from trying them all. */
#ifdef __SANITIZE_THREAD__
enum { STRIDE = 7 };
#else
enum { STRIDE = 1 };
#endif

static struct world *make_start(uint64_t seed)
{
    struct world *world = world_make(seed);
    ASSERT_OK(world_work(world, 60));
    ASSERT_OK(world_checkpoint(world));
    ASSERT_OK(world_work(world, 40));
    ASSERT_OK(world_flush(world));
    world_die(world, seed);
    return world;
}

static void recover_and_judge(struct world *world, uint64_t k)
{
    world_die(world, 1);
    ASSERT_OK(world_open(world));
    if (!world_judge(world))
        fail_msg("after failure %llu: %s", (unsigned long long)k, world->problem);
    world_destroy(world);
}

/* @return true if the k-th operation was reached */
static bool fail_operation(const struct world *start, unsigned threads, uint64_t k)
{
    struct world *world = world_clone(start, 7);
    struct fault_injector *injector;
    struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_ALL, .first = k};
    world->threads = threads;
    ASSERT_OK(fault_attach(world->system, 1, &injector));
    fault_set_plans(injector, &plan, 1);
    firn_rc rc = world_open(world);
    bool was_hit = fault_hits(injector) > 0;
    if (!was_hit)
        ASSERT_OK(rc);
    else if (rc != FIRN_OK && firn_error_text()[0] == '\0')
        fail_msg("operation %llu failed without a word", (unsigned long long)k);
    recover_and_judge(world, k);
    return was_hit;
}

static void test_every_operation_fails_once(void **state)
{
    (void)state;
    struct world *start = make_start(test_seed(71));
    for (unsigned threads = 1; threads <= 2; threads++) {
        uint64_t k = 1;
        while (fail_operation(start, threads, k))
            k += STRIDE * threads; /* by several threads only some */
        print_message("# %llu operations\n", (unsigned long long)k - 1);
        assert_true(k > 30);
    }
    world_destroy(start);
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    struct world *start = make_start(test_seed(72));
    /* Some failures are made up for, so the end is not where one first succeeds. */
    unsigned succeeded = 0;
    for (long k = 0; succeeded < 20; k += STRIDE) {
        struct world *world = world_clone(start, 7);
        memory_fail_after(k);
        firn_rc rc = world_open(world);
        memory_fail_after(-1);
        succeeded = rc == FIRN_OK ? succeeded + 1 : 0;
        if (rc != FIRN_OK && rc != FIRN_E_NOMEM)
            fail_msg("allocation %ld failed with %d: %s", k, rc, firn_error_text());
        recover_and_judge(world, (uint64_t)k);
    }
    world_destroy(start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation_fails_once),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests_name("recovery_faults", tests, NULL, NULL);
}
