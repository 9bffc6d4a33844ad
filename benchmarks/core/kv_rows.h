/*
 * kv_rows.h -- the rows all engines store: row number n has a key that is a hash of n, so rows in
 * order of their numbers are in random order of their keys, and a value that names its row.
 */
#ifndef KV_ROWS_H
#define KV_ROWS_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { KV_KEY_BYTES = 16, KV_VALUE_BYTES = 100 };

struct kv_row {
    uint8_t key[KV_KEY_BYTES];
    uint8_t value[KV_VALUE_BYTES];
};

/* The finaliser of splitmix64: a bijection, so different rows have different keys. */
static inline uint64_t kv_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/** The next number of a generator; every thread has its own state. */
static inline uint64_t kv_random(uint64_t *state)
{
    return kv_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static inline void kv_row_key(uint64_t row, uint8_t *key)
{
    uint64_t words[2] = {htobe64(kv_mix(row + 1)), htobe64(kv_mix(~row))};
    memcpy(key, words, KV_KEY_BYTES);
}

/** A value: its row, a counter, and bytes that no engine can compress and that change with the
 * counter, so that an overwritten row is a new one to a log that keeps differences. */
static inline void kv_row_value(uint64_t row, uint64_t counter, uint8_t *value)
{
    uint64_t state = row ^ kv_mix(counter), words[(KV_VALUE_BYTES + 7) / 8];
    for (unsigned i = 2; i < sizeof words / sizeof words[0]; i++)
        words[i] = kv_random(&state);
    words[0] = row;
    words[1] = counter;
    memcpy(value, words, KV_VALUE_BYTES);
}

static inline bool kv_row_matches(uint64_t row, const uint8_t *value)
{
    return memcmp(&row, value, sizeof row) == 0;
}

static inline uint64_t kv_row_counter(const uint8_t *value)
{
    uint64_t counter;
    memcpy(&counter, value + 8, sizeof counter);
    return counter;
}

static inline void kv_row_increment(uint8_t *value)
{
    uint64_t counter = kv_row_counter(value) + 1;
    memcpy(value + 8, &counter, sizeof counter);
}

/** What a scan does with a row: it touches the key's first byte and a word of the value. */
static inline void kv_row_visit(const uint8_t *key, const uint8_t *value, uint64_t *sum)
{
    *sum += key[0] + kv_row_counter(value);
}

#endif
