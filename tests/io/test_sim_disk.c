#include "base/memory.h"
#include "base/rng.h"
#include "io/sim_support.h"

#include <pthread.h>

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
    memory_fail_after(-1);
    io_system_close(sys);
    sim_disk_destroy(disk);
    return 0;
}

/* Cut and look at what is left. Files must be closed. */
static void cut_and_reopen(enum sim_cut cut, uint64_t seed)
{
    sim_disk_cut(disk, cut, seed);
    io_system_close(sys);
    sim_disk_restore(disk);
    sys = disk_open(disk, seed);
}

/* ---- As any file system ------------------------------------------------------------------------
 */

static void bytes_read_back_and_holes_are_zero(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    file_fill(file, 10000, 5000, 7);
    assert_int_equal(file_byte(sys, "f", 9999), 0);
    assert_int_equal(file_byte(sys, "f", 10000), 7);
    assert_int_equal(file_byte(sys, "f", 14999), 7);
    uint8_t bytes[2];
    assert_int_equal(io_read(file, bytes, 2, 14999), FIRN_E_SHORT);
    ASSERT_OK(io_file_set_size(file, 12000));
    ASSERT_OK(io_file_set_size(file, 15000));
    assert_int_equal(file_byte(sys, "f", 11999), 7);
    assert_int_equal(file_byte(sys, "f", 12000), 0);
    assert_int_equal(file_byte(sys, "f", 14999), 0);
    ASSERT_OK(io_file_close(file));
    ASSERT_OK(io_file_close(file_open(sys, "/f", IO_OPEN_TRUNCATE)));
    assert_int_equal(file_size(sys, "f"), 0);
}

static firn_rc open_code(const char *path, unsigned flags)
{
    struct io_file *file;
    firn_rc rc = io_file_open(sys, IO_CLASS_TABLE, path, flags, &file);
    if (rc == FIRN_OK)
        ASSERT_OK(io_file_close(file));
    return rc;
}

static void names_follow_posix(void **state)
{
    (void)state;
    assert_int_equal(open_code("f", 0), FIRN_E_NOT_FOUND);
    assert_int_equal(open_code("d/f", IO_OPEN_CREATE), FIRN_E_NOT_FOUND);
    ASSERT_OK(io_make_directory(sys, "d"));
    assert_int_equal(io_make_directory(sys, "/d/"), FIRN_E_EXISTS);
    ASSERT_OK(open_code("d/f", IO_OPEN_CREATE));
    ASSERT_OK(open_code("/d//./f", IO_OPEN_CREATE));
    assert_int_equal(open_code("d/f", IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE), FIRN_E_EXISTS);
    assert_int_equal(open_code("d", 0), FIRN_E_INVALID);
    assert_int_equal(open_code("d/f/g", IO_OPEN_CREATE), FIRN_E_INVALID);
    assert_int_equal(open_code("d/../f", IO_OPEN_CREATE), FIRN_E_INVALID);
    assert_int_equal(open_code("d/f", IO_OPEN_READ_ONLY | IO_OPEN_TRUNCATE), FIRN_E_INVALID);
    assert_int_not_equal(io_remove_directory(sys, "d"), FIRN_OK);
    assert_int_not_equal(io_remove(sys, "d"), FIRN_OK);
    assert_int_not_equal(io_rename(sys, "d", "d/e"), FIRN_OK);
    assert_int_equal(io_rename(sys, "x", "y"), FIRN_E_NOT_FOUND);
    ASSERT_OK(io_rename(sys, "d/f", "g"));
    assert_int_equal(file_size(sys, "d/f"), -1);
    assert_int_equal(file_size(sys, "g"), 0);
    assert_int_not_equal(io_rename(sys, "g", "d"), FIRN_OK);
    ASSERT_OK(io_rename(sys, "d", "e"));
    ASSERT_OK(io_remove_directory(sys, "e"));
    ASSERT_OK(io_remove(sys, "g"));
    assert_int_equal(io_remove(sys, "g"), FIRN_E_NOT_FOUND);
    assert_int_equal(io_sync_directory(sys, "e"), FIRN_E_NOT_FOUND);
}

