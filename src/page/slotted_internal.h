/*
 * slotted_internal.h -- an index page's fields, slots and cells, for the files of this folder.
 *
 * Those that read are safe on any bytes, as slotted.h promises; those that write trust the page.
 */
#ifndef FIRN_PAGE_SLOTTED_INTERNAL_H
#define FIRN_PAGE_SLOTTED_INTERNAL_H

#include "page/slotted.h"

enum {
    AT_INDEX_ID = SLOTTED_AT_INDEX_ID,
    AT_LEVEL = SLOTTED_AT_LEVEL,
    AT_COUNT = SLOTTED_AT_COUNT,
    AT_HEAP_BEGIN = 36, /* u32, the lowest cell's offset */
    AT_GARBAGE = 40,    /* u16, bytes of the heap that belong to no cell */
    AT_SKIP = 42,       /* u16, bytes that all suffixes share: heads begin behind */
    AT_PREV = SLOTTED_AT_PREV,
    AT_NEXT = SLOTTED_AT_NEXT,
    AT_PREFIX = SLOTTED_AT_PREFIX,
    AT_LOWER = SLOTTED_AT_LOWER,
    AT_UPPER = 56,     /* u16, size of the upper fence, which stands before it */
    AT_FLAGS = 58,     /* u16, FLAG_* */
    AT_LAST_SLOT = 60, /* u16, where the last insert went */
    AT_RUN = 62,       /* i16, inserts in a row beside each other; descending: < 0 */

    FLAG_UPPER_IS_OPEN = 1,

    SLOT_AT_OFFSET = 4, /* in a slot, behind the head: u16 */
    SLOT_AT_SUFFIX = 6, /* u16, size of the suffix */

    CELL_EXTERNAL = 0x8000, /* in a cell's value size */

    CELL_COST = SLOTTED_SLOT_BYTES + SLOTTED_VALUE_AT, /* what a cell takes beside its bytes */
    CHILD_BYTES = 4,                                   /* an inner node's values */
    SLOTTED_KEY_MAX = PAGE_SIZE_MAX / 16 * 3,          /* slotted_key_max of the largest page */
    RUN_MAX = INT16_MAX,
    RUN_ENOUGH = 2, /* so many beside each other, and the one to come, are no chance */
};

_Static_assert(AT_LEVEL == AT_INDEX_ID + 8 && AT_COUNT == AT_LEVEL + 2, "index header");
_Static_assert(AT_HEAP_BEGIN == AT_COUNT + 2 && AT_GARBAGE == AT_HEAP_BEGIN + 4, "index header");
_Static_assert(AT_SKIP == AT_GARBAGE + 2 && AT_PREV == AT_SKIP + 2, "index header");
_Static_assert(AT_NEXT == AT_PREV + 4 && AT_PREFIX == AT_NEXT + 4, "index header");
_Static_assert(AT_LOWER == AT_PREFIX + 2 && AT_UPPER == AT_LOWER + 2, "index header");
_Static_assert(AT_FLAGS == AT_UPPER + 2 && AT_LAST_SLOT == AT_FLAGS + 2, "index header");
_Static_assert(AT_RUN == AT_LAST_SLOT + 2, "index header");
_Static_assert(SLOTTED_SLOTS_AT == AT_RUN + 2, "slots follow the header");
_Static_assert(SLOTTED_SLOTS_AT % 64 == 0, "the header fills a cache line");
_Static_assert(SLOT_AT_SUFFIX + 2 == SLOTTED_SLOT_BYTES, "slot");
_Static_assert(PAGE_SIZE_MAX / 5 < CELL_EXTERNAL, "a value's size leaves the top bit free");

/* The promise of slotted_cell_max, from which it follows that any full page can be split. */
#define THREE_CELLS_FIT(size)                                                                      \
    (SLOTTED_SLOTS_AT + 2 * ((size) / 16 * 3) + 3 * (CELL_COST + (size) / 5) <= (size))
_Static_assert(THREE_CELLS_FIT(PAGE_SIZE_MIN) && THREE_CELLS_FIT(PAGE_SIZE_MAX), "cell limit");

/** @return the lesser of two numbers. */
static inline unsigned smaller(unsigned left, unsigned right)
{
    return left < right ? left : right;
}

/** @return where a slot stands, to be written. */
static inline uint8_t *slot_at(uint8_t *page, unsigned slot)
{
    return page + SLOTTED_SLOTS_AT + (size_t)slot * SLOTTED_SLOT_BYTES;
}

/** @return the number of slots, not more than the page has room for. */
static inline unsigned bounded_count(const uint8_t *page, uint32_t page_size_bytes)
{
    return smaller(get_u16_once(page + AT_COUNT),
                   (page_size_bytes - SLOTTED_SLOTS_AT) / SLOTTED_SLOT_BYTES);
}

/**
 * @return the first slot that has a head. An inner node's first key is its lower fence, at or below
 * all that is ever looked for there: it needs none, and what it has in common with the others does
 * not matter. (At a tree's left edge it is the empty key, which shares nothing with any.)
 */
static inline unsigned first_headed(const uint8_t *page)
{
    return get_u16_once(page + AT_LEVEL) != 0;
}

