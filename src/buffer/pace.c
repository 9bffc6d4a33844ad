/*
 * pace.c -- how much to write now, and how fast the log may grow meanwhile.
 *
 * What must not happen is that the ring of the log fills up with changes of dirty pages, for then
 * everybody stands still until some have been written. What costs is to write a page earlier than
 * necessary: changed again, it is written again.
 *
 * Each dirty page has a deadline: it must be durable when the log has grown by the ring's size
 * since it became dirty. Let k pages be dirty since before an LSN L. While the log grows from its
 * end to L and a ring, they must be written; so a byte of log costs at least k over the bytes that
 * are left. The largest such quotient over all L, `pages_a_byte`, says both: at what rate to write,
 * given the log's; and how fast the log may grow, given the devices'. That the rate is the least
 * that meets every deadline makes it smooth: a crowd of pages that became dirty at once, as after a
 * burst, is spread over the whole time until its deadline instead of being met by a wall.
 *
 * (InnoDB's adaptive flushing guesses from the age of the oldest page alone, and lets a crowd run
 * into the wall. Slowing writers down before they must stop is ZFS's write throttle.)
 */
#include "buffer/pace_internal.h"

#include "base/clock.h"

#include <string.h>

static const double aim_share = 0.8;     /* deadlines are set at this share of the ring ... */
static const double limit_share = 0.95;  /* ... and the log is slowed down to meet this one */
static const double ramp_lowest = 0.125; /* of the ring: younger pages may wait and see ... */
static const double ramp_highest = 0.4;  /* ... these not */
static const double slow_from = 0.25; /* of the ring: bursts up to here are nobody's concern ... */
static const double slow_fully_from =
    0.75;                                  /* ... and the closer to this, the less is let through */
static const double unbounded_from = 0.75; /* and from here on io_capacity_max is not looked at */
static const double pressed_from = 0.9;

static const double fast_s = 0.2; /* time constants of the log's rate: to rise quickly ... */
static const double slow_s = 3.0; /* ... and to forget slowly */
static const double idle_s = 1.0;
static const double dirty_lowest = 0.7; /* of max_dirty_pages_pct */
static const double tick_max_s = 1.0;   /* what was missed in a longer one is not made up for */
static const double tick_min_s = 0.01;  /* between orders */
static const double busy_tick_max_s = 0.25;
static const double ticks_in_ring = 32.0;
static const double limit_saved_s = 0.05; /* of growth that was not used */
static const double calm_step = 1.0 / 16; /* of the ring: then this is to be asked again */

void pace_init(struct pace *pace, unsigned io_capacity_max)
{
    memset(pace, 0, sizeof(*pace));
    pace->device_pages_s = io_capacity_max;
}

void pace_ages_init(struct pace_ages *ages, uint64_t capacity_bytes)
{
    memset(ages, 0, sizeof(*ages));
    ages->part_bytes = capacity_bytes / PACE_AGES_IN_RING + 1;
}

/* ---- What the log does and needs ---- */

static double log_rate(const struct pace *pace)
{
    return pace->fast_bytes_s > pace->slow_bytes_s ? pace->fast_bytes_s : pace->slow_bytes_s;
}

static void measure_rate(struct pace *pace, const struct pace_input *input, double tick_s)
{
    double bytes_s = (double)(input->reserved_lsn - pace->last_lsn) / tick_s;
    pace->fast_bytes_s += (bytes_s - pace->fast_bytes_s) * tick_s / (tick_s + fast_s);
    pace->slow_bytes_s += (bytes_s - pace->slow_bytes_s) * tick_s / (tick_s + slow_s);
    if (input->reserved_lsn != pace->last_lsn)
        pace->changed_ns = input->now_ns;
    pace->last_lsn = input->reserved_lsn;
}

/* What a byte of log costs in pages that must be written while it grows, so that each page is
   durable when the log has grown by a share of the ring since it became dirty. */
static double pages_a_byte(const struct pace_input *input, double share)
{
    const struct pace_ages *ages = input->ages;
    double span = (double)input->capacity_bytes * share;
    double least = (double)ages->part_bytes; /* what is late is as urgent as what is nearly so */
    double most = 0.0;
    double pages = 0.0;
    uint64_t first = input->clean_lsn / ages->part_bytes;
    uint64_t last = input->reserved_lsn / ages->part_bytes;
    if (last - first >= PACE_AGES)
        first = last - PACE_AGES + 1;
    for (uint64_t part = first; part <= last; part++) {
        pages += ages->pages[part % PACE_AGES];
        double left = (double)(part * ages->part_bytes) + span - (double)input->reserved_lsn;
        double cost = pages / (left > least ? left : least);
        most = cost > most ? cost : most;
    }
    return most;
}

/* ---- How much to write ---- */

