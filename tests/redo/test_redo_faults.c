/* Every k-th operation of the device fails, every k-th allocation fails: an error, no crash, and
   what was acknowledged is there when the log is opened again. */
#include "base/memory.h"
#include "redo/redo_world.h"

#include <errno.h>

enum { OPERATIONS = 40 };

static struct world *make_start(uint64_t seed)
{
    struct world *world = world_make(seed);
    firn_rc rc;
    assert_true(world_open(world, &rc));
    ASSERT_OK(rc);
    ASSERT_OK(world_work(world, OPERATIONS));
    ASSERT_OK(redo_close(world->redo));
    world->redo = NULL;
    return world;
}

static firn_rc open_and_work(struct world *world)
{
    firn_rc rc;
    if (!world_open(world, &rc))
        fail_msg("%s", world->problem);
    return rc == FIRN_OK ? world_work(world, OPERATIONS) : rc;
}

/* The process ends; the next one, without faults, must find everything. */
static void judge_afterwards(struct world *world, uint64_t k)
{
    firn_rc rc;
    world_die(world, 1);
    if (!world_open(world, &rc))
        fail_msg("after failure %llu: %s", (unsigned long long)k, world->problem);
    ASSERT_OK(rc);
    ASSERT_OK(world_work(world, 5));
    world_destroy(world);
}

/* @return true if the k-th operation was reached */
static bool fail_one(const struct world *start, struct fault_plan plan, uint64_t k,
                     firn_rc expected)
{
    struct world *world = world_clone(start, 7);
    struct fault_injector *injector;
    ASSERT_OK(fault_attach(world->system, 1, &injector));
    plan.first = k;
    fault_set_plans(injector, &plan, 1);
    firn_rc rc = open_and_work(world);
    bool was_hit = fault_hits(injector) > 0;
    if (expected == FIRN_OK || !was_hit)
        ASSERT_OK(rc);
    /* What was read ahead and is not needed may fail without a word. */
    else if (rc != FIRN_OK && rc != expected && rc != FIRN_E_STOPPED)
        fail_msg("operation %llu failed with %d instead of %d: %s", (unsigned long long)k, rc,
                 expected, firn_error_text());
    if (rc == FIRN_E_STOPPED)
        assert_int_equal(redo_flush(world->redo, redo_reserved_lsn(world->redo), REDO_FLUSH_SYNC),
                         FIRN_E_STOPPED);
    judge_afterwards(world, k);
    return was_hit;
}

static void test_every_operation_fails_once(void **state)
{
    (void)state;
    static const struct {
        struct fault_plan plan;
        firn_rc expected;
    } kinds[] = {
        {{.kind = FAULT_ERROR, .targets = FAULT_ALL}, FIRN_E_IO},
        {{.kind = FAULT_ERROR, .targets = FAULT_WRITES, .error = ENOSPC}, FIRN_E_NOSPACE},
        {{.kind = FAULT_SHORT, .targets = FAULT_READS | FAULT_WRITES}, FIRN_OK},
    };
    struct world *start = make_start(test_seed(51));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint64_t k = 1;
        while (fail_one(start, kinds[i].plan, k, kinds[i].expected))
            k++;
        print_message("# %u operations of kind %zu\n", (unsigned)k - 1, i);
        assert_true(k > 10);
    }
    world_destroy(start);
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    struct world *start = make_start(test_seed(52));
    bool failed = true;
    for (long k = 0; failed; k++) {
        struct world *world = world_clone(start, 7);
        memory_fail_after(k);
        firn_rc rc = open_and_work(world);
        memory_fail_after(-1);
        failed = rc != FIRN_OK;
        if (failed && rc != FIRN_E_NOMEM)
            fail_msg("allocation %ld failed with %d: %s", k, rc, firn_error_text());
        assert_true(failed || k > 5);
        judge_afterwards(world, (uint64_t)k);
    }
    world_destroy(start);
}

/* A log that runs out of its ring stops rather than overwrite what recovery would need. */
static void test_a_ring_overrun_stops_the_log(void **state)
{
    (void)state;
    struct world *world = make_start(test_seed(53));
    uint8_t *body = calloc(1, 1 << 20);
    firn_rc rc;
    assert_true(world_open(world, &rc));
    ASSERT_OK(rc);
    uint64_t end_lsn = 0;
    /* Without asking for room. */
    for (int i = 0; i < 12 && rc == FIRN_OK; i++) {
        rc = redo_append(world->redo, span_of(body, 1 << 20), &end_lsn);
        if (rc == FIRN_OK)
            rc = redo_flush(world->redo, end_lsn, REDO_FLUSH_SYNC);
    }
    assert_int_equal(rc, FIRN_E_STOPPED);
    ASSERT_TEXT("is full");
    free(body);
    world_die(world, 1);
    struct redo_reader *reader;
    struct span span;
    uint64_t lsn;
    ASSERT_OK(redo_open(&world->options, &world->redo));
    ASSERT_OK(redo_reader_open(world->redo, redo_checkpoint_lsn(world->redo), &reader));
    for (uint64_t i = world_frame_at(world, redo_checkpoint_lsn(world->redo)); i < world->durable;
         i++) {
        ASSERT_OK(redo_reader_next(reader, &span, &lsn, &end_lsn));
        assert_true(world_judge_frame(world, i, span, lsn));
    }
    redo_reader_close(reader);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation_fails_once),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_a_ring_overrun_stops_the_log),
    };
    return cmocka_run_group_tests_name("redo_faults", tests, NULL, NULL);
}
