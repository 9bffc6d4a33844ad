/*
 * Trees against a plain sorted map: random operations in one thread, all page sizes, all kinds of
 * keys, pools so small that pages come and go all the time.
 */
#include "btree/btree_model.h"

#include "mtr/mtr.h"

struct trial {
    struct world world;
    struct model model;
    struct rng rng;
    enum key_kind kind;
    uint8_t *key;
    uint8_t *value;
    uint64_t numbers; /* given to values so far */
};

static void trial_begin(struct trial *trial, uint32_t page_size_bytes, unsigned pool_pages,
                        enum key_kind kind, uint64_t seed)
{
    *trial = (struct trial){.kind = kind};
    rng_init(&trial->rng, seed);
    world_make(&trial->world, &(struct world_options){.page_size_bytes = page_size_bytes,
                                                      .pool_pages = pool_pages});
    trial->key = malloc(page_size_bytes);
    trial->value = malloc(41 * (size_t)page_size_bytes);
}

static void trial_end(struct trial *trial)
{
    free(trial->value);
    free(trial->key);
    model_free(&trial->model);
    world_drop(&trial->world);
}

static struct span trial_key(struct trial *trial)
{
    return random_key(&trial->rng, trial->kind, btree_key_max(trial->world.tree), trial->key);
}

static struct span entry_value(struct trial *trial, size_t i)
{
    const struct model_entry *entry = &trial->model.entries[i];
    return world_value(trial->value, entry->value_bytes, entry->number, 0);
}

static void do_put(struct trial *trial)
{
    struct span key = trial_key(trial);
    size_t size = random_value_bytes(&trial->rng, trial->world.options.page_size_bytes);
    uint64_t number = trial->numbers++;
    bool found;
    struct span value = world_value(trial->value, size, number, 0);
    if (rng_below(&trial->rng, 2) == 0) {
        ASSERT_OK(btree_put(trial->world.session, trial->world.tree, key, value, NULL));
        model_put(&trial->model, key, number, size);
        return;
    }
    model_find(&trial->model, key, &found);
    firn_rc rc = btree_insert(trial->world.session, trial->world.tree, key, value, NULL);
    if (found) {
        assert_int_equal(rc, FIRN_E_EXISTS);
        return;
    }
    ASSERT_OK(rc);
    model_put(&trial->model, key, number, size);
}

static void do_delete(struct trial *trial)
{
    struct span key = trial_key(trial);
    bool found;
    size_t at = model_find(&trial->model, key, &found);
    firn_rc rc = btree_delete(trial->world.session, trial->world.tree, key, NULL);
    if (found)
        model_delete(&trial->model, at);
    if (found)
        ASSERT_OK(rc);
    else
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
}

static void do_get(struct trial *trial)
{
    struct span key = trial_key(trial);
    struct span found_value;
    bool found;
    size_t at = model_find(&trial->model, key, &found);
    firn_rc rc = btree_get(trial->world.session, trial->world.tree, key, &found_value);
    if (!found) {
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
        return;
    }
    ASSERT_OK(rc);
    assert_span_equal(found_value, entry_value(trial, at));
}

/* A read-modify-write: sees what is there, and puts, deletes or keeps. */
struct modify {
    struct trial *trial;
    bool found;
    size_t at;
    enum btree_action action;
    uint64_t number;
    size_t value_bytes;
};

static enum btree_action decide_modify(const struct btree_old *old, struct btree_new *new,
                                       firn_rc *rc, void *context)
{
    struct modify *modify = context;
    (void)rc;
    assert_int_equal(old != NULL, modify->found);
    if (old != NULL)
        assert_span_equal(old->value, entry_value(modify->trial, modify->at));
    new->value = world_value(modify->trial->value, modify->value_bytes, modify->number, 0);
    return modify->action;
}

static void do_modify(struct trial *trial)
{
    struct modify modify = {.trial = trial, .number = trial->numbers++};
    struct span key = trial_key(trial);
    modify.at = model_find(&trial->model, key, &modify.found);
    modify.action = (enum btree_action)rng_below(&trial->rng, 3);
    modify.value_bytes = random_value_bytes(&trial->rng, trial->world.options.page_size_bytes);
    struct btree_edit edit = {.decide = decide_modify, .wants_old = true, .context = &modify};
    ASSERT_OK(btree_edit(trial->world.session, trial->world.tree, key, &edit, NULL));
    if (modify.action == BTREE_PUT)
        model_put(&trial->model, key, modify.number, modify.value_bytes);
    else if (modify.action == BTREE_DELETE && modify.found)
        model_delete(&trial->model, modify.at);
}

/* Where a seek must come to; the count, or (size_t)-1 before the first, when there is no such row.
 */
