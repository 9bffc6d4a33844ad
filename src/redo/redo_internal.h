/*
 * redo_internal.h -- what the files of this folder share: the log in memory, its layout on disk,
 * and who may touch what. README.md argues for all of it.
 */
#ifndef FIRN_REDO_REDO_INTERNAL_H
#define FIRN_REDO_REDO_INTERNAL_H

#include "redo/format_internal.h"
#include "redo/redo.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

enum {
    REDO_FILES_MAX = 100,
    REDO_PATH_BYTES = 4096,
    REDO_STAGE_BYTES = 256 << 10, /* flushes up to this are copied and written as one request */
    REDO_COUNTERS = 16,           /* room promised to small mini-transactions is counted here */
    REDO_GROUPS = 4,              /* at most two are alive: the one in flight, the one gathering */
    REDO_FAILURE_BYTES = 512,
    /* Frames that say "the log goes on here after a recovery" need room in a full ring, too. */
    REDO_SPARE_BYTES = 64 << 10,
};

struct redo_path {
    char text[REDO_PATH_BYTES];
};

/** Is somebody the writer, and for how long? */
enum redo_writer {
    REDO_WRITER_NONE,
    REDO_WRITER_SLOW,  /* waits for a device */
    REDO_WRITER_QUICK, /* copies to the page cache */
};

/** Who waits for a group of commits sleeps on its word. */
struct redo_group {
    alignas(64) _Atomic uint32_t word; /* changes when something happened */
    _Atomic uint32_t waiters;
    _Atomic uint32_t wants_sync; /* somebody in it asked for more than a write */
};

/** What is known of when commits come, to decide whether to wait for some. */
struct redo_company {
    uint32_t closed_arrivals; /* arrivals when the last group was closed ... */
    uint32_t left_arrivals;   /* ... and when it was let go, durable */
    uint32_t group_size;      /* of that group */
    uint32_t skips;           /* groups that are not to wait ... */
    uint32_t penalty;         /* ... and how many, the next time that nobody comes */
    uint64_t sync_ns;         /* how long writing and syncing takes, a running mean */
};

/** One of the counters that appenders spread over, so that they do not share a cache line. */
struct redo_counter {
    alignas(64) _Atomic uint64_t promised_bytes;
    _Atomic uint64_t commits;
    _Atomic uint64_t buffer_waits;
    _Atomic uint64_t space_waits;
    _Atomic uint64_t limit_waits;
};

struct redo {
    /* ---- Set at open, then only read ---- */
    struct redo_options options;
    struct redo_layout layout;
    char *directory; /* options.directory points here */
    struct io_file *files[REDO_FILES_MAX];
    struct clock *clock;
    uint8_t *buffer; /* the ring: byte of an LSN at LSN modulo its size */
    uint64_t buffer_size_bytes;
    uint8_t *stage; /* whole blocks on their way to a file; the writer's */
    redo_urge *urge;
    void *urge_context;
    redo_at_limit *at_limit;
    void *at_limit_context;

    /* ---- Set by redo_recovered, then only read ---- */
    uint64_t epoch;        /* that frames are sealed with */
    uint64_t sealed_epoch; /* that the first frame of this life, which tells of the epoch, is sealed
                              with */
    uint64_t start_lsn;    /* where that frame begins ... */
    uint64_t run_lsn;      /* ... and ends: the first LSN of this life that pages can have */

    /* ---- Written by every append ---- */
    alignas(64) _Atomic uint64_t reserved_lsn; /* UINT64_MAX until recovered */

    /* ---- Written by the writer, read by everybody ---- */
    alignas(64) _Atomic uint64_t kept_lsn; /* the ring holds [kept, kept + size); the block that
                                              written_lsn lies in begins here */
    _Atomic uint64_t written_lsn;
    _Atomic uint64_t durable_lsn;
    _Atomic uint64_t checkpoint_lsn; /* where recovery would begin */
    _Atomic uint64_t free_lsn;       /* the ring may be overwritten up to here: the last checkpoint
                                        of which both copies are durable */
    _Atomic uint64_t limit_lsn;      /* redo_set_limit: where the tail might come to ... */
    _Atomic uint64_t limit_set_ns;   /* ... at that time ... */
    _Atomic uint64_t limit_bytes_s;  /* ... and how much farther since */
    _Atomic bool limit_is_told;
    _Atomic uint64_t large_promised_bytes; /* room promised and not counted in `counters` */
    _Atomic bool failed;

