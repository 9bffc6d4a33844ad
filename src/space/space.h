/*
 * space.h -- tablespaces: files of pages, which pages are whose, and where the files lie.
 *
 * A tablespace is one file. Page 0 says what it is; map pages hold a descriptor for each extent of
 * 64 pages: whose it is and which of its pages are taken. An index takes single pages from shared
 * extents until it has SPACE_SINGLE_PAGES of them, then whole extents, so that small tables stay
 * small and the leaves of large ones lie together. Files grow ahead of demand, by a share of their
 * size.
 *
 * Allocation happens inside the caller's mini-transaction: page 0 and the map page are latched
 * after all pages of indexes, and nothing is latched behind them.
 */
#ifndef FIRN_SPACE_SPACE_H
#define FIRN_SPACE_SPACE_H

#include "base/finding.h"
#include "buffer/buffer.h"
#include "mtr/mtr.h"

enum {
    SPACE_EXTENT_PAGES = 64,
    SPACE_SINGLE_PAGES = 32,
    SPACE_SYSTEM = 0,     /* the id of the system tablespace */
    SPACE_NAME_MAX = 200, /* bytes; letters, digits, _ - . $ and what UTF-8 has beyond ASCII */
};

struct space_set; /* the tablespaces of an environment */

/** Where files of a class lie. */
struct space_place {
    struct io_system *system;
    const char *directory;
};

struct space_options {
    struct space_place places[IO_CLASS_COUNT]; /* table, undo, system and temporary are used */
    uint32_t page_size_bytes;
    uint8_t environment[16];
    bool direct;
    uint64_t autoextend_bytes; /* growth, at most; a small file grows by its own size */
};

/** @param set  set on success; give it back with space_set_close. Options and texts are copied. */
firn_rc space_set_open(const struct space_options *options, struct space_set **set);

/** Close all files. The pool has no pages of them in use. NULL is allowed. */
firn_rc space_set_close(struct space_set *set);

/** What the pool needs to find pages; before buffer_open. */
struct buffer_files space_files(struct space_set *set);

/** Tell the set its pool and log, once they are open. */
void space_set_attach(struct space_set *set, struct buffer_pool *pool, struct redo *redo);

/**
 * Find the files that are there, in each class's directory: read and judge their first pages.
 *
 * @param lenient  before recovery: a first page that is torn or not there yet is no error
 * @return FIRN_OK; FIRN_E_CORRUPT naming the file: damaged, of another environment, its name is not
 *         the one it was made under, two files with one id; FIRN_E_UNSUPPORTED (newer format)
 */
firn_rc space_scan(struct space_set *set, bool lenient);

/**
 * Make a tablespace: file, name and first pages are durable on return, and so is the redo record
 * that lets recovery finish or undo it.
 *
 * @param class  decides the directory
 * @param name   becomes the file's name, with ".firn" behind it
 * @param space  its id, set on success
 * @return FIRN_OK, FIRN_E_EXISTS, FIRN_E_INVALID (name), FIRN_E_NOSPACE, ...
 */
firn_rc space_create(struct space_set *set, struct mtr *mtr, enum io_class class, const char *name,
                     uint32_t *space);

/** Drop a tablespace: pages, file and name. Nobody uses it any more. Durable on return. */
firn_rc space_drop(struct space_set *set, struct mtr *mtr, uint32_t space);

/**
 * Give the free pages at the end of the file back to the file system. Takes a checkpoint, for
 * recovery must not meet changes of pages that no file has any more.
 *
 * @param pages  set on success: how many were given back
 * @return FIRN_OK; FIRN_E_BUSY: the file grows just now, or something holds checkpoints back: later
 */
firn_rc space_shrink(struct space_set *set, struct mtr *mtr, uint32_t space, uint64_t *pages);

/** @return the id of a name's tablespace in *space, or FIRN_E_NOT_FOUND. */
firn_rc space_find(struct space_set *set, const char *name, uint32_t *space);

/** Call a function for each tablespace, by ascending id. None is made or dropped meanwhile. */
struct space_info {
    uint32_t space;
    enum io_class class;
    const char *name;
    const char *path;
    uint32_t pages;      /* in the file */
    uint32_t pages_used; /* allocated, map pages and page 0 included */
    uint32_t entry_page; /* PAGE_NONE: none */
};
typedef firn_rc space_visit(const struct space_info *info, void *context);
firn_rc space_each(struct space_set *set, space_visit *visit, void *context);

/* ---- For backups ---- */

