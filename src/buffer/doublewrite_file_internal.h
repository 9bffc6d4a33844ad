/*
 * doublewrite_file_internal.h -- where things are in the doublewrite file, for doublewrite.c and
 * doublewrite_repair.c.
 */
#ifndef FIRN_BUFFER_DOUBLEWRITE_FILE_INTERNAL_H
#define FIRN_BUFFER_DOUBLEWRITE_FILE_INTERNAL_H

#include "buffer/doublewrite_internal.h"

enum {
    DOUBLEWRITE_VERSION = 2,
    DOUBLEWRITE_MAGIC_FILE = 0x46574446,  /* "FDWF" */
    DOUBLEWRITE_MAGIC_BATCH = 0x42574446, /* "FDWB" */

    DOUBLEWRITE_AT_VERSION = 8,
    DOUBLEWRITE_AT_PAGE_SIZE = 12,
    DOUBLEWRITE_AT_ENVIRONMENT = 16,
    DOUBLEWRITE_AT_AREAS = 32,
    DOUBLEWRITE_AT_AREA_BYTES = 36,
    DOUBLEWRITE_AT_SECTOR_BYTES = 40,

    DOUBLEWRITE_AT_COUNT = 8,
    DOUBLEWRITE_AT_ENTRIES = 12,
    DOUBLEWRITE_ENTRY_BYTES = 16,
    DOUBLEWRITE_ENTRY_AT_CHECKSUM = 8,
    DOUBLEWRITE_ENTRY_AT_SECTORS = 12,

    DOUBLEWRITE_FILE_BYTES = DOUBLEWRITE_BLOCK_BYTES + DOUBLEWRITE_AREAS * DOUBLEWRITE_AREA_BYTES,
};

/** @return where an area begins in the file. */
static inline uint64_t doublewrite_area_offset(unsigned area)
{
    return DOUBLEWRITE_BLOCK_BYTES + (uint64_t)area * DOUBLEWRITE_AREA_BYTES;
}

/** @return true if a header block has a magic number and its checksum fits. */
bool doublewrite_block_is_good(const uint8_t *block, uint32_t magic);

/** @return the path of the file, a suffix behind it; to be freed; NULL without memory. */
char *doublewrite_path(const char *directory, const char *suffix);

/** Open the file and judge its header and size. @return as doublewrite_open; FIRN_E_NOT_FOUND */
firn_rc doublewrite_open_existing(const struct doublewrite_options *options, unsigned flags,
                                  struct io_file **file);

#endif
