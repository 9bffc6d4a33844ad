/*
 * pool_internal.h -- what the files of the pool proper share: latches, page map, replacement,
 * reads.
 */
#ifndef FIRN_BUFFER_POOL_INTERNAL_H
#define FIRN_BUFFER_POOL_INTERNAL_H

#include "buffer/buffer_internal.h"

#include "base/futex.h"

/* ---- Memory: pool.c ---- */

/** @return how many frames a pool of a size has: descriptors, hashes of sectors, if it has them,
 * and page map count, too. */
uint32_t pool_frames_for(uint32_t page_size_bytes, bool has_hashes, uint64_t size_bytes);

/** Make memory of frames [0, frame_count) usable. FIRN_E_NOMEM, without an error text. */
firn_rc pool_commit(struct buffer_pool *pool, uint32_t frame_count);

/** Give the memory of frames [first, end) back to the system. */
void pool_decommit(struct buffer_pool *pool, uint32_t first, uint32_t end);

/** Settle frame_count and what follows from it. */
void pool_set_frames(struct buffer_pool *pool, uint32_t frame_count);

/** FIRN_E_INVALID, raised, if the pool cannot have a size. */
firn_rc pool_check_size(const struct buffer_pool *pool, uint64_t size_bytes);

/* ---- Latches: latch.c ---- */

/**
 * Wait for a latch on a frame that the caller has pinned. BUFFER_PIN waits for reading alone.
 *
 * @return false if the frame has lost its page meanwhile: its reader failed. The caller then gives
 *         the pin back with frame_leave
 */
bool latch_wait(struct buffer_frame *frame, enum buffer_mode mode);

/** End an exclusive latch, and take away `pins` pins with it. */
void latch_end_exclusive(struct buffer_frame *frame, unsigned pins);

/** End a shared latch, and take away `pins` pins with it. */
void latch_end_shared(struct buffer_frame *frame, unsigned pins);

/** The bytes of a frame that was published READING have come: turn its exclusive latch into one in
 * another mode, and take away `pins` pins. */
void latch_end_reading(struct buffer_frame *frame, enum buffer_mode mode, unsigned pins);

/** Wake all who wait on a frame; the caller has just cleared BUFFER_HAS_WAITERS. */
void latch_wake_all(struct buffer_frame *frame);

/** Bytes that views read may be about to change: they must not seem to before EXCLUSIVE is seen.
 * Pairs with the acquire fence in buffer_view_valid. */
static inline void latch_fence_exclusive(void)
{
#if !BUFFER_VIEWS_LATCH
    atomic_thread_fence(memory_order_release);
#endif
}

/** @return how many hold a shared latch. */
static inline unsigned state_shared(uint64_t state)
{
    return (unsigned)((state & BUFFER_SHARED_MASK) >> BUFFER_SHARED_SHIFT);
}

/** @return how many keep the frame from changing its page. */
static inline unsigned state_pins(uint64_t state)
{
    return (unsigned)(state & BUFFER_PIN_MASK);
}

/** @return true if a latch in this mode can be had in this state. */
static inline bool state_allows(uint64_t state, enum buffer_mode mode)
{
    switch (mode) {
    case BUFFER_PIN:
        return (state & BUFFER_IS_READING) == 0;
    case BUFFER_SHARED:
        return (state & (BUFFER_IS_EXCLUSIVE | BUFFER_IS_WANTED)) == 0 &&
               (state & BUFFER_SHARED_MASK) != BUFFER_SHARED_MASK;
    case BUFFER_EXCLUSIVE:
        return (state & (BUFFER_IS_EXCLUSIVE | BUFFER_SHARED_MASK)) == 0;
    }
    return false;
}

/** @return the state with a latch taken. */
static inline uint64_t state_latched(uint64_t state, enum buffer_mode mode)
{
    if (mode == BUFFER_SHARED)
        return state + BUFFER_SHARED_ONE;
    if (mode == BUFFER_EXCLUSIVE)
        return state | BUFFER_IS_EXCLUSIVE;
    return state;
}

/* ---- The page map: map.c ---- */

/** Make a map for a pool that begins with frame_count frames. */
firn_rc map_open(struct buffer_pool *pool, uint32_t frame_count);
void map_close(struct buffer_pool *pool);

/** @return bytes of memory that a map for so many frames takes. */
uint64_t map_size_bytes(uint32_t frame_count);

/** Fit the map to another number of frames, while it is used. FIRN_E_NOMEM: it stays usable. */
firn_rc map_resize(struct buffer_pool *pool, uint32_t frame_count);

/**
 * Find a page without a lock. The answer is a hint: the frame may have lost the page by now, and
 * NULL may be wrong while others insert and remove.
 */
struct buffer_frame *map_find(const struct buffer_pool *pool, uint64_t page_id);

/** Lock the partition that a page belongs to. While it is locked, a page of it is in the map if and
 * only if a frame is PRESENT with it. */
