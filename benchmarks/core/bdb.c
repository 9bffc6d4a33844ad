/*
 * bdb.c -- Berkeley DB: a B-tree with its own cache, page locks and a log.
 *
 * Checkpoints are the caller's (tick). A transaction that deadlocks is aborted and tried again.
 * Reads take no transaction; the scan reads in bulk, as the manual advises. Debian's is built
 * without direct I/O.
 */
#include "kv.h"

#include <db.h>
#include <stdlib.h>

enum { BULK_BYTES = 1 << 20 };

struct env {
    DB_ENV *env;
    DB *db;
    uint64_t log_bytes;
    bool keep_log;
};

struct session {
    struct env *env;
    void *bulk;
};

static void check(int rc, const char *what)
{
    if (rc != 0)
        kv_die("bdb: %s: %s", what, db_strerror(rc));
}

static const char *version(void)
{
    return DB_VERSION_STRING;
}

/* Everything that must be said before the environment is opened. */
static void configure(DB_ENV *env, const struct kv_options *options)
{
    uint32_t locks = 20000 + options->threads * 100;
    uint64_t cache_bytes = options->cache_bytes;
    if (cache_bytes < UINT64_C(500) << 20) /* the library adds a quarter to small caches */
        cache_bytes = cache_bytes / 5 * 4;
    check(env->set_cachesize(env, (uint32_t)(cache_bytes >> 30),
                             (uint32_t)(cache_bytes & ((1U << 30) - 1)), 1),
          "set_cachesize");
    check(env->set_mp_pagesize(env, options->page_bytes), "set_mp_pagesize");
    check(env->set_lk_max_locks(env, locks), "set_lk_max_locks");
    check(env->set_lk_max_objects(env, locks), "set_lk_max_objects");
    check(env->set_lk_max_lockers(env, locks), "set_lk_max_lockers");
    check(env->set_lk_detect(env, DB_LOCK_DEFAULT), "set_lk_detect");
    check(env->set_tx_max(env, options->threads * 4 + 100), "set_tx_max");
    check(env->set_lg_bsize(env, 8 << 20), "set_lg_bsize");
    check(env->set_lg_max(env, 64 << 20), "set_lg_max");
    if (!options->keep_log)
        check(env->log_set_config(env, DB_LOG_AUTO_REMOVE, 1), "log_set_config");
    if (options->durability == KV_BUFFERED)
        check(env->set_flags(env, DB_TXN_NOSYNC, 1), "set_flags");
    if (options->durability == KV_WRITTEN)
        check(env->set_flags(env, DB_TXN_WRITE_NOSYNC, 1), "set_flags");
}

static void *open_env(const struct kv_options *options)
{
    struct env *env = kv_alloc(sizeof *env);
    env->log_bytes = options->log_bytes;
    env->keep_log = options->keep_log;
    check(db_env_create(&env->env, 0), "db_env_create");
    configure(env->env, options);
    check(env->env->open(env->env, options->directory,
                         DB_CREATE | DB_PRIVATE | DB_THREAD | DB_RECOVER | DB_INIT_MPOOL |
                             DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_TXN,
                         0600),
          "DB_ENV->open");
    check(db_create(&env->db, env->env, 0), "db_create");
    check(env->db->set_pagesize(env->db, options->page_bytes), "set_pagesize");
    check(env->db->open(env->db, NULL, "kv.db", NULL, DB_BTREE,
                        DB_CREATE | DB_THREAD | DB_AUTO_COMMIT, 0600),
          "DB->open");
    return env;
}

static void close_env(void *pointer)
{
    struct env *env = pointer;
    check(env->env->txn_checkpoint(env->env, 0, 0, DB_FORCE), "txn_checkpoint");
    check(env->db->close(env->db, 0), "DB->close");
    check(env->env->close(env->env, 0), "DB_ENV->close");
    free(env);
}

static void *session_open(void *env)
{
    struct session *session = kv_alloc(sizeof *session);
    session->env = env;
    session->bulk = kv_alloc(BULK_BYTES);
    return session;
}

static void session_close(void *pointer)
{
    struct session *session = pointer;
    free(session->bulk);
    free(session);
}

static DBT key_dbt(const uint8_t *key)
{
    return (DBT){
        .data = (void *)key, .size = KV_KEY_BYTES, .ulen = KV_KEY_BYTES, .flags = DB_DBT_USERMEM};
}

