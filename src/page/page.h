/*
 * page.h -- what every page of every tablespace begins with: who it is, and the proof that it is
 * whole.
 *
 * FORMAT.md has the byte tables. Pages in memory and on disk are the same bytes; the checksum alone
 * is only filled in when a page is written (page_seal) and judged when it is read (page_verify).
 */
#ifndef FIRN_PAGE_PAGE_H
#define FIRN_PAGE_PAGE_H

#include "base/endian.h"
#include "base/rc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PAGE_SIZE_MIN = 4096,
    PAGE_SIZE_DEFAULT = 16384,
    PAGE_SIZE_MAX = 65536,
    PAGE_HEADER_BYTES = 24, /* the body begins here */
};

/** Where the header's fields stand; for page.c and the readers below. */
enum {
    PAGE_AT_CHECKSUM = 0, /* u32, CRC-32C of all that follows it */
    PAGE_AT_NUMBER = 4,   /* u32 */
    PAGE_AT_SPACE = 8,    /* u32 */
    PAGE_AT_TYPE = 12,    /* u16, enum page_type */
    PAGE_AT_VERSION = 14, /* u16, format version */
    PAGE_AT_LSN = 16,     /* u64 */
};

#define PAGE_NONE UINT32_MAX /* no page: the end of a list */

enum page_type {
    PAGE_TYPE_FREE = 0,  /* a page of zeros is free */
    PAGE_TYPE_SPACE = 1, /* page 0 of a tablespace */
    PAGE_TYPE_MAP = 2,   /* extent descriptors */
    PAGE_TYPE_INDEX = 3, /* a node of a B+tree: slotted.h */
    PAGE_TYPE_BLOB = 4,  /* a part of a large value */
    PAGE_TYPE_LIMBO = 5, /* pages that a crash leaves to nobody: src/btree */
    PAGE_TYPE_UNDO = 6,  /* what was there before changes: undo_page.h */
    PAGE_TYPE_UNDO_DIRECTORY = 7,
    PAGE_TYPE_COUNT,
};

/** @return the number that names a page in an environment: the tablespace above its page number. */
static inline uint64_t page_id_of(uint32_t space, uint32_t page_no)
{
    return (uint64_t)space << 32 | page_no;
}

/** @return the tablespace in a page's id. */
static inline uint32_t page_id_space(uint64_t page_id)
{
    return (uint32_t)(page_id >> 32);
}

/** @return the page number in a page's id. */
static inline uint32_t page_id_number(uint64_t page_id)
{
    return (uint32_t)page_id;
}

/** @return true for the sizes that a page may have: a power of two from 4 to 64 KiB. */
static inline bool page_size_is_valid(uint64_t size_bytes)
{
    return size_bytes >= PAGE_SIZE_MIN && size_bytes <= PAGE_SIZE_MAX &&
           (size_bytes & (size_bytes - 1)) == 0;
}

/** @return the checksum as page_seal filled it in. */
static inline uint32_t page_checksum(const uint8_t *page)
{
    return get_u32(page);
}

/** @return the number that a page says it has. */
static inline uint32_t page_number(const uint8_t *page)
{
    return get_u32(page + PAGE_AT_NUMBER);
}

/** @return the tablespace that a page says it belongs to. */
static inline uint32_t page_space(const uint8_t *page)
{
    return get_u32(page + PAGE_AT_SPACE);
}

/** @return what a page says it is; not a page_type where PAGE_UNKNOWN. */
static inline enum page_type page_type(const uint8_t *page)
{
    return (enum page_type)get_u16(page + PAGE_AT_TYPE);
}

/** @return the LSN at which the last mini-transaction that changed the page ends. */
static inline uint64_t page_lsn(const uint8_t *page)
{
    return get_u64(page + PAGE_AT_LSN);
}

/** Set the LSN; the page is latched exclusively. */
static inline void page_set_lsn(uint8_t *page, uint64_t lsn)
{
    put_u64(page + PAGE_AT_LSN, lsn);
}

/** Make an empty page of a type: header filled, body zeroed, LSN 0. */
void page_init(uint8_t *page, uint32_t page_size_bytes, uint64_t page_id, enum page_type type);

/** Fill in the checksum, before the page is written. */
void page_seal(uint8_t *page, uint32_t page_size_bytes);

/** What page_verify finds. */
enum page_state {
    PAGE_GOOD,
    PAGE_ZERO,       /* all zeros: never written */
    PAGE_DAMAGED,    /* the checksum is wrong: torn or rotten */
    PAGE_MISPLACED,  /* whole, but another page: a misdirected write, swapped files */
    PAGE_FROM_AHEAD, /* whole, but of an LSN that the log has not reached: foreign or lost log */
    PAGE_UNKNOWN,    /* whole, of a type or version that this program does not know */
};

/**
 * Judge a page as it was read.
 *
 * @param page_id   who it ought to be
 * @param lsn_limit what its LSN must not exceed; UINT64_MAX where that is not known
 * @return one of page_state, without an error text
 */
enum page_state page_verify(const uint8_t *page, uint32_t page_size_bytes, uint64_t page_id,
                            uint64_t lsn_limit);

/** @return a sentence part for a state: "is torn or damaged (its checksum does not fit)"; static.
 */
const char *page_state_text(enum page_state state);

#endif
