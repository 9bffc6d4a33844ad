/*
 * A bulk build beside its twin, a tree with the same rows put one by one in random order: cursors
 * show the same in both directions, also after both were changed, and after power cuts in the
 * build.
 */
#include "btree/btree_model.h"

#include "mtr/mtr.h"

enum { TWIN_INDEX = WORLD_INDEX + 1 };

static const uint32_t page_sizes[] = {4096, 8192, 16384, 32768, 65536};

struct twins {
    struct world world; /* its tree is the one that is built */
    uint32_t put_root;
    struct btree *put;
    struct model model;
    struct rng rng;
    uint8_t *value;
};

static void make_put_tree(struct twins *twins)
{
    struct world *world = &twins->world;
    ASSERT_OK(btree_create(world->session, world->space, TWIN_INDEX, &twins->put_root));
    ASSERT_OK(btree_open(&world->base, world->space, twins->put_root, TWIN_INDEX, &twins->put));
}

static void twins_make(struct twins *twins, uint32_t page_size_bytes, unsigned pool_pages,
                       uint64_t seed)
{
    *twins = (struct twins){.put = NULL};
    rng_init(&twins->rng, seed);
    world_make(&twins->world, &(struct world_options){.page_size_bytes = page_size_bytes,
                                                      .pool_pages = pool_pages});
    twins->value = malloc(41 * (size_t)page_size_bytes);
    make_put_tree(twins);
}

static void twins_drop(struct twins *twins)
{
    btree_close(twins->put);
    free(twins->value);
    model_free(&twins->model);
    world_drop(&twins->world);
}

static struct span value_at(struct twins *twins, size_t at)
{
    const struct model_entry *entry = &twins->model.entries[at];
    return world_value(twins->value, entry->value_bytes, entry->number, 0);
}

static void draw_rows(struct twins *twins, unsigned rows)
{
    uint32_t page_size_bytes = twins->world.options.page_size_bytes;
    size_t key_max = btree_key_max(twins->world.tree);
    uint8_t *key = malloc(key_max);
    for (unsigned i = 0; i < rows; i++) {
        enum key_kind kind = (enum key_kind)rng_below(&twins->rng, KEYS_KINDS);
        size_t size = random_value_bytes(&twins->rng, page_size_bytes);
        model_put(&twins->model, random_key(&twins->rng, kind, key_max, key), i, size);
    }
    free(key);
}

static void put_row(struct twins *twins, struct btree *tree, size_t at)
{
    ASSERT_OK(btree_put(twins->world.session, tree, model_key(&twins->model, at),
                        value_at(twins, at), NULL));
}

/* Put all rows into the one, in random order. */
static void put_rows(struct twins *twins)
{
    size_t count = twins->model.count;
    size_t *order = malloc((count + 1) * sizeof(*order));
    for (size_t i = 0; i < count; i++) {
        size_t place = rng_below(&twins->rng, i + 1);
        order[i] = order[place];
        order[place] = i;
    }
    for (size_t i = 0; i < count; i++)
        put_row(twins, twins->put, order[i]);
    free(order);
}

/* Build the other. @return the first failure: then there is no build any more */
static firn_rc build_rows(struct twins *twins, unsigned fill_percent, uint64_t *end_lsn)
{
    struct btree_build *build;
    FIRN_TRY(btree_build_begin(twins->world.session, twins->world.tree, fill_percent, &build));
    for (size_t i = 0; i < twins->model.count; i++) {
        firn_rc rc = btree_build_add(build, model_key(&twins->model, i), value_at(twins, i));
        if (rc != FIRN_OK) {
            btree_build_abandon(build);
            return rc;
        }
    }
    return btree_build_finish(build, end_lsn);
}

/* ---- Comparing ---- */

static firn_rc step(struct btree_cursor *cursor, bool forward)
{
    return forward ? btree_cursor_next(cursor) : btree_cursor_prev(cursor);
}

static void compare_cursors(struct btree_cursor *built, struct btree_cursor *put, bool forward)
{
    enum btree_seek seek = forward ? BTREE_SEEK_FIRST : BTREE_SEEK_LAST;
    firn_rc built_rc = btree_cursor_seek(built, seek, span_of(NULL, 0));
    firn_rc put_rc = btree_cursor_seek(put, seek, span_of(NULL, 0));
    while (built_rc == FIRN_OK && put_rc == FIRN_OK) {
        struct span built_value;
        struct span put_value;
        assert_span_equal(btree_cursor_key(built), btree_cursor_key(put));
        ASSERT_OK(btree_cursor_value(built, &built_value));
        ASSERT_OK(btree_cursor_value(put, &put_value));
        assert_span_equal(built_value, put_value);
        built_rc = step(built, forward);
        put_rc = step(put, forward);
    }
    assert_int_equal(built_rc, FIRN_E_NOT_FOUND);
    assert_int_equal(put_rc, FIRN_E_NOT_FOUND);
}

