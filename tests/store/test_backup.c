/*
 * Backups of a store that goes on working: what they restore to is the state at their end, exactly.
 */
#include "store/backup_world.h"

#include <pthread.h>

/** A store that is open, on a disk, with a lane. */
struct stage {
    struct lane *lane;
    struct world world;
    struct scene scene;
};

static void stage_open(struct stage *stage, uint64_t seed, bool filled)
{
    stage->lane = lane_make(0, seed);
    struct sim_disk *disk = backup_disk(stage->lane, seed, filled);
    world_init(&stage->world, disk, seed);
    ASSERT_OK(world_open(&stage->world));
    scene_begin(&stage->scene, &stage->world, stage->lane, seed);
}

static void stage_close(struct stage *stage)
{
    scene_end(&stage->scene);
    ASSERT_OK(store_close(stage->world.store));
    stage->world.store = NULL;
    world_end(&stage->world);
    sim_disk_destroy(stage->world.disk);
    free(stage->lane);
}

/* Judge what was restored against the lane as it was at the backup's end; all of it was begun, and
   the backup acknowledged it. */
static void judge(struct stage *stage, const struct lane *at_end, const char *what)
{
    struct world restored;
    struct lane *lane = malloc(sizeof *lane);
    *lane = *at_end;
    lane->acked = lane->begun;
    firn_rc rc = backup_restore(&restored, stage->world.disk, stage->world.system);
    const char *wrong = rc != FIRN_OK ? firn_error_text() : world_wrong(&restored, &lane, 1);
    if (wrong == NULL)
        wrong = extra_wrong(&restored, &stage->scene);
    if (wrong != NULL)
        fail_msg("%s: %s", what, wrong);
    ASSERT_OK(store_close(restored.store));
    free(lane);
}

static void back_up(struct stage *stage, struct backup_info *info)
{
    struct backup_options options;
    backup_options_for(&options, stage->world.system, &stage->scene);
    ASSERT_OK(store_backup(stage->world.store, &options, info));
    ASSERT_OK(stage->scene.rc);
}

static void verify(struct stage *stage)
{
    struct backup_options options;
    struct backup_info info;
    char first[512] = "";
    backup_options_for(&options, stage->world.system, NULL);
    options.progress_context = first;
    ASSERT_OK(backup_verify(&options, world_problem, &info));
    assert_string_equal(first, "");
}

static void a_backup_restores_to_the_state_at_its_end(void **state)
{
    (void)state;
    uint64_t seed = test_seed(71);
    unsigned rounds = test_runs(6);
    for (unsigned round = 0; round < rounds; round++, seed++) {
        struct stage stage;
        struct backup_info info;
        char what[64];
        stage_open(&stage, seed, true);
        stage.scene.ops = 20 + (unsigned)(seed % 100);
        back_up(&stage, &info);
        assert_true(stage.scene.told >= 4);
        assert_true(info.log_bytes > 0 && info.end_lsn > info.checkpoint_lsn);
        struct lane *at_end = malloc(sizeof *at_end);
        *at_end = *stage.lane;
        /* What comes later is not in it. */
        struct scene later = stage.scene;
        ASSERT_OK(scene_work(&later));
        verify(&stage);
        snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
        judge(&stage, at_end, what);
        free(at_end);
        stage_close(&stage);
    }
}

static void files_are_not_cut_while_they_are_copied(void **state)
{
    (void)state;
    struct stage stage;
    struct backup_info info;
    stage_open(&stage, test_seed(72), true);
    /* An empty end, so that there is something to give back. */
    char key[16];
    struct btree *filler;
    ASSERT_OK(store_tree(stage.world.store, "filler", 0, &filler));
    for (unsigned i = FILLER_ROWS / 4; i < FILLER_ROWS; i++) {
        int size = snprintf(key, sizeof key, "%08u", i);
        ASSERT_OK(store_delete(stage.scene.session, filler, span_of(key, (size_t)size)));
    }
    ASSERT_OK(lane_commit(stage.lane, stage.scene.session));
    stage.scene.shrink_rc = FIRN_OK;
    unsigned tries = 0;
    while (stage.scene.shrink_rc != FIRN_E_BUSY && tries++ < 5) {
        struct backup_options options;
        backup_options_for(&options, stage.world.system, &stage.scene);
        char name[16];
        snprintf(name, sizeof name, "backup%u", tries);
        options.directory = name;
        ASSERT_OK(store_backup(stage.world.store, &options, &info));
        ASSERT_OK(stage.scene.rc);
    }
    assert_int_equal(stage.scene.shrink_rc, FIRN_E_BUSY);
    ASSERT_OK(scene_shrink(&stage.scene));
    ASSERT_OK(stage.scene.shrink_rc);
    /* And a backup of what was cut. */
    back_up(&stage, &info);
    judge(&stage, stage.lane, "after a file was cut");
    stage_close(&stage);
}

