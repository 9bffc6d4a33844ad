/*
 * Giving pages back.
 *
 * A node that has become nearly empty is merged with a sibling of the same parent if both fit into
 * one page; a root with one child takes its place. As for splits, all is latched and had first, and
 * nothing fails afterwards.
 */
#include "btree/btree_internal.h"

#include "base/inject.h"

enum { CHILD_BYTES = 4 };

/* Pairs that look as if they fit into one page and do not: fences change the size of keys. */
enum refused { REFUSED_RIGHT = 1, REFUSED_LEFT = 2 };

/* What is going to be done in one mini-transaction. */
struct merge {
    struct btree_session *session;
    struct btree *tree;
    struct btree_path path;
    uint8_t refused[BTREE_HEIGHT_MAX];
    size_t log_bytes; /* what a mini-transaction is begun with */

    /* Found in one attempt. */
    bool is_moot;                 /* nothing to do */
    bool drops_root;              /* the root takes the place of its only child */
    bool with_right;              /* the node on the path is the left one of the two */
    bool keeps_right;             /* the left one is empty, and the right one takes its range */
    unsigned level;               /* of the two */
    unsigned left_slot;           /* of the left one in the parent; the right one's is behind it */
    struct buffer_frame *pin;     /* the sibling, pinned */
    struct buffer_frame *far_pin; /* the node whose link to the one that goes must change */
    struct mtr_page *left;
    struct mtr_page *right;
    struct mtr_page *far;
    struct slotted_bounds bounds; /* of what remains; fences in the session */
};

static size_t capacity(uint32_t page_size_bytes)
{
    return page_size_bytes - SLOTTED_SLOTS_AT;
}

/* What matters of a node. */
struct sketch {
    unsigned level;
    unsigned count;
    size_t used_bytes; /* by cells; fences, which may take a third of a page, do not count */
    uint32_t prev;
    uint32_t next;
};

static struct sketch sketch_of(const uint8_t *page, uint32_t page_size_bytes)
{
    struct slotted_bounds bounds;
    slotted_bounds(page, page_size_bytes, &bounds);
    size_t unused = slotted_free_bytes(page, page_size_bytes) + bounds.lower.size_bytes +
                    bounds.upper.size_bytes;
    size_t all = capacity(page_size_bytes);
    return (struct sketch){
        .level = bounds.level,
        .count = slotted_count(page),
        .used_bytes = unused < all ? all - unused : 0,
        .prev = bounds.prev,
        .next = bounds.next,
    };
}

/* A leaf without rows and an inner node with one child are of no use. */
static bool is_useless(const struct sketch *node)
{
    return node->count <= (node->level > 0);
}

/* A node is worth merging when less than a third of it is used. */
static bool is_underfull(const struct sketch *node, uint32_t page_size_bytes)
{
    return is_useless(node) || node->used_bytes < capacity(page_size_bytes) / 3;
}

bool btree_wants_merge(const uint8_t *leaf, uint32_t page_size_bytes, size_t free_before_bytes)
{
    /* Not at every deletion in a leaf whose siblings are too full: each time that another
     * sixteenth is free. */
    size_t grain = page_size_bytes / 16;
    size_t free_bytes = slotted_free_bytes(leaf, page_size_bytes);
    if (free_bytes <= free_before_bytes)
        return false;
    struct sketch sketch = sketch_of(leaf, page_size_bytes);
    return is_useless(&sketch) || (free_bytes / grain != free_before_bytes / grain &&
                                   is_underfull(&sketch, page_size_bytes));
}

/* ---- Finding something to do: by views, so it may turn out to be wrong ---- */

/* Sketch a pinned page under a latch that is waited for: nothing is held meanwhile. */
static struct sketch sketch_latched(struct merge *merge, struct buffer_frame *frame)
{
    struct buffer_pool *pool = merge->tree->base.pool;
    buffer_latch(pool, frame, BUFFER_SHARED);
    struct sketch sketch = sketch_of(buffer_page(pool, frame), merge->tree->page_size_bytes);
    buffer_unlatch(pool, frame, BUFFER_SHARED);
    return sketch;
}

static firn_rc sketch_node(struct merge *merge, unsigned level, struct sketch *sketch)
{
    const struct btree_path *path = &merge->path;
    if (path->frozen) {
        *sketch = sketch_latched(merge, path->nodes[level].pinned);
        return FIRN_OK;
    }
    *sketch = sketch_of(path->nodes[level].page, merge->tree->page_size_bytes);
    return btree_path_still(path, level) ? FIRN_OK : BTREE_AGAIN;
}

