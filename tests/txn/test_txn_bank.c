/*
 * A bank: threads move money between accounts under each isolation level, readers add all of it up,
 * the power is cut. No moment that anybody sees has another sum; what was acknowledged is there.
 */
#include "txn_world.h"

#include <pthread.h>

#include "repeat.h"

enum { ACCOUNTS = 40, TELLERS = 4, OPENING = 1000, TRANSFERS = 300 };

struct bank {
    struct world world;
    struct btree *tree;
    atomic_bool is_over;
    atomic_uint retried;
};

struct teller {
    struct bank *bank;
    unsigned number;
    enum txn_isolation isolation;
    struct rng rng;
    unsigned limit;
    unsigned acked; /* transfers whose commit was acknowledged */
    unsigned begun;
    const char *wrong;
};

static struct span account_key(unsigned account, char text[16])
{
    return span_of(text, (size_t)snprintf(text, 16, "account %03u", account));
}

/* Each teller keeps a row with the number of his last transfer: it is committed with it. */
static struct span teller_key(unsigned teller, char text[16])
{
    return span_of(text, (size_t)snprintf(text, 16, "teller %03u", teller));
}

static int64_t amount_of(struct span payload)
{
    return payload.size_bytes == 8 ? (int64_t)get_u64(payload.bytes) : INT64_MIN;
}

/* ---- Transfers ---- */

struct booking {
    int64_t amount;
    uint8_t bytes[8];
};

static enum btree_action book(const struct span *old, struct span *payload, firn_rc *rc,
                              void *context)
{
    struct booking *booking = context;
    if (old == NULL) {
        *rc = FIRN_E_CORRUPT;
        return BTREE_KEEP;
    }
    put_u64(booking->bytes, (uint64_t)(amount_of(*old) + booking->amount));
    *payload = span_of(booking->bytes, 8);
    return BTREE_PUT;
}

static firn_rc transfer(struct teller *teller, struct txn_session *session)
{
    char text[16];
    uint8_t number[8];
    struct btree *tree = teller->bank->tree;
    unsigned from = (unsigned)rng_below(&teller->rng, ACCOUNTS);
    unsigned to = (from + 1 + (unsigned)rng_below(&teller->rng, ACCOUNTS - 1)) % ACCOUNTS;
    struct booking debit = {.amount = -(int64_t)rng_below(&teller->rng, 50)};
    struct booking credit = {.amount = -debit.amount};
    FIRN_TRY(txn_begin(session, teller->isolation, false));
    FIRN_TRY(txn_change(session, tree, account_key(from, text), book, &debit));
    FIRN_TRY(txn_change(session, tree, account_key(to, text), book, &credit));
    put_u64(number, teller->begun);
    FIRN_TRY(txn_put(session, tree, teller_key(teller->number, text), span_of(number, 8)));
    return txn_commit(session);
}

/* Is it the kind of failure after which one begins again? */
static bool is_contention(firn_rc rc)
{
    return rc == FIRN_E_DEADLOCK || rc == FIRN_E_CONFLICT || rc == FIRN_E_LOCK_WAIT;
}

static void *teller_main(void *context)
{
    struct teller *teller = context;
    struct txn_session *session;
    if (txn_session_open(store_transactions(teller->bank->world.store), &session) != FIRN_OK) {
        teller->wrong = "no session";
        return NULL;
    }
    while (teller->begun < teller->limit) {
        teller->begun++;
        firn_rc rc = transfer(teller, session);
        while (is_contention(rc)) {
            atomic_fetch_add(&teller->bank->retried, 1);
            rc = txn_rollback(session);
            if (rc == FIRN_OK)
                rc = transfer(teller, session);
        }
        if (rc != FIRN_OK) /* the power is gone */
            break;
        teller->acked = teller->begun;
    }
    txn_session_close(session);
    return NULL;
}

/* ---- Sums ---- */

static const char *add_up(struct txn_session *session, struct btree *tree, int64_t *sum)
{
    struct txn_cursor *cursor;
    struct span payload;
    unsigned rows = 0;
    *sum = 0;
    if (txn_cursor_open(session, tree, TXN_LOCK_NONE, TXN_WAIT, &cursor) != FIRN_OK)
        return firn_error_text();
    firn_rc rc = txn_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (; rc == FIRN_OK; rc = txn_cursor_next(cursor)) {
        if (txn_cursor_key(cursor).bytes[0] != 'a')
            continue;
        if (txn_cursor_payload(cursor, &payload) != FIRN_OK)
            break;
        *sum += amount_of(payload);
        rows++;
    }
    txn_cursor_close(cursor);
    if (rc != FIRN_E_NOT_FOUND)
        return firn_error_text();
    return rows == ACCOUNTS ? NULL : "an account is missing";
}

static void *auditor_main(void *context)
{
    struct teller *auditor = context;
    struct bank *bank = auditor->bank;
    struct txn_session *session;
    if (txn_session_open(store_transactions(bank->world.store), &session) != FIRN_OK)
        return NULL;
    while (!atomic_load(&bank->is_over) && auditor->wrong == NULL) {
        int64_t first, second;
        if (txn_begin(session, TXN_REPEATABLE_READ, true) != FIRN_OK)
            break;
        const char *failed = add_up(session, bank->tree, &first);
        if (failed == NULL)
            failed = add_up(session, bank->tree, &second);
        (void)txn_commit(session);
        if (failed != NULL)
            break; /* the power is gone */
        if (first != ACCOUNTS * OPENING || second != first)
            auditor->wrong = "a snapshot with another sum";
    }
    txn_session_close(session);
    return NULL;
}

