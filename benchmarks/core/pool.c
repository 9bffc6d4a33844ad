/*
 * pool.c -- what a page costs: looked at, fixed, and read because it was not in the pool.
 *
 *   pool hot PAGES THREADS           pages in the pool, no device: ns a view and a fix
 *   pool miss FILE MIB POOL_MIB THREADS SECONDS
 *                                    random pages of a file that is made first: reads a second, and
 *                                    processor time a read
 *   pool raw ...                     the same reads and checksums without a pool
 *
 * Prints JSON. For who changes src/buffer: README.md says how to call it.
 */
#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "buffer/buffer.h"
#include "io/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PAGE_BYTES = 16384, SPACE = 1, THREADS_MAX = 256, ROUND_OPS = 1 << 20 };

struct bench_world {
    struct io_system *log_system;
    struct sim_disk *log_disk;
    struct redo *redo;
    struct io_system *system;
    struct io_file *file;
    uint32_t pages;
    struct buffer_pool *pool;
};

static void must(firn_rc rc)
{
    if (rc == FIRN_OK)
        return;
    fprintf(stderr, "%s\n", firn_error_text());
    exit(1);
}

static firn_rc locate(void *context, uint64_t page_id, struct io_file **file, uint64_t *offset)
{
    struct bench_world *world = context;
    *file = world->file;
    *offset = (uint64_t)page_id_number(page_id) * PAGE_BYTES;
    return FIRN_OK;
}

/* A log that nobody writes to, in memory. */
static void open_log(struct bench_world *world)
{
    struct redo_options options = {.directory = "/",
                                   .file_size_bytes = 4 << 20,
                                   .file_count = 2,
                                   .buffer_size_bytes = 16 << 20};
    must(sim_disk_create(&(struct sim_disk_options){.sector_bytes = 512}, &world->log_disk));
    must(sim_disk_open_system(world->log_disk, clock_real(), 1, &world->log_system));
    options.system = world->log_system;
    must(redo_create(&options, REDO_FIRST_LSN));
    must(redo_open(&options, &world->redo));
    must(redo_recovered(world->redo, REDO_FIRST_LSN));
}

static void make_file(struct bench_world *world, const char *path, uint32_t pages)
{
    enum { CHUNK_PAGES = 64 };
    uint8_t *chunk = memory_alloc_aligned(CHUNK_PAGES * PAGE_BYTES, 4096);
    uint64_t size_bytes = 0;
    if (chunk == NULL)
        must(rc_raise(FIRN_E_NOMEM, "no memory for %d pages", CHUNK_PAGES));
    world->pages = pages;
    must(io_file_open(world->system, IO_CLASS_TABLE, path, IO_OPEN_CREATE | IO_OPEN_DIRECT,
                      &world->file));
    must(io_file_size(world->file, &size_bytes));
    for (uint32_t page = 0; page < pages && size_bytes < (uint64_t)pages * PAGE_BYTES; page++) {
        uint8_t *at = chunk + (size_t)(page % CHUNK_PAGES) * PAGE_BYTES;
        page_init(at, PAGE_BYTES, page_id_of(SPACE, page), PAGE_TYPE_BLOB);
        memset(at + PAGE_HEADER_BYTES, (int)page, PAGE_BYTES - PAGE_HEADER_BYTES);
        page_seal(at, PAGE_BYTES);
        if (page % CHUNK_PAGES == CHUNK_PAGES - 1)
            must(io_write(world->file, chunk, CHUNK_PAGES * PAGE_BYTES,
                          (uint64_t)(page + 1 - CHUNK_PAGES) * PAGE_BYTES));
    }
    must(io_sync(world->file, IO_SYNC_ALL));
    memory_free(chunk);
}

static void open_pool(struct bench_world *world, uint64_t size_bytes)
{
    struct buffer_options options = {
        .size_bytes = size_bytes,
        .page_size_bytes = PAGE_BYTES,
        .redo = world->redo,
        .files = {.context = world, .locate = locate},
        .systems = &world->system,
        .system_count = 1,
        .doublewrite = BUFFER_DOUBLEWRITE_OFF,
        .cleaner_thread = true,
        .io_capacity = 200,
        .io_capacity_max = 2000,
        .dirty_percent_max = 90,
    };
    must(buffer_open(&options, &world->pool));
}

