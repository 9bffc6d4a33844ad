/*
 * Where to cut a full node in two, and what to write between the halves.
 */
#include "base/check.h"
#include "page/slotted_internal.h"

/*
 * The cells of the page with the new one in its place are numbered from 0 to count; a cut gives the
 * first `left` of them to the left half.
 */
struct cut_search {
    size_t half_bytes;  /* what cells and fences may take of a half */
    size_t lower_bytes; /* the fences */
    size_t upper_bytes;
    size_t new_key_bytes; /* at most */
    size_t total_bytes;   /* of all cells */
    unsigned wanted;      /* cells to the left, 0 to cut in the middle by bytes */
};

/* Where a run of inserts wants to be cut: 0 where there is no run. */
static unsigned cut_of_run(const uint8_t *page, unsigned slot)
{
    unsigned count = slotted_count(page);
    unsigned last = get_u16(page + AT_LAST_SLOT);
    int run = (int16_t)get_u16(page + AT_RUN);
    /* The half that keeps the run's end is the one that the run goes on to fill. */
    if (run >= RUN_ENOUGH && slot == last + 1)
        return slot < count ? slot + 1 : count;
    if (run <= -RUN_ENOUGH && slot == last)
        return slot > 0 ? slot : 1;
    return 0;
}

/* How far a cut is from what is wanted; SIZE_MAX where a half would not fit. */
static size_t judge_cut(const struct cut_search *search, unsigned left, size_t left_bytes,
                        size_t right_key_bytes)
{
    size_t right_bytes = search->total_bytes - left_bytes;
    if (search->lower_bytes + left_bytes + right_key_bytes > search->half_bytes ||
        right_key_bytes + right_bytes + search->upper_bytes > search->half_bytes)
        return SIZE_MAX;
    if (search->wanted != 0)
        return left > search->wanted ? left - search->wanted : search->wanted - left;
    return left_bytes > right_bytes ? left_bytes - right_bytes : right_bytes - left_bytes;
}

struct slotted_split slotted_split_slot(const uint8_t *page, uint32_t page_size_bytes,
                                        unsigned slot, size_t cost_bytes)
{
    unsigned count = slotted_count(page);
    size_t prefix_size = get_u16(page + AT_PREFIX);
    size_t heap_bytes = heap_end(page, page_size_bytes) - get_u32(page + AT_HEAP_BEGIN) -
                        get_u16(page + AT_GARBAGE);
    ENSURE(slot <= count && count > 0 && cost_bytes >= CELL_COST);
    struct cut_search search = {
        .half_bytes = page_size_bytes - SLOTTED_SLOTS_AT,
        .lower_bytes = get_u16(page + AT_LOWER),
        .upper_bytes = get_u16(page + AT_UPPER),
        .new_key_bytes = smaller((unsigned)(prefix_size + cost_bytes - CELL_COST),
                                 (unsigned)slotted_key_max(page_size_bytes)),
        .total_bytes = heap_bytes + (size_t)count * SLOTTED_SLOT_BYTES + cost_bytes,
        .wanted = cut_of_run(page, slot),
    };
    size_t left_bytes = 0;
    size_t best = SIZE_MAX;
    unsigned best_cut = 0;
    for (unsigned cut = 0; cut <= count; cut++) {
        /* Cell `cut` is the right half's first; the fence between is no longer than its key. */
        size_t key_bytes = search.new_key_bytes;
        size_t cell_bytes = cost_bytes;
        if (cut != slot) {
            struct slotted_cell cell;
            ENSURE(slotted_cell(page, page_size_bytes, cut - (cut > slot), &cell));
            key_bytes = prefix_size + cell.suffix.size_bytes;
            cell_bytes = CELL_COST + cell.suffix.size_bytes + cell.value.size_bytes;
        }
        size_t distance = cut == 0 ? SIZE_MAX : judge_cut(&search, cut, left_bytes, key_bytes);
        if (distance < best) {
            best = distance;
            best_cut = cut;
        }
        left_bytes += cell_bytes;
    }
    ENSURE(best_cut > 0);
    bool new_goes_left = best_cut > slot;
    return (struct slotted_split){.slot = best_cut - new_goes_left, .new_goes_left = new_goes_left};
}

size_t slotted_separator(struct span left, struct span right, uint8_t *separator)
{
    size_t size_bytes = span_shared(left, right) + 1;
    ENSURE(size_bytes <= right.size_bytes);
    memcpy(separator, right.bytes, size_bytes);
    return size_bytes;
}
