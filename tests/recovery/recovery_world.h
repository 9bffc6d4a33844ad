/*
 * recovery_world.h -- an environment of log, pool and tablespaces on a simulated disk, and an
 * oracle of every version of every page: after a crash each page must be as the log's end says.
 */
#ifndef FIRN_TESTS_RECOVERY_RECOVERY_WORLD_H
#define FIRN_TESTS_RECOVERY_RECOVERY_WORLD_H

#include "base/checksum.h"
#include "base/rng.h"
#include "recovery/recovery.h"

#include "io/sim_support.h"

enum {
    WORLD_PAGE_BYTES = 4096,
    WORLD_SPACES = 64,       /* ids */
    WORLD_SPACE_PAGES = 600, /* of each, at most */
    WORLD_VERSIONS_MAX = 60000,
    WORLD_LIVE_MAX = 2000,
    WORLD_OWNER = 7,
    WORLD_PROBLEM_BYTES = 1024,
};

/** What a page became. A drop of its tablespace is a version, too. */
struct page_version {
    uint64_t page_id;
    uint64_t end_lsn; /* UINT64_MAX while it is not known whether it happened */
    uint32_t checksum;
    bool is_gone;
};

struct world {
    struct sim_disk *disk;
    struct io_system *system;
    struct redo *redo;
    struct buffer_pool *pool;
    struct space_set *set;
    struct mtr mtr;
    struct rng rng;

    uint64_t pool_bytes; /* as set by the test, as all below */
    unsigned threads;
    uint64_t memory_bytes;
    bool skip_log_sync;

    uint64_t end_lsn;              /* of the last frame committed or recovered */
    uint64_t durable_lsn;          /* of the last one that was acknowledged */
    uint64_t spaces[WORLD_SPACES]; /* by id: LSN from which on it is there; 0: not at all */
    uint64_t live[WORLD_LIVE_MAX]; /* pages that hold something */
    unsigned live_count;
    uint32_t names;
    uint32_t version_count;
    struct recovery_result result;
    char problem[WORLD_PROBLEM_BYTES];
    struct page_version versions[WORLD_VERSIONS_MAX];
};

#define WORLD_WRONG(world, ...)                                                                    \
    (snprintf((world)->problem, WORLD_PROBLEM_BYTES, __VA_ARGS__), false)

/* ---- Opening and closing ---- */

static inline struct redo_options world_redo_options(const struct world *world)
{
    return (struct redo_options){.system = world->system,
                                 .directory = "",
                                 .file_size_bytes = 4 << 20,
                                 .file_count = 2,
                                 .buffer_size_bytes = 1 << 20,
                                 .environment = "recovery world",
                                 .direct = true,
                                 .skip_sync = world->skip_log_sync};
}

static inline firn_rc world_open_set(struct world *world)
{
    struct space_options options = {.page_size_bytes = WORLD_PAGE_BYTES,
                                    .environment = "recovery world",
                                    .direct = true,
                                    .autoextend_bytes = 1 << 20};
    static const enum io_class classes[] = {IO_CLASS_TABLE, IO_CLASS_UNDO, IO_CLASS_SYSTEM,
                                            IO_CLASS_TEMPORARY};
    for (unsigned i = 0; i < 4; i++)
        options.places[classes[i]] = (struct space_place){world->system, ""};
    return space_set_open(&options, &world->set);
}

static inline firn_rc world_open_pool(struct world *world)
{
    struct buffer_options options = {.size_bytes = world->pool_bytes,
                                     .page_size_bytes = WORLD_PAGE_BYTES,
                                     .redo = world->redo,
                                     .files = space_files(world->set),
                                     .systems = &world->system,
                                     .system_count = 1,
                                     .doublewrite = BUFFER_DOUBLEWRITE_ON,
                                     .doublewrite_system = world->system,
                                     .doublewrite_directory = "",
                                     .doublewrite_direct = true,
                                     .environment = "recovery world",
                                     .io_capacity = 200,
                                     .io_capacity_max = 2000,
                                     .dirty_percent_max = 90,
                                     .old_percent = 37,
                                     .queue_depth = 16};
    return buffer_open(&options, &world->pool);
}

