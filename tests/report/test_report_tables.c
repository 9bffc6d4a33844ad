/* The table: medians, repeats, ratios, labels, what differs, and which baseline is chosen. */
#include "report/report_fixture.h"

static const struct fixture_run fast = {.name = "fast", .rate = 2000, .spread = 0.1};
static const struct fixture_run slow = {.name = "slow", .rate = 1000, .spread = 0.1};

/* ---- One run ---- */

static void a_run_is_judged_by_its_intervals_after_the_warmup(void **state)
{
    (void)state;
    struct fixture_run run = slow;
    run.warmup_s = 4;
    struct report *report = fixture_report(&run, 1);
    const struct report_row *row = &report->rows[0];
    double values[16];
    for (unsigned i = 4; i < 20; i++)
        values[i - 4] = floor(fixture_rate(&run, i));
    stats_sort(values, 16);
    struct stats_median expected = stats_median_sorted(values, 16);
    assert_int_equal(row->rate_count, 16);
    assert_close(row->rate.median, expected.median);
    assert_close(row->rate.low, expected.low);
    assert_close(row->rate.high, expected.high);
    assert_true(row->rate.confidence >= 0.95);
    assert_close(row->mib_per_s, expected.median / 64);
    assert_close(row->variation, 0.05);
    assert_close(row->kinds[0].latency_us[LATENCY_P999], 400);
    report_close(report);
}

static void a_scrap_of_an_interval_at_the_end_counts_for_nothing(void **state)
{
    (void)state;
    struct report *report = fixture_open();
    json_t *json = fixture_json(&slow, 1);
    json_t *intervals =
        json_object_get(json_array_get(json_object_get(json, "runs"), 0), "intervals");
    json_array_set_new(json_object_get(intervals, "length_s"), 19, json_real(0.001));
    assert_int_equal(fixture_add_json(report, "one.json", json), FIRN_OK);
    assert_int_equal(report_summarize(report, NULL), FIRN_OK);
    assert_int_equal(report->rows[0].rate_count, 19);
    assert_true(report->rows[0].rate.high < 1200);
    report_close(report);
}

static void a_run_of_no_interval_has_no_figures_but_a_row(void **state)
{
    (void)state;
    struct fixture_run runs[] = {slow, fast};
    struct report *report = fixture_open();
    json_t *json = fixture_json(runs, 2);
    json_t *run = json_array_get(json_object_get(json, "runs"), 0);
    json_t *intervals = json_object_get(run, "intervals");
    const char *name;
    json_t *column;
    json_object_foreach(intervals, name, column) json_array_clear(column);
    json_object_foreach(json_object_get(intervals, "read"), name, column) json_array_clear(column);
    json_object_del(run, "host");
    assert_int_equal(fixture_add_json(report, "one.json", json), FIRN_OK);
    assert_int_equal(report_summarize(report, "slow"), FIRN_OK);
    assert_close(report->rows[0].rate.median, 0);
    assert_false(report_row_has_ratio(&report->rows[1]));
    report_close(report);
}

static void the_share_of_each_kind_is_told(void **state)
{
    (void)state;
    struct fixture_run run = slow;
    run.sync = true;
    struct report *report = fixture_report(&run, 1);
    assert_int_equal(report->rows[0].kind_count, 2);
    assert_close(report->rows[0].kinds[0].share, 0.5);
    assert_close(report->rows[0].kinds[1].mib_per_s, 0);
    report_close(report);
}

/* ---- Repeats ---- */

