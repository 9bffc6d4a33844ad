/*
 * ahead.c -- is it the end of the log, or damage before its end?
 *
 * A frame says how far the log was durable when it was written. The first frame that was written
 * after a place had become durable lies less than what may be in flight behind it, and the largest
 * frame: so far it is enough to look. Frames begin at multiples of 8; the low bits of the LSN in a
 * header leave one position in four thousand millions to be judged by checksum.
 *
 * Frames behind the place are of the epoch in force there, or of the next one if what is missing is
 * the frame that began it, or lies just before that.
 */
#include "redo/reader_internal.h"

#include "base/memory.h"

#include <string.h>

enum {
    SCAN_BYTES = 1 << 20,
    PROBE_BYTES = 256 << 10,
};

/* ---- Damage ---- */

struct scan {
    struct redo *redo;
    const struct redo_ahead *ahead;
    uint8_t *bytes; /* SCAN_BYTES and a block, of the stream from begin on */
    uint8_t *frame; /* for a whole frame; allocated when first needed */
    uint64_t begin;
    uint64_t end; /* read up to here; a block more than is scanned, so that headers are whole */
};

enum { FRAME_READ_BYTES = REDO_FRAME_BODY_MAX + 3 * REDO_BLOCK_BYTES };

/* Read a frame whole and judge it. */
static firn_rc is_frame(struct scan *scan, uint64_t lsn, uint32_t size_bytes, bool *is_whole)
{
    *is_whole = false;
    uint64_t begin = redo_block_floor(lsn);
    uint64_t end = redo_block_ceil(lsn + redo_frame_bytes(size_bytes));
    if (end > scan->ahead->limit_lsn)
        return FIRN_OK;
    if (scan->frame == NULL)
        scan->frame = memory_alloc_aligned(FRAME_READ_BYTES, REDO_BLOCK_BYTES);
    if (scan->frame == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge the end of the log");
    FIRN_TRY(redo_read(scan->redo, begin, scan->frame, end - begin));
    const uint8_t *header = scan->frame + (lsn - begin);
    for (uint64_t epoch = scan->ahead->epoch; epoch <= scan->ahead->epoch + 1 && !*is_whole;
         epoch++)
        *is_whole =
            redo_frame_is_whole(header, epoch, lsn, header + REDO_FRAME_HEADER_BYTES, size_bytes);
    return FIRN_OK;
}

/* Judge every position from `from` to `to` in what has been read. */
static firn_rc scan_positions(struct scan *scan, uint64_t from, uint64_t to, uint64_t *proof_lsn)
{
    for (uint64_t lsn = from; lsn < to; lsn += 8) {
        struct redo_frame frame;
        const uint8_t *header = scan->bytes + (lsn - scan->begin);
        if (get_u32(header + 8) != (uint32_t)(lsn / 8) || !redo_get_frame(header, lsn, &frame) ||
            redo_frame_durable_lsn(&frame, lsn) <= scan->ahead->lsn)
            continue;
        bool is_whole;
        FIRN_TRY(is_frame(scan, lsn, frame.size_bytes, &is_whole));
        if (is_whole) {
            *proof_lsn = lsn;
            break;
        }
    }
    return FIRN_OK;
}

static firn_rc look(struct scan *scan, uint64_t *proof_lsn)
{
    const struct redo_ahead *ahead = scan->ahead;
    uint64_t from = ahead->lsn + 8;
    uint64_t far = ahead->lsn + ahead->in_flight_bytes + 2 * REDO_FRAME_MAX_BYTES;
    if (ahead->in_flight_bytes > REDO_LSN_LIMIT || far > ahead->limit_lsn)
        far = ahead->limit_lsn;
    *proof_lsn = 0;
    while (from + REDO_FRAME_HEADER_BYTES <= far && *proof_lsn == 0) {
        scan->begin = redo_block_floor(from);
        uint64_t left = ahead->limit_lsn - scan->begin;
        uint64_t size = left < SCAN_BYTES + REDO_BLOCK_BYTES ? left : SCAN_BYTES + REDO_BLOCK_BYTES;
        FIRN_TRY(redo_read(scan->redo, scan->begin, scan->bytes, size));
        uint64_t to = scan->begin + size - REDO_FRAME_HEADER_BYTES + 8;
        if (to > scan->begin + SCAN_BYTES)
            to = scan->begin + SCAN_BYTES;
        FIRN_TRY(scan_positions(scan, from, to, proof_lsn));
        from = to;
    }
    return FIRN_OK;
}

firn_rc redo_look_ahead(struct redo *redo, const struct redo_ahead *ahead, uint64_t *proof_lsn)
{
    struct scan scan = {.redo = redo, .ahead = ahead};
    scan.bytes = memory_alloc_aligned(SCAN_BYTES + REDO_BLOCK_BYTES, REDO_BLOCK_BYTES);
    if (scan.bytes == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge the end of the log");
    firn_rc rc = look(&scan, proof_lsn);
    memory_free(scan.frame);
    memory_free(scan.bytes);
    return rc;
}

/* ---- The estimate ---- */

/* Does anything behind the LSN look like a frame's header? */
static firn_rc probe(struct redo *redo, uint8_t *bytes, uint64_t lsn, uint64_t limit_lsn,
                     bool *found)
{
    uint64_t begin = redo_block_floor(lsn);
    uint64_t size = limit_lsn - begin < PROBE_BYTES ? limit_lsn - begin : PROBE_BYTES;
    FIRN_TRY(redo_read(redo, begin, bytes, size));
    *found = false;
    for (uint64_t at = lsn - begin; at + REDO_FRAME_HEADER_BYTES <= size && !*found; at += 8) {
        struct redo_frame frame;
        *found = redo_get_frame(bytes + at, begin + at, &frame);
    }
    return FIRN_OK;
}

firn_rc redo_find_newest(struct redo *redo, uint64_t from_lsn, uint64_t limit_lsn,
                         uint64_t *newest_lsn)
{
    uint8_t *bytes = memory_alloc_aligned(PROBE_BYTES, REDO_BLOCK_BYTES);
    if (bytes == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to read the log");
    uint64_t low = from_lsn; /* something is behind it, unless nothing is at all */
    uint64_t high = limit_lsn;
    bool found;
    firn_rc rc = probe(redo, bytes, low, limit_lsn, &found);
    if (rc == FIRN_OK && !found)
        high = low;
    while (rc == FIRN_OK && high - low > PROBE_BYTES) {
        uint64_t middle = (low + (high - low) / 2) & ~UINT64_C(7);
        rc = probe(redo, bytes, middle, limit_lsn, &found);
        if (found)
            low = middle;
        else
            high = middle;
    }
    memory_free(bytes);
    if (rc == FIRN_OK)
        *newest_lsn = high;
    return rc;
}
