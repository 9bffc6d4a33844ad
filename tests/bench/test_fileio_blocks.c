#include "bench/fileio_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK_BYTES = 16384, SECTOR_BYTES = 512 };

static const struct block_identity first_write = {
    .file = 3, .offset = 65536, .sequence = 1000, .seed = 7, .writer = 2};
static const struct block_identity second_write = {
    .file = 3, .offset = 65536, .sequence = 1001, .seed = 7, .writer = 5};

static enum block_state judge_at(const void *block, uint32_t size_bytes, uint64_t file,
                                 uint64_t offset)
{
    struct block_finding finding;
    block_judge(block, size_bytes, file, offset, &finding);
    return finding.state;
}

static void a_written_block_is_sound_in_its_place_only(void **state)
{
    (void)state;
    static unsigned char block[65536];
    for (uint32_t size = BLOCK_MIN_BYTES; size <= sizeof(block); size += 1000) {
        if (!block_size_fits(size))
            continue;
        struct block_finding finding;
        block_fill(block, size, &first_write);
        block_judge(block, size, 3, 65536, &finding);
        assert_int_equal(finding.state, BLOCK_SOUND);
        assert_int_equal(finding.identity.sequence, 1000);
        assert_int_equal(finding.identity.seed, 7);
        assert_int_equal(finding.identity.writer, 2);
        assert_int_equal(judge_at(block, size, 4, 65536), BLOCK_MISPLACED);
        assert_int_equal(judge_at(block, size, 3, 0), BLOCK_MISPLACED);
    }
}

static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    unsigned char block[SECTOR_BYTES];
    block_fill(block, sizeof(block), &first_write);
    for (unsigned bit = 0; bit < 8 * sizeof(block); bit++) {
        block[bit / 8] ^= (unsigned char)(1U << bit % 8);
        assert_int_not_equal(judge_at(block, sizeof(block), 3, 65536), BLOCK_SOUND);
        block[bit / 8] ^= (unsigned char)(1U << bit % 8);
    }
    assert_int_equal(judge_at(block, sizeof(block), 3, 65536), BLOCK_SOUND);
}

static void a_damaged_byte_is_named(void **state)
{
    (void)state;
    static unsigned char block[BLOCK_BYTES];
    struct block_finding finding;
    char text[256];
    block_fill(block, sizeof(block), &first_write);
    block[5001] ^= 0x40;
    block_judge(block, sizeof(block), 3, 65536, &finding);
    assert_int_equal(finding.state, BLOCK_DAMAGED);
    assert_int_equal(finding.first_bad, 5000);
    assert_int_equal(finding.end_bad, 5008);
    block_describe(&finding, "d/test_file.3", 65536, text, sizeof(text));
    assert_non_null(strstr(text, "d/test_file.3, offset 65536: the block is damaged"));
}

static void a_tear_at_any_sector_is_named(void **state)
{
    (void)state;
    static unsigned char old[BLOCK_BYTES];
    static unsigned char new[BLOCK_BYTES];
    static unsigned char torn[BLOCK_BYTES];
    block_fill(old, sizeof(old), &first_write);
    block_fill(new, sizeof(new), &second_write);
    for (uint32_t at = SECTOR_BYTES; at < BLOCK_BYTES; at += SECTOR_BYTES)
        for (int newer_first = 0; newer_first < 2; newer_first++) {
            struct block_finding finding;
            memcpy(torn, newer_first ? new : old, at);
            memcpy(torn + at, (newer_first ? old : new) + at, BLOCK_BYTES - at);
            block_judge(torn, sizeof(torn), 3, 65536, &finding);
            assert_int_equal(finding.state, BLOCK_TORN);
            assert_int_equal(finding.first_bad, at);
        }
}

static void what_no_run_wrote_is_foreign_or_empty(void **state)
{
    (void)state;
    static unsigned char block[BLOCK_BYTES];
    memset(block, 0, sizeof(block));
    assert_int_equal(judge_at(block, sizeof(block), 3, 65536), BLOCK_EMPTY);
    block_fill_randomly(block, sizeof(block), 1);
    assert_int_equal(judge_at(block, sizeof(block), 3, 65536), BLOCK_FOREIGN);
    block_fill(block, sizeof(block), &first_write);
    assert_int_equal(judge_at(block, 4096, 3, 65536), BLOCK_OTHER_SIZE);
}

/* ---- What a run knows ---- */

static const struct fileio_shape shape = {
    .file_num = 2, .blocks_per_file = 8, .total_blocks = 16, .block_bytes = SECTOR_BYTES};

