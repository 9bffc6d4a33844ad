/*
 * Bulk build: bottom up, each node written once.
 *
 * Of each level one node is open, its cells packed in memory; when it is full it is written to its
 * page and its lower fence goes to the level above. Pages are allocated in runs, linked to the
 * right as they are allocated, and each level is in limbo from its first page on, as is the one
 * chain of all large values. The end is one mini-transaction: the highest level's only node goes to
 * the root's page, and what was in limbo belongs to the tree.
 */
#include "btree/build_internal.h"

#include "base/check.h"
#include "base/inject.h"
#include "base/memory.h"

static firn_rc add_cell(struct btree_build *build, unsigned level, struct span key,
                        struct span value, unsigned flags);

/* ---- Memory ---- */

static void free_level(struct build_level *level)
{
    memory_free(level->cells);
    memory_free(level->pending_value);
    memory_free(level->pending_key);
    memory_free(level->packed_key);
    memory_free(level->upper);
    memory_free(level->lower);
}

static firn_rc make_level(struct btree_build *build, struct build_level *level)
{
    uint32_t page_size_bytes = build->tree->page_size_bytes;
    size_t key_max = slotted_key_max(page_size_bytes);
    size_t cell_max = slotted_cell_max(page_size_bytes);
    *level = (struct build_level){.page_no = PAGE_NONE, .tail = PAGE_NONE, .prev = PAGE_NONE};
    level->lower = memory_alloc(key_max);
    level->upper = memory_alloc(key_max);
    level->packed_key = memory_alloc(key_max);
    level->pending_key = memory_alloc(key_max);
    level->pending_value = memory_alloc(cell_max);
    /* A node's cells take no more than a page, the first key's prefix, and the last cell, of which
     * it may turn out that it belongs to the next node. */
    level->cells = memory_alloc(page_size_bytes + key_max + cell_max + SLOTTED_PACKED_BYTES);
    if (level->lower != NULL && level->upper != NULL && level->packed_key != NULL &&
        level->pending_key != NULL && level->pending_value != NULL && level->cells != NULL)
        return FIRN_OK;
    free_level(level);
    return rc_raise(FIRN_E_NOMEM, "no memory for building an index");
}

static void free_build(struct btree_build *build)
{
    for (unsigned level = 0; level < build->height; level++)
        free_level(&build->levels[level]);
    memory_free(build);
}

/* ---- Beginning and giving up ---- */

/* Is the tree empty? */
static firn_rc check_empty(struct btree *tree)
{
    struct btree_target target = {.way = BTREE_WAY_KEY};
    struct btree_node leaf;
    FIRN_TRY(btree_descend(tree, &target, true, &leaf));
    bool empty = slotted_count(leaf.page) == 0 &&
                 page_id_number(buffer_page_id(leaf.latched)) == tree->root_page;
    btree_node_close(tree, &leaf);
    return empty ? FIRN_OK
                 : rc_raise(FIRN_E_EXISTS, "the index has rows: only an empty one can be built");
}

firn_rc btree_build_begin(struct btree_session *session, struct btree *tree, unsigned fill_percent,
                          struct btree_build **build)
{
    if (fill_percent < BUILD_FILL_MIN || fill_percent > 100)
        return rc_raise(FIRN_E_INVALID, "a page cannot be filled to %u percent: 50 to 100 can be",
                        fill_percent);
    FIRN_TRY(check_empty(tree));
    struct btree_build *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for building an index");
    made->session = session;
    made->tree = tree;
    made->fill_bytes = (size_t)tree->page_size_bytes * fill_percent / 100;
    made->blob_tail = PAGE_NONE;
    firn_rc rc = make_level(made, &made->levels[0]);
    if (rc == FIRN_OK) {
        made->height = 1;
        rc = btree_claim(session, tree->space, BUILD_ENTRIES, &made->claim);
    }
    if (rc != FIRN_OK) {
        free_build(made);
        return rc;
    }
    /* Release: before any page of the build can be seen. */
    atomic_fetch_add_explicit(&tree->builds, 1, memory_order_release);
    *build = made;
    return FIRN_OK;
}

void btree_build_abandon(struct btree_build *build)
{
    if (build == NULL)
        return;
    /* What cannot be freed now stays in limbo. */
    (void)btree_claim_end(build->session, &build->claim, BUILD_ENTRIES);
    free_build(build);
}

/* ---- Cells ---- */

static size_t shared_bytes(struct span left, struct span right)
{
    size_t limit = left.size_bytes < right.size_bytes ? left.size_bytes : right.size_bytes;
    size_t shared = 0;
    while (shared < limit && left.bytes[shared] == right.bytes[shared])
        shared++;
    return shared;
}

static struct span lower_fence(const struct build_level *level)
{
    return span_of(level->lower, level->lower_bytes);
}

static struct span pending_key(const struct build_level *level)
{
    return span_of(level->pending_key, level->pending_key_bytes);
}

