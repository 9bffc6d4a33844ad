#include "base/memory.h"
#include "base/rng.h"
#include "bench/meter.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "repeat.h"

/* A virtual clock that the test moves: it is its only participant. */
static struct clock *the_clock;
static struct meter *meter;

static const uint64_t INTERVAL_NS = NS_PER_S;
static const uint64_t SLOT_NS = (NS_PER_S + METER_SLOTS - 1) / METER_SLOTS;

static struct meter_options make_options(unsigned workers)
{
    struct meter_options options = {
        .clock = the_clock,
        .kinds = {"read", "write"},
        .workers = workers,
        .interval_ns = INTERVAL_NS,
        .silence_min_ns = 100 * NS_PER_MS,
    };
    return options;
}

static int set_up(void **state)
{
    (void)state;
    if (clock_open_virtual(&the_clock) != FIRN_OK)
        return -1;
    clock_join(the_clock);
    clock_wait_until(the_clock, 77); /* a start that is not 0 */
    struct meter_options options = make_options(2);
    return meter_open(&options, &meter) == FIRN_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    meter_close(meter);
    meter = NULL;
    clock_leave(the_clock);
    clock_close(the_clock);
    return 0;
}

/* One operation that completes at a time since the start, when it has become that time. */
static void complete_at(unsigned worker, uint64_t at_ns)
{
    uint64_t done_ns = 77 + at_ns;
    clock_wait_until(the_clock, done_ns);
    meter_record(meter_worker_at(meter, worker), 0, done_ns, done_ns, done_ns, 1);
}

/* Operations every millisecond from one time to another, the last one excluded. */
static void keep_busy(uint64_t from_ns, uint64_t to_ns)
{
    for (uint64_t at_ns = from_ns; at_ns < to_ns; at_ns += NS_PER_MS)
        complete_at(at_ns / NS_PER_MS % 2, at_ns);
}

static const struct meter_interval *tick_at(uint64_t at_ns)
{
    clock_wait_until(the_clock, 77 + at_ns);
    return meter_tick(meter);
}

static void assert_near(uint64_t value, uint64_t expected, uint64_t error)
{
    if (value + error < expected || value > expected + error)
        fail_msg("%llu is not within %llu of %llu", (unsigned long long)value,
                 (unsigned long long)error, (unsigned long long)expected);
}

static void intervals_add_up_to_the_total(void **state)
{
    (void)state;
    uint64_t operations = 0;
    uint64_t bytes = 0;
    for (unsigned second = 0; second < 3; second++) {
        for (unsigned i = 0; i <= second; i++) {
            uint64_t now_ns = clock_now(the_clock);
            meter_record(meter_worker_at(meter, i % 2), i % 2, now_ns, now_ns,
                         now_ns + 1000 + second, 100);
        }
        const struct meter_interval *interval = tick_at((second + 1) * NS_PER_S);
        assert_int_equal(interval->start_ns, second * NS_PER_S);
        assert_int_equal(interval->length_ns, NS_PER_S);
        uint64_t reads = interval->kinds[0].latency_ns.count;
        uint64_t writes = interval->kinds[1].latency_ns.count;
        assert_int_equal(reads + writes, second + 1);
        assert_int_equal(interval->kinds[0].latency_ns.max, 1000 + second);
        assert_int_equal(interval->kinds[0].latency_ns.min, 1000 + second);
        operations += reads + writes;
        bytes += interval->kinds[0].bytes + interval->kinds[1].bytes;
    }
    const struct meter_interval *total = meter_total(meter);
    assert_int_equal(total->start_ns, 0);
    assert_int_equal(total->length_ns, 3 * NS_PER_S);
    assert_int_equal(total->kinds[0].latency_ns.count + total->kinds[1].latency_ns.count,
                     operations);
    assert_int_equal(total->kinds[0].bytes + total->kinds[1].bytes, bytes);
    assert_int_equal(bytes, 600);
    assert_int_equal(total->kinds[0].latency_ns.min, 1000);
    assert_int_equal(total->kinds[0].latency_ns.max, 1002);
    assert_int_equal(total->kinds[0].response_ns.count, 0);
    assert_int_equal(meter_worker_operations(meter_worker_at(meter, 0)) +
                         meter_worker_operations(meter_worker_at(meter, 1)),
                     6);
}

