/*
 * Sessions and tree handles: making, opening, closing.
 */
#include "btree/btree_internal.h"

#include "base/check.h"
#include "base/memory.h"

firn_rc btree_bytes_reserve(struct btree_bytes *bytes, size_t size_bytes)
{
    if (size_bytes <= bytes->capacity_bytes)
        return FIRN_OK;
    /* The content is not kept: a copy of megabytes would be for nothing. */
    uint8_t *larger = memory_alloc(size_bytes);
    if (larger == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a value of %zu bytes", size_bytes);
    memory_free(bytes->bytes);
    *bytes = (struct btree_bytes){larger, size_bytes};
    return FIRN_OK;
}

firn_rc btree_session_open(const struct btree_base *base, struct btree_session **session)
{
    struct btree_session *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a session");
    uint32_t page_size_bytes = buffer_page_size(base->pool);
    size_t key_max = slotted_key_max(page_size_bytes);
    firn_rc rc;
    made->base = *base;
    made->page_size_bytes = page_size_bytes;
    made->place.missing = PAGE_NONE;
    mtr_init(&made->mtr, base->pool, base->redo);
    FIRN_TRY_GOTO(btree_bytes_reserve(&made->value, page_size_bytes), failed);
    FIRN_TRY_GOTO(btree_bytes_reserve(&made->packed, page_size_bytes + key_max), failed);
    made->old_cell = memory_alloc(slotted_cell_max(page_size_bytes));
    made->fence = memory_alloc(key_max);
    made->separators = memory_alloc(BTREE_HEIGHT_MAX * key_max);
    made->next_key = memory_alloc(key_max);
    if (made->old_cell == NULL || made->fence == NULL || made->separators == NULL ||
        made->next_key == NULL) {
        rc = rc_raise(FIRN_E_NOMEM, "no memory for a session");
        goto failed;
    }
    *session = made;
    return FIRN_OK;
failed:
    btree_session_close(made);
    return rc;
}

void btree_session_close(struct btree_session *session)
{
    if (session == NULL)
        return;
    memory_free(session->place.held);
    memory_free(session->next_key);
    memory_free(session->separators);
    memory_free(session->fence);
    memory_free(session->old_cell);
    memory_free(session->packed.bytes);
    memory_free(session->value.bytes);
    mtr_free(&session->mtr);
    memory_free(session);
}

struct mtr *btree_session_mtr(struct btree_session *session)
{
    return &session->mtr;
}

firn_rc btree_create(struct btree_session *session, uint32_t space, uint64_t index_id,
                     uint32_t *root_page)
{
    struct mtr *mtr = &session->mtr;
    struct slotted_bounds bounds = {
        .index_id = index_id, .prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};
    uint32_t page_no;
    FIRN_TRY(mtr_begin(mtr, mtr_cost(SPACE_LOG_MAX_BYTES) + mtr_cost(64)));
    struct mtr_page *root;
    firn_rc rc = btree_fresh_page(session, space, index_id, PAGE_NONE, &root);
    if (rc != FIRN_OK)
        return btree_give_up(mtr, rc);
    page_no = page_id_number(root->page_id);
    mtr_index_init(mtr, root, &bounds);
    FIRN_TRY(mtr_commit(mtr, NULL));
    *root_page = page_no;
    return FIRN_OK;
}

/* See that a page is the root of an index. */
static firn_rc check_root(struct btree *tree)
{
    struct buffer_frame *frame;
    firn_rc rc =
        buffer_fix(tree->base.pool, tree->root_id, BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame);
    if (rc != FIRN_OK)
        return btree_missing_page(tree, tree->root_page, rc);
    const uint8_t *page = buffer_page(tree->base.pool, frame);
    struct slotted_bounds bounds;
    slotted_bounds(page, tree->page_size_bytes, &bounds);
    if (!btree_is_node(tree, page) || bounds.level >= BTREE_HEIGHT_MAX ||
        bounds.lower.size_bytes != 0 || !bounds.upper_is_open || bounds.prev != PAGE_NONE ||
        bounds.next != PAGE_NONE)
        rc = btree_raise_corrupt(tree, tree->root_page, "is not its root");
    buffer_unfix(tree->base.pool, frame, BUFFER_SHARED);
    return rc;
}

/* Let a waiting writer pass before readers that come later, or it might wait for ever. */
static bool init_structure_lock(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attributes;
    if (pthread_rwlockattr_init(&attributes) != 0)
        return false;
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    bool done = pthread_rwlock_init(lock, &attributes) == 0;
    pthread_rwlockattr_destroy(&attributes);
    return done;
}

firn_rc btree_open(const struct btree_base *base, uint32_t space, uint32_t root_page,
                   uint64_t index_id, struct btree **tree)
{
    struct btree *made = memory_alloc_aligned(sizeof *made, BTREE_CACHE_LINE);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for an index");
    *made = (struct btree){
        .base = *base,
        .space = space,
        .root_page = root_page,
        .index_id = index_id,
        .root_id = page_id_of(space, root_page),
        .page_size_bytes = buffer_page_size(base->pool),
    };
    if (!init_structure_lock(&made->structure)) {
        memory_free(made);
        return rc_raise(FIRN_E_NOMEM, "no memory for an index's lock");
    }
    firn_rc rc = check_root(made);
    if (rc != FIRN_OK) {
        btree_close(made);
        return rc;
    }
    *tree = made;
    return FIRN_OK;
}

uint64_t btree_index_id(const struct btree *tree)
{
    return tree->index_id;
}

void btree_close(struct btree *tree)
{
    if (tree == NULL)
        return;
    pthread_rwlock_destroy(&tree->structure);
    memory_free(tree);
}

void btree_set_head(struct btree *tree, unsigned head_bytes)
{
    ENSURE(head_bytes <= BTREE_HEAD_MAX_BYTES);
    tree->head_bytes = head_bytes;
}

size_t btree_key_max(const struct btree *tree)
{
    return slotted_key_max(tree->page_size_bytes);
}

void btree_counters(struct btree *tree, struct btree_counters *counters)
{
    *counters = (struct btree_counters){
        .splits = atomic_load_explicit(&tree->splits, memory_order_relaxed),
        .merges = atomic_load_explicit(&tree->merges, memory_order_relaxed),
        .restarts = atomic_load_explicit(&tree->restarts, memory_order_relaxed),
        .latched_reads = atomic_load_explicit(&tree->latched_reads, memory_order_relaxed),
    };
}
