#include "table/decimal.h"

#include "base/endian.h"

#include <string.h>

enum { GROUP_DIGITS = 9, GROUP_BYTES = 4 };

/* Bytes that so many digits take. */
static const uint8_t digit_bytes[GROUP_DIGITS + 1] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
static const uint32_t powers[GROUP_DIGITS + 1] = {1,      10,      100,      1000,      10000,
                                                  100000, 1000000, 10000000, 100000000, 1000000000};

/* Digits of a number that are still to come, before and behind the point. */
struct digits_left {
    unsigned whole;
    unsigned part;
};

/* How many digits the next group has, 0 after the last: nine, but for the first before the point
   and the last behind it. */
static unsigned next_group(struct digits_left *left)
{
    unsigned digits;
    if (left->whole > 0) {
        digits = (left->whole - 1) % GROUP_DIGITS + 1;
        left->whole -= digits;
    } else {
        digits = left->part < GROUP_DIGITS ? left->part : GROUP_DIGITS;
        left->part -= digits;
    }
    return digits;
}

size_t decimal_bytes(unsigned precision, unsigned scale)
{
    unsigned whole = precision - scale;
    return (size_t)(whole / GROUP_DIGITS + scale / GROUP_DIGITS) * GROUP_BYTES +
           digit_bytes[whole % GROUP_DIGITS] + digit_bytes[scale % GROUP_DIGITS];
}

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

/* Take a text apart into digits, as many as precision, with the point behind precision - scale. */
static enum decimal_verdict read_digits(struct span text, unsigned precision, unsigned scale,
                                        uint8_t digits[DECIMAL_PRECISION_MAX])
{
    const uint8_t *at = text.bytes;
    const uint8_t *end = at + text.size_bytes;
    const uint8_t *whole = at;
    unsigned before = precision - scale;
    while (at < end && is_digit(*at))
        at++;
    size_t whole_count = (size_t)(at - whole);
    bool has_point = at < end && *at == '.';
    const uint8_t *part = has_point ? at + 1 : at;
    for (at = part; at < end && is_digit(*at); at++)
        ;
    size_t part_count = (size_t)(at - part);
    if (at != end || whole_count + part_count == 0)
        return DECIMAL_NO_NUMBER;
    for (; whole_count > 0 && *whole == '0'; whole++)
        whole_count--;
    while (part_count > 0 && part[part_count - 1] == '0')
        part_count--;
    if (whole_count > before)
        return DECIMAL_TOO_LARGE;
    if (part_count > scale)
        return DECIMAL_TOO_PRECISE;
    memset(digits, 0, precision);
    for (size_t i = 0; i < whole_count; i++)
        digits[before - whole_count + i] = (uint8_t)(whole[i] - '0');
    for (size_t i = 0; i < part_count; i++)
        digits[before + i] = (uint8_t)(part[i] - '0');
    return DECIMAL_READ;
}

enum decimal_verdict decimal_parse(struct span text, unsigned precision, unsigned scale,
                                   uint8_t *to)
{
    uint8_t digits[DECIMAL_PRECISION_MAX];
    const uint8_t *digit = digits;
    struct digits_left left = {precision - scale, scale};
    bool is_negative = text.size_bytes > 0 && text.bytes[0] == '-';
    bool is_zero = true;
    uint8_t *at = to;
    if (is_negative || (text.size_bytes > 0 && text.bytes[0] == '+'))
        text = span_of(text.bytes + 1, text.size_bytes - 1);
    enum decimal_verdict verdict = read_digits(text, precision, scale, digits);
    if (verdict != DECIMAL_READ)
        return verdict;
    for (unsigned group = next_group(&left); group > 0; group = next_group(&left)) {
        uint32_t number = 0;
        for (unsigned i = 0; i < group; i++)
            number = 10 * number + *digit++;
        is_zero &= number == 0;
        for (unsigned i = digit_bytes[group]; i-- > 0;)
            *at++ = (uint8_t)(number >> (8 * i));
    }
    to[0] ^= 0x80;
    for (uint8_t *byte = to; byte < at && is_negative && !is_zero; byte++)
        *byte = (uint8_t) ~*byte;
    return DECIMAL_READ;
}

/* The next group of a packed number; `flip` is 0xff for negative ones. */
static uint32_t read_group(const uint8_t **at, const uint8_t *packed, unsigned digits, uint8_t flip)
{
    uint32_t number = 0;
    for (unsigned i = 0; i < digit_bytes[digits]; i++) {
        uint8_t byte = **at ^ flip;
        if (*at == packed)
            byte ^= 0x80;
        number = number << 8 | byte;
        (*at)++;
    }
    return number;
}

size_t decimal_print(const uint8_t *packed, unsigned precision, unsigned scale, char *to)
{
    struct digits_left left = {precision - scale, scale};
    char digits[DECIMAL_PRECISION_MAX];
    unsigned count = 0;
    const uint8_t *at = packed;
    bool is_negative = (packed[0] & 0x80) == 0;
    for (unsigned group = next_group(&left); group > 0; group = next_group(&left)) {
        uint32_t number = read_group(&at, packed, group, is_negative ? 0xff : 0);
        for (unsigned i = group; i-- > 0; count++)
            digits[count] = (char)('0' + number / powers[i] % 10);
    }
    unsigned whole = precision - scale;
    unsigned first = 0;
    char *begin = to;
    while (first < whole && digits[first] == '0')
        first++;
    if (is_negative)
        *to++ = '-';
    if (first == whole)
        *to++ = '0';
    memcpy(to, digits + first, whole - first);
    to += whole - first;
    if (scale > 0) {
        *to++ = '.';
        memcpy(to, digits + whole, scale);
        to += scale;
    }
    return (size_t)(to - begin);
}

bool decimal_is_sound(const uint8_t *packed, unsigned precision, unsigned scale)
{
    struct digits_left left = {precision - scale, scale};
    const uint8_t *at = packed;
    bool is_negative = (packed[0] & 0x80) == 0;
    bool is_zero = true;
    for (unsigned group = next_group(&left); group > 0; group = next_group(&left)) {
        uint32_t number = read_group(&at, packed, group, is_negative ? 0xff : 0);
        if (number >= powers[group])
            return false;
        is_zero &= number == 0;
    }
    return !(is_negative && is_zero);
}
