#include "engine/store_internal.h"

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    QUEUE_DEPTH = 64,
    RECOVERY_THREADS_MAX = 8,
    RECOVERY_MEMORY_SHARE = 2, /* of the pool's size: records that wait for their page ... */
    RECOVERY_MEMORY_MIN_BYTES = 8 << 20, /* ... or this much, beside a pool that is smaller */
    URGE_SHARE = 8, /* of the log's capacity, that a thread without room writes pages for */
    ERROR_TEXT_BYTES = 512,
};

static const uint64_t MIB = UINT64_C(1) << 20;

/* ---- Options ---- */

void store_options_init(struct store_options *options)
{
    *options = (struct store_options){
        .io_backend = IO_BACKEND_AUTO,
        .direct = true,
        .buffer_pool_size_bytes = 128 * MIB,
        .log_buffer_size_bytes = 16 * MIB,
        .flush_log_at_commit = REDO_FLUSH_SYNC,
        .doublewrite = BUFFER_DOUBLEWRITE_ON,
        .io_capacity = 200,
        .io_capacity_max = 2000,
        .max_dirty_pages_pct = 90,
        .old_blocks_pct = 37,
        .buffer_pool_dump_at_shutdown = true,
        .buffer_pool_load_at_startup = true,
        .buffer_pool_dump_pct = 25,
        .autoextend_bytes = 64 * MIB,
        .background_threads = true,
        .undo_tablespaces = 2,
        .undo_max_bytes = 1024 * MIB,
        .purge_threads = 2,
        .lock_wait_limit_ns = 50 * NS_PER_S,
        .lock_memory_bytes = 64 * MIB,
        .deadlock_detect = true,
        .server_id = 1,
        .max_binlog_size_bytes = 1024 * MIB,
        .binlog_cache_size_bytes = 256 << 10,
        .binlog_expire_s = 30 * 24 * 3600,
    };
}

struct bound {
    const char *name;
    uint64_t value;
    uint64_t min;
    uint64_t max;
};

static firn_rc check_bounds(const struct store_options *options)
{
    const struct bound bounds[] = {
        {"log_file_size", options->log_file_size_bytes, 4 * MIB, UINT64_C(1) << 40},
        {"log_files", options->log_files, 2, 100},
        {"log_buffer_size", options->log_buffer_size_bytes, 8 * MIB, UINT64_C(1) << 30},
        {"flush_log_at_commit", options->flush_log_at_commit, 0, 2},
        {"io_capacity", options->io_capacity, 1, 10000000},
        {"io_capacity_max", options->io_capacity_max, 1, 10000000},
        {"max_dirty_pages_pct", options->max_dirty_pages_pct, 1, 99},
        {"old_blocks_pct", options->old_blocks_pct, 5, 95},
        {"buffer_pool_dump_pct", options->buffer_pool_dump_pct, 1, 100},
        {"autoextend_increment", options->autoextend_bytes, MIB, UINT64_C(1) << 40},
        {"recovery_threads", options->recovery_threads, 0, 64},
        {"undo_tablespaces", options->undo_tablespaces, 1, 127},
        {"max_undo_log_size", options->undo_max_bytes, 10 * MIB, UINT64_C(1) << 50},
        {"purge_threads", options->purge_threads, 0, 32},
        {"lock_memory", options->lock_memory_bytes, MIB, UINT64_C(1) << 40},
        {"binlog_sync", options->binlog_sync, STORE_BINLOG_TOGETHER, STORE_BINLOG_SEPARATE},
        {"server_id", options->server_id, 1, UINT32_MAX},
        {"max_binlog_size", options->max_binlog_size_bytes, BINLOG_MAX_MIN_BYTES,
         UINT64_C(1) << 40},
        {"binlog_cache_size", options->binlog_cache_size_bytes, BINLOG_CACHE_MIN_BYTES,
         BINLOG_CACHE_MAX_BYTES},
        {"binlog_expire_logs_seconds", options->binlog_expire_s, 0, UINT32_MAX},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bounds); i++) {
        const struct bound *b = &bounds[i];
        bool as_it_is = b->value == 0 && (i == 0 || i == 1);
        if (!as_it_is && (b->value < b->min || b->value > b->max))
            return rc_raise(FIRN_E_INVALID, "%s is %llu, but must be from %llu to %llu", b->name,
                            (unsigned long long)b->value, (unsigned long long)b->min,
                            (unsigned long long)b->max);
    }
    return FIRN_OK;
}

