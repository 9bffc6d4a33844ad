/*
 * build_internal.h -- a bulk build: what is open of each level, and the pages that it takes.
 */
#ifndef FIRN_BTREE_BUILD_INTERNAL_H
#define FIRN_BTREE_BUILD_INTERNAL_H

#include "btree/blob_internal.h"

enum {
    BUILD_FILL_MIN = 50,
    BUILD_RUN_PAGES = 32,                /* allocated and initialised in one mini-transaction */
    BUILD_BLOB_ENTRY = BTREE_HEIGHT_MAX, /* of the claim; those before it are the levels' */
    BUILD_ENTRIES = BTREE_HEIGHT_MAX + 1,
};

/** A level: its open node, and its pages. */
struct build_level {
    uint8_t *lower; /* the open node's lower fence */
    size_t lower_bytes;
    uint8_t *upper; /* while it is closed */
    uint8_t *cells; /* its cells, packed */
    size_t cells_bytes;
    size_t count;
    size_t key_bytes; /* of them, whole keys */
    size_t value_bytes;
    uint8_t *packed_key; /* the last of them */
    size_t packed_key_bytes;

    bool has_pending; /* the cell behind them, which fits in with them or begins the next node */
    unsigned pending_flags;
    uint8_t *pending_key;
    size_t pending_key_bytes;
    uint8_t *pending_value;
    size_t pending_value_bytes;

    uint32_t page_no;     /* the open node's page, PAGE_NONE while it is the level's only node */
    uint32_t prev;        /* the node before it */
    uint32_t tail;        /* the last page of the last run, PAGE_NONE before the first */
    uint32_t next_in_run; /* the next page to be taken */
    uint32_t left_in_run;
    uint32_t run_pages; /* how many the last run had */
};

struct btree_build {
    struct btree_session *session;
    struct btree *tree;
    size_t fill_bytes; /* of a page */
    struct btree_claim claim;
    uint32_t blob_tail;
    uint64_t rows;
    bool has_failed;
    unsigned height; /* levels with memory */
    struct build_level levels[BTREE_HEIGHT_MAX];
};

/** Take the next page of a level; it is linked behind the one before. */
firn_rc build_take_page(struct btree_build *build, unsigned level, uint32_t *page_no);

/** Write a level's open node to its page. */
firn_rc build_write_node(struct btree_build *build, unsigned level, struct slotted_bounds *bounds);

/** Free the pages of a level's last run that were not taken. */
firn_rc build_trim_run(struct btree_build *build, unsigned level);

#endif
