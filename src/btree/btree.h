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

#include "base/finding.h"
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

/** @return the id that the tree was made with. */
uint64_t btree_index_id(const struct btree *tree);

/** @return the largest key this tree takes, in bytes. */
size_t btree_key_max(const struct btree *tree);

enum { BTREE_HEAD_MAX_BYTES = 24 };

/** Say how many bytes of a large value stay in the leaf, in front of the reference to the others,
 * so that they are read and changed there. It belongs to the tree like the order of its keys: the
 * same from its first row on, set each time that it is opened and before it is used. 0 unless set;
 * at most BTREE_HEAD_MAX_BYTES. */
void btree_set_head(struct btree *tree, unsigned head_bytes);

/* ---- Points ---- */

/* What a caller is shown or hands over of a row. A large value lies in a chain of pages of its own,
 * but for its first bytes, its head (btree_set_head); the leaf then has, as the cell, the head and
 * a reference to the chain. */

/** What is there. */
struct btree_old {
    struct span value; /* whole; of a large one only its head, unless the edit wants it whole */
    struct span cell;  /* what stands in the leaf: the value, or its head and a reference */
    bool is_large;     /* the cell ends with a reference */
};

/** What shall be there. The bytes are the caller's, outlive the operation and lie in no page. */
struct btree_new {
    struct span value;
    bool
        is_cell; /* the value is the cell of a large value whose chain exists: it is put as it is */
};

/**
 * Get a value.
 *
 * @param value       set on success; valid until the session's next call
 * @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text; FIRN_E_INVALID (key too long);
 *         FIRN_E_CORRUPT, FIRN_E_IO, FIRN_E_NOMEM
 */
firn_rc btree_get(struct btree_session *session, struct btree *tree, struct span key,
                  struct span *value);

/** btree_get without reading large values: of one the head, and the cell for btree_read_kept. */
firn_rc btree_get_cell(struct btree_session *session, struct btree *tree, struct span key,
                       struct btree_old *row);

/** What to do with a key, decided while its leaf is locked. */
enum btree_action {
    BTREE_KEEP,   /* nothing */
    BTREE_PUT,    /* insert, or replace the value */
    BTREE_DELETE, /* remove it, if it is there */
};

/** Not an error, and never returned by an operation: what a decision or a look wanted could not be
 * had with the leaf latched. Whoever gets it passes it on like an error, and is called again. */
#define BTREE_AGAIN ((firn_rc)1)

/** How to change a key. */
struct btree_edit {
    /**
     * Decide, with the leaf latched. May be called more than once for one operation: only the last
     * call counts. Once made, a decision stands while the old cell is in the leaf, except one that
     * asked for the key behind (btree_next_key): that one is asked for again whenever the leaf was
     * not latched meanwhile, and should come to the same value (the same span), or a chain is
     * written anew.
     *
     * @param old  NULL: the key is not there; valid during the call
     * @param new  to be set for BTREE_PUT
     * @param rc   may be set to an error that the operation then returns, with BTREE_KEEP
     */
    enum btree_action (*decide)(const struct btree_old *old, struct btree_new *new, firn_rc *rc,
                                void *context);

    /**
     * Called in the mini-transaction that changes the leaf, if there is going to be a change, with
     * all else latched and had and before the first change. The leaf may have been left since the
     * decision, so what could have changed then, locks beside it, is judged here. What it does
     * happens with the change or not at all. In this order it may ask for the key behind, fix
     * BTREE_COMPANION_PAGES pages of other tablespaces, which it should have pinned before, for it
     * waits with latches in its hands, and change them as its last step; it may also write the head
     * of the new value. If it returns an error nothing is changed, it has changed nothing, and the
     * operation returns that error. It is called again only if it passed BTREE_AGAIN on. NULL:
     * there is none.
     */
    firn_rc (*companion)(struct mtr *mtr, void *context);
    size_t companion_log_bytes; /* the bound of what it adds to the log */

    bool wants_old;   /* large old values are read whole, for decide */
    bool keeps_chain; /* the old value's chain is not freed: its cell has been kept elsewhere */
    void *context;
};

enum { BTREE_COMPANION_PAGES = 2 };

/**
 * Read, decide and write one key, atomically. The old value's chain, if it has one, is freed,
 * unless the edit keeps it or the new cell refers to the same one.
 *
 * @param end_lsn  where its log ends, for redo_flush; 0 if nothing was put or removed. For a value
 *                 that was there already it is the log's end: it may not be durable yet. May be
 * NULL
 * @return FIRN_OK; what decide or the companion set; FIRN_E_INVALID (key too long, no cell of this
 *         tree); FIRN_E_NOSPACE; FIRN_E_STOPPED; FIRN_E_CORRUPT, FIRN_E_IO, FIRN_E_NOMEM. After an
 *         error but STOPPED nothing is changed.
 */
