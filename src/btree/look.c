/*
 * Looking at a row while its leaf is latched, and at what stands behind it.
 *
 * The key behind may stand in the next leaf. The link to that one is believed, for it changes only
 * under the latch of the leaf that is held; the leaf itself is latched too, after this one, so what
 * was told stays true until both are given back. Latches go from left to right, like everybody's
 * who waits for them. Only reading is not done with latches in hand: then the caller begins anew.
 */
#include "base/memory.h"
#include "btree/btree_internal.h"

enum { HELD_AT_FIRST = 4 };

/* ---- The leaf on the right ---- */

static firn_rc make_room(struct btree_place *place)
{
    if (place->held_count < place->held_capacity)
        return FIRN_OK;
    unsigned capacity = place->held_capacity > 0 ? 2 * place->held_capacity : HELD_AT_FIRST;
    struct buffer_frame **held = memory_realloc(place->held, capacity * sizeof(*held));
    if (held == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the key behind another");
    place->held = held;
    place->held_capacity = capacity;
    return FIRN_OK;
}

/* Latch a page that has been read for this. */
static bool latch_pinned(struct buffer_pool *pool, struct btree_place *place,
                         struct buffer_frame **frame)
{
    if (!place->tries)
        buffer_latch(pool, place->pinned, BUFFER_SHARED);
    else if (!buffer_try_latch(pool, place->pinned, BUFFER_SHARED))
        return false;
    *frame = place->pinned;
    place->pinned = NULL;
    return true;
}

/* Latch a leaf on the right, if it is in the pool. */
static firn_rc latch_right(struct btree_session *session, uint32_t page_no, const uint8_t **page)
{
    struct btree_place *place = &session->place;
    struct buffer_pool *pool = session->base.pool;
    uint64_t page_id = page_id_of(place->tree->space, page_no);
    struct buffer_frame *frame;
    struct buffer_view view;
    FIRN_TRY(make_room(place));
    place->missing = page_no;
    if (place->pinned != NULL && buffer_page_id(place->pinned) == page_id) {
        if (!latch_pinned(pool, place, &frame))
            return BTREE_AGAIN;
    } else {
        if (!buffer_view_open(pool, page_id, NULL, &view))
            return BTREE_AGAIN;
        buffer_view_close(pool, &view);
        firn_rc rc = place->tries
                         ? buffer_try_fix(pool, page_id, BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame)
                         : buffer_fix(pool, page_id, BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame);
        if (place->tries && rc == FIRN_E_BUSY)
            return BTREE_AGAIN;
        FIRN_TRY(btree_missing_page(place->tree, page_no, rc));
    }
    place->missing = PAGE_NONE;
    place->held[place->held_count++] = frame;
    *page = buffer_page(pool, frame);
    return FIRN_OK;
}

static firn_rc find_next(struct btree_session *session)
{
    struct btree_place *place = &session->place;
    const struct btree *tree = place->tree;
    const uint8_t *leaf = place->leaf;
    unsigned slot = place->slot;
    while (slot >= slotted_count(leaf)) {
        uint32_t page_no = slotted_next(leaf);
        const uint8_t *right = leaf == place->leaf ? place->right : NULL;
        if (page_no == PAGE_NONE)
            return FIRN_E_NOT_FOUND;
        if (right == NULL)
            FIRN_TRY(latch_right(session, page_no, &right));
        if (!btree_is_node(tree, right) || slotted_level(right) != 0 ||
            slotted_prev(right) != page_number(leaf))
            return btree_raise_corrupt(tree, page_no,
                                       "is not the leaf that its neighbour says it is");
        leaf = right;
        slot = 0;
    }
    size_t size_bytes = slotted_copy_key(leaf, tree->page_size_bytes, slot, session->next_key);
    if (size_bytes == 0) /* the empty key is behind no other */
        return btree_raise_corrupt(tree, page_number(leaf), "has a damaged cell");
    place->next = span_of(session->next_key, size_bytes);
    return FIRN_OK;
}

static firn_rc know_next(struct btree_session *session)
{
    struct btree_place *place = &session->place;
    if (!place->known)
        place->rc = find_next(session);
    place->known = place->rc != BTREE_AGAIN;
    return place->rc;
}

firn_rc btree_next_key(struct btree_session *session, struct span *next)
{
    struct btree_place *place = &session->place;
    if (place->tree == NULL)
        return rc_raise(FIRN_E_MISUSE, "the key behind is told only while a leaf is latched");
    place->asked = true;
    firn_rc rc = know_next(session);
    if (rc == FIRN_OK)
        *next = place->next;
    return rc;
}

firn_rc btree_place_foresee(struct btree_session *session)
{
    struct btree_place *place = &session->place;
    if (!place->wanted)
        return FIRN_OK;
    place->wanted = false;
    firn_rc rc = know_next(session);
    place->wanted = rc == BTREE_AGAIN;
    /* Whoever asks is told of failures. */
    return rc == BTREE_AGAIN ? rc : FIRN_OK;
}

void btree_place_release(struct btree_session *session)
{
    struct btree_place *place = &session->place;
    while (place->held_count > 0)
        buffer_unfix(session->base.pool, place->held[--place->held_count], BUFFER_SHARED);
    place->tries = false;
    place->right = NULL;
}

firn_rc btree_place_read(struct btree_session *session, struct btree *tree)
{
    struct btree_place *place = &session->place;
    uint32_t page_no = place->missing;
    bool wanted = place->wanted;
    if (page_no == PAGE_NONE)
        return FIRN_OK;
    btree_place_end(session);
    place->missing = PAGE_NONE;
    place->wanted = wanted;
    return btree_pin(tree, page_no, &place->pinned);
}

/* ---- Looking ---- */

static firn_rc look_at_leaf(struct btree_session *session, struct btree *tree, const uint8_t *leaf,
                            struct span key, btree_look *look, void *context)
{
    struct slotted_cell cell;
    struct btree_old row;
    unsigned slot;
    bool found = slotted_search(leaf, tree->page_size_bytes, key, &slot);
    if (found && !slotted_cell(leaf, tree->page_size_bytes, slot, &cell))
        return btree_raise_corrupt(tree, page_number(leaf), "has a damaged cell");
    if (found)
        btree_show(tree, &cell, &row);
    btree_place_enter(session, tree, leaf, slot + found);
    firn_rc rc = look(found ? &row : NULL, context);
    btree_place_leave(session);
    return rc;
}

firn_rc btree_inspect(struct btree_session *session, struct btree *tree, struct span key,
                      btree_look *look, void *context)
{
    struct buffer_pool *pool = session->base.pool;
    struct buffer_frame *frame;
    bool again = true;
    firn_rc rc = btree_check_key(tree, key);
    while (rc == FIRN_OK && again) {
        rc = btree_latch_leaf(tree, key, BUFFER_SHARED, &frame);
        if (rc != FIRN_OK)
            break;
        rc = look_at_leaf(session, tree, buffer_page(pool, frame), key, look, context);
        buffer_unfix(pool, frame, BUFFER_SHARED);
        again = rc == BTREE_AGAIN;
        if (again)
            rc = btree_place_read(session, tree);
    }
    btree_place_end(session);
    return rc;
}
