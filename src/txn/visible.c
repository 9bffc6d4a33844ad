/*
 * What a transaction may have, and what it sees.
 */
#include "txn/txn_internal.h"

/* ---- Locks ---- */

static bool is_own(const struct txn_session *session, const struct version *version)
{
    return session->txn->id != 0 && version->txn_id == session->txn->id;
}

firn_rc txn_request(struct txn_session *session, const struct lock_request *wanted,
                    enum txn_wait wait)
{
    enum lock_answer answer;
    FIRN_TRY(lock_request(&session->txn->locks, wanted, wait == TXN_WAIT, &answer));
    if (answer == LOCK_QUEUED)
        return TXN_AGAIN;
    return answer == LOCK_REFUSED ? FIRN_E_BUSY : FIRN_OK;
}

/* The row is locked by whoever has changed it, if that one is still open. Then his lock is entered,
 * and ours behind it. Under the bucket's mutex he does not end. Returns FIRN_OK if he has. */
static firn_rc claim_from_holder(struct txn_session *session, uint64_t holder_id,
                                 const struct lock_request *wanted, enum txn_wait wait)
{
    struct txn_set *set = session->set;
    if (!snapshot_is_active(set->snapshots, holder_id))
        return FIRN_OK;
    struct txn_bucket *bucket = &set->open[holder_id % TXN_OPEN_BUCKETS];
    pthread_mutex_lock(&bucket->mutex);
    struct txn *holder = bucket->first;
    while (holder != NULL && holder->id != holder_id)
        holder = holder->next;
    firn_rc rc = FIRN_OK;
    if (holder != NULL) {
        struct lock_request held = *wanted;
        held.part = LOCK_ROW;
        held.mode = LOCK_EXCLUSIVE;
        rc = lock_enter_implicit(&holder->locks, &held);
        if (rc == FIRN_OK)
            rc = txn_request(session, wanted, wait);
    }
    pthread_mutex_unlock(&bucket->mutex);
    return rc;
}

static firn_rc raise_conflict(uint64_t index_id, const struct version *version)
{
    return rc_raise(FIRN_E_CONFLICT,
                    "a row of index %llu was changed by transaction %llu after this one's "
                    "snapshot was taken: roll back and begin again",
                    (unsigned long long)index_id, (unsigned long long)version->txn_id);
}

firn_rc txn_claim(struct txn_session *session, uint64_t index_id, struct span key,
                  const struct version *version, const struct txn_want *want)
{
    struct lock_request wanted = {
        .index_id = index_id, .key = key, .part = LOCK_ROW, .mode = want->mode};
    bool own = version != NULL && is_own(session, version);
    if (version != NULL && !own)
        FIRN_TRY(claim_from_holder(session, version->txn_id, &wanted, want->wait));
    if (want->is_kept || lock_conflicts(&session->txn->locks, &wanted))
        FIRN_TRY(txn_request(session, &wanted, want->wait));
    bool looks_at_present = want->is_kept && session->sees_present;
    bool any_version = session->isolation == TXN_READ_COMMITTED ||
                       (session->isolation == TXN_REPEATABLE_READ && looks_at_present);
    if (version == NULL || own || any_version || snapshot_sees(session->snapshot, version->txn_id))
        return FIRN_OK;
    return raise_conflict(index_id, version);
}

/* ---- Gaps ---- */

firn_rc txn_look_behind(struct txn_session *session, uint64_t index_id, struct txn_gap *gap)
{
    *gap = (struct txn_gap){.is_known = false};
    if (!lock_gaps_exist(session->set->locks, index_id))
        return FIRN_OK;
    firn_rc rc = btree_next_key(session->tree, &gap->next);
    gap->is_known = rc == FIRN_OK || rc == FIRN_E_NOT_FOUND;
    gap->is_supremum = rc == FIRN_E_NOT_FOUND;
    return gap->is_known ? FIRN_OK : rc;
}