void map_lock(struct buffer_pool *pool, uint64_t page_id);
void map_unlock(struct buffer_pool *pool, uint64_t page_id);

/** The same with the partition locked: find (exactly), insert (it is not there) and remove (it
 * is). */
struct buffer_frame *map_find_locked(struct buffer_pool *pool, uint64_t page_id);
void map_insert_locked(struct buffer_pool *pool, uint64_t page_id, struct buffer_frame *frame);
void map_remove_locked(struct buffer_pool *pool, uint64_t page_id, struct buffer_frame *frame);

/* ---- Replacement: replace.c ---- */

/** Make the lists empty. */
void lists_init(struct buffer_pool *pool);

/** Put frames [first, end) that nobody owns into the free list. */
void lists_add_free(struct buffer_pool *pool, uint32_t first, uint32_t end);

/** Hand out no frames from a number on; BUFFER_NO_FRAME: all may be. Those that are free leave
 * their list. */
void lists_retire_from(struct buffer_pool *pool, uint32_t first);

/** Take that back for frames [first, end). */
void lists_unretire(struct buffer_pool *pool, uint32_t first, uint32_t end);

/** Take away a frame at or behind lists_retire_from: move its page to another frame if it is young,
 * evict it otherwise. @return false if it is in use or dirty */
bool frame_retire(struct buffer_pool *pool, struct buffer_frame *frame);

/**
 * Take a frame for a page that comes in: a free one, or that of a clean page that is due. It is in
 * the old list and the caller's own; not PRESENT.
 *
 * @return FIRN_OK; FIRN_E_BUSY: every frame is pinned, raised; what the writer failed with
 */
firn_rc frame_take(struct buffer_pool *pool, struct buffer_frame **frame);

/** The same, without writing and waiting. @return NULL if there is none at hand */
struct buffer_frame *frame_take_cheaply(struct buffer_pool *pool);

/** Make a frame that the caller owns (not PRESENT, no pins) a free one. */
void frame_free(struct buffer_pool *pool, struct buffer_frame *frame);

/** Give back the pin of a frame that lost its page while the caller waited for it. */
void frame_leave(struct buffer_pool *pool, struct buffer_frame *frame);

/** @return what a touch makes of a state whose usage is not full, for the swap that pins. What a
 * touch is worth is told in replace.c. */
uint64_t state_touched(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t state,
                       enum buffer_hint hint);

/** Note that a page was touched; `state` is what the caller loaded. */
void frame_touch_slowly(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t state);

/** frame_touch_slowly(), where there is anything to note. */
static inline void frame_touch(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t state)
{
    if (__builtin_expect((state & BUFFER_USAGE_MASK) != BUFFER_USAGE_MASK, 0))
        frame_touch_slowly(pool, frame, state);
}

/* ---- Pages coming in: read.c ---- */

/** Make a frame from frame_take hold a page: PRESENT, EXCLUSIVE, pinned once, with more flags.
 * @return false if the page is in the pool already: the frame is free again */
bool frame_publish(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t page_id,
                   uint64_t flags);

/** Take a page that frame_publish made away again, with the publisher's pin. Those who wait for it
 * fail as well, with rc and the thread's error text, or look again if rc is FIRN_OK. */
void frame_withdraw(struct buffer_pool *pool, struct buffer_frame *frame, firn_rc rc);

/** Tell where the page of a published frame lies. If that fails the frame is withdrawn. @param
 * ahead as frame_settle */
firn_rc frame_locate(struct buffer_pool *pool, struct buffer_frame *frame, bool ahead,
                     struct io_file **file, uint64_t *offset);

/**
 * A read into a published frame has ended. If the bytes are the page, let others in and hold it in
 * a mode; withdraw the frame otherwise.
 *
 * @param rc     of the request; raised if it is a failure
 * @param ahead  nobody holds it: the mode is BUFFER_PIN, and the pin goes, too; who waits for a
 * page that fails is to read it again
 * @return FIRN_OK, or what was wrong, raised
 */
firn_rc frame_settle(struct buffer_pool *pool, struct buffer_frame *frame,
                     const struct io_file *file, firn_rc rc, enum buffer_mode mode, bool ahead);

/** Read a page that is not in the pool and hold it in a mode. *frame is NULL when somebody else was
 * faster: look again. */
firn_rc page_read(struct buffer_pool *pool, uint64_t page_id, enum buffer_mode mode,
                  enum buffer_hint hint, struct buffer_frame **frame);

/* ---- Counting: counters.c ---- */

/** @return the shard that the calling thread counts in. */
struct buffer_shard *counters_shard(struct buffer_pool *pool);

/** Count a view, without a shared write as a rule. */
void counters_view(struct buffer_pool *pool);

/* ---- Read-ahead: prefetch.c ---- */

/** Start a thread for each device that reads ahead, as far as threads are wanted. FIRN_E_NOMEM, ...
 */
firn_rc reader_open(struct buffer_pool *pool);

/** Stop reading ahead; what is under way is waited for. */
void reader_close(struct buffer_pool *pool);

#endif
