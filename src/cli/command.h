/*
 * command.h -- the subcommands of firn, one file each, in one table in main.c.
 */
#ifndef FIRN_CLI_COMMAND_H
#define FIRN_CLI_COMMAND_H

/** Exit statuses of every subcommand. */
enum command_exit {
    COMMAND_OK = 0,
    COMMAND_FAILED = 1, /* the work could not be done or found something wrong */
    COMMAND_USAGE = 2,  /* the command line makes no sense; nothing was touched */
    COMMAND_UNSEEN = 3, /* of a check: nothing wrong was found, but not all could be looked at */
};

/** One subcommand: argv[0] is its name. */
typedef int command_function(int argc, char **argv);

/** The subcommands, as the table in main.c names them; each is in the file of its name. */
int command_fileio(int argc, char **argv);
int command_report(int argc, char **argv);
int command_device(int argc, char **argv);
int command_survey(int argc, char **argv);
int command_binlog(int argc, char **argv);
int command_kv(int argc, char **argv);
int command_check(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_backup(int argc, char **argv);
int command_restore(int argc, char **argv);

/** Print "firn NAME: TEXT" (the thread's error text) on standard error. @return COMMAND_FAILED */
int command_fail(const char *name);

/** Print "firn NAME: TEXT" and how to get help. @return COMMAND_USAGE */
int command_usage(const char *name);

#endif
