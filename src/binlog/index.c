/*
 * The index, a list of the files that belong to the binary log, and what lies in the directory.
 *
 * Files are numbered without gaps, so two numbers say all. The list is for people, who know it from
 * other servers, and tells a file that was lost from one that is not needed any more.
 */
#include "binlog/binlog_internal.h"

#include "base/memory.h"

#include <stdio.h>

#define INDEX_FILE_NEW BINLOG_INDEX_FILE ".new"

enum { INDEX_MAX_BYTES = 64 << 20 };

/* ---- Reading ---- */

static firn_rc raise_line(const char *path, const char *line)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "%s has a line \"%.64s\" where the next number of a file binlog.NNNNNN was "
                    "expected: restore it, one name a line, in order",
                    path, line);
}

static firn_rc parse(const char *path, char *text, uint64_t *first_file, uint64_t *last_file)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        uint64_t file = file_number_of(line);
        if (file == 0 || (*last_file != 0 && file != *last_file + 1))
            return raise_line(path, line);
        if (*first_file == 0)
            *first_file = file;
        *last_file = file;
    }
    return FIRN_OK;
}

static firn_rc load(struct io_file *file, char **text)
{
    uint64_t size_bytes = 0;
    FIRN_TRY(io_file_size(file, &size_bytes));
    if (size_bytes > INDEX_MAX_BYTES)
        return rc_raise(FIRN_E_CORRUPT, "%s is too long to be the index of a binary log",
                        io_file_path(file));
    *text = memory_alloc((size_t)size_bytes + 1);
    if (*text == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to read %s", io_file_path(file));
    (*text)[size_bytes] = '\0';
    return size_bytes == 0 ? FIRN_OK : io_read(file, *text, (size_t)size_bytes, 0);
}

firn_rc index_load(struct io_system *system, const char *directory, uint64_t *first_file,
                   uint64_t *last_file)
{
    struct io_file *file;
    char *text = NULL;
    uint64_t first = 0, last = 0;
    char *path = binlog_path(directory, BINLOG_INDEX_FILE);
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = io_file_open(system, IO_CLASS_BINLOG, path, IO_OPEN_READ_ONLY, &file);
    if (rc == FIRN_OK) {
        rc = load(file, &text);
        (void)io_file_close(file);
    }
    if (rc == FIRN_OK)
        rc = parse(path, text, &first, &last);
    memory_free(text);
    memory_free(path);
    if (rc == FIRN_OK) {
        *first_file = first;
        *last_file = last;
    }
    return rc;
}

/* ---- Writing ---- */

static firn_rc write_lines(struct io_file *file, uint64_t first_file, uint64_t last_file)
{
    char name[FILE_NAME_BYTES];
    size_t size_bytes = 0;
    char *text = memory_alloc((size_t)(last_file - first_file + 1) * FILE_NAME_BYTES);
    if (text == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the index of the binary log");
    for (uint64_t i = first_file; i <= last_file; i++)
        size_bytes += (size_t)sprintf(text + size_bytes, "%s\n", file_name(i, name));
    firn_rc rc = io_write(file, text, size_bytes, 0);
    memory_free(text);
    return rc == FIRN_OK ? io_sync(file, IO_SYNC_DATA) : rc;
}

/* Written beside and renamed, so that what is there is whole. */
static firn_rc replace(struct binlog *binlog, const char *beside, const char *path,
                       uint64_t first_file, uint64_t last_file)
{
    struct io_file *file;
    struct io_system *system = binlog->options.system;
    FIRN_TRY(
        io_file_open(system, IO_CLASS_BINLOG, beside, IO_OPEN_CREATE | IO_OPEN_TRUNCATE, &file));
    firn_rc rc = write_lines(file, first_file, last_file);
    firn_rc close_rc = io_file_close(file);
    FIRN_TRY(rc != FIRN_OK ? rc : close_rc);
    FIRN_TRY(io_rename(system, beside, path));
    return io_sync_directory(system, binlog->options.directory);
}

firn_rc index_write(struct binlog *binlog, uint64_t first_file, uint64_t last_file)
{
    char *beside = binlog_path(binlog->options.directory, INDEX_FILE_NEW);
    char *path = binlog_path(binlog->options.directory, BINLOG_INDEX_FILE);
    firn_rc rc = beside == NULL || path == NULL
                     ? FIRN_E_NOMEM
                     : replace(binlog, beside, path, first_file, last_file);
    memory_free(beside);
    memory_free(path);
    if (rc == FIRN_OK) {
        binlog->first_file = first_file;
        binlog->last_file = last_file;
    }
    return rc;
}

/* ---- The directory ---- */

struct entries {
    char **names;
    size_t count;
    size_t capacity;
};

static firn_rc collect(const char *name, void *context)
{
    struct entries *entries = context;
    if (strncmp(name, "binlog", 6) != 0)
        return FIRN_OK;
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity == 0 ? 16 : 2 * entries->capacity;
        char **names = memory_realloc(entries->names, capacity * sizeof *names);
        if (names == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory to list the binary log's directory");
        entries->names = names;
        entries->capacity = capacity;
    }
    char *copy = memory_copy_text(name);
    if (copy == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to list the binary log's directory");
    entries->names[entries->count++] = copy;
    return FIRN_OK;
}

firn_rc index_each_entry(struct binlog *binlog, index_visit *visit, void *context)
{
    struct entries entries = {0};
    firn_rc rc = io_list(binlog->options.system, binlog->options.directory, collect, &entries);
    for (size_t i = 0; i < entries.count; i++) {
        if (rc == FIRN_OK)
            rc = visit(binlog, entries.names[i], context);
        memory_free(entries.names[i]);
    }
    memory_free(entries.names);
    return rc;
}

/* ---- Removing files ---- */

static firn_rc remove_file(struct binlog *binlog, uint64_t file)
{
    char name[FILE_NAME_BYTES];
    char *path = binlog_path(binlog->options.directory, file_name(file, name));
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = io_remove(binlog->options.system, path);
    memory_free(path);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* The index first: after a crash a file that it does not name is not missed, but removed. */
firn_rc index_purge(struct binlog *binlog, uint64_t file)
{
    uint64_t first_file = binlog->first_file;
    if (file <= first_file)
        return FIRN_OK;
    FIRN_TRY(index_write(binlog, file, binlog->last_file));
    for (uint64_t i = first_file; i < file; i++)
        FIRN_TRY(remove_file(binlog, i));
    return FIRN_OK;
}

/* A file is as old as its newest group, so not older than the first one of the next file. */
static firn_rc begin_time(struct binlog *binlog, uint64_t file, uint64_t *time_us)
{
    struct io_file *opened;
    struct file_header header;
    char name[FILE_NAME_BYTES];
    char *path = binlog_path(binlog->options.directory, file_name(file, name));
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc =
        io_file_open(binlog->options.system, IO_CLASS_BINLOG, path, IO_OPEN_READ_ONLY, &opened);
    memory_free(path);
    FIRN_TRY(rc);
    rc = scan_header(opened, file, &header);
    (void)io_file_close(opened);
    if (rc == FIRN_OK)
        *time_us = header.first_time_us;
    return rc;
}

firn_rc index_expire(struct binlog *binlog, uint64_t now_us)
{
    uint64_t age_us = binlog->options.expire_s * 1000000;
    uint64_t keep = binlog->first_file;
    if (binlog->options.expire_s == 0)
        return FIRN_OK;
    /* The newest two stay: one is being written, and the one before ends with a reference to it. */
    while (keep + 1 < binlog->last_file) {
        uint64_t time_us = 0;
        FIRN_TRY(begin_time(binlog, keep + 1, &time_us));
        if (time_us + age_us > now_us)
            break;
        keep++;
    }
    return index_purge(binlog, keep);
}
