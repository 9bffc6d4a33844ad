/*
 * Threads with a log each, others that read what has ended, one that purges behind them, one that
 * gives files back, and the cleaner.
 */
#include "txn/undo_world.h"

#include <pthread.h>

enum { WRITERS = 3, READERS = 2, LOGS = 120, RECORDS_MAX = 60, PUBLISHED = 64 };

static struct sim_disk *disk;
static atomic_bool stop;
static _Atomic uint64_t newest;  /* commit number */
static _Atomic uint64_t horizon; /* logs at or below it may be purged */
static _Atomic uint64_t holds[READERS];
static _Atomic uint64_t drawn_id;

/* A log that has ended: its newest record and how many there are. */
struct published {
    undo_pointer last;
    uint64_t txn_id;
    uint64_t number;
    uint64_t records;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct published published[PUBLISHED];
static uint64_t published_count;

struct worker {
    pthread_t thread;
    unsigned number;
    struct mtr mtr;
    struct rng rng;
    struct undo_buffer buffer;
    uint8_t bytes[PAGE];
    uint64_t logs;
};

static int setup(void **state)
{
    (void)state;
    uint32_t id;
    disk = disk_make();
    world_make(&world, disk, PAGE);
    ASSERT_OK(space_create(world.set, &world.mtr, IO_CLASS_TABLE, "t", &id));
    world_close(&world);
    world_begin(&world, disk, PAGE, 2);
    world.cleaner_thread = true;
    ASSERT_OK(world_go_on(&world));
    ASSERT_OK(undo_world_open_set(true, TABLESPACES));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    undo_world_abandon();
    sim_disk_destroy(disk);
    return 0;
}

/* The i-th record of a transaction. */
static uint64_t record_number(uint64_t txn_id, uint64_t i)
{
    return txn_id << 16 | i;
}

/* From a log's newest record back there are the records of one transaction, in order. */
static uint64_t check_log(struct worker *worker, undo_pointer last, uint64_t txn_id)
{
    uint64_t count = 0;
    uint64_t above = UINT64_MAX;
    while (last != 0) {
        struct span record = span_of(NULL, 0);
        ASSERT_OK(undo_read(undo, last, &worker->buffer, &record, &last));
        uint64_t number = get_u64(record.bytes);
        assert_true(number >> 16 == txn_id && number < above);
        above = number;
        assert_true(span_compare(record_make(worker->bytes, number), record) == 0);
        count++;
    }
    return count;
}

static void publish(const struct undo_log *log, uint64_t number, uint64_t records)
{
    pthread_mutex_lock(&mutex);
    published[published_count++ % PUBLISHED] =
        (struct published){log->last, log->txn_id, number, records};
    pthread_mutex_unlock(&mutex);
}

/* Number a commit and write it, one at a time. */
static uint64_t commit(struct worker *worker, struct undo_log *log)
{
    static pthread_mutex_t commit_mutex = PTHREAD_MUTEX_INITIALIZER;
    log->has_work = log->txn_id % 2 == 0;
    ASSERT_OK(mtr_begin(&worker->mtr, UNDO_HEADER_LOG_BYTES));
    ASSERT_OK(undo_latch_header(log, &worker->mtr));
    pthread_mutex_lock(&commit_mutex);
    uint64_t number = atomic_load(&newest) + 1;
    ASSERT_OK(undo_mark(log, &worker->mtr, UNDO_COMMITTED, number, span_of(NULL, 0)));
    ASSERT_OK(mtr_commit(&worker->mtr, NULL));
    atomic_store(&newest, number);
    pthread_mutex_unlock(&commit_mutex);
    return number;
}

static void write_log(struct worker *worker)
{
    struct undo_log log;
    undo_pointer pointers[RECORDS_MAX];
    uint64_t txn_id = atomic_fetch_add(&drawn_id, 1) + 1;
    unsigned count = 0;
    ASSERT_OK(undo_cover_id(undo, &worker->mtr, txn_id));
    ASSERT_OK(undo_begin(undo, &worker->mtr, txn_id, &log));
    uint64_t wanted = 1 + rng_below(&worker->rng, RECORDS_MAX);
    for (uint64_t i = 0; i < wanted; i++) {
        struct span record = record_make(worker->bytes, record_number(txn_id, i));
        ASSERT_OK(append_to(&log, &worker->mtr, record, &pointers[count]));
        count++;
        if (rng_below(&worker->rng, 12) == 0) {
            count = (unsigned)rng_below(&worker->rng, count);
            ASSERT_OK(undo_rewind(&log, &worker->mtr, count > 0 ? pointers[count - 1] : 0));
        }
    }
    assert_int_equal(check_log(worker, log.last, txn_id), count);
    uint64_t number = commit(worker, &log);
    publish(&log, number, count);
    undo_end(&log);
}

static void *run_writer(void *context)
{
    struct worker *worker = context;
    for (unsigned i = 0; i < LOGS; i++)
        write_log(worker);
    return NULL;
}

/* Hold purge back, as an open snapshot does. @return what may be purged at most meanwhile */
static uint64_t hold(unsigned reader)
{
    uint64_t held;
    do {
        held = atomic_load(&horizon);
        atomic_store(&holds[reader], held);
    } while (atomic_load(&horizon) != held);
    return held;
}

static void *run_reader(void *context)
{
    struct worker *worker = context;
    while (!atomic_load(&stop)) {
        uint64_t held = hold(worker->number);
        for (unsigned i = 0; i < 10; i++) {
            pthread_mutex_lock(&mutex);
            struct published one = published[rng_below(&worker->rng, PUBLISHED)];
            pthread_mutex_unlock(&mutex);
            if (one.number > held) {
                assert_int_equal(check_log(worker, one.last, one.txn_id), one.records);
                worker->logs++;
            }
        }
        atomic_store(&holds[worker->number], UINT64_MAX);
    }
    return NULL;
}

static uint64_t move_horizon(void)
{
    uint64_t limit = atomic_load(&newest);
    atomic_store(&horizon, limit);
    for (unsigned i = 0; i < READERS; i++) {
        uint64_t held = atomic_load(&holds[i]);
        limit = held < limit ? held : limit;
    }
    return limit;
}

static void purge_segment(struct worker *worker, unsigned segment, uint64_t limit)
{
    struct undo_finished finished;
    while (undo_purge_first(undo, segment, &finished) == FIRN_OK) {
        if (finished.number > limit) {
            undo_purge_leave(undo, segment);
            return;
        }
        assert_int_equal(finished.has_work, finished.txn_id % 2 == 0);
        check_log(worker, finished.last, finished.txn_id);
        ASSERT_OK(undo_purge_done(undo, &worker->mtr, segment));
        worker->logs++;
    }
}

static void *run_purge(void *context)
{
    struct worker *worker = context;
    while (!atomic_load(&stop)) {
        uint64_t limit = move_horizon();
        for (unsigned i = 0; i < undo_segment_count(undo); i++)
            purge_segment(worker, i, limit);
    }
    return NULL;
}

static void *run_truncate(void *context)
{
    struct worker *worker = context;
    while (!atomic_load(&stop)) {
        uint64_t pages;
        firn_rc rc = undo_truncate(undo, &worker->mtr, 16 * PAGE, &pages);
        if (rc != FIRN_E_BUSY)
            ASSERT_OK(rc);
    }
    return NULL;
}

static void start(struct worker *workers, unsigned count, void *(*run)(void *), uint64_t seed)
{
    for (unsigned i = 0; i < count; i++) {
        workers[i].number = i;
        rng_init(&workers[i].rng, seed + i);
        mtr_init(&workers[i].mtr, world.pool, world.redo);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    }
}

static void finish_workers(struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        mtr_free(&workers[i].mtr);
        undo_buffer_free(&workers[i].buffer);
    }
}

