#include "redo/redo_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ZEROS_BYTES = 4 << 20 };

#define BUFFER_MIN_BYTES (UINT64_C(1) << 20)
#define BUFFER_MAX_BYTES (UINT64_C(1) << 30)

firn_rc redo_check_options(const struct redo_options *options)
{
    if (options->file_count < 2 || options->file_count > REDO_FILES_MAX)
        return rc_raise(FIRN_E_INVALID, "log_files must be between 2 and %d", REDO_FILES_MAX);
    if (options->file_size_bytes < REDO_FILE_SIZE_MIN_BYTES ||
        options->file_size_bytes % REDO_FILE_SIZE_UNIT_BYTES != 0 ||
        options->file_size_bytes > UINT64_C(1) << 40)
        return rc_raise(FIRN_E_INVALID, "log_file_size must be a multiple of 1 MiB, at least 4 MiB "
                                        "and at most 1 TiB");
    if (options->buffer_size_bytes < BUFFER_MIN_BYTES ||
        options->buffer_size_bytes > BUFFER_MAX_BYTES ||
        options->buffer_size_bytes % (64 << 10) != 0)
        return rc_raise(FIRN_E_INVALID, "log_buffer_size must be a multiple of 64 KiB, at least "
                                        "1 MiB and at most 1 GiB");
    return FIRN_OK;
}

firn_rc redo_file_path(const char *directory, uint32_t number, bool is_new, struct redo_path *path)
{
    int length = snprintf(path->text, sizeof(path->text), "%s/firn_redo.%u%s", directory, number,
                          is_new ? ".new" : "");
    if (length < 0 || (size_t)length >= sizeof(path->text))
        return rc_raise(FIRN_E_INVALID, "the name of redo_dir is longer than %d bytes",
                        REDO_PATH_BYTES - 32);
    return FIRN_OK;
}

firn_rc redo_file_open(const struct redo_options *options, const char *path, unsigned flags,
                       struct io_file **file)
{
    struct io_file *opened;
    unsigned direct = options->direct ? IO_OPEN_DIRECT : 0;
    FIRN_TRY(io_file_open(options->system, IO_CLASS_REDO, path, flags | direct, &opened));
    if (io_file_alignment(opened) > REDO_BLOCK_BYTES) {
        FIRN_TRY(io_file_close(opened));
        flags &= ~(unsigned)(IO_OPEN_EXCLUSIVE | IO_OPEN_TRUNCATE);
        FIRN_TRY(io_file_open(options->system, IO_CLASS_REDO, path, flags, &opened));
    }
    *file = opened;
    return FIRN_OK;
}

/* ---- Making files ---- */

