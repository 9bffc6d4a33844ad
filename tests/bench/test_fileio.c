#include "base/memory.h"
#include "bench/fileio_fixture.h"

#include <fcntl.h>

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

static void an_open_loop_times_from_the_arrival(void **state)
{
    (void)state;
    for (int io_mode = FILEIO_SYNC; io_mode <= FILEIO_MMAP; io_mode++) {
        struct told told = {0};
        struct fileio_outcome outcome;
        struct fileio_config config = make_config(FILEIO_RNDRD);
        config.file_io_mode = io_mode;
        config.io_depth = 4;
        config.threads = 2;
        config.rate = 5000;
        assert_int_equal(run(&config, &told, &outcome), FIRN_OK);
        const struct meter_kind_data *reads = &outcome.run.total->kinds[FILEIO_READ];
        assert_int_equal(reads->latency_ns.count, 300);
        assert_int_equal(reads->response_ns.count, 300);
        assert_true(reads->response_ns.sum >= reads->latency_ns.sum);
        fileio_outcome_free(&outcome);
    }
}

static void a_standstill_shows_in_the_arrivals_that_wait(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_outcome outcome;
    struct fileio_config config = make_config(FILEIO_RNDRD);
    config.file_io_mode = FILEIO_ASYNC;
    config.io_depth = 4;
    config.rate = 100;
    config.rate_distribution = 1;
    config.events = 0;
    config.time_ns = 10 * NS_PER_S;
    config.device = "test-stall"; /* stands still from second 6 to 10 */
    config.time_scale = 0;
    assert_int_equal(run(&config, &told, &outcome), FIRN_OK);
    const struct meter_kind_data *reads = &outcome.run.total->kinds[FILEIO_READ];
    /* Four are under way in the standstill, one more is claimed; the others are never begun. */
    assert_in_range(reads->latency_ns.count, 603, 606);
    assert_in_range(reads->response_ns.max, 3900 * NS_PER_MS, 4100 * NS_PER_MS);
    assert_in_range(outcome.run.backlog.behind_ns, 3900 * NS_PER_MS, 4000 * NS_PER_MS);
    assert_in_range(outcome.run.backlog.queue_length, 390, 400);
    assert_string_equal(outcome.model, "test-stall");
    fileio_outcome_free(&outcome);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILES(every_mode_leaves_files_that_prove_themselves),
        ON_FILES(events_are_divided_as_sysbench_does),
        ON_FILES(with_fsync_all_a_write_is_done_when_it_is_durable),
        ON_FILES(an_open_loop_times_from_the_arrival),
        ON_FILES(a_standstill_shows_in_the_arrivals_that_wait),
        ON_NOTHING(more_requests_than_blocks_do_not_race),
        ON_NOTHING(equal_seeds_write_equal_places),
        ON_FILES(a_changed_byte_is_found_and_named),
        ON_FILES(a_file_cut_under_a_mapping_is_an_error_not_a_crash),
        ON_FILES(a_file_cut_under_a_reader_is_named),
        ON_FILES(a_stopped_run_reports_and_does_not_wait_for_syncs),
        ON_FILES(the_null_backend_moves_no_bytes),
        ON_FILES(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
