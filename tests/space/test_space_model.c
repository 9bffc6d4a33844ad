/*
 * Random allocations and frees against a plain array.
 */
#include "space/page_model.h"

enum { OWNERS = 5 };

static struct sim_disk *disk;
static struct world world;
static struct model *model;
static struct rng rng;
static uint32_t table;

static int setup(void **state)
{
    (void)state;
    disk = disk_make();
    model = calloc(1, sizeof *model);
    rng_init(&rng, test_seed(11));
    mtr_verify_changes(true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_close(&world);
    sim_disk_destroy(disk);
    free(model);
    mtr_verify_changes(false);
    return 0;
}

static void begin(void)
{
    ASSERT_OK(mtr_begin(&world.mtr, 64 * 1024));
}

static void commit(void)
{
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
}

static void note_taken(uint32_t page_no, uint64_t owner)
{
    assert_in_range(page_no, 2, MODEL_PAGES_MAX - 1);
    assert_int_equal(model->owners[page_no], 0);
    model->owners[page_no] = owner;
    model->used++;
    model_init_page(&world, table, page_no, owner);
}

static void allocate(uint64_t owner, uint32_t near, uint32_t count)
{
    uint32_t first;
    uint32_t got;
    ASSERT_OK(space_allocate_run(world.set, &world.mtr, table, owner, near, count, &first, &got));
    assert_in_range(got, 1, count);
    for (uint32_t i = 0; i < got; i++)
        note_taken(first + i, owner);
}

static void allocate_and_return(uint64_t owner, uint32_t near, uint32_t count)
{
    uint32_t first;
    uint32_t got;
    ASSERT_OK(space_allocate_run(world.set, &world.mtr, table, owner, near, count, &first, &got));
    for (uint32_t i = 0; i < got; i++)
        assert_int_equal(model->owners[first + i], 0);
    space_unallocate(world.set, &world.mtr, table, owner, first, got);
}

static void give_back(uint32_t page_no)
{
    struct mtr_page *page;
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(table, page_no), &page));
    ASSERT_OK(space_free(world.set, &world.mtr, page, model->owners[page_no]));
    model->owners[page_no] = 0;
    model->used--;
}

/** One mini-transaction of a few operations; `growth` in 16 of them allocate. */
static void step(unsigned growth)
{
    uint64_t owner = 1 + rng_below(&rng, OWNERS);
    if (rng_below(&rng, 4) == 0)
        ASSERT_OK(space_prepare(world.set, table, 1 + (uint32_t)rng_below(&rng, 10)));
    begin();
    for (unsigned i = 1 + (unsigned)rng_below(&rng, 4); i > 0; i--) {
        uint32_t near = rng_below(&rng, 8) == 0 ? PAGE_NONE : model_draw(model, owner, &rng);
        uint32_t count = rng_below(&rng, 8) == 0 ? 1 + (uint32_t)rng_below(&rng, 10) : 1;
        if (rng_below(&rng, 16) < growth)
            allocate(owner, near, count);
        else if (rng_below(&rng, 16) == 0)
            allocate_and_return(owner, near, count);
        else if (model->used > 0)
            give_back(model_draw(model, 0, &rng));
    }
    commit();
}

static void run_rounds(uint32_t page_size)
{
    world_make(&world, disk, page_size);
    ASSERT_OK(space_create(world.set, &world.mtr, IO_CLASS_TABLE, "t", &table));
    assert_int_equal(table, 1);
    static const unsigned growth[] = {14, 8, 2, 12, 1, 0};
    for (unsigned round = 0, runs = test_runs(6); round < runs; round++) {
        for (unsigned i = 0; i < 400; i++)
            step(growth[round % 6]);
        model_compare(&world, table, model);
    }
}

static void small_pages_agree_with_the_model(void **state)
{
    (void)state;
    run_rounds(4096);
}

static void usual_pages_agree_with_the_model(void **state)
{
    (void)state;
    run_rounds(16384);
}

static void large_pages_agree_with_the_model(void **state)
{
    (void)state;
    run_rounds(65536);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(small_pages_agree_with_the_model),
        TEST(usual_pages_agree_with_the_model),
        TEST(large_pages_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
