/*
 * Which extent a page is taken from.
 *
 * All of this runs under the exclusive latch on page 0, so that one mini-transaction at a time
 * looks for room in a tablespace, and map pages can be latched in any order.
 */
#include "space/space_internal.h"

#include "base/check.h"
#include "base/memory.h"

enum {
    /* An index's own extent elsewhere is worth going back to when it has so many free pages. */
    OWN_FREE_MIN = 8,
    /* Map pages nobody has looked at yet, of which one search looks at no more. */
    UNKNOWN_LOOKS_MAX = 1,
};

/* ---- Hints ---- */

void extent_forget_hints(struct space *space)
{
    for (uint32_t i = 0; i < space->map_hint_count; i++)
        space->map_hints[i].known = false;
    space->map_cursor = 0;
    memset(space->owner_hints, 0, sizeof space->owner_hints);
    atomic_store_explicit(&space->available, 0, memory_order_relaxed);
    atomic_store_explicit(&space->ahead, UINT32_MAX, memory_order_relaxed);
    atomic_store_explicit(&space->full, false, memory_order_relaxed);
}

/** @return the hint for a map, or NULL: there is no memory for it, and the map stays unknown. */
static struct map_hint *map_hint(struct space *space, uint32_t map)
{
    if (map >= space->map_hint_count) {
        uint32_t count = (map + 1) * 2;
        struct map_hint *hints = memory_realloc(space->map_hints, (size_t)count * sizeof *hints);
        if (hints == NULL)
            return NULL;
        for (uint32_t i = space->map_hint_count; i < count; i++)
            hints[i] = (struct map_hint){0};
        space->map_hints = hints;
        space->map_hint_count = count;
    }
    return &space->map_hints[map];
}

static bool has_shared_room(struct descriptor descriptor)
{
    return descriptor_is_shared(descriptor) && descriptor.bitmap != UINT64_MAX;
}

void extent_hint_change(struct space *space, uint32_t page_size_bytes, uint32_t extent,
                        struct descriptor before, struct descriptor after)
{
    struct map_hint *hint = map_hint(space, extent / map_extents(page_size_bytes));
    if (hint == NULL || !hint->known)
        return;
    hint->free_extents =
        (uint16_t)(hint->free_extents + descriptor_is_free(after) - descriptor_is_free(before));
    hint->shared_extents =
        (uint16_t)(hint->shared_extents + has_shared_room(after) - has_shared_room(before));
}

struct owner_hint *extent_owner_hint(struct space *space, uint64_t owner)
{
    struct owner_hint *hint = &space->owner_hints[owner % OWNER_HINTS];
    if (hint->owner != owner)
        *hint = (struct owner_hint){.owner = owner, .extent = EXTENT_NONE};
    return hint;
}

/* ---- Looking at a map ---- */

firn_rc extent_fix_map(struct space_set *set, struct mtr *mtr, struct space *space, uint32_t extent,
                       struct mtr_page **map)
{
    uint32_t page_size_bytes = set->options.page_size_bytes;
    uint32_t number = extent / map_extents(page_size_bytes);
    uint32_t page_no = map_page_no(page_size_bytes, number);
    struct mtr_page *page;
    firn_rc rc = mtr_fix(mtr, page_id_of(space_id(space), page_no), &page);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s ends before page %u, a map of its extents: it was cut off; restore it "
                        "from a backup",
                        space->path, page_no);
    FIRN_TRY(rc);
    if (page_type(page->bytes) != PAGE_TYPE_MAP || get_u32(page->bytes + AT_MAP_NUMBER) != number) {
        if (!page->changed)
            mtr_drop(mtr, page);
        return rc_raise(FIRN_E_CORRUPT,
                        "page %u of %s ought to be a map of extents and is not; check the "
                        "environment and restore the file from a backup",
                        page_no, space->path);
    }
    *map = page;
    return FIRN_OK;
}

static void drop_unchanged(struct mtr *mtr, struct mtr_page *map)
{
    if (!map->changed)
        mtr_drop(mtr, map);
}

/** What is looked for. */
enum want {
    WANT_OWN,     /* an extent of the index with at least OWN_FREE_MIN free pages */
    WANT_OWN_ANY, /* with one */
    WANT_OWNED,   /* with none even */
    WANT_FREE,
    WANT_SHARED, /* with a free page */
};

static bool fits(const struct allocation *allocation, enum want want, uint32_t extent,
                 struct descriptor descriptor)
{
    uint64_t mask = extent_mask(extent, allocation->head.pages);
    unsigned room = count_bits(~descriptor.bitmap & mask);
    switch (want) {
    case WANT_OWN:
        return descriptor.owner == allocation->owner && room >= OWN_FREE_MIN;
    case WANT_OWN_ANY:
        return descriptor.owner == allocation->owner && room > 0;
    case WANT_OWNED:
        return descriptor.owner == allocation->owner;
    case WANT_FREE:
        return descriptor_is_free(descriptor) && mask == UINT64_MAX;
    case WANT_SHARED:
        return descriptor_is_shared(descriptor) && room > 0;
    }
    return false;
}

