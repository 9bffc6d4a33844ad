/*
 * What goes wrong while a backup is taken, lies there, or is restored: power cuts at every step,
 * each request and each allocation failing, a full target, rot. The store that is backed up loses
 * nothing; what is no whole backup is never taken for one, and what is no whole environment
 * neither.
 */
#include "store/backup_world.h"

enum { SCENE_OPS = 12, SAMPLES = 12 };

/** @return how far the places where something is tried lie apart: of so many, all, or in a short
 * run some. */
static uint64_t stride_of(uint64_t places)
{
    return test_tries_all() || places < SAMPLES ? 1 : places / SAMPLES;
}

/* Back up a store that works, on a disk where something may happen. @return the first failure */
static firn_rc run_backup(struct world *world, struct lane *lane, struct io_system *target,
                          uint64_t seed)
{
    struct backup_options options;
    struct backup_info info;
    struct scene scene;
    FIRN_TRY(world_open(world));
    scene = (struct scene){.world = world, .lane = lane, .ops = SCENE_OPS, .makes_trees = true};
    rng_init(&scene.rng, seed);
    for (unsigned i = 0; i < EXTRA_TREES; i++)
        scene.extra[i] = -1;
    FIRN_TRY(store_session_open(world->store, &scene.session));
    backup_options_for(&options, target, &scene);
    firn_rc rc = store_backup(world->store, &options, &info);
    if (rc == FIRN_OK)
        rc = scene.rc;
    if (rc == FIRN_OK)
        rc = lane_commit(lane, scene.session);
    scene_end(&scene);
    return rc;
}

/** @return whether a whole backup lies on a system. */
static bool is_whole(struct io_system *system)
{
    struct backup_options options;
    struct backup_info info;
    char first[512] = "";
    backup_options_for(&options, system, NULL);
    options.progress_context = first;
    firn_rc rc = backup_verify(&options, world_problem, &info);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        fail_msg("a backup that was cut short: %s %s", firn_error_text(), first);
    return rc == FIRN_OK;
}

/* The restored state is one between what was acknowledged before the backup and what was begun. */
static const char *restored_wrong(struct sim_disk *disk, struct io_system *system,
                                  const struct lane *before, const struct lane *after)
{
    struct world restored;
    struct lane *lane = malloc(sizeof *lane);
    *lane = *after;
    lane->acked = before->acked;
    firn_rc rc = backup_restore(&restored, disk, system);
    const char *wrong = rc != FIRN_OK ? firn_error_text() : world_wrong(&restored, &lane, 1);
    if (restored.store != NULL)
        store_abandon(restored.store);
    free(lane);
    return wrong;
}

/* ---- Power cuts ---- */

static void cut_backup(const struct sim_disk *base, const struct lane *before, uint64_t step,
                       enum sim_cut cut, uint64_t seed, bool *was_cut)
{
    struct world world;
    struct rng rng;
    struct lane *lane = malloc(sizeof *lane);
    *lane = *before;
    rng_init(&rng, seed + step);
    world_init(&world, sim_disk_clone(base), seed);
    sim_disk_cut_after(world.disk, step, cut, rng_next(&rng));
    firn_rc rc = run_backup(&world, lane, world.system, seed);
    *was_cut = sim_disk_is_cut(world.disk);
    assert_true(*was_cut || rc == FIRN_OK);
    /* When all is done, what was not made durable goes. */
    sim_disk_cut_after(world.disk, 0, cut, 0);
    sim_disk_cut(world.disk, cut, rng_next(&rng));
    world_count_cut(&world);
    struct lane *after = malloc(sizeof *after);
    *after = *lane;
    const char *wrong = NULL;
    if (world_recover(&world, &rng, 2) != FIRN_OK)
        wrong = firn_error_text();
    if (wrong == NULL)
        wrong = world_wrong(&world, &lane, 1);
    bool whole = is_whole(world.system);
    if (wrong == NULL && whole)
        wrong = restored_wrong(world.disk, world.system, before, after);
    if (wrong != NULL)
        fail_msg("cut %s at step %llu, seed %llu, %s backup: %s", cut_name(cut),
                 (unsigned long long)step, (unsigned long long)seed, whole ? "a whole" : "no",
                 wrong);
    assert_true(*was_cut || whole);
    world_end(&world);
    sim_disk_destroy(world.disk);
    free(after);
    free(lane);
}

