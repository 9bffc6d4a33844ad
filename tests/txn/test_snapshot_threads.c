/*
 * Snapshots by many threads: a list of all commits, written before each is published, decides
 * exactly what each snapshot must see, and a reader that is told what purge has given up decides
 * whether purge went too far.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/snapshot_internal.h"

#include "base/check.h"
#include "base/rng.h"
#include "repeat.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define ASSERT_OK(call) assert_int_equal(call, FIRN_OK)

enum { WRITERS = 4, READERS = 4, OPEN_MAX = 6, IDS_MAX = 100000 };

struct history {
    struct snapshot_set *set;
    uint64_t seed;
    _Atomic uint64_t numbers[IDS_MAX]; /* by id, written before the commit is published */
    _Atomic uint64_t purged;           /* what snapshot_horizon has allowed */
    _Atomic unsigned writing;          /* threads */
    _Atomic unsigned faults;
    pthread_barrier_t shares; /* between two readers */
    struct snapshot *shared;
};

static struct history history;

static void blame(const char *what, uint64_t id, uint64_t number)
{
    if (atomic_fetch_add(&history.faults, 1) == 0)
        print_error("%s: id %llu, number %llu, FIRN_TEST_SEED=%llu\n", what, (unsigned long long)id,
                    (unsigned long long)number, (unsigned long long)history.seed);
}

struct commit {
    uint64_t id;
};

static firn_rc note(uint64_t number, void *context)
{
    const struct commit *commit = context;
    atomic_store_explicit(&history.numbers[commit->id], number, memory_order_relaxed);
    return FIRN_OK;
}

static void *write_history(void *argument)
{
    struct rng rng;
    uint64_t open[OPEN_MAX];
    size_t count = 0;
    rng_init(&rng, history.seed + *(const unsigned *)argument);
    for (;;) {
        if (rng_below(&rng, 32) == 0)
            sched_yield();
        if (count < OPEN_MAX && rng_below(&rng, 2) == 0) {
            if (snapshot_draw_id(history.set, &open[count]) != FIRN_OK)
                blame("an id was not drawn", 0, 0);
            if (open[count] >= IDS_MAX)
                break; /* it stays open */
            count++;
        } else if (count > 0) {
            /* The first one is often kept, until it has long been evicted. */
            size_t which = rng_below(&rng, 200) == 0 ? 0 : rng_below(&rng, count);
            if (which == 0 && count > 1 && rng_below(&rng, 16) != 0)
                which = 1;
            struct commit commit = {open[which]};
            open[which] = open[--count];
            if (snapshot_commit(history.set, commit.id, note, &commit, NULL) != FIRN_OK)
                blame("a commit failed", commit.id, 0);
        }
    }
    atomic_fetch_sub(&history.writing, 1);
    return NULL;
}

static void look(const struct snapshot *snapshot, uint64_t id)
{
    uint64_t number = snapshot_number(snapshot);
    bool sees = snapshot_sees(snapshot, id);
    uint64_t committed = atomic_load_explicit(&history.numbers[id], memory_order_relaxed);
    if (sees && (committed == 0 || committed > number))
        blame("a snapshot sees what was committed later", id, number);
    if (!sees && committed != 0 && committed <= number)
        blame("a snapshot misses what was committed before", id, number);
    if (atomic_load(&history.purged) > number)
        blame("purge has passed an open snapshot", id, number);
}

/* Ids around where it matters: the snapshot's edges, and what is being evicted. */
static void look_around(struct rng *rng, const struct snapshot *snapshot)
{
    uint64_t next = snapshot_next_id(history.set);
    uint64_t low = snapshot_low(snapshot);
    for (unsigned i = 0; i < 24; i++) {
        uint64_t from = i % 3 == 0 ? low : next;
        uint64_t distance = rng_below(rng, 160);
        uint64_t id = i % 2 == 0 ? from + distance : from - (distance < from ? distance : 0);
        if (id > 0 && id < IDS_MAX)
            look(snapshot, id);
    }
}

