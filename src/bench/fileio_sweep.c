/*
 * fileio_sweep.c -- what passes once over all files: prepare writes them, verify reads them,
 * cleanup removes them.
 *
 * A sweep moves a file's bytes in large chunks, a few of them under way at once.
 */
#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "bench/fileio_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/statvfs.h>

enum {
    CHUNK_BYTES = 1 << 20, /* or a block, if that is larger */
    CHUNKS_UNDER_WAY = 8,
};

/* The disk must not be filled to the last byte: file systems need some for themselves. */
#define SPARE_BYTES (UINT64_C(16) << 20)

struct sweep {
    const struct fileio_config *config;
    const struct fileio_callbacks *callbacks;
    struct fileio_shape shape;
    struct fileio_storage storage;
    struct io_queue *queue;
    uint32_t chunk_bytes;
    char *buffers;
    struct io_request requests[CHUNKS_UNDER_WAY];
    struct io_request *free[CHUNKS_UNDER_WAY];
    unsigned free_count;
    uint64_t done_bytes, total_bytes;
    uint64_t file;           /* under way */
    uint64_t seed, sequence; /* prepare: of the blocks written */
    uint64_t bad;            /* verify: blocks */
};

static firn_rc sweep_open(const struct fileio_config *config,
                          const struct fileio_callbacks *callbacks, enum fileio_storage_use use,
                          struct sweep *sweep)
{
    struct io_queue_options options = {.depth = CHUNKS_UNDER_WAY};
    *sweep =
        (struct sweep){.config = config, .callbacks = callbacks, .shape = fileio_shape_of(config)};
    uint32_t block_bytes = sweep->shape.block_bytes;
    sweep->chunk_bytes =
        block_bytes < CHUNK_BYTES ? CHUNK_BYTES / block_bytes * block_bytes : block_bytes;
    FIRN_TRY(fileio_storage_open(config, use, false, &sweep->storage));
    sweep->buffers = memory_alloc_aligned((size_t)sweep->chunk_bytes * CHUNKS_UNDER_WAY, 4096);
    if (sweep->buffers == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for %d buffers of %u bytes", CHUNKS_UNDER_WAY,
                        sweep->chunk_bytes);
    for (unsigned i = 0; i < CHUNKS_UNDER_WAY; i++) {
        sweep->requests[i].buffer = sweep->buffers + (size_t)i * sweep->chunk_bytes;
        sweep->free[sweep->free_count++] = &sweep->requests[i];
    }
    return io_queue_open(sweep->storage.system, &options, &sweep->queue);
}

/* Also of a sweep that was opened in part. The queue waits for what is under way. */
static void sweep_close(struct sweep *sweep)
{
    io_queue_close(sweep->queue);
    memory_free(sweep->buffers);
    fileio_storage_close(&sweep->storage);
}

static bool sweep_is_stopped(const struct sweep *sweep)
{
    const atomic_bool *stop = sweep->callbacks->stop;
    return stop != NULL && atomic_load_explicit(stop, memory_order_relaxed);
}

/* ---- Chunks ---- */

static void fill_chunk(struct sweep *sweep, struct io_request *request)
{
    struct block_identity identity = {
        .file = sweep->file, .offset = request->offset, .seed = sweep->seed};
    uint32_t block_bytes = sweep->shape.block_bytes;
    if (!block_size_fits(block_bytes)) {
        block_fill_randomly(request->buffer, request->size_bytes, sweep->sequence++);
        return;
    }
    for (uint32_t at = 0; at < request->size_bytes; at += block_bytes) {
        identity.sequence = sweep->sequence++;
        block_fill((char *)request->buffer + at, block_bytes, &identity);
        identity.offset += block_bytes;
    }
}

static void check_chunk(struct sweep *sweep, const struct io_request *request)
{
    uint32_t block_bytes = sweep->shape.block_bytes;
    for (uint32_t at = 0; at < request->size_bytes; at += block_bytes) {
        struct block_finding finding;
        uint64_t offset = request->offset + at;
        block_judge((char *)request->buffer + at, block_bytes, sweep->file, offset, &finding);
        if (finding.state == BLOCK_SOUND)
            continue;
        char text[PATH_MAX + 256];
        block_describe(&finding, io_file_path(request->file), offset, text, sizeof(text));
        sweep->bad++;
        if (sweep->callbacks->bad_block != NULL)
            sweep->callbacks->bad_block(text, sweep->callbacks->context);
    }
}