static firn_rc check_options(const struct store_options *options)
{
    if (options->directory == NULL || options->directory[0] == '\0')
        return rc_raise(FIRN_E_INVALID, "no directory is given for the environment");
    if (options->page_size_bytes != 0 && !page_size_is_valid(options->page_size_bytes))
        return rc_raise(FIRN_E_INVALID,
                        "page_size is %u, but must be 4096, 8192, 16384, 32768 or 65536 bytes",
                        options->page_size_bytes);
    FIRN_TRY(check_bounds(options));
    if (options->log_file_size_bytes % MIB != 0)
        return rc_raise(FIRN_E_INVALID, "log_file_size is %llu, but must be a multiple of 1 MiB",
                        (unsigned long long)options->log_file_size_bytes);
    if (options->log_buffer_size_bytes % (64 << 10) != 0)
        return rc_raise(FIRN_E_INVALID, "log_buffer_size is %llu, but must be a multiple of 64 KiB",
                        (unsigned long long)options->log_buffer_size_bytes);
    if (options->io_capacity_max < options->io_capacity)
        return rc_raise(
            FIRN_E_INVALID,
            "io_capacity_max is %u and io_capacity %u: the maximum must not be below it",
            options->io_capacity_max, options->io_capacity);
    if (options->buffer_pool_max_bytes != 0 &&
        options->buffer_pool_max_bytes < options->buffer_pool_size_bytes)
        return rc_raise(FIRN_E_INVALID,
                        "the buffer pool's largest size, %llu bytes, is below buffer_pool_size, "
                        "%llu bytes",
                        (unsigned long long)options->buffer_pool_max_bytes,
                        (unsigned long long)options->buffer_pool_size_bytes);
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        const char *own = options->class_directories[class];
        if (own != NULL && own[0] == '\0')
            return rc_raise(FIRN_E_INVALID, "%s is empty: name a directory or leave it out",
                            env_class_option(class));
    }
    return FIRN_OK;
}

/* ---- Options against the files ---- */

static firn_rc check_class_directory(const struct store *store, enum io_class class)
{
    const char *home = store->directories[0].path;
    const char *wanted = store->options.class_directories[class];
    const char *own = store->env.class_directories[class];
    if (wanted == NULL)
        return FIRN_OK;
    firn_rc rc = FIRN_OK;
    char *wanted_path = env_path(home, wanted);
    char *wanted_normal = wanted_path == NULL ? NULL : env_normal_path(wanted_path);
    char *is_path = env_path(home, own == NULL ? "." : own);
    char *is_normal = is_path == NULL ? NULL : env_normal_path(is_path);
    if (wanted_normal == NULL || is_normal == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "no memory to open an environment");
    else if (strcmp(wanted_normal, is_normal) != 0)
        rc = rc_raise(FIRN_E_INVALID,
                      "%s is %s, but the files are in %s as %s/" ENV_FILE
                      " says: leave the option out",
                      env_class_option(class), wanted_normal, is_normal, home);
    memory_free(wanted_path);
    memory_free(wanted_normal);
    memory_free(is_path);
    memory_free(is_normal);
    return rc;
}

