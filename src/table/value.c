/*
 * Judging values: what a column takes, and what it says about what it does not.
 */
#include "table/column_internal.h"
#include "table/decimal.h"
#include "table/value_internal.h"

#include "base/check.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>

const uint32_t value_powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000};

static firn_rc refuse(const struct column *column, const char *what)
{
    char type[COLUMN_TYPE_TEXT_BYTES];
    return rc_raise(FIRN_E_INVALID, "column %s, %s: %s", column->spec.name,
                    column_type_text(&column->spec, type), what);
}

static firn_rc check_signed(const struct column *column, struct value *value)
{
    unsigned bits = 8U * column->codec.width - 1;
    int64_t most = (int64_t)((UINT64_C(1) << bits) - 1);
    char type[COLUMN_TYPE_TEXT_BYTES];
    if (value->kind == VALUE_UINT && value->u > (uint64_t)most)
        return rc_raise(FIRN_E_INVALID,
                        "column %s: %" PRIu64 " is out of range; %s takes %" PRId64 " to %" PRId64,
                        column->spec.name, value->u, column_type_text(&column->spec, type),
                        -most - 1, most);
    if (value->kind == VALUE_INT && (value->i > most || value->i < -most - 1))
        return rc_raise(FIRN_E_INVALID,
                        "column %s: %" PRId64 " is out of range; %s takes %" PRId64 " to %" PRId64,
                        column->spec.name, value->i, column_type_text(&column->spec, type),
                        -most - 1, most);
    if (value->kind == VALUE_UINT)
        *value = value_int((int64_t)value->u);
    return FIRN_OK;
}

static firn_rc check_unsigned(const struct column *column, struct value *value)
{
    unsigned bits =
        column->spec.type == COLUMN_BIT ? column->spec.length : 8U * column->codec.width;
    uint64_t most = UINT64_MAX >> (64 - bits);
    char type[COLUMN_TYPE_TEXT_BYTES];
    if (value->kind == VALUE_INT && value->i < 0)
        return rc_raise(FIRN_E_INVALID,
                        "column %s: %" PRId64 " is out of range; %s takes 0 to %" PRIu64,
                        column->spec.name, value->i, column_type_text(&column->spec, type), most);
    uint64_t number = value->kind == VALUE_INT ? (uint64_t)value->i : value->u;
    if (number > most)
        return rc_raise(FIRN_E_INVALID,
                        "column %s: %" PRIu64 " is out of range; %s takes 0 to %" PRIu64,
                        column->spec.name, number, column_type_text(&column->spec, type), most);
    *value = value_uint(number);
    return FIRN_OK;
}

/* The bounds are compared so that what is no number is refused, too. */
static firn_rc check_floating(const struct column *column, struct value *value)
{
    double number = value->d;
    if (value->kind == VALUE_INT)
        number = (double)value->i;
    else if (value->kind == VALUE_UINT)
        number = (double)value->u;
    double most = column->spec.type == COLUMN_FLOAT ? FLT_MAX : DBL_MAX;
    if (!(number >= -most && number <= most))
        return refuse(column, "the number is none, or out of range");
    if (column->spec.type == COLUMN_FLOAT)
        number = (float)number;
    if (column->spec.is_unsigned && number < 0)
        return refuse(column, "the number is below 0");
    *value = value_double(number);
    return FIRN_OK;
}

static bool is_date(uint64_t date)
{
    struct value_fields fields = value_split_date(date);
    return fields.year <= 9999 && fields.month <= 12 && fields.day <= 31;
}

static bool is_whole(const struct column *column, uint64_t microseconds)
{
    return microseconds % value_powers[6 - column->spec.second_digits] == 0;
}

static firn_rc check_moment(const struct column *column, const struct value *value)
{
    uint64_t number = value->u;
    switch (column->spec.type) {
    case COLUMN_DATE:
        return is_date(number) ? FIRN_OK : refuse(column, "this is no date");
    case COLUMN_YEAR:
        return number == 0 || (number >= 1901 && number <= 2155)
                   ? FIRN_OK
                   : refuse(column, "a year is 1901 to 2155, or 0");
    case COLUMN_TIMESTAMP:
        if (number > VALUE_TIMESTAMP_MAX)
            return refuse(column, "a timestamp is before 2106-02-07 06:28:16 UTC");
        break;
    default: {
        struct value_fields fields = value_split_datetime(number);
        if (!is_date(number / 1000000 >> 17) || fields.hour > 23 || fields.minute > 59 ||
            fields.second > 59)
            return refuse(column, "this is no date and time");
    }
    }
    return is_whole(column, number) ? FIRN_OK
                                    : refuse(column, "the second has more digits than fit");
}

static firn_rc check_time(const struct column *column, const struct value *value)
{
    uint64_t size = value->i < 0 ? 0 - (uint64_t)value->i : (uint64_t)value->i;
    if (size > VALUE_TIME_MAX)
        return refuse(column, "a time is -838:59:59.999999 to 838:59:59.999999");
    return is_whole(column, size) ? FIRN_OK : refuse(column, "the second has more digits than fit");
}

static firn_rc refuse_size(const struct column *column, size_t size_bytes)
{
    char type[COLUMN_TYPE_TEXT_BYTES];
    return rc_raise(FIRN_E_INVALID, "column %s: a value of %zu bytes is too long for %s",
                    column->spec.name, size_bytes, column_type_text(&column->spec, type));
}

