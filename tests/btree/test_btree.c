/*
 * What trees promise, one thing a test.
 */
#include "btree/btree_fixture.h"

#include "mtr/mtr.h"

static struct world world;

static int setup(void **state)
{
    (void)state;
    mtr_verify_changes(true);
    world_make(&world, &(struct world_options){.pool_pages = 4000});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_drop(&world);
    return 0;
}

static void put(uint64_t number, size_t size_bytes)
{
    uint8_t key[WORLD_KEY_BYTES];
    uint8_t value[4096];
    ASSERT_OK(btree_put(world.session, world.tree, world_key(key, number),
                        world_value(value, size_bytes, number, 0), NULL));
}

static void expect(uint64_t number, size_t size_bytes)
{
    uint8_t key[WORLD_KEY_BYTES];
    uint8_t value[4096];
    struct span found;
    ASSERT_OK(btree_get(world.session, world.tree, world_key(key, number), &found));
    assert_span_equal(found, world_value(value, size_bytes, number, 0));
}

static void what_was_put_is_found(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20000; i++)
        put(i * 7919 % 20000, 50);
    for (uint64_t i = 0; i < 20000; i++)
        expect(i, 50);
}

static void deleting_everything_leaves_one_page(void **state)
{
    (void)state;
    uint8_t key[WORLD_KEY_BYTES];
    struct span found;
    for (uint64_t i = 0; i < 20000; i++)
        put(i * 7919 % 20000, 50);
    for (uint64_t i = 0; i < 20000; i++)
        ASSERT_OK(btree_delete(world.session, world.tree, world_key(key, i * 6007 % 20000), NULL));
    for (uint64_t i = 0; i < 20000; i++)
        assert_int_equal(btree_get(world.session, world.tree, world_key(key, i), &found),
                         FIRN_E_NOT_FOUND);
    assert_int_equal(world_tree_pages(&world), 1);
}

static void a_cursor_goes_both_ways(void **state)
{
    (void)state;
    struct btree_cursor *cursor;
    uint8_t key[WORLD_KEY_BYTES];
    for (uint64_t i = 0; i < 5000; i++)
        put(i * 7919 % 5000 * 2, 50);
    ASSERT_OK(btree_cursor_open(&world.base, world.tree, &cursor));
    ASSERT_OK(btree_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0)));
    for (uint64_t i = 0; i < 5000; i++) {
        assert_span_equal(btree_cursor_key(cursor), world_key(key, i * 2));
        assert_int_equal(btree_cursor_next(cursor), i < 4999 ? FIRN_OK : FIRN_E_NOT_FOUND);
    }
    for (uint64_t i = 5000; i-- > 0;) {
        ASSERT_OK(btree_cursor_prev(cursor));
        assert_span_equal(btree_cursor_key(cursor), world_key(key, i * 2));
    }
    assert_int_equal(btree_cursor_prev(cursor), FIRN_E_NOT_FOUND);
    ASSERT_OK(btree_cursor_next(cursor));
    assert_span_equal(btree_cursor_key(cursor), world_key(key, 0));
    btree_cursor_close(cursor);
}

static void large_values_come_back(void **state)
{
    (void)state;
    uint8_t key[WORLD_KEY_BYTES];
    size_t size = 300000;
    uint8_t *value = malloc(size);
    struct span found;
    for (unsigned round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 20; i++)
            ASSERT_OK(btree_put(world.session, world.tree, world_key(key, i),
                                world_value(value, size / (i + 1), i, round), NULL));
        for (uint64_t i = 0; i < 20; i++) {
            ASSERT_OK(btree_get(world.session, world.tree, world_key(key, i), &found));
            assert_span_equal(found, world_value(value, size / (i + 1), i, round));
        }
    }
    for (uint64_t i = 0; i < 20; i++)
        ASSERT_OK(btree_delete(world.session, world.tree, world_key(key, i), NULL));
    assert_int_equal(world_tree_pages(&world), 1);
    free(value);
}

