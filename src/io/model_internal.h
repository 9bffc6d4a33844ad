/*
 * model_internal.h -- the parts a simulated device is made of, and how time passes in it.
 *
 * A model_device holds one heap of timers; everything that happens is a timer that fires. What
 * waits for a time owns a timer: a flash channel, a disk's arm, a request in the interface. Between
 * two timers nothing changes, so time may be advanced as lazily as the caller likes.
 *
 *   model_io      the caller's request, on the device's addresses
 *   model_op      the same inside, or a write of the controller's cache to its members
 *   model_part    what one member does of an op, on the member's addresses
 *   model_row     the reads that a RAID 5 write waits for, and the writes that wait
 *   model_page    one flash channel's share of a part's pages
 *
 * All but the first come from pools that model_device_submit fills before it takes a request:
 * nothing can fail while time passes.
 */
#ifndef FIRN_IO_MODEL_INTERNAL_H
#define FIRN_IO_MODEL_INTERNAL_H

#include "base/rng.h"
#include "io/model.h"

struct model_timer;
struct model_page;

/** What happens when a timer's time has come; device->now_ns is that time. */
typedef void model_fire(struct model_device *device, struct model_timer *timer);

/** The first member of whatever waits for a time; it waits for one at most. */
struct model_timer {
    model_fire *fire;
};

/**
 * Let a timer fire at a time not before device->now_ns; of equal times the first armed is first.
 *
 * @param rest_ns  how long after it any request that it brings on its way takes at least
 */
void model_arm(struct model_device *device, struct model_timer *timer, uint64_t at_ns,
               uint64_t rest_ns);

/* ---- Pools ---- */

/** Items of one size. */
struct model_pool {
    size_t item_bytes;
    size_t total;
    size_t free_count;
    size_t held; /* of the free ones, kept back for the controller's cache */
    void *free;
    void *chunks;
};

/** Make sure that `count` items are there beside the held ones. @return FIRN_OK, FIRN_E_NOMEM */
firn_rc model_pool_reserve(struct model_pool *pool, size_t count);

/** @return a zeroed item; there must be one. */
void *model_pool_take(struct model_pool *pool);

/** Put an item back. */
void model_pool_give(struct model_pool *pool, void *item);

/** Free all items, taken ones too. */
void model_pool_free(struct model_pool *pool);

/* ---- What is under way ---- */

struct model_op {
    struct model_timer timer; /* when the cache has answered */
    struct model_io *io;      /* NULL: a write of the controller's cache to its members */
    enum io_op kind;
    uint32_t size_bytes;
    uint64_t offset;
    unsigned parts_left;
    struct model_op *next;
};

struct model_row {
    unsigned reads_left;
    struct model_part *writes;
};

struct model_part {
    struct model_timer timer;
    struct model_member *member;
    struct model_op *op;   /* NULL: a write that its disk has acknowledged from its cache */
    struct model_row *row; /* of a RAID 5 read before write */
    struct model_part *next;
    enum io_op kind;
    uint32_t size_bytes;
    uint64_t offset; /* on the member */
    uint64_t arrive_ns;
    uint64_t mark;               /* order among a disk's cached writes; what a sync waits for */
    uint64_t left;               /* pages, or cached writes, until it is done */
    double start_turn, end_turn; /* disk: the range in turns of the platter */
    struct model_part *shadow;   /* disk with a write cache: the write to the medium */
    struct model_page *pages;    /* flash: as many as channels take part in the read */
};

/** Parts in order; empty when head is NULL. tail must be set to &head first. */
struct model_fifo {
    struct model_part *head;
    struct model_part **tail;
};

/** Append a part. */
static inline void model_fifo_push(struct model_fifo *fifo, struct model_part *part)
{
    part->next = NULL;
    *fifo->tail = part;
    fifo->tail = &part->next;
}