/**
 * Let no file be cut until space_release_sizes: space_shrink fails with FIRN_E_BUSY. What is
 * growing or being dropped goes on. A cut that has begun ends first. Several may hold.
 */
void space_hold_sizes(struct space_set *set);
void space_release_sizes(struct space_set *set);

/** A tablespace's file, as it is during the call. */
struct space_file_entry {
    uint32_t space;
    enum io_class class;
    const char *name;
    const char *path;
    uint32_t pages; /* that the file has */
};
typedef firn_rc space_file_visit(const struct space_file_entry *entry, void *context);

/** Call a function for each tablespace there is at one moment: none is made or dropped meanwhile,
 * who wants to waits. The function must not ask the set. */
firn_rc space_each_file(struct space_set *set, space_file_visit *visit, void *context);

/* ---- Pages ---- */

/**
 * Allocate a page for an index. The caller fixes and initialises it (mtr_fix_new) in the same
 * mini-transaction. The file is grown if need be, before anything is changed.
 *
 * @param owner    the index's id, not 0
 * @param near     a page of the index that it should lie close to (behind it, if free), or
 * PAGE_NONE
 * @param page_no  set on success
 * @return FIRN_OK; FIRN_E_NOSPACE (disk full, or the tablespace has 2^32 - 1 pages); nothing
 * changed
 */
firn_rc space_allocate(struct space_set *set, struct mtr *mtr, uint32_t space, uint64_t owner,
                       uint32_t near, uint32_t *page_no);

/**
 * Allocate a run of adjacent pages, for bulk builds and large values: as many as are free together,
 * up to count and to the end of an extent.
 */
firn_rc space_allocate_run(struct space_set *set, struct mtr *mtr, uint32_t space, uint64_t owner,
                           uint32_t near, uint32_t count, uint32_t *first_page, uint32_t *got);

/**
 * Make sure that so many pages can be allocated without growing the file: what can fail comes
 * before latches and changes. No latch is held and no mini-transaction open. Others may be faster;
 * then allocating grows the file itself, or fails with nothing changed.
 *
 * @return FIRN_OK; FIRN_E_NOSPACE; FIRN_E_STOPPED, ...
 */
firn_rc space_prepare(struct space_set *set, uint32_t space, uint32_t pages);

/**
 * Take back pages that were allocated in this mini-transaction and have not been changed since: the
 * caller could not go on. Cannot fail, for what describes them is latched by the mini-transaction
 * already.
 */
void space_unallocate(struct space_set *set, struct mtr *mtr, uint32_t space, uint64_t owner,
                      uint32_t first_page, uint32_t count);

/** Give a page back: it is free when the mini-transaction commits. @param page taken by the mtr */
firn_rc space_free(struct space_set *set, struct mtr *mtr, struct mtr_page *page, uint64_t owner);

/** Is a page allocated, to whomever? Others may allocate and free meanwhile. No latch is held.
 * FIRN_E_CORRUPT, FIRN_E_IO, ... */
firn_rc space_has_page(struct space_set *set, uint32_t space, uint32_t page_no, bool *has);

/** The most that one space_allocate or space_free adds to a mini-transaction's log, and pages that
 * it takes. */
enum { SPACE_LOG_MAX_BYTES = 512, SPACE_MTR_PAGES = 3 };

/** The page from which a tablespace's content is found. */
firn_rc space_set_entry(struct space_set *set, struct mtr *mtr, uint32_t space, uint32_t page_no);
firn_rc space_entry(struct space_set *set, uint32_t space, uint32_t *page_no);

/**
 * The first page of the tablespace's register of pages in limbo: what is being built or freed in
 * several mini-transactions and belongs to nobody else, to be freed after a crash
 * (src/btree/README.md). PAGE_NONE when there is none.
 *
 * @param mtr  where not NULL, page 0 is latched by it, so that the answer holds until its end
 */
firn_rc space_set_limbo(struct space_set *set, struct mtr *mtr, uint32_t space, uint32_t page_no);
firn_rc space_limbo(struct space_set *set, struct mtr *mtr, uint32_t space, uint32_t *page_no);

/* ---- Judging ---- */

/** Whose a page in a shared extent is, which cannot be read or does not say. */
#define SPACE_OWNER_UNKNOWN (UINT64_MAX - 1)

