#include "recovery/recovery_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { PAGES_MIN = 1024, READ_AHEAD_PAGES = 64 };

/* ---- A part's records, by page ---- */

static uint32_t slot_of(const struct applier *applier, uint64_t page_id)
{
    uint64_t hash = page_id * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t mask = applier->slot_count - 1;
    uint32_t slot = (uint32_t)(hash >> 32) & mask;
    while (applier->slots[slot] != 0 && applier->pages[applier->slots[slot] - 1].page_id != page_id)
        slot = (slot + 1) & mask;
    return slot;
}

/* Twice as many pages, and slots so that half of them stay empty. */
static firn_rc grow(struct applier *applier)
{
    uint32_t capacity = applier->page_capacity == 0 ? PAGES_MIN : 2 * applier->page_capacity;
    struct page_work *pages = memory_realloc(applier->pages, capacity * sizeof(*pages));
    if (pages != NULL) {
        applier->pages = pages;
        applier->page_capacity = capacity;
    }
    uint32_t *slots = memory_zalloc(2 * (size_t)capacity, sizeof(*slots));
    if (pages == NULL || slots == NULL) {
        memory_free(slots);
        return rc_raise(FIRN_E_NOMEM, "no memory to sort records of the log by pages");
    }
    memory_free(applier->slots);
    applier->slots = slots;
    applier->slot_count = 2 * capacity;
    for (uint32_t i = 0; i < applier->page_count; i++)
        slots[slot_of(applier, pages[i].page_id)] = i + 1;
    return FIRN_OK;
}

static firn_rc add_record(struct applier *applier, struct record *record)
{
    if (applier->page_count == applier->page_capacity)
        FIRN_TRY(grow(applier));
    bool begins = change_begins_page((enum change_op)record->op);
    uint32_t slot = slot_of(applier, record->page_id);
    if (applier->slots[slot] == 0) {
        applier->pages[applier->page_count++] = (struct page_work){
            .page_id = record->page_id, .first = record, .last = record, .begins = begins};
        applier->slots[slot] = applier->page_count;
        return FIRN_OK;
    }
    struct page_work *work = &applier->pages[applier->slots[slot] - 1];
    if (begins) {
        /* What came before does not matter any more. */
        work->first = record;
        work->begins = true;
    } else {
        work->last->next = record;
    }
    work->last = record;
    return FIRN_OK;
}

static int compare_pages(const void *left, const void *right)
{
    uint64_t a = ((const struct page_work *)left)->page_id;
    uint64_t b = ((const struct page_work *)right)->page_id;
    return (a > b) - (a < b);
}

static firn_rc sort_by_page(struct applier *applier, const struct part *part)
{
    applier->page_count = 0;
    if (applier->slots != NULL)
        memset(applier->slots, 0, applier->slot_count * sizeof(*applier->slots));
    for (const struct chunk *chunk = part->first; chunk != NULL; chunk = chunk->next)
        for (struct record *record = chunk_next(chunk, NULL); record != NULL;
             record = chunk_next(chunk, record))
            FIRN_TRY(add_record(applier, record));
    if (applier->page_count > 1)
        qsort(applier->pages, applier->page_count, sizeof(*applier->pages), compare_pages);
    return FIRN_OK;
}

/* ---- Pages ---- */

static firn_rc raise_senseless(const struct record *record)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "the log changes page %u of tablespace %u (%s, before LSN %llu) in a way that "
                    "this page cannot be changed: log and tables do not belong together; restore a "
                    "backup",
                    page_id_number(record->page_id), page_id_space(record->page_id),
                    change_op_name((enum change_op)record->op),
                    (unsigned long long)record->end_lsn);
}

/* Apply what the page does not have yet. Records of one frame have one LSN, so what the page has is
   judged by the LSN that it came with. */
static firn_rc change_page(struct applier *applier, const struct page_work *work, uint8_t *page,
                           uint64_t *applied)
{
    uint32_t page_size = buffer_page_size(applier->options->pool);
    uint64_t has_lsn = work->begins ? 0 : page_lsn(page);
    if (has_lsn > applier->newest_lsn) {
        applier->newest_lsn = has_lsn;
        applier->newest_page_id = work->page_id;
    }
    *applied = 0;
    for (const struct record *record = work->first; record != NULL; record = record->next) {
        /* Records of a page lie far apart in memory. */
        __builtin_prefetch(record->next);
        if (record->end_lsn <= has_lsn)
            continue;
        struct change change = {
            .op = (enum change_op)record->op,
            .page_id = record->page_id,
            .payload = span_of(record_payload(record), record->size_bytes),
        };
        if (change_apply(page, page_size, &change) != FIRN_OK)
            return raise_senseless(record);
        ++*applied;
    }
    if (*applied > 0)
        page_set_lsn(page, work->last->end_lsn);
    return FIRN_OK;
}

