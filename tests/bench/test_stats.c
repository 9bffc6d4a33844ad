#include "base/rng.h"
#include "bench/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "repeat.h"

static void assert_close(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * (1 + fabs(expected))))
        fail_msg("%.12g is not %.12g", value, expected);
}

static void means_and_deviations_are_those_of_a_sample(void **state)
{
    (void)state;
    static const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    assert_close(stats_mean(values, 8), 5);
    assert_close(stats_deviation(values, 8), sqrt(32.0 / 7));
    assert_close(stats_mean(values, 0), 0);
    assert_close(stats_deviation(values, 1), 0);
    assert_close(stats_deviation(values, 0), 0);
    /* A common offset does not matter: the squares are of deviations. */
    static const double far[] = {1e9 + 2, 1e9 + 4, 1e9 + 4, 1e9 + 4,
                                 1e9 + 5, 1e9 + 5, 1e9 + 7, 1e9 + 9};
    assert_close(stats_deviation(far, 8), sqrt(32.0 / 7));
}

static void quantiles_are_linear_between_neighbours(void **state)
{
    (void)state;
    static const double sorted[] = {10, 20, 30, 40, 50};
    assert_close(stats_quantile_sorted(sorted, 5, 0), 10);
    assert_close(stats_quantile_sorted(sorted, 5, 0.25), 20);
    assert_close(stats_quantile_sorted(sorted, 5, 0.1), 14);
    assert_close(stats_quantile_sorted(sorted, 5, 0.5), 30);
    assert_close(stats_quantile_sorted(sorted, 4, 0.5), 25);
    assert_close(stats_quantile_sorted(sorted, 5, 1), 50);
    assert_close(stats_quantile_sorted(sorted, 1, 0.7), 10);
    assert_close(stats_quantile_sorted(sorted, 0, 0.5), 0);
}

static void selecting_gives_what_sorting_gives(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    enum { COUNT_MAX = 300 };
    struct rng rng;
    rng_init(&rng, seed);
    for (int round = 0; round < 3000; round++) {
        double values[COUNT_MAX], sorted[COUNT_MAX];
        size_t count = rng_below(&rng, COUNT_MAX + 1);
        uint64_t different = 1 + rng_below(&rng, 1000); /* few: many equal ones */
        for (size_t i = 0; i < count; i++)
            values[i] = (double)rng_below(&rng, different) - 5;
        if (round % 5 == 0)
            stats_sort(values, count); /* what is in order already */
        memcpy(sorted, values, sizeof(sorted));
        stats_sort(sorted, count);
        double quantile = round % 7 == 0 ? 1 : rng_unit(&rng);
        assert_close(stats_quantile(values, count, quantile),
                     stats_quantile_sorted(sorted, count, quantile));
        stats_sort(values, count); /* no value was lost */
        assert_memory_equal(values, sorted, count * sizeof(*values));
    }
}

static void few_values_have_no_confidence(void **state)
{
    (void)state;
    static const double sorted[] = {1, 2, 3, 4, 5, 6};
    for (size_t count = 0; count < 6; count++) {
        struct stats_median median = stats_median_sorted(sorted, count);
        assert_close(median.confidence, 0);
        assert_close(median.low, count == 0 ? 0 : 1);
        assert_close(median.high, (double)count);
    }
    /* Six: both ends miss the median in 2 of 64 cases. */
    struct stats_median median = stats_median_sorted(sorted, 6);
    assert_close(median.median, 3.5);
    assert_close(median.low, 1);
    assert_close(median.high, 6);
    assert_close(median.confidence, 1 - 2.0 / 64);
}

/* Known from tables of the binomial distribution: of 10 values the 2nd to the 9th, 97.9 %; of 100
   the 40th to the 61st, 96.5 %. */
static void intervals_are_those_of_the_tables(void **state)
{
    (void)state;
    double sorted[100];
    for (int i = 0; i < 100; i++)
        sorted[i] = i + 1;
    struct stats_median ten = stats_median_sorted(sorted, 10);
    assert_close(ten.low, 2);
    assert_close(ten.high, 9);
    assert_true(fabs(ten.confidence - 0.9785) < 0.0001);
    struct stats_median hundred = stats_median_sorted(sorted, 100);
    assert_close(hundred.low, 40);
    assert_close(hundred.high, 61);
    assert_true(fabs(hundred.confidence - 0.9648) < 0.0001);
    double *many = calloc(36000, sizeof(*many));
    struct stats_median huge = stats_median_sorted(many, 36000);
    assert_true(huge.confidence >= 0.95 && huge.confidence < 0.955);
    free(many);
}

/* The interval covers the true median as often as it says, whatever the shape of the values. */
static void intervals_cover_the_median_as_often_as_they_say(void **state)
{
    (void)state;
    enum { TRIES = 4000 };
    static const size_t counts[] = {6, 9, 15, 40};
    struct rng rng;
    rng_init(&rng, 7);
    for (int shape = 0; shape < 3; shape++)
        for (unsigned c = 0; c < 4; c++) {
            unsigned covered = 0;
            double claimed = 0;
            for (int t = 0; t < TRIES; t++) {
                double values[40];
                for (size_t i = 0; i < counts[c]; i++) {
                    double u = rng_unit(&rng);
                    /* Medians: 0.5, ln 2, and 1 of a tail that has no mean. */
                    values[i] = shape == 0 ? u : shape == 1 ? -log(1 - u) : 1 / (2 * (1 - u));
                }
                double truth = shape == 0 ? 0.5 : shape == 1 ? log(2) : 1;
                stats_sort(values, counts[c]);
                struct stats_median median = stats_median_sorted(values, counts[c]);
                covered += median.low <= truth && truth <= median.high;
                claimed = median.confidence;
            }
            assert_true(claimed >= 0.95);
            /* Three standard deviations of a share of TRIES. */
            double share = (double)covered / TRIES;
            double error = 3 * sqrt(claimed * (1 - claimed) / TRIES);
            if (fabs(share - claimed) > error)
                fail_msg("%zu values of shape %d: covered %g, claimed %g", counts[c], shape, share,
                         claimed);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_and_deviations_are_those_of_a_sample),
        cmocka_unit_test(quantiles_are_linear_between_neighbours),
        cmocka_unit_test(selecting_gives_what_sorting_gives),
        cmocka_unit_test(few_values_have_no_confidence),
        cmocka_unit_test(intervals_are_those_of_the_tables),
        cmocka_unit_test(intervals_cover_the_median_as_often_as_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
