/*
 * picture_internal.h -- which pictures there are (pictures.c), their data (picture_data.c) and
 * their commands (picture_plots.c).
 */
#ifndef FIRN_REPORT_PICTURE_INTERNAL_H
#define FIRN_REPORT_PICTURE_INTERNAL_H

#include "report/report_internal.h"

enum picture_kind {
    PICTURE_TIMELINE,
    PICTURE_JITTER,
    PICTURE_DENSITY,
    PICTURE_PERCENTILES,
    PICTURE_GROUP,
    PICTURE_RUN,
};

struct picture {
    enum picture_kind kind;
    bool log;
    unsigned number; /* of the group or the run */
};

/** @return whether a column (NULL: none) has a value above the limit. */
bool picture_any_above(const double *values, unsigned count, double limit);

/** @return whether the run did anything. */
bool picture_has_rate(const struct report_run *run);

/** @return whether a kind's latency columns have a point. */
bool picture_has_latencies(const struct report_run *run, unsigned kind);

/** @return whether a kind's percentile curve has a point. */
bool picture_has_percentiles(const struct report_kind *kind);

/* The columns of the block $time_N: gnuplot counts from 1, and 1 is the time. */
enum {
    PICTURE_RATE = 2,
    PICTURE_R_AWAIT,
    PICTURE_W_AWAIT,
    PICTURE_UTIL,
    PICTURE_USER,
    PICTURE_SYSTEM,
    PICTURE_IOWAIT,
    PICTURE_STEAL,
    PICTURE_LATENCIES, /* LATENCY_COUNT of each kind */
};

/** Runs of one file that differ in one number: a curve of block $group_N. */
struct picture_group {
    const char *name, *axis;
    unsigned file;
};

/** Tell group `number`; false when there is none of that number. */
bool picture_group_at(const struct report *report, unsigned number, struct picture_group *group);

/** Write the script's data blocks: $time_RUN, $values_RUN, $density_RUN, $density_log_RUN,
    $percentile_RUN_KIND, $group_N. */
void picture_write_data(const struct report *report, FILE *out);

/** Write a picture's commands, behind its terminal and output. */
void picture_put(const struct report *report, const struct picture *picture, FILE *out);

/** @return how high it shall be, in pixels. */
unsigned picture_height(const struct report *report, const struct picture *picture);

#endif
