/*
 * report.h -- result files into a table, one HTML page, CSV and pictures.
 *
 * Order of use: report_open, report_add_file for each file, report_summarize, then any of the
 * printing and writing functions, report_close. One thread at a time uses a report.
 */
#ifndef FIRN_REPORT_REPORT_H
#define FIRN_REPORT_REPORT_H

#include "base/rc.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct report;

/** Make an empty report. Errors: FIRN_E_NOMEM. */
firn_rc report_open(struct report **report);

/** Free a report and everything in it; NULL is allowed. */
void report_close(struct report *report);

/**
 * Read a result file (docs/result.schema.json) and check it, as a whole before anything of it is
 * kept.
 *
 * @param path  a file; also one that cannot be sought, such as /dev/stdin
 * @return FIRN_OK; FIRN_E_INVALID for what is no result of a version this firn reads, holds no run,
 *         or was given before; as rc_from_errno for what cannot be read; FIRN_E_NOMEM. After a
 *         failure the report is as it was.
 */
firn_rc report_add_file(struct report *report, const char *path);

/**
 * report_add_file for a result in memory.
 *
 * @param path   what messages and the page call it
 * @param bytes  any bytes; not kept
 */
firn_rc report_add_memory(struct report *report, const char *path, const void *bytes,
                          size_t size_bytes);

/**
 * Compute the table: repeats joined, medians with confidence intervals, ratios, differences in
 * setup. Call it once, when all files are in.
 *
 * @param baseline  a run's name or label, or a file's name: what ratios are taken against. NULL
 *                  chooses: the first file when its runs have namesakes in another one, else the
 *                  first run if the others differ from it in one setting at most, else nothing.
 * @return FIRN_OK; FIRN_E_NOT_FOUND (no such run or file; the text lists them), FIRN_E_NOMEM
 */
firn_rc report_summarize(struct report *report, const char *baseline);

/** Print the table and the verdict for people: one screen for a few runs. FIRN_E_NOMEM. */
firn_rc report_print(const struct report *report, FILE *out);

/** @return the table as an object, to be released with json_decref; NULL without memory. */
json_t *report_json(const struct report *report);

/** What report_write shall make. */
struct report_output {
    const char *directory; /* made if it does not exist (not its parents) */
    bool pictures;         /* SVG and PNG by gnuplot; one warning where it is not installed */
};

/**
 * Write the page report.html, the tables summary.csv and intervals-*.csv, and pictures/. What an
 * earlier report wrote there (listed in its file report.files) is replaced; any other file of those
 * names is refused before anything is written.
 *
 * @return FIRN_OK; FIRN_E_EXISTS, and as rc_from_errno
 */
firn_rc report_write(const struct report *report, const struct report_output *output);

/** Write the page alone, to a stream that the caller checks and closes. FIRN_E_NOMEM. */
firn_rc report_write_page(const struct report *report, FILE *out);

#endif
