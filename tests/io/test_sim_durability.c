#include "io/sim_fixture.h"

/* ---- What a cut leaves of a file ---- */

static void synced_bytes_and_size_outlast_every_cut(void **state)
{
    (void)state;
    for (unsigned cut = 0; cut < 4; cut++) {
        char name[8] = {(char)('a' + cut)};
        struct io_file *file = file_create(sys, name, 0);
        file_fill(file, 0, 3000, 1);
        ASSERT_OK(io_file_set_size(file, 5000));
        ASSERT_OK(io_sync(file, cut % 2 ? IO_SYNC_DATA : IO_SYNC_ALL));
        ASSERT_OK(io_file_close(file));
        cut_and_reopen(all_cuts[cut], cut);
        assert_int_equal(file_size(sys, name), 5000);
        assert_int_equal(file_byte(sys, name, 2999), 1);
        assert_int_equal(file_byte(sys, name, 3000), 0);
    }
}

static void unsynced_bytes_are_kept_or_dropped_by_mode(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 1000, 1);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    file_fill(file, 500, 1000, 2);
    ASSERT_OK(io_file_close(file));
    struct sim_disk *clone = sim_disk_clone(disk);
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_size(sys, "f"), 1000);
    assert_int_equal(file_byte(sys, "f", 600), 1);
    io_system_close(sys);
    sim_disk_destroy(disk);
    disk = clone;
    sys = disk_open(disk, 1);
    cut_and_reopen(SIM_CUT_KEEP, 1);
    assert_int_equal(file_size(sys, "f"), 1500);
    assert_int_equal(file_byte(sys, "f", 499), 1);
    assert_int_equal(file_byte(sys, "f", 500), 2);
}

static void tearing_leaves_every_mix_of_whole_sectors(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 3 * SECTOR, 1);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    file_fill(file, 0, 3 * SECTOR, 2);
    file_fill(file, 0, 3 * SECTOR, 3);
    ASSERT_OK(io_file_close(file));
    bool seen[4][4][4] = {0};
    unsigned kinds = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        size_t size_bytes;
        uint8_t *bytes = cut_clone(SIM_CUT_TEAR, seed, "f", &size_bytes);
        assert_int_equal(size_bytes, 3 * SECTOR);
        for (size_t i = 0; i < size_bytes; i++)
            assert_int_equal(bytes[i], bytes[i / SECTOR * SECTOR]);
        bool *mix = &seen[bytes[0]][bytes[SECTOR]][bytes[2 * SECTOR]];
        kinds += !*mix;
        *mix = true;
        free(bytes);
    }
    assert_int_equal(kinds, 27);
}

/* Three sectors written over, of which any may be old or new, but each as a whole. */
static void tear_sectors_of(uint32_t sector_bytes)
{
    io_system_close(sys);
    sim_disk_destroy(disk);
    ASSERT_OK(sim_disk_create(&(struct sim_disk_options){.sector_bytes = sector_bytes}, &disk));
    sys = disk_open(disk, 1);
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 3 * (size_t)sector_bytes, 1);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    file_fill(file, 0, 3 * (size_t)sector_bytes, 2);
    ASSERT_OK(io_file_set_size(file, 2 * (uint64_t)sector_bytes + sector_bytes / 2));
    ASSERT_OK(io_file_close(file));
    unsigned seen = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        size_t size_bytes;
        uint8_t *bytes = cut_clone(SIM_CUT_TEAR, seed, "f", &size_bytes);
        for (size_t i = 0; i < 2 * (size_t)sector_bytes; i++)
            assert_int_equal(bytes[i], bytes[i / sector_bytes * sector_bytes]);
        seen |= 1U << (bytes[0] * 2 + bytes[sector_bytes] - 3);
        free(bytes);
    }
    assert_int_equal(seen, 0xf);
}

static void sectors_of_any_size_are_whole(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 64, 4096, 16384};
    for (unsigned i = 0; i < 4; i++)
        tear_sectors_of(sizes[i]);
}

