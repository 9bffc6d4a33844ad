/*
 * Rolling back: each change that still stands is undone, the newest first.
 */
#include "txn/txn_internal.h"

enum { RECORDS_A_MARK = 4096 }; /* undone before the log remembers how far it came */

struct undoing {
    struct txn_session *session;
    struct btree *tree;
    const struct undo_change *change;
    uint64_t txn_id;
    undo_pointer pointer;
    struct lock_owner *keeps; /* who keeps the row locked; NULL: nobody */
    struct txn_gap gap;
};

/* Put back what was there, unless what stands there is not this record's change any more: then it
 * has been undone before. */
static enum btree_action decide_undo(const struct btree_old *old, struct btree_new *new,
                                     firn_rc *rc, void *context)
{
    struct undoing *undoing = context;
    struct version_cell *cell = &undoing->session->cell;
    struct version version;
    if (old == NULL || !version_get(old->cell, &version) || version.txn_id != undoing->txn_id ||
        version.roll != undoing->pointer)
        return BTREE_KEEP;
    if (!undoing->change->had_old) {
        *rc = txn_look_behind(undoing->session, undoing->change->index_id, &undoing->gap);
        return *rc == FIRN_OK ? BTREE_DELETE : BTREE_KEEP;
    }
    *rc = version_cell_set(cell, old->cell, old->is_large);
    if (*rc == FIRN_OK)
        *rc = version_cell_undo(cell, undoing->change);
    if (*rc == FIRN_E_CORRUPT)
        rc_raise(*rc, "undo record %#llx does not fit the row of index %llu that it is about",
                 (unsigned long long)undoing->pointer,
                 (unsigned long long)undoing->change->index_id);
    if (*rc != FIRN_OK)
        return BTREE_KEEP;
    new->value = span_of(cell->bytes, cell->size_bytes);
    new->is_cell = cell->is_large;
    return BTREE_PUT;
}

/* The row that was put back does not say whose it was any more. Without memory for a lock, who is
 * serializable has to give up; others do without. */
static firn_rc keep_lock(const struct undoing *undoing)
{
    struct lock_request request = {.index_id = undoing->change->index_id,
                                   .key = undoing->change->key,
                                   .part = LOCK_ROW,
                                   .mode = LOCK_EXCLUSIVE};
    if (undoing->keeps == NULL)
        return FIRN_OK;
    firn_rc rc = lock_enter_implicit(undoing->keeps, &request);
    return undoing->session->isolation == TXN_SERIALIZABLE ? rc : FIRN_OK;
}

/* A key that goes leaves its gap locks to the next one. */
static firn_rc leave_locks(struct mtr *mtr, void *context)
{
    struct undoing *undoing = context;
    (void)mtr;
    FIRN_TRY(keep_lock(undoing));
    if (undoing->change->had_old)
        return FIRN_OK;
    return txn_move_gap(undoing->session, undoing->change->index_id, undoing->change->key, true,
                        &undoing->gap);
}

static firn_rc undo_one(struct undoing *undoing)
{
    struct txn_session *session = undoing->session;
    const struct undo_change *change = undoing->change;
    const struct txn_trees *trees = &session->set->options.trees;
    struct btree_edit edit = {.decide = decide_undo, .companion = leave_locks, .context = undoing};
    firn_rc rc = trees->find(change->index_id, &undoing->tree, trees->context);
    if (rc == FIRN_E_NOT_FOUND)
        return FIRN_OK; /* dropped, and all that was in it */
    FIRN_TRY(rc);
    do
        rc = btree_edit(session->tree, undoing->tree, change->key, &edit, NULL);
    while (rc == TXN_AGAIN);
    trees->release(undoing->tree, trees->context);
    return rc;
}

firn_rc txn_undo_to(struct txn_session *session, struct txn *txn, undo_pointer last,
                    bool keeps_locks)
{
    struct undo_set *undo = session->set->undo;
    struct mtr *mtr = btree_session_mtr(session->tree);
    undo_pointer pointer = txn->log.last;
    for (unsigned count = 1; pointer != last; count++) {
        struct span record;
        struct undo_change change;
        undo_pointer previous;
        FIRN_TRY(undo_read(undo, pointer, &session->record, &record, &previous));
        if (undo_change_get(record, &change) != FIRN_OK)
            return rc_raise(FIRN_E_CORRUPT, "undo record %#llx makes no sense; run firn check",
                            (unsigned long long)pointer);
        struct undoing undoing = {.session = session,
                                  .change = &change,
                                  .txn_id = txn->log.txn_id,
                                  .pointer = pointer,
                                  .keeps = keeps_locks ? &txn->locks : NULL};
        FIRN_TRY(undo_one(&undoing));
        if (count % RECORDS_A_MARK == 0)
            FIRN_TRY(undo_rewind(&txn->log, mtr, previous));
        pointer = previous;
    }
    return FIRN_OK;
}

firn_rc txn_undo_all(struct txn_session *session, struct txn *txn)
{
    uint64_t end_lsn;
    FIRN_TRY(txn_undo_to(session, txn, 0, false));
    return txn_finish(txn, btree_session_mtr(session->tree), UNDO_ROLLED_BACK, &end_lsn);
}