static firn_rc add_name(const char *name, void *context)
{
    strcat(context, name);
    return FIRN_OK;
}

static firn_rc remove_listed(const char *name, void *context)
{
    (void)context;
    return io_remove(sys, name);
}

static void a_directory_lists_what_is_in_it(void **state)
{
    (void)state;
    char names[16] = "";
    ASSERT_OK(io_make_directory(sys, "d"));
    ASSERT_OK(open_code("d/a", IO_OPEN_CREATE));
    ASSERT_OK(open_code("d/b", IO_OPEN_CREATE));
    ASSERT_OK(io_remove(sys, "d/a"));
    ASSERT_OK(io_list(sys, "d", add_name, names));
    assert_string_equal(names, "b");
    /* The function may use the disk. */
    ASSERT_OK(io_rename(sys, "d/b", "b"));
    ASSERT_OK(io_remove_directory(sys, "d"));
    ASSERT_OK(io_list(sys, "/", remove_listed, NULL));
    assert_int_equal(io_list(sys, "b", add_name, names), FIRN_E_NOT_FOUND);
}

static void a_directory_is_locked_once(void **state)
{
    (void)state;
    struct io_lock *lock;
    struct io_lock *second;
    ASSERT_OK(io_make_directory(sys, "d"));
    ASSERT_OK(io_lock_directory(sys, "d", &lock));
    assert_int_equal(io_lock_directory(sys, "/d", &second), FIRN_E_BUSY);
    io_unlock_directory(lock);
    ASSERT_OK(io_lock_directory(sys, "d", &second));
    io_unlock_directory(second);
}

static void direct_requests_must_be_aligned(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE | IO_OPEN_DIRECT);
    static _Alignas(SECTOR) uint8_t sectors[2 * SECTOR];
    assert_true(io_file_is_direct(file));
    assert_int_equal(io_file_alignment(file), SECTOR);
    ASSERT_OK(io_write(file, sectors, SECTOR, SECTOR));
    assert_int_equal(io_write(file, sectors, SECTOR, 1), FIRN_E_INVALID);
    assert_int_equal(io_write(file, sectors + 1, SECTOR, 0), FIRN_E_INVALID);
    ASSERT_OK(io_file_close(file));
}

static void a_removed_file_lives_while_it_is_open(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    ASSERT_OK(io_remove(sys, "f"));
    ASSERT_OK(open_code("f", IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE));
    file_fill(file, 0, 100, 1);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    assert_int_equal(file_size(sys, "f"), 0);
    ASSERT_OK(io_file_close(file));
}

/* ---- Space -------------------------------------------------------------------------------------
 */

static void a_full_disk_refuses_and_takes_again(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    struct io_file *other = file_open(sys, "g", IO_OPEN_CREATE);
    sim_disk_set_capacity(disk, 4 * 4096);
    uint8_t bytes[5 * 4096] = {0};
    assert_int_equal(io_write(file, bytes, sizeof(bytes), 0), FIRN_E_NOSPACE);
    assert_int_equal(file_size(sys, "f"), 4 * 4096);
    assert_int_equal(io_write(other, bytes, 1, 0), FIRN_E_NOSPACE);
    /* What has its space can be written; a larger size of holes takes none. */
    ASSERT_OK(io_write(file, bytes, 4096, 4096));
    ASSERT_OK(io_file_set_size(other, 1 << 20));
    assert_int_equal(io_file_allocate(other, 0, 4096), FIRN_E_NOSPACE);
    assert_int_equal(file_size(sys, "g"), 1 << 20);
    ASSERT_OK(io_file_set_size(file, 4096));
    ASSERT_OK(io_file_allocate(other, 0, 3 * 4096));
    assert_int_equal(io_file_allocate(other, 3 * 4096, 1), FIRN_E_NOSPACE);
    ASSERT_OK(io_write(other, bytes, 3 * 4096, 0));
    ASSERT_OK(io_file_close(file));
    ASSERT_OK(io_remove(sys, "f"));
    ASSERT_OK(io_write(other, bytes, 4096, 3 * 4096));
    sim_disk_set_capacity(disk, 5 * 4096);
    ASSERT_OK(io_write(other, bytes, 4096, 5 * 4096));
    ASSERT_OK(io_file_close(other));
}

