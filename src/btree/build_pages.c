/*
 * The pages of a bulk build: runs of them, linked to the right from the mini-transaction that
 * allocates them on, so that a level in limbo can be followed from its first page to its last.
 */
#include "btree/build_internal.h"

/* Latch what the pages to come are found from: the last page before them, or the register. */
static firn_rc lock_finder(struct btree_build *build, const struct build_level *level,
                           struct mtr_page **tail)
{
    if (level->tail == PAGE_NONE)
        return btree_claim_lock(build->session, &build->claim);
    return mtr_fix(&build->session->mtr, page_id_of(build->tree->space, level->tail), tail);
}

static void let_find(struct btree_build *build, unsigned which, struct mtr_page *tail,
                     uint32_t first)
{
    if (tail != NULL) {
        mtr_set_siblings(&build->session->mtr, tail, slotted_prev(tail->bytes), first);
        return;
    }
    struct btree_limbo_entry entry = {.kind = BTREE_LIMBO_LEVEL,
                                      .first_page = first,
                                      .page_count = BTREE_LIMBO_TO_END,
                                      .index_id = build->tree->index_id};
    btree_claim_set(build->session, &build->claim, which, &entry);
}

/* Initialise fresh pages as empty nodes that link to each other. */
static void link_run(struct btree_build *build, unsigned which, struct mtr_page **pages,
                     uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t page_no = page_id_number(pages[i]->page_id);
        struct slotted_bounds bounds = {.index_id = build->tree->index_id,
                                        .level = (uint16_t)which,
                                        .prev = PAGE_NONE,
                                        .next = i + 1 < count ? page_no + 1 : PAGE_NONE,
                                        .upper_is_open = true};
        mtr_index_init(&build->session->mtr, pages[i], &bounds);
    }
}

/* Runs grow from one page on, so that a small tree takes few. */
static uint32_t run_wanted(const struct build_level *level)
{
    uint32_t wanted = level->run_pages * 2;
    return wanted == 0 ? 1 : wanted < BUILD_RUN_PAGES ? wanted : BUILD_RUN_PAGES;
}

static firn_rc allocate_run(struct btree_build *build, unsigned which)
{
    struct btree *tree = build->tree;
    struct btree_session *session = build->session;
    struct build_level *level = &build->levels[which];
    struct mtr_page *pages[BUILD_RUN_PAGES];
    struct mtr_page *tail = NULL;
    uint32_t wanted = run_wanted(level);
    uint32_t near = level->tail != PAGE_NONE ? level->tail : tree->root_page;
    uint32_t got;
    btree_grow_ahead(session, tree->space, wanted);
    FIRN_TRY(mtr_begin(&session->mtr, wanted * mtr_cost(64) + mtr_cost(8) + btree_claim_cost() +
                                          2 * SPACE_LOG_MAX_BYTES));
    firn_rc rc = lock_finder(build, level, &tail);
    if (rc == FIRN_OK)
        rc = btree_fresh_run(session, tree->space, tree->index_id, near, wanted, pages, &got);
    if (rc != FIRN_OK)
        return btree_give_up(&session->mtr, rc);
    uint32_t first = page_id_number(pages[0]->page_id);
    let_find(build, which, tail, first);
    link_run(build, which, pages, got);
    level->tail = first + got - 1;
    level->next_in_run = first;
    level->left_in_run = got;
    level->run_pages = wanted;
    return mtr_commit(&session->mtr, NULL);
}

firn_rc build_take_page(struct btree_build *build, unsigned which, uint32_t *page_no)
{
    struct build_level *level = &build->levels[which];
    if (level->left_in_run == 0)
        FIRN_TRY(allocate_run(build, which));
    level->left_in_run--;
    *page_no = level->next_in_run++;
    return FIRN_OK;
}

firn_rc build_write_node(struct btree_build *build, unsigned which, struct slotted_bounds *bounds)
{
    struct build_level *level = &build->levels[which];
    struct mtr *mtr = &build->session->mtr;
    struct mtr_page *page;
    uint32_t page_no = level->page_no;
    FIRN_TRY(mtr_begin(mtr, mtr_cost(bounds->lower.size_bytes + bounds->upper.size_bytes + 64) +
                                mtr_cost(level->cells_bytes)));
    firn_rc rc = mtr_fix(mtr, page_id_of(build->tree->space, page_no), &page);
    if (rc != FIRN_OK) {
        mtr_abandon(mtr);
        return rc;
    }
    if (bounds->next == PAGE_NONE) /* the rest of the run is still found through this page */
        bounds->next = slotted_next(page->bytes);
    mtr_index_init(mtr, page, bounds);
    mtr_append_packed(mtr, page, span_of(level->cells, level->cells_bytes));
    return mtr_commit(mtr, NULL);
}

/* Unlink and free the page behind a level's last node. */
static firn_rc trim_page(struct btree_build *build, uint32_t last_no, uint32_t page_no)
{
    struct btree *tree = build->tree;
    struct mtr *mtr = &build->session->mtr;
    struct mtr_page *last;
    struct mtr_page *page;
    FIRN_TRY(mtr_begin(mtr, SPACE_LOG_MAX_BYTES + mtr_cost(8)));
    firn_rc rc = mtr_fix(mtr, page_id_of(tree->space, last_no), &last);
    if (rc == FIRN_OK)
        rc = mtr_fix(mtr, page_id_of(tree->space, page_no), &page);
    if (rc == FIRN_OK) {
        uint32_t next = slotted_next(page->bytes);
        rc = space_free(tree->base.spaces, mtr, page, tree->index_id);
        if (rc == FIRN_OK) {
            mtr_set_siblings(mtr, last, slotted_prev(last->bytes), next);
            return mtr_commit(mtr, NULL);
        }
    }
    mtr_abandon(mtr);
    return rc;
}

firn_rc build_trim_run(struct btree_build *build, unsigned which)
{
    struct build_level *level = &build->levels[which];
    for (; level->left_in_run > 0; level->left_in_run--)
        FIRN_TRY(trim_page(build, level->prev, level->next_in_run++));
    return FIRN_OK;
}
