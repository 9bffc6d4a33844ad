#include "base/check.h"
#include "base/near.h"
#include "cli/command.h"
#include "firn.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    command_function *run;
    const char *text;
};

static const struct command commands[] = {
    {"backup", command_backup, "copy an environment, and verify such copies"},
    {"binlog", command_binlog, "show a binary log, or apply it to an environment"},
    {"check", command_check, "check every page and tree of an environment"},
    {"device", command_device, "list, show and check models of disks, RAIDs and SSDs"},
    {"fileio", command_fileio, "measure reading and writing of files, as sysbench's fileio does"},
    {"kv", command_kv, "keys and values in trees: load, get, scan, delete"},
    {"report", command_report, "put results into a table, a page, CSV files and pictures"},
    {"restore", command_restore, "make an environment of a backup"},
    {"stat", command_stat, "tell what is in an environment: files, trees, pool, log"},
    {"survey", command_survey, "measure how a disk will serve a database, in under four minutes"},
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

static const struct command *find_command(const char *name)
{
    for (const struct command *c = commands; c->name != NULL; c++)
        if (strcmp(name, c->name) == 0)
            return c;
    return NULL;
}

/* sysbench lets options come first, and once named its test by an option: `--threads=8 fileio run`
   and `--test=fileio --num-threads=8 run` are one command line. */
static const struct command *find_command_later(int argc, char *const *argv, int *place)
{
    static const char test[] = "--test=";
    for (int i = 1; i < argc; i++) {
        bool is_test = strncmp(argv[i], test, sizeof(test) - 1) == 0;
        const struct command *command = find_command(argv[i] + (is_test ? sizeof(test) - 1 : 0));
        if (command != NULL) {
            if (is_test)
                fprintf(stderr, "WARNING: the --test option is deprecated, use 'firn %s' instead\n",
                        command->name);
            *place = i;
            return command;
        }
    }
    return NULL;
}

/* argv without the word that names the command, which becomes argv[0]. */
static int run_command(const struct command *command, int argc, char **argv, int place)
{
    char *name = argv[place] + strlen(argv[place]) - strlen(command->name);
    memmove(argv + 1, argv, (size_t)place * sizeof(*argv));
    argv[1] = name;
    return command->run(argc - 1, argv + 1);
}

static int fail_unknown(const char *word)
{
    const char *names[ARRAY_COUNT(commands)] = {NULL};
    char near[NEAR_TEXT_BYTES];
    size_t count = 0;
    while (commands[count].name != NULL) {
        names[count] = commands[count].name;
        count++;
    }
    if (word[0] == '-')
        fprintf(stderr, "firn: the command line names no command\nTry 'firn --help'.\n");
    else
        fprintf(stderr, "firn: there is no command \"%s\"%s\nTry 'firn --help'.\n", word,
                near_text(word, names, count, "", near));
    return COMMAND_USAGE;
}

int main(int argc, char **argv)
{
    int place = 1;
    if (argc < 2) {
        print_help(stderr);
        return COMMAND_USAGE;
    }
    const struct command *command = find_command(argv[1]);
    if (command == NULL)
        command = find_command_later(argc, argv, &place);
    if (command != NULL)
        return run_command(command, argc, argv, place);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return COMMAND_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("firn %s (%s)\n", firn_version(), firn_commit());
        return COMMAND_OK;
    }
    return fail_unknown(argv[1]);
}
