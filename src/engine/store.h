/*
 * store.h -- an environment at the level of pages and trees: open, recover, trees by name, close.
 *
 * This is what `firn kv`, `firn check` and `firn stat` use. A put is one atomic, durable change.
 * Transactions over several are those of src/txn: store_transactions, over trees made with
 * STORE_TREE_VERSIONED.
 */
#ifndef FIRN_ENGINE_STORE_H
#define FIRN_ENGINE_STORE_H

#include "binlog/binlog.h"
#include "btree/btree.h"
#include "recovery/recovery.h"
#include "table/table.h"

struct store;

/** When the binary log is synced: sync_binlog and more. */
enum store_binlog_sync {
    STORE_BINLOG_TOGETHER, /* with the redo log: one sync a group of commits */
    STORE_BINLOG_SEPARATE, /* by itself, as servers did before: two of them */
};

/** Names and defaults as InnoDB has them; store_options_init sets the defaults. */
struct store_options {
    const char *directory; /* DIR: where everything lies that has no own place */
    /* tables_dir, undo_dir, ...; absolute or relative to DIR. Of a new environment, NULL: DIR;
       afterwards firn.env knows, and what is given must agree with it. Made if missing. */
    const char *class_directories[IO_CLASS_COUNT];
    /* Devices; NULL: the store opens real files, one io_system for all such classes. DIR itself is
       on that of the system class. They stay the caller's and outlive the store. */
    struct io_system *class_systems[IO_CLASS_COUNT];
    enum io_backend io_backend;
    bool direct;                     /* innodb_flush_method=O_DIRECT; default true */
    uint32_t page_size_bytes;        /* of a new environment; 0: what it is, 16 KiB for a new one */
    uint64_t buffer_pool_size_bytes; /* 128 MiB */
    uint64_t buffer_pool_max_bytes;  /* for resizing online; 0: twice the size */
    uint64_t log_file_size_bytes;    /* 0: as it is; 96 MiB for a new one */
    uint32_t log_files;              /* 0: as it is; 2 */
    uint64_t log_buffer_size_bytes;  /* 16 MiB */
    enum redo_flush flush_log_at_commit; /* SYNC; with WRITE the log is not opened direct */
    enum buffer_doublewrite doublewrite;
    unsigned io_capacity;              /* 200; pages a second */
    unsigned io_capacity_max;          /* 2000 */
    unsigned max_dirty_pages_pct;      /* 90 */
    unsigned old_blocks_pct;           /* 37 */
    bool buffer_pool_dump_at_shutdown; /* true */
    bool buffer_pool_load_at_startup;  /* true */
    unsigned buffer_pool_dump_pct;     /* 25 */
    uint64_t autoextend_bytes;         /* 64 MiB */
    unsigned recovery_threads;         /* 0: one a processor, at most 8 */
    bool create;                       /* make the environment if the directory has none */
    bool read_only;                    /* write nothing: only what was closed cleanly opens, and
                                          only to be read and checked */
    bool background_threads;           /* cleaner and log flusher; default true */
    recovery_progress_function *progress;
    void *progress_context;
    unsigned undo_tablespaces;   /* innodb_undo_tablespaces: 2 */
    uint64_t undo_max_bytes;     /* innodb_max_undo_log_size: 1 GiB */
    unsigned purge_threads;      /* innodb_purge_threads: 2; none without background_threads */
    uint64_t lock_wait_limit_ns; /* innodb_lock_wait_timeout: 50 s */
    uint64_t lock_memory_bytes;  /* 64 MiB */
    bool deadlock_detect;        /* innodb_deadlock_detect: true */
    bool binlog;                 /* log_bin: false; changes of versioned trees are recorded */
    enum store_binlog_sync binlog_sync;
    uint32_t server_id;               /* 1 */
    uint64_t max_binlog_size_bytes;   /* 1 GiB */
    uint64_t binlog_cache_size_bytes; /* 256 KiB a session; larger transactions go by a file */
    uint64_t binlog_expire_s;         /* binlog_expire_logs_seconds: 30 days; 0: never */
    uint64_t (*binlog_time_us)(void); /* tests: the time; NULL: the system's */
    struct clock *clock;              /* of lock waits; NULL: the real one */
    uint64_t environment_seed;        /* tests: a new environment's identity; 0: drawn at random */
    bool canary_skip_log_sync;        /* tests only: the judge must catch it */
    bool canary_skip_data_sync;
};

