/*
 * Rows give back what was put into them, column by column, also after columns were added and
 * dropped.
 */
#include "table/row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "repeat.h"
#include "table/table_fixture.h"

enum {
    TABLES = 400,
    ROWS = 8,
    ROOM = 16384,
    KEY_ROOM = FIXTURE_PAGE_BYTES / 16 * 3 + KEY_SLACK_BYTES,
};

/* A row and its key in blocks of just their sizes, so that the sanitizer sees reads beyond. */
struct stored {
    struct span key;
    struct span row;
};

static void *copy_exactly(const uint8_t *bytes, size_t size_bytes)
{
    void *copy = malloc(size_bytes > 0 ? size_bytes : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size_bytes);
    return copy;
}

static struct stored store(const struct table_schema *schema, const struct value *values)
{
    static uint8_t room[ROOM];
    struct key_result key;
    struct stored stored;
    size_t size = 0;
    assert_int_equal(row_size(schema, values, &size), FIRN_OK);
    assert_true(size + ROW_SLACK_BYTES <= sizeof room);
    memset(room, 0xa5, sizeof room);
    assert_int_equal(row_encode(schema, values, room), size);
    for (size_t i = size + ROW_SLACK_BYTES; i < sizeof room; i++)
        assert_int_equal(room[i], 0xa5);
    stored.row = span_of(copy_exactly(room, size), size);
    assert_int_equal(
        key_encode(schema, &schema->indexes[0], values, schema->indexes[0].part_count, room, &key),
        FIRN_OK);
    stored.key = span_of(copy_exactly(room, key.size_bytes), key.size_bytes);
    return stored;
}

static void stored_free(struct stored *stored)
{
    free((void *)stored->key.bytes);
    free((void *)stored->row.bytes);
}

/* Bit by bit, but for binaries, which come back filled up. */
static void assert_same(const struct column *column, const struct value *is,
                        const struct value *was)
{
    uint8_t filled[COLUMN_CHAR_MAX];
    struct span wanted = was->bytes;
    assert_int_equal(is->kind, was->kind);
    if (was->kind == VALUE_NULL)
        return;
    if (was->kind != VALUE_BYTES) {
        if (column->spec.type == COLUMN_FLOAT)
            assert_true((float)is->d == (float)was->d);
        else
            assert_int_equal(is->u, was->u); /* the bits of whatever it is */
        return;
    }
    if (column->spec.type == COLUMN_BINARY)
        wanted = fixture_fill_up(wanted, column->spec.length, filled);
    assert_int_equal(is->bytes.size_bytes, wanted.size_bytes);
    if (wanted.size_bytes > 0)
        assert_memory_equal(is->bytes.bytes, wanted.bytes, wanted.size_bytes);
}

static void judge_row(const struct table_schema *schema, const struct stored *stored,
                      const struct value *values, struct rng *rng)
{
    struct row_view view;
    struct value read[FIXTURE_COLUMNS_MAX + 1];
    uint64_t wanted[ROW_SET_WORDS] = {rng_next(rng)};
    assert_int_equal(row_open(schema, stored->key, stored->row, &view), FIRN_OK);
    assert_int_equal(row_check(&view), FIRN_OK);
    for (unsigned c = 0; c < schema->live_count; c++) {
        struct value value;
        assert_int_equal(row_read(&view, c, &value), FIRN_OK);
        assert_same(&schema->columns[c], &value, &values[c]);
    }
    for (unsigned c = 0; c < schema->live_count; c++)
        read[c] = value_uint(77);
    assert_int_equal(row_read_set(&view, wanted, read), FIRN_OK);
    for (unsigned c = 0; c < schema->live_count; c++) {
        if (wanted[0] >> c & 1)
            assert_same(&schema->columns[c], &read[c], &values[c]);
        else
            assert_true(read[c].kind == VALUE_UINT && read[c].u == 77);
    }
    assert_int_equal(row_read_set(&view, NULL, read), FIRN_OK);
    for (unsigned c = 0; c < schema->live_count; c++)
        assert_same(&schema->columns[c], &read[c], &values[c]);
}

