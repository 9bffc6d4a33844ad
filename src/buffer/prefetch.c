/*
 * prefetch.c -- read-ahead: many pages at once, nobody waiting for them.
 *
 * The caller takes and publishes the frames, so that who wants one of the pages meanwhile waits for
 * its reading instead of reading it, too. The reads are carried out by a thread for each device,
 * which is started when it is first needed: an io_queue belongs to one thread, and callers come and
 * go. A pool without background threads reads in the caller, through a queue opened for it; all
 * pages have then come when buffer_prefetch returns.
 *
 * Pages under way are bounded by a part of the pool and by what a device's ring holds; beyond that
 * read-ahead skips pages rather than wait. A page that fails is withdrawn; who waits for it reads
 * it anew: read-ahead may have come before the page was there.
 */
#include "base/memory.h"
#include "buffer/pool_internal.h"

#include <signal.h>

enum {
    BATCH_PAGES = 64,
    MERGE_MAX_BYTES = 1 << 20,
    RING_PAGES = 1024, /* handed over to a thread and not taken by it yet; a power of two */
    POOL_PART = 4,     /* one page in so many may be under way */
};

/** A page that is to be read into a published frame. */
struct read_page {
    struct buffer_frame *frame;
    struct io_file *file;
    uint64_t offset;
};

/** A device's thread, and what it is to read. */
struct device_reader {
    struct buffer_pool *pool;
    struct io_system *system;
    struct io_queue *queue;      /* the thread's; NULL: there is none to be had */
    struct io_request *requests; /* ...: as many as the queue is deep */
    struct io_request **unused;  /* ...: those of them that carry nothing */
    unsigned unused_count;

    pthread_mutex_t mutex; /* protects what follows; nothing else is locked meanwhile */
    pthread_cond_t work;   /* the ring has something, or it is time to end */
    struct read_page *ring;
    uint32_t taken; /* positions, modulo 2^32 */
    uint32_t given;
    bool ending;
    bool started;
    pthread_t thread;
};

struct buffer_reader {
    _Atomic uint32_t under_way; /* pages, over all devices */
    unsigned device_count;
    struct device_reader devices[];
};

/* ---- Pages ---- */

static void request_fill(const struct buffer_pool *pool, struct io_request *request,
                         const struct read_page *page)
{
    *request = (struct io_request){
        .file = page->file,
        .op = IO_OP_READ,
        .size_bytes = pool->page_size_bytes,
        .buffer = buffer_page(pool, page->frame),
        .offset = page->offset,
        .user = page->frame,
    };
}

/* A page has come, or its read has failed. */
static void request_settle(struct buffer_pool *pool, const struct io_request *request)
{
    struct buffer_frame *frame = request->user;
    firn_rc rc = request->rc == FIRN_OK ? FIRN_OK : io_request_raise(request);
    atomic_fetch_sub_explicit(&pool->reader->under_way, 1, memory_order_relaxed);
    (void)frame_settle(pool, frame, request->file, rc, BUFFER_PIN, true);
}

static void execute_all(struct buffer_pool *pool, struct io_request *const *requests,
                        unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        io_execute(requests[i]);
        request_settle(pool, requests[i]);
    }
}

/* Publish a frame for a page. @return false if there is no need or no way */
static bool page_prepare(struct buffer_pool *pool, uint64_t page_id, struct read_page *page)
{
    uint32_t most = atomic_load_explicit(&pool->frame_count, memory_order_relaxed) / POOL_PART;
    if (map_find(pool, page_id) != NULL ||
        atomic_load_explicit(&pool->reader->under_way, memory_order_relaxed) >= most)
        return false;
    page->frame = frame_take_cheaply(pool);
    if (page->frame == NULL)
        return false;
    atomic_store_explicit(&page->frame->read_ahead, 1, memory_order_relaxed);
    if (!frame_publish(pool, page->frame, page_id, BUFFER_IS_READING))
        return false;
    if (frame_locate(pool, page->frame, true, &page->file, &page->offset) != FIRN_OK)
        return false;
    atomic_fetch_add_explicit(&pool->reader->under_way, 1, memory_order_relaxed);
    return true;
}

