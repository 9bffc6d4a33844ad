/*
 * btree.h -- B+trees over byte strings.
 *
 * Keys compare as memcmp does; an order of types is the business of whoever makes the keys. Leaves
 * are linked both ways. Readers go down by optimistic views, without a shared write, and copy out
 * what they want; writers lock the leaf, and more only to split or merge. The root stays on its
 * page. Every operation is one mini-transaction (large values: a few), so after a crash it is there
 * wholly or not at all.
 *
 * A tree handle is shared by threads. A session belongs to one thread at a time: it has the
 * mini-transaction and the scratch memory, so that operations allocate nothing.
 */
#ifndef FIRN_BTREE_BTREE_H
#define FIRN_BTREE_BTREE_H

#include "base/span.h"
#include "space/space.h"

#include <stdatomic.h>

struct btree;
struct btree_session;

/** What trees stand on. */
struct btree_base {
    struct buffer_pool *pool;
    struct redo *redo;
    struct space_set *spaces;
};

/** @param session  set on success; btree_session_close. FIRN_E_NOMEM */
firn_rc btree_session_open(const struct btree_base *base, struct btree_session **session);
void btree_session_close(struct btree_session *session);

/** @return the session's mini-transaction, for what a caller does between tree operations. */
struct mtr *btree_session_mtr(struct btree_session *session);

/** Make an empty tree. @param index_id not 0, unique in the environment  @param root_page set on
 * success */
firn_rc btree_create(struct btree_session *session, uint32_t space, uint64_t index_id,
                     uint32_t *root_page);

/** @param tree  set on success; btree_close. FIRN_E_CORRUPT if the page is no root of that index */
firn_rc btree_open(const struct btree_base *base, uint32_t space, uint32_t root_page,
                   uint64_t index_id, struct btree **tree);
void btree_close(struct btree *tree);

/** @return the largest key this tree takes, in bytes. */
size_t btree_key_max(const struct btree *tree);

/* ---- Points ---- */

/**
 * Get a value.
 *
 * @param value       set on success; valid until the session's next call
 * @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text; FIRN_E_INVALID (key too long);
 *         FIRN_E_CORRUPT, FIRN_E_IO, FIRN_E_NOMEM
 */
firn_rc btree_get(struct btree_session *session, struct btree *tree, struct span key,
                  struct span *value);

/** What to do with a key, decided while its leaf is locked. */
enum btree_action {
    BTREE_KEEP,   /* nothing */
    BTREE_PUT,    /* insert, or replace the value */
    BTREE_DELETE, /* remove it, if it is there */
};

/**
 * Decide about a key. May be called more than once for one operation: only the last call counts.
 *
 * @param old    the value that is there, or NULL; valid during the call. A large one is read for
 * it.
 * @param value  the new value, to be set for BTREE_PUT; valid until the operation ends
 * @return the action; *rc may be set to an error that the operation then returns (with BTREE_KEEP)
 */
typedef enum btree_action btree_decide(const struct span *old, struct span *value, firn_rc *rc,
                                       void *context);

/**
 * Read, decide and write one key, atomically.
 *
 * @param wants_old  false: decide gets only whether there is one (a span of NULL bytes and its
 * size)
 * @param end_lsn    where its log ends, for redo_flush; 0 if nothing was put or removed. For a
 * value that was there already it is the log's end: it may not be durable yet. May be NULL.
 * @return FIRN_OK; what decide set; FIRN_E_INVALID (key too long); FIRN_E_NOSPACE; FIRN_E_STOPPED;
 *         FIRN_E_CORRUPT, FIRN_E_IO, FIRN_E_NOMEM. After an error but STOPPED nothing is changed.
 */
firn_rc btree_change(struct btree_session *session, struct btree *tree, struct span key,
                     btree_decide *decide, bool wants_old, void *context, uint64_t *end_lsn);

/** Put, whether the key is there or not. Errors as btree_change. */
firn_rc btree_put(struct btree_session *session, struct btree *tree, struct span key,
                  struct span value, uint64_t *end_lsn);

/** Insert a new key. FIRN_E_EXISTS, without an error text, if it is there. */
firn_rc btree_insert(struct btree_session *session, struct btree *tree, struct span key,
                     struct span value, uint64_t *end_lsn);

/** Remove a key. FIRN_E_NOT_FOUND, without an error text, if it is not there. */
firn_rc btree_delete(struct btree_session *session, struct btree *tree, struct span key,
                     uint64_t *end_lsn);

/* ---- Cursors ----
 *
 * A cursor works on a copy of the leaf it stands in, so it holds no latch between calls, and splits
 * and merges beside it do not matter to it: what it shows was all there at some moment since it
 * reached the leaf. At the copy's end it goes on by key. It sees each key that is there all the
 * while exactly once.
 */

