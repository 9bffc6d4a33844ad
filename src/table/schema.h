/*
 * schema.h -- what a table is: columns, indexes, foreign keys, and the layouts of its rows.
 *
 * A schema is made from a description, judged as a whole, and never changes; altering a table makes
 * another one. Rows say the row version they were written with, so columns can be added and dropped
 * without touching rows: the schema knows the layout of each version.
 *
 * A schema is shared by threads freely. Its strings and bytes live as long as it does.
 */
#ifndef FIRN_TABLE_SCHEMA_H
#define FIRN_TABLE_SCHEMA_H

#include "table/column.h"

enum {
    SCHEMA_COLUMNS_MAX = 1017, /* the dropped ones count until the table is built anew */
    SCHEMA_INDEXES_MAX = 64,   /* with the primary key */
    SCHEMA_PARTS_MAX = 16,     /* columns of an index, as declared */
    SCHEMA_FOREIGN_MAX = 255,
    SCHEMA_VERSIONS_MAX = 255, /* row versions */
    SCHEMA_FIXED_BYTES_MAX = 65535,
    SCHEMA_ROW_ID_BYTES = 6,
    SCHEMA_NAME_BYTES_MAX = 1023, /* of a table: servers put the database in front, and encode */
    SCHEMA_NONE = UINT16_MAX,     /* no such column or index */
};

/* ---- Descriptions ---- */

struct part_spec {
    const char *column;
    uint32_t prefix; /* only so many characters (of binary, varbinary, blob: bytes); 0: all of it */
    bool is_descending;
};

struct index_spec {
    const char *name; /* of the primary key: ignored, it is PRIMARY */
    bool is_unique;   /* rows with a NULL in a part do not collide */
    const struct part_spec *parts;
    unsigned part_count;
};

/** What happens to a row when the one that it refers to goes or changes its key. */
enum foreign_action {
    FOREIGN_RESTRICT = 0,
    FOREIGN_NO_ACTION = 1, /* as RESTRICT: judged at once */
    FOREIGN_CASCADE = 2,
    FOREIGN_SET_NULL = 3,
    FOREIGN_SET_DEFAULT = 4,
};

struct foreign_spec {
    const char *name;
    const char *const *columns; /* of this table; an index begins with them, in this order */
    const char *parent;         /* a table's name */
    const char *const *parent_columns;
    unsigned column_count;
    enum foreign_action on_delete;
    enum foreign_action on_update;
};

struct table_spec {
    const char *name;
    const struct column_spec *columns;
    unsigned column_count;
    const struct index_spec *primary; /* NULL: a hidden row id is the key */
    unsigned row_id_bytes;            /* of it: 6 or 8; 0: 6 */
    const struct index_spec *indexes; /* secondary ones */
    unsigned index_count;
    const struct foreign_spec *foreigns;
    unsigned foreign_count;
};

/* ---- Schemas: read only ---- */

/** A part of an index's key. Those declared come first, then what is missing of the primary key. */
struct key_part {
    uint16_t column;
    bool is_descending;
    bool is_nullable;
    bool is_reversible;                /* the value can be had back from the key */
    uint32_t prefix;                   /* 0: all of it */
    struct column_codec codec;         /* CODEC_FIXED of binary: width is the prefix's */
    const struct collation *collation; /* of variable ones: how they compare */
};

struct table_index {
    const char *name;
    bool is_unique;
    uint16_t declared_count; /* parts declared; these must differ in a unique index */
    uint16_t part_count;
    const struct key_part *parts;
    uint8_t
        primary_parts[SCHEMA_PARTS_MAX]; /* for each part of the primary key, where it is here */
};

struct foreign_key {
    const char *name;
    const char *parent;
    unsigned column_count;
    uint16_t columns[SCHEMA_PARTS_MAX];
    const char *parent_columns[SCHEMA_PARTS_MAX];
    enum foreign_action on_delete;
    enum foreign_action on_update;
    uint16_t index; /* the one that begins with the columns */
};

/** Where a column lies in rows of one version. */
enum place_kind {
    PLACE_ABSENT, /* not there: column.absent */
    PLACE_FIXED,
    PLACE_VARIABLE,
    PLACE_KEY, /* in the primary key only, at a fixed offset */
};

struct column_place {
    uint8_t kind;
    bool is_descending; /* PLACE_KEY */
    uint8_t null_mask;  /* 0: it has no NULLs */
    uint16_t null_byte; /* offset in the row */
    uint16_t at; /* PLACE_FIXED: offset in the row; PLACE_VARIABLE: which one; PLACE_KEY: offset */
    struct column_codec codec; /* the column's, so that reading looks in one place */
};