static void blocks_are_taken_once_and_all_or_none(void **state)
{
    (void)state;
    struct fileio_blocks blocks = {0};
    assert_int_equal(fileio_blocks_open(&shape, 1, &blocks), FIRN_OK);
    assert_true(fileio_blocks_take(&blocks, 4, 2));
    assert_false(fileio_blocks_take(&blocks, 5, 1));
    assert_false(fileio_blocks_take(&blocks, 2, 4));
    assert_true(fileio_blocks_take(&blocks, 2, 2));
    fileio_blocks_release(&blocks, 4, 2);
    assert_true(fileio_blocks_take(&blocks, 4, 4));
    fileio_blocks_close(&blocks);
}

static void a_lost_write_is_found_as_a_stale_block(void **state)
{
    (void)state;
    struct fileio_blocks blocks = {0};
    struct fileio_access access = {
        .kind = FILEIO_WRITE, .file = 1, .offset = 0, .block = 8, .block_count = 2};
    unsigned char before[2 * SECTOR_BYTES];
    unsigned char after[2 * SECTOR_BYTES];
    assert_int_equal(fileio_blocks_open(&shape, 1, &blocks), FIRN_OK);
    assert_true(fileio_blocks_take(&blocks, 8, 2));
    fileio_blocks_fill(&blocks, &access, 0, 100, before);
    assert_int_equal(fileio_blocks_check(&blocks, &access, "f", before), FIRN_OK);
    fileio_blocks_fill(&blocks, &access, 0, 101, after);
    assert_int_equal(fileio_blocks_check(&blocks, &access, "f", after), FIRN_OK);
    memcpy(after + SECTOR_BYTES, before + SECTOR_BYTES, SECTOR_BYTES);
    assert_int_equal(fileio_blocks_check(&blocks, &access, "f", after), FIRN_E_CORRUPT);
    assert_non_null(strstr(firn_error_text(), "f, offset 512: the block is stale"));
    fileio_blocks_close(&blocks);
}

/* ---- Patterns ---- */

static struct fileio_config small_config(enum fileio_mode mode)
{
    struct fileio_config config;
    fileio_config_defaults(&config);
    config.file_test_mode = (int)mode;
    config.file_num = 3;
    config.file_block_size = 4096;
    config.file_total_size = UINT64_C(3) * 41 * 4096 + 3000; /* no whole number of blocks */
    config.fsync_freq = 0;
    return config;
}

static void sequential_modes_pass_over_every_block_in_order(void **state)
{
    (void)state;
    static const uint64_t merged[] = {0, 1, 4, 41, 100};
    for (size_t m = 0; m < sizeof(merged) / sizeof(merged[0]); m++) {
        struct fileio_config config = small_config(FILEIO_SEQRD);
        struct fileio_blocks none = {0};
        struct fileio_pattern pattern;
        struct fileio_cursor cursor = {0};
        config.merged_requests = merged[m];
        assert_int_equal(fileio_pattern_init(&config, &none, &pattern), FIRN_OK);
        uint64_t next = 0;
        while (next < 2 * 123) { /* twice around */
            struct fileio_access access;
            assert_true(fileio_pattern_next(&pattern, &cursor, &access));
            assert_int_equal(access.kind, FILEIO_READ);
            assert_int_equal(access.block, next % 123);
            assert_int_equal(access.file, next % 123 / 41);
            assert_int_equal(access.offset, next % 41 * 4096);
            assert_int_equal(access.size_bytes, access.block_count * 4096);
            assert_true(access.offset + access.size_bytes <= UINT64_C(41) * 4096);
            next += access.block_count;
        }
        assert_int_equal(next, 2 * 123);
    }
}

static void random_modes_reach_every_block_and_no_other(void **state)
{
    (void)state;
    struct fileio_config config = small_config(FILEIO_RNDRD);
    struct fileio_blocks none = {0};
    struct fileio_pattern pattern;
    struct fileio_cursor cursor = {0};
    bool seen[123] = {false};
    rng_init(&cursor.rng, 1);
    assert_int_equal(fileio_pattern_init(&config, &none, &pattern), FIRN_OK);
    for (int i = 0; i < 5000; i++) {
        struct fileio_access access;
        assert_true(fileio_pattern_next(&pattern, &cursor, &access));
        assert_int_equal(access.size_bytes, 4096);
        assert_true(access.file < 3);
        assert_true(access.offset % 4096 == 0 && access.offset / 4096 < 41);
        assert_int_equal(access.block, access.file * 41 + access.offset / 4096);
        seen[access.block] = true;
    }
    for (int i = 0; i < 123; i++)
        assert_true(seen[i]);
}

static void reads_and_writes_keep_their_ratio_at_every_moment(void **state)
{
    (void)state;
    static const double ratios[] = {0, 0.25, 1, 1.5, 7, 1e9};
    for (size_t r = 0; r < sizeof(ratios) / sizeof(ratios[0]); r++) {
        struct fileio_config config = small_config(FILEIO_RNDRW);
        struct fileio_blocks none = {0};
        struct fileio_pattern pattern;
        struct fileio_cursor cursor = {0};
        double reads = 0;
        config.rw_ratio = ratios[r];
        rng_init(&cursor.rng, 1);
        assert_int_equal(fileio_pattern_init(&config, &none, &pattern), FIRN_OK);
        for (int i = 1; i <= 1000; i++) {
            struct fileio_access access;
            assert_true(fileio_pattern_next(&pattern, &cursor, &access));
            reads += access.kind == FILEIO_READ;
            double expected = i * ratios[r] / (1 + ratios[r]);
            assert_true(reads > expected - 1.001 && reads < expected + 1.001);
        }
    }
}

