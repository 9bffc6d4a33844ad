/*
 * Drafts as bytes, and back: FORMAT.md, "Table description". Integers are little-endian; what is
 * read is bounded here, and judged by draft_check.
 */
#include "table/codec_internal.h"
#include "table/column_internal.h"
#include "table/draft_internal.h"

enum {
    FORMAT_VERSION = 1,

    HEAD_BYTES = 10,
    COLUMN_BYTES = 16,
    INDEX_BYTES = 2,
    PART_BYTES = 8,
    FOREIGN_BYTES = 4,
    STRING_COST = 3, /* size in front, zero byte behind */
    VALUE_COST = 4,

    COLUMN_NULLABLE = 1,
    COLUMN_UNSIGNED = 2,
    COLUMN_AUTO = 4,
    COLUMN_HAS_ABSENT = 8, /* rows from before have a value that is not NULL */
    COLUMN_FLAGS = 15,
    INDEX_UNIQUE = 1,
    PART_DESCENDING = 1,
};

/* ---- Writing ---- */

static size_t value_bytes_of(const struct column *column, const struct value *value)
{
    return VALUE_COST +
           (column->codec.kind != CODEC_VARIABLE ? column->codec.width : value->bytes.size_bytes);
}

static size_t string_bytes(const char *string)
{
    return strlen(string) + STRING_COST;
}

size_t draft_bytes(const struct draft *draft)
{
    size_t bytes = HEAD_BYTES + string_bytes(draft->name);
    for (unsigned c = 0; c < draft->column_count; c++) {
        const struct column *column = &draft->columns[c];
        bytes += COLUMN_BYTES + string_bytes(column->spec.name);
        if (column->spec.default_kind == COLUMN_DEFAULT_CONSTANT)
            bytes += value_bytes_of(column, &column->spec.default_value);
        if (column->absent.kind != VALUE_NULL)
            bytes += value_bytes_of(column, &column->absent);
    }
    for (unsigned i = 0; i < draft->index_count; i++)
        bytes += INDEX_BYTES + string_bytes(draft->indexes[i].name) +
                 PART_BYTES * draft->indexes[i].part_count;
    for (unsigned f = 0; f < draft->foreign_count; f++) {
        const struct draft_foreign *foreign = &draft->foreigns[f];
        bytes += FOREIGN_BYTES + string_bytes(foreign->name) + string_bytes(foreign->parent);
        for (unsigned i = 0; i < foreign->column_count; i++)
            bytes += 2 + string_bytes(foreign->parent_columns[i]);
    }
    return bytes;
}

static uint8_t *put_string(uint8_t *to, const char *string)
{
    size_t size = strlen(string);
    put_u16(to, (uint16_t)size);
    memcpy(to + 2, string, size + 1);
    return to + size + STRING_COST;
}

static uint8_t *put_column_value(uint8_t *to, const struct column *column,
                                 const struct value *value)
{
    size_t size = value_bytes_of(column, value) - VALUE_COST;
    put_u32(to, (uint32_t)size);
    to += VALUE_COST;
    if (column->codec.kind != CODEC_VARIABLE)
        codec_store(&column->codec, value, to);
    else if (size > 0)
        memcpy(to, value->bytes.bytes, size);
    return to + size;
}

static uint8_t *put_column(uint8_t *to, const struct column *column)
{
    const struct column_spec *spec = &column->spec;
    put_u16(to, column->id);
    to[2] = (uint8_t)spec->type;
    to[3] = (uint8_t)((spec->is_nullable ? COLUMN_NULLABLE : 0) |
                      (spec->is_unsigned ? COLUMN_UNSIGNED : 0) |
                      (spec->is_autoincrement ? COLUMN_AUTO : 0) |
                      (column->absent.kind != VALUE_NULL ? COLUMN_HAS_ABSENT : 0));
    to[4] = (uint8_t)spec->default_kind;
    to[5] = column->added;
    to[6] = column->dropped;
    to[7] = spec->precision;
    to[8] = spec->scale;
    to[9] = spec->second_digits;
    put_u16(to + 10, (uint16_t)spec->collation);
    put_u32(to + 12, spec->length);
    to = put_string(to + COLUMN_BYTES, spec->name);
    if (spec->default_kind == COLUMN_DEFAULT_CONSTANT)
        to = put_column_value(to, column, &spec->default_value);
    if (column->absent.kind != VALUE_NULL)
        to = put_column_value(to, column, &column->absent);
    return to;
}

