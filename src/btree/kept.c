/*
 * Large values whose cells were kept elsewhere when the tree let go of them.
 */
#include "base/inject.h"
#include "btree/blob_internal.h"

#include <inttypes.h>

static firn_rc check_cell(const struct btree *tree, struct span cell)
{
    return btree_cell_is_sound(tree, cell)
               ? FIRN_OK
               : rc_raise(FIRN_E_INVALID, "%zu bytes are no cell of a large value of index %llu",
                          cell.size_bytes, (unsigned long long)tree->index_id);
}

firn_rc btree_read_kept(struct btree_session *session, struct btree *tree, struct span cell,
                        struct span *value)
{
    uint8_t copy[BTREE_CELL_MAX_BYTES];
    size_t size_bytes;
    FIRN_TRY(check_cell(tree, cell));
    /* The cell may lie in what the session read last. */
    firn_rc rc = btree_chain_read(tree, btree_cell_copy(cell, copy), &session->value, &size_bytes);
    if (rc == BTREE_AGAIN)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(rc);
    *value = span_of(session->value.bytes, size_bytes);
    return FIRN_OK;
}

/* ---- Freeing ---- */

/* Is the chain there? Once it is gone it does not come back, so the answer no does not age; and
 * only who asks frees it. */
static firn_rc find_chain(struct btree *tree, const struct btree_reference *reference, bool *there)
{
    struct buffer_pool *pool = tree->base.pool;
    struct buffer_frame *frame;
    FIRN_TRY(space_has_page(tree->base.spaces, tree->space, reference->first_page, there));
    if (!*there) /* its bytes may be anything, or not there at all */
        return FIRN_OK;
    FIRN_TRY(buffer_fix(pool, page_id_of(tree->space, reference->first_page), BUFFER_SHARED,
                        BUFFER_HINT_NORMAL, &frame));
    *there = btree_chain_has(tree, reference, 0, buffer_page(pool, frame));
    buffer_unfix(pool, frame, BUFFER_SHARED);
    bool in_limbo = false;
    if (*there) /* it could not be freed the last time */
        FIRN_TRY(btree_limbo_has(tree, reference, &in_limbo));
    *there &= !in_limbo;
    return FIRN_OK;
}

/* Put the chain into limbo. */
static firn_rc name_chain(struct btree_session *session, struct btree *tree, struct span cell,
                          struct btree_claim *claim)
{
    struct btree_limbo_entry entry;
    btree_limbo_name(tree, cell, &entry);
    FIRN_TRY(mtr_begin(&session->mtr, btree_claim_cost()));
    firn_rc rc = btree_claim_lock(session, claim);
    if (rc != FIRN_OK) {
        mtr_abandon(&session->mtr);
        return rc;
    }
    btree_claim_set(session, claim, 0, &entry);
    return mtr_commit(&session->mtr, NULL);
}

firn_rc btree_free_kept(struct btree_session *session, struct btree *tree, struct span cell)
{
    struct btree_reference reference;
    struct btree_claim claim;
    bool there;
    FIRN_TRY(check_cell(tree, cell));
    btree_reference_get(cell, &reference);
    FIRN_TRY(find_chain(tree, &reference, &there));
    if (!there)
        return FIRN_OK;
    FIRN_TRY(btree_claim(session, tree->space, 1, &claim));
    firn_rc rc = name_chain(session, tree, cell, &claim);
    INJECT("btree-limbo-step");
    /* From here on limbo has it. */
    firn_rc ended = btree_claim_end(session, &claim, 1);
    return rc == FIRN_OK && ended == FIRN_E_STOPPED ? ended : rc;
}

/* ---- Judging ---- */

firn_rc btree_chain_pages(struct btree *tree, struct span cell, btree_page_seen *seen,
                          void *context)
{
    struct buffer_pool *pool = tree->base.pool;
    struct btree_reference reference;
    uint64_t position = 0;
    if (!btree_cell_is_sound(tree, cell))
        return rc_raise(FIRN_E_CORRUPT,
                        "a reference to a large value of index %" PRIu64 " makes no sense",
                        tree->index_id);
    btree_reference_get(cell, &reference);
    uint32_t page_no = reference.first_page;
    for (uint32_t i = 0; i < reference.page_count; i++) {
        struct buffer_frame *frame;
        firn_rc rc = buffer_fix(pool, page_id_of(tree->space, page_no), BUFFER_SHARED,
                                BUFFER_HINT_SCAN, &frame);
        FIRN_TRY(btree_missing_page(tree, page_no, rc));
        const uint8_t *page = buffer_page(pool, frame);
        bool fits = btree_chain_has(tree, &reference, position, page);
        uint32_t next = get_u32(page + BLOB_AT_NEXT);
        position += get_u32(page + BLOB_AT_LENGTH);
        buffer_unfix(pool, frame, BUFFER_SHARED);
        if (!fits)
            return btree_raise_corrupt(tree, page_no, "is no part of a large value that was kept");
        seen(page_no, context);
        page_no = next;
    }
    return FIRN_OK;
}
