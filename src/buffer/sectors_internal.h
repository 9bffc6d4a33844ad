/*
 * sectors_internal.h -- which sectors of a page differ from what lies in its place on the device.
 *
 * For every frame whose page has been changed since it was read there are the hashes of the sectors
 * that lie in its place. They are taken before the first change (buffer_begin_change), and again of
 * every copy that is made for writing. A sector of a copy whose hash is another one has changed;
 * whoever changes pages need not tell what. README.md argues why that is enough.
 *
 * `place` of a frame says whether the hashes are there. What protects it:
 *
 * - It becomes AS_READ, or UNKNOWN for a new page, while the frame has one owner and no page.
 * - AS_READ is left by the holder of EXCLUSIVE alone, and such a page is clean and has no copy
 * under way; so hashes taken then, and those that the writer takes of a copy (WRITING), do not
 * meet.
 * - In all other states only the writer changes it, between taking a copy and its end.
 */
#ifndef FIRN_BUFFER_SECTORS_INTERNAL_H
#define FIRN_BUFFER_SECTORS_INTERNAL_H

#include "buffer/buffer_internal.h"

enum {
    SECTOR_MIN_BYTES = 512,   /* what a disk writes whole or not at all, at least */
    SECTORS_MAX = 32,         /* of a page: a map of them is a word */
    WRITE_BLOCK_BYTES = 4096, /* what is written in place, at least: the blocks of devices, kernels
                                 and file systems, which would read the rest otherwise */
};

/** @return the size of a page's sectors. */
static inline uint32_t sector_bytes_of(uint32_t page_size_bytes)
{
    uint32_t bytes = page_size_bytes / SECTORS_MAX;
    return bytes > SECTOR_MIN_BYTES ? bytes : SECTOR_MIN_BYTES;
}

/** @return the map of all sectors of a page. */
static inline uint32_t sectors_all(uint32_t page_size_bytes)
{
    return UINT32_MAX >> (SECTORS_MAX - page_size_bytes / sector_bytes_of(page_size_bytes));
}

/** @return how much of a page a map's sectors are, in bytes. */
static inline uint32_t sectors_bytes(uint32_t sectors, uint32_t page_size_bytes)
{
    return (uint32_t)__builtin_popcount(sectors) * sector_bytes_of(page_size_bytes);
}

/** @return the memory that hashes of so many frames take. */
static inline size_t sectors_hashes_bytes(uint32_t page_size_bytes, uint32_t frame_count)
{
    return (size_t)frame_count * (page_size_bytes / sector_bytes_of(page_size_bytes)) *
           sizeof(uint64_t);
}

/** @return whether a pool is to keep hashes: it writes pages, and less than all of a page can be
 * written, in the doublewrite file or in place. */
bool sectors_pay(const struct buffer_options *options);

/** @return what is known of a page's place. */
static inline enum buffer_place sectors_place(const struct buffer_frame *frame)
{
    return (enum buffer_place)atomic_load_explicit(&frame->place, memory_order_relaxed);
}

/** The caller's own frame is to hold a page: one that is read, or a new one. */
void sectors_came(const struct buffer_pool *pool, struct buffer_frame *frame, bool is_read);

/** A clean page gets another frame; both are the caller's own. */
void sectors_move(struct buffer_pool *pool, struct buffer_frame *from, struct buffer_frame *to);

/** A page that is AS_READ is about to be changed: keep what lies in its place. */
void sectors_keep(struct buffer_pool *pool, struct buffer_frame *frame);

/** A clean page has been changed, perhaps unannounced. */
static inline void sectors_changed(struct buffer_frame *frame)
{
    if (sectors_place(frame) == BUFFER_PLACE_AS_READ)
        atomic_store_explicit(&frame->place, BUFFER_PLACE_UNKNOWN, memory_order_relaxed);
}

/** A copy is about to be written in a page's place: tell which of its sectors differ from what lies
 * there, all if that is not known, and keep it as what will. @return their map; the first sector is
 * always among them, since the checksum and the LSN stand there */
uint32_t sectors_compare(struct buffer_pool *pool, struct buffer_frame *frame,
                         const uint8_t *image);

/** The copy has not, or not surely, come to its place whole. */
static inline void sectors_forget(struct buffer_frame *frame)
{
    atomic_store_explicit(&frame->place, BUFFER_PLACE_UNKNOWN, memory_order_relaxed);
}

#endif
