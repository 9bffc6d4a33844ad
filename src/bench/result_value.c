#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "bench/result_internal.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { REAL_DIGITS = 15 }; /* as many as a double gives back as it got them */

void result_put(struct result_builder *builder, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        builder->failed = true;
}

void result_append(struct result_builder *builder, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        builder->failed = true;
}

/* The length of the UTF-8 sequence a text starts with; 0 when it is none (RFC 3629: no overlong
   forms, no surrogates, nothing past U+10FFFF). */
static size_t utf8_length(const unsigned char *c)
{
    static const struct {
        unsigned char low, high;               /* of the first byte */
        unsigned char second_low, second_high; /* of the second */
        size_t length;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (c[0] < 0x80)
        return 1;
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++) {
        if (c[0] < forms[i].low || c[0] > forms[i].high)
            continue;
        if (c[1] < forms[i].second_low || c[1] > forms[i].second_high)
            return 0;
        for (size_t k = 2; k < forms[i].length; k++)
            if (c[k] < 0x80 || c[k] > 0xbf)
                return 0;
        return forms[i].length;
    }
    return 0;
}

json_t *result_text(const char *text)
{
    json_t *plain = json_string(text); /* NULL for what is not UTF-8 */
    if (plain != NULL)
        return plain;
    char *escaped = memory_alloc(4 * strlen(text) + 1);
    if (escaped == NULL)
        return NULL;
    char *out = escaped;
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0';) {
        size_t length = utf8_length(c);
        if (length == 0) {
            out += sprintf(out, "\\x%02x", *c++);
            continue;
        }
        memcpy(out, c, length);
        out += length;
        c += length;
    }
    *out = '\0';
    json_t *string = json_string(escaped);
    memory_free(escaped);
    return string;
}

json_t *result_number(double value, int digits)
{
    if (!isfinite(value))
        return json_null();
    if (value != 0) {
        int decimals = digits - 1 - (int)floor(log10(fabs(value)));
        double scale = pow(10, decimals > 0 ? decimals : 0);
        if (isfinite(value * scale))
            value = round(value * scale) / scale;
    }
    if (fabs(value) < 0x1p53 && value == floor(value))
        return json_integer((json_int_t)value);
    return json_real(value);
}

json_t *result_time(uint64_t time_ns, double unit_ns)
{
    double value = (double)time_ns / unit_ns;
    if (value == floor(value) && value < 0x1p53)
        return json_integer((json_int_t)value);
    return json_real(value);
}

json_t *result_date(uint64_t unix_ms)
{
    char text[64], fraction[8] = "";
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) == NULL)
        return json_string("");
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    if (unix_ms % 1000 != 0)
        snprintf(fraction, sizeof(fraction), ".%03u", (unsigned)(unix_ms % 1000));
    return json_sprintf("%s%sZ", text, fraction);
}

static bool print_compact(json_t *value, FILE *out)
{
    return json_dumpf(value, out,
                      JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(REAL_DIGITS)) == 0;
}

static bool print_value(json_t *value, unsigned depth, bool is_element, FILE *out);

/* A new line for a member or element. */
static bool print_break(bool first, unsigned depth, FILE *out)
{
    return fprintf(out, "%s\n%*s", first ? "" : ",", (int)depth, "") > 0;
}

static bool print_object(json_t *object, unsigned depth, FILE *out)
{
    const char *key;
    json_t *member;
    bool first = true;
    bool good = fputc('{', out) != EOF;
    json_object_foreach(object, key, member)
    {
        json_t *name = json_string(key);
        good = good && name != NULL && print_break(first, depth + 1, out) &&
               print_compact(name, out) && fputs(": ", out) >= 0 &&
               print_value(member, depth + 1, false, out);
        json_decref(name);
        first = false;
    }
    return good && (first || print_break(true, depth, out)) && fputc('}', out) != EOF;
}

static bool print_array(json_t *array, unsigned depth, FILE *out)
{
    size_t index;
    json_t *element;
    bool good = fputc('[', out) != EOF;
    json_array_foreach(array, index, element)
    {
        good = good && print_break(index == 0, depth + 1, out) &&
               print_value(element, depth + 1, true, out);
    }
    return good && print_break(true, depth, out) && fputc(']', out) != EOF;
}

/* Objects below, at any depth: what is without them is numbers and texts. */
static bool holds_objects(json_t *value)
{
    const char *key;
    json_t *member;
    size_t index;
    json_object_foreach(value, key, member)
    {
        if (json_is_object(member) || holds_objects(member))
            return true;
    }
    json_array_foreach(value, index, member)
    {
        if (json_is_object(member) || holds_objects(member))
            return true;
    }
    return false;
}

/* So that a difference of two results shows what differs: members of objects have a line each, and
   so have elements that are objects; columns and small elements are one line. */
static bool print_value(json_t *value, unsigned depth, bool is_element, FILE *out)
{
    bool holds = holds_objects(value);
    if (json_is_object(value) && (holds || !is_element))
        return print_object(value, depth, out);
    if (json_is_array(value) && holds)
        return print_array(value, depth, out);
    return print_compact(value, out);
}

bool result_print(json_t *value, FILE *out)
{
    return print_value(value, 0, false, out) && fputc('\n', out) != EOF;
}
