#include "bench/fileio.h"

#include "base/check.h"
#include "base/memory.h"
#include "bench/fileio_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const kind_names[METER_KINDS_MAX] = {
    [FILEIO_READ] = "read",
    [FILEIO_WRITE] = "write",
    [FILEIO_SYNCING] = "sync",
};

const char *fileio_mode_name(enum fileio_mode mode)
{
    static const char *const names[] = {"seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"};
    return mode < FILEIO_MODE_COUNT ? names[mode] : "";
}

const char *fileio_io_mode_name(enum fileio_io_mode io_mode)
{
    static const char *const names[] = {"sync", "async", "mmap"};
    return names[io_mode];
}

/* ---- Configuration ---- */

/* One request's size is a uint32_t, and the buffers of a deep queue must fit into memory. */
#define REQUEST_MAX_BYTES (UINT64_C(1) << 30)

/* What the pattern's divider can take. */
#define BLOCKS_MAX (UINT64_C(1) << 50)

void fileio_config_defaults(struct fileio_config *config)
{
    *config = (struct fileio_config){
        .directory = ".",
        .file_num = 128,
        .file_block_size = 16384,
        .file_total_size = UINT64_C(2) << 30,
        .file_test_mode = FILEIO_MODE_COUNT,
        .file_io_mode = FILEIO_SYNC,
        .io_depth = 128,
        .io_backend = IO_BACKEND_AUTO,
        .fsync_freq = 100,
        .fsync_end = true,
        .fsync_mode = FILEIO_FSYNC,
        .rw_ratio = 1.5,
        .threads = 1,
        .time_ns = 10 * NS_PER_S,
        .interval_ns = NS_PER_S,
        .shutdown_ns = UINT64_MAX,
        .rand_type = DISTRIBUTION_UNIFORM,
        .rand_spec_iter = 12,
        .rand_spec_pct = 1,
        .rand_spec_res = 75,
        .rand_pareto_h = 0.2,
        .rand_zipfian_exp = 0.8,
        .time_scale = 1,
    };
}

static firn_rc check_files(const struct fileio_config *config)
{
    if (config->file_num < 1 || config->file_num > 1000000)
        return rc_raise(FIRN_E_INVALID, "--file-num must be from 1 to 1000000");
    if (config->file_block_size < 1 || config->file_block_size > REQUEST_MAX_BYTES)
        return rc_raise(FIRN_E_INVALID, "--file-block-size must be from 1 byte to 1 GiB");
    if (config->file_total_size / config->file_num < config->file_block_size)
        return rc_raise(FIRN_E_INVALID,
                        "--file-total-size=%" PRIu64 " in --file-num=%" PRIu64
                        " files leaves less than one block of %" PRIu64 " bytes for each",
                        config->file_total_size, config->file_num, config->file_block_size);
    if (config->file_total_size > UINT64_C(1) << 60 ||
        config->file_total_size / config->file_block_size > BLOCKS_MAX)
        return rc_raise(FIRN_E_INVALID, "--file-total-size must be at most 1 EiB, and at most 2^50 "
                                        "blocks");
    if (config->validate && !block_size_fits(config->file_block_size))
        return rc_raise(FIRN_E_INVALID,
                        "--validate needs a --file-block-size of at least %d and a multiple of 8",
                        BLOCK_MIN_BYTES);
    if (config->validate && config->io_backend == IO_BACKEND_NULL)
        return rc_raise(FIRN_E_INVALID,
                        "the null backend moves no bytes, so --validate would prove nothing");
    return FIRN_OK;
}

static firn_rc check_mapping(const struct fileio_config *config)
{
    if (config->file_io_mode != FILEIO_MMAP)
        return FIRN_OK;
    if (config->extra_flags != 0)
        return rc_raise(FIRN_E_INVALID,
                        "--file-extra-flags have no effect on mappings; use them with "
                        "--file-io-mode=sync or async");
    if (config->device != NULL || config->io_backend == IO_BACKEND_NULL)
        return rc_raise(FIRN_E_INVALID, "mappings pass by %s; use --file-io-mode=sync or async",
                        config->device != NULL ? "a device model" : "the null backend");
    return FIRN_OK;
}

