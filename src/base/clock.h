/*
 * clock.h -- the time everybody above asks for: real, scaled or virtual.
 *
 * A real clock is CLOCK_MONOTONIC. A scaled clock runs `scale` times as fast, so that a modelled
 * device's hour passes in minutes. A virtual clock stands still while anybody works and jumps to
 * the next deadline when all its participants wait: a modelled day passes as fast as the processor
 * allows, and what happens does not depend on how fast that is.
 *
 * A thread that waits on a virtual clock must have joined it, and a thread that has joined must not
 * block on anything but the clock, on what parks (park.h: futexes, and locks that a device is
 * waited for under), or on locks whose holder does not wait for the clock.
 */
#ifndef FIRN_BASE_CLOCK_H
#define FIRN_BASE_CLOCK_H

#include "base/rc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

struct clock;

/** @return the process's real clock: never closed, nothing to join. */
struct clock *clock_real(void);

/**
 * Make a clock that runs `scale` times as fast as the real one, from 0.
 *
 * @param scale  above 0; 10 lets ten seconds pass in one
 * @param clock  set on success; give it back with clock_close
 * @return FIRN_OK, FIRN_E_INVALID (scale), FIRN_E_NOMEM
 */
firn_rc clock_open_scaled(double scale, struct clock **clock);

/**
 * Make a virtual clock that stands at 0.
 *
 * @param clock  set on success; give it back with clock_close
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc clock_open_virtual(struct clock **clock);

/** Free a clock; the real one and NULL are left alone. No thread may use it any more. */
void clock_close(struct clock *clock);

/** Is time made up, so that results must not be compared with the wall? */
bool clock_is_virtual(const struct clock *clock);

/** @return how many times as fast as the wall it runs; 1 for the real clock, 0 for a virtual one.
 */
double clock_scale(const struct clock *clock);

/** clock_now() for the clocks that are not real. */
uint64_t clock_now_slow(struct clock *clock);

/** True for the pointer that clock_real() returns; lets clock_now() stay inline. */
extern struct clock *const clock_real_pointer;

/** @return nanoseconds since some fixed instant; never goes back. Any thread, joined or not. */
static inline uint64_t clock_now(struct clock *clock)
{
    if (__builtin_expect(clock != clock_real_pointer, 0))
        return clock_now_slow(clock);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/** Count the calling thread among those whose waiting lets virtual time pass. Others: no effect. A
 * thread that is blocked elsewhere, having left, may be joined by its waker: then no time passes
 * until it waits again. */
void clock_join(struct clock *clock);

/** Count the calling thread no longer. Call it before blocking elsewhere and before ending. */
void clock_leave(struct clock *clock);

/** The virtual clock that the calling thread goes by. */
extern _Thread_local struct clock *clock_joined_pointer;

/** @return the virtual clock that the calling thread has joined or waited on last, and not left;
 * NULL: none. */
static inline struct clock *clock_joined(void)
{
    return clock_joined_pointer;
}

/** Count a thread that has joined as waiting until clock_unblock: it is about to block elsewhere.
 */
void clock_block(struct clock *clock);

/** Count a blocked thread as working again: called by its waker, so that no time passes before the
 * woken thread gets to run. */
void clock_unblock(struct clock *clock);

/**
 * Wait until the clock shows deadline_ns. Returns at once when it already does. On a real or scaled
 * clock the thread sleeps and spins for the last microseconds, so that the wait ends within a few
 * microseconds of the deadline on an idle processor.
 */
void clock_wait_until(struct clock *clock, uint64_t deadline_ns);

/**
 * Sleep while a word is `seen`, until the clock shows deadline_ns at most: futex_wait (futex.h)
 * with a limit. futex_wake wakes. May return early; callers look again. On a virtual clock the
 * thread has joined it.
 *
 * @param deadline_ns  UINT64_MAX: none
 */
void clock_sleep(struct clock *clock, _Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns);

/** @return whether the calling thread still has to sleep. */
typedef bool clock_must(void *context);

/**
 * Sleep on a virtual clock, which the thread has joined, until clock_unpark is called for the place
 * or the clock shows deadline_ns, unless it need not any more. Who parked first is woken first.
 *
 * @param place        what is waited for: an address, which is not looked at
 * @param who          a set of bits: clock_unpark wakes those who share one with it
 * @param deadline_ns  UINT64_MAX: none
 * @param must         called once, with nothing between it and falling asleep that clock_unpark
 *                     could miss
 */
void clock_park(struct clock *clock, const void *place, uint32_t who, uint64_t deadline_ns,
                clock_must *must, void *context);

/** Wake up to `count` threads that are parked at a place, whatever their clock; they count as
 * working from now on. The place may be gone already. @return how many were woken */
unsigned clock_unpark(const void *place, uint32_t who, unsigned count);

/** How many are parked in the process. */
extern _Atomic uint32_t clock_parked_count;

/** @return whether anybody may be parked. */
static inline bool clock_parks(void)
{
    return atomic_load_explicit(&clock_parked_count, memory_order_seq_cst) != 0;
}

/** Wait for about as long, without spinning: between two looks at something that takes a while. */
void clock_pause(struct clock *clock, uint64_t wait_ns);

#endif
