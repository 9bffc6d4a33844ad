/*
 * buffer.h -- the buffer pool: pages in frames, latches on them, and the ways they come and go.
 *
 * A frame is page memory plus a 64-byte descriptor. Whoever uses a page holds it in one of these
 * ways:
 *
 *   view       optimistic: no shared write. Look, copy out, then ask whether the page stood still.
 *   pin        the frame keeps its page; bytes may change.
 *   shared     pinned, and nobody changes the bytes.
 *   exclusive  pinned, and nobody else reads or changes the bytes.
 *
 * Writing a page out copies it under a shared latch, so readers and writers wait for a copy, never
 * for a device. Frames are kept free ahead of demand by the cleaner.
 *
 * Lock order: page latches as the B+tree orders them; below them all the pool's own locks, which no
 * caller sees. Fixing a page may read it from its device: a caller that holds exclusive latches
 * pins what it needs first.
 */
#ifndef FIRN_BUFFER_BUFFER_H
#define FIRN_BUFFER_BUFFER_H

#include "io/io.h"
#include "page/page.h"
#include "redo/redo.h"

#include <stdatomic.h>

struct buffer_pool;
struct buffer_frame; /* the descriptor */

/** Where pages live: given by src/space, asked by the pool. Any thread; a file stays open while
 * its space's pages are in the pool. Must not wait for a lock that anybody holds while calling the
 * pool: the writer asks in the middle of its work, and others wait for that. */
struct buffer_files {
    void *context;
    /** Tell the file and offset of a page. @return FIRN_OK; FIRN_E_NOT_FOUND, raised, when there is
     * no such tablespace or the page lies behind its end */
    firn_rc (*locate)(void *context, uint64_t page_id, struct io_file **file, uint64_t *offset);
};

enum buffer_doublewrite {
    BUFFER_DOUBLEWRITE_ON,
    BUFFER_DOUBLEWRITE_OFF,
    BUFFER_DOUBLEWRITE_DETECT, /* off for tablespaces whose device writes pages atomically */
};

struct buffer_options {
    uint64_t size_bytes;     /* buffer_pool_size: frames, descriptors and page map together */
    uint64_t size_max_bytes; /* how far buffer_resize may grow it; address space only; less than
                                size_bytes: as much */
    uint32_t page_size_bytes;
    struct redo
        *redo; /* a page is written only when its log is durable; NULL: pages are only read */
    struct buffer_files files;
    struct io_system *const *systems; /* the devices that tablespaces lie on, for write queues */
    unsigned system_count;
    enum buffer_doublewrite doublewrite;
    struct io_system *doublewrite_system;
    const char *doublewrite_directory;
    bool doublewrite_direct; /* past the page cache */
    uint8_t environment[16];
    bool cleaner_thread;        /* and threads for read-ahead; otherwise callers clean when frames
                                   run out, and read ahead themselves */
    unsigned io_capacity;       /* pages a second that the cleaner writes when nothing presses */
    unsigned io_capacity_max;   /* and when the log does */
    unsigned dirty_percent_max; /* max_dirty_pages_pct */
    unsigned old_percent; /* old_blocks_pct: the share of the pool that new pages live in; 5 to
                             95; 0: 37 */
    unsigned queue_depth; /* of each queue for reading ahead or writing; 0: 64 */
    bool huge_pages;      /* ask for them */
    bool skip_data_sync;  /* a canary for tests: data files are not synced */
};

/**
 * Make a pool. Memory is reserved for size_max_bytes and used for size_bytes.
 *
 * @param pool  set on success; give it back with buffer_close
 * @return FIRN_OK, FIRN_E_INVALID, FIRN_E_NOMEM, and what opening the doublewrite file returns
 */
firn_rc buffer_open(const struct buffer_options *options, struct buffer_pool **pool);

/** Free the pool; dirty pages are dropped (flush before, with buffer_flush). Nobody uses it any
 * more. NULL is allowed. */
void buffer_close(struct buffer_pool *pool);

/** @return the size of the pool's pages, in bytes. */
uint32_t buffer_page_size(const struct buffer_pool *pool);

/* ---- Fixing pages ---- */

enum buffer_mode { BUFFER_PIN, BUFFER_SHARED, BUFFER_EXCLUSIVE };

enum buffer_hint {
    BUFFER_HINT_NORMAL,
    BUFFER_HINT_SCAN,       /* touched once by a scan: does not make the page young */
    BUFFER_HINT_READ_AHEAD, /* wanted later; enters old */
};

/**
 * Fix a page in a mode, reading it if it is not in the pool. Waits for others' latches and reads.
 *
 * @param frame  set on success; give it back with buffer_unfix in the same mode
 * @return FIRN_OK; FIRN_E_CORRUPT naming file and page when what was read is not that page whole;
 *         FIRN_E_NOT_FOUND (no such page); FIRN_E_BUSY (every frame is pinned: the pool is too
 *         small); FIRN_E_IO, FIRN_E_NOMEM
 */
