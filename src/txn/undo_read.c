/*
 * Reading records: what is below the tail does not change, so a look without a latch is as good as
 * one with it. Only the page may be another's by now where a pointer is wrong.
 */
#include "txn/undo_set_internal.h"

#include "base/memory.h"

#include <inttypes.h>

void undo_buffer_free(struct undo_buffer *buffer)
{
    memory_free(buffer->bytes);
    *buffer = (struct undo_buffer){0};
}

static firn_rc raise_pointer(undo_pointer pointer)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "undo pointer %" PRIx64
                    " leads to no record (tablespace undo_%03u, page %" PRIu32
                    ", offset %u); check the environment",
                    pointer, (unsigned)(pointer >> 48), undo_position_of(pointer).page_no,
                    undo_position_of(pointer).offset);
}

static bool is_record(enum undo_kind kind)
{
    return kind == UNDO_RECORD || kind == UNDO_FAR_RECORD;
}

/* Copy a record and where the one before it stands. The page may be changing. */
static bool copy_record(const uint8_t *page, uint32_t page_size_bytes, uint32_t offset,
                        struct undo_buffer *buffer, struct span *record,
                        struct undo_position *previous)
{
    struct undo_entry entry;
    struct undo_entry before;
    if (page_type(page) != PAGE_TYPE_UNDO ||
        !undo_entry_get(page, page_size_bytes, offset, &entry) || !is_record(entry.kind) ||
        entry.data.size_bytes > buffer->capacity_bytes)
        return false;
    *previous = entry.previous;
    if (entry.kind == UNDO_RECORD) {
        /* The log's header, or a record. */
        if (entry.previous.offset >= offset ||
            !undo_entry_get(page, page_size_bytes, entry.previous.offset, &before))
            return false;
        if (before.kind == UNDO_LOG)
            previous->offset = 0;
    }
    if (entry.data.size_bytes > 0)
        memcpy(buffer->bytes, entry.data.bytes, entry.data.size_bytes);
    *record = span_of(buffer->bytes, entry.data.size_bytes);
    return true;
}

static firn_rc have_buffer(const struct undo_set *set, struct undo_buffer *buffer)
{
    if (buffer->capacity_bytes >= set->page_size_bytes)
        return FIRN_OK;
    uint8_t *bytes = memory_realloc(buffer->bytes, set->page_size_bytes);
    if (bytes == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for an undo record");
    *buffer = (struct undo_buffer){bytes, set->page_size_bytes};
    return FIRN_OK;
}

/* Look without a latch. @return false if that came to nothing */
static bool view_record(struct undo_set *set, uint64_t page_id, uint32_t offset,
                        struct undo_buffer *buffer, struct span *record,
                        struct undo_position *previous)
{
    struct buffer_view view;
    if (!buffer_view_open(set->pool, page_id, NULL, &view))
        return false;
    bool is_good = copy_record(view.page, set->page_size_bytes, offset, buffer, record, previous) &&
                   buffer_view_valid(set->pool, &view);
    buffer_view_close(set->pool, &view);
    return is_good;
}

firn_rc undo_read(struct undo_set *set, undo_pointer pointer, struct undo_buffer *buffer,
                  struct span *record, undo_pointer *previous)
{
    struct undo_position at = undo_position_of(pointer);
    struct undo_position before = {0};
    struct span found = {0};
    uint64_t ordinal = pointer >> 48;
    if (ordinal == 0 || ordinal > set->space_count)
        return raise_pointer(pointer);
    const struct undo_space *space = &set->tablespaces[ordinal - 1];
    uint64_t page_id = undo_page_id(space, at.page_no);
    FIRN_TRY(have_buffer(set, buffer));
    if (!view_record(set, page_id, at.offset, buffer, &found, &before)) {
        struct buffer_frame *frame;
        firn_rc rc = buffer_fix(set->pool, page_id, BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame);
        if (rc == FIRN_E_NOT_FOUND)
            return raise_pointer(pointer);
        FIRN_TRY(rc);
        bool is_good = copy_record(buffer_page(set->pool, frame), set->page_size_bytes, at.offset,
                                   buffer, &found, &before);
        buffer_unfix(set->pool, frame, BUFFER_SHARED);
        if (!is_good)
            return raise_pointer(pointer);
    }
    *record = found;
    if (previous != NULL)
        *previous = undo_pointer_of(space, before);
    return FIRN_OK;
}
