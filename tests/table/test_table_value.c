/*
 * Values: what columns take and what they say about the rest; text that is read as it was written.
 */
#include "table/value.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "repeat.h"
#include "table/table_fixture.h"

enum { TABLES = 300, VALUES = 20 };

/* The column of a table of one. */
static struct table_schema *make_column(const struct column_spec *column)
{
    struct table_spec spec = {.name = "t", .columns = column, .column_count = 1};
    struct table_schema *schema = NULL;
    assert_int_equal(schema_create(&spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    return schema;
}

struct text_case {
    struct column_spec column;
    const char *text;
    const char *printed;  /* NULL: as the text */
    const char *sentence; /* not NULL: it is refused */
};

static void judge_case(const struct text_case *one)
{
    struct column_spec spec = one->column;
    uint8_t room[64];
    char printed[256];
    struct value value = value_uint(77);
    spec.name = "c";
    struct table_schema *schema = make_column(&spec);
    const struct column *column = &schema->columns[0];
    struct span text = span_of_text(one->text);
    assert_true(value_parse_bound(column, text.size_bytes) <= sizeof room);
    firn_rc rc = value_parse(column, text, room, &value);
    if (one->sentence != NULL) {
        assert_int_equal(rc, FIRN_E_INVALID);
        assert_string_equal(firn_error_text(), one->sentence);
        assert_true(value.kind == VALUE_UINT && value.u == 77);
    } else {
        assert_int_equal(rc, FIRN_OK);
        assert_true(value_print_bound(column, &value) < sizeof printed);
        printed[value_print(column, &value, printed)] = '\0';
        assert_string_equal(printed, one->printed != NULL ? one->printed : one->text);
    }
    schema_free(schema);
}

#define INT_COLUMN(kind)                                                                           \
    {                                                                                              \
        .type = kind                                                                               \
    }
#define UNSIGNED_COLUMN(kind)                                                                      \
    {                                                                                              \
        .type = kind, .is_unsigned = true                                                          \
    }

static void numbers_are_read_or_refused(void **state)
{
    (void)state;
    static const struct text_case cases[] = {
        {INT_COLUMN(COLUMN_TINYINT), "127", NULL, NULL},
        {INT_COLUMN(COLUMN_TINYINT), "-128", NULL, NULL},
        {INT_COLUMN(COLUMN_TINYINT), "+007", "7", NULL},
        {INT_COLUMN(COLUMN_TINYINT), "-0", "0", NULL},
        {INT_COLUMN(COLUMN_TINYINT), "128", NULL,
         "column c: 128 is out of range; tinyint takes -128 to 127"},
        {INT_COLUMN(COLUMN_TINYINT), "-129", NULL,
         "column c: -129 is out of range; tinyint takes -128 to 127"},
        {UNSIGNED_COLUMN(COLUMN_MEDIUMINT), "16777215", NULL, NULL},
        {UNSIGNED_COLUMN(COLUMN_MEDIUMINT), "16777216", NULL,
         "column c: 16777216 is out of range; mediumint unsigned takes 0 to 16777215"},
        {UNSIGNED_COLUMN(COLUMN_INT), "-1", NULL,
         "column c: -1 is out of range; int unsigned takes 0 to 4294967295"},
        {INT_COLUMN(COLUMN_BIGINT), "9223372036854775807", NULL, NULL},
        {INT_COLUMN(COLUMN_BIGINT), "-9223372036854775808", NULL, NULL},
        {INT_COLUMN(COLUMN_BIGINT), "9223372036854775808", NULL,
         "column c: 9223372036854775808 is out of range; bigint takes -9223372036854775808 to "
         "9223372036854775807"},
        {INT_COLUMN(COLUMN_BIGINT), "-9223372036854775809", NULL,
         "column c, bigint: \"-9223372036854775809\" is out of range"},
        {UNSIGNED_COLUMN(COLUMN_BIGINT), "18446744073709551615", NULL, NULL},
        {UNSIGNED_COLUMN(COLUMN_BIGINT), "18446744073709551616", NULL,
         "column c, bigint unsigned: \"18446744073709551616\" is out of range"},
        {INT_COLUMN(COLUMN_INT), "", NULL, "column c, int: \"\" is no whole number"},
        {INT_COLUMN(COLUMN_INT), "1.0", NULL, "column c, int: \"1.0\" is no whole number"},
        {INT_COLUMN(COLUMN_INT), " 1", NULL, "column c, int: \" 1\" is no whole number"},
        {{.type = COLUMN_BIT, .length = 5}, "31", NULL, NULL},
        {{.type = COLUMN_BIT, .length = 5},
         "32",
         NULL,
         "column c: 32 is out of range; bit(5) takes 0 to 31"},
        {INT_COLUMN(COLUMN_YEAR), "2155", NULL, NULL},
        {INT_COLUMN(COLUMN_YEAR), "0", NULL, NULL},
        {INT_COLUMN(COLUMN_YEAR), "1900", NULL, "column c, year: a year is 1901 to 2155, or 0"},
        {INT_COLUMN(COLUMN_DOUBLE), "0.1", NULL, NULL},
        {INT_COLUMN(COLUMN_DOUBLE), "-1e-300", NULL, NULL},
        {INT_COLUMN(COLUMN_DOUBLE), "1.7976931348623157e+308", NULL, NULL},
        {INT_COLUMN(COLUMN_DOUBLE), "5e-324", "4.94065645841247e-324", NULL},
        {INT_COLUMN(COLUMN_DOUBLE), "0.30000000000000004", NULL, NULL},
        {INT_COLUMN(COLUMN_DOUBLE), "-0", NULL, NULL},
        {INT_COLUMN(COLUMN_DOUBLE), "1e400", NULL,
         "column c, double: the number is none, or out of range"},
        {INT_COLUMN(COLUMN_DOUBLE), "nan", NULL, "column c, double: \"nan\" is no number"},
        {INT_COLUMN(COLUMN_DOUBLE), "0x10", NULL, "column c, double: \"0x10\" is no number"},
        {INT_COLUMN(COLUMN_DOUBLE), "1e", NULL, "column c, double: \"1e\" is no number"},
        {INT_COLUMN(COLUMN_DOUBLE), ".", NULL, "column c, double: \".\" is no number"},
        {INT_COLUMN(COLUMN_DOUBLE), ".5", "0.5", NULL},
        {INT_COLUMN(COLUMN_FLOAT), "0.1", NULL, NULL},
        {INT_COLUMN(COLUMN_FLOAT), "16777217", "16777216", NULL},
        {INT_COLUMN(COLUMN_FLOAT), "3.4028235e+38", NULL, NULL},
        {INT_COLUMN(COLUMN_FLOAT), "1e39", NULL,
         "column c, float: the number is none, or out of range"},
        {UNSIGNED_COLUMN(COLUMN_DOUBLE), "-1", NULL,
         "column c, double unsigned: the number is below 0"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        judge_case(&cases[i]);
}

#define DECIMAL_COLUMN(digits, behind)                                                             \
    {                                                                                              \
        .type = COLUMN_DECIMAL, .precision = digits, .scale = behind                               \
    }

static void decimals_are_exact(void **state)
{
    (void)state;
    static const struct text_case cases[] = {
        {DECIMAL_COLUMN(5, 2), "123.45", NULL, NULL},
        {DECIMAL_COLUMN(5, 2), "-999.99", NULL, NULL},
        {DECIMAL_COLUMN(5, 2), "1", "1.00", NULL},
        {DECIMAL_COLUMN(5, 2), "-.5", "-0.50", NULL},
        {DECIMAL_COLUMN(5, 2), "-0", "0.00", NULL},
        {DECIMAL_COLUMN(5, 2), "000012.5000", "12.50", NULL},
        {DECIMAL_COLUMN(5, 2), "1000", NULL, "column c, decimal(5,2): \"1000\" is out of range"},
        {DECIMAL_COLUMN(5, 2), "1.005", NULL,
         "column c, decimal(5,2): \"1.005\" has more digits behind the point than fit"},
        {DECIMAL_COLUMN(5, 2), "1e2", NULL, "column c, decimal(5,2): \"1e2\" is no decimal number"},
        {DECIMAL_COLUMN(5, 2), "-", NULL, "column c, decimal(5,2): \"-\" is no decimal number"},
        {DECIMAL_COLUMN(5, 2), "", NULL, "column c, decimal(5,2): \"\" is no decimal number"},
        {DECIMAL_COLUMN(1, 1), "0.9", NULL, NULL},
        {DECIMAL_COLUMN(1, 1), "1", NULL, "column c, decimal(1,1): \"1\" is out of range"},
        {DECIMAL_COLUMN(65, 38),
         "-123456789012345678901234567.12345678901234567890123456789012345678", NULL, NULL},
        {DECIMAL_COLUMN(65, 0), "99999999999999999999999999999999999999999999999999999999999999999",
         NULL, NULL},
        {{.type = COLUMN_DECIMAL, .precision = 3, .is_unsigned = true},
         "-1",
         NULL,
         "column c, decimal(3,0) unsigned: the number is below 0"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        judge_case(&cases[i]);
}

/* The worked example of MySQL's manual of the form: 1234567890.1234 as decimal(14,4). */
static void decimals_have_the_bytes_of_mysql(void **state)
{
    (void)state;
    static const uint8_t positive[] = {0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2};
    static const uint8_t negative[] = {0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d};
    uint8_t packed[DECIMAL_BYTES_MAX];
    size_t most = 0;
    assert_int_equal(decimal_bytes(14, 4), 7);
    assert_int_equal(decimal_parse(span_of_text("1234567890.1234"), 14, 4, packed), DECIMAL_READ);
    assert_memory_equal(packed, positive, 7);
    assert_int_equal(decimal_parse(span_of_text("-1234567890.1234"), 14, 4, packed), DECIMAL_READ);
    assert_memory_equal(packed, negative, 7);
    for (unsigned precision = 1; precision <= DECIMAL_PRECISION_MAX; precision++)
        for (unsigned scale = 0; scale <= precision && scale <= DECIMAL_SCALE_MAX; scale++)
            if (decimal_bytes(precision, scale) > most)
                most = decimal_bytes(precision, scale);
    assert_int_equal(most, DECIMAL_BYTES_MAX);
}

static void what_is_no_packed_decimal_is_refused(void **state)
{
    (void)state;
    struct column_spec spec = {
        .name = "c", .type = COLUMN_DECIMAL, .precision = 4, .scale = 2, .is_nullable = true};
    struct table_schema *schema = make_column(&spec);
    static const uint8_t bad[][2] = {
        {0x7f, 0xff}, /* -0 */
        {0x80 | 100, 0},
        {0x80, 100},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct value value = value_bytes(span_of(bad[i], 2));
        assert_int_equal(value_check(&schema->columns[0], &value), FIRN_E_INVALID);
    }
    struct value value = value_bytes(span_of(bad[0], 1));
    assert_int_equal(value_check(&schema->columns[0], &value), FIRN_E_INVALID);
    schema_free(schema);
}

#define MOMENT_COLUMN(kind, digits)                                                                \
    {                                                                                              \
        .type = kind, .second_digits = digits                                                      \
    }

static void moments_are_read_or_refused(void **state)
{
    (void)state;
    static const struct text_case cases[] = {
        {INT_COLUMN(COLUMN_DATE), "2024-02-29", NULL, NULL},
        {INT_COLUMN(COLUMN_DATE), "0000-00-00", NULL, NULL},
        {INT_COLUMN(COLUMN_DATE), "9999-12-31", NULL, NULL},
        {INT_COLUMN(COLUMN_DATE), "2024-13-01", NULL,
         "column c, date: \"2024-13-01\" is no date as YYYY-MM-DD"},
        {INT_COLUMN(COLUMN_DATE), "2024-1-01", NULL,
         "column c, date: \"2024-1-01\" is no date as YYYY-MM-DD"},
        {INT_COLUMN(COLUMN_DATE), "2024-01-01 ", NULL,
         "column c, date: \"2024-01-01 \" is no date as YYYY-MM-DD"},
        {MOMENT_COLUMN(COLUMN_TIME, 0), "838:59:59", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_TIME, 6), "-838:59:59.999999", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_TIME, 3), "-00:00:00.001", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_TIME, 3), "01:02:03.5", "01:02:03.500", NULL},
        {MOMENT_COLUMN(COLUMN_TIME, 0), "839:00:00", NULL,
         "column c, time: a time is -838:59:59.999999 to 838:59:59.999999"},
        {MOMENT_COLUMN(COLUMN_TIME, 1), "00:00:00.25", NULL,
         "column c, time(1): the second has more digits than fit"},
        {MOMENT_COLUMN(COLUMN_TIME, 0), "00:60:00", NULL,
         "column c, time: \"00:60:00\" is no time as [-]HH:MM:SS.ffffff"},
        {MOMENT_COLUMN(COLUMN_DATETIME, 0), "2024-02-29 23:59:59", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_DATETIME, 5), "9999-12-31 23:59:59.99999", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_DATETIME, 0), "0000-00-00 00:00:00", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_DATETIME, 0), "2024-02-29 24:00:00", NULL,
         "column c, datetime: \"2024-02-29 24:00:00\" is no date and time as YYYY-MM-DD "
         "HH:MM:SS.ffffff"},
        {MOMENT_COLUMN(COLUMN_TIMESTAMP, 0), "1970-01-01 00:00:01", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_TIMESTAMP, 0), "2038-01-19 03:14:08", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_TIMESTAMP, 6), "2106-02-07 06:28:15.999999", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_TIMESTAMP, 2), "2024-02-29 12:00:00.25", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_TIMESTAMP, 0), "0000-00-00 00:00:00", NULL, NULL},
        {MOMENT_COLUMN(COLUMN_TIMESTAMP, 0), "2106-02-07 06:28:16", NULL,
         "column c, timestamp: a timestamp is before 2106-02-07 06:28:16 UTC"},
        {MOMENT_COLUMN(COLUMN_TIMESTAMP, 0), "1970-01-01 00:00:00", NULL,
         "column c, timestamp: \"1970-01-01 00:00:00\" is the moment that stands for no date"},
        {MOMENT_COLUMN(COLUMN_TIMESTAMP, 0), "2023-02-29 12:00:00", NULL,
         "column c, timestamp: \"2023-02-29 12:00:00\" is no date and time in UTC from 1970-01-01 "
         "00:00:01 to 2106-02-07 06:28:15"},
        {MOMENT_COLUMN(COLUMN_TIMESTAMP, 0), "2100-02-29 12:00:00", NULL,
         "column c, timestamp: \"2100-02-29 12:00:00\" is no date and time in UTC from 1970-01-01 "
         "00:00:01 to 2106-02-07 06:28:15"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        judge_case(&cases[i]);
}

