/* The directory of a report: what is written, what replaced, what never touched. */
#include "report/report_fixture.h"

#include "base/log.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct fixture_run runs[] = {{.name = "one", .rate = 1000, .spread = 0.1},
                                          {.name = "two", .rate = 2000, .spread = 0.1}};

static char scratch[] = "/tmp/firn-test-report-XXXXXX";

static int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch + sizeof(scratch) - 7, "XXXXXX");
    return mkdtemp(scratch) == NULL;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int remove_scratch(void **state)
{
    (void)state;
    return nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", scratch, name);
    return path;
}

static bool exists(const char *name)
{
    struct stat status;
    return lstat(path_of(name), &status) == 0;
}

static void put_file(const char *name, const char *text)
{
    FILE *out = fopen(path_of(name), "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static void assert_file_is(const char *name, const char *text)
{
    char got[256] = "";
    FILE *in = fopen(path_of(name), "r");
    assert_non_null(in);
    got[fread(got, 1, sizeof(got) - 1, in)] = '\0';
    fclose(in);
    assert_string_equal(got, text);
}

static firn_rc write_report(unsigned count, const char *directory, bool pictures)
{
    struct report *report = fixture_report(runs, count);
    char path[512];
    snprintf(path, sizeof(path), "%s", path_of(directory));
    struct report_output output = {.directory = path, .pictures = pictures};
    firn_rc rc = report_write(report, &output);
    report_close(report);
    return rc;
}

static unsigned count_files(const char *name)
{
    DIR *directory = opendir(path_of(name));
    assert_non_null(directory);
    unsigned count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(directory);
    return count;
}

static void a_report_is_a_directory_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(write_report(2, "r", false), FIRN_OK);
    assert_true(exists("r/report.html"));
    assert_true(exists("r/summary.csv"));
    assert_true(exists("r/intervals-01-one.csv"));
    assert_true(exists("r/intervals-02-two.csv"));
    assert_false(exists("r/pictures"));
    assert_int_equal(count_files("r"), 5);
    struct stat status;
    assert_int_equal(stat(path_of("r"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(stat(path_of("r/report.html"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void an_earlier_report_is_replaced_whole(void **state)
{
    (void)state;
    assert_int_equal(write_report(2, "r", false), FIRN_OK);
    put_file("r/mine.txt", "keep me");
    assert_int_equal(write_report(1, "r", false), FIRN_OK);
    assert_false(exists("r/intervals-02-two.csv"));
    assert_true(exists("r/intervals-01-one.csv"));
    assert_file_is("r/mine.txt", "keep me");
    assert_int_equal(count_files("r"), 5);
}

static void other_peoples_files_are_refused_before_anything_is_written(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("r"), 0700), 0);
    put_file("r/summary.csv", "my own sums");
    assert_int_equal(write_report(2, "r", false), FIRN_E_EXISTS);
    assert_non_null(strstr(firn_error_text(), "r/summary.csv exists"));
    assert_file_is("r/summary.csv", "my own sums");
    assert_int_equal(count_files("r"), 1);
}

static void a_list_of_another_kind_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("r"), 0700), 0);
    put_file("r/report.files", "shopping\n");
    assert_int_equal(write_report(1, "r", false), FIRN_E_EXISTS);
    assert_file_is("r/report.files", "shopping\n");
    assert_int_equal(count_files("r"), 1);
}

static void a_list_cannot_lead_out_of_the_directory(void **state)
{
    (void)state;
    put_file("precious", "gold");
    assert_int_equal(mkdir(path_of("r"), 0700), 0);
    char list[600];
    snprintf(list, sizeof(list), "firn-report 1\n../precious\n%s\nx/../../precious\n",
             path_of("precious"));
    put_file("r/report.files", list);
    assert_int_equal(write_report(1, "r", false), FIRN_OK);
    assert_file_is("precious", "gold");
}

static void links_are_replaced_and_not_followed(void **state)
{
    (void)state;
    put_file("precious", "gold");
    assert_int_equal(write_report(1, "r", false), FIRN_OK);
    char target[512];
    snprintf(target, sizeof(target), "%s", path_of("precious"));
    assert_int_equal(unlink(path_of("r/report.html")), 0);
    assert_int_equal(symlink(target, path_of("r/report.html")), 0);
    assert_int_equal(write_report(1, "r", false), FIRN_OK);
    assert_file_is("precious", "gold");
}

static void a_file_in_the_directorys_place_is_refused(void **state)
{
    (void)state;
    put_file("r", "text");
    assert_int_equal(write_report(1, "r", false), FIRN_E_EXISTS);
    assert_non_null(strstr(firn_error_text(), "r is a file"));
    assert_file_is("r", "text");
    assert_int_equal(write_report(1, "no/such/place", false), FIRN_E_NOT_FOUND);
}

static void count_warning(enum log_level level, const char *text, void *context)
{
    assert_int_equal(level, LOG_WARNING);
    assert_non_null(strstr(text, "gnuplot"));
    ++*(unsigned *)context;
}

static void without_gnuplot_there_is_one_warning_and_the_script(void **state)
{
    (void)state;
    unsigned warnings = 0;
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "/nowhere", 1);
    log_set_sink(count_warning, &warnings);
    firn_rc rc = write_report(2, "r", true);
    log_set_sink(NULL, NULL);
    setenv("PATH", path, 1);
    free(path);
    assert_int_equal(rc, FIRN_OK);
    assert_int_equal(warnings, 1);
    assert_true(exists("r/report.html"));
    assert_true(exists("r/pictures/pictures.gp"));
    assert_int_equal(count_files("r/pictures"), 1);
}

#define test_in_scratch(test) cmocka_unit_test_setup_teardown(test, make_scratch, remove_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_in_scratch(a_report_is_a_directory_of_its_own),
        test_in_scratch(an_earlier_report_is_replaced_whole),
        test_in_scratch(other_peoples_files_are_refused_before_anything_is_written),
        test_in_scratch(a_list_of_another_kind_is_refused),
        test_in_scratch(a_list_cannot_lead_out_of_the_directory),
        test_in_scratch(links_are_replaced_and_not_followed),
        test_in_scratch(a_file_in_the_directorys_place_is_refused),
        test_in_scratch(without_gnuplot_there_is_one_warning_and_the_script),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
