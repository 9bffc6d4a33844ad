/*
 * io.h -- files, single requests and batches: the seam between Firn and whatever holds its bytes.
 *
 * An io_system is one view of storage: a driver (real files by io_uring, libaio or threads; nothing
 * at all; a simulated disk), perhaps wrapped in decorators (a device model, faults), and a clock.
 * The engine opens one io_system per device and asks it for files; everything it reads, writes or
 * syncs passes here, is timed here, and is counted here by file class.
 *
 * Two ways to move bytes: io_read / io_write / io_sync act at once and return when done; an
 * io_queue takes batches of requests and hands them back as they complete. A queue belongs to one
 * thread. Both complete short transfers, retry EINTR, and report a failure with file and offset. A
 * sync that failed is never repeated: the kernel may have dropped the dirty pages, so a second
 * success would be a lie (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX
 * ATC 2020).
 */
#ifndef FIRN_IO_IO_H
#define FIRN_IO_IO_H

#include "base/clock.h"
#include "base/histogram.h"
#include "base/rc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* ---- Systems ---- */

/** What a file is for. Each class has a directory of its own and counters of its own. */
enum io_class {
    IO_CLASS_TABLE,
    IO_CLASS_UNDO,
    IO_CLASS_SYSTEM,
    IO_CLASS_DOUBLEWRITE,
    IO_CLASS_REDO,
    IO_CLASS_BINLOG,
    IO_CLASS_TEMPORARY,
    IO_CLASS_COUNT,
};

/** @return "table", "undo", ...; static. */
const char *io_class_name(enum io_class class);

/** How queues talk to the kernel. */
enum io_backend {
    IO_BACKEND_AUTO, /* the first of the next three that works here */
    IO_BACKEND_URING,
    IO_BACKEND_LIBAIO,
    IO_BACKEND_THREADS, /* pread and pwrite by a pool of threads */
    IO_BACKEND_NULL,    /* requests complete at once and move no bytes: measures our own cost; names
                           and sizes of files are real */
    IO_BACKEND_COUNT,
};

/** @return "auto", "io_uring", "libaio", "threads" or "null"; static. */
const char *io_backend_name(enum io_backend backend);

struct io_system;

/**
 * Open a view of real files.
 *
 * A backend that this system forbids falls back, io_uring to libaio to threads, with one warning
 * (log.h) that says why; io_system_backend() tells what was chosen.
 *
 * @param backend  what queues use
 * @param clock    what requests are timed with; must outlive the system; clock_real() as a rule
 * @param system   set on success; give it back with io_system_close
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc io_system_open(enum io_backend backend, struct clock *clock, struct io_system **system);

/** Close a system and its decorators. Its files and queues must be closed. NULL is allowed. */
void io_system_close(struct io_system *system);

/** @return the backend in use after any falling back; IO_BACKEND_NULL for drivers without one. */
enum io_backend io_system_backend(const struct io_system *system);

/** @return what stands under the files, from the outside in: "model hdd-7200 over io_uring"; owned
 * by the system. */
const char *io_system_describe(const struct io_system *system);

/** @return the clock that times this system's requests. */
struct clock *io_system_clock(const struct io_system *system);

/* ---- Counters ---- */

/** What a class of files has cost so far. Times in ns, from submission to completion, of requests
 * that succeeded. */
struct io_counters {
    uint64_t reads; /* callers' requests that succeeded */
    uint64_t writes;
    uint64_t syncs;
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t merged;    /* requests that travelled inside another one's system request */
    uint64_t continued; /* transfers that came back short and were continued */
    uint64_t failed;    /* callers' requests that did not succeed, of any kind */
    struct histogram read_ns;
    struct histogram write_ns;
    struct histogram sync_ns;
};

/**
 * Sum up a class's counters over all threads and queues, closed ones included. A system is one
 * device: its counters over all classes are the device's.
 *
 * @param class     a class, or IO_CLASS_COUNT for all of the device
 * @param counters  overwritten; about 60 KB, so not for small stacks
 */
void io_system_counters(struct io_system *system, enum io_class class,
                        struct io_counters *counters);

/* ---- Files and directories ---- */

/**
 * Let this process open as many files as it may without anybody's leave: its soft limit
 * (RLIMIT_NOFILE, ulimit -n) becomes the hard one. Done once a process, so that a program that then
 * sets a limit of its own keeps it; any thread.
 */
void io_lift_file_limit(void);

struct io_file;

enum io_open_flags {
    IO_OPEN_CREATE = 1,    /* make it if it does not exist, mode 0600 */
    IO_OPEN_EXCLUSIVE = 2, /* with CREATE: FIRN_E_EXISTS if it does */
    IO_OPEN_READ_ONLY = 4,
    IO_OPEN_DIRECT = 8, /* past the page cache; see io_file_is_direct */
    IO_OPEN_TRUNCATE = 16,
    IO_OPEN_SYNC = 32,  /* O_SYNC: each write is durable, size and times included */
    IO_OPEN_DSYNC = 64, /* O_DSYNC: each write is durable, with what reading it back needs */
};