/** @return a slot's suffix, which points into the page; empty where the slot makes no sense.
 * @param slot  below bounded_count */
static inline struct span suffix_at(const uint8_t *page, uint32_t page_size_bytes, unsigned slot)
{
    uint64_t word = get_u64_once(page + SLOTTED_SLOTS_AT + (size_t)slot * SLOTTED_SLOT_BYTES);
    uint32_t begin = (uint32_t)(word >> 32 & 0xffff) + SLOTTED_VALUE_AT;
    uint32_t size_bytes = (uint32_t)(word >> 48);
    if (begin + size_bytes > page_size_bytes)
        return span_of(page, 0);
    return span_of(page + begin, size_bytes);
}

/** @return a span without its first bytes, as many as it has. */
static inline struct span span_behind(struct span span, size_t bytes)
{
    size_t skipped = bytes < span.size_bytes ? bytes : span.size_bytes;
    if (skipped == 0) /* NULL, an empty span's, may not even be added 0 to */
        return span;
    return span_of(span.bytes + skipped, span.size_bytes - skipped);
}

/** @return how many bytes two spans have in common at their beginnings. */
static inline size_t span_shared(struct span left, struct span right)
{
    size_t limit = left.size_bytes < right.size_bytes ? left.size_bytes : right.size_bytes;
    size_t shared = 0;
    for (; shared + 8 <= limit; shared += 8) {
        uint64_t difference = get_u64(left.bytes + shared) ^ get_u64(right.bytes + shared);
        if (difference != 0)
            return shared + (size_t)__builtin_ctzll(difference) / 8;
    }
    while (shared < limit && left.bytes[shared] == right.bytes[shared])
        shared++;
    return shared;
}

/** @return a head: the first 4 bytes as a big-endian number, zeros behind a shorter key. */
static inline uint32_t head_of(struct span key)
{
    if (__builtin_expect(key.size_bytes >= 4, 1))
        return get_be32(key.bytes);
    uint32_t head = 0;
    for (size_t i = 0; i < key.size_bytes; i++)
        head |= (uint32_t)key.bytes[i] << (24 - 8 * i);
    return head;
}

/** @return a slot's head; the slot lies in the page. */
static inline uint32_t head_at(const uint8_t *page, size_t slot)
{
    return get_u32(page + SLOTTED_SLOTS_AT + slot * SLOTTED_SLOT_BYTES);
}

/** @return the size of the prefix that keys between two fences share. */
static inline size_t prefix_between(const struct slotted_bounds *bounds)
{
    return bounds->upper_is_open ? 0 : span_shared(bounds->lower, bounds->upper);
}

/** @return where the heap ends and the fences begin. */
static inline uint32_t heap_end(const uint8_t *page, uint32_t page_size_bytes)
{
    return page_size_bytes - get_u16(page + AT_LOWER) - get_u16(page + AT_UPPER);
}

/** @return bytes between slots and heap. */
static inline size_t room_between(const uint8_t *page)
{
    return get_u32(page + AT_HEAP_BEGIN) - SLOTTED_SLOTS_AT -
           (size_t)get_u16(page + AT_COUNT) * SLOTTED_SLOT_BYTES;
}

/** @return a value's size and its external bit, as a cell carries them. */
static inline uint16_t value_word(size_t value_size_bytes, unsigned flags)
{
    return (uint16_t)(value_size_bytes | (flags & SLOTTED_EXTERNAL ? CELL_EXTERNAL : 0));
}

/** Write a cell. @return what it takes of the heap */
size_t cell_put(uint8_t *to, struct span suffix, struct span value, unsigned flags);

/** Write a slot, its head taken behind the page's skip. */
void slot_put(uint8_t *page, unsigned slot, uint32_t cell_at, struct span suffix);

/**
 * Let the heads of a page be good for more suffixes, before these are there: for one, or for a run
 * of which the last is given.
 *
 * @param shared  what the new ones share with each other; of one, its size
 */
void heads_admit(uint8_t *page, uint32_t page_size_bytes, struct span suffix, size_t shared);

/** slotted_insert for a key whose prefix is cut off already. */
void slotted_insert_suffix(uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                           struct span suffix, struct span value, unsigned flags);

/** Tidy up: all free bytes in one piece. */
void slotted_compact(uint8_t *page, uint32_t page_size_bytes);

/** Make an empty node of a page whose header is right already, as slotted_init. */
void node_begin(uint8_t *page, uint32_t page_size_bytes, const struct slotted_bounds *bounds);

/** @return true if these fences and level can be a node's. */
bool bounds_are_sound(uint32_t page_size_bytes, const struct slotted_bounds *bounds);

/** @return true if cells [from, to) may be kept under these fences. */
bool slotted_can_rebuild(const uint8_t *page, uint32_t page_size_bytes, unsigned from, unsigned to,
                         const struct slotted_bounds *bounds);

/** @return true if a key without its prefix has its place at a slot: between its neighbours, or
 * between a neighbour and a fence. */
bool suffix_belongs(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                    struct span suffix);

/** @return true if a cell of this kind may lie in this node. key_size_bytes is the whole key's. */
bool cell_is_allowed(const uint8_t *page, uint32_t page_size_bytes, size_t key_size_bytes,
                     size_t value_size_bytes, unsigned flags);

#endif
