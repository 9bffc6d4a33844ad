#include "bench/distribution.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "repeat.h"

enum { DRAWS = 200000 };

static uint64_t seed;

static struct distribution_options defaults(enum distribution_kind kind)
{
    return (struct distribution_options){
        .kind = kind,
        .iterations = 12,
        .special_range = 0.01,
        .special_share = 0.75,
        .pareto_h = 0.2,
        .zipfian_exponent = 0.8,
    };
}

static struct distribution make(struct distribution_options options, uint64_t count)
{
    struct distribution distribution;
    assert_int_equal(distribution_init(&options, count, &distribution), FIRN_OK);
    return distribution;
}

/* The chi-square statistic of counts against expectations, in standard deviations from its mean: a
   wrong distribution gives hundreds, a right one more than 6 once in a thousand million runs. */
static double deviation(const uint64_t *counts, const double *expected, unsigned cells)
{
    double square = 0;
    for (unsigned i = 0; i < cells; i++) {
        double difference = (double)counts[i] - expected[i];
        square += difference * difference / expected[i];
    }
    double freedom = cells - 1;
    return (square - freedom) / sqrt(2 * freedom);
}

static void uniform_draws_every_value_alike(void **state)
{
    (void)state;
    enum { CELLS = 100 };
    struct distribution distribution = make(defaults(DISTRIBUTION_UNIFORM), CELLS);
    struct rng rng;
    uint64_t counts[CELLS] = {0};
    double expected[CELLS];
    rng_init(&rng, seed);
    for (int i = 0; i < DRAWS; i++)
        counts[distribution_draw(&distribution, &rng)]++;
    for (int i = 0; i < CELLS; i++)
        expected[i] = (double)DRAWS / CELLS;
    assert_true(fabs(deviation(counts, expected, CELLS)) < 6);
}

static void gaussian_has_the_mean_and_variance_of_its_sum(void **state)
{
    (void)state;
    const uint64_t count = 1000000;
    struct distribution distribution = make(defaults(DISTRIBUTION_GAUSSIAN), count);
    struct rng rng;
    double sum = 0;
    double squares = 0;
    rng_init(&rng, seed);
    for (int i = 0; i < DRAWS; i++) {
        double place = ((double)distribution_draw(&distribution, &rng) + 0.5) / (double)count;
        sum += place;
        squares += (place - 0.5) * (place - 0.5);
    }
    double variance = 1.0 / 12 / 12;
    assert_true(fabs(sum / DRAWS - 0.5) < 6 * sqrt(variance / DRAWS));
    assert_true(fabs(squares / DRAWS / variance - 1) < 0.03);
}

static void special_puts_its_share_into_the_middle_range(void **state)
{
    (void)state;
    const uint64_t count = 100000;
    struct distribution_options options = defaults(DISTRIBUTION_SPECIAL);
    struct distribution distribution = make(options, count);
    struct rng rng;
    enum { CELLS = 10 };
    uint64_t inside[CELLS] = {0};
    double expected[CELLS];
    uint64_t total = 0;
    rng_init(&rng, seed);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t value = distribution_draw(&distribution, &rng);
        if (value >= 49500 && value < 50500) {
            inside[(value - 49500) / 100]++;
            total++;
        }
    }
    /* The bell of the other draws reaches into the range too: its height is 4.8 at the middle. */
    double share = 0.75 + 0.25 * 0.01 * 4.76;
    assert_true(fabs((double)total / DRAWS - share) < 0.006);
    for (int i = 0; i < CELLS; i++)
        expected[i] = (double)total / CELLS;
    assert_true(fabs(deviation(inside, expected, CELLS)) < 6);
}

static void pareto_gives_a_share_h_of_the_range_all_but_h_of_the_draws(void **state)
{
    (void)state;
    static const double shares[] = {0.1, 0.2, 0.4};
    const uint64_t count = 1000000;
    struct rng rng;
    rng_init(&rng, seed);
    for (unsigned s = 0; s < sizeof(shares) / sizeof(shares[0]); s++) {
        struct distribution_options options = defaults(DISTRIBUTION_PARETO);
        options.pareto_h = shares[s];
        struct distribution distribution = make(options, count);
        uint64_t hot = 0;
        for (int i = 0; i < DRAWS; i++)
            hot += distribution_draw(&distribution, &rng) < (uint64_t)(shares[s] * (double)count);
        assert_true(fabs((double)hot / DRAWS - (1 - shares[s])) < 0.007);
    }
}