/* Pin a sibling and sketch it. */
static firn_rc sketch_sibling(struct merge *merge, uint32_t page_no, struct sketch *sketch)
{
    struct btree *tree = merge->tree;
    struct buffer_pool *pool = tree->base.pool;
    struct buffer_view view;
    FIRN_TRY(btree_pin(tree, page_no, &merge->pin));
    if (merge->path.frozen) {
        *sketch = sketch_latched(merge, merge->pin);
        return FIRN_OK;
    }
    if (!buffer_view_open(pool, page_id_of(tree->space, page_no), merge->pin, &view))
        return BTREE_AGAIN;
    *sketch = sketch_of(view.page, tree->page_size_bytes);
    bool valid = buffer_view_valid(pool, &view);
    buffer_view_close(pool, &view);
    return valid ? FIRN_OK : BTREE_AGAIN;
}

static void unpin(struct merge *merge, struct buffer_frame **pin)
{
    if (*pin != NULL)
        buffer_unfix(merge->tree->base.pool, *pin, BUFFER_PIN);
    *pin = NULL;
}

/* Both into one page, and not so full that the next insert splits it again; a useless node always
 * goes if it can. */
static bool look_mergeable(const struct merge *merge, const struct sketch *left,
                           const struct sketch *right)
{
    return is_useless(left) || is_useless(right) ||
           left->used_bytes + right->used_bytes <= capacity(merge->tree->page_size_bytes) / 5 * 4;
}

/* See whether a node can be merged with its sibling on one side, and pin what that needs. */
static firn_rc try_pair(struct merge *merge, unsigned level, const struct sketch *node,
                        bool with_right, bool *found)
{
    struct btree_path *path = &merge->path;
    const struct btree_path_node *parent = &path->nodes[level + 1];
    unsigned sibling_slot = with_right ? parent->slot + 1 : parent->slot - 1;
    uint32_t sibling_no =
        slotted_child_at(parent->page, merge->tree->page_size_bytes, sibling_slot);
    struct sketch sibling;
    if (!btree_path_still(path, level + 1))
        return BTREE_AGAIN;
    FIRN_TRY(sketch_sibling(merge, sibling_no, &sibling));
    const struct sketch *left = with_right ? node : &sibling;
    const struct sketch *right = with_right ? &sibling : node;
    *found = look_mergeable(merge, left, right);
    if (!*found) {
        unpin(merge, &merge->pin);
        return FIRN_OK;
    }
    merge->level = level;
    merge->with_right = with_right;
    merge->left_slot = with_right ? parent->slot : parent->slot - 1;
    merge->keeps_right = left->count == 0 && right->count > 0;
    uint32_t far_no = merge->keeps_right ? left->prev : right->next;
    return far_no == PAGE_NONE ? FIRN_OK : btree_pin(merge->tree, far_no, &merge->far_pin);
}

static firn_rc find_at_level(struct merge *merge, unsigned level, bool *found)
{
    const struct btree_path *path = &merge->path;
    const struct btree_path_node *parent = &path->nodes[level + 1];
    struct sketch node;
    FIRN_TRY(sketch_node(merge, level, &node));
    if (!is_underfull(&node, merge->tree->page_size_bytes))
        return FIRN_OK;
    if (parent->slot + 1 < slotted_count(parent->page) && !(merge->refused[level] & REFUSED_RIGHT))
        FIRN_TRY(try_pair(merge, level, &node, true, found));
    if (!*found && parent->slot > 0 && !(merge->refused[level] & REFUSED_LEFT))
        FIRN_TRY(try_pair(merge, level, &node, false, found));
    return FIRN_OK;
}

/* Look for something to do, from the leaf up. */
static firn_rc find_work(struct merge *merge)
{
    const struct btree_path *path = &merge->path;
    bool found = false;
    for (unsigned level = 0; level + 1 < path->height && !found; level++)
        FIRN_TRY(find_at_level(merge, level, &found));
    if (found)
        return FIRN_OK;
    merge->drops_root = path->height > 1 && slotted_count(path->nodes[path->height - 1].page) == 1;
    if (!btree_path_still(path, path->height - 1))
        return BTREE_AGAIN;
    merge->is_moot = !merge->drops_root;
    return merge->is_moot ? BTREE_AGAIN : FIRN_OK;
}

/* ---- Latching it ---- */

static firn_rc lock_far(struct merge *merge)
{
    return merge->far_pin == NULL
               ? FIRN_OK
               : btree_path_lock_pinned(&merge->path, &merge->far_pin, &merge->far);
}

