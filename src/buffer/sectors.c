/*
 * sectors.c -- hashes of what lies in the places of pages that have been changed.
 */
#include "buffer/sectors_internal.h"

#include <string.h>

bool sectors_pay(const struct buffer_options *options)
{
    bool in_doublewrite = options->doublewrite != BUFFER_DOUBLEWRITE_OFF;
    bool in_place = options->page_size_bytes > WRITE_BLOCK_BYTES;
    return options->redo != NULL && (in_doublewrite || in_place);
}

static uint64_t *hashes_of(const struct buffer_pool *pool, const struct buffer_frame *frame)
{
    size_t sectors = pool->page_size_bytes / sector_bytes_of(pool->page_size_bytes);
    return pool->sector_hashes + buffer_frame_number(pool, frame) * sectors;
}

void sectors_came(const struct buffer_pool *pool, struct buffer_frame *frame, bool is_read)
{
    bool known = is_read && pool->sector_hashes != NULL;
    atomic_store_explicit(&frame->place, known ? BUFFER_PLACE_AS_READ : BUFFER_PLACE_UNKNOWN,
                          memory_order_relaxed);
}

void sectors_move(struct buffer_pool *pool, struct buffer_frame *from, struct buffer_frame *to)
{
    enum buffer_place place = sectors_place(from);
    if (place == BUFFER_PLACE_HASHED)
        memcpy(hashes_of(pool, to), hashes_of(pool, from),
               sectors_hashes_bytes(pool->page_size_bytes, 1));
    atomic_store_explicit(&to->place, (uint8_t)place, memory_order_relaxed);
}

/* Keep a page's hashes in the place of others. @return the map of those that were other ones */
static uint32_t replace_hashes(struct buffer_pool *pool, struct buffer_frame *frame,
                               const uint8_t *page)
{
    uint64_t *hashes = hashes_of(pool, frame);
    uint32_t sector_bytes = sector_bytes_of(pool->page_size_bytes);
    uint32_t differ = 0;
    for (uint32_t i = 0; i < pool->page_size_bytes / sector_bytes; i++) {
        uint64_t hash = hash_64(&pool->sector_key, page + (size_t)i * sector_bytes, sector_bytes);
        differ |= (uint32_t)(hashes[i] != hash) << i;
        hashes[i] = hash;
    }
    return differ;
}

void sectors_keep(struct buffer_pool *pool, struct buffer_frame *frame)
{
    const uint8_t *page = buffer_page(pool, frame);
    /* A byte that has been changed already would pass for one that lies in the file. */
    ASSERT(page_verify(page, pool->page_size_bytes, buffer_page_id(frame), UINT64_MAX) ==
           PAGE_GOOD);
    replace_hashes(pool, frame, page);
    atomic_store_explicit(&frame->place, BUFFER_PLACE_HASHED, memory_order_relaxed);
}

uint32_t sectors_compare(struct buffer_pool *pool, struct buffer_frame *frame, const uint8_t *image)
{
    uint32_t all = sectors_all(pool->page_size_bytes);
    if (pool->sector_hashes == NULL)
        return all;
    enum buffer_place place = sectors_place(frame);
    /* A dirty page has been marked, and is AS_READ no more. */
    ENSURE(place != BUFFER_PLACE_AS_READ);
    uint32_t differ = replace_hashes(pool, frame, image);
    atomic_store_explicit(&frame->place, BUFFER_PLACE_HASHED, memory_order_relaxed);
    return place == BUFFER_PLACE_HASHED ? differ | 1 : all;
}