static firn_rc check_run(const struct fileio_config *config)
{
    if (config->file_test_mode < 0 || config->file_test_mode >= FILEIO_MODE_COUNT)
        return rc_raise(FIRN_E_INVALID, "a run needs --file-test-mode: seqwr, seqrewr, seqrd, "
                                        "rndrd, rndwr or rndrw");
    if (config->io_depth < 1 || config->io_depth > 4096)
        return rc_raise(FIRN_E_INVALID, "--io-depth must be from 1 to 4096");
    if (config->merged_requests > REQUEST_MAX_BYTES / config->file_block_size)
        return rc_raise(FIRN_E_INVALID, "--file-merged-requests makes requests beyond 1 GiB");
    if (!(config->rw_ratio >= 0))
        return rc_raise(FIRN_E_INVALID, "--file-rw-ratio must be 0 or more");
    if (config->threads < 1 || config->threads > 65536)
        return rc_raise(FIRN_E_INVALID, "--threads must be from 1 to 65536");
    if (config->interval_ns < 10 * NS_PER_MS)
        return rc_raise(FIRN_E_INVALID, "--interval must be at least 10 ms");
    if (!(config->rate >= 0) || config->rate > 1e9)
        return rc_raise(FIRN_E_INVALID, "--rate must be from 0 to 1000000000 a second");
    if (!(config->time_scale >= 0))
        return rc_raise(FIRN_E_INVALID, "--time-scale must be a number above 0, or max");
    if (config->time_scale != 1 && config->device == NULL)
        return rc_raise(FIRN_E_INVALID,
                        "--time-scale needs --device: a real device keeps its own time");
    struct fileio_pattern pattern;
    return fileio_pattern_init(config, NULL, &pattern);
}

firn_rc fileio_config_check(const struct fileio_config *config, bool for_run)
{
    FIRN_TRY(check_files(config));
    FIRN_TRY(check_mapping(config));
    return for_run ? check_run(config) : FIRN_OK;
}

uint64_t fileio_file_size(const struct fileio_config *config)
{
    return fileio_shape_of(config).file_bytes;
}

/* ---- The run ---- */

static bool mode_writes(int mode)
{
    return mode != FILEIO_SEQRD && mode != FILEIO_RNDRD;
}

static void test_close(struct fileio_test *test)
{
    fileio_blocks_close(&test->blocks);
    fileio_maps_close(test->maps, test->shape.file_num);
    if (test->files != NULL)
        fileio_close_files(test->files, test->shape.file_num);
    memory_free(test->files);
    fileio_storage_close(&test->storage);
    memory_free(test);
}

