/*
 * What a node promises, one behaviour after the other; test_slotted_model.c tries them together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "slotted_fixture.h"

static unsigned add_span(uint8_t *page, struct span key, struct span value)
{
    unsigned slot;
    assert_false(slotted_search(page, SIZE, key, &slot));
    assert_true(fits(page, key, value));
    slotted_insert(page, SIZE, slot, key, value, 0);
    assert_sound(page);
    assert_true(slotted_search(page, SIZE, key, &slot));
    return slot;
}

static void add(uint8_t *page, const char *key, const char *value)
{
    add_span(page, span_of_text(key), span_of_text(value));
}

static void assert_cell(const uint8_t *page, unsigned slot, struct span key, struct span value)
{
    uint8_t copy[KEY_MAX];
    struct slotted_cell cell;
    assert_int_equal(slotted_copy_key(page, SIZE, slot, copy), key.size_bytes);
    assert_memory_equal(copy, key.bytes, key.size_bytes);
    assert_true(slotted_cell(page, SIZE, slot, &cell));
    assert_int_equal(cell.value.size_bytes, value.size_bytes);
    assert_memory_equal(cell.value.bytes, value.bytes, value.size_bytes);
}

/* ---- Finding ---- */

static void keys_come_out_in_order_with_their_values(void **state)
{
    (void)state;
    static const char *const sorted[] = {"", "a", "aa", "aaaa", "aaaab", "ab", "b", "ba"};
    static const unsigned order[] = {5, 2, 7, 0, 3, 1, 6, 4};
    uint8_t page[SIZE];
    make_leaf(page, "", "");
    for (unsigned i = 0; i < 8; i++)
        add(page, sorted[order[i]], sorted[order[i]]);
    for (unsigned i = 0; i < 8; i++)
        assert_cell(page, i, span_of_text(sorted[i]), span_of_text(sorted[i]));
}

/* Heads are padded with zeros, so these all have the same. */
static void keys_that_differ_only_in_zeros_are_told_apart(void **state)
{
    (void)state;
    static const uint8_t zeros[10] = {0};
    uint8_t page[SIZE];
    make_leaf(page, "", "");
    for (unsigned size = 9; size <= 9; size -= 2)
        add_span(page, span_of(zeros, size), span_of(zeros, 1));
    for (unsigned size = 0; size <= 10; size++) {
        unsigned slot;
        assert_int_equal(slotted_search(page, SIZE, span_of(zeros, size), &slot), size % 2);
        assert_int_equal(slot, size / 2);
    }
}

static void a_child_is_that_of_the_last_key_at_or_below(void **state)
{
    (void)state;
    static const uint8_t zeros[10] = {0};
    uint8_t page[SIZE];
    unsigned slot;
    make_between(page, 2, span_of("", 0), span_of("", 0));
    assert_true(slotted_child(page, SIZE, span_of("x", 1), &slot) == PAGE_NONE);
    assert_int_equal(slot, 0);
    add_span(page, span_of("", 0), span_of("\x64\0\0\0", 4));
    for (uint8_t size = 1; size <= 9; size += 2)
        add_span(page, span_of(zeros, size), span_of((uint8_t[]){size, 0, 0, 0}, 4));
    for (unsigned size = 0; size <= 10; size++) {
        unsigned expected = size == 0 ? 100 : (size - 1) / 2 * 2 + 1;
        assert_int_equal(slotted_child(page, SIZE, span_of(zeros, size), &slot), expected);
        assert_int_equal(slot, (size + 1) / 2);
        assert_int_equal(slotted_child_at(page, SIZE, slot), expected);
    }
    assert_int_equal(slotted_child(page, SIZE, span_of("x", 1), &slot), 9);
    assert_true(slotted_child_at(page, SIZE, 6) == PAGE_NONE);
}

static void assert_heads_rise(const uint8_t *page, unsigned from)
{
    for (unsigned slot = from + 1; slot < slotted_count(page); slot++)
        assert_true(get_u32(page + SLOTTED_SLOTS_AT + SLOTTED_SLOT_BYTES * slot) >
                    get_u32(page + SLOTTED_SLOTS_AT + SLOTTED_SLOT_BYTES * (slot - 1)));
}