static void an_open_loop_times_from_the_schedule_too(void **state)
{
    (void)state;
    struct meter_options options = make_options(1);
    options.open_loop = true;
    struct meter *open = NULL;
    assert_int_equal(meter_open(&options, &open), FIRN_OK);
    meter_record(meter_worker_at(open, 0), 1, 100, 500, 600, 1);
    const struct meter_interval *interval = meter_tick(open);
    assert_int_equal(interval->kinds[1].latency_ns.max, 100);
    assert_int_equal(interval->kinds[1].response_ns.max, 500);
    meter_close(open);
}

static void starting_anew_drops_what_was_before(void **state)
{
    (void)state;
    keep_busy(0, 300 * NS_PER_MS);
    tick_at(NS_PER_S);
    complete_at(0, NS_PER_S);
    meter_start(meter);
    assert_int_equal(meter_worker_operations(meter_worker_at(meter, 0)), 0);
    complete_at(1, NS_PER_S + 500 * NS_PER_MS);
    const struct meter_interval *interval = tick_at(2 * NS_PER_S);
    assert_int_equal(interval->start_ns, 0);
    assert_int_equal(interval->kinds[0].latency_ns.count, 1);
    assert_int_equal(meter_total(meter)->kinds[0].latency_ns.count, 1);
    assert_int_equal(meter_total(meter)->length_ns, NS_PER_S);
    assert_near(interval->silence_ns, 500 * NS_PER_MS, 2 * SLOT_NS);
}

static void a_silence_inside_an_interval_is_known_to_a_slot_at_either_end(void **state)
{
    (void)state;
    keep_busy(0, 200 * NS_PER_MS);
    keep_busy(700 * NS_PER_MS, NS_PER_S);
    const struct meter_interval *interval = tick_at(NS_PER_S);
    assert_near(interval->silence_start_ns, 199 * NS_PER_MS, 2 * SLOT_NS);
    assert_true(interval->silence_ns <= 501 * NS_PER_MS);
    assert_near(interval->silence_ns, 501 * NS_PER_MS, 2 * SLOT_NS);
    assert_int_equal(interval->silence_count, 1);
    assert_int_equal(interval->silences[0].length_ns, interval->silence_ns);
    assert_int_equal(interval->silent_ns, interval->silence_ns);
}

static void a_silence_over_many_intervals_is_one(void **state)
{
    (void)state;
    keep_busy(0, 600 * NS_PER_MS);
    const struct meter_interval *interval = tick_at(NS_PER_S);
    assert_near(interval->silence_ns, 400 * NS_PER_MS, 2 * NS_PER_MS);
    assert_int_equal(interval->silence_count, 0); /* it has not ended */
    for (unsigned second = 2; second <= 4; second++) {
        interval = tick_at(second * NS_PER_S);
        assert_near(interval->silence_start_ns, 600 * NS_PER_MS, 2 * NS_PER_MS);
        assert_near(interval->silence_ns, second * NS_PER_S - 600 * NS_PER_MS, 2 * NS_PER_MS);
        assert_int_equal(interval->silent_ns, NS_PER_S);
        assert_int_equal(interval->silence_count, 0);
    }
    keep_busy(4 * NS_PER_S + 600 * NS_PER_MS, 5 * NS_PER_S);
    interval = tick_at(5 * NS_PER_S);
    assert_int_equal(interval->silence_count, 1);
    assert_near(interval->silences[0].length_ns, 4 * NS_PER_S, 2 * NS_PER_MS);
    assert_near(interval->silence_ns, 4 * NS_PER_S, 2 * NS_PER_MS);
    assert_near(interval->silent_ns, 600 * NS_PER_MS, 2 * NS_PER_MS);
    assert_near(meter_total(meter)->silent_ns, 4 * NS_PER_S, 2 * NS_PER_MS);
    assert_int_equal(meter_total(meter)->silence_ns, interval->silence_ns);
}

static void every_silence_of_an_interval_is_listed_and_short_gaps_are_not(void **state)
{
    (void)state;
    uint64_t at_ns = 0;
    static const unsigned gaps_ms[] = {150, 40, 99, 120, 30, 200};
    for (unsigned i = 0; i < 6; i++) {
        complete_at(0, at_ns);
        at_ns += gaps_ms[i] * NS_PER_MS;
    }
    keep_busy(at_ns, NS_PER_S);
    const struct meter_interval *interval = tick_at(NS_PER_S);
    assert_int_equal(interval->silence_count, 3);
    assert_near(interval->silences[0].length_ns, 150 * NS_PER_MS, 2 * SLOT_NS);
    assert_near(interval->silences[1].start_ns, 289 * NS_PER_MS, 2 * SLOT_NS);
    assert_near(interval->silences[1].length_ns, 120 * NS_PER_MS, 2 * SLOT_NS);
    assert_near(interval->silences[2].length_ns, 200 * NS_PER_MS, 2 * SLOT_NS);
    assert_near(interval->silent_ns, 470 * NS_PER_MS, 6 * SLOT_NS);
}