static firn_rc check_conflicts(const struct store *store)
{
    const struct store_options *options = &store->options;
    if (options->page_size_bytes != 0 && options->page_size_bytes != store->env.page_size_bytes)
        return rc_raise(FIRN_E_INVALID,
                        "page_size is %u, but the environment in %s was made with %u: leave the "
                        "option out; to change the size, load the data into a new environment",
                        options->page_size_bytes, store->directories[0].path,
                        store->env.page_size_bytes);
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        FIRN_TRY(check_class_directory(store, class));
    return FIRN_OK;
}

/* ---- The stack of layers ---- */

/* What to do about a full log, in the thread that found it full. A checkpoint leaves all log behind
   that recovery read, or none of it. */
static firn_rc make_room(void *context)
{
    struct store *store = context;
    uint64_t checkpoint_lsn = redo_checkpoint_lsn(store->redo);
    firn_rc rc = FIRN_OK;
    lock_take(&store->urge_mutex);
    if (redo_checkpoint_lsn(store->redo) == checkpoint_lsn) {
        firn_rc binlog_rc = binlog_flush(store->binlog);
        uint64_t target_lsn = checkpoint_lsn + redo_capacity_bytes(store->redo) / URGE_SHARE;
        rc = buffer_flush(store->pool,
                          target_lsn > store->recovered_lsn ? target_lsn : store->recovered_lsn);
        if (rc == FIRN_OK)
            rc = redo_checkpoint(store->redo, buffer_clean_lsn(store->pool));
        if (rc == FIRN_OK && redo_checkpoint_lsn(store->redo) == checkpoint_lsn)
            rc = binlog_rc;
    }
    lock_give(&store->urge_mutex);
    return rc;
}

static firn_rc open_spaces(struct store *store)
{
    struct space_options options = {
        .page_size_bytes = store->env.page_size_bytes,
        .direct = store->options.direct,
        .autoextend_bytes = store->options.autoextend_bytes,
    };
    memcpy(options.environment, store->env.id, sizeof(options.environment));
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        options.places[class] =
            (struct space_place){store->systems[class], store_class_directory(store, class)};
    FIRN_TRY(space_set_open(&options, &store->spaces));
    return space_scan(store->spaces, !store->options.read_only);
}

void store_redo_options(const struct store *store, struct redo_options *options)
{
    const struct store_options *from = &store->options;
    *options = (struct redo_options){
        .system = store->systems[IO_CLASS_REDO],
        .directory = store_class_directory(store, IO_CLASS_REDO),
        .file_size_bytes = from->log_file_size_bytes != 0 ? from->log_file_size_bytes : 96 * MIB,
        .file_count = from->log_files != 0 ? from->log_files : 2,
        .buffer_size_bytes = from->log_buffer_size_bytes,
        .flush_thread = from->background_threads,
        /* Mode 2 means the system's memory: past it each commit would wait for the device. */
        .direct = from->direct && from->flush_log_at_commit != REDO_FLUSH_WRITE,
        .skip_sync = from->canary_skip_log_sync,
    };
    memcpy(options->environment, store->env.id, sizeof(options->environment));
}

static firn_rc open_log(struct store *store)
{
    struct redo_options options;
    store_redo_options(store, &options);
    FIRN_TRY(redo_open(&options, &store->redo));
    redo_set_urge(store->redo, make_room, store);
    return FIRN_OK;
}

/* The devices under tablespaces, each once. */
static unsigned list_pool_systems(struct store *store)
{
    struct io_system **systems = store->pool_systems;
    static const enum io_class classes[] = {IO_CLASS_TABLE, IO_CLASS_UNDO, IO_CLASS_SYSTEM,
                                            IO_CLASS_TEMPORARY};
    unsigned count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(classes); i++) {
        unsigned j = 0;
        while (j < count && systems[j] != store->systems[classes[i]])
            j++;
        if (j == count)
            systems[count++] = store->systems[classes[i]];
    }
    return count;
}

/* While a log is repeated, its records take a part of the memory that the pool has later. */
static uint64_t recovery_bytes(const struct store_options *options)
{
    uint64_t share = options->buffer_pool_size_bytes / RECOVERY_MEMORY_SHARE;
    return share >= RECOVERY_MEMORY_MIN_BYTES ? share : 0;
}

