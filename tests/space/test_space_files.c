/*
 * Tablespaces as files: made, found again, dropped, cut; and files that are not what they should
 * be.
 */
#include "space/layout_internal.h"
#include "space/page_model.h"

enum { PAGE = 4096 };

static struct sim_disk *disk;
static struct world world;

static int setup(void **state)
{
    (void)state;
    disk = disk_make();
    mtr_verify_changes(true);
    world_make(&world, disk, PAGE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_abandon(&world);
    sim_disk_destroy(disk);
    mtr_verify_changes(false);
    return 0;
}

static uint32_t create(enum io_class class, const char *name)
{
    uint32_t id;
    ASSERT_OK(space_create(world.set, &world.mtr, class, name, &id));
    return id;
}

static firn_rc try_create(const char *name)
{
    uint32_t id;
    return space_create(world.set, &world.mtr, IO_CLASS_TABLE, name, &id);
}

static uint32_t allocate(uint32_t space, uint64_t owner)
{
    uint32_t page_no;
    ASSERT_OK(space_prepare(world.set, space, 1));
    ASSERT_OK(mtr_begin(&world.mtr, 4096));
    ASSERT_OK(space_allocate(world.set, &world.mtr, space, owner, PAGE_NONE, &page_no));
    model_init_page(&world, space, page_no, owner);
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
    return page_no;
}

static void give_back(uint32_t space, uint32_t page_no, uint64_t owner)
{
    struct mtr_page *page;
    ASSERT_OK(mtr_begin(&world.mtr, 4096));
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(space, page_no), &page));
    ASSERT_OK(space_free(world.set, &world.mtr, page, owner));
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
}

static void reopen(void)
{
    world_close(&world);
    ASSERT_OK(world_open(&world, disk, PAGE, 2));
}

static void check_space(uint32_t space)
{
    unsigned problems = 0;
    firn_rc rc = space_check(world.set, space, model_problem, &problems);
    assert_int_equal(problems, 0);
    ASSERT_OK(rc);
}

/* ---- Making and finding ---- */

struct listing {
    unsigned count;
    uint32_t ids[8];
    char names[8][SPACE_NAME_MAX + 1];
    uint32_t used[8];
    uint32_t entry[8];
};

static firn_rc note_info(const struct space_info *info, void *context)
{
    struct listing *listing = context;
    listing->ids[listing->count] = info->space;
    listing->used[listing->count] = info->pages_used;
    listing->entry[listing->count] = info->entry_page;
    strcpy(listing->names[listing->count++], info->name);
    return FIRN_OK;
}

static void tablespaces_are_found_again(void **state)
{
    (void)state;
    struct listing listing = {0};
    uint32_t id;
    assert_int_equal(create(IO_CLASS_TABLE, "beta"), 1);
    assert_int_equal(create(IO_CLASS_UNDO, "alpha"), 2);
    assert_int_equal(create(IO_CLASS_TABLE, "z\xc3\xbcrich-1_$.x"), 3);
    uint32_t page_no = allocate(1, 7);
    ASSERT_OK(mtr_begin(&world.mtr, 1024));
    ASSERT_OK(space_set_entry(world.set, &world.mtr, 1, page_no));
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
    reopen();
    ASSERT_OK(space_each(world.set, note_info, &listing));
    assert_int_equal(listing.count, 4);
    assert_string_equal(listing.names[0], "system");
    assert_string_equal(listing.names[1], "beta");
    assert_int_equal(listing.used[1], 3);
    assert_int_equal(listing.entry[1], page_no);
    assert_int_equal(listing.entry[2], PAGE_NONE);
    ASSERT_OK(space_find(world.set, "alpha", &id));
    assert_int_equal(id, 2);
    assert_int_equal(space_find(world.set, "gamma", &id), FIRN_E_NOT_FOUND);
    assert_int_equal(create(IO_CLASS_TABLE, "gamma"), 4);
    ASSERT_OK(space_entry(world.set, 1, &id));
    assert_int_equal(id, page_no);
    ASSERT_OK(space_limbo(world.set, NULL, 1, &id));
    assert_int_equal(id, PAGE_NONE);
}

