/*
 * redo.h -- the log: an endless stream of frames in a ring of files.
 *
 * A frame is the log of one mini-transaction: a header, then change records (src/page/change.h)
 * that this folder does not look into. An LSN is a byte position in the stream; frames begin at
 * multiples of 8. Each frame has a checksum that includes its LSN, so that what an earlier round of
 * the ring left behind is never taken for log. A write at the tail rewrites the bytes of its first
 * and last sector as they are, so that a torn write harms nothing that was durable.
 *
 * Appending is reserve (one atomic add), copy (in parallel), publish (in order, without a lock).
 * Who needs durability and finds no writer becomes the writer and takes everybody along (group
 * commit without hand-off threads). A failed write or sync of the log is final: FIRN_E_STOPPED for
 * every later commit.
 *
 * How far a frame had become durable when it was written is in its successors: a frame that is bad
 * although a later one says that it was durable is damage, not the end of the log.
 */
#ifndef FIRN_REDO_REDO_H
#define FIRN_REDO_REDO_H

#include "base/finding.h"
#include "base/span.h"
#include "io/io.h"

struct redo;

enum {
    REDO_FRAME_HEADER_BYTES = 16,
    REDO_FRAME_BODY_MAX = 4 << 20, /* the largest mini-transaction */
};

/** The LSN of the first frame of a new environment. LSNs below it are never used; 0 means none. */
#define REDO_FIRST_LSN UINT64_C(8192)

struct redo_options {
    struct io_system *system; /* the device of redo_dir */
    const char *directory;
    uint64_t file_size_bytes;   /* log_file_size; 4 MiB at least, a multiple of 1 MiB */
    uint32_t file_count;        /* log_files; 2 to 100 */
    uint64_t buffer_size_bytes; /* log_buffer_size; 1 MiB to 1 GiB, a multiple of 64 KiB; less than
                                   twice the largest frame counts as that, 8 MiB */
    uint8_t environment[16];    /* whose log it is; checked at open */
    bool flush_thread;          /* write and sync once a second what modes 0 and 2 left behind;
                                   otherwise redo_tick does that when called */
    bool direct;                /* past the page cache */
    bool skip_sync;             /* a canary for tests: acknowledges without syncing */
};

/**
 * Make the files of a new log (written, not just allocated: a commit must not pay for extents) and
 * make them and their names durable.
 *
 * @param first_lsn  where the stream begins, a multiple of 8: REDO_FIRST_LSN, or where an old log
 *                   ended when its files are replaced to resize the ring
 * A crash in it leaves no log, with files beside it that the next redo_create or redo_remove clears
 * away, or the whole new log.
 *
 * @return FIRN_OK, FIRN_E_EXISTS (there is a log), FIRN_E_NOSPACE, FIRN_E_INVALID (options), ...
 */
firn_rc redo_create(const struct redo_options *options, uint64_t first_lsn);

/** Remove a log, or what was left of one half made or half removed. For the environment that was
 * being made when the power went: its log holds nothing that anybody was promised. FIRN_OK also if
 * there is none. */
firn_rc redo_remove(const struct redo_options *options);

/**
 * Open a log: read the checkpoint, nothing else. Appending begins after redo_recovered.
 *
 * The files' size and number are what they are, not what the options say (redo_resize).
 *
 * @param redo  set on success; give it back with redo_close
 * @return FIRN_OK; FIRN_E_NOT_FOUND (no log there, or a file of it is missing); FIRN_E_CORRUPT (a
 *         file is no log, truncated, of another environment, in another's place; both checkpoints
 *         are damaged); FIRN_E_UNSUPPORTED (a newer format)
 */
firn_rc redo_open(const struct redo_options *options, struct redo **redo);

/** Close; what is not durable stays so: callers that want it flush first. NULL is allowed. */
firn_rc redo_close(struct redo *redo);

/* ---- Reading, before redo_recovered ---- */

/** @return the LSN that recovery begins at: the last checkpoint. */
uint64_t redo_checkpoint_lsn(const struct redo *redo);

struct redo_reader;

/** Read from the checkpoint's LSN on, in large sequential requests, ahead of the caller. What is
 * there to be read is made durable first: whoever repeats it may write pages at once. A reader
 * belongs to the thread that opened it. */
