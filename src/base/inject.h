/*
 * inject.h -- injection points: places with a name where a test may wait or look.
 *
 * INJECT("split-before-parent") does nothing unless a test has set a function, and is not there at
 * all in release builds. So hard races are tested without sleeping.
 */
#ifndef FIRN_BASE_INJECT_H
#define FIRN_BASE_INJECT_H

/** Called at each injection point, in the thread that passes it. */
typedef void inject_function(const char *point, void *context);

/** For tests: set what injection points call; NULL for nothing. No thread passes one meanwhile. */
void inject_set(inject_function *function, void *context);

/** What INJECT calls. */
void inject_reach(const char *point);

#ifdef NDEBUG
#define INJECT(point)                                                                              \
    do {                                                                                           \
    } while (0)
#else
#define INJECT(point) inject_reach(point)
#endif

#endif
