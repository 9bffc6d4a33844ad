/*
 * Files of several map pages: room is found again wherever it is, and without looking everywhere.
 */
#include "space/page_model.h"

enum { PAGE = 4096, MAP_PAGES = PAGE / 32 * SPACE_EXTENT_PAGES };

static struct sim_disk *disk;
static struct world world;
static uint32_t table;

static int setup(void **state)
{
    (void)state;
    disk = disk_make();
    world_make(&world, disk, PAGE);
    ASSERT_OK(space_create(world.set, &world.mtr, IO_CLASS_TABLE, "t", &table));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_abandon(&world);
    sim_disk_destroy(disk);
    return 0;
}

/** Take whole extents, whose pages need not say whose they are. @return the first page */
static uint32_t take_extent(uint64_t owner, uint32_t near)
{
    uint32_t first;
    uint32_t got;
    ASSERT_OK(space_prepare(world.set, table, SPACE_EXTENT_PAGES));
    ASSERT_OK(mtr_begin(&world.mtr, 4096));
    ASSERT_OK(space_allocate_run(world.set, &world.mtr, table, owner, near, SPACE_EXTENT_PAGES,
                                 &first, &got));
    assert_int_equal(got, SPACE_EXTENT_PAGES);
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
    return first;
}

static void free_pages(uint64_t owner, uint32_t first, uint32_t count, uint32_t step)
{
    ASSERT_OK(mtr_begin(&world.mtr, (SPACE_LOG_MAX_BYTES + mtr_cost(0)) * count));
    for (uint32_t i = 0; i < count; i++) {
        struct mtr_page *page;
        ASSERT_OK(mtr_fix_new(&world.mtr, page_id_of(table, first + i * step), &page));
        ASSERT_OK(space_free(world.set, &world.mtr, page, owner));
    }
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
}

static void give_extent_back(uint64_t owner, uint32_t first)
{
    free_pages(owner, first, SPACE_EXTENT_PAGES / 2, 1);
    free_pages(owner, first + SPACE_EXTENT_PAGES / 2, SPACE_EXTENT_PAGES / 2, 1);
}

static void check(void)
{
    unsigned problems = 0;
    firn_rc rc = space_check(world.set, table, model_problem, &problems);
    assert_int_equal(problems, 0);
    ASSERT_OK(rc);
}

static void reopen(void)
{
    world_close(&world);
    ASSERT_OK(world_open(&world, disk, PAGE, 2));
}

static uint64_t fixes(void)
{
    struct buffer_counters counters;
    buffer_counters(world.pool, &counters);
    return counters.fixes;
}

static void map_pages_come_as_the_file_grows(void **state)
{
    (void)state;
    uint32_t last = PAGE_NONE;
    for (unsigned i = 0; i < 3 * MAP_PAGES / SPACE_EXTENT_PAGES; i++) {
        uint32_t first = take_extent(1, last);
        /* In file order, but for the extents that begin with a map. */
        if (last != PAGE_NONE)
            assert_true(first == last + 64 ||
                        (first == last + 128 && (last + 64) % MAP_PAGES == 0));
        last = first;
    }
    check();
    assert_true(last > 3 * MAP_PAGES);
    reopen();
    check();
}

static void freed_extents_are_used_again_before_the_file_grows(void **state)
{
    (void)state;
    uint32_t taken[3 * MAP_PAGES / SPACE_EXTENT_PAGES];
    unsigned count = ARRAY_COUNT(taken);
    for (unsigned i = 0; i < count; i++)
        taken[i] = take_extent(1, PAGE_NONE);
    for (unsigned i = 0; i < 5; i++)
        give_extent_back(1, taken[i * count / 5]);
    check();
    reopen(); /* nothing is known of the maps now */
    int64_t size = file_size(world.system, "/t.firn");
    unsigned again = 0;
    /* A map is looked at with each allocation, so that after a few all are known. */
    for (unsigned i = 0; i < 5 + 4; i++) {
        uint32_t first = take_extent(2, PAGE_NONE);
        for (unsigned k = 0; k < 5; k++)
            again += first == taken[k * count / 5];
    }
    assert_int_equal(again, 5);
    assert_true(file_size(world.system, "/t.firn") <= size + (4 + 64) * 64 * PAGE);
    check();
}

static void finding_room_takes_the_same_in_large_files(void **state)
{
    (void)state;
    uint64_t small = fixes();
    for (unsigned i = 0; i < 16; i++)
        take_extent(1, PAGE_NONE);
    small = fixes() - small;
    for (unsigned i = 0; i < 3 * MAP_PAGES / SPACE_EXTENT_PAGES; i++)
        take_extent(1, PAGE_NONE);
    uint64_t large = fixes();
    for (unsigned i = 0; i < 16; i++)
        take_extent(1, PAGE_NONE);
    large = fixes() - large;
    assert_true(large <= small + 16);
}

/* A tree that has pages everywhere uses them again, wherever it is told to look. */
static void half_empty_extents_fill_up_again(void **state)
{
    (void)state;
    uint32_t page_no;
    uint32_t first = take_extent(1, PAGE_NONE);
    for (unsigned i = 0; i < 10; i++)
        take_extent(1, PAGE_NONE);
    free_pages(1, first, 20, 3);
    reopen();
    for (uint32_t i = 0; i < 20; i++) {
        ASSERT_OK(mtr_begin(&world.mtr, 4096));
        ASSERT_OK(space_allocate(world.set, &world.mtr, table, 1, first + 7 * 64, &page_no));
        ASSERT_OK(mtr_commit(&world.mtr, NULL));
        assert_int_equal(page_no / 64, first / 64);
    }
    check();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(map_pages_come_as_the_file_grows),
        TEST(freed_extents_are_used_again_before_the_file_grows),
        TEST(finding_room_takes_the_same_in_large_files),
        TEST(half_empty_extents_fill_up_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