firn_rc redo_reader_open(struct redo *redo, uint64_t from_lsn, struct redo_reader **reader);

/**
 * Read the next frame.
 *
 * @param body     its records; valid until the next call
 * @param lsn      where it begins
 * @param end_lsn  where the next begins
 * @return FIRN_OK; FIRN_E_NOT_FOUND at the end of the log; FIRN_E_CORRUPT when the log is damaged
 *         before its end, naming file and offset; FIRN_E_IO, ...
 */
firn_rc redo_reader_next(struct redo_reader *reader, struct span *body, uint64_t *lsn,
                         uint64_t *end_lsn);
void redo_reader_close(struct redo_reader *reader);

/** @return about how many bytes of log there are to read, for a progress with an estimate: from the
 * checkpoint to the newest position that the files tell. */
uint64_t redo_reader_bytes_ahead(const struct redo_reader *reader);

/** All of the log has been repeated: it ends at this LSN, and pages must not say that they are
 * newer (redo_page_limit). Changes nothing on the device, so that the environment may still be
 * refused. */
void redo_repeated(struct redo *redo, uint64_t end_lsn);

/** @return whether the log, which has been read to its end, has nothing behind the checkpoint: then
 * redo_resize can replace it. */
bool redo_is_clean(const struct redo *redo);

/** @return the LSN that no page may exceed: where the stream is reserved up to; before
 * redo_recovered where the log ends, UINT64_MAX as long as that is not known. Any thread. */
uint64_t redo_page_limit(const struct redo *redo);

/**
 * Begin to append where the log, which has been read to its end, ends. This is the first thing that
 * changes the log's files: they are given their names if a replacement was cut short, the copies of
 * the checkpoint are made the same, and a first frame says that another life begins. What lies
 * behind the end in the ring is never taken for a continuation.
 *
 * @param end_lsn  where the last frame that redo_reader_next returned ends; the checkpoint's LSN if
 *                 it returned none. A log that has not been read to its end is read here.
 * @return FIRN_OK; FIRN_E_MISUSE if the log ends elsewhere; FIRN_E_CORRUPT, FIRN_E_IO, ...
 */
firn_rc redo_recovered(struct redo *redo, uint64_t end_lsn);

/* ---- Appending ---- */

/**
 * Append a frame. Waits while the log buffer is full; space in the files has been asked for with
 * redo_reserve before.
 *
 * @param body     records; at most REDO_FRAME_BODY_MAX
 * @param end_lsn  set always: where the frame ends
 * @return FIRN_OK; FIRN_E_STOPPED when the log has failed. Then the frame has a place in the stream
 *         all the same, which never becomes durable: a page with that LSN is never written.
 */
firn_rc redo_append(struct redo *redo, struct span body, uint64_t *end_lsn);

/** @return the LSN that the next frame will begin at, at least; UINT64_MAX before redo_recovered.
 */
uint64_t redo_reserved_lsn(const struct redo *redo);

/** @return how far the files have been written, and how far synced. */
uint64_t redo_written_lsn(const struct redo *redo);
uint64_t redo_durable_lsn(const struct redo *redo);

/** How far a commit goes: flush_log_at_commit. */
enum redo_flush {
    REDO_FLUSH_NONE = 0,  /* leave it in the buffer; a second's commits may be lost */
    REDO_FLUSH_SYNC = 1,  /* durable when the call returns */
    REDO_FLUSH_WRITE = 2, /* given to the kernel; lost with the machine, not with the process. With
                             direct I/O: with the device's cache */
};

/**
 * Bring the stream up to an LSN to where the mode says, in a group with all who wait.
 *
 * @return FIRN_OK; FIRN_E_STOPPED: the log has failed, the commit may or may not survive
 */
firn_rc redo_flush(struct redo *redo, uint64_t lsn, enum redo_flush flush);

/** What the flush thread does each second; for environments without one. */
firn_rc redo_tick(struct redo *redo);

/** @return FIRN_OK, or the failure that stopped the log, raised again. */
firn_rc redo_status(struct redo *redo);

/* ---- Space and checkpoints ---- */

/** @return bytes of stream that the ring can hold between checkpoint and tail. */
uint64_t redo_capacity_bytes(const struct redo *redo);