static void close_world(struct bench_world *world)
{
    buffer_close(world->pool);
    must(io_file_close(world->file));
    io_system_close(world->system);
    must(redo_close(world->redo));
    io_system_close(world->log_system);
    sim_disk_destroy(world->log_disk);
}

/* ---- Pages in the pool ---- */

enum hot_kind { HOT_NOTHING, HOT_VIEW, HOT_VIEW_HINT, HOT_SHARED, HOT_EXCLUSIVE, HOT_KINDS };

static const char *const hot_names[HOT_KINDS] = {"nothing_ns", "view_ns", "view_hint_ns",
                                                 "fix_shared_ns", "fix_exclusive_ns"};

struct hot_thread {
    struct bench_world *world;
    enum hot_kind kind;
    uint32_t pages;
    uint64_t seed;
    uint64_t elapsed_ns;
    uint64_t sum;
};

/* Processor time, so that others on the machine do not count. */
static uint64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void look_once(struct bench_world *world, uint64_t id, struct buffer_frame *hint,
                      struct hot_thread *thread)
{
    struct buffer_view view;
    if (!buffer_view_open(world->pool, id, hint, &view))
        return;
    thread->sum += view.page[0];
    thread->sum += buffer_view_valid(world->pool, &view);
    buffer_view_close(world->pool, &view);
}

static void fix_once(struct bench_world *world, uint64_t id, enum buffer_mode mode,
                     struct hot_thread *thread)
{
    struct buffer_frame *frame;
    must(buffer_fix(world->pool, id, mode, BUFFER_HINT_NORMAL, &frame));
    thread->sum += buffer_page(world->pool, frame)[0];
    buffer_unfix(world->pool, frame, mode);
}

static void *hot_main(void *argument)
{
    struct hot_thread *thread = argument;
    struct bench_world *world = thread->world;
    struct buffer_frame **hints = memory_zalloc(thread->pages, sizeof(*hints));
    struct rng rng;
    rng_init(&rng, thread->seed);
    for (uint32_t i = 0; i < thread->pages; i++) {
        must(buffer_fix(world->pool, page_id_of(SPACE, i), BUFFER_PIN, BUFFER_HINT_NORMAL,
                        &hints[i]));
        buffer_unfix(world->pool, hints[i], BUFFER_PIN);
    }
    uint64_t start_ns = thread_cpu_ns();
    for (unsigned i = 0; i < ROUND_OPS; i++) {
        uint32_t page = (uint32_t)((rng_next(&rng) >> 32) * thread->pages >> 32);
        uint64_t id = page_id_of(SPACE, page);
        switch (thread->kind) {
        case HOT_VIEW:
            look_once(world, id, NULL, thread);
            break;
        case HOT_VIEW_HINT:
            look_once(world, id, hints[page], thread);
            break;
        case HOT_SHARED:
            fix_once(world, id, BUFFER_SHARED, thread);
            break;
        case HOT_EXCLUSIVE:
            fix_once(world, id, BUFFER_EXCLUSIVE, thread);
            break;
        default:
            thread->sum += id;
        }
    }
    thread->elapsed_ns = thread_cpu_ns() - start_ns;
    memory_free(hints);
    return NULL;
}

