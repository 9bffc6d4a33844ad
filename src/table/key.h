/*
 * key.h -- keys: columns of an index as bytes that compare as the values do.
 *
 * The parts of a key follow one another. Each is written so that no part begins another one, so
 * what decides is the first part that differs. FORMAT.md has the bytes of each type, README.md the
 * argument.
 *
 * A key of a secondary index has what is missing of the primary key behind the declared parts. So
 * it is unique, and the primary key can be had from it without knowing any value
 * (key_primary_of), whatever the collation.
 *
 * Nothing here allocates.
 */
#ifndef FIRN_TABLE_KEY_H
#define FIRN_TABLE_KEY_H

#include "table/schema.h"

enum { KEY_SLACK_BYTES = 16 }; /* words are written whole */

/** @return what a buffer for a key of the schema must have. */
static inline size_t key_room(const struct table_schema *schema)
{
    return schema->key_bytes_max + KEY_SLACK_BYTES;
}

struct key_result {
    size_t size_bytes;
    size_t
        declared_bytes; /* of them, the declared parts': what a unique index may have only once */
    bool has_null;      /* a declared part is NULL: such keys never collide */
};

/**
 * Make a key.
 *
 * @param values      by column, checked (value_check); only those of the parts are looked at
 * @param part_count  how many parts; fewer than the index has make the beginning that all keys with
 *                    these values have
 * @param to          room for key_room
 * @param result      set on success
 * @return FIRN_OK; FIRN_E_INVALID naming table and index: the key is longer than a page of the tree
 *         takes
 */
firn_rc key_encode(const struct table_schema *schema, const struct table_index *index,
                   const struct value *values, unsigned part_count, uint8_t *to,
                   struct key_result *result);

/**
 * Make the key of the row that a key of a secondary index is about.
 *
 * @param to          room for key_room
 * @param size_bytes  set on success
 * @return FIRN_OK; FIRN_E_CORRUPT naming table and index
 */
firn_rc key_primary_of(const struct table_schema *schema, const struct table_index *index,
                       struct span key, uint8_t *to, size_t *size_bytes);

/**
 * Read values back from a key, for queries that an index alone can answer.
 *
 * @param wanted  bit p: part p, of the is_reversible ones. What is read of a part with a prefix is
 *                that prefix
 * @param room    key_room bytes, where bytes may come to lie
 * @param values  by column; those not wanted are left as they are; of two parts of one column (with
 *                unlike prefixes) the later one stays. Bytes are the key's or the
 * room's
 * @return FIRN_OK; FIRN_E_CORRUPT naming table and index; after an error, some may be set
 */
firn_rc key_read(const struct table_schema *schema, const struct table_index *index,
                 struct span key, uint64_t wanted, uint8_t *room, struct value *values);

/** Judge a key: all parts are there, and nothing behind them. @return FIRN_OK; FIRN_E_CORRUPT */
firn_rc key_check(const struct table_schema *schema, const struct table_index *index,
                  struct span key);

/**
 * Turn the beginning of keys into the smallest key above all that begin so: the end of a range.
 *
 * @return its size, at most size_bytes; 0 if there is none above
 */
size_t key_after(uint8_t *key, size_t size_bytes);

#endif
