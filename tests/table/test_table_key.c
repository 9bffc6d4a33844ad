/*
 * Keys order as the rows they are made of, whatever the types, directions, prefixes and NULLs; no
 * key begins another one; what a key can give back it gives back.
 */
#include "table/key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "repeat.h"
#include "table/table_fixture.h"

enum { ROWS = 24, TABLES = 250, KEY_ROOM = FIXTURE_PAGE_BYTES / 16 * 3 + KEY_SLACK_BYTES };

struct made {
    uint8_t bytes[KEY_ROOM];
    struct key_result result;
};

static struct span span_of_key(const struct made *made)
{
    return span_of(made->bytes, made->result.size_bytes);
}

static void encode(const struct fixture *fixture, const struct table_index *index,
                   const struct fixture_row *row, unsigned parts, struct made *made)
{
    memset(made->bytes, 0xa5, sizeof made->bytes);
    assert_int_equal(
        key_encode(fixture->schema, index, row->values, parts, made->bytes, &made->result),
        FIRN_OK);
    assert_true(made->result.size_bytes <= fixture->schema->key_bytes_max);
}

static int compare_rows(const struct fixture *fixture, const struct table_index *index,
                        const struct fixture_row *left, const struct fixture_row *right,
                        unsigned parts)
{
    for (unsigned p = 0; p < parts; p++) {
        const struct key_part *part = &index->parts[p];
        int order = fixture_compare(fixture->schema, part, &left->values[part->column],
                                    &right->values[part->column]);
        if (order != 0)
            return order;
    }
    return 0;
}

static void judge_pair(const struct fixture *fixture, const struct table_index *index,
                       const struct fixture_row rows[2], const struct made keys[2])
{
    struct span left = span_of_key(&keys[0]);
    struct span right = span_of_key(&keys[1]);
    int order = compare_rows(fixture, index, &rows[0], &rows[1], index->part_count);
    int declared = compare_rows(fixture, index, &rows[0], &rows[1], index->declared_count);
    size_t shared = left.size_bytes < right.size_bytes ? left.size_bytes : right.size_bytes;
    assert_int_equal(fixture_sign(span_compare(left, right)), order);
    if (order != 0) /* neither begins the other */
        assert_int_not_equal(memcmp(left.bytes, right.bytes, shared), 0);
    left.size_bytes = keys[0].result.declared_bytes;
    right.size_bytes = keys[1].result.declared_bytes;
    assert_int_equal(fixture_sign(span_compare(left, right)), declared);
}

static void judge_read_back(const struct fixture *fixture, const struct table_index *index,
                            const struct fixture_row *row, const struct made *made)
{
    struct value values[FIXTURE_COLUMNS_MAX + 1];
    uint8_t room[KEY_ROOM];
    for (unsigned p = 0; p < index->part_count; p++) {
        const struct key_part *part = &index->parts[p];
        const struct value *was = &row->values[part->column];
        const struct value *is = &values[part->column];
        if (!part->is_reversible)
            continue;
        assert_int_equal(
            key_read(fixture->schema, index, span_of_key(made), UINT64_C(1) << p, room, values),
            FIRN_OK);
        assert_int_equal(is->kind, was->kind);
        assert_int_equal(fixture_compare(fixture->schema, part, is, was), 0);
    }
}

static void judge_key(const struct fixture *fixture, const struct table_index *index,
                      const struct fixture_row *row, const struct made *made)
{
    struct made primary;
    struct made beginning;
    uint8_t found[KEY_ROOM];
    size_t found_bytes = 0;
    bool has_null = false;
    assert_int_equal(key_check(fixture->schema, index, span_of_key(made)), FIRN_OK);
    encode(fixture, &fixture->schema->indexes[0], row, fixture->schema->indexes[0].part_count,
           &primary);
    assert_int_equal(key_primary_of(fixture->schema, index, span_of_key(made), found, &found_bytes),
                     FIRN_OK);
    assert_int_equal(found_bytes, primary.result.size_bytes);
    assert_memory_equal(found, primary.bytes, found_bytes);
    for (unsigned parts = 0; parts < index->part_count; parts++) {
        encode(fixture, index, row, parts, &beginning);
        assert_true(beginning.result.size_bytes <= made->result.size_bytes);
        assert_memory_equal(beginning.bytes, made->bytes, beginning.result.size_bytes);
        if (parts == index->declared_count)
            assert_int_equal(beginning.result.size_bytes, made->result.declared_bytes);
    }
    for (unsigned p = 0; p < index->declared_count; p++)
        has_null |= row->values[index->parts[p].column].kind == VALUE_NULL;
    assert_int_equal(made->result.has_null, has_null);
    judge_read_back(fixture, index, row, made);
}

