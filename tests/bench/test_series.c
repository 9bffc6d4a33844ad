#include "base/memory.h"
#include "base/rng.h"
#include "bench/series.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KINDS = 2 };

/* An interval made by hand: no meter is needed to fill one. */
static struct meter_interval *interval;
static struct meter_silence silences[3];

static int set_up(void **state)
{
    (void)state;
    interval = calloc(1, sizeof(*interval) + KINDS * sizeof(interval->kinds[0]));
    for (unsigned k = 0; k < KINDS; k++) {
        histogram_reset(&interval->kinds[k].latency_ns);
        histogram_reset(&interval->kinds[k].response_ns);
    }
    interval->length_ns = NS_PER_S;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(interval);
    return 0;
}

static void record(unsigned kind, uint64_t latency_ns)
{
    histogram_record(&interval->kinds[kind].latency_ns, latency_ns);
    histogram_record(&interval->kinds[kind].response_ns, 2 * latency_ns);
    interval->kinds[kind].bytes += 512;
}

static void an_intervals_figures_become_columns(void **state)
{
    (void)state;
    struct series *series = NULL;
    assert_int_equal(series_open(KINDS, NS_PER_S, true, &series), FIRN_OK);
    for (unsigned i = 1; i <= 100; i++)
        record(0, i);
    interval->start_ns = 5 * NS_PER_S;
    interval->silence_start_ns = 3;
    interval->silence_ns = 4;
    interval->silent_ns = 5;
    interval->length_ns = NS_PER_S / 2;
    assert_int_equal(series_append(series, interval), FIRN_OK);
    const struct series_kind *reads = &series->kinds[0];
    assert_int_equal(series->count, 1);
    assert_int_equal(series->start_ns[0], 5 * NS_PER_S);
    assert_int_equal(series->length_ns[0], NS_PER_S / 2);
    assert_int_equal(series->silence_start_ns[0], 3);
    assert_int_equal(series->silence_ns[0], 4);
    assert_int_equal(series->silent_ns[0], 5);
    assert_int_equal(reads->operations[0], 100);
    assert_int_equal(reads->bytes[0], 51200);
    assert_true(fabs(reads->mean_ns[0] - 50.5) < 1e-9);
    assert_int_equal(reads->p50_ns[0], 50);
    assert_int_equal(reads->p95_ns[0], 95);
    assert_int_equal(reads->p99_ns[0], 99);
    assert_int_equal(reads->p999_ns[0], 100);
    assert_int_equal(reads->max_ns[0], 100);
    assert_int_equal(reads->schedule_p99_ns[0], 199);
    const struct series_kind *writes = &series->kinds[1];
    assert_int_equal(writes->operations[0], 0);
    assert_int_equal(writes->p50_ns[0], 0);
    assert_int_equal(writes->max_ns[0], 0);
    assert_int_equal(writes->histogram[0][0], UINT32_MAX);
    assert_true(fabs(series_rate(series, 0, UINT_MAX) - 200) < 1e-9);
    assert_true(fabs(series_rate(series, 0, 0)) < 1e-9);
    assert_int_equal(series_operations(series, 0, 1), 100);
    series_close(series);
}

static void a_closed_loop_has_no_schedule_column(void **state)
{
    (void)state;
    struct series *series = NULL;
    assert_int_equal(series_open(KINDS, NS_PER_S, false, &series), FIRN_OK);
    assert_int_equal(series_append(series, interval), FIRN_OK);
    assert_null(series->kinds[0].schedule_p99_ns);
    series_close(series);
}

static void coarse_histograms_keep_every_count_in_its_bucket(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 5);
    enum { COUNT = 20000 };
    static double exact[SERIES_BUCKETS + 1];
    for (unsigned i = 0; i < COUNT; i++) {
        uint64_t value = rng_next(&rng) >> (21 + rng_below(&rng, 43));
        record(1, value);
    }
    record(1, 0);
    record(1, UINT64_MAX);
    struct series *series = NULL;
    assert_int_equal(series_open(KINDS, NS_PER_S, false, &series), FIRN_OK);
    assert_int_equal(series_append(series, interval), FIRN_OK);
    /* Each fine bucket's count is found in the coarse bucket its start lies in. */
    for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
        uint64_t start = histogram_bucket_start(b);
        double place = start == 0 ? 0 : floor(4 * log2((double)start) + 1e-9);
        exact[(unsigned)place] += (double)interval->kinds[1].latency_ns.buckets[b];
    }
    const uint32_t *pairs = series->kinds[1].histogram[0];
    double sum = 0;
    for (; *pairs != UINT32_MAX; pairs += 2) {
        assert_true(pairs[0] < SERIES_BUCKETS);
        assert_true(pairs[1] > 0);
        assert_true(pairs[2] == UINT32_MAX || pairs[2] > pairs[0]);
        assert_true(fabs(exact[pairs[0]] - pairs[1]) < 0.5);
        sum += pairs[1];
    }
    assert_true(fabs(sum - (COUNT + 2)) < 0.5);
    series_close(series);
}

static void ten_hours_of_seconds_are_kept(void **state)
{
    (void)state;
    enum { HOURS_10 = 36000 };
    struct series *series = NULL;
    assert_int_equal(series_open(KINDS, NS_PER_S, false, &series), FIRN_OK);
    record(0, 1000);
    interval->silences = silences;
    interval->silence_count = 1;
    for (unsigned i = 0; i < HOURS_10; i++) {
        interval->start_ns = i * NS_PER_S;
        silences[0] = (struct meter_silence){interval->start_ns, i};
        assert_int_equal(series_append(series, interval), FIRN_OK);
    }
    assert_int_equal(series->count, HOURS_10);
    assert_int_equal(series->silence_count, HOURS_10);
    for (unsigned i = 0; i < HOURS_10; i++) {
        assert_int_equal(series->start_ns[i], i * NS_PER_S);
        assert_int_equal(series->silences[i].length_ns, i);
        assert_int_equal(series->kinds[0].operations[i], 1);
    }
    series_close(series);
}

static void memory_that_runs_out_leaves_the_series_as_it_was(void **state)
{
    (void)state;
    struct series *series = NULL;
    memory_fail_after(0);
    assert_int_equal(series_open(KINDS, NS_PER_S, true, &series), FIRN_E_NOMEM);
    memory_fail_after(-1);
    assert_int_equal(series_open(KINDS, NS_PER_S, true, &series), FIRN_OK);
    record(0, 5);
    interval->silences = silences;
    interval->silence_count = 2;
    unsigned appended = 0;
    unsigned failures = 0;
    for (long k = 0; appended < 200; k++) {
        memory_fail_after(k);
        firn_rc rc = series_append(series, interval);
        memory_fail_after(-1);
        if (rc == FIRN_OK) {
            appended++;
            k = -1;
        } else {
            assert_int_equal(rc, FIRN_E_NOMEM);
            failures++;
        }
        assert_int_equal(series->count, appended);
        assert_int_equal(series->silence_count, 2 * appended);
    }
    assert_true(failures > 400); /* two histograms an interval, and the columns' growing */
    series_close(series);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_intervals_figures_become_columns),
        TEST(a_closed_loop_has_no_schedule_column),
        TEST(coarse_histograms_keep_every_count_in_its_bucket),
        TEST(ten_hours_of_seconds_are_kept),
        TEST(memory_that_runs_out_leaves_the_series_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
