/*
 * The power goes at each step of making an environment, of making and dropping trees, of closing
 * and of changing the log's size. Afterwards everything is there or nothing is, and the check finds
 * nothing wrong.
 */
#include "engine/store_support.h"

#include "base/rng.h"

enum { ROWS = 40 };

/* Cut the power for good, and turn it on again. */
static struct io_system *power_off_and_on(struct sim_disk *disk, struct io_system *system,
                                          enum sim_cut cut, uint64_t seed)
{
    sim_disk_cut(disk, cut, seed);
    io_system_close(system);
    sim_disk_restore(disk);
    return disk_open(disk, seed);
}

/* ---- Making an environment ---- */

static firn_rc create_and_put(struct io_system *system, const char *redo_directory)
{
    struct store_options options = new_options(system);
    struct store *store;
    struct btree *tree;
    options.class_directories[IO_CLASS_REDO] = redo_directory;
    options.class_directories[IO_CLASS_TABLE] = "tables";
    firn_rc rc = store_open(&options, &store, NULL);
    if (rc != FIRN_OK)
        return rc;
    rc = store_tree(store, "a", STORE_TREE_CREATE, &tree);
    if (rc == FIRN_OK)
        rc = try_put_rows(store, tree, 0, ROWS);
    store_abandon(store);
    return rc;
}

/* @return whether the cut came before the end */
static bool cut_creation(uint64_t step, enum sim_cut cut, uint64_t seed)
{
    struct sim_disk *disk = disk_make();
    struct io_system *system = disk_open(disk, seed);
    sim_disk_cut_after(disk, step, cut, seed);
    firn_rc rc = create_and_put(system, "redo");
    bool was_cut = sim_disk_is_cut(disk);
    assert_true((rc == FIRN_OK) == !was_cut);
    test_count(TEST_CUTS, was_cut);
    system = power_off_and_on(disk, system, cut, seed + 1);
    /* Half an environment is made anew, a whole one opened; in either case by the same call. */
    ASSERT_OK(create_and_put(system, was_cut && seed % 2 == 0 ? NULL : "redo"));
    io_system_close(system);
    sim_disk_destroy(disk);
    return was_cut;
}

static void a_creation_cut_anywhere_can_be_begun_again(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, test_seed(1));
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++) {
        uint64_t step = 1;
        while (cut_creation(step, all_cuts[rng_below(&rng, 4)], rng_next(&rng)))
            step++;
        assert_true(step > 30);
    }
}

/* ---- Changing an environment ---- */

/** Something that is done to an environment, and what must hold whether or not it came to its end.
 */
struct scenario {
    void (*prepare)(struct store *store);
    firn_rc (*act)(struct store_options *options);
    void (*judge)(struct store *store, bool done);
};

/* Open and crash while recovering, a few times. */
static struct io_system *cut_recovery(struct sim_disk *disk, struct io_system *system,
                                      struct rng *rng)
{
    while (rng_below(rng, 2) == 0) {
        struct store_options options = small_options(system);
        struct store *store;
        enum sim_cut cut = all_cuts[rng_below(rng, 4)];
        sim_disk_cut_after(disk, 1 + rng_below(rng, 40), cut, rng_next(rng));
        if (store_open(&options, &store, NULL) == FIRN_OK)
            store_abandon(store);
        test_count(TEST_CUTS, 1);
        system = power_off_and_on(disk, system, cut, rng_next(rng));
    }
    return system;
}

