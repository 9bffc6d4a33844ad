/*
 * space_internal.h -- tablespaces in memory, for the files of this folder.
 *
 * set.c has the set and its files, lookup.c finds a tablespace by its id, create.c makes and drops,
 * scan.c judges what files there are, grow.c and shrink.c change their sizes, allocate.c and
 * extent.c give pages out and take them back, check.c judges, recover.c is for recovery, layout.c
 * has the bytes.
 */
#ifndef FIRN_SPACE_SPACE_INTERNAL_H
#define FIRN_SPACE_SPACE_INTERNAL_H

#include "space/layout_internal.h"
#include "space/space.h"

#include "base/park.h"

#include <pthread.h>
#include <stdatomic.h>

#define SPACE_FILE_SUFFIX ".firn"
/** The id of no tablespace. */
#define SPACE_NONE UINT32_MAX

/** What is known of a map page without looking: where to look first. */
struct map_hint {
    uint16_t free_extents;
    uint16_t shared_extents; /* with free pages */
    bool known;
};

/** What is known of an index. */
struct owner_hint {
    uint64_t owner;   /* 0: nothing */
    uint32_t singles; /* pages in shared extents, as far as seen */
    uint32_t extent;  /* that it took last, or EXTENT_NONE */
};

enum { OWNER_HINTS = 32 };

/**
 * A tablespace. Its memory stays until the set is closed and may then serve another one, so that
 * lookup.c can look at it without a lock.
 *
 * Hints are protected by the exclusive latch on page 0, without which nothing is allocated.
 */
struct space {
    _Atomic uint32_t id; /* SPACE_NONE: not in use */
    _Atomic(struct io_file *) file;
    _Atomic uint32_t file_pages; /* that the file has; page 0 may know of fewer */

    /* For space_prepare; as page 0 was left last. */
    _Atomic uint32_t available; /* head_available */
    _Atomic uint32_t ahead;     /* what is to be left of it; UINT32_MAX when nothing is known */
    atomic_bool full;           /* the last attempt to grow ahead of demand failed */

    /* Who changes the file's size has it. Behind page 0's latch; nothing is latched or locked
     * behind it. */
    pthread_mutex_t resize_mutex;
    _Atomic uint32_t claimed_pages; /* that page 0 may come to say the file has; written with the
                                       mutex */

    struct map_hint *map_hints; /* map_hint_count of them */
    uint32_t map_hint_count;
    uint32_t map_cursor; /* where room was found last */
    struct owner_hint owner_hints[OWNER_HINTS];

    enum io_class class;
    char name[SPACE_NAME_MAX + 1];
    char *path;
    struct redo_hold hold; /* while it is being made or dropped */

    /* As scanned: to tell a file that was cut off from one that had not grown yet. 0: not whole. */
    uint32_t scanned_pages;
    uint64_t scanned_lsn;
    uint32_t scanned_file_pages;

    struct space *next_unused;
};

struct lookup_table;

/** A file that has a tablespace's name but no first page yet. */
struct unfinished {
    struct unfinished *next;
    char path[];
};

struct space_set {
    struct space_options options;      /* its directories are these: */
    char *directories[IO_CLASS_COUNT]; /* copies */
    struct buffer_pool *pool;
    struct redo *redo;
    uint64_t first_lsn; /* the checkpoint that recovery begins at */

    _Atomic(struct lookup_table *) table; /* read without a lock */

    pthread_mutex_t mutex; /* protects all below; before any page latch */
    struct space **spaces; /* by ascending id */
    unsigned space_count;
    unsigned space_capacity;
    struct space *unused;
    struct space *stuck; /* half made, and could not be removed */
    unsigned size_holds; /* space_hold_sizes */
    struct unfinished *unfinished;
};

/* ---- lookup.c ---- */

/** Find a tablespace by its id. Any thread. @return NULL if there is none */
struct space *lookup_find(struct space_set *set, uint32_t id);

/** As lookup_find; FIRN_E_NOT_FOUND, raised, if there is none. */
firn_rc lookup_require(struct space_set *set, uint32_t id, struct space **space);

/** Have room for one more tablespace. With the mutex. FIRN_E_NOMEM */
firn_rc lookup_reserve(struct space_set *set);

/** Let a tablespace be found; room is reserved. With the mutex. */
void lookup_add(struct space_set *set, struct space *space, uint32_t id);

/** Let it be found no longer. With the mutex. */
void lookup_remove(struct space_set *set, struct space *space);

/** Free the table of tablespaces; nobody looks anything up any more. */
void lookup_close(struct space_set *set);

/* ---- set.c ---- */

/** Have a tablespace that is not found yet. With the mutex. @param space give it to set_add or
 * set_discard */
firn_rc set_new(struct space_set *set, enum io_class class, const char *name, struct space **space);

/** Give back what is not, or no longer, found; its file is closed. With the mutex. */
void set_discard(struct space_set *set, struct space *space);

/** Let a tablespace with an open file be found; set_new has reserved the room. With the mutex. */
void set_add(struct space_set *set, struct space *space, uint32_t id, struct io_file *file,
             uint32_t file_pages);

/** The opposite of set_add; the file stays open. With the mutex. */
void set_remove(struct space_set *set, struct space *space);

/** @return the tablespace of a name, or NULL. With the mutex. */
struct space *set_find_name(struct space_set *set, const char *name);

