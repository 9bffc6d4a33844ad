/*
 * Purge: what no snapshot needs any more goes. And the set's threads, which do that and roll back
 * what nobody else will.
 *
 * A log is purged when its number is at or below the horizon. Of its records, newest first, those
 * that deleted take the key away if it still is the deleted version they made; those that replaced
 * a large value free its chain. Both can be repeated, so a crash in between does no harm. Segments
 * are independent of each other: what makes a record's work right is the version in the tree, not
 * the order.
 */
#include "txn/txn_internal.h"

#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <time.h>

enum { PURGE_NAP_MS = 100, PURGE_THREADS_MAX = 32 };

struct purger {
    struct purge *purge;
    struct txn_session *session;
    pthread_t thread;
    unsigned number;
};

struct purge {
    struct txn_set *set;
    unsigned count;
    struct purger *purgers;
};

/* ---- One record ---- */

struct removal {
    struct txn_session *session;
    struct btree *tree;
    const struct undo_change *change;
    uint64_t txn_id;
    undo_pointer pointer;
    struct txn_gap gap;
    bool removed;
};

static enum btree_action decide_removal(const struct btree_old *old, struct btree_new *new,
                                        firn_rc *rc, void *context)
{
    struct removal *removal = context;
    struct version version;
    (void)new;
    removal->removed = old != NULL && version_get(old->cell, &version) && version.is_deleted &&
                       version.txn_id == removal->txn_id && version.roll == removal->pointer;
    if (removal->removed)
        *rc = txn_look_behind(removal->session, removal->change->index_id, &removal->gap);
    return removal->removed && *rc == FIRN_OK ? BTREE_DELETE : BTREE_KEEP;
}

static firn_rc leave_gap(struct mtr *mtr, void *context)
{
    struct removal *removal = context;
    (void)mtr;
    return txn_move_gap(removal->session, removal->change->index_id, removal->change->key, true,
                        &removal->gap);
}

static firn_rc remove_key(struct removal *removal)
{
    struct txn_session *session = removal->session;
    struct btree_edit edit = {.decide = decide_removal, .companion = leave_gap, .context = removal};
    firn_rc rc;
    do
        rc = btree_edit(session->tree, removal->tree, removal->change->key, &edit, NULL);
    while (rc == TXN_AGAIN);
    if (rc == FIRN_OK && removal->removed)
        atomic_fetch_add_explicit(&session->set->purged_keys, 1, memory_order_relaxed);
    return rc;
}

/* The cell as it was, of which the chain's reference is what counts. */
static firn_rc free_chain(struct removal *removal)
{
    struct txn_session *session = removal->session;
    struct version_cell *cell = &session->cell;
    firn_rc rc = version_cell_of_record(cell, removal->change);
    if (rc == FIRN_E_CORRUPT)
        return rc_raise(rc, "undo record %#llx does not say which large value it is about",
                        (unsigned long long)removal->pointer);
    FIRN_TRY(rc);
    return btree_free_kept(session->tree, removal->tree, span_of(cell->bytes, cell->size_bytes));
}

static firn_rc purge_record(struct txn_session *session, const struct undo_change *change,
                            uint64_t txn_id, undo_pointer pointer)
{
    const struct txn_trees *trees = &session->set->options.trees;
    struct removal removal = {
        .session = session, .change = change, .txn_id = txn_id, .pointer = pointer};
    if (!change->deletes && !change->frees_old)
        return FIRN_OK;
    firn_rc rc = trees->find(change->index_id, &removal.tree, trees->context);
    if (rc == FIRN_E_NOT_FOUND)
        return FIRN_OK; /* dropped, and all that was in it */
    FIRN_TRY(rc);
    if (change->deletes)
        rc = remove_key(&removal);
    if (rc == FIRN_OK && change->frees_old)
        rc = free_chain(&removal);
    trees->release(removal.tree, trees->context);
    return rc;
}

/* ---- Logs and segments ---- */

static firn_rc purge_log(struct txn_session *session, const struct undo_finished *finished)
{
    struct undo_set *undo = session->set->undo;
    for (undo_pointer pointer = finished->last; pointer != 0;) {
        struct span record;
        struct undo_change change;
        undo_pointer previous;
        FIRN_TRY(undo_read(undo, pointer, &session->record, &record, &previous));
        if (undo_change_get(record, &change) != FIRN_OK)
            return rc_raise(FIRN_E_CORRUPT, "undo record %#llx makes no sense; run firn check",
                            (unsigned long long)pointer);
        FIRN_TRY(purge_record(session, &change, finished->txn_id, pointer));
        pointer = previous;
    }
    return FIRN_OK;
}

