#include "base/check.h"
#include "bench/device_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct device_check check;

static void every_model_agrees_with_its_data_sheet(void **state)
{
    (void)state;
    for (unsigned i = 0; i < model_count(); i++) {
        assert_int_equal(device_check(model_at(i), model_sheet_at(i), &check), FIRN_OK);
        assert_true(check.figure_count >= 3);
        for (unsigned k = 0; k < check.figure_count; k++) {
            const struct device_check_figure *figure = &check.figures[k];
            double ratio = figure->model / figure->sheet;
            if (fabs(ratio - 1) > DEVICE_CHECK_TOLERANCE)
                fail_msg("%s: %s %.1f instead of %.1f %s", model_at(i)->name, figure->name,
                         figure->model, figure->sheet, figure->unit);
        }
        assert_true(check.passed);
    }
}

static void a_model_that_misses_its_sheet_is_found(void **state)
{
    (void)state;
    struct model_spec spec;
    assert_int_equal(model_find("ssd-x25e", &spec), FIRN_OK);
    struct model_sheet sheet = {.read_iops = 35000, .block_bytes = 16384};
    assert_int_equal(device_check(&spec, &sheet, &check), FIRN_OK);
    assert_int_equal(check.figure_count, 1);
    assert_false(check.passed);
}

static void a_composed_model_has_no_sheet_to_miss(void **state)
{
    (void)state;
    struct model_spec spec;
    assert_int_equal(model_find("ssd-x25e:raid0x2", &spec), FIRN_OK);
    assert_int_equal(device_check(&spec, NULL, &check), FIRN_OK);
    assert_int_equal(check.figure_count, 0);
    assert_true(check.passed);
    assert_true(check.row_count > 0);
}

static void dips_are_found_where_the_model_has_them(void **state)
{
    (void)state;
    static const char *const models[] = {"test-stall", "test-slowdown", "ssd-slc-enterprise"};
    for (unsigned i = 0; i < ARRAY_COUNT(models); i++) {
        struct model_spec spec;
        assert_int_equal(model_find(models[i], &spec), FIRN_OK);
        assert_int_equal(device_check(&spec, NULL, &check), FIRN_OK);
        const struct model_ssd *ssd = &spec.ssd;
        double slack = ssd->dip_length_s / 50;
        assert_true(check.dip.found);
        assert_true(fabs(check.dip.start_s - (ssd->dip_period_s - ssd->dip_length_s)) < slack);
        assert_true(fabs(check.dip.length_s - ssd->dip_length_s) < slack);
        assert_true(fabs(check.dip.rate_share - ssd->dip_speed) < 0.02);
    }
}

static void equal_models_give_equal_figures(void **state)
{
    (void)state;
    static struct device_check again;
    for (unsigned i = 1; i < 6; i += 3) {
        assert_int_equal(device_check(model_at(i), model_sheet_at(i), &check), FIRN_OK);
        assert_int_equal(device_check(model_at(i), model_sheet_at(i), &again), FIRN_OK);
        for (unsigned k = 0; k < check.row_count; k++)
            assert_true(check.rows[k].rates.iops == again.rows[k].rates.iops);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_agrees_with_its_data_sheet),
        cmocka_unit_test(a_model_that_misses_its_sheet_is_found),
        cmocka_unit_test(a_composed_model_has_no_sheet_to_miss),
        cmocka_unit_test(dips_are_found_where_the_model_has_them),
        cmocka_unit_test(equal_models_give_equal_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