/**
 * Tell which pages of a tablespace are allocated and to whom, while nobody allocates or frees.
 *
 * Whose a page in a shared extent is stands in the page: pages of types INDEX, BLOB, UNDO and
 * UNDO_DIRECTORY begin their body (PAGE_HEADER_BYTES) with their owner, 8 bytes; those of type
 * LIMBO are UINT64_MAX's.
 *
 * @param visit  gets page number and owner for each allocated page in ascending order, owner 0 for
 *               page 0 and map pages; stops by returning other than FIRN_OK
 * @return FIRN_OK; what visit returned; FIRN_E_CORRUPT, FIRN_E_IO (page 0 or a map page)
 */
typedef firn_rc space_page_visit(uint32_t page_no, uint64_t owner, void *context);
firn_rc space_each_page(struct space_set *set, uint32_t space, space_page_visit *visit,
                        void *context);

/**
 * Check first page and map pages of a tablespace against each other, the file and the types of the
 * pages in shared extents. While nobody allocates or frees.
 *
 * @return FIRN_OK when nothing is wrong; FIRN_E_CORRUPT when problems were reported; FIRN_E_NOMEM
 */
firn_rc space_check(struct space_set *set, uint32_t space, finding_report *report, void *context);

/** A tablespace's file, looked at by itself: no set has it open. */
struct space_file {
    struct io_system *system;
    enum io_class class;
    const char *path;
    const char *name;         /* what the file's name says, without ".firn" */
    uint8_t environment[16];  /* that it should be of */
    uint32_t page_size_bytes; /* and have */
    bool direct;
};

/** What page 0 of such a file tells, as far as it can be believed. */
struct space_file_info {
    uint32_t space;
    enum io_class class;
    uint32_t file_pages; /* that the file has, whole ones */
    uint32_t head_pages; /* that page 0 says it has; 0: page 0 is not whole */
    uint64_t lsn;        /* of page 0 */
};

/**
 * Judge who a file is: the first sector of page 0.
 *
 * @param info  set on success
 * @return FIRN_OK; FIRN_E_NOT_FOUND, raised: it has no first page (it is being made, or was cut
 *         off); FIRN_E_CORRUPT, FIRN_E_UNSUPPORTED as space_scan; what reading returns
 */
firn_rc space_file_identify(const struct space_file *file, struct space_file_info *info);

/** Learn of which environment a tablespace's file is, and its pages' size, from nothing but the
 * file. @return FIRN_OK; FIRN_E_CORRUPT, without an error text: it does not say */
firn_rc space_file_guess(struct io_system *system, const char *path, uint8_t environment[16],
                         uint32_t *page_size_bytes);

/**
 * Tell which pages of a file its maps say are in use: for pages that were never written.
 *
 * @param in_use  a bit for each of info->file_pages, zeroed; set as far as maps can be read
 */
firn_rc space_file_in_use(const struct space_file *file, const struct space_file_info *info,
                          uint8_t *in_use);

/** @return the size of the name before ".firn" if an entry of a directory is named as a tablespace,
 * else 0. */
size_t space_file_name_bytes(const char *entry);

/* ---- For recovery ---- */

/** Repeat a CHANGE_SPACE_* record: in the order of the log, and before changes of pages of that
 * tablespace that follow it. Changes of a tablespace that is not there (space_has) are skipped: its
 * CHANGE_SPACE_DROP follows. @param lsn where the record's frame begins or ends */
firn_rc space_redo(struct space_set *set, const struct change *change, uint64_t lsn);

/** Does a page lie in a tablespace that is there? Recovery skips changes of one that was dropped
 * later. @return FIRN_OK, FIRN_E_NOT_FOUND without an error text */
firn_rc space_has(struct space_set *set, uint64_t page_id);

/** Grow a file so that it holds a page, with pages of zeros. FIRN_E_CORRUPT if it lacks what it
 * had at the checkpoint; FIRN_E_NOSPACE, ... */
firn_rc space_reach(struct space_set *set, uint64_t page_id);

/**
 * Make durable what lies in the files of all tablespaces: a process that died may have left pages
 * there that it had not synced. Before the log is repeated, which passes over what is there.
 *
 * @return FIRN_OK; what io_sync returns
 */
firn_rc space_sync(struct space_set *set);

/**
 * After recovery, and before anything else when there was nothing to recover: judge first pages,
 * make files as long as these say.
 *
 * @return FIRN_OK; FIRN_E_CORRUPT naming a file that was cut off, has no first page or a damaged
 *         one; FIRN_E_NOSPACE, ...
 */
firn_rc space_recovered(struct space_set *set);

#endif
