/*
 * fault.h -- storage that fails on purpose.
 *
 * Two tools. The simulated disk keeps files in memory, remembers what is durable and what only
 * looks written, and can lose power. The fault decorator makes any system's requests fail, come
 * back short, slow or stuck, rot or land in the wrong place. Both repeat exactly from a seed.
 */
#ifndef FIRN_IO_FAULT_H
#define FIRN_IO_FAULT_H

#include "io/io.h"

/* ---- The simulated disk -------------------------------------------------------------------------
 */

struct sim_disk;

/** How unsynced sectors fare when the power is cut. */
enum sim_cut {
    SIM_CUT_KEEP,    /* all reached the medium */
    SIM_CUT_DROP,    /* none did: only what was synced is there */
    SIM_CUT_REORDER, /* each whole write by itself: kept or dropped, in any order */
    SIM_CUT_TEAR,    /* each sector by itself: any of the versions since the last sync */
};

struct sim_disk_options {
    uint32_t sector_bytes; /* what is written whole or not at all; a power of two, 512 as a rule */
    uint64_t capacity_bytes; /* ENOSPC beyond; 0 for no limit */
};

/**
 * Make an empty simulated disk. It outlives the systems that use it, so that a test can cut the
 * power, close the broken system and open another on what the cut left.
 */
firn_rc sim_disk_create(const struct sim_disk_options *options, struct sim_disk **disk);
void sim_disk_destroy(struct sim_disk *disk);

/** Open a view of the disk. Queues complete requests in an order drawn from the seed, on reap. */
firn_rc sim_disk_open_system(struct sim_disk *disk, struct clock *clock, uint64_t seed,
                             struct io_system **system);

/** Cut the power at the n-th step from now: steps are writes, size changes, syncs, creations,
 * removals and renames. 0 disarms. */
void sim_disk_cut_after(struct sim_disk *disk, uint64_t steps, enum sim_cut cut, uint64_t seed);

/** @return steps taken since the disk was made. */
uint64_t sim_disk_steps(const struct sim_disk *disk);

/** @return true once the power is off: every request fails with EIO until sim_disk_restore. */
bool sim_disk_is_cut(const struct sim_disk *disk);

/** Cut the power now. */
void sim_disk_cut(struct sim_disk *disk, enum sim_cut cut, uint64_t seed);

/** Turn the power on again. All systems opened before must be closed. */
void sim_disk_restore(struct sim_disk *disk);

/** Copy a disk's durable and volatile state, for trying many cuts from one point. */
firn_rc sim_disk_clone(const struct sim_disk *disk, struct sim_disk **clone);

/** Flip bits of a byte on the medium: bit rot. FIRN_E_NOT_FOUND, FIRN_E_INVALID (beyond the end).
 */
firn_rc sim_disk_rot(struct sim_disk *disk, const char *path, uint64_t offset, uint8_t xor_mask);

/* ---- The fault decorator ------------------------------------------------------------------------
 */

enum fault_kind {
    FAULT_ERROR,     /* the request fails with `error` */
    FAULT_SHORT,     /* about half of its bytes move */
    FAULT_SLOW,      /* it takes delay_ns longer */
    FAULT_STUCK,     /* it completes only when fault_release is called */
    FAULT_ROT,       /* one bit of the bytes read is flipped */
    FAULT_MISDIRECT, /* a write lands one block further */
    FAULT_LOST,      /* a write is acknowledged and thrown away */
};

/** Which operations a fault counts and hits. */
enum fault_target {
    FAULT_READS = 1,
    FAULT_WRITES = 2,
    FAULT_SYNCS = 4,    /* of files and directories */
    FAULT_METADATA = 8, /* open, remove, rename, set_size, allocate, make_directory, list */
    FAULT_ALL = 15,
};

struct fault_plan {
    enum fault_kind kind;
    unsigned targets;    /* fault_target */
    uint64_t first;      /* the first operation hit, counted from 1 among the targets; 0 never */
    uint64_t every;      /* and each so many after it; 0 for that one alone */
    double probability;  /* or each with this chance, by seed */
    int error;           /* FAULT_ERROR: EIO, ENOSPC, EINTR, ... */
    uint64_t delay_ns;   /* FAULT_SLOW */
    enum io_class class; /* only files of this class; IO_CLASS_COUNT for all */
};

struct fault_injector;

/**
 * Put a fault decorator around a system. Do it before files are opened.
 *
 * @param injector  set on success: the handle to steer it by; owned by the system
 */
firn_rc fault_attach(struct io_system *system, uint64_t seed, struct fault_injector **injector);

/** Replace the plans (copied; at most 8) and restart their counts. Any thread. */
void fault_set_plans(struct fault_injector *injector, const struct fault_plan *plans,
                     unsigned count);

/** @return operations seen since the last fault_set_plans that any of `targets` counts. */
uint64_t fault_seen(const struct fault_injector *injector, unsigned targets);

/** @return operations hit since the last fault_set_plans. */
uint64_t fault_hits(const struct fault_injector *injector);

/** Let stuck requests go on. */
void fault_release(struct fault_injector *injector);

#endif