/* The first four bytes of small numbers say nothing; heads must begin behind what all share, or a
 * search in the root would compare every key it meets by its cell. */
static void heads_of_numbers_differ(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    uint8_t key[8];
    make_leaf(page, "", "");
    for (unsigned i = 0; i < 100; i++)
        add_span(page, number_key(key, 70000 + 3 * i), span_of(key, 8));
    assert_heads_rise(page, 0);
    unsigned slot;
    assert_false(slotted_search(page, SIZE, number_key(key, 69999), &slot));
    assert_int_equal(slot, 0);
    assert_false(slotted_search(page, SIZE, number_key(key, 5), &slot));
    assert_int_equal(slot, 0);
    assert_false(slotted_search(page, SIZE, number_key(key, UINT64_MAX), &slot));
    assert_int_equal(slot, 100);
    assert_false(slotted_search(page, SIZE, number_key(key, 70001), &slot));
    assert_int_equal(slot, 1);
    /* A key that shares nothing changes the heads of all. */
    add_span(page, number_key(key, UINT64_MAX), span_of(key, 8));
    for (unsigned i = 0; i < 100; i++) {
        assert_true(slotted_search(page, SIZE, number_key(key, 70000 + 3 * i), &slot));
        assert_int_equal(slot, i);
    }
}

/* The root's first key is empty and shares nothing with the others; their heads must not mind,
 * however they came there. */
static void heads_of_separators_differ_beside_an_empty_key(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    uint8_t key[8];
    uint8_t packed[SIZE];
    unsigned slot;
    make_between(page, 1, span_of("", 0), span_of("", 0));
    add_span(page, span_of("", 0), span_of("\1\0\0\0", 4));
    for (unsigned i = 0; i < 100; i++)
        add_span(page, number_key(key, 70000 + 3 * i),
                 span_of((uint8_t[]){(uint8_t)i, 1, 0, 0}, 4));
    assert_heads_rise(page, 1);
    size_t size = slotted_pack(page, SIZE, 0, 101, packed);
    make_between(page, 1, span_of("", 0), span_of("", 0));
    assert_int_equal(slotted_append_packed(page, SIZE, span_of(packed, size)), FIRN_OK);
    assert_sound(page);
    assert_heads_rise(page, 1);
    struct slotted_bounds bounds = {.index_id = 5, .level = 1, .upper_is_open = true};
    slotted_rebuild(page, SIZE, 0, 101, &bounds);
    assert_sound(page);
    assert_heads_rise(page, 1);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(slotted_child(page, SIZE, number_key(key, 70000 + i), &slot), 256 + i / 3);
        assert_int_equal(slot, 1 + i / 3);
    }
    assert_int_equal(slotted_child(page, SIZE, number_key(key, 69999), &slot), 1);
    assert_int_equal(slotted_child(page, SIZE, number_key(key, UINT64_MAX), &slot), 256 + 99);
    assert_int_equal(slotted_child(page, SIZE, span_of("", 0), &slot), 1);
}

static void fences_bound_what_a_page_covers(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    make_leaf(page, "abcd", "abcx");
    assert_int_equal(slotted_prefix(page, SIZE).size_bytes, 3);
    assert_memory_equal(slotted_prefix(page, SIZE).bytes, "abc", 3);
    assert_false(slotted_covers(page, SIZE, span_of("abc", 3)));
    assert_true(slotted_covers(page, SIZE, span_of("abcd", 4)));
    assert_true(slotted_covers(page, SIZE, span_of("abcwzzz", 7)));
    assert_false(slotted_covers(page, SIZE, span_of("abcx", 4)));
    assert_false(slotted_covers(page, SIZE, span_of("b", 1)));
    make_leaf(page, "abcd", "");
    assert_int_equal(slotted_prefix(page, SIZE).size_bytes, 0);
    assert_true(slotted_covers(page, SIZE, span_of("\xff\xff\xff\xff\xff", 5)));
    struct slotted_bounds bounds;
    slotted_bounds(page, SIZE, &bounds);
    assert_int_equal(bounds.index_id, 5);
    assert_int_equal(bounds.level, 0);
    assert_true(bounds.prev == PAGE_NONE && bounds.next == 17 && bounds.upper_is_open);
    assert_int_equal(span_compare(bounds.lower, span_of("abcd", 4)), 0);
}

