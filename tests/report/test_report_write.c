/* What is written: escapings, packed columns, CSV, JSON, the page, the gnuplot script. */
#include "report/picture_internal.h"
#include "report/report_fixture.h"

#include "base/memory.h"

#include <stdio.h>

static const char hostile[] =
    "</script><script>alert(1)</script>\"'&<img src=x>\xe2\x80\xa8`rm`\n=x";

/* ---- A stream into memory ---- */

struct output {
    FILE *stream;
    char *text;
    size_t size_bytes;
};

static void output_open(struct output *output)
{
    output->stream = open_memstream(&output->text, &output->size_bytes);
    assert_non_null(output->stream);
}

static const char *output_text(struct output *output)
{
    fflush(output->stream);
    return output->text;
}

static void output_close(struct output *output)
{
    fclose(output->stream);
    free(output->text);
}

static unsigned occurrences(const char *text, const char *words)
{
    unsigned count = 0;
    while ((text = strstr(text, words)) != NULL) {
        count++;
        text += strlen(words);
    }
    return count;
}

/* ---- Escapings ---- */

static void each_language_gets_its_escaping(void **state)
{
    (void)state;
    static const struct {
        void (*put)(FILE *out, const char *text);
        const char *text, *expected;
    } cases[] = {
        {report_put_html, "a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#39;"},
        {report_put_csv, "plain", "\"plain\""},
        {report_put_csv, "a \"b\", c", "\"a \"\"b\"\", c\""},
        {report_put_csv, "=1+1", "\"'=1+1\""},
        {report_put_csv, "+1", "\"'+1\""},
        {report_put_csv, "-1", "\"'-1\""},
        {report_put_csv, "@x", "\"'@x\""},
        {report_put_csv, "\t=1", "\"'\t=1\""},
        {report_put_gnuplot, "it's `x` @y \\n", "'it''s `x` @y \\n'"},
        {report_put_gnuplot, "two\nlines\xe2\x80\xa8more", "'two linesmore'"},
        {report_put_terminal,
         "a\x1b[2Jb\xc2\x9b"
         "c\xc3\xa4",
         "a?[2Jb?c\xc3\xa4"},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct output output;
        output_open(&output);
        cases[i].put(output.stream, cases[i].text);
        assert_string_equal(output_text(&output), cases[i].expected);
        output_close(&output);
    }
}

static void json_in_a_script_cannot_end_it_and_says_the_same(void **state)
{
    (void)state;
    struct output output;
    json_t *value = json_pack("{ss}", "<!--name&", hostile);
    output_open(&output);
    assert_int_equal(report_put_json(output.stream, value), FIRN_OK);
    assert_null(strpbrk(output_text(&output), "<>&'"));
    assert_null(strstr(output_text(&output), "\xe2\x80\xa8"));
    json_t *again = json_loads(output_text(&output), 0, NULL);
    assert_true(json_equal(value, again));
    json_decref(value);
    json_decref(again);
    output_close(&output);
    assert_int_equal(report_put_json(stderr, NULL), FIRN_E_NOMEM);
}

static void slugs_are_safe_names_of_files(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"Random read, depth 32", "random-read-depth-32"},
        {"../../etc/passwd", "etc-passwd"},
        {"", "run"},
        {"\xc3\xa4\xc3\xb6", "run"},
        {"--x--", "x"},
        {"0123456789012345678901234567890123456789tail", "012345678901234567890123456789012345678"},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char slug[REPORT_SLUG_BYTES];
        report_slug(cases[i][0], slug);
        assert_string_equal(slug, cases[i][1]);
    }
}

/* ---- Packed columns ---- */

/* Unpack as the page does: see data.js. */
static unsigned unpack(const json_t *packed, double *values)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    double scale = json_number_value(json_array_get(packed, 0));
    const char *text = json_string_value(json_array_get(packed, 1));
    uint8_t bytes[4096];
    unsigned size = 0;
    unsigned bits = 0;
    unsigned held = 0;
    for (; *text != '\0' && *text != '='; text++) {
        bits = bits << 6 | (unsigned)(strchr(digits, *text) - digits);
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes[size++] = (uint8_t)(bits >> held);
        }
    }
    unsigned count = 0;
    double before = 0;
    for (unsigned i = 0; i < size;) {
        double number = 0;
        double factor = 1;
        do {
            number += (bytes[i] & 127) * factor;
            factor *= 128;
        } while (bytes[i++] & 128);
        if (number == 0) {
            values[count++] = NAN;
            continue;
        }
        number--;
        before += fmod(number, 2) != 0 ? -(number + 1) / 2 : number / 2;
        values[count++] = before / scale;
    }
    return count;
}