static void reordering_keeps_writes_whole(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 6 * SECTOR, 9);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    for (unsigned i = 0; i < 3; i++)
        file_fill(file, (uint64_t)i * 2 * SECTOR, 2 * SECTOR, (uint8_t)i);
    ASSERT_OK(io_file_close(file));
    unsigned seen = 0;
    for (uint64_t seed = 0; seed < 500; seed++) {
        size_t size_bytes;
        uint8_t *bytes = cut_clone(SIM_CUT_REORDER, seed, "f", &size_bytes);
        unsigned kept = 0;
        for (unsigned i = 0; i < 3; i++) {
            uint8_t value = bytes[2 * i * SECTOR];
            assert_true(value == i || value == 9);
            assert_int_equal(value, bytes[(2 * i + 1) * SECTOR]);
            kept |= (unsigned)(value == i) << i;
        }
        seen |= 1U << kept;
        free(bytes);
    }
    assert_int_equal(seen, 0xff);
}

static void a_reordered_older_write_may_land_last(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 2 * SECTOR, 1);
    file_fill(file, SECTOR, 2 * SECTOR, 2);
    ASSERT_OK(io_file_close(file));
    bool older_last = false;
    for (uint64_t seed = 0; seed < 200; seed++) {
        size_t size_bytes;
        uint8_t *bytes = cut_clone(SIM_CUT_REORDER, seed, "f", &size_bytes);
        older_last |= size_bytes >= 2 * SECTOR && bytes[0] == 1 && bytes[SECTOR] == 1;
        free(bytes);
    }
    assert_true(older_last);
}

static void a_lost_extension_reads_as_zeros_or_is_not_there(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 100, 1);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    file_fill(file, 100, 2 * SECTOR, 2);
    ASSERT_OK(io_file_close(file));
    unsigned seen[2][2] = {0};
    for (uint64_t seed = 0; seed < 300; seed++) {
        size_t size_bytes;
        uint8_t *bytes = cut_clone(SIM_CUT_TEAR, seed, "f", &size_bytes);
        bool grown = size_bytes == 100 + 2 * SECTOR;
        assert_true(grown || size_bytes == 100);
        assert_int_equal(bytes[99], 1);
        bool written = grown && bytes[100] == 2;
        assert_true(!grown || bytes[100] == (written ? 2 : 0));
        seen[grown][written]++;
        free(bytes);
    }
    assert_true(seen[0][0] > 0 && seen[1][0] > 0 && seen[1][1] > 0);
}

static void bytes_cut_off_may_come_back_until_synced(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 4 * SECTOR, 1);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(io_file_set_size(file, SECTOR));
    ASSERT_OK(io_file_set_size(file, 4 * SECTOR));
    unsigned seen[2] = {0};
    for (uint64_t seed = 0; seed < 100; seed++) {
        size_t size_bytes;
        uint8_t *bytes = cut_clone(SIM_CUT_TEAR, seed, "f", &size_bytes);
        if (size_bytes == 4 * SECTOR)
            seen[bytes[2 * SECTOR]]++;
        free(bytes);
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
    ASSERT_OK(io_sync(file, IO_SYNC_DATA));
    ASSERT_OK(io_file_close(file));
    cut_and_reopen(SIM_CUT_TEAR, 1);
    assert_int_equal(file_size(sys, "f"), 4 * SECTOR);
    assert_int_equal(file_byte(sys, "f", SECTOR - 1), 1);
    assert_int_equal(file_byte(sys, "f", SECTOR), 0);
}