/* ---- Changing ---- */

static void a_value_that_does_not_grow_stays_in_place(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    struct slotted_cell before;
    struct slotted_cell after;
    make_leaf(page, "", "");
    add(page, "b", "12345678");
    add(page, "a", "abcdefgh");
    slotted_cell(page, SIZE, 1, &before);
    size_t free_before = slotted_free_bytes(page, SIZE);
    slotted_update(page, SIZE, 1, span_of("XYZ", 3), SLOTTED_EXTERNAL);
    assert_sound(page);
    slotted_cell(page, SIZE, 1, &after);
    assert_ptr_equal(before.value.bytes, after.value.bytes);
    assert_int_equal(after.flags, SLOTTED_EXTERNAL);
    assert_int_equal(slotted_free_bytes(page, SIZE), free_before + 5);
    assert_cell(page, 1, span_of("b", 1), span_of("XYZ", 3));
    assert_cell(page, 0, span_of("a", 1), span_of("abcdefgh", 8));
}

static void a_part_of_a_value_can_be_patched(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    make_leaf(page, "", "");
    add(page, "key", "abcdefgh");
    slotted_patch(page, SIZE, 0, 2, span_of("12", 2));
    slotted_patch(page, SIZE, 0, 8, span_of("", 0));
    assert_sound(page);
    assert_cell(page, 0, span_of("key", 3), span_of("ab12efgh", 8));
}

/* All room can be used however it is scattered. */
static void scattered_room_is_found(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    uint8_t value[SIZE] = {0};
    unsigned count = 0;
    make_leaf(page, "", "");
    for (char key[] = "aa"; fits(page, span_of(key, 2), span_of(value, 40)); count++) {
        add_span(page, span_of(key, 2), span_of(value, 40));
        key[1]++;
        if (key[1] > 'z') {
            key[1] = 'a';
            key[0]++;
        }
    }
    for (unsigned slot = 1; slot <= 12; slot++)
        slotted_delete(page, SIZE, slot);
    assert_sound(page);
    size_t size = slotted_free_bytes(page, SIZE) - slotted_cost(page, 2, 0) - 30;
    assert_true(count > 24 && size > 10 * 40 && size <= CELL_MAX - 2);
    memset(value, 'v', size);
    slotted_insert(page, SIZE, 0, span_of("aA", 2), span_of(value, size), 0);
    assert_sound(page);
    assert_cell(page, 0, span_of("aA", 2), span_of(value, size));
    /* And a growing value takes it as well, its own old bytes included. */
    slotted_delete(page, SIZE, 5);
    slotted_delete(page, SIZE, 9);
    size_t more = slotted_free_bytes(page, SIZE) + 40;
    assert_true(more > 40 * 3);
    assert_true(slotted_can_update(page, SIZE, 3, more));
    assert_false(slotted_can_update(page, SIZE, 3, more + 1));
    slotted_update(page, SIZE, 3, span_of(value, more), 0);
    assert_sound(page);
    assert_int_equal(slotted_free_bytes(page, SIZE), 0);
}

/* Taking back what was inserted last costs no tidying up. */
static void the_latest_cell_leaves_no_garbage(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    make_leaf(page, "", "");
    add(page, "b", "1");
    add(page, "a", "2");
    slotted_delete(page, SIZE, 0);
    assert_sound(page);
    assert_int_equal(get_u16(page + 40), 0);
    add(page, "a", "2");
    slotted_delete(page, SIZE, 1);
    assert_sound(page);
    assert_int_equal(get_u16(page + 40), 2 + 1 + 1);
}

