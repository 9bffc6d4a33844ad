#include "engine/backup_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>

void backup_options_init(struct backup_options *options)
{
    *options = (struct backup_options){.io_backend = IO_BACKEND_AUTO, .direct = true, .threads = 1};
}

firn_rc backup_check_stop(const struct backup_options *options)
{
    if (options->stop == NULL || !atomic_load_explicit(options->stop, memory_order_relaxed))
        return FIRN_OK;
    return rc_raise(FIRN_E_CANCELLED, "interrupted");
}

/* ---- Files ---- */

/* A device whose blocks are larger than what buffers are aligned to gets no direct I/O. */
static firn_rc open_end(struct io_system *system, enum io_class class, const char *path,
                        unsigned flags, bool direct, struct io_file **file)
{
    struct io_file *opened;
    FIRN_TRY(io_file_open(system, class, path, flags | (direct ? IO_OPEN_DIRECT : 0), &opened));
    if (io_file_alignment(opened) > BACKUP_BLOCK_BYTES) {
        FIRN_TRY(io_file_close(opened));
        FIRN_TRY(io_file_open(system, class, path, flags, &opened));
    }
    *file = opened;
    return FIRN_OK;
}

static firn_rc open_file(const struct backup_work *work, struct backup_file *file)
{
    bool direct = work->options->direct;
    FIRN_TRY(open_end(file->from_system, file->class, file->from_path, IO_OPEN_READ_ONLY, direct,
                      &file->from));
    if (file->to_path == NULL)
        return FIRN_OK;
    return open_end(file->to_system, file->class, file->to_path, IO_OPEN_CREATE, direct, &file->to);
}

/* What was written is durable then. */
static firn_rc finish_file(struct backup_file *file)
{
    firn_rc rc = file->to == NULL || file->is_gone ? FIRN_OK : io_sync(file->to, IO_SYNC_ALL);
    firn_rc to_rc = file->to == NULL ? FIRN_OK : io_file_close(file->to);
    firn_rc from_rc = file->from == NULL ? FIRN_OK : io_file_close(file->from);
    file->to = NULL;
    file->from = NULL;
    if (rc == FIRN_OK)
        rc = to_rc;
    return rc == FIRN_OK ? from_rc : rc;
}

static struct backup_file *file_of_chunk(const struct backup_work *work, uint64_t chunk)
{
    size_t low = 0;
    size_t high = work->file_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (work->files[middle].first_chunk <= chunk)
            low = middle;
        else
            high = middle;
    }
    return &work->files[low];
}

/* ---- Chunks ---- */

/* With the mutex. */
static void keep_failure(struct backup_work *work, firn_rc rc)
{
    if (rc == FIRN_OK || work->rc != FIRN_OK)
        return;
    work->rc = rc;
    snprintf(work->text, sizeof(work->text), "%s", firn_error_text());
}

/* With the mutex. A failure that is forgiven leaves the rest of the file out. */
static void take_failure(struct backup_work *work, struct backup_file *file, firn_rc rc)
{
    if (rc == FIRN_OK)
        return;
    keep_failure(work, work->failed(file, rc, work->context));
    file->is_gone = true;
}

/* @return the file of the next chunk; NULL when there is none, or somebody has failed */
static struct backup_file *take_chunk(struct backup_work *work, uint64_t *chunk, bool *is_gone)
{
    struct backup_file *file = NULL;
    lock_take(&work->mutex);
    keep_failure(work, backup_check_stop(work->options));
    if (work->rc == FIRN_OK && work->next_chunk < work->chunk_count) {
        *chunk = work->next_chunk++;
        file = file_of_chunk(work, *chunk);
        if (file->from == NULL && !file->is_gone)
            take_failure(work, file, open_file(work, file));
        *is_gone = file->is_gone;
    }
    lock_give(&work->mutex);
    return file;
}

/* Who tells is not waited for. */
static void tell(struct backup_work *work, uint64_t done_bytes)
{
    const struct backup_options *options = work->options;
    if (options->progress == NULL || pthread_mutex_trylock(&work->tell_mutex) != 0)
        return;
    struct recovery_progress progress = {work->phase, done_bytes, work->total_bytes};
    options->progress(&progress, options->progress_context);
    pthread_mutex_unlock(&work->tell_mutex);
}

