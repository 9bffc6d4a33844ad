/*
 * check.h -- assertions.
 *
 * ASSERT is for what only a bug of ours can break; it is compiled in debug builds. ENSURE is for
 * what must hold before bytes become durable or an acknowledgement is given; it stays in release
 * builds and ends the process rather than let wrong bytes out.
 */
#ifndef FIRN_BASE_CHECK_H
#define FIRN_BASE_CHECK_H

/** End the process with the broken condition, file and line on standard error. */
_Noreturn void check_failed(const char *condition, const char *file, int line);

#define ENSURE(condition)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            check_failed(#condition, __FILE__, __LINE__);                                          \
    } while (0)

#ifdef NDEBUG
#define ASSERT(condition)                                                                          \
    do {                                                                                           \
        (void)sizeof(condition);                                                                   \
    } while (0)
#else
#define ASSERT(condition) ENSURE(condition)
#endif

/** The number of elements of an array. */
#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
