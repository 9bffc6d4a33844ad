/*
 * rc.h -- how a failure travels: a code up the stack, its sentence beside it.
 *
 * The function that notices a failure calls rc_raise() once, with the sentence a person will read;
 * everybody above passes the code up with FIRN_TRY. The sentence is kept for each thread.
 */
#ifndef FIRN_BASE_RC_H
#define FIRN_BASE_RC_H

#include "firn.h"

/** Evaluate an expression of type firn_rc and return it from the caller unless it is FIRN_OK. */
#define FIRN_TRY(expression)                                                                       \
    do {                                                                                           \
        firn_rc firn_try_rc_ = (expression);                                                       \
        if (firn_try_rc_ != FIRN_OK)                                                               \
            return firn_try_rc_;                                                                   \
    } while (0)

/** Like FIRN_TRY, for functions that clean up: sets the local `rc` and jumps to `label`. */
#define FIRN_TRY_GOTO(expression, label)                                                           \
    do {                                                                                           \
        rc = (expression);                                                                         \
        if (rc != FIRN_OK)                                                                         \
            goto label;                                                                            \
    } while (0)

/**
 * Keep a sentence as this thread's error text and return the code, for `return rc_raise(...)`.
 *
 * @param rc      the code, not FIRN_OK
 * @param format  a printf format: one sentence that says what, where and what to do; no newline
 * @return rc
 */
firn_rc rc_raise(firn_rc rc, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * Choose the code that fits an errno value.
 *
 * @param error  an errno value, positive
 * @return the code; FIRN_E_IO for what no other code fits
 */
firn_rc rc_from_errno(int error);

/**
 * rc_raise() with the code that fits an errno value; the system's text for it is appended.
 *
 * @param error   an errno value, positive
 * @param format  a printf format without the reason, such as "cannot open %s"
 * @return the code
 */
firn_rc rc_raise_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
