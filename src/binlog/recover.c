/*
 * Recovery: groups of the redo log are put into their places again, and the end is found.
 */
#include "binlog/binlog_internal.h"

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"

/* ---- Records of the redo log ---- */

static firn_rc raise_missing(const struct binlog *binlog, uint64_t file)
{
    char name[FILE_NAME_BYTES];
    return rc_raise(FIRN_E_CORRUPT,
                    "%s/%s is missing, and groups of it have to be completed: put it back, or, if "
                    "the binary log is lost, remove " BINLOG_INDEX_FILE
                    " and all binlog.NNNNNN, and a new one begins",
                    binlog->options.directory, file_name(file, name));
}

/* A group whose events lie in a file of their own. When that is gone the group is whole in its
   place: it was removed after the sync. */
static firn_rc redo_from_file(struct binlog *binlog, const struct group_place *place)
{
    struct io_file *events;
    struct binlog_event begin;
    uint64_t size_bytes = 0;
    firn_rc rc = group_file_open(binlog, place->txn_id, IO_OPEN_READ_ONLY, &events);
    if (rc == FIRN_OK) {
        rc = layout_group(binlog, place, span_of(NULL, 0), events);
        (void)io_file_close(events);
        return rc;
    }
    if (rc != FIRN_E_NOT_FOUND)
        return rc;
    if (place->file > binlog->last_file)
        return raise_missing(binlog, place->file);
    FIRN_TRY(layout_write(binlog));
    if (binlog->file != NULL && binlog->file_number != place->file)
        FIRN_TRY(layout_sync(binlog));
    FIRN_TRY(layout_open_file(binlog, place->file));
    FIRN_TRY(io_file_size(binlog->file, &size_bytes));
    rc = scan_group(binlog->file, place->offset, size_bytes, place->number, &begin);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "group %llu of the binary log in %s is not whole, and the file with the "
                        "events of transaction %llu is missing: restore the directory",
                        (unsigned long long)place->number, binlog->options.directory,
                        (unsigned long long)place->txn_id);
    return rc;
}

/* The files are gone as a whole: whoever removed them wants a new binary log, or this is a copy of
   an environment without them. */
static bool is_lost(const struct binlog *binlog, const struct group_place *place)
{
    return binlog->last_file == 0 && (place->file != 1 || place->offset != FILE_HEADER_BYTES);
}

firn_rc binlog_redo(struct binlog *binlog, const struct change *change)
{
    struct group_place place;
    struct span events;
    if (!record_get(change->payload, &place, &events))
        return rc_raise(FIRN_E_CORRUPT,
                        "the log has a group of the binary log that makes no sense");
    if (!binlog->saw_records && is_lost(binlog, &place))
        log_warning("the binary log in %s has no files: what was written into it before is not "
                    "there, and a new one begins",
                    binlog->options.directory);
    binlog->saw_records = true;
    binlog->tail = (struct tail){.file = place.file,
                                 .offset = group_end(&place),
                                 .last_number = place.number,
                                 .last_time_us = place.time_us};
    if (place.file < binlog->first_file || is_lost(binlog, &place))
        return FIRN_OK;
    bool begins = place.offset == FILE_HEADER_BYTES;
    if (binlog->last_file != 0 && place.file > binlog->last_file + begins)
        return raise_missing(binlog, binlog->last_file + 1);
    firn_rc rc = place.kind == RECORD_FILE ? redo_from_file(binlog, &place)
                                           : layout_group(binlog, &place, events, NULL);
    return rc == FIRN_E_NOT_FOUND ? raise_missing(binlog, place.file) : rc;
}

/* ---- The end ---- */

/* Where a file ends that was closed: its last group says so. */
static firn_rc read_end(struct binlog *binlog, uint64_t size_bytes, bool *is_found)
{
    uint8_t bytes[COMMIT_BYTES];
    struct binlog_event commit;
    *is_found = size_bytes == FILE_HEADER_BYTES;
    if (size_bytes < FILE_HEADER_BYTES + GROUP_FRAME_BYTES)
        return FIRN_OK;
    FIRN_TRY(io_read(binlog->file, bytes, sizeof bytes, size_bytes - COMMIT_BYTES));
    *is_found = binlog_event_get(span_of(bytes, sizeof bytes), &commit) &&
                commit.type == BINLOG_COMMIT && commit.position == size_bytes - COMMIT_BYTES;
    if (!*is_found)
        return FIRN_OK;
    binlog->tail.offset = size_bytes;
    binlog->tail.last_number = commit.number;
    binlog->tail.last_time_us = commit.time_us;
    return FIRN_OK;
}

/* Behind what is known there may be groups that the redo log does not have: binlog_sync=separate.
 */
