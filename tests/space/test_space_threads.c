/*
 * Many threads: they allocate and free in the same tablespaces, make and drop others, and read what
 * is being dropped, while the cleaner writes.
 */
#include "base/inject.h"
#include "space/page_model.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PAGE = 4096, THREADS = 4, SPACES = 2, STEPS = 300, HELD_MAX = 64 };

static struct sim_disk *disk;
static struct world world;
static uint32_t spaces[SPACES];
static atomic_bool stop;

struct worker {
    pthread_t thread;
    uint64_t number;
    struct mtr mtr;
    struct rng rng;
    uint64_t held[HELD_MAX]; /* pages that are this one's: page ids */
    unsigned held_count;
};

static int setup(void **state)
{
    (void)state;
    disk = disk_make();
    world_make(&world, disk, PAGE);
    ASSERT_OK(space_create(world.set, &world.mtr, IO_CLASS_TABLE, "s", &spaces[0]));
    ASSERT_OK(space_create(world.set, &world.mtr, IO_CLASS_TABLE, "t", &spaces[1]));
    world_close(&world);
    world_begin(&world, disk, PAGE, 2);
    world.cleaner_thread = true;
    ASSERT_OK(world_go_on(&world));
    atomic_store(&stop, false);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_abandon(&world);
    sim_disk_destroy(disk);
    return 0;
}

static void start(struct worker *workers, unsigned count, void *(*run)(void *))
{
    uint64_t seed = test_seed(9);
    memset(workers, 0, count * sizeof *workers);
    for (unsigned i = 0; i < count; i++) {
        workers[i].number = i + 1;
        rng_init(&workers[i].rng, seed + i);
        mtr_init(&workers[i].mtr, world.pool, world.redo);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    }
}

static void join(struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        mtr_free(&workers[i].mtr);
    }
}

/* ---- Pages ---- */

static void take_one(struct worker *worker, uint32_t space)
{
    uint32_t page_no;
    struct mtr_page *page;
    struct slotted_bounds bounds = {
        .index_id = worker->number, .prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};
    ASSERT_OK(space_prepare(world.set, space, 1));
    ASSERT_OK(mtr_begin(&worker->mtr, 4096));
    ASSERT_OK(space_allocate(world.set, &worker->mtr, space, worker->number, PAGE_NONE, &page_no));
    ASSERT_OK(mtr_fix_new(&worker->mtr, page_id_of(space, page_no), &page));
    mtr_index_init(&worker->mtr, page, &bounds);
    ASSERT_OK(mtr_commit(&worker->mtr, NULL));
    worker->held[worker->held_count++] = page_id_of(space, page_no);
}

/** A page that was taken must still be its taker's: nobody else was given it. */
static void free_one(struct worker *worker)
{
    struct mtr_page *page;
    unsigned drawn = (unsigned)rng_below(&worker->rng, worker->held_count);
    ASSERT_OK(mtr_begin(&worker->mtr, 4096));
    ASSERT_OK(mtr_fix(&worker->mtr, worker->held[drawn], &page));
    assert_int_equal(slotted_index_id(page->bytes), worker->number);
    ASSERT_OK(space_free(world.set, &worker->mtr, page, worker->number));
    ASSERT_OK(mtr_commit(&worker->mtr, NULL));
    worker->held[drawn] = worker->held[--worker->held_count];
}

static void *take_and_free(void *argument)
{
    struct worker *worker = argument;
    for (unsigned i = 0; i < STEPS; i++) {
        if (worker->held_count == 0 ||
            (worker->held_count < HELD_MAX && rng_below(&worker->rng, 2) == 0))
            take_one(worker, spaces[rng_below(&worker->rng, SPACES)]);
        else
            free_one(worker);
    }
    return NULL;
}

static firn_rc count_page(uint32_t page_no, uint64_t owner, void *context)
{
    (void)page_no;
    unsigned *counts = context;
    assert_true(owner <= THREADS);
    counts[owner]++;
    return FIRN_OK;
}