static void synchronous_writes_are_durable_one_by_one(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", IO_OPEN_DSYNC);
    struct io_file *plain = file_open(sys, "f", 0);
    file_fill(file, 0, SECTOR, 1);
    file_fill(plain, SECTOR, SECTOR, 2);
    file_fill(plain, 0, SECTOR, 3);
    file_fill(file, 2 * SECTOR, SECTOR, 4);
    file_fill(file, 0, SECTOR, 5);
    ASSERT_OK(io_file_close(plain));
    ASSERT_OK(io_file_close(file));
    bool lost = false;
    for (unsigned cut = 0; cut < 4; cut++) {
        for (uint64_t seed = 0; seed < 30; seed++) {
            size_t size_bytes;
            uint8_t *bytes = cut_clone(all_cuts[cut], seed, "f", &size_bytes);
            assert_int_equal(size_bytes, 3 * SECTOR);
            assert_int_equal(bytes[0], 5);
            assert_int_equal(bytes[2 * SECTOR], 4);
            lost |= bytes[SECTOR] != 2;
            free(bytes);
        }
    }
    assert_true(lost);
}

static void too_many_unsynced_bytes_are_written_back(void **state)
{
    (void)state;
    struct sim_disk *small;
    struct sim_disk_options options = {.sector_bytes = SECTOR, .writeback_bytes = 8 * SECTOR};
    ASSERT_OK(sim_disk_create(&options, &small));
    struct io_system *system = disk_open(small, 1);
    struct io_file *file = file_create(system, "f", 0);
    for (unsigned i = 0; i < 100; i++)
        file_fill(file, (uint64_t)i * SECTOR, SECTOR, 1);
    ASSERT_OK(io_file_close(file));
    sim_disk_cut(small, SIM_CUT_DROP, 1);
    io_system_close(system);
    sim_disk_restore(small);
    system = disk_open(small, 1);
    assert_in_range(file_size(system, "f"), 92 * SECTOR, 100 * SECTOR);
    io_system_close(system);
    sim_disk_destroy(small);
}

/* ---- What a cut leaves of names ---- */

static void a_name_needs_its_directory_synced(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    file_fill(file, 0, 100, 1);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(io_file_close(file));
    size_t size_bytes;
    assert_null(cut_clone(SIM_CUT_DROP, 1, "f", &size_bytes));
    ASSERT_OK(io_sync_directory(sys, "/"));
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_size(sys, "f"), 100);
}

static void a_name_may_outlast_its_bytes(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    file_fill(file, 0, 100, 1);
    ASSERT_OK(io_sync_directory(sys, "/"));
    ASSERT_OK(io_file_close(file));
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_size(sys, "f"), 0);
}

static void a_directory_is_lost_with_all_in_it_unless_its_parent_is_synced(void **state)
{
    (void)state;
    ASSERT_OK(io_make_directory(sys, "d"));
    ASSERT_OK(open_code("d/f", IO_OPEN_CREATE));
    ASSERT_OK(io_sync_directory(sys, "d"));
    size_t size_bytes;
    assert_null(cut_clone(SIM_CUT_DROP, 1, "d/f", &size_bytes));
    ASSERT_OK(io_sync_directory(sys, "/"));
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_size(sys, "d/f"), 0);
}

static void a_removed_file_comes_back_unless_its_directory_is_synced(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 100, 1);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    file_fill(file, 0, 100, 2);
    ASSERT_OK(io_file_close(file));
    ASSERT_OK(io_remove(sys, "f"));
    size_t size_bytes;
    uint8_t *bytes = cut_clone(SIM_CUT_DROP, 1, "f", &size_bytes);
    assert_non_null(bytes);
    assert_int_equal(bytes[0], 1);
    free(bytes);
    ASSERT_OK(io_sync_directory(sys, "/"));
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_size(sys, "f"), -1);
}

static void a_rename_is_whole(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct io_file *file = file_open(sys, i ? "new" : "old", IO_OPEN_CREATE);
        file_fill(file, 0, 10 + i, 1);
        ASSERT_OK(io_sync(file, IO_SYNC_ALL));
        ASSERT_OK(io_file_close(file));
    }
    ASSERT_OK(io_sync_directory(sys, "/"));
    ASSERT_OK(io_rename(sys, "new", "old"));
    unsigned seen[2] = {0};
    for (uint64_t seed = 0; seed < 100; seed++) {
        size_t old_bytes;
        size_t new_bytes;
        uint8_t *old = cut_clone(SIM_CUT_REORDER, seed, "old", &old_bytes);
        uint8_t *new = cut_clone(SIM_CUT_REORDER, seed, "new", &new_bytes);
        assert_non_null(old);
        assert_int_equal(old_bytes, new == NULL ? 11 : 10);
        seen[new == NULL]++;
        free(old);
        free(new);
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
}

