/*
 * Reading and writing rows.
 *
 *   flags (1)  row version (1)  NULL bits  fixed columns  ends of variable columns  their bytes
 *
 * The layouts are the schema's. A store of 8 bytes is cheaper than one of a width that is only
 * known at run time, so columns are written in ascending order, each over the excess of the one
 * before.
 */
#include "table/row.h"
#include "table/codec_internal.h"

enum {
    ROW_FLAGS_AT = 0,
    ROW_VERSION_AT = 1,
    ROW_WIDE = 1, /* flag: ends have 4 bytes */
};

static const struct row_layout *current_layout(const struct table_schema *schema)
{
    return &schema->layouts[schema->row_version];
}

/* The bytes of all variable columns together. */
static uint64_t variable_bytes(const struct table_schema *schema, const struct value *values)
{
    uint64_t bytes = 0;
    unsigned end = schema->fixed_count + current_layout(schema)->variable_count;
    for (unsigned i = schema->fixed_count; i < end; i++) {
        const struct value *value = &values[schema->storage_order[i]];
        bytes += value->kind == VALUE_NULL ? 0 : value->bytes.size_bytes;
    }
    return bytes;
}

static inline unsigned end_bytes(uint64_t variable)
{
    return variable > UINT16_MAX ? 4 : 2;
}

firn_rc row_size(const struct table_schema *schema, const struct value *values, size_t *size_bytes)
{
    const struct row_layout *layout = current_layout(schema);
    uint64_t variable = variable_bytes(schema, values);
    uint64_t size = layout->fixed_bytes + layout->variable_count * end_bytes(variable) + variable;
    if (size > ROW_BYTES_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "table %s: the row would have %llu bytes, a row has at most %d",
                        schema->name, (unsigned long long)size, ROW_BYTES_MAX);
    *size_bytes = size;
    return FIRN_OK;
}

/* Whether a value is one that value_check lets through, as far as its kind goes: for ASSERTs. */
static bool is_fit(const struct column *column, const struct value *value)
{
    static const enum value_kind kinds[] = {
        [CODEC_UINT] = VALUE_UINT,     [CODEC_INT] = VALUE_INT,     [CODEC_FLOAT] = VALUE_DOUBLE,
        [CODEC_DOUBLE] = VALUE_DOUBLE, [CODEC_FIXED] = VALUE_BYTES, [CODEC_VARIABLE] = VALUE_BYTES};
    if (value->kind == VALUE_NULL)
        return column->spec.is_nullable;
    return value->kind == kinds[column->codec.kind];
}

static void encode_fixed(const struct table_schema *schema, const struct value *values, uint8_t *to)
{
    const struct row_layout *layout = current_layout(schema);
    for (unsigned i = 0; i < schema->fixed_count; i++) {
        unsigned c = schema->storage_order[i];
        const struct column_place *place = &layout->places[c];
        const struct column *column = &schema->columns[c];
        ASSERT(is_fit(column, &values[c]));
        if (values[c].kind == VALUE_NULL) {
            to[place->null_byte] |= place->null_mask;
            memset(to + place->at, 0, column->codec.width);
        } else {
            codec_store(&column->codec, &values[c], to + place->at);
        }
    }
}

