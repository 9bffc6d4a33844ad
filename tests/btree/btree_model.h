/*
 * btree_model.h -- a plain sorted map to judge trees by, and random keys and values.
 *
 * The model keeps for each key which value it has: a number and a size, from which the bytes
 * follow.
 */
#ifndef FIRN_TESTS_BTREE_BTREE_MODEL_H
#define FIRN_TESTS_BTREE_BTREE_MODEL_H

#include "btree/btree_fixture.h"

struct model_entry {
    uint8_t *key;
    size_t key_bytes;
    uint64_t number; /* of the value */
    size_t value_bytes;
};

struct model {
    struct model_entry *entries; /* by key */
    size_t count;
    size_t capacity;
};

static inline struct span model_key(const struct model *model, size_t i)
{
    return span_of(model->entries[i].key, model->entries[i].key_bytes);
}

/** @return the first entry at or above a key; *found tells whether it is the key's */
static inline size_t model_find(const struct model *model, struct span key, bool *found)
{
    size_t low = 0;
    size_t high = model->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (span_compare(model_key(model, middle), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < model->count && span_compare(model_key(model, low), key) == 0;
    return low;
}

static inline void model_put(struct model *model, struct span key, uint64_t number,
                             size_t value_bytes)
{
    bool found;
    size_t at = model_find(model, key, &found);
    if (!found) {
        if (model->count == model->capacity) {
            model->capacity = model->capacity == 0 ? 64 : model->capacity * 2;
            model->entries = realloc(model->entries, model->capacity * sizeof(*model->entries));
        }
        memmove(model->entries + at + 1, model->entries + at,
                (model->count - at) * sizeof(*model->entries));
        model->count++;
        model->entries[at].key = malloc(key.size_bytes + 1);
        model->entries[at].key_bytes = key.size_bytes;
        if (key.size_bytes > 0)
            memcpy(model->entries[at].key, key.bytes, key.size_bytes);
    }
    model->entries[at].number = number;
    model->entries[at].value_bytes = value_bytes;
}

static inline void model_delete(struct model *model, size_t at)
{
    free(model->entries[at].key);
    model->count--;
    memmove(model->entries + at, model->entries + at + 1,
            (model->count - at) * sizeof(*model->entries));
}

static inline void model_free(struct model *model)
{
    while (model->count > 0)
        model_delete(model, model->count - 1);
    free(model->entries);
    *model = (struct model){.count = 0};
}

/* ---- Random keys and values ---- */

enum key_kind { KEYS_SHORT, KEYS_NUMBERS, KEYS_LONG, KEYS_PREFIXED, KEYS_KINDS };

/** Make a random key out of a universe that is small enough for keys to come again.
 * @param key  room for the longest */
static inline struct span random_key(struct rng *rng, enum key_kind kind, size_t key_max,
                                     uint8_t *key)
{
    uint64_t number = rng_below(rng, 4000);
    size_t size;
    switch (kind) {
    case KEYS_SHORT: /* the empty one and prefixes of others included */
        size = rng_below(rng, 4);
        for (size_t i = 0; i < size; i++)
            key[i] = (uint8_t)("\0aZ\377"[rng_below(rng, 4)] + (int)rng_below(rng, 6));
        return span_of(key, size);
    case KEYS_NUMBERS:
        put_u64(key, htobe64(number));
        return span_of(key, 8);
    case KEYS_LONG: /* that differ early */
        size = 8 + number * 7919 % (key_max - 7);
        memset(key, (int)number, size);
        put_u64(key, htobe64(number));
        return span_of(key, size);
    default: /* that differ late */
        size = key_max - number % 3;
        memset(key, 'p', size);
        put_u64(key + size - 8, htobe64(number));
        return span_of(key, size);
    }
}

/** @return a size: mostly small, at times at the limit of what stays in the leaf, or many pages. */
static inline size_t random_value_bytes(struct rng *rng, uint32_t page_size_bytes)
{
    switch (rng_below(rng, 32)) {
    case 0:
        return rng_below(rng, 3 * page_size_bytes);
    case 1:
        return rng_below(rng, 40 * page_size_bytes);
    case 2:
    case 3:
    case 4:
        return slotted_cell_max(page_size_bytes) - rng_below(rng, 40);
    case 5:
        return 0;
    default:
        return rng_below(rng, 200);
    }
}

#endif