static void columns_come_back_to_four_digits(void **state)
{
    (void)state;
    static const double columns[][6] = {
        {0, 1, 2, 3, 100000, 7},
        {71.234567, 70.9, 71.3, NAN, NAN, 3.6e9},
        {NAN, NAN, NAN, NAN, NAN, NAN},
        {0, 0, 0, 0, 0, 0},
        {147456000, 147472384, 0, 147456000, 1, 2},
        {0.25, 99.75, 100, 0, 12.5, 0.001},
        {1e15, 1, 1e15, 2, 1e15, 3},
    };
    for (unsigned c = 0; c < sizeof(columns) / sizeof(columns[0]); c++)
        for (unsigned count = 0; count <= 6; count++) {
            json_t *packed = report_pack_column(columns[c], count);
            double values[4096];
            assert_int_equal(unpack(packed, values), count);
            for (unsigned i = 0; i < count; i++) {
                if (isnan(columns[c][i]))
                    assert_true(isnan(values[i]));
                else
                    assert_true(fabs(values[i] - columns[c][i]) <= columns[c][i] * 5e-4 + 5e-7);
            }
            json_decref(packed);
        }
}

static void columns_of_any_size_of_number_can_be_packed(void **state)
{
    (void)state;
    static const double column[] = {1e308, 5e-324, 1e300, 0, 1e18, 4503599627370497.0};
    json_t *packed = report_pack_column(column, 6);
    double values[4096];
    assert_int_equal(unpack(packed, values), 6);
    assert_true(isfinite(values[0]));
    json_decref(packed);
}

/* ---- Tables ---- */

static struct report *hostile_report(void)
{
    struct fixture_run runs[] = {{.name = hostile,
                                  .rate = 1000,
                                  .spread = 0.1,
                                  .kind = hostile,
                                  .model = hostile,
                                  .group = hostile,
                                  .mode = hostile,
                                  .threads = 1},
                                 {.name = "=cmd",
                                  .rate = 500,
                                  .spread = 0.1,
                                  .sync = true,
                                  .group = hostile,
                                  .threads = 2,
                                  .stall_s = 2}};
    struct report *report = fixture_open();
    json_t *json = fixture_json(runs, 2);
    json_object_set_new(json, "title", json_string(hostile));
    json_object_set_new(json, "command", json_pack("[s]", hostile));
    json_object_set_new(json_object_get(json, "machine"), hostile, json_string(hostile));
    json_object_set_new(
        json, "verdict",
        json_pack("[{ssssss}]", "severity", "warns", "topic", hostile, "text", hostile));
    assert_int_equal(fixture_add_json(report, "=<b>.json", json), FIRN_OK);
    assert_int_equal(report_summarize(report, "=cmd"), FIRN_OK);
    return report;
}

static unsigned fields_of_line(const char *line)
{
    unsigned fields = 1;
    bool quoted = false;
    for (; *line != '\0' && (quoted || *line != '\n'); line++) {
        quoted ^= *line == '"';
        fields += !quoted && *line == ',';
    }
    return fields;
}

/* The start of the next record: a line break in quotes ends none. */
static const char *next_record(const char *line)
{
    bool quoted = false;
    for (; *line != '\0' && (quoted || *line != '\n'); line++)
        quoted ^= *line == '"';
    return *line == '\n' ? line + 1 : line;
}

static void csv_lines_have_as_many_fields_as_their_head(void **state)
{
    (void)state;
    struct report *report = hostile_report();
    struct output output;
    output_open(&output);
    report_write_summary_csv(report, output.stream);
    const char *line = output_text(&output);
    unsigned fields = fields_of_line(line);
    unsigned lines = 0;
    for (; *line != '\0'; line = next_record(line), lines++)
        assert_int_equal(fields_of_line(line), fields);
    assert_int_equal(lines, 1 + 1 + 2);
    assert_non_null(strstr(output.text, "\"'=cmd\""));
    output_close(&output);
    for (unsigned i = 0; i < 2; i++) {
        output_open(&output);
        report_write_intervals_csv(&report->runs[i], output.stream);
        line = output_text(&output);
        fields = fields_of_line(line);
        for (lines = 0; *line != '\0'; line = next_record(line), lines++)
            assert_int_equal(fields_of_line(line), fields);
        assert_int_equal(lines, 21);
        output_close(&output);
    }
    report_close(report);
}

static void the_table_as_json_has_its_figures(void **state)
{
    (void)state;
    struct fixture_run runs[] = {{.name = "a", .rate = 1000, .spread = 0.1},
                                 {.name = "b", .rate = 2000, .spread = 0.1, .threads = 8}};
    struct report *report = fixture_report(runs, 2);
    json_t *table = report_json(report);
    const char *label;
    const char *differing;
    double median, ratio, p99;
    assert_int_equal(json_unpack(json_array_get(json_object_get(table, "runs"), 1),
                                 "{sss{sf}s{sfss}s[{s{sf}}]}", "label", &label, "operations_per_s",
                                 "median", &median, "ratio", "ratio", &ratio, "differing",
                                 &differing, "kinds", "latency_us", "p99", &p99),
                     0);
    assert_string_equal(label, "b");
    assert_close(median, report->rows[1].rate.median);
    assert_close(ratio, report->rows[1].ratio.ratio);
    assert_close(p99, 300);
    assert_string_equal(differing, "threads");
    json_decref(table);
    report_close(report);
}

