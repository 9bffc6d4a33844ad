#include "redo/reader_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

/* The window holds a stretch of the stream, [begin, end) of it, from a block on. A frame is whole
   in it before it is judged. */
enum { WINDOW_BYTES = 12 << 20, READ_BYTES = 4 << 20 };

_Static_assert(WINDOW_BYTES >= REDO_FRAME_BODY_MAX + READ_BYTES + 2 * REDO_BLOCK_BYTES,
               "the largest frame fits and leaves room to read");

struct redo_reader {
    struct redo *redo;
    uint64_t from_lsn;
    uint64_t lsn;       /* of the next frame */
    uint64_t limit_lsn; /* the ring begins anew there */
    uint64_t epoch;
    uint64_t in_flight_bytes;
    uint64_t body_end;   /* where the last frame that was handed out ends */
    uint64_t newest_lsn; /* a guess, for redo_reader_bytes_ahead */
    uint8_t *window;
    uint64_t window_begin;
    uint64_t window_end;
};

/* ---- Bytes ---- */

firn_rc redo_read(struct redo *redo, uint64_t lsn, uint8_t *to, uint64_t size_bytes)
{
    while (size_bytes > 0) {
        struct redo_piece piece = redo_locate(&redo->layout, lsn, size_bytes);
        FIRN_TRY(io_read(redo->files[piece.file], to, piece.size_bytes, piece.offset));
        to += piece.size_bytes;
        lsn += piece.size_bytes;
        size_bytes -= piece.size_bytes;
    }
    return FIRN_OK;
}

/* Have the stream from reader->lsn on to so many bytes behind it in the window, as far as there is
   any. */
static firn_rc have(struct redo_reader *reader, uint64_t size_bytes)
{
    uint64_t wanted = reader->lsn + size_bytes;
    if (wanted > reader->limit_lsn)
        wanted = reader->limit_lsn;
    if (wanted <= reader->window_end)
        return FIRN_OK;
    uint64_t begin = redo_block_floor(reader->lsn);
    uint64_t kept = 0;
    if (begin < reader->window_end) {
        kept = reader->window_end - begin;
        memmove(reader->window, reader->window + (begin - reader->window_begin), kept);
    }
    reader->window_begin = begin;
    reader->window_end = begin + kept;
    while (reader->window_end < wanted) {
        uint64_t left = reader->limit_lsn - reader->window_end;
        uint64_t size = left < READ_BYTES ? left : READ_BYTES;
        FIRN_TRY(redo_read(reader->redo, reader->window_end,
                           reader->window + (reader->window_end - begin), size));
        reader->window_end += size;
    }
    return FIRN_OK;
}

static const uint8_t *window_at(const struct redo_reader *reader, uint64_t lsn)
{
    return reader->window + (lsn - reader->window_begin);
}

/* ---- Opening ---- */

/* A process that was killed may have written what is read here without having synced it. Pages that
   it is repeated on may be written before recovery ends, and must not become durable before it. */
static firn_rc make_durable(struct redo *redo)
{
    for (uint32_t i = 0; i < redo->layout.file_count; i++)
        FIRN_TRY(redo_sync_file(redo, i));
    return FIRN_OK;
}

firn_rc redo_reader_open(struct redo *redo, uint64_t from_lsn, struct redo_reader **reader)
{
    ASSERT(from_lsn == redo_checkpoint_lsn(redo));
    struct redo_reader *made = memory_zalloc(1, sizeof(*made));
    uint8_t *window = memory_alloc_aligned(WINDOW_BYTES, REDO_BLOCK_BYTES);
    firn_rc rc = FIRN_OK;
    if (made == NULL || window == NULL) {
        rc = rc_raise(FIRN_E_NOMEM, "no memory to read the log");
        goto failed;
    }
    *made = (struct redo_reader){
        .redo = redo,
        .from_lsn = from_lsn,
        .lsn = from_lsn,
        .limit_lsn = redo_block_floor(from_lsn) + redo_ring_bytes(&redo->layout),
        .epoch = redo->checkpoint.epoch,
        .in_flight_bytes = redo->checkpoint.in_flight_bytes,
        .body_end = from_lsn,
        .window = window,
        .window_begin = redo_block_floor(from_lsn),
        .window_end = redo_block_floor(from_lsn),
    };
    FIRN_TRY_GOTO(make_durable(redo), failed);
    FIRN_TRY_GOTO(redo_find_newest(redo, from_lsn, made->limit_lsn, &made->newest_lsn), failed);
    *reader = made;
    return FIRN_OK;
failed:
    memory_free(window);
    memory_free(made);
    return rc;
}

