/*
 * meter.h -- what a run does, second by second: rates, latencies and silences.
 *
 * Each worker records its operations into a part of its own; the reporter closes an interval by
 * swapping every worker's part for an empty one, so nothing is lost and every maximum is exact.
 * A worker's record costs an uncontended lock, two or three histogram counters and a bit.
 *
 * Silence: an interval is cut into METER_SLOTS slots and a worker sets the bit of the slot in which
 * an operation completed. The or of all workers' bits shows when nobody completed anything; runs of
 * clear bits across interval borders are joined. So a silence is known to one slot at either end,
 * 1/4096 of an interval, and is said to be shorter rather than longer than it was. An interval
 * closed late has slots for another planned length; what completes later falls into the last slot.
 *
 * Memory: 77 KiB for each worker and kind, of which a closed loop touches half at most, and as much
 * again for each kind; it does not grow with the run.
 */
#ifndef FIRN_BENCH_METER_H
#define FIRN_BENCH_METER_H

#include "base/clock.h"
#include "base/histogram.h"
#include "base/rc.h"

enum { METER_SLOTS = 4096, METER_KINDS_MAX = 8 };

struct meter;
struct meter_worker;

/** What one kind of operation did in an interval or over the whole run. */
struct meter_kind_data {
    uint64_t bytes;
    struct histogram latency_ns;  /* from the start of the operation to its completion */
    struct histogram response_ns; /* open loop: from its schedule to its completion; else empty */
};

/** A time in which nobody completed anything. */
struct meter_silence {
    uint64_t start_ns; /* since the meter started */
    uint64_t length_ns;
};

/** One interval, all workers together. */
struct meter_interval {
    uint64_t start_ns; /* since the meter started */
    uint64_t length_ns;
    uint64_t silence_start_ns; /* the longest silence that ended or goes on in it; since the meter
                                  started */
    uint64_t silence_ns;       /* its length so far, what it had in earlier intervals included */
    uint64_t silent_ns; /* all silences of at least silence_min_ns: their part in this interval; of
                           one that reaches that length only after it, the part is not counted */
    const struct meter_silence *silences; /* of at least silence_min_ns that ended in it, by start;
                                             each silence once in a run. NULL in the total */
    unsigned silence_count;
    struct meter_kind_data kinds[]; /* as many as the meter has */
};

struct meter_options {
    struct clock *clock;
    const char *kinds[METER_KINDS_MAX]; /* "read", "write", "sync"; ends with NULL or the array */
    unsigned workers;
    uint64_t interval_ns;    /* planned length, what the slots divide; at least 10 ms */
    uint64_t silence_min_ns; /* shorter gaps are neither listed nor counted into silent_ns; give
                                JUDGE_SILENCE_MIN_NS if the run is to be judged */
    bool open_loop;          /* keep response_ns too */
};

/**
 * Make a meter. It is started, at the clock's time of now.
 *
 * @param options  copied; the kinds' names are borrowed for the meter's life
 * @param meter    set on success; give it back with meter_close
 * @return FIRN_OK; FIRN_E_INVALID for no or too many kinds, no workers or too short an interval;
 *         FIRN_E_NOMEM
 */
firn_rc meter_open(const struct meter_options *options, struct meter **meter);

/** Free a meter; NULL is allowed. No worker may record any more. */
void meter_close(struct meter *meter);

/**
 * Start anew at the clock's time of now: everything recorded before (the warm-up) is dropped.
 * Workers may be at work; the reporter calls it.
 */
void meter_start(struct meter *meter);

/** @return the part of worker `number` (0 to workers - 1); one thread uses it. */
struct meter_worker *meter_worker_at(struct meter *meter, unsigned number);

/**
 * Record a completed operation.
 *
 * @param kind          index into options.kinds
 * @param scheduled_ns  open loop: when it should have started; else start_ns
 * @param start_ns      clock times
 * @param done_ns       at least start_ns
 */
void meter_record(struct meter_worker *worker, unsigned kind, uint64_t scheduled_ns,
                  uint64_t start_ns, uint64_t done_ns, uint64_t bytes);

/**
 * Close the interval that is open and open the next. One thread, the reporter. An operation belongs
 * to the interval that was open when it was recorded; each is in one interval and in the total.
 *
 * @return the closed interval; valid until the next call
 */
const struct meter_interval *meter_tick(struct meter *meter);

/** @return everything since meter_start up to the last tick, as one interval; for the reporter. */
const struct meter_interval *meter_total(const struct meter *meter);

/** The kinds of operation the meter was opened with, and their names (owned by the meter). */
unsigned meter_kind_count(const struct meter *meter);
const char *meter_kind_name(const struct meter *meter, unsigned kind);

/** @return operations of all kinds a worker has recorded since meter_start, for fairness. */
uint64_t meter_worker_operations(const struct meter_worker *worker);

#endif
