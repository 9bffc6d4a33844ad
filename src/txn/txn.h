/*
 * txn.h -- transactions over trees: many changes that are one, and reading at one moment.
 *
 * A session belongs to one thread at a time and has at most one transaction open. Between
 * txn_begin and its end all calls are part of it; what they return stays valid until the session's
 * next call. Any tree may be used whose values are versions (btree_set_head with
 * TXN_HEAD_BYTES); what is read and put here is the payload behind that head.
 *
 * README.md has the rules that isolation, crash safety and purge stand on.
 */
#ifndef FIRN_TXN_TXN_H
#define FIRN_TXN_TXN_H

#include "base/clock.h"
#include "btree/btree.h"

struct txn_set;     /* the transactions of an environment */
struct txn_session; /* a thread's way in */

enum {
    TXN_HEAD_BYTES = 14, /* a version's header: a large value keeps it in its leaf */
    TXN_XID_MAX = 140,   /* bytes of a prepared transaction's name */
};

enum txn_isolation {
    TXN_READ_COMMITTED,  /* each statement sees what is committed when it begins */
    TXN_REPEATABLE_READ, /* snapshot isolation: one moment; who changes what was changed since gets
                            FIRN_E_CONFLICT */
    TXN_SERIALIZABLE,    /* what is read is locked as well, gaps included */
};

/** How a tree is found again by its id: for rolling back and purging. */
struct txn_trees {
    /** @return FIRN_OK; FIRN_E_NOT_FOUND without an error text: it was dropped, and what is logged
     * about it is passed over; failures. The tree stays open until release. */
    firn_rc (*find)(uint64_t index_id, struct btree **tree, void *context);
    void (*release)(struct btree *tree, void *context);
    void *context;
};

/**
 * Who writes down what transactions do to rows, in the order in which they commit: the binary log.
 *
 * A recording is one transaction's, made when it is first asked for; it is used by one thread at a
 * time. Where nothing is said it is called without latches, and a failure fails what was asked for.
 */
struct txn_recorder {
    /** Before a row is changed: is its index recorded? Then make room. */
    firn_rc (*prepare_row)(uint64_t txn_id, uint64_t index_id, void **recording, bool *is_recorded,
                           void *context);
    /** What a key's payload becomes; NULL: no row. With the leaf latched, maybe more than once; it
     * counts when it is kept. */
    firn_rc (*row)(void *recording, uint64_t index_id, struct span key, const struct span *before,
                   const struct span *after);
    void (*keep_row)(void *recording, bool keep);
    /** A statement, as it is to be executed again. */
    firn_rc (*text)(uint64_t txn_id, struct span text, void **recording, void *context);
    /** A savepoint, and back to it. */
    uint64_t (*mark)(const void *recording);
    void (*rewind)(void *recording, uint64_t mark);
    /** The transaction is rolled back; or its set is closed, and it stays prepared. The recording
     * is gone. */
    void (*drop)(void *recording);
    void (*leave)(void *recording);
    /** Make it survive crashes, and find it again; NULL: there is none. */
    firn_rc (*prepare)(void *recording);
    firn_rc (*adopt)(uint64_t txn_id, void **recording, void *context);
    /** Before a commit: @param log_bytes  set: what `note` adds to the commit's mini-transaction;
     * 0: there is nothing to be noted */
    firn_rc (*begin_commit)(void *recording, size_t *log_bytes);
    /** In the commit's mini-transaction, while nobody else can commit; neither waits nor fails. */
    void (*note)(void *recording, struct mtr *mtr);
    /** Likewise, behind it. The recording is gone. */
    void (*end_commit)(void *recording, bool is_committed, uint64_t end_lsn);
    /** NULL: as above. Otherwise instead of the last two, after begin_commit, for a prepared
     * transaction: write it down durably, have it committed in that order. The recording is gone.
     * On failure nobody knows whether it has been written down. */
    firn_rc (*in_order)(void *recording, firn_rc (*commit)(void *context), void *context_of_commit);
    void *context;
};

