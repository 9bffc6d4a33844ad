/*
 * check.c -- judging a log's files as they lie there, all of them, whatever is wrong with one.
 */
#include "redo/redo_internal.h"

#include "base/memory.h"

#include <string.h>

enum { CHUNK_BYTES = 1 << 20 };

struct log_check {
    const struct redo_options *options;
    finding_report *report;
    redo_check_frame *frame;
    void *context;
    struct redo_check_result *result;
    struct redo_layout layout;
    bool layout_is_known;
    uint64_t damages;
    uint8_t *chunk;
};

static void tell(struct log_check *check, enum finding_severity severity, const char *path,
                 uint64_t offset, const char *text)
{
    struct finding finding = {severity, path, FINDING_NOWHERE, offset, text};
    check->damages += severity == FINDING_DAMAGE || severity == FINDING_UNSEEN;
    check->report(&finding, check->context);
}

/* What a failed call said: damage of the file, or that it could not be looked at. */
static firn_rc tell_failure(struct log_check *check, const char *path, uint64_t offset, firn_rc rc)
{
    bool is_damage = rc == FIRN_E_CORRUPT || rc == FIRN_E_SHORT || rc == FIRN_E_NOT_FOUND ||
                     rc == FIRN_E_UNSUPPORTED;
    if (rc == FIRN_E_NOMEM)
        return rc;
    tell(check, is_damage ? FINDING_DAMAGE : FINDING_UNSEEN, path, offset, firn_error_text());
    return FIRN_OK;
}

/* ---- Files ---- */

/* Which layout? The first file says so; where it cannot, any other one does. */
static firn_rc find_layout(struct log_check *check)
{
    for (uint32_t i = 0; i < REDO_FILES_MAX && !check->layout_is_known; i++) {
        struct redo_path path;
        struct io_file *file;
        struct redo_file_header header;
        FIRN_TRY(redo_file_path(check->options->directory, i, false, &path));
        if (redo_file_open(check->options, path.text, IO_OPEN_READ_ONLY, &file) != FIRN_OK)
            continue;
        check->layout_is_known = redo_file_header(check->options, file, &header) == FIRN_OK;
        if (check->layout_is_known)
            check->layout = header.layout;
        io_file_close(file);
    }
    return FIRN_OK;
}

/* Every byte can be read, of the part that nobody needs, too: what a device loses today in one
   place it loses tomorrow in another. */
static firn_rc read_all(struct log_check *check, struct io_file *file)
{
    uint64_t size_bytes;
    FIRN_TRY(io_file_size(file, &size_bytes));
    size_bytes -= size_bytes % REDO_BLOCK_BYTES;
    for (uint64_t at = 0; at < size_bytes; at += CHUNK_BYTES) {
        uint64_t left = size_bytes - at;
        firn_rc rc =
            io_read(file, check->chunk, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES, at);
        if (rc != FIRN_OK)
            FIRN_TRY(tell_failure(check, io_file_path(file), at, rc));
    }
    check->result->bytes += size_bytes;
    return FIRN_OK;
}

/* One rotten copy is mended by the next open; two are the end of recovery. */
static firn_rc check_checkpoints(struct log_check *check, struct io_file *file)
{
    bool whole[REDO_CHECKPOINT_COPIES] = {false};
    for (unsigned copy = 0; copy < REDO_CHECKPOINT_COPIES; copy++) {
        struct redo_checkpoint checkpoint;
        uint64_t offset = REDO_CHECKPOINT_OFFSET + (uint64_t)copy * REDO_BLOCK_BYTES;
        firn_rc rc = io_read(file, check->chunk, REDO_BLOCK_BYTES, offset);
        whole[copy] =
            rc == FIRN_OK && redo_get_checkpoint(check->chunk, &checkpoint) != FIRN_E_CORRUPT;
    }
    /* Without any redo_open says so. */
    for (unsigned copy = 0; copy < REDO_CHECKPOINT_COPIES; copy++)
        if (!whole[copy] && whole[1 - copy])
            finding_tell(check->report, check->context,
                         (struct finding){.severity = FINDING_WARNING,
                                          .file = io_file_path(file),
                                          .page = FINDING_NOWHERE,
                                          .offset = REDO_CHECKPOINT_OFFSET +
                                                    (uint64_t)copy * REDO_BLOCK_BYTES},
                         "copy %u of the checkpoint in %s is damaged; the other one is whole, and "
                         "the next opening writes both: look whether the device loses more",
                         copy + 1, io_file_path(file));
    return FIRN_OK;
}

