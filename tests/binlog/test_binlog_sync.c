/*
 * What a commit waits for, counted and timed on a modelled disk in virtual time: with the binary
 * log written together with the redo log a group of commits is one sync, separately it is two.
 */
#include "binlog_world.h"

#include "io/model.h"

#include <pthread.h>

enum { THREADS_MAX = 64, COMMITS = 6400 };

#define DISK "hdd-15k"

enum way { WAY_OFF, WAY_TOGETHER, WAY_SEPARATE, WAYS };

static const char *const way_names[WAYS] = {"off", "together", "separate"};

struct bench {
    struct bin_world bin;
    struct clock *clock;
    atomic_bool is_over;
    unsigned commits; /* of each thread */
};

struct worker {
    pthread_t thread;
    struct bench *bench;
    unsigned number;
    uint64_t end_ns;
    firn_rc rc;
};

struct figures {
    double commits_s;
    double syncs; /* a commit, of redo and binary log together */
    double redo_syncs;
    double binlog_syncs;
};

static firn_rc commit_one(struct worker *worker, struct txn_session *session, unsigned i)
{
    char text[32];
    uint8_t payload[100] = {0};
    put_u64(payload, i);
    FIRN_TRY(txn_begin(session, TXN_READ_COMMITTED, false));
    FIRN_TRY(txn_put(session, worker->bench->bin.trees[0], bin_key(worker->number, text),
                     span_of(payload, sizeof payload)));
    return txn_commit(session);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct bench *bench = worker->bench;
    struct txn_session *session = NULL;
    clock_wait_until(bench->clock, clock_now(bench->clock) + 1);
    worker->rc = txn_session_open(store_transactions(bench->bin.world.store), &session);
    for (unsigned i = 0; worker->rc == FIRN_OK && i < bench->commits; i++)
        worker->rc = commit_one(worker, session, i);
    worker->end_ns = clock_now(bench->clock);
    txn_session_close(session);
    clock_leave(bench->clock);
    return NULL;
}

/* The store has no threads of its own here: this is what they would do. */
static void *tick(void *context)
{
    struct worker *worker = context;
    struct bench *bench = worker->bench;
    uint64_t next_ns = clock_now(bench->clock);
    while (worker->rc == FIRN_OK && !atomic_load(&bench->is_over)) {
        next_ns += 200 * NS_PER_MS;
        clock_wait_until(bench->clock, next_ns);
        worker->rc = binlog_tick(store_binlog(bench->bin.world.store));
    }
    clock_leave(bench->clock);
    return NULL;
}

static void open_bench(struct bench *bench, enum way way, uint64_t seed)
{
    struct bin_world *bin = &bench->bin;
    struct model_spec spec;
    struct sim_disk *disk = disk_make();
    *bin = (struct bin_world){.begun = 0};
    bin->world.disk = disk;
    world_options(&bin->world.options);
    bin->world.options.binlog = way != WAY_OFF;
    bin->world.options.binlog_sync =
        way == WAY_SEPARATE ? STORE_BINLOG_SEPARATE : STORE_BINLOG_TOGETHER;
    ASSERT_OK(clock_open_virtual(&bench->clock));
    clock_join(bench->clock);
    bin->world.options.clock = bench->clock;
    bin->world.options.direct = true;
    ASSERT_OK(sim_disk_open_system(disk, bench->clock, seed, &bin->world.system));
    ASSERT_OK(model_find(DISK, &spec));
    ASSERT_OK(model_attach(bin->world.system, &spec));
    for (int class = 0; class < IO_CLASS_COUNT; class ++)
        bin->world.options.class_systems[class] = bin->world.system;
    ASSERT_OK(bin_open(bin));
    /* The first file of the binary log is made before anything is measured. */
    struct worker first = {.bench = bench, .number = THREADS_MAX};
    ASSERT_OK(commit_one(&first, bin->session, 0));
    ASSERT_OK(binlog_flush(store_binlog(bin->world.store)));
}

static void close_bench(struct bench *bench)
{
    struct sim_disk *disk = bench->bin.world.disk;
    clock_leave(bench->clock);
    ASSERT_OK(bin_close(&bench->bin));
    world_end(&bench->bin.world);
    sim_disk_destroy(disk);
    clock_close(bench->clock);
}

