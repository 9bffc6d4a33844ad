/*
 * page_exercise.h -- do with a node whatever can be done, for tests and fuzzers that want to see
 * whether it holds. Ends the process where it does not.
 */
#ifndef FIRN_TESTS_PAGE_EXERCISE_H
#define FIRN_TESTS_PAGE_EXERCISE_H

#include "base/check.h"
#include "base/rng.h"
#include "page/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile unsigned exercise_sink;

/* Read every byte of a span, so that a sanitizer sees where it lies. */
static inline void read_span(struct span span)
{
    unsigned sum = 0;
    for (size_t i = 0; i < span.size_bytes; i++)
        sum += span.bytes[i];
    exercise_sink = sum;
}

static inline void exercise_key(const uint8_t *page, uint32_t size, struct span key)
{
    unsigned slot = UINT32_MAX;
    slotted_search(page, size, key, &slot);
    ENSURE(slot <= (size - SLOTTED_SLOTS_AT) / SLOTTED_SLOT_BYTES);
    slot = UINT32_MAX;
    slotted_child(page, size, key, &slot);
    ENSURE(slot <= (size - SLOTTED_SLOTS_AT) / SLOTTED_SLOT_BYTES);
    slotted_covers(page, size, key);
}

static inline void exercise_slot(const uint8_t *page, uint32_t size, unsigned slot)
{
    static uint8_t key[PAGE_SIZE_MAX / 16 * 3];
    struct slotted_cell cell;
    if (slotted_cell(page, size, slot, &cell)) {
        read_span(cell.suffix);
        read_span(cell.value);
        ENSURE(cell.flags <= SLOTTED_EXTERNAL);
        exercise_key(page, size, cell.suffix);
    }
    size_t key_size = slotted_copy_key(page, size, slot, key);
    ENSURE(key_size <= slotted_key_max(size));
    exercise_key(page, size, span_of(key, key_size));
    slotted_child_at(page, size, slot);
    slotted_can_update(page, size, slot, size);
}