size_t row_encode(const struct table_schema *schema, const struct value *values, uint8_t *to)
{
    const struct row_layout *layout = current_layout(schema);
    uint64_t variable = variable_bytes(schema, values);
    unsigned width = end_bytes(variable);
    uint8_t *ends = to + layout->fixed_bytes;
    uint8_t *begin = ends + layout->variable_count * width;
    uint32_t end = 0;
    ENSURE(variable <= ROW_BYTES_MAX);
    to[ROW_FLAGS_AT] = width == 4 ? ROW_WIDE : 0;
    to[ROW_VERSION_AT] = schema->row_version;
    memset(to + ROW_HEADER_BYTES, 0, layout->null_bytes);
    encode_fixed(schema, values, to);
    for (unsigned i = 0; i < layout->variable_count; i++) {
        unsigned c = schema->storage_order[schema->fixed_count + i];
        const struct column_place *place = &layout->places[c];
        ASSERT(is_fit(&schema->columns[c], &values[c]));
        if (values[c].kind == VALUE_NULL) {
            to[place->null_byte] |= place->null_mask;
        } else if (values[c].bytes.size_bytes > 0) {
            memcpy(begin + end, values[c].bytes.bytes, values[c].bytes.size_bytes);
            end += (uint32_t)values[c].bytes.size_bytes;
        }
        if (width == 2)
            put_u16(ends + 2 * i, (uint16_t)end);
        else
            put_u32(ends + 4 * i, end);
    }
    return (size_t)(begin - to) + end;
}

firn_rc row_open(const struct table_schema *schema, struct span key, struct span row,
                 struct row_view *view)
{
    if (row.size_bytes < ROW_HEADER_BYTES)
        return rc_raise(FIRN_E_CORRUPT, "table %s: a row has only %zu bytes; run firn check",
                        schema->name, row.size_bytes);
    uint8_t flags = row.bytes[ROW_FLAGS_AT];
    uint8_t version = row.bytes[ROW_VERSION_AT];
    if (flags > ROW_WIDE || version == 0 || version > schema->row_version)
        return rc_raise(FIRN_E_CORRUPT,
                        "table %s: a row has flags %u and version %u, the table is at version %u; "
                        "run firn check",
                        schema->name, flags, version, schema->row_version);
    const struct row_layout *layout = &schema->layouts[version];
    size_t least = layout->fixed_bytes + (flags == ROW_WIDE ? 4U : 2U) * layout->variable_count;
    if (row.size_bytes < least || key.size_bytes < schema->key_fixed_bytes)
        return rc_raise(FIRN_E_CORRUPT,
                        "table %s: a row of version %u has %zu bytes and a key of %zu, fewer than "
                        "%zu and %u; run firn check",
                        schema->name, version, row.size_bytes, key.size_bytes, least,
                        schema->key_fixed_bytes);
    *view = (struct row_view){schema, layout, key, row, flags == ROW_WIDE};
    return FIRN_OK;
}

static inline size_t end_at(const struct row_view *view, unsigned variable)
{
    const uint8_t *ends = view->row.bytes + view->layout->fixed_bytes;
    return view->is_wide ? get_u32(ends + 4 * variable) : get_u16(ends + 2 * variable);
}

static firn_rc refuse_ends(const struct row_view *view, unsigned column)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "table %s: column %s of a row does not lie in the row's %zu bytes; run firn "
                    "check",
                    view->schema->name, view->schema->columns[column].spec.name,
                    view->row.size_bytes);
}

static firn_rc read_variable(const struct row_view *view, unsigned column, unsigned variable,
                             struct value *value)
{
    const struct row_layout *layout = view->layout;
    size_t bytes_at = layout->fixed_bytes + (view->is_wide ? 4U : 2U) * layout->variable_count;
    size_t begin = variable > 0 ? end_at(view, variable - 1) : 0;
    size_t end = end_at(view, variable);
    if (begin > end || end > view->row.size_bytes - bytes_at)
        return refuse_ends(view, column);
    codec_set_bytes(view->row.bytes + bytes_at + begin, end - begin, value);
    return FIRN_OK;
}

/* A part of the primary key that lies at a fixed offset; row_open has seen that it is there. */
static void read_key(const struct row_view *view, const struct column_place *place,
                     struct value *value)
{
    const uint8_t *from = view->key.bytes + place->at;
    if (place->codec.kind == CODEC_FIXED)
        codec_set_bytes(from, place->codec.width, value);
    else
        codec_load_key(&place->codec, from, place->is_descending, value);
}

