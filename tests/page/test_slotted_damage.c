/*
 * Pages that are not what they ought to be: random bytes, flipped bytes, records that make no
 * sense. The pages lie in blocks of just their size, so that the sanitizers see what goes beyond.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../repeat.h"
#include "page_exercise.h"

static uint8_t *page_alloc(uint32_t size)
{
    uint8_t *page = malloc(size);
    assert_non_null(page);
    return page;
}

static void readers_survive_any_bytes(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, test_seed(1));
    for (uint32_t size = PAGE_SIZE_MIN; size <= PAGE_SIZE_MAX; size *= 2) {
        uint8_t *page = page_alloc(size);
        for (unsigned run = 0, runs = test_runs(60); run < runs; run++) {
            /* All random, or sound with a random beginning, where the header and slots are. */
            exercise_make(page, size, run % 2);
            size_t begin = run % 3 == 0 ? 0 : PAGE_HEADER_BYTES;
            size_t end = run % 3 == 0 ? size : begin + rng_below(&rng, 300);
            for (size_t i = begin; i < end; i++)
                page[i] = (uint8_t)rng_next(&rng);
            exercise_page(page, size, run);
        }
        free(page);
    }
}

static void a_header_of_extremes_is_survived(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, test_seed(2));
    uint8_t *page = page_alloc(PAGE_SIZE_MIN);
    for (unsigned run = 0, runs = test_runs(3000); run < runs; run++) {
        static const uint16_t extremes[] = {0, 1, 2, 0x7fff, 0x8000, 0xffff, 4096, 4095, 509, 504};
        exercise_make(page, PAGE_SIZE_MIN, run % 2);
        for (unsigned i = 0; i < 3; i++)
            put_u16(page + PAGE_HEADER_BYTES + 2 * rng_below(&rng, 40),
                    extremes[rng_below(&rng, 10)]);
        exercise_page(page, PAGE_SIZE_MIN, run);
    }
    free(page);
}

/* The last cell of a node without fences ends the page: what is said to be longer goes beyond. */
static void sizes_that_lie_do_not_lead_out_of_the_page(void **state)
{
    (void)state;
    struct slotted_bounds bounds = {.prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};
    uint8_t *page = page_alloc(PAGE_SIZE_MIN);
    for (size_t at = PAGE_HEADER_BYTES; at < SLOTTED_SLOTS_AT + 3 * SLOTTED_SLOT_BYTES; at += 2) {
        for (unsigned lie = 1; lie < 70000; lie = lie * 2 + 1) {
            slotted_init(page, PAGE_SIZE_MIN, 1, &bounds);
            for (unsigned i = 0; i < 3; i++)
                slotted_insert(page, PAGE_SIZE_MIN, i, span_of((char[]){'a', (char)('a' + i)}, 2),
                               span_of("", 0), 0);
            put_u16(page + at, (uint16_t)lie);
            exercise_page(page, PAGE_SIZE_MIN, lie);
        }
    }
    free(page);
}

/* What the checksum would find is left to slotted_check alone here: it refuses the page, or the
 * page is sound, which exercise_page makes sure of. */
static void a_flipped_byte_is_found_or_leaves_a_sound_page(void **state)
{
    (void)state;
    static const uint8_t flips[] = {0x01, 0x80, 0xff, 0x10};
    uint8_t *page = page_alloc(PAGE_SIZE_MIN);
    uint8_t *flipped = page_alloc(PAGE_SIZE_MIN);
    for (uint16_t level = 0; level < 2; level++) {
        exercise_make(page, PAGE_SIZE_MIN, level);
        for (size_t i = 0; i < PAGE_SIZE_MIN; i++) {
            memcpy(flipped, page, PAGE_SIZE_MIN);
            flipped[i] ^= flips[i % 4];
            exercise_page(flipped, PAGE_SIZE_MIN, i);
        }
    }
    free(page);
    free(flipped);
}

static void damaged(uint8_t *page, size_t offset, uint8_t byte, const char *expected)
{
    char what[128] = "";
    uint8_t old = page[offset];
    page[offset] = byte;
    assert_int_equal(slotted_check(page, PAGE_SIZE_MIN, what), FIRN_E_CORRUPT);
    if (strcmp(what, expected))
        printf("%s\n", what);
    page[offset] = old;
    assert_int_equal(slotted_check(page, PAGE_SIZE_MIN, what), FIRN_OK);
}