static void a_move_never_ends_in_a_directory_that_is_not_there(void **state)
{
    (void)state;
    ASSERT_OK(io_file_close(file_create(sys, "f", 0)));
    ASSERT_OK(io_make_directory(sys, "d"));
    ASSERT_OK(io_make_directory(sys, "d/e"));
    ASSERT_OK(io_rename(sys, "f", "d/e/f"));
    unsigned seen[2] = {0};
    for (uint64_t seed = 0; seed < 200; seed++) {
        size_t size_bytes;
        uint8_t *here = cut_clone(SIM_CUT_TEAR, seed, "f", &size_bytes);
        uint8_t *there = cut_clone(SIM_CUT_TEAR, seed, "d/e/f", &size_bytes);
        assert_true((here != NULL) != (there != NULL));
        seen[here != NULL]++;
        free(here);
        free(there);
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
}

static void syncing_one_directory_leaves_the_others_unsynced(void **state)
{
    (void)state;
    ASSERT_OK(io_make_directory(sys, "a"));
    ASSERT_OK(io_make_directory(sys, "b"));
    ASSERT_OK(io_sync_directory(sys, "/"));
    ASSERT_OK(open_code("a/f", IO_OPEN_CREATE));
    ASSERT_OK(open_code("b/f", IO_OPEN_CREATE));
    ASSERT_OK(io_sync_directory(sys, "b"));
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_size(sys, "a/f"), -1);
    assert_int_equal(file_size(sys, "b/f"), 0);
}

static void a_synced_move_brings_along_what_it_builds_upon(void **state)
{
    (void)state;
    ASSERT_OK(io_make_directory(sys, "d"));
    ASSERT_OK(io_sync_directory(sys, "/"));
    ASSERT_OK(open_code("f", IO_OPEN_CREATE));
    ASSERT_OK(open_code("g", IO_OPEN_CREATE));
    ASSERT_OK(io_rename(sys, "f", "d/f"));
    ASSERT_OK(io_sync_directory(sys, "d"));
    for (unsigned cut = 0; cut < 2; cut++) {
        size_t size_bytes;
        uint8_t *f = cut_clone(all_cuts[cut], 1, "f", &size_bytes);
        uint8_t *moved = cut_clone(all_cuts[cut], 1, "d/f", &size_bytes);
        uint8_t *g = cut_clone(all_cuts[cut], 1, "g", &size_bytes);
        assert_null(f);
        assert_non_null(moved);
        assert_int_equal(g != NULL, all_cuts[cut] == SIM_CUT_KEEP);
        free(moved);
        free(g);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(synced_bytes_and_size_outlast_every_cut),
        TEST(unsynced_bytes_are_kept_or_dropped_by_mode),
        TEST(tearing_leaves_every_mix_of_whole_sectors),
        TEST(sectors_of_any_size_are_whole),
        TEST(reordering_keeps_writes_whole),
        TEST(a_reordered_older_write_may_land_last),
        TEST(a_lost_extension_reads_as_zeros_or_is_not_there),
        TEST(bytes_cut_off_may_come_back_until_synced),
        TEST(synchronous_writes_are_durable_one_by_one),
        TEST(too_many_unsynced_bytes_are_written_back),
        TEST(a_name_needs_its_directory_synced),
        TEST(a_name_may_outlast_its_bytes),
        TEST(a_directory_is_lost_with_all_in_it_unless_its_parent_is_synced),
        TEST(a_removed_file_comes_back_unless_its_directory_is_synced),
        TEST(a_rename_is_whole),
        TEST(a_move_never_ends_in_a_directory_that_is_not_there),
        TEST(syncing_one_directory_leaves_the_others_unsynced),
        TEST(a_synced_move_brings_along_what_it_builds_upon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
