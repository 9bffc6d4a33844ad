/* Recovery as its callers see it: by one thread or several, in little memory, what it tells. */
#include "recovery/recovery_world.h"

/* Work long enough that the log does not fit into recovery's memory, and die. */
static struct world *make_crashed(uint64_t seed)
{
    struct world *world = world_make(seed);
    world->pool_bytes = 1 << 20;
    ASSERT_OK(world_work(world, 100));
    ASSERT_OK(world_checkpoint(world));
    for (int i = 0; i < 4000; i++)
        ASSERT_OK(i % 4 == 0 ? world_add_page(world) : world_change_pages(world));
    ASSERT_OK(world_flush(world));
    world_die(world, seed);
    return world;
}

static void recover_with(const struct world *start, unsigned threads, uint64_t memory_bytes,
                         uint64_t pool_bytes)
{
    struct world *world = world_clone(start, 1);
    world->threads = threads;
    world->memory_bytes = memory_bytes;
    world->pool_bytes = pool_bytes;
    ASSERT_OK(world_open(world));
    if (!world_judge(world))
        fail_msg("%u threads: %s", threads, world->problem);
    assert_int_equal(world->result.end_lsn, start->end_lsn);
    assert_false(world->result.was_clean);
    assert_true(world->result.frames >= 4000);
    assert_true(world->result.records_applied <= world->result.records);
    ASSERT_OK(world_work(world, 50));
    world_destroy(world);
}

static void test_the_same_by_any_number_of_threads_in_any_memory(void **state)
{
    (void)state;
    struct world *start = make_crashed(test_seed(41));
    recover_with(start, 1, 64 << 20, 16 << 20);
    recover_with(start, 1, 0, 1 << 20);
    recover_with(start, 2, 1 << 20, 2 << 20);
    recover_with(start, 4, 0, 2 << 20);
    recover_with(start, 100, 8 << 20, 16 << 20);
    world_destroy(start);
}

static void test_a_clean_log_needs_nothing(void **state)
{
    (void)state;
    struct world *world = world_make(test_seed(42));
    ASSERT_OK(world_work(world, 50));
    ASSERT_OK(world_checkpoint(world));
    ASSERT_OK(redo_checkpoint(world->redo, redo_reserved_lsn(world->redo)));
    world_die(world, 1);
    ASSERT_OK(world_open(world));
    assert_true(world->result.was_clean);
    assert_int_equal(world->result.log_bytes, 0);
    world_destroy(world);
}

/* ---- Progress ---- */

struct told {
    unsigned calls;
    uint64_t done_bytes;
    bool went_back;
    bool was_applying;
};

static void hear(const struct recovery_progress *progress, void *context)
{
    struct told *told = context;
    told->calls++;
    told->went_back = told->went_back || progress->done_bytes < told->done_bytes ||
                      progress->done_bytes > progress->total_bytes;
    told->done_bytes = progress->done_bytes;
    told->was_applying = told->was_applying || strcmp(progress->phase, "applying") == 0;
}

static void test_progress_goes_forward_to_the_end(void **state)
{
    (void)state;
    struct world *start = make_crashed(test_seed(43));
    struct world *world = world_clone(start, 1);
    struct told told = {0};
    ASSERT_OK(world_open_base(world));
    ASSERT_OK(space_scan(world->set, true));
    struct recovery_options options = {.redo = world->redo,
                                       .pool = world->pool,
                                       .spaces = world->set,
                                       .threads = 2,
                                       .memory_bytes = 1 << 20,
                                       .progress = hear,
                                       .progress_context = &told};
    ASSERT_OK(recovery_run(&options, &world->result));
    assert_true(told.calls >= 4 && told.was_applying && !told.went_back);
    assert_int_equal(told.done_bytes, world->result.log_bytes);
    world_destroy(world);
    world_destroy(start);
}

/* ---- Pages that cannot be read ---- */

static void change_one(struct world *world, uint64_t page_id)
{
    struct mtr_page *page;
    ASSERT_OK(mtr_begin(&world->mtr, 2 * mtr_cost(600)));
    ASSERT_OK(mtr_fix(&world->mtr, page_id, &page));
    world_write(world, page);
    ASSERT_OK(world_commit(world));
}

/* A page is changed, then so much else that recovery needs several batches, then the page is freed,
   if it is to be; it is torn in its place, and in no doublewrite file. */
