#include "io/model.h"

#include "base/memory.h"
#include "io/model_driver_internal.h"

#include <errno.h>
#include <stdio.h>

enum { BLOCK_BYTES = 512 }; /* what direct I/O on a modelled device must be aligned to */

static const uint64_t SEED = 1;

static struct model_driver *driver_of(struct io_driver *driver)
{
    return (struct model_driver *)driver;
}

static struct io_driver *below_of(struct io_driver *driver)
{
    return driver_of(driver)->below;
}

/* ---- Files ---- */

/* Give an opened file its place. */
static int place_file(struct model_driver *driver, const char *path, unsigned flags,
                      struct model_handle *handle)
{
    uint64_t size_bytes = 0;
    int error = driver->below->ops->size(driver->below, handle->below, &size_bytes);
    if (error != 0)
        return error;
    pthread_mutex_lock(&driver->mutex);
    handle->file = model_layout_hold(driver->layout, path);
    if (handle->file == NULL) {
        error = -ENOMEM;
    } else {
        if ((flags & IO_OPEN_TRUNCATE) != 0)
            model_layout_cut(driver->layout, handle->file, size_bytes);
        error = model_layout_grow(driver->layout, handle->file, size_bytes);
        if (error != 0)
            model_layout_release(driver->layout, handle->file);
    }
    pthread_mutex_unlock(&driver->mutex);
    return error;
}

static int model_open(struct io_driver *base, enum io_class class, const char *path, unsigned flags,
                      struct io_handle_info *info)
{
    struct model_driver *driver = driver_of(base);
    struct model_handle *handle = memory_zalloc(1, sizeof(*handle));
    if (handle == NULL)
        return -ENOMEM;
    unsigned durable = IO_OPEN_SYNC | IO_OPEN_DSYNC;
    int error = driver->below->ops->open(driver->below, class, path,
                                         flags & ~(durable | IO_OPEN_DIRECT), info);
    if (error != 0) {
        memory_free(handle);
        return error;
    }
    handle->below = info->handle;
    handle->durable_writes = (flags & durable) != 0;
    error = place_file(driver, path, flags, handle);
    if (error != 0) {
        driver->below->ops->close(driver->below, handle->below);
        memory_free(handle);
        return error;
    }
    info->handle = handle;
    info->direct = (flags & IO_OPEN_DIRECT) != 0;
    info->alignment = info->direct ? BLOCK_BYTES : 1;
    return 0;
}

static int model_close(struct io_driver *base, void *opaque)
{
    struct model_driver *driver = driver_of(base);
    struct model_handle *handle = opaque;
    int error = driver->below->ops->close(driver->below, handle->below);
    pthread_mutex_lock(&driver->mutex);
    model_layout_release(driver->layout, handle->file);
    pthread_mutex_unlock(&driver->mutex);
    memory_free(handle);
    return error;
}

static int model_size(struct io_driver *base, void *opaque, uint64_t *size_bytes)
{
    const struct model_handle *handle = opaque;
    return below_of(base)->ops->size(below_of(base), handle->below, size_bytes);
}

/* Have room for so much. @return what there was room for before, or a negative errno */
static int64_t make_room(struct model_driver *driver, struct model_handle *handle,
                         uint64_t size_bytes)
{
    pthread_mutex_lock(&driver->mutex);
    int64_t before = (int64_t)model_layout_room(handle->file);
    int error = model_layout_grow(driver->layout, handle->file, size_bytes);
    pthread_mutex_unlock(&driver->mutex);
    return error != 0 ? error : before;
}

static void cut_room(struct model_driver *driver, struct model_handle *handle, uint64_t size_bytes)
{
    pthread_mutex_lock(&driver->mutex);
    model_layout_cut(driver->layout, handle->file, size_bytes);
    pthread_mutex_unlock(&driver->mutex);
}

static int model_set_size(struct io_driver *base, void *opaque, uint64_t size_bytes)
{
    struct model_driver *driver = driver_of(base);
    struct model_handle *handle = opaque;
    int64_t before = make_room(driver, handle, size_bytes);
    if (before < 0)
        return (int)before;
    int error = driver->below->ops->set_size(driver->below, handle->below, size_bytes);
    cut_room(driver, handle, error == 0 ? size_bytes : (uint64_t)before);
    return error;
}

static int model_allocate(struct io_driver *base, void *opaque, uint64_t offset,
                          uint64_t size_bytes)
{
    struct model_driver *driver = driver_of(base);
    struct model_handle *handle = opaque;
    int64_t before = make_room(driver, handle, offset + size_bytes);
    if (before < 0)
        return (int)before;
    int error = driver->below->ops->allocate(driver->below, handle->below, offset, size_bytes);
    /* Without such a call zeros will be written: the room is needed all the same. */
    if (error != 0 && error != -EOPNOTSUPP)
        cut_room(driver, handle, (uint64_t)before);
    return error;
}

/* ---- Paths ---- */

static int model_remove(struct io_driver *base, const char *path)
{
    struct model_driver *driver = driver_of(base);
    int error = driver->below->ops->remove(driver->below, path);
    if (error != 0)
        return error;
    pthread_mutex_lock(&driver->mutex);
    model_layout_remove(driver->layout, path);
    pthread_mutex_unlock(&driver->mutex);
    return 0;
}

