/*
 * row.h -- rows as bytes.
 *
 * A row is the value under a primary key. It has the row version that it was written with, a bit
 * for each column that takes NULL, the columns of fixed size at offsets that the schema knows, the
 * ends of the others, and their bytes. What the primary key has at fixed offsets is not in the row
 * a second time. So any column is read by itself, without a look at those before it. FORMAT.md has
 * the bytes.
 *
 * Nothing here allocates. Rows are not trusted: whatever bytes are given as one, reading stays
 * inside them and tells FIRN_E_CORRUPT.
 */
#ifndef FIRN_TABLE_ROW_H
#define FIRN_TABLE_ROW_H

#include "table/schema.h"

enum {
    ROW_HEADER_BYTES = 2,
    ROW_BYTES_MAX = 1 << 30, /* of a row with all it has */
    ROW_SLACK_BYTES = 8,     /* a buffer must have so many behind the row */
};

/**
 * The size of a row.
 *
 * @param values      by column, live_count of them, checked (value_check)
 * @param size_bytes  set on success: what row_encode will write
 * @return FIRN_OK; FIRN_E_INVALID naming the table if it is above ROW_BYTES_MAX
 */
firn_rc row_size(const struct table_schema *schema, const struct value *values, size_t *size_bytes);

/**
 * Write a row.
 *
 * @param values  as row_size has judged them
 * @param to      room for row_size and ROW_SLACK_BYTES
 * @return how many bytes it has
 */
size_t row_encode(const struct table_schema *schema, const struct value *values, uint8_t *to);

/** A row being read. It points to the key and the row, which must stay as they are. */
struct row_view {
    const struct table_schema *schema;
    const struct row_layout *layout;
    struct span key;
    struct span row;
    bool is_wide; /* its ends have 4 bytes, not 2 */
};

/**
 * Begin to read a row, of any version that the schema knows.
 *
 * @param key   of the primary key
 * @param view  set on success
 * @return FIRN_OK; FIRN_E_CORRUPT naming the table
 */
firn_rc row_open(const struct table_schema *schema, struct span key, struct span row,
                 struct row_view *view);

/**
 * Read one column.
 *
 * @param column  below live_count, or a dropped one
 * @param value   set on success; bytes are the row's, the key's or the schema's
 * @return FIRN_OK; FIRN_E_CORRUPT naming table and column
 */
firn_rc row_read(const struct row_view *view, unsigned column, struct value *value);

/** A set of columns: bit c % 64 of word c / 64. */
enum { ROW_SET_WORDS = (SCHEMA_COLUMNS_MAX + 1 + 63) / 64 };

/**
 * Read some columns.
 *
 * @param wanted  ROW_SET_WORDS words; NULL: all that are live
 * @param values  by column, live_count; those not wanted are left as they are
 * @return as row_read; after an error, some may be set
 */
firn_rc row_read_set(const struct row_view *view, const uint64_t *wanted, struct value *values);

/** Judge a whole row: all columns can be read, are values of their types, and nothing is left
 * between or behind them. @return FIRN_OK; FIRN_E_CORRUPT with what is wrong */
firn_rc row_check(const struct row_view *view);

#endif
