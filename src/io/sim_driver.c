/*
 * The io_driver of the simulated disk. Whatever lives in the process that uses the disk is here, in
 * memory that tests may refuse: drivers, handles, queues.
 */
#include "io/sim_internal.h"

#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct sim_driver {
    struct io_driver base;
    struct sim_disk *disk;
    uint64_t seed;
    uint64_t queues_opened;
};

static struct sim_disk *disk_of(struct io_driver *driver)
{
    return ((struct sim_driver *)driver)->disk;
}

/* Enter the disk for a request. Whatever this returns, sim_leave must follow. */
static int sim_enter(struct sim_disk *disk)
{
    pthread_mutex_lock(&disk->mutex);
    return disk->is_cut ? -EIO : 0;
}

static int sim_leave(struct sim_disk *disk, int rc)
{
    pthread_mutex_unlock(&disk->mutex);
    return rc;
}

static void sim_destroy(struct io_driver *driver)
{
    struct sim_disk *disk = disk_of(driver);
    sim_enter(disk);
    disk->systems--;
    sim_leave(disk, 0);
    memory_free(driver);
}

/* ---- Files ---- */

static int open_existing(struct sim_disk *disk, struct sim_node *node, unsigned flags)
{
    if ((flags & IO_OPEN_CREATE) != 0 && (flags & IO_OPEN_EXCLUSIVE) != 0)
        return -EEXIST;
    if (node->is_directory)
        return -EISDIR;
    if ((flags & IO_OPEN_TRUNCATE) == 0 || node->live_size == 0)
        return 0;
    int rc = sim_file_set_size(disk, node, 0);
    return rc == 0 ? sim_step(disk) : rc;
}

static int open_node(struct sim_disk *disk, const char *path, unsigned flags,
                     struct sim_node **node)
{
    if ((flags & IO_OPEN_TRUNCATE) != 0 && (flags & IO_OPEN_READ_ONLY) != 0)
        return -EINVAL;
    int rc = sim_names_find(disk, path, node);
    if (rc == 0)
        return open_existing(disk, *node, flags);
    if (rc != -ENOENT || (flags & IO_OPEN_CREATE) == 0)
        return rc;
    rc = sim_names_create(disk, path, false, node);
    return rc == 0 ? sim_step(disk) : rc;
}

static void node_hold(struct sim_node *node)
{
    node->references++;
    node->handles++;
}

static void node_let_go(struct sim_disk *disk, struct sim_node *node)
{
    node->handles--;
    sim_node_drop(disk, node->index);
}

static int sim_open(struct io_driver *driver, enum io_class class, const char *path, unsigned flags,
                    struct io_handle_info *info)
{
    (void)class;
    struct sim_disk *disk = disk_of(driver);
    struct sim_handle *handle = memory_zalloc(1, sizeof(*handle));
    if (handle == NULL)
        return -ENOMEM;
    handle->flags = flags;
    int rc = sim_enter(disk);
    if (rc == 0)
        rc = open_node(disk, path, flags, &handle->node);
    if (rc == 0)
        node_hold(handle->node);
    sim_leave(disk, rc);
    if (rc != 0) {
        memory_free(handle);
        return rc;
    }
    info->handle = handle;
    info->direct = (flags & IO_OPEN_DIRECT) != 0;
    info->alignment = info->direct ? disk->options.sector_bytes : 1;
    info->atomic_write_bytes = info->direct ? disk->options.atomic_write_bytes : 0;
    return 0;
}

static int sim_close(struct io_driver *driver, void *handle)
{
    struct sim_disk *disk = disk_of(driver);
    sim_enter(disk);
    node_let_go(disk, ((struct sim_handle *)handle)->node);
    memory_free(handle);
    return sim_leave(disk, 0);
}

static int sim_size(struct io_driver *driver, void *handle, uint64_t *size_bytes)
{
    struct sim_disk *disk = disk_of(driver);
    int rc = sim_enter(disk);
    if (rc == 0)
        *size_bytes = ((struct sim_handle *)handle)->node->live_size;
    return sim_leave(disk, rc);
}

