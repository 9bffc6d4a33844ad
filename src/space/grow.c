/*
 * Files grow ahead of demand.
 *
 * The file grows first, then page 0 says so. Growing is not synced, so after a crash the file may
 * be shorter than page 0 says; recovery then makes it longer. That it is longer than page 0 says is
 * always possible.
 */
#include "space/space_internal.h"

#include "base/check.h"

uint32_t grow_target(const struct space_set *set, uint32_t pages, uint32_t needed)
{
    uint64_t step = set->options.autoextend_bytes / set->options.page_size_bytes;
    if (step < SPACE_EXTENT_PAGES)
        step = SPACE_EXTENT_PAGES;
    uint64_t target = (uint64_t)pages + (pages < step ? pages : step);
    if (target < needed)
        target = needed;
    if (target > SPACE_EXTENT_PAGES)
        target += (SPACE_EXTENT_PAGES - target % SPACE_EXTENT_PAGES) % SPACE_EXTENT_PAGES;
    return target < SPACE_PAGES_MAX ? (uint32_t)target : SPACE_PAGES_MAX;
}

uint32_t grow_ahead_pages(const struct space_set *set, uint32_t pages)
{
    return (grow_target(set, pages, 0) - pages) / 8;
}

firn_rc grow_raise_largest(const struct space *space)
{
    return rc_raise(FIRN_E_NOSPACE, "%s has as many pages as a tablespace can have", space->path);
}

static firn_rc grow_locked(struct space_set *set, struct space *space, uint32_t pages)
{
    uint32_t have = atomic_load_explicit(&space->file_pages, memory_order_relaxed);
    uint64_t page_size = set->options.page_size_bytes;
    if (pages > have) {
        FIRN_TRY(io_file_allocate(space_file(space), have * page_size, (pages - have) * page_size));
        atomic_store_explicit(&space->file_pages, pages, memory_order_release);
        atomic_store_explicit(&space->full, false, memory_order_relaxed);
    }
    if (pages > atomic_load_explicit(&space->claimed_pages, memory_order_relaxed))
        atomic_store_explicit(&space->claimed_pages, pages, memory_order_relaxed);
    return FIRN_OK;
}

firn_rc grow_file(struct space_set *set, struct space *space, uint32_t pages)
{
    lock_take(&space->resize_mutex);
    firn_rc rc = grow_locked(set, space, pages);
    lock_give(&space->resize_mutex);
    return rc;
}

/** Let page 0 say that the file has grown. */
static firn_rc adopt_size(struct space_set *set, struct space *space)
{
    struct mtr mtr;
    struct mtr_page *page0;
    mtr_init(&mtr, set->pool, set->redo);
    firn_rc rc = mtr_begin(&mtr, mtr_cost(2 + HEAD_COUNTER_BYTES));
    if (rc != FIRN_OK)
        goto out;
    rc = mtr_fix(&mtr, page_id_of(space_id(space), 0), &page0);
    if (rc != FIRN_OK) {
        mtr_abandon(&mtr);
        goto out;
    }
    struct space_head head = head_get(page0->bytes);
    uint32_t pages = atomic_load_explicit(&space->claimed_pages, memory_order_relaxed);
    if (head.pages < pages) {
        head_grow(&head, pages);
        head_store(set, space, &mtr, page0, &head);
    }
    rc = mtr_commit(&mtr, NULL);
out:
    mtr_free(&mtr);
    return rc;
}

/** Grow so that `pages` are free, and a share more. */
static firn_rc grow_ahead(struct space_set *set, struct space *space, const struct space_head *head,
                          uint32_t pages)
{
    uint32_t available = head_available(head);
    uint64_t needed = head->pages + (uint64_t)(pages > available ? pages - available : 0);
    if (head->pages >= SPACE_EXTENT_PAGES)
        needed += SPACE_EXTENT_PAGES; /* the first extent of a new map is a shared one */
    if (needed > SPACE_PAGES_MAX && available < pages)
        return grow_raise_largest(space);
    uint32_t least =
        needed < SPACE_PAGES_MAX ? grow_target(set, 0, (uint32_t)needed) : SPACE_PAGES_MAX;
    firn_rc rc = grow_file(set, space, grow_target(set, head->pages, least));
    if (rc != FIRN_OK && available >= pages) {
        /* Nobody needs it yet, and who does will hear. */
        atomic_store_explicit(&space->full, true, memory_order_relaxed);
        head_publish(set, space, head);
        return FIRN_OK;
    }
    if (rc == FIRN_E_NOSPACE)
        rc = grow_file(set, space, least);
    return rc == FIRN_OK ? adopt_size(set, space) : rc;
}

firn_rc space_prepare(struct space_set *set, uint32_t space, uint32_t pages)
{
    struct space *found;
    struct space_head head;
    FIRN_TRY(lookup_require(set, space, &found));
    /* Hints that are read one by one: who allocates sees for himself, and grows the file if he
     * must. */
    uint64_t wanted = (uint64_t)atomic_load_explicit(&found->ahead, memory_order_relaxed) + pages;
    if (atomic_load_explicit(&found->available, memory_order_relaxed) >= wanted)
        return FIRN_OK;
    FIRN_TRY(head_load(set, found, &head));
    head_publish(set, found, &head);
    wanted = (uint64_t)atomic_load_explicit(&found->ahead, memory_order_relaxed) + pages;
    if (head_available(&head) >= wanted)
        return FIRN_OK;
    return grow_ahead(set, found, &head, pages);
}
