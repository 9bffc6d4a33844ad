/*
 * Allocations and requests that fail, each in turn, in every operation on a tree: the operation
 * fails and has changed nothing, or it succeeds; the tree stays whole, and the next try works.
 */
#include "base/memory.h"
#include "btree/btree_model.h"

#include "mtr/mtr.h"

#include <errno.h>

enum { OPERATIONS = 250, PREPARED = 1500, TRIES_MAX = 400 };

struct trial {
    struct world world;
    struct model model;
    struct rng rng;
    uint64_t numbers;
    uint8_t *value;
    unsigned universe; /* keys to draw from */
    unsigned failures;
};

/* One operation, to be tried until it succeeds. */
struct operation {
    uint8_t key[16];
    enum { DO_PUT, DO_DELETE, DO_GET, DO_SCAN } what;
    uint64_t number;
    size_t value_bytes;
};

static struct span key_of(const struct operation *operation)
{
    return span_of(operation->key, sizeof(operation->key));
}

static void draw(struct trial *trial, struct operation *operation)
{
    static const size_t most[] = {100, 100, 700, 800, 3 * PAGE_SIZE_MIN, 25 * PAGE_SIZE_MIN};
    uint64_t what = rng_below(&trial->rng, 10);
    memset(operation->key, 'k', 8);
    put_u64(operation->key + 8, htobe64(rng_below(&trial->rng, trial->universe)));
    operation->what = what < 5 ? DO_PUT : what < 8 ? DO_DELETE : what < 9 ? DO_GET : DO_SCAN;
    operation->number = trial->numbers++;
    operation->value_bytes =
        rng_below(&trial->rng, most[rng_below(&trial->rng, ARRAY_COUNT(most))]);
}

static struct span entry_value(struct trial *trial, size_t at)
{
    const struct model_entry *entry = &trial->model.entries[at];
    return world_value(trial->value, entry->value_bytes, entry->number, 0);
}

static firn_rc scan(struct trial *trial)
{
    struct btree_cursor *cursor;
    struct span value;
    size_t at = 0;
    FIRN_TRY(btree_cursor_open(&trial->world.base, trial->world.tree, &cursor));
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (; rc == FIRN_OK; at++) {
        assert_true(at < trial->model.count);
        assert_span_equal(btree_cursor_key(cursor), model_key(&trial->model, at));
        rc = btree_cursor_value(cursor, &value);
        if (rc == FIRN_OK) {
            assert_span_equal(value, entry_value(trial, at));
            rc = btree_cursor_next(cursor);
        }
    }
    btree_cursor_close(cursor);
    if (rc != FIRN_E_NOT_FOUND)
        return rc;
    assert_int_equal(at, trial->model.count);
    return FIRN_OK;
}

/* Carry it out in a session of its own, so that no memory is there already. A key that is not there
 * is a success. */
