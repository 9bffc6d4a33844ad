/*
 * space_fixture.h -- an environment of a log, a pool and tablespaces on a simulated disk.
 */
#ifndef FIRN_TESTS_SPACE_SPACE_FIXTURE_H
#define FIRN_TESTS_SPACE_SPACE_FIXTURE_H

#include "base/check.h"
#include "io/sim_support.h"
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
                                     .io_capacity = 200,
                                     .io_capacity_max = 2000,
                                     .dirty_percent_max = 90,
                                     .old_percent = 37,
                                     .queue_depth = 16};
    return buffer_open(&options, &world->pool);
}

/** Repeat one change as recovery does. */
static inline firn_rc world_redo_change(struct world *world, const struct change *change,
                                        uint64_t end_lsn)
{
    struct buffer_frame *frame;
    if (change->op > CHANGE_PAGE_LAST)
        return space_redo(world->set, change, end_lsn);
    if (space_has(world->set, change->page_id) != FIRN_OK)
        return FIRN_OK;
    FIRN_TRY(space_reach(world->set, change->page_id));
    if (change_begins_page(change->op))
        FIRN_TRY(buffer_fix_new(world->pool, change->page_id, &frame));
    else
        FIRN_TRY(
            buffer_fix(world->pool, change->page_id, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &frame));
    uint8_t *page = buffer_page(world->pool, frame);
    firn_rc rc = FIRN_OK;
    if (change_begins_page(change->op) || page_lsn(page) < end_lsn) {
        buffer_mark_dirty(world->pool, frame, redo_checkpoint_lsn(world->redo));
        rc = change_apply(page, world->page_size, change);
        page_set_lsn(page, end_lsn);
    }
    buffer_unfix(world->pool, frame, BUFFER_EXCLUSIVE);
    return rc;
}

/** Recovery at its simplest: all changes in order, in the calling thread. */
static inline firn_rc world_recover(struct world *world)
{
    struct redo_reader *reader;
    struct span body;
    struct change change;
    uint64_t lsn;
    uint64_t end_lsn = redo_checkpoint_lsn(world->redo);
    unsigned repaired;
    FIRN_TRY(buffer_doublewrite_repair(world->pool, &repaired));
    FIRN_TRY(redo_reader_open(world->redo, end_lsn, &reader));
    firn_rc rc;
    while ((rc = redo_reader_next(reader, &body, &lsn, &end_lsn)) == FIRN_OK)
        while (rc == FIRN_OK && change_next(&body, &change) == FIRN_OK)
            FIRN_TRY_GOTO(world_redo_change(world, &change, end_lsn), out);
    if (rc == FIRN_E_NOT_FOUND)
        rc = redo_recovered(world->redo, end_lsn);
    if (rc == FIRN_OK)
        rc = space_recovered(world->set);
out:
    redo_reader_close(reader);
    return rc;
}

/**
 * Open an environment as it is on a disk, and recover.
 *
 * @return FIRN_OK; a failure, with the world to be abandoned all the same
 */
static inline firn_rc world_open(struct world *world, struct sim_disk *disk, uint32_t page_size,
                                 uint64_t seed)
{
    memset(world, 0, sizeof *world);
    world->disk = disk;
    world->system = disk_open(disk, seed);
    world->page_size = page_size;
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
