#include "base/check.h"
#include "base/memory.h"
#include "io/fault_fixture.h"
#include "io/model.h"

#include <errno.h>
#include <pthread.h>

/* ---- What happens in queues ---- */

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
    struct io_queue *queue = queue_open(sys, DEPTH, 0);
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
    struct io_queue *queue = queue_open(sys, DEPTH, 0);
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
    struct io_queue *queue = queue_open(sys, DEPTH, 0);
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
    struct io_queue *queue = queue_open(sys, DEPTH, 0);
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

/* ---- Over real files ---- */

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
    struct io_queue *queue = queue_open(system, DEPTH, kind == FAULT_SHORT ? DEPTH * BLOCK : 0);
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

/* ---- Over a device model ---- */

static void faults_stack_on_a_device_model(void **state)
{
    (void)state;
    struct model_spec spec;
    struct io_system *system;
    struct fault_injector *injector;
    ASSERT_OK(sim_disk_open_system(disk, clock_, 1, &system));
    ASSERT_OK(model_find("hdd-7200", &spec));
    ASSERT_OK(model_attach(system, &spec));
    ASSERT_OK(fault_attach(system, 1, &injector));
    struct io_file *file = file_open(system, "f", IO_OPEN_CREATE);
    struct io_queue *queue = queue_open(system, DEPTH, 0);
    struct fault_plan one = {
        .kind = FAULT_SLOW, .targets = FAULT_WRITES, .first = 1, .delay_ns = 10 * NS_PER_S};
    struct io_request *done[DEPTH];
    fault_set_plans(injector, &one, 1);
    batch_prepare(&batch, file, IO_OP_WRITE);
    ASSERT_OK(io_queue_submit(queue, batch.pointers, DEPTH));
    assert_int_equal(io_queue_reap(queue, DEPTH - 1, DEPTH, done), DEPTH - 1);
    assert_in_range(clock_now(clock_), 1, NS_PER_S);
    assert_int_equal(io_queue_reap(queue, 1, DEPTH, done), 1);
    assert_ptr_equal(done[0], &batch.requests[0]);
    assert_in_range(clock_now(clock_), 10 * NS_PER_S, 11 * NS_PER_S);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
}

/* ---- Memory ---- */

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
    memory_fail_after(-1);
    assert_true(failures > 6);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_error_in_a_queue_fails_its_request),
        TEST(slow_requests_do_not_hold_up_the_others),
        TEST(stuck_requests_do_not_hold_up_the_others),
        TEST(a_sync_stuck_while_released_from_another_thread_comes_back),
        TEST(every_kind_works_over_every_backend),
        TEST(faults_stack_on_a_device_model),
        TEST(each_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