static void no_cut_while_a_backup_is_taken_harms_the_store_or_fakes_a_backup(void **state)
{
    (void)state;
    uint64_t seed = test_seed(81);
    unsigned stride = test_tries_all() ? 1 : 4;
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = backup_disk(lane, seed, false);
    bool was_cut = true;
    for (uint64_t step = 1 + seed % stride; was_cut; step += stride)
        for (unsigned i = 0; i < ARRAY_COUNT(all_cuts) && was_cut; i++)
            if (test_tries_all() || i == step / stride % ARRAY_COUNT(all_cuts))
                cut_backup(base, lane, step, all_cuts[i], seed, &was_cut);
    sim_disk_destroy(base);
    free(lane);
}

/** A disk with a backup and nothing else, and what it restores to. */
static struct sim_disk *disk_with_backup(struct lane *lane, uint64_t seed)
{
    struct world world;
    struct sim_disk *target = disk_make();
    struct io_system *system = disk_open(target, seed);
    struct sim_disk *base = backup_disk(lane, seed, false);
    world_init(&world, base, seed);
    ASSERT_OK(run_backup(&world, lane, system, seed));
    world_end(&world);
    io_system_close(system);
    sim_disk_destroy(base);
    return target;
}

static bool is_environment(struct io_system *system)
{
    return file_size(system, RESTORE_DIR "/firn.env") >= 0;
}

/* What a restore that did not end left is an environment that is whole, or none and the next one
 * makes it. */
static const char *left_wrong(struct sim_disk *disk, struct world *restored,
                              const struct lane *lane, bool must_be)
{
    struct io_system *system = disk_open(disk, 2);
    const char *wrong = NULL;
    if (!is_environment(system) && must_be) {
        wrong = "what had been restored is gone";
    } else if (!is_environment(system)) {
        wrong = restored_wrong(disk, system, lane, lane);
    } else {
        struct lane *judged = malloc(sizeof *judged);
        *judged = *lane;
        for (int class = 0; class < IO_CLASS_COUNT; class ++)
            restored->options.class_systems[class] = system;
        restored->system = system;
        firn_rc rc = store_open(&restored->options, &restored->store, NULL);
        if (rc == FIRN_OK)
            rc = store_tree(restored->store, "t", 0, &restored->tree);
        wrong = rc != FIRN_OK ? firn_error_text() : world_wrong(restored, &judged, 1);
        if (rc == FIRN_OK)
            store_abandon(restored->store);
        free(judged);
    }
    io_system_close(system);
    return wrong;
}

static bool cut_restore(const struct sim_disk *base, const struct lane *lane, uint64_t step,
                        enum sim_cut cut, uint64_t seed)
{
    struct world restored;
    struct sim_disk *disk = sim_disk_clone(base);
    struct io_system *system = disk_open(disk, seed);
    sim_disk_cut_after(disk, step, cut, seed + step);
    firn_rc rc = backup_restore(&restored, disk, system);
    bool was_cut = sim_disk_is_cut(disk);
    assert_true(was_cut || rc == FIRN_OK);
    sim_disk_cut_after(disk, 0, cut, 0);
    sim_disk_cut(disk, cut, seed);
    test_count(TEST_CUTS, 1);
    if (restored.store != NULL)
        store_abandon(restored.store);
    io_system_close(system);
    sim_disk_restore(disk);
    const char *wrong = left_wrong(disk, &restored, lane, !was_cut);
    if (wrong != NULL)
        fail_msg("cut %s at step %llu: %s", cut_name(cut), (unsigned long long)step, wrong);
    sim_disk_destroy(disk);
    return was_cut;
}

/** @return steps that a restore takes. */
static uint64_t restore_steps(const struct sim_disk *base)
{
    struct world restored;
    struct sim_disk *disk = sim_disk_clone(base);
    struct io_system *system = disk_open(disk, 1);
    uint64_t first = sim_disk_steps(disk);
    ASSERT_OK(backup_restore(&restored, disk, system));
    uint64_t steps = sim_disk_steps(disk) - first;
    store_abandon(restored.store);
    io_system_close(system);
    sim_disk_destroy(disk);
    return steps;
}