/** Call everything that only reads; the page may hold any bytes. */
static inline void exercise_readers(const uint8_t *page, uint32_t size)
{
    static const uint8_t last[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct slotted_bounds bounds;
    slotted_bounds(page, size, &bounds);
    read_span(bounds.lower);
    read_span(bounds.upper);
    read_span(slotted_prefix(page, size));
    ENSURE(slotted_free_bytes(page, size) <= size);
    slotted_cost(page, 10, 10);
    exercise_key(page, size, span_of(NULL, 0));
    exercise_key(page, size, span_of(last, sizeof last));
    exercise_key(page, size, bounds.lower);
    exercise_key(page, size, bounds.upper);
    for (unsigned slot = 0; slot < 6; slot++)
        exercise_slot(page, size, slot);
    unsigned count = slotted_count(page);
    for (unsigned slot = count > 3 ? count - 3 : 0; slot < count + 3; slot++)
        exercise_slot(page, size, slot);
    exercise_slot(page, size, (size - SLOTTED_SLOTS_AT) / SLOTTED_SLOT_BYTES - 1);
    exercise_slot(page, size, (size - SLOTTED_SLOTS_AT) / SLOTTED_SLOT_BYTES);
    exercise_slot(page, size, UINT32_MAX);
}

/** @return true if the node is sound, or is an inner one that lacks its first cell, as between the
 * changes of a mini-transaction. */
static inline bool is_sound(const uint8_t *page, uint32_t size, bool say)
{
    char what[128] = "";
    if (slotted_check(page, size, what) == FIRN_OK)
        return true;
    if (strcmp(what, "the first key of an inner node is not its lower fence") == 0)
        return slotted_level(page) > 0;
    if (say)
        fprintf(stderr, "slotted_check: %s\n", what);
    return false;
}

/* A key between the fences: one that is there with something behind it. */
static inline size_t key_behind(const uint8_t *page, uint32_t size, unsigned slot, uint8_t *key)
{
    size_t key_size = slotted_copy_key(page, size, slot, key);
    if (key_size < slotted_key_max(size))
        key[key_size++] = 0;
    return key_size;
}

static inline void exercise_insert(uint8_t *page, uint32_t size, struct rng *rng, uint8_t *key)
{
    static uint8_t value[PAGE_SIZE_MAX / 5];
    unsigned count = slotted_count(page);
    size_t key_size = key_behind(page, size, (unsigned)rng_below(rng, count + 1), key);
    size_t value_most = slotted_cell_max(size) - key_size;
    size_t value_size = slotted_level(page) > 0 ? 4 : rng_below(rng, value_most + 1);
    unsigned slot;
    memset(value, 7, value_size);
    if (!slotted_covers(page, size, span_of(key, key_size)))
        return;
    bool found = slotted_search(page, size, span_of(key, key_size), &slot);
    if (found && slotted_can_update(page, size, slot, value_size)) {
        slotted_update(page, size, slot, span_of(value, value_size), 0);
    } else if (!found &&
               slotted_cost(page, key_size, value_size) <= slotted_free_bytes(page, size)) {
        slotted_insert(page, size, slot, span_of(key, key_size), span_of(value, value_size), 0);
        ENSURE(slotted_search(page, size, span_of(key, key_size), &slot));
    }
}

static inline void exercise_cut(uint8_t *page, uint32_t size, struct rng *rng)
{
    unsigned count = slotted_count(page);
    struct slotted_bounds bounds;
    uint8_t fences[2][PAGE_SIZE_MAX / 16 * 3];
    slotted_bounds(page, size, &bounds);
    memcpy(fences[0], bounds.lower.bytes, bounds.lower.size_bytes);
    memcpy(fences[1], bounds.upper.bytes, bounds.upper.size_bytes);
    bounds.lower.bytes = fences[0];
    bounds.upper.bytes = fences[1];
    unsigned from = (unsigned)rng_below(rng, count + 1);
    size_t packed_size = slotted_packed_bytes(page, size, from, count);
    uint8_t *packed = malloc(packed_size + 1);
    ENSURE(packed != NULL);
    ENSURE(slotted_pack(page, size, from, count, packed) == packed_size);
    slotted_rebuild(page, size, 0, from, &bounds);
    ENSURE(is_sound(page, size, true));
    ENSURE(slotted_append_packed(page, size, span_of(packed, packed_size)) == FIRN_OK);
    ENSURE(slotted_count(page) == count);
    free(packed);
}

/** Change a sound node in all ways; it must stay sound. */
static inline void exercise_changes(uint8_t *page, uint32_t size, uint64_t seed)
{
    static uint8_t key[PAGE_SIZE_MAX / 16 * 3];
    struct rng rng;
    rng_init(&rng, seed);
    for (unsigned i = 0; i < 24; i++) {
        unsigned count = slotted_count(page);
        unsigned slot = count > 0 ? (unsigned)rng_below(&rng, count) : 0;
        uint64_t choice = rng_below(&rng, 8);
        struct slotted_cell cell;
        if (choice < 4) {
            exercise_insert(page, size, &rng, key);
        } else if (choice == 4) {
            exercise_cut(page, size, &rng);
        } else if (count > 0 && choice == 5) {
            slotted_delete(page, size, slot);
        } else if (count > 0 && choice == 6) {
            struct slotted_split split = slotted_split_slot(page, size, slot, size / 16);
            ENSURE(split.slot <= count &&
                   (split.new_goes_left ? slot <= split.slot : slot >= split.slot));
        } else if (slotted_cell(page, size, slot, &cell)) {
            slotted_patch(page, size, slot, cell.value.size_bytes / 2,
                          span_of("\0\0\0", cell.value.size_bytes > 1));
        }
        ENSURE(is_sound(page, size, true));
    }
}

/** Judge a page of any bytes: readers must survive it, and a sound one must bear every change. */
static inline void exercise_page(uint8_t *page, uint32_t size, uint64_t seed)
{
    page_verify(page, size, page_id_of(1, 1), 1000);
    exercise_readers(page, size);
    if (is_sound(page, size, false)) {
        exercise_changes(page, size, seed);
        exercise_readers(page, size);
    }
}

/* ---- Nodes to begin with ---- */

/** Fill a leaf (level 0) or an inner node with some cells of several kinds. */
static inline void exercise_make(uint8_t *page, uint32_t size, uint16_t level)
{
    struct slotted_bounds bounds = {
        .index_id = 9,
        .level = level,
        .prev = 4,
        .next = PAGE_NONE,
        .lower = span_of("same: a", 7),
        .upper = span_of("same: ky", 8),
    };
    slotted_init(page, size, page_id_of(1, 1), &bounds);
    for (unsigned i = 0; i < 30; i++) {
        char key[32] = "same: a";
        unsigned slot;
        if (i > 0)
            snprintf(key, sizeof key, "same: %c%.*s%u", 'a' + (int)(i * 7 % 10), (int)(i % 5),
                     "xxxx", i);
        struct span whole = span_of_text(key);
        ENSURE(!slotted_search(page, size, whole, &slot));
        slotted_insert(page, size, slot, whole, span_of("value", level > 0 ? 4 : i % 6),
                       level == 0 && i % 9 == 0);
    }
    slotted_delete(page, size, 7);
    slotted_delete(page, size, 12);
    page_set_lsn(page, 500);
    ENSURE(is_sound(page, size, true));
}

#endif
