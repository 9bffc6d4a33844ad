/*
 * mtr.h -- mini-transactions: changes of several pages that happen wholly or not at all.
 *
 * A mini-transaction collects exclusively latched pages and the records of what it did to them. At
 * its commit the records become one redo frame, the pages get its end as their LSN and are marked
 * dirty, and only then the latches go. So a page is never seen, nor written, in a state whose log
 * is not in the stream, and recovery repeats all of it or nothing.
 *
 * Changing a page through these functions changes it at once; there is no way back. Therefore
 * everything that can fail comes first: redo_reserve before the first latch, mtr_reserve (memory
 * for the records) before the first change. The changing functions cannot fail.
 */
#ifndef FIRN_MTR_MTR_H
#define FIRN_MTR_MTR_H

#include "buffer/buffer.h"
#include "page/change.h"
#include "page/undo_page.h"
#include "redo/redo.h"

enum { MTR_PAGES_MAX = 64 };

struct mtr_page {
    struct buffer_frame *frame; /* NULL: dropped */
    uint8_t *bytes;
    uint64_t page_id;
    bool changed;
};

/** One at a time for each thread; reused from one to the next, so that its memory stays. Fields are
 * the module's own. */
struct mtr {
    struct buffer_pool *pool;
    struct redo *redo;
    struct redo_room room;
    uint32_t page_size_bytes;
    unsigned page_count;
    struct mtr_page pages[MTR_PAGES_MAX];
    uint8_t *log;
    size_t log_bytes;
    size_t log_limit; /* what has been reserved; never more than the capacity */
    size_t log_capacity;
    uint8_t *originals; /* mtr_verify_changes: what the pages were when they were taken */
};

/** Prepare for mini-transactions on a pool. No memory yet. */
void mtr_init(struct mtr *mtr, struct buffer_pool *pool, struct redo *redo);

/** Free its memory. No mini-transaction is open. */
void mtr_free(struct mtr *mtr);

/**
 * Begin: waits for room in the log's files. No latch may be held.
 *
 * @param log_bytes  an upper bound of the records' bytes, headers included; mtr_reserve can raise
 * it
 * @return FIRN_OK, FIRN_E_NOMEM, FIRN_E_STOPPED (the log has failed)
 */
firn_rc mtr_begin(struct mtr *mtr, size_t log_bytes);

/** Make sure of memory, and room in the log beyond what mtr_begin asked for, for so many more bytes
 * of records. FIRN_E_NOMEM; FIRN_E_INVALID beyond REDO_FRAME_BODY_MAX; FIRN_E_BUSY, without an
 * error text: the log is nearly full, abandon and begin again with a higher bound. */
firn_rc mtr_reserve(struct mtr *mtr, size_t log_bytes);

/** Hand an exclusively fixed page to the mini-transaction, which unfixes it at its end. @return
 * where it keeps it; valid until the end */
struct mtr_page *mtr_take(struct mtr *mtr, struct buffer_frame *frame);

/** Fix a page exclusively and take it; if the mini-transaction has it already, that is returned.
 * Errors as buffer_fix. */
firn_rc mtr_fix(struct mtr *mtr, uint64_t page_id, struct mtr_page **page);

/** buffer_fix_new and take. A page that the mini-transaction has already (it freed it) is returned.
 */
firn_rc mtr_fix_new(struct mtr *mtr, uint64_t page_id, struct mtr_page **page);

/** Unfix a taken page early; it has not been changed. */
void mtr_drop(struct mtr *mtr, struct mtr_page *page);

/**
 * Append the records and give the pages back.
 *
 * @param end_lsn  where the frame ends, for redo_flush; the reserved LSN of the log if nothing was
 *                 changed. May be NULL.
 * @return FIRN_OK; FIRN_E_STOPPED: the log has failed; the pages are changed in memory and will
 *         never be written
 */
firn_rc mtr_commit(struct mtr *mtr, uint64_t *end_lsn);

/** Give the pages back; nothing has been changed. */
void mtr_abandon(struct mtr *mtr);

/* ---- Changes: record, then do what the record says. Documented in page.h and slotted.h; the bytes
 * given must not lie in the page. ---- */

/** page_init, on a page from mtr_fix_new. */
void mtr_page_init(struct mtr *mtr, struct mtr_page *page, enum page_type type);

/** The page belongs to nobody any more; called by src/space. */
void mtr_page_free(struct mtr *mtr, struct mtr_page *page);

/** Overwrite bytes of a page that is no index page. */
void mtr_write(struct mtr *mtr, struct mtr_page *page, size_t offset, struct span bytes);

/** slotted_init. */
void mtr_index_init(struct mtr *mtr, struct mtr_page *page, const struct slotted_bounds *bounds);

/** slotted_insert. */
void mtr_insert(struct mtr *mtr, struct mtr_page *page, unsigned slot, struct span key,
                struct span value, unsigned flags);

/** slotted_delete. */
void mtr_delete(struct mtr *mtr, struct mtr_page *page, unsigned slot);

/** slotted_update. */
void mtr_update(struct mtr *mtr, struct mtr_page *page, unsigned slot, struct span value,
                unsigned flags);

/** slotted_patch. */
void mtr_patch(struct mtr *mtr, struct mtr_page *page, unsigned slot, size_t offset,
               struct span bytes);

/** slotted_rebuild. */
void mtr_rebuild(struct mtr *mtr, struct mtr_page *page, unsigned from, unsigned to,
                 const struct slotted_bounds *bounds);

/** slotted_append_packed; the bytes are packed cells that fit. */
void mtr_append_packed(struct mtr *mtr, struct mtr_page *page, struct span packed);

/** slotted_set_prev and slotted_set_next. */
void mtr_set_siblings(struct mtr *mtr, struct mtr_page *page, uint32_t prev, uint32_t next);

/** undo_page_append: a record or a name, and the position before it in its log (of UNDO_RECORD it
 * is known; ignored). mtr_undo_begin appends a log's header. */
void mtr_undo_append(struct mtr *mtr, struct mtr_page *page, enum undo_kind kind,
                     struct undo_position previous, struct span data);
void mtr_undo_begin(struct mtr *mtr, struct mtr_page *page, const struct undo_log_head *head);

/** Record something that is not about a page's bytes (CHANGE_SPACE_*, CHANGE_BINLOG). */
void mtr_note(struct mtr *mtr, enum change_op op, uint64_t page_id, struct span payload);

/**
 * For tests: judge every mini-transaction that begins from now on. At its end its records are
 * repeated on the pages as they were when they were taken, and what comes out must be what the
 * pages are; otherwise the process ends. So a change that bypasses the log, or that is not the same
 * when repeated, is found where it is made. No mini-transaction is open in any thread.
 */
void mtr_verify_changes(bool on);

/** Upper bounds of what the records take, for mtr_begin and mtr_reserve. */
static inline size_t mtr_cost(size_t payload_bytes)
{
    return CHANGE_HEADER_MAX_BYTES + 16 + payload_bytes;
}

#endif