static void allocated_space_outlasts_a_cut_once_synced(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    sim_disk_set_capacity(disk, 2 * 4096);
    ASSERT_OK(io_file_allocate(file, 0, 4096));
    ASSERT_OK(io_sync(file, IO_SYNC_DATA));
    ASSERT_OK(io_file_allocate(file, 4096, 4096));
    ASSERT_OK(io_file_close(file));
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_size(sys, "f"), 4096);
    struct io_file *other = file_open(sys, "g", IO_OPEN_CREATE);
    file_fill(other, 0, 4096, 1);
    uint8_t byte = 1;
    assert_int_equal(io_write(other, &byte, 1, 4096), FIRN_E_NOSPACE);
    file = file_open(sys, "f", 0);
    file_fill(file, 0, 4096, 1);
    ASSERT_OK(io_file_close(file));
    ASSERT_OK(io_file_close(other));
}

/* ---- What a cut leaves of a file ---------------------------------------------------------------
 */

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

/* Cut a clone of the disk and load a file of it. NULL if it is gone. */
static uint8_t *cut_clone(enum sim_cut cut, uint64_t seed, const char *path, size_t *size_bytes)
{
    struct sim_disk *clone = sim_disk_clone(disk);
    sim_disk_cut(clone, cut, seed);
    sim_disk_restore(clone);
    struct io_system *system = disk_open(clone, seed);
    uint8_t *bytes = file_load(system, path, size_bytes);
    io_system_close(system);
    sim_disk_destroy(clone);
    return bytes;
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

/* ---- What a cut leaves of names ----------------------------------------------------------------
 */

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

/* ---- The cut itself ----------------------------------------------------------------------------
 */

static void nothing_works_until_power_is_restored(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    struct io_lock *lock;
    ASSERT_OK(io_make_directory(sys, "d"));
    ASSERT_OK(io_lock_directory(sys, "d", &lock));
    sim_disk_cut(disk, SIM_CUT_KEEP, 1);
    assert_true(sim_disk_is_cut(disk));
    uint8_t byte = 0;
    uint64_t size_bytes;
    assert_int_equal(io_write(file, &byte, 1, 0), FIRN_E_IO);
    assert_int_equal(io_read(file, &byte, 1, 0), FIRN_E_IO);
    assert_int_equal(io_sync(file, IO_SYNC_ALL), FIRN_E_IO);
    assert_int_equal(io_file_size(file, &size_bytes), FIRN_E_IO);
    assert_int_equal(io_file_set_size(file, 1), FIRN_E_IO);
    assert_int_equal(io_make_directory(sys, "e"), FIRN_E_IO);
    assert_int_equal(io_remove(sys, "f"), FIRN_E_IO);
    assert_int_equal(io_rename(sys, "f", "g"), FIRN_E_IO);
    assert_int_equal(io_list(sys, "/", add_name, NULL), FIRN_E_IO);
    assert_int_equal(io_sync_directory(sys, "/"), FIRN_E_IO);
    assert_int_equal(open_code("f", 0), FIRN_E_IO);
    io_unlock_directory(lock);
    ASSERT_OK(io_file_close(file));
    io_system_close(sys);
    sim_disk_restore(disk);
    sys = disk_open(disk, 1);
    ASSERT_OK(io_lock_directory(sys, "d", &lock));
    io_unlock_directory(lock);
}

static void the_nth_step_fails_and_is_in_doubt(void **state)
{
    (void)state;
    for (unsigned cut = 0; cut < 2; cut++) {
        sim_disk_cut_after(disk, 5, all_cuts[cut], 1);
        uint64_t steps = sim_disk_steps(disk);
        struct io_file *file = file_create(sys, cut ? "dropped" : "kept", 0);
        file_fill(file, 0, 10, 1);
        ASSERT_OK(io_sync(file, IO_SYNC_ALL));
        uint8_t byte;
        ASSERT_OK(io_read(file, &byte, 1, 0));
        assert_int_equal(io_write(file, "x", 1, 10), FIRN_E_IO);
        assert_true(sim_disk_is_cut(disk));
        assert_int_equal(sim_disk_steps(disk) - steps, 5);
        ASSERT_OK(io_file_close(file));
        io_system_close(sys);
        sim_disk_restore(disk);
        sys = disk_open(disk, 1);
        assert_int_equal(file_size(sys, cut ? "dropped" : "kept"), cut ? 10 : 11);
    }
}

static void a_sync_cut_short_makes_nothing_durable(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 10, 1);
    sim_disk_cut_after(disk, 1, SIM_CUT_DROP, 1);
    assert_int_equal(io_sync(file, IO_SYNC_ALL), FIRN_E_IO);
    ASSERT_OK(io_file_close(file));
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_size(sys, "f"), 0);
}

