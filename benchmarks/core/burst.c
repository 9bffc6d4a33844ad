/*
 * burst -- a write burst with a small log: does throughput ever stand still?
 *
 * Threads update random rows as fast as they can, in an environment whose log holds a small part of
 * what they change. Prints the rate in each tenth of a second on request, and at the end the mean,
 * the slowest second and tenth of a second, the longest single update, and what the pages cost.
 *
 *     burst DIR [--device MODEL] [--pool MIB] [--log MIB] [--rows N] [--threads N] [--seconds N]
 *           [--capacity N] [--capacity-max N] [--doublewrite on|off|detect] [--flush 0|1|2]
 *           [--series]
 */
#include "base/clock.h"
#include "base/rng.h"
#include "engine/store.h"
#include "io/model.h"

#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, TENTHS_MAX = 36000, PAYLOAD_BYTES = 100, KEY_BYTES = 8 };

struct settings {
    const char *device;
    const char *doublewrite;
    uint64_t pool_mib;
    uint64_t log_mib;
    uint64_t rows;
    unsigned threads;
    unsigned seconds;
    unsigned capacity;
    unsigned capacity_max;
    enum redo_flush flush;
    int series;
};

struct worker {
    pthread_t thread;
    struct store *store;
    struct btree *tree;
    uint64_t rows;
    uint64_t seed;
    const _Atomic bool *stop;
    uint64_t longest_ns;
    _Alignas(64) _Atomic uint64_t updates;
};

static void must(firn_rc rc)
{
    if (rc == FIRN_OK)
        return;
    fprintf(stderr, "burst: %s\n", firn_error_text());
    exit(1);
}

static void make_row(uint64_t number, uint64_t version, uint8_t *key, uint8_t *value)
{
    for (unsigned i = 0; i < KEY_BYTES; i++)
        key[i] = (uint8_t)(number >> (56 - 8 * i));
    memset(value, 'a' + (int)(version % 26), PAYLOAD_BYTES);
}

static void *update(void *context)
{
    struct worker *worker = context;
    struct store_session *session;
    struct rng rng;
    uint8_t key[KEY_BYTES];
    uint8_t value[PAYLOAD_BYTES];
    rng_init(&rng, worker->seed);
    must(store_session_open(worker->store, &session));
    uint64_t before_ns = clock_now(clock_real());
    for (uint64_t i = 0; !atomic_load_explicit(worker->stop, memory_order_relaxed); i++) {
        make_row(rng_below(&rng, worker->rows), i, key, value);
        must(store_put(session, worker->tree, span_of(key, KEY_BYTES),
                       span_of(value, PAYLOAD_BYTES)));
        must(store_commit(session));
        uint64_t now_ns = clock_now(clock_real());
        if (now_ns - before_ns > worker->longest_ns)
            worker->longest_ns = now_ns - before_ns;
        before_ns = now_ns;
        atomic_store_explicit(&worker->updates, i + 1, memory_order_relaxed);
    }
    store_session_close(session);
    return NULL;
}

static void load(struct store *store, struct btree *tree, uint64_t rows)
{
    struct store_session *session;
    uint8_t key[KEY_BYTES];
    uint8_t value[PAYLOAD_BYTES];
    must(store_session_open(store, &session));
    for (uint64_t i = 0; i < rows; i++) {
        make_row(i, 0, key, value);
        must(store_put(session, tree, span_of(key, KEY_BYTES), span_of(value, PAYLOAD_BYTES)));
    }
    must(store_commit(session));
    store_session_close(session);
    must(store_checkpoint(store));
}

static uint64_t updates_of(struct worker *workers, unsigned count)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += atomic_load_explicit(&workers[i].updates, memory_order_relaxed);
    return sum;
}

static unsigned watch(const struct settings *settings, struct store *store, struct worker *workers,
                      uint64_t *tenths)
{
    uint64_t began_ns = clock_now(clock_real());
    uint64_t last = 0;
    unsigned count = 0;
    for (; count < settings->seconds * 10 && count < TENTHS_MAX; count++) {
        clock_wait_until(clock_real(), began_ns + (count + 1) * (NS_PER_S / 10));
        uint64_t now = updates_of(workers, settings->threads);
        tenths[count] = now - last;
        last = now;
        if (settings->series) {
            struct store_status status;
            store_status(store, &status);
            printf("%5.1f s %9llu updates/s, age %5.1f %%, dirty %llu, written %llu\n",
                   (count + 1) / 10.0, (unsigned long long)tenths[count] * 10,
                   100.0 * (double)status.checkpoint_age_bytes / (double)status.log_capacity_bytes,
                   (unsigned long long)status.buffer.pages_dirty,
                   (unsigned long long)status.buffer.pages_written);
        }
    }
    return count;
}

static uint64_t least_of(const uint64_t *tenths, unsigned count, unsigned window)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i + window <= count; i++) {
        uint64_t sum = 0;
        for (unsigned j = 0; j < window; j++)
            sum += tenths[i + j];
        least = sum < least ? sum : least;
    }
    return least;
}

