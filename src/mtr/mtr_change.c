/* The changes. Each writes its record into the log, then has change_apply do what the record says:
 * what recovery will repeat is what was done. */

#include "base/check.h"
#include "mtr/mtr.h"

/** Write a record's header. @return where its payload goes */
static uint8_t *record(struct mtr *mtr, enum change_op op, uint64_t page_id,
                       size_t payload_size_bytes)
{
    ENSURE(mtr->log_bytes + CHANGE_HEADER_MAX_BYTES + payload_size_bytes <= mtr->log_limit);
    uint8_t *to = mtr->log + mtr->log_bytes;
    size_t header_bytes = change_put_header(to, op, page_id, payload_size_bytes);
    mtr->log_bytes += header_bytes + payload_size_bytes;
    return to + header_bytes;
}

static void apply(struct mtr *mtr, struct mtr_page *page, enum change_op op, const uint8_t *payload,
                  size_t payload_size_bytes)
{
    struct change change = {op, page->page_id, span_of(payload, payload_size_bytes)};
    if (!page->changed)
        buffer_begin_change(mtr->pool, page->frame);
    page->changed = true;
    ENSURE(change_apply(page->bytes, mtr->page_size_bytes, &change) == FIRN_OK);
}

/** A change that sets the whole page. */
static void begin(struct mtr *mtr, struct mtr_page *page, enum change_op op, const uint8_t *payload,
                  size_t payload_size_bytes)
{
    ASSERT(change_begins_page(op));
    buffer_begin_page(mtr->pool, page->frame);
    apply(mtr, page, op, payload, payload_size_bytes);
}

static uint8_t *put_bytes(uint8_t *to, struct span bytes)
{
    if (bytes.size_bytes > 0)
        memcpy(to, bytes.bytes, bytes.size_bytes);
    return to + bytes.size_bytes;
}

void mtr_note(struct mtr *mtr, enum change_op op, uint64_t page_id, struct span payload)
{
    ASSERT(op > CHANGE_PAGE_LAST);
    put_bytes(record(mtr, op, page_id, payload.size_bytes), payload);
}

void mtr_page_init(struct mtr *mtr, struct mtr_page *page, enum page_type type)
{
    uint8_t *payload = record(mtr, CHANGE_INIT, page->page_id, 2);
    put_u16(payload, (uint16_t)type);
    begin(mtr, page, CHANGE_INIT, payload, 2);
}

void mtr_page_free(struct mtr *mtr, struct mtr_page *page)
{
    begin(mtr, page, CHANGE_FREE, record(mtr, CHANGE_FREE, page->page_id, 0), 0);
}

void mtr_write(struct mtr *mtr, struct mtr_page *page, size_t offset, struct span bytes)
{
    size_t size_bytes = 2 + bytes.size_bytes;
    uint8_t *payload = record(mtr, CHANGE_WRITE, page->page_id, size_bytes);
    put_u16(payload, (uint16_t)offset);
    put_bytes(payload + 2, bytes);
    apply(mtr, page, CHANGE_WRITE, payload, size_bytes);
}

void mtr_index_init(struct mtr *mtr, struct mtr_page *page, const struct slotted_bounds *bounds)
{
    size_t size_bytes = change_bounds_bytes(bounds);
    uint8_t *payload = record(mtr, CHANGE_INIT_INDEX, page->page_id, size_bytes);
    change_put_bounds(payload, bounds);
    begin(mtr, page, CHANGE_INIT_INDEX, payload, size_bytes);
}

void mtr_insert(struct mtr *mtr, struct mtr_page *page, unsigned slot, struct span key,
                struct span value, unsigned flags)
{
    size_t prefix_bytes = slotted_prefix(page->bytes, mtr->page_size_bytes).size_bytes;
    ASSERT(slotted_covers(page->bytes, mtr->page_size_bytes, key));
    struct span suffix = span_of(key.bytes + prefix_bytes, key.size_bytes - prefix_bytes);
    uint8_t suffix_size[10];
    size_t varint_bytes = change_put_varint(suffix_size, suffix.size_bytes);
    size_t size_bytes = 3 + varint_bytes + suffix.size_bytes + value.size_bytes;
    uint8_t *payload = record(mtr, CHANGE_INSERT, page->page_id, size_bytes);
    put_u16(payload, (uint16_t)slot);
    payload[2] = (uint8_t)flags;
    uint8_t *to = put_bytes(payload + 3, span_of(suffix_size, varint_bytes));
    to = put_bytes(to, suffix);
    put_bytes(to, value);
    apply(mtr, page, CHANGE_INSERT, payload, size_bytes);
}

