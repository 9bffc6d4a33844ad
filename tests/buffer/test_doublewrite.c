/*
 * The doublewrite file alone: what it puts back and what it leaves, files that are not it, rot in
 * each byte, failures of each operation and allocation.
 */
#include "doublewrite_fixture.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/endian.h"
#include "base/memory.h"

#include <errno.h>

/* A disk whose doublewrite file holds pages [0, count) in version 1, while version 0 is in place.
 */
static struct sim_disk *disk_with_batch(unsigned count)
{
    struct sim_disk *disk = fixture_disk();
    struct fixture fixture;
    struct doublewrite *doublewrite;
    uint8_t *batch = fixture_batch(count, 1);
    fixture_open(&fixture, disk);
    ASSERT_OK(doublewrite_open(&fixture.options, &doublewrite));
    ASSERT_OK(fixture_write(doublewrite, 0, batch, count, FIXTURE_ALL_SECTORS));
    ASSERT_OK(doublewrite_sync(doublewrite));
    doublewrite_close(doublewrite);
    fixture_close(&fixture);
    free(batch);
    return disk;
}

static void damage(struct fixture *fixture, uint32_t page_no)
{
    file_fill(fixture->table, (uint64_t)page_no * FIXTURE_PAGE_BYTES + 512, 512, 0xee);
}

static firn_rc repair(struct fixture *fixture, uint64_t checkpoint_lsn, unsigned *repaired)
{
    return doublewrite_repair(&fixture->options, &fixture->files, checkpoint_lsn, repaired);
}

/* ---- What is put back ---- */

static void test_damaged_pages_are_put_back_and_whole_ones_left(void **state)
{
    (void)state;
    struct sim_disk *disk = disk_with_batch(4);
    struct fixture fixture;
    unsigned repaired = 99;
    fixture_open(&fixture, disk);
    damage(&fixture, 1);
    file_fill(fixture.table, 3 * FIXTURE_PAGE_BYTES, FIXTURE_PAGE_BYTES, 0); /* zeros */
    damage(&fixture, 6);                                                     /* in no batch */
    ASSERT_OK(repair(&fixture, FIXTURE_FIRST_LSN, &repaired));
    assert_int_equal(repaired, 2);
    assert_int_equal(fixture_version(&fixture, 0), 0);
    assert_int_equal(fixture_version(&fixture, 1), 1);
    assert_int_equal(fixture_version(&fixture, 2), 0);
    assert_int_equal(fixture_version(&fixture, 3), 1);
    assert_int_equal(fixture_version(&fixture, 6), -1);
    fixture_close(&fixture);
    sim_disk_cut(disk, SIM_CUT_DROP, 1); /* what was put back is durable */
    sim_disk_restore(disk);
    fixture_open(&fixture, disk);
    assert_int_equal(fixture_version(&fixture, 1), 1);
    ASSERT_OK(repair(&fixture, FIXTURE_FIRST_LSN, &repaired));
    assert_int_equal(repaired, 0);
    fixture_close(&fixture);
    sim_disk_destroy(disk);
}

/* Version 1 of a page in place, but for some sectors that are still version 0's. */
static void tear(struct fixture *fixture, uint32_t page_no, uint32_t old_sectors)
{
    uint8_t old[FIXTURE_PAGE_BYTES];
    uint8_t page[FIXTURE_PAGE_BYTES];
    fixture_make_page(old, page_no, 0);
    fixture_make_page(page, page_no, 1);
    for (unsigned i = 0; i < FIXTURE_PAGE_BYTES / SECTOR; i++)
        if ((old_sectors >> i & 1) != 0)
            memcpy(page + (size_t)i * SECTOR, old + (size_t)i * SECTOR, SECTOR);
    ASSERT_OK(io_write(fixture->table, page, sizeof(page), (uint64_t)page_no * sizeof(page)));
}

/* Whatever a tear leaves of the sectors that are in the file, they make the page whole; one that is
   not there cannot be made up for, and then the page stays as it is. */
