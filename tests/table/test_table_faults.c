/*
 * Requests and allocations fail, one at a time: an error with a sentence, no half of anything, and
 * a store that goes on or is opened anew.
 */
#include "table/table_load.h"

enum { TXNS = 14 };

static struct sim_disk *disk_with_table(struct load *load, uint64_t seed)
{
    struct world world;
    table_world_init(&world, disk_make(), seed, 4096);
    ASSERT_OK(load_run(&world, load, 10));
    world_end(&world);
    return world.disk;
}

/* When the fault is over the same store goes on, or refuses in a sentence. What a commit that
   failed has left is not known before the next opening, so then nothing is built upon it. */
static void go_on(struct world *world, struct load *load)
{
    struct table_session *session = NULL;
    struct table *table = NULL;
    if (world->store == NULL || load->begun != load->acked)
        return;
    firn_rc rc = table_open(tables_of(world), "first", &table);
    if (rc == FIRN_OK)
        rc = table_session_open(tables_of(world), &session);
    for (unsigned i = 0; i < 3 && rc == FIRN_OK; i++)
        rc = load_transaction(load, session, table);
    if (rc != FIRN_OK)
        assert_true(strlen(firn_error_text()) > 10);
    table_session_close(session);
    table_close(table);
}

/* Judge by a fresh system what a run with a fault left. */
static void judge(struct world *world, struct load *load, const char *what, uint64_t k)
{
    world_end(world);
    world_power_on(world, k);
    firn_rc rc = table_world_open(world);
    const char *wrong = rc != FIRN_OK ? firn_error_text() : load_wrong(world, load);
    if (wrong != NULL)
        fail_msg("%s %llu: %s", what, (unsigned long long)k, wrong);
    world_end(world);
}

static bool fail_request(const struct sim_disk *base, const struct load *before,
                         struct fault_plan plan, const char *what)
{
    struct load *load = malloc(sizeof *load);
    *load = *before;
    struct world world;
    table_world_init(&world, sim_disk_clone(base), plan.first, 4096);
    fault_set_plans(world.faults, &plan, 1);
    firn_rc rc = load_run(&world, load, TXNS);
    bool hit = fault_hits(world.faults) > 0;
    if (rc != FIRN_OK) {
        assert_true(hit);
        assert_true(strlen(firn_error_text()) > 10);
    }
    fault_set_plans(world.faults, NULL, 0);
    go_on(&world, load);
    judge(&world, load, what, plan.first);
    sim_disk_destroy(world.disk);
    free(load);
    return hit;
}

static void fail_every(struct fault_plan plan, const char *what, unsigned stride)
{
    uint64_t seed = test_seed(23);
    struct load *load = malloc(sizeof *load);
    unsigned count = 0;
    load_init(load, seed);
    struct sim_disk *base = disk_with_table(load, seed);
    if (test_tries_all())
        stride = 1;
    for (plan.first = 1; fail_request(base, load, plan, what); plan.first += stride)
        count++;
    print_message("# %s: %u failed one at a time\n", what, count);
    assert_int_not_equal(count, 0);
    sim_disk_destroy(base);
    free(load);
}

static void a_write_may_fail(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_WRITES}, "write", 7);
}

static void the_disk_may_be_full(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_WRITES, .error = ENOSPC},
               "write without space", 7);
}

static void a_read_may_fail(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_READS}, "read", 9);
}

static void a_sync_may_fail(void **state)
{
    (void)state;
    fail_every((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_SYNCS}, "sync", 7);
}

static void an_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t seed = test_seed(29);
    struct load *before = malloc(sizeof *before);
    struct load *load = malloc(sizeof *load);
    load_init(before, seed);
    struct sim_disk *base = disk_with_table(before, seed);
    long stride = test_tries_all() ? 1 : 29;
    unsigned passed = 0; /* some that fail are done without; when many pass there are no more */
    for (long k = 0; passed < 12; k += stride) {
        struct world world;
        *load = *before;
        table_world_init(&world, sim_disk_clone(base), seed, 4096);
        memory_fail_after(k);
        firn_rc rc = load_run(&world, load, TXNS);
        memory_fail_after(-1);
        passed = rc == FIRN_OK ? passed + 1 : 0;
        if (rc != FIRN_OK)
            assert_int_equal(rc, FIRN_E_NOMEM);
        go_on(&world, load);
        judge(&world, load, "allocation", (uint64_t)k);
        sim_disk_destroy(world.disk);
    }
    sim_disk_destroy(base);
    free(before);
    free(load);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_may_fail),       cmocka_unit_test(the_disk_may_be_full),
        cmocka_unit_test(a_read_may_fail),        cmocka_unit_test(a_sync_may_fail),
        cmocka_unit_test(an_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
