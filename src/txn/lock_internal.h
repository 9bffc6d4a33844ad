/*
 * lock_internal.h -- who may change or rely on which row, and which gap between rows.
 *
 * A lock names an index and a key in it, or what lies behind the last key (the supremum). A row
 * lock is about the key, a gap lock about the open range between the key before and the key. Both
 * are held until the transaction ends. Most rows that a transaction has changed need no lock here:
 * the row says itself who changed it, and is locked by that (an implicit lock). The first who must
 * wait for such a row enters the holder's lock on its behalf (lock_enter_implicit), so that queues
 * are fair.
 *
 * Locks are kept by 64-bit hashes of their names: two names with one hash wait for each other
 * without need, and nothing worse.
 *
 * Requesting never blocks, so it can be done with the row's leaf latched, which makes looking at
 * the row and locking it one step. Who is queued gives its latches back and waits (lock_wait).
 *
 * Each waiter waits for one holder at a time, the nearest in its queue that conflicts, so a
 * deadlock is a cycle of single arrows, found by following them; arrows that change when a holder
 * goes are followed anew. (After the lock system of MySQL 8.0.18 and later.) The victim is the
 * transaction of the cycle that is cheapest to roll back.
 *
 * Any number of threads; an owner belongs to one thread at a time.
 */
#ifndef FIRN_TXN_LOCK_INTERNAL_H
#define FIRN_TXN_LOCK_INTERNAL_H

#include "base/clock.h"
#include "base/span.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lock_table;
struct lock; /* one owner's lock, held or waited for, on one name */

/** Weakest first. Intentions are for whole indexes only: "rows in here will be locked". */
enum lock_mode { LOCK_IS, LOCK_IX, LOCK_SHARED, LOCK_EXCLUSIVE };

/** What of a name is locked. */
enum lock_part {
    LOCK_WHOLE = 0,    /* the whole index; key is ignored */
    LOCK_ROW = 1,      /* the key */
    LOCK_GAP = 2,      /* the gap in front of the key; gap locks of any mode go together */
    LOCK_NEXT_KEY = 3, /* both */
    LOCK_INSERT = 4,   /* an insert into the gap: waits for others' gap locks and keeps nothing */
};

/** A name and what is wanted of it. */
struct lock_request {
    uint64_t index_id;
    struct span key;
    bool is_supremum; /* behind all keys; key is ignored */
    enum lock_part part;
    enum lock_mode mode;
};

enum lock_answer {
    LOCK_GRANTED, /* held now; of LOCK_INSERT: nothing is in the way */
    LOCK_HELD,    /* held before, as strongly: so not to be given back before the end */
    LOCK_QUEUED,  /* lock_wait */
    LOCK_REFUSED, /* somebody holds it and the request was not to wait */
};

struct lock_slab;

enum { LOCK_CYCLE_SHOWN = 6 }; /* transactions of a deadlock that an error's sentence names */

/** Who holds locks: a part of a transaction. Fields are the module's own, but for what is said. */
struct lock_owner {
    struct lock_table *table;
    _Atomic uint64_t id;     /* the transaction's, for people; the caller's to set */
    _Atomic uint64_t weight; /* what rolling back costs: undo records; the caller's to keep */

    _Atomic(struct lock *) first; /* all its locks; others may add some (lock_enter_implicit) */
    _Atomic uint64_t names;       /* a bit for each name that has a lock; many names share one */
    struct lock *spare;           /* memory for the next ones */
    struct lock_slab *slabs;

    /* A wait; lock_wait.c says what is under which mutex. */
    struct lock *waiting;
    struct lock *blocker;
    uint64_t wait_since_ns;
    _Atomic uint32_t word; /* futex: what has been told */
    uint32_t outcome;      /* what has been decided */
    uint32_t arrows_here;
    struct lock_owner *waits_for;
    struct lock_owner *told_next;
    uint64_t waited_for_id;
    uint64_t cycle[LOCK_CYCLE_SHOWN];
    uint32_t cycle_count;
};

struct lock_options {
    struct clock *clock;
    uint64_t memory_bytes; /* for locks, of all owners together; beyond it FIRN_E_NOMEM */
    bool deadlock_detect;  /* innodb_deadlock_detect; without it only the wait's limit ends one */
};

/** @param table  set on success; lock_table_close. FIRN_E_NOMEM */
firn_rc lock_table_open(const struct lock_options *options, struct lock_table **table);

/** No owner has locks. NULL is allowed. */
void lock_table_close(struct lock_table *table);

