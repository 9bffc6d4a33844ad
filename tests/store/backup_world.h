/*
 * backup_world.h -- a store that goes on working while it is backed up, and the judgement of what
 * the backup restores to.
 *
 * With one thread, work is done where the backup tells its progress: what happens between which two
 * MiB is the same in each run of a seed. The state at the backup's end is then known exactly.
 */
#ifndef FIRN_TESTS_STORE_BACKUP_WORLD_H
#define FIRN_TESTS_STORE_BACKUP_WORLD_H

#include "store/store_world.h"

#include "engine/backup.h"

enum {
    EXTRA_TREES = 6,
    EXTRA_ROWS = 40,
    FILLER_ROWS = 1200,
    FILLER_BYTES = 1500,
};

#define BACKUP_DIR  "backup"
#define RESTORE_DIR "restored"

/** What goes on in a store while it is backed up. */
struct scene {
    struct world *world;
    struct lane *lane;
    struct store_session *session;
    struct rng rng;
    unsigned ops;           /* between two tellings of progress; 0: none */
    bool makes_trees;       /* and drops them */
    unsigned told;          /* how often progress was told */
    int extra[EXTRA_TREES]; /* rows of trees "x0", ...; -1: there is none */
    firn_rc rc;
    firn_rc shrink_rc; /* of the last try to cut off a file */
};

static inline void scene_begin(struct scene *scene, struct world *world, struct lane *lane,
                               uint64_t seed)
{
    *scene = (struct scene){.world = world, .lane = lane, .ops = 40, .makes_trees = true};
    rng_init(&scene->rng, seed);
    for (unsigned i = 0; i < EXTRA_TREES; i++)
        scene->extra[i] = -1;
    ASSERT_OK(store_session_open(world->store, &scene->session));
}

static inline void scene_end(struct scene *scene)
{
    store_session_close(scene->session);
    scene->session = NULL;
}

/** Make one of the extra trees with some rows, or drop it. */
static inline firn_rc scene_change_tree(struct scene *scene)
{
    unsigned number = (unsigned)rng_below(&scene->rng, EXTRA_TREES);
    char name[8];
    struct btree *tree;
    snprintf(name, sizeof name, "x%u", number);
    if (scene->extra[number] >= 0) {
        scene->extra[number] = -1;
        return store_drop_tree(scene->world->store, name);
    }
    /* Some lie in the system tablespace. */
    unsigned flags = STORE_TREE_CREATE | (number % 3 == 0 ? STORE_TREE_SHARED : 0);
    FIRN_TRY(store_tree(scene->world->store, name, flags, &tree));
    int rows = (int)rng_below(&scene->rng, EXTRA_ROWS);
    for (int i = 0; i < rows; i++) {
        char text[64];
        int size = snprintf(text, sizeof text, "%s-%d-%s", name, i, "some bytes more");
        FIRN_TRY(store_put(scene->session, tree, span_of(text, (size_t)size), span_of(text, 20)));
    }
    scene->extra[number] = rows;
    return FIRN_OK;
}

/** A file gives its end back, or is refused to. */
static inline firn_rc scene_shrink(struct scene *scene)
{
    uint32_t space;
    uint64_t pages;
    if (space_find(store_spaces(scene->world->store), "filler", &space) != FIRN_OK)
        FIRN_TRY(space_find(store_spaces(scene->world->store), "t", &space));
    struct mtr *mtr = btree_session_mtr(store_session_btree(scene->session));
    scene->shrink_rc = space_shrink(store_spaces(scene->world->store), mtr, space, &pages);
    return scene->shrink_rc == FIRN_E_BUSY ? FIRN_OK : scene->shrink_rc;
}

/** Operations, commits, ticks, checkpoints, trees made and dropped. */
static inline firn_rc scene_work(struct scene *scene)
{
    struct store *store = scene->world->store;
    for (unsigned i = 0; i < scene->ops; i++) {
        FIRN_TRY(lane_step(scene->lane, scene->session, scene->world->tree));
        if (rng_below(&scene->rng, 5) == 0)
            FIRN_TRY(lane_commit(scene->lane, scene->session));
        if (rng_below(&scene->rng, 30) == 0)
            FIRN_TRY(store_tick(store));
    }
    if (scene->makes_trees)
        FIRN_TRY(scene_change_tree(scene));
    if (rng_below(&scene->rng, 3) == 0)
        FIRN_TRY(store_checkpoint(store));
    return rng_below(&scene->rng, 3) == 0 ? scene_shrink(scene) : FIRN_OK;
}