static void the_text_shows_every_run_and_no_control_character(void **state)
{
    (void)state;
    struct report *report = hostile_report();
    struct output output;
    output_open(&output);
    assert_int_equal(report_print(report, output.stream), FIRN_OK);
    const char *text = output_text(&output);
    assert_non_null(strstr(text, "\n=cmd "));
    assert_non_null(strstr(text, "(modelled)"));
    for (const char *c = text; *c != '\0'; c++)
        assert_true((unsigned char)*c >= ' ' || *c == '\n');
    output_close(&output);
    report_close(report);
}

static void each_figure_stands_below_its_head(void **state)
{
    (void)state;
    static const char *const heads[] = {"ops/s", "95% interval", "mean", "MiB/s",  "varies",
                                        "p50",   "p99",          "max",  "silence"};
    static const char *const figures[] = {"1 k",    "1 k - 1 k", "1.23 k", "15.62",  "0%",
                                          "100 us", "300 us",    "500 us", "1.25 ms"};
    struct fixture_run run = {.name = "a run", .rate = 1000};
    struct report *report = fixture_report(&run, 1);
    report->rows[0].mean_rate = 1230;
    struct output output;
    output_open(&output);
    assert_int_equal(report_print(report, output.stream), FIRN_OK);
    const char *head = output_text(&output);
    const char *line = strchr(head, '\n') + 1;
    for (unsigned i = 0; i < 9; i++) {
        const char *place = strstr(head, heads[i]);
        assert_non_null(place);
        size_t end = (size_t)(place - head) + strlen(heads[i]);
        assert_memory_equal(line + end - strlen(figures[i]), figures[i], strlen(figures[i]));
    }
    output_close(&output);
    report_close(report);
}

/* ---- The page ---- */

static void the_page_holds_hostile_names_as_text_only(void **state)
{
    (void)state;
    struct report *report = hostile_report();
    struct output output;
    output_open(&output);
    assert_int_equal(report_write_page(report, output.stream), FIRN_OK);
    const char *page = output_text(&output);
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "{{title}}"));
    assert_null(strstr(page, "{{data}}"));
    assert_null(strstr(page, "alert(1)</script"));
    /* The script, the table's data, and each run's columns; nothing else opens or closes one. */
    assert_int_equal(occurrences(page, "</script>"), 2 + report->run_count);
    assert_int_equal(occurrences(page, "<script"), 2 + report->run_count);
    assert_int_equal(occurrences(page, "<script nonce="), 1);
    assert_non_null(strstr(page, "default-src 'none'; script-src 'nonce-"));
    assert_non_null(strstr(page, "class=\"badge modelled\""));
    assert_null(strstr(page, "http://"));
    output_close(&output);
    report_close(report);
}

static void no_two_pages_have_one_nonce(void **state)
{
    (void)state;
    struct fixture_run run = {.name = "a", .rate = 1000};
    struct report *report = fixture_report(&run, 1);
    struct output one, two;
    output_open(&one);
    output_open(&two);
    assert_int_equal(report_write_page(report, one.stream), FIRN_OK);
    assert_int_equal(report_write_page(report, two.stream), FIRN_OK);
    assert_string_not_equal(output_text(&one), output_text(&two));
    output_close(&one);
    output_close(&two);
    report_close(report);
}

static void unlike_setups_are_warned_of_where_they_are_compared(void **state)
{
    (void)state;
    for (int other_mode = 0; other_mode < 2; other_mode++) {
        struct fixture_run runs[] = {{.name = "a", .rate = 1000},
                                     {.name = "b", .rate = 2000, .threads = 8}};
        runs[1].mode = other_mode ? "rndwr" : NULL;
        struct report *report = fixture_open();
        fixture_add(report, "r.json", runs, 2);
        assert_int_equal(report_summarize(report, "a"), FIRN_OK);
        struct output output;
        output_open(&output);
        assert_int_equal(report_write_page(report, output.stream), FIRN_OK);
        bool hidden = strstr(output_text(&output), "role=\"status\" hidden>") != NULL;
        assert_int_equal(hidden, !other_mode);
        assert_int_equal(occurrences(output.text, "differs in: file_test_mode, threads"),
                         other_mode);
        output_close(&output);
        report_close(report);
    }
}

/* ---- The script of the pictures ---- */

