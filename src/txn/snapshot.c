/*
 * snapshot.c -- taking snapshots, looking through them, and how far back they reach.
 *
 * snapshot_take reads `low`, then `newest`, then `next_id`, and the order matters:
 *
 *   low before newest    Whoever moved `low` had published the numbers of all ids below it. So the
 *                        number read behind it is at least as new as all of them: all are seen.
 *   newest before high   An id at `high` or above is drawn after `next_id` was read. Had its
 *                        transaction's number been what was read in `newest`, then drawing it would
 *                        have happened before that, and `next_id` would be above it. So its number
 *                        is newer: it is not seen.
 *
 * Between reading `newest` and showing the number to others, purge might look at all places, find
 * nothing, and go past it. Therefore the place first says TAKING, then reads `newest`, then says
 * the number; and who looks reads `newest` first, then the places, and waits while one says TAKING.
 * All four accesses are sequentially consistent. So if the place does not yet say TAKING when it is
 * looked at, then what the taker reads in `newest` is at least as new as what the looker has read
 * there: such a snapshot needs nothing that the looker gives up. (The idea is that of hazard
 * pointers; Michael, "Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects", 2004.) The
 * taker never waits.
 */
#include "txn/snapshot_set_internal.h"

#include "base/clock.h"
#include "base/inject.h"
#include "base/memory.h"

#include <sched.h>

firn_rc snapshot_set_open(const struct snapshot_options *options, struct snapshot_set **set)
{
    uint64_t ring_ids = options->ring_ids != 0 ? options->ring_ids : SNAPSHOT_RING_IDS;
    ASSERT(ring_ids >= SNAPSHOT_RING_IDS_MIN && (ring_ids & (ring_ids - 1)) == 0);
    if (options->next_id == 0 || options->next_id > TXN_ID_MAX ||
        options->last_number >= SNAPSHOT_TAKING)
        return rc_raise(
            FIRN_E_INVALID, "transactions cannot go on from id %llu and commit number %llu",
            (unsigned long long)options->next_id, (unsigned long long)options->last_number);
    struct snapshot_set *made = memory_alloc_aligned(sizeof(*made), 64);
    _Atomic uint64_t *ring = memory_zalloc(ring_ids, sizeof(*ring)); /* SNAPSHOT_OPEN */
    if (made == NULL || ring == NULL) {
        memory_free(made);
        memory_free(ring);
        return rc_raise(FIRN_E_NOMEM, "no memory for the ids of transactions");
    }
    *made = (struct snapshot_set){
        .ring = ring, .ring_ids = ring_ids, .chunk_ids = ring_ids / SNAPSHOT_RING_CHUNKS};
    atomic_init(&made->next_id, options->next_id);
    atomic_init(&made->newest, options->last_number);
    atomic_init(&made->low, options->next_id);
    atomic_init(&made->floor, options->next_id);
    atomic_init(&made->prepared, (options->next_id & ~(made->chunk_ids - 1)) + ring_ids);
    pthread_mutex_init(&made->commit_mutex, NULL);
    pthread_mutex_init(&made->mutex, NULL);
    *set = made;
    return FIRN_OK;
}

void snapshot_set_close(struct snapshot_set *set)
{
    if (set == NULL)
        return;
    ASSERT(set->first == NULL);
    pthread_mutex_destroy(&set->mutex);
    pthread_mutex_destroy(&set->commit_mutex);
    stragglers_free(&set->stragglers);
    memory_free((void *)set->ring);
    memory_free(set);
}

firn_rc snapshot_new(struct snapshot_set *set, struct snapshot **snapshot)
{
    struct snapshot *made = memory_alloc_aligned(sizeof(*made), 64);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a snapshot");
    *made = (struct snapshot){.set = set};
    atomic_init(&made->number, SNAPSHOT_NONE);
    pthread_mutex_lock(&set->mutex);
    made->next = set->first;
    if (set->first != NULL)
        set->first->prev = made;
    set->first = made;
    pthread_mutex_unlock(&set->mutex);
    *snapshot = made;
    return FIRN_OK;
}

void snapshot_free(struct snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    struct snapshot_set *set = snapshot->set;
    pthread_mutex_lock(&set->mutex);
    if (snapshot->prev != NULL)
        snapshot->prev->next = snapshot->next;
    else
        set->first = snapshot->next;
    if (snapshot->next != NULL)
        snapshot->next->prev = snapshot->prev;
    snapshot_drop_exceptions(snapshot);
    pthread_mutex_unlock(&set->mutex);
    memory_free(snapshot);
}

/* ---- Taking ---- */

void snapshot_drop_exceptions(struct snapshot *snapshot)
{
    struct snapshot_exceptions *block =
        atomic_load_explicit(&snapshot->exceptions, memory_order_relaxed);
    atomic_store_explicit(&snapshot->exceptions, NULL, memory_order_relaxed);
    while (block != NULL && --block->users == 0) {
        struct snapshot_exceptions *next = block->next;
        memory_free(block);
        block = next;
    }
}

/* Good enough to say how old a snapshot is, and cheaper than the exact time. */
static uint64_t coarse_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void snapshot_take(struct snapshot *snapshot)
{
    struct snapshot_set *set = snapshot->set;
    /* Before the number is shown: what is there belongs to an older snapshot. */
    if (atomic_load_explicit(&snapshot->exceptions, memory_order_relaxed) != NULL)
        snapshot_end(snapshot);
    atomic_store_explicit(&snapshot->number, SNAPSHOT_TAKING, memory_order_seq_cst);
    uint64_t low = atomic_load_explicit(&set->low, memory_order_acquire);
    uint64_t number = atomic_load_explicit(&set->newest, memory_order_seq_cst);
    INJECT("snapshot-number-read");
    uint64_t high = atomic_load_explicit(&set->next_id, memory_order_acquire);
    atomic_store_explicit(&snapshot->low, low, memory_order_relaxed);
    atomic_store_explicit(&snapshot->high, high, memory_order_relaxed);
    atomic_store_explicit(&snapshot->taken_ns, coarse_now(), memory_order_relaxed);
    /* Who reads the number reads those of the same snapshot, unless it has ended by then. */
    atomic_store_explicit(&snapshot->number, number, memory_order_release);
}

