/* The files of a log: made, removed and replaced whole or not at all; whatever is wrong with them
   is said in a sentence. */
#include "base/checksum.h"
#include "redo/redo_support.h"

enum { SMALL = 3 }; /* frames in the logs here */

static struct io_file *open_file(struct log *log, unsigned number)
{
    char path[64];
    struct io_file *file;
    snprintf(path, sizeof(path), "log/firn_redo.%u", number);
    ASSERT_OK(io_file_open(log->system, IO_CLASS_REDO, path, 0, &file));
    return file;
}

static void change_byte(struct log *log, unsigned number, uint64_t offset, uint8_t xor_mask)
{
    struct io_file *file = open_file(log, number);
    uint8_t byte;
    ASSERT_OK(io_read(file, &byte, 1, offset));
    byte ^= xor_mask;
    ASSERT_OK(io_write(file, &byte, 1, offset));
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(io_file_close(file));
}

/* A log with a few frames, closed. */
static void make_small(struct log *log)
{
    struct log_content content;
    log_make(log);
    log_start(log, &content);
    for (uint64_t i = 0; i < SMALL; i++) {
        ASSERT_OK(log_append(log->redo, i, &log->end_lsn));
        ASSERT_OK(redo_tick(log->redo));
    }
    log_close(log);
}

/* A power cut and a new process on the same disk. */
static void restart(struct log *log)
{
    io_system_close(log->system);
    if (sim_disk_is_cut(log->disk))
        sim_disk_restore(log->disk);
    sim_disk_cut_after(log->disk, 0, SIM_CUT_KEEP, 0);
    log->options.system = log->system = disk_open(log->disk, 1);
}

static void expect_refusal(struct log *log, firn_rc rc, const char *text)
{
    assert_int_equal(redo_open(&log->options, &log->redo), rc);
    ASSERT_TEXT(text);
    assert_null(log->redo);
}

/* ---- What can be wrong ---- */

static void test_damaged_headers(void **state)
{
    (void)state;
    struct log log;
    make_small(&log);
    for (unsigned file = 0; file < 2; file++)
        for (uint64_t offset = 0; offset < 4096; offset += offset < 64 ? 1 : 97) {
            change_byte(&log, file, offset, 0x10);
            assert_int_equal(redo_open(&log.options, &log.redo), FIRN_E_CORRUPT);
            ASSERT_TEXT("is no log file, or its header is damaged");
            change_byte(&log, file, offset, 0x10);
        }
    log_destroy(&log);
}

/* A header of a later version begins alike and is whole. */
static void test_a_newer_format(void **state)
{
    (void)state;
    struct log log;
    make_small(&log);
    uint8_t block[4096];
    struct io_file *file = open_file(&log, 0);
    ASSERT_OK(io_read(file, block, sizeof(block), 0));
    put_u32(block + 12, 2);
    put_u32(block + 8, checksum_crc32c(block + 12, sizeof(block) - 12));
    ASSERT_OK(io_write(file, block, sizeof(block), 0));
    ASSERT_OK(io_file_close(file));
    expect_refusal(&log, FIRN_E_UNSUPPORTED, "has version 2 of the log's format");
    log_destroy(&log);
}

static void test_a_foreign_environment(void **state)
{
    (void)state;
    struct log log;
    make_small(&log);
    log.options.environment[3] ^= 1;
    expect_refusal(&log, FIRN_E_CORRUPT, "belongs to the log of another environment");
    log_destroy(&log);
}

static void test_missing_files(void **state)
{
    (void)state;
    struct log log;
    make_small(&log);
    ASSERT_OK(io_rename(log.system, "log/firn_redo.1", "log/kept"));
    expect_refusal(&log, FIRN_E_NOT_FOUND, "log/firn_redo.1 is missing: the log has 2 files");
    ASSERT_OK(io_rename(log.system, "log/firn_redo.0", "log/kept0"));
    expect_refusal(&log, FIRN_E_NOT_FOUND, "there is no log in log: firn_redo.0 is missing");
    ASSERT_OK(io_rename(log.system, "log/kept0", "log/firn_redo.0"));
    ASSERT_OK(io_rename(log.system, "log/kept", "log/firn_redo.1"));
    struct log_content content;
    log_start(&log, &content);
    assert_int_equal(content.frames, SMALL);
    log_destroy(&log);
}

