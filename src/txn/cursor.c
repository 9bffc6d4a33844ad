/*
 * Cursors over what a transaction sees.
 *
 * Without locks: over copies of leaves, each row taken back to the version that the snapshot sees.
 * A copy is of no use to a snapshot taken later (it may have rows of transactions that were rolled
 * back since), so under a new snapshot the cursor goes down the tree anew.
 *
 * With locks each row is looked at again in its leaf, latched, as it is now. Serializable scans
 * also lock the gaps they pass over, from one key to the next: when the gap in front of a key is
 * locked before the key itself is looked at, nothing comes between them.
 */
#include "txn/txn_internal.h"

#include "base/inject.h"
#include "base/memory.h"

struct txn_cursor {
    struct txn_session *session;
    struct btree *tree;
    uint64_t index_id;
    enum txn_lock lock;
    enum txn_wait wait;
    struct btree_cursor *keys; /* where it is, by key */
    uint64_t views;            /* the session's, when `keys` last went down the tree */
    bool locks_gaps;
    struct span cell; /* of the row it stands on; in the leaf's copy or in `found` */
    bool is_large;
    struct version_cell found;
    struct version_cell place; /* a key, while `keys` is sought anew */
    struct version_cell next;
};

firn_rc txn_cursor_open(struct txn_session *session, struct btree *tree, enum txn_lock lock,
                        enum txn_wait wait, struct txn_cursor **cursor)
{
    if (session->txn == NULL)
        return rc_raise(FIRN_E_MISUSE, "the session has no transaction open to read in");
    struct txn_cursor *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a cursor");
    firn_rc rc = btree_cursor_open(&session->set->base, tree, &made->keys);
    if (rc != FIRN_OK) {
        memory_free(made);
        return rc;
    }
    made->session = session;
    made->tree = tree;
    made->index_id = btree_index_id(tree);
    made->lock = txn_read_lock(session, lock);
    made->wait = wait;
    made->locks_gaps = session->isolation == TXN_SERIALIZABLE && made->lock != TXN_LOCK_NONE;
    *cursor = made;
    return FIRN_OK;
}

void txn_cursor_close(struct txn_cursor *cursor)
{
    if (cursor == NULL)
        return;
    btree_cursor_close(cursor->keys);
    version_cell_free(&cursor->found);
    version_cell_free(&cursor->place);
    version_cell_free(&cursor->next);
    memory_free(cursor);
}

/* ---- A row ---- */

/* Keep what was worked out in the session's memory. */
static firn_rc keep(struct txn_cursor *cursor, struct span seen, bool is_large)
{
    if (seen.bytes == cursor->session->cell.bytes) {
        FIRN_TRY(version_cell_set(&cursor->found, seen, is_large));
        seen = span_of(cursor->found.bytes, cursor->found.size_bytes);
    }
    cursor->cell = seen;
    cursor->is_large = is_large;
    return FIRN_OK;
}

/* Is the key that the cursor stands on a row of the snapshot? FIRN_E_NOT_FOUND if not. */
static firn_rc look_at_version(struct txn_cursor *cursor)
{
    struct btree_old row;
    struct span seen;
    bool is_large;
    FIRN_TRY(btree_cursor_cell(cursor->keys, &row));
    FIRN_TRY(txn_version(cursor->session, cursor->index_id, btree_cursor_key(cursor->keys),
                         row.cell, row.is_large, &seen, &is_large));
    return keep(cursor, seen, is_large);
}

/* A row that is to be passed by is not there. */
static firn_rc lock_key(struct txn_cursor *cursor, struct span key)
{
    enum lock_mode mode = cursor->lock == TXN_LOCK_SHARED ? LOCK_SHARED : LOCK_EXCLUSIVE;
    firn_rc rc = txn_lock_row(cursor->session, cursor->tree, key, mode, cursor->wait,
                              cursor->locks_gaps, &cursor->found);
    return rc == FIRN_E_BUSY && cursor->wait == TXN_SKIP_LOCKED ? FIRN_E_NOT_FOUND : rc;
}

/* Lock it, and take it as it is now. A row that came after the snapshot is none of ours. */
static firn_rc look_and_lock(struct txn_cursor *cursor)
{
    const struct txn_session *session = cursor->session;
    if (session->isolation == TXN_REPEATABLE_READ && !session->sees_present)
        FIRN_TRY(look_at_version(cursor));
    FIRN_TRY(lock_key(cursor, btree_cursor_key(cursor->keys)));
    cursor->cell = span_of(cursor->found.bytes, cursor->found.size_bytes);
    cursor->is_large = cursor->found.is_large;
    return FIRN_OK;
}

static firn_rc look(struct txn_cursor *cursor)
{
    return cursor->lock == TXN_LOCK_NONE ? look_at_version(cursor) : look_and_lock(cursor);
}

/* ---- Moving ---- */

static bool is_backward(enum btree_seek seek)
{
    return seek == BTREE_SEEK_LAST || seek == BTREE_SEEK_AT_OR_BEFORE || seek == BTREE_SEEK_BEFORE;
}

/* Remember the key under the cursor, and go down the tree from there. */
static firn_rc seek_from_here(struct txn_cursor *cursor, enum btree_seek seek)
{
    FIRN_TRY(version_cell_set(&cursor->place, btree_cursor_key(cursor->keys), false));
    cursor->views = cursor->session->views;
    return btree_cursor_seek(cursor->keys, seek,
                             span_of(cursor->place.bytes, cursor->place.size_bytes));
}