static void logs_are_written_read_and_purged_at_once(void **state)
{
    (void)state;
    static struct worker writers[WRITERS];
    static struct worker readers[READERS];
    static struct worker others[2]; /* purge, truncation */
    struct undo_counters counters;
    uint64_t seed = test_seed(31);
    for (unsigned i = 0; i < READERS; i++)
        atomic_store(&holds[i], UINT64_MAX);
    start(readers, READERS, run_reader, seed + 10);
    start(&others[0], 1, run_purge, seed + 20);
    start(&others[1], 1, run_truncate, seed + 21);
    start(writers, WRITERS, run_writer, seed + 30);
    finish_workers(writers, WRITERS);
    atomic_store(&stop, true);
    finish_workers(readers, READERS);
    finish_workers(others, 2);
    undo_world_check();
    ASSERT_OK(undo_counters(undo, &counters));
    assert_int_equal(counters.logs + others[0].logs, WRITERS * LOGS);
    assert_int_equal(counters.segments_in_use, 0);
    mtr_init(&others[0].mtr, world.pool, world.redo);
    for (unsigned i = 0; i < undo_segment_count(undo); i++)
        purge_segment(&others[0], i, UINT64_MAX);
    assert_int_equal(others[0].logs, WRITERS * LOGS);
    mtr_free(&others[0].mtr);
    undo_buffer_free(&others[0].buffer);
    undo_world_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(logs_are_written_read_and_purged_at_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
