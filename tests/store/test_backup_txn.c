/*
 * Backups while transactions come and go: what had been committed is in what they restore to, what
 * was open is rolled back there, and what was prepared waits for its decision.
 */
#include "store/backup_world.h"

#include "txn/txn.h"

enum { ACCOUNTS = 60, OPENING = 1000, OPEN_ROWS = 30 };

struct bank {
    struct world *world;
    struct btree *tree;
    struct txn_session *teller; /* commits */
    struct txn_session *slow;   /* has one transaction open all the time */
    struct rng rng;
    int64_t amounts[ACCOUNTS]; /* committed */
    unsigned open_rows;
    firn_rc rc;
};

static struct span account_key(unsigned account, char text[24])
{
    return span_of(text, (size_t)snprintf(text, 24, "account %03u", account));
}

static firn_rc put_amount(struct txn_session *session, struct btree *tree, struct span key,
                          int64_t amount)
{
    uint8_t bytes[8];
    put_u64(bytes, (uint64_t)amount);
    return txn_put(session, tree, key, span_of(bytes, sizeof bytes));
}

static firn_rc transfer(struct bank *bank)
{
    char text[24];
    unsigned from = (unsigned)rng_below(&bank->rng, ACCOUNTS);
    unsigned to = (from + 1 + (unsigned)rng_below(&bank->rng, ACCOUNTS - 1)) % ACCOUNTS;
    int64_t amount = (int64_t)rng_below(&bank->rng, 50);
    FIRN_TRY(txn_begin(bank->teller, TXN_REPEATABLE_READ, false));
    FIRN_TRY(put_amount(bank->teller, bank->tree, account_key(from, text),
                        bank->amounts[from] - amount));
    FIRN_TRY(
        put_amount(bank->teller, bank->tree, account_key(to, text), bank->amounts[to] + amount));
    if (rng_below(&bank->rng, 4) == 0)
        return txn_rollback(bank->teller);
    FIRN_TRY(txn_commit(bank->teller));
    bank->amounts[from] -= amount;
    bank->amounts[to] += amount;
    return FIRN_OK;
}

/* The open transaction writes a row and changes one that is there. */
static firn_rc go_on_slowly(struct bank *bank)
{
    char text[24];
    if (bank->open_rows == OPEN_ROWS)
        return FIRN_OK;
    int size = snprintf(text, sizeof text, "open %03u", bank->open_rows++);
    FIRN_TRY(put_amount(bank->slow, bank->tree, span_of(text, (size_t)size), 1));
    size = snprintf(text, sizeof text, "still %03u", bank->open_rows);
    return put_amount(bank->slow, bank->tree, span_of(text, (size_t)size), 2);
}

static void bank_progress(const struct recovery_progress *progress, void *context)
{
    struct bank *bank = context;
    (void)progress;
    for (unsigned i = 0; i < 40 && bank->rc == FIRN_OK; i++)
        bank->rc = transfer(bank);
    for (unsigned i = 0; i < 5 && bank->rc == FIRN_OK; i++)
        bank->rc = go_on_slowly(bank);
    if (bank->rc == FIRN_OK)
        bank->rc = store_tick(bank->world->store);
    if (bank->rc == FIRN_OK && rng_below(&bank->rng, 2) == 0)
        bank->rc = store_checkpoint(bank->world->store);
}

static void bank_open(struct bank *bank, struct world *world, uint64_t seed)
{
    char text[24];
    *bank = (struct bank){.world = world};
    rng_init(&bank->rng, seed);
    struct txn_set *set = store_transactions(world->store);
    ASSERT_OK(store_tree(world->store, "bank", STORE_TREE_CREATE, &bank->tree));
    ASSERT_OK(txn_session_open(set, &bank->teller));
    ASSERT_OK(txn_session_open(set, &bank->slow));
    ASSERT_OK(txn_begin(bank->teller, TXN_REPEATABLE_READ, false));
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        bank->amounts[i] = OPENING;
        ASSERT_OK(put_amount(bank->teller, bank->tree, account_key(i, text), OPENING));
    }
    for (unsigned i = 0; i <= OPEN_ROWS; i++) {
        int size = snprintf(text, sizeof text, "still %03u", i);
        ASSERT_OK(put_amount(bank->teller, bank->tree, span_of(text, (size_t)size), 7));
    }
    ASSERT_OK(txn_commit(bank->teller));
}

