/*
 * txn_internal.h -- a transaction, its session, and the environment's set of them.
 */
#ifndef FIRN_TXN_TXN_INTERNAL_H
#define FIRN_TXN_TXN_INTERNAL_H

#include "txn/lock_internal.h"
#include "txn/snapshot_internal.h"
#include "txn/undo_internal.h"
#include "txn/version_internal.h"

#include <pthread.h>

/** Not an error: let go of all latches, see to what was found missing, begin again. It passes
 * through src/btree as an error does, and never leaves this folder. */
#define TXN_AGAIN ((firn_rc)-1000)

enum txn_state {
    TXN_ACTIVE,
    TXN_PREPARED,   /* survives; nobody's but the set's */
    TXN_UNFINISHED, /* to be rolled back by the set: a crash or a failed rollback left it */
};

/** Somebody's changes. It outlives its session when it is prepared. */
struct txn {
    struct txn_set *set;
    struct txn *next;      /* in its bucket of the open ones, while it has an id */
    struct txn *next_left; /* in the set's list of prepared or unfinished ones */
    struct lock_owner locks;
    struct undo_log log;
    uint64_t id;          /* 0: it has not written */
    enum txn_state state; /* once it has an id */
    bool is_taken;        /* prepared: somebody is deciding about it */
    void *recording;      /* options.recorder's; NULL: none */
    uint8_t xid[TXN_XID_MAX];
    size_t xid_bytes;
};

struct txn_session {
    struct txn_set *set;
    struct txn_session *next; /* all of the set's */
    struct txn_session *previous;
    struct btree_session *tree;
    struct snapshot *snapshot;
    uint64_t views;  /* grows when copies of leaves become stale: a new snapshot, changes undone */
    struct txn *txn; /* NULL: none is open */
    struct txn *spare; /* for the next one */
    uint64_t number;   /* for people: which session this is */
    enum txn_isolation isolation;
    bool read_only;
    bool sees_present; /* txn_session_see_present */
    enum redo_flush flush;
    uint64_t lock_wait_limit_ns;

    /* Another thread may want a wait to end. */
    pthread_mutex_t cancel_mutex;
    atomic_bool is_cancelled;   /* the call under way, or nothing */
    struct lock_owner *waiting; /* under the mutex, while it waits */

    /* Scratch, so that operations allocate nothing once they have run. */
    struct undo_buffer record; /* an undo record that is read */
    struct version_cell cell;  /* a version that is worked out */
    struct version_cell put;   /* a value that is put */
    uint8_t *undo;             /* an undo record that is written */
    size_t undo_capacity_bytes;
};

enum { TXN_OPEN_BUCKETS = 256 };

/** Transactions with ids that have not ended, by id: where a lock is entered on a holder's behalf.
 */
struct txn_bucket {
    pthread_mutex_t mutex;
    struct txn *first;
};

struct txn_set {
    struct txn_options options;
    struct btree_base base;
    uint32_t page_size_bytes;
    struct lock_table *locks;
    struct snapshot_set *snapshots;
    struct undo_set *undo;
    struct txn_bucket open[TXN_OPEN_BUCKETS];

    pthread_mutex_t mutex; /* sessions, `left`, and the purge threads' sleep */
    pthread_cond_t wake;
    struct txn_session *sessions;
    struct txn *left; /* prepared and unfinished ones */
    uint64_t session_count;
    unsigned pauses;  /* purge stands still */
    unsigned workers; /* threads that purge or roll back just now */
    pthread_cond_t idle;
    bool stops;

    struct purge *purge;

    _Alignas(64) atomic_ulong commits;
    atomic_ulong rollbacks;
    _Alignas(64) atomic_ulong purged;
    atomic_ulong purged_keys;
};

/* ---- txn.c: beginnings and ends ---- */

/** Make a transaction of a set. FIRN_E_NOMEM */
firn_rc txn_new(struct txn_set *set, struct txn **txn);
void txn_free(struct txn *txn);

/** Give the session's open transaction an id and a log, if it has none. No latch is held. */
firn_rc txn_give_id(struct txn_session *session);

/** The same before it writes: FIRN_E_MISUSE if none is open, or it may only read. */
firn_rc txn_make_writer(struct txn_session *session);

/** Take a snapshot if the session's transaction has none: before it reads. */
void txn_see(struct txn_session *session);

/** Enter a transaction with an id among the open ones, and take it out. */
void txn_enter(struct txn *txn);
void txn_leave(struct txn *txn);

/** Mark the end in the log and publish it; the locks go, the segment is given back. What is left is
 * the memory. @param end_lsn set: where the log has to be flushed to */
firn_rc txn_finish(struct txn *txn, struct mtr *mtr, enum undo_state state, uint64_t *end_lsn);

/* ---- record.c ---- */

/** @return who has the transaction's recording; NULL: there is none. */
const struct txn_recorder *txn_recorder_of(const struct txn *txn);

/** What it did is not to be written down. */
void txn_drop_recording(struct txn *txn);

/** txn_finish of one that commits, in the order in which it is written down, if that is asked for.
 * @param end_lsn  0: it is durable already */
firn_rc txn_finish_committed(struct txn *txn, struct mtr *mtr, uint64_t *end_lsn);

