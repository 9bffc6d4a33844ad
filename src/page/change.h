/*
 * change.h -- the changes of one page that redo records and recovery repeats.
 *
 * A record is physiological: it names a page, and says in the page's own terms what happened inside
 * (Gray and Reuter, "Transaction Processing", 1993). Whoever changes a page does it through
 * change_apply's functions, so that doing and repeating are one piece of code.
 *
 * Encoding (FORMAT.md): operation u8, space and page number as varints, payload size as varint,
 * payload. Several records make the body of one redo frame: one mini-transaction.
 */
#ifndef FIRN_PAGE_CHANGE_H
#define FIRN_PAGE_CHANGE_H

#include "page/slotted.h"

enum change_op {
    CHANGE_INIT = 1,         /* type u16: page_init */
    CHANGE_INIT_INDEX = 2,   /* slotted_bounds: slotted_init */
    CHANGE_WRITE = 3,        /* offset u16, bytes; not on index pages, not in the page header */
    CHANGE_INSERT = 4,       /* slot u16, flags u8, key size varint, key without prefix, value */
    CHANGE_DELETE = 5,       /* slot u16 */
    CHANGE_UPDATE = 6,       /* slot u16, flags u8, value */
    CHANGE_PATCH = 7,        /* slot u16, offset u16, bytes */
    CHANGE_REBUILD = 8,      /* from u16, to u16, slotted_bounds */
    CHANGE_APPEND = 9,       /* packed cells */
    CHANGE_SIBLINGS = 10,    /* prev u32, next u32 */
    CHANGE_FREE = 11,        /* the page belongs to nobody: type becomes PAGE_TYPE_FREE */
    CHANGE_UNDO_APPEND = 12, /* kind u8, ...: undo_page_append */
    CHANGE_PAGE_LAST,

    /* Not about the bytes of a page: handled by src/space, src/binlog and src/recovery. */
    CHANGE_SPACE_CREATE = 32, /* class u8, page size u32, name */
    CHANGE_SPACE_DROP = 33,   /* nothing */
    CHANGE_BINLOG = 34,       /* a group of the binary log, beside its commit */
    CHANGE_LAST,
};

enum { CHANGE_HEADER_MAX_BYTES = 1 + 5 + 5 + 5 };

/** A record, decoded; payload points into the frame it was read from. */
struct change {
    enum change_op op;
    uint64_t page_id;
    struct span payload;
};

/** Write a record's header. @return its size @param to  room for CHANGE_HEADER_MAX_BYTES */
size_t change_put_header(uint8_t *to, enum change_op op, uint64_t page_id,
                         size_t payload_size_bytes);

/**
 * Read the next record of a frame.
 *
 * @param body    the frame's body; advanced past the record
 * @param change  set on success
 * @return FIRN_OK; FIRN_E_NOT_FOUND at the end of the body; FIRN_E_CORRUPT; no error text
 */
firn_rc change_next(struct span *body, struct change *change);

/** @return true if a change sets the whole page, so that its old bytes need not be read. */
bool change_begins_page(enum change_op op);

/**
 * Repeat a change on a page.
 *
 * The page is in the state the change found when it was made (recovery compares LSNs), or the
 * change begins the page.
 *
 * @return FIRN_OK; FIRN_E_CORRUPT, without an error text and the page untouched, when the payload
 *         makes no sense on this page
 */
firn_rc change_apply(uint8_t *page, uint32_t page_size_bytes, const struct change *change);

/** Encode and decode a varint (LEB128, at most 10 bytes). change_get_varint returns false when the
 * span ends too early or the number is too long. */
size_t change_put_varint(uint8_t *to, uint64_t value);
bool change_get_varint(struct span *from, uint64_t *value);

/** Encode a slotted_bounds as CHANGE_INIT_INDEX and CHANGE_REBUILD carry it. @return bytes written
 * @param to  room for change_bounds_bytes */
size_t change_bounds_bytes(const struct slotted_bounds *bounds);
size_t change_put_bounds(uint8_t *to, const struct slotted_bounds *bounds);

/** @return a word for an operation, "insert"; static; NULL for a number that is none. */
const char *change_op_name(enum change_op op);

#endif