struct btree_cursor;

/** @param cursor  set on success; btree_cursor_close. It belongs to one thread at a time. */
firn_rc btree_cursor_open(const struct btree_base *base, struct btree *tree,
                          struct btree_cursor **cursor);
void btree_cursor_close(struct btree_cursor *cursor);

enum btree_seek {
    BTREE_SEEK_FIRST, /* key is ignored */
    BTREE_SEEK_LAST,
    BTREE_SEEK_AT_OR_AFTER,
    BTREE_SEEK_AFTER,
    BTREE_SEEK_AT_OR_BEFORE,
    BTREE_SEEK_BEFORE,
    BTREE_SEEK_EXACT,
};

/** Move to a key. @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text: there is none */
firn_rc btree_cursor_seek(struct btree_cursor *cursor, enum btree_seek seek, struct span key);

/** Move on in either direction from where a seek succeeded. FIRN_E_NOT_FOUND at the end; moving
 * back from there is allowed. */
firn_rc btree_cursor_next(struct btree_cursor *cursor);
firn_rc btree_cursor_prev(struct btree_cursor *cursor);

/** The key under the cursor; valid until it moves. */
struct span btree_cursor_key(struct btree_cursor *cursor);

/** The value under the cursor; valid until it moves. Reads large values when asked.
 * @return FIRN_OK; FIRN_E_NOT_FOUND if a large value is gone meanwhile; FIRN_E_IO, ... */
firn_rc btree_cursor_value(struct btree_cursor *cursor, struct span *value);

/* ---- Bulk build ---- */

struct btree_build;

/**
 * Fill an empty tree bottom up with ascending keys, at device speed.
 *
 * @param fill_percent  how full pages are left, 50 to 100
 * @param build         set on success; end it with btree_build_finish or btree_build_abandon
 * @return FIRN_OK; FIRN_E_EXISTS if the tree is not empty
 */
firn_rc btree_build_begin(struct btree_session *session, struct btree *tree, unsigned fill_percent,
                          struct btree_build **build);

/** @return FIRN_OK; FIRN_E_INVALID (not above the key before, too long); ... */
firn_rc btree_build_add(struct btree_build *build, struct span key, struct span value);

/** Make what was added the tree's content, atomically. Ends the build also on failure. */
firn_rc btree_build_finish(struct btree_build *build, uint64_t *end_lsn);

/** Give everything back. */
void btree_build_abandon(struct btree_build *build);

/* ---- After a crash, judging, numbers ---- */

/** Free what a crash left in a tablespace's limbo: large values and builds half written or freed.
 * After recovery, before anything else uses the tablespace's trees. */
firn_rc btree_clear_limbo(struct btree_session *session, uint32_t space);

/** Whose the register of limbo is, as space_each_page tells it; no index has this id. */
#define BTREE_LIMBO_OWNER UINT64_MAX

/** Call a function for each page of a tablespace's register of limbo. */
typedef void btree_page_seen(uint32_t page_no, void *context);
firn_rc btree_each_limbo_page(const struct btree_base *base, uint32_t space, btree_page_seen *seen,
                              void *context);

/** Collects problems, one sentence each; may be called from several threads, one at a time. */
typedef void btree_problem(const char *problem, void *context);

struct btree_check_options {
    unsigned threads;
    btree_problem *problem;
    btree_page_seen *seen; /* called for each page, by several threads at once; or NULL */
    void *context;
    const atomic_bool *stop; /* or NULL */
};

struct btree_shape {
    unsigned height; /* levels; 1 is a root that is a leaf */
    uint64_t inner_pages;
    uint64_t leaf_pages;
    uint64_t blob_pages;
    uint64_t rows;
    uint64_t key_bytes; /* of rows, whole keys */
    uint64_t value_bytes;
    uint64_t free_bytes; /* in leaves */
    uint64_t
        leaf_jumps; /* leaves whose next is not the page behind it in the file: fragmentation */
};

/**
 * Walk the whole tree: order within and between pages, fences against parents, links both ways,
 * levels, large values whole. While nobody changes it.
 *
 * @param shape  filled
 * @return FIRN_OK when nothing is wrong; FIRN_E_CORRUPT when problems were reported; FIRN_E_IO, ...
 */
firn_rc btree_check(struct btree *tree, const struct btree_check_options *options,
                    struct btree_shape *shape);

struct btree_counters {
    uint64_t splits;
    uint64_t merges;
    uint64_t restarts;      /* optimistic readers and writers that had to begin again */
    uint64_t latched_reads; /* reads that fell back to latches */
};

/** Fill in what the tree has counted since it was opened. Any thread. */
void btree_counters(struct btree *tree, struct btree_counters *counters);

#endif
