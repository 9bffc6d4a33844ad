/*
 * Transactions against a model: sessions take turns at random, in one thread; nobody waits (the
 * limit of lock waits is 0), so what each call must return is known. Now and then the store is
 * closed or abandoned and opened again, and what was prepared is decided.
 */
#include "txn_world.h"

#include "repeat.h"

enum { STEPS = 4000 };

struct play {
    struct world world;
    struct rng rng;
    struct model model;
    struct txn_session *sessions[MODEL_SESSIONS];
    struct btree *tree;
    int64_t next_value;
    uint8_t payload[PAYLOAD_MAX];
    char key[400];
};

static void open_sessions(struct play *play)
{
    struct txn_set *set = store_transactions(play->world.store);
    ASSERT_OK(
        store_tree(play->world.store, "v", STORE_TREE_CREATE | STORE_TREE_VERSIONED, &play->tree));
    for (unsigned i = 0; i < MODEL_SESSIONS; i++) {
        ASSERT_OK(txn_session_open(set, &play->sessions[i]));
        txn_session_set_lock_wait(play->sessions[i], 0);
    }
}

/* What is open is rolled back by that. */
static void close_sessions(struct play *play)
{
    for (unsigned i = 0; i < MODEL_SESSIONS; i++) {
        txn_session_close(play->sessions[i]);
        play->model.txns[i] = (struct model_txn){.is_open = false};
    }
}

/* ---- Steps ---- */

/* A statement begins; the first read or write of a snapshot takes it. */
static void see(struct play *play, unsigned number)
{
    struct model_txn *txn = &play->model.txns[number];
    ASSERT_OK(txn_statement(play->sessions[number]));
    if (!txn->has_snapshot || txn->isolation == TXN_READ_COMMITTED)
        txn->snapshot = play->model.commits;
    txn->has_snapshot = true;
}

static void do_get(struct play *play, unsigned number)
{
    const struct model_txn *txn = &play->model.txns[number];
    unsigned key = (unsigned)rng_below(&play->rng, MODEL_KEYS);
    struct span payload;
    see(play, number);
    int64_t value = model_seen(&play->model, txn, key);
    firn_rc rc = txn_get(play->sessions[number], play->tree, model_key(key, play->key),
                         TXN_LOCK_NONE, TXN_WAIT, &payload);
    assert_int_equal(rc, value == MODEL_DELETED ? FIRN_E_NOT_FOUND : FIRN_OK);
    if (rc == FIRN_OK)
        assert_null(model_payload_wrong(payload, value));
}

/* What the store says to a write that the model knows to be in somebody's way, or not. */
static firn_rc expected(const struct play *play, unsigned number, unsigned key, firn_rc otherwise)
{
    const struct model_txn *txn = &play->model.txns[number];
    if (model_is_locked(&play->model, number, key))
        return FIRN_E_LOCK_WAIT;
    return model_is_stale(&play->model, txn, key) ? FIRN_E_CONFLICT : otherwise;
}

static void do_write(struct play *play, unsigned number)
{
    struct model_txn *txn = &play->model.txns[number];
    struct txn_session *session = play->sessions[number];
    unsigned key = (unsigned)rng_below(&play->rng, MODEL_KEYS);
    struct span bytes = model_key(key, play->key);
    int64_t value = ++play->next_value;
    struct span payload = model_payload(value, play->payload);
    see(play, number);
    bool is_there = model_present(&play->model, txn, key) != MODEL_DELETED;
    firn_rc rc, want;
    switch (rng_below(&play->rng, 4)) {
    case 0:
        rc = txn_insert(session, play->tree, bytes, payload);
        want = expected(play, number, key, is_there ? FIRN_E_EXISTS : FIRN_OK);
        break;
    case 1:
        rc = txn_delete(session, play->tree, bytes);
        want = expected(play, number, key, is_there ? FIRN_OK : FIRN_E_NOT_FOUND);
        value = MODEL_DELETED;
        break;
    default:
        rc = txn_put(session, play->tree, bytes, payload);
        want = expected(play, number, key, FIRN_OK);
        break;
    }
    assert_int_equal(rc, want);
    if (rc != FIRN_OK)
        return;
    txn->wrote[key] = true;
    txn->locked[key] = true;
    txn->value[key] = value;
}

/* All rows, in one direction, against the model. */
static void do_scan(struct play *play, unsigned number, bool forward)
{
    const struct model_txn *txn = &play->model.txns[number];
    struct txn_cursor *cursor;
    unsigned rows = 0, wanted = 0;
    see(play, number);
    ASSERT_OK(
        txn_cursor_open(play->sessions[number], play->tree, TXN_LOCK_NONE, TXN_WAIT, &cursor));
    firn_rc rc =
        txn_cursor_seek(cursor, forward ? BTREE_SEEK_FIRST : BTREE_SEEK_LAST, span_of(NULL, 0));
    for (; rc == FIRN_OK; rows++) {
        struct span payload, found = txn_cursor_key(cursor);
        unsigned key = 0;
        while (key < MODEL_KEYS && span_compare(model_key(key, play->key), found) != 0)
            key++;
        assert_true(key < MODEL_KEYS);
        ASSERT_OK(txn_cursor_payload(cursor, &payload));
        assert_null(model_payload_wrong(payload, model_seen(&play->model, txn, key)));
        rc = forward ? txn_cursor_next(cursor) : txn_cursor_prev(cursor);
    }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        wanted += model_seen(&play->model, txn, key) != MODEL_DELETED;
    assert_int_equal(rows, wanted);
    txn_cursor_close(cursor);
}

