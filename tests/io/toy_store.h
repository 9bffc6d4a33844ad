/*
 * toy_store.h -- a small transactional store on io.h: the smallest thing that has what an engine
 * has, a write-ahead log, pages written in place behind a doublewrite file, and a log switch by
 * rename. If the simulated disk is fair this survives every cut; without any one of its syncs it
 * must not.
 *
 * A transaction sets TOY_KEYS keys to one value. It is acknowledged when its log record is synced.
 * A checkpoint writes the pages to "dw" and syncs it, then in place and syncs them, then starts a
 * new log "log.new" and renames it over "log". Opening repairs torn pages from "dw", applies the
 * log and checkpoints. While there is no "log" the store has not been made yet.
 */
#ifndef FIRN_TESTS_IO_TOY_STORE_H
#define FIRN_TESTS_IO_TOY_STORE_H

#include "base/checksum.h"
#include "io/sim_support.h"

enum {
    TOY_PAGES = 4,
    TOY_SLOTS = 8, /* values a page */
    TOY_KEYS = 3,  /* a transaction sets */
    TOY_MAGIC = 0x46495254,
};

/** The sync that a canary leaves out. */
enum toy_missing {
    TOY_COMPLETE,
    TOY_NO_LOG_SYNC,
    TOY_NO_DOUBLEWRITE_SYNC,
    TOY_NO_PAGE_SYNC,
    TOY_EARLY_PAGE_SYNC, /* submitted together with the writes it is to cover */
    TOY_NO_NEW_LOG_SYNC,
    TOY_NO_RENAME_SYNC,
    TOY_NO_CREATION_SYNC,
    TOY_MISSING_COUNT,
};

struct toy_page {
    uint32_t checksum; /* of what follows */
    uint32_t number;
    uint64_t sequence; /* of the last transaction in it */
    uint64_t values[TOY_SLOTS];
    uint8_t rest[1024 - 16 - 8 * TOY_SLOTS]; /* filled, so that each sector matters */
};

/* Longer than a sector, so that it can be torn. The first one of a log sets no keys. */
struct toy_record {
    uint32_t checksum; /* of what follows */
    uint32_t magic;
    uint64_t sequence;
    uint32_t keys[TOY_KEYS];
    uint32_t key_count;
    uint64_t value;
    uint8_t rest[700 - 40];
    uint32_t unused;
};

struct toy {
    struct io_system *system;
    struct io_file *pages_file;
    struct io_file *doublewrite;
    struct io_file *log;
    struct io_queue *queue;
    enum toy_missing missing;
    uint64_t sequence;
    uint64_t log_end;
    struct toy_page pages[TOY_PAGES];
};

/* ---- Transactions ---- */

static inline uint32_t toy_checksum(const void *item, size_t size_bytes)
{
    return checksum_crc32c((const uint8_t *)item + 4, size_bytes - 4);
}

/** What the n-th transaction does. */
static inline void toy_make_record(struct toy_record *record, uint64_t sequence, bool is_first)
{
    memset(record, (int)sequence, sizeof(*record));
    record->magic = TOY_MAGIC;
    record->sequence = sequence;
    record->key_count = is_first ? 0 : TOY_KEYS;
    record->value = sequence * 1000;
    for (uint32_t i = 0; i < TOY_KEYS; i++)
        record->keys[i] = (uint32_t)(sequence * 5 + i * 11) % (TOY_PAGES * TOY_SLOTS);
    record->checksum = toy_checksum(record, sizeof(*record));
}

static inline void toy_apply(struct toy_page pages[TOY_PAGES], const struct toy_record *record)
{
    for (uint32_t i = 0; i < record->key_count; i++) {
        struct toy_page *page = &pages[record->keys[i] / TOY_SLOTS];
        page->values[record->keys[i] % TOY_SLOTS] = record->value;
        page->sequence = record->sequence;
        memset(page->rest, (int)record->sequence, sizeof(page->rest));
    }
}

static inline void toy_init_pages(struct toy_page pages[TOY_PAGES])
{
    memset(pages, 0, TOY_PAGES * sizeof(pages[0]));
    for (uint32_t i = 0; i < TOY_PAGES; i++)
        pages[i].number = i;
}

/** Are the values those of so many transactions in order? */
static inline bool toy_is_after(const struct toy *toy, uint64_t sequence)
{
    struct toy_page pages[TOY_PAGES];
    toy_init_pages(pages);
    for (uint64_t i = 1; i <= sequence; i++) {
        struct toy_record record;
        toy_make_record(&record, i, false);
        toy_apply(pages, &record);
    }
    for (unsigned i = 0; i < TOY_PAGES; i++)
        if (memcmp(pages[i].values, toy->pages[i].values, sizeof(pages[i].values)) != 0)
            return false;
    return true;
}

