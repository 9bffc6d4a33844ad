/*
 * syncs.h -- how many times the process has called fsync, fdatasync and msync.
 */
#ifndef SYNCS_H
#define SYNCS_H

#include <stdint.h>

/** @return the number so far; any thread. Writes to files opened with O_DSYNC are not counted. */
uint64_t syncs_count(void);

#endif
