/*
 * Reading one key: as of the snapshot, or as it is now with a lock.
 */
#include "txn/txn_internal.h"

enum txn_lock txn_read_lock(const struct txn_session *session, enum txn_lock lock)
{
    bool is_serializable = session->isolation == TXN_SERIALIZABLE;
    return lock == TXN_LOCK_NONE && is_serializable && !session->read_only ? TXN_LOCK_SHARED : lock;
}

struct look {
    struct txn_session *session;
    struct span key;
    uint64_t index_id;
    struct txn_want want;
    bool absent;
    struct version_cell *cell;
};

/* What stands behind the key that is looked at: a gap lock is on that. */
static firn_rc next_key(struct txn_session *session, struct lock_request *request)
{
    firn_rc rc = btree_next_key(session->tree, &request->key);
    request->is_supremum = rc == FIRN_E_NOT_FOUND;
    return request->is_supremum ? FIRN_OK : rc;
}

/* With the leaf latched. */
static firn_rc look_and_lock(const struct btree_old *old, void *context)
{
    struct look *look = context;
    struct version version;
    if (old == NULL)
        return look->absent ? txn_claim(look->session, look->index_id, look->key, NULL, &look->want)
                            : FIRN_OK;
    if (!version_get(old->cell, &version))
        return rc_raise(FIRN_E_CORRUPT, "index %llu has a value without a version",
                        (unsigned long long)look->index_id);
    FIRN_TRY(txn_claim(look->session, look->index_id, look->key, &version, &look->want));
    if (version.is_deleted)
        return FIRN_OK;
    return version_cell_set(look->cell, old->cell, old->is_large);
}

firn_rc txn_lock_row(struct txn_session *session, struct btree *tree, struct span key,
                     enum lock_mode mode, enum txn_wait wait, bool absent,
                     struct version_cell *cell)
{
    struct look look = {.session = session,
                        .key = key,
                        .index_id = btree_index_id(tree),
                        .want = {.mode = mode, .is_kept = true, .wait = wait},
                        .absent = absent,
                        .cell = cell};
    firn_rc rc;
    atomic_store_explicit(&session->is_cancelled, false, memory_order_relaxed);
    do {
        cell->size_bytes = 0;
        rc = btree_inspect(session->tree, tree, key, look_and_lock, &look);
        if (rc == TXN_AGAIN)
            FIRN_TRY(txn_wait_for_lock(session));
    } while (rc == TXN_AGAIN);
    if (rc == FIRN_E_BUSY && wait == TXN_NOWAIT) /* who passes locked rows by needs no sentence */
        return rc_raise(rc, "a row of index %llu is locked by another transaction",
                        (unsigned long long)look.index_id);
    FIRN_TRY(rc);
    return cell->size_bytes > 0 ? FIRN_OK : FIRN_E_NOT_FOUND;
}

struct gap_look {
    struct txn_session *session;
    uint64_t index_id;
    struct version_cell *next;
    bool is_supremum;
};

static firn_rc lock_behind(const struct btree_old *old, void *context)
{
    struct gap_look *look = context;
    struct lock_request request = {
        .index_id = look->index_id, .part = LOCK_GAP, .mode = LOCK_SHARED};
    (void)old;
    FIRN_TRY(next_key(look->session, &request));
    look->is_supremum = request.is_supremum;
    if (!look->is_supremum)
        FIRN_TRY(version_cell_set(look->next, request.key, false));
    return txn_request(look->session, &request, TXN_WAIT);
}

firn_rc txn_lock_gap(struct txn_session *session, struct btree *tree, struct span key,
                     struct version_cell *next)
{
    struct gap_look look = {.session = session, .index_id = btree_index_id(tree), .next = next};
    firn_rc rc;
    atomic_store_explicit(&session->is_cancelled, false, memory_order_relaxed);
    while ((rc = btree_inspect(session->tree, tree, key, lock_behind, &look)) == TXN_AGAIN)
        FIRN_TRY(txn_wait_for_lock(session));
    FIRN_TRY(rc);
    return look.is_supremum ? FIRN_E_NOT_FOUND : FIRN_OK;
}

static firn_rc get_seen(struct txn_session *session, struct btree *tree, struct span key,
                        struct span *payload)
{
    struct btree_old row;
    struct span seen;
    bool is_large;
    FIRN_TRY(btree_get_cell(session->tree, tree, key, &row));
    FIRN_TRY(
        txn_version(session, btree_index_id(tree), key, row.cell, row.is_large, &seen, &is_large));
    return txn_payload(session, tree, seen, is_large, payload);
}

firn_rc txn_get(struct txn_session *session, struct btree *tree, struct span key,
                enum txn_lock lock, enum txn_wait wait, struct span *payload)
{
    if (session->txn == NULL)
        return rc_raise(FIRN_E_MISUSE, "the session has no transaction open to read in");
    txn_see(session);
    lock = txn_read_lock(session, lock);
    if (lock == TXN_LOCK_NONE)
        return get_seen(session, tree, key, payload);
    struct version_cell *cell = &session->cell;
    enum lock_mode mode = lock == TXN_LOCK_SHARED ? LOCK_SHARED : LOCK_EXCLUSIVE;
    bool absent = session->isolation == TXN_SERIALIZABLE;
    FIRN_TRY(txn_lock_row(session, tree, key, mode, wait, absent, cell));
    return txn_payload(session, tree, span_of(cell->bytes, cell->size_bytes), cell->is_large,
                       payload);
}
