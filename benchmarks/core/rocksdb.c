/*
 * rocksdb.c -- RocksDB, a log-structured merge tree with a log: plain, and its TransactionDB, which
 * locks rows.
 *
 * The cache is divided: memtables get three eighths, the block cache the rest (all of it where the
 * workload only reads). KV_WRITTEN is its default; KV_BUFFERED is manual_wal_flush with a flush
 * each second. The plain one has no isolated read-modify-write: the driver locks a stripe of keys,
 * as a program would.
 */
#include "kv.h"

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <time.h>

enum { STRIPES = 1024, TICKS_A_FLUSH = 10, BLOOM_BITS_A_KEY = 10 };

struct env {
    rocksdb_t *db;                 /* the plain one, or NULL */
    rocksdb_transactiondb_t *txdb; /* the one with transactions, or NULL */
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
    rocksdb_transaction_options_t *txn;
    bool buffered;
    unsigned ticks;
    char *directory;
    pthread_mutex_t stripes[STRIPES];
};

struct session {
    struct env *env;
    rocksdb_transaction_t *txn; /* kept and begun anew, as the manual advises */
};

static void check(char *error, const char *what)
{
    if (error != NULL)
        kv_die("rocksdb: %s: %s", what, error);
}

static const char *version(void)
{
    return ROCKSDB_VERSION; /* its own header of versions is C++; the build asks pkg-config */
}

static void configure_blocks(rocksdb_options_t *rocks, const struct kv_options *options,
                             uint64_t cache_bytes)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_cache_t *cache = rocksdb_cache_create_lru(cache_bytes);
    rocksdb_block_based_options_set_block_size(table, options->page_bytes);
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS_A_KEY));
    rocksdb_options_set_block_based_table_factory(rocks, table);
    rocksdb_block_based_options_destroy(table);
    rocksdb_cache_destroy(cache);
}

static rocksdb_options_t *configure(const struct kv_options *options)
{
    rocksdb_options_t *rocks = rocksdb_options_create();
    uint64_t memtable_bytes = options->cache_bytes / 8;
    if (memtable_bytes > UINT64_C(64) << 20)
        memtable_bytes = UINT64_C(64) << 20;
    uint64_t cache_bytes = options->cache_bytes - (options->reads_only ? 0 : 3 * memtable_bytes);
    if (options->keep_log)
        memtable_bytes = UINT64_C(3) << 30; /* what is in no file stays in the log */
    rocksdb_options_set_create_if_missing(rocks, 1);
    rocksdb_options_set_compression(rocks, rocksdb_no_compression);
    rocksdb_options_set_write_buffer_size(rocks, memtable_bytes);
    rocksdb_options_set_max_write_buffer_number(rocks, 3);
    rocksdb_options_set_max_background_jobs(rocks, 2);
    rocksdb_options_set_max_open_files(rocks, -1);
    rocksdb_options_set_max_total_wal_size(rocks, options->keep_log ? UINT64_C(4) << 30
                                                                    : options->log_bytes);
    rocksdb_options_set_manual_wal_flush(rocks, options->durability == KV_BUFFERED);
    rocksdb_options_set_enable_pipelined_write(rocks, 1);
    rocksdb_options_set_use_direct_reads(rocks, options->cold);
    rocksdb_options_set_use_direct_io_for_flush_and_compaction(rocks, options->cold);
    configure_blocks(rocks, options, cache_bytes);
    return rocks;
}

static struct env *prepare(const struct kv_options *options)
{
    struct env *env = kv_alloc(sizeof *env);
    env->options = configure(options);
    env->read = rocksdb_readoptions_create();
    env->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(env->write, options->durability == KV_SYNCED);
    env->buffered = options->durability == KV_BUFFERED;
    env->directory = strdup(options->directory);
    for (unsigned i = 0; i < STRIPES; i++)
        pthread_mutex_init(&env->stripes[i], NULL);
    return env;
}

static void *open_plain(const struct kv_options *options)
{
    struct env *env = prepare(options);
    char *error = NULL;
    env->db = rocksdb_open(env->options, options->directory, &error);
    check(error, "rocksdb_open");
    return env;
}