static void no_cut_while_a_backup_is_restored_leaves_half_an_environment(void **state)
{
    (void)state;
    uint64_t seed = test_seed(82);
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = disk_with_backup(lane, seed);
    uint64_t stride = stride_of(restore_steps(base));
    bool was_cut = true;
    for (uint64_t step = 1 + seed % stride; was_cut; step += stride)
        for (unsigned i = 0; i < ARRAY_COUNT(all_cuts) && was_cut; i++)
            if (test_tries_all() || i == step / stride % ARRAY_COUNT(all_cuts))
                was_cut = cut_restore(base, lane, step, all_cuts[i], seed);
    sim_disk_destroy(base);
    free(lane);
}

/* ---- Requests that fail ---- */

static void finish(struct world *world, struct lane *lane)
{
    world_end(world);
    world_power_on(world, 1);
    ASSERT_OK(world_open(world));
    const char *wrong = world_wrong(world, &lane, 1);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    world_end(world);
}

/* @param seen  set to how many requests there were @return whether there was one to fail */
static bool fail_backup(const struct sim_disk *base, const struct lane *before,
                        struct fault_plan plan, bool at_target, uint64_t *seen)
{
    struct world world;
    struct lane *lane = malloc(sizeof *lane);
    *lane = *before;
    struct sim_disk *disk = disk_make();
    struct io_system *target = disk_open(disk, 1);
    struct fault_injector *faults;
    ASSERT_OK(fault_attach(target, 1, &faults));
    world_init(&world, sim_disk_clone(base), 1);
    if (!at_target)
        faults = world.faults;
    fault_set_plans(faults, &plan, 1);
    firn_rc rc = run_backup(&world, lane, target, 1);
    bool was_hit = fault_hits(faults) > 0;
    *seen = fault_seen(faults, plan.targets);
    fault_set_plans(faults, NULL, 0);
    if (rc != FIRN_OK)
        assert_true(strlen(firn_error_text()) > 10);
    assert_true(was_hit || rc == FIRN_OK);
    /* A failure that was gone round is none; but then the backup is one. */
    if (is_whole(target)) {
        const char *wrong = restored_wrong(disk, target, before, lane);
        if (wrong != NULL)
            fail_msg("request %llu: %s", (unsigned long long)plan.first, wrong);
    } else {
        assert_int_not_equal(rc, FIRN_OK);
    }
    finish(&world, lane);
    sim_disk_destroy(world.disk);
    io_system_close(target);
    sim_disk_destroy(disk);
    free(lane);
    return was_hit;
}

static void fail_each_request(bool at_target, unsigned targets, int error, uint64_t seed)
{
    uint64_t seen;
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = backup_disk(lane, seed, false);
    struct fault_plan plan = {
        .kind = FAULT_ERROR, .targets = targets, .first = UINT64_MAX, .error = error};
    assert_false(fail_backup(base, lane, plan, at_target, &seen));
    uint64_t stride = stride_of(seen);
    plan.first = 1 + seed % stride;
    while (fail_backup(base, lane, plan, at_target, &seen))
        plan.first += stride;
    sim_disk_destroy(base);
    free(lane);
}

static void each_request_to_the_target_may_fail(void **state)
{
    (void)state;
    fail_each_request(true, FAULT_ALL, EIO, test_seed(83));
    fail_each_request(true, FAULT_WRITES | FAULT_METADATA, ENOSPC, test_seed(84));
}

static void each_request_to_the_store_may_fail(void **state)
{
    (void)state;
    fail_each_request(false, FAULT_ALL, EIO, test_seed(85));
}

