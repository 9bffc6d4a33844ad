#include "io/model_driver_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <errno.h>

/* The most that one piece can carry. */
#define PIECE_BYTES_MAX (UINT64_C(1) << 30)

uint64_t model_request_bytes(const struct io_request *request)
{
    uint64_t size_bytes = 0;
    for (uint32_t i = 0; i < request->vector_count; i++)
        size_bytes += request->vectors[i].iov_len;
    return size_bytes;
}

/* ---- Waiters ---- */

void model_waiter_init(struct model_waiter *waiter)
{
    *waiter = (struct model_waiter){.done_tail = &waiter->done};
    pthread_cond_init(&waiter->woken, NULL);
}

void model_waiter_destroy(struct model_waiter *waiter)
{
    pthread_cond_destroy(&waiter->woken);
}

/* The waker still works, so time has not passed since; it will not before the woken thread waits
   again. */
static void wake(struct model_driver *driver, struct model_waiter *waiter)
{
    struct model_waiter **link = &driver->parked;
    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    if (driver->parked_tail == &waiter->next)
        driver->parked_tail = link;
    waiter->parked = false;
    clock_unblock(driver->base.clock);
    pthread_cond_signal(&waiter->woken);
}

static void park(struct model_driver *driver, struct model_waiter *waiter)
{
    waiter->parked = true;
    waiter->next = NULL;
    *driver->parked_tail = waiter;
    driver->parked_tail = &waiter->next;
    clock_block(driver->base.clock);
    while (waiter->parked)
        pthread_cond_wait(&waiter->woken, &driver->mutex);
}

/* ---- The device's time ---- */

static uint64_t device_time(struct model_driver *driver)
{
    uint64_t now_ns = clock_now(driver->base.clock) - driver->start_ns;
    return now_ns > driver->now_ns ? now_ns : driver->now_ns;
}

static void end_call(struct model_driver *driver, struct model_call *call)
{
    struct model_waiter *waiter = call->waiter;
    memory_free(call->more);
    call->more = NULL;
    call->next = NULL;
    *waiter->done_tail = call;
    waiter->done_tail = &call->next;
    if (waiter->parked)
        wake(driver, waiter);
}

static void piece_done(struct model_driver *driver, struct model_call *call)
{
    if (--call->pieces_left > 0)
        return;
    if (call->flush_follows && call->error == 0) {
        call->flush_follows = false;
        call->first = (struct model_io){.op = IO_OP_SYNC_DATA, .user = call};
        if (model_device_submit(driver->device, &call->first, driver->now_ns) == FIRN_OK) {
            call->pieces_left = 1;
            return;
        }
        call->error = -ENOMEM;
    }
    end_call(driver, call);
}

static void pass_until(struct model_driver *driver, uint64_t now_ns)
{
    driver->now_ns = now_ns;
    struct model_io *io = model_device_advance(driver->device, now_ns);
    while (io != NULL) {
        struct model_io *next = io->next;
        piece_done(driver, io->user);
        io = next;
    }
}

void model_catch_up(struct model_driver *driver)
{
    uint64_t now_ns = device_time(driver);
    /* Event by event: what follows on one, as the flush of a durable write, starts at its time. */
    for (;;) {
        uint64_t next_ns = model_device_next(driver->device);
        if (next_ns > now_ns)
            break;
        pass_until(driver, next_ns);
    }
    pass_until(driver, now_ns);
}

/* ---- Starting ---- */

/* Where the next piece of a range lies and how long it is. */
static uint32_t next_piece(const struct model_file *file, uint64_t offset, uint64_t size_bytes,
                           uint64_t *device_offset)
{
    uint64_t run = model_layout_map(file, offset, device_offset);
    if (run > PIECE_BYTES_MAX)
        run = PIECE_BYTES_MAX;
    return (uint32_t)(run < size_bytes ? run : size_bytes);
}

static unsigned count_pieces(const struct model_file *file, uint64_t offset, uint64_t size_bytes)
{
    unsigned count = 0;
    uint64_t ignored;
    while (size_bytes > 0) {
        uint32_t piece = next_piece(file, offset, size_bytes, &ignored);
        offset += piece;
        size_bytes -= piece;
        count++;
    }
    return count;
}

