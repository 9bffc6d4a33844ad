#include "io/model_helper.h"

static void a_write_larger_than_the_buffer_streams_through_it(void **state)
{
    (void)state;
    struct model_device *device = open_model("ssd-x25e", 1);
    uint64_t now_ns = 0;
    uint64_t ns = do_one(device, IO_OP_WRITE, 0, 64 << 20, &now_ns);
    double mib_s = 64 / ((double)ns / 1e9);
    assert_true(mib_s > 150 && mib_s < 170);
    model_device_close(device);
}

static void an_unprotected_buffer_is_written_out_by_a_sync(void **state)
{
    (void)state;
    struct model_device *device = open_model("ssd-x25e", 1);
    struct model_spec spec = find("ssd-x25e");
    uint64_t now_ns = 0;
    double idle_us = (double)do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns) / 1e3;
    do_one(device, IO_OP_WRITE, 8 * MIB, 512, &now_ns);
    double dirty_us = (double)do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns) / 1e3;
    double again_us = (double)do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns) / 1e3;
    assert_true(idle_us >= spec.ssd.flush_us && idle_us < spec.ssd.flush_us + 100);
    assert_true(dirty_us > idle_us + spec.ssd.program_us / 2);
    assert_true(again_us < dirty_us - spec.ssd.program_us / 2);
    model_device_close(device);
}

/* The published series: 8 readers at 0.62 ms are the peak, more add waiting only. */
static void the_enterprise_ssd_peaks_at_eight_readers(void **state)
{
    (void)state;
    double rates[7];
    for (unsigned i = 0; i < 7; i++)
        rates[i] = random_iops("ssd-slc-enterprise", 0, 1U << i, 0, 500, 4000) / 64;
    assert_true(rates[2] < 0.85 * rates[6]);
    assert_true(rates[3] > 0.95 * rates[6]);
    double ms = 8 / (rates[3] * 64) * 1e3;
    assert_true(ms > 0.53 && ms < 0.65);
    assert_true(rates[6] > 217 && rates[6] < 227);
    double writes = random_iops("ssd-slc-enterprise", 100, 8, 0, 2000, 8000) / 64;
    assert_true(writes > 144 && writes < 153);
}

/* Completions of random 16 KiB requests in each slot. */
static void count_slots(const char *text, enum io_op op, uint64_t start_ns, uint64_t slot_ns,
                        unsigned slots, unsigned *counts)
{
    struct model_device *device = open_model(text, 1);
    struct model_io ios[8];
    struct rng rng;
    uint64_t now_ns = start_ns;
    memset(ios, 0, sizeof(ios));
    memset(counts, 0, slots * sizeof(*counts));
    rng_init(&rng, 1);
    for (unsigned i = 0; i < ARRAY_COUNT(ios); i++)
        ios[i].next = i + 1 < ARRAY_COUNT(ios) ? &ios[i + 1] : NULL;
    struct model_io *again = ios;
    while (now_ns < start_ns + slots * slot_ns) {
        for (struct model_io *io = again, *next; io != NULL; io = next) {
            next = io->next;
            io->op = op;
            io->size_bytes = 16384;
            io->offset = rng_below(&rng, 1000000) * 16384;
            assert_int_equal(model_device_submit(device, io, now_ns), FIRN_OK);
        }
        again = wait_done(device, &now_ns);
        for (struct model_io *io = again; io != NULL; io = io->next)
            if (now_ns < start_ns + slots * slot_ns)
                counts[(now_ns - start_ns) / slot_ns]++;
    }
    model_device_close(device);
}

static void a_stall_lasts_as_long_and_comes_as_often_as_told(void **state)
{
    (void)state;
    enum { SLOTS = 250 };
    unsigned counts[SLOTS];
    for (enum io_op op = IO_OP_READ; op <= IO_OP_WRITE; op++) {
        count_slots("test-stall", op, 0, NS_PER_S / 10, SLOTS, counts);
        for (unsigned i = 0; i < SLOTS; i++) {
            bool stalled = i % 100 >= 60;
            /* What was about to be answered when it began still is. */
            if (stalled)
                assert_true(counts[i] <= (i % 100 == 60 ? 8U : 0U));
            else
                assert_true(counts[i] > 600 && counts[i] < 680);
        }
    }
}

