/*
 * lock_table_internal.h -- what the lock*.c files share: the table, its queues, what waits.
 */
#ifndef FIRN_TXN_LOCK_TABLE_INTERNAL_H
#define FIRN_TXN_LOCK_TABLE_INTERNAL_H

#include "txn/lock_internal.h"

#include "base/check.h"

#include <pthread.h>

enum {
    LOCK_PARTITIONS = 128,
    LOCK_BUCKETS_A_PARTITION = 8, /* neighbours: a cache line */
    LOCK_GAP_COUNTERS = 256,
};

/* Newest first. The newest one's `newer` leads to the oldest; the oldest one's `older` is NULL. A
 * bucket has the queues of all names that hash to it, each in its order. */
struct lock {
    struct lock *newer;
    struct lock *older;
    struct lock *owner_next;
    struct lock_owner *owner;
    uint64_t hash; /* of the name */
    uint64_t index_id;
    uint32_t followers; /* waiters whose arrow leads here */
    uint8_t mode;
    uint8_t part; /* LOCK_ROW and LOCK_GAP are its bits */
    bool is_granted;
    bool jumps;     /* its owner holds another on this name: it waits for what is granted only */
    bool is_single; /* memory of its own, not of its owner's */
};
_Static_assert(sizeof(struct lock) == 64, "a lock is a cache line");
_Static_assert(LOCK_NEXT_KEY == (LOCK_ROW | LOCK_GAP), "parts are bits");

typedef _Atomic(struct lock *) lock_bucket;

/* Protects its buckets and the locks in them. */
struct lock_partition {
    _Alignas(64) pthread_mutex_t mutex;
    uint64_t requests;
    uint64_t locks;
};

struct lock_table {
    struct clock *clock;
    uint64_t memory_bytes;
    bool deadlock_detect;
    uint64_t bucket_mask;
    lock_bucket *buckets;
    _Alignas(64) _Atomic uint64_t used_bytes;
    /* How many gap locks there are in the indexes that share one. */
    _Alignas(64) _Atomic uint32_t gaps[LOCK_GAP_COUNTERS];
    struct lock_partition partitions[LOCK_PARTITIONS];

    /* The graph of who waits for whom: after a partition's mutex. */
    _Alignas(64) pthread_mutex_t graph_mutex;
    uint64_t waits;
    uint64_t deadlocks;
    _Atomic uint64_t wait_ns;
    _Atomic uint64_t timeouts;
};

/* Of an owner's `outcome` and, but for the last, of its `word`. */
enum lock_wait_state {
    WAIT_NONE = 0,
    WAIT_QUEUED,
    WAIT_ASLEEP, /* the same, of the word: its owner is to be woken */
    WAIT_GRANTED,
    WAIT_VICTIM,
    WAIT_CANCELLED,
    WAIT_OVER, /* its limit */
};

/* What is asked for. */
struct lock_wanted {
    uint64_t hash;
    uint64_t index_id;
    enum lock_part part;
    enum lock_mode mode;
    bool jumps;
};

/* Owners whose waits have been decided, first come first, and who are yet to be told. */
struct lock_told {
    struct lock_owner *first;
    struct lock_owner *last;
};

/** Where the locks on a name are, */
static inline lock_bucket *lock_bucket_of(struct lock_table *table, uint64_t hash)
{
    return &table->buckets[hash & table->bucket_mask];
}

/** what protects them, */
static inline struct lock_partition *lock_partition_of(struct lock_table *table, uint64_t hash)
{
    uint64_t line = (hash & table->bucket_mask) / LOCK_BUCKETS_A_PARTITION;
    return &table->partitions[line % LOCK_PARTITIONS];
}

/** and where an index's gap locks are counted. */
static inline _Atomic uint32_t *lock_gaps_of(struct lock_table *table, uint64_t index_id)
{
    return &table->gaps[index_id % LOCK_GAP_COUNTERS];
}

/* ---- Names and memory (lock_table.c) ---- */

/** @return what a request asks for, by the hash of its name. */
struct lock_wanted lock_wanted_of(const struct lock_request *request);

/** @return a lock of an owner's memory, by its thread; NULL, with the error raised, if there is
 * none. */
struct lock *lock_alloc(struct lock_owner *owner);

/** @return a lock of memory of its own, by any thread; NULL likewise. */
struct lock *lock_alloc_single(struct lock_table *table);

/** Give the memory of one back, by its owner's thread. */
void lock_recycle(struct lock *lock);

/** Give back all memory of an owner but a little for the next transaction; it has no locks. */
void lock_memory_trim(struct lock_owner *owner);

/* ---- Queues (lock_queue.c); under the partition's mutex ---- */

/** @return the oldest lock of a bucket, and the one that came after another; NULL: there is none.
 */
struct lock *lock_oldest(lock_bucket *bucket);
struct lock *lock_newer(lock_bucket *bucket, const struct lock *lock);

/** Make an allocated lock what is wanted, and put it into its queue and its owner's list. */
void lock_link(struct lock *lock, struct lock_owner *owner, const struct lock_wanted *wanted,
               bool is_granted);

/** Take a lock out of its queue; who waited for it goes on, or waits for another. */
void lock_unlink(struct lock_table *table, struct lock *lock, struct lock_told *told);

/** Take what an owner holds on the name off what it wants. @return true if nothing is left */
bool lock_is_covered(struct lock_owner *owner, struct lock_wanted *wanted);

/** @return the nearest lock that what is wanted has to wait for; NULL: there is none
 * @param queued  the lock that waits for it; NULL: it is not in the queue */
struct lock *lock_find_blocker(struct lock_owner *owner, const struct lock_wanted *wanted,
                               const struct lock *queued);

/** Take a lock off its owner's list, by the owner's thread. */
void lock_disown(struct lock_owner *owner, struct lock *lock);

/* ---- Waiting (lock_wait.c); under the partition's mutex ---- */

/** A lock has just been queued behind another: its owner waits. */
void lock_begin_wait(struct lock *lock, struct lock *blocker, struct lock_told *told);

/** A lock has left the queue: its followers go on, or follow another. */
void lock_pass_on(struct lock_table *table, struct lock *gone, struct lock_told *told);

/** Wake those whose waits have been decided; no mutex is held. */
void lock_tell(struct lock_told *told);

#endif
