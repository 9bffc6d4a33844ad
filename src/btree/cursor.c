/*
 * Cursors: a copy of one leaf after the other.
 *
 * A copy is made of a leaf that stood still meanwhile, so all that it shows was there at one
 * moment. From one leaf to the next the fences lead: what follows a leaf's upper fence is looked
 * for, first where the leaf's link points, and if a leaf that begins at that fence does not stand
 * there (any more), from the root. So whatever splits and merges, no key is passed over or shown
 * twice.
 */
#include "base/inject.h"
#include "base/memory.h"
#include "btree/blob_internal.h"

struct btree_cursor {
    struct btree *tree;
    uint32_t page_size_bytes;
    int slot;             /* -1: before the first of the leaf; its count: behind the last */
    int count;            /* slots of the leaf */
    bool has_leaf;        /* false before the first seek and after a failure */
    unsigned long builds; /* the tree's, when the leaf was copied */
    uint8_t *leaf;
    uint8_t *key;
    uint8_t *fence; /* what the way to the next leaf goes by */
    struct btree_bytes value;
};

firn_rc btree_cursor_open(const struct btree_base *base, struct btree *tree,
                          struct btree_cursor **cursor)
{
    (void)base; /* the tree stands on the same */
    struct btree_cursor *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a cursor");
    size_t key_max = slotted_key_max(tree->page_size_bytes);
    made->tree = tree;
    made->page_size_bytes = tree->page_size_bytes;
    made->slot = -1;
    made->leaf = memory_alloc_aligned(tree->page_size_bytes, BTREE_CACHE_LINE);
    made->key = memory_alloc(key_max);
    made->fence = memory_alloc(key_max);
    if (made->leaf == NULL || made->key == NULL || made->fence == NULL) {
        btree_cursor_close(made);
        return rc_raise(FIRN_E_NOMEM, "no memory for a cursor");
    }
    *cursor = made;
    return FIRN_OK;
}

void btree_cursor_close(struct btree_cursor *cursor)
{
    if (cursor == NULL)
        return;
    memory_free(cursor->value.bytes);
    memory_free(cursor->fence);
    memory_free(cursor->key);
    memory_free(cursor->leaf);
    memory_free(cursor);
}

/* ---- Copying leaves ---- */

/* Copy a leaf that may be changing: it counts when keep_leaf says so. */
static void copy_leaf(struct btree_cursor *cursor, const uint8_t *page)
{
    cursor->has_leaf = false;
    cursor->count = 0;
    cursor->slot = -1;
    memcpy(cursor->leaf, page, cursor->page_size_bytes);
    INJECT("btree-leaf-copied");
}

static void keep_leaf(struct btree_cursor *cursor)
{
    cursor->has_leaf = true;
    cursor->count = (int)slotted_count(cursor->leaf);
}

/* Copy the leaf at the end of a way from the root. */
static firn_rc load(struct btree_cursor *cursor, enum btree_way way, struct span key)
{
    struct btree *tree = cursor->tree;
    struct btree_target target = {.way = way, .key = key, .hint = BUFFER_HINT_SCAN};
    cursor->has_leaf = false;
    cursor->count = 0;
    cursor->slot = -1;
    for (unsigned attempt = 0;; attempt++) {
        struct btree_node leaf;
        /* Acquire: before anything of the tree is read. */
        cursor->builds = atomic_load_explicit(&tree->builds, memory_order_acquire);
        firn_rc rc = btree_descend(tree, &target, btree_wants_latches(tree, attempt), &leaf);
        if (rc == BTREE_AGAIN)
            continue;
        FIRN_TRY(rc);
        copy_leaf(cursor, leaf.page);
        bool valid = btree_node_valid(tree, &leaf);
        btree_node_close(tree, &leaf);
        if (valid)
            break;
    }
    keep_leaf(cursor);
    return FIRN_OK;
}

