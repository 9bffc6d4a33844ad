#include "cli/progress_internal.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t START_NS = 1000 * NS_PER_S;

static struct progress bytes_progress(FILE *out)
{
    return (struct progress){.out = out,
                             .label = "prepare",
                             .unit = PROGRESS_BYTES,
                             .total = 1024.0 * 1024 * 1024,
                             .start_ns = START_NS};
}

static void a_line_tells_share_rate_and_time_left(void **state)
{
    (void)state;
    char text[PROGRESS_TEXT_BYTES];
    struct progress progress = bytes_progress(NULL);
    progress_format(&progress, 256.0 * 1024 * 1024, START_NS + 10 * NS_PER_S, 80, text);
    assert_string_equal(text, " 25 %  30 s left  25.6 MiB/s  prepare");
    progress_format(&progress, 1024.0 * 1024, START_NS + 10 * NS_PER_S, 80, text);
    assert_string_equal(text, "  0 %  2:50 h left  102 KiB/s  prepare");
    progress.unit = PROGRESS_COUNT;
    progress.total = 1e6;
    progress_format(&progress, 4e5, START_NS + 40 * NS_PER_S, 80, text);
    assert_string_equal(text, " 40 %  1:00 min left  10 k/s  prepare");
}

static void a_plan_has_no_rate(void **state)
{
    (void)state;
    char text[PROGRESS_TEXT_BYTES];
    struct progress progress = {
        .label = "random reads", .unit = PROGRESS_SHARE, .total = 240e9, .start_ns = START_NS};
    progress_format(&progress, 60e9, START_NS + 60 * NS_PER_S, 80, text);
    assert_string_equal(text, " 25 %  3:00 min left  random reads");
    progress_format(&progress, 250e9, START_NS + 260 * NS_PER_S, 80, text);
    assert_string_equal(text, "100 %  0 s left  random reads");
}

static void a_narrow_terminal_cuts_the_line(void **state)
{
    (void)state;
    char text[PROGRESS_TEXT_BYTES];
    struct progress progress = bytes_progress(NULL);
    progress_format(&progress, 256.0 * 1024 * 1024, START_NS + 10 * NS_PER_S, 20, text);
    assert_int_equal(strlen(text), 19);
}

static void short_work_and_quick_updates_draw_nothing(void **state)
{
    (void)state;
    struct progress progress = bytes_progress(NULL);
    assert_false(progress_is_due(&progress, 1, START_NS + 2 * NS_PER_S - 1));
    assert_true(progress_is_due(&progress, 1, START_NS + 2 * NS_PER_S));
    assert_false(progress_is_due(&progress, progress.total, START_NS + 2 * NS_PER_S));
    progress.drawn_ns = START_NS + 2 * NS_PER_S;
    assert_false(progress_is_due(&progress, 1, progress.drawn_ns + 199 * NS_PER_MS));
    assert_true(progress_is_due(&progress, 1, progress.drawn_ns + 200 * NS_PER_MS));
}

static void the_end_leaves_no_line(void **state)
{
    (void)state;
    char *written = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&written, &size);
    struct progress progress = bytes_progress(out);
    progress.start_ns = clock_now(clock_real()) - 10 * NS_PER_S;
    progress_update(&progress, progress.total / 2);
    fflush(out);
    assert_non_null(strstr(written, "50 %"));
    progress_end(&progress);
    fflush(out);
    static const char wipe[] = "\r\033[K";
    assert_string_equal(written + size - strlen(wipe), wipe);
    size_t before = size;
    progress_update(&progress, progress.total);
    progress_end(&progress);
    fflush(out);
    assert_int_equal(size, before);
    fclose(out);
    free(written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_tells_share_rate_and_time_left),
        cmocka_unit_test(a_plan_has_no_rate),
        cmocka_unit_test(a_narrow_terminal_cuts_the_line),
        cmocka_unit_test(short_work_and_quick_updates_draw_nothing),
        cmocka_unit_test(the_end_leaves_no_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
