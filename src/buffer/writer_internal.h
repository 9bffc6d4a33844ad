/*
 * writer_internal.h -- the half of the pool that makes dirty pages clean: what its files share.
 *
 *   flush_list.c   which pages are dirty, since which LSN; what a checkpoint may say
 *   batch.c        one batch: copy, log, doublewrite, in place, sync
 *   writer.c       who writes what: runs, flushing to an LSN or a tablespace
 *   pace.c         how much the cleaner writes
 *   cleaner.c      the cleaner: rounds, its thread, those who wait for it
 *   doublewrite.c  the doublewrite file
 *
 * README.md argues why a checkpoint never passes a page that is not durable.
 */
#ifndef FIRN_BUFFER_WRITER_INTERNAL_H
#define FIRN_BUFFER_WRITER_INTERNAL_H

#include "buffer/buffer_internal.h"
#include "buffer/doublewrite_internal.h"
#include "buffer/pace_internal.h"

enum {
    WRITER_SYSTEMS_MAX = 16,
    WRITER_ERROR_BYTES = 512,
    BATCH_PAGES_MAX = DOUBLEWRITE_PAGES_MAX,
    BATCH_REQUESTS_MAX = DOUBLEWRITE_IMAGE_BYTES / WRITE_BLOCK_BYTES / 2, /* every other block */
};

/* ---- The flush list ---- */

/** Dirty frames by ascending oldest_lsn, linked by frame numbers. The mutex protects the list, the
 * frames' oldest_lsn and links, and nothing else is locked in it. */
struct flush_list {
    pthread_mutex_t mutex;
    uint32_t head; /* dirty for longest */
    uint32_t tail;
    _Atomic uint32_t count;
    struct pace_ages ages;
    uint64_t floor_lsn; /* of the batch that is being written: none of its pages is durable up to
                           here; UINT64_MAX while there is none */
};

/** Make it empty. @param capacity_bytes  of the log's ring */
void flush_list_init(struct flush_list *list, uint64_t capacity_bytes);

/** Free what it holds. */
void flush_list_free(struct flush_list *list);

/** A batch begins: until its end no checkpoint may pass what is dirty now. */
void flush_list_begin(struct buffer_pool *pool);

/** The batch has all its pages. @param oldest_lsn  the least of theirs */
void flush_list_settle(struct buffer_pool *pool, uint64_t oldest_lsn);

/** The batch has ended: its pages are durable or listed again. */
void flush_list_end(struct buffer_pool *pool);

/** Take a frame off: its copy is about to be made, under a shared latch. @return its oldest_lsn */
uint64_t flush_list_remove(struct buffer_pool *pool, struct buffer_frame *frame);

/** Put a frame back whose copy could not be written: its changes since oldest_lsn are not durable.
 */
void flush_list_put_back(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t oldest_lsn);

/**
 * Find the frames that are dirty for longest.
 *
 * @param below_lsn  only frames whose oldest_lsn is below it
 * @param tried      frames with this writer_word are passed over
 * @param frames     room for max; not pinned: they may be clean when the caller comes to them
 * @return how many
 */
unsigned flush_list_oldest(struct buffer_pool *pool, uint64_t below_lsn, uint64_t tried,
                           struct buffer_frame **frames, unsigned max);

/** Tell how old the dirty pages are. */
void flush_list_ages(struct buffer_pool *pool, struct pace_ages *ages);

/* ---- Batches ---- */

struct batch_page {
    struct buffer_frame *frame;
    uint64_t page_id;
    uint64_t oldest_lsn;
    struct io_file *file;
    uint64_t offset;
    uint32_t sectors; /* a map of those that differ from what lies in its place */
    bool is_cold;     /* pinned until the end, from buffer_take_cold */
    bool is_held;
    bool is_atomic; /* the device writes it whole or not at all */
    bool is_twice;  /* through the doublewrite file */
    bool failed;
};

/** A page that may be torn in its place, because writing it there failed: its image in the
 * doublewrite file must stay until a later batch has an image of it, too. */
struct batch_hold {
    struct buffer_frame *frame;
    uint64_t page_id;
};

/** Pages on their way to their places; owned by who holds the writer's mutex. */
struct batch {
    uint8_t *memory; /* the images */
    unsigned count;
    uint64_t newest_lsn; /* the log must be durable up to here first */
    unsigned area;       /* of the doublewrite file, where the next batch goes */
    unsigned held;       /* pages of the batch before */
    struct batch_hold holds[BATCH_PAGES_MAX];
    struct batch_page pages[BATCH_PAGES_MAX];
    struct doublewrite_image images[BATCH_PAGES_MAX];
    unsigned request_count;
    struct io_request requests[BATCH_REQUESTS_MAX];
    struct io_request *pointers[BATCH_REQUESTS_MAX];
};

/* ---- The writer ---- */

/** The first failure of a run, with its sentence, which later ones may not overwrite. */
struct writer_error {
    firn_rc rc;
    char text[WRITER_ERROR_BYTES];
};

