/*
 * fileio_internal.h -- the parts of the fileio workload.
 *
 *   fileio.c          configuration, the run from opening to outcome
 *   fileio_files.c    the directory, its lock, the files and whether they are what was prepared
 *   fileio_sweep.c    prepare, verify, cleanup: all blocks of all files in order
 *   fileio_pattern.c  what to access next
 *   fileio_worker.c   one worker thread: carry out, time, record
 *   fileio_blocks.c   blocks that prove where they belong
 *   fileio_map.c      mmap mode
 */
#ifndef FIRN_BENCH_FILEIO_INTERNAL_H
#define FIRN_BENCH_FILEIO_INTERNAL_H

#include "bench/fileio.h"

#include <limits.h>
#include <stdatomic.h>

/* ---- Shape and storage (fileio_files.c) ---- */

/** What the files look like; follows from the configuration. */
struct fileio_shape {
    uint64_t file_num;
    uint64_t file_bytes;      /* --file-total-size / --file-num */
    uint64_t prepared_bytes;  /* that, in whole blocks */
    uint64_t blocks_per_file; /* whole ones within file_bytes */
    uint64_t total_blocks;
    uint32_t block_bytes;
};

/** @return the shape of a configuration whose file_num and file_block_size are not 0. */
struct fileio_shape fileio_shape_of(const struct fileio_config *config);

/** A directory that is locked, and the view of storage its files are opened through. */
struct fileio_storage {
    const char *directory;
    struct clock *clock;
    struct io_system *system;
    struct io_lock *lock; /* NULL where a reader may not write one */
    char model[64];       /* "" without a model */
};

enum fileio_storage_use {
    FILEIO_STORAGE_WRITES,
    FILEIO_STORAGE_READS, /* does without a lock where nothing can be written */
};

/**
 * Open the view of storage and lock the directory.
 *
 * @param modelled  for a run: put the configuration's device model around it
 */
firn_rc fileio_storage_open(const struct fileio_config *config, enum fileio_storage_use use,
                            bool modelled, struct fileio_storage *storage);
void fileio_storage_close(struct fileio_storage *storage);

/** Write the path of a file. FIRN_E_INVALID when it is too long. */
firn_rc fileio_path(const struct fileio_storage *storage, uint64_t number, char path[PATH_MAX]);

/** @return how many files a directory holds under our names, up to the highest number. */
firn_rc fileio_count_files(const struct fileio_storage *storage, uint64_t *count);

/** Open every file as a mode needs it and check that they are what the configuration says.
 * @param files  file_num of them, zeroed; what was opened is there also after a failure */
firn_rc fileio_open_files(const struct fileio_storage *storage, const struct fileio_config *config,
                          struct io_file **files);
void fileio_close_files(struct io_file **files, uint64_t count);

/** Open one file with the configuration's extra flags. FIRN_E_INVALID when direct I/O cannot do
 * with the block size. */
firn_rc fileio_open_file(const struct fileio_storage *storage, const struct fileio_config *config,
                         uint64_t number, unsigned flags, struct io_file **file);

/** One access. */
struct fileio_access {
    enum fileio_kind kind;
    uint32_t size_bytes; /* 0 for a sync */
    uint64_t file;
    uint64_t offset;
    uint64_t block; /* the first, counted over all files */
    uint32_t block_count;
};

/* ---- Blocks (fileio_blocks.c) ---- */

enum { BLOCK_MIN_BYTES = 512 };

/** What a block tells about itself. */
struct block_identity {
    uint64_t file;
    uint64_t offset;
    uint64_t sequence; /* no two writes have the same */
    uint64_t seed;     /* of the run */
    uint32_t writer;   /* thread */
};

enum block_state {
    BLOCK_SOUND,
    BLOCK_EMPTY,      /* all zero: never written */
    BLOCK_FOREIGN,    /* nothing that a validating run writes */
    BLOCK_OTHER_SIZE, /* of a run with another block size */
    BLOCK_TORN,       /* begins as one write and ends as another */
    BLOCK_DAMAGED,    /* some bytes are not what was written */
    BLOCK_MISPLACED,  /* sound, but of another file or offset */
};

/** What judging a block found. */
struct block_finding {
    enum block_state state;
    struct block_identity identity; /* as the block says; unless empty or foreign */
    uint64_t size_bytes;            /* likewise */
    uint32_t first_bad, end_bad;    /* torn, damaged: bytes that are wrong */
};

/** Can blocks of this size prove themselves? */
bool block_size_fits(uint64_t block_bytes);

/** Fill a block, header and all. */
void block_fill(void *memory, uint32_t size_bytes, const struct block_identity *identity);

/** Fill memory with bytes that prove nothing but do not compress. */
void block_fill_randomly(void *memory, uint32_t size_bytes, uint64_t seed);

/** Judge a block that was read from a place. */
void block_judge(const void *memory, uint32_t size_bytes, uint64_t file, uint64_t offset,
                 struct block_finding *finding);

