/*
 * undo_set_internal.h -- what the files of undo share: the set in memory, its tablespaces and
 * segments.
 *
 * A segment has two ends with an owner each. The tail is the transaction's that has the segment in
 * use; the head is the purging thread's that has claimed it. Being in use and being claimed change
 * under the set's mutex, which so hands each end from one owner to the next.
 */
#ifndef FIRN_TXN_UNDO_SET_INTERNAL_H
#define FIRN_TXN_UNDO_SET_INTERNAL_H

#include "txn/undo_internal.h"

#include <pthread.h>
#include <stdatomic.h>

enum { UNDO_FLAG_HAS_WORK = 1 };

/** A tablespace of undo. */
struct undo_space {
    uint32_t space;
    unsigned ordinal;        /* from 1 */
    uint32_t directory_page; /* does not change */
    uint8_t *taken;          /* a byte for each slot of the directory; with the mutex */
    uint32_t segments;       /* with the mutex */
};

struct undo_segment {
    struct undo_space *space;
    uint32_t slot;
    unsigned index; /* among the set's segments */

    /* With the set's mutex. */
    bool in_use;
    bool claimed;
    struct undo_segment *next_free;

    /* The tail: whose it is that has the segment in use. */
    uint32_t tail_page;
    uint32_t tail_offset;
    uint32_t sequence;        /* of the last log */
    uint64_t number;          /* the largest of its logs' */
    _Atomic uint64_t records; /* appended; written by the owner alone */
    _Atomic uint64_t record_bytes;

    /* The head: whose it is that has claimed it. */
    uint32_t head_page;
    struct undo_position first; /* the oldest log not purged, or where it will be */
    struct undo_position end;   /* of the log that undo_purge_first told of */
    uint64_t ended_number;      /* and its number */
    uint64_t purged_number;     /* the largest of those that were purged */

    _Atomic uint64_t logs; /* ended and not purged */

    bool is_unfinished; /* found so at opening, and not handed out yet: */
    struct undo_log unfinished;
    enum undo_state unfinished_state;
    struct undo_position xid; /* of a prepared one */
};

struct undo_set {
    struct space_set *spaces;
    struct buffer_pool *pool;
    uint32_t page_size_bytes;
    unsigned space_count;
    struct undo_space tablespaces[UNDO_SPACES_MAX];

    uint64_t first_id;
    uint64_t last_number;
    _Atomic uint64_t id_limit; /* the log knows it */

    _Atomic uint64_t pages;

    pthread_mutex_t mutex; /* protects what follows, and what says so above; nothing is latched or
                              waited for behind it */
    struct undo_segment **segments; /* NULL: given up */
    unsigned segment_count;
    unsigned segment_capacity;
    struct undo_segment *free; /* the one used last first */
    unsigned in_use;
    uint64_t gone_records; /* of segments that were given up */
    uint64_t gone_record_bytes;
};

/** Add to a counter that one thread at a time writes and others read. */
static inline void undo_count(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/** Take and give back the set's mutex. */
static inline void undo_lock(struct undo_set *set)
{
    pthread_mutex_lock(&set->mutex);
}
/** See undo_lock. */
static inline void undo_unlock(struct undo_set *set)
{
    pthread_mutex_unlock(&set->mutex);
}

/** @return the pointer to a position in a tablespace; 0 to nowhere. */
static inline undo_pointer undo_pointer_of(const struct undo_space *space,
                                           struct undo_position position)
{
    if (position.offset == 0)
        return 0;
    return (uint64_t)space->ordinal << 48 | (uint64_t)position.page_no << 16 | position.offset;
}

/** @return the position in its tablespace that a pointer is. */
static inline struct undo_position undo_position_of(undo_pointer pointer)
{
    return (struct undo_position){(uint32_t)(pointer >> 16), (uint16_t)pointer};
}

/** @return the id of a page of a tablespace. */
static inline uint64_t undo_page_id(const struct undo_space *space, uint32_t page_no)
{
    return page_id_of(space->space, page_no);
}

/** End a mini-transaction: commit what it has changed, if anything. @return rc, or what committing
 * returned */
firn_rc undo_finish_mtr(struct mtr *mtr, firn_rc rc);

/** @return FIRN_E_CORRUPT, raised: a page of undo is not what it ought to be. */
firn_rc undo_raise_page(const struct undo_space *space, uint32_t page_no, const char *what);

/* ---- undo_segment.c, undo_open.c ---- */

/** @return FIRN_OK if a page is a segment's. */
firn_rc undo_segment_judge(const struct undo_segment *segment, uint32_t page_no,
                           const uint8_t *page);

/** Fix a page of a segment in a mini-transaction. */
firn_rc undo_segment_fix(const struct undo_segment *segment, struct mtr *mtr, uint32_t page_no,
                         struct mtr_page **page);

/** Fix a page of a segment shared: buffer_unfix. */
firn_rc undo_segment_look(struct undo_set *set, const struct undo_segment *segment,
                          uint32_t page_no, struct buffer_frame **frame);

/** Fix a directory page in a mini-transaction. */
firn_rc undo_directory_fix(const struct undo_space *space, struct mtr *mtr, struct mtr_page **page);

/** Write a segment's slot. */
void undo_slot_write(struct mtr *mtr, struct mtr_page *directory, uint32_t slot_no,
                     const struct undo_slot *slot);

/** Enter a segment that is not there yet: in use and claimed, without pages. FIRN_E_NOMEM. With
 * the mutex. */
firn_rc undo_segment_enter(struct undo_set *set, struct undo_space *space, uint32_t slot,
                           struct undo_segment **segment);

/** Take out and free a segment. With the mutex. */
void undo_segment_remove(struct undo_set *set, struct undo_segment *segment);

/** Put a segment among those that are free. With the mutex. */
void undo_segment_release(struct undo_set *set, struct undo_segment *segment);

/** Enter a segment that a directory tells of, and find how its last log ended. */
firn_rc undo_segment_open(struct undo_set *set, struct undo_space *space, uint32_t slot_no,
                          const struct undo_slot *slot);

/** Read the header of the log at `first`, which moves on to the next page where that is where it
 * stands. The segment is claimed. FIRN_E_NOT_FOUND without an error text: there is none yet. */
firn_rc undo_segment_first(struct undo_set *set, struct undo_segment *segment,
                           struct undo_log_head *log);

/** Take a free segment, or make one: it is the caller's to use. */
firn_rc undo_segment_take(struct undo_set *set, struct mtr *mtr, struct undo_segment **segment);

/** Give a log's segment one more page, where the log goes on. */
firn_rc undo_segment_extend(struct undo_log *log, struct mtr *mtr);

/** Free the pages before that of `first`. The segment is claimed. */
firn_rc undo_segment_free_passed(struct undo_set *set, struct mtr *mtr,
                                 struct undo_segment *segment);

/** Give up a segment that has one page and nothing that anybody needs, of which the caller has both
 * ends; it is removed. On failure it is as it was. */
firn_rc undo_segment_give_up(struct undo_set *set, struct mtr *mtr, struct undo_segment *segment);

#endif