static inline firn_rc world_urge(void *context)
{
    struct world *world = context;
    return buffer_clean(world->pool);
}

static inline firn_rc world_open_base(struct world *world)
{
    struct redo_options redo_options = world_redo_options(world);
    FIRN_TRY(redo_open(&redo_options, &world->redo));
    FIRN_TRY(world_open_set(world));
    FIRN_TRY(world_open_pool(world));
    space_set_attach(world->set, world->pool, world->redo);
    redo_set_urge(world->redo, world_urge, world);
    mtr_init(&world->mtr, world->pool, world->redo);
    return FIRN_OK;
}

/** Open and recover what is on the disk. */
static inline firn_rc world_open(struct world *world)
{
    FIRN_TRY(world_open_base(world));
    FIRN_TRY(space_scan(world->set, true));
    struct recovery_options options = {.redo = world->redo,
                                       .pool = world->pool,
                                       .spaces = world->set,
                                       .threads = world->threads,
                                       .memory_bytes = world->memory_bytes};
    FIRN_TRY(recovery_run(&options, &world->result));
    FIRN_TRY(space_recovered(world->set));
    return redo_recovered(world->redo, world->result.end_lsn);
}

/** Let the process die; with the power off, turn it on again. */
static inline void world_die(struct world *world, uint64_t seed)
{
    /* The one that was cut off dies with its changes. */
    world->mtr.log_bytes = 0;
    mtr_abandon(&world->mtr);
    mtr_free(&world->mtr);
    buffer_close(world->pool);
    (void)redo_close(world->redo);
    (void)space_set_close(world->set);
    io_system_close(world->system);
    world->pool = NULL;
    world->redo = NULL;
    world->set = NULL;
    if (sim_disk_is_cut(world->disk))
        sim_disk_restore(world->disk);
    world->system = disk_open(world->disk, seed);
}

static inline void world_destroy(struct world *world)
{
    world_die(world, 1);
    io_system_close(world->system);
    sim_disk_destroy(world->disk);
    free(world);
}

/** Another world on a copy of the disk; the original's process is dead. */
static inline struct world *world_clone(const struct world *world, uint64_t seed)
{
    struct world *copy = malloc(sizeof(*copy));
    memcpy(copy, world, sizeof(*copy));
    copy->disk = sim_disk_clone(world->disk);
    copy->system = disk_open(copy->disk, seed);
    rng_init(&copy->rng, seed);
    return copy;
}

/* ---- The oracle ---- */

/* What stands before is the page's own checksum, filled in when it is written; the LSN is judged by
   itself. */
static inline uint32_t world_checksum(const uint8_t *page)
{
    uint32_t head = checksum_crc32c(page + 4, 12);
    return checksum_crc32c_extend(head, page + PAGE_HEADER_BYTES,
                                  WORLD_PAGE_BYTES - PAGE_HEADER_BYTES);
}

static inline void world_add_version(struct world *world, uint64_t page_id, uint64_t end_lsn,
                                     uint32_t checksum, bool is_gone)
{
    assert_true(world->version_count < WORLD_VERSIONS_MAX);
    world->versions[world->version_count++] =
        (struct page_version){page_id, end_lsn, checksum, is_gone};
}

/** Commit the open mini-transaction and note what its pages became. */
static inline firn_rc world_commit(struct world *world)
{
    uint64_t ids[MTR_PAGES_MAX];
    uint32_t checksums[MTR_PAGES_MAX];
    unsigned count = 0;
    uint64_t end_lsn;
    for (unsigned i = 0; i < world->mtr.page_count; i++) {
        const struct mtr_page *page = &world->mtr.pages[i];
        if (page->frame == NULL || !page->changed)
            continue;
        ids[count] = page->page_id;
        checksums[count++] = world_checksum(page->bytes);
    }
    FIRN_TRY(mtr_commit(&world->mtr, &end_lsn));
    world->end_lsn = end_lsn;
    for (unsigned i = 0; i < count; i++)
        world_add_version(world, ids[i], end_lsn, checksums[i], false);
    return FIRN_OK;
}

