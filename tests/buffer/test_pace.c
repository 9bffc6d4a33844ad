/*
 * The cleaner's pace, tried on made-up devices and logs in made-up time: it keeps the ring from
 * filling up, writes no earlier than it must, and does neither by fits and starts.
 */
#include "buffer/pace_internal.h"

#include "base/clock.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    BATCH = 128,
    PAGES_TOTAL = 100000,
    SECONDS_MAX = 600,
};

#define MIB (1024.0 * 1024.0)

/* A log that grows as fast as it is let, and a device. A page becomes dirty for the first time with
   each so many bytes of log. */
struct plant {
    struct pace pace;
    double now_s;
    double log_bytes_s;
    double bytes_a_page;
    double pages_s;
    double capacity_bytes;
    double dirty_max; /* how many pages there are to be changed */
    double tail;
    double clean; /* the oldest dirty page's LSN */
    double written;
    double blocked_longest_s;
    double written_in[SECONDS_MAX]; /* pages, and bytes of log, by second */
    double logged_in[SECONDS_MAX];
};

/* Time passes; the log grows unless the ring is full. */
static void pass(struct plant *plant, double time_s)
{
    double room = plant->capacity_bytes - (plant->tail - plant->clean);
    double grown = plant->log_bytes_s * time_s;
    double blocked_s = 0.0;
    if (grown > room) {
        blocked_s = (grown - room) / plant->log_bytes_s;
        grown = room;
    }
    if (blocked_s > plant->blocked_longest_s)
        plant->blocked_longest_s = blocked_s;
    plant->logged_in[(unsigned)plant->now_s] += grown;
    plant->tail += grown;
    plant->now_s += time_s;
}

static double dirty_pages(const struct plant *plant)
{
    return floor((plant->tail - plant->clean) / plant->bytes_a_page);
}

/* Write so many of the oldest pages, in batches that take no longer than the cleaner lets them. */
static void write_pages(struct plant *plant, double pages)
{
    while (pages >= 1.0) {
        double batch = floor(fmin(pages, fmin(BATCH, plant->pages_s / 10.0)));
        pass(plant, batch / plant->pages_s);
        plant->clean += batch * plant->bytes_a_page;
        plant->written += batch;
        plant->written_in[(unsigned)plant->now_s] += batch;
        pages -= batch;
    }
}

static struct pace_order step(struct plant *plant)
{
    struct pace_input input = {
        .now_ns = (uint64_t)(plant->now_s * (double)NS_PER_S) + 1,
        .reserved_lsn = (uint64_t)plant->tail,
        .clean_lsn = (uint64_t)plant->clean,
        .capacity_bytes = (uint64_t)plant->capacity_bytes,
        .pages_dirty = (uint32_t)dirty_pages(plant),
        .pages_total = PAGES_TOTAL,
        .io_capacity = 200,
        .io_capacity_max = 2000,
        .dirty_percent_max = 90,
    };
    return pace_step(&plant->pace, &input);
}

/* Wait, unless somebody finds the ring full and asks for a round. @return true if so */
static bool sleep_until_urged(struct plant *plant, double time_s)
{
    double room = plant->capacity_bytes - (plant->tail - plant->clean);
    double full_s = plant->log_bytes_s > 0.0 ? room / plant->log_bytes_s : INFINITY;
    pass(plant, fmin(time_s, full_s));
    return full_s <= time_s;
}

/* As the cleaner does. */
static void run(struct plant *plant, double until_s)
{
    bool is_urged = false;
    while (plant->now_s < until_s) {
        double before = plant->written;
        struct pace_order order = step(plant);
        if (order.is_pressed || is_urged) {
            write_pages(plant, fmin(fmin(BATCH, plant->pages_s / 10.0), dirty_pages(plant)));
        } else {
            double due = ((double)order.below_lsn - plant->clean) / plant->bytes_a_page;
            write_pages(plant, fmin(fmin(due, order.pages_max), dirty_pages(plant)));
            double rest = order.unasked_pages - (plant->written - before);
            write_pages(plant, fmin(rest, dirty_pages(plant)));
        }
        pace_written(&plant->pace, (unsigned)(plant->written - before));
        is_urged = sleep_until_urged(plant, fmax((double)order.next_ns / (double)NS_PER_S, 1e-4));
    }
}

static void start(struct plant *plant, double log_mib_s, double bytes_a_page, double pages_s,
                  double capacity_mib)
{
    memset(plant, 0, sizeof(*plant));
    pace_init(&plant->pace);
    plant->tail = plant->clean = 1e6;
    plant->log_bytes_s = log_mib_s * MIB;
    plant->bytes_a_page = bytes_a_page;
    plant->pages_s = pages_s;
    plant->capacity_bytes = capacity_mib * MIB;
}

static double age(const struct plant *plant)
{
    return (plant->tail - plant->clean) / plant->capacity_bytes;
}

/* ---- Steady work ---- */