static void a_disarmed_cut_does_not_come(void **state)
{
    (void)state;
    sim_disk_cut_after(disk, 1, SIM_CUT_DROP, 1);
    sim_disk_cut_after(disk, 0, SIM_CUT_DROP, 1);
    ASSERT_OK(io_file_close(file_create(sys, "f", 0)));
}

static void clones_go_their_own_ways(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 8192, 1);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    file_fill(file, 0, 100, 2);
    struct sim_disk *clone = sim_disk_clone(disk);
    struct io_system *other = disk_open(clone, 1);
    struct io_file *copy = file_open(other, "f", 0);
    file_fill(copy, 0, 8192, 3);
    ASSERT_OK(io_sync(copy, IO_SYNC_ALL));
    ASSERT_OK(io_file_close(file_create(other, "g", 0)));
    ASSERT_OK(io_file_set_size(file, 5000));
    assert_int_equal(file_byte(sys, "f", 0), 2);
    assert_int_equal(file_byte(sys, "f", 4999), 1);
    assert_int_equal(file_size(sys, "g"), -1);
    assert_int_equal(file_size(other, "f"), 8192);
    ASSERT_OK(io_file_close(copy));
    sim_disk_cut(clone, SIM_CUT_DROP, 1);
    assert_false(sim_disk_is_cut(disk));
    io_system_close(other);
    sim_disk_restore(clone);
    ASSERT_OK(io_file_close(file));
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_byte(sys, "f", 0), 1);
    other = disk_open(clone, 1);
    assert_int_equal(file_byte(other, "f", 0), 3);
    assert_int_equal(file_size(other, "g"), 0);
    io_system_close(other);
    sim_disk_destroy(clone);
}

static void rot_changes_the_medium(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    file_fill(file, 0, 2 * SECTOR, 1);
    assert_int_equal(sim_disk_rot(disk, "f", 0, 1), FIRN_E_INVALID);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(sim_disk_rot(disk, "f", 5, 0x80));
    assert_int_equal(file_byte(sys, "f", 5), 0x81);
    file_fill(file, SECTOR, SECTOR, 2);
    ASSERT_OK(sim_disk_rot(disk, "f", SECTOR, 0x80));
    assert_int_equal(file_byte(sys, "f", SECTOR), 2);
    ASSERT_OK(io_file_close(file));
    cut_and_reopen(SIM_CUT_DROP, 1);
    assert_int_equal(file_byte(sys, "f", 5), 0x81);
    assert_int_equal(file_byte(sys, "f", SECTOR), 0x81);
    assert_int_equal(sim_disk_rot(disk, "g", 0, 1), FIRN_E_NOT_FOUND);
    assert_int_equal(sim_disk_rot(disk, "/", 0, 1), FIRN_E_INVALID);
    assert_int_equal(sim_disk_rot(disk, "f", 2 * SECTOR, 1), FIRN_E_INVALID);
}

