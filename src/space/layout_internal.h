/*
 * layout_internal.h -- page 0 and map pages as bytes; the tables in FORMAT.md, for this folder.
 */
#ifndef FIRN_SPACE_LAYOUT_INTERNAL_H
#define FIRN_SPACE_LAYOUT_INTERNAL_H

#include "page/page.h"
#include "space/space.h"

enum {
    SPACE_FORMAT_VERSION = 1,

    /* Page 0: who the file is. Never changed, and within the page's first sector, which is written
     * whole or not at all: so it can be trusted also when the rest of the page is torn. */
    AT_MAGIC = PAGE_HEADER_BYTES, /* 8 bytes */
    AT_FORMAT_VERSION = 32,       /* u32 */
    AT_PAGE_SIZE = 36,            /* u32 */
    AT_ENVIRONMENT = 40,          /* 16 bytes */
    AT_SPACE_ID = 56,             /* u32 */
    AT_CLASS = 60,                /* u16, enum io_class */
    AT_NAME_SIZE = 62,            /* u16 */
    AT_NAME = 64,                 /* SPACE_NAME_MAX bytes, zeros behind the name */
    AT_IDENTITY_CRC = 264,        /* u32, CRC-32C of the bytes from AT_MAGIC to here */
    IDENTITY_SECTOR_BYTES = 512,

    /* Page 0: what changes. */
    AT_HEAD = IDENTITY_SECTOR_BYTES,
    AT_PAGES = AT_HEAD,            /* u32 */
    AT_EXTENTS = AT_HEAD + 4,      /* u32 */
    AT_FREE_EXTENTS = AT_HEAD + 8, /* u32 */
    AT_SHARED_FREE = AT_HEAD + 12, /* u32 */
    AT_USED = AT_HEAD + 16,        /* u32 */
    AT_ENTRY = AT_HEAD + 20,       /* u32 */
    AT_LIMBO = AT_HEAD + 24,       /* u32 */
    AT_NEXT_SPACE = AT_HEAD + 28,  /* u32, in the system tablespace */
    HEAD_COUNTER_BYTES = AT_ENTRY - AT_HEAD,

    /* Map pages. */
    AT_MAP_NUMBER = PAGE_HEADER_BYTES, /* u32 */
    AT_DESCRIPTORS = 32,
    DESCRIPTOR_BYTES = 16, /* owner u64, bitmap u64 */
};

#define SPACE_MAGIC "FIRNSPAC"

_Static_assert(sizeof SPACE_MAGIC - 1 == AT_FORMAT_VERSION - AT_MAGIC, "magic");
_Static_assert(AT_NAME_SIZE == AT_CLASS + 2 && AT_NAME == AT_NAME_SIZE + 2, "identity");
_Static_assert(AT_IDENTITY_CRC == AT_NAME + SPACE_NAME_MAX, "identity");
_Static_assert(AT_IDENTITY_CRC + 4 <= IDENTITY_SECTOR_BYTES, "the identity is in one sector");
_Static_assert(AT_NEXT_SPACE + 4 <= PAGE_SIZE_MIN, "page 0 has room for the head");
_Static_assert(AT_DESCRIPTORS + PAGE_SIZE_MIN / 32 * DESCRIPTOR_BYTES <= PAGE_SIZE_MIN,
               "half a map page has room for its descriptors");
_Static_assert(SPACE_EXTENT_PAGES == 64, "a descriptor has one bit a page");

/** Of a new file; page 0, the first map page, and room for a small table. */
#define SPACE_PAGES_INITIAL 8u
/** So that page numbers stay below PAGE_NONE and all extents are whole. */
#define SPACE_PAGES_MAX (UINT32_MAX - UINT32_MAX % SPACE_EXTENT_PAGES)
_Static_assert(SPACE_PAGES_MAX % SPACE_EXTENT_PAGES == 0 && SPACE_PAGES_MAX < UINT32_MAX, "bounds");

/** No extent. */
#define EXTENT_NONE UINT32_MAX

/** What changes in page 0, decoded. An extent below `extents` is free, shared (owner 0) or an
 * index's; one at or above it has never been used. */
struct space_head {
    uint32_t pages;        /* of the file; a multiple of an extent's, or fewer than one extent's */
    uint32_t extents;      /* that have been used: the high-water mark */
    uint32_t free_extents; /* of them those that are free again */
    uint32_t shared_free;  /* free pages in shared extents, as far as the file goes */
    uint32_t used;         /* pages that are allocated, page 0 and map pages included */
    uint32_t entry;
    uint32_t limbo;
    uint32_t next_space;
};

/** Read what page 0 says, as it is. */
static inline struct space_head head_get(const uint8_t *page0)
{
    return (struct space_head){
        .pages = get_u32(page0 + AT_PAGES),
        .extents = get_u32(page0 + AT_EXTENTS),
        .free_extents = get_u32(page0 + AT_FREE_EXTENTS),
        .shared_free = get_u32(page0 + AT_SHARED_FREE),
        .used = get_u32(page0 + AT_USED),
        .entry = get_u32(page0 + AT_ENTRY),
        .limbo = get_u32(page0 + AT_LIMBO),
        .next_space = get_u32(page0 + AT_NEXT_SPACE),
    };
}

