/*
 * units.h -- sizes, durations and rates as people write and read them.
 */
#ifndef FIRN_BASE_UNITS_H
#define FIRN_BASE_UNITS_H

#include "base/rc.h"

#include <stddef.h>
#include <stdint.h>

enum { UNITS_TEXT_BYTES = 32 };

/**
 * Read a size: a number, then nothing (bytes) or one of K M G T P, each times 1024 and in either
 * case, with an optional "B" or "iB": "16384", "16K", "2G", "1.5GiB".
 *
 * @param size_bytes  set only on success
 * @return FIRN_OK, or FIRN_E_INVALID for anything else, negative numbers and sizes past 2^63 - 1
 */
firn_rc units_parse_size(const char *text, uint64_t *size_bytes);

/**
 * Read a duration: a number, then nothing (seconds) or one of ns us ms s m h d: "10", "1.5h",
 * "250ms".
 *
 * @param duration_ns  set only on success
 * @return FIRN_OK, or FIRN_E_INVALID for anything else and for durations past 2^63 - 1 ns
 */
firn_rc units_parse_duration(const char *text, uint64_t *duration_ns);

/**
 * Write a size with three significant digits and a binary unit: "16 KiB", "1.95 GiB", "512 B".
 *
 * @param text  at least UNITS_TEXT_BYTES bytes
 * @return text
 */
char *units_format_size(double size_bytes, char text[UNITS_TEXT_BYTES]);

/** Write a duration with three significant digits and the unit that fits: "71.2 us", "4.01 s", "3
 * h". */
char *units_format_duration(double duration_ns, char text[UNITS_TEXT_BYTES]);

/** Write a count with three significant digits: "94.8 k", "1.2 M", "512". */
char *units_format_count(double count, char text[UNITS_TEXT_BYTES]);

#endif
