/*
 * snapshot_evict.c -- the ring goes on: what it forgets, and what is kept of it elsewhere.
 *
 * A chunk's ids are looked at against `seen`, the newest commit number read beforehand:
 *
 *   committed at or below `seen`   Every snapshot taken from now on sees them. Those open now that
 * do not get them as exceptions. No more of them are below a snapshot's `high` than were open when
 * it was taken. committed later, or open       They become stragglers, which know their numbers
 * until all snapshots see them. As a slot that was open behind reading `seen` can only get a higher
 * number, these are the same ids at the end as at the beginning; only their numbers may come
 * meanwhile.
 *
 * "Open now" is found as in snapshot_horizon: `seen` is read, then the places are looked at, so
 * whichever snapshot is missed has a number at or above `seen`, and needs no exceptions. That is
 * also why a place's `low` and `high` can be read without care: if they are not of the snapshot
 * whose number was read, then that has ended, and the one they are of needs none.
 */
#include "txn/snapshot_set_internal.h"

#include "base/memory.h"

struct eviction {
    struct snapshot_set *set;
    uint64_t first; /* ids of the chunk that the ring still has */
    uint64_t end;
    uint64_t seen;
    uint64_t horizon;
    uint64_t newest_evicted; /* the highest number at or below `seen` */
    uint64_t *late;          /* stragglers */
    size_t late_count;
};

static uint64_t slot_number(const struct snapshot_set *set, uint64_t id)
{
    return atomic_load_explicit(snapshot_slot(set, id), memory_order_acquire);
}

static bool is_late(const struct eviction *eviction, uint64_t number)
{
    return number == SNAPSHOT_OPEN || number > eviction->seen;
}

static firn_rc find_late(struct eviction *eviction)
{
    size_t count = 0;
    for (uint64_t id = eviction->first; id < eviction->end; id++) {
        uint64_t number = slot_number(eviction->set, id);
        if (is_late(eviction, number))
            count++;
        else if (number > eviction->newest_evicted)
            eviction->newest_evicted = number;
    }
    if (count == 0)
        return FIRN_OK;
    eviction->late = memory_alloc(count * sizeof(*eviction->late));
    if (eviction->late == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for %zu transactions that are open", count);
    for (uint64_t id = eviction->first; id < eviction->end; id++)
        if (is_late(eviction, slot_number(eviction->set, id)))
            eviction->late[eviction->late_count++] = id;
    ENSURE(eviction->late_count == count);
    return FIRN_OK;
}

static bool is_hidden(const struct eviction *eviction, uint64_t id, uint64_t number)
{
    uint64_t committed = slot_number(eviction->set, id);
    return !is_late(eviction, committed) && committed > number;
}

/* The new block stays even if something fails later: nobody asks for it before `floor` has moved.
 */
static firn_rc add_exceptions(const struct eviction *eviction, struct snapshot *snapshot,
                              uint64_t number)
{
    uint64_t low = snapshot_low(snapshot);
    uint64_t high = atomic_load_explicit(&snapshot->high, memory_order_relaxed);
    uint64_t first = low > eviction->first ? low : eviction->first;
    uint64_t end = high < eviction->end ? high : eviction->end;
    size_t count = 0;
    for (uint64_t id = first; id < end; id++)
        count += is_hidden(eviction, id, number);
    if (count == 0)
        return FIRN_OK;
    struct snapshot_exceptions *block =
        memory_alloc(sizeof(*block) + count * sizeof(block->ids[0]));
    if (block == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for what a snapshot does not see");
    block->next = atomic_load_explicit(&snapshot->exceptions, memory_order_relaxed);
    block->users = 1;
    block->number = number;
    block->count = 0;
    for (uint64_t id = first; id < end; id++)
        if (is_hidden(eviction, id, number))
            block->ids[block->count++] = id;
    ENSURE(block->count == count);
    atomic_store_explicit(&snapshot->exceptions, block, memory_order_release);
    return FIRN_OK;
}

static firn_rc tell_snapshots(struct eviction *eviction)
{
    for (struct snapshot *s = eviction->set->first; s != NULL; s = s->next) {
        uint64_t number = snapshot_settled_number(s);
        if (number < eviction->horizon)
            eviction->horizon = number;
        if (number < eviction->newest_evicted)
            FIRN_TRY(add_exceptions(eviction, s, number));
    }
    return FIRN_OK;
}

/* Under the commit mutex, so that an id's number goes to the slot or to the straggler, and is in
 * the one that is looked at. */
static void move_floor(struct eviction *eviction)
{
    struct snapshot_set *set = eviction->set;
    pthread_mutex_lock(&set->commit_mutex);
    stragglers_prune(&set->stragglers, eviction->horizon);
    for (size_t i = 0; i < eviction->late_count; i++)
        stragglers_add(&set->stragglers, eviction->late[i], slot_number(set, eviction->late[i]));
    atomic_store_explicit(&set->floor, eviction->end, memory_order_release);
    pthread_mutex_unlock(&set->commit_mutex);
}

static firn_rc evict(struct snapshot_set *set, uint64_t end)
{
    struct eviction eviction = {
        .set = set,
        .first = atomic_load_explicit(&set->floor, memory_order_relaxed),
        .end = end,
        .seen = atomic_load_explicit(&set->newest, memory_order_seq_cst),
    };
    eviction.horizon = eviction.seen;
    firn_rc rc = find_late(&eviction);
    if (rc == FIRN_OK)
        rc = tell_snapshots(&eviction);
    if (rc == FIRN_OK)
        rc = stragglers_reserve(set, eviction.late_count);
    if (rc == FIRN_OK)
        move_floor(&eviction);
    memory_free(eviction.late);
    return rc;
}

firn_rc snapshot_prepare_chunk(struct snapshot_set *set)
{
    uint64_t prepared = atomic_load_explicit(&set->prepared, memory_order_relaxed);
    uint64_t end = prepared + set->chunk_ids;
    if (end > set->ring_ids + atomic_load_explicit(&set->floor, memory_order_relaxed))
        FIRN_TRY(evict(set, end - set->ring_ids));
    for (uint64_t id = prepared; id < end; id++)
        atomic_store_explicit(snapshot_slot(set, id), SNAPSHOT_OPEN, memory_order_release);
    atomic_store_explicit(&set->prepared, end, memory_order_release);
    return FIRN_OK;
}
