/*
 * Reading a binary log.
 */
#include "binlog/reader.h"

#include "base/check.h"
#include "base/endian.h"
#include "base/memory.h"
#include "binlog/format_internal.h"

enum { WINDOW_BYTES = 64 << 10 };

struct binlog_reader {
    struct binlog_reader_options options; /* the path is a copy */
    char *path;
    uint64_t last_file; /* of a directory */
    struct io_file *file;
    struct file_header header;
    uint64_t size_bytes;
    uint64_t next_number; /* of the next group; 0: any */
    uint64_t position;    /* of the next event */
    uint64_t event_at;    /* of the last one */
    uint64_t group_end;   /* of the group whose events are being handed out; 0: of none */
    uint64_t tail_bytes;
    uint8_t *window; /* bytes of the file */
    size_t window_capacity;
    uint64_t window_at;
    size_t window_bytes;
};

/* ---- Bytes ---- */

/* Have a stretch of the file in memory. */
static firn_rc see(struct binlog_reader *reader, uint64_t at, size_t size_bytes,
                   const uint8_t **bytes)
{
    if (at < reader->window_at || at + size_bytes > reader->window_at + reader->window_bytes) {
        size_t wanted = size_bytes > WINDOW_BYTES ? size_bytes : WINDOW_BYTES;
        if (wanted > reader->window_capacity) {
            uint8_t *window = memory_realloc(reader->window, wanted);
            if (window == NULL)
                return rc_raise(FIRN_E_NOMEM, "no memory to read an event of %zu bytes",
                                size_bytes);
            reader->window = window;
            reader->window_capacity = wanted;
        }
        if (wanted > reader->size_bytes - at)
            wanted = (size_t)(reader->size_bytes - at);
        reader->window_bytes = 0;
        FIRN_TRY(io_read(reader->file, reader->window, wanted, at));
        reader->window_at = at;
        reader->window_bytes = wanted;
    }
    *bytes = reader->window + (at - reader->window_at);
    return FIRN_OK;
}

/* ---- Files ---- */

static void close_file(struct binlog_reader *reader)
{
    if (reader->file != NULL)
        (void)io_file_close(reader->file);
    reader->file = NULL;
    reader->window_bytes = 0;
}

static firn_rc open_path(struct binlog_reader *reader, const char *path, uint64_t number)
{
    close_file(reader);
    FIRN_TRY(io_file_open(reader->options.system, IO_CLASS_BINLOG, path, IO_OPEN_READ_ONLY,
                          &reader->file));
    FIRN_TRY(scan_header(reader->file, number, &reader->header));
    FIRN_TRY(io_file_size(reader->file, &reader->size_bytes));
    reader->position = FILE_HEADER_BYTES;
    reader->next_number = reader->header.first_number;
    return FIRN_OK;
}

static firn_rc open_number(struct binlog_reader *reader, uint64_t number)
{
    char name[FILE_NAME_BYTES];
    char *path = binlog_path(reader->path, file_name(number, name));
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = open_path(reader, path, number);
    memory_free(path);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s/" BINLOG_INDEX_FILE
                        " names %s, but it is missing: put it back, or begin behind it",
                        reader->path, name);
    return rc;
}

static firn_rc open_next(struct binlog_reader *reader)
{
    uint64_t next_number = reader->next_number;
    uint8_t environment[16];
    memcpy(environment, reader->header.environment, sizeof environment);
    FIRN_TRY(open_number(reader, reader->header.file + 1));
    const char *path = io_file_path(reader->file);
    if (memcmp(environment, reader->header.environment, sizeof environment) != 0)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s is of another environment than the file before it: put the right one "
                        "there",
                        path);
    if (next_number != 0 && reader->header.first_number != next_number)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s begins with group %llu, but the file before it ends before group "
                        "%llu: put the right one there",
                        path, (unsigned long long)reader->header.first_number,
                        (unsigned long long)next_number);
    return FIRN_OK;
}

static bool is_last_file(const struct binlog_reader *reader)
{
    return !reader->options.is_directory || reader->header.file >= reader->last_file;
}

/* ---- Where nothing whole is ---- */

/* An event that says its place stands there. */
static bool is_landmark(struct span bytes, uint64_t at)
{
    struct binlog_event event;
    uint32_t size_bytes = event_size(bytes.bytes);
    if ((size_bytes != BEGIN_BYTES && size_bytes != COMMIT_BYTES && size_bytes != ROTATE_BYTES) ||
        size_bytes > bytes.size_bytes)
        return false;
    return binlog_event_get(span_of(bytes.bytes, size_bytes), &event) && event.position == at &&
           (event.type == BINLOG_BEGIN || event.type == BINLOG_COMMIT ||
            event.type == BINLOG_ROTATE);
}