firn_rc buffer_fix(struct buffer_pool *pool, uint64_t page_id, enum buffer_mode mode,
                   enum buffer_hint hint, struct buffer_frame **frame);

/** buffer_fix that fails with FIRN_E_BUSY, without an error text, instead of waiting for a latch.
 * It does wait for reading. */
firn_rc buffer_try_fix(struct buffer_pool *pool, uint64_t page_id, enum buffer_mode mode,
                       enum buffer_hint hint, struct buffer_frame **frame);

/**
 * Fix a page whose bytes on the device do not matter, exclusively: it is about to be initialised by
 * a mini-transaction. It may be in the pool from an earlier life. Nothing is read.
 */
firn_rc buffer_fix_new(struct buffer_pool *pool, uint64_t page_id, struct buffer_frame **frame);

/** Give back a page that was fixed in this mode. */
void buffer_unfix(struct buffer_pool *pool, struct buffer_frame *frame, enum buffer_mode mode);

/** Latch a frame that is pinned, keeping the pin: to be undone by buffer_unlatch. BUFFER_SHARED or
 * BUFFER_EXCLUSIVE. try_latch returns false instead of waiting. */
void buffer_latch(struct buffer_pool *pool, struct buffer_frame *frame, enum buffer_mode mode);
bool buffer_try_latch(struct buffer_pool *pool, struct buffer_frame *frame, enum buffer_mode mode);
void buffer_unlatch(struct buffer_pool *pool, struct buffer_frame *frame, enum buffer_mode mode);

/** @return the page's bytes; to be changed only when latched exclusively. */
uint8_t *buffer_page(const struct buffer_pool *pool, const struct buffer_frame *frame);

/** @return the id of the page in a frame that is fixed. */
uint64_t buffer_page_id(const struct buffer_frame *frame);

/** Start reading pages that will be wanted, without waiting: they enter old, unpinned. Pages that
 * are there already, that fail or for which there is no frame at hand are skipped, and so is what
 * goes beyond a quarter of the pool. @return how many reads were started. Reads are submitted in
 * batches; adjacent pages in one request. A pool without background threads reads at once. */
unsigned buffer_prefetch(struct buffer_pool *pool, const uint64_t *page_ids, unsigned count);

/* ---- Optimistic views ---- */

/** A look at a page without a latch. Under ThreadSanitizer it holds a shared latch instead, so that
 * races elsewhere show. */
struct buffer_view {
    struct buffer_frame *frame;
    const uint8_t *page;
    uint64_t version;
    uint64_t page_id;
};

/**
 * Look at a page if it is in the pool.
 *
 * @param hint_frame  where it was last time, or NULL: saves the page map's probe
 * @param view        set when true is returned; close it
 * @return false if the page is not in the pool or is latched exclusively for long: fix it then
 */
bool buffer_view_open(struct buffer_pool *pool, uint64_t page_id, struct buffer_frame *hint_frame,
                      struct buffer_view *view);

/** Has the page stood still since the view was opened? Only then may anything read through it be
 * believed. The view stays open. */
bool buffer_view_valid(struct buffer_pool *pool, const struct buffer_view *view);

/** End a view. */
void buffer_view_close(struct buffer_pool *pool, struct buffer_view *view);

/** End a view by turning it into an exclusive fix (buffer_unfix later), if the page has stood still
 * and nobody has it latched. @return false, view still open, if not */
bool buffer_view_upgrade(struct buffer_pool *pool, struct buffer_view *view);

/* ---- Changing pages: called by src/mtr alone ---- */

/**
 * A page, latched exclusively, is about to be changed: called before its first byte is, and as
 * often as one likes. What lies in its place is remembered, so that only what differs need be
 * written. Who forgets it has the page written whole; who calls it too late, when bytes have
 * changed that are not in the file, would lose them, and is found out by an assertion.
 */
void buffer_begin_change(struct buffer_pool *pool, struct buffer_frame *frame);

/** The same for a change whose record sets the whole page: recovery begins the page anew there,
 * whatever lies in its place, so it needs no second copy when it is written (README.md). */
void buffer_begin_page(struct buffer_pool *pool, struct buffer_frame *frame);

/**
 * Note that a frame, latched exclusively, is about to hold changes of a frame of log that has not
 * been appended yet. To be called before redo_append reserves its place: the reserved LSN read here
 * bounds it from below, which keeps the checkpoint behind it. The page's version changes with the
 * latch's end.
 *
 * @param oldest_lsn  0; recovery, whose changes are in the log already, gives the checkpoint that
 * it began at instead
 */
