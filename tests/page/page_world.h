/*
 * page_world.h -- one node of a B+tree beside a plain sorted array that says what it must hold, and
 * a twin of the page that is only changed by records.
 *
 * Every change is done to the page by slotted.h, encoded, decoded and repeated on the twin; pages
 * must stay equal to the byte. To be included behind <cmocka.h>.
 */
#ifndef FIRN_TESTS_PAGE_WORLD_H
#define FIRN_TESTS_PAGE_WORLD_H

#include "base/rng.h"
#include "page/change.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD_ROWS_MAX = PAGE_SIZE_MAX / 10, WORLD_KEY_MAX = PAGE_SIZE_MAX / 16 * 3 };

struct row {
    uint8_t *key;
    size_t key_size;
    uint8_t *value;
    size_t value_size;
    unsigned flags;
};

struct world {
    struct rng rng;
    uint32_t size;
    uint64_t page_id;
    uint16_t level;
    uint8_t *page;
    uint8_t *twin;
    uint8_t *record; /* room for a record of any size */
    unsigned count;
    struct row rows[WORLD_ROWS_MAX];
    uint8_t lower[WORLD_KEY_MAX];
    size_t lower_size;
    uint8_t upper[WORLD_KEY_MAX];
    size_t upper_size;
    bool upper_is_open;
};

static inline struct span row_key(const struct row *row)
{
    return span_of(row->key, row->key_size);
}

static inline struct span row_value(const struct row *row)
{
    return span_of(row->value, row->value_size);
}

static inline void world_bounds(const struct world *world, struct slotted_bounds *bounds)
{
    *bounds = (struct slotted_bounds){
        .index_id = 77,
        .level = world->level,
        .prev = PAGE_NONE,
        .next = 12,
        .lower = span_of(world->lower, world->lower_size),
        .upper = span_of(world->upper, world->upper_size),
        .upper_is_open = world->upper_is_open,
    };
}

static inline void world_set_bounds(struct world *world, struct span lower, struct span upper,
                                    bool upper_is_open)
{
    if (lower.size_bytes > 0)
        memmove(world->lower, lower.bytes, lower.size_bytes);
    world->lower_size = lower.size_bytes;
    world->upper_is_open = upper_is_open;
    world->upper_size = upper_is_open ? 0 : upper.size_bytes;
    if (world->upper_size > 0)
        memmove(world->upper, upper.bytes, world->upper_size);
}

/* Repeat on the twin what was done to the page. */
static inline void world_repeat(struct world *world, enum change_op op, size_t payload_size)
{
    uint8_t header[CHANGE_HEADER_MAX_BYTES];
    size_t header_size = change_put_header(header, op, world->page_id, payload_size);
    struct change change;
    memmove(world->record + header_size, world->record, payload_size);
    memcpy(world->record, header, header_size);
    struct span body = span_of(world->record, header_size + payload_size);
    assert_int_equal(change_next(&body, &change), FIRN_OK);
    assert_int_equal(change_next(&body, &change), FIRN_E_NOT_FOUND);
    assert_int_equal(change.op, op);
    assert_true(change.page_id == world->page_id);
    assert_int_equal(change.payload.size_bytes, payload_size);
    if (change_begins_page(op))
        memset(world->twin, 0xee, world->size);
    assert_int_equal(change_apply(world->twin, world->size, &change), FIRN_OK);
    assert_memory_equal(world->page, world->twin, world->size);
}

static inline size_t put_bytes(uint8_t *to, struct span bytes)
{
    if (bytes.size_bytes > 0)
        memcpy(to, bytes.bytes, bytes.size_bytes);
    return bytes.size_bytes;
}

/* ---- The array ---- */

static inline uint8_t *bytes_copy(struct span bytes)
{
    uint8_t *copy = malloc(bytes.size_bytes + 1);
    assert_non_null(copy);
    put_bytes(copy, bytes);
    return copy;
}