/* Bytes of a page that the packed cells and one more would take below this upper fence. */
static size_t page_bytes(const struct build_level *level, struct span upper, size_t prefix_bytes,
                         size_t key_bytes, size_t value_bytes)
{
    size_t count = level->count + 1;
    return SLOTTED_SLOTS_AT + level->lower_bytes + upper.size_bytes +
           count * (SLOTTED_SLOT_BYTES + SLOTTED_VALUE_AT) + level->key_bytes + key_bytes -
           count * prefix_bytes + level->value_bytes + value_bytes;
}

/* Does the node have room for the pending cell, if it ends before this key (NULL: it is the last)?
 */
static bool pending_fits(const struct btree_build *build, const struct build_level *level,
                         const struct span *next)
{
    struct span upper = {NULL, 0};
    size_t prefix_bytes = 0;
    if (next != NULL) {
        upper = *next;
        prefix_bytes = shared_bytes(lower_fence(level), upper);
    }
    return page_bytes(level, upper, prefix_bytes, level->pending_key_bytes,
                      level->pending_value_bytes) <= build->tree->page_size_bytes;
}

static void pack_pending(struct build_level *level)
{
    struct span before = {level->packed_key, level->count > 0 ? level->packed_key_bytes : 0};
    level->cells_bytes += slotted_pack_cell(
        before, pending_key(level), span_of(level->pending_value, level->pending_value_bytes),
        level->pending_flags, level->cells + level->cells_bytes);
    level->count++;
    level->key_bytes += level->pending_key_bytes;
    level->value_bytes += level->pending_value_bytes;
    uint8_t *swapped = level->packed_key;
    level->packed_key = level->pending_key;
    level->packed_key_bytes = level->pending_key_bytes;
    level->pending_key = swapped;
    level->has_pending = false;
}

static void set_pending(struct build_level *level, struct span key, struct span value,
                        unsigned flags)
{
    if (key.size_bytes > 0)
        memcpy(level->pending_key, key.bytes, key.size_bytes);
    if (value.size_bytes > 0)
        memcpy(level->pending_value, value.bytes, value.size_bytes);
    level->pending_key_bytes = key.size_bytes;
    level->pending_value_bytes = value.size_bytes;
    level->pending_flags = flags;
    level->has_pending = true;
}

/* ---- Closing nodes ---- */

/* Tell the level above of a node. */
static firn_rc tell_above(struct btree_build *build, unsigned level, struct span lower,
                          uint32_t page_no)
{
    uint8_t child[4];
    put_u32(child, page_no);
    if (level + 1 == build->height) {
        if (build->height == BTREE_HEIGHT_MAX)
            return rc_raise(FIRN_E_NOSPACE, "the index would have more than %u levels",
                            (unsigned)BTREE_HEIGHT_MAX);
        FIRN_TRY(make_level(build, &build->levels[build->height]));
        build->height++;
    }
    return add_cell(build, level + 1, lower, span_of(child, sizeof child), 0);
}

/*
 * Write the open node, which ends before a key, and open the next.
 *
 * @param next  NULL: the level ends here
 */
static firn_rc close_node(struct btree_build *build, unsigned which, const struct span *next)
{
    struct build_level *level = &build->levels[which];
    uint32_t next_no = PAGE_NONE;
    struct slotted_bounds bounds = {.index_id = build->tree->index_id,
                                    .level = (uint16_t)which,
                                    .lower = lower_fence(level),
                                    .upper_is_open = next == NULL};
    if (level->page_no == PAGE_NONE)
        FIRN_TRY(build_take_page(build, which, &level->page_no));
    if (next != NULL) {
        FIRN_TRY(build_take_page(build, which, &next_no));
        size_t size_bytes = next->size_bytes;
        if (which > 0)
            memcpy(level->upper, next->bytes, size_bytes);
        else
            size_bytes = slotted_separator(span_of(level->packed_key, level->packed_key_bytes),
                                           *next, level->upper);
        bounds.upper = span_of(level->upper, size_bytes);
    }
    bounds.prev = level->prev;
    bounds.next = next_no;
    FIRN_TRY(build_write_node(build, which, &bounds));
    FIRN_TRY(tell_above(build, which, lower_fence(level), level->page_no));
    level->prev = level->page_no;
    level->page_no = next_no;
    level->cells_bytes = level->key_bytes = level->value_bytes = level->count = 0;
    uint8_t *swapped = level->lower;
    level->lower = level->upper;
    level->lower_bytes = bounds.upper.size_bytes;
    level->upper = swapped;
    return FIRN_OK;
}

/*
 * Take a cell into a level. The one before has been pending until now, for only now it is known
 * how long a prefix its node would have: fences may share less than the keys so far did.
 */
static firn_rc add_cell(struct btree_build *build, unsigned which, struct span key,
                        struct span value, unsigned flags)
{
    struct build_level *level = &build->levels[which];
    if (level->has_pending) {
        if (!pending_fits(build, level, &key)) {
            struct span pending = pending_key(level);
            FIRN_TRY(close_node(build, which, &pending));
        }
        pack_pending(level);
        size_t prefix_bytes = shared_bytes(lower_fence(level), key);
        if (page_bytes(level, key, prefix_bytes, key.size_bytes, value.size_bytes) >
            build->fill_bytes)
            FIRN_TRY(close_node(build, which, &key));
    }
    set_pending(level, key, value, flags);
    return FIRN_OK;
}

