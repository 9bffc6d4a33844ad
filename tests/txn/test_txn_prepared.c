/*
 * Prepared transactions across a crash: what is decided about them then has the same consequences
 * as before it.
 */
#include "txn_world.h"

struct bench {
    struct world world;
    struct btree *tree;
    struct txn_session *session;
};

static void open_bench(struct bench *bench)
{
    ASSERT_OK(world_open(&bench->world));
    ASSERT_OK(store_tree(bench->world.store, "v", STORE_TREE_CREATE | STORE_TREE_VERSIONED,
                         &bench->tree));
    ASSERT_OK(txn_session_open(store_transactions(bench->world.store), &bench->session));
}

static struct bench *make_bench(void)
{
    struct bench *bench = calloc(1, sizeof *bench);
    world_init(&bench->world, disk_make(), 1);
    open_bench(bench);
    return bench;
}

static void crash(struct bench *bench)
{
    sim_disk_cut(bench->world.disk, SIM_CUT_DROP, 1);
    txn_session_close(bench->session);
    world_restore(&bench->world, 2);
    open_bench(bench);
    ASSERT_OK(txn_settle(store_transactions(bench->world.store)));
}

static void end_bench(struct bench *bench)
{
    struct store_check_result result;
    char text[512] = "";
    txn_session_close(bench->session);
    ASSERT_OK(txn_tick(store_transactions(bench->world.store)));
    firn_rc rc = store_check(bench->world.store, 1, world_problem, text, NULL, &result);
    if (rc != FIRN_OK)
        fail_msg("%s", text[0] != '\0' ? text : firn_error_text());
    world_end(&bench->world);
    sim_disk_destroy(bench->world.disk);
    free(bench);
}

static void put(struct bench *bench, const char *key, size_t size_bytes)
{
    static uint8_t bytes[PAYLOAD_MAX];
    ASSERT_OK(txn_put(bench->session, bench->tree, span_of_text(key), span_of(bytes, size_bytes)));
}

/* A row deleted and a large value replaced, by a transaction that a crash found prepared: purge
 * takes both away once it is committed, or nobody ever would. */
static void test_what_was_prepared_is_purged_after_a_crash(void **state)
{
    struct bench *bench = make_bench();
    struct txn_counters counters;
    (void)state;
    ASSERT_OK(txn_begin(bench->session, TXN_READ_COMMITTED, false));
    put(bench, "large", PAYLOAD_MAX);
    put(bench, "small", 10);
    ASSERT_OK(txn_commit(bench->session));
    ASSERT_OK(txn_begin(bench->session, TXN_READ_COMMITTED, false));
    put(bench, "large", PAYLOAD_MAX - 1);
    ASSERT_OK(txn_delete(bench->session, bench->tree, span_of_text("small")));
    ASSERT_OK(txn_prepare(bench->session, span_of_text("x")));
    crash(bench);
    ASSERT_OK(txn_commit_prepared(bench->session, span_of_text("x")));
    ASSERT_OK(txn_tick(store_transactions(bench->world.store)));
    txn_counters(store_transactions(bench->world.store), &counters);
    assert_int_equal(counters.purged_keys, 1);
    end_bench(bench); /* no page is allocated to the tree that it does not reach */
}

/* Whoever coordinates prepares all branches, also those that have only read. */
static void test_a_transaction_that_only_reads_can_be_prepared(void **state)
{
    struct bench *bench = make_bench();
    struct span payload;
    (void)state;
    ASSERT_OK(txn_begin(bench->session, TXN_REPEATABLE_READ, true));
    assert_int_equal(txn_get(bench->session, bench->tree, span_of_text("none"), TXN_LOCK_NONE,
                             TXN_WAIT, &payload),
                     FIRN_E_NOT_FOUND);
    ASSERT_OK(txn_prepare(bench->session, span_of_text("x")));
    crash(bench);
    ASSERT_OK(txn_commit_prepared(bench->session, span_of_text("x")));
    ASSERT_OK(txn_begin(bench->session, TXN_REPEATABLE_READ, true));
    ASSERT_OK(txn_prepare(bench->session, span_of_text("y")));
    ASSERT_OK(txn_rollback_prepared(bench->session, span_of_text("y")));
    end_bench(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_prepared_is_purged_after_a_crash),
        cmocka_unit_test(test_a_transaction_that_only_reads_can_be_prepared),
    };
    return cmocka_run_group_tests_name("txn_prepared", tests, world_quiet, NULL);
}
