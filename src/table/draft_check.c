/*
 * Judging a draft as a whole: what each column, index and foreign key may be, and together.
 */
#include "table/column_internal.h"
#include "table/draft_internal.h"

#include "base/check.h"
#include "page/slotted.h"

static firn_rc check_name(const struct draft *draft, const char *what, const char *name,
                          size_t bytes_max)
{
    if (column_is_name(name, bytes_max))
        return FIRN_OK;
    return rc_raise(FIRN_E_INVALID,
                    "table %s: the name of %s has 1 to %zu bytes of UTF-8 without control "
                    "characters",
                    draft->name, what, bytes_max);
}

/* ---- Columns ---- */

static firn_rc check_values(struct column *column)
{
    struct column_spec *spec = &column->spec;
    if (spec->default_kind == COLUMN_DEFAULT_CONSTANT) {
        if (spec->default_value.kind == VALUE_NULL)
            return rc_raise(FIRN_E_INVALID,
                            "column %s: a constant default is not NULL; that is what a column "
                            "without a default has",
                            spec->name);
        FIRN_TRY(value_check(column, &spec->default_value));
    }
    if (column->added == 1)
        return FIRN_OK;
    return value_check(column, &column->absent);
}

static firn_rc check_history(const struct draft *draft, const struct column *column)
{
    if (column->added >= 1 && column->added <= draft->row_version &&
        column->dropped <= draft->row_version && column->id < draft->column_count &&
        (column->dropped == 0 || column->dropped > column->added) &&
        (column->added > 1 || column->absent.kind == VALUE_NULL))
        return FIRN_OK;
    return rc_raise(FIRN_E_INVALID, "table %s: column %s has an impossible history", draft->name,
                    column->spec.name);
}

/* Names of those that are there, and ids of all, are unlike. */
static firn_rc check_unlike(const struct draft *draft, unsigned column)
{
    const struct column *this = &draft->columns[column];
    for (unsigned c = 0; c < column; c++) {
        const struct column *other = &draft->columns[c];
        if (other->id == this->id || (other->dropped != 0 && this->dropped == 0))
            return rc_raise(FIRN_E_INVALID, "table %s: columns %s and %s cannot both be there",
                            draft->name, other->spec.name, this->spec.name);
        if (this->dropped == 0 && draft_names_equal(other->spec.name, this->spec.name))
            return rc_raise(FIRN_E_INVALID, "table %s: there are two columns %s", draft->name,
                            this->spec.name);
    }
    return FIRN_OK;
}

static firn_rc check_columns(struct draft *draft)
{
    unsigned live = 0;
    unsigned automatic = 0;
    if (draft->column_count > SCHEMA_COLUMNS_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "table %s: more than %d columns, with those dropped since the table was "
                        "built",
                        draft->name, SCHEMA_COLUMNS_MAX);
    for (unsigned c = 0; c < draft->column_count; c++) {
        struct column *column = &draft->columns[c];
        FIRN_TRY(column_check(column));
        FIRN_TRY(check_history(draft, column));
        FIRN_TRY(check_unlike(draft, c));
        FIRN_TRY(check_values(column));
        live += column->dropped == 0;
        automatic += column->dropped == 0 && column->spec.is_autoincrement;
    }
    if (live == 0)
        return rc_raise(FIRN_E_INVALID, "table %s: a table has at least one column", draft->name);
    if (automatic > 1)
        return rc_raise(FIRN_E_INVALID, "table %s: only one column can be autoincrement",
                        draft->name);
    return FIRN_OK;
}

/* The fixed part of the rows of a version has offsets of 16 bits. */
static firn_rc check_fixed(const struct draft *draft)
{
    for (unsigned version = 1; version <= draft->row_version; version++) {
        size_t bytes = 2 + (draft->column_count + 7) / 8;
        for (unsigned c = 0; c < draft->column_count; c++) {
            const struct column *column = &draft->columns[c];
            if (column->added <= version && (column->dropped == 0 || column->dropped > version))
                bytes += column->codec.width;
        }
        if (bytes > SCHEMA_FIXED_BYTES_MAX)
            return rc_raise(FIRN_E_INVALID,
                            "table %s: the columns of fixed size have %zu bytes together, more "
                            "than %d; make some variable",
                            draft->name, bytes, SCHEMA_FIXED_BYTES_MAX);
    }
    return FIRN_OK;
}