/* Every day of the range, against the C library. */
static void timestamps_are_dates_of_the_calendar(void **state)
{
    (void)state;
    struct column_spec spec = {.name = "c", .type = COLUMN_TIMESTAMP};
    struct table_schema *schema = make_column(&spec);
    for (uint64_t second = 1; second <= UINT32_MAX; second += 86400 / 2 + 1) {
        time_t now = (time_t)second;
        struct tm tm;
        char wanted[64];
        char printed[64];
        struct value value = value_uint(second * 1000000);
        gmtime_r(&now, &tm);
        strftime(wanted, sizeof wanted, "%Y-%m-%d %H:%M:%S", &tm);
        printed[value_print(&schema->columns[0], &value, printed)] = '\0';
        assert_string_equal(printed, wanted);
        assert_int_equal(value_parse(&schema->columns[0], span_of_text(wanted), NULL, &value),
                         FIRN_OK);
        assert_int_equal(value.u, second * 1000000);
    }
    schema_free(schema);
}

#define TEXT_COLUMN(kind, characters, number)                                                      \
    {                                                                                              \
        .type = kind, .length = characters, .collation = number                                    \
    }

static void texts_and_bytes_are_read_or_refused(void **state)
{
    (void)state;
    static const struct text_case cases[] = {
        {TEXT_COLUMN(COLUMN_CHAR, 3, COLLATION_LATIN1_BIN), "ab ", "ab", NULL},
        {TEXT_COLUMN(COLUMN_CHAR, 3, COLLATION_LATIN1_BIN), "abc   ", "abc", NULL},
        {TEXT_COLUMN(COLUMN_CHAR, 3, COLLATION_LATIN1_BIN), "abcd", NULL,
         "column c: a value of 4 bytes is too long for char(3)"},
        {TEXT_COLUMN(COLUMN_VARCHAR, 3, COLLATION_LATIN1_BIN), "ab ", NULL, NULL},
        {TEXT_COLUMN(COLUMN_VARCHAR, 3, COLLATION_LATIN1_BIN), "abc ", NULL,
         "column c: a value of 4 bytes is too long for varchar(3)"},
        {TEXT_COLUMN(COLUMN_VARCHAR, 3, COLLATION_UTF8MB4_BIN), "\xc3\xa4\xe2\x82\xac!", NULL,
         NULL},
        {TEXT_COLUMN(COLUMN_VARCHAR, 2, COLLATION_UTF8MB4_BIN), "\xc3\xa4\xe2\x82\xac!", NULL,
         "column c: a value of 6 bytes is too long for varchar(2)"},
        {TEXT_COLUMN(COLUMN_VARCHAR, 9, COLLATION_UTF8MB4_BIN), "\xc3(", NULL,
         "column c: the value's 2 bytes are no text of utf8mb4_bin's character set"},
        {TEXT_COLUMN(COLUMN_VARCHAR, 9, COLLATION_ASCII_BIN), "\x80", NULL,
         "column c: the value's 1 bytes are no text of ascii_bin's character set"},
        {TEXT_COLUMN(COLUMN_TEXT, 3, COLLATION_UTF8MB4_BIN), "\xc3\xa4\xe2\x82\xac", NULL,
         "column c: a value of 5 bytes is too long for text(3)"},
        {TEXT_COLUMN(COLUMN_TEXT, 0, COLLATION_UTF8MB4_BIN), "any length", NULL, NULL},
        {{.type = COLUMN_VARBINARY, .length = 3}, "00FFa0", "00ffa0", NULL},
        {{.type = COLUMN_VARBINARY, .length = 3},
         "00ffa0ee",
         NULL,
         "column c: a value of 4 bytes is too long for varbinary(3)"},
        {{.type = COLUMN_BLOB},
         "0",
         NULL,
         "column c, blob: \"0\" is no even number of hexadecimal digits"},
        {{.type = COLUMN_BLOB},
         "0g",
         NULL,
         "column c, blob: \"0g\" is no even number of hexadecimal digits"},
        {{.type = COLUMN_BLOB}, "", NULL, NULL},
        {{.type = COLUMN_BINARY, .length = 2}, "00ff", NULL, NULL},
        {{.type = COLUMN_BINARY}, "", NULL, NULL},
        {{.type = COLUMN_BINARY},
         "00",
         NULL,
         "column c: a value of 1 bytes is too long for binary(0)"},
        {TEXT_COLUMN(COLUMN_VARCHAR, 0, COLLATION_UTF8MB4_BIN), "a", NULL,
         "column c: a value of 1 bytes is too long for varchar(0)"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        judge_case(&cases[i]);
}

/* In wide characters 0x20 may be a half of one, and a space has a zero byte in front. */
static void wide_chars_lose_their_spaces_only(void **state)
{
    (void)state;
    struct column_spec spec = {
        .name = "c", .type = COLUMN_CHAR, .length = 3, .collation = FIXTURE_WIDE};
    struct table_schema *schema = make_column(&spec);
    static const uint8_t text[] = {0x41, 0x20, 0, ' ', 0, ' ', 0, ' '};
    static const uint8_t spaces[] = {0, ' ', 0, ' '};
    struct value value = value_bytes(span_of(text, sizeof text));
    assert_int_equal(value_check(&schema->columns[0], &value), FIRN_OK);
    assert_int_equal(value.bytes.size_bytes, 2);
    value = value_bytes(span_of(spaces, sizeof spaces));
    assert_int_equal(value_check(&schema->columns[0], &value), FIRN_OK);
    assert_int_equal(value.bytes.size_bytes, 0);
    value = value_bytes(span_of(text, 3));
    assert_int_equal(value_check(&schema->columns[0], &value), FIRN_E_INVALID);
    schema_free(schema);
}

/* Wherever bytes are taken, none may be NULL. */
static void the_empty_text_may_be_null(void **state)
{
    (void)state;
    static const enum column_type types[] = {COLUMN_INT, COLUMN_DOUBLE, COLUMN_DATE, COLUMN_TIME};
    struct value value;
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        struct column_spec spec = {.name = "c", .type = types[i]};
        struct table_schema *schema = make_column(&spec);
        assert_int_equal(value_parse(&schema->columns[0], span_of(NULL, 0), NULL, &value),
                         FIRN_E_INVALID);
        schema_free(schema);
    }
    struct column_spec spec = {.name = "c", .type = COLUMN_VARBINARY, .length = 3};
    struct table_schema *schema = make_column(&spec);
    assert_int_equal(value_parse(&schema->columns[0], span_of(NULL, 0), NULL, &value), FIRN_OK);
    assert_int_equal(value.bytes.size_bytes, 0);
    schema_free(schema);
}

/* The sentence of an error is one line, whatever the text is. */
static void unreadable_texts_are_not_repeated(void **state)
{
    (void)state;
    struct text_case odd = {INT_COLUMN(COLUMN_INT), "1\n2", NULL,
                            "column c, int: \"1\"... is no whole number"};
    judge_case(&odd);
}

static void values_of_another_kind_are_refused(void **state)
{
    (void)state;
    struct column_spec spec = {.name = "c", .type = COLUMN_DATE};
    struct table_schema *schema = make_column(&spec);
    struct value values[] = {value_null(),
                             value_int(5),
                             value_double(5),
                             value_text("x"),
                             value_uint(value_date(2024, 13, 1)),
                             value_uint(UINT64_MAX),
                             {.kind = (enum value_kind)9}};
    for (size_t i = 0; i < ARRAY_COUNT(values); i++)
        assert_int_equal(value_check(&schema->columns[0], &values[i]), FIRN_E_INVALID);
    assert_int_equal(value_check(&schema->columns[0], &values[0]), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(), "column c, date: it takes no NULL");
    schema_free(schema);
    spec = (struct column_spec){.name = "c", .type = COLUMN_INT, .is_unsigned = true};
    schema = make_column(&spec);
    struct value number = value_int(7);
    assert_int_equal(value_check(&schema->columns[0], &number), FIRN_OK);
    assert_int_equal(number.kind, VALUE_UINT);
    schema_free(schema);
    spec = (struct column_spec){.name = "c", .type = COLUMN_DOUBLE};
    schema = make_column(&spec);
    number = value_int(-7);
    assert_int_equal(value_check(&schema->columns[0], &number), FIRN_OK);
    assert_true(number.kind == VALUE_DOUBLE && number.d == -7.0);
    number = value_double(__builtin_nan(""));
    assert_int_equal(value_check(&schema->columns[0], &number), FIRN_E_INVALID);
    schema_free(schema);
}

static void what_is_printed_is_read_as_it_was(void **state)
{
    (void)state;
    struct fixture fixture;
    rng_init(&fixture.rng, test_seed(1));
    for (unsigned t = 0; t < test_runs(TABLES); t++) {
        fixture_make(&fixture, 3);
        for (unsigned i = 0; i < VALUES; i++) {
            const struct column *column = &fixture.schema->columns[i % 3];
            uint8_t memory[FIXTURE_VALUE_BYTES];
            uint8_t room[FIXTURE_VALUE_BYTES];
            char text[2 * FIXTURE_VALUE_BYTES];
            struct value value;
            struct value read;
            fixture_value(&fixture, column, memory, &value);
            if (value.kind == VALUE_NULL)
                continue;
            size_t bound = value_print_bound(column, &value);
            assert_true(bound <= sizeof text);
            size_t size = value_print(column, &value, text);
            assert_true(size <= bound);
            assert_int_equal(value_parse(column, span_of(text, size), room, &read), FIRN_OK);
            assert_int_equal(read.kind, value.kind);
            if (value.kind != VALUE_BYTES) {
                assert_int_equal(read.u, value.u);
                continue;
            }
            assert_int_equal(read.bytes.size_bytes, value.bytes.size_bytes);
            assert_int_equal(span_compare(read.bytes, value.bytes), 0);
        }
        schema_free(fixture.schema);
    }
}

/* A comma as decimal point, where the system has such a locale. */
static void the_locale_does_not_matter(void **state)
{
    (void)state;
    struct text_case one = {INT_COLUMN(COLUMN_DOUBLE), "0.5", NULL, NULL};
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL)
        print_message("# no German locale: tried in the usual one only\n");
    judge_case(&one);
    setlocale(LC_ALL, "C");
}

