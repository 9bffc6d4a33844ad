/*
 * options.h -- one table of options for parsing, --help, the setup in results and the tests.
 *
 * A command lays down its options once, as struct option_spec; each is bound to a field of the
 * command's configuration struct by offset. `--name=value`, `--name value` and, for flags, `--name`
 * and `--name=on|off` are understood, wherever they stand among the positional words; an alias of
 * one letter is a short option (`-o FILE`). Of equal options the last counts; `--` ends them.
 * Names must be whole: an abbreviation that a script uses today would be ambiguous tomorrow.
 * Unknown options and values out of range are refused with one sentence and exit status 2.
 * Scanning is done by getopt_long (glibc), whose state is the process's: one thread parses.
 */
#ifndef FIRN_CLI_OPTIONS_H
#define FIRN_CLI_OPTIONS_H

#include "base/rc.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum option_type {
    OPTION_FLAG,     /* bool */
    OPTION_COUNT,    /* uint64_t */
    OPTION_NUMBER,   /* double */
    OPTION_SIZE,     /* uint64_t, bytes; 16K, 2G */
    OPTION_DURATION, /* uint64_t, ns; bare numbers are seconds */
    OPTION_CHOICE,   /* int: the index of the word in `choices` */
    OPTION_SET,      /* unsigned: one bit for each word of a comma-separated list from `choices` */
    OPTION_TEXT,     /* const char *, into argv or the default */
    OPTION_SECTION,  /* no option: a heading of --help, in `help` */
};

struct option_spec {
    const char *name; /* without dashes */
    enum option_type type;
    size_t offset;              /* of the field in the configuration */
    const char *default_text;   /* as on the command line; NULL for OPTION_TEXT means NULL */
    const char *value_name;     /* "N", "SIZE"; what --help shows */
    const char *const *choices; /* ends with NULL */
    double min, max; /* bounds of counts, numbers, sizes (bytes) and durations (ns); both 0: none */
    const char *help; /* one or more sentences; the default is added by --help */
    /* Another spelling: parsed as that option; shown under "also accepted", one letter beside it.
     */
    const char *alias_of;
    bool ignored_value; /* an alias whose value has no meaning any more (sysbench --rand-init) */
};

struct option_table {
    const char *usage;                 /* "firn fileio [OPTION...] prepare|run|cleanup" */
    const char *intro;                 /* what the command is for: a paragraph */
    const char *outro;                 /* examples */
    const struct option_spec *options; /* ends with name and help both NULL */
};

/** Which options were set by the user, by index; freed by options_free. */
struct option_words {
    bool *given;
    char **positional; /* into argv */
    int positional_count;
    bool help_wanted;
};

/** Set every field to its default. The defaults are checked: a bad one ends the process (ENSURE).
 */
void options_defaults(const struct option_table *table, void *configuration);

/**
 * Parse a command line into a configuration.
 *
 * @param argv           argv[0] is the command's own name; not changed
 * @param configuration  with defaults set
 * @param words          filled on success
 * @return FIRN_OK; FIRN_E_INVALID with a sentence that names the option, what is wrong and what is
 *         allowed (near names for an unknown one)
 */
firn_rc options_parse(const struct option_table *table, int argc, char *const *argv,
                      void *configuration, struct option_words *words);
void options_free(struct option_words *words);

/** @return whether the option of this name was on the command line (under any spelling). */
bool options_given(const struct option_table *table, const struct option_words *words,
                   const char *name);

/** Write --help. */
void options_help(const struct option_table *table, FILE *out);

/** @return an object of every option and its value in force: sizes end in _bytes, durations in _s;
 * or NULL. */
json_t *options_json(const struct option_table *table, const void *configuration);

#endif
