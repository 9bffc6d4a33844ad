/*
 * Judging a node: everything that search and change rely on.
 */
#include "page/slotted_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { WHAT_BYTES = 128, WORD_BITS = 64 };

static __attribute__((format(printf, 2, 3))) firn_rc wrong(char what[WHAT_BYTES],
                                                           const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, WHAT_BYTES, format, arguments);
    va_end(arguments);
    return FIRN_E_CORRUPT;
}

/* Sizes and offsets of the header, so that all that follows stays inside the page. */
static firn_rc check_header(const uint8_t *page, uint32_t page_size_bytes, char what[WHAT_BYTES])
{
    unsigned flags = get_u16(page + AT_FLAGS);
    size_t most = slotted_key_max(page_size_bytes);
    size_t lower_size = get_u16(page + AT_LOWER);
    size_t upper_size = get_u16(page + AT_UPPER);
    size_t slots_end = SLOTTED_SLOTS_AT + (size_t)slotted_count(page) * SLOTTED_SLOT_BYTES;
    uint32_t heap_begin = get_u32(page + AT_HEAP_BEGIN);
    if (page_type(page) != PAGE_TYPE_INDEX)
        return wrong(what, "it is of type %u, not an index page", (unsigned)page_type(page));
    if (slotted_level(page) > SLOTTED_LEVEL_MAX)
        return wrong(what, "its level is %u", slotted_level(page));
    if (flags & ~(unsigned)FLAG_UPPER_IS_OPEN)
        return wrong(what, "its flags are 0x%x", flags);
    if (lower_size > most || upper_size > most)
        return wrong(what, "its fences take %zu and %zu bytes, a key at most %zu", lower_size,
                     upper_size, most);
    if (heap_begin < slots_end || heap_begin > page_size_bytes - lower_size - upper_size)
        return wrong(what, "its %u slots and its cells from %" PRIu32 " on overlap",
                     slotted_count(page), heap_begin);
    return FIRN_OK;
}

static firn_rc check_fences(const uint8_t *page, uint32_t page_size_bytes, char what[WHAT_BYTES])
{
    struct slotted_bounds bounds;
    slotted_bounds(page, page_size_bytes, &bounds);
    if (bounds.upper_is_open && bounds.upper.size_bytes != 0)
        return wrong(what, "it has an upper fence and claims to have none");
    if (!bounds_are_sound(page_size_bytes, &bounds))
        return wrong(what, "its fences are out of order");
    if (get_u16(page + AT_PREFIX) != prefix_between(&bounds))
        return wrong(what, "its prefix has %u bytes, its fences share %zu",
                     get_u16(page + AT_PREFIX), prefix_between(&bounds));
    return FIRN_OK;
}

/* Note bytes as taken. Returns false if any was taken before. */
static bool take_bytes(uint64_t *taken, size_t begin, size_t end)
{
    for (size_t word = begin / WORD_BITS; word * WORD_BITS < end; word++) {
        size_t base = word * WORD_BITS;
        uint64_t mask = ~UINT64_C(0);
        if (begin > base)
            mask <<= begin - base;
        if (end < base + WORD_BITS)
            mask &= ~UINT64_C(0) >> (base + WORD_BITS - end);
        if (taken[word] & mask)
            return false;
        taken[word] |= mask;
    }
    return true;
}