static void only_powers_of_two_are_sectors(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, 3, 513, 1 << 21};
    struct sim_disk *none;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(sim_disk_create(&(struct sim_disk_options){.sector_bytes = bad[i]}, &none),
                         FIRN_E_INVALID);
}

/* ---- Queues ------------------------------------------------------------------------------------
 */

enum { DEPTH = 8 };

struct batch {
    struct io_request requests[DEPTH];
    struct io_request *pointers[DEPTH];
    uint8_t bytes[DEPTH][SECTOR];
};

/* Writes of one sector each, i filled with i + 1. */
static void batch_prepare(struct batch *batch, struct io_file *file)
{
    memset(batch, 0, sizeof(*batch));
    for (unsigned i = 0; i < DEPTH; i++) {
        memset(batch->bytes[i], (int)i + 1, SECTOR);
        batch->requests[i] = (struct io_request){.file = file,
                                                 .op = IO_OP_WRITE,
                                                 .size_bytes = SECTOR,
                                                 .buffer = batch->bytes[i],
                                                 .offset = (uint64_t)i * SECTOR};
        batch->pointers[i] = &batch->requests[i];
    }
}

static struct io_queue *queue_open(struct io_system *system)
{
    struct io_queue *queue;
    ASSERT_OK(io_queue_open(system, &(struct io_queue_options){.depth = DEPTH}, &queue));
    return queue;
}

static void queues_complete_in_an_order_drawn_from_the_seed(void **state)
{
    (void)state;
    unsigned orders[4][DEPTH];
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    ASSERT_OK(io_file_close(file));
    for (unsigned run = 0; run < 4; run++) {
        struct io_system *system = disk_open(disk, run / 2);
        file = file_open(system, "f", 0);
        struct io_queue *queue = queue_open(system);
        struct batch batch;
        batch_prepare(&batch, file);
        ASSERT_OK(io_queue_submit(queue, batch.pointers, DEPTH));
        struct io_request *done[DEPTH];
        assert_int_equal(io_queue_reap(queue, DEPTH, DEPTH, done), DEPTH);
        for (unsigned i = 0; i < DEPTH; i++) {
            ASSERT_OK(done[i]->rc);
            orders[run][i] = (unsigned)(done[i] - batch.requests);
        }
        io_queue_close(queue);
        ASSERT_OK(io_file_close(file));
        io_system_close(system);
    }
    assert_memory_equal(orders[0], orders[1], sizeof(orders[0]));
    assert_memory_equal(orders[2], orders[3], sizeof(orders[0]));
    assert_memory_not_equal(orders[0], orders[2], sizeof(orders[0]));
}

static void looking_brings_everything_in_time(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    struct io_queue *queue = queue_open(sys);
    struct batch batch;
    batch_prepare(&batch, file);
    ASSERT_OK(io_queue_submit(queue, batch.pointers, DEPTH));
    unsigned left = DEPTH;
    struct io_request *done[DEPTH];
    for (unsigned looks = 0; left > 0; looks++) {
        assert_true(looks < 10000);
        left -= io_queue_reap(queue, 0, DEPTH, done);
    }
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
}

