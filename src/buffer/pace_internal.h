/*
 * pace_internal.h -- how much to write, when, and how fast the log may grow meanwhile: arithmetic
 * alone, so that it can be tried on made-up devices.
 */
#ifndef FIRN_BUFFER_PACE_INTERNAL_H
#define FIRN_BUFFER_PACE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

enum { PACE_AGES = 128, PACE_AGES_IN_RING = 64 };

/** How many dirty pages are how old: counted by oldest_lsn in parts of the ring. */
struct pace_ages {
    uint64_t part_bytes; /* of log that one count stands for */
    uint32_t pages[PACE_AGES];
};

/** Prepare to count, for a ring of a size. */
void pace_ages_init(struct pace_ages *ages, uint64_t capacity_bytes);

/** @return where pages that are dirty since an LSN are counted. */
static inline uint32_t *pace_ages_at(struct pace_ages *ages, uint64_t oldest_lsn)
{
    return &ages->pages[oldest_lsn / ages->part_bytes % PACE_AGES];
}

/** What the pace goes by. */
struct pace_input {
    uint64_t now_ns;
    uint64_t reserved_lsn;
    uint64_t clean_lsn;
    uint64_t capacity_bytes; /* of the log's ring */
    const struct pace_ages *ages;
    uint32_t pages_dirty;
    uint32_t pages_total;
    unsigned io_capacity; /* these as in buffer_options */
    unsigned io_capacity_max;
    unsigned dirty_percent_max;
};

/** What it asks for. */
struct pace_order {
    unsigned pages;         /* to be written now, those first that are dirty for longest */
    uint64_t next_ns;       /* when to ask again, from now; 0: when these are written */
    uint64_t limit_lsn;     /* how far the log may grow before this is asked again ... */
    uint64_t limit_bytes_s; /* ... and how fast beyond that; 0: as it likes */
};

/** One writer's. */
struct pace {
    uint64_t last_ns; /* when it was asked last; 0: never */
    uint64_t last_lsn;
    uint64_t changed_ns; /* when the log last grew */
    double fast_bytes_s; /* rates of the log */
    double slow_bytes_s;
    double device_pages_s; /* what the devices can write */
    double due_pages;      /* parts of pages included */
    double limit_lsn;
    double limit_bytes_s; /* what the devices can follow; 0: nobody is slowed down */
};

/** Begin: nothing is known of the log's rate, and of the devices what they are said to do. */
void pace_init(struct pace *pace, unsigned io_capacity_max);

/** Decide what to write now. */
struct pace_order pace_step(struct pace *pace, const struct pace_input *input);

/** So many of the pages asked for were written since pace_step. */
void pace_written(struct pace *pace, unsigned pages);

/** A batch of so many pages took so long. */
void pace_measured(struct pace *pace, unsigned pages, uint64_t took_ns);

#endif
