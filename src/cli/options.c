#include "base/check.h"
#include "base/memory.h"
#include "base/near.h"
#include "cli/options_internal.h"

#include <getopt.h>
#include <string.h>

/* What getopt_long returns for the table's entry i is OPTION_FIRST + i; below are its own codes
   and one-letter options. */
enum { OPTION_FIRST = 1000, WORD_FOUND = 1 };

/** The table in getopt's form. */
struct scanner {
    const struct option_table *table;
    struct option *long_options;
    char *short_options;
};

size_t option_count(const struct option_table *table)
{
    size_t count = 0;
    while (!option_is_end(&table->options[count]))
        count++;
    return count;
}

const struct option_spec *option_find(const struct option_table *table, const char *name)
{
    for (const struct option_spec *spec = table->options; !option_is_end(spec); spec++)
        if (spec->type != OPTION_SECTION && strcmp(spec->name, name) == 0)
            return spec;
    return NULL;
}

const struct option_spec *option_target(const struct option_table *table,
                                        const struct option_spec *spec)
{
    if (spec->alias_of == NULL)
        return spec;
    const struct option_spec *target = option_find(table, spec->alias_of);
    ENSURE(target != NULL && target->alias_of == NULL && target->type != OPTION_SECTION);
    return target;
}

/* A flag's value, and one that is ignored, may be left out: then only --name=value can hold it. */
static int argument_kind(const struct option_table *table, const struct option_spec *spec)
{
    const struct option_spec *target = option_target(table, spec);
    return spec->ignored_value || target->type == OPTION_FLAG ? optional_argument
                                                              : required_argument;
}

static void scanner_close(struct scanner *scanner)
{
    memory_free(scanner->long_options);
    memory_free(scanner->short_options);
}

/* "-" first makes getopt return words in their order, whatever POSIXLY_CORRECT says; ":" silences
   it and tells a missing value from an unknown option. */
static firn_rc scanner_open(const struct option_table *table, struct scanner *scanner)
{
    size_t count = option_count(table);
    *scanner = (struct scanner){.table = table};
    scanner->long_options = memory_zalloc(count + 2, sizeof(*scanner->long_options));
    scanner->short_options = memory_zalloc(count + 2, 2);
    if (scanner->long_options == NULL || scanner->short_options == NULL) {
        scanner_close(scanner);
        return rc_raise(FIRN_E_NOMEM, "not enough memory to read the options");
    }
    char *letter = stpcpy(scanner->short_options, "-:h");
    struct option *option = scanner->long_options;
    for (size_t i = 0; i < count; i++) {
        const struct option_spec *spec = &table->options[i];
        if (spec->type == OPTION_SECTION)
            continue;
        int kind = argument_kind(table, spec);
        if (spec->name[1] == '\0') {
            *letter++ = spec->name[0];
            if (kind == required_argument)
                *letter++ = ':';
        } else {
            *option++ = (struct option){spec->name, kind, NULL, OPTION_FIRST + (int)i};
        }
    }
    *option = (struct option){"help", optional_argument, NULL, 'h'};
    return FIRN_OK;
}

/* The names a mistyped word is compared with. */
static char *near_options(const struct option_table *table, const char *word,
                          char text[NEAR_TEXT_BYTES])
{
    size_t count = 0;
    text[0] = '\0';
    const char **names = memory_zalloc(option_count(table) + 1, sizeof(*names));
    if (names == NULL)
        return text;
    names[count++] = "help";
    for (const struct option_spec *spec = table->options; !option_is_end(spec); spec++)
        if (spec->type != OPTION_SECTION && spec->name[1] != '\0')
            names[count++] = spec->name;
    near_text(word, names, count, "--", text);
    memory_free(names);
    return text;
}

