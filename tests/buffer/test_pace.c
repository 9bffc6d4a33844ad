/*
 * The writer's pace, tried on made-up devices, logs and pages in made-up time: it keeps the ring
 * from filling up, writes no earlier than it must, and neither writes nor slows anybody down by
 * fits and starts.
 */
#include "buffer/pace_internal.h"

#include "base/clock.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    BATCH_MAX = 128,
    PAGES_MAX = 100000,
    POOL_PAGES = 100000,
    UPDATE_BYTES = 128,
    SECONDS_MAX = 600,
};

#define MIB (1024.0 * 1024.0)

/* Updates of random pages, as many as the log lets through, and a device. */
struct plant {
    struct pace pace;
    struct pace_ages ages;
    struct rng rng;
    double now_s;
    double wanted_s; /* updates a second that would be done if nothing stood in the way */
    double device_s; /* pages a second */
    uint32_t pages;  /* that are updated */
    uint64_t capacity_bytes;
    uint64_t end_lsn;
    struct pace_order order; /* the last one, and when it came */
    double order_s;
    uint64_t oldest_lsns[PAGES_MAX]; /* 0: clean */
    uint32_t queue[PAGES_MAX + 1];   /* dirty pages, oldest first, in a ring */
    uint32_t queue_first;
    uint32_t queue_count;
    double owed; /* updates, parts included */
    double last_update_s;
    double silence_longest_s;
    uint64_t updates;
    uint64_t written;
    uint64_t written_in[SECONDS_MAX]; /* by second */
    uint64_t updates_in[SECONDS_MAX];
};

static uint64_t clean_lsn(const struct plant *plant)
{
    return plant->queue_count > 0 ? plant->oldest_lsns[plant->queue[plant->queue_first]]
                                  : plant->end_lsn;
}

static bool is_full(const struct plant *plant)
{
    return plant->end_lsn - clean_lsn(plant) >= plant->capacity_bytes;
}

static void update(struct plant *plant)
{
    uint32_t page = (uint32_t)rng_below(&plant->rng, plant->pages);
    if (plant->oldest_lsns[page] == 0) {
        plant->oldest_lsns[page] = plant->end_lsn;
        ++*pace_ages_at(&plant->ages, plant->end_lsn);
        plant->queue[(plant->queue_first + plant->queue_count++) % (PAGES_MAX + 1)] = page;
    }
    plant->end_lsn += UPDATE_BYTES;
    plant->updates++;
    plant->updates_in[(unsigned)plant->now_s]++;
}

/* As redo_reserve does. */
static bool is_at_limit(const struct plant *plant)
{
    double moved = (double)plant->order.limit_bytes_s * (plant->now_s - plant->order_s);
    return (double)plant->end_lsn >= (double)plant->order.limit_lsn + moved;
}

static bool must_wait(const struct plant *plant)
{
    return is_full(plant) || (plant->order.limit_bytes_s > 0 && is_at_limit(plant));
}

/* Somebody finds the ring full, or is to tell that he came to the limit. */
static bool is_woken(const struct plant *plant)
{
    return plant->wanted_s > 0.0 &&
           (is_full(plant) || (plant->order.limit_bytes_s == 0 && is_at_limit(plant)));
}

/* Time passes; one who sleeps is woken when the ring is full or a limit is told. */
static void pass(struct plant *plant, double time_s, bool is_sleeping)
{
    while (time_s > 0.0 && !(is_sleeping && is_woken(plant))) {
        double step_s = fmin(time_s, 0.0001);
        time_s -= step_s;
        plant->now_s += step_s;
        for (plant->owed += plant->wanted_s * step_s; plant->owed >= 1.0 && !must_wait(plant);
             plant->owed--) {
            plant->silence_longest_s =
                fmax(plant->silence_longest_s, plant->now_s - plant->last_update_s);
            plant->last_update_s = plant->now_s;
            update(plant);
        }
        plant->owed = fmin(plant->owed, 1.0); /* who waits does not ask twice */
    }
}