static firn_rc open_pool(struct store *store)
{
    const struct store_options *from = &store->options;
    struct buffer_options options = {
        .size_bytes = from->buffer_pool_size_bytes - recovery_bytes(from),
        .size_max_bytes = from->buffer_pool_max_bytes != 0 ? from->buffer_pool_max_bytes
                                                           : 2 * from->buffer_pool_size_bytes,
        .page_size_bytes = store->env.page_size_bytes,
        .redo = store->redo,
        .files = space_files(store->spaces),
        .systems = store->pool_systems,
        .system_count = list_pool_systems(store),
        .doublewrite = from->doublewrite,
        .doublewrite_system = store->systems[IO_CLASS_DOUBLEWRITE],
        .doublewrite_directory = store_class_directory(store, IO_CLASS_DOUBLEWRITE),
        .doublewrite_direct = from->direct,
        .cleaner_thread = from->background_threads,
        .io_capacity = from->io_capacity,
        .io_capacity_max = from->io_capacity_max,
        .dirty_percent_max = from->max_dirty_pages_pct,
        .old_percent = from->old_blocks_pct,
        .queue_depth = QUEUE_DEPTH,
        .huge_pages = true,
        .skip_data_sync = from->canary_skip_data_sync,
    };
    memcpy(options.environment, store->env.id, sizeof(options.environment));
    FIRN_TRY(buffer_open(&options, &store->pool));
    space_set_attach(store->spaces, store->pool, store->redo);
    store->base = (struct btree_base){store->pool, store->redo, store->spaces};
    return FIRN_OK;
}

static unsigned recovery_threads(const struct store_options *options)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (options->recovery_threads != 0)
        return options->recovery_threads;
    if (!options->background_threads || processors < 1)
        return 1;
    return processors < RECOVERY_THREADS_MAX ? (unsigned)processors : RECOVERY_THREADS_MAX;
}

static firn_rc recover(struct store *store, struct recovery_result *result)
{
    uint64_t memory_bytes = recovery_bytes(&store->options);
    struct recovery_options options = {
        .redo = store->redo,
        .pool = store->pool,
        .spaces = store->spaces,
        .threads = recovery_threads(&store->options),
        .memory_bytes = memory_bytes != 0 ? memory_bytes : RECOVERY_MEMORY_MIN_BYTES,
        .progress = store->options.progress,
        .progress_context = store->options.progress_context,
        .binlog = store_binlog_redo,
        .binlog_context = store,
    };
    FIRN_TRY(store_binlog_open(store));
    FIRN_TRY(recovery_run(&options, result));
    return buffer_resize(store->pool, store->options.buffer_pool_size_bytes);
}

/* Read the log to its end, which must be the checkpoint. */
static firn_rc judge_clean(struct store *store, struct recovery_result *result)
{
    struct redo_reader *reader;
    struct span body;
    uint64_t lsn;
    uint64_t end_lsn;
    uint64_t checkpoint_lsn = redo_checkpoint_lsn(store->redo);
    FIRN_TRY(redo_reader_open(store->redo, checkpoint_lsn, &reader));
    firn_rc rc = redo_reader_next(reader, &body, &lsn, &end_lsn);
    redo_reader_close(reader);
    if (rc == FIRN_OK)
        return rc_raise(FIRN_E_STOPPED,
                        "the environment in %s was not closed: its log must be repeated before it "
                        "can be read",
                        store->directories[0].path);
    if (rc != FIRN_E_NOT_FOUND)
        return rc;
    redo_repeated(store->redo, checkpoint_lsn);
    *result = (struct recovery_result){.was_clean = true, .end_lsn = checkpoint_lsn};
    return buffer_resize(store->pool, store->options.buffer_pool_size_bytes);
}