void redo_reader_close(struct redo_reader *reader)
{
    if (reader == NULL)
        return;
    memory_free(reader->window);
    memory_free(reader);
}

uint64_t redo_reader_bytes_ahead(const struct redo_reader *reader)
{
    return reader->newest_lsn > reader->lsn ? reader->newest_lsn - reader->lsn : 0;
}

/* ---- Frames ---- */

/* @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text, if there is no whole frame */
static firn_rc next_frame(struct redo_reader *reader, struct redo_frame *frame, struct span *body)
{
    if (reader->limit_lsn - reader->lsn < REDO_FRAME_HEADER_BYTES)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(have(reader, REDO_FRAME_HEADER_BYTES));
    if (!redo_get_frame(window_at(reader, reader->lsn), reader->lsn, frame))
        return FIRN_E_NOT_FOUND;
    uint64_t size = redo_frame_bytes(frame->size_bytes);
    if (reader->limit_lsn - reader->lsn < size)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(have(reader, size));
    const uint8_t *header = window_at(reader, reader->lsn);
    const uint8_t *bytes = header + REDO_FRAME_HEADER_BYTES;
    if (!redo_frame_is_whole(header, reader->epoch, reader->lsn, bytes, frame->size_bytes))
        return FIRN_E_NOT_FOUND;
    *body = span_of(bytes, frame->size_bytes);
    return FIRN_OK;
}

/* No frame: the end of the log, unless a later one proves that there was one. */
static firn_rc judge_end(struct redo_reader *reader)
{
    struct redo *redo = reader->redo;
    struct redo_ahead ahead = {.lsn = reader->lsn,
                               .epoch = reader->epoch,
                               .in_flight_bytes = reader->in_flight_bytes,
                               .limit_lsn = reader->limit_lsn};
    uint64_t proof_lsn;
    FIRN_TRY(redo_look_ahead(redo, &ahead, &proof_lsn));
    if (proof_lsn != 0) {
        struct redo_piece piece = redo_locate(&redo->layout, reader->lsn, 1);
        return rc_raise(FIRN_E_CORRUPT,
                        "the log is damaged in %s at offset %llu (LSN %llu): what follows at LSN "
                        "%llu was written after it was durable; restore a backup",
                        io_file_path(redo->files[piece.file]), (unsigned long long)piece.offset,
                        (unsigned long long)reader->lsn, (unsigned long long)proof_lsn);
    }
    redo->end_is_known = true;
    redo->end_lsn = reader->lsn;
    redo->last_body_end = reader->body_end;
    redo->end_epoch = reader->epoch;
    return FIRN_E_NOT_FOUND;
}

firn_rc redo_reader_next(struct redo_reader *reader, struct span *body, uint64_t *lsn,
                         uint64_t *end_lsn)
{
    for (;;) {
        struct redo_frame frame;
        struct redo_control control;
        firn_rc rc = next_frame(reader, &frame, body);
        if (rc == FIRN_E_NOT_FOUND)
            return judge_end(reader);
        FIRN_TRY(rc);
        uint64_t begin = reader->lsn;
        reader->lsn += redo_frame_bytes(frame.size_bytes);
        if (!frame.is_control) {
            reader->body_end = reader->lsn;
            *lsn = begin;
            *end_lsn = reader->lsn;
            return FIRN_OK;
        }
        if (!redo_get_control(*body, &control))
            return rc_raise(FIRN_E_UNSUPPORTED,
                            "the log has a frame at LSN %llu that this program does not know: open "
                            "it with the program that wrote it",
                            (unsigned long long)begin);
        reader->epoch = control.epoch;
        reader->in_flight_bytes = control.in_flight_bytes;
    }
}