/**
 * Open a file.
 *
 * Where the file system refuses direct I/O the file is opened buffered, with one warning per
 * system.
 *
 * @param path   absolute or relative to the working directory; for a simulated disk, any text
 * @param flags  io_open_flags
 * @param file   set on success; give it back with io_file_close
 * @return FIRN_OK, FIRN_E_NOT_FOUND, FIRN_E_EXISTS, FIRN_E_PERMISSION, FIRN_E_NOMEM, FIRN_E_IO, ...
 */
firn_rc io_file_open(struct io_system *system, enum io_class class, const char *path,
                     unsigned flags, struct io_file **file);

/** Close a file; no request may be under way. What close(2) reports is returned; the file is gone
 * all the same. */
firn_rc io_file_close(struct io_file *file);

/** @return the path it was opened by; owned by the file. */
const char *io_file_path(const struct io_file *file);

/** @return the system it was opened on; queues for it are opened there. */
struct io_system *io_file_system(const struct io_file *file);

/** Is the page cache passed by? Then buffers, sizes and offsets must be multiples of
 * io_file_alignment. */
bool io_file_is_direct(const struct io_file *file);

/** @return what direct I/O on this file must be aligned to, in bytes: the device's logical block; 1
 * when buffered. */
uint32_t io_file_alignment(const struct io_file *file);

/**
 * Tell how large a write may be that the device carries out whole or not at all, even if the power
 * goes: io_request.is_atomic asks for it.
 *
 * @return a power of two, in bytes; 0 where the device, the kernel (Linux 6.11), the file system or
 *         the lack of direct I/O rule it out
 */
uint32_t io_file_atomic_write_bytes(const struct io_file *file);

/** Tell the length of a file, as the last completed write or size change left it. */
firn_rc io_file_size(struct io_file *file, uint64_t *size_bytes);

/** Set the length: cut off, or grown with bytes that read as zero. Not durable before io_sync. */
firn_rc io_file_set_size(struct io_file *file, uint64_t size_bytes);

/**
 * Make sure that a range has its space, growing the file if it ends earlier; new bytes read as
 * zero. Where the file system cannot allocate, or gives up half-way, zeros are written for the
 * rest: beyond the old end only, for within it others may be writing, and holes there read as zero.
 * Nobody else may change the file's length meanwhile.
 *
 * @return FIRN_OK; FIRN_E_NOSPACE and others, with the length as it was before
 */
firn_rc io_file_allocate(struct io_file *file, uint64_t offset, uint64_t size_bytes);

/** Remove a file. FIRN_E_NOT_FOUND if there is none. Durable after io_sync_directory. */
firn_rc io_remove(struct io_system *system, const char *path);

/** Rename a file over another or a free name, atomically. Durable after io_sync_directory. */
firn_rc io_rename(struct io_system *system, const char *from, const char *to);

/** Make a directory, mode 0700. FIRN_E_EXISTS if there is something of that name. */
firn_rc io_make_directory(struct io_system *system, const char *path);

/** Remove an empty directory. */
firn_rc io_remove_directory(struct io_system *system, const char *path);

/**
 * Make creations, removals and renames in a directory durable.
 *
 * Names share the file system's journal: after a failure every later call fails on this system
 * (FIRN_E_STOPPED). Not reaching the directory (FIRN_E_NOT_FOUND, ...) is no such failure.
 */
firn_rc io_sync_directory(struct io_system *system, const char *path);

/** What io_list calls for each entry of a directory but "." and "..", in no order; stop by
 * returning other than FIRN_OK. */
typedef firn_rc io_list_function(const char *name, void *context);

/** Call a function for each entry of a directory. @return FIRN_OK, what the function returned,
 * FIRN_E_NOT_FOUND, ... */
firn_rc io_list(struct io_system *system, const char *path, io_list_function *function,
                void *context);

/**
 * Lock a directory against other processes and other holders in this one, by a file "firn.lock" in
 * it. The lock ends with io_unlock_directory (before io_system_close) or with the process; the file
 * is then removed or ignored.
 *
 * @param lock  set on success
 * @return FIRN_OK; FIRN_E_BUSY naming the process that has it; FIRN_E_PERMISSION, ...
 */
struct io_lock;
firn_rc io_lock_directory(struct io_system *system, const char *path, struct io_lock **lock);
void io_unlock_directory(struct io_lock *lock);

/* ---- One request at once ---- */

/**
 * Read or write all of size_bytes at an offset.
 *
 * @return FIRN_OK; FIRN_E_SHORT when a file ends before the range; FIRN_E_INVALID when direct I/O
 *         cannot be so aligned; FIRN_E_IO, FIRN_E_NOSPACE, ... with file and offset in the error
 *         text. After a failed write the range holds old, new or mixed bytes.
 */
firn_rc io_read(struct io_file *file, void *buffer, size_t size_bytes, uint64_t offset);
firn_rc io_write(struct io_file *file, const void *buffer, size_t size_bytes, uint64_t offset);

