#include "base/check.h"
#include "base/memory.h"
#include "io/sim_support.h"

#include <errno.h>
#include <pthread.h>

enum { BLOCK = 4096, DEPTH = 8 };

static struct sim_disk *disk;
static struct clock *clock_;
static struct io_system *sys;
static struct fault_injector *faults;

/* A simulated disk on a virtual clock, so that delays are exact and take no time. */
static int setup(void **state)
{
    (void)state;
    disk = disk_make();
    ASSERT_OK(clock_open_virtual(&clock_));
    clock_join(clock_);
    ASSERT_OK(sim_disk_open_system(disk, clock_, 1, &sys));
    ASSERT_OK(fault_attach(sys, 1, &faults));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    memory_fail_after(-1);
    io_system_close(sys);
    sim_disk_destroy(disk);
    clock_leave(clock_);
    clock_close(clock_);
    return 0;
}

static void plan(struct fault_plan one)
{
    fault_set_plans(faults, &one, 1);
}

static firn_rc try_open(enum io_class class, const char *path, unsigned flags)
{
    struct io_file *file;
    firn_rc rc = io_file_open(sys, class, path, flags, &file);
    if (rc == FIRN_OK)
        ASSERT_OK(io_file_close(file));
    return rc;
}

/* ---- What is hit -------------------------------------------------------------------------------
 */

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

/* ---- What happens, one request at a time -------------------------------------------------------
 */

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

