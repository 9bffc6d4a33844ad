/*
 * pool_fixture.h -- a pool over one file of numbered pages on a simulated disk.
 *
 * Each page's body is filled with one word, so that a reader sees at once whether what it looked at
 * was whole: page_word tells it, and fails the test when the words differ.
 */
#ifndef FIRN_TESTS_BUFFER_POOL_FIXTURE_H
#define FIRN_TESTS_BUFFER_POOL_FIXTURE_H

#include "buffer/pool_internal.h"

#include "io/sim_support.h"

#include "buffer/fake_redo.h"

enum { POOL_SPACE = 3, POOL_PAGE_BYTES = 4096 };

/** One tablespace, of one file. */
struct pool_files {
    struct io_system *system;
    struct io_file *file;
    uint32_t page_size_bytes;
    uint32_t pages;
    bool (*exists)(uint32_t page_no); /* NULL: all pages do */
};

static inline uint64_t page_id(uint32_t page_no)
{
    return page_id_of(POOL_SPACE, page_no);
}

static inline firn_rc files_locate(void *context, uint64_t id, struct io_file **file,
                                   uint64_t *offset)
{
    const struct pool_files *files = context;
    if (page_id_space(id) != POOL_SPACE || page_id_number(id) >= files->pages ||
        (files->exists != NULL && !files->exists(page_id_number(id))))
        return rc_raise(FIRN_E_NOT_FOUND, "there is no page %u in tablespace %u",
                        page_id_number(id), page_id_space(id));
    *file = files->file;
    *offset = (uint64_t)page_id_number(id) * files->page_size_bytes;
    return FIRN_OK;
}

/** Fill a page's body with a word. */
static inline void page_fill(uint8_t *page, uint32_t page_size_bytes, uint64_t word)
{
    for (size_t at = PAGE_HEADER_BYTES; at < page_size_bytes; at += sizeof(word))
        put_u64(page + at, word);
}

/** Look whether a page's body is one word. @return false if not, or not page page_no */
static inline bool page_is_whole(const uint8_t *page, uint32_t page_size_bytes, uint32_t page_no,
                                 uint64_t *word)
{
    *word = get_u64(page + PAGE_HEADER_BYTES);
    bool whole = page_number(page) == page_no && page_space(page) == POOL_SPACE;
    for (size_t at = PAGE_HEADER_BYTES; at < page_size_bytes; at += sizeof(*word))
        whole &= get_u64(page + at) == *word;
    return whole;
}

/** @return the word that a page's body is filled with. The caller has it latched. */
static inline uint64_t page_word(struct buffer_pool *pool, struct buffer_frame *frame)
{
    uint64_t word;
    assert_true(page_is_whole(buffer_page(pool, frame), buffer_page_size(pool),
                              page_id_number(buffer_page_id(frame)), &word));
    return word;
}

/** Write pages [0, pages), each with its number as its word, to a file. */
static inline void files_make(struct pool_files *files, struct io_system *system, const char *path,
                              uint32_t page_size_bytes, uint32_t pages)
{
    *files =
        (struct pool_files){.system = system, .page_size_bytes = page_size_bytes, .pages = pages};
    ASSERT_OK(io_file_open(system, IO_CLASS_TABLE, path,
                           IO_OPEN_CREATE | IO_OPEN_TRUNCATE | IO_OPEN_DIRECT, &files->file));
    uint8_t *page = aligned_alloc(PAGE_SIZE_MIN, page_size_bytes);
    for (uint32_t i = 0; i < pages; i++) {
        page_init(page, page_size_bytes, page_id(i), PAGE_TYPE_BLOB);
        page_fill(page, page_size_bytes, i);
        page_seal(page, page_size_bytes);
        ASSERT_OK(io_write(files->file, page, page_size_bytes, (uint64_t)i * page_size_bytes));
    }
    free(page);
    ASSERT_OK(io_sync(files->file, IO_SYNC_DATA));
}

/** Options of a small pool of so many frames, for a test to change. */
static inline struct buffer_options pool_options(struct pool_files *files, uint32_t frames)
{
    uint64_t frame_bytes = files->page_size_bytes + 64;
    return (struct buffer_options){
        /* Frames and descriptors, and at least what the map and the pool's head take. */
        .size_bytes = frames * frame_bytes + (frames / 64 + 4) * UINT64_C(4096),
        .page_size_bytes = files->page_size_bytes,
        .files = {.context = files, .locate = files_locate},
        .systems = &files->system,
        .system_count = 1,
        .doublewrite = BUFFER_DOUBLEWRITE_OFF,
        .io_capacity = 200,
        .io_capacity_max = 2000,
        .dirty_percent_max = 90,
        .queue_depth = 16,
    };
}

/** All of it, for a test's setup and teardown. */
struct pool_world {
    struct sim_disk *disk;
    struct io_system *system;
    struct fault_injector *faults;
    struct redo redo;
    struct pool_files files;
    struct buffer_pool *pool;
};

/** Make the disk and the file; options for a pool over them. */
static inline struct buffer_options world_begin(struct pool_world *world, uint32_t frames,
                                                uint32_t pages)
{
    world->disk = disk_make();
    world->system = disk_open(world->disk, 1);
    ASSERT_OK(fault_attach(world->system, 1, &world->faults));
    files_make(&world->files, world->system, "/t.firn", POOL_PAGE_BYTES, pages);
    fake_redo_init(&world->redo);
    struct buffer_options options = pool_options(&world->files, frames);
    options.redo = &world->redo;
    return options;
}

static inline void world_open(struct pool_world *world, uint32_t frames, uint32_t pages)
{
    struct buffer_options options = world_begin(world, frames, pages);
    ASSERT_OK(buffer_open(&options, &world->pool));
}

static inline void world_close(struct pool_world *world)
{
    buffer_close(world->pool);
    world->pool = NULL;
    fake_redo_free(&world->redo);
    ASSERT_OK(io_file_close(world->files.file));
    io_system_close(world->system);
    sim_disk_destroy(world->disk);
}

/** @return the word of a page, fixed shared for it. */
static inline uint64_t pool_word(struct buffer_pool *pool, uint32_t page_no)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(pool, page_id(page_no), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame));
    uint64_t word = page_word(pool, frame);
    buffer_unfix(pool, frame, BUFFER_SHARED);
    return word;
}

/** Change a page that the caller has latched exclusively, with a frame of log. */
static inline void page_change(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t word)
{
    buffer_mark_dirty(pool, frame, 0);
    uint64_t lsn = fake_redo_append(pool->options.redo, (struct fake_frame){.count = 0});
    page_fill(buffer_page(pool, frame), buffer_page_size(pool), word);
    page_set_lsn(buffer_page(pool, frame), lsn);
}

/** Change a page, fixed exclusively for it, to another word. */
static inline void pool_write(struct buffer_pool *pool, uint32_t page_no, uint64_t word)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(pool, page_id(page_no), BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &frame));
    page_word(pool, frame);
    page_change(pool, frame, word);
    buffer_unfix(pool, frame, BUFFER_EXCLUSIVE);
}

static inline struct buffer_counters pool_counters(struct buffer_pool *pool)
{
    struct buffer_counters counters;
    buffer_counters(pool, &counters);
    return counters;
}

#endif
