/*
 * rng.h -- random numbers that repeat from a seed.
 *
 * xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018),
 * seeded through splitmix64. A state belongs to one thread. Not for secrets.
 */
#ifndef FIRN_BASE_RNG_H
#define FIRN_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state[4];
};

/** Start a sequence; equal seeds give equal sequences, any seed is a good one. */
void rng_init(struct rng *rng, uint64_t seed);

/** @return 64 random bits. */
uint64_t rng_next(struct rng *rng);

/** @return a number below bound, each equally likely; bound is at least 1. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

/** @return a number in [0, 1). */
double rng_unit(struct rng *rng);

/** @return an exponentially distributed number with the mean given: the gaps of a Poisson stream.
 */
double rng_exponential(struct rng *rng, double mean);

#endif
