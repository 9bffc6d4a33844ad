/*
 * writer.c -- who writes what, and when it is enough: runs of one thread at a time, flushing to an
 * LSN or a tablespace, room for a thread that found no free frame.
 */
#include "buffer/writer_internal.h"

#include "base/memory.h"
#include "base/park.h"

#include <stdio.h>
#include <string.h>

enum {
    PAUSE_NS = 200000,       /* while somebody changes what is to be written */
    SCAN_PAGES_PER_FREE = 8, /* looked at for each free frame that is wanted */
};

/* ---- Opening ---- */

static struct doublewrite_options doublewrite_options_of(const struct buffer_options *options)
{
    struct doublewrite_options doublewrite = {
        .system = options->doublewrite_system,
        .directory = options->doublewrite_directory,
        .page_size_bytes = options->page_size_bytes,
        .direct = options->doublewrite_direct,
    };
    memcpy(doublewrite.environment, options->environment, sizeof(doublewrite.environment));
    return doublewrite;
}

static firn_rc open_doublewrite(struct buffer_writer *writer)
{
    const struct buffer_options *options = &writer->pool->options;
    if (options->doublewrite == BUFFER_DOUBLEWRITE_OFF)
        return FIRN_OK;
    struct doublewrite_options doublewrite = doublewrite_options_of(options);
    return doublewrite_open(&doublewrite, &writer->doublewrite);
}

firn_rc buffer_writer_open(struct buffer_pool *pool)
{
    if (pool->options.system_count > WRITER_SYSTEMS_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "cannot open a buffer pool over %u devices: %d are the most",
                        pool->options.system_count, WRITER_SYSTEMS_MAX);
    size_t memory_bytes =
        (size_t)doublewrite_pages_max(pool->page_size_bytes) * pool->page_size_bytes;
    struct buffer_writer *writer = memory_zalloc(1, sizeof(*writer));
    uint8_t *memory = memory_alloc_aligned(memory_bytes, DOUBLEWRITE_BLOCK_BYTES);
    if (writer == NULL || memory == NULL) {
        memory_free(memory);
        memory_free(writer);
        return rc_raise(FIRN_E_NOMEM, "cannot open a buffer pool: no memory for its writer");
    }
    writer->pool = pool;
    writer->batch.memory = memory;
    atomic_init(&writer->writes_twice, true);
    pthread_mutex_init(&writer->mutex, NULL);
    /* Without a log pages can only be read. */
    flush_list_init(&writer->dirty,
                    pool->options.redo != NULL ? redo_capacity_bytes(pool->options.redo) : 0);
    pool->writer = writer;
    cleaner_init(writer);
    firn_rc rc = open_doublewrite(writer);
    if (rc == FIRN_OK)
        rc = cleaner_start(writer);
    if (rc != FIRN_OK)
        buffer_writer_close(pool);
    return rc;
}

void buffer_writer_close(struct buffer_pool *pool)
{
    struct buffer_writer *writer = pool->writer;
    if (writer == NULL)
        return;
    cleaner_free(writer); /* its thread uses all the rest */
    pool->writer = NULL;
    doublewrite_close(writer->doublewrite);
    flush_list_free(&writer->dirty);
    pthread_mutex_destroy(&writer->mutex);
    memory_free(writer->batch.memory);
    memory_free(writer);
}

/* ---- Runs ---- */

void writer_keep_error(struct writer_error *error, firn_rc rc)
{
    error->rc = rc;
    snprintf(error->text, sizeof(error->text), "%s", firn_error_text());
}

void writer_note_error(struct writer_run *run, firn_rc rc)
{
    if (rc != FIRN_OK && run->error.rc == FIRN_OK)
        writer_keep_error(&run->error, rc);
}

void writer_stop(struct writer_run *run, firn_rc rc)
{
    if (run->writer->stopped.rc == FIRN_OK)
        writer_keep_error(&run->writer->stopped, rc);
    /* The log may fill its ring; who then asks for room gets this error. */
    redo_set_limit(run->writer->pool->options.redo, UINT64_MAX, 0);
}

static firn_rc raise_stopped(const struct buffer_writer *writer)
{
    return rc_raise(FIRN_E_STOPPED,
                    "no page is written any more since a sync failed (%s); close and recover",
                    writer->stopped.text);
}