static void all_files_are_synced_in_order_after_so_many_requests(void **state)
{
    (void)state;
    struct fileio_config config = small_config(FILEIO_RNDWR);
    struct fileio_blocks none = {0};
    struct fileio_pattern pattern;
    struct fileio_cursor cursor = {0};
    config.fsync_freq = 10;
    rng_init(&cursor.rng, 1);
    assert_int_equal(fileio_pattern_init(&config, &none, &pattern), FIRN_OK);
    for (uint64_t i = 0; i < 13 * 20; i++) {
        struct fileio_access access;
        assert_true(fileio_pattern_next(&pattern, &cursor, &access));
        if (i % 13 < 10) {
            assert_int_equal(access.kind, FILEIO_WRITE);
        } else {
            assert_int_equal(access.kind, FILEIO_SYNCING);
            assert_int_equal(access.file, i % 13 - 10);
        }
    }
}

static void nothing_is_synced_when_nothing_was_written(void **state)
{
    (void)state;
    struct fileio_blocks none = {0};
    struct fileio_access access;
    struct fileio_pattern pattern;
    struct fileio_cursor cursor = {0};
    struct fileio_config config = small_config(FILEIO_RNDRD);
    config.fsync_freq = 1;
    rng_init(&cursor.rng, 1);
    assert_int_equal(fileio_pattern_init(&config, &none, &pattern), FIRN_OK);
    for (int i = 0; i < 100; i++) {
        assert_true(fileio_pattern_next(&pattern, &cursor, &access));
        assert_int_equal(access.kind, FILEIO_READ);
    }
    /* A write in every fourth round of one: three syncs after each write, none after reads. */
    config.file_test_mode = FILEIO_RNDRW;
    config.rw_ratio = 3;
    assert_int_equal(fileio_pattern_init(&config, &none, &pattern), FIRN_OK);
    enum fileio_kind before = FILEIO_READ;
    int kinds[FILEIO_KIND_COUNT] = {0};
    for (int i = 0; i < 700; i++) {
        assert_true(fileio_pattern_next(&pattern, &cursor, &access));
        if (access.kind == FILEIO_SYNCING && access.file == 0)
            assert_int_equal(before, FILEIO_WRITE);
        before = access.kind;
        kinds[access.kind]++;
    }
    assert_int_equal(kinds[FILEIO_READ], 300);
    assert_int_equal(kinds[FILEIO_WRITE], 100);
    assert_int_equal(kinds[FILEIO_SYNCING], 300);
}

static void blocks_in_use_are_not_chosen(void **state)
{
    (void)state;
    struct fileio_config config = small_config(FILEIO_RNDWR);
    struct fileio_shape all = fileio_shape_of(&config);
    struct fileio_blocks blocks = {0};
    struct fileio_pattern pattern;
    struct fileio_cursor cursor = {0};
    struct fileio_access access;
    rng_init(&cursor.rng, 1);
    assert_int_equal(fileio_blocks_open(&all, 1, &blocks), FIRN_OK);
    assert_int_equal(fileio_pattern_init(&config, &blocks, &pattern), FIRN_OK);
    for (uint64_t block = 0; block < all.total_blocks; block++)
        if (block != 77)
            assert_true(fileio_blocks_take(&blocks, block, 1));
    while (!fileio_pattern_next(&pattern, &cursor, &access))
        ;
    assert_int_equal(access.block, 77);
    assert_false(fileio_pattern_next(&pattern, &cursor, &access));
    fileio_blocks_close(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_block_is_sound_in_its_place_only),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(a_damaged_byte_is_named),
        cmocka_unit_test(a_tear_at_any_sector_is_named),
        cmocka_unit_test(what_no_run_wrote_is_foreign_or_empty),
        cmocka_unit_test(blocks_are_taken_once_and_all_or_none),
        cmocka_unit_test(a_lost_write_is_found_as_a_stale_block),
        cmocka_unit_test(sequential_modes_pass_over_every_block_in_order),
        cmocka_unit_test(random_modes_reach_every_block_and_no_other),
        cmocka_unit_test(reads_and_writes_keep_their_ratio_at_every_moment),
        cmocka_unit_test(all_files_are_synced_in_order_after_so_many_requests),
        cmocka_unit_test(nothing_is_synced_when_nothing_was_written),
        cmocka_unit_test(blocks_in_use_are_not_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
