/*
 * map.c -- which frame holds a page: partitioned open addressing with lock-free readers.
 *
 * A partition is an array of buckets of one cache line: seven slots and a count of the entries that
 * wanted to be here or earlier and had to go further (the overflow count of F14: Bronson and Shi,
 * "Open-sourcing F14 for faster, more memory-efficient hash tables", 2019). A probe ends at a
 * bucket whose count is 0, so removing needs neither tombstones nor moving.
 *
 * A slot is one word: 32 bits of the hash, and the frame's number plus one. Page ids are in the
 * descriptors, which every user of the answer must read anyway. Readers take no lock: what they
 * find is checked against the descriptor, what they fail to find is looked for again under the
 * partition's lock before anybody acts on it.
 *
 * Four frames a bucket on average make one in thirty pages lie beyond its first bucket, at 16 bytes
 * a frame. The arrays are ranges of reserved addresses, so that readers who come late, with the
 * size a partition had before a resize, look at memory that is there.
 */
#include "base/memory.h"
#include "buffer/pool_internal.h"

enum {
    BUCKET_SLOTS = 7,
    BUCKET_FRAMES = 4,      /* how full a bucket is on average */
    BUCKETS_SPARE = 4,      /* for partitions that get more than their share */
    PARTITIONS_MAX = 256,   /* chosen by the hash's first 8 bits */
    PARTITION_FRAMES = 512, /* more partitions only for more frames than that each */
    SYSTEM_PAGE_BYTES = 4096,
};

struct map_bucket {
    _Atomic uint64_t slots[BUCKET_SLOTS]; /* 0: empty */
    _Atomic uint64_t overflow;
};
_Static_assert(sizeof(struct map_bucket) == 64, "one bucket, one cache line");

struct map_partition {
    _Alignas(64) pthread_mutex_t lock; /* for all changes */
    struct map_bucket *buckets;        /* room for buckets_max */
    _Atomic uint32_t bucket_count;
    uint32_t entries;
};
_Static_assert(sizeof(struct map_partition) == 64, "a partition's head is one cache line");

struct buffer_map {
    unsigned partition_count; /* a power of two */
    uint32_t buckets_max;     /* in each partition */
    struct map_partition partitions[];
};

/* The finaliser of MurmurHash3 (Appleby, public domain): each bit of an id changes half of these.
 */
static inline uint64_t hash_page(uint64_t page_id)
{
    page_id ^= page_id >> 33;
    page_id *= UINT64_C(0xff51afd7ed558ccd);
    page_id ^= page_id >> 33;
    page_id *= UINT64_C(0xc4ceb9fe1a85ec53);
    page_id ^= page_id >> 33;
    return page_id;
}

/* The bits that choose a bucket are spread over any number of buckets (Lemire, "Fast random integer
   generation in an interval", 2019). */
static inline uint32_t home_bucket(uint64_t hash, uint32_t bucket_count)
{
    return (uint32_t)(((hash >> 20 & UINT32_MAX) * bucket_count) >> 32);
}

static inline uint64_t slot_of(uint64_t hash, uint32_t frame_number)
{
    return hash << 32 | (frame_number + UINT64_C(1));
}

static inline struct map_partition *partition_of(const struct buffer_map *map, uint64_t hash)
{
    return (struct map_partition *)&map->partitions[hash >> 56 & (map->partition_count - 1)];
}

static unsigned partitions_for(uint32_t frame_count)
{
    unsigned count = 1;
    while (count < PARTITIONS_MAX && frame_count / (2 * count) >= PARTITION_FRAMES)
        count *= 2;
    return count;
}

static uint32_t buckets_for(uint32_t frame_count, unsigned partitions)
{
    return frame_count / partitions / BUCKET_FRAMES + BUCKETS_SPARE;
}

static size_t array_bytes(uint32_t bucket_count)
{
    size_t bytes = bucket_count * sizeof(struct map_bucket);
    return (bytes + SYSTEM_PAGE_BYTES - 1) / SYSTEM_PAGE_BYTES * SYSTEM_PAGE_BYTES;
}

uint64_t map_size_bytes(uint32_t frame_count)
{
    unsigned partitions = partitions_for(frame_count);
    return partitions *
           (sizeof(struct map_partition) + array_bytes(buckets_for(frame_count, partitions)));
}

