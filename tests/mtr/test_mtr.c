/*
 * Mini-transactions: what they leave in pages and log.
 */
#include "space/space_fixture.h"

#include "base/memory.h"

#include <signal.h>
#include <sys/wait.h>

static struct sim_disk *disk;
static struct world world;
static uint32_t table;

static int setup(void **state)
{
    (void)state;
    disk = disk_make();
    mtr_verify_changes(true);
    world_make(&world, disk, 4096);
    ASSERT_OK(space_create(world.set, &world.mtr, IO_CLASS_TABLE, "t", &table));
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

static struct span text(const char *from)
{
    return span_of_text(from);
}

static const struct slotted_bounds whole_range = {
    .index_id = 7, .prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};

static struct mtr_page *make_leaf(uint32_t page_no)
{
    struct mtr_page *page;
    ASSERT_OK(mtr_fix_new(&world.mtr, page_id_of(table, page_no), &page));
    mtr_index_init(&world.mtr, page, &whole_range);
    return page;
}

static uint64_t lsn_of(uint32_t page_no)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(world.pool, page_id_of(table, page_no), BUFFER_SHARED, BUFFER_HINT_NORMAL,
                         &frame));
    uint64_t lsn = page_lsn(buffer_page(world.pool, frame));
    buffer_unfix(world.pool, frame, BUFFER_SHARED);
    return lsn;
}

static uint64_t dirty_pages(void)
{
    struct buffer_counters counters;
    buffer_counters(world.pool, &counters);
    return counters.pages_dirty;
}

static void all_changes_go_through_the_log_as_they_go_through_the_page(void **state)
{
    (void)state;
    struct mtr *mtr = &world.mtr;
    uint8_t packed[128];
    ASSERT_OK(mtr_begin(mtr, 16 * 1024));
    struct mtr_page *left = make_leaf(2);
    mtr_insert(mtr, left, 0, text("b"), text("second"), 0);
    mtr_insert(mtr, left, 0, text("a"), text("first"), 0);
    mtr_insert(mtr, left, 2, text("c"), text("third"), SLOTTED_EXTERNAL);
    mtr_update(mtr, left, 1, text("another"), 0);
    mtr_patch(mtr, left, 1, 2, text("OTHER"));
    mtr_delete(mtr, left, 0);
    mtr_set_siblings(mtr, left, PAGE_NONE, 3);
    struct mtr_page *right = make_leaf(3);
    size_t size = slotted_pack(left->bytes, world.page_size, 1, 2, packed);
    mtr_append_packed(mtr, right, span_of(packed, size));
    struct slotted_bounds narrow = whole_range;
    narrow.upper = text("c");
    narrow.upper_is_open = false;
    narrow.next = 3;
    mtr_rebuild(mtr, left, 0, 1, &narrow);
    struct mtr_page *blob;
    ASSERT_OK(mtr_fix_new(mtr, page_id_of(table, 4), &blob));
    mtr_page_init(mtr, blob, PAGE_TYPE_BLOB);
    mtr_write(mtr, blob, 100, text("large"));
    mtr_page_free(mtr, blob);
    assert_int_equal(page_type(blob->bytes), PAGE_TYPE_FREE);
    assert_int_equal(slotted_count(left->bytes), 1);
    assert_int_equal(slotted_count(right->bytes), 1);
    struct slotted_cell cell;
    assert_true(slotted_cell(left->bytes, world.page_size, 0, &cell));
    assert_memory_equal(cell.value.bytes, "anOTHER", 7);
    ASSERT_OK(mtr_commit(mtr, NULL));
}

static void pages_get_the_end_of_the_frame_as_their_lsn(void **state)
{
    (void)state;
    uint64_t end;
    ASSERT_OK(mtr_begin(&world.mtr, 1024));
    struct mtr_page *page = make_leaf(2);
    struct mtr_page *only_looked_at;
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, 1), &only_looked_at));
    uint64_t before = page_lsn(only_looked_at->bytes);
    mtr_insert(&world.mtr, page, 0, text("k"), text("v"), 0);
    ASSERT_OK(mtr_commit(&world.mtr, &end));
    assert_int_equal(end, redo_reserved_lsn(world.redo));
    assert_int_equal(lsn_of(2), end);
    assert_int_equal(lsn_of(1), before);
}

static void nothing_changed_appends_nothing(void **state)
{
    (void)state;
    uint64_t end = 0;
    struct mtr_page *page;
    uint64_t reserved = redo_reserved_lsn(world.redo);
    uint64_t dirty = dirty_pages();
    ASSERT_OK(mtr_begin(&world.mtr, 1024));
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, 0), &page));
    ASSERT_OK(mtr_commit(&world.mtr, &end));
    assert_int_equal(end, reserved);
    ASSERT_OK(mtr_begin(&world.mtr, 1024));
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, 0), &page));
    mtr_abandon(&world.mtr);
    assert_int_equal(redo_reserved_lsn(world.redo), reserved);
    assert_int_equal(dirty_pages(), dirty);
}