void buffer_mark_dirty(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t oldest_lsn);

/* ---- Writing ---- */

/** @return the LSN that a checkpoint may have: everything below it is durable in the tablespaces.
 */
uint64_t buffer_clean_lsn(struct buffer_pool *pool);

/**
 * Write dirty pages until buffer_clean_lsn is at least target_lsn (UINT64_MAX: all that are dirty
 * now), and sync their files.
 *
 * @return FIRN_OK; the first failure. A failed write leaves the page dirty; a failed sync is final:
 *         from then on nothing is written and no checkpoint is taken.
 */
firn_rc buffer_flush(struct buffer_pool *pool, uint64_t target_lsn);

/** Write the dirty pages of one tablespace and sync it. */
firn_rc buffer_flush_space(struct buffer_pool *pool, uint32_t space);

/** Forget pages [first_page, to the end) of a tablespace without writing them: it is dropped or
 * truncated. Waits for reads and writes of them that are under way. Nobody fixes them any more. */
void buffer_discard(struct buffer_pool *pool, uint32_t space, uint32_t first_page);

/** Have a round of cleaning done now, by the cleaner's thread or, without one, in this: make free
 * frames, write the pages that are dirty for longest, take a checkpoint. For the redo log's urge,
 * and for pools without a thread from time to time. @return the round's first failure */
firn_rc buffer_clean(struct buffer_pool *pool);

/** Change buffer_pool_size while the pool is used. @return FIRN_E_INVALID beyond size_max_bytes,
 * FIRN_E_BUSY when pinned pages stand in the way after a while, FIRN_E_NOMEM */
firn_rc buffer_resize(struct buffer_pool *pool, uint64_t size_bytes);

/* ---- Warm restart ---- */

/**
 * Write the ids of the pages in the pool to a file, the most wanted first, in the place of an older
 * one.
 *
 * @param percent  of the pages, the most wanted; 0 to 100
 * @return FIRN_OK; FIRN_E_NOMEM, FIRN_E_NOSPACE, FIRN_E_IO, ...: an older file is as it was
 */
firn_rc buffer_dump_ids(struct buffer_pool *pool, struct io_system *system, const char *path,
                        unsigned percent);

/**
 * Read the pages that a dump names, as many as there are free frames for, in file order. That there
 * is no dump is no failure; one that is damaged, or a page that cannot be read, is passed over, the
 * dump with a note.
 *
 * @param stop  looked at between batches: true ends it
 * @return FIRN_OK; FIRN_E_NOMEM
 */
firn_rc buffer_load_ids(struct buffer_pool *pool, struct io_system *system, const char *path,
                        const atomic_bool *stop);

/* ---- Doublewrite, before the pool is used ---- */

/**
 * Put back pages that the last batch of the doublewrite file tells were being written when the
 * power went: those that are not whole in their place. Called by recovery before any page is read.
 *
 * @param repaired  pages written back, and synced
 * @return FIRN_OK; FIRN_E_CORRUPT (the file is of another environment), FIRN_E_UNSUPPORTED, ...
 */
firn_rc buffer_doublewrite_repair(struct buffer_pool *pool, unsigned *repaired);

/**
 * The same without a pool, on the files that options->files tells of: a check gives copies of
 * pages, to learn which of them would be put back. The doublewrite file is only read, and judged.
 *
 * @param options         what is about the doublewrite file, the page size, environment and files
 * @param checkpoint_lsn  that recovery would begin at
 */
firn_rc buffer_doublewrite_mend(const struct buffer_options *options, uint64_t checkpoint_lsn,
                                unsigned *repaired);

/* ---- Counters ---- */

struct buffer_counters {
    uint64_t size_bytes;
    uint64_t pages_total; /* frames */
    uint64_t pages_free;
    uint64_t pages_data;
    uint64_t pages_dirty;
    uint64_t pages_old;  /* of pages_data */
    uint64_t fixes;      /* requests for pages, views included as far as they are counted */
    uint64_t misses;     /* of them those that had to read */
    uint64_t pages_read; /* read ahead included */
    uint64_t pages_read_ahead;
    uint64_t read_ahead_evicted; /* never touched */
    uint64_t pages_written;
    uint64_t pages_made_young;
    uint64_t pages_not_made_young;
    uint64_t pages_evicted;
    uint64_t free_waits; /* a caller found no free frame and had to clean one itself */
    uint64_t doublewrite_pages;
    uint64_t doublewrite_batches;
    uint64_t flush_batches;
    uint64_t clean_lsn;
    bool doublewrite; /* in use: no device's atomic writes have taken its place */
};

/** Fill in the counters, those of all threads summed up. Any thread; not a moment's picture. */
void buffer_counters(struct buffer_pool *pool, struct buffer_counters *counters);

#endif
