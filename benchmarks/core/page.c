/*
 * page.c -- what the operations on one page cost, in time and (counted by benchmarks/core/page
 * under callgrind) in instructions.
 *
 * Usage: page OPERATION COUNT [PAGES]. Keys are picked at random; with more pages than a cache
 * holds, so are pages, and what is measured is cache misses.
 */
#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "page/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    PAGE_BYTES = PAGE_SIZE_DEFAULT,
    KEY_BYTES = 16,
    VALUE_BYTES = 100,
    PICKS = 1 << 16,
    HUGE_BYTES = 2 << 20,
};

/* The pages, all of one kind, and what will be looked for in which of them. */
struct world {
    unsigned pages;
    unsigned rows; /* of a page */
    uint16_t level;
    bool numbers; /* keys are numbers of 8 bytes, else random bytes */
    uint8_t *bytes;
    struct pick {
        uint8_t *page;
        uint8_t key[KEY_BYTES];
    } picks[PICKS];
    size_t key_bytes;
    struct rng rng;
};

static void make_key(struct world *world, uint8_t *key)
{
    uint64_t words[2] = {rng_next(&world->rng), rng_next(&world->rng)};
    if (world->numbers)
        words[0] = htobe64(1000000 + words[0] % 100000);
    memcpy(key, words, KEY_BYTES);
}

static void fill_page(struct world *world, uint8_t *page)
{
    struct slotted_bounds bounds = {
        .index_id = 1, .level = world->level, .prev = PAGE_NONE, .next = PAGE_NONE};
    bounds.upper_is_open = true;
    slotted_init(page, PAGE_BYTES, 1, &bounds);
    while (slotted_count(page) < world->rows) {
        static const uint8_t value[VALUE_BYTES] = {1};
        uint8_t key[KEY_BYTES];
        unsigned slot;
        make_key(world, key);
        struct span span = span_of(key, world->level > 0 && slotted_count(page) == 0
                                            ? 0 /* an inner node's first key is its lower fence */
                                            : world->key_bytes);
        if (!slotted_search(page, PAGE_BYTES, span, &slot))
            slotted_insert(page, PAGE_BYTES, slot, span,
                           span_of(value, world->level > 0 ? 4 : VALUE_BYTES), 0);
    }
}

static void fill_world(struct world *world)
{
    size_t size = ((size_t)world->pages * PAGE_BYTES + HUGE_BYTES - 1) & ~(size_t)(HUGE_BYTES - 1);
    world->bytes = memory_alloc_aligned(size, HUGE_BYTES);
    ENSURE(world->bytes != NULL);
    madvise(world->bytes, size, MADV_HUGEPAGE);
    for (unsigned i = 0; i < world->pages; i++)
        fill_page(world, world->bytes + (size_t)i * PAGE_BYTES);
    for (unsigned i = 0; i < PICKS; i++) {
        struct pick *pick = &world->picks[i];
        pick->page = world->bytes + rng_below(&world->rng, world->pages) * PAGE_BYTES;
        unsigned slot = (unsigned)rng_below(&world->rng, world->rows);
        if (slotted_copy_key(pick->page, PAGE_BYTES, slot, pick->key) == 0)
            make_key(world, pick->key);
    }
}

/* ---- Operations. Each returns something of what it saw, so that none is optimised away. ---- */

typedef uint64_t operation(const struct world *world, const struct pick *pick);

static struct span key_of(const struct world *world, const struct pick *pick)
{
    return span_of(pick->key, world->key_bytes);
}

static uint64_t do_nothing(const struct world *world, const struct pick *pick)
{
    return key_of(world, pick).size_bytes + pick->key[0];
}

static uint64_t do_search(const struct world *world, const struct pick *pick)
{
    unsigned slot;
    return slotted_search(pick->page, PAGE_BYTES, key_of(world, pick), &slot) + slot;
}

static uint64_t do_child(const struct world *world, const struct pick *pick)
{
    unsigned slot;
    return slotted_child(pick->page, PAGE_BYTES, key_of(world, pick), &slot) + slot;
}

/* Every cell of a page: divide by its rows. */
static uint64_t do_scan(const struct world *world, const struct pick *pick)
{
    uint64_t sum = 0;
    struct slotted_cell cell;
    for (unsigned slot = 0; slot < world->rows; slot++)
        if (slotted_cell(pick->page, PAGE_BYTES, slot, &cell))
            sum += cell.suffix.bytes[0] + cell.value.bytes[0] + cell.value.size_bytes;
    return sum;
}

static void apply(const struct pick *pick, enum change_op op, const uint8_t *payload, size_t size)
{
    struct change change = {op, 1, span_of(payload, size)};
    ENSURE(change_apply(pick->page, PAGE_BYTES, &change) == FIRN_OK);
}

static uint64_t do_update(const struct world *world, const struct pick *pick)
{
    uint8_t payload[3 + VALUE_BYTES] = {0};
    unsigned slot;
    slotted_search(pick->page, PAGE_BYTES, key_of(world, pick), &slot);
    put_u16(payload, (uint16_t)slot);
    apply(pick, CHANGE_UPDATE, payload, sizeof payload);
    return slot;
}

static uint64_t do_delete_insert(const struct world *world, const struct pick *pick)
{
    uint8_t payload[4 + KEY_BYTES + VALUE_BYTES] = {0, 0, 0, KEY_BYTES};
    unsigned slot;
    slotted_search(pick->page, PAGE_BYTES, key_of(world, pick), &slot);
    put_u16(payload, (uint16_t)slot);
    apply(pick, CHANGE_DELETE, payload, 2);
    memcpy(payload + 4, pick->key, KEY_BYTES);
    apply(pick, CHANGE_INSERT, payload, sizeof payload);
    return slot;
}

static const struct {
    const char *name;
    operation *function;
    unsigned rows;
    uint16_t level;
    bool numbers;
} operations[] = {
    {"nothing", do_nothing, 120, 0, false},      {"search", do_search, 120, 0, false},
    {"search-numbers", do_search, 120, 0, true}, {"child", do_child, 400, 1, false},
    {"child-numbers", do_child, 400, 1, true},   {"scan", do_scan, 120, 0, false},
    {"update", do_update, 120, 0, false},        {"delete-insert", do_delete_insert, 100, 0, false},
};

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    static struct world world;
    size_t chosen = 0;
    while (argc >= 3 && chosen < ARRAY_COUNT(operations) &&
           strcmp(operations[chosen].name, argv[1]) != 0)
        chosen++;
    if (argc < 3 || chosen == ARRAY_COUNT(operations)) {
        fprintf(stderr, "Usage: page OPERATION COUNT [PAGES]\n");
        return 2;
    }
    unsigned long count = strtoul(argv[2], NULL, 10);
    rng_init(&world.rng, 1);
    world.pages = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
    world.rows = operations[chosen].rows;
    world.level = operations[chosen].level;
    world.numbers = operations[chosen].numbers;
    world.key_bytes = world.numbers ? 8 : KEY_BYTES;
    fill_world(&world);
    operation *function = operations[chosen].function;
    uint64_t sum = 0;
    double begin = now_ns();
    for (unsigned long i = 0; i < count; i++)
        sum += function(&world, &world.picks[i % PICKS]);
    printf("%.1f ns (%llx)\n", (now_ns() - begin) / (double)count, (unsigned long long)sum);
    memory_free(world.bytes);
    return 0;
}
