/*
 * fake_redo.h -- a log in memory in the place of src/redo, for tests of how pages are written: what
 * is durable in it survives a power cut, and the judge can look into it.
 *
 * A frame changes up to three pages: makes them, or counts up a number in a quarter of their
 * sectors, so that a change that is lost, or made twice, shows.
 */
#ifndef FIRN_TESTS_BUFFER_FAKE_REDO_H
#define FIRN_TESTS_BUFFER_FAKE_REDO_H

#include "redo/redo.h"

#include "base/check.h"
#include "base/endian.h"
#include "page/page.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { FAKE_PAGES_MAX = 3, FAKE_FRAME_BYTES = 64, FAKE_SECTOR = 512 };

struct fake_frame {
    uint64_t lsn;
    uint64_t end_lsn;
    bool makes; /* the pages are new */
    unsigned count;
    uint64_t page_ids[FAKE_PAGES_MAX];
};

struct redo {
    pthread_mutex_t mutex; /* protects the frames */
    struct fake_frame *frames;
    size_t count;
    size_t capacity;
    _Atomic uint64_t reserved_lsn;
    _Atomic uint64_t durable_lsn;
    _Atomic uint64_t checkpoint_lsn;
    _Atomic uint64_t checkpoints;
    _Atomic uint64_t limit_lsn;
    uint64_t capacity_bytes;
    bool recovering;
    bool fails; /* every flush from now on */
};

static inline void fake_redo_init(struct redo *redo)
{
    *redo = (struct redo){.capacity_bytes = 1 << 20};
    pthread_mutex_init(&redo->mutex, NULL);
    atomic_init(&redo->reserved_lsn, REDO_FIRST_LSN);
    atomic_init(&redo->durable_lsn, REDO_FIRST_LSN);
    atomic_init(&redo->checkpoint_lsn, REDO_FIRST_LSN);
}

static inline void fake_redo_free(struct redo *redo)
{
    pthread_mutex_destroy(&redo->mutex);
    free(redo->frames);
}

/** Reserve a place and put a frame there. @return where it ends */
static inline uint64_t fake_redo_append(struct redo *redo, struct fake_frame frame)
{
    pthread_mutex_lock(&redo->mutex);
    if (redo->count == redo->capacity) {
        redo->capacity = redo->capacity * 2 + 64;
        redo->frames = realloc(redo->frames, redo->capacity * sizeof(redo->frames[0]));
    }
    frame.lsn = atomic_fetch_add(&redo->reserved_lsn, FAKE_FRAME_BYTES);
    frame.end_lsn = frame.lsn + FAKE_FRAME_BYTES;
    redo->frames[redo->count++] = frame;
    pthread_mutex_unlock(&redo->mutex);
    return frame.end_lsn;
}

/** The power is gone: what was not durable is lost. */
static inline void fake_redo_crash(struct redo *redo)
{
    uint64_t durable_lsn = atomic_load(&redo->durable_lsn);
    while (redo->count > 0 && redo->frames[redo->count - 1].end_lsn > durable_lsn)
        redo->count--;
    atomic_store(&redo->reserved_lsn, durable_lsn);
    redo->fails = false;
}

/** A copy, for trying many cuts from one point; to be freed with fake_redo_free. */
static inline void fake_redo_copy(struct redo *to, const struct redo *from)
{
    fake_redo_init(to);
    to->capacity = to->count = from->count;
    to->frames = malloc((from->count + 1) * sizeof(to->frames[0]));
    for (size_t i = 0; i < from->count; i++)
        to->frames[i] = from->frames[i];
    to->capacity_bytes = from->capacity_bytes;
    atomic_store(&to->reserved_lsn, atomic_load(&from->reserved_lsn));
    atomic_store(&to->durable_lsn, atomic_load(&from->durable_lsn));
    atomic_store(&to->checkpoint_lsn, atomic_load(&from->checkpoint_lsn));
}

/** Do to a page what a frame says. */
static inline void fake_apply(uint8_t *page, uint32_t page_size_bytes, uint64_t page_id,
                              const struct fake_frame *frame)
{
    if (frame->makes)
        page_init(page, page_size_bytes, page_id, PAGE_TYPE_BLOB);
    for (uint32_t sector = 0; sector < page_size_bytes; sector += FAKE_SECTOR) {
        if ((frame->lsn / FAKE_FRAME_BYTES + sector / FAKE_SECTOR) % 4 != 0)
            continue;
        uint8_t *at = page + sector + 32 + (frame->lsn / FAKE_FRAME_BYTES * 7 + sector) % 100 * 4;
        put_u32(at, get_u32(at) + 1);
    }
    page_set_lsn(page, frame->end_lsn);
}

/** Make a page as it ought to be after all frames that are there. @return false if none made it */
static inline bool fake_redo_expect(const struct redo *redo, uint64_t page_id, uint8_t *page,
                                    uint32_t page_size_bytes)
{
    bool made = false;
    for (size_t i = 0; i < redo->count; i++)
        for (unsigned p = 0; p < redo->frames[i].count; p++)
            if (redo->frames[i].page_ids[p] == page_id) {
                fake_apply(page, page_size_bytes, page_id, &redo->frames[i]);
                made = true;
            }
    return made;
}

/* ---- redo.h ---- */

uint64_t redo_reserved_lsn(const struct redo *redo)
{
    return redo->recovering ? UINT64_MAX : atomic_load(&redo->reserved_lsn);
}

uint64_t redo_page_limit(const struct redo *redo)
{
    return redo_reserved_lsn(redo);
}

uint64_t redo_durable_lsn(const struct redo *redo)
{
    return atomic_load(&redo->durable_lsn);
}

uint64_t redo_checkpoint_lsn(const struct redo *redo)
{
    return atomic_load(&redo->checkpoint_lsn);
}

uint64_t redo_capacity_bytes(const struct redo *redo)
{
    return redo->capacity_bytes;
}

uint64_t redo_age_bytes(const struct redo *redo)
{
    return atomic_load(&redo->reserved_lsn) - atomic_load(&redo->checkpoint_lsn);
}

void redo_set_limit(struct redo *redo, uint64_t lsn, uint64_t bytes_s)
{
    (void)bytes_s;
    atomic_store(&redo->limit_lsn, lsn);
}

void redo_set_at_limit(struct redo *redo, redo_at_limit *at_limit, void *context)
{
    (void)redo;
    (void)at_limit;
    (void)context;
}

static inline void fake_raise_to(_Atomic uint64_t *lsn, uint64_t to)
{
    uint64_t now = atomic_load(lsn);
    while (now < to && !atomic_compare_exchange_weak(lsn, &now, to))
        ;
}

firn_rc redo_flush(struct redo *redo, uint64_t lsn, enum redo_flush flush)
{
    ENSURE(!redo->recovering);
    if (redo->fails)
        return rc_raise(FIRN_E_STOPPED, "the log has failed");
    if (flush == REDO_FLUSH_SYNC)
        fake_raise_to(&redo->durable_lsn, lsn);
    return FIRN_OK;
}

firn_rc redo_checkpoint(struct redo *redo, uint64_t lsn)
{
    ENSURE(lsn <= redo_reserved_lsn(redo) && !redo->recovering);
    FIRN_TRY(redo_flush(redo, lsn, REDO_FLUSH_SYNC));
    fake_raise_to(&redo->checkpoint_lsn, lsn);
    atomic_fetch_add(&redo->checkpoints, 1);
    return FIRN_OK;
}

#endif
