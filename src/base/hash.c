#include "base/hash.h"

#include "base/clock.h"
#include "base/rng.h"

#include <sys/random.h>

/* Inlined: the library's functions are the same code behind a call, one a sector. */
#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(HASH_KEY_BYTES >= XXH3_SECRET_SIZE_MIN, "a secret as long as XXH3 wants");

void hash_key_init(struct hash_key *key)
{
    if (getrandom(key->secret, sizeof(key->secret), 0) == (ssize_t)sizeof(key->secret))
        return;
    /* A system that has no random numbers to give: something that differs from run to run. */
    struct rng rng;
    rng_init(&rng, clock_now(clock_real()) ^ (uint64_t)(uintptr_t)key);
    for (size_t i = 0; i < sizeof(key->secret); i++)
        key->secret[i] = (uint8_t)rng_next(&rng);
}

uint64_t hash_64(const struct hash_key *key, const void *memory, size_t size_bytes)
{
    return XXH3_64bits_withSecret(memory, size_bytes, key->secret, sizeof(key->secret));
}