/* Account for a chunk. The last one of a file closes it, which no one else uses any more. */
static void end_chunk(struct backup_work *work, struct backup_file *file, uint32_t size_bytes,
                      firn_rc rc)
{
    lock_take(&work->mutex);
    take_failure(work, file, rc);
    bool is_last = ++file->chunks_done == backup_chunks(file->size_bytes);
    uint64_t done_bytes = work->done_bytes += size_bytes;
    lock_give(&work->mutex);
    if (is_last) {
        rc = finish_file(file);
        lock_take(&work->mutex);
        take_failure(work, file, rc);
        lock_give(&work->mutex);
    }
    tell(work, done_bytes);
}

static void work_on(struct backup_work *work, uint8_t *buffer)
{
    uint64_t chunk;
    bool is_gone;
    struct backup_file *file;
    while ((file = take_chunk(work, &chunk, &is_gone)) != NULL) {
        uint64_t offset = (chunk - file->first_chunk) * BACKUP_CHUNK_BYTES;
        uint64_t left = file->size_bytes - offset;
        uint32_t size = left < BACKUP_CHUNK_BYTES ? (uint32_t)left : BACKUP_CHUNK_BYTES;
        firn_rc rc = FIRN_OK;
        if (!is_gone)
            rc = work->chunk(file, offset, size, buffer, work->context);
        end_chunk(work, file, size, rc);
    }
}

/* ---- Threads ---- */

struct worker {
    struct backup_work *work;
    struct clock *joined; /* a virtual clock that the thread goes by, or NULL */
    pthread_t thread;
};

static void *run_worker(void *context)
{
    struct worker *worker = context;
    struct backup_work *work = worker->work;
    if (worker->joined != NULL)
        clock_wait_until(worker->joined, clock_now(worker->joined));
    uint8_t *buffer = memory_alloc_aligned(BACKUP_CHUNK_BYTES, BACKUP_BLOCK_BYTES);
    if (buffer != NULL) {
        work_on(work, buffer);
    } else {
        lock_take(&work->mutex);
        keep_failure(work, rc_raise(FIRN_E_NOMEM, "no memory for a backup"));
        lock_give(&work->mutex);
    }
    memory_free(buffer);
    if (worker->joined != NULL)
        clock_leave(worker->joined);
    return NULL;
}

/* Fewer threads than wanted are no failure. In virtual time a thread is joined by who starts it. */
static unsigned start_workers(struct worker *workers, unsigned count, struct backup_work *work)
{
    struct clock *joined = clock_joined();
    unsigned started = 0;
    for (bool going = true; going && started < count;) {
        workers[started] = (struct worker){.work = work, .joined = joined};
        if (joined != NULL)
            clock_join(joined);
        going = pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]) == 0;
        if (going)
            started++;
        else if (joined != NULL)
            clock_leave(joined);
    }
    return started;
}

/* This thread works as well. Virtual time must pass while it waits for the others. */
static void run_threads(struct backup_work *work)
{
    struct worker workers[BACKUP_THREADS_MAX];
    struct worker own = {.work = work};
    struct clock *joined = clock_joined();
    unsigned wanted = work->options->threads < 1 ? 1 : work->options->threads;
    if (wanted > BACKUP_THREADS_MAX)
        wanted = BACKUP_THREADS_MAX;
    unsigned started = start_workers(workers, wanted - 1, work);
    run_worker(&own);
    if (started == 0)
        return;
    if (joined != NULL)
        clock_leave(joined);
    for (unsigned i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    if (joined != NULL)
        clock_join(joined);
}

firn_rc backup_work_run(struct backup_work *work)
{
    for (size_t i = 0; i < work->file_count; i++) {
        work->chunk_count += backup_chunks(work->files[i].size_bytes);
        work->total_bytes += work->files[i].size_bytes;
    }
    if (work->chunk_count == 0)
        return FIRN_OK;
    pthread_mutex_init(&work->mutex, NULL);
    pthread_mutex_init(&work->tell_mutex, NULL);
    run_threads(work);
    for (size_t i = 0; i < work->file_count; i++) {
        struct backup_file *file = &work->files[i];
        file->is_gone |= work->rc != FIRN_OK; /* what has failed needs no sync */
        keep_failure(work, finish_file(file));
    }
    pthread_mutex_destroy(&work->tell_mutex);
    pthread_mutex_destroy(&work->mutex);
    return work->rc == FIRN_OK ? FIRN_OK : rc_raise(work->rc, "%s", work->text);
}
