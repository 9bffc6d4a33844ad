/*
 * Segments: queues of pages that grow at the tail and shrink at the head.
 *
 * Each step is one mini-transaction, which changes the chain of pages, the directory's slot and the
 * tablespace's maps together.
 */
#include "txn/undo_set_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <inttypes.h>

enum {
    SEGMENT_ALIGNMENT_BYTES = 64,
    /* So many, and a map page for each at worst, directory and page 0 fit into a
       mini-transaction. */
    FREE_PAGES_MAX = 16,
    SLOT_LOG_BYTES = CHANGE_HEADER_MAX_BYTES + 2 + UNDO_SLOT_BYTES,
    NUMBER_LOG_BYTES = CHANGE_HEADER_MAX_BYTES + 2 + 8,
    HEAD_LOG_BYTES = 2 * CHANGE_HEADER_MAX_BYTES + 2 + 2 + UNDO_HEAD_BYTES,
    NEXT_LOG_BYTES = CHANGE_HEADER_MAX_BYTES + 2 + 4,
    /* An allocation, which may have to be taken back. */
    GROW_LOG_BYTES = 2 * SPACE_LOG_MAX_BYTES + HEAD_LOG_BYTES + NEXT_LOG_BYTES + SLOT_LOG_BYTES,
    FREE_LOG_BYTES = FREE_PAGES_MAX * SPACE_LOG_MAX_BYTES + SLOT_LOG_BYTES + NUMBER_LOG_BYTES,
};

_Static_assert(2 * FREE_PAGES_MAX + 2 <= MTR_PAGES_MAX, "pages that are freed at once");

firn_rc undo_finish_mtr(struct mtr *mtr, firn_rc rc)
{
    if (mtr->log_bytes > 0) {
        firn_rc committed = mtr_commit(mtr, NULL);
        return rc != FIRN_OK ? rc : committed;
    }
    mtr_abandon(mtr);
    return rc;
}

firn_rc undo_raise_page(const struct undo_space *space, uint32_t page_no, const char *what)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "page %" PRIu32 " of undo tablespace undo_%03u %s; check the environment",
                    page_no, space->ordinal, what);
}

/* ---- Pages ---- */

firn_rc undo_segment_judge(const struct undo_segment *segment, uint32_t page_no,
                           const uint8_t *page)
{
    if (page_type(page) != PAGE_TYPE_UNDO || get_u64(page + UNDO_AT_OWNER) != UNDO_OWNER)
        return undo_raise_page(segment->space, page_no, "ought to be a page of undo");
    if (get_u32(page + UNDO_AT_SEGMENT) != segment->slot)
        return undo_raise_page(segment->space, page_no, "is another segment's than it ought to be");
    return FIRN_OK;
}

/* That a file ends before a page is damage, not an answer. */
static firn_rc judge_missing(const struct undo_space *space, uint32_t page_no, firn_rc rc)
{
    return rc == FIRN_E_NOT_FOUND ? undo_raise_page(space, page_no, "is not there") : rc;
}

firn_rc undo_segment_fix(const struct undo_segment *segment, struct mtr *mtr, uint32_t page_no,
                         struct mtr_page **page)
{
    firn_rc rc = mtr_fix(mtr, undo_page_id(segment->space, page_no), page);
    FIRN_TRY(judge_missing(segment->space, page_no, rc));
    return undo_segment_judge(segment, page_no, (*page)->bytes);
}

firn_rc undo_segment_look(struct undo_set *set, const struct undo_segment *segment,
                          uint32_t page_no, struct buffer_frame **frame)
{
    firn_rc rc = buffer_fix(set->pool, undo_page_id(segment->space, page_no), BUFFER_SHARED,
                            BUFFER_HINT_NORMAL, frame);
    FIRN_TRY(judge_missing(segment->space, page_no, rc));
    rc = undo_segment_judge(segment, page_no, buffer_page(set->pool, *frame));
    if (rc != FIRN_OK)
        buffer_unfix(set->pool, *frame, BUFFER_SHARED);
    return rc;
}

firn_rc undo_directory_fix(const struct undo_space *space, struct mtr *mtr, struct mtr_page **page)
{
    FIRN_TRY(mtr_fix(mtr, undo_page_id(space, space->directory_page), page));
    if (page_type((*page)->bytes) != PAGE_TYPE_UNDO_DIRECTORY)
        return undo_raise_page(space, space->directory_page, "ought to be its directory");
    return FIRN_OK;
}

