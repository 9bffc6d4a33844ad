#include "redo/redo_internal.h"

#include "base/check.h"
#include "base/inject.h"

#include <string.h>

/* ---- The ring in memory ----
 *
 * All of it is zero but what frames were copied to and the writer has not yet let go of. A frame is
 * published when the size in its header is no longer zero; that store comes last. So publishing in
 * order needs no list and no lock: the writer follows the sizes from frame to frame as far as they
 * go, and who appends looks at nobody else. Frames begin at multiples of 8, so a size lies in the
 * ring in one piece.
 */

static _Atomic uint32_t *size_word(struct redo *redo, uint64_t lsn)
{
    return (_Atomic uint32_t *)(void *)(redo->buffer + lsn % redo->buffer_size_bytes + 4);
}

static void ring_put(struct redo *redo, uint64_t lsn, const uint8_t *bytes, size_t size_bytes)
{
    uint64_t at = lsn % redo->buffer_size_bytes;
    uint64_t left = redo->buffer_size_bytes - at;
    size_t first = size_bytes < left ? size_bytes : (size_t)left;
    memcpy(redo->buffer + at, bytes, first);
    memcpy(redo->buffer, bytes + first, size_bytes - first);
}

/* The words of a header beside the size: it alone is looked at before it is known to be there. */
static void ring_put_frame(struct redo *redo, uint64_t lsn, const uint8_t *header, struct span body)
{
    ring_put(redo, lsn, header, 4);
    ring_put(redo, lsn + 8, header + 8, REDO_FRAME_HEADER_BYTES - 8);
    ring_put(redo, lsn + REDO_FRAME_HEADER_BYTES, body.bytes, body.size_bytes);
    INJECT("redo-before-publish");
    uint32_t size;
    memcpy(&size, header + 4, sizeof(size));
    /* Pairs with the acquire in redo_advance_published: who sees the size sees the frame. */
    atomic_store_explicit(size_word(redo, lsn), size, memory_order_release);
}

void redo_advance_published(struct redo *redo)
{
    uint64_t lsn = redo->published_lsn;
    /* Behind a full ring its own beginning would be taken for the next frame. */
    uint64_t end =
        atomic_load_explicit(&redo->kept_lsn, memory_order_relaxed) + redo->buffer_size_bytes;
    uint64_t frames = 0;
    while (lsn < end) {
        uint32_t size = atomic_load_explicit(size_word(redo, lsn), memory_order_acquire);
        if (size == 0)
            break;
        lsn += redo_frame_bytes(redo_frame_body_bytes(size));
        frames++;
    }
    ASSERT(lsn <= end);
    redo->published_lsn = lsn;
    redo_count_alone(&redo->frames, frames);
}

/* ---- Appending ---- */

static bool fits(struct redo *redo, uint64_t end_lsn)
{
    /* Pairs with the release in let_go (writer.c): the bytes are zero again. */
    return end_lsn <=
           atomic_load_explicit(&redo->kept_lsn, memory_order_acquire) + redo->buffer_size_bytes;
}

static firn_rc wait_for_ring(struct redo *redo, uint64_t end_lsn)
{
    redo_count(&redo->counters[redo_counter_number()].buffer_waits, 1);
    /* All frames before this one are published by threads that wait for nothing but this, so the
       writer gets far enough. */
    return redo_await(redo, REDO_GOAL_KEPT, end_lsn - redo->buffer_size_bytes);
}

firn_rc redo_append_frame(struct redo *redo, struct span body, bool is_control, uint64_t epoch,
                          uint64_t *end_lsn)
{
    ASSERT(body.size_bytes > 0 && body.size_bytes <= REDO_FRAME_BODY_MAX);
    uint64_t size = redo_frame_bytes(body.size_bytes);
    /* Whoever saw an LSN from redo_reserved_lsn before this sees only frames behind it. */
    uint64_t lsn = atomic_fetch_add_explicit(&redo->reserved_lsn, size, memory_order_seq_cst);
    *end_lsn = lsn + size;
    if (redo_has_failed(redo))
        return redo_raise_failure(redo);
    if (!fits(redo, lsn + size))
        FIRN_TRY(wait_for_ring(redo, lsn + size));
    /* Read behind the wait: what the frame says about it bounds how far a reader must look. */
    uint64_t durable = atomic_load_explicit(&redo->durable_lsn, memory_order_relaxed);
    uint8_t header[REDO_FRAME_HEADER_BYTES];
    redo_put_frame(header, epoch, lsn, durable, is_control, body);
    ring_put_frame(redo, lsn, header, body);
    return FIRN_OK;
}

firn_rc redo_append(struct redo *redo, struct span body, uint64_t *end_lsn)
{
    uint64_t end;
    firn_rc rc = redo_append_frame(redo, body, false, redo->epoch, &end);
    if (end_lsn != NULL)
        *end_lsn = end;
    return rc;
}
