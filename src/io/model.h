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
    double seek_average_ms; /* over a third of the strokes */
    double seek_full_ms;
    double rate_outer_mib_s; /* sequential, at the first byte ... */
    double rate_inner_mib_s; /* ... and at the last; linear between */
    unsigned queue_depth;    /* requests the drive reorders among (NCQ, TCQ); 1 for none */
    bool write_cache;        /* the drive's own, volatile: a sync empties it */
    uint64_t write_cache_bytes;
};

/** A solid-state drive: channels in parallel behind a write buffer, and garbage collection. */
struct model_ssd {
    uint64_t capacity_bytes;
    unsigned channels;           /* pages read or programmed at once */
    uint32_t page_bytes;         /* what one channel reads or programs at a time */
    double read_us;              /* one page, flash to host */
    double program_us;           /* one page */
    double command_us;           /* fixed cost of a request at the interface, one after another */
    double read_mib_s;           /* the interface's limit ... */
    double write_mib_s;          /* ... each way */
    uint64_t write_buffer_bytes; /* writes complete into it while there is room */
    bool power_protected;        /* the buffer counts as durable: a sync costs flush_us only */
    double flush_us;             /* fixed cost of a sync */

    /* Trouble, each off when its period is 0. During a dip everything runs at dip_speed of its
       rate; 0 stands still. */
    double dip_period_s;
    double dip_length_s;
    double dip_speed;
};

/** Members of either kind in a RAID, perhaps behind a controller with a protected write cache. */
struct model_spec {
    char name[48];
    char text[160]; /* one sentence for `firn device list` */
    enum model_kind kind;
    struct model_disk disk;
    struct model_ssd ssd;
    enum model_raid raid;
    unsigned members;      /* 1 without RAID */
    uint32_t stripe_bytes; /* RAID 0, 5, 10 */
    uint64_t cache_bytes;  /* the controller's battery-backed write cache; 0 for none */
    double cache_us;       /* a write or sync answered by the cache */
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
 * Find a model by name, or build one from a text such as "hdd-15k:raid10x8" or
 * "hdd-7200:raid5x6+cache=512M": a name of the catalogue, a RAID level with its number of members,
 * a controller cache.
 *
 * @param spec  set only on success
 * @return FIRN_OK; FIRN_E_NOT_FOUND (the text lists near names), FIRN_E_INVALID
 */
firn_rc model_find(const char *text, struct model_spec *spec);

/**
 * Put a model around a system. Do it before files are opened. Requests then take the model's time
 * on the system's clock (which may be scaled or virtual), or the real device's if that is longer.
 *
 * @param system  one of real files or a simulated disk; its description then says "modelled"
 * @return FIRN_OK, FIRN_E_NOMEM, FIRN_E_INVALID
 */
firn_rc model_attach(struct io_system *system, const struct model_spec *spec);

/* ---- The simulation in model time ---------------------------------------------------------------
 */

struct model_device;

/** A request inside a simulated device. The caller owns it until it is done. */
struct model_io {
    enum io_op op;
    uint64_t offset; /* on the device */
    uint32_t size_bytes;
    void *user;
    uint64_t arrive_ns; /* set by model_device_submit ... */
    uint64_t done_ns;   /* ... and this when it is returned by model_device_advance */
    struct model_io *next;
    uint32_t parts_left;
};

/** Make a simulated device whose time starts at 0. Not thread-safe. `seed` decides rotations and
 * the like. */
firn_rc model_device_open(const struct model_spec *spec, uint64_t seed,
                          struct model_device **device);
void model_device_close(struct model_device *device);

/** @return the bytes the device can hold: members less redundancy. */
uint64_t model_device_capacity(const struct model_device *device);

/** Let a request arrive at now_ns; time given to submit and advance must not go back. */
void model_device_submit(struct model_device *device, struct model_io *io, uint64_t now_ns);

/** @return when the device next needs model_device_advance; UINT64_MAX if nothing is under way. */
uint64_t model_device_next(const struct model_device *device);

/** Let time pass until now_ns. @return the requests completed since, in order, linked by next; or
 * NULL. */
struct model_io *model_device_advance(struct model_device *device, uint64_t now_ns);

#endif
