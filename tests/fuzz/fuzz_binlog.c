/*
 * Fuzz the reader of binary logs: whatever lies in the files, it ends, and what it hands out is
 * whole. Bytes are laid over a sound log; checksums are mended where asked, so that what is behind
 * them is reached.
 */
#include "base/check.h"
#include "base/checksum.h"
#include "base/endian.h"
#include "binlog/format_internal.h"
#include "binlog/reader.h"
#include "io/fault.h"

#include <stdint.h>
#include <string.h>

enum { LOG_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static size_t put_group(uint8_t *log, size_t at, uint64_t number)
{
    struct digest digest = {.at = 0};
    struct span payload = span_of("payload", 7);
    uint8_t *events = log + at + BEGIN_BYTES;
    size_t size = tree_event_bytes(9, 4);
    tree_event_put(events, 9, span_of("tree", 4));
    size_t row = (size_t)row_event_bytes(9, span_of("key", 3), &payload, &payload);
    row_event_put(events + size, row, 9, span_of("key", 3), &payload, &payload);
    size += row;
    digest_add(&digest, span_of(events, size));
    struct group_place place = {.kind = RECORD_INLINE,
                                .file = 1,
                                .offset = at,
                                .number = number,
                                .time_us = number,
                                .txn_id = number,
                                .events_bytes = size};
    place_begin(log + at, &place);
    place_commit(events + size, &place, &digest);
    return group_end(&place);
}

static size_t make_log(uint8_t log[LOG_BYTES])
{
    static const uint8_t environment[16] = "fuzz";
    struct group_place first = {.file = 1, .number = 1, .time_us = 1};
    size_t size = FILE_HEADER_BYTES;
    place_header(log, &first, environment);
    for (uint64_t number = 1; number < 8; number++)
        size = put_group(log, size, number);
    rotate_put(log + size, size, 2);
    return size + ROTATE_BYTES;
}

/* The event or header that the bytes were laid over gets the checksum that it would have. */
static void mend(uint8_t *log, size_t size, size_t at)
{
    size_t event = FILE_HEADER_BYTES;
    if (at < FILE_HEADER_BYTES) {
        put_u32(log + 8, checksum_crc32c(log + 12, FILE_HEADER_BYTES - 12));
        return;
    }
    while (event + EVENT_HEADER_BYTES <= size) {
        uint32_t length = event_size(log + event);
        if (length < EVENT_HEADER_BYTES || length > size - event)
            return;
        if (at < event + length) {
            event_seal(log + event, length, (enum binlog_event_type)log[event + 8]);
            return;
        }
        event += length;
    }
}

static void read_all(struct io_system *system, uint64_t position)
{
    struct binlog_reader_options options = {
        .system = system, .path = "/binlog.000001", .start_position = position};
    struct binlog_reader *reader;
    struct binlog_event event;
    volatile uint8_t sum = 0;
    if (binlog_reader_open(&options, &reader) != FIRN_OK)
        return;
    unsigned count = 0;
    while (binlog_reader_next(reader, &event) == FIRN_OK) {
        const struct span spans[] = {event.name, event.key, event.before, event.after, event.text};
        for (unsigned i = 0; i < ARRAY_COUNT(spans); i++)
            for (size_t j = 0; j < spans[i].size_bytes; j++)
                sum = sum ^ spans[i].bytes[j]; /* for the address sanitizer */
        ENSURE(++count <= LOG_BYTES / EVENT_HEADER_BYTES);
    }
    ENSURE(binlog_reader_tail_bytes(reader) <= LOG_BYTES);
    binlog_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static uint8_t log[LOG_BYTES];
    struct sim_disk_options options = {.sector_bytes = 512};
    struct io_system *system;
    struct sim_disk *disk;
    struct io_file *file;
    if (size_bytes < 4)
        return 0;
    size_t size = make_log(log);
    size_t at = get_u16(data) % size;
    size_t used = size_bytes - 3 < size - at ? size_bytes - 3 : size - at;
    memcpy(log + at, data + 3, used);
    if (data[2] & 1)
        mend(log, size, at);
    if (data[2] & 2)
        size -= data[2] >> 2;
    ENSURE(sim_disk_create(&options, &disk) == FIRN_OK);
    ENSURE(sim_disk_open_system(disk, clock_real(), 1, &system) == FIRN_OK);
    ENSURE(io_file_open(system, IO_CLASS_BINLOG, "/binlog.000001", IO_OPEN_CREATE, &file) ==
           FIRN_OK);
    ENSURE(io_write(file, log, size, 0) == FIRN_OK);
    ENSURE(io_file_close(file) == FIRN_OK);
    read_all(system, 0);
    read_all(system, FILE_HEADER_BYTES + data[2]);
    io_system_close(system);
    sim_disk_destroy(disk);
    return 0;
}