/* What is left of eight sectors under way when the power is cut: bit i is set if the i-th is. */
static unsigned cut_under_way(enum sim_cut cut, uint64_t seed)
{
    struct io_file *file = file_open(sys, "f", 0);
    struct io_queue *queue = queue_open(sys);
    struct batch batch;
    batch_prepare(&batch, file);
    ASSERT_OK(io_queue_submit(queue, batch.pointers, DEPTH));
    sim_disk_cut(disk, cut, seed);
    struct io_request *done[DEPTH];
    assert_int_equal(io_queue_reap(queue, DEPTH, DEPTH, done), DEPTH);
    for (unsigned i = 0; i < DEPTH; i++)
        assert_int_equal(done[i]->rc, FIRN_E_IO);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
    cut_and_reopen(cut, seed);
    unsigned left = 0;
    for (unsigned i = 0; i < DEPTH; i++)
        left |= (unsigned)(file_byte(sys, "f", (uint64_t)i * SECTOR) == i + 1) << i;
    return left;
}

static void writes_under_way_at_the_cut_are_in_doubt(void **state)
{
    (void)state;
    bool some = false;
    for (uint64_t seed = 0; seed < 20; seed++) {
        if (seed > 0)
            ASSERT_OK(io_remove(sys, "f"));
        struct io_file *file = file_create(sys, "f", 0);
        file_fill(file, 0, DEPTH * SECTOR, 100);
        ASSERT_OK(io_sync(file, IO_SYNC_ALL));
        ASSERT_OK(io_file_close(file));
        assert_int_equal(cut_under_way(SIM_CUT_DROP, seed), 0);
        unsigned left = cut_under_way(SIM_CUT_TEAR, seed);
        some |= left != 0 && left != 0xff;
        assert_int_equal(cut_under_way(SIM_CUT_KEEP, seed), 0xff);
    }
    assert_true(some);
}

/* A sync submitted together with writes, all reaped: are the writes durable? */
static bool sync_covers(bool after_reaping, uint64_t seed)
{
    struct sim_disk *fresh = disk_make();
    struct io_system *system = disk_open(fresh, seed);
    struct io_file *file = file_create(system, "f", 0);
    struct io_queue *queue = queue_open(system);
    struct batch batch;
    batch_prepare(&batch, file);
    struct io_request *done[DEPTH];
    struct io_request sync = {.file = file, .op = IO_OP_SYNC_DATA};
    struct io_request *pointer = &sync;
    ASSERT_OK(io_queue_submit(queue, batch.pointers, DEPTH - 1));
    if (after_reaping)
        assert_int_equal(io_queue_reap(queue, DEPTH - 1, DEPTH, done), DEPTH - 1);
    ASSERT_OK(io_queue_submit(queue, &pointer, 1));
    unsigned left = io_queue_pending(queue);
    assert_int_equal(io_queue_reap(queue, left, DEPTH, done), left);
    ASSERT_OK(sync.rc);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
    sim_disk_cut(fresh, SIM_CUT_DROP, 1);
    io_system_close(system);
    sim_disk_restore(fresh);
    system = disk_open(fresh, 1);
    bool durable = file_size(system, "f") == (DEPTH - 1) * SECTOR;
    for (uint64_t i = 0; durable && i < DEPTH - 1; i++)
        durable = file_byte(system, "f", i * SECTOR) == i + 1;
    io_system_close(system);
    sim_disk_destroy(fresh);
    return durable;
}

static void a_sync_in_a_queue_covers_what_was_reaped_before(void **state)
{
    (void)state;
    unsigned by_chance = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        assert_true(sync_covers(true, seed));
        by_chance += sync_covers(false, seed);
    }
    assert_true(by_chance < 50);
}

static void a_clone_has_what_was_under_way(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    struct io_queue *queue = queue_open(sys);
    struct batch batch;
    batch_prepare(&batch, file);
    ASSERT_OK(io_queue_submit(queue, batch.pointers, DEPTH));
    size_t size_bytes;
    uint8_t *bytes = cut_clone(SIM_CUT_KEEP, 1, "f", &size_bytes);
    assert_int_equal(size_bytes, DEPTH * SECTOR);
    free(bytes);
    bytes = cut_clone(SIM_CUT_DROP, 1, "f", &size_bytes);
    assert_int_equal(size_bytes, 0);
    free(bytes);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
}

