/*
 * options_internal.h -- what options.c, options_value.c and options_help.c share.
 */
#ifndef FIRN_CLI_OPTIONS_INTERNAL_H
#define FIRN_CLI_OPTIONS_INTERNAL_H

#include "cli/options.h"

/** @return true at the entry that ends a table's options. */
static inline bool option_is_end(const struct option_spec *spec)
{
    return spec->name == NULL && spec->help == NULL;
}

/** @return true for an option with a value of its own: no heading, no alias, nothing ignored. */
static inline bool option_has_field(const struct option_spec *spec)
{
    return spec->type != OPTION_SECTION && spec->alias_of == NULL && !spec->ignored_value;
}

/** @return the number of entries before the end. */
size_t option_count(const struct option_table *table);

/** @return the entry of this name, aliases included; or NULL. */
const struct option_spec *option_find(const struct option_table *table, const char *name);

/** @return the entry that an alias stands for, or the entry itself. An alias of nothing ends the
 * process (ENSURE). */
const struct option_spec *option_target(const struct option_table *table,
                                        const struct option_spec *spec);

/**
 * Read a value into its field.
 *
 * @param spec  an option with a field
 * @param text  the value as written; NULL for a flag without one
 * @return FIRN_OK; FIRN_E_INVALID with a sentence that does not name the option
 */
firn_rc option_set(const struct option_spec *spec, const char *text, void *configuration);

#endif