static void names_that_no_file_should_have_are_refused(void **state)
{
    (void)state;
    char longest[SPACE_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[SPACE_NAME_MAX + 1] = 0;
    static const char *const bad[] = {"",     ".",         ".hidden",      "a/b",
                                      "a b",  "a\nb",      "a*",           "\x80",
                                      "\xc3", "a\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80"};
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(try_create(bad[i]), FIRN_E_INVALID);
        ASSERT_TEXT("cannot name a tablespace");
    }
    assert_int_equal(try_create(longest), FIRN_E_INVALID);
    longest[SPACE_NAME_MAX] = 0;
    ASSERT_OK(try_create(longest));
}

static void a_name_is_taken_once(void **state)
{
    (void)state;
    create(IO_CLASS_TABLE, "t");
    assert_int_equal(try_create("t"), FIRN_E_EXISTS);
    ASSERT_TEXT("already");
    ASSERT_OK(io_file_close(file_create(world.system, "/foreign.firn", 0)));
    assert_int_equal(try_create("foreign"), FIRN_E_EXISTS);
    ASSERT_TEXT("/foreign.firn");
    assert_int_equal(file_size(world.system, "/foreign.firn"), 0);
    assert_int_equal(try_create("u"), FIRN_OK);
}

static void a_small_tablespace_is_a_small_file(void **state)
{
    (void)state;
    uint32_t id = create(IO_CLASS_TABLE, "t");
    assert_int_equal(file_size(world.system, "/t.firn"), 8 * PAGE);
    for (unsigned i = 0; i < 3; i++)
        allocate(id, 7);
    assert_int_equal(file_size(world.system, "/t.firn"), 8 * PAGE);
    for (unsigned i = 0; i < 8; i++)
        allocate(id, 7);
    assert_int_equal(file_size(world.system, "/t.firn"), 16 * PAGE);
    for (unsigned i = 0; i < 302; i++)
        allocate(id, 7);
    assert_int_equal(file_size(world.system, "/t.firn"), 512 * PAGE);
    check_space(id);
}

static void indexes_share_extents_until_they_are_large(void **state)
{
    (void)state;
    uint32_t id = create(IO_CLASS_TABLE, "t");
    for (unsigned i = 0; i < SPACE_SINGLE_PAGES; i++) {
        uint32_t one = allocate(id, 1);
        uint32_t two = allocate(id, 2);
        assert_true(one / 64 == two / 64 || (i > 0 && one / 64 + 1 >= two / 64));
    }
    uint32_t first_whole = allocate(id, 1);
    uint32_t other_whole = allocate(id, 2);
    assert_int_not_equal(first_whole / 64, other_whole / 64);
    /* Behind each other. */
    for (unsigned i = 1; i < 64; i++)
        assert_int_equal(allocate(id, 1), first_whole + i);
    check_space(id);
}

static void a_run_is_taken_where_it_fits(void **state)
{
    (void)state;
    uint32_t pages[20];
    uint32_t first;
    uint32_t got;
    uint32_t id = create(IO_CLASS_TABLE, "t");
    for (unsigned i = 0; i < ARRAY_COUNT(pages); i++)
        pages[i] = allocate(id, 7);
    /* Holes of 2 and 5 pages, and the end of the file. */
    static const unsigned freed[] = {1, 2, 6, 7, 8, 9, 10};
    for (unsigned i = 0; i < ARRAY_COUNT(freed); i++)
        give_back(id, pages[freed[i]], 7);
    ASSERT_OK(mtr_begin(&world.mtr, 64 * 1024));
    ASSERT_OK(space_allocate_run(world.set, &world.mtr, id, 7, PAGE_NONE, 4, &first, &got));
    assert_int_equal(first, pages[6]);
    assert_int_equal(got, 4);
    space_unallocate(world.set, &world.mtr, id, 7, first, got);
    /* Behind a page, if it fits there. */
    ASSERT_OK(space_allocate_run(world.set, &world.mtr, id, 7, pages[12], 2, &first, &got));
    assert_int_equal(first, pages[19] + 1);
    assert_int_equal(got, 2);
    space_unallocate(world.set, &world.mtr, id, 7, first, got);
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
    check_space(id);
}

