/*
 * scripted.h -- a driver whose files are memory and whose answers a test dictates.
 *
 * It keeps a log of the system requests it was given and checks what the queue above promises: the
 * depth, vectors that add up, alignment.
 */
#ifndef FIRN_TESTS_IO_SCRIPTED_H
#define FIRN_TESTS_IO_SCRIPTED_H

#include "base/memory.h"
#include "io/io_internal.h"
#include "io/support.h"

#include <errno.h>

enum {
    SCRIPT_WHOLE = INT32_MAX, /* the answer: all of it */
    SCRIPT_FILE_BYTES = 256 << 10,
    SCRIPT_LOG_MAX = 4096,
};

struct script_entry {
    enum io_op op;
    uint64_t offset;
    uint32_t size_bytes;
    uint32_t vector_count;
};

struct script_file {
    unsigned char bytes[SCRIPT_FILE_BYTES];
    uint64_t size_bytes;
};

struct script {
    struct io_driver base;
    uint32_t alignment;  /* of files opened direct */
    bool refuses_direct; /* as some file systems do */

    int64_t
        answers[16]; /* to the first system requests: SCRIPT_WHOLE, bytes, or a negative errno */
    unsigned answer_count;
    int64_t answer_after; /* to all later ones */
    bool has_bad_offset;  /* requests that touch this byte fail with EIO */
    uint64_t bad_offset;

    int take_at_most;     /* of an offer; a negative errno refuses all; INT32_MAX for no limit */
    unsigned take_limits; /* so many offers are limited, then none */
    bool holds;           /* nothing completes */
    int allocate_answer;
    uint64_t allocate_grows_bytes; /* before it fails */
    int sync_directory_answer;
    unsigned directory_syncs;

    struct script_entry log[SCRIPT_LOG_MAX];
    unsigned log_count;
    unsigned under_way_max; /* seen */
    unsigned closed;
    struct script_file *opened; /* last */
};

struct script_queue {
    struct io_driver_queue base;
    struct script *script;
    unsigned depth;
    unsigned under_way;
    struct io_request *first;
    struct io_request *last;
};

static inline int script_open(struct io_driver *driver, enum io_class class, const char *path,
                              unsigned flags, struct io_handle_info *info)
{
    (void)class;
    (void)path;
    struct script *script = (struct script *)driver;
    struct script_file *file = memory_zalloc(1, sizeof(*file));
    if (file == NULL)
        return -ENOMEM;
    file->size_bytes = SCRIPT_FILE_BYTES;
    script->opened = file;
    info->handle = file;
    info->direct = (flags & IO_OPEN_DIRECT) != 0 && !script->refuses_direct;
    info->alignment = info->direct ? script->alignment : 1;
    return 0;
}

static inline int script_close(struct io_driver *driver, void *handle)
{
    ((struct script *)driver)->closed++;
    memory_free(handle);
    return 0;
}

static inline int script_size(struct io_driver *driver, void *handle, uint64_t *size_bytes)
{
    (void)driver;
    *size_bytes = ((struct script_file *)handle)->size_bytes;
    return 0;
}

static inline int script_set_size(struct io_driver *driver, void *handle, uint64_t size_bytes)
{
    (void)driver;
    struct script_file *file = handle;
    if (size_bytes > SCRIPT_FILE_BYTES)
        return -ENOSPC;
    if (size_bytes < file->size_bytes)
        memset(file->bytes + size_bytes, 0, file->size_bytes - size_bytes);
    file->size_bytes = size_bytes;
    return 0;
}

static inline int script_allocate(struct io_driver *driver, void *handle, uint64_t offset,
                                  uint64_t size_bytes)
{
    (void)offset;
    (void)size_bytes;
    struct script *script = (struct script *)driver;
    ((struct script_file *)handle)->size_bytes += script->allocate_grows_bytes;
    return script->allocate_answer;
}

static inline int script_sync_directory(struct io_driver *driver, const char *path)
{
    (void)path;
    struct script *script = (struct script *)driver;
    script->directory_syncs++;
    return script->sync_directory_answer;
}

/* Move up to limit_bytes between a request's vectors and its file. */
static inline int64_t script_move(const struct io_request *request, int64_t limit_bytes)
{
    struct script_file *file = request->handle;
    uint64_t offset = request->offset;
    int64_t moved = 0;
    uint64_t end = request->op == IO_OP_READ ? file->size_bytes : SCRIPT_FILE_BYTES;
    for (uint32_t i = 0; i < request->vector_count; i++) {
        for (size_t j = 0; j < request->vectors[i].iov_len; j++) {
            if (moved == limit_bytes || offset >= end)
                return moved;
            unsigned char *place = (unsigned char *)request->vectors[i].iov_base + j;
            if (request->op == IO_OP_READ)
                *place = file->bytes[offset];
            else
                file->bytes[offset] = *place;
            offset++;
            moved++;
            if (request->op == IO_OP_WRITE && offset > file->size_bytes)
                file->size_bytes = offset;
        }
    }
    return moved;
}

