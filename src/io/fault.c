#include "io/fault_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>

/* ---- Deciding ---- */

enum fault_target fault_target_of(enum io_op op)
{
    switch (op) {
    case IO_OP_READ:
        return FAULT_READS;
    case IO_OP_WRITE:
        return FAULT_WRITES;
    case IO_OP_SYNC_DATA:
    case IO_OP_SYNC_ALL:
        break;
    }
    return FAULT_SYNCS;
}

/* What a kind can do anything to. */
static unsigned kind_targets(enum fault_kind kind)
{
    switch (kind) {
    case FAULT_NONE:
        return 0;
    case FAULT_SHORT:
        return FAULT_READS | FAULT_WRITES;
    case FAULT_ROT:
        return FAULT_READS;
    case FAULT_MISDIRECT:
        return FAULT_WRITES;
    case FAULT_LOST:
        return FAULT_WRITES | FAULT_SYNCS;
    case FAULT_ERROR:
    case FAULT_SLOW:
    case FAULT_STUCK:
        break;
    }
    return FAULT_ALL;
}

static bool plan_fits(const struct fault_plan *plan, enum fault_target target, enum io_class class)
{
    if ((plan->targets & kind_targets(plan->kind) & target) == 0)
        return false;
    return plan->classes == 0 || (class != IO_CLASS_COUNT && (plan->classes & (1U << class)) != 0);
}

static bool plan_hits(const struct fault_plan *plan, uint64_t count, struct rng *rng)
{
    if (plan->probability > 0 && rng_unit(rng) < plan->probability)
        return true;
    if (plan->first == 0 || count < plan->first)
        return false;
    return count == plan->first || (plan->every != 0 && (count - plan->first) % plan->every == 0);
}

struct fault fault_decide(struct fault_injector *injector, enum fault_target target,
                          enum io_class class)
{
    pthread_mutex_lock(&injector->mutex);
    injector->seen[__builtin_ctz(target)]++;
    const struct fault_plan *hit = NULL;
    for (unsigned i = 0; i < injector->plan_count; i++) {
        const struct fault_plan *plan = &injector->plans[i];
        if (plan_fits(plan, target, class) &&
            plan_hits(plan, ++injector->counts[i], &injector->rng) && hit == NULL)
            hit = plan;
    }
    struct fault fault = {.kind = FAULT_NONE, .releases = injector->releases};
    if (hit != NULL) {
        injector->hits++;
        fault.kind = hit->kind;
        fault.error = hit->error != 0 ? hit->error : EIO;
        fault.delay_ns = hit->delay_ns;
        fault.random = rng_next(&injector->rng);
    }
    pthread_mutex_unlock(&injector->mutex);
    return fault;
}

bool fault_is_stuck(struct fault_injector *injector, const struct fault *fault)
{
    if (fault->kind != FAULT_STUCK)
        return false;
    pthread_mutex_lock(&injector->mutex);
    bool stuck = injector->releases == fault->releases;
    pthread_mutex_unlock(&injector->mutex);
    return stuck;
}

/* ---- Steering ---- */

void fault_set_plans(struct fault_injector *injector, const struct fault_plan *plans,
                     unsigned count)
{
    ENSURE(count <= FAULT_PLANS_MAX);
    pthread_mutex_lock(&injector->mutex);
    for (unsigned i = 0; i < FAULT_PLANS_MAX; i++) {
        injector->plans[i] = i < count ? plans[i] : (struct fault_plan){0};
        injector->counts[i] = 0;
    }
    for (unsigned i = 0; i < FAULT_TARGETS; i++)
        injector->seen[i] = 0;
    injector->plan_count = count;
    injector->hits = 0;
    pthread_mutex_unlock(&injector->mutex);
}

/* The mutex is no part of what `const` promises. */
static pthread_mutex_t *mutex_of(const struct fault_injector *injector)
{
    return &((struct fault_injector *)injector)->mutex;
}

uint64_t fault_seen(const struct fault_injector *injector, unsigned targets)
{
    uint64_t seen = 0;
    pthread_mutex_lock(mutex_of(injector));
    for (unsigned i = 0; i < FAULT_TARGETS; i++)
        if ((targets & (1U << i)) != 0)
            seen += injector->seen[i];
    pthread_mutex_unlock(mutex_of(injector));
    return seen;
}

uint64_t fault_hits(const struct fault_injector *injector)
{
    pthread_mutex_lock(mutex_of(injector));
    uint64_t hits = injector->hits;
    pthread_mutex_unlock(mutex_of(injector));
    return hits;
}

void fault_release(struct fault_injector *injector)
{
    pthread_mutex_lock(&injector->mutex);
    injector->releases++;
    pthread_mutex_unlock(&injector->mutex);
}

