/* Any bytes in a log's files are a log, or are told not to be one: opening and reading end, and
   what is read lies within the log. The input is laid over a sound log at an offset that its first
   bytes choose, and the checksums of what it hits are made to fit, else nothing behind them is
   reached. */
#include "base/check.h"
#include "base/checksum.h"
#include "base/endian.h"
#include "io/fault.h"
#include "redo/redo.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { FILE_BYTES = 4 << 20, AREA_BYTES = 16384, STREAM_BYTES = 8192 };

static struct redo_options options_for(struct io_system *system)
{
    return (struct redo_options){.system = system,
                                 .directory = "",
                                 .file_size_bytes = FILE_BYTES,
                                 .file_count = 2,
                                 .buffer_size_bytes = 1 << 20,
                                 .environment = "fuzz"};
}

/* A disk with a log of some frames, made once. */
static struct sim_disk *sound_disk(void)
{
    static struct sim_disk *disk;
    struct io_system *system;
    struct redo *redo;
    if (disk != NULL)
        return disk;
    struct sim_disk_options options = {.sector_bytes = 512};
    ENSURE(sim_disk_create(&options, &disk) == FIRN_OK);
    ENSURE(sim_disk_open_system(disk, clock_real(), 1, &system) == FIRN_OK);
    struct redo_options redo_options = options_for(system);
    ENSURE(redo_create(&redo_options, REDO_FIRST_LSN) == FIRN_OK);
    ENSURE(redo_open(&redo_options, &redo) == FIRN_OK);
    ENSURE(redo_recovered(redo, REDO_FIRST_LSN) == FIRN_OK);
    for (uint8_t i = 1; i < 20; i++) {
        uint8_t body[300];
        uint64_t end_lsn;
        memset(body, i, sizeof(body));
        ENSURE(redo_append(redo, span_of(body, i * 15U), &end_lsn) == FIRN_OK);
        ENSURE(redo_tick(redo) == FIRN_OK);
    }
    ENSURE(redo_close(redo) == FIRN_OK);
    io_system_close(system);
    return disk;
}

/* Blocks of the header area: a checksum of what follows it at offset 8. */
static void mend_block(uint8_t *block)
{
    put_u32(block + 8, checksum_crc32c(block + 12, 4096 - 12));
}

/* The frame at an LSN, sealed with the epoch of the first life. */
static void mend_frame(uint8_t *frame, uint64_t lsn, uint64_t epoch)
{
    uint8_t seed[28];
    uint32_t size = get_u32(frame + 4) & 0x7fffffff;
    if (size > STREAM_BYTES)
        return;
    put_u32(frame + 8, (uint32_t)(lsn / 8));
    put_u64(seed, epoch);
    put_u64(seed + 8, lsn);
    memcpy(seed + 16, frame + 4, 12);
    put_u32(frame, checksum_crc32c_extend(checksum_crc32c(seed, 28), frame + 16, size));
}

static void lay_over(struct io_system *system, const uint8_t *data, size_t size_bytes)
{
    struct io_file *file;
    static uint8_t bytes[AREA_BYTES + 2 * STREAM_BYTES];
    ENSURE(io_file_open(system, IO_CLASS_REDO, "/firn_redo.0", 0, &file) == FIRN_OK);
    ENSURE(io_read(file, bytes, sizeof(bytes), 0) == FIRN_OK);
    size_t at = get_u16(data) % (AREA_BYTES + STREAM_BYTES);
    bool mends = (data[2] & 1) != 0;
    size_t used = size_bytes - 3 < STREAM_BYTES ? size_bytes - 3 : STREAM_BYTES;
    memcpy(bytes + at, data + 3, used);
    for (size_t block = 0; mends && block < 3; block++)
        if (at < (block + 1) * 4096 && at + used > block * 4096)
            mend_block(bytes + block * 4096);
    /* The first frame begins an epoch, the next one is the first of the second. */
    if (mends && at >= AREA_BYTES && at < AREA_BYTES + STREAM_BYTES) {
        size_t frame = at & ~(size_t)7;
        mend_frame(bytes + frame, REDO_FIRST_LSN + frame - AREA_BYTES, frame == AREA_BYTES ? 1 : 2);
    }
    ENSURE(io_write(file, bytes, sizeof(bytes), 0) == FIRN_OK);
    ENSURE(io_file_close(file) == FIRN_OK);
}

static void read_all(struct redo *redo)
{
    struct redo_reader *reader;
    struct span body;
    uint64_t lsn, end_lsn;
    uint64_t last = redo_checkpoint_lsn(redo);
    if (redo_reader_open(redo, last, &reader) != FIRN_OK)
        return;
    firn_rc rc;
    while ((rc = redo_reader_next(reader, &body, &lsn, &end_lsn)) == FIRN_OK) {
        ENSURE(lsn >= last && end_lsn >= lsn + REDO_FRAME_HEADER_BYTES + body.size_bytes);
        ENSURE(body.size_bytes <= REDO_FRAME_BODY_MAX);
        volatile uint8_t sum = 0;
        for (size_t i = 0; i < body.size_bytes; i++)
            sum = sum ^ body.bytes[i]; /* for the address sanitizer */
        last = end_lsn;
    }
    redo_reader_close(reader);
    if (rc == FIRN_E_NOT_FOUND)
        (void)redo_recovered(redo, last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct io_system *system;
    struct redo *redo;
    if (size_bytes < 4)
        return 0;
    struct sim_disk *disk = sim_disk_clone(sound_disk());
    ENSURE(sim_disk_open_system(disk, clock_real(), 1, &system) == FIRN_OK);
    lay_over(system, data, size_bytes);
    struct redo_options options = options_for(system);
    if (redo_open(&options, &redo) == FIRN_OK) {
        read_all(redo);
        ENSURE(redo_close(redo) == FIRN_OK);
    }
    io_system_close(system);
    sim_disk_destroy(disk);
    return 0;
}