/* Does a page, which may be changing or somebody else's, look like the leaf beside a fence? */
static bool is_beside(const struct btree_cursor *cursor, const uint8_t *page, bool forward,
                      struct span fence)
{
    struct slotted_bounds bounds;
    if (!btree_is_node(cursor->tree, page) || slotted_level(page) != 0)
        return false;
    slotted_bounds(page, cursor->page_size_bytes, &bounds);
    if (forward)
        return span_compare(bounds.lower, fence) == 0;
    return !bounds.upper_is_open && span_compare(bounds.upper, fence) == 0;
}

/*
 * Copy the leaf that a link leads to, if it is the one beside the fence. A leaf with the right
 * fence is the right one, however it came there: ranges do not overlap, and pages that are none of
 * the tree's are no leaves of it. Only a build has leaves that are not the tree's yet.
 */
static bool load_linked(struct btree_cursor *cursor, uint32_t page_no, bool forward,
                        struct span fence)
{
    struct btree *tree = cursor->tree;
    struct buffer_pool *pool = tree->base.pool;
    uint64_t page_id = page_id_of(tree->space, page_no);
    struct buffer_frame *pinned = NULL;
    struct buffer_view view;
    if (page_no == PAGE_NONE)
        return false;
    if (!buffer_view_open(pool, page_id, NULL, &view)) {
        /* Whatever is wrong with it, the way from the root will tell if it matters. */
        if (buffer_fix(pool, page_id, BUFFER_PIN, BUFFER_HINT_SCAN, &pinned) != FIRN_OK)
            return false;
        if (!buffer_view_open(pool, page_id, pinned, &view)) {
            buffer_unfix(pool, pinned, BUFFER_PIN);
            return false;
        }
    }
    bool good = is_beside(cursor, view.page, forward, fence);
    if (good) {
        copy_leaf(cursor, view.page);
        /* Relaxed: who saw a build's page sees that it has begun, for that came before. */
        good = buffer_view_valid(pool, &view) &&
               cursor->builds == atomic_load_explicit(&tree->builds, memory_order_relaxed);
    }
    buffer_view_close(pool, &view);
    if (pinned != NULL)
        buffer_unfix(pool, pinned, BUFFER_PIN);
    if (good)
        keep_leaf(cursor);
    return good;
}

/* Where a key, or the fence that was followed, stands in the copy: the first slot at or above. */
static int slot_of(const struct btree_cursor *cursor, struct span key, bool *equal)
{
    unsigned slot;
    *equal = false;
    if (!slotted_covers(cursor->leaf, cursor->page_size_bytes, key))
        return cursor->count; /* a way from above has led to the leaf below the key */
    *equal = slotted_search(cursor->leaf, cursor->page_size_bytes, key, &slot);
    return (int)slot;
}

/* Go on to the next leaf in a direction. FIRN_E_NOT_FOUND at the tree's end. */
static firn_rc load_beside(struct btree_cursor *cursor, bool forward)
{
    struct slotted_bounds bounds;
    bool equal;
    if (!cursor->has_leaf)
        return rc_raise(FIRN_E_MISUSE, "the cursor stands nowhere: seek first");
    slotted_bounds(cursor->leaf, cursor->page_size_bytes, &bounds);
    if (forward ? bounds.upper_is_open : bounds.lower.size_bytes == 0)
        return FIRN_E_NOT_FOUND;
    struct span fence = forward ? bounds.upper : bounds.lower;
    memcpy(cursor->fence, fence.bytes, fence.size_bytes);
    fence.bytes = cursor->fence;
    if (!load_linked(cursor, forward ? bounds.next : bounds.prev, forward, fence))
        FIRN_TRY(load(cursor, forward ? BTREE_WAY_KEY : BTREE_WAY_BELOW, fence));
    int slot = slot_of(cursor, fence, &equal);
    cursor->slot = forward ? slot : slot - 1;
    return FIRN_OK;
}

/* ---- Moving ---- */

/* From behind the copy's last row to the next row there is. */
static firn_rc settle_forward(struct btree_cursor *cursor)
{
    while (cursor->slot >= cursor->count) {
        firn_rc rc = load_beside(cursor, true);
        if (rc == FIRN_E_NOT_FOUND)
            cursor->slot = cursor->count;
        FIRN_TRY(rc);
    }
    return FIRN_OK;
}

