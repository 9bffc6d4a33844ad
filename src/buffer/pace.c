/*
 * pace.c -- how much to write now: adaptive flushing as a proportional controller.
 *
 * What must not happen is that the ring of the log fills up with changes of dirty pages, for then
 * everybody stands still until some have been written. What costs is to write a page earlier than
 * necessary: changed again, it is written again. So the distance between the oldest dirty page and
 * the end of the log is kept near a share of the ring, PACE_TARGET: there the oldest changes become
 * durable as fast as new ones come, below it more slowly and above it faster. The farther, the
 * more, and nothing suddenly, so that what the device is left with for reading changes smoothly.
 * (InnoDB's adaptive flushing counts the pages to write for the same purpose; here they are given
 * by an LSN on the flush list, whatever each page's share of the log.)
 */
#include "buffer/pace_internal.h"

#include "base/clock.h"

#include <string.h>

static const double pace_lowest = 0.125; /* of the ring: below it the log asks for nothing */
static const double pace_target = 0.625; /* where writing keeps step with the log */
static const double pace_steep = 0.75;   /* from here on it overtakes it */
static const double pace_pressed = 0.9;  /* and here it is done without regard to io_capacity_max */

static const double fast_s = 0.2; /* time constants of the log's rate: to rise quickly ... */
static const double slow_s = 3.0; /* ... and to forget slowly */
static const double idle_s = 1.0;
static const double dirty_lowest = 0.7; /* of max_dirty_pages_pct */
static const double tick_max_s = 1.0;   /* what was missed in a longer one is not made up for */
static const double tick_min_s = 0.01;
static const double busy_tick_max_s = 0.25; /* small portions often: smooth rather than furious */
static const double ticks_in_ring = 32.0;

void pace_init(struct pace *pace)
{
    memset(pace, 0, sizeof(*pace));
}

/* How fast changes are to become durable, over how fast they come. */
static double speed_at(double age)
{
    if (age <= pace_lowest)
        return 0.0;
    double speed = (age - pace_lowest) / (pace_target - pace_lowest);
    if (age > pace_steep)
        speed += (age - pace_steep) * 20.0;
    return speed;
}

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

static uint64_t limit(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* Go on from where the last order led, but if that could not be carried out do not run ahead of it
   by more than a second's work. */
static void move_target(struct pace *pace, const struct pace_input *input, double bytes_s,
                        double tick_s)
{
    if (pace->target_lsn < input->clean_lsn)
        pace->target_lsn = input->clean_lsn;
    pace->target_lsn += (uint64_t)(bytes_s * tick_s);
    pace->target_lsn = limit(pace->target_lsn, input->clean_lsn + (uint64_t)bytes_s);
    pace->target_lsn = limit(pace->target_lsn, input->reserved_lsn);
}

/* What is due grows with time, but no more than a second's worth is saved up. */
static double accrue(double due, double pages_s, double tick_s)
{
    due += pages_s * tick_s;
    return due < pages_s ? due : pages_s;
}

/* The log fills a small part of the ring in between. */
static uint64_t next_ns(const struct pace *pace, uint64_t capacity_bytes)
{
    double tick_s = (double)capacity_bytes / ticks_in_ring / (log_rate(pace) + 1.0);
    if (log_rate(pace) < 1.0)
        tick_s = idle_s;
    else if (tick_s > busy_tick_max_s)
        tick_s = busy_tick_max_s;
    if (tick_s < tick_min_s)
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
    } else if (tick_s > 0.0) {
        tick_s = tick_s < tick_max_s ? tick_s : tick_max_s;
        measure_rate(pace, input, tick_s);
        move_target(pace, input, log_rate(pace) * speed_at(age), tick_s);
        pace->unasked_pages = accrue(pace->unasked_pages, unasked_pages_s(pace, input), tick_s);
        pace->allowed_pages = accrue(pace->allowed_pages, input->io_capacity_max, tick_s);
    }
    pace->last_ns = input->now_ns;
    bool is_pressed = age >= pace_pressed;
    return (struct pace_order){
        .below_lsn = pace->target_lsn,
        .pages_max = (unsigned)pace->allowed_pages,
        .unasked_pages = (unsigned)limit((uint64_t)pace->unasked_pages, input->pages_dirty),
        .is_pressed = is_pressed,
        .next_ns = is_pressed ? 0 : next_ns(pace, input->capacity_bytes),
    };
}

void pace_written(struct pace *pace, unsigned pages)
{
    pace->unasked_pages = pace->unasked_pages > pages ? pace->unasked_pages - pages : 0.0;
    pace->allowed_pages = pace->allowed_pages > pages ? pace->allowed_pages - pages : 0.0;
}
