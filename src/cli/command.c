#include "cli/command.h"

#include "firn.h"

#include <stdio.h>

int command_fail(const char *name)
{
    fprintf(stderr, "firn %s: %s\n", name, firn_error_text());
    return COMMAND_FAILED;
}

int command_usage(const char *name)
{
    fprintf(stderr, "firn %s: %s\nTry 'firn %s --help'.\n", name, firn_error_text(), name);
    return COMMAND_USAGE;
}