static void keys_that_are_too_long_are_refused(void **state)
{
    (void)state;
    uint8_t key[PAGE_SIZE_MIN] = {0};
    struct span found;
    size_t most = btree_key_max(world.tree);
    assert_int_equal(most, slotted_key_max(PAGE_SIZE_MIN));
    struct span value = span_of_text("value");
    ASSERT_OK(btree_put(world.session, world.tree, span_of(key, most), value, NULL));
    ASSERT_OK(btree_get(world.session, world.tree, span_of(key, most), &found));
    struct span longer = span_of(key, most + 1);
    assert_int_equal(btree_put(world.session, world.tree, longer, value, NULL), FIRN_E_INVALID);
    ASSERT_TEXT("too long");
    assert_int_equal(btree_get(world.session, world.tree, longer, &found), FIRN_E_INVALID);
    assert_int_equal(btree_delete(world.session, world.tree, longer, NULL), FIRN_E_INVALID);
}

static void only_the_root_of_an_index_opens_it(void **state)
{
    (void)state;
    struct btree *tree;
    for (uint64_t i = 0; i < 200; i++)
        put(i, 100);
    assert_int_equal(btree_open(&world.base, world.space, world.root_page, WORLD_INDEX + 1, &tree),
                     FIRN_E_CORRUPT);
    assert_int_equal(btree_open(&world.base, world.space, 0, WORLD_INDEX, &tree), FIRN_E_CORRUPT);
    assert_int_equal(btree_open(&world.base, world.space, world.root_page + 1, WORLD_INDEX, &tree),
                     FIRN_E_CORRUPT);
    ASSERT_TEXT("is not its root");
    assert_int_equal(btree_open(&world.base, world.space, 1u << 30, WORLD_INDEX, &tree),
                     FIRN_E_CORRUPT);
    ASSERT_TEXT("does not exist");
}

static uint64_t log_bytes(void)
{
    struct redo_counters counters;
    redo_counters(world.base.redo, &counters);
    return counters.bytes;
}

/* 16 bytes of each are the frame's. */
static void a_change_logs_little_more_than_it_changes(void **state)
{
    (void)state;
    uint8_t key[WORLD_KEY_BYTES];
    uint8_t value[100] = {0};
    for (uint64_t i = 0; i < 1000; i++)
        put(2 * i, 100);
    uint64_t before = log_bytes();
    put(1001, 100);
    assert_in_range(log_bytes() - before, 1, 16 + WORLD_KEY_BYTES + 100 + 24);

    memset(value, 1, sizeof(value));
    struct span changed = span_of(value, sizeof(value));
    ASSERT_OK(btree_put(world.session, world.tree, world_key(key, 1001), changed, NULL));
    before = log_bytes();
    value[50] = 2;
    ASSERT_OK(btree_put(world.session, world.tree, world_key(key, 1001), changed, NULL));
    assert_in_range(log_bytes() - before, 1, 40);

    before = log_bytes();
    ASSERT_OK(btree_delete(world.session, world.tree, world_key(key, 1001), NULL));
    assert_in_range(log_bytes() - before, 1, 40);
}

/* Whoever puts what another has put acknowledges that other's log. */
static void a_put_of_what_is_there_waits_for_its_log(void **state)
{
    (void)state;
    uint8_t key[WORLD_KEY_BYTES];
    uint64_t first = 0;
    uint64_t second = 0;
    struct span value = span_of_text("value");
    ASSERT_OK(btree_put(world.session, world.tree, world_key(key, 1), value, &first));
    uint64_t before = log_bytes();
    ASSERT_OK(btree_put(world.session, world.tree, world_key(key, 1), value, &second));
    assert_int_equal(log_bytes(), before);
    assert_true(second >= first);
    assert_int_equal(btree_insert(world.session, world.tree, world_key(key, 1), value, NULL),
                     FIRN_E_EXISTS);
    uint64_t third = 1;
    assert_int_equal(btree_delete(world.session, world.tree, world_key(key, 2), &third),
                     FIRN_E_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_put_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(deleting_everything_leaves_one_page, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cursor_goes_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(large_values_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_that_are_too_long_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(only_the_root_of_an_index_opens_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_logs_little_more_than_it_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_put_of_what_is_there_waits_for_its_log, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