static void test_writing_keeps_step_where_the_ring_is_well_filled_but_not_full(void **state)
{
    (void)state;
    static const double rates_mib_s[] = {0.5, 4, 10};
    static const double rings_mib[] = {64, 192, 1024};
    for (unsigned r = 0; r < 3; r++)
        for (unsigned c = 0; c < 3; c++) {
            struct plant plant;
            start(&plant, rates_mib_s[r], 8192, 20000, rings_mib[c]);
            double until_s = fmin(10.0 * rings_mib[c] / rates_mib_s[r] + 30.0, SECONDS_MAX - 10);
            run(&plant, until_s);
            assert_true(plant.blocked_longest_s < 0.001);
            if (until_s < SECONDS_MAX - 10) /* long enough to settle */
                assert_true(age(&plant) > 0.5 && age(&plant) < 0.75);
        }
}

static void test_nothing_is_written_while_the_ring_is_nearly_empty(void **state)
{
    (void)state;
    struct plant plant;
    start(&plant, 1, 8192, 20000, 1000);
    run(&plant, 100); /* a tenth of the ring */
    assert_true(plant.written == 0);
}

/* Once settled, no second is much unlike another. */
static void test_steady_work_is_written_steadily(void **state)
{
    (void)state;
    struct plant plant;
    start(&plant, 10, 8192, 20000, 64);
    run(&plant, 90);
    double mean = 10 * MIB / 8192;
    for (unsigned second = 60; second < 89; second++)
        assert_true(plant.written_in[second] > mean * 0.7 && plant.written_in[second] < mean * 1.3);
}

/* ---- Bursts ---- */

static void test_a_burst_that_the_device_can_carry_never_blocks(void **state)
{
    (void)state;
    static const double rings_mib[] = {8, 32, 192};
    for (unsigned c = 0; c < 3; c++) {
        struct plant plant;
        start(&plant, 0.1, 8192, 20000, rings_mib[c]);
        run(&plant, 20);
        plant.log_bytes_s = 40 * MIB; /* 5120 pages a second, above io_capacity_max */
        run(&plant, 60);
        assert_true(plant.blocked_longest_s < 0.01); /* the rest of a batch */
        plant.log_bytes_s = 0.1 * MIB;
        run(&plant, 80);
        plant.log_bytes_s = 40 * MIB;
        run(&plant, 120);
        assert_true(plant.blocked_longest_s < 0.01); /* the rest of a batch */
    }
}

/* The log wants three times what the device can write: everybody is slowed down, nobody stopped. */
static void test_a_device_that_is_too_slow_slows_down_but_never_stops(void **state)
{
    (void)state;
    static const double devices[] = {20000, 2000, 150}; /* pages a second; the last is a disk */
    for (unsigned d = 0; d < 3; d++) {
        struct plant plant;
        double able_mib_s = devices[d] * 8192 / MIB;
        start(&plant, 3 * able_mib_s, 8192, devices[d], 16);
        run(&plant, 120);
        assert_true(plant.blocked_longest_s < 0.12);
        for (unsigned second = 60; second < 119; second++)
            assert_true(plant.logged_in[second] > able_mib_s * MIB * 0.5);
    }
}

/* ---- Without the log's asking ---- */

static void test_an_idle_log_lets_everything_become_clean_at_io_capacity(void **state)
{
    (void)state;
    struct plant plant;
    start(&plant, 10, 8192, 20000, 1000);
    run(&plant, 10);
    plant.log_bytes_s = 0;
    double dirty = dirty_pages(&plant);
    run(&plant, 40);
    double written = plant.written_in[20];
    assert_true(written > 190 && written < 210);
    run(&plant, 20 + dirty / 200);
    assert_true(dirty_pages(&plant) == 0);
}

static void test_too_many_dirty_pages_are_written_whatever_the_log_says(void **state)
{
    (void)state;
    struct plant plant;
    start(&plant, 10, 1000, 20000, 100000); /* 10 thousand pages a second, no end of ring */
    run(&plant, 8);
    assert_true(dirty_pages(&plant) > 0.7 * 0.9 * PAGES_TOTAL);
    assert_true(plant.written > 0);
    plant.log_bytes_s = 1.0 * MIB; /* half of io_capacity_max */
    run(&plant, 200);
    assert_true(dirty_pages(&plant) < 0.9 * PAGES_TOTAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writing_keeps_step_where_the_ring_is_well_filled_but_not_full),
        cmocka_unit_test(test_nothing_is_written_while_the_ring_is_nearly_empty),
        cmocka_unit_test(test_steady_work_is_written_steadily),
        cmocka_unit_test(test_a_burst_that_the_device_can_carry_never_blocks),
        cmocka_unit_test(test_a_device_that_is_too_slow_slows_down_but_never_stops),
        cmocka_unit_test(test_an_idle_log_lets_everything_become_clean_at_io_capacity),
        cmocka_unit_test(test_too_many_dirty_pages_are_written_whatever_the_log_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