static void test_sectors_are_laid_over_what_lies_in_place(void **state)
{
    (void)state;
    enum { HERE = 0xb1 }; /* sectors 0, 4, 5 and 7 */
    struct sim_disk *disk = fixture_disk();
    struct fixture fixture;
    struct doublewrite *doublewrite;
    unsigned repaired;
    uint8_t *batch = fixture_batch(4, 1);
    fixture_open(&fixture, disk);
    ASSERT_OK(doublewrite_open(&fixture.options, &doublewrite));
    ASSERT_OK(fixture_write(doublewrite, 0, batch, 4, HERE));
    doublewrite_close(doublewrite);
    for (uint32_t old = 1; old <= FIXTURE_ALL_SECTORS; old++) {
        bool whole = (old & ~(uint32_t)HERE) == 0 || old == FIXTURE_ALL_SECTORS;
        tear(&fixture, 2, old);
        ASSERT_OK(repair(&fixture, FIXTURE_FIRST_LSN, &repaired));
        assert_int_equal(fixture_version(&fixture, 2), old == FIXTURE_ALL_SECTORS ? 0
                                                       : whole                    ? 1
                                                                                  : -1);
        assert_int_equal(repaired, whole && old != FIXTURE_ALL_SECTORS);
    }
    fixture_close(&fixture);
    sim_disk_destroy(disk);
    free(batch);
}

/* More than is written at once, with pages of the largest size, whose sectors are larger, too. */
static void test_an_area_takes_as_many_whole_pages_as_it_says(void **state)
{
    (void)state;
    struct sim_disk *disk = disk_make();
    struct fixture fixture;
    struct doublewrite *doublewrite;
    fixture_open(&fixture, disk);
    fixture.options.page_size_bytes = PAGE_SIZE_MAX;
    unsigned count = doublewrite_pages_max(PAGE_SIZE_MAX);
    uint8_t *page = malloc(PAGE_SIZE_MAX);
    struct doublewrite_image images[DOUBLEWRITE_PAGES_MAX];
    memset(page, 7, PAGE_SIZE_MAX);
    for (unsigned i = 0; i < count; i++)
        images[i] = (struct doublewrite_image){page, sectors_all(PAGE_SIZE_MAX)};
    ASSERT_OK(doublewrite_open(&fixture.options, &doublewrite));
    uint64_t end = DOUBLEWRITE_BLOCK_BYTES + DOUBLEWRITE_AREA_BYTES;
    ASSERT_OK(doublewrite_write(doublewrite, 0, images, count));
    doublewrite_close(doublewrite);
    size_t size_bytes;
    uint8_t *file = file_load(fixture.system, DOUBLEWRITE_FILE, &size_bytes);
    for (uint64_t at = 2 * DOUBLEWRITE_BLOCK_BYTES; at < end; at++)
        assert_int_equal(file[at], 7);
    assert_int_equal(file[end], 0); /* the other area */
    free(file);
    free(page);
    fixture_close(&fixture);
    sim_disk_destroy(disk);
}

static void test_a_page_behind_the_end_of_its_file_is_put_back(void **state)
{
    (void)state;
    struct sim_disk *disk = disk_with_batch(FIXTURE_PAGES);
    struct fixture fixture;
    unsigned repaired;
    fixture_open(&fixture, disk);
    ASSERT_OK(io_file_set_size(fixture.table, (FIXTURE_PAGES - 1) * FIXTURE_PAGE_BYTES + 100));
    ASSERT_OK(repair(&fixture, FIXTURE_FIRST_LSN, &repaired));
    assert_int_equal(repaired, 1);
    assert_int_equal(fixture_version(&fixture, FIXTURE_PAGES - 1), 1);
    fixture_close(&fixture);
    sim_disk_destroy(disk);
}

