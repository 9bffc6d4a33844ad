/*
 * Writing: one transaction's log, by the thread whose transaction it is.
 */
#include "txn/undo_set_internal.h"

#include "base/check.h"

enum { STATE_LOG_BYTES = CHANGE_HEADER_MAX_BYTES + 2 + UNDO_LOG_STATE_BYTES };

_Static_assert(STATE_LOG_BYTES + 2 * CHANGE_HEADER_MAX_BYTES + UNDO_APPEND_LOG_BYTES +
                       UNDO_APPEND_MAX_BYTES + UNDO_XID_MAX <=
                   UNDO_HEADER_LOG_BYTES,
               "what undo_mark adds to a mini-transaction");

size_t undo_record_max(uint32_t page_size_bytes)
{
    return undo_page_limit(page_size_bytes) - UNDO_ENTRIES_AT - UNDO_LOG_BYTES - UNDO_FAR_BYTES;
}

size_t undo_append_log_bytes(size_t record_bytes)
{
    return mtr_cost(UNDO_APPEND_LOG_BYTES) + mtr_cost(UNDO_APPEND_MAX_BYTES + record_bytes);
}

firn_rc undo_begin(struct undo_set *set, struct mtr *mtr, uint64_t txn_id, struct undo_log *log)
{
    struct undo_segment *segment;
    FIRN_TRY(undo_segment_take(set, mtr, &segment));
    *log = (struct undo_log){.set = set,
                             .segment = segment,
                             .txn_id = txn_id,
                             .tail_page = segment->tail_page,
                             .tail_offset = segment->tail_offset};
    return FIRN_OK;
}

undo_pointer undo_place(const struct undo_log *log, size_t record_bytes)
{
    size_t at = log->tail_offset + (log->is_written ? 0 : UNDO_LOG_BYTES);
    if (at + UNDO_FAR_BYTES + record_bytes > undo_page_limit(log->set->page_size_bytes))
        return 0;
    return undo_pointer_of(log->segment->space,
                           (struct undo_position){log->tail_page, (uint16_t)at});
}

firn_rc undo_make_room(struct undo_log *log, struct mtr *mtr, size_t record_bytes)
{
    size_t most = undo_record_max(log->set->page_size_bytes);
    if (record_bytes > most)
        return rc_raise(FIRN_E_INVALID,
                        "an undo record of %zu bytes is too large: pages of %u bytes take %zu",
                        record_bytes, log->set->page_size_bytes, most);
    if (undo_place(log, record_bytes) != 0)
        return FIRN_OK;
    return undo_segment_extend(log, mtr);
}

/* Latch the tail. It must end where this log has left it, for nobody else appends there. */
static firn_rc fix_tail(const struct undo_log *log, struct mtr *mtr, struct mtr_page **page)
{
    FIRN_TRY(undo_segment_fix(log->segment, mtr, log->tail_page, page));
    if (get_u16((*page)->bytes + UNDO_AT_FREE) != log->tail_offset)
        return undo_raise_page(log->segment->space, log->tail_page,
                               "does not end where its last record does");
    return FIRN_OK;
}

static void put_header(struct undo_log *log, struct mtr *mtr, struct mtr_page *page)
{
    struct undo_log_head head = {.txn_id = log->txn_id,
                                 .before = log->segment->number,
                                 .sequence = log->segment->sequence + 1};
    mtr_undo_begin(mtr, page, &head);
    log->header = undo_pointer_of(
        log->segment->space, (struct undo_position){log->tail_page, (uint16_t)log->tail_offset});
    log->is_written = true;
    log->tail_offset += UNDO_LOG_BYTES;
    log->segment->sequence++;
}

/* Append an entry that goes back to the last record that counts. */
static void put_entry(struct undo_log *log, struct mtr *mtr, struct mtr_page *page,
                      enum undo_kind kind, struct span data)
{
    mtr_undo_append(mtr, page, kind, undo_position_of(log->last), data);
    log->tail_offset = get_u16(page->bytes + UNDO_AT_FREE);
}

firn_rc undo_append(struct undo_log *log, struct mtr *mtr, struct span record)
{
    struct mtr_page *page;
    ENSURE(undo_place(log, record.size_bytes) != 0);
    FIRN_TRY(mtr_reserve(mtr, undo_append_log_bytes(record.size_bytes)));
    FIRN_TRY(fix_tail(log, mtr, &page));
    if (!log->is_written)
        put_header(log, mtr, page);
    struct undo_position at = {log->tail_page, (uint16_t)log->tail_offset};
    undo_pointer before = log->last != 0 ? log->last : log->header;
    struct undo_position last = {log->tail_page, get_u16(page->bytes + UNDO_AT_LAST)};
    bool is_near = before == undo_pointer_of(log->segment->space, last);
    put_entry(log, mtr, page, is_near ? UNDO_RECORD : UNDO_FAR_RECORD, record);
    log->last = undo_pointer_of(log->segment->space, at);
    log->records++;
    undo_count(&log->segment->records, 1);
    undo_count(&log->segment->record_bytes, record.size_bytes);
    return FIRN_OK;
}

