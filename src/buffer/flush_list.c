/*
 * flush_list.c -- dirty frames by the LSN at which they became dirty, and what a checkpoint may
 * say.
 *
 * One list with one mutex: a frame comes and goes once each time it is written, so the lock is
 * taken as often as a device writes pages, not as often as pages change.
 */
#include "buffer/writer_internal.h"

void flush_list_init(struct flush_list *list, uint64_t capacity_bytes)
{
    pace_ages_init(&list->ages, capacity_bytes);
    pthread_mutex_init(&list->mutex, NULL);
    list->head = BUFFER_NO_FRAME;
    list->tail = BUFFER_NO_FRAME;
    list->floor_lsn = UINT64_MAX;
    atomic_init(&list->count, 0);
}

void flush_list_free(struct flush_list *list)
{
    pthread_mutex_destroy(&list->mutex);
}

/* ---- Links; all with the mutex held ---- */

static uint64_t oldest_of(const struct buffer_frame *frame)
{
    return atomic_load_explicit(&frame->oldest_lsn, memory_order_relaxed);
}

/* A frame comes (1) or goes (-1 modulo 2^32). */
static void count(struct flush_list *list, uint64_t oldest_lsn, uint32_t added)
{
    uint32_t before = atomic_load_explicit(&list->count, memory_order_relaxed);
    atomic_store_explicit(&list->count, before + added, memory_order_relaxed);
    *pace_ages_at(&list->ages, oldest_lsn) += added;
}

static void enter(struct flush_list *list, struct buffer_frame *frame, uint64_t oldest_lsn)
{
    atomic_store_explicit(&frame->oldest_lsn, oldest_lsn, memory_order_relaxed);
    count(list, oldest_lsn, 1);
}

static void link_last(struct buffer_pool *pool, struct flush_list *list, struct buffer_frame *frame,
                      uint64_t oldest_lsn)
{
    uint32_t number = buffer_frame_number(pool, frame);
    frame->flush_prev = list->tail;
    frame->flush_next = BUFFER_NO_FRAME;
    if (list->tail != BUFFER_NO_FRAME)
        pool->frames[list->tail].flush_next = number;
    else
        list->head = number;
    list->tail = number;
    enter(list, frame, oldest_lsn);
}

/* Older than what is oldest may be true or not; it only has to be no younger. */
static void link_first(struct buffer_pool *pool, struct flush_list *list,
                       struct buffer_frame *frame, uint64_t oldest_lsn)
{
    uint32_t number = buffer_frame_number(pool, frame);
    frame->flush_prev = BUFFER_NO_FRAME;
    frame->flush_next = list->head;
    if (list->head != BUFFER_NO_FRAME) {
        uint64_t head_lsn = oldest_of(&pool->frames[list->head]);
        oldest_lsn = oldest_lsn < head_lsn ? oldest_lsn : head_lsn;
        pool->frames[list->head].flush_prev = number;
    } else {
        list->tail = number;
    }
    list->head = number;
    enter(list, frame, oldest_lsn);
}

static void unlink_frame(struct buffer_pool *pool, struct flush_list *list,
                         struct buffer_frame *frame)
{
    if (frame->flush_prev != BUFFER_NO_FRAME)
        pool->frames[frame->flush_prev].flush_next = frame->flush_next;
    else
        list->head = frame->flush_next;
    if (frame->flush_next != BUFFER_NO_FRAME)
        pool->frames[frame->flush_next].flush_prev = frame->flush_prev;
    else
        list->tail = frame->flush_prev;
    count(list, oldest_of(frame), UINT32_MAX);
    atomic_store_explicit(&frame->oldest_lsn, 0, memory_order_relaxed);
}

/* ---- Coming and going ---- */

void buffer_flush_add(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t oldest_lsn)
{
    struct flush_list *list = &pool->writer->dirty;
    pthread_mutex_lock(&list->mutex);
    /* Listed already: a copy that failed has been put back, with an older LSN. */
    if (oldest_of(frame) == 0) {
        if (oldest_lsn != 0)
            link_first(pool, list, frame, oldest_lsn);
        else /* read under the mutex, so that who comes later has no smaller LSN */
            link_last(pool, list, frame, redo_reserved_lsn(pool->options.redo));
    }
    pthread_mutex_unlock(&list->mutex);
}

