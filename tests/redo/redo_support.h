/*
 * redo_support.h -- what the tests of the log share: a log on a simulated disk, frames whose bytes
 * follow from their number, and reading them back.
 */
#ifndef FIRN_TESTS_REDO_SUPPORT_H
#define FIRN_TESTS_REDO_SUPPORT_H

#include "base/endian.h"
#include "base/rng.h"
#include "redo/redo.h"

#include "io/sim_support.h"

enum { LOG_FILE_BYTES = 4 << 20, FRAME_HEAD_BYTES = 12, FRAME_BODY_BYTES_MAX = 4 << 20 };

/** A log and what it lies on. */
struct log {
    struct sim_disk *disk;
    struct io_system *system;
    struct redo_options options;
    struct redo *redo;
    uint64_t end_lsn; /* of the last frame that was read or appended */
};

static inline struct redo_options log_options(struct io_system *system)
{
    return (struct redo_options){
        .system = system,
        .directory = "log",
        .file_size_bytes = LOG_FILE_BYTES,
        .file_count = 2,
        .buffer_size_bytes = 1 << 20,
        .environment = "an environment!",
        .direct = true,
    };
}

/** Make an empty log on a disk, its directory durable. */
static inline void log_make(struct log *log)
{
    *log = (struct log){.disk = disk_make()};
    log->system = disk_open(log->disk, 1);
    ASSERT_OK(io_make_directory(log->system, "log"));
    ASSERT_OK(io_sync_directory(log->system, "/"));
    log->options = log_options(log->system);
    ASSERT_OK(redo_create(&log->options, REDO_FIRST_LSN));
}

/* ---- Frames ---- */

/** @return the size of the n-th frame's body: mostly small, some of several blocks. */
static inline uint32_t frame_body_bytes(uint64_t number)
{
    struct rng rng;
    rng_init(&rng, number);
    uint64_t kind = rng_below(&rng, 16);
    uint64_t limit = kind == 0 ? 40000 : kind < 4 ? 3000 : 200;
    return (uint32_t)(FRAME_HEAD_BYTES + rng_below(&rng, limit));
}

/** Fill a body: its number, its size, then bytes that follow from the number. */
static inline struct span frame_fill(uint64_t number, uint32_t size_bytes, uint8_t *bytes)
{
    put_u64(bytes, number);
    put_u32(bytes + 8, size_bytes);
    for (uint32_t i = FRAME_HEAD_BYTES; i < size_bytes; i++)
        bytes[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
    return span_of(bytes, size_bytes);
}

/** @return the number of a frame that was read; fails if its bytes are not that frame's. */
static inline uint64_t frame_judge(struct span body)
{
    assert_true(body.size_bytes >= FRAME_HEAD_BYTES);
    uint64_t number = get_u64(body.bytes);
    assert_int_equal(get_u32(body.bytes + 8), body.size_bytes);
    for (uint32_t i = FRAME_HEAD_BYTES; i < body.size_bytes; i++)
        if (body.bytes[i] != (uint8_t)(number * 31 + i * 7 + (i >> 8)))
            fail_msg("frame %llu is wrong at byte %u", (unsigned long long)number, i);
    return number;
}

/** Append the n-th frame with a size. */
static inline firn_rc log_append_sized(struct redo *redo, uint64_t number, uint32_t size_bytes,
                                       uint64_t *end_lsn)
{
    uint8_t *bytes = malloc(size_bytes);
    firn_rc rc = redo_append(redo, frame_fill(number, size_bytes, bytes), end_lsn);
    free(bytes);
    return rc;
}

/** Ask for room and append the n-th frame. */
static inline firn_rc log_append(struct redo *redo, uint64_t number, uint64_t *end_lsn)
{
    struct redo_room room = {0};
    firn_rc rc = redo_reserve(redo, frame_body_bytes(number), &room);
    if (rc == FIRN_OK)
        rc = log_append_sized(redo, number, frame_body_bytes(number), end_lsn);
    redo_unreserve(redo, &room);
    return rc;
}

/* ---- Reading ---- */

/** What reading a log came upon. */
struct log_content {
    uint64_t frames;
    uint64_t first; /* their numbers, which must follow one another */
    uint64_t last;
    uint64_t end_lsn;
};

/** Read from the checkpoint on. @return what reading ended with, FIRN_E_NOT_FOUND at the end */
static inline firn_rc log_read(struct redo *redo, struct log_content *content)
{
    struct redo_reader *reader;
    struct span body;
    uint64_t lsn, end_lsn;
    *content = (struct log_content){.end_lsn = redo_checkpoint_lsn(redo)};
    firn_rc rc = redo_reader_open(redo, redo_checkpoint_lsn(redo), &reader);
    if (rc != FIRN_OK)
        return rc;
    while ((rc = redo_reader_next(reader, &body, &lsn, &end_lsn)) == FIRN_OK) {
        uint64_t number = frame_judge(body);
        assert_true(lsn >= content->end_lsn && end_lsn > lsn);
        if (content->frames++ == 0)
            content->first = number;
        else
            assert_int_equal(number, content->last + 1);
        content->last = number;
        content->end_lsn = end_lsn;
    }
    redo_reader_close(reader);
    return rc;
}

/** Open a log, read it and let appending begin. */
static inline void log_start(struct log *log, struct log_content *content)
{
    ASSERT_OK(redo_open(&log->options, &log->redo));
    firn_rc rc = log_read(log->redo, content);
    if (rc != FIRN_E_NOT_FOUND)
        ASSERT_OK(rc);
    ASSERT_OK(redo_recovered(log->redo, content->end_lsn));
}

static inline void log_close(struct log *log)
{
    ASSERT_OK(redo_close(log->redo));
    log->redo = NULL;
}

static inline void log_destroy(struct log *log)
{
    (void)redo_close(log->redo);
    io_system_close(log->system);
    sim_disk_destroy(log->disk);
}

#endif
