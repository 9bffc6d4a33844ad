/*
 * lock_wait.c -- waiting: arrows, cycles, and how a wait ends.
 *
 * An owner that waits has an arrow to the lock in its way (`blocker`, which is under the mutex of
 * the partition both are in), and so to that lock's owner (`waits_for`, under the graph's mutex). A
 * lock counts the arrows to it and an owner those to any of its locks. A lock that leaves its queue
 * turns all arrows to it before its partition's mutex is given back, so an arrow never leads to
 * what is gone.
 *
 * A wait is *decided* under the graph's mutex, once: granted, chosen as a victim, cancelled, or
 * given up by the owner itself. From then on its owner has no arrow to another owner, so cycles
 * through it are no more. Who decides *tells*, by the futex word, when no mutex is held; until it
 * is told the owner does not go on, even if its limit is over meanwhile, so its memory is there for
 * the teller. The word is the last that a teller touches. Except for a granted one, the owner
 * itself takes its lock out of the queue then; so no thread needs two partitions.
 *
 * A cycle can only be closed by an arrow that is drawn. Each time one is, the arrows are followed
 * from there, unless no arrow leads to its owner, which is the common case: of two hundred who
 * wait for one row only the first few have more than the row's queue behind them. As every cycle is
 * broken when it is closed, following always ends. An owner with several locks in its way has its
 * arrow on one of them. If it is in a deadlock through another one only, that is found when the
 * first is gone and its arrow is drawn anew.
 */
#include "txn/lock_table_internal.h"

#include "base/futex.h"
#include "base/inject.h"
#include "base/units.h"

#include <stdio.h>

/* ---- Deciding; under the graph's mutex ---- */

static void erase_arrow(struct lock_owner *owner)
{
    if (owner->waits_for != NULL)
        owner->waits_for->arrows_here--;
    owner->waits_for = NULL;
}

static void decide(struct lock_owner *owner, enum lock_wait_state outcome)
{
    ASSERT(owner->outcome == WAIT_QUEUED);
    owner->outcome = outcome;
    owner->waited_for_id = owner->waits_for != NULL ? owner->waits_for->id : 0;
    erase_arrow(owner);
}

static void decide_and_tell(struct lock_owner *owner, enum lock_wait_state outcome,
                            struct lock_told *told)
{
    decide(owner, outcome);
    owner->told_next = NULL;
    if (told->first == NULL)
        told->first = owner;
    else
        told->last->told_next = owner;
    told->last = owner;
}

void lock_tell(struct lock_told *told)
{
    struct lock_owner *owner = told->first;
    while (owner != NULL) {
        struct lock_owner *next = owner->told_next;
        _Atomic uint32_t *word = &owner->word;
        INJECT("lock-decided");
        /* Release: the owner sees what was done for it. It may be gone when this is done. */
        if (atomic_exchange_explicit(word, owner->outcome, memory_order_acq_rel) == WAIT_ASLEEP)
            (void)futex_wake(word, 1);
        owner = next;
    }
}

/* ---- Cycles; under the graph's mutex ---- */

static uint64_t weight_of(const struct lock_owner *owner)
{
    return atomic_load_explicit(&owner->weight, memory_order_relaxed);
}

/* @return the cheapest of a cycle, the one it is looked at from if there are several */
static struct lock_owner *choose_victim(struct lock_owner *start)
{
    struct lock_owner *victim = start;
    for (struct lock_owner *o = start->waits_for; o != start; o = o->waits_for)
        if (weight_of(o) < weight_of(victim))
            victim = o;
    return victim;
}

static void remember_cycle(struct lock_owner *victim)
{
    struct lock_owner *owner = victim;
    victim->cycle_count = 0;
    do {
        if (victim->cycle_count < LOCK_CYCLE_SHOWN)
            victim->cycle[victim->cycle_count] = owner->id;
        victim->cycle_count++;
        owner = owner->waits_for;
    } while (owner != victim);
}

static void break_cycle(struct lock_table *table, struct lock_owner *start, struct lock_told *told)
{
    if (!table->deadlock_detect || start->arrows_here == 0)
        return;
    struct lock_owner *owner = start->waits_for;
    while (owner != NULL && owner != start)
        owner = owner->waits_for;
    if (owner == NULL)
        return;
    struct lock_owner *victim = choose_victim(start);
    table->deadlocks++;
    remember_cycle(victim);
    decide_and_tell(victim, WAIT_VICTIM, told);
}

