/*
 * Looking at files: is there a whole group at an offset?
 */
#include "binlog/format_internal.h"

#include "base/memory.h"
#include "io/io.h"

#include <stdio.h>

enum { PIECE_BYTES = 64 << 10 };

char *binlog_path(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = memory_alloc(size);
    if (path == NULL)
        rc_raise(FIRN_E_NOMEM, "no memory for the name of a file of the binary log");
    else
        snprintf(path, size, "%s/%s", directory, name);
    return path;
}

static bool commit_fits(const struct binlog_event *commit, const struct binlog_event *begin,
                        const struct digest *digest)
{
    return commit->type == BINLOG_COMMIT && commit->number == begin->number &&
           commit->time_us == begin->time_us &&
           commit->position == begin->position + begin->group_bytes - COMMIT_BYTES &&
           commit->events == digest->events && commit->digest == digest->checksum &&
           digest_is_whole(digest);
}

static firn_rc judge_rest(struct io_file *file, const struct binlog_event *begin, uint8_t *piece)
{
    struct digest digest = {.at = 0};
    struct binlog_event commit;
    uint64_t end = begin->position + begin->group_bytes - COMMIT_BYTES;
    for (uint64_t at = begin->position + BEGIN_BYTES; at < end && !digest.is_wrong;) {
        size_t step = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
        FIRN_TRY(io_read(file, piece, step, at));
        digest_add(&digest, span_of(piece, step));
        at += step;
    }
    FIRN_TRY(io_read(file, piece, COMMIT_BYTES, end));
    bool is_whole = binlog_event_get(span_of(piece, COMMIT_BYTES), &commit) &&
                    commit_fits(&commit, begin, &digest);
    return is_whole ? FIRN_OK : FIRN_E_NOT_FOUND;
}

firn_rc scan_group(struct io_file *file, uint64_t offset, uint64_t size_bytes, uint64_t number,
                   struct binlog_event *begin)
{
    uint8_t bytes[BEGIN_BYTES];
    struct binlog_event found;
    if (offset > size_bytes || size_bytes - offset < GROUP_FRAME_BYTES)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(io_read(file, bytes, sizeof bytes, offset));
    if (!binlog_event_get(span_of(bytes, sizeof bytes), &found) || found.type != BINLOG_BEGIN ||
        found.position != offset || found.group_bytes > size_bytes - offset ||
        (number != 0 && found.number != number))
        return FIRN_E_NOT_FOUND;
    uint8_t *piece = memory_alloc(PIECE_BYTES);
    if (piece == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to read %s", io_file_path(file));
    firn_rc rc = judge_rest(file, &found, piece);
    memory_free(piece);
    if (rc == FIRN_OK)
        *begin = found;
    return rc;
}

static firn_rc raise_header(struct io_file *file, firn_rc rc, const uint8_t *bytes)
{
    const char *path = io_file_path(file);
    if (rc == FIRN_E_INVALID)
        return rc_raise(rc, "%s is no binary log of firn: it does not begin with FIRNBLOG", path);
    if (rc == FIRN_E_UNSUPPORTED)
        return rc_raise(rc,
                        "%s has version %u of the binary log's format and this firn knows versions "
                        "up to %d: use the newer firn that wrote it",
                        path, file_header_version(bytes), BINLOG_FORMAT_VERSION);
    return rc_raise(rc, "%s is damaged: the checksum of its header is wrong; restore it", path);
}

firn_rc scan_header(struct io_file *file, uint64_t number, struct file_header *header)
{
    uint8_t bytes[FILE_HEADER_BYTES];
    uint64_t size_bytes;
    struct file_header found;
    FIRN_TRY(io_file_size(file, &size_bytes));
    if (size_bytes < FILE_HEADER_BYTES)
        return rc_raise(FIRN_E_SHORT, "%s ends within its header, at byte %llu", io_file_path(file),
                        (unsigned long long)size_bytes);
    FIRN_TRY(io_read(file, bytes, sizeof bytes, 0));
    firn_rc rc = file_header_get(bytes, &found);
    if (rc != FIRN_OK)
        return raise_header(file, rc, bytes);
    if (number != 0 && found.file != number)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s says that it is file %llu of its binary log: files were swapped or "
                        "renamed, put each back under its name",
                        io_file_path(file), (unsigned long long)found.file);
    *header = found;
    return FIRN_OK;
}
