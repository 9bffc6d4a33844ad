/*
 * buffer_internal.h -- what the halves of src/buffer know of each other.
 *
 * The pool (pool.c, latch.c, map.c, fix.c, view.c, replace.c, prefetch.c, resize.c, discard.c) owns
 * frames, latches, the page map and replacement. The writer (flush list, cleaner, doublewrite, warm
 * restart) owns what makes dirty pages clean. The seam between them is the last section here.
 */
#ifndef FIRN_BUFFER_BUFFER_INTERNAL_H
#define FIRN_BUFFER_BUFFER_INTERNAL_H

#include "buffer/buffer.h"

#include "base/check.h"
#include "base/hash.h"

#include <pthread.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define BUFFER_VIEWS_LATCH 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BUFFER_VIEWS_LATCH 1
#endif
#endif
#ifndef BUFFER_VIEWS_LATCH
#define BUFFER_VIEWS_LATCH 0 /* 1: views hold a shared latch, so that ThreadSanitizer can judge */
#endif

/* ---- The state word ----
 *
 * One atomic word of 64 bits in each descriptor; from the low end:
 *
 *   pins       14  who keeps the frame from changing its page. Each latch comes with a pin.
 *   shared     12  holders of a shared latch
 *   usage       2  how often it was touched lately, saturating; see replace.c
 *   EXCLUSIVE   1  somebody may be changing the bytes, or reading them from the device
 *   PRESENT     1  the frame holds the page that page_id names, and the page map says so
 *   READING     1  the bytes are on their way from the device; EXCLUSIVE is set, too
 *   WRITING     1  a copy of the bytes is on its way to the device: the frame must not be reused
 *   DIRTY       1  the bytes are newer than any copy made for writing
 *   WAITERS     1  somebody sleeps on `wake`: latch.c
 *   WANTED      1  writers are among them: no new shared latches until one had its turn
 *   version    29  changes with every change of bytes or page
 *
 * All changes are atomic read-modify-writes. What protects what:
 *
 * - page_id changes only while PRESENT is unset and by the frame's only owner. PRESENT is set, and
 *   unset, under the lock of the page's map partition, together with the map's entry; it is unset
 *   only when nobody has a pin, or by the reader of a page that could not be read, whose waiters
 *   still have theirs. So who pins by compare-and-swap of a state word in which PRESENT was set,
 * and read the right page_id between loading that word and swapping it, has the right page: had the
 *   frame changed its page, its version would have changed with it.
 * - The page's bytes are changed only by the holder of EXCLUSIVE and read by holders of shared
 *   latches, or optimistically by views, which compare version, EXCLUSIVE and PRESENT afterwards.
 * - DIRTY is set by the holder of EXCLUSIVE and turned into WRITING by the writer under a shared
 *   latch. A frame with either bit is not reused.
 * - Everything a zeroed word says is true of a frame without a page: memory fresh from the kernel,
 *   or given back to it by a shrinking resize, is a frame that nobody can use.
 */
enum {
    BUFFER_PIN_BITS = 14,
    BUFFER_SHARED_BITS = 12,
    BUFFER_USAGE_BITS = 2,
    BUFFER_FLAG_BITS = 7,
    BUFFER_VERSION_BITS = 29,

    BUFFER_SHARED_SHIFT = BUFFER_PIN_BITS,
    BUFFER_USAGE_SHIFT = BUFFER_SHARED_SHIFT + BUFFER_SHARED_BITS,
    BUFFER_FLAG_SHIFT = BUFFER_USAGE_SHIFT + BUFFER_USAGE_BITS,
    BUFFER_VERSION_SHIFT = BUFFER_FLAG_SHIFT + BUFFER_FLAG_BITS,
};
_Static_assert(BUFFER_PIN_BITS + BUFFER_SHARED_BITS + BUFFER_USAGE_BITS + BUFFER_FLAG_BITS +
                       BUFFER_VERSION_BITS ==
                   64,
               "the fields fill the word");
