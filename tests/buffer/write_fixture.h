/*
 * write_fixture.h -- a pool over a simulated disk and a log in memory: random changes of pages,
 * recovery, and the judge of what is left after a power cut.
 */
#ifndef FIRN_TESTS_BUFFER_WRITE_FIXTURE_H
#define FIRN_TESTS_BUFFER_WRITE_FIXTURE_H

#include "buffer/writer_internal.h"

#include "base/rng.h"
#include "io/sim_support.h"

#include "buffer/fake_redo.h"

enum {
    WORLD_PAGE_BYTES = 8192,
    WORLD_SPACES = 2,
    WORLD_PAGES = 24, /* of each */
    WORLD_POOL_BYTES = 320 << 10,
};

static const char *const world_tables[WORLD_SPACES] = {"/table1", "/table2"};

/** What time the systems go by; NULL: the real one. */
static struct clock *world_clock;

/** What is used of a disk until the power goes. */
struct world {
    struct io_system *system;
    struct fault_injector *faults;
    struct io_file *tables[WORLD_SPACES];
    struct redo *redo;
    struct buffer_pool *pool;
};

static inline firn_rc world_locate(void *context, uint64_t page_id, struct io_file **file,
                                   uint64_t *offset)
{
    struct world *world = context;
    uint32_t space = page_id_space(page_id);
    if (space >= WORLD_SPACES || page_id_number(page_id) >= WORLD_PAGES)
        return rc_raise(FIRN_E_NOT_FOUND, "no page %llx", (unsigned long long)page_id);
    *file = world->tables[space];
    *offset = (uint64_t)page_id_number(page_id) * WORLD_PAGE_BYTES;
    return FIRN_OK;
}

static inline struct buffer_options world_options(void)
{
    return (struct buffer_options){.size_bytes = WORLD_POOL_BYTES,
                                   .page_size_bytes = WORLD_PAGE_BYTES,
                                   .doublewrite = BUFFER_DOUBLEWRITE_ON,
                                   .doublewrite_directory = "",
                                   .doublewrite_direct = true,
                                   .environment = "write fixture",
                                   .io_capacity = 200,
                                   .io_capacity_max = 2000,
                                   .dirty_percent_max = 90,
                                   .queue_depth = 8};
}

/** Open a pool on a disk. @return what buffer_open says; the rest is open all the same */
static inline firn_rc world_open(struct world *world, struct sim_disk *disk, struct redo *redo,
                                 struct buffer_options options)
{
    memset(world, 0, sizeof(*world));
    world->redo = redo;
    struct clock *clock = world_clock != NULL ? world_clock : clock_real();
    ASSERT_OK(sim_disk_open_system(disk, clock, 1, &world->system));
    ASSERT_OK(fault_attach(world->system, 1, &world->faults));
    for (unsigned i = 0; i < WORLD_SPACES; i++)
        if (!sim_disk_is_cut(disk))
            world->tables[i] =
                file_open(world->system, world_tables[i], IO_OPEN_CREATE | IO_OPEN_DIRECT);
    options.redo = redo;
    options.files = (struct buffer_files){.context = world, .locate = world_locate};
    options.systems = &world->system;
    options.system_count = 1;
    options.doublewrite_system = world->system;
    return buffer_open(&options, &world->pool);
}

static inline void world_close(struct world *world)
{
    buffer_close(world->pool);
    for (unsigned i = 0; i < WORLD_SPACES; i++)
        if (world->tables[i] != NULL)
            io_file_close(world->tables[i]);
    io_system_close(world->system);
}

/** The first batch would make the file, in each of many tries: a batch that holds no page. */
static inline void world_make_doublewrite(struct world *world)
{
    static const uint8_t zeros[WORLD_PAGE_BYTES];
    struct doublewrite_image image = {zeros, 1};
    struct doublewrite *doublewrite;
    struct doublewrite_options options = {.system = world->system,
                                          .directory = "",
                                          .environment = "write fixture",
                                          .page_size_bytes = WORLD_PAGE_BYTES,
                                          .direct = true};
    ASSERT_OK(doublewrite_open(&options, &doublewrite));
    ASSERT_OK(doublewrite_write(doublewrite, 0, &image, 1));
    ASSERT_OK(doublewrite_sync(doublewrite));
    doublewrite_close(doublewrite);
}

/** A disk with tablespaces of zeros and a doublewrite file, all durable.
 * @param atomic_write_bytes  what it writes whole if asked; 0: sectors only */
static inline struct sim_disk *world_disk_with(uint32_t atomic_write_bytes)
{
    struct sim_disk *disk;
    ASSERT_OK(sim_disk_create(&(struct sim_disk_options){.sector_bytes = SECTOR,
                                                         .atomic_write_bytes = atomic_write_bytes},
                              &disk));
    struct redo redo;
    struct world world;
    fake_redo_init(&redo);
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    world_make_doublewrite(&world);
    for (unsigned i = 0; i < WORLD_SPACES; i++) {
        ASSERT_OK(io_file_set_size(world.tables[i], WORLD_PAGES * WORLD_PAGE_BYTES));
        ASSERT_OK(io_sync(world.tables[i], IO_SYNC_DATA));
    }
    ASSERT_OK(io_sync_directory(world.system, "/"));
    world_close(&world);
    fake_redo_free(&redo);
    return disk;
}

