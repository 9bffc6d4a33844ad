/*
 * device_check.h -- what a device model does, measured in model time alone, beside its data sheet.
 *
 * Each row is a closed loop on a fresh device: so many requests under way, a new one as soon as one
 * is done, until enough were measured. Writes are measured once buffers and caches are full, as
 * they would run for hours. Seconds of model time take milliseconds.
 */
#ifndef FIRN_BENCH_DEVICE_CHECK_H
#define FIRN_BENCH_DEVICE_CHECK_H

#include "io/model.h"

/** A model agrees with its data sheet when each figure is within this share of it. */
#define DEVICE_CHECK_TOLERANCE 0.15

enum { DEVICE_CHECK_ROWS_MAX = 24, DEVICE_CHECK_FIGURES_MAX = 5 };

/** What a row does. */
struct device_load {
    unsigned write_percent; /* of the requests */
    bool sequential;
    uint32_t block_bytes;
    unsigned depth;
    uint64_t span_bytes; /* of the device, from its beginning; 0 for all */
    uint64_t warm_bytes; /* to move before measuring */
    unsigned requests;   /* to measure */
    uint64_t seed;
};

/** What came out. */
struct device_rates {
    double iops;
    double mib_s;
    double mean_us;
    double p99_us;
};

/**
 * Run a load on a device whose time is at *now_ns.
 *
 * @param now_ns  advanced to the end of the load, when nothing is under way any more
 * @param rates   set on success
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc device_run(struct model_device *device, const struct device_load *load, uint64_t *now_ns,
                   struct device_rates *rates);

/** One row of the table. */
struct device_check_row {
    struct device_load load;
    struct device_rates rates;
};

/** One figure of the data sheet. */
struct device_check_figure {
    const char *name; /* "random reads", ... */
    const char *unit; /* "/s", "MiB/s", "us" */
    double sheet;
    double model;
};

/** A model's dip as it shows under load. */
struct device_check_dip {
    bool found;
    double start_s; /* of model time */
    double length_s;
    double rate_share; /* of what the device did before it */
};

struct device_check {
    struct device_check_row rows[DEVICE_CHECK_ROWS_MAX];
    unsigned row_count;
    double sync_us;       /* a sync after one random write of 16 KiB, mean */
    double write_sync_us; /* the write and its sync together */
    struct device_check_figure figures[DEVICE_CHECK_FIGURES_MAX];
    unsigned figure_count; /* 0 without a data sheet */
    struct device_check_dip dip;
    bool passed; /* every figure is within the tolerance */
};

/**
 * Measure a model.
 *
 * @param sheet  what to compare it with, or NULL
 * @param check  filled on success
 * @return FIRN_OK, FIRN_E_NOMEM, FIRN_E_INVALID (the model)
 */
firn_rc device_check(const struct model_spec *spec, const struct model_sheet *sheet,
                     struct device_check *check);

#endif
