/*
 * undo_page.h -- pages of undo as bytes: the tables in FORMAT.md.
 *
 * An undo page has a header and, from UNDO_ENTRIES_AT to `free`, entries one behind the other.
 * Entries are only appended (CHANGE_UNDO_APPEND), so what is there stays; of a log's header alone
 * the part from UNDO_LOG_AT_STATE on is written later. A directory page has a slot for each
 * segment. What pages and entries mean together is src/txn's to know.
 *
 * Functions that only read may be called on a page that changes meanwhile (buffer.h, optimistic
 * views): they end, stay inside the page and return something.
 */
#ifndef FIRN_PAGE_UNDO_PAGE_H
#define FIRN_PAGE_UNDO_PAGE_H

#include "base/span.h"
#include "page/page.h"

/** Whose pages of undo are, for src/space: no index has this id. */
#define UNDO_OWNER (UINT64_MAX - 2)

enum {
    UNDO_AT_OWNER = PAGE_HEADER_BYTES, /* u64, UNDO_OWNER */
    UNDO_AT_SEGMENT = 32,              /* u32, its slot in the directory */
    UNDO_AT_ORDINAL = 36,              /* u32, one more than the page's before it */
    UNDO_AT_PREV = 40,                 /* u32, older; may be gone when the page is the head */
    UNDO_AT_NEXT = 44,                 /* u32, newer */
    UNDO_AT_LOG_PAGE = 48,             /* u32, the header of the log that runs into this page */
    UNDO_AT_LOG_OFFSET = 52,           /* u16, 0: none does */
    UNDO_AT_FREE = 54,                 /* u16, behind the last entry */
    UNDO_AT_LAST = 56,                 /* u16, the last entry, 0: there is none */
    UNDO_AT_LAST_LOG = 58,             /* u16, the last header of a log on this page, or 0 */
    UNDO_ENTRIES_AT = 64,
    UNDO_HEAD_BYTES = UNDO_ENTRIES_AT - UNDO_AT_OWNER,
};

/** @return where entries end at the latest: an offset that fits 16 bits. */
static inline uint32_t undo_page_limit(uint32_t page_size_bytes)
{
    return page_size_bytes - 1;
}

/** Where something stands in a tablespace of undo: 6 bytes. Offset 0: nowhere. */
struct undo_position {
    uint32_t page_no;
    uint16_t offset;
};

enum { UNDO_POSITION_BYTES = 6 };

/** Read a position. */
static inline struct undo_position undo_position_get(const uint8_t *from)
{
    return (struct undo_position){get_u32(from), get_u16(from + 4)};
}
/** Write a position. @param to  UNDO_POSITION_BYTES */
static inline void undo_position_put(uint8_t *to, struct undo_position position)
{
    put_u32(to, position.page_no);
    put_u16(to + 4, position.offset);
}
/** Is it the same? */
static inline bool undo_position_equal(struct undo_position left, struct undo_position right)
{
    return left.page_no == right.page_no && left.offset == right.offset;
}

/** A page's header, decoded. */
struct undo_page_head {
    uint32_t segment;
    uint32_t ordinal;
    uint32_t prev;
    uint32_t next;
    struct undo_position log;
    uint16_t free;
    uint16_t last;
    uint16_t last_log;
};

/** Read it; whatever the bytes. */
void undo_page_head_get(const uint8_t *page, struct undo_page_head *head);

/** Encode the header of a page without entries; what it says of entries is ignored.
 * @param to  UNDO_HEAD_BYTES, which belong at UNDO_AT_OWNER of a page made by page_init */
void undo_page_head_put(uint8_t *to, const struct undo_page_head *head);

/* ---- Entries ---- */

/** Each begins with its size (u16, all of it) and its kind (u8). */
enum undo_kind {
    UNDO_LOG = 1,    /* a log begins: its header */
    UNDO_RECORD = 2, /* previous u16: the entry before it on this page, which is also the one before
                        it in its log; then the record */
    UNDO_FAR_RECORD = 3, /* previous, a position; then the record */
    UNDO_XID = 4,        /* previous, a position; then the name of a prepared transaction */
};

enum {
    UNDO_ENTRY_HEAD_BYTES = 3,
    UNDO_NEAR_BYTES = UNDO_ENTRY_HEAD_BYTES + 2,
    UNDO_FAR_BYTES = UNDO_ENTRY_HEAD_BYTES + UNDO_POSITION_BYTES,

    /* A log's header, in its entry. */
    UNDO_LOG_AT_TXN = UNDO_ENTRY_HEAD_BYTES, /* u64, the transaction's id */
    UNDO_LOG_AT_BEFORE = 11,                 /* u64, largest number of the segment's earlier logs */
    UNDO_LOG_AT_SEQUENCE = 19,               /* u32, one more than the log's before it */
    UNDO_LOG_AT_STATE = 23,                  /* u8, src/txn's */
    UNDO_LOG_AT_FLAGS = 24,                  /* u8 */
    UNDO_LOG_AT_NUMBER = 25,                 /* u64, commit number */
    UNDO_LOG_AT_LAST = 33,                   /* position of the last record that counts */
    UNDO_LOG_AT_END = 39,                    /* position behind the log when this was written */
    UNDO_LOG_BYTES = 45,
    UNDO_LOG_STATE_BYTES = UNDO_LOG_BYTES - UNDO_LOG_AT_STATE,
};

