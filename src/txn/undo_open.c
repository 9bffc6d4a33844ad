/*
 * Finding what a segment is, after a crash or not: from its slot, its tail, and the header of its
 * last log. Of a long history nothing else is read.
 */
#include "txn/undo_set_internal.h"

#include "base/check.h"

static const char out_of_order[] = "is not where its segment's chain of pages has it";

/* Copy a page's header; entry, if not NULL, is set to the entry at an offset, or all zeros. */
static firn_rc read_page(struct undo_set *set, const struct undo_segment *segment, uint32_t page_no,
                         uint32_t offset, struct undo_page_head *head, struct undo_entry *entry)
{
    struct buffer_frame *frame;
    FIRN_TRY(undo_segment_look(set, segment, page_no, &frame));
    const uint8_t *page = buffer_page(set->pool, frame);
    undo_page_head_get(page, head);
    if (entry != NULL && !undo_entry_get(page, set->page_size_bytes, offset, entry))
        *entry = (struct undo_entry){0};
    if (entry != NULL)
        entry->data = span_of(NULL, 0);
    buffer_unfix(set->pool, frame, BUFFER_SHARED);
    return FIRN_OK;
}

/* The tail, judged whole: everything else is found from it. */
static firn_rc read_tail(struct undo_set *set, const struct undo_segment *segment,
                         struct undo_page_head *head)
{
    struct buffer_frame *frame;
    char what[128];
    FIRN_TRY(undo_segment_look(set, segment, segment->tail_page, &frame));
    const uint8_t *page = buffer_page(set->pool, frame);
    undo_page_head_get(page, head);
    firn_rc rc = undo_page_check(page, set->page_size_bytes, what);
    buffer_unfix(set->pool, frame, BUFFER_SHARED);
    if (rc != FIRN_OK)
        return undo_raise_page(segment->space, segment->tail_page, what);
    if (head->next != PAGE_NONE)
        return undo_raise_page(segment->space, segment->tail_page, "is not its segment's last");
    return FIRN_OK;
}

/* The page before, which has one ordinal less. */
static firn_rc step_back(struct undo_set *set, const struct undo_segment *segment,
                         uint32_t *page_no, struct undo_page_head *head)
{
    uint32_t prev = head->prev;
    uint32_t ordinal = head->ordinal;
    FIRN_TRY(read_page(set, segment, prev, 0, head, NULL));
    if (head->ordinal + 1 != ordinal || head->next != *page_no)
        return undo_raise_page(segment->space, prev, out_of_order);
    *page_no = prev;
    return FIRN_OK;
}

/* Find the header of the last log. Nowhere if all logs have been purged. */
static firn_rc find_last_log(struct undo_set *set, const struct undo_segment *segment,
                             struct undo_page_head head, struct undo_position *at)
{
    uint32_t page_no = segment->tail_page;
    for (;;) {
        bool is_oldest = page_no == segment->first.page_no;
        if (head.last_log != 0)
            *at = (struct undo_position){page_no, head.last_log};
        else if (!is_oldest)
            *at = head.log; /* otherwise it has been purged: its header may be gone */
        if (at->offset != 0 || is_oldest)
            return FIRN_OK;
        FIRN_TRY(step_back(set, segment, &page_no, &head)); /* the tail may be empty */
    }
}

static firn_rc read_log(struct undo_set *set, const struct undo_segment *segment,
                        struct undo_position at, struct undo_log_head *log)
{
    struct undo_page_head head;
    struct undo_entry entry;
    FIRN_TRY(read_page(set, segment, at.page_no, at.offset, &head, &entry));
    if (entry.kind != UNDO_LOG || entry.log.state > UNDO_ROLLED_BACK)
        return undo_raise_page(segment->space, at.page_no, "has no log where one ought to be");
    *log = entry.log;
    return FIRN_OK;
}

/* ---- Logs that have not ended ---- */

/* Does a log end where it did when its header was written? */
static bool nothing_has_come(const struct undo_log_head *log, uint32_t page_no,
                             const struct undo_page_head *page)
{
    return undo_position_equal(log->end, (struct undo_position){page_no, page->free});
}

/* Find the last record that counts: what the header says, if nothing has come since; otherwise the
 * last entry. Pages may have been added behind it. */
