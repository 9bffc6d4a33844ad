/*
 * Damage that is met in the middle of recovery: the opening is refused, in the same words as often
 * as it is tried, and once the file has been put right nothing is lost.
 */
#include "engine/store_support.h"

#include "page/page.h"

#define TREE_FILE        STORE_DIR "/a.firn"
#define DOUBLEWRITE_FILE STORE_DIR "/firn_doublewrite"

enum {
    PAGE_BYTES = 4096,
    ROWS = 4500, /* more pages than the pool has frames: recovery has to write some */
    CHANGED_EVERY = 7,
    BODY_AT = 200, /* in a page: what its checksum covers */
    MASK = 0x40,
    TRIES = 2,
};

/* FORMAT.md: where the batches of the doublewrite file have their checksums. */
static const uint64_t batch_checksums[] = {4096 + 4, 2105344 + 4};

static struct store_options refused_options(struct io_system *system)
{
    struct store_options options = new_options(system);
    options.page_size_bytes = PAGE_BYTES;
    options.buffer_pool_size_bytes = MIB;
    options.recovery_threads = 1;
    return options;
}

/* ---- Rows: put once, and every so many of them again, larger ---- */

static void make_version(unsigned number, bool again, struct made_row *row)
{
    make_row(number, row);
    if (!again)
        return;
    row->value_bytes = (row->value_bytes + 90) % sizeof(row->value);
    memset(row->value, (int)((number + 1) % 251), row->value_bytes);
}

static void put_again(struct store *store, struct btree *tree)
{
    struct store_session *session;
    struct made_row row;
    ASSERT_OK(store_session_open(store, &session));
    for (unsigned i = 0; i < ROWS; i += CHANGED_EVERY) {
        make_version(i, true, &row);
        ASSERT_OK(
            store_put(session, tree, span_of_text(row.key), span_of(row.value, row.value_bytes)));
    }
    ASSERT_OK(store_commit(session));
    store_session_close(session);
}

static void check_versions(struct store *store, struct btree *tree)
{
    struct store_session *session;
    struct made_row row;
    struct span value;
    ASSERT_OK(store_session_open(store, &session));
    for (unsigned i = 0; i < ROWS; i++) {
        make_version(i, i % CHANGED_EVERY == 0, &row);
        ASSERT_OK(store_get(session, tree, span_of_text(row.key), &value));
        assert_int_equal(span_compare(value, span_of(row.value, row.value_bytes)), 0);
    }
    store_session_close(session);
}

/* All rows in a checkpoint, some of them put again, and nothing closed. */
static struct store *changed_store(struct io_system *system)
{
    struct store_options options = refused_options(system);
    options.buffer_pool_size_bytes = 16 * MIB; /* nothing that is put again is written */
    struct store *store = store_make(&options);
    struct btree *tree = tree_of(store, "a", STORE_TREE_CREATE);
    put_rows(store, tree, 0, ROWS);
    ASSERT_OK(store_checkpoint(store));
    put_again(store, tree);
    return store;
}

static struct sim_disk *killed_store(void)
{
    struct sim_disk *disk = disk_make();
    struct io_system *system = disk_open(disk, 1);
    store_abandon(changed_store(system));
    io_system_close(system);
    return disk;
}

/* ---- Judging ---- */

static bool is_same_file(struct io_system *system, const struct sim_disk *before, const char *path)
{
    struct sim_disk *disk = sim_disk_clone(before);
    struct io_system *other = disk_open(disk, 1);
    size_t sizes[2];
    uint8_t *now = file_load(system, path, &sizes[0]);
    uint8_t *was = file_load(other, path, &sizes[1]);
    bool same = sizes[0] == sizes[1] && memcmp(now, was, sizes[0]) == 0;
    free(now);
    free(was);
    io_system_close(other);
    sim_disk_destroy(disk);
    return same;
}

/* Opened some times: each is refused alike, names `what`, and leaves the log as it was.
   @return false if the store opened */
static bool is_refused(struct io_system *system, const struct sim_disk *before, const char *what)
{
    struct store_options options = refused_options(system);
    struct store *store;
    char said[512] = "";
    for (unsigned time = 0; time < TRIES; time++) {
        firn_rc rc = store_open(&options, &store, NULL);
        if (time == 0 && rc == FIRN_OK) {
            store_abandon(store);
            return false;
        }
        assert_int_equal(rc, FIRN_E_CORRUPT);
        ASSERT_TEXT(what);
        assert_true(time == 0 || strcmp(said, firn_error_text()) == 0);
        snprintf(said, sizeof(said), "%s", firn_error_text());
        assert_true(is_same_file(system, before, STORE_DIR "/firn_redo.0"));
        assert_true(is_same_file(system, before, STORE_DIR "/firn_redo.1"));
    }
    return true;
}