struct row_layout {
    uint16_t fixed_bytes; /* header, NULL bits and fixed columns: the offsets begin here */
    uint16_t variable_count;
    uint16_t null_bytes;
    const struct column_place *places; /* by column, as in the schema's columns */
};

struct table_schema {
    const char *name;
    uint8_t row_version;    /* of rows that are written now */
    uint16_t column_count;  /* that SQL sees: columns[0] and on */
    uint16_t live_count;    /* with the hidden row id, if there is one, behind them */
    uint16_t all_count;     /* with the dropped ones, behind those */
    uint16_t row_id_column; /* or SCHEMA_NONE */
    uint16_t auto_column;   /* the autoincrement column, or SCHEMA_NONE */
    uint16_t index_count;   /* indexes[0] is the primary key or the hidden row id */
    uint16_t foreign_count;
    const struct column *columns;
    const struct table_index *indexes;
    const struct foreign_key *foreigns;
    const struct row_layout *layouts; /* by version; 0 is not used */
    const uint16_t *storage_order;    /* of the current layout: fixed columns, then variable ones */
    uint16_t fixed_count;             /* of these, fixed */
    uint32_t page_size_bytes;
    uint32_t key_bytes_max;
    uint16_t key_fixed_bytes; /* of the primary key: as many as columns with PLACE_KEY need */
    struct span bytes;        /* the schema as the dictionary keeps it: FORMAT.md */
};

/**
 * Make a schema.
 *
 * @param page_size_bytes  of the trees: it limits keys
 * @param schema           set on success; schema_free. Nothing of the description is needed further
 * @return FIRN_OK; FIRN_E_INVALID with a sentence that names table, column or index; FIRN_E_NOMEM
 */
firn_rc schema_create(const struct table_spec *spec, uint32_t page_size_bytes,
                      struct table_schema **schema);

/** Make a schema from schema.bytes. @return FIRN_OK; FIRN_E_UNSUPPORTED (a newer version's);
 * FIRN_E_CORRUPT; FIRN_E_NOMEM */
firn_rc schema_decode(struct span bytes, uint32_t page_size_bytes, struct table_schema **schema);

/** NULL is allowed. */
void schema_free(struct table_schema *schema);

/** @return the column of a name (ASCII letters compare without case), or SCHEMA_NONE. */
uint16_t schema_find_column(const struct table_schema *schema, const char *name);

/** @return the index of a name, likewise. */
uint16_t schema_find_index(const struct table_schema *schema, const char *name);

/** @return the foreign key of a name, likewise. */
uint16_t schema_find_foreign(const struct table_schema *schema, const char *name);

/* ---- Altering, without touching rows ---- */

/**
 * Add a column. Rows that are there have its default value; with COLUMN_DEFAULT_NOW, the moment
 * given.
 *
 * @param position  what it stands before, by SQL's order; column_count: last
 * @param now       or NULL where the default is a constant
 * @param altered   set on success; the old schema is unchanged
 * @return as schema_create; FIRN_E_INVALID too if it has no default and takes no NULL, and if the
 *         table must be built anew (too many versions)
 */
firn_rc schema_add_column(const struct table_schema *schema, const struct column_spec *column,
                          unsigned position, const struct value_now *now,
                          struct table_schema **altered);

/** Drop a column. FIRN_E_NOT_FOUND too; FIRN_E_INVALID too if an index has it, as one has any
 * column of a foreign key. */
firn_rc schema_drop_column(const struct table_schema *schema, const char *name,
                           struct table_schema **altered);

/** Give a column another name. FIRN_E_NOT_FOUND too. */
firn_rc schema_rename_column(const struct table_schema *schema, const char *from, const char *to,
                             struct table_schema **altered);

/** Give the table another name. What refers to it as a parent is other tables' business. */
firn_rc schema_rename(const struct table_schema *schema, const char *name,
                      struct table_schema **altered);

/** Add a secondary index; it is the last one. */
firn_rc schema_add_index(const struct table_schema *schema, const struct index_spec *index,
                         struct table_schema **altered);

/** Drop a secondary index. FIRN_E_NOT_FOUND too; FIRN_E_INVALID too if a foreign key or the
 * autoincrement column needs it. */
firn_rc schema_drop_index(const struct table_schema *schema, const char *name,
                          struct table_schema **altered);

/** Add a foreign key; whether rows have parents is the caller's to see. */
firn_rc schema_add_foreign(const struct table_schema *schema, const struct foreign_spec *foreign,
                           struct table_schema **altered);

/** Drop a foreign key. FIRN_E_NOT_FOUND too. */
firn_rc schema_drop_foreign(const struct table_schema *schema, const char *name,
                            struct table_schema **altered);

#endif
