/*
 * lock_table.c -- the table: names, memory, and what can be seen of it.
 */
#include "txn/lock_table_internal.h"

#include "base/endian.h"
#include "base/memory.h"
#include "base/units.h"

enum {
    BUCKETS_MIN = LOCK_PARTITIONS * LOCK_BUCKETS_A_PARTITION,
    BYTES_A_BUCKET = 4 * sizeof(struct lock), /* of locks, when memory is full */
    SLAB_LOCKS_MIN = 7,
    SLAB_LOCKS_KEPT = 63,  /* at most, from one transaction to the next */
    SLAB_LOCKS_MAX = 1023, /* with the slab's own line, 64 KiB */
};

/* Memory of one owner, a bigger piece each time. */
struct lock_slab {
    _Alignas(64) struct lock_slab *next; /* the one before */
    size_t used;
    size_t capacity;
    struct lock locks[];
};

firn_rc lock_table_open(const struct lock_options *options, struct lock_table **table)
{
    uint64_t buckets = BUCKETS_MIN;
    while (buckets < options->memory_bytes / BYTES_A_BUCKET)
        buckets *= 2;
    struct lock_table *made = memory_alloc_aligned(sizeof(*made), 64);
    lock_bucket *memory = memory_zalloc(buckets, sizeof(*memory));
    if (made == NULL || memory == NULL) {
        memory_free(made);
        memory_free((void *)memory);
        return rc_raise(FIRN_E_NOMEM, "no memory for the table of locks");
    }
    *made = (struct lock_table){.clock = options->clock,
                                .memory_bytes = options->memory_bytes,
                                .deadlock_detect = options->deadlock_detect,
                                .bucket_mask = buckets - 1,
                                .buckets = memory};
    pthread_mutex_init(&made->graph_mutex, NULL);
    for (size_t i = 0; i < LOCK_PARTITIONS; i++)
        pthread_mutex_init(&made->partitions[i].mutex, NULL);
    *table = made;
    return FIRN_OK;
}

void lock_table_close(struct lock_table *table)
{
    if (table == NULL)
        return;
    ASSERT(atomic_load_explicit(&table->used_bytes, memory_order_relaxed) == 0);
    for (size_t i = 0; i < LOCK_PARTITIONS; i++)
        pthread_mutex_destroy(&table->partitions[i].mutex);
    pthread_mutex_destroy(&table->graph_mutex);
    memory_free((void *)table->buckets);
    memory_free(table);
}

void lock_owner_init(struct lock_owner *owner, struct lock_table *table)
{
    *owner = (struct lock_owner){.table = table};
}

/* ---- Names ---- */

/* Multiply to 128 bits and fold: each bit of the product depends on many. */
static uint64_t mix(uint64_t left, uint64_t right)
{
    __extension__ typedef unsigned __int128 product;
    product all = (product)left * right;
    return (uint64_t)all ^ (uint64_t)(all >> 64);
}

static uint64_t hash_name(uint64_t index_id, uint64_t kind, struct span key)
{
    const uint64_t odd = 0x9e3779b97f4a7c15;
    const uint64_t other = 0xd1342543de82ef95;
    uint64_t hash = mix(index_id ^ odd, (key.size_bytes << 2 | kind) ^ other);
    for (; key.size_bytes >= 8; key.bytes += 8, key.size_bytes -= 8)
        hash = mix(hash ^ get_u64(key.bytes), odd) + other;
    uint64_t rest = 0;
    for (size_t i = 0; i < key.size_bytes; i++)
        rest = rest << 8 | key.bytes[i];
    return mix(hash ^ rest, odd) ^ hash;
}

struct lock_wanted lock_wanted_of(const struct lock_request *request)
{
    enum { KEY, SUPREMUM, WHOLE };
    struct lock_wanted wanted = {
        .index_id = request->index_id, .part = request->part, .mode = request->mode};
    ASSERT(request->part == LOCK_WHOLE || request->mode >= LOCK_SHARED);
    if (request->part == LOCK_WHOLE) {
        wanted.hash = hash_name(request->index_id, WHOLE, span_of(NULL, 0));
    } else if (request->is_supremum) {
        ASSERT(request->part != LOCK_ROW);
        if (request->part == LOCK_NEXT_KEY) /* there is no row */
            wanted.part = LOCK_GAP;
        wanted.hash = hash_name(request->index_id, SUPREMUM, span_of(NULL, 0));
    } else {
        wanted.hash = hash_name(request->index_id, KEY, request->key);
    }
    return wanted;
}

const char *lock_mode_name(enum lock_mode mode)
{
    static const char *const names[] = {"IS", "IX", "S", "X"};
    return names[mode];
}

const char *lock_part_name(enum lock_part part)
{
    static const char *const names[] = {"table", "rec but not gap", "gap before rec", "next-key",
                                        "insert intention"};
    return names[part];
}

/* ---- Memory ---- */

static bool charge(struct lock_table *table, uint64_t bytes)
{
    uint64_t before = atomic_fetch_add_explicit(&table->used_bytes, bytes, memory_order_relaxed);
    if (before + bytes <= table->memory_bytes)
        return true;
    atomic_fetch_sub_explicit(&table->used_bytes, bytes, memory_order_relaxed);
    return false;
}

static void discharge(struct lock_table *table, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&table->used_bytes, bytes, memory_order_relaxed);
}