static void check_all_is_there(struct io_system *system)
{
    struct store_options options = refused_options(system);
    struct store *store = store_make(&options);
    check_versions(store, tree_of(store, "a", 0));
    check_store(store);
    ASSERT_OK(store_close(store));
}

/* ---- A page that the log changes ---- */

struct tally {
    unsigned tried;
    unsigned refused;
    unsigned written; /* refused when other pages had been written */
};

static void damage_page(const struct sim_disk *base, uint32_t page_no, struct tally *tally)
{
    struct sim_disk *disk = sim_disk_clone(base);
    uint64_t offset = (uint64_t)page_no * PAGE_BYTES + BODY_AT;
    char what[64];
    snprintf(what, sizeof(what), "page %u of tablespace ", page_no);
    ASSERT_OK(sim_disk_rot(disk, TREE_FILE, offset, MASK));
    struct sim_disk *damaged = sim_disk_clone(disk);
    struct io_system *system = disk_open(disk, 1);
    tally->tried++;
    if (is_refused(system, base, what)) {
        ASSERT_TEXT("(" TREE_FILE ")");
        tally->refused++;
        tally->written += !is_same_file(system, damaged, TREE_FILE);
        ASSERT_OK(sim_disk_rot(disk, TREE_FILE, offset, MASK));
        check_all_is_there(system);
    }
    io_system_close(system);
    sim_disk_destroy(damaged);
    sim_disk_destroy(disk);
}

static void damage_in_a_page_that_the_log_changes_is_refused_until_it_is_mended(void **state)
{
    (void)state;
    struct sim_disk *base = killed_store();
    struct io_system *system = disk_open(base, 1);
    uint32_t pages = (uint32_t)(file_size(system, TREE_FILE) / PAGE_BYTES);
    struct tally tally = {0};
    io_system_close(system);
    for (uint32_t page_no = 3; page_no < pages; page_no += 53)
        damage_page(base, page_no, &tally);
    print_message("# %u of %u pages were needed, %u times others had been written\n", tally.refused,
                  tally.tried, tally.written);
    assert_true(tally.refused > 3 && tally.written > 0);
    sim_disk_destroy(base);
}

/* ---- The doublewrite file ---- */

/* The power goes while a checkpoint writes pages. */
static struct sim_disk *torn_store(const struct sim_disk *base, uint64_t steps)
{
    struct sim_disk *disk = sim_disk_clone(base);
    struct io_system *system = disk_open(disk, steps);
    struct store_options options = refused_options(system);
    struct store *store = store_make(&options);
    sim_disk_cut_after(disk, steps, SIM_CUT_TEAR, steps);
    (void)store_checkpoint(store);
    sim_disk_cut(disk, SIM_CUT_TEAR, steps);
    store_abandon(store);
    io_system_close(system);
    sim_disk_restore(disk);
    return disk;
}

/* @return pages that recovery mends, the doublewrite file being whole */
static unsigned pages_mended(const struct sim_disk *torn)
{
    struct sim_disk *disk = sim_disk_clone(torn);
    struct io_system *system = disk_open(disk, 1);
    struct store_options options = refused_options(system);
    struct recovery_result result;
    struct store *store;
    ASSERT_OK(store_open(&options, &store, &result));
    check_versions(store, tree_of(store, "a", 0));
    store_abandon(store);
    io_system_close(system);
    sim_disk_destroy(disk);
    return result.pages_repaired;
}

static void flip_batches(struct sim_disk *disk)
{
    for (unsigned i = 0; i < 2; i++)
        ASSERT_OK(sim_disk_rot(disk, DOUBLEWRITE_FILE, batch_checksums[i], MASK));
}

static void damage_batches(const struct sim_disk *torn, struct tally *tally)
{
    struct sim_disk *disk = sim_disk_clone(torn);
    struct io_system *system = disk_open(disk, 1);
    tally->tried++;
    flip_batches(disk);
    if (is_refused(system, torn, "of tablespace ")) {
        tally->refused++;
        flip_batches(disk);
    }
    check_all_is_there(system);
    io_system_close(system);
    sim_disk_destroy(disk);
}

static void torn_pages_are_refused_until_their_doublewrite_file_is_mended(void **state)
{
    (void)state;
    struct sim_disk *base = killed_store();
    struct tally tally = {0};
    for (uint64_t steps = 1; steps <= 40; steps += 2) {
        struct sim_disk *torn = torn_store(base, steps);
        if (pages_mended(torn) > 0)
            damage_batches(torn, &tally);
        sim_disk_destroy(torn);
    }
    print_message("# %u cuts tore pages, %u times they were needed\n", tally.tried, tally.refused);
    assert_true(tally.refused > 0);
    sim_disk_destroy(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damage_in_a_page_that_the_log_changes_is_refused_until_it_is_mended),
        cmocka_unit_test(torn_pages_are_refused_until_their_doublewrite_file_is_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