_Static_assert(BUFFER_PIN_BITS >= BUFFER_SHARED_BITS, "each shared latch has a pin");

#define BUFFER_PIN_ONE      UINT64_C(1)
#define BUFFER_PIN_MASK     ((UINT64_C(1) << BUFFER_PIN_BITS) - 1)
#define BUFFER_SHARED_ONE   (UINT64_C(1) << BUFFER_SHARED_SHIFT)
#define BUFFER_SHARED_MASK  (((UINT64_C(1) << BUFFER_SHARED_BITS) - 1) << BUFFER_SHARED_SHIFT)
#define BUFFER_USAGE_ONE    (UINT64_C(1) << BUFFER_USAGE_SHIFT)
#define BUFFER_USAGE_MASK   (((UINT64_C(1) << BUFFER_USAGE_BITS) - 1) << BUFFER_USAGE_SHIFT)
#define BUFFER_IS_EXCLUSIVE (UINT64_C(1) << BUFFER_FLAG_SHIFT)
#define BUFFER_IS_PRESENT   (UINT64_C(2) << BUFFER_FLAG_SHIFT)
#define BUFFER_IS_READING   (UINT64_C(4) << BUFFER_FLAG_SHIFT)
#define BUFFER_IS_WRITING   (UINT64_C(8) << BUFFER_FLAG_SHIFT)
#define BUFFER_IS_DIRTY     (UINT64_C(16) << BUFFER_FLAG_SHIFT)
#define BUFFER_HAS_WAITERS  (UINT64_C(32) << BUFFER_FLAG_SHIFT)
#define BUFFER_IS_WANTED    (UINT64_C(64) << BUFFER_FLAG_SHIFT)
#define BUFFER_VERSION_ONE  (UINT64_C(1) << BUFFER_VERSION_SHIFT)
#define BUFFER_VERSION_MASK (~UINT64_C(0) << BUFFER_VERSION_SHIFT)

/* What a view compares. */
#define BUFFER_VIEW_MASK (BUFFER_VERSION_MASK | BUFFER_IS_EXCLUSIVE | BUFFER_IS_PRESENT)

/* ---- Descriptors ---- */

/** The lists of replace.c; each frame is in one, or owned by somebody (BUFFER_LIST_NONE). */
enum buffer_list_name {
    BUFFER_LIST_NONE, /* retired by a resize, or on its way from one list to another */
    BUFFER_LIST_FREE,
    BUFFER_LIST_OLD,
    BUFFER_LIST_YOUNG,
    BUFFER_LIST_COLD, /* dirty, and would have been evicted: the cleaner's to write first */
    BUFFER_LIST_COUNT,
};

#define BUFFER_NO_FRAME UINT32_MAX /* the end of a list */

/** What is known of the bytes in a page's place on its device: sectors.c. */
enum buffer_place {
    BUFFER_PLACE_UNKNOWN, /* nothing: the page is new, or a write of it failed */
    BUFFER_PLACE_AS_READ, /* they are those in the frame, which nobody has changed since it was read
                           */
    BUFFER_PLACE_HASHED,  /* the hashes of their sectors */
};

struct buffer_frame {
    _Atomic uint64_t state;
    _Atomic uint64_t page_id;   /* above: what protects it */
    _Atomic uint32_t wake;      /* what waiters sleep on; counts wake-ups */
    _Atomic uint32_t entered;   /* pool->entered when the page came in */
    uint32_t list_prev;         /* pool->lists_lock: frame numbers */
    uint32_t list_next;         /* ... */
    uint8_t list;               /* ...: enum buffer_list_name */
    uint8_t was_young;          /* ... */
    _Atomic uint8_t read_ahead; /* came in by read-ahead and was not touched since */
    uint8_t changed : 1;        /* the holder of EXCLUSIVE: the version changes at its end */
    uint8_t is_new : 1;         /* the holder of EXCLUSIVE: from buffer_fix_new, no page yet */
    uint8_t is_begun : 1;       /* the same: a record since the last copy sets the whole page; the
                                   writer, with a shared latch, takes it back */
    _Atomic uint8_t place;      /* enum buffer_place: what protects it tells sectors.c */
    _Atomic int8_t read_rc;     /* firn_rc that a reader failed with, for those who waited */
    _Atomic uint16_t writers_waiting; /* asleep, or about to be: latch.c */
    _Atomic uint64_t oldest_lsn; /* the writer's, as are these: no frame of log below it changed the
                                    page since a copy was made for writing; 0: none did */
    uint32_t flush_prev;         /* the writer's lock */
    uint32_t flush_next;
    uint64_t writer_word;
};
_Static_assert(sizeof(struct buffer_frame) == 64, "one descriptor, one cache line");

