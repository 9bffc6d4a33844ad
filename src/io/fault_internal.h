/*
 * fault_internal.h -- what fault.c (decisions, paths, single requests) and fault_queue.c share.
 */
#ifndef FIRN_IO_FAULT_INTERNAL_H
#define FIRN_IO_FAULT_INTERNAL_H

#include "base/rng.h"
#include "io/fault.h"
#include "io/io_internal.h"

#include <pthread.h>

/** How often to look who waits for fault_release, or for a queue that takes nothing. */
#define FAULT_POLL_NS NS_PER_MS

enum { FAULT_TARGETS = 4 };

struct fault_injector {
    pthread_mutex_t mutex;
    struct rng rng;
    struct fault_plan plans[FAULT_PLANS_MAX];
    uint64_t counts[FAULT_PLANS_MAX]; /* operations each plan has counted */
    unsigned plan_count;
    uint64_t seen[FAULT_TARGETS]; /* operations by target bit */
    uint64_t hits;
    uint64_t releases; /* calls of fault_release */
};

struct fault_driver {
    struct io_driver base;
    struct io_driver *below;
    struct fault_injector injector;
};

struct fault_handle {
    void *below;
    enum io_class class;
    uint32_t alignment;
};

/** What was decided for an operation. */
struct fault {
    enum fault_kind kind;
    int error;
    uint64_t delay_ns;
    uint64_t random;   /* for whatever the kind leaves to chance */
    uint64_t releases; /* so many calls of fault_release had been when it was decided */
};

/** Count an operation and decide its fate. `class` is IO_CLASS_COUNT where there is no file. */
struct fault fault_decide(struct fault_injector *injector, enum fault_target target,
                          enum io_class class);

/** @return the target that a read, write or sync is. */
enum fault_target fault_target_of(enum io_op op);

/** Is an operation that was decided to be stuck still so? */
bool fault_is_stuck(struct fault_injector *injector, const struct fault *fault);

/** Change a copy of a request, whose handle is still the decorator's, into what goes below. */
void fault_distort(struct io_request *request, const struct fault *fault);

/** Settle a request that does not go below. @return true, with its result set, if it is one */
bool fault_answers(struct io_request *request, const struct fault *fault);

/** Spoil what a request has read. */
void fault_spoil(const struct io_request *request, const struct fault *fault, int64_t result);

/* The queue part of the decorator's io_driver_ops. */
int fault_queue_open(struct io_driver *driver, unsigned depth, struct io_driver_queue **queue);
void fault_queue_close(struct io_driver_queue *queue);
int fault_queue_submit(struct io_driver_queue *queue, struct io_request *const *requests,
                       unsigned count);
int fault_queue_reap(struct io_driver_queue *queue, unsigned min_count, unsigned max_count,
                     uint64_t deadline_ns, struct io_request **requests);

#endif