static void the_promised_three_cells_and_fences_fit(void **state)
{
    (void)state;
    static uint8_t lower[PAGE_SIZE_MAX];
    static uint8_t upper[PAGE_SIZE_MAX];
    static uint8_t page[PAGE_SIZE_MAX];
    for (uint32_t size = PAGE_SIZE_MIN; size <= PAGE_SIZE_MAX; size *= 2) {
        size_t key_size = slotted_key_max(size);
        memset(lower, 1, key_size);
        memset(upper, 0xff, key_size);
        struct slotted_bounds bounds = {.lower = span_of(lower, key_size),
                                        .upper = span_of(upper, key_size)};
        slotted_init(page, size, 1, &bounds);
        for (uint8_t i = 0; i < 3; i++) {
            lower[0] = (uint8_t)(i + 2);
            size_t value_size = slotted_cell_max(size) - key_size;
            assert_true(slotted_cost(page, key_size, value_size) <= slotted_free_bytes(page, size));
            slotted_insert(page, size, i, span_of(lower, key_size), span_of(upper, value_size), 0);
        }
    }
}

/* ---- Moving ---- */

static void a_rebuilt_page_has_the_prefix_of_its_fences(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    make_leaf(page, "", "");
    add(page, "car", "1");
    add(page, "carbon", "2");
    add(page, "card", "3");
    add(page, "dog", "4");
    size_t wide = slotted_free_bytes(page, SIZE);
    struct slotted_bounds bounds = {.index_id = 5,
                                    .prev = 1,
                                    .next = 2,
                                    .lower = span_of("carb", 4),
                                    .upper = span_of("caz", 3)};
    assert_true(slotted_fits(page, SIZE, 1, 3, &bounds, 0));
    assert_int_equal(slotted_cells_bytes(page, SIZE, 1, 3, &bounds), 2 * (10 + 1) + 4 + 2);
    slotted_rebuild(page, SIZE, 1, 3, &bounds);
    assert_sound(page);
    assert_int_equal(slotted_prefix(page, SIZE).size_bytes, 2);
    assert_int_equal(slotted_count(page), 2);
    assert_cell(page, 0, span_of("carbon", 6), span_of("2", 1));
    assert_cell(page, 1, span_of("card", 4), span_of("3", 1));
    assert_int_equal(slotted_prev(page), 1);
    bounds.lower = span_of("", 0);
    bounds.upper_is_open = true;
    slotted_rebuild(page, SIZE, 0, 2, &bounds);
    assert_sound(page);
    assert_cell(page, 0, span_of("carbon", 6), span_of("2", 1));
    assert_int_equal(slotted_free_bytes(page, SIZE), wide + (10 + 3 + 1) * 2);
}

static void fits_is_exact(void **state)
{
    (void)state;
    uint8_t page[SIZE];
    uint8_t value[CELL_MAX] = {0};
    make_leaf(page, "", "");
    add_span(page, span_of("key", 3), span_of(value, CELL_MAX - 3));
    struct slotted_bounds bounds = {.upper_is_open = true};
    size_t used = SIZE - SLOTTED_SLOTS_AT - slotted_cells_bytes(page, SIZE, 0, 1, &bounds);
    assert_true(slotted_fits(page, SIZE, 0, 1, &bounds, used));
    assert_false(slotted_fits(page, SIZE, 0, 1, &bounds, used + 1));
    bounds.lower = span_of("k", 1);
    assert_false(slotted_fits(page, SIZE, 0, 1, &bounds, used));
}

static size_t pack_texts(const char *const *texts, unsigned count, uint8_t *packed)
{
    size_t size = 0;
    struct span before = span_of("", 0);
    for (unsigned i = 0; i < count; i++) {
        struct span key = span_of_text(texts[i]);
        size += slotted_pack_cell(before, key, key, i % 2, packed + size);
        before = key;
    }
    return size;
}

