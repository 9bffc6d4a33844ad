/*
 * backup.h -- a copy of an environment, taken while others write, and an environment made of it.
 *
 * A backup is a directory: each tablespace's file as it lay there, each page whole but each of its
 * own moment; the log from a checkpoint before the first of these moments to an LSN behind the last
 * one; and firn.backup, written last, which says what belongs to it and what the checksum of each
 * MiB is. Restored, it is an environment that recovery brings to that LSN, with everything that was
 * acknowledged before it and nothing later. README.md argues why.
 */
#ifndef FIRN_ENGINE_BACKUP_H
#define FIRN_ENGINE_BACKUP_H

#include "engine/store.h"

/** Where a backup lies, and how it is worked on. */
struct backup_options {
    const char *directory;    /* of the backup */
    struct io_system *system; /* its device, the caller's; NULL: real files */
    enum io_backend io_backend;
    bool direct;               /* past the page cache */
    unsigned threads;          /* that copy or read; 0 and 1: the calling one */
    uint64_t throttle_bytes_s; /* of tablespaces' bytes, at most; 0: as fast as it goes. Log is not
                                  counted: it must be copied as fast as it grows. */
    recovery_progress_function *progress; /* or NULL; called behind each MiB, by one thread at a
                                             time */
    void *progress_context;
    const atomic_bool *stop; /* or NULL; set by others: end with FIRN_E_CANCELLED */
};

/** Set the defaults: direct, one thread; a directory is still missing. */
void backup_options_init(struct backup_options *options);

/** What a backup is. */
struct backup_info {
    uint64_t files; /* tablespaces */
    uint64_t bytes; /* of them */
    uint64_t log_bytes;
    uint64_t checkpoint_lsn; /* recovery begins there ... */
    uint64_t end_lsn;        /* ... and ends there: what the backup restores to */
    uint32_t page_size_bytes;
    char begun[24]; /* "2031-05-04T12:30:00Z" */
    char ended[24];
};

/**
 * Back up a store that is open, while any threads read and write. Nobody waits for it: pages are
 * read past the pool, checkpoints go on, tablespaces are made, dropped and grown; only the ends of
 * files are not cut off meanwhile (space_hold_sizes). A store that was opened read_only is backed
 * up too.
 *
 * @param options  its directory is made if missing, and must be empty
 * @param info     set on success
 * @return FIRN_OK: the backup is durable; FIRN_E_EXISTS (the directory is not empty); FIRN_E_BUSY
 *         (the log grew faster than it could be copied, or somebody else uses the directory);
 *         FIRN_E_CORRUPT naming what is damaged in the store; FIRN_E_CANCELLED, FIRN_E_NOSPACE,
 *         FIRN_E_IO, ... Then what was copied is removed, as far as that goes; what stays says that
 *         it is no whole backup.
 */
firn_rc store_backup(struct store *store, const struct backup_options *options,
                     struct backup_info *info);

/**
 * Read all of a backup and hold it against its checksums.
 *
 * @param report   gets each damage, by one thread at a time; context is the options'
 *                 progress_context
 * @param info     set when firn.backup can be read
 * @return FIRN_OK; FIRN_E_CORRUPT: damage was reported; FIRN_E_NOT_FOUND (no backup there, or one
 *         that was not finished), FIRN_E_UNSUPPORTED, FIRN_E_CANCELLED, FIRN_E_NOMEM, ...
 */
firn_rc backup_verify(const struct backup_options *options, finding_report *report,
                      struct backup_info *info);

/**
 * Make an environment of a backup: verify it, copy it, recover it, close it. Nothing is an
 * environment before all is copied and durable; what was cut short before is removed by the next
 * restore into the same directory.
 *
 * @param options  of the backup
 * @param store    of the environment: its directory is made if missing, and must be empty; classes
 *                 lie in that directory but for those that have their own here; log_file_size and
 *                 log_files as they were where 0; page_size and create are not looked at
 * @param info     set on success
 * @param result   what recovery did; set on success
 * @return FIRN_OK: the environment is there, closed; FIRN_E_CORRUPT (the backup is damaged: nothing
 *         was made); FIRN_E_EXISTS (the directory is not empty); as backup_verify and store_open
 */
firn_rc store_restore(const struct backup_options *options, const struct store_options *store,
                      struct backup_info *info, struct recovery_result *result);

#endif
