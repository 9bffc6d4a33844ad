/*
 * Changing single cells. Nothing here can fail: the caller has seen that there is room, and tidying
 * up needs no more memory than the stack has.
 */
#include "base/check.h"
#include "page/slotted_internal.h"

enum { NO_SLOT = UINT16_MAX }; /* a page has far fewer */

size_t cell_put(uint8_t *to, struct span suffix, struct span value, unsigned flags)
{
    put_u16(to, value_word(value.size_bytes, flags));
    uint8_t *at = to + SLOTTED_VALUE_AT;
    if (suffix.size_bytes > 0)
        memcpy(at, suffix.bytes, suffix.size_bytes);
    if (value.size_bytes > 0)
        memcpy(at + suffix.size_bytes, value.bytes, value.size_bytes);
    return SLOTTED_VALUE_AT + suffix.size_bytes + value.size_bytes;
}

static uint32_t head_for(const uint8_t *page, unsigned slot, struct span suffix)
{
    if (slot < first_headed(page))
        return 0;
    return head_of(span_behind(suffix, get_u16(page + AT_SKIP)));
}

void slot_put(uint8_t *page, unsigned slot, uint32_t cell_at, struct span suffix)
{
    uint64_t head = head_for(page, slot, suffix);
    put_u64(slot_at(page, slot),
            head | (uint64_t)cell_at << 32 | (uint64_t)suffix.size_bytes << 48);
}

/* Write a slot's head anew, where it depends on more than the slot. */
static void head_put(uint8_t *page, uint32_t page_size_bytes, unsigned slot)
{
    struct span suffix = suffix_at(page, page_size_bytes, slot);
    put_u32(slot_at(page, slot), head_for(page, slot, suffix));
}

static unsigned cell_offset(uint8_t *page, unsigned slot)
{
    return get_u16(slot_at(page, slot) + SLOT_AT_OFFSET);
}

/* Read a cell that must be there. */
static struct slotted_cell cell_at(const uint8_t *page, uint32_t page_size_bytes, unsigned slot)
{
    struct slotted_cell cell;
    ENSURE(slotted_cell(page, page_size_bytes, slot, &cell));
    return cell;
}

static size_t cell_size(const struct slotted_cell *cell)
{
    return SLOTTED_VALUE_AT + cell->suffix.size_bytes + cell->value.size_bytes;
}

void heads_admit(uint8_t *page, uint32_t page_size_bytes, struct span suffix, size_t shared)
{
    unsigned count = slotted_count(page);
    unsigned first = first_headed(page);
    size_t skip = get_u16(page + AT_SKIP);
    if (count <= first) {
        put_u16(page + AT_SKIP, (uint16_t)shared);
        return;
    }
    if (skip > 0)
        shared = span_shared(suffix, suffix_at(page, page_size_bytes, first));
    if (shared >= skip)
        return;
    put_u16(page + AT_SKIP, (uint16_t)shared);
    for (unsigned slot = first; slot < count; slot++)
        head_put(page, page_size_bytes, slot);
}

/*
 * Write all cells anew, in slot order and side by side at the heap's end: scans then read memory
 * upwards. One cell may get another value on the way (NO_SLOT: none does).
 */
static __attribute__((noinline)) void compact(uint8_t *page, uint32_t page_size_bytes,
                                              unsigned changed, struct span value, unsigned flags)
{
    uint8_t old[PAGE_SIZE_MAX];
    unsigned count = slotted_count(page);
    uint32_t end = heap_end(page, page_size_bytes);
    uint32_t begin = get_u32(page + AT_HEAP_BEGIN);
    size_t live = end - begin - get_u16(page + AT_GARBAGE);
    if (changed != NO_SLOT)
        live += value.size_bytes - cell_at(page, page_size_bytes, changed).value.size_bytes;
    memcpy(old + SLOTTED_SLOTS_AT, page + SLOTTED_SLOTS_AT, (size_t)count * SLOTTED_SLOT_BYTES);
    put_u16(old + AT_COUNT, (uint16_t)count);
    memcpy(old + begin, page + begin, end - begin);
    uint32_t at = end - (uint32_t)live;
    put_u32(page + AT_HEAP_BEGIN, at);
    put_u16(page + AT_GARBAGE, 0);
    for (unsigned slot = 0; slot < count; slot++) {
        struct slotted_cell cell = cell_at(old, page_size_bytes, slot);
        put_u16(slot_at(page, slot) + SLOT_AT_OFFSET, (uint16_t)at);
        if (slot == changed) {
            at += (uint32_t)cell_put(page + at, cell.suffix, value, flags);
        } else {
            memcpy(page + at, cell.suffix.bytes - SLOTTED_VALUE_AT, cell_size(&cell));
            at += (uint32_t)cell_size(&cell);
        }
    }
    ENSURE(at == end);
}

void slotted_compact(uint8_t *page, uint32_t page_size_bytes)
{
    compact(page, page_size_bytes, NO_SLOT, span_of(NULL, 0), 0);
}

/* Note where an insert went, so that a split can tell a run from chance. */
static void note_insert(uint8_t *page, unsigned slot, unsigned count)
{
    int run = (int16_t)get_u16(page + AT_RUN);
    unsigned last = get_u16(page + AT_LAST_SLOT);
    if (count > 0 && slot == last + 1)
        run = run < 0 ? 1 : run + (run < RUN_MAX);
    else if (count > 0 && slot == last)
        run = run > 0 ? -1 : run - (run > -RUN_MAX);
    else
        run = 0;
    put_u16(page + AT_RUN, (uint16_t)run);
    put_u16(page + AT_LAST_SLOT, (uint16_t)slot);
}

