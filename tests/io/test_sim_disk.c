#include "base/memory.h"
#include "io/sim_fixture.h"

#include <pthread.h>

/* ---- As any file system ---- */

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

/* ---- Space ---- */

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

/* ---- The cut itself ---- */

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

/* ---- Threads and memory ---- */

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
    memory_fail_after(-1);
    assert_true(failures > 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(bytes_read_back_and_holes_are_zero),
        TEST(names_follow_posix),
        TEST(a_directory_lists_what_is_in_it),
        TEST(a_directory_is_locked_once),
        TEST(direct_requests_must_be_aligned),
        TEST(a_removed_file_lives_while_it_is_open),
        TEST(a_full_disk_refuses_and_takes_again),
        TEST(allocated_space_outlasts_a_cut_once_synced),
        TEST(nothing_works_until_power_is_restored),
        TEST(the_nth_step_fails_and_is_in_doubt),
        TEST(a_sync_cut_short_makes_nothing_durable),
        TEST(a_disarmed_cut_does_not_come),
        TEST(clones_go_their_own_ways),
        TEST(rot_changes_the_medium),
        TEST(only_powers_of_two_are_sectors),
        TEST(threads_share_a_disk_through_a_cut),
        TEST(each_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