static bool fail_restore(const struct sim_disk *base, const struct lane *lane,
                         struct fault_plan plan, uint64_t *seen)
{
    struct world restored;
    struct fault_injector *faults;
    struct sim_disk *disk = sim_disk_clone(base);
    struct io_system *system = disk_open(disk, 1);
    ASSERT_OK(fault_attach(system, 1, &faults));
    fault_set_plans(faults, &plan, 1);
    firn_rc rc = backup_restore(&restored, disk, system);
    bool was_hit = fault_hits(faults) > 0;
    *seen = fault_seen(faults, plan.targets);
    if (restored.store != NULL)
        store_abandon(restored.store);
    assert_true(was_hit || rc == FIRN_OK);
    io_system_close(system);
    const char *wrong = left_wrong(disk, &restored, lane, rc == FIRN_OK);
    if (wrong != NULL)
        fail_msg("request %llu: %s", (unsigned long long)plan.first, wrong);
    sim_disk_destroy(disk);
    return was_hit;
}

static void each_request_of_a_restore_may_fail(void **state)
{
    (void)state;
    uint64_t seen;
    uint64_t seed = test_seed(86);
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = disk_with_backup(lane, seed);
    struct fault_plan plan = {
        .kind = FAULT_ERROR, .targets = FAULT_ALL, .first = UINT64_MAX, .error = EIO};
    assert_false(fail_restore(base, lane, plan, &seen));
    uint64_t stride = stride_of(seen);
    plan.first = 1 + seed % stride;
    while (fail_restore(base, lane, plan, &seen))
        plan.first += stride;
    sim_disk_destroy(base);
    free(lane);
}

static void a_full_target_gets_its_room_back(void **state)
{
    (void)state;
    uint64_t seed = test_seed(87);
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = backup_disk(lane, seed, false);
    for (uint64_t capacity = 64 << 10;; capacity += 96 << 10) {
        struct world world;
        struct lane *used = malloc(sizeof *used);
        *used = *lane;
        struct sim_disk *disk = disk_make();
        struct io_system *target = disk_open(disk, 1);
        sim_disk_set_capacity(disk, capacity);
        world_init(&world, sim_disk_clone(base), seed);
        firn_rc rc = run_backup(&world, used, target, seed);
        if (rc != FIRN_OK) {
            assert_int_equal(rc, FIRN_E_NOSPACE);
            assert_int_equal(file_size(target, BACKUP_DIR "/t.firn"), -1);
            assert_int_equal(file_size(target, BACKUP_DIR "/system.firn"), -1);
            assert_false(is_whole(target));
        }
        finish(&world, used);
        sim_disk_destroy(world.disk);
        io_system_close(target);
        sim_disk_destroy(disk);
        free(used);
        if (rc == FIRN_OK) {
            assert_true(capacity > 256 << 10);
            break;
        }
    }
    sim_disk_destroy(base);
    free(lane);
}

/* ---- Memory ---- */

static void each_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t seed = test_seed(88);
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = backup_disk(lane, seed, false);
    struct sim_disk *disk = disk_make();
    struct io_system *target = disk_open(disk, 1);
    struct world world;
    struct backup_options options;
    struct backup_info info;
    struct recovery_result result;
    world_init(&world, base, seed);
    ASSERT_OK(world_open(&world));
    backup_options_for(&options, target, NULL);
    firn_rc rc = FIRN_E_NOMEM;
    long k = 0;
    for (; rc != FIRN_OK; k++) {
        memory_fail_after(k);
        rc = store_backup(world.store, &options, &info);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        assert_int_equal(is_whole(target), rc == FIRN_OK);
        /* What could not be removed without memory is in the way of the next one. */
        if (rc != FIRN_OK) {
            io_system_close(target);
            sim_disk_destroy(disk);
            disk = disk_make();
            target = disk_open(disk, 1);
            options.system = target;
        }
    }
    assert_true(k > 15);
    struct store_options restored = world.options;
    restored.directory = RESTORE_DIR;
    for (int class = 0; class < IO_CLASS_COUNT; class ++)
        restored.class_systems[class] = target;
    rc = FIRN_E_NOMEM;
    for (k = 0; rc != FIRN_OK && rc != FIRN_E_EXISTS; k += 1 + k / 40) {
        memory_fail_after(k);
        rc = store_restore(&options, &restored, &info, &result);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM || rc == FIRN_E_EXISTS);
    }
    assert_true(k > 30);
    ASSERT_OK(store_close(world.store));
    world.store = NULL;
    world_end(&world);
    io_system_close(target);
    sim_disk_destroy(base);
    sim_disk_destroy(disk);
    free(lane);
}

