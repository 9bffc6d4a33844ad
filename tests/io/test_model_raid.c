#include "io/model_helper.h"

static void more_members_do_more(void **state)
{
    (void)state;
    static const char *const levels[][3] = {
        {"hdd-15k:raid0x2", "hdd-15k:raid0x4", "hdd-15k:raid0x8"},
        {"hdd-15k:raid10x4", "hdd-15k:raid10x8", "hdd-15k:raid10x16"},
        {"hdd-15k:raid5x4", "hdd-15k:raid5x8", "hdd-15k:raid5x16"},
        {"ssd-x25e:raid0x2", "ssd-x25e:raid0x4", "ssd-x25e:raid0x8"},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(levels); i++)
        for (unsigned percent = 0; percent <= 100; percent += 100)
            for (unsigned k = 1; k < 3; k++) {
                double fewer = random_iops(levels[i][k - 1], percent, 128, 0, 1000, 3000);
                double more = random_iops(levels[i][k], percent, 128, 0, 1000, 3000);
                assert_true(more > 1.4 * fewer && more < 2.5 * fewer);
            }
}

static void mirrors_share_reads_and_repeat_writes(void **state)
{
    (void)state;
    double one = random_iops("hdd-15k", 0, 16, 0, 500, 3000);
    double both = random_iops("hdd-15k:raid1x2", 0, 32, 0, 500, 3000);
    assert_true(both > 1.8 * one);
    double write_one = random_iops("hdd-15k", 100, 16, 0, 500, 3000);
    double write_both = random_iops("hdd-15k:raid1x2", 100, 16, 0, 500, 3000);
    assert_true(write_both < 1.02 * write_one);
}

/* Two reads and two writes against two writes; the second pair waits for the first. */
static void raid5_pays_for_small_writes(void **state)
{
    (void)state;
    double raid0 = random_iops("hdd-15k:raid0x6", 100, 64, 0, 1000, 4000);
    double raid10 = random_iops("hdd-15k:raid10x6", 100, 64, 0, 1000, 4000);
    double raid5 = random_iops("hdd-15k:raid5x6", 100, 64, 0, 1000, 4000);
    assert_true(raid0 / raid10 > 1.6 && raid0 / raid10 < 2.4);
    assert_true(raid10 / raid5 > 1.6 && raid10 / raid5 < 2.6);
}

static void raid5_writes_whole_rows_without_reading(void **state)
{
    (void)state;
    struct model_device *device = open_model("hdd-15k:raid5x5", 1);
    uint64_t now_ns = 0;
    /* 4 chunks of 64 KiB. */
    uint64_t whole_ns = do_one(device, IO_OP_WRITE, MIB * 250, 256 * 1024, &now_ns);
    uint64_t part_ns = do_one(device, IO_OP_WRITE, MIB * 22500, 128 * 1024, &now_ns);
    /* At worst a full seek and a turn; with the read before it a whole turn more. */
    assert_true(whole_ns < 12 * NS_PER_MS);
    assert_true(part_ns > whole_ns + 2 * NS_PER_MS);
    model_device_close(device);
}

/* 23 GB on six 15k disks with a cached controller, seven reads for three writes: the published
   difference is 23 %. */
static void raid10_beats_raid5_for_transactions(void **state)
{
    (void)state;
    const uint64_t span = UINT64_C(23000000000);
    double raid10 = random_iops("hdd-15k:raid10x6+cache=64M", 30, 32, span, 30000, 20000);
    double raid5 = random_iops("hdd-15k:raid5x6+cache=64M", 30, 32, span, 30000, 20000);
    print_message("RAID 10 does %.2f of RAID 5\n", raid10 / raid5);
    assert_true(raid10 / raid5 > 1.05 && raid10 / raid5 < 1.5);
}

static void a_protected_cache_makes_syncs_cheap(void **state)
{
    (void)state;
    struct model_device *device = open_model("hdd-7200-raid10x8", 1);
    struct rng rng;
    uint64_t now_ns = 0;
    rng_init(&rng, 1);
    uint64_t commits = 0;
    while (now_ns < NS_PER_S) {
        do_one(device, IO_OP_WRITE, commits * 512, 512, &now_ns);
        do_one(device, IO_OP_SYNC_DATA, 0, 0, &now_ns);
        commits++;
    }
    /* "10,000 syncs/s at most on a cached disk." */
    assert_true(commits > 8000 && commits < 11000);
    model_device_close(device);
}

