/*
 * page_internal.h -- where the fields of a page stand; the tables in FORMAT.md, for this folder.
 */
#ifndef FIRN_PAGE_PAGE_INTERNAL_H
#define FIRN_PAGE_PAGE_INTERNAL_H

#include "page/page.h"

enum {
    PAGE_VERSION = 1,

    PAGE_AT_CHECKSUM = 0, /* u32, CRC-32C of all that follows it */
    PAGE_AT_NUMBER = 4,   /* u32 */
    PAGE_AT_SPACE = 8,    /* u32 */
    PAGE_AT_TYPE = 12,    /* u16, enum page_type */
    PAGE_AT_VERSION = 14, /* u16 */
    PAGE_AT_LSN = 16,     /* u64 */
};

_Static_assert(PAGE_AT_NUMBER == PAGE_AT_CHECKSUM + 4, "the checksum covers all behind it");
_Static_assert(PAGE_AT_SPACE == PAGE_AT_NUMBER + 4, "page header");
_Static_assert(PAGE_AT_TYPE == PAGE_AT_SPACE + 4, "page header");
_Static_assert(PAGE_AT_VERSION == PAGE_AT_TYPE + 2, "page header");
_Static_assert(PAGE_AT_LSN == PAGE_AT_VERSION + 2 && PAGE_AT_LSN % 8 == 0, "page header");
_Static_assert(PAGE_HEADER_BYTES == PAGE_AT_LSN + 8, "the body follows the header");

#endif
