/*
 * format_internal.h -- the log's bytes on disk. FORMAT.md has the tables.
 */
#ifndef FIRN_REDO_FORMAT_INTERNAL_H
#define FIRN_REDO_FORMAT_INTERNAL_H

#include "base/endian.h"
#include "base/rc.h"
#include "base/span.h"
#include "redo/redo.h"

#include <stdbool.h>

enum {
    REDO_FORMAT_VERSION = 1,
    REDO_BLOCK_BYTES = 4096,                   /* requests are whole blocks */
    REDO_HEADER_AREA_BYTES = 16384,            /* of each file, before its part of the stream */
    REDO_CHECKPOINT_OFFSET = REDO_BLOCK_BYTES, /* in file 0, two blocks one behind the other */
    REDO_CHECKPOINT_COPIES = 2,
    REDO_CONTROL_BYTES = 16, /* body of the frame that begins an epoch */
};

#define REDO_FILE_SIZE_MIN_BYTES  (UINT64_C(4) << 20)
#define REDO_FILE_SIZE_UNIT_BYTES (UINT64_C(1) << 20)
/* No log gets there (a GiB a second for a century is 2^61); sums of such numbers do not overflow.
 */
#define REDO_LSN_LIMIT       (UINT64_C(1) << 62)
#define REDO_FRAME_MAX_BYTES ((uint64_t)REDO_FRAME_HEADER_BYTES + REDO_FRAME_BODY_MAX)

/* ---- Where an LSN lies ---- */

/** How the stream is laid out in files. */
struct redo_layout {
    uint64_t number;     /* of the log: each resizing makes the next */
    uint64_t origin_lsn; /* lies at the beginning of file 0's data; a multiple of a block */
    uint64_t file_size_bytes;
    uint32_t file_count;
};

/** @return the bytes of the stream that a file holds. */
static inline uint64_t redo_file_data_bytes(const struct redo_layout *layout)
{
    return layout->file_size_bytes - REDO_HEADER_AREA_BYTES;
}

/** @return the bytes of the stream that all files hold. */
static inline uint64_t redo_ring_bytes(const struct redo_layout *layout)
{
    return redo_file_data_bytes(layout) * layout->file_count;
}

/** @return where the block that an LSN lies in begins. */
static inline uint64_t redo_block_floor(uint64_t lsn)
{
    return lsn & ~(uint64_t)(REDO_BLOCK_BYTES - 1);
}

/** @return the first beginning of a block at or behind an LSN. */
static inline uint64_t redo_block_ceil(uint64_t lsn)
{
    return redo_block_floor(lsn + REDO_BLOCK_BYTES - 1);
}

/** A stretch of the stream that lies in one piece in one file. */
struct redo_piece {
    uint32_t file;
    uint64_t offset;
    uint64_t size_bytes;
};

/** Find the beginning of [lsn, lsn + size_bytes), cut off where its file ends. */
struct redo_piece redo_locate(const struct redo_layout *layout, uint64_t lsn, uint64_t size_bytes);

/* ---- File headers and checkpoints: a block each ---- */

struct redo_file_header {
    uint8_t environment[16];
    struct redo_layout layout;
    uint32_t file;
};

struct redo_checkpoint {
    uint64_t log;    /* the number of the log it belongs to */
    uint64_t number; /* each checkpoint has the next */
    uint64_t lsn;
    uint64_t epoch;           /* that the frame at the LSN is sealed with ... */
    uint64_t in_flight_bytes; /* ... and what its writer promised: see struct redo_control */
};

/** Encode a block, checksum and version included. */
void redo_put_file_header(uint8_t block[REDO_BLOCK_BYTES], const struct redo_file_header *header);
void redo_put_checkpoint(uint8_t block[REDO_BLOCK_BYTES], const struct redo_checkpoint *checkpoint);

/** @return the version that a block says it is of. */
uint32_t redo_block_version(const uint8_t block[REDO_BLOCK_BYTES]);

/** @return FIRN_OK; FIRN_E_CORRUPT, FIRN_E_UNSUPPORTED (another version, whole), without an error
 * text */
firn_rc redo_get_file_header(const uint8_t block[REDO_BLOCK_BYTES],
                             struct redo_file_header *header);
firn_rc redo_get_checkpoint(const uint8_t block[REDO_BLOCK_BYTES],
                            struct redo_checkpoint *checkpoint);

/* ---- Frames ---- */

/** The header of a frame, decoded. */
struct redo_frame {
    uint32_t checksum;
    uint32_t size_bytes; /* of the body */
    bool is_control;
    uint32_t lsn_low; /* LSN / 8, its low bits */
    uint32_t
        durable_gap; /* (LSN - what was durable when it was written) / 8; UINT32_MAX: unknown */
};

/** @return the bytes that a frame with such a body takes in the stream. */
static inline uint64_t redo_frame_bytes(uint64_t body_bytes)
{
    return (REDO_FRAME_HEADER_BYTES + body_bytes + 7) & ~UINT64_C(7);
}

/** @return the size of the body by the size word of a header, as it stands in memory. */
uint32_t redo_frame_body_bytes(uint32_t size_word);

/** Encode a header and fill in its checksum, which covers epoch, LSN, the rest of the header and
 * the body. */
void redo_put_frame(uint8_t header[REDO_FRAME_HEADER_BYTES], uint64_t epoch, uint64_t lsn,
                    uint64_t durable_lsn, bool is_control, struct span body);

/** Decode a header. @return false if no frame at the LSN has such a one */
bool redo_get_frame(const uint8_t header[REDO_FRAME_HEADER_BYTES], uint64_t lsn,
                    struct redo_frame *frame);

/** @return true if header and body are a frame of that epoch and LSN, whole. */
bool redo_frame_is_whole(const uint8_t header[REDO_FRAME_HEADER_BYTES], uint64_t epoch,
                         uint64_t lsn, const uint8_t *body, uint32_t size_bytes);

/** @return what was durable when a frame was written, as it says; 0 if it does not. */
static inline uint64_t redo_frame_durable_lsn(const struct redo_frame *frame, uint64_t lsn)
{
    uint64_t gap = (uint64_t)frame->durable_gap * 8;
    return frame->durable_gap == UINT32_MAX || gap > lsn ? 0 : lsn - gap;
}

/** The body of a control frame: from its end on frames are of this epoch, until the next. */
struct redo_control {
    uint64_t epoch;
    uint64_t in_flight_bytes; /* the stream is never reserved further than this beyond what is
                                 durable, one frame apart */
};

/** Encode and decode such a body. redo_get_control returns false if it is none. */
void redo_put_control(uint8_t body[REDO_CONTROL_BYTES], const struct redo_control *control);
bool redo_get_control(struct span body, struct redo_control *control);

#endif
