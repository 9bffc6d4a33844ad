/* Where files lie on a modelled device, and what it says of them. */
#include "io/model_world.h"

static void it_says_what_it_is(void **state)
{
    (void)state;
    struct io_system *system = NULL;
    const char *directory = scratch_make();
    char path[300];
    snprintf(path, sizeof(path), "%s/f", directory);
    ASSERT_OK(io_system_open(IO_BACKEND_THREADS, clock_real(), &system));
    attach(system, "ssd-x25e");
    assert_string_equal(io_system_describe(system), "modelled ssd-x25e over threads");
    assert_int_equal(io_system_backend(system), IO_BACKEND_THREADS);
    assert_ptr_equal(io_system_clock(system), clock_real());
    struct io_file *direct = open_file(system, path, IO_OPEN_CREATE | IO_OPEN_DIRECT);
    assert_true(io_file_is_direct(direct));
    assert_int_equal(io_file_alignment(direct), 512);
    struct io_file *buffered = open_file(system, path, 0);
    assert_false(io_file_is_direct(buffered));
    assert_int_equal(io_file_alignment(buffered), 1);
    ASSERT_OK(io_file_close(direct));
    ASSERT_OK(io_file_close(buffered));
    io_system_close(system);
    scratch_remove(directory);
}

static void what_does_not_fit_the_device_is_refused(void **state)
{
    (void)state;
    struct world world = world_open("hdd-7200+capacity=16M");
    struct io_file *first = open_file(world.system, "/a", IO_OPEN_CREATE);
    struct io_file *second = open_file(world.system, "/b", IO_OPEN_CREATE);
    char block[4096] = {0};
    ASSERT_OK(io_file_allocate(first, 0, 10 * MIB));
    assert_int_equal(io_file_allocate(second, 0, 7 * MIB), FIRN_E_NOSPACE);
    assert_int_equal(io_file_set_size(second, 7 * MIB), FIRN_E_NOSPACE);
    assert_int_equal(io_write(second, block, sizeof(block), 6 * MIB), FIRN_E_NOSPACE);
    uint64_t size_bytes = 1;
    ASSERT_OK(io_file_size(second, &size_bytes));
    assert_int_equal(size_bytes, 0);

    struct io_queue *queue = open_queue(world.system, 4);
    struct io_request request = {.file = second,
                                 .op = IO_OP_WRITE,
                                 .buffer = block,
                                 .size_bytes = sizeof(block),
                                 .offset = 6 * MIB};
    struct io_request *pointer = &request;
    struct io_request *done[1];
    ASSERT_OK(io_queue_submit(queue, &pointer, 1));
    assert_int_equal(io_queue_reap(queue, 1, 1, done), 1);
    assert_int_equal(request.rc, FIRN_E_NOSPACE);
    io_queue_close(queue);

    /* Cut off, or removed and closed, a file gives its room back. */
    ASSERT_OK(io_file_set_size(first, 9 * MIB));
    ASSERT_OK(io_file_allocate(second, 0, 7 * MIB));
    ASSERT_OK(io_file_set_size(second, 0));
    ASSERT_OK(io_remove(world.system, "/a"));
    assert_int_equal(io_file_allocate(second, 0, 8 * MIB), FIRN_E_NOSPACE);
    ASSERT_OK(io_file_close(first));
    ASSERT_OK(io_file_allocate(second, 0, 16 * MIB));
    ASSERT_OK(io_file_close(second));
    world_close(&world);
}

static void a_file_too_large_for_the_device_is_not_opened(void **state)
{
    (void)state;
    struct world world = world_open(NULL);
    struct io_file *file = open_file(world.system, "/a", IO_OPEN_CREATE);
    ASSERT_OK(io_file_set_size(file, 20 * MIB));
    ASSERT_OK(io_file_close(file));
    attach(world.system, "hdd-7200+capacity=16M");
    assert_int_equal(io_file_open(world.system, IO_CLASS_TABLE, "/a", 0, &file), FIRN_E_NOSPACE);
    file = open_file(world.system, "/a", IO_OPEN_TRUNCATE);
    ASSERT_OK(io_file_close(file));
    world_close(&world);
}