static void a_store_that_was_closed_is_only_read(void **state)
{
    (void)state;
    struct stage stage;
    struct backup_info info;
    stage_open(&stage, test_seed(73), false);
    scene_end(&stage.scene);
    ASSERT_OK(store_close(stage.world.store));
    stage.world.options.read_only = true;
    stage.world.options.create = false;
    ASSERT_OK(store_open(&stage.world.options, &stage.world.store, NULL));
    uint64_t steps = sim_disk_steps(stage.world.disk);
    struct sim_disk *target = disk_make();
    struct io_system *system = disk_open(target, 1);
    struct backup_options options;
    backup_options_for(&options, system, NULL);
    ASSERT_OK(store_backup(stage.world.store, &options, &info));
    assert_int_equal(sim_disk_steps(stage.world.disk), steps);
    assert_int_equal(info.end_lsn, info.checkpoint_lsn);
    struct world restored;
    ASSERT_OK(backup_restore(&restored, target, system));
    const char *wrong = world_wrong(&restored, &stage.lane, 1);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    ASSERT_OK(store_close(restored.store));
    io_system_close(system);
    sim_disk_destroy(target);
    store_abandon(stage.world.store);
    stage.world.store = NULL;
    world_end(&stage.world);
    sim_disk_destroy(stage.world.disk);
    free(stage.lane);
}

/* ---- The log ---- */

/* Much log while pages are copied: several rounds of the ring. */
static void log_beyond_the_ring_is_in_the_backup(void **state)
{
    (void)state;
    struct stage stage;
    struct backup_info info;
    stage_open(&stage, test_seed(74), true);
    uint64_t size_bytes = redo_file_size_bytes(store_redo(stage.world.store));
    stage.scene.ops = 600;
    stage.scene.makes_trees = false;
    stage.lane->large_percent = 20;
    back_up(&stage, &info);
    print_message("# %llu bytes of log, a ring of %llu\n", (unsigned long long)info.log_bytes,
                  (unsigned long long)redo_capacity_bytes(store_redo(stage.world.store)));
    assert_true(info.log_bytes > redo_capacity_bytes(store_redo(stage.world.store)));
    struct world restored;
    struct lane *lane = malloc(sizeof *lane);
    *lane = *stage.lane;
    lane->acked = lane->begun;
    ASSERT_OK(backup_restore(&restored, stage.world.disk, stage.world.system));
    const char *wrong = world_wrong(&restored, &lane, 1);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    /* The ring was larger while that was repeated, and is as before. */
    assert_int_equal(redo_file_size_bytes(store_redo(restored.store)), size_bytes);
    ASSERT_OK(store_close(restored.store));
    free(lane);
    stage_close(&stage);
}

static void overrun(const struct recovery_progress *progress, void *context)
{
    struct scene *scene = context;
    (void)progress;
    uint64_t begin = redo_reserved_lsn(store_redo(scene->world->store));
    uint64_t capacity = redo_capacity_bytes(store_redo(scene->world->store));
    while (scene->rc == FIRN_OK &&
           redo_reserved_lsn(store_redo(scene->world->store)) - begin < 2 * capacity) {
        scene->rc = lane_step(scene->lane, scene->session, scene->world->tree);
        if (scene->rc == FIRN_OK)
            scene->rc = lane_commit(scene->lane, scene->session);
        if (scene->rc == FIRN_OK && scene->lane->begun % 50 == 0)
            scene->rc = store_checkpoint(scene->world->store);
    }
}

