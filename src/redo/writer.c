#include "redo/redo_internal.h"

#include "base/check.h"
#include "base/futex.h"
#include "base/inject.h"

#include <limits.h>
#include <sched.h>
#include <string.h>

enum { WATCH_PAUSES = 1000 }; /* from ten to fifty microseconds, as processors go */

/* ---- Failure ---- */

void redo_fail(struct redo *redo)
{
    if (redo_has_failed(redo))
        return;
    strncpy(redo->failure, firn_error_text(), sizeof(redo->failure) - 1);
    /* Pairs with redo_has_failed. */
    atomic_store_explicit(&redo->failed, true, memory_order_seq_cst);
    for (unsigned i = 0; i < REDO_GROUPS; i++) {
        atomic_fetch_add_explicit(&redo->groups[i].word, 1, memory_order_seq_cst);
        futex_wake(&redo->groups[i].word, INT_MAX);
    }
}

firn_rc redo_raise_failure(struct redo *redo)
{
    return rc_raise(FIRN_E_STOPPED,
                    "the log takes no more commits since this failure: %s; close the environment "
                    "and open it again to recover",
                    redo->failure);
}

/* ---- Writing and syncing, by the writer ---- */

/* What lies in whole blocks below was written and is not needed again: zero for the frames to come.
 */
static void let_go(struct redo *redo, uint64_t to_lsn)
{
    uint64_t kept = atomic_load_explicit(&redo->kept_lsn, memory_order_relaxed);
    while (kept < to_lsn) {
        uint64_t at = kept % redo->buffer_size_bytes;
        uint64_t left = redo->buffer_size_bytes - at;
        uint64_t size = to_lsn - kept < left ? to_lsn - kept : left;
        memset(redo->buffer + at, 0, size);
        kept += size;
    }
    /* Pairs with the acquire in fits (append.c). */
    atomic_store_explicit(&redo->kept_lsn, kept, memory_order_release);
}

static firn_rc write_bytes(struct redo *redo, const uint8_t *bytes, uint64_t lsn, uint64_t size)
{
    while (size > 0) {
        struct redo_piece piece = redo_locate(&redo->layout, lsn, size);
        redo->file_dirty[piece.file] = true;
        FIRN_TRY(io_write(redo->files[piece.file], bytes, piece.size_bytes, piece.offset));
        redo_count_alone(&redo->writes, 1);
        redo_count_alone(&redo->written_bytes, piece.size_bytes);
        bytes += piece.size_bytes;
        lsn += piece.size_bytes;
        size -= piece.size_bytes;
    }
    return FIRN_OK;
}

/* Copy [lsn, end_lsn) to the stage and write it as whole blocks, zeros behind it: what is behind
   end_lsn in the ring may be changing. */
static firn_rc write_staged(struct redo *redo, uint64_t lsn, uint64_t end_lsn)
{
    uint64_t size = redo_block_ceil(end_lsn) - lsn;
    ASSERT(lsn % REDO_BLOCK_BYTES == 0 && size <= REDO_STAGE_BYTES);
    uint64_t at = lsn % redo->buffer_size_bytes;
    uint64_t used = end_lsn - lsn;
    uint64_t left = redo->buffer_size_bytes - at;
    uint64_t first = used < left ? used : left;
    memcpy(redo->stage, redo->buffer + at, first);
    memcpy(redo->stage + first, redo->buffer, used - first);
    memset(redo->stage + used, 0, size - used);
    return write_bytes(redo, redo->stage, lsn, size);
}

/* Much at once goes from the ring as it lies there, but for the last block. */
static firn_rc write_whole_blocks(struct redo *redo, uint64_t lsn, uint64_t end_lsn)
{
    uint64_t whole_end = redo_block_floor(end_lsn);
    if (redo_block_ceil(end_lsn) - lsn > REDO_STAGE_BYTES) {
        while (lsn < whole_end) {
            uint64_t at = lsn % redo->buffer_size_bytes;
            uint64_t left = redo->buffer_size_bytes - at;
            uint64_t size = whole_end - lsn < left ? whole_end - lsn : left;
            FIRN_TRY(write_bytes(redo, redo->buffer + at, lsn, size));
            lsn += size;
        }
    }
    return lsn < end_lsn ? write_staged(redo, lsn, end_lsn) : FIRN_OK;
}

