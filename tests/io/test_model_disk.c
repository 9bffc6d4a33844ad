#include "io/model_helper.h"

static void a_stream_runs_at_the_zones_rate(void **state)
{
    (void)state;
    struct model_spec spec = find("hdd-7200");
    const double rates[] = {spec.disk.rate_outer_mib_s, spec.disk.rate_inner_mib_s};
    for (unsigned inner = 0; inner < 2; inner++) {
        struct model_device *device = open_model("hdd-7200", 1);
        uint64_t start = inner ? model_device_capacity(device) - 200 * MIB : 0;
        uint64_t now_ns = 0;
        do_one(device, IO_OP_READ, start, 16384, &now_ns);
        uint64_t begin_ns = now_ns;
        /* Depth 1, with a pause of the host between: the drive reads ahead meanwhile. */
        for (uint64_t at = 16384; at < 100 * MIB; at += 16384) {
            do_one(device, IO_OP_READ, start + at, 16384, &now_ns);
            now_ns += 5000;
        }
        double mib_s = 100 / ((double)(now_ns - begin_ns) / 1e9);
        assert_true(mib_s > 0.97 * rates[inner] && mib_s < 1.01 * rates[inner]);
        model_device_close(device);
    }
}

static void writes_one_after_another_miss_the_turn(void **state)
{
    (void)state;
    struct model_device *device = open_model("hdd-15k", 1);
    uint64_t now_ns = 0;
    do_one(device, IO_OP_WRITE, 0, 4096, &now_ns);
    uint64_t begin_ns = now_ns;
    for (unsigned i = 1; i <= 100; i++)
        do_one(device, IO_OP_WRITE, 4096 * i, 4096, &now_ns);
    double turns = (double)(now_ns - begin_ns) / 4e6 / 100;
    assert_true(turns > 0.99 && turns < 1.05);
    model_device_close(device);
}

static void a_volatile_cache_answers_at_once_and_a_sync_empties_it(void **state)
{
    (void)state;
    struct model_device *device = open_model("hdd-7200", 1);
    uint64_t now_ns = 0;
    uint64_t slowest_ns = 0;
    for (unsigned i = 0; i < 20; i++) {
        uint64_t ns = do_one(device, IO_OP_WRITE, i * 40000 * MIB, 16384, &now_ns);
        slowest_ns = ns > slowest_ns ? ns : slowest_ns;
    }
    assert_true(slowest_ns < NS_PER_MS);
    uint64_t sync_ns = do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns);
    assert_true(sync_ns > 40 * NS_PER_MS);
    assert_true(do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns) < NS_PER_MS);
    model_device_close(device);
}

/* A log: write a block behind the last one, sync, again. Each costs a turn, 8.3 ms. */
static void a_log_on_a_plain_disk_costs_a_turn_each_commit(void **state)
{
    (void)state;
    struct model_device *device = open_model("hdd-7200", 1);
    uint64_t now_ns = 0;
    for (unsigned i = 0; i < 50; i++) {
        do_one(device, IO_OP_WRITE, 4096 * i, 4096, &now_ns);
        do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns);
    }
    double each_ms = (double)now_ns / 50 / 1e6;
    assert_true(each_ms > 7.5 && each_ms < 9);
    model_device_close(device);
}

/* The last block of a log, written again with each commit and synced now and then. */
static void a_block_written_again_goes_to_the_platter_once(void **state)
{
    (void)state;
    struct model_device *device = open_model("hdd-7200", 1);
    uint64_t now_ns = 0;
    do_one(device, IO_OP_WRITE, 500000 * MIB, 4096, &now_ns); /* the arm has something to do */
    for (unsigned i = 0; i < 8000; i++)
        do_one(device, IO_OP_WRITE, i / 100 * 4096, 4096, &now_ns);
    assert_true(do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns) < 60 * NS_PER_MS);
    /* A longer write replaces what lies in it. */
    do_one(device, IO_OP_WRITE, 500000 * MIB, 4096, &now_ns);
    for (unsigned i = 0; i < 1000; i++) {
        do_one(device, IO_OP_WRITE, 4096 * (i % 16), 4096, &now_ns);
        do_one(device, IO_OP_WRITE, 0, 65536, &now_ns);
    }
    assert_true(do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns) < 60 * NS_PER_MS);
    assert_true(do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns) < NS_PER_MS);
    model_device_close(device);
}

