/*
 * The store's tables: what src/table needs of trees, by way of the catalog.
 */
#include "engine/store_internal.h"

static firn_rc make_tree(const char *name, enum table_tree_place place, const char *host,
                         bool versioned, struct btree **tree, void *context)
{
    struct store *store = context;
    unsigned flags = versioned ? STORE_TREE_VERSIONED : 0;
    if (place == TABLE_TREE_GUEST)
        return store_make_guest(store, name, host, flags, tree);
    if (place == TABLE_TREE_SYSTEM)
        flags |= STORE_TREE_SHARED;
    return store_tree(store, name, flags | STORE_TREE_CREATE, tree);
}

static firn_rc find_tree(const char *name, struct btree **tree, void *context)
{
    return store_tree(context, name, 0, tree);
}

static firn_rc drop_tree(const char *name, void *context)
{
    return store_drop_tree(context, name);
}

firn_rc store_open_tables(struct store *store)
{
    struct table_set_options options = {
        .base = &store->base,
        .transactions = store->transactions,
        .storage = {make_tree, find_tree, drop_tree, store},
        .page_size_bytes = store->env.page_size_bytes,
        .read_only = store->options.read_only,
    };
    return table_set_open(&options, &store->tables);
}

struct table_set *store_tables(struct store *store)
{
    return store->tables;
}
