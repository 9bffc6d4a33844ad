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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_put_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(deleting_everything_leaves_one_page, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cursor_goes_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(large_values_come_back, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
