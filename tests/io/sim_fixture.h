/*
 * sim_fixture.h -- a simulated disk and a view of it for each test.
 */
#ifndef FIRN_TESTS_IO_SIM_FIXTURE_H
#define FIRN_TESTS_IO_SIM_FIXTURE_H

#include "io/sim_support.h"

static struct sim_disk *disk;
static struct io_system *sys;

static inline int fixture_setup(void **state)
{
    (void)state;
    disk = disk_make();
    sys = disk_open(disk, 1);
    return 0;
}

static inline int fixture_teardown(void **state)
{
    (void)state;
    io_system_close(sys);
    sim_disk_destroy(disk);
    return 0;
}

/** Cut and look at what is left. Files must be closed. */
static inline void cut_and_reopen(enum sim_cut cut, uint64_t seed)
{
    sim_disk_cut(disk, cut, seed);
    io_system_close(sys);
    sim_disk_restore(disk);
    sys = disk_open(disk, seed);
}

/** Cut a clone of the disk and load a file of it. @return NULL if it is gone */
static inline uint8_t *cut_clone(enum sim_cut cut, uint64_t seed, const char *path,
                                 size_t *size_bytes)
{
    struct sim_disk *clone = sim_disk_clone(disk);
    sim_disk_cut(clone, cut, seed);
    sim_disk_restore(clone);
    struct io_system *system = disk_open(clone, seed);
    uint8_t *bytes = file_load(system, path, size_bytes);
    io_system_close(system);
    sim_disk_destroy(clone);
    return bytes;
}

/** Try to open a file. @return what that says */
static inline firn_rc open_code(const char *path, unsigned flags)
{
    struct io_file *file;
    firn_rc rc = io_file_open(sys, IO_CLASS_TABLE, path, flags, &file);
    if (rc == FIRN_OK)
        ASSERT_OK(io_file_close(file));
    return rc;
}

#endif
