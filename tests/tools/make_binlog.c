/*
 * make_binlog DIR FROM COUNT [separate] -- transactions FROM to FROM + COUNT - 1 in an environment
 * with a binary log: each puts a row of its own and changes a counter. Each number is printed once
 * it is committed. For tests of the command, which itself has no way to run transactions.
 */
#include "engine/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static firn_rc commit_one(struct txn_session *session, struct btree *rows, struct btree *counter,
                          unsigned number)
{
    char key[32], payload[64];
    int key_bytes = snprintf(key, sizeof key, "row-%06u", number);
    int payload_bytes = snprintf(payload, sizeof payload, "the payload of %u", number);
    FIRN_TRY(txn_begin(session, TXN_REPEATABLE_READ, false));
    FIRN_TRY(txn_put(session, rows, span_of(key, (size_t)key_bytes),
                     span_of(payload, (size_t)payload_bytes)));
    if (number % 10 == 0) {
        key_bytes = snprintf(key, sizeof key, "row-%06u", number - 5);
        firn_rc rc = txn_delete(session, rows, span_of(key, (size_t)key_bytes));
        if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
            return rc;
    }
    payload_bytes = snprintf(payload, sizeof payload, "%u", number);
    FIRN_TRY(
        txn_put(session, counter, span_of_text("last"), span_of(payload, (size_t)payload_bytes)));
    return txn_commit(session);
}

static firn_rc work(struct store *store, unsigned from, unsigned count)
{
    struct btree *rows, *counter;
    struct txn_session *session;
    FIRN_TRY(store_tree(store, "rows", STORE_TREE_CREATE | STORE_TREE_VERSIONED, &rows));
    FIRN_TRY(store_tree(store, "counter", STORE_TREE_CREATE | STORE_TREE_VERSIONED, &counter));
    FIRN_TRY(txn_session_open(store_transactions(store), &session));
    firn_rc rc = FIRN_OK;
    for (unsigned i = 0; i < count && rc == FIRN_OK; i++) {
        rc = commit_one(session, rows, counter, from + i);
        if (rc == FIRN_OK) {
            printf("%u\n", from + i);
            fflush(stdout);
        }
    }
    txn_session_close(session);
    return rc;
}

int main(int argc, char **argv)
{
    struct store_options options;
    struct store *store;
    if (argc < 4) {
        fputs("make_binlog DIR FROM COUNT [separate]\n", stderr);
        return 2;
    }
    store_options_init(&options);
    options.directory = argv[1];
    options.create = true;
    options.buffer_pool_size_bytes = 16 << 20;
    options.log_file_size_bytes = 4 << 20;
    options.binlog = true;
    options.max_binlog_size_bytes = 16 << 10;
    options.binlog_sync = argc > 4 && strcmp(argv[4], "separate") == 0 ? STORE_BINLOG_SEPARATE
                                                                       : STORE_BINLOG_TOGETHER;
    firn_rc rc = store_open(&options, &store, NULL);
    if (rc == FIRN_OK) {
        rc =
            work(store, (unsigned)strtoul(argv[2], NULL, 10), (unsigned)strtoul(argv[3], NULL, 10));
        firn_rc close_rc = store_close(store);
        rc = rc != FIRN_OK ? rc : close_rc;
    }
    if (rc != FIRN_OK)
        fprintf(stderr, "make_binlog: %s\n", firn_error_text());
    return rc == FIRN_OK ? 0 : 1;
}
