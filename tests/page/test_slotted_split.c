/*
 * Cutting nodes in two: where, and what is written between.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "slotted_fixture.h"

static void a_separator_is_as_short_as_can_be(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"", "a", "a"},           {"a", "b", "b"},          {"abc", "abd", "abd"},
        {"abc", "b", "b"},        {"a", "abcdef", "ab"},    {"abz", "ac", "ac"},
        {"", "zebra", "z"},       {"aaaa", "aaab", "aaab"}, {"carbon", "dog", "d"},
        {"card", "care", "care"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t separator[16];
        size_t size =
            slotted_separator(span_of_text(cases[i][0]), span_of_text(cases[i][1]), separator);
        assert_int_equal(size, strlen(cases[i][2]));
        assert_memory_equal(separator, cases[i][2], size);
    }
}

/* Put a key into the leaf that covers it, of a row of leaves; split that if it is full. Returns the
 * number of leaves. */
static unsigned row_insert(uint8_t (*pages)[SIZE], unsigned count, struct span key,
                           struct span value)
{
    unsigned at = 0;
    unsigned slot;
    uint8_t separator[KEY_MAX];
    uint8_t packed[SIZE * 2];
    uint8_t copy[2][KEY_MAX];
    while (!slotted_covers(pages[at], SIZE, key))
        at++;
    slotted_search(pages[at], SIZE, key, &slot);
    if (fits(pages[at], key, value)) {
        slotted_insert(pages[at], SIZE, slot, key, value, 0);
        return count;
    }
    struct slotted_split split = slotted_split_slot(
        pages[at], SIZE, slot, slotted_cost(pages[at], key.size_bytes, value.size_bytes));
    struct span left = split.new_goes_left && slot == split.slot ? key : span_of(copy[0], 0);
    struct span right = !split.new_goes_left && slot == split.slot ? key : span_of(copy[1], 0);
    if (left.bytes == copy[0])
        left.size_bytes = slotted_copy_key(pages[at], SIZE, split.slot - 1, copy[0]);
    if (right.bytes == copy[1])
        right.size_bytes = slotted_copy_key(pages[at], SIZE, split.slot, copy[1]);
    size_t separator_size = slotted_separator(left, right, separator);
    size_t packed_size =
        slotted_pack(pages[at], SIZE, split.slot, slotted_count(pages[at]), packed);
    memmove(pages[at + 2], pages[at + 1], (count - at - 1) * SIZE);

    struct slotted_bounds bounds;
    uint8_t fences[2][KEY_MAX];
    slotted_bounds(pages[at], SIZE, &bounds);
    memcpy(fences[0], bounds.lower.bytes, bounds.lower.size_bytes);
    memcpy(fences[1], bounds.upper.bytes, bounds.upper.size_bytes);
    bounds.lower.bytes = fences[0];
    bounds.upper.bytes = fences[1];
    struct slotted_bounds half = bounds;
    half.lower = span_of(separator, separator_size);
    slotted_init(pages[at + 1], SIZE, 1, &half);
    assert_int_equal(slotted_append_packed(pages[at + 1], SIZE, span_of(packed, packed_size)),
                     FIRN_OK);
    half = bounds;
    half.upper = span_of(separator, separator_size);
    half.upper_is_open = false;
    slotted_rebuild(pages[at], SIZE, 0, split.slot, &half);
    uint8_t *home = split.new_goes_left ? pages[at] : pages[at + 1];
    slotted_search(home, SIZE, key, &slot);
    slotted_insert(home, SIZE, slot, key, value, 0);
    assert_sound(pages[at]);
    assert_sound(pages[at + 1]);
    return count + 1;
}

enum { ROW_PAGES = 200 };

/* Insert numbers from..to (downwards if to is below) and return how full that leaves the leaves it
 * needed, in percent; the one that it began in counts as well. */
static unsigned fill_row(uint8_t (*pages)[SIZE], unsigned *count, uint64_t from, uint64_t to)
{
    uint8_t key[8];
    static const uint8_t value[50] = {0};
    unsigned before = *count;
    uint64_t rows = from < to ? to - from : from - to;
    for (uint64_t i = 0; i < rows; i++) {
        number_key(key, from < to ? from + i : from - i);
        *count = row_insert(pages, *count, span_of(key, 8), span_of(value, sizeof value));
        assert_true(*count < ROW_PAGES - 1);
    }
    return (unsigned)(rows * (10 + 8 + sizeof value) * 100 / ((*count - before + 1) * SIZE));
}

static void ascending_and_descending_inserts_leave_full_pages(void **state)
{
    (void)state;
    uint8_t(*pages)[SIZE] = malloc(ROW_PAGES * SIZE);
    assert_non_null(pages);
    unsigned count = 1;
    make_leaf(pages[0], "", "");
    assert_true(fill_row(pages, &count, 1000000, 1003000) > 90);
    assert_true(fill_row(pages, &count, 999999, 997000) > 90);
    free(pages);
}

