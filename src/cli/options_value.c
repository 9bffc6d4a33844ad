#include "base/check.h"
#include "base/near.h"
#include "base/units.h"
#include "cli/options_internal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *field(const struct option_spec *spec, void *configuration)
{
    return (char *)configuration + spec->offset;
}

static const void *field_const(const struct option_spec *spec, const void *configuration)
{
    return (const char *)configuration + spec->offset;
}

static size_t choice_count(const struct option_spec *spec)
{
    size_t count = 0;
    while (spec->choices[count] != NULL)
        count++;
    return count;
}

/* A bound as it would be written on the command line. */
static const char *bound_text(const struct option_spec *spec, double bound,
                              char text[UNITS_TEXT_BYTES])
{
    if (spec->type == OPTION_SIZE)
        return units_format_size(bound, text);
    if (spec->type == OPTION_DURATION)
        return units_format_duration(bound, text);
    snprintf(text, UNITS_TEXT_BYTES, "%.15g", bound);
    return text;
}

static firn_rc check_bounds(const struct option_spec *spec, const char *text, double value)
{
    char low[UNITS_TEXT_BYTES];
    char high[UNITS_TEXT_BYTES];
    if ((spec->min == 0 && spec->max == 0) || (value >= spec->min && value <= spec->max))
        return FIRN_OK;
    return rc_raise(FIRN_E_INVALID, "%s is out of range; it goes from %s to %s", text,
                    bound_text(spec, spec->min, low), bound_text(spec, spec->max, high));
}

static firn_rc parse_flag(const char *text, bool *value)
{
    static const char *const on[] = {"on", "yes", "true", "1"};
    static const char *const off[] = {"off", "no", "false", "0"};
    for (size_t i = 0; i < ARRAY_COUNT(on); i++) {
        if (strcmp(text, on[i]) == 0 || strcmp(text, off[i]) == 0) {
            *value = strcmp(text, on[i]) == 0;
            return FIRN_OK;
        }
    }
    return rc_raise(FIRN_E_INVALID, "\"%s\" is neither on nor off", text);
}

/* strtoull takes spaces and signs, and makes -1 the largest number. */
static firn_rc parse_count(const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0)
        return rc_raise(FIRN_E_INVALID, "\"%s\" is not a whole number", text);
    *value = number;
    return FIRN_OK;
}

static firn_rc parse_number(const char *text, double *value)
{
    char *end = NULL;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(number) ||
        isspace((unsigned char)text[0]))
        return rc_raise(FIRN_E_INVALID, "\"%s\" is not a number", text);
    *value = number;
    return FIRN_OK;
}

static firn_rc raise_choice(const struct option_spec *spec, const char *word)
{
    char near[NEAR_TEXT_BYTES];
    near_text(word, spec->choices, choice_count(spec), "", near);
    if (near[0] != '\0')
        return rc_raise(FIRN_E_INVALID, "there is no \"%s\"%s", word, near);
    char list[256] = "";
    size_t length = 0;
    for (size_t i = 0; spec->choices[i] != NULL && length < sizeof(list); i++)
        length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s", i == 0 ? "" : ", ",
                                   spec->choices[i]);
    return rc_raise(FIRN_E_INVALID, "there is no \"%s\"; choose from %s", word, list);
}

static firn_rc parse_choice(const struct option_spec *spec, const char *word, size_t *index)
{
    for (size_t i = 0; spec->choices[i] != NULL; i++)
        if (strcmp(word, spec->choices[i]) == 0) {
            *index = i;
            return FIRN_OK;
        }
    return raise_choice(spec, word);
}

/* An empty list is the empty set: sysbench's --file-extra-flags= by default. */
static firn_rc parse_set(const struct option_spec *spec, const char *text, unsigned *set)
{
    unsigned bits = 0;
    while (*text != '\0') {
        char word[64];
        size_t length = strcspn(text, ",");
        size_t index = 0;
        snprintf(word, sizeof(word), "%.*s", (int)(length < 63 ? length : 63), text);
        FIRN_TRY(parse_choice(spec, word, &index));
        bits |= 1U << index;
        text += length;
        text += *text == ',';
    }
    *set = bits;
    return FIRN_OK;
}

