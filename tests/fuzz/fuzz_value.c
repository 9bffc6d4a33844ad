/* Whatever text is given for a column of any type: it is refused with one line and changes nothing,
   or it is a value, and what that is written as is read as the same value and written the same.

   The input: which column (1), the text.
 */
#include "base/check.h"
#include "table/schema.h"
#include "table/value.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static const struct column_spec specs[] = {
    {.name = "c0", .type = COLUMN_TINYINT},
    {.name = "c1", .type = COLUMN_BIGINT},
    {.name = "c2", .type = COLUMN_BIGINT, .is_unsigned = true},
    {.name = "c3", .type = COLUMN_FLOAT},
    {.name = "c4", .type = COLUMN_DOUBLE},
    {.name = "c5", .type = COLUMN_DECIMAL, .precision = 65, .scale = 30},
    {.name = "c6", .type = COLUMN_DECIMAL, .precision = 5, .scale = 5},
    {.name = "c7", .type = COLUMN_BINARY, .length = 8},
    {.name = "c8", .type = COLUMN_BLOB},
    {.name = "c9", .type = COLUMN_CHAR, .length = 8, .collation = COLLATION_UTF8MB4_BIN},
    {.name = "c10", .type = COLUMN_TEXT, .collation = COLLATION_ASCII_BIN},
    {.name = "c11", .type = COLUMN_BIT, .length = 12},
    {.name = "c12", .type = COLUMN_DATE},
    {.name = "c13", .type = COLUMN_TIME, .second_digits = 2},
    {.name = "c14", .type = COLUMN_DATETIME, .second_digits = 6},
    {.name = "c15", .type = COLUMN_TIMESTAMP, .second_digits = 1},
    {.name = "c16", .type = COLUMN_YEAR}};

static const struct table_schema *make_table(void)
{
    static struct table_schema *schema;
    struct table_spec spec = {.name = "t", .columns = specs, .column_count = ARRAY_COUNT(specs)};
    if (schema == NULL)
        ENSURE(schema_create(&spec, 16384, &schema) == FIRN_OK);
    return schema;
}

/* Write a value into a block of its own. */
static struct span print(const struct column *column, const struct value *value)
{
    size_t bound = value_print_bound(column, value);
    char *text = malloc(bound > 0 ? bound : 1);
    ENSURE(text != NULL);
    size_t size = value_print(column, value, text);
    ENSURE(size <= bound);
    return span_of(text, size);
}

static uint8_t *make_room(const struct column *column, struct span text)
{
    size_t bound = value_parse_bound(column, text.size_bytes);
    uint8_t *room = malloc(bound > 0 ? bound : 1);
    ENSURE(room != NULL);
    return room;
}

static void judge_value(const struct column *column, const struct value *value)
{
    struct span text = print(column, value);
    uint8_t *room = make_room(column, text);
    struct value again;
    ENSURE(value_parse(column, text, room, &again) == FIRN_OK);
    ENSURE(again.kind == value->kind);
    if (again.kind == VALUE_BYTES)
        ENSURE(span_compare(again.bytes, value->bytes) == 0);
    else
        ENSURE(again.u == value->u);
    struct span printed = print(column, &again);
    ENSURE(span_compare(printed, text) == 0);
    free((void *)printed.bytes);
    free((void *)text.bytes);
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    const struct table_schema *schema = make_table();
    struct value value = value_uint(77);
    if (size_bytes < 1)
        return 0;
    const struct column *column = &schema->columns[data[0] % ARRAY_COUNT(specs)];
    struct span text = span_of(data + 1, size_bytes - 1);
    uint8_t *room = make_room(column, text);
    firn_rc rc = value_parse(column, text, room, &value);
    if (rc == FIRN_OK) {
        judge_value(column, &value);
    } else {
        ENSURE(rc == FIRN_E_INVALID);
        ENSURE(value.kind == VALUE_UINT && value.u == 77);
        ENSURE(strlen(firn_error_text()) > 0 && strchr(firn_error_text(), '\n') == NULL);
    }
    free(room);
    return 0;
}
