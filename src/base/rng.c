#include "base/rng.h"

#include "base/check.h"

#include <math.h>

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

void rng_init(struct rng *rng, uint64_t seed)
{
    for (unsigned i = 0; i < ARRAY_COUNT(rng->state); i++)
        rng->state[i] = splitmix64(&seed);
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Lemire's multiplication ("Fast random integer generation in an interval", 2019), with rejection.
 */
uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    ASSERT(bound > 0);
    __extension__ typedef unsigned __int128 uint128;
    uint128 product = (uint128)rng_next(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t threshold = (0 - bound) % bound;
        while ((uint64_t)product < threshold)
            product = (uint128)rng_next(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

double rng_unit(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1.0p-53;
}

double rng_exponential(struct rng *rng, double mean)
{
    return -mean * log1p(-rng_unit(rng));
}
