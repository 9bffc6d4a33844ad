/* The escapings: one for each language that names, labels and texts end up in. */
#include "report/report_internal.h"

#include <ctype.h>
#include <string.h>

void report_put_html(FILE *out, const char *text)
{
    report_put_html_part(out, text, strlen(text));
}

void report_put_html_part(FILE *out, const char *text, size_t length)
{
    for (const char *end = text + length; text < end; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

/* RFC 4180 quoting. A leading = + - @ (or a control character before one) makes spreadsheets
   compute the field; a quote mark in front makes it text. */
void report_put_csv(FILE *out, const char *text)
{
    fputc('"', out);
    if (*text != '\0' && strchr("=+-@\t\r\n", *text) != NULL)
        fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* In single quotes gnuplot expands neither backslashes nor backquotes nor macros; only the quote
   itself is doubled. A line break would end the command, and U+2028 and U+2029 the line of the
   title. */
void report_put_gnuplot(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("''", out);
        else if (strncmp(text, "\xe2\x80", 2) == 0 && (text[2] == '\xa8' || text[2] == '\xa9'))
            text += 2;
        else
            fputc(iscntrl((unsigned char)*text) ? ' ' : *text, out);
    }
    fputc('\'', out);
}

void report_put_terminal(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        /* U+0080 to U+009F, two bytes in UTF-8, are control characters too. */
        if (c == 0xc2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xa0) {
            fputc('?', out);
            text++;
        } else {
            fputc(iscntrl(c) ? '?' : c, out);
        }
    }
}

/* Everything that HTML could take for the end of the script or for an entity leaves as \u00xx;
   U+2028 and all others outside ASCII were escaped by jansson. Outside strings there are none. */
static int put_script_bytes(const char *buffer, size_t size_bytes, void *out)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (strchr("<>&'", buffer[i]) != NULL && buffer[i] != '\0')
            fprintf(out, "\\u%04x", (unsigned)buffer[i]);
        else
            fputc(buffer[i], out);
    }
    return 0;
}

firn_rc report_put_json(FILE *out, const json_t *value)
{
    if (value == NULL ||
        json_dump_callback(value, put_script_bytes, out,
                           JSON_ENSURE_ASCII | JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        return rc_raise(FIRN_E_NOMEM, "no memory to write the report's data");
    return FIRN_OK;
}

const char *report_duration(double duration_ns, char text[UNITS_TEXT_BYTES])
{
    return duration_ns == 0 ? "0" : units_format_duration(duration_ns, text);
}

void report_slug(const char *label, char slug[REPORT_SLUG_BYTES])
{
    size_t used = 0;
    for (; *label != '\0' && used < REPORT_SLUG_BYTES - 1; label++) {
        unsigned char c = (unsigned char)*label;
        if (c < 0x80 && isalnum(c))
            slug[used++] = (char)tolower(c);
        else if (used > 0 && slug[used - 1] != '-')
            slug[used++] = '-';
    }
    while (used > 0 && slug[used - 1] == '-')
        used--;
    slug[used] = '\0';
    if (used == 0)
        snprintf(slug, REPORT_SLUG_BYTES, "run");
}