firn_rc btree_build_add(struct btree_build *build, struct span key, struct span value)
{
    struct btree *tree = build->tree;
    struct build_level *leaf = &build->levels[0];
    uint8_t cell[BTREE_CELL_MAX_BYTES];
    unsigned flags = 0;
    if (build->has_failed)
        return rc_raise(FIRN_E_MISUSE, "building the index has failed: abandon it");
    FIRN_TRY(btree_check_key(tree, key));
    if (leaf->has_pending && span_compare(pending_key(leaf), key) >= 0)
        return rc_raise(FIRN_E_INVALID,
                        "row %llu is not above the one before: an index is built in key order",
                        (unsigned long long)build->rows + 1);
    firn_rc rc = FIRN_OK;
    if (key.size_bytes + value.size_bytes > slotted_cell_max(tree->page_size_bytes)) {
        struct btree_reference reference;
        rc = btree_chain_write(build->session, tree, value, &build->claim, BUILD_BLOB_ENTRY,
                               &build->blob_tail, &reference);
        if (rc == FIRN_OK)
            value = btree_cell_put(tree, value, &reference, cell);
        flags = SLOTTED_EXTERNAL;
    }
    if (rc == FIRN_OK)
        rc = add_cell(build, 0, key, value, flags);
    build->has_failed = rc != FIRN_OK;
    build->rows++;
    return rc;
}

/* ---- Finishing ---- */

/* Write what is left of the levels, up to the one that has a single node. */
static firn_rc close_levels(struct btree_build *build, unsigned *top)
{
    for (unsigned which = 0;; which++) {
        struct build_level *level = &build->levels[which];
        if (level->has_pending) {
            if (!pending_fits(build, level, NULL)) {
                struct span pending = pending_key(level);
                FIRN_TRY(close_node(build, which, &pending));
            }
            pack_pending(level);
        }
        if (level->prev == PAGE_NONE) {
            *top = which;
            return FIRN_OK;
        }
        FIRN_TRY(close_node(build, which, NULL));
        FIRN_TRY(build_trim_run(build, which));
    }
}

/* The one mini-transaction that makes it all the tree's. */
static firn_rc publish(struct btree_build *build, unsigned top, uint64_t *end_lsn)
{
    static const struct btree_limbo_entry none = {.kind = BTREE_LIMBO_NONE};
    struct btree *tree = build->tree;
    struct btree_session *session = build->session;
    struct mtr *mtr = &session->mtr;
    struct build_level *level = &build->levels[top];
    struct mtr_page *root;
    struct slotted_bounds bounds = {.index_id = tree->index_id,
                                    .level = (uint16_t)top,
                                    .prev = PAGE_NONE,
                                    .next = PAGE_NONE,
                                    .upper_is_open = true};
    FIRN_TRY(mtr_begin(mtr, mtr_cost(64) + mtr_cost(level->cells_bytes) +
                                BUILD_ENTRIES * btree_claim_cost()));
    firn_rc rc = mtr_fix(mtr, tree->root_id, &root);
    if (rc == FIRN_OK && (slotted_level(root->bytes) != 0 || slotted_count(root->bytes) != 0))
        rc = rc_raise(FIRN_E_EXISTS, "rows were put into the index while it was built");
    if (rc == FIRN_OK)
        rc = btree_claim_lock(session, &build->claim);
    if (rc != FIRN_OK) {
        mtr_abandon(mtr);
        return rc;
    }
    mtr_index_init(mtr, root, &bounds);
    if (level->cells_bytes > 0)
        mtr_append_packed(mtr, root, span_of(level->cells, level->cells_bytes));
    for (unsigned i = 0; i < BUILD_ENTRIES; i++)
        btree_claim_set(session, &build->claim, i, &none);
    return mtr_commit(mtr, end_lsn);
}

firn_rc btree_build_finish(struct btree_build *build, uint64_t *end_lsn)
{
    unsigned top = 0;
    firn_rc rc = FIRN_OK;
    if (build->has_failed)
        rc = rc_raise(FIRN_E_MISUSE, "building the index has failed: abandon it");
    if (rc == FIRN_OK)
        rc = close_levels(build, &top);
    INJECT("btree-build-before-publish");
    if (rc == FIRN_OK) {
        /* The root's level changes: nobody is splitting or merging meanwhile. */
        lock_take_exclusive(&build->tree->structure);
        rc = publish(build, top, end_lsn);
        lock_give_rwlock(&build->tree->structure);
    }
    if (rc != FIRN_OK) {
        btree_build_abandon(build);
        return rc;
    }
    btree_claim_drop(build->session, &build->claim);
    free_build(build);
    return FIRN_OK;
}
