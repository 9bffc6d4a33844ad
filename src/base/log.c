#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static void log_to_stderr(enum log_level level, const char *text, void *context)
{
    (void)context;
    fprintf(stderr, "%s: %s\n", level == LOG_WARNING ? "warning" : "note", text);
}

static log_sink *current_sink = log_to_stderr;
static void *current_context;

void log_set_sink(log_sink *sink, void *context)
{
    current_sink = sink != NULL ? sink : log_to_stderr;
    current_context = context;
}

static void log_write(enum log_level level, const char *format, va_list arguments)
{
    char text[1024];
    vsnprintf(text, sizeof(text), format, arguments);
    current_sink(level, text, current_context);
}

void log_warning(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_write(LOG_WARNING, format, arguments);
    va_end(arguments);
}

void log_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_write(LOG_NOTE, format, arguments);
    va_end(arguments);
}
