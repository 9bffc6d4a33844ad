/*
 * undo_internal.h -- what was there before: undo records in their own tablespaces.
 *
 * An undo tablespace is full of *segments*. A segment is a queue of pages: a transaction that
 * writes has one to itself, appends its log at the tail (a header, then records), and gives it back
 * at its end for the next transaction, whose log follows on the same page. Purge frees pages at the
 * head, when all logs on them are needed by nobody. Which segments there are, and their heads and
 * tails, is written in the tablespace's directory page, from which everything is found after a
 * crash.
 *
 * What is below the tail never changes, except for a log's header, and goes only when no snapshot
 * is open that is older than the log's end; so whoever has a roll pointer out of a row and an open
 * snapshot reads the record without a lock. Positions are not used twice within a log's life:
 * rolling back to a savepoint writes into the log's header which ones count no more.
 *
 * Records are appended in the mini-transaction that changes what they are about, so both are there
 * after a crash, or neither. FORMAT.md has the bytes.
 */
#ifndef FIRN_TXN_UNDO_INTERNAL_H
#define FIRN_TXN_UNDO_INTERNAL_H

#include "space/space.h"

struct undo_set;

/** Where a record stands; 0: nowhere. 56 bits: tablespace's ordinal (1 to 127), page number, offset
 * in it. */
typedef uint64_t undo_pointer;

enum {
    UNDO_SPACES_MAX = 127,
    UNDO_XID_MAX =
        140, /* bytes of a prepared transaction's name: XA's 128 and what goes with them */
    UNDO_HEADER_LOG_BYTES =
        512, /* at most what beginning or ending a log adds to a mini-transaction */
};

struct undo_options {
    struct space_set *spaces;
    struct buffer_pool *pool;
    unsigned tablespaces; /* innodb_undo_tablespaces: 2; more may be added later, none goes */
    bool create;          /* the environment is being made: there need be none yet */
};

/** What a transaction's log says about it. */
enum undo_state {
    UNDO_ACTIVE = 0,   /* after a crash: roll it back */
    UNDO_PREPARED = 1, /* after a crash: wait for somebody to decide */
    UNDO_COMMITTED = 2,
    UNDO_ROLLED_BACK = 3, /* nothing of it is to be purged */
};

/**
 * Open the undo tablespaces, and find the segments. After recovery of pages.
 *
 * Tablespaces that have been added to the options are made. One that there was is never made anew:
 * what it knew would be lost. Reads the directories, and a few pages of each segment, however long
 * its history.
 *
 * @param mtr  the caller's, not begun
 * @param set  set on success; undo_close
 * @return FIRN_OK; FIRN_E_CORRUPT naming page and file, or the tablespace that is missing;
 *         FIRN_E_INVALID (number of tablespaces); FIRN_E_NOSPACE, ...
 */
firn_rc undo_open(const struct undo_options *options, struct mtr *mtr, struct undo_set **set);
/** Make tablespaces until there are so many, at most UNDO_SPACES_MAX; before anybody else uses the
 * set. FIRN_E_NOSPACE, ... */
firn_rc undo_extend(struct undo_set *set, struct mtr *mtr, unsigned tablespaces);

/** Nobody uses it any more; logs that have not ended stay so. NULL is allowed. */
void undo_close(struct undo_set *set);

/** @return the id at which drawing begins after an opening: above all that rows say. */
uint64_t undo_first_id(const struct undo_set *set);

/** Make sure that the log knows, before a record says it, that this id has been drawn. One write in
 * 65,536 ids. No latch is held. */
firn_rc undo_cover_id(struct undo_set *set, struct mtr *mtr, uint64_t id);

/** @return the newest commit number that a log says. */
uint64_t undo_last_number(const struct undo_set *set);

/* ---- Writing: one transaction's log ---- */

struct undo_segment;

/** A log being written, a part of its transaction. Fields are the module's own, except those with a
 * comment. */