static void no_page_is_given_to_two(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    unsigned counts[THREADS + 1] = {0};
    unsigned problems = 0;
    start(workers, THREADS, take_and_free);
    join(workers, THREADS);
    for (unsigned i = 0; i < SPACES; i++) {
        ASSERT_OK(space_check(world.set, spaces[i], model_problem, &problems));
        ASSERT_OK(space_each_page(world.set, spaces[i], count_page, counts));
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(counts[i + 1], workers[i].held_count);
}

/* ---- Tablespaces ---- */

static void *make_and_drop(void *argument)
{
    struct worker *worker = argument;
    char name[32];
    snprintf(name, sizeof name, "made-%llu", (unsigned long long)worker->number);
    for (unsigned i = 0; i < 20; i++) {
        uint32_t id;
        ASSERT_OK(space_create(world.set, &worker->mtr, IO_CLASS_TABLE, name, &id));
        for (unsigned k = 0; k < 3; k++)
            take_one(worker, id);
        worker->held_count = 0;
        ASSERT_OK(space_drop(world.set, &worker->mtr, id));
    }
    return NULL;
}

/** Ask for pages of tablespaces that come and go, as read-ahead by an old list would. */
static void *read_what_goes(void *argument)
{
    struct worker *worker = argument;
    while (!atomic_load(&stop)) {
        uint64_t page_id = page_id_of(3 + (uint32_t)rng_below(&worker->rng, 70),
                                      (uint32_t)rng_below(&worker->rng, 5));
        buffer_prefetch(world.pool, &page_id, 1);
    }
    return NULL;
}

static void tablespaces_go_while_their_pages_are_read_ahead(void **state)
{
    (void)state;
    struct worker makers[2];
    struct worker readers[2];
    start(readers, 2, read_what_goes);
    start(makers, 2, make_and_drop);
    join(makers, 2);
    atomic_store(&stop, true);
    join(readers, 2);
    uint32_t found;
    assert_int_equal(space_find(world.set, "made-1", &found), FIRN_E_NOT_FOUND);
    assert_int_equal(file_size(world.system, "/made-1.firn"), -1);
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
}

#ifndef NDEBUG /* where there are injection points */
/* The reader knows the file, and the drop begins. */
static atomic_int meeting;

static void meet(const char *point, void *context)
{
    (void)context;
    int expected = 1;
    if (strcmp(point, "buffer-read-located") == 0 &&
        atomic_compare_exchange_strong(&meeting, &expected, 2)) {
        while (atomic_load(&meeting) != 3)
            usleep(100);
        usleep(20000); /* the drop must not come to its end; if it could it would now */
    }
    if (strcmp(point, "space-drop-begins") == 0) {
        while (atomic_load(&meeting) != 2)
            usleep(100);
        atomic_store(&meeting, 3);
    }
}

static void *read_one(void *argument)
{
    struct buffer_frame *frame;
    const uint32_t *space = argument;
    firn_rc rc =
        buffer_fix(world.pool, page_id_of(*space, 5), BUFFER_PIN, BUFFER_HINT_NORMAL, &frame);
    assert_int_equal(rc, FIRN_E_CORRUPT); /* it was never written */
    return NULL;
}
#endif

static void a_file_is_open_as_long_as_it_is_read(void **state)
{
    (void)state;
#ifndef NDEBUG
    uint32_t id;
    pthread_t reader;
    ASSERT_OK(space_create(world.set, &world.mtr, IO_CLASS_TABLE, "going", &id));
    atomic_store(&meeting, 1);
    inject_set(meet, NULL);
    assert_int_equal(pthread_create(&reader, NULL, read_one, &id), 0);
    ASSERT_OK(space_drop(world.set, &world.mtr, id));
    assert_int_equal(pthread_join(reader, NULL), 0);
    inject_set(NULL, NULL);
#else
    skip();
#endif
}

static void files_shrink_while_others_allocate(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    unsigned problems = 0;
    uint64_t pages;
    start(workers, THREADS, take_and_free);
    for (unsigned i = 0; i < 20; i++) {
        firn_rc rc = space_shrink(world.set, &world.mtr, spaces[i % SPACES], &pages);
        assert_true(rc == FIRN_OK || rc == FIRN_E_BUSY);
    }
    join(workers, THREADS);
    for (unsigned i = 0; i < SPACES; i++)
        ASSERT_OK(space_check(world.set, spaces[i], model_problem, &problems));
    world_close(&world);
    ASSERT_OK(world_open(&world, disk, PAGE, 3));
    for (unsigned i = 0; i < SPACES; i++)
        ASSERT_OK(space_check(world.set, spaces[i], model_problem, &problems));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(no_page_is_given_to_two),
        TEST(tablespaces_go_while_their_pages_are_read_ahead),
        TEST(a_file_is_open_as_long_as_it_is_read),
        TEST(files_shrink_while_others_allocate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