static inline int64_t script_execute(struct io_driver *driver, const struct io_request *request)
{
    struct script *script = (struct script *)driver;
    bool sync = request->op == IO_OP_SYNC_DATA || request->op == IO_OP_SYNC_ALL;
    uint64_t size_bytes = 0;
    for (uint32_t i = 0; !sync && i < request->vector_count; i++)
        size_bytes += request->vectors[i].iov_len;
    assert_int_equal(size_bytes, request->size_bytes);
    unsigned number = script->log_count++;
    assert_true(number < SCRIPT_LOG_MAX);
    script->log[number] = (struct script_entry){request->op, request->offset, request->size_bytes,
                                                request->vector_count};
    int64_t answer = number < script->answer_count ? script->answers[number] : script->answer_after;
    if (script->has_bad_offset && !sync && request->offset <= script->bad_offset &&
        script->bad_offset < request->offset + request->size_bytes)
        answer = -EIO;
    if (answer < 0)
        return answer;
    return sync ? 0 : script_move(request, answer);
}

static inline int script_queue_open(struct io_driver *driver, unsigned depth,
                                    struct io_driver_queue **queue)
{
    struct script_queue *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return -ENOMEM;
    made->base.ops = driver->ops;
    made->script = (struct script *)driver;
    made->depth = depth;
    *queue = &made->base;
    return 0;
}

static inline void script_queue_close(struct io_driver_queue *base)
{
    assert_int_equal(((struct script_queue *)base)->under_way, 0);
    memory_free(base);
}

static inline int script_queue_submit(struct io_driver_queue *base,
                                      struct io_request *const *requests, unsigned count)
{
    struct script_queue *queue = (struct script_queue *)base;
    struct script *script = queue->script;
    assert_true(queue->under_way + count <= queue->depth);
    int taken = (int)count;
    if (script->take_limits > 0 && taken > script->take_at_most) {
        script->take_limits--;
        taken = script->take_at_most;
    }
    for (int i = 0; i < taken; i++) {
        struct io_request *request = requests[i];
        request->result = script_execute(&script->base, request);
        request->next = NULL;
        if (queue->first == NULL)
            queue->first = request;
        else
            queue->last->next = request;
        queue->last = request;
        queue->under_way++;
    }
    if (queue->under_way > script->under_way_max)
        script->under_way_max = queue->under_way;
    return taken;
}

static inline int script_queue_reap(struct io_driver_queue *base, unsigned min_count,
                                    unsigned max_count, uint64_t deadline_ns,
                                    struct io_request **requests)
{
    struct script_queue *queue = (struct script_queue *)base;
    assert_true(min_count <= queue->under_way);
    assert_true(max_count >= 1);
    if (queue->script->holds) {
        if (min_count > 0)
            clock_wait_until(queue->script->base.clock, deadline_ns);
        return 0;
    }
    unsigned count = 0;
    while (count < max_count && queue->first != NULL) {
        requests[count++] = queue->first;
        queue->first = queue->first->next;
    }
    queue->under_way -= count;
    return (int)count;
}

static inline void script_destroy(struct io_driver *driver)
{
    memory_free(driver);
}

static const struct io_driver_ops script_ops = {
    .destroy = script_destroy,
    .open = script_open,
    .close = script_close,
    .size = script_size,
    .set_size = script_set_size,
    .allocate = script_allocate,
    .sync_directory = script_sync_directory,
    .execute = script_execute,
    .queue_open = script_queue_open,
    .queue_close = script_queue_close,
    .queue_submit = script_queue_submit,
    .queue_reap = script_queue_reap,
};

/** A system, one file and one queue over a new script. */
struct scripted {
    struct script *script; /* owned by the system */
    struct io_system *system;
    struct io_file *file;
    struct io_queue *queue;
};

/** Until the test says otherwise, every request succeeds whole. */
static inline struct scripted scripted_open(unsigned file_flags, unsigned depth,
                                            uint32_t merge_max_bytes)
{
    struct scripted made;
    made.script = memory_zalloc(1, sizeof(*made.script));
    assert_non_null(made.script);
    made.script->base.ops = &script_ops;
    made.script->base.clock = clock_real();
    made.script->base.backend = IO_BACKEND_NULL;
    made.script->answer_after = SCRIPT_WHOLE;
    made.script->alignment = 512;
    ASSERT_OK(io_system_create(&made.script->base, &made.system));
    ASSERT_OK(io_file_open(made.system, IO_CLASS_TABLE, "dir/t.ibd", file_flags, &made.file));
    struct io_queue_options options = {.depth = depth, .merge_max_bytes = merge_max_bytes};
    ASSERT_OK(io_queue_open(made.system, &options, &made.queue));
    return made;
}

static inline void scripted_close(struct scripted *scripted)
{
    io_queue_close(scripted->queue);
    ASSERT_OK(io_file_close(scripted->file));
    io_system_close(scripted->system);
}

static inline const struct io_counters *scripted_counters(struct io_system *system)
{
    static struct io_counters counters;
    io_system_counters(system, IO_CLASS_COUNT, &counters);
    return &counters;
}

/** Submit requests as one batch and reap them all, in order of completion. */
static inline void scripted_run(const struct scripted *scripted, struct io_request *requests,
                                unsigned count)
{
    struct io_request *pointers[512];
    assert_true(count <= 512);
    for (unsigned i = 0; i < count; i++)
        pointers[i] = &requests[i];
    ASSERT_OK(io_queue_submit(scripted->queue, pointers, count));
    assert_int_equal(io_queue_reap(scripted->queue, count, count, pointers), count);
    assert_int_equal(io_queue_pending(scripted->queue), 0);
}

#endif