void mtr_delete(struct mtr *mtr, struct mtr_page *page, unsigned slot)
{
    uint8_t *payload = record(mtr, CHANGE_DELETE, page->page_id, 2);
    put_u16(payload, (uint16_t)slot);
    apply(mtr, page, CHANGE_DELETE, payload, 2);
}

void mtr_update(struct mtr *mtr, struct mtr_page *page, unsigned slot, struct span value,
                unsigned flags)
{
    size_t size_bytes = 3 + value.size_bytes;
    uint8_t *payload = record(mtr, CHANGE_UPDATE, page->page_id, size_bytes);
    put_u16(payload, (uint16_t)slot);
    payload[2] = (uint8_t)flags;
    put_bytes(payload + 3, value);
    apply(mtr, page, CHANGE_UPDATE, payload, size_bytes);
}

void mtr_patch(struct mtr *mtr, struct mtr_page *page, unsigned slot, size_t offset,
               struct span bytes)
{
    size_t size_bytes = 4 + bytes.size_bytes;
    uint8_t *payload = record(mtr, CHANGE_PATCH, page->page_id, size_bytes);
    put_u16(payload, (uint16_t)slot);
    put_u16(payload + 2, (uint16_t)offset);
    put_bytes(payload + 4, bytes);
    apply(mtr, page, CHANGE_PATCH, payload, size_bytes);
}

void mtr_rebuild(struct mtr *mtr, struct mtr_page *page, unsigned from, unsigned to,
                 const struct slotted_bounds *bounds)
{
    size_t size_bytes = 4 + change_bounds_bytes(bounds);
    uint8_t *payload = record(mtr, CHANGE_REBUILD, page->page_id, size_bytes);
    put_u16(payload, (uint16_t)from);
    put_u16(payload + 2, (uint16_t)to);
    change_put_bounds(payload + 4, bounds);
    apply(mtr, page, CHANGE_REBUILD, payload, size_bytes);
}

void mtr_append_packed(struct mtr *mtr, struct mtr_page *page, struct span packed)
{
    uint8_t *payload = record(mtr, CHANGE_APPEND, page->page_id, packed.size_bytes);
    put_bytes(payload, packed);
    apply(mtr, page, CHANGE_APPEND, payload, packed.size_bytes);
}

void mtr_undo_append(struct mtr *mtr, struct mtr_page *page, enum undo_kind kind,
                     struct undo_position previous, struct span data)
{
    size_t position_bytes = kind == UNDO_RECORD ? 0 : UNDO_POSITION_BYTES;
    size_t size_bytes = 1 + position_bytes + data.size_bytes;
    uint8_t *payload = record(mtr, CHANGE_UNDO_APPEND, page->page_id, size_bytes);
    payload[0] = (uint8_t)kind;
    if (kind != UNDO_RECORD)
        undo_position_put(payload + 1, previous);
    put_bytes(payload + 1 + position_bytes, data);
    apply(mtr, page, CHANGE_UNDO_APPEND, payload, size_bytes);
}

void mtr_undo_begin(struct mtr *mtr, struct mtr_page *page, const struct undo_log_head *head)
{
    uint8_t *payload = record(mtr, CHANGE_UNDO_APPEND, page->page_id, UNDO_APPEND_LOG_BYTES);
    undo_append_put_log(payload, head);
    apply(mtr, page, CHANGE_UNDO_APPEND, payload, UNDO_APPEND_LOG_BYTES);
}

void mtr_set_siblings(struct mtr *mtr, struct mtr_page *page, uint32_t prev, uint32_t next)
{
    uint8_t *payload = record(mtr, CHANGE_SIBLINGS, page->page_id, 8);
    put_u32(payload, prev);
    put_u32(payload + 4, next);
    apply(mtr, page, CHANGE_SIBLINGS, payload, 8);
}
