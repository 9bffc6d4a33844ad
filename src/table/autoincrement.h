/*
 * autoincrement.h -- the next value of an autoincrement column, as MySQL counts.
 *
 * Values are offset + n * increment, n from 0 on; an offset above the increment is ignored, which
 * leaves the increment's multiples. A counter holds the largest value that was given or seen, and
 * never goes back: what keeps it, and how it survives a restart, is not this module's business.
 */
#ifndef FIRN_TABLE_AUTOINCREMENT_H
#define FIRN_TABLE_AUTOINCREMENT_H

#include "table/schema.h"

/** @return the largest value that the column takes; above it the table is full. */
uint64_t autoincrement_max(const struct column *column);

/**
 * Reserve values.
 *
 * @param last       the largest value given or seen; 0: none
 * @param offset     auto_increment_offset, 1 to 65535
 * @param increment  auto_increment_increment, 1 to 65535
 * @param wanted     how many, at least 1
 * @param first      set on success: the first value; the next ones are `increment` further each
 * @param reserved   set on success: how many, at most `wanted`: fewer where the column's range ends
 * @return FIRN_OK; FIRN_E_INVALID naming the column: it takes no larger value
 */
firn_rc autoincrement_reserve(const struct column *column, uint64_t last, uint64_t offset,
                              uint64_t increment, uint64_t wanted, uint64_t *first,
                              uint64_t *reserved);

/**
 * Take notice of a value that a row was given explicitly.
 *
 * @return the counter from now on: the value, if it is larger; negative ones do not count
 */
uint64_t autoincrement_see(uint64_t last, const struct value *value);

#endif
