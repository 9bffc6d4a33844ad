/*
 * store_world.h -- a store on a simulated disk, a load for it, and the model that judges what a
 * crash left.
 *
 * A lane is one thread's keys and the history of what it did to them. Every put has a number, its
 * place in the history; a value begins with that number, and the rest of it follows from it. So
 * what is found after a crash can be put beside the history: it must be the state after the first j
 * operations, for some j from the last one acknowledged to the last one begun.
 */
#ifndef FIRN_TESTS_STORE_WORLD_H
#define FIRN_TESTS_STORE_WORLD_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "engine/store.h"
#include "io/sim_support.h"
#include "repeat.h"

enum {
    LANE_KEYS = 160,
    LANE_OPS_MAX = 1 << 13,
    VALUE_MAX = 60000,
};

/* ---- Lanes ---- */

struct lane_op {
    uint16_t key;
    bool put; /* otherwise delete */
};

struct lane {
    unsigned number;
    struct rng rng;
    unsigned begun; /* operations */
    unsigned acked;
    unsigned large_percent; /* of values that do not stay on a page */
    struct lane_op ops[LANE_OPS_MAX];
    uint8_t value[VALUE_MAX]; /* scratch */
};

static inline struct lane *lane_make(unsigned number, uint64_t seed)
{
    struct lane *lane = calloc(1, sizeof *lane);
    lane->number = number;
    lane->large_percent = 4;
    rng_init(&lane->rng, seed * 1000003 + number);
    return lane;
}

/** Keys of a lane lie between those of others; some are long, some share long beginnings. */
static inline struct span lane_key(const struct lane *lane, unsigned key, char text[700])
{
    int size = snprintf(text, 64, "%04u/%c", key * 7919 % 10007, (int)('a' + lane->number));
    if (key % 11 == 0) {
        memset(text + size, 'x', 300);
        size += 300 + snprintf(text + size + 300, 32, "%u", key);
    }
    return span_of(text, (size_t)size);
}

/** Make the value that put number `op` of a lane writes. */
static inline struct span lane_value(struct lane *lane, unsigned op)
{
    struct rng rng;
    rng_init(&rng, (uint64_t)op << 8 | lane->number);
    size_t size = 8 + rng_below(&rng, 180);
    unsigned kind = (unsigned)rng_below(&rng, 100);
    if (kind < lane->large_percent)
        size = 1000 + rng_below(&rng, VALUE_MAX - 1000);
    else if (kind < 15)
        size = 200 + rng_below(&rng, 700);
    put_u64(lane->value, op);
    for (size_t i = 8; i < size; i += 8) {
        uint64_t word = rng_next(&rng);
        memcpy(lane->value + i, &word, size - i < 8 ? size - i : 8);
    }
    return span_of(lane->value, size);
}

/** Do the next operation of a lane. @return what the store returned */
static inline firn_rc lane_step(struct lane *lane, struct store_session *session,
                                struct btree *tree)
{
    char text[700];
    assert_true(lane->begun < LANE_OPS_MAX);
    unsigned op = lane->begun;
    unsigned key = (unsigned)rng_below(&lane->rng, LANE_KEYS);
    /* Waves of growing and shrinking, so that pages split and merge. */
    bool put = rng_below(&lane->rng, 100) < (op / 300 % 2 == 0 ? 80 : 25);
    lane->ops[op] = (struct lane_op){.key = (uint16_t)key, .put = put};
    lane->begun++;
    firn_rc rc = put ? store_put(session, tree, lane_key(lane, key, text), lane_value(lane, op))
                     : store_delete(session, tree, lane_key(lane, key, text));
    if (rc == FIRN_E_NOT_FOUND)
        return FIRN_OK;
    /* What fails while the log lives has changed nothing. */
    if (rc != FIRN_OK && rc != FIRN_E_STOPPED)
        lane->begun--;
    return rc;
}

/** Commit what a lane has begun. */
static inline firn_rc lane_commit(struct lane *lane, struct store_session *session)
{
    unsigned begun = lane->begun;
    FIRN_TRY(store_commit(session));
    lane->acked = begun;
    return FIRN_OK;
}

/** What was found of a lane: for each key the put that wrote it, or -1. */
struct lane_found {
    int64_t ops[LANE_KEYS];
};

/** @return the number of a key's bytes in this lane; LANE_KEYS if it is none of the lane's. */
static inline unsigned lane_key_number(const struct lane *lane, struct span bytes)
{
    char text[700];
    unsigned key = 0;
    while (key < LANE_KEYS && span_compare(lane_key(lane, key, text), bytes) != 0)
        key++;
    return key;
}

