/*
 * firn_txn.c -- Firn's transactions: versions of rows, undo, locks, snapshots, on the same store.
 *
 * Each get is a read-only transaction of its own, each change one under read committed, as a
 * statement that commits by itself is.
 */
#include "firn.h"

#include "txn/txn.h"

#include <stdlib.h>

struct session {
    struct firn_env *env;
    struct txn_session *session;
    uint8_t value[KV_VALUE_BYTES];
};

static void *open_env(const struct kv_options *options)
{
    return firn_env_open(options, STORE_TREE_VERSIONED);
}

static void *session_open(void *env)
{
    struct session *session = kv_alloc(sizeof *session);
    session->env = env;
    firn_check(txn_session_open(store_transactions(session->env->store), &session->session),
               "txn_session_open");
    return session;
}

static void session_close(void *pointer)
{
    struct session *session = pointer;
    txn_session_close(session->session);
    free(session);
}

static void begin(struct session *session, bool read_only)
{
    firn_check(txn_begin(session->session, TXN_READ_COMMITTED, read_only), "txn_begin");
}

static void commit(struct session *session)
{
    firn_check(txn_commit(session->session), "txn_commit");
}

static bool get(void *pointer, const uint8_t *key, uint8_t *value)
{
    struct session *session = pointer;
    struct span found;
    begin(session, true);
    firn_rc rc = txn_get(session->session, session->env->tree, span_of(key, KV_KEY_BYTES),
                         TXN_LOCK_NONE, TXN_WAIT, &found);
    if (rc == FIRN_OK)
        memcpy(value, found.bytes, KV_VALUE_BYTES);
    else if (rc != FIRN_E_NOT_FOUND)
        firn_check(rc, "txn_get");
    commit(session);
    return rc == FIRN_OK;
}

static void put_in(struct session *session, const uint8_t *key, const uint8_t *value)
{
    firn_check(txn_put(session->session, session->env->tree, span_of(key, KV_KEY_BYTES),
                       span_of(value, KV_VALUE_BYTES)),
               "txn_put");
}

static void put(void *pointer, const uint8_t *key, const uint8_t *value)
{
    begin(pointer, false);
    put_in(pointer, key, value);
    commit(pointer);
}

static enum btree_action add_one(const struct span *old, struct span *payload, firn_rc *rc,
                                 void *context)
{
    struct session *session = context;
    if (old == NULL) {
        *rc = FIRN_E_NOT_FOUND;
        return BTREE_KEEP;
    }
    memcpy(session->value, old->bytes, KV_VALUE_BYTES);
    kv_row_increment(session->value);
    *payload = span_of(session->value, KV_VALUE_BYTES);
    return BTREE_PUT;
}

static void increment(void *pointer, const uint8_t *key)
{
    struct session *session = pointer;
    begin(session, false);
    firn_check(txn_change(session->session, session->env->tree, span_of(key, KV_KEY_BYTES), add_one,
                          session),
               "txn_change");
    commit(session);
}

static void load(void *pointer, const struct kv_row *rows, size_t count)
{
    begin(pointer, false);
    for (size_t i = 0; i < count; i++)
        put_in(pointer, rows[i].key, rows[i].value);
    commit(pointer);
}

static uint64_t scan(void *pointer, uint64_t *sum)
{
    struct session *session = pointer;
    struct txn_cursor *cursor;
    uint64_t rows = 0;
    begin(session, true);
    firn_check(
        txn_cursor_open(session->session, session->env->tree, TXN_LOCK_NONE, TXN_WAIT, &cursor),
        "txn_cursor_open");
    firn_rc rc = txn_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (; rc == FIRN_OK; rc = txn_cursor_next(cursor)) {
        struct span payload;
        firn_check(txn_cursor_payload(cursor, &payload), "txn_cursor_payload");
        kv_row_visit(txn_cursor_key(cursor).bytes, payload.bytes, sum);
        rows++;
    }
    if (rc != FIRN_E_NOT_FOUND)
        firn_check(rc, "txn_cursor_next");
    txn_cursor_close(cursor);
    commit(session);
    return rows;
}

const struct kv_driver kv_firn_txn = {
    .name = "firn-txn",
    .has_log = true,
    .direct = true,
    .version = firn_version,
    .open = open_env,
    .close = firn_env_close,
    .session_open = session_open,
    .session_close = session_close,
    .get = get,
    .put = put,
    .increment = increment,
    .load = load,
    .scan = scan,
    .log_bytes = firn_env_log_bytes,
};
