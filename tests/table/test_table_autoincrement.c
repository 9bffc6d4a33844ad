/*
 * Autoincrement values: as MySQL counts, to the column's end and no further.
 */
#include "table/autoincrement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/rng.h"
#include "repeat.h"

static struct table_schema *make(enum column_type type, bool is_unsigned)
{
    struct column_spec column = {
        .name = "id", .type = type, .is_unsigned = is_unsigned, .is_autoincrement = true};
    struct part_spec part = {.column = "id"};
    struct index_spec primary = {.parts = &part, .part_count = 1};
    struct table_spec spec = {
        .name = "t", .columns = &column, .column_count = 1, .primary = &primary};
    struct table_schema *schema = NULL;
    assert_int_equal(schema_create(&spec, 16384, &schema), FIRN_OK);
    assert_int_equal(schema->auto_column, 0);
    return schema;
}

static void values_are_counted_as_mysql_does(void **state)
{
    (void)state;
    struct table_schema *schema = make(COLUMN_INT, false);
    static const struct {
        uint64_t last, offset, increment, first;
    } cases[] = {
        {0, 1, 1, 1},     {1, 1, 1, 2},   {0, 5, 10, 5},   {1, 5, 10, 5},
        {5, 5, 10, 15},   {6, 5, 10, 15}, {15, 5, 10, 25}, {100, 1, 2, 101},
        {101, 1, 2, 103}, {0, 10, 5, 5}, /* an offset above the increment is ignored */
        {5, 10, 5, 10},   {7, 10, 5, 10},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint64_t first = 0;
        uint64_t reserved = 0;
        assert_int_equal(autoincrement_reserve(&schema->columns[0], cases[i].last, cases[i].offset,
                                               cases[i].increment, 3, &first, &reserved),
                         FIRN_OK);
        assert_int_equal(first, cases[i].first);
        assert_int_equal(reserved, 3);
    }
    schema_free(schema);
}

static void a_full_column_is_said_to_be_full(void **state)
{
    (void)state;
    struct table_schema *schema = make(COLUMN_TINYINT, true);
    uint64_t first = 7;
    uint64_t reserved = 7;
    assert_int_equal(autoincrement_reserve(&schema->columns[0], 253, 1, 1, 10, &first, &reserved),
                     FIRN_OK);
    assert_int_equal(first, 254);
    assert_int_equal(reserved, 2);
    first = reserved = 7;
    assert_int_equal(autoincrement_reserve(&schema->columns[0], 255, 1, 1, 10, &first, &reserved),
                     FIRN_E_INVALID);
    assert_string_equal(firn_error_text(), "column id has used up its values: the next one would "
                                           "be above 255; make its type larger");
    assert_true(first == 7 && reserved == 7);
    assert_int_equal(autoincrement_reserve(&schema->columns[0], 251, 1, 10, 10, &first, &reserved),
                     FIRN_E_INVALID);
    schema_free(schema);
}

/* Counted one by one, for small types; at the end of 64 bits nothing wraps. */
static void reservations_are_what_counting_gives(void **state)
{
    (void)state;
    struct table_schema *small = make(COLUMN_TINYINT, false);
    struct table_schema *large = make(COLUMN_BIGINT, true);
    struct rng rng;
    rng_init(&rng, test_seed(1));
    assert_int_equal(autoincrement_max(&small->columns[0]), 127);
    assert_int_equal(autoincrement_max(&large->columns[0]), UINT64_MAX);
    for (unsigned i = 0; i < test_runs(20000); i++) {
        uint64_t last = rng_below(&rng, 130);
        uint64_t increment = 1 + rng_below(&rng, 20);
        uint64_t offset = 1 + rng_below(&rng, increment);
        uint64_t wanted = 1 + rng_below(&rng, 30);
        uint64_t first = 0;
        uint64_t reserved = 0;
        uint64_t expected = last + 1;
        while (expected < offset || (expected - offset) % increment != 0)
            expected++;
        firn_rc rc = autoincrement_reserve(&small->columns[0], last, offset, increment, wanted,
                                           &first, &reserved);
        assert_int_equal(rc, expected <= 127 ? FIRN_OK : FIRN_E_INVALID);
        if (rc == FIRN_OK) {
            assert_int_equal(first, expected);
            assert_true(reserved >= 1 && reserved <= wanted);
            assert_true(first + (reserved - 1) * increment <= 127);
            assert_true(reserved == wanted || first + reserved * increment > 127);
        }
        last = UINT64_MAX - rng_below(&rng, 40);
        rc = autoincrement_reserve(&large->columns[0], last, offset, increment, wanted, &first,
                                   &reserved);
        if (rc == FIRN_OK) {
            assert_true(first > last && (first - offset) % increment == 0);
            assert_true((UINT64_MAX - first) / increment >= reserved - 1);
        }
    }
    schema_free(small);
    schema_free(large);
}

static void explicit_values_push_the_counter(void **state)
{
    (void)state;
    struct value values[] = {value_int(-5), value_int(3), value_uint(9), value_null()};
    assert_int_equal(autoincrement_see(5, &values[0]), 5);
    assert_int_equal(autoincrement_see(5, &values[1]), 5);
    assert_int_equal(autoincrement_see(2, &values[1]), 3);
    assert_int_equal(autoincrement_see(5, &values[2]), 9);
    assert_int_equal(autoincrement_see(5, &values[3]), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_counted_as_mysql_does),
        cmocka_unit_test(a_full_column_is_said_to_be_full),
        cmocka_unit_test(reservations_are_what_counting_gives),
        cmocka_unit_test(explicit_values_push_the_counter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
