/*
 * sqlite.c -- SQLite in WAL mode: a B-tree with one writer at a time and a log of whole pages.
 *
 * A session is a connection with prepared statements; all write through one of them, each in its
 * turn. The page cache serves all connections, so each keeps only a
 * small cache of its own, unless the workload's cache is as large as the data. KV_BUFFERED does not
 * exist: a commit is written to the log; KV_WRITTEN is synchronous=NORMAL, KV_SYNCED is FULL.
 */
#include "kv.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

struct env {
    char path[4096];
    char pragmas[512];
    char *directory;
    pthread_mutex_t turn;
    struct session *writer; /* all sessions write through it, each in its turn */
};

struct session {
    struct env *env;
    sqlite3 *db;
    sqlite3_stmt *get, *put, *scan, *begin, *commit;
};

static void check(sqlite3 *db, int rc, const char *what)
{
    if (rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE)
        kv_die("sqlite: %s: %s", what, db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
}

static const char *version(void)
{
    return sqlite3_libversion();
}

static sqlite3 *connect_db(const struct env *env)
{
    sqlite3 *db = NULL;
    check(db,
          sqlite3_open_v2(env->path, &db,
                          SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL),
          env->path);
    check(db, sqlite3_busy_timeout(db, 60000), "busy_timeout");
    check(db, sqlite3_exec(db, env->pragmas, NULL, NULL, NULL), env->pragmas);
    return db;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    check(db, sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL), sql);
    return statement;
}

static void *session_open(void *env)
{
    struct session *session = kv_alloc(sizeof *session);
    session->env = env;
    session->db = connect_db(env);
    session->get = prepare(session->db, "select v from kv where k = ?1");
    session->put = prepare(session->db, "insert into kv values(?1, ?2) on conflict(k) "
                                        "do update set v = excluded.v");
    session->scan = prepare(session->db, "select k, v from kv order by k");
    session->begin = prepare(session->db, "begin immediate");
    session->commit = prepare(session->db, "commit");
    return session;
}

static void session_close(void *pointer)
{
    struct session *session = pointer;
    sqlite3_finalize(session->get);
    sqlite3_finalize(session->put);
    sqlite3_finalize(session->scan);
    sqlite3_finalize(session->begin);
    sqlite3_finalize(session->commit);
    check(session->db, sqlite3_close(session->db), "close");
    free(session);
}

static void create_table(struct env *env)
{
    sqlite3 *db = connect_db(env);
    check(db,
          sqlite3_exec(db,
                       "create table if not exists kv(k blob primary key, v blob) without rowid",
                       NULL, NULL, NULL),
          "create table");
    check(db, sqlite3_close(db), "close");
}

static void *open_env(const struct kv_options *options)
{
    struct env *env = kv_alloc(sizeof *env);
    uint64_t cache_bytes = options->cache_bytes;
    if (options->cold) /* a small cache, shared: the page cache, within the memory limit */
        cache_bytes = cache_bytes / 4 / options->threads;
    snprintf(env->path, sizeof env->path, "%s/kv.sqlite", options->directory);
    env->directory = strdup(options->directory);
    snprintf(env->pragmas, sizeof env->pragmas,
             "pragma page_size=%u; pragma journal_mode=wal; pragma synchronous=%s;"
             "pragma cache_size=-%llu; pragma wal_autocheckpoint=%llu; pragma temp_store=memory;",
             options->page_bytes, options->durability == KV_SYNCED ? "full" : "normal",
             (unsigned long long)cache_bytes / 1024,
             options->keep_log ? 0ULL
                               : (unsigned long long)(options->log_bytes / options->page_bytes));
    pthread_mutex_init(&env->turn, NULL);
    create_table(env);
    env->writer = session_open(env);
    return env;
}

static void close_env(void *pointer)
{
    struct env *env = pointer;
    check(env->writer->db,
          sqlite3_exec(env->writer->db, "pragma wal_checkpoint(truncate)", NULL, NULL, NULL),
          "wal_checkpoint");
    session_close(env->writer);
    free(env->directory);
    free(env);
}

static void execute(struct session *session, sqlite3_stmt *statement, const char *what)
{
    check(session->db, sqlite3_step(statement), what);
    check(session->db, sqlite3_reset(statement), what);
}

static bool get(void *pointer, const uint8_t *key, uint8_t *value)
{
    struct session *session = pointer;
    sqlite3_bind_blob(session->get, 1, key, KV_KEY_BYTES, SQLITE_STATIC);
    int rc = sqlite3_step(session->get);
    check(session->db, rc, "select");
    if (rc == SQLITE_ROW)
        memcpy(value, sqlite3_column_blob(session->get, 0), KV_VALUE_BYTES);
    check(session->db, sqlite3_reset(session->get), "select");
    return rc == SQLITE_ROW;
}

static void put_in(struct session *session, const uint8_t *key, const uint8_t *value)
{
    sqlite3_bind_blob(session->put, 1, key, KV_KEY_BYTES, SQLITE_STATIC);
    sqlite3_bind_blob(session->put, 2, value, KV_VALUE_BYTES, SQLITE_STATIC);
    execute(session, session->put, "insert");
}

/* The one connection that writes: a second one would find its cache void after each change of the
 * first. */
static struct session *take_turn(struct session *session)
{
    pthread_mutex_lock(&session->env->turn);
    return session->env->writer;
}

static void end_turn(struct session *writer)
{
    pthread_mutex_unlock(&writer->env->turn);
}

static void load(void *pointer, const struct kv_row *rows, size_t count)
{
    struct session *writer = take_turn(pointer);
    execute(writer, writer->begin, "begin");
    for (size_t i = 0; i < count; i++)
        put_in(writer, rows[i].key, rows[i].value);
    execute(writer, writer->commit, "commit");
    end_turn(writer);
}

static void put(void *pointer, const uint8_t *key, const uint8_t *value)
{
    struct session *writer = take_turn(pointer);
    put_in(writer, key, value);
    end_turn(writer);
}

static void increment(void *pointer, const uint8_t *key)
{
    struct session *writer = take_turn(pointer);
    uint8_t value[KV_VALUE_BYTES];
    execute(writer, writer->begin, "begin");
    if (!get(writer, key, value))
        kv_die("sqlite: a row is missing");
    kv_row_increment(value);
    put_in(writer, key, value);
    execute(writer, writer->commit, "commit");
    end_turn(writer);
}

static uint64_t scan(void *pointer, uint64_t *sum)
{
    struct session *session = pointer;
    uint64_t rows = 0;
    int rc;
    while ((rc = sqlite3_step(session->scan)) == SQLITE_ROW) {
        kv_row_visit(sqlite3_column_blob(session->scan, 0), sqlite3_column_blob(session->scan, 1),
                     sum);
        rows++;
    }
    check(session->db, rc, "select");
    check(session->db, sqlite3_reset(session->scan), "select");
    return rows;
}

static uint64_t log_bytes(void *pointer)
{
    struct env *env = pointer;
    return kv_files_bytes(env->directory, "", "-wal");
}

const struct kv_driver kv_sqlite = {
    .name = "sqlite",
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
    .log_bytes = log_bytes,
};