/** Progress of the backup: time for work. */
static inline void scene_progress(const struct recovery_progress *progress, void *context)
{
    struct scene *scene = context;
    (void)progress;
    scene->told++;
    if (scene->rc == FIRN_OK && scene->ops > 0)
        scene->rc = scene_work(scene);
}

/** A tree of some MiB, so that a backup takes a while. */
static inline firn_rc world_fill(struct world *world)
{
    struct store_session *session;
    struct btree *tree;
    static uint8_t value[FILLER_BYTES];
    FIRN_TRY(store_session_open(world->store, &session));
    firn_rc rc = store_tree(world->store, "filler", STORE_TREE_CREATE, &tree);
    for (unsigned i = 0; i < FILLER_ROWS && rc == FIRN_OK; i++) {
        char key[16];
        int size = snprintf(key, sizeof key, "%08u", i * 7919U % FILLER_ROWS);
        memset(value, (int)i, sizeof value);
        rc = store_put(session, tree, span_of(key, (size_t)size), span_of(value, sizeof value));
        if (rc == FIRN_OK && i % 100 == 0)
            rc = store_tick(world->store);
    }
    if (rc == FIRN_OK)
        rc = store_commit(session);
    store_session_close(session);
    return rc;
}

/** A disk with a store that was used and closed. */
static inline struct sim_disk *backup_disk(struct lane *lane, uint64_t seed, bool filled)
{
    struct world world;
    struct store_session *session;
    world_init(&world, disk_make(), seed);
    ASSERT_OK(world_open(&world));
    if (filled)
        ASSERT_OK(world_fill(&world));
    ASSERT_OK(store_session_open(world.store, &session));
    for (unsigned i = 0; i < 200; i++)
        ASSERT_OK(lane_step(lane, session, world.tree));
    ASSERT_OK(lane_commit(lane, session));
    store_session_close(session);
    ASSERT_OK(store_close(world.store));
    world.store = NULL;
    world_end(&world);
    return world.disk;
}

static inline void backup_options_for(struct backup_options *options, struct io_system *system,
                                      struct scene *scene)
{
    backup_options_init(options);
    options->directory = BACKUP_DIR;
    options->system = system;
    if (scene != NULL) {
        options->progress = scene_progress;
        options->progress_context = scene;
    }
}

/** Restore the backup that lies on a system, and open what came of it. */
static inline firn_rc backup_restore(struct world *restored, struct sim_disk *disk,
                                     struct io_system *system)
{
    struct backup_options options;
    struct backup_info info;
    struct recovery_result result;
    *restored = (struct world){.disk = disk, .system = system};
    world_options(&restored->options);
    restored->options.directory = RESTORE_DIR;
    restored->options.create = false;
    /* Whose names a directory of its own has to keep. */
    restored->options.class_directories[IO_CLASS_TABLE] = "tables";
    restored->options.log_file_size_bytes = 0;
    restored->options.log_files = 0;
    for (int class = 0; class < IO_CLASS_COUNT; class ++)
        restored->options.class_systems[class] = system;
    backup_options_for(&options, system, NULL);
    FIRN_TRY(store_restore(&options, &restored->options, &info, &result));
    FIRN_TRY(store_open(&restored->options, &restored->store, NULL));
    return store_tree(restored->store, "t", 0, &restored->tree);
}

/** @return NULL, or what is wrong with the extra trees: they must be just those of the scene. */
static inline const char *extra_wrong(struct world *restored, const struct scene *scene)
{
    static char wrong[128];
    for (unsigned i = 0; i < EXTRA_TREES; i++) {
        char name[8];
        struct btree *tree;
        snprintf(name, sizeof name, "x%u", i);
        firn_rc rc = store_tree(restored->store, name, 0, &tree);
        if ((rc == FIRN_E_NOT_FOUND) != (scene->extra[i] < 0) ||
            (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)) {
            snprintf(wrong, sizeof wrong, "tree %s: expected %d rows, opening it returned %d", name,
                     scene->extra[i], rc);
            return wrong;
        }
        if (rc != FIRN_OK)
            continue;
        int rows = 0;
        struct btree_cursor *cursor;
        ASSERT_OK(btree_cursor_open(store_base(restored->store), tree, &cursor));
        rc = btree_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
        for (; rc == FIRN_OK; rc = btree_cursor_next(cursor))
            rows++;
        btree_cursor_close(cursor);
        snprintf(wrong, sizeof wrong, "tree %s: expected %d rows, found %d", name, scene->extra[i],
                 rows);
        if (rows != scene->extra[i])
            return wrong;
    }
    return NULL;
}

#endif