/* ---- Dropping ---- */

static void a_dropped_tablespace_is_gone(void **state)
{
    (void)state;
    uint32_t found;
    uint32_t id = create(IO_CLASS_TABLE, "t");
    allocate(id, 7);
    ASSERT_OK(space_drop(world.set, &world.mtr, id));
    assert_int_equal(file_size(world.system, "/t.firn"), -1);
    assert_int_equal(space_find(world.set, "t", &found), FIRN_E_NOT_FOUND);
    struct buffer_frame *frame;
    assert_int_equal(
        buffer_fix(world.pool, page_id_of(id, 0), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame),
        FIRN_E_NOT_FOUND);
    assert_int_equal(space_drop(world.set, &world.mtr, id), FIRN_E_NOT_FOUND);
    assert_int_equal(space_drop(world.set, &world.mtr, SPACE_SYSTEM), FIRN_E_MISUSE);
    /* The name is free again, the number is not. */
    assert_int_equal(create(IO_CLASS_TABLE, "t"), id + 1);
    reopen();
    ASSERT_OK(space_find(world.set, "t", &found));
    assert_int_equal(found, id + 1);
}

static void many_tablespaces_come_and_go(void **state)
{
    (void)state;
    char name[32];
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "t%u", i);
        assert_int_equal(create(IO_CLASS_TABLE, name), i + 1);
        if (i >= 100)
            ASSERT_OK(space_drop(world.set, &world.mtr, i + 1 - 100));
    }
    for (uint32_t id = 1; id <= 300; id++)
        assert_int_equal(space_has(world.set, page_id_of(id, 0)),
                         id > 200 ? FIRN_OK : FIRN_E_NOT_FOUND);
    reopen();
    for (uint32_t id = 201; id <= 300; id++)
        check_space(id);
}

/* ---- Growing and shrinking ---- */

static void the_free_end_of_a_file_goes_back(void **state)
{
    (void)state;
    uint64_t pages;
    uint32_t id = create(IO_CLASS_TABLE, "t");
    uint32_t taken[400];
    for (unsigned i = 0; i < 400; i++)
        taken[i] = allocate(id, 7);
    for (unsigned i = 399; i > 100; i--)
        give_back(id, taken[i], 7);
    ASSERT_OK(space_shrink(world.set, &world.mtr, id, &pages));
    assert_true(pages >= 300);
    assert_int_equal(file_size(world.system, "/t.firn") / PAGE, (taken[100] / 64 + 1) * 64);
    check_space(id);
    for (unsigned i = 0; i <= 100; i++)
        give_back(id, taken[i], 7);
    ASSERT_OK(space_shrink(world.set, &world.mtr, id, &pages));
    assert_int_equal(file_size(world.system, "/t.firn"), 8 * PAGE);
    ASSERT_OK(space_shrink(world.set, &world.mtr, id, &pages));
    assert_int_equal(pages, 0);
    check_space(id);
    for (unsigned i = 0; i < 400; i++)
        allocate(id, 8);
    check_space(id);
    reopen();
    check_space(id);
}

static void pages_behind_the_end_are_not_there(void **state)
{
    (void)state;
    struct buffer_frame *frame;
    uint32_t id = create(IO_CLASS_TABLE, "t");
    assert_int_equal(
        buffer_fix(world.pool, page_id_of(id, 8), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame),
        FIRN_E_NOT_FOUND);
    ASSERT_TEXT("/t.firn ends before page 8");
    assert_int_equal(
        buffer_fix(world.pool, page_id_of(99, 0), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame),
        FIRN_E_NOT_FOUND);
    ASSERT_TEXT("no tablespace 99");
}

