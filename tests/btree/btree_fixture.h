/*
 * btree_fixture.h -- an environment for the tests of trees: a simulated disk (or a directory of
 * real files) with log, tablespaces, pool, and one tree in a tablespace of its own.
 */
#ifndef FIRN_TESTS_BTREE_BTREE_FIXTURE_H
#define FIRN_TESTS_BTREE_BTREE_FIXTURE_H

#include "base/check.h"
#include "base/rng.h"
#include "btree/btree.h"
#include "recovery/recovery.h"

#include "io/sim_support.h"

#include <stdatomic.h>

enum { WORLD_INDEX = 7, WORLD_LOG_FILE_BYTES = 4 << 20 };

/** What an environment is made of; zeros stand for what is usual. */
struct world_options {
    uint32_t page_size_bytes; /* 4096 */
    unsigned pool_pages;      /* 2000 */
    uint64_t log_file_bytes;  /* 4 MiB */
    struct sim_disk *disk;    /* opened on this one; NULL: on a fresh one, which is the world's */
    const char *directory;    /* or in a directory of real files */
    bool direct;
    bool cleaner_thread;
};

struct world {
    struct world_options options;
    struct sim_disk *disk;
    struct io_system *system;
    struct fault_injector *faults; /* of the simulated disk */
    struct btree_base base;
    uint32_t space;
    uint32_t root_page;
    struct btree *tree;
    struct btree_session *session;
};

static inline struct redo_options world_redo_options(const struct world *world)
{
    return (struct redo_options){
        .system = world->system,
        .directory = world->options.directory,
        .file_size_bytes = world->options.log_file_bytes,
        .file_count = 2,
        .buffer_size_bytes = 1 << 20,
        .environment = "an environment!",
        .direct = world->options.direct,
    };
}

static inline firn_rc world_urge(void *context)
{
    return buffer_clean(context);
}

/** Open log, tablespaces and pool on what is there, as an engine does before recovery. */
static inline firn_rc world_open_base(struct world *world)
{
    struct btree_base *base = &world->base;
    struct redo_options redo_options = world_redo_options(world);
    FIRN_TRY(redo_open(&redo_options, &base->redo));
    struct space_options space_options = {
        .page_size_bytes = world->options.page_size_bytes,
        .environment = "an environment!",
        .direct = world->options.direct,
        .autoextend_bytes = 4 << 20,
    };
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        space_options.places[class] = (struct space_place){world->system, world->options.directory};
    FIRN_TRY(space_set_open(&space_options, &base->spaces));
    struct buffer_options buffer_options = {
        .size_bytes = (uint64_t)world->options.pool_pages * (world->options.page_size_bytes + 128) +
                      (1 << 16),
        .page_size_bytes = world->options.page_size_bytes,
        .redo = base->redo,
        .files = space_files(base->spaces),
        .systems = &world->system,
        .system_count = 1,
        .doublewrite_system = world->system,
        .doublewrite_directory = world->options.directory,
        .doublewrite_direct = world->options.direct,
        .environment = "an environment!",
        .cleaner_thread = world->options.cleaner_thread,
        .io_capacity = 200,
        .io_capacity_max = 2000,
        .dirty_percent_max = 90,
    };
    FIRN_TRY(buffer_open(&buffer_options, &base->pool));
    space_set_attach(base->spaces, base->pool, base->redo);
    redo_set_urge(base->redo, world_urge, base->pool);
    return FIRN_OK;
}

static inline void world_open_disk(struct world *world, uint64_t seed)
{
    world->system = disk_open(world->options.disk, seed);
    ASSERT_OK(fault_attach(world->system, seed, &world->faults));
}

static inline void world_fill_options(struct world *world, const struct world_options *options)
{
    *world = (struct world){.options = *options};
    struct world_options *filled = &world->options;
    if (filled->page_size_bytes == 0)
        filled->page_size_bytes = PAGE_SIZE_MIN;
    if (filled->pool_pages == 0)
        filled->pool_pages = 2000;
    if (filled->log_file_bytes == 0)
        filled->log_file_bytes = WORLD_LOG_FILE_BYTES;
    if (filled->directory != NULL) {
        ASSERT_OK(io_system_open(IO_BACKEND_AUTO, clock_real(), &world->system));
        return;
    }
    filled->directory = "/";
    if (filled->disk == NULL)
        world->disk = filled->disk = disk_make();
    world_open_disk(world, 1);
}

/** Make an environment with an empty tree. */
static inline void world_make(struct world *world, const struct world_options *options)
{
    world_fill_options(world, options);
    struct redo_options redo_options = world_redo_options(world);
    ASSERT_OK(redo_create(&redo_options, REDO_FIRST_LSN));
    ASSERT_OK(world_open_base(world));
    ASSERT_OK(redo_recovered(world->base.redo, redo_checkpoint_lsn(world->base.redo)));
    ASSERT_OK(btree_session_open(&world->base, &world->session));
    struct mtr *mtr = btree_session_mtr(world->session);
    ASSERT_OK(space_create(world->base.spaces, mtr, IO_CLASS_SYSTEM, "system", &world->space));
    ASSERT_OK(space_create(world->base.spaces, mtr, IO_CLASS_TABLE, "table", &world->space));
    ASSERT_OK(btree_create(world->session, world->space, WORLD_INDEX, &world->root_page));
    ASSERT_OK(btree_open(&world->base, world->space, world->root_page, WORLD_INDEX, &world->tree));
}

