#include "base/units.h"
#include "cli/options_internal.h"
#include "cli/terminal.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

enum {
    HELP_COLUMN = 30, /* where explanations begin */
    TEXT_BYTES = 2048,
};

/** A text that grows by printf and stops when full. */
struct text {
    char bytes[TEXT_BYTES];
    size_t length;
};

static void text_add(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void text_add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(text->bytes + text->length, TEXT_BYTES - text->length, format, arguments);
    va_end(arguments);
    if (added > 0)
        text->length += (size_t)added;
    if (text->length >= TEXT_BYTES)
        text->length = TEXT_BYTES - 1;
}

/* The left side: "-o, --output=FILE" */
static void add_spelling(struct text *text, const struct option_table *table,
                         const struct option_spec *spec)
{
    for (const struct option_spec *s = table->options; !option_is_end(s); s++)
        if (s->alias_of != NULL && s->name[1] == '\0' && strcmp(s->alias_of, spec->name) == 0)
            text_add(text, "-%s, ", s->name);
    text_add(text, "%s%s", spec->name[1] == '\0' ? "-" : "--", spec->name);
    if (spec->type == OPTION_FLAG)
        text_add(text, "[=on|off]");
    else if (spec->value_name != NULL)
        text_add(text, "%s%s", spec->name[1] == '\0' ? " " : "=", spec->value_name);
}

static void add_choices(struct text *text, const struct option_spec *spec)
{
    text_add(text, spec->type == OPTION_SET ? " Any of, with commas between: " : " One of: ");
    for (size_t i = 0; spec->choices[i] != NULL; i++)
        text_add(text, "%s%s", i == 0 ? "" : ", ", spec->choices[i]);
    text_add(text, ".");
}

/* As the table writes it, but never without its unit. */
static void add_value(struct text *text, const struct option_spec *spec, const char *value)
{
    char formatted[UNITS_TEXT_BYTES];
    uint64_t number = 0;
    size_t length = strlen(value);
    bool bare = length != 0 && isdigit((unsigned char)value[length - 1]);
    if (spec->type == OPTION_SIZE && units_parse_size(value, &number) == FIRN_OK)
        value = units_format_size((double)number, formatted);
    text_add(text, "%s%s", length == 0 ? "none" : value,
             spec->type == OPTION_DURATION && bare ? " s" : "");
}

static void add_bound(struct text *text, const struct option_spec *spec, double bound)
{
    char formatted[UNITS_TEXT_BYTES];
    if (spec->type == OPTION_SIZE)
        text_add(text, "%s", units_format_size(bound, formatted));
    else if (spec->type == OPTION_DURATION)
        text_add(text, "%s", units_format_duration(bound, formatted));
    else
        text_add(text, "%.15g", bound);
}

static void print_option(FILE *out, const struct option_table *table,
                         const struct option_spec *spec, int width)
{
    struct text left = {0};
    struct text right = {0};
    text_add(&left, "  ");
    add_spelling(&left, table, spec);
    text_add(&right, "%s", spec->help == NULL ? "" : spec->help);
    if (spec->choices != NULL)
        add_choices(&right, spec);
    bool bounded = spec->min != 0 || spec->max != 0;
    const char *default_text = spec->default_text;
    if (spec->type == OPTION_FLAG && default_text == NULL)
        default_text = "off";
    if (bounded) {
        text_add(&right, " (");
        add_bound(&right, spec, spec->min);
        text_add(&right, " to ");
        add_bound(&right, spec, spec->max);
    }
    if (default_text != NULL) {
        text_add(&right, "%sdefault ", bounded ? "; " : " (");
        add_value(&right, spec, default_text);
    }
    if (bounded || default_text != NULL)
        text_add(&right, ")");
    fputs(left.bytes, out);
    int column = (int)left.length;
    if (column > HELP_COLUMN - 2) {
        fputc('\n', out);
        column = 0;
    }
    terminal_wrap(out, right.bytes, column, HELP_COLUMN, width);
}

static void print_alias(FILE *out, const struct option_spec *spec, int width)
{
    int column = fprintf(out, "  --%s", spec->name);
    if (column > HELP_COLUMN - 2) {
        fputc('\n', out);
        column = 0;
    }
    struct text right = {0};
    if (spec->help != NULL)
        text_add(&right, "%s", spec->help);
    else if (spec->ignored_value)
        text_add(&right, "without effect");
    else
        text_add(&right, "as --%s", spec->alias_of);
    terminal_wrap(out, right.bytes, column, HELP_COLUMN, width);
}

static void print_aliases(FILE *out, const struct option_table *table, int width)
{
    bool any = false;
    for (const struct option_spec *spec = table->options; !option_is_end(spec); spec++) {
        if (spec->type == OPTION_SECTION || option_has_field(spec) || spec->name[1] == '\0')
            continue;
        if (!any)
            fputs("\nAlso accepted:\n", out);
        any = true;
        print_alias(out, spec, width);
    }
}

void options_help(const struct option_table *table, FILE *out)
{
    static const struct option_spec help = {
        .name = "help", .type = OPTION_TEXT, .help = "This text."};
    int width = terminal_text_width(out);
    fprintf(out, "Usage: %s\n", table->usage);
    if (table->intro != NULL) {
        fputc('\n', out);
        terminal_wrap(out, table->intro, 0, 0, width);
    }
    if (table->options[0].type != OPTION_SECTION)
        fputs("\nOptions:\n", out);
    for (const struct option_spec *spec = table->options; !option_is_end(spec); spec++) {
        if (spec->type == OPTION_SECTION)
            fprintf(out, "\n%s:\n", spec->help);
        else if (option_has_field(spec))
            print_option(out, table, spec, width);
    }
    fputc('\n', out);
    print_option(out, table, &help, width);
    print_aliases(out, table, width);
    if (table->outro != NULL)
        fprintf(out, "\n%s\n", table->outro);
}
