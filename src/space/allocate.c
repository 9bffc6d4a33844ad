/*
 * Giving pages out and taking them back.
 *
 * Page 0 is latched exclusively first, and kept to the end of the mini-transaction. So within a
 * tablespace one mini-transaction at a time allocates and frees, whatever map pages it needs; and a
 * page that one has freed cannot be allocated by another before the first has committed.
 */
#include "space/space_internal.h"

#include "base/check.h"

static void store_descriptor(struct allocation *allocation, struct mtr_page *map, uint32_t extent,
                             struct descriptor before, struct descriptor after)
{
    uint32_t page_size_bytes = allocation->set->options.page_size_bytes;
    size_t offset =
        AT_DESCRIPTORS + (size_t)(extent % map_extents(page_size_bytes)) * DESCRIPTOR_BYTES;
    uint8_t bytes[DESCRIPTOR_BYTES];
    put_u64(bytes, after.owner);
    put_u64(bytes + 8, after.bitmap);
    if (after.owner != before.owner)
        mtr_write(allocation->mtr, map, offset, span_of(bytes, sizeof bytes));
    else
        mtr_write(allocation->mtr, map, offset + 8, span_of(bytes + 8, 8));
    extent_hint_change(allocation->space, page_size_bytes, extent, before, after);
}

static firn_rc begin(struct allocation *allocation, uint32_t space)
{
    FIRN_TRY(lookup_require(allocation->set, space, &allocation->space));
    FIRN_TRY(mtr_fix(allocation->mtr, page_id_of(space, 0), &allocation->page0));
    allocation->head = head_get(allocation->page0->bytes);
    allocation->hint = extent_owner_hint(allocation->space, allocation->owner);
    return FIRN_OK;
}

/* ---- Allocating ---- */

/** @return how many pages the file must have for the allocation to find any */
static uint64_t pages_needed(const struct allocation *allocation)
{
    const struct space_head *head = &allocation->head;
    bool single = extent_is_shared_for(allocation);
    if (single && head->pages < SPACE_EXTENT_PAGES)
        return head->pages + UINT64_C(1);
    bool first_of_map = head->extents % map_extents(allocation->set->options.page_size_bytes) == 0;
    return ((uint64_t)head->extents + 1 + (first_of_map && !single)) * SPACE_EXTENT_PAGES;
}

/** Grow the file, under page 0's latch: nobody has seen to it ahead of demand. */
static firn_rc grow_now(struct allocation *allocation)
{
    struct space *space = allocation->space;
    uint64_t needed = pages_needed(allocation);
    if (needed > SPACE_PAGES_MAX)
        return grow_raise_largest(space);
    firn_rc rc = grow_file(allocation->set, space,
                           grow_target(allocation->set, allocation->head.pages, (uint32_t)needed));
    if (rc == FIRN_E_NOSPACE)
        rc = grow_file(allocation->set, space, (uint32_t)needed);
    FIRN_TRY(rc);
    head_grow(&allocation->head, atomic_load_explicit(&space->claimed_pages, memory_order_relaxed));
    return FIRN_OK;
}

static firn_rc choose(struct allocation *allocation, struct pick *pick)
{
    firn_rc rc = extent_pick(allocation, pick);
    if (rc != FIRN_E_NOT_FOUND)
        return rc;
    firn_rc grown = grow_now(allocation);
    rc = grown == FIRN_OK ? extent_pick(allocation, pick) : FIRN_E_NOT_FOUND;
    if (rc == FIRN_E_NOT_FOUND)
        rc = extent_pick_any(allocation, pick);
    if (rc != FIRN_E_NOT_FOUND)
        return rc;
    if (grown != FIRN_OK)
        return grown; /* its sentence is the last that was raised */
    return rc_raise(FIRN_E_CORRUPT,
                    "page 0 and the maps of %s disagree about its free pages; check it, and copy "
                    "its content to a new one",
                    allocation->space->path);
}

/** Make the map page that describes the extents from the high-water mark on. */
static void make_map(struct allocation *allocation, struct mtr_page *map)
{
    uint32_t page_size_bytes = allocation->set->options.page_size_bytes;
    uint32_t extent = allocation->head.extents;
    uint8_t number[4];
    put_u32(number, extent / map_extents(page_size_bytes));
    mtr_page_init(allocation->mtr, map, PAGE_TYPE_MAP);
    mtr_write(allocation->mtr, map, AT_MAP_NUMBER, span_of(number, sizeof number));
    store_descriptor(allocation, map, extent, (struct descriptor){0, 0}, (struct descriptor){0, 2});
    allocation->head.extents++;
    allocation->head.used++;
    allocation->head.shared_free += SPACE_EXTENT_PAGES - 1;
}