static void make_torn(struct world *world, bool is_begun_anew)
{
    struct io_file *file;
    uint64_t offset;
    char path[64];
    for (unsigned i = 0; i < 20; i++)
        ASSERT_OK(world_add_page(world));
    uint64_t page_id = world->live[0];
    ASSERT_OK(world_checkpoint(world));
    change_one(world, page_id);
    for (unsigned i = 0; i < 3000; i++)
        change_one(world, world->live[1 + rng_below(&world->rng, world->live_count - 1)]);
    if (is_begun_anew) {
        struct mtr_page *page;
        ASSERT_OK(mtr_begin(&world->mtr, SPACE_LOG_MAX_BYTES + 64));
        ASSERT_OK(mtr_fix(&world->mtr, page_id, &page));
        ASSERT_OK(space_free(world->set, &world->mtr, page, WORLD_OWNER));
        ASSERT_OK(world_commit(world));
    }
    ASSERT_OK(world_flush(world));
    struct buffer_files files = space_files(world->set);
    ASSERT_OK(files.locate(files.context, page_id, &file, &offset));
    snprintf(path, sizeof(path), "%s", io_file_path(file));
    world_die(world, 1);
    file = file_open(world->system, path, 0);
    file_fill(file, offset + 1024, 512, 0xee);
    ASSERT_OK(io_sync(file, IO_SYNC_DATA));
    ASSERT_OK(io_file_close(file));
}

static void test_a_page_torn_until_the_log_begins_it_anew_is_no_damage(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        struct world *world = world_make(test_seed(46));
        world->memory_bytes = 0;
        world->threads = threads;
        make_torn(world, true);
        ASSERT_OK(world_open(world));
        if (!world_judge(world))
            fail_msg("%s", world->problem);
        world_destroy(world);
    }
}

static void test_a_page_torn_for_good_is_told(void **state)
{
    (void)state;
    struct world *world = world_make(test_seed(47));
    world->memory_bytes = 0;
    make_torn(world, false);
    for (int opened = 0; opened < 2; opened++) {
        assert_int_equal(world_open(world), FIRN_E_CORRUPT);
        ASSERT_TEXT("is torn or damaged");
        world_die(world, 1);
    }
    world_destroy(world);
}

/* ---- What does not belong together ---- */

static void copy_file(struct io_system *from, struct io_system *to, const char *path)
{
    struct io_file *source, *target;
    uint64_t size_bytes;
    ASSERT_OK(io_file_open(from, IO_CLASS_REDO, path, IO_OPEN_READ_ONLY, &source));
    ASSERT_OK(io_file_open(to, IO_CLASS_REDO, path, 0, &target));
    ASSERT_OK(io_file_size(source, &size_bytes));
    uint8_t *bytes = malloc(size_bytes);
    ASSERT_OK(io_read(source, bytes, size_bytes, 0));
    ASSERT_OK(io_write(target, bytes, size_bytes, 0));
    free(bytes);
    ASSERT_OK(io_file_close(source));
    ASSERT_OK(io_file_close(target));
}

static void test_a_log_older_than_the_tables_is_told(void **state)
{
    (void)state;
    struct world *world = world_make(test_seed(44));
    ASSERT_OK(world_work(world, 50));
    ASSERT_OK(world_checkpoint(world));
    ASSERT_OK(world_work(world, 50));
    ASSERT_OK(world_flush(world));
    world_die(world, 1);
    struct world *old = world_clone(world, 1);
    ASSERT_OK(world_open(world));
    for (int i = 0; i < 200; i++)
        ASSERT_OK(world_change_pages(world));
    ASSERT_OK(world_checkpoint(world));
    world_die(world, 1);
    /* The newer tables under the older log. */
    for (unsigned i = 0; i < 2; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/firn_redo.%u", i);
        copy_file(old->system, world->system, path);
    }
    assert_int_equal(world_open(world), FIRN_E_CORRUPT);
    ASSERT_TEXT("older than the tables");
    world_destroy(old);
    world_destroy(world);
}

static void test_a_log_of_nonsense_is_told_and_changes_nothing(void **state)
{
    (void)state;
    struct world *world = world_make(test_seed(45));
    ASSERT_OK(world_work(world, 50));
    ASSERT_OK(world_checkpoint(world));
    uint8_t body[64];
    uint64_t end_lsn;
    /* Deletes a slot that page 0, which is no node, does not have. */
    size_t size = change_put_header(body, CHANGE_DELETE, page_id_of(SPACE_SYSTEM, 0), 2);
    put_u16(body + size, 5);
    ASSERT_OK(redo_append(world->redo, span_of(body, size + 2), &end_lsn));
    ASSERT_OK(redo_flush(world->redo, end_lsn, REDO_FLUSH_SYNC));
    for (int opened = 0; opened < 2; opened++) {
        world_die(world, 1);
        assert_int_equal(world_open(world), FIRN_E_CORRUPT);
        ASSERT_TEXT("the log changes page 0 of tablespace 0 (delete");
    }
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_by_any_number_of_threads_in_any_memory),
        cmocka_unit_test(test_a_clean_log_needs_nothing),
        cmocka_unit_test(test_progress_goes_forward_to_the_end),
        cmocka_unit_test(test_a_page_torn_until_the_log_begins_it_anew_is_no_damage),
        cmocka_unit_test(test_a_page_torn_for_good_is_told),
        cmocka_unit_test(test_a_log_older_than_the_tables_is_told),
        cmocka_unit_test(test_a_log_of_nonsense_is_told_and_changes_nothing),
    };
    return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}
