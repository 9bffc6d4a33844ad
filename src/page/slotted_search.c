/*
 * Finding a key: a binary search without branches over the heads, which lie side by side, then the
 * few slots of equal head by their suffixes. Every load is bounded, for the page may be changing.
 */
#include "page/slotted_internal.h"

/* What a search knows when it begins. */
struct probe {
    const uint8_t *page;
    uint32_t page_size_bytes;
    unsigned count;
    size_t skip;     /* of suffixes: what the page's share beside the prefix */
    struct span key; /* behind prefix and skip */
    uint32_t head;
};

static inline uint32_t head_at(const uint8_t *page, size_t slot)
{
    return get_u32(page + SLOTTED_SLOTS_AT + slot * SLOTTED_SLOT_BYTES);
}

/*
 * The number of slots whose head is below the one given, or (`equal` true) at or below it. The
 * comparison's result is multiplied rather than branched upon: with random keys a branch would be
 * mispredicted every other time.
 */
static inline unsigned heads_below(const uint8_t *page, unsigned count, uint32_t head, bool equal)
{
    size_t base = 0;
    size_t left = count;
    if (count == 0)
        return 0;
    while (left > 1) {
        size_t half = left / 2;
        uint32_t middle = head_at(page, base + half - 1);
        base += (size_t)(equal ? middle <= head : middle < head) * half;
        left -= half;
    }
    uint32_t last = head_at(page, base);
    return (unsigned)(base + (equal ? last <= head : last < head));
}

/*
 * Begin a search. The bytes that all suffixes share, skipped by the heads, decide by themselves
 * where the key does not begin with them too.
 *
 * @return 0 to go on; below 0 if the key is below all of the page, above 0 if it is above all
 */
static inline int probe_begin(struct probe *probe, const uint8_t *page, uint32_t page_size_bytes,
                              struct span key)
{
    probe->page = page;
    probe->page_size_bytes = page_size_bytes;
    probe->count = bounded_count(page, page_size_bytes);
    probe->skip = get_u16_once(page + AT_SKIP);
    probe->key = span_behind(key, get_u16_once(page + AT_PREFIX));
    if (probe->skip != 0 && probe->count != 0) {
        struct span shared = suffix_at(page, page_size_bytes, 0);
        if (shared.size_bytes > probe->skip)
            shared.size_bytes = probe->skip;
        struct span begin = probe->key;
        if (begin.size_bytes > shared.size_bytes)
            begin.size_bytes = shared.size_bytes;
        int order = span_compare(begin, shared);
        if (order != 0)
            return order;
        probe->key = span_behind(probe->key, shared.size_bytes);
    }
    probe->head = head_of(probe->key);
    return 0;
}

/* Compare a slot's key with that of the search: below, equal to or above 0. */
static inline int compare_slot(const struct probe *probe, unsigned slot)
{
    struct span suffix = suffix_at(probe->page, probe->page_size_bytes, slot);
    return span_compare(span_behind(suffix, probe->skip), probe->key);
}

/* The first slot of [from, to) whose key is at or above that of the search; `to` if none is. */
static unsigned first_at_or_above(const struct probe *probe, unsigned from, unsigned to)
{
    while (from < to) {
        unsigned middle = from + (to - from) / 2;
        if (compare_slot(probe, middle) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

bool slotted_search(const uint8_t *page, uint32_t page_size_bytes, struct span key, unsigned *slot)
{
    struct probe probe;
    int side = probe_begin(&probe, page, page_size_bytes, key);
    if (side != 0) {
        *slot = side < 0 ? 0 : probe.count;
        return false;
    }
    unsigned first = heads_below(page, probe.count, probe.head, false);
    *slot = first;
    if (first == probe.count || head_at(page, first) != probe.head)
        return false;
    int order = compare_slot(&probe, first);
    if (order >= 0)
        return order == 0;
    unsigned behind = heads_below(page, probe.count, probe.head, true);
    *slot = first_at_or_above(&probe, first + 1, behind);
    return *slot < behind && compare_slot(&probe, *slot) == 0;
}

uint32_t slotted_child(const uint8_t *page, uint32_t page_size_bytes, struct span key,
                       unsigned *slot)
{
    struct probe probe;
    int side = probe_begin(&probe, page, page_size_bytes, key);
    unsigned behind = side < 0 ? 0 : probe.count;
    if (side == 0) {
        behind = heads_below(page, probe.count, probe.head, true);
        if (behind > 0 && head_at(page, behind - 1) == probe.head &&
            compare_slot(&probe, behind - 1) > 0) {
            unsigned first = heads_below(page, probe.count, probe.head, false);
            unsigned found = first_at_or_above(&probe, first, behind - 1);
            behind = found + (compare_slot(&probe, found) == 0);
        }
    }
    *slot = behind > 0 ? behind - 1 : 0;
    return slotted_child_at(page, page_size_bytes, *slot);
}

uint32_t slotted_child_at(const uint8_t *page, uint32_t page_size_bytes, unsigned slot)
{
    struct slotted_cell cell;
    if (!slotted_cell(page, page_size_bytes, slot, &cell) || cell.value.size_bytes != CHILD_BYTES)
        return PAGE_NONE;
    return get_u32(cell.value.bytes);
}
