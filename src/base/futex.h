/*
 * futex.h -- sleep until a word changes, and wake who sleeps (futex(2)), within a process.
 *
 * Whoever waits reads the word, looks whether it must wait, and sleeps only if the word is still
 * what it read. Whoever changes what is waited for changes it first, then the word, then wakes.
 */
#ifndef FIRN_BASE_FUTEX_H
#define FIRN_BASE_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/** Sleep while the word is `seen`. May return early; callers look again. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
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
    return (int)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
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
