/*
 * recovery_internal.h -- records waiting to be applied, and who applies them.
 *
 * The thread that reads the log copies records into a batch, each into the part that its page
 * belongs to, and has a full batch applied before it goes on. A part is one thread's work, so a
 * page's records are applied by one thread, in their order.
 */
#ifndef FIRN_RECOVERY_RECOVERY_INTERNAL_H
#define FIRN_RECOVERY_RECOVERY_INTERNAL_H

#include "recovery/recovery.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    PARTS_MAX = 32,
    THREADS_MAX = 16,
    CHUNK_MAX_BYTES = 256 << 10,
    CHUNK_MIN_BYTES = 4 << 10,
    BATCH_MIN_BYTES = 256 << 10,
    TORN_PAGES_MAX = 1024, /* more than are written at once, or a disk has gone */
    TORN_TEXT_BYTES = 512,
};

/* ---- Batches: batch.c ---- */

/** A change waiting for its page; its payload stands behind it. */
struct record {
    struct record *next; /* of the same page; set when a part is sorted by pages */
    uint64_t page_id;
    uint64_t end_lsn; /* of its frame */
    uint32_t op;
    uint32_t size_bytes; /* of the payload */
};

/** Records one behind the other. */
struct chunk {
    struct chunk *next;
    size_t used_bytes;
    size_t size_bytes;
};

/** What one thread applies. */
struct part {
    struct chunk *first;
    struct chunk *last;
};

struct batch {
    struct part parts[PARTS_MAX];
    unsigned part_count;
    size_t chunk_bytes;
    uint64_t charged_bytes; /* memory that it takes, and that applying it will */
    struct chunk *spare;    /* chunks of earlier fillings */
    bool downward;          /* apply from the last part and page to the first; see README.md */
};

/** Copy a record of a frame that ends at end_lsn. FIRN_E_NOMEM */
firn_rc batch_add(struct batch *batch, const struct change *change, uint64_t end_lsn);

/** Forget the records, keep the memory. */
void batch_clear(struct batch *batch);
/** Give all its memory back. */
void batch_free(struct batch *batch);

/** @return the record behind another one in its chunk, or NULL; the first one if record is NULL. */
struct record *chunk_next(const struct chunk *chunk, const struct record *record);

/** @return where the payload of a record stands. */
static inline const uint8_t *record_payload(const struct record *record)
{
    return (const uint8_t *)(record + 1);
}

/* ---- Pages that cannot be read: torn.c ---- */

struct torn_page {
    struct torn_page *next;
    uint64_t page_id;
    firn_rc rc; /* what reading it failed with, and the sentence */
    char text[TORN_TEXT_BYTES];
};

/** Pages of which records have been passed over, since they could not be read: a later record must
 * begin them. */
struct torn_pages {
    pthread_mutex_t mutex; /* protects the list */
    struct torn_page *first;
    _Atomic unsigned count;
};

/** There are none. */
void torn_init(struct torn_pages *torn);
/** Free what it holds. */
void torn_free(struct torn_pages *torn);

/** @return whether a page is among them. */
bool torn_has(struct torn_pages *torn, uint64_t page_id);

/** A page could not be read, as rc and the thread's error text say. @return FIRN_OK if it may be
 * passed over for now; rc, and the text as it was, if not */
firn_rc torn_add(struct torn_pages *torn, uint64_t page_id, firn_rc rc);

/** A record sets all of a page: it is one of them no longer. */
void torn_begun(struct torn_pages *torn, uint64_t page_id);

/** The log has ended. @return FIRN_OK, or what reading failed with of a page that nothing has
 * begun and that somebody has, raised */
firn_rc torn_raise(const struct torn_pages *torn, struct space_set *spaces);

/* ---- Applying: apply.c ---- */

/** The records of a page. */
struct page_work {
    uint64_t page_id;
    struct record *first;
    struct record *last;
    bool begins; /* the first one sets the whole page */
};

/** One thread's memory and counts. Zero it; applier_free. */
struct applier {
    const struct recovery_options *options;
    struct torn_pages *torn;
    uint64_t oldest_lsn; /* the checkpoint, that pages are dirty since */
    struct page_work *pages;
    uint32_t page_count;
    uint32_t page_capacity;
    uint32_t *slots; /* of a hash table: index of the page plus 1, or 0 */
    uint32_t slot_count;
    uint64_t records_applied;
    uint64_t pages_changed;
    uint64_t newest_lsn; /* of all pages met, as they were found ... */
    uint64_t newest_page_id;
};

/** Apply a part's records to their pages, in file order or, downward, against it. */
firn_rc applier_run(struct applier *applier, const struct part *part, bool downward);
/** Give its memory back; its counts stay. */
void applier_free(struct applier *applier);

/* ---- Threads: workers.c ---- */

/** Called now and then while somebody waits. */
typedef void workers_wait_function(void *context);

struct workers {
    struct applier appliers[THREADS_MAX];
    unsigned thread_count; /* 0: the calling thread applies */
    pthread_t threads[THREADS_MAX];
    pthread_mutex_t mutex; /* protects all below */
    pthread_cond_t given;
    pthread_cond_t finished;
    unsigned started;          /* threads that have taken their applier */
    const struct batch *batch; /* being applied, or NULL */
    unsigned next_part;
    unsigned busy; /* parts given out and not finished */
    bool stop;
    firn_rc rc;       /* the first failure ... */
    char error[1024]; /* ... and its text */
};

/** Start threads. On failure nothing is left. */
firn_rc workers_open(struct workers *workers, const struct recovery_options *options,
                     uint64_t oldest_lsn, struct torn_pages *torn);

/** End them; what is given and not yet begun is not applied. */
void workers_close(struct workers *workers);

/** Give a batch to be applied; none is. It stays as it is until workers_wait has returned. */
void workers_give(struct workers *workers, const struct batch *batch);

/** Wait until the batch is applied. @return the first failure of any thread, raised */
firn_rc workers_wait(struct workers *workers, workers_wait_function *meanwhile, void *context);

#endif