static void zipfian_draws_in_proportion_to_the_power_of_the_rank(void **state)
{
    (void)state;
    static const double exponents[] = {0, 0.5, 0.8, 0.99999, 1, 1.00001, 1.5, 3};
    enum { COUNT = 1000, CELLS = 30 };
    struct rng rng;
    rng_init(&rng, seed);
    for (unsigned e = 0; e < sizeof(exponents) / sizeof(exponents[0]); e++) {
        struct distribution_options options = defaults(DISTRIBUTION_ZIPFIAN);
        options.zipfian_exponent = exponents[e];
        struct distribution distribution = make(options, COUNT);
        uint64_t counts[CELLS] = {0};
        double expected[CELLS] = {0};
        double weights = 0;
        for (int k = 1; k <= COUNT; k++)
            weights += pow(k, -exponents[e]);
        /* Every rank up to the last cell, which takes all others. */
        for (int k = 1; k <= COUNT; k++)
            expected[k < CELLS ? k - 1 : CELLS - 1] += DRAWS * pow(k, -exponents[e]) / weights;
        for (int i = 0; i < DRAWS; i++) {
            uint64_t value = distribution_draw(&distribution, &rng);
            counts[value < CELLS ? value : CELLS - 1]++;
        }
        assert_true(fabs(deviation(counts, expected, CELLS)) < 6);
    }
}

static void no_draw_leaves_the_range(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 3, 1000, UINT64_C(1) << 40};
    struct rng rng;
    rng_init(&rng, seed);
    for (int kind = DISTRIBUTION_UNIFORM; kind <= DISTRIBUTION_ZIPFIAN; kind++)
        for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            struct distribution distribution =
                make(defaults((enum distribution_kind)kind), counts[c]);
            for (int i = 0; i < 10000; i++)
                assert_true(distribution_draw(&distribution, &rng) < counts[c]);
        }
}

static void equal_seeds_give_equal_draws(void **state)
{
    (void)state;
    for (int kind = DISTRIBUTION_UNIFORM; kind <= DISTRIBUTION_ZIPFIAN; kind++) {
        struct distribution distribution = make(defaults((enum distribution_kind)kind), 12345);
        struct rng left;
        struct rng right;
        rng_init(&left, seed);
        rng_init(&right, seed);
        for (int i = 0; i < 1000; i++)
            assert_int_equal(distribution_draw(&distribution, &left),
                             distribution_draw(&distribution, &right));
    }
}

static void parameters_out_of_range_are_refused(void **state)
{
    (void)state;
    struct distribution distribution;
    struct distribution_options options = defaults(DISTRIBUTION_PARETO);
    options.pareto_h = 1;
    assert_int_equal(distribution_init(&options, 10, &distribution), FIRN_E_INVALID);
    options.pareto_h = NAN;
    assert_int_equal(distribution_init(&options, 10, &distribution), FIRN_E_INVALID);
    options = defaults(DISTRIBUTION_GAUSSIAN);
    options.iterations = 0;
    assert_int_equal(distribution_init(&options, 10, &distribution), FIRN_E_INVALID);
    options = defaults(DISTRIBUTION_SPECIAL);
    options.special_share = 1.01;
    assert_int_equal(distribution_init(&options, 10, &distribution), FIRN_E_INVALID);
    options = defaults(DISTRIBUTION_ZIPFIAN);
    options.zipfian_exponent = -0.1;
    assert_int_equal(distribution_init(&options, 10, &distribution), FIRN_E_INVALID);
}

int main(void)
{
    seed = test_seed(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_draws_every_value_alike),
        cmocka_unit_test(gaussian_has_the_mean_and_variance_of_its_sum),
        cmocka_unit_test(special_puts_its_share_into_the_middle_range),
        cmocka_unit_test(pareto_gives_a_share_h_of_the_range_all_but_h_of_the_draws),
        cmocka_unit_test(zipfian_draws_in_proportion_to_the_power_of_the_rank),
        cmocka_unit_test(no_draw_leaves_the_range),
        cmocka_unit_test(equal_seeds_give_equal_draws),
        cmocka_unit_test(parameters_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
