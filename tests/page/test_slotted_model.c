/*
 * Random changes of a node against a plain sorted array, in all page sizes, with keys of all kinds;
 * every change is also repeated from its record on a twin (page_world.h).
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "../repeat.h"
#include "page_world.h"

/* Keys as they come in life, and as they come in nightmares. */
enum key_kind { KEYS_RANDOM, KEYS_NUMBERS, KEYS_ALIKE, KEYS_BINARY, KEYS_LONG, KEY_KINDS };

static size_t random_size(struct rng *rng, size_t most)
{
    /* Small ones often, the largest now and then. */
    switch (rng_below(rng, 8)) {
    case 0:
        return rng_below(rng, most + 1);
    case 1:
        return most;
    case 2:
        return 0;
    default:
        return rng_below(rng, (most < 40 ? most : 40) + 1);
    }
}

static void random_bytes(struct rng *rng, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)rng_next(rng);
}

static size_t fresh_key(struct world *world, enum key_kind kind, uint8_t *key)
{
    struct rng *rng = &world->rng;
    size_t most = slotted_key_max(world->size);
    size_t size = 16;
    switch (kind) {
    case KEYS_RANDOM:
        random_bytes(rng, key, size);
        return size;
    case KEYS_NUMBERS: {
        uint64_t number = htobe64(rng_below(rng, 2000) * 77);
        memcpy(key, &number, 8);
        return 8;
    }
    case KEYS_ALIKE: /* alike beyond any head, differing near the end */
        memset(key, 'k', 30);
        size = 20 + rng_below(rng, 10);
        random_bytes(rng, key + size, 2);
        return size + 2;
    case KEYS_BINARY: /* of zeros, ones and 0xff: prefixes of each other, padding, the last key */
        size = rng_below(rng, 4) == 0 ? random_size(rng, most) : rng_below(rng, 8);
        for (size_t i = 0; i < size; i++)
            key[i] = (uint8_t[]){0, 1, 0xff, 0xff}[i < 9 ? rng_below(rng, 4) : 3];
        return size;
    default:
        size = random_size(rng, most);
        memset(key, 'x', size);
        for (unsigned i = 0; i < 3 && size > 0; i++)
            key[rng_below(rng, size)] = (uint8_t)rng_next(rng);
        return size;
    }
}

/* A key between the world's fences: a fresh one, or one near one that is there. Returns false if
 * none was found. */
static bool pick_key(struct world *world, enum key_kind kind, uint8_t *key, size_t *size)
{
    struct rng *rng = &world->rng;
    for (unsigned attempt = 0; attempt < 8; attempt++) {
        *size = fresh_key(world, kind, key);
        if (rng_below(rng, 4) == 0 || attempt > 2) {
            struct span near = world->count > 0
                                   ? row_key(&world->rows[rng_below(rng, world->count)])
                                   : span_of(world->lower, world->lower_size);
            *size = near.size_bytes;
            memcpy(key, near.bytes, near.size_bytes);
            if (*size > 0 && rng_below(rng, 2) == 0)
                key[*size - 1 - rng_below(rng, *size < 6 ? *size : 6)] ^= (uint8_t)rng_next(rng);
            else if (*size < slotted_key_max(world->size))
                key[(*size)++] = (uint8_t)(rng_below(rng, 3) * 0x7f);
        }
        if (slotted_covers(world->page, world->size, span_of(key, *size)))
            return true;
    }
    return false;
}

static uint8_t scratch_key[WORLD_KEY_MAX];
static uint8_t scratch_value[PAGE_SIZE_MAX];

static struct span pick_value(struct world *world, size_t key_size)
{
    size_t size =
        world->level > 0 ? 4 : random_size(&world->rng, slotted_cell_max(world->size) - key_size);
    random_bytes(&world->rng, scratch_value, size);
    scratch_value[0] &= 0x7f; /* child numbers are no PAGE_NONE */
    return span_of(scratch_value, size);
}

/* ---- Splits and merges ---- */

/* Cut the full page as a tree would, and go on with one half; the other is put beside it, looked at
 * and sometimes merged back. */
