#include "table/collation.h"

#include "base/endian.h"

#include <stdatomic.h>

/* Registered once, then read by any thread: the release store pairs with the acquire load in
   collation_find, so whoever sees the pointer sees the collation. */
static const struct collation *_Atomic registered[COLLATION_NUMBER_MAX + 1];

/* Only bytes below 0x80. */
static bool ascii_is_text(const struct collation *collation, struct span bytes)
{
    (void)collation;
    for (size_t i = 0; i < bytes.size_bytes; i++)
        if (bytes.bytes[i] >= 0x80)
            return false;
    return true;
}

/* Letters weigh what their capitals weigh. */
static size_t ascii_ci_weights(const struct collation *collation, struct span text, unsigned level,
                               uint8_t *to, size_t capacity_bytes)
{
    (void)collation;
    (void)level;
    size_t size = text.size_bytes < capacity_bytes ? text.size_bytes : capacity_bytes;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = text.bytes[i];
        to[i] = byte >= 'a' && byte <= 'z' ? (uint8_t)(byte - 'a' + 'A') : byte;
    }
    return text.size_bytes;
}

/* The size of the well-formed UTF-8 character at the beginning of so many bytes (at least one), as
   Unicode's table 3-7 has it; 0 if there is none. */
static size_t utf8_size(const uint8_t *bytes, size_t size_bytes)
{
    uint8_t first = bytes[0];
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    size_t size;
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size > size_bytes)
        return 0;
    if (first == 0xe0)
        low = 0xa0; /* else it could be said in two bytes */
    if (first == 0xed)
        high = 0x9f; /* surrogates are no characters */
    if (first == 0xf0)
        low = 0x90;
    if (first == 0xf4)
        high = 0x8f; /* the last is U+10FFFF */
    if (bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    return size;
}

static bool utf8_is_text(const struct collation *collation, struct span bytes)
{
    (void)collation;
    for (size_t at = 0; at < bytes.size_bytes;) {
        size_t left = bytes.size_bytes - at;
        if (left >= 8 && (get_u64(bytes.bytes + at) & UINT64_C(0x8080808080808080)) == 0) {
            at += 8; /* ASCII, as most is */
            continue;
        }
        size_t size = utf8_size(bytes.bytes + at, left);
        if (size == 0)
            return false;
        at += size;
    }
    return true;
}

static size_t utf8_prefix(const struct collation *collation, struct span text, size_t characters)
{
    (void)collation;
    size_t at = 0;
    while (at < text.size_bytes && characters-- > 0) {
        size_t size = utf8_size(text.bytes + at, text.size_bytes - at);
        at += size > 0 ? size : 1;
    }
    return at;
}

/* UTF-8's bytes order as its code points do, so utf8mb4_bin needs no weights. */
static const struct collation built_in[] = {
    {.number = COLLATION_BINARY, .name = "binary", .character_bytes_max = 1, .levels = 1},
    {.number = COLLATION_UTF8MB4_BIN,
     .name = "utf8mb4_bin",
     .character_bytes_max = 4,
     .levels = 1,
     .space_bytes = 1,
     .space = {{' '}},
     .prefix = utf8_prefix,
     .is_text = utf8_is_text},
    {.number = COLLATION_LATIN1_BIN,
     .name = "latin1_bin",
     .character_bytes_max = 1,
     .levels = 1,
     .space_bytes = 1,
     .space = {{' '}}},
    {.number = COLLATION_ASCII_BIN,
     .name = "ascii_bin",
     .character_bytes_max = 1,
     .levels = 1,
     .space_bytes = 1,
     .space = {{' '}},
     .is_text = ascii_is_text},
    {.number = COLLATION_ASCII_GENERAL_CI,
     .name = "ascii_general_ci",
     .character_bytes_max = 1,
     .levels = 1,
     .space_bytes = 1,
     .space = {{' '}},
     .weights = ascii_ci_weights,
     .is_text = ascii_is_text},
};

static const struct collation *find_built_in(uint32_t number)
{
    for (size_t i = 0; i < sizeof(built_in) / sizeof(built_in[0]); i++)
        if (built_in[i].number == number)
            return &built_in[i];
    return NULL;
}

const struct collation *collation_find(uint32_t number)
{
    if (number > COLLATION_NUMBER_MAX)
        return NULL;
    const struct collation *found = atomic_load_explicit(&registered[number], memory_order_acquire);
    return found != NULL ? found : find_built_in(number);
}

firn_rc collation_register(const struct collation *collation)
{
    const struct collation *there = NULL;
    if (collation->number == 0 || collation->number > COLLATION_NUMBER_MAX)
        return rc_raise(FIRN_E_INVALID, "a collation's number is 1 to %d, not %u",
                        COLLATION_NUMBER_MAX, collation->number);
    if (collation->name == NULL || collation->name[0] == '\0')
        return rc_raise(FIRN_E_INVALID, "collation %u needs a name", collation->number);
    if (collation->levels == 0 || collation->levels > COLLATION_LEVELS_MAX ||
        (collation->levels > 1 && collation->weights == NULL))
        return rc_raise(FIRN_E_INVALID,
                        "collation %s has 1 to %d levels, and more than one only with weights, "
                        "not %u",
                        collation->name, COLLATION_LEVELS_MAX, collation->levels);
    if (collation->character_bytes_max == 0 || collation->space_bytes > COLLATION_SPACE_BYTES_MAX ||
        collation->blank_bytes > COLLATION_SPACE_BYTES_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "collation %s needs a largest size of a character above 0, and a space "
                        "and its weight of at most %d bytes",
                        collation->name, COLLATION_SPACE_BYTES_MAX);
    if (collation->space_bytes > 1 && collation->weights == NULL &&
        (collation->prefix == NULL || collation->is_text == NULL))
        return rc_raise(FIRN_E_INVALID,
                        "collation %s, whose texts are their own weights in units of %u bytes, "
                        "needs functions that tell texts and their prefixes",
                        collation->name, collation->space_bytes);
    if (find_built_in(collation->number) != NULL)
        return rc_raise(FIRN_E_EXISTS, "collation number %u is %s's, which is built in",
                        collation->number, find_built_in(collation->number)->name);
    if (!atomic_compare_exchange_strong_explicit(&registered[collation->number], &there, collation,
                                                 memory_order_release, memory_order_acquire) &&
        there != collation)
        return rc_raise(FIRN_E_EXISTS, "collation number %u is registered as %s", collation->number,
                        there->name);
    return FIRN_OK;
}
