/*
 * firn.h -- libfirn's public interface.
 *
 * Every function that can fail returns a firn_rc: FIRN_OK (0) or one of the negative codes below.
 * After a failure, firn_error_text() on the same thread says what happened in one sentence: what
 * failed, where (file and offset, option, ...) and what to do about it.
 *
 * All functions are safe to call from any thread. The interface is C17 and may be included from
 * C++.
 */
#ifndef FIRN_H
#define FIRN_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FIRN_API __attribute__((visibility("default")))
#else
#define FIRN_API
#endif

/** The result of a call. New codes may be added at the end; treat unknown negative ones as failure.
 */
typedef enum firn_rc {
    FIRN_OK = 0,
    FIRN_E_MISUSE = -1,       /**< The call breaks the interface's rules; nothing was changed. */
    FIRN_E_NOMEM = -2,        /**< Memory could not be had; nothing was changed. */
    FIRN_E_IO = -3,           /**< The operating system reported an I/O error. */
    FIRN_E_NOSPACE = -4,      /**< The disk or the quota is full. */
    FIRN_E_SHORT = -5,        /**< A file ends before the bytes that were asked for. */
    FIRN_E_CORRUPT = -6,      /**< Bytes read are not the bytes that were written. */
    FIRN_E_NOT_FOUND = -7,    /**< A file or a named thing does not exist. */
    FIRN_E_EXISTS = -8,       /**< A file or a named thing exists already. */
    FIRN_E_PERMISSION = -9,   /**< Access is denied, or the file system is read-only. */
    FIRN_E_BUSY = -10,        /**< Somebody else holds it: a directory in use, a lock. */
    FIRN_E_UNSUPPORTED = -11, /**< The system or the file system cannot do this. */
    FIRN_E_INVALID = -12,     /**< A value, option or file content is out of its range or form. */
    FIRN_E_STOPPED = -13,   /**< The device or environment refuses work after an earlier failure. */
    FIRN_E_DEADLOCK = -14,  /**< Transactions waited for each other; this one was chosen to give up
                                 and is to be rolled back. */
    FIRN_E_LOCK_WAIT = -15, /**< The time to wait for a lock is over; the statement has failed. */
    FIRN_E_CONFLICT = -16,  /**< What was to be changed has been changed since the snapshot was
                                 taken; roll back and begin again. */
    FIRN_E_CANCELLED = -17, /**< Another thread has cancelled the call. */
    FIRN_E_CONSTRAINT = -18, /**< A foreign key forbids it; the statement has failed. */
} firn_rc;

/**
 * Name a result code.
 *
 * @param rc  any value
 * @return a static sentence without a full stop, such as "the disk or the quota is full"; never
 * NULL
 */
FIRN_API const char *firn_rc_text(firn_rc rc);

/**
 * Tell what the last failed call of this thread said.
 *
 * @return a sentence that lives until the next failing call of this thread, or "" before the first
 *         failure; never NULL. Owned by the library.
 */
FIRN_API const char *firn_error_text(void);

/**
 * @return the version of the library, "major.minor.patch"; static
 */
FIRN_API const char *firn_version(void);

/**
 * @return the commit the library was built from, or "unknown" outside a checkout; static
 */
FIRN_API const char *firn_commit(void);

#ifdef __cplusplus
}
#endif

#endif
