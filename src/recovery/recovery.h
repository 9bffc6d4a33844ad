/*
 * recovery.h -- from what a crash left to what was committed.
 *
 * 1. Put back torn pages from the doublewrite file. 2. Read the log from the checkpoint to its end
 * and repeat each change on its page, unless the page's LSN says that it is there already: by page,
 * in parallel, in bounded memory. Nothing is written that a second crash could not repeat: the
 * checkpoint stays where it is until the pages are durable.
 */
#ifndef FIRN_RECOVERY_RECOVERY_H
#define FIRN_RECOVERY_RECOVERY_H

#include "buffer/buffer.h"
#include "redo/redo.h"
#include "space/space.h"

/** Where recovery is. */
struct recovery_progress {
    const char *phase;   /* "doublewrite", "reading the log" (its end is being estimated),
                            "applying" */
    uint64_t done_bytes; /* of log, read and handed to those who apply */
    uint64_t total_bytes;
};
typedef void recovery_progress_function(const struct recovery_progress *progress, void *context);

/** Takes what the binary log has in the log (CHANGE_BINLOG), in the order of the log. */
typedef firn_rc recovery_binlog_function(const struct change *change, void *context);

struct recovery_options {
    struct redo *redo;
    struct buffer_pool *pool;
    struct space_set *spaces;
    unsigned threads;                     /* that apply; 1 applies in the calling thread */
    uint64_t memory_bytes;                /* for records waiting to be applied */
    recovery_progress_function *progress; /* or NULL; called at most every 100 ms or so */
    void *progress_context;
    recovery_binlog_function *binlog; /* or NULL: such records are passed over */
    void *binlog_context;
};

struct recovery_result {
    uint64_t log_bytes;
    uint64_t frames;
    uint64_t records;
    uint64_t records_applied;
    uint64_t pages;          /* that records were applied to; a page counts once for each batch of
                                records that changed it */
    unsigned pages_repaired; /* from the doublewrite file */
    bool was_clean;          /* nothing was in the log behind the checkpoint */
    uint64_t end_lsn;
};

/**
 * Recover; on success the pool's pages are right. The log is as it was: redo_recovered, with the
 * result's end_lsn, lets it take appends once the caller has seen that all is there.
 *
 * @return FIRN_OK; FIRN_E_CORRUPT naming what is damaged; FIRN_E_IO, FIRN_E_NOMEM. After a failure
 * the environment is as recoverable as before.
 */
firn_rc recovery_run(const struct recovery_options *options, struct recovery_result *result);

#endif
