/*
 * slotted_fixture.h -- small nodes for tests. To be included behind <cmocka.h>.
 */
#ifndef FIRN_TESTS_SLOTTED_FIXTURE_H
#define FIRN_TESTS_SLOTTED_FIXTURE_H

#include "page/slotted.h"

#include <stdbool.h>
#include <string.h>

enum { SIZE = PAGE_SIZE_MIN, KEY_MAX = SIZE / 16 * 3, CELL_MAX = SIZE / 5 };

static inline void assert_sound(const uint8_t *page)
{
    char what[128] = "";
    firn_rc rc = slotted_check(page, SIZE, what);
    assert_string_equal(what, "");
    assert_int_equal(rc, FIRN_OK);
}

static inline void make_between(uint8_t *page, uint16_t level, struct span lower, struct span upper)
{
    struct slotted_bounds bounds = {
        .index_id = 5,
        .level = level,
        .prev = PAGE_NONE,
        .next = 17,
        .lower = lower,
        .upper = upper,
        .upper_is_open = upper.size_bytes == 0,
    };
    slotted_init(page, SIZE, page_id_of(1, 3), &bounds);
    assert_sound(page);
}

static inline void make_leaf(uint8_t *page, const char *lower, const char *upper)
{
    make_between(page, 0, span_of_text(lower), span_of_text(upper));
}

static inline bool fits(const uint8_t *page, struct span key, struct span value)
{
    return slotted_cost(page, key.size_bytes, value.size_bytes) <= slotted_free_bytes(page, SIZE);
}

static inline struct span number_key(uint8_t *key, uint64_t number)
{
    number = htobe64(number);
    memcpy(key, &number, 8);
    return span_of(key, 8);
}

#endif