/* ---- A day ---- */

static void open_bank(struct bank *bank)
{
    ASSERT_OK(world_open(&bank->world));
    ASSERT_OK(store_tree(bank->world.store, "bank", STORE_TREE_CREATE | STORE_TREE_VERSIONED,
                         &bank->tree));
}

static void fill_bank(struct bank *bank)
{
    struct txn_session *session;
    char text[16];
    uint8_t amount[8];
    put_u64(amount, OPENING);
    ASSERT_OK(txn_session_open(store_transactions(bank->world.store), &session));
    ASSERT_OK(txn_begin(session, TXN_READ_COMMITTED, false));
    for (unsigned i = 0; i < ACCOUNTS; i++)
        ASSERT_OK(txn_insert(session, bank->tree, account_key(i, text), span_of(amount, 8)));
    ASSERT_OK(txn_commit(session));
    txn_session_close(session);
}

static void work(struct bank *bank, struct teller *tellers, struct teller *auditor)
{
    pthread_t threads[TELLERS], audit;
    atomic_store(&bank->is_over, false);
    for (unsigned i = 0; i < TELLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, teller_main, &tellers[i]), 0);
    assert_int_equal(pthread_create(&audit, NULL, auditor_main, auditor), 0);
    for (unsigned i = 0; i < TELLERS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&bank->is_over, true);
    pthread_join(audit, NULL);
    for (unsigned i = 0; i < TELLERS; i++)
        if (tellers[i].wrong != NULL)
            fail_msg("teller %u: %s", i, tellers[i].wrong);
    if (auditor->wrong != NULL)
        fail_msg("%s", auditor->wrong);
}

/* The sum is there, and each teller's last acknowledged transfer. */
static void judge(struct bank *bank, struct teller *tellers)
{
    struct txn_session *session;
    char text[16];
    int64_t sum;
    ASSERT_OK(txn_settle(store_transactions(bank->world.store)));
    ASSERT_OK(txn_session_open(store_transactions(bank->world.store), &session));
    ASSERT_OK(txn_begin(session, TXN_REPEATABLE_READ, true));
    const char *wrong = add_up(session, bank->tree, &sum);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    assert_int_equal(sum, ACCOUNTS * OPENING);
    for (unsigned i = 0; i < TELLERS; i++) {
        struct span payload;
        int64_t last = 0;
        firn_rc rc =
            txn_get(session, bank->tree, teller_key(i, text), TXN_LOCK_NONE, TXN_WAIT, &payload);
        if (rc == FIRN_OK)
            last = amount_of(payload);
        else
            assert_int_equal(rc, FIRN_E_NOT_FOUND);
        assert_true(last >= tellers[i].acked && last <= tellers[i].begun);
        tellers[i].begun = tellers[i].acked = (unsigned)last;
    }
    ASSERT_OK(txn_commit(session));
    txn_session_close(session);
}

static void a_day(uint64_t seed, enum txn_isolation isolation, unsigned cuts)
{
    struct sim_disk *disk;
    struct bank *bank = calloc(1, sizeof *bank);
    struct teller tellers[TELLERS] = {{0}}, auditor = {.bank = bank};
    struct rng rng;
    rng_init(&rng, seed);
    ASSERT_OK(sim_disk_create(&(struct sim_disk_options){.sector_bytes = 512}, &disk));
    world_init(&bank->world, disk, seed);
    open_bank(bank);
    fill_bank(bank);
    for (unsigned i = 0; i < TELLERS; i++) {
        tellers[i] = (struct teller){.bank = bank, .number = i, .isolation = isolation};
        rng_init(&tellers[i].rng, seed * 7 + i);
    }
    for (unsigned part = 0; part <= cuts; part++) {
        for (unsigned i = 0; i < TELLERS; i++)
            tellers[i].limit = tellers[i].begun + TRANSFERS;
        if (part < cuts)
            sim_disk_cut_after(disk, 1 + rng_below(&rng, 400),
                               all_cuts[rng_below(&rng, ARRAY_COUNT(all_cuts))], rng_next(&rng));
        work(bank, tellers, &auditor);
        if (part < cuts) {
            sim_disk_cut(disk, SIM_CUT_TEAR, rng_next(&rng)); /* if it has not come to that yet */
            world_restore(&bank->world, rng_next(&rng));
            open_bank(bank);
        }
        judge(bank, tellers);
    }
    print_message("# %u transfers were tried again\n", atomic_load(&bank->retried));
    world_end(&bank->world);
    sim_disk_destroy(disk);
    free(bank);
}

static void test_read_committed(void **state)
{
    (void)state;
    a_day(test_seed(1), TXN_READ_COMMITTED, 4 * test_runs(1));
}

static void test_repeatable_read(void **state)
{
    (void)state;
    a_day(test_seed(2), TXN_REPEATABLE_READ, 4 * test_runs(1));
}

static void test_serializable(void **state)
{
    (void)state;
    a_day(test_seed(3), TXN_SERIALIZABLE, 4 * test_runs(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_committed),
        cmocka_unit_test(test_repeatable_read),
        cmocka_unit_test(test_serializable),
    };
    return cmocka_run_group_tests_name("txn_bank", tests, world_quiet, NULL);
}
