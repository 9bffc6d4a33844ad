/*
 * latch.c -- latches on the state word: who waits, and who is woken.
 *
 * Waiting spins for about as long as a page is copied and then sleeps on the descriptor's `wake`
 * counter. A waiter reads `wake`, then the state; if the latch is not to be had it sets WAITERS by
 * compare-and-swap, so that whoever gives the latch up afterwards sees the bit, and sleeps unless
 * `wake` has moved. Who clears WAITERS moves `wake` and wakes all: they compete anew.
 *
 * Writers do not starve: WANTED keeps new shared latches out until one of them had the latch. Nor
 * do readers: the end of an exclusive latch clears WANTED, so that those who waited beside the next
 * writer may be first.
 */
#include "buffer/pool_internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS_MAX = 100 };

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    /* Woken, interrupted or changed before: the caller looks again whatever it was. */
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void latch_wake(struct buffer_frame *frame)
{
    atomic_fetch_add_explicit(&frame->wake, 1, memory_order_release);
    syscall(SYS_futex, &frame->wake, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Sleep until somebody gives something up, unless the state has changed from `state`. */
static void latch_sleep(struct buffer_frame *frame, uint64_t state, uint64_t flags, uint32_t wake)
{
    uint64_t waiting = state | flags;
    if (state == waiting ||
        atomic_compare_exchange_strong_explicit(&frame->state, &state, waiting,
                                                memory_order_relaxed, memory_order_relaxed))
        futex_wait(&frame->wake, wake);
}

bool latch_wait(struct buffer_frame *frame, enum buffer_mode mode)
{
    uint64_t flags = BUFFER_HAS_WAITERS | (mode == BUFFER_EXCLUSIVE ? BUFFER_IS_WANTED : 0);
    for (unsigned spins = 0;; spins++) {
        /* Before the state: what is given up after we looked at that moves it. */
        uint32_t wake = atomic_load_explicit(&frame->wake, memory_order_acquire);
        uint64_t state = atomic_load_explicit(&frame->state, memory_order_acquire);
        if ((state & BUFFER_IS_PRESENT) == 0)
            return false;
        if (state_allows(state, mode)) {
            if (atomic_compare_exchange_weak_explicit(&frame->state, &state,
                                                      state_latched(state, mode),
                                                      memory_order_acquire, memory_order_relaxed)) {
                if (mode == BUFFER_EXCLUSIVE)
                    latch_fence_exclusive();
                return true;
            }
        } else if (spins < SPINS_MAX) {
            spin_pause();
        } else {
            latch_sleep(frame, state, flags, wake);
        }
    }
}

void latch_wait_clear(struct buffer_frame *frame, uint64_t flags)
{
    for (unsigned spins = 0;; spins++) {
        uint32_t wake = atomic_load_explicit(&frame->wake, memory_order_acquire);
        uint64_t state = atomic_load_explicit(&frame->state, memory_order_acquire);
        if ((state & flags) == 0)
            return;
        if (spins < SPINS_MAX)
            spin_pause();
        else
            latch_sleep(frame, state, BUFFER_HAS_WAITERS, wake);
    }
}

void latch_end_exclusive(struct buffer_frame *frame, unsigned pins)
{
    uint64_t version = frame->changed ? BUFFER_VERSION_ONE : 0;
    frame->changed = 0;
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    uint64_t ended;
    do {
        ASSERT((state & BUFFER_IS_EXCLUSIVE) != 0 && state_pins(state) >= pins);
        ended = state & ~(BUFFER_IS_EXCLUSIVE | BUFFER_IS_WANTED | BUFFER_HAS_WAITERS);
        ended = ended - pins * BUFFER_PIN_ONE + version;
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, ended,
                                                    memory_order_release, memory_order_relaxed));
    if ((state & BUFFER_HAS_WAITERS) != 0)
        latch_wake(frame);
}

void latch_end_shared(struct buffer_frame *frame, unsigned pins)
{
    uint64_t state = atomic_fetch_sub_explicit(
        &frame->state, BUFFER_SHARED_ONE + pins * BUFFER_PIN_ONE, memory_order_release);
    ASSERT(state_shared(state) > 0 && state_pins(state) >= pins);
    if ((state & BUFFER_HAS_WAITERS) == 0 || state_shared(state) > 1)
        return;
    atomic_fetch_and_explicit(&frame->state, ~BUFFER_HAS_WAITERS, memory_order_relaxed);
    latch_wake(frame);
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
    if (mode == BUFFER_SHARED)
        latch_end_shared(frame, 0);
    else
        latch_end_exclusive(frame, 0);
}