/* Hold a page against the last version that the log has. */
static inline bool world_judge_page(struct world *world, const struct page_version *due)
{
    struct buffer_frame *frame;
    uint32_t space = page_id_space(due->page_id);
    uint32_t number = page_id_number(due->page_id);
    if (due->is_gone)
        return space_has(world->set, due->page_id) != FIRN_OK ||
               WORLD_WRONG(world, "dropped tablespace %u is there", space);
    firn_rc rc = buffer_fix(world->pool, due->page_id, BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame);
    if (rc != FIRN_OK)
        return WORLD_WRONG(world, "page %u of %u cannot be had: %s", number, space,
                           firn_error_text());
    const uint8_t *page = buffer_page(world->pool, frame);
    uint64_t lsn = page_lsn(page);
    bool right = lsn == due->end_lsn && world_checksum(page) == due->checksum;
    /* Of page 0 not all changes are ours. */
    if (number == 0 && lsn > due->end_lsn && lsn <= world->result.end_lsn)
        right = true;
    buffer_unfix(world->pool, frame, BUFFER_SHARED);
    return right ||
           WORLD_WRONG(world, "page %u of %u of LSN %llu is not as it was at LSN %llu", number,
                       space, (unsigned long long)lsn, (unsigned long long)due->end_lsn);
}

static inline void world_note_problem(const struct finding *finding, void *context)
{
    struct world *world = context;
    snprintf(world->problem, WORLD_PROBLEM_BYTES, "%s", finding->text);
}

/** Hold the recovered environment against the oracle, and forget what did not survive. */
static inline bool world_judge(struct world *world)
{
    uint64_t end = world->result.end_lsn;
    if (end < world->durable_lsn)
        return WORLD_WRONG(world, "the log ends at %llu, but %llu was durable",
                           (unsigned long long)end, (unsigned long long)world->durable_lsn);
    const struct page_version **last = calloc(WORLD_SPACES * WORLD_SPACE_PAGES, sizeof(*last));
    uint32_t kept = 0;
    for (uint32_t i = 0; i < world->version_count; i++) {
        struct page_version version = world->versions[i];
        if (version.end_lsn > end)
            continue;
        world->versions[kept] = version;
        uint32_t space = page_id_space(version.page_id);
        last[space * WORLD_SPACE_PAGES + page_id_number(version.page_id)] = &world->versions[kept];
        for (uint32_t page = 0; version.is_gone && page < WORLD_SPACE_PAGES; page++)
            last[space * WORLD_SPACE_PAGES + page] = page == 0 ? &world->versions[kept] : NULL;
        kept++;
    }
    world->version_count = kept;
    bool right = true;
    for (uint32_t i = 0; right && i < WORLD_SPACES * WORLD_SPACE_PAGES; i++)
        if (last[i] != NULL)
            right = world_judge_page(world, last[i]);
    free(last);
    for (uint32_t space = 0; right && space < WORLD_SPACES; space++)
        if (space_has(world->set, page_id_of(space, 0)) == FIRN_OK)
            right = space_check(world->set, space, world_note_problem, world) == FIRN_OK ||
                    world->problem[0] != '\0' ||
                    WORLD_WRONG(world, "space %u: %s", space, firn_error_text());
    return right && world->problem[0] == '\0';
}

/* Which spaces and pages there are to work with, after a crash. */
static inline void world_take_stock(struct world *world)
{
    world->live_count = 0;
    for (uint32_t space = 0; space < WORLD_SPACES; space++)
        world->spaces[space] = space_has(world->set, page_id_of(space, 0)) == FIRN_OK;
    for (uint32_t i = 0; i < world->version_count; i++) {
        uint64_t page_id = world->versions[i].page_id;
        struct buffer_frame *frame;
        bool known = false;
        for (unsigned j = 0; j < world->live_count && !known; j++)
            known = world->live[j] == page_id;
        if (known || space_has(world->set, page_id) != FIRN_OK ||
            buffer_fix(world->pool, page_id, BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame) != FIRN_OK)
            continue;
        if (page_type(buffer_page(world->pool, frame)) != PAGE_TYPE_FREE &&
            page_type(buffer_page(world->pool, frame)) != PAGE_TYPE_SPACE &&
            page_type(buffer_page(world->pool, frame)) != PAGE_TYPE_MAP)
            world->live[world->live_count++] = page_id;
        buffer_unfix(world->pool, frame, BUFFER_SHARED);
    }
}

