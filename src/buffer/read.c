/*
 * read.c -- pages coming in: publish a frame, read, judge, let others in.
 *
 * The thread that misses does it all itself. It publishes its frame in the page map before it
 * reads, READING and EXCLUSIVE, so that of many who want the page one reads and the others wait for
 * it. A read that fails withdraws the frame: those who wait find PRESENT gone, return the same
 * failure, and the last of them frees the frame; those who come later try afresh.
 */
#include "base/inject.h"
#include "buffer/pool_internal.h"
#include "buffer/sectors_internal.h"

#include <stdio.h>

bool frame_publish(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t page_id,
                   uint64_t flags)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    ASSERT((state & ~BUFFER_VERSION_MASK) == 0);
    frame->changed = 0;
    frame->is_new = 0;
    frame->is_begun = 0;
    sectors_came(pool, frame, (flags & BUFFER_IS_READING) != 0);
    map_lock(pool, page_id);
    bool published = map_find_locked(pool, page_id) == NULL;
    if (published) {
        atomic_store_explicit(&frame->page_id, page_id, memory_order_relaxed);
        map_insert_locked(pool, page_id, frame);
        atomic_store_explicit(&frame->state,
                              (state + BUFFER_VERSION_ONE) | BUFFER_IS_PRESENT |
                                  BUFFER_IS_EXCLUSIVE | flags | BUFFER_PIN_ONE,
                              memory_order_release);
    }
    map_unlock(pool, page_id);
    if (!published)
        frame_free(pool, frame);
    return published;
}

/* A page that could not be read has no bytes: those who wait for it find the error text there,
   which nobody takes for a page, and which stays until the last of them has left. */
static void leave_text(struct buffer_pool *pool, struct buffer_frame *frame)
{
    snprintf((char *)buffer_page(pool, frame), pool->page_size_bytes, "%s", firn_error_text());
}

void frame_withdraw(struct buffer_pool *pool, struct buffer_frame *frame, firn_rc rc)
{
    uint64_t page_id = buffer_page_id(frame);
    if (rc != FIRN_OK)
        leave_text(pool, frame);
    atomic_store_explicit(&frame->read_rc, (int8_t)rc, memory_order_relaxed);
    map_lock(pool, page_id);
    map_remove_locked(pool, page_id, frame);
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    uint64_t gone;
    do
        gone = ((state & BUFFER_VERSION_MASK) + BUFFER_VERSION_ONE) |
               ((state & BUFFER_PIN_MASK) - BUFFER_PIN_ONE);
    while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, gone, memory_order_release,
                                                  memory_order_relaxed));
    map_unlock(pool, page_id);
    if ((state & BUFFER_HAS_WAITERS) != 0)
        latch_wake_all(frame);
    /* The last to leave frees the frame; who waits has a pin. */
    if (state_pins(gone) == 0)
        frame_free(pool, frame);
}

/* Raise what is wrong with the bytes that were read. */
static firn_rc judge(struct buffer_pool *pool, struct buffer_frame *frame,
                     const struct io_file *file)
{
    uint64_t page_id = buffer_page_id(frame);
    /* After the read: what was on the device by then had its log reserved before. */
    uint64_t lsn_limit =
        pool->options.redo != NULL ? redo_page_limit(pool->options.redo) : UINT64_MAX;
    enum page_state state =
        page_verify(buffer_page(pool, frame), pool->page_size_bytes, page_id, lsn_limit);
    if (state == PAGE_GOOD)
        return FIRN_OK;
    return rc_raise(FIRN_E_CORRUPT,
                    "page %u of tablespace %u (%s) %s: restore the file from a backup, or dump "
                    "what can still be read",
                    page_id_number(page_id), page_id_space(page_id), io_file_path(file),
                    page_state_text(state));
}

/* The thread's error text is what the request said: add which page it was. */
static firn_rc name_page(uint64_t page_id, firn_rc rc)
{
    const char *advice = "";
    if (rc == FIRN_E_SHORT) {
        rc = FIRN_E_CORRUPT;
        advice = "; the file has been cut off: restore it from a backup";
    }
    return rc_raise(rc, "page %u of tablespace %u: %s%s", page_id_number(page_id),
                    page_id_space(page_id), firn_error_text(), advice);
}

firn_rc frame_settle(struct buffer_pool *pool, struct buffer_frame *frame,
                     const struct io_file *file, firn_rc rc, enum buffer_mode mode, bool ahead)
{
    rc = rc == FIRN_OK ? judge(pool, frame, file) : name_page(buffer_page_id(frame), rc);
    if (rc != FIRN_OK) {
        /* Read-ahead fails for itself: it may have come before the page was there. */
        frame_withdraw(pool, frame, ahead ? FIRN_OK : rc);
        return rc;
    }
    atomic_fetch_add_explicit(&pool->pages_read, 1, memory_order_relaxed);
    if (ahead)
        atomic_fetch_add_explicit(&pool->pages_read_ahead, 1, memory_order_relaxed);
    latch_end_reading(frame, mode, ahead ? 1 : 0);
    return FIRN_OK;
}

firn_rc frame_locate(struct buffer_pool *pool, struct buffer_frame *frame, bool ahead,
                     struct io_file **file, uint64_t *offset)
{
    const struct buffer_files *files = &pool->options.files;
    firn_rc rc = files->locate(files->context, buffer_page_id(frame), file, offset);
    if (rc != FIRN_OK)
        frame_withdraw(pool, frame, ahead ? FIRN_OK : rc);
    return rc;
}

firn_rc page_read(struct buffer_pool *pool, uint64_t page_id, enum buffer_mode mode,
                  enum buffer_hint hint, struct buffer_frame **frame)
{
    struct buffer_frame *taken;
    struct io_file *file;
    uint64_t offset;
    *frame = NULL;
    FIRN_TRY(frame_take(pool, &taken));
    atomic_store_explicit(&taken->read_ahead, hint == BUFFER_HINT_READ_AHEAD, memory_order_relaxed);
    if (!frame_publish(pool, taken, page_id, BUFFER_IS_READING))
        return FIRN_OK;
    INJECT("buffer-read-published");
    FIRN_TRY(frame_locate(pool, taken, false, &file, &offset));
    INJECT("buffer-read-located");
    firn_rc rc = io_read(file, buffer_page(pool, taken), pool->page_size_bytes, offset);
    FIRN_TRY(frame_settle(pool, taken, file, rc, mode, false));
    *frame = taken;
    return FIRN_OK;
}