/* The node on the path and its sibling, the left one first. */
static firn_rc lock_pair(struct merge *merge)
{
    struct btree_path *path = &merge->path;
    struct mtr_page *sibling;
    if (merge->with_right)
        FIRN_TRY(btree_path_lock(path, merge->level));
    FIRN_TRY(btree_path_lock_pinned(path, &merge->pin, &sibling));
    if (!merge->with_right)
        FIRN_TRY(btree_path_lock(path, merge->level));
    struct mtr_page *node = path->nodes[merge->level].locked;
    merge->left = merge->with_right ? node : sibling;
    merge->right = merge->with_right ? sibling : node;
    return FIRN_OK;
}

/* A frozen structure is waited for in the order of latches. Otherwise the leaf may be waited for,
 * so it is the first. */
static firn_rc lock_nodes(struct merge *merge)
{
    struct btree_path *path = &merge->path;
    unsigned parent = merge->drops_root ? path->height - 1 : merge->level + 1;
    if (path->frozen)
        FIRN_TRY(btree_path_lock(path, parent));
    else
        FIRN_TRY(btree_path_lock(path, parent - 1));
    if (merge->drops_root)
        return btree_path_lock(path, path->frozen ? parent - 1 : parent);
    if (merge->keeps_right)
        FIRN_TRY(lock_far(merge));
    FIRN_TRY(lock_pair(merge));
    if (!merge->keeps_right)
        FIRN_TRY(lock_far(merge));
    return btree_path_lock(path, parent);
}

/* Keep a fence where no page change reaches it. */
static struct span keep_fence(struct merge *merge, struct span fence, unsigned which)
{
    uint8_t *to =
        merge->session->separators + which * slotted_key_max(merge->tree->page_size_bytes);
    if (fence.size_bytes > 0)
        memcpy(to, fence.bytes, fence.size_bytes);
    return span_of(to, fence.size_bytes);
}

/* With everything latched, see that it is still as it looked and that it fits. */
static firn_rc judge_pair(struct merge *merge)
{
    uint32_t page_size_bytes = merge->tree->page_size_bytes;
    const uint8_t *left = merge->left->bytes;
    const uint8_t *right = merge->right->bytes;
    unsigned left_count = slotted_count(left);
    uint32_t far_no = merge->keeps_right ? slotted_prev(left) : slotted_next(right);
    uint32_t locked_no = merge->far != NULL ? page_id_number(merge->far->page_id) : PAGE_NONE;
    if (far_no != locked_no || (merge->keeps_right && left_count > 0))
        return BTREE_AGAIN;
    struct slotted_bounds upper;
    slotted_bounds(left, page_size_bytes, &merge->bounds);
    slotted_bounds(right, page_size_bytes, &upper);
    merge->bounds.next = upper.next;
    merge->bounds.upper = keep_fence(merge, upper.upper, 1);
    merge->bounds.upper_is_open = upper.upper_is_open;
    merge->bounds.lower = keep_fence(merge, merge->bounds.lower, 0);
    size_t used = slotted_cells_bytes(left, page_size_bytes, 0, left_count, &merge->bounds);
    if (slotted_fits(right, page_size_bytes, 0, slotted_count(right), &merge->bounds, used))
        return FIRN_OK;
    merge->refused[merge->level] |= merge->with_right ? REFUSED_RIGHT : REFUSED_LEFT;
    return BTREE_AGAIN;
}

/* ---- Doing it ---- */

/* Memory and log, and the cells of the node that goes; then let it go, the last that may fail. */
static firn_rc let_go(struct merge *merge, struct mtr_page *page, size_t *packed_bytes)
{
    struct btree_session *session = merge->session;
    uint32_t page_size_bytes = merge->tree->page_size_bytes;
    unsigned count = slotted_count(page->bytes);
    size_t packed = slotted_packed_bytes(page->bytes, page_size_bytes, 0, count);
    size_t log_bytes = mtr_cost(packed) + mtr_cost(2 * slotted_key_max(page_size_bytes)) +
                       4 * mtr_cost(CHILD_BYTES) + SPACE_LOG_MAX_BYTES;
    FIRN_TRY(btree_bytes_reserve(&session->packed, packed));
    firn_rc rc = mtr_reserve(&session->mtr, log_bytes);
    if (rc == FIRN_E_BUSY) {
        merge->log_bytes = log_bytes;
        return BTREE_AGAIN;
    }
    FIRN_TRY(rc);
    *packed_bytes = slotted_pack(page->bytes, page_size_bytes, 0, count, session->packed.bytes);
    return space_free(session->base.spaces, &session->mtr, page, merge->tree->index_id);
}