static void split_for(struct world *world, unsigned slot, struct span key, struct span value)
{
    size_t cost = slotted_cost(world->page, key.size_bytes, value.size_bytes);
    struct slotted_split split = slotted_split_slot(world->page, world->size, slot, cost);
    assert_true(split.slot <= world->count);
    assert_true(split.new_goes_left ? slot <= split.slot : slot >= split.slot);
    assert_true(split.slot > 0 || split.new_goes_left);
    assert_true(split.slot < world->count || !split.new_goes_left);

    static uint8_t between[WORLD_KEY_MAX];
    struct span left_last =
        split.new_goes_left && slot == split.slot ? key : row_key(&world->rows[split.slot - 1]);
    struct span right_first =
        !split.new_goes_left && slot == split.slot ? key : row_key(&world->rows[split.slot]);
    size_t between_size = right_first.size_bytes;
    memcpy(between, right_first.bytes, between_size);
    if (world->level == 0)
        between_size = slotted_separator(left_last, right_first, between);
    assert_true(span_compare(left_last, span_of(between, between_size)) < 0);
    assert_true(span_compare(span_of(between, between_size), right_first) <= 0);

    /* The right half as a world of its own. */
    struct world *right = world_make(world->size, world->level, rng_next(&world->rng));
    world_set_bounds(right, span_of(between, between_size),
                     span_of(world->upper, world->upper_size), world->upper_is_open);
    world_init_page(right);
    size_t packed_size = slotted_packed_bytes(world->page, world->size, split.slot, world->count);
    uint8_t *packed = malloc(packed_size + 1);
    assert_non_null(packed);
    assert_int_equal(slotted_pack(world->page, world->size, split.slot, world->count, packed),
                     packed_size);
    world_append(right, span_of(packed, packed_size), &world->rows[split.slot],
                 world->count - split.slot);
    free(packed);
    world_set_bounds(world, span_of(world->lower, world->lower_size),
                     span_of(between, between_size), false);
    world_rebuild(world, 0, split.slot);

    struct world *home = split.new_goes_left ? world : right;
    unsigned home_slot = split.new_goes_left ? slot : slot - split.slot;
    assert_true(slotted_cost(home->page, key.size_bytes, value.size_bytes) <=
                slotted_free_bytes(home->page, home->size));
    world_insert(home, home_slot, key, value, 0);
    world_compare(world);
    world_compare(right);

    if (rng_below(&world->rng, 2) == 0) {
        /* Go on with the right half. */
        unsigned count = right->count;
        struct row *rows = calloc(count, sizeof(*rows));
        assert_non_null(rows);
        memcpy(rows, right->rows, count * sizeof(*rows));
        packed_size = slotted_packed_bytes(right->page, right->size, 0, count);
        packed = malloc(packed_size + 1);
        assert_non_null(packed);
        slotted_pack(right->page, right->size, 0, count, packed);
        world_set_bounds(world, span_of(right->lower, right->lower_size),
                         span_of(right->upper, right->upper_size), right->upper_is_open);
        world_init_page(world);
        world_append(world, span_of(packed, packed_size), rows, count);
        free(packed);
        free(rows);
    }
    world_free(right);
}

/* Open the fences, as a merge with neighbours does, if the cells fit then. An inner node's lower
 * fence is its first key and stays. */
static void widen(struct world *world)
{
    struct slotted_bounds bounds;
    world_bounds(world, &bounds);
    size_t lower_size =
        world->level > 0 ? world->lower_size : rng_below(&world->rng, 2) * world->lower_size / 2;
    bounds.lower.size_bytes = lower_size;
    bounds.upper_is_open = true;
    if (!slotted_fits(world->page, world->size, 0, world->count, &bounds, 0))
        return;
    world_set_bounds(world, bounds.lower, span_of(NULL, 0), true);
    world_rebuild(world, 0, world->count);
}

/* Move the last rows out and back in, as a merge does. */
static void cut_and_append(struct world *world)
{
    unsigned from = (unsigned)rng_below(&world->rng, world->count + 1);
    unsigned count = world->count - from;
    if (world->level > 0 && from == 0)
        return;
    size_t packed_size = slotted_packed_bytes(world->page, world->size, from, world->count);
    uint8_t *packed = malloc(packed_size + 1);
    struct row *rows = calloc(count + 1, sizeof(*rows));
    assert_true(packed != NULL && rows != NULL);
    slotted_pack(world->page, world->size, from, world->count, packed);
    for (unsigned i = 0; i < count; i++) {
        const struct row *row = &world->rows[from + i];
        rows[i] = (struct row){bytes_copy(row_key(row)), row->key_size, bytes_copy(row_value(row)),
                               row->value_size, row->flags};
    }
    world_rebuild(world, 0, from);
    world_append(world, span_of(packed, packed_size), rows, count);
    for (unsigned i = 0; i < count; i++) {
        free(rows[i].key);
        free(rows[i].value);
    }
    free(rows);
    free(packed);
}

/* ---- One step ---- */

