#include "redo/format_internal.h"

#include "base/check.h"
#include "base/checksum.h"

#include <string.h>

/* File headers and checkpoints begin alike, so that a later format can be told from damage: magic,
   checksum of the block behind these twelve bytes, version. */
enum { BLOCK_CHECKSUM = 8, BLOCK_VERSION = 12, BLOCK_BODY = 16 };

enum {
    HEADER_ENVIRONMENT = BLOCK_BODY,
    HEADER_NUMBER = 32,
    HEADER_ORIGIN = 40,
    HEADER_FILE_SIZE = 48,
    HEADER_FILE_COUNT = 56,
    HEADER_FILE = 60,
    HEADER_END = 64,
};

enum {
    CHECKPOINT_LOG = BLOCK_BODY,
    CHECKPOINT_NUMBER = 24,
    CHECKPOINT_LSN = 32,
    CHECKPOINT_EPOCH = 40,
    CHECKPOINT_IN_FLIGHT = 48,
    CHECKPOINT_END = 56,
};

enum { FRAME_CHECKSUM = 0, FRAME_SIZE = 4, FRAME_LSN = 8, FRAME_GAP = 12, FRAME_END = 16 };

#define FRAME_CONTROL_BIT (UINT32_C(1) << 31)

_Static_assert(HEADER_ENVIRONMENT + 16 == HEADER_NUMBER, "an environment's id has 16 bytes");
_Static_assert(HEADER_END <= 512, "a header that one sector holds is never torn");
_Static_assert(CHECKPOINT_END <= 512, "a checkpoint that one sector holds is never torn");
_Static_assert((int)FRAME_END == (int)REDO_FRAME_HEADER_BYTES, "the frame header's size is public");
_Static_assert(REDO_FRAME_HEADER_BYTES % 8 == 0, "frames begin at multiples of 8");
_Static_assert(REDO_FRAME_BODY_MAX < (1U << 31), "the control bit is no part of a size");
_Static_assert(REDO_CHECKPOINT_OFFSET + REDO_CHECKPOINT_COPIES * REDO_BLOCK_BYTES <=
                   REDO_HEADER_AREA_BYTES,
               "checkpoints lie before the stream");
_Static_assert(REDO_HEADER_AREA_BYTES % REDO_BLOCK_BYTES == 0, "the stream begins at a block");

static const uint8_t header_magic[8] = "FIRNREDO";
static const uint8_t checkpoint_magic[8] = "FIRNCKPT";

struct redo_piece redo_locate(const struct redo_layout *layout, uint64_t lsn, uint64_t size_bytes)
{
    ASSERT(lsn >= layout->origin_lsn && size_bytes > 0);
    uint64_t data_bytes = redo_file_data_bytes(layout);
    uint64_t at = (lsn - layout->origin_lsn) % redo_ring_bytes(layout);
    uint64_t in_file = at % data_bytes;
    uint64_t left = data_bytes - in_file;
    return (struct redo_piece){.file = (uint32_t)(at / data_bytes),
                               .offset = REDO_HEADER_AREA_BYTES + in_file,
                               .size_bytes = size_bytes < left ? size_bytes : left};
}

/* ---- Blocks ---- */

static uint32_t block_checksum(const uint8_t *block)
{
    return checksum_crc32c(block + BLOCK_VERSION, REDO_BLOCK_BYTES - BLOCK_VERSION);
}

static void begin_block(uint8_t *block, const uint8_t magic[8])
{
    memset(block, 0, REDO_BLOCK_BYTES);
    memcpy(block, magic, 8);
    put_u32(block + BLOCK_VERSION, REDO_FORMAT_VERSION);
}

static firn_rc judge_block(const uint8_t *block, const uint8_t magic[8])
{
    if (memcmp(block, magic, 8) != 0 || get_u32(block + BLOCK_CHECKSUM) != block_checksum(block))
        return FIRN_E_CORRUPT;
    return get_u32(block + BLOCK_VERSION) == REDO_FORMAT_VERSION ? FIRN_OK : FIRN_E_UNSUPPORTED;
}

uint32_t redo_block_version(const uint8_t block[REDO_BLOCK_BYTES])
{
    return get_u32(block + BLOCK_VERSION);
}

void redo_put_file_header(uint8_t block[REDO_BLOCK_BYTES], const struct redo_file_header *header)
{
    begin_block(block, header_magic);
    memcpy(block + HEADER_ENVIRONMENT, header->environment, sizeof(header->environment));
    put_u64(block + HEADER_NUMBER, header->layout.number);
    put_u64(block + HEADER_ORIGIN, header->layout.origin_lsn);
    put_u64(block + HEADER_FILE_SIZE, header->layout.file_size_bytes);
    put_u32(block + HEADER_FILE_COUNT, header->layout.file_count);
    put_u32(block + HEADER_FILE, header->file);
    put_u32(block + BLOCK_CHECKSUM, block_checksum(block));
}

static bool layout_is_possible(const struct redo_layout *layout)
{
    return layout->file_count >= 2 && layout->file_count <= 100 &&
           layout->file_size_bytes >= REDO_FILE_SIZE_MIN_BYTES &&
           layout->file_size_bytes <= UINT64_C(1) << 56 &&
           layout->file_size_bytes % REDO_FILE_SIZE_UNIT_BYTES == 0 &&
           layout->origin_lsn % REDO_BLOCK_BYTES == 0 && layout->origin_lsn < REDO_LSN_LIMIT;
}

