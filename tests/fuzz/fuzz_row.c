/* Whatever bytes are given as a row and its keys: they are refused or read, column by column,
   without a step beyond them; what is accepted as sound can be written again, and its keys are
   sound.

   The input: which table (1), size of the key (1), the key, the row.
 */
#include "base/check.h"
#include "table/key.h"
#include "table/row.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { PAGE_BYTES = 16384, COLUMNS_MAX = 16, TABLES = 2 };

/* A column of nearly every type. */
static const struct column_spec many[] = {
    {.name = "id", .type = COLUMN_MEDIUMINT},
    {.name = "d", .type = COLUMN_DECIMAL, .precision = 20, .scale = 7},
    {.name = "t", .type = COLUMN_TIME, .second_digits = 3, .is_nullable = true},
    {.name = "dt", .type = COLUMN_DATETIME, .second_digits = 6, .is_nullable = true},
    {.name = "ts", .type = COLUMN_TIMESTAMP},
    {.name = "f", .type = COLUMN_FLOAT, .is_nullable = true},
    {.name = "g", .type = COLUMN_DOUBLE},
    {.name = "b", .type = COLUMN_BINARY, .length = 5},
    {.name = "v", .type = COLUMN_VARBINARY, .length = 300, .is_nullable = true},
    {.name = "c", .type = COLUMN_CHAR, .length = 9, .collation = COLLATION_UTF8MB4_BIN},
    {.name = "x", .type = COLUMN_TEXT, .collation = COLLATION_ASCII_GENERAL_CI},
    {.name = "bit", .type = COLUMN_BIT, .length = 33},
    {.name = "y", .type = COLUMN_YEAR},
    {.name = "day", .type = COLUMN_DATE}};
static const struct part_spec primary_parts[] = {
    {.column = "id", .is_descending = true}, {.column = "d"}, {.column = "c"}};
static const struct part_spec first_parts[] = {
    {.column = "v", .prefix = 7}, {.column = "dt", .is_descending = true}, {.column = "b"}};
static const struct part_spec second_parts[] = {
    {.column = "x", .prefix = 20}, {.column = "f"}, {.column = "d", .is_descending = true}};
static const struct part_spec third_parts[] = {{.column = "v", .is_descending = true},
                                               {.column = "bit"}};
static const struct index_spec primary = {.parts = primary_parts, .part_count = 3};
static const struct index_spec indexes[] = {{.name = "i1", .parts = first_parts, .part_count = 3},
                                            {.name = "i2", .parts = second_parts, .part_count = 3},
                                            {.name = "i3", .parts = third_parts, .part_count = 2}};
static const struct column_spec later = {
    .name = "later",
    .type = COLUMN_VARCHAR,
    .length = 20,
    .collation = COLLATION_LATIN1_BIN,
    .default_kind = COLUMN_DEFAULT_CONSTANT,
    .default_value = {.kind = VALUE_BYTES, .bytes = {(const uint8_t *)"new", 3}}};

/* With a primary key and without one; the first has had columns added and dropped. */
static struct table_schema *make_table(unsigned number)
{
    struct table_spec spec = {.name = "t",
                              .columns = many,
                              .column_count = ARRAY_COUNT(many),
                              .primary = number == 0 ? &primary : NULL,
                              .indexes = indexes,
                              .index_count = ARRAY_COUNT(indexes)};
    struct table_schema *schema = NULL;
    struct table_schema *altered = NULL;
    ENSURE(schema_create(&spec, PAGE_BYTES, &schema) == FIRN_OK);
    if (number == 1)
        return schema;
    ENSURE(schema_add_column(schema, &later, 0, NULL, &altered) == FIRN_OK);
    schema_free(schema);
    ENSURE(schema_drop_column(altered, "g", &schema) == FIRN_OK);
    schema_free(altered);
    return schema;
}

