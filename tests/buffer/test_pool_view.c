/*
 * Views: what was read through one is believed only if nothing happened to the page.
 */
#include "buffer/pool_fixture.h"

#include "base/rng.h"

#include <pthread.h>

enum { FRAMES = 24, PAGES = 64, VIEWERS = 3, WRITERS = 2, CHANGES = 3000 };

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

static struct buffer_view view_of(uint32_t page_no)
{
    struct buffer_view view;
    pool_word(world.pool, page_no);
    assert_true(buffer_view_open(world.pool, page_id(page_no), NULL, &view));
    return view;
}

/* Read other pages until a page has gone. */
static void push_out(uint32_t page_no)
{
    for (uint32_t i = 0; map_find(world.pool, page_id(page_no)) != NULL; i++) {
        assert_true(i < 10 * PAGES);
        if (i % PAGES != page_no)
            pool_word(world.pool, i % PAGES);
    }
}

static void a_view_shows_a_page_that_is_there(void **state)
{
    (void)state;
    struct buffer_view view;
    uint64_t word;
    assert_false(buffer_view_open(world.pool, page_id(5), NULL, &view));
    view = view_of(5);
    assert_int_equal(view.page_id, page_id(5));
    assert_true(page_is_whole(view.page, POOL_PAGE_BYTES, 5, &word));
    assert_int_equal(word, 5);
    assert_true(buffer_view_valid(world.pool, &view));
    buffer_view_close(world.pool, &view);
}

static void a_hint_is_taken_when_right_and_harmless_when_wrong(void **state)
{
    (void)state;
    struct buffer_view view = view_of(5);
    struct buffer_frame *right = view.frame;
    buffer_view_close(world.pool, &view);
    view = view_of(6);
    struct buffer_frame *wrong = view.frame;
    buffer_view_close(world.pool, &view);
    assert_true(buffer_view_open(world.pool, page_id(5), right, &view));
    assert_ptr_equal(view.frame, right);
    buffer_view_close(world.pool, &view);
    assert_true(buffer_view_open(world.pool, page_id(5), wrong, &view));
    assert_ptr_equal(view.frame, right);
    buffer_view_close(world.pool, &view);
    push_out(5);
    assert_false(buffer_view_open(world.pool, page_id(5), right, &view));
}

static void a_view_ends_with_a_change_or_the_pages_going(void **state)
{
    (void)state;
    if (BUFFER_VIEWS_LATCH)
        skip(); /* who looks keeps writers out then */
    struct buffer_view view = view_of(5);
    pool_word(world.pool, 5);
    assert_true(buffer_view_valid(world.pool, &view));
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(world.pool, page_id(5), BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &frame));
    assert_false(buffer_view_valid(world.pool, &view));
    buffer_unfix(world.pool, frame, BUFFER_EXCLUSIVE);
    assert_true(buffer_view_valid(world.pool, &view)); /* nothing was changed */
    pool_write(world.pool, 5, 55);
    assert_false(buffer_view_valid(world.pool, &view));
    buffer_view_close(world.pool, &view);
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    view = view_of(5);
    push_out(5);
    assert_false(buffer_view_valid(world.pool, &view));
    assert_int_equal(pool_word(world.pool, 5), 55);
    assert_false(buffer_view_valid(world.pool, &view));
    buffer_view_close(world.pool, &view);
}

static void a_view_becomes_a_latch_if_nothing_happened(void **state)
{
    (void)state;
    struct buffer_view view = view_of(5);
    assert_true(buffer_view_upgrade(world.pool, &view));
    struct buffer_frame *frame;
    assert_int_equal(
        buffer_try_fix(world.pool, page_id(5), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame),
        FIRN_E_BUSY);
    buffer_unfix(world.pool, view.frame, BUFFER_EXCLUSIVE);

    view = view_of(5);
    ASSERT_OK(buffer_fix(world.pool, page_id(5), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame));
    assert_false(buffer_view_upgrade(world.pool, &view)); /* another reader */
    buffer_unfix(world.pool, frame, BUFFER_SHARED);
    buffer_view_close(world.pool, &view);

    if (BUFFER_VIEWS_LATCH)
        return;
    view = view_of(5);
    pool_write(world.pool, 5, 55);
    assert_false(buffer_view_upgrade(world.pool, &view));
    buffer_view_close(world.pool, &view);
}

/* ---- Against writers and eviction ---- */

static atomic_uint writers_left;
static atomic_uint views_believed;
static atomic_uint views_wrong;
static uint64_t seed;

static void *writer_main(void *argument)
{
    struct rng rng;
    rng_init(&rng, seed + (uintptr_t)argument);
    for (uint64_t i = 0; i < CHANGES; i++)
        pool_write(world.pool, (uint32_t)rng_below(&rng, PAGES), rng_next(&rng));
    writers_left--;
    return NULL;
}

/* Copy first, validate, and only then judge, as users of views do. */
static void look(uint32_t page_no, struct buffer_frame **hint)
{
    struct buffer_view view;
    uint8_t copy[POOL_PAGE_BYTES];
    uint64_t word;
    if (!buffer_view_open(world.pool, page_id(page_no), *hint, &view))
        return;
    *hint = view.frame;
    memcpy(copy, view.page, sizeof(copy));
    bool valid = buffer_view_valid(world.pool, &view);
    buffer_view_close(world.pool, &view);
    if (!valid)
        return;
    views_believed++;
    views_wrong += !page_is_whole(copy, POOL_PAGE_BYTES, page_no, &word);
}

static void *viewer_main(void *argument)
{
    struct rng rng;
    struct buffer_frame *hints[PAGES] = {0};
    rng_init(&rng, seed + 100 + (uintptr_t)argument);
    while (writers_left > 0) {
        uint32_t page_no = (uint32_t)rng_below(&rng, PAGES);
        look(page_no, &hints[page_no]);
    }
    return NULL;
}

static void what_a_valid_view_showed_is_whole(void **state)
{
    (void)state;
    pthread_t threads[WRITERS + VIEWERS];
    seed = test_seed(4711);
    writers_left = WRITERS;
    for (uintptr_t i = 0; i < WRITERS + VIEWERS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < WRITERS ? writer_main : viewer_main, (void *)i),
            0);
    for (unsigned i = 0; i < WRITERS + VIEWERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(views_believed > 0);
    assert_int_equal(views_wrong, 0);
    assert_true(pool_counters(world.pool).pages_evicted > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_view_shows_a_page_that_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hint_is_taken_when_right_and_harmless_when_wrong, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_view_ends_with_a_change_or_the_pages_going, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_view_becomes_a_latch_if_nothing_happened, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_a_valid_view_showed_is_whole, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