/** An extent that was free becomes the index's or a shared one. */
static void take_extent(struct allocation *allocation, uint32_t extent,
                        struct descriptor *descriptor)
{
    if (extent >= allocation->head.extents)
        allocation->head.extents = extent + 1;
    else
        allocation->head.free_extents--;
    if (extent_is_shared_for(allocation))
        allocation->head.shared_free += SPACE_EXTENT_PAGES;
    else
        descriptor->owner = allocation->owner;
}

/** @return the bits of the run of ones that begins with a bit, count at most */
static uint64_t run_at(uint64_t bits, unsigned first, uint32_t count)
{
    uint64_t ended = ~(bits >> first);
    unsigned length = ended == 0 ? 64 : (unsigned)__builtin_ctzll(ended);
    if (length > count)
        length = count;
    return (length == 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1) << first;
}

/**
 * Choose free pages of an extent that lie together: the first run that is long enough, else the
 * longest.
 */
static uint64_t choose_run(uint64_t free_bits, uint32_t count)
{
    uint64_t best = 0;
    while (free_bits != 0 && count_bits(best) < count) {
        unsigned first = (unsigned)__builtin_ctzll(free_bits);
        uint64_t run = run_at(free_bits, first, 64);
        free_bits &= ~run;
        run = run_at(run, first, count);
        if (count_bits(run) > count_bits(best))
            best = run;
    }
    return best;
}

/** Those behind the page that they should be near, if there are any free behind it. */
static uint64_t choose_pages(const struct allocation *allocation, uint32_t extent,
                             uint64_t free_bits)
{
    uint64_t behind = 0;
    if (allocation->near != PAGE_NONE && allocation->near / SPACE_EXTENT_PAGES == extent)
        behind = free_bits & UINT64_MAX << allocation->near % SPACE_EXTENT_PAGES;
    return choose_run(behind != 0 ? behind : free_bits, allocation->count);
}

static void take_pages(struct allocation *allocation, const struct pick *pick, uint32_t *first_page,
                       uint32_t *got)
{
    uint32_t span = map_extents(allocation->set->options.page_size_bytes);
    if (pick->first_of_map)
        make_map(allocation, pick->map);
    struct descriptor before = descriptor_get(pick->map->bytes, pick->extent % span);
    struct descriptor after = before;
    if (descriptor_is_free(before))
        take_extent(allocation, pick->extent, &after);
    uint64_t run = choose_pages(allocation, pick->extent,
                                ~before.bitmap & extent_mask(pick->extent, allocation->head.pages));
    after.bitmap |= run;
    uint32_t count = count_bits(run);
    allocation->head.used += count;
    if (after.owner == 0) {
        allocation->head.shared_free -= count;
        allocation->hint->singles += count;
    } else {
        allocation->hint->extent = pick->extent;
    }
    store_descriptor(allocation, pick->map, pick->extent, before, after);
    head_store(allocation->set, allocation->space, allocation->mtr, allocation->page0,
               &allocation->head);
    *first_page = pick->extent * SPACE_EXTENT_PAGES + (uint32_t)__builtin_ctzll(run);
    *got = count;
}

firn_rc space_allocate_run(struct space_set *set, struct mtr *mtr, uint32_t space, uint64_t owner,
                           uint32_t near, uint32_t count, uint32_t *first_page, uint32_t *got)
{
    ASSERT(owner != 0 && count > 0);
    struct allocation allocation = {
        .set = set, .mtr = mtr, .owner = owner, .near = near, .count = count};
    struct pick pick;
    FIRN_TRY(mtr_reserve(mtr, SPACE_LOG_MAX_BYTES));
    FIRN_TRY(begin(&allocation, space));
    FIRN_TRY(choose(&allocation, &pick));
    take_pages(&allocation, &pick, first_page, got);
    return FIRN_OK;
}

firn_rc space_allocate(struct space_set *set, struct mtr *mtr, uint32_t space, uint64_t owner,
                       uint32_t near, uint32_t *page_no)
{
    uint32_t got;
    return space_allocate_run(set, mtr, space, owner, near, 1, page_no, &got);
}

/* ---- Giving back ---- */