/* Pages a second that the log asks for. */
static double log_pages_s(const struct pace *pace, const struct pace_input *input, double age)
{
    double pages_s = log_rate(pace) * pages_a_byte(input, aim_share);
    double ramp = (age - ramp_lowest) / (ramp_highest - ramp_lowest);
    pages_s *= ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
    if (age < unbounded_from && pages_s > input->io_capacity_max)
        pages_s = input->io_capacity_max;
    return pages_s;
}

/* Pages a second that are written however young: too many are dirty, or nobody minds. */
static double unasked_pages_s(const struct pace *pace, const struct pace_input *input)
{
    double allowed = (double)input->pages_total * input->dirty_percent_max / 100.0;
    double dirty = (double)input->pages_dirty / (allowed > 1.0 ? allowed : 1.0);
    double pages_s = 0.0;
    if (dirty > dirty_lowest)
        pages_s = (dirty - dirty_lowest) / (1.0 - dirty_lowest) * input->io_capacity_max;
    if (pages_s > input->io_capacity_max)
        pages_s = input->io_capacity_max;
    bool is_idle = (double)(input->now_ns - pace->changed_ns) >= idle_s * (double)NS_PER_S;
    if (is_idle && pages_s < input->io_capacity)
        pages_s = input->io_capacity;
    return pages_s;
}

/* What is due grows with time, but no more than a second's worth is saved up. */
static void accrue(struct pace *pace, const struct pace_input *input, double age, double tick_s)
{
    double pages_s = log_pages_s(pace, input, age);
    double unasked = unasked_pages_s(pace, input);
    pages_s = unasked > pages_s ? unasked : pages_s;
    pace->due_pages += pages_s * tick_s;
    if (pace->due_pages > pages_s)
        pace->due_pages = pages_s;
    if (pace->due_pages > input->pages_dirty || age >= pressed_from)
        pace->due_pages = input->pages_dirty;
}

/* ---- How far the log may grow ---- */

/* A bucket of log: it fills at the rate that the devices can follow, and holds little. While there
   is room enough it is only made sure that a burst does not go unnoticed. */
static void move_limit(struct pace *pace, const struct pace_input *input, double age, double tick_s)
{
    double cost = pages_a_byte(input, limit_share);
    double end = (double)input->reserved_lsn;
    pace->limit_bytes_s = 0.0;
    if (age <= slow_from || cost <= 0.0) {
        pace->limit_lsn = end + (double)input->capacity_bytes * calm_step;
        return;
    }
    double share = (age - slow_from) / (slow_fully_from - slow_from);
    double bytes_s = pace->device_pages_s / cost / (share < 1.0 ? share : 1.0) + 1.0;
    double saved_s = tick_s > limit_saved_s ? tick_s : limit_saved_s;
    pace->limit_lsn += bytes_s * tick_s;
    if (pace->limit_lsn < end)
        pace->limit_lsn = end;
    if (pace->limit_lsn > end + bytes_s * saved_s)
        pace->limit_lsn = end + bytes_s * saved_s;
    pace->limit_bytes_s = bytes_s;
}

/* ---- Orders ---- */

/* The log fills a small part of the ring in between. */
static uint64_t next_ns(const struct pace *pace, const struct pace_input *input)
{
    double tick_s = (double)input->capacity_bytes / ticks_in_ring / (log_rate(pace) + 1.0);
    if (log_rate(pace) < 1.0)
        tick_s = idle_s;
    else if (tick_s > busy_tick_max_s)
        tick_s = busy_tick_max_s;
    if (tick_s < tick_min_s || pace->limit_bytes_s > 0.0)
        tick_s = tick_min_s;
    return (uint64_t)(tick_s * (double)NS_PER_S);
}

struct pace_order pace_step(struct pace *pace, const struct pace_input *input)
{
    double age = (double)(input->reserved_lsn - input->clean_lsn) / (double)input->capacity_bytes;
    double tick_s = (double)(input->now_ns - pace->last_ns) / (double)NS_PER_S;
    if (pace->last_ns == 0) {
        pace->last_lsn = input->reserved_lsn;
        pace->changed_ns = input->now_ns;
        tick_s = 0.0;
    }
    if (tick_s > 0.0) {
        tick_s = tick_s < tick_max_s ? tick_s : tick_max_s;
        measure_rate(pace, input, tick_s);
        accrue(pace, input, age, tick_s);
    }
    move_limit(pace, input, age, tick_s);
    pace->last_ns = input->now_ns;
    return (struct pace_order){
        .pages = (unsigned)pace->due_pages,
        .next_ns = next_ns(pace, input),
        .limit_lsn = (uint64_t)pace->limit_lsn,
        .limit_bytes_s = (uint64_t)pace->limit_bytes_s,
    };
}

void pace_written(struct pace *pace, unsigned pages)
{
    pace->due_pages = pace->due_pages > pages ? pace->due_pages - pages : 0.0;
}

void pace_measured(struct pace *pace, unsigned pages, uint64_t took_ns)
{
    double pages_s = pages / ((double)(took_ns + 1) / (double)NS_PER_S);
    pace->device_pages_s += (pages_s - pace->device_pages_s) / 8.0;
}
