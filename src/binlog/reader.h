/*
 * reader.h -- reading a binary log: group by group, file after file.
 *
 * Events are handed out of whole groups only. It needs no environment: the files of one that is
 * open, of one that has crashed, or copies of some of them, may be read.
 */
#ifndef FIRN_BINLOG_READER_H
#define FIRN_BINLOG_READER_H

#include "base/rc.h"
#include "binlog/event.h"
#include "io/io.h"

struct binlog_reader;

struct binlog_reader_options {
    struct io_system *system;
    const char *path;
    bool is_directory;       /* with an index: its files are read one after another. Otherwise one
                                file of a binary log */
    uint64_t start_file;     /* of a directory: where to begin; 0: the oldest */
    uint64_t start_position; /* in the first file; 0: its first group */
    uint64_t start_time_us;  /* leave out groups before it */
    uint64_t start_number;   /* and below it */
};

/** What a reader has found out. */
struct binlog_where {
    const char *path; /* of the file; owned by the reader */
    uint64_t file;
    uint64_t offset; /* of the event that was handed out last, */
    uint64_t end;    /* and where it ends */
    bool is_last;    /* no file of the directory follows */
    uint8_t environment[16];
};

/**
 * Open.
 *
 * @param reader  set on success; binlog_reader_close
 * @return FIRN_OK; FIRN_E_NOT_FOUND (no binary log there), FIRN_E_INVALID (no binary log, no
 *         group begins at the position), FIRN_E_UNSUPPORTED (newer), FIRN_E_CORRUPT, FIRN_E_IO,
 *         FIRN_E_NOMEM
 */
firn_rc binlog_reader_open(const struct binlog_reader_options *options,
                           struct binlog_reader **reader);
void binlog_reader_close(struct binlog_reader *reader);

/**
 * Read the next event. BEGIN and COMMIT are around those of a group; ROTATE is passed over.
 *
 * @param event  set on success; its spans are valid until the next call
 * @return FIRN_OK; FIRN_E_NOT_FOUND without an error text: that is all there is; FIRN_E_CORRUPT: a
 *         group is damaged, a file truncated or missing; FIRN_E_IO, FIRN_E_NOMEM
 */
firn_rc binlog_reader_next(struct binlog_reader *reader, struct binlog_event *event);

/** Leave out the rest of the group whose BEGIN was handed out last. */
void binlog_reader_skip_group(struct binlog_reader *reader);

/** Where reading is. */
void binlog_reader_where(const struct binlog_reader *reader, struct binlog_where *where);

/** After the end: how many bytes lie behind the last whole group. Not 0: a group was not written
 * to its end; the environment completes it when it is opened. */
uint64_t binlog_reader_tail_bytes(const struct binlog_reader *reader);

#endif
