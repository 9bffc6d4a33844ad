/*
 * Many threads on one store with its background threads, a pool too small for the data: each
 * thread's rows are as its model says, whatever the others split, merge and evict beside it; and a
 * power cut in the middle leaves each thread's acknowledged rows.
 */
#include "store/store_world.h"

#include <pthread.h>

enum { THREADS = 4 };

struct worker {
    struct world *world;
    struct lane *lane;
    unsigned ops;
    firn_rc rc;
    const bool *stop;
};

static void *work(void *context)
{
    struct worker *worker = context;
    struct store_session *session = NULL;
    worker->rc = store_session_open(worker->world->store, &session);
    for (unsigned i = 0; worker->rc == FIRN_OK && i < worker->ops; i++) {
        worker->rc = lane_step(worker->lane, session, worker->world->tree);
        if (worker->rc == FIRN_OK && i % 5 == 0)
            worker->rc = lane_commit(worker->lane, session);
    }
    if (worker->rc == FIRN_OK)
        worker->rc = lane_commit(worker->lane, session);
    store_session_close(session);
    return NULL;
}

/** A scan beside writers: keys ascend (or descend), and each value is whole and of its key. */
static void *scan(void *context)
{
    struct worker *worker = context;
    struct btree_cursor *cursor = NULL;
    worker->rc = btree_cursor_open(store_base(worker->world->store), worker->world->tree, &cursor);
    for (unsigned round = 0; worker->rc == FIRN_OK; round++) {
        bool forward = round % 2 == 0;
        char last[1024];
        size_t last_bytes = 0;
        firn_rc rc = btree_cursor_seek(cursor, forward ? BTREE_SEEK_FIRST : BTREE_SEEK_LAST,
                                       span_of(NULL, 0));
        for (bool first = true; rc == FIRN_OK; first = false) {
            struct span key = btree_cursor_key(cursor);
            struct span value = span_of(NULL, 0);
            int order = span_compare(span_of(last, last_bytes), key);
            if (!first && (forward ? order >= 0 : order <= 0))
                fail_msg("a scan went %s", forward ? "back" : "forth");
            memcpy(last, key.bytes, key.size_bytes);
            last_bytes = key.size_bytes;
            rc = btree_cursor_value(cursor, &value);
            if (rc == FIRN_OK && value.size_bytes < 8)
                fail_msg("a scan saw half a value");
            if (rc == FIRN_OK || rc == FIRN_E_NOT_FOUND) /* a large value may be gone */
                rc = forward ? btree_cursor_next(cursor) : btree_cursor_prev(cursor);
        }
        if (rc != FIRN_E_NOT_FOUND)
            worker->rc = rc;
        if (__atomic_load_n(worker->stop, __ATOMIC_ACQUIRE))
            break;
    }
    btree_cursor_close(cursor);
    return NULL;
}

/** Run writers and a scanner until the writers are done or fail. */
static void run_threads(struct world *world, struct lane **lanes, unsigned ops,
                        struct worker workers[THREADS + 1])
{
    pthread_t threads[THREADS + 1];
    bool stop = false;
    for (unsigned i = 0; i <= THREADS; i++) {
        workers[i] = (struct worker){
            .world = world, .lane = i < THREADS ? lanes[i] : NULL, .ops = ops, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, i < THREADS ? work : scan, &workers[i]),
                         0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(threads[THREADS], NULL);
}

static void threads_agree_with_their_models(void **state)
{
    (void)state;
    uint64_t seed = test_seed(41);
    unsigned rounds = test_runs(1);
    for (unsigned round = 0; round < rounds; round++, seed++) {
        struct world world;
        world_init(&world, disk_make(), seed);
        world.options.background_threads = true;
        struct lane *lanes[THREADS];
        for (unsigned i = 0; i < THREADS; i++)
            lanes[i] = lane_make(i, seed);
        for (unsigned opening = 0; opening < 2; opening++) {
            ASSERT_OK(world_open(&world));
            struct worker workers[THREADS + 1];
            run_threads(&world, lanes, 500, workers);
            for (unsigned i = 0; i <= THREADS; i++)
                ASSERT_OK(workers[i].rc);
            const char *wrong = world_wrong(&world, lanes, THREADS);
            if (wrong != NULL)
                fail_msg("seed %llu, opening %u: %s", (unsigned long long)seed, opening, wrong);
            ASSERT_OK(store_close(world.store));
            world.store = NULL;
        }
        world_end(&world);
        sim_disk_destroy(world.disk);
        for (unsigned i = 0; i < THREADS; i++)
            free(lanes[i]);
    }
}

static void a_cut_beside_many_threads_keeps_what_each_was_told(void **state)
{
    (void)state;
    uint64_t seed = test_seed(43);
    unsigned rounds = test_runs(12);
    for (unsigned round = 0; round < rounds; round++, seed++) {
        struct rng rng;
        rng_init(&rng, seed);
        struct world world;
        world_init(&world, disk_make(), seed);
        world.options.background_threads = true;
        struct lane *lanes[THREADS];
        for (unsigned i = 0; i < THREADS; i++)
            lanes[i] = lane_make(i, seed);
        ASSERT_OK(world_open(&world));
        sim_disk_cut_after(world.disk, 1 + rng_below(&rng, 400),
                           all_cuts[rng_below(&rng, ARRAY_COUNT(all_cuts))], seed);
        struct worker workers[THREADS + 1];
        run_threads(&world, lanes, 200, workers);
        if (!sim_disk_is_cut(world.disk))
            sim_disk_cut(world.disk, SIM_CUT_TEAR, seed);
        world_count_cut(&world);
        firn_rc rc = world_recover(&world, &rng, 2);
        const char *wrong = rc != FIRN_OK ? firn_error_text() : world_wrong(&world, lanes, THREADS);
        if (wrong != NULL)
            fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
        world_end(&world);
        sim_disk_destroy(world.disk);
        for (unsigned i = 0; i < THREADS; i++)
            free(lanes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_agree_with_their_models),
        cmocka_unit_test(a_cut_beside_many_threads_keeps_what_each_was_told),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
