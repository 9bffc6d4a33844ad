#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The reference implementation, from the state 1, 2, 3, 4: worked out by hand for the first two, as
   published with the generator for the others. */
static void the_sequence_is_xoshiros(void **state)
{
    (void)state;
    struct rng rng = {{1, 2, 3, 4}};
    static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(rng_next(&rng), expected[i]);
}

/* splitmix64 from seed 0 begins with e220a8397b1dcdaf, as its author's test vectors do. */
static void the_seed_is_spread_by_splitmix(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 0);
    assert_int_equal(rng.state[0], UINT64_C(0xe220a8397b1dcdaf));
    assert_int_equal(rng.state[1], UINT64_C(0x6e789e6aa1b965f4));
}

static void equal_seeds_give_equal_sequences(void **state)
{
    (void)state;
    struct rng a, b, c;
    rng_init(&a, 42);
    rng_init(&b, 42);
    rng_init(&c, 43);
    unsigned same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = rng_next(&a);
        assert_int_equal(value, rng_next(&b));
        same += value == rng_next(&c);
    }
    assert_int_equal(same, 0);
}

static void below_gives_every_number_equally_often(void **state)
{
    (void)state;
    enum { BOUND = 7, DRAWS = 70000 };
    struct rng rng;
    rng_init(&rng, 3);
    unsigned counts[BOUND] = {0};
    for (int i = 0; i < DRAWS; i++) {
        uint64_t value = rng_below(&rng, BOUND);
        assert_true(value < BOUND);
        counts[value]++;
    }
    double chi_squared = 0;
    for (int i = 0; i < BOUND; i++) {
        double off = counts[i] - (double)DRAWS / BOUND;
        chi_squared += off * off / ((double)DRAWS / BOUND);
    }
    assert_true(chi_squared < 22.5); /* 6 degrees of freedom: one in a thousand */
    assert_int_equal(rng_below(&rng, 1), 0);
}

/* A bound just above 2^63: without rejection the lower numbers would come twice as often. */
static void below_is_fair_for_large_bounds_too(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    struct rng rng;
    rng_init(&rng, 4);
    uint64_t bound = (UINT64_C(3) << 62) + 1;
    unsigned low = 0;
    for (int i = 0; i < DRAWS; i++)
        low += rng_below(&rng, bound) < bound / 3;
    assert_true(fabs(low - DRAWS / 3.0) < 4 * sqrt(DRAWS * 2 / 9.0));
}

static void units_and_exponentials_have_their_means(void **state)
{
    (void)state;
    enum { DRAWS = 100000 };
    struct rng rng;
    rng_init(&rng, 5);
    double unit_sum = 0;
    double gap_sum = 0;
    unsigned past_three = 0;
    for (int i = 0; i < DRAWS; i++) {
        double unit = rng_unit(&rng);
        assert_true(unit >= 0 && unit < 1);
        unit_sum += unit;
        double gap = rng_exponential(&rng, 2);
        assert_true(gap >= 0 && isfinite(gap));
        gap_sum += gap;
        past_three += gap > 6;
    }
    assert_true(fabs(unit_sum / DRAWS - 0.5) < 0.004);
    assert_true(fabs(gap_sum / DRAWS - 2) < 0.03);
    assert_true(fabs(past_three / (double)DRAWS - exp(-3)) < 0.003);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sequence_is_xoshiros),
        cmocka_unit_test(the_seed_is_spread_by_splitmix),
        cmocka_unit_test(equal_seeds_give_equal_sequences),
        cmocka_unit_test(below_gives_every_number_equally_often),
        cmocka_unit_test(below_is_fair_for_large_bounds_too),
        cmocka_unit_test(units_and_exponentials_have_their_means),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
