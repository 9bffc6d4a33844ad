/*
 * firn.c -- Firn's store: a B+tree with its own cache and a log.
 *
 * The store has no transactions over several rows: load() puts row by row and asks for durability
 * once. An increment reads, decides and writes under the leaf's latch.
 */
#include "firn.h"

#include <stdlib.h>

struct session {
    struct firn_env *env;
    struct store_session *session;
    struct btree_cursor *cursor;
    uint8_t value[KV_VALUE_BYTES];
};

void *firn_env_open(const struct kv_options *options, unsigned tree_flags)
{
    static const enum redo_flush flush[] = {
        [KV_BUFFERED] = REDO_FLUSH_NONE,
        [KV_SYNCED] = REDO_FLUSH_SYNC,
        [KV_WRITTEN] = REDO_FLUSH_WRITE,
    };
    const uint64_t mib = 1 << 20;
    struct firn_env *env = kv_alloc(sizeof *env);
    struct store_options store;
    store_options_init(&store);
    store.directory = options->directory;
    store.create = true;
    store.page_size_bytes = options->page_bytes;
    store.buffer_pool_size_bytes = options->cache_bytes / mib * mib;
    store.log_files = 2;
    store.log_file_size_bytes = options->log_bytes / 2 / mib * mib;
    store.flush_log_at_commit = flush[options->durability];
    store.buffer_pool_dump_at_shutdown = store.buffer_pool_load_at_startup = false;
    /* What an administrator would say of a disk that writes tens of thousands of pages a second. */
    store.io_capacity = 2000;
    store.io_capacity_max = 20000;
    store.background_threads = !options->keep_log; /* no cleaner: no checkpoint */
    firn_check(store_open(&store, &env->store, NULL), "store_open");
    firn_check(store_tree(env->store, "kv", STORE_TREE_CREATE | tree_flags, &env->tree),
               "store_tree");
    return env;
}

static void *open_env(const struct kv_options *options)
{
    return firn_env_open(options, 0);
}

void firn_env_close(void *pointer)
{
    struct firn_env *env = pointer;
    firn_check(store_close(env->store), "store_close");
    free(env);
}

static void *session_open(void *env)
{
    struct session *session = kv_alloc(sizeof *session);
    session->env = env;
    firn_check(store_session_open(session->env->store, &session->session), "store_session_open");
    return session;
}

static void session_close(void *pointer)
{
    struct session *session = pointer;
    if (session->cursor != NULL)
        btree_cursor_close(session->cursor);
    store_session_close(session->session);
    free(session);
}

static bool get(void *pointer, const uint8_t *key, uint8_t *value)
{
    struct session *session = pointer;
    struct span found;
    firn_rc rc =
        store_get(session->session, session->env->tree, span_of(key, KV_KEY_BYTES), &found);
    if (rc == FIRN_E_NOT_FOUND)
        return false;
    firn_check(rc, "store_get");
    memcpy(value, found.bytes, KV_VALUE_BYTES);
    return true;
}

static void put_in(struct session *session, const uint8_t *key, const uint8_t *value)
{
    firn_check(store_put(session->session, session->env->tree, span_of(key, KV_KEY_BYTES),
                         span_of(value, KV_VALUE_BYTES)),
               "store_put");
}

static void commit(struct session *session)
{
    firn_check(store_commit(session->session), "store_commit");
}

static void put(void *pointer, const uint8_t *key, const uint8_t *value)
{
    put_in(pointer, key, value);
    commit(pointer);
}

static enum btree_action add_one(const struct btree_old *old, struct btree_new *new, firn_rc *rc,
                                 void *context)
{
    struct session *session = context;
    if (old == NULL) {
        *rc = FIRN_E_NOT_FOUND;
        return BTREE_KEEP;
    }
    memcpy(session->value, old->value.bytes, KV_VALUE_BYTES);
    kv_row_increment(session->value);
    new->value = span_of(session->value, KV_VALUE_BYTES);
    return BTREE_PUT;
}

static void increment(void *pointer, const uint8_t *key)
{
    struct session *session = pointer;
    struct btree_edit edit = {.decide = add_one, .context = session};
    firn_check(store_edit(session->session, session->env->tree, span_of(key, KV_KEY_BYTES), &edit),
               "store_edit");
    commit(session);
}

static void load(void *pointer, const struct kv_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_in(pointer, rows[i].key, rows[i].value);
    commit(pointer);
}

static uint64_t scan(void *pointer, uint64_t *sum)
{
    struct session *session = pointer;
    struct firn_env *env = session->env;
    uint64_t rows = 0;
    if (session->cursor == NULL)
        firn_check(btree_cursor_open(store_base(env->store), env->tree, &session->cursor),
                   "btree_cursor_open");
    struct btree_cursor *cursor = session->cursor;
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (; rc == FIRN_OK; rc = btree_cursor_next(cursor)) {
        struct span value;
        firn_check(btree_cursor_value(cursor, &value), "btree_cursor_value");
        kv_row_visit(btree_cursor_key(cursor).bytes, value.bytes, sum);
        rows++;
    }
    if (rc != FIRN_E_NOT_FOUND)
        firn_check(rc, "btree_cursor_next");
    return rows;
}

uint64_t firn_env_log_bytes(void *pointer)
{
    struct firn_env *env = pointer;
    struct store_status status;
    store_status(env->store, &status);
    return status.checkpoint_age_bytes;
}

const struct kv_driver kv_firn = {
    .name = "firn",
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