static inline void rows_insert(struct world *world, unsigned at, struct span key, struct span value,
                               unsigned flags)
{
    memmove(&world->rows[at + 1], &world->rows[at], (world->count - at) * sizeof(world->rows[0]));
    world->rows[at] =
        (struct row){bytes_copy(key), key.size_bytes, bytes_copy(value), value.size_bytes, flags};
    world->count++;
}

static inline void rows_remove(struct world *world, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        free(world->rows[i].key);
        free(world->rows[i].value);
    }
    memmove(&world->rows[from], &world->rows[to], (world->count - to) * sizeof(world->rows[0]));
    world->count -= to - from;
}

/* The plain way to find a key: the first at or above it. */
static inline unsigned rows_find(const struct world *world, struct span key, bool *found)
{
    unsigned at = 0;
    while (at < world->count && span_compare(row_key(&world->rows[at]), key) < 0)
        at++;
    *found = at < world->count && span_compare(row_key(&world->rows[at]), key) == 0;
    return at;
}

/* ---- Both ---- */

static inline void world_init_page(struct world *world)
{
    struct slotted_bounds bounds;
    world_bounds(world, &bounds);
    rows_remove(world, 0, world->count);
    slotted_init(world->page, world->size, world->page_id, &bounds);
    size_t size = change_put_bounds(world->record, &bounds);
    assert_int_equal(size, change_bounds_bytes(&bounds));
    world_repeat(world, CHANGE_INIT_INDEX, size);
}

static inline struct world *world_make(uint32_t size, uint16_t level, uint64_t seed)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    rng_init(&world->rng, seed);
    world->size = size;
    world->page_id = page_id_of(300, 70000);
    world->level = level;
    world->upper_is_open = true;
    world->page = malloc(size); /* of just its size, so that the sanitizer sees reads beyond it */
    world->twin = malloc(size);
    world->record = malloc(2 * (size_t)PAGE_SIZE_MAX);
    assert_true(world->page != NULL && world->twin != NULL && world->record != NULL);
    memset(world->page, 0xdd, size);
    world_init_page(world);
    return world;
}

static inline void world_free(struct world *world)
{
    rows_remove(world, 0, world->count);
    free(world->page);
    free(world->twin);
    free(world->record);
    free(world);
}

static inline void world_insert(struct world *world, unsigned slot, struct span key,
                                struct span value, unsigned flags)
{
    size_t prefix_size = slotted_prefix(world->page, world->size).size_bytes;
    uint8_t *at = world->record;
    slotted_insert(world->page, world->size, slot, key, value, flags);
    put_u16(at, (uint16_t)slot);
    at[2] = (uint8_t)flags;
    at += 3;
    at += change_put_varint(at, key.size_bytes - prefix_size);
    at += put_bytes(at, span_of(key.bytes + prefix_size, key.size_bytes - prefix_size));
    at += put_bytes(at, value);
    world_repeat(world, CHANGE_INSERT, (size_t)(at - world->record));
    rows_insert(world, slot, key, value, flags);
}

static inline void world_delete(struct world *world, unsigned slot)
{
    slotted_delete(world->page, world->size, slot);
    put_u16(world->record, (uint16_t)slot);
    world_repeat(world, CHANGE_DELETE, 2);
    rows_remove(world, slot, slot + 1);
}

static inline void world_update(struct world *world, unsigned slot, struct span value,
                                unsigned flags)
{
    struct row *row = &world->rows[slot];
    slotted_update(world->page, world->size, slot, value, flags);
    put_u16(world->record, (uint16_t)slot);
    world->record[2] = (uint8_t)flags;
    put_bytes(world->record + 3, value);
    world_repeat(world, CHANGE_UPDATE, 3 + value.size_bytes);
    free(row->value);
    row->value = bytes_copy(value);
    row->value_size = value.size_bytes;
    row->flags = flags;
}

