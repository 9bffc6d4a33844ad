/*
 * The store's binary log: where it lies, which trees it is about, what it is called with.
 */
#include "engine/store_internal.h"

#include "base/park.h"

#include <string.h>

static firn_rc tell_name(uint64_t index_id, uint8_t *name, size_t *name_bytes, bool *is_recorded,
                         void *context)
{
    struct store *store = context;
    firn_rc rc = FIRN_OK;
    lock_take(&store->tree_mutex);
    const struct store_tree *tree = store_tree_by_id(store, index_id);
    if (tree == NULL) {
        rc = rc_raise(FIRN_E_NOT_FOUND, "there is no tree with the id %llu any more",
                      (unsigned long long)index_id);
    } else {
        *name_bytes = strlen(tree->name);
        *is_recorded = !tree->unrecorded && !tree->guest; /* an index follows from its table */
        memcpy(name, tree->name, *name_bytes);
    }
    lock_give(&store->tree_mutex);
    return rc;
}
_Static_assert((int)SPACE_NAME_MAX <= (int)BINLOG_NAME_MAX, "names of trees fit");

firn_rc store_binlog_open(struct store *store)
{
    const struct store_options *from = &store->options;
    struct binlog_options options;
    binlog_options_init(&options);
    options.system = store->systems[IO_CLASS_BINLOG];
    options.directory = store_class_directory(store, IO_CLASS_BINLOG);
    options.redo = store->redo;
    memcpy(options.environment, store->env.id, sizeof(options.environment));
    options.records = from->binlog;
    options.is_separate = from->binlog_sync == STORE_BINLOG_SEPARATE;
    options.thread = from->background_threads;
    options.server_id = from->server_id;
    options.max_bytes = from->max_binlog_size_bytes;
    options.cache_bytes = from->binlog_cache_size_bytes;
    options.expire_s = from->binlog_expire_s;
    options.name = tell_name;
    options.context = store;
    options.time_us = from->binlog_time_us;
    return binlog_open(&options, &store->binlog);
}

firn_rc store_binlog_redo(const struct change *change, void *context)
{
    struct store *store = context;
    return binlog_redo(store->binlog, change);
}

struct binlog *store_binlog(struct store *store)
{
    return store->binlog;
}