static void check_tree(struct btree *tree, struct btree_shape *shape)
{
    struct btree_check_options options = {.threads = 1, .report = world_problem};
    ASSERT_OK(btree_check(tree, &options, shape));
}

/* The twins show the same rows, as many as there are, and are whole. */
static void compare_twins(struct twins *twins)
{
    struct world *world = &twins->world;
    struct btree_cursor *built;
    struct btree_cursor *put;
    struct btree_shape shape;
    ASSERT_OK(btree_cursor_open(&world->base, world->tree, &built));
    ASSERT_OK(btree_cursor_open(&world->base, twins->put, &put));
    compare_cursors(built, put, true);
    compare_cursors(built, put, false);
    btree_cursor_close(built);
    btree_cursor_close(put);
    world_check(world, &shape);
    assert_int_equal(shape.rows, twins->model.count);
    check_tree(twins->put, &shape);
    assert_int_equal(shape.rows, twins->model.count);
}

/* Change both in the same way: a tree that was built is one like any other. */
static void change_twins(struct twins *twins, unsigned changes)
{
    uint32_t page_size_bytes = twins->world.options.page_size_bytes;
    for (unsigned i = 0; i < changes && twins->model.count > 0; i++) {
        size_t at = rng_below(&twins->rng, twins->model.count);
        if (rng_below(&twins->rng, 3) == 0) {
            struct span key = model_key(&twins->model, at);
            ASSERT_OK(btree_delete(twins->world.session, twins->world.tree, key, NULL));
            ASSERT_OK(btree_delete(twins->world.session, twins->put, key, NULL));
            model_delete(&twins->model, at);
            continue;
        }
        twins->model.entries[at].number += 1000000;
        twins->model.entries[at].value_bytes = random_value_bytes(&twins->rng, page_size_bytes);
        put_row(twins, twins->world.tree, at);
        put_row(twins, twins->put, at);
    }
}

/* ---- Tests ---- */

static void a_build_shows_what_rows_put_one_by_one_show(void **state)
{
    (void)state;
    static const unsigned fills[] = {50, 70, 90, 100};
    uint64_t seed = test_seed(1);
    unsigned runs = test_runs(1);
    for (unsigned run = 0; run < runs; run++)
        for (unsigned i = 0; i < ARRAY_COUNT(page_sizes); i++) {
            struct twins twins;
            twins_make(&twins, page_sizes[i], 300, seed + run);
            draw_rows(&twins, page_sizes[i] < 32768 ? 900 : 150);
            put_rows(&twins);
            ASSERT_OK(build_rows(&twins, fills[(run + i) % ARRAY_COUNT(fills)], NULL));
            compare_twins(&twins);
            change_twins(&twins, page_sizes[i] < 32768 ? 300 : 60);
            compare_twins(&twins);
            twins_drop(&twins);
        }
}

/* Leaves of small rows are as full as was asked for; the last may be emptier. */
static void pages_are_as_full_as_was_asked_for(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(page_sizes); i++)
        for (unsigned fill_percent = 50; fill_percent <= 100; fill_percent += 10) {
            struct twins twins;
            struct btree_shape shape;
            uint8_t key[WORLD_KEY_BYTES];
            uint32_t page_size_bytes = page_sizes[i];
            twins_make(&twins, page_size_bytes, 300, 1);
            for (unsigned row = 0; row < page_size_bytes / 2; row++) /* some 40 leaves */
                model_put(&twins.model, world_key(key, row), row, 60);
            ASSERT_OK(build_rows(&twins, fill_percent, NULL));
            world_check(&twins.world, &shape);
            double leaf_bytes = (double)(shape.leaf_pages - 1) * page_size_bytes;
            double full = 100.0 * (leaf_bytes - (double)shape.free_bytes) / leaf_bytes;
            assert_true(shape.leaf_pages > 20);
            /* A row is 2 % of the smallest page; the last leaf's room, 5 % of all, is counted. */
            assert_true(full <= fill_percent + 3.0);
            assert_true(full >= fill_percent - 8.0);
            twins_drop(&twins);
        }
}

