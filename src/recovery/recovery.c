#include "recovery/recovery.h"

#include "mtr/mtr.h"

/* A page that the frame at hand changes: latched until all its records are repeated, so that no
 * half of a mini-transaction is written out. */
struct touched {
    uint64_t page_id;
    struct buffer_frame *frame;
    bool is_there; /* the page has the frame's changes already */
};

/* What is under way. */
struct run {
    const struct recovery_options *options;
    struct recovery_result *result;
    uint64_t begin_lsn;
    struct touched touched[MTR_PAGES_MAX];
    unsigned touched_count;
};

static firn_rc raise_change(const struct change *change, uint64_t lsn)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "the log's record \"%s\" at LSN %llu does not fit page %u of tablespace %u: "
                    "restore a backup",
                    change_op_name(change->op), (unsigned long long)lsn,
                    page_id_number(change->page_id), page_id_space(change->page_id));
}

/* Fix the page of a change, as far as its bytes are needed. */
static firn_rc fix(struct run *run, const struct change *change, struct buffer_frame **frame)
{
    FIRN_TRY(space_reach(run->options->spaces, change->page_id));
    if (change_begins_page(change->op))
        return buffer_fix_new(run->options->pool, change->page_id, frame);
    return buffer_fix(run->options->pool, change->page_id, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL,
                      frame);
}

/* Find a page among those touched, or latch it. */
static firn_rc touch(struct run *run, const struct change *change, uint64_t end_lsn,
                     struct touched **touched)
{
    for (unsigned i = 0; i < run->touched_count; i++) {
        *touched = &run->touched[i];
        if ((*touched)->page_id == change->page_id)
            return FIRN_OK;
    }
    struct buffer_frame *frame = NULL;
    if (run->touched_count == MTR_PAGES_MAX)
        return raise_change(change, end_lsn);
    FIRN_TRY(fix(run, change, &frame));
    *touched = &run->touched[run->touched_count++];
    **touched = (struct touched){.page_id = change->page_id, .frame = frame};
    const uint8_t *page = buffer_page(run->options->pool, frame);
    (*touched)->is_there = !change_begins_page(change->op) && page_lsn(page) >= end_lsn;
    if (!(*touched)->is_there)
        buffer_mark_dirty(run->options->pool, frame, run->begin_lsn);
    return FIRN_OK;
}

static firn_rc apply(struct run *run, const struct change *change, uint64_t lsn, uint64_t end_lsn)
{
    struct buffer_pool *pool = run->options->pool;
    run->result->records++;
    if (change->op > CHANGE_PAGE_LAST)
        return space_redo(run->options->spaces, change, lsn);
    if (space_has(run->options->spaces, change->page_id) != FIRN_OK)
        return FIRN_OK;
    struct touched *touched = NULL;
    FIRN_TRY(touch(run, change, end_lsn, &touched));
    if (touched->is_there)
        return FIRN_OK;
    run->result->records_applied++;
    if (change_apply(buffer_page(pool, touched->frame), buffer_page_size(pool), change) != FIRN_OK)
        return raise_change(change, lsn);
    return FIRN_OK;
}

/* Set the LSNs of a frame's pages and give them back. */
static void end_frame(struct run *run, uint64_t end_lsn)
{
    struct buffer_pool *pool = run->options->pool;
    for (unsigned i = 0; i < run->touched_count; i++) {
        struct touched *touched = &run->touched[i];
        if (!touched->is_there)
            page_set_lsn(buffer_page(pool, touched->frame), end_lsn);
        buffer_unfix(pool, touched->frame, BUFFER_EXCLUSIVE);
        run->result->pages++;
    }
    run->touched_count = 0;
}

static firn_rc repeat_frame(struct run *run, struct span body, uint64_t lsn, uint64_t end_lsn)
{
    struct change change;
    firn_rc rc;
    while ((rc = change_next(&body, &change)) == FIRN_OK)
        FIRN_TRY_GOTO(apply(run, &change, lsn, end_lsn), failed);
    if (rc == FIRN_E_NOT_FOUND)
        rc = FIRN_OK;
failed:
    end_frame(run, end_lsn);
    return rc;
}

static firn_rc repeat_log(struct run *run, struct redo_reader *reader)
{
    struct span body;
    uint64_t lsn;
    uint64_t end_lsn = run->begin_lsn;
    for (;;) {
        uint64_t end = 0;
        firn_rc rc = redo_reader_next(reader, &body, &lsn, &end);
        if (rc == FIRN_E_NOT_FOUND)
            break;
        FIRN_TRY(rc);
        end_lsn = end;
        run->result->frames++;
        FIRN_TRY(repeat_frame(run, body, lsn, end_lsn));
    }
    run->result->end_lsn = end_lsn;
    run->result->log_bytes = end_lsn - run->begin_lsn;
    run->result->was_clean = run->result->frames == 0;
    return FIRN_OK;
}

firn_rc recovery_run(const struct recovery_options *options, struct recovery_result *result)
{
    struct run run = {.options = options, .result = result};
    struct redo_reader *reader = NULL;
    *result = (struct recovery_result){0};
    run.begin_lsn = redo_checkpoint_lsn(options->redo);
    FIRN_TRY(buffer_doublewrite_repair(options->pool, &result->pages_repaired));
    FIRN_TRY(redo_reader_open(options->redo, run.begin_lsn, &reader));
    firn_rc rc = repeat_log(&run, reader);
    redo_reader_close(reader);
    FIRN_TRY(rc);
    return redo_recovered(options->redo, result->end_lsn);
}
