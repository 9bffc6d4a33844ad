/*
 * The power is cut at every step of a life of tablespaces: made, filled, emptied, shortened,
 * dropped, made again under the same name. What was acknowledged is there, what was not is there
 * wholly or not at all, and the maps are right.
 */
#include "base/inject.h"
#include "space/page_model.h"

enum { PAGE = 4096, TABLES = 3, TABLE_PAGES = 1024 };

/** What may be found after a cut. */
enum certainty { NO, YES, MAYBE };

struct table {
    enum certainty exists;
    uint32_t id;
    enum certainty pages[TABLE_PAGES];
};

static struct sim_disk *made; /* an environment with nothing but the system tablespace */
static struct world world;
static struct table tables[TABLES];
static struct rng rng;
static uint64_t seed;

static const char *name_of(unsigned table)
{
    static const char *const names[TABLES] = {"a", "b", "c"};
    return names[table];
}

/* ---- What is done ---- */

static firn_rc create(unsigned table)
{
    memset(&tables[table], 0, sizeof tables[table]);
    tables[table].exists = MAYBE;
    FIRN_TRY(
        space_create(world.set, &world.mtr, IO_CLASS_TABLE, name_of(table), &tables[table].id));
    tables[table].exists = YES;
    return FIRN_OK;
}

static firn_rc drop(unsigned table)
{
    tables[table].exists = MAYBE;
    FIRN_TRY(space_drop(world.set, &world.mtr, tables[table].id));
    tables[table].exists = NO;
    return FIRN_OK;
}

static firn_rc try_init_page(uint32_t space, uint32_t page_no, uint64_t owner)
{
    struct mtr_page *page;
    struct slotted_bounds bounds = {
        .index_id = owner, .prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};
    FIRN_TRY(mtr_fix_new(&world.mtr, page_id_of(space, page_no), &page));
    mtr_index_init(&world.mtr, page, &bounds);
    return FIRN_OK;
}

/** An index's page in one mini-transaction, not durable yet. */
static firn_rc allocate(unsigned table)
{
    uint32_t page_no;
    uint32_t space = tables[table].id;
    FIRN_TRY(space_prepare(world.set, space, 1));
    FIRN_TRY(mtr_begin(&world.mtr, 4096));
    firn_rc rc = space_allocate(world.set, &world.mtr, space, 7, PAGE_NONE, &page_no);
    if (rc != FIRN_OK) {
        mtr_abandon(&world.mtr);
        return rc;
    }
    rc = try_init_page(space, page_no, 7);
    if (rc != FIRN_OK) {
        space_unallocate(world.set, &world.mtr, space, 7, page_no, 1);
        mtr_commit(&world.mtr, NULL);
        return rc;
    }
    tables[table].pages[page_no] = MAYBE;
    return mtr_commit(&world.mtr, NULL);
}

static firn_rc give_back(unsigned table, uint32_t page_no)
{
    struct mtr_page *page;
    FIRN_TRY(mtr_begin(&world.mtr, 4096));
    firn_rc rc = mtr_fix(&world.mtr, page_id_of(tables[table].id, page_no), &page);
    if (rc == FIRN_OK)
        rc = space_free(world.set, &world.mtr, page, 7);
    if (rc != FIRN_OK) {
        mtr_abandon(&world.mtr);
        return rc;
    }
    tables[table].pages[page_no] = MAYBE;
    return mtr_commit(&world.mtr, NULL);
}

/** Make a table's allocations durable, and with that certain. @param pages  the ones there are */
static firn_rc acknowledge(unsigned table, unsigned first, unsigned end, enum certainty now)
{
    FIRN_TRY(redo_flush(world.redo, redo_reserved_lsn(world.redo), REDO_FLUSH_SYNC));
    for (unsigned i = first; i < end; i++)
        if (tables[table].pages[i] == MAYBE)
            tables[table].pages[i] = now;
    return FIRN_OK;
}

static firn_rc fill(unsigned table, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        FIRN_TRY(allocate(table));
    return acknowledge(table, 0, TABLE_PAGES, YES);
}

/** Give back what lies from a page on. */
static firn_rc empty(unsigned table, uint32_t from)
{
    for (uint32_t page_no = from; page_no < TABLE_PAGES; page_no++)
        if (tables[table].pages[page_no] == YES)
            FIRN_TRY(give_back(table, page_no));
    return acknowledge(table, from, TABLE_PAGES, NO);
}

static firn_rc checkpoint(void)
{
    FIRN_TRY(buffer_flush(world.pool, UINT64_MAX));
    return redo_checkpoint(world.redo, buffer_clean_lsn(world.pool));
}

static firn_rc live(void)
{
    uint64_t pages;
    FIRN_TRY(create(0));
    FIRN_TRY(fill(0, 3));
    FIRN_TRY(create(1));
    FIRN_TRY(fill(1, 40));
    FIRN_TRY(checkpoint());
    FIRN_TRY(drop(0));
    FIRN_TRY(create(0));
    FIRN_TRY(fill(1, 60));
    FIRN_TRY(fill(0, 5));
    FIRN_TRY(empty(1, 20));
    FIRN_TRY(space_shrink(world.set, &world.mtr, tables[1].id, &pages));
    FIRN_TRY(create(2));
    FIRN_TRY(fill(1, 30));
    FIRN_TRY(drop(1));
    FIRN_TRY(create(1));
    FIRN_TRY(checkpoint());
    FIRN_TRY(fill(2, 10));
    FIRN_TRY(drop(2));
    FIRN_TRY(checkpoint());
    return fill(1, 20);
}