static void one_busy_worker_ends_everybodys_silence(void **state)
{
    (void)state;
    for (uint64_t at_ms = 0; at_ms < 1000; at_ms += 10)
        complete_at(at_ms < 500 ? 0 : 1, at_ms * NS_PER_MS);
    const struct meter_interval *interval = tick_at(NS_PER_S);
    assert_near(interval->silence_ns, 10 * NS_PER_MS, 2 * SLOT_NS);
    assert_int_equal(interval->silent_ns, 0);
}

static void an_interval_closed_late_keeps_its_silences(void **state)
{
    (void)state;
    keep_busy(0, 1200 * NS_PER_MS);
    keep_busy(1700 * NS_PER_MS, 1800 * NS_PER_MS);
    const struct meter_interval *interval = tick_at(1800 * NS_PER_MS);
    assert_int_equal(interval->length_ns, 1800 * NS_PER_MS);
    assert_near(interval->silence_ns, 501 * NS_PER_MS, 2 * SLOT_NS);
}

static void far_past_the_slots_only_the_last_one_knows(void **state)
{
    (void)state;
    keep_busy(0, 2 * NS_PER_S);
    complete_at(0, 5 * NS_PER_S);
    const struct meter_interval *interval = tick_at(6 * NS_PER_S);
    assert_int_equal(interval->length_ns, 6 * NS_PER_S);
    assert_int_equal(interval->kinds[0].latency_ns.count, 2001);
    assert_true(interval->silence_ns < 2 * NS_PER_MS);
    interval = tick_at(7 * NS_PER_S);
    assert_int_equal(interval->silence_ns, NS_PER_S); /* and no more is claimed */
}

static void what_completes_while_an_interval_closes_ends_a_silence_in_the_next(void **state)
{
    (void)state;
    /* Recorded before the tick, yet completed 300 ms after the interval's end. */
    uint64_t done_ns = 77 + 1300 * NS_PER_MS;
    keep_busy(0, NS_PER_S);
    meter_record(meter_worker_at(meter, 0), 0, done_ns, done_ns, done_ns, 1);
    const struct meter_interval *interval = tick_at(NS_PER_S);
    assert_int_equal(interval->kinds[0].latency_ns.count, 1001);
    interval = tick_at(2 * NS_PER_S);
    assert_int_equal(interval->kinds[0].latency_ns.count, 0);
    assert_near(interval->silence_ns, 700 * NS_PER_MS, 2 * SLOT_NS);
    assert_near(interval->silence_start_ns, 1300 * NS_PER_MS, 2 * SLOT_NS);
}

static void an_interval_without_length_is_harmless(void **state)
{
    (void)state;
    complete_at(0, 0);
    const struct meter_interval *interval = tick_at(0);
    assert_int_equal(interval->length_ns, 0);
    assert_int_equal(interval->kinds[0].latency_ns.count, 1);
    interval = tick_at(NS_PER_S);
    assert_near(interval->silence_ns, NS_PER_S, 2 * SLOT_NS);
}

/* What the slots must come to, computed from the completion times themselves. */
static uint64_t longest_gap(const uint64_t *times, unsigned count, uint64_t end_ns)
{
    uint64_t longest = 0;
    uint64_t last = 0;
    for (unsigned i = 0; i <= count; i++) {
        uint64_t next = i < count ? times[i] : end_ns;
        if (next - last > longest)
            longest = next - last;
        last = next;
    }
    return longest;
}