static void defaults_are_given(void **state)
{
    (void)state;
    struct column_spec columns[] = {
        {.name = "a",
         .type = COLUMN_INT,
         .default_kind = COLUMN_DEFAULT_CONSTANT,
         .default_value = value_int(-5)},
        {.name = "b", .type = COLUMN_INT, .is_nullable = true},
        {.name = "c", .type = COLUMN_INT},
        {.name = "d",
         .type = COLUMN_DATETIME,
         .second_digits = 3,
         .default_kind = COLUMN_DEFAULT_NOW},
        {.name = "e", .type = COLUMN_TIMESTAMP, .default_kind = COLUMN_DEFAULT_NOW}};
    struct table_spec spec = {.name = "t", .columns = columns, .column_count = 5};
    struct table_schema *schema = NULL;
    struct value_now now = {.timestamp = UINT64_C(1700000000123456),
                            .datetime =
                                value_datetime(value_date(2023, 11, 14), 22, 13, 20, 123456)};
    struct value value;
    assert_int_equal(schema_create(&spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    assert_int_equal(value_default(&schema->columns[0], NULL, &value), FIRN_OK);
    assert_true(value.kind == VALUE_INT && value.i == -5);
    assert_int_equal(value_default(&schema->columns[1], NULL, &value), FIRN_OK);
    assert_int_equal(value.kind, VALUE_NULL);
    assert_int_equal(value_default(&schema->columns[2], NULL, &value), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(),
                        "column c, int: it has no default value and takes no NULL; give a value");
    assert_int_equal(value_default(&schema->columns[3], &now, &value), FIRN_OK);
    assert_int_equal(value.u, now.datetime - 456);
    assert_int_equal(value_default(&schema->columns[4], &now, &value), FIRN_OK);
    assert_int_equal(value.u, now.timestamp - 123456);
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
        cmocka_unit_test(numbers_are_read_or_refused),
        cmocka_unit_test(decimals_are_exact),
        cmocka_unit_test(decimals_have_the_bytes_of_mysql),
        cmocka_unit_test(what_is_no_packed_decimal_is_refused),
        cmocka_unit_test(moments_are_read_or_refused),
        cmocka_unit_test(timestamps_are_dates_of_the_calendar),
        cmocka_unit_test(texts_and_bytes_are_read_or_refused),
        cmocka_unit_test(wide_chars_lose_their_spaces_only),
        cmocka_unit_test(the_empty_text_may_be_null),
        cmocka_unit_test(unreadable_texts_are_not_repeated),
        cmocka_unit_test(values_of_another_kind_are_refused),
        cmocka_unit_test(what_is_printed_is_read_as_it_was),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(defaults_are_given),
    };
    return cmocka_run_group_tests(tests, register_collations, NULL);
}
