/*
 * column_internal.h -- what the types are: one table of them.
 */
#ifndef FIRN_TABLE_COLUMN_INTERNAL_H
#define FIRN_TABLE_COLUMN_INTERNAL_H

#include "table/column.h"

/** What a description of a type may say. */
enum column_takes {
    TAKES_LENGTH = 1,
    TAKES_PRECISION = 2,
    TAKES_SECOND_DIGITS = 4,
    TAKES_UNSIGNED = 8,
    TAKES_COLLATION = 16,
};

struct column_traits {
    const char *name; /* NULL: no such type */
    uint8_t takes;
    uint8_t kind;  /* enum codec_kind */
    uint8_t width; /* bytes, where it does not depend on the description */
};

/** @return what is known of a type, or NULL. Of COLUMN_ROW_ID: NULL, nobody describes it. */
const struct column_traits *column_traits(enum column_type type);

/**
 * Judge a column's description, find its collation and choose its codec; the default value is left
 * for value_check.
 *
 * @param column  spec is set; collation and codec are set on success
 * @return FIRN_OK; FIRN_E_INVALID naming the column
 */
firn_rc column_check(struct column *column);

/** @return whether it is a name: UTF-8 of 1 to so many bytes, without control characters; not NULL.
 */
bool column_is_name(const char *name, size_t bytes_max);

#endif
