/*
 * Splitting full nodes on the way of an insert.
 *
 * First everything is found out and latched that will change, from the leaf up as far as nodes are
 * full; then memory, log and pages are had; then it is done, and nothing of that can fail.
 */
#include "btree/btree_internal.h"

#include "base/check.h"
#include "base/inject.h"

enum {
    CHILD_BYTES = 4,
    PAGES_USUAL = 3, /* that a split takes: of the leaf, its parent, perhaps the root */
};

/* Of each level the node, its neighbour and a fresh one, and another fresh one of the root, which
 * has no neighbour; the register of limbo, the tablespace's own, the companion's. */
_Static_assert(3 * BTREE_HEIGHT_MAX + 1 + SPACE_MTR_PAGES + BTREE_COMPANION_PAGES <= MTR_PAGES_MAX,
               "a split of all levels");

/* One node that is split. */
struct split_level {
    struct buffer_frame *neighbour_pin; /* the sibling on the right, pinned; or NULL */
    struct mtr_page *neighbour;         /* and latched */
    struct mtr_page *left;              /* the node; where it is the root, a fresh page */
    struct mtr_page *right;             /* a fresh page */
    unsigned slot;                      /* where the new cell goes, as before the split */
    unsigned from;                      /* the first slot that goes to the right */
    bool goes_left;                     /* where the new cell goes */
    struct span separator;
};

struct split {
    struct btree_session *session;
    struct btree *tree;
    struct btree_write *write;
    struct btree_path path;
    bool replaces;    /* the cell takes the place of a smaller one */
    bool is_moot;     /* the decision no longer counts, or there is room by now */
    unsigned count;   /* levels that are split; the one above, if any, has room */
    size_t log_bytes; /* what a mini-transaction is begun with */
    struct split_level levels[BTREE_HEIGHT_MAX];
};

static bool is_root(const struct split *split, unsigned level)
{
    return level + 1 == split->path.height;
}

static uint32_t node_number(const struct split *split, unsigned level)
{
    return page_id_number(split->path.nodes[level].locked->page_id);
}

/* Pin the right-hand siblings of nodes that may be split: reading them under latches would make
 * everybody wait. */
static firn_rc pin_neighbours(struct split *split)
{
    uint32_t page_size_bytes = split->tree->page_size_bytes;
    size_t most =
        slotted_key_max(page_size_bytes) + SLOTTED_SLOT_BYTES + SLOTTED_VALUE_AT + CHILD_BYTES;
    for (unsigned level = 0; level + 1 < split->path.height; level++) {
        const uint8_t *page = split->path.nodes[level].page;
        uint32_t next = slotted_next(page);
        bool may_split = level == 0 || slotted_free_bytes(page, page_size_bytes) < most;
        if (!btree_path_still(&split->path, level))
            return BTREE_AGAIN;
        if (!split->path.frozen && !may_split)
            return FIRN_OK;
        if (next != PAGE_NONE)
            FIRN_TRY(btree_pin(split->tree, next, &split->levels[level].neighbour_pin));
    }
    return FIRN_OK;
}

static firn_rc lock_neighbour(struct split *split, unsigned level)
{
    struct split_level *at = &split->levels[level];
    if (at->neighbour != NULL)
        return FIRN_OK;
    uint32_t next = slotted_next(split->path.nodes[level].page);
    if (next == PAGE_NONE)
        return FIRN_OK;
    if (at->neighbour_pin == NULL || page_id_number(buffer_page_id(at->neighbour_pin)) != next)
        return BTREE_AGAIN;
    return btree_path_lock_pinned(&split->path, &at->neighbour_pin, &at->neighbour);
}

/* With the structure frozen latches are waited for, so all are taken, in their order. */
static firn_rc lock_all(struct split *split)
{
    for (unsigned level = split->path.height; level-- > 0;) {
        FIRN_TRY(btree_path_lock(&split->path, level));
        if (split->levels[level].neighbour_pin != NULL)
            FIRN_TRY(btree_path_lock_pinned(&split->path, &split->levels[level].neighbour_pin,
                                            &split->levels[level].neighbour));
    }
    return FIRN_OK;
}

