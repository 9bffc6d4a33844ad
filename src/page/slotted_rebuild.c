/*
 * Keeping some of a node's cells under other fences.
 */
#include "base/check.h"
#include "page/slotted_internal.h"

size_t slotted_cells_bytes(const uint8_t *source, uint32_t page_size_bytes, unsigned from,
                           unsigned to, const struct slotted_bounds *bounds)
{
    size_t old_prefix = get_u16(source + AT_PREFIX);
    size_t bytes = 0;
    for (unsigned slot = from; slot < to; slot++) {
        struct slotted_cell cell;
        ENSURE(slotted_cell(source, page_size_bytes, slot, &cell));
        bytes += CELL_COST + old_prefix + cell.suffix.size_bytes + cell.value.size_bytes;
    }
    return bytes - (size_t)(to - from) * prefix_between(bounds);
}

bool slotted_fits(const uint8_t *source, uint32_t page_size_bytes, unsigned from, unsigned to,
                  const struct slotted_bounds *bounds, size_t used_bytes)
{
    size_t fences = bounds->lower.size_bytes;
    if (!bounds->upper_is_open)
        fences += bounds->upper.size_bytes;
    return SLOTTED_SLOTS_AT + fences + used_bytes +
               slotted_cells_bytes(source, page_size_bytes, from, to, bounds) <=
           page_size_bytes;
}

/* Compare a slot's whole key with a key. */
static int compare_key(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                       struct span key)
{
    struct span prefix = slotted_prefix(page, page_size_bytes);
    struct span begin = key;
    if (begin.size_bytes > prefix.size_bytes)
        begin.size_bytes = prefix.size_bytes;
    int order = span_compare(prefix, begin);
    return order != 0 ? order
                      : span_compare(suffix_at(page, page_size_bytes, slot),
                                     span_behind(key, prefix.size_bytes));
}

bool slotted_can_rebuild(const uint8_t *page, uint32_t page_size_bytes, unsigned from, unsigned to,
                         const struct slotted_bounds *bounds)
{
    if (from > to || to > slotted_count(page) || bounds->level != slotted_level(page) ||
        !bounds_are_sound(page_size_bytes, bounds))
        return false;
    if (from < to) {
        if (compare_key(page, page_size_bytes, from, bounds->lower) < 0)
            return false;
        if (!bounds->upper_is_open &&
            compare_key(page, page_size_bytes, to - 1, bounds->upper) >= 0)
            return false;
    }
    return slotted_fits(page, page_size_bytes, from, to, bounds, 0);
}

/* Write cells [from, to) of another page into an empty one, in slot order upwards. */
static void take_cells(uint8_t *page, uint32_t page_size_bytes, const uint8_t *source,
                       unsigned from, unsigned to, size_t heap_bytes)
{
    uint8_t key[SLOTTED_KEY_MAX];
    size_t prefix_size = get_u16(page + AT_PREFIX);
    uint32_t at = get_u32(page + AT_HEAP_BEGIN) - (uint32_t)heap_bytes;
    put_u32(page + AT_HEAP_BEGIN, at);
    put_u16(page + AT_COUNT, (uint16_t)(to - from));
    for (unsigned slot = from; slot < to; slot++) {
        struct slotted_cell cell;
        ENSURE(slotted_cell(source, page_size_bytes, slot, &cell));
        size_t key_size = slotted_copy_key(source, page_size_bytes, slot, key);
        struct span suffix = span_behind(span_of(key, key_size), prefix_size);
        slot_put(page, slot - from, at, suffix);
        at += (uint32_t)cell_put(page + at, suffix, cell.value, cell.flags);
    }
}

void slotted_rebuild(uint8_t *page, uint32_t page_size_bytes, unsigned from, unsigned to,
                     const struct slotted_bounds *bounds)
{
    uint8_t old[PAGE_SIZE_MAX];
    ENSURE(slotted_can_rebuild(page, page_size_bytes, from, to, bounds));
    memcpy(old, page, page_size_bytes);
    node_begin(page, page_size_bytes, bounds);
    if (from + first_headed(page) < to) {
        struct span first = suffix_at(old, page_size_bytes, from + first_headed(page));
        struct span last = suffix_at(old, page_size_bytes, to - 1);
        size_t shared = get_u16(old + AT_PREFIX) + span_shared(first, last);
        put_u16(page + AT_SKIP, (uint16_t)(shared - get_u16(page + AT_PREFIX)));
    }
    size_t bytes = slotted_cells_bytes(old, page_size_bytes, from, to, bounds);
    take_cells(page, page_size_bytes, old, from, to,
               bytes - (size_t)(to - from) * SLOTTED_SLOT_BYTES);
}
