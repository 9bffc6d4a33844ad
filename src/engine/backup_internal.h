/*
 * backup_internal.h -- the parts of backups: taking one (backup.c) with its pages (backup_pages.c)
 * and its log (backup_log.c), what lies in one (backup_manifest.c), many threads over its MiBs
 * (backup_work.c), verifying (backup_verify.c), restoring (restore.c).
 */
#ifndef FIRN_ENGINE_BACKUP_INTERNAL_H
#define FIRN_ENGINE_BACKUP_INTERNAL_H

#include "engine/backup.h"
#include "engine/store_internal.h"

#define BACKUP_FILE      "firn.backup"
#define BACKUP_FILE_NEW  "firn.backup.new"
#define BACKUP_SUMS_FILE "firn.sums"
#define BACKUP_LOG_FILE  "firn.log"

enum {
    BACKUP_CHUNK_BYTES = 1 << 20, /* has a checksum */
    BACKUP_BLOCK_BYTES = 4096,    /* buffers are aligned to it */
    BACKUP_THREADS_MAX = 64,
};

/* ---- What lies in a backup: backup_manifest.c ---- */

/** A file of a backup, and where it comes from or goes to. */
struct backup_file {
    char *name; /* of the tablespace; NULL: the log's */
    uint32_t space;
    enum io_class class;
    uint64_t size_bytes;
    uint64_t first_chunk; /* its first checksum in backup_manifest.sums */
    uint32_t checksum;    /* of its chunks' checksums */

    /* While it is copied or read. */
    char *from_path;
    char *to_path; /* NULL: it is only read */
    struct io_system *from_system;
    struct io_system *to_system;
    struct io_file *from; /* opened by the first who needs it */
    struct io_file *to;
    uint64_t chunks_done;
    bool is_gone; /* dropped while it was copied, or cannot be read */
};

/** What firn.backup and firn.sums say. */
struct backup_manifest {
    uint8_t id[16];
    uint32_t page_size_bytes;
    struct redo_copy_start start;
    uint64_t end_lsn;
    uint64_t log_file_size_bytes; /* of the environment, to be made so again */
    uint32_t log_files;
    char begun[24];
    char ended[24];
    struct backup_file *files; /* the last one is the log */
    size_t file_count;
    size_t file_capacity;
    uint32_t *sums; /* CRC-32C of each chunk of each file */
    uint64_t sum_count;
    uint64_t sum_capacity;
};

/** Free what a manifest holds; files are closed. */
void backup_manifest_free(struct backup_manifest *manifest);

/** Add a file. @param name  copied; NULL: the log @param file  set on success */
firn_rc backup_manifest_add(struct backup_manifest *manifest, const char *name,
                            struct backup_file **file);

/** Have room for so many checksums. */
firn_rc backup_manifest_reserve(struct backup_manifest *manifest, uint64_t sum_count);

/** Forget the files behind the first ones. */
void backup_manifest_truncate(struct backup_manifest *manifest, size_t file_count);

/** Write firn.sums and, behind all else, firn.backup: durable on return. @param store whose it is
 */
firn_rc backup_manifest_write(struct backup_manifest *manifest, const struct store *store,
                              struct io_system *system, const char *directory);

/** Say that a backup is begun: what makes one that was not finished known as such. */
firn_rc backup_manifest_begin(struct io_system *system, const char *directory);

/**
 * Read both files.
 *
 * @param manifest  set on success; backup_manifest_free
 * @return FIRN_OK; FIRN_E_NOT_FOUND, raised: none, or one that was not finished; FIRN_E_CORRUPT,
 * ...
 */
firn_rc backup_manifest_read(struct io_system *system, const char *directory,
                             struct backup_manifest *manifest);

/** Tell what a backup is. */
void backup_manifest_info(const struct backup_manifest *manifest, struct backup_info *info);

/** @return how many chunks a size takes. */
static inline uint64_t backup_chunks(uint64_t size_bytes)
{
    return (size_bytes + BACKUP_CHUNK_BYTES - 1) / BACKUP_CHUNK_BYTES;
}

/** @return the checksum of a file: of its chunks' checksums, as they stand in firn.sums. */
uint32_t backup_file_checksum(const struct backup_manifest *manifest,
                              const struct backup_file *file);

/** @return the path of a file in a backup, to be freed with memory_free; NULL, raised. */
char *backup_file_path(const char *directory, const struct backup_file *file);

