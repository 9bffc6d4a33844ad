/*
 * collation.h -- how texts compare: a registry of collations by number.
 *
 * Keys compare as bytes, so a text goes into a key as its weights: bytes that order as the
 * collation orders the texts. The registry is the process's: numbers mean the same in every
 * environment (they are MariaDB's), and whoever embeds the engine registers what it has. A
 * collation's order is part of the files: a number must never come to mean another order.
 */
#ifndef FIRN_TABLE_COLLATION_H
#define FIRN_TABLE_COLLATION_H

#include "base/rc.h"
#include "base/span.h"

#include <stdbool.h>

enum {
    COLLATION_NUMBER_MAX = 4095,
    COLLATION_SPACE_BYTES_MAX = 4,
    COLLATION_LEVELS_MAX = 4,

    COLLATION_ASCII_GENERAL_CI = 11,
    COLLATION_UTF8MB4_BIN = 46,
    COLLATION_LATIN1_BIN = 47,
    COLLATION_BINARY = 63,
    COLLATION_ASCII_BIN = 65,
};

struct collation;

/**
 * Make the weights of a text on one level.
 *
 * @param level           0 to levels - 1
 * @param to              at most capacity_bytes are written; if the weights are longer, those
 *                        written mean nothing
 * @return how many bytes all of the weights have
 */
typedef size_t collation_weights(const struct collation *collation, struct span text,
                                 unsigned level, uint8_t *to, size_t capacity_bytes);

/** @return the size in bytes of the first so many characters of a text, at most the text's. What
 * is not well formed counts by the byte. */
typedef size_t collation_prefix(const struct collation *collation, struct span text,
                                size_t characters);

/** @return whether the bytes are a text of the character set. */
typedef bool collation_is_text(const struct collation *collation, struct span bytes);

struct collation {
    uint32_t number;  /* 1 to COLLATION_NUMBER_MAX */
    const char *name; /* as SQL users know it */
    uint8_t character_bytes_max;
    uint8_t levels; /* 1 to COLLATION_LEVELS_MAX; a level decides where those before are equal */

    /* PAD SPACE: texts compare as if the shorter one had spaces behind it, without end. The weight
     * of such a space, on each level; the weights of any text are whole units of that size. 0
     * bytes: NO PAD, a text is before all that it begins. */
    uint8_t space_bytes;
    uint8_t space[COLLATION_LEVELS_MAX][COLLATION_SPACE_BYTES_MAX];

    /* A space in the character set, which char loses at its end. 0 bytes: 0x20. */
    uint8_t blank_bytes;
    uint8_t blank[COLLATION_SPACE_BYTES_MAX];

    collation_weights *weights; /* NULL: the bytes are their weights */
    collation_prefix *prefix;   /* NULL: each byte is a character */
    collation_is_text *is_text; /* NULL: all bytes are */
    const void *context;        /* for whoever registers it */
};

/**
 * Make a collation known under its number. binary (63), ascii_general_ci (11), ascii_bin (65),
 * latin1_bin (47) and utf8mb4_bin (46) are there already.
 *
 * @param collation  the caller's, unchanged until the process ends
 * @return FIRN_OK (also if this very one is registered); FIRN_E_INVALID (what is wrong with it);
 *         FIRN_E_EXISTS (the number is another one's)
 */
firn_rc collation_register(const struct collation *collation);

/** @return the collation of a number, or NULL. Any thread. */
const struct collation *collation_find(uint32_t number);

/** @return whether the bytes can be had back from the weights: they are the same. */
static inline bool collation_is_reversible(const struct collation *collation)
{
    return collation->weights == NULL && collation->space_bytes == 0;
}

#endif
