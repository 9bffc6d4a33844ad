/*
 * Read-ahead: pages come in before they are wanted, in few requests, and nobody is worse off for
 * it.
 */
#include "buffer/pool_fixture.h"

#include "base/rng.h"

#include <pthread.h>
#include <sched.h>

enum { FRAMES = 128, PAGES = 400 };

static struct pool_world world;

static void open_with_threads(bool threads)
{
    struct buffer_options options = world_begin(&world, FRAMES, PAGES);
    options.cleaner_thread = threads;
    ASSERT_OK(buffer_open(&options, &world.pool));
}

static unsigned prefetch(uint32_t first, uint32_t count)
{
    uint64_t ids[PAGES];
    for (uint32_t i = 0; i < count; i++)
        ids[i] = page_id(first + i);
    return buffer_prefetch(world.pool, ids, count);
}

static uint64_t reads_of_tables(void)
{
    static struct io_counters counters; /* too large for a stack */
    io_system_counters(world.system, IO_CLASS_TABLE, &counters);
    return counters.reads - counters.merged;
}

static void prefetched_pages_are_there_when_they_are_wanted(bool threads)
{
    open_with_threads(threads);
    uint64_t before = reads_of_tables();
    assert_int_equal(prefetch(100, 20), 20);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(pool_word(world.pool, 100 + i), 100 + i);
    struct buffer_counters counters = pool_counters(world.pool);
    assert_int_equal(counters.pages_read, 20);
    assert_int_equal(counters.pages_read_ahead, 20);
    assert_int_equal(counters.misses, 0);
    assert_true(reads_of_tables() - before < 20); /* neighbours travel together */
    assert_int_equal(prefetch(100, 20), 0);
    world_close(&world);
}

static void prefetched_pages_are_there_with_threads(void **state)
{
    (void)state;
    prefetched_pages_are_there_when_they_are_wanted(true);
}

static void prefetched_pages_are_there_without_threads(void **state)
{
    (void)state;
    prefetched_pages_are_there_when_they_are_wanted(false);
}

static void what_cannot_be_prefetched_is_skipped(void **state)
{
    (void)state;
    open_with_threads(false);
    ASSERT_OK(sim_disk_rot(world.disk, "/t.firn", 3 * POOL_PAGE_BYTES + 99, 1));
    uint64_t ids[] = {page_id(2), page_id(3), page_id(PAGES + 5), page_id_of(77, 1), page_id(4)};
    assert_int_equal(buffer_prefetch(world.pool, ids, 5), 3);
    assert_int_equal(pool_counters(world.pool).pages_read_ahead, 2);
    struct buffer_frame *frame;
    assert_int_equal(buffer_fix(world.pool, page_id(3), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame),
                     FIRN_E_CORRUPT);
    assert_int_equal(pool_word(world.pool, 4), 4);
    struct buffer_counters counters = pool_counters(world.pool);
    assert_int_equal(counters.pages_data + counters.pages_free, counters.pages_total);
    world_close(&world);
}

static void read_ahead_takes_a_part_of_the_pool_only(void **state)
{
    (void)state;
    open_with_threads(true);
    uint32_t quarter = (uint32_t)pool_counters(world.pool).pages_total / 4;
    struct fault_plan fault = {.kind = FAULT_STUCK, .targets = FAULT_READS, .first = 1, .every = 1};
    fault_set_plans(world.faults, &fault, 1);
    assert_int_equal(prefetch(0, FRAMES), quarter);
    assert_int_equal(prefetch(FRAMES, FRAMES), 0);
    fault_set_plans(world.faults, NULL, 0);
    while (fault_release(world.faults), pool_counters(world.pool).pages_read_ahead < quarter)
        sched_yield();
    assert_int_equal(prefetch(FRAMES, 10), 10);
    assert_int_equal(pool_word(world.pool, FRAMES + 3), FRAMES + 3);
    world_close(&world);
}

static void pages_that_were_read_for_nothing_are_counted(void **state)
{
    (void)state;
    open_with_threads(false);
    prefetch(0, 20);
    assert_int_equal(pool_word(world.pool, 7), 7);
    for (uint32_t i = 20; i < PAGES; i++)
        pool_word(world.pool, i);
    assert_int_equal(pool_counters(world.pool).read_ahead_evicted, 19);
    world_close(&world);
}

static uint64_t seed;

static void *user_main(void *argument)
{
    struct rng rng;
    rng_init(&rng, seed + (uintptr_t)argument);
    for (unsigned i = 0; i < 200; i++) {
        uint32_t page_no = (uint32_t)rng_below(&rng, PAGES - 16);
        prefetch(page_no, 16);
        for (uint32_t p = 0; p < 16; p += 5) {
            uint64_t word = pool_word(world.pool, page_no + p);
            assert_int_equal(word % PAGES, page_no + p);
            if (p == 5)
                pool_write(world.pool, page_no + p, word + PAGES);
        }
    }
    return NULL;
}

static void many_threads_read_ahead_and_change_pages(void **state)
{
    (void)state;
    pthread_t threads[4];
    seed = test_seed(99);
    open_with_threads(true);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, user_main, (void *)i), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefetched_pages_are_there_with_threads),
        cmocka_unit_test(prefetched_pages_are_there_without_threads),
        cmocka_unit_test(what_cannot_be_prefetched_is_skipped),
        cmocka_unit_test(read_ahead_takes_a_part_of_the_pool_only),
        cmocka_unit_test(pages_that_were_read_for_nothing_are_counted),
        cmocka_unit_test(many_threads_read_ahead_and_change_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