void undo_slot_write(struct mtr *mtr, struct mtr_page *directory, uint32_t slot_no,
                     const struct undo_slot *slot)
{
    uint8_t bytes[UNDO_SLOT_BYTES];
    undo_slot_put(bytes, slot);
    mtr_write(mtr, directory, undo_slot_at(slot_no), span_of(bytes, sizeof bytes));
}

/* Allocate and make a page of a segment; the directory is latched. */
static firn_rc new_page(struct undo_set *set, struct mtr *mtr, const struct undo_segment *segment,
                        const struct undo_page_head *head, uint32_t *page_no)
{
    uint32_t space = segment->space->space;
    struct mtr_page *page;
    uint8_t bytes[UNDO_HEAD_BYTES];
    FIRN_TRY(space_allocate(set->spaces, mtr, space, UNDO_OWNER, head->prev, page_no));
    firn_rc rc = mtr_fix_new(mtr, page_id_of(space, *page_no), &page);
    if (rc != FIRN_OK) {
        space_unallocate(set->spaces, mtr, space, UNDO_OWNER, *page_no, 1);
        return rc;
    }
    undo_page_head_put(bytes, head);
    mtr_page_init(mtr, page, PAGE_TYPE_UNDO);
    mtr_write(mtr, page, UNDO_AT_OWNER, span_of(bytes, sizeof bytes));
    return FIRN_OK;
}

/* ---- Which there are ---- */