/** Write into the log that the transaction is prepared (prepare.c). */
firn_rc txn_mark_prepared(struct txn *txn, struct mtr *mtr, struct span xid, uint64_t *end_lsn);

/** Put a transaction that nobody's session has among those left, and take it from there. */
void txn_put_aside(struct txn *txn);
void txn_take_back(struct txn *txn);

/* ---- visible.c: locks that rows say, and versions ---- */

/** Ask for an explicit lock; latches may be held. @return FIRN_OK: it is held; TXN_AGAIN:
 * txn_wait_for_lock; FIRN_E_BUSY without an error text (it is not to wait); FIRN_E_NOMEM */
firn_rc txn_request(struct txn_session *session, const struct lock_request *wanted,
                    enum txn_wait wait);

/** What a transaction wants of a row. */
struct txn_want {
    enum lock_mode mode; /* LOCK_SHARED or LOCK_EXCLUSIVE */
    bool is_kept; /* an explicit lock, held to the end; else the row is about to say whose it is */
    enum txn_wait wait;
};

/**
 * May the session's transaction have a row, as its version and the locks say? With the row's leaf
 * latched. Enters what it has to wait for.
 *
 * @param version  what is there, or NULL
 * @return FIRN_OK: it may; TXN_AGAIN: txn_wait_for_lock; FIRN_E_CONFLICT; FIRN_E_BUSY without an
 * error text (it is locked, and the wish is not to wait), FIRN_E_NOMEM
 */
firn_rc txn_claim(struct txn_session *session, uint64_t index_id, struct span key,
                  const struct version *version, const struct txn_want *want);

/** The gap that a key comes into or goes from: what a decision about it has found out. */
struct txn_gap {
    bool is_known; /* only asked about while anybody locks gaps in the index */
    bool is_supremum;
    struct span next; /* the key behind it, valid until the operation ends */
};

/** While deciding about a key that will come or go, its leaf latched: find out what is behind it,
 * if somebody locks gaps in the index. @return FIRN_OK; what btree_next_key returns, to be passed
 * on */
firn_rc txn_look_behind(struct txn_session *session, uint64_t index_id, struct txn_gap *gap);

/** Just before it comes or goes: gap locks come to cover what they covered. @return FIRN_OK;
 * TXN_AGAIN: somebody has locked a gap since the decision; FIRN_E_NOMEM */
firn_rc txn_move_gap(struct txn_session *session, uint64_t index_id, struct span key, bool goes,
                     const struct txn_gap *gap);

/** Wait for what txn_claim entered. */
firn_rc txn_wait_for_lock(struct txn_session *session);

/**
 * Find the version that the session's snapshot sees.
 *
 * @param cell   the newest version's cell, as it is in the leaf; any bytes that stay there
 * @param seen   set on success: the cell seen; points to `cell`'s bytes or the session's
 * @return FIRN_OK; FIRN_E_NOT_FOUND without an error text: there is no such row for it
 */
firn_rc txn_version(struct txn_session *session, uint64_t index_id, struct span key,
                    struct span cell, bool is_large, struct span *seen, bool *seen_is_large);

/** The payload of a cell that txn_version found; reads a large one. */
firn_rc txn_payload(struct txn_session *session, struct btree *tree, struct span cell,
                    bool is_large, struct span *payload);

/* ---- read.c ---- */

/** Look at a row with its leaf latched and lock it, waiting as wished.
 *
 * @param absent  a key that is not there is locked, too, so that it does not come (serializable)
 * @param cell    set to a copy of what is there
 * @return FIRN_OK; FIRN_E_NOT_FOUND without an error text: no row there now; as txn_get */
firn_rc txn_lock_row(struct txn_session *session, struct btree *tree, struct span key,
                     enum lock_mode mode, enum txn_wait wait, bool absent,
                     struct version_cell *cell);

/** Lock the gap behind a key, up to the next one.
 *
 * @param next  set: a copy of the next key
 * @return FIRN_OK; FIRN_E_NOT_FOUND without an error text: there is none, the gap goes to the end
 */
firn_rc txn_lock_gap(struct txn_session *session, struct btree *tree, struct span key,
                     struct version_cell *next);

/** How a read locks: what was asked for, or what isolation makes of it. */
enum txn_lock txn_read_lock(const struct txn_session *session, enum txn_lock lock);

/* ---- rollback.c ---- */

/** Undo the records of a log from its newest back to where `last` was the newest.
 * @param keeps_locks  the transaction lives on, and what it had changed stays locked */
firn_rc txn_undo_to(struct txn_session *session, struct txn *txn, undo_pointer last,
                    bool keeps_locks);

/** Roll back wholly and finish. On failure it is as far as it came; call it again. */
firn_rc txn_undo_all(struct txn_session *session, struct txn *txn);

/* ---- purge.c ---- */

/** Start as many threads as the set's options say, and end them. FIRN_E_INVALID, FIRN_E_NOMEM */
firn_rc purge_open(struct txn_set *set, struct purge **purge);
void purge_close(struct purge *purge);

/** Purge what may be purged now. @param session  the caller's, with no transaction open */
firn_rc purge_round(struct txn_set *set, struct txn_session *session, bool *did_something);

#endif
