/*
 * A hash table of tablespaces that is read without a lock: open addressing, at most half full.
 *
 * A slot is empty, a tombstone, or points to a tablespace whose memory stays. Who looks probes
 * until an empty slot. A writer (with the set's mutex) fills a tombstone or an empty slot, so a
 * probe that runs meanwhile finds what was there all the while. A table that gets too full is
 * replaced by a larger one; the old one stays until the set is closed, for who still looks at it:
 * in all no more than the newest one's size.
 */
#include "space/space_internal.h"

#include "base/check.h"
#include "base/memory.h"

struct lookup_table {
    struct lookup_table *older;
    uint32_t mask;
    uint32_t filled; /* slots that are not empty */
    _Atomic(struct space *) slots[];
};

enum { LOOKUP_SLOTS_MIN = 64 };

static struct space tombstone = {.id = SPACE_NONE};

/** Spread ids, which are consecutive, so that runs of taken slots stay short (Knuth's
 * multiplicative hashing). */
static uint32_t home_of(const struct lookup_table *table, uint32_t id)
{
    return (id * UINT32_C(2654435769)) >> 7 & table->mask;
}

struct space *lookup_find(struct space_set *set, uint32_t id)
{
    /* Pairs with the release stores of lookup_reserve and put. */
    struct lookup_table *table = atomic_load_explicit(&set->table, memory_order_acquire);
    if (table == NULL || id == SPACE_NONE)
        return NULL;
    for (uint32_t slot = home_of(table, id);; slot = (slot + 1) & table->mask) {
        struct space *space = atomic_load_explicit(&table->slots[slot], memory_order_acquire);
        if (space == NULL)
            return NULL;
        if (atomic_load_explicit(&space->id, memory_order_acquire) == id)
            return space;
    }
}

firn_rc lookup_require(struct space_set *set, uint32_t id, struct space **space)
{
    struct space *found = lookup_find(set, id);
    if (found == NULL)
        return rc_raise(FIRN_E_NOT_FOUND, "there is no tablespace %u", id);
    *space = found;
    return FIRN_OK;
}

static void put(struct lookup_table *table, struct space *space)
{
    uint32_t slot = home_of(table, space_id(space));
    for (;; slot = (slot + 1) & table->mask) {
        struct space *there = atomic_load_explicit(&table->slots[slot], memory_order_relaxed);
        if (there == NULL)
            table->filled++;
        if (there == NULL || there == &tombstone)
            break;
    }
    atomic_store_explicit(&table->slots[slot], space, memory_order_release);
}

firn_rc lookup_reserve(struct space_set *set)
{
    struct lookup_table *old = atomic_load_explicit(&set->table, memory_order_relaxed);
    if (old != NULL && (old->filled + 1) * 2 <= old->mask + 1)
        return FIRN_OK;
    uint32_t slots = old == NULL ? LOOKUP_SLOTS_MIN : (old->mask + 1) * 2;
    struct lookup_table *table =
        memory_zalloc(1, sizeof *table + (size_t)slots * sizeof table->slots[0]);
    if (table == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a table of %u tablespaces", slots);
    table->older = old;
    table->mask = slots - 1;
    for (unsigned i = 0; i < set->space_count; i++)
        put(table, set->spaces[i]);
    atomic_store_explicit(&set->table, table, memory_order_release);
    return FIRN_OK;
}

void lookup_add(struct space_set *set, struct space *space, uint32_t id)
{
    struct lookup_table *table = atomic_load_explicit(&set->table, memory_order_relaxed);
    /* What was set of the tablespace before is seen by who finds this id. */
    atomic_store_explicit(&space->id, id, memory_order_release);
    put(table, space);
}

void lookup_remove(struct space_set *set, struct space *space)
{
    struct lookup_table *table = atomic_load_explicit(&set->table, memory_order_relaxed);
    uint32_t slot = home_of(table, space_id(space));
    while (atomic_load_explicit(&table->slots[slot], memory_order_relaxed) != space)
        slot = (slot + 1) & table->mask;
    atomic_store_explicit(&table->slots[slot], &tombstone, memory_order_release);
    /* Tombstones that no probe needs to step over become empty, so that they do not add up. */
    while (atomic_load_explicit(&table->slots[(slot + 1) & table->mask], memory_order_relaxed) ==
               NULL &&
           atomic_load_explicit(&table->slots[slot], memory_order_relaxed) == &tombstone) {
        atomic_store_explicit(&table->slots[slot], NULL, memory_order_release);
        table->filled--;
        slot = (slot - 1) & table->mask;
    }
    /* Other tables do not matter: there it stands under an id that nobody has. */
    atomic_store_explicit(&space->id, SPACE_NONE, memory_order_release);
}

void lookup_close(struct space_set *set)
{
    struct lookup_table *table = atomic_load_explicit(&set->table, memory_order_relaxed);
    while (table != NULL) {
        struct lookup_table *older = table->older;
        memory_free(table);
        table = older;
    }
    atomic_store_explicit(&set->table, NULL, memory_order_relaxed);
}