/* ---- Arrows; under the graph's mutex and the partition's ---- */

static void draw_arrow(struct lock *lock, struct lock *blocker, struct lock_told *told)
{
    struct lock_owner *owner = lock->owner;
    owner->blocker = blocker;
    blocker->followers++;
    if (owner->outcome != WAIT_QUEUED)
        return; /* it is about to leave */
    erase_arrow(owner);
    owner->waits_for = blocker->owner;
    owner->waits_for->arrows_here++;
    break_cycle(owner->table, owner, told);
}

/* What was in the way of a lock has gone. */
static void reconsider(struct lock *lock, struct lock_told *told)
{
    struct lock_owner *owner = lock->owner;
    struct lock_wanted wanted = {
        .hash = lock->hash, .part = lock->part, .mode = lock->mode, .jumps = lock->jumps};
    struct lock *blocker = lock_find_blocker(owner, &wanted, lock);
    owner->blocker = NULL;
    if (blocker != NULL) {
        draw_arrow(lock, blocker, told);
    } else if (owner->outcome == WAIT_QUEUED) {
        lock->is_granted = true;
        decide_and_tell(owner, WAIT_GRANTED, told);
    }
}

/* From the oldest, for who comes first goes first; what is waited for is mostly the oldest itself,
 * so its followers are found at once, and the last of them ends the search. */
void lock_pass_on(struct lock_table *table, struct lock *gone, struct lock_told *told)
{
    lock_bucket *bucket = lock_bucket_of(table, gone->hash);
    struct lock *lock = lock_oldest(bucket);
    pthread_mutex_lock(&table->graph_mutex);
    for (; lock != NULL && gone->followers > 0; lock = lock_newer(bucket, lock)) {
        if (lock->is_granted || lock->owner->blocker != gone)
            continue;
        gone->followers--;
        reconsider(lock, told);
    }
    pthread_mutex_unlock(&table->graph_mutex);
    ENSURE(gone->followers == 0);
}

void lock_begin_wait(struct lock *lock, struct lock *blocker, struct lock_told *told)
{
    struct lock_owner *owner = lock->owner;
    struct lock_table *table = owner->table;
    owner->waiting = lock;
    owner->wait_since_ns = clock_now(table->clock);
    atomic_store_explicit(&owner->word, WAIT_QUEUED, memory_order_relaxed);
    pthread_mutex_lock(&table->graph_mutex);
    table->waits++;
    owner->outcome = WAIT_QUEUED;
    draw_arrow(lock, blocker, told);
    pthread_mutex_unlock(&table->graph_mutex);
}

/* ---- Waiting ---- */

/* @return false if it has been decided otherwise, and is going to be told */
static bool give_up(struct lock_owner *owner)
{
    struct lock_table *table = owner->table;
    INJECT("lock-limit-over");
    pthread_mutex_lock(&table->graph_mutex);
    bool is_mine = owner->outcome == WAIT_QUEUED;
    if (is_mine)
        decide(owner, WAIT_OVER);
    pthread_mutex_unlock(&table->graph_mutex);
    return is_mine;
}

static enum lock_wait_state sleep_until_told(struct lock_owner *owner, uint64_t deadline_ns)
{
    struct clock *clock = owner->table->clock;
    for (;;) {
        uint32_t word = atomic_load_explicit(&owner->word, memory_order_acquire);
        if (word > WAIT_ASLEEP)
            return word;
        if (deadline_ns != UINT64_MAX && clock_now(clock) >= deadline_ns) {
            if (give_up(owner))
                return WAIT_OVER;
            deadline_ns = UINT64_MAX;
        }
        /* If it fails we have been told, and do not sleep. */
        if (word == WAIT_QUEUED)
            (void)atomic_compare_exchange_strong_explicit(
                &owner->word, &word, WAIT_ASLEEP, memory_order_relaxed, memory_order_relaxed);
        INJECT("lock-sleeps");
        clock_sleep(clock, &owner->word, WAIT_ASLEEP, deadline_ns);
    }
}

