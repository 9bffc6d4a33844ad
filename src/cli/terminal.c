#include "cli/terminal.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_DEFAULT = 80, TEXT_WIDTH_MIN = 60, TEXT_WIDTH_MAX = 100 };

int terminal_width(FILE *out)
{
    struct winsize size;
    if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
        return size.ws_col;
    return WIDTH_DEFAULT;
}

int terminal_text_width(FILE *out)
{
    int width = terminal_width(out);
    return width < TEXT_WIDTH_MIN   ? TEXT_WIDTH_MIN
           : width > TEXT_WIDTH_MAX ? TEXT_WIDTH_MAX
                                    : width;
}

void terminal_wrap(FILE *out, const char *text, int column, int indent, int width)
{
    fprintf(out, "%*s", indent - column, "");
    column = indent;
    while (*text != '\0') {
        int length = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + length > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        if (length != 0)
            column += fprintf(out, "%s%.*s", column > indent ? " " : "", length, text);
        text += length;
        if (*text == '\n') {
            fprintf(out, "\n%*s", text[1] == '\n' ? 0 : indent, "");
            column = indent;
        }
        text += *text != '\0';
    }
    fputc('\n', out);
}
