/*
 * fault.h -- storage that fails on purpose.
 *
 * Two tools. The simulated disk keeps files in memory, remembers what is durable and what only
 * looks written, and can lose power. The fault decorator makes any system's requests fail, come
 * back short, slow or stuck, rot or land in the wrong place. Both repeat exactly from a seed.
 *
 * They are for tests, and are the judge of everything above that claims to survive a crash: the
 * simulated disk promises as little as POSIX does. src/io/README.md has the rules and why they are
 * what they are.
 */
#ifndef FIRN_IO_FAULT_H
#define FIRN_IO_FAULT_H

#include "io/io.h"

/* ---- The simulated disk ----
 *
 * What is durable, that is, there after a power cut:
 *
 * - Bytes written and the size, once io_sync of the file (either kind) has returned; the bytes of a
 *   write by IO_OPEN_SYNC or IO_OPEN_DSYNC and the size, once that write has returned.
 * - A creation, removal or rename, once io_sync_directory of a directory it touches has returned.
 *   Syncing the file does not make its name durable, nor does syncing a directory make the
 *   directory's own name durable.
 * - A sync in a queue covers the writes that were reaped before it was submitted; others by chance.
 *
 * Everything else is kept, lost or torn by the mode of the cut and its seed. Sectors are whole,
 * old or new, whatever happens; a rename is whole, so that a file is never lost or doubled by one;
 * of two operations on one name or one file the later one is never kept without the earlier. What
 * is kept of a file's name says nothing about what is kept of its bytes.
 */

struct sim_disk;

/** How changes that are not durable fare when the power is cut. */
enum sim_cut {
    SIM_CUT_KEEP,    /* all reached the medium */
    SIM_CUT_DROP,    /* none did: only what is durable is there */
    SIM_CUT_REORDER, /* each whole write, size change, creation, ... by itself: kept or lost; writes
                        land in any order */
    SIM_CUT_TEAR,    /* like REORDER, but each sector of a write and each size by itself: any of the
                        versions since the last sync */
};

struct sim_disk_options {
    uint32_t sector_bytes;       /* what is written whole or not at all, and the alignment of direct
                                    I/O: a power of two up to 1 MiB, 512 as a rule */
    uint32_t atomic_write_bytes; /* what io_file_atomic_write_bytes says of direct files: a power of
                                    two, at least a sector; 0 for none */
    uint64_t capacity_bytes;     /* ENOSPC beyond, in blocks of 4 KiB as they are written or
                                    allocated (holes take none); 0 for no limit */
    uint64_t writeback_bytes; /* unsynced bytes of a file beyond which the oldest reach the medium,
                                 as a kernel writes back: bounds memory; 0 for never */
};

/**
 * Make an empty simulated disk. It outlives the systems that use it, so that a test can cut the
 * power, close the broken system and open another on what the cut left.
 *
 * All functions on a disk may be called by any thread. What is on a disk takes memory that
 * memory_fail_after does not refuse, so that in tests each failing allocation is one of the code
 * above; if there is none, the process ends.
 *
 * @param disk  set on success; give it back with sim_disk_destroy
 * @return FIRN_OK, FIRN_E_INVALID (sector_bytes)
 */
firn_rc sim_disk_create(const struct sim_disk_options *options, struct sim_disk **disk);

/** Free a disk; its systems must be closed. NULL is allowed. */
void sim_disk_destroy(struct sim_disk *disk);

/**
 * Open a view of the disk. Paths start at the disk's only root, with or without "/"; ".." is
 * refused. Requests take no time. What is in a queue is carried out, in an order drawn from the
 * seed, when it is reaped; a reap that need not wait hands back some, none or all of it.
 *
 * @param clock   the system's; nothing waits on it
 * @param seed    equal seeds and equal calls give equal orders
 * @param system  set on success; give it back with io_system_close
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc sim_disk_open_system(struct sim_disk *disk, struct clock *clock, uint64_t seed,
                             struct io_system **system);

/**
 * Cut the power at the n-th step from now. Steps are writes, size changes, space allocations,
 * syncs, creations, removals and renames that would succeed. The n-th step itself fails with EIO
 * and is in doubt like all that is not durable; a sync cut short has made nothing durable. Writes
 * under way in queues, submitted and not yet reaped, are in doubt too.
 *
 * @param steps  1 for the next one; 0 disarms
 */
void sim_disk_cut_after(struct sim_disk *disk, uint64_t steps, enum sim_cut cut, uint64_t seed);

/** @return steps taken since the disk was made. */
uint64_t sim_disk_steps(const struct sim_disk *disk);

