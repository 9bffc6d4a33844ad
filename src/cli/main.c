#include "base/check.h"
#include "cli/command.h"
#include "firn.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    command_function *run;
    const char *text;
};

static const struct command commands[] = {
    {NULL, NULL, NULL},
};

static void print_help(FILE *out)
{
    fprintf(out, "Usage: firn COMMAND [OPTION...]\n\nCommands:\n");
    for (const struct command *c = commands; c->name != NULL; c++)
        fprintf(out, "  %-10s %s\n", c->name, c->text);
    fprintf(out,
            "\n'firn COMMAND --help' explains a command; 'firn --version' tells the version.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return COMMAND_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return COMMAND_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("firn %s (%s)\n", firn_version(), firn_commit());
        return COMMAND_OK;
    }
    for (const struct command *c = commands; c->name != NULL; c++)
        if (strcmp(argv[1], c->name) == 0)
            return c->run(argc - 1, argv + 1);
    fprintf(stderr, "firn: there is no command \"%s\"\nTry 'firn --help'.\n", argv[1]);
    return COMMAND_USAGE;
}
