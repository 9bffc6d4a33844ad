/*
 * value_text_internal.h -- what reading and writing of values as text is divided into.
 */
#ifndef FIRN_TABLE_VALUE_TEXT_INTERNAL_H
#define FIRN_TABLE_VALUE_TEXT_INTERNAL_H

#include "table/column.h"

/** Refuse a text for a column: FIRN_E_INVALID with column, type and the beginning of the text.
 * @param what  goes on behind the text: "is no date" */
firn_rc value_refuse_text(const struct column *column, struct span text, const char *what);

/** value_print and value_parse of date, time, datetime and timestamp; what is read is not checked
 * yet. */
size_t value_print_moment(const struct column *column, const struct value *value, char *to);
firn_rc value_parse_moment(const struct column *column, struct span text, struct value *value);

#endif