static firn_rc test_fill(const struct fileio_config *config, struct fileio_test *test)
{
    bool writes = mode_writes(config->file_test_mode);
    test->config = *config;
    test->shape = fileio_shape_of(config);
    test->seed = config->rand_seed;
    if (test->seed == 0)
        test->seed = block_sequence_start();
    FIRN_TRY(fileio_storage_open(config, writes ? FILEIO_STORAGE_WRITES : FILEIO_STORAGE_READS,
                                 true, &test->storage));
    test->files = memory_zalloc(config->file_num, sizeof(struct io_file *));
    if (test->files == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for %" PRIu64 " files", config->file_num);
    FIRN_TRY(fileio_open_files(&test->storage, config, test->files));
    if (config->file_io_mode == FILEIO_MMAP)
        FIRN_TRY(fileio_maps_open(test->files, &test->shape, writes, &test->maps));
    if (config->validate)
        FIRN_TRY(fileio_blocks_open(&test->shape, test->seed, &test->blocks));
    return fileio_pattern_init(config, &test->blocks, &test->pattern);
}

static firn_rc test_open(const struct fileio_config *config, struct fileio_test **test)
{
    struct fileio_test *made = memory_alloc_aligned(sizeof(*made), _Alignof(struct fileio_test));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a run");
    memset(made, 0, sizeof(*made));
    firn_rc rc = test_fill(config, made);
    if (rc != FIRN_OK)
        test_close(made);
    else
        *test = made;
    return rc;
}

static firn_rc sync_file(const struct fileio_test *test, uint64_t number)
{
    bool data_only = test->config.fsync_mode == FILEIO_FDATASYNC;
    struct io_request request = {
        .file = test->files[number],
        .op = data_only ? IO_OP_SYNC_DATA : IO_OP_SYNC_ALL,
    };
    if (test->maps != NULL)
        return fileio_map_execute(&test->maps[number], test->storage.clock, &request);
    return io_execute(&request);
}

/* What was written counts for little before it is durable. Nobody waits for it after an
   interruption. */
static firn_rc final_sync(const struct fileio_test *test, struct fileio_outcome *outcome)
{
    const struct fileio_config *config = &test->config;
    if (!config->fsync_end || config->fsync_all || !mode_writes(config->file_test_mode) ||
        outcome->run.end == RUNNER_END_STOPPED || outcome->run.end == RUNNER_END_ABANDONED)
        return FIRN_OK;
    firn_rc rc = FIRN_OK;
    struct clock *clock = test->storage.clock;
    clock_join(clock);
    uint64_t start_ns = clock_now(clock);
    for (uint64_t i = 0; i < test->shape.file_num && rc == FIRN_OK; i++)
        rc = sync_file(test, i);
    outcome->final_sync_ns = clock_now(clock) - start_ns;
    outcome->final_syncs = test->shape.file_num;
    clock_leave(clock);
    return rc;
}

static firn_rc run_workers(struct fileio_test *test, const struct fileio_callbacks *callbacks,
                           struct fileio_outcome *outcome)
{
    const struct fileio_config *config = &test->config;
    struct runner_options options = {
        .clock = test->storage.clock,
        .directory = config->directory,
        .threads = (unsigned)config->threads,
        .thread_stack_bytes = config->thread_stack_bytes,
        .warmup_ns = config->warmup_ns,
        .time_ns = config->time_ns,
        .events = config->events,
        .shutdown_ns = config->shutdown_ns,
        .rate_per_s = config->rate,
        .rate_even = config->rate_distribution == 1,
        .seed = test->seed,
        .interval_ns = config->interval_ns,
        .stop = callbacks->stop,
        .callbacks = {callbacks->started, callbacks->interval, callbacks->context},
    };
    struct runner_workload workload = {
        .unjudged_kind = FILEIO_SYNCING, .work = fileio_work, .context = test};
    memcpy(workload.kinds, kind_names, sizeof(workload.kinds));
    FIRN_TRY(runner_run(&options, &workload, &outcome->run));
    firn_rc rc = final_sync(test, outcome);
    if (rc != FIRN_OK)
        runner_outcome_free(&outcome->run);
    return rc;
}

static void describe_storage(const struct fileio_test *test, struct fileio_outcome *outcome)
{
    const struct fileio_storage *storage = &test->storage;
    const char *text = io_system_describe(storage->system);
    if (test->maps != NULL)
        text = "mmap";
    else if (test->config.file_io_mode == FILEIO_SYNC && storage->model[0] == '\0' &&
             io_system_backend(storage->system) != IO_BACKEND_NULL)
        text = "pread and pwrite";
    outcome->seed = test->seed;
    outcome->backend = io_system_backend(storage->system);
    outcome->direct = io_file_is_direct(test->files[0]);
    outcome->time_scale = test->config.time_scale;
    snprintf(outcome->storage, sizeof(outcome->storage), "%s", text);
    snprintf(outcome->model, sizeof(outcome->model), "%s", storage->model);
}

firn_rc fileio_run(const struct fileio_config *config, const struct fileio_callbacks *callbacks,
                   struct fileio_outcome *outcome)
{
    struct fileio_test *test = NULL;
    struct fileio_outcome made = {0};
    FIRN_TRY(fileio_config_check(config, true));
    FIRN_TRY(test_open(config, &test));
    firn_rc rc = run_workers(test, callbacks, &made);
    if (rc == FIRN_OK) {
        describe_storage(test, &made);
        *outcome = made;
    }
    if (rc != FIRN_OK || made.run.abandoned == 0)
        test_close(test);
    return rc;
}

void fileio_outcome_free(struct fileio_outcome *outcome)
{
    runner_outcome_free(&outcome->run);
}

void fileio_outcome_result(const struct fileio_outcome *outcome, struct result_run *run)
{
    const struct runner_outcome *ran = &outcome->run;
    run->workload = "fileio";
    run->storage = outcome->storage;
    run->model = outcome->model[0] != '\0' ? outcome->model : NULL;
    run->time_scale = outcome->time_scale;
    run->start_unix_ms = ran->start_unix_ms;
    run->kinds = kind_names;
    run->series = ran->series;
    run->total = ran->total;
    run->host = ran->host;
    run->host_device = ran->host_device;
    run->judgement = &ran->judgement;
    run->judgement_text = ran->judgement_text;
}