/* ---- Distorting requests ---- */

static uint64_t vectors_bytes(const struct io_request *request)
{
    uint64_t size_bytes = 0;
    for (uint32_t i = 0; i < request->vector_count; i++)
        size_bytes += request->vectors[i].iov_len;
    return size_bytes;
}

/* Leave about half of a request, whole blocks if it is direct. Its vectors are another's: a shorter
   one is made in the copy. */
static void request_halve(struct io_request *request, uint32_t alignment)
{
    if (request->is_atomic) /* which no kernel does by halves */
        return;
    if (request->vector_count > 1) {
        request->vector_count /= 2;
        return;
    }
    struct iovec half = request->vectors[0];
    half.iov_len = half.iov_len / 2 / alignment * alignment;
    if (half.iov_len == 0)
        return;
    request->vector = half;
    request->vectors = &request->vector;
}

void fault_distort(struct io_request *request, const struct fault *fault)
{
    const struct fault_handle *handle = request->handle;
    if (fault->kind == FAULT_SHORT)
        request_halve(request, handle->alignment);
    if (fault->kind == FAULT_MISDIRECT)
        request->offset += vectors_bytes(request);
    request->handle = handle->below;
}

bool fault_answers(struct io_request *request, const struct fault *fault)
{
    if (fault->kind == FAULT_ERROR) {
        request->result = -fault->error;
        return true;
    }
    if (fault->kind == FAULT_LOST) {
        request->result = request->op == IO_OP_WRITE ? (int64_t)vectors_bytes(request) : 0;
        return true;
    }
    return false;
}

void fault_spoil(const struct io_request *request, const struct fault *fault, int64_t result)
{
    if (fault->kind != FAULT_ROT || result <= 0)
        return;
    uint64_t bit = fault->random % ((uint64_t)result * 8);
    uint64_t at = bit / 8;
    const struct iovec *vector = request->vectors;
    while (at >= vector->iov_len)
        at -= (vector++)->iov_len;
    ((uint8_t *)vector->iov_base)[at] ^= (uint8_t)(1U << bit % 8);
}

/* ---- Operations on paths and handles ---- */

static struct fault_driver *fault_driver_of(struct io_driver *driver)
{
    return (struct fault_driver *)driver;
}

/* @return what the operation fails with before it is carried out */
static int fault_begin(struct io_driver *driver, enum fault_target target, enum io_class class,
                       struct fault *fault)
{
    *fault = fault_decide(&fault_driver_of(driver)->injector, target, class);
    return fault->kind == FAULT_ERROR ? -fault->error : 0;
}

/* Keep back what has been carried out. Virtual time must go on, so waiting is on the clock. */
static void fault_hold(struct io_driver *driver, const struct fault *fault)
{
    if (fault->kind == FAULT_SLOW)
        clock_wait_until(driver->clock, clock_now(driver->clock) + fault->delay_ns);
    while (fault_is_stuck(&fault_driver_of(driver)->injector, fault))
        clock_wait_until(driver->clock, clock_now(driver->clock) + FAULT_POLL_NS);
}

static int fault_end(struct io_driver *driver, const struct fault *fault, int rc)
{
    fault_hold(driver, fault);
    return rc;
}

static void fault_destroy(struct io_driver *driver)
{
    struct fault_driver *self = fault_driver_of(driver);
    self->below->ops->destroy(self->below);
    pthread_mutex_destroy(&self->injector.mutex);
    memory_free(self);
}

static int fault_open(struct io_driver *driver, enum io_class class, const char *path,
                      unsigned flags, struct io_handle_info *info)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    struct fault_handle *handle = memory_alloc(sizeof(*handle));
    if (handle == NULL)
        return -ENOMEM;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, class, &fault);
    if (rc == 0)
        rc = below->ops->open(below, class, path, flags, info);
    fault_hold(driver, &fault);
    if (rc != 0) {
        memory_free(handle);
        return rc;
    }
    *handle =
        (struct fault_handle){.below = info->handle, .class = class, .alignment = info->alignment};
    info->handle = handle;
    return 0;
}

static int fault_close(struct io_driver *driver, void *handle_)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    struct fault_handle *handle = handle_;
    struct fault fault;
    int failure = fault_begin(driver, FAULT_METADATA, handle->class, &fault);
    int rc = below->ops->close(below, handle->below); /* as close(2): gone in any case */
    memory_free(handle);
    return fault_end(driver, &fault, failure != 0 ? failure : rc);
}

static int fault_size(struct io_driver *driver, void *handle_, uint64_t *size_bytes)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    const struct fault_handle *handle = handle_;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, handle->class, &fault);
    if (rc == 0)
        rc = below->ops->size(below, handle->below, size_bytes);
    return fault_end(driver, &fault, rc);
}

