/*
 * park.h -- sleeping in virtual time until somebody does something, and locks that a device is
 * waited for under.
 *
 * A thread that has joined a virtual clock and falls asleep on a futex or a lock would hold time
 * still for ever, if whoever is to wake it waits for time to pass. So it parks: it counts as
 * waiting, and as working again from the moment that it is woken, not from when it gets to run. Who
 * has joined none, which is everybody outside tests and models, sleeps in the kernel as usual; it
 * costs a look at a variable of the thread's.
 *
 * Who falls asleep counts itself and then looks whether it must; who wakes changes what is looked
 * at and then looks whether anybody is counted: one of them sees the other.
 */
#ifndef FIRN_BASE_PARK_H
#define FIRN_BASE_PARK_H

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>

/** @return whether the calling thread still has to sleep. */
typedef bool park_must(void *context);

/**
 * Sleep until unpark is called for the same place, unless it need not any more. Only for a thread
 * that has joined a virtual clock (clock_joined()). Who parked first is woken first.
 *
 * @param place  what is waited for: an address, which is not looked at
 * @param who    a set of bits: an unpark wakes those who share one with it
 * @param must   called once, with nothing between it and falling asleep that an unpark could miss
 */
void park(const void *place, uint32_t who, park_must *must, void *context);

/** Wake up to `count` threads that are parked at a place. @return how many were woken */
unsigned unpark(const void *place, uint32_t who, unsigned count);

/** How many are parked in the process. */
extern _Atomic uint32_t park_count;

/** @return whether anybody may be parked. */
static inline bool park_is_used(void)
{
    return atomic_load_explicit(&park_count, memory_order_seq_cst) != 0;
}

/* ---- Locks under which a device may be waited for; one that is only held while somebody works
 * needs none of this ---- */

/** lock_take for a thread in virtual time. */
void park_take(pthread_mutex_t *mutex);
/** lock_take_shared for a thread in virtual time. */
void park_take_shared(pthread_rwlock_t *lock);
/** lock_take_exclusive for a thread in virtual time. */
void park_take_exclusive(pthread_rwlock_t *lock);

/** Lock a mutex. */
static inline void lock_take(pthread_mutex_t *mutex)
{
    if (clock_joined() == NULL)
        pthread_mutex_lock(mutex);
    else
        park_take(mutex);
}

/** Unlock it. */
static inline void lock_give(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
    if (park_is_used())
        unpark(mutex, UINT32_MAX, UINT32_MAX);
}

/** Lock for reading. */
static inline void lock_take_shared(pthread_rwlock_t *lock)
{
    if (clock_joined() == NULL)
        pthread_rwlock_rdlock(lock);
    else
        park_take_shared(lock);
}

/** Lock for writing. */
static inline void lock_take_exclusive(pthread_rwlock_t *lock)
{
    if (clock_joined() == NULL)
        pthread_rwlock_wrlock(lock);
    else
        park_take_exclusive(lock);
}

/** Unlock either. */
static inline void lock_give_rwlock(pthread_rwlock_t *lock)
{
    pthread_rwlock_unlock(lock);
    if (park_is_used())
        unpark(lock, UINT32_MAX, UINT32_MAX);
}

#endif
