#include "page/slotted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = PAGE_SIZE_MIN };

static void make_leaf(uint8_t *page, const char *lower, const char *upper)
{
    struct slotted_bounds bounds = {
        .index_id = 5,
        .prev = PAGE_NONE,
        .next = 17,
        .lower = span_of_text(lower),
        .upper = span_of_text(upper),
        .upper_is_open = upper[0] == '\0',
    };
    slotted_init(page, SIZE, 3, &bounds);
}

static void assert_sound(const uint8_t *page)
{
    char what[128] = "";
    firn_rc rc = slotted_check(page, SIZE, what);
    assert_string_equal(what, "");
    assert_int_equal(rc, FIRN_OK);
}

static void add(uint8_t *page, const char *key, const char *value)
{
    unsigned slot;
    assert_false(slotted_search(page, SIZE, span_of_text(key), &slot));
    slotted_insert(page, SIZE, slot, span_of_text(key), span_of_text(value), 0);
    assert_sound(page);
    assert_true(slotted_search(page, SIZE, span_of_text(key), &slot));
}

static void keys_come_out_in_order_with_their_values(void **state)
{
    (void)state;
    static const char *const sorted[] = {"", "a", "aa", "aaaa", "aaaab", "ab", "b", "ba"};
    static const unsigned order[] = {5, 2, 7, 0, 3, 1, 6, 4};
    uint8_t page[SIZE];
    uint8_t key[SIZE];
    make_leaf(page, "", "");
    for (unsigned i = 0; i < 8; i++)
        add(page, sorted[order[i]], sorted[order[i]]);
    for (unsigned i = 0; i < 8; i++) {
        struct slotted_cell cell;
        assert_int_equal(slotted_copy_key(page, SIZE, i, key), strlen(sorted[i]));
        assert_memory_equal(key, sorted[i], strlen(sorted[i]));
        assert_true(slotted_cell(page, SIZE, i, &cell));
        assert_int_equal(cell.value.size_bytes, strlen(sorted[i]));
        assert_memory_equal(cell.value.bytes, sorted[i], strlen(sorted[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_come_out_in_order_with_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