static firn_rc purge_segment(struct txn_session *session, unsigned segment, bool *did_something)
{
    struct txn_set *set = session->set;
    struct undo_finished finished;
    for (;;) {
        firn_rc rc = undo_purge_first(set->undo, segment, &finished);
        if (rc == FIRN_E_NOT_FOUND || rc == FIRN_E_BUSY)
            return FIRN_OK;
        FIRN_TRY(rc);
        bool is_needed = finished.number > snapshot_horizon(set->snapshots);
        if (!is_needed && finished.has_work)
            rc = purge_log(session, &finished);
        if (is_needed || rc != FIRN_OK) {
            undo_purge_leave(set->undo, segment);
            return rc;
        }
        FIRN_TRY(undo_purge_done(set->undo, btree_session_mtr(session->tree), segment));
        atomic_fetch_add_explicit(&set->purged, 1, memory_order_relaxed);
        *did_something = true;
    }
}

/* All segments; one that fails does not keep the others from being purged. */
firn_rc purge_round(struct txn_set *set, struct txn_session *session, bool *did_something)
{
    firn_rc rc = FIRN_OK;
    *did_something = false;
    unsigned count = undo_segment_count(set->undo);
    for (unsigned segment = 0; segment < count; segment++) {
        firn_rc segment_rc = purge_segment(session, segment, did_something);
        rc = rc == FIRN_OK ? segment_rc : rc;
    }
    return rc;
}

static firn_rc shrink_files(struct txn_set *set, struct txn_session *session)
{
    uint64_t pages;
    struct undo_counters counters;
    FIRN_TRY(undo_counters(set->undo, &counters));
    if (counters.file_bytes <= set->options.undo_max_bytes)
        return FIRN_OK;
    firn_rc rc = undo_truncate(set->undo, btree_session_mtr(session->tree),
                               set->options.undo_max_bytes, &pages);
    return rc == FIRN_E_BUSY ? FIRN_OK : rc;
}

/* ---- Transactions that nobody will end ---- */

static struct txn *take_unfinished(struct txn_set *set)
{
    pthread_mutex_lock(&set->mutex);
    struct txn *txn = set->left;
    while (txn != NULL && (txn->state != TXN_UNFINISHED || txn->is_taken))
        txn = txn->next_left;
    if (txn != NULL)
        txn->is_taken = true;
    pthread_mutex_unlock(&set->mutex);
    return txn;
}

static firn_rc end_unfinished(struct txn_set *set, struct txn_session *session)
{
    struct txn *txn;
    while ((txn = take_unfinished(set)) != NULL) {
        firn_rc rc = txn_undo_all(session, txn);
        if (rc != FIRN_OK) {
            pthread_mutex_lock(&set->mutex);
            txn->is_taken = false;
            pthread_mutex_unlock(&set->mutex);
            return rc;
        }
        txn_take_back(txn);
        txn_free(txn);
        atomic_fetch_add_explicit(&set->rollbacks, 1, memory_order_relaxed);
    }
    return FIRN_OK;
}

/* ---- Working and standing still ---- */

void txn_pause(struct txn_set *set)
{
    pthread_mutex_lock(&set->mutex);
    set->pauses++;
    while (set->workers > 0)
        pthread_cond_wait(&set->idle, &set->mutex);
    pthread_mutex_unlock(&set->mutex);
}

void txn_resume(struct txn_set *set)
{
    pthread_mutex_lock(&set->mutex);
    set->pauses--;
    pthread_cond_broadcast(&set->wake);
    pthread_mutex_unlock(&set->mutex);
}

static bool begin_work(struct txn_set *set)
{
    pthread_mutex_lock(&set->mutex);
    bool may = set->pauses == 0;
    set->workers += may;
    pthread_mutex_unlock(&set->mutex);
    return may;
}

static void end_work(struct txn_set *set)
{
    pthread_mutex_lock(&set->mutex);
    if (--set->workers == 0)
        pthread_cond_broadcast(&set->idle);
    pthread_mutex_unlock(&set->mutex);
}

