/*
 * Going down the tree, for readers and for writers of single leaves.
 *
 * Optimistic lock coupling (Leis, Haubenschild, Neumann, "Optimistic Lock Coupling", 2019): look at
 * the child, then see that the parent has stood still; so the child was the right one when the look
 * at it began, and whatever happens to it later shows in its own version.
 */
#include "btree/btree_internal.h"

#include "base/inject.h"

#include <inttypes.h>

firn_rc btree_raise_corrupt(const struct btree *tree, uint32_t page_no, const char *what)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "page %" PRIu32 " of tablespace %" PRIu32 ", in index %" PRIu64
                    ", %s: check the environment and restore it from a backup",
                    page_no, tree->space, tree->index_id, what);
}

firn_rc btree_missing_page(const struct btree *tree, uint32_t page_no, firn_rc rc)
{
    return rc == FIRN_E_NOT_FOUND
               ? btree_raise_corrupt(tree, page_no, "is referred to but does not exist")
               : rc;
}

firn_rc btree_check_key(const struct btree *tree, struct span key)
{
    size_t limit = slotted_key_max(tree->page_size_bytes);
    if (key.size_bytes <= limit)
        return FIRN_OK;
    return rc_raise(FIRN_E_INVALID,
                    "a key of %zu bytes is too long: pages of %" PRIu32 " bytes take %zu at most",
                    key.size_bytes, tree->page_size_bytes, limit);
}

/* Have a node's slots on their way before they are searched: a search touches several lines, each
 * of which it would wait for alone. */
static inline void prefetch_slots(const uint8_t *page)
{
    enum { SLOT_LINES = 16 }; /* a kilobyte: the slots of a leaf of usual rows */
#pragma GCC unroll 16
    for (unsigned line = 0; line < SLOT_LINES; line++)
        __builtin_prefetch(page + (size_t)line * BTREE_CACHE_LINE);
}

void btree_node_close(const struct btree *tree, struct btree_node *node)
{
    struct buffer_pool *pool = tree->base.pool;
    if (node->latched != NULL)
        buffer_unfix(pool, node->latched, BUFFER_SHARED);
    else
        buffer_view_close(pool, &node->view);
    if (node->pinned != NULL)
        buffer_unfix(pool, node->pinned, BUFFER_PIN);
}

/* Look at a page that no view could be opened of: it is not in the pool, or a writer has it. */
static firn_rc enter_slowly(struct btree *tree, uint64_t page_id, bool latched,
                            enum buffer_hint hint, struct btree_node *node)
{
    struct buffer_pool *pool = tree->base.pool;
    *node = (struct btree_node){.page = NULL};
    if (latched) {
        FIRN_TRY(buffer_fix(pool, page_id, BUFFER_SHARED, hint, &node->latched));
        node->page = buffer_page(pool, node->latched);
        return FIRN_OK;
    }
    FIRN_TRY(buffer_fix(pool, page_id, BUFFER_PIN, hint, &node->pinned));
    if (!buffer_view_open(pool, page_id, node->pinned, &node->view)) {
        buffer_unfix(pool, node->pinned, BUFFER_PIN);
        return BTREE_AGAIN;
    }
    node->page = node->view.page;
    return FIRN_OK;
}

/* Look at a page optimistically if it is there. */
static inline bool enter_quickly(struct btree *tree, uint64_t page_id,
                                 struct buffer_frame *hint_frame, struct btree_node *node)
{
    if (!buffer_view_open(tree->base.pool, page_id, hint_frame, &node->view))
        return false;
    node->page = node->view.page;
    node->pinned = NULL;
    node->latched = NULL;
    return true;
}

static firn_rc enter_root(struct btree *tree, bool latched, struct btree_node *node)
{
    /* Relaxed: a frame is only a guess, and frames are never freed while the pool is. */
    struct buffer_frame *guess = atomic_load_explicit(&tree->root_frame, memory_order_relaxed);
    if (latched || !enter_quickly(tree, tree->root_id, guess, node)) {
        firn_rc rc = enter_slowly(tree, tree->root_id, latched, BUFFER_HINT_NORMAL, node);
        if (rc != FIRN_OK)
            return rc == BTREE_AGAIN ? rc : btree_missing_page(tree, tree->root_page, rc);
    }
    struct buffer_frame *frame = latched ? node->latched : node->view.frame;
    if (frame != guess)
        atomic_store_explicit(&tree->root_frame, frame, memory_order_relaxed);
    return FIRN_OK;
}

/* A node does not look like what its parent promised: because it is changing, or because it is
 * damaged. */
static firn_rc leave_suspect(struct btree *tree, struct btree_node *node)
{
    bool valid = btree_node_valid(tree, node);
    uint32_t page_no = page_number(node->page);
    uint32_t expected =
        page_id_number(node->latched != NULL ? buffer_page_id(node->latched) : node->view.page_id);
    btree_node_close(tree, node);
    if (!valid)
        return BTREE_AGAIN;
    return btree_raise_corrupt(tree, expected,
                               page_no == expected ? "is not the node that its parent says it is"
                                                   : "holds another page");
}

