/*
 * The transactions of an environment: opening, what a crash left, sessions, numbers.
 */
#include "txn/txn_internal.h"

#include "base/memory.h"

void txn_options_init(struct txn_options *options)
{
    *options = (struct txn_options){.clock = clock_real(),
                                    .undo_tablespaces = 2,
                                    .lock_memory_bytes = UINT64_C(64) << 20,
                                    .lock_wait_limit_ns = 50 * NS_PER_S,
                                    .undo_max_bytes = UINT64_C(1) << 30,
                                    .purge_threads = 2,
                                    .flush = REDO_FLUSH_SYNC,
                                    .deadlock_detect = true};
}

/* ---- Opening ---- */

/* What a prepared one did is still to be written down when it commits. */
static firn_rc adopt_recording(struct txn *txn)
{
    const struct txn_recorder *recorder = txn->set->options.recorder;
    if (recorder == NULL || txn->state != TXN_PREPARED)
        return FIRN_OK;
    return recorder->adopt(txn->id, &txn->recording, recorder->context);
}

static firn_rc adopt(const struct undo_unfinished *found, const struct undo_log *log, void *context)
{
    struct txn_set *set = context;
    struct txn *txn;
    FIRN_TRY(txn_new(set, &txn));
    firn_rc rc = snapshot_adopt_id(set->snapshots, found->txn_id);
    if (rc != FIRN_OK) {
        txn_free(txn);
        return rc;
    }
    txn->id = found->txn_id;
    txn->locks.id = found->txn_id;
    txn->log = *log;
    txn->state = found->state == UNDO_PREPARED ? TXN_PREPARED : TXN_UNFINISHED;
    txn->xid_bytes = found->xid_bytes;
    memcpy(txn->xid, found->xid, found->xid_bytes);
    txn_enter(txn);
    txn_put_aside(txn);
    return adopt_recording(txn);
}

static firn_rc open_undo(struct txn_set *set)
{
    struct btree_session *session;
    struct undo_options options = {.spaces = set->base.spaces,
                                   .pool = set->base.pool,
                                   .create = set->options.create,
                                   .tablespaces = 1};
    FIRN_TRY(btree_session_open(&set->base, &session));
    firn_rc rc = undo_open(&options, btree_session_mtr(session), &set->undo);
    btree_session_close(session);
    return rc;
}

static firn_rc open_parts(struct txn_set *set)
{
    struct lock_options locks = {.clock = set->options.clock,
                                 .memory_bytes = set->options.lock_memory_bytes,
                                 .deadlock_detect = set->options.deadlock_detect};
    FIRN_TRY(lock_table_open(&locks, &set->locks));
    FIRN_TRY(open_undo(set));
    struct snapshot_options snapshots = {.next_id = undo_first_id(set->undo),
                                         .last_number = undo_last_number(set->undo)};
    FIRN_TRY(snapshot_set_open(&snapshots, &set->snapshots));
    return undo_each_unfinished(set->undo, adopt, set);
}

firn_rc txn_open(const struct txn_options *options, struct txn_set **set)
{
    struct txn_set *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for transactions");
    made->options = *options;
    made->base = *options->base;
    made->page_size_bytes = buffer_page_size(made->base.pool);
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->wake, NULL);
    pthread_cond_init(&made->idle, NULL);
    for (unsigned i = 0; i < TXN_OPEN_BUCKETS; i++)
        pthread_mutex_init(&made->open[i].mutex, NULL);
    firn_rc rc = open_parts(made);
    if (rc != FIRN_OK) {
        txn_close(made);
        return rc;
    }
    *set = made;
    return FIRN_OK;
}

firn_rc txn_start(struct txn_set *set)
{
    struct btree_session *session;
    FIRN_TRY(btree_session_open(&set->base, &session));
    firn_rc rc = undo_extend(set->undo, btree_session_mtr(session), set->options.undo_tablespaces);
    btree_session_close(session);
    return rc == FIRN_OK ? purge_open(set, &set->purge) : rc;
}

/* What is left is in the undo logs, for the next opening. */
static void forget_left(struct txn_set *set)
{
    while (set->left != NULL) {
        struct txn *txn = set->left;
        set->left = txn->next_left;
        const struct txn_recorder *recorder = txn_recorder_of(txn);
        if (recorder != NULL)
            recorder->leave(txn->recording);
        txn->recording = NULL;
        lock_release_all(&txn->locks);
        txn_free(txn);
    }
}

void txn_close(struct txn_set *set)
{
    if (set == NULL)
        return;
    purge_close(set->purge);
    forget_left(set);
    undo_close(set->undo);
    snapshot_set_close(set->snapshots);
    lock_table_close(set->locks);
    for (unsigned i = 0; i < TXN_OPEN_BUCKETS; i++)
        pthread_mutex_destroy(&set->open[i].mutex);
    pthread_cond_destroy(&set->wake);
    pthread_cond_destroy(&set->idle);
    pthread_mutex_destroy(&set->mutex);
    memory_free(set);
}