static int model_rename(struct io_driver *base, const char *from, const char *to)
{
    struct model_driver *driver = driver_of(base);
    int error = driver->below->ops->rename(driver->below, from, to);
    if (error != 0)
        return error;
    pthread_mutex_lock(&driver->mutex);
    model_layout_rename(driver->layout, from, to);
    pthread_mutex_unlock(&driver->mutex);
    return 0;
}

static int model_make_directory(struct io_driver *base, const char *path)
{
    return below_of(base)->ops->make_directory(below_of(base), path);
}

static int model_remove_directory(struct io_driver *base, const char *path)
{
    return below_of(base)->ops->remove_directory(below_of(base), path);
}

static int model_list(struct io_driver *base, const char *path,
                      int (*function)(const char *name, void *context), void *context)
{
    return below_of(base)->ops->list(below_of(base), path, function, context);
}

static int model_lock(struct io_driver *base, const char *path, void **lock, long *holder)
{
    return below_of(base)->ops->lock(below_of(base), path, lock, holder);
}

static void model_unlock(struct io_driver *base, void *lock)
{
    below_of(base)->ops->unlock(below_of(base), lock);
}

/* ---- Single requests ---- */

/* Carry a request out on the model and, if there is one, below; done when both are. */
static int64_t carry_out(struct model_driver *driver, const struct model_handle *handle,
                         enum io_op op, const struct io_request *request)
{
    struct model_waiter waiter;
    struct model_call call = {.waiter = &waiter};
    uint64_t size_bytes = request != NULL ? model_request_bytes(request) : 0;
    model_waiter_init(&waiter);
    pthread_mutex_lock(&driver->mutex);
    int64_t result = model_call_start(driver, handle, op, request != NULL ? request->offset : 0,
                                      size_bytes, &call);
    pthread_mutex_unlock(&driver->mutex);
    if (result == 0) {
        if (op == IO_OP_READ || op == IO_OP_WRITE) {
            struct io_request copy = *request;
            copy.handle = handle->below;
            result = driver->below->ops->execute(driver->below, &copy);
        }
        pthread_mutex_lock(&driver->mutex);
        model_catch_up(driver);
        while (waiter.done == NULL)
            model_wait(driver, &waiter, UINT64_MAX);
        model_hand_over(driver);
        pthread_mutex_unlock(&driver->mutex);
        if (call.error != 0)
            result = call.error;
    }
    model_waiter_destroy(&waiter);
    return result;
}

static int64_t model_execute(struct io_driver *base, const struct io_request *request)
{
    return carry_out(driver_of(base), request->handle, request->op, request);
}

static int model_sync_directory(struct io_driver *base, const char *path)
{
    (void)path;
    return (int)carry_out(driver_of(base), NULL, IO_OP_SYNC_DATA, NULL);
}

/* ---- The decorator ---- */

static void driver_free(struct model_driver *driver)
{
    model_device_close(driver->device);
    model_layout_destroy(driver->layout);
    pthread_mutex_destroy(&driver->mutex);
    memory_free(driver);
}

static void model_destroy(struct io_driver *base)
{
    struct io_driver *below = below_of(base);
    driver_free(driver_of(base));
    below->ops->destroy(below);
}

static const struct io_driver_ops model_ops = {
    .destroy = model_destroy,
    .open = model_open,
    .close = model_close,
    .size = model_size,
    .set_size = model_set_size,
    .allocate = model_allocate,
    .remove = model_remove,
    .rename = model_rename,
    .make_directory = model_make_directory,
    .remove_directory = model_remove_directory,
    .sync_directory = model_sync_directory,
    .list = model_list,
    .lock = model_lock,
    .unlock = model_unlock,
    .execute = model_execute,
    .queue_open = model_queue_open,
    .queue_close = model_queue_close,
    .queue_submit = model_queue_submit,
    .queue_reap = model_queue_reap,
};

firn_rc model_attach(struct io_system *system, const struct model_spec *spec)
{
    firn_rc rc = FIRN_OK;
    struct model_driver *driver = memory_zalloc(1, sizeof(*driver));
    if (driver == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for model %s", spec->name);
    pthread_mutex_init(&driver->mutex, NULL);
    FIRN_TRY_GOTO(model_device_open(spec, SEED, &driver->device), failed);
    driver->layout = model_layout_create(model_device_capacity(driver->device));
    if (driver->layout == NULL)
        FIRN_TRY_GOTO(rc_raise(FIRN_E_NOMEM, "no memory for model %s", spec->name), failed);
    driver->below = io_system_driver(system);
    driver->base.ops = &model_ops;
    driver->base.clock = driver->below->clock;
    driver->base.backend = driver->below->backend;
    snprintf(driver->base.name, sizeof(driver->base.name), "modelled %s over %.*s", spec->name,
             (int)(sizeof(driver->base.name) - sizeof("modelled  over ") - sizeof(spec->name)),
             driver->below->name);
    driver->start_ns = clock_now(driver->base.clock);
    driver->parked_tail = &driver->parked;
    io_system_set_driver(system, &driver->base);
    return FIRN_OK;
failed:
    driver_free(driver);
    return rc;
}