/* ---- Work ---- */

/* Changes of nodes cannot be repeated twice: a page that has them is not to get them again. */
static inline void world_change_node(struct world *world, struct mtr_page *page)
{
    uint8_t key[8], value[100] = {0};
    unsigned slot;
    put_u64(key, rng_below(&world->rng, 200) * UINT64_C(0x9e3779b97f4a7c15));
    struct span key_span = span_of(key, sizeof(key));
    struct span value_span = span_of(value, rng_below(&world->rng, sizeof(value)));
    value[0] = (uint8_t)rng_next(&world->rng);
    if (slotted_search(page->bytes, WORLD_PAGE_BYTES, key_span, &slot))
        mtr_delete(&world->mtr, page, slot);
    else if (slotted_cost(page->bytes, sizeof(key), value_span.size_bytes) <=
             slotted_free_bytes(page->bytes, WORLD_PAGE_BYTES))
        mtr_insert(&world->mtr, page, slot, key_span, value_span, 0);
    else
        mtr_delete(&world->mtr, page, 0);
}

static inline void world_write(struct world *world, struct mtr_page *page)
{
    if (page_type(page->bytes) == PAGE_TYPE_INDEX) {
        world_change_node(world, page);
        return;
    }
    uint8_t bytes[600];
    size_t size = 1 + rng_below(&world->rng, sizeof(bytes));
    /* The owner stands at the beginning of the body. */
    size_t offset = PAGE_HEADER_BYTES + 8 +
                    rng_below(&world->rng, WORLD_PAGE_BYTES - PAGE_HEADER_BYTES - 8 - size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)rng_next(&world->rng);
    mtr_write(&world->mtr, page, offset, span_of(bytes, size));
}

static inline uint32_t world_draw_space(struct world *world)
{
    uint32_t space;
    do
        space = (uint32_t)rng_below(&world->rng, WORLD_SPACES);
    while (world->spaces[space] == 0);
    return space;
}

static inline firn_rc world_add_page(struct world *world)
{
    uint32_t space = world_draw_space(world);
    uint32_t number;
    struct mtr_page *page;
    uint8_t owner[8];
    put_u64(owner, WORLD_OWNER);
    if (world->live_count == WORLD_LIVE_MAX)
        return FIRN_OK;
    FIRN_TRY(mtr_begin(&world->mtr, SPACE_LOG_MAX_BYTES + 2048));
    firn_rc rc = space_allocate(world->set, &world->mtr, space, WORLD_OWNER, PAGE_NONE, &number);
    if (rc == FIRN_OK)
        rc = mtr_fix_new(&world->mtr, page_id_of(space, number), &page);
    if (rc != FIRN_OK) {
        /* What space_allocate changed stands in the log's next frame: nothing if it failed. */
        return rc;
    }
    assert_true(number < WORLD_SPACE_PAGES);
    if (rng_below(&world->rng, 2) == 0) {
        struct slotted_bounds bounds = {
            .index_id = WORLD_OWNER, .prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};
        mtr_index_init(&world->mtr, page, &bounds);
    } else {
        mtr_page_init(&world->mtr, page, PAGE_TYPE_BLOB);
        mtr_write(&world->mtr, page, PAGE_HEADER_BYTES, span_of(owner, sizeof(owner)));
    }
    world_write(world, page);
    world->live[world->live_count++] = page_id_of(space, number);
    return world_commit(world);
}

static inline firn_rc world_change_pages(struct world *world)
{
    if (world->live_count == 0)
        return FIRN_OK;
    unsigned count = 1 + (unsigned)rng_below(&world->rng, 4);
    FIRN_TRY(mtr_begin(&world->mtr, count * 2 * mtr_cost(600)));
    for (unsigned i = 0; i < count; i++) {
        struct mtr_page *page;
        FIRN_TRY(
            mtr_fix(&world->mtr, world->live[rng_below(&world->rng, world->live_count)], &page));
        world_write(world, page);
        if (rng_below(&world->rng, 4) == 0)
            world_write(world, page);
    }
    return world_commit(world);
}

