/* Result files: what is read, and what is said of those that cannot be. */
#include "report/report_fixture.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct fixture_run plain = {.name = "a run", .rate = 1000, .spread = 0.1};

static void assert_says(const char *words)
{
    if (strstr(firn_error_text(), words) == NULL)
        fail_msg("expected \"%s\" in: %s", words, firn_error_text());
}

static void assert_refused(const char *text, size_t size_bytes, const char *words)
{
    struct report *report = fixture_open();
    fixture_add(report, "good.json", &plain, 1);
    assert_int_equal(report_add_memory(report, "bad.json", text, size_bytes), FIRN_E_INVALID);
    assert_says("bad.json");
    assert_says(words);
    assert_int_equal(report->file_count, 1);
    assert_int_equal(report->run_count, 1);
    report_close(report);
}

/* ---- Whole files ---- */

static void what_is_no_result_is_refused_by_name_and_reason(void **state)
{
    (void)state;
    assert_refused("", 0, "is empty");
    assert_refused("hello", 5, "is not JSON (line 1");
    assert_refused("\x89PNG\r\n\x1a\n\0\0", 10, "is not JSON");
    assert_refused("[1, 2]", 6, "no result of firn's");
    assert_refused("{}", 2, "no result of firn's");
    assert_refused("{\"format\": 7}", 13, "no result of firn's");
    static const char newer[] = "{\"format\": \"firn-result\", \"version\": 2}";
    assert_refused(newer, sizeof(newer) - 1, "version 2, and this firn reads version 1");
    static const char wrong[] = "{\"format\": \"firn-result\", \"version\": \"1\"}";
    assert_refused(wrong, sizeof(wrong) - 1, "version is no whole number");
}

static void a_cut_file_is_refused_wherever_it_was_cut(void **state)
{
    (void)state;
    json_t *json = fixture_json(&plain, 1);
    char *text = json_dumps(json, JSON_COMPACT);
    size_t size_bytes = strlen(text);
    for (size_t cut = 1; cut < size_bytes; cut += 13) {
        struct report *report = fixture_open();
        assert_int_equal(report_add_memory(report, "cut.json", text, cut), FIRN_E_INVALID);
        assert_says("was cut off");
        assert_int_equal(report->file_count, 0);
        report_close(report);
    }
    assert_refused(text, size_bytes / 2, "was cut off");
    free(text);
    json_decref(json);
}

static void no_runs_is_nothing_to_report(void **state)
{
    (void)state;
    struct report *report = fixture_open();
    assert_int_equal(fixture_add_json(report, "none.json", fixture_json(NULL, 0)), FIRN_E_INVALID);
    assert_says("none.json holds no run");
    report_close(report);
}

static void paths_that_cannot_be_read_are_named(void **state)
{
    (void)state;
    struct report *report = fixture_open();
    assert_int_equal(report_add_file(report, "/nowhere/at/all.json"), FIRN_E_NOT_FOUND);
    assert_says("/nowhere/at/all.json");
    assert_int_equal(report_add_file(report, "/"), FIRN_E_INVALID);
    assert_says("/ is a directory");
    report_close(report);
}

static void a_file_given_twice_is_no_repeat(void **state)
{
    (void)state;
    char path[] = "/tmp/firn-test-report-XXXXXX";
    int descriptor = mkstemp(path);
    FILE *out = fdopen(descriptor, "w");
    json_t *json = fixture_json(&plain, 1);
    json_dumpf(json, out, 0);
    json_decref(json);
    assert_int_equal(fclose(out), 0);
    struct report *report = fixture_open();
    assert_int_equal(report_add_file(report, path), FIRN_OK);
    assert_int_equal(report_add_file(report, path), FIRN_E_INVALID);
    assert_says("is the same file as");
    report_close(report);
    unlink(path);
}

/* ---- Members ---- */

static json_t *at(json_t *json, const char *path)
{
    char part[64];
    while (*path != '\0') {
        size_t length = strcspn(path, "/");
        snprintf(part, sizeof(part), "%.*s", (int)length, path);
        json = part[0] >= '0' && part[0] <= '9' ? json_array_get(json, (size_t)atoi(part))
                                                : json_object_get(json, part);
        assert_non_null(json);
        path += length + (path[length] == '/');
    }
    return json;
}

/* The result with one member replaced, or left out for NULL. */
static json_t *spoilt(const char *path, const char *member, json_t *value)
{
    struct fixture_run run = plain;
    run.sync = true;
    run.model = "hdd";
    run.group = "by threads";
    run.stall_s = 2;
    json_t *json = fixture_json(&run, 1);
    json_t *object = at(json, path);
    if (value == NULL)
        assert_int_equal(json_object_del(object, member), 0);
    else if (json_is_array(object))
        json_array_set_new(object, (size_t)atoi(member), value);
    else
        json_object_set_new(object, member, value);
    return json;
}

