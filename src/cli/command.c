#include "cli/command.h"

#include "firn.h"

#include <stdio.h>
#include <unistd.h>

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

int command_is_terminal(void)
{
    return isatty(STDOUT_FILENO);
}