static void a_log_that_overtakes_its_copy_ends_the_backup_and_nobody_waits(void **state)
{
    (void)state;
    struct stage stage;
    struct backup_info info;
    struct backup_options options;
    stage_open(&stage, test_seed(75), false);
    stage.lane->large_percent = 50;
    backup_options_for(&options, stage.world.system, &stage.scene);
    options.progress = overrun;
    assert_int_equal(store_backup(stage.world.store, &options, &info), FIRN_E_BUSY);
    assert_non_null(strstr(firn_error_text(), "log_file_size"));
    ASSERT_OK(stage.scene.rc);
    /* Nothing of it stays. */
    assert_int_equal(file_size(stage.world.system, BACKUP_DIR "/firn.log"), -1);
    assert_int_equal(file_size(stage.world.system, BACKUP_DIR "/firn.backup.new"), -1);
    back_up(&stage, &info);
    judge(&stage, stage.lane, "another one");
    stage_close(&stage);
}

/* The log's first file holds it from LSN 8192 on, behind 16 KiB. */
static void damage_in_the_log_ends_the_backup_and_is_named(void **state)
{
    (void)state;
    struct stage stage;
    struct backup_info info;
    struct backup_options options;
    stage_open(&stage, test_seed(80), false);
    stage.scene.makes_trees = false;
    uint64_t lsn = redo_checkpoint_lsn(store_redo(stage.world.store));
    while (redo_durable_lsn(store_redo(stage.world.store)) < lsn + 8192) {
        ASSERT_OK(lane_step(stage.lane, stage.scene.session, stage.world.tree));
        ASSERT_OK(lane_commit(stage.lane, stage.scene.session));
    }
    lsn = redo_checkpoint_lsn(store_redo(stage.world.store));
    ASSERT_OK(sim_disk_rot(stage.world.disk, "db/firn_redo.0", 16384 + lsn - 8192 + 100, 4));
    backup_options_for(&options, stage.world.system, NULL);
    assert_int_equal(store_backup(stage.world.store, &options, &info), FIRN_E_CORRUPT);
    assert_non_null(strstr(firn_error_text(), "the log is damaged in db/firn_redo.0"));
    /* A checkpoint leaves the damage behind. */
    ASSERT_OK(store_checkpoint(stage.world.store));
    back_up(&stage, &info);
    judge(&stage, stage.lane, "behind the damage");
    stage_close(&stage);
}

/* ---- Places ---- */

static void classes_get_directories_of_their_own_when_restored(void **state)
{
    (void)state;
    struct stage stage;
    struct backup_info info;
    struct backup_options options;
    struct recovery_result result;
    stage_open(&stage, test_seed(76), false);
    back_up(&stage, &info);
    struct world restored = stage.world;
    restored.options.directory = RESTORE_DIR;
    restored.options.create = false;
    restored.options.class_directories[IO_CLASS_TABLE] = "tables";
    restored.options.class_directories[IO_CLASS_REDO] = "/log";
    backup_options_for(&options, stage.world.system, NULL);
    ASSERT_OK(store_restore(&options, &restored.options, &info, &result));
    assert_true(file_size(stage.world.system, RESTORE_DIR "/tables/t.firn") > 0);
    assert_true(file_size(stage.world.system, "log/firn_redo.0") > 0);
    ASSERT_OK(store_open(&restored.options, &restored.store, NULL));
    ASSERT_OK(store_tree(restored.store, "t", 0, &restored.tree));
    stage.lane->acked = stage.lane->begun;
    const char *wrong = world_wrong(&restored, &stage.lane, 1);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    ASSERT_OK(store_close(restored.store));
    /* Where something is, nothing is restored. */
    assert_int_equal(store_restore(&options, &restored.options, &info, &result), FIRN_E_EXISTS);
    assert_non_null(strstr(firn_error_text(), "there is an environment"));
    restored.options.directory = "elsewhere";
    ASSERT_OK(io_make_directory(stage.world.system, "elsewhere"));
    io_file_close(file_create(stage.world.system, "elsewhere/letter", 0));
    assert_int_equal(store_restore(&options, &restored.options, &info, &result), FIRN_E_EXISTS);
    assert_non_null(strstr(firn_error_text(), "letter"));
    /* Nor backed up. */
    options.directory = "elsewhere";
    assert_int_equal(store_backup(stage.world.store, &options, &info), FIRN_E_EXISTS);
    assert_true(file_size(stage.world.system, "elsewhere/letter") == 0);
    stage_close(&stage);
}

