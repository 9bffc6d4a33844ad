/*
 * doublewrite_fixture.h -- a tablespace of a few pages on a simulated disk, for the tests of the
 * doublewrite file alone.
 */
#ifndef FIRN_TESTS_BUFFER_DOUBLEWRITE_FIXTURE_H
#define FIRN_TESTS_BUFFER_DOUBLEWRITE_FIXTURE_H

#include "buffer/doublewrite_internal.h"
#include "io/sim_support.h"

enum {
    FIXTURE_PAGE_BYTES = 4096,
    FIXTURE_PAGES = 8,
    FIXTURE_SPACE = 7,
    FIXTURE_FIRST_LSN = 10000, /* of version 0 */
    FIXTURE_ALL_SECTORS = 255,
};

#define DOUBLEWRITE_FILE "/firn_doublewrite"

/** A view of the disk with the tablespace open. */
struct fixture {
    struct sim_disk *disk;
    struct io_system *system;
    struct io_file *table;
    struct doublewrite_options options;
    struct buffer_files files;
};

static inline firn_rc fixture_locate(void *context, uint64_t page_id, struct io_file **file,
                                     uint64_t *offset)
{
    struct fixture *fixture = context;
    if (page_id_space(page_id) != FIXTURE_SPACE || page_id_number(page_id) >= FIXTURE_PAGES)
        return rc_raise(FIRN_E_NOT_FOUND, "no page %llx", (unsigned long long)page_id);
    *file = fixture->table;
    *offset = (uint64_t)page_id_number(page_id) * FIXTURE_PAGE_BYTES;
    return FIRN_OK;
}

/** Each version of a page fills all its sectors with another byte. */
static inline void fixture_make_page(uint8_t *page, uint32_t page_no, unsigned version)
{
    page_init(page, FIXTURE_PAGE_BYTES, page_id_of(FIXTURE_SPACE, page_no), PAGE_TYPE_BLOB);
    memset(page + PAGE_HEADER_BYTES, (int)(version + 1), FIXTURE_PAGE_BYTES - PAGE_HEADER_BYTES);
    page_set_lsn(page, FIXTURE_FIRST_LSN + version * 8);
    page_seal(page, FIXTURE_PAGE_BYTES);
}

/** @return the version of a page as it stands in its place; -1 if it is not whole. */
static inline int fixture_version(struct fixture *fixture, uint32_t page_no)
{
    uint8_t page[FIXTURE_PAGE_BYTES];
    ASSERT_OK(io_read(fixture->table, page, sizeof(page), (uint64_t)page_no * sizeof(page)));
    uint64_t page_id = page_id_of(FIXTURE_SPACE, page_no);
    if (page_verify(page, sizeof(page), page_id, UINT64_MAX) != PAGE_GOOD)
        return -1;
    return (int)((page_lsn(page) - FIXTURE_FIRST_LSN) / 8);
}

static inline void fixture_open(struct fixture *fixture, struct sim_disk *disk)
{
    memset(fixture, 0, sizeof(*fixture));
    fixture->disk = disk;
    fixture->system = disk_open(disk, 1);
    fixture->options = (struct doublewrite_options){.system = fixture->system,
                                                    .directory = "",
                                                    .environment = "environment 1!",
                                                    .page_size_bytes = FIXTURE_PAGE_BYTES,
                                                    .direct = true};
    fixture->files = (struct buffer_files){.context = fixture, .locate = fixture_locate};
    fixture->table = file_open(fixture->system, "/table", IO_OPEN_CREATE);
}

static inline void fixture_close(struct fixture *fixture)
{
    io_file_close(fixture->table);
    io_system_close(fixture->system);
}

/** A disk with the tablespace, all pages in version 0, durable. */
static inline struct sim_disk *fixture_disk(void)
{
    struct sim_disk *disk = disk_make();
    struct fixture fixture;
    uint8_t page[FIXTURE_PAGE_BYTES];
    fixture_open(&fixture, disk);
    for (uint32_t i = 0; i < FIXTURE_PAGES; i++) {
        fixture_make_page(page, i, 0);
        ASSERT_OK(io_write(fixture.table, page, sizeof(page), (uint64_t)i * sizeof(page)));
    }
    ASSERT_OK(io_sync(fixture.table, IO_SYNC_DATA));
    ASSERT_OK(io_sync_directory(fixture.system, "/"));
    fixture_close(&fixture);
    return disk;
}

/** Make a batch of pages [0, count) in a version; to be freed with free(). */
static inline uint8_t *fixture_batch(unsigned count, unsigned version)
{
    uint8_t *batch = malloc((size_t)count * FIXTURE_PAGE_BYTES);
    for (uint32_t i = 0; i < count; i++)
        fixture_make_page(batch + (size_t)i * FIXTURE_PAGE_BYTES, i, version);
    return batch;
}

/** Write a batch's sectors, of every page the same, into the doublewrite file. */
static inline firn_rc fixture_write(struct doublewrite *doublewrite, unsigned area,
                                    const uint8_t *batch, unsigned count, uint32_t sectors)
{
    struct doublewrite_image images[FIXTURE_PAGES];
    for (unsigned i = 0; i < count; i++)
        images[i] = (struct doublewrite_image){batch + (size_t)i * FIXTURE_PAGE_BYTES, sectors};
    return doublewrite_write(doublewrite, area, images, count);
}

#endif
