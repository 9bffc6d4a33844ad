/*
 * fix.c -- holding a page: find it or have it read, pin it, latch it.
 *
 * On a page that is in the pool and not latched by others, fixing is one probe of the page map and
 * one compare-and-swap of the state word, which pins, latches and counts the touch.
 */
#include "base/inject.h"
#include "buffer/pool_internal.h"
#include "buffer/sectors_internal.h"

enum fix_outcome {
    FIX_HELD,
    FIX_GONE,   /* the frame has another page or none: look again */
    FIX_BUSY,   /* and we are not to wait */
    FIX_FAILED, /* its reader failed */
};

/* The caller has pinned a frame and must wait for its latch. */
static enum fix_outcome wait_pinned(struct buffer_pool *pool, struct buffer_frame *frame,
                                    enum buffer_mode mode, firn_rc *rc)
{
    if (latch_wait(frame, mode))
        return FIX_HELD;
    *rc = (firn_rc)atomic_load_explicit(&frame->read_rc, memory_order_relaxed);
    if (*rc != FIRN_OK)
        rc_raise(*rc, "%s", (const char *)buffer_page(pool, frame)); /* its reader's words */
    frame_leave(pool, frame);
    return *rc == FIRN_OK ? FIX_GONE : FIX_FAILED;
}

/* Pin and latch a frame that had the page a moment ago. */
static enum fix_outcome fix_found(struct buffer_pool *pool, struct buffer_frame *frame,
                                  uint64_t page_id, enum buffer_mode mode, enum buffer_hint hint,
                                  bool wait, firn_rc *rc)
{
    INJECT("buffer-fix-found");
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_acquire);
    bool allowed;
    uint64_t fixed;
    do {
        if ((state & BUFFER_IS_PRESENT) == 0 || buffer_page_id(frame) != page_id)
            return FIX_GONE;
        allowed = state_allows(state, mode);
        if (!allowed && !wait && (state & BUFFER_IS_READING) == 0)
            return FIX_BUSY;
        ENSURE((state & BUFFER_PIN_MASK) != BUFFER_PIN_MASK);
        fixed = state;
        if ((state & BUFFER_USAGE_MASK) != BUFFER_USAGE_MASK)
            fixed = state_touched(pool, frame, state, hint);
        fixed += BUFFER_PIN_ONE;
        if (allowed)
            fixed = state_latched(fixed, mode);
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, fixed,
                                                    memory_order_acquire, memory_order_acquire));
    if (!allowed)
        return wait_pinned(pool, frame, mode, rc);
    if (mode == BUFFER_EXCLUSIVE)
        latch_fence_exclusive();
    return FIX_HELD;
}

static firn_rc fix(struct buffer_pool *pool, uint64_t page_id, enum buffer_mode mode,
                   enum buffer_hint hint, bool wait, struct buffer_frame **frame)
{
    struct buffer_shard *shard = counters_shard(pool);
    atomic_fetch_add_explicit(&shard->fixes, 1, memory_order_relaxed);
    while (true) {
        firn_rc rc = FIRN_OK;
        struct buffer_frame *found = map_find(pool, page_id);
        if (found != NULL) {
            switch (fix_found(pool, found, page_id, mode, hint, wait, &rc)) {
            case FIX_HELD:
                *frame = found;
                return FIRN_OK;
            case FIX_BUSY:
                return FIRN_E_BUSY;
            case FIX_FAILED:
                return rc;
            case FIX_GONE:
                break;
            }
        }
        FIRN_TRY(page_read(pool, page_id, mode, hint, &found));
        if (found != NULL) {
            atomic_fetch_add_explicit(&shard->misses, 1, memory_order_relaxed);
            *frame = found;
            return FIRN_OK;
        }
    }
}

firn_rc buffer_fix(struct buffer_pool *pool, uint64_t page_id, enum buffer_mode mode,
                   enum buffer_hint hint, struct buffer_frame **frame)
{
    return fix(pool, page_id, mode, hint, true, frame);
}

firn_rc buffer_try_fix(struct buffer_pool *pool, uint64_t page_id, enum buffer_mode mode,
                       enum buffer_hint hint, struct buffer_frame **frame)
{
    return fix(pool, page_id, mode, hint, false, frame);
}

firn_rc buffer_fix_new(struct buffer_pool *pool, uint64_t page_id, struct buffer_frame **frame)
{
    while (true) {
        firn_rc rc = FIRN_OK;
        struct buffer_frame *found = map_find(pool, page_id);
        if (found != NULL) {
            /* A failed read of what does not matter is no failure: the frame is gone, go on. */
            if (fix_found(pool, found, page_id, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, true, &rc) ==
                FIX_HELD) {
                *frame = found;
                return FIRN_OK;
            }
            continue;
        }
        FIRN_TRY(frame_take(pool, &found));
        if (frame_publish(pool, found, page_id, 0)) {
            found->is_new = 1;
            *frame = found;
            return FIRN_OK;
        }
    }
}

void buffer_unfix(struct buffer_pool *pool, struct buffer_frame *frame, enum buffer_mode mode)
{
    switch (mode) {
    case BUFFER_PIN:
        buffer_unpin(pool, frame);
        break;
    case BUFFER_SHARED:
        latch_end_shared(frame, 1);
        break;
    case BUFFER_EXCLUSIVE:
        if (__builtin_expect(frame->is_new, 0))
            frame_withdraw(pool, frame, FIRN_OK); /* it has never become a page */
        else
            latch_end_exclusive(frame, 1);
        break;
    }
}

void buffer_begin_change(struct buffer_pool *pool, struct buffer_frame *frame)
{
    ASSERT((atomic_load_explicit(&frame->state, memory_order_relaxed) & BUFFER_IS_EXCLUSIVE) != 0);
    if (__builtin_expect(sectors_place(frame) == BUFFER_PLACE_AS_READ, 0))
        sectors_keep(pool, frame);
}

void buffer_begin_page(struct buffer_pool *pool, struct buffer_frame *frame)
{
    buffer_begin_change(pool, frame);
    frame->is_begun = 1;
}

void buffer_mark_dirty(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t oldest_lsn)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    ASSERT((state & BUFFER_IS_EXCLUSIVE) != 0);
    frame->changed = 1;
    frame->is_new = 0;
    if ((state & BUFFER_IS_DIRTY) != 0)
        return;
    sectors_changed(frame);
    buffer_flush_add(pool, frame, oldest_lsn);
    atomic_fetch_or_explicit(&frame->state, BUFFER_IS_DIRTY, memory_order_relaxed);
}

uint8_t *buffer_page(const struct buffer_pool *pool, const struct buffer_frame *frame)
{
    return pool->bytes + ((size_t)buffer_frame_number(pool, frame) << pool->page_shift);
}

uint64_t buffer_page_id(const struct buffer_frame *frame)
{
    return atomic_load_explicit(&frame->page_id, memory_order_relaxed);
}