/* ---- States ---- */

firn_rc undo_latch_header(struct undo_log *log, struct mtr *mtr)
{
    struct mtr_page *page;
    if (!log->is_written)
        return FIRN_OK;
    FIRN_TRY(mtr_reserve(mtr, UNDO_HEADER_LOG_BYTES));
    return undo_segment_fix(log->segment, mtr, undo_position_of(log->header).page_no, &page);
}

/* Write the part of the header that changes; its page is latched already. */
static firn_rc write_state(const struct undo_log *log, struct mtr *mtr,
                           const struct undo_log_head *head)
{
    struct undo_position at = undo_position_of(log->header);
    struct mtr_page *page;
    uint8_t bytes[UNDO_LOG_STATE_BYTES];
    FIRN_TRY(undo_segment_fix(log->segment, mtr, at.page_no, &page));
    undo_log_state_put(bytes, head);
    mtr_write(mtr, page, (size_t)at.offset + UNDO_LOG_AT_STATE, span_of(bytes, sizeof bytes));
    return FIRN_OK;
}

static struct undo_log_head state_of(const struct undo_log *log, enum undo_state state)
{
    return (struct undo_log_head){
        .state = (uint8_t)state,
        .last = undo_position_of(log->last),
        .end = {log->tail_page, (uint16_t)log->tail_offset},
    };
}

/* Append the name, to which the header then leads instead of to the last record. */
static firn_rc prepare(struct undo_log *log, struct mtr *mtr, struct span xid)
{
    struct mtr_page *tail;
    ENSURE(xid.size_bytes <= UNDO_XID_MAX && undo_place(log, xid.size_bytes) != 0);
    FIRN_TRY(mtr_reserve(mtr, UNDO_HEADER_LOG_BYTES));
    FIRN_TRY(undo_latch_header(log, mtr));
    FIRN_TRY(fix_tail(log, mtr, &tail));
    if (!log->is_written)
        put_header(log, mtr, tail);
    struct undo_position at = {log->tail_page, (uint16_t)log->tail_offset};
    put_entry(log, mtr, tail, UNDO_XID, xid);
    struct undo_log_head head = state_of(log, UNDO_PREPARED);
    head.last = at;
    return write_state(log, mtr, &head);
}

static void note_end(struct undo_log *log, uint64_t number)
{
    struct undo_segment *segment = log->segment;
    log->has_ended = true;
    if (number > segment->number)
        segment->number = number;
    /* With the header latched: who sees that the log has ended, sees it counted. */
    atomic_fetch_add_explicit(&segment->logs, 1, memory_order_release);
}

firn_rc undo_mark(struct undo_log *log, struct mtr *mtr, enum undo_state state, uint64_t number,
                  struct span xid)
{
    if (state == UNDO_PREPARED)
        return prepare(log, mtr, xid);
    if (!log->is_written)
        return FIRN_OK;
    FIRN_TRY(undo_latch_header(log, mtr));
    struct undo_log_head head = state_of(log, state);
    if (state != UNDO_ACTIVE) {
        head.flags = state == UNDO_COMMITTED && log->has_work ? UNDO_FLAG_HAS_WORK : 0;
        head.number = number;
        note_end(log, number);
    }
    return write_state(log, mtr, &head);
}

firn_rc undo_rewind(struct undo_log *log, struct mtr *mtr, undo_pointer last)
{
    if (last == log->last)
        return FIRN_OK;
    FIRN_TRY(mtr_begin(mtr, UNDO_HEADER_LOG_BYTES));
    firn_rc rc = undo_latch_header(log, mtr);
    if (rc == FIRN_OK) {
        log->last = last;
        rc = undo_mark(log, mtr, UNDO_ACTIVE, 0, span_of(NULL, 0));
    }
    return undo_finish_mtr(mtr, rc);
}

void undo_end(struct undo_log *log)
{
    struct undo_set *set = log->set;
    if (log->segment == NULL)
        return;
    ENSURE(!log->is_written || log->has_ended);
    undo_lock(set);
    log->segment->tail_page = log->tail_page;
    log->segment->tail_offset = log->tail_offset;
    undo_segment_release(set, log->segment);
    undo_unlock(set);
    log->segment = NULL;
}
