/*
 * draft_internal.h -- a schema in the making.
 *
 * Every way to a schema is one way: a description, or bytes that are altered, become a draft; a
 * draft is judged, written as bytes, and a schema is built from these bytes. So what was made can
 * be read again, and what is read was judged as if it were made.
 */
#ifndef FIRN_TABLE_DRAFT_INTERNAL_H
#define FIRN_TABLE_DRAFT_INTERNAL_H

#include "table/schema.h"

/** Columns are named by their ids, which no alteration changes. Dropped ones stay in the
 * description, so the ids are the numbers below column_count. */
struct draft_part {
    uint16_t column_id;
    bool is_descending;
    uint32_t prefix;
};

struct draft_index {
    const char *name;
    bool is_unique;
    unsigned part_count;
    struct draft_part parts[SCHEMA_PARTS_MAX];
};

struct draft_foreign {
    const char *name;
    const char *parent;
    unsigned column_count;
    uint16_t column_ids[SCHEMA_PARTS_MAX];
    const char *parent_columns[SCHEMA_PARTS_MAX];
    uint8_t on_delete;
    uint8_t on_update;
};

/** Names and bytes are those of the description or of the bytes that the draft was made from. Each
 * array has room for one more element than it was made with. */
struct draft {
    const char *name;
    uint32_t page_size_bytes;
    uint8_t row_version;
    uint8_t row_id_bytes;  /* 0: indexes[0] is the primary key */
    unsigned column_count; /* with the dropped ones, which come last */
    unsigned index_count;
    unsigned foreign_count;
    struct column *columns; /* in SQL's order */
    struct draft_index *indexes;
    struct draft_foreign *foreigns;
};

/** Give a draft's memory back; of a zeroed one there is none. */
void draft_free(struct draft *draft);

/** Allocate the arrays, by the counts in the draft. @return FIRN_OK or FIRN_E_NOMEM, nothing
 * allocated */
firn_rc draft_allocate(struct draft *draft);

/** Make a draft from a description; names are looked up, little else is judged. FIRN_E_INVALID,
 * FIRN_E_NOMEM; draft_free in any case. */
firn_rc draft_from_spec(const struct table_spec *spec, uint32_t page_size_bytes,
                        struct draft *draft);

/** Add what a description of an index says; there is room for it. FIRN_E_INVALID. */
firn_rc draft_add_index(struct draft *draft, const struct index_spec *spec, const char *name);

/** The same for a foreign key. */
firn_rc draft_add_foreign(struct draft *draft, const struct foreign_spec *spec);

/** Make a draft from a schema's bytes; offsets and sizes are judged, the rest is not.
 * FIRN_E_CORRUPT, FIRN_E_UNSUPPORTED, FIRN_E_NOMEM; draft_free in any case. */
firn_rc draft_decode(struct span bytes, uint32_t page_size_bytes, struct draft *draft);

/** @return how many bytes draft_encode writes. */
size_t draft_bytes(const struct draft *draft);

/** Write a checked draft as bytes. @param to  room for draft_bytes and 8 */
void draft_encode(const struct draft *draft, uint8_t *to);

/** Judge a draft as a whole; completes its columns (codec, collation, default values as value_check
 * leaves them). FIRN_E_INVALID with a sentence that names table, column or index. */
firn_rc draft_check(struct draft *draft);

/** @return the place of the column of an id among the columns that are there, or SCHEMA_NONE. */
uint16_t draft_find_id(const struct draft *draft, uint16_t column_id);

/** @return the number of an index that begins with a foreign key's columns in their order, or
 * SCHEMA_NONE. */
uint16_t draft_index_of_foreign(const struct draft *draft, const struct draft_foreign *foreign);

/** @return whether names are the same: case of ASCII letters aside. */
bool draft_names_equal(const char *left, const char *right);

/** Judge a draft, write its bytes, and build a schema from them. As schema_create. */
firn_rc draft_finish(struct draft *draft, struct table_schema **schema);

#endif