static void *open_txn(const struct kv_options *options)
{
    struct env *env = prepare(options);
    rocksdb_transactiondb_options_t *txdb = rocksdb_transactiondb_options_create();
    char *error = NULL;
    env->txn = rocksdb_transaction_options_create();
    env->txdb = rocksdb_transactiondb_open(env->options, txdb, options->directory, &error);
    check(error, "rocksdb_transactiondb_open");
    rocksdb_transactiondb_options_destroy(txdb);
    return env;
}

/* Write out what is in memory: what others do when they close, RocksDB leaves to the log. */
static void flush_memtables(struct env *env)
{
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    char *error = NULL;
    rocksdb_flushoptions_set_wait(flush, 1);
    if (env->db != NULL)
        rocksdb_flush(env->db, flush, &error);
    else
        rocksdb_transactiondb_flush(env->txdb, flush, &error);
    check(error, "rocksdb_flush");
    rocksdb_flushoptions_destroy(flush);
}

static bool has(struct env *env, const char *property)
{
    uint64_t number = 0;
    if (env->db != NULL)
        rocksdb_property_int(env->db, property, &number);
    else
        rocksdb_transactiondb_property_int(env->txdb, property, &number);
    return number != 0;
}

/* Let compaction come to rest: what it owes for the writes so far is written as well, and the next
 * workload finds the tree as it would be in use, not as a fast load has left it. */
static void compact(struct env *env)
{
    const struct timespec pause = {0, 10000000};
    while (has(env, "rocksdb.compaction-pending") || has(env, "rocksdb.num-running-compactions"))
        nanosleep(&pause, NULL);
}

static void close_env(void *pointer)
{
    struct env *env = pointer;
    flush_memtables(env);
    compact(env);
    if (env->db != NULL)
        rocksdb_close(env->db);
    else
        rocksdb_transactiondb_close(env->txdb);
    if (env->txn != NULL)
        rocksdb_transaction_options_destroy(env->txn);
    rocksdb_readoptions_destroy(env->read);
    rocksdb_writeoptions_destroy(env->write);
    rocksdb_options_destroy(env->options);
    free(env->directory);
    free(env);
}

static void *session_open(void *env)
{
    struct session *session = kv_alloc(sizeof *session);
    session->env = env;
    return session;
}

static void session_close(void *pointer)
{
    struct session *session = pointer;
    if (session->txn != NULL)
        rocksdb_transaction_destroy(session->txn);
    free(session);
}

static bool take(rocksdb_pinnableslice_t *slice, uint8_t *value)
{
    size_t size_bytes;
    if (slice == NULL)
        return false;
    memcpy(value, rocksdb_pinnableslice_value(slice, &size_bytes), KV_VALUE_BYTES);
    rocksdb_pinnableslice_destroy(slice);
    return true;
}

static bool get_plain(void *pointer, const uint8_t *key, uint8_t *value)
{
    struct session *session = pointer;
    char *error = NULL;
    rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(session->env->db, session->env->read,
                                                        (const char *)key, KV_KEY_BYTES, &error);
    check(error, "rocksdb_get_pinned");
    return take(slice, value);
}

static bool get_txn(void *pointer, const uint8_t *key, uint8_t *value)
{
    struct session *session = pointer;
    char *error = NULL;
    rocksdb_pinnableslice_t *slice = rocksdb_transactiondb_get_pinned(
        session->env->txdb, session->env->read, (const char *)key, KV_KEY_BYTES, &error);
    check(error, "rocksdb_transactiondb_get_pinned");
    return take(slice, value);
}

static void put_plain(void *pointer, const uint8_t *key, const uint8_t *value)
{
    struct session *session = pointer;
    char *error = NULL;
    rocksdb_put(session->env->db, session->env->write, (const char *)key, KV_KEY_BYTES,
                (const char *)value, KV_VALUE_BYTES, &error);
    check(error, "rocksdb_put");
}

static void put_txn(void *pointer, const uint8_t *key, const uint8_t *value)
{
    struct session *session = pointer;
    char *error = NULL;
    rocksdb_transactiondb_put(session->env->txdb, session->env->write, (const char *)key,
                              KV_KEY_BYTES, (const char *)value, KV_VALUE_BYTES, &error);
    check(error, "rocksdb_transactiondb_put");
}

static void increment_plain(void *pointer, const uint8_t *key)
{
    struct session *session = pointer;
    pthread_mutex_t *stripe = &session->env->stripes[(key[0] << 8 | key[1]) % STRIPES];
    uint8_t value[KV_VALUE_BYTES];
    pthread_mutex_lock(stripe);
    if (!get_plain(session, key, value))
        kv_die("rocksdb: a row is missing");
    kv_row_increment(value);
    put_plain(session, key, value);
    pthread_mutex_unlock(stripe);
}

