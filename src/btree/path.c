/*
 * The way down as those keep it who change the structure: which nodes, and their latches.
 *
 * Two kinds of attempt. The usual one looks optimistically and latches by trying: whatever order it
 * takes latches in, it never waits with one in its hands, so it cannot be part of a deadlock. After
 * several failures the structure is frozen: the lock that all usual attempts hold shared is taken
 * exclusively, so inner nodes and links stand still, and latches are waited for, from the root down
 * and from left to right.
 */
#include "btree/btree_internal.h"

#include "base/check.h"

firn_rc btree_fresh_page(struct btree_session *session, uint32_t space, uint64_t owner,
                         uint32_t near, struct mtr_page **page)
{
    struct mtr *mtr = &session->mtr;
    uint32_t page_no;
    FIRN_TRY(space_allocate(session->base.spaces, mtr, space, owner, near, &page_no));
    firn_rc rc = mtr_fix_new(mtr, page_id_of(space, page_no), page);
    if (rc != FIRN_OK)
        space_unallocate(session->base.spaces, mtr, space, owner, page_no, 1);
    return rc;
}

firn_rc btree_fresh_run(struct btree_session *session, uint32_t space, uint64_t owner,
                        uint32_t near, uint32_t wanted, struct mtr_page **pages, uint32_t *got)
{
    struct mtr *mtr = &session->mtr;
    uint32_t first;
    uint32_t count;
    FIRN_TRY(
        space_allocate_run(session->base.spaces, mtr, space, owner, near, wanted, &first, &count));
    for (uint32_t i = 0; i < count; i++) {
        firn_rc rc = mtr_fix_new(mtr, page_id_of(space, first + i), &pages[i]);
        if (rc == FIRN_OK)
            continue;
        while (i > 0)
            mtr_drop(mtr, pages[--i]);
        space_unallocate(session->base.spaces, mtr, space, owner, first, count);
        return rc;
    }
    *got = count;
    return FIRN_OK;
}

void btree_return_page(struct btree_session *session, uint64_t owner, struct mtr_page *page)
{
    uint64_t page_id = page->page_id;
    mtr_drop(&session->mtr, page);
    space_unallocate(session->base.spaces, &session->mtr, page_id_space(page_id), owner,
                     page_id_number(page_id), 1);
}

firn_rc btree_give_up(struct mtr *mtr, firn_rc rc)
{
    /* Allocations that were taken back have changed pages: a commit, even of nothing. */
    firn_rc committed = mtr_commit(mtr, NULL);
    return committed == FIRN_OK ? rc : committed;
}

firn_rc btree_pin(struct btree *tree, uint32_t page_no, struct buffer_frame **frame)
{
    return btree_missing_page(tree, page_no,
                              buffer_fix(tree->base.pool, page_id_of(tree->space, page_no),
                                         BUFFER_PIN, BUFFER_HINT_NORMAL, frame));
}

static void close_node(struct btree_path *path, struct btree_path_node *node)
{
    struct buffer_pool *pool = path->tree->base.pool;
    if (node->watched)
        buffer_view_close(pool, &node->view);
    if (node->pinned != NULL)
        buffer_unfix(pool, node->pinned, BUFFER_PIN);
    node->watched = false;
    node->pinned = NULL;
}

static void close_path(struct btree_path *path)
{
    for (unsigned level = 0; level < path->height; level++)
        close_node(path, &path->nodes[level]);
    lock_give_rwlock(&path->tree->structure);
}

firn_rc btree_path_abandon(struct btree_path *path, firn_rc rc)
{
    rc = btree_give_up(path->mtr, rc);
    close_path(path);
    return rc;
}

firn_rc btree_path_commit(struct btree_path *path, uint64_t *end_lsn)
{
    firn_rc rc = mtr_commit(path->mtr, end_lsn);
    close_path(path);
    return rc;
}

/* Look at a page: a pin is enough where the structure is frozen. */
static firn_rc open_node(struct btree_path *path, uint32_t page_no, struct btree_path_node *node)
{
    struct btree *tree = path->tree;
    uint64_t page_id = page_id_of(tree->space, page_no);
    *node = (struct btree_path_node){.page = NULL};
    if (!path->frozen && buffer_view_open(tree->base.pool, page_id, NULL, &node->view)) {
        node->page = node->view.page;
        node->watched = true;
        return FIRN_OK;
    }
    FIRN_TRY(btree_pin(tree, page_no, &node->pinned));
    node->page = buffer_page(tree->base.pool, node->pinned);
    if (path->frozen)
        return FIRN_OK;
    node->watched = buffer_view_open(tree->base.pool, page_id, node->pinned, &node->view);
    return node->watched ? FIRN_OK : BTREE_AGAIN;
}

bool btree_path_still(const struct btree_path *path, unsigned level)
{
    const struct btree_path_node *node = &path->nodes[level];
    return node->locked != NULL || path->frozen ||
           buffer_view_valid(path->tree->base.pool, &node->view);
}