static void a_full_disk_is_said_before_anything_changes(void **state)
{
    (void)state;
    uint32_t id = create(IO_CLASS_TABLE, "t");
    for (unsigned i = 0; i < 100; i++)
        allocate(id, 7);
    sim_disk_set_capacity(disk, 1);
    unsigned got = 0;
    firn_rc rc;
    uint32_t page_no;
    while ((rc = space_prepare(world.set, id, 1)) == FIRN_OK) {
        ASSERT_OK(mtr_begin(&world.mtr, 4096));
        ASSERT_OK(space_allocate(world.set, &world.mtr, id, 7, PAGE_NONE, &page_no));
        model_init_page(&world, id, page_no, 7);
        ASSERT_OK(mtr_commit(&world.mtr, NULL));
        got++;
    }
    assert_int_equal(rc, FIRN_E_NOSPACE);
    /* All that any index can have was given out: the shared extent's pages at last. */
    assert_int_equal(file_size(world.system, "/t.firn") / PAGE, 102 + got);
    uint64_t reserved = redo_reserved_lsn(world.redo);
    ASSERT_OK(mtr_begin(&world.mtr, 4096));
    assert_int_equal(space_allocate(world.set, &world.mtr, id, 7, PAGE_NONE, &page_no),
                     FIRN_E_NOSPACE);
    ASSERT_TEXT("/t.firn");
    mtr_abandon(&world.mtr);
    assert_int_equal(redo_reserved_lsn(world.redo), reserved);
    check_space(id);
    sim_disk_set_capacity(disk, 0);
    allocate(id, 7);
    check_space(id);
}

static void a_full_disk_refuses_a_new_tablespace_and_that_is_all(void **state)
{
    (void)state;
    uint32_t found;
    create(IO_CLASS_TABLE, "t");
    sim_disk_set_capacity(disk, 1);
    assert_int_equal(try_create("u"), FIRN_E_NOSPACE);
    ASSERT_TEXT("/u.firn");
    assert_int_equal(file_size(world.system, "/u.firn"), -1);
    assert_int_equal(space_find(world.set, "u", &found), FIRN_E_NOT_FOUND);
    sim_disk_set_capacity(disk, 0);
    uint32_t id = create(IO_CLASS_TABLE, "u");
    allocate(id, 7);
    reopen();
    check_space(id);
}

static void what_is_not_an_indexs_page_is_not_freed(void **state)
{
    (void)state;
    struct mtr_page *page;
    uint32_t id = create(IO_CLASS_TABLE, "t");
    uint32_t free_page = allocate(id, 7);
    give_back(id, free_page, 7);
    const uint32_t wrong[] = {free_page, 0, 1};
    for (unsigned i = 0; i < ARRAY_COUNT(wrong); i++) {
        ASSERT_OK(mtr_begin(&world.mtr, 4096));
        ASSERT_OK(mtr_fix(&world.mtr, page_id_of(id, wrong[i]), &page));
        assert_int_equal(space_free(world.set, &world.mtr, page, 7), FIRN_E_CORRUPT);
        ASSERT_TEXT("/t.firn");
        mtr_abandon(&world.mtr);
    }
    check_space(id);
}

/* ---- Files that are not what they should be ---- */

/** Copy a file's bytes over another's, or into a new file. */
static void copy_file(const char *from, const char *to, uint64_t limit)
{
    size_t size;
    struct io_system *system = disk_open(disk, 3);
    uint8_t *bytes = file_load(system, from, &size);
    struct io_file *file = file_open(system, to, IO_OPEN_CREATE | IO_OPEN_TRUNCATE);
    if (limit < size)
        size = limit;
    if (size > 0)
        ASSERT_OK(io_write(file, bytes, size, 0));
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(io_file_close(file));
    ASSERT_OK(io_sync_directory(system, "/"));
    free(bytes);
    io_system_close(system);
}

static void remove_file(const char *path)
{
    struct io_system *system = disk_open(disk, 3);
    ASSERT_OK(io_remove(system, path));
    ASSERT_OK(io_sync_directory(system, "/"));
    io_system_close(system);
}