firn_rc writer_run_begin(struct writer_run *run, struct buffer_writer *writer,
                         struct io_queue **queues)
{
    memset(run, 0, sizeof(*run));
    run->writer = writer;
    run->queues = queues != NULL ? queues : run->own_queues;
    lock_take(&writer->mutex);
    if (writer->stopped.rc == FIRN_OK) {
        run->number = ++writer->runs;
        return FIRN_OK;
    }
    firn_rc rc = raise_stopped(writer);
    lock_give(&writer->mutex);
    return rc;
}

void writer_close_queues(struct io_queue **queues)
{
    for (unsigned i = 0; i < WRITER_SYSTEMS_MAX; i++) {
        io_queue_close(queues[i]);
        queues[i] = NULL;
    }
}

firn_rc writer_run_end(struct writer_run *run)
{
    writer_close_queues(run->own_queues);
    if (run->writer->stopped.rc != FIRN_OK) {
        run->error.rc = raise_stopped(run->writer);
        lock_give(&run->writer->mutex);
        return run->error.rc;
    }
    lock_give(&run->writer->mutex);
    return run->error.rc == FIRN_OK ? FIRN_OK : rc_raise(run->error.rc, "%s", run->error.text);
}

bool writer_run_pause(struct writer_run *run)
{
    lock_give(&run->writer->mutex);
    clock_pause(buffer_clock(run->writer->pool), PAUSE_NS);
    lock_take(&run->writer->mutex);
    return run->writer->stopped.rc == FIRN_OK;
}

/* ---- What a run can do ---- */

uint32_t writer_make_free(struct writer_run *run, uint32_t want_free)
{
    struct buffer_pool *pool = run->writer->pool;
    struct buffer_frame *frames[BATCH_PAGES_MAX];
    uint32_t steps = want_free * SCAN_PAGES_PER_FREE;
    uint32_t free_frames = buffer_evict(pool, want_free, steps);
    while (free_frames < want_free && run->writer->stopped.rc == FIRN_OK) {
        unsigned count = buffer_take_cold(pool, frames, batch_pages_max(pool));
        if (count == 0 || batch_write(run, frames, count, true) == 0)
            break;
        cleaner_tell(run->writer);
        free_frames = buffer_evict(pool, want_free, steps);
    }
    if (free_frames > 0)
        cleaner_tell(run->writer);
    return free_frames;
}

unsigned writer_write_oldest(struct writer_run *run, uint64_t below_lsn, unsigned max,
                             unsigned *written)
{
    struct buffer_pool *pool = run->writer->pool;
    struct buffer_frame *frames[BATCH_PAGES_MAX];
    unsigned limit = batch_pages_max(pool);
    unsigned found =
        flush_list_oldest(pool, below_lsn, run->number, frames, max < limit ? max : limit);
    unsigned pinned = 0;
    for (unsigned i = 0; i < found; i++)
        if (buffer_pin_dirty(pool, frames[i]))
            frames[pinned++] = frames[i];
    *written = pinned > 0 ? batch_write(run, frames, pinned, false) : 0;
    return found;
}

bool writer_checkpoint(struct writer_run *run, uint64_t gain_bytes)
{
    struct buffer_writer *writer = run->writer;
    struct redo *redo = writer->pool->options.redo;
    uint64_t lsn = buffer_clean_lsn(writer->pool);
    if (writer->stopped.rc != FIRN_OK || lsn == UINT64_MAX) /* stopped, or in recovery */
        return false;
    uint64_t last_lsn = redo_checkpoint_lsn(redo);
    if (lsn <= last_lsn || lsn - last_lsn < gain_bytes)
        return false;
    firn_rc rc = redo_checkpoint(redo, lsn);
    writer_note_error(run, rc);
    return rc == FIRN_OK;
}

/* ---- Flushing ---- */

firn_rc buffer_flush(struct buffer_pool *pool, uint64_t target_lsn)
{
    struct writer_run run;
    unsigned found;
    unsigned written;
    uint64_t reserved_lsn = redo_reserved_lsn(pool->options.redo);
    if (target_lsn > reserved_lsn) /* what is dirtied from now on is not meant */
        target_lsn = reserved_lsn;
    FIRN_TRY(writer_run_begin(&run, pool->writer, NULL));
    do {
        cleaner_between(&run);
        if (run.writer->stopped.rc != FIRN_OK)
            break;
        found = writer_write_oldest(&run, target_lsn, BATCH_PAGES_MAX, &written);
        if (found > 0 && written == 0 && !writer_run_pause(&run))
            break;
    } while (found > 0);
    return writer_run_end(&run);
}