/* Some writes that come to nothing. */
static void do_savepoint(struct play *play, unsigned number)
{
    struct model_txn before = play->model.txns[number];
    struct txn_savepoint savepoint;
    ASSERT_OK(txn_savepoint(play->sessions[number], &savepoint));
    for (unsigned i = (unsigned)rng_below(&play->rng, 5); i > 0; i--)
        do_write(play, number);
    ASSERT_OK(txn_rollback_to(play->sessions[number], &savepoint));
    struct model_txn *txn = &play->model.txns[number];
    memcpy(txn->value, before.value, sizeof txn->value);
    memcpy(txn->wrote, before.wrote, sizeof txn->wrote);
}

static void do_end(struct play *play, unsigned number)
{
    struct txn_session *session = play->sessions[number];
    struct model_txn *txn = &play->model.txns[number];
    char xid[20];
    snprintf(xid, sizeof xid, "xid-%u", number);
    switch (rng_below(&play->rng, 6)) {
    case 0:
        ASSERT_OK(txn_rollback(session));
        *txn = (struct model_txn){.is_open = false};
        return;
    case 1: /* decided about at once, by another session if one is free */
        ASSERT_OK(txn_prepare(session, span_of_text(xid)));
        if (rng_below(&play->rng, 2) == 0) {
            ASSERT_OK(txn_commit_prepared(session, span_of_text(xid)));
            model_commit(&play->model, txn);
        } else {
            ASSERT_OK(txn_rollback_prepared(session, span_of_text(xid)));
            *txn = (struct model_txn){.is_open = false};
        }
        return;
    default:
        ASSERT_OK(txn_commit(session));
        model_commit(&play->model, txn);
    }
}

static void do_step(struct play *play)
{
    static const enum txn_isolation levels[] = {TXN_READ_COMMITTED, TXN_REPEATABLE_READ};
    unsigned number = (unsigned)rng_below(&play->rng, MODEL_SESSIONS);
    struct model_txn *txn = &play->model.txns[number];
    if (!txn->is_open) {
        txn->is_open = true;
        txn->isolation = levels[rng_below(&play->rng, 2)];
        ASSERT_OK(txn_begin(play->sessions[number], txn->isolation, false));
        return;
    }
    unsigned dice = (unsigned)rng_below(&play->rng, 100);
    if (dice < 30)
        do_get(play, number);
    else if (dice < 75)
        do_write(play, number);
    else if (dice < 82)
        do_scan(play, number, dice % 2 == 0);
    else if (dice < 88)
        do_savepoint(play, number);
    else
        do_end(play, number);
}

/* ---- Lives ---- */

static void open_play(struct play *play)
{
    ASSERT_OK(world_open(&play->world));
    open_sessions(play);
}

/* The log is durable up to the last commit: what was acknowledged is there, nothing else. */
static void crash(struct play *play, struct sim_disk *disk)
{
    sim_disk_cut_after(disk, 1, SIM_CUT_DROP, rng_next(&play->rng));
    (void)store_checkpoint(play->world.store);
    close_sessions(play);
    world_restore(&play->world, rng_next(&play->rng));
    open_play(play);
    ASSERT_OK(txn_settle(store_transactions(play->world.store)));
}

static void reopen(struct play *play)
{
    close_sessions(play);
    ASSERT_OK(store_close(play->world.store));
    play->world.store = NULL;
    open_play(play);
}

static void check(struct play *play)
{
    if (getenv("NOCHECK") != NULL)
        return;
    struct store_check_result result;
    char text[512] = "";
    firn_rc rc = store_check(play->world.store, 1, world_problem, text, NULL, &result);
    if (rc != FIRN_OK)
        fail_msg("%s", text[0] != '\0' ? text : firn_error_text());
}

static void test_what_transactions_see_and_do(void **state)
{
    (void)state;
    uint64_t seed = test_seed(20);
    for (unsigned run = 0; run < test_runs(2); run++) {
        struct sim_disk *disk;
        struct play *play = calloc(1, sizeof *play);
        ASSERT_OK(sim_disk_create(&(struct sim_disk_options){.sector_bytes = 512}, &disk));
        world_init(&play->world, disk, seed + run);
        rng_init(&play->rng, seed * 31 + run);
        open_play(play);
        for (unsigned step = 0; step < STEPS; step++) {
            do_step(play);
            if (rng_below(&play->rng, 40) == 0)
                ASSERT_OK(txn_tick(store_transactions(play->world.store)));
            if (rng_below(&play->rng, 600) == 0)
                rng_below(&play->rng, 2) == 0 ? crash(play, disk) : reopen(play);
            if (rng_below(&play->rng, 500) == 0)
                check(play);
        }
        close_sessions(play);
        ASSERT_OK(txn_tick(store_transactions(play->world.store)));
        check(play);
        world_end(&play->world);
        sim_disk_destroy(disk);
        model_free(&play->model);
        free(play);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_transactions_see_and_do),
    };
    return cmocka_run_group_tests_name("txn_model", tests, world_quiet, NULL);
}