/* ---- The pool ---- */

enum {
    BUFFER_FRAMES_MIN = 16,
    BUFFER_EXTENT_BYTES = 2 << 20,
    BUFFER_COUNTER_SHARDS = 32,
};

struct buffer_list {
    uint32_t head; /* entered last */
    uint32_t tail; /* entered first */
    _Atomic uint32_t count;
};

/** Counted by whoever fixes, without sharing a cache line as a rule. */
struct buffer_shard {
    _Alignas(64) _Atomic uint64_t fixes;
    _Atomic uint64_t misses;
};

struct buffer_map; /* map.c */

struct buffer_pool {
    /* Set at open, and read by everyone. */
    uint8_t *bytes;              /* of frame 0; each frame's page_size_bytes follow */
    struct buffer_frame *frames; /* descriptors */
    struct buffer_map *map;
    uint32_t page_size_bytes;
    unsigned page_shift;
    struct buffer_options options;
    uint64_t *sector_hashes; /* SECTORS_MAX, or fewer, a frame; NULL: not kept */
    struct hash_key sector_key;
    uint32_t frames_max;          /* that size_max_bytes has room for */
    _Atomic uint32_t frame_count; /* in use: frames [0, frame_count) */
    struct buffer_writer *writer; /* the second half's */
    struct buffer_reader *reader; /* prefetch.c */

    /* Replacement. */
    _Alignas(64) pthread_mutex_t lists_lock;
    struct buffer_list lists[BUFFER_LIST_COUNT];
    uint64_t made_young; /* lists_lock, as are these */
    uint64_t not_made_young;
    uint64_t evicted;
    uint64_t read_ahead_evicted;
    uint32_t retire_from; /* frames from here on are not handed out: a resize takes them away */
    _Alignas(64) _Atomic uint32_t entered; /* pages that came in so far, modulo 2^32 */
    _Atomic uint32_t fresh_window; /* a touch counts when so many came in since the page did */

    _Alignas(64) _Atomic uint64_t pages_read;
    _Atomic uint64_t pages_read_ahead;
    _Atomic uint64_t free_waits;
    struct buffer_shard shards[BUFFER_COUNTER_SHARDS];

    pthread_mutex_t resize_lock; /* one resize at a time */
    uint32_t resizes;            /* resize_lock */
    _Atomic uint64_t size_bytes;
};

/** @return the clock of the first of its devices. */
static inline struct clock *buffer_clock(const struct buffer_pool *pool)
{
    return pool->options.system_count > 0 ? io_system_clock(pool->options.systems[0])
                                          : clock_real();
}

/** @return a frame's place in the pool, by which lists name it. */
static inline uint32_t buffer_frame_number(const struct buffer_pool *pool,
                                           const struct buffer_frame *frame)
{
    return (uint32_t)(frame - pool->frames);
}

/* ---- What the writer may use of the pool ----
 *
 * How a page is written. Somebody dirties it: buffer_mark_dirty sets DIRTY and, if it was not set,
 * calls buffer_flush_add. The cleaner pins the frame (buffer_pin_dirty, or buffer_take_cold),
 * latches it shared (buffer_try_latch: rather than wait behind a mini-transaction take another page
 * first), calls buffer_begin_write, copies the bytes, unlatches, and later calls buffer_end_write.
 * WRITING keeps the frame from being reused in between, the pin is not needed for that. Changes
 * made meanwhile set DIRTY anew and come by buffer_flush_add again: the LSN of the copy under way
 * is the writer's to remember.
 */