struct undo_log {
    struct undo_set *set;
    struct undo_segment *segment; /* NULL: nothing has been written yet */
    uint64_t txn_id;
    undo_pointer header;
    undo_pointer last; /* the newest record that counts; 0: none. What rolling back begins with */
    uint64_t records;  /* written so far */
    uint32_t tail_page;
    uint32_t tail_offset;
    bool is_written; /* something of it is in a page: it must be marked before it ends */
    bool has_ended;
    bool has_work; /* to be set by the caller before finishing: purge must read the records */
};

/** Begin a log for a transaction: takes a segment, makes one if none is free. Its header is written
 * with the first record. No latch is held.
 *
 * @return FIRN_OK; FIRN_E_BUSY (all segments are in use; a tablespace has room for as many as the
 *         directory page has slots, 1020 of them on 16 KiB); FIRN_E_NOSPACE, ...; log is not set
 */
firn_rc undo_begin(struct undo_set *set, struct mtr *mtr, uint64_t txn_id, struct undo_log *log);

/** Make sure that the next record, of so many bytes, fits: may add a page, in a mini-transaction of
 * its own. No latch is held. FIRN_E_INVALID if no page takes so many (undo_record_max). */
firn_rc undo_make_room(struct undo_log *log, struct mtr *mtr, size_t record_bytes);

/** @return where the next record of so many bytes will stand; 0: there is no room, give latches
 * back and call undo_make_room */
undo_pointer undo_place(const struct undo_log *log, size_t record_bytes);

/** Append a record where undo_place said, in the mini-transaction that changes what it is about,
 * which has been begun with undo_append_log_bytes for it. Latches the tail page: behind all index
 * pages. On failure nothing is changed. */
firn_rc undo_append(struct undo_log *log, struct mtr *mtr, struct span record);

/** @return the largest record, and what appending one of so many bytes adds to the log. */
size_t undo_record_max(uint32_t page_size_bytes);
size_t undo_append_log_bytes(size_t record_bytes);

/** From now on only what was there at `last` counts (a savepoint's, 0 for all of it): what came
 * later has been undone. Also in the course of rolling back, so that after a crash less is left to
 * be looked at. Needs no room: undoing works on a full disk. No latch is held. */
firn_rc undo_rewind(struct undo_log *log, struct mtr *mtr, undo_pointer last);

/** Latch the page of the log's header, if there is one, in a mini-transaction begun with
 * UNDO_HEADER_LOG_BYTES at least. undo_mark then neither waits nor fails, except for UNDO_PREPARED:
 * so that commits can be numbered between the two. On failure nothing is changed. */
firn_rc undo_latch_header(struct undo_log *log, struct mtr *mtr);

/** Write the state, in a mini-transaction begun by the caller with UNDO_HEADER_LOG_BYTES at least,
 * which he commits: so that more can go with it. Latches pages of undo, if undo_latch_header has
 * not done so. On failure nothing is changed.
 *
 * A log of which nothing is written stays so, except for UNDO_PREPARED, for which the caller makes
 * room for the name first (undo_make_room, UNDO_XID_MAX). UNDO_ACTIVE is for a prepared transaction
 * that is to be rolled back, before the first of its changes is undone: half undone it must not be
 * committed any more.
 *
 * @param number  of UNDO_COMMITTED: the commit number; of UNDO_ROLLED_BACK: the newest there is
 *                (readers may hold pointers into the log)
 * @param xid     of UNDO_PREPARED: at most UNDO_XID_MAX */
firn_rc undo_mark(struct undo_log *log, struct mtr *mtr, enum undo_state state, uint64_t number,
                  struct span xid);

/** Give the segment back, after the mini-transaction that marked the end has been committed. A log
 * without records costs nothing. */
void undo_end(struct undo_log *log);

/* ---- Reading ---- */

/** Memory for a record that is being looked at; zeroed at first. */
struct undo_buffer {
    uint8_t *bytes;
    size_t capacity_bytes;
};
void undo_buffer_free(struct undo_buffer *buffer);

