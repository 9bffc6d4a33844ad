/*
 * batch.c -- one batch of pages on its way: copied, its log durable, what differs written twice,
 * synced.
 */
#include "buffer/writer_internal.h"

#include "base/inject.h"

#include <stdlib.h>
#include <string.h>

enum {
    GAP_BYTES = WRITE_BLOCK_BYTES
}; /* of unchanged bytes, rather written than asked for around */

unsigned batch_pages_max(const struct buffer_pool *pool)
{
    unsigned spare = atomic_load_explicit(&pool->frame_count, memory_order_relaxed) / 4;
    unsigned pages = doublewrite_pages_max(pool->page_size_bytes);
    pages = pages < pool->writer->batch_pages ? pages : pool->writer->batch_pages;
    return spare < pages ? spare : pages;
}

static uint8_t *batch_image(const struct buffer_pool *pool, struct batch *batch, unsigned i)
{
    return batch->memory + (size_t)i * pool->page_size_bytes;
}

/* ---- Copying ---- */

/* By place; of one page's two, that first which must come along. */
static int compare_pages(const void *left, const void *right)
{
    const struct batch_page *a = left;
    const struct batch_page *b = right;
    if (a->page_id != b->page_id)
        return a->page_id < b->page_id ? -1 : 1;
    return b->is_held - a->is_held;
}

static void release(struct buffer_pool *pool, const struct batch_page *page)
{
    if (page->is_cold)
        buffer_return_cold(pool, page->frame);
    else
        buffer_unpin(pool, page->frame);
}

/* Copy a page as its next one of the batch. @return false if it is latched by somebody, being
   written already or clean */
static bool copy_page(struct buffer_pool *pool, struct batch *batch, struct batch_page *page)
{
    struct buffer_frame *frame = page->frame;
    uint8_t *image = batch_image(pool, batch, batch->count);
    bool recovery_begins_it = false;
    if (!buffer_try_latch(pool, frame, BUFFER_SHARED))
        return false;
    bool copied = buffer_begin_write(frame);
    if (copied) {
        page->oldest_lsn = flush_list_remove(pool, frame);
        memcpy(image, buffer_page(pool, frame), pool->page_size_bytes);
        recovery_begins_it = frame->is_begun;
        frame->is_begun = 0;
    }
    buffer_unlatch(pool, frame, BUFFER_SHARED);
    if (!copied)
        return false;
    /* The last look before these bytes become durable. */
    ENSURE(page_id_of(page_space(image), page_number(image)) == page->page_id);
    page_seal(image, pool->page_size_bytes);
    page->sectors = sectors_compare(pool, frame, image);
    page->is_twice = pool->writer->doublewrite != NULL && !page->is_atomic && !recovery_begins_it;
    if (page_lsn(image) > batch->newest_lsn)
        batch->newest_lsn = page_lsn(image);
    return true;
}

/* Find a page's place, and how it is written there. @return false if it has none */
static bool locate_page(struct writer_run *run, struct batch_page *page)
{
    const struct buffer_options *options = &run->writer->pool->options;
    firn_rc rc =
        options->files.locate(options->files.context, page->page_id, &page->file, &page->offset);
    if (rc != FIRN_OK) {
        writer_note_error(run, rc);
        page->frame->writer_word = run->number;
        release(run->writer->pool, page);
        return false;
    }
    page->is_atomic = options->doublewrite == BUFFER_DOUBLEWRITE_DETECT &&
                      io_file_atomic_write_bytes(page->file) >= options->page_size_bytes &&
                      page->offset % options->page_size_bytes == 0;
    return true;
}

/* @return false if the page could not be copied now */
static bool add_page(struct buffer_pool *pool, struct batch *batch, struct batch_page *page)
{
    if (!copy_page(pool, batch, page)) {
        release(pool, page);
        return false;
    }
    if (!page->is_cold)
        buffer_unpin(pool, page->frame); /* WRITING keeps it */
    batch->pages[batch->count++] = *page;
    return true;
}

/* The pages that the batch must take along: those of the batch before that failed, as far as they
   are still there. */
