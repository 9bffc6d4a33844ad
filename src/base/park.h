/*
 * park.h -- locks that a device is waited for under; one that is only held while somebody works
 * needs none of this.
 *
 * A thread that has joined a virtual clock and falls asleep on a futex or a lock would hold time
 * still for ever, if whoever is to wake it waits for time to pass. So it parks (clock_park): it
 * counts as waiting, and as working again from the moment that it is woken, not from when it gets
 * to run. Who has joined none, which is everybody outside tests and models, sleeps in the kernel as
 * usual; it costs a look at a variable of the thread's.
 *
 * Who falls asleep counts itself and then looks whether it must; who wakes changes what is looked
 * at and then looks whether anybody is counted: one of them sees the other.
 */
#ifndef FIRN_BASE_PARK_H
#define FIRN_BASE_PARK_H

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>

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
    if (clock_parks())
        clock_unpark(mutex, UINT32_MAX, UINT32_MAX);
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
    if (clock_parks())
        clock_unpark(lock, UINT32_MAX, UINT32_MAX);
}

#endif