static uint64_t syncs_of(struct bench *bench, enum io_class class)
{
    struct io_counters *counters = malloc(sizeof *counters);
    io_system_counters(bench->bin.world.system, class, counters);
    uint64_t syncs = counters->syncs;
    free(counters);
    return syncs;
}

static void join_all(struct worker *workers, unsigned threads)
{
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        ASSERT_OK(workers[i].rc);
    }
}

static struct figures run(enum way way, unsigned threads, uint64_t seed)
{
    struct bench *bench = calloc(1, sizeof *bench);
    struct worker workers[THREADS_MAX], ticker = {.bench = bench};
    open_bench(bench, way, seed);
    bench->commits = COMMITS / THREADS_MAX * (threads < 8 ? 8 : threads) / threads;
    uint64_t redo_syncs = syncs_of(bench, IO_CLASS_REDO);
    uint64_t binlog_syncs = syncs_of(bench, IO_CLASS_BINLOG);
    uint64_t start_ns = clock_now(bench->clock);
    for (unsigned i = 0; i <= threads; i++)
        clock_join(bench->clock);
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){.bench = bench, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    assert_int_equal(pthread_create(&ticker.thread, NULL, tick, &ticker), 0);
    clock_leave(bench->clock);
    join_all(workers, threads);
    uint64_t took_ns = 0; /* time goes on for the ticker, so not until now */
    for (unsigned i = 0; i < threads; i++)
        if (workers[i].end_ns - start_ns > took_ns)
            took_ns = workers[i].end_ns - start_ns;
    redo_syncs = syncs_of(bench, IO_CLASS_REDO) - redo_syncs;
    binlog_syncs = syncs_of(bench, IO_CLASS_BINLOG) - binlog_syncs;
    atomic_store(&bench->is_over, true);
    join_all(&ticker, 1);
    clock_join(bench->clock);
    double commits = (double)bench->commits * threads;
    struct figures figures = {.commits_s = commits / ((double)took_ns / 1e9),
                              .redo_syncs = (double)redo_syncs / commits,
                              .binlog_syncs = (double)binlog_syncs / commits};
    figures.syncs = figures.redo_syncs + figures.binlog_syncs;
    if (way != WAY_OFF)
        assert_int_equal(binlog_last_number(store_binlog(bench->bin.world.store)),
                         (uint64_t)commits + 1);
    close_bench(bench);
    free(bench);
    return figures;
}

static void one_sync_a_group_against_two(void **state)
{
    (void)state;
    static const unsigned counts[] = {1, 4, 16, 64};
    uint64_t seed = test_seed(1);
    print_message("# modelled " DISK ", virtual time; commits/s (syncs a commit: redo + binlog)\n");
    for (unsigned i = 0; i < ARRAY_COUNT(counts); i++) {
        struct figures figures[WAYS];
        char text[300] = "";
        for (int way = 0; way < WAYS; way++) {
            figures[way] = run((enum way)way, counts[i], seed);
            size_t length = strlen(text);
            snprintf(text + length, sizeof text - length, "  %s %.0f (%.3f + %.3f)", way_names[way],
                     figures[way].commits_s, figures[way].redo_syncs, figures[way].binlog_syncs);
        }
        print_message("# %2u threads:%s  together/separate %.2f\n", counts[i], text,
                      figures[WAY_TOGETHER].commits_s / figures[WAY_SEPARATE].commits_s);
        /* A sync of the binary log once a second, whoever commits. */
        /* Together: a sync of the binary log now and then, whoever commits. Separate: two a group,
           and as groups of both kinds overlap, more groups. */
        assert_true(figures[WAY_TOGETHER].binlog_syncs < 0.02);
        assert_true(figures[WAY_TOGETHER].syncs < 1.15 * figures[WAY_OFF].syncs + 0.02);
        assert_true(figures[WAY_SEPARATE].binlog_syncs > 0.8 * figures[WAY_SEPARATE].redo_syncs);
        assert_true(figures[WAY_SEPARATE].syncs > 1.6 * figures[WAY_TOGETHER].syncs);
        assert_true(figures[WAY_SEPARATE].commits_s * 1.4 < figures[WAY_TOGETHER].commits_s);
        assert_true(figures[WAY_TOGETHER].commits_s > 0.9 * figures[WAY_OFF].commits_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_sync_a_group_against_two),
    };
    return cmocka_run_group_tests_name("binlog_sync", tests, world_quiet, NULL);
}
