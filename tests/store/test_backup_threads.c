/*
 * Backups beside threads that write: real ones, and in virtual time, where it is seen whether
 * anybody waits.
 */
#include "store/backup_world.h"

#include "io/model.h"

#include <pthread.h>

enum { WRITERS = 3 };

struct writer {
    pthread_t thread;
    struct world *world;
    struct lane *lane;
    struct clock *clock; /* NULL: real time */
    atomic_bool *stop;
    atomic_uint acked;
    uint64_t longest_ns; /* of an operation with its commit */
    firn_rc rc;
};

static firn_rc write_once(struct writer *writer, struct store_session *session)
{
    FIRN_TRY(lane_step(writer->lane, session, writer->world->tree));
    if (writer->lane->begun % 3 != 0)
        return FIRN_OK;
    FIRN_TRY(lane_commit(writer->lane, session));
    atomic_store(&writer->acked, writer->lane->acked);
    return FIRN_OK;
}

static void *write_on(void *context)
{
    struct writer *writer = context;
    struct store_session *session;
    if (writer->clock != NULL)
        clock_wait_until(writer->clock, clock_now(writer->clock) + 1);
    writer->rc = store_session_open(writer->world->store, &session);
    while (writer->rc == FIRN_OK && !atomic_load(writer->stop) &&
           writer->lane->begun < LANE_OPS_MAX - 1) {
        uint64_t began_ns = writer->clock != NULL ? clock_now(writer->clock) : 0;
        writer->rc = write_once(writer, session);
        if (writer->clock == NULL)
            continue;
        uint64_t now_ns = clock_now(writer->clock);
        if (now_ns - began_ns > writer->longest_ns)
            writer->longest_ns = now_ns - began_ns;
        if (writer->lane->begun % 40 == 0 && writer->rc == FIRN_OK)
            writer->rc = store_tick(writer->world->store);
        clock_wait_until(writer->clock, now_ns + 500 * NS_PER_US);
    }
    store_session_close(session);
    if (writer->clock != NULL)
        clock_leave(writer->clock);
    return NULL;
}

static void writers_start(struct writer *writers, struct world *world, struct clock *clock,
                          atomic_bool *stop, uint64_t seed)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){
            .world = world, .lane = lane_make(i, seed), .clock = clock, .stop = stop};
        if (clock != NULL)
            clock_join(clock);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]), 0);
}

static void writers_join(struct writer *writers)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        ASSERT_OK(writers[i].rc);
    }
}

/* ---- Real threads ---- */

struct watch {
    struct writer *writers;
    unsigned acked[WRITERS]; /* when progress was told last */
};

static void note_acked(const struct recovery_progress *progress, void *context)
{
    struct watch *watch = context;
    (void)progress;
    for (unsigned i = 0; i < WRITERS; i++)
        watch->acked[i] = atomic_load(&watch->writers[i].acked);
}

static void judge(struct sim_disk *disk, struct io_system *system, struct writer *writers,
                  const unsigned *acked, uint64_t seed)
{
    struct world restored;
    struct lane *lanes[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        lanes[i] = malloc(sizeof *lanes[i]);
        *lanes[i] = *writers[i].lane;
        lanes[i]->acked = acked[i];
    }
    firn_rc rc = backup_restore(&restored, disk, system);
    const char *wrong = rc != FIRN_OK ? firn_error_text() : world_wrong(&restored, lanes, WRITERS);
    if (wrong != NULL)
        fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
    ASSERT_OK(store_close(restored.store));
    for (unsigned i = 0; i < WRITERS; i++)
        free(lanes[i]);
}

static void threads_write_while_threads_copy(void **state)
{
    (void)state;
    uint64_t seed = test_seed(91);
    unsigned rounds = test_runs(3);
    for (unsigned round = 0; round < rounds; round++, seed++) {
        struct world world;
        struct writer writers[WRITERS];
        struct watch watch = {.writers = writers};
        struct backup_options options;
        struct backup_info info;
        atomic_bool stop = false;
        world_init(&world, disk_make(), seed);
        world.options.background_threads = true;
        world.options.log_file_size_bytes = 32 << 20;
        ASSERT_OK(world_open(&world));
        ASSERT_OK(world_fill(&world));
        writers_start(writers, &world, NULL, &stop, seed);
        while (atomic_load(&writers[0].acked) < 100)
            sched_yield();
        backup_options_for(&options, world.system, NULL);
        options.threads = 3;
        options.progress = note_acked;
        options.progress_context = &watch;
        ASSERT_OK(store_backup(world.store, &options, &info));
        atomic_store(&stop, true);
        writers_join(writers);
        judge(world.disk, world.system, writers, watch.acked, seed);
        for (unsigned i = 0; i < WRITERS; i++)
            free(writers[i].lane);
        ASSERT_OK(store_close(world.store));
        world.store = NULL;
        world_end(&world);
        sim_disk_destroy(world.disk);
    }
}