static firn_rc try_operation(struct trial *trial, const struct operation *operation)
{
    struct world *world = &trial->world;
    struct btree_session *session;
    struct span key = key_of(operation);
    struct span found_value;
    bool found;
    size_t at = model_find(&trial->model, key, &found);
    if (operation->what == DO_SCAN)
        return scan(trial);
    FIRN_TRY(btree_session_open(&world->base, &session));
    firn_rc rc;
    if (operation->what == DO_PUT) {
        rc = btree_put(session, world->tree, key,
                       world_value(trial->value, operation->value_bytes, operation->number, 0),
                       NULL);
    } else if (operation->what == DO_DELETE) {
        rc = btree_delete(session, world->tree, key, NULL);
    } else {
        rc = btree_get(session, world->tree, key, &found_value);
        if (rc == FIRN_OK && found)
            assert_span_equal(found_value, entry_value(trial, at));
    }
    btree_session_close(session);
    if (operation->what != DO_PUT && rc != FIRN_E_NOMEM && rc != FIRN_E_IO)
        assert_int_equal(rc, found ? FIRN_OK : FIRN_E_NOT_FOUND);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static void note_success(struct trial *trial, const struct operation *operation)
{
    bool found;
    size_t at = model_find(&trial->model, key_of(operation), &found);
    if (operation->what == DO_PUT)
        model_put(&trial->model, key_of(operation), operation->number, operation->value_bytes);
    else if (operation->what == DO_DELETE && found)
        model_delete(&trial->model, at);
}

/* After a failure the key has what it had. */
static void expect_unchanged(struct trial *trial, const struct operation *operation)
{
    struct span value;
    bool found;
    size_t at = model_find(&trial->model, key_of(operation), &found);
    firn_rc rc = btree_get(trial->world.session, trial->world.tree, key_of(operation), &value);
    assert_int_equal(rc, found ? FIRN_OK : FIRN_E_NOT_FOUND);
    if (found)
        assert_span_equal(value, entry_value(trial, at));
}

static void trial_begin(struct trial *trial, unsigned pool_pages, unsigned universe, uint64_t seed)
{
    *trial = (struct trial){.universe = universe};
    rng_init(&trial->rng, seed);
    world_make(&trial->world, &(struct world_options){.pool_pages = pool_pages});
    trial->value = malloc(26 * PAGE_SIZE_MIN);
}

/* What could not be freed after a failure is in limbo: a crash later it is free. */
static void trial_end(struct trial *trial)
{
    struct btree_shape shape;
    ASSERT_OK(scan(trial));
    ASSERT_OK(redo_flush(trial->world.base.redo, redo_reserved_lsn(trial->world.base.redo),
                         REDO_FLUSH_SYNC));
    world_die(&trial->world);
    ASSERT_OK(world_recover(&trial->world, 1));
    world_check(&trial->world, &shape);
    assert_int_equal(shape.rows, trial->model.count);
    print_message("# %u failures\n", trial->failures);
    assert_true(trial->failures >= 10);
    model_free(&trial->model);
    free(trial->value);
    world_drop(&trial->world);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++) {
        struct trial trial;
        trial_begin(&trial, 200, 300, seed + run);
        for (unsigned i = 0; i < OPERATIONS; i++) {
            struct operation operation;
            firn_rc rc = FIRN_E_NOMEM;
            draw(&trial, &operation);
            for (long successes = 0; rc != FIRN_OK; successes++) {
                assert_true(successes < TRIES_MAX);
                memory_fail_after(successes);
                rc = try_operation(&trial, &operation);
                memory_fail_after(-1);
                if (rc == FIRN_OK)
                    break;
                assert_int_equal(rc, FIRN_E_NOMEM);
                expect_unchanged(&trial, &operation);
                trial.failures++;
            }
            note_success(&trial, &operation);
        }
        trial_end(&trial);
    }
}

/* Fill the tree beyond what the pool holds. */
static void prepare(struct trial *trial)
{
    for (unsigned i = 0; i < PREPARED; i++) {
        struct operation operation;
        draw(trial, &operation);
        ASSERT_OK(try_operation(trial, &operation));
        note_success(trial, &operation);
    }
}

enum { BUILD_ROWS = 400 };

/* Build the tree in a session of its own; ends the build whatever happens. */
static firn_rc try_build(struct trial *trial)
{
    struct btree_session *session;
    struct btree_build *build;
    uint8_t key[WORLD_KEY_BYTES];
    FIRN_TRY(btree_session_open(&trial->world.base, &session));
    firn_rc rc = btree_build_begin(session, trial->world.tree, 90, &build);
    if (rc == FIRN_OK) {
        for (uint64_t i = 0; i < BUILD_ROWS && rc == FIRN_OK; i++) {
            size_t size = i % 40 == 7 ? 20 * PAGE_SIZE_MIN : 300;
            rc = btree_build_add(build, world_key(key, i), world_value(trial->value, size, i, 0));
        }
        if (rc == FIRN_OK)
            rc = btree_build_finish(build, NULL);
        else
            btree_build_abandon(build);
    }
    btree_session_close(session);
    return rc;
}

static void each_allocation_of_a_build_may_fail(void **state)
{
    (void)state;
    struct trial trial;
    struct btree_shape shape;
    firn_rc rc = FIRN_E_NOMEM;
    trial_begin(&trial, 200, 300, test_seed(5));
    for (long successes = 0; rc != FIRN_OK; successes++) {
        assert_true(successes < TRIES_MAX);
        memory_fail_after(successes);
        rc = try_build(&trial);
        memory_fail_after(-1);
        if (rc != FIRN_OK) {
            assert_int_equal(rc, FIRN_E_NOMEM);
            world_check(&trial.world, &shape);
            assert_int_equal(shape.rows, 0);
            trial.failures++;
        }
    }
    print_message("# %u failures\n", trial.failures);
    assert_true(trial.failures >= 10);
    world_check(&trial.world, &shape);
    assert_int_equal(shape.rows, BUILD_ROWS);
    free(trial.value);
    world_drop(&trial.world);
}