static firn_rc set_scalar(const struct option_spec *spec, const char *text, void *configuration)
{
    uint64_t whole = 0;
    double number = 0;
    if (spec->type == OPTION_NUMBER) {
        FIRN_TRY(parse_number(text, &number));
        FIRN_TRY(check_bounds(spec, text, number));
        memcpy(field(spec, configuration), &number, sizeof(number));
        return FIRN_OK;
    }
    if (spec->type == OPTION_COUNT)
        FIRN_TRY(parse_count(text, &whole));
    else if (spec->type == OPTION_SIZE)
        FIRN_TRY(units_parse_size(text, &whole));
    else
        FIRN_TRY(units_parse_duration(text, &whole));
    FIRN_TRY(check_bounds(spec, text, (double)whole));
    memcpy(field(spec, configuration), &whole, sizeof(whole));
    return FIRN_OK;
}

firn_rc option_set(const struct option_spec *spec, const char *text, void *configuration)
{
    bool flag = true;
    size_t index = 0;
    int choice = 0;
    unsigned set = 0;
    switch (spec->type) {
    case OPTION_FLAG:
        if (text != NULL)
            FIRN_TRY(parse_flag(text, &flag));
        memcpy(field(spec, configuration), &flag, sizeof(flag));
        return FIRN_OK;
    case OPTION_CHOICE:
        FIRN_TRY(parse_choice(spec, text, &index));
        choice = (int)index;
        memcpy(field(spec, configuration), &choice, sizeof(choice));
        return FIRN_OK;
    case OPTION_SET:
        FIRN_TRY(parse_set(spec, text, &set));
        memcpy(field(spec, configuration), &set, sizeof(set));
        return FIRN_OK;
    case OPTION_TEXT:
        memcpy(field(spec, configuration), &text, sizeof(text));
        return FIRN_OK;
    case OPTION_COUNT:
    case OPTION_NUMBER:
    case OPTION_SIZE:
    case OPTION_DURATION:
        return set_scalar(spec, text, configuration);
    case OPTION_SECTION:
        break;
    }
    check_failed("an option with a value", __FILE__, __LINE__);
}

void options_defaults(const struct option_table *table, void *configuration)
{
    for (const struct option_spec *spec = table->options; !option_is_end(spec); spec++) {
        if (!option_has_field(spec)) {
            ENSURE(spec->alias_of == NULL || option_target(table, spec) != spec);
            continue;
        }
        const char *text = spec->default_text;
        if (spec->type == OPTION_FLAG && text == NULL)
            text = "off";
        ENSURE(text != NULL || spec->type == OPTION_TEXT);
        ENSURE(option_set(spec, text, configuration) == FIRN_OK);
    }
}

static json_t *set_json(const struct option_spec *spec, unsigned set)
{
    char text[256] = "";
    size_t length = 0;
    for (size_t i = 0; spec->choices[i] != NULL && length < sizeof(text); i++)
        if (set & 1U << i)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s",
                                       length == 0 ? "" : ",", spec->choices[i]);
    return json_string(text);
}

static json_t *value_json(const struct option_spec *spec, const void *configuration)
{
    const void *value = field_const(spec, configuration);
    const char *text = NULL;
    switch (spec->type) {
    case OPTION_FLAG:
        return json_boolean(*(const bool *)value);
    case OPTION_COUNT:
    case OPTION_SIZE:
        return json_integer((json_int_t) * (const uint64_t *)value);
    case OPTION_NUMBER:
        return json_real(*(const double *)value);
    case OPTION_DURATION:
        return json_real((double)*(const uint64_t *)value / 1e9);
    case OPTION_CHOICE:
        return json_string(spec->choices[*(const int *)value]);
    case OPTION_SET:
        return set_json(spec, *(const unsigned *)value);
    case OPTION_TEXT:
        memcpy(&text, value, sizeof(text));
        return text == NULL ? json_null() : json_string(text);
    case OPTION_SECTION:
        break;
    }
    check_failed("an option with a value", __FILE__, __LINE__);
}

/* "file-total-size" -> "file_total_size_bytes" */
static void json_key(const struct option_spec *spec, char key[128])
{
    const char *unit = spec->type == OPTION_SIZE       ? "_bytes"
                       : spec->type == OPTION_DURATION ? "_s"
                                                       : "";
    snprintf(key, 128, "%s%s", spec->name, unit);
    for (char *c = key; *c != '\0'; c++)
        if (*c == '-')
            *c = '_';
}

json_t *options_json(const struct option_table *table, const void *configuration)
{
    json_t *object = json_object();
    for (const struct option_spec *spec = table->options; !option_is_end(spec); spec++) {
        char key[128];
        if (!option_has_field(spec))
            continue;
        json_key(spec, key);
        /* A file name may be any bytes, JSON may not. */
        json_t *value = value_json(spec, configuration);
        if (value == NULL && spec->type == OPTION_TEXT)
            value = json_string("(not UTF-8)");
        if (object == NULL || json_object_set_new(object, key, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}
