/*
 * Bulk builds: whatever the keys, what was added is the tree's content afterwards, and the tree is
 * one like any other.
 */
#include "btree/btree_model.h"

#include "mtr/mtr.h"

struct trial {
    struct world world;
    struct model model;
    struct rng rng;
    uint8_t *value;
};

static void trial_begin(struct trial *trial, uint32_t page_size_bytes, uint64_t seed)
{
    *trial = (struct trial){.model = {.count = 0}};
    rng_init(&trial->rng, seed);
    world_make(&trial->world,
               &(struct world_options){.page_size_bytes = page_size_bytes, .pool_pages = 300});
    trial->value = malloc(41 * (size_t)page_size_bytes);
}

static void trial_end(struct trial *trial)
{
    free(trial->value);
    model_free(&trial->model);
    world_drop(&trial->world);
}

static struct span entry_value(struct trial *trial, size_t at)
{
    const struct model_entry *entry = &trial->model.entries[at];
    return world_value(trial->value, entry->value_bytes, entry->number, 0);
}

/* Draw rows of all kinds of keys: long ones next to short ones, shared prefixes that end. */
static void draw_rows(struct trial *trial, unsigned rows, bool one_kind)
{
    size_t key_max = btree_key_max(trial->world.tree);
    uint8_t *key = malloc(key_max);
    enum key_kind kind = (enum key_kind)rng_below(&trial->rng, KEYS_KINDS);
    for (unsigned i = 0; i < rows; i++) {
        if (!one_kind)
            kind = (enum key_kind)rng_below(&trial->rng, KEYS_KINDS);
        size_t size = random_value_bytes(&trial->rng, trial->world.options.page_size_bytes);
        model_put(&trial->model, random_key(&trial->rng, kind, key_max, key), i, size);
    }
    free(key);
}

static struct btree_build *begin(struct trial *trial, unsigned fill_percent)
{
    struct btree_build *build;
    ASSERT_OK(btree_build_begin(trial->world.session, trial->world.tree, fill_percent, &build));
    return build;
}

static void add_rows(struct trial *trial, struct btree_build *build)
{
    for (size_t i = 0; i < trial->model.count; i++)
        ASSERT_OK(btree_build_add(build, model_key(&trial->model, i), entry_value(trial, i)));
}

static void expect_rows(struct trial *trial)
{
    struct btree_cursor *cursor;
    struct span value;
    struct btree_shape shape;
    world_check(&trial->world, &shape);
    assert_int_equal(shape.rows, trial->model.count);
    ASSERT_OK(btree_cursor_open(&trial->world.base, trial->world.tree, &cursor));
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (size_t i = 0; i < trial->model.count; i++, rc = btree_cursor_next(cursor)) {
        ASSERT_OK(rc);
        assert_span_equal(btree_cursor_key(cursor), model_key(&trial->model, i));
        ASSERT_OK(btree_cursor_value(cursor, &value));
        assert_span_equal(value, entry_value(trial, i));
    }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    btree_cursor_close(cursor);
    for (size_t i = 0; i < trial->model.count; i++) {
        ASSERT_OK(btree_get(trial->world.session, trial->world.tree, model_key(&trial->model, i),
                            &value));
        assert_span_equal(value, entry_value(trial, i));
    }
}

static void delete_rows(struct trial *trial)
{
    while (trial->model.count > 0) {
        size_t at = rng_below(&trial->rng, trial->model.count);
        ASSERT_OK(btree_delete(trial->world.session, trial->world.tree,
                               model_key(&trial->model, at), NULL));
        model_delete(&trial->model, at);
    }
    assert_int_equal(world_tree_pages(&trial->world), 1);
}

static void any_rows_can_be_built(void **state)
{
    (void)state;
    static const unsigned rows[] = {0, 1, 2, 50, 3000};
    uint64_t seed = test_seed(1);
    for (unsigned run = 0, runs = test_runs(12); run < runs; run++) {
        struct trial trial;
        trial_begin(&trial, (uint32_t)PAGE_SIZE_MIN << run % 3 * 2, seed + run);
        draw_rows(&trial, rows[run % ARRAY_COUNT(rows)], run % 2 == 0);
        struct btree_build *build = begin(&trial, 50 + run % 6 * 10);
        add_rows(&trial, build);
        ASSERT_OK(btree_build_finish(build, NULL));
        expect_rows(&trial);
        delete_rows(&trial);
        trial_end(&trial);
    }
}

