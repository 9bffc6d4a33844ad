/*
 * model_world.h -- what the tests of models around systems share.
 */
#ifndef FIRN_TESTS_IO_MODEL_WORLD_H
#define FIRN_TESTS_IO_MODEL_WORLD_H

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "io/fault.h"
#include "io/model.h"
#include "io/support.h"

#include <errno.h>
#include <pthread.h>

#define MIB (UINT64_C(1) << 20)

struct world {
    struct clock *clock;
    struct sim_disk *disk;
    struct io_system *system;
};

static inline void attach(struct io_system *system, const char *model)
{
    struct model_spec spec;
    ASSERT_OK(model_find(model, &spec));
    ASSERT_OK(model_attach(system, &spec));
}

/* A model over a disk in memory, in virtual time, this thread joined. */
static inline struct world world_open(const char *model)
{
    static const struct sim_disk_options options = {.sector_bytes = 512};
    struct world world;
    ASSERT_OK(clock_open_virtual(&world.clock));
    ASSERT_OK(sim_disk_create(&options, &world.disk));
    ASSERT_OK(sim_disk_open_system(world.disk, world.clock, 1, &world.system));
    if (model != NULL)
        attach(world.system, model);
    clock_join(world.clock);
    return world;
}

static inline void world_close(struct world *world)
{
    clock_leave(world->clock);
    io_system_close(world->system);
    sim_disk_destroy(world->disk);
    clock_close(world->clock);
}

static inline struct io_file *open_file(struct io_system *system, const char *path, unsigned flags)
{
    struct io_file *file = NULL;
    ASSERT_OK(io_file_open(system, IO_CLASS_TABLE, path, flags, &file));
    return file;
}

static inline struct io_queue *open_queue(struct io_system *system, unsigned depth)
{
    struct io_queue *queue = NULL;
    struct io_queue_options options = {.depth = depth};
    ASSERT_OK(io_queue_open(system, &options, &queue));
    return queue;
}

#endif