/* ---- Syncs, which a canary leaves out ---- */

static inline firn_rc toy_sync(struct toy *toy, struct io_file *file, enum toy_missing point)
{
    return toy->missing == point ? FIRN_OK : io_sync(file, IO_SYNC_DATA);
}

static inline firn_rc toy_sync_directory(struct toy *toy, enum toy_missing point)
{
    return toy->missing == point ? FIRN_OK : io_sync_directory(toy->system, "/");
}

/* ---- Checkpoint ---- */

/* Write the pages through the queue, reap, and only then sync. */
static inline firn_rc toy_write_pages(struct toy *toy)
{
    struct io_request requests[TOY_PAGES + 1];
    struct io_request *pointers[TOY_PAGES + 1];
    struct io_request *done[TOY_PAGES + 1];
    memset(requests, 0, sizeof(requests));
    for (unsigned i = 0; i <= TOY_PAGES; i++) {
        requests[i].file = toy->pages_file;
        requests[i].op = i < TOY_PAGES ? IO_OP_WRITE : IO_OP_SYNC_DATA;
        if (i < TOY_PAGES) {
            requests[i].buffer = &toy->pages[i];
            requests[i].size_bytes = sizeof(toy->pages[i]);
            requests[i].offset = i * sizeof(toy->pages[i]);
        }
        pointers[i] = &requests[i];
    }
    bool together = toy->missing == TOY_EARLY_PAGE_SYNC;
    unsigned count = TOY_PAGES + (unsigned)together;
    FIRN_TRY(io_queue_submit(toy->queue, pointers, count));
    io_queue_reap(toy->queue, count, count, done);
    for (unsigned i = 0; i < count; i++)
        if (requests[i].rc != FIRN_OK)
            return io_request_raise(&requests[i]);
    if (together || toy->missing == TOY_NO_PAGE_SYNC)
        return FIRN_OK;
    FIRN_TRY(io_queue_submit(toy->queue, &pointers[TOY_PAGES], 1));
    io_queue_reap(toy->queue, 1, 1, done);
    return requests[TOY_PAGES].rc;
}

/* Start a log that continues from here, in place of the old one. */
static inline firn_rc toy_switch_log(struct toy *toy)
{
    struct io_file *log = NULL;
    struct toy_record record;
    firn_rc rc;
    toy_make_record(&record, toy->sequence, true);
    FIRN_TRY(io_file_open(toy->system, IO_CLASS_REDO, "log.new", IO_OPEN_CREATE | IO_OPEN_TRUNCATE,
                          &log));
    FIRN_TRY_GOTO(io_write(log, &record, sizeof(record), 0), failed);
    FIRN_TRY_GOTO(toy_sync(toy, log, TOY_NO_NEW_LOG_SYNC), failed);
    FIRN_TRY_GOTO(io_rename(toy->system, "log.new", "log"), failed);
    FIRN_TRY_GOTO(toy_sync_directory(toy, TOY_NO_RENAME_SYNC), failed);
    struct io_file *old = toy->log;
    toy->log = log;
    toy->log_end = sizeof(record);
    return old != NULL ? io_file_close(old) : FIRN_OK;
failed:
    io_file_close(log);
    return rc;
}

static inline firn_rc toy_checkpoint(struct toy *toy)
{
    for (unsigned i = 0; i < TOY_PAGES; i++)
        toy->pages[i].checksum = toy_checksum(&toy->pages[i], sizeof(toy->pages[i]));
    FIRN_TRY(io_write(toy->doublewrite, toy->pages, sizeof(toy->pages), 0));
    FIRN_TRY(toy_sync(toy, toy->doublewrite, TOY_NO_DOUBLEWRITE_SYNC));
    FIRN_TRY(toy_write_pages(toy));
    return toy_switch_log(toy);
}

/* ---- Opening ---- */

