/*
 * codec_internal.h -- single values as bytes of a fixed size, for rows, keys and schemas.
 */
#ifndef FIRN_TABLE_CODEC_INTERNAL_H
#define FIRN_TABLE_CODEC_INTERNAL_H

#include "base/check.h"
#include "base/endian.h"
#include "table/column.h"

/* Microseconds in what a stored number counts, by codec.second_bytes. Switches, not a table: the
   compiler then divides by multiplying. */
static inline int64_t codec_scale_down(int64_t number, unsigned second_bytes)
{
    switch (second_bytes) {
    case 0:
        return number / 1000000;
    case 1:
        return number / 10000;
    case 2:
        return number / 100;
    default:
        return number;
    }
}

/* codec_scale_down for what is not below 0. */
static inline uint64_t codec_scale_down_unsigned(uint64_t number, unsigned second_bytes)
{
    switch (second_bytes) {
    case 0:
        return number / 1000000;
    case 1:
        return number / 10000;
    case 2:
        return number / 100;
    default:
        return number;
    }
}

/* Back to microseconds; of numbers below 0, too, as two's complement. */
static inline uint64_t codec_scale_up(uint64_t number, unsigned second_bytes)
{
    switch (second_bytes) {
    case 0:
        return number * 1000000;
    case 1:
        return number * 10000;
    case 2:
        return number * 100;
    default:
        return number;
    }
}

/* Numbers of 1 to 8 bytes. Storing writes 8, of which those beyond the width mean nothing: what
   follows is written afterwards, or is slack. */
static inline void codec_store_le(uint8_t *to, uint64_t number)
{
    put_u64(to, number);
}

/* The same, big-endian: such numbers compare as their bytes do. */
static inline void codec_store_be(uint8_t *to, uint64_t number, unsigned width)
{
    uint64_t bytes = htobe64(number << (64 - 8 * width));
    memcpy(to, &bytes, sizeof bytes);
}

/* Loading reads no byte beyond the width: a row may end there, and a mapping with it. */
static inline uint64_t codec_load_le(const uint8_t *from, unsigned width)
{
    switch (width) {
    case 1:
        return from[0];
    case 2:
        return get_u16(from);
    case 3:
        return get_u16(from) | (uint64_t)from[2] << 16;
    case 4:
        return get_u32(from);
    case 5:
        return get_u32(from) | (uint64_t)from[4] << 32;
    case 6:
        return get_u32(from) | (uint64_t)get_u16(from + 4) << 32;
    case 7:
        return get_u32(from) | (uint64_t)get_u32(from + 3) << 24;
    default:
        return get_u64(from);
    }
}

/* What codec_store_be has written. */
static inline uint64_t codec_load_be(const uint8_t *from, unsigned width)
{
    return __builtin_bswap64(codec_load_le(from, width) << (64 - 8 * width));
}

/* A number of so many bytes with its sign in the top bit. */
static inline int64_t codec_sign_extend(uint64_t number, unsigned width)
{
    unsigned shift = 64 - 8 * width;
    return (int64_t)(number << shift) >> shift;
}

/* Floating numbers as the bits that they are, and back; a float is held as a double. */
static inline uint64_t codec_bits_of_double(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* The inverse of codec_bits_of_double. */
static inline double codec_double_of_bits(uint64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* The nearest float's bits. */
static inline uint32_t codec_bits_of_float(double number)
{
    float narrow = (float)number;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

/* The inverse of codec_bits_of_float. */
static inline double codec_float_of_bits(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* The number that stands for a value that is not NULL, of all kinds but FIXED and VARIABLE. */
static inline uint64_t codec_number_of(const struct column_codec *codec, const struct value *value)
{
    switch (codec->kind) {
    case CODEC_UINT:
        return codec_scale_down_unsigned(value->u, codec->second_bytes);
    case CODEC_INT:
        return (uint64_t)codec_scale_down(value->i, codec->second_bytes);
    case CODEC_FLOAT:
        return codec_bits_of_float(value->d);
    default:
        return codec_bits_of_double(value->d);
    }
}

/* Set the value that a number of the codec's width stands for. Values are set field by field, here
   and wherever they are read from rows: copying one that was just put together costs a stall, for
   its parts were stored in other sizes than they are loaded. */
static inline void codec_set_value(const struct column_codec *codec, uint64_t number,
                                   struct value *value)
{
    switch (codec->kind) {
    case CODEC_UINT:
        value->kind = VALUE_UINT;
        value->u = codec_scale_up(number, codec->second_bytes);
        break;
    case CODEC_INT:
        value->kind = VALUE_INT;
        value->u =
            codec_scale_up((uint64_t)codec_sign_extend(number, codec->width), codec->second_bytes);
        break;
    case CODEC_FLOAT:
        value->kind = VALUE_DOUBLE;
        value->d = codec_float_of_bits((uint32_t)number);
        break;
    default:
        value->kind = VALUE_DOUBLE;
        value->d = codec_double_of_bits(number);
        break;
    }
}

/* Set bytes that lie somewhere. */
static inline void codec_set_bytes(const uint8_t *bytes, size_t size_bytes, struct value *value)
{
    value->kind = VALUE_BYTES;
    value->bytes.bytes = bytes;
    value->bytes.size_bytes = size_bytes;
}

/* The sign bit of a number in a key is flipped, so that negative ones come first. */
static inline uint64_t codec_flip_sign(const struct column_codec *codec, uint64_t number)
{
    return codec->kind == CODEC_INT ? number ^ UINT64_C(1) << (8 * codec->width - 1) : number;
}

/* Read an integer of a key. */
static inline void codec_load_key(const struct column_codec *codec, const uint8_t *from,
                                  bool is_descending, struct value *value)
{
    uint64_t number = codec_load_be(from, codec->width);
    if (is_descending)
        number = ~number << (64 - 8 * codec->width) >> (64 - 8 * codec->width);
    codec_set_value(codec, codec_flip_sign(codec, number), value);
}

/* Write bytes of a fixed size, zeros behind shorter ones. */
static inline void codec_store_fixed(uint8_t *to, struct span bytes, size_t width)
{
    ASSERT(bytes.size_bytes <= width);
    if (bytes.size_bytes > 0)
        memcpy(to, bytes.bytes, bytes.size_bytes);
    memset(to + bytes.size_bytes, 0, width - bytes.size_bytes);
}

/* Write a value that is not NULL, of a codec of a fixed size; up to 7 bytes behind it are
   overwritten. */
static inline void codec_store(const struct column_codec *codec, const struct value *value,
                               uint8_t *to)
{
    if (codec->kind == CODEC_FIXED)
        codec_store_fixed(to, value->bytes, codec->width);
    else
        codec_store_le(to, codec_number_of(codec, value));
}

/* Read what codec_store has written. */
static inline void codec_load(const struct column_codec *codec, const uint8_t *from,
                              struct value *value)
{
    if (codec->kind == CODEC_FIXED)
        codec_set_bytes(from, codec->width, value);
    else
        codec_set_value(codec, codec_load_le(from, codec->width), value);
}

#endif
