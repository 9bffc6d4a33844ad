/*
 * lmdb.c -- LMDB: a copy-on-write B+tree in a memory map, without a log.
 *
 * Its cache is the page cache, its pages are the machine's. What is not synced is written without a
 * sync (MDB_NOSYNC): a power cut may then leave nothing usable, which no other engine here risks.
 * KV_BUFFERED does not exist.
 */
#include "kv.h"

#include <lmdb.h>
#include <stdlib.h>

struct env {
    MDB_env *env;
    MDB_dbi dbi;
};

struct session {
    struct env *env;
    MDB_txn *reader; /* reset between reads, as the manual advises */
};

static void check(int rc, const char *what)
{
    if (rc != 0)
        kv_die("lmdb: %s: %s", what, mdb_strerror(rc));
}

static const char *version(void)
{
    return MDB_VERSION_STRING;
}

static void *open_env(const struct kv_options *options)
{
    struct env *env = kv_alloc(sizeof *env);
    unsigned flags = MDB_NORDAHEAD;
    if (options->durability != KV_SYNCED)
        flags |= MDB_NOSYNC | MDB_WRITEMAP;
    check(mdb_env_create(&env->env), "mdb_env_create");
    check(mdb_env_set_mapsize(env->env, (size_t)1 << 34), "mdb_env_set_mapsize");
    check(mdb_env_set_maxreaders(env->env, options->threads + 8), "mdb_env_set_maxreaders");
    check(mdb_env_open(env->env, options->directory, flags, 0600), "mdb_env_open");
    MDB_txn *txn;
    check(mdb_txn_begin(env->env, NULL, 0, &txn), "mdb_txn_begin");
    check(mdb_dbi_open(txn, NULL, MDB_CREATE, &env->dbi), "mdb_dbi_open");
    check(mdb_txn_commit(txn), "mdb_txn_commit");
    return env;
}

static void close_env(void *pointer)
{
    struct env *env = pointer;
    check(mdb_env_sync(env->env, 1), "mdb_env_sync");
    mdb_env_close(env->env);
    free(env);
}

static void *session_open(void *env)
{
    struct session *session = kv_alloc(sizeof *session);
    session->env = env;
    check(mdb_txn_begin(session->env->env, NULL, MDB_RDONLY, &session->reader), "mdb_txn_begin");
    mdb_txn_reset(session->reader);
    return session;
}

static void session_close(void *pointer)
{
    struct session *session = pointer;
    mdb_txn_abort(session->reader);
    free(session);
}

static bool get(void *pointer, const uint8_t *key, uint8_t *value)
{
    struct session *session = pointer;
    MDB_val k = {.mv_size = KV_KEY_BYTES, .mv_data = (void *)key}, v;
    check(mdb_txn_renew(session->reader), "mdb_txn_renew");
    int rc = mdb_get(session->reader, session->env->dbi, &k, &v);
    if (rc == 0)
        memcpy(value, v.mv_data, KV_VALUE_BYTES);
    mdb_txn_reset(session->reader);
    if (rc != MDB_NOTFOUND)
        check(rc, "mdb_get");
    return rc == 0;
}

static void put_in(struct env *env, MDB_txn *txn, const uint8_t *key, const uint8_t *value)
{
    MDB_val k = {.mv_size = KV_KEY_BYTES, .mv_data = (void *)key};
    MDB_val v = {.mv_size = KV_VALUE_BYTES, .mv_data = (void *)value};
    check(mdb_put(txn, env->dbi, &k, &v, 0), "mdb_put");
}

static void load(void *pointer, const struct kv_row *rows, size_t count)
{
    struct session *session = pointer;
    MDB_txn *txn;
    check(mdb_txn_begin(session->env->env, NULL, 0, &txn), "mdb_txn_begin");
    for (size_t i = 0; i < count; i++)
        put_in(session->env, txn, rows[i].key, rows[i].value);
    check(mdb_txn_commit(txn), "mdb_txn_commit");
}

static void put(void *pointer, const uint8_t *key, const uint8_t *value)
{
    struct session *session = pointer;
    MDB_txn *txn;
    check(mdb_txn_begin(session->env->env, NULL, 0, &txn), "mdb_txn_begin");
    put_in(session->env, txn, key, value);
    check(mdb_txn_commit(txn), "mdb_txn_commit");
}

static void increment(void *pointer, const uint8_t *key)
{
    struct session *session = pointer;
    uint8_t value[KV_VALUE_BYTES];
    MDB_txn *txn;
    MDB_val k = {.mv_size = KV_KEY_BYTES, .mv_data = (void *)key}, v;
    check(mdb_txn_begin(session->env->env, NULL, 0, &txn), "mdb_txn_begin");
    check(mdb_get(txn, session->env->dbi, &k, &v), "mdb_get");
    memcpy(value, v.mv_data, KV_VALUE_BYTES);
    kv_row_increment(value);
    put_in(session->env, txn, key, value);
    check(mdb_txn_commit(txn), "mdb_txn_commit");
}

static uint64_t scan(void *pointer, uint64_t *sum)
{
    struct session *session = pointer;
    MDB_cursor *cursor;
    MDB_val k, v;
    uint64_t rows = 0;
    int rc;
    check(mdb_txn_renew(session->reader), "mdb_txn_renew");
    check(mdb_cursor_open(session->reader, session->env->dbi, &cursor), "mdb_cursor_open");
    while ((rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
        kv_row_visit(k.mv_data, v.mv_data, sum);
        rows++;
    }
    if (rc != MDB_NOTFOUND)
        check(rc, "mdb_cursor_get");
    mdb_cursor_close(cursor);
    mdb_txn_reset(session->reader);
    return rows;
}

const struct kv_driver kv_lmdb = {
    .name = "lmdb",
    .version = version,
    .open = open_env,
    .close = close_env,
    .session_open = session_open,
    .session_close = session_close,
    .get = get,
    .put = put,
    .increment = increment,
    .load = load,
    .scan = scan,
};
