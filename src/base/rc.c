#include "base/rc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { RC_TEXT_BYTES = 1024 };

static _Thread_local char rc_text[RC_TEXT_BYTES];

const char *firn_rc_text(firn_rc rc)
{
    switch (rc) {
    case FIRN_OK:
        return "success";
    case FIRN_E_MISUSE:
        return "the call breaks the interface's rules";
    case FIRN_E_NOMEM:
        return "memory could not be had";
    case FIRN_E_IO:
        return "the operating system reported an I/O error";
    case FIRN_E_NOSPACE:
        return "the disk or the quota is full";
    case FIRN_E_SHORT:
        return "the file ends too early";
    case FIRN_E_CORRUPT:
        return "bytes read are not the bytes that were written";
    case FIRN_E_NOT_FOUND:
        return "it does not exist";
    case FIRN_E_EXISTS:
        return "it exists already";
    case FIRN_E_PERMISSION:
        return "access is denied";
    case FIRN_E_BUSY:
        return "it is in use";
    case FIRN_E_UNSUPPORTED:
        return "the system cannot do this";
    case FIRN_E_INVALID:
        return "a value is out of its range or form";
    case FIRN_E_STOPPED:
        return "work is refused after an earlier failure";
    case FIRN_E_DEADLOCK:
        return "transactions waited for each other";
    case FIRN_E_LOCK_WAIT:
        return "the time to wait for a lock is over";
    case FIRN_E_CONFLICT:
        return "it has been changed since the snapshot was taken";
    case FIRN_E_CANCELLED:
        return "it was cancelled";
    case FIRN_E_CONSTRAINT:
        return "a foreign key forbids it";
    }
    return "unknown result code";
}

const char *firn_error_text(void)
{
    return rc_text;
}

/* The arguments may point into the old text, so the new one is formed beside it. */
static void rc_set_text(const char *format, va_list arguments, const char *reason)
{
    char text[RC_TEXT_BYTES];
    int length = vsnprintf(text, sizeof(text), format, arguments);
    if (length < 0)
        length = 0;
    if ((size_t)length >= sizeof(text))
        length = (int)sizeof(text) - 1;
    text[length] = '\0';
    if (reason != NULL)
        snprintf(text + length, sizeof(text) - (size_t)length, ": %s", reason);
    memcpy(rc_text, text, sizeof(text));
}

firn_rc rc_raise(firn_rc rc, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    rc_set_text(format, arguments, NULL);
    va_end(arguments);
    return rc;
}

firn_rc rc_from_errno(int error)
{
    switch (error) {
    case ENOMEM:
        return FIRN_E_NOMEM;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return FIRN_E_NOSPACE;
    case ENOENT:
        return FIRN_E_NOT_FOUND;
    case EEXIST:
        return FIRN_E_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return FIRN_E_PERMISSION;
    case EBUSY:
    case EWOULDBLOCK:
        return FIRN_E_BUSY;
    case ENOSYS:
    case EOPNOTSUPP:
        return FIRN_E_UNSUPPORTED;
    case EINVAL:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
        return FIRN_E_INVALID;
    default:
        return FIRN_E_IO;
    }
}

firn_rc rc_raise_errno(int error, const char *format, ...)
{
    char reason[128];
    va_list arguments;
    va_start(arguments, format);
    rc_set_text(format, arguments, strerror_r(error, reason, sizeof(reason)));
    va_end(arguments);
    return rc_from_errno(error);
}