/* Take back at least min_count chunks. */
static firn_rc sweep_reap(struct sweep *sweep, unsigned min_count)
{
    struct io_request *done[CHUNKS_UNDER_WAY];
    unsigned count = io_queue_reap(sweep->queue, min_count, CHUNKS_UNDER_WAY, done);
    for (unsigned i = 0; i < count; i++) {
        FIRN_TRY(io_request_raise(done[i]));
        if (done[i]->op == IO_OP_READ)
            check_chunk(sweep, done[i]);
        sweep->done_bytes += done[i]->size_bytes;
        sweep->free[sweep->free_count++] = done[i];
    }
    if (count > 0 && sweep->callbacks->progress != NULL)
        sweep->callbacks->progress(sweep->done_bytes, sweep->total_bytes,
                                   sweep->callbacks->context);
    return FIRN_OK;
}

/* Read and check, or write, a range of a file. FIRN_E_STOPPED when somebody asked for it. */
static firn_rc sweep_range(struct sweep *sweep, struct io_file *file, enum io_op op, uint64_t from,
                           uint64_t to)
{
    while (from < to) {
        if (sweep_is_stopped(sweep)) {
            FIRN_TRY(sweep_reap(sweep, io_queue_pending(sweep->queue)));
            return rc_raise(FIRN_E_STOPPED, "stopped in %s", io_file_path(file));
        }
        if (sweep->free_count == 0)
            FIRN_TRY(sweep_reap(sweep, 1));
        struct io_request *request = sweep->free[--sweep->free_count];
        uint64_t left_bytes = to - from;
        request->file = file;
        request->op = op;
        request->offset = from;
        request->size_bytes =
            left_bytes < sweep->chunk_bytes ? (uint32_t)left_bytes : sweep->chunk_bytes;
        if (op == IO_OP_WRITE)
            fill_chunk(sweep, request);
        FIRN_TRY(io_queue_submit(sweep->queue, &request, 1));
        from += request->size_bytes;
    }
    return sweep_reap(sweep, io_queue_pending(sweep->queue));
}

/* ---- Prepare ---- */

enum file_action { FILE_CREATE, FILE_EXTEND, FILE_REUSE, FILE_REWRITE, FILE_SHORTEN };

/* What a file was before, so that a failure can restore it. */
struct file_before {
    bool existed;
    bool touched;
    uint64_t size_bytes;
    enum file_action action;
};

static enum file_action choose_action(const struct sweep *sweep, const struct file_before *before)
{
    uint64_t wanted_bytes = sweep->shape.prepared_bytes;
    if (before->size_bytes == 0)
        return FILE_CREATE;
    if (sweep->config->validate)
        return FILE_REWRITE;
    if (before->size_bytes < wanted_bytes)
        return FILE_EXTEND;
    return before->size_bytes == wanted_bytes ? FILE_REUSE : FILE_SHORTEN;
}

/* Where writing a file starts. */
static uint64_t write_from(const struct sweep *sweep, const struct file_before *before)
{
    uint64_t block_bytes = sweep->shape.block_bytes;
    switch (before->action) {
    case FILE_EXTEND:
        return before->size_bytes / block_bytes * block_bytes;
    case FILE_REUSE:
    case FILE_SHORTEN:
        return sweep->shape.prepared_bytes;
    default:
        return 0;
    }
}

static firn_rc look_at_file(struct sweep *sweep, uint64_t number, struct file_before *before)
{
    char path[PATH_MAX];
    struct io_file *file = NULL;
    FIRN_TRY(fileio_path(&sweep->storage, number, path));
    firn_rc rc =
        io_file_open(sweep->storage.system, IO_CLASS_TABLE, path, IO_OPEN_READ_ONLY, &file);
    if (rc == FIRN_OK) {
        before->existed = true;
        rc = io_file_size(file, &before->size_bytes);
        io_file_close(file);
    } else if (rc == FIRN_E_NOT_FOUND) {
        rc = FIRN_OK;
    }
    before->action = choose_action(sweep, before);
    return rc;
}

static firn_rc check_space(const struct sweep *sweep, uint64_t growth_bytes)
{
    struct statvfs status;
    if (growth_bytes == 0 || io_system_backend(sweep->storage.system) == IO_BACKEND_NULL ||
        statvfs(sweep->storage.directory, &status) != 0)
        return FIRN_OK;
    uint64_t free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    if (free_bytes >= growth_bytes && free_bytes - growth_bytes >= SPARE_BYTES)
        return FIRN_OK;
    return rc_raise(FIRN_E_NOSPACE,
                    "the test files need %" PRIu64 " MiB more, but %s has %" PRIu64
                    " MiB free: choose a smaller --file-total-size or another directory",
                    (growth_bytes + SPARE_BYTES) >> 20, sweep->storage.directory, free_bytes >> 20);
}

