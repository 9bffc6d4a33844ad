/*
 * stragglers.c -- a short sorted list that is read without a lock.
 *
 * A version number that is odd while the list changes tells readers to look again (a sequence
 * lock). Entries are written with release and read with acquire, so who reads a new entry sees that
 * the version has moved. A list that became too short stays until the end, for somebody may be
 * reading it; as each is twice as long as the one before, they take no more memory than the last.
 */
#include "txn/snapshot_set_internal.h"

#include "base/memory.h"

#include <sched.h>

enum { STRAGGLERS_MIN = 32 };

static struct straggler_list *current_list(const struct stragglers *stragglers)
{
    return atomic_load_explicit(&stragglers->list, memory_order_acquire);
}

static size_t current_count(const struct stragglers *stragglers)
{
    return atomic_load_explicit(&stragglers->count, memory_order_acquire);
}

static uint64_t entry_id(const struct straggler *entry)
{
    return atomic_load_explicit(&entry->id, memory_order_acquire);
}

static uint64_t entry_number(const struct straggler *entry)
{
    return atomic_load_explicit(&entry->number, memory_order_acquire);
}

static void entry_write(struct straggler *entry, uint64_t id, uint64_t number)
{
    atomic_store_explicit(&entry->id, id, memory_order_release);
    atomic_store_explicit(&entry->number, number, memory_order_release);
}

static void begin_change(struct stragglers *stragglers)
{
    atomic_fetch_add_explicit(&stragglers->version, 1, memory_order_relaxed);
}

static void end_change(struct stragglers *stragglers)
{
    atomic_fetch_add_explicit(&stragglers->version, 1, memory_order_release);
}

firn_rc stragglers_reserve(struct snapshot_set *set, size_t more)
{
    struct stragglers *stragglers = &set->stragglers;
    struct straggler_list *old = current_list(stragglers);
    size_t count = current_count(stragglers);
    size_t capacity = old != NULL ? old->capacity : 0;
    if (count + more <= capacity)
        return FIRN_OK;
    capacity = capacity * 2 > STRAGGLERS_MIN ? capacity * 2 : STRAGGLERS_MIN;
    while (capacity < count + more)
        capacity *= 2;
    struct straggler_list *list =
        memory_zalloc(1, sizeof(*list) + capacity * sizeof(list->entries[0]));
    if (list == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for %zu transactions that are open", capacity);
    list->older = old;
    list->capacity = capacity;
    /* Entries come and go under the set's mutex, which is held, but get their numbers without it.
     */
    pthread_mutex_lock(&set->commit_mutex);
    for (size_t i = 0; i < count; i++)
        entry_write(&list->entries[i], entry_id(&old->entries[i]), entry_number(&old->entries[i]));
    atomic_store_explicit(&stragglers->list, list, memory_order_release);
    pthread_mutex_unlock(&set->commit_mutex);
    return FIRN_OK;
}

void stragglers_free(struct stragglers *stragglers)
{
    struct straggler_list *list = current_list(stragglers);
    while (list != NULL) {
        struct straggler_list *older = list->older;
        memory_free(list);
        list = older;
    }
}

/* @return the place of the first entry that is not below an id */
static size_t find_place(const struct straggler_list *list, size_t count, uint64_t id)
{
    size_t first = 0;
    size_t end = count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (entry_id(&list->entries[middle]) < id)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

void stragglers_add(struct stragglers *stragglers, uint64_t id, uint64_t number)
{
    struct straggler_list *list = current_list(stragglers);
    size_t count = current_count(stragglers);
    ASSERT(list != NULL && count < list->capacity);
    size_t place = find_place(list, count, id);
    begin_change(stragglers);
    for (size_t i = count; i > place; i--)
        entry_write(&list->entries[i], entry_id(&list->entries[i - 1]),
                    entry_number(&list->entries[i - 1]));
    entry_write(&list->entries[place], id, number);
    atomic_store_explicit(&stragglers->count, count + 1, memory_order_release);
    end_change(stragglers);
}

void stragglers_set(struct stragglers *stragglers, uint64_t id, uint64_t number)
{
    struct straggler_list *list = current_list(stragglers);
    size_t count = current_count(stragglers);
    size_t place = list != NULL ? find_place(list, count, id) : 0;
    ENSURE(place < count && entry_id(&list->entries[place]) == id);
    /* One word changes, so readers need not look again. */
    atomic_store_explicit(&list->entries[place].number, number, memory_order_release);
}

void stragglers_prune(struct stragglers *stragglers, uint64_t horizon)
{
    struct straggler_list *list = current_list(stragglers);
    size_t count = current_count(stragglers);
    size_t kept = 0;
    begin_change(stragglers);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = entry_number(&list->entries[i]);
        if (number != SNAPSHOT_OPEN && number <= horizon)
            continue;
        if (kept != i)
            entry_write(&list->entries[kept], entry_id(&list->entries[i]), number);
        kept++;
    }
    atomic_store_explicit(&stragglers->count, kept, memory_order_release);
    end_change(stragglers);
}

bool stragglers_find(const struct stragglers *stragglers, uint64_t id, uint64_t *number)
{
    for (;;) {
        uint64_t version = atomic_load_explicit(&stragglers->version, memory_order_acquire);
        const struct straggler_list *list = current_list(stragglers);
        size_t count = current_count(stragglers);
        if (list != NULL && count > list->capacity)
            continue; /* the count is a newer list's */
        size_t place = list != NULL ? find_place(list, count, id) : 0;
        bool found = place < count && entry_id(&list->entries[place]) == id;
        uint64_t committed = found ? entry_number(&list->entries[place]) : 0;
        if ((version & 1) == 0 &&
            atomic_load_explicit(&stragglers->version, memory_order_relaxed) == version) {
            if (found)
                *number = committed;
            return found;
        }
        sched_yield();
    }
}

uint64_t stragglers_first_open(const struct stragglers *stragglers)
{
    struct straggler_list *list = current_list(stragglers);
    size_t count = current_count(stragglers);
    for (size_t i = 0; i < count; i++)
        if (entry_number(&list->entries[i]) == SNAPSHOT_OPEN)
            return entry_id(&list->entries[i]);
    return UINT64_MAX;
}