/* Redo repeats what comes after the checkpoint: an image from before would stay behind. */
static void test_an_image_from_before_the_checkpoint_is_not_used(void **state)
{
    (void)state;
    struct sim_disk *disk = disk_with_batch(4);
    struct fixture fixture;
    unsigned repaired;
    fixture_open(&fixture, disk);
    damage(&fixture, 2);
    ASSERT_OK(repair(&fixture, FIXTURE_FIRST_LSN + 8, &repaired));
    assert_int_equal(repaired, 0);
    assert_int_equal(fixture_version(&fixture, 2), -1);
    ASSERT_OK(repair(&fixture, FIXTURE_FIRST_LSN + 7, &repaired));
    assert_int_equal(repaired, 1);
    fixture_close(&fixture);
    sim_disk_destroy(disk);
}

static void test_pages_of_a_dropped_tablespace_are_passed_over(void **state)
{
    (void)state;
    struct sim_disk *disk = fixture_disk();
    struct fixture fixture;
    struct doublewrite *doublewrite;
    unsigned repaired;
    uint8_t *batch = fixture_batch(2, 1);
    uint8_t *first = batch;
    page_init(first, FIXTURE_PAGE_BYTES, page_id_of(FIXTURE_SPACE + 1, 0), PAGE_TYPE_BLOB);
    page_set_lsn(first, FIXTURE_FIRST_LSN + 8);
    page_seal(first, FIXTURE_PAGE_BYTES);
    fixture_open(&fixture, disk);
    ASSERT_OK(doublewrite_open(&fixture.options, &doublewrite));
    ASSERT_OK(fixture_write(doublewrite, 1, batch, 2, FIXTURE_ALL_SECTORS));
    doublewrite_close(doublewrite);
    damage(&fixture, 1);
    ASSERT_OK(repair(&fixture, FIXTURE_FIRST_LSN, &repaired));
    assert_int_equal(repaired, 1);
    fixture_close(&fixture);
    sim_disk_destroy(disk);
    free(batch);
}

static void test_no_file_means_nothing_to_put_back(void **state)
{
    (void)state;
    struct sim_disk *disk = fixture_disk();
    struct fixture fixture;
    unsigned repaired = 99;
    fixture_open(&fixture, disk);
    ASSERT_OK(repair(&fixture, 0, &repaired));
    assert_int_equal(repaired, 0);
    fixture_close(&fixture);
    sim_disk_destroy(disk);
}

static void test_blocks_larger_than_a_header_use_the_page_cache(void **state)
{
    (void)state;
    struct sim_disk *disk;
    struct fixture fixture;
    struct doublewrite *doublewrite;
    unsigned repaired;
    ASSERT_OK(sim_disk_create(&(struct sim_disk_options){.sector_bytes = 16384}, &disk));
    uint8_t *batch = fixture_batch(3, 1);
    fixture_open(&fixture, disk);
    file_fill(fixture.table, 0, FIXTURE_PAGES * FIXTURE_PAGE_BYTES, 0xee);
    ASSERT_OK(doublewrite_open(&fixture.options, &doublewrite));
    ASSERT_OK(fixture_write(doublewrite, 0, batch, 3, FIXTURE_ALL_SECTORS));
    doublewrite_close(doublewrite);
    ASSERT_OK(repair(&fixture, 0, &repaired));
    assert_int_equal(repaired, 3);
    fixture_close(&fixture);
    sim_disk_destroy(disk);
    free(batch);
}

/* ---- Files that are not it ---- */

/* Change 4 bytes of the header, as somebody would who makes a right one. */
static void forge(struct fixture *fixture, size_t at, uint32_t value)
{
    uint8_t block[DOUBLEWRITE_BLOCK_BYTES];
    struct io_file *file = file_open(fixture->system, DOUBLEWRITE_FILE, 0);
    ASSERT_OK(io_read(file, block, sizeof(block), 0));
    put_u32(block + at, value);
    put_u32(block + 4, checksum_crc32c(block + 8, sizeof(block) - 8));
    ASSERT_OK(io_write(file, block, sizeof(block), 0));
    ASSERT_OK(io_file_close(file));
}

