/*
 * Finding a key: a search without branches over the heads, which lie side by side, then the few
 * slots of equal head by their suffixes. Every load is bounded, for the page may be changing.
 *
 * The two public functions are the engine's hottest. What is rare in them stands in functions of
 * its own, so that the common way needs few registers and no calls.
 */
#include "page/slotted_internal.h"

enum {
    WIDE_STEP = 8,  /* ways of a wide step */
    WIDE_LEAST = 32 /* so many slots are worth one */
};

/* 1 if a slot's head is below the one given or, with `equal`, at it; else 0. */
static inline size_t is_below(const uint8_t *page, size_t slot, uint32_t head, bool equal)
{
    uint32_t other = head_at(page, slot);
    return equal ? other <= head : other < head;
}

/*
 * The first slot of [from, count) whose head is at or above the one given (with `equal`: above it);
 * the count if none is.
 *
 * While many are left, a step compares with seven of them at once and leaves an eighth: loads that
 * do not wait for each other cost one cache miss together where halving costs one each. Results
 * are added and multiplied, never branched upon: with random keys a branch would be mispredicted
 * every other time.
 */
static inline unsigned heads_below(const uint8_t *page, unsigned from, unsigned count,
                                   uint32_t head, bool equal)
{
    size_t base = from;
    size_t left = count - from;
    if (count <= from)
        return count;
    while (left >= WIDE_LEAST) {
        size_t step = left / WIDE_STEP;
        size_t below = 0;
        for (size_t way = 1; way < WIDE_STEP; way++)
            below += is_below(page, base + way * step - 1, head, equal);
        base += below * step;
        left -= (WIDE_STEP - 1) * step;
    }
    while (left > 1) {
        size_t half = left / 2;
        base += is_below(page, base + half - 1, head, equal) * half;
        left -= half;
    }
    return (unsigned)(base + is_below(page, base, head, equal));
}

static inline int compare_numbers(uint64_t left, uint64_t right)
{
    if (left == right)
        return 0;
    return left < right ? -1 : 1;
}

/* memcmp for what is mostly short: a call costs more than two or three words. The last word may
 * overlap the one before it, which was equal. */
static inline int compare_bytes(const uint8_t *left, const uint8_t *right, size_t size)
{
    if (size >= 8) {
        for (size_t at = 0; at + 8 < size; at += 8) {
            if (get_u64(left + at) != get_u64(right + at))
                return compare_numbers(get_be64(left + at), get_be64(right + at));
        }
        return compare_numbers(get_be64(left + size - 8), get_be64(right + size - 8));
    }
    if (size >= 4)
        return compare_numbers((uint64_t)get_be32(left) << 32 | get_be32(left + size - 4),
                               (uint64_t)get_be32(right) << 32 | get_be32(right + size - 4));
    for (size_t at = 0; at < size; at++)
        if (left[at] != right[at])
            return left[at] < right[at] ? -1 : 1;
    return 0;
}

static inline int compare_spans(struct span left, struct span right)
{
    size_t shared = left.size_bytes < right.size_bytes ? left.size_bytes : right.size_bytes;
    int order = compare_bytes(left.bytes, right.bytes, shared);
    if (order != 0)
        return order;
    return (left.size_bytes > right.size_bytes) - (left.size_bytes < right.size_bytes);
}

/* Compare a slot's key, behind the prefix and what all suffixes share, with another. */
static inline int compare_slot(const uint8_t *page, uint32_t page_size_bytes, unsigned slot,
                               size_t skip, struct span key)
{
    return compare_spans(span_behind(suffix_at(page, page_size_bytes, slot), skip), key);
}

/*
 * Compare a key, behind the prefix, with what all suffixes that have heads share, the given slot's
 * among them: below 0 if the key is below all of them, above 0 if it is above all. Where it is 0,
 * the key has the shared bytes.
 */
static __attribute__((noinline)) int compare_shared(const uint8_t *page, uint32_t page_size_bytes,
                                                    unsigned slot, size_t skip, struct span key)
{
    struct span shared = suffix_at(page, page_size_bytes, slot);
    if (shared.size_bytes < skip)
        return -1; /* the page is changing */
    shared.size_bytes = skip;
    if (key.size_bytes > skip)
        key.size_bytes = skip;
    return compare_spans(key, shared);
}

/* What a search by suffixes needs. */
struct probe {
    const uint8_t *page;
    uint32_t page_size_bytes;
    uint32_t head;
    size_t skip;
    struct span key; /* behind prefix and skip */
};

/* The first slot of [from, to) whose key is at or above (`equal` false: above) that of the probe;
 * `to` if none is. */
static __attribute__((noinline)) unsigned search_suffixes(const struct probe *probe, unsigned from,
                                                          unsigned to, bool equal)
{
    while (from < to) {
        unsigned middle = from + (to - from) / 2;
        uint32_t head = head_at(probe->page, middle);
        int order = (head > probe->head) - (head < probe->head);
        if (order == 0)
            order =
                compare_slot(probe->page, probe->page_size_bytes, middle, probe->skip, probe->key);
        if (order < 0 || (order == 0 && !equal))
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

bool slotted_search(const uint8_t *page, uint32_t page_size_bytes, struct span key, unsigned *slot)
{
    unsigned count = bounded_count(page, page_size_bytes);
    unsigned headed = first_headed(page);
    size_t skip = get_u16_once(page + AT_SKIP);
    key = span_behind(key, get_u16_once(page + AT_PREFIX));
    if (headed > 0) { /* readers rarely search inner nodes for a key; they want a child */
        int order = count > 0 ? compare_slot(page, page_size_bytes, 0, 0, key) : 1;
        if (order >= 0) {
            *slot = 0;
            return count > 0 && order == 0;
        }
    }
    if (skip != 0 && count > headed) {
        int side = compare_shared(page, page_size_bytes, headed, skip, key);
        if (side != 0) {
            *slot = side < 0 ? headed : count;
            return false;
        }
        key = span_behind(key, skip);
    }
    uint32_t head = head_of(key);
    unsigned first = heads_below(page, headed, count, head, false);
    *slot = first;
    if (first == count || head_at(page, first) != head)
        return false;
    int order = compare_slot(page, page_size_bytes, first, skip, key);
    if (order >= 0)
        return order == 0;
    /* Several keys have this head. */
    struct probe probe = {page, page_size_bytes, head, skip, key};
    first = search_suffixes(&probe, first + 1, count, true);
    *slot = first;
    return first < count && head_at(page, first) == head &&
           compare_slot(page, page_size_bytes, first, skip, key) == 0;
}

uint32_t slotted_child(const uint8_t *page, uint32_t page_size_bytes, struct span key,
                       unsigned *slot)
{
    unsigned behind = bounded_count(page, page_size_bytes);
    size_t skip = get_u16_once(page + AT_SKIP);
    int side = 0;
    key = span_behind(key, get_u16_once(page + AT_PREFIX));
    if (skip != 0 && behind > 1) {
        side = compare_shared(page, page_size_bytes, 1, skip, key);
        key = span_behind(key, skip);
    }
    if (side < 0) {
        behind = 1;
    } else if (side == 0) {
        /* The first slot's head is 0, at or below any. */
        uint32_t head = head_of(key);
        behind = heads_below(page, 0, behind, head, true);
        if (behind > 1 && head_at(page, behind - 1) == head &&
            compare_slot(page, page_size_bytes, behind - 1, skip, key) > 0) {
            /* Several keys have this head, or one that goes on above this one. */
            struct probe probe = {page, page_size_bytes, head, skip, key};
            behind = search_suffixes(&probe, 1, behind - 1, false);
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
