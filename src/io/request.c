/*
 * request.c -- how one request starts and ends, whether alone or in a queue.
 */
#include "base/check.h"
#include "io/core_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* A system call that is interrupted this often without moving a byte will not succeed. */
enum { RETRIES_MAX = 1000 };

/* The kernel's conditions: else it would refuse the write, or worse not keep it whole. */
static bool atomic_is_possible(const struct io_request *request)
{
    uint32_t size_bytes = request->size_bytes;
    return request->op == IO_OP_WRITE && size_bytes <= request->file->atomic_write_bytes &&
           (size_bytes & (size_bytes - 1)) == 0 && request->offset % size_bytes == 0;
}

bool request_prepare(struct io_request *request)
{
    const struct io_file *file = request->file;
    request->error = 0;
    request->retries = 0;
    request->members = NULL;
    request->vectors = &request->vector;
    request->vector_count = 1;
    if (op_is_sync(request->op)) {
        request->rc = FIRN_OK;
        request->size_bytes = 0;
        return true;
    }
    request->vector.iov_base = request->buffer;
    request->vector.iov_len = request->size_bytes;
    uint64_t bits = (uintptr_t)request->buffer | request->offset | request->size_bytes;
    request->rc = FIRN_OK;
    if (request->size_bytes == 0 || request->offset > INT64_MAX - (uint64_t)request->size_bytes ||
        (bits & (file->alignment - 1)) != 0)
        request->rc = FIRN_E_INVALID;
    else if (request->op == IO_OP_WRITE && (file->flags & IO_OPEN_READ_ONLY) != 0)
        request->rc = FIRN_E_PERMISSION;
    else if (request->is_atomic && !atomic_is_possible(request))
        request->rc = FIRN_E_INVALID;
    return request->rc == FIRN_OK;
}

bool request_refuse_sync(struct io_request *request)
{
    if (!op_is_sync(request->op) ||
        !atomic_load_explicit(&request->file->sync_failed, memory_order_acquire))
        return false;
    request->rc = FIRN_E_STOPPED;
    return true;
}

static void request_fail(struct io_request *request, int error)
{
    request->rc = rc_from_errno(error);
    request->error = error;
}

bool request_wants_retry(struct io_request *request)
{
    /* A sync that was interrupted has dropped nothing; with any other answer it may have. */
    bool again =
        request->result == -EINTR || (request->result == -EAGAIN && !op_is_sync(request->op));
    if (!again || request->retries >= RETRIES_MAX)
        return false;
    request->retries++;
    return true;
}

static void settle_sync(struct io_request *request)
{
    struct io_file *file = request->file;
    if (request->result < 0) {
        atomic_store_explicit(&file->sync_failed, true, memory_order_release);
        request_fail(request, (int)-request->result);
    } else {
        /* The kernel tells a failed write-back to one caller only: another thread's failure while
           this one was under way may have been ours. */
        request_refuse_sync(request);
    }
}

/* Leave what has been moved behind. The buffer's start stays, so that the way back is known. */
static void request_advance(struct io_request *request, uint32_t moved_bytes)
{
    request->vector.iov_base = (char *)request->vector.iov_base + moved_bytes;
    request->vector.iov_len -= moved_bytes;
    request->offset += moved_bytes;
    request->size_bytes -= moved_bytes;
    request->retries = 0;
}

static void request_restore(struct io_request *request)
{
    uint32_t moved_bytes = (uint32_t)((char *)request->vector.iov_base - (char *)request->buffer);
    request->offset -= moved_bytes;
    request->size_bytes += moved_bytes;
}

enum request_verdict request_settle(struct io_request *request)
{
    ASSERT(request->members == NULL);
    if (request->result < 0 && request_wants_retry(request))
        return REQUEST_RETRY;
    if (op_is_sync(request->op)) {
        settle_sync(request);
        return REQUEST_DONE;
    }
    ASSERT(request->result <= (int64_t)request->size_bytes);
    if (request->result >= 0 && request->result < (int64_t)request->size_bytes) {
        /* Direct I/O must go on at a block's start; less than a block read is the file's end. */
        uint32_t moved_bytes = (uint32_t)request->result & ~(request->file->alignment - 1);
        if (moved_bytes != 0 && !request->is_atomic) {
            request_advance(request, moved_bytes);
            return REQUEST_CONTINUE;
        }
        if (request->op == IO_OP_READ)
            request->rc = FIRN_E_SHORT;
        else
            request_fail(request, EIO);
    } else if (request->result < 0) {
        request_fail(request, (int)-request->result);
    }
    request_restore(request);
    return REQUEST_DONE;
}

