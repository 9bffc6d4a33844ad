/*
 * The pool's size: what it takes, and changing it while it is used.
 */
#include "buffer/pool_fixture.h"

#include "base/inject.h"
#include "base/rng.h"

#include <pthread.h>
#include <sys/mman.h>

enum { PAGES = 600, MIB = 1 << 20, USERS = 3, RESIZES = 25 };

static struct pool_world world;

static void open_with(uint64_t size_bytes, uint64_t size_max_bytes, bool huge_pages)
{
    struct buffer_options options = world_begin(&world, 16, PAGES);
    options.size_bytes = size_bytes;
    options.size_max_bytes = size_max_bytes;
    options.huge_pages = huge_pages;
    ASSERT_OK(buffer_open(&options, &world.pool));
}

static void open_sized(uint64_t size_bytes, uint64_t size_max_bytes)
{
    open_with(size_bytes, size_max_bytes, false);
}

/* ---- What it takes ---- */

/* Bytes of a range that are in memory. */
static uint64_t resident_bytes(const void *memory, size_t size_bytes)
{
    enum { SYSTEM_PAGE = 4096 };
    size_t pages = (size_bytes + SYSTEM_PAGE - 1) / SYSTEM_PAGE;
    unsigned char *present = malloc(pages);
    uint64_t resident = 0;
    assert_int_equal(mincore((void *)(uintptr_t)memory, pages * SYSTEM_PAGE, present), 0);
    for (size_t i = 0; i < pages; i++)
        resident += (present[i] & 1) * SYSTEM_PAGE;
    free(present);
    return resident;
}

/* Frames and descriptors in memory, and what the page map says that it takes. */
static uint64_t pool_resident_bytes(void)
{
    struct buffer_pool *pool = world.pool;
    return resident_bytes(pool->bytes, (size_t)pool->frames_max * POOL_PAGE_BYTES) +
           resident_bytes(pool->frames, (size_t)pool->frames_max * sizeof(pool->frames[0])) +
           map_size_bytes(pool->frame_count) + sizeof(*pool);
}

static void assert_size_kept(uint64_t size_bytes)
{
    struct buffer_counters counters = pool_counters(world.pool);
    uint64_t resident = pool_resident_bytes();
    assert_int_equal(counters.size_bytes, size_bytes);
    assert_true(counters.pages_total * POOL_PAGE_BYTES > size_bytes / 100 * 94);
    assert_true(resident <= size_bytes / 100 * 103);
}

/* Make every frame hold a page, so that all memory that is used shows. */
static void fill(void)
{
    uint64_t total = pool_counters(world.pool).pages_total;
    for (uint32_t i = 0; i < total; i++)
        assert_int_equal(pool_word(world.pool, i), i);
    assert_true(pool_counters(world.pool).pages_data >= total - 1);
}

static void keep_to_the_size(bool huge_pages)
{
    open_with(MIB, 2 * MIB, huge_pages);
    fill();
    assert_size_kept(MIB);
    assert_true(pool_resident_bytes() > MIB / 100 * 97);
    ASSERT_OK(buffer_resize(world.pool, 2 * MIB));
    fill();
    assert_size_kept(2 * MIB);
    assert_true(pool_resident_bytes() > 2 * MIB / 100 * 97);
    ASSERT_OK(buffer_resize(world.pool, MIB / 2));
    assert_size_kept(MIB / 2);
    fill();
    assert_size_kept(MIB / 2);
    world_close(&world);
}

static void memory_keeps_to_the_size_asked_for(void **state)
{
    (void)state;
    keep_to_the_size(false);
    keep_to_the_size(true);
}

static void a_pool_of_any_size_has_room_for_its_own_administration(void **state)
{
    (void)state;
    for (uint32_t page_size = PAGE_SIZE_MIN; page_size <= PAGE_SIZE_MAX; page_size *= 2)
        for (uint64_t size = UINT64_C(8) << 20; size <= UINT64_C(1) << 40;
             size = size * 3 + 12345) {
            uint32_t frames = pool_frames_for(page_size, false, size);
            uint64_t pages_bytes = (uint64_t)frames * page_size;
            uint64_t used = pages_bytes + frames * sizeof(struct buffer_frame) +
                            map_size_bytes(frames) + sizeof(struct buffer_pool);
            assert_true(used <= size);
            assert_true(used > size / 100 * 97);
        }
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    open_sized(MIB, 2 * MIB);
    assert_int_equal(buffer_resize(world.pool, 4096), FIRN_E_INVALID);
    ASSERT_TEXT("buffer_pool_size");
    assert_int_equal(buffer_resize(world.pool, 3 * MIB), FIRN_E_INVALID);
    ASSERT_TEXT("buffer_pool_max");
    ASSERT_OK(buffer_resize(world.pool, MIB));
    assert_size_kept(MIB);
    world_close(&world);
}

/* ---- Pages of a pool that shrinks ---- */

