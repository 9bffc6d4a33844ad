/* A store is opened, closed and opened again, in all its shapes. */
#include "engine/store_support.h"

#include "base/check.h"

static struct sim_disk *disk;
static struct io_system *sys;

static int setup(void **state)
{
    (void)state;
    disk = disk_make();
    sys = disk_open(disk, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    io_system_close(sys);
    sim_disk_destroy(disk);
    return 0;
}

static void what_was_put_is_there_after_closing(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    struct recovery_result result;
    struct store *store = store_make(&options);
    put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, 2000);
    ASSERT_OK(store_close(store));
    options.create = false;
    ASSERT_OK(store_open(&options, &store, &result));
    assert_true(result.was_clean);
    check_rows(store, tree_of(store, "a", 0), 2000);
    check_store(store);
    ASSERT_OK(store_close(store));
}

static void what_was_committed_is_there_after_a_crash(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    struct recovery_result result;
    struct store *store = store_make(&options);
    put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, 2000);
    store_abandon(store);
    ASSERT_OK(store_open(&options, &store, &result));
    assert_false(result.was_clean);
    assert_true(result.records_applied > 0);
    check_rows(store, tree_of(store, "a", 0), 2000);
    check_store(store);
    ASSERT_OK(store_close(store));
}

static void every_page_size_works(void **state)
{
    (void)state;
    for (uint32_t size = PAGE_SIZE_MIN; size <= PAGE_SIZE_MAX; size *= 2) {
        struct sim_disk *own = disk_make();
        struct io_system *system = disk_open(own, size);
        struct store_options options = new_options(system);
        struct store_status status;
        options.page_size_bytes = size;
        options.buffer_pool_size_bytes = 16 * MIB;
        struct store *store = store_make(&options);
        put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, 3000);
        ASSERT_OK(store_close(store));
        options.page_size_bytes = 0;
        store = store_make(&options);
        store_status(store, &status);
        assert_int_equal(status.page_size_bytes, size);
        check_rows(store, tree_of(store, "a", 0), 3000);
        check_store(store);
        ASSERT_OK(store_close(store));
        io_system_close(system);
        sim_disk_destroy(own);
    }
}

static void check_log_files(struct store *store, uint64_t size_bytes, uint32_t files)
{
    assert_int_equal(redo_file_size_bytes(store_redo(store)), size_bytes);
    assert_int_equal(redo_file_count(store_redo(store)), files);
}

static void the_log_is_resized_when_asked_for(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    struct store *store = store_make(&options);
    put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, 500);
    check_log_files(store, 4 * MIB, 2);
    ASSERT_OK(store_close(store));

    options.log_file_size_bytes = 6 * MIB;
    options.log_files = 3;
    store = store_make(&options);
    check_log_files(store, 6 * MIB, 3);
    check_rows(store, tree_of(store, "a", 0), 500);
    put_rows(store, tree_of(store, "a", 0), 500, 900);
    store_abandon(store);

    /* Another number alone, and after a crash. */
    options.log_file_size_bytes = 0;
    options.log_files = 2;
    store = store_make(&options);
    check_log_files(store, 6 * MIB, 2);
    check_rows(store, tree_of(store, "a", 0), 900);
    ASSERT_OK(store_close(store));

    /* Not asked for: it stays. */
    options.log_files = 0;
    store = store_make(&options);
    check_log_files(store, 6 * MIB, 2);
    check_rows(store, tree_of(store, "a", 0), 900);
    check_store(store);
    ASSERT_OK(store_close(store));
}

/* ---- Places ---- */

static bool has_file(struct io_system *system, const char *path)
{
    struct io_file *file;
    if (io_file_open(system, IO_CLASS_TABLE, path, IO_OPEN_READ_ONLY, &file) != FIRN_OK)
        return false;
    ASSERT_OK(io_file_close(file));
    return true;
}