uint32_t btree_child_on_way(const struct btree *tree, const uint8_t *page,
                            const struct btree_target *target, unsigned *slot)
{
    uint32_t size_bytes = tree->page_size_bytes;
    if (target->way == BTREE_WAY_KEY)
        return slotted_child(page, size_bytes, target->key, slot);
    unsigned behind = slotted_count(page);
    if (target->way == BTREE_WAY_BELOW)
        slotted_search(page, size_bytes, target->key, &behind);
    *slot = behind > 0 ? behind - 1 : 0;
    return slotted_child_at(page, size_bytes, *slot);
}

/* Go one level down: open the child, see that the parent stood still, close the parent. */
static firn_rc enter_child(struct btree *tree, const struct btree_target *target, bool latched,
                           struct btree_node *node)
{
    unsigned slot;
    uint32_t child_no = btree_child_on_way(tree, node->page, target, &slot);
    if (child_no == PAGE_NONE)
        return leave_suspect(tree, node);
    struct btree_node child;
    uint64_t child_id = page_id_of(tree->space, child_no);
    firn_rc rc = FIRN_OK;
    INJECT("btree-child-chosen");
    if (latched || !enter_quickly(tree, child_id, NULL, &child)) {
        /* What a changing node names is not worth a read. */
        rc = btree_node_valid(tree, node)
                 ? enter_slowly(tree, child_id, latched, target->hint, &child)
                 : BTREE_AGAIN;
    }
    if (rc == FIRN_OK)
        prefetch_slots(child.page);
    bool valid = btree_node_valid(tree, node);
    btree_node_close(tree, node);
    if (valid) {
        if (rc == FIRN_OK)
            *node = child;
        return rc == BTREE_AGAIN ? rc : btree_missing_page(tree, child_no, rc);
    }
    if (rc == FIRN_OK)
        btree_node_close(tree, &child);
    return BTREE_AGAIN;
}

firn_rc btree_descend(struct btree *tree, const struct btree_target *target, bool latched,
                      struct btree_node *node)
{
    if (latched)
        btree_count(&tree->latched_reads);
    struct btree_node at;
    FIRN_TRY(enter_root(tree, latched, &at));
    unsigned level = slotted_level(at.page);
    if (!btree_is_node(tree, at.page) || level >= BTREE_HEIGHT_MAX)
        return leave_suspect(tree, &at);
    while (level > target->level) {
        FIRN_TRY(enter_child(tree, target, latched, &at));
        level--;
        if (!btree_is_node(tree, at.page) || slotted_level(at.page) != level)
            return leave_suspect(tree, &at);
    }
    *node = at;
    return FIRN_OK;
}

/* Latch the leaf under a node that has been reached, or the root that is a leaf; the node is closed
 * in any case. */
static firn_rc latch_below(struct btree *tree, const struct btree_target *target,
                           struct btree_node *above, enum buffer_mode mode,
                           struct buffer_frame **frame)
{
    struct buffer_pool *pool = tree->base.pool;
    unsigned slot;
    uint32_t page_no = tree->root_page;
    bool is_root = slotted_level(above->page) == 0;
    if (!is_root)
        page_no = btree_child_on_way(tree, above->page, target, &slot);
    if (page_no == PAGE_NONE)
        return leave_suspect(tree, above);
    if (!btree_node_valid(tree, above)) {
        btree_node_close(tree, above);
        return BTREE_AGAIN;
    }
    INJECT("btree-leaf-found");
    if (is_root) /* the same page cannot be latched twice */
        btree_node_close(tree, above);
    firn_rc rc = buffer_fix(pool, page_id_of(tree->space, page_no), mode, target->hint, frame);
    bool valid = is_root || btree_node_valid(tree, above);
    if (!is_root)
        btree_node_close(tree, above);
    if (rc == FIRN_OK) {
        const uint8_t *page = buffer_page(pool, *frame);
        prefetch_slots(page);
        if (valid && is_root)
            valid = btree_is_node(tree, page) && slotted_level(page) == 0;
        if (!valid)
            buffer_unfix(pool, *frame, mode);
    }
    if (!valid)
        return BTREE_AGAIN;
    return btree_missing_page(tree, page_no, rc);
}

firn_rc btree_latch_leaf(struct btree *tree, struct span key, enum buffer_mode mode,
                         struct buffer_frame **frame)
{
    struct btree_target target = {.way = BTREE_WAY_KEY, .key = key, .level = 1};
    struct buffer_frame *latched;
    firn_rc rc = BTREE_AGAIN;
    for (unsigned attempt = 0; rc == BTREE_AGAIN; attempt++) {
        struct btree_node above;
        rc = btree_descend(tree, &target, btree_wants_latches(tree, attempt), &above);
        if (rc == FIRN_OK)
            rc = latch_below(tree, &target, &above, mode, &latched);
    }
    FIRN_TRY(rc);
    const uint8_t *page = buffer_page(tree->base.pool, latched);
    if (!btree_is_node(tree, page) || slotted_level(page) != 0 ||
        !slotted_covers(page, tree->page_size_bytes, key)) {
        rc = btree_raise_corrupt(tree, page_id_number(buffer_page_id(latched)),
                                 "is not the leaf that its parent says it is");
        buffer_unfix(tree->base.pool, latched, mode);
        return rc;
    }
    *frame = latched;
    return FIRN_OK;
}