static void judge_keys(const struct table_schema *schema, const struct value *values)
{
    static uint8_t key[PAGE_BYTES];
    static uint8_t own[PAGE_BYTES];
    static uint8_t found[PAGE_BYTES];
    struct key_result result;
    struct key_result primary_result;
    size_t found_bytes;
    const struct table_index *first = &schema->indexes[0];
    if (key_encode(schema, first, values, first->part_count, own, &primary_result) != FIRN_OK)
        return;
    for (unsigned i = 0; i < schema->index_count; i++) {
        const struct table_index *index = &schema->indexes[i];
        if (key_encode(schema, index, values, index->part_count, key, &result) != FIRN_OK)
            continue;
        struct span span = span_of(key, result.size_bytes);
        ENSURE(key_check(schema, index, span) == FIRN_OK);
        ENSURE(key_primary_of(schema, index, span, found, &found_bytes) == FIRN_OK);
        ENSURE(found_bytes == primary_result.size_bytes && memcmp(found, own, found_bytes) == 0);
    }
}

/* A row that row_check accepts is written anew, and read as the same. */
static void judge_sound(const struct table_schema *schema, const struct row_view *view,
                        struct value *values)
{
    size_t size = 0;
    struct value again[COLUMNS_MAX + 1];
    struct row_view written;
    for (unsigned c = 0; c < schema->live_count; c++)
        ENSURE(value_check(&schema->columns[c], &values[c]) == FIRN_OK);
    ENSURE(row_size(schema, values, &size) == FIRN_OK);
    uint8_t *bytes = malloc(size + ROW_SLACK_BYTES);
    ENSURE(bytes != NULL);
    ENSURE(row_encode(schema, values, bytes) == size);
    ENSURE(row_open(schema, view->key, span_of(bytes, size), &written) == FIRN_OK);
    ENSURE(row_check(&written) == FIRN_OK);
    ENSURE(row_read_set(&written, NULL, again) == FIRN_OK);
    for (unsigned c = 0; c < schema->live_count; c++) {
        ENSURE(again[c].kind == values[c].kind);
        if (again[c].kind == VALUE_BYTES)
            ENSURE(span_compare(again[c].bytes, values[c].bytes) == 0);
        else if (again[c].kind != VALUE_NULL)
            ENSURE(again[c].u == values[c].u);
    }
    judge_keys(schema, values);
    free(bytes);
}

/* The key as one of each index, whatever it is. */
static void judge_key_bytes(const struct table_schema *schema, struct span key)
{
    static uint8_t room[PAGE_BYTES];
    struct value values[COLUMNS_MAX + 1];
    size_t size = 0;
    for (unsigned i = 0; i < schema->index_count; i++) {
        const struct table_index *index = &schema->indexes[i];
        uint64_t wanted = 0;
        for (unsigned p = 0; p < index->part_count; p++)
            wanted |= index->parts[p].is_reversible ? UINT64_C(1) << p : 0;
        firn_rc checked = key_check(schema, index, key);
        firn_rc read = key_read(schema, index, key, wanted, room, values);
        firn_rc primary_of = key_primary_of(schema, index, key, room, &size);
        ENSURE(checked == FIRN_OK || checked == FIRN_E_CORRUPT);
        ENSURE(checked != FIRN_OK || read == FIRN_OK);
        ENSURE(primary_of == checked || (checked == FIRN_OK && primary_of == FIRN_E_CORRUPT));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static struct table_schema *tables[TABLES];
    struct row_view view;
    struct value values[COLUMNS_MAX + 1];
    if (size_bytes < 2)
        return 0;
    unsigned number = data[0] % TABLES;
    size_t key_bytes = data[1] < size_bytes - 2 ? data[1] : size_bytes - 2;
    if (tables[number] == NULL)
        tables[number] = make_table(number);
    const struct table_schema *schema = tables[number];
    struct span key = span_of(data + 2, key_bytes);
    struct span row = span_of(data + 2 + key_bytes, size_bytes - 2 - key_bytes);
    judge_key_bytes(schema, key);
    firn_rc rc = row_open(schema, key, row, &view);
    ENSURE(rc == FIRN_OK || rc == FIRN_E_CORRUPT);
    if (rc != FIRN_OK)
        return 0;
    rc = row_read_set(&view, NULL, values);
    ENSURE(rc == FIRN_OK || rc == FIRN_E_CORRUPT);
    if (rc == FIRN_OK && row_check(&view) == FIRN_OK)
        judge_sound(schema, &view, values);
    return 0;
}