/* ---- Error texts ---- */

enum { HELP_BYTES = 160 };

/* Who meets this limit has met the hard one (io_lift_file_limit), or one that was set later. */
static const char *help_for_open_files(char text[HELP_BYTES])
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return "";
    snprintf(text, HELP_BYTES,
             "; this process may have %llu (ulimit -n): have its limit raised (nofile in "
             "limits.conf, LimitNOFILE of a systemd unit), or use fewer files",
             (unsigned long long)limit.rlim_cur);
    return text;
}

static const char *help_for_errno(int error, char text[HELP_BYTES])
{
    switch (error) {
    case EIO:
        return "; the kernel's log (dmesg) may say more about the device";
    case ENOSPC:
        return "; free some space on that file system";
    case EDQUOT:
        return "; free some space or have the quota raised";
    case EFBIG:
        return "; the file system or ulimit -f allows no larger file";
    case EACCES:
    case EPERM:
        return "; check its owner and mode and those of its directories";
    case EROFS:
        return "; mount it writable or choose another directory";
    case EMFILE:
        return help_for_open_files(text);
    case ENFILE:
        return "; raise fs.file-max";
    default:
        return "";
    }
}

firn_rc io_raise(int error, const char *format, ...)
{
    char what[768];
    char reason[128];
    char help[HELP_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return rc_raise(rc_from_errno(error), "%s: %s%s", what,
                    strerror_r(error, reason, sizeof(reason)), help_for_errno(error, help));
}

static firn_rc raise_invalid(const struct io_request *request, const char *verb)
{
    const struct io_file *file = request->file;
    if (request->size_bytes == 0)
        return rc_raise(request->rc, "cannot %s 0 bytes at offset %llu of %s: give a size", verb,
                        (unsigned long long)request->offset, file->path);
    if (request->offset > INT64_MAX - (uint64_t)request->size_bytes)
        return rc_raise(request->rc,
                        "cannot %s %u bytes at offset %llu of %s: no file reaches that far", verb,
                        request->size_bytes, (unsigned long long)request->offset, file->path);
    if (request->is_atomic && !atomic_is_possible(request))
        return rc_raise(request->rc,
                        "cannot write %u bytes at offset %llu of %s atomically: at most %u are "
                        "possible, a power of two that divides the offset",
                        request->size_bytes, (unsigned long long)request->offset, file->path,
                        file->atomic_write_bytes);
    return rc_raise(request->rc,
                    "cannot %s %u bytes at offset %llu of %s, memory at %p: direct I/O needs all "
                    "three to be multiples of %u",
                    verb, request->size_bytes, (unsigned long long)request->offset, file->path,
                    request->buffer, file->alignment);
}

firn_rc io_request_raise(const struct io_request *request)
{
    const char *path = request->file->path;
    if (request->rc == FIRN_OK)
        return FIRN_OK;
    if (op_is_sync(request->op)) {
        if (request->rc == FIRN_E_STOPPED)
            return rc_raise(FIRN_E_STOPPED,
                            "cannot sync %s: an earlier sync of it failed, so what was written "
                            "since the one before may be lost; close it and recover",
                            path);
        return io_raise(request->error, "cannot sync %s", path);
    }
    const char *verb = request->op == IO_OP_READ ? "read" : "write";
    unsigned long long offset = request->offset;
    if (request->error == EINVAL && request->file->direct && !request->is_atomic)
        return rc_raise(request->rc,
                        "cannot %s %u bytes at offset %llu of %s: its direct I/O refuses them, "
                        "though they are multiples of %u; try larger blocks",
                        verb, request->size_bytes, offset, path, request->file->alignment);
    if (request->error != 0)
        return io_raise(request->error, "cannot %s %u bytes at offset %llu of %s", verb,
                        request->size_bytes, offset, path);
    if (request->rc == FIRN_E_SHORT)
        return rc_raise(FIRN_E_SHORT,
                        "cannot read %u bytes at offset %llu of %s: the file ends before that",
                        request->size_bytes, offset, path);
    if (request->rc == FIRN_E_PERMISSION)
        return rc_raise(FIRN_E_PERMISSION,
                        "cannot write %u bytes at offset %llu of %s: it was opened read-only",
                        request->size_bytes, offset, path);
    return raise_invalid(request, verb);
}