    /* ---- Who waits and who writes ---- */
    alignas(64) _Atomic uint32_t writer; /* enum redo_writer */
    _Atomic uint32_t enterers;  /* threads that want to be it for other work than a group's */
    struct redo_group enter;    /* where these wait */
    _Atomic uint32_t gathering; /* number of the group that those who come now belong to */
    alignas(64) _Atomic uint32_t arrivals; /* commits that came to wait or to write, so far */
    struct redo_group groups[REDO_GROUPS];
    pthread_mutex_t limit_mutex; /* those who came to the limit go on one by one */
    struct redo_counter counters[REDO_COUNTERS];

    /* ---- The writer's ---- */
    alignas(64) uint64_t published_lsn; /* all frames below are in the ring, whole */
    uint64_t cached_block_lsn; /* where the block begins that the page cache has whole; 0: none */
    struct redo_checkpoint checkpoint; /* as last written */
    bool file_dirty[REDO_FILES_MAX];   /* written to since its last sync */
    struct redo_company company;
    _Atomic uint64_t frames; /* counters, written by the writer only */
    _Atomic uint64_t writes;
    _Atomic uint64_t written_bytes;
    _Atomic uint64_t syncs;
    _Atomic uint64_t checkpoints;

    /* ---- Before redo_recovered: what a reader found ---- */
    _Atomic uint64_t repeated_lsn; /* redo_repeated; UINT64_MAX until then */
    bool in_place[REDO_FILES_MAX]; /* the file has its name; else it is one that a replacement that
                                      was cut short left as ".new" */
    bool end_is_known;
    uint64_t end_lsn;           /* where the log ends */
    uint64_t last_body_end;     /* where the last frame that a reader returned ends */
    uint64_t end_epoch;         /* in force there */
    bool checkpoint_is_twofold; /* both copies are whole and the same */
    unsigned checkpoint_copy;   /* the one that was taken */

    pthread_mutex_t mutex; /* protects holds and the flush thread's end; a leaf */
    struct redo_hold *holds;
    char failure[REDO_FAILURE_BYTES]; /* written before `failed` is set */
    pthread_t thread;
    bool has_thread;
    bool thread_stops;
    pthread_cond_t thread_wakes;
};

/* ---- files.c ---- */

/** @return FIRN_E_INVALID, raised, if an option is out of its range. */
firn_rc redo_check_options(const struct redo_options *options);

/** Name a file of the log: number, and ".new" while it is being made. FIRN_E_INVALID if the
 * directory's name is too long. */
firn_rc redo_file_path(const char *directory, uint32_t number, bool is_new, struct redo_path *path);

/** Open a file of the log as the options say; a device that wants more than a block's alignment
 * gets no direct I/O. */
firn_rc redo_file_open(const struct redo_options *options, const char *path, unsigned flags,
                       struct io_file **file);

/** Make all files of a log beside those in use, and make them and their names durable. Removes them
 * again if that fails. */
firn_rc redo_files_make(const struct redo_options *options, const struct redo_layout *layout,
                        const struct redo_checkpoint *checkpoint);

/** @return FIRN_E_EXISTS, raised, if there is a log. */
firn_rc redo_check_absent(const struct redo_options *options);

/** Put the files made into place: with the first one the new log has replaced the old one. */
firn_rc redo_files_install(const struct redo_options *options, const struct redo_layout *layout);

/** Finish what an install that was cut short left: to be called once the first file is in place. */
firn_rc redo_files_settle(const struct redo_options *options, const struct redo_layout *layout);

/** The same for files that redo_files_open has opened under the names that they were made with;
 * they are opened again under their own. Then sweep. */
firn_rc redo_files_finish(struct redo *redo);

/** Remove what an install that was cut short, or never begun, left beside the log. */
firn_rc redo_files_sweep(const struct redo_options *options, const struct redo_layout *layout);

/** Read and judge the header of a log's file. FIRN_E_CORRUPT and FIRN_E_UNSUPPORTED are raised. */
firn_rc redo_file_header(const struct redo_options *options, struct io_file *file,
                         struct redo_file_header *header);

/** Is the log's file of a number still under the name that a replacement, cut short, made it with?
 */
firn_rc redo_file_is_left(const struct redo_options *options, uint32_t number,
                          const struct redo_layout *layout, bool *left);

/** Judge whether a file with such a header is the log's file of a number, of the right size.
 * FIRN_E_CORRUPT, raised */
firn_rc redo_file_judge(struct io_file *file, uint32_t number,
                        const struct redo_file_header *header, const struct redo_layout *layout);

