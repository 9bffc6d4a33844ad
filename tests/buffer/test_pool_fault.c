/*
 * What fails is said, loses nothing, and leaves a pool that works: reads, pages, memory, room.
 */
#include "buffer/pool_fixture.h"

#include "base/memory.h"

#include <errno.h>

enum { FRAMES = 24, PAGES = 60 };

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
    memory_fail_after(-1);
    world_close(&world);
    return 0;
}

static firn_rc try_read(uint32_t page_no)
{
    struct buffer_frame *frame;
    firn_rc rc =
        buffer_fix(world.pool, page_id(page_no), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame);
    if (rc == FIRN_OK) {
        page_word(world.pool, frame);
        buffer_unfix(world.pool, frame, BUFFER_SHARED);
    }
    return rc;
}

/* Nothing is pinned or lost: every frame can be had. */
static void assert_all_frames_usable(void)
{
    struct buffer_counters counters = pool_counters(world.pool);
    struct buffer_frame *frames[FRAMES * 2];
    assert_true(counters.pages_total <= ARRAY_COUNT(frames));
    assert_int_equal(counters.pages_data + counters.pages_free, counters.pages_total);
    for (uint32_t i = 0; i < counters.pages_total; i++)
        ASSERT_OK(buffer_fix(world.pool, page_id(i), BUFFER_PIN, BUFFER_HINT_NORMAL, &frames[i]));
    for (uint32_t i = 0; i < counters.pages_total; i++)
        buffer_unfix(world.pool, frames[i], BUFFER_PIN);
}

/* ---- Reads ---- */

static void every_kth_read_may_fail(void **state)
{
    (void)state;
    for (uint64_t k = 1; k <= PAGES; k++) {
        struct fault_plan fault = {.kind = FAULT_ERROR, .targets = FAULT_READS, .first = k};
        buffer_discard(world.pool, POOL_SPACE, 0);
        fault_set_plans(world.faults, &fault, 1);
        for (uint32_t i = 0; i < PAGES; i++) {
            firn_rc rc = try_read(i);
            assert_int_equal(rc, i + 1 == k ? FIRN_E_IO : FIRN_OK);
            if (rc == FIRN_OK)
                continue;
            char name[64];
            snprintf(name, sizeof(name), "page %u of tablespace 3", i);
            ASSERT_TEXT(name);
            ASSERT_TEXT("/t.firn");
            ASSERT_OK(try_read(i));
        }
    }
    assert_all_frames_usable();
}

static void assert_refused(uint32_t page_no, const char *what)
{
    assert_int_equal(try_read(page_no), FIRN_E_CORRUPT);
    ASSERT_TEXT("of tablespace 3");
    ASSERT_TEXT("/t.firn");
    ASSERT_TEXT(what);
}

static void put_page(uint32_t page_no, const uint8_t *page)
{
    ASSERT_OK(
        io_write(world.files.file, page, POOL_PAGE_BYTES, (uint64_t)page_no * POOL_PAGE_BYTES));
}

static void what_is_not_that_page_whole_is_refused_by_name(void **state)
{
    (void)state;
    _Alignas(512) uint8_t page[POOL_PAGE_BYTES];
    ASSERT_OK(sim_disk_rot(world.disk, "/t.firn", 4 * POOL_PAGE_BYTES + 77, 0x10));
    assert_refused(4, "page 4 ");
    assert_refused(4, page_state_text(PAGE_DAMAGED));

    ASSERT_OK(io_read(world.files.file, page, sizeof(page), 5 * POOL_PAGE_BYTES));
    put_page(6, page);
    assert_refused(6, page_state_text(PAGE_MISPLACED));

    page_set_lsn(page, redo_reserved_lsn(&world.redo) + 8);
    page_seal(page, sizeof(page));
    put_page(5, page);
    assert_refused(5, page_state_text(PAGE_FROM_AHEAD));

    memset(page, 0, sizeof(page));
    put_page(7, page);
    assert_refused(7, page_state_text(PAGE_ZERO));

    ASSERT_OK(io_file_set_size(world.files.file, (PAGES - 1) * POOL_PAGE_BYTES));
    assert_refused(PAGES - 1, "cut off");

    assert_int_equal(try_read(PAGES), FIRN_E_NOT_FOUND);
    for (uint32_t i = 0; i < PAGES; i++)
        if ((i < 4 || i > 7) && i < PAGES - 1)
            ASSERT_OK(try_read(i));
}

/* ---- Room ---- */

static void a_pool_of_pinned_pages_is_busy_and_works_again_after(void **state)
{
    (void)state;
    struct buffer_frame *frames[FRAMES * 2];
    uint32_t total = (uint32_t)pool_counters(world.pool).pages_total;
    for (uint32_t i = 0; i < total; i++)
        ASSERT_OK(buffer_fix(world.pool, page_id(i), BUFFER_PIN, BUFFER_HINT_NORMAL, &frames[i]));
    assert_int_equal(try_read(PAGES - 1), FIRN_E_BUSY);
    ASSERT_TEXT("buffer_pool_size");
    struct buffer_frame *frame;
    assert_int_equal(buffer_fix_new(world.pool, page_id(PAGES - 1), &frame), FIRN_E_BUSY);
    uint64_t id = page_id(PAGES - 2);
    assert_int_equal(buffer_prefetch(world.pool, &id, 1), 0);
    ASSERT_OK(try_read(0));
    buffer_unfix(world.pool, frames[3], BUFFER_PIN);
    ASSERT_OK(try_read(PAGES - 1));
    for (uint32_t i = 0; i < total; i++)
        if (i != 3)
            buffer_unfix(world.pool, frames[i], BUFFER_PIN);
    assert_all_frames_usable();
}