/* A block that is in the page cache, since it was written whole, takes only what is new: copying
   all of it again costs more than the system call, and much more when another processor wrote it
   last. Published frames do not change; no block crosses the end of the ring or of a file. */
static firn_rc write_range(struct redo *redo, uint64_t lsn, uint64_t end_lsn)
{
    uint64_t begin = redo_block_floor(lsn);
    if (begin == redo->cached_block_lsn && end_lsn - begin <= REDO_BLOCK_BYTES)
        return write_bytes(redo, redo->buffer + lsn % redo->buffer_size_bytes, lsn, end_lsn - lsn);
    FIRN_TRY(write_whole_blocks(redo, begin, end_lsn));
    if (!redo->options.direct)
        redo->cached_block_lsn = redo_block_floor(end_lsn - 1);
    return FIRN_OK;
}

static firn_rc write_published(struct redo *redo)
{
    redo_advance_published(redo);
    uint64_t written = atomic_load_explicit(&redo->written_lsn, memory_order_relaxed);
    uint64_t end = redo->published_lsn;
    if (end == written)
        return FIRN_OK;
    uint64_t free_lsn = atomic_load_explicit(&redo->free_lsn, memory_order_acquire);
    /* redo_reserve sees to it; whoever appended without asking must not cost the log its oldest
       frames. */
    if (redo_block_ceil(end) - redo_block_floor(free_lsn) > redo_ring_bytes(&redo->layout))
        return rc_raise(FIRN_E_NOSPACE, "the log in %s is full: no checkpoint was taken in time",
                        redo->directory);
    FIRN_TRY(write_range(redo, written, end));
    let_go(redo, redo_block_floor(end));
    atomic_store_explicit(&redo->written_lsn, end, memory_order_seq_cst);
    return FIRN_OK;
}

firn_rc redo_sync_bytes(struct redo *redo, uint32_t number)
{
    if (redo->options.skip_sync)
        return FIRN_OK;
    redo_count_alone(&redo->syncs, 1);
    return io_sync(redo->files[number], IO_SYNC_DATA);
}

firn_rc redo_sync_file(struct redo *redo, uint32_t number)
{
    FIRN_TRY(redo_sync_bytes(redo, number));
    redo->file_dirty[number] = false;
    if (number == 0)
        /* The second copy of the checkpoint came along: nobody needs the log before it. Pairs with
           the acquire where room is counted. */
        atomic_store_explicit(&redo->free_lsn, redo->checkpoint.lsn, memory_order_release);
    return FIRN_OK;
}

static firn_rc sync_written(struct redo *redo)
{
    uint64_t written = atomic_load_explicit(&redo->written_lsn, memory_order_relaxed);
    for (uint32_t i = 0; i < redo->layout.file_count; i++)
        if (redo->file_dirty[i])
            FIRN_TRY(redo_sync_file(redo, i));
    atomic_store_explicit(&redo->durable_lsn, written, memory_order_seq_cst);
    return FIRN_OK;
}

/* ---- Being the writer ---- */

