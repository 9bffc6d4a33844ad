/*
 * Latches: who excludes whom, nobody is forgotten, nobody starves, nothing is lost.
 */
#include "buffer/pool_fixture.h"

#include <pthread.h>
#include <sched.h>

enum { FRAMES = 32, PAGES = 8, THREADS = 6, ROUNDS = 2000 };

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

static struct buffer_frame *fix_page(uint32_t page_no, enum buffer_mode mode)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(world.pool, page_id(page_no), mode, BUFFER_HINT_NORMAL, &frame));
    return frame;
}

static firn_rc try_page(uint32_t page_no, enum buffer_mode mode)
{
    struct buffer_frame *frame;
    firn_rc rc = buffer_try_fix(world.pool, page_id(page_no), mode, BUFFER_HINT_NORMAL, &frame);
    if (rc == FIRN_OK)
        buffer_unfix(world.pool, frame, mode);
    return rc;
}

static void modes_exclude_each_other_as_they_should(void **state)
{
    (void)state;
    static const struct {
        enum buffer_mode held;
        enum buffer_mode wanted;
        firn_rc rc;
    } cases[] = {
        {BUFFER_PIN, BUFFER_PIN, FIRN_OK},
        {BUFFER_PIN, BUFFER_SHARED, FIRN_OK},
        {BUFFER_PIN, BUFFER_EXCLUSIVE, FIRN_OK},
        {BUFFER_SHARED, BUFFER_PIN, FIRN_OK},
        {BUFFER_SHARED, BUFFER_SHARED, FIRN_OK},
        {BUFFER_SHARED, BUFFER_EXCLUSIVE, FIRN_E_BUSY},
        {BUFFER_EXCLUSIVE, BUFFER_PIN, FIRN_OK},
        {BUFFER_EXCLUSIVE, BUFFER_SHARED, FIRN_E_BUSY},
        {BUFFER_EXCLUSIVE, BUFFER_EXCLUSIVE, FIRN_E_BUSY},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buffer_frame *frame = fix_page(1, cases[i].held);
        assert_int_equal(try_page(1, cases[i].wanted), cases[i].rc);
        buffer_unfix(world.pool, frame, cases[i].held);
        assert_int_equal(try_page(1, BUFFER_EXCLUSIVE), FIRN_OK);
    }
}

static void a_pinned_frame_can_be_latched_and_unlatched(void **state)
{
    (void)state;
    struct buffer_frame *frame = fix_page(2, BUFFER_PIN);
    buffer_latch(world.pool, frame, BUFFER_SHARED);
    assert_true(buffer_try_latch(world.pool, frame, BUFFER_SHARED));
    assert_false(buffer_try_latch(world.pool, frame, BUFFER_EXCLUSIVE));
    buffer_unlatch(world.pool, frame, BUFFER_SHARED);
    buffer_unlatch(world.pool, frame, BUFFER_SHARED);
    assert_true(buffer_try_latch(world.pool, frame, BUFFER_EXCLUSIVE));
    assert_false(buffer_try_latch(world.pool, frame, BUFFER_SHARED));
    buffer_unlatch(world.pool, frame, BUFFER_EXCLUSIVE);
    buffer_unfix(world.pool, frame, BUFFER_PIN);
}

/* Each thread adds one to the words of pages, so that a lost or torn change shows in the sum. */
static void *adder_main(void *argument)
{
    uint32_t number = (uint32_t)(uintptr_t)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t page_no = (number + i) % 2;
        struct buffer_frame *frame = fix_page(page_no, BUFFER_EXCLUSIVE);
        uint64_t word = page_word(world.pool, frame);
        page_change(world.pool, frame, word + 1);
        buffer_unfix(world.pool, frame, BUFFER_EXCLUSIVE);
        if (i % 4 == 0)
            pool_word(world.pool, page_no);
    }
    return NULL;
}

static void no_change_is_lost_or_seen_half(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint64_t before = pool_word(world.pool, 0) + pool_word(world.pool, 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, adder_main, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(pool_word(world.pool, 0) + pool_word(world.pool, 1),
                     before + THREADS * ROUNDS);
}

static atomic_bool stop;

static void *reader_main(void *argument)
{
    (void)argument;
    while (!stop)
        pool_word(world.pool, 3);
    return NULL;
}

static void *writer_main(void *argument)
{
    (void)argument;
    while (!stop)
        buffer_unfix(world.pool, fix_page(3, BUFFER_EXCLUSIVE), BUFFER_EXCLUSIVE);
    return NULL;
}

/* Run others against one thread that wants a latch a hundred times; it ends only if it gets them.
 */
static void want_among(void *(*others)(void *), enum buffer_mode mode)
{
    pthread_t threads[THREADS];
    stop = false;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, others, NULL), 0);
    for (unsigned i = 0; i < 100; i++)
        buffer_unfix(world.pool, fix_page(3, mode), mode);
    stop = true;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void a_writer_gets_in_among_readers_and_a_reader_among_writers(void **state)
{
    (void)state;
    want_among(reader_main, BUFFER_EXCLUSIVE);
    want_among(writer_main, BUFFER_SHARED);
}

static void *write_once(void *argument)
{
    (void)argument;
    pool_write(world.pool, 3, 33);
    return NULL;
}

static void new_readers_wait_behind_a_waiting_writer(void **state)
{
    (void)state;
    struct buffer_frame *frame = fix_page(3, BUFFER_SHARED);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_once, NULL), 0);
    /* Once it waits, nobody else gets a shared latch; it waits for us. */
    while (try_page(3, BUFFER_SHARED) == FIRN_OK)
        sched_yield();
    assert_int_equal(page_word(world.pool, frame), 3);
    buffer_unfix(world.pool, frame, BUFFER_SHARED);
    pthread_join(writer, NULL);
    assert_int_equal(pool_word(world.pool, 3), 33);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(modes_exclude_each_other_as_they_should, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pinned_frame_can_be_latched_and_unlatched, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_change_is_lost_or_seen_half, setup, teardown),
        cmocka_unit_test_setup_teardown(a_writer_gets_in_among_readers_and_a_reader_among_writers,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(new_readers_wait_behind_a_waiting_writer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