/* Look at all files before one is touched, and refuse what cannot be. */
static firn_rc plan_files(struct sweep *sweep, struct file_before *before)
{
    uint64_t count = 0;
    uint64_t growth_bytes = 0;
    FIRN_TRY(fileio_count_files(&sweep->storage, &count));
    if (count > sweep->shape.file_num)
        return rc_raise(FIRN_E_EXISTS,
                        "%s holds %" PRIu64 " test files of an earlier preparation, more than "
                        "--file-num=%" PRIu64 ": remove them first (firn fileio cleanup "
                        "--file-num=%" PRIu64 ")",
                        sweep->storage.directory, count, sweep->shape.file_num, count);
    for (uint64_t i = 0; i < sweep->shape.file_num; i++) {
        FIRN_TRY(look_at_file(sweep, i, &before[i]));
        sweep->total_bytes += sweep->shape.prepared_bytes - write_from(sweep, &before[i]);
        if (before[i].size_bytes < sweep->shape.prepared_bytes)
            growth_bytes += sweep->shape.prepared_bytes - before[i].size_bytes;
    }
    return check_space(sweep, growth_bytes);
}

static firn_rc write_file(struct sweep *sweep, struct io_file *file,
                          const struct file_before *before)
{
    uint64_t wanted_bytes = sweep->shape.prepared_bytes;
    uint64_t size_bytes = 0;
    FIRN_TRY(sweep_range(sweep, file, IO_OP_WRITE, write_from(sweep, before), wanted_bytes));
    FIRN_TRY(io_file_size(file, &size_bytes));
    if (size_bytes != wanted_bytes) /* it was longer, or the null backend has written nothing */
        FIRN_TRY(io_file_set_size(file, wanted_bytes));
    /* Synced, so that later runs do not pay for the write-back. */
    return before->action == FILE_REUSE ? FIRN_OK : io_sync(file, IO_SYNC_ALL);
}

static firn_rc prepare_file(struct sweep *sweep, uint64_t number, struct file_before *before)
{
    static const char *const texts[] = {
        [FILE_CREATE] = "Creating",
        [FILE_EXTEND] = "Extending existing",
        [FILE_REUSE] = "Reusing existing",
        [FILE_REWRITE] = "Rewriting existing",
        [FILE_SHORTEN] = "Shortening existing",
    };
    struct io_file *file = NULL;
    sweep->file = number;
    before->touched = true;
    FIRN_TRY(fileio_open_file(&sweep->storage, sweep->config, number, IO_OPEN_CREATE, &file));
    if (sweep->callbacks->file != NULL)
        sweep->callbacks->file(texts[before->action], io_file_path(file),
                               sweep->callbacks->context);
    firn_rc rc = write_file(sweep, file, before);
    if (rc != FIRN_OK) {
        /* Nothing of it may be under way when it is closed; the first failure stays the reason. */
        io_queue_close(sweep->queue);
        sweep->queue = NULL;
        io_file_close(file);
        return rc;
    }
    return io_file_close(file);
}

/* Take back what a failed preparation has made; bytes that were overwritten are gone, but they were
   test data. */
static void undo_files(struct sweep *sweep, const struct file_before *before)
{
    for (uint64_t i = 0; i < sweep->shape.file_num && before[i].touched; i++) {
        char path[PATH_MAX];
        struct io_file *file = NULL;
        if (fileio_path(&sweep->storage, i, path) != FIRN_OK)
            continue;
        if (!before[i].existed) {
            io_remove(sweep->storage.system, path);
        } else if (before[i].size_bytes < sweep->shape.prepared_bytes &&
                   io_file_open(sweep->storage.system, IO_CLASS_TABLE, path, 0, &file) == FIRN_OK) {
            io_file_set_size(file, before[i].size_bytes);
            io_file_close(file);
        }
    }
}