static void rows_give_back_what_was_put_into_them(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_row row;
    rng_init(&fixture.rng, test_seed(1));
    for (unsigned t = 0; t < test_runs(TABLES); t++) {
        fixture_make(&fixture, fixture_pick(&fixture, 1, FIXTURE_COLUMNS_MAX));
        for (unsigned r = 0; r < ROWS; r++) {
            fixture_fill(&fixture, &row);
            struct stored stored = store(fixture.schema, row.values);
            judge_row(fixture.schema, &stored, row.values, &fixture.rng);
            stored_free(&stored);
        }
        schema_free(fixture.schema);
    }
}

/* ---- Altering ---- */

/* What a model of the table says about a row: values by column name. */
struct model_row {
    struct stored stored;
    char names[64][16];
    struct value values[64];
    uint8_t memory[64][FIXTURE_VALUE_BYTES];
    unsigned count;
};

static struct value *model_find(struct model_row *row, const char *name)
{
    for (unsigned i = 0; i < row->count; i++)
        if (strcmp(row->names[i], name) == 0)
            return &row->values[i];
    return NULL;
}

static void model_add(struct model_row *row, const char *name, const struct column *column,
                      const struct value *value)
{
    assert_true(row->count < 64);
    struct value *kept = &row->values[row->count];
    *kept = *value;
    if (kept->kind == VALUE_BYTES) {
        /* Also rows from before have binaries of full length. */
        size_t size =
            column->spec.type == COLUMN_BINARY ? column->spec.length : kept->bytes.size_bytes;
        memset(row->memory[row->count], 0, FIXTURE_VALUE_BYTES);
        if (kept->bytes.size_bytes > 0)
            memcpy(row->memory[row->count], kept->bytes.bytes, kept->bytes.size_bytes);
        kept->bytes = span_of(row->memory[row->count], size);
    }
    snprintf(row->names[row->count++], sizeof row->names[0], "%s", name);
}

static void model_judge(const struct table_schema *schema, struct model_row *row)
{
    struct row_view view;
    assert_int_equal(row_open(schema, row->stored.key, row->stored.row, &view), FIRN_OK);
    assert_int_equal(row_check(&view), FIRN_OK);
    for (unsigned c = 0; c < schema->column_count; c++) {
        struct value value;
        const struct value *was = model_find(row, schema->columns[c].spec.name);
        assert_non_null(was);
        assert_int_equal(row_read(&view, c, &value), FIRN_OK);
        assert_same(&schema->columns[c], &value, was);
    }
}

/* Store a row with the schema as it is now. */
static void model_insert(struct fixture *fixture, struct model_row *row)
{
    struct fixture_row *made = malloc(sizeof *made);
    const struct table_schema *schema = fixture->schema;
    assert_non_null(made);
    fixture_fill(fixture, made);
    row->stored = store(schema, made->values);
    row->count = 0;
    for (unsigned c = 0; c < schema->column_count; c++)
        model_add(row, schema->columns[c].spec.name, &schema->columns[c], &made->values[c]);
    free(made);
}

static void add_column(struct fixture *fixture, unsigned number, struct model_row *rows,
                       unsigned count)
{
    struct table_schema *altered = NULL;
    struct column column = {0};
    uint8_t memory[FIXTURE_VALUE_BYTES];
    struct value_now now = {.timestamp = UINT64_C(1700000000123456), .datetime = 0};
    char name[16];
    fixture_column(fixture, 0);
    struct column_spec spec = fixture->columns[0];
    snprintf(name, sizeof name, "n%u", number);
    spec.name = name;
    now.datetime = value_datetime(value_date(2024, 2, 29), 23, 59, 58, 987654);
    /* A default needs a value of the type: made through a table of that column alone. */
    struct table_spec alone = {.name = "alone", .columns = &spec, .column_count = 1};
    assert_int_equal(schema_create(&alone, FIXTURE_PAGE_BYTES, &altered), FIRN_OK);
    column = altered->columns[0];
    spec.is_nullable = false;
    column.spec.is_nullable = false;
    fixture_value(fixture, &column, memory, &spec.default_value);
    spec.default_kind = COLUMN_DEFAULT_CONSTANT;
    schema_free(altered);
    if ((spec.type == COLUMN_DATETIME || spec.type == COLUMN_TIMESTAMP) &&
        fixture_one_in(fixture, 2))
        spec.default_kind = COLUMN_DEFAULT_NOW;
    if (fixture_one_in(fixture, 3)) {
        spec.is_nullable = true;
        spec.default_kind = COLUMN_DEFAULT_NONE;
    }
    unsigned position = fixture_pick(fixture, 0, fixture->schema->column_count);
    assert_int_equal(schema_add_column(fixture->schema, &spec, position, &now, &altered), FIRN_OK);
    schema_free(fixture->schema);
    fixture->schema = altered;
    const struct column *added = &altered->columns[position];
    assert_string_equal(added->spec.name, name);
    for (unsigned r = 0; r < count; r++) {
        struct value value;
        assert_int_equal(value_default(added, &now, &value), FIRN_OK);
        model_add(&rows[r], name, added, &value);
    }
}

