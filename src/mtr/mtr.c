#include "mtr/mtr.h"

#include "base/check.h"
#include "base/memory.h"
#include "mtr/mtr_internal.h"

enum { LOG_CAPACITY_MIN = 4096 };

void mtr_init(struct mtr *mtr, struct buffer_pool *pool, struct redo *redo)
{
    mtr->pool = pool;
    mtr->redo = redo;
    mtr->room = (struct redo_room){0};
    mtr->page_size_bytes = buffer_page_size(pool);
    mtr->page_count = 0;
    mtr->log = NULL;
    mtr->log_bytes = 0;
    mtr->log_limit = 0;
    mtr->log_capacity = 0;
    mtr->originals = NULL;
}

void mtr_free(struct mtr *mtr)
{
    ASSERT(mtr->page_count == 0);
    memory_free(mtr->log);
    memory_free(mtr->originals);
    mtr->log = NULL;
    mtr->log_capacity = 0;
    mtr->originals = NULL;
}

/** Have memory for records of so many bytes in all. */
static firn_rc have_memory(struct mtr *mtr, size_t needed)
{
    if (needed <= mtr->log_capacity)
        return FIRN_OK;
    if (needed > REDO_FRAME_BODY_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "a mini-transaction needs %zu bytes of log, but the largest may have %d",
                        needed, REDO_FRAME_BODY_MAX);
    size_t capacity = mtr->log_capacity != 0 ? mtr->log_capacity : LOG_CAPACITY_MIN;
    while (capacity < needed)
        capacity *= 2;
    uint8_t *log = memory_realloc(mtr->log, capacity);
    if (log == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for %zu bytes of log records", capacity);
    mtr->log = log;
    mtr->log_capacity = capacity;
    return FIRN_OK;
}

firn_rc mtr_begin(struct mtr *mtr, size_t log_bytes)
{
    ASSERT(mtr->page_count == 0 && mtr->log_bytes == 0 && mtr->log_limit == 0);
    FIRN_TRY(have_memory(mtr, log_bytes));
    FIRN_TRY(redo_reserve(mtr->redo, log_bytes, &mtr->room));
    mtr->log_limit = log_bytes;
    verify_begin(mtr);
    return FIRN_OK;
}

firn_rc mtr_reserve(struct mtr *mtr, size_t log_bytes)
{
    size_t needed = mtr->log_bytes + log_bytes;
    if (needed <= mtr->log_limit)
        return FIRN_OK;
    FIRN_TRY(have_memory(mtr, needed));
    FIRN_TRY(redo_reserve_more(mtr->redo, needed - mtr->log_limit, &mtr->room));
    mtr->log_limit = needed;
    return FIRN_OK;
}

/* ---- Pages ---- */

struct mtr_page *mtr_take(struct mtr *mtr, struct buffer_frame *frame)
{
    ENSURE(mtr->page_count < MTR_PAGES_MAX);
    struct mtr_page *page = &mtr->pages[mtr->page_count++];
    page->frame = frame;
    page->bytes = buffer_page(mtr->pool, frame);
    page->page_id = buffer_page_id(frame);
    page->changed = false;
    if (mtr->originals != NULL)
        verify_keep(mtr, page);
    return page;
}

/** The latest first: a page that is asked for twice is asked for soon. @return NULL if it is not
 * there */
static struct mtr_page *find_page(struct mtr *mtr, uint64_t page_id)
{
    for (unsigned i = mtr->page_count; i-- > 0;)
        if (mtr->pages[i].page_id == page_id && mtr->pages[i].frame != NULL)
            return &mtr->pages[i];
    return NULL;
}

firn_rc mtr_fix(struct mtr *mtr, uint64_t page_id, struct mtr_page **page)
{
    struct mtr_page *found = find_page(mtr, page_id);
    if (found == NULL) {
        struct buffer_frame *frame;
        FIRN_TRY(buffer_fix(mtr->pool, page_id, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &frame));
        found = mtr_take(mtr, frame);
    }
    *page = found;
    return FIRN_OK;
}

firn_rc mtr_fix_new(struct mtr *mtr, uint64_t page_id, struct mtr_page **page)
{
    struct mtr_page *found = find_page(mtr, page_id);
    if (found == NULL) {
        struct buffer_frame *frame;
        FIRN_TRY(buffer_fix_new(mtr->pool, page_id, &frame));
        found = mtr_take(mtr, frame);
    }
    *page = found;
    return FIRN_OK;
}

void mtr_drop(struct mtr *mtr, struct mtr_page *page)
{
    ASSERT(page->frame != NULL);
    ENSURE(!page->changed);
    if (mtr->originals != NULL)
        verify_unchanged(mtr, page);
    buffer_unfix(mtr->pool, page->frame, BUFFER_EXCLUSIVE);
    page->frame = NULL;
    while (mtr->page_count > 0 && mtr->pages[mtr->page_count - 1].frame == NULL)
        mtr->page_count--;
}

/* ---- The end ---- */

static void end(struct mtr *mtr)
{
    redo_unreserve(mtr->redo, &mtr->room);
    for (unsigned i = mtr->page_count; i-- > 0;)
        if (mtr->pages[i].frame != NULL)
            buffer_unfix(mtr->pool, mtr->pages[i].frame, BUFFER_EXCLUSIVE);
    mtr->page_count = 0;
    mtr->log_bytes = 0;
    mtr->log_limit = 0;
}

static void set_lsns(struct mtr *mtr, uint64_t lsn)
{
    for (unsigned i = 0; i < mtr->page_count; i++)
        if (mtr->pages[i].frame != NULL && mtr->pages[i].changed)
            page_set_lsn(mtr->pages[i].bytes, lsn);
}

firn_rc mtr_commit(struct mtr *mtr, uint64_t *end_lsn)
{
    if (mtr->originals != NULL)
        verify_commit(mtr);
    uint64_t lsn = 0;
    firn_rc rc = FIRN_OK;
    if (mtr->log_bytes == 0) {
        lsn = redo_reserved_lsn(mtr->redo);
    } else {
        for (unsigned i = 0; i < mtr->page_count; i++)
            if (mtr->pages[i].frame != NULL && mtr->pages[i].changed)
                buffer_mark_dirty(mtr->pool, mtr->pages[i].frame, 0);
        rc = redo_append(mtr->redo, span_of(mtr->log, mtr->log_bytes), &lsn);
        /* Also when the log has stopped: that place in the stream never becomes durable, and the
         * rule that a page is written only when its log is durable keeps it off the device. */
        set_lsns(mtr, lsn);
    }
    end(mtr);
    if (rc == FIRN_OK && end_lsn != NULL)
        *end_lsn = lsn;
    return rc;
}

void mtr_abandon(struct mtr *mtr)
{
    ENSURE(mtr->log_bytes == 0);
    for (unsigned i = 0; mtr->originals != NULL && i < mtr->page_count; i++)
        if (mtr->pages[i].frame != NULL)
            verify_unchanged(mtr, &mtr->pages[i]);
    end(mtr);
}
