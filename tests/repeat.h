/*
 * repeat.h -- for random tests: the seed that repeats a failure, how much to try, and how much was
 * tried.
 *
 * `./run test --seed N` sets FIRN_TEST_SEED, `./run test-full` sets FIRN_TEST_RUNS. What a program
 * counts it says as it ends, and tests/run_tests adds up. To be included behind <cmocka.h>.
 */
#ifndef FIRN_TESTS_REPEAT_H
#define FIRN_TESTS_REPEAT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/** What is counted. */
enum test_tally {
    TEST_CUTS,   /* power cuts of a working engine whose survival was judged */
    TEST_KILLS,  /* of a process, with kill -9 */
    TEST_ROUNDS, /* of random work, each with a seed of its own */
    TEST_TALLIES
};

static unsigned test_tallies[TEST_TALLIES];

static void test_tell_tallies(void)
{
    static const char *const names[TEST_TALLIES] = {"cuts", "kills", "rounds"};
    for (int i = 0; i < TEST_TALLIES; i++)
        if (test_tallies[i] > 0)
            print_message("# counted %u %s\n", test_tallies[i], names[i]);
}

/** Count; from one thread. */
static inline void test_count(enum test_tally what, unsigned count)
{
    static bool will_tell;
    if (!will_tell)
        atexit(test_tell_tallies);
    will_tell = true;
    test_tallies[what] += count;
}

/** @return the seed asked for, else `usual`; printed, so that a failure can be repeated. */
static inline uint64_t test_seed(uint64_t usual)
{
    const char *text = getenv("FIRN_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : usual;
    print_message("# FIRN_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static inline unsigned test_times(void)
{
    const char *text = getenv("FIRN_TEST_RUNS");
    unsigned times = text != NULL ? (unsigned)strtoul(text, NULL, 10) : 1;
    return times > 0 ? times : 1;
}

/** @return how often to repeat random work: `usual`, or FIRN_TEST_RUNS times that; counted. */
static inline unsigned test_runs(unsigned usual)
{
    unsigned runs = usual * test_times();
    test_count(TEST_ROUNDS, runs);
    return runs;
}

/** @return whether to try everything where a short run takes samples: FIRN_TEST_RUNS is 10 or more.
 */
static inline bool test_tries_all(void)
{
    return test_times() >= 10;
}

#endif
