/*
 * room.c -- room in the ring: who appends must have been promised it.
 *
 * Promised is what may still be appended by those who asked, reserved is what has been. Their sum,
 * counted from the checkpoint, never exceeds the ring, so an append finds room without waiting,
 * whatever latches its thread holds. To promise without a shared write, small requests are counted
 * in one of several counters: while each of these stays below a share, all of them together are
 * below REDO_COUNTERS shares, and looking at one's own is enough. Large requests, and those that
 * find their counter full or the ring nearly so, are counted in one place and exactly.
 */
#include "redo/redo_internal.h"

#include "base/check.h"
#include "base/inject.h"
#include "base/park.h"

enum { LIMIT_SLEEP_MAX_NS = 1000000 };

static uint64_t load(_Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_seq_cst);
}

/* What may be promised at all: blocks are written whole, and recoveries append a little. */
static uint64_t limit_bytes(const struct redo *redo)
{
    return redo_ring_bytes(&redo->layout) - REDO_SPARE_BYTES - 2 * REDO_BLOCK_BYTES;
}

static uint64_t share_bytes(const struct redo *redo)
{
    return redo_ring_bytes(&redo->layout) / (8 * REDO_COUNTERS);
}

/* Bytes of the stream from a position that moves on, too. The end is read second: it is then never
   found behind the other, however long the thread was kept from going on in between. */
static uint64_t bytes_from(struct redo *redo, uint64_t lsn)
{
    INJECT("redo-bytes-from");
    return load(&redo->reserved_lsn) - lsn;
}

/* Bytes that the ring holds, and that large requests may add. The large ones are read before and
   behind the rest: what moves from promised to reserved meanwhile is counted twice rather than
   never, and a promise that is not seen was made by somebody who sees the same end or a later one.
 */
static uint64_t used_bytes(struct redo *redo)
{
    uint64_t before = load(&redo->large_promised_bytes);
    uint64_t held = bytes_from(redo, load(&redo->free_lsn));
    uint64_t behind = load(&redo->large_promised_bytes);
    return held + (before > behind ? before : behind);
}

static bool promise_small(struct redo *redo, uint64_t size_bytes, uint32_t number)
{
    _Atomic uint64_t *counter = &redo->counters[number].promised_bytes;
    uint64_t before = atomic_fetch_add_explicit(counter, size_bytes, memory_order_seq_cst);
    if (before + size_bytes <= share_bytes(redo) && used_bytes(redo) <= redo_capacity_bytes(redo))
        return true;
    atomic_fetch_sub_explicit(counter, size_bytes, memory_order_seq_cst);
    return false;
}

/* Counting comes before looking: of two that cannot both be promised at least one sees the other.
 */
static bool promise_large(struct redo *redo, uint64_t size_bytes)
{
    atomic_fetch_add_explicit(&redo->large_promised_bytes, size_bytes, memory_order_seq_cst);
    if (used_bytes(redo) <= redo_capacity_bytes(redo))
        return true;
    atomic_fetch_sub_explicit(&redo->large_promised_bytes, size_bytes, memory_order_seq_cst);
    return false;
}

enum { COUNTED_LARGE = REDO_COUNTERS }; /* in redo_room.counter */

static bool promise(struct redo *redo, uint64_t size_bytes, struct redo_room *room)
{
    uint32_t number = redo_counter_number();
    bool is_small = promise_small(redo, size_bytes, number);
    if (!is_small && !promise_large(redo, size_bytes))
        return false;
    *room =
        (struct redo_room){.size_bytes = size_bytes, .counter = is_small ? number : COUNTED_LARGE};
    return true;
}

void redo_unreserve(struct redo *redo, struct redo_room *room)
{
    if (room->size_bytes == 0)
        return;
    _Atomic uint64_t *counter = room->counter == COUNTED_LARGE
                                    ? &redo->large_promised_bytes
                                    : &redo->counters[room->counter].promised_bytes;
    atomic_fetch_sub_explicit(counter, room->size_bytes, memory_order_seq_cst);
    *room = (struct redo_room){0};
}

firn_rc redo_reserve_more(struct redo *redo, uint64_t size_bytes, struct redo_room *room)
{
    struct redo_room more;
    uint64_t frame_bytes = redo_frame_bytes(size_bytes);
    if (!promise(redo, frame_bytes + room->size_bytes, &more))
        return FIRN_E_BUSY;
    redo_unreserve(redo, room);
    *room = more;
    return FIRN_OK;
}

/* ---- Waiting for it ---- */

/* The last checkpoint frees its room with the next sync of file 0; when nobody commits that is
   ours. */
static firn_rc finish_checkpoint(struct redo *redo)
{
    redo_writer_enter(redo);
    if (!redo_has_failed(redo) && redo->file_dirty[0] && redo_sync_file(redo, 0) != FIRN_OK)
        redo_fail(redo);
    redo_writer_leave(redo);
    return redo_status(redo);
}