/** Somebody takes a checkpoint at the worst time: a record is durable, what it tells is not done.
 */
static void at_injection_point(const char *point, void *context)
{
    (void)context;
    if (strcmp(point, "space-record-durable") == 0 && !sim_disk_is_cut(world.disk))
        checkpoint();
}

/* ---- What is found ---- */

struct found {
    const struct table *table;
    bool pages[TABLE_PAGES];
};

static firn_rc note_page(uint32_t page_no, uint64_t owner, void *context)
{
    struct found *found = context;
    assert_true(page_no < TABLE_PAGES);
    assert_true(owner == 7 || (owner == 0 && page_no < 2));
    if (owner != 0)
        found->pages[page_no] = true;
    return FIRN_OK;
}

static void check_space(uint32_t space)
{
    unsigned problems = 0;
    firn_rc rc = space_check(world.set, space, model_problem, &problems);
    assert_int_equal(problems, 0);
    ASSERT_OK(rc);
}

static void check_table(unsigned number)
{
    const struct table *table = &tables[number];
    struct found found = {.table = table};
    uint32_t id;
    firn_rc rc = space_find(world.set, name_of(number), &id);
    if (rc != FIRN_OK) {
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
        assert_int_not_equal(table->exists, YES);
        return;
    }
    assert_int_not_equal(table->exists, NO);
    check_space(id);
    ASSERT_OK(space_each_page(world.set, id, note_page, &found));
    /* Of a table half dropped the pages do not matter, only that they agree. */
    for (unsigned i = 0; table->exists == YES && i < TABLE_PAGES; i++)
        if (table->pages[i] != MAYBE)
            assert_int_equal(found.pages[i], table->pages[i] == YES);
}

static void check_world(void)
{
    check_space(SPACE_SYSTEM);
    for (unsigned i = 0; i < TABLES; i++)
        check_table(i);
}

/** It must be possible to go on. */
static void go_on(void)
{
    uint32_t id;
    for (unsigned i = 0; i < TABLES; i++)
        if (space_find(world.set, name_of(i), &id) == FIRN_OK)
            ASSERT_OK(space_drop(world.set, &world.mtr, id));
    for (unsigned i = 0; i < TABLES; i++) {
        ASSERT_OK(create(i));
        ASSERT_OK(fill(i, 3));
    }
    check_world();
}

/* ---- Cuts ---- */

/** Live until the power goes at a step. @return true if it went */
static bool live_until(struct sim_disk *disk, uint64_t step, enum sim_cut cut)
{
    memset(tables, 0, sizeof tables);
    ASSERT_OK(world_open(&world, disk, PAGE, seed));
    sim_disk_cut_after(disk, step, cut, seed + step);
    firn_rc rc = live();
    bool is_cut = sim_disk_is_cut(disk);
    if (!is_cut)
        ASSERT_OK(rc);
    world_abandon(&world);
    return is_cut;
}

/** Recover, with more cuts on the way. */
static void recover(struct sim_disk *disk, enum sim_cut cut)
{
    for (unsigned tries = 0;; tries++) {
        sim_disk_restore(disk);
        if (tries < 3)
            sim_disk_cut_after(disk, 1 + rng_below(&rng, 25), cut, rng_next(&rng));
        firn_rc rc = world_open(&world, disk, PAGE, seed);
        if (!sim_disk_is_cut(disk)) {
            sim_disk_cut_after(disk, 0, cut, 0);
            ASSERT_OK(rc);
            return;
        }
        world_abandon(&world);
    }
}

/** @return false if the power was still on in the end */
static bool cut_at(uint64_t step, enum sim_cut cut)
{
    struct sim_disk *disk = sim_disk_clone(made);
    bool is_cut = live_until(disk, step, cut);
    if (is_cut) {
        recover(disk, cut);
        check_world();
        if (step % 8 == 0)
            go_on();
        world_abandon(&world);
    }
    sim_disk_destroy(disk);
    return is_cut;
}

/* In each round each step is cut once; in four rounds, in each of the four ways. */
static void every_step_can_be_the_last(void **state)
{
    (void)state;
    for (unsigned round = 0; round < test_runs(2); round++, seed += 1000) {
        uint64_t step = 1;
        while (cut_at(step, all_cuts[(step + round) % ARRAY_COUNT(all_cuts)]))
            step++;
        assert_true(step > 100);
    }
}

static int setup(void **state)
{
    (void)state;
    seed = test_seed(5);
    rng_init(&rng, seed);
    mtr_verify_changes(true);
    inject_set(at_injection_point, NULL);
    made = disk_make();
    world_make(&world, made, PAGE);
    world_close(&world);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_disk_destroy(made);
    inject_set(NULL, NULL);
    mtr_verify_changes(false);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_can_be_the_last),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
