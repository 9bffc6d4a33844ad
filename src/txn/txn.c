/*
 * Transactions: how they begin, and how they end.
 */
#include "txn/txn_internal.h"

#include "base/memory.h"

/* ---- A transaction ---- */

firn_rc txn_new(struct txn_set *set, struct txn **txn)
{
    struct txn *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a transaction");
    made->set = set;
    lock_owner_init(&made->locks, set->locks);
    *txn = made;
    return FIRN_OK;
}

void txn_free(struct txn *txn)
{
    if (txn == NULL)
        return;
    lock_owner_free(&txn->locks);
    memory_free(txn);
}

static struct txn_bucket *bucket_of(struct txn_set *set, uint64_t id)
{
    return &set->open[id % TXN_OPEN_BUCKETS];
}

void txn_enter(struct txn *txn)
{
    struct txn_bucket *bucket = bucket_of(txn->set, txn->id);
    pthread_mutex_lock(&bucket->mutex);
    txn->next = bucket->first;
    bucket->first = txn;
    pthread_mutex_unlock(&bucket->mutex);
}

void txn_leave(struct txn *txn)
{
    struct txn_bucket *bucket = bucket_of(txn->set, txn->id);
    pthread_mutex_lock(&bucket->mutex);
    struct txn **link = &bucket->first;
    while (*link != txn)
        link = &(*link)->next;
    *link = txn->next;
    pthread_mutex_unlock(&bucket->mutex);
}

void txn_put_aside(struct txn *txn)
{
    struct txn_set *set = txn->set;
    pthread_mutex_lock(&set->mutex);
    txn->next_left = set->left;
    set->left = txn;
    pthread_cond_signal(&set->wake);
    pthread_mutex_unlock(&set->mutex);
}

void txn_take_back(struct txn *txn)
{
    struct txn_set *set = txn->set;
    pthread_mutex_lock(&set->mutex);
    struct txn **link = &set->left;
    while (*link != txn)
        link = &(*link)->next_left;
    *link = txn->next_left;
    pthread_mutex_unlock(&set->mutex);
}

/* ---- Beginning ---- */

static firn_rc raise_none_open(void)
{
    return rc_raise(FIRN_E_MISUSE, "the session has no transaction open: call txn_begin first");
}

firn_rc txn_begin(struct txn_session *session, enum txn_isolation isolation, bool read_only)
{
    if (session->txn != NULL)
        return rc_raise(FIRN_E_MISUSE,
                        "the session has a transaction open: commit it or roll it back first");
    if (session->spare == NULL)
        FIRN_TRY(txn_new(session->set, &session->spare));
    session->txn = session->spare;
    session->spare = NULL;
    session->isolation = isolation;
    session->read_only = read_only;
    return FIRN_OK;
}

bool txn_is_open(const struct txn_session *session)
{
    return session->txn != NULL;
}

uint64_t txn_id(const struct txn_session *session)
{
    return session->txn != NULL ? session->txn->id : 0;
}

void txn_see(struct txn_session *session)
{
    if (!snapshot_is_open(session->snapshot)) {
        snapshot_take(session->snapshot);
        session->views++;
    }
}

firn_rc txn_take_snapshot(struct txn_session *session)
{
    if (session->txn == NULL)
        return raise_none_open();
    txn_see(session);
    return FIRN_OK;
}

firn_rc txn_share_snapshot(struct txn_session *session, const struct txn_session *other)
{
    if (session->txn == NULL)
        return raise_none_open();
    if (!snapshot_is_open(other->snapshot) || session->isolation == TXN_READ_COMMITTED)
        return rc_raise(FIRN_E_MISUSE, "a snapshot is shared between transactions under repeatable "
                                       "read, one of which has taken it");
    snapshot_share(session->snapshot, other->snapshot);
    session->views++;
    return FIRN_OK;
}

firn_rc txn_statement(struct txn_session *session)
{
    if (session->txn == NULL)
        return raise_none_open();
    if (session->isolation == TXN_READ_COMMITTED)
        snapshot_end(session->snapshot);
    return FIRN_OK;
}

/* An id that no row says yet may end like this. */
static firn_rc record_nothing(uint64_t number, void *context)
{
    (void)number;
    (void)context;
    return FIRN_OK;
}

firn_rc txn_make_writer(struct txn_session *session)
{
    if (session->txn == NULL)
        return raise_none_open();
    if (session->read_only)
        return rc_raise(FIRN_E_MISUSE, "the transaction was begun as one that only reads");
    return txn_give_id(session);
}

firn_rc txn_give_id(struct txn_session *session)
{
    struct txn_set *set = session->set;
    struct txn *txn = session->txn;
    if (txn->id != 0)
        return FIRN_OK;
    struct mtr *mtr = btree_session_mtr(session->tree);
    uint64_t id;
    FIRN_TRY(snapshot_draw_id(set->snapshots, &id));
    firn_rc rc = undo_cover_id(set->undo, mtr, id);
    if (rc == FIRN_OK)
        rc = undo_begin(set->undo, mtr, id, &txn->log);
    if (rc != FIRN_OK) {
        (void)snapshot_commit(set->snapshots, id, record_nothing, NULL, NULL);
        return rc;
    }
    txn->id = id;
    txn->state = TXN_ACTIVE;
    txn->locks.id = id;
    txn_enter(txn);
    return FIRN_OK;
}

/* ---- Ending ---- */

struct ending {
    struct txn *txn;
    struct mtr *mtr;
    enum undo_state state;
    uint64_t end_lsn;
};

