/*
 * A store that keeps its promises, and seven that lack one sync each, through power cuts at each
 * step, cuts during recovery, and failures of each I/O and each allocation.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "io/toy_store.h"

#include <errno.h>

enum { TRANSACTIONS = 14, CHECKPOINT_EVERY = 4 };

/* Open, commit, checkpoint. @return what stopped it; *acknowledged counts commits from the first */
static firn_rc work(struct io_system *system, enum toy_missing missing, uint64_t *acknowledged)
{
    struct toy toy;
    firn_rc rc = toy_open(system, missing, &toy);
    if (rc != FIRN_OK)
        return rc;
    while (rc == FIRN_OK && toy.sequence < TRANSACTIONS) {
        rc = toy_commit(&toy);
        if (rc == FIRN_OK)
            *acknowledged = toy.sequence;
        if (rc == FIRN_OK && toy.sequence % CHECKPOINT_EVERY == 0)
            rc = toy_checkpoint(&toy);
    }
    toy_close(&toy);
    return rc;
}

/* Does the store open with all that was acknowledged, and no more than what was begun? */
static bool store_is_right(struct sim_disk *disk, enum toy_missing missing, uint64_t acknowledged)
{
    struct io_system *system = disk_open(disk, 1);
    struct toy toy;
    bool right = false;
    if (toy_open(system, missing, &toy) == FIRN_OK) {
        right = toy.sequence >= acknowledged && toy.sequence <= acknowledged + 1 &&
                toy_is_after(&toy, toy.sequence);
        toy_close(&toy);
    }
    io_system_close(system);
    return right;
}

/* ---- Power cuts ---- */

/* Let the power go while the store recovers, now and then. */
static void cut_recovery(struct sim_disk *disk, enum toy_missing missing, enum sim_cut cut,
                         struct rng *rng)
{
    while (rng_below(rng, 2) == 0) {
        sim_disk_cut_after(disk, 1 + rng_below(rng, 14), cut, rng_next(rng));
        struct io_system *system = disk_open(disk, 1);
        struct toy toy;
        if (toy_open(system, missing, &toy) == FIRN_OK)
            toy_close(&toy);
        sim_disk_cut(disk, cut, rng_next(rng));
        io_system_close(system);
        sim_disk_restore(disk);
    }
}

/* Cut at a step. @return whether the store survived; *done when the work ended before the step */
static bool survives(uint64_t step, enum sim_cut cut, uint64_t seed, enum toy_missing missing,
                     bool *done)
{
    struct sim_disk *disk = disk_make();
    struct io_system *system = disk_open(disk, seed);
    struct rng rng;
    uint64_t acknowledged = 0;
    rng_init(&rng, seed ^ step << 32);
    sim_disk_cut_after(disk, step, cut, rng_next(&rng));
    firn_rc rc = work(system, missing, &acknowledged);
    *done = !sim_disk_is_cut(disk);
    assert_int_equal(rc, *done ? FIRN_OK : FIRN_E_IO);
    /* The end is a cut like any other. */
    sim_disk_cut(disk, cut, rng_next(&rng));
    io_system_close(system);
    sim_disk_restore(disk);
    cut_recovery(disk, missing, cut, &rng);
    bool right = store_is_right(disk, missing, acknowledged);
    sim_disk_destroy(disk);
    return right;
}

static void report_loss(uint64_t step, enum sim_cut cut, uint64_t seed)
{
    print_error("lost at step %llu, mode %s, FIRN_TEST_SEED=%llu: %s\n", (unsigned long long)step,
                cut_name(cut), (unsigned long long)seed, firn_error_text());
}

/* Cut at each step in each mode, with several seeds where it is by chance what is left, until the
   first loss. @return true if there was none */
static bool survives_everywhere(enum toy_missing missing, unsigned seeds, uint64_t seed,
                                unsigned *cuts)
{
    for (unsigned mode = 0; mode < 4; mode++) {
        bool by_chance = all_cuts[mode] == SIM_CUT_REORDER || all_cuts[mode] == SIM_CUT_TEAR;
        for (unsigned i = 0; i < (by_chance ? seeds : 1); i++) {
            bool done = false;
            for (uint64_t step = 1; !done; step++, (*cuts)++) {
                if (survives(step, all_cuts[mode], seed + i, missing, &done))
                    continue;
                if (missing == TOY_COMPLETE)
                    report_loss(step, all_cuts[mode], seed + i);
                return false;
            }
        }
    }
    return true;
}

static void a_journalled_store_survives_every_cut(void **state)
{
    (void)state;
    unsigned cuts = 0;
    uint64_t seed = test_seed((uint64_t)getpid());
    assert_true(survives_everywhere(TOY_COMPLETE, test_runs(5), seed, &cuts));
    print_message("# %u cuts\n", cuts);
    assert_true(cuts > 500);
}

