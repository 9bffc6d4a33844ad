/*
 * Moving many cells at once: splits, merges, bulk builds.
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
        int order = compare_key(page, page_size_bytes, from, bounds->lower);
        if (order < 0 || (order > 0 && bounds->level > 0))
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
    uint8_t key[PAGE_SIZE_MAX / 16 * 3];
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
    if (from == to)
        return;
    struct span first = suffix_at(old, page_size_bytes, from);
    struct span last = suffix_at(old, page_size_bytes, to - 1);
    size_t shared = get_u16(old + AT_PREFIX) + span_shared(first, last);
    put_u16(page + AT_SKIP, (uint16_t)(shared - get_u16(page + AT_PREFIX)));
    size_t bytes = slotted_cells_bytes(old, page_size_bytes, from, to, bounds);
    take_cells(page, page_size_bytes, old, from, to,
               bytes - (size_t)(to - from) * SLOTTED_SLOT_BYTES);
}

/* A packed cell: key size u16, value size and external bit u16, key, value. */
struct packed_cell {
    struct span key;
    struct span value;
    unsigned flags;
};

/* Read the next packed cell. Returns false at the end, and where the bytes end too early. */
static bool packed_next(struct span *packed, struct packed_cell *cell)
{
    if (packed->size_bytes < SLOTTED_PACKED_BYTES)
        return false;
    const uint8_t *at = packed->bytes;
    size_t key_size = get_u16(at);
    size_t value_word = get_u16(at + 2);
    size_t value_size = value_word & ~(size_t)CELL_EXTERNAL;
    if (SLOTTED_PACKED_BYTES + key_size + value_size > packed->size_bytes)
        return false;
    cell->key = span_of(at + SLOTTED_PACKED_BYTES, key_size);
    cell->value = span_of(cell->key.bytes + key_size, value_size);
    cell->flags = value_word & CELL_EXTERNAL ? SLOTTED_EXTERNAL : 0;
    *packed = span_behind(*packed, SLOTTED_PACKED_BYTES + key_size + value_size);
    return true;
}

size_t slotted_pack_cell(struct span key, struct span value, unsigned flags, uint8_t *packed)
{
    ASSERT(value.size_bytes < CELL_EXTERNAL);
    put_u16(packed, (uint16_t)key.size_bytes);
    return 2 + cell_put(packed + 2, key, value, flags);
}

size_t slotted_packed_bytes(const uint8_t *page, uint32_t page_size_bytes, unsigned from,
                            unsigned to)
{
    static const struct slotted_bounds whole_keys = {.upper_is_open = true};
    size_t bytes = slotted_cells_bytes(page, page_size_bytes, from, to, &whole_keys);
    return bytes - (size_t)(to - from) * (CELL_COST - SLOTTED_PACKED_BYTES);
}

size_t slotted_pack(const uint8_t *page, uint32_t page_size_bytes, unsigned from, unsigned to,
                    uint8_t *packed)
{
    uint8_t *at = packed;
    for (unsigned slot = from; slot < to; slot++) {
        struct slotted_cell cell;
        ENSURE(slotted_cell(page, page_size_bytes, slot, &cell));
        uint8_t *key = at + SLOTTED_PACKED_BYTES;
        size_t key_size = slotted_copy_key(page, page_size_bytes, slot, key);
        put_u16(at, (uint16_t)key_size);
        put_u16(at + 2, value_word(cell.value.size_bytes, cell.flags));
        memcpy(key + key_size, cell.value.bytes, cell.value.size_bytes);
        at = key + key_size + cell.value.size_bytes;
    }
    return (size_t)(at - packed);
}

/* What a run of packed cells comes to. */
struct packed_sum {
    unsigned count;
    size_t heap_bytes;
    struct span first; /* suffixes, behind the prefix of the page they go to */
    struct span last;
};

/*
 * Judge a whole run before any of it is taken. Below the lower fence only the first can be, above
 * the upper only the last, and then the prefix is no concern in between.
 */
static firn_rc judge_packed(const uint8_t *page, uint32_t page_size_bytes, struct span packed,
                            struct packed_sum *sum)
{
    size_t prefix_size = get_u16(page + AT_PREFIX);
    size_t free_bytes = slotted_free_bytes(page, page_size_bytes);
    struct packed_cell cell = {.flags = 0};
    struct span before = span_of(NULL, 0);
    *sum = (struct packed_sum){.count = 0};
    while (packed_next(&packed, &cell)) {
        if (!cell_is_allowed(page, page_size_bytes, cell.key.size_bytes, cell.value.size_bytes,
                             cell.flags))
            return FIRN_E_CORRUPT;
        bool follows = sum->count == 0
                           ? slotted_covers(page, page_size_bytes, cell.key) &&
                                 suffix_belongs(page, page_size_bytes, slotted_count(page),
                                                span_behind(cell.key, prefix_size))
                           : span_compare(before, cell.key) < 0;
        if (!follows)
            return FIRN_E_CORRUPT;
        if (sum->count == 0)
            sum->first = span_behind(cell.key, prefix_size);
        before = cell.key;
        sum->count++;
        sum->heap_bytes +=
            SLOTTED_VALUE_AT + cell.key.size_bytes - prefix_size + cell.value.size_bytes;
        if (sum->heap_bytes + (size_t)sum->count * SLOTTED_SLOT_BYTES > free_bytes)
            return FIRN_E_CORRUPT;
    }
    if (packed.size_bytes != 0 ||
        (sum->count > 0 && !slotted_covers(page, page_size_bytes, before)))
        return FIRN_E_CORRUPT;
    sum->last = span_behind(before, prefix_size);
    return FIRN_OK;
}

firn_rc slotted_append_packed(uint8_t *page, uint32_t page_size_bytes, struct span packed)
{
    struct packed_sum sum;
    struct packed_cell cell;
    FIRN_TRY(judge_packed(page, page_size_bytes, packed, &sum));
    if (sum.count == 0)
        return FIRN_OK;
    unsigned slot = slotted_count(page);
    if (room_between(page) < sum.heap_bytes + (size_t)sum.count * SLOTTED_SLOT_BYTES)
        slotted_compact(page, page_size_bytes);
    if (slot == 0)
        put_u16(page + AT_SKIP, (uint16_t)span_shared(sum.first, sum.last));
    else
        heads_limit_skip(page, page_size_bytes,
                         span_shared(suffix_at(page, page_size_bytes, 0), sum.last));
    uint32_t at = get_u32(page + AT_HEAP_BEGIN) - (uint32_t)sum.heap_bytes;
    put_u32(page + AT_HEAP_BEGIN, at);
    for (; packed_next(&packed, &cell); slot++) {
        struct span suffix = span_behind(cell.key, get_u16(page + AT_PREFIX));
        slot_put(page, slot, at, suffix);
        at += (uint32_t)cell_put(page + at, suffix, cell.value, cell.flags);
    }
    put_u16(page + AT_COUNT, (uint16_t)slot);
    put_u16(page + AT_LAST_SLOT, (uint16_t)(slot - 1));
    put_u16(page + AT_RUN, 0);
    return FIRN_OK;
}