/** Set the defaults; a directory is still missing. */
void store_options_init(struct store_options *options);

/**
 * Open an environment, recovering it if it was not closed.
 *
 * Each tablespace keeps a file open: the process's soft limit of open files is raised to its hard
 * one (io_lift_file_limit).
 *
 * @param store   set on success; store_close
 * @param result  what recovery did; may be NULL
 * @return FIRN_OK; FIRN_E_NOT_FOUND (no environment there, and create is not set); FIRN_E_BUSY (in
 *         use by another process, which is named); FIRN_E_INVALID (an option out of range or in
 *         conflict with the files); FIRN_E_STOPPED (read_only, and the log must be repeated);
 *         FIRN_E_CORRUPT, FIRN_E_UNSUPPORTED, FIRN_E_NOSPACE,
 *         FIRN_E_PERMISSION, ... Then no file has been changed; only where a log had to be
 *         repeated may pages have been written, as the next recovery would (README.md, rule 9).
 */
firn_rc store_open(const struct store_options *options, struct store **store,
                   struct recovery_result *result);

/** Flush, take a last checkpoint, close. Gives everything back also on failure: what was
 * acknowledged is then recovered at the next open. */
firn_rc store_close(struct store *store);

/** Close as a crash would: nothing is flushed. For tests and benchmarks of recovery. */
void store_abandon(struct store *store);

/** Write all dirty pages and take a checkpoint. */
firn_rc store_checkpoint(struct store *store);

/** For stores without background threads: what those do in a second. */
firn_rc store_tick(struct store *store);

/** @return what the store's trees stand on, for cursors; owned by the store. */
const struct btree_base *store_base(struct store *store);

/* ---- Trees by name ---- */

enum store_tree_flags {
    STORE_TREE_CREATE = 1, /* make it if it is not there */
    STORE_TREE_SHARED =
        2, /* a new one lies in the system tablespace instead of a file of its own */
    STORE_TREE_VERSIONED = 4,  /* for transactions, and for nothing else; with CREATE: it must be
                                  what it was made as */
    STORE_TREE_UNRECORDED = 8, /* with CREATE: the binary log says nothing about a new one */
};

/** @param tree  owned by the store; valid until it is closed or the tree dropped */
firn_rc store_tree(struct store *store, const char *name, unsigned flags, struct btree **tree);

/**
 * Make a tree in the tablespace of another one: a guest, which goes when its host is dropped.
 *
 * @param host   a tree with a file of its own
 * @param flags  STORE_TREE_VERSIONED or nothing
 * @param tree   set on success; as store_tree
 * @return FIRN_OK; FIRN_E_EXISTS (name), FIRN_E_NOT_FOUND (host), FIRN_E_INVALID; FIRN_E_NOSPACE,
 * ...
 */
firn_rc store_make_guest(struct store *store, const char *name, const char *host, unsigned flags,
                         struct btree **tree);

/** Drop a tree that nobody uses, and its guests. */
firn_rc store_drop_tree(struct store *store, const char *name);

/** Call a function for each tree, by name. It may make trees, but drops none. */
struct store_tree_info {
    const char *name;
    bool shared; /* it lies in the system tablespace */
    bool guest;  /* it lies in that of another tree */
    uint32_t space;
    uint32_t root_page;
    uint64_t index_id;
};
typedef firn_rc store_tree_visit(const struct store_tree_info *info, struct btree *tree,
                                 void *context);
firn_rc store_each_tree(struct store *store, store_tree_visit *visit, void *context);

/* ---- Sessions: a thread's way in ---- */

struct store_session;

/** @param session  set on success; store_session_close. It belongs to one thread at a time.
 * FIRN_E_NOMEM */
firn_rc store_session_open(struct store *store, struct store_session **session);

