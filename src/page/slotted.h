/*
 * slotted.h -- a node of a B+tree as bytes: sorted slots, cells, fences.
 *
 * Slots stand at the front, 8 bytes each and in key order: the first 4 bytes of the key behind the
 * page's prefix (as a number, so that most comparisons touch nothing else), the cell's offset, the
 * key's size. Cells fill the page from its end. Each node keeps the range of keys it may hold, its
 * fences: lower (inclusive) and upper (exclusive; absent: to the end), and what both fences begin
 * with is cut off all its keys (Graefe, "Modern B-Tree Techniques", 2011; prefix truncation and
 * poor man's normalized keys).
 *
 * In an inner node the values are child page numbers (4 bytes) and the first key is the lower
 * fence, so the child for a key is that of the last slot at or below it.
 *
 * Functions that only read may be called on a page that changes meanwhile (buffer.h, optimistic
 * views): whatever the bytes, they end, stay inside the page and return something; the caller
 * validates afterwards and throws the answer away if the page changed. Functions that change are
 * deterministic: the same call on the same bytes gives the same bytes, because redo repeats them.
 */
#ifndef FIRN_PAGE_SLOTTED_H
#define FIRN_PAGE_SLOTTED_H

#include "base/span.h"
#include "page/page.h"

enum {
    SLOTTED_EXTERNAL = 1, /* the value is a reference to one that lies on blob pages */
};

/** What an index page knows about itself beside its cells. */
struct slotted_bounds {
    uint64_t index_id;
    uint16_t level; /* 0 for leaves */
    uint32_t prev;  /* siblings on the level, PAGE_NONE at the ends */
    uint32_t next;
    struct span lower;  /* inclusive; empty: from the beginning */
    struct span upper;  /* exclusive */
    bool upper_is_open; /* to the end; upper is then ignored */
};

/** @return the largest key that a page of this size takes, in bytes: 3/16 of it. */
static inline size_t slotted_key_max(uint32_t page_size_bytes)
{
    return page_size_bytes / 16 * 3;
}

/** @return the largest sum of key and value that stays on the page; larger values go to blob pages.
 * Any page has room for three cells of it beside two fences. */
static inline size_t slotted_cell_max(uint32_t page_size_bytes)
{
    return page_size_bytes / 5;
}

/** Make an empty node; header as page_init. The spans must not point into the page. */
void slotted_init(uint8_t *page, uint32_t page_size_bytes, uint64_t page_id,
                  const struct slotted_bounds *bounds);

/** Read what the page knows about itself; its spans point into the page. */
void slotted_bounds(const uint8_t *page, uint32_t page_size_bytes, struct slotted_bounds *bounds);

static inline uint64_t slotted_index_id(const uint8_t *page)
{
    return get_u64(page + 24);
}

static inline unsigned slotted_level(const uint8_t *page)
{
    return get_u16(page + 32);
}

static inline unsigned slotted_count(const uint8_t *page)
{
    return get_u16(page + 34);
}

static inline uint32_t slotted_prev(const uint8_t *page)
{
    return get_u32(page + 44);
}

static inline uint32_t slotted_next(const uint8_t *page)
{
    return get_u32(page + 48);
}

/**
 * Find a key.
 *
 * @param slot  the first slot whose key is at or above it; the count if there is none
 * @return true if that slot's key equals it
 */
bool slotted_search(const uint8_t *page, uint32_t page_size_bytes, struct span key, unsigned *slot);

/**
 * Find the child that a key belongs to. Inner nodes.
 *
 * @param slot  its slot
 * @return the child's page number; PAGE_NONE from an empty (or changing) page
 */
uint32_t slotted_child(const uint8_t *page, uint32_t page_size_bytes, struct span key,
                       unsigned *slot);

/** @return the page number in an inner node's slot; PAGE_NONE if there is no such slot. */
uint32_t slotted_child_at(const uint8_t *page, uint32_t page_size_bytes, unsigned slot);

/** @return true if a key lies between the fences. */
bool slotted_covers(const uint8_t *page, uint32_t page_size_bytes, struct span key);

/** @return the prefix that all keys of the page share; it points into the page. */
struct span slotted_prefix(const uint8_t *page, uint32_t page_size_bytes);

/** A cell: key without the page's prefix, value; both point into the page. */
struct slotted_cell {
    struct span suffix;
    struct span value;
    unsigned flags;
};

/** Read a cell. @return false if there is no such slot, or a changing page makes no sense. */
bool slotted_cell(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                  struct slotted_cell *cell);

