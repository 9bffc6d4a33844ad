/*
 * store_fail.h -- making, using and closing an environment while something fails, and the judgement
 * afterwards: an error came back, nothing acknowledged is lost, the next opening finds everything
 * right.
 */
#ifndef FIRN_TESTS_ENGINE_STORE_FAIL_H
#define FIRN_TESTS_ENGINE_STORE_FAIL_H

#include "engine/store_support.h"

enum { ROWS = 30 };

/** What is tried, and what came of it. */
struct attempt {
    bool create;     /* from nothing, or on what is there */
    unsigned shared; /* STORE_TREE_SHARED or 0, of the tree that is made and dropped */
    firn_rc rc;      /* the first failure */
    bool rows_are_committed;
    bool tree_is_dropped;
};

static inline firn_rc use(struct store *store, struct attempt *attempt)
{
    struct btree *tree;
    FIRN_TRY(store_tree(store, "a", STORE_TREE_CREATE, &tree));
    FIRN_TRY(try_put_rows(store, tree, 0, ROWS));
    attempt->rows_are_committed = true;
    FIRN_TRY(store_tree(store, "b", STORE_TREE_CREATE | attempt->shared, &tree));
    FIRN_TRY(try_put_rows(store, tree, 0, ROWS));
    FIRN_TRY(store_drop_tree(store, "b"));
    attempt->tree_is_dropped = true;
    return store_tick(store);
}

static inline void run(struct io_system *system, struct attempt *attempt)
{
    struct store_options options = new_options(system);
    struct store *store;
    attempt->rows_are_committed = false;
    attempt->tree_is_dropped = false;
    attempt->rc = store_open(&options, &store, NULL);
    if (attempt->rc != FIRN_OK)
        return;
    attempt->rc = use(store, attempt);
    firn_rc rc = store_close(store);
    if (attempt->rc == FIRN_OK)
        attempt->rc = rc;
}

/* Without faults: all that was acknowledged is there, and work goes on. */
static inline void judge(struct sim_disk *disk, const struct attempt *attempt)
{
    struct io_system *system = disk_open(disk, 1);
    struct store_options options = new_options(system);
    struct store *store = store_make(&options);
    struct btree *tree;
    check_store(store);
    if (attempt->rows_are_committed)
        check_rows(store, tree_of(store, "a", 0), ROWS);
    if (attempt->tree_is_dropped)
        assert_int_equal(store_tree(store, "b", 0, &tree), FIRN_E_NOT_FOUND);
    struct attempt again = {.shared = attempt->shared};
    ASSERT_OK(use(store, &again));
    check_rows(store, tree_of(store, "a", 0), ROWS);
    check_store(store);
    ASSERT_OK(store_close(store));
    io_system_close(system);
}

static inline struct sim_disk *disk_with_environment(void)
{
    struct sim_disk *disk = disk_make();
    struct io_system *system = disk_open(disk, 1);
    struct store_options options = new_options(system);
    struct store *store = store_make(&options);
    put_rows(store, tree_of(store, "a", STORE_TREE_CREATE), 0, ROWS / 2);
    store_abandon(store);
    io_system_close(system);
    return disk;
}

#endif
