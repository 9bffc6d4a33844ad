/*
 * lock_queue.c -- the queue of a name: what conflicts, who stands where.
 *
 * Who comes last stands at the newest end, but for those who hold something on the name already:
 * what they hold keeps those who wait from going on, so they may only wait for what is granted, and
 * stand at the oldest end. So does what is entered as granted for somebody else. Hence
 *
 *   a granted lock is older than every waiting one that has to wait for it
 *
 * with two exceptions: one who goes ahead (`jumps`) waits for granted locks that are newer; and gap
 * locks are granted whatever waits, so an insert may have to wait for a newer one. These two look
 * through the whole queue, all others only at what is older.
 */
#include "txn/lock_table_internal.h"

/* ---- What conflicts, what covers ---- */

/* The matrix of whole indexes, as in every textbook: a bit for each mode that goes with one. */
#define BIT(mode) (1U << (mode))
static const uint8_t goes_with[] = {
    [LOCK_IS] = BIT(LOCK_IS) | BIT(LOCK_IX) | BIT(LOCK_SHARED),
    [LOCK_IX] = BIT(LOCK_IS) | BIT(LOCK_IX),
    [LOCK_SHARED] = BIT(LOCK_IS) | BIT(LOCK_SHARED),
    [LOCK_EXCLUSIVE] = 0,
};
static const uint8_t covers[] = {
    [LOCK_IS] = BIT(LOCK_IS),
    [LOCK_IX] = BIT(LOCK_IS) | BIT(LOCK_IX),
    [LOCK_SHARED] = BIT(LOCK_IS) | BIT(LOCK_SHARED),
    [LOCK_EXCLUSIVE] = BIT(LOCK_IS) | BIT(LOCK_IX) | BIT(LOCK_SHARED) | BIT(LOCK_EXCLUSIVE),
};

static bool mode_goes_with(uint8_t held, enum lock_mode wanted)
{
    return (goes_with[held] & BIT(wanted)) != 0;
}

static bool mode_covers(uint8_t held, enum lock_mode wanted)
{
    return (covers[held] & BIT(wanted)) != 0;
}

/* Names of a whole index and of a row may have one hash; these never conflict. */
static bool is_in_the_way(const struct lock *lock, const struct lock_wanted *wanted)
{
    if (wanted->part == LOCK_WHOLE)
        return lock->part == LOCK_WHOLE && !mode_goes_with(lock->mode, wanted->mode);
    if (wanted->part == LOCK_INSERT)
        return (lock->part & LOCK_GAP) != 0;
    return (lock->part & wanted->part & LOCK_ROW) != 0 && !mode_goes_with(lock->mode, wanted->mode);
}

/* ---- The list of a bucket ---- */

static struct lock *newest_of(lock_bucket *bucket)
{
    return atomic_load_explicit(bucket, memory_order_relaxed);
}

/* Release: lock_conflicts looks at it without the mutex. */
static void set_newest(lock_bucket *bucket, struct lock *lock)
{
    atomic_store_explicit(bucket, lock, memory_order_release);
}

struct lock *lock_newer(lock_bucket *bucket, const struct lock *lock)
{
    return lock == newest_of(bucket) ? NULL : lock->newer;
}

struct lock *lock_oldest(lock_bucket *bucket)
{
    struct lock *newest = newest_of(bucket);
    return newest != NULL ? newest->newer : NULL;
}

static void put_newest(lock_bucket *bucket, struct lock *lock)
{
    struct lock *newest = newest_of(bucket);
    lock->older = newest;
    lock->newer = newest != NULL ? newest->newer : lock;
    if (newest != NULL)
        newest->newer = lock;
    set_newest(bucket, lock);
}

static void put_oldest(lock_bucket *bucket, struct lock *lock)
{
    struct lock *newest = newest_of(bucket);
    if (newest == NULL) {
        put_newest(bucket, lock);
        return;
    }
    lock->older = NULL;
    lock->newer = newest->newer;
    newest->newer->older = lock;
    newest->newer = lock;
}

static void take_out(lock_bucket *bucket, struct lock *lock)
{
    struct lock *newest = newest_of(bucket);
    if (lock->older != NULL)
        lock->older->newer = lock->newer;
    else
        newest->newer = lock->newer;
    if (lock == newest)
        set_newest(bucket, lock->older);
    else
        lock->newer->older = lock->older;
}

/* ---- An owner's list ---- */

