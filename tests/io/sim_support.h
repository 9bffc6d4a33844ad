/*
 * sim_support.h -- what the tests of and on the simulated disk share.
 */
#ifndef FIRN_TESTS_IO_SIM_SUPPORT_H
#define FIRN_TESTS_IO_SIM_SUPPORT_H

#include "io/fault.h"

#include "io/support.h"

enum { SECTOR = 512 };

static const enum sim_cut all_cuts[] = {SIM_CUT_KEEP, SIM_CUT_DROP, SIM_CUT_REORDER, SIM_CUT_TEAR};

/** @return a word for a mode, for messages. */
static inline const char *cut_name(enum sim_cut cut)
{
    static const char *const names[] = {"KEEP", "DROP", "REORDER", "TEAR"};
    return names[cut];
}

/** Make a disk of 512-byte sectors without a limit. */
static inline struct sim_disk *disk_make(void)
{
    struct sim_disk *disk;
    ASSERT_OK(sim_disk_create(&(struct sim_disk_options){.sector_bytes = SECTOR}, &disk));
    return disk;
}

static inline struct io_system *disk_open(struct sim_disk *disk, uint64_t seed)
{
    struct io_system *system;
    ASSERT_OK(sim_disk_open_system(disk, clock_real(), seed, &system));
    return system;
}

static inline struct io_file *file_open(struct io_system *system, const char *path, unsigned flags)
{
    struct io_file *file;
    ASSERT_OK(io_file_open(system, IO_CLASS_TABLE, path, flags, &file));
    return file;
}

/** Create a file whose name is durable. */
static inline struct io_file *file_create(struct io_system *system, const char *path,
                                          unsigned flags)
{
    struct io_file *file = file_open(system, path, flags | IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE);
    ASSERT_OK(io_sync_directory(system, "/"));
    return file;
}

static inline struct io_queue *queue_open(struct io_system *system, unsigned depth,
                                          uint32_t merge_max_bytes)
{
    struct io_queue *queue;
    struct io_queue_options options = {.depth = depth, .merge_max_bytes = merge_max_bytes};
    ASSERT_OK(io_queue_open(system, &options, &queue));
    return queue;
}

/** Write so many bytes of one value. */
static inline void file_fill(struct io_file *file, uint64_t offset, size_t size_bytes,
                             uint8_t value)
{
    uint8_t *bytes = malloc(size_bytes);
    memset(bytes, value, size_bytes);
    ASSERT_OK(io_write(file, bytes, size_bytes, offset));
    free(bytes);
}

/** @return the size of a file by path, or -1 if there is none. */
static inline int64_t file_size(struct io_system *system, const char *path)
{
    struct io_file *file;
    uint64_t size_bytes;
    firn_rc rc = io_file_open(system, IO_CLASS_TABLE, path, IO_OPEN_READ_ONLY, &file);
    if (rc == FIRN_E_NOT_FOUND)
        return -1;
    ASSERT_OK(rc);
    ASSERT_OK(io_file_size(file, &size_bytes));
    ASSERT_OK(io_file_close(file));
    return (int64_t)size_bytes;
}

/** @return the byte at an offset of a file by path. */
static inline uint8_t file_byte(struct io_system *system, const char *path, uint64_t offset)
{
    struct io_file *file = file_open(system, path, IO_OPEN_READ_ONLY);
    uint8_t byte;
    ASSERT_OK(io_read(file, &byte, 1, offset));
    ASSERT_OK(io_file_close(file));
    return byte;
}

/** Read a file whole. @return its bytes, to be freed with free(); NULL if there is none */
static inline uint8_t *file_load(struct io_system *system, const char *path, size_t *size_bytes)
{
    int64_t size = file_size(system, path);
    *size_bytes = size < 0 ? 0 : (size_t)size;
    if (size < 0)
        return NULL;
    uint8_t *bytes = malloc((size_t)size + 1);
    struct io_file *file = file_open(system, path, IO_OPEN_READ_ONLY);
    if (size > 0)
        ASSERT_OK(io_read(file, bytes, (size_t)size, 0));
    ASSERT_OK(io_file_close(file));
    return bytes;
}

#endif