/* ---- Indexes ---- */

/* The most bytes that a part's values have, before they become weights. */
static firn_rc check_part(const struct draft *draft, const struct draft_index *index, unsigned p,
                          bool is_primary, uint64_t *bytes)
{
    const struct draft_part *part = &index->parts[p];
    uint16_t c = draft_find_id(draft, part->column_id);
    if (c == SCHEMA_NONE)
        return rc_raise(FIRN_E_INVALID, "table %s, index %s: a column is not there", draft->name,
                        index->name);
    const struct column *column = &draft->columns[c];
    const struct column_spec *spec = &column->spec;
    bool is_bytes = spec->type == COLUMN_BINARY || column->codec.kind == CODEC_VARIABLE;
    const char *problem = NULL;
    for (unsigned before = 0; before < p; before++)
        if (index->parts[before].column_id == part->column_id)
            problem = "it is there twice";
    if (is_primary && spec->is_nullable)
        problem = "a column of the primary key takes no NULL";
    if (column_is_large(spec) && part->prefix == 0)
        problem = "of a blob or text only a prefix can be indexed; say how long";
    if (part->prefix > 0 && !is_bytes)
        problem = "only texts and bytes have prefixes";
    if (is_bytes && part->prefix > spec->length && (spec->length > 0 || !column_is_large(spec)))
        problem = "the prefix is longer than the column";
    if (problem != NULL)
        return rc_raise(FIRN_E_INVALID, "table %s, index %s, column %s: %s", draft->name,
                        index->name, spec->name, problem);
    uint64_t units = part->prefix > 0 ? part->prefix : spec->length;
    uint64_t unit_bytes = column->collation != NULL ? column->collation->character_bytes_max : 1;
    *bytes = is_bytes ? units * unit_bytes : column->codec.width;
    return FIRN_OK;
}

static firn_rc check_index(const struct draft *draft, unsigned i)
{
    const struct draft_index *index = &draft->indexes[i];
    bool is_primary = i == 0 && draft->row_id_bytes == 0;
    uint64_t most = slotted_key_max(draft->page_size_bytes);
    uint64_t bytes = 0;
    if (!is_primary) {
        FIRN_TRY(check_name(draft, "an index", index->name, COLUMN_NAME_BYTES_MAX));
        if (draft_names_equal(index->name, "PRIMARY"))
            return rc_raise(FIRN_E_INVALID, "table %s: only the primary key can be called PRIMARY",
                            draft->name);
    }
    if (is_primary && !index->is_unique)
        return rc_raise(FIRN_E_INVALID, "table %s: the primary key is unique", draft->name);
    for (unsigned other = 0; other < i; other++)
        if (draft_names_equal(draft->indexes[other].name, index->name))
            return rc_raise(FIRN_E_INVALID, "table %s: there are two indexes %s", draft->name,
                            index->name);
    for (unsigned p = 0; p < index->part_count; p++) {
        uint64_t part_bytes = 0;
        FIRN_TRY(check_part(draft, index, p, is_primary, &part_bytes));
        bytes += part_bytes;
    }
    if (bytes > most)
        return rc_raise(FIRN_E_INVALID,
                        "table %s, index %s: keys of %llu bytes are longer than the %llu that "
                        "pages of %u bytes take; index shorter prefixes",
                        draft->name, index->name, (unsigned long long)bytes,
                        (unsigned long long)most, draft->page_size_bytes);
    return FIRN_OK;
}

static firn_rc check_automatic(const struct draft *draft)
{
    for (unsigned c = 0; c < draft->column_count; c++) {
        const struct column *column = &draft->columns[c];
        bool is_first = false;
        if (!column->spec.is_autoincrement || column->dropped != 0)
            continue;
        for (unsigned i = 0; i < draft->index_count; i++)
            is_first |= draft->indexes[i].parts[0].column_id == column->id;
        if (!is_first)
            return rc_raise(FIRN_E_INVALID,
                            "table %s: the autoincrement column %s is to be the first of an index",
                            draft->name, column->spec.name);
    }
    return FIRN_OK;
}

/* ---- Foreign keys ---- */

