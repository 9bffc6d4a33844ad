/*
 * discard.c -- forgetting pages that no file has any more.
 */
#include "buffer/pool_internal.h"

enum { PAUSE_NS = 100000 }; /* less than a device takes */

static bool is_doomed(const struct buffer_frame *frame, uint32_t space, uint32_t first_page)
{
    uint64_t page_id = buffer_page_id(frame);
    return page_id_space(page_id) == space && page_id_number(page_id) >= first_page;
}

/* Pin a frame if it has one of the pages. */
static bool pin_doomed(struct buffer_frame *frame, uint32_t space, uint32_t first_page)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_acquire);
    do {
        if ((state & BUFFER_IS_PRESENT) == 0 || !is_doomed(frame, space, first_page))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, state + BUFFER_PIN_ONE,
                                                    memory_order_acquire, memory_order_acquire));
    return true;
}

/* The caller has the frame latched exclusively, and alone a pin of it. */
static void drop(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t state)
{
    if ((state & BUFFER_IS_DIRTY) != 0)
        buffer_flush_drop(pool, frame);
    frame_withdraw(pool, frame, FIRN_OK);
}

static void discard_frame(struct buffer_pool *pool, struct buffer_frame *frame, uint32_t space,
                          uint32_t first_page)
{
    while (pin_doomed(frame, space, first_page)) {
        if (!latch_wait(frame, BUFFER_EXCLUSIVE)) {
            frame_leave(pool, frame); /* a read that failed: the page has gone by itself */
            continue;
        }
        uint64_t state = atomic_load_explicit(&frame->state, memory_order_acquire);
        if ((state & BUFFER_IS_WRITING) == 0 && state_pins(state) == 1) {
            drop(pool, frame, state);
            return;
        }
        /* Nobody fixes it any more: it is the cleaner, or read-ahead, and soon done. */
        latch_end_exclusive(frame, 1);
        clock_pause(buffer_clock(pool), PAUSE_NS);
    }
}

void buffer_discard(struct buffer_pool *pool, uint32_t space, uint32_t first_page)
{
    uint32_t frame_count = atomic_load_explicit(&pool->frame_count, memory_order_acquire);
    for (uint32_t i = 0; i < frame_count; i++)
        discard_frame(pool, &pool->frames[i], space, first_page);
}
