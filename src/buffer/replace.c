/*
 * replace.c -- which page goes when another comes: two queues with lazy promotion.
 *
 * Touching a page writes at most two usage bits in its descriptor, and nothing once they are full;
 * no list moves when a page is touched. What the touches amounted to is looked at when a page
 * reaches the end of its queue:
 *
 *   old    where pages come in, old_percent of the pool. At its end: touched pages become young,
 *          dirty ones cold, the others are evicted.
 *   young  at its end: touched pages go round again with one touch less, others become old. Looked
 *          at only while the old queue is shorter than its share.
 *   cold   dirty pages that would have been evicted. The cleaner writes these first.
 *   free   frames without a page.
 *
 * This is 2Q's division (Johnson and Shasha, VLDB 1994) and InnoDB's midpoint, with the lazy
 * promotion of S3-FIFO (Yang et al., SOSP 2023): a scan passes through the old queue without
 * moving, or even looking at, a young page. Touches just after a page came in (within
 * `fresh_window` other pages' coming in) are part of what brought it in and do not count, as with
 * InnoDB's old_blocks_time, but without a clock.
 *
 * One lock for all lists; it is taken once a miss, never on a hit. Under it a map partition may be
 * locked, nothing else.
 */
#include "base/inject.h"
#include "buffer/pool_internal.h"
#include "buffer/sectors_internal.h"

enum {
    EVICT_STEPS = 64,  /* pages that a thread in need looks at before it turns to the writer */
    EVICT_CHUNK = 256, /* steps under one holding of the lock */
    TAKE_TRIES = 1000, /* ... and how often it does */
    BUSY_TRIES = 20,   /* when all are pinned or under way: those of others may end */
    BUSY_WAIT_NS = 1000000,
};