/* ---- Power cuts ---- */

/* Open a copy of what was prepared. */
static void twins_clone(struct twins *copy, const struct twins *prepared, uint64_t seed)
{
    *copy = *prepared;
    rng_init(&copy->rng, seed);
    copy->world = world_clone(&prepared->world);
    ASSERT_OK(world_recover(&copy->world, seed));
}

static void open_put_tree(struct twins *twins)
{
    struct world *world = &twins->world;
    ASSERT_OK(btree_open(&world->base, world->space, twins->put_root, TWIN_INDEX, &twins->put));
}

/* Die and recover, cut again on the way. */
static void recover(struct twins *twins)
{
    struct world *world = &twins->world;
    struct sim_disk *disk = world->options.disk;
    firn_rc rc = FIRN_E_IO;
    world_die(world);
    for (unsigned tries = 0; rc != FIRN_OK; tries++) {
        if (sim_disk_is_cut(disk))
            sim_disk_restore(disk);
        if (tries < 2)
            sim_disk_cut_after(disk, 1 + rng_below(&twins->rng, 20),
                               all_cuts[rng_below(&twins->rng, 4)], rng_next(&twins->rng));
        rc = world_recover(world, rng_next(&twins->rng));
        sim_disk_cut_after(disk, 0, SIM_CUT_DROP, 0);
        if (rc != FIRN_OK && !sim_disk_is_cut(disk))
            ASSERT_OK(rc);
        if (rc == FIRN_OK && sim_disk_is_cut(disk)) { /* behind its last step */
            world_die(world);
            rc = FIRN_E_IO;
        }
        test_count(TEST_CUTS, rc != FIRN_OK);
    }
}

/* Cut a build at a step. It is there wholly, or not at all, and can then be made again.
   @return false if it ended before */
static bool cut_build(const struct twins *prepared, uint64_t step_number, uint64_t seed)
{
    struct twins twins;
    struct btree_shape shape;
    uint64_t lsn = 0;
    twins_clone(&twins, prepared, seed + step_number);
    struct sim_disk *disk = twins.world.options.disk;
    enum sim_cut cut = all_cuts[rng_below(&twins.rng, 4)];
    sim_disk_cut_after(disk, step_number, cut, rng_next(&twins.rng));
    firn_rc rc = build_rows(&twins, 90, &lsn);
    if (rc == FIRN_OK)
        rc = redo_flush(twins.world.base.redo, lsn, REDO_FLUSH_SYNC);
    bool was_cut = sim_disk_is_cut(disk);
    if (!was_cut)
        ASSERT_OK(rc);
    test_count(TEST_CUTS, was_cut);
    sim_disk_cut_after(disk, 0, SIM_CUT_DROP, 0);
    recover(&twins);
    world_check(&twins.world, &shape);
    if (shape.rows == 0 && rc != FIRN_OK) {
        assert_int_equal(world_tree_pages(&twins.world), 1);
        ASSERT_OK(build_rows(&twins, 90, &lsn));
    }
    open_put_tree(&twins);
    compare_twins(&twins);
    btree_close(twins.put);
    world_drop(&twins.world);
    return was_cut;
}

static void a_build_cut_at_any_step_is_there_wholly_or_can_be_made_again(void **state)
{
    (void)state;
    uint64_t seed = test_seed(3);
    struct twins prepared;
    twins_make(&prepared, PAGE_SIZE_MIN, 100, seed); /* pages are written all the while */
    draw_rows(&prepared, 700);
    put_rows(&prepared);
    ASSERT_OK(buffer_flush(prepared.world.base.pool, UINT64_MAX));
    ASSERT_OK(
        redo_checkpoint(prepared.world.base.redo, buffer_clean_lsn(prepared.world.base.pool)));
    btree_close(prepared.put);
    world_die(&prepared.world);
    uint64_t stride = test_tries_all() ? 1 : 5;
    uint64_t step_number = 1 + seed % stride;
    while (cut_build(&prepared, step_number, seed))
        step_number += stride;
    assert_true(step_number > 10 * stride);
    free(prepared.value);
    model_free(&prepared.model);
    sim_disk_destroy(prepared.world.disk);
}

int main(void)
{
    mtr_verify_changes(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_build_shows_what_rows_put_one_by_one_show),
        cmocka_unit_test(pages_are_as_full_as_was_asked_for),
        cmocka_unit_test(a_build_cut_at_any_step_is_there_wholly_or_can_be_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
