/*
 * Allocations and reads that fail, each in turn, in edits with companions, in freeing kept values
 * and putting them back: nothing has changed, not the ledger either, and the next try works.
 */
#include "base/memory.h"
#include "btree/btree_ledger.h"

#include <errno.h>

enum { OPERATIONS = 250, TRIES_MAX = 400 };

struct trial {
    struct ledger ledger;
    unsigned failures;
};

/* In a session of its own, so that no memory is there already. */
static firn_rc try_operation(struct trial *trial, struct ledger_operation *operation)
{
    struct btree_session *session;
    FIRN_TRY(btree_session_open(&trial->ledger.world.base, &session));
    firn_rc rc = ledger_try(operation, session);
    btree_session_close(session);
    return rc;
}

/* After a failure the key has what it had, and the ledger says so. Purging has several steps. */
static void expect_unchanged(struct trial *trial, struct ledger_operation *operation,
                             uint64_t count)
{
    struct ledger *ledger = &trial->ledger;
    struct note notes[LEDGER_NOTES];
    uint8_t bytes[WORLD_KEY_BYTES];
    struct span key = ledger_key(bytes, operation->key);
    struct span value;
    bool found;
    if (operation->what == LEDGER_PURGE) {
        ledger_read(ledger, notes);
        operation->kept.state = notes[operation->note].state;
        return;
    }
    assert_int_equal(ledger_read(ledger, notes), count);
    size_t at = model_find(&ledger->model, key, &found);
    firn_rc rc = btree_get(ledger->world.session, ledger->world.tree, key, &value);
    assert_int_equal(rc, found ? FIRN_OK : FIRN_E_NOT_FOUND);
    if (found)
        assert_span_equal(value, ledger_value(ledger->value, ledger->model.entries[at].value_bytes,
                                              ledger->model.entries[at].number));
}

static void trial_begin(struct trial *trial, unsigned pool_pages, unsigned universe,
                        unsigned prepared, uint64_t seed)
{
    trial->failures = 0;
    ledger_make(&trial->ledger, &(struct world_options){.pool_pages = pool_pages}, universe, seed);
    for (unsigned i = 0; i < prepared; i++) {
        struct ledger_operation operation;
        ledger_draw(&trial->ledger, 75, &operation);
        ASSERT_OK(ledger_try(&operation, trial->ledger.world.session));
        ledger_follow(&operation);
    }
}

/* What could not be freed after a failure is in limbo: a crash later it is free. */
static void trial_end(struct trial *trial)
{
    struct world *world = &trial->ledger.world;
    struct btree_shape shape;
    assert_true(ledger_content_is_right(&trial->ledger));
    ASSERT_OK(redo_flush(world->base.redo, redo_reserved_lsn(world->base.redo), REDO_FLUSH_SYNC));
    world_die(world);
    ASSERT_OK(world_recover(world, 1));
    ledger_open(&trial->ledger);
    ledger_check(&trial->ledger, &shape);
    assert_int_equal(shape.rows, trial->ledger.model.count);
    print_message("# %u failures\n", trial->failures);
    assert_true(trial->failures >= 10);
    ledger_end(&trial->ledger);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    for (unsigned run = 0; run < test_runs(1); run++) {
        struct trial trial;
        trial_begin(&trial, 400, 300, 500, seed + run);
        for (unsigned i = 0; i < OPERATIONS; i++) {
            struct ledger_operation operation;
            struct note notes[LEDGER_NOTES];
            firn_rc rc = FIRN_E_NOMEM;
            ledger_draw(&trial.ledger, 50, &operation);
            uint64_t count = ledger_read(&trial.ledger, notes);
            for (long successes = 0; rc != FIRN_OK; successes++) {
                assert_true(successes < TRIES_MAX);
                memory_fail_after(successes);
                rc = try_operation(&trial, &operation);
                memory_fail_after(-1);
                if (rc == FIRN_OK)
                    break;
                assert_int_equal(rc, FIRN_E_NOMEM);
                expect_unchanged(&trial, &operation, count);
                trial.failures++;
            }
            ledger_follow(&operation);
        }
        trial_end(&trial);
    }
}

static void each_read_may_fail(void **state)
{
    (void)state;
    uint64_t seed = test_seed(2);
    for (unsigned run = 0; run < test_runs(1); run++) {
        struct trial trial;
        trial_begin(&trial, 64, 3000, 3000, seed + run);
        for (unsigned i = 0; i < OPERATIONS; i++) {
            struct ledger_operation operation;
            struct note notes[LEDGER_NOTES];
            firn_rc rc = FIRN_E_IO;
            ledger_draw(&trial.ledger, 50, &operation);
            uint64_t count = ledger_read(&trial.ledger, notes);
            for (uint64_t first = 1; rc != FIRN_OK; first++) {
                struct fault_plan plan = {.kind = FAULT_ERROR,
                                          .targets = FAULT_READS,
                                          .first = first,
                                          .error = EIO,
                                          .classes = 1u << IO_CLASS_TABLE | 1u << IO_CLASS_SYSTEM};
                assert_true(first < TRIES_MAX);
                fault_set_plans(trial.ledger.world.faults, &plan, 1);
                rc = try_operation(&trial, &operation);
                fault_set_plans(trial.ledger.world.faults, NULL, 0);
                if (rc == FIRN_OK)
                    break;
                assert_int_equal(rc, FIRN_E_IO);
                expect_unchanged(&trial, &operation, count);
                trial.failures++;
            }
            ledger_follow(&operation);
        }
        trial_end(&trial);
    }
}

int main(void)
{
    mtr_verify_changes(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(each_read_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