static size_t seek_in_model(const struct model *model, enum btree_seek seek, struct span key)
{
    bool found;
    size_t at = model_find(model, key, &found);
    switch (seek) {
    case BTREE_SEEK_FIRST:
        return 0;
    case BTREE_SEEK_LAST:
        return model->count - 1;
    case BTREE_SEEK_AFTER:
        return at + found;
    case BTREE_SEEK_AT_OR_BEFORE:
        return found ? at : at - 1;
    case BTREE_SEEK_BEFORE:
        return at - 1;
    case BTREE_SEEK_EXACT:
        return found ? at : model->count;
    default:
        return at;
    }
}

static void expect_row(struct trial *trial, struct btree_cursor *cursor, size_t at)
{
    struct span value;
    assert_span_equal(btree_cursor_key(cursor), model_key(&trial->model, at));
    ASSERT_OK(btree_cursor_value(cursor, &value));
    assert_span_equal(value, entry_value(trial, at));
}

static void do_scan(struct trial *trial, struct btree_cursor *cursor)
{
    enum btree_seek seek = (enum btree_seek)rng_below(&trial->rng, BTREE_SEEK_EXACT + 1);
    struct span key = trial_key(trial);
    size_t at = seek_in_model(&trial->model, seek, key);
    firn_rc rc = btree_cursor_seek(cursor, seek, key);
    for (unsigned moves = (unsigned)rng_below(&trial->rng, 200);; moves--) {
        if (at >= trial->model.count) {
            assert_int_equal(rc, FIRN_E_NOT_FOUND);
            return;
        }
        ASSERT_OK(rc);
        expect_row(trial, cursor, at);
        if (moves == 0)
            return;
        /* A hundred moves one way, then back and forth. */
        bool back = seek == BTREE_SEEK_LAST || (moves < 100 && rng_below(&trial->rng, 2) == 0);
        at = back ? at - 1 : at + 1;
        rc = back ? btree_cursor_prev(cursor) : btree_cursor_next(cursor);
    }
}

static void check_all(struct trial *trial, struct btree_cursor *cursor)
{
    struct btree_shape shape;
    world_check(&trial->world, &shape);
    assert_int_equal(shape.rows, trial->model.count);
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (size_t i = 0; i < trial->model.count; i++, rc = btree_cursor_next(cursor)) {
        ASSERT_OK(rc);
        expect_row(trial, cursor, i);
    }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    rc = btree_cursor_seek(cursor, BTREE_SEEK_LAST, span_of(NULL, 0));
    for (size_t i = trial->model.count; i-- > 0; rc = btree_cursor_prev(cursor)) {
        ASSERT_OK(rc);
        expect_row(trial, cursor, i);
    }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
}

static void delete_all(struct trial *trial)
{
    while (trial->model.count > 0) {
        size_t at = rng_below(&trial->rng, trial->model.count);
        ASSERT_OK(btree_delete(trial->world.session, trial->world.tree,
                               model_key(&trial->model, at), NULL));
        model_delete(&trial->model, at);
        if (trial->model.count % 500 == 250) {
            struct btree_shape shape;
            world_check(&trial->world, &shape);
            assert_int_equal(shape.rows, trial->model.count);
        }
    }
    assert_int_equal(world_tree_pages(&trial->world), 1);
}

static void run_trial(uint32_t page_size_bytes, unsigned pool_pages, enum key_kind kind,
                      uint64_t seed, unsigned operations)
{
    struct trial trial;
    struct btree_cursor *cursor;
    trial_begin(&trial, page_size_bytes, pool_pages, kind, seed);
    ASSERT_OK(btree_cursor_open(&trial.world.base, trial.world.tree, &cursor));
    for (unsigned i = 0; i < operations; i++) {
        /* Growing for two thirds of the time, then shrinking. */
        unsigned puts = i < operations / 3 * 2 ? 60 : 25;
        unsigned what = (unsigned)rng_below(&trial.rng, 100);
        if (what < puts)
            do_put(&trial);
        else if (what < 75)
            do_delete(&trial);
        else if (what < 85)
            do_get(&trial);
        else if (what < 99)
            do_modify(&trial);
        else
            do_scan(&trial, cursor);
    }
    check_all(&trial, cursor);
    delete_all(&trial);
    check_all(&trial, cursor);
    btree_cursor_close(cursor);
    trial_end(&trial);
}

static void random_operations_give_what_a_sorted_map_gives(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++)
        for (unsigned kind = 0; kind < KEYS_KINDS; kind++)
            for (uint32_t size = PAGE_SIZE_MIN; size <= PAGE_SIZE_MAX; size *= 4)
                run_trial(size, 400, (enum key_kind)kind, seed + run * 100 + kind, 4000);
}

static void a_tiny_pool_changes_nothing(void **state)
{
    (void)state;
    uint64_t seed = test_seed(2);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++)
        for (unsigned kind = 0; kind < KEYS_KINDS; kind++)
            run_trial(PAGE_SIZE_MIN, 64, (enum key_kind)kind, seed + run * 100 + kind, 4000);
}

int main(void)
{
    mtr_verify_changes(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_give_what_a_sorted_map_gives),
        cmocka_unit_test(a_tiny_pool_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
