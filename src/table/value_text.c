/*
 * Values as text: numbers and bytes here, dates and times in value_time.c.
 */
#include "table/decimal.h"
#include "table/value_text_internal.h"

#include "base/check.h"

#include <inttypes.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    NUMBER_BYTES = 32,        /* of any number but a decimal, or a moment */
    FLOATING_TEXT_MAX = 1100, /* digits of a floating number that are read */
};

firn_rc value_refuse_text(const struct column *column, struct span text, const char *what)
{
    char type[COLUMN_TYPE_TEXT_BYTES];
    int shown = text.size_bytes < 60 ? (int)text.size_bytes : 60;
    for (int i = 0; i < shown; i++)
        if (text.bytes[i] < ' ' || text.bytes[i] > '~')
            shown = i; /* an error's sentence is one line */
    return rc_raise(FIRN_E_INVALID, "column %s, %s: \"%.*s\"%s %s", column->spec.name,
                    column_type_text(&column->spec, type), shown, (const char *)text.bytes,
                    (size_t)shown < text.size_bytes ? "..." : "", what);
}

/* ---- The C locale, for the decimal point ---- */

static locale_t plain_locale;

static void make_plain_locale(void)
{
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    ENSURE(plain_locale != (locale_t)0);
}

static locale_t use_plain_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain_locale);
    return uselocale(plain_locale);
}

/* ---- Writing ---- */

/* As few digits as read as the same number. */
static size_t print_floating(const struct column *column, double number, char *to)
{
    bool is_float = column->spec.type == COLUMN_FLOAT;
    char text[NUMBER_BYTES];
    int size = 0;
    locale_t before = use_plain_locale();
    for (int digits = is_float ? 6 : 15; digits <= (is_float ? 9 : 17); digits++) {
        size = snprintf(text, sizeof text, "%.*g", digits, number);
        if (is_float ? strtof(text, NULL) == (float)number : strtod(text, NULL) == number)
            break;
    }
    uselocale(before);
    memcpy(to, text, (size_t)size);
    return (size_t)size;
}

static size_t print_hex(struct span bytes, char *to)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes.size_bytes; i++) {
        *to++ = digits[bytes.bytes[i] >> 4];
        *to++ = digits[bytes.bytes[i] & 15];
    }
    return 2 * bytes.size_bytes;
}

static size_t print_integer(const struct value *value, char *to)
{
    char text[NUMBER_BYTES];
    int size = value->kind == VALUE_INT ? snprintf(text, sizeof text, "%" PRId64, value->i)
                                        : snprintf(text, sizeof text, "%" PRIu64, value->u);
    memcpy(to, text, (size_t)size);
    return (size_t)size;
}

size_t value_print_bound(const struct column *column, const struct value *value)
{
    if (column->spec.type == COLUMN_DECIMAL)
        return DECIMAL_TEXT_BYTES;
    if (value->kind != VALUE_BYTES)
        return NUMBER_BYTES;
    return column->collation != NULL ? value->bytes.size_bytes : 2 * value->bytes.size_bytes;
}

size_t value_print(const struct column *column, const struct value *value, char *to)
{
    ASSERT(value->kind != VALUE_NULL);
    if (value->kind == VALUE_DOUBLE)
        return print_floating(column, value->d, to);
    switch (column->spec.type) {
    case COLUMN_DECIMAL:
        return decimal_print(value->bytes.bytes, column->spec.precision, column->spec.scale, to);
    case COLUMN_DATE:
    case COLUMN_TIME:
    case COLUMN_DATETIME:
    case COLUMN_TIMESTAMP:
        return value_print_moment(column, value, to);
    default:
        break;
    }
    if (value->kind != VALUE_BYTES)
        return print_integer(value, to);
    if (column->collation == NULL)
        return print_hex(value->bytes, to);
    if (value->bytes.size_bytes > 0)
        memcpy(to, value->bytes.bytes, value->bytes.size_bytes);
    return value->bytes.size_bytes;
}

/* ---- Reading ---- */

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static firn_rc parse_integer(const struct column *column, struct span text, struct value *value)
{
    bool is_negative = text.size_bytes > 0 && text.bytes[0] == '-';
    size_t at = is_negative || (text.size_bytes > 0 && text.bytes[0] == '+') ? 1 : 0;
    uint64_t number = 0;
    if (at == text.size_bytes)
        return value_refuse_text(column, text, "is no whole number");
    for (; at < text.size_bytes; at++) {
        if (!is_digit(text.bytes[at]))
            return value_refuse_text(column, text, "is no whole number");
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text.bytes[at] - '0', &number))
            return value_refuse_text(column, text, "is out of range");
    }
    if (!is_negative) {
        *value = value_uint(number);
        return FIRN_OK;
    }
    if (number > UINT64_C(1) << 63)
        return value_refuse_text(column, text, "is out of range");
    *value = value_int((int64_t)(0 - number));
    return FIRN_OK;
}

