/*
 * Records as bytes. What they do to pages is in test_slotted_model.c, what wrong ones do in
 * test_slotted_damage.c.
 */
#include "page/change.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_varint_comes_back(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits <= 64; bits++) {
        uint64_t value = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - bits % 2;
        uint64_t back = 0;
        uint8_t bytes[10];
        size_t size = change_put_varint(bytes, value);
        assert_int_equal(size, value == 0 ? 1 : (64 - (unsigned)__builtin_clzll(value) + 6) / 7);
        struct span from = span_of(bytes, size);
        assert_true(change_get_varint(&from, &back));
        assert_true(back == value);
        assert_int_equal(from.size_bytes, 0);
        from = span_of(bytes, size - 1);
        assert_false(change_get_varint(&from, &back));
        assert_int_equal(from.size_bytes, size - 1);
    }
}

static void a_varint_beyond_64_bits_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[11];
    uint64_t value = 7;
    memset(bytes, 0xff, sizeof bytes);
    struct span from = span_of(bytes, sizeof bytes);
    assert_false(change_get_varint(&from, &value)); /* no end */
    bytes[9] = 2;
    assert_false(change_get_varint(&from, &value)); /* bit 64 */
    assert_int_equal(value, 7);
    bytes[9] = 1;
    assert_true(change_get_varint(&from, &value));
    assert_true(value == UINT64_MAX);
}

static size_t put_record(uint8_t *to, enum change_op op, uint64_t page_id, const char *payload)
{
    size_t size = change_put_header(to, op, page_id, strlen(payload));
    assert_true(size <= CHANGE_HEADER_MAX_BYTES);
    memcpy(to + size, payload, strlen(payload));
    return size + strlen(payload);
}

static void records_come_back_in_order(void **state)
{
    (void)state;
    uint8_t bytes[100];
    struct change change;
    size_t size = put_record(bytes, CHANGE_WRITE, page_id_of(1, 2), "first");
    size += put_record(bytes + size, CHANGE_SPACE_DROP, page_id_of(UINT32_MAX, UINT32_MAX), "");
    struct span body = span_of(bytes, size);
    assert_int_equal(change_next(&body, &change), FIRN_OK);
    assert_int_equal(change.op, CHANGE_WRITE);
    assert_true(change.page_id == page_id_of(1, 2));
    assert_int_equal(change.payload.size_bytes, 5);
    assert_memory_equal(change.payload.bytes, "first", 5);
    assert_int_equal(change_next(&body, &change), FIRN_OK);
    assert_int_equal(change.op, CHANGE_SPACE_DROP);
    assert_true(change.page_id == UINT64_MAX);
    assert_int_equal(change_next(&body, &change), FIRN_E_NOT_FOUND);
}

static void a_record_cut_short_is_corrupt(void **state)
{
    (void)state;
    uint8_t bytes[100];
    struct change change;
    size_t size = put_record(bytes, CHANGE_WRITE, page_id_of(70000, 2), "payload");
    for (size_t cut = 1; cut < size; cut++) {
        struct span body = span_of(bytes, cut);
        assert_int_equal(change_next(&body, &change), FIRN_E_CORRUPT);
        assert_ptr_equal(body.bytes, bytes);
    }
    /* A tablespace number of more than 32 bits, and operations that are none. */
    uint8_t wide[] = {CHANGE_FREE, 0xff, 0xff, 0xff, 0xff, 0x1f, 1, 0};
    struct span body = span_of(wide, sizeof wide);
    assert_int_equal(change_next(&body, &change), FIRN_E_CORRUPT);
    for (unsigned op = 0; op < 256; op++) {
        uint8_t record[] = {(uint8_t)op, 1, 1, 0};
        bool known = (op >= CHANGE_INIT && op < CHANGE_PAGE_LAST) ||
                     (op >= CHANGE_SPACE_CREATE && op < CHANGE_LAST);
        body = span_of(record, sizeof record);
        assert_int_equal(change_next(&body, &change), known ? FIRN_OK : FIRN_E_CORRUPT);
        assert_int_equal(change_op_name((enum change_op)op) != NULL, known);
    }
}

/* Recovery does not read the old bytes of such a page, so they must not matter. */
static void what_begins_a_page_sets_all_of_it(void **state)
{
    (void)state;
    static const enum change_op ops[] = {CHANGE_INIT, CHANGE_INIT_INDEX, CHANGE_FREE};
    struct slotted_bounds bounds = {.index_id = 300, .lower = span_of("a", 1), .prev = 1};
    bounds.upper = span_of("abc", 3);
    for (size_t i = 0; i < 3; i++) {
        static uint8_t pages[2][PAGE_SIZE_MIN];
        uint8_t payload[100] = {PAGE_TYPE_MAP};
        struct change change = {.op = ops[i], .page_id = page_id_of(8, 9)};
        size_t size = ops[i] == CHANGE_INIT ? 2 : 0;
        if (ops[i] == CHANGE_INIT_INDEX)
            size = change_put_bounds(payload, &bounds);
        change.payload = span_of(payload, size);
        assert_true(change_begins_page(ops[i]));
        memset(pages[0], 0x11, PAGE_SIZE_MIN);
        memset(pages[1], 0xee, PAGE_SIZE_MIN);
        for (size_t page = 0; page < 2; page++) {
            assert_int_equal(change_apply(pages[page], PAGE_SIZE_MIN, &change), FIRN_OK);
            page_seal(pages[page], PAGE_SIZE_MIN);
        }
        assert_memory_equal(pages[0], pages[1], PAGE_SIZE_MIN);
        assert_int_equal(page_verify(pages[0], PAGE_SIZE_MIN, page_id_of(8, 9), 0), PAGE_GOOD);
    }
    assert_false(change_begins_page(CHANGE_WRITE));
    assert_false(change_begins_page(CHANGE_REBUILD));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_varint_comes_back),
        cmocka_unit_test(a_varint_beyond_64_bits_is_refused),
        cmocka_unit_test(records_come_back_in_order),
        cmocka_unit_test(a_record_cut_short_is_corrupt),
        cmocka_unit_test(what_begins_a_page_sets_all_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
