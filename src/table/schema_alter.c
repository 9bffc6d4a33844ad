/*
 * Altering schemas: a schema's bytes become a draft again, the draft is changed, and finished like
 * any other.
 */
#include "table/column_internal.h"
#include "table/draft_internal.h"

/* What is to be changed in a draft; the arguments are those of one of the functions below. */
typedef firn_rc draft_change(struct draft *draft, const void *arguments);

static firn_rc alter(const struct table_schema *schema, draft_change *change, const void *arguments,
                     struct table_schema **altered)
{
    struct draft draft = {0};
    firn_rc rc;
    FIRN_TRY_GOTO(draft_decode(schema->bytes, schema->page_size_bytes, &draft), out);
    FIRN_TRY_GOTO(change(&draft, arguments), out);
    FIRN_TRY_GOTO(draft_finish(&draft, altered), out);
out:
    draft_free(&draft);
    return rc;
}

/* ---- Columns ---- */

static firn_rc next_version(struct draft *draft)
{
    if (draft->row_version == SCHEMA_VERSIONS_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "table %s: its rows have had %d layouts; build the table anew before it "
                        "gets another one",
                        draft->name, SCHEMA_VERSIONS_MAX);
    draft->row_version++;
    return FIRN_OK;
}

struct added_column {
    const struct column_spec *spec;
    unsigned position;
    const struct value_now *now;
};

static firn_rc add_column(struct draft *draft, const void *arguments)
{
    const struct added_column *added = arguments;
    struct column column = {.spec = *added->spec, .id = (uint16_t)draft->column_count};
    if (draft->column_count >= SCHEMA_COLUMNS_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "table %s: it has %d columns, with those dropped since it was built; build "
                        "it anew before it gets another one",
                        draft->name, SCHEMA_COLUMNS_MAX);
    FIRN_TRY(next_version(draft));
    FIRN_TRY(column_check(&column));
    if (column.spec.default_kind == COLUMN_DEFAULT_CONSTANT)
        FIRN_TRY(value_check(&column, &column.spec.default_value));
    FIRN_TRY(value_default(&column, added->now, &column.absent));
    column.added = draft->row_version;
    memmove(&draft->columns[added->position + 1], &draft->columns[added->position],
            (draft->column_count - added->position) * sizeof column);
    draft->columns[added->position] = column;
    draft->column_count++;
    return FIRN_OK;
}

firn_rc schema_add_column(const struct table_schema *schema, const struct column_spec *column,
                          unsigned position, const struct value_now *now,
                          struct table_schema **altered)
{
    struct added_column added = {column, position, now};
    if (position > schema->column_count)
        return rc_raise(FIRN_E_INVALID, "table %s: it has %u columns, there is no place %u",
                        schema->name, schema->column_count, position);
    return alter(schema, add_column, &added, altered);
}

static bool has_column(const struct draft_index *index, uint16_t column_id)
{
    for (unsigned p = 0; p < index->part_count; p++)
        if (index->parts[p].column_id == column_id)
            return true;
    return false;
}

/* A foreign key's columns are parts of an index, so they need no look of their own. */
static firn_rc drop_column(struct draft *draft, const void *arguments)
{
    unsigned position = *(const uint16_t *)arguments;
    struct column column = draft->columns[position];
    for (unsigned i = 0; i < draft->index_count; i++)
        if (has_column(&draft->indexes[i], column.id))
            return rc_raise(FIRN_E_INVALID,
                            "table %s: column %s is a part of index %s; drop that first",
                            draft->name, column.spec.name, draft->indexes[i].name);
    FIRN_TRY(next_version(draft));
    column.dropped = draft->row_version;
    memmove(&draft->columns[position], &draft->columns[position + 1],
            (draft->column_count - position - 1) * sizeof column);
    draft->columns[draft->column_count - 1] = column;
    return FIRN_OK;
}

static firn_rc refuse_unknown(const struct table_schema *schema, const char *what, const char *name)
{
    return rc_raise(FIRN_E_NOT_FOUND, "table %s: there is no %s %s", schema->name, what, name);
}

firn_rc schema_drop_column(const struct table_schema *schema, const char *name,
                           struct table_schema **altered)
{
    uint16_t position = schema_find_column(schema, name);
    if (position == SCHEMA_NONE)
        return refuse_unknown(schema, "column", name);
    return alter(schema, drop_column, &position, altered);
}

struct renamed_column {
    uint16_t position;
    const char *name;
};

static firn_rc rename_column(struct draft *draft, const void *arguments)
{
    const struct renamed_column *renamed = arguments;
    draft->columns[renamed->position].spec.name = renamed->name;
    return FIRN_OK;
}

firn_rc schema_rename_column(const struct table_schema *schema, const char *from, const char *to,
                             struct table_schema **altered)
{
    struct renamed_column renamed = {schema_find_column(schema, from), to};
    if (renamed.position == SCHEMA_NONE)
        return refuse_unknown(schema, "column", from);
    return alter(schema, rename_column, &renamed, altered);
}

static firn_rc rename_table(struct draft *draft, const void *arguments)
{
    draft->name = arguments;
    return FIRN_OK;
}

firn_rc schema_rename(const struct table_schema *schema, const char *name,
                      struct table_schema **altered)
{
    return alter(schema, rename_table, name, altered);
}

/* ---- Indexes ---- */

static firn_rc add_index(struct draft *draft, const void *arguments)
{
    const struct index_spec *index = arguments;
    return draft_add_index(draft, index, index->name);
}

firn_rc schema_add_index(const struct table_schema *schema, const struct index_spec *index,
                         struct table_schema **altered)
{
    return alter(schema, add_index, index, altered);
}

/* Whether foreign keys and the autoincrement column would still find an index tells draft_check. */
static firn_rc drop_index(struct draft *draft, const void *arguments)
{
    unsigned number = *(const uint16_t *)arguments - (draft->row_id_bytes != 0 ? 1U : 0U);
    memmove(&draft->indexes[number], &draft->indexes[number + 1],
            (draft->index_count - number - 1) * sizeof *draft->indexes);
    draft->index_count--;
    return FIRN_OK;
}

firn_rc schema_drop_index(const struct table_schema *schema, const char *name,
                          struct table_schema **altered)
{
    uint16_t number = schema_find_index(schema, name);
    if (number == SCHEMA_NONE)
        return refuse_unknown(schema, "index", name);
    if (number == 0)
        return rc_raise(FIRN_E_INVALID,
                        "table %s: its rows lie in the primary key; build the table anew to "
                        "change it",
                        schema->name);
    return alter(schema, drop_index, &number, altered);
}

/* ---- Foreign keys ---- */

static firn_rc add_foreign(struct draft *draft, const void *arguments)
{
    return draft_add_foreign(draft, arguments);
}

firn_rc schema_add_foreign(const struct table_schema *schema, const struct foreign_spec *foreign,
                           struct table_schema **altered)
{
    return alter(schema, add_foreign, foreign, altered);
}

static firn_rc drop_foreign(struct draft *draft, const void *arguments)
{
    unsigned number = *(const uint16_t *)arguments;
    memmove(&draft->foreigns[number], &draft->foreigns[number + 1],
            (draft->foreign_count - number - 1) * sizeof *draft->foreigns);
    draft->foreign_count--;
    return FIRN_OK;
}

firn_rc schema_drop_foreign(const struct table_schema *schema, const char *name,
                            struct table_schema **altered)
{
    uint16_t number = schema_find_foreign(schema, name);
    if (number == SCHEMA_NONE)
        return refuse_unknown(schema, "foreign key", name);
    return alter(schema, drop_foreign, &number, altered);
}