/** Note a row of the store as found in its lane. @return NULL, or what is wrong with it */
static inline const char *lane_find(struct lane *lane, struct lane_found *found, struct span key,
                                    struct span value)
{
    unsigned number = lane_key_number(lane, key);
    if (number == LANE_KEYS)
        return "a key that nobody put";
    if (value.size_bytes < 8)
        return "a value too short for any put";
    uint64_t op = get_u64(value.bytes);
    if (op >= lane->begun || !lane->ops[op].put || lane->ops[op].key != number)
        return "a value that was not put there";
    if (span_compare(lane_value(lane, (unsigned)op), value) != 0)
        return "a value with wrong bytes";
    if (found->ops[number] != -1)
        return "a key twice";
    found->ops[number] = (int64_t)op;
    return NULL;
}

/** @return the j for which what was found is the state after j operations, acked <= j <= begun; -1
 * if there is none. */
static inline int64_t lane_place(const struct lane *lane, const struct lane_found *found)
{
    int64_t state[LANE_KEYS];
    unsigned wrong = 0;
    for (unsigned key = 0; key < LANE_KEYS; key++)
        state[key] = -1;
    for (unsigned key = 0; key < LANE_KEYS; key++)
        wrong += state[key] != found->ops[key];
    for (unsigned op = 0;; op++) {
        if (op >= lane->acked && wrong == 0)
            return op;
        if (op == lane->begun)
            return -1;
        unsigned key = lane->ops[op].key;
        wrong -= state[key] != found->ops[key];
        state[key] = lane->ops[op].put ? (int64_t)op : -1;
        wrong += state[key] != found->ops[key];
    }
}

/** Make the history what survived, so that the lane can go on after a crash. */
static inline void lane_cut_back(struct lane *lane, int64_t place)
{
    lane->begun = (unsigned)place;
    lane->acked = (unsigned)place;
}

/* ---- Quiet ---- */

static inline void drop_message(enum log_level level, const char *text, void *context)
{
    (void)level;
    (void)text;
    (void)context;
}

/** A group's setup: what a store warns of while its disk fails is expected. */
static inline int world_quiet(void **state)
{
    (void)state;
    log_set_sink(drop_message, NULL);
    return 0;
}

/* ---- A world ---- */

struct world {
    struct sim_disk *disk;
    struct io_system *system;
    struct fault_injector *faults;
    struct store_options options;
    struct store *store;
    struct btree *tree;
};

static inline void world_options(struct store_options *options)
{
    store_options_init(options);
    options->directory = "db";
    options->page_size_bytes = 4096;
    options->buffer_pool_size_bytes = 2 << 20;
    options->log_file_size_bytes = 4 << 20;
    options->log_files = 2;
    options->log_buffer_size_bytes = 8 << 20;
    options->flush_log_at_commit = REDO_FLUSH_SYNC;
    options->doublewrite = BUFFER_DOUBLEWRITE_ON;
    options->autoextend_bytes = 1 << 20;
    options->recovery_threads = 1;
    options->background_threads = false;
    options->create = true;
}

/** Put a system with a fault decorator on the disk. The store is not opened. */
static inline void world_power_on(struct world *world, uint64_t seed)
{
    ASSERT_OK(sim_disk_open_system(world->disk, clock_real(), seed, &world->system));
    ASSERT_OK(fault_attach(world->system, seed, &world->faults));
    for (int class = 0; class < IO_CLASS_COUNT; class ++)
        world->options.class_systems[class] = world->system;
}

static inline void world_init(struct world *world, struct sim_disk *disk, uint64_t seed)
{
    *world = (struct world){.disk = disk};
    world_options(&world->options);
    world_power_on(world, seed);
}

/** Open the store and its tree. */
static inline firn_rc world_open(struct world *world)
{
    FIRN_TRY(store_open(&world->options, &world->store, NULL));
    firn_rc rc = store_tree(world->store, "t", STORE_TREE_CREATE, &world->tree);
    if (rc == FIRN_OK)
        return rc;
    store_abandon(world->store);
    world->store = NULL;
    return rc;
}

static inline void world_abandon(struct world *world)
{
    if (world->store != NULL)
        store_abandon(world->store);
    world->store = NULL;
}

/** Close system and disk; the store is closed or abandoned. */
static inline void world_end(struct world *world)
{
    world_abandon(world);
    io_system_close(world->system);
    world->system = NULL;
}

/** Turn the power on again after a cut and give the disk a new system. */
static inline void world_restore(struct world *world, uint64_t seed)
{
    world_end(world);
    sim_disk_restore(world->disk);
    world_power_on(world, seed);
}