static void *read_history(void *argument)
{
    struct rng rng;
    struct snapshot *snapshot;
    rng_init(&rng, history.seed + 100 + *(const unsigned *)argument);
    if (snapshot_new(history.set, &snapshot) != FIRN_OK)
        return NULL;
    while (atomic_load(&history.writing) > 0) {
        snapshot_take(snapshot);
        /* Most are short, some outlive the whole ring. */
        unsigned looks = rng_below(&rng, 8) == 0 ? 60 : 1;
        for (unsigned i = 0; i < looks; i++) {
            look_around(&rng, snapshot);
            if (looks > 1)
                sched_yield();
        }
        if (rng_below(&rng, 2) == 0)
            snapshot_end(snapshot);
        if (rng_below(&rng, 50) == 0) {
            snapshot_free(snapshot);
            if (snapshot_new(history.set, &snapshot) != FIRN_OK)
                return NULL;
        }
    }
    snapshot_free(snapshot);
    return NULL;
}

static void *purge_history(void *argument)
{
    (void)argument;
    uint64_t last = 0;
    while (atomic_load(&history.writing) > 0) {
        uint64_t horizon = snapshot_horizon(history.set);
        if (horizon < last)
            blame("the horizon has gone back", 0, horizon);
        last = horizon;
        atomic_store(&history.purged, horizon);
        struct snapshot_oldest oldest;
        if (snapshot_oldest(history.set, &oldest) && oldest.number < horizon)
            blame("an open snapshot is older than the horizon", 0, oldest.number);
        sched_yield();
    }
    return NULL;
}

/* Two readers of one snapshot: the second has it from the first, who then goes on without it. */
static void *share_first(void *argument)
{
    (void)argument;
    for (bool again = true; again;) {
        snapshot_take(history.shared);
        again = atomic_load(&history.writing) > 0;
        pthread_barrier_wait(&history.shares);
        pthread_barrier_wait(&history.shares); /* it has been shared */
        snapshot_end(history.shared);
        pthread_barrier_wait(&history.shares);
        if (!again)
            history.shared = NULL;
        pthread_barrier_wait(&history.shares);
    }
    return NULL;
}

static void *share_second(void *argument)
{
    struct rng rng;
    struct snapshot *snapshot;
    rng_init(&rng, history.seed + 200 + *(const unsigned *)argument);
    if (snapshot_new(history.set, &snapshot) != FIRN_OK)
        return NULL;
    do {
        pthread_barrier_wait(&history.shares);
        snapshot_share(snapshot, history.shared);
        pthread_barrier_wait(&history.shares);
        for (unsigned i = 0; i < 10; i++) {
            look_around(&rng, snapshot);
            sched_yield();
        }
        pthread_barrier_wait(&history.shares);
        pthread_barrier_wait(&history.shares);
    } while (history.shared != NULL);
    snapshot_free(snapshot);
    return NULL;
}

static void run(uint64_t seed, uint32_t ring_ids)
{
    static const unsigned numbers[WRITERS + READERS] = {0, 1, 2, 3, 4, 5, 6, 7};
    pthread_t threads[WRITERS + READERS + 3];
    size_t count = 0;
    struct snapshot_options options = {.next_id = 1, .ring_ids = ring_ids};
    ASSERT_OK(snapshot_set_open(&options, &history.set));
    history.seed = seed;
    atomic_store(&history.purged, 0);
    atomic_store(&history.faults, 0);
    atomic_store(&history.writing, WRITERS);
    for (size_t i = 0; i < IDS_MAX; i++)
        atomic_store_explicit(&history.numbers[i], 0, memory_order_relaxed);
    struct snapshot *shared;
    ASSERT_OK(snapshot_new(history.set, &shared));
    history.shared = shared;
    pthread_barrier_init(&history.shares, NULL, 2);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_create(&threads[count++], NULL, write_history, (void *)&numbers[i]);
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&threads[count++], NULL, read_history, (void *)&numbers[WRITERS + i]);
    pthread_create(&threads[count++], NULL, purge_history, NULL);
    pthread_create(&threads[count++], NULL, share_first, NULL);
    pthread_create(&threads[count++], NULL, share_second, (void *)&numbers[0]);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    snapshot_free(shared);
    assert_int_equal(snapshot_horizon(history.set), snapshot_newest(history.set));
    snapshot_set_close(history.set);
    pthread_barrier_destroy(&history.shares);
    assert_int_equal(atomic_load(&history.faults), 0);
}

static void no_snapshot_sees_a_part_of_what_was_committed(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    unsigned runs = test_runs(6);
    for (unsigned i = 0; i < runs; i++)
        run(seed + i, 16U << (2 * (i % 3)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_snapshot_sees_a_part_of_what_was_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