static void like_runs_of_several_files_are_repeats(void **state)
{
    (void)state;
    struct report *report = fixture_open();
    for (int i = 0; i < 7; i++) {
        struct fixture_run run = {.name = "run", .rate = 1000 + 10 * i, .seed = i};
        run.stall_s = i == 3 ? 2 : 0;
        char path[32];
        snprintf(path, sizeof(path), "r%d.json", i);
        fixture_add(report, path, &run, 1);
    }
    assert_int_equal(report_summarize(report, NULL), FIRN_OK);
    assert_int_equal(report->row_count, 1);
    const struct report_row *row = &report->rows[0];
    assert_int_equal(row->run_count, 7);
    assert_int_equal(row->rate_count, 7);
    assert_close(row->rate.median, 1030);
    assert_close(row->rate.low, 1000);
    assert_close(row->rate.high, 1060);
    assert_close(row->longest_silence_ms, 2001.25);
    assert_int_equal(row->stalls, 1);
    assert_string_equal(report->runs[6].label, "run, repeat 7");
    char *text;
    assert_int_equal(report_row_verdict(report, row, &text), FIRN_OK);
    assert_string_equal(text, "The worst of 7 repeats: Steady.");
    free(text);
    report_close(report);
}

static void fewer_than_six_repeats_show_their_extremes(void **state)
{
    (void)state;
    struct report *report = fixture_open();
    for (int i = 0; i < 3; i++) {
        struct fixture_run run = {.name = "run", .rate = 1000 + 10 * i};
        char path[32];
        snprintf(path, sizeof(path), "r%d.json", i);
        fixture_add(report, path, &run, 1);
    }
    assert_int_equal(report_summarize(report, NULL), FIRN_OK);
    assert_close(report->rows[0].rate.confidence, 0);
    assert_close(report->rows[0].rate.high, 1020);
    report_close(report);
}

static void unlike_runs_of_one_name_are_compared(void **state)
{
    (void)state;
    struct fixture_run before[] = {{.name = "reads", .rate = 1000, .spread = 0.1},
                                   {.name = "writes", .rate = 500, .spread = 0.1}};
    struct fixture_run after[] = {{.name = "reads", .rate = 2000, .spread = 0.1, .threads = 8},
                                  {.name = "writes", .rate = 500, .spread = 0.1, .model = "hdd"}};
    struct report *report = fixture_open();
    fixture_add(report, "x/before.json", before, 2);
    fixture_add(report, "x/after.json", after, 2);
    assert_int_equal(report_summarize(report, NULL), FIRN_OK);
    assert_int_equal(report->row_count, 4);
    /* Namesakes stand together. */
    assert_string_equal(report->rows[0].label, "reads \xc2\xb7 before");
    assert_string_equal(report->rows[1].label, "reads \xc2\xb7 after");
    assert_string_equal(report->rows[3].label, "writes \xc2\xb7 after (modelled)");
    assert_int_equal(report->baseline_file, 0);
    assert_int_equal(report->rows[1].baseline, 0);
    assert_close(report->rows[1].ratio.ratio,
                 report->rows[1].rate.median / report->rows[0].rate.median);
    assert_string_equal(report->rows[1].ratio.differences, "threads");
    assert_false(report_row_is_unlike(&report->rows[1]));
    assert_int_equal(report->runs[3].row, 3);
    char *text;
    assert_int_equal(report_file_verdict(report, 1, &text), FIRN_OK);
    assert_non_null(strstr(text, "after does 1.41 times the operations of before"));
    free(text);
    report_close(report);
}

static void files_of_one_name_in_two_directories_are_told_by_path(void **state)
{
    (void)state;
    struct report *report = fixture_open();
    struct fixture_run other = slow;
    other.threads = 9;
    fixture_add(report, "a/result.json", &slow, 1);
    fixture_add(report, "b/result.json", &other, 1);
    assert_int_equal(report_summarize(report, "b/result.json"), FIRN_OK);
    assert_string_equal(report->rows[0].label, "slow \xc2\xb7 a/result.json");
    assert_int_equal(report->rows[0].baseline, 1);
    report_close(report);
}

static void labels_are_unique_whatever_the_names(void **state)
{
    (void)state;
    struct fixture_run runs[] = {{.name = "same", .rate = 1, .threads = 1},
                                 {.name = "same", .rate = 1, .threads = 2},
                                 {.name = "same \xc2\xb7 result", .rate = 1, .threads = 3},
                                 {.name = "", .rate = 1}};
    struct report *report = fixture_report(runs, 4);
    for (unsigned i = 0; i < report->row_count; i++)
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(report->rows[i].label, report->rows[j].label);
    report_close(report);
}