/* @return whether the cut came before the end */
static bool cut_scenario(const struct scenario *scenario, const struct sim_disk *start,
                         uint64_t step, struct rng *rng)
{
    struct sim_disk *disk = sim_disk_clone(start);
    struct io_system *system = disk_open(disk, rng_next(rng));
    struct store_options options = small_options(system);
    enum sim_cut cut = all_cuts[rng_below(rng, 4)];
    sim_disk_cut_after(disk, step, cut, rng_next(rng));
    firn_rc rc = scenario->act(&options);
    bool was_cut = sim_disk_is_cut(disk);
    assert_true(rc == FIRN_OK || was_cut);
    test_count(TEST_CUTS, was_cut);
    system = power_off_and_on(disk, system, cut, rng_next(rng));
    system = cut_recovery(disk, system, rng);
    options = small_options(system);
    struct store *store = store_make(&options);
    check_store(store);
    scenario->judge(store, rc == FIRN_OK);
    check_store(store);
    ASSERT_OK(store_close(store));
    io_system_close(system);
    sim_disk_destroy(disk);
    return was_cut;
}

static void run_scenario(const struct scenario *scenario)
{
    struct rng rng;
    struct sim_disk *start = disk_make();
    struct io_system *system = disk_open(start, 1);
    struct store_options options = new_options(system);
    struct store *store = store_make(&options);
    rng_init(&rng, test_seed(1));
    put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, ROWS);
    if (scenario->prepare != NULL)
        scenario->prepare(store);
    store_abandon(store);
    io_system_close(system);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++) {
        uint64_t step = 1;
        while (cut_scenario(scenario, start, step, &rng))
            step++;
        assert_true(step > 4);
    }
    sim_disk_destroy(start);
}

/* ---- Trees ---- */

static unsigned tree_flags;

static firn_rc create_tree(struct store_options *options)
{
    struct store *store;
    struct btree *tree;
    firn_rc rc = store_open(options, &store, NULL);
    if (rc != FIRN_OK)
        return rc;
    rc = store_tree(store, "b", STORE_TREE_CREATE | tree_flags, &tree);
    if (rc == FIRN_OK)
        rc = try_put_rows(store, tree, 0, ROWS);
    store_abandon(store);
    return rc;
}

static void judge_created_tree(struct store *store, bool done)
{
    if (!done)
        put_rows(store, tree_of(store, "b", STORE_TREE_CREATE | tree_flags), 0, ROWS);
    check_rows(store, tree_of(store, "b", 0), ROWS);
    check_rows(store, tree_of(store, "a", 0), ROWS);
}

static void prepare_tree(struct store *store)
{
    put_rows(store, tree_of(store, "b", STORE_TREE_CREATE | tree_flags), 0, ROWS);
}

static firn_rc drop_tree(struct store_options *options)
{
    struct store *store;
    firn_rc rc = store_open(options, &store, NULL);
    if (rc != FIRN_OK)
        return rc;
    rc = store_drop_tree(store, "b");
    store_abandon(store);
    return rc;
}

static void judge_dropped_tree(struct store *store, bool done)
{
    struct btree *tree;
    firn_rc rc = store_tree(store, "b", 0, &tree);
    assert_true(rc == FIRN_E_NOT_FOUND || (!done && rc == FIRN_OK));
    if (rc == FIRN_OK)
        check_rows(store, tree, ROWS);
    else
        prepare_tree(store);
    check_rows(store, tree_of(store, "b", 0), ROWS);
    check_rows(store, tree_of(store, "a", 0), ROWS);
}

static void a_tree_is_made_wholly_or_not_at_all(void **state)
{
    (void)state;
    static const struct scenario scenario = {NULL, create_tree, judge_created_tree};
    tree_flags = 0;
    run_scenario(&scenario);
}

static void a_shared_tree_is_made_wholly_or_not_at_all(void **state)
{
    (void)state;
    static const struct scenario scenario = {NULL, create_tree, judge_created_tree};
    tree_flags = STORE_TREE_SHARED;
    run_scenario(&scenario);
}

static void a_tree_is_dropped_wholly_or_not_at_all(void **state)
{
    (void)state;
    static const struct scenario scenario = {prepare_tree, drop_tree, judge_dropped_tree};
    tree_flags = 0;
    run_scenario(&scenario);
}

