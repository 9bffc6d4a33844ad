#include "space/space_internal.h"

firn_rc head_load(struct space_set *set, struct space *space, struct space_head *head)
{
    struct buffer_frame *frame;
    FIRN_TRY(buffer_fix(set->pool, page_id_of(space_id(space), 0), BUFFER_SHARED,
                        BUFFER_HINT_NORMAL, &frame));
    *head = head_get(buffer_page(set->pool, frame));
    buffer_unfix(set->pool, frame, BUFFER_SHARED);
    return FIRN_OK;
}

void head_store(struct space_set *set, struct space *space, struct mtr *mtr, struct mtr_page *page0,
                const struct space_head *head)
{
    uint8_t counters[HEAD_COUNTER_BYTES];
    head_put_counters(counters, head);
    mtr_write(mtr, page0, AT_HEAD, span_of(counters, sizeof counters));
    head_publish(set, space, head);
}

void head_publish(struct space_set *set, struct space *space, const struct space_head *head)
{
    bool full = atomic_load_explicit(&space->full, memory_order_relaxed);
    uint32_t ahead = full ? 0 : grow_ahead_pages(set, head->pages);
    atomic_store_explicit(&space->available, head_available(head), memory_order_relaxed);
    atomic_store_explicit(&space->ahead, ahead, memory_order_relaxed);
}

void head_grow(struct space_head *head, uint32_t pages)
{
    if (pages <= head->pages)
        return;
    /* While a file is shorter than an extent, that is a shared one and grows with it. */
    if (head->pages < SPACE_EXTENT_PAGES)
        head->shared_free +=
            (pages < SPACE_EXTENT_PAGES ? pages : SPACE_EXTENT_PAGES) - head->pages;
    head->pages = pages;
}