static void every_class_may_have_a_device_of_its_own(void **state)
{
    (void)state;
    static const char *const directories[IO_CLASS_COUNT] = {
        "/tables", "/undo", "/system", "/doublewrite", "/redo", "/binlog", "/tmp"};
    struct sim_disk *disks[IO_CLASS_COUNT];
    struct io_system *systems[IO_CLASS_COUNT];
    struct store_options options = new_options(NULL);
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        disks[class] = disk_make();
        systems[class] = disk_open(disks[class], class);
        options.class_systems[class] = systems[class];
        options.class_directories[class] = directories[class];
    }
    struct store *store = store_make(&options);
    put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, 1000);
    put_rows(store, tree_of(store, "b", STORE_TREE_CREATE | STORE_TREE_SHARED), 0, 1000);
    ASSERT_OK(store_close(store));
    assert_true(has_file(systems[IO_CLASS_TABLE], "/tables/a.firn"));
    assert_true(has_file(systems[IO_CLASS_SYSTEM], "/system/system.firn"));
    assert_true(has_file(systems[IO_CLASS_SYSTEM], STORE_DIR "/firn.env"));
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        char path[64];
        snprintf(path, sizeof(path), "%s/firn.place", directories[class]);
        assert_true(has_file(systems[class], path));
    }

    /* Where the classes are need not be said again. */
    memset(options.class_directories, 0, sizeof(options.class_directories));
    store = store_make(&options);
    assert_string_equal(store_class_directory(store, IO_CLASS_REDO), "/redo");
    check_rows(store, tree_of(store, "a", 0), 1000);
    check_rows(store, tree_of(store, "b", 0), 1000);
    check_store(store);
    ASSERT_OK(store_close(store));
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        io_system_close(systems[class]);
        sim_disk_destroy(disks[class]);
    }
}

static void classes_may_share_a_directory_below_the_environment(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    options.class_directories[IO_CLASS_TABLE] = "fast";
    options.class_directories[IO_CLASS_REDO] = "./fast/";
    struct store *store = store_make(&options);
    put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, 10);
    ASSERT_OK(store_close(store));
    assert_true(has_file(sys, STORE_DIR "/fast/a.firn"));
    options.class_directories[IO_CLASS_TABLE] = "/db//fast";
    options.directory = "/db";
    store = store_make(&options);
    check_rows(store, tree_of(store, "a", 0), 10);
    ASSERT_OK(store_close(store));
}

/* ---- Trees ---- */

static firn_rc append_name(const struct store_tree_info *info, struct btree *tree, void *context)
{
    char *names = context;
    assert_non_null(tree);
    snprintf(names + strlen(names), 100 - strlen(names), "%s%s ", info->name,
             info->shared ? "*" : "");
    return FIRN_OK;
}

static void trees_are_listed_by_name(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    struct store *store = store_make(&options);
    char names[100] = "";
    tree_of(store, "pear", STORE_TREE_CREATE);
    struct btree *apple = tree_of(store, "apple", STORE_TREE_CREATE | STORE_TREE_SHARED);
    tree_of(store, "plum", STORE_TREE_CREATE);
    assert_ptr_equal(tree_of(store, "apple", 0), apple);
    ASSERT_OK(store_each_tree(store, append_name, names));
    assert_string_equal(names, "apple* pear plum ");
    ASSERT_OK(store_close(store));
    store = store_make(&options);
    names[0] = '\0';
    ASSERT_OK(store_each_tree(store, append_name, names));
    assert_string_equal(names, "apple* pear plum ");
    ASSERT_OK(store_close(store));
}

