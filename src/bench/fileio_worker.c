/*
 * fileio_worker.c -- one worker: asks the runner whether, the pattern what, carries it out, and
 * records it.
 *
 * In sync and mmap mode a worker has one slot, in async mode as many as its queue is deep; a slot
 * is one request with its buffer. Whatever is free is filled and submitted, so the queue is full
 * whenever the worker waits.
 */
#include "base/check.h"
#include "base/memory.h"
#include "bench/fileio_internal.h"

#include <string.h>

enum { STAMP_EVERY_BYTES = 4096, BUFFER_ALIGNMENT = 4096 };

/* All blocks in use: look again after so long. */
#define BUSY_WAIT_NS (20 * NS_PER_US)

struct slot {
    struct io_request request;
    struct fileio_access access;
    uint64_t scheduled_ns;
    uint64_t start_ns;
    bool syncing; /* with fsync_all: the write is done, its sync under way */
};

struct worker {
    struct fileio_test *test;
    struct runner_worker *runner;
    struct fileio_cursor cursor;
    struct clock *clock;
    struct io_queue *queue; /* async mode */
    unsigned depth;
    struct slot *slots;
    char *buffers;
    struct slot **free; /* a stack */
    unsigned free_count;
    struct io_request **batch;
    enum io_op sync_op;
    bool open_loop;
    bool fsync_all;
    uint64_t writes;       /* so far; makes each one's bytes different */
    uint64_t writes_apart; /* distance of this worker's write numbers: one for each worker */
    bool granted;          /* the runner's GO is held, since all blocks were taken */
    uint64_t granted_ns;
};

/* ---- Setting up ---- */