enum io_sync_kind {
    IO_SYNC_DATA, /* fdatasync: bytes, and what is needed to read them back (size included) */
    IO_SYNC_ALL,  /* fsync: times as well */
};

/**
 * Make all completed writes of a file durable. After a failure every later sync of it fails too
 * (FIRN_E_STOPPED), and so does one that was under way with it if the failure is known when it
 * ends. The kernel tells a failure to one of several callers: who lives by the answer has one sync
 * of a file under way at a time.
 */
firn_rc io_sync(struct io_file *file, enum io_sync_kind kind);

/* ---- Batches ---- */

enum io_op { IO_OP_READ, IO_OP_WRITE, IO_OP_SYNC_DATA, IO_OP_SYNC_ALL };

/**
 * A request. The caller owns it and its buffer and leaves both alone from io_queue_submit until
 * io_queue_reap returns it. Fill the first part (zero the rest once); read the second when it is
 * back.
 */
struct io_request {
    struct io_file *file;
    enum io_op op;
    uint32_t size_bytes; /* 0 for syncs */
    void *buffer;        /* not written to by IO_OP_WRITE */
    uint64_t offset;
    bool is_atomic; /* IO_OP_WRITE: whole or not at all; the size is a power of two, at most
                       io_file_atomic_write_bytes, and divides the offset. Never merged */
    void *user;     /* the caller's; never looked at */

    firn_rc rc;         /* FIRN_OK, or as io_read and io_write return */
    int error;          /* the errno behind rc, 0 if there is none */
    uint64_t submit_ns; /* io_system_clock time at io_queue_submit ... */
    uint64_t done_ns;   /* ... and when it was found complete */

    struct io_request *next;    /* below: the queue's and the driver's */
    struct io_request *members; /* the callers' requests that a merged one carries, or NULL */
    void *handle;
    struct iovec
        *vectors; /* what is left to move, at offset; drivers look at these, not at buffer */
    uint32_t vector_count;
    uint32_t retries; /* in a row without a byte moved */
    int64_t result;   /* bytes moved, or a negative errno */
    struct iovec vector;
};

struct io_queue_options {
    unsigned depth;           /* requests the device sees at once, at most; 1 to 4096 */
    uint32_t merge_max_bytes; /* adjacent requests become one up to this size; 0 merges nothing */
};

struct io_queue;

/**
 * Open a queue for the calling thread, which alone may submit to, reap from and close it.
 *
 * @param queue  set on success; give it back with io_queue_close
 * @return FIRN_OK, FIRN_E_NOMEM, FIRN_E_INVALID (depth), FIRN_E_BUSY (libaio's limit for the whole
 *         machine is reached), FIRN_E_IO
 */
firn_rc io_queue_open(struct io_system *system, const struct io_queue_options *options,
                      struct io_queue **queue);

/** Close a queue; waits for what is under way, starts nothing more; requests not handed back are
 * then simply the caller's again. NULL is allowed. */
void io_queue_close(struct io_queue *queue);

/**
 * Take a batch of requests and start as many as the depth allows, the rest as others complete.
 *
 * Within a batch, requests of one operation on adjacent ranges of one file become one vectored
 * system request of up to merge_max_bytes; all of a batch are submitted with as few system calls as
 * the backend allows. Requests of one batch may be executed in any order, so ranges must not
 * overlap when one of them writes, and a sync covers only what was reaped before it was submitted.
 *
 * @param requests  their pointers; the array itself may be reused at once. count may be 0.
 * @return FIRN_OK; FIRN_E_NOMEM, then none of the batch was taken. What goes wrong with a request
 *         comes back in its rc.
 */
firn_rc io_queue_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count);

/**
 * Hand back completed requests, in the order they completed.
 *
 * @param min_count  wait until this many are there or nothing is under way; 0 only looks
 * @param requests   room for max_count (at least min_count) pointers
 * @return how many were stored
 */
unsigned io_queue_reap(struct io_queue *queue, unsigned min_count, unsigned max_count,
                       struct io_request **requests);

/**
 * io_queue_reap that waits no longer than until a time: for a caller that has more to submit then.
 *
 * @param deadline_ns  of the system's clock; UINT64_MAX for none
 * @return how many were stored; fewer than min_count, perhaps 0, at the deadline
 */
unsigned io_queue_reap_until(struct io_queue *queue, unsigned min_count, unsigned max_count,
                             uint64_t deadline_ns, struct io_request **requests);

/** @return requests taken and not yet handed back. */
unsigned io_queue_pending(const struct io_queue *queue);

/**
 * Carry out one request in the calling thread, as io_read, io_write and io_sync do, for a caller
 * that wants its times. The second part of the request is filled.
 *
 * @return request->rc, with the error text kept
 */
firn_rc io_execute(struct io_request *request);

/** Keep the failure of a request that came back as the thread's error text: "cannot read 16384
 * bytes at offset ...". @return request->rc */
firn_rc io_request_raise(const struct io_request *request);

#endif
