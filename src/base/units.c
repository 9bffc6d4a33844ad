#include "base/units.h"

#include "base/check.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    double factor;
};

/* strtod also takes signs, spaces, hexadecimal, "inf" and "nan", which are no sizes. */
static firn_rc parse_number(const char *text, double *number, const char **rest)
{
    if (!isdigit((unsigned char)text[0]) && text[0] != '.')
        return FIRN_E_INVALID;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        return FIRN_E_INVALID;
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || errno == ERANGE)
        return FIRN_E_INVALID;
    *number = value;
    *rest = end;
    return FIRN_OK;
}

static firn_rc scale(double number, double factor, uint64_t *result)
{
    double scaled = number * factor;
    if (!(scaled < 0x1.0p63))
        return FIRN_E_INVALID;
    *result = (uint64_t)llround(scaled);
    return FIRN_OK;
}

firn_rc units_parse_size(const char *text, uint64_t *size_bytes)
{
    double number = 0;
    const char *rest = NULL;
    if (parse_number(text, &number, &rest) != FIRN_OK)
        return rc_raise(FIRN_E_INVALID,
                        "\"%s\" is not a size; write a number such as 16384, 16K or 2G", text);
    static const char letters[] = "kmgtp";
    double factor = 1;
    const char *letter = *rest == '\0' ? NULL : strchr(letters, tolower((unsigned char)*rest));
    if (letter != NULL) {
        factor = ldexp(1, 10 * (int)(letter - letters + 1));
        rest++;
    }
    if (strcasecmp(rest, "") != 0 && strcasecmp(rest, "b") != 0 &&
        (letter == NULL || strcasecmp(rest, "ib") != 0))
        return rc_raise(FIRN_E_INVALID, "\"%s\" is not a size; the units are K, M, G, T and P",
                        text);
    if (scale(number, factor, size_bytes) != FIRN_OK)
        return rc_raise(FIRN_E_INVALID, "\"%s\" is too large a size; the limit is 8192 PiB", text);
    return FIRN_OK;
}

firn_rc units_parse_duration(const char *text, uint64_t *duration_ns)
{
    static const struct unit units[] = {
        {"", 1e9},   {"ns", 1},     {"us", 1e3},   {"ms", 1e6},    {"s", 1e9},
        {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9},
    };
    double number = 0;
    const char *rest = NULL;
    if (parse_number(text, &number, &rest) != FIRN_OK)
        return rc_raise(FIRN_E_INVALID,
                        "\"%s\" is not a duration; write seconds or a number with ms, s, m or h",
                        text);
    for (size_t i = 0; i < ARRAY_COUNT(units); i++)
        if (strcmp(rest, units[i].name) == 0) {
            if (scale(number, units[i].factor, duration_ns) != FIRN_OK)
                return rc_raise(FIRN_E_INVALID,
                                "\"%s\" is too long a duration; the limit is 292 years", text);
            return FIRN_OK;
        }
    return rc_raise(FIRN_E_INVALID,
                    "\"%s\" is not a duration; the units are ns, us, ms, s, m, h and d", text);
}

/* Three significant digits, without an exponent and without zeros that say nothing. */
static char *format_digits(double value, const char *separator, const char *unit,
                           char text[UNITS_TEXT_BYTES])
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    char digits[UNITS_TEXT_BYTES];
    snprintf(digits, sizeof(digits), "%.*f", decimals, value);
    if (strchr(digits, '.') != NULL) {
        char *end = digits + strlen(digits);
        while (end[-1] == '0')
            *--end = '\0';
        if (end[-1] == '.')
            end[-1] = '\0';
    }
    snprintf(text, UNITS_TEXT_BYTES, "%.18s%s%s", digits, *unit == '\0' ? "" : separator, unit);
    return text;
}

/* `units` ascend; the largest that leaves a number of at least 1 is used. */
static char *format_with(double value, const struct unit *units, size_t count,
                         char text[UNITS_TEXT_BYTES])
{
    size_t best = 0;
    while (best + 1 < count && value >= 0.9995 * units[best + 1].factor)
        best++;
    return format_digits(value / units[best].factor, " ", units[best].name, text);
}

char *units_format_size(double size_bytes, char text[UNITS_TEXT_BYTES])
{
    static const struct unit units[] = {
        {"B", 1},          {"KiB", 0x1.0p10}, {"MiB", 0x1.0p20},
        {"GiB", 0x1.0p30}, {"TiB", 0x1.0p40}, {"PiB", 0x1.0p50},
    };
    return format_with(size_bytes, units, ARRAY_COUNT(units), text);
}

char *units_format_duration(double duration_ns, char text[UNITS_TEXT_BYTES])
{
    static const struct unit units[] = {
        {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9},
    };
    return format_with(duration_ns, units, ARRAY_COUNT(units), text);
}

char *units_format_count(double count, char text[UNITS_TEXT_BYTES])
{
    static const struct unit units[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}};
    return format_with(count, units, ARRAY_COUNT(units), text);
}
