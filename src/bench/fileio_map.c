#include "base/memory.h"
#include "bench/fileio_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * A page of a mapping that cannot be had (the device failed, the disk is full, the file was cut)
 * is told by SIGBUS in the middle of memcpy. The handler leaves the copy by a jump; it is installed
 * while anything is mapped, and faults of other memory are as deadly as ever.
 */
static _Thread_local sigjmp_buf *volatile fault_exit;
static struct sigaction action_before;

static void on_fault(int number)
{
    if (fault_exit != NULL)
        siglongjmp(*fault_exit, 1);
    sigaction(number, &action_before, NULL);
    raise(number);
}

static void catch_faults(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &action_before);
}

/* @return false when the mapping faulted */
static bool guarded_copy(void *to, const void *from, size_t size_bytes)
{
    sigjmp_buf exit;
    fault_exit = &exit;
    bool copied = sigsetjmp(exit, 0) == 0;
    if (copied)
        memcpy(to, from, size_bytes);
    fault_exit = NULL;
    return copied;
}

static firn_rc map_file(const char *path, uint64_t size_bytes, bool writable,
                        struct fileio_map *map)
{
    int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0)
        return rc_raise_errno(errno, "cannot open %s", path);
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    void *memory = mmap(NULL, size_bytes, protection, MAP_SHARED, fd, 0);
    int error = errno;
    close(fd);
    if (memory == MAP_FAILED)
        return rc_raise_errno(error, "cannot map %" PRIu64 " bytes of %s", size_bytes, path);
    *map = (struct fileio_map){.memory = memory, .size_bytes = size_bytes};
    return FIRN_OK;
}

firn_rc fileio_maps_open(struct io_file *const *files, const struct fileio_shape *shape,
                         bool writable, struct fileio_map **maps)
{
    struct fileio_map *made = memory_zalloc(shape->file_num, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for %" PRIu64 " mappings", shape->file_num);
    *maps = made;
    catch_faults();
    for (uint64_t i = 0; i < shape->file_num; i++)
        FIRN_TRY(map_file(io_file_path(files[i]), shape->file_bytes, writable, &made[i]));
    return FIRN_OK;
}

void fileio_maps_close(struct fileio_map *maps, uint64_t count)
{
    if (maps == NULL)
        return;
    for (uint64_t i = 0; i < count; i++)
        if (maps[i].memory != NULL)
            munmap(maps[i].memory, maps[i].size_bytes);
    sigaction(SIGBUS, &action_before, NULL);
    memory_free(maps);
}

static firn_rc raise_fault(struct io_request *request)
{
    request->rc = rc_raise(FIRN_E_IO,
                           "cannot %s %u bytes at offset %" PRIu64
                           " of %s through its mapping (SIGBUS): the device failed, the disk is "
                           "full, or the file was cut meanwhile",
                           request->op == IO_OP_READ ? "read" : "write", request->size_bytes,
                           request->offset, io_file_path(request->file));
    return request->rc;
}

firn_rc fileio_map_execute(const struct fileio_map *map, struct clock *clock,
                           struct io_request *request)
{
    request->rc = FIRN_OK;
    request->submit_ns = clock_now(clock);
    switch (request->op) {
    case IO_OP_READ:
        if (!guarded_copy(request->buffer, map->memory + request->offset, request->size_bytes))
            return raise_fault(request);
        break;
    case IO_OP_WRITE:
        if (!guarded_copy(map->memory + request->offset, request->buffer, request->size_bytes))
            return raise_fault(request);
        break;
    case IO_OP_SYNC_DATA:
    case IO_OP_SYNC_ALL:
        if (msync(map->memory, map->size_bytes, MS_SYNC) != 0)
            request->rc =
                rc_raise_errno(errno, "cannot sync the mapping of %s", io_file_path(request->file));
        break;
    }
    request->done_ns = clock_now(clock);
    return request->rc;
}
