#include "bench/fileio.h"

#include "base/memory.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILES = 3, FILE_BYTES = 64 * 4096 };

static char directory[256];

/* What callbacks tell, and what they are to do. */
struct told {
    char files[2048]; /* "Creating test_file.0;..." */
    char bad[8192];
    unsigned bad_count, intervals;
    atomic_bool stop;
    bool stop_at_progress;
    bool cut_at_start; /* cut the first file when the run starts */
};

static const char *path_of(unsigned number)
{
    static char path[300];
    snprintf(path, sizeof(path), "%s/test_file.%u", directory, number);
    return path;
}

static void add_text(char *texts, size_t size_bytes, const char *text)
{
    size_t length = strlen(texts);
    snprintf(texts + length, size_bytes - length, "%s;", text);
}

static void note_file(const char *what, const char *name, void *context)
{
    struct told *told = context;
    char text[400];
    snprintf(text, sizeof(text), "%s %s", what, strrchr(name, '/') + 1);
    add_text(told->files, sizeof(told->files), text);
}

static void note_progress(uint64_t done_bytes, uint64_t total_bytes, void *context)
{
    struct told *told = context;
    assert_true(done_bytes <= total_bytes);
    if (told->stop_at_progress)
        atomic_store(&told->stop, true);
}

static void note_bad(const char *text, void *context)
{
    struct told *told = context;
    told->bad_count++;
    add_text(told->bad, sizeof(told->bad), strrchr(text, '/') + 1);
}

static void note_start(void *context)
{
    struct told *told = context;
    if (told->cut_at_start)
        assert_int_equal(truncate(path_of(0), 4096), 0);
}

static void note_interval(const struct meter_interval *interval,
                          const struct runner_backlog *backlog, void *context)
{
    (void)interval;
    (void)backlog;
    ((struct told *)context)->intervals++;
}

static struct fileio_callbacks callbacks_of(struct told *told)
{
    return (struct fileio_callbacks){
        .file = note_file,
        .progress = note_progress,
        .bad_block = note_bad,
        .started = note_start,
        .interval = note_interval,
        .context = told,
        .stop = &told->stop,
    };
}

static struct fileio_config make_config(enum fileio_mode mode)
{
    struct fileio_config config;
    fileio_config_defaults(&config);
    config.directory = directory;
    config.file_num = FILES;
    config.file_block_size = 4096;
    config.file_total_size = (uint64_t)FILES * FILE_BYTES;
    config.file_test_mode = (int)mode;
    config.events = 300;
    config.time_ns = 0;
    config.rand_seed = 1;
    return config;
}

static firn_rc prepare(const struct fileio_config *config, struct told *told, uint64_t *written)
{
    struct fileio_callbacks callbacks = callbacks_of(told);
    return fileio_prepare(config, &callbacks, written);
}

static firn_rc run(const struct fileio_config *config, struct told *told,
                   struct fileio_outcome *outcome)
{
    struct fileio_callbacks callbacks = callbacks_of(told);
    return fileio_run(config, &callbacks, outcome);
}

static void run_well(const struct fileio_config *config)
{
    struct told told = {0};
    struct fileio_outcome outcome;
    firn_rc rc = run(config, &told, &outcome);
    if (rc != FIRN_OK)
        print_error("%s\n", firn_error_text());
    assert_int_equal(rc, FIRN_OK);
    fileio_outcome_free(&outcome);
}

static void verify_well(const struct fileio_config *config)
{
    struct told told = {0};
    struct fileio_callbacks callbacks = callbacks_of(&told);
    uint64_t blocks = 0;
    uint64_t bad = 99;
    assert_int_equal(fileio_verify(config, &callbacks, &blocks, &bad), FIRN_OK);
    assert_string_equal(told.bad, "");
    assert_int_equal(bad, 0);
    assert_int_equal(blocks, config->file_total_size / config->file_block_size);
}

static int64_t size_of(unsigned number)
{
    struct stat status;
    return stat(path_of(number), &status) == 0 ? status.st_size : -1;
}

static int prepare_directory(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_config config = make_config(FILEIO_RNDRD);
    uint64_t written = 0;
    assert_int_equal(prepare(&config, &told, &written), FIRN_OK);
    return 0;
}

static int clean_directory(void **state)
{
    (void)state;
    struct fileio_config config = make_config(FILEIO_RNDRD);
    uint64_t removed = 0;
    config.file_num = 10;
    config.file_total_size *= 10;
    assert_int_equal(fileio_cleanup(&config, &removed), FIRN_OK);
    assert_int_equal(size_of(0), -1);
    return 0;
}

/* ---- Prepare -----------------------------------------------------------------------------------
 */

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

/* ---- Runs --------------------------------------------------------------------------------------
 */

