/*
 * sim_internal.h -- the parts of the simulated disk.
 *
 * sim_image.c holds bytes in chunks that are shared until written, sim_file.c what is unsynced of a
 * file, sim_namespace.c what is unsynced of names, sim_cut.c decides at the cut what of both is
 * left, sim_driver.c is the io_driver, sim_disk.c the disk as tests hold it.
 *
 * Everything below is called with the disk's mutex held. Functions return 0 or a negative errno and
 * change nothing when they fail. What is on the disk is kept in memory_realloc_surely's memory.
 */
#ifndef FIRN_IO_SIM_INTERNAL_H
#define FIRN_IO_SIM_INTERNAL_H

#include "base/rng.h"
#include "io/fault.h"
#include "io/io_internal.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- Images ---- */

enum { SIM_CHUNK_BYTES = 4096 };

struct sim_chunk;

/** A file's bytes, in chunks that images share until they are written. What has no chunk reads as
 * zeros and takes no space. Zeroed: empty. */
struct sim_image {
    struct sim_chunk **chunks;
    size_t count;   /* of pointers, NULL among them */
    size_t present; /* of chunks */
};

/** Give an image's chunks back; it is empty then. */
void sim_image_release(struct sim_image *image);

/** Make an empty image the same as another one. */
void sim_image_clone(const struct sim_image *from, struct sim_image *into);

/** @return the end of what may have chunks. */
uint64_t sim_image_end(const struct sim_image *image);

/** Give a range space; new space reads as zeros. */
void sim_image_allocate(struct sim_image *image, uint64_t offset, uint64_t size_bytes);

/** @return how many chunks sim_image_allocate would add. */
size_t sim_image_missing(const struct sim_image *image, uint64_t offset, uint64_t size_bytes);

/** @return how many bytes of a range can be written with so many new chunks. */
uint64_t sim_image_fitting(const struct sim_image *image, uint64_t offset, uint64_t size_bytes,
                           size_t chunks_left);

/** Copy a range out of an image or into it. */
void sim_image_read(const struct sim_image *image, uint64_t offset, void *buffer,
                    uint64_t size_bytes);
void sim_image_write(struct sim_image *image, uint64_t offset, const void *bytes,
                     uint64_t size_bytes);

/** Make a range read as zeros and give its whole chunks back. */
void sim_image_punch(struct sim_image *image, uint64_t offset, uint64_t size_bytes);

/** Make the chunks that a range touches those of another image. */
void sim_image_share(struct sim_image *into, const struct sim_image *from, uint64_t offset,
                     uint64_t size_bytes);

/* ---- Files ---- */

/**
 * A version that a range of a file has had since the last sync, after the write, size change or
 * allocation that made it. Ranges are whole sectors: a sector is written as a whole, so the version
 * of a sector holds the earlier writes into it too. Immutable; clones share it.
 */
struct sim_change {
    atomic_size_t references;
    bool durable;   /* a synchronous write: no cut takes it back */
    bool resizes;   /* the size before was another one */
    bool allocates; /* gives its range space, and leaves bytes alone */
    bool is_atomic; /* a write that is kept or lost whole */
    uint64_t offset;
    uint64_t size_bytes;
    uint64_t filled_bytes; /* the range begins with so many of `bytes`; zeros follow */
    uint64_t size_after;   /* the file's */
    uint8_t bytes[];
};

/** No node, no entry. */
#define SIM_NONE UINT32_MAX

/** A file or directory. */
struct sim_node {
    bool is_directory;
    bool locked; /* a directory, by sim_lock */
    bool marked; /* scratch of a pass over unsynced names */
    uint32_t index;
    uint32_t references; /* by entries that stand for it or lie in it, name changes and handles */
    uint32_t handles;
    uint32_t live_entry; /* its name, or SIM_NONE */

    uint32_t first_entry; /* a directory's; chained by sim_entry.next */

    struct sim_image live; /* a file's: what reads see ... */
    uint64_t live_size;
    struct sim_image durable; /* ... and what is on the medium, before `changes` */
    uint64_t durable_size;
    struct sim_change **changes; /* in order */
    size_t change_count;
    size_t change_capacity;
    uint64_t changes_settled; /* changes that have left the list: the number of changes[0] */
    uint64_t unsynced_bytes;  /* held by changes */
};

struct sim_disk;

/** Beyond it EFBIG, so that a wild offset in a test does not take all memory for chunk pointers. */
#define SIM_FILE_MAX_BYTES (UINT64_C(1) << 36)

/** Read into vectors. @return bytes, fewer at the end of the file */
int64_t sim_file_read(const struct sim_node *node, const struct io_request *request);

/** Write from vectors into the live image; unsynced, and no step. @return bytes, fewer when the
 * disk gets full; a negative errno */
int64_t sim_file_write(struct sim_disk *disk, struct sim_node *node,
                       const struct io_request *request);

/** Make the bytes of the last sim_file_write, and the size, durable. */
void sim_file_sync_last(struct sim_node *node);

/** Change the size, or give a range space and the size it needs; unsynced, and no step. */
int sim_file_set_size(struct sim_disk *disk, struct sim_node *node, uint64_t size_bytes);
int sim_file_allocate(struct sim_disk *disk, struct sim_node *node, uint64_t offset,
                      uint64_t size_bytes);

/** @return the number that the file's next change will have. */
uint64_t sim_file_next_change(const struct sim_node *node);

/** Make the oldest changes durable, up to the one of a number (sim_file_next_change: all). */
void sim_file_sync(struct sim_node *node, uint64_t end);