static void increment_txn(void *pointer, const uint8_t *key)
{
    struct session *session = pointer;
    struct env *env = session->env;
    uint8_t value[KV_VALUE_BYTES];
    char *error = NULL;
    session->txn = rocksdb_transaction_begin(env->txdb, env->write, env->txn, session->txn);
    rocksdb_pinnableslice_t *slice = rocksdb_transaction_get_pinned_for_update(
        session->txn, env->read, (const char *)key, KV_KEY_BYTES, 1, &error);
    check(error, "rocksdb_transaction_get_pinned_for_update");
    if (!take(slice, value))
        kv_die("rocksdb: a row is missing");
    kv_row_increment(value);
    rocksdb_transaction_put(session->txn, (const char *)key, KV_KEY_BYTES, (const char *)value,
                            KV_VALUE_BYTES, &error);
    check(error, "rocksdb_transaction_put");
    rocksdb_transaction_commit(session->txn, &error);
    check(error, "rocksdb_transaction_commit");
}

static void load(void *pointer, const struct kv_row *rows, size_t count)
{
    struct session *session = pointer;
    struct env *env = session->env;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    char *error = NULL;
    for (size_t i = 0; i < count; i++)
        rocksdb_writebatch_put(batch, (const char *)rows[i].key, KV_KEY_BYTES,
                               (const char *)rows[i].value, KV_VALUE_BYTES);
    if (env->db != NULL)
        rocksdb_write(env->db, env->write, batch, &error);
    else
        rocksdb_transactiondb_write(env->txdb, env->write, batch, &error);
    check(error, "rocksdb_write");
    rocksdb_writebatch_destroy(batch);
}

static uint64_t scan(void *pointer, uint64_t *sum)
{
    struct session *session = pointer;
    struct env *env = session->env;
    rocksdb_iterator_t *iterator =
        env->db != NULL ? rocksdb_create_iterator(env->db, env->read)
                        : rocksdb_transactiondb_create_iterator(env->txdb, env->read);
    uint64_t rows = 0;
    char *error = NULL;
    for (rocksdb_iter_seek_to_first(iterator); rocksdb_iter_valid(iterator);
         rocksdb_iter_next(iterator)) {
        size_t key_bytes, value_bytes;
        const char *key = rocksdb_iter_key(iterator, &key_bytes);
        const char *value = rocksdb_iter_value(iterator, &value_bytes);
        kv_row_visit((const uint8_t *)key, (const uint8_t *)value, sum);
        rows++;
    }
    rocksdb_iter_get_error(iterator, &error);
    check(error, "rocksdb_iter_next");
    rocksdb_iter_destroy(iterator);
    return rows;
}

static void tick(void *pointer)
{
    struct env *env = pointer;
    char *error = NULL;
    if (!env->buffered || ++env->ticks % TICKS_A_FLUSH != 0)
        return;
    if (env->db != NULL)
        rocksdb_flush_wal(env->db, 0, &error);
    else
        rocksdb_transactiondb_flush_wal(env->txdb, 0, &error);
    check(error, "rocksdb_flush_wal");
}

static uint64_t log_bytes(void *pointer)
{
    struct env *env = pointer;
    return kv_files_bytes(env->directory, "", ".log");
}

const struct kv_driver kv_rocksdb = {
    .name = "rocksdb",
    .has_log = true,
    .direct = true,
    .version = version,
    .open = open_plain,
    .close = close_env,
    .session_open = session_open,
    .session_close = session_close,
    .get = get_plain,
    .put = put_plain,
    .increment = increment_plain,
    .load = load,
    .scan = scan,
    .tick = tick,
    .log_bytes = log_bytes,
};

const struct kv_driver kv_rocksdb_txn = {
    .name = "rocksdb-txn",
    .has_log = true,
    .direct = true,
    .version = version,
    .open = open_txn,
    .close = close_env,
    .session_open = session_open,
    .session_close = session_close,
    .get = get_txn,
    .put = put_txn,
    .increment = increment_txn,
    .load = load,
    .scan = scan,
    .tick = tick,
    .log_bytes = log_bytes,
};