/* ---- Ratios ---- */

static void a_ratio_has_an_interval_wider_than_either_part(void **state)
{
    (void)state;
    struct fixture_run runs[] = {slow, fast};
    struct report *report = fixture_report(runs, 2);
    const struct report_ratio *ratio = &report->rows[1].ratio;
    const struct stats_median *a = &report->rows[1].rate;
    const struct stats_median *b = &report->rows[0].rate;
    assert_int_equal(report->rows[1].baseline, 0);
    assert_close(ratio->ratio, a->median / b->median);
    assert_true(ratio->sound);
    assert_true(ratio->low < a->low / b->median && ratio->low > a->low / b->high);
    assert_true(ratio->high > a->high / b->median && ratio->high < a->high / b->low);
    /* The other way round it is the reciprocal, interval and all. */
    struct report_ratio back;
    assert_int_equal(report_ratio_compute(report, 0, 1, &back), FIRN_OK);
    assert_close(back.low, 1 / ratio->high);
    assert_close(back.high, 1 / ratio->low);
    free(back.differences);
    report_close(report);
}

static void ratios_of_extreme_figures_are_finite_or_none(void **state)
{
    (void)state;
    static const double extremes[] = {0, 5e-324, 1e-200, 1, 1e18};
    for (unsigned i = 0; i < 5; i++)
        for (unsigned j = 0; j < 5; j++) {
            struct fixture_run runs[] = {slow, fast};
            struct report *report = fixture_report(runs, 2);
            report->rows[0].rate = (struct stats_median){
                .median = extremes[i], .low = extremes[0], .high = extremes[4]};
            report->rows[1].rate = (struct stats_median){
                .median = extremes[j], .low = extremes[1], .high = extremes[4]};
            struct report_ratio ratio;
            assert_int_equal(report_ratio_compute(report, 1, 0, &ratio), FIRN_OK);
            assert_true(isfinite(ratio.ratio) && isfinite(ratio.low) && isfinite(ratio.high));
            free(ratio.differences);
            report_close(report);
        }
}

static void a_baseline_may_be_named_by_run_label_or_file(void **state)
{
    (void)state;
    struct fixture_run runs[] = {slow, fast};
    static const char *const names[] = {"fast", "result", "some/result.json"};
    for (unsigned i = 0; i < 3; i++) {
        struct report *report = fixture_open();
        fixture_add(report, "some/result.json", runs, 2);
        assert_int_equal(report_summarize(report, names[i]), FIRN_OK);
        assert_int_equal(report->rows[0].baseline, i == 0 ? 1 : 0);
        report_close(report);
    }
    struct report *report = fixture_open();
    fixture_add(report, "some/result.json", runs, 2);
    assert_int_equal(report_summarize(report, "faster"), FIRN_E_NOT_FOUND);
    assert_non_null(strstr(firn_error_text(), "\"slow\", \"fast\""));
    report_close(report);
}

static void no_baseline_is_chosen_where_more_than_one_setting_differs(void **state)
{
    (void)state;
    struct fixture_run runs[] = {slow, fast};
    runs[1].threads = 5;
    runs[1].mode = "rndwr";
    struct report *report = fixture_report(runs, 2);
    assert_int_equal(report->baseline_row, -1);
    assert_int_equal(report->rows[1].baseline, -1);
    report_close(report);
    report = fixture_open();
    fixture_add(report, "one.json", runs, 2);
    assert_int_equal(report_summarize(report, "slow"), FIRN_OK);
    assert_true(report_row_is_unlike(&report->rows[1]));
    assert_int_equal(report->rows[1].ratio.difference_count, 2);
    assert_string_equal(report->rows[1].ratio.differences, "file_test_mode, threads");
    report_close(report);
}

