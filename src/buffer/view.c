/*
 * view.c -- looking at a page without a shared write.
 *
 * A view is one load of the state word before and one after: a sequence lock (Boehm, "Can seqlocks
 * get along with programming language memory models?", MSPC 2012). The bytes are read by plain
 * loads that may race with a writer's stores; what they gave is believed only after
 * buffer_view_valid. The memory never goes away, so that even a view of a frame that a resize took
 * away reads something.
 *
 * A page's id changes only after its version has (buffer_internal.h), so comparing the version
 * covers the id that was compared at opening.
 */
#include "buffer/pool_internal.h"

enum { SPINS_MAX = 40 }; /* about as long as a small change under a latch takes */

#if !BUFFER_VIEWS_LATCH

static bool view_begin(struct buffer_frame *frame, uint64_t page_id, uint64_t *state)
{
    for (unsigned spins = 0; spins < SPINS_MAX; spins++) {
        *state = atomic_load_explicit(&frame->state, memory_order_acquire);
        if ((*state & BUFFER_IS_PRESENT) == 0 || buffer_page_id(frame) != page_id ||
            (*state & BUFFER_IS_READING) != 0)
            return false;
        if ((*state & BUFFER_IS_EXCLUSIVE) == 0)
            return true;
        spin_pause();
    }
    return false;
}

bool buffer_view_valid(struct buffer_pool *pool, const struct buffer_view *view)
{
    (void)pool;
    /* What was read through the view was read before this load; pairs with latch_fence_exclusive.
     */
    atomic_thread_fence(memory_order_acquire);
    uint64_t state = atomic_load_explicit(&view->frame->state, memory_order_relaxed);
    return ((state ^ view->version) & BUFFER_VIEW_MASK) == 0;
}

void buffer_view_close(struct buffer_pool *pool, struct buffer_view *view)
{
    (void)pool;
    view->frame = NULL;
}

bool buffer_view_upgrade(struct buffer_pool *pool, struct buffer_view *view)
{
    (void)pool;
    struct buffer_frame *frame = view->frame;
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    do {
        if (((state ^ view->version) & BUFFER_VIEW_MASK) != 0 ||
            (state & BUFFER_SHARED_MASK) != 0 || (state & BUFFER_PIN_MASK) == BUFFER_PIN_MASK)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        &frame->state, &state, state_latched(state + BUFFER_PIN_ONE, BUFFER_EXCLUSIVE),
        memory_order_acquire, memory_order_relaxed));
    latch_fence_exclusive();
    return true;
}

#else

static bool view_begin(struct buffer_frame *frame, uint64_t page_id, uint64_t *state)
{
    for (unsigned spins = 0; spins < SPINS_MAX; spins++) {
        *state = atomic_load_explicit(&frame->state, memory_order_acquire);
        if ((*state & BUFFER_IS_PRESENT) == 0 || buffer_page_id(frame) != page_id ||
            (*state & BUFFER_IS_READING) != 0)
            return false;
        uint64_t latched = state_latched(*state + BUFFER_PIN_ONE, BUFFER_SHARED);
        if (state_allows(*state, BUFFER_SHARED) &&
            atomic_compare_exchange_strong_explicit(&frame->state, state, latched,
                                                    memory_order_acquire, memory_order_relaxed)) {
            *state = latched;
            return true;
        }
        spin_pause();
    }
    return false;
}

bool buffer_view_valid(struct buffer_pool *pool, const struct buffer_view *view)
{
    (void)pool;
    (void)view;
    return true;
}

void buffer_view_close(struct buffer_pool *pool, struct buffer_view *view)
{
    buffer_unfix(pool, view->frame, BUFFER_SHARED);
    view->frame = NULL;
}

bool buffer_view_upgrade(struct buffer_pool *pool, struct buffer_view *view)
{
    (void)pool;
    struct buffer_frame *frame = view->frame;
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    do {
        if (state_shared(state) != 1)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        &frame->state, &state, state_latched(state - BUFFER_SHARED_ONE, BUFFER_EXCLUSIVE),
        memory_order_acquire, memory_order_relaxed));
    return true;
}

#endif

bool buffer_view_open(struct buffer_pool *pool, uint64_t page_id, struct buffer_frame *hint_frame,
                      struct buffer_view *view)
{
    uint64_t state;
    struct buffer_frame *frame = hint_frame;
    if (frame == NULL || !view_begin(frame, page_id, &state)) {
        frame = map_find(pool, page_id);
        if (frame == NULL || frame == hint_frame || !view_begin(frame, page_id, &state))
            return false;
    }
    counters_view(pool);
    frame_touch(pool, frame, state);
    view->frame = frame;
    view->page = buffer_page(pool, frame);
    view->version = state;
    view->page_id = page_id;
    return true;
}
