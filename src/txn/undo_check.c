/*
 * Judging: whether directory, segments, logs and records can be what they say.
 */
#include "txn/undo_set_internal.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct check {
    struct undo_set *set;
    const struct undo_check_visitor *visitor;
    uint8_t *page; /* a copy: whoever is told a record may latch other pages */
    uint64_t problems;
};

/* A segment being walked, from its head to its tail. */
struct walk {
    struct check *check;
    const struct undo_space *space;
    uint32_t slot_no;
    struct undo_slot slot;
    uint32_t page_no;
    uint32_t prev; /* PAGE_NONE: the page is the head */
    uint32_t ordinal;
    bool is_needed;           /* `first` has been reached: what follows must be whole */
    struct undo_position log; /* the last header met, nowhere before the first */
    struct undo_log_head log_head;
};

static void report(struct walk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void report(struct walk *walk, const char *format, ...)
{
    char what[384];
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(sentence, sizeof sentence,
             "undo tablespace undo_%03u, segment %" PRIu32 ", page %" PRIu32 ": %s",
             walk->space->ordinal, walk->slot_no, walk->page_no, what);
    walk->check->problems++;
    walk->check->visitor->problem(sentence, walk->check->visitor->context);
}

static bool has_ended(const struct undo_log_head *log)
{
    return log->state == UNDO_COMMITTED || log->state == UNDO_ROLLED_BACK;
}

/* ---- Entries ---- */

/* A log behind another: that one must have ended, here or at the end of the page before. */
static void check_succession(struct walk *walk, struct undo_position at,
                             const struct undo_log_head *log)
{
    const struct undo_log_head *before = &walk->log_head;
    bool follows = undo_position_equal(before->end, at) ||
                   (at.offset == UNDO_ENTRIES_AT && before->end.page_no != at.page_no);
    if (!has_ended(before))
        report(walk, "a log begins at %u, but the one before it has not ended", at.offset);
    else if (!follows)
        report(walk, "a log begins at %u, but the one before it ends on page %" PRIu32 " at %u",
               at.offset, before->end.page_no, before->end.offset);
    if (log->sequence != before->sequence + 1)
        report(walk, "log %" PRIu32 " at %u follows log %" PRIu32, log->sequence, at.offset,
               before->sequence);
    if (log->before < before->before || log->before < before->number)
        report(walk, "the log at %u knows of no number above %" PRIu64 ", but there is %" PRIu64,
               at.offset, log->before,
               before->number > before->before ? before->number : before->before);
}

static void check_log(struct walk *walk, struct undo_position at, const struct undo_log_head *log)
{
    if (log->state > UNDO_ROLLED_BACK || log->flags > UNDO_FLAG_HAS_WORK)
        report(walk, "the log at %u has an unknown state (%u, %u)", at.offset, log->state,
               log->flags);
    if (log->txn_id == 0)
        report(walk, "the log at %u is nobody's", at.offset);
    if (!walk->is_needed)
        return; /* passed by purge, what was before it may be gone */
    if (walk->log.offset != 0)
        check_succession(walk, at, log);
    walk->log = at;
    walk->log_head = *log;
}

/* A position that an entry goes back to must be a record's. */
static void check_previous(struct walk *walk, uint32_t offset, struct undo_position previous)
{
    struct undo_set *set = walk->check->set;
    struct buffer_frame *frame;
    struct undo_entry entry;
    if (previous.offset == 0)
        return;
    bool is_record = false;
    if (buffer_fix(set->pool, undo_page_id(walk->space, previous.page_no), BUFFER_SHARED,
                   BUFFER_HINT_SCAN, &frame) == FIRN_OK) {
        const uint8_t *page = buffer_page(set->pool, frame);
        is_record = page_type(page) == PAGE_TYPE_UNDO &&
                    get_u32(page + UNDO_AT_SEGMENT) == walk->slot_no &&
                    undo_entry_get(page, set->page_size_bytes, previous.offset, &entry) &&
                    (entry.kind == UNDO_RECORD || entry.kind == UNDO_FAR_RECORD);
        buffer_unfix(set->pool, frame, BUFFER_SHARED);
    }
    if (!is_record)
        report(walk,
               "the entry at %" PRIu32 " goes back to page %" PRIu32 ", offset %u, where no "
               "record is",
               offset, previous.page_no, previous.offset);
}

static void check_entry(struct walk *walk, uint32_t offset, const struct undo_entry *entry)
{
    struct undo_position at = {walk->page_no, (uint16_t)offset};
    if (undo_position_equal(at, walk->slot.first)) {
        walk->is_needed = true;
        if (entry->kind != UNDO_LOG)
            report(walk, "the oldest log ought to begin at %" PRIu32, offset);
    }
    if (entry->kind == UNDO_LOG)
        check_log(walk, at, &entry->log);
    else if (entry->kind != UNDO_RECORD && walk->is_needed)
        check_previous(walk, offset, entry->previous);
    bool is_record = entry->kind == UNDO_RECORD || entry->kind == UNDO_FAR_RECORD;
    if (is_record && walk->is_needed && walk->check->visitor->record != NULL)
        walk->check->visitor->record(entry->data, walk->check->visitor->context);
}

/* ---- Pages ---- */

static void check_head(struct walk *walk, const struct undo_page_head *head)
{
    bool is_first = walk->prev == PAGE_NONE;
    if (head->segment != walk->slot_no)
        report(walk, "it says that it is segment %" PRIu32 "'s", head->segment);
    if (!is_first && head->prev != walk->prev)
        report(walk, "it says that page %" PRIu32 " is before it, not %" PRIu32, head->prev,
               walk->prev);
    if (walk->log.offset != 0 && head->log.offset != 0 &&
        !undo_position_equal(head->log, walk->log))
        report(walk, "it says that the log of page %" PRIu32 ", offset %u, runs into it",
               head->log.page_no, head->log.offset);
    if (head->next == PAGE_NONE && walk->page_no != walk->slot.tail)
        report(walk, "it is the last, but the directory says page %" PRIu32, walk->slot.tail);
}

/* @return what the page says of itself, judged; false if the walk cannot go on behind it */
static bool check_page(struct walk *walk, const uint8_t *page, struct undo_page_head *head)
{
    uint32_t page_size_bytes = walk->check->set->page_size_bytes;
    struct undo_entry entry;
    char what[128];
    undo_page_head_get(page, head);
    if (undo_page_check(page, page_size_bytes, what) != FIRN_OK) {
        report(walk, "it %s", what);
        return false;
    }
    /* Also the bound of the walk: pages that go round in a circle do not ascend. */
    if (walk->prev != PAGE_NONE && head->ordinal != walk->ordinal + 1) {
        report(walk, "it is page %" PRIu32 " of its segment, behind page %" PRIu32, head->ordinal,
               walk->ordinal);
        return false;
    }
    check_head(walk, head);
    for (uint32_t offset = UNDO_ENTRIES_AT; undo_entry_get(page, page_size_bytes, offset, &entry);
         offset += (uint32_t)entry.size_bytes)
        check_entry(walk, offset, &entry);
    if (walk->slot.first.page_no == walk->page_no && walk->slot.first.offset == head->free)
        walk->is_needed = true; /* that log is yet to begin */
    return true;
}

static void check_segment(struct walk *walk)
{
    struct undo_set *set = walk->check->set;
    struct undo_page_head head;
    walk->page_no = walk->slot.head;
    walk->prev = PAGE_NONE;
    for (;;) {
        struct buffer_frame *frame;
        if (buffer_fix(set->pool, undo_page_id(walk->space, walk->page_no), BUFFER_SHARED,
                       BUFFER_HINT_SCAN, &frame) != FIRN_OK) {
            report(walk, "%s", firn_error_text());
            return;
        }
        memcpy(walk->check->page, buffer_page(set->pool, frame), set->page_size_bytes);
        buffer_unfix(set->pool, frame, BUFFER_SHARED);
        bool goes_on = check_page(walk, walk->check->page, &head);
        walk->check->visitor->seen(walk->space->space, walk->page_no,
                                   walk->check->visitor->context);
        if (!goes_on)
            return;
        if (head.next == PAGE_NONE)
            break;
        walk->prev = walk->page_no;
        walk->ordinal = head.ordinal;
        walk->page_no = head.next;
    }
    if (!walk->is_needed)
        report(walk, "the oldest log is said to begin on page %" PRIu32 " at %u, where none is",
               walk->slot.first.page_no, walk->slot.first.offset);
}

static void check_space(struct check *check, const struct undo_space *space)
{
    struct undo_set *set = check->set;
    struct walk nowhere = {.check = check, .space = space, .page_no = space->directory_page};
    check->visitor->seen(space->space, space->directory_page, check->visitor->context);
    for (uint32_t i = 0; i < undo_directory_slots(set->page_size_bytes); i++) {
        struct walk walk = {.check = check, .space = space, .slot_no = i};
        struct buffer_frame *frame;
        if (buffer_fix(set->pool, undo_page_id(space, space->directory_page), BUFFER_SHARED,
                       BUFFER_HINT_NORMAL, &frame) != FIRN_OK) {
            report(&nowhere, "%s", firn_error_text());
            return;
        }
        walk.slot = undo_slot_get(buffer_page(set->pool, frame), i);
        buffer_unfix(set->pool, frame, BUFFER_SHARED);
        if (walk.slot.head != 0)
            check_segment(&walk);
    }
}

firn_rc undo_check(struct undo_set *set, const struct undo_check_visitor *visitor)
{
    struct check check = {
        .set = set, .visitor = visitor, .page = memory_alloc(set->page_size_bytes)};
    if (check.page == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to check the undo tablespaces");
    for (unsigned i = 0; i < set->space_count; i++)
        check_space(&check, &set->tablespaces[i]);
    memory_free(check.page);
    return check.problems == 0 ? FIRN_OK : FIRN_E_CORRUPT;
}