/** The process dies: nothing is flushed. */
static inline void world_die(struct world *world)
{
    btree_close(world->tree);
    btree_session_close(world->session);
    buffer_close(world->base.pool);
    (void)space_set_close(world->base.spaces);
    (void)redo_close(world->base.redo);
    io_system_close(world->system);
    world->tree = NULL;
    world->session = NULL;
    world->base = (struct btree_base){.pool = NULL};
    world->system = NULL;
}

/** Give everything back, without flushing: what is not on disk is lost. */
static inline void world_drop(struct world *world)
{
    world_die(world);
    sim_disk_destroy(world->disk);
    *world = (struct world){.disk = NULL};
}

static inline firn_rc world_try_recover(struct world *world)
{
    struct btree_base *base = &world->base;
    struct recovery_result result;
    FIRN_TRY(world_open_base(world));
    FIRN_TRY(space_scan(base->spaces, true));
    struct recovery_options options = {.redo = base->redo,
                                       .pool = base->pool,
                                       .spaces = base->spaces,
                                       .threads = 1,
                                       .memory_bytes = 1 << 20};
    FIRN_TRY(recovery_run(&options, &result));
    FIRN_TRY(space_recovered(base->spaces));
    FIRN_TRY(redo_recovered(base->redo, result.end_lsn));
    FIRN_TRY(btree_session_open(base, &world->session));
    FIRN_TRY(btree_clear_limbo(world->session, world->space));
    return btree_open(base, world->space, world->root_page, WORLD_INDEX, &world->tree);
}

/** Open what a world that died has left on its simulated disk; may fail if the power goes again:
 * then it has died again. */
static inline firn_rc world_recover(struct world *world, uint64_t seed)
{
    if (sim_disk_is_cut(world->options.disk))
        sim_disk_restore(world->options.disk);
    world_open_disk(world, seed);
    firn_rc rc = world_try_recover(world);
    if (rc != FIRN_OK)
        world_die(world);
    return rc;
}

/** A dead world on a copy of a dead world's disk. */
static inline struct world world_clone(const struct world *world)
{
    struct world copy = *world;
    copy.disk = copy.options.disk = sim_disk_clone(world->options.disk);
    return copy;
}

static inline firn_rc world_count_page(uint32_t page_no, uint64_t owner, void *context)
{
    (void)page_no;
    *(unsigned *)context += owner == WORLD_INDEX;
    return FIRN_OK;
}

/** @return how many pages of the tablespace are allocated to the tree. */
static inline unsigned world_tree_pages(struct world *world)
{
    unsigned pages = 0;
    ASSERT_OK(space_each_page(world->base.spaces, world->space, world_count_page, &pages));
    return pages;
}

static inline void world_problem(const struct finding *finding, void *context)
{
    (void)context;
    print_error("%s\n", finding->text);
}

static inline void world_count_seen(uint32_t page_no, void *context)
{
    (void)page_no;
    atomic_fetch_add((atomic_uint *)context, 1);
}

/** Judge the tree, the tablespace, and that each page allocated to the tree is a part of it. */
static inline void world_check(struct world *world, struct btree_shape *shape)
{
    atomic_uint pages = 0;
    struct btree_check_options options = {
        .threads = 1, .report = world_problem, .seen = world_count_seen, .context = &pages};
    ASSERT_OK(btree_check(world->tree, &options, shape));
    ASSERT_OK(space_check(world->base.spaces, world->space, world_problem, NULL));
    assert_int_equal(pages, world_tree_pages(world));
}

/* ---- Keys and values that follow from a number ---- */

enum { WORLD_KEY_BYTES = 12 };

/** @return the n-th key; ascending numbers give ascending keys. */
static inline struct span world_key(uint8_t key[WORLD_KEY_BYTES], uint64_t number)
{
    memcpy(key, "key:", 4);
    put_u64(key + 4, htobe64(number));
    return span_of(key, WORLD_KEY_BYTES);
}

/** Fill a value of a size that follows from number and version. @return a span of it */
static inline struct span world_value(uint8_t *value, size_t size_bytes, uint64_t number,
                                      uint64_t version)
{
    struct rng rng;
    rng_init(&rng, number * 1000003 + version);
    uint64_t word = rng_next(&rng);
    for (size_t i = 0; i < size_bytes; i++) {
        value[i] = (uint8_t)(word >> (i % 8) * 8);
        if (i % 8 == 7)
            word = word * 6364136223846793005u + 1442695040888963407u;
    }
    return span_of(value, size_bytes);
}

static inline void assert_span_equal(struct span found, struct span expected)
{
    assert_int_equal(found.size_bytes, expected.size_bytes);
    if (expected.size_bytes > 0)
        assert_memory_equal(found.bytes, expected.bytes, expected.size_bytes);
}

#endif