/* See in the latched leaf what there is to do. */
static firn_rc look_at_leaf(struct split *split)
{
    const struct btree_write *write = split->write;
    uint32_t page_size_bytes = split->tree->page_size_bytes;
    const uint8_t *leaf = split->path.nodes[0].page;
    unsigned slot;
    if (!slotted_covers(leaf, page_size_bytes, write->key))
        return btree_raise_corrupt(split->tree, node_number(split, 0),
                                   "is not the leaf that its parent says it is");
    bool found = slotted_search(leaf, page_size_bytes, write->key, &slot);
    size_t cost = slotted_cost(leaf, write->key.size_bytes, write->cell_value.size_bytes);
    bool fits = found
                    ? slotted_can_update(leaf, page_size_bytes, slot, write->cell_value.size_bytes)
                    : cost <= slotted_free_bytes(leaf, page_size_bytes);
    split->replaces = found;
    split->levels[0].slot = slot;
    split->is_moot = fits || !btree_write_holds(split->session, write, leaf, slot, found);
    return split->is_moot ? BTREE_AGAIN : FIRN_OK;
}

/* The whole key of a slot, where the separator of a level is going to stand. */
static struct span key_of_slot(struct split *split, unsigned level, unsigned slot, uint8_t *to)
{
    return span_of(to, slotted_copy_key(split->path.nodes[level].page, split->tree->page_size_bytes,
                                        slot, to));
}

/*
 * The old cell that a larger one replaces stays beside it until it is overwritten, so both must go
 * to the same side.
 */
static void keep_together(struct split_level *at, unsigned count)
{
    if (at->slot != at->from)
        return;
    if (at->goes_left && at->slot + 1 < count)
        at->from++;
    else
        at->goes_left = false;
}

/* Choose where to split a latched node for a cell with this key, and its separator. */
static void choose_split(struct split *split, unsigned level, struct span key, size_t cost)
{
    struct split_level *at = &split->levels[level];
    uint32_t page_size_bytes = split->tree->page_size_bytes;
    const uint8_t *page = split->path.nodes[level].page;
    struct slotted_split chosen = slotted_split_slot(page, page_size_bytes, at->slot, cost);
    at->from = chosen.slot;
    at->goes_left = at->slot < chosen.slot || (at->slot == chosen.slot && chosen.new_goes_left);
    if (level == 0 && split->replaces)
        keep_together(at, slotted_count(page));

    struct btree_session *session = split->session;
    uint8_t *to = session->separators + level * slotted_key_max(page_size_bytes);
    bool new_is_first = !at->goes_left && at->slot == at->from;
    struct span first =
        new_is_first ? key : key_of_slot(split, level, at->from, session->packed.bytes);
    if (level > 0) {
        memcpy(to, first.bytes, first.size_bytes);
        at->separator = span_of(to, first.size_bytes);
        return;
    }
    bool new_is_last = at->goes_left && at->slot == at->from;
    struct span last = new_is_last ? key : key_of_slot(split, level, at->from - 1, session->fence);
    at->separator = span_of(to, slotted_separator(last, first, to));
}

/* From the leaf up, latch and plan until a node has room. */
static firn_rc plan(struct split *split)
{
    struct btree_path *path = &split->path;
    struct span key = split->write->key;
    size_t value_size_bytes = split->write->cell_value.size_bytes;
    for (unsigned level = 0; level < path->height; level++) {
        FIRN_TRY(btree_path_lock(path, level));
        if (level > 0) {
            split->levels[level].slot = path->nodes[level].slot + 1;
            value_size_bytes = CHILD_BYTES;
        }
        const uint8_t *page = path->nodes[level].page;
        size_t cost = slotted_cost(page, key.size_bytes, value_size_bytes);
        if (level > 0 && cost <= slotted_free_bytes(page, split->tree->page_size_bytes))
            return FIRN_OK;
        FIRN_TRY(lock_neighbour(split, level));
        choose_split(split, level, key, cost);
        key = split->levels[level].separator;
        split->count++;
    }
    if (path->height == BTREE_HEIGHT_MAX)
        return rc_raise(FIRN_E_NOSPACE,
                        "the index has %u levels, and no tree may have more: use larger pages or "
                        "shorter keys",
                        (unsigned)BTREE_HEIGHT_MAX);
    return FIRN_OK;
}

/* Reserve memory for cells on their way, and for the log of the changes to come. A log that is
 * nearly full wants to be asked before anything is latched: begin again, with what is needed. */
