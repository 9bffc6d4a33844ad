/*
 * Warm restart: the pages that were in the pool are read again; a dump that is no good costs
 * nothing but a note.
 */
#include "buffer/write_fixture.h"

#include "base/log.h"
#include "base/memory.h"

static const char dump_path[] = "/ib_pages";
static const atomic_bool go_on = false;

static unsigned notes;
static char note[512];

static void note_sink(enum log_level level, const char *text, void *context)
{
    (void)context;
    notes += level == LOG_NOTE;
    snprintf(note, sizeof(note), "%s", text);
}

/* A disk with all pages written, and its log. */
static struct sim_disk *warm_disk(struct redo *redo)
{
    struct sim_disk *disk = world_disk();
    struct world world;
    fake_redo_init(redo);
    ASSERT_OK(world_open(&world, disk, redo, world_options()));
    ASSERT_OK(world_make_pages(&world));
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    world_close(&world);
    return disk;
}

static uint64_t pages_in(struct world *world)
{
    struct buffer_counters counters;
    buffer_counters(world->pool, &counters);
    return counters.pages_data;
}

static uint64_t misses(struct world *world)
{
    struct buffer_counters counters;
    buffer_counters(world->pool, &counters);
    return counters.misses;
}

static void touch(struct world *world, uint32_t space, uint32_t number)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(world->pool, page_id_of(space, number), BUFFER_SHARED, BUFFER_HINT_NORMAL,
                         &frame));
    buffer_unfix(world->pool, frame, BUFFER_SHARED);
}

/* Use pages [0, count) of the second tablespace, and dump. */
static void dump_pages(struct sim_disk *disk, struct redo *redo, uint32_t count, unsigned percent)
{
    struct world world;
    ASSERT_OK(world_open(&world, disk, redo, world_options()));
    for (uint32_t i = 0; i < count; i++)
        touch(&world, 1, i);
    ASSERT_OK(buffer_dump_ids(world.pool, world.system, dump_path, percent));
    world_close(&world);
}