static void pages_that_cannot_be_written_stay_and_are_written_later(void **state)
{
    (void)state;
    uint32_t total = (uint32_t)pool_counters(world.pool).pages_total;
    struct fault_plan fault = {
        .kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 1, .every = 1, .error = ENOSPC};
    for (uint32_t i = 0; i < total; i++)
        pool_write(world.pool, i, 1000 + i);
    fault_set_plans(world.faults, &fault, 1);
    assert_int_equal(try_read(PAGES - 1), FIRN_E_NOSPACE);
    fault_set_plans(world.faults, NULL, 0);
    ASSERT_OK(try_read(PAGES - 1));
    for (uint32_t i = 0; i < total; i++)
        assert_int_equal(pool_word(world.pool, i), 1000 + i);
    assert_all_frames_usable();
}

/* ---- New pages ---- */

static void a_new_page_that_was_never_made_is_not_there(void **state)
{
    (void)state;
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix_new(world.pool, page_id(8), &frame));
    assert_int_equal(buffer_page_id(frame), page_id(8));
    buffer_unfix(world.pool, frame, BUFFER_EXCLUSIVE);
    assert_int_equal(pool_counters(world.pool).pages_data, 0);
    assert_int_equal(pool_word(world.pool, 8), 8);             /* what the device has */
    ASSERT_OK(buffer_fix_new(world.pool, page_id(8), &frame)); /* its earlier life */
    assert_int_equal(page_word(world.pool, frame), 8);
    buffer_unfix(world.pool, frame, BUFFER_EXCLUSIVE);
    assert_int_equal(pool_counters(world.pool).pages_read, 1);
    assert_int_equal(pool_word(world.pool, 8), 8);
    assert_all_frames_usable();
}

/* ---- Memory ---- */

static void every_kth_allocation_may_fail_at_opening(void **state)
{
    (void)state;
    struct buffer_options options = pool_options(&world.files, FRAMES);
    struct buffer_pool *pool = NULL;
    options.redo = &world.redo;
    long k = 0;
    for (firn_rc rc = FIRN_E_NOMEM; rc != FIRN_OK; k++) {
        assert_true(k < 100);
        memory_fail_after(k);
        rc = buffer_open(&options, &pool);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
    }
    assert_true(k > 5);
    assert_int_equal(pool_word(pool, 1), 1);
    buffer_close(pool);
}

/* Read-ahead without memory reads nothing, or more slowly; resizing refuses. */
static void every_kth_allocation_may_fail_in_use(void **state)
{
    (void)state;
    uint64_t ids[8];
    uint64_t size_bytes = pool_counters(world.pool).size_bytes;
    for (uint32_t i = 0; i < 8; i++)
        ids[i] = page_id(20 + i);
    for (long k = 0; k < 20; k++) {
        buffer_discard(world.pool, POOL_SPACE, 0);
        memory_fail_after(k);
        buffer_prefetch(world.pool, ids, 8);
        memory_fail_after(k);
        firn_rc rc = buffer_resize(world.pool, size_bytes - 2 * POOL_PAGE_BYTES);
        memory_fail_after(k);
        firn_rc rc_back = buffer_resize(world.pool, size_bytes);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        assert_true(rc_back == FIRN_OK || rc_back == FIRN_E_NOMEM);
        ASSERT_OK(buffer_resize(world.pool, size_bytes));
        assert_all_frames_usable();
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(pool_word(world.pool, 20 + i), 20 + i);
    }
}

static void options_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    struct buffer_pool *pool = NULL;
    struct buffer_options options = pool_options(&world.files, FRAMES);
    options.page_size_bytes = 5000;
    assert_int_equal(buffer_open(&options, &pool), FIRN_E_INVALID);
    ASSERT_TEXT("5000");
    options = pool_options(&world.files, FRAMES);
    options.size_bytes = 4 * POOL_PAGE_BYTES;
    assert_int_equal(buffer_open(&options, &pool), FIRN_E_INVALID);
    ASSERT_TEXT("buffer_pool_size");
    options = pool_options(&world.files, FRAMES);
    options.old_percent = 99;
    assert_int_equal(buffer_open(&options, &pool), FIRN_E_INVALID);
    ASSERT_TEXT("old_blocks_pct");
    options = pool_options(&world.files, FRAMES);
    options.queue_depth = 5000;
    assert_int_equal(buffer_open(&options, &pool), FIRN_E_INVALID);
    ASSERT_TEXT("5000");
    assert_null(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kth_read_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_that_page_whole_is_refused_by_name, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_pool_of_pinned_pages_is_busy_and_works_again_after, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(pages_that_cannot_be_written_stay_and_are_written_later,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_page_that_was_never_made_is_not_there, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(every_kth_allocation_may_fail_at_opening, setup, teardown),
        cmocka_unit_test_setup_teardown(every_kth_allocation_may_fail_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(options_out_of_range_are_refused_by_name, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
