/*
 * model.h -- device models: how a disk, a RAID or an SSD would carry the same requests.
 *
 * A model is a description (struct model_spec) and a simulation of it in model time. Three uses:
 * around an io_system, so that any workload runs as if its files lay on that device (bytes go to
 * the real files, through the page cache; syncs cost what the model says and are not passed on); in
 * model time alone, for `firn device check`; and as text, for `firn device show`.
 *
 * Whatever was measured on a model must be reported as modelled.
 */
#ifndef FIRN_IO_MODEL_H
#define FIRN_IO_MODEL_H

#include "io/io.h"

/** The kind of device at the bottom of a model. */
enum model_kind { MODEL_DISK, MODEL_SSD };

enum model_raid { MODEL_RAID_NONE, MODEL_RAID_0, MODEL_RAID_1, MODEL_RAID_5, MODEL_RAID_10 };

/** A rotating disk. Positioning: seek by distance, then wait for the sector to come round. */
struct model_disk {
    uint64_t capacity_bytes;
    double rpm;
    double seek_track_ms;   /* to a neighbouring track */
    double seek_average_ms; /* mean over random pairs of tracks, as data sheets define it */
    double seek_full_ms;
    double rate_outer_mib_s;   /* sequential, at the first byte ... */
    double rate_inner_mib_s;   /* ... and at the last; linear between */
    double command_us;         /* fixed cost of a request beside the mechanics */
    double interface_mib_s;    /* between the drive's memory and the host */
    unsigned queue_depth;      /* requests the drive reorders among (NCQ, TCQ); 1 for none */
    uint64_t read_ahead_bytes; /* what it goes on reading behind a request while idle; 0 for none */
    bool write_cache;          /* the drive's own, volatile: a sync empties it */
    uint64_t write_cache_bytes;
};

/** A solid-state drive: channels in parallel behind a write buffer, and garbage collection. */
struct model_ssd {
    uint64_t capacity_bytes;
    unsigned channels;           /* pages read or programmed at once, at most 64 */
    uint32_t page_bytes;         /* what one channel reads or programs at a time */
    double read_us;              /* one page, flash to the drive's memory */
    double program_us;           /* one page */
    double random_write_us;      /* what garbage collection adds to a channel's work for a write
                                    that continues no earlier one */
    double command_us;           /* fixed cost of a request at the interface, one after another */
    double write_us;             /* fixed cost of answering a write, beside others */
    double read_mib_s;           /* the interface's limit ... */
    double write_mib_s;          /* ... each way */
    uint64_t write_buffer_bytes; /* writes complete into it while there is room */
    bool power_protected;        /* the buffer counts as durable: a sync costs flush_us only */
    double flush_us;             /* fixed cost of a sync */

    /* Trouble. After about gc_pause_mib of random writes the drive stands still for about
       gc_pause_ms (half to one and a half times as much, evenly); off when gc_pause_mib is 0. */
    double gc_pause_ms;
    double gc_pause_mib;
    /* Each dip_period_s ends with a dip of dip_length_s in which everything runs at dip_speed of
       its rate; 0 stands still. Off when dip_period_s is 0. */
    double dip_period_s;
    double dip_length_s;
    double dip_speed;
    bool dip_needs_writes; /* no dip in a period without writes before it */
};

/** Members of either kind in a RAID, perhaps behind a controller with a protected write cache. */
struct model_spec {
    char name[64];
    char text[200]; /* what it is, for `firn device list` */
    enum model_kind kind;
    struct model_disk disk;
    struct model_ssd ssd;
    enum model_raid raid;
    unsigned members;      /* 1 without RAID */
    uint32_t stripe_bytes; /* RAID 0, 5, 10 */
    uint64_t cache_bytes;  /* the controller's battery-backed write cache; 0 for none. With it the
                              members' own volatile caches are off. */
    double cache_us;       /* fixed cost of what the cache answers, one after another ... */
    double cache_mib_s;    /* ... and its speed */
};