static firn_rc scan_to_end(struct binlog *binlog, uint64_t size_bytes)
{
    struct tail *tail = &binlog->tail;
    struct binlog_event begin;
    firn_rc rc;
    while ((rc = scan_group(binlog->file, tail->offset, size_bytes, tail->last_number + 1,
                            &begin)) == FIRN_OK) {
        tail->offset += begin.group_bytes;
        tail->last_number = begin.number;
        tail->last_time_us = begin.time_us;
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* What lies behind the end was never whole. */
static firn_rc cut_off(struct binlog *binlog, uint64_t size_bytes)
{
    if (size_bytes > binlog->tail.offset)
        FIRN_TRY(io_file_set_size(binlog->file, binlog->tail.offset));
    binlog->needs_sync = true; /* also what a process that was killed had written */
    return layout_sync(binlog);
}

static firn_rc check_environment(struct binlog *binlog, const struct file_header *header)
{
    if (memcmp(header->environment, binlog->options.environment, sizeof header->environment) == 0)
        return FIRN_OK;
    return rc_raise(FIRN_E_CORRUPT,
                    "%s is of another environment: put the right binary log into %s",
                    io_file_path(binlog->file), binlog->options.directory);
}

static firn_rc find_end(struct binlog *binlog, bool was_clean)
{
    struct file_header header;
    uint64_t size_bytes;
    bool is_found = binlog->saw_records && binlog->tail.file == binlog->last_file;
    firn_rc rc = layout_open_file(binlog, binlog->last_file);
    if (rc == FIRN_E_NOT_FOUND)
        return raise_missing(binlog, binlog->last_file);
    FIRN_TRY(rc);
    FIRN_TRY(scan_header(binlog->file, binlog->last_file, &header));
    FIRN_TRY(check_environment(binlog, &header));
    FIRN_TRY(io_file_size(binlog->file, &size_bytes));
    if (!is_found)
        binlog->tail = (struct tail){.file = binlog->last_file,
                                     .offset = FILE_HEADER_BYTES,
                                     .last_number = header.first_number - 1,
                                     .last_time_us = header.first_time_us};
    if (was_clean) {
        FIRN_TRY(read_end(binlog, size_bytes, &is_found));
        binlog->end_is_doubtful = !is_found;
        return FIRN_OK;
    }
    FIRN_TRY(scan_to_end(binlog, size_bytes));
    return cut_off(binlog, size_bytes);
}

/* A file with nothing but a header was about to be named by the index when the power went. */
static firn_rc refuse_file(struct binlog *binlog, const char *name, void *context)
{
    uint64_t size_bytes = 0;
    (void)context;
    if (file_number_of(name) == 0)
        return FIRN_OK;
    FIRN_TRY(layout_open_file(binlog, file_number_of(name)));
    firn_rc rc = io_file_size(binlog->file, &size_bytes);
    layout_close_file(binlog);
    if (rc != FIRN_OK || size_bytes <= FILE_HEADER_BYTES)
        return rc;
    return rc_raise(FIRN_E_CORRUPT,
                    "%s has %s but no " BINLOG_INDEX_FILE
                    ": put that back, or move the binary log's files elsewhere",
                    binlog->options.directory, name);
}

firn_rc binlog_recovered(struct binlog *binlog, bool was_clean)
{
    if (!binlog->saw_records && !binlog->options.records && binlog->last_file == 0)
        return FIRN_OK;
    FIRN_TRY(layout_sync(binlog));
    if (binlog->last_file != 0)
        return find_end(binlog, was_clean);
    binlog->tail.file = 0; /* numbers of groups go on, those of files begin anew */
    binlog->tail.offset = 0;
    return index_each_entry(binlog, refuse_file, NULL);
}

/* ---- What only the prepared transactions tell ---- */

/* With binlog_sync=separate a group may have been written when nothing was in the redo log behind
   the checkpoint. Then its transaction is prepared. */
firn_rc recover_end(struct binlog *binlog, bool any_prepared)
{
    if (binlog->last_file != 0 && any_prepared)
        return find_end(binlog, false);
    if (!binlog->end_is_doubtful)
        return FIRN_OK;
    return rc_raise(FIRN_E_CORRUPT,
                    "%s does not end with a whole group, although the environment was closed: it "
                    "was truncated or damaged; restore it, or, if the binary log is lost, "
                    "remove " BINLOG_INDEX_FILE " and all binlog.NNNNNN, and a new one begins",
                    io_file_path(binlog->file));
}

firn_rc recover_find(struct binlog *binlog, const uint64_t *txn_ids, size_t count, bool *found)
{
    struct file_header header;
    struct binlog_event begin;
    uint64_t size_bytes, offset = FILE_HEADER_BYTES;
    firn_rc rc;
    memset(found, 0, count * sizeof *found);
    if (binlog->last_file == 0 || count == 0)
        return FIRN_OK;
    FIRN_TRY(layout_open_file(binlog, binlog->last_file));
    FIRN_TRY(scan_header(binlog->file, binlog->last_file, &header));
    FIRN_TRY(io_file_size(binlog->file, &size_bytes));
    while ((rc = scan_group(binlog->file, offset, size_bytes, 0, &begin)) == FIRN_OK) {
        for (size_t i = 0; i < count; i++)
            found[i] = found[i] || txn_ids[i] == begin.txn_id;
        offset += begin.group_bytes;
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}
