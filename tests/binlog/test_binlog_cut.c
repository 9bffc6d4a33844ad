/*
 * The power is cut at every step of a life with a binary log, and again while it is recovered: what
 * the binary log adds up to is what is in the trees, and what was acknowledged is in both.
 */
#include "binlog_world.h"

enum { TRANSACTIONS = 60, SAMPLES = 45, ROUNDS = 12 };

/* Open after a crash, cutting again in some recoveries. */
static void recover(struct bin_world *bin, unsigned cuts)
{
    for (;;) {
        world_restore(&bin->world, rng_next(&bin->rng));
        if (cuts > 0 && rng_below(&bin->rng, 3) == 0)
            sim_disk_cut_after(bin->world.disk, 1 + rng_below(&bin->rng, 60),
                               all_cuts[rng_below(&bin->rng, ARRAY_COUNT(all_cuts))],
                               rng_next(&bin->rng));
        firn_rc rc = bin_open(bin);
        if (rc == FIRN_OK)
            rc = bin_decide(bin);
        sim_disk_cut_after(bin->world.disk, 0, SIM_CUT_KEEP, 0);
        if (!sim_disk_is_cut(bin->world.disk)) {
            if (rc != FIRN_OK)
                fail_msg("cannot be recovered: %s", firn_error_text());
            return;
        }
        world_count_cut(&bin->world);
        bin_abandon(bin);
        cuts--;
    }
}

static void judge(struct bin_world *bin, uint64_t seed, uint64_t step, enum sim_cut cut)
{
    const char *wrong = bin_wrong(bin);
    if (wrong != NULL)
        fail_msg("seed %llu, cut at step %llu, %s: %s", (unsigned long long)seed,
                 (unsigned long long)step, cut_name(cut), wrong);
}

static void set_mode(struct bin_world *bin, enum store_binlog_sync mode)
{
    bin->world.options.binlog_sync = mode;
}

/* A life of a fixed seed up to a cut, then what is left. @return false if it ended before */
static bool live_and_cut(enum store_binlog_sync mode, uint64_t seed, uint64_t step,
                         enum sim_cut cut)
{
    struct bin_world *bin = calloc(1, sizeof *bin);
    struct sim_disk *disk = disk_make();
    bin_init(bin, disk, seed);
    set_mode(bin, mode);
    ASSERT_OK(bin_open(bin));
    sim_disk_cut_after(disk, step, cut, seed + step);
    firn_rc rc = bin_work(bin, TRANSACTIONS);
    bool was_cut = sim_disk_is_cut(disk);
    if (was_cut) {
        world_count_cut(&bin->world);
        bin_abandon(bin);
        recover(bin, 2);
        judge(bin, seed, step, cut);
        ASSERT_OK(bin_work(bin, 5));
    } else {
        ASSERT_OK(rc);
    }
    judge(bin, seed, step, cut);
    sim_disk_cut_after(disk, 0, SIM_CUT_KEEP, 0);
    ASSERT_OK(bin_close(bin));
    ASSERT_OK(bin_open(bin));
    judge(bin, seed, step, cut);
    ASSERT_OK(bin_close(bin));
    world_end(&bin->world);
    sim_disk_destroy(disk);
    free(bin);
    return was_cut;
}

/* How many steps a life has. */
static uint64_t count_steps(enum store_binlog_sync mode, uint64_t seed)
{
    struct bin_world *bin = calloc(1, sizeof *bin);
    struct sim_disk *disk = disk_make();
    bin_init(bin, disk, seed);
    set_mode(bin, mode);
    ASSERT_OK(bin_open(bin));
    uint64_t before = sim_disk_steps(disk);
    ASSERT_OK(bin_work(bin, TRANSACTIONS));
    uint64_t steps = sim_disk_steps(disk) - before;
    ASSERT_OK(bin_close(bin));
    world_end(&bin->world);
    sim_disk_destroy(disk);
    free(bin);
    return steps;
}

static void cut_at_each_step(enum store_binlog_sync mode, uint64_t seed)
{
    uint64_t steps = count_steps(mode, seed);
    uint64_t stride = test_tries_all() ? 1 : steps / SAMPLES + 1;
    print_message("# %llu steps, every %llu\n", (unsigned long long)steps,
                  (unsigned long long)stride);
    for (uint64_t step = 1 + seed % stride; step <= steps; step += stride)
        assert_true(live_and_cut(mode, seed, step, all_cuts[step / stride % 4]));
}

static void together_the_log_is_the_state(void **state)
{
    (void)state;
    cut_at_each_step(STORE_BINLOG_TOGETHER, test_seed(101));
}

static void separately_the_log_is_the_state(void **state)
{
    (void)state;
    cut_at_each_step(STORE_BINLOG_SEPARATE, test_seed(102));
}

/* Lives that end in a cut, one after the other on one disk, in changing modes. */
static void many_lives(void **state)
{
    (void)state;
    uint64_t seed = test_seed(103);
    struct bin_world *bin = calloc(1, sizeof *bin);
    struct sim_disk *disk = disk_make();
    bin_init(bin, disk, seed);
    ASSERT_OK(bin_open(bin));
    for (unsigned round = 0; round < ROUNDS * test_runs(1); round++) {
        enum sim_cut cut = all_cuts[rng_below(&bin->rng, ARRAY_COUNT(all_cuts))];
        uint64_t step = 1 + rng_below(&bin->rng, 500);
        sim_disk_cut_after(disk, step, cut, rng_next(&bin->rng));
        (void)bin_work(bin, TRANSACTIONS);
        sim_disk_cut(disk, cut, rng_next(&bin->rng)); /* if it has not come to that yet */
        world_count_cut(&bin->world);
        bin_abandon(bin);
        set_mode(bin, (enum store_binlog_sync)rng_below(&bin->rng, 2));
        recover(bin, 3);
        judge(bin, seed, step, cut);
    }
    ASSERT_OK(bin_close(bin));
    world_end(&bin->world);
    sim_disk_destroy(disk);
    free(bin);
}

/* The judge is judged: without the log's syncs a commit can be in one and not in the other. */
static void a_missing_sync_is_caught(void **state)
{
    (void)state;
    uint64_t seed = test_seed(104);
    bool is_caught = false;
    for (unsigned i = 0; i < 60 && !is_caught; i++) {
        struct bin_world *bin = calloc(1, sizeof *bin);
        struct sim_disk *disk = disk_make();
        bin_init(bin, disk, seed + i);
        bin->world.options.canary_skip_log_sync = true;
        ASSERT_OK(bin_open(bin));
        sim_disk_cut_after(disk, 50 + i * 5, SIM_CUT_REORDER, seed + i);
        (void)bin_work(bin, TRANSACTIONS);
        sim_disk_cut(disk, SIM_CUT_REORDER, seed);
        bin_abandon(bin);
        world_restore(&bin->world, seed);
        if (bin_open(bin) != FIRN_OK) {
            is_caught = true;
        } else {
            is_caught = bin_decide(bin) != FIRN_OK || bin_wrong(bin) != NULL;
            bin_abandon(bin);
        }
        world_end(&bin->world);
        sim_disk_destroy(disk);
        free(bin);
    }
    assert_true(is_caught);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(together_the_log_is_the_state),
        cmocka_unit_test(separately_the_log_is_the_state),
        cmocka_unit_test(many_lives),
        cmocka_unit_test(a_missing_sync_is_caught),
    };
    return cmocka_run_group_tests_name("binlog_cut", tests, world_quiet, NULL);
}
