#include "base/memory.h"
#include "bench/made_series.h"
#include "bench/result.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/firn-test.XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    return rmdir(folder);
}

static const char *path_of(const char *name)
{
    static char path[160];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static unsigned files_in_folder(void)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static struct made_plan brief_plan(void)
{
    return (struct made_plan){
        .plan = {.run_s = 20, .interval_s = 1, .rate = 1000, .variation = 0.05},
        .write_share = 0.25,
        .mean_us = {100, 200, 300},
        .spread = 0.4,
        .seed = 1};
}

static struct result *open_result(void)
{
    static char *argv[] = {(char *)"firn", (char *)"fileio", (char *)"run"};
    struct result *result = NULL;
    assert_int_equal(result_open("A title", 3, argv, ".", &result), FIRN_OK);
    return result;
}

/* Write a result and read it back. */
static json_t *read_back(const struct result *result)
{
    const char *path = path_of("result.json");
    assert_int_equal(result_write(result, path), FIRN_OK);
    json_error_t error;
    json_t *document = json_load_file(path, 0, &error);
    if (document == NULL)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return document;
}

static json_t *at(json_t *object, const char *path)
{
    char copy[128];
    snprintf(copy, sizeof(copy), "%s", path);
    char *rest = NULL;
    for (char *word = strtok_r(copy, ".", &rest); word != NULL; word = strtok_r(NULL, ".", &rest)) {
        object = json_is_array(object) ? json_array_get(object, (size_t)strtoul(word, NULL, 10))
                                       : json_object_get(object, word);
        if (object == NULL)
            fail_msg("there is no %s", path);
    }
    return object;
}

static void a_run_is_read_back_as_it_was(void **state)
{
    (void)state;
    struct made_plan plan = brief_plan();
    struct made_result made = made_run_of(&plan);
    struct result *result = open_result();
    struct result_run run = made_result_run(&made, "random read");
    json_object_set_new(run.setup, "threads", json_integer(8));
    run.group = "by threads";
    run.group_x = 8;
    run.group_axis = "threads";
    run.extra = json_pack("{s:i}", "tries", 3);
    assert_int_equal(result_add(result, &run), FIRN_OK);
    json_t *document = read_back(result);

    assert_string_equal(json_string_value(at(document, "format")), "firn-result");
    assert_string_equal(json_string_value(at(document, "title")), "A title");
    assert_string_equal(json_string_value(at(document, "command.2")), "run");
    assert_string_equal(json_string_value(at(document, "firn.version")), firn_version());
    assert_true(json_integer_value(at(document, "machine.processors")) > 0);
    json_t *read = at(document, "runs.0");
    assert_string_equal(json_string_value(at(read, "name")), "random read");
    assert_string_equal(json_string_value(at(read, "group")), "by threads");
    assert_int_equal(json_integer_value(at(read, "group_x")), 8);
    assert_int_equal(json_integer_value(at(read, "setup.threads")), 8);
    assert_int_equal(json_integer_value(at(read, "extra.tries")), 3);
    assert_true(json_is_null(at(read, "modelled")));
    assert_string_equal(json_string_value(at(read, "start")), "2026-11-30T14:46:40Z");
    assert_int_equal(json_integer_value(at(read, "interval_s")), 1);
    for (unsigned k = 0; k < 2; k++) {
        char path[64];
        snprintf(path, sizeof(path), "intervals.%s.operations", MADE_KIND_NAMES[k]);
        json_t *column = at(read, path);
        assert_int_equal(json_array_size(column), made.series->count);
        for (unsigned i = 0; i < made.series->count; i++)
            assert_int_equal(json_integer_value(json_array_get(column, i)),
                             made.series->kinds[k].operations[i]);
        snprintf(path, sizeof(path), "intervals.%s.histogram.7", MADE_KIND_NAMES[k]);
        json_t *pairs = at(read, path);
        for (size_t n = 0; n < json_array_size(pairs); n++)
            assert_int_equal(json_integer_value(json_array_get(pairs, n)),
                             made.series->kinds[k].histogram[7][n]);
        snprintf(path, sizeof(path), "summary.%s.operations", MADE_KIND_NAMES[k]);
        assert_int_equal(json_integer_value(at(read, path)), made.total->kinds[k].latency_ns.count);
    }
    double max_us = json_number_value(at(read, "summary.read.latency.max_us"));
    double exact_us = (double)made.total->kinds[0].latency_ns.max / 1e3;
    assert_true(fabs(max_us - exact_us) < exact_us * 1e-4);
    assert_string_equal(json_string_value(at(read, "judgement.text")), made.text);
    assert_int_equal(json_array_size(at(read, "host.device.util_percent")), made.series->count);
    assert_string_equal(json_string_value(at(read, "host.device_name")), "sda");
    json_decref(document);
    result_close(result);
    made_free(&made);
}

static void kinds_that_did_nothing_are_left_out(void **state)
{
    (void)state;
    struct made_plan plan = brief_plan();
    struct made_result made = made_run_of(&plan);
    struct result *result = open_result();
    struct result_run run = made_result_run(&made, "no syncs");
    assert_int_equal(result_add(result, &run), FIRN_OK);
    json_t *read = at(result_document(result), "runs.0");
    assert_int_equal(json_array_size(at(read, "kinds")), 2);
    assert_null(json_object_get(at(read, "intervals"), "sync"));
    assert_null(json_object_get(at(read, "summary"), "sync"));
    made_free(&made);

    plan.plan.stalls = (struct train){1000, 1000, 0};
    made = made_run_of(&plan);
    run = made_result_run(&made, "nothing at all");
    run.host = NULL;
    assert_int_equal(result_add(result, &run), FIRN_OK);
    read = at(result_document(result), "runs.1");
    assert_int_equal(json_array_size(at(read, "kinds")), 3);
    assert_true(json_is_null(at(read, "intervals.read.p99_us.3")));
    assert_int_equal(json_integer_value(at(read, "summary.read.operations")), 0);
    assert_null(json_object_get(at(read, "summary.read"), "latency"));
    assert_null(json_object_get(read, "host"));
    made_free(&made);
    result_close(result);
}

static void a_device_that_is_gone_for_a_while_leaves_nulls(void **state)
{
    (void)state;
    struct made_plan plan = brief_plan();
    struct made_result made = made_run_of(&plan);
    made.host[4].has_device = false;
    made.host[5].device.util_percent = NAN;
    made.host[6].device.util_percent = INFINITY;
    struct result *result = open_result();
    struct result_run run = made_result_run(&made, "a");
    assert_int_equal(result_add(result, &run), FIRN_OK);
    json_t *document = read_back(result);
    assert_true(json_is_number(at(document, "runs.0.host.device.util_percent.3")));
    for (unsigned i = 4; i <= 6; i++)
        assert_true(
            json_is_null(json_array_get(at(document, "runs.0.host.device.util_percent"), i)));
    assert_true(json_is_number(at(document, "runs.0.host.cpu.idle_percent.4")));
    json_decref(document);
    for (unsigned i = 0; i < made.series->count; i++)
        made.host[i].has_device = false;
    run = made_result_run(&made, "b");
    assert_int_equal(result_add(result, &run), FIRN_OK);
    assert_null(json_object_get(at(result_document(result), "runs.1.host"), "device"));
    result_close(result);
    made_free(&made);
}

static void texts_may_hold_any_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *written;
    } cases[] = {
        {"plain", "plain"},
        {"\xe2\x98\x83 snow", "\xe2\x98\x83 snow"},
        {"\xff", "\\xff"},
        {"a\xc3", "a\\xc3"},
        {"\xc0\xaf", "\\xc0\\xaf"},                   /* overlong */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* past U+10FFFF */
        {"\xe2\x98\x83\xe2\x98", "\xe2\x98\x83\\xe2\\x98"},
        {"quote \" back \\ line \n", "quote \" back \\ line \n"},
    };
    struct made_plan plan = brief_plan();
    struct made_result made = made_run_of(&plan);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *argv[] = {(char *)(uintptr_t)cases[i].text};
        struct result *result = NULL;
        assert_int_equal(result_open(cases[i].text, 1, argv, cases[i].text, &result), FIRN_OK);
        struct result_run run = made_result_run(&made, cases[i].text);
        run.storage = cases[i].text;
        run.model = cases[i].text;
        assert_int_equal(result_add(result, &run), FIRN_OK);
        json_t *document = read_back(result);
        static const char *const places[] = {"title", "command.0", "runs.0.name", "runs.0.storage",
                                             "runs.0.modelled.device"};
        for (unsigned p = 0; p < 5; p++)
            assert_string_equal(json_string_value(at(document, places[p])), cases[i].written);
        json_decref(document);
        result_close(result);
    }
    made_free(&made);
}

