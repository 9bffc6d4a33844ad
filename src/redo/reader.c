#include "redo/reader_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

/* The stream is read in stretches, into two halves in turn: while one is looked at, the other is
   being read. In front of each there is room for what the other one ended in the middle of, so that
   a frame is whole in memory when it is judged. */
enum {
    STRETCH_BYTES = 2 << 20,
    CARRY_BYTES = REDO_FRAME_BODY_MAX + REDO_BLOCK_BYTES,
    PIECES_MAX = 3, /* of a stretch: files are larger */
};

_Static_assert(CARRY_BYTES >= REDO_FRAME_HEADER_BYTES + REDO_FRAME_BODY_MAX + 7,
               "a part of any frame can be carried over");
_Static_assert(CARRY_BYTES % REDO_BLOCK_BYTES == 0, "stretches are aligned for direct I/O");

struct half {
    uint8_t *memory;    /* CARRY_BYTES, then the stretch */
    uint64_t begin_lsn; /* of the stretch */
    uint64_t end_lsn;
    struct io_request requests[PIECES_MAX];
    unsigned request_count;
};

struct redo_reader {
    struct redo *redo;
    uint64_t lsn;       /* of the next frame */
    uint64_t limit_lsn; /* the ring begins anew there */
    uint64_t epoch;
    uint64_t in_flight_bytes;
    uint64_t body_end;   /* where the last frame that was handed out ends */
    uint64_t newest_lsn; /* a guess, for redo_reader_bytes_ahead */
    struct io_queue
        *queue; /* NULL: there is none to be had, and requests are carried out at once */
    struct half halves[2];
    unsigned current; /* the half that reader->lsn lies in */
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

/* Begin to read the stretch from an LSN on into a half. */
static firn_rc begin_stretch(struct redo_reader *reader, struct half *half, uint64_t lsn)
{
    uint64_t left = reader->limit_lsn - lsn;
    uint8_t *to = half->memory + CARRY_BYTES;
    half->begin_lsn = lsn;
    half->end_lsn = lsn + (left < STRETCH_BYTES ? left : STRETCH_BYTES);
    half->request_count = 0;
    while (lsn < half->end_lsn) {
        struct redo_piece piece = redo_locate(&reader->redo->layout, lsn, half->end_lsn - lsn);
        half->requests[half->request_count++] =
            (struct io_request){.file = reader->redo->files[piece.file],
                                .op = IO_OP_READ,
                                .size_bytes = (uint32_t)piece.size_bytes,
                                .buffer = to,
                                .offset = piece.offset};
        to += piece.size_bytes;
        lsn += piece.size_bytes;
    }
    if (reader->queue == NULL || half->request_count == 0)
        return FIRN_OK;
    struct io_request *requests[PIECES_MAX];
    for (unsigned i = 0; i < half->request_count; i++)
        requests[i] = &half->requests[i];
    return io_queue_submit(reader->queue, requests, half->request_count);
}

/* Wait for what begin_stretch began; nothing else is under way. */
static firn_rc finish_stretch(struct redo_reader *reader, struct half *half)
{
    struct io_request *done[PIECES_MAX];
    while (reader->queue != NULL && io_queue_pending(reader->queue) > 0)
        io_queue_reap(reader->queue, 1, PIECES_MAX, done);
    for (unsigned i = 0; i < half->request_count; i++) {
        struct io_request *request = &half->requests[i];
        firn_rc rc = reader->queue == NULL ? io_execute(request) : request->rc;
        if (rc != FIRN_OK)
            return io_request_raise(request);
    }
    return FIRN_OK;
}

static uint8_t *half_at(const struct half *half, uint64_t lsn)
{
    return half->memory + CARRY_BYTES + lsn - half->begin_lsn;
}

/* Have the stream from reader->lsn on to so many bytes behind it in memory; it is within the limit.
 */
static firn_rc have(struct redo_reader *reader, uint64_t size_bytes)
{
    while (reader->lsn + size_bytes > reader->halves[reader->current].end_lsn) {
        struct half *half = &reader->halves[reader->current];
        struct half *next = &reader->halves[1 - reader->current];
        FIRN_TRY(finish_stretch(reader, next));
        uint64_t carried = half->end_lsn - reader->lsn;
        memcpy(half_at(next, reader->lsn), half_at(half, reader->lsn), carried);
        reader->current = 1 - reader->current;
        FIRN_TRY(begin_stretch(reader, half, next->end_lsn));
    }
    return FIRN_OK;
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

static void release(struct redo_reader *reader)
{
    io_queue_close(reader->queue);
    for (unsigned i = 0; i < 2; i++)
        memory_free(reader->halves[i].memory);
    memory_free(reader);
}

static firn_rc begin_reading(struct redo_reader *reader, uint64_t from_lsn)
{
    struct redo *redo = reader->redo;
    struct io_queue_options options = {.depth = 2 * PIECES_MAX};
    for (unsigned i = 0; i < 2; i++) {
        reader->halves[i].memory =
            memory_alloc_aligned(CARRY_BYTES + STRETCH_BYTES, REDO_BLOCK_BYTES);
        if (reader->halves[i].memory == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory to read the log");
    }
    FIRN_TRY(make_durable(redo));
    FIRN_TRY(redo_find_newest(redo, from_lsn, reader->limit_lsn, &reader->newest_lsn));
    firn_rc rc = io_queue_open(redo->options.system, &options, &reader->queue);
    if (rc != FIRN_OK && rc != FIRN_E_BUSY)
        return rc;
    struct half *first = &reader->halves[0];
    FIRN_TRY(begin_stretch(reader, first, redo_block_floor(from_lsn)));
    FIRN_TRY(finish_stretch(reader, first));
    return begin_stretch(reader, &reader->halves[1], first->end_lsn);
}

firn_rc redo_reader_open(struct redo *redo, uint64_t from_lsn, struct redo_reader **reader)
{
    ASSERT(from_lsn == redo_checkpoint_lsn(redo));
    struct redo_reader *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to read the log");
    made->redo = redo;
    made->lsn = made->body_end = from_lsn;
    made->limit_lsn = redo_block_floor(from_lsn) + redo_ring_bytes(&redo->layout);
    made->epoch = redo->checkpoint.epoch;
    made->in_flight_bytes = redo->checkpoint.in_flight_bytes;
    firn_rc rc = begin_reading(made, from_lsn);
    if (rc != FIRN_OK) {
        release(made);
        return rc;
    }
    *reader = made;
    return FIRN_OK;
}

void redo_reader_close(struct redo_reader *reader)
{
    if (reader != NULL)
        release(reader);
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
    if (!redo_get_frame(half_at(&reader->halves[reader->current], reader->lsn), reader->lsn, frame))
        return FIRN_E_NOT_FOUND;
    uint64_t size = redo_frame_bytes(frame->size_bytes);
    if (reader->limit_lsn - reader->lsn < size)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(have(reader, size));
    const uint8_t *header = half_at(&reader->halves[reader->current], reader->lsn);
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
