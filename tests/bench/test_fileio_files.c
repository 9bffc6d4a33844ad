/* What is refused, and that it leaves the files as they were; what a preparation does. */
#include "bench/fileio_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

static void preparing_creates_extends_reuses_and_shortens(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_config config = make_config(FILEIO_RNDRD);
    uint64_t written = 0;
    assert_int_equal(prepare(&config, &told, &written), FIRN_OK);
    assert_string_equal(told.files,
                        "Creating test_file.0;Creating test_file.1;Creating test_file.2;");
    assert_int_equal(written, FILES * FILE_BYTES);
    verify_well(&config);
    assert_int_equal(truncate(path_of(0), 5000), 0);
    assert_int_equal(truncate(path_of(2), FILE_BYTES + 1000), 0);
    told = (struct told){0};
    assert_int_equal(prepare(&config, &told, &written), FIRN_OK);
    assert_string_equal(told.files, "Extending existing test_file.0;Reusing existing test_file.1;"
                                    "Shortening existing test_file.2;");
    assert_int_equal(written, FILE_BYTES - 4096);
    assert_int_equal(size_of(2), FILE_BYTES);
    verify_well(&config);
    told = (struct told){0};
    config.validate = true;
    assert_int_equal(prepare(&config, &told, &written), FIRN_OK);
    assert_string_equal(told.files, "Rewriting existing test_file.0;Rewriting existing test_file.1;"
                                    "Rewriting existing test_file.2;");
}

static void a_smaller_number_of_files_is_refused_untouched(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_config config = make_config(FILEIO_RNDRD);
    uint64_t written = 77;
    config.file_num = 2;
    assert_int_equal(prepare(&config, &told, &written), FIRN_E_EXISTS);
    assert_non_null(strstr(firn_error_text(), "3 test files"));
    assert_int_equal(written, 77);
    for (unsigned i = 0; i < FILES; i++)
        assert_int_equal(size_of(i), FILE_BYTES);
}

static void a_stopped_preparation_can_be_taken_up(void **state)
{
    (void)state;
    struct told told = {.stop_at_progress = true};
    struct fileio_config config = make_config(FILEIO_RNDRD);
    uint64_t written = 0;
    config.file_total_size = UINT64_C(64) << 20;
    config.file_num = 2;
    assert_int_equal(prepare(&config, &told, &written), FIRN_E_STOPPED);
    assert_true(size_of(0) >= 0);
    told = (struct told){0};
    assert_int_equal(prepare(&config, &told, &written), FIRN_OK);
    verify_well(&config);
}

static void a_preparation_without_space_removes_what_it_made(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_config config = make_config(FILEIO_RNDRD);
    uint64_t written = 77;
    /* The limit of a file's size stands in for a full disk: EFBIG where that says ENOSPC. */
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = {.rlim_cur = 2 << 20, .rlim_max = before.rlim_max};
    config.file_num = 2;
    config.file_total_size = UINT64_C(8) << 20;
    int file = open(path_of(0), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(file, "text", 4), 4);
    close(file);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    firn_rc rc = prepare(&config, &told, &written);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(rc, FIRN_E_NOSPACE);
    assert_non_null(strstr(firn_error_text(), "test_file.0"));
    assert_int_equal(written, 77);
    assert_int_equal(size_of(0), 4);
    assert_int_equal(size_of(1), -1);
}

static void a_preparation_too_large_for_the_disk_is_not_begun(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_config config = make_config(FILEIO_RNDRD);
    uint64_t written = 0;
    config.file_total_size = UINT64_C(1) << 59;
    assert_int_equal(prepare(&config, &told, &written), FIRN_E_NOSPACE);
    assert_non_null(strstr(firn_error_text(), "MiB free"));
    assert_string_equal(told.files, "");
    assert_int_equal(size_of(0), -1);
}

static void files_that_are_not_as_configured_are_refused(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_RNDRD);
    config.file_num = FILES + 1;
    config.file_total_size = (uint64_t)config.file_num * FILE_BYTES;
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_NOT_FOUND);
    assert_non_null(strstr(firn_error_text(), "--file-num=3"));
    config = make_config(FILEIO_RNDRD);
    config.file_num = FILES - 1;
    config.file_total_size = (uint64_t)config.file_num * FILE_BYTES;
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_EXISTS);
    config = make_config(FILEIO_RNDRD);
    config.file_total_size += FILES * 4096;
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_SHORT);
    assert_non_null(strstr(firn_error_text(), "test_file.0"));
    config = make_config(FILEIO_RNDRD);
    assert_int_equal(truncate(path_of(1), FILE_BYTES + (2 << 20)), 0);
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_EXISTS);
    assert_non_null(strstr(firn_error_text(), "test_file.1"));
    assert_int_equal(truncate(path_of(1), FILE_BYTES), 0);
    run_well(&config);
}

