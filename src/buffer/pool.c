/*
 * pool.c -- the pool's memory: what is reserved, what is used, opening and closing.
 *
 * Frames, descriptors, hashes of sectors and the page map are ranges of addresses reserved for
 * size_max_bytes; what buffer_pool_size asks for is used of them, all counted. Frame number times
 * page size finds the bytes, times 64 the descriptor.
 */
#include "base/memory.h"
#include "buffer/pool_internal.h"
#include "buffer/sectors_internal.h"

#include <sys/mman.h>

enum {
    OLD_PERCENT_USUAL = 37,
    OLD_PERCENT_MIN = 5,
    OLD_PERCENT_MAX = 95,
    FRESH_PART = 8, /* of the old queue's share: how long a touch counts as part of coming in */
    QUEUE_DEPTH_USUAL = 64,
    IO_CAPACITY_USUAL = 200,
    IO_CAPACITY_MAX_USUAL = 2000,
    DIRTY_PERCENT_MAX_USUAL = 90,
    QUEUE_DEPTH_MAX = 4096,
    SYSTEM_PAGE_BYTES = 4096,
};

static uint64_t pool_bytes(uint32_t page_size_bytes, bool has_hashes, uint32_t frame_count)
{
    uint64_t frame_bytes = page_size_bytes + sizeof(struct buffer_frame) +
                           (has_hashes ? sectors_hashes_bytes(page_size_bytes, 1) : 0);
    return sizeof(struct buffer_pool) + frame_count * frame_bytes + map_size_bytes(frame_count);
}

