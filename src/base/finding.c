#include "base/finding.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT_BYTES = 2048 };

const char *finding_severity_name(enum finding_severity severity)
{
    static const char *const names[FINDING_SEVERITIES] = {"note", "warning", "damage", "unseen"};
    ASSERT(severity < FINDING_SEVERITIES);
    return names[severity];
}

void finding_tell(finding_report *report, void *context, struct finding where, const char *format,
                  ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    where.text = text;
    report(&where, context);
}
