/*
 * binlog_internal.h -- the parts of the binary log: groups being collected (group.c), their places
 * and the queue of those committed (commit.c), laying out (layout.c), the classic way (separate.c),
 * the index and old files (index.c), recovery (recover.c).
 */
#ifndef FIRN_BINLOG_BINLOG_INTERNAL_H
#define FIRN_BINLOG_BINLOG_INTERNAL_H

#include "binlog/binlog.h"
#include "binlog/format_internal.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    GROUP_TREES = 32,            /* names that a group remembers to have said */
    STAGE_BYTES = 1 << 20,       /* what is written at once */
    QUEUED_MAX_BYTES = 32 << 20, /* of committed groups in memory; then who commits lays out */
    LAY_OUT_INTERVAL_MS = 200,   /* between looks of the thread */
    SYNC_INTERVAL_MS = 1000,     /* between syncs, where the redo log has room */
    SYNC_SHARE = 8,              /* of the redo log's capacity, that may be held back ... */
};

/** A tree whose name the group has said, or that is not recorded. */
struct group_tree {
    uint64_t id;
    uint64_t position; /* of its TREE event among the group's events */
    bool is_recorded;
};

/** One transaction's events. It belongs to the transaction's thread until it is committed, then to
 * the binary log. */
struct binlog_group {
    struct binlog *binlog;
    struct binlog_group *next;
    uint64_t txn_id;
    uint8_t *bytes; /* RECORD_BYTES, then events: those behind what the file has */
    size_t capacity;
    size_t size_bytes;  /* of events in memory that count */
    size_t tried_bytes; /* of an event behind them that does not count yet */
    uint64_t file_bytes;
    uint64_t kept_bytes;  /* of all, up to the last row or statement: names behind that need not be
                             said */
    struct io_file *file; /* with the first of the events; NULL: all are in memory */
    bool is_durable;      /* the file is, name included */
    struct group_tree trees[GROUP_TREES];
    unsigned tree_count;

    /* Once it commits. */
    struct group_place place;
    uint64_t hold_lsn; /* not above where its record begins */
    uint64_t end_lsn;  /* where that ends */
};

/** Somebody who commits in the classic way. */
struct separate_turn;

/** Where the next group goes. */
struct tail {
    uint64_t file; /* 0: there is none yet */
    uint64_t offset;
    uint64_t last_number;
    uint64_t last_time_us;
    bool wants_rotation;
};

/** What has been made for the current file and is not in it yet. */
struct stage {
    uint8_t *bytes;
    size_t size_bytes;
    uint64_t offset;
};

struct binlog {
    struct binlog_options options;
    struct txn_recorder recorder;

    pthread_mutex_t mutex; /* a leaf but for redo_hold: protects what follows */
    struct tail tail;
    struct binlog_group *first; /* committed, not laid out; in their order */
    struct binlog_group *last;
    uint64_t queued_bytes;
    struct binlog_group *spare;
    unsigned spare_count;
    struct redo_hold holds[2]; /* one at a time; moved by entering the other first */
    unsigned hold;
    bool is_held;
    uint64_t noted_lsn; /* of a group that is committing just now; 0: none is */
    uint64_t groups;
    uint64_t group_bytes;
    uint64_t spilled;
    atomic_bool failed; /* a sync has failed: nothing is committed any more */

    pthread_mutex_t layout_mutex; /* the files; devices are waited for under it */
    uint64_t first_file;          /* the index: first to last, 0: none */
    uint64_t last_file;
    struct io_file *file; /* open to be written: its number is file_number */
    uint64_t file_number;
    struct stage stage;
    bool needs_sync;
    uint64_t unsynced_lsn;         /* the hold of the oldest group that is laid out, not synced */
    uint64_t synced_ns;            /* when */
    struct binlog_group *leftover; /* laid out from files of their own, which stay until a sync */
    uint64_t files_written;