/* No checkpoint is taken before the catalog has been compared with the files: where one is missing
   the log must still have its changes when it is put back. Nothing is appended, either: what needs
   no recovery is not changed before it is known to be whole. */
static firn_rc open_stack(struct store *store, struct recovery_result *result)
{
    FIRN_TRY(open_spaces(store));
    FIRN_TRY(open_log(store));
    store->hold.lsn = redo_checkpoint_lsn(store->redo);
    redo_hold(store->redo, &store->hold);
    store->is_held = true;
    FIRN_TRY(open_pool(store));
    FIRN_TRY(store->options.read_only ? judge_clean(store, result) : recover(store, result));
    store->recovered_lsn = result->end_lsn;
    store->was_clean = result->was_clean;
    FIRN_TRY(space_recovered(store->spaces));
    return btree_session_open(&store->base, &store->session);
}

static void release_hold(struct store *store)
{
    redo_release(store->redo, &store->hold);
    store->is_held = false;
}

static firn_rc begin_appending(struct store *store)
{
    FIRN_TRY(binlog_recovered(store->binlog, store->was_clean));
    FIRN_TRY(redo_recovered(store->redo, store->recovered_lsn));
    release_hold(store);
    return FIRN_OK;
}

/* Pages that are dirty are dropped. The hold ends with the log, so that nothing moves the
   checkpoint on the way. */
static firn_rc close_stack(struct store *store)
{
    table_set_close(store->tables);
    store->tables = NULL;
    txn_close(store->transactions);
    store->transactions = NULL;
    store_trees_close(store);
    btree_session_close(store->session);
    store->session = NULL;
    buffer_close(store->pool);
    store->pool = NULL;
    firn_rc rc = store->spaces == NULL ? FIRN_OK : space_set_close(store->spaces);
    store->spaces = NULL;
    binlog_close(
        store->binlog); /* holds the log's checkpoint back as long as the pool may move it */
    store->binlog = NULL;
    if (store->is_held)
        release_hold(store);
    firn_rc log_rc = store->redo == NULL ? FIRN_OK : redo_close(store->redo);
    store->redo = NULL;
    return rc != FIRN_OK ? rc : log_rc;
}

firn_rc store_checkpoint(struct store *store)
{
    FIRN_TRY(binlog_flush(store->binlog));
    FIRN_TRY(buffer_flush(store->pool, UINT64_MAX));
    return redo_checkpoint(store->redo, buffer_clean_lsn(store->pool));
}

/* ---- Opening ---- */

