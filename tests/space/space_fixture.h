/*
 * space_fixture.h -- an environment of a log, a pool and tablespaces on a simulated disk.
 */
#ifndef FIRN_TESTS_SPACE_SPACE_FIXTURE_H
#define FIRN_TESTS_SPACE_SPACE_FIXTURE_H

#include "base/check.h"
#include "io/sim_support.h"
#include "recovery/recovery.h"
#include "space/space.h"

#define WORLD_ENVIRONMENT "environment one"

struct world {
    struct sim_disk *disk;
    struct io_system *system;
    struct redo_options redo_options;
    struct redo *redo;
    struct buffer_pool *pool;
    struct space_set *set;
    struct mtr mtr;
    uint32_t page_size;
    bool cleaner_thread; /* to be set between world_begin and world_go_on */
};

static inline struct space_options world_space_options(const struct world *world)
{
    struct space_options options = {.page_size_bytes = world->page_size,
                                    .environment = WORLD_ENVIRONMENT,
                                    .autoextend_bytes = 1 << 20};
    static const enum io_class classes[] = {IO_CLASS_TABLE, IO_CLASS_UNDO, IO_CLASS_SYSTEM,
                                            IO_CLASS_TEMPORARY};
    for (unsigned i = 0; i < 4; i++)
        options.places[classes[i]] = (struct space_place){.system = world->system, .directory = ""};
    return options;
}

static inline struct redo_options world_redo_options(const struct world *world)
{
    return (struct redo_options){.system = world->system,
                                 .directory = "",
                                 .file_size_bytes = 4 << 20,
                                 .file_count = 2,
                                 .buffer_size_bytes = 1 << 20,
                                 .environment = WORLD_ENVIRONMENT};
}

/** Open the pool over tablespaces and log that are open. */
static inline firn_rc world_open_pool(struct world *world)
{
    struct buffer_options options = {.size_bytes = 4 << 20,
                                     .size_max_bytes = 4 << 20,
                                     .page_size_bytes = world->page_size,
                                     .redo = world->redo,
                                     .files = space_files(world->set),
                                     .systems = &world->system,
                                     .system_count = 1,
                                     .doublewrite = BUFFER_DOUBLEWRITE_ON,
                                     .doublewrite_system = world->system,
                                     .doublewrite_directory = "",
                                     .environment = WORLD_ENVIRONMENT,
                                     .cleaner_thread = world->cleaner_thread,
                                     .io_capacity = 200,
                                     .io_capacity_max = 2000,
                                     .dirty_percent_max = 90,
                                     .old_percent = 37,
                                     .queue_depth = 16};
    return buffer_open(&options, &world->pool);
}

static inline firn_rc world_recover(struct world *world)
{
    struct recovery_result result;
    struct recovery_options options = {
        .redo = world->redo, .pool = world->pool, .spaces = world->set, .threads = 1};
    FIRN_TRY(recovery_run(&options, &result));
    FIRN_TRY(space_recovered(world->set));
    return redo_recovered(world->redo, result.end_lsn);
}

/** Open a view of a disk, nothing more. */
static inline void world_begin(struct world *world, struct sim_disk *disk, uint32_t page_size,
                               uint64_t seed)
{
    memset(world, 0, sizeof *world);
    world->disk = disk;
    world->system = disk_open(disk, seed);
    world->page_size = page_size;
}

/** Open what is there, and recover. */
static inline firn_rc world_go_on(struct world *world)
{
    struct space_options options = world_space_options(world);
    world->redo_options = world_redo_options(world);
    FIRN_TRY(redo_open(&world->redo_options, &world->redo));
    FIRN_TRY(space_set_open(&options, &world->set));
    FIRN_TRY(space_scan(world->set, true));
    FIRN_TRY(world_open_pool(world));
    space_set_attach(world->set, world->pool, world->redo);
    mtr_init(&world->mtr, world->pool, world->redo);
    return world_recover(world);
}

/** Open an environment and recover. After a failure the world is to be abandoned all the same. */
static inline firn_rc world_open(struct world *world, struct sim_disk *disk, uint32_t page_size,
                                 uint64_t seed)
{
    world_begin(world, disk, page_size, seed);
    return world_go_on(world);
}

/** Make an environment with a system tablespace on an empty disk. */
static inline void world_make(struct world *world, struct sim_disk *disk, uint32_t page_size)
{
    uint32_t id;
    memset(world, 0, sizeof *world);
    world->disk = disk;
    world->system = disk_open(disk, 1);
    world->page_size = page_size;
    struct space_options options = world_space_options(world);
    world->redo_options = world_redo_options(world);
    ASSERT_OK(redo_create(&world->redo_options, REDO_FIRST_LSN));
    ASSERT_OK(redo_open(&world->redo_options, &world->redo));
    ASSERT_OK(redo_recovered(world->redo, REDO_FIRST_LSN));
    ASSERT_OK(space_set_open(&options, &world->set));
    ASSERT_OK(world_open_pool(world));
    space_set_attach(world->set, world->pool, world->redo);
    mtr_init(&world->mtr, world->pool, world->redo);
    ASSERT_OK(space_create(world->set, &world->mtr, IO_CLASS_SYSTEM, "system", &id));
    assert_int_equal(id, SPACE_SYSTEM);
}

/** Close everything but the disk, without flushing. */
static inline void world_abandon(struct world *world)
{
    if (world->mtr.pool != NULL)
        mtr_free(&world->mtr);
    buffer_close(world->pool);
    redo_close(world->redo);
    space_set_close(world->set);
    io_system_close(world->system);
    memset(world, 0, sizeof *world);
}

/** Write everything, take a checkpoint, close. */
static inline void world_close(struct world *world)
{
    ASSERT_OK(buffer_flush(world->pool, UINT64_MAX));
    ASSERT_OK(redo_checkpoint(world->redo, buffer_clean_lsn(world->pool)));
    world_abandon(world);
}

#endif