static void every_mode_leaves_files_that_prove_themselves(void **state)
{
    (void)state;
    static const struct {
        enum fileio_io_mode io_mode;
        enum io_backend backend;
    } ways[] = {
        {FILEIO_SYNC, IO_BACKEND_AUTO},     {FILEIO_MMAP, IO_BACKEND_AUTO},
        {FILEIO_ASYNC, IO_BACKEND_AUTO},    {FILEIO_ASYNC, IO_BACKEND_LIBAIO},
        {FILEIO_ASYNC, IO_BACKEND_THREADS},
    };
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (int mode = 0; mode < FILEIO_MODE_COUNT; mode++)
            for (uint64_t threads = 1; threads <= 3; threads += 2) {
                struct fileio_config config = make_config((enum fileio_mode)mode);
                config.file_io_mode = (int)ways[w].io_mode;
                config.io_backend = (int)ways[w].backend;
                config.extra_flags = ways[w].io_mode == FILEIO_MMAP ? 0 : FILEIO_FLAG_DIRECT;
                config.validate = true;
                config.io_depth = 8;
                config.threads = threads;
                config.merged_requests = 3;
                run_well(&config);
                verify_well(&config);
            }
}

static void events_are_divided_as_sysbench_does(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_RNDRW);
    /* Nine rounds of 100 requests and 3 syncs, and 73 requests more. */
    config.events = 1000;
    config.fsync_freq = 100;
    assert_int_equal(run(&config, &told, &outcome), FIRN_OK);
    const struct meter_interval *total = outcome.run.total;
    assert_int_equal(total->kinds[FILEIO_SYNCING].latency_ns.count, 27);
    assert_int_equal(total->kinds[FILEIO_WRITE].latency_ns.count, 389);
    assert_int_equal(total->kinds[FILEIO_READ].latency_ns.count, 584);
    assert_int_equal(total->kinds[FILEIO_READ].bytes, 584 * 4096);
    assert_int_equal(outcome.final_syncs, FILES);
    assert_int_equal(outcome.run.end, RUNNER_END_EVENTS);
    fileio_outcome_free(&outcome);
}

static void with_fsync_all_a_write_is_done_when_it_is_durable(void **state)
{
    (void)state;
    for (int io_mode = FILEIO_SYNC; io_mode <= FILEIO_MMAP; io_mode++) {
        struct told told = {0};
        struct fileio_outcome outcome;
        struct fileio_config config = make_config(FILEIO_RNDWR);
        config.file_io_mode = io_mode;
        config.io_depth = 4;
        config.events = 50;
        config.fsync_all = true;
        assert_int_equal(run(&config, &told, &outcome), FIRN_OK);
        const struct meter_kind_data *writes = &outcome.run.total->kinds[FILEIO_WRITE];
        const struct meter_kind_data *syncs = &outcome.run.total->kinds[FILEIO_SYNCING];
        assert_int_equal(writes->latency_ns.count, 50);
        assert_int_equal(syncs->latency_ns.count, 50);
        assert_true(writes->latency_ns.sum > syncs->latency_ns.sum);
        assert_int_equal(outcome.run.workers[0].operations, 50);
        assert_int_equal(outcome.final_syncs, 0);
        fileio_outcome_free(&outcome);
    }
}

static void more_requests_than_blocks_do_not_race(void **state)
{
    (void)state;
    struct told told = {0};
    uint64_t written = 0;
    struct fileio_config config = make_config(FILEIO_RNDRW);
    config.file_num = 1;
    config.file_total_size = UINT64_C(5) * 4096;
    config.validate = true;
    config.file_io_mode = FILEIO_ASYNC;
    config.io_depth = 16;
    config.threads = 3;
    config.events = 2000;
    config.fsync_freq = 7;
    assert_int_equal(prepare(&config, &told, &written), FIRN_OK);
    run_well(&config);
    config.file_test_mode = FILEIO_SEQREWR;
    run_well(&config);
    config.file_io_mode = FILEIO_SYNC;
    config.threads = 8;
    run_well(&config);
    verify_well(&config);
}

static void equal_seeds_write_equal_places(void **state)
{
    (void)state;
    struct fileio_config config = make_config(FILEIO_RNDWR);
    config.events = 20;
    struct told told[2] = {{.bad_count = 0}};
    for (int round = 0; round < 2; round++) {
        assert_int_equal(prepare_directory(NULL), 0);
        run_well(&config);
        struct fileio_callbacks callbacks = callbacks_of(&told[round]);
        uint64_t blocks = 0;
        uint64_t bad = 0;
        /* What a run without validation has written is no block that proves itself. */
        assert_int_equal(fileio_verify(&config, &callbacks, &blocks, &bad), FIRN_OK);
        assert_in_range(bad, 1, 20);
        assert_int_equal(bad, told[round].bad_count);
        clean_directory(NULL);
    }
    assert_string_equal(told[0].bad, told[1].bad);
}