static firn_rc settle_backward(struct btree_cursor *cursor)
{
    while (cursor->slot < 0) {
        firn_rc rc = load_beside(cursor, false);
        if (rc == FIRN_E_NOT_FOUND)
            cursor->slot = -1;
        FIRN_TRY(rc);
    }
    return FIRN_OK;
}

firn_rc btree_cursor_next(struct btree_cursor *cursor)
{
    if (cursor->slot < cursor->count)
        cursor->slot++;
    return cursor->slot < cursor->count ? FIRN_OK : settle_forward(cursor);
}

firn_rc btree_cursor_prev(struct btree_cursor *cursor)
{
    if (cursor->slot >= 0)
        cursor->slot--;
    return cursor->slot >= 0 ? FIRN_OK : settle_backward(cursor);
}

firn_rc btree_cursor_seek(struct btree_cursor *cursor, enum btree_seek seek, struct span key)
{
    bool equal;
    if (seek == BTREE_SEEK_LAST) {
        FIRN_TRY(load(cursor, BTREE_WAY_LAST, span_of(NULL, 0)));
        cursor->slot = cursor->count - 1;
        return settle_backward(cursor);
    }
    if (seek == BTREE_SEEK_FIRST)
        key = span_of(NULL, 0);
    FIRN_TRY(btree_check_key(cursor->tree, key));
    FIRN_TRY(load(cursor, BTREE_WAY_KEY, key));
    cursor->slot = slot_of(cursor, key, &equal);
    switch (seek) {
    case BTREE_SEEK_EXACT:
        return equal ? FIRN_OK : FIRN_E_NOT_FOUND;
    case BTREE_SEEK_AT_OR_BEFORE:
        cursor->slot -= !equal;
        return settle_backward(cursor);
    case BTREE_SEEK_BEFORE:
        cursor->slot--;
        return settle_backward(cursor);
    case BTREE_SEEK_AFTER:
        cursor->slot += equal;
        return settle_forward(cursor);
    default:
        return settle_forward(cursor);
    }
}

struct span btree_cursor_key(struct btree_cursor *cursor)
{
    size_t size_bytes = slotted_copy_key(cursor->leaf, cursor->page_size_bytes,
                                         (unsigned)cursor->slot, cursor->key);
    return span_of(cursor->key, size_bytes);
}

/* The cell under the cursor. Returns false if it stands on no row. */
static inline bool cell_here(const struct btree_cursor *cursor, struct slotted_cell *cell)
{
    return cursor->slot >= 0 &&
           slotted_cell(cursor->leaf, cursor->page_size_bytes, (unsigned)cursor->slot, cell);
}

static firn_rc raise_nowhere(void)
{
    return rc_raise(FIRN_E_MISUSE, "the cursor stands on no row: seek first");
}

firn_rc btree_cursor_cell(struct btree_cursor *cursor, struct btree_old *row)
{
    struct slotted_cell cell;
    if (!cell_here(cursor, &cell))
        return raise_nowhere();
    btree_show(cursor->tree, &cell, row);
    return FIRN_OK;
}

firn_rc btree_cursor_value(struct btree_cursor *cursor, struct span *value)
{
    struct slotted_cell cell;
    size_t size_bytes;
    if (!cell_here(cursor, &cell))
        return raise_nowhere();
    *value = cell.value;
    if (!(cell.flags & SLOTTED_EXTERNAL))
        return FIRN_OK;
    firn_rc rc = btree_chain_read(cursor->tree, cell.value, &cursor->value, &size_bytes);
    if (rc == FIRN_OK)
        *value = span_of(cursor->value.bytes, size_bytes);
    /* The leaf may refer to another one by now. */
    return rc == FIRN_OK
               ? rc
               : btree_read_value(cursor->tree, btree_cursor_key(cursor), &cursor->value, value);
}
