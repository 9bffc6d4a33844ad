/*
 * reader_internal.h -- what reading the log needs besides frames one by one.
 */
#ifndef FIRN_REDO_READER_INTERNAL_H
#define FIRN_REDO_READER_INTERNAL_H

#include "redo/redo_internal.h"

/** Read a stretch of the stream; whole blocks. */
firn_rc redo_read(struct redo *redo, uint64_t lsn, uint8_t *to, uint64_t size_bytes);

/**
 * Guess how far the log goes, by looking for what could be frame headers at a few places.
 *
 * @param newest_lsn  about the end, up to limit_lsn; from_lsn if nothing is there
 */
firn_rc redo_find_newest(struct redo *redo, uint64_t from_lsn, uint64_t limit_lsn,
                         uint64_t *newest_lsn);

/** Where reading came to a place without a frame, and what it knows of the log there. */
struct redo_ahead {
    uint64_t lsn;
    uint64_t epoch;
    uint64_t in_flight_bytes;
    uint64_t limit_lsn;
};

/**
 * Look behind the place for a frame that says that the place had been durable before.
 *
 * @param proof_lsn  where that frame begins; 0 if there is none
 */
firn_rc redo_look_ahead(struct redo *redo, const struct redo_ahead *ahead, uint64_t *proof_lsn);

#endif