struct txn_options {
    const struct btree_base *base;
    struct clock *clock; /* of lock waits */
    struct txn_trees trees;
    const struct txn_recorder *recorder; /* or NULL; outlives the set */
    bool create;                         /* a new environment: there are no undo tablespaces yet */
    unsigned undo_tablespaces;           /* 2 */
    uint64_t lock_memory_bytes;          /* 64 MiB */
    uint64_t lock_wait_limit_ns;         /* 50 s; a session may have another */
    uint64_t undo_max_bytes;             /* purge shrinks undo files above it: 1 GiB */
    unsigned purge_threads;              /* 2; 0: txn_tick does it */
    enum redo_flush flush;               /* flush_log_at_commit; a session may have another */
    bool deadlock_detect;                /* true */
};

/** Set the defaults; base and trees are still missing. */
void txn_options_init(struct txn_options *options);

/**
 * Open: find what a crash left unfinished. Unless `create`, nothing is written: whoever opens an
 * environment finds out here whether its undo tablespaces are whole.
 *
 * @param set  set on success; txn_close
 * @return FIRN_OK; FIRN_E_CORRUPT, FIRN_E_NOSPACE, ... from the undo tablespaces
 */
firn_rc txn_open(const struct txn_options *options, struct txn_set **set);

/**
 * Begin: undo tablespaces are made until there are as many as the options say, and purge threads
 * started. Afterwards sessions may be opened; transactions that were active at a crash are rolled
 * back in the background (or by txn_tick), and hold their rows until then.
 *
 * @return FIRN_OK; FIRN_E_NOSPACE, ...
 */
firn_rc txn_start(struct txn_set *set);

/** End; all sessions are closed. Prepared transactions stay prepared; what purge has not done stays
 * for the next opening. NULL is allowed. */
void txn_close(struct txn_set *set);

/** For environments without background threads: roll back what a crash left, purge, shrink. */
firn_rc txn_tick(struct txn_set *set);

/** Wait until what a crash left active has been rolled back, or do it here. */
firn_rc txn_settle(struct txn_set *set);

/* ---- Sessions and transactions ---- */

/** @param session  set on success; txn_session_close. FIRN_E_NOMEM */
firn_rc txn_session_open(struct txn_set *set, struct txn_session **session);

/** Rolls back what is open. NULL is allowed. */
void txn_session_close(struct txn_session *session);

/** For what this header lacks; owned by the session. */
struct btree_session *txn_session_btree(struct txn_session *session);

/** How far its commits go, and how long it waits for a lock; from now on. */
void txn_session_set_flush(struct txn_session *session, enum redo_flush flush);
void txn_session_set_lock_wait(struct txn_session *session, uint64_t limit_ns);

/** Have reads that lock see what is there now, whatever the snapshot sees, under repeatable read:
 * for what must hold of the present, such as foreign keys. What is locked so may still be refused
 * with FIRN_E_CONFLICT when it is changed. */
void txn_session_see_present(struct txn_session *session, bool sees_present);

/** End the wait for a lock of a session that another thread is in: that call returns
 * FIRN_E_CANCELLED. A call that does not wait, or not any more, goes on. The session is not closed
 * meanwhile. */
void txn_session_cancel(struct txn_session *session);

/** Begin. FIRN_E_MISUSE when a transaction is open. Costs nothing until it reads or writes. */
firn_rc txn_begin(struct txn_session *session, enum txn_isolation isolation, bool read_only);

/** Take the snapshot now instead of at the first read (START TRANSACTION WITH CONSISTENT SNAPSHOT).
 */
firn_rc txn_take_snapshot(struct txn_session *session);

/** See what another session's transaction, which is open and has a snapshot, sees: threads of a
 * dump. Both begun with TXN_REPEATABLE_READ. */
firn_rc txn_share_snapshot(struct txn_session *session, const struct txn_session *other);

/** @return true between txn_begin and the transaction's end. */
bool txn_is_open(const struct txn_session *session);

/** @return the id, 0 before the first write. */
uint64_t txn_id(const struct txn_session *session);

/**
 * Commit. The transaction is over on return, unless FIRN_E_MISUSE (none is open).
 *
 * @return FIRN_OK: durable as the flush mode says; FIRN_E_STOPPED: the log has failed, and whether
 * it is committed is known after the next opening; FIRN_E_IO, ...: it could not be, and was rolled
 *         back
 */
firn_rc txn_commit(struct txn_session *session);

/** Roll back. The transaction is over on return; if undoing failed (FIRN_E_IO, ...) it is gone on
 * with in the background, and its rows stay locked until it is done. */
firn_rc txn_rollback(struct txn_session *session);

/** A point to come back to. Valid until its transaction ends or is rolled back to an earlier one.
 */
