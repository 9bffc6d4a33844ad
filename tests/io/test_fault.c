#include "io/fault_fixture.h"

#include <errno.h>
#include <pthread.h>

static firn_rc try_open(enum io_class class, const char *path, unsigned flags)
{
    struct io_file *file;
    firn_rc rc = io_file_open(sys, class, path, flags, &file);
    if (rc == FIRN_OK)
        ASSERT_OK(io_file_close(file));
    return rc;
}

/* ---- What is hit ---- */

static void the_first_and_each_so_many_after_it_are_hit(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    plan((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 3, .every = 4});
    uint8_t byte;
    for (unsigned i = 1; i <= 12; i++) {
        bool hit = i == 3 || i == 7 || i == 11;
        assert_int_equal(io_write(file, "x", 1, i), hit ? FIRN_E_IO : FIRN_OK);
        ASSERT_OK(io_read(file, &byte, 1, 0));
    }
    assert_int_equal(fault_seen(faults, FAULT_WRITES), 12);
    assert_int_equal(fault_seen(faults, FAULT_WRITES | FAULT_READS), 24);
    assert_int_equal(fault_seen(faults, FAULT_SYNCS | FAULT_METADATA), 0);
    assert_int_equal(fault_hits(faults), 3);
    plan((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 2});
    assert_int_equal(fault_hits(faults), 0);
    ASSERT_OK(io_write(file, "x", 1, 0));
    assert_int_equal(io_write(file, "x", 1, 0), FIRN_E_IO);
    ASSERT_OK(io_write(file, "x", 1, 0));
    ASSERT_OK(io_file_close(file));
}

static void an_error_is_the_one_planned_and_nothing_is_done(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    plan((struct fault_plan){
        .kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 1, .error = ENOSPC});
    assert_int_equal(io_write(file, "x", 1, 0), FIRN_E_NOSPACE);
    ASSERT_TEXT("f");
    assert_int_equal(file_size(sys, "f"), 0);
    ASSERT_OK(io_file_close(file));
}

static firn_rc ignore_name(const char *name, void *context)
{
    (void)name;
    (void)context;
    return FIRN_OK;
}

/* One metadata operation or directory sync by number. */
static firn_rc operate(unsigned number, struct io_file *file)
{
    uint64_t size_bytes;
    struct io_lock *lock;
    switch (number) {
    case 0:
        return try_open(IO_CLASS_TABLE, "new", IO_OPEN_CREATE);
    case 1:
        return io_file_size(file, &size_bytes);
    case 2:
        return io_file_set_size(file, 100);
    case 3:
        return io_remove(sys, "new");
    case 4:
        return io_rename(sys, "f", "g");
    case 5:
        return io_make_directory(sys, "d");
    case 6:
        return io_remove_directory(sys, "d");
    case 7:
        return io_list(sys, "/", ignore_name, NULL);
    case 8:
        return io_sync_directory(sys, "/");
    case 9:
        FIRN_TRY(io_lock_directory(sys, "/", &lock));
        io_unlock_directory(lock);
        return FIRN_OK;
    case 10:
        return io_file_allocate(file, 0, 200);
    case 11:
        return io_file_close(file);
    default:
        return io_sync(file, IO_SYNC_ALL);
    }
}

static void every_operation_can_be_hit(void **state)
{
    (void)state;
    /* Syncs fail for good, so each operation meets a fresh system. */
    for (unsigned number = 0; number <= 12; number++) {
        teardown(NULL);
        setup(NULL);
        struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
        unsigned target = number == 8 || number == 12 ? FAULT_SYNCS : FAULT_METADATA;
        if (number == 3)
            ASSERT_OK(try_open(IO_CLASS_TABLE, "new", IO_OPEN_CREATE));
        if (number == 6)
            ASSERT_OK(io_make_directory(sys, "d"));
        plan((struct fault_plan){.kind = FAULT_ERROR, .targets = target, .first = 1});
        firn_rc rc = operate(number, file);
        assert_int_equal(rc, FIRN_E_IO);
        assert_int_equal(fault_hits(faults), 1);
        bool is_closed = number == 11;
        if (!is_closed && number != 8 && number != 12)
            ASSERT_OK(operate(number, file));
        if (!is_closed)
            ASSERT_OK(io_file_close(file));
    }
}