static int fault_set_size(struct io_driver *driver, void *handle_, uint64_t size_bytes)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    const struct fault_handle *handle = handle_;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, handle->class, &fault);
    if (rc == 0)
        rc = below->ops->set_size(below, handle->below, size_bytes);
    return fault_end(driver, &fault, rc);
}

static int fault_allocate(struct io_driver *driver, void *handle_, uint64_t offset,
                          uint64_t size_bytes)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    const struct fault_handle *handle = handle_;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, handle->class, &fault);
    if (rc == 0)
        rc = below->ops->allocate(below, handle->below, offset, size_bytes);
    return fault_end(driver, &fault, rc);
}

static int fault_remove(struct io_driver *driver, const char *path)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, IO_CLASS_COUNT, &fault);
    if (rc == 0)
        rc = below->ops->remove(below, path);
    return fault_end(driver, &fault, rc);
}

static int fault_rename(struct io_driver *driver, const char *from, const char *to)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, IO_CLASS_COUNT, &fault);
    if (rc == 0)
        rc = below->ops->rename(below, from, to);
    return fault_end(driver, &fault, rc);
}

static int fault_make_directory(struct io_driver *driver, const char *path)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, IO_CLASS_COUNT, &fault);
    if (rc == 0)
        rc = below->ops->make_directory(below, path);
    return fault_end(driver, &fault, rc);
}

static int fault_remove_directory(struct io_driver *driver, const char *path)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, IO_CLASS_COUNT, &fault);
    if (rc == 0)
        rc = below->ops->remove_directory(below, path);
    return fault_end(driver, &fault, rc);
}

static int fault_sync_directory(struct io_driver *driver, const char *path)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_SYNCS, IO_CLASS_COUNT, &fault);
    if (rc == 0 && fault.kind != FAULT_LOST)
        rc = below->ops->sync_directory(below, path);
    return fault_end(driver, &fault, rc);
}

static int fault_list(struct io_driver *driver, const char *path,
                      int (*function)(const char *name, void *context), void *context)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, IO_CLASS_COUNT, &fault);
    if (rc == 0)
        rc = below->ops->list(below, path, function, context);
    return fault_end(driver, &fault, rc);
}

static int fault_lock(struct io_driver *driver, const char *path, void **lock, long *holder)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    struct fault fault;
    int rc = fault_begin(driver, FAULT_METADATA, IO_CLASS_COUNT, &fault);
    if (rc == 0)
        rc = below->ops->lock(below, path, lock, holder);
    return fault_end(driver, &fault, rc);
}

static void fault_unlock(struct io_driver *driver, void *lock)
{
    struct io_driver *below = fault_driver_of(driver)->below;
    below->ops->unlock(below, lock);
}

static int64_t fault_execute(struct io_driver *driver, const struct io_request *request)
{
    struct fault_driver *self = fault_driver_of(driver);
    const struct fault_handle *handle = request->handle;
    struct fault fault = fault_decide(&self->injector, fault_target_of(request->op), handle->class);
    struct io_request copy = *request;
    if (fault_answers(&copy, &fault))
        return copy.result;
    fault_distort(&copy, &fault);
    int64_t result = self->below->ops->execute(self->below, &copy);
    fault_spoil(&copy, &fault, result);
    fault_hold(driver, &fault);
    return result;
}

static const struct io_driver_ops fault_ops = {
    .destroy = fault_destroy,
    .open = fault_open,
    .close = fault_close,
    .size = fault_size,
    .set_size = fault_set_size,
    .allocate = fault_allocate,
    .remove = fault_remove,
    .rename = fault_rename,
    .make_directory = fault_make_directory,
    .remove_directory = fault_remove_directory,
    .sync_directory = fault_sync_directory,
    .list = fault_list,
    .lock = fault_lock,
    .unlock = fault_unlock,
    .execute = fault_execute,
    .queue_open = fault_queue_open,
    .queue_close = fault_queue_close,
    .queue_submit = fault_queue_submit,
    .queue_reap = fault_queue_reap,
};

firn_rc fault_attach(struct io_system *system, uint64_t seed, struct fault_injector **injector)
{
    struct fault_driver *driver = memory_zalloc(1, sizeof(*driver));
    if (driver == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for fault injection");
    driver->below = io_system_driver(system);
    driver->base.ops = &fault_ops;
    driver->base.clock = driver->below->clock;
    driver->base.backend = driver->below->backend;
    snprintf(driver->base.name, sizeof(driver->base.name), "faults over %.80s",
             driver->below->name);
    pthread_mutex_init(&driver->injector.mutex, NULL);
    rng_init(&driver->injector.rng, seed);
    io_system_set_driver(system, &driver->base);
    *injector = &driver->injector;
    return FIRN_OK;
}
