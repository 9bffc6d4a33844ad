/*
 * doublewrite_internal.h -- the doublewrite file: a second copy of all that is being written over
 * something else.
 *
 * Disks write sectors, not pages: a power cut can leave a page torn, some sectors old and some new,
 * and redo cannot repeat changes on that. So the sectors of a batch of pages that differ from what
 * lies in their places are first written here and synced, and only then in place (InnoDB's
 * doublewrite buffer, which takes whole pages). A page that is not whole in its place after a crash
 * becomes so when its sectors from here are laid over it.
 *
 * OFFSET / SIZE / MEANING of the file, also in FORMAT.md:
 *
 *        0     4  magic, "FDWF"
 *        4     4  CRC-32C of bytes 8 to 4095
 *        8     4  version, 2
 *       12     4  page size in bytes
 *       16    16  id of the environment
 *       32     4  number of areas
 *       36     4  bytes from one area to the next
 *       40     4  size of a sector in bytes: a 32nd of a page, 512 at least
 *       44        zeros
 *     4096        the areas, of DOUBLEWRITE_AREA_BYTES each; in each:
 *        0     4    magic, "FDWB"
 *        4     4    CRC-32C of bytes 8 to 4095
 *        8     4    number of images
 *       12    16    for each image: id of the page (8 bytes), its checksum as in its header (4), a
 *                   map of its sectors that are here, the first one's bit the lowest (4)
 *                   zeros
 *     4096          the sectors, in the order of the entries and of the pages' bytes
 */
#ifndef FIRN_BUFFER_DOUBLEWRITE_INTERNAL_H
#define FIRN_BUFFER_DOUBLEWRITE_INTERNAL_H

#include "buffer/sectors_internal.h"

enum {
    DOUBLEWRITE_BLOCK_BYTES = 4096, /* a header */
    DOUBLEWRITE_PAGES_MAX = 128,    /* in an area */
    DOUBLEWRITE_IMAGE_BYTES = 2 << 20,
    DOUBLEWRITE_AREA_BYTES = DOUBLEWRITE_BLOCK_BYTES + DOUBLEWRITE_IMAGE_BYTES,
    DOUBLEWRITE_AREAS = 2, /* batches that may be on their way in place at once */
};

struct doublewrite_options {
    struct io_system *system;
    const char *directory;
    uint8_t environment[16];
    uint32_t page_size_bytes;
    bool direct;
};

struct doublewrite;

/** A page as it will be in its place. */
struct doublewrite_image {
    const uint8_t *page; /* sealed */
    uint32_t sectors;    /* a map of those that differ from what lies in its place now; not empty */
};

/** @return how many pages of a size an area takes. */
static inline unsigned doublewrite_pages_max(uint32_t page_size_bytes)
{
    unsigned pages = DOUBLEWRITE_IMAGE_BYTES / page_size_bytes;
    return pages < DOUBLEWRITE_PAGES_MAX ? pages : DOUBLEWRITE_PAGES_MAX;
}

/**
 * Open the doublewrite file of a directory. If there is none the first batch makes it: opening
 * changes nothing, for the environment may still be refused. What it holds is left as it is, for
 * doublewrite_repair.
 *
 * @param doublewrite  set on success; give it back with doublewrite_close
 * @return FIRN_OK; FIRN_E_CORRUPT (no doublewrite file, truncated, damaged header, of another
 *         environment or page size); FIRN_E_UNSUPPORTED (another format); FIRN_E_NOSPACE, ...
 */
firn_rc doublewrite_open(const struct doublewrite_options *options,
                         struct doublewrite **doublewrite);

/** Close the file. NULL is allowed. */
void doublewrite_close(struct doublewrite *doublewrite);

/**
 * Write a batch; it is durable after doublewrite_sync. One thread at a time.
 *
 * @param area   which one, below DOUBLEWRITE_AREAS; the pages of the batch that it held before are
 *               durable in their places or in the other area
 * @param count  of images, 1 to doublewrite_pages_max
 * @return FIRN_OK; what io_write returns: the area may hold anything, and no page of the batch may
 *         be written in place
 */
firn_rc doublewrite_write(struct doublewrite *doublewrite, unsigned area,
                          const struct doublewrite_image *images, unsigned count);

/** Make what was written durable. @return FIRN_OK; what io_sync returns: as there, it is final */
firn_rc doublewrite_sync(struct doublewrite *doublewrite);

/**
 * Put back the pages that are not whole in their places, and sync them. The file is only read. It
 * is no error if there is none.
 *
 * @param checkpoint_lsn  images that are not newer are not used: redo could not bring them up to
 *                        date
 * @param repaired        pages put back
 * @return FIRN_OK; as doublewrite_open; what reading, writing and syncing return
 */
firn_rc doublewrite_repair(const struct doublewrite_options *options,
                           const struct buffer_files *files, uint64_t checkpoint_lsn,
                           unsigned *repaired);

#endif