static void *alloc_charged(struct lock_table *table, uint64_t bytes)
{
    char limit[UNITS_TEXT_BYTES];
    if (!charge(table, bytes)) {
        (void)rc_raise(FIRN_E_NOMEM,
                       "locks have taken the %s that they may; lock fewer rows a transaction",
                       units_format_size((double)table->memory_bytes, limit));
        return NULL;
    }
    void *memory = memory_alloc_aligned(bytes, 64);
    if (memory == NULL) {
        discharge(table, bytes);
        (void)rc_raise(FIRN_E_NOMEM, "no memory for locks");
    }
    return memory;
}

static uint64_t slab_bytes(size_t locks)
{
    return sizeof(struct lock_slab) + locks * sizeof(struct lock);
}

static struct lock_slab *add_slab(struct lock_owner *owner)
{
    size_t locks = owner->slabs == NULL ? SLAB_LOCKS_MIN : owner->slabs->capacity * 2 + 1;
    if (locks > SLAB_LOCKS_MAX)
        locks = SLAB_LOCKS_MAX;
    struct lock_slab *slab = alloc_charged(owner->table, slab_bytes(locks));
    if (slab == NULL)
        return NULL;
    *slab = (struct lock_slab){.next = owner->slabs, .capacity = locks};
    owner->slabs = slab;
    return slab;
}

struct lock *lock_alloc(struct lock_owner *owner)
{
    struct lock *lock = owner->spare;
    if (lock != NULL) {
        owner->spare = lock->owner_next;
        return lock;
    }
    struct lock_slab *slab = owner->slabs;
    if ((slab == NULL || slab->used == slab->capacity) && (slab = add_slab(owner)) == NULL)
        return NULL;
    lock = &slab->locks[slab->used++];
    lock->is_single = false;
    return lock;
}

struct lock *lock_alloc_single(struct lock_table *table)
{
    struct lock *lock = alloc_charged(table, sizeof(*lock));
    if (lock != NULL)
        lock->is_single = true;
    return lock;
}

void lock_recycle(struct lock *lock)
{
    struct lock_owner *owner = lock->owner;
    if (lock->is_single) {
        memory_free(lock);
        discharge(owner->table, sizeof(*lock));
        return;
    }
    lock->owner_next = owner->spare;
    owner->spare = lock;
}

/* Keep the largest one that is not larger than so many locks. */
static void drop_slabs(struct lock_owner *owner, size_t kept_locks)
{
    struct lock_slab *kept = NULL;
    owner->spare = NULL;
    while (owner->slabs != NULL) {
        struct lock_slab *slab = owner->slabs;
        owner->slabs = slab->next;
        if (kept == NULL && slab->capacity <= kept_locks) {
            kept = slab;
            continue;
        }
        discharge(owner->table, slab_bytes(slab->capacity));
        memory_free(slab);
    }
    if (kept != NULL) {
        kept->next = NULL;
        kept->used = 0;
    }
    owner->slabs = kept;
}

void lock_memory_trim(struct lock_owner *owner)
{
    drop_slabs(owner, SLAB_LOCKS_KEPT);
}

void lock_owner_free(struct lock_owner *owner)
{
    ASSERT(atomic_load_explicit(&owner->first, memory_order_relaxed) == NULL);
    ASSERT(owner->waiting == NULL && owner->arrows_here == 0);
    drop_slabs(owner, 0);
}

/* ---- Looking on ---- */

static void each_in_bucket(struct lock_table *table, lock_bucket *bucket, lock_visit *visit,
                           void *context)
{
    struct lock *lock = atomic_load_explicit(bucket, memory_order_relaxed);
    for (; lock != NULL; lock = lock->older) {
        const struct lock_owner *owner = lock->owner;
        struct lock_info info = {.owner_id = owner->id,
                                 .index_id = lock->index_id,
                                 .name_hash = lock->hash,
                                 .part = lock->part,
                                 .mode = lock->mode};
        if (!lock->is_granted) {
            info.waits_for_id = owner->blocker != NULL ? owner->blocker->owner->id : owner->id;
            info.waited_ns = clock_now(table->clock) - owner->wait_since_ns;
        }
        visit(&info, context);
    }
}

/* By lines of buckets: who waits and who is waited for are on one. */
void lock_each(struct lock_table *table, lock_visit *visit, void *context)
{
    for (uint64_t line = 0; line <= table->bucket_mask; line += LOCK_BUCKETS_A_PARTITION) {
        struct lock_partition *partition = lock_partition_of(table, line);
        pthread_mutex_lock(&partition->mutex);
        for (uint64_t i = 0; i < LOCK_BUCKETS_A_PARTITION; i++)
            each_in_bucket(table, &table->buckets[line + i], visit, context);
        pthread_mutex_unlock(&partition->mutex);
    }
}

void lock_counters(struct lock_table *table, struct lock_counters *counters)
{
    struct lock_counters sum = {0};
    for (size_t i = 0; i < LOCK_PARTITIONS; i++) {
        struct lock_partition *partition = &table->partitions[i];
        pthread_mutex_lock(&partition->mutex);
        sum.locks += partition->locks;
        sum.requests += partition->requests;
        pthread_mutex_unlock(&partition->mutex);
    }
    pthread_mutex_lock(&table->graph_mutex);
    sum.waits = table->waits;
    sum.deadlocks = table->deadlocks;
    pthread_mutex_unlock(&table->graph_mutex);
    sum.wait_ns = atomic_load_explicit(&table->wait_ns, memory_order_relaxed);
    sum.timeouts = atomic_load_explicit(&table->timeouts, memory_order_relaxed);
    *counters = sum;
}
