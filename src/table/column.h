/*
 * column.h -- a column: its type, and how that type lies in rows and keys.
 */
#ifndef FIRN_TABLE_COLUMN_H
#define FIRN_TABLE_COLUMN_H

#include "table/collation.h"
#include "table/value.h"

/** The numbers are those of the dictionary's bytes. */
enum column_type {
    COLUMN_TINYINT = 1,
    COLUMN_SMALLINT = 2,
    COLUMN_MEDIUMINT = 3,
    COLUMN_INT = 4,
    COLUMN_BIGINT = 5,
    COLUMN_FLOAT = 6,
    COLUMN_DOUBLE = 7,
    COLUMN_DECIMAL = 8,
    COLUMN_BINARY = 9, /* padded with zero bytes to its length */
    COLUMN_VARBINARY = 10,
    COLUMN_CHAR = 11, /* without the spaces at its end */
    COLUMN_VARCHAR = 12,
    COLUMN_BLOB = 13,
    COLUMN_TEXT = 14,
    COLUMN_BIT = 15,
    COLUMN_DATE = 16,
    COLUMN_TIME = 17,
    COLUMN_DATETIME = 18,
    COLUMN_TIMESTAMP = 19,
    COLUMN_YEAR = 20,
    COLUMN_ROW_ID = 21, /* of the hidden column of a table without a primary key */
};

enum {
    COLUMN_NAME_BYTES_MAX = 192, /* 64 characters, as servers count them */
    COLUMN_CHAR_MAX = 255,       /* length of char and binary */
    COLUMN_VARIABLE_BYTES_MAX = 65535,
    COLUMN_BIT_MAX = 64,
    COLUMN_SECOND_DIGITS_MAX = 6,
};

enum column_default {
    COLUMN_DEFAULT_NONE = 0,     /* NULL; if the column takes none, a value must be given */
    COLUMN_DEFAULT_CONSTANT = 1, /* default_value */
    COLUMN_DEFAULT_NOW = 2,      /* of datetime and timestamp */
};

/** How a caller describes a column. What does not belong to the type is 0. */
struct column_spec {
    const char *name;
    enum column_type type;
    uint32_t length; /* char, varchar: characters; binary, varbinary: bytes; bit: bits; blob, text:
                        the most bytes, 0 for 4 GiB less one */
    uint8_t precision;     /* decimal: digits, 1 to 65 */
    uint8_t scale;         /* decimal: of them behind the point, at most 38 */
    uint8_t second_digits; /* time, datetime, timestamp: digits behind the second, 0 to 6 */
    bool is_unsigned;      /* integers, float, double, decimal: nothing below 0 */
    bool is_nullable;
    bool is_autoincrement; /* one integer column of a table, first in an index */
    uint32_t collation;    /* char, varchar, text */
    enum column_default default_kind;
    struct value default_value;
};

/** The ways in which types lie in rows and keys: nearly all of them are integers of some width. */
enum codec_kind {
    CODEC_UINT,
    CODEC_INT,
    CODEC_FLOAT,
    CODEC_DOUBLE,
    CODEC_FIXED,    /* bytes of one size that order as they are */
    CODEC_VARIABLE, /* bytes of any size */
};

struct column_codec {
    uint8_t kind;
    uint8_t second_bytes; /* for parts of a second: the stored number counts 1, 1/100, 1/10,000 or
                             1/1,000,000 of one. 3 where there is nothing to scale */
    uint16_t width;       /* bytes; 0 for CODEC_VARIABLE */
};

/** A column of a schema; read only. */
struct column {
    struct column_spec spec;
    uint16_t id;     /* of its table, never used again; the order in which columns lie in rows */
    uint8_t added;   /* the row version that came with it */
    uint8_t dropped; /* the row version that it went with; 0: it is there */
    struct value absent; /* what it is in rows from before it was added; bytes are the schema's */
    const struct collation *collation; /* of char, varchar, text; else NULL */
    struct column_codec codec;
};

/** @return the type as SQL writes it, such as "decimal(10,2) unsigned", in text. */
enum { COLUMN_TYPE_TEXT_BYTES = 96 };
char *column_type_text(const struct column_spec *spec, char text[COLUMN_TYPE_TEXT_BYTES]);

/** @return whether a column's values are texts, which have a collation. */
static inline bool column_is_text(const struct column_spec *spec)
{
    return spec->type == COLUMN_CHAR || spec->type == COLUMN_VARCHAR || spec->type == COLUMN_TEXT;
}

/** @return whether it is a blob or text, whose length may be 0, unlimited, and is in bytes. */
static inline bool column_is_large(const struct column_spec *spec)
{
    return spec->type == COLUMN_BLOB || spec->type == COLUMN_TEXT;
}

/** @return whether it is one of the integer types. */
static inline bool column_is_integer(const struct column_spec *spec)
{
    return spec->type >= COLUMN_TINYINT && spec->type <= COLUMN_BIGINT;
}

#endif