static void insert_or_update(struct world *world, enum key_kind kind, bool ascending)
{
    size_t size;
    bool found;
    if (!pick_key(world, kind, scratch_key, &size))
        return;
    if (ascending && world->count > 0) {
        /* Just behind the last. */
        struct span last = row_key(&world->rows[world->count - 1]);
        memcpy(scratch_key, last.bytes, last.size_bytes);
        size = last.size_bytes;
        while (size > 0 && ++scratch_key[size - 1] == 0)
            size--;
        size = size > 0 ? last.size_bytes : 0;
        if (!slotted_covers(world->page, world->size, span_of(scratch_key, size)))
            return;
    }
    struct span key = span_of(scratch_key, size);
    struct span value = pick_value(world, size);
    unsigned flags = world->level == 0 && rng_below(&world->rng, 8) == 0 ? SLOTTED_EXTERNAL : 0;
    world_look(world, key);
    unsigned slot = rows_find(world, key, &found);
    if (world->level > 0 && world->count == 0)
        return;
    if (found) {
        bool can = slotted_can_update(world->page, world->size, slot, value.size_bytes);
        assert_int_equal(can, value.size_bytes <= world->rows[slot].value_size +
                                                      slotted_free_bytes(world->page, world->size));
        if (can)
            world_update(world, slot, value, flags);
    } else if (slotted_cost(world->page, size, value.size_bytes) <=
               slotted_free_bytes(world->page, world->size)) {
        world_insert(world, slot, key, value, flags);
    } else {
        split_for(world, slot, key, value);
    }
}

static void delete_some(struct world *world, unsigned most)
{
    unsigned first = world->level > 0 ? 1 : 0;
    for (unsigned i = 0; i < most && world->count > first; i++)
        world_delete(world, first + (unsigned)rng_below(&world->rng, world->count - first));
}

static void patch_one(struct world *world)
{
    if (world->count == 0)
        return;
    unsigned slot = (unsigned)rng_below(&world->rng, world->count);
    size_t size = world->rows[slot].value_size;
    size_t offset = rng_below(&world->rng, size + 1);
    size_t bytes = rng_below(&world->rng, size - offset + 1);
    random_bytes(&world->rng, scratch_value, bytes);
    scratch_value[0] &= 0x7f;
    world_patch(world, slot, offset, span_of(scratch_value, bytes));
}

/* Growing, a page takes mostly inserts, until it is split again and again; shrinking, it loses more
 * than it gets; in between it is churned while full, which scatters its room. */
enum phase { GROWING, CHURNING, SHRINKING, PHASES };

static void step(struct world *world, enum key_kind kind, enum phase phase, bool ascending)
{
    static const unsigned inserts_percent[PHASES] = {85, 45, 20};
    uint64_t choice = rng_below(&world->rng, 100);
    if (choice < inserts_percent[phase])
        insert_or_update(world, kind, ascending);
    else if (choice < 86)
        delete_some(world, rng_below(&world->rng, 32) == 0 ? world->count / 4 : 1);
    else if (choice < 93)
        patch_one(world);
    else if (choice < 95)
        world_siblings(world, (uint32_t)rng_next(&world->rng), (uint32_t)rng_next(&world->rng));
    else if (choice < 97)
        cut_and_append(world);
    else if (!world->upper_is_open || world->lower_size > 0)
        widen(world);
    page_set_lsn(world->page, rng_next(&world->rng));
    memcpy(world->twin, world->page, world->size);
}

static void play(uint32_t size, uint16_t level, enum key_kind kind, uint64_t seed)
{
    struct world *world = world_make(size, level, seed);
    unsigned steps = 1500 + size / 32;
    if (level > 0)
        world_insert(world, 0, span_of("", 0), span_of("\1\0\0\0", 4), 0);
    for (unsigned i = 0; i < steps; i++) {
        size_t key_size;
        enum phase phase = i < steps / 2 ? GROWING : i < steps / 10 * 9 ? CHURNING : SHRINKING;
        step(world, kind, phase, i % 400 > 300);
        if (i % 8 == 0)
            world_compare(world);
        if (pick_key(world, kind, scratch_key, &key_size))
            world_look(world, span_of(scratch_key, key_size));
        if (world->count > 0)
            world_look(world, row_key(&world->rows[rng_below(&world->rng, world->count)]));
    }
    world_compare(world);
    world_free(world);
}

static void play_all(uint16_t level)
{
    uint64_t seed = test_seed(20);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++)
        for (uint32_t size = PAGE_SIZE_MIN; size <= PAGE_SIZE_MAX; size *= 2)
            for (enum key_kind kind = 0; kind < KEY_KINDS; kind++)
                play(size, level, kind, seed + 1000 * run + size + kind);
}

static void a_leaf_is_as_good_as_a_sorted_array(void **state)
{
    (void)state;
    play_all(0);
}

static void an_inner_node_leads_where_a_sorted_array_would(void **state)
{
    (void)state;
    play_all(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leaf_is_as_good_as_a_sorted_array),
        cmocka_unit_test(an_inner_node_leads_where_a_sorted_array_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
