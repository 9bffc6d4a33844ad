/*
 * store_internal.h -- the parts of a store: its files (store_files.c, store_create.c), opening and
 * closing (store.c), trees by name (store_catalog.c, store_tree.c), sessions (store_session.c), the
 * check (store_check*.c).
 */
#ifndef FIRN_ENGINE_STORE_INTERNAL_H
#define FIRN_ENGINE_STORE_INTERNAL_H

#include "engine/env_internal.h"

#include "base/park.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    STORE_CATALOG_INDEX = 1, /* the catalog's index id; those of trees are larger */
    STORE_DIRECTORIES_MAX = IO_CLASS_COUNT + 1,
};

/** The names of what the store itself puts into directories. */
#define STORE_SYSTEM_SPACE "system"
#define STORE_WARM_FILE    "firn.pool"

/** A directory that the store has locked. */
struct store_directory {
    char *path;
    struct io_system *system;
    unsigned classes; /* that lie in it: bits 1 << io_class */
    struct io_lock *lock;
    bool made; /* by this opening */
};

/** How far a tree has come. Only live ones exist for anybody outside. */
enum store_tree_state {
    STORE_TREE_CREATING = 1, /* pages or a file may be there already */
    STORE_TREE_LIVE = 2,
    STORE_TREE_DROPPING = 3, /* pages or a file may be there still */
};

/** What the catalog says about a tree, and its handle once somebody asked for it. */
struct store_tree {
    char *name;
    enum store_tree_state state;
    bool shared; /* lies in the system tablespace */
    bool guest;  /* lies in the tablespace of another tree, which goes with that one */
    uint64_t index_id;
    uint32_t space;
    uint32_t root_page;
    struct btree *tree; /* NULL: not opened yet */
    bool versioned;     /* its values are versions: src/txn */
    bool unrecorded;    /* and the binary log says nothing about them */
    unsigned pins;      /* by transactions' background work; no drop meanwhile */
};

struct store {
    struct store_options options; /* texts are the caller's: not used after opening */
    struct env env;
    struct io_system *own_system; /* opened by the store, or NULL */
    struct io_system *systems[IO_CLASS_COUNT];
    /* The first is DIR; the others are classes' own. */
    struct store_directory directories[STORE_DIRECTORIES_MAX];
    unsigned directory_count;
    unsigned class_directory[IO_CLASS_COUNT]; /* index into directories */

    struct space_set *spaces;
    struct redo *redo;
    struct redo_hold hold; /* while opening: no checkpoint before the files are known to be there */
    bool is_held;
    uint64_t recovered_lsn; /* where the log that recovery read ends */
    struct buffer_pool *pool;
    struct io_system *pool_systems[IO_CLASS_COUNT]; /* under the tablespaces, each once */
    struct btree_base base;
    pthread_mutex_t urge_mutex; /* one thread at a time makes room in the log */

    pthread_mutex_t tree_mutex; /* protects all below; taken before any latch */
    struct btree_session *session;
    struct btree *catalog;
    uint32_t catalog_page;           /* its root; for who must say where it is */
    struct store_tree **trees;       /* by name */
    struct store_tree **trees_by_id; /* the same */
    _Atomic uint32_t unpinned;       /* a tree's last pin is gone: futex */
    size_t tree_count;
    size_t tree_capacity;

    struct txn_set *transactions;
    struct table_set *tables;
    struct binlog *binlog; /* NULL: read only */
    bool was_clean;        /* recovery had nothing to repeat */

    pthread_t warm_thread;
    bool warm_is_running;
    bool warm_is_whole; /* the load came to its end: its dump may be replaced */
    atomic_bool warm_stop;
};

/* ---- store_files.c ---- */

/** Fill store->systems, opening real files where the caller gave none. */
firn_rc store_open_systems(struct store *store);

/** Lock DIR, after making it if `create`. */
firn_rc store_lock_directory(struct store *store, bool create);

/** Decide which directory each class lies in, from store->env; nothing is touched. */
firn_rc store_place_classes(struct store *store);

/** Judge and lock the classes' own directories of an environment that is there. */
firn_rc store_lock_places(struct store *store);