static void random_completions_give_the_gaps_between_them(void **state)
{
    (void)state;
    uint64_t seed = test_seed(11);
    struct rng rng;
    rng_init(&rng, seed);
    enum { TICKS = 40, TIMES_MAX = 100000 };
    static uint64_t times[TIMES_MAX];
    unsigned count = 0;
    uint64_t end_ns = 0;
    for (unsigned tick = 1; tick <= TICKS; tick++) {
        uint64_t at_ns = end_ns;
        /* Ticks come late at random; the pace changes from tick to tick. */
        end_ns = tick * NS_PER_S + rng_below(&rng, 900 * NS_PER_MS);
        double mean_ns = (double)(NS_PER_MS << rng_below(&rng, 11));
        for (;;) {
            uint64_t next_ns = at_ns + (uint64_t)rng_exponential(&rng, mean_ns);
            if (next_ns >= end_ns)
                break;
            at_ns = next_ns;
            times[count++] = at_ns;
            assert_true(count < TIMES_MAX);
            complete_at((unsigned)rng_below(&rng, 2), at_ns);
        }
        tick_at(end_ns);
        uint64_t expected = longest_gap(times, count, end_ns);
        assert_true(meter_total(meter)->silence_ns <= expected);
        assert_near(meter_total(meter)->silence_ns, expected, 2 * SLOT_NS);
    }
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct meter *none = NULL;
    struct meter_options options = make_options(0);
    assert_int_equal(meter_open(&options, &none), FIRN_E_INVALID);
    options = make_options(1);
    options.interval_ns = 9 * NS_PER_MS;
    assert_int_equal(meter_open(&options, &none), FIRN_E_INVALID);
    options = make_options(1);
    options.kinds[0] = NULL;
    assert_int_equal(meter_open(&options, &none), FIRN_E_INVALID);
    assert_null(none);
}

static void memory_that_runs_out_leaves_nothing_behind(void **state)
{
    (void)state;
    struct meter_options options = make_options(3);
    unsigned failures = 0;
    for (;; failures++) {
        struct meter *made = NULL;
        memory_fail_after((long)failures);
        firn_rc rc = meter_open(&options, &made);
        memory_fail_after(-1);
        if (rc == FIRN_OK) {
            meter_close(made);
            break;
        }
        assert_int_equal(rc, FIRN_E_NOMEM);
        assert_null(made);
    }
    assert_true(failures >= 9);
}

enum { THREADS = 4, EACH = 50000 };

static void *record_many(void *argument)
{
    struct meter_worker *worker = argument;
    for (unsigned i = 0; i < EACH; i++) {
        uint64_t now_ns = clock_now(clock_real());
        meter_record(worker, i % 2, now_ns, now_ns, now_ns + i, 3);
    }
    return NULL;
}

static void nothing_is_lost_between_workers_and_reporter(void **state)
{
    (void)state;
    struct meter_options options = make_options(THREADS);
    options.clock = clock_real();
    options.interval_ns = 10 * NS_PER_MS;
    struct meter *shared = NULL;
    assert_int_equal(meter_open(&options, &shared), FIRN_OK);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record_many, meter_worker_at(shared, i)),
                         0);
    uint64_t seen = 0;
    for (unsigned done = 0; done <= THREADS;) {
        const struct meter_interval *interval = meter_tick(shared);
        seen += interval->kinds[0].latency_ns.count + interval->kinds[1].latency_ns.count;
        if (done < THREADS && meter_worker_operations(meter_worker_at(shared, done)) < EACH)
            continue;
        done++; /* one more tick after the last worker is through */
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    const struct meter_interval *total = meter_total(shared);
    assert_int_equal(seen, THREADS * EACH);
    assert_int_equal(total->kinds[0].latency_ns.count, THREADS * EACH / 2);
    assert_int_equal(total->kinds[1].latency_ns.count, THREADS * EACH / 2);
    assert_int_equal(total->kinds[1].latency_ns.max, EACH - 1);
    assert_int_equal(total->kinds[0].bytes + total->kinds[1].bytes, 3 * THREADS * EACH);
    meter_close(shared);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(intervals_add_up_to_the_total),
        TEST(an_open_loop_times_from_the_schedule_too),
        TEST(starting_anew_drops_what_was_before),
        TEST(a_silence_inside_an_interval_is_known_to_a_slot_at_either_end),
        TEST(a_silence_over_many_intervals_is_one),
        TEST(every_silence_of_an_interval_is_listed_and_short_gaps_are_not),
        TEST(one_busy_worker_ends_everybodys_silence),
        TEST(an_interval_closed_late_keeps_its_silences),
        TEST(far_past_the_slots_only_the_last_one_knows),
        TEST(what_completes_while_an_interval_closes_ends_a_silence_in_the_next),
        TEST(an_interval_without_length_is_harmless),
        TEST(random_completions_give_the_gaps_between_them),
        TEST(options_that_make_no_sense_are_refused),
        TEST(memory_that_runs_out_leaves_nothing_behind),
        TEST(nothing_is_lost_between_workers_and_reporter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
