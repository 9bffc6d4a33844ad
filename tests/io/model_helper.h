/*
 * model_helper.h -- what the tests of the device models share: requests in model time.
 */
#ifndef FIRN_TESTS_IO_MODEL_HELPER_H
#define FIRN_TESTS_IO_MODEL_HELPER_H

#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"
#include "io/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static inline struct model_spec find(const char *text)
{
    struct model_spec spec;
    if (model_find(text, &spec) != FIRN_OK)
        fail_msg("%s", firn_error_text());
    return spec;
}

static inline struct model_device *open_model(const char *text, uint64_t seed)
{
    struct model_spec spec = find(text);
    struct model_device *device = NULL;
    assert_int_equal(model_device_open(&spec, seed, &device), FIRN_OK);
    return device;
}

/* Wait for the next completions. */
static inline struct model_io *wait_done(struct model_device *device, uint64_t *now_ns)
{
    for (;;) {
        uint64_t next_ns = model_device_next(device);
        assert_true(next_ns != UINT64_MAX);
        assert_true(next_ns >= *now_ns);
        *now_ns = next_ns;
        struct model_io *done = model_device_advance(device, *now_ns);
        if (done != NULL)
            return done;
    }
}

/* One request alone. @return how long it took */
static inline uint64_t do_one(struct model_device *device, enum io_op op, uint64_t offset,
                              uint32_t size, uint64_t *now_ns)
{
    struct model_io io = {.op = op, .offset = offset, .size_bytes = size};
    assert_int_equal(model_device_submit(device, &io, *now_ns), FIRN_OK);
    assert_ptr_equal(wait_done(device, now_ns), &io);
    assert_null(io.next);
    assert_int_equal(io.done_ns, *now_ns);
    return io.done_ns - io.arrive_ns;
}

/* A closed loop of random 16 KiB requests over a span of the device. @return requests a second */
static inline double random_iops(const char *text, unsigned write_percent, unsigned depth,
                                 uint64_t span, unsigned warm, unsigned count)
{
    struct model_device *device = open_model(text, 1);
    struct rng rng;
    uint64_t now_ns = 0;
    uint64_t start_ns = 0;
    unsigned done_count = 0;
    struct model_io *ios = calloc(depth, sizeof(*ios));
    struct model_io *again = NULL;
    if (span == 0 || span > model_device_capacity(device))
        span = model_device_capacity(device);
    rng_init(&rng, 7);
    for (unsigned i = 0; i < depth; i++) {
        ios[i].next = again;
        again = &ios[i];
    }
    while (done_count < warm + count) {
        while (again != NULL) {
            struct model_io *io = again;
            again = io->next;
            io->op = rng_below(&rng, 100) < write_percent ? IO_OP_WRITE : IO_OP_READ;
            io->size_bytes = 16384;
            io->offset = rng_below(&rng, span / 16384) * 16384;
            assert_int_equal(model_device_submit(device, io, now_ns), FIRN_OK);
        }
        again = wait_done(device, &now_ns);
        for (struct model_io *io = again; io != NULL; io = io->next)
            if (++done_count == warm)
                start_ns = now_ns;
    }
    model_device_close(device);
    free(ios);
    return count / ((double)(now_ns - start_ns) / 1e9);
}

#endif