/* ---- Threads and memory ------------------------------------------------------------------------
 */

static void *hammer(void *number)
{
    char name[16];
    snprintf(name, sizeof(name), "f%d", *(int *)number);
    struct io_file *file;
    if (io_file_open(sys, IO_CLASS_TABLE, name, IO_OPEN_CREATE, &file) != FIRN_OK)
        return NULL;
    uint8_t bytes[3 * SECTOR] = {0};
    for (unsigned i = 0; i < 200; i++) {
        if (io_write(file, bytes, sizeof(bytes), (uint64_t)i * SECTOR) != FIRN_OK ||
            io_sync(file, IO_SYNC_DATA) != FIRN_OK || io_sync_directory(sys, "/") != FIRN_OK)
            break;
    }
    io_file_close(file);
    return NULL;
}

static void threads_share_a_disk_through_a_cut(void **state)
{
    (void)state;
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3};
    sim_disk_cut_after(disk, 1500, SIM_CUT_TEAR, 1);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &numbers[i]), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_true(sim_disk_is_cut(disk));
    assert_int_equal(sim_disk_steps(disk), 1500);
}

static firn_rc use_everything(void)
{
    struct io_system *system = NULL;
    struct io_file *file = NULL;
    struct io_queue *queue = NULL;
    firn_rc rc;
    FIRN_TRY(sim_disk_open_system(disk, clock_real(), 1, &system));
    FIRN_TRY_GOTO(io_file_open(system, IO_CLASS_REDO, "f", IO_OPEN_CREATE, &file), end);
    FIRN_TRY_GOTO(io_write(file, "x", 1, 0), end);
    FIRN_TRY_GOTO(io_sync(file, IO_SYNC_ALL), end);
    FIRN_TRY_GOTO(io_list(system, "/", add_name, (char[16]){0}), end);
    FIRN_TRY_GOTO(io_queue_open(system, &(struct io_queue_options){.depth = 4}, &queue), end);
end:
    io_queue_close(queue);
    if (file != NULL)
        io_file_close(file);
    io_system_close(system);
    return rc;
}

static void each_failing_allocation_is_reported(void **state)
{
    (void)state;
    long failures = 0;
    for (;; failures++) {
        memory_fail_after(failures);
        firn_rc rc = use_everything();
        if (rc == FIRN_OK)
            break;
        assert_int_equal(rc, FIRN_E_NOMEM);
    }
    assert_true(failures > 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(bytes_read_back_and_holes_are_zero),
        TEST(names_follow_posix),
        TEST(a_directory_lists_what_is_in_it),
        TEST(a_directory_is_locked_once),
        TEST(direct_requests_must_be_aligned),
        TEST(a_removed_file_lives_while_it_is_open),
        TEST(a_full_disk_refuses_and_takes_again),
        TEST(allocated_space_outlasts_a_cut_once_synced),
        TEST(synced_bytes_and_size_outlast_every_cut),
        TEST(unsynced_bytes_are_kept_or_dropped_by_mode),
        TEST(tearing_leaves_every_mix_of_whole_sectors),
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
        TEST(nothing_works_until_power_is_restored),
        TEST(the_nth_step_fails_and_is_in_doubt),
        TEST(a_sync_cut_short_makes_nothing_durable),
        TEST(a_disarmed_cut_does_not_come),
        TEST(clones_go_their_own_ways),
        TEST(rot_changes_the_medium),
        TEST(only_powers_of_two_are_sectors),
        TEST(queues_complete_in_an_order_drawn_from_the_seed),
        TEST(looking_brings_everything_in_time),
        TEST(writes_under_way_at_the_cut_are_in_doubt),
        TEST(a_sync_in_a_queue_covers_what_was_reaped_before),
        TEST(a_clone_has_what_was_under_way),
        TEST(threads_share_a_disk_through_a_cut),
        TEST(each_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