static firn_rc have_index(struct undo_set *set, unsigned *index)
{
    for (*index = 0; *index < set->segment_count; (*index)++)
        if (set->segments[*index] == NULL)
            return FIRN_OK;
    if (set->segment_count == set->segment_capacity) {
        unsigned capacity = set->segment_capacity > 0 ? 2 * set->segment_capacity : 16;
        struct undo_segment **segments =
            memory_realloc(set->segments, capacity * sizeof(struct undo_segment *));
        if (segments == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for %u undo segments", capacity);
        set->segments = segments;
        set->segment_capacity = capacity;
    }
    set->segments[set->segment_count++] = NULL;
    return FIRN_OK;
}

firn_rc undo_segment_enter(struct undo_set *set, struct undo_space *space, uint32_t slot,
                           struct undo_segment **segment)
{
    unsigned index;
    /* No cache line with another one: each is written by a thread of its own. */
    struct undo_segment *made = memory_alloc_aligned(sizeof *made, SEGMENT_ALIGNMENT_BYTES);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for an undo segment");
    memset(made, 0, sizeof *made);
    firn_rc rc = have_index(set, &index);
    if (rc != FIRN_OK) {
        memory_free(made);
        return rc;
    }
    made->space = space;
    made->slot = slot;
    made->index = index;
    made->in_use = true;
    made->claimed = true;
    set->segments[index] = made;
    set->in_use++;
    space->taken[slot] = 1;
    space->segments++;
    *segment = made;
    return FIRN_OK;
}

void undo_segment_remove(struct undo_set *set, struct undo_segment *segment)
{
    ASSERT(segment->in_use && segment->claimed);
    set->gone_records += atomic_load_explicit(&segment->records, memory_order_relaxed);
    set->gone_record_bytes += atomic_load_explicit(&segment->record_bytes, memory_order_relaxed);
    segment->space->taken[segment->slot] = 0;
    segment->space->segments--;
    set->segments[segment->index] = NULL;
    set->in_use--;
    memory_free(segment);
}

void undo_segment_release(struct undo_set *set, struct undo_segment *segment)
{
    ASSERT(segment->in_use);
    segment->in_use = false;
    segment->next_free = set->free;
    set->free = segment;
    set->in_use--;
}

/* Enter a segment in the tablespace that has the fewest. With the mutex. */
static firn_rc enter_somewhere(struct undo_set *set, struct undo_segment **segment)
{
    uint32_t slots = undo_directory_slots(set->page_size_bytes);
    struct undo_space *space = &set->tablespaces[0];
    uint32_t slot = 0;
    for (unsigned i = 1; i < set->space_count; i++)
        if (set->tablespaces[i].segments < space->segments)
            space = &set->tablespaces[i];
    if (space->segments == slots)
        return rc_raise(FIRN_E_BUSY,
                        "all %" PRIu32 " undo segments of %u tablespaces are in use by "
                        "transactions; end some, or set more undo_tablespaces",
                        slots * set->space_count, set->space_count);
    while (space->taken[slot])
        slot++;
    return undo_segment_enter(set, space, slot, segment);
}

/* ---- Growing ---- */

static firn_rc make(struct undo_set *set, struct mtr *mtr, struct undo_segment *segment)
{
    struct mtr_page *directory;
    struct undo_page_head head = {.segment = segment->slot, .prev = PAGE_NONE, .next = PAGE_NONE};
    uint32_t page_no;
    FIRN_TRY(space_prepare(set->spaces, segment->space->space, 1));
    FIRN_TRY(mtr_begin(mtr, GROW_LOG_BYTES));
    firn_rc rc = undo_directory_fix(segment->space, mtr, &directory);
    if (rc == FIRN_OK)
        rc = new_page(set, mtr, segment, &head, &page_no);
    if (rc == FIRN_OK) {
        segment->first = (struct undo_position){page_no, UNDO_ENTRIES_AT};
        struct undo_slot slot = {page_no, page_no, segment->first};
        undo_slot_write(mtr, directory, segment->slot, &slot);
        segment->head_page = page_no;
        segment->tail_page = page_no;
        segment->tail_offset = UNDO_ENTRIES_AT;
    }
    return undo_finish_mtr(mtr, rc);
}

firn_rc undo_segment_take(struct undo_set *set, struct mtr *mtr, struct undo_segment **segment)
{
    firn_rc rc = FIRN_OK;
    undo_lock(set);
    struct undo_segment *taken = set->free;
    bool is_new = taken == NULL;
    if (is_new) {
        rc = enter_somewhere(set, &taken);
    } else {
        set->free = taken->next_free;
        taken->in_use = true;
        set->in_use++;
    }
    undo_unlock(set);
    FIRN_TRY(rc);
    if (is_new) {
        rc = make(set, mtr, taken);
        undo_lock(set);
        if (rc == FIRN_OK)
            taken->claimed = false;
        else
            undo_segment_remove(set, taken);
        undo_unlock(set);
        FIRN_TRY(rc);
        atomic_fetch_add_explicit(&set->pages, 1, memory_order_relaxed);
    }
    *segment = taken;
    return FIRN_OK;
}

/* Hang a new page behind the tail. */
static firn_rc extend(struct undo_set *set, struct mtr *mtr, struct undo_log *log,
                      uint32_t *page_no)
{
    struct undo_segment *segment = log->segment;
    struct mtr_page *tail;
    struct mtr_page *directory;
    struct undo_page_head head;
    uint8_t next[4];
    FIRN_TRY(undo_segment_fix(segment, mtr, log->tail_page, &tail));
    FIRN_TRY(undo_directory_fix(segment->space, mtr, &directory));
    undo_page_head_get(tail->bytes, &head);
    head.ordinal++;
    head.prev = log->tail_page;
    head.next = PAGE_NONE;
    head.log = undo_position_of(log->header);
    FIRN_TRY(new_page(set, mtr, segment, &head, page_no));
    put_u32(next, *page_no);
    mtr_write(mtr, tail, UNDO_AT_NEXT, span_of(next, sizeof next));
    struct undo_slot slot = undo_slot_get(directory->bytes, segment->slot);
    slot.tail = *page_no;
    undo_slot_write(mtr, directory, segment->slot, &slot);
    return FIRN_OK;
}

firn_rc undo_segment_extend(struct undo_log *log, struct mtr *mtr)
{
    struct undo_set *set = log->set;
    uint32_t page_no;
    FIRN_TRY(space_prepare(set->spaces, log->segment->space->space, 1));
    FIRN_TRY(mtr_begin(mtr, GROW_LOG_BYTES));
    FIRN_TRY(undo_finish_mtr(mtr, extend(set, mtr, log, &page_no)));
    log->tail_page = page_no;
    log->tail_offset = UNDO_ENTRIES_AT;
    atomic_fetch_add_explicit(&set->pages, 1, memory_order_relaxed);
    return FIRN_OK;
}

/* ---- Shrinking ---- */

/* Pages at the head that a mini-transaction frees. */
struct batch {
    struct mtr_page *pages[FREE_PAGES_MAX];
    unsigned count;
    uint32_t next; /* behind them */
};

static firn_rc collect(const struct undo_segment *segment, struct mtr *mtr, struct batch *batch)
{
    batch->count = 0;
    batch->next = segment->head_page;
    while (batch->count < FREE_PAGES_MAX && batch->next != segment->first.page_no) {
        struct mtr_page **page = &batch->pages[batch->count];
        FIRN_TRY(undo_segment_fix(segment, mtr, batch->next, page));
        batch->count++;
        batch->next = get_u32((*page)->bytes + UNDO_AT_NEXT);
    }
    return FIRN_OK;
}

/* Note the numbers of logs that will be gone, so that none is given twice. */
static void note_number(struct mtr *mtr, struct mtr_page *directory, uint64_t number)
{
    uint8_t bytes[8];
    if (number <= get_u64(directory->bytes + UNDO_DIRECTORY_AT_NUMBER))
        return;
    put_u64(bytes, number);
    mtr_write(mtr, directory, UNDO_DIRECTORY_AT_NUMBER, span_of(bytes, sizeof bytes));
}

/* Free the pages of a batch, as many as can be: freed tells how many. */
static firn_rc free_batch(struct undo_set *set, struct mtr *mtr, struct undo_segment *segment,
                          const struct batch *batch, unsigned *freed)
{
    struct mtr_page *directory;
    firn_rc rc = FIRN_OK;
    *freed = 0;
    FIRN_TRY(undo_directory_fix(segment->space, mtr, &directory));
    while (rc == FIRN_OK && *freed < batch->count) {
        rc = space_free(set->spaces, mtr, batch->pages[*freed], UNDO_OWNER);
        *freed += rc == FIRN_OK;
    }
    if (*freed == 0)
        return rc;
    struct undo_slot slot = undo_slot_get(directory->bytes, segment->slot);
    slot.head = *freed < batch->count ? page_id_number(batch->pages[*freed]->page_id) : batch->next;
    slot.first = segment->first;
    undo_slot_write(mtr, directory, segment->slot, &slot);
    note_number(mtr, directory, segment->purged_number);
    segment->head_page = slot.head;
    return rc;
}

firn_rc undo_segment_free_passed(struct undo_set *set, struct mtr *mtr,
                                 struct undo_segment *segment)
{
    struct batch batch;
    while (segment->head_page != segment->first.page_no) {
        unsigned freed = 0;
        FIRN_TRY(mtr_begin(mtr, FREE_LOG_BYTES));
        firn_rc rc = collect(segment, mtr, &batch);
        if (rc == FIRN_OK)
            rc = free_batch(set, mtr, segment, &batch, &freed);
        rc = undo_finish_mtr(mtr, rc);
        atomic_fetch_sub_explicit(&set->pages, freed, memory_order_relaxed);
        FIRN_TRY(rc);
    }
    return FIRN_OK;
}

static firn_rc give_up(struct undo_set *set, struct mtr *mtr, const struct undo_segment *segment)
{
    static const struct undo_slot none = {0, 0, {0, 0}};
    struct mtr_page *page;
    struct mtr_page *directory;
    FIRN_TRY(undo_segment_fix(segment, mtr, segment->head_page, &page));
    FIRN_TRY(undo_directory_fix(segment->space, mtr, &directory));
    FIRN_TRY(space_free(set->spaces, mtr, page, UNDO_OWNER));
    undo_slot_write(mtr, directory, segment->slot, &none);
    note_number(mtr, directory, segment->number);
    return FIRN_OK;
}

firn_rc undo_segment_give_up(struct undo_set *set, struct mtr *mtr, struct undo_segment *segment)
{
    ASSERT(segment->head_page == segment->tail_page);
    FIRN_TRY(mtr_begin(mtr, FREE_LOG_BYTES));
    FIRN_TRY(undo_finish_mtr(mtr, give_up(set, mtr, segment)));
    atomic_fetch_sub_explicit(&set->pages, 1, memory_order_relaxed);
    undo_lock(set);
    undo_segment_remove(set, segment);
    undo_unlock(set);
    return FIRN_OK;
}
