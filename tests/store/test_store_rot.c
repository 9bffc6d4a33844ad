/*
 * Bit rot: a byte of a small, closed store is flipped. Either the store shows every row as it was
 * (the byte did not matter, or was put right), or what fails names the file.
 */
#include "store/store_world.h"

#include "../repeat.h"

struct rot_files {
    unsigned count;
    char paths[16][64];
    uint64_t sizes[16];
};

static firn_rc note_file(const char *name, void *context)
{
    struct rot_files *files = context;
    if (strcmp(name, "firn.lock") == 0)
        return FIRN_OK;
    assert_true(files->count < ARRAY_COUNT(files->paths));
    snprintf(files->paths[files->count++], sizeof files->paths[0], "db/%s", name);
    return FIRN_OK;
}

/** A closed store of a few dozen pages, with splits, an overflow chain and free pages. */
static struct sim_disk *small_store(struct lane *lane, struct rot_files *files)
{
    struct world world;
    world_init(&world, disk_make(), 1);
    struct store_session *session;
    ASSERT_OK(world_open(&world));
    ASSERT_OK(store_session_open(world.store, &session));
    for (unsigned i = 0; i < 150; i++)
        ASSERT_OK(lane_step(lane, session, world.tree));
    ASSERT_OK(lane_commit(lane, session));
    store_session_close(session);
    ASSERT_OK(store_close(world.store));
    world.store = NULL;
    ASSERT_OK(io_list(world.system, "db", note_file, files));
    for (unsigned i = 0; i < files->count; i++)
        files->sizes[i] = (uint64_t)file_size(world.system, files->paths[i]);
    world_end(&world);
    return world.disk;
}

/** @return true if the rot was noticed. */
static bool rot_once(const struct sim_disk *base, const struct lane *before, const char *path,
                     uint64_t offset, uint8_t mask)
{
    struct lane *lane = malloc(sizeof *lane);
    *lane = *before;
    struct world world;
    world_init(&world, sim_disk_clone(base), 1);
    world.options.create = false;
    ASSERT_OK(sim_disk_rot(world.disk, path, offset, mask));
    struct store_check_result result;
    char text[512] = "";
    const char *wrong = NULL;
    firn_rc rc = store_open(&world.options, &world.store, NULL);
    if (rc == FIRN_OK)
        rc = store_check(world.store, 1, world_problem, text, NULL, &result);
    if (rc == FIRN_OK)
        rc = store_tree(world.store, "t", 0, &world.tree);
    if (rc == FIRN_OK)
        wrong = world_wrong(&world, &lane, 1);
    if (wrong != NULL)
        fail_msg("%s, byte %llu: nothing noticed, but: %s", path, (unsigned long long)offset,
                 wrong);
    if (rc != FIRN_OK && text[0] == '\0')
        snprintf(text, sizeof text, "%s", firn_error_text());
    const char *name = strrchr(path, '/') + 1;
    if (rc != FIRN_OK && strstr(text, name) == NULL)
        fail_msg("%s, byte %llu: the file is not named: %s", path, (unsigned long long)offset,
                 text);
    world_end(&world);
    sim_disk_destroy(world.disk);
    free(lane);
    return rc != FIRN_OK;
}

static void no_flipped_byte_gives_wrong_rows(void **state)
{
    (void)state;
    uint64_t seed = test_seed(31);
    bool all = test_runs(1) > 1;
    struct rng rng;
    rng_init(&rng, seed);
    struct lane *lane = lane_make(0, 4);
    lane->large_percent = 2;
    struct rot_files files = {.count = 0};
    struct sim_disk *base = small_store(lane, &files);
    for (unsigned i = 0; i < files.count; i++) {
        /* Most of the log is of the past and is not looked at: samples are enough there. */
        bool is_log = strstr(files.paths[i], "redo") != NULL;
        uint64_t tried = 0;
        uint64_t noticed = 0;
        uint64_t offset = 0;
        while (offset < files.sizes[i]) {
            tried++;
            noticed +=
                rot_once(base, lane, files.paths[i], offset, (uint8_t)(1 << rng_below(&rng, 8)));
            uint64_t step = all ? 1 : 1 + rng_below(&rng, 1000);
            if (is_log && offset > 8192)
                step = 1 + rng_below(&rng, all ? 4096 : 200000);
            offset += step;
        }
        print_message("# %s: %llu of %llu flipped bytes noticed\n", files.paths[i],
                      (unsigned long long)noticed, (unsigned long long)tried);
    }
    sim_disk_destroy(base);
    free(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_flipped_byte_gives_wrong_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
