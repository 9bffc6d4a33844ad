/*
 * store_check_internal.h -- a check under way: shared by the reading of pages (store_check_pages.c)
 * and the judging of what they hold (store_check.c).
 */
#ifndef FIRN_ENGINE_STORE_CHECK_INTERNAL_H
#define FIRN_ENGINE_STORE_CHECK_INTERNAL_H

#include "engine/store_internal.h"

/** Whose a page is, as a small number: below CHECK_OWNER_TREE these, then the trees in order. */
enum {
    CHECK_OWNER_NONE = 0,
    CHECK_OWNER_SPACE = 1, /* page 0 and map pages */
    CHECK_OWNER_LIMBO = 2,
    CHECK_OWNER_UNDO = 3,
    CHECK_OWNER_CATALOG = 4,
    CHECK_OWNER_TREE = 5,
};
#define CHECK_OWNER_UNKNOWN UINT32_MAX

/** A tablespace that is being checked. */
struct check_space {
    uint32_t space;
    enum io_class class;
    uint32_t pages;
    char *name;
    char *path;
    uint64_t first_chunk;  /* of all spaces' chunks, for the threads that read */
    uint32_t *owners;      /* of each page */
    bool owners_are_known; /* the map pages could be read */
    atomic_uchar *reached; /* a bit for each page */
};

/** A tree that is being checked. */
struct check_tree {
    char *name;
    struct btree *tree;
    uint64_t index_id;
    uint32_t space;
    bool is_whole; /* no problem was found in it: then what it does not reach is lost */
};

struct store_check {
    struct store *store;
    unsigned threads;
    finding_report *report;
    recovery_progress_function *progress; /* or NULL */
    void *context;
    struct check_space *spaces; /* by ascending number */
    size_t space_count;
    size_t space_capacity;
    struct check_tree *trees; /* the catalog first */
    size_t tree_count;
    bool undo_is_whole;
    uint64_t chunk_count;
    uint64_t total_bytes; /* of the phase under way */
    const char *phase;
    atomic_ulong done_bytes;
    atomic_ulong pages;
    pthread_mutex_t mutex; /* protects what follows; findings and progress are told under it */
    uint64_t problems;
    uint64_t told_ns;
    firn_rc rc; /* the first failure that ends the check, and its sentence */
    char text[512];
};

/** Tell a damage. Any thread. @param space, page_no  where; NULL and PAGE_NONE where it has no
 * place */
void check_tell(struct store_check *check, const struct check_space *space, uint32_t page_no,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

/** Begin a phase of so many bytes of pages. */
void check_begin_phase(struct store_check *check, const char *phase, uint64_t total_bytes);

/** Count bytes of pages as done, and say so now and then. Any thread. */
void check_advance(struct store_check *check, uint64_t size_bytes);

/** Keep a failure that ends the check. Any thread. */
void check_fail(struct store_check *check, firn_rc rc);

/** Read and verify every page of every tablespace on its device, by check->threads threads. */
firn_rc check_read_pages(struct store_check *check);

/** Hold the rows of every table against its indexes. */
firn_rc check_tables(struct store_check *check);

#endif