static unsigned take_held(struct writer_run *run, struct batch_page *candidates)
{
    struct buffer_pool *pool = run->writer->pool;
    struct batch *batch = &run->writer->batch;
    unsigned kept = 0;
    for (unsigned i = 0; i < batch->held; i++) {
        struct batch_hold hold = batch->holds[i];
        if (!buffer_pin_dirty(pool, hold.frame))
            continue;
        if (buffer_page_id(hold.frame) != hold.page_id) {
            buffer_unpin(pool, hold.frame);
            continue;
        }
        struct batch_page page = {.frame = hold.frame, .page_id = hold.page_id, .is_held = true};
        if (!locate_page(run, &page))
            continue;
        candidates[kept] = page;
        batch->holds[kept++] = hold;
    }
    batch->held = kept;
    return kept;
}

/* The least LSN that the batch's pages are dirty since. */
static uint64_t oldest_lsn(const struct batch *batch)
{
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; i < batch->count; i++)
        if (batch->pages[i].oldest_lsn < oldest)
            oldest = batch->pages[i].oldest_lsn;
    return oldest;
}

/* Copy what must come along, and of the frames what there is room for, in the order of files, so
   that neighbours travel together. @return FIRN_E_BUSY when not all that must come could be had */
static firn_rc fill(struct writer_run *run, struct buffer_frame **frames, unsigned count,
                    bool are_cold)
{
    struct buffer_pool *pool = run->writer->pool;
    struct batch *batch = &run->writer->batch;
    struct batch_page candidates[BATCH_PAGES_MAX];
    unsigned room = doublewrite_pages_max(pool->page_size_bytes);
    bool complete = true;
    batch->count = 0;
    batch->newest_lsn = 0;
    unsigned filled = take_held(run, candidates);
    for (unsigned i = 0; i < count; i++) {
        struct batch_page page = {
            .frame = frames[i], .page_id = buffer_page_id(frames[i]), .is_cold = are_cold};
        if (filled == room)
            release(pool, &page);
        else if (locate_page(run, &page))
            candidates[filled++] = page;
    }
    qsort(candidates, filled, sizeof(candidates[0]), compare_pages);
    for (unsigned i = 0; i < filled; i++)
        if (!add_page(pool, batch, &candidates[i]) && candidates[i].is_held)
            complete = false;
    if (batch->count > 0)
        flush_list_settle(pool, oldest_lsn(batch));
    return complete ? FIRN_OK : FIRN_E_BUSY;
}

/* ---- Writing ---- */

/* Changes of pages whose log is not durable must not be: they could not be taken back. While
   recovery reads the log all of it is. */
static firn_rc make_log_durable(struct writer_run *run)
{
    struct redo *redo = run->writer->pool->options.redo;
    uint64_t newest_lsn = run->writer->batch.newest_lsn;
    if (redo_reserved_lsn(redo) == UINT64_MAX || newest_lsn <= redo_durable_lsn(redo))
        return FIRN_OK;
    return redo_flush(redo, newest_lsn, REDO_FLUSH_SYNC);
}

/* @return how many pages of the batch go through the doublewrite file */
static unsigned gather_images(struct buffer_writer *writer)
{
    struct batch *batch = &writer->batch;
    unsigned count = 0;
    bool are_atomic = true;
    for (unsigned i = 0; i < batch->count; i++) {
        const struct batch_page *page = &batch->pages[i];
        are_atomic &= page->is_atomic;
        if (page->is_twice)
            batch->images[count++] =
                (struct doublewrite_image){batch_image(writer->pool, batch, i), page->sectors};
    }
    if (count > 0 || are_atomic)
        atomic_store_explicit(&writer->writes_twice, count > 0, memory_order_relaxed);
    return count;
}

/* The two areas take turns: what the one holds stays until the batch in the other is durable. */
static firn_rc write_twice(struct writer_run *run)
{
    struct buffer_writer *writer = run->writer;
    struct batch *batch = &writer->batch;
    unsigned count = gather_images(writer);
    if (count == 0)
        return FIRN_OK;
    INJECT("buffer-before-doublewrite");
    FIRN_TRY(doublewrite_write(writer->doublewrite, batch->area, batch->images, count));
    firn_rc rc = doublewrite_sync(writer->doublewrite);
    if (rc != FIRN_OK) {
        writer_stop(run, rc);
        return rc;
    }
    batch->area = (batch->area + 1) % DOUBLEWRITE_AREAS;
    batch->held = 0; /* they are in this one */
    atomic_fetch_add_explicit(&writer->doublewrite_pages, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&writer->doublewrite_batches, 1, memory_order_relaxed);
    return FIRN_OK;
}