static void poke(const char *path, uint64_t offset, const void *bytes, size_t size)
{
    struct io_system *system = disk_open(disk, 3);
    struct io_file *file = file_open(system, path, 0);
    ASSERT_OK(io_write(file, bytes, size, offset));
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
}

/** Make three tables and close cleanly. */
static void make_three(void)
{
    static const char *const names[] = {"a", "b", "c"};
    for (unsigned i = 0; i < 3; i++) {
        uint32_t id = create(IO_CLASS_TABLE, names[i]);
        for (unsigned k = 0; k < 20; k++)
            allocate(id, 7);
    }
    world_close(&world);
}

static void expect_refusal(firn_rc expected, const char *text)
{
    firn_rc rc = world_open(&world, disk, PAGE, 4);
    assert_int_equal(rc, expected);
    ASSERT_TEXT(text);
}

static void swapped_files_are_told(void **state)
{
    (void)state;
    make_three();
    copy_file("/a.firn", "/x", UINT64_MAX);
    copy_file("/b.firn", "/a.firn", UINT64_MAX);
    copy_file("/x", "/b.firn", UINT64_MAX);
    expect_refusal(FIRN_E_CORRUPT, ".firn was made as ");
}

static void a_renamed_file_is_told(void **state)
{
    (void)state;
    make_three();
    copy_file("/a.firn", "/d.firn", UINT64_MAX);
    remove_file("/a.firn");
    expect_refusal(FIRN_E_CORRUPT, "/d.firn was made as a.firn");
}

static void wrong_magic_is_told(void **state)
{
    (void)state;
    make_three();
    poke("/a.firn", 24, "BOGUSPAC", 8);
    expect_refusal(FIRN_E_CORRUPT, "/a.firn is no tablespace");
}

static void a_newer_format_is_told_with_both_versions(void **state)
{
    (void)state;
    uint8_t version[4];
    make_three();
    put_u32(version, 2);
    poke("/a.firn", 32, version, 4);
    expect_refusal(FIRN_E_UNSUPPORTED,
                   "/a.firn has format 2, but this program knows formats up to 1");
}

static void a_damaged_identity_is_told(void **state)
{
    (void)state;
    make_three();
    poke("/a.firn", 70, "x", 1);
    expect_refusal(FIRN_E_CORRUPT, "/a.firn is damaged");
}

static void a_damaged_first_page_is_told(void **state)
{
    (void)state;
    make_three();
    poke("/b.firn", 600, "x", 1);
    expect_refusal(FIRN_E_CORRUPT, "/b.firn");
}

/** Scan what is on the disk. */
static firn_rc scan(struct space_options options, bool lenient)
{
    struct space_set *set;
    struct io_system *system = disk_open(disk, 5);
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        options.places[class].system = system;
    ASSERT_OK(space_set_open(&options, &set));
    firn_rc rc = space_scan(set, lenient);
    ASSERT_OK(space_set_close(set));
    io_system_close(system);
    return rc;
}

static void a_damaged_first_page_is_told_before_recovery_too(void **state)
{
    (void)state;
    struct space_options options = world_space_options(&world);
    make_three();
    assert_int_equal(scan(options, false), FIRN_OK);
    poke("/b.firn", 600, "x", 1);
    assert_int_equal(scan(options, true), FIRN_OK);
    assert_int_equal(scan(options, false), FIRN_E_CORRUPT);
    ASSERT_TEXT("page 0 of /b.firn is torn or damaged");
}

static void a_file_of_another_environment_is_told(void **state)
{
    (void)state;
    struct space_options options = world_space_options(&world);
    make_three();
    memcpy(options.environment, "environment two", 16);
    assert_int_equal(scan(options, true), FIRN_E_CORRUPT);
    ASSERT_TEXT("of another environment");
}

