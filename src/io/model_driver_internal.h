/*
 * model_driver_internal.h -- a model around a system: what model.c (files, single requests),
 * model_queue.c (queues) and model_time.c (waiting) share.
 *
 * A request is carried out below at once and held back until the modelled device has done it too.
 * The device is simulated by whoever waits: one thread waits on the clock for the device's next
 * event, lets the device's time pass to it, and wakes those whose requests are done. The others are
 * parked: they have left the clock, so that virtual time need not wait for them, and their waker
 * joins it for them before it lets time pass again.
 */
#ifndef FIRN_IO_MODEL_DRIVER_INTERNAL_H
#define FIRN_IO_MODEL_DRIVER_INTERNAL_H

#include "io/io_internal.h"
#include "io/model.h"
#include "io/model_layout_internal.h"

#include <pthread.h>

struct model_waiter;

/** One request on the modelled device, in as many pieces as its file's place there has. */
struct model_call {
    struct model_io first;
    struct model_io *more; /* the other pieces, or NULL */
    unsigned pieces_left;
    bool flush_follows; /* a durable write: the device's cache must be emptied too */
    int error;          /* negative errno: the model could not carry it out */
    struct model_waiter *waiter;
    struct model_call *next; /* of the waiter's */
};

/** Who waits for calls: a queue, or a thread with a single request. */
struct model_waiter {
    pthread_cond_t woken;
    bool parked;
    struct model_waiter *next; /* parked too */
    struct model_call *done;   /* in order, not yet taken */
    struct model_call **done_tail;
};

/** A thread that waits on the clock. */
struct model_watch {
    uint64_t until_ns; /* the device's time */
    struct model_watch *next;
};

struct model_driver {
    struct io_driver base;
    struct io_driver *below;
    uint64_t start_ns;     /* the clock's time when the device's was 0 */
    pthread_mutex_t mutex; /* protects all below; nothing but the clock's own is locked in it */
    struct model_device *device;
    struct model_layout *layout;
    uint64_t now_ns; /* the device's time */
    struct model_watch *watches;
    struct model_waiter *parked;
    struct model_waiter **parked_tail;
};

/** The decorator's handle of a file. */
struct model_handle {
    void *below;
    struct model_file *file;
    bool durable_writes; /* O_SYNC or O_DSYNC was asked for */
};

/** Bytes that a request moves. */
uint64_t model_request_bytes(const struct io_request *request);

/** Make a waiter that waits for nothing yet; and end one. */
void model_waiter_init(struct model_waiter *waiter);
void model_waiter_destroy(struct model_waiter *waiter);

/* The following are called with the driver's mutex held. */

/**
 * Start a request on the modelled device. It appears on its waiter's list when it is done.
 *
 * @param handle  of its file; NULL for a sync of a directory
 * @return 0; -ENOSPC or -ENOMEM, then nothing was started
 */
int model_call_start(struct model_driver *driver, const struct model_handle *handle, enum io_op op,
                     uint64_t offset, uint64_t size_bytes, struct model_call *call);

/** Let the device's time pass to now and hand out what is done. */
void model_catch_up(struct model_driver *driver);

/** Wait until something may have changed for a waiter, or until a time of the clock. Lets go of the
 * mutex meanwhile. Something must be under way. */
void model_wait(struct model_driver *driver, struct model_waiter *waiter, uint64_t deadline_ns);

/** Before a thread that has waited goes its way: see to it that somebody watches the clock. */
void model_hand_over(struct model_driver *driver);

/** The queue's part of the decorator, as struct io_driver_ops has it; without the mutex. */
int model_queue_open(struct io_driver *driver, unsigned depth, struct io_driver_queue **queue);
void model_queue_close(struct io_driver_queue *queue);
int model_queue_submit(struct io_driver_queue *queue, struct io_request *const *requests,
                       unsigned count);
int model_queue_reap(struct io_driver_queue *queue, unsigned min_count, unsigned max_count,
                     uint64_t deadline_ns, struct io_request **requests);

#endif