static void drop_column(struct fixture *fixture)
{
    struct table_schema *altered = NULL;
    unsigned c = fixture_pick(fixture, 0, fixture->schema->column_count - 1U);
    char name[16];
    bool is_part = false;
    snprintf(name, sizeof name, "%s", fixture->schema->columns[c].spec.name);
    for (unsigned i = 0; i < fixture->schema->index_count; i++)
        for (unsigned p = 0; p < fixture->schema->indexes[i].part_count; p++)
            is_part |= fixture->schema->indexes[i].parts[p].column == c;
    bool is_last = fixture->schema->column_count == 1;
    firn_rc rc = schema_drop_column(fixture->schema, name, &altered);
    assert_int_equal(rc, is_part || is_last ? FIRN_E_INVALID : FIRN_OK);
    if (rc != FIRN_OK)
        return;
    schema_free(fixture->schema);
    fixture->schema = altered;
    assert_int_equal(schema_find_column(altered, name), SCHEMA_NONE);
}

static void old_rows_are_read_after_columns_come_and_go(void **state)
{
    (void)state;
    enum { KEPT = 12 };
    static struct model_row rows[KEPT];
    struct fixture fixture;
    rng_init(&fixture.rng, test_seed(2));
    for (unsigned t = 0; t < test_runs(60); t++) {
        unsigned count = 0;
        fixture_make(&fixture, fixture_pick(&fixture, 1, 6));
        for (unsigned step = 0; step < 2 * KEPT; step++) {
            if (fixture_one_in(&fixture, 2) && count < KEPT)
                model_insert(&fixture, &rows[count++]);
            else if (fixture_one_in(&fixture, 3) || fixture.schema->column_count > 10)
                drop_column(&fixture);
            else
                add_column(&fixture, step, rows, count);
            for (unsigned r = 0; r < count; r++)
                model_judge(fixture.schema, &rows[r]);
        }
        for (unsigned r = 0; r < count; r++)
            stored_free(&rows[r].stored);
        schema_free(fixture.schema);
    }
}

/* ---- Bytes ---- */