static firn_rc wait_for_room(struct redo *redo, uint64_t size_bytes, struct redo_room *room)
{
    redo_count(&redo->counters[redo_counter_number()].space_waits, 1);
    for (;;) {
        FIRN_TRY(redo_status(redo));
        uint64_t free_lsn = load(&redo->free_lsn);
        if (free_lsn != redo_checkpoint_lsn(redo))
            FIRN_TRY(finish_checkpoint(redo));
        else if (redo->urge != NULL)
            FIRN_TRY(redo->urge(redo->urge_context));
        if (promise(redo, size_bytes, room))
            return FIRN_OK;
        /* Somebody holds checkpoints back, or others' pages are still being written. */
        if (load(&redo->free_lsn) == free_lsn)
            clock_pause(redo->clock, NS_PER_MS);
    }
}

/* How far the tail is from where it may be now, in ns of waiting; 0 if it is not there yet. What is
   read here may be of two limits that follow each other: a wait is a little off then. */
static uint64_t limit_wait_ns(struct redo *redo)
{
    double bytes_s = (double)load(&redo->limit_bytes_s);
    double since_s = (double)(clock_now(redo->clock) - load(&redo->limit_set_ns)) / 1e9;
    double limit = (double)load(&redo->limit_lsn) + bytes_s * since_s;
    double ahead = (double)load(&redo->reserved_lsn) - limit;
    return ahead >= 0.0 && bytes_s > 0.0 ? (uint64_t)(ahead / bytes_s * 1e9) + 1 : 0;
}

/* The first of those who wait sleeps for all; the others stand behind it. */
static void sleep_at_limit(struct redo *redo)
{
    lock_take(&redo->limit_mutex);
    uint64_t wait_ns = limit_wait_ns(redo);
    while (wait_ns > 0 && !redo_has_failed(redo)) {
        clock_pause(redo->clock, wait_ns < LIMIT_SLEEP_MAX_NS ? wait_ns : LIMIT_SLEEP_MAX_NS);
        wait_ns = limit_wait_ns(redo);
    }
    lock_give(&redo->limit_mutex);
}

static bool is_at_limit(struct redo *redo)
{
    return load(&redo->reserved_lsn) >=
           atomic_load_explicit(&redo->limit_lsn, memory_order_relaxed);
}

static void obey_limit(struct redo *redo)
{
    if (load(&redo->limit_bytes_s) == 0) {
        if (redo->at_limit != NULL &&
            !atomic_exchange_explicit(&redo->limit_is_told, true, memory_order_relaxed))
            redo->at_limit(redo->at_limit_context);
    } else if (limit_wait_ns(redo) > 0) {
        redo_count(&redo->counters[redo_counter_number()].limit_waits, 1);
        sleep_at_limit(redo);
    }
}

void redo_set_limit(struct redo *redo, uint64_t lsn, uint64_t bytes_s)
{
    atomic_store_explicit(&redo->limit_set_ns, clock_now(redo->clock), memory_order_seq_cst);
    atomic_store_explicit(&redo->limit_bytes_s, bytes_s, memory_order_seq_cst);
    atomic_store_explicit(&redo->limit_lsn, lsn, memory_order_seq_cst);
    atomic_store_explicit(&redo->limit_is_told, false, memory_order_seq_cst);
}

void redo_set_at_limit(struct redo *redo, redo_at_limit *at_limit, void *context)
{
    redo->at_limit = at_limit;
    redo->at_limit_context = context;
}

/* With half of the log buffer full, write it out now rather than in an append, behind latches. */
static firn_rc drain_buffer(struct redo *redo)
{
    uint64_t written = load(&redo->written_lsn);
    uint64_t held = bytes_from(redo, written);
    if (held < redo->buffer_size_bytes / 2)
        return FIRN_OK;
    if (held > redo->buffer_size_bytes / 4 * 3)
        return redo_await(redo, REDO_GOAL_WRITTEN, written + redo->buffer_size_bytes / 2);
    if (!redo_writer_try_enter(redo, REDO_WRITER_SLOW))
        return FIRN_OK;
    if (!redo_has_failed(redo) && redo_carry_out(redo, false) != FIRN_OK)
        redo_fail(redo);
    redo_writer_leave(redo);
    return redo_status(redo);
}

firn_rc redo_reserve(struct redo *redo, uint64_t size_bytes, struct redo_room *room)
{
    ASSERT(room->size_bytes == 0 && size_bytes <= REDO_FRAME_BODY_MAX);
    if (redo_has_failed(redo))
        return redo_raise_failure(redo);
    FIRN_TRY(drain_buffer(redo));
    if (__builtin_expect(is_at_limit(redo), 0))
        obey_limit(redo);
    uint64_t frame_bytes = redo_frame_bytes(size_bytes);
    if (promise(redo, frame_bytes, room))
        return FIRN_OK;
    return wait_for_room(redo, frame_bytes, room);
}

void redo_set_urge(struct redo *redo, redo_urge *urge, void *context)
{
    redo->urge = urge;
    redo->urge_context = context;
}

uint64_t redo_capacity_bytes(const struct redo *redo)
{
    return limit_bytes(redo) - REDO_COUNTERS * share_bytes(redo);
}