static void a_slowdown_lasts_as_long_and_comes_as_often_as_told(void **state)
{
    (void)state;
    enum { SLOTS = 125 };
    unsigned counts[SLOTS];
    count_slots("test-slowdown", IO_OP_WRITE, 0, NS_PER_S, SLOTS, counts);
    for (unsigned i = 0; i < SLOTS; i++) {
        double expected = i % 60 >= 50 ? 0.6 * 6400 : 6400;
        assert_true(counts[i] > 0.98 * expected && counts[i] < 1.02 * expected + 64);
    }
}

static void the_enterprise_ssd_dips_under_writes_only(void **state)
{
    (void)state;
    enum { SLOTS = 32 };
    unsigned counts[SLOTS];
    const uint64_t start_ns = 2380 * NS_PER_S;
    count_slots("ssd-slc-enterprise", IO_OP_WRITE, start_ns, NS_PER_S, SLOTS, counts);
    for (unsigned i = 1; i < SLOTS; i++) {
        double mib_s = counts[i] / 64.0;
        if (i >= 10 && i < 20)
            assert_true(mib_s > 83 && mib_s < 91);
        else
            assert_true(mib_s > 144 && mib_s < 153);
    }
    count_slots("ssd-slc-enterprise", IO_OP_READ, start_ns, NS_PER_S, SLOTS, counts);
    for (unsigned i = 0; i < SLOTS; i++)
        assert_true(counts[i] / 64.0 > 215 && counts[i] / 64.0 < 228);
}

/* Minutes of random writes: the interval rates of the consumer drive scatter, the other's do not.
 */
static void the_consumer_ssd_is_unsteady_and_the_other_is_not(void **state)
{
    (void)state;
    enum { SLOTS = 40 };
    static const char *const models[] = {"ssd-sata", "ssd-sata-dc"};
    double variation[2];
    for (unsigned m = 0; m < 2; m++) {
        unsigned counts[SLOTS];
        double sum = 0;
        double squares = 0;
        count_slots(models[m], IO_OP_WRITE, 0, NS_PER_S, SLOTS, counts);
        for (unsigned i = 2; i < SLOTS; i++)
            sum += counts[i];
        double mean = sum / (SLOTS - 2);
        for (unsigned i = 2; i < SLOTS; i++)
            squares += (counts[i] - mean) * (counts[i] - mean);
        variation[m] = squares / (SLOTS - 2) / (mean * mean);
    }
    assert_true(variation[0] > 0.1 * 0.1);
    assert_true(variation[1] < 0.02 * 0.02);
}

/* Garbage collection makes a sync slow, not a standstill: batches of random pages, as a storage
   engine writes them, a sync behind each. */
static void no_sync_of_the_consumer_ssd_takes_half_a_second(void **state)
{
    (void)state;
    enum { BATCHES = 2000, PAGES = 64, PAGE_BYTES = 16384 };
    struct model_device *device = open_model("ssd-sata", 1);
    struct rng rng;
    uint64_t now_ns = 0;
    uint64_t longest_ns = 0;
    rng_init(&rng, 1);
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        for (unsigned i = 0; i < PAGES; i++)
            do_one(device, IO_OP_WRITE, rng_below(&rng, 200000 * MIB / PAGE_BYTES) * PAGE_BYTES,
                   PAGE_BYTES, &now_ns);
        uint64_t sync_ns = do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns);
        longest_ns = sync_ns > longest_ns ? sync_ns : longest_ns;
    }
    assert_true(longest_ns > 200 * NS_PER_MS);
    assert_true(longest_ns < 500 * NS_PER_MS);
    model_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_larger_than_the_buffer_streams_through_it),
        cmocka_unit_test(an_unprotected_buffer_is_written_out_by_a_sync),
        cmocka_unit_test(the_enterprise_ssd_peaks_at_eight_readers),
        cmocka_unit_test(a_stall_lasts_as_long_and_comes_as_often_as_told),
        cmocka_unit_test(a_slowdown_lasts_as_long_and_comes_as_often_as_told),
        cmocka_unit_test(the_enterprise_ssd_dips_under_writes_only),
        cmocka_unit_test(the_consumer_ssd_is_unsteady_and_the_other_is_not),
        cmocka_unit_test(no_sync_of_the_consumer_ssd_takes_half_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