static void a_run_without_prepare_is_refused(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_RNDWR);
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_NOT_FOUND);
    assert_non_null(strstr(firn_error_text(), "prepare"));
    config.file_test_mode = FILEIO_SEQWR;
    run_well(&config); /* which makes its files itself */
}

static void a_directory_in_use_is_refused(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_RNDRD);
    struct io_system *system = NULL;
    struct io_lock *lock = NULL;
    uint64_t number = 0;
    assert_int_equal(io_system_open(IO_BACKEND_THREADS, clock_real(), &system), FIRN_OK);
    assert_int_equal(io_lock_directory(system, directory, &lock), FIRN_OK);
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_BUSY);
    assert_int_equal(prepare(&config, &told, &number), FIRN_E_BUSY);
    assert_int_equal(fileio_cleanup(&config, &number), FIRN_E_BUSY);
    io_unlock_directory(lock);
    io_system_close(system);
    assert_int_equal(size_of(0), FILE_BYTES);
    run_well(&config);
}

static void a_block_size_that_direct_io_refuses_leaves_files_alone(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_RNDRD);
    uint64_t written = 0;
    config.extra_flags = FILEIO_FLAG_DIRECT;
    config.file_block_size = 1000;
    firn_rc rc = run(&config, &told, &outcome);
    if (rc == FIRN_OK) { /* a file system without direct I/O, tmpfs say */
        fileio_outcome_free(&outcome);
        skip();
    }
    assert_int_equal(rc, FIRN_E_INVALID);
    assert_non_null(strstr(firn_error_text(), "--file-block-size=1000"));
    config.file_test_mode = FILEIO_SEQWR;
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_INVALID);
    for (unsigned i = 0; i < FILES; i++)
        assert_int_equal(size_of(i), FILE_BYTES);
    clean_directory(NULL);
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_INVALID);
    assert_int_equal(size_of(0), -1);
    assert_int_equal(prepare(&config, &told, &written), FIRN_E_INVALID);
    assert_int_equal(size_of(0), -1);
}

static void contradictions_are_refused_before_anything_is_touched(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_outcome outcome;
    struct fileio_config good = make_config(FILEIO_SEQWR);
    struct fileio_config cases[16];
    unsigned count = 0;
    for (unsigned i = 0; i < 16; i++)
        cases[i] = good;
    cases[count++].file_test_mode = FILEIO_MODE_COUNT;
    cases[count++].file_num = 0;
    cases[count++].file_block_size = 0;
    cases[count++].file_block_size = UINT64_C(2) << 30;
    cases[count++].file_total_size = 3 * 4095;
    cases[count++].io_depth = 0;
    cases[count++].threads = 0;
    cases[count++].interval_ns = NS_PER_MS;
    cases[count++].rate = -1;
    cases[count++].rw_ratio = -1;
    cases[count++].merged_requests = UINT64_C(1) << 40;
    cases[count++].time_scale = 2;
    cases[count].file_io_mode = FILEIO_MMAP;
    cases[count++].extra_flags = FILEIO_FLAG_DIRECT;
    cases[count].validate = true;
    cases[count++].io_backend = IO_BACKEND_NULL;
    cases[count].validate = true;
    cases[count++].file_block_size = 1028;
    cases[count].rand_type = DISTRIBUTION_PARETO;
    cases[count++].rand_pareto_h = 0;
    assert_int_equal(count, 16);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(run(&cases[i], &told, &outcome), FIRN_E_INVALID);
        assert_int_equal(size_of(0), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_NOTHING(preparing_creates_extends_reuses_and_shortens),
        ON_FILES(a_smaller_number_of_files_is_refused_untouched),
        ON_NOTHING(a_stopped_preparation_can_be_taken_up),
        ON_NOTHING(a_preparation_without_space_removes_what_it_made),
        ON_NOTHING(a_preparation_too_large_for_the_disk_is_not_begun),
        ON_FILES(files_that_are_not_as_configured_are_refused),
        ON_NOTHING(a_run_without_prepare_is_refused),
        ON_FILES(a_directory_in_use_is_refused),
        ON_FILES(a_block_size_that_direct_io_refuses_leaves_files_alone),
        ON_NOTHING(contradictions_are_refused_before_anything_is_touched),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