/* The request leaves the queue; who stood behind it goes on. */
static void withdraw(struct lock_owner *owner)
{
    struct lock *lock = owner->waiting;
    struct lock_table *table = owner->table;
    struct lock_partition *partition = lock_partition_of(table, lock->hash);
    struct lock_told told = {NULL, NULL};
    pthread_mutex_lock(&partition->mutex);
    if (owner->blocker != NULL)
        owner->blocker->followers--;
    owner->blocker = NULL;
    lock_unlink(table, lock, &told);
    pthread_mutex_unlock(&partition->mutex);
    lock_tell(&told);
    lock_disown(owner, lock);
    lock_recycle(lock);
}

/* "transaction 12 waits for 15, 15 for 12"; of a long cycle the beginning */
static void describe_cycle(const struct lock_owner *owner, char *text, size_t size_bytes)
{
    const uint64_t *ids = owner->cycle;
    uint32_t count = owner->cycle_count;
    bool is_cut = count > LOCK_CYCLE_SHOWN;
    uint32_t pairs = is_cut ? LOCK_CYCLE_SHOWN - 1 : count;
    size_t used = 0;
    for (uint32_t i = 0; i < pairs; i++)
        used += (size_t)snprintf(text + used, size_bytes - used,
                                 i == 0 ? "transaction %llu waits for %llu" : ", %llu for %llu",
                                 (unsigned long long)ids[i],
                                 (unsigned long long)ids[i + 1 < count ? i + 1 : 0]);
    if (is_cut)
        (void)snprintf(text + used, size_bytes - used, ", and so on through %u others",
                       count - LOCK_CYCLE_SHOWN);
}

static firn_rc raise_deadlock(const struct lock_owner *owner)
{
    char text[(LOCK_CYCLE_SHOWN + 1) * 64];
    describe_cycle(owner, text, sizeof(text));
    return rc_raise(FIRN_E_DEADLOCK,
                    "%s; %llu was chosen to give up because it has changed least: roll it back and "
                    "begin it again",
                    text, (unsigned long long)owner->cycle[0]);
}

static firn_rc raise_outcome(struct lock_owner *owner, uint64_t index_id,
                             enum lock_wait_state outcome)
{
    char waited[UNITS_TEXT_BYTES];
    uint64_t waited_ns = clock_now(owner->table->clock) - owner->wait_since_ns;
    units_format_duration((double)waited_ns, waited);
    if (outcome == WAIT_VICTIM)
        return raise_deadlock(owner);
    if (outcome == WAIT_CANCELLED)
        return rc_raise(FIRN_E_CANCELLED,
                        "transaction %llu was cancelled while it waited for transaction %llu",
                        (unsigned long long)owner->id, (unsigned long long)owner->waited_for_id);
    atomic_fetch_add_explicit(&owner->table->timeouts, 1, memory_order_relaxed);
    return rc_raise(FIRN_E_LOCK_WAIT,
                    "transaction %llu has waited %s for a lock in index %llu that transaction %llu "
                    "holds or asked for earlier; try again when that has ended",
                    (unsigned long long)owner->id, waited, (unsigned long long)index_id,
                    (unsigned long long)owner->waited_for_id);
}

firn_rc lock_wait(struct lock_owner *owner, uint64_t limit_ns)
{
    struct lock *lock = owner->waiting;
    struct lock_table *table = owner->table;
    uint64_t deadline_ns;
    ASSERT(lock != NULL);
    if (__builtin_add_overflow(owner->wait_since_ns, limit_ns, &deadline_ns))
        deadline_ns = UINT64_MAX;
    enum lock_wait_state outcome = sleep_until_told(owner, deadline_ns);
    uint64_t index_id = lock->index_id;
    if (outcome != WAIT_GRANTED || lock->part == LOCK_INSERT)
        withdraw(owner);
    owner->waiting = NULL;
    atomic_fetch_add_explicit(&table->wait_ns, clock_now(table->clock) - owner->wait_since_ns,
                              memory_order_relaxed);
    return outcome == WAIT_GRANTED ? FIRN_OK : raise_outcome(owner, index_id, outcome);
}

void lock_cancel(struct lock_owner *owner)
{
    struct lock_table *table = owner->table;
    struct lock_told told = {NULL, NULL};
    pthread_mutex_lock(&table->graph_mutex);
    if (owner->outcome == WAIT_QUEUED)
        decide_and_tell(owner, WAIT_CANCELLED, &told);
    pthread_mutex_unlock(&table->graph_mutex);
    lock_tell(&told);
}