static void every_required_member_is_missed_by_its_name(void **state)
{
    (void)state;
    static const char *const places[][3] = {
        {"", "title", "title is missing"},
        {"", "created", "created is missing"},
        {"", "command", "command is missing"},
        {"", "machine", "machine is missing"},
        {"", "runs", "runs is missing"},
        {"runs/0", "name", "runs[0].name is missing"},
        {"runs/0", "modelled", "runs[0].modelled is missing"},
        {"runs/0", "setup", "runs[0].setup is missing"},
        {"runs/0", "kinds", "runs[0].kinds is missing"},
        {"runs/0", "group_x", "runs[0].group_x is missing"},
        {"runs/0/modelled", "device", "runs[0].modelled.device is missing"},
        {"runs/0/intervals", "start_s", "runs[0].intervals.start_s is missing"},
        {"runs/0/intervals", "read", "runs[0].intervals.read is missing"},
        {"runs/0/intervals/read", "p99_us", "runs[0].intervals.read.p99_us is missing"},
        {"runs/0/summary", "sync", "runs[0].summary.sync is missing"},
        {"runs/0/summary/read", "operations", "runs[0].summary.read.operations is missing"},
        {"runs/0/summary/read/latency", "p999_us", "latency.p999_us is missing"},
        {"runs/0/judgement", "text", "runs[0].judgement.text is missing"},
        {"runs/0/judgement/events/0", "length_s", "judgement.events[0].length_s is missing"},
    };
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct report *report = fixture_open();
        json_t *json = spoilt(places[i][0], places[i][1], NULL);
        assert_int_equal(fixture_add_json(report, "bad.json", json), FIRN_E_INVALID);
        assert_says(places[i][2]);
        assert_int_equal(report->run_count, 0);
        report_close(report);
    }
}

static void members_of_a_wrong_form_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *path, *member;
        json_t *value;
        const char *words;
    } cases[] = {
        {"", "runs", json_object(), "runs is no array"},
        {"", "command", json_pack("[i]", 1), "command holds something that is no text"},
        {"", "verdict", json_pack("[s]", "good"), "verdict[0].severity is missing"},
        {"runs", "0", json_string("run"), "runs[0].name is missing"},
        {"runs/0", "name", json_integer(5), "runs[0].name is no text"},
        {"runs/0", "interval_s", json_real(-1), "interval_s is negative"},
        {"runs/0", "kinds", json_array(), "kinds has not 1 to 8"},
        {"runs/0", "kinds", json_pack("[ss]", "read", "read"), "names a kind twice"},
        {"runs/0", "kinds", json_pack("[s]", "start_s"), "no name of a kind"},
        {"runs/0", "setup", json_pack("{s[]}", "a"), "setup.a is neither text nor number"},
        {"runs/0/intervals", "start_s", json_pack("[ii]", 0, 1),
         "length_s has not one element an interval"},
        {"runs/0/intervals/length_s", "3", json_integer(0), "length_s holds less than a"},
        {"runs/0/intervals/length_s", "3", json_null(), "length_s holds null"},
        {"runs/0/intervals/start_s", "3", json_integer(1), "start_s does not ascend"},
        {"runs/0/intervals/read/operations", "3", json_null(), "operations holds null"},
        {"runs/0/intervals/read/bytes", "3", json_real(1e19), "bytes holds a number larger"},
        {"runs/0/summary/read", "operations", json_real(1e300), "operations is larger than any"},
        {"runs/0/intervals/read/p50_us", "3", json_string("x"),
         "p50_us holds something that is no"},
        {"runs/0/intervals/read/p50_us", "3", json_integer(-2), "p50_us holds a negative"},
        {"runs/0/intervals/read/histogram", "3", json_pack("[i]", 2), "no list of pairs"},
        {"runs/0/intervals/read/histogram", "3", json_pack("[ii]", 172, 1), "no bucket"},
        {"runs/0/intervals/read/histogram", "3", json_pack("[ii]", -1, 1), "no bucket"},
        {"runs/0/summary/read/histogram/pairs", "1", json_pack("[ii]", 5, 1), "does not ascend"},
        {"runs/0/judgement", "steady", json_integer(1), "steady is neither true nor false"},
        {"runs/0/judgement/events/0", "kind", json_string("nap"), "neither stall nor slowdown"},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct report *report = fixture_open();
        json_t *json = spoilt(cases[i].path, cases[i].member, cases[i].value);
        assert_int_equal(fixture_add_json(report, "bad.json", json), FIRN_E_INVALID);
        assert_says(cases[i].words);
        report_close(report);
    }
}

