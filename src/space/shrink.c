/*
 * Files give their free end back.
 *
 * First page 0 says so, then a checkpoint leaves behind all that the log tells of the pages to go,
 * then the file is cut. A crash before the cut leaves a file that is longer than page 0 says. The
 * other way round recovery would find changes of pages that are no longer there.
 */
#include "space/space_internal.h"

#include "base/check.h"

/** A map's first extent has the map page in it, and may have nothing else. */
static bool is_unused(struct descriptor descriptor, bool first_of_map)
{
    return descriptor.owner == 0 && descriptor.bitmap == (first_of_map ? 2 : 0);
}

/**
 * Find the extents at the end that nobody uses, and count as if they were gone. The first one stays
 * in any case.
 *
 * @param last  set to the bitmap of the last extent that stays
 */
static firn_rc drop_unused(struct space_set *set, struct space *space, struct mtr *mtr,
                           struct space_head *head, uint64_t *last)
{
    uint32_t span = map_extents(set->options.page_size_bytes);
    struct mtr_page *map = NULL;
    while (true) {
        uint32_t extent = head->extents - 1;
        if (map == NULL)
            FIRN_TRY(extent_fix_map(set, mtr, space, extent, &map));
        struct descriptor descriptor = descriptor_get(map->bytes, extent % span);
        bool first_of_map = extent % span == 0;
        *last = descriptor.bitmap;
        if (extent == 0 || !is_unused(descriptor, first_of_map))
            break;
        head->extents--;
        if (first_of_map) {
            head->used--;
            head->shared_free -= SPACE_EXTENT_PAGES - 1;
            mtr_drop(mtr, map);
            map = NULL;
        } else {
            head->free_extents--;
        }
    }
    mtr_drop(mtr, map);
    return FIRN_OK;
}

/** @return how many pages the file needs. */
static uint32_t pages_needed(const struct space_head *head, uint64_t last)
{
    if (head->extents > 1)
        return head->extents * SPACE_EXTENT_PAGES;
    uint32_t needed = 64 - (uint32_t)__builtin_clzll(last);
    return needed > SPACE_PAGES_INITIAL ? needed : SPACE_PAGES_INITIAL;
}

/** Let page 0 say that the file is shorter; it is the mini-transaction's. */
static firn_rc shrink_head(struct space_set *set, struct space *space, struct mtr *mtr)
{
    struct mtr_page *page0;
    uint64_t last;
    FIRN_TRY(mtr_fix(mtr, page_id_of(space_id(space), 0), &page0));
    struct space_head head = head_get(page0->bytes);
    FIRN_TRY(drop_unused(set, space, mtr, &head, &last));
    uint32_t pages = pages_needed(&head, last);
    lock_take(&space->resize_mutex);
    bool grows = atomic_load_explicit(&space->claimed_pages, memory_order_relaxed) > head.pages;
    if (!grows)
        atomic_store_explicit(&space->claimed_pages, pages, memory_order_relaxed);
    lock_give(&space->resize_mutex);
    if (grows)
        return rc_raise(FIRN_E_BUSY, "%s is growing just now; try again later", space->path);
    uint32_t first_extent_pages = head.pages < SPACE_EXTENT_PAGES ? head.pages : SPACE_EXTENT_PAGES;
    if (pages < first_extent_pages)
        head.shared_free -= first_extent_pages - pages;
    head.pages = pages;
    head_store(set, space, mtr, page0, &head);
    extent_forget_hints(space);
    return FIRN_OK;
}

/** Leave behind all that the log tells up to an LSN. */
static firn_rc leave_behind(struct space_set *set, uint64_t lsn)
{
    FIRN_TRY(redo_flush(set->redo, lsn, REDO_FLUSH_SYNC));
    FIRN_TRY(buffer_flush(set->pool, lsn));
    FIRN_TRY(redo_checkpoint(set->redo, buffer_clean_lsn(set->pool)));
    if (redo_checkpoint_lsn(set->redo) < lsn)
        return rc_raise(FIRN_E_BUSY, "a file operation holds checkpoints back; try again later");
    return FIRN_OK;
}

void space_hold_sizes(struct space_set *set)
{
    lock_take(&set->mutex);
    set->size_holds++;
    lock_give(&set->mutex);
}

void space_release_sizes(struct space_set *set)
{
    lock_take(&set->mutex);
    set->size_holds--;
    lock_give(&set->mutex);
}

static firn_rc raise_held(const struct space *space)
{
    return rc_raise(FIRN_E_BUSY, "%s is being copied; its free end is given back later",
                    space->path);
}

/** Cut the file to what page 0 says, or may come to say meanwhile. */
static firn_rc cut_file(struct space_set *set, struct space *space, uint64_t *cut_pages)
{
    firn_rc rc = FIRN_OK;
    lock_take(&space->resize_mutex);
    uint32_t have = atomic_load_explicit(&space->file_pages, memory_order_relaxed);
    uint32_t pages = atomic_load_explicit(&space->claimed_pages, memory_order_relaxed);
    if (pages < have) {
        atomic_store_explicit(&space->file_pages, pages, memory_order_release);
        rc = io_file_set_size(space_file(space), (uint64_t)pages * set->options.page_size_bytes);
        if (rc != FIRN_OK)
            atomic_store_explicit(&space->file_pages, have, memory_order_release);
    }
    if (rc == FIRN_OK)
        *cut_pages = have - pages;
    lock_give(&space->resize_mutex);
    return rc;
}

/** The same, if nobody holds the sizes: who begins to, waits for the cut or forbids it. */
static firn_rc cut(struct space_set *set, struct space *space, uint64_t *cut_pages)
{
    lock_take(&set->mutex);
    firn_rc rc = set->size_holds != 0 ? raise_held(space) : cut_file(set, space, cut_pages);
    lock_give(&set->mutex);
    return rc;
}

static bool sizes_are_held(struct space_set *set)
{
    lock_take(&set->mutex);
    bool held = set->size_holds != 0;
    lock_give(&set->mutex);
    return held;
}

firn_rc space_shrink(struct space_set *set, struct mtr *mtr, uint32_t space, uint64_t *pages)
{
    struct space *found;
    uint64_t end_lsn;
    FIRN_TRY(lookup_require(set, space, &found));
    if (sizes_are_held(set))
        return raise_held(found);
    FIRN_TRY(mtr_begin(mtr, mtr_cost(2 + HEAD_COUNTER_BYTES)));
    firn_rc rc = shrink_head(set, found, mtr);
    if (rc != FIRN_OK) {
        mtr_abandon(mtr);
        return rc;
    }
    FIRN_TRY(mtr_commit(mtr, &end_lsn));
    FIRN_TRY(leave_behind(set, end_lsn));
    return cut(set, found, pages);
}