/** @return true once the power is off: every request fails with EIO until sim_disk_restore. */
bool sim_disk_is_cut(const struct sim_disk *disk);

/** Cut the power now; without effect when it is off. */
void sim_disk_cut(struct sim_disk *disk, enum sim_cut cut, uint64_t seed);

/** Turn the power on again. All systems opened before must be closed. */
void sim_disk_restore(struct sim_disk *disk);

/**
 * Copy a disk's durable and volatile state, for trying many cuts from one point. Content is shared
 * until it changes. The copy has no systems, no open files and no armed cut; writes under way in
 * queues of the original are carried out in it.
 *
 * @return the copy; give it back with sim_disk_destroy; never NULL
 */
struct sim_disk *sim_disk_clone(const struct sim_disk *disk);

/** Change the capacity, to fill a disk and give it room again; what is there stays. */
void sim_disk_set_capacity(struct sim_disk *disk, uint64_t capacity_bytes);

/**
 * Flip bits of a byte on the medium: bit rot. A later write that is not synced yet hides it, as a
 * page cache would.
 *
 * @return FIRN_OK; FIRN_E_NOT_FOUND; FIRN_E_INVALID for a directory or beyond the durable end
 */
firn_rc sim_disk_rot(struct sim_disk *disk, const char *path, uint64_t offset, uint8_t xor_mask);

/* ---- The fault decorator ---- */

enum fault_kind {
    FAULT_NONE,      /* so that a zeroed plan does nothing */
    FAULT_ERROR,     /* the operation fails with `error` and is not carried out */
    FAULT_SHORT,     /* about half of a read's or write's bytes move, never less than one block */
    FAULT_SLOW,      /* it completes delay_ns later */
    FAULT_STUCK,     /* it completes only when fault_release is called */
    FAULT_ROT,       /* one bit of the bytes read is flipped */
    FAULT_MISDIRECT, /* a write lands further on by its own length, where its neighbour belongs */
    FAULT_LOST,      /* a write or sync is acknowledged and thrown away */
};

/** Which operations a fault counts and hits. */
enum fault_target {
    FAULT_READS = 1,
    FAULT_WRITES = 2,
    FAULT_SYNCS = 4,    /* of files and directories */
    FAULT_METADATA = 8, /* all others: open, close, size, set_size, allocate, remove, rename,
                           make_directory, remove_directory, list, lock_directory */
    FAULT_ALL = 15,
};

/**
 * A plan. Of an operation's kinds it counts the targets that its own kind can hit: FAULT_ROT counts
 * reads only, FAULT_SHORT reads and writes, FAULT_MISDIRECT writes, FAULT_LOST writes and syncs.
 * What is counted is what the driver is asked: a merged request once, one that is continued or
 * retried once more each time.
 */
struct fault_plan {
    enum fault_kind kind;
    unsigned targets;   /* fault_target */
    uint64_t first;     /* the first operation hit, counted from 1 among the targets; 0 never */
    uint64_t every;     /* and each so many after it; 0 for that one alone */
    double probability; /* or each with this chance, by seed */
    int error;          /* FAULT_ERROR: EIO, ENOSPC, EINTR, ...; 0 for EIO */
    uint64_t delay_ns;  /* FAULT_SLOW: by the system's clock */
    unsigned classes;   /* only files of these classes, 1 << io_class each; 0 for all, and for
                           operations that name a path without opening it */
};

enum { FAULT_PLANS_MAX = 8 };

struct fault_injector;

/**
 * Put a fault decorator around a system. Do it before files are opened.
 *
 * @param seed      decides probabilities, flipped bits
 * @param injector  set on success: the handle to steer it by; owned by the system
 * @return FIRN_OK, FIRN_E_NOMEM
 */
firn_rc fault_attach(struct io_system *system, uint64_t seed, struct fault_injector **injector);

/** Replace the plans (copied; at most FAULT_PLANS_MAX) and restart their counts. Every plan counts;
 * of several that hit one operation the first decides. Any thread. */
void fault_set_plans(struct fault_injector *injector, const struct fault_plan *plans,
                     unsigned count);

/** @return operations seen since the last fault_set_plans that are any of `targets`. */
uint64_t fault_seen(const struct fault_injector *injector, unsigned targets);

/** @return operations hit since the last fault_set_plans. */
uint64_t fault_hits(const struct fault_injector *injector);

/** Let the operations that are stuck now go on. Before a queue is closed: it waits for them. */
void fault_release(struct fault_injector *injector);

#endif
