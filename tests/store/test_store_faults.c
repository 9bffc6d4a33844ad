/*
 * Every k-th request and every k-th allocation fails, for every k until none is left to fail: an
 * error with a sentence, no crash, nothing acknowledged is lost, and the store is usable or cleanly
 * refused afterwards.
 */
#include "store/store_world.h"

enum { LOAD_OPS = 120 };

/** Open, operate, close; the lane notes what was acknowledged. @return the first failure */
static firn_rc run_load(struct world *world, struct lane *lane, bool *failed_open)
{
    *failed_open = true;
    FIRN_TRY(world_open(world));
    *failed_open = false;
    struct store_session *session = NULL;
    FIRN_TRY(store_session_open(world->store, &session));
    firn_rc rc = FIRN_OK;
    for (unsigned i = 0; i < LOAD_OPS && rc == FIRN_OK; i++) {
        rc = lane_step(lane, session, world->tree);
        if (rc == FIRN_OK && i % 3 == 0)
            rc = lane_commit(lane, session);
        if (rc == FIRN_OK && i % 40 == 7)
            rc = store_tick(world->store);
        if (rc == FIRN_OK && i % 60 == 50)
            rc = store_checkpoint(world->store);
    }
    store_session_close(session);
    return rc;
}

/** After the fault is over: the store goes on, or refuses in a sentence and is opened anew. */
static void go_on(struct world *world, struct lane *lane)
{
    struct store_session *session;
    if (world->store != NULL && store_session_open(world->store, &session) == FIRN_OK) {
        firn_rc rc = lane_step(lane, session, world->tree);
        if (rc == FIRN_OK)
            rc = lane_commit(lane, session);
        if (rc != FIRN_OK)
            assert_true(strlen(firn_error_text()) > 10);
        store_session_close(session);
        (void)store_close(world->store);
        world->store = NULL;
    }
}

/** Judge by a fresh system what a run with a fault left. */
static void judge(struct world *world, struct lane *lane, const char *what, uint64_t k)
{
    world_end(world);
    world_power_on(world, k);
    firn_rc rc = world_open(world);
    const char *wrong = rc != FIRN_OK ? firn_error_text() : world_wrong(world, &lane, 1);
    if (wrong != NULL)
        fail_msg("%s %llu: %s", what, (unsigned long long)k, wrong);
    world_end(world);
}

/** A closed store on a disk, to be cloned. */
static struct sim_disk *disk_with_store(struct lane *lane, uint64_t seed)
{
    struct world world;
    bool failed_open;
    world_init(&world, disk_make(), seed);
    ASSERT_OK(run_load(&world, lane, &failed_open));
    struct store_session *session;
    ASSERT_OK(store_session_open(world.store, &session));
    ASSERT_OK(lane_commit(lane, session));
    store_session_close(session);
    ASSERT_OK(store_close(world.store));
    world.store = NULL;
    world_end(&world);
    return world.disk;
}

/** @return true while there was an operation to fail. */
static bool fail_request(const struct sim_disk *base, const struct lane *before,
                         struct fault_plan plan, const char *what)
{
    struct lane *lane = malloc(sizeof *lane);
    *lane = *before;
    struct world world;
    world_init(&world, base != NULL ? sim_disk_clone(base) : disk_make(), plan.first);
    fault_set_plans(world.faults, &plan, 1);
    bool failed_open;
    firn_rc rc = run_load(&world, lane, &failed_open);
    bool hit = fault_hits(world.faults) > 0;
    if (rc != FIRN_OK)
        assert_true(hit);
    if (rc != FIRN_OK)
        assert_true(strlen(firn_error_text()) > 10);
    fault_set_plans(world.faults, NULL, 0);
    go_on(&world, lane);
    judge(&world, lane, what, plan.first);
    sim_disk_destroy(world.disk);
    free(lane);
    return hit;
}

static void fail_every(struct fault_plan plan, const char *what, unsigned stride)
{
    uint64_t seed = test_seed(21);
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = disk_with_store(lane, seed);
    unsigned count = 0;
    if (test_tries_all())
        stride = 1;
    for (plan.first = 1; fail_request(base, lane, plan, what); plan.first += stride)
        count++;
    print_message("# %s: %u failed one at a time\n", what, count);
    assert_int_not_equal(count, 0);
    sim_disk_destroy(base);
    free(lane);
}

static void every_write_may_fail(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_WRITES}, "write", 3);
}

static void every_write_may_find_the_disk_full(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_WRITES, .error = ENOSPC},
               "write without space", 3);
}

static void every_transfer_may_be_short(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_SHORT, .targets = FAULT_READS | FAULT_WRITES},
               "short transfer", 3);
}

static void every_sync_may_fail(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_SYNCS}, "sync", 3);
}

static void every_read_may_fail(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_READS}, "read", 1);
}

static void every_other_request_may_fail(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_METADATA}, "metadata", 1);
}

static void every_request_of_making_a_store_may_fail(void **state)
{
    (void)state;
    unsigned stride = test_tries_all() ? 1 : 2;
    struct lane *lane = lane_make(0, test_seed(22));
    struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_ALL};
    unsigned count = 0;
    for (plan.first = 1; count < 200 && fail_request(NULL, lane, plan, "request"); count++)
        plan.first += stride;
    assert_int_not_equal(count, 0);
    free(lane);
}

/* The load is the store's whole life: create, operate, close. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t seed = test_seed(23);
    struct lane *first = lane_make(0, seed);
    struct sim_disk *base = disk_with_store(first, seed);
    for (long k = 0;; k++) {
        struct lane *lane = malloc(sizeof *lane);
        *lane = *first;
        struct world world;
        world_init(&world, sim_disk_clone(base), seed);
        memory_fail_after(k);
        bool failed_open;
        firn_rc rc = run_load(&world, lane, &failed_open);
        memory_fail_after(-1);
        if (rc != FIRN_OK)
            assert_int_equal(rc, FIRN_E_NOMEM);
        go_on(&world, lane);
        judge(&world, lane, "allocation", (uint64_t)k);
        sim_disk_destroy(world.disk);
        free(lane);
        if (rc == FIRN_OK && k > 3000)
            break;
        if (rc == FIRN_OK && k % 50 != 0)
            k += 49;
    }
    sim_disk_destroy(base);
    free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_write_may_fail),
        cmocka_unit_test(every_write_may_find_the_disk_full),
        cmocka_unit_test(every_transfer_may_be_short),
        cmocka_unit_test(every_sync_may_fail),
        cmocka_unit_test(every_read_may_fail),
        cmocka_unit_test(every_other_request_may_fail),
        cmocka_unit_test(every_request_of_making_a_store_may_fail),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
