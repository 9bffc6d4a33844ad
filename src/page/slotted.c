/*
 * A node's header and fences.
 */
#include "base/check.h"
#include "page/slotted_internal.h"

bool bounds_are_sound(uint32_t page_size_bytes, const struct slotted_bounds *bounds)
{
    size_t most = slotted_key_max(page_size_bytes);
    if (bounds->level > SLOTTED_LEVEL_MAX || bounds->lower.size_bytes > most)
        return false;
    return bounds->upper_is_open ||
           (bounds->upper.size_bytes <= most && span_compare(bounds->lower, bounds->upper) < 0);
}

void node_begin(uint8_t *page, uint32_t page_size_bytes, const struct slotted_bounds *bounds)
{
    size_t lower_size = bounds->lower.size_bytes;
    size_t upper_size = bounds->upper_is_open ? 0 : bounds->upper.size_bytes;
    memset(page + PAGE_HEADER_BYTES, 0, page_size_bytes - PAGE_HEADER_BYTES);
    put_u64(page + AT_INDEX_ID, bounds->index_id);
    put_u16(page + AT_LEVEL, bounds->level);
    put_u32(page + AT_HEAP_BEGIN, (uint32_t)(page_size_bytes - lower_size - upper_size));
    put_u32(page + AT_PREV, bounds->prev);
    put_u32(page + AT_NEXT, bounds->next);
    put_u16(page + AT_PREFIX, (uint16_t)prefix_between(bounds));
    put_u16(page + AT_LOWER, (uint16_t)lower_size);
    put_u16(page + AT_UPPER, (uint16_t)upper_size);
    put_u16(page + AT_FLAGS, bounds->upper_is_open ? FLAG_UPPER_IS_OPEN : 0);
    uint8_t *lower = page + page_size_bytes - lower_size;
    if (lower_size > 0)
        memcpy(lower, bounds->lower.bytes, lower_size);
    if (upper_size > 0)
        memcpy(lower - upper_size, bounds->upper.bytes, upper_size);
}

void slotted_init(uint8_t *page, uint32_t page_size_bytes, uint64_t page_id,
                  const struct slotted_bounds *bounds)
{
    ENSURE(bounds_are_sound(page_size_bytes, bounds));
    page_init(page, page_size_bytes, page_id, PAGE_TYPE_INDEX);
    node_begin(page, page_size_bytes, bounds);
}

void slotted_bounds(const uint8_t *page, uint32_t page_size_bytes, struct slotted_bounds *bounds)
{
    unsigned body = page_size_bytes - SLOTTED_SLOTS_AT;
    unsigned lower_size = smaller(get_u16_once(page + AT_LOWER), body);
    unsigned upper_size = smaller(get_u16_once(page + AT_UPPER), body - lower_size);
    const uint8_t *lower = page + page_size_bytes - lower_size;
    *bounds = (struct slotted_bounds){
        .index_id = slotted_index_id(page),
        .level = (uint16_t)slotted_level(page),
        .prev = slotted_prev(page),
        .next = slotted_next(page),
        .lower = span_of(lower, lower_size),
        .upper = span_of(lower - upper_size, upper_size),
        .upper_is_open = get_u16(page + AT_FLAGS) & FLAG_UPPER_IS_OPEN,
    };
}

bool slotted_covers(const uint8_t *page, uint32_t page_size_bytes, struct span key)
{
    struct slotted_bounds bounds;
    slotted_bounds(page, page_size_bytes, &bounds);
    return span_compare(key, bounds.lower) >= 0 &&
           (bounds.upper_is_open || span_compare(key, bounds.upper) < 0);
}

size_t slotted_free_bytes(const uint8_t *page, uint32_t page_size_bytes)
{
    size_t slots_end =
        SLOTTED_SLOTS_AT + (size_t)bounded_count(page, page_size_bytes) * SLOTTED_SLOT_BYTES;
    size_t heap_begin = smaller(get_u32(page + AT_HEAP_BEGIN), page_size_bytes);
    size_t free_bytes = heap_begin > slots_end ? heap_begin - slots_end : 0;
    return smaller((unsigned)free_bytes + get_u16(page + AT_GARBAGE), page_size_bytes);
}

size_t slotted_cost(const uint8_t *page, size_t key_size_bytes, size_t value_size_bytes)
{
    size_t prefix_size = get_u16_once(page + AT_PREFIX);
    size_t suffix_size = key_size_bytes > prefix_size ? key_size_bytes - prefix_size : 0;
    return CELL_COST + suffix_size + value_size_bytes;
}

bool cell_is_allowed(const uint8_t *page, uint32_t page_size_bytes, size_t key_size_bytes,
                     size_t value_size_bytes, unsigned flags)
{
    if (key_size_bytes > slotted_key_max(page_size_bytes) ||
        key_size_bytes + value_size_bytes > slotted_cell_max(page_size_bytes))
        return false;
    return slotted_level(page) == 0 ? (flags & ~(unsigned)SLOTTED_EXTERNAL) == 0
                                    : flags == 0 && value_size_bytes == CHILD_BYTES;
}

/* A fence without the page's prefix, so that it compares with suffixes. */
static struct span fence_suffix(const uint8_t *page, struct span fence)
{
    return span_behind(fence, get_u16(page + AT_PREFIX));
}

/* Compare a suffix with a slot's. Heads tell most of them apart, and those of neighbours lie where
 * a search has just been; heads that skip bytes say nothing of a key that may lack these. */
static int compare_with_slot(const uint8_t *page, uint32_t page_size_bytes, struct span suffix,
                             unsigned slot)
{
    if (get_u16(page + AT_SKIP) == 0 && slot >= first_headed(page)) {
        uint32_t head = head_of(suffix);
        uint32_t other = head_at(page, slot);
        if (head != other)
            return head < other ? -1 : 1;
    }
    return span_compare(suffix, suffix_at(page, page_size_bytes, slot));
}

bool suffix_belongs(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                    struct span suffix)
{
    unsigned count = bounded_count(page, page_size_bytes);
    struct slotted_bounds bounds;
    if (slot > 0 && compare_with_slot(page, page_size_bytes, suffix, slot - 1) <= 0)
        return false;
    if (slot < count && compare_with_slot(page, page_size_bytes, suffix, slot) >= 0)
        return false;
    if (slot > 0 && slot < count)
        return true;
    slotted_bounds(page, page_size_bytes, &bounds);
    if (slot == 0 && span_compare(suffix, fence_suffix(page, bounds.lower)) < 0)
        return false;
    return slot < count || bounds.upper_is_open ||
           span_compare(suffix, fence_suffix(page, bounds.upper)) < 0;
}

void slotted_set_prev(uint8_t *page, uint32_t page_no)
{
    put_u32(page + AT_PREV, page_no);
}

void slotted_set_next(uint8_t *page, uint32_t page_no)
{
    put_u32(page + AT_NEXT, page_no);
}