/** @return the path of a tablespace's file, to be freed with memory_free; NULL, raised. */
char *backup_space_path(const char *directory, const char *name);

/* ---- Checksums of a file that comes in pieces, in order ---- */

struct backup_sums {
    uint64_t size_bytes; /* so far */
    uint32_t checksum;   /* of the chunk that is not whole yet */
};

/** Called when a chunk's checksum is known. */
typedef firn_rc backup_sum_function(uint64_t chunk, uint32_t checksum, void *context);

/** Go on with some bytes. */
firn_rc backup_sums_add(struct backup_sums *sums, const uint8_t *bytes, uint64_t size_bytes,
                        backup_sum_function *function, void *context);

/** The file has ended: the last chunk, if it is not whole. */
firn_rc backup_sums_end(struct backup_sums *sums, backup_sum_function *function, void *context);

/* ---- Many threads over chunks: backup_work.c ---- */

/** Chunks to be worked on. Fill the first part, zero the rest. */
struct backup_work {
    const struct backup_options *options; /* threads, progress, stop */
    const char *phase;
    struct backup_file *files; /* with their first_chunk, ascending */
    size_t file_count;
    /** Work on a chunk of a file that is open. Any thread. @param buffer  BACKUP_CHUNK_BYTES,
     * aligned */
    firn_rc (*chunk)(struct backup_file *file, uint64_t offset, uint32_t size_bytes,
                     uint8_t *buffer, void *context);
    /** A file could not be opened, or a chunk not be worked on, as rc and the error text say.
     * @return FIRN_OK to leave the rest of the file out */
    firn_rc (*failed)(struct backup_file *file, firn_rc rc, void *context);
    void *context;

    pthread_mutex_t mutex; /* protects files' handles, all below */
    uint64_t next_chunk;
    uint64_t chunk_count;
    uint64_t done_bytes;
    uint64_t total_bytes;
    firn_rc rc;                 /* the first failure ... */
    char text[1024];            /* ... and its sentence */
    pthread_mutex_t tell_mutex; /* who tells progress has it */
};

/** Work on all chunks. Files are opened when they are needed, what was written to is synced and all
 * is closed. @return the first failure, raised */
firn_rc backup_work_run(struct backup_work *work);

/** @return FIRN_E_CANCELLED, raised, if somebody wants work to end. */
firn_rc backup_check_stop(const struct backup_options *options);

/* ---- The backup being taken ---- */

struct backup_log {
    struct redo_copy *copy;
    struct io_file *file;
    struct backup_sums sums;
    uint32_t *chunk_sums;
    uint64_t chunk_count;
    uint64_t chunk_capacity;
    uint64_t follow_bytes; /* so much may be left to copy */
    pthread_mutex_t mutex; /* who copies log has it */
};

struct backup {
    struct store *store;
    const struct backup_options *options;
    struct io_system *system; /* of the target */
    struct io_system *own_system;
    struct clock *clock;
    char *directory;
    struct io_lock *lock;
    bool made; /* the directory */
    bool begun;
    struct backup_manifest manifest;
    struct backup_log log;
    pthread_mutex_t pace_mutex; /* protects: */
    uint64_t next_ns;           /* when the next chunk may be read */
};

/* ---- backup_pages.c ---- */

/** List the tablespaces' files, and copy them. */
firn_rc backup_copy_pages(struct backup *backup);

/* ---- backup_log.c ---- */

/** Begin the copy of the log. Before files are listed. */
firn_rc backup_log_begin(struct backup *backup);

/** Copy log if much of it has not been. Any thread; waits for another one that does. */
firn_rc backup_log_follow(struct backup *backup);

/** Make the log durable, copy it to there, end the copy. Behind all pages. */
firn_rc backup_log_finish(struct backup *backup);

/** Close and free what the copy of the log needs. */
void backup_log_close(struct backup *backup);

/* ---- backup_verify.c ---- */

/** Open the device of a backup that is there. @param own  NULL, or to be closed */
firn_rc backup_open_system(const struct backup_options *options, struct io_system **system,
                           struct io_system **own);

/** Read all of a backup whose manifest has been read. As backup_verify. */
firn_rc backup_verify_files(const struct backup_options *options, struct io_system *system,
                            struct backup_manifest *manifest, finding_report *report);

#endif