/* Is there something whole behind a place where nothing is? @param found  set; 0: there is not */
static firn_rc find_landmark(struct binlog_reader *reader, uint64_t from, uint64_t *found)
{
    *found = 0;
    for (uint64_t at = from; at + ROTATE_BYTES <= reader->size_bytes;) {
        const uint8_t *bytes = NULL;
        uint64_t rest = reader->size_bytes - at;
        size_t size = rest < WINDOW_BYTES ? (size_t)rest : WINDOW_BYTES;
        FIRN_TRY(see(reader, at, size, &bytes));
        size_t last = size == rest ? size - ROTATE_BYTES : size - BEGIN_BYTES;
        for (size_t i = 0; i <= last; i++)
            if (is_landmark(span_of(bytes + i, size - i), at + i)) {
                *found = at + i;
                return FIRN_OK;
            }
        at += last + 1;
    }
    return FIRN_OK;
}

static firn_rc raise_truncated(const struct binlog_reader *reader)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "%s is truncated: its last whole group ends at %llu, and nothing says that the "
                    "next file goes on; restore it",
                    io_file_path(reader->file), (unsigned long long)reader->position);
}

/* The end of the last file, a truncated file, or damage. */
static firn_rc judge_end(struct binlog_reader *reader)
{
    uint64_t found;
    FIRN_TRY(find_landmark(reader, reader->position + 1, &found));
    if (found != 0)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s is damaged between %llu and %llu: restore it; if the environment was "
                        "not closed, open it once, which completes its last groups",
                        io_file_path(reader->file), (unsigned long long)reader->position,
                        (unsigned long long)found);
    if (!is_last_file(reader))
        return raise_truncated(reader);
    reader->tail_bytes = reader->size_bytes - reader->position;
    return FIRN_E_NOT_FOUND;
}

/* ---- Groups ---- */

/* @param ends  set: the file ends here, and says so */
static firn_rc look_for_rotate(struct binlog_reader *reader, bool *ends)
{
    const uint8_t *bytes = NULL;
    struct binlog_event event;
    *ends = false;
    if (reader->size_bytes - reader->position < ROTATE_BYTES)
        return FIRN_OK;
    FIRN_TRY(see(reader, reader->position, ROTATE_BYTES, &bytes));
    *ends = event_size(bytes) == ROTATE_BYTES &&
            binlog_event_get(span_of(bytes, ROTATE_BYTES), &event) && event.type == BINLOG_ROTATE &&
            event.position == reader->position;
    return FIRN_OK;
}

/* Find the next group, in this file or a later one. */
static firn_rc next_group(struct binlog_reader *reader, struct binlog_event *begin)
{
    for (;;) {
        bool ends;
        FIRN_TRY(look_for_rotate(reader, &ends));
        if (ends && is_last_file(reader))
            return FIRN_E_NOT_FOUND;
        if (ends) {
            FIRN_TRY(open_next(reader));
            continue;
        }
        firn_rc rc = scan_group(reader->file, reader->position, reader->size_bytes,
                                reader->next_number, begin);
        return rc == FIRN_E_NOT_FOUND ? judge_end(reader) : rc;
    }
}

static bool is_wanted(const struct binlog_reader *reader, const struct binlog_event *begin)
{
    return begin->time_us >= reader->options.start_time_us &&
           begin->number >= reader->options.start_number;
}

static firn_rc begin_group(struct binlog_reader *reader, struct binlog_event *event)
{
    struct binlog_event begin;
    for (;;) {
        FIRN_TRY(next_group(reader, &begin));
        reader->next_number = begin.number + 1;
        if (is_wanted(reader, &begin))
            break;
        reader->position += begin.group_bytes;
    }
    reader->group_end = reader->position + begin.group_bytes;
    reader->event_at = reader->position;
    reader->position += BEGIN_BYTES;
    *event = begin;
    return FIRN_OK;
}

/* The group was judged as a whole; what is read again is judged again. */
static firn_rc next_event(struct binlog_reader *reader, struct binlog_event *event)
{
    const uint8_t *bytes = NULL;
    FIRN_TRY(see(reader, reader->position, EVENT_HEADER_BYTES, &bytes));
    uint32_t size_bytes = event_size(bytes);
    if (size_bytes > reader->group_end - reader->position)
        return rc_raise(FIRN_E_CORRUPT, "%s changed while it was read", io_file_path(reader->file));
    FIRN_TRY(see(reader, reader->position, size_bytes, &bytes));
    if (!binlog_event_get(span_of(bytes, size_bytes), event))
        return rc_raise(FIRN_E_CORRUPT,
                        "%s has an event at %llu that this firn does not understand",
                        io_file_path(reader->file), (unsigned long long)reader->position);
    reader->event_at = reader->position;
    reader->position += size_bytes;
    if (reader->position == reader->group_end)
        reader->group_end = 0;
    return FIRN_OK;
}

