/*
 * value.h -- one value of a column in memory: how it is held, judged, read from text and written
 * as text.
 *
 * What a value is depends on its column's type:
 *
 *   integers (signed)             VALUE_INT    the number
 *   integers (unsigned), bit      VALUE_UINT   the number
 *   float, double                 VALUE_DOUBLE the number
 *   decimal                       VALUE_BYTES  the digits as decimal.h packs them
 *   binary, varbinary, blob       VALUE_BYTES
 *   char, varchar, text           VALUE_BYTES  in the collation's character set
 *   date                          VALUE_UINT   value_date
 *   datetime                      VALUE_UINT   value_datetime, local to whoever writes it
 *   timestamp                     VALUE_UINT   microseconds since 1970-01-01 UTC; 0 is "no date"
 *   time                          VALUE_INT    microseconds
 *   year                          VALUE_UINT   the year, or 0
 *
 * All of these but decimals and bytes compare as numbers do. Bytes belong to somebody else: to the
 * caller, or to the row that they were read from.
 */
#ifndef FIRN_TABLE_VALUE_H
#define FIRN_TABLE_VALUE_H

#include "base/rc.h"
#include "base/span.h"

#include <stdbool.h>

struct column;

enum value_kind {
    VALUE_NULL = 0, /* zeroed memory is NULL */
    VALUE_INT,
    VALUE_UINT,
    VALUE_DOUBLE,
    VALUE_BYTES,
};

struct value {
    enum value_kind kind;
    union {
        int64_t i;
        uint64_t u;
        double d;
        struct span bytes;
    };
};

/** @return NULL. */
static inline struct value value_null(void)
{
    return (struct value){.kind = VALUE_NULL};
}

/** @return a number that may be below 0. */
static inline struct value value_int(int64_t number)
{
    return (struct value){.kind = VALUE_INT, .i = number};
}

/** @return a number that is not below 0. */
static inline struct value value_uint(uint64_t number)
{
    return (struct value){.kind = VALUE_UINT, .u = number};
}

/** @return a floating number. */
static inline struct value value_double(double number)
{
    return (struct value){.kind = VALUE_DOUBLE, .d = number};
}

/** @return bytes, which stay the caller's. */
static inline struct value value_bytes(struct span bytes)
{
    return (struct value){.kind = VALUE_BYTES, .bytes = bytes};
}

/** @return a text's bytes, likewise. */
static inline struct value value_text(const char *text)
{
    return value_bytes(span_of_text(text));
}

/** @return a date as it is held: it orders as dates do. 0 for 0000-00-00. */
static inline uint64_t value_date(unsigned year, unsigned month, unsigned day)
{
    return (uint64_t)year << 9 | month << 5 | day;
}

/** @return a date and time as it is held. */
static inline uint64_t value_datetime(uint64_t date, unsigned hour, unsigned minute,
                                      unsigned second, unsigned microsecond)
{
    return (date << 17 | hour << 12 | minute << 6 | second) * 1000000 + microsecond;
}

/**
 * Judge a value for a column and bring it into the form that row.h and key.h take: signed and
 * unsigned integers become each other, integers become floating numbers, a char loses the spaces at
 * its end, numbers for a float are rounded to one. No other digits are lost: what does not fit is
 * refused. Dates may be those that SQL
 * servers hand over in any of their modes: month 0 to 12, day 0 to 31 in each month.
 *
 * @param value  changed on success only
 * @return FIRN_OK; FIRN_E_INVALID naming the column and what it takes
 */
firn_rc value_check(const struct column *column, struct value *value);

/** What "now" is; whoever asks for default values decides about clock and time zone. */
struct value_now {
    uint64_t timestamp; /* as a timestamp is held */
    uint64_t datetime;  /* as a datetime is held */
};

/**
 * Get a column's default value.
 *
 * @param now    may be NULL, but for COLUMN_DEFAULT_NOW
 * @param value  set on success; its bytes are the schema's
 * @return FIRN_OK; FIRN_E_INVALID naming the column if it has none; FIRN_E_MISUSE without `now`
 */
firn_rc value_default(const struct column *column, const struct value_now *now,
                      struct value *value);

/* ---- Text ----
 *
 * What is written is what is read: numbers without loss (floating ones with as many digits as tell
 * them from their neighbours), dates as YYYY-MM-DD, times as [-]HH:MM:SS.ffffff with the column's
 * digits of a second, timestamps as date and time in UTC, binary, varbinary and blob as hexadecimal
 * digits, bits as a decimal number, texts as they are. NULL has no text: ask for it first. A
 * program's locale does not matter.
 */

/** @return enough room to write a value, in bytes. @param value  not NULL, checked */
size_t value_print_bound(const struct column *column, const struct value *value);

/**
 * Write a value.
 *
 * @param value  not NULL, checked
 * @param to     room for value_print_bound
 * @return how many bytes were written; no terminator
 */
size_t value_print(const struct column *column, const struct value *value, char *to);

/** @return enough room to read a text of so many bytes, in bytes. */
size_t value_parse_bound(const struct column *column, size_t text_bytes);

/**
 * Read a value; it is checked.
 *
 * @param room   value_parse_bound bytes, where the value's bytes may come to lie (others stay in
 *               the text)
 * @param value  set on success; lives as long as text and room
 * @return FIRN_OK; FIRN_E_INVALID naming the column and what it takes
 */
firn_rc value_parse(const struct column *column, struct span text, uint8_t *room,
                    struct value *value);

#endif