static void a_dropped_tree_gives_its_space_back(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    struct store *store = store_make(&options);
    struct btree *tree;
    int64_t size_bytes = 0;
    for (unsigned round = 0; round < 4; round++) {
        put_rows(store, tree_of(store, "own", STORE_TREE_CREATE), 0, 3000);
        put_rows(store, tree_of(store, "shared", STORE_TREE_CREATE | STORE_TREE_SHARED), 0, 3000);
        ASSERT_OK(store_drop_tree(store, "own"));
        ASSERT_OK(store_drop_tree(store, "shared"));
        assert_false(has_file(sys, STORE_DIR "/own.firn"));
        if (round == 0)
            size_bytes = file_size(sys, STORE_DIR "/system.firn");
    }
    assert_int_equal(file_size(sys, STORE_DIR "/system.firn"), size_bytes);
    assert_int_equal(store_tree(store, "own", 0, &tree), FIRN_E_NOT_FOUND);
    assert_int_equal(store_drop_tree(store, "own"), FIRN_E_NOT_FOUND);
    check_store(store);
    ASSERT_OK(store_close(store));
}

/* Those of a class directory of their own, and after whatever end of the run. */
static void temporary_tablespaces_end_with_the_run(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    options.class_directories[IO_CLASS_TEMPORARY] = "tmp";
    struct store *store = store_make(&options);
    put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, 100);
    for (unsigned round = 0; round < 4; round++) {
        make_temporary(store, "sort", 1000);
        check_store(store);
        assert_true(has_file(sys, STORE_DIR "/tmp/sort.firn"));
        bool is_killed = round % 2 != 0;
        if (is_killed)
            store_abandon(store);
        else
            ASSERT_OK(store_close(store));
        if (!is_killed) {
            options.read_only = true;
            store = store_make(&options);
            check_store(store);
            ASSERT_OK(store_close(store));
            assert_true(has_file(sys, STORE_DIR "/tmp/sort.firn"));
            options.read_only = false;
        }
        store = store_make(&options);
        assert_false(has_file(sys, STORE_DIR "/tmp/sort.firn"));
        check_rows(store, tree_of(store, "a", 0), 100);
    }
    ASSERT_OK(store_close(store));
}

static bool refuses_temporary(struct store_options *options, const char *text)
{
    struct store *store;
    assert_int_equal(store_open(options, &store, NULL), FIRN_E_CORRUPT);
    ASSERT_TEXT(text);
    return has_file(sys, STORE_DIR "/sort.firn");
}

/* Who only looks like one is not removed. */
static void what_is_no_temporary_tablespace_of_ours_stays(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    struct store_options other_options = new_options(sys);
    struct store *store = store_make(&options);
    ASSERT_OK(store_close(store));
    other_options.directory = "other";
    other_options.environment_seed = 2;
    struct store *other = store_make(&other_options);
    make_temporary(other, "sort", 1000);
    ASSERT_OK(store_close(other));

    ASSERT_OK(io_rename(sys, "other/sort.firn", STORE_DIR "/sort.firn"));
    assert_true(refuses_temporary(&options, "sort.firn is a tablespace of another environment"));
    ASSERT_OK(sim_disk_rot(disk, STORE_DIR "/sort.firn", 40, 1));
    assert_true(refuses_temporary(&options, "sort.firn"));
    ASSERT_OK(io_remove(sys, STORE_DIR "/sort.firn"));
    store = store_make(&options);
    ASSERT_OK(store_close(store));
}

static void names_that_make_no_file_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "a/b", "..", ".a", "a b", "a\nb", "system"};
    struct store_options options = new_options(sys);
    struct store *store = store_make(&options);
    struct btree *tree;
    char longest[SPACE_NAME_MAX + 2];
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        assert_int_equal(store_tree(store, names[i], STORE_TREE_CREATE, &tree), FIRN_E_INVALID);
        assert_int_equal(store_tree(store, names[i], STORE_TREE_CREATE | STORE_TREE_SHARED, &tree),
                         FIRN_E_INVALID);
    }
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(store_tree(store, longest, STORE_TREE_CREATE, &tree), FIRN_E_INVALID);
    longest[sizeof(longest) - 2] = '\0';
    ASSERT_OK(store_tree(store, longest, STORE_TREE_CREATE, &tree));
    ASSERT_OK(store_close(store));
}

/* ---- Sessions ---- */