static void test_pages_of_a_dump_are_there_again(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    struct world world;
    for (unsigned threads = 0; threads < 2; threads++) {
        struct buffer_options options = world_options();
        options.cleaner_thread = threads != 0;
        dump_pages(disk, &redo, 10, 100);
        ASSERT_OK(world_open(&world, disk, &redo, options));
        ASSERT_OK(buffer_load_ids(world.pool, world.system, dump_path, &go_on));
        assert_int_equal(pages_in(&world), 10);
        for (uint32_t i = 0; i < 10; i++)
            touch(&world, 1, i);
        assert_int_equal(misses(&world), 0);
        world_close(&world);
    }
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_a_share_of_the_pages_is_dumped(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    struct world world;
    static const unsigned percents[] = {0, 30, 100};
    for (unsigned i = 0; i < ARRAY_COUNT(percents); i++) {
        dump_pages(disk, &redo, 10, percents[i]);
        ASSERT_OK(world_open(&world, disk, &redo, world_options()));
        ASSERT_OK(buffer_load_ids(world.pool, world.system, dump_path, &go_on));
        assert_int_equal(pages_in(&world), percents[i] / 10);
        if (percents[i] == 30) { /* the last that came are the most wanted */
            for (uint32_t page = 7; page < 10; page++)
                touch(&world, 1, page);
            assert_int_equal(misses(&world), 0);
        }
        world_close(&world);
    }
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_a_smaller_pool_takes_what_fits(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    struct world world;
    struct buffer_options options = world_options();
    dump_pages(disk, &redo, WORLD_PAGES, 100);
    options.size_bytes = 144 << 10;
    ASSERT_OK(world_open(&world, disk, &redo, options));
    ASSERT_OK(buffer_load_ids(world.pool, world.system, dump_path, &go_on));
    struct buffer_counters counters;
    buffer_counters(world.pool, &counters);
    assert_true(counters.pages_total < WORLD_PAGES);
    assert_true(counters.pages_data > counters.pages_total / 2);
    assert_int_equal(counters.pages_evicted, 0);
    world_close(&world);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_loading_stops_when_told(void **state)
{
    (void)state;
    static const atomic_bool stop = true;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    struct world world;
    dump_pages(disk, &redo, 10, 100);
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    ASSERT_OK(buffer_load_ids(world.pool, world.system, dump_path, &stop));
    assert_int_equal(pages_in(&world), 0);
    world_close(&world);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_no_dump_is_no_failure(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    struct world world;
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    notes = 0;
    log_set_sink(note_sink, NULL);
    ASSERT_OK(buffer_load_ids(world.pool, world.system, dump_path, &go_on));
    log_set_sink(NULL, NULL);
    assert_int_equal(notes, 0);
    world_close(&world);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

/* Load in a pool; nothing may come of it but a note. */
static void assert_only_noted(struct sim_disk *disk, struct redo *redo, const char *text)
{
    struct world world;
    struct buffer_options options = world_options();
    ASSERT_OK(world_open(&world, disk, redo, options));
    notes = 0;
    log_set_sink(note_sink, NULL);
    ASSERT_OK(buffer_load_ids(world.pool, world.system, dump_path, &go_on));
    log_set_sink(NULL, NULL);
    assert_int_equal(notes, 1);
    assert_non_null(strstr(note, dump_path));
    assert_non_null(strstr(note, text));
    assert_int_equal(pages_in(&world), 0);
    world_close(&world);
}

static void test_a_damaged_dump_is_a_note(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    dump_pages(disk, &redo, 3, 100);
    struct io_system *system = disk_open(disk, 1);
    size_t size_bytes;
    free(file_load(system, dump_path, &size_bytes));
    io_system_close(system);
    assert_int_equal(size_bytes, 40 + 3 * 8);
    for (size_t at = 0; at < size_bytes; at++) {
        struct sim_disk *clone = sim_disk_clone(disk);
        ASSERT_OK(sim_disk_rot(clone, dump_path, at, 1));
        assert_only_noted(clone, &redo, at < 4 ? "no list of page ids" : "damaged");
        sim_disk_destroy(clone);
    }
    for (size_t size = 0; size < size_bytes; size++) {
        struct sim_disk *clone = sim_disk_clone(disk);
        system = disk_open(clone, 1);
        struct io_file *file = file_open(system, dump_path, 0);
        ASSERT_OK(io_file_set_size(file, size));
        ASSERT_OK(io_file_close(file));
        io_system_close(system);
        assert_only_noted(clone, &redo, size < 40 ? "no list of page ids" : "damaged");
        sim_disk_destroy(clone);
    }
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_another_environments_dump_is_a_note(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    struct world world;
    struct buffer_options options = world_options();
    dump_pages(disk, &redo, 3, 100);
    options.environment[0]++;
    options.doublewrite = BUFFER_DOUBLEWRITE_OFF;
    ASSERT_OK(world_open(&world, disk, &redo, options));
    notes = 0;
    log_set_sink(note_sink, NULL);
    ASSERT_OK(buffer_load_ids(world.pool, world.system, dump_path, &go_on));
    log_set_sink(NULL, NULL);
    assert_int_equal(notes, 1);
    assert_non_null(strstr(note, "another environment"));
    world_close(&world);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

/* Pages that are no more, or cannot be read, are passed over. */
static void test_pages_that_cannot_be_read_are_passed_over(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    struct world world;
    dump_pages(disk, &redo, 6, 100);
    ASSERT_OK(sim_disk_rot(disk, world_tables[1], 2 * WORLD_PAGE_BYTES + 100, 1));
    ASSERT_OK(world_open(&world, disk, &redo, world_options()));
    ASSERT_OK(buffer_load_ids(world.pool, world.system, dump_path, &go_on));
    assert_int_equal(pages_in(&world), 5);
    world_close(&world);
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_a_dump_that_fails_leaves_the_older_one(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    struct world world;
    bool hit = true;
    dump_pages(disk, &redo, 4, 100);
    for (uint64_t first = 1; hit; first++) {
        struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_ALL, .first = first};
        ASSERT_OK(world_open(&world, disk, &redo, world_options()));
        fault_set_plans(world.faults, &plan, 1);
        firn_rc rc = buffer_dump_ids(world.pool, world.system, dump_path, 100);
        hit = fault_hits(world.faults) > 0;
        fault_set_plans(world.faults, NULL, 0);
        assert_int_equal(rc, hit ? FIRN_E_IO : FIRN_OK);
        if (hit) {
            ASSERT_OK(buffer_load_ids(world.pool, world.system, dump_path, &go_on));
            assert_int_equal(pages_in(&world), 4);
        }
        world_close(&world);
    }
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    struct redo redo;
    struct sim_disk *disk = warm_disk(&redo);
    struct world world;
    firn_rc rc = FIRN_E_NOMEM;
    dump_pages(disk, &redo, 4, 100);
    for (long successes = 0; rc != FIRN_OK; successes++) {
        ASSERT_OK(world_open(&world, disk, &redo, world_options()));
        memory_fail_after(successes);
        rc = buffer_load_ids(world.pool, world.system, dump_path, &go_on);
        if (rc == FIRN_OK)
            rc = buffer_dump_ids(world.pool, world.system, dump_path, 100);
        memory_fail_after(-1);
        assert_true(rc == FIRN_OK || rc == FIRN_E_NOMEM);
        world_close(&world);
    }
    fake_redo_free(&redo);
    sim_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_of_a_dump_are_there_again),
        cmocka_unit_test(test_a_share_of_the_pages_is_dumped),
        cmocka_unit_test(test_a_smaller_pool_takes_what_fits),
        cmocka_unit_test(test_loading_stops_when_told),
        cmocka_unit_test(test_no_dump_is_no_failure),
        cmocka_unit_test(test_a_damaged_dump_is_a_note),
        cmocka_unit_test(test_another_environments_dump_is_a_note),
        cmocka_unit_test(test_pages_that_cannot_be_read_are_passed_over),
        cmocka_unit_test(test_a_dump_that_fails_leaves_the_older_one),
        cmocka_unit_test(test_each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