/* ---- Settings ---- */

static const struct report_setting *setting_of(const struct report *report, const char *name)
{
    for (unsigned i = 0; i < report->setting_count; i++)
        if (strcmp(report->settings[i].name, name) == 0)
            return &report->settings[i];
    return NULL;
}

static void settings_are_laid_side_by_side(void **state)
{
    (void)state;
    struct fixture_run runs[] = {slow, fast};
    runs[1].threads = 5;
    runs[1].seed = 7;
    struct report *report = fixture_report(runs, 2);
    assert_true(setting_of(report, "processor")->same);
    assert_true(setting_of(report, "file_test_mode")->same);
    assert_false(setting_of(report, "threads")->same);
    assert_string_equal(setting_of(report, "threads")->texts[1], "5");
    assert_false(setting_of(report, "rand_seed")->same);
    assert_false(setting_of(report, "rand_seed")->compared);
    assert_string_equal(setting_of(report, "command")->texts[0], "firn fileio");
    assert_string_equal(setting_of(report, "commit")->texts[0], "abcdef");
    report_close(report);
}

static void another_machine_is_one_difference(void **state)
{
    (void)state;
    struct report *report = fixture_open();
    fixture_add(report, "a.json", &slow, 1);
    json_t *json = fixture_json(&slow, 1);
    json_t *machine = json_object_get(json, "machine");
    json_object_set_new(machine, "processor", json_string("Another"));
    json_object_set_new(machine, "memory_bytes", json_integer(5));
    json_object_set_new(machine, "directory_free_bytes", json_integer(9));
    assert_int_equal(fixture_add_json(report, "b.json", json), FIRN_OK);
    assert_int_equal(report_summarize(report, NULL), FIRN_OK);
    assert_int_equal(report->row_count, 2);
    assert_string_equal(report->rows[1].ratio.differences, "machine");
    report_close(report);
}

static void a_model_for_a_device_is_one_difference(void **state)
{
    (void)state;
    struct fixture_run runs[] = {slow, fast};
    runs[1].model = "hdd-15k";
    struct report *report = fixture_report(runs, 2);
    assert_int_equal(report->rows[1].ratio.difference_count, 1);
    assert_string_equal(report->rows[1].ratio.differences, "modelled_device");
    assert_string_equal(report->rows[1].label, "fast (modelled)");
    report_close(report);
}

static struct report *report_of_settings(json_t *left, json_t *right)
{
    struct report *report = fixture_open();
    json_t *settings[] = {left, right};
    for (unsigned i = 0; i < 2; i++) {
        json_t *json = fixture_json(&slow, 1);
        json_t *run = json_array_get(json_object_get(json, "runs"), 0);
        json_object_set(run, "storage", json_object_get(settings[i], "storage"));
        json_object_del(settings[i], "storage");
        json_object_update(json_object_get(run, "setup"), settings[i]);
        json_decref(settings[i]);
        assert_int_equal(fixture_add_json(report, i == 0 ? "a.json" : "b.json", json), FIRN_OK);
    }
    assert_int_equal(report_summarize(report, NULL), FIRN_OK);
    return report;
}

static void where_a_run_wrote_and_printed_makes_no_difference(void **state)
{
    (void)state;
    struct report *report =
        report_of_settings(json_pack("{sssssisssb}", "storage", "x", "json", "a.json", "verbosity",
                                     3, "dir", "/a", "debug", 0),
                           json_pack("{sssssisssb}", "storage", "x", "json", "b.json", "verbosity",
                                     5, "dir", "/b", "debug", 1));
    assert_int_equal(report->row_count, 1);
    assert_int_equal(report->rows[0].run_count, 2);
    report_close(report);
}