static void a_shared_tree_is_dropped_wholly_or_not_at_all(void **state)
{
    (void)state;
    static const struct scenario scenario = {prepare_tree, drop_tree, judge_dropped_tree};
    tree_flags = STORE_TREE_SHARED;
    run_scenario(&scenario);
}

/* ---- Opening and closing ---- */

static bool committed;

static firn_rc put_and_close(struct store_options *options)
{
    struct store *store;
    committed = false;
    firn_rc rc = store_open(options, &store, NULL);
    if (rc != FIRN_OK)
        return rc;
    rc = try_put_rows(store, tree_of(store, "a", 0), ROWS, 2 * ROWS);
    committed = rc == FIRN_OK;
    firn_rc close_rc = store_close(store);
    return rc != FIRN_OK ? rc : close_rc;
}

static void judge_closed(struct store *store, bool done)
{
    (void)done;
    struct btree *tree = tree_of(store, "a", 0);
    if (!committed)
        put_rows(store, tree, ROWS, 2 * ROWS);
    check_rows(store, tree, 2 * ROWS);
}

static void a_closing_cut_anywhere_loses_nothing(void **state)
{
    (void)state;
    static const struct scenario scenario = {NULL, put_and_close, judge_closed};
    run_scenario(&scenario);
}

static void prepare_temporary(struct store *store)
{
    make_temporary(store, "sort-1", 1000);
    make_temporary(store, "sort-2", 1001);
}

static firn_rc open_and_close(struct store_options *options)
{
    struct store *store;
    firn_rc rc = store_open(options, &store, NULL);
    return rc == FIRN_OK ? store_close(store) : rc;
}

static void judge_without_temporary(struct store *store, bool done)
{
    uint32_t space;
    (void)done;
    assert_int_equal(space_find(store_spaces(store), "sort-1", &space), FIRN_E_NOT_FOUND);
    assert_int_equal(space_find(store_spaces(store), "sort-2", &space), FIRN_E_NOT_FOUND);
    check_rows(store, tree_of(store, "a", 0), ROWS);
    prepare_temporary(store); /* the names are free */
}

static void removing_temporary_tablespaces_cut_anywhere_loses_nothing(void **state)
{
    (void)state;
    static const struct scenario scenario = {prepare_temporary, open_and_close,
                                             judge_without_temporary};
    run_scenario(&scenario);
}

static firn_rc resize_log(struct store_options *options)
{
    options->log_file_size_bytes = 5 * MIB;
    options->log_files = 3;
    return open_and_close(options);
}

static void judge_resized_log(struct store *store, bool done)
{
    uint64_t size_bytes = redo_file_size_bytes(store_redo(store));
    uint32_t files = redo_file_count(store_redo(store));
    assert_true((size_bytes == 5 * MIB && files == 3) ||
                (!done && size_bytes == 4 * MIB && files == 2));
    check_rows(store, tree_of(store, "a", 0), ROWS);
    put_rows(store, tree_of(store, "a", 0), ROWS, 2 * ROWS);
    check_rows(store, tree_of(store, "a", 0), 2 * ROWS);
}

static void a_resizing_of_the_log_cut_anywhere_loses_nothing(void **state)
{
    (void)state;
    static const struct scenario scenario = {NULL, resize_log, judge_resized_log};
    run_scenario(&scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_creation_cut_anywhere_can_be_begun_again),
        cmocka_unit_test(a_tree_is_made_wholly_or_not_at_all),
        cmocka_unit_test(a_shared_tree_is_made_wholly_or_not_at_all),
        cmocka_unit_test(a_tree_is_dropped_wholly_or_not_at_all),
        cmocka_unit_test(a_shared_tree_is_dropped_wholly_or_not_at_all),
        cmocka_unit_test(a_closing_cut_anywhere_loses_nothing),
        cmocka_unit_test(removing_temporary_tablespaces_cut_anywhere_loses_nothing),
        cmocka_unit_test(a_resizing_of_the_log_cut_anywhere_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
