#include "page/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = PAGE_SIZE_MIN };

static const uint64_t ID = (uint64_t)7 << 32 | 42;

static void make_page(uint8_t *page)
{
    page_init(page, SIZE, ID, PAGE_TYPE_BLOB);
    memset(page + PAGE_HEADER_BYTES, 0xa5, SIZE - PAGE_HEADER_BYTES);
    page_set_lsn(page, 1000);
    page_seal(page, SIZE);
}

static void a_page_carries_what_it_was_made_with(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    memset(page, 0xff, sizeof page);
    page_init(page, SIZE, ID, PAGE_TYPE_MAP);
    assert_int_equal(page_number(page), 42);
    assert_int_equal(page_space(page), 7);
    assert_int_equal(page_type(page), PAGE_TYPE_MAP);
    assert_int_equal(page_lsn(page), 0);
    for (size_t i = PAGE_HEADER_BYTES; i < SIZE; i++)
        assert_int_equal(page[i], 0);
}

static void a_sealed_page_is_good_in_its_place_and_time_only(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    make_page(page);
    assert_int_equal(page_verify(page, SIZE, ID, 1000), PAGE_GOOD);
    assert_int_equal(page_verify(page, SIZE, ID, UINT64_MAX), PAGE_GOOD);
    assert_int_equal(page_verify(page, SIZE, ID, 999), PAGE_FROM_AHEAD);
    assert_int_equal(page_verify(page, SIZE, ID + 1, 1000), PAGE_MISPLACED);
    assert_int_equal(page_verify(page, SIZE, ID + ((uint64_t)1 << 32), 1000), PAGE_MISPLACED);
}

static void every_flipped_bit_is_damage(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    make_page(page);
    for (size_t bit = 0; bit < SIZE * 8; bit++) {
        page[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(page_verify(page, SIZE, ID, 1000), PAGE_DAMAGED);
        page[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(page_verify(page, SIZE, ID, 1000), PAGE_GOOD);
}

static void every_torn_page_is_damage(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    for (size_t sector = 512; sector < SIZE; sector += 512) {
        make_page(page);
        memset(page + sector, 0, SIZE - sector);
        assert_int_equal(page_verify(page, SIZE, ID, 1000), PAGE_DAMAGED);
        make_page(page);
        memset(page, 0, sector);
        assert_int_equal(page_verify(page, SIZE, ID, 1000), PAGE_DAMAGED);
    }
}

static void zeros_are_no_damage_unless_a_bit_is_set(void **state)
{
    (void)state;
    uint8_t page[SIZE] = {0};
    assert_int_equal(page_verify(page, SIZE, ID, 1000), PAGE_ZERO);
    for (size_t i = 0; i < SIZE; i++) {
        page[i] = 1;
        assert_int_equal(page_verify(page, SIZE, ID, 1000), PAGE_DAMAGED);
        page[i] = 0;
    }
    static const uint8_t zeros[PAGE_SIZE_MAX] = {0};
    for (uint32_t size = PAGE_SIZE_MIN; size <= PAGE_SIZE_MAX; size *= 2)
        assert_int_equal(page_verify(zeros, size, 0, 0), PAGE_ZERO);
}

static void a_type_or_version_to_come_is_unknown(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    page_init(page, SIZE, ID, PAGE_TYPE_COUNT);
    page_seal(page, SIZE);
    assert_int_equal(page_verify(page, SIZE, ID, 0), PAGE_UNKNOWN);
    page_init(page, SIZE, ID, PAGE_TYPE_BLOB);
    page[14]++;
    page_seal(page, SIZE);
    assert_int_equal(page_verify(page, SIZE, ID, 0), PAGE_UNKNOWN);
}

static void each_state_has_its_words(void **state)
{
    (void)state;
    for (int a = PAGE_GOOD; a <= PAGE_UNKNOWN + 1; a++)
        for (int b = PAGE_GOOD; b < a; b++)
            assert_string_not_equal(page_state_text((enum page_state)a),
                                    page_state_text((enum page_state)b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_carries_what_it_was_made_with),
        cmocka_unit_test(a_sealed_page_is_good_in_its_place_and_time_only),
        cmocka_unit_test(every_flipped_bit_is_damage),
        cmocka_unit_test(every_torn_page_is_damage),
        cmocka_unit_test(zeros_are_no_damage_unless_a_bit_is_set),
        cmocka_unit_test(a_type_or_version_to_come_is_unknown),
        cmocka_unit_test(each_state_has_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