/** The cleaner's thread and those who wait for it. */
struct cleaner {
    bool has_thread;
    pthread_t thread;
    struct clock *clock;
    pthread_mutex_t mutex; /* protects what follows; taken last */
    pthread_cond_t wake;   /* of the thread */
    pthread_cond_t done;   /* of those who wait */
    bool is_asked;
    bool is_urged; /* by who waits for room in the log */
    bool is_stopping;
    unsigned waiting;
    uint64_t begun; /* rounds */
    uint64_t ended;
    struct writer_error last; /* how the last one ended */
    _Atomic bool is_asleep;   /* looked at by buffer_writer_wake without the mutex */
};

struct buffer_writer {
    struct buffer_pool *pool;
    struct flush_list dirty;
    struct cleaner cleaner;
    _Atomic uint32_t free_target; /* frames that the cleaner keeps free */

    /* Held by the one thread that writes; taken before any other lock of the pool and never while
       waiting for a latch. Protects all below. */
    pthread_mutex_t mutex;
    struct doublewrite *doublewrite; /* NULL: not in use */
    struct batch batch;
    uint64_t runs;               /* numbers them */
    struct writer_error stopped; /* a sync failed: nothing is written any more */
    struct pace pace;
    unsigned batch_pages;     /* as many as do not take long */
    uint32_t last_entered;    /* pages that had come into the pool by the last round ... */
    uint64_t last_entered_ns; /* ... and when that was */
    uint64_t last_wrote_ns;   /* when the log last had pages written */

    _Atomic uint64_t pages_written;
    _Atomic uint64_t batches;
    _Atomic uint64_t doublewrite_pages;
    _Atomic uint64_t doublewrite_batches;
    _Atomic uint32_t writing;  /* pages in the batch */
    _Atomic bool writes_twice; /* did the last batch, or part of it, that had to? */
};

/** A stretch of writing by one thread, which holds the writer's mutex for it. */
struct writer_run {
    struct buffer_writer *writer;
    struct io_queue **queues; /* one a device, opened as needed: the thread's or its own */
    struct io_queue *own_queues[WRITER_SYSTEMS_MAX];
    uint64_t number; /* writer_word of frames that failed in it */
    struct writer_error error;
    unsigned written; /* pages */
};

/** Keep a result, with the thread's error text if it is a failure. */
void writer_keep_error(struct writer_error *error, firn_rc rc);

/** Keep a failure, with the thread's error text, unless the run has one already; FIRN_OK is none.
 */
void writer_note_error(struct writer_run *run, firn_rc rc);

/** A sync has failed, as the thread's error text says: nothing is written any more. */
void writer_stop(struct writer_run *run, firn_rc rc);

/**
 * Write frames: those that are dirty, not latched and not being written, as many as a batch takes.
 *
 * @param frames   pinned; the pins are consumed
 * @param count    at most BATCH_PAGES_MAX
 * @param are_cold from buffer_take_cold: they go back with buffer_return_cold
 * @return how many were written. Failures are in run->error; their pages are dirty as before.
 */
unsigned batch_write(struct writer_run *run, struct buffer_frame **frames, unsigned count,
                     bool are_cold);

/**
 * Begin a run: wait for the writer's mutex.
 *
 * @param queues  the calling thread's, kept from run to run; NULL: the run opens and closes its own
 * @return FIRN_OK; FIRN_E_STOPPED, raised, after a sync has failed: then there is nothing to end
 */
firn_rc writer_run_begin(struct writer_run *run, struct buffer_writer *writer,
                         struct io_queue **queues);

/** End it. @return its first failure, raised, or FIRN_OK */
firn_rc writer_run_end(struct writer_run *run);

/** Let others write and change for a moment: what is to be written is latched. @return false when
 * writing has been stopped meanwhile */
bool writer_run_pause(struct writer_run *run);

/** Write up to max of the frames that are dirty since before an LSN and did not fail in this run.
 * @return how many were found; *written how many of them were written */
unsigned writer_write_oldest(struct writer_run *run, uint64_t below_lsn, unsigned max,
                             unsigned *written);

/** Make free frames, writing cold pages if need be. @return free frames */
uint32_t writer_make_free(struct writer_run *run, uint32_t want_free);

/** Take a checkpoint if it gains at least so many bytes of log. @return whether one was taken */
bool writer_checkpoint(struct writer_run *run, uint64_t gain_bytes);

/** Close queues kept from run to run. */
void writer_close_queues(struct io_queue **queues);

/* ---- The cleaner ---- */

/** Prepare it, without a thread. */
void cleaner_init(struct buffer_writer *writer);

/** Start its thread if the options ask for one. @return FIRN_OK; FIRN_E_NOMEM, ... when there can
 * be none */
firn_rc cleaner_start(struct buffer_writer *writer);

/** Stop the thread, if there is one, and free what the cleaner holds. */
void cleaner_free(struct buffer_writer *writer);

/** What whoever writes does between two batches: free frames, and for a pool with a thread, whose
 * work waits meanwhile, checkpoints and how far the log may grow. */
void cleaner_between(struct writer_run *run);

/** A batch of so many pages took so long: what later ones are measured by. */
void cleaner_measured(struct buffer_writer *writer, unsigned pages, uint64_t took_ns);

/** There are free frames, or there is room in the log: tell those who wait for it. */
void cleaner_tell(struct buffer_writer *writer);

/** @return how many pages a batch may have now: fewer than a small pool can spare, and than a slow
 * device takes long for. */
unsigned batch_pages_max(const struct buffer_pool *pool);

#endif