/** @return bytes between the last checkpoint and the tail: the checkpoint age. */
uint64_t redo_age_bytes(const struct redo *redo);

/** Room in the ring that a mini-transaction has been promised. Zero it once; the module's own. */
struct redo_room {
    uint64_t size_bytes;
    uint32_t counter;
};

/**
 * Ask for room in the ring for one frame, before latching any page: waits until all that has been
 * promised lies within the ring. Calls the urge function while it waits, so that somebody writes
 * pages and takes a checkpoint. Also makes sure that the log buffer is not nearly full.
 *
 * @param size_bytes  of the frame's body, an upper bound; at most REDO_FRAME_BODY_MAX
 * @param room        empty; give it back with redo_unreserve
 * @return FIRN_OK; FIRN_E_STOPPED; what the urge function returned
 */
firn_rc redo_reserve(struct redo *redo, uint64_t size_bytes, struct redo_room *room);

/** Ask for more room without waiting, latches may be held. @return FIRN_OK; FIRN_E_BUSY without an
 * error text: let go of everything and begin again with a higher bound */
firn_rc redo_reserve_more(struct redo *redo, uint64_t size_bytes, struct redo_room *room);

/** Give room back: behind redo_append, or when nothing is appended. Empty room is allowed. */
void redo_unreserve(struct redo *redo, struct redo_room *room);

/** Called by redo_reserve's callers' threads while the ring is full: write dirty pages (oldest
 * first) and take a checkpoint. Returns an error to give up with. */
typedef firn_rc redo_urge(void *context);
void redo_set_urge(struct redo *redo, redo_urge *urge, void *context);

/**
 * Hold the log's growth back, so that the ring does not fill up at once: for whoever writes dirty
 * pages. Until the next call the tail may come to an LSN that moves on from now; redo_reserve waits
 * for it. One thread at a time.
 *
 * @param lsn      where it may come to now; UINT64_MAX, as at first: there is no limit
 * @param bytes_s  how fast that LSN moves on; 0: nobody waits, but at_limit is called there
 */
void redo_set_limit(struct redo *redo, uint64_t lsn, uint64_t bytes_s);

/** Called by who comes first to a limit that nobody waits at (bytes_s is 0); does not block. Set it
 * before there is a limit; NULL: nobody is told. */
typedef void redo_at_limit(void *context);
void redo_set_at_limit(struct redo *redo, redo_at_limit *at_limit, void *context);

/**
 * Take a checkpoint: recovery will begin at this LSN. Every page change below it is durable in the
 * tablespaces; that is the caller's to know. Makes the log durable up to the LSN first; durable on
 * return. An LSN at or below the last checkpoint does nothing, nor does one within the log that was
 * there before this open: only all of that can be left behind.
 *
 * @return FIRN_OK; FIRN_E_STOPPED
 */
firn_rc redo_checkpoint(struct redo *redo, uint64_t lsn);

/** Hold checkpoints back at an LSN (a file operation is under way whose record must be seen again
 * after a crash). Several holds may exist. Who holds does not wait for redo_reserve. */
struct redo_hold {
    struct redo_hold *next;
    uint64_t lsn;
};
void redo_hold(struct redo *redo, struct redo_hold *hold);
void redo_release(struct redo *redo, struct redo_hold *hold);

/**
 * Give a cleanly closed log the files that the options ask for, if they are others. A crash in it
 * leaves the old log or the new one.
 *
 * @return FIRN_OK; FIRN_E_BUSY if there is log behind the checkpoint: recover and close first;
 *         FIRN_E_NOSPACE (old and new files must fit), FIRN_E_INVALID, what redo_open returns
 */
firn_rc redo_resize(const struct redo_options *options);

/* ---- Copies, for backups ---- */

/** Copies of the stream come in blocks of so many bytes. */
enum { REDO_COPY_BLOCK_BYTES = 4096, REDO_COPY_MAX_BYTES = 1 << 20 };

/** The checkpoint that a copy of the stream begins at. */
struct redo_copy_start {
    uint64_t lsn;
    uint64_t epoch;           /* that the frame there is sealed with ... */
    uint64_t in_flight_bytes; /* ... and what its writer promised */
};

/** A copy of the stream that is being taken while others append. One thread at a time. */
struct redo_copy;

