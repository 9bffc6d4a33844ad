/*
 * files_check_internal.h -- a check of files as they lie there: finding and judging them
 * (files_check.c), what recovery would put right (files_mend.c), their pages (files_pages.c).
 */
#ifndef FIRN_ENGINE_FILES_CHECK_INTERNAL_H
#define FIRN_ENGINE_FILES_CHECK_INTERNAL_H

#include "engine/store_internal.h"

/** A file with a tablespace's name. */
struct files_space {
    char *path;
    char *name; /* without ".firn" */
    unsigned directory;
    bool is_good; /* it says who it is, and is in its place: its pages can be judged */
    struct space_file_info info;
    uint64_t first_chunk; /* of all files' chunks, for the threads that read */
    uint8_t *in_use;      /* a bit for each page; NULL: not known */
};

/** What the log says of pages and tablespaces that recovery makes anew. */
struct files_mended {
    uint64_t *page_ids; /* in order once files_mend has run */
    size_t page_count;
    size_t page_capacity;
    char **made; /* names of tablespaces */
    size_t made_count;
    size_t made_capacity;
    uint32_t *dropped; /* numbers of tablespaces */
    size_t dropped_count;
    size_t dropped_capacity;
};

struct files_check {
    struct store *store; /* options, environment, directories; nothing else of it is open */
    unsigned threads;
    finding_report *report;
    recovery_progress_function *progress; /* or NULL */
    void *context;
    bool is_mute; /* what is found has been told by an earlier call */
    struct store_files_result *result;
    struct redo_check_result log;
    struct files_space *spaces;
    size_t space_count;
    size_t space_capacity;
    struct files_mended mended;
    pthread_mutex_t mutex; /* protects report, progress and result while threads read */
    firn_rc rc;            /* the first failure in a callback */
};

/** Tell a finding. Any thread. */
void files_tell(struct files_check *check, enum finding_severity severity, const char *path,
                uint64_t page, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/** Tell what a failed call said: damage, or that something could not be looked at. @return
 * FIRN_E_NOMEM if it was that; else FIRN_OK */
firn_rc files_tell_failure(struct files_check *check, const char *path, firn_rc rc);

/** Have room for one more in an array. @return FIRN_E_NOMEM, raised */
firn_rc files_grow(void *array, size_t count, size_t *capacity, size_t size_bytes);

/** @return what belongs to a tablespace's file, for src/space. */
struct space_file files_space_file(const struct files_check *check,
                                   const struct files_space *space);

/** Note what a frame of the log makes anew. A redo_check_frame; the context is the check. */
void files_mend_frame(struct span body, void *context);

/** Judge the doublewrite file; with pages, find out which it would put back. */
firn_rc files_mend(struct files_check *check, bool with_pages);

/** @return whether recovery puts a page right, whatever lies in its place. */
bool files_is_mended(const struct files_check *check, uint64_t page_id);

/** @return whether recovery makes, or removes, a tablespace. */
bool files_is_made(const struct files_check *check, const char *name);
bool files_is_dropped(const struct files_check *check, uint32_t space);

/** Free what was noted. */
void files_mend_free(struct files_mended *mended);

/** Read and judge all pages of the tablespaces that are good. */
firn_rc files_check_pages(struct files_check *check);

#endif