static void a_store_without_one_of_its_syncs_does_not(void **state)
{
    (void)state;
    for (int missing = TOY_COMPLETE + 1; missing < TOY_MISSING_COUNT; missing++) {
        unsigned cuts = 0;
        assert_false(survives_everywhere((enum toy_missing)missing, 10, 1, &cuts));
        print_message("# without sync %d data was lost after %u cuts\n", missing, cuts);
    }
}

/* ---- Failing I/O ---- */

/* Fail the k-th operation; then look at the store, with and without a cut. @return operations hit
 */
static uint64_t fail_operation(uint64_t k, int error)
{
    struct sim_disk *disk = disk_make();
    struct io_system *system = disk_open(disk, k);
    struct fault_injector *faults;
    uint64_t acknowledged = 0;
    ASSERT_OK(fault_attach(system, k, &faults));
    struct fault_plan plan = {
        .kind = FAULT_ERROR, .targets = FAULT_ALL, .first = k, .error = error};
    fault_set_plans(faults, &plan, 1);
    firn_rc rc = work(system, TOY_COMPLETE, &acknowledged);
    uint64_t hits = fault_hits(faults);
    if (hits == 0)
        ASSERT_OK(rc);
    io_system_close(system);
    for (unsigned mode = 0; mode < 4; mode++) {
        struct sim_disk *clone = sim_disk_clone(disk);
        sim_disk_cut(clone, all_cuts[mode], k);
        sim_disk_restore(clone);
        assert_true(store_is_right(clone, TOY_COMPLETE, acknowledged));
        sim_disk_destroy(clone);
    }
    assert_true(store_is_right(disk, TOY_COMPLETE, acknowledged));
    sim_disk_destroy(disk);
    return hits;
}

static void a_store_survives_the_failure_of_each_operation(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOSPC};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t k = 1;
        while (fail_operation(k, errors[i]) > 0)
            k++;
        print_message("# %llu operations failed one by one\n", (unsigned long long)k - 1);
        assert_true(k > 80);
    }
}

static void a_store_does_not_see_interrupted_and_short_requests(void **state)
{
    (void)state;
    const struct fault_plan plans[] = {
        {.kind = FAULT_ERROR,
         .targets = FAULT_READS | FAULT_WRITES | FAULT_SYNCS,
         .error = EINTR,
         .probability = 0.3},
        {.kind = FAULT_SHORT, .targets = FAULT_ALL, .probability = 0.5},
    };
    struct sim_disk *disk = disk_make();
    struct io_system *system = disk_open(disk, 1);
    struct fault_injector *faults;
    uint64_t acknowledged = 0;
    ASSERT_OK(fault_attach(system, test_seed((uint64_t)getpid()), &faults));
    fault_set_plans(faults, plans, 2);
    ASSERT_OK(work(system, TOY_COMPLETE, &acknowledged));
    assert_true(fault_hits(faults) > 20);
    io_system_close(system);
    sim_disk_cut(disk, SIM_CUT_DROP, 1);
    sim_disk_restore(disk);
    assert_true(store_is_right(disk, TOY_COMPLETE, TRANSACTIONS));
    sim_disk_destroy(disk);
}

static void a_lying_disk_is_caught(void **state)
{
    (void)state;
    struct sim_disk *disk = disk_make();
    struct io_system *system = disk_open(disk, 1);
    struct fault_injector *faults;
    uint64_t acknowledged = 0;
    struct fault_plan plan = {.kind = FAULT_LOST, .targets = FAULT_SYNCS, .first = 10, .every = 1};
    ASSERT_OK(fault_attach(system, 1, &faults));
    fault_set_plans(faults, &plan, 1);
    ASSERT_OK(work(system, TOY_COMPLETE, &acknowledged));
    io_system_close(system);
    sim_disk_cut(disk, SIM_CUT_DROP, 1);
    sim_disk_restore(disk);
    assert_false(store_is_right(disk, TOY_COMPLETE, acknowledged));
    sim_disk_destroy(disk);
}

/* ---- Failing allocations ---- */

static void a_store_survives_the_failure_of_each_allocation(void **state)
{
    (void)state;
    firn_rc rc = FIRN_E_NOMEM;
    long k = 0;
    for (; rc != FIRN_OK; k++) {
        struct sim_disk *disk = disk_make();
        struct io_system *system = disk_open(disk, 1);
        uint64_t acknowledged = 0;
        memory_fail_after(k);
        rc = work(system, TOY_COMPLETE, &acknowledged);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        io_system_close(system);
        assert_true(store_is_right(disk, TOY_COMPLETE, acknowledged));
        sim_disk_destroy(disk);
    }
    assert_true(k > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journalled_store_survives_every_cut),
        cmocka_unit_test(a_store_without_one_of_its_syncs_does_not),
        cmocka_unit_test(a_store_survives_the_failure_of_each_operation),
        cmocka_unit_test(a_store_does_not_see_interrupted_and_short_requests),
        cmocka_unit_test(a_lying_disk_is_caught),
        cmocka_unit_test(a_store_survives_the_failure_of_each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