static firn_rc reserve_memory(struct split *split)
{
    struct btree_session *session = split->session;
    uint32_t page_size_bytes = split->tree->page_size_bytes;
    size_t key_max = slotted_key_max(page_size_bytes);
    size_t log_bytes =
        mtr_cost(slotted_cell_max(page_size_bytes)) + split->write->edit->companion_log_bytes;
    for (unsigned level = 0; level < split->count; level++) {
        const uint8_t *page = split->path.nodes[level].page;
        size_t packed = slotted_packed_bytes(page, page_size_bytes, 0, slotted_count(page));
        FIRN_TRY(btree_bytes_reserve(&session->packed, packed));
        /* Three nodes with two fences each, the cells that move, a sibling, two cells. */
        log_bytes += 3 * mtr_cost(2 * key_max) + mtr_cost(packed) + 2 * mtr_cost(0) +
                     2 * mtr_cost(slotted_cell_max(page_size_bytes)) + 2 * SPACE_LOG_MAX_BYTES;
    }
    firn_rc rc = mtr_reserve(&session->mtr, log_bytes);
    if (rc != FIRN_E_BUSY)
        return rc;
    split->log_bytes = log_bytes;
    return BTREE_AGAIN;
}

static void return_pages(struct split *split)
{
    for (unsigned level = 0; level < split->count; level++) {
        struct split_level *at = &split->levels[level];
        if (at->right != NULL)
            btree_return_page(split->session, split->tree->index_id, at->right);
        if (at->left != NULL)
            btree_return_page(split->session, split->tree->index_id, at->left);
    }
}

/* A decision about the key behind is made anew: the leaf on the right is latched, for it is going
 * to be changed. No other is waited for. */
static firn_rc confirm(struct split *split)
{
    struct btree_session *session = split->session;
    const struct split_level *at = &split->levels[0];
    const uint8_t *leaf = split->path.nodes[0].page;
    btree_place_enter(session, split->tree, leaf, at->slot + split->replaces);
    session->place.tries = true;
    session->place.right = at->neighbour != NULL ? at->neighbour->bytes : NULL;
    firn_rc rc = btree_write_confirm(session, split->write, leaf, at->slot, split->replaces);
    split->is_moot = rc == BTREE_AGAIN;
    return rc;
}

/* Memory, the register, pages, the companion: all that may fail. */
static firn_rc get_means(struct split *split)
{
    struct btree_session *session = split->session;
    struct btree *tree = split->tree;
    FIRN_TRY(reserve_memory(split));
    FIRN_TRY(btree_write_prepare(session, split->write));
    firn_rc rc = FIRN_OK;
    for (unsigned level = 0; level < split->count && rc == FIRN_OK; level++) {
        struct split_level *at = &split->levels[level];
        uint32_t near = node_number(split, level);
        rc = btree_fresh_page(session, tree->space, tree->index_id, near, &at->right);
        if (rc == FIRN_OK && is_root(split, level))
            rc = btree_fresh_page(session, tree->space, tree->index_id, near, &at->left);
    }
    if (rc == FIRN_OK) {
        rc = btree_write_accompany(session, split->write);
        split->is_moot = rc == BTREE_AGAIN;
    }
    if (rc != FIRN_OK)
        return_pages(split);
    return rc;
}

/* Fill a fresh node with cells [from, to) of another. */
static void move_cells(struct split *split, struct mtr_page *fresh, const uint8_t *source,
                       unsigned from, unsigned to, const struct slotted_bounds *bounds)
{
    struct btree_session *session = split->session;
    size_t packed =
        slotted_pack(source, split->tree->page_size_bytes, from, to, session->packed.bytes);
    mtr_index_init(&session->mtr, fresh, bounds);
    if (from < to)
        mtr_append_packed(&session->mtr, fresh, span_of(session->packed.bytes, packed));
}

/* The root stays where it is: both halves move to fresh pages below it. */
static void split_root(struct split *split, unsigned level)
{
    struct mtr *mtr = &split->session->mtr;
    struct split_level *at = &split->levels[level];
    struct mtr_page *root = split->path.nodes[level].locked;
    struct slotted_bounds bounds;
    slotted_bounds(root->bytes, split->tree->page_size_bytes, &bounds);
    struct slotted_bounds left = bounds;
    struct slotted_bounds right = bounds;
    left.upper = right.lower = at->separator;
    left.upper_is_open = false;
    left.next = page_id_number(at->right->page_id);
    right.prev = page_id_number(at->left->page_id);
    move_cells(split, at->left, root->bytes, 0, at->from, &left);
    move_cells(split, at->right, root->bytes, at->from, slotted_count(root->bytes), &right);
    bounds.level++;
    bounds.lower = bounds.upper = span_of(NULL, 0);
    mtr_index_init(mtr, root, &bounds);
    uint8_t child[CHILD_BYTES];
    put_u32(child, page_id_number(at->left->page_id));
    mtr_insert(mtr, root, 0, bounds.lower, span_of(child, sizeof child), 0);
    put_u32(child, page_id_number(at->right->page_id));
    mtr_insert(mtr, root, 1, at->separator, span_of(child, sizeof child), 0);
}