/* An inner node's first key is going to be its second, which has a head. */
static void admit_displaced(uint8_t *page, uint32_t page_size_bytes)
{
    struct span suffix = suffix_at(page, page_size_bytes, 0);
    heads_admit(page, page_size_bytes, suffix, suffix.size_bytes);
}

void slotted_insert_suffix(uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                           struct span suffix, struct span value, unsigned flags)
{
    unsigned count = slotted_count(page);
    size_t size = SLOTTED_VALUE_AT + suffix.size_bytes + value.size_bytes;
    ENSURE(slot <= count && size + SLOTTED_SLOT_BYTES <= slotted_free_bytes(page, page_size_bytes));
    if (room_between(page) < size + SLOTTED_SLOT_BYTES)
        slotted_compact(page, page_size_bytes);
    bool displaces = slot < first_headed(page); /* the key that needed no head */
    if (!displaces)
        heads_admit(page, page_size_bytes, suffix, suffix.size_bytes);
    else if (count > 0)
        admit_displaced(page, page_size_bytes);
    uint32_t at = get_u32(page + AT_HEAP_BEGIN) - (uint32_t)size;
    cell_put(page + at, suffix, value, flags);
    put_u32(page + AT_HEAP_BEGIN, at);
    memmove(slot_at(page, slot + 1), slot_at(page, slot),
            (size_t)(count - slot) * SLOTTED_SLOT_BYTES);
    slot_put(page, slot, at, suffix);
    put_u16(page + AT_COUNT, (uint16_t)(count + 1));
    if (displaces && count > 0)
        head_put(page, page_size_bytes, 1);
    note_insert(page, slot, count);
}

void slotted_insert(uint8_t *page, uint32_t page_size_bytes, unsigned slot, struct span key,
                    struct span value, unsigned flags)
{
    ASSERT(slotted_covers(page, page_size_bytes, key));
    slotted_insert_suffix(page, page_size_bytes, slot, span_behind(key, get_u16(page + AT_PREFIX)),
                          value, flags);
}

/* Give up bytes of the heap. */
static void add_garbage(uint8_t *page, size_t size_bytes)
{
    put_u16(page + AT_GARBAGE, (uint16_t)(get_u16(page + AT_GARBAGE) + size_bytes));
}

void slotted_delete(uint8_t *page, uint32_t page_size_bytes, unsigned slot)
{
    struct slotted_cell cell = cell_at(page, page_size_bytes, slot);
    unsigned count = slotted_count(page);
    unsigned offset = cell_offset(page, slot);
    if (offset == get_u32(page + AT_HEAP_BEGIN))
        put_u32(page + AT_HEAP_BEGIN, (uint32_t)(offset + cell_size(&cell)));
    else
        add_garbage(page, cell_size(&cell));
    memmove(slot_at(page, slot), slot_at(page, slot + 1),
            (size_t)(count - slot - 1) * SLOTTED_SLOT_BYTES);
    put_u16(page + AT_COUNT, (uint16_t)(count - 1));
    if (slot < first_headed(page) && count > 1)
        head_put(page, page_size_bytes, 0);
    unsigned last = get_u16(page + AT_LAST_SLOT);
    if (slot < last)
        put_u16(page + AT_LAST_SLOT, (uint16_t)(last - 1));
    else if (slot == last)
        put_u16(page + AT_RUN, 0);
}

bool slotted_can_update(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                        size_t value_size_bytes)
{
    struct slotted_cell cell;
    return slotted_cell(page, page_size_bytes, slot, &cell) &&
           value_size_bytes <= cell.value.size_bytes + slotted_free_bytes(page, page_size_bytes);
}

/* Give a cell a value that is larger than its old one. */
static void update_growing(uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                           struct span value, unsigned flags)
{
    struct slotted_cell cell = cell_at(page, page_size_bytes, slot);
    size_t size = SLOTTED_VALUE_AT + cell.suffix.size_bytes + value.size_bytes;
    if (room_between(page) < size) {
        compact(page, page_size_bytes, slot, value, flags);
        return;
    }
    uint32_t at = get_u32(page + AT_HEAP_BEGIN) - (uint32_t)size;
    cell_put(page + at, cell.suffix, value, flags);
    put_u32(page + AT_HEAP_BEGIN, at);
    put_u16(slot_at(page, slot) + SLOT_AT_OFFSET, (uint16_t)at);
    add_garbage(page, cell_size(&cell));
}

void slotted_update(uint8_t *page, uint32_t page_size_bytes, unsigned slot, struct span value,
                    unsigned flags)
{
    struct slotted_cell cell = cell_at(page, page_size_bytes, slot);
    ENSURE(slotted_can_update(page, page_size_bytes, slot, value.size_bytes));
    if (value.size_bytes > cell.value.size_bytes) {
        update_growing(page, page_size_bytes, slot, value, flags);
        return;
    }
    uint8_t *at = page + cell_offset(page, slot);
    put_u16(at, value_word(value.size_bytes, flags));
    if (value.size_bytes > 0)
        memcpy(at + SLOTTED_VALUE_AT + cell.suffix.size_bytes, value.bytes, value.size_bytes);
    add_garbage(page, cell.value.size_bytes - value.size_bytes);
}

void slotted_patch(uint8_t *page, uint32_t page_size_bytes, unsigned slot, size_t offset,
                   struct span bytes)
{
    struct slotted_cell cell = cell_at(page, page_size_bytes, slot);
    ENSURE(offset <= cell.value.size_bytes && bytes.size_bytes <= cell.value.size_bytes - offset);
    if (bytes.size_bytes > 0)
        memcpy(page + (cell.value.bytes - page) + offset, bytes.bytes, bytes.size_bytes);
}