static int get_in(struct env *env, DB_TXN *txn, const uint8_t *key, uint8_t *value, uint32_t flags)
{
    DBT k = key_dbt(key);
    DBT v = {.data = value, .ulen = KV_VALUE_BYTES, .flags = DB_DBT_USERMEM};
    return env->db->get(env->db, txn, &k, &v, flags);
}

static int put_in(struct env *env, DB_TXN *txn, const uint8_t *key, const uint8_t *value)
{
    DBT k = key_dbt(key);
    DBT v = {.data = (void *)value, .size = KV_VALUE_BYTES};
    return env->db->put(env->db, txn, &k, &v, 0);
}

static bool get(void *pointer, const uint8_t *key, uint8_t *value)
{
    struct session *session = pointer;
    int rc;
    do
        rc = get_in(session->env, NULL, key, value, 0);
    while (rc == DB_LOCK_DEADLOCK);
    if (rc != DB_NOTFOUND)
        check(rc, "DB->get");
    return rc == 0;
}

static DB_TXN *begin(struct session *session)
{
    DB_TXN *txn;
    check(session->env->env->txn_begin(session->env->env, NULL, &txn, 0), "txn_begin");
    return txn;
}

/* Commit if rc is 0; abort if the transaction has to be tried again. @return done? */
static bool finish(DB_TXN *txn, int rc, const char *what)
{
    if (rc == DB_LOCK_DEADLOCK) {
        check(txn->abort(txn), "abort");
        return false;
    }
    check(rc, what);
    check(txn->commit(txn, 0), "commit");
    return true;
}

static void load(void *pointer, const struct kv_row *rows, size_t count)
{
    struct session *session = pointer;
    DB_TXN *txn;
    int rc;
    do {
        rc = 0;
        txn = begin(session);
        for (size_t i = 0; i < count && rc == 0; i++)
            rc = put_in(session->env, txn, rows[i].key, rows[i].value);
    } while (!finish(txn, rc, "DB->put"));
}

static void put(void *pointer, const uint8_t *key, const uint8_t *value)
{
    struct session *session = pointer;
    DB_TXN *txn;
    int rc;
    do {
        txn = begin(session);
        rc = put_in(session->env, txn, key, value);
    } while (!finish(txn, rc, "DB->put"));
}

static void increment(void *pointer, const uint8_t *key)
{
    struct session *session = pointer;
    uint8_t value[KV_VALUE_BYTES];
    DB_TXN *txn;
    int rc;
    do {
        txn = begin(session);
        rc = get_in(session->env, txn, key, value, DB_RMW);
        if (rc == 0) {
            kv_row_increment(value);
            rc = put_in(session->env, txn, key, value);
        }
    } while (!finish(txn, rc, "DB->put"));
}

static uint64_t scan(void *pointer, uint64_t *sum)
{
    struct session *session = pointer;
    DB *db = session->env->db;
    DBC *cursor;
    DBT key = {0}, data = {.data = session->bulk, .ulen = BULK_BYTES, .flags = DB_DBT_USERMEM};
    uint64_t rows = 0;
    int rc;
    check(db->cursor(db, NULL, &cursor, DB_CURSOR_BULK), "DB->cursor");
    while ((rc = cursor->get(cursor, &key, &data, DB_NEXT | DB_MULTIPLE_KEY)) == 0) {
        void *at;
        DB_MULTIPLE_INIT(at, &data);
        for (;;) {
            uint8_t *k, *v;
            size_t k_bytes, v_bytes;
            DB_MULTIPLE_KEY_NEXT(at, &data, k, k_bytes, v, v_bytes);
            if (at == NULL)
                break;
            (void)k_bytes, (void)v_bytes; /* all rows are alike */
            kv_row_visit(k, v, sum);
            rows++;
        }
    }
    if (rc != DB_NOTFOUND)
        check(rc, "DBC->get");
    check(cursor->close(cursor), "DBC->close");
    return rows;
}

static void tick(void *pointer)
{
    struct env *env = pointer;
    if (!env->keep_log)
        check(env->env->txn_checkpoint(env->env, (uint32_t)(env->log_bytes >> 10), 0, 0),
              "txn_checkpoint");
}

static uint64_t log_bytes(void *pointer)
{
    struct env *env = pointer;
    DB_LOG_STAT *stat;
    check(env->env->log_stat(env->env, &stat, 0), "log_stat");
    uint64_t bytes = ((uint64_t)stat->st_wc_mbytes << 20) + stat->st_wc_bytes;
    free(stat);
    return bytes;
}

const struct kv_driver kv_bdb = {
    .name = "bdb",
    .has_log = true,
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
    .tick = tick,
    .log_bytes = log_bytes,
};