firn_rc txn_move_gap(struct txn_session *session, uint64_t index_id, struct span key, bool goes,
                     const struct txn_gap *gap)
{
    struct lock_table *locks = session->set->locks;
    if (gap->is_known)
        return lock_inherit(locks, index_id, key, goes, gap->next, gap->is_supremum);
    return lock_gaps_exist(locks, index_id) ? TXN_AGAIN : FIRN_OK;
}

/* Whoever cancels finds the wait, or is found before it. */
firn_rc txn_wait_for_lock(struct txn_session *session)
{
    struct lock_owner *owner = &session->txn->locks;
    pthread_mutex_lock(&session->cancel_mutex);
    session->waiting = owner;
    if (atomic_load_explicit(&session->is_cancelled, memory_order_relaxed))
        lock_cancel(owner);
    pthread_mutex_unlock(&session->cancel_mutex);
    firn_rc rc = lock_wait(owner, session->lock_wait_limit_ns);
    pthread_mutex_lock(&session->cancel_mutex);
    session->waiting = NULL;
    pthread_mutex_unlock(&session->cancel_mutex);
    return rc;
}

/* ---- Versions ---- */

static firn_rc raise_bad_record(uint64_t index_id, undo_pointer pointer)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "an older version of a row of index %llu cannot be worked out: undo record "
                    "%#llx is not about it; run firn check",
                    (unsigned long long)index_id, (unsigned long long)pointer);
}

/* Take the session's copy of a cell one version back. */
static firn_rc go_back(struct txn_session *session, uint64_t index_id, struct span key,
                       struct version *version)
{
    struct span record;
    struct undo_change change;
    FIRN_TRY(undo_read(session->set->undo, version->roll, &session->record, &record, NULL));
    firn_rc rc = undo_change_get(record, &change);
    if (rc == FIRN_OK &&
        (change.index_id != index_id || span_compare(change.key, key) != 0 || !change.had_old))
        rc = FIRN_E_CORRUPT;
    if (rc == FIRN_OK)
        rc = version_cell_undo(&session->cell, &change);
    if (rc == FIRN_E_CORRUPT)
        return raise_bad_record(index_id, version->roll);
    *version = change.old;
    return rc;
}

firn_rc txn_version(struct txn_session *session, uint64_t index_id, struct span key,
                    struct span cell, bool is_large, struct span *seen, bool *seen_is_large)
{
    struct version version;
    bool is_copied = false;
    if (!version_get(cell, &version))
        return rc_raise(FIRN_E_CORRUPT, "index %llu has a value without a version",
                        (unsigned long long)index_id);
    while (!is_own(session, &version) && !snapshot_sees(session->snapshot, version.txn_id)) {
        if (version.is_first)
            return FIRN_E_NOT_FOUND;
        if (!is_copied)
            FIRN_TRY(version_cell_set(&session->cell, cell, is_large));
        is_copied = true;
        FIRN_TRY(go_back(session, index_id, key, &version));
    }
    if (version.is_deleted)
        return FIRN_E_NOT_FOUND;
    *seen = is_copied ? span_of(session->cell.bytes, session->cell.size_bytes) : cell;
    *seen_is_large = is_copied ? session->cell.is_large : is_large;
    return FIRN_OK;
}

firn_rc txn_payload(struct txn_session *session, struct btree *tree, struct span cell,
                    bool is_large, struct span *payload)
{
    struct span value = cell;
    firn_rc rc = is_large ? btree_read_kept(session->tree, tree, cell, &value) : FIRN_OK;
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "a large value of index %llu that is still in use is gone or damaged; run "
                        "firn check",
                        (unsigned long long)btree_index_id(tree));
    FIRN_TRY(rc);
    *payload = span_of(value.bytes + TXN_HEAD_BYTES, value.size_bytes - TXN_HEAD_BYTES);
    return FIRN_OK;
}