static firn_rc raise_unknown(const struct option_table *table, const char *word)
{
    char name[64];
    char near[NEAR_TEXT_BYTES];
    const char *bare = word + strspn(word, "-");
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(bare, "="), bare);
    if (strncmp(name, "no-", 3) == 0) {
        const struct option_spec *spec = option_find(table, name + 3);
        if (spec != NULL && option_target(table, spec)->type == OPTION_FLAG)
            return rc_raise(FIRN_E_INVALID, "there is no option --%s; write --%s=off", name,
                            name + 3);
    }
    if (word[1] != '-' && option_find(table, name) != NULL && name[1] != '\0')
        return rc_raise(FIRN_E_INVALID, "there is no option %s; write --%s with two dashes", word,
                        name);
    return rc_raise(FIRN_E_INVALID, "there is no option %s%s%s", word[1] == '-' ? "--" : "-", name,
                    near_options(table, name, near));
}

/* getopt accepts unambiguous beginnings of names; we do not, since a script that uses one breaks on
   the day when another option begins the same. */
static bool spelled_exactly(const char *word, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(word, "--", 2) != 0)
        return true; /* a letter */
    return strncmp(word + 2, name, length) == 0 &&
           (word[2 + length] == '\0' || word[2 + length] == '=');
}

static firn_rc take_option(const struct option_table *table, const struct option_spec *spec,
                           void *configuration, struct option_words *words)
{
    const struct option_spec *target = option_target(table, spec);
    words->given[spec - table->options] = true;
    words->given[target - table->options] = true;
    if (spec->ignored_value)
        return FIRN_OK;
    firn_rc rc = option_set(target, optarg, configuration);
    if (rc == FIRN_OK)
        return rc;
    const char *dashes = spec->name[1] == '\0' ? "-" : "--";
    return rc_raise(rc, "%s%s: %s", dashes, spec->name, firn_error_text());
}

static firn_rc scan(struct scanner *scanner, int argc, char *const *argv, void *configuration,
                    struct option_words *words)
{
    const struct option_table *table = scanner->table;
    optind = 0; /* glibc: start anew */
    for (;;) {
        int start = optind == 0 ? 1 : optind;
        int code = getopt_long(argc, argv, scanner->short_options, scanner->long_options, NULL);
        const char *word = start < argc ? argv[start] : "";
        if (code == -1)
            break;
        if (code == WORD_FOUND) {
            words->positional[words->positional_count++] = optarg;
            continue;
        }
        const char letter[2] = {(char)code, '\0'};
        const struct option_spec *spec = code >= OPTION_FIRST ? &table->options[code - OPTION_FIRST]
                                                              : option_find(table, letter);
        if (code == ':')
            return rc_raise(FIRN_E_INVALID, "%s needs a value", word);
        if (code == '?' || !spelled_exactly(word, code == 'h' ? "help" : spec->name))
            return raise_unknown(table, word);
        if (code == 'h') {
            words->help_wanted = true;
            return FIRN_OK;
        }
        FIRN_TRY(take_option(table, spec, configuration, words));
    }
    while (optind < argc)
        words->positional[words->positional_count++] = argv[optind++];
    return FIRN_OK;
}

firn_rc options_parse(const struct option_table *table, int argc, char *const *argv,
                      void *configuration, struct option_words *words)
{
    struct scanner scanner;
    struct option_words found = {0};
    FIRN_TRY(scanner_open(table, &scanner));
    firn_rc rc = FIRN_OK;
    found.given = memory_zalloc(option_count(table) + 1, sizeof(*found.given));
    found.positional = memory_zalloc((size_t)argc + 1, sizeof(*found.positional));
    if (found.given == NULL || found.positional == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "not enough memory to read the options");
    else
        rc = scan(&scanner, argc, argv, configuration, &found);
    scanner_close(&scanner);
    if (rc != FIRN_OK) {
        options_free(&found);
        return rc;
    }
    *words = found;
    return FIRN_OK;
}

void options_free(struct option_words *words)
{
    memory_free(words->given);
    memory_free(words->positional);
    *words = (struct option_words){0};
}

bool options_given(const struct option_table *table, const struct option_words *words,
                   const char *name)
{
    const struct option_spec *spec = option_find(table, name);
    ENSURE(spec != NULL);
    return words->given[spec - table->options];
}