static void shrinking_keeps_changes_and_the_young(void **state)
{
    (void)state;
    open_sized(2 * MIB, 2 * MIB);
    uint32_t total = (uint32_t)pool_counters(world.pool).pages_total;
    for (uint32_t i = 0; i < total; i++)
        pool_write(world.pool, i, 1000 + i);
    /* Some in the frames that will go are touched again and again as others come, and so young. */
    for (uint32_t round = 0; round < 8; round++)
        for (uint32_t i = 0; i < 100; i++) {
            pool_word(world.pool, i % 50);
            pool_word(world.pool, total + (round * 100 + i) % (PAGES - total));
        }
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    uint64_t misses = pool_counters(world.pool).misses;
    ASSERT_OK(buffer_resize(world.pool, MIB));
    struct buffer_counters counters = pool_counters(world.pool);
    assert_int_equal(counters.pages_data + counters.pages_free, counters.pages_total);
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(pool_word(world.pool, i), 1000 + i);
    assert_int_equal(pool_counters(world.pool).misses, misses);
    for (uint32_t i = 50; i < total; i++)
        assert_int_equal(pool_word(world.pool, i), 1000 + i);
    world_close(&world);
}

static void shrinking_writes_what_is_dirty(void **state)
{
    (void)state;
    open_sized(2 * MIB, 2 * MIB);
    uint32_t total = (uint32_t)pool_counters(world.pool).pages_total;
    for (uint32_t i = 0; i < total; i++)
        pool_write(world.pool, i, 1000 + i);
    ASSERT_OK(buffer_resize(world.pool, MIB));
    for (uint32_t i = 0; i < total; i++)
        assert_int_equal(pool_word(world.pool, i), 1000 + i);
    world_close(&world);
}

static struct buffer_frame *pinned[PAGES];
static uint32_t pinned_count;

static void pin_all(void)
{
    pinned_count = (uint32_t)pool_counters(world.pool).pages_total;
    for (uint32_t i = 0; i < pinned_count; i++)
        ASSERT_OK(buffer_fix(world.pool, page_id(i), BUFFER_PIN, BUFFER_HINT_NORMAL, &pinned[i]));
}

static void unpin_all(void)
{
    for (; pinned_count > 0; pinned_count--)
        buffer_unfix(world.pool, pinned[pinned_count - 1], BUFFER_PIN);
}

static void a_shrink_that_pinned_pages_forbid_changes_nothing(void **state)
{
    (void)state;
    open_sized(MIB, MIB);
    pin_all();
    assert_int_equal(buffer_resize(world.pool, MIB / 2), FIRN_E_BUSY);
    ASSERT_TEXT("in use");
    unpin_all();
    assert_size_kept(MIB);
    fill();
    ASSERT_OK(buffer_resize(world.pool, MIB / 2));
    assert_size_kept(MIB / 2);
    world_close(&world);
}

static void unpin_in_the_second_round(const char *point, void *context)
{
    unsigned *rounds = context;
    if (strcmp(point, "buffer-shrink-round") == 0 && ++*rounds == 2)
        unpin_all();
}

static void a_shrink_waits_for_pinned_pages(void **state)
{
    (void)state;
    unsigned rounds = 0;
    if (!test_has_injection())
        skip();
    open_sized(MIB, MIB);
    pin_all();
    inject_set(unpin_in_the_second_round, &rounds);
    ASSERT_OK(buffer_resize(world.pool, MIB / 2));
    inject_set(NULL, NULL);
    assert_true(rounds >= 2);
    assert_size_kept(MIB / 2);
    world_close(&world);
}

/* ---- Under load ---- */

static uint64_t seed;
static atomic_bool stop;
static atomic_uint views_wrong;

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
    views_wrong +=
        valid && (!page_is_whole(copy, POOL_PAGE_BYTES, page_no, &word) || word % PAGES != page_no);
}

static void *user_main(void *argument)
{
    struct rng rng;
    struct buffer_frame *hints[PAGES] = {0};
    rng_init(&rng, seed + (uintptr_t)argument);
    while (!stop) {
        uint32_t page_no = (uint32_t)rng_below(&rng, PAGES);
        uint64_t ids[4] = {page_id(page_no), page_id(page_no + 1), page_id(page_no + 2)};
        look(page_no, &hints[page_no]);
        uint64_t word = pool_word(world.pool, page_no);
        assert_int_equal(word % PAGES, page_no);
        if (rng_below(&rng, 4) == 0)
            pool_write(world.pool, page_no, page_no + PAGES * rng_below(&rng, 1000));
        if (rng_below(&rng, 50) == 0)
            buffer_prefetch(world.pool, ids, 3);
    }
    return NULL;
}

static void a_pool_in_use_changes_its_size(void **state)
{
    (void)state;
    pthread_t threads[USERS];
    struct rng rng;
    seed = test_seed(31);
    rng_init(&rng, seed);
    open_sized(MIB, 2 * MIB);
    stop = false;
    for (uintptr_t i = 0; i < USERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, user_main, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < RESIZES; i++)
        ASSERT_OK(buffer_resize(world.pool, MIB / 4 + rng_below(&rng, 7 * MIB / 4)));
    stop = true;
    for (unsigned i = 0; i < USERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(views_wrong, 0);
    struct buffer_counters counters = pool_counters(world.pool);
    assert_int_equal(counters.pages_data + counters.pages_free, counters.pages_total);
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_keeps_to_the_size_asked_for),
        cmocka_unit_test(a_pool_of_any_size_has_room_for_its_own_administration),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(shrinking_keeps_changes_and_the_young),
        cmocka_unit_test(shrinking_writes_what_is_dirty),
        cmocka_unit_test(a_shrink_that_pinned_pages_forbid_changes_nothing),
        cmocka_unit_test(a_shrink_waits_for_pinned_pages),
        cmocka_unit_test(a_pool_in_use_changes_its_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