/* Any thread adds at the head; only the owner's thread takes off. */
static void own(struct lock_owner *owner, struct lock *lock)
{
    uint64_t bit = UINT64_C(1) << (lock->hash >> 58);
    if ((atomic_load_explicit(&owner->names, memory_order_relaxed) & bit) == 0)
        atomic_fetch_or_explicit(&owner->names, bit, memory_order_relaxed);
    lock->owner_next = atomic_load_explicit(&owner->first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&owner->first, &lock->owner_next, lock,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

void lock_disown(struct lock_owner *owner, struct lock *lock)
{
    struct lock *first = lock;
    if (atomic_compare_exchange_strong_explicit(&owner->first, &first, lock->owner_next,
                                                memory_order_acquire, memory_order_acquire))
        return;
    while (first->owner_next != lock)
        first = first->owner_next;
    first->owner_next = lock->owner_next;
}

/* Under the partition's mutex a name's bit is exact enough: it was set under it. */
static bool may_have(const struct lock_owner *owner, uint64_t hash)
{
    return (atomic_load_explicit(&owner->names, memory_order_relaxed) >> (hash >> 58) & 1) != 0;
}

/* ---- Queues ---- */

void lock_link(struct lock *lock, struct lock_owner *owner, const struct lock_wanted *wanted,
               bool is_granted)
{
    struct lock_table *table = owner->table;
    lock->owner = owner;
    lock->hash = wanted->hash;
    lock->index_id = wanted->index_id;
    lock->followers = 0;
    lock->mode = (uint8_t)wanted->mode;
    lock->part = (uint8_t)wanted->part;
    lock->is_granted = is_granted;
    lock->jumps = wanted->jumps;
    if (wanted->jumps)
        put_oldest(lock_bucket_of(table, wanted->hash), lock);
    else
        put_newest(lock_bucket_of(table, wanted->hash), lock);
    lock_partition_of(table, wanted->hash)->locks++;
    if ((lock->part & LOCK_GAP) != 0)
        atomic_fetch_add_explicit(lock_gaps_of(table, lock->index_id), 1, memory_order_release);
    own(owner, lock);
}

void lock_unlink(struct lock_table *table, struct lock *lock, struct lock_told *told)
{
    lock_bucket *bucket = lock_bucket_of(table, lock->hash);
    take_out(bucket, lock);
    lock_partition_of(table, lock->hash)->locks--;
    if ((lock->part & LOCK_GAP) != 0)
        atomic_fetch_sub_explicit(lock_gaps_of(table, lock->index_id), 1, memory_order_relaxed);
    if (lock->followers > 0)
        lock_pass_on(table, lock, told);
}

/* From the oldest: who is waited for by hundreds is found at once. */
bool lock_is_covered(struct lock_owner *owner, struct lock_wanted *wanted)
{
    lock_bucket *bucket = lock_bucket_of(owner->table, wanted->hash);
    unsigned left = wanted->part;
    if (wanted->part == LOCK_INSERT || !may_have(owner, wanted->hash))
        return false;
    for (struct lock *held = lock_oldest(bucket); held != NULL; held = lock_newer(bucket, held)) {
        if (held->owner != owner || held->hash != wanted->hash || !held->is_granted)
            continue;
        bool is_strong = mode_covers(held->mode, wanted->mode);
        if (wanted->part == LOCK_WHOLE) {
            if (held->part == LOCK_WHOLE && is_strong)
                return true;
            wanted->jumps |= held->part == LOCK_WHOLE;
            continue;
        }
        if ((held->part & LOCK_ROW) != 0)
            wanted->jumps = true;
        left &= ~((unsigned)held->part & (is_strong ? LOCK_NEXT_KEY : LOCK_GAP));
        if (left == 0)
            return true;
    }
    wanted->part = left;
    wanted->jumps &= wanted->part != LOCK_GAP;
    return false;
}

static bool blocks(const struct lock *lock, const struct lock_owner *owner,
                   const struct lock_wanted *wanted)
{
    return lock->hash == wanted->hash && lock->owner != owner && is_in_the_way(lock, wanted);
}

struct lock *lock_find_blocker(struct lock_owner *owner, const struct lock_wanted *wanted,
                               const struct lock *queued)
{
    lock_bucket *bucket = lock_bucket_of(owner->table, wanted->hash);
    if (wanted->part == LOCK_GAP)
        return NULL;
    struct lock *lock = queued != NULL ? queued->older : newest_of(bucket);
    for (; lock != NULL; lock = lock->older)
        if ((lock->is_granted || !wanted->jumps) && blocks(lock, owner, wanted))
            return lock;
    if (queued == NULL || (!wanted->jumps && wanted->part != LOCK_INSERT))
        return NULL;
    for (lock = lock_newer(bucket, queued); lock != NULL; lock = lock_newer(bucket, lock))
        if (lock->is_granted && blocks(lock, owner, wanted))
            return lock;
    return NULL;
}