static void split_node(struct split *split, unsigned level)
{
    struct mtr *mtr = &split->session->mtr;
    struct split_level *at = &split->levels[level];
    struct mtr_page *node = split->path.nodes[level].locked;
    struct slotted_bounds bounds;
    slotted_bounds(node->bytes, split->tree->page_size_bytes, &bounds);
    struct slotted_bounds right = bounds;
    right.lower = at->separator;
    right.prev = page_id_number(node->page_id);
    move_cells(split, at->right, node->bytes, at->from, slotted_count(node->bytes), &right);
    if (at->neighbour != NULL)
        mtr_set_siblings(mtr, at->neighbour, page_id_number(at->right->page_id),
                         slotted_next(at->neighbour->bytes));
    memcpy(split->session->fence, bounds.lower.bytes, bounds.lower.size_bytes);
    bounds.lower.bytes = split->session->fence;
    bounds.upper = at->separator;
    bounds.upper_is_open = false;
    bounds.next = page_id_number(at->right->page_id);
    mtr_rebuild(mtr, node, 0, at->from, &bounds);
    at->left = node;
}

/* Put the new cell of a level where it goes. */
static void put_cell(struct split *split, unsigned level, struct span key, struct span value)
{
    struct mtr *mtr = &split->session->mtr;
    struct split_level *at = &split->levels[level];
    struct mtr_page *page = at->goes_left ? at->left : at->right;
    unsigned slot = at->goes_left ? at->slot : at->slot - at->from;
    unsigned flags = level == 0 ? split->write->cell_flags : 0;
    if (level == 0 && split->replaces)
        mtr_update(mtr, page, slot, value, flags);
    else
        mtr_insert(mtr, page, slot, key, value, flags);
}

/* From the leaf up; what stands above is told of each new page. */
static void carry_out(struct split *split)
{
    struct span key = split->write->key;
    struct span value = split->write->cell_value;
    uint8_t child[CHILD_BYTES];
    for (unsigned level = 0; level < split->count; level++) {
        struct split_level *at = &split->levels[level];
        bool root = is_root(split, level);
        if (root)
            split_root(split, level);
        else
            split_node(split, level);
        put_cell(split, level, key, value);
        INJECT("btree-split-level");
        key = at->separator;
        put_u32(child, page_id_number(at->right->page_id));
        value = span_of(child, sizeof child);
        btree_count(&split->tree->splits);
        if (root)
            return;
    }
    mtr_insert(&split->session->mtr, split->path.nodes[split->count].locked,
               split->levels[split->count].slot, key, value, 0);
}

static void unpin_neighbours(struct split *split)
{
    for (unsigned level = 0; level < BTREE_HEIGHT_MAX; level++)
        if (split->levels[level].neighbour_pin != NULL)
            buffer_unfix(split->tree->base.pool, split->levels[level].neighbour_pin, BUFFER_PIN);
}

static firn_rc try_split(struct split *split, unsigned attempt, uint64_t *end_lsn)
{
    struct btree_path *path = &split->path;
    split->count = 0;
    memset(split->levels, 0, sizeof split->levels);
    FIRN_TRY(btree_path_begin(split->session, split->tree, split->write->key, split->log_bytes,
                              attempt, path));
    firn_rc rc = pin_neighbours(split);
    INJECT("btree-split-before-latches");
    if (rc == FIRN_OK && path->frozen)
        rc = lock_all(split);
    if (rc == FIRN_OK)
        rc = btree_path_lock(path, 0);
    if (rc == FIRN_OK)
        rc = look_at_leaf(split);
    if (rc == FIRN_OK)
        rc = plan(split);
    if (rc == FIRN_OK)
        rc = confirm(split);
    if (rc == FIRN_OK)
        rc = get_means(split);
    if (rc == FIRN_OK) {
        carry_out(split);
        btree_write_chains(split->session, split->write);
        rc = btree_path_commit(path, end_lsn);
    } else {
        rc = btree_path_abandon(path, rc);
    }
    btree_place_leave(split->session);
    unpin_neighbours(split);
    return rc;
}

firn_rc btree_split(struct btree_session *session, struct btree *tree, struct btree_write *write,
                    uint64_t *end_lsn)
{
    struct split split = {.session = session,
                          .tree = tree,
                          .write = write,
                          .log_bytes = 4 * (size_t)tree->page_size_bytes};
    firn_rc rc = BTREE_AGAIN;
    btree_grow_ahead(session, tree->space, PAGES_USUAL);
    for (unsigned attempt = 0; rc == BTREE_AGAIN && !split.is_moot; attempt++)
        rc = try_split(&split, attempt, end_lsn);
    return rc;
}
