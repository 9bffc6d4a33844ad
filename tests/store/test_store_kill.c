/*
 * kill -9 of a real process on real files: a child's threads operate on a store, noting beside it,
 * in memory that outlives them, what they began and what was acknowledged. The parent kills it at
 * some moment, also in its recovery, opens the store and judges.
 */
#include "store/store_world.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3 };

/** What a round's child and its parent both see. */
struct shared {
    struct lane lanes[THREADS];
};

static char directory[256];

static void real_options(struct store_options *options)
{
    world_options(options);
    options->directory = directory;
    options->background_threads = true;
    options->io_backend = IO_BACKEND_AUTO;
    options->recovery_threads = 2;
}

static struct store *child_store;
static struct btree *child_tree;

static void *child_work(void *context)
{
    struct lane *lane = context;
    struct store_session *session;
    if (store_session_open(child_store, &session) != FIRN_OK)
        _exit(3);
    for (unsigned i = 0; lane->begun < LANE_OPS_MAX; i++) {
        if (lane_step(lane, session, child_tree) != FIRN_OK)
            _exit(4);
        if (i % 3 == 0 && lane_commit(lane, session) != FIRN_OK)
            _exit(5);
    }
    for (;;)
        pause();
}

static void child_main(struct shared *shared)
{
    struct store_options options;
    real_options(&options);
    pthread_t thread;
    if (store_open(&options, &child_store, NULL) != FIRN_OK ||
        store_tree(child_store, "t", STORE_TREE_CREATE, &child_tree) != FIRN_OK) {
        fprintf(stderr, "%s\n", firn_error_text());
        _exit(2);
    }
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, child_work, &shared->lanes[i]) != 0)
            _exit(6);
    for (;;)
        pause();
}

static uint64_t begun_operations(const struct shared *shared)
{
    uint64_t begun = 0;
    for (unsigned i = 0; i < THREADS; i++)
        begun += __atomic_load_n(&shared->lanes[i].begun, __ATOMIC_RELAXED);
    return begun;
}

/** Run a child and kill it after a while. */
static void kill_one(struct shared *shared, struct rng *rng)
{
    /* Mostly in the load, sometimes in the opening. */
    uint64_t begun = begun_operations(shared);
    uint64_t target = rng_below(rng, 4) == 0 ? 0 : begun + rng_below(rng, 400);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        child_main(shared);
    int status = 0;
    bool ended = false;
    while (!ended && begun_operations(shared) < target) {
        usleep(200);
        ended = waitpid(child, &status, WNOHANG) == child;
    }
    if (!ended) {
        usleep((useconds_t)rng_below(rng, 20000));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    test_count(TEST_KILLS, 1);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("the child ended by itself, with status %d", status);
}

static void remove_files(void)
{
    DIR *dir = opendir(directory);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
}

/** Begin with no store and no history. */
static void start_over(struct shared *shared, uint64_t seed)
{
    remove_files();
    for (unsigned i = 0; i < THREADS; i++) {
        struct lane *lane = lane_make(i, seed);
        shared->lanes[i] = *lane;
        free(lane);
    }
}

static bool is_full(const struct shared *shared)
{
    bool full = false;
    for (unsigned i = 0; i < THREADS; i++)
        full = full || shared->lanes[i].begun > LANE_OPS_MAX / 2;
    return full;
}

static void no_kill_loses_or_invents(void **state)
{
    (void)state;
    uint64_t seed = test_seed(51);
    unsigned rounds = test_runs(5);
    struct rng rng;
    rng_init(&rng, seed);
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    struct lane *lanes[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        lanes[i] = &shared->lanes[i];
    start_over(shared, seed);
    for (unsigned round = 0; round < rounds; round++) {
        if (is_full(shared))
            start_over(shared, seed + round);
        kill_one(shared, &rng);
        struct world world = {.disk = NULL};
        real_options(&world.options);
        firn_rc rc = world_open(&world);
        const char *wrong = rc != FIRN_OK ? firn_error_text() : world_wrong(&world, lanes, THREADS);
        if (wrong != NULL)
            fail_msg("seed %llu, round %u: %s", (unsigned long long)seed, round, wrong);
        world_abandon(&world);
    }
    munmap(shared, sizeof *shared);
}

static int make_directory(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/firn-kill-XXXXXX", parent != NULL ? parent : "/tmp");
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    remove_files();
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_kill_loses_or_invents, make_directory, remove_directory),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
