/*
 * wiredtiger.c -- WiredTiger: a B-tree with its own cache, snapshot isolation and a log.
 *
 * KV_WRITTEN is transaction_sync=(method=none); KV_BUFFERED leaves the log records in its buffers.
 * Checkpoints are the engine's own, by the log's size. A transaction that meets another one's
 * change is rolled back and tried again.
 */
#include "kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <wiredtiger.h>

struct env {
    WT_CONNECTION *connection;
};

struct session {
    WT_SESSION *session;
    WT_CURSOR *cursor;
};

static void check(int rc, const char *what)
{
    if (rc != 0)
        kv_die("wiredtiger: %s: %s", what, wiredtiger_strerror(rc));
}

static const char *version(void)
{
    static char text[32];
    int major, minor, patch;
    wiredtiger_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

static void create_table(WT_CONNECTION *connection, const struct kv_options *options)
{
    WT_SESSION *session;
    char config[256];
    /* In memory a page may grow to 32 pages before it is split, but never past what the cache
     * bears: the default, 5 MB, is a twelfth of a small cache. */
    uint64_t memory_bytes = options->cache_bytes / 256;
    if (memory_bytes < (uint64_t)options->page_bytes * 8)
        memory_bytes = (uint64_t)options->page_bytes * 8;
    snprintf(
        config, sizeof config,
        "key_format=u,value_format=u,allocation_size=4KB,internal_page_max=%u,leaf_page_max=%u,"
        "memory_page_max=%llu",
        options->page_bytes, options->page_bytes, (unsigned long long)memory_bytes);
    check(connection->open_session(connection, NULL, NULL, &session), "open_session");
    check(session->create(session, "table:kv", config), "create");
    check(session->close(session, NULL), "close");
}

static void *open_env(const struct kv_options *options)
{
    static const char *const sync[] = {
        [KV_BUFFERED] = "(enabled=false)",
        [KV_SYNCED] = "(enabled=true,method=fsync)",
        [KV_WRITTEN] = "(enabled=true,method=none)",
    };
    struct env *env = kv_alloc(sizeof *env);
    char config[512], checkpoint[64] = "";
    if (!options->keep_log)
        snprintf(checkpoint, sizeof checkpoint, "checkpoint=(log_size=%llu),",
                 (unsigned long long)options->log_bytes);
    snprintf(
        config, sizeof config,
        "create,cache_size=%llu,log=(enabled=true,file_max=64MB),transaction_sync=%s,%s"
        "eviction=(threads_min=1,threads_max=4),eviction_dirty_target=70,eviction_dirty_trigger=90,"
        "session_max=%u,statistics=(fast),mmap=false,"
        "direct_io=[%s]",
        (unsigned long long)options->cache_bytes, sync[options->durability], checkpoint,
        options->threads + 32, options->cold ? "data" : "");
    check(wiredtiger_open(options->directory, NULL, config, &env->connection), "wiredtiger_open");
    create_table(env->connection, options);
    return env;
}

static void close_env(void *pointer)
{
    struct env *env = pointer;
    check(env->connection->close(env->connection, NULL), "close");
    free(env);
}

static void *session_open(void *pointer)
{
    struct env *env = pointer;
    struct session *session = kv_alloc(sizeof *session);
    check(env->connection->open_session(env->connection, NULL, "isolation=snapshot",
                                        &session->session),
          "open_session");
    check(session->session->open_cursor(session->session, "table:kv", NULL, "overwrite=true",
                                        &session->cursor),
          "open_cursor");
    return session;
}

static void session_close(void *pointer)
{
    struct session *session = pointer;
    check(session->session->close(session->session, NULL), "close");
    free(session);
}

static void set_key(WT_CURSOR *cursor, const uint8_t *key)
{
    WT_ITEM item = {.data = key, .size = KV_KEY_BYTES};
    cursor->set_key(cursor, &item);
}

static bool get(void *pointer, const uint8_t *key, uint8_t *value)
{
    struct session *session = pointer;
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM item;
    set_key(cursor, key);
    int rc = cursor->search(cursor);
    if (rc == WT_NOTFOUND)
        return false;
    check(rc, "search");
    check(cursor->get_value(cursor, &item), "get_value");
    memcpy(value, item.data, KV_VALUE_BYTES);
    check(cursor->reset(cursor), "reset");
    return true;
}

static int put_in(WT_CURSOR *cursor, const uint8_t *key, const uint8_t *value)
{
    WT_ITEM item = {.data = value, .size = KV_VALUE_BYTES};
    set_key(cursor, key);
    cursor->set_value(cursor, &item);
    return cursor->insert(cursor);
}

static int increment_in(WT_CURSOR *cursor, const uint8_t *key)
{
    WT_ITEM item;
    uint8_t value[KV_VALUE_BYTES];
    set_key(cursor, key);
    int rc = cursor->search(cursor);
    if (rc != 0)
        return rc;
    check(cursor->get_value(cursor, &item), "get_value");
    memcpy(value, item.data, KV_VALUE_BYTES);
    kv_row_increment(value);
    item = (WT_ITEM){.data = value, .size = KV_VALUE_BYTES};
    cursor->set_value(cursor, &item);
    return cursor->update(cursor);
}

static void begin(struct session *session)
{
    check(session->session->begin_transaction(session->session, NULL), "begin_transaction");
}

/* Commit if rc is 0; roll back if the transaction has to be tried again. @return done? */
static bool finish(struct session *session, int rc, const char *what)
{
    check(session->cursor->reset(session->cursor), "reset");
    if (rc == WT_ROLLBACK) {
        check(session->session->rollback_transaction(session->session, NULL),
              "rollback_transaction");
        return false;
    }
    check(rc, what);
    rc = session->session->commit_transaction(session->session, NULL);
    if (rc == WT_ROLLBACK)
        return false;
    check(rc, "commit_transaction");
    return true;
}

static void load(void *pointer, const struct kv_row *rows, size_t count)
{
    struct session *session = pointer;
    int rc;
    do {
        rc = 0;
        begin(session);
        for (size_t i = 0; i < count && rc == 0; i++)
            rc = put_in(session->cursor, rows[i].key, rows[i].value);
    } while (!finish(session, rc, "insert"));
}

static void put(void *pointer, const uint8_t *key, const uint8_t *value)
{
    struct session *session = pointer;
    int rc;
    do {
        begin(session);
        rc = put_in(session->cursor, key, value);
    } while (!finish(session, rc, "insert"));
}

static void increment(void *pointer, const uint8_t *key)
{
    struct session *session = pointer;
    int rc;
    do {
        begin(session);
        rc = increment_in(session->cursor, key);
    } while (!finish(session, rc, "update"));
}

static uint64_t scan(void *pointer, uint64_t *sum)
{
    struct session *session = pointer;
    WT_CURSOR *cursor = session->cursor;
    WT_ITEM key, value;
    uint64_t rows = 0;
    int rc;
    while ((rc = cursor->next(cursor)) == 0) {
        check(cursor->get_key(cursor, &key), "get_key");
        check(cursor->get_value(cursor, &value), "get_value");
        kv_row_visit(key.data, value.data, sum);
        rows++;
    }
    if (rc != WT_NOTFOUND)
        check(rc, "next");
    check(cursor->reset(cursor), "reset");
    return rows;
}

static uint64_t log_bytes(void *pointer)
{
    struct env *env = pointer;
    WT_SESSION *session;
    WT_CURSOR *cursor;
    const char *description, *text;
    int64_t value;
    check(env->connection->open_session(env->connection, NULL, NULL, &session), "open_session");
    check(session->open_cursor(session, "statistics:", NULL, "statistics=(fast)", &cursor),
          "open_cursor");
    cursor->set_key(cursor, WT_STAT_CONN_LOG_BYTES_WRITTEN);
    check(cursor->search(cursor), "search");
    check(cursor->get_value(cursor, &description, &text, &value), "get_value");
    check(session->close(session, NULL), "close");
    return (uint64_t)value;
}

const struct kv_driver kv_wiredtiger = {
    .name = "wiredtiger",
    .has_log = true,
    .direct = true,
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
