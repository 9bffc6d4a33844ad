#include "page/undo_page.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>

_Static_assert(UNDO_AT_OWNER + 8 == UNDO_AT_SEGMENT && UNDO_AT_SEGMENT + 4 == UNDO_AT_ORDINAL &&
                   UNDO_AT_ORDINAL + 4 == UNDO_AT_PREV && UNDO_AT_PREV + 4 == UNDO_AT_NEXT &&
                   UNDO_AT_NEXT + 4 == UNDO_AT_LOG_PAGE &&
                   UNDO_AT_LOG_PAGE + UNDO_POSITION_BYTES == UNDO_AT_FREE &&
                   UNDO_AT_FREE + 2 == UNDO_AT_LAST && UNDO_AT_LAST + 2 == UNDO_AT_LAST_LOG &&
                   UNDO_AT_LAST_LOG + 2 <= UNDO_ENTRIES_AT,
               "header of an undo page");
_Static_assert(UNDO_LOG_AT_TXN + 8 == UNDO_LOG_AT_BEFORE &&
                   UNDO_LOG_AT_BEFORE + 8 == UNDO_LOG_AT_SEQUENCE &&
                   UNDO_LOG_AT_SEQUENCE + 4 == UNDO_LOG_AT_STATE &&
                   UNDO_LOG_AT_STATE + 1 == UNDO_LOG_AT_FLAGS &&
                   UNDO_LOG_AT_FLAGS + 1 == UNDO_LOG_AT_NUMBER &&
                   UNDO_LOG_AT_NUMBER + 8 == UNDO_LOG_AT_LAST &&
                   UNDO_LOG_AT_LAST + UNDO_POSITION_BYTES == UNDO_LOG_AT_END &&
                   UNDO_LOG_AT_END + UNDO_POSITION_BYTES == UNDO_LOG_BYTES,
               "header of a log");
_Static_assert(UNDO_DIRECTORY_AT_SPACES + 4 <= UNDO_DIRECTORY_AT_SLOTS &&
                   UNDO_SLOT_AT_FIRST + UNDO_POSITION_BYTES <= UNDO_SLOT_BYTES,
               "directory");
_Static_assert(PAGE_SIZE_MAX - 1 <= UINT16_MAX, "offsets have 16 bits");

void undo_page_head_get(const uint8_t *page, struct undo_page_head *head)
{
    *head = (struct undo_page_head){
        .segment = get_u32(page + UNDO_AT_SEGMENT),
        .ordinal = get_u32(page + UNDO_AT_ORDINAL),
        .prev = get_u32(page + UNDO_AT_PREV),
        .next = get_u32(page + UNDO_AT_NEXT),
        .log = undo_position_get(page + UNDO_AT_LOG_PAGE),
        .free = get_u16(page + UNDO_AT_FREE),
        .last = get_u16(page + UNDO_AT_LAST),
        .last_log = get_u16(page + UNDO_AT_LAST_LOG),
    };
}

void undo_page_head_put(uint8_t *to, const struct undo_page_head *head)
{
    memset(to, 0, UNDO_HEAD_BYTES);
    put_u64(to, UNDO_OWNER);
    put_u32(to + UNDO_AT_SEGMENT - UNDO_AT_OWNER, head->segment);
    put_u32(to + UNDO_AT_ORDINAL - UNDO_AT_OWNER, head->ordinal);
    put_u32(to + UNDO_AT_PREV - UNDO_AT_OWNER, head->prev);
    put_u32(to + UNDO_AT_NEXT - UNDO_AT_OWNER, head->next);
    undo_position_put(to + UNDO_AT_LOG_PAGE - UNDO_AT_OWNER, head->log);
    put_u16(to + UNDO_AT_FREE - UNDO_AT_OWNER, UNDO_ENTRIES_AT);
}

/* ---- Entries ---- */

/** @return the bytes of an entry before its data; 0 for what is no kind. */
static size_t head_bytes(unsigned kind)
{
    switch (kind) {
    case UNDO_LOG:
        return UNDO_LOG_BYTES;
    case UNDO_RECORD:
        return UNDO_NEAR_BYTES;
    case UNDO_FAR_RECORD:
    case UNDO_XID:
        return UNDO_FAR_BYTES;
    default:
        return 0;
    }
}

static struct undo_log_head log_head_get(const uint8_t *entry)
{
    return (struct undo_log_head){
        .txn_id = get_u64(entry + UNDO_LOG_AT_TXN),
        .before = get_u64(entry + UNDO_LOG_AT_BEFORE),
        .sequence = get_u32(entry + UNDO_LOG_AT_SEQUENCE),
        .state = entry[UNDO_LOG_AT_STATE],
        .flags = entry[UNDO_LOG_AT_FLAGS],
        .number = get_u64(entry + UNDO_LOG_AT_NUMBER),
        .last = undo_position_get(entry + UNDO_LOG_AT_LAST),
        .end = undo_position_get(entry + UNDO_LOG_AT_END),
    };
}