/* Mostly what follows a number is in the row, too: then it is loaded with it and shifted out. */
static void read_fixed(const struct row_view *view, const struct column_place *place,
                       struct value *value)
{
    const uint8_t *from = view->row.bytes + place->at;
    if (place->codec.kind != CODEC_FIXED && view->row.size_bytes >= place->at + 8U) {
        unsigned shift = 64U - 8U * place->codec.width;
        codec_set_value(&place->codec, get_u64(from) << shift >> shift, value);
    } else {
        codec_load(&place->codec, from, value);
    }
}

firn_rc row_read(const struct row_view *view, unsigned column, struct value *value)
{
    const struct column_place *place = &view->layout->places[column];
    ASSERT(column < view->schema->all_count);
    if (view->row.bytes[place->null_byte] & place->null_mask) {
        value->kind = VALUE_NULL;
        return FIRN_OK;
    }
    switch (place->kind) {
    case PLACE_FIXED:
        read_fixed(view, place, value);
        return FIRN_OK;
    case PLACE_VARIABLE:
        return read_variable(view, column, place->at, value);
    case PLACE_KEY:
        read_key(view, place, value);
        return FIRN_OK;
    default:
        *value = view->schema->columns[column].absent;
        return FIRN_OK;
    }
}

firn_rc row_read_set(const struct row_view *view, const uint64_t *wanted, struct value *values)
{
    unsigned count = view->schema->live_count;
    if (wanted == NULL) {
        for (unsigned c = 0; c < count; c++)
            FIRN_TRY(row_read(view, c, &values[c]));
        return FIRN_OK;
    }
    for (unsigned word = 0; 64 * word < count; word++)
        for (uint64_t bits = wanted[word]; bits != 0; bits &= bits - 1) {
            unsigned c = 64 * word + (unsigned)__builtin_ctzll(bits);
            if (c >= count)
                return FIRN_OK;
            FIRN_TRY(row_read(view, c, &values[c]));
        }
    return FIRN_OK;
}

/* What the bits behind the last column's, and bytes of NULLs, must be. */
static firn_rc check_nulls(const struct row_view *view)
{
    uint8_t used[(SCHEMA_COLUMNS_MAX + 7) / 8] = {0};
    const uint8_t *bits = view->row.bytes + ROW_HEADER_BYTES;
    for (unsigned c = 0; c < view->schema->all_count; c++) {
        const struct column_place *place = &view->layout->places[c];
        if (place->null_mask != 0)
            used[place->null_byte - ROW_HEADER_BYTES] |= place->null_mask;
    }
    for (unsigned i = 0; i < view->layout->null_bytes; i++)
        if (bits[i] & ~used[i])
            return rc_raise(FIRN_E_CORRUPT,
                            "table %s: a row has a NULL in a column that is not there; run firn "
                            "check",
                            view->schema->name);
    return FIRN_OK;
}

firn_rc row_check(const struct row_view *view)
{
    const struct table_schema *schema = view->schema;
    const struct row_layout *layout = view->layout;
    size_t size = layout->fixed_bytes + (view->is_wide ? 4U : 2U) * layout->variable_count;
    FIRN_TRY(check_nulls(view));
    if (layout->variable_count > 0)
        size += end_at(view, layout->variable_count - 1U);
    if (size != view->row.size_bytes)
        return rc_raise(FIRN_E_CORRUPT,
                        "table %s: a row has %zu bytes where its columns take %zu; run firn check",
                        schema->name, view->row.size_bytes, size);
    for (unsigned c = 0; c < schema->all_count; c++) {
        struct value value;
        FIRN_TRY(row_read(view, c, &value));
        if (layout->places[c].kind == PLACE_ABSENT)
            continue;
        if (value_check(&schema->columns[c], &value) != FIRN_OK)
            return rc_raise(FIRN_E_CORRUPT, "table %s: a row is damaged: %s; run firn check",
                            schema->name, firn_error_text());
    }
    return FIRN_OK;
}