/* ---- Sessions ---- */

static void link_session(struct txn_session *session)
{
    struct txn_set *set = session->set;
    pthread_mutex_lock(&set->mutex);
    session->number = ++set->session_count;
    session->next = set->sessions;
    if (set->sessions != NULL)
        set->sessions->previous = session;
    set->sessions = session;
    pthread_mutex_unlock(&set->mutex);
}

static void unlink_session(struct txn_session *session)
{
    struct txn_set *set = session->set;
    pthread_mutex_lock(&set->mutex);
    if (session->previous != NULL)
        session->previous->next = session->next;
    else
        set->sessions = session->next;
    if (session->next != NULL)
        session->next->previous = session->previous;
    pthread_mutex_unlock(&set->mutex);
}

static void free_session(struct txn_session *session)
{
    txn_free(session->spare);
    snapshot_free(session->snapshot);
    btree_session_close(session->tree);
    undo_buffer_free(&session->record);
    version_cell_free(&session->cell);
    version_cell_free(&session->put);
    memory_free(session->undo);
    pthread_mutex_destroy(&session->cancel_mutex);
    memory_free(session);
}

firn_rc txn_session_open(struct txn_set *set, struct txn_session **session)
{
    struct txn_session *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a session");
    made->set = set;
    made->flush = set->options.flush;
    made->lock_wait_limit_ns = set->options.lock_wait_limit_ns;
    pthread_mutex_init(&made->cancel_mutex, NULL);
    firn_rc rc = btree_session_open(&set->base, &made->tree);
    if (rc == FIRN_OK)
        rc = snapshot_new(set->snapshots, &made->snapshot);
    if (rc != FIRN_OK) {
        free_session(made);
        return rc;
    }
    link_session(made);
    *session = made;
    return FIRN_OK;
}

void txn_session_close(struct txn_session *session)
{
    if (session == NULL)
        return;
    if (session->txn != NULL)
        (void)txn_rollback(session);
    unlink_session(session);
    free_session(session);
}

struct btree_session *txn_session_btree(struct txn_session *session)
{
    return session->tree;
}

void txn_session_set_flush(struct txn_session *session, enum redo_flush flush)
{
    session->flush = flush;
}

void txn_session_set_lock_wait(struct txn_session *session, uint64_t limit_ns)
{
    session->lock_wait_limit_ns = limit_ns;
}

void txn_session_see_present(struct txn_session *session, bool sees_present)
{
    session->sees_present = sees_present;
}

void txn_session_cancel(struct txn_session *session)
{
    pthread_mutex_lock(&session->cancel_mutex);
    atomic_store_explicit(&session->is_cancelled, true, memory_order_relaxed);
    if (session->waiting != NULL)
        lock_cancel(session->waiting);
    pthread_mutex_unlock(&session->cancel_mutex);
}

/* ---- Numbers ---- */

static uint64_t session_of(struct txn_set *set, const struct snapshot *snapshot)
{
    uint64_t number = 0;
    pthread_mutex_lock(&set->mutex);
    for (struct txn_session *session = set->sessions; session != NULL; session = session->next)
        if (session->snapshot == snapshot)
            number = session->number;
    pthread_mutex_unlock(&set->mutex);
    return number;
}

void txn_counters(struct txn_set *set, struct txn_counters *counters)
{
    struct lock_counters locks;
    struct undo_counters undo = {.logs = 0};
    struct snapshot_oldest oldest;
    lock_counters(set->locks, &locks);
    (void)undo_counters(set->undo, &undo); /* what it cannot read it tells as 0 */
    *counters = (struct txn_counters){
        .commits = atomic_load_explicit(&set->commits, memory_order_relaxed),
        .rollbacks = atomic_load_explicit(&set->rollbacks, memory_order_relaxed),
        .history = undo.logs,
        .undo_bytes = undo.file_bytes,
        .purged = atomic_load_explicit(&set->purged, memory_order_relaxed),
        .purged_keys = atomic_load_explicit(&set->purged_keys, memory_order_relaxed),
        .locks = locks.locks,
        .lock_waits = locks.waits,
        .lock_wait_ns = locks.wait_ns,
        .deadlocks = locks.deadlocks,
        .lock_timeouts = locks.timeouts,
    };
    if (!snapshot_oldest(set->snapshots, &oldest))
        return;
    counters->oldest_snapshot_age_ns = clock_now(clock_real()) - oldest.taken_ns;
    counters->oldest_snapshot_behind = snapshot_newest(set->snapshots) - oldest.number;
    counters->oldest_snapshot_session = session_of(set, oldest.snapshot);
}