/* A batch of the oldest pages: no longer than the cleaner lets it be. */
static void write_batch(struct plant *plant, unsigned pages)
{
    unsigned most = (unsigned)fmax(8.0, fmin(BATCH_MAX, plant->device_s / 10.0));
    uint32_t batch[BATCH_MAX];
    unsigned count = 0;
    for (; count < pages && count < most && plant->queue_count > 0; count++) {
        batch[count] = plant->queue[plant->queue_first];
        plant->queue_first = (plant->queue_first + 1) % (PAGES_MAX + 1);
        plant->queue_count--;
        uint64_t *oldest_lsn = &plant->oldest_lsns[batch[count]];
        --*pace_ages_at(&plant->ages, *oldest_lsn);
        *oldest_lsn = 0;
    }
    double took_s = count / plant->device_s;
    pass(plant, took_s, false);
    plant->written += count;
    plant->written_in[(unsigned)plant->now_s] += count;
    pace_written(&plant->pace, count);
    pace_measured(&plant->pace, count, (uint64_t)(took_s * (double)NS_PER_S));
}

static struct pace_order step(struct plant *plant)
{
    struct pace_input input = {
        .now_ns = (uint64_t)(plant->now_s * (double)NS_PER_S) + 1,
        .reserved_lsn = plant->end_lsn,
        .clean_lsn = clean_lsn(plant),
        .capacity_bytes = plant->capacity_bytes,
        .ages = &plant->ages,
        .pages_dirty = plant->queue_count,
        .pages_total = POOL_PAGES,
        .io_capacity = 200,
        .io_capacity_max = 2000,
        .dirty_percent_max = 90,
    };
    plant->order = pace_step(&plant->pace, &input);
    plant->order_s = plant->now_s;
    return plant->order;
}

/* As the cleaner does. */
static void run(struct plant *plant, double until_s)
{
    while (plant->now_s < until_s) {
        struct pace_order order = step(plant);
        bool is_urged = is_full(plant) && plant->wanted_s > 0.0;
        if (order.pages > 0 || is_urged)
            write_batch(plant, is_urged ? BATCH_MAX : order.pages);
        else
            pass(plant, (double)order.next_ns / (double)NS_PER_S, true);
    }
}

static void start(struct plant *plant, double wanted_s, uint32_t pages, double device_s,
                  double ring_mib)
{
    memset(plant, 0, sizeof(*plant));
    pace_init(&plant->pace, 2000);
    rng_init(&plant->rng, 1);
    plant->end_lsn = 1 << 20;
    plant->order.limit_lsn = UINT64_MAX;
    plant->wanted_s = wanted_s;
    plant->pages = pages;
    plant->device_s = device_s;
    plant->capacity_bytes = (uint64_t)(ring_mib * MIB);
    pace_ages_init(&plant->ages, plant->capacity_bytes);
}

static double age(const struct plant *plant)
{
    return (double)(plant->end_lsn - clean_lsn(plant)) / (double)plant->capacity_bytes;
}

static uint64_t least_in(const uint64_t *series, unsigned from, unsigned to)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = from; i < to; i++)
        least = series[i] < least ? series[i] : least;
    return least;
}

static uint64_t most_in(const uint64_t *series, unsigned from, unsigned to)
{
    uint64_t most = 0;
    for (unsigned i = from; i < to; i++)
        most = series[i] > most ? series[i] : most;
    return most;
}

static struct plant *plant; /* too large for a stack */

static int setup(void **state)
{
    (void)state;
    plant = malloc(sizeof(*plant));
    return plant == NULL;
}

static int teardown(void **state)
{
    (void)state;
    free(plant);
    return 0;
}

/* ---- Steady work ---- */