/* Run what cleans up after a failure; its own failures must not hide the first. */
static firn_rc undo_creation(struct store *store, firn_rc rc)
{
    char text[ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", firn_error_text());
    (void)close_stack(store);
    store_create_undo(store);
    return rc_raise(rc, "%s", text);
}

static firn_rc create_content(struct store *store, struct recovery_result *result)
{
    FIRN_TRY(open_stack(store, result));
    FIRN_TRY(begin_appending(store));
    FIRN_TRY(store_catalog_create(store));
    FIRN_TRY(store_open_transactions(store, true));
    FIRN_TRY(store_open_tables(store));
    FIRN_TRY(txn_start(store->transactions));
    FIRN_TRY(binlog_begin(store->binlog, store->transactions));
    return store_checkpoint(store);
}

static firn_rc create(struct store *store, struct recovery_result *result)
{
    FIRN_TRY(store_create_begin(store));
    firn_rc rc = create_content(store, result);
    if (rc != FIRN_OK)
        return undo_creation(store, rc);
    return store_create_finish(store);
}

static firn_rc open_content(struct store *store, struct recovery_result *result)
{
    FIRN_TRY(open_stack(store, result));
    FIRN_TRY(store_catalog_open(store));
    return store_open_transactions(store, false);
}

static firn_rc begin_work(struct store *store)
{
    FIRN_TRY(begin_appending(store));
    FIRN_TRY(store_trees_recover(store));
    FIRN_TRY(store_open_tables(store));
    FIRN_TRY(txn_start(store->transactions));
    return binlog_begin(store->binlog, store->transactions);
}

static bool wants_other_log(const struct store *store)
{
    const struct store_options *options = &store->options;
    return (options->log_file_size_bytes != 0 &&
            options->log_file_size_bytes != redo_file_size_bytes(store->redo)) ||
           (options->log_files != 0 && options->log_files != redo_file_count(store->redo));
}

/* Only a log with nothing in it can be replaced. One that was closed cleanly is so already, and
   where there is no room for another one nothing has been changed. */
static firn_rc resize_log(struct store *store, bool is_clean)
{
    struct redo_options options;
    struct recovery_result nothing;
    store_redo_options(store, &options);
    if (store->options.log_file_size_bytes == 0)
        options.file_size_bytes = redo_file_size_bytes(store->redo);
    if (store->options.log_files == 0)
        options.file_count = redo_file_count(store->redo);
    if (!is_clean) {
        FIRN_TRY(begin_work(store));
        FIRN_TRY(store_checkpoint(store));
    }
    FIRN_TRY(close_stack(store));
    FIRN_TRY(redo_resize(&options));
    return open_content(store, &nothing);
}

static firn_rc raise_no_environment(const struct store *store)
{
    return rc_raise(FIRN_E_NOT_FOUND,
                    "there is no environment in %s: it has no " ENV_FILE
                    "; check the directory's name",
                    store->directories[0].path);
}

static firn_rc open_or_create(struct store *store, struct recovery_result *result)
{
    char *path = store_file_path(store, ENV_FILE);
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = env_read(store->directories[0].system, path, &store->env);
    memory_free(path);
    if (rc == FIRN_E_NOT_FOUND)
        return store->options.create ? create(store, result) : raise_no_environment(store);
    FIRN_TRY(rc);
    FIRN_TRY(check_conflicts(store));
    FIRN_TRY(store_place_classes(store));
    FIRN_TRY(store_lock_places(store));
    FIRN_TRY(open_content(store, result));
    if (store->options.read_only)
        return store_open_tables(store);
    if (wants_other_log(store))
        FIRN_TRY(resize_log(store, redo_is_clean(store->redo)));
    return begin_work(store);
}

/* ---- Warm restart ---- */

/* A pool that stays cold is slow, not wrong: a failure is told and no more. */
static void *load_warm(void *context)
{
    struct store *store = context;
    char *path = store_file_path(store, STORE_WARM_FILE);
    firn_rc rc = FIRN_E_NOMEM;
    if (path != NULL)
        rc = buffer_load_ids(store->pool, store->systems[IO_CLASS_SYSTEM], path, &store->warm_stop);
    if (rc != FIRN_OK)
        log_warning("the buffer pool is not warmed up: %s", firn_error_text());
    store->warm_is_whole = !atomic_load_explicit(&store->warm_stop, memory_order_relaxed);
    memory_free(path);
    return NULL;
}

static void start_warming(struct store *store)
{
    store->warm_is_whole = true;
    if (!store->options.buffer_pool_load_at_startup || store->options.read_only)
        return;
    if (!store->options.background_threads) {
        load_warm(store);
        return;
    }
    store->warm_is_whole = false;
    int error = pthread_create(&store->warm_thread, NULL, load_warm, store);
    store->warm_is_running = error == 0;
    if (error != 0)
        log_warning("the buffer pool is not warmed up: there is no thread for it (%s)",
                    strerror(error));
}

static void stop_warming(struct store *store)
{
    if (!store->warm_is_running)
        return;
    atomic_store_explicit(&store->warm_stop, true, memory_order_relaxed);
    pthread_join(store->warm_thread, NULL);
    store->warm_is_running = false;
}

/* A load that was cut short has not seen all that its dump names: the dump stays. */
static void dump_warm(struct store *store)
{
    if (!store->options.buffer_pool_dump_at_shutdown || !store->warm_is_whole)
        return;
    char *path = store_file_path(store, STORE_WARM_FILE);
    if (path == NULL || buffer_dump_ids(store->pool, store->systems[IO_CLASS_SYSTEM], path,
                                        store->options.buffer_pool_dump_pct) != FIRN_OK)
        log_warning("the next start will be cold: %s", firn_error_text());
    memory_free(path);
}

/* ---- Opening and closing ---- */

static void free_store(struct store *store)
{
    store_close_files(store);
    pthread_mutex_destroy(&store->urge_mutex);
    pthread_mutex_destroy(&store->tree_mutex);
    memory_free(store);
}

void store_end(struct store *store)
{
    (void)close_stack(store);
    free_store(store);
}

firn_rc store_begin(const struct store_options *options, bool create, struct store **store)
{
    FIRN_TRY(check_options(options));
    struct store *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to open an environment");
    made->options = *options;
    pthread_mutex_init(&made->urge_mutex, NULL);
    pthread_mutex_init(&made->tree_mutex, NULL);
    firn_rc rc = FIRN_OK;
    FIRN_TRY_GOTO(store_open_systems(made), failed);
    FIRN_TRY_GOTO(store_lock_directory(made, create), failed);
    *store = made;
    return FIRN_OK;
failed:
    free_store(made);
    return rc;
}

firn_rc store_open(const struct store_options *options, struct store **store,
                   struct recovery_result *result)
{
    struct recovery_result found = {.was_clean = true};
    struct store *made;
    FIRN_TRY(store_begin(options, options->create, &made));
    firn_rc rc = open_or_create(made, &found);
    if (rc != FIRN_OK) {
        store_end(made);
        return rc;
    }
    start_warming(made);
    *store = made;
    if (result != NULL)
        *result = found;
    return FIRN_OK;
}

firn_rc store_close(struct store *store)
{
    stop_warming(store);
    table_set_keep_counters(store->tables);
    txn_close(store->transactions);
    store->transactions = NULL;
    if (store->options.read_only) {
        store_abandon(store);
        return FIRN_OK;
    }
    dump_warm(store);
    firn_rc rc = store_checkpoint(store);
    firn_rc close_rc = close_stack(store);
    free_store(store);
    return rc != FIRN_OK ? rc : close_rc;
}

void store_abandon(struct store *store)
{
    stop_warming(store);
    (void)close_stack(store);
    free_store(store);
}

firn_rc store_tick(struct store *store)
{
    FIRN_TRY(redo_tick(store->redo));
    FIRN_TRY(binlog_tick(store->binlog));
    FIRN_TRY(txn_tick(store->transactions));
    return buffer_clean(store->pool);
}

/* ---- Looking inside ---- */

const struct btree_base *store_base(struct store *store)
{
    return &store->base;
}

void store_status(struct store *store, struct store_status *status)
{
    redo_counters(store->redo, &status->redo);
    buffer_counters(store->pool, &status->buffer);
    status->lsn = redo_reserved_lsn(store->redo);
    status->durable_lsn = redo_durable_lsn(store->redo);
    status->checkpoint_lsn = redo_checkpoint_lsn(store->redo);
    status->checkpoint_age_bytes = redo_age_bytes(store->redo);
    status->log_capacity_bytes = redo_capacity_bytes(store->redo);
    status->page_size_bytes = store->env.page_size_bytes;
}

struct io_system *store_class_system(struct store *store, enum io_class class)
{
    return store->systems[class];
}

const char *store_class_directory(const struct store *store, enum io_class class)
{
    return store->directories[store->class_directory[class]].path;
}

const uint8_t *store_environment_id(const struct store *store)
{
    return store->env.id;
}

struct space_set *store_spaces(struct store *store)
{
    return store->spaces;
}

struct buffer_pool *store_pool(struct store *store)
{
    return store->pool;
}

struct redo *store_redo(struct store *store)
{
    return store->redo;
}