/* Neither opening nor repair takes the file, both say why, and nothing is changed. */
static void assert_refused(struct fixture *fixture, firn_rc rc, const char *text)
{
    struct doublewrite *doublewrite;
    unsigned repaired;
    uint64_t steps = sim_disk_steps(fixture->disk);
    assert_int_equal(doublewrite_open(&fixture->options, &doublewrite), rc);
    ASSERT_TEXT(text);
    ASSERT_TEXT(DOUBLEWRITE_FILE);
    assert_int_equal(repair(fixture, 0, &repaired), rc);
    ASSERT_TEXT(text);
    assert_int_equal(sim_disk_steps(fixture->disk), steps);
}

static void test_files_that_are_not_it_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
        firn_rc rc;
        const char *text;
    } cases[] = {
        {8, 3, FIRN_E_UNSUPPORTED,
         "format version 3, this program knows version 2; use a newer one"},
        {8, 1, FIRN_E_UNSUPPORTED, "with the program that wrote it, then move this file away"},
        {12, 8192, FIRN_E_CORRUPT, "pages of 8192 bytes"},
        {16, 1, FIRN_E_CORRUPT, "another environment"},
        {28, 1, FIRN_E_CORRUPT, "another environment"},
        {32, 100, FIRN_E_CORRUPT, "cannot be"},
        {36, 4096, FIRN_E_CORRUPT, "cannot be"},
        {40, 1024, FIRN_E_CORRUPT, "cannot be"},
        {0, 1, FIRN_E_CORRUPT, "no doublewrite file"},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct sim_disk *disk = disk_with_batch(1);
        struct fixture fixture;
        fixture_open(&fixture, disk);
        forge(&fixture, cases[i].at, cases[i].value);
        assert_refused(&fixture, cases[i].rc, cases[i].text);
        fixture_close(&fixture);
        sim_disk_destroy(disk);
    }
}

static void test_a_truncated_file_is_refused(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 100, 4096, 4096 + DOUBLEWRITE_AREA_BYTES};
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct sim_disk *disk = disk_with_batch(1);
        struct fixture fixture;
        fixture_open(&fixture, disk);
        struct io_file *file = file_open(fixture.system, DOUBLEWRITE_FILE, 0);
        ASSERT_OK(io_file_set_size(file, sizes[i]));
        ASSERT_OK(io_file_close(file));
        assert_refused(&fixture, FIRN_E_CORRUPT, "truncated");
        fixture_close(&fixture);
        sim_disk_destroy(disk);
    }
}

/* ---- Rot ---- */

/* Flip bits of one byte: a clear error, or every page as it should be but for those that were
   damaged, which may stay so. */
static void try_rot(struct sim_disk *original, uint64_t offset, uint8_t mask)
{
    struct sim_disk *disk = sim_disk_clone(original);
    struct fixture fixture;
    unsigned repaired;
    ASSERT_OK(sim_disk_rot(disk, DOUBLEWRITE_FILE, offset, mask));
    fixture_open(&fixture, disk);
    firn_rc rc = repair(&fixture, FIXTURE_FIRST_LSN, &repaired);
    if (rc != FIRN_OK) {
        assert_true(rc == FIRN_E_CORRUPT || rc == FIRN_E_UNSUPPORTED);
        ASSERT_TEXT(DOUBLEWRITE_FILE);
    }
    for (uint32_t i = 0; i < FIXTURE_PAGES; i++) {
        int version = fixture_version(&fixture, i);
        assert_true(i == 1 ? version == -1 || version == 1 : version == 0);
    }
    fixture_close(&fixture);
    sim_disk_destroy(disk);
}

static void test_rot_in_any_byte_never_makes_a_wrong_page(void **state)
{
    (void)state;
    struct sim_disk *disk = disk_with_batch(2);
    struct fixture fixture;
    fixture_open(&fixture, disk);
    damage(&fixture, 1);
    ASSERT_OK(io_sync(fixture.table, IO_SYNC_DATA));
    fixture_close(&fixture);
    /* The header of the file, that of the batch, and both images: all that is there. */
    for (uint64_t offset = 0; offset < 4 * 4096; offset++)
        try_rot(disk, offset, (uint8_t)(1U << (offset % 8)));
    sim_disk_destroy(disk);
}

