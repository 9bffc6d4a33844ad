/*
 * copy.c -- the stream copied while others append, and a log made of such a copy.
 *
 * A copy holds nothing back: whoever writes must not wait for a slow target. So each stretch is
 * read first and asked afterwards whether the ring had come round to it meanwhile.
 */
#include "redo/redo_internal.h"

#include "redo/reader_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

/* In front of each stretch there is room for the beginning of a frame that ends in it. */
enum { CARRY_BYTES = REDO_FRAME_BODY_MAX + REDO_BLOCK_BYTES };

_Static_assert(CARRY_BYTES >= REDO_FRAME_HEADER_BYTES + REDO_FRAME_BODY_MAX + 7,
               "a part of any frame can be carried over");
_Static_assert(CARRY_BYTES % REDO_BLOCK_BYTES == 0, "stretches are aligned for direct I/O");
_Static_assert((int)REDO_COPY_BLOCK_BYTES == (int)REDO_BLOCK_BYTES, "copies are whole blocks");

struct redo_copy {
    struct redo *redo;
    struct redo_copy_start start;
    _Atomic uint64_t lsn; /* of the next block */
    uint64_t frame_lsn;   /* of the next frame to judge */
    uint64_t epoch;       /* that it is sealed with */
    uint8_t *memory;      /* CARRY_BYTES, then the stretch */
    uint64_t begin_lsn;   /* of the stretch */
    uint64_t end_lsn;
};

/* ---- Beginning ---- */

firn_rc redo_copy_open(struct redo *redo, struct redo_copy **copy)
{
    struct redo_copy *made = memory_zalloc(1, sizeof(*made));
    uint8_t *memory = memory_alloc_aligned(CARRY_BYTES + REDO_COPY_MAX_BYTES, REDO_BLOCK_BYTES);
    if (made == NULL || memory == NULL) {
        memory_free(made);
        memory_free(memory);
        return rc_raise(FIRN_E_NOMEM, "no memory to copy the log");
    }
    /* The checkpoint is the writer's. */
    redo_writer_enter(redo);
    made->start = (struct redo_copy_start){.lsn = redo->checkpoint.lsn,
                                           .epoch = redo->checkpoint.epoch,
                                           .in_flight_bytes = redo->checkpoint.in_flight_bytes};
    redo_writer_leave(redo);
    made->redo = redo;
    made->memory = memory;
    made->frame_lsn = made->start.lsn;
    made->epoch = made->start.epoch;
    made->begin_lsn = made->end_lsn = redo_block_floor(made->start.lsn);
    atomic_init(&made->lsn, made->end_lsn);
    *copy = made;
    return FIRN_OK;
}

void redo_copy_close(struct redo_copy *copy)
{
    if (copy == NULL)
        return;
    memory_free(copy->memory);
    memory_free(copy);
}

const struct redo_copy_start *redo_copy_start(const struct redo_copy *copy)
{
    return &copy->start;
}

uint64_t redo_copy_lag_bytes(const struct redo_copy *copy)
{
    /* A figure to decide by, no promise. */
    uint64_t lsn = atomic_load_explicit(&copy->lsn, memory_order_relaxed);
    uint64_t durable = redo_durable_lsn(copy->redo);
    return durable > lsn ? durable - lsn : 0;
}

/* ---- Judging what was copied ---- */

static uint8_t *copy_at(const struct redo_copy *copy, uint64_t lsn)
{
    return copy->memory + CARRY_BYTES + (int64_t)(lsn - copy->begin_lsn);
}

static firn_rc raise_damage(const struct redo_copy *copy)
{
    struct redo_piece piece = redo_locate(&copy->redo->layout, copy->frame_lsn, 1);
    return rc_raise(FIRN_E_CORRUPT,
                    "the log is damaged in %s at offset %llu (LSN %llu), where it had been "
                    "durable: let a checkpoint leave it behind, check the device, and begin the "
                    "backup anew",
                    io_file_path(copy->redo->files[piece.file]), (unsigned long long)piece.offset,
                    (unsigned long long)copy->frame_lsn);
}