static firn_rc check_cell(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                          uint64_t *taken, char what[WHAT_BYTES])
{
    struct slotted_cell cell;
    size_t skip = get_u16(page + AT_SKIP);
    if (!slotted_cell(page, page_size_bytes, slot, &cell))
        return wrong(what, "the cell of slot %u does not lie in the page", slot);
    size_t begin = (size_t)(cell.suffix.bytes - page) - SLOTTED_VALUE_AT;
    size_t end = (size_t)(cell.value.bytes - page) + cell.value.size_bytes;
    if (begin < get_u32(page + AT_HEAP_BEGIN) || end > heap_end(page, page_size_bytes))
        return wrong(what, "the cell of slot %u lies outside the cells' part of the page", slot);
    if (!cell_is_allowed(page, page_size_bytes, get_u16(page + AT_PREFIX) + cell.suffix.size_bytes,
                         cell.value.size_bytes, cell.flags))
        return wrong(what, "the cell of slot %u has a key of %zu and a value of %zu bytes", slot,
                     get_u16(page + AT_PREFIX) + cell.suffix.size_bytes, cell.value.size_bytes);
    if (!take_bytes(taken, begin, end))
        return wrong(what, "the cell of slot %u overlaps another", slot);
    if (slot < first_headed(page))
        return head_at(page, slot) == 0
                   ? FIRN_OK
                   : wrong(what, "the head of an inner node's first slot is not 0");
    struct span shared = suffix_at(page, page_size_bytes, first_headed(page));
    if (span_shared(cell.suffix, shared) < skip)
        return wrong(what, "the key of slot %u lacks the %zu bytes that all share", slot, skip);
    if (head_at(page, slot) != head_of(span_behind(cell.suffix, skip)))
        return wrong(what, "the head of slot %u is not its key's", slot);
    return FIRN_OK;
}

static firn_rc check_cells(const uint8_t *page, uint32_t page_size_bytes, char what[WHAT_BYTES])
{
    uint64_t taken[PAGE_SIZE_MAX / WORD_BITS] = {0};
    size_t heap_bytes = heap_end(page, page_size_bytes) - get_u32(page + AT_HEAP_BEGIN);
    size_t live = 0;
    for (unsigned slot = 0; slot < slotted_count(page); slot++)
        FIRN_TRY(check_cell(page, page_size_bytes, slot, taken, what));
    for (size_t word = 0; word < PAGE_SIZE_MAX / WORD_BITS; word++)
        live += (size_t)__builtin_popcountll(taken[word]);
    if (live + get_u16(page + AT_GARBAGE) != heap_bytes)
        return wrong(what, "its cells take %zu bytes and garbage %u, together they have %zu", live,
                     get_u16(page + AT_GARBAGE), heap_bytes);
    return FIRN_OK;
}

static firn_rc check_order(const uint8_t *page, uint32_t page_size_bytes, char what[WHAT_BYTES])
{
    unsigned count = slotted_count(page);
    for (unsigned slot = 1; slot < count; slot++)
        if (span_compare(suffix_at(page, page_size_bytes, slot - 1),
                         suffix_at(page, page_size_bytes, slot)) >= 0)
            return wrong(what, "slots %u and %u are out of order", slot - 1, slot);
    if (count == 0)
        return FIRN_OK;
    struct slotted_bounds bounds;
    slotted_bounds(page, page_size_bytes, &bounds);
    size_t prefix_size = get_u16(page + AT_PREFIX);
    int order =
        span_compare(suffix_at(page, page_size_bytes, 0), span_behind(bounds.lower, prefix_size));
    if (order < 0)
        return wrong(what, "the first key is below the lower fence");
    if (!bounds.upper_is_open && span_compare(suffix_at(page, page_size_bytes, count - 1),
                                              span_behind(bounds.upper, prefix_size)) >= 0)
        return wrong(what, "the last key is not below the upper fence");
    /* Last, for inside a mini-transaction this alone may be so. */
    if (order > 0 && slotted_level(page) > 0)
        return wrong(what, "the first key of an inner node is not its lower fence");
    return FIRN_OK;
}

firn_rc slotted_check(const uint8_t *page, uint32_t page_size_bytes, char what[WHAT_BYTES])
{
    FIRN_TRY(check_header(page, page_size_bytes, what));
    FIRN_TRY(check_fences(page, page_size_bytes, what));
    FIRN_TRY(check_cells(page, page_size_bytes, what));
    return check_order(page, page_size_bytes, what);
}
