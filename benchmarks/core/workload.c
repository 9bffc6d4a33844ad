/*
 * workload.c -- threads that do one kind of work for a time, between two readings of the counters.
 */
#include "workload.h"
#include "syncs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILL_ROWS = 1000, TICK_MS = 100 };

enum phase { PHASE_WAIT, PHASE_WARM, PHASE_RUN, PHASE_STOP };

struct bench {
    const struct kv_driver *driver;
    const struct workload *workload;
    void *env;
    _Atomic int phase;
    _Atomic unsigned finished; /* workers whose operations are all done */
    _Atomic bool quiet;        /* the ticker ends */
};

struct worker {
    struct bench *bench;
    unsigned number;
    void *session;
    uint64_t random;
    uint64_t inserted;
    uint64_t ops;
    uint64_t worst_ns;
    pthread_t thread;
    char padding[64]; /* workers count into lines of their own */
};

void kv_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("kvbench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(1);
}

void *kv_alloc(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    if (memory == NULL)
        kv_die("no memory");
    return memory;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* ---- Files ---- */

static bool name_fits(const char *name, const char *prefix, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    return strncmp(name, prefix, strlen(prefix)) == 0 && length >= tail &&
           strcmp(name + length - tail, suffix) == 0;
}

uint64_t kv_files_bytes(const char *directory, const char *prefix, const char *suffix)
{
    DIR *listing = opendir(directory);
    struct dirent *entry;
    uint64_t bytes = 0;
    if (listing == NULL)
        kv_die("cannot list %s: %s", directory, strerror(errno));
    while ((entry = readdir(listing)) != NULL) {
        struct stat status;
        if (name_fits(entry->d_name, prefix, suffix) &&
            fstatat(dirfd(listing), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode))
            bytes += (uint64_t)status.st_size;
    }
    closedir(listing);
    return bytes;
}

/* Make the kernel forget the cached pages of a store's files, so that what follows reads them. */
static void forget_files(const char *directory)
{
    DIR *listing = opendir(directory);
    struct dirent *entry;
    if (listing == NULL)
        kv_die("cannot list %s: %s", directory, strerror(errno));
    while ((entry = readdir(listing)) != NULL) {
        struct stat status;
        int file = openat(dirfd(listing), entry->d_name, O_RDONLY);
        if (file < 0)
            continue;
        if (fstat(file, &status) == 0 && S_ISDIR(status.st_mode) && entry->d_name[0] != '.') {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
            forget_files(path);
        }
        if (S_ISREG(status.st_mode) &&
            (fdatasync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0))
            kv_die("cannot drop %s from the page cache", entry->d_name);
        close(file);
    }
    closedir(listing);
}

/* A number of a file of /proc/self that lists them by name. */
static uint64_t process_number(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[256];
    unsigned long long value = 0;
    if (file == NULL)
        kv_die("cannot open %s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtoull(line + strlen(name), NULL, 10);
    fclose(file);
    return value;
}

static uint64_t read_bytes(void)
{
    return process_number("/proc/self/io", "read_bytes:");
}

static uint64_t write_bytes(void)
{
    return process_number("/proc/self/io", "write_bytes:");
}

static uint64_t memory_peak_bytes(void)
{
    return process_number("/proc/self/status", "VmHWM:") * 1024;
}

/* ---- One operation ---- */

static uint64_t pick_row(struct worker *worker)
{
    /* Scaling by multiplying: no division, and no bias that matters at 64 bits. */
    return (
        uint64_t)(((unsigned __int128)kv_random(&worker->random) * worker->bench->workload->rows) >>
                  64);
}

static void get_row(struct worker *worker, uint64_t row)
{
    uint8_t key[KV_KEY_BYTES], value[KV_VALUE_BYTES];
    kv_row_key(row, key);
    if (!worker->bench->driver->get(worker->session, key, value) || !kv_row_matches(row, value))
        kv_die("%s returned a wrong row", worker->bench->driver->name);
}

static void increment_row(struct worker *worker, uint64_t row)
{
    uint8_t key[KV_KEY_BYTES];
    kv_row_key(row, key);
    worker->bench->driver->increment(worker->session, key);
}

static void insert_row(struct worker *worker)
{
    const struct workload *workload = worker->bench->workload;
    uint8_t key[KV_KEY_BYTES], value[KV_VALUE_BYTES];
    uint64_t row =
        ((workload->seed + 1) << 40) + worker->inserted++ * workload->threads + worker->number;
    kv_row_key(row, key);
    kv_row_value(row, 0, value);
    worker->bench->driver->put(worker->session, key, value);
}

static void scan_rows(struct worker *worker)
{
    uint64_t sum = 0;
    uint64_t rows = worker->bench->driver->scan(worker->session, &sum);
    if (rows < worker->bench->workload->rows || sum == 0)
        kv_die("%s scanned %llu rows", worker->bench->driver->name, (unsigned long long)rows);
    worker->ops += rows;
}

/* Rows with the numbers first, first + 1, ... in one transaction. */
static void load_rows(struct worker *worker, uint64_t first, size_t count)
{
    static struct kv_row rows[FILL_ROWS]; /* one thread loads */
    for (size_t i = 0; i < count; i++) {
        kv_row_key(first + i, rows[i].key);
        kv_row_value(first + i, 0, rows[i].value);
    }
    worker->bench->driver->load(worker->session, rows, count);
}

/* ---- Loops ---- */

static bool in_phase(const struct worker *worker, enum phase phase)
{
    return atomic_load_explicit(&worker->bench->phase, memory_order_relaxed) == (int)phase;
}

static void read_rows(struct worker *worker, enum phase phase, uint64_t ops)
{
    bool scans = worker->bench->workload->work == WORK_SCAN;
    for (; worker->ops < ops && in_phase(worker, phase);) {
        if (scans) {
            scan_rows(worker);
            continue;
        }
        get_row(worker, pick_row(worker));
        worker->ops++;
    }
}

static void write_rows(struct worker *worker, enum phase phase, uint64_t ops)
{
    bool inserts = worker->bench->workload->work == WORK_INSERT;
    for (; worker->ops < ops && in_phase(worker, phase); worker->ops++) {
        uint64_t start_ns = now_ns();
        if (inserts)
            insert_row(worker);
        else
            increment_row(worker, pick_row(worker));
        uint64_t took_ns = now_ns() - start_ns;
        if (took_ns > worker->worst_ns)
            worker->worst_ns = took_ns;
    }
}

/* Until the phase ends, or so many operations are done. */
static void do_rows(struct worker *worker, enum phase phase, uint64_t ops)
{
    enum work kind = worker->bench->workload->work;
    bool writes = kind == WORK_INCREMENT || kind == WORK_INSERT;
    (writes ? write_rows : read_rows)(worker, phase, ops);
}

static void warm_up(struct worker *worker, enum phase phase, uint64_t ops)
{
    do_rows(worker, phase, ops);
    worker->ops = 0;
    worker->worst_ns = 0;
}

/* A function of its own, with a name: callgrind counts what happens in it
   (benchmarks/core/instructions). */
__attribute__((noinline)) void workload_measured(struct worker *worker, uint64_t ops);

void workload_measured(struct worker *worker, uint64_t ops)
{
    do_rows(worker, PHASE_RUN, ops);
}

static void *work(void *pointer)
{
    struct worker *worker = pointer;
    struct bench *bench = worker->bench;
    uint64_t ops = bench->workload->ops != 0 ? bench->workload->ops : UINT64_MAX;
    worker->session = bench->driver->session_open(bench->env);
    warm_up(worker, PHASE_WAIT, bench->workload->warm_ops);
    atomic_fetch_add(&bench->finished, 1); /* the opening is done */
    while (in_phase(worker, PHASE_WAIT))
        sleep_ms(1);
    if (bench->workload->warm_seconds > 0)
        warm_up(worker, PHASE_WARM, UINT64_MAX);
    workload_measured(worker, ops);
    atomic_fetch_add(&bench->finished, 1);
    while (!in_phase(worker, PHASE_STOP))
        sleep_ms(1);
    bench->driver->session_close(worker->session);
    return NULL;
}

static void *tick(void *pointer)
{
    struct bench *bench = pointer;
    while (!atomic_load(&bench->quiet)) {
        sleep_ms(TICK_MS);
        bench->driver->tick(bench->env);
    }
    return NULL;
}

static void wait_for(struct bench *bench, unsigned finished, double seconds)
{
    uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9);
    while (atomic_load(&bench->finished) < finished && now_ns() < end_ns)
        sleep_ms(1);
}

static double cpu_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

struct counters {
    uint64_t ns, syncs, read_bytes, write_bytes;
    double cpu_seconds;
};

static struct counters count(void)
{
    return (struct counters){now_ns(), syncs_count(), read_bytes(), write_bytes(), cpu_seconds()};
}

static void take_figures(struct figures *figures, const struct counters *from,
                         const struct counters *to)
{
    figures->seconds = (double)(to->ns - from->ns) / 1e9;
    figures->cpu_seconds = to->cpu_seconds - from->cpu_seconds;
    figures->syncs = to->syncs - from->syncs;
    figures->read_bytes = to->read_bytes - from->read_bytes;
    figures->write_bytes = to->write_bytes - from->write_bytes;
}

static struct worker *start_workers(struct bench *bench)
{
    unsigned threads = bench->workload->threads;
    struct worker *workers = kv_alloc(threads * sizeof *workers);
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){.bench = bench, .number = i};
        workers[i].random = kv_mix(bench->workload->seed + 1) + kv_mix(i + 1);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            kv_die("cannot start thread %u", i);
    }
    return workers;
}