static void keys_order_as_their_rows(void **state)
{
    (void)state;
    static struct fixture_row rows[ROWS];
    static struct made keys[ROWS];
    struct fixture fixture;
    rng_init(&fixture.rng, test_seed(1));
    for (unsigned t = 0; t < test_runs(TABLES); t++) {
        fixture_make(&fixture, fixture_pick(&fixture, 1, 5));
        for (unsigned r = 0; r < ROWS; r++)
            fixture_fill(&fixture, &rows[r]);
        for (unsigned i = 0; i < fixture.schema->index_count; i++) {
            const struct table_index *index = &fixture.schema->indexes[i];
            for (unsigned r = 0; r < ROWS; r++) {
                encode(&fixture, index, &rows[r], index->part_count, &keys[r]);
                judge_key(&fixture, index, &rows[r], &keys[r]);
                for (unsigned other = 0; other < r; other++)
                    judge_pair(&fixture, index, (struct fixture_row[2]){rows[other], rows[r]},
                               (struct made[2]){keys[other], keys[r]});
            }
        }
        schema_free(fixture.schema);
    }
}

/* A table of two varbinaries that come near the largest key. */
static void a_key_is_refused_where_it_gets_too_long(void **state)
{
    (void)state;
    struct column_spec columns[] = {
        {.name = "id", .type = COLUMN_INT},
        {.name = "a", .type = COLUMN_VARBINARY, .length = 3000, .is_nullable = true}};
    struct part_spec id[] = {{.column = "id"}};
    struct part_spec a[] = {{.column = "a"}};
    struct index_spec primary = {.parts = id, .part_count = 1};
    struct index_spec index = {.name = "by_a", .parts = a, .part_count = 1};
    struct table_spec spec = {.name = "t",
                              .columns = columns,
                              .column_count = 2,
                              .primary = &primary,
                              .indexes = &index,
                              .index_count = 1};
    static const uint8_t bytes[3000];
    uint8_t key[KEY_ROOM + 64];
    struct table_schema *schema = NULL;
    assert_int_equal(schema_create(&spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    /* The mark, each zero in two bytes, the end, the primary key: 1 + 2 n + 2 + 4. */
    for (size_t n = 1500; n < 3000; n++) {
        struct key_result result = {0};
        struct value values[] = {value_int(1), value_bytes(span_of(bytes, n))};
        size_t size = 1 + 2 * n + 2 + 4;
        memset(key, 0xa5, sizeof key);
        firn_rc rc = key_encode(schema, &schema->indexes[1], values, 2, key, &result);
        assert_int_equal(rc, size <= schema->key_bytes_max ? FIRN_OK : FIRN_E_INVALID);
        assert_int_equal(result.size_bytes, rc == FIRN_OK ? size : 0);
        for (size_t i = KEY_ROOM; i < sizeof key; i++)
            assert_int_equal(key[i], 0xa5);
    }
    assert_string_equal(firn_error_text(),
                        "table t, index by_a: the key would have more than 3072 bytes in the "
                        "tree; index shorter prefixes, or use larger pages");
    schema_free(schema);
}

static void the_end_of_a_range_is_above_all_that_begin_so(void **state)
{
    (void)state;
    uint8_t middle[] = {1, 2, 0xff, 0xff};
    uint8_t all[] = {0xff, 0xff};
    assert_int_equal(key_after(middle, 4), 2);
    assert_memory_equal(middle, "\x01\x03", 2);
    assert_int_equal(key_after(all, 2), 0);
    assert_int_equal(key_after(all, 0), 0);
}

/* What stands in FORMAT.md. */
static void keys_have_the_bytes_that_are_written_down(void **state)
{
    (void)state;
    struct column_spec columns[] = {
        {.name = "i", .type = COLUMN_MEDIUMINT},
        {.name = "s", .type = COLUMN_VARCHAR, .length = 9, .collation = COLLATION_LATIN1_BIN},
        {.name = "b", .type = COLUMN_VARBINARY, .length = 9, .is_nullable = true},
        {.name = "d", .type = COLUMN_DOUBLE},
        {.name = "u", .type = COLUMN_SMALLINT, .is_unsigned = true}};
    struct part_spec parts[] = {
        {.column = "b"}, {.column = "s"}, {.column = "d"}, {.column = "u", .is_descending = true}};
    struct part_spec primary_parts[] = {{.column = "i"}};
    struct index_spec primary = {.parts = primary_parts, .part_count = 1};
    struct index_spec index = {.name = "k", .parts = parts, .part_count = 4};
    struct table_spec spec = {.name = "t",
                              .columns = columns,
                              .column_count = 5,
                              .primary = &primary,
                              .indexes = &index,
                              .index_count = 1};
    struct value values[] = {value_int(-2), value_text("a b  "), value_bytes(span_of("x\0", 2)),
                             value_double(1.0), value_uint(258)};
    static const uint8_t wanted[] = {0x01, 'x', 0x00, 0xff, 0x00, 0x01, 'a', ' ', 0x03,
                                     'b',  ' ', 0x02, 0xbf, 0xf0, 0,    0,   0,   0,
                                     0,    0,   0xfe, 0xfd, 0x7f, 0xff, 0xfe};
    struct table_schema *schema = NULL;
    struct key_result result;
    uint8_t key[KEY_ROOM];
    assert_int_equal(schema_create(&spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    assert_int_equal(key_encode(schema, &schema->indexes[1], values, 5, key, &result), FIRN_OK);
    assert_int_equal(result.size_bytes, sizeof wanted);
    assert_memory_equal(key, wanted, sizeof wanted);
    assert_int_equal(result.declared_bytes, sizeof wanted - 3);
    values[2] = value_null();
    assert_int_equal(key_encode(schema, &schema->indexes[1], values, 5, key, &result), FIRN_OK);
    assert_int_equal(result.size_bytes, sizeof wanted - 5);
    assert_int_equal(key[0], 0);
    schema_free(schema);
}

/* Floating numbers that no column takes still have a place in the order. */
static void what_is_no_number_comes_last(void **state)
{
    (void)state;
    struct column_spec column = {.name = "d", .type = COLUMN_DOUBLE};
    struct part_spec part = {.column = "d"};
    struct index_spec primary = {.parts = &part, .part_count = 1};
    struct table_spec spec = {
        .name = "t", .columns = &column, .column_count = 1, .primary = &primary};
    static const double order[] = {-__builtin_inf(), -1, 0.0, 1, __builtin_inf(),
                                   __builtin_nan("")};
    struct table_schema *schema = NULL;
    struct key_result result;
    uint8_t keys[6][KEY_ROOM];
    uint8_t zero[KEY_ROOM];
    struct value negative_zero = value_double(-0.0);
    assert_int_equal(schema_create(&spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    for (unsigned i = 0; i < 6; i++) {
        struct value value = value_double(order[i]);
        assert_int_equal(key_encode(schema, &schema->indexes[0], &value, 1, keys[i], &result),
                         FIRN_OK);
        if (i > 0)
            assert_true(memcmp(keys[i - 1], keys[i], 8) < 0);
    }
    assert_int_equal(key_encode(schema, &schema->indexes[0], &negative_zero, 1, zero, &result),
                     FIRN_OK);
    assert_memory_equal(zero, keys[2], 8);
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
        cmocka_unit_test(keys_order_as_their_rows),
        cmocka_unit_test(a_key_is_refused_where_it_gets_too_long),
        cmocka_unit_test(the_end_of_a_range_is_above_all_that_begin_so),
        cmocka_unit_test(keys_have_the_bytes_that_are_written_down),
        cmocka_unit_test(what_is_no_number_comes_last),
    };
    return cmocka_run_group_tests(tests, register_collations, NULL);
}