/** Encode the counters, from AT_HEAD on. @param to  room for HEAD_COUNTER_BYTES */
static inline void head_put_counters(uint8_t *to, const struct space_head *head)
{
    put_u32(to, head->pages);
    put_u32(to + 4, head->extents);
    put_u32(to + 8, head->free_extents);
    put_u32(to + 12, head->shared_free);
    put_u32(to + 16, head->used);
}

/** @return true if the counters can be a tablespace's. */
static inline bool head_is_sound(const struct space_head *head)
{
    uint32_t whole = head->pages / SPACE_EXTENT_PAGES;
    return head->pages >= SPACE_PAGES_INITIAL && head->pages <= SPACE_PAGES_MAX &&
           (whole == 0 || head->pages % SPACE_EXTENT_PAGES == 0) && head->extents >= 1 &&
           head->extents <= (whole > 0 ? whole : 1) && head->free_extents < head->extents &&
           head->used >= 2 && head->used <= head->pages && head->shared_free < head->pages &&
           (head->entry == PAGE_NONE || head->entry < head->pages) &&
           (head->limbo == PAGE_NONE || head->limbo < head->pages);
}

/** @return pages that any index could have without the file growing. */
static inline uint32_t head_available(const struct space_head *head)
{
    uint32_t whole = head->pages / SPACE_EXTENT_PAGES;
    uint32_t untouched = whole > head->extents ? whole - head->extents : 0;
    return (untouched + head->free_extents) * SPACE_EXTENT_PAGES + head->shared_free;
}

/* ---- Extents ---- */

struct descriptor {
    uint64_t owner;  /* an index; 0: free, or shared */
    uint64_t bitmap; /* a bit for each page that is allocated */
};

/** Read the descriptor of an extent, numbered within its map page. */
static inline struct descriptor descriptor_get(const uint8_t *map, uint32_t local)
{
    const uint8_t *from = map + AT_DESCRIPTORS + (size_t)local * DESCRIPTOR_BYTES;
    return (struct descriptor){get_u64(from), get_u64(from + 8)};
}

/** Is no page of the extent taken? */
static inline bool descriptor_is_free(struct descriptor descriptor)
{
    return descriptor.owner == 0 && descriptor.bitmap == 0;
}

/** Are single pages of the extent taken by any index? */
static inline bool descriptor_is_shared(struct descriptor descriptor)
{
    return descriptor.owner == 0 && descriptor.bitmap != 0;
}

/** @return how many extents a map page describes. */
static inline uint32_t map_extents(uint32_t page_size_bytes)
{
    return page_size_bytes / 32;
}

/** @return the page that a map lies on. */
static inline uint32_t map_page_no(uint32_t page_size_bytes, uint32_t map)
{
    return map * map_extents(page_size_bytes) * SPACE_EXTENT_PAGES + 1;
}

/** @return true for page 0 and map pages, which no index has. */
static inline bool page_is_own(uint32_t page_size_bytes, uint32_t page_no)
{
    return page_no == 0 || page_no % (map_extents(page_size_bytes) * SPACE_EXTENT_PAGES) == 1;
}

/** @return the bits of those of an extent's pages that the file has. */
static inline uint64_t extent_mask(uint32_t extent, uint32_t pages)
{
    uint32_t first = extent * SPACE_EXTENT_PAGES;
    if (pages >= first + SPACE_EXTENT_PAGES)
        return UINT64_MAX;
    return pages <= first ? 0 : (UINT64_C(1) << (pages - first)) - 1;
}

/** @return how many bits are set. */
static inline unsigned count_bits(uint64_t bits)
{
    return (unsigned)__builtin_popcountll(bits);
}

/* ---- Identity ---- */

struct space_identity {
    uint32_t page_size_bytes;
    uint8_t environment[16];
    uint32_t space;
    enum io_class class;
    char name[SPACE_NAME_MAX + 1];
};

/** Make the first two pages of a new tablespace, sealed. @param pages  room for two pages */
void layout_make(uint8_t *pages, const struct space_identity *identity, uint64_t lsn);

/** What the beginning of a file is. */
enum identity_state {
    IDENTITY_GOOD,
    IDENTITY_ABSENT, /* zeros: the file is being made */
    IDENTITY_FOREIGN,
    IDENTITY_NEWER,
    IDENTITY_DAMAGED,
};

/**
 * Read who a file is.
 *
 * @param sector    its first IDENTITY_SECTOR_BYTES
 * @param identity  set when it is good
 * @param version   set when it is good or newer
 */
enum identity_state identity_get(const uint8_t *sector, struct space_identity *identity,
                                 uint32_t *version);

/** @return true if a name may be a tablespace's. */
bool name_is_valid(const char *name, size_t size_bytes);

#endif