/* The end of digits. */
static size_t skip_digits(struct span text, size_t at)
{
    while (at < text.size_bytes && is_digit(text.bytes[at]))
        at++;
    return at;
}

/* Sign, digits with a point among them, exponent: what strtod takes is more (hexadecimal, inf,
   spaces). */
static bool is_floating(struct span text)
{
    size_t at = 0;
    if (at < text.size_bytes && (text.bytes[at] == '-' || text.bytes[at] == '+'))
        at++;
    size_t whole = skip_digits(text, at);
    size_t digits = whole - at;
    at = whole;
    if (at < text.size_bytes && text.bytes[at] == '.') {
        size_t part = skip_digits(text, at + 1);
        digits += part - at - 1;
        at = part;
    }
    if (digits == 0)
        return false;
    if (at < text.size_bytes && (text.bytes[at] | 0x20) == 'e') {
        at++;
        if (at < text.size_bytes && (text.bytes[at] == '-' || text.bytes[at] == '+'))
            at++;
        size_t end = skip_digits(text, at);
        if (end == at)
            return false;
        at = end;
    }
    return at == text.size_bytes;
}

static firn_rc parse_floating(const struct column *column, struct span text, struct value *value)
{
    char copy[FLOATING_TEXT_MAX + 1];
    if (text.size_bytes > FLOATING_TEXT_MAX || !is_floating(text))
        return value_refuse_text(column, text, "is no number");
    memcpy(copy, text.bytes, text.size_bytes);
    copy[text.size_bytes] = '\0';
    locale_t before = use_plain_locale();
    *value =
        value_double(column->spec.type == COLUMN_FLOAT ? strtof(copy, NULL) : strtod(copy, NULL));
    uselocale(before);
    return FIRN_OK;
}

static firn_rc parse_decimal(const struct column *column, struct span text, uint8_t *room,
                             struct value *value)
{
    switch (decimal_parse(text, column->spec.precision, column->spec.scale, room)) {
    case DECIMAL_READ:
        *value = value_bytes(span_of(room, column->codec.width));
        return FIRN_OK;
    case DECIMAL_TOO_LARGE:
        return value_refuse_text(column, text, "is out of range");
    case DECIMAL_TOO_PRECISE:
        return value_refuse_text(column, text, "has more digits behind the point than fit");
    default:
        return value_refuse_text(column, text, "is no decimal number");
    }
}

static int hex_digit(uint8_t byte)
{
    if (is_digit(byte))
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static firn_rc parse_hex(const struct column *column, struct span text, uint8_t *room,
                         struct value *value)
{
    if (text.size_bytes % 2 != 0)
        return value_refuse_text(column, text, "is no even number of hexadecimal digits");
    for (size_t i = 0; i < text.size_bytes / 2; i++) {
        int high = hex_digit(text.bytes[2 * i]);
        int low = hex_digit(text.bytes[2 * i + 1]);
        if (high < 0 || low < 0)
            return value_refuse_text(column, text, "is no even number of hexadecimal digits");
        room[i] = (uint8_t)(high << 4 | low);
    }
    *value = value_bytes(span_of(room, text.size_bytes / 2));
    return FIRN_OK;
}

size_t value_parse_bound(const struct column *column, size_t text_bytes)
{
    if (column->spec.type == COLUMN_DECIMAL)
        return column->codec.width;
    return column->collation == NULL ? text_bytes / 2 : 0;
}

static firn_rc parse(const struct column *column, struct span text, uint8_t *room,
                     struct value *value)
{
    switch (column->spec.type) {
    case COLUMN_FLOAT:
    case COLUMN_DOUBLE:
        return parse_floating(column, text, value);
    case COLUMN_DECIMAL:
        return parse_decimal(column, text, room, value);
    case COLUMN_BINARY:
    case COLUMN_VARBINARY:
    case COLUMN_BLOB:
        return parse_hex(column, text, room, value);
    case COLUMN_CHAR:
    case COLUMN_VARCHAR:
    case COLUMN_TEXT:
        *value = value_bytes(text);
        return FIRN_OK;
    case COLUMN_DATE:
    case COLUMN_TIME:
    case COLUMN_DATETIME:
    case COLUMN_TIMESTAMP:
        return value_parse_moment(column, text, value);
    default:
        return parse_integer(column, text, value);
    }
}

firn_rc value_parse(const struct column *column, struct span text, uint8_t *room,
                    struct value *value)
{
    struct value read;
    if (text.size_bytes == 0)
        text = span_of("", 0); /* NULL, which an empty span may be, has no end */
    FIRN_TRY(parse(column, text, room, &read));
    FIRN_TRY(value_check(column, &read));
    *value = read;
    return FIRN_OK;
}
