/*
 * progress_internal.h -- progress's pure parts, for its test.
 */
#ifndef FIRN_CLI_PROGRESS_INTERNAL_H
#define FIRN_CLI_PROGRESS_INTERNAL_H

#include "cli/progress.h"

#include <stddef.h>

enum { PROGRESS_TEXT_BYTES = 256 };

/**
 * Is it worth drawing now?
 *
 * @param now_ns  of the real clock
 */
bool progress_is_due(const struct progress *progress, double done, uint64_t now_ns);

/** Write the line, at most width - 1 characters. @return text */
char *progress_format(const struct progress *progress, double done, uint64_t now_ns, size_t width,
                      char text[PROGRESS_TEXT_BYTES]);

#endif