static void each_kind_of_damage_is_named(void **state)
{
    (void)state;
    uint8_t *page = page_alloc(PAGE_SIZE_MIN);
    exercise_make(page, PAGE_SIZE_MIN, 0);
    size_t slot_3 = SLOTTED_SLOTS_AT + 3 * SLOTTED_SLOT_BYTES;
    damaged(page, 12, PAGE_TYPE_BLOB, "it is of type 4, not an index page");
    damaged(page, 32, 99, "its level is 99");
    damaged(page, 34, 27, "its cells take 251 bytes and garbage 16, together they have 274");
    damaged(page, 37, 0, "its 28 slots and its cells from 223 on overlap");
    damaged(page, 40, 77, "its cells take 258 bytes and garbage 77, together they have 274");
    damaged(page, 42, 1, "the head of slot 0 is not its key's");
    damaged(page, 52, 5, "its prefix has 5 bytes, its fences share 6");
    damaged(page, 55, 4, "its fences take 1031 and 8 bytes, a key at most 768");
    damaged(page, 58, 2, "its flags are 0x2");
    damaged(page, 58, 1, "it has an upper fence and claims to have none");
    damaged(page, PAGE_SIZE_MIN - 1, 'z', "its fences are out of order");
    damaged(page, slot_3, 0, "the head of slot 3 is not its key's");
    damaged(page, slot_3 + 5, 0x10, "the cell of slot 3 does not lie in the page");
    damaged(page, slot_3 + 5, 0, "the cell of slot 3 lies outside the cells' part of the page");
    damaged(page, PAGE_SIZE_MIN - 1, 'b', "the first key is below the lower fence");
    damaged(page, PAGE_SIZE_MIN - 9, 'b', "the last key is not below the upper fence");
    free(page);
}

static void slots_that_lie_are_named(void **state)
{
    (void)state;
    char what[128] = "";
    uint8_t *page = page_alloc(PAGE_SIZE_MIN);
    uint8_t *slot_3 = page + SLOTTED_SLOTS_AT + 3 * SLOTTED_SLOT_BYTES;
    exercise_make(page, PAGE_SIZE_MIN, 0);
    uint64_t third = get_u64(slot_3);
    uint64_t fourth = get_u64(slot_3 + 8);
    put_u64(slot_3 + 8, third);
    assert_int_equal(slotted_check(page, PAGE_SIZE_MIN, what), FIRN_E_CORRUPT);
    assert_string_equal(what, "the cell of slot 4 overlaps another");
    put_u64(slot_3, fourth);
    assert_int_equal(slotted_check(page, PAGE_SIZE_MIN, what), FIRN_E_CORRUPT);
    assert_string_equal(what, "slots 3 and 4 are out of order");

    /* A lone key is skipped by heads as a whole; another key beside it that shares less is not. */
    struct slotted_bounds bounds = {.prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};
    slotted_init(page, PAGE_SIZE_MIN, 1, &bounds);
    slotted_insert(page, PAGE_SIZE_MIN, 0, span_of("abc", 3), span_of("", 0), 0);
    slotted_insert(page, PAGE_SIZE_MIN, 1, span_of("abd", 3), span_of("", 0), 0);
    page[42] = 3;
    put_u32(page + SLOTTED_SLOTS_AT, 0);
    assert_int_equal(slotted_check(page, PAGE_SIZE_MIN, what), FIRN_E_CORRUPT);
    assert_string_equal(what, "the key of slot 1 lacks the 3 bytes that all share");

    exercise_make(page, PAGE_SIZE_MIN, 1);
    damaged(page, SLOTTED_SLOTS_AT, 1, "the head of an inner node's first slot is not 0");
    slotted_delete(page, PAGE_SIZE_MIN, 0);
    assert_int_equal(slotted_check(page, PAGE_SIZE_MIN, what), FIRN_E_CORRUPT);
    assert_string_equal(what, "the first key of an inner node is not its lower fence");
    free(page);
}

/* A payload that may make sense, and half the time one byte of it that does not. */
static size_t random_payload(struct rng *rng, enum change_op op, uint8_t *payload)
{
    size_t size = 2;
    put_u16(payload, (uint16_t)rng_below(rng, 32)); /* a slot */
    if (op == CHANGE_INSERT || op == CHANGE_UPDATE)
        payload[size++] = (uint8_t)rng_below(rng, 2);
    if (op == CHANGE_INSERT)
        payload[size++] = (uint8_t)rng_below(rng, 6);
    if (op == CHANGE_PATCH || op == CHANGE_REBUILD) {
        put_u16(payload + size, (uint16_t)rng_below(rng, 40));
        size += 2;
    }
    if (op == CHANGE_REBUILD || op == CHANGE_INIT_INDEX) {
        struct slotted_bounds bounds = {.level = (uint16_t)rng_below(rng, 2),
                                        .lower = span_of("same: a", rng_below(rng, 8)),
                                        .upper = span_of("same: kyz", rng_below(rng, 10))};
        bounds.upper_is_open = rng_below(rng, 2);
        size = op == CHANGE_REBUILD ? 4 : 0;
        size += change_put_bounds(payload + size, &bounds);
    } else if (op == CHANGE_SIBLINGS) {
        size = 8;
    } else if (op != CHANGE_INIT && op != CHANGE_DELETE && op != CHANGE_FREE) {
        size_t end = size + rng_below(rng, 12);
        while (size < end)
            payload[size++] = (uint8_t)('a' + rng_below(rng, 12));
    }
    if (op == CHANGE_FREE)
        return rng_below(rng, 2);
    if (rng_below(rng, 2) == 0)
        payload[rng_below(rng, size)] ^= (uint8_t)(1 << rng_below(rng, 8));
    return size - (rng_below(rng, 16) == 0);
}

