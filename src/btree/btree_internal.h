/*
 * btree_internal.h -- trees, sessions, and the ways down a tree, for the files of this folder.
 *
 * README.md has the rules that the names here stand for.
 */
#ifndef FIRN_BTREE_BTREE_INTERNAL_H
#define FIRN_BTREE_BTREE_INTERNAL_H

#include "btree/btree.h"

#include "base/park.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    BTREE_HEIGHT_MAX = 18, /* levels: what a split of all of them latches fits an mtr */
    BTREE_TRIES = 8,       /* optimistic attempts before latches are used */
    BTREE_CACHE_LINE = 64,
};

struct btree {
    struct btree_base base;
    uint32_t space;
    uint32_t root_page;
    uint64_t index_id;
    uint64_t root_id; /* space and root page */
    uint32_t page_size_bytes;
    unsigned head_bytes; /* of a large value that stay in its cell */

    /* Where the root was last time; any value does no harm, for the pool verifies it. */
    _Atomic(struct buffer_frame *) root_frame;

    /* Bulk builds begun; a cursor that sees it change no longer trusts links (README.md). */
    atomic_ulong builds;

    /* Held shared by whoever splits or merges and gives up when a latch is not free, and
     * exclusively by whoever did so too often and now waits for latches. Before any latch. */
    pthread_rwlock_t structure;

    /* Counters: written rarely, so they do not disturb those who read what stands above. */
    _Alignas(BTREE_CACHE_LINE) atomic_ulong splits;
    atomic_ulong merges;
    atomic_ulong restarts;
    atomic_ulong latched_reads;
};

/** Memory that grows and stays. */
struct btree_bytes {
    uint8_t *bytes;
    size_t capacity_bytes;
};

/** Make room for size_bytes; the content is not kept. FIRN_E_NOMEM */
firn_rc btree_bytes_reserve(struct btree_bytes *bytes, size_t size_bytes);

/** Where a row is decided about or looked at, for btree_next_key. */
struct btree_place {
    struct btree *tree;  /* NULL: nowhere */
    const uint8_t *leaf; /* latched */
    unsigned slot;       /* of the key behind, if it is in this leaf */
    bool asked;          /* btree_next_key has been called here */
    bool known;          /* and this is its answer */
    firn_rc rc;
    struct span next;

    bool tries;           /* no latch is waited for: others are held that come behind */
    const uint8_t *right; /* the leaf on the right where it is latched already; or NULL */

    struct buffer_frame **held; /* leaves on the right, latched shared */
    unsigned held_count;
    unsigned held_capacity;
    bool wanted;                 /* find out at the next visit, before anything else is latched */
    uint32_t missing;            /* what AGAIN was about, or PAGE_NONE */
    struct buffer_frame *pinned; /* what that was when it was last read, or NULL */
};

struct btree_session {
    struct btree_base base;
    struct mtr mtr;
    uint32_t page_size_bytes;
    struct btree_place place;
    struct btree_bytes value;  /* what a get returns; the old value that a decision is about */
    struct btree_bytes packed; /* cells on their way from page to page */
    uint8_t *old_cell;         /* the value part of a cell that a decision was about */
    uint8_t *fence;            /* one key: a fence that must not point into its page */
    uint8_t *separators;       /* one key for each level */
    uint8_t *next_key;         /* one key: the answer of btree_next_key */
};