static void a_page_is_taken_once_and_can_be_dropped(void **state)
{
    (void)state;
    struct mtr_page *first;
    struct mtr_page *second;
    struct mtr_page *again;
    ASSERT_OK(mtr_begin(&world.mtr, 1024));
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, 0), &first));
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, 1), &second));
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, 0), &again));
    assert_ptr_equal(first, again);
    mtr_drop(&world.mtr, first);
    /* Nobody has it latched now, so it can be fixed by others. */
    assert_true(lsn_of(0) > 0);
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, 1), &again));
    assert_ptr_equal(second, again);
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, 0), &first));
    ASSERT_OK(mtr_fix_new(&world.mtr, page_id_of(table, 0), &again));
    assert_ptr_equal(first, again);
    mtr_abandon(&world.mtr);
    assert_true(lsn_of(0) > 0 && lsn_of(1) > 0);
}

static void no_more_than_the_largest_frame_can_be_reserved(void **state)
{
    (void)state;
    assert_int_equal(mtr_begin(&world.mtr, REDO_FRAME_BODY_MAX + 1), FIRN_E_INVALID);
    ASSERT_TEXT("largest");
    ASSERT_OK(mtr_begin(&world.mtr, 10));
    assert_int_equal(mtr_reserve(&world.mtr, REDO_FRAME_BODY_MAX + 1), FIRN_E_INVALID);
    ASSERT_OK(mtr_reserve(&world.mtr, 100000));
    mtr_abandon(&world.mtr);
}

static void without_memory_nothing_begins(void **state)
{
    (void)state;
    struct mtr mtr;
    mtr_init(&mtr, world.pool, world.redo);
    mtr_verify_changes(false);
    memory_fail_after(0);
    assert_int_equal(mtr_begin(&mtr, 100), FIRN_E_NOMEM);
    ASSERT_OK(mtr_begin(&mtr, 100));
    memory_fail_after(0);
    assert_int_equal(mtr_reserve(&mtr, 1 << 20), FIRN_E_NOMEM);
    memory_fail_after(-1);
    mtr_abandon(&mtr);
    mtr_free(&mtr);
}

/* The frame has a place in the stream that never becomes durable, so the page is never written. */
static void a_stopped_log_keeps_changed_pages_off_the_disk(void **state)
{
    (void)state;
    ASSERT_OK(mtr_begin(&world.mtr, 1024));
    make_leaf(2);
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    ASSERT_OK(mtr_begin(&world.mtr, 1024));
    make_leaf(3);
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
    ASSERT_OK(mtr_begin(&world.mtr, 1024));
    struct mtr_page *page;
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, 2), &page));
    sim_disk_cut_after(disk, 1, SIM_CUT_DROP, 1);
    assert_int_not_equal(redo_tick(world.redo), FIRN_OK);
    mtr_insert(&world.mtr, page, 0, text("k"), text("v"), 0);
    assert_int_equal(mtr_commit(&world.mtr, NULL), FIRN_E_STOPPED);
    assert_true(lsn_of(2) > redo_durable_lsn(world.redo));
    assert_true(buffer_clean_lsn(world.pool) < lsn_of(2));
    assert_int_equal(mtr_begin(&world.mtr, 1024), FIRN_E_STOPPED);
}

static void break_a_rule(unsigned rule)
{
    struct mtr_page *page;
    assert_non_null(freopen("/dev/null", "w", stderr));
    ASSERT_OK(mtr_begin(&world.mtr, 1024));
    page = make_leaf(2);
    if (rule == 0) /* a change that the log does not know */
        page->bytes[1000]++;
    if (rule == 1) /* more log than was reserved */
        for (unsigned i = 0; i < 100; i++)
            mtr_set_siblings(&world.mtr, page, i, i);
    if (rule == 2) /* back from a change */
        mtr_abandon(&world.mtr);
    if (rule == 3) /* a slot that is not there */
        mtr_delete(&world.mtr, page, 5);
    mtr_commit(&world.mtr, NULL);
}

static void breaking_a_rule_ends_the_process(void **state)
{
    (void)state;
    for (unsigned rule = 0; rule <= 4; rule++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            break_a_rule(rule);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (rule < 4)
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        else /* none is broken */
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_changes_go_through_the_log_as_they_go_through_the_page),
        TEST(pages_get_the_end_of_the_frame_as_their_lsn),
        TEST(nothing_changed_appends_nothing),
        TEST(a_page_is_taken_once_and_can_be_dropped),
        TEST(no_more_than_the_largest_frame_can_be_reserved),
        TEST(without_memory_nothing_begins),
        TEST(a_stopped_log_keeps_changed_pages_off_the_disk),
        TEST(breaking_a_rule_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
