/*
 * repeat.h -- for random tests: the seed that repeats a failure, and how much to try.
 *
 * `./run test --seed N` sets FIRN_TEST_SEED, `./run test-full` sets FIRN_TEST_RUNS. To be included
 * behind <cmocka.h>.
 */
#ifndef FIRN_TESTS_REPEAT_H
#define FIRN_TESTS_REPEAT_H

#include <stdint.h>
#include <stdlib.h>

/** @return the seed asked for, else `usual`; printed, so that a failure can be repeated. */
static inline uint64_t test_seed(uint64_t usual)
{
    const char *text = getenv("FIRN_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : usual;
    print_message("# FIRN_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/** @return how often to repeat random work: `usual`, or FIRN_TEST_RUNS times that at night. */
static inline unsigned test_runs(unsigned usual)
{
    const char *text = getenv("FIRN_TEST_RUNS");
    return text != NULL ? usual * (unsigned)strtoul(text, NULL, 10) : usual;
}

#endif
