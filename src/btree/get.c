/*
 * Getting one value, without a shared write.
 */
#include "base/inject.h"
#include "btree/blob_internal.h"

/* Copy a key's cell out of a leaf. What is copied from a changing leaf may be anything, but it is
 * not more than a page. Returns false if the key is not there. */
static bool copy_out(const uint8_t *leaf, uint32_t page_size_bytes, struct span key, uint8_t *to,
                     struct slotted_cell *cell)
{
    unsigned slot;
    if (!slotted_search(leaf, page_size_bytes, key, &slot) ||
        !slotted_cell(leaf, page_size_bytes, slot, cell))
        return false;
    memcpy(to, cell->value.bytes, cell->value.size_bytes);
    cell->value.bytes = to;
    return true;
}

/* Look a key up in its leaf until the leaf has stood still meanwhile. @param cell  its value is
 * set: a copy */
static firn_rc look_up(struct btree *tree, struct span key, uint8_t *to, struct slotted_cell *cell)
{
    struct btree_target target = {.way = BTREE_WAY_KEY, .key = key};
    for (unsigned attempt = 0;; attempt++) {
        struct btree_node leaf;
        firn_rc rc = btree_descend(tree, &target, btree_wants_latches(tree, attempt), &leaf);
        if (rc == BTREE_AGAIN)
            continue;
        FIRN_TRY(rc);
        bool found = copy_out(leaf.page, tree->page_size_bytes, key, to, cell);
        INJECT("btree-value-copied");
        bool valid = btree_node_valid(tree, &leaf);
        btree_node_close(tree, &leaf);
        if (valid)
            return found ? FIRN_OK : FIRN_E_NOT_FOUND;
    }
}

firn_rc btree_read_value(struct btree *tree, struct span key, struct btree_bytes *buffer,
                         struct span *value)
{
    struct btree_chain_failure failure = {FIRN_OK, {0}};
    uint8_t copy[BTREE_CELL_MAX_BYTES];
    struct slotted_cell cell;
    size_t size_bytes;
    firn_rc rc;
    FIRN_TRY(btree_bytes_reserve(buffer, tree->page_size_bytes));
    do {
        FIRN_TRY(look_up(tree, key, buffer->bytes, &cell));
        if (!(cell.flags & SLOTTED_EXTERNAL)) {
            *value = cell.value;
            return FIRN_OK;
        }
        cell.value = btree_cell_copy(cell.value, copy);
        rc = btree_chain_read_seen(tree, cell.value, buffer, &size_bytes, &failure);
    } while (rc == BTREE_AGAIN);
    if (rc == FIRN_OK)
        *value = span_of(buffer->bytes, size_bytes);
    return rc;
}

firn_rc btree_get(struct btree_session *session, struct btree *tree, struct span key,
                  struct span *value)
{
    FIRN_TRY(btree_check_key(tree, key));
    return btree_read_value(tree, key, &session->value, value);
}

firn_rc btree_get_cell(struct btree_session *session, struct btree *tree, struct span key,
                       struct btree_old *row)
{
    struct slotted_cell cell;
    FIRN_TRY(btree_check_key(tree, key));
    FIRN_TRY(look_up(tree, key, session->value.bytes, &cell));
    btree_show(tree, &cell, row);
    return FIRN_OK;
}
