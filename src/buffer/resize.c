/*
 * resize.c -- more or fewer frames while the pool is used.
 *
 * Growing commits memory behind what there is. Shrinking takes frames away from the end: they are
 * not handed out any more, dirty pages in them are written, young ones move to frames that stay,
 * the others are evicted; then their memory goes back to the system. The addresses stay: an
 * optimistic reader, or somebody with a hint, may look at them as long as the pool is open, and
 * sees descriptors of zeros, which hold no page.
 */
#include "base/inject.h"
#include "base/memory.h"
#include "buffer/pool_internal.h"

enum {
    ROUNDS_MAX = 3000, /* over the frames that go, this long apart, while pages are pinned */
    ROUND_NS = 1000000,
    VERSION_STRIDE = 1 << 20,
};

/* Versions go on where no view of the frame's earlier life can have been. */
static void begin_versions(struct buffer_pool *pool, uint32_t first, uint32_t end)
{
    uint64_t version = (uint64_t)++pool->resizes * VERSION_STRIDE;
    for (uint32_t i = first; i < end; i++)
        atomic_store_explicit(&pool->frames[i].state, version << BUFFER_VERSION_SHIFT,
                              memory_order_relaxed);
}

static firn_rc grow(struct buffer_pool *pool, uint32_t before, uint32_t wanted)
{
    firn_rc rc = pool_commit(pool, wanted);
    if (rc == FIRN_OK)
        rc = map_resize(pool, wanted);
    if (rc != FIRN_OK)
        return rc_raise(rc, "no memory for a buffer pool of %u pages: it stays at %u", wanted,
                        before);
    begin_versions(pool, before, wanted);
    pool_set_frames(pool, wanted);
    lists_add_free(pool, before, wanted);
    return FIRN_OK;
}

/* Take away frames [first, end): once round. @return how many are still in the way */
static uint32_t retire_round(struct buffer_pool *pool, uint32_t first, uint32_t end)
{
    uint32_t left = 0;
    for (uint32_t i = first; i < end; i++)
        left += !frame_retire(pool, &pool->frames[i]);
    return left;
}

static firn_rc shrink(struct buffer_pool *pool, uint32_t before, uint32_t wanted)
{
    uint32_t left = 1;
    firn_rc rc = FIRN_OK;
    lists_retire_from(pool, wanted);
    for (unsigned round = 0; left > 0 && round < ROUNDS_MAX && rc == FIRN_OK; round++) {
        INJECT("buffer-shrink-round");
        rc = buffer_writer_evacuate(pool, wanted);
        left = retire_round(pool, wanted, before);
        if (left > 0)
            clock_pause(buffer_clock(pool), ROUND_NS);
    }
    if (left > 0) {
        lists_unretire(pool, wanted, before);
        return rc != FIRN_OK ? rc
                             : rc_raise(FIRN_E_BUSY,
                                        "the buffer pool cannot shrink to %u pages now: %u pages "
                                        "that must go are in use; try again later",
                                        wanted, left);
    }
    pool_set_frames(pool, wanted);
    lists_retire_from(pool, BUFFER_NO_FRAME);
    (void)map_resize(pool, wanted); /* without memory for moving, it stays larger than it must be */
    pool_decommit(pool, wanted, before);
    return FIRN_OK;
}

firn_rc buffer_resize(struct buffer_pool *pool, uint64_t size_bytes)
{
    FIRN_TRY(pool_check_size(pool, size_bytes));
    firn_rc rc = FIRN_OK;
    pthread_mutex_lock(&pool->resize_lock);
    uint32_t before = atomic_load_explicit(&pool->frame_count, memory_order_relaxed);
    uint32_t wanted =
        pool_frames_for(pool->page_size_bytes, pool->sector_hashes != NULL, size_bytes);
    if (wanted > before)
        rc = grow(pool, before, wanted);
    else if (wanted < before)
        rc = shrink(pool, before, wanted);
    if (rc == FIRN_OK)
        atomic_store_explicit(&pool->size_bytes, size_bytes, memory_order_relaxed);
    pthread_mutex_unlock(&pool->resize_lock);
    return rc;
}