/** Copy the whole key of a slot. @return its size; 0 as well where slotted_cell returns false.
 * @param key  room for slotted_key_max */
size_t slotted_copy_key(const uint8_t *page, uint32_t page_size_bytes, unsigned slot, uint8_t *key);

/** @return bytes free for cells and slots, after tidying up. */
size_t slotted_free_bytes(const uint8_t *page, uint32_t page_size_bytes);

/** @return bytes that one more cell takes, slot included. key_size_bytes is the whole key's. */
size_t slotted_cost(const uint8_t *page, size_t key_size_bytes, size_t value_size_bytes);

/**
 * Insert a cell before a slot, tidying up if the room is scattered. The caller has found the slot
 * and seen that there is room (slotted_cost is at most slotted_free_bytes).
 *
 * @param key  the whole key; it lies between the fences
 */
void slotted_insert(uint8_t *page, uint32_t page_size_bytes, unsigned slot, struct span key,
                    struct span value, unsigned flags);

/** Remove a cell. */
void slotted_delete(uint8_t *page, uint32_t page_size_bytes, unsigned slot);

/** @return true if a value of another size can take the place of a slot's. */
bool slotted_can_update(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                        size_t value_size_bytes);

/** Replace a cell's value; slotted_can_update has said yes. In place where sizes are equal. */
void slotted_update(uint8_t *page, uint32_t page_size_bytes, unsigned slot, struct span value,
                    unsigned flags);

/** Overwrite a part of a value; offset and size lie within it. */
void slotted_patch(uint8_t *page, uint32_t page_size_bytes, unsigned slot, size_t offset,
                   struct span bytes);

/** @return true if cells [from, to) of source fit into a page with these fences that has
 * `used_bytes` of cells already (measured with the new prefix). */
bool slotted_fits(const uint8_t *source, uint32_t page_size_bytes, unsigned from, unsigned to,
                  const struct slotted_bounds *bounds, size_t used_bytes);

/**
 * Rebuild a page so that it keeps cells [from, to) under new fences and siblings: one half of a
 * split, or the widening before a merge. They fit (slotted_fits).
 *
 * @param bounds  its spans must not point into the page
 */
void slotted_rebuild(uint8_t *page, uint32_t page_size_bytes, unsigned from, unsigned to,
                     const struct slotted_bounds *bounds);

/**
 * Pack cells [from, to) of a page for slotted_append_packed: whole keys, so that the prefix of the
 * page they go to does not matter.
 *
 * @param packed  room for slotted_packed_bytes
 * @return bytes written
 */
size_t slotted_packed_bytes(const uint8_t *page, uint32_t page_size_bytes, unsigned from,
                            unsigned to);
size_t slotted_pack(const uint8_t *page, uint32_t page_size_bytes, unsigned from, unsigned to,
                    uint8_t *packed);

/** Add one cell to a packed run that a bulk build makes. @return bytes written
 * @param packed  room for 8 bytes beside key and value */
size_t slotted_pack_cell(struct span key, struct span value, unsigned flags, uint8_t *packed);

/** Append packed cells behind a page's last; they fit and follow in order. @return FIRN_OK;
 * FIRN_E_CORRUPT when the bytes are no packed cells, do not fit or are out of order; the page may
 * then be half filled */
firn_rc slotted_append_packed(uint8_t *page, uint32_t page_size_bytes, struct span packed);

/** Set the siblings. */
void slotted_set_prev(uint8_t *page, uint32_t page_no);
void slotted_set_next(uint8_t *page, uint32_t page_no);

/**
 * Choose where to split a full page for an insert before `slot`: by bytes in the middle, but at the
 * insert's place when inserts come in ascending (or descending) order, so that pages are left full.
 *
 * @return the first slot that goes to the right-hand page, counted as before the insert; from 0
 *         (descending inserts: only the new cell stays left) to the count (only the new cell goes
 *         right). Both halves fit, the new cell included.
 */
unsigned slotted_split_slot(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                            size_t cost_bytes);

/**
 * Write the shortest key that is above left and at or below right: the separator of two leaves.
 *
 * @param separator  room for right's size
 * @return its size
 */
size_t slotted_separator(struct span left, struct span right, uint8_t *separator);

/**
 * Judge a page's inside: offsets, overlaps, heads, order, fences, sums.
 *
 * @param what  set when something is wrong: a sentence part such as "slots 4 and 5 are out of
 *              order"; at least 128 bytes
 * @return FIRN_OK or FIRN_E_CORRUPT, without an error text
 */
firn_rc slotted_check(const uint8_t *page, uint32_t page_size_bytes, char what[128]);

#endif