static void a_session_does_what_trees_do(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    struct store *store = store_make(&options);
    struct btree *tree = tree_of(store, "a", STORE_TREE_CREATE);
    struct store_session *session;
    struct span key = span_of_text("key");
    struct span value;
    ASSERT_OK(store_session_open(store, &session));
    ASSERT_OK(store_commit(session)); /* nothing yet */
    ASSERT_OK(store_insert(session, tree, key, span_of_text("one")));
    assert_int_equal(store_insert(session, tree, key, span_of_text("two")), FIRN_E_EXISTS);
    ASSERT_OK(store_get(session, tree, key, &value));
    assert_int_equal(span_compare(value, span_of_text("one")), 0);
    ASSERT_OK(store_put(session, tree, key, span_of_text("two")));
    uint64_t durable_lsn = redo_durable_lsn(store_redo(store));
    ASSERT_OK(store_commit(session));
    assert_true(redo_durable_lsn(store_redo(store)) > durable_lsn);
    store_session_set_flush(session, REDO_FLUSH_NONE);
    durable_lsn = redo_durable_lsn(store_redo(store));
    ASSERT_OK(store_delete(session, tree, key));
    assert_int_equal(store_delete(session, tree, key), FIRN_E_NOT_FOUND);
    ASSERT_OK(store_commit(session));
    assert_int_equal(redo_durable_lsn(store_redo(store)), durable_lsn);
    ASSERT_OK(store_tick(store));
    assert_true(redo_durable_lsn(store_redo(store)) > durable_lsn);
    store_session_close(session);
    ASSERT_OK(store_close(store));
}

/* More log than its files hold, and a pool that need not write: who wants room makes it. */
static void a_small_log_does_not_stop_a_long_write(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    struct store_status status;
    options.buffer_pool_size_bytes = 32 * MIB;
    struct store *store = store_make(&options);
    struct btree *tree = tree_of(store, "a", STORE_TREE_CREATE);
    store_status(store, &status);
    uint64_t start_lsn = status.lsn;
    unsigned rows = 0;
    for (; status.lsn - start_lsn < 2 * status.log_capacity_bytes; rows += 5000) {
        put_rows(store, tree, rows, rows + 5000);
        store_status(store, &status);
        assert_true(rows < 200000);
    }
    assert_true(status.redo.space_waits > 0);
    check_rows(store, tree, rows);
    store_abandon(store);
    store = store_make(&options);
    check_rows(store, tree_of(store, "a", 0), rows);
    check_store(store);
    ASSERT_OK(store_close(store));
}

/* ---- Warm restart ---- */

static void a_pool_is_warm_again_after_a_restart(void **state)
{
    (void)state;
    struct store_options options = new_options(sys);
    struct store_status status;
    options.buffer_pool_dump_pct = 100;
    struct store *store = store_make(&options);
    put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, 3000);
    ASSERT_OK(store_close(store));
    store = store_make(&options);
    store_status(store, &status);
    uint64_t warm_pages = status.buffer.pages_data;
    ASSERT_OK(store_close(store));
    options.buffer_pool_load_at_startup = false;
    store = store_make(&options);
    store_status(store, &status);
    assert_true(status.buffer.pages_data + 20 < warm_pages);
    ASSERT_OK(store_close(store));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_put_is_there_after_closing),
        TEST(what_was_committed_is_there_after_a_crash),
        TEST(every_page_size_works),
        TEST(the_log_is_resized_when_asked_for),
        TEST(every_class_may_have_a_device_of_its_own),
        TEST(classes_may_share_a_directory_below_the_environment),
        TEST(trees_are_listed_by_name),
        TEST(a_dropped_tree_gives_its_space_back),
        TEST(temporary_tablespaces_end_with_the_run),
        TEST(what_is_no_temporary_tablespace_of_ours_stays),
        TEST(names_that_make_no_file_are_refused),
        TEST(a_session_does_what_trees_do),
        TEST(a_small_log_does_not_stop_a_long_write),
        TEST(a_pool_is_warm_again_after_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
