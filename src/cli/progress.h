/*
 * progress.h -- one line that tells how far long work has come.
 *
 * It is drawn on standard error, only if that is a terminal, only once the work has taken two
 * seconds and promises to take more, and wiped at the end: results and messages stand alone, and
 * files and pipes never see it. One thread owns a progress.
 */
#ifndef FIRN_CLI_PROGRESS_H
#define FIRN_CLI_PROGRESS_H

#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** What the amounts are, which decides how the rate is written. */
enum progress_unit {
    PROGRESS_BYTES, /* 412 MiB/s */
    PROGRESS_COUNT, /* 94.8 k/s */
    PROGRESS_SHARE, /* shares of a plan: no rate */
};

struct progress {
    FILE *out; /* NULL: nothing is drawn */
    const char *label;
    enum progress_unit unit;
    double total;
    uint64_t start_ns, drawn_ns; /* of the real clock */
    bool drawn;
};

/**
 * Begin. Nothing is drawn yet.
 *
 * @param label  what is being done, "prepare"; not copied
 * @param total  the amount of all work, above 0
 */
void progress_start(struct progress *progress, const char *label, enum progress_unit unit,
                    double total);

/** What is being done from now on; not copied. */
void progress_label(struct progress *progress, const char *label);

/** Say how much is done. Draws at most five times a second; cheap enough to call each millisecond.
 */
void progress_update(struct progress *progress, double done);

/** Wipe the line, before other output to the terminal; a later update draws it again. */
void progress_wipe(struct progress *progress);

/** End: wipe the line for good. */
void progress_end(struct progress *progress);

/** Write how long something will take, in whole seconds, rounded up: "42 s", "3:20 min", "1:05 h".
 * @return text */
char *progress_format_time(double ns, char text[UNITS_TEXT_BYTES]);

#endif
