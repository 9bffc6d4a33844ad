#include "io/sim_fixture.h"

/* ---- Queues ---- */

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

static void queues_complete_in_an_order_drawn_from_the_seed(void **state)
{
    (void)state;
    unsigned orders[4][DEPTH];
    struct io_file *file = file_open(sys, "f", IO_OPEN_CREATE);
    ASSERT_OK(io_file_close(file));
    for (unsigned run = 0; run < 4; run++) {
        struct io_system *system = disk_open(disk, run / 2);
        file = file_open(system, "f", 0);
        struct io_queue *queue = queue_open(system, DEPTH, 0);
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
    struct io_queue *queue = queue_open(sys, DEPTH, 0);
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
    struct io_queue *queue = queue_open(sys, DEPTH, 0);
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
    struct io_queue *queue = queue_open(system, DEPTH, 0);
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
    struct io_queue *queue = queue_open(sys, DEPTH, 0);
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(queues_complete_in_an_order_drawn_from_the_seed),
        TEST(looking_brings_everything_in_time),
        TEST(writes_under_way_at_the_cut_are_in_doubt),
        TEST(a_sync_in_a_queue_covers_what_was_reaped_before),
        TEST(a_clone_has_what_was_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