/* As in a table clustered by customer and number, where each customer's rows come in order. */
static void inserts_in_order_amid_others_leave_full_pages(void **state)
{
    (void)state;
    uint8_t(*pages)[SIZE] = malloc(ROW_PAGES * SIZE);
    assert_non_null(pages);
    unsigned count = 1;
    make_leaf(pages[0], "", "");
    fill_row(pages, &count, 1000, 1030);
    fill_row(pages, &count, 1000000, 1000030);
    assert_true(fill_row(pages, &count, 2000, 5000) > 90);
    assert_true(fill_row(pages, &count, 900000, 897000) > 90);
    free(pages);
}

/* Rows that leave at the front do not hide that others come in order at the end. */
static void a_queue_is_cut_at_its_end(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    uint8_t key[8];
    make_leaf(page, "", "");
    uint64_t number = 1;
    for (; fits(page, number_key(key, number), span_of(key, 8)); number++) {
        slotted_insert(page, SIZE, slotted_count(page), span_of(key, 8), span_of(key, 8), 0);
        if (number % 3 == 0)
            slotted_delete(page, SIZE, 0);
    }
    unsigned count = slotted_count(page);
    struct slotted_split split = slotted_split_slot(page, SIZE, count, slotted_cost(page, 8, 8));
    assert_true(split.slot > count - 3 && !split.new_goes_left);
}

/* Keys that differ only at their ends need fences as long as they are, and these need room. */
static void long_separators_find_room(void **state)
{
    (void)state;
    static const uint8_t value[CELL_MAX - 600] = {0};
    uint8_t(*pages)[SIZE] = malloc(ROW_PAGES * SIZE);
    assert_non_null(pages);
    for (size_t key_size = 20; key_size <= 600; key_size += 116) {
        for (int step = -1; step <= 1; step += 2) {
            uint8_t key[600];
            unsigned count = 1;
            make_leaf(pages[0], "", "");
            memset(key, 'k', sizeof key);
            for (unsigned i = 0; i < 150; i++) {
                unsigned number = (unsigned)(1000 + step * (int)i);
                key[key_size - 2] = (uint8_t)(number >> 8);
                key[key_size - 1] = (uint8_t)number;
                count = row_insert(pages, count, span_of(key, key_size),
                                   span_of(value, i * 37 % sizeof value));
            }
            assert_true(count > 3);
        }
    }
    free(pages);
}

static void random_inserts_split_in_the_middle(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    uint8_t key[8];
    struct rng rng;
    unsigned lopsided = 0;
    rng_init(&rng, 5);
    for (unsigned run = 0; run < 200; run++) {
        unsigned slot;
        make_leaf(page, "", "");
        do {
            number_key(key, rng_next(&rng));
            slotted_search(page, SIZE, span_of(key, 8), &slot);
            if (!fits(page, span_of(key, 8), span_of(key, 8)))
                break;
            slotted_insert(page, SIZE, slot, span_of(key, 8), span_of(key, 8), 0);
        } while (true);
        unsigned middle = slotted_count(page) / 2;
        struct slotted_split split = slotted_split_slot(page, SIZE, slot, slotted_cost(page, 8, 8));
        lopsided += split.slot + 1 < middle || split.slot > middle + 1;
    }
    assert_true(lopsided < 4);
}

/* Few cells of extreme sizes, between the longest fences: whatever the place, both halves fit. */
static void any_full_page_can_be_split(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    uint8_t key[KEY_MAX];
    uint8_t value[CELL_MAX] = {0};
    uint8_t high[KEY_MAX];
    struct rng rng;
    rng_init(&rng, 6);
    memset(high, 0xff, sizeof high);
    for (unsigned run = 0; run < 3000; run++) {
        memset(key, 0, sizeof key);
        make_between(page, 0, span_of(key, rng_below(&rng, 2) * KEY_MAX),
                     span_of(high, rng_below(&rng, 2) * KEY_MAX));
        for (unsigned i = 1;; i++) {
            unsigned slot;
            size_t key_size = rng_below(&rng, 2) == 0 ? KEY_MAX : 1 + rng_below(&rng, KEY_MAX);
            size_t most = CELL_MAX - key_size;
            size_t value_size = rng_below(&rng, 2) == 0 ? most : rng_below(&rng, most + 1);
            key[0] = (uint8_t)(1 + rng_below(&rng, 250));
            if (slotted_search(page, SIZE, span_of(key, key_size), &slot))
                continue;
            if (fits(page, span_of(key, key_size), span_of(value, value_size))) {
                slotted_insert(page, SIZE, slot, span_of(key, key_size), span_of(value, value_size),
                               0);
                continue;
            }
            /* It ends the process if no cut fits; test_slotted_model.c does what it says. */
            slotted_split_slot(page, SIZE, slot, slotted_cost(page, key_size, value_size));
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_separator_is_as_short_as_can_be),
        cmocka_unit_test(ascending_and_descending_inserts_leave_full_pages),
        cmocka_unit_test(inserts_in_order_amid_others_leave_full_pages),
        cmocka_unit_test(a_queue_is_cut_at_its_end),
        cmocka_unit_test(long_separators_find_room),
        cmocka_unit_test(random_inserts_split_in_the_middle),
        cmocka_unit_test(any_full_page_can_be_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