static void test_swapped_files(void **state)
{
    (void)state;
    struct log log;
    make_small(&log);
    ASSERT_OK(io_rename(log.system, "log/firn_redo.0", "log/kept"));
    ASSERT_OK(io_rename(log.system, "log/firn_redo.1", "log/firn_redo.0"));
    ASSERT_OK(io_rename(log.system, "log/kept", "log/firn_redo.1"));
    expect_refusal(&log, FIRN_E_CORRUPT, "is the log's file 1, not 0: files have been swapped");
    log_destroy(&log);
}

static void test_truncated_and_grown_files(void **state)
{
    (void)state;
    struct log log;
    make_small(&log);
    static const uint64_t sizes[] = {0, 100, 4096, LOG_FILE_BYTES - 4096, LOG_FILE_BYTES + 4096};
    for (unsigned number = 0; number < 2; number++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct sim_disk *disk = sim_disk_clone(log.disk);
            struct log copy = {.disk = disk, .system = disk_open(disk, 1), .options = log.options};
            copy.options.system = copy.system;
            struct io_file *file = open_file(&copy, number);
            ASSERT_OK(io_file_set_size(file, sizes[i]));
            ASSERT_OK(io_file_close(file));
            expect_refusal(&copy, FIRN_E_CORRUPT, "cut off");
            log_destroy(&copy);
        }
    log_destroy(&log);
}

static void test_one_damaged_checkpoint_does_no_harm(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    make_small(&log);
    for (unsigned copy = 1; copy <= 2; copy++) {
        change_byte(&log, 0, copy * 4096 + 40, 1);
        log_start(&log, &content);
        assert_int_equal(content.frames, SMALL);
        log_close(&log);
    }
    change_byte(&log, 0, 4096 + 40, 1);
    change_byte(&log, 0, 8192 + 40, 1);
    expect_refusal(&log, FIRN_E_CORRUPT, "both copies of the checkpoint in log/firn_redo.0");
    log_destroy(&log);
}

static void test_options_out_of_range(void **state)
{
    (void)state;
    struct log log;
    make_small(&log);
    struct redo_options good = log.options;
    log.options.file_count = 1;
    expect_refusal(&log, FIRN_E_INVALID, "log_files must be between 2 and 100");
    log.options = good;
    log.options.file_size_bytes = (5 << 20) + 1;
    expect_refusal(&log, FIRN_E_INVALID, "log_file_size must be a multiple of 1 MiB");
    log.options = good;
    log.options.buffer_size_bytes = 1000;
    expect_refusal(&log, FIRN_E_INVALID, "log_buffer_size must be a multiple of 64 KiB");
    log_destroy(&log);
}

static void test_a_log_is_not_made_twice(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    make_small(&log);
    assert_int_equal(redo_create(&log.options, REDO_FIRST_LSN), FIRN_E_EXISTS);
    log_start(&log, &content);
    assert_int_equal(content.frames, SMALL);
    log_destroy(&log);
}

/* ---- Rot ---- */

/* Reading after rot: damage, or an early end that only what nobody is known to have relied on can
   have. */
static void judge_rot(struct redo *redo, uint64_t offset, uint64_t last_at, uint64_t frames)
{
    struct log_content content;
    firn_rc rc = log_read(redo, &content);
    if (rc == FIRN_E_CORRUPT) {
        ASSERT_TEXT("the log is damaged in log/firn_redo.0 at offset");
        return;
    }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    if (content.frames != frames && (content.frames != frames - 1 || offset < last_at))
        fail_msg("rot at %llu left %llu frames", (unsigned long long)offset,
                 (unsigned long long)content.frames);
}

static void test_rot_of_each_byte_of_the_log_is_found(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    uint64_t last_at = 0;
    uint64_t number = 0;
    log_make(&log);
    /* In two lives, so that the frames that begin them rot, too. */
    for (int life = 0; life < 2; life++) {
        log_start(&log, &content);
        for (int i = 0; i < 6; i++) {
            last_at = 16384 + redo_reserved_lsn(log.redo) - REDO_FIRST_LSN;
            ASSERT_OK(log_append_sized(log.redo, number++, 12 + 7 * (unsigned)i, &log.end_lsn));
            ASSERT_OK(redo_tick(log.redo));
        }
        log_close(&log);
    }
    ASSERT_OK(redo_open(&log.options, &log.redo));
    uint64_t end_at = 16384 + log.end_lsn - REDO_FIRST_LSN;
    for (uint64_t offset = 16384; offset < end_at; offset++) {
        uint8_t mask = (uint8_t)(1 << offset % 8);
        ASSERT_OK(sim_disk_rot(log.disk, "log/firn_redo.0", offset, mask));
        judge_rot(log.redo, offset, last_at, number);
        ASSERT_OK(sim_disk_rot(log.disk, "log/firn_redo.0", offset, mask));
    }
    log_destroy(&log);
}

