/*
 * The store's transactions: how they find trees by id, and keep them from being dropped meanwhile.
 */
#include "engine/store_internal.h"

#include "base/futex.h"

firn_rc store_pin_tree(uint64_t index_id, struct btree **tree, void *context)
{
    struct store *store = context;
    struct store_tree *found = store_tree_by_id(store, index_id);
    if (found == NULL || found->state != STORE_TREE_LIVE)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(store_open_tree(store, found));
    found->pins++;
    *tree = found->tree;
    return FIRN_OK;
}

void store_unpin_tree(struct btree *tree, void *context)
{
    struct store *store = context;
    struct store_tree *found = store_tree_by_id(store, btree_index_id(tree));
    if (--found->pins != 0)
        return;
    atomic_fetch_add_explicit(&store->unpinned, 1, memory_order_seq_cst);
    futex_wake(&store->unpinned, INT32_MAX);
}

static firn_rc find_tree(uint64_t index_id, struct btree **tree, void *context)
{
    struct store *store = context;
    lock_take(&store->tree_mutex);
    firn_rc rc = store_pin_tree(index_id, tree, store);
    lock_give(&store->tree_mutex);
    return rc;
}

static void release_tree(struct btree *tree, void *context)
{
    struct store *store = context;
    lock_take(&store->tree_mutex);
    store_unpin_tree(tree, store);
    lock_give(&store->tree_mutex);
}

firn_rc store_open_transactions(struct store *store, bool create)
{
    const struct store_options *from = &store->options;
    struct txn_options options;
    txn_options_init(&options);
    options.base = &store->base;
    options.create = create;
    if (from->clock != NULL)
        options.clock = from->clock;
    options.recorder = binlog_recorder(store->binlog);
    options.trees = (struct txn_trees){find_tree, release_tree, store};
    options.undo_tablespaces = from->undo_tablespaces;
    options.lock_memory_bytes = from->lock_memory_bytes;
    options.lock_wait_limit_ns = from->lock_wait_limit_ns;
    options.undo_max_bytes = from->undo_max_bytes;
    options.purge_threads = from->background_threads ? from->purge_threads : 0;
    options.flush = from->flush_log_at_commit;
    options.deadlock_detect = from->deadlock_detect;
    return txn_open(&options, &store->transactions);
}

struct txn_set *store_transactions(struct store *store)
{
    return store->transactions;
}