static void classes_are_told_apart(void **state)
{
    (void)state;
    struct io_file *redo;
    struct io_file *table = file_open(sys, "t", IO_OPEN_CREATE);
    ASSERT_OK(io_file_open(sys, IO_CLASS_REDO, "r", IO_OPEN_CREATE, &redo));
    plan((struct fault_plan){.kind = FAULT_ERROR,
                             .targets = FAULT_ALL,
                             .first = 1,
                             .every = 1,
                             .classes = 1U << IO_CLASS_REDO | 1U << IO_CLASS_UNDO});
    ASSERT_OK(io_write(table, "x", 1, 0));
    ASSERT_OK(io_make_directory(sys, "d"));
    assert_int_equal(io_write(redo, "x", 1, 0), FIRN_E_IO);
    assert_int_equal(try_open(IO_CLASS_UNDO, "u", IO_OPEN_CREATE), FIRN_E_IO);
    ASSERT_OK(io_file_close(table));
    assert_int_equal(io_file_close(redo), FIRN_E_IO);
}

static uint64_t hits_by_chance(uint64_t seed)
{
    struct io_system *system = disk_open(disk, 1);
    struct fault_injector *injector;
    ASSERT_OK(fault_attach(system, seed, &injector));
    struct io_file *file = file_open(system, "f", IO_OPEN_CREATE);
    struct fault_plan one = {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .probability = 0.25};
    fault_set_plans(injector, &one, 1);
    uint64_t pattern = 0;
    for (unsigned i = 0; i < 64; i++)
        pattern |= (uint64_t)(io_write(file, "x", 1, 0) != FIRN_OK) << i;
    assert_int_equal(fault_hits(injector), __builtin_popcountll(pattern));
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
    return pattern;
}

static void chances_repeat_from_the_seed(void **state)
{
    (void)state;
    uint64_t pattern = hits_by_chance(1);
    assert_in_range(__builtin_popcountll(pattern), 5, 30);
    assert_true(hits_by_chance(1) == pattern);
    assert_true(hits_by_chance(2) != pattern);
}

static void the_first_plan_that_hits_decides_and_all_count(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    const struct fault_plan plans[] = {
        {.kind = FAULT_ROT, .targets = FAULT_ALL, .first = 1, .every = 1}, /* counts reads only */
        {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 2, .error = ENOSPC},
        {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 2, .every = 1},
    };
    fault_set_plans(faults, plans, 3);
    ASSERT_OK(io_write(file, "x", 1, 0));
    assert_int_equal(io_write(file, "x", 1, 0), FIRN_E_NOSPACE);
    assert_int_equal(io_write(file, "x", 1, 0), FIRN_E_IO);
    assert_int_equal(fault_hits(faults), 2);
    ASSERT_OK(io_file_close(file));
}

/* ---- What happens, one request at a time ---- */

static void what_the_layer_above_can_bear_is_not_seen(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    const struct fault_plan plans[] = {
        {.kind = FAULT_ERROR, .targets = FAULT_ALL, .first = 1, .every = 2, .error = EINTR},
        {.kind = FAULT_SHORT, .targets = FAULT_ALL, .first = 1, .every = 1},
    };
    uint8_t bytes[1000];
    uint8_t read[1000];
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7);
    fault_set_plans(faults, plans, 2);
    ASSERT_OK(io_write(file, bytes, sizeof(bytes), 0));
    ASSERT_OK(io_read(file, read, sizeof(read), 0));
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    assert_true(fault_seen(faults, FAULT_WRITES) > 10);
    assert_memory_equal(bytes, read, sizeof(bytes));
    fault_set_plans(faults, NULL, 0);
    ASSERT_OK(io_file_close(file));
}

static void a_short_direct_request_moves_whole_blocks(void **state)
{
    (void)state;
    static _Alignas(BLOCK) uint8_t bytes[BLOCK];
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE | IO_OPEN_DIRECT);
    plan((struct fault_plan){.kind = FAULT_SHORT, .targets = FAULT_ALL, .first = 1, .every = 1});
    ASSERT_OK(io_write(file, bytes, BLOCK, 0));
    /* 4096 in 2048, 1024, 512 and the last 512, which cannot be halved. */
    assert_int_equal(fault_seen(faults, FAULT_WRITES), 4);
    ASSERT_OK(io_read(file, bytes, BLOCK, 0));
    ASSERT_OK(io_file_close(file));
}