/** Write what is wrong as a sentence that begins with the file's path and the offset. */
void block_describe(const struct block_finding *finding, const char *path, uint64_t offset,
                    char *text, size_t size_bytes);

/** @return where a run numbers its writes from: no run before this one has come as far. */
uint64_t block_sequence_start(void);

/**
 * What a validating run knows of each block: whether a request for it is under way, and what was
 * last written or read there. Two requests of which one writes never overlap, so a block that
 * looks torn is torn.
 */
struct fileio_blocks {
    _Atomic uint32_t *states; /* BLOCK_TAKEN, and the lower bits of the sequence; NULL: off */
    uint32_t block_bytes;
    uint64_t seed;
    uint64_t sequence_start;
};

/** Start knowing nothing of any block. FIRN_E_NOMEM. */
firn_rc fileio_blocks_open(const struct fileio_shape *shape, uint64_t seed,
                           struct fileio_blocks *blocks);
/** Free what was opened; a zeroed one is allowed. */
void fileio_blocks_close(struct fileio_blocks *blocks);

/** Take a run of blocks for one request. @return false, with none taken, when one is taken */
bool fileio_blocks_take(struct fileio_blocks *blocks, uint64_t first, uint32_t count);
void fileio_blocks_release(struct fileio_blocks *blocks, uint64_t first, uint32_t count);

/** Fill the blocks of a write that are taken. */
void fileio_blocks_fill(struct fileio_blocks *blocks, const struct fileio_access *access,
                        uint32_t writer, uint64_t sequence, void *buffer);

/** Prove blocks that are taken and were read. FIRN_E_CORRUPT names the first that is not sound, or
 * older than what this run has seen there. */
firn_rc fileio_blocks_check(struct fileio_blocks *blocks, const struct fileio_access *access,
                            const char *path, const void *buffer);

/* ---- Pattern (fileio_pattern.c) ---- */

/** A divisor whose quotients cost a multiplication. Dividends must be below 2^52. */
struct divider {
    uint64_t divisor;
    double inverse;
};

/** What all workers share. Requests are numbered; what number n does is a function of n and, in the
 * random modes, of chance. */
struct fileio_pattern {
    enum fileio_mode mode;
    struct fileio_shape shape;
    struct fileio_blocks *blocks;
    uint64_t request_blocks; /* in one request of the sequential modes */
    struct divider file_blocks, file_requests, all_requests, round;
    uint64_t fsync_freq; /* 0: no rounds of syncs */
    double write_share;  /* of the reads and writes */
    bool numbered;       /* numbers come from the counter all share, not from the worker's own */
    struct distribution distribution;
    _Alignas(64) _Atomic uint64_t numbers;
};

/** What a worker keeps of it. */
struct fileio_cursor {
    struct rng rng;
    uint64_t next;   /* own numbering */
    bool has_number; /* a number is held whose block was taken */
    uint64_t number;
};

/**
 * Lay down a configuration's pattern.
 *
 * @param blocks  what a validating run takes its blocks from; borrowed
 * @return FIRN_OK; FIRN_E_INVALID when a parameter of the distribution is out of its range
 */
firn_rc fileio_pattern_init(const struct fileio_config *config, struct fileio_blocks *blocks,
                            struct fileio_pattern *pattern);

/**
 * Choose the next access; in a validating run its blocks are taken.
 *
 * @return false when all blocks that came up are taken: complete something, then try again
 */
bool fileio_pattern_next(struct fileio_pattern *pattern, struct fileio_cursor *cursor,
                         struct fileio_access *access);

/* ---- mmap (fileio_map.c) ---- */

/** A mapped file. */
struct fileio_map {
    char *memory;
    uint64_t size_bytes;
};

/** Map files that are open, by path. What was mapped is unmapped by fileio_maps_close also after a
 * failure. */
firn_rc fileio_maps_open(struct io_file *const *files, const struct fileio_shape *shape,
                         bool writable, struct fileio_map **maps);
void fileio_maps_close(struct fileio_map *maps, uint64_t count);

/** Carry out a request on a mapping as io_execute does on a file. A fault of the mapping (the disk
 * is full or broken, the file was cut) is an error of the request. */
firn_rc fileio_map_execute(const struct fileio_map *map, struct clock *clock,
                           struct io_request *request);

/* ---- The run (fileio.c, fileio_worker.c) ---- */

/** A run's shared state; read-only while the workers are at it, but for what is atomic inside. */
struct fileio_test {
    struct fileio_config config;
    struct fileio_shape shape;
    struct fileio_storage storage;
    struct io_file **files;
    struct fileio_map *maps; /* mmap mode */
    struct fileio_blocks blocks;
    struct fileio_pattern pattern;
    uint64_t seed;
};

/** Body of a worker thread; a runner_function whose context is a struct fileio_test. */
firn_rc fileio_work(struct runner_worker *runner, void *context);

#endif
