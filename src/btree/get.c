/*
 * Getting one value, without a shared write.
 */
#include "base/inject.h"
#include "btree/blob_internal.h"

/* What a look at a leaf found. */
struct found {
    bool is_there;
    bool is_external;
    struct span value; /* copied */
};

/* Copy a key's value out of a leaf. What is copied from a changing leaf may be anything, but it is
 * not more than a page. */
static void copy_out(const uint8_t *leaf, uint32_t page_size_bytes, struct span key, uint8_t *to,
                     struct found *found)
{
    unsigned slot;
    struct slotted_cell cell;
    *found = (struct found){.is_there = false};
    if (!slotted_search(leaf, page_size_bytes, key, &slot) ||
        !slotted_cell(leaf, page_size_bytes, slot, &cell))
        return;
    memcpy(to, cell.value.bytes, cell.value.size_bytes);
    found->is_there = true;
    found->is_external = cell.flags & SLOTTED_EXTERNAL;
    found->value = span_of(to, cell.value.size_bytes);
}

/* Look a key up in its leaf until the leaf has stood still meanwhile. */
static firn_rc look_up(struct btree *tree, struct span key, uint8_t *to, struct found *found)
{
    struct btree_target target = {.way = BTREE_WAY_KEY, .key = key};
    for (unsigned attempt = 0;; attempt++) {
        struct btree_node leaf;
        firn_rc rc = btree_descend(tree, &target, btree_wants_latches(tree, attempt), &leaf);
        if (rc == BTREE_AGAIN)
            continue;
        FIRN_TRY(rc);
        copy_out(leaf.page, tree->page_size_bytes, key, to, found);
        INJECT("btree-value-copied");
        bool valid = btree_node_valid(tree, &leaf);
        btree_node_close(tree, &leaf);
        if (valid)
            return FIRN_OK;
    }
}

firn_rc btree_read_value(struct btree *tree, struct span key, struct btree_bytes *buffer,
                         struct span *value)
{
    struct btree_chain_failure failure = {FIRN_OK, {0}};
    struct btree_reference reference;
    struct found found;
    firn_rc rc;
    FIRN_TRY(btree_bytes_reserve(buffer, tree->page_size_bytes));
    do {
        FIRN_TRY(look_up(tree, key, buffer->bytes, &found));
        if (!found.is_there)
            return FIRN_E_NOT_FOUND;
        if (!found.is_external) {
            *value = found.value;
            return FIRN_OK;
        }
        btree_reference_get(found.value, &reference);
        rc = btree_chain_read_seen(tree, &reference, buffer, &failure);
    } while (rc == BTREE_AGAIN);
    if (rc == FIRN_OK)
        *value = span_of(buffer->bytes, reference.size_bytes);
    return rc;
}

firn_rc btree_get(struct btree_session *session, struct btree *tree, struct span key,
                  struct span *value)
{
    FIRN_TRY(btree_check_key(tree, key));
    return btree_read_value(tree, key, &session->value, value);
}
