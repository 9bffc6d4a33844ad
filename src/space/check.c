/*
 * Judging: what the maps say, and whether it can be true.
 */
#include "space/space_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- Walking the maps ---- */

/** A walk over the extents of a tablespace; map pages are looked at as copies. */
struct walk {
    struct space_set *set;
    struct space *space;
    struct space_head head;
    uint8_t *map; /* a copy */
};

static firn_rc walk_open(struct space_set *set, uint32_t space, struct walk *walk)
{
    *walk = (struct walk){.set = set};
    FIRN_TRY(lookup_require(set, space, &walk->space));
    FIRN_TRY(head_load(set, walk->space, &walk->head));
    walk->map = memory_alloc(set->options.page_size_bytes);
    if (walk->map == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a map page");
    return FIRN_OK;
}

/** Fix a map page to look at it. */
static firn_rc fix_map(struct space_set *set, struct space *space, uint32_t number,
                       struct buffer_frame **frame)
{
    uint32_t page_no = map_page_no(set->options.page_size_bytes, number);
    FIRN_TRY(buffer_fix(set->pool, page_id_of(space_id(space), page_no), BUFFER_SHARED,
                        BUFFER_HINT_SCAN, frame));
    const uint8_t *map = buffer_page(set->pool, *frame);
    if (page_type(map) == PAGE_TYPE_MAP && get_u32(map + AT_MAP_NUMBER) == number)
        return FIRN_OK;
    buffer_unfix(set->pool, *frame, BUFFER_SHARED);
    return rc_raise(FIRN_E_CORRUPT, "page %u of %s ought to be map %u of its extents", page_no,
                    space->path, number);
}

static firn_rc walk_load_map(struct walk *walk, uint32_t number)
{
    struct space_set *set = walk->set;
    struct buffer_frame *frame;
    FIRN_TRY(fix_map(set, walk->space, number, &frame));
    memcpy(walk->map, buffer_page(set->pool, frame), set->options.page_size_bytes);
    buffer_unfix(set->pool, frame, BUFFER_SHARED);
    return FIRN_OK;
}

/** Whose a page in a shared extent is stands in it. */
static uint64_t owner_in_page(const struct walk *walk, uint32_t page_no)
{
    struct buffer_frame *frame;
    struct buffer_pool *pool = walk->set->pool;
    uint64_t owner = SPACE_OWNER_UNKNOWN;
    if (page_is_own(walk->set->options.page_size_bytes, page_no))
        return 0;
    if (buffer_fix(pool, page_id_of(space_id(walk->space), page_no), BUFFER_SHARED,
                   BUFFER_HINT_SCAN, &frame) != FIRN_OK)
        return owner;
    const uint8_t *page = buffer_page(pool, frame);
    enum page_type type = page_type(page);
    if (type == PAGE_TYPE_INDEX || type == PAGE_TYPE_BLOB || type == PAGE_TYPE_UNDO ||
        type == PAGE_TYPE_UNDO_DIRECTORY)
        owner = get_u64(page + PAGE_HEADER_BYTES);
    else if (type == PAGE_TYPE_LIMBO)
        owner = UINT64_MAX;
    buffer_unfix(pool, frame, BUFFER_SHARED);
    return owner;
}

/* ---- Telling ---- */

static firn_rc visit_extent(struct walk *walk, uint32_t extent, struct descriptor descriptor,
                            space_page_visit *visit, void *context)
{
    for (uint64_t bits = descriptor.bitmap; bits != 0; bits &= bits - 1) {
        uint32_t page_no = extent * SPACE_EXTENT_PAGES + (uint32_t)__builtin_ctzll(bits);
        uint64_t owner = descriptor.owner != 0 ? descriptor.owner : owner_in_page(walk, page_no);
        FIRN_TRY(visit(page_no, owner, context));
    }
    return FIRN_OK;
}

firn_rc space_each_page(struct space_set *set, uint32_t space, space_page_visit *visit,
                        void *context)
{
    struct walk walk;
    uint32_t span = map_extents(set->options.page_size_bytes);
    firn_rc rc;
    FIRN_TRY_GOTO(walk_open(set, space, &walk), out);
    for (uint32_t extent = 0; extent < walk.head.extents; extent++) {
        if (extent % span == 0)
            FIRN_TRY_GOTO(walk_load_map(&walk, extent / span), out);
        FIRN_TRY_GOTO(
            visit_extent(&walk, extent, descriptor_get(walk.map, extent % span), visit, context),
            out);
    }
out:
    memory_free(walk.map);
    return rc;
}

firn_rc space_has_page(struct space_set *set, uint32_t space, uint32_t page_no, bool *has)
{
    uint32_t span = map_extents(set->options.page_size_bytes);
    uint32_t extent = page_no / SPACE_EXTENT_PAGES;
    struct space *found;
    struct space_head head;
    struct buffer_frame *frame;
    FIRN_TRY(lookup_require(set, space, &found));
    FIRN_TRY(head_load(set, found, &head));
    if (extent >= head.extents) {
        *has = false;
        return FIRN_OK;
    }
    FIRN_TRY(fix_map(set, found, extent / span, &frame));
    struct descriptor descriptor = descriptor_get(buffer_page(set->pool, frame), extent % span);
    *has = descriptor.bitmap >> page_no % SPACE_EXTENT_PAGES & 1;
    buffer_unfix(set->pool, frame, BUFFER_SHARED);
    return FIRN_OK;
}

/* ---- Checking ---- */

struct check {
    struct walk walk;
    finding_report *report;
    void *context;
    uint64_t problems;
    struct space_head counted;
};

static void tell(struct check *check, uint32_t page_no, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** @param page_no  the page that what is wrong stands in */
static void tell(struct check *check, uint32_t page_no, const char *format, ...)
{
    char what[512];
    va_list arguments;
    struct finding where = {
        .severity = FINDING_DAMAGE,
        .file = check->walk.space->path,
        .page = page_no,
        .offset = (uint64_t)page_no * check->walk.set->options.page_size_bytes,
    };
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    check->problems++;
    finding_tell(check->report, check->context, where,
                 "page %u of %s: %s; dump what can still be "
                 "read and load it anew, or restore a backup",
                 page_no, where.file, what);
}

/** Tell what is wrong with an extent, in its map. */
#define TELL_EXTENT(check, extent, ...) tell(check, map_of(check, extent), __VA_ARGS__)

static uint32_t map_of(const struct check *check, uint32_t extent)
{
    uint32_t page_size = check->walk.set->options.page_size_bytes;
    return map_page_no(page_size, extent / map_extents(page_size));
}

/** Pages of a shared extent must say whose they are. */
static void check_shared_pages(struct check *check, uint32_t extent, uint64_t bitmap)
{
    for (uint64_t bits = bitmap; bits != 0; bits &= bits - 1) {
        uint32_t page_no = extent * SPACE_EXTENT_PAGES + (uint32_t)__builtin_ctzll(bits);
        if (owner_in_page(&check->walk, page_no) == SPACE_OWNER_UNKNOWN)
            tell(check, page_no, "it is allocated, but it is no page of an index");
    }
}

static void check_extent(struct check *check, uint32_t extent, struct descriptor descriptor)
{
    struct space_head *counted = &check->counted;
    uint32_t span = map_extents(check->walk.set->options.page_size_bytes);
    uint64_t mask = extent_mask(extent, check->walk.head.pages);
    uint64_t needed = extent == 0 ? 3 : extent % span == 0 ? 2 : 0;
    counted->used += count_bits(descriptor.bitmap);
    if ((descriptor.bitmap & ~mask) != 0)
        TELL_EXTENT(check, extent, "extent %u has pages behind the end of the file", extent);
    if ((descriptor.bitmap & needed) != needed || (needed != 0 && descriptor.owner != 0))
        TELL_EXTENT(check, extent,
                    "extent %u, in which a map page lies, does not have it allocated", extent);
    if (descriptor.owner != 0 && descriptor.bitmap == 0)
        TELL_EXTENT(check, extent, "extent %u is index %llu's without a page of it being used",
                    extent, (unsigned long long)descriptor.owner);
    if (descriptor_is_free(descriptor))
        counted->free_extents++;
    if (descriptor_is_shared(descriptor)) {
        counted->shared_free += count_bits(~descriptor.bitmap & mask);
        check_shared_pages(check, extent, descriptor.bitmap);
    }
}

/** Extents that were never used have nothing in the map. */
static void check_untouched(struct check *check, uint32_t from)
{
    uint32_t span = map_extents(check->walk.set->options.page_size_bytes);
    for (uint32_t local = from % span; from % span != 0 && local < span; local++)
        if (!descriptor_is_free(descriptor_get(check->walk.map, local)))
            TELL_EXTENT(check, from, "extent %u was never used, but its map has something of it",
                        from - from % span + local);
}

static void check_counter(struct check *check, const char *what, uint32_t said, uint32_t counted)
{
    if (said != counted)
        tell(check, 0, "it counts %u %s, but there are %u", said, what, counted);
}

static firn_rc check_maps(struct check *check)
{
    const struct space_head *head = &check->walk.head;
    uint32_t span = map_extents(check->walk.set->options.page_size_bytes);
    bool complete = true;
    for (uint32_t extent = 0; extent < head->extents; extent++) {
        if (extent % span == 0) {
            firn_rc rc = walk_load_map(&check->walk, extent / span);
            if (rc == FIRN_E_NOMEM)
                return rc;
            if (rc != FIRN_OK) {
                TELL_EXTENT(check, extent, "%s", firn_error_text());
                complete = false;
                extent += span - 1;
                continue;
            }
        }
        check_extent(check, extent, descriptor_get(check->walk.map, extent % span));
    }
    if (!complete)
        return FIRN_OK; /* nothing to hold the counters against */
    check_untouched(check, head->extents);
    check_counter(check, "pages in use", head->used, check->counted.used);
    check_counter(check, "free extents", head->free_extents, check->counted.free_extents);
    check_counter(check, "free pages in shared extents", head->shared_free,
                  check->counted.shared_free);
    return FIRN_OK;
}

firn_rc space_check(struct space_set *set, uint32_t space, finding_report *report, void *context)
{
    struct check check = {.report = report, .context = context};
    firn_rc rc = walk_open(set, space, &check.walk);
    if (check.walk.space == NULL || rc == FIRN_E_NOMEM)
        goto out;
    uint32_t file_pages = atomic_load_explicit(&check.walk.space->file_pages, memory_order_acquire);
    if (rc != FIRN_OK) {
        tell(&check, 0, "%s", firn_error_text());
    } else if (!head_is_sound(&check.walk.head)) {
        tell(&check, 0, "what it counts cannot be");
    } else {
        if (file_pages < check.walk.head.pages)
            tell(&check, 0, "the file has %u pages, but its first one says %u", file_pages,
                 check.walk.head.pages);
        rc = check_maps(&check);
    }
    if (check.problems > 0)
        rc = FIRN_E_CORRUPT;
out:
    memory_free(check.walk.map);
    return rc;
}