/** Take out the part that a link of the fifo points to. @return the part */
static inline struct model_part *model_fifo_take(struct model_fifo *fifo, struct model_part **link)
{
    struct model_part *part = *link;
    *link = part->next;
    if (fifo->tail == &part->next)
        fifo->tail = link;
    return part;
}

/** The read of one channel's pages of a part. */
struct model_page {
    struct model_part *part;
    struct model_page *next;
    uint32_t pages_left;
    uint32_t page_bytes; /* to be transferred for each */
};

/* ---- Members ---- */

/** What a kind of drive does. */
struct model_member_ops {
    void (*submit)(struct model_member *member, struct model_part *part);
    double (*distance)(const struct model_member *member, uint64_t offset); /* of heads; 0 to 1 */
    void (*close)(struct model_member *member);
};

/** The first member of every drive. */
struct model_member {
    const struct model_member_ops *ops;
    struct model_device *device;
    unsigned number;
    unsigned outstanding; /* parts given to it and not done */
    uint64_t read_end;    /* where the last read given to it ended: a stream goes on there */
};

/** Make a drive. @return FIRN_OK, FIRN_E_NOMEM, FIRN_E_INVALID */
firn_rc model_disk_open(struct model_device *device, const struct model_disk *disk,
                        uint64_t capacity_bytes, struct model_member **member);
firn_rc model_ssd_open(struct model_device *device, const struct model_ssd *ssd,
                       struct model_member **member);

/** A part has been carried out: called by its member at the time it is. */
void model_part_done(struct model_device *device, struct model_part *part);

/** An op has been carried out. */
void model_op_done(struct model_device *device, struct model_op *op);

/* ---- RAID and the controller's cache ---- */

/** How many items an op takes from the pools at most. */
struct model_needs {
    size_t parts, rows, pages;
};

/** @return what model_raid_submit takes for such an op. */
struct model_needs model_raid_needs(const struct model_device *device, enum io_op kind,
                                    uint64_t size_bytes);

/** Cut an op into parts and give them to the members. */
void model_raid_submit(struct model_device *device, struct model_op *op);

/** A read that a RAID 5 write waited for is done. */
void model_raid_row_read(struct model_device *device, struct model_row *row);

struct model_cache;

/** Make the controller's cache of spec.cache_bytes and hold back what its writes need. */
firn_rc model_cache_open(struct model_device *device, struct model_cache **cache);
void model_cache_close(struct model_cache *cache);

/** Let an op pass the cache: answered by it, waiting for room in it, or on to the members. */
void model_cache_submit(struct model_cache *cache, struct model_op *op);

/** One of the cache's own writes is done; the op is the caller's again. */
void model_cache_destaged(struct model_cache *cache, const struct model_op *op);

/* ---- The device ---- */

struct model_event {
    uint64_t at_ns;
    uint64_t order;
    uint64_t done_ns; /* no request is done by it before */
    struct model_timer *timer;
};

struct model_device {
    struct model_spec spec;
    uint64_t now_ns;
    uint64_t capacity_bytes;
    struct rng rng;

    struct model_event *events; /* a binary heap, the earliest first */
    size_t event_count, event_capacity;
    uint64_t event_order;

    struct model_pool ops, parts, rows, pages;
    size_t timer_count; /* the members' own timers */

    struct model_member **members;
    unsigned member_count;
    unsigned columns;           /* of data in a row of stripes */
    unsigned copies;            /* of each column */
    struct model_part **newest; /* each member's newest part while an op is cut; else unused */
    struct model_cache *cache;  /* or NULL */

    struct model_io *done; /* not yet handed back, in order */
    struct model_io **done_tail;
};

/** @return a duration in whole nanoseconds, rounded up so that nothing takes no time by rounding.
 */
static inline uint64_t model_ns(double ns)
{
    uint64_t whole = (uint64_t)ns;
    return whole + ((double)whole < ns);
}

/** @return the time one byte takes at a rate, in ns. */
static inline double model_byte_ns(double mib_s)
{
    return 1e9 / (mib_s * 1048576.0);
}

#endif