static void append(struct merge *merge, struct mtr_page *page, size_t packed_bytes)
{
    struct btree_session *session = merge->session;
    if (packed_bytes > 0)
        mtr_append_packed(&session->mtr, page, span_of(session->packed.bytes, packed_bytes));
}

static firn_rc drop_root(struct merge *merge)
{
    struct btree_path *path = &merge->path;
    struct mtr_page *root = path->nodes[path->height - 1].locked;
    struct mtr_page *child = path->nodes[path->height - 2].locked;
    size_t packed_bytes;
    slotted_bounds(child->bytes, merge->tree->page_size_bytes, &merge->bounds);
    FIRN_TRY(let_go(merge, child, &packed_bytes));
    merge->bounds.lower = merge->bounds.upper = span_of(NULL, 0);
    mtr_index_init(path->mtr, root, &merge->bounds);
    append(merge, root, packed_bytes);
    return FIRN_OK;
}

/* The right node's cells go to the left one. */
static firn_rc merge_left(struct merge *merge)
{
    struct mtr *mtr = merge->path.mtr;
    struct mtr_page *left = merge->left;
    struct mtr_page *parent = merge->path.nodes[merge->level + 1].locked;
    size_t packed_bytes;
    FIRN_TRY(let_go(merge, merge->right, &packed_bytes));
    mtr_rebuild(mtr, left, 0, slotted_count(left->bytes), &merge->bounds);
    append(merge, left, packed_bytes);
    mtr_delete(mtr, parent, merge->left_slot + 1);
    if (merge->far != NULL)
        mtr_set_siblings(mtr, merge->far, page_id_number(left->page_id),
                         slotted_next(merge->far->bytes));
    return FIRN_OK;
}

/* The left node is empty: the right one takes its range, so that no cell moves. */
static firn_rc merge_right(struct merge *merge)
{
    struct mtr *mtr = merge->path.mtr;
    struct mtr_page *right = merge->right;
    struct mtr_page *parent = merge->path.nodes[merge->level + 1].locked;
    size_t packed_bytes;
    uint8_t child[CHILD_BYTES];
    FIRN_TRY(let_go(merge, merge->left, &packed_bytes));
    mtr_rebuild(mtr, right, 0, slotted_count(right->bytes), &merge->bounds);
    put_u32(child, page_id_number(right->page_id));
    mtr_update(mtr, parent, merge->left_slot, span_of(child, sizeof child), 0);
    mtr_delete(mtr, parent, merge->left_slot + 1);
    if (merge->far != NULL)
        mtr_set_siblings(mtr, merge->far, slotted_prev(merge->far->bytes),
                         page_id_number(right->page_id));
    return FIRN_OK;
}

static firn_rc carry_out(struct merge *merge)
{
    if (merge->drops_root)
        return drop_root(merge);
    FIRN_TRY(judge_pair(merge));
    return merge->keeps_right ? merge_right(merge) : merge_left(merge);
}

static firn_rc try_merge(struct merge *merge, struct span key, unsigned attempt)
{
    struct btree_path *path = &merge->path;
    merge->is_moot = merge->drops_root = false;
    merge->pin = merge->far_pin = NULL;
    merge->far = NULL;
    FIRN_TRY(btree_path_begin(merge->session, merge->tree, key, merge->log_bytes, attempt, path));
    firn_rc rc = find_work(merge);
    INJECT("btree-merge-before-latches");
    if (rc == FIRN_OK)
        rc = lock_nodes(merge);
    if (rc == FIRN_OK)
        rc = carry_out(merge);
    if (rc == FIRN_OK)
        rc = btree_path_commit(path, NULL);
    else
        rc = btree_path_abandon(path, rc);
    unpin(merge, &merge->pin);
    unpin(merge, &merge->far_pin);
    if (rc == FIRN_OK)
        btree_count(&merge->tree->merges);
    return rc;
}

firn_rc btree_rebalance(struct btree_session *session, struct btree *tree, struct span key)
{
    struct merge merge = {
        .session = session, .tree = tree, .log_bytes = 2 * (size_t)tree->page_size_bytes};
    unsigned attempt = 0;
    for (;;) {
        firn_rc rc = try_merge(&merge, key, attempt);
        if (merge.is_moot)
            return FIRN_OK;
        if (rc != FIRN_OK && rc != BTREE_AGAIN)
            return rc;
        /* Each round that succeeds gives a page back. */
        attempt = rc == FIRN_OK ? 0 : attempt + 1;
    }
}