static inline firn_rc toy_create(struct toy *toy)
{
    toy_init_pages(toy->pages);
    for (unsigned i = 0; i < TOY_PAGES; i++)
        toy->pages[i].checksum = toy_checksum(&toy->pages[i], sizeof(toy->pages[i]));
    FIRN_TRY(io_write(toy->doublewrite, toy->pages, sizeof(toy->pages), 0));
    FIRN_TRY(io_write(toy->pages_file, toy->pages, sizeof(toy->pages), 0));
    FIRN_TRY(io_sync(toy->doublewrite, IO_SYNC_ALL));
    FIRN_TRY(io_sync(toy->pages_file, IO_SYNC_ALL));
    FIRN_TRY(toy_sync_directory(toy, TOY_NO_CREATION_SYNC));
    return toy_switch_log(toy);
}

/* Read the pages; a torn one is whole in the doublewrite file. */
static inline firn_rc toy_load_pages(struct toy *toy)
{
    struct toy_page spare;
    for (uint32_t i = 0; i < TOY_PAGES; i++) {
        struct toy_page *page = &toy->pages[i];
        FIRN_TRY(io_read(toy->pages_file, page, sizeof(*page), i * sizeof(*page)));
        if (page->checksum == toy_checksum(page, sizeof(*page)) && page->number == i)
            continue;
        FIRN_TRY(io_read(toy->doublewrite, &spare, sizeof(spare), i * sizeof(spare)));
        if (spare.checksum != toy_checksum(&spare, sizeof(spare)) || spare.number != i)
            return rc_raise(FIRN_E_CORRUPT, "page %u is torn in both places", i);
        *page = spare;
    }
    return FIRN_OK;
}

/* Apply the log up to the first record that is not whole. */
static inline firn_rc toy_replay(struct toy *toy)
{
    struct toy_record record;
    for (uint64_t offset = 0;; offset += sizeof(record)) {
        firn_rc rc = io_read(toy->log, &record, sizeof(record), offset);
        bool valid = rc == FIRN_OK && record.magic == TOY_MAGIC &&
                     record.checksum == toy_checksum(&record, sizeof(record));
        if (rc != FIRN_OK && rc != FIRN_E_SHORT)
            return rc;
        if (offset == 0 && !valid)
            return rc_raise(FIRN_E_CORRUPT, "the log has no beginning");
        if (!valid || (offset > 0 && record.sequence != toy->sequence + 1))
            return FIRN_OK;
        toy->sequence = record.sequence;
        toy_apply(toy->pages, &record);
    }
}

static inline void toy_close(struct toy *toy)
{
    io_queue_close(toy->queue);
    if (toy->log != NULL)
        io_file_close(toy->log);
    if (toy->doublewrite != NULL)
        io_file_close(toy->doublewrite);
    if (toy->pages_file != NULL)
        io_file_close(toy->pages_file);
}

/** Open or make a store. On failure it is closed. */
static inline firn_rc toy_open(struct io_system *system, enum toy_missing missing, struct toy *toy)
{
    struct io_queue_options options = {.depth = TOY_PAGES + 1};
    *toy = (struct toy){.system = system, .missing = missing};
    firn_rc rc = io_file_open(system, IO_CLASS_REDO, "log", 0, &toy->log);
    bool exists = rc == FIRN_OK;
    if (!exists && rc != FIRN_E_NOT_FOUND)
        return rc;
    unsigned flags = exists ? 0 : IO_OPEN_CREATE | IO_OPEN_TRUNCATE;
    FIRN_TRY_GOTO(io_file_open(system, IO_CLASS_TABLE, "pages", flags, &toy->pages_file), failed);
    FIRN_TRY_GOTO(io_file_open(system, IO_CLASS_DOUBLEWRITE, "dw", flags, &toy->doublewrite),
                  failed);
    FIRN_TRY_GOTO(io_queue_open(system, &options, &toy->queue), failed);
    if (!exists) {
        FIRN_TRY_GOTO(toy_create(toy), failed);
        return FIRN_OK;
    }
    FIRN_TRY_GOTO(toy_load_pages(toy), failed);
    FIRN_TRY_GOTO(toy_replay(toy), failed);
    FIRN_TRY_GOTO(toy_checkpoint(toy), failed);
    return FIRN_OK;
failed:
    toy_close(toy);
    return rc;
}

/** Run the next transaction. After a failure the store must be closed. */
static inline firn_rc toy_commit(struct toy *toy)
{
    struct toy_record record;
    toy_make_record(&record, toy->sequence + 1, false);
    FIRN_TRY(io_write(toy->log, &record, sizeof(record), toy->log_end));
    FIRN_TRY(toy_sync(toy, toy->log, TOY_NO_LOG_SYNC));
    toy->log_end += sizeof(record);
    toy->sequence++;
    toy_apply(toy->pages, &record);
    return FIRN_OK;
}

#endif