/** What the data sheet promises, to compare a model with; 0 where it says nothing. */
struct model_sheet {
    double read_iops;  /* random reads of block_bytes, many at once */
    double write_iops; /* random writes of block_bytes, sustained */
    double read_us;    /* one random read, mean */
    double read_mib_s; /* sequential */
    double write_mib_s;
    uint32_t block_bytes;
    const char *source; /* which device and document the figures are from */
};

/** @return the number of models in the catalogue. */
unsigned model_count(void);

/** @return a model of the catalogue by number; static. */
const struct model_spec *model_at(unsigned number);

/** @return the data-sheet figures of a model of the catalogue by number; static. */
const struct model_sheet *model_sheet_at(unsigned number);

/**
 * Find a model by name, or compose one: a name of the catalogue, then perhaps ":" and a RAID level
 * with its number of members, then any of "+cache=SIZE" (the controller's, 0 for none),
 * "+stripe=SIZE" and "+capacity=SIZE" (the whole device shrunk to it, its seeks and speeds kept, so
 * that small files fill it as large ones fill the real one): "hdd-15k:raid10x8",
 * "hdd-7200:raid5x6+cache=512M+capacity=20G".
 *
 * @param text  at most 63 characters, which become the composed model's name
 * @param spec  set only on success
 * @return FIRN_OK; FIRN_E_NOT_FOUND (the text names near ones), FIRN_E_INVALID
 */
firn_rc model_find(const char *text, struct model_spec *spec);

/**
 * Put a model around a system. Do it before files are opened. Requests then take the model's time
 * on the system's clock (which may be scaled or virtual), or the real device's if that is longer.
 *
 * Files get their places on the modelled device when they are first opened, in the order they ask
 * for room: each as contiguous as it can be, new ones behind old ones. A file is known by the text
 * of its path. What does not fit is refused with FIRN_E_NOSPACE. Bytes are passed to the real files
 * through the page cache; syncs are modelled and passed to nobody, so what a model's user wrote is
 * not safe from a real crash.
 *
 * @param system  one of real files or a simulated disk; its description then says "modelled"
 * @return FIRN_OK, FIRN_E_NOMEM, FIRN_E_INVALID
 */
firn_rc model_attach(struct io_system *system, const struct model_spec *spec);

/* ---- The simulation in model time ---- */

struct model_device;

/** A request inside a simulated device. The caller owns it until it is done. */
struct model_io {
    enum io_op op;
    uint64_t offset;     /* on the device */
    uint32_t size_bytes; /* at least 1; 0 for syncs */
    void *user;          /* the caller's; never looked at */
    uint64_t arrive_ns;  /* set by model_device_submit ... */
    uint64_t done_ns;    /* ... and this when it is returned by model_device_advance */
    struct model_io *next;
};

/**
 * Make a simulated device whose time starts at 0. Not thread-safe. Equal specifications, seeds and
 * requests give equal times.
 *
 * @param seed    decides where platters stand and when garbage is collected
 * @param device  set on success; give it back with model_device_close
 * @return FIRN_OK, FIRN_E_NOMEM, FIRN_E_INVALID (a value out of its range)
 */
firn_rc model_device_open(const struct model_spec *spec, uint64_t seed,
                          struct model_device **device);

/** Free a device. Requests under way are simply the caller's again. NULL is allowed. */
void model_device_close(struct model_device *device);

/** @return the bytes the device can hold: members less redundancy. */
uint64_t model_device_capacity(const struct model_device *device);

/**
 * Let a request arrive. A sync covers the writes that were done before it arrived.
 *
 * @param io      within the capacity
 * @param now_ns  what submit and advance are given must not go back
 * @return FIRN_OK; FIRN_E_NOMEM, then the request was not taken
 */
firn_rc model_device_submit(struct model_device *device, struct model_io *io, uint64_t now_ns);

/** @return a time before which no request will be done, whatever else arrives, and to which it is
 * worth while to advance; UINT64_MAX if nothing happens any more by itself. */
uint64_t model_device_next(const struct model_device *device);

/** Let time pass until now_ns. @return the requests completed since, in order, linked by next; or
 * NULL. */
struct model_io *model_device_advance(struct model_device *device, uint64_t now_ns);

#endif