void buffer_flush_drop(struct buffer_pool *pool, struct buffer_frame *frame)
{
    struct flush_list *list = &pool->writer->dirty;
    pthread_mutex_lock(&list->mutex);
    if (oldest_of(frame) != 0)
        unlink_frame(pool, list, frame);
    pthread_mutex_unlock(&list->mutex);
}

uint64_t flush_list_remove(struct buffer_pool *pool, struct buffer_frame *frame)
{
    struct flush_list *list = &pool->writer->dirty;
    pthread_mutex_lock(&list->mutex);
    uint64_t oldest_lsn = oldest_of(frame);
    ENSURE(oldest_lsn != 0); /* a dirty page that no checkpoint waits for would be lost */
    unlink_frame(pool, list, frame);
    pthread_mutex_unlock(&list->mutex);
    return oldest_lsn;
}

void flush_list_put_back(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t oldest_lsn)
{
    struct flush_list *list = &pool->writer->dirty;
    pthread_mutex_lock(&list->mutex);
    if (oldest_of(frame) != 0)
        unlink_frame(pool, list, frame);
    link_first(pool, list, frame, oldest_lsn);
    pthread_mutex_unlock(&list->mutex);
}

unsigned flush_list_oldest(struct buffer_pool *pool, uint64_t below_lsn, uint64_t tried,
                           struct buffer_frame **frames, unsigned max)
{
    struct flush_list *list = &pool->writer->dirty;
    unsigned found = 0;
    pthread_mutex_lock(&list->mutex);
    uint32_t number = list->head;
    while (number != BUFFER_NO_FRAME && found < max) {
        struct buffer_frame *frame = &pool->frames[number];
        if (oldest_of(frame) >= below_lsn)
            break;
        if (frame->writer_word != tried)
            frames[found++] = frame;
        number = frame->flush_next;
    }
    pthread_mutex_unlock(&list->mutex);
    return found;
}

void flush_list_ages(struct buffer_pool *pool, struct pace_ages *ages)
{
    struct flush_list *list = &pool->writer->dirty;
    pthread_mutex_lock(&list->mutex);
    *ages = list->ages;
    pthread_mutex_unlock(&list->mutex);
}

/* ---- What a checkpoint may say ---- */

static uint64_t clean_lsn_locked(struct buffer_pool *pool, const struct flush_list *list,
                                 uint64_t reserved_lsn)
{
    uint64_t lsn = list->floor_lsn < reserved_lsn ? list->floor_lsn : reserved_lsn;
    if (list->head != BUFFER_NO_FRAME) {
        uint64_t head_lsn = oldest_of(&pool->frames[list->head]);
        lsn = head_lsn < lsn ? head_lsn : lsn;
    }
    return lsn;
}

uint64_t buffer_clean_lsn(struct buffer_pool *pool)
{
    struct flush_list *list = &pool->writer->dirty;
    /* First: whoever has reserved a place below it had marked its pages before that. */
    uint64_t reserved_lsn = redo_reserved_lsn(pool->options.redo);
    pthread_mutex_lock(&list->mutex);
    uint64_t lsn = clean_lsn_locked(pool, list, reserved_lsn);
    pthread_mutex_unlock(&list->mutex);
    return lsn;
}

void flush_list_begin(struct buffer_pool *pool)
{
    struct flush_list *list = &pool->writer->dirty;
    uint64_t reserved_lsn = redo_reserved_lsn(pool->options.redo);
    pthread_mutex_lock(&list->mutex);
    ENSURE(list->floor_lsn == UINT64_MAX);
    list->floor_lsn = clean_lsn_locked(pool, list, reserved_lsn);
    pthread_mutex_unlock(&list->mutex);
}

void flush_list_settle(struct buffer_pool *pool, uint64_t oldest_lsn)
{
    struct flush_list *list = &pool->writer->dirty;
    pthread_mutex_lock(&list->mutex);
    /* In recovery, before the log takes frames, there is no floor: nobody takes checkpoints. */
    ENSURE(list->floor_lsn == UINT64_MAX || oldest_lsn >= list->floor_lsn);
    list->floor_lsn = oldest_lsn;
    pthread_mutex_unlock(&list->mutex);
}

void flush_list_end(struct buffer_pool *pool)
{
    struct flush_list *list = &pool->writer->dirty;
    pthread_mutex_lock(&list->mutex);
    list->floor_lsn = UINT64_MAX;
    pthread_mutex_unlock(&list->mutex);
}
