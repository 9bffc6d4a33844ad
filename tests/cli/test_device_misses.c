#include "cli/device_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void figures_that_are_off_are_named(void **state)
{
    (void)state;
    struct device_check check = {
        .figures = {{.name = "random reads", .unit = "/s", .sheet = 1000, .model = 800},
                    {.name = "random writes", .unit = "/s", .sheet = 1000, .model = 1149},
                    {.name = "one random read", .unit = "us", .sheet = 100, .model = 116}},
        .figure_count = 3};
    assert_int_equal(device_raise_misses(model_at(0), &check), FIRN_E_INVALID);
    assert_string_equal(
        firn_error_text(),
        "model hdd-7200 is more than 15 % off its data sheet: random reads at 0.80, "
        "one random read at 1.16 of it");
}

static void a_failed_check_is_not_passed_in_json(void **state)
{
    (void)state;
    struct device_check check = {
        .figures = {{.name = "random reads", .unit = "/s", .sheet = 1000, .model = 800}},
        .figure_count = 1,
        .passed = false};
    json_t *object = device_check_json(model_at(0), model_sheet_at(0), &check);
    assert_non_null(object);
    assert_true(json_is_false(json_object_get(object, "passed")));
    json_t *figure = json_array_get(json_object_get(object, "sheet"), 0);
    assert_true(json_is_false(json_object_get(figure, "passed")));
    assert_true(json_real_value(json_object_get(figure, "ratio")) == 0.8);
    assert_true(json_is_null(json_object_get(object, "dip")));
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_that_are_off_are_named),
        cmocka_unit_test(a_failed_check_is_not_passed_in_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
