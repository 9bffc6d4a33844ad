/*
 * hash.h -- a fast hash of 64 bits that nobody outside the process can predict.
 *
 * XXH3 (Yann Collet, xxHash 0.8) under a secret. Two different pieces of memory have equal hashes
 * once in 2^64, also where somebody who does not know the secret chose them: with a CRC anybody can
 * find a change that it does not see. Hashes of different processes have nothing to do with each
 * other; none is ever stored.
 */
#ifndef FIRN_BASE_HASH_H
#define FIRN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_KEY_BYTES = 192 };

struct hash_key {
    _Alignas(64) uint8_t secret[HASH_KEY_BYTES];
};

/** Draw a secret from the system. */
void hash_key_init(struct hash_key *key);

/** @return the hash of size_bytes of memory. */
uint64_t hash_64(const struct hash_key *key, const void *memory, size_t size_bytes);

#endif