firn_rc binlog_reader_next(struct binlog_reader *reader, struct binlog_event *event)
{
    return reader->group_end == 0 ? begin_group(reader, event) : next_event(reader, event);
}

void binlog_reader_skip_group(struct binlog_reader *reader)
{
    if (reader->group_end != 0)
        reader->position = reader->group_end;
    reader->group_end = 0;
}

/* ---- Opening ---- */

/* Does a file end before the first group that is wanted? The next one's header knows. */
static firn_rc ends_too_early(struct binlog_reader *reader, uint64_t file, bool *early)
{
    const struct binlog_reader_options *options = &reader->options;
    FIRN_TRY(open_number(reader, file + 1));
    *early = reader->header.first_time_us < options->start_time_us ||
             reader->header.first_number <= options->start_number;
    return FIRN_OK;
}

static firn_rc raise_no_file(const struct binlog_reader *reader, uint64_t first_file)
{
    if (reader->last_file == 0)
        return rc_raise(FIRN_E_NOT_FOUND, "the binary log in %s has no files", reader->path);
    return rc_raise(FIRN_E_INVALID, "the binary log in %s has files %llu to %llu, and not %llu",
                    reader->path, (unsigned long long)first_file,
                    (unsigned long long)reader->last_file,
                    (unsigned long long)reader->options.start_file);
}

static firn_rc open_directory(struct binlog_reader *reader)
{
    const struct binlog_reader_options *options = &reader->options;
    uint64_t first_file = 0;
    firn_rc rc = index_load(options->system, reader->path, &first_file, &reader->last_file);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(rc,
                        "there is no binary log in %s: it has no " BINLOG_INDEX_FILE
                        "; where binlog_dir is another directory, name that",
                        reader->path);
    FIRN_TRY(rc);
    uint64_t file = options->start_file != 0 ? options->start_file : first_file;
    if (file == 0 || file < first_file || file > reader->last_file)
        return raise_no_file(reader, first_file);
    bool early = options->start_time_us != 0 || options->start_number != 0;
    while (early && file < reader->last_file && options->start_position == 0) {
        FIRN_TRY(ends_too_early(reader, file, &early));
        file += early;
    }
    return open_number(reader, file);
}

static firn_rc go_to_position(struct binlog_reader *reader)
{
    uint64_t position = reader->options.start_position;
    struct binlog_event begin;
    if (position <= FILE_HEADER_BYTES || position == reader->size_bytes) {
        reader->position = position <= FILE_HEADER_BYTES ? FILE_HEADER_BYTES : position;
        reader->next_number = position <= FILE_HEADER_BYTES ? reader->next_number : 0;
        return FIRN_OK;
    }
    firn_rc rc = scan_group(reader->file, position, reader->size_bytes, 0, &begin);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_INVALID, "no whole group begins at position %llu of %s",
                        (unsigned long long)position, io_file_path(reader->file));
    FIRN_TRY(rc);
    reader->position = position;
    reader->next_number = begin.number;
    return FIRN_OK;
}

firn_rc binlog_reader_open(const struct binlog_reader_options *options,
                           struct binlog_reader **reader)
{
    struct binlog_reader *made = memory_zalloc(1, sizeof *made);
    char *path = memory_copy_text(options->path);
    if (made == NULL || path == NULL) {
        memory_free(made);
        memory_free(path);
        return rc_raise(FIRN_E_NOMEM, "no memory to read a binary log");
    }
    made->options = *options;
    made->options.path = made->path = path;
    firn_rc rc = options->is_directory ? open_directory(made) : open_path(made, path, 0);
    if (rc == FIRN_OK)
        rc = go_to_position(made);
    if (rc != FIRN_OK) {
        binlog_reader_close(made);
        return rc;
    }
    *reader = made;
    return FIRN_OK;
}

void binlog_reader_close(struct binlog_reader *reader)
{
    if (reader == NULL)
        return;
    close_file(reader);
    memory_free(reader->window);
    memory_free(reader->path);
    memory_free(reader);
}

void binlog_reader_where(const struct binlog_reader *reader, struct binlog_where *where)
{
    *where = (struct binlog_where){.path = reader->file != NULL ? io_file_path(reader->file)
                                                                : reader->path,
                                   .file = reader->header.file,
                                   .offset = reader->event_at,
                                   .end = reader->position,
                                   .is_last = is_last_file(reader)};
    memcpy(where->environment, reader->header.environment, sizeof where->environment);
}

uint64_t binlog_reader_tail_bytes(const struct binlog_reader *reader)
{
    return reader->tail_bytes;
}