bool undo_entry_get(const uint8_t *page, uint32_t page_size_bytes, uint32_t offset,
                    struct undo_entry *entry)
{
    size_t end = get_u16_once(page + UNDO_AT_FREE);
    if (end > undo_page_limit(page_size_bytes) || offset < UNDO_ENTRIES_AT ||
        offset + UNDO_ENTRY_HEAD_BYTES > end)
        return false;
    const uint8_t *at = page + offset;
    size_t size_bytes = get_u16_once(at);
    unsigned kind = at[2];
    size_t before_data = head_bytes(kind);
    if (before_data == 0 || size_bytes < before_data || offset + size_bytes > end ||
        (size_bytes > before_data && kind == UNDO_LOG))
        return false;
    *entry = (struct undo_entry){.kind = (enum undo_kind)kind, .size_bytes = size_bytes};
    if (kind == UNDO_LOG)
        entry->log = log_head_get(at);
    else if (kind == UNDO_RECORD)
        entry->previous = (struct undo_position){page_number(page), get_u16(at + 3)};
    else
        entry->previous = undo_position_get(at + UNDO_ENTRY_HEAD_BYTES);
    entry->data = span_of(at + before_data, size_bytes - before_data);
    return true;
}

void undo_log_state_put(uint8_t *to, const struct undo_log_head *head)
{
    to[0] = head->state;
    to[UNDO_LOG_AT_FLAGS - UNDO_LOG_AT_STATE] = head->flags;
    put_u64(to + UNDO_LOG_AT_NUMBER - UNDO_LOG_AT_STATE, head->number);
    undo_position_put(to + UNDO_LOG_AT_LAST - UNDO_LOG_AT_STATE, head->last);
    undo_position_put(to + UNDO_LOG_AT_END - UNDO_LOG_AT_STATE, head->end);
}

void undo_append_put_log(uint8_t *to, const struct undo_log_head *head)
{
    to[0] = UNDO_LOG;
    put_u64(to + 1, head->txn_id);
    put_u64(to + 9, head->before);
    put_u32(to + 17, head->sequence);
}

bool undo_page_append(uint8_t *page, uint32_t page_size_bytes, struct span payload)
{
    uint32_t offset = get_u16(page + UNDO_AT_FREE);
    uint16_t last = get_u16(page + UNDO_AT_LAST);
    if (payload.size_bytes < 1 || offset < UNDO_ENTRIES_AT || last >= offset)
        return false;
    unsigned kind = payload.bytes[0];
    /* What stands between the entry's kind and its end, and how much of it is in the payload. */
    size_t given_bytes = payload.size_bytes - 1;
    size_t size_bytes = UNDO_ENTRY_HEAD_BYTES + given_bytes;
    if (kind == UNDO_RECORD)
        size_bytes += UNDO_NEAR_BYTES - UNDO_ENTRY_HEAD_BYTES;
    else if (kind == UNDO_LOG)
        size_bytes = UNDO_LOG_BYTES;
    if (head_bytes(kind) == 0 || size_bytes < head_bytes(kind) ||
        (kind == UNDO_LOG && payload.size_bytes != UNDO_APPEND_LOG_BYTES) ||
        (kind == UNDO_RECORD && last == 0) ||
        offset + size_bytes > undo_page_limit(page_size_bytes))
        return false;
    uint8_t *at = page + offset;
    put_u16(at, (uint16_t)size_bytes);
    at[2] = (uint8_t)kind;
    if (kind == UNDO_RECORD)
        put_u16(at + UNDO_ENTRY_HEAD_BYTES, last);
    size_t given_at = kind == UNDO_RECORD ? UNDO_NEAR_BYTES : UNDO_ENTRY_HEAD_BYTES;
    memcpy(at + given_at, payload.bytes + 1, given_bytes);
    if (kind == UNDO_LOG) {
        memset(at + UNDO_LOG_AT_STATE, 0, UNDO_LOG_STATE_BYTES);
        put_u16(page + UNDO_AT_LAST_LOG, (uint16_t)offset);
    }
    put_u16(page + UNDO_AT_LAST, (uint16_t)offset);
    put_u16(page + UNDO_AT_FREE, (uint16_t)(offset + size_bytes));
    return true;
}

/* ---- Judging ---- */

static firn_rc wrong(char what[128], const char *format, ...) __attribute__((format(printf, 2, 3)));

static firn_rc wrong(char what[128], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, 128, format, arguments);
    va_end(arguments);
    return FIRN_E_CORRUPT;
}

firn_rc undo_page_check(const uint8_t *page, uint32_t page_size_bytes, char what[128])
{
    struct undo_page_head head;
    undo_page_head_get(page, &head);
    if (page_type(page) != PAGE_TYPE_UNDO || get_u64(page + UNDO_AT_OWNER) != UNDO_OWNER)
        return wrong(what, "is no page of undo");
    if (head.free < UNDO_ENTRIES_AT || head.free > undo_page_limit(page_size_bytes))
        return wrong(what, "says that its entries end at %u", head.free);
    uint32_t last = 0;
    uint32_t last_log = 0;
    uint32_t offset = UNDO_ENTRIES_AT;
    while (offset < head.free) {
        struct undo_entry entry;
        if (!undo_entry_get(page, page_size_bytes, offset, &entry))
            return wrong(what, "has no sound entry at %u", offset);
        if (entry.kind == UNDO_RECORD && (entry.previous.offset != last || last == 0))
            return wrong(what,
                         "has a record at %u that goes back to %u, not to the entry before it",
                         offset, entry.previous.offset);
        if (entry.kind == UNDO_LOG)
            last_log = offset;
        last = offset;
        offset += (uint32_t)entry.size_bytes;
    }
    if (head.last != last || head.last_log != last_log)
        return wrong(what, "says that its last entry and log are at %u and %u, not at %u and %u",
                     head.last, head.last_log, last, last_log);
    return FIRN_OK;
}