/* ---- Making, removing and replacing, cut off at each step ---- */

static firn_rc count_one(const char *name, void *context)
{
    *(unsigned *)context += strncmp(name, "firn_redo.", 10) == 0;
    return FIRN_OK;
}

static unsigned count_files(struct log *log)
{
    unsigned count = 0;
    ASSERT_OK(io_list(log->system, "log", count_one, &count));
    return count;
}

static void test_making_a_log_cut_off_leaves_all_or_nothing(void **state)
{
    (void)state;
    uint64_t seed = test_seed(61);
    bool was_cut = true;
    for (uint64_t step = 1; was_cut; step++) {
        struct log log = {.disk = disk_make()};
        log.system = disk_open(log.disk, seed);
        ASSERT_OK(io_make_directory(log.system, "log"));
        ASSERT_OK(io_sync_directory(log.system, "/"));
        log.options = log_options(log.system);
        sim_disk_cut_after(log.disk, step, all_cuts[step % 4], seed + step);
        firn_rc rc = redo_create(&log.options, REDO_FIRST_LSN);
        was_cut = sim_disk_is_cut(log.disk);
        test_count(TEST_CUTS, was_cut);
        assert_int_equal(rc == FIRN_OK, !was_cut);
        restart(&log);
        rc = redo_open(&log.options, &log.redo);
        if (rc == FIRN_E_NOT_FOUND && was_cut) {
            ASSERT_OK(redo_create(&log.options, REDO_FIRST_LSN));
        } else {
            ASSERT_OK(rc);
            log_close(&log);
        }
        struct log_content content;
        log_start(&log, &content);
        assert_int_equal(content.frames, 0);
        log_destroy(&log);
    }
}

static void test_removing_a_log_cut_off_can_be_done_again(void **state)
{
    (void)state;
    struct log start;
    make_small(&start);
    uint64_t seed = test_seed(62);
    bool was_cut = true;
    for (uint64_t step = 1; was_cut; step++) {
        struct log log = {.disk = sim_disk_clone(start.disk)};
        log.system = disk_open(log.disk, seed);
        log.options = log_options(log.system);
        sim_disk_cut_after(log.disk, step, all_cuts[step % 4], seed + step);
        (void)redo_remove(&log.options);
        was_cut = sim_disk_is_cut(log.disk);
        test_count(TEST_CUTS, was_cut);
        restart(&log);
        struct log_content content;
        firn_rc rc = redo_open(&log.options, &log.redo);
        if (rc == FIRN_OK) {
            assert_int_equal(log_read(log.redo, &content), FIRN_E_NOT_FOUND);
            assert_int_equal(content.frames, SMALL);
            log_close(&log);
        } else {
            assert_int_equal(rc, FIRN_E_NOT_FOUND);
        }
        ASSERT_OK(redo_remove(&log.options));
        assert_int_equal(count_files(&log), 0);
        ASSERT_OK(redo_create(&log.options, REDO_FIRST_LSN));
        log_destroy(&log);
    }
    log_destroy(&start);
}

/* A log that was closed cleanly: everything is behind the checkpoint. */
static void make_clean(struct log *log)
{
    struct log_content content;
    log_make(log);
    log_start(log, &content);
    ASSERT_OK(log_append(log->redo, 0, &log->end_lsn));
    ASSERT_OK(redo_checkpoint(log->redo, log->end_lsn));
    log_close(log);
}

static void check_resized(struct log *log, uint64_t checkpoint_lsn, uint32_t file_count)
{
    struct log_content content;
    log_start(log, &content);
    assert_int_equal(content.frames, 0);
    assert_int_equal(redo_checkpoint_lsn(log->redo), checkpoint_lsn);
    assert_int_equal(redo_file_count(log->redo), file_count);
    assert_int_equal(count_files(log), file_count);
    ASSERT_OK(log_append(log->redo, 1, &log->end_lsn));
    ASSERT_OK(redo_tick(log->redo));
    log_close(log);
    log_start(log, &content);
    assert_int_equal(content.frames, 1);
    ASSERT_OK(redo_checkpoint(log->redo, redo_reserved_lsn(log->redo)));
    log_close(log);
}