static firn_rc fix_page(struct applier *applier, const struct page_work *work,
                        struct buffer_frame **frame)
{
    struct buffer_pool *pool = applier->options->pool;
    if (!work->begins) {
        FIRN_TRY(buffer_fix(pool, work->page_id, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, frame));
        buffer_begin_change(pool, *frame);
        return FIRN_OK;
    }
    FIRN_TRY(buffer_fix_new(pool, work->page_id, frame));
    buffer_begin_page(pool, *frame);
    torn_begun(applier->torn, work->page_id);
    return FIRN_OK;
}

/* A page that is changed and not marked is never written: if a record makes no sense, what is on
   the device stays as it was. */
static firn_rc apply_page(struct applier *applier, const struct page_work *work)
{
    struct buffer_pool *pool = applier->options->pool;
    struct buffer_frame *frame;
    if (!work->begins && torn_has(applier->torn, work->page_id))
        return FIRN_OK;
    firn_rc rc = fix_page(applier, work, &frame);
    if (rc != FIRN_OK)
        return work->begins ? rc : torn_add(applier->torn, work->page_id, rc);
    uint64_t applied;
    rc = change_page(applier, work, buffer_page(pool, frame), &applied);
    if (rc == FIRN_OK && applied > 0) {
        buffer_mark_dirty(pool, frame, applier->oldest_lsn);
        applier->records_applied += applied;
        applier->pages_changed++;
    }
    buffer_unfix(pool, frame, BUFFER_EXCLUSIVE);
    return rc;
}

/* Leave out pages of tablespaces that were dropped later, and see to it that files hold the others.
 */
static firn_rc keep_present(struct applier *applier)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < applier->page_count; i++) {
        const struct page_work *work = &applier->pages[i];
        if (space_has(applier->options->spaces, work->page_id) != FIRN_OK)
            continue;
        FIRN_TRY(space_reach(applier->options->spaces, work->page_id));
        applier->pages[kept++] = *work;
    }
    applier->page_count = kept;
    return FIRN_OK;
}

/* Some pages that lie together: read in one go, applied after the next ones have been asked for. */
struct group {
    struct page_work *pages;
    uint32_t count;
};

static struct group group_of(const struct applier *applier, uint32_t number, bool downward)
{
    uint32_t groups = (applier->page_count + READ_AHEAD_PAGES - 1) / READ_AHEAD_PAGES;
    if (number >= groups)
        return (struct group){NULL, 0};
    uint32_t first = (downward ? groups - 1 - number : number) * READ_AHEAD_PAGES;
    uint32_t left = applier->page_count - first;
    return (struct group){&applier->pages[first],
                          left < READ_AHEAD_PAGES ? left : READ_AHEAD_PAGES};
}

static void prefetch_group(const struct applier *applier, struct group group)
{
    uint64_t wanted[READ_AHEAD_PAGES];
    unsigned wanted_count = 0;
    for (uint32_t i = 0; i < group.count; i++)
        if (!group.pages[i].begins)
            wanted[wanted_count++] = group.pages[i].page_id;
    if (wanted_count > 1)
        buffer_prefetch(applier->options->pool, wanted, wanted_count);
}

firn_rc applier_run(struct applier *applier, const struct part *part, bool downward)
{
    FIRN_TRY(sort_by_page(applier, part));
    FIRN_TRY(keep_present(applier));
    struct group group = group_of(applier, 0, downward);
    prefetch_group(applier, group);
    for (uint32_t next = 1; group.count > 0; next++) {
        struct group next_group = group_of(applier, next, downward);
        prefetch_group(applier, next_group);
        for (uint32_t i = 0; i < group.count; i++)
            FIRN_TRY(apply_page(applier, &group.pages[i]));
        group = next_group;
    }
    return FIRN_OK;
}

void applier_free(struct applier *applier)
{
    memory_free(applier->pages);
    memory_free(applier->slots);
    applier->pages = NULL;
    applier->slots = NULL;
}