/**
 * Begin to copy the stream at the last checkpoint. Nothing is held back: the ring goes on, and a
 * copy that is not taken as fast as the log grows is overtaken in the end.
 *
 * @param copy  set on success; redo_copy_close
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc redo_copy_open(struct redo *redo, struct redo_copy **copy);
void redo_copy_close(struct redo_copy *copy);

/** @return the checkpoint that the copy begins at. Recovery that begins there needs every page as
 * it was on its device at any time since redo_copy_open, or newer. */
const struct redo_copy_start *redo_copy_start(const struct redo_copy *copy);

/** @return how many durable bytes of the stream have not been copied yet. Any thread. */
uint64_t redo_copy_lag_bytes(const struct redo_copy *copy);

/**
 * Copy the next stretch: whole blocks of the stream that are durable, the first one that of the
 * checkpoint; every frame that ends in them is judged.
 *
 * @param limit_lsn  UINT64_MAX: as far as blocks are full; else the end of the copy, where a frame
 *                   ends and the log is durable: its block is filled up with zeros
 * @param bytes      at most REDO_COPY_MAX_BYTES, aligned to a block, valid until the next call;
 *                   none when all there is has been copied
 * @return FIRN_OK; FIRN_E_BUSY: the log has gone round its files and overtaken the copy;
 *         FIRN_E_CORRUPT naming file and offset; FIRN_E_IO
 */
firn_rc redo_copy_next(struct redo_copy *copy, uint64_t limit_lsn, struct span *bytes);

/** Give a stretch of a copy, from redo_create_from's thread, in order. Whole blocks. */
typedef firn_rc redo_copy_read(uint64_t lsn, uint8_t *to, uint64_t size_bytes, void *context);

/**
 * redo_create with what was copied in it: recovery begins at start->lsn and ends at end_lsn. The
 * files are made larger than the options say where the copy, and work behind it, would not fit.
 *
 * @return as redo_create, and what read returns
 */
firn_rc redo_create_from(const struct redo_options *options, const struct redo_copy_start *start,
                         uint64_t end_lsn, redo_copy_read *read, void *context);

/* ---- Judging ---- */

/** What redo_check found the log to be. */
struct redo_check_result {
    uint32_t files;          /* looked at */
    uint32_t file_count;     /* that the log has, as the first file says; 0: none does */
    uint64_t bytes;          /* read */
    uint64_t frames;         /* whole, from the checkpoint on */
    uint64_t checkpoint_lsn; /* 0: there is none that can be read */
    uint64_t end_lsn;        /* where the last whole frame ends */
    bool is_whole;           /* it can be read from the checkpoint to its end */
};

/** Called for each frame from the checkpoint on, in order. */
typedef void redo_check_frame(struct span body, void *context);

/**
 * Judge the files of a log that nobody has open, without changing them: headers, both copies of the
 * checkpoint, every frame from the checkpoint to the end; of the rest of the ring, which holds what
 * nobody needs any more, that it can be read. Goes on behind each damage.
 *
 * @param report  gets what was found; context is its and frame's
 * @param result  filled always
 * @return FIRN_OK, whatever was found; FIRN_E_NOMEM
 */
firn_rc redo_check(const struct redo_options *options, finding_report *report,
                   redo_check_frame *frame, void *context, struct redo_check_result *result);

struct redo_counters {
    uint64_t frames;
    uint64_t bytes;         /* of frames */
    uint64_t writes;        /* write requests to the files */
    uint64_t written_bytes; /* with the sectors that were rewritten */
    uint64_t syncs;
    uint64_t commits;      /* redo_flush calls with SYNC or WRITE */
    uint64_t buffer_waits; /* appends that waited for the log buffer */
    uint64_t space_waits;  /* redo_reserve calls that waited for a checkpoint */
    uint64_t limit_waits;  /* and those that waited for redo_set_limit */
    uint64_t checkpoints;
};

/** Tell the counters, each whole though not all of the same instant. Any thread. */
void redo_counters(struct redo *redo, struct redo_counters *counters);

/** @return the size of each file and their number, as they are. */
uint64_t redo_file_size_bytes(const struct redo *redo);
uint32_t redo_file_count(const struct redo *redo);

#endif