firn_rc map_open(struct buffer_pool *pool, uint32_t frame_count)
{
    unsigned partitions = partitions_for(frame_count);
    size_t size_bytes = sizeof(struct buffer_map) + partitions * sizeof(struct map_partition);
    struct buffer_map *map = memory_alloc_aligned(size_bytes, 64);
    if (map == NULL)
        return FIRN_E_NOMEM;
    memset(map, 0, size_bytes);
    map->partition_count = partitions;
    map->buckets_max = buckets_for(pool->frames_max, partitions);
    for (unsigned i = 0; i < partitions; i++)
        pthread_mutex_init(&map->partitions[i].lock, NULL);
    pool->map = map;
    size_t each_bytes = array_bytes(map->buckets_max);
    uint8_t *buckets = memory_reserve(partitions * each_bytes, SYSTEM_PAGE_BYTES);
    if (buckets == NULL)
        return FIRN_E_NOMEM;
    for (unsigned i = 0; i < partitions; i++)
        map->partitions[i].buckets = (struct map_bucket *)(buckets + i * each_bytes);
    return map_resize(pool, frame_count);
}

void map_close(struct buffer_pool *pool)
{
    struct buffer_map *map = pool->map;
    if (map == NULL)
        return;
    memory_unreserve(map->partitions[0].buckets,
                     map->partition_count * array_bytes(map->buckets_max));
    for (unsigned i = 0; i < map->partition_count; i++)
        pthread_mutex_destroy(&map->partitions[i].lock);
    memory_free(map);
    pool->map = NULL;
}

/* ---- Finding ---- */

/* @return which slots of a bucket have a tag, by bits. Without branches: which one it is, is
 * chance. */
static inline unsigned bucket_match(const struct map_bucket *bucket, uint32_t tag)
{
    unsigned match = 0;
    for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
        /* Acquire: the frame's page id was set before the slot. */
        uint64_t slot = atomic_load_explicit(&bucket->slots[i], memory_order_acquire);
        match |= (unsigned)(slot >> 32 == tag) << i;
    }
    return match;
}

struct buffer_frame *map_find(const struct buffer_pool *pool, uint64_t page_id)
{
    uint64_t hash = hash_page(page_id);
    const struct map_partition *partition = partition_of(pool->map, hash);
    uint32_t bucket_count = atomic_load_explicit(&partition->bucket_count, memory_order_acquire);
    uint32_t index = home_bucket(hash, bucket_count);
    for (uint32_t probes = 0; probes < bucket_count; probes++) {
        const struct map_bucket *bucket = &partition->buckets[index];
        unsigned match = bucket_match(bucket, (uint32_t)hash);
        for (; match != 0; match &= match - 1) {
            unsigned i = (unsigned)__builtin_ctz(match);
            uint64_t slot = atomic_load_explicit(&bucket->slots[i], memory_order_acquire);
            if ((uint32_t)slot == 0)
                continue;
            struct buffer_frame *frame = &pool->frames[(uint32_t)slot - 1];
            if (atomic_load_explicit(&frame->page_id, memory_order_relaxed) == page_id)
                return frame;
        }
        if (atomic_load_explicit(&bucket->overflow, memory_order_acquire) == 0)
            return NULL;
        index = index + 1 < bucket_count ? index + 1 : 0;
    }
    return NULL;
}

struct buffer_frame *map_find_locked(struct buffer_pool *pool, uint64_t page_id)
{
    return map_find(pool, page_id); /* nobody changes the partition: the answer is exact */
}

void map_lock(struct buffer_pool *pool, uint64_t page_id)
{
    pthread_mutex_lock(&partition_of(pool->map, hash_page(page_id))->lock);
}

void map_unlock(struct buffer_pool *pool, uint64_t page_id)
{
    pthread_mutex_unlock(&partition_of(pool->map, hash_page(page_id))->lock);
}

/* ---- Changing ---- */

static bool bucket_put(struct map_bucket *bucket, uint64_t slot)
{
    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        if (atomic_load_explicit(&bucket->slots[i], memory_order_relaxed) == 0) {
            atomic_store_explicit(&bucket->slots[i], slot, memory_order_release);
            return true;
        }
    return false;
}

static bool bucket_take(struct map_bucket *bucket, uint64_t slot)
{
    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        if (atomic_load_explicit(&bucket->slots[i], memory_order_relaxed) == slot) {
            atomic_store_explicit(&bucket->slots[i], 0, memory_order_relaxed);
            return true;
        }
    return false;
}

/* Add to the overflow counts from a bucket up to, but not including, another. */
static void overflow_add(struct map_partition *partition, uint32_t from, uint32_t to, uint64_t by)
{
    uint32_t bucket_count = atomic_load_explicit(&partition->bucket_count, memory_order_relaxed);
    while (from != to) {
        struct map_bucket *bucket = &partition->buckets[from];
        uint64_t overflow = atomic_load_explicit(&bucket->overflow, memory_order_relaxed);
        atomic_store_explicit(&bucket->overflow, overflow + by, memory_order_release);
        from = from + 1 < bucket_count ? from + 1 : 0;
    }
}

