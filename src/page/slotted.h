/*
 * slotted.h -- a node of a B+tree as bytes: sorted slots, cells, fences.
 *
 * Slots stand at the front, 8 bytes each and in key order: a head, 4 bytes of the key behind all
 * that the page's keys share (as a number, so that most comparisons touch nothing else), the cell's
 * offset, the size of the key behind the prefix. Cells fill the page from its end. Each node keeps
 * the range of keys it may hold, its fences: lower (inclusive) and upper (exclusive; absent: to the
 * end), and what both fences begin with is cut off all its keys (Graefe, "Modern B-Tree
 * Techniques", 2011; prefix truncation and poor man's normalized keys).
 *
 * In an inner node the values are child page numbers (4 bytes) and the first key is the lower
 * fence (when a mini-transaction ends; a split may insert it last), so the child for a key is that
 * of the last slot at or below it.
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
    SLOTTED_EXTERNAL = 1,     /* the value ends with a reference to what lies on blob pages */
    SLOTTED_LEVEL_MAX = 31,   /* no tree is higher */
    SLOTTED_SLOTS_AT = 64,    /* the slots begin one cache line into the page */
    SLOTTED_SLOT_BYTES = 8,   /* head u32, cell offset u16, suffix size u16 */
    SLOTTED_VALUE_AT = 2,     /* a cell: value size and external bit u16, suffix, value */
    SLOTTED_PACKED_BYTES = 6, /* at most what packing adds to a key and its value */
};

/** Where those fields of the header stand that the readers below need; slotted_internal.h has all.
 */