static int sim_set_size(struct io_driver *driver, void *handle_, uint64_t size_bytes)
{
    struct sim_disk *disk = disk_of(driver);
    struct sim_handle *handle = handle_;
    int rc = sim_enter(disk);
    if (rc == 0 && (handle->flags & IO_OPEN_READ_ONLY) != 0)
        rc = -EBADF;
    if (rc == 0)
        rc = sim_file_set_size(disk, handle->node, size_bytes);
    if (rc == 0)
        rc = sim_step(disk);
    return sim_leave(disk, rc);
}

static int sim_allocate(struct io_driver *driver, void *handle_, uint64_t offset,
                        uint64_t size_bytes)
{
    struct sim_disk *disk = disk_of(driver);
    struct sim_handle *handle = handle_;
    int rc = sim_enter(disk);
    if (rc == 0 && (handle->flags & IO_OPEN_READ_ONLY) != 0)
        rc = -EBADF;
    if (rc == 0)
        rc = sim_file_allocate(disk, handle->node, offset, size_bytes);
    if (rc == 0)
        rc = sim_step(disk);
    return sim_leave(disk, rc);
}

/* ---- Names ---- */

static int sim_remove(struct io_driver *driver, const char *path)
{
    struct sim_disk *disk = disk_of(driver);
    int rc = sim_enter(disk);
    if (rc == 0)
        rc = sim_names_remove(disk, path, false);
    if (rc == 0)
        rc = sim_step(disk);
    return sim_leave(disk, rc);
}

static int sim_rename(struct io_driver *driver, const char *from, const char *to)
{
    struct sim_disk *disk = disk_of(driver);
    int rc = sim_enter(disk);
    if (rc == 0)
        rc = sim_names_rename(disk, from, to);
    if (rc == 0)
        rc = sim_step(disk);
    return sim_leave(disk, rc);
}

static int sim_make_directory(struct io_driver *driver, const char *path)
{
    struct sim_disk *disk = disk_of(driver);
    struct sim_node *node;
    int rc = sim_enter(disk);
    if (rc == 0)
        rc = sim_names_create(disk, path, true, &node);
    if (rc == 0)
        rc = sim_step(disk);
    return sim_leave(disk, rc);
}

static int sim_remove_directory(struct io_driver *driver, const char *path)
{
    struct sim_disk *disk = disk_of(driver);
    int rc = sim_enter(disk);
    if (rc == 0)
        rc = sim_names_remove(disk, path, true);
    if (rc == 0)
        rc = sim_step(disk);
    return sim_leave(disk, rc);
}

static int find_directory(struct sim_disk *disk, const char *path, struct sim_node **directory)
{
    int rc = sim_names_find(disk, path, directory);
    return rc == 0 && !(*directory)->is_directory ? -ENOTDIR : rc;
}

static int sim_sync_directory(struct io_driver *driver, const char *path)
{
    struct sim_disk *disk = disk_of(driver);
    struct sim_node *directory;
    int rc = sim_enter(disk);
    if (rc == 0)
        rc = find_directory(disk, path, &directory);
    if (rc == 0)
        rc = sim_step(disk);
    if (rc == 0)
        sim_names_sync(disk, directory);
    return sim_leave(disk, rc);
}

/* A copy of a directory's names, so that the caller's function may use the disk. */
struct name_list {
    unsigned count;
    char (*names)[NAME_MAX + 1];
};

static int names_copy(struct sim_disk *disk, const struct sim_node *directory,
                      struct name_list *list)
{
    list->names = memory_alloc((disk->entry_count + 1) * sizeof(list->names[0]));
    if (list->names == NULL)
        return -ENOMEM;
    list->count = 0;
    for (uint32_t at = directory->first_entry; at != SIM_NONE; at = disk->entries[at].next)
        if (disk->entries[at].live != SIM_NONE)
            memcpy(list->names[list->count++], disk->entries[at].name, sizeof(list->names[0]));
    return 0;
}