/** Make a directory, if it is not there, and its name durable. @param made  set */
firn_rc store_make_directory(struct io_system *system, const char *path, bool *made);

/** Unlock, close systems, free. */
void store_close_files(struct store *store);

/** @return the path of a file in DIR, to be freed with memory_free; NULL, raised. */
char *store_file_path(const struct store *store, const char *name);

/* ---- store.c ---- */

/** Judge the options, open devices and lock DIR, after making it if `create`: what comes first,
 * whatever is to be done there. @param store  set on success; store_end, store_close, ... */
firn_rc store_begin(const struct store_options *options, bool create, struct store **store);

/** Give back all that is open, whatever that is; what is dirty is dropped. */
void store_end(struct store *store);

/** What the log is opened, made and resized with. */
void store_redo_options(const struct store *store, struct redo_options *options);

/* ---- store_binlog.c ---- */

/** Open the binary log, before recovery. */
firn_rc store_binlog_open(struct store *store);

/** What recovery hands over. @param context  the store */
firn_rc store_binlog_redo(const struct change *change, void *context);

/* ---- store_create.c ---- */

/** @return true for a name that only an environment's files have, whoever made them. */
bool store_is_engine_file(const char *name);

/** Find out what lies in DIR, and begin an environment there: firn.env.new, directories, an empty
 * log. store->env is filled. On failure everything made is removed again. */
firn_rc store_create_begin(struct store *store);

/** The same with the identity and page size of an environment that there was, and without a log. */
firn_rc store_create_again(struct store *store, const uint8_t id[16], uint32_t page_size_bytes);

/** The environment's first pages are durable: it exists from here on. */
firn_rc store_create_finish(struct store *store);

/** Remove what store_create_begin made. Best effort: what stays is removed by the next creation. */
void store_create_undo(struct store *store);

/* ---- store_catalog.c ---- */

/** Make the system tablespace and the catalog of a new environment. */
firn_rc store_catalog_create(struct store *store);

/** Read the catalog into the list of trees and compare it with the files that are there. Changes
 * nothing. */
firn_rc store_catalog_open(struct store *store);

/** Write a tree's entry. @param end_lsn  as btree_put */
firn_rc store_catalog_put(struct store *store, const struct store_tree *tree, uint64_t *end_lsn);

/** Remove an entry; there need not be one. */
firn_rc store_catalog_delete(struct store *store, const char *name);

/** Take an index id that no tree has had. Ids that a crash wastes are not missed. */
firn_rc store_catalog_next_index(struct store *store, uint64_t *index_id);

/* ---- store_tree.c ---- */

/** Add a tree to the list, as one that is being made. @param tree  set on success; the list's */
firn_rc store_tree_add(struct store *store, const char *name, uint64_t index_id,
                       struct store_tree **tree);

/** @return a tree of the list, whatever its state; NULL if there is none of that name. */
struct store_tree *store_tree_find(const struct store *store, const char *name);

/** Make sure that a tree has its handle. Under the tree mutex. */
firn_rc store_open_tree(struct store *store, struct store_tree *tree);

/** @return a tree of the list by its index id, or NULL. Under the tree mutex. */
struct store_tree *store_tree_by_id(const struct store *store, uint64_t index_id);

/** Finish what an earlier run left: its temporary tablespaces, large values half written, creations
 * and drops of trees. */
firn_rc store_trees_recover(struct store *store);

/** Close all trees and the catalog. */
void store_trees_close(struct store *store);

/* ---- store_table.c ---- */

/** Open the store's tables, behind all its trees. */
firn_rc store_open_tables(struct store *store);

/* ---- store_txn.c ---- */

/** What transactions find trees with, for who has the tree mutex. */
firn_rc store_pin_tree(uint64_t index_id, struct btree **tree, void *context);
void store_unpin_tree(struct btree *tree, void *context);

/** Open the store's transactions; nothing is written. txn_start comes when the log takes appends.
 * @param create  the environment is new: the first undo tablespace is made */
firn_rc store_open_transactions(struct store *store, bool create);

#endif