bool redo_writer_try_enter(struct redo *redo, enum redo_writer as)
{
    uint32_t nobody = REDO_WRITER_NONE;
    /* Looking first leaves the line shared while somebody else is it. Acquire: the writer's fields
       are as the last one left them. */
    return atomic_load_explicit(&redo->writer, memory_order_seq_cst) == REDO_WRITER_NONE &&
           atomic_compare_exchange_strong_explicit(&redo->writer, &nobody, as, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

static void wake(struct redo_group *group, int count)
{
    /* The word changes before the waiters are counted, a waiter counts itself before it sleeps on
       the word as it was: either it is counted here, or it does not sleep. */
    atomic_fetch_add_explicit(&group->word, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&group->waiters, memory_order_seq_cst) > 0)
        futex_wake(&group->word, count);
}

static struct redo_group *group_of(struct redo *redo, uint32_t number)
{
    return &redo->groups[number % REDO_GROUPS];
}

/* One of those who gather is to be the writer, if there is any. */
static void call_next_writer(struct redo *redo)
{
    struct redo_group *next =
        group_of(redo, atomic_load_explicit(&redo->gathering, memory_order_seq_cst));
    if (atomic_load_explicit(&next->waiters, memory_order_seq_cst) > 0)
        wake(next, 1);
}

void redo_writer_leave(struct redo *redo)
{
    atomic_store_explicit(&redo->writer, REDO_WRITER_NONE, memory_order_seq_cst);
    if (atomic_load_explicit(&redo->enterers, memory_order_seq_cst) > 0)
        wake(&redo->enter, 1);
    else
        call_next_writer(redo);
}

/* Is there somebody who will leave the writer's place, and call those who wait then? */
static bool somebody_writes(struct redo *redo)
{
    return atomic_load_explicit(&redo->writer, memory_order_seq_cst) != REDO_WRITER_NONE ||
           atomic_load_explicit(&redo->enterers, memory_order_seq_cst) > 0;
}

/* A write to the page cache is over in a microsecond, falling asleep and being woken takes two
   threads several: look on for a few times as long. @return true if the writer, as a
   quick one, has left */
static bool watch_writer(struct redo *redo)
{
    for (unsigned i = 0; i < WATCH_PAUSES; i++) {
        uint32_t writer = atomic_load_explicit(&redo->writer, memory_order_relaxed);
        if (writer != REDO_WRITER_QUICK)
            return writer == REDO_WRITER_NONE;
        spin_pause();
    }
    return false;
}

/* Sleep until something happens to the group or, if there is no writer, not at all. `seen` was read
   before the caller looked whether it must wait. */
static void group_wait(struct redo *redo, struct redo_group *group, uint32_t seen)
{
    atomic_fetch_add_explicit(&group->waiters, 1, memory_order_seq_cst);
    if (somebody_writes(redo)) {
        INJECT("redo-group-sleeps");
        futex_wait(&group->word, seen);
    }
    atomic_fetch_sub_explicit(&group->waiters, 1, memory_order_relaxed);
}

void redo_writer_enter(struct redo *redo)
{
    /* While somebody wants to enter no group's member becomes the writer: no starving. */
    atomic_fetch_add_explicit(&redo->enterers, 1, memory_order_seq_cst);
    for (;;) {
        uint32_t seen = atomic_load_explicit(&redo->enter.word, memory_order_seq_cst);
        if (redo_writer_try_enter(redo, REDO_WRITER_SLOW))
            break;
        atomic_fetch_add_explicit(&redo->enter.waiters, 1, memory_order_seq_cst);
        if (atomic_load_explicit(&redo->writer, memory_order_seq_cst) != REDO_WRITER_NONE)
            futex_wait(&redo->enter.word, seen);
        atomic_fetch_sub_explicit(&redo->enter.waiters, 1, memory_order_relaxed);
    }
    atomic_fetch_sub_explicit(&redo->enterers, 1, memory_order_seq_cst);
}

/* ---- Groups ---- */

static bool is_reached(struct redo *redo, enum redo_goal goal, uint64_t lsn)
{
    _Atomic uint64_t *reached = goal == REDO_GOAL_DURABLE   ? &redo->durable_lsn
                                : goal == REDO_GOAL_WRITTEN ? &redo->written_lsn
                                                            : &redo->kept_lsn;
    return atomic_load_explicit(reached, memory_order_seq_cst) >= lsn;
}

/* Write, and sync if somebody in the group needs it or too much was written since the last one:
   how far a reader must look behind the end is bounded by that. */
firn_rc redo_carry_out(struct redo *redo, bool wants_sync)
{
    FIRN_TRY(write_published(redo));
    if (!wants_sync && !redo->options.direct)
        /* Who published meanwhile waits to be the next writer, on another processor. */
        FIRN_TRY(write_published(redo));
    uint64_t written = atomic_load_explicit(&redo->written_lsn, memory_order_relaxed);
    uint64_t durable = atomic_load_explicit(&redo->durable_lsn, memory_order_relaxed);
    if (durable == written || (!wants_sync && written - durable <= redo->buffer_size_bytes))
        return FIRN_OK;
    atomic_store_explicit(&redo->writer, REDO_WRITER_SLOW, memory_order_relaxed);
    return sync_written(redo);
}

/* Close the group that gathers and carry out what it waits for. Its members published their frames
   before they looked which group gathers, so as a rule these are written; whose are not goes on
   with the next group. The caller is the writer, and no longer when this returns.
   @return true if there was something to write */
static bool lead(struct redo *redo, bool wants_sync)
{
    if (wants_sync)
        redo_gather_company(redo);
    uint32_t arrivals = atomic_load_explicit(&redo->arrivals, memory_order_relaxed);
    uint32_t number = atomic_fetch_add_explicit(&redo->gathering, 1, memory_order_seq_cst);
    struct redo_group *group = group_of(redo, number);
    if (atomic_exchange_explicit(&group->wants_sync, 0, memory_order_seq_cst) != 0)
        wants_sync = true;
    INJECT("redo-group-closed");
    uint64_t began_lsn = redo->published_lsn;
    uint64_t began_ns = wants_sync ? clock_now(redo->clock) : 0;
    if (!redo_has_failed(redo) && redo_carry_out(redo, wants_sync) != FIRN_OK)
        redo_fail(redo);
    if (wants_sync)
        redo_company_left(redo, arrivals, clock_now(redo->clock) - began_ns);
    bool did_something = redo->published_lsn != began_lsn;
    redo_writer_leave(redo);
    wake(group, INT_MAX);
    return did_something;
}

firn_rc redo_await(struct redo *redo, enum redo_goal goal, uint64_t lsn)
{
    bool has_slept = false;
    for (;;) {
        uint32_t number = atomic_load_explicit(&redo->gathering, memory_order_seq_cst);
        struct redo_group *group = group_of(redo, number);
        INJECT("redo-group-chosen");
        uint32_t seen = atomic_load_explicit(&group->word, memory_order_seq_cst);
        if (is_reached(redo, goal, lsn) || redo_has_failed(redo))
            break;
        /* A group that was closed before its word was read may have been woken for the last time.
         */
        if (atomic_load_explicit(&redo->gathering, memory_order_seq_cst) != number)
            continue;
        bool wants_sync = goal == REDO_GOAL_DURABLE;
        if (wants_sync && atomic_load_explicit(&group->wants_sync, memory_order_relaxed) == 0)
            atomic_store_explicit(&group->wants_sync, 1, memory_order_seq_cst);
        bool is_slow = wants_sync || redo->options.direct;
        bool gives_way = atomic_load_explicit(&redo->enterers, memory_order_seq_cst) > 0;
        if (!gives_way &&
            redo_writer_try_enter(redo, is_slow ? REDO_WRITER_SLOW : REDO_WRITER_QUICK)) {
            if (!lead(redo, wants_sync))
                sched_yield(); /* a frame below this one is still being copied */
        } else if (gives_way || wants_sync || !watch_writer(redo)) {
            group_wait(redo, group, seen);
            has_slept = true;
        }
    }
    /* Who was woken to be the next writer and need not be it wakes another one. */
    if (has_slept && !somebody_writes(redo))
        call_next_writer(redo);
    return is_reached(redo, goal, lsn) ? FIRN_OK : redo_raise_failure(redo);
}

firn_rc redo_flush(struct redo *redo, uint64_t lsn, enum redo_flush flush)
{
    ASSERT(lsn <= atomic_load(&redo->reserved_lsn));
    if (redo_has_failed(redo))
        return redo_raise_failure(redo);
    if (flush == REDO_FLUSH_NONE)
        return FIRN_OK;
    redo_count(&redo->counters[redo_counter_number()].commits, 1);
    enum redo_goal goal = flush == REDO_FLUSH_SYNC ? REDO_GOAL_DURABLE : REDO_GOAL_WRITTEN;
    if (is_reached(redo, goal, lsn))
        return FIRN_OK;
    atomic_fetch_add_explicit(&redo->arrivals, 1, memory_order_relaxed);
    return redo_await(redo, goal, lsn);
}

firn_rc redo_tick(struct redo *redo)
{
    return redo_await(redo, REDO_GOAL_DURABLE,
                      atomic_load_explicit(&redo->reserved_lsn, memory_order_seq_cst));
}