static firn_rc write_zeros(struct io_file *file, uint64_t size_bytes)
{
    uint8_t *zeros = memory_alloc_aligned(ZEROS_BYTES, REDO_BLOCK_BYTES);
    if (zeros == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to make a log file");
    memset(zeros, 0, ZEROS_BYTES);
    firn_rc rc = FIRN_OK;
    for (uint64_t at = 0; at < size_bytes && rc == FIRN_OK; at += ZEROS_BYTES) {
        uint64_t left = size_bytes - at;
        rc = io_write(file, zeros, left < ZEROS_BYTES ? (size_t)left : ZEROS_BYTES, at);
    }
    memory_free(zeros);
    return rc;
}

static firn_rc write_heads(struct io_file *file, const struct redo_file_header *header,
                           const struct redo_checkpoint *checkpoint)
{
    uint8_t *block = memory_alloc_aligned(REDO_BLOCK_BYTES, REDO_BLOCK_BYTES);
    if (block == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to make a log file");
    redo_put_file_header(block, header);
    firn_rc rc = io_write(file, block, REDO_BLOCK_BYTES, 0);
    redo_put_checkpoint(block, checkpoint);
    uint64_t at = REDO_CHECKPOINT_OFFSET;
    for (int copy = 0; copy < REDO_CHECKPOINT_COPIES && header->file == 0; copy++) {
        if (rc == FIRN_OK)
            rc = io_write(file, block, REDO_BLOCK_BYTES, at);
        at += REDO_BLOCK_BYTES;
    }
    memory_free(block);
    return rc;
}

static firn_rc make_file(const struct redo_options *options, const struct redo_layout *layout,
                         uint32_t number, const struct redo_checkpoint *checkpoint)
{
    struct redo_path path;
    struct io_file *file;
    struct redo_file_header header = {.layout = *layout, .file = number};
    memcpy(header.environment, options->environment, sizeof(header.environment));
    FIRN_TRY(redo_file_path(options->directory, number, true, &path));
    FIRN_TRY(redo_file_open(options, path.text, IO_OPEN_CREATE | IO_OPEN_TRUNCATE, &file));
    firn_rc rc = write_zeros(file, layout->file_size_bytes);
    if (rc == FIRN_OK)
        rc = write_heads(file, &header, checkpoint);
    if (rc == FIRN_OK)
        rc = io_sync(file, IO_SYNC_ALL);
    firn_rc close_rc = io_file_close(file);
    return rc != FIRN_OK ? rc : close_rc;
}

/* The first failure is what people hear of; what cannot be removed is swept away at the next open.
 */
static void remove_made(const struct redo_options *options, uint32_t count)
{
    char *said = memory_copy_text(firn_error_text());
    firn_rc rc = FIRN_OK;
    for (uint32_t i = 0; i < count; i++) {
        struct redo_path path;
        rc = redo_file_path(options->directory, i, true, &path);
        if (rc == FIRN_OK)
            rc = io_remove(options->system, path.text);
    }
    if (said != NULL)
        (void)rc_raise(FIRN_E_IO, "%s", said);
    memory_free(said);
}

firn_rc redo_files_make(const struct redo_options *options, const struct redo_layout *layout,
                        const struct redo_checkpoint *checkpoint)
{
    firn_rc rc = FIRN_OK;
    uint32_t made = 0;
    while (made < layout->file_count && rc == FIRN_OK)
        rc = make_file(options, layout, made++, checkpoint);
    if (rc == FIRN_OK)
        rc = io_sync_directory(options->system, options->directory);
    if (rc != FIRN_OK)
        remove_made(options, made);
    return rc;
}

static firn_rc put_into_place(const struct redo_options *options, uint32_t number)
{
    struct redo_path from, to;
    FIRN_TRY(redo_file_path(options->directory, number, true, &from));
    FIRN_TRY(redo_file_path(options->directory, number, false, &to));
    return io_rename(options->system, from.text, to.text);
}

firn_rc redo_files_install(const struct redo_options *options, const struct redo_layout *layout)
{
    FIRN_TRY(put_into_place(options, 0));
    FIRN_TRY(io_sync_directory(options->system, options->directory));
    FIRN_TRY(redo_files_settle(options, layout));
    return redo_files_sweep(options, layout);
}

/* ---- After a crash between making and having made ---- */

static bool is_same_log(const struct redo_layout *left, const struct redo_layout *right)
{
    return left->number == right->number && left->origin_lsn == right->origin_lsn &&
           left->file_size_bytes == right->file_size_bytes && left->file_count == right->file_count;
}

/* Is there such a file, and is it one of the log's? */
static firn_rc read_header_of(const struct redo_options *options, const char *path,
                              struct redo_file_header *header)
{
    struct io_file *file;
    FIRN_TRY(redo_file_open(options, path, IO_OPEN_READ_ONLY, &file));
    firn_rc rc = redo_file_header(options, file, header);
    firn_rc close_rc = io_file_close(file);
    return rc != FIRN_OK ? rc : close_rc;
}

firn_rc redo_file_is_left(const struct redo_options *options, uint32_t number,
                          const struct redo_layout *layout, bool *left)
{
    struct redo_path path;
    struct redo_file_header header;
    *left = false;
    if (number == 0)
        return FIRN_OK;
    FIRN_TRY(redo_file_path(options->directory, number, true, &path));
    firn_rc rc = read_header_of(options, path.text, &header);
    if (rc == FIRN_E_NOT_FOUND || rc == FIRN_E_CORRUPT || rc == FIRN_E_SHORT)
        return FIRN_OK;
    FIRN_TRY(rc);
    *left = is_same_log(&header.layout, layout) && header.file == number;
    return FIRN_OK;
}

firn_rc redo_files_settle(const struct redo_options *options, const struct redo_layout *layout)
{
    bool moved = false;
    for (uint32_t i = 1; i < layout->file_count; i++) {
        bool left;
        FIRN_TRY(redo_file_is_left(options, i, layout, &left));
        if (!left)
            continue;
        FIRN_TRY(put_into_place(options, i));
        moved = true;
    }
    return moved ? io_sync_directory(options->system, options->directory) : FIRN_OK;
}

/* ---- Sweeping ---- */

struct found_files {
    bool in_place[REDO_FILES_MAX];
    bool is_new[REDO_FILES_MAX];
};

static firn_rc note_file(const char *name, void *context)
{
    static const char prefix[] = "firn_redo.";
    struct found_files *found = context;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
        return FIRN_OK;
    const char *digits = name + sizeof(prefix) - 1;
    char *end;
    unsigned long number = strtoul(digits, &end, 10);
    if (end == digits || end - digits > 2 || number >= REDO_FILES_MAX)
        return FIRN_OK;
    if (*end == '\0')
        found->in_place[number] = true;
    else if (strcmp(end, ".new") == 0)
        found->is_new[number] = true;
    return FIRN_OK;
}

static firn_rc find_files(const struct redo_options *options, struct found_files *found)
{
    memset(found, 0, sizeof(*found));
    return io_list(options->system, options->directory, note_file, found);
}

static firn_rc remove_file(const struct redo_options *options, uint32_t number, bool is_new)
{
    struct redo_path path;
    FIRN_TRY(redo_file_path(options->directory, number, is_new, &path));
    return io_remove(options->system, path.text);
}

/* A file beyond the log's last one is an earlier log's if it says so; else it is not ours to
   remove. */
static firn_rc remove_surplus(const struct redo_options *options, uint32_t number, bool *removed)
{
    struct redo_path path;
    struct redo_file_header header;
    FIRN_TRY(redo_file_path(options->directory, number, false, &path));
    firn_rc rc = read_header_of(options, path.text, &header);
    if (rc == FIRN_E_CORRUPT || rc == FIRN_E_UNSUPPORTED || rc == FIRN_E_SHORT)
        return FIRN_OK;
    FIRN_TRY(rc);
    *removed = true;
    return io_remove(options->system, path.text);
}

firn_rc redo_files_sweep(const struct redo_options *options, const struct redo_layout *layout)
{
    struct found_files found;
    bool removed = false;
    FIRN_TRY(find_files(options, &found));
    for (uint32_t i = 0; i < REDO_FILES_MAX; i++) {
        if (found.is_new[i]) {
            FIRN_TRY(remove_file(options, i, true));
            removed = true;
        }
        if (found.in_place[i] && i >= layout->file_count)
            FIRN_TRY(remove_surplus(options, i, &removed));
    }
    return removed ? io_sync_directory(options->system, options->directory) : FIRN_OK;
}

firn_rc redo_remove(const struct redo_options *options)
{
    struct found_files found;
    FIRN_TRY(find_files(options, &found));
    /* Without the first file there is no log, whatever a crash leaves of the others. */
    if (found.in_place[0]) {
        FIRN_TRY(remove_file(options, 0, false));
        FIRN_TRY(io_sync_directory(options->system, options->directory));
    }
    bool removed = false;
    for (uint32_t i = 0; i < REDO_FILES_MAX; i++) {
        if (found.is_new[i])
            FIRN_TRY(remove_file(options, i, true));
        if (found.in_place[i] && i > 0)
            FIRN_TRY(remove_file(options, i, false));
        removed = removed || found.is_new[i] || (found.in_place[i] && i > 0);
    }
    return removed ? io_sync_directory(options->system, options->directory) : FIRN_OK;
}

firn_rc redo_check_absent(const struct redo_options *options)
{
    struct found_files found;
    FIRN_TRY(find_files(options, &found));
    if (found.in_place[0])
        return rc_raise(FIRN_E_EXISTS, "there is a log in %s already", options->directory);
    return FIRN_OK;
}

firn_rc redo_create(const struct redo_options *options, uint64_t first_lsn)
{
    ASSERT(first_lsn >= REDO_FIRST_LSN && first_lsn % 8 == 0);
    FIRN_TRY(redo_check_options(options));
    FIRN_TRY(redo_check_absent(options));
    struct redo_layout layout = {.number = 1,
                                 .origin_lsn = redo_block_floor(first_lsn),
                                 .file_size_bytes = options->file_size_bytes,
                                 .file_count = options->file_count};
    struct redo_checkpoint checkpoint = {
        .log = layout.number,
        .number = 1,
        .lsn = first_lsn,
        .epoch = 1,
        .in_flight_bytes = redo_in_flight_bytes(options->buffer_size_bytes),
    };
    FIRN_TRY(redo_files_make(options, &layout, &checkpoint));
    return redo_files_install(options, &layout);
}

/* ---- Opening ---- */

firn_rc redo_file_header(const struct redo_options *options, struct io_file *file,
                         struct redo_file_header *header)
{
    const char *path = io_file_path(file);
    uint8_t *block = memory_alloc_aligned(REDO_BLOCK_BYTES, REDO_BLOCK_BYTES);
    if (block == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to open a log file");
    firn_rc rc = io_read(file, block, REDO_BLOCK_BYTES, 0);
    uint32_t version = 0;
    struct redo_file_header got;
    if (rc == FIRN_OK) {
        rc = redo_get_file_header(block, &got);
        version = redo_block_version(block);
    }
    memory_free(block);
    if (rc == FIRN_E_SHORT)
        return rc_raise(FIRN_E_CORRUPT, "%s is shorter than a log file's header: it was cut off",
                        path);
    if (rc == FIRN_E_UNSUPPORTED)
        return rc_raise(rc,
                        "%s has version %u of the log's format, this program knows version %d: "
                        "open it with the program that wrote it",
                        path, version, REDO_FORMAT_VERSION);
    if (rc == FIRN_E_CORRUPT)
        return rc_raise(rc, "%s is no log file, or its header is damaged: put the right file there",
                        path);
    FIRN_TRY(rc);
    if (memcmp(got.environment, options->environment, sizeof(got.environment)) != 0)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s belongs to the log of another environment: put this "
                        "environment's file there",
                        path);
    *header = got;
    return FIRN_OK;
}

firn_rc redo_file_judge(struct io_file *file, uint32_t number,
                        const struct redo_file_header *header, const struct redo_layout *layout)
{
    const char *path = io_file_path(file);
    if (!is_same_log(&header->layout, layout))
        return rc_raise(FIRN_E_CORRUPT,
                        "%s and the first file are of different logs of this "
                        "environment: one of them is an old copy",
                        path);
    if (header->file != number)
        return rc_raise(FIRN_E_CORRUPT, "%s is the log's file %u, not %u: files have been swapped",
                        path, header->file, number);
    uint64_t size_bytes;
    FIRN_TRY(io_file_size(file, &size_bytes));
    if (size_bytes != layout->file_size_bytes)
        return rc_raise(
            FIRN_E_CORRUPT, "%s has %llu bytes instead of %llu: it was cut off or grown", path,
            (unsigned long long)size_bytes, (unsigned long long)layout->file_size_bytes);
    return FIRN_OK;
}

static firn_rc open_one(const struct redo_options *options, uint32_t number,
                        struct redo_layout *layout, bool *in_place, struct io_file **file)
{
    struct redo_path path;
    struct redo_file_header header;
    bool left;
    FIRN_TRY(redo_file_is_left(options, number, layout, &left));
    *in_place = !left;
    FIRN_TRY(redo_file_path(options->directory, number, left, &path));
    firn_rc rc = redo_file_open(options, path.text, 0, file);
    if (rc == FIRN_E_NOT_FOUND && number == 0)
        return rc_raise(rc, "there is no log in %s: firn_redo.0 is missing", options->directory);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(rc, "%s is missing: the log has %u files, and recovery needs them all",
                        path.text, layout->file_count);
    FIRN_TRY(rc);
    rc = redo_file_header(options, *file, &header);
    if (rc == FIRN_OK && number == 0)
        *layout = header.layout;
    if (rc == FIRN_OK)
        rc = redo_file_judge(*file, number, &header, layout);
    if (rc != FIRN_OK) {
        (void)io_file_close(*file);
        *file = NULL;
    }
    return rc;
}

firn_rc redo_files_open(struct redo *redo)
{
    firn_rc rc = FIRN_OK;
    redo->layout.file_count = 1; /* until the first file says how many there are */
    for (uint32_t i = 0; rc == FIRN_OK && i < redo->layout.file_count; i++)
        rc = open_one(&redo->options, i, &redo->layout, &redo->in_place[i], &redo->files[i]);
    if (rc != FIRN_OK)
        redo_files_close(redo->files);
    return rc;
}

firn_rc redo_files_finish(struct redo *redo)
{
    const struct redo_options *options = &redo->options;
    FIRN_TRY(redo_files_settle(options, &redo->layout));
    for (uint32_t i = 0; i < redo->layout.file_count; i++) {
        if (redo->in_place[i])
            continue;
        FIRN_TRY(io_file_close(redo->files[i]));
        redo->files[i] = NULL;
        FIRN_TRY(open_one(options, i, &redo->layout, &redo->in_place[i], &redo->files[i]));
    }
    return redo_files_sweep(options, &redo->layout);
}

firn_rc redo_files_close(struct io_file *files[REDO_FILES_MAX])
{
    firn_rc rc = FIRN_OK;
    for (uint32_t i = 0; i < REDO_FILES_MAX; i++) {
        firn_rc close_rc = files[i] != NULL ? io_file_close(files[i]) : FIRN_OK;
        files[i] = NULL;
        if (rc == FIRN_OK)
            rc = close_rc;
    }
    return rc;
}
