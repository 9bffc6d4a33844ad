/*
 * redo_world.h -- a log whose power is cut, and an oracle of what must be in it afterwards.
 *
 * A world is a disk, a log on it, and for each frame that may be in the log who appended it: its
 * number and its life, which change its bytes. A life is the time between two opens. So a frame
 * that was lost and came back behind another life's is told apart from the frame that is due.
 */
#ifndef FIRN_TESTS_REDO_REDO_WORLD_H
#define FIRN_TESTS_REDO_REDO_WORLD_H

#include "redo/redo_support.h"

enum { WORLD_FRAMES_MAX = 20000, WORLD_PROBLEM_BYTES = 1024, WORLD_HEAD_BYTES = 16 };

struct world_frame {
    uint32_t life;
    uint32_t size_bytes;
    uint64_t lsn; /* where it begins */
};

struct world {
    struct sim_disk *disk;
    struct io_system *system;
    struct redo_options options;
    struct redo *redo;
    struct rng rng;
    uint32_t life;
    uint64_t frames;         /* that may be there */
    uint64_t durable;        /* of them must be there */
    uint64_t end_lsn;        /* of the last frame appended or read */
    uint64_t checkpoint_lsn; /* acknowledged ... */
    uint64_t attempt_lsn;    /* ... and asked for */
    struct world_frame frame[WORLD_FRAMES_MAX];
    uint32_t fixed_size_bytes; /* of all frames' bodies, or 0 */
    uint8_t bytes[1 << 20];
    char problem[WORLD_PROBLEM_BYTES]; /* what is wrong, once something is */
};

#define WORLD_WRONG(world, ...)                                                                    \
    (snprintf((world)->problem, WORLD_PROBLEM_BYTES, __VA_ARGS__), false)

/* ---- Frames ---- */

static inline struct span world_fill(struct world *world, uint64_t number, uint32_t life,
                                     uint32_t size_bytes)
{
    put_u64(world->bytes, number);
    put_u32(world->bytes + 8, life);
    put_u32(world->bytes + 12, size_bytes);
    uint64_t word = (number << 32 | life) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = WORLD_HEAD_BYTES; i < size_bytes; i++)
        world->bytes[i] = (uint8_t)(word >> (i & 7) * 8) ^ (uint8_t)(i >> 3);
    return span_of(world->bytes, size_bytes);
}

static inline uint32_t world_draw_size(struct world *world)
{
    if (world->fixed_size_bytes != 0)
        return world->fixed_size_bytes;
    uint64_t kind = rng_below(&world->rng, 24);
    uint64_t limit = kind == 0 ? 400000 : kind < 3 ? 40000 : kind < 8 ? 3000 : 200;
    return (uint32_t)(WORLD_HEAD_BYTES + rng_below(&world->rng, limit));
}

/* ---- Opening ---- */

static inline bool world_judge_frame(struct world *world, uint64_t number, struct span body,
                                     uint64_t lsn)
{
    if (number >= world->frames)
        return WORLD_WRONG(world, "a frame at LSN %llu that nobody appended",
                           (unsigned long long)lsn);
    const struct world_frame *due = &world->frame[number];
    struct span expected = world_fill(world, number, due->life, due->size_bytes);
    if (lsn != due->lsn || span_compare(body, expected) != 0)
        return WORLD_WRONG(world, "frame %llu of life %u is not as it was appended",
                           (unsigned long long)number, due->life);
    return true;
}

/* @return the number of the first frame at or behind an LSN */
static inline uint64_t world_frame_at(const struct world *world, uint64_t lsn)
{
    uint64_t number = 0;
    while (number < world->frames && world->frame[number].lsn < lsn)
        number++;
    return number;
}

/* Read the log and hold it against the oracle. @return true, with *rc telling how reading ended;
   false if something is wrong */
static inline bool world_read(struct world *world, firn_rc *rc)
{
    struct redo_reader *reader;
    struct span body;
    uint64_t lsn, end_lsn;
    uint64_t from = redo_checkpoint_lsn(world->redo);
    if (from != world->checkpoint_lsn && from != world->attempt_lsn)
        return WORLD_WRONG(world, "a checkpoint at LSN %llu that nobody took",
                           (unsigned long long)from);
    uint64_t number = world_frame_at(world, from);
    uint64_t end = from;
    *rc = redo_reader_open(world->redo, from, &reader);
    if (*rc != FIRN_OK)
        return true;
    bool right = true;
    while (right && (*rc = redo_reader_next(reader, &body, &lsn, &end_lsn)) == FIRN_OK) {
        right = world_judge_frame(world, number++, body, lsn);
        end = end_lsn;
    }
    redo_reader_close(reader);
    if (!right || *rc != FIRN_E_NOT_FOUND)
        return right;
    *rc = FIRN_OK;
    if (number < world->durable)
        return WORLD_WRONG(world, "only %llu of %llu durable frames are there",
                           (unsigned long long)number, (unsigned long long)world->durable);
    world->frames = number;
    world->end_lsn = end;
    world->checkpoint_lsn = world->attempt_lsn = from;
    return true;
}

/* Open, read, let appending begin. As world_read. */
static inline bool world_open(struct world *world, firn_rc *rc)
{
    world->life++;
    *rc = redo_open(&world->options, &world->redo);
    if (*rc != FIRN_OK)
        return true;
    if (!world_read(world, rc))
        return false;
    if (*rc == FIRN_OK)
        *rc = redo_recovered(world->redo, world->end_lsn);
    if (*rc == FIRN_OK)
        world->durable = world->frames;
    return true;
}