/** End a session; what it did and did not commit is left to the log. NULL is allowed. */
void store_session_close(struct store_session *session);

/** @return the tree session under it, for what this header lacks; owned by the session. */
struct btree_session *store_session_btree(struct store_session *session);

/** How far this session's commits go; the store's flush_log_at_commit at first. */
void store_session_set_flush(struct store_session *session, enum redo_flush flush);

/** Put, insert, delete, edit: as btree.h; store_commit makes what this session did since the last
 * commit durable as its flush mode says. */
firn_rc store_put(struct store_session *session, struct btree *tree, struct span key,
                  struct span value);
firn_rc store_insert(struct store_session *session, struct btree *tree, struct span key,
                     struct span value);
firn_rc store_delete(struct store_session *session, struct btree *tree, struct span key);
firn_rc store_get(struct store_session *session, struct btree *tree, struct span key,
                  struct span *value);
firn_rc store_edit(struct store_session *session, struct btree *tree, struct span key,
                   const struct btree_edit *edit);
firn_rc store_commit(struct store_session *session);

/* ---- Judging, numbers ---- */

struct store_check_result {
    uint64_t spaces;
    uint64_t pages; /* read and verified, free ones included where they were written */
    uint64_t trees;
    uint64_t rows;
    uint64_t problems;
};

/**
 * Check everything: every page of every tablespace, every tree, page maps against reachability.
 *
 * @param report  gets each damage; called by one thread at a time
 * @return FIRN_OK; FIRN_E_CORRUPT if there were problems; FIRN_E_IO, ...
 */
firn_rc store_check(struct store *store, unsigned threads, finding_report *report, void *context,
                    recovery_progress_function *progress, struct store_check_result *result);

/** What store_check_files looks at. */
enum store_files_part {
    STORE_FILES_HEADS = 1, /* what lies there, labels, log, what each file says that it is */
    STORE_FILES_PAGES = 2, /* every page of every tablespace */
};

struct store_files_result {
    uint64_t files;
    uint64_t bytes; /* read */
    uint64_t pages;
    uint64_t pages_mended; /* damaged in their places, and put right by recovery */
    uint64_t findings[FINDING_SEVERITIES];
    bool is_clean; /* the log is whole, and nothing in it must be repeated */
};

/**
 * Judge the files of an environment that nobody has open, as they lie there and without changing
 * any: for one that cannot be opened, too. Goes on behind each damage; all that was found is told.
 *
 * @param parts   store_files_part bits
 * @param report  called by one thread at a time; context is its and progress's
 * @param result  set on success
 * @return FIRN_OK, whatever was found; FIRN_E_NOT_FOUND (no environment there), FIRN_E_BUSY,
 *         FIRN_E_PERMISSION, FIRN_E_NOMEM, ...: nothing, or not all, was looked at
 */
firn_rc store_check_files(const struct store_options *options, unsigned parts, unsigned threads,
                          finding_report *report, void *context,
                          recovery_progress_function *progress, struct store_files_result *result);

/** Where the log and the pool stand. */
struct store_status {
    struct redo_counters redo;
    struct buffer_counters buffer;
    uint64_t lsn;
    uint64_t durable_lsn;
    uint64_t checkpoint_lsn;
    uint64_t checkpoint_age_bytes;
    uint64_t log_capacity_bytes;
    uint32_t page_size_bytes;
};

/** Read the counters; any thread. Each is right, though not all of the same instant. */
void store_status(struct store *store, struct store_status *status);

/** @return the device and the directory of a class; owned by the store. */
struct io_system *store_class_system(struct store *store, enum io_class class);
const char *store_class_directory(const struct store *store, enum io_class class);
/** @return the environment's identity, 16 bytes. */
const uint8_t *store_environment_id(const struct store *store);
struct txn_set *store_transactions(struct store *store);
struct table_set *store_tables(struct store *store);
struct binlog *store_binlog(struct store *store);
struct space_set *store_spaces(struct store *store);
struct buffer_pool *store_pool(struct store *store);
struct redo *store_redo(struct store *store);

#endif