static uint8_t *put_index(uint8_t *to, const struct draft_index *index)
{
    to[0] = index->is_unique ? INDEX_UNIQUE : 0;
    to[1] = (uint8_t)index->part_count;
    to = put_string(to + INDEX_BYTES, index->name);
    for (unsigned p = 0; p < index->part_count; p++, to += PART_BYTES) {
        put_u16(to, index->parts[p].column_id);
        put_u16(to + 2, index->parts[p].is_descending ? PART_DESCENDING : 0);
        put_u32(to + 4, index->parts[p].prefix);
    }
    return to;
}

static uint8_t *put_foreign(uint8_t *to, const struct draft_foreign *foreign)
{
    to[0] = foreign->on_delete;
    to[1] = foreign->on_update;
    put_u16(to + 2, (uint16_t)foreign->column_count);
    to = put_string(to + FOREIGN_BYTES, foreign->name);
    to = put_string(to, foreign->parent);
    for (unsigned i = 0; i < foreign->column_count; i++) {
        put_u16(to, foreign->column_ids[i]);
        to = put_string(to + 2, foreign->parent_columns[i]);
    }
    return to;
}

void draft_encode(const struct draft *draft, uint8_t *to)
{
    const uint8_t *begin = to;
    put_u16(to, FORMAT_VERSION);
    to[2] = draft->row_version;
    to[3] = draft->row_id_bytes;
    put_u16(to + 4, (uint16_t)draft->column_count);
    put_u16(to + 6, (uint16_t)draft->index_count);
    put_u16(to + 8, (uint16_t)draft->foreign_count);
    to = put_string(to + HEAD_BYTES, draft->name);
    for (unsigned c = 0; c < draft->column_count; c++)
        to = put_column(to, &draft->columns[c]);
    for (unsigned i = 0; i < draft->index_count; i++)
        to = put_index(to, &draft->indexes[i]);
    for (unsigned f = 0; f < draft->foreign_count; f++)
        to = put_foreign(to, &draft->foreigns[f]);
    ENSURE((size_t)(to - begin) == draft_bytes(draft));
}

/* ---- Reading ---- */

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

/* So many bytes, or NULL if there are fewer. */
static const uint8_t *take(struct reader *reader, size_t size_bytes)
{
    const uint8_t *at = reader->at;
    if ((size_t)(reader->end - at) < size_bytes)
        return NULL;
    reader->at += size_bytes;
    return at;
}

static const char *take_string(struct reader *reader)
{
    const uint8_t *size = take(reader, 2);
    if (size == NULL)
        return NULL;
    size_t size_bytes = get_u16(size);
    const uint8_t *string = take(reader, size_bytes + 1);
    if (string == NULL || memchr(string, 0, size_bytes + 1) != string + size_bytes)
        return NULL;
    return (const char *)string;
}

static bool take_value(struct reader *reader, const struct column *column, struct value *value)
{
    const uint8_t *size = take(reader, VALUE_COST);
    if (size == NULL)
        return false;
    size_t size_bytes = get_u32(size);
    const uint8_t *bytes = take(reader, size_bytes);
    if (bytes == NULL ||
        (column->codec.kind != CODEC_VARIABLE && column->codec.width != size_bytes))
        return false;
    if (column->codec.kind == CODEC_VARIABLE)
        codec_set_bytes(bytes, size_bytes, value);
    else
        codec_load(&column->codec, bytes, value);
    return true;
}

/* The column's codec is needed to read its values, so its description is judged here already. */
static bool take_column(struct reader *reader, struct column *column)
{
    const uint8_t *from = take(reader, COLUMN_BYTES);
    if (from == NULL || from[3] > COLUMN_FLAGS)
        return false;
    column->id = get_u16(from);
    column->added = from[5];
    column->dropped = from[6];
    column->spec = (struct column_spec){.name = take_string(reader),
                                        .type = (enum column_type)from[2],
                                        .length = get_u32(from + 12),
                                        .precision = from[7],
                                        .scale = from[8],
                                        .second_digits = from[9],
                                        .is_nullable = from[3] & COLUMN_NULLABLE,
                                        .is_unsigned = from[3] & COLUMN_UNSIGNED,
                                        .is_autoincrement = from[3] & COLUMN_AUTO,
                                        .collation = get_u16(from + 10),
                                        .default_kind = (enum column_default)from[4]};
    if (column->spec.name == NULL || column_check(column) != FIRN_OK)
        return false;
    if (column->spec.default_kind == COLUMN_DEFAULT_CONSTANT &&
        !take_value(reader, column, &column->spec.default_value))
        return false;
    return !(from[3] & COLUMN_HAS_ABSENT) || take_value(reader, column, &column->absent);
}