/* Renaming keeps a file's place, and its new name's old file's room is free. */
static void names_may_change(void **state)
{
    (void)state;
    struct world world = world_open("hdd-7200+capacity=16M");
    struct io_file *file = open_file(world.system, "/a", IO_OPEN_CREATE);
    ASSERT_OK(io_file_allocate(file, 0, 8 * MIB));
    ASSERT_OK(io_file_close(file));
    file = open_file(world.system, "/b", IO_OPEN_CREATE);
    ASSERT_OK(io_file_allocate(file, 0, 8 * MIB));
    ASSERT_OK(io_file_close(file));
    ASSERT_OK(io_rename(world.system, "/a", "/b"));
    file = open_file(world.system, "/c", IO_OPEN_CREATE);
    assert_int_equal(io_file_allocate(file, 0, 9 * MIB), FIRN_E_NOSPACE);
    ASSERT_OK(io_file_allocate(file, 0, 8 * MIB));
    ASSERT_OK(io_file_close(file));
    file = open_file(world.system, "/b", 0);
    ASSERT_OK(io_file_close(file));
    world_close(&world);
}

/* Two files grow in turn; each is then read at the disk's rate, not at a seek a block. */
static void files_that_grow_side_by_side_stay_whole(void **state)
{
    (void)state;
    enum { BYTES = 32 << 20, BLOCK = 65536 };
    struct world world = world_open("hdd-15k");
    struct io_file *files[2] = {open_file(world.system, "/a", IO_OPEN_CREATE),
                                open_file(world.system, "/b", IO_OPEN_CREATE)};
    char *block = memory_zalloc(1, BLOCK);
    for (uint64_t at = 0; at < BYTES; at += BLOCK)
        for (unsigned f = 0; f < 2; f++)
            ASSERT_OK(io_write(files[f], block, BLOCK, at));
    for (unsigned f = 0; f < 2; f++) {
        uint64_t start_ns = clock_now(world.clock);
        for (uint64_t at = 0; at < BYTES; at += BLOCK)
            ASSERT_OK(io_read(files[f], block, BLOCK, at));
        double seconds = (double)(clock_now(world.clock) - start_ns) / 1e9;
        assert_true(32 / seconds > 170);
        ASSERT_OK(io_file_close(files[f]));
    }
    memory_free(block);
    world_close(&world);
}

/* A request across places that are not adjacent on the device is carried out in pieces. */
static void a_scattered_file_is_read_in_pieces(void **state)
{
    (void)state;
    struct world world = world_open("ssd-x25e+capacity=8M");
    struct io_file *files[3];
    char names[3][3] = {"/a", "/b", "/c"};
    uint64_t *block = memory_zalloc(4, MIB);
    for (unsigned f = 0; f < 2; f++)
        files[f] = open_file(world.system, names[f], IO_OPEN_CREATE);
    for (uint64_t unit = 1; unit <= 4; unit++)
        for (unsigned f = 0; f < 2; f++)
            ASSERT_OK(io_file_allocate(files[f], 0, unit * MIB));
    ASSERT_OK(io_file_close(files[0]));
    ASSERT_OK(io_remove(world.system, names[0]));
    files[2] = open_file(world.system, names[2], IO_OPEN_CREATE);
    for (size_t i = 0; i < 4 * MIB / 8; i++)
        block[i] = i;
    ASSERT_OK(io_write(files[2], block, 4 * MIB, 0));
    memset(block, 0, 4 * MIB);
    ASSERT_OK(io_read(files[2], block, 4 * MIB, 0));
    for (size_t i = 0; i < 4 * MIB / 8; i++)
        assert_int_equal(block[i], i);
    ASSERT_OK(io_file_close(files[1]));
    ASSERT_OK(io_file_close(files[2]));
    memory_free(block);
    world_close(&world);
}

static void a_read_behind_the_end_is_short(void **state)
{
    (void)state;
    struct world world = world_open("ssd-x25e");
    struct io_file *file = open_file(world.system, "/a", IO_OPEN_CREATE);
    char block[4096] = {0};
    assert_int_equal(io_read(file, block, sizeof(block), 0), FIRN_E_SHORT);
    ASSERT_OK(io_write(file, block, 100, 0));
    assert_int_equal(io_read(file, block, sizeof(block), 0), FIRN_E_SHORT);
    assert_int_equal(io_read(file, block, sizeof(block), 100 * MIB), FIRN_E_SHORT);
    ASSERT_OK(io_file_close(file));
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_what_it_is),
        cmocka_unit_test(what_does_not_fit_the_device_is_refused),
        cmocka_unit_test(a_file_too_large_for_the_device_is_not_opened),
        cmocka_unit_test(names_may_change),
        cmocka_unit_test(files_that_grow_side_by_side_stay_whole),
        cmocka_unit_test(a_scattered_file_is_read_in_pieces),
        cmocka_unit_test(a_read_behind_the_end_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
