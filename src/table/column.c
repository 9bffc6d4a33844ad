#include "table/column_internal.h"
#include "table/decimal.h"

#include "base/check.h"

#include <stdio.h>

static const struct column_traits types[] = {
    [COLUMN_TINYINT] = {"tinyint", TAKES_UNSIGNED, CODEC_INT, 1},
    [COLUMN_SMALLINT] = {"smallint", TAKES_UNSIGNED, CODEC_INT, 2},
    [COLUMN_MEDIUMINT] = {"mediumint", TAKES_UNSIGNED, CODEC_INT, 3},
    [COLUMN_INT] = {"int", TAKES_UNSIGNED, CODEC_INT, 4},
    [COLUMN_BIGINT] = {"bigint", TAKES_UNSIGNED, CODEC_INT, 8},
    [COLUMN_FLOAT] = {"float", TAKES_UNSIGNED, CODEC_FLOAT, 4},
    [COLUMN_DOUBLE] = {"double", TAKES_UNSIGNED, CODEC_DOUBLE, 8},
    [COLUMN_DECIMAL] = {"decimal", TAKES_PRECISION | TAKES_UNSIGNED, CODEC_FIXED, 0},
    [COLUMN_BINARY] = {"binary", TAKES_LENGTH, CODEC_FIXED, 0},
    [COLUMN_VARBINARY] = {"varbinary", TAKES_LENGTH, CODEC_VARIABLE, 0},
    [COLUMN_CHAR] = {"char", TAKES_LENGTH | TAKES_COLLATION, CODEC_VARIABLE, 0},
    [COLUMN_VARCHAR] = {"varchar", TAKES_LENGTH | TAKES_COLLATION, CODEC_VARIABLE, 0},
    [COLUMN_BLOB] = {"blob", TAKES_LENGTH, CODEC_VARIABLE, 0},
    [COLUMN_TEXT] = {"text", TAKES_LENGTH | TAKES_COLLATION, CODEC_VARIABLE, 0},
    [COLUMN_BIT] = {"bit", TAKES_LENGTH, CODEC_UINT, 0},
    [COLUMN_DATE] = {"date", 0, CODEC_UINT, 3},
    [COLUMN_TIME] = {"time", TAKES_SECOND_DIGITS, CODEC_INT, 3},
    [COLUMN_DATETIME] = {"datetime", TAKES_SECOND_DIGITS, CODEC_UINT, 5},
    [COLUMN_TIMESTAMP] = {"timestamp", TAKES_SECOND_DIGITS, CODEC_UINT, 4},
    [COLUMN_YEAR] = {"year", 0, CODEC_UINT, 2},
};

const struct column_traits *column_traits(enum column_type type)
{
    if ((unsigned)type >= ARRAY_COUNT(types) || types[type].name == NULL)
        return NULL;
    return &types[type];
}

char *column_type_text(const struct column_spec *spec, char text[COLUMN_TYPE_TEXT_BYTES])
{
    const struct column_traits *traits = column_traits(spec->type);
    const char *sign = spec->is_unsigned ? " unsigned" : "";
    if (traits == NULL)
        snprintf(text, COLUMN_TYPE_TEXT_BYTES, "hidden row id");
    else if (traits->takes & TAKES_PRECISION)
        snprintf(text, COLUMN_TYPE_TEXT_BYTES, "%s(%u,%u)%s", traits->name, spec->precision,
                 spec->scale, sign);
    else if (traits->takes & TAKES_LENGTH && (spec->length > 0 || !column_is_large(spec)))
        snprintf(text, COLUMN_TYPE_TEXT_BYTES, "%s(%u)", traits->name, spec->length);
    else if (spec->second_digits > 0)
        snprintf(text, COLUMN_TYPE_TEXT_BYTES, "%s(%u)", traits->name, spec->second_digits);
    else
        snprintf(text, COLUMN_TYPE_TEXT_BYTES, "%s%s", traits->name, sign);
    return text;
}

bool column_is_name(const char *name, size_t bytes_max)
{
    size_t size = name != NULL ? strnlen(name, bytes_max + 1) : 0;
    const struct collation *utf8 = collation_find(COLLATION_UTF8MB4_BIN);
    if (size == 0 || size > bytes_max || !utf8->is_text(utf8, span_of(name, size)))
        return false;
    for (size_t i = 0; i < size; i++)
        if ((uint8_t)name[i] < ' ' || name[i] == 0x7f)
            return false;
    return true;
}

static firn_rc refuse(const struct column_spec *spec, const char *what)
{
    char type[COLUMN_TYPE_TEXT_BYTES];
    return rc_raise(FIRN_E_INVALID, "column %s, %s: %s", spec->name, column_type_text(spec, type),
                    what);
}

