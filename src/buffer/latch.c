/*
 * latch.c -- latches on the state word: who waits, and who is woken.
 *
 * Waiting spins for about as long as a page is copied and then sleeps on the descriptor's `wake`
 * counter, writers and readers told apart. A waiter reads `wake`, then the state; if the latch is
 * not to be had it sets WAITERS by compare-and-swap, so that whoever gives the latch up afterwards
 * sees the bit, and sleeps unless `wake` has moved. Who gives a latch up and sees WAITERS clears
 * it, moves `wake`, and wakes
 *
 *   at the end of an exclusive latch  all readers that sleep, or one writer if there are none
 *   at the end of the last shared one  one writer that sleeps, or all readers if there are none
 *
 * so that readers and writers take turns, and many writers do not wake for one latch. Who has slept
 * sets WAITERS anew as it gets its latch, since others may be asleep still. Hence while anybody
 * sleeps the bit is set, or somebody is awake who will set it or find the latch free.
 *
 * WANTED, while writers wait, keeps new shared latches out, but not those who have slept for one:
 * it was their turn. The end of an exclusive latch clears it unless more writers wait; they count
 * themselves.
 */
#include "buffer/pool_internal.h"

#include <limits.h>

enum {
    SPINS_MAX = 100,
    READERS = 1, /* whom a futex wakes: a set of bits */
    WRITERS = 2,
};

void latch_wake_all(struct buffer_frame *frame)
{
    atomic_fetch_add_explicit(&frame->wake, 1, memory_order_seq_cst);
    futex_wake(&frame->wake, INT_MAX);
}

static void wake_readers_first(struct buffer_frame *frame)
{
    atomic_fetch_add_explicit(&frame->wake, 1, memory_order_seq_cst);
    if (futex_wake_those(&frame->wake, INT_MAX, READERS) == 0)
        futex_wake_those(&frame->wake, 1, WRITERS);
}

static void wake_writer_first(struct buffer_frame *frame)
{
    atomic_fetch_add_explicit(&frame->wake, 1, memory_order_seq_cst);
    if (futex_wake_those(&frame->wake, 1, WRITERS) == 0)
        futex_wake_those(&frame->wake, INT_MAX, READERS);
}

/* Sleep until it is our turn, unless the state has changed from `state`. */
static void latch_sleep(struct buffer_frame *frame, uint64_t state, bool writer, uint32_t wake)
{
    uint64_t waiting = state | BUFFER_HAS_WAITERS | (writer ? BUFFER_IS_WANTED : 0);
    /* Even if the bits are set. Release: who gives the latch up after this sees that we are
     * counted. */
    if (atomic_compare_exchange_strong_explicit(&frame->state, &state, waiting,
                                                memory_order_release, memory_order_relaxed))
        futex_wait_as(&frame->wake, wake, writer ? WRITERS : READERS);
}

/* @return true if a latch can be had in this state, by somebody who has slept for it or not */
static bool latch_is_free(uint64_t state, enum buffer_mode mode, bool has_slept)
{
    return state_allows(has_slept ? state & ~BUFFER_IS_WANTED : state, mode);
}

static bool latch_take(struct buffer_frame *frame, uint64_t state, enum buffer_mode mode,
                       bool has_slept)
{
    uint64_t latched = state_latched(state, mode) | (has_slept ? BUFFER_HAS_WAITERS : 0);
    return atomic_compare_exchange_weak_explicit(&frame->state, &state, latched,
                                                 memory_order_acquire, memory_order_relaxed);
}