firn_rc btree_edit(struct btree_session *session, struct btree *tree, struct span key,
                   const struct btree_edit *edit, uint64_t *end_lsn);

/**
 * Look at a key while its leaf is latched, shared: nobody changes the row meanwhile, nor inserts or
 * removes one beside it.
 *
 * @param look  gets NULL if the key is not there, and of a large value only the head; the spans are
 *              valid during the call. It waits for nothing that others hold while they wait for
 *              latches. May be called again, if it returned BTREE_AGAIN
 * @return what look returned; FIRN_E_INVALID (key too long); FIRN_E_CORRUPT, ...
 */
typedef firn_rc btree_look(const struct btree_old *old, void *context);
firn_rc btree_inspect(struct btree_session *session, struct btree *tree, struct span key,
                      btree_look *look, void *context);

/**
 * While deciding or looking, or first thing in a companion: which key stands behind this one,
 * whether this one is there or not.
 *
 * It may stand in another leaf. That one, and empty ones between, are latched too (shared, from
 * left to right, or as a split has them) until the leaf is given back, after the change: until then
 * no key comes between the two, and the one behind neither goes nor changes.
 *
 * @param next  set on success, valid until the leaf is given back
 * @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text: there is none, and none can come;
 *         BTREE_AGAIN: to be passed on; FIRN_E_NOMEM, FIRN_E_CORRUPT, ...
 */
firn_rc btree_next_key(struct btree_session *session, struct span *next);

/** Put, whether the key is there or not. Errors as btree_edit. */
firn_rc btree_put(struct btree_session *session, struct btree *tree, struct span key,
                  struct span value, uint64_t *end_lsn);

/** Insert a new key. FIRN_E_EXISTS, without an error text, if it is there. */
firn_rc btree_insert(struct btree_session *session, struct btree *tree, struct span key,
                     struct span value, uint64_t *end_lsn);

/** Remove a key. FIRN_E_NOT_FOUND, without an error text, if it is not there. */
firn_rc btree_delete(struct btree_session *session, struct btree *tree, struct span key,
                     uint64_t *end_lsn);

/* ---- Large values that were kept ----
 *
 * An edit with `keeps_chain` leaves the old value's chain to whoever has a copy of its cell. It is
 * the tree's no more, nor in limbo: freeing it, or putting the cell back, is the keeper's business.
 */

/**
 * Read a large value whole through its cell: one that was kept, or one that the tree had a moment
 * ago.
 *
 * @param value  set on success; valid until the session's next call
 * @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text: the chain is gone, or it is damaged (no
 *         chain that is still kept is gone); FIRN_E_IO, ...
 */
firn_rc btree_read_kept(struct btree_session *session, struct btree *tree, struct span cell,
                        struct span *value);

/** Free a large value that was kept. Repeating it, after a crash too, does no harm: first page and
 * stamp name one chain for ever. What cannot be freed is in limbo until the tablespace is opened
 * next. @return FIRN_OK; before it has begun: FIRN_E_INVALID (no cell of this tree),
 * FIRN_E_NOSPACE, FIRN_E_STOPPED, FIRN_E_IO, ... */
firn_rc btree_free_kept(struct btree_session *session, struct btree *tree, struct span cell);

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

/** The cell under the cursor; valid until it moves. Nothing is read. FIRN_E_MISUSE if it stands on
 * no row */
firn_rc btree_cursor_cell(struct btree_cursor *cursor, struct btree_old *row);

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

struct btree_check_options {
    unsigned threads;
    finding_report *report; /* may be called by several threads, one at a time */
    btree_page_seen *seen;  /* called for each page, by several threads at once; or NULL */
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

/**
 * Judge a chain that was kept, and call a function for each of its pages, which are allocated to
 * the index like those that btree_check finds. While nobody frees it.
 *
 * @return FIRN_OK; FIRN_E_CORRUPT: the cell is none of this tree, or its chain not whole; FIRN_E_IO
 */
firn_rc btree_chain_pages(struct btree *tree, struct span cell, btree_page_seen *seen,
                          void *context);

struct btree_counters {
    uint64_t splits;
    uint64_t merges;
    uint64_t restarts;      /* optimistic readers and writers that had to begin again */
    uint64_t latched_reads; /* reads that fell back to latches */
};

/** Fill in what the tree has counted since it was opened. Any thread. */
void btree_counters(struct btree *tree, struct btree_counters *counters);

#endif