static struct table_schema *make_small(void)
{
    static struct column_spec columns[] = {
        {.name = "id", .type = COLUMN_INT},
        {.name = "b", .type = COLUMN_BLOB, .is_nullable = true},
        {.name = "s", .type = COLUMN_SMALLINT, .is_nullable = true},
        {.name = "v", .type = COLUMN_VARCHAR, .length = 20, .collation = COLLATION_UTF8MB4_BIN}};
    static struct part_spec part = {.column = "id"};
    static struct index_spec primary = {.parts = &part, .part_count = 1};
    static struct table_spec spec = {
        .name = "t", .columns = columns, .column_count = 4, .primary = &primary};
    struct table_schema *schema = NULL;
    assert_int_equal(schema_create(&spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    return schema;
}

/* What stands in FORMAT.md. */
static void rows_have_the_bytes_that_are_written_down(void **state)
{
    (void)state;
    struct table_schema *schema = make_small();
    struct value values[] = {value_int(7), value_text("xyz"), value_null(), value_text("hi")};
    static const uint8_t wanted[] = {0, 1, 0x01, 0, 0, 3, 0, 5, 0, 'x', 'y', 'z', 'h', 'i'};
    struct stored stored = store(schema, values);
    assert_int_equal(stored.row.size_bytes, sizeof wanted);
    assert_memory_equal(stored.row.bytes, wanted, sizeof wanted);
    stored_free(&stored);
    schema_free(schema);
}

/* Around 64 KiB the ends get wider. */
static void large_rows_are_read_as_small_ones(void **state)
{
    (void)state;
    struct table_schema *schema = make_small();
    enum { MOST = 65540 };
    uint8_t *bytes = malloc(MOST);
    uint8_t *room = malloc(MOST + 100);
    struct key_result key;
    uint8_t key_bytes[KEY_ROOM];
    assert_non_null(bytes);
    assert_non_null(room);
    memset(bytes, 'q', MOST);
    for (size_t size = 65530; size < MOST; size++) {
        struct value values[] = {value_int(7), value_bytes(span_of(bytes, size)), value_int(-3),
                                 value_text("hi")};
        struct row_view view;
        struct value value;
        size_t row_bytes = 0;
        assert_int_equal(row_size(schema, values, &row_bytes), FIRN_OK);
        assert_int_equal(row_encode(schema, values, room), row_bytes);
        assert_int_equal(row_bytes, 5 + (size + 2 > 65535 ? 8U : 4U) + size + 2);
        assert_int_equal(key_encode(schema, &schema->indexes[0], values, 1, key_bytes, &key),
                         FIRN_OK);
        assert_int_equal(
            row_open(schema, span_of(key_bytes, key.size_bytes), span_of(room, row_bytes), &view),
            FIRN_OK);
        assert_int_equal(row_check(&view), FIRN_OK);
        assert_int_equal(row_read(&view, 1, &value), FIRN_OK);
        assert_int_equal(value.bytes.size_bytes, size);
        assert_int_equal(row_read(&view, 3, &value), FIRN_OK);
        assert_int_equal(value.bytes.size_bytes, 2);
        assert_memory_equal(value.bytes.bytes, "hi", 2);
        assert_int_equal(row_read(&view, 2, &value), FIRN_OK);
        assert_int_equal(value.i, -3);
    }
    free(bytes);
    free(room);
    schema_free(schema);
}

static void a_row_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    struct table_schema *schema = make_small();
    static const uint8_t byte = 0;
    size_t size = 0;
    /* Only the size is looked at. */
    struct value values[] = {value_int(7), value_bytes(span_of(&byte, ROW_BYTES_MAX)), value_null(),
                             value_text("hi")};
    assert_int_equal(row_size(schema, values, &size), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(),
                        "table t: the row would have 1073741839 bytes, a row has at most "
                        "1073741824");
    assert_int_equal(size, 0);
    schema_free(schema);
}

static void damaged_rows_are_refused(void **state)
{
    (void)state;
    struct table_schema *schema = make_small();
    struct value values[] = {value_int(7), value_text("xyz"), value_null(), value_text("hi")};
    struct stored stored = store(schema, values);
    uint8_t *bytes = (uint8_t *)stored.row.bytes;
    struct row_view view;
    struct value value;
    for (size_t size = 0; size < stored.row.size_bytes; size++) {
        struct span cut = span_of(stored.row.bytes, size);
        firn_rc rc = row_open(schema, stored.key, cut, &view);
        assert_int_equal(rc == FIRN_OK ? row_check(&view) : rc, FIRN_E_CORRUPT);
    }
    assert_int_equal(row_open(schema, span_of(stored.key.bytes, 3), stored.row, &view),
                     FIRN_E_CORRUPT);
    bytes[1] = 2; /* a version to come */
    assert_int_equal(row_open(schema, stored.key, stored.row, &view), FIRN_E_CORRUPT);
    bytes[1] = 1;
    bytes[2] = 0x04; /* NULL in no column */
    assert_int_equal(row_open(schema, stored.key, stored.row, &view), FIRN_OK);
    assert_int_equal(row_check(&view), FIRN_E_CORRUPT);
    bytes[2] = 0x01;
    bytes[5] = 6; /* ends that go back */
    assert_int_equal(row_read(&view, 3, &value), FIRN_E_CORRUPT);
    bytes[5] = 3;
    bytes[12] = 0xff; /* no UTF-8 */
    assert_int_equal(row_read(&view, 3, &value), FIRN_OK);
    assert_int_equal(row_check(&view), FIRN_E_CORRUPT);
    stored_free(&stored);
    schema_free(schema);
}

static int register_collations(void **state)
{
    (void)state;
    fixture_register();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_give_back_what_was_put_into_them),
        cmocka_unit_test(old_rows_are_read_after_columns_come_and_go),
        cmocka_unit_test(rows_have_the_bytes_that_are_written_down),
        cmocka_unit_test(large_rows_are_read_as_small_ones),
        cmocka_unit_test(a_row_beyond_the_limit_is_refused),
        cmocka_unit_test(damaged_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, register_collations, NULL);
}