/** Count one. Any thread. */
static inline void btree_count(atomic_ulong *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/** Raise FIRN_E_INVALID for a key that is too long. */
firn_rc btree_check_key(const struct btree *tree, struct span key);

/** Raise FIRN_E_CORRUPT for a page of a tree. @param what  a sentence part: "is no node of it" */
firn_rc btree_raise_corrupt(const struct btree *tree, uint32_t page_no, const char *what);

/** Turn the pool's FIRN_E_NOT_FOUND for a page that a tree refers to into FIRN_E_CORRUPT, for
 * FIRN_E_NOT_FOUND means that a key is not there. */
firn_rc btree_missing_page(const struct btree *tree, uint32_t page_no, firn_rc rc);

/** @return true if a page says that it is a node of this tree. */
static inline bool btree_is_node(const struct btree *tree, const uint8_t *page)
{
    return page_type(page) == PAGE_TYPE_INDEX && slotted_index_id(page) == tree->index_id;
}

/* ---- Going down: descend.c ---- */

/** A node as a reader holds it: optimistically, or latched shared. */
struct btree_node {
    const uint8_t *page;
    struct buffer_view view;      /* open unless latched */
    struct buffer_frame *pinned;  /* pinned besides, because it had to be read; or NULL */
    struct buffer_frame *latched; /* latched shared; or NULL */
};

/** Has the node stood still? Only then what was read from it counts. */
static inline bool btree_node_valid(const struct btree *tree, const struct btree_node *node)
{
    return node->latched != NULL || buffer_view_valid(tree->base.pool, &node->view);
}

/** End a look at a node, by view or by latch. */
void btree_node_close(const struct btree *tree, struct btree_node *node);

enum btree_way {
    BTREE_WAY_KEY,   /* to where the key is or would be */
    BTREE_WAY_BELOW, /* to where the largest key below it would be */
    BTREE_WAY_LAST,  /* to the right end */
};

/** What a descent looks for. */
struct btree_target {
    enum btree_way way;
    struct span key;
    unsigned level; /* stop there; a lower tree stops at its root */
    enum buffer_hint hint;
};

/**
 * Go down once.
 *
 * @param latched  by shared latches, each taken before the one above is given back; else
 *                 optimistically
 * @param node     set on success; btree_node_close
 * @return FIRN_OK: the node was the right one at a moment since the call, and still is if it is
 *         valid after what is read from it; BTREE_AGAIN; FIRN_E_CORRUPT, FIRN_E_IO, ...
 */
firn_rc btree_descend(struct btree *tree, const struct btree_target *target, bool latched,
                      struct btree_node *node);

/** Is it time for latches? Counts attempts after the first as restarts. */
static inline bool btree_wants_latches(struct btree *tree, unsigned attempt)
{
    if (attempt > 0)
        btree_count(&tree->restarts);
    return attempt >= BTREE_TRIES;
}

/** @return the child to go on to, and its slot; PAGE_NONE from a changing node. */
uint32_t btree_child_on_way(const struct btree *tree, const uint8_t *page,
                            const struct btree_target *target, unsigned *slot);

/** Show a cell: of a large value the head. Of a cell of a changing leaf anything, but no more than
 * the cell. */
static inline void btree_show(const struct btree *tree, const struct slotted_cell *cell,
                              struct btree_old *row)
{
    size_t head_bytes = tree->head_bytes;
    row->is_large = cell->flags & SLOTTED_EXTERNAL;
    row->cell = cell->value;
    row->value = cell->value;
    if (row->is_large && head_bytes < cell->value.size_bytes)
        row->value.size_bytes = head_bytes;
}

/** btree_get into a buffer, which has room for a page at least afterwards. */
firn_rc btree_read_value(struct btree *tree, struct span key, struct btree_bytes *buffer,
                         struct span *value);

/**
 * Latch the leaf that a key belongs to.
 *
 * @param mode   BUFFER_SHARED or BUFFER_EXCLUSIVE; buffer_unfix
 * @param frame  set on success; the key lies between the leaf's fences
 */
firn_rc btree_latch_leaf(struct btree *tree, struct span key, enum buffer_mode mode,
                         struct buffer_frame **frame);

/* ---- The key behind: look.c ---- */

/** Begin to be at a place, which is left when the leaf is. @param slot  the first behind the key */
static inline void btree_place_enter(struct btree_session *session, struct btree *tree,
                                     const uint8_t *leaf, unsigned slot)
{
    struct btree_place *place = &session->place;
    place->tree = tree;
    place->leaf = leaf;
    place->slot = slot;
    place->asked = false;
    place->known = false;
}

/** Find the key behind if an earlier visit found that it is wanted. @return FIRN_OK, BTREE_AGAIN */
firn_rc btree_place_foresee(struct btree_session *session);

/** Give back what is latched on the right. */
void btree_place_release(struct btree_session *session);

/** Leave a place, if there is one. */
static inline void btree_place_leave(struct btree_session *session)
{
    session->place.tree = NULL;
    if (session->place.tries || session->place.held_count > 0)
        btree_place_release(session);
}

/** After BTREE_AGAIN, with nothing latched: read what was missing, for the next time. */
firn_rc btree_place_read(struct btree_session *session, struct btree *tree);

/** The operation is over, or another page is wanted: forget what was read. */
static inline void btree_place_end(struct btree_session *session)
{
    if (session->place.pinned != NULL)
        buffer_unfix(session->base.pool, session->place.pinned, BUFFER_PIN);
    session->place.pinned = NULL;
    session->place.wanted = false;
}

/* ---- Fresh pages, and giving up ---- */

/**
 * Allocate a page for an index and fix it, to be initialised. May fail; what an mtr has got before
 * is then still there.
 *
 * @param near  page number of what it should lie close to, or PAGE_NONE
 */
firn_rc btree_fresh_page(struct btree_session *session, uint32_t space, uint64_t owner,
                         uint32_t near, struct mtr_page **page);

/**
 * Have a file grown before anything is latched, if so many pages could not be had otherwise. No
 * more than a help: what fails here is told by the allocation, if that fails as well.
 */
static inline void btree_grow_ahead(struct btree_session *session, uint32_t space, uint32_t pages)
{
    (void)space_prepare(session->base.spaces, space, pages);
}

/** Allocate adjacent pages and fix them, as many as are free together up to wanted. All or none. */
firn_rc btree_fresh_run(struct btree_session *session, uint32_t space, uint64_t owner,
                        uint32_t near, uint32_t wanted, struct mtr_page **pages, uint32_t *got);

/** Give a fresh page back that has not been changed yet. */
void btree_return_page(struct btree_session *session, uint64_t owner, struct mtr_page *page);

/** End a mini-transaction whose changes, if any, have been taken back. @return rc */
firn_rc btree_give_up(struct mtr *mtr, firn_rc rc);

/* ---- Ways down that are kept, for changes of the structure: path.c ---- */

/** A node on the way. */
struct btree_path_node {
    const uint8_t *page;         /* NULL above the root */
    struct buffer_view view;     /* optimistic paths: open while `watched` */
    struct buffer_frame *pinned; /* pinned besides, or NULL */
    struct mtr_page *locked;     /* latched exclusively and the mini-transaction's, or NULL */
    unsigned slot;               /* of the child that the way goes on to */
    bool watched;
};

/** Nodes by level, from the leaf (0) to the root (height - 1). */
struct btree_path {
    struct btree *tree;
    struct mtr *mtr;
    unsigned height;
    bool frozen; /* nobody else changes the structure: it may wait for latches */
    struct btree_path_node nodes[BTREE_HEIGHT_MAX];
};

/**
 * Begin an attempt to change the structure around a key: a mini-transaction, the structure's lock,
 * the way down. Nothing is latched yet.
 *
 * @param log_bytes  for mtr_begin
 * @param attempt    counted from 0; from BTREE_TRIES on the structure is frozen
 * @param path       to be ended with btree_path_end when FIRN_OK is returned, after the
 *                   mini-transaction has been committed or abandoned
 * @return FIRN_OK, BTREE_AGAIN, failures
 */
firn_rc btree_path_begin(struct btree_session *session, struct btree *tree, struct span key,
                         size_t log_bytes, unsigned attempt, struct btree_path *path);

/** Give up an attempt: what it latched and pinned. @return rc */
firn_rc btree_path_abandon(struct btree_path *path, firn_rc rc);

/** Commit an attempt's mini-transaction. */
firn_rc btree_path_commit(struct btree_path *path, uint64_t *end_lsn);

/** Has a node of the way stood still since it was looked at? */
bool btree_path_still(const struct btree_path *path, unsigned level);

/** Latch a node of the way exclusively, the leaf first: FIRN_OK, or BTREE_AGAIN if it has changed
 * since or is latched by others. The leaf may have been changed by then, but is the right one. */
firn_rc btree_path_lock(struct btree_path *path, unsigned level);

/** Pin a page of the tree, reading it if need be. */
firn_rc btree_pin(struct btree *tree, uint32_t page_no, struct buffer_frame **frame);

/**
 * Latch a page of the tree that is pinned, exclusively: it becomes the mini-transaction's, the pin
 * included.
 *
 * @param frame  set to NULL on success
 * @return FIRN_OK; BTREE_AGAIN when others have it latched and the path is not frozen
 */
firn_rc btree_path_lock_pinned(struct btree_path *path, struct buffer_frame **frame,
                               struct mtr_page **page);

/* ---- Changing one key: edit.c, split.c, merge.c ---- */

/** One entry of a tablespace's register of pages in limbo, claimed by somebody. */
struct btree_claim {
    struct buffer_frame *frame; /* the register's page, pinned; NULL: nothing is claimed */
    struct mtr_page *page;      /* while it is locked */
    unsigned index;
};

/** A reference to a large value, as the cell has it. */
struct btree_reference {
    uint32_t first_page;
    uint32_t page_count;
    uint64_t size_bytes;
    uint64_t stamp; /* all pages of the chain have it, and no other chain that begins there */
};

enum {
    BTREE_REFERENCE_BYTES = 24,
    BTREE_CELL_MAX_BYTES = BTREE_HEAD_MAX_BYTES + BTREE_REFERENCE_BYTES, /* of a large value */
};

/* A key of any size goes with it. */
_Static_assert(BTREE_CELL_MAX_BYTES <= PAGE_SIZE_MIN / 5 - PAGE_SIZE_MIN / 16 * 3, "head");

/** What reading a large value came to: tells a chain that was freed from one that is damaged. */
struct btree_chain_failure {
    firn_rc rc; /* FIRN_OK: nothing has failed yet */
    struct btree_reference reference;
};

/** A key that is being changed: what was decided, and what that still needs. */
struct btree_write {
    struct btree *tree;
    struct span key;
    const struct btree_edit *edit;

    /* What was decided, and about what: session->old_cell has the bytes of the cell's value. */
    bool decided;
    bool asked_next; /* the decision was also about the key behind */
    enum btree_action action;
    struct btree_new new;
    bool old_exists;
    unsigned old_flags;
    size_t old_size_bytes;

    /* What goes into the cell: the value, or its head and a reference. */
    struct span cell_value;
    unsigned cell_flags;

    /* Large values. */
    bool old_is_read; /* session->value holds what `old_read` is the cell of */
    uint8_t old_read[BTREE_CELL_MAX_BYTES];
    size_t old_read_bytes;  /* of the cell */
    size_t old_value_bytes; /* of the value */
    struct btree_chain_failure old_failure;
    struct btree_claim claim;
    bool chain_written; /* `chain_cell` is the new value's, and the claim's entry names its chain */
    uint8_t chain_cell[BTREE_CELL_MAX_BYTES];
    bool frees_old; /* the claim's entry has come to name the old value's chain */
    bool is_done;   /* carried out, and the claim's entry set accordingly */
};

/** Does a decision still count: is in the leaf what it was about? */
bool btree_write_holds(const struct btree_session *session, const struct btree_write *write,
                       const uint8_t *leaf, unsigned slot, bool found);

/**
 * See that a decision counts that was made in an earlier visit to the leaf, which is latched again
 * and has been entered as a place: if it was about the key behind, make it anew.
 *
 * @return FIRN_OK; BTREE_AGAIN: visit the leaf once more; what decide set
 */
firn_rc btree_write_confirm(struct btree_session *session, struct btree_write *write,
                            const uint8_t *leaf, unsigned slot, bool found);

/** Latch what the write needs beside index pages: the register of limbo. */
firn_rc btree_write_prepare(struct btree_session *session, struct btree_write *write);

/** The last before the first change: the companion. BTREE_AGAIN: visit the leaf once more. */
firn_rc btree_write_accompany(struct btree_session *session, struct btree_write *write);

/** Record the fates of chains, in the mini-transaction that puts or deletes the cell. */
void btree_write_chains(struct btree_session *session, struct btree_write *write);

/**
 * Put a cell that its leaf has no room for: split nodes and insert it, in one mini-transaction.
 *
 * @return FIRN_OK; BTREE_AGAIN when the decision no longer counts or there is room by now; failures
 */
firn_rc btree_split(struct btree_session *session, struct btree *tree, struct btree_write *write,
                    uint64_t *end_lsn);

/** Has a change from so many free bytes to so many in a leaf made it worth trying to merge it? */
bool btree_wants_merge(const uint8_t *leaf, uint32_t page_size_bytes, size_t free_before_bytes);

/** Give pages back: merge nodes around a key with their siblings where both fit into one, and drop
 * a root with one child. */
firn_rc btree_rebalance(struct btree_session *session, struct btree *tree, struct span key);

#endif