/* A piece that cannot be submitted fails the call, which ends with the pieces before it. */
static int submit_pieces(struct model_driver *driver, const struct model_file *file, enum io_op op,
                         uint64_t offset, uint64_t size_bytes, struct model_call *call)
{
    struct model_io *io = &call->first;
    while (size_bytes > 0) {
        uint32_t piece = next_piece(file, offset, size_bytes, &io->offset);
        io->op = op;
        io->size_bytes = piece;
        io->user = call;
        if (model_device_submit(driver->device, io, driver->now_ns) != FIRN_OK) {
            call->error = -ENOMEM;
            return call->pieces_left > 0 ? 0 : -ENOMEM;
        }
        call->pieces_left++;
        offset += piece;
        size_bytes -= piece;
        io = io == &call->first ? call->more : io + 1;
    }
    return 0;
}

static int start_transfer(struct model_driver *driver, const struct model_handle *handle,
                          enum io_op op, uint64_t offset, uint64_t size_bytes,
                          struct model_call *call)
{
    if (op == IO_OP_WRITE) {
        int error = model_layout_grow(driver->layout, handle->file, offset + size_bytes);
        if (error != 0)
            return error;
        call->flush_follows = handle->durable_writes;
    }
    uint64_t room = model_layout_room(handle->file);
    uint64_t there = offset < room ? room - offset : 0;
    if (size_bytes > there)
        size_bytes = there;
    unsigned pieces = count_pieces(handle->file, offset, size_bytes);
    if (pieces == 0) { /* read behind the end of the file: the device is not asked */
        end_call(driver, call);
        return 0;
    }
    if (pieces > 1) {
        call->more = memory_zalloc(pieces - 1, sizeof(*call->more));
        if (call->more == NULL)
            return -ENOMEM;
    }
    int error = submit_pieces(driver, handle->file, op, offset, size_bytes, call);
    if (error != 0) {
        memory_free(call->more);
        call->more = NULL;
    }
    return error;
}

int model_call_start(struct model_driver *driver, const struct model_handle *handle, enum io_op op,
                     uint64_t offset, uint64_t size_bytes, struct model_call *call)
{
    call->error = 0;
    call->pieces_left = 0;
    call->flush_follows = false;
    model_catch_up(driver);
    if (op == IO_OP_READ || op == IO_OP_WRITE)
        return start_transfer(driver, handle, op, offset, size_bytes, call);
    call->first = (struct model_io){.op = IO_OP_SYNC_DATA, .user = call};
    if (model_device_submit(driver->device, &call->first, driver->now_ns) != FIRN_OK)
        return -ENOMEM;
    call->pieces_left = 1;
    return 0;
}

/* ---- Waiting ---- */

static bool is_watched(const struct model_driver *driver, uint64_t until_ns)
{
    for (const struct model_watch *watch = driver->watches; watch != NULL; watch = watch->next)
        if (watch->until_ns <= until_ns)
            return true;
    return false;
}

static void watch_clock(struct model_driver *driver, uint64_t until_ns)
{
    struct model_watch watch = {.until_ns = until_ns, .next = driver->watches};
    driver->watches = &watch;
    pthread_mutex_unlock(&driver->mutex);
    clock_wait_until(driver->base.clock, driver->start_ns + until_ns);
    pthread_mutex_lock(&driver->mutex);
    struct model_watch **link = &driver->watches;
    while (*link != &watch)
        link = &(*link)->next;
    *link = watch.next;
}

void model_wait(struct model_driver *driver, struct model_waiter *waiter, uint64_t deadline_ns)
{
    uint64_t next_ns = model_device_next(driver->device);
    bool limited = deadline_ns != UINT64_MAX;
    if (!limited && is_watched(driver, next_ns)) {
        park(driver, waiter);
    } else {
        uint64_t limit_ns = limited ? deadline_ns - driver->start_ns : UINT64_MAX;
        ASSERT(next_ns != UINT64_MAX || limited);
        watch_clock(driver, next_ns < limit_ns ? next_ns : limit_ns);
    }
    model_catch_up(driver);
}

void model_hand_over(struct model_driver *driver)
{
    if (driver->parked != NULL && !is_watched(driver, model_device_next(driver->device)))
        wake(driver, driver->parked);
}