static void slow_operations_take_the_delay_longer(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    plan((struct fault_plan){
        .kind = FAULT_SLOW, .targets = FAULT_ALL, .first = 2, .every = 2, .delay_ns = 5000});
    for (unsigned i = 0; i < 10; i++)
        ASSERT_OK(io_write(file, "x", 1, i));
    assert_int_equal(clock_now(clock_), 5 * 5000);
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(io_remove(sys, "f"));
    assert_int_equal(clock_now(clock_), 6 * 5000);
    ASSERT_OK(io_file_close(file));
}

static void a_stuck_operation_waits_for_release_and_time_goes_on(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    plan((struct fault_plan){.kind = FAULT_STUCK, .targets = FAULT_SYNCS, .first = 1});
    pthread_t thread;
    clock_join(clock_); /* for the thread, so that time waits for it to start */
    assert_int_equal(pthread_create(&thread, NULL, release_after_a_second, NULL), 0);
    ASSERT_OK(io_sync(file, IO_SYNC_DATA));
    assert_true(clock_now(clock_) >= NS_PER_S);
    assert_true(clock_now(clock_) < 2 * NS_PER_S);
    clock_leave(clock_);
    pthread_join(thread, NULL);
    clock_join(clock_);
    ASSERT_OK(io_file_close(file));
}

static void rot_flips_one_bit_of_what_is_read(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    file_fill(file, 0, 1000, 0x55);
    for (unsigned round = 0; round < 20; round++) {
        plan((struct fault_plan){.kind = FAULT_ROT, .targets = FAULT_ALL, .first = 1});
        uint8_t bytes[1000];
        ASSERT_OK(io_read(file, bytes, sizeof(bytes), 0));
        int flipped = 0;
        for (unsigned i = 0; i < sizeof(bytes); i++)
            flipped += __builtin_popcount(bytes[i] ^ 0x55U);
        assert_int_equal(flipped, 1);
    }
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(file_byte(sys, "f", i), 0x55);
    ASSERT_OK(io_file_close(file));
}

static void a_misdirected_write_lands_where_its_neighbour_belongs(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    file_fill(file, 0, 3 * BLOCK, 1);
    plan((struct fault_plan){.kind = FAULT_MISDIRECT, .targets = FAULT_ALL, .first = 1});
    file_fill(file, BLOCK, BLOCK, 2);
    assert_int_equal(file_byte(sys, "f", BLOCK), 1);
    assert_int_equal(file_byte(sys, "f", 2 * BLOCK), 2);
    assert_int_equal(file_byte(sys, "f", 3 * BLOCK - 1), 2);
    assert_int_equal(file_size(sys, "f"), 3 * BLOCK);
    ASSERT_OK(io_file_close(file));
}

static void lost_writes_and_syncs_are_acknowledged(void **state)
{
    (void)state;
    struct io_file *file = file_create(sys, "f", 0);
    plan((struct fault_plan){.kind = FAULT_LOST, .targets = FAULT_ALL, .first = 2});
    file_fill(file, 0, 100, 1);
    file_fill(file, 0, 200, 2);
    assert_int_equal(file_size(sys, "f"), 100);
    assert_int_equal(file_byte(sys, "f", 0), 1);
    plan((struct fault_plan){.kind = FAULT_LOST, .targets = FAULT_SYNCS, .first = 1, .every = 1});
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(io_file_close(file));
    file = file_create(sys, "g", 0);
    ASSERT_OK(io_file_close(file));
    sim_disk_cut(disk, SIM_CUT_DROP, 1);
    io_system_close(sys);
    sim_disk_restore(disk);
    ASSERT_OK(sim_disk_open_system(disk, clock_, 1, &sys));
    assert_int_equal(file_size(sys, "f"), 0);
    assert_int_equal(file_size(sys, "g"), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_first_and_each_so_many_after_it_are_hit),
        TEST(an_error_is_the_one_planned_and_nothing_is_done),
        TEST(every_operation_can_be_hit),
        TEST(classes_are_told_apart),
        TEST(chances_repeat_from_the_seed),
        TEST(the_first_plan_that_hits_decides_and_all_count),
        TEST(what_the_layer_above_can_bear_is_not_seen),
        TEST(a_short_direct_request_moves_whole_blocks),
        TEST(slow_operations_take_the_delay_longer),
        TEST(a_stuck_operation_waits_for_release_and_time_goes_on),
        TEST(rot_flips_one_bit_of_what_is_read),
        TEST(a_misdirected_write_lands_where_its_neighbour_belongs),
        TEST(lost_writes_and_syncs_are_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