/**
 * Read a record.
 *
 * @param record    set on success; in the buffer
 * @param previous  the record before it in its log that counts; 0: it is the first. May be NULL
 * @return FIRN_OK; FIRN_E_CORRUPT; FIRN_E_IO, FIRN_E_NOMEM
 */
firn_rc undo_read(struct undo_set *set, undo_pointer pointer, struct undo_buffer *buffer,
                  struct span *record, undo_pointer *previous);

/* ---- After a crash ---- */

/** A log that has not ended, found at opening. */
struct undo_unfinished {
    uint64_t txn_id;
    enum undo_state state; /* ACTIVE or PREPARED */
    uint8_t xid[UNDO_XID_MAX];
    size_t xid_bytes;
};

/** Call a function once for each, with the log to go on with: it is the function's to copy and, in
 * the end, to mark and end. Stops at its first failure; those not handed out yet come in the next
 * call. records is 0: nobody has counted. */
typedef firn_rc undo_unfinished_visit(const struct undo_unfinished *found,
                                      const struct undo_log *log, void *context);
firn_rc undo_each_unfinished(struct undo_set *set, undo_unfinished_visit *visit, void *context);

/* ---- Purge ---- */

/** A segment's oldest finished log. */
struct undo_finished {
    uint64_t txn_id;
    uint64_t number;
    bool has_work;     /* committed, and its records are to be looked at */
    undo_pointer last; /* begin there, go on by `previous` */
};

/** Segments are purged each on its own, by one thread at a time: @return how many numbers, from 0,
 * they have now; some may have been given up. */
unsigned undo_segment_count(const struct undo_set *set);

/** Look at a segment's oldest log. FIRN_E_NOT_FOUND without an error text: it has none that has
 * ended. Claims the segment's head until undo_purge_done or undo_purge_leave. FIRN_E_BUSY,
 * likewise: another thread has claimed it. */
firn_rc undo_purge_first(struct undo_set *set, unsigned segment, struct undo_finished *finished);

/** That log is needed by nobody: go on behind it, freeing pages that have no other. Gives the head
 * back in any case; on failure the log is passed all the same, and pages are freed later. After a
 * crash logs on a page that has not been freed are seen again.
 *
 * undo_purge_leave gives the head back and leaves the log where it is. */
firn_rc undo_purge_done(struct undo_set *set, struct mtr *mtr, unsigned segment);
void undo_purge_leave(struct undo_set *set, unsigned segment);

/**
 * Give back to the file system what is free at the ends of the files; segments that are empty and
 * in the way are given up first. Takes a checkpoint for each file that is larger than asked.
 *
 * @param min_bytes  files that are no larger are left (innodb_max_undo_log_size)
 * @param pages      set on success: how many were given back
 * @return FIRN_OK; FIRN_E_BUSY: later; FIRN_E_IO, ...
 */
firn_rc undo_truncate(struct undo_set *set, struct mtr *mtr, uint64_t min_bytes, uint64_t *pages);

struct undo_counters {
    uint64_t segments;
    uint64_t segments_in_use;
    uint64_t pages; /* of segments */
    uint64_t file_bytes;
    uint64_t records; /* appended since opening */
    uint64_t record_bytes;
    uint64_t logs; /* ended and not yet purged: the history list length; exact, though after a crash
                      those count again that are seen again */
};
/** @return FIRN_OK, or what reading a tablespace's first page returned. Any thread. */
firn_rc undo_counters(struct undo_set *set, struct undo_counters *counters);

/** Who is told what undo_check finds. */
struct undo_check_visitor {
    void (*problem)(const char *problem, void *context);
    void (*seen)(uint32_t space, uint32_t page_no, void *context);
    void (*record)(struct span record, void *context); /* of logs that are not purged, in no order;
                                                          with those that were undone; or NULL */
    void *context;
};

/** Judge directory, segments, logs and records of all undo tablespaces, while nobody writes to
 * them: chains, offsets, states; each page seen is told, for the accounting of pages. */
firn_rc undo_check(struct undo_set *set, const struct undo_check_visitor *visitor);

#endif
