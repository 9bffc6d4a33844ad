#include "engine/backup_internal.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/memory.h"

#include <string.h>

enum {
    PAGE_TRIES = 5,
    AGAIN_US = 1000,
    PACE_MS = 50, /* who waits for its turn looks after the log so often */
};

/* ---- Which files ---- */

static firn_rc take_entry(const struct space_file_entry *entry, void *context)
{
    struct backup *backup = context;
    struct backup_manifest *manifest = &backup->manifest;
    struct backup_file *file;
    FIRN_TRY(backup_manifest_add(manifest, entry->name, &file));
    file->space = entry->space;
    file->class = entry->class;
    file->size_bytes = (uint64_t)entry->pages * manifest->page_size_bytes;
    file->first_chunk = manifest->sum_count;
    file->from_system = backup->store->systems[entry->class];
    file->to_system = backup->system;
    file->from_path = memory_copy_text(entry->path);
    if (file->from_path == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to list tablespaces");
    file->to_path = backup_file_path(backup->directory, file);
    if (file->to_path == NULL)
        return FIRN_E_NOMEM;
    manifest->sum_count += backup_chunks(file->size_bytes);
    return FIRN_OK;
}

/* ---- One page ---- */

/* The pool has it whole, or reads it when nobody writes it. */
static firn_rc copy_from_pool(struct backup *backup, uint64_t page_id, uint8_t *page)
{
    struct buffer_pool *pool = backup->store->pool;
    struct buffer_frame *frame;
    FIRN_TRY(buffer_fix(pool, page_id, BUFFER_SHARED, BUFFER_HINT_SCAN, &frame));
    memcpy(page, buffer_page(pool, frame), backup->manifest.page_size_bytes);
    buffer_unfix(pool, frame, BUFFER_SHARED);
    page_seal(page, backup->manifest.page_size_bytes);
    return FIRN_OK;
}

/* What was read is no whole page: one that is being written just now; one that nobody has yet, or
   that was written never; one that is damaged. A page that nobody has may be anything: zeros. */
static firn_rc mend_page(struct backup *backup, uint64_t page_id, uint8_t *page)
{
    firn_rc rc = FIRN_OK;
    for (unsigned i = 0; i < PAGE_TRIES; i++) {
        bool has;
        if (rc == FIRN_E_BUSY) /* every frame is pinned */
            clock_pause(backup->clock, AGAIN_US * NS_PER_US);
        FIRN_TRY(space_has_page(backup->store->spaces, page_id_space(page_id),
                                page_id_number(page_id), &has));
        if (!has) {
            memset(page, 0, backup->manifest.page_size_bytes);
            return FIRN_OK;
        }
        rc = copy_from_pool(backup, page_id, page);
        /* One that was given back in between is nobody's again. */
        if (rc != FIRN_E_BUSY && rc != FIRN_E_CORRUPT && rc != FIRN_E_IO)
            return rc;
    }
    return rc;
}

static bool is_good(const struct backup *backup, uint64_t page_id, const uint8_t *page)
{
    return page_verify(page, backup->manifest.page_size_bytes, page_id,
                       redo_page_limit(backup->store->redo)) == PAGE_GOOD;
}

/* ---- A chunk ---- */

/* Chunks begin one after the other in time, however many threads there are. */
static firn_rc wait_for_turn(struct backup *backup, uint32_t size_bytes)
{
    uint64_t rate = backup->options->throttle_bytes_s;
    if (rate == 0)
        return FIRN_OK;
    uint64_t now = clock_now(backup->clock);
    pthread_mutex_lock(&backup->pace_mutex);
    uint64_t turn = backup->next_ns > now ? backup->next_ns : now;
    backup->next_ns = turn + (uint64_t)((double)size_bytes / (double)rate * (double)NS_PER_S);
    pthread_mutex_unlock(&backup->pace_mutex);
    while ((now = clock_now(backup->clock)) < turn) {
        FIRN_TRY(backup_check_stop(backup->options));
        FIRN_TRY(backup_log_follow(backup));
        uint64_t left = turn - now;
        clock_pause(backup->clock, left < PACE_MS * NS_PER_MS ? left : PACE_MS * NS_PER_MS);
    }
    return FIRN_OK;
}

static firn_rc read_pages(struct backup *backup, struct backup_file *file, uint64_t offset,
                          uint32_t size_bytes, uint8_t *buffer)
{
    uint32_t page_size = backup->manifest.page_size_bytes;
    bool is_read = io_read(file->from, buffer, size_bytes, offset) == FIRN_OK;
    for (uint32_t at = 0; at < size_bytes; at += page_size) {
        uint64_t page_id = page_id_of(file->space, (uint32_t)((offset + at) / page_size));
        if (!is_read || !is_good(backup, page_id, buffer + at))
            FIRN_TRY(mend_page(backup, page_id, buffer + at));
    }
    return FIRN_OK;
}

static firn_rc copy_chunk(struct backup_file *file, uint64_t offset, uint32_t size_bytes,
                          uint8_t *buffer, void *context)
{
    struct backup *backup = context;
    FIRN_TRY(wait_for_turn(backup, size_bytes));
    FIRN_TRY(backup_log_follow(backup));
    FIRN_TRY(read_pages(backup, file, offset, size_bytes, buffer));
    backup->manifest.sums[file->first_chunk + offset / BACKUP_CHUNK_BYTES] =
        checksum_crc32c(buffer, size_bytes);
    return io_write(file->to, buffer, size_bytes, offset);
}

/* A tablespace that was dropped meanwhile has a record in the log that says so. */
static firn_rc forgive_dropped(struct backup_file *file, firn_rc rc, void *context)
{
    struct backup *backup = context;
    bool is_there = space_has(backup->store->spaces, page_id_of(file->space, 0)) == FIRN_OK;
    return is_there ? rc : FIRN_OK;
}

/* ---- All ---- */

/* Dropped ones leave no file, and no checksums. */
static firn_rc leave_out_dropped(struct backup *backup)
{
    struct backup_manifest *manifest = &backup->manifest;
    uint64_t sums = 0;
    size_t kept = 0;
    for (size_t i = 0; i < manifest->file_count; i++) {
        struct backup_file *file = &manifest->files[i];
        uint64_t chunks = backup_chunks(file->size_bytes);
        firn_rc rc = file->is_gone ? io_remove(backup->system, file->to_path) : FIRN_OK;
        if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
            return rc;
        if (file->is_gone)
            continue;
        memmove(manifest->sums + sums, manifest->sums + file->first_chunk,
                chunks * sizeof(*manifest->sums));
        file->first_chunk = sums;
        sums += chunks;
        struct backup_file dropped = manifest->files[kept];
        manifest->files[kept++] = *file;
        *file = dropped;
    }
    manifest->sum_count = sums;
    backup_manifest_truncate(manifest, kept);
    return FIRN_OK;
}

firn_rc backup_copy_pages(struct backup *backup)
{
    struct backup_manifest *manifest = &backup->manifest;
    FIRN_TRY(space_each_file(backup->store->spaces, take_entry, backup));
    FIRN_TRY(backup_manifest_reserve(manifest, manifest->sum_count));
    struct backup_work work = {
        .options = backup->options,
        .phase = "copying",
        .files = manifest->files,
        .file_count = manifest->file_count,
        .chunk = copy_chunk,
        .failed = forgive_dropped,
        .context = backup,
    };
    FIRN_TRY(backup_work_run(&work));
    return leave_out_dropped(backup);
}