static void packed_cells_are_appended(void **state)
{
    (void)state;
    static const char *const texts[] = {"caravan", "carbon", "carbonate", "card"};
    uint8_t page[SIZE];
    uint8_t packed[200];
    make_leaf(page, "ca", "cat");
    add(page, "ca", "first");
    size_t size = pack_texts(texts, 4, packed);
    assert_int_equal(slotted_append_packed(page, SIZE, span_of(packed, size)), FIRN_OK);
    assert_sound(page);
    for (unsigned i = 0; i < 4; i++) {
        struct slotted_cell cell;
        assert_cell(page, i + 1, span_of_text(texts[i]), span_of_text(texts[i]));
        slotted_cell(page, SIZE, i + 1, &cell);
        assert_int_equal(cell.flags, i % 2);
    }
    assert_int_equal(slotted_append_packed(page, SIZE, span_of(packed, 0)), FIRN_OK);
    assert_int_equal(slotted_count(page), 5);
}

static void refused(uint8_t *page, const uint8_t *packed, size_t size)
{
    uint8_t before[SIZE];
    memcpy(before, page, SIZE);
    assert_int_equal(slotted_append_packed(page, SIZE, span_of(packed, size)), FIRN_E_CORRUPT);
    assert_memory_equal(page, before, SIZE);
}

static void packed_cells_that_do_not_belong_are_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"cb", "cc", "cd"};
    static const char *const below_last[] = {"caa"};
    static const char *const below_lower[] = {"b"};
    static const char *const equal_last[] = {"cab"};
    static const char *const unordered[] = {"cb", "cd", "cc"};
    static const char *const twice[] = {"cb", "cc", "cc"};
    static const char *const beyond[] = {"cb", "ce", "cz"};
    uint8_t page[SIZE];
    uint8_t packed[SIZE * 2];
    make_leaf(page, "ca", "cx");
    add(page, "cab", "first");
    refused(page, packed, pack_texts(below_last, 1, packed));
    refused(page, packed, pack_texts(below_lower, 1, packed));
    refused(page, packed, pack_texts(equal_last, 1, packed));
    refused(page, packed, pack_texts(unordered, 3, packed));
    refused(page, packed, pack_texts(twice, 3, packed));
    refused(page, packed, pack_texts(beyond, 3, packed));
    size_t one = pack_texts(good, 1, packed);
    size_t two = pack_texts(good, 2, packed);
    size_t size = pack_texts(good, 3, packed);
    for (size_t cut = 1; cut < size; cut++)
        if (cut != one && cut != two)
            refused(page, packed, cut);
    /* More than fits, though each cell would. */
    static const uint8_t value[700] = {0};
    struct span before = span_of("", 0);
    size = 0;
    for (unsigned i = 0; i < 6; i++) {
        struct span key = span_of((const char *[]){"cb", "cc", "cd", "ce", "cf", "cg"}[i], 2);
        size += slotted_pack_cell(before, key, span_of(value, sizeof value), 0, packed + size);
        before = key;
    }
    refused(page, packed, size);
    size = slotted_pack_cell(span_of("", 0), span_of("cb", 2), span_of(packed, CELL_MAX), 0,
                             packed + SIZE);
    refused(page, packed + SIZE, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_come_out_in_order_with_their_values),
        cmocka_unit_test(keys_that_differ_only_in_zeros_are_told_apart),
        cmocka_unit_test(a_child_is_that_of_the_last_key_at_or_below),
        cmocka_unit_test(heads_of_numbers_differ),
        cmocka_unit_test(heads_of_separators_differ_beside_an_empty_key),
        cmocka_unit_test(fences_bound_what_a_page_covers),
        cmocka_unit_test(a_value_that_does_not_grow_stays_in_place),
        cmocka_unit_test(a_part_of_a_value_can_be_patched),
        cmocka_unit_test(scattered_room_is_found),
        cmocka_unit_test(the_latest_cell_leaves_no_garbage),
        cmocka_unit_test(the_promised_three_cells_and_fences_fit),
        cmocka_unit_test(a_rebuilt_page_has_the_prefix_of_its_fences),
        cmocka_unit_test(fits_is_exact),
        cmocka_unit_test(packed_cells_are_appended),
        cmocka_unit_test(packed_cells_that_do_not_belong_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