/* The queue for a device's files, in this thread. */
static firn_rc open_queue(struct writer_run *run, unsigned system)
{
    const struct buffer_options *options = &run->writer->pool->options;
    if (run->queues[system] != NULL)
        return FIRN_OK;
    return io_queue_open(
        options->systems[system],
        &(struct io_queue_options){.depth = options->queue_depth, .merge_max_bytes = 1 << 20},
        &run->queues[system]);
}

/* What a request says that was never started: no request itself ends so. */
static const firn_rc not_started = FIRN_E_BUSY;

/* Start those of the requests [0, count) that go to one device. */
static firn_rc start_on(struct writer_run *run, unsigned system, unsigned count)
{
    struct batch *batch = &run->writer->batch;
    unsigned mine = 0;
    for (unsigned i = 0; i < count; i++)
        if (io_file_system(batch->requests[i].file) == run->writer->pool->options.systems[system])
            batch->pointers[mine++] = &batch->requests[i];
    if (mine == 0)
        return FIRN_OK;
    FIRN_TRY(open_queue(run, system));
    return io_queue_submit(run->queues[system], batch->pointers, mine);
}

/* Carry out the requests [0, count), on all devices at once. */
static void execute(struct writer_run *run, unsigned count)
{
    struct batch *batch = &run->writer->batch;
    unsigned systems = run->writer->pool->options.system_count;
    for (unsigned i = 0; i < systems; i++)
        writer_note_error(run, start_on(run, i, count));
    for (unsigned i = 0; i < systems; i++)
        while (run->queues[i] != NULL && io_queue_pending(run->queues[i]) > 0)
            io_queue_reap(run->queues[i], 1, BATCH_REQUESTS_MAX, batch->pointers);
    for (unsigned i = 0; i < count; i++)
        if (batch->requests[i].rc != not_started && batch->requests[i].rc != FIRN_OK)
            writer_note_error(run, io_request_raise(&batch->requests[i]));
}

static bool are_neighbours(const struct buffer_pool *pool, const struct batch_page *left,
                           const struct batch_page *right)
{
    return left->file == right->file && left->offset + pool->page_size_bytes == right->offset;
}

static void request_range(struct writer_run *run, unsigned i, uint32_t from, uint32_t to)
{
    struct batch *batch = &run->writer->batch;
    ENSURE(batch->request_count < BATCH_REQUESTS_MAX);
    batch->requests[batch->request_count++] =
        (struct io_request){.file = batch->pages[i].file,
                            .op = IO_OP_WRITE,
                            .size_bytes = to - from,
                            .buffer = batch_image(run->writer->pool, batch, i) + from,
                            .offset = batch->pages[i].offset + from,
                            .is_atomic = batch->pages[i].is_atomic,
                            .user = &batch->pages[i],
                            .rc = not_started};
}

/* Ask for the blocks of a page that differ from what lies in its place. Unchanged ones between two
   go along as far as that costs less than another request; so they do up to the page's end where
   its neighbour follows, and then both travel together. */
static void request_page(struct writer_run *run, unsigned i)
{
    struct buffer_pool *pool = run->writer->pool;
    const struct batch *batch = &run->writer->batch;
    const struct batch_page *page = &batch->pages[i];
    uint32_t sector_bytes = sector_bytes_of(pool->page_size_bytes);
    uint32_t block_bytes = io_file_alignment(page->file);
    block_bytes = block_bytes > WRITE_BLOCK_BYTES ? block_bytes : WRITE_BLOCK_BYTES;
    if (page->is_atomic || block_bytes >= pool->page_size_bytes) {
        request_range(run, i, 0, pool->page_size_bytes);
        return;
    }
    uint32_t from = 0; /* the first sector always differs */
    uint32_t to = block_bytes;
    for (uint32_t left = page->sectors; left != 0; left &= left - 1) {
        uint32_t at = (uint32_t)__builtin_ctz(left) * sector_bytes / block_bytes * block_bytes;
        if (at > to + GAP_BYTES) {
            request_range(run, i, from, to);
            from = at;
        }
        to = at + block_bytes;
    }
    if (pool->page_size_bytes <= to + GAP_BYTES && i + 1 < batch->count &&
        are_neighbours(pool, page, &batch->pages[i + 1]))
        to = pool->page_size_bytes;
    request_range(run, i, from, to);
}