struct txn_savepoint {
    uint64_t last;
    uint64_t recorded;
};
firn_rc txn_savepoint(struct txn_session *session, struct txn_savepoint *savepoint);

/** Undo what was done since; the transaction lives on, and what it has locked or changed stays
 * locked (rows changed since as far as there is memory for locks; under serializable FIRN_E_NOMEM
 * beyond that). After an error it is to be rolled back. */
firn_rc txn_rollback_to(struct txn_session *session, const struct txn_savepoint *savepoint);

/** Have a statement written down, as a text, with what the transaction does (struct txn_recorder).
 */
firn_rc txn_record_text(struct txn_session *session, struct span text);

/** Begin a statement: under read committed what is committed by now is seen from here on. */
firn_rc txn_statement(struct txn_session *session);

/* ---- Two-phase commit ---- */

/**
 * Prepare: from now on it survives crashes and can be committed or rolled back by anybody who knows
 * its name. The session has no transaction open afterwards.
 *
 * @param xid  1 to TXN_XID_MAX bytes, unique among prepared ones
 * @return FIRN_OK: durable; FIRN_E_EXISTS (name), FIRN_E_INVALID (size): it is open as before;
 * failures: as txn_commit
 */
firn_rc txn_prepare(struct txn_session *session, struct span xid);

/** Commit or roll back a prepared transaction, in a session that has none open.
 * FIRN_E_NOT_FOUND: no such name; FIRN_E_BUSY: somebody else does it just now */
firn_rc txn_commit_prepared(struct txn_session *session, struct span xid);
firn_rc txn_rollback_prepared(struct txn_session *session, struct span xid);

/** Commit one that has been written down before (struct txn_recorder): that is not done again. */
firn_rc txn_commit_recorded(struct txn_session *session, struct span xid);

/** @return whether a name is one of those that transactions get while they are committed in the
 * order in which they are written down; a crash may leave them prepared. */
bool txn_xid_is_own(struct span xid);

/** Call a function for each prepared transaction (XA RECOVER); it calls nothing here. @return
 * FIRN_OK, or what it returned */
typedef firn_rc txn_prepared_visit(struct span xid, uint64_t id, void *context);
firn_rc txn_each_prepared(struct txn_set *set, txn_prepared_visit *visit, void *context);

/* ---- Keys ---- */

/** How a read locks what it reads. Serializable makes NONE a SHARED. */
enum txn_lock { TXN_LOCK_NONE, TXN_LOCK_SHARED, TXN_LOCK_EXCLUSIVE };
/** What it does about others' locks. A cursor passes by the rows that are to be skipped; of a
 * single key it is FIRN_E_BUSY. */
enum txn_wait { TXN_WAIT, TXN_NOWAIT, TXN_SKIP_LOCKED };

/**
 * Get a payload, as of the snapshot; with a lock, as it is now.
 *
 * @param payload  set on success; valid until the session's next call
 * @return FIRN_OK; FIRN_E_NOT_FOUND without an error text; with a lock: FIRN_E_CONFLICT,
 * FIRN_E_DEADLOCK, FIRN_E_LOCK_WAIT, FIRN_E_BUSY (TXN_NOWAIT; TXN_SKIP_LOCKED, without an error
 * text), FIRN_E_CANCELLED; FIRN_E_CORRUPT, FIRN_E_IO, FIRN_E_NOMEM
 */
firn_rc txn_get(struct txn_session *session, struct btree *tree, struct span key,
                enum txn_lock lock, enum txn_wait wait, struct span *payload);

/**
 * Decide about a key whose present row the transaction may change, in one step with changing it.
 * As btree_decide: called with the leaf latched, maybe more than once, only the last call counts.
 *
 * @param old      the payload that is there now, or NULL
 * @param payload  the new one, to be set for BTREE_PUT; valid until the operation ends
 */
typedef enum btree_action txn_decide(const struct span *old, struct span *payload, firn_rc *rc,
                                     void *context);

/**
 * Read, decide and write one key. Waits for whoever has it locked.
 *
 * @return FIRN_OK; what decide set; FIRN_E_CONFLICT, FIRN_E_DEADLOCK: roll the transaction back;
 * FIRN_E_LOCK_WAIT, FIRN_E_CANCELLED: only this call has failed; FIRN_E_MISUSE (none open, or read
 * only); FIRN_E_INVALID (key too long); FIRN_E_NOSPACE, FIRN_E_STOPPED, FIRN_E_CORRUPT, FIRN_E_IO,
 * FIRN_E_NOMEM. After an error but STOPPED this call has changed nothing
 */