/* ---- Failures ---- */

/* Make the file, write a batch and put a page back. */
static firn_rc whole_life(struct fixture *fixture, const uint8_t *batch, unsigned *repaired)
{
    struct doublewrite *doublewrite;
    FIRN_TRY(doublewrite_open(&fixture->options, &doublewrite));
    firn_rc rc = fixture_write(doublewrite, 0, batch, 2, FIXTURE_ALL_SECTORS);
    if (rc == FIRN_OK)
        rc = doublewrite_sync(doublewrite);
    doublewrite_close(doublewrite);
    FIRN_TRY(rc);
    return repair(fixture, FIXTURE_FIRST_LSN, repaired);
}

/* After any failure the same again succeeds, once what failed works. */
static void assert_recovers(struct sim_disk *disk, uint8_t *batch)
{
    struct fixture fixture;
    unsigned repaired;
    fixture_open(&fixture, disk);
    ASSERT_OK(whole_life(&fixture, batch, &repaired));
    assert_int_equal(fixture_version(&fixture, 0), 1);
    fixture_close(&fixture);
}

static void test_each_operation_may_fail(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOSPC, 0}; /* 0: comes back short */
    uint8_t *batch = fixture_batch(2, 1);
    for (unsigned e = 0; e < ARRAY_COUNT(errors); e++) {
        bool failed = true;
        for (uint64_t first = 1; failed; first++) {
            struct sim_disk *disk = fixture_disk();
            struct fixture fixture;
            struct fault_injector *injector;
            unsigned repaired;
            fixture_open(&fixture, disk);
            io_file_close(fixture.table);
            ASSERT_OK(fault_attach(fixture.system, 1, &injector));
            fixture.table = file_open(fixture.system, "/table", 0);
            damage(&fixture, 0);
            struct fault_plan plan = {.kind = errors[e] != 0 ? FAULT_ERROR : FAULT_SHORT,
                                      .targets = FAULT_ALL,
                                      .first = first,
                                      .error = errors[e]};
            fault_set_plans(injector, &plan, 1);
            firn_rc rc = whole_life(&fixture, batch, &repaired);
            failed = fault_hits(injector) > 0;
            fault_set_plans(injector, NULL, 0);
            if (rc == FIRN_OK)
                assert_int_equal(fixture_version(&fixture, 0), 1);
            fixture_close(&fixture);
            assert_recovers(disk, batch);
            sim_disk_destroy(disk);
        }
    }
    free(batch);
}

static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    uint8_t *batch = fixture_batch(2, 1);
    firn_rc rc = FIRN_E_NOMEM;
    for (long successes = 0; rc != FIRN_OK; successes++) {
        struct sim_disk *disk = fixture_disk();
        struct fixture fixture;
        unsigned repaired;
        fixture_open(&fixture, disk);
        damage(&fixture, 0);
        memory_fail_after(successes);
        rc = whole_life(&fixture, batch, &repaired);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        fixture_close(&fixture);
        assert_recovers(disk, batch);
        sim_disk_destroy(disk);
    }
    free(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_pages_are_put_back_and_whole_ones_left),
        cmocka_unit_test(test_sectors_are_laid_over_what_lies_in_place),
        cmocka_unit_test(test_an_area_takes_as_many_whole_pages_as_it_says),
        cmocka_unit_test(test_a_page_behind_the_end_of_its_file_is_put_back),
        cmocka_unit_test(test_an_image_from_before_the_checkpoint_is_not_used),
        cmocka_unit_test(test_pages_of_a_dropped_tablespace_are_passed_over),
        cmocka_unit_test(test_no_file_means_nothing_to_put_back),
        cmocka_unit_test(test_blocks_larger_than_a_header_use_the_page_cache),
        cmocka_unit_test(test_files_that_are_not_it_are_refused),
        cmocka_unit_test(test_a_truncated_file_is_refused),
        cmocka_unit_test(test_rot_in_any_byte_never_makes_a_wrong_page),
        cmocka_unit_test(test_each_operation_may_fail),
        cmocka_unit_test(test_each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