/* ---- Working ---- */

static inline firn_rc world_append(struct world *world)
{
    struct redo_room room = {0};
    uint32_t size = world_draw_size(world);
    uint64_t number = world->frames;
    FIRN_TRY(redo_reserve(world->redo, size, &room));
    assert_true(number < WORLD_FRAMES_MAX);
    world->frame[number] = (struct world_frame){world->life, size, redo_reserved_lsn(world->redo)};
    world->frames++; /* it may be there even if this fails */
    firn_rc rc =
        redo_append(world->redo, world_fill(world, number, world->life, size), &world->end_lsn);
    redo_unreserve(world->redo, &room);
    return rc;
}

static inline firn_rc world_flush(struct world *world, enum redo_flush flush)
{
    uint64_t frames = world->frames;
    FIRN_TRY(redo_flush(world->redo, redo_reserved_lsn(world->redo), flush));
    if (flush == REDO_FLUSH_SYNC)
        world->durable = frames;
    return FIRN_OK;
}

/* Take a checkpoint at a frame some way back, or at the end. */
static inline firn_rc world_checkpoint(struct world *world)
{
    uint64_t lsn = redo_reserved_lsn(world->redo);
    uint64_t back = rng_below(&world->rng, 4);
    if (back > 0 && world->frames > back && world->frame[world->frames - back].life == world->life)
        lsn = world->frame[world->frames - back].lsn;
    if (lsn <= world->checkpoint_lsn)
        return FIRN_OK;
    world->attempt_lsn = lsn;
    FIRN_TRY(redo_checkpoint(world->redo, lsn));
    world->checkpoint_lsn = redo_checkpoint_lsn(world->redo);
    world->attempt_lsn = world->checkpoint_lsn;
    return FIRN_OK;
}

static inline firn_rc world_urge(void *context)
{
    struct world *world = context;
    uint64_t lsn = redo_durable_lsn(world->redo);
    if (lsn <= world->checkpoint_lsn)
        lsn = redo_reserved_lsn(world->redo);
    world->attempt_lsn = lsn;
    FIRN_TRY(redo_checkpoint(world->redo, lsn));
    world->checkpoint_lsn = world->attempt_lsn = redo_checkpoint_lsn(world->redo);
    return FIRN_OK;
}

/* Work for so many operations, or until something fails. */
static inline firn_rc world_work(struct world *world, unsigned operations)
{
    redo_set_urge(world->redo, world_urge, world);
    for (unsigned i = 0; i < operations; i++) {
        uint64_t kind = rng_below(&world->rng, 16);
        if (kind < 10)
            FIRN_TRY(world_append(world));
        else if (kind < 13)
            FIRN_TRY(world_flush(world, REDO_FLUSH_SYNC));
        else if (kind < 15)
            FIRN_TRY(world_flush(world, REDO_FLUSH_WRITE));
        else
            FIRN_TRY(world_checkpoint(world));
    }
    return FIRN_OK;
}

/* ---- Coming and going ---- */

static inline struct world *world_make(uint64_t seed)
{
    struct world *world = calloc(1, sizeof(*world));
    rng_init(&world->rng, seed);
    world->disk = disk_make();
    world->system = disk_open(world->disk, seed);
    ASSERT_OK(io_make_directory(world->system, "log"));
    ASSERT_OK(io_sync_directory(world->system, "/"));
    world->options = log_options(world->system);
    ASSERT_OK(redo_create(&world->options, REDO_FIRST_LSN));
    world->checkpoint_lsn = world->attempt_lsn = world->end_lsn = REDO_FIRST_LSN;
    return world;
}

/* Another world on a copy of the disk; the original's log is closed. */
static inline struct world *world_clone(const struct world *world, uint64_t seed)
{
    struct world *copy = malloc(sizeof(*copy));
    memcpy(copy, world, sizeof(*copy));
    copy->disk = sim_disk_clone(world->disk);
    copy->system = disk_open(copy->disk, seed);
    copy->options.system = copy->system;
    rng_init(&copy->rng, seed);
    return copy;
}

/* Let the process die: nothing is flushed. With the power off, turn it on again. */
static inline void world_die(struct world *world, uint64_t seed)
{
    (void)redo_close(world->redo);
    world->redo = NULL;
    io_system_close(world->system);
    if (sim_disk_is_cut(world->disk))
        sim_disk_restore(world->disk);
    world->system = disk_open(world->disk, seed);
    world->options.system = world->system;
}

static inline void world_destroy(struct world *world)
{
    (void)redo_close(world->redo);
    io_system_close(world->system);
    sim_disk_destroy(world->disk);
    free(world);
}

/* Append until the tail is so many bytes before the end of the ring in its n-th round, so that work
   from here on meets the end of a file. */
static inline void world_advance(struct world *world, uint64_t lsn)
{
    redo_set_urge(world->redo, world_urge, world);
    while (redo_reserved_lsn(world->redo) < lsn) {
        ASSERT_OK(world_append(world));
        if (rng_below(&world->rng, 8) == 0)
            ASSERT_OK(world_flush(world, REDO_FLUSH_WRITE));
    }
    ASSERT_OK(world_flush(world, REDO_FLUSH_SYNC));
}

#endif
