/*
 * kv.h -- what kvbench asks of a storage engine: one driver a file, one table of functions each.
 *
 * Drivers are thin: they hold what an engine's manual tells a user to write, and nothing is
 * measured in them. A failure of an engine ends the program with a sentence (kv_die): there is no
 * figure to be had from a run that failed. Rows are kv_rows.h's; keys are KV_KEY_BYTES long, values
 * KV_VALUE_BYTES.
 */
#ifndef KV_H
#define KV_H

#include "kv_rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What has happened to a commit when the call returns; InnoDB's flush_log_at_commit. */
enum kv_durability {
    KV_BUFFERED, /* 0: in the process's memory, written about each second: kill -9 loses it */
    KV_SYNCED,   /* 1: on the device: a power cut does not lose it */
    KV_WRITTEN,  /* 2: handed to the operating system: kill -9 does not lose it */
};

struct kv_options {
    const char *directory;
    uint64_t cache_bytes; /* everything the engine may keep in memory of the data */
    uint64_t log_bytes;   /* checkpoint before the log grows beyond this */
    uint32_t page_bytes;
    unsigned threads; /* sessions that will be open at the same time */
    enum kv_durability durability;
    bool cold;       /* the data is larger than the cache: nothing may be cached beside it */
    bool reads_only; /* the workload writes nothing */
    bool keep_log;   /* no checkpoint and no flush: the log grows as long as the process lives */
};

struct kv_driver {
    const char *name;
    bool has_log; /* recovers by replaying a log */
    bool direct;  /* reads past the page cache when cold; the others get a memory limit of `run` */

    /** @return the engine's version; valid as long as the process lives. */
    const char *(*version)(void);

    /** Open the store in an existing directory; recover it, or create it if it is empty. */
    void *(*open)(const struct kv_options *options);
    /** Close cleanly: afterwards opening needs no recovery. */
    void (*close)(void *env);

    /** A session belongs to one thread; it is closed before the store. */
    void *(*session_open)(void *env);
    void (*session_close)(void *session);

    /** Copy the value of a key; false if there is none. One transaction, or none where that is how
     * the engine is used. */
    bool (*get)(void *session, const uint8_t *key, uint8_t *value);
    /** Insert or overwrite one row: one transaction. */
    void (*put)(void *session, const uint8_t *key, const uint8_t *value);
    /** Read a row, kv_row_increment() it, write it: one transaction in which no other change to the
     * row is lost. */
    void (*increment)(void *session, const uint8_t *key);
    /** Insert or overwrite rows[0 .. count): one transaction. */
    void (*load)(void *session, const struct kv_row *rows, size_t count);
    /** Visit all rows in key order with kv_row_visit(). @return their number. */
    uint64_t (*scan)(void *session, uint64_t *sum);

    /** Called about each 100 ms while a workload runs: checkpoints of engines that leave them to
     * the caller. NULL if there is nothing to do. */
    void (*tick)(void *env);
    /** @return bytes of log that a recovery from now would read. NULL without a log. */
    uint64_t (*log_bytes)(void *env);
};

extern const struct kv_driver kv_lmdb, kv_wiredtiger, kv_rocksdb, kv_rocksdb_txn, kv_sqlite, kv_bdb,
    kv_firn, kv_firn_txn;

/** Say what failed and end the process. */
_Noreturn void kv_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** @return size_bytes of zeroed memory; ends the process if there is none. */
void *kv_alloc(size_t size_bytes);

/** @return the sum of the sizes of the files in a directory whose names start and end so. */
uint64_t kv_files_bytes(const char *directory, const char *prefix, const char *suffix);

#endif
