/*
 * core_internal.h -- what io.c, queue.c, request.c and counters.c share: systems, files, counters
 * and the rules by which one request ends.
 */
#ifndef FIRN_IO_CORE_INTERNAL_H
#define FIRN_IO_CORE_INTERNAL_H

#include "io/io_internal.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- Counters ----
 *
 * A queue counts for itself: its counters have one writer and need no locked instruction. Single
 * requests come from any thread and share a few stripes per class. io_system_counters adds them up.
 */

enum { COUNTER_STRIPES = 4 };

/** A class's counters that belong to no open queue. */
struct shared_counters {
    struct io_counters closed; /* of queues closed since; written under the system's mutex */
    struct io_counters stripes[COUNTER_STRIPES];
};

/** One queue's counters: written by its thread, read by anyone. A class's appear on first use. */
struct queue_counters {
    struct queue_counters *next;
    _Atomic(struct io_counters *) classes[IO_CLASS_COUNT];
};

/** Make room for the counters of a class, once. @return false without memory */
bool counters_prepare_class(struct io_system *system, enum io_class class);

/** Show an empty queue's counters to io_system_counters. */
void counters_attach(struct io_system *system, struct queue_counters *counters);

/** Fold a queue's counters into the system's and free what they hold. */
void counters_detach(struct io_system *system, struct queue_counters *counters);

/** Make a queue's counters for a class that it has none of. @return NULL without memory */
struct io_counters *counters_add_class(struct queue_counters *counters, enum io_class class);

/** Count a finished request; only the thread that owns the counters. */
void counters_record(struct io_counters *counters, const struct io_request *request);

/** Count a finished single request that took `continued` continuations. Any thread. */
void counters_record_shared(struct io_system *system, const struct io_request *request,
                            unsigned continued);

/** Add to one counter; only the thread that owns it. */
static inline void counter_add(uint64_t *counter, uint64_t added)
{
    __atomic_store_n(counter, *counter + added, __ATOMIC_RELAXED);
}

/* ---- Systems and files ---- */

struct io_system {
    struct io_driver *driver;
    atomic_ulong opened; /* files so far */
    atomic_uint files;   /* open ones ... */
    atomic_uint queues;
    atomic_bool warned_buffered;
    atomic_bool directory_sync_failed;
    /* Protects the list of queues' counters and what is in `closed`; nothing else is locked
       meanwhile. */
    pthread_mutex_t mutex;
    struct queue_counters *queue_counters;
    _Atomic(struct shared_counters *) shared[IO_CLASS_COUNT]; /* each set once, without the mutex */
};

struct io_file {
    struct io_system *system;
    void *handle;
    uint64_t number; /* of those opened in its system: orders requests the same way in every run */
    enum io_class class;
    uint32_t alignment;
    uint32_t atomic_write_bytes;
    unsigned flags; /* io_open_flags it was opened with */
    bool direct;
    atomic_bool sync_failed; /* set once: no sync of this file succeeds any more */
    char path[];
};

/* ---- One request ---- */

/** Do these operations make writes durable rather than move bytes? */
static inline bool op_is_sync(enum io_op op)
{
    return op == IO_OP_SYNC_DATA || op == IO_OP_SYNC_ALL;
}

/**
 * Judge a request before it starts and make it ready: result fields, vector.
 *
 * @return false when it cannot be carried out; rc then says why
 */
bool request_prepare(struct io_request *request);

/** A sync of a file whose sync has failed ends here, without a system call. @return true if it did
 */
bool request_refuse_sync(struct io_request *request);

enum request_verdict {
    REQUEST_DONE,     /* rc and error are set, the caller's part is as it was */
    REQUEST_RETRY,    /* interrupted: the same again */
    REQUEST_CONTINUE, /* came back short: vector, offset and size now say what is left */
};

/** Does this result ask for the same system request again? Counts the attempts and limits them. */
bool request_wants_retry(struct io_request *request);

/** Decide from request->result what becomes of a request that is not a merged one. */
enum request_verdict request_settle(struct io_request *request);

/** Keep "WHAT: reason; what helps" as the thread's error text. @return the code for `error` */
firn_rc io_raise(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
