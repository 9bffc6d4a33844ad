/*
 * lock.c -- what a transaction asks of the table.
 */
#include "txn/lock_table_internal.h"

#include "base/inject.h"

firn_rc lock_request(struct lock_owner *owner, const struct lock_request *request, bool wait,
                     enum lock_answer *answer)
{
    struct lock_table *table = owner->table;
    struct lock_wanted wanted = lock_wanted_of(request);
    struct lock_partition *partition = lock_partition_of(table, wanted.hash);
    struct lock_told told = {NULL, NULL};
    enum lock_answer said = LOCK_GRANTED;
    struct lock *lock = NULL;
    struct lock *blocker = NULL;
    firn_rc rc = FIRN_OK;
    ASSERT(owner->waiting == NULL);
    pthread_mutex_lock(&partition->mutex);
    partition->requests++;
    if (lock_is_covered(owner, &wanted)) {
        said = LOCK_HELD;
        goto out;
    }
    blocker = lock_find_blocker(owner, &wanted, NULL);
    if (blocker != NULL)
        said = wait ? LOCK_QUEUED : LOCK_REFUSED;
    if (said == LOCK_REFUSED || (blocker == NULL && wanted.part == LOCK_INSERT))
        goto out;
    lock = lock_alloc(owner);
    if (lock == NULL) {
        rc = FIRN_E_NOMEM;
        goto out;
    }
    lock_link(lock, owner, &wanted, blocker == NULL);
    if (blocker != NULL)
        lock_begin_wait(lock, blocker, &told);
out:
    pthread_mutex_unlock(&partition->mutex);
    lock_tell(&told);
    if (rc == FIRN_OK)
        *answer = said;
    return rc;
}

/* Whoever has locked something there has held the leaf's latch meanwhile, as the caller does now:
 * so an empty bucket is no old news. */
bool lock_conflicts(struct lock_owner *owner, const struct lock_request *request)
{
    struct lock_table *table = owner->table;
    struct lock_wanted wanted = lock_wanted_of(request);
    if (atomic_load_explicit(lock_bucket_of(table, wanted.hash), memory_order_acquire) == NULL)
        return false;
    struct lock_partition *partition = lock_partition_of(table, wanted.hash);
    pthread_mutex_lock(&partition->mutex);
    bool conflicts =
        !lock_is_covered(owner, &wanted) && lock_find_blocker(owner, &wanted, NULL) != NULL;
    pthread_mutex_unlock(&partition->mutex);
    return conflicts;
}

/* Under the partition's mutex. */
static firn_rc enter_granted(struct lock_owner *owner, struct lock_wanted *wanted)
{
    if (lock_is_covered(owner, wanted))
        return FIRN_OK;
    struct lock *lock = lock_alloc_single(owner->table);
    if (lock == NULL)
        return FIRN_E_NOMEM;
    wanted->jumps = true; /* before all who wait */
    lock_link(lock, owner, wanted, true);
    return FIRN_OK;
}

firn_rc lock_enter_implicit(struct lock_owner *holder, const struct lock_request *request)
{
    struct lock_wanted wanted = lock_wanted_of(request);
    struct lock_partition *partition = lock_partition_of(holder->table, wanted.hash);
    pthread_mutex_lock(&partition->mutex);
    firn_rc rc = enter_granted(holder, &wanted);
    pthread_mutex_unlock(&partition->mutex);
    return rc;
}

/* ---- Giving back ---- */

static void leave_queue(struct lock *lock)
{
    struct lock_table *table = lock->owner->table;
    struct lock_partition *partition = lock_partition_of(table, lock->hash);
    struct lock_told told = {NULL, NULL};
    pthread_mutex_lock(&partition->mutex);
    lock_unlink(table, lock, &told);
    pthread_mutex_unlock(&partition->mutex);
    INJECT("lock-left");
    lock_tell(&told);
}

static bool is_part_of(unsigned part, unsigned whole)
{
    return part != LOCK_WHOLE && (part & ~whole) == 0;
}

