/*
 * binlog.h -- the binary log: what transactions did to rows, in the order in which they committed.
 *
 * A transaction's events are collected beside it, and written into the redo log with its commit
 * record: so a commit needs no sync but that of the redo log, and the order of the binary log is
 * the order of commits. The files, binlog.000001 and so on, are laid out from there, by a thread or
 * when binlog_tick is called; until they are synced the redo log's checkpoint is held back, and
 * recovery lays out again what they lack. With binlog_sync=separate it is done as servers did
 * before: prepare, sync, write and sync the binary log, commit in its order.
 *
 * README.md argues why nothing is lost, doubled or out of order.
 */
#ifndef FIRN_BINLOG_BINLOG_H
#define FIRN_BINLOG_BINLOG_H

#include "io/io.h"
#include "page/change.h"
#include "redo/redo.h"
#include "txn/txn.h"

struct binlog;

enum { BINLOG_NAME_MAX = 255 }; /* bytes of a tree's name */

/**
 * Tell what a tree is called. No latch is held.
 *
 * @param name         room for BINLOG_NAME_MAX bytes
 * @param is_recorded  set: false for a tree whose changes are not written down
 */
typedef firn_rc binlog_tree_name(uint64_t index_id, uint8_t *name, size_t *name_bytes,
                                 bool *is_recorded, void *context);

struct binlog_options {
    struct io_system *system; /* the device of binlog_dir */
    const char *directory;
    struct redo *redo;
    uint8_t environment[16];
    bool records;           /* binlog=on; otherwise only what a log_bin of before left is seen to */
    bool is_separate;       /* binlog_sync=separate */
    bool thread;            /* lay out in the background; otherwise binlog_tick does it */
    uint32_t server_id;     /* 1 */
    uint64_t max_bytes;     /* max_binlog_size: a file is ended before a group goes beyond it */
    uint64_t cache_bytes;   /* binlog_cache_size: events of a session kept in memory; 4 KiB to 1
                               MiB. What exceeds it is written to a file first */
    uint64_t expire_s;      /* binlog_expire_logs_seconds; 0: never */
    binlog_tree_name *name; /* NULL without `records` */
    void *context;
    uint64_t (*time_us)(void); /* since 1970, UTC; NULL: the system's. For tests */
};

enum {
    BINLOG_CACHE_MIN_BYTES = 4 << 10,
    BINLOG_CACHE_MAX_BYTES = 1 << 20, /* a commit and its events are one frame of the redo log */
    BINLOG_MAX_MIN_BYTES = 4 << 10,
};

/** Set the defaults; system, directory, redo, environment and name are still missing. */
void binlog_options_init(struct binlog_options *options);

/**
 * Open: looks at the index, changes nothing. Before recovery.
 *
 * @param binlog  set on success; binlog_close
 * @return FIRN_OK; FIRN_E_CORRUPT, FIRN_E_NOMEM, FIRN_E_IO
 */
firn_rc binlog_open(const struct binlog_options *options, struct binlog **binlog);

/** A record CHANGE_BINLOG is met in the redo log: put the group into its place again. In the order
 * of the log. */
firn_rc binlog_redo(struct binlog *binlog, const struct change *change);

/**
 * The redo log has been repeated: make durable what was laid out, find the end, cut off what lies
 * behind it.
 *
 * @param was_clean  nothing was in the redo log: then the end is only looked at
 * @return FIRN_OK; FIRN_E_CORRUPT (a file is missing, of another environment, or damaged in a way
 *         that no crash leaves), FIRN_E_IO, ...
 */
firn_rc binlog_recovered(struct binlog *binlog, bool was_clean);

/** @return what transactions are to be recorded with (struct txn_options); NULL: not at all. A
 * binary log that is NULL records nothing. */
const struct txn_recorder *binlog_recorder(struct binlog *binlog);

/** Before anybody else has a session: decide about what binlog_sync=separate left prepared, by
 * whether the binary log has it. Then begin to lay out in the background, if so asked. */
firn_rc binlog_begin(struct binlog *binlog, struct txn_set *transactions);

/** Lay out what is durable, and sync now and then: what the thread does. Any thread. NULL is
 * allowed. */
firn_rc binlog_tick(struct binlog *binlog);

/** Have nothing held back of the redo log that need not be: make it durable, lay out, sync. Waits
 * for devices; no latch is held. Any thread. NULL is allowed. */
firn_rc binlog_flush(struct binlog *binlog);

/** The next group begins a new file. */
void binlog_rotate(struct binlog *binlog);

/** Remove the files before one of that number. FIRN_E_INVALID: it is beyond the one in use */
firn_rc binlog_purge(struct binlog *binlog, uint64_t file);

/** @return the number of the last group, 0: there is none. */
uint64_t binlog_last_number(struct binlog *binlog);

struct binlog_counters {
    uint64_t groups; /* committed */
    uint64_t bytes;  /* of groups, in the files */
    uint64_t files_written;
    uint64_t spilled; /* groups that went through a file of their own */
    uint64_t file;    /* the one that the next group goes to, and where */
    uint64_t position;
};

/** Tell the counters. Any thread. */
void binlog_counters(struct binlog *binlog, struct binlog_counters *counters);

/** End; all transactions have ended. What binlog_flush has not seen to is laid out at the next
 * opening: the hold on the redo log ends, so nobody takes a checkpoint any more. NULL is allowed.
 */
void binlog_close(struct binlog *binlog);

#endif