void snapshot_end(struct snapshot *snapshot)
{
    /* Release: what was read with it was read before purge, which acquires, goes on. */
    atomic_store_explicit(&snapshot->number, SNAPSHOT_NONE, memory_order_release);
    if (atomic_load_explicit(&snapshot->exceptions, memory_order_relaxed) == NULL)
        return;
    pthread_mutex_lock(&snapshot->set->mutex);
    snapshot_drop_exceptions(snapshot);
    pthread_mutex_unlock(&snapshot->set->mutex);
}

#define COPY(field)                                                                                \
    atomic_store_explicit(&snapshot->field,                                                        \
                          atomic_load_explicit(&other->field, memory_order_relaxed),               \
                          memory_order_relaxed)

/* Under the mutex: so that nobody who looks at all places misses the number in both, and nobody
 * gives the other one an exception meanwhile. */
void snapshot_share(struct snapshot *snapshot, const struct snapshot *other)
{
    ASSERT(snapshot != other && snapshot_is_open(other));
    struct snapshot_set *set = snapshot->set;
    pthread_mutex_lock(&set->mutex);
    snapshot_drop_exceptions(snapshot);
    struct snapshot_exceptions *shared =
        atomic_load_explicit(&other->exceptions, memory_order_relaxed);
    if (shared != NULL)
        shared->users++;
    atomic_store_explicit(&snapshot->exceptions, shared, memory_order_relaxed);
    COPY(low);
    COPY(high);
    COPY(taken_ns);
    atomic_store_explicit(&snapshot->number, snapshot_number(other), memory_order_release);
    pthread_mutex_unlock(&set->mutex);
}

#undef COPY

bool snapshot_is_open(const struct snapshot *snapshot)
{
    return atomic_load_explicit(&snapshot->number, memory_order_relaxed) != SNAPSHOT_NONE;
}

uint64_t snapshot_number(const struct snapshot *snapshot)
{
    return atomic_load_explicit(&snapshot->number, memory_order_relaxed);
}

uint64_t snapshot_low(const struct snapshot *snapshot)
{
    return atomic_load_explicit(&snapshot->low, memory_order_relaxed);
}

/* ---- Looking ---- */

static bool block_has(const struct snapshot_exceptions *block, uint64_t id)
{
    size_t first = 0;
    size_t end = block->count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (block->ids[middle] < id)
            first = middle + 1;
        else
            end = middle;
    }
    return first < block->count && block->ids[first] == id;
}

/* Blocks for another number came too late for a snapshot that had been here before. */
static bool is_exception(const struct snapshot *snapshot, uint64_t id, uint64_t number)
{
    /* Acquire, and read behind `floor`: what was evicted had its exceptions made before. */
    const struct snapshot_exceptions *block =
        atomic_load_explicit(&snapshot->exceptions, memory_order_acquire);
    for (; block != NULL; block = block->next)
        if (block->number == number && block_has(block, id))
            return true;
    return false;
}

bool snapshot_sees(const struct snapshot *snapshot, uint64_t id)
{
    ASSERT(snapshot_is_open(snapshot));
    if (id < atomic_load_explicit(&snapshot->low, memory_order_relaxed))
        return true;
    if (id >= atomic_load_explicit(&snapshot->high, memory_order_relaxed))
        return false;
    uint64_t number = atomic_load_explicit(&snapshot->number, memory_order_relaxed);
    uint64_t committed;
    if (snapshot_lookup(snapshot->set, id, &committed))
        return committed != SNAPSHOT_OPEN && committed <= number;
    return !is_exception(snapshot, id, number);
}

/* ---- How far back ---- */

uint64_t snapshot_settled_number(const struct snapshot *snapshot)
{
    uint64_t number;
    while ((number = atomic_load_explicit(&snapshot->number, memory_order_seq_cst)) ==
           SNAPSHOT_TAKING) {
        INJECT("snapshot-unsettled");
        sched_yield();
    }
    return number;
}

uint64_t snapshot_horizon(struct snapshot_set *set)
{
    pthread_mutex_lock(&set->mutex);
    uint64_t horizon = atomic_load_explicit(&set->newest, memory_order_seq_cst);
    for (const struct snapshot *s = set->first; s != NULL; s = s->next) {
        uint64_t number = snapshot_settled_number(s);
        if (number < horizon)
            horizon = number;
    }
    pthread_mutex_unlock(&set->mutex);
    return horizon;
}

bool snapshot_oldest(struct snapshot_set *set, struct snapshot_oldest *oldest)
{
    struct snapshot_oldest found = {.number = SNAPSHOT_NONE};
    pthread_mutex_lock(&set->mutex);
    for (const struct snapshot *s = set->first; s != NULL; s = s->next) {
        uint64_t number = snapshot_settled_number(s);
        uint64_t taken_ns = atomic_load_explicit(&s->taken_ns, memory_order_relaxed);
        if (number < found.number)
            found = (struct snapshot_oldest){s, number, taken_ns};
    }
    pthread_mutex_unlock(&set->mutex);
    if (found.snapshot == NULL)
        return false;
    *oldest = found;
    return true;
}