/* All frames that end at or below an LSN. */
static firn_rc judge_frames(struct redo_copy *copy, uint64_t end_lsn)
{
    while (copy->frame_lsn + REDO_FRAME_HEADER_BYTES <= end_lsn) {
        struct redo_frame frame;
        struct redo_control control;
        const uint8_t *header = copy_at(copy, copy->frame_lsn);
        const uint8_t *body = header + REDO_FRAME_HEADER_BYTES;
        if (!redo_get_frame(header, copy->frame_lsn, &frame))
            return raise_damage(copy);
        uint64_t size = redo_frame_bytes(frame.size_bytes);
        if (copy->frame_lsn + size > end_lsn)
            return FIRN_OK;
        if (!redo_frame_is_whole(header, copy->epoch, copy->frame_lsn, body, frame.size_bytes))
            return raise_damage(copy);
        if (frame.is_control) {
            if (!redo_get_control(span_of(body, frame.size_bytes), &control))
                return raise_damage(copy);
            copy->epoch = control.epoch;
        }
        copy->frame_lsn += size;
    }
    return FIRN_OK;
}

/* ---- Copying ---- */

/* What was read is the log if the ring had not come round to it when it had been read: a place in
   the stream is reserved before anything of it is written. */
static firn_rc check_not_overtaken(const struct redo_copy *copy, uint64_t lsn)
{
    struct redo *redo = copy->redo;
    uint64_t reserved = redo_reserved_lsn(redo);
    uint64_t ring_bytes = redo_ring_bytes(&redo->layout);
    if (reserved == UINT64_MAX || redo_block_ceil(reserved) <= redo_block_floor(lsn) + ring_bytes)
        return FIRN_OK;
    return rc_raise(FIRN_E_BUSY,
                    "the log in %s grew faster than it could be copied, and went round its files: "
                    "copy to a faster device, or make the log larger (log_file_size, log_files)",
                    redo->directory);
}

/* Keep the beginning of a frame that did not end in the last stretch. */
static void carry_over(struct redo_copy *copy)
{
    if (copy->frame_lsn < copy->end_lsn) {
        uint64_t carried = copy->end_lsn - copy->frame_lsn;
        ASSERT(carried <= CARRY_BYTES);
        memmove(copy->memory + CARRY_BYTES - carried, copy_at(copy, copy->frame_lsn), carried);
    }
    copy->begin_lsn = copy->end_lsn;
}

static firn_rc read_stretch(struct redo_copy *copy, uint64_t end_lsn, uint64_t limit_lsn)
{
    uint64_t size = end_lsn - copy->begin_lsn;
    uint8_t *to = copy->memory + CARRY_BYTES;
    FIRN_TRY(redo_read(copy->redo, copy->begin_lsn, to, size));
    FIRN_TRY(check_not_overtaken(copy, copy->begin_lsn));
    copy->end_lsn = end_lsn;
    if (end_lsn > limit_lsn) {
        memset(copy_at(copy, limit_lsn), 0, end_lsn - limit_lsn);
        end_lsn = limit_lsn;
    }
    /* The first block begins before the checkpoint, maybe. */
    FIRN_TRY(judge_frames(copy, end_lsn));
    return end_lsn == limit_lsn && copy->frame_lsn != limit_lsn ? raise_damage(copy) : FIRN_OK;
}

firn_rc redo_copy_next(struct redo_copy *copy, uint64_t limit_lsn, struct span *bytes)
{
    uint64_t durable = redo_durable_lsn(copy->redo);
    ASSERT(limit_lsn == UINT64_MAX || limit_lsn <= durable);
    uint64_t end = limit_lsn == UINT64_MAX ? redo_block_floor(durable) : redo_block_ceil(limit_lsn);
    uint64_t begin = copy->end_lsn;
    if (end <= begin) {
        *bytes = span_of(NULL, 0);
        return FIRN_OK;
    }
    if (end - begin > REDO_COPY_MAX_BYTES)
        end = begin + REDO_COPY_MAX_BYTES;
    carry_over(copy);
    FIRN_TRY(read_stretch(copy, end, limit_lsn));
    atomic_store_explicit(&copy->lsn, end, memory_order_relaxed);
    *bytes = span_of(copy->memory + CARRY_BYTES, end - begin);
    return FIRN_OK;
}

/* ---- A log made of a copy ---- */

