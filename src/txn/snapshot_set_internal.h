/*
 * snapshot_set_internal.h -- what the snapshot_*.c files share: the set, its ring, its stragglers.
 */
#ifndef FIRN_TXN_SNAPSHOT_SET_INTERNAL_H
#define FIRN_TXN_SNAPSHOT_SET_INTERNAL_H

#include "txn/snapshot_internal.h"

#include "base/check.h"

#include <pthread.h>

enum {
    SNAPSHOT_RING_CHUNKS = 16, /* a ring is evicted by so many parts */
    SNAPSHOT_RING_IDS_MIN = SNAPSHOT_RING_CHUNKS,
};

/* In the ring and among the stragglers: not committed. */
#define SNAPSHOT_OPEN UINT64_C(0)
/* In a place instead of a number: no snapshot, and one that is just being taken. */
#define SNAPSHOT_NONE   UINT64_MAX
#define SNAPSHOT_TAKING (UINT64_MAX - 1)

/* Ids of one evicted chunk that snapshots of this number do not see though they were committed by
 * then. Never changes but for its users, which are under the set's mutex: places and newer ones. */
struct snapshot_exceptions {
    struct snapshot_exceptions *next;
    size_t users;
    uint64_t number;
    size_t count;
    uint64_t ids[]; /* ascending */
};

/* A cache line that its session alone writes, but for the links. */
struct snapshot {
    _Alignas(64) _Atomic uint64_t number;
    _Atomic uint64_t low;
    _Atomic uint64_t high;
    _Atomic uint64_t taken_ns;
    _Atomic(struct snapshot_exceptions *) exceptions; /* written under the set's mutex */
    struct snapshot_set *set;
    struct snapshot *next; /* in the set's list, under its mutex */
    struct snapshot *prev;
};
_Static_assert(sizeof(struct snapshot) == 64, "a session's snapshot is a cache line");

struct straggler {
    _Atomic uint64_t id;
    _Atomic uint64_t number;
};

struct straggler_list {
    struct straggler_list *older; /* it had become too short, and may still be read */
    size_t capacity;
    struct straggler entries[];
};

/* Ids that had not ended when they were evicted from the ring, ascending. Changed under the commit
 * mutex, read without a lock: `version` is odd while it changes. */
struct stragglers {
    _Atomic uint64_t version;
    _Atomic size_t count;
    _Atomic(struct straggler_list *) list;
};

struct snapshot_set {
    /* Written by every writer, so together: a snapshot is taken with one miss. */
    _Alignas(64) _Atomic uint64_t next_id;
    _Atomic uint64_t newest; /* commit number; written under commit_mutex */
    _Atomic uint64_t low;    /* all ids below have ended; written under commit_mutex */

    /* Rarely written. The ring has the ids from `floor` to `prepared`. */
    _Alignas(64) _Atomic uint64_t floor; /* moved under both mutexes */
    _Atomic uint64_t prepared;           /* moved under `mutex` */
    _Atomic uint64_t *ring;
    uint64_t ring_ids;
    uint64_t chunk_ids;
    struct stragglers stragglers;

    _Alignas(64) pthread_mutex_t commit_mutex;
    _Alignas(64) pthread_mutex_t mutex; /* the list of places, eviction; before commit_mutex */
    struct snapshot *first;
};

/** An id's place in the ring; which id's it is at present, `floor` and `prepared` say. */
static inline _Atomic uint64_t *snapshot_slot(const struct snapshot_set *set, uint64_t id)
{
    return &set->ring[id & (set->ring_ids - 1)];
}

/** What the ring and the stragglers know of an id below next_id.
 * @return false if it has been forgotten: then all snapshots see it but those with an exception.
 * @param number  SNAPSHOT_OPEN or the commit number */
bool snapshot_lookup(const struct snapshot_set *set, uint64_t id, uint64_t *number);

/** Wait until a place's snapshot, if one is being taken, has been. @return its number, or
 * SNAPSHOT_NONE. Under the set's mutex. */
uint64_t snapshot_settled_number(const struct snapshot *snapshot);

/** Give back the exceptions of a place, under the set's mutex. */
void snapshot_drop_exceptions(struct snapshot *snapshot);

/** Make the ring's next chunk ready to be drawn from, evicting what is there. Under the set's
 * mutex. FIRN_E_NOMEM: the ring is as before */
firn_rc snapshot_prepare_chunk(struct snapshot_set *set);

/* ---- Stragglers ---- */

/** Make room for so many more. Under the set's mutex, not the commit mutex. FIRN_E_NOMEM */
firn_rc stragglers_reserve(struct snapshot_set *set, size_t more);

/** Give back their memory. */
void stragglers_free(struct stragglers *stragglers);

/** Add one, for which there is room; under the commit mutex. */
void stragglers_add(struct stragglers *stragglers, uint64_t id, uint64_t number);

/** One that is open has ended; under the commit mutex. */
void stragglers_set(struct stragglers *stragglers, uint64_t id, uint64_t number);

/** Forget those that were committed at or below the horizon; under the commit mutex. */
void stragglers_prune(struct stragglers *stragglers, uint64_t horizon);

/** @return true if it is there; any thread. */
bool stragglers_find(const struct stragglers *stragglers, uint64_t id, uint64_t *number);

/** @return the lowest that is open; UINT64_MAX if none is. Under the commit mutex. */
uint64_t stragglers_first_open(const struct stragglers *stragglers);

#endif