static void partition_insert(struct map_partition *partition, uint64_t hash, uint64_t slot)
{
    uint32_t bucket_count = atomic_load_explicit(&partition->bucket_count, memory_order_relaxed);
    uint32_t home = home_bucket(hash, bucket_count);
    uint32_t index = home;
    for (uint32_t probes = 0; probes < bucket_count; probes++) {
        if (bucket_put(&partition->buckets[index], slot)) {
            overflow_add(partition, home, index, 1);
            partition->entries++;
            return;
        }
        index = index + 1 < bucket_count ? index + 1 : 0;
    }
    /* It has room for nearly twice its share of the frames: by chance that never fills. */
    ENSURE(partition->entries < bucket_count * BUCKET_SLOTS);
}

void map_insert_locked(struct buffer_pool *pool, uint64_t page_id, struct buffer_frame *frame)
{
    uint64_t hash = hash_page(page_id);
    partition_insert(partition_of(pool->map, hash), hash,
                     slot_of(hash, buffer_frame_number(pool, frame)));
}

void map_remove_locked(struct buffer_pool *pool, uint64_t page_id, struct buffer_frame *frame)
{
    uint64_t hash = hash_page(page_id);
    struct map_partition *partition = partition_of(pool->map, hash);
    uint32_t bucket_count = atomic_load_explicit(&partition->bucket_count, memory_order_relaxed);
    uint32_t home = home_bucket(hash, bucket_count);
    uint32_t index = home;
    uint64_t slot = slot_of(hash, buffer_frame_number(pool, frame));
    uint32_t probes = 0;
    while (!bucket_take(&partition->buckets[index], slot)) {
        ENSURE(++probes < bucket_count); /* a page in the pool is in its map */
        index = index + 1 < bucket_count ? index + 1 : 0;
    }
    overflow_add(partition, home, index, UINT64_MAX);
    partition->entries--;
}

/* ---- Resizing ---- */

/* Collect a partition's slots and empty it. @return how many */
static uint32_t partition_drain(struct map_partition *partition, uint64_t *slots)
{
    uint32_t count = 0;
    uint32_t bucket_count = atomic_load_explicit(&partition->bucket_count, memory_order_relaxed);
    for (uint32_t b = 0; b < bucket_count; b++) {
        struct map_bucket *bucket = &partition->buckets[b];
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            uint64_t slot = atomic_load_explicit(&bucket->slots[i], memory_order_relaxed);
            if (slot == 0)
                continue;
            slots[count++] = slot;
            atomic_store_explicit(&bucket->slots[i], 0, memory_order_relaxed);
        }
        atomic_store_explicit(&bucket->overflow, 0, memory_order_relaxed);
    }
    ASSERT(count == partition->entries);
    return count;
}

/* With the partition locked; readers meanwhile miss what is there, and then wait for the lock. */
static firn_rc partition_resize(struct buffer_pool *pool, struct map_partition *partition,
                                uint32_t bucket_count)
{
    uint32_t before = atomic_load_explicit(&partition->bucket_count, memory_order_relaxed);
    uint64_t *slots = memory_alloc((partition->entries + 1) * sizeof(*slots));
    if (slots == NULL)
        return FIRN_E_NOMEM;
    if (!memory_commit(partition->buckets, array_bytes(bucket_count))) {
        memory_free(slots);
        return FIRN_E_NOMEM;
    }
    uint32_t count = partition_drain(partition, slots);
    atomic_store_explicit(&partition->bucket_count, bucket_count, memory_order_release);
    partition->entries = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct buffer_frame *frame = &pool->frames[(uint32_t)slots[i] - 1];
        uint64_t page_id = atomic_load_explicit(&frame->page_id, memory_order_relaxed);
        partition_insert(partition, hash_page(page_id), slots[i]);
    }
    size_t kept_bytes = array_bytes(bucket_count);
    if (array_bytes(before) > kept_bytes)
        memory_decommit((uint8_t *)partition->buckets + kept_bytes,
                        array_bytes(before) - kept_bytes);
    memory_free(slots);
    return FIRN_OK;
}

firn_rc map_resize(struct buffer_pool *pool, uint32_t frame_count)
{
    struct buffer_map *map = pool->map;
    uint32_t wanted = buckets_for(frame_count, map->partition_count);
    for (unsigned i = 0; i < map->partition_count; i++) {
        struct map_partition *partition = &map->partitions[i];
        firn_rc rc = FIRN_OK;
        pthread_mutex_lock(&partition->lock);
        uint32_t needed = partition->entries / BUCKET_FRAMES + BUCKETS_SPARE;
        uint32_t bucket_count = wanted > needed ? wanted : needed;
        if (bucket_count != atomic_load_explicit(&partition->bucket_count, memory_order_relaxed))
            rc = partition_resize(pool, partition, bucket_count);
        pthread_mutex_unlock(&partition->lock);
        FIRN_TRY(rc);
    }
    return FIRN_OK;
}
