/*
 * snapshot_ids.c -- ids drawn, transactions committed, and what is known of an id.
 */
#include "txn/snapshot_set_internal.h"

enum { LOW_STEPS_MAX = 256 }; /* after a long transaction `low` catches up over many commits */

/* ---- Drawing ---- */

static firn_rc prepare_for(struct snapshot_set *set, uint64_t id)
{
    firn_rc rc = FIRN_OK;
    if (id > TXN_ID_MAX)
        return rc_raise(FIRN_E_STOPPED, "all %llu ids of transactions have been used",
                        (unsigned long long)TXN_ID_MAX);
    pthread_mutex_lock(&set->mutex);
    while (rc == FIRN_OK && id >= atomic_load_explicit(&set->prepared, memory_order_relaxed))
        rc = snapshot_prepare_chunk(set);
    pthread_mutex_unlock(&set->mutex);
    return rc;
}

/* One who draws in time makes the next chunk ready, so that nobody waits for it. */
static void prepare_ahead(struct snapshot_set *set)
{
    if (pthread_mutex_trylock(&set->mutex) != 0)
        return;
    uint64_t next = atomic_load_explicit(&set->next_id, memory_order_relaxed);
    if (atomic_load_explicit(&set->prepared, memory_order_relaxed) - next <= set->chunk_ids / 2)
        (void)snapshot_prepare_chunk(set); /* if it fails, it is tried again when there is no other
                                              way, and whoever is then told */
    pthread_mutex_unlock(&set->mutex);
}

firn_rc snapshot_draw_id(struct snapshot_set *set, uint64_t *id)
{
    uint64_t next = atomic_load_explicit(&set->next_id, memory_order_relaxed);
    uint64_t prepared;
    do {
        /* Acquire: the slot has been emptied. The id is published with release for the same reason:
         * `low` is moved by looking at the slots below next_id. */
        while (next >= (prepared = atomic_load_explicit(&set->prepared, memory_order_acquire)) ||
               next > TXN_ID_MAX)
            FIRN_TRY(prepare_for(set, next));
    } while (!atomic_compare_exchange_weak_explicit(&set->next_id, &next, next + 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    if (prepared - next <= set->chunk_ids / 2)
        prepare_ahead(set);
    *id = next;
    return FIRN_OK;
}

firn_rc snapshot_adopt_id(struct snapshot_set *set, uint64_t id)
{
    firn_rc rc = FIRN_OK;
    pthread_mutex_lock(&set->mutex);
    uint64_t floor = atomic_load_explicit(&set->floor, memory_order_relaxed);
    if (id == 0 || id >= floor)
        rc = rc_raise(FIRN_E_INVALID,
                      "an unfinished transaction says id %llu, but drawing begins at %llu",
                      (unsigned long long)id, (unsigned long long)floor);
    if (rc == FIRN_OK)
        rc = stragglers_reserve(set, 1);
    if (rc == FIRN_OK) {
        pthread_mutex_lock(&set->commit_mutex);
        stragglers_add(&set->stragglers, id, SNAPSHOT_OPEN);
        if (id < atomic_load_explicit(&set->low, memory_order_relaxed))
            atomic_store_explicit(&set->low, id, memory_order_relaxed);
        pthread_mutex_unlock(&set->commit_mutex);
    }
    pthread_mutex_unlock(&set->mutex);
    return rc;
}

/* ---- Committing; under the commit mutex ---- */

/* Every number in the ring is at or below `newest` by now, so whoever sees this `low` and reads
 * `newest` behind it gets one that sees all below. */
static void advance_low(struct snapshot_set *set)
{
    uint64_t floor = atomic_load_explicit(&set->floor, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&set->next_id, memory_order_acquire);
    uint64_t before = atomic_load_explicit(&set->low, memory_order_relaxed);
    uint64_t low = before;
    if (low < floor) {
        uint64_t open = stragglers_first_open(&set->stragglers);
        low = open < floor ? open : floor;
    }
    for (unsigned steps = 0; low >= floor && low < end && steps < LOW_STEPS_MAX; steps++, low++)
        if (atomic_load_explicit(snapshot_slot(set, low), memory_order_relaxed) == SNAPSHOT_OPEN)
            break;
    if (low != before)
        atomic_store_explicit(&set->low, low, memory_order_release);
}

firn_rc snapshot_commit(struct snapshot_set *set, uint64_t id, snapshot_record *record,
                        void *context, uint64_t *number)
{
    firn_rc rc = FIRN_OK;
    pthread_mutex_lock(&set->commit_mutex);
    ASSERT(snapshot_is_active(set, id));
    uint64_t drawn = atomic_load_explicit(&set->newest, memory_order_relaxed) + 1;
    if (record != NULL)
        rc = record(drawn, context);
    if (rc == FIRN_OK) {
        if (id >= atomic_load_explicit(&set->floor, memory_order_relaxed))
            atomic_store_explicit(snapshot_slot(set, id), drawn, memory_order_release);
        else
            stragglers_set(&set->stragglers, id, drawn);
        /* Release: who reads it finds the number in the id's slot. */
        atomic_store_explicit(&set->newest, drawn, memory_order_release);
        advance_low(set);
    }
    pthread_mutex_unlock(&set->commit_mutex);
    if (rc == FIRN_OK && number != NULL)
        *number = drawn;
    return rc;
}

/* ---- What is known ---- */

/* A slot is read before `floor`. Who uses it anew has moved `floor` before, and writes with
 * release: if the slot was another id's by the time it was read, then `floor` says so. */
bool snapshot_lookup(const struct snapshot_set *set, uint64_t id, uint64_t *number)
{
    *number = atomic_load_explicit(snapshot_slot(set, id), memory_order_acquire);
    if (id >= atomic_load_explicit(&set->floor, memory_order_acquire))
        return true;
    return stragglers_find(&set->stragglers, id, number);
}

uint64_t snapshot_number_of(struct snapshot_set *set, uint64_t id)
{
    uint64_t number;
    ASSERT(id < snapshot_next_id(set));
    return snapshot_lookup(set, id, &number) ? number : 1;
}

bool snapshot_is_active(struct snapshot_set *set, uint64_t id)
{
    return snapshot_number_of(set, id) == SNAPSHOT_OPEN;
}

uint64_t snapshot_newest(struct snapshot_set *set)
{
    return atomic_load_explicit(&set->newest, memory_order_acquire);
}

uint64_t snapshot_next_id(struct snapshot_set *set)
{
    return atomic_load_explicit(&set->next_id, memory_order_acquire);
}