/* Frames to be written whatever their age: those of a tablespace, or from a number on. */
struct frame_filter {
    uint32_t first_frame;
    bool any_space;
    uint32_t space;
};

static bool pin_if_wanted(struct buffer_pool *pool, struct buffer_frame *frame,
                          const struct frame_filter *filter, uint64_t tried)
{
    if (frame->writer_word == tried || !buffer_pin_dirty(pool, frame))
        return false;
    if (filter->any_space || page_id_space(buffer_page_id(frame)) == filter->space)
        return true;
    buffer_unpin(pool, frame);
    return false;
}

/* Go over the frames once. @return 0 if no dirty one was left: latched by somebody, as a rule */
static unsigned write_frames(struct writer_run *run, const struct frame_filter *filter)
{
    struct buffer_pool *pool = run->writer->pool;
    struct buffer_frame *frames[BATCH_PAGES_MAX];
    uint32_t end = atomic_load_explicit(&pool->frame_count, memory_order_relaxed);
    uint32_t next = filter->first_frame;
    unsigned left = 0;
    while (next < end && run->writer->stopped.rc == FIRN_OK) {
        unsigned count = 0;
        for (; next < end && count < batch_pages_max(pool); next++)
            if (pin_if_wanted(pool, &pool->frames[next], filter, run->number))
                frames[count++] = &pool->frames[next];
        /* Pages that must come along count as if they had been asked for: at worst they are, once
           more. */
        unsigned asked = count > 0 ? count + run->writer->batch.held : 0;
        left += count > 0 ? asked - batch_write(run, frames, count, false) : 0;
        if (run->writer->stopped.rc == FIRN_OK)
            cleaner_between(run);
    }
    return left;
}

firn_rc buffer_flush_space(struct buffer_pool *pool, uint32_t space)
{
    struct writer_run run;
    FIRN_TRY(writer_run_begin(&run, pool->writer, NULL));
    struct frame_filter filter = {.space = space};
    while (write_frames(&run, &filter) > 0)
        if (!writer_run_pause(&run))
            break;
    return writer_run_end(&run);
}

firn_rc buffer_writer_evacuate(struct buffer_pool *pool, uint32_t first_frame)
{
    struct writer_run run;
    FIRN_TRY(writer_run_begin(&run, pool->writer, NULL));
    write_frames(&run, &(struct frame_filter){.first_frame = first_frame, .any_space = true});
    return writer_run_end(&run);
}

/* ---- The rest ---- */

firn_rc buffer_doublewrite_repair(struct buffer_pool *pool, unsigned *repaired)
{
    const struct buffer_options *options = &pool->options;
    if (options->doublewrite_directory == NULL) {
        *repaired = 0;
        return FIRN_OK;
    }
    return buffer_doublewrite_mend(options, redo_checkpoint_lsn(options->redo), repaired);
}

firn_rc buffer_doublewrite_mend(const struct buffer_options *options, uint64_t checkpoint_lsn,
                                unsigned *repaired)
{
    struct doublewrite_options doublewrite = doublewrite_options_of(options);
    return doublewrite_repair(&doublewrite, &options->files, checkpoint_lsn, repaired);
}

void buffer_writer_counters(struct buffer_pool *pool, struct buffer_counters *counters)
{
    struct buffer_writer *writer = pool->writer;
    counters->pages_dirty = atomic_load_explicit(&writer->dirty.count, memory_order_relaxed) +
                            atomic_load_explicit(&writer->writing, memory_order_relaxed);
    counters->pages_written = atomic_load_explicit(&writer->pages_written, memory_order_relaxed);
    counters->flush_batches = atomic_load_explicit(&writer->batches, memory_order_relaxed);
    counters->doublewrite_pages =
        atomic_load_explicit(&writer->doublewrite_pages, memory_order_relaxed);
    counters->doublewrite_batches =
        atomic_load_explicit(&writer->doublewrite_batches, memory_order_relaxed);
    counters->clean_lsn = buffer_clean_lsn(pool);
    counters->doublewrite = writer->doublewrite != NULL &&
                            atomic_load_explicit(&writer->writes_twice, memory_order_relaxed);
}