static inline struct sim_disk *world_disk(void)
{
    return world_disk_with(0);
}

/* ---- Changing pages ---- */

/** Hold the pages of a frame exclusively. */
static inline firn_rc world_fix(struct world *world, const struct fake_frame *change,
                                struct buffer_frame **frames)
{
    firn_rc rc = FIRN_OK;
    unsigned fixed = 0;
    for (; fixed < change->count && rc == FIRN_OK; fixed++)
        rc = change->makes ? buffer_fix_new(world->pool, change->page_ids[fixed], &frames[fixed])
                           : buffer_fix(world->pool, change->page_ids[fixed], BUFFER_EXCLUSIVE,
                                        BUFFER_HINT_NORMAL, &frames[fixed]);
    if (rc == FIRN_OK)
        return FIRN_OK;
    for (fixed--; fixed > 0; fixed--)
        buffer_unfix(world->pool, frames[fixed - 1], BUFFER_EXCLUSIVE);
    return rc;
}

/** A page is about to be changed as a frame says. */
static inline void world_begin(struct world *world, struct buffer_frame *frame,
                               const struct fake_frame *change)
{
    if (change->makes)
        buffer_begin_page(world->pool, frame);
    else
        buffer_begin_change(world->pool, frame);
}

/** Do what a frame of log will say: as src/mtr does. */
static inline firn_rc world_change(struct world *world, struct fake_frame change)
{
    struct buffer_frame *frames[FAKE_PAGES_MAX];
    FIRN_TRY(world_fix(world, &change, frames));
    for (unsigned i = 0; i < change.count; i++) {
        world_begin(world, frames[i], &change);
        buffer_mark_dirty(world->pool, frames[i], 0);
    }
    change.end_lsn = fake_redo_append(world->redo, change);
    change.lsn = change.end_lsn - FAKE_FRAME_BYTES;
    for (unsigned i = 0; i < change.count; i++) {
        fake_apply(buffer_page(world->pool, frames[i]), WORLD_PAGE_BYTES, change.page_ids[i],
                   &change);
        buffer_unfix(world->pool, frames[i], BUFFER_EXCLUSIVE);
    }
    return FIRN_OK;
}

/** Make all pages. */
static inline firn_rc world_make_pages(struct world *world)
{
    for (uint32_t page = 0; page < WORLD_PAGES; page++) {
        struct fake_frame change = {.makes = true, .count = WORLD_SPACES};
        for (uint32_t space = 0; space < WORLD_SPACES; space++)
            change.page_ids[space] = page_id_of(space, page);
        FIRN_TRY(world_change(world, change));
    }
    return FIRN_OK;
}

/** Change one to three pages, in the order of their ids; adjacent ones as a rule. Now and then they
 * are made anew. */
static inline struct fake_frame world_random_change(struct rng *rng)
{
    struct fake_frame change = {.count = 1 + (unsigned)rng_below(rng, FAKE_PAGES_MAX),
                                .makes = rng_below(rng, 6) == 0};
    uint32_t space = (uint32_t)rng_below(rng, WORLD_SPACES);
    uint32_t page = (uint32_t)rng_below(rng, WORLD_PAGES - 3 * change.count);
    for (unsigned i = 0; i < change.count; i++) {
        change.page_ids[i] = page_id_of(space, page);
        page += 1 + (uint32_t)rng_below(rng, 2);
    }
    return change;
}

static inline void world_change_one(struct world *world, uint64_t page_id)
{
    ASSERT_OK(world_change(world, (struct fake_frame){.count = 1, .page_ids = {page_id}}));
}

/* ---- A page that a failed write has torn in its place ---- */

static const uint64_t world_torn_page = 3; /* of tablespace 0 */

/** Change it; the write behind the doublewrite file's stops in the middle of it. */
static inline void world_tear_page(struct world *world)
{
    struct fault_plan plans[] = {
        {.kind = FAULT_SHORT, .targets = FAULT_WRITES, .first = 2},
        {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 3},
    };
    world_change_one(world, world_torn_page);
    fault_set_plans(world->faults, plans, ARRAY_COUNT(plans));
    assert_int_equal(buffer_flush_space(world->pool, 0), FIRN_E_IO);
    assert_int_equal(fault_hits(world->faults), 2);
    fault_set_plans(world->faults, NULL, 0);
}

/* ---- Recovery and its judge ---- */