/** Let the oldest changes reach the medium when there are too many unsynced bytes. */
void sim_file_writeback(const struct sim_disk *disk, struct sim_node *node);

/** Decide what of a file is left, and make that its live content. */
void sim_file_cut(struct sim_node *node, uint32_t sector_bytes, enum sim_cut cut, struct rng *rng);

/** Flip bits of a byte before the durable end. */
void sim_file_rot(struct sim_node *node, uint32_t sector_bytes, uint64_t offset, uint8_t xor_mask);

/** Give a node that has the fields of another one bytes and changes of its own. */
void sim_file_clone(struct sim_node *node);

/** Give a node's bytes and changes back. */
void sim_file_release(struct sim_node *node);

/* ---- Names ---- */

/** What a name in a directory stands for: to those who look now, and on the medium. */
struct sim_entry {
    uint32_t directory; /* a node; SIM_NONE for a free entry */
    uint32_t next;      /* in the directory, or among free entries */
    uint32_t live;      /* a node or SIM_NONE, as `durable` */
    uint32_t durable;
    uint32_t changes; /* unsynced changes that name it */
    bool marked;      /* scratch, as sim_node's */
    char name[NAME_MAX + 1];
};

/** An unsynced creation, removal or rename: entries that change together. */
struct sim_name_change {
    unsigned count; /* of entries: 2 for a rename */
    uint32_t entries[2];
    uint32_t nodes[2];      /* what each then stands for, or SIM_NONE */
    uint32_t moved;         /* the node created, removed or renamed */
    uint32_t replaced;      /* the node that a rename put off its name, or SIM_NONE */
    bool after_all;         /* not kept without all before it: a directory is moved or removed */
    bool after_directories; /* not kept without those of directories: a file changes directory */
    bool chosen;            /* scratch */
};

/** Make the root of an empty disk. */
void sim_names_create_root(struct sim_disk *disk);

/** Find what a path stands for. @return 0, -ENOENT, -ENOTDIR, -EINVAL, -ENAMETOOLONG */
int sim_names_find(const struct sim_disk *disk, const char *path, struct sim_node **node);

/* What follows changes the live names and notes the change as unsynced; none of it is a step. */

/** Make an empty file or directory. */
int sim_names_create(struct sim_disk *disk, const char *path, bool is_directory,
                     struct sim_node **node);

/** Remove a file or an empty directory. */
int sim_names_remove(struct sim_disk *disk, const char *path, bool is_directory);

/** Rename a file or directory, over another of its kind (a directory: an empty one) if need be. */
int sim_names_rename(struct sim_disk *disk, const char *from, const char *to);

/** Make the changes in a directory durable, and those that they build upon. */
void sim_names_sync(struct sim_disk *disk, const struct sim_node *directory);

/** Decide what names are left. */
void sim_names_cut(struct sim_disk *disk, enum sim_cut cut, struct rng *rng);

/** Drop what holds a node; the last one frees it. */
void sim_node_drop(struct sim_disk *disk, uint32_t index);

/* ---- The disk ---- */

/** A request under way in a queue. */
struct sim_slot {
    struct io_request *request;
    uint64_t covers; /* a sync: the number of the first change that it need not cover */
};

struct sim_queue {
    struct io_driver_queue base;
    struct sim_disk *disk;
    struct sim_queue *next;
    struct rng rng;
    unsigned count; /* of slots in use */
    struct sim_slot slots[];
};

/** An open file. */
struct sim_handle {
    struct sim_node *node;
    unsigned flags;
};

struct sim_disk {
    pthread_mutex_t mutex;
    struct sim_disk_options options;

    struct sim_node **nodes; /* NULL where free; nodes[0] is the root */
    uint32_t node_count;
    struct sim_entry *entries;
    uint32_t entry_count;
    uint32_t entry_capacity;
    uint32_t free_entry;
    struct sim_name_change *name_changes; /* in order */
    size_t name_change_count;
    size_t name_change_capacity;

    unsigned systems;         /* open on it */
    struct sim_queue *queues; /* open, latest first */

    bool is_cut;
    uint64_t steps;
    uint64_t cut_at_step; /* 0: not armed */
    enum sim_cut cut;     /* of the armed cut, as its seed */
    uint64_t cut_seed;
};

/** @return how many of 16 changes a cut keeps, on average: all, none, or drawn anew for each file
 * so that a cut that keeps most of one file and little of another is common. */
unsigned sim_cut_chance(enum sim_cut cut, struct rng *rng);

/** @return true `chance` times in 16. */
static inline bool sim_coin(struct rng *rng, unsigned chance)
{
    return (rng_next(rng) >> 60) < chance;
}

/** Count a step. @return 0, or -EIO when the power was cut in it: nodes may be gone then */
int sim_step(struct sim_disk *disk);

/** Let the writes that are under way in queues happen on a disk: that of the queues or a clone. */
void sim_carry_out_writes(struct sim_disk *disk, const struct sim_queue *queues);

/** @return 0, or the errno with which a request is refused for its arguments. */
int sim_request_check(const struct sim_disk *disk, const struct io_request *request);

/** Cut the power. */
void sim_cut_now(struct sim_disk *disk, enum sim_cut cut, uint64_t seed);

/** @return chunks that may still be used, SIZE_MAX without a limit. */
size_t sim_space_left(const struct sim_disk *disk);

/** Make the driver of a system. @return NULL without memory. Called without the mutex. */
struct io_driver *sim_driver_create(struct sim_disk *disk, struct clock *clock, uint64_t seed);

#endif
