/*
 * Bit rot: a byte of a small, closed store is flipped. Either the store shows every row as it was
 * (the byte did not matter, or was put right), or what fails names the file.
 */
#include "store/store_world.h"

enum { PAGE_BYTES = 4096 };

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

/* Each byte of each page of a small store, judged as the pool judges what it reads. */
static void every_flipped_byte_of_a_page_is_seen(void **state)
{
    (void)state;
    struct lane *lane = lane_make(0, 4);
    struct rot_files files = {.count = 0};
    struct sim_disk *base = small_store(lane, &files);
    struct io_system *system = disk_open(base, 1);
    unsigned pages = 0;
    for (unsigned i = 0; i < files.count; i++) {
        size_t size_bytes;
        if (strstr(files.paths[i], ".firn") == NULL)
            continue;
        uint8_t *bytes = file_load(system, files.paths[i], &size_bytes);
        uint32_t space = page_space(bytes);
        for (size_t at = 0; at < size_bytes; at++) {
            uint8_t *page = bytes + at / PAGE_BYTES * PAGE_BYTES;
            uint64_t page_id = page_id_of(space, (uint32_t)(at / PAGE_BYTES));
            pages += at % PAGE_BYTES == 0;
            bytes[at] ^= (uint8_t)(1U << at % 8);
            enum page_state found = page_verify(page, PAGE_BYTES, page_id, UINT64_MAX);
            bytes[at] ^= (uint8_t)(1U << at % 8);
            if (found == PAGE_GOOD || found == PAGE_ZERO)
                fail_msg("%s, byte %zu: not seen", files.paths[i], at);
        }
        free(bytes);
    }
    assert_true(pages > 20);
    io_system_close(system);
    sim_disk_destroy(base);
    free(lane);
}

/** @return how far to the next byte to flip: what lies behind a file's head is sampled where most
 * of it is of the past, or free. */
static uint64_t next_step(const char *path, uint64_t offset, bool all, struct rng *rng)
{
    bool is_old = strstr(path, "redo") != NULL || strstr(path, "doublewrite") != NULL;
    if (is_old && offset > 8192)
        return 1 + rng_below(rng, all ? 4096 : 200000);
    return 1 + rng_below(rng, all ? 32 : 4000);
}

/* A whole store with one byte flipped: opened, checked, read. */
static void no_flipped_byte_gives_wrong_rows(void **state)
{
    (void)state;
    uint64_t seed = test_seed(31);
    bool all = test_tries_all();
    struct rng rng;
    rng_init(&rng, seed);
    struct lane *lane = lane_make(0, 4);
    lane->large_percent = 2;
    struct rot_files files = {.count = 0};
    struct sim_disk *base = small_store(lane, &files);
    for (unsigned i = 0; i < files.count; i++) {
        uint64_t tried = 0;
        uint64_t noticed = 0;
        uint64_t offset = 0;
        while (offset < files.sizes[i]) {
            tried++;
            noticed +=
                rot_once(base, lane, files.paths[i], offset, (uint8_t)(1 << rng_below(&rng, 8)));
            offset += next_step(files.paths[i], offset, all, &rng);
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
        cmocka_unit_test(every_flipped_byte_of_a_page_is_seen),
        cmocka_unit_test(no_flipped_byte_gives_wrong_rows),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