static firn_rc allocate_slots(struct worker *worker)
{
    const struct fileio_test *test = worker->test;
    size_t request_bytes = (size_t)test->pattern.request_blocks * test->shape.block_bytes;
    size_t buffer_bytes =
        (request_bytes + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
    worker->slots = memory_zalloc(worker->depth, sizeof(*worker->slots));
    worker->free = memory_zalloc(worker->depth, sizeof(struct slot *));
    worker->batch = memory_zalloc(worker->depth, sizeof(struct io_request *));
    worker->buffers = memory_alloc_aligned(buffer_bytes * worker->depth, BUFFER_ALIGNMENT);
    if (worker->slots == NULL || worker->free == NULL || worker->batch == NULL ||
        worker->buffers == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for %u buffers of %zu bytes", worker->depth,
                        buffer_bytes);
    for (unsigned i = 0; i < worker->depth; i++) {
        char *buffer = worker->buffers + (size_t)i * buffer_bytes;
        block_fill_randomly(buffer, (uint32_t)buffer_bytes, rng_next(&worker->cursor.rng));
        worker->slots[i].request.buffer = buffer;
        worker->slots[i].request.user = &worker->slots[i];
        worker->free[worker->free_count++] = &worker->slots[i];
    }
    return FIRN_OK;
}

static firn_rc worker_open(struct fileio_test *test, struct runner_worker *runner,
                           struct worker *worker)
{
    const struct fileio_config *config = &test->config;
    bool async = config->file_io_mode == FILEIO_ASYNC;
    uint64_t number = runner_worker_number(runner);
    *worker = (struct worker){
        .test = test,
        .runner = runner,
        .clock = test->storage.clock,
        .depth = async ? (unsigned)config->io_depth : 1,
        .sync_op = config->fsync_mode == FILEIO_FDATASYNC ? IO_OP_SYNC_DATA : IO_OP_SYNC_ALL,
        .open_loop = config->rate > 0,
        .fsync_all = config->fsync_all,
        .writes = number,
        .writes_apart = config->threads,
    };
    rng_init(&worker->cursor.rng, test->seed + (number << 32));
    FIRN_TRY(allocate_slots(worker));
    struct io_queue_options options = {.depth = worker->depth};
    return async ? io_queue_open(test->storage.system, &options, &worker->queue) : FIRN_OK;
}

/* Also of a worker that was opened in part. */
static void worker_close(struct worker *worker)
{
    io_queue_close(worker->queue);
    memory_free(worker->buffers);
    memory_free(worker->batch);
    memory_free(worker->free);
    memory_free(worker->slots);
}

/* ---- One access ---- */

/* Bytes to write: blocks that prove themselves, or random ones with a new number in each page, so
   that no device finds two writes the same. */
static void fill_write(struct worker *worker, struct slot *slot)
{
    struct fileio_blocks *blocks = &worker->test->blocks;
    char *buffer = slot->request.buffer;
    worker->writes += worker->writes_apart;
    if (blocks->states != NULL) {
        fileio_blocks_fill(blocks, &slot->access, runner_worker_number(worker->runner),
                           blocks->sequence_start + worker->writes, buffer);
        return;
    }
    for (size_t at = 0; at + sizeof(uint64_t) <= slot->access.size_bytes; at += STAMP_EVERY_BYTES)
        memcpy(buffer + at, &worker->writes, sizeof(uint64_t));
}

static void slot_begin(struct worker *worker, struct slot *slot, uint64_t scheduled_ns)
{
    struct io_request *request = &slot->request;
    const struct fileio_access *access = &slot->access;
    slot->scheduled_ns = scheduled_ns;
    slot->syncing = false;
    request->file = worker->test->files[access->file];
    request->offset = access->offset;
    request->size_bytes = access->size_bytes;
    switch (access->kind) {
    case FILEIO_READ:
        request->op = IO_OP_READ;
        break;
    case FILEIO_WRITE:
        request->op = IO_OP_WRITE;
        fill_write(worker, slot);
        break;
    default:
        request->op = worker->sync_op;
        break;
    }
}

static void slot_record(struct worker *worker, const struct slot *slot)
{
    uint64_t done_ns = slot->request.done_ns;
    uint64_t start_ns = slot->start_ns;
    uint64_t scheduled_ns = worker->open_loop ? slot->scheduled_ns : start_ns;
    runner_record(worker->runner, slot->access.kind, true, scheduled_ns, start_ns, done_ns,
                  slot->access.size_bytes);
}

/* Prove what was read, and let others at the blocks. */
static firn_rc slot_finish_blocks(struct worker *worker, struct slot *slot)
{
    struct fileio_blocks *blocks = &worker->test->blocks;
    const struct fileio_access *access = &slot->access;
    if (access->block_count == 0)
        return FIRN_OK;
    if (access->kind == FILEIO_READ)
        FIRN_TRY(fileio_blocks_check(blocks, access, io_file_path(slot->request.file),
                                     slot->request.buffer));
    fileio_blocks_release(blocks, access->block, access->block_count);
    return FIRN_OK;
}

/*
 * A request has come back without a failure.
 *
 * @param again  set when the slot goes on: with fsync_all a write is not done before its sync
 */
static firn_rc slot_complete(struct worker *worker, struct slot *slot, bool *again)
{
    struct io_request *request = &slot->request;
    if (!slot->syncing)
        slot->start_ns = request->submit_ns;
    *again = worker->fsync_all && slot->access.kind == FILEIO_WRITE && !slot->syncing;
    if (*again) {
        slot->syncing = true;
        request->op = worker->sync_op;
        request->size_bytes = 0;
        return FIRN_OK;
    }
    if (slot->syncing)
        runner_record(worker->runner, FILEIO_SYNCING, false, request->submit_ns, request->submit_ns,
                      request->done_ns, 0);
    slot_record(worker, slot);
    return worker->test->blocks.states == NULL ? FIRN_OK : slot_finish_blocks(worker, slot);
}

/* Ask for the next access and put it into a slot. @return RUNNER_WAIT also when all blocks are in
   use; *until_ns says when to ask again */
static enum runner_turn slot_fill(struct worker *worker, struct slot *slot, uint64_t now_ns,
                                  uint64_t *until_ns)
{
    if (!worker->granted) {
        enum runner_turn turn = runner_next(worker->runner, now_ns, &worker->granted_ns);
        *until_ns = worker->granted_ns;
        if (turn != RUNNER_GO)
            return turn;
    }
    worker->granted = !fileio_pattern_next(&worker->test->pattern, &worker->cursor, &slot->access);
    if (worker->granted) {
        *until_ns = now_ns + BUSY_WAIT_NS;
        return runner_is_stopped(worker->runner) ? RUNNER_STOP : RUNNER_WAIT;
    }
    slot_begin(worker, slot, worker->granted_ns);
    return RUNNER_GO;
}

/* ---- Sync and mmap mode ---- */

static firn_rc execute(struct worker *worker, struct slot *slot)
{
    const struct fileio_test *test = worker->test;
    if (test->maps != NULL)
        return fileio_map_execute(&test->maps[slot->access.file], worker->clock, &slot->request);
    return io_execute(&slot->request);
}

static firn_rc work_sync(struct worker *worker, uint64_t now_ns)
{
    struct slot *slot = worker->free[0];
    for (;;) {
        uint64_t until_ns = 0;
        enum runner_turn turn = slot_fill(worker, slot, now_ns, &until_ns);
        if (turn == RUNNER_STOP)
            return FIRN_OK;
        if (turn == RUNNER_WAIT) {
            now_ns = runner_wait(worker->runner, until_ns);
            continue;
        }
        bool again = false;
        do {
            FIRN_TRY(execute(worker, slot));
            FIRN_TRY(slot_complete(worker, slot, &again));
        } while (again);
        now_ns = slot->request.done_ns;
    }
}

/* ---- Async mode ---- */

/* Fill free slots and submit them together. @return RUNNER_GO when all are in use, else why not */
static enum runner_turn fill_queue(struct worker *worker, uint64_t now_ns, uint64_t *until_ns,
                                   unsigned *batch_count)
{
    while (worker->free_count > 0) {
        struct slot *slot = worker->free[worker->free_count - 1];
        enum runner_turn turn = slot_fill(worker, slot, now_ns, until_ns);
        if (turn != RUNNER_GO)
            return turn;
        worker->free_count--;
        worker->batch[(*batch_count)++] = &slot->request;
    }
    return RUNNER_GO;
}

/* Take back what is done. The syncs of fsync_all go into the next batch. */
static firn_rc reap_queue(struct worker *worker, uint64_t until_ns, uint64_t *now_ns,
                          unsigned *batch_count)
{
    /* The batch is free here, so it serves as the list of what came back; a slot that goes on is
       put back in front of what has not been looked at. */
    unsigned count = io_queue_reap_until(worker->queue, 1, worker->depth, until_ns, worker->batch);
    for (unsigned i = 0; i < count; i++) {
        struct io_request *request = worker->batch[i];
        struct slot *slot = request->user;
        bool again = false;
        if (request->rc != FIRN_OK)
            return io_request_raise(request);
        FIRN_TRY(slot_complete(worker, slot, &again));
        if (again)
            worker->batch[(*batch_count)++] = request;
        else
            worker->free[worker->free_count++] = slot;
        *now_ns = request->done_ns;
    }
    return FIRN_OK;
}

/* One by one: requests that are submitted together come back together, and the device idles while
   they are turned round. At depth 32 that cost 7 % of the rate. */
static firn_rc submit_batch(struct worker *worker, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        FIRN_TRY(io_queue_submit(worker->queue, &worker->batch[i], 1));
    return FIRN_OK;
}

static firn_rc work_async(struct worker *worker, uint64_t now_ns)
{
    unsigned batch_count = 0;
    enum runner_turn turn = RUNNER_GO;
    for (;;) {
        uint64_t until_ns = UINT64_MAX;
        if (turn != RUNNER_STOP)
            turn = fill_queue(worker, now_ns, &until_ns, &batch_count);
        if (turn != RUNNER_WAIT)
            until_ns = UINT64_MAX;
        FIRN_TRY(submit_batch(worker, batch_count));
        batch_count = 0;
        if (io_queue_pending(worker->queue) == 0) {
            if (turn == RUNNER_STOP)
                return FIRN_OK;
            now_ns = runner_wait(worker->runner, until_ns);
            continue;
        }
        FIRN_TRY(reap_queue(worker, until_ns, &now_ns, &batch_count));
        if (turn == RUNNER_WAIT)
            now_ns = clock_now(worker->clock);
    }
}

firn_rc fileio_work(struct runner_worker *runner, void *context)
{
    struct fileio_test *test = context;
    struct worker worker;
    uint64_t now_ns = 0;
    firn_rc rc = worker_open(test, runner, &worker);
    if (rc == FIRN_OK && runner_ready(runner, &now_ns))
        rc = test->config.file_io_mode == FILEIO_ASYNC ? work_async(&worker, now_ns)
                                                       : work_sync(&worker, now_ns);
    worker_close(&worker);
    return rc;
}
