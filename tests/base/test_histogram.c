#include "base/histogram.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct histogram histogram;

static void every_value_lies_in_its_bucket(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 1);
    for (int i = 0; i < 1000000; i++) {
        uint64_t value = rng_next(&rng) >> (22 + rng_below(&rng, 42));
        unsigned bucket = histogram_bucket(value);
        assert_true(bucket < HISTOGRAM_BUCKETS);
        assert_true(histogram_bucket_start(bucket) <= value);
        assert_true(value < histogram_bucket_start(bucket + 1));
    }
    assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static void buckets_are_contiguous(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        assert_int_equal(histogram_bucket(histogram_bucket_start(i)), i);
        assert_true(histogram_bucket_start(i) < histogram_bucket_start(i + 1));
    }
}

static int compare_values(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void percentiles_are_within_the_stated_error(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    static uint64_t values[COUNT];
    struct rng rng;
    rng_init(&rng, 2);
    histogram_reset(&histogram);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (uint64_t)rng_exponential(&rng, 1e6);
        histogram_record(&histogram, values[i]);
    }
    qsort(values, COUNT, sizeof(values[0]), compare_values);
    static const double percents[] = {1, 50, 95, 99, 99.9};
    for (unsigned i = 0; i < 5; i++) {
        double exact = (double)values[(int)(COUNT * percents[i] / 100.0) - 1];
        double read = (double)histogram_percentile(&histogram, percents[i]);
        assert_true(read >= exact * (1 - 1.0 / 128) - 1 && read <= exact * (1 + 1.0 / 128) + 1);
    }
    assert_int_equal(histogram_percentile(&histogram, 100), values[COUNT - 1]);
    assert_int_equal(histogram.min, values[0]);
}

static void merging_equals_recording_together(void **state)
{
    (void)state;
    static struct histogram parts[2];
    static struct histogram whole;
    struct rng rng;
    rng_init(&rng, 3);
    histogram_reset(&whole);
    for (int p = 0; p < 2; p++) {
        histogram_reset(&parts[p]);
        for (int i = 0; i < 1000; i++) {
            uint64_t value = rng_below(&rng, UINT64_C(1) << (10 + 20 * p));
            histogram_record(&parts[p], value);
            histogram_record_shared(&whole, value);
        }
    }
    histogram_merge(&parts[0], &parts[1]);
    assert_memory_equal(&parts[0], &whole, sizeof(whole));
}

static void a_cleared_histogram_is_as_new(void **state)
{
    (void)state;
    static struct histogram fresh;
    struct rng rng;
    rng_init(&rng, 4);
    histogram_reset(&fresh);
    histogram_reset(&histogram);
    histogram_clear(&histogram);
    assert_memory_equal(&histogram, &fresh, sizeof(fresh));
    for (int i = 0; i < 1000; i++)
        histogram_record(&histogram, rng_next(&rng) >> rng_below(&rng, 64));
    histogram_record(&histogram, 0);
    histogram_record(&histogram, UINT64_MAX);
    histogram_clear(&histogram);
    assert_memory_equal(&histogram, &fresh, sizeof(fresh));
}

static void an_empty_histogram_has_no_percentile(void **state)
{
    (void)state;
    histogram_reset(&histogram);
    assert_int_equal(histogram_percentile(&histogram, 99), 0);
    assert_true(histogram_mean(&histogram) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_lies_in_its_bucket),
        cmocka_unit_test(buckets_are_contiguous),
        cmocka_unit_test(percentiles_are_within_the_stated_error),
        cmocka_unit_test(merging_equals_recording_together),
        cmocka_unit_test(a_cleared_histogram_is_as_new),
        cmocka_unit_test(an_empty_histogram_has_no_percentile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