/** Pin a frame if it holds a dirty page. Any frame, any time. @return false if it does not */
bool buffer_pin_dirty(struct buffer_pool *pool, struct buffer_frame *frame);

/** Take away a pin. */
void buffer_unpin(struct buffer_pool *pool, struct buffer_frame *frame);

/** Turn DIRTY into WRITING. The caller has the frame latched shared. @return false if it is not
 * dirty, or an earlier copy is still being written */
bool buffer_begin_write(struct buffer_frame *frame);

/** The copy has been written (the caller has no pin any more), or it has failed: then the page is
 * dirty as before (buffer_flush_add is not called). */
void buffer_end_write(struct buffer_pool *pool, struct buffer_frame *frame, bool failed);

/** Free frames there are now. */
uint32_t buffer_free_count(const struct buffer_pool *pool);

/** Make free frames of clean pages at the end of the replacement order, until so many are free or
 * `steps` pages have been looked at. Dirty ones met there go to the cold list. @return free frames
 */
uint32_t buffer_evict(struct buffer_pool *pool, uint32_t want_free, uint32_t steps);

/**
 * Take dirty pages off the cold list, in the order they are to be evicted: pinned.
 *
 * @param frames  room for max; each goes back with buffer_return_cold, after buffer_end_write or
 *                when it is not to be written now
 * @return how many
 */
unsigned buffer_take_cold(struct buffer_pool *pool, struct buffer_frame **frames, unsigned max);

/** Give back a frame from buffer_take_cold, unpinning it: it becomes a free frame if it is clean
 * and nobody has touched it since, stays cold if it is dirty, and is an old page otherwise. */
void buffer_return_cold(struct buffer_pool *pool, struct buffer_frame *frame);

/** Tell which pages are in the pool, the most wanted first: young before old, of each those that
 * came last first. Misses wait for it. @return how many ids were stored, at most max */
uint32_t buffer_wanted_ids(struct buffer_pool *pool, uint64_t *page_ids, uint32_t max);

/* ---- What the pool needs of the writer ---- */

/** Make the writer of a pool (pool->writer) whose frames, map and lists are ready: last in
 * buffer_open. */
firn_rc buffer_writer_open(struct buffer_pool *pool);

/** Stop threads and free; first in buffer_close. NULL writer is allowed. */
void buffer_writer_close(struct buffer_pool *pool);

/** Free frames have become few (fewer than buffer_free_low): let the cleaner thread, if there is
 * one, make more. Cheap, does not block. */
void buffer_writer_wake(struct buffer_pool *pool);

/** How many free frames are few. Settled by the writer at open and at resize. */
uint32_t buffer_free_low(const struct buffer_pool *pool);

/**
 * There is no free frame, and the caller found no clean page to evict: write cold pages here and
 * now until there is a free frame. The caller may have pages latched.
 *
 * @return FIRN_OK: try again; FIRN_E_BUSY: nothing is there to write, every frame is pinned or
 *         being written by somebody else (raised); what writing returned
 */
firn_rc buffer_writer_make_room(struct buffer_pool *pool);

/** A frame, latched exclusively, becomes dirty. @param oldest_lsn  as buffer_mark_dirty: 0 means
 * the log's reserved LSN now */
void buffer_flush_add(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t oldest_lsn);

/** A frame that is being discarded, claimed by the caller alone, was dirty: forget that. */
void buffer_flush_drop(struct buffer_pool *pool, struct buffer_frame *frame);

/** Write the dirty pages among frames [first, to the end of frame_count): a resize takes those
 * away. Pages latched exclusively may be left out; the resize comes again. */
firn_rc buffer_writer_evacuate(struct buffer_pool *pool, uint32_t first_frame);

/** Add the writer's part to the counters. */
void buffer_writer_counters(struct buffer_pool *pool, struct buffer_counters *counters);

#endif