static bool take_index(struct reader *reader, struct draft_index *index)
{
    const uint8_t *from = take(reader, INDEX_BYTES);
    if (from == NULL || from[0] > INDEX_UNIQUE || from[1] == 0 || from[1] > SCHEMA_PARTS_MAX)
        return false;
    index->is_unique = from[0] == INDEX_UNIQUE;
    index->part_count = from[1];
    index->name = take_string(reader);
    for (unsigned p = 0; p < index->part_count; p++) {
        const uint8_t *part = take(reader, PART_BYTES);
        if (part == NULL || get_u16(part + 2) > PART_DESCENDING)
            return false;
        index->parts[p] = (struct draft_part){get_u16(part), get_u16(part + 2) == PART_DESCENDING,
                                              get_u32(part + 4)};
    }
    return index->name != NULL;
}

static bool take_foreign(struct reader *reader, struct draft_foreign *foreign)
{
    const uint8_t *from = take(reader, FOREIGN_BYTES);
    if (from == NULL || get_u16(from + 2) == 0 || get_u16(from + 2) > SCHEMA_PARTS_MAX)
        return false;
    foreign->on_delete = from[0];
    foreign->on_update = from[1];
    foreign->column_count = get_u16(from + 2);
    foreign->name = take_string(reader);
    foreign->parent = take_string(reader);
    for (unsigned i = 0; i < foreign->column_count; i++) {
        const uint8_t *id = take(reader, 2);
        if (id == NULL)
            return false;
        foreign->column_ids[i] = get_u16(id);
        foreign->parent_columns[i] = take_string(reader);
        if (foreign->parent_columns[i] == NULL)
            return false;
    }
    return foreign->name != NULL && foreign->parent != NULL;
}

static bool take_all(struct reader *reader, struct draft *draft)
{
    for (unsigned c = 0; c < draft->column_count; c++)
        if (!take_column(reader, &draft->columns[c]))
            return false;
    for (unsigned i = 0; i < draft->index_count; i++)
        if (!take_index(reader, &draft->indexes[i]))
            return false;
    for (unsigned f = 0; f < draft->foreign_count; f++)
        if (!take_foreign(reader, &draft->foreigns[f]))
            return false;
    return reader->at == reader->end;
}

static firn_rc refuse(const char *name)
{
    return rc_raise(FIRN_E_CORRUPT, "the description of table %s is damaged", name);
}

firn_rc draft_decode(struct span bytes, uint32_t page_size_bytes, struct draft *draft)
{
    struct reader reader = {bytes.bytes, bytes.bytes + bytes.size_bytes};
    const uint8_t *head = take(&reader, HEAD_BYTES);
    *draft = (struct draft){.page_size_bytes = page_size_bytes};
    if (head == NULL)
        return refuse("without a name");
    if (get_u16(head) > FORMAT_VERSION)
        return rc_raise(FIRN_E_UNSUPPORTED,
                        "the description of a table has version %u, this program knows %d; use a "
                        "newer one",
                        get_u16(head), FORMAT_VERSION);
    draft->name = take_string(&reader);
    draft->row_version = head[2];
    draft->row_id_bytes = head[3];
    draft->column_count = get_u16(head + 4);
    draft->index_count = get_u16(head + 6);
    draft->foreign_count = get_u16(head + 8);
    bool has_primary = draft->row_id_bytes == 0;
    if (get_u16(head) != FORMAT_VERSION || draft->name == NULL || draft->row_version == 0 ||
        (!has_primary && draft->row_id_bytes != 6 && draft->row_id_bytes != 8) ||
        draft->column_count > SCHEMA_COLUMNS_MAX || draft->index_count > SCHEMA_INDEXES_MAX ||
        draft->foreign_count > SCHEMA_FOREIGN_MAX || (has_primary && draft->index_count == 0))
        return refuse(draft->name != NULL ? draft->name : "without a name");
    FIRN_TRY(draft_allocate(draft));
    return take_all(&reader, draft) ? FIRN_OK : refuse(draft->name);
}