static void the_storage_counts_where_no_setting_explains_it(void **state)
{
    (void)state;
    struct report *report = report_of_settings(json_pack("{ss}", "storage", "io_uring"),
                                               json_pack("{ss}", "storage", "libaio"));
    assert_string_equal(report->rows[1].ratio.differences, "storage");
    report_close(report);
    report = report_of_settings(json_pack("{sssi}", "storage", "io_uring", "threads", 1),
                                json_pack("{sssi}", "storage", "libaio", "threads", 2));
    assert_int_equal(report->rows[1].ratio.difference_count, 2);
    report_close(report);
    report = report_of_settings(json_pack("{ssss}", "storage", "io_uring", "io_mode", "async"),
                                json_pack("{ssss}", "storage", "pread", "io_mode", "sync"));
    assert_string_equal(report->rows[1].ratio.differences, "io_mode");
    report_close(report);
}

/* ---- Densities ---- */

static double area(const struct report_density *density)
{
    double step = (density->high - density->low) / (REPORT_DENSITY_POINTS - 1);
    double sum = 0;
    for (unsigned i = 0; i < REPORT_DENSITY_POINTS; i++)
        sum += density->values[i] * step;
    return sum;
}

static void densities_have_area_one_and_their_peak_where_the_values_are(void **state)
{
    (void)state;
    double values[300];
    for (unsigned i = 0; i < 300; i++) /* two in three around 100, one in three around 50 */
        values[i] = (i < 100 ? 50 : 100) + fixture_wave(i);
    stats_sort(values, 300);
    struct report_density density;
    report_density_compute(values, 300, &density);
    assert_true(fabs(area(&density) - 1) < 0.02);
    unsigned peak = 0;
    for (unsigned i = 1; i < REPORT_DENSITY_POINTS; i++)
        peak = density.values[i] > density.values[peak] ? i : peak;
    double place = density.low + (density.high - density.low) * peak / (REPORT_DENSITY_POINTS - 1);
    assert_true(fabs(place - 100) < 3);
}

static void densities_of_strange_values_are_finite(void **state)
{
    (void)state;
    const double values[][4] = {
        {0, 0, 0, 0}, {7, 7, 7, 7}, {0, 0, 0, 1e15}, {1e-9, 1e-9, 1, 1e300}};
    for (unsigned c = 0; c < 4; c++)
        for (unsigned count = 0; count <= 4; count++) {
            struct report_density density;
            report_density_compute(values[c], count, &density);
            for (unsigned i = 0; i < REPORT_DENSITY_POINTS; i++)
                assert_true(isfinite(density.values[i]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_judged_by_its_intervals_after_the_warmup),
        cmocka_unit_test(a_scrap_of_an_interval_at_the_end_counts_for_nothing),
        cmocka_unit_test(a_run_of_no_interval_has_no_figures_but_a_row),
        cmocka_unit_test(the_share_of_each_kind_is_told),
        cmocka_unit_test(like_runs_of_several_files_are_repeats),
        cmocka_unit_test(fewer_than_six_repeats_show_their_extremes),
        cmocka_unit_test(unlike_runs_of_one_name_are_compared),
        cmocka_unit_test(files_of_one_name_in_two_directories_are_told_by_path),
        cmocka_unit_test(labels_are_unique_whatever_the_names),
        cmocka_unit_test(a_ratio_has_an_interval_wider_than_either_part),
        cmocka_unit_test(ratios_of_extreme_figures_are_finite_or_none),
        cmocka_unit_test(a_baseline_may_be_named_by_run_label_or_file),
        cmocka_unit_test(no_baseline_is_chosen_where_more_than_one_setting_differs),
        cmocka_unit_test(settings_are_laid_side_by_side),
        cmocka_unit_test(another_machine_is_one_difference),
        cmocka_unit_test(a_model_for_a_device_is_one_difference),
        cmocka_unit_test(where_a_run_wrote_and_printed_makes_no_difference),
        cmocka_unit_test(the_storage_counts_where_no_setting_explains_it),
        cmocka_unit_test(densities_have_area_one_and_their_peak_where_the_values_are),
        cmocka_unit_test(densities_of_strange_values_are_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