static int sim_list(struct io_driver *driver, const char *path,
                    int (*function)(const char *name, void *context), void *context)
{
    struct sim_disk *disk = disk_of(driver);
    struct sim_node *directory;
    struct name_list list = {0};
    int rc = sim_enter(disk);
    if (rc == 0)
        rc = find_directory(disk, path, &directory);
    if (rc == 0)
        rc = names_copy(disk, directory, &list);
    sim_leave(disk, rc);
    for (unsigned i = 0; i < list.count && rc == 0; i++)
        rc = function(list.names[i], context);
    memory_free(list.names);
    return rc;
}

static int sim_lock(struct io_driver *driver, const char *path, void **lock, long *holder)
{
    struct sim_disk *disk = disk_of(driver);
    struct sim_node *directory;
    int rc = sim_enter(disk);
    if (rc == 0)
        rc = find_directory(disk, path, &directory);
    if (rc == 0 && directory->locked) {
        *holder = (long)getpid();
        rc = -EWOULDBLOCK;
    }
    if (rc == 0) {
        directory->locked = true;
        node_hold(directory);
        *lock = directory;
    }
    return sim_leave(disk, rc);
}

static void sim_unlock(struct io_driver *driver, void *lock)
{
    struct sim_disk *disk = disk_of(driver);
    struct sim_node *directory = lock;
    sim_enter(disk);
    directory->locked = false;
    node_let_go(disk, directory);
    sim_leave(disk, 0);
}

/* ---- Requests ---- */

int sim_request_check(const struct sim_disk *disk, const struct io_request *request)
{
    const struct sim_handle *handle = request->handle;
    if (request->op != IO_OP_READ && request->op != IO_OP_WRITE)
        return 0;
    if (request->op == IO_OP_WRITE && (handle->flags & IO_OPEN_READ_ONLY) != 0)
        return -EBADF;
    if ((handle->flags & IO_OPEN_DIRECT) == 0)
        return 0;
    uint64_t bits = request->offset;
    for (uint32_t i = 0; i < request->vector_count; i++)
        bits |= (uintptr_t)request->vectors[i].iov_base | request->vectors[i].iov_len;
    return (bits & (disk->options.sector_bytes - 1)) != 0 ? -EINVAL : 0;
}

static int64_t carry_out_write(struct sim_disk *disk, const struct io_request *request)
{
    const struct sim_handle *handle = request->handle;
    int64_t written = sim_file_write(disk, handle->node, request);
    if (written <= 0)
        return written;
    int rc = sim_step(disk);
    if (rc != 0)
        return rc;
    if ((handle->flags & (IO_OPEN_SYNC | IO_OPEN_DSYNC)) != 0)
        sim_file_sync_last(handle->node);
    sim_file_writeback(disk, handle->node);
    return written;
}

/* @param covers  for a sync: it makes the file's changes before this one durable */
static int64_t carry_out(struct sim_disk *disk, const struct io_request *request, uint64_t covers)
{
    struct sim_node *node = ((struct sim_handle *)request->handle)->node;
    int rc = disk->is_cut ? -EIO : sim_request_check(disk, request);
    if (rc != 0)
        return rc;
    if (request->op == IO_OP_READ)
        return sim_file_read(node, request);
    if (request->op == IO_OP_WRITE)
        return carry_out_write(disk, request);
    rc = sim_step(disk);
    if (rc == 0)
        sim_file_sync(node, covers);
    return rc;
}

static uint64_t next_change(const struct io_request *request)
{
    return sim_file_next_change(((struct sim_handle *)request->handle)->node);
}

static int64_t sim_execute(struct io_driver *driver, const struct io_request *request)
{
    struct sim_disk *disk = disk_of(driver);
    pthread_mutex_lock(&disk->mutex);
    int64_t result = carry_out(disk, request, next_change(request));
    pthread_mutex_unlock(&disk->mutex);
    return result;
}

/* ---- Queues ---- */