static firn_rc record_end(uint64_t number, void *context)
{
    struct ending *ending = context;
    struct txn *txn = ending->txn;
    const struct txn_recorder *recorder = txn_recorder_of(txn);
    firn_rc rc = undo_mark(&txn->log, ending->mtr, ending->state, number, span_of(NULL, 0));
    if (rc != FIRN_OK) {
        mtr_abandon(ending->mtr);
        return rc;
    }
    if (recorder != NULL)
        recorder->note(txn->recording, ending->mtr);
    rc = mtr_commit(ending->mtr, &ending->end_lsn);
    if (recorder != NULL)
        recorder->end_commit(txn->recording, rc == FIRN_OK, ending->end_lsn);
    txn->recording = NULL;
    return rc;
}

/* What can wait or fail comes before the mutex under which commits are numbered: room in the log,
 * the page with the log's header. */
static firn_rc publish_end(struct ending *ending)
{
    struct txn *txn = ending->txn;
    struct txn_set *set = txn->set;
    const struct txn_recorder *recorder = txn_recorder_of(txn);
    size_t recorded_bytes = 0;
    if (recorder != NULL)
        FIRN_TRY(recorder->begin_commit(txn->recording, &recorded_bytes));
    if (recorded_bytes == 0)
        txn_drop_recording(txn);
    if (!txn->log.is_written && recorded_bytes == 0)
        return snapshot_commit(set->snapshots, txn->id, record_nothing, NULL, NULL);
    FIRN_TRY(mtr_begin(ending->mtr, UNDO_HEADER_LOG_BYTES + recorded_bytes));
    firn_rc rc = undo_latch_header(&txn->log, ending->mtr);
    if (rc == FIRN_OK)
        return snapshot_commit(set->snapshots, txn->id, record_end, ending, NULL);
    mtr_abandon(ending->mtr);
    return rc;
}

firn_rc txn_finish(struct txn *txn, struct mtr *mtr, enum undo_state state, uint64_t *end_lsn)
{
    struct ending ending = {.txn = txn, .mtr = mtr, .state = state};
    if (state != UNDO_COMMITTED)
        txn_drop_recording(txn);
    FIRN_TRY(publish_end(&ending));
    txn_leave(txn);
    lock_release_all(&txn->locks);
    undo_end(&txn->log);
    txn->log = (struct undo_log){.set = NULL};
    txn->id = 0;
    txn->locks.id = 0;
    *end_lsn = ending.end_lsn;
    return FIRN_OK;
}

/* The session has none open any more; the memory is for the next one. */
static void close_txn(struct txn_session *session)
{
    struct txn *txn = session->txn;
    session->txn = NULL;
    if (snapshot_is_open(session->snapshot))
        snapshot_end(session->snapshot);
    if (session->spare == NULL)
        session->spare = txn;
    else
        txn_free(txn);
}

/* It cannot be ended now; its rows stay locked until somebody has undone it. */
static void leave_unfinished(struct txn_session *session)
{
    struct txn *txn = session->txn;
    session->txn = NULL;
    if (snapshot_is_open(session->snapshot))
        snapshot_end(session->snapshot);
    txn_drop_recording(txn);
    if (txn->state != TXN_PREPARED) /* else the next opening decides */
        txn->state = TXN_UNFINISHED;
    txn_put_aside(txn);
}

/* Nothing was written: nothing is to be logged. */
static firn_rc end_reader(struct txn_session *session)
{
    lock_release_all(&session->txn->locks);
    close_txn(session);
    return FIRN_OK;
}

firn_rc txn_commit(struct txn_session *session)
{
    struct txn_set *set = session->set;
    uint64_t end_lsn = 0;
    if (session->txn == NULL)
        return raise_none_open();
    if (session->txn->id == 0)
        return end_reader(session);
    firn_rc rc = txn_finish_committed(session->txn, btree_session_mtr(session->tree), &end_lsn);
    if (rc == FIRN_E_STOPPED) {
        leave_unfinished(session);
        return rc;
    }
    if (rc != FIRN_OK) {
        (void)txn_rollback(session);
        return rc;
    }
    close_txn(session);
    atomic_fetch_add_explicit(&set->commits, 1, memory_order_relaxed);
    return end_lsn == 0 ? FIRN_OK : redo_flush(set->base.redo, end_lsn, session->flush);
}

firn_rc txn_rollback(struct txn_session *session)
{
    if (session->txn == NULL)
        return raise_none_open();
    if (session->txn->id == 0)
        return end_reader(session);
    firn_rc rc = txn_undo_all(session, session->txn);
    if (rc != FIRN_OK) {
        leave_unfinished(session);
        return rc;
    }
    close_txn(session);
    atomic_fetch_add_explicit(&session->set->rollbacks, 1, memory_order_relaxed);
    return FIRN_OK;
}

firn_rc txn_savepoint(struct txn_session *session, struct txn_savepoint *savepoint)
{
    if (session->txn == NULL)
        return raise_none_open();
    const struct txn_recorder *recorder = txn_recorder_of(session->txn);
    *savepoint = (struct txn_savepoint){
        .last = session->txn->log.last,
        .recorded = recorder != NULL ? recorder->mark(session->txn->recording) : 0};
    return FIRN_OK;
}

firn_rc txn_rollback_to(struct txn_session *session, const struct txn_savepoint *savepoint)
{
    if (session->txn == NULL)
        return raise_none_open();
    struct txn *txn = session->txn;
    const struct txn_recorder *recorder = txn_recorder_of(txn);
    if (recorder != NULL)
        recorder->rewind(txn->recording, savepoint->recorded);
    if (txn->log.last == savepoint->last)
        return FIRN_OK;
    session->views++; /* cursors' copies have what is undone now */
    FIRN_TRY(txn_undo_to(session, txn, savepoint->last, true));
    return undo_rewind(&txn->log, btree_session_mtr(session->tree), savepoint->last);
}