static void a_changed_byte_is_found_and_named(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_callbacks callbacks = callbacks_of(&told);
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_SEQRD);
    uint64_t blocks = 0;
    uint64_t bad = 0;
    int file = open(path_of(1), O_RDWR);
    char byte = 0;
    assert_int_equal(pread(file, &byte, 1, 5 * 4096 + 1234), 1);
    byte = (char)(byte ^ 1);
    assert_int_equal(pwrite(file, &byte, 1, 5 * 4096 + 1234), 1);
    close(file);
    assert_int_equal(fileio_verify(&config, &callbacks, &blocks, &bad), FIRN_OK);
    assert_int_equal(bad, 1);
    assert_non_null(strstr(told.bad, "test_file.1, offset 20480: the block is damaged"));
    config.validate = true;
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_CORRUPT);
    assert_non_null(strstr(firn_error_text(), "test_file.1, offset 20480"));
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

static void a_file_cut_under_a_mapping_is_an_error_not_a_crash(void **state)
{
    (void)state;
    struct told told = {.cut_at_start = true};
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_SEQRD);
    config.file_io_mode = FILEIO_MMAP;
    config.threads = 2;
    config.events = 0;
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_IO);
    assert_non_null(strstr(firn_error_text(), "SIGBUS"));
}

static void a_file_cut_under_a_reader_is_named(void **state)
{
    (void)state;
    struct told told = {.cut_at_start = true};
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_SEQRD);
    config.file_io_mode = FILEIO_ASYNC;
    config.events = 0;
    assert_int_equal(run(&config, &told, &outcome), FIRN_E_SHORT);
    assert_non_null(strstr(firn_error_text(), "test_file.0"));
}

static void a_stopped_run_reports_and_does_not_wait_for_syncs(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_RNDWR);
    config.events = 0;
    atomic_store(&told.stop, true);
    assert_int_equal(run(&config, &told, &outcome), FIRN_OK);
    assert_int_equal(outcome.run.end, RUNNER_END_STOPPED);
    assert_int_equal(outcome.final_syncs, 0);
    fileio_outcome_free(&outcome);
}

static void the_null_backend_moves_no_bytes(void **state)
{
    (void)state;
    struct fileio_config config = make_config(FILEIO_RNDWR);
    config.io_backend = IO_BACKEND_NULL;
    config.file_io_mode = FILEIO_ASYNC;
    config.events = 10000;
    run_well(&config);
    config.file_io_mode = FILEIO_SYNC;
    run_well(&config);
    config.io_backend = IO_BACKEND_AUTO;
    verify_well(&config);
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

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct fileio_config config = make_config(FILEIO_RNDRW);
    config.file_io_mode = FILEIO_ASYNC;
    config.io_backend = IO_BACKEND_THREADS;
    config.io_depth = 2;
    config.validate = true;
    config.events = 10;
    firn_rc rc = FIRN_E_NOMEM;
    long failures = 0;
    for (; rc != FIRN_OK; failures++) {
        struct told told = {0};
        struct fileio_outcome outcome;
        memory_fail_after(failures);
        rc = run(&config, &told, &outcome);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        if (rc == FIRN_OK)
            fileio_outcome_free(&outcome);
    }
    assert_true(failures > 20);
    verify_well(&config);
}

static int make_directory(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof(directory), "%s/firn-fileio.XXXXXX",
             parent != NULL ? parent : "/tmp");
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory); /* fails when anything was left in it */
}

#define ON_FILES(test)   cmocka_unit_test_setup_teardown(test, prepare_directory, clean_directory)
#define ON_NOTHING(test) cmocka_unit_test_teardown(test, clean_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_NOTHING(preparing_creates_extends_reuses_and_shortens),
        ON_FILES(a_smaller_number_of_files_is_refused_untouched),
        ON_NOTHING(a_stopped_preparation_can_be_taken_up),
        ON_NOTHING(a_preparation_without_space_removes_what_it_made),
        ON_NOTHING(a_preparation_too_large_for_the_disk_is_not_begun),
        ON_FILES(every_mode_leaves_files_that_prove_themselves),
        ON_FILES(events_are_divided_as_sysbench_does),
        ON_FILES(with_fsync_all_a_write_is_done_when_it_is_durable),
        ON_NOTHING(more_requests_than_blocks_do_not_race),
        ON_NOTHING(equal_seeds_write_equal_places),
        ON_FILES(a_changed_byte_is_found_and_named),
        ON_FILES(files_that_are_not_as_configured_are_refused),
        ON_NOTHING(a_run_without_prepare_is_refused),
        ON_FILES(a_directory_in_use_is_refused),
        ON_FILES(a_block_size_that_direct_io_refuses_leaves_files_alone),
        ON_FILES(a_file_cut_under_a_mapping_is_an_error_not_a_crash),
        ON_FILES(a_file_cut_under_a_reader_is_named),
        ON_FILES(a_stopped_run_reports_and_does_not_wait_for_syncs),
        ON_FILES(the_null_backend_moves_no_bytes),
        ON_NOTHING(contradictions_are_refused_before_anything_is_touched),
        ON_FILES(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