static firn_rc check_decimal(const struct column *column, const struct value *value)
{
    const uint8_t *packed = value->bytes.bytes;
    if (value->bytes.size_bytes != column->codec.width ||
        !decimal_is_sound(packed, column->spec.precision, column->spec.scale))
        return refuse(column, "the bytes are no packed decimal of that precision and scale");
    if (column->spec.is_unsigned && (packed[0] & 0x80) == 0)
        return refuse(column, "the number is below 0");
    return FIRN_OK;
}

/* A text without the spaces at its end. */
static struct span strip_blanks(const struct collation *collation, struct span text)
{
    static const uint8_t usual = ' ';
    const uint8_t *blank = collation->blank_bytes > 0 ? collation->blank : &usual;
    size_t size = collation->blank_bytes > 0 ? collation->blank_bytes : 1;
    while (text.size_bytes >= size && memcmp(text.bytes + text.size_bytes - size, blank, size) == 0)
        text.size_bytes -= size;
    return text;
}

static firn_rc check_text(const struct column *column, struct value *value)
{
    const struct collation *collation = column->collation;
    struct span text = value->bytes;
    size_t length = column->spec.length;
    if (collation->is_text != NULL && !collation->is_text(collation, text))
        return rc_raise(FIRN_E_INVALID,
                        "column %s: the value's %zu bytes are no text of %s's character set",
                        column->spec.name, text.size_bytes, collation->name);
    if (column->spec.type == COLUMN_CHAR)
        text = strip_blanks(collation, text);
    bool is_long = text.size_bytes > length;
    if (column->spec.type == COLUMN_TEXT)
        is_long = is_long && length != 0;
    else if (is_long && collation->prefix != NULL)
        is_long = collation->prefix(collation, text, length) < text.size_bytes;
    if (is_long)
        return refuse_size(column, text.size_bytes);
    value->bytes = text;
    return FIRN_OK;
}

static firn_rc check_bytes(const struct column *column, struct value *value)
{
    if (value->bytes.size_bytes > UINT32_MAX)
        return refuse_size(column, value->bytes.size_bytes);
    if (column->collation != NULL)
        return check_text(column, value);
    if (column->spec.type == COLUMN_DECIMAL)
        return check_decimal(column, value);
    bool is_bounded = column->spec.length != 0 || !column_is_large(&column->spec);
    if (is_bounded && value->bytes.size_bytes > column->spec.length)
        return refuse_size(column, value->bytes.size_bytes);
    return FIRN_OK;
}

/* How a value of the wrong kind is refused. */
static firn_rc refuse_kind(const struct column *column, enum value_kind kind)
{
    static const char *const names[] = {
        [VALUE_INT] = "a number is not what this type takes",
        [VALUE_UINT] = "a number without a sign is not what this type takes",
        [VALUE_DOUBLE] = "a floating number is not what this type takes",
        [VALUE_BYTES] = "bytes are not what this type takes"};
    if ((unsigned)kind >= ARRAY_COUNT(names))
        return refuse(column, "there is no such kind of value");
    return refuse(column, names[kind]);
}

firn_rc value_check(const struct column *column, struct value *value)
{
    bool is_integer = value->kind == VALUE_INT || value->kind == VALUE_UINT;
    if (value->kind == VALUE_NULL)
        return column->spec.is_nullable ? FIRN_OK : refuse(column, "it takes no NULL");
    switch (column->codec.kind) {
    case CODEC_FLOAT:
    case CODEC_DOUBLE:
        if (is_integer || value->kind == VALUE_DOUBLE)
            return check_floating(column, value);
        break;
    case CODEC_FIXED:
    case CODEC_VARIABLE:
        if (value->kind == VALUE_BYTES)
            return check_bytes(column, value);
        break;
    case CODEC_INT:
        if (column->spec.type == COLUMN_TIME) {
            if (value->kind == VALUE_INT)
                return check_time(column, value);
        } else if (is_integer) {
            return check_signed(column, value);
        }
        break;
    default:
        if (column_is_integer(&column->spec) || column->spec.type == COLUMN_BIT ||
            column->spec.type == COLUMN_ROW_ID) {
            if (is_integer)
                return check_unsigned(column, value);
        } else if (value->kind == VALUE_UINT) {
            return check_moment(column, value);
        }
        break;
    }
    return refuse_kind(column, value->kind);
}

firn_rc value_default(const struct column *column, const struct value_now *now, struct value *value)
{
    uint64_t moment;
    switch (column->spec.default_kind) {
    case COLUMN_DEFAULT_CONSTANT:
        *value = column->spec.default_value;
        return FIRN_OK;
    case COLUMN_DEFAULT_NOW:
        if (now == NULL)
            return rc_raise(FIRN_E_MISUSE,
                            "column %s: its default is the present; say what that is",
                            column->spec.name);
        moment = column->spec.type == COLUMN_TIMESTAMP ? now->timestamp : now->datetime;
        *value = value_uint(moment - moment % value_powers[6 - column->spec.second_digits]);
        return FIRN_OK;
    default:
        if (!column->spec.is_nullable)
            return refuse(column, "it has no default value and takes no NULL; give a value");
        *value = value_null();
        return FIRN_OK;
    }
}