static inline void world_patch(struct world *world, unsigned slot, size_t offset, struct span bytes)
{
    slotted_patch(world->page, world->size, slot, offset, bytes);
    put_u16(world->record, (uint16_t)slot);
    put_u16(world->record + 2, (uint16_t)offset);
    put_bytes(world->record + 4, bytes);
    world_repeat(world, CHANGE_PATCH, 4 + bytes.size_bytes);
    put_bytes(world->rows[slot].value + offset, bytes);
}

static inline void world_siblings(struct world *world, uint32_t prev, uint32_t next)
{
    slotted_set_prev(world->page, prev);
    slotted_set_next(world->page, next);
    put_u32(world->record, prev);
    put_u32(world->record + 4, next);
    world_repeat(world, CHANGE_SIBLINGS, 8);
    assert_true(slotted_prev(world->page) == prev && slotted_next(world->page) == next);
}

/* Keep rows [from, to) under the world's bounds, which have been set already. */
static inline void world_rebuild(struct world *world, unsigned from, unsigned to)
{
    struct slotted_bounds bounds;
    world_bounds(world, &bounds);
    assert_true(slotted_fits(world->page, world->size, from, to, &bounds, 0));
    slotted_rebuild(world->page, world->size, from, to, &bounds);
    put_u16(world->record, (uint16_t)from);
    put_u16(world->record + 2, (uint16_t)to);
    size_t size = change_put_bounds(world->record + 4, &bounds);
    world_repeat(world, CHANGE_REBUILD, 4 + size);
    rows_remove(world, to, world->count);
    rows_remove(world, 0, from);
}

/* Append rows that were packed before; `rows` is where the array learns them from. */
static inline void world_append(struct world *world, struct span packed, const struct row *rows,
                                unsigned count)
{
    assert_int_equal(slotted_append_packed(world->page, world->size, packed), FIRN_OK);
    put_bytes(world->record, packed);
    world_repeat(world, CHANGE_APPEND, packed.size_bytes);
    for (unsigned i = 0; i < count; i++)
        rows_insert(world, world->count, row_key(&rows[i]), row_value(&rows[i]), rows[i].flags);
}

static inline void assert_node_sound(const uint8_t *page, uint32_t size)
{
    char what[128] = "";
    firn_rc rc = slotted_check(page, size, what);
    if (rc != FIRN_OK)
        print_error("slotted_check: %s\n", what);
    assert_int_equal(rc, FIRN_OK);
}

/* The page holds what the array holds. */
static inline void world_compare(const struct world *world)
{
    static uint8_t key[WORLD_KEY_MAX];
    assert_node_sound(world->page, world->size);
    assert_int_equal(slotted_count(world->page), world->count);
    for (unsigned i = 0; i < world->count; i++) {
        const struct row *row = &world->rows[i];
        struct slotted_cell cell;
        assert_true(slotted_cell(world->page, world->size, i, &cell));
        assert_int_equal(slotted_copy_key(world->page, world->size, i, key), row->key_size);
        assert_memory_equal(key, row->key, row->key_size);
        assert_int_equal(cell.value.size_bytes, row->value_size);
        assert_memory_equal(cell.value.bytes, row->value, row->value_size);
        assert_int_equal(cell.flags, row->flags);
    }
}

/* A key is found where the array has it, and in an inner node leads to the child it belongs to. */
static inline void world_look(const struct world *world, struct span key)
{
    bool found;
    unsigned expected = rows_find(world, key, &found);
    unsigned slot = UINT_MAX;
    assert_int_equal(slotted_search(world->page, world->size, key, &slot), found);
    assert_int_equal(slot, expected);
    if (world->level == 0 || world->count == 0)
        return;
    expected -= !found;
    uint32_t child = slotted_child(world->page, world->size, key, &slot);
    assert_int_equal(slot, expected);
    assert_true(child == get_u32(world->rows[expected].value));
}

#endif