/* ---- Virtual time ---- */

static uint64_t longest(const struct writer *writers)
{
    uint64_t longest_ns = 0;
    for (unsigned i = 0; i < WRITERS; i++)
        if (writers[i].longest_ns > longest_ns)
            longest_ns = writers[i].longest_ns;
    return longest_ns;
}

struct virtual_run {
    uint64_t longest_ns; /* that a writer waited */
    uint64_t backup_ns;
    unsigned commits;
};

/* Writers on a device that takes no time, so that a wait is for somebody; a backup to one that
   takes much. This thread has joined the clock. */
static struct virtual_run run_virtual(unsigned copiers, uint64_t throttle_bytes_s, uint64_t seed)
{
    struct world world = {.disk = disk_make()};
    struct sim_disk *disk = disk_make();
    struct io_system *target;
    struct clock *clock;
    struct model_spec spec;
    struct writer writers[WRITERS];
    struct watch watch = {.writers = writers};
    struct backup_options options;
    struct backup_info info;
    struct virtual_run result;
    atomic_bool stop = false;
    world_options(&world.options);
    ASSERT_OK(clock_open_virtual(&clock));
    clock_join(clock);
    ASSERT_OK(sim_disk_open_system(world.disk, clock, seed, &world.system));
    ASSERT_OK(sim_disk_open_system(disk, clock, seed, &target));
    ASSERT_OK(model_find("hdd-7200", &spec));
    ASSERT_OK(model_attach(target, &spec));
    for (int class = 0; class < IO_CLASS_COUNT; class ++)
        world.options.class_systems[class] = world.system;
    ASSERT_OK(world_open(&world));
    ASSERT_OK(world_fill(&world));
    writers_start(writers, &world, clock, &stop, seed);
    backup_options_for(&options, target, NULL);
    options.threads = copiers;
    options.throttle_bytes_s = throttle_bytes_s;
    options.progress = note_acked;
    options.progress_context = &watch;
    uint64_t began_ns = clock_now(clock);
    if (copiers > 0)
        ASSERT_OK(store_backup(world.store, &options, &info));
    else
        clock_wait_until(clock, began_ns + NS_PER_S);
    result.backup_ns = clock_now(clock) - began_ns;
    atomic_store(&stop, true);
    clock_leave(clock);
    writers_join(writers);
    clock_join(clock);
    result.longest_ns = longest(writers);
    result.commits = 0;
    for (unsigned i = 0; i < WRITERS; i++)
        result.commits += writers[i].lane->acked;
    clock_leave(clock);
    ASSERT_OK(store_close(world.store));
    world.store = NULL;
    if (copiers > 0)
        judge(disk, target, writers, watch.acked, seed);
    for (unsigned i = 0; i < WRITERS; i++)
        free(writers[i].lane);
    world_end(&world);
    io_system_close(target);
    sim_disk_destroy(world.disk);
    sim_disk_destroy(disk);
    clock_close(clock);
    return result;
}

static void nobody_waits_for_a_slow_target(void **state)
{
    (void)state;
    uint64_t seed = test_seed(92);
    struct virtual_run without = run_virtual(0, 0, seed);
    static const unsigned copiers[] = {1, 3};
    for (unsigned i = 0; i < ARRAY_COUNT(copiers); i++) {
        struct virtual_run with = run_virtual(copiers[i], 0, seed);
        print_message("# longest wait %llu ns without, %llu with a backup of %llu ms, %u commits\n",
                      (unsigned long long)without.longest_ns, (unsigned long long)with.longest_ns,
                      (unsigned long long)(with.backup_ns / NS_PER_MS), with.commits);
        assert_true(with.backup_ns > 50 * NS_PER_MS);
        assert_true(with.commits > 20);
        assert_true(with.longest_ns <= without.longest_ns);
    }
}

static void a_throttled_backup_takes_its_time(void **state)
{
    (void)state;
    uint64_t seed = test_seed(93);
    struct virtual_run run = run_virtual(2, 4000000, seed);
    print_message("# %llu ms\n", (unsigned long long)(run.backup_ns / NS_PER_MS));
    assert_true(run.backup_ns > 700 * NS_PER_MS);
    assert_int_equal(run.longest_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_write_while_threads_copy),
        cmocka_unit_test(nobody_waits_for_a_slow_target),
        cmocka_unit_test(a_throttled_backup_takes_its_time),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