static void a_burst_fits_the_cache_and_a_flood_does_not(void **state)
{
    (void)state;
    const char *model = "hdd-15k:raid10x4+cache=64M";
    double burst = random_iops(model, 100, 8, 0, 10, 3000);
    double flood = random_iops(model, 100, 8, 0, 20000, 5000);
    double bare = random_iops("hdd-15k:raid10x4", 100, 8, 0, 200, 3000);
    assert_true(burst > 10000);
    assert_true(flood < burst / 5);
    /* Sorted by the cache, more arrive on the disks than they would carry by themselves. */
    assert_true(flood > 1.3 * bare);
}

static void what_the_cache_holds_is_read_from_it(void **state)
{
    (void)state;
    struct model_device *device = open_model("hdd-7200-raid10x8", 1);
    uint64_t now_ns = 0;
    do_one(device, IO_OP_WRITE, 1000 * MIB, 16384, &now_ns);
    assert_true(do_one(device, IO_OP_READ, 1000 * MIB, 16384, &now_ns) < NS_PER_MS);
    assert_true(do_one(device, IO_OP_READ, 900000 * MIB, 16384, &now_ns) > NS_PER_MS);
    model_device_close(device);
}

/* 250 GB on eight SATA disks behind a cache, or on two PCIe drives; three reads for two writes. The
   published ratio of whole systems is 5 to 7: there processors and locks limited the faster one,
   whose devices alone were published to do more. */
static void two_pcie_ssds_beat_eight_disks(void **state)
{
    (void)state;
    const uint64_t span = UINT64_C(250000000000);
    double disks = random_iops("hdd-7200-raid10x8+cache=64M", 40, 128, span, 20000, 10000);
    double flash = random_iops("ssd-pcie:raid0x2", 40, 128, span, 10000, 20000);
    print_message("2 PCIe SSDs do %.1f times what 8 disks do\n", flash / disks);
    assert_true(flash / disks > 7 && flash / disks < 22);
}

/* Pages of a fragmented 10 GB table one by one, or 64 at a time in order of place. */
static void sorted_batches_beat_single_reads(void **state)
{
    (void)state;
    enum { BATCH = 64 };
    const uint64_t pages = UINT64_C(10000000000) / 16384;
    double single = random_iops("hdd-7200-raid10x8", 0, 1, pages * 16384, 100, 1000);
    struct model_device *device = open_model("hdd-7200-raid10x8", 1);
    struct model_io ios[BATCH];
    uint64_t now_ns = 0;
    uint64_t first = 0;
    struct rng rng;
    rng_init(&rng, 1);
    memset(ios, 0, sizeof(ios));
    for (unsigned round = 0; round < 50; round++) {
        /* The batch's pages lie scattered in the next stretch of the file. */
        for (unsigned i = 0; i < BATCH; i++) {
            ios[i].op = IO_OP_READ;
            ios[i].size_bytes = 16384;
            ios[i].offset = (first + i * 100 + rng_below(&rng, 100)) * 16384;
            assert_int_equal(model_device_submit(device, &ios[i], now_ns), FIRN_OK);
        }
        first += BATCH * 100;
        for (unsigned left = BATCH; left > 0;)
            for (struct model_io *io = wait_done(device, &now_ns); io != NULL; io = io->next)
                left--;
    }
    model_device_close(device);
    double sorted = 50.0 * BATCH / ((double)now_ns / 1e9);
    print_message("sorted batches: %.0f pages/s, one by one: %.0f\n", sorted, single);
    assert_true(sorted / single > 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_members_do_more),
        cmocka_unit_test(mirrors_share_reads_and_repeat_writes),
        cmocka_unit_test(raid5_pays_for_small_writes),
        cmocka_unit_test(raid5_writes_whole_rows_without_reading),
        cmocka_unit_test(raid10_beats_raid5_for_transactions),
        cmocka_unit_test(a_protected_cache_makes_syncs_cheap),
        cmocka_unit_test(a_burst_fits_the_cache_and_a_flood_does_not),
        cmocka_unit_test(what_the_cache_holds_is_read_from_it),
        cmocka_unit_test(two_pcie_ssds_beat_eight_disks),
        cmocka_unit_test(sorted_batches_beat_single_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