/** Find an extent in a map, from one on and round to it. @return EXTENT_NONE if there is none */
static uint32_t find_in_map(const struct allocation *allocation, const uint8_t *map_bytes,
                            uint32_t map, uint32_t from, enum want want)
{
    uint32_t span = map_extents(allocation->set->options.page_size_bytes);
    uint32_t first = map * span;
    uint32_t count = allocation->head.extents - first;
    if (count > span)
        count = span;
    uint32_t start = from >= first && from < first + count ? from - first : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t local = start + i < count ? start + i : start + i - count;
        if (fits(allocation, want, first + local, descriptor_get(map_bytes, local)))
            return first + local;
    }
    return EXTENT_NONE;
}

static void learn_map(const struct allocation *allocation, const uint8_t *map_bytes, uint32_t map)
{
    uint32_t span = map_extents(allocation->set->options.page_size_bytes);
    struct map_hint *hint = map_hint(allocation->space, map);
    if (hint == NULL)
        return;
    *hint = (struct map_hint){.known = true};
    for (uint32_t local = 0; local < span && map * span + local < allocation->head.extents;
         local++) {
        struct descriptor descriptor = descriptor_get(map_bytes, local);
        hint->free_extents = (uint16_t)(hint->free_extents + descriptor_is_free(descriptor));
        hint->shared_extents = (uint16_t)(hint->shared_extents + has_shared_room(descriptor));
    }
}

/** Look for an extent in one map. FIRN_E_NOT_FOUND, without an error text, if it has none. */
static firn_rc try_map(struct allocation *allocation, uint32_t map, uint32_t from, enum want want,
                       struct pick *pick)
{
    uint32_t span = map_extents(allocation->set->options.page_size_bytes);
    struct mtr_page *page = NULL;
    FIRN_TRY(
        extent_fix_map(allocation->set, allocation->mtr, allocation->space, map * span, &page));
    struct map_hint *hint = map_hint(allocation->space, map);
    if (hint != NULL && !hint->known)
        learn_map(allocation, page->bytes, map);
    uint32_t extent = find_in_map(allocation, page->bytes, map, from, want);
    if (extent == EXTENT_NONE) {
        drop_unchanged(allocation->mtr, page);
        return FIRN_E_NOT_FOUND;
    }
    *pick = (struct pick){.extent = extent, .map = page};
    return FIRN_OK;
}

/** Is a map worth a look? Unknown ones are, as long as there are looks left. */
static bool is_worth_a_look(struct space *space, uint32_t map, enum want want, unsigned *looks)
{
    struct map_hint *hint = map_hint(space, map);
    if (hint != NULL && hint->known && want == WANT_FREE)
        return hint->free_extents > 0;
    if (hint != NULL && hint->known && want == WANT_SHARED)
        return hint->shared_extents > 0;
    if (*looks == 0)
        return false;
    (*looks)--;
    return true;
}

/** Look in the maps, beginning where something was found last. */
static firn_rc try_all_maps(struct allocation *allocation, enum want want, unsigned looks,
                            struct pick *pick)
{
    struct space *space = allocation->space;
    uint32_t span = map_extents(allocation->set->options.page_size_bytes);
    uint32_t maps = (allocation->head.extents - 1) / span + 1;
    if ((want == WANT_FREE && allocation->head.free_extents == 0) ||
        (want == WANT_SHARED && allocation->head.shared_free == 0))
        return FIRN_E_NOT_FOUND;
    for (uint32_t i = 0; i < maps; i++) {
        uint32_t map = (space->map_cursor + i) % maps;
        if (!is_worth_a_look(space, map, want, &looks))
            continue;
        firn_rc rc = try_map(allocation, map, 0, want, pick);
        if (rc == FIRN_OK)
            space->map_cursor = map;
        if (rc != FIRN_E_NOT_FOUND)
            return rc;
    }
    return FIRN_E_NOT_FOUND;
}

/* ---- Choosing ---- */

/** Look at one extent. FIRN_E_NOT_FOUND, without an error text, if it does not fit. */
static firn_rc try_extent(struct allocation *allocation, uint32_t extent, enum want want,
                          struct pick *pick)
{
    uint32_t span = map_extents(allocation->set->options.page_size_bytes);
    struct mtr_page *page = NULL;
    if (extent >= allocation->head.extents)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(extent_fix_map(allocation->set, allocation->mtr, allocation->space, extent, &page));
    if (!fits(allocation, want, extent, descriptor_get(page->bytes, extent % span))) {
        drop_unchanged(allocation->mtr, page);
        return FIRN_E_NOT_FOUND;
    }
    *pick = (struct pick){.extent = extent, .map = page};
    return FIRN_OK;
}