/** Open all files of a log and judge their headers; nothing is changed. What a replacement that was
 * cut short left under another name is opened there. On failure those opened are closed. */
firn_rc redo_files_open(struct redo *redo);

/** Close the files that are open. @return the first failure */
firn_rc redo_files_close(struct io_file *files[REDO_FILES_MAX]);

/** @return how large the log buffer is, options allowing for less: progress needs room for the
 * largest frame beside the block that is being filled. */
static inline uint64_t redo_buffer_bytes(uint64_t option_bytes)
{
    uint64_t least_bytes = 2 * (uint64_t)REDO_FRAME_BODY_MAX;
    return option_bytes < least_bytes ? least_bytes : option_bytes;
}

/** @return how far the stream is reserved beyond what is durable, at most: a buffer not yet
 * written, and two that were written before the writer syncs although nobody asked it to. */
static inline uint64_t redo_in_flight_bytes(uint64_t buffer_option_bytes)
{
    return 3 * redo_buffer_bytes(buffer_option_bytes);
}

/* ---- append.c ---- */

/** Append a frame sealed with an epoch; `control` marks one that is not a mini-transaction's. */
firn_rc redo_append_frame(struct redo *redo, struct span body, bool is_control, uint64_t epoch,
                          uint64_t *end_lsn);

/** Find out how far frames are in the ring without a gap. By the writer. */
void redo_advance_published(struct redo *redo);

/* ---- writer.c ---- */

/** What is waited for. */
enum redo_goal {
    REDO_GOAL_WRITTEN, /* given to the kernel */
    REDO_GOAL_DURABLE,
    REDO_GOAL_KEPT, /* the ring has let go of what is below the block with the LSN */
};

/** Bring the log to where the goal says, as the writer or behind one. FIRN_E_STOPPED */
firn_rc redo_await(struct redo *redo, enum redo_goal goal, uint64_t lsn);

/** Become the writer, behind whoever is it; give it back with redo_writer_leave. Only the writer
 * writes to the files and syncs them, so a file has one sync under way at a time. */
void redo_writer_enter(struct redo *redo);
bool redo_writer_try_enter(struct redo *redo, enum redo_writer as);
void redo_writer_leave(struct redo *redo);

/** Write what is published, and make it durable if that is wanted; by the writer. */
firn_rc redo_carry_out(struct redo *redo, bool wants_sync);

/** Sync one file; by the writer. The first file's takes the checkpoint's second copy along. */
firn_rc redo_sync_file(struct redo *redo, uint32_t number);

/** Sync one file and conclude nothing from it; by the writer. */
firn_rc redo_sync_bytes(struct redo *redo, uint32_t number);

/** The log has failed, as the thread's error text says: no commit succeeds any more. By the writer.
 */
void redo_fail(struct redo *redo);

/** @return FIRN_E_STOPPED, raised with the sentence of the first failure. */
firn_rc redo_raise_failure(struct redo *redo);

/** @return true once the log takes no more commits. */
static inline bool redo_has_failed(struct redo *redo)
{
    /* Pairs with the release in redo_fail: the sentence is there. */
    return atomic_load_explicit(&redo->failed, memory_order_acquire);
}

/* ---- company.c ---- */

/** Wait a moment for commits that are about to come, when that promises more of them a second. By
 * the writer, before it closes its group. */
void redo_gather_company(struct redo *redo);

/** Note that a group is durable, how many had arrived when it was closed, and how long it took. By
 * the writer. */
void redo_company_left(struct redo *redo, uint32_t closed_arrivals, uint64_t sync_ns);

/* ---- checkpoint.c ---- */

/** Read the checkpoint: of two copies the newer one that is whole. */
firn_rc redo_checkpoint_read(struct redo *redo);

/** Write both copies of a checkpoint, the first one durably. By the writer. */
firn_rc redo_checkpoint_write(struct redo *redo, uint64_t lsn);

/** Make the two copies the same again after a crash between them. By the writer. */
firn_rc redo_checkpoint_repair(struct redo *redo);

/* ---- redo.c ---- */

/** @return the counter that the calling thread uses. */
uint32_t redo_counter_number(void);

/** Count something that any thread counts. */
static inline void redo_count(_Atomic uint64_t *counter, uint64_t added)
{
    atomic_fetch_add_explicit(counter, added, memory_order_relaxed);
}

/** Count something that one thread at a time counts. */
static inline void redo_count_alone(_Atomic uint64_t *counter, uint64_t added)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + added,
                          memory_order_relaxed);
}

#endif