static void numbers_have_no_digits_that_say_nothing(void **state)
{
    (void)state;
    struct made_plan plan = brief_plan();
    plan.plan.interval_s = 0.1; /* no double is a tenth */
    plan.plan.run_s = 5;
    struct made_result made = made_run_of(&plan);
    struct result *result = open_result();
    struct result_run run = made_result_run(&made, "a");
    assert_int_equal(result_add(result, &run), FIRN_OK);
    assert_int_equal(result_write(result, path_of("result.json")), FIRN_OK);
    FILE *in = fopen(path_of("result.json"), "r");
    assert_non_null(in);
    unsigned digits = 0;
    unsigned most = 0;
    bool fraction = false;
    for (int c = fgetc(in); c != EOF; c = fgetc(in)) {
        fraction = c == '.' || (fraction && c >= '0' && c <= '9');
        digits = !fraction ? 0 : digits + 1;
        most = digits > most ? digits : most;
    }
    fclose(in);
    assert_true(most > 2);
    assert_true(most <= 10); /* a point and nanoseconds of a second */
    result_close(result);
    made_free(&made);
}

static void a_name_is_given_once(void **state)
{
    (void)state;
    struct made_plan plan = brief_plan();
    struct made_result made = made_run_of(&plan);
    struct result *result = open_result();
    struct result_run run = made_result_run(&made, "the\xff name");
    assert_int_equal(result_add(result, &run), FIRN_OK);
    run = made_result_run(&made, "the\xff name");
    run.extra = json_object();
    assert_int_equal(result_add(result, &run), FIRN_E_EXISTS);
    assert_int_equal(json_array_size(at(result_document(result), "runs")), 1);
    result_close(result);
    made_free(&made);
}

