/*
 * From a description to a draft.
 */
#include "table/draft_internal.h"

#include "base/memory.h"

bool draft_names_equal(const char *left, const char *right)
{
    for (;; left++, right++) {
        uint8_t a = (uint8_t)*left;
        uint8_t b = (uint8_t)*right;
        a = a >= 'A' && a <= 'Z' ? (uint8_t)(a + 32) : a;
        b = b >= 'A' && b <= 'Z' ? (uint8_t)(b + 32) : b;
        if (a != b)
            return false;
        if (a == '\0')
            return true;
    }
}

void draft_free(struct draft *draft)
{
    memory_free(draft->columns);
    memory_free(draft->indexes);
    memory_free(draft->foreigns);
    *draft = (struct draft){0};
}

firn_rc draft_allocate(struct draft *draft)
{
    draft->columns = memory_zalloc(draft->column_count + 1, sizeof *draft->columns);
    draft->indexes = memory_zalloc(draft->index_count + 1, sizeof *draft->indexes);
    draft->foreigns = memory_zalloc(draft->foreign_count + 1, sizeof *draft->foreigns);
    if (draft->columns != NULL && draft->indexes != NULL && draft->foreigns != NULL)
        return FIRN_OK;
    draft_free(draft);
    return rc_raise(FIRN_E_NOMEM, "there is no memory for the description of a table");
}

uint16_t draft_find_id(const struct draft *draft, uint16_t column_id)
{
    for (unsigned c = 0; c < draft->column_count; c++)
        if (draft->columns[c].id == column_id && draft->columns[c].dropped == 0)
            return (uint16_t)c;
    return SCHEMA_NONE;
}

/* The id of a column that is there, by its name. */
static firn_rc find_column(const struct draft *draft, const char *where, const char *name,
                           uint16_t *column_id)
{
    for (unsigned c = 0; name != NULL && c < draft->column_count; c++) {
        const struct column *column = &draft->columns[c];
        if (column->dropped == 0 && column->spec.name != NULL &&
            draft_names_equal(column->spec.name, name)) {
            *column_id = column->id;
            return FIRN_OK;
        }
    }
    return rc_raise(FIRN_E_INVALID, "table %s, %s: there is no column %s", draft->name, where,
                    name != NULL ? name : "without a name");
}

static firn_rc refuse_count(const struct draft *draft, const char *what, unsigned count,
                            unsigned most)
{
    return rc_raise(FIRN_E_INVALID, "table %s: %u %s are more than %u", draft->name, count, what,
                    most);
}

/* A prefix as long as the column is the column. */
static uint32_t prefix_of(const struct draft *draft, uint16_t column_id, uint32_t prefix)
{
    const struct column_spec *spec = &draft->columns[draft_find_id(draft, column_id)].spec;
    return !column_is_large(spec) && prefix == spec->length ? 0 : prefix;
}

firn_rc draft_add_index(struct draft *draft, const struct index_spec *spec, const char *name)
{
    struct draft_index *index = &draft->indexes[draft->index_count];
    if (name == NULL)
        return rc_raise(FIRN_E_INVALID, "table %s: an index needs a name", draft->name);
    if (spec->part_count == 0 || spec->part_count > SCHEMA_PARTS_MAX)
        return rc_raise(FIRN_E_INVALID, "table %s, index %s: an index has 1 to %d columns, not %u",
                        draft->name, name, SCHEMA_PARTS_MAX, spec->part_count);
    *index = (struct draft_index){
        .name = name, .is_unique = spec->is_unique, .part_count = spec->part_count};
    for (unsigned p = 0; p < spec->part_count; p++) {
        const struct part_spec *part = &spec->parts[p];
        FIRN_TRY(find_column(draft, name, part->column, &index->parts[p].column_id));
        index->parts[p].prefix = prefix_of(draft, index->parts[p].column_id, part->prefix);
        index->parts[p].is_descending = part->is_descending;
    }
    draft->index_count++;
    return FIRN_OK;
}