/* What a type does not take must not be said. */
static firn_rc check_takes(const struct column_spec *spec, unsigned takes)
{
    if (spec->length != 0 && !(takes & TAKES_LENGTH))
        return refuse(spec, "the type has no length");
    if ((spec->precision != 0 || spec->scale != 0) && !(takes & TAKES_PRECISION))
        return refuse(spec, "only decimals have a precision and scale");
    if (spec->second_digits != 0 && !(takes & TAKES_SECOND_DIGITS))
        return refuse(spec, "only time, datetime and timestamp have digits of a second");
    if (spec->is_unsigned && !(takes & TAKES_UNSIGNED))
        return refuse(spec, "only numbers can be unsigned");
    if (spec->collation != 0 && !(takes & TAKES_COLLATION))
        return refuse(spec, "only char, varchar and text have a collation");
    if (spec->is_autoincrement && (!column_is_integer(spec) || spec->is_nullable ||
                                   spec->default_kind != COLUMN_DEFAULT_NONE))
        return refuse(spec, "an autoincrement column is an integer, not null, without a default");
    if ((unsigned)spec->default_kind > COLUMN_DEFAULT_NOW)
        return refuse(spec, "there is no such kind of default");
    if (spec->default_kind == COLUMN_DEFAULT_NOW && spec->type != COLUMN_DATETIME &&
        spec->type != COLUMN_TIMESTAMP)
        return refuse(spec, "only datetime and timestamp can have the present as default");
    return FIRN_OK;
}

static firn_rc check_length(struct column *column)
{
    struct column_spec *spec = &column->spec;
    uint64_t character_bytes =
        column->collation != NULL ? column->collation->character_bytes_max : 1;
    switch (spec->type) {
    case COLUMN_BIT:
        if (spec->length == 0 || spec->length > COLUMN_BIT_MAX)
            return refuse(spec, "a bit column has 1 to 64 bits");
        column->codec.width = (uint16_t)((spec->length + 7) / 8);
        return FIRN_OK;
    case COLUMN_BINARY:
    case COLUMN_CHAR:
        if (spec->length > COLUMN_CHAR_MAX)
            return refuse(spec, "the length is at most 255");
        if (spec->type == COLUMN_BINARY)
            column->codec.width = (uint16_t)spec->length;
        return FIRN_OK;
    case COLUMN_VARBINARY:
    case COLUMN_VARCHAR:
        if (spec->length * character_bytes > COLUMN_VARIABLE_BYTES_MAX)
            return refuse(spec, "the length is at most as many characters as make 65535 bytes; for "
                                "more there are blob and text");
        return FIRN_OK;
    default:
        return FIRN_OK;
    }
}

firn_rc column_check(struct column *column)
{
    struct column_spec *spec = &column->spec;
    if (!column_is_name(spec->name, COLUMN_NAME_BYTES_MAX))
        return rc_raise(FIRN_E_INVALID,
                        "a column's name has 1 to %d bytes of UTF-8 without control characters",
                        COLUMN_NAME_BYTES_MAX);
    const struct column_traits *traits = column_traits(spec->type);
    if (traits == NULL)
        return rc_raise(FIRN_E_INVALID, "column %s: there is no type %d", spec->name, spec->type);
    FIRN_TRY(check_takes(spec, traits->takes));
    column->codec = (struct column_codec){traits->kind, 3, traits->width};
    column->collation = NULL;
    if (traits->takes & TAKES_COLLATION) {
        column->collation = collation_find(spec->collation);
        if (column->collation == NULL)
            return rc_raise(FIRN_E_INVALID,
                            "column %s: there is no collation %u; register it before tables are "
                            "opened",
                            spec->name, spec->collation);
    }
    if (traits->takes & TAKES_PRECISION) {
        if (spec->precision == 0 || spec->precision > DECIMAL_PRECISION_MAX ||
            spec->scale > DECIMAL_SCALE_MAX || spec->scale > spec->precision)
            return refuse(spec,
                          "a decimal has 1 to 65 digits, of them at most 38 behind the point");
        column->codec.width = (uint16_t)decimal_bytes(spec->precision, spec->scale);
    }
    if (traits->takes & TAKES_SECOND_DIGITS) {
        if (spec->second_digits > COLUMN_SECOND_DIGITS_MAX)
            return refuse(spec, "a second has at most 6 digits");
        column->codec.second_bytes = (uint8_t)((spec->second_digits + 1) / 2);
        column->codec.width = (uint16_t)(traits->width + column->codec.second_bytes);
    }
    if (column_is_integer(spec) && spec->is_unsigned)
        column->codec.kind = CODEC_UINT;
    return check_length(column);
}
