/*
 * pace_internal.h -- how much the cleaner writes and when: arithmetic alone, so that it can be
 * tried on made-up devices.
 */
#ifndef FIRN_BUFFER_PACE_INTERNAL_H
#define FIRN_BUFFER_PACE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

/** What it goes by. */
struct pace_input {
    uint64_t now_ns;
    uint64_t reserved_lsn;
    uint64_t clean_lsn;
    uint64_t capacity_bytes; /* of the log's ring */
    uint32_t pages_dirty;
    uint32_t pages_total;
    unsigned io_capacity; /* these as in buffer_options */
    unsigned io_capacity_max;
    unsigned dirty_percent_max;
};

/** What it asks for, until it is asked again. */
struct pace_order {
    uint64_t below_lsn;     /* pages that are dirty since before this one ... */
    unsigned pages_max;     /* ... but no more than so many, unless pressed */
    unsigned unasked_pages; /* and so many in any case, the oldest ones */
    bool is_pressed;        /* the ring is nearly full: write, free log, write on */
    uint64_t next_ns;       /* when to ask again, from now; 0: at once */
};

/** One thread's. */
struct pace {
    uint64_t last_ns; /* when it was asked last; 0: never */
    uint64_t last_lsn;
    uint64_t changed_ns; /* when the log last grew */
    double fast_bytes_s; /* rates of the log */
    double slow_bytes_s;
    uint64_t target_lsn;
    double unasked_pages; /* due, parts of pages included */
    double allowed_pages;
};

/** Begin: nothing is known of the log's rate. */
void pace_init(struct pace *pace);

/** Decide what to write now. */
struct pace_order pace_step(struct pace *pace, const struct pace_input *input);

/** So many pages were written since pace_step. */
void pace_written(struct pace *pace, unsigned pages);

#endif
