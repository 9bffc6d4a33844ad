/*
 * decimal.h -- exact decimal numbers, packed so that their bytes order as they do.
 *
 * The digits before and behind the point are packed apart, nine to four bytes, big-endian, those
 * left over (at the front before the point, at the end behind it) into as many bytes as they need.
 * The top bit of the first byte is flipped; of a negative number then all bits are. That is the
 * form of MySQL's binary decimals, and it has one size for a precision and scale.
 */
#ifndef FIRN_TABLE_DECIMAL_H
#define FIRN_TABLE_DECIMAL_H

#include "base/span.h"

#include <stdbool.h>

enum {
    DECIMAL_PRECISION_MAX = 65,
    DECIMAL_SCALE_MAX = 38,
    DECIMAL_BYTES_MAX = 30,
    DECIMAL_TEXT_BYTES = DECIMAL_PRECISION_MAX + 3, /* sign, a zero, point */
};

/** @return the size of a packed number. @param precision  1 to 65, at least scale */
size_t decimal_bytes(unsigned precision, unsigned scale);

enum decimal_verdict {
    DECIMAL_READ,
    DECIMAL_NO_NUMBER,
    DECIMAL_TOO_LARGE,   /* too many digits before the point */
    DECIMAL_TOO_PRECISE, /* digits other than 0 behind the scale */
};

/**
 * Read a number: sign, digits, a point and digits; no exponent.
 *
 * @param to  decimal_bytes; written only for DECIMAL_READ
 */
enum decimal_verdict decimal_parse(struct span text, unsigned precision, unsigned scale,
                                   uint8_t *to);

/** Write a packed number, with all digits of its scale. @param to  room for DECIMAL_TEXT_BYTES
 * @return how many bytes were written */
size_t decimal_print(const uint8_t *packed, unsigned precision, unsigned scale, char *to);

/** @return whether bytes of decimal_bytes are a number: no group above its nines, no negative zero.
 */
bool decimal_is_sound(const uint8_t *packed, unsigned precision, unsigned scale);

#endif