uint32_t pool_frames_for(uint32_t page_size_bytes, bool has_hashes, uint64_t size_bytes)
{
    uint64_t low = 0; /* fits */
    uint64_t high = size_bytes / page_size_bytes + 1;
    if (high > BUFFER_NO_FRAME - 1)
        high = BUFFER_NO_FRAME - 1;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (pool_bytes(page_size_bytes, has_hashes, (uint32_t)middle) <= size_bytes)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static size_t descriptors_bytes(uint32_t frame_count)
{
    return round_up(frame_count * sizeof(struct buffer_frame), SYSTEM_PAGE_BYTES);
}

static size_t hashes_bytes(const struct buffer_pool *pool, uint32_t frame_count)
{
    return round_up(sectors_hashes_bytes(pool->page_size_bytes, frame_count), SYSTEM_PAGE_BYTES);
}

static size_t frames_bytes(const struct buffer_pool *pool, uint32_t frame_count)
{
    return (size_t)frame_count << pool->page_shift;
}

static size_t reserved_bytes(const struct buffer_pool *pool)
{
    return round_up(frames_bytes(pool, pool->frames_max), BUFFER_EXTENT_BYTES);
}

static firn_rc out_of_memory(uint64_t size_bytes)
{
    return rc_raise(FIRN_E_NOMEM,
                    "no memory for a buffer pool of %llu bytes: lower buffer_pool_size",
                    (unsigned long long)size_bytes);
}

firn_rc pool_commit(struct buffer_pool *pool, uint32_t frame_count)
{
    if (!memory_commit(pool->frames, descriptors_bytes(frame_count)) ||
        (pool->sector_hashes != NULL &&
         !memory_commit(pool->sector_hashes, hashes_bytes(pool, frame_count))) ||
        !memory_commit(pool->bytes, frames_bytes(pool, frame_count)))
        return FIRN_E_NOMEM;
    /* Asked for; whether there are any is the system's to say. Not for what an extent is only
       partly: it would take memory for all of it. */
    size_t extents_bytes =
        frames_bytes(pool, frame_count) / BUFFER_EXTENT_BYTES * BUFFER_EXTENT_BYTES;
    if (pool->options.huge_pages && extents_bytes > 0)
        madvise(pool->bytes, extents_bytes, MADV_HUGEPAGE);
    return FIRN_OK;
}

static void decommit_between(void *memory, size_t first_bytes, size_t end_bytes)
{
    if (memory != NULL && end_bytes > first_bytes)
        memory_decommit((uint8_t *)memory + first_bytes, end_bytes - first_bytes);
}

void pool_decommit(struct buffer_pool *pool, uint32_t first, uint32_t end)
{
    decommit_between(pool->bytes, frames_bytes(pool, first), frames_bytes(pool, end));
    decommit_between(pool->sector_hashes, hashes_bytes(pool, first), hashes_bytes(pool, end));
    decommit_between(pool->frames, descriptors_bytes(first), descriptors_bytes(end));
}

void pool_set_frames(struct buffer_pool *pool, uint32_t frame_count)
{
    atomic_store_explicit(&pool->frame_count, frame_count, memory_order_release);
    uint64_t window = (uint64_t)frame_count * pool->options.old_percent / 100 / FRESH_PART;
    atomic_store_explicit(&pool->fresh_window, (uint32_t)window + 1, memory_order_relaxed);
}

static firn_rc check_options(struct buffer_options *options)
{
    if (!page_size_is_valid(options->page_size_bytes))
        return rc_raise(FIRN_E_INVALID,
                        "a page size of %u bytes is not possible: use 4, 8, 16, 32 or 64 KiB",
                        options->page_size_bytes);
    if (options->size_max_bytes < options->size_bytes)
        options->size_max_bytes = options->size_bytes;
    if (options->old_percent == 0)
        options->old_percent = OLD_PERCENT_USUAL;
    if (options->queue_depth == 0)
        options->queue_depth = QUEUE_DEPTH_USUAL;
    if (options->io_capacity == 0)
        options->io_capacity = IO_CAPACITY_USUAL;
    if (options->io_capacity_max == 0)
        options->io_capacity_max = IO_CAPACITY_MAX_USUAL;
    if (options->io_capacity_max < options->io_capacity)
        options->io_capacity_max = options->io_capacity;
    if (options->dirty_percent_max == 0)
        options->dirty_percent_max = DIRTY_PERCENT_MAX_USUAL;
    if (options->old_percent < OLD_PERCENT_MIN || options->old_percent > OLD_PERCENT_MAX)
        return rc_raise(FIRN_E_INVALID, "old_blocks_pct is %u: it must be from %d to %d",
                        options->old_percent, OLD_PERCENT_MIN, OLD_PERCENT_MAX);
    if (options->queue_depth > QUEUE_DEPTH_MAX)
        return rc_raise(FIRN_E_INVALID, "a queue depth of %u is not possible: at most %d",
                        options->queue_depth, QUEUE_DEPTH_MAX);
    return FIRN_OK;
}

firn_rc pool_check_size(const struct buffer_pool *pool, uint64_t size_bytes)
{
    uint64_t least_bytes =
        pool_bytes(pool->page_size_bytes, sectors_pay(&pool->options), BUFFER_FRAMES_MIN);
    if (size_bytes < least_bytes)
        return rc_raise(FIRN_E_INVALID,
                        "buffer_pool_size is %llu bytes: with pages of %u bytes it must be %llu at "
                        "least",
                        (unsigned long long)size_bytes, pool->page_size_bytes,
                        (unsigned long long)least_bytes);
    if (size_bytes > pool->options.size_max_bytes)
        return rc_raise(FIRN_E_INVALID,
                        "buffer_pool_size is %llu bytes: more than buffer_pool_max, %llu bytes, "
                        "which is set when the environment is opened",
                        (unsigned long long)size_bytes,
                        (unsigned long long)pool->options.size_max_bytes);
    return FIRN_OK;
}

static firn_rc make_memory(struct buffer_pool *pool, uint32_t frame_count)
{
    pool->frames = memory_reserve(descriptors_bytes(pool->frames_max), SYSTEM_PAGE_BYTES);
    pool->bytes = memory_reserve(reserved_bytes(pool), BUFFER_EXTENT_BYTES);
    if (pool->frames == NULL || pool->bytes == NULL)
        return FIRN_E_NOMEM;
    if (sectors_pay(&pool->options)) {
        pool->sector_hashes =
            memory_reserve(hashes_bytes(pool, pool->frames_max), SYSTEM_PAGE_BYTES);
        if (pool->sector_hashes == NULL)
            return FIRN_E_NOMEM;
        hash_key_init(&pool->sector_key);
    }
    FIRN_TRY(pool_commit(pool, frame_count));
    return map_open(pool, frame_count);
}

firn_rc buffer_open(const struct buffer_options *options, struct buffer_pool **pool)
{
    firn_rc rc;
    struct buffer_pool *made = memory_alloc_aligned(sizeof(*made), _Alignof(struct buffer_pool));
    if (made == NULL)
        return out_of_memory(options->size_bytes);
    memset(made, 0, sizeof(*made));
    made->options = *options;
    lists_init(made);
    pthread_mutex_init(&made->resize_lock, NULL);
    FIRN_TRY_GOTO(check_options(&made->options), failed);
    made->page_size_bytes = options->page_size_bytes;
    made->page_shift = (unsigned)__builtin_ctz(options->page_size_bytes);
    FIRN_TRY_GOTO(pool_check_size(made, options->size_bytes), failed);
    bool has_hashes = sectors_pay(options);
    uint32_t frame_count = pool_frames_for(made->page_size_bytes, has_hashes, options->size_bytes);
    made->frames_max =
        pool_frames_for(made->page_size_bytes, has_hashes, made->options.size_max_bytes);
    rc = make_memory(made, frame_count);
    if (rc != FIRN_OK) {
        rc = out_of_memory(options->size_bytes);
        goto failed;
    }
    atomic_store_explicit(&made->size_bytes, options->size_bytes, memory_order_relaxed);
    pool_set_frames(made, frame_count);
    lists_add_free(made, 0, frame_count);
    FIRN_TRY_GOTO(reader_open(made), failed);
    FIRN_TRY_GOTO(buffer_writer_open(made), failed);
    *pool = made;
    return FIRN_OK;
failed:
    buffer_close(made);
    return rc;
}

void buffer_close(struct buffer_pool *pool)
{
    if (pool == NULL)
        return;
    buffer_writer_close(pool);
    reader_close(pool);
    map_close(pool);
    if (pool->bytes != NULL)
        memory_unreserve(pool->bytes, reserved_bytes(pool));
    if (pool->sector_hashes != NULL)
        memory_unreserve(pool->sector_hashes, hashes_bytes(pool, pool->frames_max));
    if (pool->frames != NULL)
        memory_unreserve(pool->frames, descriptors_bytes(pool->frames_max));
    pthread_mutex_destroy(&pool->resize_lock);
    pthread_mutex_destroy(&pool->lists_lock);
    memory_free(pool);
}

uint32_t buffer_page_size(const struct buffer_pool *pool)
{
    return pool->page_size_bytes;
}
