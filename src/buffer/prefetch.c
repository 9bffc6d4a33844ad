/*
 * prefetch.c -- read-ahead: many pages at once, nobody waiting for them.
 */
#include "buffer/pool_internal.h"

enum {
    BATCH_PAGES = 64,
    MERGE_MAX_BYTES = 1 << 20,
};

/* Pages on their way. */
struct read_batch {
    unsigned count;
    struct buffer_frame *frames[BATCH_PAGES];
    struct io_request requests[BATCH_PAGES];
};

firn_rc reader_open(struct buffer_pool *pool)
{
    (void)pool;
    return FIRN_OK;
}

void reader_close(struct buffer_pool *pool)
{
    (void)pool;
}

/* Publish a frame for a page and prepare its request. @return false if there is no need or no way
 */
static bool batch_add(struct buffer_pool *pool, struct read_batch *batch, uint64_t page_id)
{
    struct io_file *file;
    uint64_t offset;
    if (map_find(pool, page_id) != NULL ||
        pool->options.files.locate(pool->options.files.context, page_id, &file, &offset) != FIRN_OK)
        return false;
    struct buffer_frame *frame = frame_take_cheaply(pool);
    if (frame == NULL)
        return false;
    atomic_store_explicit(&frame->read_ahead, 1, memory_order_relaxed);
    if (!frame_publish(pool, frame, page_id, BUFFER_IS_READING))
        return false;
    batch->requests[batch->count] = (struct io_request){
        .file = file,
        .op = IO_OP_READ,
        .size_bytes = pool->page_size_bytes,
        .buffer = buffer_page(pool, frame),
        .offset = offset,
        .user = frame,
    };
    batch->frames[batch->count++] = frame;
    return true;
}

static void request_settle(struct buffer_pool *pool, struct io_request *request)
{
    struct buffer_frame *frame = request->user;
    enum page_state state = PAGE_GOOD;
    firn_rc rc = request->rc;
    if (rc == FIRN_OK)
        rc = frame_verify(pool, frame, &state);
    if (rc != FIRN_OK) {
        frame_withdraw(pool, frame, rc, state);
        return;
    }
    atomic_fetch_add_explicit(&pool->pages_read, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->pages_read_ahead, 1, memory_order_relaxed);
    frame_arrived(frame, BUFFER_PIN, 1);
}

/* Read the requests of one device through a queue of our own. @return false if there is none */
static bool batch_queue(struct buffer_pool *pool, struct io_request **requests, unsigned count)
{
    struct io_queue *queue;
    struct io_queue_options options = {
        .depth = pool->options.queue_depth,
        .merge_max_bytes = MERGE_MAX_BYTES,
    };
    if (io_queue_open(io_file_system(requests[0]->file), &options, &queue) != FIRN_OK)
        return false;
    bool submitted = io_queue_submit(queue, requests, count) == FIRN_OK;
    while (submitted && io_queue_pending(queue) > 0) {
        struct io_request *done[BATCH_PAGES];
        unsigned reaped = io_queue_reap(queue, 1, BATCH_PAGES, done);
        for (unsigned i = 0; i < reaped; i++)
            request_settle(pool, done[i]);
    }
    io_queue_close(queue);
    return submitted;
}

static void batch_read(struct buffer_pool *pool, struct read_batch *batch)
{
    for (unsigned begin = 0; begin < batch->count;) {
        struct io_request *same[BATCH_PAGES];
        unsigned count = 0;
        struct io_system *system = io_file_system(batch->requests[begin].file);
        for (; begin < batch->count; begin++) {
            if (io_file_system(batch->requests[begin].file) != system)
                break;
            same[count++] = &batch->requests[begin];
        }
        if (batch_queue(pool, same, count))
            continue;
        for (unsigned i = 0; i < count; i++) {
            io_execute(same[i]);
            request_settle(pool, same[i]);
        }
    }
}

unsigned buffer_prefetch(struct buffer_pool *pool, const uint64_t *page_ids, unsigned count)
{
    unsigned started = 0;
    struct read_batch batch;
    for (unsigned i = 0; i < count;) {
        batch.count = 0;
        for (; i < count && batch.count < BATCH_PAGES; i++)
            batch_add(pool, &batch, page_ids[i]);
        batch_read(pool, &batch);
        started += batch.count;
    }
    return started;
}