uint16_t draft_index_of_foreign(const struct draft *draft, const struct draft_foreign *foreign)
{
    for (unsigned i = 0; i < draft->index_count; i++) {
        const struct draft_index *index = &draft->indexes[i];
        unsigned same = 0;
        while (same < foreign->column_count && same < index->part_count &&
               index->parts[same].column_id == foreign->column_ids[same] &&
               index->parts[same].prefix == 0)
            same++;
        if (same == foreign->column_count)
            return (uint16_t)(i + (draft->row_id_bytes != 0));
    }
    return SCHEMA_NONE;
}

static bool sets_to(const struct draft_foreign *foreign, enum foreign_action action)
{
    return foreign->on_delete == action || foreign->on_update == action;
}

static firn_rc check_foreign_column(const struct draft *draft, const struct draft_foreign *foreign,
                                    unsigned i)
{
    uint16_t c = draft_find_id(draft, foreign->column_ids[i]);
    const char *problem = NULL;
    if (c == SCHEMA_NONE)
        return rc_raise(FIRN_E_INVALID, "table %s, foreign key %s: a column is not there",
                        draft->name, foreign->name);
    const struct column_spec *spec = &draft->columns[c].spec;
    for (unsigned before = 0; before < i; before++)
        if (foreign->column_ids[before] == foreign->column_ids[i])
            problem = "it is there twice";
    if (sets_to(foreign, FOREIGN_SET_NULL) && !spec->is_nullable)
        problem = "it takes no NULL, which the action would set";
    if (sets_to(foreign, FOREIGN_SET_DEFAULT) && spec->default_kind == COLUMN_DEFAULT_NONE &&
        !spec->is_nullable)
        problem = "it has no default value, which the action would set";
    if (problem != NULL)
        return rc_raise(FIRN_E_INVALID, "table %s, foreign key %s, column %s: %s", draft->name,
                        foreign->name, spec->name, problem);
    return check_name(draft, "a foreign key's parent column", foreign->parent_columns[i],
                      COLUMN_NAME_BYTES_MAX);
}

static firn_rc check_foreign(const struct draft *draft, unsigned f)
{
    const struct draft_foreign *foreign = &draft->foreigns[f];
    FIRN_TRY(check_name(draft, "a foreign key", foreign->name, COLUMN_NAME_BYTES_MAX));
    FIRN_TRY(check_name(draft, "a foreign key's parent", foreign->parent, SCHEMA_NAME_BYTES_MAX));
    for (unsigned other = 0; other < f; other++)
        if (draft_names_equal(draft->foreigns[other].name, foreign->name))
            return rc_raise(FIRN_E_INVALID, "table %s: there are two foreign keys %s", draft->name,
                            foreign->name);
    if (foreign->on_delete > FOREIGN_SET_DEFAULT || foreign->on_update > FOREIGN_SET_DEFAULT)
        return rc_raise(FIRN_E_INVALID, "table %s, foreign key %s: there is no such action",
                        draft->name, foreign->name);
    for (unsigned i = 0; i < foreign->column_count; i++)
        FIRN_TRY(check_foreign_column(draft, foreign, i));
    if (draft_index_of_foreign(draft, foreign) == SCHEMA_NONE)
        return rc_raise(FIRN_E_INVALID,
                        "table %s, foreign key %s: it needs an index that begins with its columns "
                        "in their order, without prefixes",
                        draft->name, foreign->name);
    return FIRN_OK;
}

firn_rc draft_check(struct draft *draft)
{
    ENSURE(page_size_is_valid(draft->page_size_bytes));
    if (!column_is_name(draft->name, SCHEMA_NAME_BYTES_MAX))
        return rc_raise(FIRN_E_INVALID,
                        "a table's name has 1 to %d bytes of UTF-8 without control characters",
                        SCHEMA_NAME_BYTES_MAX);
    FIRN_TRY(check_columns(draft));
    FIRN_TRY(check_fixed(draft));
    if (draft->index_count > SCHEMA_INDEXES_MAX)
        return rc_raise(FIRN_E_INVALID, "table %s: more than %d indexes", draft->name,
                        SCHEMA_INDEXES_MAX);
    for (unsigned i = 0; i < draft->index_count; i++)
        FIRN_TRY(check_index(draft, i));
    FIRN_TRY(check_automatic(draft));
    for (unsigned f = 0; f < draft->foreign_count; f++)
        FIRN_TRY(check_foreign(draft, f));
    return FIRN_OK;
}