/** Count a cut that a store must survive; canaries need not. */
static inline void world_count_cut(const struct world *world)
{
    const struct store_options *options = &world->options;
    bool is_canary = options->canary_skip_log_sync || options->canary_skip_data_sync ||
                     options->doublewrite == BUFFER_DOUBLEWRITE_OFF;
    test_count(TEST_CUTS, !is_canary);
}

/**
 * Open after a crash, cutting the power again in some recoveries.
 *
 * @param cuts  how many more cuts to try at most
 * @return what store_open returned when no cut was in the way
 */
static inline firn_rc world_recover(struct world *world, struct rng *rng, unsigned cuts)
{
    for (;;) {
        world_restore(world, rng_next(rng));
        bool cut = cuts > 0 && rng_below(rng, 3) == 0;
        if (cut)
            sim_disk_cut_after(world->disk, 1 + rng_below(rng, 40),
                               all_cuts[rng_below(rng, ARRAY_COUNT(all_cuts))], rng_next(rng));
        firn_rc rc = world_open(world);
        sim_disk_cut_after(world->disk, 0, SIM_CUT_KEEP, 0);
        if (!sim_disk_is_cut(world->disk))
            return rc;
        world_count_cut(world);
        cuts--;
    }
}

/** Read all rows of the tree in one direction into what is found of the lanes. @return NULL, or
 * what is wrong */
static inline const char *world_read(struct world *world, bool forward, struct lane *const *lanes,
                                     struct lane_found *found, unsigned lane_count)
{
    for (unsigned i = 0; i < lane_count; i++)
        for (unsigned key = 0; key < LANE_KEYS; key++)
            found[i].ops[key] = -1;
    struct btree_cursor *cursor = NULL;
    if (btree_cursor_open(store_base(world->store), world->tree, &cursor) != FIRN_OK)
        return firn_error_text();
    const char *wrong = NULL;
    firn_rc rc =
        btree_cursor_seek(cursor, forward ? BTREE_SEEK_FIRST : BTREE_SEEK_LAST, span_of(NULL, 0));
    while (rc == FIRN_OK && wrong == NULL) {
        struct span value = span_of(NULL, 0);
        rc = btree_cursor_value(cursor, &value);
        if (rc != FIRN_OK)
            break;
        struct span key = btree_cursor_key(cursor);
        unsigned lane = key.size_bytes < 6 ? UINT32_MAX : (unsigned)(key.bytes[5] - 'a');
        wrong = lane < lane_count ? lane_find(lanes[lane], &found[lane], key, value)
                                  : "a key of no lane";
        rc = forward ? btree_cursor_next(cursor) : btree_cursor_prev(cursor);
    }
    btree_cursor_close(cursor);
    if (wrong == NULL && rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        wrong = firn_error_text();
    return wrong;
}

/** Keep the first problem of a check. */
static inline void world_problem(const struct finding *finding, void *context)
{
    char *first = context;
    if (first[0] == '\0')
        snprintf(first, 512, "check: %s", finding->text);
}

/**
 * Judge an open store: both directions agree, each lane is at a legal place, the check is clean.
 * Lanes are cut back to where they are.
 *
 * @return NULL, or what is wrong; valid until the next call
 */
static inline const char *world_wrong(struct world *world, struct lane *const *lanes,
                                      unsigned lane_count)
{
    static char text[512];
    struct lane_found found[8];
    struct lane_found backward[8];
    assert_true(lane_count <= ARRAY_COUNT(found));
    const char *wrong = world_read(world, true, lanes, found, lane_count);
    if (wrong == NULL)
        wrong = world_read(world, false, lanes, backward, lane_count);
    if (wrong != NULL)
        return wrong;
    if (memcmp(found, backward, lane_count * sizeof *found) != 0)
        return "forward and backward do not show the same rows";
    for (unsigned i = 0; i < lane_count; i++) {
        int64_t place = lane_place(lanes[i], &found[i]);
        snprintf(text, sizeof text,
                 "lane %u: %u acknowledged, %u begun, and what is there is no "
                 "state between",
                 i, lanes[i]->acked, lanes[i]->begun);
        if (place < 0)
            return text;
        lane_cut_back(lanes[i], place);
    }
    text[0] = '\0';
    struct store_check_result result;
    firn_rc rc = store_check(world->store, 1, world_problem, text, NULL, &result);
    if (rc == FIRN_OK)
        return NULL;
    return text[0] != '\0' ? text : firn_error_text();
}

#endif