static firn_rc prepare_files(struct sweep *sweep, struct file_before *before)
{
    firn_rc rc = FIRN_OK;
    FIRN_TRY(plan_files(sweep, before));
    for (uint64_t i = 0; i < sweep->shape.file_num && rc == FIRN_OK; i++)
        rc = prepare_file(sweep, i, &before[i]);
    if (rc == FIRN_OK)
        return io_sync_directory(sweep->storage.system, sweep->storage.directory);
    if (rc == FIRN_E_STOPPED)
        return rc_raise(
            rc, "stopped after %" PRIu64 " of %" PRIu64 " MiB: prepare again to go on, or clean up",
            sweep->done_bytes >> 20, sweep->total_bytes >> 20);
    char reason[1024];
    snprintf(reason, sizeof(reason), "%s", firn_error_text());
    undo_files(sweep, before);
    return rc_raise(rc, "%s (what was made until then is removed again)", reason);
}

firn_rc fileio_prepare(const struct fileio_config *config, const struct fileio_callbacks *callbacks,
                       uint64_t *written_bytes)
{
    struct sweep sweep;
    FIRN_TRY(fileio_config_check(config, false));
    struct file_before *before = memory_zalloc(config->file_num, sizeof(*before));
    if (before == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to prepare %" PRIu64 " files", config->file_num);
    firn_rc rc = sweep_open(config, callbacks, FILEIO_STORAGE_WRITES, &sweep);
    if (rc == FIRN_OK) {
        sweep.sequence = block_sequence_start();
        sweep.seed = config->rand_seed != 0 ? config->rand_seed : sweep.sequence;
        rc = prepare_files(&sweep, before);
    }
    if (rc == FIRN_OK)
        *written_bytes = sweep.done_bytes;
    sweep_close(&sweep);
    memory_free(before);
    return rc;
}

/* ---- Verify ---- */

static firn_rc verify_files(struct sweep *sweep, struct io_file **files)
{
    FIRN_TRY(fileio_open_files(&sweep->storage, sweep->config, files));
    uint64_t bytes = sweep->shape.blocks_per_file * sweep->shape.block_bytes;
    sweep->total_bytes = sweep->shape.file_num * bytes;
    for (uint64_t i = 0; i < sweep->shape.file_num; i++) {
        sweep->file = i;
        FIRN_TRY(sweep_range(sweep, files[i], IO_OP_READ, 0, bytes));
    }
    return FIRN_OK;
}

firn_rc fileio_verify(const struct fileio_config *config, const struct fileio_callbacks *callbacks,
                      uint64_t *blocks, uint64_t *bad)
{
    struct fileio_config reading = *config;
    struct sweep sweep;
    reading.file_test_mode = FILEIO_SEQRD;
    reading.validate = true;
    FIRN_TRY(fileio_config_check(&reading, false));
    struct io_file **files = memory_zalloc(config->file_num, sizeof(struct io_file *));
    if (files == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to verify %" PRIu64 " files", config->file_num);
    firn_rc rc = sweep_open(&reading, callbacks, FILEIO_STORAGE_READS, &sweep);
    if (rc == FIRN_OK)
        rc = verify_files(&sweep, files);
    if (rc == FIRN_OK) {
        *blocks = sweep.shape.total_blocks;
        *bad = sweep.bad;
    }
    io_queue_close(sweep.queue);
    sweep.queue = NULL;
    fileio_close_files(files, config->file_num);
    sweep_close(&sweep);
    memory_free(files);
    return rc;
}

/* ---- Cleanup ---- */

static firn_rc remove_files(const struct fileio_storage *storage, uint64_t file_num,
                            uint64_t *removed)
{
    for (uint64_t i = 0; i < file_num; i++) {
        char path[PATH_MAX];
        FIRN_TRY(fileio_path(storage, i, path));
        firn_rc rc = io_remove(storage->system, path);
        if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
            return rc;
        *removed += rc == FIRN_OK;
    }
    uint64_t left = 0;
    FIRN_TRY(fileio_count_files(storage, &left));
    if (left > file_num)
        log_warning("%s still holds test files beyond --file-num=%" PRIu64 "; cleanup with "
                    "--file-num=%" PRIu64 " removes them",
                    storage->directory, file_num, left);
    return io_sync_directory(storage->system, storage->directory);
}

firn_rc fileio_cleanup(const struct fileio_config *config, uint64_t *removed)
{
    struct fileio_config removing = *config;
    struct fileio_storage storage = {0};
    uint64_t count = 0;
    removing.io_backend = IO_BACKEND_THREADS; /* none is needed: no warning of what is not there */
    FIRN_TRY(fileio_config_check(&removing, false));
    FIRN_TRY(fileio_storage_open(&removing, FILEIO_STORAGE_WRITES, false, &storage));
    firn_rc rc = remove_files(&storage, config->file_num, &count);
    fileio_storage_close(&storage);
    if (rc == FIRN_OK)
        *removed = count;
    return rc;
}