static inline firn_rc world_redo_page(struct world *world, const struct fake_frame *frame,
                                      uint64_t page_id)
{
    struct buffer_frame *fixed;
    if (frame->makes)
        FIRN_TRY(buffer_fix_new(world->pool, page_id, &fixed));
    else
        FIRN_TRY(buffer_fix(world->pool, page_id, BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &fixed));
    world_begin(world, fixed, frame);
    uint8_t *page = buffer_page(world->pool, fixed);
    if (frame->makes || page_lsn(page) < frame->end_lsn) {
        buffer_mark_dirty(world->pool, fixed, redo_checkpoint_lsn(world->redo));
        fake_apply(page, WORLD_PAGE_BYTES, page_id, frame);
    }
    buffer_unfix(world->pool, fixed, BUFFER_EXCLUSIVE);
    return FIRN_OK;
}

/** Does a frame behind a place in the log make the page anew? Then it may be torn until there. */
static inline bool world_is_made_later(const struct redo *redo, size_t place, uint64_t page_id)
{
    for (size_t i = place + 1; i < redo->count; i++)
        for (unsigned p = 0; p < redo->frames[i].count && redo->frames[i].makes; p++)
            if (redo->frames[i].page_ids[p] == page_id)
                return true;
    return false;
}

/** Repair, and repeat the log from the checkpoint; what the pool cannot hold is written. */
static inline firn_rc world_recover(struct world *world)
{
    unsigned repaired;
    struct redo *redo = world->redo;
    firn_rc rc = buffer_doublewrite_repair(world->pool, &repaired);
    redo->recovering = true;
    for (size_t i = 0; i < redo->count && rc == FIRN_OK; i++) {
        if (redo->frames[i].lsn < redo_checkpoint_lsn(redo))
            continue;
        for (unsigned p = 0; p < redo->frames[i].count && rc == FIRN_OK; p++) {
            rc = world_redo_page(world, &redo->frames[i], redo->frames[i].page_ids[p]);
            if (rc == FIRN_E_CORRUPT && world_is_made_later(redo, i, redo->frames[i].page_ids[p]))
                rc = FIRN_OK;
        }
    }
    redo->recovering = false;
    return rc;
}

/** Is every page in the pool's eyes what the log says? */
static inline bool world_is_right(struct world *world)
{
    for (uint32_t space = 0; space < WORLD_SPACES; space++)
        for (uint32_t number = 0; number < WORLD_PAGES; number++) {
            uint8_t expected[WORLD_PAGE_BYTES];
            struct buffer_frame *frame;
            uint64_t page_id = page_id_of(space, number);
            if (!fake_redo_expect(world->redo, page_id, expected, WORLD_PAGE_BYTES))
                continue;
            if (buffer_fix(world->pool, page_id, BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame) !=
                FIRN_OK)
                return false;
            bool same = memcmp(buffer_page(world->pool, frame) + 4, expected + 4,
                               WORLD_PAGE_BYTES - 4) == 0;
            buffer_unfix(world->pool, frame, BUFFER_SHARED);
            if (!same)
                return false;
        }
    return true;
}

/** Is it so in the files, too, without any log? */
static inline bool disk_is_right(struct sim_disk *disk, const struct redo *redo)
{
    struct io_system *system = disk_open(disk, 1);
    bool right = true;
    for (uint32_t space = 0; space < WORLD_SPACES; space++) {
        size_t size_bytes;
        uint8_t *file = file_load(system, world_tables[space], &size_bytes);
        for (uint32_t number = 0; number < WORLD_PAGES; number++) {
            uint8_t expected[WORLD_PAGE_BYTES];
            const uint8_t *page = file + (size_t)number * WORLD_PAGE_BYTES;
            uint64_t page_id = page_id_of(space, number);
            if (fake_redo_expect(redo, page_id, expected, WORLD_PAGE_BYTES))
                right = right &&
                        page_verify(page, WORLD_PAGE_BYTES, page_id, UINT64_MAX) == PAGE_GOOD &&
                        memcmp(page + 4, expected + 4, WORLD_PAGE_BYTES - 4) == 0;
        }
        free(file);
    }
    io_system_close(system);
    return right;
}

/** The power has been cut: does everything that is durable in the log come back, and once flushed
 * stay without the log? */
static inline bool world_survives(struct sim_disk *disk, struct redo *redo,
                                  struct buffer_options options)
{
    struct world world;
    fake_redo_crash(redo);
    sim_disk_restore(disk);
    bool right = world_open(&world, disk, redo, options) == FIRN_OK;
    right = right && world_recover(&world) == FIRN_OK && world_is_right(&world);
    right = right && buffer_flush(world.pool, UINT64_MAX) == FIRN_OK &&
            buffer_clean_lsn(world.pool) == redo_reserved_lsn(redo);
    world_close(&world);
    if (!right)
        return false;
    sim_disk_cut(disk, SIM_CUT_DROP, 1);
    sim_disk_restore(disk);
    return disk_is_right(disk, redo);
}

#endif