firn_rc draft_add_foreign(struct draft *draft, const struct foreign_spec *spec)
{
    struct draft_foreign *foreign = &draft->foreigns[draft->foreign_count];
    const char *name = spec->name != NULL ? spec->name : "a foreign key without a name";
    if (draft->foreign_count >= SCHEMA_FOREIGN_MAX)
        return refuse_count(draft, "foreign keys", draft->foreign_count + 1, SCHEMA_FOREIGN_MAX);
    if (spec->column_count == 0 || spec->column_count > SCHEMA_PARTS_MAX)
        return rc_raise(FIRN_E_INVALID, "table %s, %s: a foreign key has 1 to %d columns, not %u",
                        draft->name, name, SCHEMA_PARTS_MAX, spec->column_count);
    *foreign = (struct draft_foreign){.name = spec->name,
                                      .parent = spec->parent,
                                      .column_count = spec->column_count,
                                      .on_delete = (uint8_t)spec->on_delete,
                                      .on_update = (uint8_t)spec->on_update};
    for (unsigned i = 0; i < spec->column_count; i++) {
        FIRN_TRY(find_column(draft, name, spec->columns[i], &foreign->column_ids[i]));
        foreign->parent_columns[i] = spec->parent_columns[i];
    }
    draft->foreign_count++;
    return FIRN_OK;
}

static firn_rc fill(const struct table_spec *spec, struct draft *draft)
{
    draft->index_count = draft->foreign_count = 0;
    draft->row_version = 1;
    for (unsigned c = 0; c < draft->column_count; c++)
        draft->columns[c] =
            (struct column){.spec = spec->columns[c], .id = (uint16_t)c, .added = 1};
    if (spec->primary != NULL) {
        struct index_spec primary = *spec->primary;
        primary.is_unique = true;
        FIRN_TRY(draft_add_index(draft, &primary, "PRIMARY"));
    } else {
        draft->row_id_bytes =
            (uint8_t)(spec->row_id_bytes != 0 ? spec->row_id_bytes : SCHEMA_ROW_ID_BYTES);
    }
    for (unsigned i = 0; i < spec->index_count; i++)
        FIRN_TRY(draft_add_index(draft, &spec->indexes[i], spec->indexes[i].name));
    for (unsigned i = 0; i < spec->foreign_count; i++)
        FIRN_TRY(draft_add_foreign(draft, &spec->foreigns[i]));
    return FIRN_OK;
}

firn_rc draft_from_spec(const struct table_spec *spec, uint32_t page_size_bytes,
                        struct draft *draft)
{
    *draft = (struct draft){.name = spec->name != NULL ? spec->name : "without a name",
                            .page_size_bytes = page_size_bytes};
    if (spec->column_count > SCHEMA_COLUMNS_MAX)
        return refuse_count(draft, "columns", spec->column_count, SCHEMA_COLUMNS_MAX);
    if (spec->index_count + (spec->primary != NULL) > SCHEMA_INDEXES_MAX)
        return refuse_count(draft, "secondary indexes", spec->index_count,
                            SCHEMA_INDEXES_MAX - (spec->primary != NULL));
    if (spec->foreign_count > SCHEMA_FOREIGN_MAX)
        return refuse_count(draft, "foreign keys", spec->foreign_count, SCHEMA_FOREIGN_MAX);
    if (spec->row_id_bytes != 0 &&
        (spec->primary != NULL || (spec->row_id_bytes != 6 && spec->row_id_bytes != 8)))
        return rc_raise(FIRN_E_INVALID,
                        "table %s: a hidden row id has 6 or 8 bytes, and there is none beside a "
                        "primary key",
                        draft->name);
    draft->column_count = spec->column_count;
    draft->index_count = spec->index_count + 1;
    draft->foreign_count = spec->foreign_count;
    FIRN_TRY(draft_allocate(draft));
    return fill(spec, draft);
}
