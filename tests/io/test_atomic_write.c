/*
 * Atomic writes: kept or lost whole by a power cut, refused where they cannot be, and never merged,
 * halved or continued.
 */
#include "base/check.h"
#include "io/sim_support.h"

#include <errno.h>

enum { UNIT = 4096 };

static uint8_t ones[2 * UNIT] __attribute__((aligned(UNIT)));

static struct sim_disk *atomic_disk(void)
{
    struct sim_disk *disk;
    struct sim_disk_options options = {.sector_bytes = SECTOR, .atomic_write_bytes = UNIT};
    ASSERT_OK(sim_disk_create(&options, &disk));
    memset(ones, 1, sizeof(ones));
    return disk;
}

static firn_rc write_at(struct io_file *file, uint64_t offset, uint32_t size_bytes, bool is_atomic)
{
    struct io_request request = {.file = file,
                                 .op = IO_OP_WRITE,
                                 .buffer = ones,
                                 .size_bytes = size_bytes,
                                 .offset = offset,
                                 .is_atomic = is_atomic};
    return io_execute(&request);
}

/* @return how many of so many cuts left the file's only unit torn */
static unsigned count_torn(bool is_atomic)
{
    struct sim_disk *disk = atomic_disk();
    struct io_system *system = disk_open(disk, 1);
    struct io_file *file = file_create(system, "/f", IO_OPEN_DIRECT);
    unsigned torn = 0;
    ASSERT_OK(io_file_set_size(file, UNIT));
    ASSERT_OK(io_sync(file, IO_SYNC_DATA));
    ASSERT_OK(write_at(file, 0, UNIT, is_atomic));
    for (unsigned seed = 0; seed < 50; seed++) {
        struct sim_disk *clone = sim_disk_clone(disk);
        sim_disk_cut(clone, SIM_CUT_TEAR, seed);
        sim_disk_restore(clone);
        struct io_system *left = disk_open(clone, seed);
        size_t size_bytes;
        uint8_t *bytes = file_load(left, "/f", &size_bytes);
        torn += memcmp(bytes, bytes + 1, UNIT - 1) != 0;
        free(bytes);
        io_system_close(left);
        sim_disk_destroy(clone);
    }
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
    sim_disk_destroy(disk);
    return torn;
}

static void test_an_atomic_write_is_kept_or_lost_whole(void **state)
{
    (void)state;
    assert_int_equal(count_torn(true), 0);
    assert_true(count_torn(false) > 0);
}

static void test_what_cannot_be_atomic_is_refused(void **state)
{
    (void)state;
    struct sim_disk *disk = atomic_disk();
    struct io_system *system = disk_open(disk, 1);
    struct io_file *file = file_create(system, "/f", IO_OPEN_DIRECT);
    assert_int_equal(io_file_atomic_write_bytes(file), UNIT);
    ASSERT_OK(write_at(file, UNIT, UNIT, true));
    ASSERT_OK(write_at(file, UNIT + 1024, 1024, true));
    assert_int_equal(write_at(file, 0, 2 * UNIT, true), FIRN_E_INVALID);
    ASSERT_TEXT("atomically: at most 4096");
    assert_int_equal(write_at(file, 512, UNIT, true), FIRN_E_INVALID);
    assert_int_equal(write_at(file, 0, 1536, true), FIRN_E_INVALID);
    ASSERT_OK(io_file_close(file));
    file = file_open(system, "/f", 0); /* through the page cache: nothing is promised */
    assert_int_equal(io_file_atomic_write_bytes(file), 0);
    assert_int_equal(write_at(file, 0, UNIT, true), FIRN_E_INVALID);
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
    sim_disk_destroy(disk);
}

static void test_atomic_writes_are_not_merged(void **state)
{
    (void)state;
    struct sim_disk *disk = atomic_disk();
    struct io_system *system = disk_open(disk, 1);
    struct io_file *file = file_create(system, "/f", IO_OPEN_DIRECT);
    struct io_queue *queue = queue_open(system, 8, 1 << 20);
    struct io_request requests[4] = {{0}};
    struct io_request *pointers[4];
    struct io_counters *counters = malloc(sizeof(*counters));
    for (unsigned i = 0; i < 4; i++) {
        requests[i] = (struct io_request){.file = file,
                                          .op = IO_OP_WRITE,
                                          .buffer = ones,
                                          .size_bytes = UNIT,
                                          .offset = (uint64_t)i * UNIT,
                                          .is_atomic = i >= 2};
        pointers[i] = &requests[i];
    }
    ASSERT_OK(io_queue_submit(queue, pointers, 4));
    assert_int_equal(io_queue_reap(queue, 4, 4, pointers), 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(requests[i].rc, FIRN_OK);
    io_queue_close(queue);
    io_system_counters(system, IO_CLASS_TABLE, counters);
    assert_int_equal(counters->merged, 1); /* the second of the first two */
    free(counters);
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
    sim_disk_destroy(disk);
}

static void test_a_full_disk_takes_none_of_an_atomic_write(void **state)
{
    (void)state;
    struct sim_disk *disk = atomic_disk();
    struct io_system *system = disk_open(disk, 1);
    struct io_file *file = file_create(system, "/f", IO_OPEN_DIRECT);
    sim_disk_set_capacity(disk, 4096);
    ASSERT_OK(write_at(file, 0, UNIT, true));
    assert_int_equal(write_at(file, UNIT, UNIT, true), FIRN_E_NOSPACE);
    assert_int_equal(file_size(system, "/f"), UNIT);
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
    sim_disk_destroy(disk);
}

/* What this machine's file system says is its own affair; that it can be asked is ours. */
static void test_real_files_tell_what_they_can(void **state)
{
    (void)state;
    const char *directory = scratch_make();
    for (unsigned i = 0; i < sizeof(moving_backends) / sizeof(moving_backends[0]); i++) {
        struct io_system *system;
        struct io_file *file;
        char path[512];
        snprintf(path, sizeof(path), "%s/f", directory);
        captured_start();
        ASSERT_OK(io_system_open(moving_backends[i], clock_real(), &system));
        ASSERT_OK(
            io_file_open(system, IO_CLASS_TABLE, path, IO_OPEN_CREATE | IO_OPEN_DIRECT, &file));
        captured_stop();
        uint32_t atomic_bytes = io_file_atomic_write_bytes(file);
        assert_int_equal(atomic_bytes & (atomic_bytes - 1), 0);
        struct io_queue *queue = queue_open(system, 1, 0);
        struct io_request request = {.file = file,
                                     .op = IO_OP_WRITE,
                                     .buffer = ones,
                                     .size_bytes = UNIT,
                                     .is_atomic = atomic_bytes >= UNIT};
        struct io_request *pointer = &request;
        ASSERT_OK(io_queue_submit(queue, &pointer, 1));
        assert_int_equal(io_queue_reap(queue, 1, 1, &pointer), 1);
        ASSERT_OK(io_request_raise(&request));
        io_queue_close(queue);
        ASSERT_OK(io_file_close(file));
        io_system_close(system);
    }
    scratch_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_atomic_write_is_kept_or_lost_whole),
        cmocka_unit_test(test_what_cannot_be_atomic_is_refused),
        cmocka_unit_test(test_atomic_writes_are_not_merged),
        cmocka_unit_test(test_a_full_disk_takes_none_of_an_atomic_write),
        cmocka_unit_test(test_real_files_tell_what_they_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