static void list_push(struct buffer_pool *pool, struct buffer_frame *frame,
                      enum buffer_list_name name)
{
    ASSERT(frame->list == BUFFER_LIST_NONE);
    frame->list = (uint8_t)name;
    if (name == BUFFER_LIST_NONE)
        return;
    struct buffer_list *list = &pool->lists[name];
    uint32_t number = buffer_frame_number(pool, frame);
    frame->list_prev = BUFFER_NO_FRAME;
    frame->list_next = list->head;
    if (list->head != BUFFER_NO_FRAME)
        pool->frames[list->head].list_prev = number;
    else
        list->tail = number;
    list->head = number;
    atomic_store_explicit(&list->count,
                          atomic_load_explicit(&list->count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void list_remove(struct buffer_pool *pool, struct buffer_frame *frame)
{
    if (frame->list == BUFFER_LIST_NONE)
        return;
    struct buffer_list *list = &pool->lists[frame->list];
    if (frame->list_prev != BUFFER_NO_FRAME)
        pool->frames[frame->list_prev].list_next = frame->list_next;
    else
        list->head = frame->list_next;
    if (frame->list_next != BUFFER_NO_FRAME)
        pool->frames[frame->list_next].list_prev = frame->list_prev;
    else
        list->tail = frame->list_prev;
    frame->list = BUFFER_LIST_NONE;
    atomic_store_explicit(&list->count,
                          atomic_load_explicit(&list->count, memory_order_relaxed) - 1,
                          memory_order_relaxed);
}

static void list_move(struct buffer_pool *pool, struct buffer_frame *frame,
                      enum buffer_list_name name)
{
    list_remove(pool, frame);
    list_push(pool, frame, name);
}

static uint32_t list_count(const struct buffer_pool *pool, enum buffer_list_name name)
{
    return atomic_load_explicit(&pool->lists[name].count, memory_order_relaxed);
}

static struct buffer_frame *list_tail(struct buffer_pool *pool, enum buffer_list_name name)
{
    uint32_t tail = pool->lists[name].tail;
    return tail == BUFFER_NO_FRAME ? NULL : &pool->frames[tail];
}

void lists_init(struct buffer_pool *pool)
{
    pthread_mutex_init(&pool->lists_lock, NULL);
    for (unsigned i = 0; i < BUFFER_LIST_COUNT; i++)
        pool->lists[i] = (struct buffer_list){.head = BUFFER_NO_FRAME, .tail = BUFFER_NO_FRAME};
    pool->retire_from = BUFFER_NO_FRAME;
}

void lists_add_free(struct buffer_pool *pool, uint32_t first, uint32_t end)
{
    pthread_mutex_lock(&pool->lists_lock);
    for (uint32_t i = first; i < end; i++)
        list_push(pool, &pool->frames[i], BUFFER_LIST_FREE);
    pthread_mutex_unlock(&pool->lists_lock);
}

uint32_t buffer_free_count(const struct buffer_pool *pool)
{
    return list_count(pool, BUFFER_LIST_FREE);
}

/* ---- Touching ---- */

uint64_t state_touched(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t state,
                       enum buffer_hint hint)
{
    uint32_t entered = atomic_load_explicit(&pool->entered, memory_order_relaxed);
    if (atomic_load_explicit(&frame->read_ahead, memory_order_relaxed) != 0) {
        if (hint != BUFFER_HINT_READ_AHEAD) {
            /* What it was read for: now it has come in. */
            atomic_store_explicit(&frame->read_ahead, 0, memory_order_relaxed);
            atomic_store_explicit(&frame->entered, entered, memory_order_relaxed);
        }
        return state;
    }
    uint32_t window = atomic_load_explicit(&pool->fresh_window, memory_order_relaxed);
    if (hint != BUFFER_HINT_NORMAL ||
        entered - atomic_load_explicit(&frame->entered, memory_order_relaxed) < window)
        return state;
    return state + BUFFER_USAGE_ONE;
}

void frame_touch_slowly(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t state)
{
    uint64_t touched = state_touched(pool, frame, state, BUFFER_HINT_NORMAL);
    if (touched != state) /* once: a touch that another one's swap beats is no loss */
        atomic_compare_exchange_strong_explicit(&frame->state, &state, touched,
                                                memory_order_relaxed, memory_order_relaxed);
}

/* ---- The ends of the queues; with lists_lock ---- */

static bool is_evictable(uint64_t state)
{
    uint64_t busy = BUFFER_PIN_MASK | BUFFER_SHARED_MASK | BUFFER_IS_EXCLUSIVE | BUFFER_IS_READING |
                    BUFFER_IS_WRITING | BUFFER_IS_DIRTY;
    return (state & BUFFER_IS_PRESENT) != 0 && (state & busy) == 0;
}

/* With the page's map partition locked: make its frame the caller's own, unless its evictable state
   has changed. */
static bool claim_locked(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t state)
{
    uint64_t gone = (state & BUFFER_VERSION_MASK) + BUFFER_VERSION_ONE;
    if (!atomic_compare_exchange_strong_explicit(&frame->state, &state, gone, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    latch_fence_exclusive();
    map_remove_locked(pool, buffer_page_id(frame), frame);
    return true;
}

/* Make a page's frame the caller's own, if nobody has it and it is clean. */
static bool claim(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t state)
{
    if (!is_evictable(state))
        return false;
    uint64_t id = buffer_page_id(frame);
    INJECT("buffer-claim");
    map_lock(pool, id);
    bool claimed = claim_locked(pool, frame, state);
    map_unlock(pool, id);
    return claimed;
}

static void count_eviction(struct buffer_pool *pool, const struct buffer_frame *frame)
{
    pool->evicted++;
    pool->not_made_young += !frame->was_young;
    pool->read_ahead_evicted += atomic_load_explicit(&frame->read_ahead, memory_order_relaxed) != 0;
}

static void make_young(struct buffer_pool *pool, struct buffer_frame *frame)
{
    atomic_fetch_and_explicit(&frame->state, ~BUFFER_USAGE_MASK, memory_order_relaxed);
    frame->was_young = 1;
    pool->made_young++;
    list_move(pool, frame, BUFFER_LIST_YOUNG);
}

static void young_step(struct buffer_pool *pool, struct buffer_frame *frame)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    bool touched = (state & BUFFER_USAGE_MASK) != 0;
    if (touched) /* or fails: it is being touched, or gone */
        atomic_compare_exchange_strong_explicit(&frame->state, &state, state - BUFFER_USAGE_ONE,
                                                memory_order_relaxed, memory_order_relaxed);
    list_move(pool, frame, touched ? BUFFER_LIST_YOUNG : BUFFER_LIST_OLD);
}

/* @return true if the frame has become the caller's own, in no list */
static bool old_step(struct buffer_pool *pool, struct buffer_frame *frame)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    if ((state & BUFFER_USAGE_MASK) != 0) {
        make_young(pool, frame);
        return false;
    }
    if (claim(pool, frame, state)) {
        count_eviction(pool, frame);
        list_remove(pool, frame);
        return true;
    }
    bool cold = (state & BUFFER_IS_DIRTY) != 0 && state_pins(state) == 0;
    list_move(pool, frame, cold ? BUFFER_LIST_COLD : BUFFER_LIST_OLD);
    return false;
}

static bool old_is_long(const struct buffer_pool *pool)
{
    uint64_t old = list_count(pool, BUFFER_LIST_OLD) + list_count(pool, BUFFER_LIST_COLD);
    uint64_t young = list_count(pool, BUFFER_LIST_YOUNG);
    return young == 0 || old * 100 >= (old + young) * pool->options.old_percent;
}

/* The cold page that is due, if it has been written already for a checkpoint's sake. */
static struct buffer_frame *clean_cold(struct buffer_pool *pool)
{
    struct buffer_frame *frame = list_tail(pool, BUFFER_LIST_COLD);
    if (frame == NULL)
        return NULL;
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    return (state & (BUFFER_IS_DIRTY | BUFFER_IS_WRITING)) == 0 ? frame : NULL;
}

/* Look at up to *steps pages in the order of replacement. While the old pages are all cold, young
   ones are left in peace unless `thoroughly`. @return a frame of the caller's own, or NULL */
static struct buffer_frame *evict_one(struct buffer_pool *pool, uint32_t *steps, bool thoroughly)
{
    for (; *steps > 0; --*steps) {
        bool old_is_due = old_is_long(pool);
        struct buffer_frame *frame = clean_cold(pool);
        if (frame == NULL && old_is_due)
            frame = list_tail(pool, BUFFER_LIST_OLD);
        if (frame != NULL) {
            if (frame->list_prev != BUFFER_NO_FRAME)
                __builtin_prefetch(&pool->frames[frame->list_prev]);
            if (old_step(pool, frame))
                return frame;
            continue;
        }
        frame = list_tail(pool, BUFFER_LIST_YOUNG);
        if (frame == NULL || (old_is_due && !thoroughly))
            break;
        young_step(pool, frame);
    }
    return NULL;
}

/* ---- Frames for pages that come in ---- */

/* With lists_lock: a frame, now old, or NULL after so many steps. */
static struct buffer_frame *take_locked(struct buffer_pool *pool, uint32_t steps, bool thoroughly)
{
    struct buffer_frame *frame = list_tail(pool, BUFFER_LIST_FREE);
    if (frame != NULL)
        list_remove(pool, frame);
    else
        do
            frame = evict_one(pool, &steps, thoroughly);
        while (frame != NULL && buffer_frame_number(pool, frame) >= pool->retire_from);
    if (frame == NULL)
        return NULL;
    uint32_t entered = atomic_load_explicit(&pool->entered, memory_order_relaxed) + 1;
    atomic_store_explicit(&pool->entered, entered, memory_order_relaxed);
    atomic_store_explicit(&frame->entered, entered, memory_order_relaxed);
    atomic_store_explicit(&frame->read_ahead, 0, memory_order_relaxed);
    frame->was_young = 0;
    list_push(pool, frame, BUFFER_LIST_OLD);
    return frame;
}

static struct buffer_frame *take(struct buffer_pool *pool, uint32_t steps, bool thoroughly)
{
    pthread_mutex_lock(&pool->lists_lock);
    struct buffer_frame *frame = take_locked(pool, steps, thoroughly);
    pthread_mutex_unlock(&pool->lists_lock);
    return frame;
}

struct buffer_frame *frame_take_cheaply(struct buffer_pool *pool)
{
    struct buffer_frame *frame = take(pool, EVICT_STEPS, false);
    if (buffer_free_count(pool) < buffer_free_low(pool))
        buffer_writer_wake(pool);
    return frame;
}

/* Every page once round both queues until its touches are used up. */
static struct buffer_frame *take_thoroughly(struct buffer_pool *pool)
{
    uint64_t rounds = (BUFFER_USAGE_MASK >> BUFFER_USAGE_SHIFT) + 2;
    uint64_t frame_count = atomic_load_explicit(&pool->frame_count, memory_order_relaxed);
    for (uint64_t steps = 0; steps < rounds * frame_count; steps += EVICT_CHUNK) {
        struct buffer_frame *frame = take(pool, EVICT_CHUNK, true);
        if (frame != NULL)
            return frame;
    }
    return NULL;
}

firn_rc frame_take(struct buffer_pool *pool, struct buffer_frame **frame)
{
    *frame = frame_take_cheaply(pool);
    if (*frame != NULL)
        return FIRN_OK;
    atomic_fetch_add_explicit(&pool->free_waits, 1, memory_order_relaxed);
    unsigned busy = 0;
    for (unsigned tries = 0; tries < TAKE_TRIES && busy < BUSY_TRIES; tries++) {
        firn_rc rc = buffer_writer_make_room(pool);
        if (rc != FIRN_OK && rc != FIRN_E_BUSY)
            return rc;
        *frame = rc == FIRN_OK ? take(pool, EVICT_STEPS, false) : take_thoroughly(pool);
        if (*frame != NULL)
            return FIRN_OK;
        if (rc == FIRN_OK)
            continue; /* somebody else was faster to take what was made */
        busy++;
        clock_pause(buffer_clock(pool), BUSY_WAIT_NS);
    }
    return rc_raise(FIRN_E_BUSY,
                    "all %u pages of the buffer pool are in use: raise buffer_pool_size",
                    atomic_load_explicit(&pool->frame_count, memory_order_relaxed));
}

void frame_free(struct buffer_pool *pool, struct buffer_frame *frame)
{
    ASSERT((atomic_load_explicit(&frame->state, memory_order_relaxed) & ~BUFFER_VERSION_MASK) == 0);
    pthread_mutex_lock(&pool->lists_lock);
    bool retired = buffer_frame_number(pool, frame) >= pool->retire_from;
    list_move(pool, frame, retired ? BUFFER_LIST_NONE : BUFFER_LIST_FREE);
    pthread_mutex_unlock(&pool->lists_lock);
}

void frame_leave(struct buffer_pool *pool, struct buffer_frame *frame)
{
    uint64_t state = atomic_fetch_sub_explicit(&frame->state, BUFFER_PIN_ONE, memory_order_acq_rel);
    ASSERT((state & BUFFER_IS_PRESENT) == 0);
    if (state_pins(state) == 1)
        frame_free(pool, frame);
}

/* With lists_lock: one more free frame in so many steps. @return false if it is no use going on */
static bool evict_to_free(struct buffer_pool *pool, uint32_t *steps)
{
    struct buffer_frame *frame = evict_one(pool, steps, false);
    if (frame != NULL && buffer_frame_number(pool, frame) < pool->retire_from)
        list_push(pool, frame, BUFFER_LIST_FREE);
    return frame != NULL || *steps == 0;
}

uint32_t buffer_evict(struct buffer_pool *pool, uint32_t want_free, uint32_t steps)
{
    bool going = true;
    while (going && steps > 0 && buffer_free_count(pool) < want_free) {
        uint32_t chunk = steps < EVICT_CHUNK ? steps : EVICT_CHUNK;
        steps -= chunk;
        pthread_mutex_lock(&pool->lists_lock);
        while (going && chunk > 0 && list_count(pool, BUFFER_LIST_FREE) < want_free)
            going = evict_to_free(pool, &chunk);
        pthread_mutex_unlock(&pool->lists_lock);
    }
    return buffer_free_count(pool);
}

/* ---- Frames that a resize takes away ---- */

void lists_retire_from(struct buffer_pool *pool, uint32_t first)
{
    pthread_mutex_lock(&pool->lists_lock);
    pool->retire_from = first;
    uint32_t number = pool->lists[BUFFER_LIST_FREE].head;
    while (number != BUFFER_NO_FRAME) {
        struct buffer_frame *frame = &pool->frames[number];
        number = frame->list_next;
        if (buffer_frame_number(pool, frame) >= first)
            list_remove(pool, frame);
    }
    pthread_mutex_unlock(&pool->lists_lock);
}

static bool is_retired(const struct buffer_frame *frame)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    return frame->list == BUFFER_LIST_NONE && (state & ~BUFFER_VERSION_MASK) == 0;
}

void lists_unretire(struct buffer_pool *pool, uint32_t first, uint32_t end)
{
    pthread_mutex_lock(&pool->lists_lock);
    pool->retire_from = BUFFER_NO_FRAME;
    for (uint32_t i = first; i < end; i++)
        if (is_retired(&pool->frames[i]))
            list_push(pool, &pool->frames[i], BUFFER_LIST_FREE);
    pthread_mutex_unlock(&pool->lists_lock);
}

/* With lists_lock: let another frame, the caller's own, have a frame's page. */
static bool move_page(struct buffer_pool *pool, struct buffer_frame *from, struct buffer_frame *to)
{
    uint64_t state = atomic_load_explicit(&from->state, memory_order_relaxed);
    uint64_t version = atomic_load_explicit(&to->state, memory_order_relaxed);
    uint64_t id = buffer_page_id(from);
    if (!is_evictable(state))
        return false;
    /* Who looks for the page without the lock meanwhile misses it, and then waits for the lock. */
    map_lock(pool, id);
    bool moved = claim_locked(pool, from, state);
    if (moved) {
        memcpy(buffer_page(pool, to), buffer_page(pool, from), pool->page_size_bytes);
        to->changed = 0;
        to->is_new = 0;
        to->is_begun = 0;
        sectors_move(pool, from, to);
        atomic_store_explicit(&to->page_id, id, memory_order_relaxed);
        atomic_store_explicit(&to->state,
                              (version + BUFFER_VERSION_ONE) | BUFFER_IS_PRESENT |
                                  (state & BUFFER_USAGE_MASK),
                              memory_order_release);
        map_insert_locked(pool, id, to);
    }
    map_unlock(pool, id);
    return moved;
}

/* With lists_lock. @return false if there is no frame for it, or it is in use after all */
static bool retire_young(struct buffer_pool *pool, struct buffer_frame *frame)
{
    struct buffer_frame *to = take_locked(pool, EVICT_STEPS, false);
    if (to == NULL)
        return false;
    bool moved = move_page(pool, frame, to);
    to->was_young = moved;
    list_move(pool, to, moved ? BUFFER_LIST_YOUNG : BUFFER_LIST_FREE);
    if (moved)
        list_remove(pool, frame);
    return moved;
}

bool frame_retire(struct buffer_pool *pool, struct buffer_frame *frame)
{
    pthread_mutex_lock(&pool->lists_lock);
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    bool retired = is_retired(frame);
    if (!retired && frame->list == BUFFER_LIST_YOUNG)
        retired = retire_young(pool, frame);
    if (!retired && claim(pool, frame, state)) {
        count_eviction(pool, frame);
        list_remove(pool, frame);
        retired = true;
    }
    pthread_mutex_unlock(&pool->lists_lock);
    return retired;
}

uint32_t buffer_wanted_ids(struct buffer_pool *pool, uint64_t *page_ids, uint32_t max)
{
    static const enum buffer_list_name order[] = {BUFFER_LIST_YOUNG, BUFFER_LIST_OLD,
                                                  BUFFER_LIST_COLD};
    uint32_t count = 0;
    pthread_mutex_lock(&pool->lists_lock);
    for (unsigned i = 0; i < ARRAY_COUNT(order); i++)
        for (uint32_t number = pool->lists[order[i]].head; number != BUFFER_NO_FRAME && count < max;
             number = pool->frames[number].list_next) {
            struct buffer_frame *frame = &pool->frames[number];
            uint64_t state = atomic_load_explicit(&frame->state, memory_order_acquire);
            if ((state & (BUFFER_IS_PRESENT | BUFFER_IS_READING)) == BUFFER_IS_PRESENT)
                page_ids[count++] = buffer_page_id(frame);
        }
    pthread_mutex_unlock(&pool->lists_lock);
    return count;
}

/* ---- Cold pages ---- */

/* With lists_lock: does a page that had to be written first go now, or has it become young? */
static bool cold_settle(struct buffer_pool *pool, struct buffer_frame *frame)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    if ((state & BUFFER_USAGE_MASK) != 0) {
        make_young(pool, frame);
        return true;
    }
    if (!claim(pool, frame, state))
        return false;
    count_eviction(pool, frame);
    bool retired = buffer_frame_number(pool, frame) >= pool->retire_from;
    list_move(pool, frame, retired ? BUFFER_LIST_NONE : BUFFER_LIST_FREE);
    return true;
}

unsigned buffer_take_cold(struct buffer_pool *pool, struct buffer_frame **frames, unsigned max)
{
    unsigned count = 0;
    struct buffer_frame *frame;
    pthread_mutex_lock(&pool->lists_lock);
    while (count < max && (frame = list_tail(pool, BUFFER_LIST_COLD)) != NULL) {
        if (cold_settle(pool, frame))
            continue;
        bool dirty = buffer_pin_dirty(pool, frame);
        list_move(pool, frame, dirty ? BUFFER_LIST_NONE : BUFFER_LIST_OLD);
        if (dirty)
            frames[count++] = frame;
    }
    pthread_mutex_unlock(&pool->lists_lock);
    return count;
}

void buffer_return_cold(struct buffer_pool *pool, struct buffer_frame *frame)
{
    pthread_mutex_lock(&pool->lists_lock);
    buffer_unpin(pool, frame);
    if (!cold_settle(pool, frame)) {
        uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
        bool dirty = (state & BUFFER_IS_DIRTY) != 0;
        list_push(pool, frame, dirty ? BUFFER_LIST_COLD : BUFFER_LIST_OLD);
    }
    pthread_mutex_unlock(&pool->lists_lock);
}

/* ---- Pins of the writer, and the way of a page to its device ---- */

bool buffer_pin_dirty(struct buffer_pool *pool, struct buffer_frame *frame)
{
    (void)pool;
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    do {
        if ((state & (BUFFER_IS_PRESENT | BUFFER_IS_DIRTY)) !=
                (BUFFER_IS_PRESENT | BUFFER_IS_DIRTY) ||
            (state & BUFFER_PIN_MASK) == BUFFER_PIN_MASK)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, state + BUFFER_PIN_ONE,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

void buffer_unpin(struct buffer_pool *pool, struct buffer_frame *frame)
{
    (void)pool;
    uint64_t state = atomic_fetch_sub_explicit(&frame->state, BUFFER_PIN_ONE, memory_order_release);
    ASSERT(state_pins(state) > state_shared(state));
}

bool buffer_begin_write(struct buffer_frame *frame)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    do {
        ASSERT(state_shared(state) > 0);
        if ((state & BUFFER_IS_DIRTY) == 0 || (state & BUFFER_IS_WRITING) != 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state,
                                                    (state & ~BUFFER_IS_DIRTY) | BUFFER_IS_WRITING,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void buffer_end_write(struct buffer_pool *pool, struct buffer_frame *frame, bool failed)
{
    (void)pool;
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    uint64_t ended;
    do {
        ASSERT((state & BUFFER_IS_WRITING) != 0);
        ended = (state & ~BUFFER_IS_WRITING) | (failed ? BUFFER_IS_DIRTY : 0);
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, ended,
                                                    memory_order_release, memory_order_relaxed));
}
