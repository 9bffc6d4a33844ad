#include "base/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void sizes_are_read_with_any_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"16384", 16384},
        {"16k", 16384},
        {"16K", 16384},
        {"16KiB", 16384},
        {"16KB", 16384},
        {"2G", 2147483648},
        {"1.5GiB", 1610612736},
        {"512B", 512},
        {"1T", 1099511627776},
        {"4096P", 4611686018427387904},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = 1;
        assert_int_equal(units_parse_size(cases[i].text, &bytes), FIRN_OK);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {"",    "x",   "-1", "+1",  "1x",    "16KiBs", "0x10",
                                        "nan", "inf", " 1", "1 K", "9000P", "1iB",    "1e999"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = 77;
        assert_int_equal(units_parse_size(cases[i], &bytes), FIRN_E_INVALID);
        assert_int_equal(bytes, 77);
    }
}

static void durations_are_read_with_any_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } cases[] = {{"10", 10000000000},   {"0.5", 500000000},      {"250ms", 250000000},
                 {"3us", 3000},         {"1.5h", 5400000000000}, {"2m", 120000000000},
                 {"1d", 86400000000000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t ns = 1;
        assert_int_equal(units_parse_duration(cases[i].text, &ns), FIRN_OK);
        assert_int_equal(ns, cases[i].ns);
    }
    uint64_t ns = 77;
    assert_int_equal(units_parse_duration("10 s", &ns), FIRN_E_INVALID);
    assert_int_equal(units_parse_duration("1000000d", &ns), FIRN_E_INVALID);
    assert_int_equal(ns, 77);
}

static void numbers_are_written_with_three_digits(void **state)
{
    (void)state;
    char text[UNITS_TEXT_BYTES];
    assert_string_equal(units_format_size(16384, text), "16 KiB");
    assert_string_equal(units_format_size(1.95 * 1073741824, text), "1.95 GiB");
    assert_string_equal(units_format_size(1023.9, text), "1 KiB");
    assert_string_equal(units_format_duration(71234, text), "71.2 us");
    assert_string_equal(units_format_duration(0, text), "0 ns");
    assert_string_equal(units_format_duration(999.9e6, text), "1 s");
    assert_string_equal(units_format_count(94800, text), "94.8 k");
    assert_string_equal(units_format_count(512, text), "512");
    assert_string_equal(units_format_count(1000, text), "1 k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_with_any_unit),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(durations_are_read_with_any_unit),
        cmocka_unit_test(numbers_are_written_with_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