/* A fifth of the ring, and more than the largest frame, stays for what comes behind the copy: until
   recovery has ended nothing of it can be left behind. */
static firn_rc choose_layout(const struct redo_options *options,
                             const struct redo_copy_start *start, uint64_t end_lsn,
                             struct redo_layout *layout)
{
    uint64_t copied = redo_block_ceil(end_lsn) - redo_block_floor(start->lsn);
    uint64_t needed = copied + copied / 4 + 4 * (uint64_t)REDO_FRAME_BODY_MAX;
    uint64_t unit = REDO_FILE_SIZE_UNIT_BYTES;
    *layout = (struct redo_layout){.number = 1,
                                   .origin_lsn = redo_block_floor(start->lsn),
                                   .file_size_bytes = options->file_size_bytes,
                                   .file_count = options->file_count};
    if (redo_ring_bytes(layout) < needed) {
        uint64_t each = needed / options->file_count + REDO_HEADER_AREA_BYTES;
        layout->file_size_bytes = (each + unit) / unit * unit;
    }
    struct redo_options judged = *options;
    judged.file_size_bytes = layout->file_size_bytes;
    return redo_check_options(&judged);
}

struct filling {
    const struct redo_options *options;
    const struct redo_layout *layout;
    redo_copy_read *read;
    void *context;
    uint8_t *memory;
};

/* The part of the copy that lies in one file, from an LSN on. */
static firn_rc fill_file(const struct filling *filling, uint32_t number, uint64_t *lsn,
                         uint64_t end_lsn)
{
    struct redo_path path;
    struct io_file *file;
    FIRN_TRY(redo_file_path(filling->options->directory, number, true, &path));
    FIRN_TRY(redo_file_open(filling->options, path.text, 0, &file));
    firn_rc rc = FIRN_OK;
    while (rc == FIRN_OK && *lsn < end_lsn) {
        struct redo_piece piece = redo_locate(filling->layout, *lsn, end_lsn - *lsn);
        if (piece.file != number)
            break;
        uint64_t size = piece.size_bytes;
        if (size > REDO_COPY_MAX_BYTES)
            size = REDO_COPY_MAX_BYTES;
        rc = filling->read(*lsn, filling->memory, size, filling->context);
        if (rc == FIRN_OK)
            rc = io_write(file, filling->memory, size, piece.offset);
        *lsn += size;
    }
    if (rc == FIRN_OK)
        rc = io_sync(file, IO_SYNC_ALL);
    firn_rc close_rc = io_file_close(file);
    return rc != FIRN_OK ? rc : close_rc;
}

static firn_rc fill_files(const struct filling *filling, uint64_t end_lsn)
{
    uint64_t lsn = filling->layout->origin_lsn;
    for (uint32_t i = 0; i < filling->layout->file_count && lsn < end_lsn; i++)
        FIRN_TRY(fill_file(filling, i, &lsn, end_lsn));
    return FIRN_OK;
}

firn_rc redo_create_from(const struct redo_options *options, const struct redo_copy_start *start,
                         uint64_t end_lsn, redo_copy_read *read, void *context)
{
    struct redo_layout layout;
    ASSERT(start->lsn % 8 == 0 && start->lsn <= end_lsn && end_lsn % 8 == 0);
    FIRN_TRY(redo_check_options(options));
    FIRN_TRY(choose_layout(options, start, end_lsn, &layout));
    FIRN_TRY(redo_check_absent(options));
    struct redo_checkpoint checkpoint = {
        .log = layout.number,
        .number = 1,
        .lsn = start->lsn,
        .epoch = start->epoch,
        .in_flight_bytes = start->in_flight_bytes,
    };
    struct filling filling = {.options = options,
                              .layout = &layout,
                              .read = read,
                              .context = context,
                              .memory =
                                  memory_alloc_aligned(REDO_COPY_MAX_BYTES, REDO_BLOCK_BYTES)};
    if (filling.memory == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to make a log");
    firn_rc rc = redo_files_make(options, &layout, &checkpoint);
    if (rc == FIRN_OK)
        rc = fill_files(&filling, redo_block_ceil(end_lsn));
    if (rc == FIRN_OK)
        rc = redo_files_install(options, &layout);
    memory_free(filling.memory);
    return rc;
}