firn_rc txn_change(struct txn_session *session, struct btree *tree, struct span key,
                   txn_decide *decide, void *context);

/** FIRN_E_EXISTS, without an error text, if the key is there. */
firn_rc txn_insert(struct txn_session *session, struct btree *tree, struct span key,
                   struct span payload);
firn_rc txn_put(struct txn_session *session, struct btree *tree, struct span key,
                struct span payload);
/** FIRN_E_NOT_FOUND, without an error text, if it is not. */
firn_rc txn_delete(struct txn_session *session, struct btree *tree, struct span key);

/* ---- Cursors ----
 *
 * As those of btree.h, over what the transaction sees. They end with it. What it changes itself
 * while one is open, the cursor sees after the next seek, before that perhaps; what it has undone,
 * not any more. A scan with locks also locks the row behind its range, which it has to look at. */

struct txn_cursor;

/** @param cursor  set on success; txn_cursor_close, before the transaction ends. FIRN_E_MISUSE
 * (none is open), FIRN_E_NOMEM */
firn_rc txn_cursor_open(struct txn_session *session, struct btree *tree, enum txn_lock lock,
                        enum txn_wait wait, struct txn_cursor **cursor);
void txn_cursor_close(struct txn_cursor *cursor);

/** Move, as btree_cursor_seek, _next and _prev do, to rows that the transaction sees; locks what it
 * comes to as it was opened to. FIRN_E_NOT_FOUND without an error text: there is none; with locks
 * the errors of txn_get; TXN_SKIP_LOCKED passes over rows that others have locked. */
firn_rc txn_cursor_seek(struct txn_cursor *cursor, enum btree_seek seek, struct span key);
firn_rc txn_cursor_next(struct txn_cursor *cursor);
firn_rc txn_cursor_prev(struct txn_cursor *cursor);

/** The row it stands on: the key until it moves, the payload until the session's next call. */
struct span txn_cursor_key(struct txn_cursor *cursor);
firn_rc txn_cursor_payload(struct txn_cursor *cursor, struct span *payload);

/* ---- Judging ---- */

/** Who is told what txn_check finds. */
struct txn_check_visitor {
    void (*problem)(const char *problem, void *context);
    /** A page of an undo tablespace that belongs to a log or leads to one. */
    void (*undo_page)(uint32_t space, uint32_t page_no, void *context);
    /** A page of a large value that an older version of a row needs. Some are told that the tree
     * reaches, too: what refers to them was undone. */
    void (*kept_page)(uint64_t index_id, uint32_t page_no, void *context);
    void *context;
    const struct txn_trees *trees; /* to find trees with; NULL: as always */
};

/** Judge the undo tablespaces, while no transaction is open. Purge stands still meanwhile.
 * @return FIRN_OK; FIRN_E_CORRUPT when problems were told; FIRN_E_NOMEM, FIRN_E_IO */
firn_rc txn_check(struct txn_set *set, const struct txn_check_visitor *visitor);

/** Have purge stand still, and let it go on: txn_check and whatever else walks through trees that
 * nobody may change meanwhile. */
void txn_pause(struct txn_set *set);
void txn_resume(struct txn_set *set);

/** @return the owner that space_each_page tells for pages of undo. */
#define TXN_UNDO_OWNER (UINT64_MAX - 2)

/* ---- Numbers ---- */

struct txn_counters {
    uint64_t commits;
    uint64_t rollbacks;
    uint64_t history;    /* logs not yet purged: the history list length */
    uint64_t undo_bytes; /* of the undo files */
    uint64_t purged;     /* logs */
    uint64_t purged_keys;
    uint64_t locks;
    uint64_t lock_waits;
    uint64_t lock_wait_ns;
    uint64_t deadlocks;
    uint64_t lock_timeouts;
    uint64_t oldest_snapshot_age_ns;  /* 0: none is open */
    uint64_t oldest_snapshot_behind;  /* commits since it was taken */
    uint64_t oldest_snapshot_session; /* whose it is */
};
/** Tell the counters. Any thread; each is right, though not all of the same instant. */
void txn_counters(struct txn_set *set, struct txn_counters *counters);

#endif