/* The owner's list has its newest first, and only its own thread takes off it: so it needs no
 * mutex, and what was asked for last is found at once. A request may have added only a part of
 * itself. */
void lock_release(struct lock_owner *owner, const struct lock_request *request)
{
    struct lock_wanted wanted = lock_wanted_of(request);
    struct lock *lock = atomic_load_explicit(&owner->first, memory_order_acquire);
    ASSERT(owner->waiting == NULL);
    for (; lock != NULL; lock = lock->owner_next)
        if (lock->hash == wanted.hash && lock->mode == wanted.mode && !lock->is_single &&
            (lock->part == wanted.part || is_part_of(lock->part, wanted.part)))
            break;
    if (lock == NULL)
        return;
    leave_queue(lock);
    lock_disown(owner, lock);
    lock_recycle(lock);
}

/* Others may add twins of gap locks as long as those are there: so until none comes any more. */
void lock_release_all(struct lock_owner *owner)
{
    struct lock_table *table = owner->table;
    struct lock *lock;
    ASSERT(owner->waiting == NULL);
    while ((lock = atomic_exchange_explicit(&owner->first, NULL, memory_order_acquire)) != NULL) {
        while (lock != NULL) {
            struct lock *next = lock->owner_next;
            if (next != NULL)
                __builtin_prefetch(lock_bucket_of(table, next->hash));
            leave_queue(lock);
            if (lock->is_single)
                lock_recycle(lock);
            lock = next;
        }
    }
    atomic_store_explicit(&owner->names, 0, memory_order_relaxed);
    lock_memory_trim(owner);
}

/* ---- Gaps ---- */

bool lock_gaps_exist(struct lock_table *table, uint64_t index_id)
{
    return atomic_load_explicit(lock_gaps_of(table, index_id), memory_order_acquire) > 0;
}

static void lock_both(struct lock_partition *one, struct lock_partition *other)
{
    struct lock_partition *first = one < other ? one : other;
    pthread_mutex_lock(&first->mutex);
    if (one != other)
        pthread_mutex_lock(first == one ? &other->mutex : &one->mutex);
}

static void unlock_both(struct lock_partition *one, struct lock_partition *other)
{
    pthread_mutex_unlock(&one->mutex);
    if (one != other)
        pthread_mutex_unlock(&other->mutex);
}

/* What waits for a gap begins anew when it is granted, and sees the key that has come. */
firn_rc lock_inherit(struct lock_table *table, uint64_t index_id, struct span key, bool gone,
                     struct span next, bool next_is_supremum)
{
    const struct lock_request on_key = {
        .index_id = index_id, .key = key, .part = LOCK_GAP, .mode = LOCK_SHARED};
    const struct lock_request on_next = {.index_id = index_id,
                                         .key = next,
                                         .part = LOCK_GAP,
                                         .mode = LOCK_SHARED,
                                         .is_supremum = next_is_supremum};
    if (!lock_gaps_exist(table, index_id))
        return FIRN_OK;
    struct lock_wanted from = lock_wanted_of(gone ? &on_key : &on_next);
    struct lock_wanted to = lock_wanted_of(gone ? &on_next : &on_key);
    struct lock_partition *one = lock_partition_of(table, from.hash);
    struct lock_partition *other = lock_partition_of(table, to.hash);
    firn_rc rc = FIRN_OK;
    lock_both(one, other);
    struct lock *lock =
        atomic_load_explicit(lock_bucket_of(table, from.hash), memory_order_relaxed);
    for (; lock != NULL && rc == FIRN_OK; lock = lock->older) {
        if (lock->hash != from.hash || (lock->part & LOCK_GAP) == 0 || !lock->is_granted)
            continue;
        struct lock_wanted twin = to;
        twin.mode = lock->mode;
        rc = enter_granted(lock->owner, &twin);
    }
    unlock_both(one, other);
    return rc;
}