static void a_record_is_repeated_or_refused_untouched(void **state)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, test_seed(3));
    unsigned repeated[CHANGE_PAGE_LAST] = {0};
    uint8_t *page = page_alloc(PAGE_SIZE_MIN);
    uint8_t *before = page_alloc(PAGE_SIZE_MIN);
    for (unsigned run = 0, runs = test_runs(60000); run < runs; run++) {
        uint8_t payload[64] = {0};
        enum change_op op = (enum change_op)rng_below(&rng, CHANGE_PAGE_LAST);
        size_t size = random_payload(&rng, op, payload);
        struct change change = {op, page_id_of(1, 1), span_of(payload, size)};
        if (run % 16 == 0)
            exercise_make(page, PAGE_SIZE_MIN, run / 16 % 2);
        memcpy(before, page, PAGE_SIZE_MIN);
        if (change_apply(page, PAGE_SIZE_MIN, &change) != FIRN_OK) {
            assert_memory_equal(page, before, PAGE_SIZE_MIN);
            continue;
        }
        repeated[change.op]++;
        if (page_type(page) == PAGE_TYPE_INDEX)
            assert_true(is_sound(page, PAGE_SIZE_MIN, true));
    }
    /* Chance must have got far enough for this to say something. */
    for (unsigned op = CHANGE_INIT; op < CHANGE_PAGE_LAST; op++)
        /* Packed cells have tests of their own, and there is no page of undo here. */
        if (op != CHANGE_APPEND && op != CHANGE_UNDO_APPEND)
            assert_true(repeated[op] > 10);
    free(page);
    free(before);
}

static void a_change_is_refused_on_a_page_of_another_kind(void **state)
{
    (void)state;
    uint8_t *page = page_alloc(PAGE_SIZE_MIN);
    uint8_t zeros[8] = {0};
    page_init(page, PAGE_SIZE_MIN, 1, PAGE_TYPE_BLOB);
    for (unsigned op = CHANGE_INSERT; op <= CHANGE_SIBLINGS; op++) {
        struct change change = {.op = (enum change_op)op, .page_id = 1};
        change.payload = span_of(zeros, op == CHANGE_DELETE ? 2 : 8);
        assert_int_equal(change_apply(page, PAGE_SIZE_MIN, &change), FIRN_E_CORRUPT);
    }
    put_u16(zeros, 100);
    struct change write = {CHANGE_WRITE, 1, span_of(zeros, 8)};
    assert_int_equal(change_apply(page, PAGE_SIZE_MIN, &write), FIRN_OK);
    put_u16(zeros, PAGE_HEADER_BYTES - 1); /* the header is not the writer's */
    assert_int_equal(change_apply(page, PAGE_SIZE_MIN, &write), FIRN_E_CORRUPT);
    put_u16(zeros, PAGE_SIZE_MIN - 5); /* beyond the page */
    assert_int_equal(change_apply(page, PAGE_SIZE_MIN, &write), FIRN_E_CORRUPT);
    exercise_make(page, PAGE_SIZE_MIN, 0);
    put_u16(zeros, 100);
    assert_int_equal(change_apply(page, PAGE_SIZE_MIN, &write), FIRN_E_CORRUPT);
    put_u16(zeros, PAGE_TYPE_INDEX); /* an index page needs bounds */
    struct change init = {CHANGE_INIT, 1, span_of(zeros, 2)};
    assert_int_equal(change_apply(page, PAGE_SIZE_MIN, &init), FIRN_E_CORRUPT);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_survive_any_bytes),
        cmocka_unit_test(a_header_of_extremes_is_survived),
        cmocka_unit_test(sizes_that_lie_do_not_lead_out_of_the_page),
        cmocka_unit_test(a_flipped_byte_is_found_or_leaves_a_sound_page),
        cmocka_unit_test(each_kind_of_damage_is_named),
        cmocka_unit_test(slots_that_lie_are_named),
        cmocka_unit_test(a_record_is_repeated_or_refused_untouched),
        cmocka_unit_test(a_change_is_refused_on_a_page_of_another_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
