#include "bench/distribution.h"

#include "base/check.h"

#include <math.h>

/* expm1(t) / t and log1p(t) / t, continued over 0, where they are 1. */
static double expm1_ratio(double t)
{
    return fabs(t) > 1e-8 ? expm1(t) / t : 1 + t / 2;
}

static double log1p_ratio(double t)
{
    return fabs(t) > 1e-8 ? log1p(t) / t : 1 - t / 2;
}

/*
 * Zipfian by rejection-inversion: Hoermann and Derflinger, "Rejection-inversion to generate
 * variates from monotone discrete distributions", ACM TOMACS 6 (1996). h(x) = x^-e is the weight, H
 * its integral from 1, written so that it stays exact for exponents around 1.
 */
static double zipfian_weight(double exponent, double x)
{
    return exp(-exponent * log(x));
}

static double zipfian_integral(double exponent, double x)
{
    double log_x = log(x);
    return log_x * expm1_ratio((1 - exponent) * log_x);
}

static double zipfian_inverse(double exponent, double integral)
{
    double t = integral * (1 - exponent);
    if (t < -1)
        t = -1; /* rounding beyond the pole */
    return exp(integral * log1p_ratio(t));
}

static void zipfian_init(struct distribution *distribution)
{
    double exponent = distribution->options.zipfian_exponent;
    distribution->zipfian_h_first = zipfian_integral(exponent, 1.5) - 1;
    distribution->zipfian_h_count = zipfian_integral(exponent, (double)distribution->count + 0.5);
    distribution->zipfian_shift = 2 - zipfian_inverse(exponent, zipfian_integral(exponent, 2.5) -
                                                                    zipfian_weight(exponent, 2));
}

static uint64_t zipfian_draw(const struct distribution *distribution, struct rng *rng)
{
    double exponent = distribution->options.zipfian_exponent;
    double count = (double)distribution->count;
    double span = distribution->zipfian_h_first - distribution->zipfian_h_count;
    for (;;) { /* accepts more than 9 of 10 whatever the exponent */
        double integral = distribution->zipfian_h_count + rng_unit(rng) * span;
        double x = zipfian_inverse(exponent, integral);
        double k = floor(x + 0.5);
        k = k < 1 ? 1 : k > count ? count : k;
        if (k - x <= distribution->zipfian_shift ||
            integral >= zipfian_integral(exponent, k + 0.5) - zipfian_weight(exponent, k))
            return (uint64_t)k - 1;
    }
}

firn_rc distribution_init(const struct distribution_options *options, uint64_t count,
                          struct distribution *distribution)
{
    ASSERT(count > 0);
    struct distribution made = {.options = *options, .count = count};
    switch (options->kind) {
    case DISTRIBUTION_UNIFORM:
        break;
    case DISTRIBUTION_SPECIAL:
        if (!(options->special_range >= 0 && options->special_range <= 1 &&
              options->special_share >= 0 && options->special_share <= 1))
            return rc_raise(FIRN_E_INVALID,
                            "--rand-spec-pct and --rand-spec-res must be percentages, 0 to 100");
        __attribute__((fallthrough));
    case DISTRIBUTION_GAUSSIAN:
        if (options->iterations == 0)
            return rc_raise(FIRN_E_INVALID, "--rand-spec-iter must be at least 1");
        break;
    case DISTRIBUTION_PARETO:
        if (!(options->pareto_h > 0 && options->pareto_h < 1))
            return rc_raise(FIRN_E_INVALID, "--rand-pareto-h must lie between 0 and 1");
        made.pareto_power = log(options->pareto_h) / log1p(-options->pareto_h);
        break;
    case DISTRIBUTION_ZIPFIAN:
        if (!(options->zipfian_exponent >= 0 && options->zipfian_exponent <= 100))
            return rc_raise(FIRN_E_INVALID, "--rand-zipfian-exp must be from 0 to 100");
        zipfian_init(&made);
        break;
    }
    *distribution = made;
    return FIRN_OK;
}

/* A place in [0, 1): the mean of a few uniform ones. */
static double gaussian_place(unsigned iterations, struct rng *rng)
{
    double sum = 0;
    for (unsigned i = 0; i < iterations; i++)
        sum += rng_unit(rng);
    return sum / iterations;
}

static double special_place(const struct distribution_options *options, struct rng *rng)
{
    if (rng_unit(rng) >= options->special_share)
        return gaussian_place(options->iterations, rng);
    return 0.5 + (rng_unit(rng) - 0.5) * options->special_range;
}

uint64_t distribution_draw(const struct distribution *distribution, struct rng *rng)
{
    const struct distribution_options *options = &distribution->options;
    double place = 0;
    switch (options->kind) {
    case DISTRIBUTION_UNIFORM:
        return rng_below(rng, distribution->count);
    case DISTRIBUTION_ZIPFIAN:
        return zipfian_draw(distribution, rng);
    case DISTRIBUTION_GAUSSIAN:
        place = gaussian_place(options->iterations, rng);
        break;
    case DISTRIBUTION_SPECIAL:
        place = special_place(options, rng);
        break;
    case DISTRIBUTION_PARETO:
        place = pow(rng_unit(rng), distribution->pareto_power);
        break;
    }
    uint64_t value = (uint64_t)(place * (double)distribution->count);
    return value < distribution->count ? value : distribution->count - 1; /* rounded up to 1 */
}