static firn_rc step(struct txn_cursor *cursor, bool forward)
{
    if (cursor->views != cursor->session->views)
        return seek_from_here(cursor, forward ? BTREE_SEEK_AFTER : BTREE_SEEK_BEFORE);
    return forward ? btree_cursor_next(cursor->keys) : btree_cursor_prev(cursor->keys);
}

/* From a key that is or is not there to the next, the gap between locked: forward. */
static firn_rc step_over_gap(struct txn_cursor *cursor, struct span from)
{
    FIRN_TRY(version_cell_set(&cursor->place, from, false));
    for (;;) {
        FIRN_TRY(txn_lock_gap(cursor->session, cursor->tree,
                              span_of(cursor->place.bytes, cursor->place.size_bytes),
                              &cursor->next));
        firn_rc rc = btree_cursor_seek(cursor->keys, BTREE_SEEK_EXACT,
                                       span_of(cursor->next.bytes, cursor->next.size_bytes));
        if (rc != FIRN_E_NOT_FOUND)
            return rc;
        /* It went meanwhile, and its gap is part of the next one's. */
    }
}

/* The same backward, from the key in `place` or from the end: to the key before, and lock the gap
 * behind that one. */
static firn_rc step_back_over_gap(struct txn_cursor *cursor, bool from_end)
{
    struct span place = span_of(cursor->place.bytes, from_end ? 0 : cursor->place.size_bytes);
    enum btree_seek seek = from_end ? BTREE_SEEK_LAST : BTREE_SEEK_BEFORE;
    for (;;) {
        firn_rc rc = btree_cursor_seek(cursor->keys, seek, place);
        bool at_begin = rc == FIRN_E_NOT_FOUND;
        if (rc != FIRN_OK && !at_begin)
            return rc;
        struct span key = at_begin ? span_of("", 0) : btree_cursor_key(cursor->keys);
        rc = txn_lock_gap(cursor->session, cursor->tree, key, &cursor->next);
        if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
            return rc;
        struct span next = span_of(cursor->next.bytes, cursor->next.size_bytes);
        if (rc == FIRN_E_NOT_FOUND || (!from_end && span_compare(next, place) >= 0))
            return at_begin ? FIRN_E_NOT_FOUND : FIRN_OK;
        /* Somebody has inserted between the two meanwhile. */
    }
}

static firn_rc move(struct txn_cursor *cursor, bool forward)
{
    if (!cursor->locks_gaps)
        return step(cursor, forward);
    if (forward)
        return step_over_gap(cursor, btree_cursor_key(cursor->keys));
    FIRN_TRY(version_cell_set(&cursor->place, btree_cursor_key(cursor->keys), false));
    return step_back_over_gap(cursor, false);
}

/* From where it stands to the first row that is one, in a direction. */
static firn_rc settle(struct txn_cursor *cursor, bool forward)
{
    for (;;) {
        firn_rc rc = look(cursor);
        if (rc != FIRN_E_NOT_FOUND)
            return rc;
        FIRN_TRY(move(cursor, forward));
    }
}

/* Lock a key, there or not, then stand on it: in this order, or it could come or go in between. */
static firn_rc lock_and_stand(struct txn_cursor *cursor, struct span key)
{
    firn_rc rc = lock_key(cursor, key);
    INJECT("txn-cursor-sought");
    FIRN_TRY(rc);
    return btree_cursor_seek(cursor->keys, BTREE_SEEK_EXACT, key);
}

/* Where a scan that locks gaps begins: on the key, or behind a locked gap. */
static firn_rc seek_over_gap(struct txn_cursor *cursor, enum btree_seek seek, struct span key)
{
    if (seek == BTREE_SEEK_LAST)
        return step_back_over_gap(cursor, true);
    if (seek == BTREE_SEEK_FIRST)
        key = span_of("", 0);
    if (seek != BTREE_SEEK_AFTER && seek != BTREE_SEEK_BEFORE) {
        firn_rc rc = lock_and_stand(cursor, key);
        if (rc != FIRN_E_NOT_FOUND || seek == BTREE_SEEK_EXACT)
            return rc;
    }
    if (is_backward(seek)) {
        FIRN_TRY(version_cell_set(&cursor->place, key, false));
        return step_back_over_gap(cursor, false);
    }
    return step_over_gap(cursor, key);
}

firn_rc txn_cursor_seek(struct txn_cursor *cursor, enum btree_seek seek, struct span key)
{
    txn_see(cursor->session);
    cursor->views = cursor->session->views;
    FIRN_TRY(cursor->locks_gaps ? seek_over_gap(cursor, seek, key)
                                : btree_cursor_seek(cursor->keys, seek, key));
    if (seek == BTREE_SEEK_EXACT)
        return look(cursor);
    return settle(cursor, !is_backward(seek));
}

static firn_rc advance(struct txn_cursor *cursor, bool forward)
{
    txn_see(cursor->session);
    FIRN_TRY(move(cursor, forward));
    return settle(cursor, forward);
}

firn_rc txn_cursor_next(struct txn_cursor *cursor)
{
    return advance(cursor, true);
}

firn_rc txn_cursor_prev(struct txn_cursor *cursor)
{
    return advance(cursor, false);
}

struct span txn_cursor_key(struct txn_cursor *cursor)
{
    return btree_cursor_key(cursor->keys);
}

firn_rc txn_cursor_payload(struct txn_cursor *cursor, struct span *payload)
{
    return txn_payload(cursor->session, cursor->tree, cursor->cell, cursor->is_large, payload);
}
