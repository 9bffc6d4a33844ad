#include "engine/backup_internal.h"

#include "base/checksum.h"
#include "base/memory.h"

#include <string.h>

/* The log is copied beside the pages, by whichever thread finds that much of it is left. It has no
   room but the ring of files, so it comes before pages: they wait for it. */
enum {
    FOLLOW_BYTES = 4 << 20,
    FOLLOW_SHARE = 16, /* of what the ring holds, if that is less */
};

/* ---- Checksums ---- */

firn_rc backup_sums_add(struct backup_sums *sums, const uint8_t *bytes, uint64_t size_bytes,
                        backup_sum_function *function, void *context)
{
    while (size_bytes > 0) {
        uint64_t left = BACKUP_CHUNK_BYTES - sums->size_bytes % BACKUP_CHUNK_BYTES;
        uint64_t size = size_bytes < left ? size_bytes : left;
        sums->checksum = checksum_crc32c_extend(sums->checksum, bytes, size);
        sums->size_bytes += size;
        bytes += size;
        size_bytes -= size;
        if (size < left)
            break;
        FIRN_TRY(function(sums->size_bytes / BACKUP_CHUNK_BYTES - 1, sums->checksum, context));
        sums->checksum = 0;
    }
    return FIRN_OK;
}

firn_rc backup_sums_end(struct backup_sums *sums, backup_sum_function *function, void *context)
{
    if (sums->size_bytes % BACKUP_CHUNK_BYTES == 0)
        return FIRN_OK;
    return function(sums->size_bytes / BACKUP_CHUNK_BYTES, sums->checksum, context);
}

static firn_rc keep_sum(uint64_t chunk, uint32_t checksum, void *context)
{
    struct backup_log *log = context;
    if (chunk == log->chunk_capacity) {
        uint64_t capacity = log->chunk_capacity == 0 ? 64 : 2 * log->chunk_capacity;
        uint32_t *sums = memory_realloc(log->chunk_sums, capacity * sizeof(*sums));
        if (sums == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for checksums of the log");
        log->chunk_sums = sums;
        log->chunk_capacity = capacity;
    }
    log->chunk_sums[chunk] = checksum;
    log->chunk_count = chunk + 1;
    return FIRN_OK;
}

/* ---- Copying ---- */

firn_rc backup_log_begin(struct backup *backup)
{
    struct backup_log *log = &backup->log;
    struct redo *redo = backup->store->redo;
    uint64_t share = redo_capacity_bytes(redo) / FOLLOW_SHARE;
    log->follow_bytes = share < FOLLOW_BYTES ? share : FOLLOW_BYTES;
    FIRN_TRY(redo_copy_open(redo, &log->copy));
    backup->manifest.start = *redo_copy_start(log->copy);
    char *path = env_path(backup->directory, BACKUP_LOG_FILE);
    if (path == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a backup");
    firn_rc rc = io_file_open(backup->system, IO_CLASS_REDO, path,
                              IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE, &log->file);
    memory_free(path);
    return rc;
}

/* Until no more than so many bytes are left. With the mutex. */
static firn_rc copy_log(struct backup_log *log, uint64_t limit_lsn, uint64_t leave_bytes)
{
    struct span bytes;
    do {
        FIRN_TRY(redo_copy_next(log->copy, limit_lsn, &bytes));
        if (bytes.size_bytes == 0)
            return FIRN_OK;
        FIRN_TRY(io_write(log->file, bytes.bytes, bytes.size_bytes, log->sums.size_bytes));
        FIRN_TRY(backup_sums_add(&log->sums, bytes.bytes, bytes.size_bytes, keep_sum, log));
    } while (redo_copy_lag_bytes(log->copy) > leave_bytes);
    return FIRN_OK;
}

firn_rc backup_log_follow(struct backup *backup)
{
    struct backup_log *log = &backup->log;
    if (redo_copy_lag_bytes(log->copy) <= log->follow_bytes)
        return FIRN_OK;
    lock_take(&log->mutex);
    firn_rc rc = copy_log(log, UINT64_MAX, log->follow_bytes / 2);
    lock_give(&log->mutex);
    return rc;
}

/* The end is not before anything that a page of the copy has: the pages are there. Most of the log
   is copied first, so that little is left when the end is chosen. */
static firn_rc copy_to_end(struct backup *backup)
{
    struct backup_log *log = &backup->log;
    struct redo *redo = backup->store->redo;
    FIRN_TRY(copy_log(log, UINT64_MAX, log->follow_bytes / 2));
    backup->manifest.end_lsn = redo_checkpoint_lsn(redo);
    if (!backup->store->options.read_only) {
        backup->manifest.end_lsn = redo_reserved_lsn(redo);
        FIRN_TRY(redo_flush(redo, backup->manifest.end_lsn, REDO_FLUSH_SYNC));
    }
    FIRN_TRY(copy_log(log, backup->manifest.end_lsn, 0));
    return backup_sums_end(&log->sums, keep_sum, log);
}

/* The log becomes the manifest's last file. */
static firn_rc add_to_manifest(struct backup *backup)
{
    struct backup_log *log = &backup->log;
    struct backup_manifest *manifest = &backup->manifest;
    struct backup_file *file;
    FIRN_TRY(backup_manifest_reserve(manifest, manifest->sum_count + log->chunk_count));
    FIRN_TRY(backup_manifest_add(manifest, NULL, &file));
    file->class = IO_CLASS_REDO;
    file->size_bytes = log->sums.size_bytes;
    file->first_chunk = manifest->sum_count;
    if (log->chunk_count != 0)
        memcpy(manifest->sums + manifest->sum_count, log->chunk_sums,
               log->chunk_count * sizeof(*log->chunk_sums));
    manifest->sum_count += log->chunk_count;
    return FIRN_OK;
}

firn_rc backup_log_finish(struct backup *backup)
{
    struct backup_log *log = &backup->log;
    lock_take(&log->mutex);
    firn_rc rc = copy_to_end(backup);
    lock_give(&log->mutex);
    FIRN_TRY(rc);
    FIRN_TRY(io_sync(log->file, IO_SYNC_ALL));
    rc = io_file_close(log->file);
    log->file = NULL;
    return rc == FIRN_OK ? add_to_manifest(backup) : rc;
}

void backup_log_close(struct backup *backup)
{
    struct backup_log *log = &backup->log;
    if (log->file != NULL)
        (void)io_file_close(log->file);
    log->file = NULL;
    redo_copy_close(log->copy);
    log->copy = NULL;
    memory_free(log->chunk_sums);
    log->chunk_sums = NULL;
}
