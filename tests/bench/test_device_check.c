#include "base/check.h"
#include "bench/device_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MODELS_MAX = 16 };

/* Each model of the catalogue, measured once. */
static struct device_check checks[MODELS_MAX];

static int measure_all(void **state)
{
    (void)state;
    if (model_count() > MODELS_MAX)
        return 1;
    for (unsigned i = 0; i < model_count(); i++)
        if (device_check(model_at(i), model_sheet_at(i), &checks[i]) != FIRN_OK)
            return 1;
    return 0;
}

static void every_model_agrees_with_its_data_sheet(void **state)
{
    (void)state;
    for (unsigned i = 0; i < model_count(); i++) {
        assert_true(checks[i].figure_count >= 3);
        for (unsigned k = 0; k < checks[i].figure_count; k++) {
            const struct device_check_figure *figure = &checks[i].figures[k];
            double ratio = figure->model / figure->sheet;
            if (fabs(ratio - 1) > DEVICE_CHECK_TOLERANCE)
                fail_msg("%s: %s %.1f instead of %.1f %s", model_at(i)->name, figure->name,
                         figure->model, figure->sheet, figure->unit);
        }
        assert_true(checks[i].passed);
    }
}

static void a_model_that_misses_its_sheet_is_found(void **state)
{
    (void)state;
    struct model_spec spec;
    struct device_check check;
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
    struct device_check check;
    assert_int_equal(model_find("ssd-x25e:raid0x2", &spec), FIRN_OK);
    assert_int_equal(device_check(&spec, NULL, &check), FIRN_OK);
    assert_int_equal(check.figure_count, 0);
    assert_true(check.passed);
    assert_true(check.row_count > 0);
}

static void dips_are_found_where_the_models_have_them(void **state)
{
    (void)state;
    unsigned found = 0;
    for (unsigned i = 0; i < model_count(); i++) {
        const struct model_ssd *ssd = &model_at(i)->ssd;
        const struct device_check_dip *dip = &checks[i].dip;
        assert_int_equal(dip->found, ssd->dip_period_s > 0);
        if (!dip->found)
            continue;
        double slack = ssd->dip_length_s / 50;
        assert_true(fabs(dip->start_s - (ssd->dip_period_s - ssd->dip_length_s)) < slack);
        assert_true(fabs(dip->length_s - ssd->dip_length_s) < slack);
        assert_true(fabs(dip->rate_share - ssd->dip_speed) < 0.02);
        found++;
    }
    assert_int_equal(found, 3);
}

static void a_model_measured_again_does_the_same(void **state)
{
    (void)state;
    struct device_check again;
    for (unsigned i = 1; i < 6; i += 3) {
        assert_int_equal(device_check(model_at(i), model_sheet_at(i), &again), FIRN_OK);
        for (unsigned k = 0; k < again.row_count; k++)
            assert_true(checks[i].rows[k].rates.iops == again.rows[k].rates.iops);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_agrees_with_its_data_sheet),
        cmocka_unit_test(a_model_that_misses_its_sheet_is_found),
        cmocka_unit_test(a_composed_model_has_no_sheet_to_miss),
        cmocka_unit_test(dips_are_found_where_the_models_have_them),
        cmocka_unit_test(a_model_measured_again_does_the_same),
    };
    return cmocka_run_group_tests(tests, measure_all, NULL);
}