static int sim_queue_open(struct io_driver *driver, unsigned depth, struct io_driver_queue **queue)
{
    struct sim_driver *sim = (struct sim_driver *)driver;
    struct sim_queue *made =
        memory_zalloc(1, sizeof(*made) + (size_t)depth * sizeof(made->slots[0]));
    if (made == NULL)
        return -ENOMEM;
    made->base.ops = driver->ops;
    made->disk = sim->disk;
    pthread_mutex_lock(&sim->disk->mutex);
    rng_init(&made->rng, sim->seed ^ (sim->queues_opened++ << 32));
    made->next = sim->disk->queues;
    sim->disk->queues = made;
    pthread_mutex_unlock(&sim->disk->mutex);
    *queue = &made->base;
    return 0;
}

static void sim_queue_close(struct io_driver_queue *queue)
{
    struct sim_disk *disk = ((struct sim_queue *)queue)->disk;
    pthread_mutex_lock(&disk->mutex);
    struct sim_queue **link = &disk->queues;
    while (*link != (struct sim_queue *)queue)
        link = &(*link)->next;
    *link = (*link)->next;
    pthread_mutex_unlock(&disk->mutex);
    memory_free(queue);
}

static int sim_queue_submit(struct io_driver_queue *queue_, struct io_request *const *requests,
                            unsigned count)
{
    struct sim_queue *queue = (struct sim_queue *)queue_;
    pthread_mutex_lock(&queue->disk->mutex);
    for (unsigned i = 0; i < count; i++)
        queue->slots[queue->count++] =
            (struct sim_slot){.request = requests[i], .covers = next_change(requests[i])};
    pthread_mutex_unlock(&queue->disk->mutex);
    return (int)count;
}

/* Carry out one request under way, drawn by chance. */
static struct io_request *complete_one(struct sim_queue *queue)
{
    struct sim_slot *drawn = &queue->slots[rng_below(&queue->rng, queue->count)];
    struct io_request *request = drawn->request;
    uint64_t later = next_change(request) - drawn->covers;
    uint64_t covers = drawn->covers + rng_below(&queue->rng, later + 1);
    *drawn = queue->slots[--queue->count];
    request->result = carry_out(queue->disk, request, covers);
    return request;
}

static int sim_queue_reap(struct io_driver_queue *queue_, unsigned min_count, unsigned max_count,
                          uint64_t deadline_ns, struct io_request **requests)
{
    (void)deadline_ns; /* nothing is ever waited for */
    struct sim_queue *queue = (struct sim_queue *)queue_;
    pthread_mutex_lock(&queue->disk->mutex);
    unsigned most = max_count < queue->count ? max_count : queue->count;
    unsigned count = min_count + (unsigned)rng_below(&queue->rng, most - min_count + 1);
    for (unsigned i = 0; i < count; i++)
        requests[i] = complete_one(queue);
    pthread_mutex_unlock(&queue->disk->mutex);
    return (int)count;
}

static const struct io_driver_ops sim_ops = {
    .destroy = sim_destroy,
    .open = sim_open,
    .close = sim_close,
    .size = sim_size,
    .set_size = sim_set_size,
    .allocate = sim_allocate,
    .remove = sim_remove,
    .rename = sim_rename,
    .make_directory = sim_make_directory,
    .remove_directory = sim_remove_directory,
    .sync_directory = sim_sync_directory,
    .list = sim_list,
    .lock = sim_lock,
    .unlock = sim_unlock,
    .execute = sim_execute,
    .queue_open = sim_queue_open,
    .queue_close = sim_queue_close,
    .queue_submit = sim_queue_submit,
    .queue_reap = sim_queue_reap,
};

struct io_driver *sim_driver_create(struct sim_disk *disk, struct clock *clock, uint64_t seed)
{
    struct sim_driver *driver = memory_zalloc(1, sizeof(*driver));
    if (driver == NULL)
        return NULL;
    driver->base.ops = &sim_ops;
    driver->base.clock = clock;
    driver->base.backend = IO_BACKEND_NULL;
    snprintf(driver->base.name, sizeof(driver->base.name), "simulated disk");
    driver->disk = disk;
    driver->seed = seed;
    pthread_mutex_lock(&disk->mutex);
    disk->systems++;
    pthread_mutex_unlock(&disk->mutex);
    return &driver->base;
}
