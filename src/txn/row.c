/*
 * Changing one key in a transaction.
 *
 * Everything is decided with the leaf latched: whether the row may be had, what to put, where the
 * undo record will stand. What is found missing is seen to without latches, then it begins anew.
 * Between the decision and the change the leaf may have been latched by others (a split, a large
 * value), so locks are judged again just before the change.
 */
#include "txn/txn_internal.h"

#include "base/memory.h"

enum step {
    STEP_NONE,
    STEP_ROOM, /* for the undo record */
    STEP_WAIT, /* for a lock */
};

struct row_change {
    struct txn_session *session;
    struct btree *tree;
    struct span key;
    uint64_t index_id;
    txn_decide *decide;
    void *context;
    bool wants_old;
    bool is_recorded;

    enum step step;
    size_t record_bytes;
    undo_pointer place;
    bool is_new_key; /* nothing is there: it goes into a gap */
    struct txn_gap gap;
    bool has_work;
};

/* ---- Deciding ---- */

/* Make room for what a decision writes down. */
static firn_rc reserve_undo(struct txn_session *session, size_t size_bytes)
{
    if (size_bytes <= session->undo_capacity_bytes)
        return FIRN_OK;
    uint8_t *bytes = memory_alloc(size_bytes);
    if (bytes == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for an undo record of %zu bytes", size_bytes);
    memory_free(session->undo);
    session->undo = bytes;
    session->undo_capacity_bytes = size_bytes;
    return FIRN_OK;
}

/* Write the undo record and find out where it will stand. */
static firn_rc place_record(struct row_change *change, const struct btree_old *old,
                            const struct span *newer, bool deletes)
{
    struct txn_session *session = change->session;
    struct undo_change record = {.index_id = change->index_id,
                                 .key = change->key,
                                 .had_old = old != NULL,
                                 .old_is_large = old != NULL && old->is_large,
                                 .deletes = deletes,
                                 .frees_old = old != NULL && old->is_large && !deletes};
    struct span cell = old != NULL ? old->cell : span_of(NULL, 0);
    FIRN_TRY(reserve_undo(session, undo_change_bytes(change->key.size_bytes, cell.size_bytes)));
    change->record_bytes = undo_change_put(session->undo, &record, cell, newer);
    change->has_work = record.deletes || record.frees_old;
    change->place = undo_place(&session->txn->log, change->record_bytes);
    if (change->place != 0)
        return FIRN_OK;
    change->step = STEP_ROOM;
    return TXN_AGAIN;
}

/* A head and what stands behind it, in the session's memory. */
static firn_rc form_value(struct row_change *change, const struct version *version,
                          struct span rest, struct span *value)
{
    struct version_cell *made = &change->session->put;
    FIRN_TRY(version_cell_reserve(made, TXN_HEAD_BYTES + rest.size_bytes));
    version_put(made->bytes, version);
    if (rest.size_bytes > 0)
        memcpy(made->bytes + TXN_HEAD_BYTES, rest.bytes, rest.size_bytes);
    made->size_bytes = TXN_HEAD_BYTES + rest.size_bytes;
    *value = span_of(made->bytes, made->size_bytes);
    return FIRN_OK;
}

static firn_rc decide_put(struct row_change *change, const struct btree_old *old,
                          struct span payload, struct btree_new *new)
{
    struct txn_session *session = change->session;
    size_t leaf_bytes = change->key.size_bytes + TXN_HEAD_BYTES + payload.size_bytes;
    bool is_large = leaf_bytes > slotted_cell_max(session->set->page_size_bytes);
    bool known = old != NULL && !old->is_large && !is_large;
    FIRN_TRY(place_record(change, old, known ? &payload : NULL, false));
    struct version version = {
        .txn_id = session->txn->id, .roll = change->place, .is_first = old == NULL};
    new->is_cell = false;
    return form_value(change, &version, payload, &new->value);
}

/* The row stays as it is, and is marked. */
static firn_rc decide_delete(struct row_change *change, const struct btree_old *old,
                             struct btree_new *new)
{
    struct span rest =
        span_of(old->cell.bytes + TXN_HEAD_BYTES, old->cell.size_bytes - TXN_HEAD_BYTES);
    FIRN_TRY(place_record(change, old, &rest, true));
    struct version version = {
        .txn_id = change->session->txn->id, .roll = change->place, .is_deleted = true};
    new->is_cell = old->is_large;
    return form_value(change, &version, rest, &new->value);
}

/* A new key goes into a gap, which nobody else may have locked. */
static firn_rc claim_gap(struct row_change *change)
{
    struct txn_session *session = change->session;
    FIRN_TRY(txn_look_behind(session, change->index_id, &change->gap));
    if (!change->gap.is_known)
        return FIRN_OK;
    struct lock_request request = {.index_id = change->index_id,
                                   .key = change->gap.next,
                                   .is_supremum = change->gap.is_supremum,
                                   .part = LOCK_INSERT,
                                   .mode = LOCK_EXCLUSIVE};
    return txn_request(session, &request, TXN_WAIT);
}

/* The row's own lock, and of one that is not there yet the gap. */
static firn_rc claim(struct row_change *change, const struct version *version)
{
    struct txn_want want = {.mode = LOCK_EXCLUSIVE};
    firn_rc rc = txn_claim(change->session, change->index_id, change->key, version, &want);
    if (rc == FIRN_OK && version == NULL)
        rc = claim_gap(change);
    if (rc == TXN_AGAIN)
        change->step = STEP_WAIT;
    return rc;
}

/* Nothing is changed, so nothing will say that the row was looked at: under serializable a lock has
 * to, be the row there or not. Nobody is in the way of it: that has just been seen. */
static firn_rc keep_seen(struct row_change *change, const struct version *version)
{
    struct txn_session *session = change->session;
    struct lock_request request = {
        .index_id = change->index_id, .key = change->key, .part = LOCK_ROW, .mode = LOCK_SHARED};
    if (session->isolation != TXN_SERIALIZABLE ||
        (version != NULL && version->txn_id == session->txn->id))
        return FIRN_OK;
    firn_rc rc = txn_request(session, &request, TXN_WAIT);
    if (rc == TXN_AGAIN) /* another name with this one's hash */
        change->step = STEP_WAIT;
    return rc;
}

/* What the caller's decision sees of a value: NULL where there is no row. */
static const struct span *shown_payload(const struct btree_old *old, const struct version *version,
                                        struct span *payload)
{
    if (old == NULL || version->is_deleted)
        return NULL;
    *payload = span_of(old->value.bytes + TXN_HEAD_BYTES, old->value.size_bytes - TXN_HEAD_BYTES);
    return payload;
}

/* ---- Who writes it down ---- */

static firn_rc prepare_record(struct row_change *change)
{
    struct txn *txn = change->session->txn;
    const struct txn_recorder *recorder = txn->set->options.recorder;
    if (recorder == NULL)
        return FIRN_OK;
    return recorder->prepare_row(txn->id, change->index_id, &txn->recording, &change->is_recorded,
                                 recorder->context);
}

static void keep_record(struct row_change *change, bool keep)
{
    if (change->is_recorded)
        change->session->set->options.recorder->keep_row(change->session->txn->recording, keep);
}

static firn_rc record(struct row_change *change, const struct span *before,
                      const struct span *after)
{
    if (!change->is_recorded)
        return FIRN_OK;
    return change->session->set->options.recorder->row(
        change->session->txn->recording, change->index_id, change->key, before, after);
}

/* ---- The decision ---- */

static enum btree_action decide_row(const struct btree_old *old, struct btree_new *new, firn_rc *rc,
                                    void *context)
{
    struct row_change *change = context;
    struct version version;
    struct span payload, wanted = {NULL, 0};
    change->step = STEP_NONE;
    change->is_new_key = old == NULL;
    keep_record(change, false);
    if (old != NULL && !version_get(old->cell, &version)) {
        *rc = rc_raise(FIRN_E_CORRUPT, "index %llu has a value without a version",
                       (unsigned long long)change->index_id);
        return BTREE_KEEP;
    }
    *rc = claim(change, old != NULL ? &version : NULL);
    if (*rc != FIRN_OK)
        return BTREE_KEEP;
    const struct span *shown = shown_payload(old, &version, &payload);
    enum btree_action action = change->decide(shown, &wanted, rc, change->context);
    if (*rc != FIRN_OK || action == BTREE_KEEP || (action == BTREE_DELETE && shown == NULL)) {
        firn_rc seen_rc = keep_seen(change, old != NULL ? &version : NULL);
        *rc = seen_rc != FIRN_OK ? seen_rc : *rc;
        return BTREE_KEEP;
    }
    *rc = record(change, shown, action == BTREE_PUT ? &wanted : NULL);
    if (*rc == FIRN_OK)
        *rc = action == BTREE_PUT ? decide_put(change, old, wanted, new)
                                  : decide_delete(change, old, new);
    return *rc == FIRN_OK ? BTREE_PUT : BTREE_KEEP;
}

/* ---- Just before the change ---- */

static firn_rc append_record(struct mtr *mtr, void *context)
{
    struct row_change *change = context;
    struct txn *txn = change->session->txn;
    struct lock_request request = {
        .index_id = change->index_id, .key = change->key, .part = LOCK_ROW, .mode = LOCK_EXCLUSIVE};
    if (lock_conflicts(&txn->locks, &request))
        return TXN_AGAIN;
    if (change->is_new_key)
        FIRN_TRY(txn_move_gap(change->session, change->index_id, change->key, false, &change->gap));
    return undo_append(&txn->log, mtr, span_of(change->session->undo, change->record_bytes));
}

/* ---- The operation ---- */

/* See to what was missing. */
static firn_rc take_step(struct row_change *change)
{
    struct txn_session *session = change->session;
    switch (change->step) {
    case STEP_ROOM:
        return undo_make_room(&session->txn->log, btree_session_mtr(session->tree),
                              change->record_bytes);
    case STEP_WAIT:
        return txn_wait_for_lock(session);
    case STEP_NONE:
        break;
    }
    return FIRN_OK;
}

static firn_rc change_key(struct row_change *change)
{
    struct txn_session *session = change->session;
    struct btree_edit edit = {
        .decide = decide_row,
        .companion = append_record,
        .companion_log_bytes = undo_append_log_bytes(undo_change_bytes(
            change->key.size_bytes, slotted_cell_max(session->set->page_size_bytes))),
        .keeps_chain = true,
        .context = change};
    atomic_store_explicit(&session->is_cancelled, false, memory_order_relaxed);
    FIRN_TRY(txn_make_writer(session));
    FIRN_TRY(prepare_record(change));
    edit.wants_old = change->wants_old || change->is_recorded;
    txn_see(session);
    firn_rc rc;
    while ((rc = btree_edit(session->tree, change->tree, change->key, &edit, NULL)) == TXN_AGAIN) {
        rc = take_step(change);
        if (rc != FIRN_OK)
            break;
    }
    keep_record(change, rc == FIRN_OK);
    if (rc == FIRN_OK && change->has_work)
        session->txn->log.has_work = true;
    atomic_store_explicit(&session->txn->locks.weight, session->txn->log.records,
                          memory_order_relaxed);
    return rc;
}

firn_rc txn_change(struct txn_session *session, struct btree *tree, struct span key,
                   txn_decide *decide, void *context)
{
    struct row_change change = {.session = session,
                                .tree = tree,
                                .key = key,
                                .index_id = btree_index_id(tree),
                                .decide = decide,
                                .context = context,
                                .wants_old = true};
    return change_key(&change);
}

/* ---- Changes that need no caller's decision, nor the old payload ---- */

static enum btree_action insert_only(const struct span *old, struct span *payload, firn_rc *rc,
                                     void *context)
{
    *payload = *(const struct span *)context;
    if (old == NULL)
        return BTREE_PUT;
    *rc = FIRN_E_EXISTS;
    return BTREE_KEEP;
}

static enum btree_action put_always(const struct span *old, struct span *payload, firn_rc *rc,
                                    void *context)
{
    (void)old;
    (void)rc;
    *payload = *(const struct span *)context;
    return BTREE_PUT;
}

static enum btree_action delete_only(const struct span *old, struct span *payload, firn_rc *rc,
                                     void *context)
{
    (void)payload;
    (void)context;
    if (old != NULL)
        return BTREE_DELETE;
    *rc = FIRN_E_NOT_FOUND;
    return BTREE_KEEP;
}

static firn_rc change_blindly(struct txn_session *session, struct btree *tree, struct span key,
                              txn_decide *decide, struct span *payload)
{
    struct row_change change = {.session = session,
                                .tree = tree,
                                .key = key,
                                .index_id = btree_index_id(tree),
                                .decide = decide,
                                .context = payload};
    return change_key(&change);
}

firn_rc txn_insert(struct txn_session *session, struct btree *tree, struct span key,
                   struct span payload)
{
    return change_blindly(session, tree, key, insert_only, &payload);
}

firn_rc txn_put(struct txn_session *session, struct btree *tree, struct span key,
                struct span payload)
{
    return change_blindly(session, tree, key, put_always, &payload);
}

firn_rc txn_delete(struct txn_session *session, struct btree *tree, struct span key)
{
    return change_blindly(session, tree, key, delete_only, NULL);
}
