/*
 * What one thread sees of a pool: pages come, stay, go and come back; what cannot be is said.
 */
#include "buffer/pool_fixture.h"

enum { FRAMES = 32, PAGES = 200 };

static struct pool_world world;

static int setup(void **state)
{
    (void)state;
    world_open(&world, FRAMES, PAGES);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

static void pages_are_read_once_and_found_again(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3; round++)
        for (uint32_t i = 0; i < FRAMES / 2; i++)
            assert_int_equal(pool_word(world.pool, i), i);
    struct buffer_counters counters = pool_counters(world.pool);
    assert_int_equal(counters.misses, FRAMES / 2);
    assert_int_equal(counters.pages_read, FRAMES / 2);
    assert_int_equal(counters.fixes, 3 * FRAMES / 2);
    assert_int_equal(counters.pages_data, FRAMES / 2);
    assert_int_equal(counters.pages_free, counters.pages_total - FRAMES / 2);
}

static void more_pages_than_frames_come_and_go(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3; round++)
        for (uint32_t i = 0; i < PAGES; i++)
            assert_int_equal(pool_word(world.pool, i), i);
    struct buffer_counters counters = pool_counters(world.pool);
    assert_true(counters.pages_total >= FRAMES && counters.pages_total < FRAMES + 16);
    assert_true(counters.pages_evicted >= 3 * PAGES - counters.pages_total - FRAMES);
    assert_int_equal(counters.pages_data + counters.pages_free, counters.pages_total);
}

static void changed_pages_come_back_changed(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PAGES; i++)
        pool_write(world.pool, i, 1000 + i);
    for (uint32_t i = 0; i < PAGES; i++)
        assert_int_equal(pool_word(world.pool, i), 1000 + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_are_read_once_and_found_again, setup, teardown),
        cmocka_unit_test_setup_teardown(more_pages_than_frames_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(changed_pages_come_back_changed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
