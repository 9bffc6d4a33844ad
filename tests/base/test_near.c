#include "base/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"threads",         "time",     "rate",
                                    "file-total-size", "file-num", "thread-stack-size"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void finds(const char *word, const char *expected)
{
    char text[NEAR_TEXT_BYTES];
    assert_string_equal(near_text(word, names, NAMES, "--", text), expected);
}

static void each_kind_of_slip_is_one_step(void **state)
{
    (void)state;
    finds("tme", "; did you mean --time?");          /* dropped */
    finds("timee", "; did you mean --time?");        /* inserted */
    finds("tine", "; did you mean --time?");         /* changed */
    finds("tiem", "; did you mean --time?");         /* swapped */
    finds("file-nmu", "; did you mean --file-num?"); /* at the end */
}

static void a_third_of_the_letters_is_the_limit(void **state)
{
    (void)state;
    finds("threats", "; did you mean --threads?");
    finds("xhrexxs", "");
    finds("xx", "");
    finds("", "");
}

static void beginnings_are_near_and_the_nearest_comes_first(void **state)
{
    (void)state;
    finds("file", "; did you mean --file-total-size or --file-num?");
    finds("thread", "; did you mean --threads or --thread-stack-size?");
    finds("t", "");
}

static void no_more_than_three_are_found(void **state)
{
    (void)state;
    static const char *const alike[] = {"aaab", "aaac", "aaad", "aaae", "aaaa"};
    const char *found[NEAR_MAX];
    assert_int_equal(near_find("aaaa", alike, 5, found), NEAR_MAX);
    assert_string_equal(found[0], "aaaa");
    assert_string_equal(found[1], "aaab");
    assert_string_equal(found[2], "aaac");
}

static void words_of_any_length_are_taken(void **state)
{
    (void)state;
    char word[4096];
    char text[NEAR_TEXT_BYTES];
    memset(word, 'a', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    const char *const names_long[] = {word, word + 4000, "a"};
    near_text(word + 4001, names_long, 3, "--", text);
    assert_true(strlen(text) < NEAR_TEXT_BYTES);
    finds(word, "");
    for (size_t length = 60; length < 70; length++) {
        const char *const one[] = {word + sizeof(word) - 1 - length};
        const char *found[NEAR_MAX];
        near_find(word + sizeof(word) - length, one, 1, found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_slip_is_one_step),
        cmocka_unit_test(a_third_of_the_letters_is_the_limit),
        cmocka_unit_test(beginnings_are_near_and_the_nearest_comes_first),
        cmocka_unit_test(no_more_than_three_are_found),
        cmocka_unit_test(words_of_any_length_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