/* The work of WORK_GET, WORK_SCAN, WORK_INCREMENT and WORK_INSERT. */
static void run_workers(struct bench *bench, struct figures *figures)
{
    const struct workload *workload = bench->workload;
    unsigned threads = workload->threads;
    struct worker *workers = start_workers(bench);
    wait_for(bench, threads, 1e6);
    if (workload->warm_seconds > 0) {
        atomic_store(&bench->phase, PHASE_WARM);
        sleep_ms((long)(workload->warm_seconds * 1e3));
    }
    struct counters from = count();
    atomic_store(&bench->phase, PHASE_RUN);
    wait_for(bench, 2 * threads, workload->ops != 0 ? 1e6 : workload->seconds);
    atomic_store(&bench->phase, PHASE_STOP);
    wait_for(bench, 2 * threads, 1e6); /* an operation may take its time, a scan certainly does */
    struct counters to = count();
    take_figures(figures, &from, &to);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        figures->ops += workers[i].ops;
        if ((double)workers[i].worst_ns / 1e6 > figures->worst_ms)
            figures->worst_ms = (double)workers[i].worst_ns / 1e6;
    }
    free(workers);
}

static void run_fill(struct bench *bench, struct figures *figures)
{
    struct worker worker = {.bench = bench};
    uint64_t rows = bench->workload->rows;
    worker.session = bench->driver->session_open(bench->env);
    struct counters from = count();
    for (uint64_t row = 0; row < rows; row += FILL_ROWS)
        load_rows(&worker, row, rows - row < FILL_ROWS ? (size_t)(rows - row) : FILL_ROWS);
    struct counters to = count();
    take_figures(figures, &from, &to);
    figures->ops = rows;
    bench->driver->session_close(worker.session);
}