/* A prepared transaction has one row, by its name. */
static void prepare(struct bank *bank, struct txn_session *session, const char *name)
{
    struct span xid = span_of(name, strlen(name));
    ASSERT_OK(txn_begin(session, TXN_REPEATABLE_READ, false));
    ASSERT_OK(put_amount(session, bank->tree, xid, 3));
    ASSERT_OK(txn_prepare(session, xid));
}

static int64_t amount_of(struct txn_session *session, struct btree *tree, struct span key)
{
    struct span payload;
    firn_rc rc = txn_get(session, tree, key, TXN_LOCK_NONE, TXN_WAIT, &payload);
    if (rc == FIRN_E_NOT_FOUND)
        return -1;
    ASSERT_OK(rc);
    assert_int_equal(payload.size_bytes, 8);
    return (int64_t)get_u64(payload.bytes);
}

static void judge(struct bank *bank, struct world *restored)
{
    char text[24];
    struct btree *tree;
    struct txn_session *session;
    struct txn_set *set = store_transactions(restored->store);
    ASSERT_OK(store_tree(restored->store, "bank", 0, &tree));
    ASSERT_OK(txn_settle(set));
    ASSERT_OK(txn_session_open(set, &session));
    ASSERT_OK(txn_commit_prepared(session, span_of("yes", 3)));
    ASSERT_OK(txn_rollback_prepared(session, span_of("no", 2)));
    ASSERT_OK(txn_begin(session, TXN_REPEATABLE_READ, true));
    for (unsigned i = 0; i < ACCOUNTS; i++)
        assert_int_equal(amount_of(session, tree, account_key(i, text)), bank->amounts[i]);
    for (unsigned i = 0; i <= OPEN_ROWS; i++) {
        int size = snprintf(text, sizeof text, "open %03u", i);
        assert_int_equal(amount_of(session, tree, span_of(text, (size_t)size)), -1);
        size = snprintf(text, sizeof text, "still %03u", i);
        assert_int_equal(amount_of(session, tree, span_of(text, (size_t)size)), 7);
    }
    assert_int_equal(amount_of(session, tree, span_of("yes", 3)), 3);
    assert_int_equal(amount_of(session, tree, span_of("no", 2)), -1);
    ASSERT_OK(txn_commit(session));
    txn_session_close(session);
    char first[512] = "";
    struct store_check_result result;
    if (store_check(restored->store, 1, world_problem, first, NULL, &result) != FIRN_OK)
        fail_msg("%s", first);
}

static void transactions_are_restored_as_they_stood(void **state)
{
    (void)state;
    uint64_t seed = test_seed(95);
    unsigned rounds = test_runs(4);
    for (unsigned round = 0; round < rounds; round++, seed++) {
        struct world world;
        struct world restored;
        struct bank bank;
        struct backup_options options;
        struct backup_info info;
        struct txn_session *sessions[2];
        world_init(&world, disk_make(), seed);
        ASSERT_OK(world_open(&world));
        ASSERT_OK(world_fill(&world));
        bank_open(&bank, &world, seed);
        ASSERT_OK(txn_begin(bank.slow, TXN_REPEATABLE_READ, false));
        ASSERT_OK(go_on_slowly(&bank));
        for (unsigned i = 0; i < 2; i++)
            ASSERT_OK(txn_session_open(store_transactions(world.store), &sessions[i]));
        prepare(&bank, sessions[0], "yes");
        prepare(&bank, sessions[1], "no");
        backup_options_for(&options, world.system, NULL);
        options.progress = bank_progress;
        options.progress_context = &bank;
        ASSERT_OK(store_backup(world.store, &options, &info));
        ASSERT_OK(bank.rc);
        assert_true(bank.open_rows > 10);
        ASSERT_OK(backup_restore(&restored, world.disk, world.system));
        judge(&bank, &restored);
        ASSERT_OK(store_close(restored.store));
        /* And the store that was backed up goes on. */
        ASSERT_OK(txn_commit(bank.slow));
        txn_session_close(bank.slow);
        txn_session_close(bank.teller);
        for (unsigned i = 0; i < 2; i++)
            txn_session_close(sessions[i]);
        ASSERT_OK(store_close(world.store));
        world.store = NULL;
        world_end(&world);
        sim_disk_destroy(world.disk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transactions_are_restored_as_they_stood),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