static firn_rc find_last_record(struct undo_set *set, const struct undo_segment *segment,
                                const struct undo_log_head *log, struct undo_position *last)
{
    uint32_t page_no = segment->tail_page;
    struct undo_page_head head;
    struct undo_entry entry;
    FIRN_TRY(read_page(set, segment, page_no, 0, &head, NULL));
    while (!nothing_has_come(log, page_no, &head) && head.last == 0 &&
           page_no != segment->head_page)
        FIRN_TRY(step_back(set, segment, &page_no, &head));
    if (nothing_has_come(log, page_no, &head)) {
        *last = log->last;
        return FIRN_OK;
    }
    FIRN_TRY(read_page(set, segment, page_no, head.last, &head, &entry));
    if (entry.kind != UNDO_RECORD && entry.kind != UNDO_FAR_RECORD)
        return undo_raise_page(segment->space, page_no, "does not end with a record");
    *last = (struct undo_position){page_no, head.last};
    return FIRN_OK;
}

/* A prepared log leads to its name, and that to the last record. */
static firn_rc find_xid(struct undo_set *set, struct undo_segment *segment,
                        struct undo_position xid, struct undo_position *last)
{
    struct undo_page_head head;
    struct undo_entry entry;
    FIRN_TRY(read_page(set, segment, xid.page_no, xid.offset, &head, &entry));
    if (entry.kind != UNDO_XID)
        return undo_raise_page(segment->space, xid.page_no,
                               "has no name of a prepared transaction where one ought to be");
    segment->xid = xid;
    *last = entry.previous;
    return FIRN_OK;
}

static firn_rc adopt(struct undo_set *set, struct undo_segment *segment, struct undo_position at,
                     const struct undo_log_head *log)
{
    struct undo_position last = {0};
    if (log->state == UNDO_PREPARED)
        FIRN_TRY(find_xid(set, segment, log->last, &last));
    else
        FIRN_TRY(find_last_record(set, segment, log, &last));
    segment->is_unfinished = true;
    segment->unfinished_state = (enum undo_state)log->state;
    segment->unfinished = (struct undo_log){
        .set = set,
        .segment = segment,
        .txn_id = log->txn_id,
        .header = undo_pointer_of(segment->space, at),
        .is_written = true,
        .has_work = true, /* its records have not been looked at: there may be some */
        .last = undo_pointer_of(segment->space, last),
        .tail_page = segment->tail_page,
        .tail_offset = segment->tail_offset,
    };
    return FIRN_OK;
}

static firn_rc copy_xid(struct undo_set *set, const struct undo_segment *segment,
                        struct undo_unfinished *found)
{
    struct undo_entry entry = {0};
    struct buffer_frame *frame;
    FIRN_TRY(undo_segment_look(set, segment, segment->xid.page_no, &frame));
    bool is_good = undo_entry_get(buffer_page(set->pool, frame), set->page_size_bytes,
                                  segment->xid.offset, &entry) &&
                   entry.kind == UNDO_XID && entry.data.size_bytes <= UNDO_XID_MAX;
    if (is_good) {
        memcpy(found->xid, entry.data.bytes, entry.data.size_bytes);
        found->xid_bytes = entry.data.size_bytes;
    }
    buffer_unfix(set->pool, frame, BUFFER_SHARED);
    return is_good ? FIRN_OK
                   : undo_raise_page(segment->space, segment->xid.page_no,
                                     "has a damaged name of a prepared transaction");
}

firn_rc undo_each_unfinished(struct undo_set *set, undo_unfinished_visit *visit, void *context)
{
    unsigned count = undo_segment_count(set);
    for (unsigned i = 0; i < count; i++) {
        undo_lock(set);
        struct undo_segment *segment = set->segments[i];
        bool is_unfinished = segment != NULL && segment->is_unfinished;
        undo_unlock(set);
        if (!is_unfinished)
            continue;
        struct undo_unfinished found = {.txn_id = segment->unfinished.txn_id,
                                        .state = segment->unfinished_state};
        if (found.state == UNDO_PREPARED)
            FIRN_TRY(copy_xid(set, segment, &found));
        /* Whoever gets the log may end it at once: the segment is not ours behind the call. */
        struct undo_log log = segment->unfinished;
        segment->is_unfinished = false;
        firn_rc rc = visit(&found, &log, context);
        if (rc != FIRN_OK) {
            segment->is_unfinished = true;
            return rc;
        }
    }
    return FIRN_OK;
}