/* ---- Rot ---- */

struct file_list {
    char names[16][64];
    unsigned count;
};

static firn_rc note_name(const char *name, void *context)
{
    struct file_list *list = context;
    if (strcmp(name, "firn.lock") != 0)
        snprintf(list->names[list->count++], sizeof list->names[0], "%s", name);
    return FIRN_OK;
}

static firn_rc verify_quietly(struct io_system *system)
{
    struct backup_options options;
    struct backup_info info;
    char first[512] = "";
    backup_options_for(&options, system, NULL);
    options.progress_context = first;
    return backup_verify(&options, world_problem, &info);
}

static firn_rc try_restore(struct io_system *system)
{
    struct backup_options options;
    struct backup_info info;
    struct recovery_result result;
    struct store_options store;
    world_options(&store);
    store.directory = RESTORE_DIR;
    for (int class = 0; class < IO_CLASS_COUNT; class ++)
        store.class_systems[class] = system;
    backup_options_for(&options, system, NULL);
    return store_restore(&options, &store, &info, &result);
}

/* Each byte of what says what the backup is, and a byte in each stretch of the rest. */
static void each_byte_that_rots_is_found_and_nothing_restored(void **state)
{
    (void)state;
    uint64_t seed = test_seed(89);
    unsigned tried = 0;
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *disk = disk_with_backup(lane, seed);
    struct io_system *system = disk_open(disk, 1);
    struct file_list list = {.count = 0};
    ASSERT_OK(io_list(system, BACKUP_DIR, note_name, &list));
    assert_true(list.count >= 5);
    for (unsigned i = 0; i < list.count; i++) {
        char path[128];
        snprintf(path, sizeof path, BACKUP_DIR "/%s", list.names[i]);
        uint64_t size = (uint64_t)file_size(system, path);
        bool is_small = size < 4096;
        uint64_t stride = is_small ? 1 : test_tries_all() ? 97 : 8111;
        for (uint64_t at = is_small ? 0 : seed % stride; at < size; at += stride, tried++) {
            ASSERT_OK(sim_disk_rot(disk, path, at, 0x20));
            firn_rc rc = verify_quietly(system);
            if (rc != FIRN_E_CORRUPT && rc != FIRN_E_UNSUPPORTED)
                fail_msg("byte %llu of %s: verifying returned %d", (unsigned long long)at, path,
                         rc);
            if (tried % 16 == 0) {
                rc = try_restore(system);
                assert_true(rc == FIRN_E_CORRUPT || rc == FIRN_E_UNSUPPORTED);
                assert_int_equal(file_size(system, RESTORE_DIR "/firn.env.new"), -1);
            }
            ASSERT_OK(sim_disk_rot(disk, path, at, 0x20));
        }
        /* And one that is shorter, longer or away. */
        struct io_file *file = file_open(system, path, 0);
        ASSERT_OK(io_file_set_size(file, size + 1));
        assert_int_equal(verify_quietly(system), FIRN_E_CORRUPT);
        ASSERT_OK(io_file_set_size(file, size));
        ASSERT_OK(io_file_close(file));
        ASSERT_OK(io_rename(system, path, "away"));
        assert_int_not_equal(verify_quietly(system), FIRN_OK);
        ASSERT_OK(io_rename(system, "away", path));
    }
    ASSERT_OK(verify_quietly(system));
    print_message("# %u bytes\n", tried);
    io_system_close(system);
    sim_disk_destroy(disk);
    free(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_cut_while_a_backup_is_taken_harms_the_store_or_fakes_a_backup),
        cmocka_unit_test(no_cut_while_a_backup_is_restored_leaves_half_an_environment),
        cmocka_unit_test(each_request_to_the_target_may_fail),
        cmocka_unit_test(each_request_to_the_store_may_fail),
        cmocka_unit_test(each_request_of_a_restore_may_fail),
        cmocka_unit_test(a_full_target_gets_its_room_back),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(each_byte_that_rots_is_found_and_nothing_restored),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