enum {
    SLOTTED_AT_INDEX_ID = PAGE_HEADER_BYTES, /* u64 */
    SLOTTED_AT_LEVEL = 32,                   /* u16 */
    SLOTTED_AT_COUNT = 34,                   /* u16, slots */
    SLOTTED_AT_PREV = 44,                    /* u32 */
    SLOTTED_AT_NEXT = 48,                    /* u32 */
    SLOTTED_AT_PREFIX = 52,                  /* u16, size of the prefix */
    SLOTTED_AT_LOWER = 54,                   /* u16, size of the lower fence, which ends the page */
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

/** Make an empty node; header as page_init. The fences are at most slotted_key_max long, the lower
 * below the upper; their spans must not point into the page. */
void slotted_init(uint8_t *page, uint32_t page_size_bytes, uint64_t page_id,
                  const struct slotted_bounds *bounds);

/** Read what the page knows about itself; its spans point into the page. */
void slotted_bounds(const uint8_t *page, uint32_t page_size_bytes, struct slotted_bounds *bounds);

/** @return the index that the page belongs to. */
static inline uint64_t slotted_index_id(const uint8_t *page)
{
    return get_u64(page + SLOTTED_AT_INDEX_ID);
}

/** @return how far above the leaves it stands; 0 for a leaf. */
static inline unsigned slotted_level(const uint8_t *page)
{
    return get_u16(page + SLOTTED_AT_LEVEL);
}

/** @return how many cells it has. */
static inline unsigned slotted_count(const uint8_t *page)
{
    return get_u16(page + SLOTTED_AT_COUNT);
}

/** @return the page before it on its level, or PAGE_NONE. */
static inline uint32_t slotted_prev(const uint8_t *page)
{
    return get_u32(page + SLOTTED_AT_PREV);
}

/** @return the page behind it on its level, or PAGE_NONE. */
static inline uint32_t slotted_next(const uint8_t *page)
{
    return get_u32(page + SLOTTED_AT_NEXT);
}

/**
 * Find a key.
 *
 * The prefix is not compared: it lies at the page's other end, and who came down the tree knows
 * that the key belongs here. For a key outside the fences the answer is a slot, but no meaningful
 * one; ask slotted_covers first where that can happen.
 *
 * @param key   a whole key between the fences
 * @param slot  the first slot whose key is at or above it; the count if there is none
 * @return true if that slot's key equals it
 */
bool slotted_search(const uint8_t *page, uint32_t page_size_bytes, struct span key, unsigned *slot);

/**
 * Find the child that a key belongs to. Inner nodes.
 *
 * @param key   a whole key between the fences, as for slotted_search
 * @param slot  its slot; 0 from an empty page
 * @return the child's page number; PAGE_NONE from an empty (or changing) page
 */
uint32_t slotted_child(const uint8_t *page, uint32_t page_size_bytes, struct span key,
                       unsigned *slot);

/** @return the page number in an inner node's slot; PAGE_NONE if there is no such slot. */
uint32_t slotted_child_at(const uint8_t *page, uint32_t page_size_bytes, unsigned slot);

/** @return true if a key lies between the fences. */
bool slotted_covers(const uint8_t *page, uint32_t page_size_bytes, struct span key);

/** @return the prefix that all keys of the page share; it points into the page. */
static inline struct span slotted_prefix(const uint8_t *page, uint32_t page_size_bytes)
{
    /* It is what the lower fence begins with, and that ends the page. */
    size_t prefix_size = get_u16_once(page + SLOTTED_AT_PREFIX);
    size_t lower_size = get_u16_once(page + SLOTTED_AT_LOWER);
    if (lower_size > page_size_bytes || prefix_size > lower_size)
        return span_of(page, 0);
    return span_of(page + page_size_bytes - lower_size, prefix_size);
}

/** A cell: key without the page's prefix, value; both point into the page. */
struct slotted_cell {
    struct span suffix;
    struct span value;
    unsigned flags;
};

/** Read a cell. @return false if there is no such slot, or a changing page makes no sense. */
static inline bool slotted_cell(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                                struct slotted_cell *cell)
{
    size_t slot_at = SLOTTED_SLOTS_AT + (size_t)slot * SLOTTED_SLOT_BYTES;
    if (slot >= slotted_count(page) || slot_at + SLOTTED_SLOT_BYTES > page_size_bytes)
        return false;
    uint64_t word = get_u64_once(page + slot_at);
    uint32_t suffix_at = (uint32_t)(word >> 32 & 0xffff) + SLOTTED_VALUE_AT;
    uint32_t suffix_size = (uint32_t)(word >> 48);
    uint32_t value_at = suffix_at + suffix_size;
    if (value_at > page_size_bytes)
        return false;
    uint32_t value_word = get_u16_once(page + suffix_at - SLOTTED_VALUE_AT);
    uint32_t value_size = value_word & 0x7fff;
    if (value_at + value_size > page_size_bytes)
        return false;
    cell->suffix = span_of(page + suffix_at, suffix_size);
    cell->value = span_of(page + value_at, value_size);
    cell->flags = value_word >> 15;
    return true;
}

/** Copy the whole key of a slot. @return its size; 0 as well where slotted_cell returns false.
 * @param key  room for slotted_key_max */
static inline size_t slotted_copy_key(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                                      uint8_t *key)
{
    struct slotted_cell cell;
    struct span prefix = slotted_prefix(page, page_size_bytes);
    if (!slotted_cell(page, page_size_bytes, slot, &cell) ||
        prefix.size_bytes + cell.suffix.size_bytes > slotted_key_max(page_size_bytes))
        return 0;
    memcpy(key, prefix.bytes, prefix.size_bytes);
    memcpy(key + prefix.size_bytes, cell.suffix.bytes, cell.suffix.size_bytes);
    return prefix.size_bytes + cell.suffix.size_bytes;
}

/** @return bytes free for cells and slots, after tidying up. */
size_t slotted_free_bytes(const uint8_t *page, uint32_t page_size_bytes);

/** @return bytes that one more cell takes, slot included. key_size_bytes is the whole key's. */
size_t slotted_cost(const uint8_t *page, size_t key_size_bytes, size_t value_size_bytes);

/**
 * Insert a cell before a slot, tidying up if the room is scattered. The caller has found the slot
 * and seen that there is room (slotted_cost is at most slotted_free_bytes).
 *
 * @param key    the whole key; it lies between the fences; not in the page, as the value
 */
void slotted_insert(uint8_t *page, uint32_t page_size_bytes, unsigned slot, struct span key,
                    struct span value, unsigned flags);

/** Remove a cell. */
void slotted_delete(uint8_t *page, uint32_t page_size_bytes, unsigned slot);

/** @return true if a value of another size can take the place of a slot's. */
bool slotted_can_update(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                        size_t value_size_bytes);

/** Replace a cell's value; slotted_can_update has said yes. In place unless it grows. The value
 * must not lie in the page. */
void slotted_update(uint8_t *page, uint32_t page_size_bytes, unsigned slot, struct span value,
                    unsigned flags);

/** Overwrite a part of a value; offset and size lie within it, the bytes not in the page. */
void slotted_patch(uint8_t *page, uint32_t page_size_bytes, unsigned slot, size_t offset,
                   struct span bytes);

/** @return bytes that cells [from, to) of source take, slots included, on a page with these fences:
 * the prefix may be another there. */
size_t slotted_cells_bytes(const uint8_t *source, uint32_t page_size_bytes, unsigned from,
                           unsigned to, const struct slotted_bounds *bounds);

/** @return true if cells [from, to) of source fit into a page with these fences that has
 * `used_bytes` of cells already (slotted_cells_bytes with the new fences). */
bool slotted_fits(const uint8_t *source, uint32_t page_size_bytes, unsigned from, unsigned to,
                  const struct slotted_bounds *bounds, size_t used_bytes);

/**
 * Rebuild a page so that it keeps cells [from, to) under new fences and siblings: one half of a
 * split, or the widening before a merge. They fit (slotted_fits) and lie between the fences; the
 * level stays.
 *
 * @param bounds  its spans must not point into the page
 */
void slotted_rebuild(uint8_t *page, uint32_t page_size_bytes, unsigned from, unsigned to,
                     const struct slotted_bounds *bounds);

/**
 * Pack cells [from, to) of a page for slotted_append_packed: whole keys, so that the prefix of the
 * page they go to does not matter, each written as what it adds to the one before.
 *
 * @param packed  room for slotted_packed_bytes, which is at most a page and a key
 * @return bytes written
 */
size_t slotted_packed_bytes(const uint8_t *page, uint32_t page_size_bytes, unsigned from,
                            unsigned to);
size_t slotted_pack(const uint8_t *page, uint32_t page_size_bytes, unsigned from, unsigned to,
                    uint8_t *packed);

/** Add one cell to a packed run that a bulk build makes. @return bytes written
 * @param before  the key of the cell before it in the run; empty for the first
 * @param packed  room for SLOTTED_PACKED_BYTES beside key and value */
size_t slotted_pack_cell(struct span before, struct span key, struct span value, unsigned flags,
                         uint8_t *packed);

/** Append packed cells behind a page's last; they fit and follow in order. @return FIRN_OK;
 * FIRN_E_CORRUPT, the page untouched, when the bytes are no packed cells, do not fit or are out of
 * order */
firn_rc slotted_append_packed(uint8_t *page, uint32_t page_size_bytes, struct span packed);

/** Set the siblings. */
void slotted_set_prev(uint8_t *page, uint32_t page_no);
void slotted_set_next(uint8_t *page, uint32_t page_no);

/** Where to cut a node in two. */
struct slotted_split {
    unsigned slot;      /* the first that goes to the right, counted as before the insert */
    bool new_goes_left; /* the new cell's side; it decides where its slot is slotted_split.slot */
};

/**
 * Choose where to split a full page for an insert before `slot`: by bytes in the middle, but at the
 * insert's place when inserts come in ascending (or descending) order, so that pages are left full.
 * With ascending inserts at the end, only the new cell goes right; descending at the beginning, it
 * alone stays left. Both halves fit, the new cell and the fence between them included.
 *
 * @param cost_bytes  slotted_cost of the new cell, more than is free
 */
struct slotted_split slotted_split_slot(const uint8_t *page, uint32_t page_size_bytes,
                                        unsigned slot, size_t cost_bytes);

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