/* ---- Segments ---- */

firn_rc undo_segment_first(struct undo_set *set, struct undo_segment *segment,
                           struct undo_log_head *log)
{
    struct undo_page_head head;
    struct undo_entry entry;
    uint32_t page_no = segment->first.page_no;
    FIRN_TRY(read_page(set, segment, page_no, segment->first.offset, &head, &entry));
    while (segment->first.offset == head.free) {
        uint32_t ordinal = head.ordinal;
        if (head.next == PAGE_NONE)
            return FIRN_E_NOT_FOUND;
        page_no = head.next;
        FIRN_TRY(read_page(set, segment, page_no, UNDO_ENTRIES_AT, &head, &entry));
        if (head.ordinal != ordinal + 1) /* they could go round in a circle */
            return undo_raise_page(segment->space, page_no, out_of_order);
        segment->first = (struct undo_position){page_no, UNDO_ENTRIES_AT};
    }
    if (entry.kind != UNDO_LOG)
        return undo_raise_page(segment->space, page_no, "has no log where the oldest ought to be");
    *log = entry.log;
    return FIRN_OK;
}

/* Count the logs from the oldest to the last that has ended. */
static firn_rc count_logs(struct undo_set *set, struct undo_segment *segment, uint32_t last_ended)
{
    struct undo_log_head oldest = {0};
    firn_rc rc = undo_segment_first(set, segment, &oldest);
    if (rc == FIRN_E_NOT_FOUND)
        return FIRN_OK;
    FIRN_TRY(rc);
    uint32_t logs = last_ended + 1 - oldest.sequence;
    if ((int32_t)logs < 0)
        return undo_raise_page(segment->space, segment->first.page_no,
                               "has a log as its segment's oldest that is newer than its last");
    atomic_store_explicit(&segment->logs, logs, memory_order_relaxed);
    return FIRN_OK;
}

static firn_rc count_pages(struct undo_set *set, const struct undo_segment *segment,
                           uint32_t tail_ordinal)
{
    struct undo_page_head head;
    FIRN_TRY(read_page(set, segment, segment->head_page, 0, &head, NULL));
    uint32_t pages = tail_ordinal + 1 - head.ordinal;
    if (pages == 0 || (int32_t)pages < 0)
        return undo_raise_page(segment->space, segment->head_page, "is not its segment's first");
    atomic_fetch_add_explicit(&set->pages, pages, memory_order_relaxed);
    return FIRN_OK;
}

static firn_rc find_all(struct undo_set *set, struct undo_segment *segment)
{
    struct undo_page_head tail;
    struct undo_position at = {0};
    struct undo_log_head log = {0};
    FIRN_TRY(read_tail(set, segment, &tail));
    segment->tail_offset = tail.free;
    FIRN_TRY(count_pages(set, segment, tail.ordinal));
    FIRN_TRY(find_last_log(set, segment, tail, &at));
    if (at.offset == 0)
        return FIRN_OK;
    FIRN_TRY(read_log(set, segment, at, &log));
    bool has_ended = log.state == UNDO_COMMITTED || log.state == UNDO_ROLLED_BACK;
    segment->sequence = log.sequence;
    segment->number = has_ended && log.number > log.before ? log.number : log.before;
    if (!has_ended)
        FIRN_TRY(adopt(set, segment, at, &log));
    return count_logs(set, segment, has_ended ? log.sequence : log.sequence - 1);
}

firn_rc undo_segment_open(struct undo_set *set, struct undo_space *space, uint32_t slot_no,
                          const struct undo_slot *slot)
{
    struct undo_segment *segment;
    undo_lock(set);
    firn_rc rc = undo_segment_enter(set, space, slot_no, &segment);
    undo_unlock(set);
    FIRN_TRY(rc);
    segment->head_page = slot->head;
    segment->tail_page = slot->tail;
    segment->first = slot->first;
    FIRN_TRY(find_all(set, segment));
    if (segment->number > set->last_number)
        set->last_number = segment->number;
    undo_lock(set);
    if (!segment->is_unfinished)
        undo_segment_release(set, segment);
    segment->claimed = false;
    undo_unlock(set);
    return FIRN_OK;
}
