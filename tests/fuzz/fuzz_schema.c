/* Whatever bytes are said to describe a table, they are refused, or are a sound description: it can
   be written and read again as it is, altered, and used for rows and keys.
 */
#include "base/check.h"
#include "table/row.h"
#include "table/schema.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { PAGE_BYTES = 16384 };

static void judge_layouts(const struct table_schema *schema)
{
    for (unsigned version = 1; version <= schema->row_version; version++) {
        const struct row_layout *layout = &schema->layouts[version];
        for (unsigned c = 0; c < schema->all_count; c++) {
            const struct column_place *place = &layout->places[c];
            ENSURE(place->kind != PLACE_FIXED ||
                   place->at + place->codec.width <= layout->fixed_bytes);
            ENSURE(place->kind != PLACE_VARIABLE || place->at < layout->variable_count);
            ENSURE(place->kind != PLACE_KEY ||
                   place->at + place->codec.width <= schema->key_fixed_bytes);
            ENSURE(place->null_mask == 0 || place->null_byte < 2 + layout->null_bytes);
        }
    }
}

static void judge_altering(const struct table_schema *schema)
{
    struct column_spec column = {.name = "fuzzed", .type = COLUMN_INT, .is_nullable = true};
    struct table_schema *altered = NULL;
    firn_rc rc = schema_add_column(schema, &column, 0, NULL, &altered);
    ENSURE(rc == FIRN_OK || rc == FIRN_E_INVALID);
    if (rc == FIRN_OK)
        judge_layouts(altered);
    if (rc == FIRN_OK)
        schema_free(altered);
    rc = schema_drop_column(schema, schema->columns[0].spec.name, &altered);
    ENSURE(rc == FIRN_OK || rc == FIRN_E_INVALID);
    if (rc == FIRN_OK)
        judge_layouts(altered);
    if (rc == FIRN_OK)
        schema_free(altered);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct table_schema *schema = NULL;
    struct table_schema *again = NULL;
    firn_rc rc = schema_decode(span_of(data, size_bytes), PAGE_BYTES, &schema);
    if (rc != FIRN_OK) {
        ENSURE(rc == FIRN_E_CORRUPT || rc == FIRN_E_UNSUPPORTED);
        ENSURE(schema == NULL && strlen(firn_error_text()) > 0);
        return 0;
    }
    judge_layouts(schema);
    ENSURE(schema_decode(schema->bytes, PAGE_BYTES, &again) == FIRN_OK);
    ENSURE(span_compare(schema->bytes, again->bytes) == 0);
    judge_altering(again);
    schema_free(again);
    schema_free(schema);
    return 0;
}