static void fail_requests(uint64_t seed, unsigned target, int error)
{
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++) {
        struct trial trial;
        trial_begin(&trial, 60, 3000, seed + run);
        prepare(&trial);
        for (unsigned i = 0; i < OPERATIONS; i++) {
            struct operation operation;
            firn_rc rc = FIRN_E_IO;
            draw(&trial, &operation);
            for (uint64_t first = 1; rc != FIRN_OK; first++) {
                struct fault_plan plan = {.kind = FAULT_ERROR,
                                          .targets = target,
                                          .first = first,
                                          .error = error,
                                          .classes = 1u << IO_CLASS_TABLE};
                assert_true(first < TRIES_MAX);
                fault_set_plans(trial.world.faults, &plan, 1);
                rc = try_operation(&trial, &operation);
                fault_set_plans(trial.world.faults, NULL, 0);
                if (rc == FIRN_OK)
                    break;
                assert_int_equal(rc, error == ENOSPC ? FIRN_E_NOSPACE : FIRN_E_IO);
                expect_unchanged(&trial, &operation);
                trial.failures++;
            }
            note_success(&trial, &operation);
        }
        trial_end(&trial);
    }
}

static void each_read_may_fail(void **state)
{
    (void)state;
    fail_requests(test_seed(2), FAULT_READS, EIO);
}

/* While no page can be written, operations go on until the pool is full of changes, then fail. */
static void pages_that_cannot_be_written_are_kept(void **state)
{
    (void)state;
    struct trial trial;
    struct fault_plan plan = {.kind = FAULT_ERROR,
                              .targets = FAULT_WRITES,
                              .first = 1,
                              .every = 1,
                              .classes = 1u << IO_CLASS_TABLE};
    trial_begin(&trial, 60, 3000, test_seed(3));
    prepare(&trial);
    for (unsigned i = 0; i < OPERATIONS; i++) {
        struct operation operation;
        draw(&trial, &operation);
        fault_set_plans(trial.world.faults, &plan, 1);
        firn_rc rc = try_operation(&trial, &operation);
        fault_set_plans(trial.world.faults, NULL, 0);
        if (rc != FIRN_OK) {
            assert_int_equal(rc, FIRN_E_IO);
            expect_unchanged(&trial, &operation);
            trial.failures++;
            ASSERT_OK(try_operation(&trial, &operation));
        }
        note_success(&trial, &operation);
    }
    trial_end(&trial);
}

/* A full disk refuses what needs pages, loses nothing, and is as good as before once it has room.
 */
static void a_full_disk_is_survived(void **state)
{
    (void)state;
    struct trial trial;
    struct btree_shape shape;
    uint64_t capacity_bytes = 24 << 20; /* log and doublewrite file included */
    trial_begin(&trial, 200, 30000, test_seed(4));
    sim_disk_set_capacity(trial.world.disk, capacity_bytes);
    while (trial.failures < 1000) {
        struct operation operation;
        draw(&trial, &operation);
        if (operation.what == DO_SCAN)
            continue;
        firn_rc rc = try_operation(&trial, &operation);
        if (rc == FIRN_E_NOSPACE) {
            expect_unchanged(&trial, &operation);
            trial.failures++;
        } else {
            ASSERT_OK(rc);
            note_success(&trial, &operation);
        }
    }
    world_check(&trial.world, &shape);
    assert_int_equal(shape.rows, trial.model.count);
    sim_disk_set_capacity(trial.world.disk, 2 * capacity_bytes);
    for (unsigned i = 0; i < OPERATIONS; i++) {
        struct operation operation;
        draw(&trial, &operation);
        ASSERT_OK(try_operation(&trial, &operation));
        note_success(&trial, &operation);
    }
    trial_end(&trial);
}

int main(void)
{
    mtr_verify_changes(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(each_allocation_of_a_build_may_fail),
        cmocka_unit_test(each_read_may_fail),
        cmocka_unit_test(pages_that_cannot_be_written_are_kept),
        cmocka_unit_test(a_full_disk_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
