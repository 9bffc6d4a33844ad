/*
 * firn.h -- what the two drivers of Firn share: the store (firn.c) and its transactions
 * (firn_txn.c).
 */
#ifndef BENCHMARKS_FIRN_H
#define BENCHMARKS_FIRN_H

#include "kv.h"

#include "base/units.h"
#include "engine/store.h"

struct firn_env {
    struct store *store;
    struct btree *tree;
};

/** End the program with the engine's sentence unless a call succeeded. */
static inline void firn_check(firn_rc rc, const char *what)
{
    if (rc != FIRN_OK)
        kv_die("firn: %s: %s", what, firn_error_text());
}

/** kv_driver.open, close and log_bytes. @param tree_flags  of the tree, beside STORE_TREE_CREATE */
void *firn_env_open(const struct kv_options *options, unsigned tree_flags);
void firn_env_close(void *env);
uint64_t firn_env_log_bytes(void *env);

#endif