static inline firn_rc world_free_page(struct world *world)
{
    if (world->live_count == 0)
        return FIRN_OK;
    struct mtr_page *page;
    unsigned index = (unsigned)rng_below(&world->rng, world->live_count);
    FIRN_TRY(mtr_begin(&world->mtr, SPACE_LOG_MAX_BYTES + 64));
    FIRN_TRY(mtr_fix(&world->mtr, world->live[index], &page));
    FIRN_TRY(space_free(world->set, &world->mtr, page, WORLD_OWNER));
    world->live[index] = world->live[--world->live_count];
    return world_commit(world);
}

static inline firn_rc world_create_space(struct world *world)
{
    char name[32];
    uint32_t space;
    snprintf(name, sizeof(name), "table%u", world->names++);
    FIRN_TRY(space_create(world->set, &world->mtr, IO_CLASS_TABLE, name, &space));
    assert_true(space < WORLD_SPACES);
    world->spaces[space] = 1;
    world->end_lsn = world->durable_lsn = redo_durable_lsn(world->redo);
    return FIRN_OK;
}

static inline firn_rc world_drop_space(struct world *world)
{
    uint32_t space = world_draw_space(world);
    if (space == SPACE_SYSTEM)
        return FIRN_OK;
    /* If this is cut off, it may have happened: with a record behind all that is in the log now. */
    world_add_version(world, page_id_of(space, 0), redo_reserved_lsn(world->redo) + 8, 0, true);
    FIRN_TRY(space_drop(world->set, &world->mtr, space));
    world->spaces[space] = 0;
    for (unsigned i = world->live_count; i-- > 0;)
        if (page_id_space(world->live[i]) == space)
            world->live[i] = world->live[--world->live_count];
    world->end_lsn = world->durable_lsn = redo_durable_lsn(world->redo);
    return FIRN_OK;
}

static inline firn_rc world_flush(struct world *world)
{
    FIRN_TRY(redo_flush(world->redo, world->end_lsn, REDO_FLUSH_SYNC));
    world->durable_lsn = world->end_lsn;
    return FIRN_OK;
}

static inline firn_rc world_checkpoint(struct world *world)
{
    FIRN_TRY(buffer_flush(world->pool, UINT64_MAX));
    return redo_checkpoint(world->redo, buffer_clean_lsn(world->pool));
}

/** Work for so many operations, or until something fails. */
static inline firn_rc world_work(struct world *world, unsigned operations)
{
    for (unsigned i = 0; i < operations; i++) {
        uint64_t kind = rng_below(&world->rng, 100);
        if (kind < 25)
            FIRN_TRY(world_add_page(world));
        else if (kind < 70)
            FIRN_TRY(world_change_pages(world));
        else if (kind < 78)
            FIRN_TRY(world_free_page(world));
        else if (kind < 80)
            FIRN_TRY(world_create_space(world));
        else if (kind < 81)
            FIRN_TRY(world_drop_space(world));
        else if (kind < 94)
            FIRN_TRY(world_flush(world));
        else if (kind < 96)
            FIRN_TRY(world_checkpoint(world));
        else
            FIRN_TRY(buffer_flush(world->pool, rng_below(&world->rng, 2) == 0
                                                   ? UINT64_MAX
                                                   : redo_durable_lsn(world->redo)));
    }
    return FIRN_OK;
}

/** Make an environment with a system tablespace. */
static inline struct world *world_make(uint64_t seed)
{
    struct world *world = calloc(1, sizeof(*world));
    uint32_t space;
    world->pool_bytes = 1 << 20;
    world->threads = 1;
    world->memory_bytes = 1 << 20;
    world->disk = disk_make();
    world->system = disk_open(world->disk, seed);
    rng_init(&world->rng, seed);
    struct redo_options options = world_redo_options(world);
    ASSERT_OK(redo_create(&options, REDO_FIRST_LSN));
    ASSERT_OK(world_open_base(world));
    ASSERT_OK(redo_recovered(world->redo, REDO_FIRST_LSN));
    ASSERT_OK(space_create(world->set, &world->mtr, IO_CLASS_SYSTEM, "system", &space));
    assert_int_equal(space, SPACE_SYSTEM);
    world->spaces[SPACE_SYSTEM] = 1;
    ASSERT_OK(world_create_space(world));
    ASSERT_OK(world_flush(world));
    return world;
}

#endif