/** A log's header, decoded. All from the state on is 0 when it is appended. */
struct undo_log_head {
    uint64_t txn_id;
    uint64_t before;
    uint32_t sequence;
    uint8_t state;
    uint8_t flags;
    uint64_t number;
    struct undo_position last;
    struct undo_position end;
};

/** An entry, decoded; data points into the page. */
struct undo_entry {
    enum undo_kind kind;
    size_t size_bytes;
    struct undo_position previous; /* nowhere for UNDO_LOG */
    struct span data;              /* a record, a name */
    struct undo_log_head log;      /* of UNDO_LOG */
};

/** Read an entry. @return false if none can begin there. */
bool undo_entry_get(const uint8_t *page, uint32_t page_size_bytes, uint32_t offset,
                    struct undo_entry *entry);

/** Encode what of a log's header is written later. @param to  UNDO_LOG_STATE_BYTES */
void undo_log_state_put(uint8_t *to, const struct undo_log_head *head);

/** Payloads of CHANGE_UNDO_APPEND: a log's header; at most what another's is beside its data. */
enum {
    UNDO_APPEND_LOG_BYTES = 1 + UNDO_LOG_AT_STATE - UNDO_ENTRY_HEAD_BYTES,
    UNDO_APPEND_MAX_BYTES = 1 + UNDO_POSITION_BYTES,
};

/** Encode the payload for a log's header. @param to  UNDO_APPEND_LOG_BYTES */
void undo_append_put_log(uint8_t *to, const struct undo_log_head *head);

/** Append an entry, as CHANGE_UNDO_APPEND says: kind u8; for UNDO_LOG txn, before, sequence; for
 * others but UNDO_RECORD the previous position; data. @return false, the page untouched, if that
 * makes no sense there */
bool undo_page_append(uint8_t *page, uint32_t page_size_bytes, struct span payload);

/**
 * Judge the header and the entries of one undo page.
 *
 * @param what  set when something is wrong: a sentence part; room for 128
 * @return FIRN_OK, FIRN_E_CORRUPT without an error text
 */
firn_rc undo_page_check(const uint8_t *page, uint32_t page_size_bytes, char what[128]);

/* ---- The directory ---- */

enum {
    UNDO_DIRECTORY_AT_OWNER = PAGE_HEADER_BYTES, /* u64, UNDO_OWNER */
    UNDO_DIRECTORY_AT_ID_LIMIT = 32,             /* u64, ids below it may have been drawn */
    UNDO_DIRECTORY_AT_NUMBER = 40, /* u64, largest commit number of logs that are gone */
    UNDO_DIRECTORY_AT_SPACES = 48, /* u32, tablespaces of undo that there must be */
    UNDO_DIRECTORY_AT_SLOTS = 64,
    UNDO_SLOT_AT_HEAD = 0,  /* u32, 0: the slot is free */
    UNDO_SLOT_AT_TAIL = 4,  /* u32 */
    UNDO_SLOT_AT_FIRST = 8, /* position of the oldest log that may be needed, or where it will be */
    UNDO_SLOT_BYTES = 16,
};

/** A slot, decoded. */
struct undo_slot {
    uint32_t head;
    uint32_t tail;
    struct undo_position first;
};

/** @return how many segments a directory has room for. */
static inline uint32_t undo_directory_slots(uint32_t page_size_bytes)
{
    return (page_size_bytes - UNDO_DIRECTORY_AT_SLOTS) / UNDO_SLOT_BYTES;
}

/** @return where a slot stands in the page. */
static inline size_t undo_slot_at(uint32_t slot)
{
    return UNDO_DIRECTORY_AT_SLOTS + (size_t)slot * UNDO_SLOT_BYTES;
}

/** Read a slot. */
static inline struct undo_slot undo_slot_get(const uint8_t *directory, uint32_t slot)
{
    const uint8_t *from = directory + undo_slot_at(slot);
    return (struct undo_slot){get_u32(from + UNDO_SLOT_AT_HEAD), get_u32(from + UNDO_SLOT_AT_TAIL),
                              undo_position_get(from + UNDO_SLOT_AT_FIRST)};
}
/** Write a slot. @param to  UNDO_SLOT_BYTES */
static inline void undo_slot_put(uint8_t *to, const struct undo_slot *slot)
{
    memset(to, 0, UNDO_SLOT_BYTES);
    put_u32(to + UNDO_SLOT_AT_HEAD, slot->head);
    put_u32(to + UNDO_SLOT_AT_TAIL, slot->tail);
    undo_position_put(to + UNDO_SLOT_AT_FIRST, slot->first);
}

#endif