/* Bring everything into the cache. */
static void warm_cache(struct bench *bench)
{
    uint64_t sum = 0;
    void *session = bench->driver->session_open(bench->env);
    bench->driver->scan(session, &sum);
    bench->driver->session_close(session);
}

/* ---- Crash and recovery ---- */

static void note_path(const struct kv_options *options, char *path, size_t size)
{
    snprintf(path, size, "%s.crashed", options->directory);
}

/* What was acknowledged last, and how much log there was. */
struct crash_note {
    unsigned long long row, counter, log_bytes, updates;
};

_Noreturn static void run_crash(struct bench *bench, const struct kv_options *options)
{
    static struct kv_row rows[FILL_ROWS];
    struct worker worker = {.bench = bench, .random = bench->workload->seed};
    struct crash_note note = {0};
    char path[4096];
    worker.session = bench->driver->session_open(bench->env);
    do {
        note.counter++;
        for (size_t i = 0; i < FILL_ROWS; i++) {
            note.row = pick_row(&worker);
            kv_row_key(note.row, rows[i].key);
            kv_row_value(note.row, note.counter, rows[i].value);
        }
        bench->driver->load(worker.session, rows, FILL_ROWS);
        note.updates += FILL_ROWS;
        note.log_bytes = bench->driver->log_bytes(bench->env);
    } while (note.log_bytes < bench->workload->crash_log_bytes);
    note_path(options, path, sizeof path);
    FILE *file = fopen(path, "w");
    if (file == NULL ||
        fprintf(file, "%llu %llu %llu %llu\n", note.row, note.counter, note.log_bytes,
                note.updates) < 0 ||
        fclose(file) != 0)
        kv_die("cannot write %s", path);
    raise(SIGKILL);
    abort();
}