/** Begin an owner, whose memory is the caller's. */
void lock_owner_init(struct lock_owner *owner, struct lock_table *table);

/** End it; it holds nothing. Between transactions it need not be ended. */
void lock_owner_free(struct lock_owner *owner);

/**
 * Ask for a lock. Does not block; latches may be held. Those asked for before stand ahead in the
 * queue, whether granted or not, if they conflict; an owner's stronger lock covers a weaker one.
 * Who holds the row or the index already, and asks for more, goes ahead of those who wait.
 *
 * @param wait    false: LOCK_REFUSED instead of LOCK_QUEUED
 * @param answer  set on success
 * @return FIRN_OK; FIRN_E_NOMEM (the owner's locks are as before)
 */
firn_rc lock_request(struct lock_owner *owner, const struct lock_request *request, bool wait,
                     enum lock_answer *answer);

/**
 * Wait for what lock_request queued. No latch is held.
 *
 * @param limit_ns  from when it was asked for; UINT64_MAX: for ever. On the table's clock
 * @return FIRN_OK: it is held, or is to be asked for again (LOCK_INSERT keeps nothing: look at the
 *         gap again); FIRN_E_DEADLOCK: this owner was chosen as the victim; FIRN_E_LOCK_WAIT: the
 *         limit is over; FIRN_E_CANCELLED (lock_cancel). After an error the request is gone, and
 * the locks held before are still held. The sentence names the transactions waited for.
 */
firn_rc lock_wait(struct lock_owner *owner, uint64_t limit_ns);

/** End another thread's wait; if it does not wait, nothing happens. The owner does not end
 * meanwhile. So that none is missed, set a flag first that the owner's thread looks at between
 * lock_request and lock_wait. */
void lock_cancel(struct lock_owner *owner);

/** @return true if another owner's lock would make a request of this one wait. Cheap when nobody
 * has a lock there: one read of a shared word that is rarely written. */
bool lock_conflicts(struct lock_owner *owner, const struct lock_request *request);

/**
 * Enter a row lock for another owner, who has it implicitly, as granted: it has had it before
 * anybody who is in the queue. If it has it already nothing happens. The caller holds the row's
 * latch and sees to it that the holder does not end meanwhile.
 */
firn_rc lock_enter_implicit(struct lock_owner *holder, const struct lock_request *request);

/** Give back before the end what the same request was answered with LOCK_GRANTED for, or waited for
 * with success: a row that was locked to be looked at and does not match (read committed). */
void lock_release(struct lock_owner *owner, const struct lock_request *request);

/** Give all back, at the end; those who can go on are woken. */
void lock_release_all(struct lock_owner *owner);

/** @return true if there may be gap locks in an index: inserts then look at what is behind them. */
bool lock_gaps_exist(struct lock_table *table, uint64_t index_id);

/**
 * A key has come into a gap, or is about to go: gap locks must cover the same range as before. With
 * the leaf latched.
 *
 * @param key   what was inserted: gap locks on `next` get a twin on it; or
 * @param gone  true: what is being removed: its gap and next-key locks get a twin on `next`
 * @return FIRN_OK; FIRN_E_NOMEM: some have their twins, which do no harm; the key is to stay as it
 *         was
 */
firn_rc lock_inherit(struct lock_table *table, uint64_t index_id, struct span key, bool gone,
                     struct span next, bool next_is_supremum);

/** For people: each lock, held or waited for, a name's from the newest to the oldest. A name's
 * queue stands still while it is told, the table does not: do little. */
struct lock_info {
    uint64_t owner_id;
    uint64_t waits_for_id; /* 0: it is held; its own: it is about to go on or to leave */
    uint64_t index_id;
    uint64_t name_hash;
    enum lock_part part;
    enum lock_mode mode;
    uint64_t waited_ns;
};
typedef void lock_visit(const struct lock_info *info, void *context);
void lock_each(struct lock_table *table, lock_visit *visit, void *context);

/** What the table has counted. Any thread. */
struct lock_counters {
    uint64_t locks; /* there now */
    uint64_t requests;
    uint64_t waits;
    uint64_t wait_ns;
    uint64_t deadlocks;
    uint64_t timeouts;
};
void lock_counters(struct lock_table *table, struct lock_counters *counters);

/** @return a word for a mode or a part, as InnoDB's users know them: "X", "gap before rec". */
const char *lock_mode_name(enum lock_mode mode);
const char *lock_part_name(enum lock_part part);

#endif
