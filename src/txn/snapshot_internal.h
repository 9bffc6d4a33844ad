/*
 * snapshot_internal.h -- which transactions' changes a reader sees, as one number.
 *
 * A transaction that writes has an id, drawn when it first writes: rows say by it who changed them.
 * A transaction that commits gets a commit number, in the order of the redo log. A snapshot is the
 * newest commit number at the time it is taken: it sees what was committed at or below it. From an
 * id to its commit number leads a ring of the last million ids.
 *
 *     id below `low`      all of these had ended when the snapshot was taken: seen
 *     id at `high` or on  drawn after the snapshot was taken: not seen
 *     between             the ring knows; and for what has fallen out of it, the snapshot's own
 * list of exceptions: ids that were open when it was taken, so no longer than there were open ones
 *
 * (The idea of commit sequence numbers beside transaction ids is from work on PostgreSQL and
 * PolarDB; Freitag, Kemper, Neumann, "Memory-Optimized Multi-Version Concurrency Control for
 * Disk-Based Database Systems", 2022, discuss it.)
 *
 * Taking and ending a snapshot writes to the reader's own cache line only.
 */
#ifndef FIRN_TXN_SNAPSHOT_INTERNAL_H
#define FIRN_TXN_SNAPSHOT_INTERNAL_H

#include "base/rc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct snapshot_set;

/** 48 bits; 0 means nobody, so older than everybody. */
#define TXN_ID_MAX ((UINT64_C(1) << 48) - 1)

enum { SNAPSHOT_RING_IDS = 1 << 20 };

/** A session's place for its snapshots; one is open in it at a time. */
struct snapshot;

struct snapshot_options {
    uint64_t next_id;     /* the first id to draw: above all that are in rows and logs */
    uint64_t last_number; /* the newest commit number there is */
    uint32_t ring_ids;    /* a power of two, 16 at least; 0: SNAPSHOT_RING_IDS. For tests */
};

/** @param set  set on success; snapshot_set_close. FIRN_E_NOMEM; FIRN_E_INVALID (ids or numbers
 * beyond their range, which only a damaged file can say) */
firn_rc snapshot_set_open(const struct snapshot_options *options, struct snapshot_set **set);

/** All places have been given back. NULL is allowed. */
void snapshot_set_close(struct snapshot_set *set);

/** Make and give back a session's place; giving it back ends what is open in it. A place belongs to
 * one thread at a time. FIRN_E_NOMEM */
firn_rc snapshot_new(struct snapshot_set *set, struct snapshot **snapshot);
void snapshot_free(struct snapshot *snapshot);

/** Take: see what is committed now. Ends the one that was open. */
void snapshot_take(struct snapshot *snapshot);

/** Take the same as another one that is open and stays so during the call: a dump's threads. May
 * wait while the ring goes on. */
void snapshot_share(struct snapshot *snapshot, const struct snapshot *other);

/** End it; nothing happens if none is open. What was read with it must not be followed any more. */
void snapshot_end(struct snapshot *snapshot);
bool snapshot_is_open(const struct snapshot *snapshot);

/** @return the commit number that it sees up to. */
uint64_t snapshot_number(const struct snapshot *snapshot);

/** Does an open snapshot see what a transaction did? One's own is the caller's to know. */
bool snapshot_sees(const struct snapshot *snapshot, uint64_t id);

/** @return an id below which a snapshot sees all: for pages and rows at a glance. */
uint64_t snapshot_low(const struct snapshot *snapshot);

/* ---- Writers ---- */

/** Draw an id; it is open until snapshot_commit. The caller sees to it that the log knows where a
 * restart may begin to draw (undo_internal.h, undo_cover_id) before any row says the id.
 *
 * @param id  set on success
 * @return FIRN_OK; FIRN_E_NOMEM: none was drawn; FIRN_E_STOPPED: there are no more */
firn_rc snapshot_draw_id(struct snapshot_set *set, uint64_t *id);

/** An id that was open when the environment was last used: prepared, or to be rolled back. Before
 * the first is drawn and the first snapshot is taken; below next_id. FIRN_E_NOMEM */
firn_rc snapshot_adopt_id(struct snapshot_set *set, uint64_t id);

/**
 * Commit: draw the next commit number, have the log record made, publish; in this order, one
 * transaction at a time, so that numbers, log and what snapshots see are in one order.
 *
 * A transaction that was rolled back ends by it too: what it wrote is in no row any more.
 *
 * @param record  called with the number, while nobody else can commit; appends the commit record.
 *                When it fails, the number is not used and the id stays open. NULL: nothing to log
 * @param number  set on success; may be NULL
 */
typedef firn_rc snapshot_record(uint64_t number, void *context);
firn_rc snapshot_commit(struct snapshot_set *set, uint64_t id, snapshot_record *record,
                        void *context, uint64_t *number);

/** Is a transaction open (active or prepared)? Exact when its end is held off by the caller. */
bool snapshot_is_active(struct snapshot_set *set, uint64_t id);

/** @return the commit number of an id; 0 if it is still open; 1 for one whose number is forgotten:
 * every snapshot that is taken from now on sees it. */
uint64_t snapshot_number_of(struct snapshot_set *set, uint64_t id);

/* ---- For purge ---- */

/** @return the number such that all that was committed at or below it is seen by every snapshot,
 * open now or taken later. Not within snapshot_commit's record. */
uint64_t snapshot_horizon(struct snapshot_set *set);

/** @return the newest commit number. */
uint64_t snapshot_newest(struct snapshot_set *set);

/** @return the id that will be drawn next. */
uint64_t snapshot_next_id(struct snapshot_set *set);

/** Who holds the horizon back: the oldest open snapshot; false if none is open. */
struct snapshot_oldest {
    const struct snapshot *snapshot;
    uint64_t number;
    uint64_t taken_ns; /* on the real clock, to some milliseconds */
};
bool snapshot_oldest(struct snapshot_set *set, struct snapshot_oldest *oldest);

#endif