static void an_abandoned_build_gives_everything_back(void **state)
{
    (void)state;
    uint64_t seed = test_seed(2);
    for (unsigned run = 0, runs = test_runs(4); run < runs; run++) {
        struct trial trial;
        trial_begin(&trial, PAGE_SIZE_MIN, seed + run);
        draw_rows(&trial, 2000, true);
        struct btree_build *build = begin(&trial, 100);
        add_rows(&trial, build);
        assert_true(world_tree_pages(&trial.world) > 50);
        btree_build_abandon(build);
        assert_int_equal(world_tree_pages(&trial.world), 1);
        build = begin(&trial, 100);
        add_rows(&trial, build);
        ASSERT_OK(btree_build_finish(build, NULL));
        expect_rows(&trial);
        trial_end(&trial);
    }
}

static void a_full_build_takes_few_pages(void **state)
{
    (void)state;
    enum { ROWS = 20000, ROW_BYTES = 12 + 50 + 3 };
    struct trial trial;
    uint8_t key[WORLD_KEY_BYTES];
    trial_begin(&trial, PAGE_SIZE_MIN, 1);
    struct btree_build *build = begin(&trial, 100);
    for (uint64_t i = 0; i < ROWS; i++)
        ASSERT_OK(btree_build_add(build, world_key(key, i), world_value(trial.value, 50, i, 0)));
    ASSERT_OK(btree_build_finish(build, NULL));
    /* A slot and sizes take 10 bytes a row; the prefix, 10 bytes cut off it, nearly pays. */
    assert_in_range(world_tree_pages(&trial.world), 1, ROWS * ROW_BYTES / PAGE_SIZE_MIN);
    trial_end(&trial);
}

static void rows_out_of_order_are_refused_and_the_build_goes_on(void **state)
{
    (void)state;
    struct trial trial;
    struct span value = span_of_text("value");
    struct span found;
    trial_begin(&trial, PAGE_SIZE_MIN, 1);
    struct btree_build *build = begin(&trial, 90);
    ASSERT_OK(btree_build_add(build, span_of_text("b"), value));
    assert_int_equal(btree_build_add(build, span_of_text("b"), value), FIRN_E_INVALID);
    assert_int_equal(btree_build_add(build, span_of_text("a"), value), FIRN_E_INVALID);
    ASSERT_TEXT("not above the one before");
    ASSERT_OK(btree_build_add(build, span_of_text("c"), value));
    ASSERT_OK(btree_build_finish(build, NULL));
    ASSERT_OK(btree_get(trial.world.session, trial.world.tree, span_of_text("c"), &found));
    assert_int_equal(btree_get(trial.world.session, trial.world.tree, span_of_text("a"), &found),
                     FIRN_E_NOT_FOUND);
    trial_end(&trial);
}

static void only_an_empty_tree_can_be_built(void **state)
{
    (void)state;
    struct trial trial;
    struct btree_build *build;
    struct btree_session *other;
    struct span found;
    trial_begin(&trial, PAGE_SIZE_MIN, 1);
    struct world *world = &trial.world;
    build = begin(&trial, 90);
    ASSERT_OK(btree_build_add(build, span_of_text("built"), span_of_text("1")));
    /* A row that comes meanwhile wins. */
    ASSERT_OK(btree_session_open(&world->base, &other));
    ASSERT_OK(btree_put(other, world->tree, span_of_text("put"), span_of_text("2"), NULL));
    assert_int_equal(btree_build_finish(build, NULL), FIRN_E_EXISTS);
    ASSERT_OK(btree_get(other, world->tree, span_of_text("put"), &found));
    assert_int_equal(btree_get(other, world->tree, span_of_text("built"), &found),
                     FIRN_E_NOT_FOUND);
    assert_int_equal(world_tree_pages(world), 1);
    assert_int_equal(btree_build_begin(world->session, world->tree, 90, &build), FIRN_E_EXISTS);
    assert_int_equal(btree_build_begin(world->session, world->tree, 101, &build), FIRN_E_INVALID);
    btree_session_close(other);
    trial_end(&trial);
}

int main(void)
{
    mtr_verify_changes(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_rows_can_be_built),
        cmocka_unit_test(an_abandoned_build_gives_everything_back),
        cmocka_unit_test(a_full_build_takes_few_pages),
        cmocka_unit_test(rows_out_of_order_are_refused_and_the_build_goes_on),
        cmocka_unit_test(only_an_empty_tree_can_be_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
