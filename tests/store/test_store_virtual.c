/*
 * A store on a modelled device in virtual time. One thread takes the same time in each run with the
 * same seed. Of several that work at one instant the kernel chooses who comes first, so how long
 * they take is not promised; that they come to an end is, and what they leave.
 */
#include "store/store_world.h"

#include "io/model.h"

#include <pthread.h>

enum { THREADS = 4, OPS = 250 };

static struct clock *world_time;

struct worker {
    pthread_t thread;
    struct world *world;
    struct lane *lane;
    firn_rc rc;
};

/* A world whose disk takes a device's time. This thread has joined. */
static void open_world(struct world *world, const char *model, bool background_threads,
                       uint64_t seed)
{
    struct model_spec spec;
    *world = (struct world){.disk = disk_make()};
    world_options(&world->options);
    world->options.background_threads = background_threads;
    ASSERT_OK(clock_open_virtual(&world_time));
    clock_join(world_time);
    ASSERT_OK(sim_disk_open_system(world->disk, world_time, seed, &world->system));
    ASSERT_OK(model_find(model, &spec));
    ASSERT_OK(model_attach(world->system, &spec));
    for (int class = 0; class < IO_CLASS_COUNT; class ++)
        world->options.class_systems[class] = world->system;
    ASSERT_OK(world_open(world));
}

static void close_world(struct world *world)
{
    clock_leave(world_time); /* closing waits for threads that wait for time to pass */
    ASSERT_OK(store_close(world->store));
    world->store = NULL;
    world_end(world);
    sim_disk_destroy(world->disk);
    clock_close(world_time);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct store_session *session = NULL;
    clock_wait_until(world_time, clock_now(world_time) + 1);
    worker->rc = store_session_open(worker->world->store, &session);
    for (unsigned i = 0; worker->rc == FIRN_OK && i < OPS; i++) {
        worker->rc = lane_step(worker->lane, session, worker->world->tree);
        if (worker->rc == FIRN_OK && i % 5 == 0)
            worker->rc = lane_commit(worker->lane, session);
    }
    if (worker->rc == FIRN_OK)
        worker->rc = lane_commit(worker->lane, session);
    store_session_close(session);
    clock_leave(world_time);
    return NULL;
}

/* Let threads work, each on its lane, and judge. @return how long it took, in virtual ns */
static uint64_t run(const char *model, unsigned threads, bool background_threads, uint64_t seed)
{
    struct world world;
    struct worker workers[THREADS];
    struct lane *lanes[THREADS];
    open_world(&world, model, background_threads, seed);
    for (unsigned i = 0; i < threads; i++)
        clock_join(world_time); /* for the threads, so that time waits for all to start */
    for (unsigned i = 0; i < threads; i++) {
        lanes[i] = lane_make(i, seed);
        workers[i] = (struct worker){.world = &world, .lane = lanes[i]};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    clock_leave(world_time);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        ASSERT_OK(workers[i].rc);
    }
    uint64_t took_ns = clock_now(world_time);
    clock_join(world_time);
    const char *wrong = world_wrong(&world, lanes, threads);
    if (wrong != NULL)
        fail_msg("%s, %u threads, seed %llu: %s", model, threads, (unsigned long long)seed, wrong);
    close_world(&world);
    for (unsigned i = 0; i < threads; i++)
        free(lanes[i]);
    return took_ns;
}

static const char *const models[] = {"hdd-15k", "ssd-sata", "nvme"};

static void many_threads_on_a_modelled_device_come_to_an_end(void **state)
{
    (void)state;
    uint64_t seed = test_seed(61);
    unsigned rounds = test_runs(1);
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned i = 0; i < ARRAY_COUNT(models); i++)
            assert_true(run(models[i], THREADS, false, seed + round) > NS_PER_MS);
}

static void so_they_do_beside_the_threads_of_the_store(void **state)
{
    (void)state;
    uint64_t seed = test_seed(62);
    unsigned rounds = test_runs(1);
    for (unsigned round = 0; round < rounds; round++)
        assert_true(run(models[round % ARRAY_COUNT(models)], THREADS, true, seed + round) >
                    NS_PER_MS);
}

static void one_thread_takes_the_same_time_for_the_same_seed(void **state)
{
    (void)state;
    uint64_t seed = test_seed(63);
    for (unsigned i = 0; i < ARRAY_COUNT(models); i++) {
        uint64_t took_ns = run(models[i], 1, false, seed);
        assert_int_equal(run(models[i], 1, false, seed), took_ns);
        assert_int_not_equal(run(models[i], 1, false, seed + 1), took_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_on_a_modelled_device_come_to_an_end),
        cmocka_unit_test(so_they_do_beside_the_threads_of_the_store),
        cmocka_unit_test(one_thread_takes_the_same_time_for_the_same_seed),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