/* ---- Pages ---- */

/* A byte of a page that is in use rots where it lies. */
static void rot_page(struct stage *stage, const char *name, uint32_t page_no)
{
    char path[64];
    snprintf(path, sizeof path, "db/%s.firn", name);
    ASSERT_OK(sim_disk_rot(stage->world.disk, path, page_no * UINT64_C(4096) + 2000, 0x40));
}

static void a_page_that_is_not_whole_in_its_place_comes_from_the_pool(void **state)
{
    (void)state;
    struct stage stage;
    struct backup_info info;
    stage_open(&stage, test_seed(77), false);
    stage.scene.ops = 0;
    uint32_t space;
    struct buffer_frame *frame;
    ASSERT_OK(space_find(store_spaces(stage.world.store), "t", &space));
    ASSERT_OK(buffer_fix(store_pool(stage.world.store), page_id_of(space, 4), BUFFER_PIN,
                         BUFFER_HINT_NORMAL, &frame));
    rot_page(&stage, "t", 4);
    back_up(&stage, &info);
    buffer_unfix(store_pool(stage.world.store), frame, BUFFER_PIN);
    judge(&stage, stage.lane, "a page that was only in the pool");
    stage_close(&stage);
}

static void a_damaged_page_ends_the_backup_and_is_named(void **state)
{
    (void)state;
    struct stage stage;
    struct backup_info info;
    struct backup_options options;
    stage_open(&stage, test_seed(78), false);
    scene_end(&stage.scene);
    ASSERT_OK(store_close(stage.world.store));
    rot_page(&stage, "t", 4);
    ASSERT_OK(store_open(&stage.world.options, &stage.world.store, NULL));
    backup_options_for(&options, stage.world.system, NULL);
    assert_int_equal(store_backup(stage.world.store, &options, &info), FIRN_E_CORRUPT);
    assert_non_null(strstr(firn_error_text(), "page 4 of"));
    assert_non_null(strstr(firn_error_text(), "t.firn"));
    assert_int_equal(file_size(stage.world.system, BACKUP_DIR "/t.firn"), -1);
    store_abandon(stage.world.store);
    stage.world.store = NULL;
    world_end(&stage.world);
    sim_disk_destroy(stage.world.disk);
    free(stage.lane);
}

/* ---- Stopping, and being slow on purpose ---- */

static void stop_it(const struct recovery_progress *progress, void *context)
{
    (void)progress;
    atomic_store((atomic_bool *)context, true);
}

static void an_interrupted_backup_leaves_nothing(void **state)
{
    (void)state;
    struct stage stage;
    struct backup_info info;
    struct backup_options options;
    atomic_bool stop = false;
    stage_open(&stage, test_seed(79), true);
    backup_options_for(&options, stage.world.system, NULL);
    options.stop = &stop;
    options.progress = stop_it;
    options.progress_context = &stop;
    assert_int_equal(store_backup(stage.world.store, &options, &info), FIRN_E_CANCELLED);
    assert_int_equal(file_size(stage.world.system, BACKUP_DIR "/firn.backup.new"), -1);
    assert_int_equal(backup_verify(&options, world_problem, &info), FIRN_E_NOT_FOUND);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backup_restores_to_the_state_at_its_end),
        cmocka_unit_test(files_are_not_cut_while_they_are_copied),
        cmocka_unit_test(a_store_that_was_closed_is_only_read),
        cmocka_unit_test(log_beyond_the_ring_is_in_the_backup),
        cmocka_unit_test(a_log_that_overtakes_its_copy_ends_the_backup_and_nobody_waits),
        cmocka_unit_test(damage_in_the_log_ends_the_backup_and_is_named),
        cmocka_unit_test(classes_get_directories_of_their_own_when_restored),
        cmocka_unit_test(a_page_that_is_not_whole_in_its_place_comes_from_the_pool),
        cmocka_unit_test(a_damaged_page_ends_the_backup_and_is_named),
        cmocka_unit_test(an_interrupted_backup_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