/** Clear bits of a descriptor; what page 0 counts is kept in allocation->head. */
static void give_back(struct allocation *allocation, struct mtr_page *map, uint32_t extent,
                      uint64_t bits)
{
    uint32_t span = map_extents(allocation->set->options.page_size_bytes);
    struct descriptor before = descriptor_get(map->bytes, extent % span);
    struct descriptor after = {before.owner, before.bitmap & ~bits};
    uint32_t count = count_bits(bits);
    ENSURE((before.bitmap & bits) == bits);
    allocation->head.used -= count;
    if (before.owner == 0) {
        allocation->head.shared_free += count;
        uint32_t singles = allocation->hint->singles;
        allocation->hint->singles = singles > count ? singles - count : 0;
    }
    if (after.bitmap == 0) {
        if (before.owner == 0)
            allocation->head.shared_free -= SPACE_EXTENT_PAGES;
        allocation->head.free_extents++;
        after.owner = 0;
    }
    store_descriptor(allocation, map, extent, before, after);
    head_store(allocation->set, allocation->space, allocation->mtr, allocation->page0,
               &allocation->head);
}

firn_rc space_free(struct space_set *set, struct mtr *mtr, struct mtr_page *page, uint64_t owner)
{
    uint32_t page_no = page_id_number(page->page_id);
    uint32_t extent = page_no / SPACE_EXTENT_PAGES;
    uint64_t bit = UINT64_C(1) << page_no % SPACE_EXTENT_PAGES;
    struct allocation allocation = {.set = set, .mtr = mtr, .owner = owner};
    struct mtr_page *map;
    FIRN_TRY(mtr_reserve(mtr, SPACE_LOG_MAX_BYTES));
    FIRN_TRY(begin(&allocation, page_id_space(page->page_id)));
    FIRN_TRY(extent_fix_map(set, mtr, allocation.space, extent, &map));
    struct descriptor descriptor =
        descriptor_get(map->bytes, extent % map_extents(set->options.page_size_bytes));
    if ((descriptor.bitmap & bit) == 0 || (descriptor.owner != 0 && descriptor.owner != owner) ||
        page_is_own(set->options.page_size_bytes, page_no))
        return rc_raise(FIRN_E_CORRUPT,
                        "page %u of %s is to be freed by index %llu, but the map says that it is "
                        "not that index's; check the environment",
                        page_no, allocation.space->path, (unsigned long long)owner);
    mtr_page_free(mtr, page);
    give_back(&allocation, map, extent, bit);
    return FIRN_OK;
}

void space_unallocate(struct space_set *set, struct mtr *mtr, uint32_t space, uint64_t owner,
                      uint32_t first_page, uint32_t count)
{
    uint32_t extent = first_page / SPACE_EXTENT_PAGES;
    struct allocation allocation = {.set = set, .mtr = mtr, .owner = owner};
    struct mtr_page *map;
    /* All is latched since the allocation, and its log counts as the allocation's. */
    ENSURE(begin(&allocation, space) == FIRN_OK);
    ENSURE(extent_fix_map(set, mtr, allocation.space, extent, &map) == FIRN_OK);
    uint64_t run = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
    give_back(&allocation, map, extent, run << first_page % SPACE_EXTENT_PAGES);
}

/* ---- What else page 0 tells ---- */

static firn_rc set_page_of(struct space_set *set, struct mtr *mtr, uint32_t space, size_t offset,
                           uint32_t page_no)
{
    struct space *found;
    struct mtr_page *page0;
    uint8_t bytes[4];
    FIRN_TRY(lookup_require(set, space, &found));
    FIRN_TRY(mtr_reserve(mtr, mtr_cost(2 + sizeof bytes)));
    FIRN_TRY(mtr_fix(mtr, page_id_of(space, 0), &page0));
    put_u32(bytes, page_no);
    mtr_write(mtr, page0, offset, span_of(bytes, sizeof bytes));
    return FIRN_OK;
}

firn_rc space_set_entry(struct space_set *set, struct mtr *mtr, uint32_t space, uint32_t page_no)
{
    return set_page_of(set, mtr, space, AT_ENTRY, page_no);
}

firn_rc space_set_limbo(struct space_set *set, struct mtr *mtr, uint32_t space, uint32_t page_no)
{
    return set_page_of(set, mtr, space, AT_LIMBO, page_no);
}

firn_rc space_entry(struct space_set *set, uint32_t space, uint32_t *page_no)
{
    struct space *found;
    struct space_head head;
    FIRN_TRY(lookup_require(set, space, &found));
    FIRN_TRY(head_load(set, found, &head));
    *page_no = head.entry;
    return FIRN_OK;
}

firn_rc space_limbo(struct space_set *set, struct mtr *mtr, uint32_t space, uint32_t *page_no)
{
    struct space *found;
    struct space_head head;
    FIRN_TRY(lookup_require(set, space, &found));
    if (mtr == NULL) {
        FIRN_TRY(head_load(set, found, &head));
    } else {
        struct mtr_page *page0;
        FIRN_TRY(mtr_fix(mtr, page_id_of(space, 0), &page0));
        head = head_get(page0->bytes);
    }
    *page_no = head.limbo;
    return FIRN_OK;
}