static void write_in_place(struct writer_run *run)
{
    struct batch *batch = &run->writer->batch;
    batch->request_count = 0;
    for (unsigned i = 0; i < batch->count; i++)
        request_page(run, i);
    execute(run, batch->request_count);
    for (unsigned i = 0; i < batch->request_count; i++)
        if (batch->requests[i].rc != FIRN_OK)
            ((struct batch_page *)batch->requests[i].user)->failed = true;
}

/* Sync each file once. A sync that fails is final: what the device has of the pages is not known
   and cannot be found out by trying again. */
static void sync_files(struct writer_run *run)
{
    struct batch *batch = &run->writer->batch;
    unsigned files = 0;
    if (run->writer->pool->options.skip_data_sync)
        return;
    for (unsigned i = 0; i < batch->count; i++)
        if (files == 0 || batch->requests[files - 1].file != batch->pages[i].file)
            batch->requests[files++] = (struct io_request){
                .file = batch->pages[i].file, .op = IO_OP_SYNC_DATA, .rc = not_started};
    execute(run, files);
    for (unsigned i = 0, file = 0; i < batch->count; i++) {
        file += batch->requests[file].file != batch->pages[i].file;
        if (batch->requests[file].rc != FIRN_OK)
            batch->pages[i].failed = true;
    }
    for (unsigned file = 0; file < files; file++)
        if (batch->requests[file].rc != FIRN_OK && batch->requests[file].rc != not_started)
            writer_stop(run, io_request_raise(&batch->requests[file]));
}

/* ---- The end ---- */

static void finish_page(struct writer_run *run, const struct batch_page *page)
{
    struct buffer_pool *pool = run->writer->pool;
    if (page->failed) {
        if (run->error.rc != FIRN_OK) /* else it was only not its turn */
            page->frame->writer_word = run->number;
        sectors_forget(page->frame);
        flush_list_put_back(pool, page->frame, page->oldest_lsn);
    }
    buffer_end_write(pool, page->frame, page->failed);
    if (page->is_cold)
        buffer_return_cold(pool, page->frame);
}

/* Pages that failed in their places may be torn there, and those whose sync failed as well. */
static void hold_failed(struct buffer_writer *writer)
{
    struct batch *batch = &writer->batch;
    for (unsigned i = 0; i < batch->count; i++)
        if (batch->pages[i].is_twice && batch->pages[i].failed)
            batch->holds[batch->held++] =
                (struct batch_hold){batch->pages[i].frame, batch->pages[i].page_id};
}

static unsigned finish(struct writer_run *run)
{
    struct buffer_writer *writer = run->writer;
    struct batch *batch = &writer->batch;
    unsigned written = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        written += !batch->pages[i].failed;
        finish_page(run, &batch->pages[i]);
    }
    atomic_fetch_add_explicit(&writer->pages_written, written, memory_order_relaxed);
    atomic_fetch_add_explicit(&writer->batches, 1, memory_order_relaxed);
    run->written += written;
    return written;
}

static void fail_all(struct batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++)
        batch->pages[i].failed = true;
}

unsigned batch_write(struct writer_run *run, struct buffer_frame **frames, unsigned count,
                     bool are_cold)
{
    struct buffer_writer *writer = run->writer;
    struct batch *batch = &writer->batch;
    ENSURE(writer->stopped.rc == FIRN_OK && count <= BATCH_PAGES_MAX);
    uint64_t began_ns = clock_now(writer->cleaner.clock);
    flush_list_begin(writer->pool);
    firn_rc rc = fill(run, frames, count, are_cold);
    atomic_store_explicit(&writer->writing, batch->count, memory_order_relaxed);
    if (rc == FIRN_OK && batch->count > 0) {
        rc = make_log_durable(run);
        if (rc == FIRN_OK)
            rc = write_twice(run);
        writer_note_error(run, rc);
    }
    if (rc == FIRN_OK) {
        INJECT("buffer-before-in-place");
        write_in_place(run);
        sync_files(run);
        hold_failed(writer);
    } else {
        fail_all(batch);
    }
    unsigned written = finish(run);
    atomic_store_explicit(&writer->writing, 0, memory_order_relaxed);
    flush_list_end(writer->pool);
    cleaner_measured(writer, written, clock_now(writer->cleaner.clock) - began_ns);
    return written;
}