static void run(const struct settings *settings, struct store *store, struct btree *tree)
{
    static struct worker workers[THREADS_MAX];
    static uint64_t tenths[TENTHS_MAX];
    _Atomic bool stop = false;
    struct store_status before;
    struct store_status after;
    uint64_t longest_ns = 0;
    store_status(store, &before);
    for (unsigned i = 0; i < settings->threads; i++) {
        workers[i] = (struct worker){
            .store = store, .tree = tree, .rows = settings->rows, .seed = i + 1, .stop = &stop};
        pthread_create(&workers[i].thread, NULL, update, &workers[i]);
    }
    unsigned count = watch(settings, store, workers, tenths);
    store_status(store, &after);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < settings->threads; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].longest_ns > longest_ns)
            longest_ns = workers[i].longest_ns;
    }
    double updates = 0;
    for (unsigned i = 0; i < count; i++)
        updates += (double)tenths[i];
    double pages = (double)(after.buffer.pages_written - before.buffer.pages_written);
    printf(
        "mean %.0f updates/s, slowest second %llu, slowest tenth %llu/s, longest update %.0f ms\n",
        updates / settings->seconds, (unsigned long long)least_of(tenths, count, 10),
        (unsigned long long)least_of(tenths, count, 1) * 10, (double)longest_ns / 1e6);
    printf("%.0f pages/s written in %.0f batches/s, %.0f bytes an update, %llu log waits, "
           "%llu frame waits, %llu checkpoints\n",
           pages / settings->seconds,
           (double)(after.buffer.flush_batches - before.buffer.flush_batches) / settings->seconds,
           pages * after.page_size_bytes / updates,
           (unsigned long long)(after.redo.space_waits - before.redo.space_waits),
           (unsigned long long)(after.buffer.free_waits - before.buffer.free_waits),
           (unsigned long long)(after.redo.checkpoints - before.redo.checkpoints));
}

static void read_options(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {
        {"device", 1, NULL, 'd'},   {"pool", 1, NULL, 'p'},         {"log", 1, NULL, 'l'},
        {"rows", 1, NULL, 'r'},     {"threads", 1, NULL, 't'},      {"seconds", 1, NULL, 's'},
        {"capacity", 1, NULL, 'c'}, {"capacity-max", 1, NULL, 'm'}, {"doublewrite", 1, NULL, 'w'},
        {"flush", 1, NULL, 'f'},    {"series", 0, NULL, 'v'},       {0},
    };
    for (int c = getopt_long(argc, argv, "", options, NULL); c != -1;
         c = getopt_long(argc, argv, "", options, NULL)) {
        unsigned long number = optarg != NULL ? strtoul(optarg, NULL, 10) : 0;
        switch (c) {
        case 'd':
            settings->device = optarg;
            break;
        case 'w':
            settings->doublewrite = optarg;
            break;
        case 'p':
            settings->pool_mib = number;
            break;
        case 'l':
            settings->log_mib = number;
            break;
        case 'r':
            settings->rows = number;
            break;
        case 't':
            settings->threads = (unsigned)number;
            break;
        case 's':
            settings->seconds = (unsigned)number;
            break;
        case 'c':
            settings->capacity = (unsigned)number;
            break;
        case 'm':
            settings->capacity_max = (unsigned)number;
            break;
        case 'f':
            settings->flush = (enum redo_flush)number;
            break;
        case 'v':
            settings->series = 1;
            break;
        default:
            exit(2);
        }
    }
}

static enum buffer_doublewrite doublewrite_of(const char *text)
{
    if (strcmp(text, "off") == 0)
        return BUFFER_DOUBLEWRITE_OFF;
    return strcmp(text, "detect") == 0 ? BUFFER_DOUBLEWRITE_DETECT : BUFFER_DOUBLEWRITE_ON;
}

static struct io_system *open_device(const char *model)
{
    struct io_system *system;
    struct model_spec spec;
    must(io_system_open(IO_BACKEND_AUTO, clock_real(), &system));
    if (model == NULL)
        return system;
    must(model_find(model, &spec));
    must(model_attach(system, &spec));
    return system;
}

static void open_store(const struct settings *settings, const char *directory,
                       struct io_system *system, struct store **store)
{
    struct store_options options;
    store_options_init(&options);
    options.directory = directory;
    options.create = true;
    options.buffer_pool_size_bytes = settings->pool_mib << 20;
    options.log_file_size_bytes = settings->log_mib << 19;
    options.log_files = 2;
    options.io_capacity = settings->capacity;
    options.io_capacity_max = settings->capacity_max;
    options.flush_log_at_commit = settings->flush;
    options.doublewrite = doublewrite_of(settings->doublewrite);
    for (unsigned i = 0; i < IO_CLASS_COUNT; i++)
        options.class_systems[i] = system;
    must(store_open(&options, store, NULL));
}

int main(int argc, char **argv)
{
    struct settings settings = {.pool_mib = 64,
                                .log_mib = 8,
                                .rows = 1000000,
                                .threads = 4,
                                .seconds = 20,
                                .capacity = 200,
                                .capacity_max = 2000,
                                .flush = REDO_FLUSH_WRITE,
                                .doublewrite = "on"};
    struct store *store;
    struct btree *tree;
    read_options(argc, argv, &settings);
    if (optind != argc - 1 || settings.threads < 1 || settings.threads > THREADS_MAX) {
        fprintf(stderr, "burst: give a directory, and 1 to %d threads\n", THREADS_MAX);
        return 2;
    }
    struct io_system *system = open_device(settings.device);
    open_store(&settings, argv[optind], system, &store);
    must(store_tree(store, "rows", STORE_TREE_CREATE, &tree));
    load(store, tree, settings.rows);
    run(&settings, store, tree);
    must(store_close(store));
    io_system_close(system);
    return 0;
}