static void run_recover(struct bench *bench, const struct kv_options *options,
                        struct figures *figures)
{
    struct crash_note note;
    struct counters from, to;
    uint8_t key[KV_KEY_BYTES], value[KV_VALUE_BYTES];
    char path[4096];
    note_path(options, path, sizeof path);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%llu %llu %llu %llu", &note.row, &note.counter,
                               &note.log_bytes, &note.updates) != 4)
        kv_die("cannot read %s; the work \"crash\" comes before", path);
    fclose(file);
    from = count();
    bench->env = bench->driver->open(options);
    void *session = bench->driver->session_open(bench->env);
    kv_row_key(note.row, key);
    bool found = bench->driver->get(session, key, value);
    to = count();
    if (!found || !kv_row_matches(note.row, value) || kv_row_counter(value) != note.counter)
        kv_die("%s lost an acknowledged row", bench->driver->name);
    take_figures(figures, &from, &to);
    figures->memory_peak_bytes = memory_peak_bytes();
    figures->ops = note.updates;
    figures->log_bytes = note.log_bytes;
    bench->driver->session_close(session);
}

/* ---- All of it ---- */

static void run_open(struct bench *bench, const struct kv_options *options, struct figures *figures)
{
    enum work kind = bench->workload->work;
    pthread_t ticker;
    bool ticks = bench->driver->tick != NULL;
    bench->env = bench->driver->open(options);
    if (ticks && pthread_create(&ticker, NULL, tick, bench) != 0)
        kv_die("cannot start a thread");
    if (kind == WORK_CRASH)
        run_crash(bench, options);
    if (kind == WORK_FILL) {
        run_fill(bench, figures);
    } else {
        if (!options->cold)
            warm_cache(bench);
        run_workers(bench, figures);
    }
    figures->memory_peak_bytes = memory_peak_bytes();
    if (ticks) {
        atomic_store(&bench->quiet, true);
        pthread_join(ticker, NULL);
    }
}

void workload_run(const struct kv_driver *driver, const struct kv_options *options,
                  const struct workload *workload, struct figures *figures)
{
    struct bench bench = {.driver = driver, .workload = workload};
    *figures = (struct figures){0};
    if (options->cold || workload->work == WORK_RECOVER)
        forget_files(options->directory);
    if (workload->work == WORK_RECOVER)
        run_recover(&bench, options, figures);
    else
        run_open(&bench, options, figures);
    uint64_t written = write_bytes(), start_ns = now_ns();
    driver->close(bench.env);
    figures->close_seconds = (double)(now_ns() - start_ns) / 1e9;
    figures->close_write_bytes = figures->write_bytes + write_bytes() - written;
}
