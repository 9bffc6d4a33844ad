/*
 * Altering schemas: a schema's bytes become a draft again, the draft is changed, and finished like
 * any other.
 */
#include "table/column_internal.h"
#include "table/draft_internal.h"

#include "base/check.h"

static firn_rc open_draft(const struct table_schema *schema, struct draft *draft)
{
    FIRN_TRY(draft_decode(schema->bytes, schema->page_size_bytes, draft));
    return draft_check(draft);
}

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

static firn_rc add_column(struct draft *draft, const struct column_spec *spec, unsigned position,
                          const struct value_now *now)
{
    struct column column = {.spec = *spec, .id = draft->next_column_id};
    FIRN_TRY(next_version(draft));
    FIRN_TRY(column_check(&column));
    if (draft->column_count >= SCHEMA_COLUMNS_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "table %s: it has %d columns, with those dropped since it was built; build "
                        "it anew before it gets another one",
                        draft->name, SCHEMA_COLUMNS_MAX);
    if (spec->default_kind == COLUMN_DEFAULT_CONSTANT)
        FIRN_TRY(value_check(&column, &column.spec.default_value));
    FIRN_TRY(value_default(&column, now, &column.absent));
    column.added = draft->row_version;
    memmove(&draft->columns[position + 1], &draft->columns[position],
            (draft->column_count - position) * sizeof column);
    draft->columns[position] = column;
    draft->column_count++;
    draft->next_column_id++;
    return FIRN_OK;
}

firn_rc schema_add_column(const struct table_schema *schema, const struct column_spec *column,
                          unsigned position, const struct value_now *now,
                          struct table_schema **altered)
{
    struct draft draft = {0};
    firn_rc rc;
    if (position > schema->column_count)
        return rc_raise(FIRN_E_INVALID, "table %s: it has %u columns, there is no place %u",
                        schema->name, schema->column_count, position);
    FIRN_TRY_GOTO(open_draft(schema, &draft), out);
    FIRN_TRY_GOTO(add_column(&draft, column, position, now), out);
    FIRN_TRY_GOTO(draft_finish(&draft, altered), out);
out:
    draft_free(&draft);
    return rc;
}

static bool has_column(const struct draft_index *index, uint16_t column_id)
{
    for (unsigned p = 0; p < index->part_count; p++)
        if (index->parts[p].column_id == column_id)
            return true;
    return false;
}

static firn_rc drop_column(struct draft *draft, unsigned position)
{
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

firn_rc schema_drop_column(const struct table_schema *schema, const char *name,
                           struct table_schema **altered)
{
    struct draft draft = {0};
    uint16_t position = schema_find_column(schema, name);
    firn_rc rc;
    if (position == SCHEMA_NONE)
        return rc_raise(FIRN_E_NOT_FOUND, "table %s: there is no column %s", schema->name, name);
    FIRN_TRY_GOTO(open_draft(schema, &draft), out);
    FIRN_TRY_GOTO(drop_column(&draft, position), out);
    FIRN_TRY_GOTO(draft_finish(&draft, altered), out);
out:
    draft_free(&draft);
    return rc;
}

firn_rc schema_add_index(const struct table_schema *schema, const struct index_spec *index,
                         struct table_schema **altered)
{
    struct draft draft = {0};
    firn_rc rc;
    FIRN_TRY_GOTO(open_draft(schema, &draft), out);
    FIRN_TRY_GOTO(draft_add_index(&draft, index, index->name), out);
    FIRN_TRY_GOTO(draft_finish(&draft, altered), out);
out:
    draft_free(&draft);
    return rc;
}

/* Whether all foreign keys would still find an index tells draft_check; so does it of the
   autoincrement column. */
firn_rc schema_drop_index(const struct table_schema *schema, const char *name,
                          struct table_schema **altered)
{
    struct draft draft = {0};
    uint16_t number = schema_find_index(schema, name);
    firn_rc rc;
    if (number == SCHEMA_NONE)
        return rc_raise(FIRN_E_NOT_FOUND, "table %s: there is no index %s", schema->name, name);
    if (number == 0)
        return rc_raise(FIRN_E_INVALID,
                        "table %s: its rows lie in the primary key; build the table anew to "
                        "change it",
                        schema->name);
    FIRN_TRY_GOTO(open_draft(schema, &draft), out);
    number = (uint16_t)(number - (draft.row_id_bytes != 0));
    memmove(&draft.indexes[number], &draft.indexes[number + 1],
            (draft.index_count - number - 1U) * sizeof *draft.indexes);
    draft.index_count--;
    FIRN_TRY_GOTO(draft_finish(&draft, altered), out);
out:
    draft_free(&draft);
    return rc;
}