firn_rc redo_get_file_header(const uint8_t block[REDO_BLOCK_BYTES], struct redo_file_header *header)
{
    FIRN_TRY(judge_block(block, header_magic));
    struct redo_file_header got = {
        .layout = {.number = get_u64(block + HEADER_NUMBER),
                   .origin_lsn = get_u64(block + HEADER_ORIGIN),
                   .file_size_bytes = get_u64(block + HEADER_FILE_SIZE),
                   .file_count = get_u32(block + HEADER_FILE_COUNT)},
        .file = get_u32(block + HEADER_FILE),
    };
    memcpy(got.environment, block + HEADER_ENVIRONMENT, sizeof(got.environment));
    if (!layout_is_possible(&got.layout) || got.file >= got.layout.file_count)
        return FIRN_E_CORRUPT;
    *header = got;
    return FIRN_OK;
}

void redo_put_checkpoint(uint8_t block[REDO_BLOCK_BYTES], const struct redo_checkpoint *checkpoint)
{
    begin_block(block, checkpoint_magic);
    put_u64(block + CHECKPOINT_LOG, checkpoint->log);
    put_u64(block + CHECKPOINT_NUMBER, checkpoint->number);
    put_u64(block + CHECKPOINT_LSN, checkpoint->lsn);
    put_u64(block + CHECKPOINT_EPOCH, checkpoint->epoch);
    put_u64(block + CHECKPOINT_IN_FLIGHT, checkpoint->in_flight_bytes);
    put_u32(block + BLOCK_CHECKSUM, block_checksum(block));
}

firn_rc redo_get_checkpoint(const uint8_t block[REDO_BLOCK_BYTES],
                            struct redo_checkpoint *checkpoint)
{
    FIRN_TRY(judge_block(block, checkpoint_magic));
    struct redo_checkpoint got = {
        .log = get_u64(block + CHECKPOINT_LOG),
        .number = get_u64(block + CHECKPOINT_NUMBER),
        .lsn = get_u64(block + CHECKPOINT_LSN),
        .epoch = get_u64(block + CHECKPOINT_EPOCH),
        .in_flight_bytes = get_u64(block + CHECKPOINT_IN_FLIGHT),
    };
    if (got.lsn % 8 != 0 || got.lsn >= REDO_LSN_LIMIT || got.epoch >= REDO_LSN_LIMIT)
        return FIRN_E_CORRUPT;
    *checkpoint = got;
    return FIRN_OK;
}

/* ---- Frames ---- */

static uint32_t frame_checksum(const uint8_t *header, uint64_t epoch, uint64_t lsn,
                               const uint8_t *body, size_t size_bytes)
{
    uint8_t head[8 + 8 + FRAME_END - FRAME_SIZE];
    put_u64(head, epoch);
    put_u64(head + 8, lsn);
    memcpy(head + 16, header + FRAME_SIZE, FRAME_END - FRAME_SIZE);
    return checksum_crc32c_extend(checksum_crc32c(head, sizeof(head)), body, size_bytes);
}

void redo_put_frame(uint8_t header[REDO_FRAME_HEADER_BYTES], uint64_t epoch, uint64_t lsn,
                    uint64_t durable_lsn, bool is_control, struct span body)
{
    ASSERT(lsn % 8 == 0 && durable_lsn % 8 == 0 && durable_lsn <= lsn);
    ASSERT(body.size_bytes > 0 && body.size_bytes <= REDO_FRAME_BODY_MAX);
    uint64_t gap = (lsn - durable_lsn) / 8;
    put_u32(header + FRAME_SIZE, (uint32_t)body.size_bytes | (is_control ? FRAME_CONTROL_BIT : 0));
    put_u32(header + FRAME_LSN, (uint32_t)(lsn / 8));
    put_u32(header + FRAME_GAP, gap < UINT32_MAX ? (uint32_t)gap : UINT32_MAX);
    put_u32(header + FRAME_CHECKSUM,
            frame_checksum(header, epoch, lsn, body.bytes, body.size_bytes));
}

uint32_t redo_frame_body_bytes(uint32_t size_word)
{
    return le32toh(size_word) & ~FRAME_CONTROL_BIT;
}

bool redo_get_frame(const uint8_t header[REDO_FRAME_HEADER_BYTES], uint64_t lsn,
                    struct redo_frame *frame)
{
    uint32_t size = get_u32(header + FRAME_SIZE);
    struct redo_frame got = {
        .checksum = get_u32(header + FRAME_CHECKSUM),
        .size_bytes = size & ~FRAME_CONTROL_BIT,
        .is_control = (size & FRAME_CONTROL_BIT) != 0,
        .lsn_low = get_u32(header + FRAME_LSN),
        .durable_gap = get_u32(header + FRAME_GAP),
    };
    if (got.lsn_low != (uint32_t)(lsn / 8) || got.size_bytes == 0 ||
        got.size_bytes > REDO_FRAME_BODY_MAX)
        return false;
    *frame = got;
    return true;
}

bool redo_frame_is_whole(const uint8_t header[REDO_FRAME_HEADER_BYTES], uint64_t epoch,
                         uint64_t lsn, const uint8_t *body, uint32_t size_bytes)
{
    return get_u32(header + FRAME_CHECKSUM) == frame_checksum(header, epoch, lsn, body, size_bytes);
}

void redo_put_control(uint8_t body[REDO_CONTROL_BYTES], const struct redo_control *control)
{
    put_u64(body, control->epoch);
    put_u64(body + 8, control->in_flight_bytes);
}

bool redo_get_control(struct span body, struct redo_control *control)
{
    if (body.size_bytes != REDO_CONTROL_BYTES)
        return false;
    control->epoch = get_u64(body.bytes);
    control->in_flight_bytes = get_u64(body.bytes + 8);
    return true;
}