static void a_file_of_other_pages_is_told(void **state)
{
    (void)state;
    struct space_options options = world_space_options(&world);
    make_three();
    options.page_size_bytes = 16384;
    assert_int_equal(scan(options, true), FIRN_E_CORRUPT);
    ASSERT_TEXT("has pages of 4096 bytes, but this environment has pages of 16384");
}

static void a_file_that_was_cut_off_is_told(void **state)
{
    (void)state;
    make_three();
    copy_file("/c.firn", "/x", UINT64_MAX);
    static const uint64_t sizes[] = {0, 100, 4096, 5000, 8 * PAGE};
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
        copy_file("/x", "/c.firn", sizes[i]);
        expect_refusal(FIRN_E_CORRUPT, "/c.firn");
        ASSERT_TEXT("cut off");
        world_abandon(&world);
    }
    copy_file("/x", "/c.firn", UINT64_MAX);
    ASSERT_OK(world_open(&world, disk, PAGE, 4));
}

static void a_file_in_another_classs_directory_is_told(void **state)
{
    (void)state;
    struct space_options options = world_space_options(&world);
    make_three();
    struct io_system *system = disk_open(disk, 5);
    ASSERT_OK(io_make_directory(system, "/undo"));
    io_system_close(system);
    options.places[IO_CLASS_UNDO].directory = "/undo";
    assert_int_equal(scan(options, true), FIRN_OK);
    copy_file("/a.firn", "/undo/a.firn", UINT64_MAX);
    assert_int_equal(scan(options, true), FIRN_E_CORRUPT);
    ASSERT_TEXT("/undo/a.firn is a tablespace of class table, whose files lie elsewhere");
}

static void two_files_with_one_number_are_told(void **state)
{
    (void)state;
    struct space_options options = world_space_options(&world);
    struct space_identity identity = {.page_size_bytes = PAGE,
                                      .environment = WORLD_ENVIRONMENT,
                                      .space = 2,
                                      .class = IO_CLASS_TABLE,
                                      .name = "d"};
    uint8_t pages[2 * PAGE];
    make_three();
    copy_file("/b.firn", "/d.firn", UINT64_MAX);
    layout_make(pages, &identity, 1);
    poke("/d.firn", 0, pages, sizeof pages);
    assert_int_equal(scan(options, true), FIRN_E_CORRUPT);
    ASSERT_TEXT("are both tablespace 2");
}

static void other_files_are_left_alone(void **state)
{
    (void)state;
    make_three();
    copy_file("/a.firn", "/a.firn.bak", UINT64_MAX);
    copy_file("/a.firn", "/.firn", UINT64_MAX);
    copy_file("/a.firn", "/.a.firn", UINT64_MAX);
    ASSERT_OK(world_open(&world, disk, PAGE, 4));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(tablespaces_are_found_again),
        TEST(names_that_no_file_should_have_are_refused),
        TEST(a_name_is_taken_once),
        TEST(a_small_tablespace_is_a_small_file),
        TEST(indexes_share_extents_until_they_are_large),
        TEST(a_run_is_taken_where_it_fits),
        TEST(a_dropped_tablespace_is_gone),
        TEST(many_tablespaces_come_and_go),
        TEST(the_free_end_of_a_file_goes_back),
        TEST(pages_behind_the_end_are_not_there),
        TEST(a_full_disk_is_said_before_anything_changes),
        TEST(a_full_disk_refuses_a_new_tablespace_and_that_is_all),
        TEST(what_is_not_an_indexs_page_is_not_freed),
        TEST(swapped_files_are_told),
        TEST(a_renamed_file_is_told),
        TEST(wrong_magic_is_told),
        TEST(a_newer_format_is_told_with_both_versions),
        TEST(a_damaged_identity_is_told),
        TEST(a_damaged_first_page_is_told),
        TEST(a_damaged_first_page_is_told_before_recovery_too),
        TEST(a_file_of_another_environment_is_told),
        TEST(a_file_of_other_pages_is_told),
        TEST(a_file_that_was_cut_off_is_told),
        TEST(a_file_in_another_classs_directory_is_told),
        TEST(two_files_with_one_number_are_told),
        TEST(other_files_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