/** @return a path to be freed with memory_free, or NULL. */
char *set_path(const struct space_set *set, enum io_class class, const char *name);

/** Open a tablespace's file. @param flags besides what the options ask for */
firn_rc set_open_file(struct space_set *set, enum io_class class, const char *path, unsigned flags,
                      struct io_file **file);

/** @return the device of a class of files. */
static inline struct io_system *set_system(const struct space_set *set, enum io_class class)
{
    return set->options.places[class].system;
}

/** @return a tablespace's file, while the caller keeps it from being dropped. */
static inline struct io_file *space_file(struct space *space)
{
    return atomic_load_explicit(&space->file, memory_order_relaxed);
}

/** @return a tablespace's id, while the caller keeps it from being dropped. */
static inline uint32_t space_id(struct space *space)
{
    return atomic_load_explicit(&space->id, memory_order_relaxed);
}

/* ---- create.c ---- */

/**
 * Make a file with the first pages of a new tablespace, file and name durable; or, after a crash,
 * mend what was not finished.
 *
 * @param lsn    of the record that says so
 * @param file   set on success
 * @param pages  set on success: how many the file has
 */
firn_rc create_file(struct space_set *set, struct space *space, uint32_t id, uint64_t lsn,
                    struct io_file **file, uint32_t *pages);

/** Let a tablespace be found no longer, take its pages out of the pool, remove its file and name,
 * durably. Nobody uses it. With the mutex. */
firn_rc create_drop_file(struct space_set *set, struct space *space);

/** What a CHANGE_SPACE_CREATE record carries before the name: class u8, page size u32. */
enum { CREATE_HEADER_BYTES = 5 };

/* ---- scan.c ---- */

/**
 * Look who a file is, and whether it is in its place.
 *
 * @param options   environment and page size
 * @param name      what the file's name says
 * @param identity  set on success
 * @param page0     set on success to the first page, as it is; to be freed with memory_free
 * @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text, if it has no first page yet; what
 *         space_scan returns
 */
firn_rc scan_identify(const struct space_options *options, struct io_file *file, const char *name,
                      struct space_identity *identity, uint8_t **page0);

/** @return FIRN_E_CORRUPT, raised: a file has a tablespace's name and no first page. */
firn_rc scan_raise_unfinished(const char *path);

/* ---- head.c: what changes of page 0 ---- */

/** Copy it, under a shared latch. */
firn_rc head_load(struct space_set *set, struct space *space, struct space_head *head);

/** Change the counters; the mini-transaction has page 0. */
void head_store(struct space_set *set, struct space *space, struct mtr *mtr, struct mtr_page *page0,
                const struct space_head *head);

/** Let space_prepare know. */
void head_publish(struct space_set *set, struct space *space, const struct space_head *head);

/** The file has so many pages that may be used. */
void head_grow(struct space_head *head, uint32_t pages);

/* ---- grow.c ---- */

/** Let the file have at least so many pages, that page 0 may then tell of. Page 0 may be latched.
 * Errors leave it as it was. */
firn_rc grow_file(struct space_set *set, struct space *space, uint32_t pages);

/** @return FIRN_E_NOSPACE, raised: there are no more page numbers. */
firn_rc grow_raise_largest(const struct space *space);

/** @return how large a file of so many pages should become when it needs to have `needed`. */
uint32_t grow_target(const struct space_set *set, uint32_t pages, uint32_t needed);

/** @return how many pages are to be left free, so that nobody waits for the file to grow. */
uint32_t grow_ahead_pages(const struct space_set *set, uint32_t pages);

/* ---- extent.c: which extent a page is taken from ---- */

/** An allocation under way. */
struct allocation {
    struct space_set *set;
    struct space *space;
    struct mtr *mtr;
    uint64_t owner;
    uint32_t near;
    uint32_t count;
    struct mtr_page *page0;
    struct space_head head; /* as it is, then as it is to be */
    struct owner_hint *hint;
};

/** An extent that has a free page for the allocation. */
struct pick {
    uint32_t extent;
    struct mtr_page *map; /* latched */
    bool first_of_map;    /* the map page must be made first: it is in the extent before */
};

/** Is the page to be one in a shared extent? A longer run than the index may yet take there is not.
 */
bool extent_is_shared_for(const struct allocation *allocation);

/** Find an extent with a free page. FIRN_E_NOT_FOUND, without an error text: the file must grow. */
firn_rc extent_pick(struct allocation *allocation, struct pick *pick);

/** After growing failed: find a page anywhere. FIRN_E_NOT_FOUND without an error text. */
firn_rc extent_pick_any(struct allocation *allocation, struct pick *pick);

/** @return what is known of an index, perhaps made anew. Page 0 is latched. */
struct owner_hint *extent_owner_hint(struct space *space, uint64_t owner);

/** Latch the map page of an extent. */
firn_rc extent_fix_map(struct space_set *set, struct mtr *mtr, struct space *space, uint32_t extent,
                       struct mtr_page **map);

/** Note that a descriptor changes, in the hint for its map. */
void extent_hint_change(struct space *space, uint32_t page_size_bytes, uint32_t extent,
                        struct descriptor before, struct descriptor after);

/** Forget all hints; nobody allocates. */
void extent_forget_hints(struct space *space);

#endif