static firn_rc work(struct txn_set *set, struct txn_session *session, bool *did_something)
{
    *did_something = false;
    if (!begin_work(set))
        return FIRN_OK;
    firn_rc rc = end_unfinished(set, session);
    if (rc == FIRN_OK)
        rc = purge_round(set, session, did_something);
    if (rc == FIRN_OK && *did_something)
        rc = shrink_files(set, session);
    end_work(set);
    return rc;
}

firn_rc txn_settle(struct txn_set *set)
{
    struct txn_session *session;
    FIRN_TRY(txn_session_open(set, &session));
    firn_rc rc = end_unfinished(set, session);
    txn_session_close(session);
    pthread_mutex_lock(&set->mutex);
    while (set->workers > 0) /* one of them may have taken one */
        pthread_cond_wait(&set->idle, &set->mutex);
    pthread_mutex_unlock(&set->mutex);
    return rc;
}

firn_rc txn_tick(struct txn_set *set)
{
    struct txn_session *session;
    bool did_something;
    FIRN_TRY(txn_session_open(set, &session));
    firn_rc rc = work(set, session, &did_something);
    txn_session_close(session);
    return rc;
}

/* ---- Threads ---- */

/* Sleep a little, or until there is something to roll back. Returns false when it is time to end.
 */
static bool nap(struct txn_set *set)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PURGE_NAP_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_mutex_lock(&set->mutex);
    if (!set->stops && (set->left == NULL || set->pauses > 0))
        pthread_cond_timedwait(&set->wake, &set->mutex, &until);
    bool goes_on = !set->stops;
    pthread_mutex_unlock(&set->mutex);
    return goes_on;
}

static bool is_stopping(struct txn_set *set)
{
    pthread_mutex_lock(&set->mutex);
    bool stops = set->stops;
    pthread_mutex_unlock(&set->mutex);
    return stops;
}

static void *purger_main(void *context)
{
    struct purger *purger = context;
    struct txn_set *set = purger->purge->set;
    bool goes_on = true;
    firn_rc told = FIRN_OK;
    while (goes_on) {
        bool did_something;
        firn_rc rc = work(set, purger->session, &did_something);
        if (rc != FIRN_OK && rc != told)
            log_warning("purge and rolling back have to wait: %s", firn_error_text());
        told = rc;
        goes_on = rc == FIRN_OK && did_something ? !is_stopping(set) : nap(set);
    }
    return NULL;
}

static firn_rc start(struct purge *purge, struct purger *purger)
{
    purger->purge = purge;
    FIRN_TRY(txn_session_open(purge->set, &purger->session));
    int error = pthread_create(&purger->thread, NULL, purger_main, purger);
    if (error == 0)
        return FIRN_OK;
    txn_session_close(purger->session);
    return rc_raise_errno(error, "cannot start a purge thread");
}

firn_rc purge_open(struct txn_set *set, struct purge **purge)
{
    unsigned wanted = set->options.purge_threads;
    if (wanted > PURGE_THREADS_MAX)
        return rc_raise(FIRN_E_INVALID, "purge_threads is %u; it may be 0 to %d", wanted,
                        PURGE_THREADS_MAX);
    struct purge *made = memory_zalloc(1, sizeof *made);
    if (made != NULL)
        made->purgers = memory_zalloc(wanted + 1, sizeof *made->purgers);
    if (made == NULL || made->purgers == NULL) {
        memory_free(made);
        return rc_raise(FIRN_E_NOMEM, "no memory for the purge threads");
    }
    made->set = set;
    firn_rc rc = FIRN_OK;
    while (made->count < wanted && rc == FIRN_OK) {
        rc = start(made, &made->purgers[made->count]);
        made->count += rc == FIRN_OK;
    }
    if (rc != FIRN_OK) {
        purge_close(made);
        return rc;
    }
    *purge = made;
    return FIRN_OK;
}

void purge_close(struct purge *purge)
{
    if (purge == NULL)
        return;
    struct txn_set *set = purge->set;
    pthread_mutex_lock(&set->mutex);
    set->stops = true;
    pthread_cond_broadcast(&set->wake);
    pthread_mutex_unlock(&set->mutex);
    for (unsigned i = 0; i < purge->count; i++) {
        pthread_join(purge->purgers[i].thread, NULL);
        txn_session_close(purge->purgers[i].session);
    }
    memory_free(purge->purgers);
    memory_free(purge);
}