/* What a node that does not look right means. */
static firn_rc judge_suspect(const struct btree_path *path, unsigned level, uint32_t page_no)
{
    if (!btree_path_still(path, level))
        return BTREE_AGAIN;
    return btree_raise_corrupt(path->tree, page_no, "is not the node that its parent says it is");
}

/* Fill the path from the root down; on failure what has been opened stays to be closed. */
static firn_rc go_down(struct btree_path *path, const struct btree_target *target)
{
    struct btree *tree = path->tree;
    struct btree_path_node root;
    uint32_t page_no = tree->root_page;
    firn_rc rc = open_node(path, page_no, &root);
    unsigned level = rc == FIRN_OK ? slotted_level(root.page) : 0;
    bool is_root = rc == FIRN_OK && btree_is_node(tree, root.page) && level < BTREE_HEIGHT_MAX;
    if (!is_root)
        level = 0; /* only to have a place where it is closed from */
    path->height = level + 1;
    for (unsigned below = 0; below < level; below++)
        path->nodes[below] = (struct btree_path_node){.page = NULL};
    path->nodes[level] = root;
    FIRN_TRY(rc);
    if (!is_root)
        return judge_suspect(path, level, page_no);
    for (; level > 0; level--) {
        struct btree_path_node *node = &path->nodes[level];
        struct btree_path_node *child = &path->nodes[level - 1];
        uint32_t child_no = btree_child_on_way(tree, node->page, target, &node->slot);
        if (child_no == PAGE_NONE || !btree_path_still(path, level))
            return judge_suspect(path, level, page_no);
        page_no = child_no;
        rc = open_node(path, page_no, child);
        if (!btree_path_still(path, level))
            return BTREE_AGAIN;
        FIRN_TRY(rc);
        if (!btree_is_node(tree, child->page) || slotted_level(child->page) != level - 1)
            return judge_suspect(path, level - 1, page_no);
    }
    return FIRN_OK;
}

firn_rc btree_path_begin(struct btree_session *session, struct btree *tree, struct span key,
                         size_t log_bytes, unsigned attempt, struct btree_path *path)
{
    struct btree_target target = {.way = BTREE_WAY_KEY, .key = key};
    path->tree = tree;
    path->mtr = &session->mtr;
    path->height = 0;
    path->frozen = btree_wants_latches(tree, attempt);
    /* Waiting for room in the log is done before anything is held that others may wait for. */
    FIRN_TRY(mtr_begin(&session->mtr, log_bytes));
    if (path->frozen)
        lock_take_exclusive(&tree->structure);
    else
        lock_take_shared(&tree->structure);
    firn_rc rc = go_down(path, &target);
    return rc == FIRN_OK ? rc : btree_path_abandon(path, rc);
}

/* The first latch of an attempt may be waited for: nothing is held, and the parent's view tells
 * afterwards whether it is still the right page. */
static firn_rc lock_first(struct btree_path *path)
{
    struct btree *tree = path->tree;
    struct buffer_pool *pool = tree->base.pool;
    struct btree_path_node *leaf = &path->nodes[0];
    uint64_t page_id = leaf->view.page_id;
    struct buffer_frame *frame;
    buffer_view_close(pool, &leaf->view);
    leaf->watched = false;
    FIRN_TRY(btree_missing_page(
        tree, page_id_number(page_id),
        buffer_fix(pool, page_id, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &frame)));
    leaf->page = buffer_page(pool, frame);
    bool still = path->height > 1
                     ? btree_path_still(path, 1)
                     : btree_is_node(tree, leaf->page) && slotted_level(leaf->page) == 0;
    if (!still) {
        buffer_unfix(pool, frame, BUFFER_EXCLUSIVE);
        return BTREE_AGAIN;
    }
    leaf->locked = mtr_take(path->mtr, frame);
    return FIRN_OK;
}

firn_rc btree_path_lock(struct btree_path *path, unsigned level)
{
    struct btree_path_node *node = &path->nodes[level];
    struct buffer_pool *pool = path->tree->base.pool;
    if (node->locked != NULL)
        return FIRN_OK;
    if (path->frozen)
        return btree_path_lock_pinned(path, &node->pinned, &node->locked);
    if (level == 0)
        return lock_first(path);
    ASSERT(node->watched);
    if (!buffer_view_upgrade(pool, &node->view))
        return BTREE_AGAIN;
    node->watched = false;
    node->locked = mtr_take(path->mtr, node->view.frame);
    return FIRN_OK;
}

firn_rc btree_path_lock_pinned(struct btree_path *path, struct buffer_frame **frame,
                               struct mtr_page **page)
{
    struct buffer_pool *pool = path->tree->base.pool;
    if (path->frozen)
        buffer_latch(pool, *frame, BUFFER_EXCLUSIVE);
    else if (!buffer_try_latch(pool, *frame, BUFFER_EXCLUSIVE))
        return BTREE_AGAIN;
    *page = mtr_take(path->mtr, *frame);
    *frame = NULL;
    return FIRN_OK;
}