static void *release_after_a_second(void *unused)
{
    (void)unused;
    clock_wait_until(clock_, NS_PER_S);
    fault_release(faults);
    clock_leave(clock_);
    return NULL;
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

/* ---- What happens in queues --------------------------------------------------------------------
 */

struct batch {
    struct io_request requests[DEPTH];
    struct io_request *pointers[DEPTH];
    uint8_t bytes[DEPTH][BLOCK];
};

static void batch_prepare(struct batch *batch, struct io_file *file, enum io_op op)
{
    memset(batch->requests, 0, sizeof(batch->requests));
    for (unsigned i = 0; i < DEPTH; i++) {
        batch->requests[i] = (struct io_request){.file = file,
                                                 .op = op,
                                                 .size_bytes = BLOCK,
                                                 .buffer = batch->bytes[i],
                                                 .offset = (uint64_t)i * BLOCK};
        batch->pointers[i] = &batch->requests[i];
    }
}

static struct io_queue *queue_open(struct io_system *system, uint32_t merge_max_bytes)
{
    struct io_queue *queue;
    struct io_queue_options options = {.depth = DEPTH, .merge_max_bytes = merge_max_bytes};
    ASSERT_OK(io_queue_open(system, &options, &queue));
    return queue;
}

static struct batch batch;

static void run_batch(struct io_queue *queue)
{
    struct io_request *done[DEPTH];
    ASSERT_OK(io_queue_submit(queue, batch.pointers, DEPTH));
    assert_int_equal(io_queue_reap(queue, DEPTH, DEPTH, done), DEPTH);
}

static void an_error_in_a_queue_fails_its_request(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    struct io_queue *queue = queue_open(sys, 0);
    batch_prepare(&batch, file, IO_OP_WRITE);
    plan((struct fault_plan){.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 3});
    run_batch(queue);
    for (unsigned i = 0; i < DEPTH; i++)
        assert_int_equal(batch.requests[i].rc, i == 2 ? FIRN_E_IO : FIRN_OK);
    assert_int_equal(batch.requests[2].error, EIO);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
}

static void slow_requests_do_not_hold_up_the_others(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    struct io_queue *queue = queue_open(sys, 0);
    struct io_request *done[DEPTH];
    batch_prepare(&batch, file, IO_OP_WRITE);
    plan((struct fault_plan){
        .kind = FAULT_SLOW, .targets = FAULT_WRITES, .first = 1, .every = 4, .delay_ns = 1000});
    ASSERT_OK(io_queue_submit(queue, batch.pointers, DEPTH));
    assert_int_equal(io_queue_reap(queue, DEPTH - 2, DEPTH, done), DEPTH - 2);
    assert_int_equal(clock_now(clock_), 0);
    for (unsigned i = 0; i < DEPTH - 2; i++)
        assert_true(done[i] != &batch.requests[0] && done[i] != &batch.requests[4]);
    assert_int_equal(io_queue_reap_until(queue, 1, DEPTH, 999, done), 0);
    assert_int_equal(clock_now(clock_), 999);
    assert_int_equal(io_queue_reap(queue, 2, DEPTH, done), 2);
    assert_int_equal(clock_now(clock_), 1000);
    ASSERT_OK(batch.requests[0].rc);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
}

static void stuck_requests_do_not_hold_up_the_others(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    struct io_queue *queue = queue_open(sys, 0);
    struct io_request *done[DEPTH];
    batch_prepare(&batch, file, IO_OP_WRITE);
    plan((struct fault_plan){.kind = FAULT_STUCK, .targets = FAULT_WRITES, .first = 2});
    ASSERT_OK(io_queue_submit(queue, batch.pointers, DEPTH));
    assert_int_equal(io_queue_reap(queue, DEPTH - 1, DEPTH, done), DEPTH - 1);
    assert_int_equal(io_queue_reap_until(queue, 1, DEPTH, NS_PER_S, done), 0);
    assert_int_equal(clock_now(clock_), NS_PER_S);
    fault_release(faults);
    assert_int_equal(io_queue_reap(queue, 1, DEPTH, done), 1);
    assert_ptr_equal(done[0], &batch.requests[1]);
    ASSERT_OK(done[0]->rc);
    assert_int_equal(file_size(sys, "f"), DEPTH * BLOCK);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
}

static void a_sync_stuck_while_released_from_another_thread_comes_back(void **state)
{
    (void)state;
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    struct io_queue *queue = queue_open(sys, 0);
    struct io_request sync = {.file = file, .op = IO_OP_SYNC_ALL};
    struct io_request *pointer = &sync;
    plan((struct fault_plan){.kind = FAULT_STUCK, .targets = FAULT_SYNCS, .first = 1});
    ASSERT_OK(io_queue_submit(queue, &pointer, 1));
    pthread_t thread;
    clock_join(clock_);
    assert_int_equal(pthread_create(&thread, NULL, release_after_a_second, NULL), 0);
    assert_int_equal(io_queue_reap(queue, 1, 1, &pointer), 1);
    ASSERT_OK(sync.rc);
    assert_true(clock_now(clock_) >= NS_PER_S);
    clock_leave(clock_);
    pthread_join(thread, NULL);
    clock_join(clock_);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
}

/* ---- Over real files ---------------------------------------------------------------------------
 */

/* One kind at every other operation, through a queue that merges, on one backend; then read back
   without faults. */
static void run_over_files(enum io_backend backend, enum fault_kind kind, const char *path)
{
    struct io_system *system;
    struct fault_injector *injector;
    ASSERT_OK(io_system_open(backend, clock_real(), &system));
    ASSERT_OK(fault_attach(system, 1, &injector));
    assert_non_null(strstr(io_system_describe(system), "faults over"));
    struct io_file *file;
    ASSERT_OK(io_file_open(system, IO_CLASS_TABLE, path, IO_OPEN_CREATE | IO_OPEN_TRUNCATE, &file));
    struct io_queue *queue = queue_open(system, kind == FAULT_SHORT ? DEPTH * BLOCK : 0);
    struct fault_plan one = {.kind = kind,
                             .targets = FAULT_READS | FAULT_WRITES,
                             .first = 1,
                             .every = 2,
                             .delay_ns = 2 * NS_PER_MS};
    for (unsigned i = 0; i < DEPTH; i++)
        memset(batch.bytes[i], (int)i + 1, BLOCK);
    batch_prepare(&batch, file, IO_OP_WRITE);
    fault_set_plans(injector, &one, 1);
    run_batch(queue);
    for (unsigned i = 0; i < DEPTH; i++)
        assert_int_equal(batch.requests[i].rc,
                         kind == FAULT_ERROR && i % 2 == 0 ? FIRN_E_IO : FIRN_OK);
    assert_true(kind == FAULT_ROT || fault_hits(injector) > 0);
    fault_set_plans(injector, NULL, 0);
    ASSERT_OK(io_file_set_size(file, (DEPTH + 1) * BLOCK));
    batch_prepare(&batch, file, IO_OP_READ);
    run_batch(queue);
    bool thrown = kind == FAULT_LOST || kind == FAULT_ERROR || kind == FAULT_MISDIRECT;
    for (unsigned i = 0; i < DEPTH; i++)
        /* A misdirected block may have come before or after the one that belongs there. */
        if (kind != FAULT_MISDIRECT || i % 2 == 0)
            assert_int_equal(batch.bytes[i][BLOCK - 1], thrown && i % 2 == 0 ? 0 : i + 1);
    fault_set_plans(injector, &one, 1);
    batch_prepare(&batch, file, IO_OP_READ);
    run_batch(queue);
    assert_true(kind == FAULT_MISDIRECT || kind == FAULT_LOST || fault_hits(injector) > 0);
    fault_set_plans(injector, NULL, 0);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
}

static void every_kind_works_over_every_backend(void **state)
{
    (void)state;
    static const enum fault_kind kinds[] = {FAULT_ERROR, FAULT_SHORT,     FAULT_SLOW,
                                            FAULT_ROT,   FAULT_MISDIRECT, FAULT_LOST};
    const char *directory = scratch_make();
    char path[300];
    snprintf(path, sizeof(path), "%s/f", directory);
    captured_start(); /* a backend that is forbidden here falls back with a warning */
    for (unsigned i = 0; i < ARRAY_COUNT(moving_backends); i++)
        for (unsigned k = 0; k < ARRAY_COUNT(kinds); k++)
            run_over_files(moving_backends[i], kinds[k], path);
    captured_stop();
    scratch_remove(directory);
}

/* ---- Memory ------------------------------------------------------------------------------------
 */

static firn_rc use_everything(void)
{
    struct io_system *system = NULL;
    struct io_file *file = NULL;
    struct io_queue *queue = NULL;
    struct fault_injector *injector;
    firn_rc rc;
    FIRN_TRY(sim_disk_open_system(disk, clock_, 1, &system));
    FIRN_TRY_GOTO(fault_attach(system, 1, &injector), end);
    FIRN_TRY_GOTO(io_file_open(system, IO_CLASS_REDO, "f", IO_OPEN_CREATE, &file), end);
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
    assert_true(failures > 6);
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
        TEST(an_error_in_a_queue_fails_its_request),
        TEST(slow_requests_do_not_hold_up_the_others),
        TEST(stuck_requests_do_not_hold_up_the_others),
        TEST(a_sync_stuck_while_released_from_another_thread_comes_back),
        TEST(every_kind_works_over_every_backend),
        TEST(each_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