static firn_rc check_open_file(struct log_check *check, uint32_t number, struct io_file *file)
{
    struct redo_file_header header;
    firn_rc rc = redo_file_header(check->options, file, &header);
    if (rc == FIRN_OK)
        rc = redo_file_judge(file, number, &header, &check->layout);
    if (rc != FIRN_OK)
        FIRN_TRY(tell_failure(check, io_file_path(file), 0, rc));
    if (number == 0)
        FIRN_TRY(check_checkpoints(check, file));
    return read_all(check, file);
}

/* A file that a replacement, cut short, left under the name it was made with is as good. */
static firn_rc check_file(struct log_check *check, uint32_t number)
{
    struct redo_path path;
    struct io_file *file;
    bool left = false;
    FIRN_TRY(redo_file_path(check->options->directory, number, false, &path));
    firn_rc rc = redo_file_is_left(check->options, number, &check->layout, &left);
    if (rc != FIRN_OK)
        FIRN_TRY(tell_failure(check, path.text, FINDING_NOWHERE, rc));
    FIRN_TRY(redo_file_path(check->options->directory, number, left, &path));
    rc = redo_file_open(check->options, path.text, IO_OPEN_READ_ONLY, &file);
    if (rc == FIRN_E_NOT_FOUND && !check->layout_is_known)
        rc = rc_raise(rc,
                      "%s is missing, and no other file of the log is there; put the log back, "
                      "or restore a backup",
                      path.text);
    else if (rc == FIRN_E_NOT_FOUND)
        rc = rc_raise(rc,
                      "%s is missing: the log has %u files, and recovery needs them all; put it "
                      "back, or restore a backup",
                      path.text, check->layout.file_count);
    if (rc != FIRN_OK)
        return tell_failure(check, path.text, FINDING_NOWHERE, rc);
    check->result->files++;
    rc = check_open_file(check, number, file);
    io_file_close(file); /* it was only read */
    return rc;
}

/* ---- Frames ---- */

static firn_rc read_frames(struct log_check *check, struct redo *redo)
{
    struct redo_check_result *result = check->result;
    struct redo_reader *reader;
    struct span body;
    uint64_t lsn;
    result->checkpoint_lsn = result->end_lsn = redo_checkpoint_lsn(redo);
    FIRN_TRY(redo_reader_open(redo, result->checkpoint_lsn, &reader));
    firn_rc rc;
    while ((rc = redo_reader_next(reader, &body, &lsn, &result->end_lsn)) == FIRN_OK) {
        result->frames++;
        check->frame(body, check->context);
    }
    redo_reader_close(reader);
    result->is_whole = rc == FIRN_E_NOT_FOUND;
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static firn_rc check_frames(struct log_check *check)
{
    struct redo *redo;
    struct redo_path first;
    FIRN_TRY(redo_file_path(check->options->directory, 0, false, &first));
    firn_rc rc = redo_open(check->options, &redo);
    if (rc != FIRN_OK)
        return tell_failure(check, first.text, REDO_CHECKPOINT_OFFSET, rc);
    rc = read_frames(check, redo);
    if (rc != FIRN_OK) {
        struct redo_piece piece = redo_locate(&redo->layout, check->result->end_lsn, 1);
        rc = tell_failure(check, io_file_path(redo->files[piece.file]), piece.offset, rc);
    }
    redo_close(redo); /* it was only read */
    return rc;
}

/* ---- The whole ---- */

static firn_rc check_log(struct log_check *check)
{
    FIRN_TRY(find_layout(check));
    check->result->file_count = check->layout.file_count;
    if (!check->layout_is_known)
        check->layout = (struct redo_layout){.file_count = 1};
    for (uint32_t i = 0; i < check->layout.file_count; i++)
        FIRN_TRY(check_file(check, i));
    /* What is wrong with a file has been said; the frames need all of them. */
    return check->damages == 0 ? check_frames(check) : FIRN_OK;
}

firn_rc redo_check(const struct redo_options *options, finding_report *report,
                   redo_check_frame *frame, void *context, struct redo_check_result *result)
{
    struct log_check check = {
        .options = options, .report = report, .frame = frame, .context = context, .result = result};
    *result = (struct redo_check_result){0};
    check.chunk = memory_alloc_aligned(CHUNK_BYTES, REDO_BLOCK_BYTES);
    if (check.chunk == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to check the log");
    firn_rc rc = check_log(&check);
    memory_free(check.chunk);
    return rc;
}