static void cut_off_resizing(struct log *start, uint32_t file_count, uint64_t seed)
{
    bool was_cut = true;
    uint64_t checkpoint_lsn = start->end_lsn;
    for (uint64_t step = 1; was_cut; step++) {
        struct log log = {.disk = sim_disk_clone(start->disk)};
        log.system = disk_open(log.disk, seed);
        log.options = log_options(log.system);
        log.options.file_count = file_count;
        sim_disk_cut_after(log.disk, step, all_cuts[step % 4], seed + step);
        firn_rc rc = redo_resize(&log.options);
        was_cut = sim_disk_is_cut(log.disk);
        test_count(TEST_CUTS, was_cut);
        assert_int_equal(rc == FIRN_OK, !was_cut);
        restart(&log);
        unsigned lying_about = count_files(&log);
        ASSERT_OK(redo_open(&log.options, &log.redo));
        uint32_t found = redo_file_count(log.redo);
        assert_true(found == file_count || (was_cut && found == 3));
        log_close(&log);
        assert_int_equal(count_files(&log), lying_about); /* opening alone changes nothing */
        ASSERT_OK(redo_resize(&log.options));
        check_resized(&log, checkpoint_lsn, file_count);
        log_destroy(&log);
    }
}

static void test_resizing_cut_off_leaves_the_old_log_or_the_new_one(void **state)
{
    (void)state;
    struct log start;
    make_clean(&start);
    start.options.file_count = 3;
    ASSERT_OK(redo_resize(&start.options));
    cut_off_resizing(&start, 2, test_seed(63));
    cut_off_resizing(&start, 4, test_seed(64));
    log_destroy(&start);
}

static void test_a_log_in_use_is_not_resized(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    make_small(&log);
    log.options.file_count = 3;
    assert_int_equal(redo_resize(&log.options), FIRN_E_BUSY);
    ASSERT_TEXT("it was not closed cleanly");
    log_start(&log, &content);
    assert_int_equal(content.frames, SMALL);
    assert_int_equal(redo_file_count(log.redo), 2);
    log_destroy(&log);
}

static void test_no_space_for_the_new_log_leaves_the_old_one(void **state)
{
    (void)state;
    struct log log;
    struct log_content content;
    make_clean(&log);
    sim_disk_set_capacity(log.disk, 18 << 20);
    log.options.file_count = 10;
    assert_int_equal(redo_resize(&log.options), FIRN_E_NOSPACE);
    assert_int_equal(count_files(&log), 2);
    log_start(&log, &content);
    assert_int_equal(redo_file_count(log.redo), 2);
    log_destroy(&log);
}

/* A file of the log before a change of its size, put back beside the new ones. */
static void test_a_file_of_an_earlier_log(void **state)
{
    (void)state;
    struct log log;
    make_clean(&log);
    log.options.file_count = 3;
    struct io_file *old = open_file(&log, 1);
    uint8_t block[4096];
    ASSERT_OK(io_read(old, block, sizeof(block), 0));
    ASSERT_OK(io_file_close(old));
    ASSERT_OK(redo_resize(&log.options));
    struct io_file *file = open_file(&log, 1);
    ASSERT_OK(io_write(file, block, sizeof(block), 0));
    ASSERT_OK(io_file_close(file));
    expect_refusal(&log, FIRN_E_CORRUPT, "of different logs of this environment");
    log_destroy(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_headers),
        cmocka_unit_test(test_a_newer_format),
        cmocka_unit_test(test_a_foreign_environment),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_swapped_files),
        cmocka_unit_test(test_truncated_and_grown_files),
        cmocka_unit_test(test_one_damaged_checkpoint_does_no_harm),
        cmocka_unit_test(test_options_out_of_range),
        cmocka_unit_test(test_a_log_is_not_made_twice),
        cmocka_unit_test(test_rot_of_each_byte_of_the_log_is_found),
        cmocka_unit_test(test_making_a_log_cut_off_leaves_all_or_nothing),
        cmocka_unit_test(test_removing_a_log_cut_off_can_be_done_again),
        cmocka_unit_test(test_resizing_cut_off_leaves_the_old_log_or_the_new_one),
        cmocka_unit_test(test_a_log_in_use_is_not_resized),
        cmocka_unit_test(test_no_space_for_the_new_log_leaves_the_old_one),
        cmocka_unit_test(test_a_file_of_an_earlier_log),
    };
    return cmocka_run_group_tests_name("redo_files", tests, NULL, NULL);
}
