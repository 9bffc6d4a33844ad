/*
 * fileio_fixture.h -- a directory of small test files, and what the workload tells of them.
 */
#ifndef FIRN_TESTS_BENCH_FILEIO_FIXTURE_H
#define FIRN_TESTS_BENCH_FILEIO_FIXTURE_H

#include "bench/fileio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static inline const char *path_of(unsigned number)
{
    static char path[300];
    snprintf(path, sizeof(path), "%s/test_file.%u", directory, number);
    return path;
}

static inline void add_text(char *texts, size_t size_bytes, const char *text)
{
    size_t length = strlen(texts);
    snprintf(texts + length, size_bytes - length, "%s;", text);
}

static inline void note_file(const char *what, const char *name, void *context)
{
    struct told *told = context;
    char text[400];
    snprintf(text, sizeof(text), "%s %s", what, strrchr(name, '/') + 1);
    add_text(told->files, sizeof(told->files), text);
}

static inline void note_progress(uint64_t done_bytes, uint64_t total_bytes, void *context)
{
    struct told *told = context;
    assert_true(done_bytes <= total_bytes);
    if (told->stop_at_progress)
        atomic_store(&told->stop, true);
}

static inline void note_bad(const char *text, void *context)
{
    struct told *told = context;
    told->bad_count++;
    add_text(told->bad, sizeof(told->bad), strrchr(text, '/') + 1);
}

static inline void note_start(void *context)
{
    struct told *told = context;
    if (told->cut_at_start)
        assert_int_equal(truncate(path_of(0), 4096), 0);
}

static inline void note_interval(const struct meter_interval *interval,
                                 const struct runner_backlog *backlog, void *context)
{
    (void)interval;
    (void)backlog;
    ((struct told *)context)->intervals++;
}

static inline struct fileio_callbacks callbacks_of(struct told *told)
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

static inline struct fileio_config make_config(enum fileio_mode mode)
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

static inline firn_rc prepare(const struct fileio_config *config, struct told *told,
                              uint64_t *written)
{
    struct fileio_callbacks callbacks = callbacks_of(told);
    return fileio_prepare(config, &callbacks, written);
}

static inline firn_rc run(const struct fileio_config *config, struct told *told,
                          struct fileio_outcome *outcome)
{
    struct fileio_callbacks callbacks = callbacks_of(told);
    return fileio_run(config, &callbacks, outcome);
}

static inline void run_well(const struct fileio_config *config)
{
    struct told told = {0};
    struct fileio_outcome outcome;
    firn_rc rc = run(config, &told, &outcome);
    if (rc != FIRN_OK)
        print_error("%s\n", firn_error_text());
    assert_int_equal(rc, FIRN_OK);
    fileio_outcome_free(&outcome);
}

static inline void verify_well(const struct fileio_config *config)
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

static inline int64_t size_of(unsigned number)
{
    struct stat status;
    return stat(path_of(number), &status) == 0 ? status.st_size : -1;
}

static inline int prepare_directory(void **state)
{
    (void)state;
    struct told told = {0};
    struct fileio_config config = make_config(FILEIO_RNDRD);
    uint64_t written = 0;
    assert_int_equal(prepare(&config, &told, &written), FIRN_OK);
    return 0;
}

static inline int clean_directory(void **state)
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

static inline int make_directory(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof(directory), "%s/firn-fileio.XXXXXX",
             parent != NULL ? parent : "/tmp");
    return mkdtemp(directory) == NULL;
}

static inline int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory); /* fails when anything was left in it */
}

#define ON_FILES(test)   cmocka_unit_test_setup_teardown(test, prepare_directory, clean_directory)
#define ON_NOTHING(test) cmocka_unit_test_teardown(test, clean_directory)

#endif
