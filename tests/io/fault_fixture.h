/*
 * fault_fixture.h -- a simulated disk on a virtual clock behind a fault decorator, for each test.
 * Delays are exact there and take no time.
 */
#ifndef FIRN_TESTS_IO_FAULT_FIXTURE_H
#define FIRN_TESTS_IO_FAULT_FIXTURE_H

#include "io/sim_support.h"

enum { BLOCK = 4096, DEPTH = 8 };

static struct sim_disk *disk;
static struct clock *clock_;
static struct io_system *sys;
static struct fault_injector *faults;

static inline int setup(void **state)
{
    (void)state;
    disk = disk_make();
    ASSERT_OK(clock_open_virtual(&clock_));
    clock_join(clock_);
    ASSERT_OK(sim_disk_open_system(disk, clock_, 1, &sys));
    ASSERT_OK(fault_attach(sys, 1, &faults));
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    io_system_close(sys);
    sim_disk_destroy(disk);
    clock_leave(clock_);
    clock_close(clock_);
    return 0;
}

/** Plan one fault. */
static inline void plan(struct fault_plan one)
{
    fault_set_plans(faults, &one, 1);
}

/** A thread's work: wait for a second, then release what is stuck. */
static inline void *release_after_a_second(void *unused)
{
    (void)unused;
    clock_wait_until(clock_, NS_PER_S);
    fault_release(faults);
    clock_leave(clock_);
    return NULL;
}

#endif