bool latch_wait(struct buffer_frame *frame, enum buffer_mode mode)
{
    bool writer = mode == BUFFER_EXCLUSIVE;
    bool has_slept = false;
    bool held = false;
    for (unsigned spins = 0;; spins++) {
        /* Before the state: what is given up after we looked at that moves it. */
        uint32_t wake = atomic_load_explicit(&frame->wake, memory_order_acquire);
        uint64_t state = atomic_load_explicit(&frame->state, memory_order_acquire);
        if ((state & BUFFER_IS_PRESENT) == 0)
            break;
        if (latch_is_free(state, mode, has_slept)) {
            held = latch_take(frame, state, mode, has_slept);
            if (held)
                break;
            continue;
        }
        if (spins < SPINS_MAX) {
            spin_pause();
            continue;
        }
        if (writer && !has_slept)
            atomic_fetch_add_explicit(&frame->writers_waiting, 1, memory_order_relaxed);
        has_slept = true;
        latch_sleep(frame, state, writer, wake);
    }
    if (writer && has_slept)
        atomic_fetch_sub_explicit(&frame->writers_waiting, 1, memory_order_relaxed);
    if (held && writer)
        latch_fence_exclusive();
    return held;
}

/* @return a state without what stands for waiting, as far as that ends with an exclusive latch */
static uint64_t state_exclusive_ended(const struct buffer_frame *frame, uint64_t state)
{
    state &= ~(BUFFER_IS_EXCLUSIVE | BUFFER_HAS_WAITERS);
    if (atomic_load_explicit(&frame->writers_waiting, memory_order_relaxed) == 0)
        state &= ~BUFFER_IS_WANTED;
    return state;
}

void latch_end_exclusive(struct buffer_frame *frame, unsigned pins)
{
    uint64_t version = frame->changed ? BUFFER_VERSION_ONE : 0;
    frame->changed = 0;
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_acquire);
    uint64_t ended;
    do {
        ASSERT((state & BUFFER_IS_EXCLUSIVE) != 0 && state_pins(state) >= pins);
        ended = state_exclusive_ended(frame, state) - pins * BUFFER_PIN_ONE + version;
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, ended,
                                                    memory_order_release, memory_order_acquire));
    if ((state & BUFFER_HAS_WAITERS) != 0)
        wake_readers_first(frame);
}

void latch_end_reading(struct buffer_frame *frame, enum buffer_mode mode, unsigned pins)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_acquire);
    uint64_t ended;
    do {
        ASSERT((state & BUFFER_IS_READING) != 0);
        ended = state_exclusive_ended(frame, state) & ~BUFFER_IS_READING;
        ended = state_latched(ended, mode) - pins * BUFFER_PIN_ONE;
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, ended,
                                                    memory_order_acq_rel, memory_order_acquire));
    if ((state & BUFFER_HAS_WAITERS) != 0)
        latch_wake_all(frame); /* some only wait for the bytes */
}

void latch_end_shared(struct buffer_frame *frame, unsigned pins)
{
    uint64_t state = atomic_fetch_sub_explicit(
        &frame->state, BUFFER_SHARED_ONE + pins * BUFFER_PIN_ONE, memory_order_release);
    ASSERT(state_shared(state) > 0 && state_pins(state) >= pins);
    if ((state & BUFFER_HAS_WAITERS) == 0 || state_shared(state) > 1)
        return;
    atomic_fetch_and_explicit(&frame->state, ~BUFFER_HAS_WAITERS, memory_order_relaxed);
    wake_writer_first(frame);
}

void buffer_latch(struct buffer_pool *pool, struct buffer_frame *frame, enum buffer_mode mode)
{
    (void)pool;
    ASSERT(mode != BUFFER_PIN);
    bool held = latch_wait(frame, mode);
    ENSURE(held); /* pinned: the page cannot have gone */
}

bool buffer_try_latch(struct buffer_pool *pool, struct buffer_frame *frame, enum buffer_mode mode)
{
    (void)pool;
    ASSERT(mode != BUFFER_PIN);
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    do {
        if (!state_allows(state, mode))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state,
                                                    state_latched(state, mode),
                                                    memory_order_acquire, memory_order_relaxed));
    if (mode == BUFFER_EXCLUSIVE)
        latch_fence_exclusive();
    return true;
}

void buffer_unlatch(struct buffer_pool *pool, struct buffer_frame *frame, enum buffer_mode mode)
{
    (void)pool;
    if (mode == BUFFER_SHARED) {
        latch_end_shared(frame, 0);
        return;
    }
    ASSERT(!frame->is_new); /* its bytes are nobody's page */
    latch_end_exclusive(frame, 0);
}
