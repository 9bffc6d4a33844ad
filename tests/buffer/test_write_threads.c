/*
 * Threads change pages while the cleaner, flushes and checkpoints go on: nothing is lost, what is
 * below buffer_clean_lsn is in the files, and nobody waits for ever.
 */
#include "buffer/write_fixture.h"

enum { THREADS = 4, CHANGES = 1500 };

/* In threads that cmocka does not know a failure ends the process. */
static void must(firn_rc rc)
{
    if (rc != FIRN_OK)
        fprintf(stderr, "%s\n", firn_error_text());
    ENSURE(rc == FIRN_OK);
}

struct worker {
    pthread_t thread;
    struct world *world;
    uint64_t seed;
    _Atomic bool *stop;
};

/* Change pages; wait for room in the log as redo_reserve does. */
static void *change_pages(void *context)
{
    struct worker *worker = context;
    struct world *world = worker->world;
    struct rng rng;
    rng_init(&rng, worker->seed);
    for (unsigned i = 0; i < CHANGES; i++) {
        while (redo_age_bytes(world->redo) > redo_capacity_bytes(world->redo))
            must(buffer_clean(world->pool));
        must(world_change(world, world_random_change(&rng)));
    }
    return NULL;
}

static void *flush_pages(void *context)
{
    struct worker *worker = context;
    struct world *world = worker->world;
    struct rng rng;
    rng_init(&rng, worker->seed);
    while (!atomic_load(worker->stop)) {
        uint64_t reserved_lsn = redo_reserved_lsn(world->redo);
        uint64_t target_lsn = reserved_lsn - rng_below(&rng, reserved_lsn - REDO_FIRST_LSN);
        switch (rng_below(&rng, 4)) {
        case 0:
            must(buffer_flush(world->pool, target_lsn));
            ENSURE(buffer_clean_lsn(world->pool) >= target_lsn);
            break;
        case 1:
            must(buffer_flush_space(world->pool, (uint32_t)rng_below(&rng, WORLD_SPACES)));
            break;
        case 2:
            must(buffer_clean(world->pool));
            break;
        default:
            must(redo_checkpoint(world->redo, buffer_clean_lsn(world->pool)));
            break;
        }
    }
    return NULL;
}

static void run_workers(struct world *world, uint64_t seed)
{
    struct worker workers[THREADS];
    _Atomic bool stop = false;
    struct worker flusher = {.world = world, .seed = seed + THREADS, .stop = &stop};
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.world = world, .seed = seed + i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, change_pages, &workers[i]), 0);
    }
    assert_int_equal(pthread_create(&flusher.thread, NULL, flush_pages, &flusher), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    atomic_store(&stop, true);
    pthread_join(flusher.thread, NULL);
}

static void try_threads(bool cleaner_thread, uint64_t seed)
{
    struct sim_disk *disk = world_disk();
    struct buffer_options options = world_options();
    struct redo redo;
    struct world world;
    struct buffer_counters counters = {0};
    options.cleaner_thread = cleaner_thread;
    fake_redo_init(&redo);
    redo.capacity_bytes = 64 << 10;
    ASSERT_OK(world_open(&world, disk, &redo, options));
    ASSERT_OK(world_make_pages(&world));
    run_workers(&world, seed);
    assert_true(world_is_right(&world));
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    assert_true(buffer_clean_lsn(world.pool) == redo_reserved_lsn(&redo));
    buffer_writer_counters(world.pool, &counters);
    assert_int_equal(counters.pages_dirty, 0);
    assert_true(counters.pages_written > 0 && counters.flush_batches > 0);
    assert_true(counters.doublewrite_pages > 0);
    assert_true(counters.doublewrite_pages < counters.pages_written); /* some had just been made */
    world_close(&world);
    sim_disk_cut(disk, SIM_CUT_DROP, seed);
    sim_disk_restore(disk);
    assert_true(disk_is_right(disk, &redo));
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_changes_beside_the_cleaners_thread_are_not_lost(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++)
        try_threads(true, seed + run);
}

static void test_changes_beside_cleaning_in_the_foreground_are_not_lost(void **state)
{
    (void)state;
    uint64_t seed = test_seed(2);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++)
        try_threads(false, seed + run);
}

/* At moments that others choose the power goes: what the log says that is durable is there. */
static void test_a_cut_beside_threads_is_survived(void **state)
{
    (void)state;
    uint64_t seed = test_seed(3);
    for (unsigned run = 0, runs = test_runs(8); run < runs; run++) {
        struct sim_disk *disk = world_disk();
        struct buffer_options options = world_options();
        struct redo redo;
        struct world world;
        options.cleaner_thread = true;
        fake_redo_init(&redo);
        redo.capacity_bytes = 16 << 10;
        ASSERT_OK(world_open(&world, disk, &redo, options));
        ASSERT_OK(world_make_pages(&world));
        sim_disk_cut_after(disk, 1 + (seed + run) * 7 % 200, SIM_CUT_TEAR, seed + run);
        struct rng rng;
        rng_init(&rng, seed + run);
        firn_rc rc = FIRN_OK;
        for (unsigned i = 0; i < 2 * CHANGES && rc == FIRN_OK; i++) {
            if (redo_age_bytes(&redo) > redo_capacity_bytes(&redo))
                rc = buffer_clean(world.pool);
            if (rc == FIRN_OK)
                rc = world_change(&world, world_random_change(&rng));
        }
        sim_disk_cut(disk, SIM_CUT_TEAR, seed + run);
        test_count(TEST_CUTS, 1);
        world_close(&world);
        assert_true(world_survives(disk, &redo, world_options()));
        fake_redo_free(&redo);
        sim_disk_destroy(disk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_beside_the_cleaners_thread_are_not_lost),
        cmocka_unit_test(test_changes_beside_cleaning_in_the_foreground_are_not_lost),
        cmocka_unit_test(test_a_cut_beside_threads_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
