/*
 * Two-phase commit: transactions that wait for somebody's decision, across crashes.
 */
#include "txn/txn_internal.h"

static struct txn *find_prepared(struct txn_set *set, struct span xid)
{
    for (struct txn *txn = set->left; txn != NULL; txn = txn->next_left)
        if (txn->state == TXN_PREPARED && span_compare(span_of(txn->xid, txn->xid_bytes), xid) == 0)
            return txn;
    return NULL;
}

/* A name is taken from here on: two sessions that prepare under one name at once find out here. */
static firn_rc take_name(struct txn *txn, struct span xid)
{
    struct txn_set *set = txn->set;
    firn_rc rc = FIRN_OK;
    pthread_mutex_lock(&set->mutex);
    if (find_prepared(set, xid) != NULL) {
        rc = FIRN_E_EXISTS;
    } else {
        memcpy(txn->xid, xid.bytes, xid.size_bytes);
        txn->xid_bytes = xid.size_bytes;
        txn->state = TXN_PREPARED;
        txn->is_taken = true;
        txn->next_left = set->left;
        set->left = txn;
    }
    pthread_mutex_unlock(&set->mutex);
    if (rc != FIRN_OK)
        rc_raise(rc, "there is a prepared transaction of that name: commit or roll back that one "
                     "first, or use another name");
    return rc;
}

static void give_name_back(struct txn *txn)
{
    txn_take_back(txn);
    txn->state = TXN_ACTIVE;
    txn->is_taken = false;
    txn->xid_bytes = 0;
}

static void release(struct txn *txn)
{
    pthread_mutex_lock(&txn->set->mutex);
    txn->is_taken = false;
    pthread_mutex_unlock(&txn->set->mutex);
}

static firn_rc mark(struct txn *txn, struct mtr *mtr, enum undo_state state, struct span xid,
                    uint64_t *end_lsn)
{
    FIRN_TRY(mtr_begin(mtr, UNDO_HEADER_LOG_BYTES));
    firn_rc rc = undo_mark(&txn->log, mtr, state, 0, xid);
    if (rc == FIRN_OK)
        return mtr_commit(mtr, end_lsn);
    mtr_abandon(mtr);
    return rc;
}

firn_rc txn_mark_prepared(struct txn *txn, struct mtr *mtr, struct span xid, uint64_t *end_lsn)
{
    FIRN_TRY(undo_make_room(&txn->log, mtr, UNDO_XID_MAX));
    return mark(txn, mtr, UNDO_PREPARED, xid, end_lsn);
}

firn_rc txn_prepare(struct txn_session *session, struct span xid)
{
    struct txn *txn = session->txn;
    uint64_t end_lsn = 0;
    if (txn == NULL)
        return rc_raise(FIRN_E_MISUSE, "the session has no transaction open to be prepared");
    if (xid.size_bytes == 0 || xid.size_bytes > TXN_XID_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "the name of a prepared transaction has 1 to %d bytes, this one has %zu",
                        TXN_XID_MAX, xid.size_bytes);
    FIRN_TRY(txn_give_id(session)); /* one that has only read is prepared as well */
    const struct txn_recorder *recorder = txn_recorder_of(txn);
    if (recorder != NULL)
        FIRN_TRY(recorder->prepare(txn->recording));
    FIRN_TRY(take_name(txn, xid));
    firn_rc rc = txn_mark_prepared(txn, btree_session_mtr(session->tree), xid, &end_lsn);
    if (rc != FIRN_OK && rc != FIRN_E_STOPPED) {
        give_name_back(txn);
        return rc;
    }
    session->txn = NULL;
    if (snapshot_is_open(session->snapshot))
        snapshot_end(session->snapshot);
    if (rc == FIRN_OK)
        rc = redo_flush(session->set->base.redo, end_lsn, session->flush);
    release(txn);
    return rc;
}

/* Find a prepared transaction and keep others from deciding about it. */
static firn_rc take_prepared(struct txn_session *session, struct span xid, struct txn **txn)
{
    struct txn_set *set = session->set;
    if (session->txn != NULL)
        return rc_raise(FIRN_E_MISUSE, "the session has a transaction open: end it first");
    pthread_mutex_lock(&set->mutex);
    struct txn *found = find_prepared(set, xid);
    bool is_taken = found != NULL && found->is_taken;
    if (found != NULL)
        found->is_taken = true;
    pthread_mutex_unlock(&set->mutex);
    if (found == NULL)
        return rc_raise(FIRN_E_NOT_FOUND, "there is no prepared transaction of that name");
    if (is_taken)
        return rc_raise(FIRN_E_BUSY, "another session is deciding about that transaction");
    *txn = found;
    return FIRN_OK;
}

static firn_rc commit_prepared(struct txn_session *session, struct span xid, bool is_recorded)
{
    struct txn_set *set = session->set;
    struct txn *txn;
    uint64_t end_lsn = 0;
    FIRN_TRY(take_prepared(session, xid, &txn));
    if (is_recorded)
        txn_drop_recording(txn);
    firn_rc rc = txn_finish_committed(txn, btree_session_mtr(session->tree), &end_lsn);
    if (rc != FIRN_OK) {
        release(txn);
        return rc;
    }
    txn_take_back(txn);
    txn_free(txn);
    atomic_fetch_add_explicit(&set->commits, 1, memory_order_relaxed);
    return redo_flush(set->base.redo, end_lsn, session->flush);
}

firn_rc txn_commit_prepared(struct txn_session *session, struct span xid)
{
    return commit_prepared(session, xid, false);
}

firn_rc txn_commit_recorded(struct txn_session *session, struct span xid)
{
    return commit_prepared(session, xid, true);
}

/* Half undone it must not be committed any more, by nobody and after no crash. With this the
 * decision is made, so it has to be as durable as a commit. */
static firn_rc withdraw(struct txn_session *session, struct txn *txn)
{
    struct txn_set *set = session->set;
    uint64_t end_lsn;
    FIRN_TRY(mark(txn, btree_session_mtr(session->tree), UNDO_ACTIVE, span_of(NULL, 0), &end_lsn));
    pthread_mutex_lock(&set->mutex);
    txn->state = TXN_UNFINISHED;
    pthread_mutex_unlock(&set->mutex);
    return redo_flush(set->base.redo, end_lsn, session->flush);
}

firn_rc txn_rollback_prepared(struct txn_session *session, struct span xid)
{
    struct txn_set *set = session->set;
    struct txn *txn;
    FIRN_TRY(take_prepared(session, xid, &txn));
    firn_rc rc = withdraw(session, txn);
    if (rc == FIRN_OK)
        rc = txn_undo_all(session, txn);
    if (rc != FIRN_OK) {
        release(txn);
        return rc;
    }
    txn_take_back(txn);
    txn_free(txn);
    atomic_fetch_add_explicit(&set->rollbacks, 1, memory_order_relaxed);
    return FIRN_OK;
}

firn_rc txn_each_prepared(struct txn_set *set, txn_prepared_visit *visit, void *context)
{
    firn_rc rc = FIRN_OK;
    pthread_mutex_lock(&set->mutex);
    for (struct txn *txn = set->left; txn != NULL && rc == FIRN_OK; txn = txn->next_left)
        if (txn->state == TXN_PREPARED)
            rc = visit(span_of(txn->xid, txn->xid_bytes), txn->id, context);
    pthread_mutex_unlock(&set->mutex);
    return rc;
}
