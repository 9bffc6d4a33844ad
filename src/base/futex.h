/*
 * futex.h -- sleep until a word changes, and wake who sleeps (futex(2)), within a process.
 *
 * Whoever waits reads the word, looks whether it must wait, and sleeps only if the word is still
 * what it read. Whoever changes what is waited for changes it first, then the word, sequentially
 * consistent, then wakes. A thread in virtual time parks instead (park.h).
 */
#ifndef FIRN_BASE_FUTEX_H
#define FIRN_BASE_FUTEX_H

#include "base/park.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/** futex_wait_as for a thread in virtual time, until a time of its clock at most. */
void futex_park(struct clock *clock, _Atomic uint32_t *word, uint32_t seen, uint32_t who,
                uint64_t deadline_ns);

/** Everybody who sleeps on a word. */
#define FUTEX_ALL UINT32_MAX

/** Sleep while the word is `seen`. May return early; callers look again.
 * @param who  a set of bits: woken by those who name one of them */
static inline void futex_wait_as(_Atomic uint32_t *word, uint32_t seen, uint32_t who)
{
    if (clock_joined() != NULL)
        futex_park(clock_joined(), word, seen, who, UINT64_MAX);
    else
        (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, who);
}

/** Wake so many of those who sleep on the word, named by bits. The word is not looked at, so it may
 * be gone already. @return how many were woken */
static inline int futex_wake_those(_Atomic uint32_t *word, int count, uint32_t who)
{
    int parked = clock_parks() ? (int)clock_unpark(word, who, (unsigned)count) : 0;
    if (parked == count)
        return parked;
    return parked + (int)syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, count - parked, NULL,
                                 NULL, who);
}

/** Sleep while the word is `seen`. May return early; callers look again. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    futex_wait_as(word, seen, FUTEX_ALL);
}

/** The same, until a time of CLOCK_MONOTONIC at most; NULL: for ever. */
static inline void futex_wait_until(_Atomic uint32_t *word, uint32_t seen,
                                    const struct timespec *until)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, until, NULL,
                  FUTEX_BITSET_MATCH_ANY);
}

/** Wake so many of those who sleep on the word. @return how many were woken */
static inline int futex_wake(_Atomic uint32_t *word, int count)
{
    return futex_wake_those(word, count, FUTEX_ALL);
}

/** What a thread does between two looks at a word that is about to change: leaves the processor's
 * other thread and the memory bus alone for some ten to a hundred cycles. */
static inline void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

#endif