/* ---- Reading in the caller ---- */

/* Pages of one device. */
static void read_here(struct buffer_pool *pool, const struct read_page *pages, unsigned count)
{
    struct io_request requests[BATCH_PAGES];
    struct io_request *pointers[BATCH_PAGES];
    struct io_queue_options options = {
        .depth = pool->options.queue_depth,
        .merge_max_bytes = MERGE_MAX_BYTES,
    };
    struct io_queue *queue = NULL;
    for (unsigned i = 0; i < count; i++) {
        request_fill(pool, &requests[i], &pages[i]);
        pointers[i] = &requests[i];
    }
    if (io_queue_open(io_file_system(pages[0].file), &options, &queue) != FIRN_OK ||
        io_queue_submit(queue, pointers, count) != FIRN_OK) {
        execute_all(pool, pointers, count);
        io_queue_close(queue);
        return;
    }
    while (io_queue_pending(queue) > 0) {
        unsigned done = io_queue_reap(queue, 1, BATCH_PAGES, pointers);
        for (unsigned i = 0; i < done; i++)
            request_settle(pool, pointers[i]);
    }
    io_queue_close(queue);
}

/* ---- A device's thread ---- */

/* Take pages off the ring, as far as there are requests for them. @return how many */
static unsigned reader_take(struct device_reader *reader, struct io_request **requests)
{
    unsigned count = 0;
    while (reader->taken != reader->given && reader->unused_count > 0 && count < BATCH_PAGES) {
        requests[count] = reader->unused[--reader->unused_count];
        request_fill(reader->pool, requests[count++], &reader->ring[reader->taken % RING_PAGES]);
        reader->taken++;
    }
    return count;
}

/* Start these requests, or wait for some when there are none; settle what has come. */
static void reader_turn(struct device_reader *reader, struct io_request **requests, unsigned count)
{
    if (reader->queue == NULL ||
        (count > 0 && io_queue_submit(reader->queue, requests, count) != FIRN_OK)) {
        execute_all(reader->pool, requests, count);
    } else {
        count = io_queue_reap(reader->queue, count == 0, BATCH_PAGES, requests);
        for (unsigned i = 0; i < count; i++)
            request_settle(reader->pool, requests[i]);
    }
    for (unsigned i = 0; i < count; i++)
        reader->unused[reader->unused_count++] = requests[i];
}

static void *reader_main(void *argument)
{
    struct device_reader *reader = argument;
    struct io_request *requests[BATCH_PAGES];
    struct io_queue_options options = {
        .depth = reader->pool->options.queue_depth,
        .merge_max_bytes = MERGE_MAX_BYTES,
    };
    if (io_queue_open(reader->system, &options, &reader->queue) != FIRN_OK)
        reader->queue = NULL;
    pthread_mutex_lock(&reader->mutex);
    while (true) {
        bool idle = reader->taken == reader->given && reader->unused_count == options.depth;
        if (idle && reader->ending)
            break;
        if (idle) {
            pthread_cond_wait(&reader->work, &reader->mutex);
            continue;
        }
        unsigned count = reader_take(reader, requests);
        pthread_mutex_unlock(&reader->mutex);
        reader_turn(reader, requests, count);
        pthread_mutex_lock(&reader->mutex);
    }
    pthread_mutex_unlock(&reader->mutex);
    io_queue_close(reader->queue);
    return NULL;
}