static void the_script_quotes_hostile_names(void **state)
{
    (void)state;
    struct report *report = hostile_report();
    struct output output;
    output_open(&output);
    report_write_script(report, output.stream);
    const char *script = output_text(&output);
    /* Every line break within a name is gone, so no line starts with what followed one. */
    assert_null(strstr(script, "\n=x"));
    assert_non_null(strstr(script, "'</script><script>alert(1)</script>\"''&<img"));
    output_close(&output);
    report_close(report);
}

static void sampled_columns_keep_their_extremes(void **state)
{
    (void)state;
    struct fixture_run run = {.name = "long", .rate = 1000, .count = 10000};
    struct report *report = fixture_open();
    json_t *json = fixture_json(&run, 1);
    json_t *intervals =
        json_object_get(json_array_get(json_object_get(json, "runs"), 0), "intervals");
    json_t *operations = json_object_get(json_object_get(intervals, "read"), "operations");
    json_array_set_new(operations, 4321, json_integer(7));
    json_array_set_new(operations, 8765, json_integer(98765));
    assert_int_equal(fixture_add_json(report, "long.json", json), FIRN_OK);
    assert_int_equal(report_summarize(report, NULL), FIRN_OK);
    struct output output;
    output_open(&output);
    picture_write_data(report, output.stream);
    char *block = strdup(output_text(&output));
    *strstr(block, "EOD\n$") = '\0';
    assert_true(occurrences(block, "\n") < 3200);
    assert_non_null(strstr(block, " 7 "));
    assert_non_null(strstr(block, " 98765 "));
    free(block);
    output_close(&output);
    report_close(report);
}

static void every_picture_has_a_name_of_its_own(void **state)
{
    (void)state;
    struct report *report = hostile_report();
    char names[32][PICTURE_NAME_BYTES];
    unsigned count = 0;
    for (; report_picture_name(report, count, names[count]); count++)
        for (unsigned i = 0; i < count; i++)
            assert_string_not_equal(names[i], names[count]);
    assert_int_equal(count, 6 + 1 + 1 + 2);
    report_close(report);
}

/* ---- Memory ---- */

static firn_rc make_everything(const char *text, FILE *nowhere)
{
    struct report *report = NULL;
    firn_rc rc = report_open(&report);
    if (rc == FIRN_OK)
        rc = report_add_memory(report, "a.json", text, strlen(text));
    if (rc == FIRN_OK)
        rc = report_add_memory(report, "b.json", text, strlen(text));
    if (rc == FIRN_OK)
        rc = report_summarize(report, NULL);
    if (rc == FIRN_OK)
        rc = report_print(report, nowhere);
    if (rc == FIRN_OK)
        rc = report_write_page(report, nowhere);
    report_close(report);
    return rc;
}

static void every_failed_allocation_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    struct fixture_run runs[] = {{.name = "a", .rate = 1000, .sync = true, .group = "g"},
                                 {.name = "b", .rate = 2000, .model = "hdd", .stall_s = 2}};
    json_t *json = fixture_json(runs, 2);
    char *text = json_dumps(json, 0);
    FILE *nowhere = fopen("/dev/null", "w");
    firn_rc rc = FIRN_E_NOMEM;
    long successes = 0;
    for (; rc != FIRN_OK && successes < 5000; successes++) {
        memory_fail_after(successes);
        rc = make_everything(text, nowhere);
        memory_fail_after(-1);
        if (rc != FIRN_OK)
            assert_int_equal(rc, FIRN_E_NOMEM);
    }
    assert_int_equal(rc, FIRN_OK);
    assert_true(successes > 100);
    fclose(nowhere);
    free(text);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_language_gets_its_escaping),
        cmocka_unit_test(json_in_a_script_cannot_end_it_and_says_the_same),
        cmocka_unit_test(slugs_are_safe_names_of_files),
        cmocka_unit_test(columns_come_back_to_four_digits),
        cmocka_unit_test(columns_of_any_size_of_number_can_be_packed),
        cmocka_unit_test(csv_lines_have_as_many_fields_as_their_head),
        cmocka_unit_test(the_table_as_json_has_its_figures),
        cmocka_unit_test(the_text_shows_every_run_and_no_control_character),
        cmocka_unit_test(each_figure_stands_below_its_head),
        cmocka_unit_test(the_page_holds_hostile_names_as_text_only),
        cmocka_unit_test(no_two_pages_have_one_nonce),
        cmocka_unit_test(unlike_setups_are_warned_of_where_they_are_compared),
        cmocka_unit_test(the_script_quotes_hostile_names),
        cmocka_unit_test(sampled_columns_keep_their_extremes),
        cmocka_unit_test(every_picture_has_a_name_of_its_own),
        cmocka_unit_test(every_failed_allocation_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