/* What is written again while a sync waits for it is the sync's still. */
static void a_sync_waits_for_bytes_that_were_replaced_meanwhile(void **state)
{
    (void)state;
    struct model_device *device = open_model("hdd-7200", 1);
    struct model_io sync = {.op = IO_OP_SYNC_DATA};
    struct model_io again = {.op = IO_OP_WRITE, .offset = 4096, .size_bytes = 8192};
    uint64_t now_ns = 0;
    for (unsigned i = 1; i <= 10; i++)
        do_one(device, IO_OP_WRITE, i * 80000 * MIB, 4096, &now_ns);
    do_one(device, IO_OP_WRITE, 8192, 4096, &now_ns);
    assert_int_equal(model_device_submit(device, &sync, now_ns), FIRN_OK);
    assert_int_equal(model_device_submit(device, &again, now_ns), FIRN_OK);
    assert_ptr_equal(wait_done(device, &now_ns), &again);
    assert_ptr_equal(wait_done(device, &now_ns), &sync);
    assert_true(do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns) < NS_PER_MS);
    model_device_close(device);
}

static void no_request_starves(void **state)
{
    (void)state;
    struct model_device *device = open_model("hdd-15k", 1);
    struct model_io near[32] = {0};
    struct model_io far = {.op = IO_OP_READ, .offset = 280000 * MIB, .size_bytes = 4096};
    struct rng rng;
    uint64_t now_ns = 0;
    bool far_done = false;
    rng_init(&rng, 1);
    for (unsigned i = 0; i < ARRAY_COUNT(near); i++) {
        near[i].op = IO_OP_READ;
        near[i].size_bytes = 4096;
        near[i].offset = rng_below(&rng, 1000) * 4096;
        assert_int_equal(model_device_submit(device, &near[i], 0), FIRN_OK);
    }
    assert_int_equal(model_device_submit(device, &far, 0), FIRN_OK);
    while (!far_done)
        for (struct model_io *io = wait_done(device, &now_ns), *next; io != NULL; io = next) {
            next = io->next;
            far_done = far_done || io == &far;
            if (io == &far)
                continue;
            io->offset = rng_below(&rng, 1000000) * 512;
            assert_int_equal(model_device_submit(device, io, now_ns), FIRN_OK);
        }
    assert_true(far.done_ns < NS_PER_S);
    model_device_close(device);
}

static void a_deeper_queue_is_never_slower(void **state)
{
    (void)state;
    static const char *const models[] = {"hdd-7200", "hdd-15k:raid10x4", "ssd-x25e", "nvme"};
    for (unsigned i = 0; i < ARRAY_COUNT(models); i++)
        for (unsigned percent = 0; percent <= 100; percent += 100) {
            double last = 0;
            for (unsigned depth = 1; depth <= 64; depth *= 4) {
                double iops = random_iops(models[i], percent, depth, 0, 8000, 4000);
                assert_true(iops > 0.98 * last);
                last = iops;
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_runs_at_the_zones_rate),
        cmocka_unit_test(writes_one_after_another_miss_the_turn),
        cmocka_unit_test(a_volatile_cache_answers_at_once_and_a_sync_empties_it),
        cmocka_unit_test(a_log_on_a_plain_disk_costs_a_turn_each_commit),
        cmocka_unit_test(a_block_written_again_goes_to_the_platter_once),
        cmocka_unit_test(a_sync_waits_for_bytes_that_were_replaced_meanwhile),
        cmocka_unit_test(no_request_starves),
        cmocka_unit_test(a_deeper_queue_is_never_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