/** Take the extent at the high-water mark, if the file has it. */
static firn_rc try_untouched(struct allocation *allocation, bool single, struct pick *pick)
{
    struct space_set *set = allocation->set;
    uint32_t span = map_extents(set->options.page_size_bytes);
    uint32_t extent = allocation->head.extents;
    bool first_of_map = extent % span == 0;
    /* The first extent of a map has the map page in it, so it is a shared one. */
    uint32_t target = first_of_map && !single ? extent + 1 : extent;
    if (allocation->head.pages / SPACE_EXTENT_PAGES <= target)
        return FIRN_E_NOT_FOUND;
    struct mtr_page *map;
    if (first_of_map) {
        uint32_t page_no = map_page_no(set->options.page_size_bytes, extent / span);
        FIRN_TRY(
            mtr_fix_new(allocation->mtr, page_id_of(space_id(allocation->space), page_no), &map));
    } else {
        FIRN_TRY(extent_fix_map(set, allocation->mtr, allocation->space, extent, &map));
    }
    *pick = (struct pick){.extent = target, .map = map, .first_of_map = first_of_map};
    return FIRN_OK;
}

#define RETURN_UNLESS_NOT_FOUND(expression)                                                        \
    do {                                                                                           \
        firn_rc try_rc_ = (expression);                                                            \
        if (try_rc_ != FIRN_E_NOT_FOUND)                                                           \
            return try_rc_;                                                                        \
    } while (0)

static firn_rc pick_single(struct allocation *allocation, uint32_t near_extent, struct pick *pick)
{
    uint32_t near_map = near_extent / map_extents(allocation->set->options.page_size_bytes);
    RETURN_UNLESS_NOT_FOUND(try_extent(allocation, near_extent, WANT_SHARED, pick));
    if (allocation->head.shared_free > 0) {
        RETURN_UNLESS_NOT_FOUND(try_map(allocation, near_map, near_extent, WANT_SHARED, pick));
        RETURN_UNLESS_NOT_FOUND(try_all_maps(allocation, WANT_SHARED, UNKNOWN_LOOKS_MAX, pick));
    }
    RETURN_UNLESS_NOT_FOUND(try_all_maps(allocation, WANT_FREE, UNKNOWN_LOOKS_MAX, pick));
    return try_untouched(allocation, true, pick);
}

static firn_rc pick_whole(struct allocation *allocation, uint32_t near_extent, struct pick *pick)
{
    uint32_t near_map = near_extent / map_extents(allocation->set->options.page_size_bytes);
    uint32_t last = allocation->hint->extent;
    if (last != EXTENT_NONE && last != near_extent)
        RETURN_UNLESS_NOT_FOUND(try_extent(allocation, last, WANT_OWN_ANY, pick));
    RETURN_UNLESS_NOT_FOUND(try_map(allocation, near_map, near_extent, WANT_OWN, pick));
    if (allocation->head.free_extents > 0)
        RETURN_UNLESS_NOT_FOUND(try_map(allocation, near_map, near_extent, WANT_FREE, pick));
    RETURN_UNLESS_NOT_FOUND(try_all_maps(allocation, WANT_FREE, UNKNOWN_LOOKS_MAX, pick));
    return try_untouched(allocation, false, pick);
}

/** An index that has an extent in the map at hand has had its single pages: its hint was lost when
 * the file was closed. */
static firn_rc learn_owner(struct allocation *allocation, uint32_t near_extent)
{
    struct owner_hint *hint = allocation->hint;
    struct pick pick;
    if (hint->singles > 0)
        return FIRN_OK;
    uint32_t map = near_extent / map_extents(allocation->set->options.page_size_bytes);
    firn_rc rc = try_map(allocation, map, near_extent, WANT_OWNED, &pick);
    if (rc == FIRN_OK) {
        hint->singles = SPACE_SINGLE_PAGES;
        hint->extent = pick.extent;
        drop_unchanged(allocation->mtr, pick.map);
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

bool extent_is_shared_for(const struct allocation *allocation)
{
    return allocation->hint->singles + allocation->count <= SPACE_SINGLE_PAGES;
}

firn_rc extent_pick(struct allocation *allocation, struct pick *pick)
{
    struct owner_hint *hint = allocation->hint;
    uint32_t near_extent = allocation->near / SPACE_EXTENT_PAGES;
    if (allocation->near == PAGE_NONE || near_extent >= allocation->head.extents)
        near_extent = hint->extent < allocation->head.extents ? hint->extent : 0;
    RETURN_UNLESS_NOT_FOUND(try_extent(allocation, near_extent, WANT_OWN_ANY, pick));
    FIRN_TRY(learn_owner(allocation, near_extent));
    if (extent_is_shared_for(allocation))
        return pick_single(allocation, near_extent, pick);
    return pick_whole(allocation, near_extent, pick);
}

firn_rc extent_pick_any(struct allocation *allocation, struct pick *pick)
{
    static const enum want wants[] = {WANT_OWN_ANY, WANT_SHARED, WANT_FREE};
    for (unsigned i = 0; i < ARRAY_COUNT(wants); i++)
        RETURN_UNLESS_NOT_FOUND(try_all_maps(allocation, wants[i], UINT32_MAX, pick));
    return try_untouched(allocation, true, pick);
}