/* With the mutex: start the thread if it has not been. @return false if there is none */
static bool reader_start(struct device_reader *reader)
{
    unsigned depth = reader->pool->options.queue_depth;
    sigset_t all;
    sigset_t before;
    if (reader->started || reader->ending)
        return reader->started;
    reader->ending = true; /* unless all of this succeeds; it is not tried again */
    reader->requests = memory_zalloc(depth, sizeof(reader->requests[0]));
    reader->unused = memory_zalloc(depth, sizeof(reader->unused[0]));
    reader->ring = memory_zalloc(RING_PAGES, sizeof(reader->ring[0]));
    if (reader->requests == NULL || reader->unused == NULL || reader->ring == NULL)
        return false;
    for (unsigned i = 0; i < depth; i++)
        reader->unused[i] = &reader->requests[i];
    reader->unused_count = depth;
    /* Signals are for the threads of whoever uses us. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    reader->started = pthread_create(&reader->thread, NULL, reader_main, reader) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    reader->ending = !reader->started;
    return reader->started;
}

/* Hand pages over. @return how many of them the thread takes */
static unsigned reader_give(struct device_reader *reader, const struct read_page *pages,
                            unsigned count)
{
    unsigned given = 0;
    pthread_mutex_lock(&reader->mutex);
    if (reader_start(reader)) {
        while (given < count && reader->given - reader->taken < RING_PAGES)
            reader->ring[reader->given++ % RING_PAGES] = pages[given++];
        pthread_cond_signal(&reader->work);
    }
    pthread_mutex_unlock(&reader->mutex);
    return given;
}

/* ---- All devices ---- */

firn_rc reader_open(struct buffer_pool *pool)
{
    unsigned count = pool->options.cleaner_thread ? pool->options.system_count : 0;
    size_t size_bytes = sizeof(struct buffer_reader) + count * sizeof(struct device_reader);
    pool->reader = memory_zalloc(1, size_bytes);
    if (pool->reader == NULL)
        return rc_raise(FIRN_E_NOMEM, "cannot open a buffer pool: no memory for read-ahead");
    pool->reader->device_count = count;
    for (unsigned i = 0; i < count; i++) {
        struct device_reader *reader = &pool->reader->devices[i];
        reader->pool = pool;
        reader->system = pool->options.systems[i];
        pthread_mutex_init(&reader->mutex, NULL);
        pthread_cond_init(&reader->work, NULL);
    }
    return FIRN_OK;
}

void reader_close(struct buffer_pool *pool)
{
    if (pool->reader == NULL)
        return;
    for (unsigned i = 0; i < pool->reader->device_count; i++) {
        struct device_reader *reader = &pool->reader->devices[i];
        pthread_mutex_lock(&reader->mutex);
        reader->ending = true;
        pthread_cond_signal(&reader->work);
        pthread_mutex_unlock(&reader->mutex);
        if (reader->started)
            pthread_join(reader->thread, NULL);
        memory_free(reader->ring);
        memory_free(reader->unused);
        memory_free(reader->requests);
        pthread_cond_destroy(&reader->work);
        pthread_mutex_destroy(&reader->mutex);
    }
    memory_free(pool->reader);
    pool->reader = NULL;
}

/* Have pages of one device read: by its thread as far as there is one. */
static void read_pages(struct buffer_pool *pool, const struct read_page *pages, unsigned count)
{
    const struct io_system *system = io_file_system(pages[0].file);
    unsigned given = 0;
    for (unsigned i = 0; i < pool->reader->device_count; i++)
        if (pool->reader->devices[i].system == system)
            given = reader_give(&pool->reader->devices[i], pages, count);
    if (given < count)
        read_here(pool, pages + given, count - given);
}

unsigned buffer_prefetch(struct buffer_pool *pool, const uint64_t *page_ids, unsigned count)
{
    unsigned started = 0;
    struct read_page pages[BATCH_PAGES];
    unsigned waiting = 0;
    for (unsigned i = 0; i < count; i++) {
        struct read_page page;
        if (!page_prepare(pool, page_ids[i], &page))
            continue;
        if (waiting == BATCH_PAGES ||
            (waiting > 0 && io_file_system(pages[0].file) != io_file_system(page.file))) {
            read_pages(pool, pages, waiting);
            waiting = 0;
        }
        pages[waiting++] = page;
        started++;
    }
    if (waiting > 0)
        read_pages(pool, pages, waiting);
    return started;
}
