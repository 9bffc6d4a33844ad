/*
 * blob_internal.h -- large values in chains of pages, and the register of pages in limbo.
 */
#ifndef FIRN_BTREE_BLOB_INTERNAL_H
#define FIRN_BTREE_BLOB_INTERNAL_H

#include "btree/btree_internal.h"

/* ---- A page of a chain (FORMAT.md) ---- */

enum {
    BLOB_AT_INDEX_ID = PAGE_HEADER_BYTES, /* u64 */
    BLOB_AT_STAMP = 32,                   /* u64 */
    BLOB_AT_POSITION = 40,                /* u64, of the page's bytes in the value */
    BLOB_AT_LENGTH = 48,                  /* u32, bytes of the value on this page */
    BLOB_AT_NEXT = 52,                    /* u32, PAGE_NONE at the end */
    BLOB_AT_FIRST = 56,                   /* u32, the chain's first page */
    BLOB_AT_RUN = 60,                     /* u32, so many pages behind this one follow in order */
    BLOB_AT_DATA = 64,

    BLOB_STEP_PAGES = 16, /* of a chain, written in one mini-transaction; read ahead at once */
};

_Static_assert(BLOB_AT_STAMP == BLOB_AT_INDEX_ID + 8, "blob page");
_Static_assert(BLOB_AT_DATA == BLOB_AT_RUN + 4, "blob page");

/** @return bytes of a value that one blob page holds. */
static inline size_t blob_capacity(uint32_t page_size_bytes)
{
    return page_size_bytes - BLOB_AT_DATA;
}

/* ---- References ---- */

/** Write the cell of a large value: its head and the reference. @param to  room for
 * BTREE_CELL_MAX_BYTES. @return it */
struct span btree_cell_put(const struct btree *tree, struct span value,
                           const struct btree_reference *reference, uint8_t *to);

/** Read the reference that ends a cell, whatever its size. */
void btree_reference_get(struct span cell, struct btree_reference *reference);

/** Do two references name one and the same chain? */
bool btree_reference_equals(const struct btree_reference *left,
                            const struct btree_reference *right);

/** Copy the cell of a large value to where nothing overwrites it; of a damaged one as much as there
 * is room for. @param to  room for BTREE_CELL_MAX_BYTES */
static inline struct span btree_cell_copy(struct span cell, uint8_t *to)
{
    size_t size_bytes =
        cell.size_bytes < BTREE_CELL_MAX_BYTES ? cell.size_bytes : BTREE_CELL_MAX_BYTES;
    memcpy(to, cell.bytes, size_bytes);
    return span_of(to, size_bytes);
}

/** @return true if bytes may be the cell of a large value of this tree. */
bool btree_cell_is_sound(const struct btree *tree, struct span cell);

/* ---- Chains ---- */

/** Is a page the one of a chain that holds the value's bytes from a position on? */
bool btree_chain_has(const struct btree *tree, const struct btree_reference *reference,
                     uint64_t position, const uint8_t *page);

/**
 * Read a large value.
 *
 * @param cell        not in the buffer
 * @param value       filled on success
 * @param size_bytes  of the value, set on success
 * @return FIRN_OK; BTREE_AGAIN when the pages are not that chain: the reference is out of date, or
 *         the tree is damaged; failures
 */
firn_rc btree_chain_read(struct btree *tree, struct span cell, struct btree_bytes *value,
                         size_t *size_bytes);

/**
 * Read a large value whose cell has just been seen in a leaf.
 *
 * @param failure  zeroed before the first try. A reference is used once: if it fails and is seen
 *                 again in its leaf, then it was no freed chain that was met
 * @return FIRN_OK; BTREE_AGAIN: look at the leaf again; failures
 */
firn_rc btree_chain_read_seen(struct btree *tree, struct span cell, struct btree_bytes *value,
                              size_t *size_bytes, struct btree_chain_failure *failure);

/**
 * Write a large value, but for its head, into a chain, which is in limbo from its first page on.
 *
 * @param value      the whole; longer than the tree's heads
 * @param which      the claim's entry that names the chain
 * @param tail       PAGE_NONE to begin a chain; else the last page of one that is named already,
 *                   which goes on with this value's pages. Set to the last page, on success
 * @param reference  set on success
 * @return FIRN_OK; failures: the claim's entry names what was written until then
 */
firn_rc btree_chain_write(struct btree_session *session, struct btree *tree, struct span value,
                          struct btree_claim *claim, unsigned which, uint32_t *tail,
                          struct btree_reference *reference);

/* ---- Limbo ---- */

enum btree_limbo_kind {
    BTREE_LIMBO_NONE = 0,    /* a free entry */
    BTREE_LIMBO_CLAIMED = 1, /* taken, names nothing yet */
    BTREE_LIMBO_CHAIN = 2,   /* page_count pages of a chain */
    BTREE_LIMBO_LEVEL = 3,   /* nodes, linked to the right; not the chains that they refer to */
};

enum {
    LIMBO_AT_NEXT = PAGE_HEADER_BYTES, /* u32, the register's next page, 0 at its end */
    LIMBO_AT_ENTRIES = 32,
    LIMBO_ENTRY_BYTES = 32, /* kind u32, first page u32, pages u32, 0 u32, index u64, stamp u64 */
};

_Static_assert(LIMBO_AT_ENTRIES >= LIMBO_AT_NEXT + 4, "register of limbo");

#define BTREE_LIMBO_TO_END UINT32_MAX /* page_count: to the end of the chain */

/** Pages that belong to nobody. */
struct btree_limbo_entry {
    enum btree_limbo_kind kind;
    uint32_t first_page;
    uint32_t page_count;
    uint64_t index_id;
    uint64_t stamp;
};

/** Name the chain that a large value's cell refers to. */
void btree_limbo_name(const struct btree *tree, struct span cell, struct btree_limbo_entry *entry);

/** Does an entry name this chain from its first page on? */
firn_rc btree_limbo_has(struct btree *tree, const struct btree_reference *reference, bool *has);

/** Claim entries side by side, one as a rule: in the log before anything that they will name. */
firn_rc btree_claim(struct btree_session *session, uint32_t space, unsigned count,
                    struct btree_claim *claim);

/** Latch a claim's page for the mini-transaction under way. */
firn_rc btree_claim_lock(struct btree_session *session, struct btree_claim *claim);

/** Set an entry of a claim; locked. BTREE_LIMBO_NONE gives it back: then it is others'.
 * @param which  counted from 0 */
void btree_claim_set(struct btree_session *session, struct btree_claim *claim, unsigned which,
                     const struct btree_limbo_entry *entry);

/** Forget a claim whose entries have been given back. */
void btree_claim_drop(struct btree_session *session, struct btree_claim *claim);

/** Free what an entry names, in as many mini-transactions as it takes; the entry stays claimed.
 * What could not be freed stays in limbo. */
firn_rc btree_claim_free_pages(struct btree_session *session, struct btree_claim *claim,
                               unsigned which);

/** End a claim: free what its entries name, give them back. What could not be freed stays in limbo
 * until after the next crash or opening. */
firn_rc btree_claim_end(struct btree_session *session, struct btree_claim *claim, unsigned count);

/** The bound of log that setting an entry takes. */
static inline size_t btree_claim_cost(void)
{
    return mtr_cost(LIMBO_ENTRY_BYTES);
}

#endif