static void a_file_is_replaced_whole_or_not_at_all(void **state)
{
    (void)state;
    struct result *result = open_result();
    json_decref(read_back(result));
    assert_int_equal(files_in_folder(), 1);
    json_decref(read_back(result)); /* over the first */
    assert_int_equal(files_in_folder(), 1);

    char missing[128];
    snprintf(missing, sizeof(missing), "%s/no/result.json", folder);
    assert_int_equal(result_write(result, missing), FIRN_E_NOT_FOUND);
    assert_non_null(strstr(firn_error_text(), missing));
    assert_true(result_write(result, folder) != FIRN_OK); /* a directory */
    assert_int_equal(files_in_folder(), 1);
    assert_int_equal(result_write(result, "/dev/full"), FIRN_E_NOSPACE);
    struct stat status;
    assert_int_equal(stat("/dev/full", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    result_close(result);
}

static void a_pipe_is_written_to(void **state)
{
    (void)state;
    const char *path = path_of("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC); /* both ends, so that nobody waits */
    assert_true(fd >= 0);
    struct result *result = open_result();
    assert_int_equal(result_write(result, path), FIRN_OK);
    char first[2] = {0};
    assert_int_equal(read(fd, first, 1), 1);
    assert_string_equal(first, "{");
    close(fd);
    result_close(result);
}

/* jansson is given our allocator, so that each of its allocations fails once too. What describes
   the machine does without; so failures end only where many in a row did not matter. */
enum { IN_A_ROW = 40 };

static void memory_that_runs_out_is_reported(void **state)
{
    (void)state;
    struct made_plan plan = brief_plan();
    plan.plan.run_s = 4;
    struct made_result made = made_run_of(&plan);
    json_set_alloc_funcs(memory_alloc, memory_free);
    char *argv[] = {(char *)"firn", (char *)"\xff"};
    struct result *result = NULL;
    unsigned failures = 0;
    unsigned good = 0;
    for (long k = 0; good < IN_A_ROW; k++) {
        result_close(result);
        result = NULL;
        memory_fail_after(k);
        firn_rc rc = result_open("title", 2, argv, ".", &result);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        good = rc == FIRN_OK ? good + 1 : 0;
        failures += rc != FIRN_OK;
    }
    assert_true(failures > 40);
    unsigned added = 0;
    failures = 0;
    good = 0;
    for (long k = 0; good < IN_A_ROW; k++) {
        char name[32];
        snprintf(name, sizeof(name), "run %ld", k);
        struct result_run run = made_result_run(&made, name);
        memory_fail_after(k);
        firn_rc rc = result_add(result, &run);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        good = rc == FIRN_OK ? good + 1 : 0;
        failures += rc != FIRN_OK;
        added += rc == FIRN_OK;
        assert_int_equal(json_array_size(at(result_document(result), "runs")), added);
    }
    assert_true(failures > 200);
    result_close(result);
    json_set_alloc_funcs(malloc, free);
    made_free(&made);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_is_read_back_as_it_was),
        TEST(kinds_that_did_nothing_are_left_out),
        TEST(a_device_that_is_gone_for_a_while_leaves_nulls),
        TEST(texts_may_hold_any_bytes),
        TEST(numbers_have_no_digits_that_say_nothing),
        TEST(a_name_is_given_once),
        TEST(a_file_is_replaced_whole_or_not_at_all),
        TEST(a_pipe_is_written_to),
        TEST(memory_that_runs_out_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