    pthread_mutex_t turn_mutex; /* separate.c */
    struct separate_turn *turns_first;
    struct separate_turn *turns_last;
    bool is_led;

    /* Recovery. */
    bool saw_records;
    bool end_is_doubtful;

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t thread_mutex;
    pthread_cond_t thread_wake;
    bool thread_stops;
};

/* ---- group.c ---- */

/** Free a group, or keep it for the next transaction; its file is closed and, unless it is to stay
 * for recovery, removed. */
void group_free(struct binlog_group *group, bool remove_file);

/** @return the bytes of events that count. */
static inline uint64_t group_events_bytes(const struct binlog_group *group)
{
    return group->file_bytes + group->size_bytes;
}

/** Forget the events from a position on. */
void group_rewind(struct binlog_group *group, uint64_t position);

/** Bring all events into the group's file. */
firn_rc group_spill(struct binlog_group *group);

/** Bring all events into the group's file and make it durable: it then survives without its
 * transaction's thread. */
firn_rc group_make_durable(struct binlog_group *group);

/** Free those kept for later. */
void group_free_spares(struct binlog *binlog);

/** Open the file of a transaction's events. FIRN_E_NOT_FOUND */
firn_rc group_file_open(struct binlog *binlog, uint64_t txn_id, unsigned flags,
                        struct io_file **file);

/** The functions of the recorder that are about collecting. */
void group_fill_recorder(struct txn_recorder *recorder);

/* ---- commit.c ---- */

/** Give a group the place behind the last one. Under the mutex. */
void commit_place(struct binlog *binlog, struct binlog_group *group);

/** The last place that was given is taken. Under the mutex. */
void commit_advance(struct binlog *binlog, const struct group_place *place);

/** The functions of the recorder that are about committing. */
void commit_fill_recorder(struct txn_recorder *recorder);

/** Raise that the binary log has failed. */
firn_rc binlog_raise_failed(const struct binlog *binlog);

/* ---- layout.c; under the layout mutex ---- */

/** Put a group into its place; on failure call it again. */
firn_rc layout_group(struct binlog *binlog, const struct group_place *place, struct span events,
                     struct io_file *events_file);

/** Write what is staged. */
firn_rc layout_write(struct binlog *binlog);

/** Write and sync. A failed sync is final. */
firn_rc layout_sync(struct binlog *binlog);

/** Lay out those committed groups that are durable in the redo log. */
firn_rc layout_durable(struct binlog *binlog);

/** Have a file open to be written, one that is there. */
firn_rc layout_open_file(struct binlog *binlog, uint64_t file);

/** Close it. */
void layout_close_file(struct binlog *binlog);

/* ---- separate.c ---- */

/** As struct txn_recorder says. */
firn_rc separate_in_order(void *recording, firn_rc (*commit)(void *context), void *context);

/* ---- index.c; under the layout mutex ---- */

/** Write it and make it durable, with all names in the directory. */
firn_rc index_write(struct binlog *binlog, uint64_t first_file, uint64_t last_file);

/** Remove files that nothing needs any more: those that have expired. */
firn_rc index_expire(struct binlog *binlog, uint64_t now_us);

/** Remove the files below a number. */
firn_rc index_purge(struct binlog *binlog, uint64_t file);

/** Call for each entry of the directory, collected first.  */
typedef firn_rc index_visit(struct binlog *binlog, const char *name, void *context);
firn_rc index_each_entry(struct binlog *binlog, index_visit *visit, void *context);

/* ---- recover.c ---- */

/** Once it is known whether transactions are prepared: judge the end, which was only looked at if
 * the redo log had nothing. */
firn_rc recover_end(struct binlog *binlog, bool any_prepared);

/** Which of the transactions has a group in the last file? @param found  count of them, set */
firn_rc recover_find(struct binlog *binlog, const uint64_t *txn_ids, size_t count, bool *found);

#endif