static void optional_and_unknown_members_may_be_there_or_not(void **state)
{
    (void)state;
    struct report *report = fixture_open();
    json_t *json = fixture_json(&plain, 1);
    json_t *run = at(json, "runs/0");
    json_object_del(run, "host");
    json_object_del(at(run, "intervals/read"), "histogram");
    json_object_del(at(run, "summary/read"), "latency");
    json_object_del(at(run, "summary/read"), "histogram");
    json_object_set_new(run, "extra", json_pack("{si}", "anything", 1));
    json_object_set_new(json, "later", json_pack("[[]]"));
    assert_int_equal(fixture_add_json(report, "lean.json", json), FIRN_OK);
    assert_false(report->runs[0].kinds[0].has_latency);
    assert_int_equal(report->runs[0].kinds[0].heat.cell_count, 0);
    assert_string_equal(report->runs[0].device_name, "");
    report_close(report);
}

/* ---- What is kept ---- */

static void columns_and_rates_are_those_of_the_file(void **state)
{
    (void)state;
    struct fixture_run run = plain;
    run.sync = true;
    run.warmup_s = 3;
    struct report *report = fixture_open();
    json_t *json = fixture_json(&run, 1);
    json_array_set_new(at(json, "runs/0/intervals/read/p50_us"), 4, json_null());
    assert_int_equal(fixture_add_json(report, "one.json", json), FIRN_OK);
    const struct report_run *loaded = &report->runs[0];
    assert_int_equal(loaded->interval_count, 20);
    assert_int_equal(loaded->judged_first, 3);
    assert_true(isnan(loaded->kinds[0].columns.columns[KIND_P50_US].values[4]));
    assert_close(loaded->kinds[0].columns.columns[KIND_MAX_US].values[2], 605);
    /* Syncs are not counted into the rate. */
    assert_close(loaded->rate[5], floor(fixture_rate(&run, 5)));
    assert_close(loaded->mib[5], floor(fixture_rate(&run, 5)) * 16384 / 1048576);
    assert_close(loaded->device.columns[DEVICE_UTIL_PERCENT].values[0], 98.5);
    assert_null(loaded->device.columns[DEVICE_R_AWAIT_MS].values);
    report_close(report);
}

static void only_syncs_count_when_there_is_nothing_else(void **state)
{
    (void)state;
    struct fixture_run run = plain;
    run.kind = "sync";
    struct report *report = fixture_report(&run, 1);
    assert_close(report->runs[0].rate[5], floor(fixture_rate(&run, 5)));
    report_close(report);
}

static void long_runs_keep_bounded_heat_maps_with_every_operation(void **state)
{
    (void)state;
    struct fixture_run run = plain;
    run.count = 2 * REPORT_HEAT_CELLS_MAX + 1;
    struct report *report = fixture_report(&run, 1);
    const struct report_heat *heat = &report->runs[0].kinds[0].heat;
    assert_int_equal(heat->intervals_per_cell, 3);
    assert_int_equal(heat->cell_count, 4801);
    double sum = 0;
    for (unsigned i = 0; i < heat->first[heat->cell_count]; i++)
        sum += heat->counts[i];
    assert_close(sum, 4.0 * run.count);
    assert_int_equal(heat->buckets[0], 66);
    report_close(report);
}

static void commands_are_kept_as_a_shell_takes_them(void **state)
{
    (void)state;
    struct report *report = fixture_open();
    json_t *json = fixture_json(&plain, 1);
    json_object_set_new(json, "command",
                        json_pack("[sssss]", "firn", "--a=1", "two words", "it's", ""));
    assert_int_equal(fixture_add_json(report, "one.json", json), FIRN_OK);
    assert_string_equal(report->files[0].command, "firn --a=1 'two words' 'it'\\''s' ''");
    report_close(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_result_is_refused_by_name_and_reason),
        cmocka_unit_test(a_cut_file_is_refused_wherever_it_was_cut),
        cmocka_unit_test(no_runs_is_nothing_to_report),
        cmocka_unit_test(paths_that_cannot_be_read_are_named),
        cmocka_unit_test(a_file_given_twice_is_no_repeat),
        cmocka_unit_test(every_required_member_is_missed_by_its_name),
        cmocka_unit_test(members_of_a_wrong_form_are_refused),
        cmocka_unit_test(optional_and_unknown_members_may_be_there_or_not),
        cmocka_unit_test(columns_and_rates_are_those_of_the_file),
        cmocka_unit_test(only_syncs_count_when_there_is_nothing_else),
        cmocka_unit_test(long_runs_keep_bounded_heat_maps_with_every_operation),
        cmocka_unit_test(commands_are_kept_as_a_shell_takes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