static double hot_run(struct bench_world *world, enum hot_kind kind, uint32_t pages,
                      unsigned thread_count)
{
    struct hot_thread threads[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    uint64_t total_ns = 0;
    for (unsigned i = 0; i < thread_count; i++) {
        threads[i] =
            (struct hot_thread){.world = world, .kind = kind, .pages = pages, .seed = i + 1};
        pthread_create(&ids[i], NULL, hot_main, &threads[i]);
    }
    for (unsigned i = 0; i < thread_count; i++) {
        pthread_join(ids[i], NULL);
        total_ns += threads[i].elapsed_ns;
    }
    return (double)total_ns / ROUND_OPS / thread_count;
}

static int hot(uint32_t pages, unsigned threads)
{
    struct bench_world world = {0};
    char path[64];
    snprintf(path, sizeof(path), "/bench.firn");
    open_log(&world);
    must(sim_disk_open_system(world.log_disk, clock_real(), 2, &world.system));
    make_file(&world, path, (pages + 63) / 64 * 64);
    open_pool(&world, (uint64_t)pages * PAGE_BYTES * 5 / 4 + (4 << 20));
    printf("{\"pages\": %u, \"threads\": %u", pages, threads);
    for (unsigned kind = 0; kind < HOT_KINDS; kind++) {
        hot_run(&world, kind, pages, threads); /* warms up */
        double best = 1e9;
        for (unsigned round = 0; round < 5; round++) {
            double ns = hot_run(&world, kind, pages, threads);
            best = ns < best ? ns : best;
        }
        printf(", \"%s\": %.1f", hot_names[kind], best);
    }
    printf("}\n");
    close_world(&world);
    return 0;
}

/* ---- Pages that are not ---- */

struct miss_run {
    struct bench_world world;
    bool raw; /* the same reads and checksums into a buffer of the thread, without a pool */
    atomic_bool stop;
    _Atomic uint64_t raw_reads;
};

static void read_raw(struct miss_run *run, uint64_t id, uint8_t *buffer)
{
    must(io_read(run->world.file, buffer, PAGE_BYTES, (uint64_t)page_id_number(id) * PAGE_BYTES));
    ENSURE(page_verify(buffer, PAGE_BYTES, id, UINT64_MAX) == PAGE_GOOD);
    atomic_fetch_add_explicit(&run->raw_reads, 1, memory_order_relaxed);
}

static void *miss_main(void *argument)
{
    struct miss_run *run = argument;
    static atomic_uint numbers;
    struct rng rng;
    uint8_t *buffer = memory_alloc_aligned(PAGE_BYTES, 4096);
    ENSURE(buffer != NULL);
    rng_init(&rng, atomic_fetch_add(&numbers, 1) + 1);
    while (!atomic_load_explicit(&run->stop, memory_order_relaxed)) {
        uint64_t id = page_id_of(SPACE, (uint32_t)rng_below(&rng, run->world.pages));
        struct buffer_frame *frame;
        if (run->raw) {
            read_raw(run, id, buffer);
            continue;
        }
        must(buffer_fix(run->world.pool, id, BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame));
        buffer_unfix(run->world.pool, frame, BUFFER_SHARED);
    }
    memory_free(buffer);
    return NULL;
}

static uint64_t reads_so_far(struct miss_run *run)
{
    struct buffer_counters counters;
    buffer_counters(run->world.pool, &counters);
    return run->raw ? run->raw_reads : counters.pages_read;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void miss_for(struct miss_run *run, unsigned threads, unsigned seconds)
{
    pthread_t ids[THREADS_MAX];
    struct clock *clock = clock_real();
    for (unsigned i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, miss_main, run);
    clock_wait_until(clock, clock_now(clock) + NS_PER_S); /* fills the pool */
    uint64_t reads = reads_so_far(run);
    double cpu_s = cpu_seconds();
    uint64_t start_ns = clock_now(clock);
    clock_wait_until(clock, start_ns + seconds * NS_PER_S);
    reads = reads_so_far(run) - reads;
    cpu_s = cpu_seconds() - cpu_s;
    double elapsed_s = (double)(clock_now(clock) - start_ns) / 1e9;
    atomic_store(&run->stop, true);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    printf("{\"threads\": %u, \"reads_s\": %.0f, \"cpu_us_per_read\": %.2f}\n", threads,
           (double)reads / elapsed_s, cpu_s * 1e6 / (double)reads);
}

static int miss(char **argv, bool raw)
{
    struct miss_run run = {.raw = raw};
    open_log(&run.world);
    must(io_system_open(IO_BACKEND_AUTO, clock_real(), &run.world.system));
    make_file(&run.world, argv[0], (uint32_t)atoi(argv[1]) * ((1 << 20) / PAGE_BYTES));
    open_pool(&run.world, (uint64_t)atoi(argv[2]) << 20);
    miss_for(&run, (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
    close_world(&run.world);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "hot") == 0 && atoi(argv[3]) <= THREADS_MAX)
        return hot((uint32_t)atoi(argv[2]), (unsigned)atoi(argv[3]));
    bool raw = argc == 7 && strcmp(argv[1], "raw") == 0;
    if (argc == 7 && (raw || strcmp(argv[1], "miss") == 0) && atoi(argv[5]) <= THREADS_MAX)
        return miss(argv + 2, raw);
    fprintf(stderr, "usage: pool hot PAGES THREADS\n"
                    "       pool miss|raw FILE MIB POOL_MIB THREADS SECONDS\n");
    return 1;
}