static void test_the_ring_is_used_but_never_full(void **state)
{
    (void)state;
    static const double rings_mib[] = {8, 64, 256};
    for (unsigned r = 0; r < 3; r++) {
        start(plant, 20000, 20000, 20000, rings_mib[r]); /* 2.4 MiB of log a second */
        double until_s = fmin(rings_mib[r] * 4, 400) + 60;
        run(plant, until_s);
        assert_true(plant->silence_longest_s < 0.01);
        assert_true((double)plant->updates > until_s * 20000 * 0.999); /* none was slowed down */
        assert_true(age(plant) > 0.6 && age(plant) < 0.9);
    }
}

static void test_nothing_is_written_while_the_ring_is_nearly_empty(void **state)
{
    (void)state;
    start(plant, 10000, 50000, 20000, 1000);
    run(plant, 100); /* an eighth of the ring */
    assert_int_equal(plant->written, 0);
}

static void test_steady_work_is_written_steadily(void **state)
{
    (void)state;
    start(plant, 20000, 20000, 20000, 32);
    run(plant, 120);
    uint64_t least = least_in(plant->written_in, 60, 119);
    uint64_t most = most_in(plant->written_in, 60, 119);
    assert_true(least > 0 && most < 2 * least);
}

/* ---- Bursts ---- */

static void test_a_burst_that_the_ring_can_hold_is_not_slowed_down(void **state)
{
    (void)state;
    start(plant, 1000, 5000, 2000, 64);
    run(plant, 20);
    plant->wanted_s = 200000; /* 24 MiB a second, for a second */
    uint64_t before = plant->updates;
    run(plant, plant->now_s + 1);
    assert_true(plant->updates - before > 195000);
    assert_true(plant->silence_longest_s < 0.01);
}

/* The whole pool becomes dirty in a moment, and the device needs many times as long as the log is
   filled in. Everybody is slowed down, nobody stopped. */
static void test_a_burst_that_nothing_can_hold_slows_down_but_never_stops(void **state)
{
    (void)state;
    static const double devices_s[] = {20000, 2000, 150}; /* the last is a disk */
    static const double rings_mib[] = {8, 64};
    for (unsigned d = 0; d < 3; d++)
        for (unsigned r = 0; r < 2; r++) {
            start(plant, 100, 8000, devices_s[d], rings_mib[r]);
            run(plant, 10);
            plant->wanted_s = 250000;
            run(plant, 100);
            assert_true(plant->silence_longest_s < 0.11); /* a batch */
            double mean = (double)plant->updates / 90;
            assert_true((double)least_in(plant->updates_in, 12, 99) > mean / 4);
            assert_true((double)least_in(plant->updates_in, 60, 99) > mean / 2);
        }
}

/* ---- Without the log's asking ---- */

static void test_an_idle_log_lets_everything_become_clean_at_io_capacity(void **state)
{
    (void)state;
    start(plant, 10000, 50000, 20000, 1000);
    run(plant, 1);
    plant->wanted_s = 0;
    uint32_t dirty = plant->queue_count;
    run(plant, 30);
    assert_true(plant->written_in[20] > 190 && plant->written_in[20] < 210);
    run(plant, 5 + dirty / 200);
    assert_int_equal(plant->queue_count, 0);
}

static void test_too_many_dirty_pages_are_written_whatever_the_log_says(void **state)
{
    (void)state;
    start(plant, 100000, PAGES_MAX, 20000, 100000);
    run(plant, 10); /* nearly all are dirty now */
    assert_true(plant->queue_count > 0.85 * POOL_PAGES);
    assert_true(plant->written > 1000);
    plant->wanted_s = 1000;
    run(plant, 100);
    assert_true(plant->queue_count < 0.9 * POOL_PAGES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_ring_is_used_but_never_full),
        TEST(test_nothing_is_written_while_the_ring_is_nearly_empty),
        TEST(test_steady_work_is_written_steadily),
        TEST(test_a_burst_that_the_ring_can_hold_is_not_slowed_down),
        TEST(test_a_burst_that_nothing_can_hold_slows_down_but_never_stops),
        TEST(test_an_idle_log_lets_everything_become_clean_at_io_capacity),
        TEST(test_too_many_dirty_pages_are_written_whatever_the_log_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
