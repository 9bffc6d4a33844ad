/*
 * Only what differs from what lies in a page's place is written, and all of it is: pages of each
 * size are changed at random, written, read again and compared with what they ought to be, byte by
 * byte, while writes fail, frames move and changes come unannounced.
 */
#include "buffer/pool_internal.h"
#include "buffer/writer_internal.h"

#include "base/rng.h"
#include "io/sim_support.h"

#include "buffer/fake_redo.h"

enum { PAGES = 24, SPACE = 3, FRAMES = 20, FRAMES_FEW = 17 };

static struct {
    struct sim_disk *disk;
    struct io_system *system;
    struct fault_injector *faults;
    struct io_file *table;
    struct redo redo;
    struct buffer_pool *pool;
    uint32_t page_bytes;
    uint8_t *expected; /* PAGES pages, unsealed */
    uint64_t lsn;
} world;

static firn_rc locate(void *context, uint64_t page_id, struct io_file **file, uint64_t *offset)
{
    (void)context;
    *file = world.table;
    *offset = (uint64_t)page_id_number(page_id) * world.page_bytes;
    return FIRN_OK;
}

static uint8_t *expected_page(uint32_t number)
{
    return world.expected + (size_t)number * world.page_bytes;
}

/* As much memory as so many frames and their administration take. */
static uint64_t pool_bytes(uint32_t frames)
{
    uint64_t size_bytes = (uint64_t)frames * world.page_bytes;
    while (pool_frames_for(world.page_bytes, true, size_bytes) < frames)
        size_bytes += 512;
    return size_bytes;
}

static void open_world(uint32_t page_bytes, enum buffer_doublewrite doublewrite)
{
    memset(&world, 0, sizeof(world));
    world.page_bytes = page_bytes;
    world.expected = calloc(PAGES, page_bytes);
    world.disk = disk_make();
    world.system = disk_open(world.disk, 1);
    ASSERT_OK(fault_attach(world.system, 1, &world.faults));
    world.table = file_open(world.system, "/table", IO_OPEN_CREATE | IO_OPEN_DIRECT);
    ASSERT_OK(io_file_set_size(world.table, (uint64_t)PAGES * page_bytes));
    fake_redo_init(&world.redo);
    struct buffer_options options = {.size_bytes = pool_bytes(FRAMES),
                                     .page_size_bytes = page_bytes,
                                     .redo = &world.redo,
                                     .files.locate = locate,
                                     .systems = &world.system,
                                     .system_count = 1,
                                     .doublewrite = doublewrite,
                                     .doublewrite_system = world.system,
                                     .doublewrite_directory = "",
                                     .doublewrite_direct = true,
                                     .environment = "sectors"};
    ASSERT_OK(buffer_open(&options, &world.pool));
}

static void close_world(void)
{
    buffer_close(world.pool);
    ASSERT_OK(io_file_close(world.table));
    io_system_close(world.system);
    sim_disk_destroy(world.disk);
    fake_redo_free(&world.redo);
    free(world.expected);
}

/* ---- Changes ---- */

static struct buffer_frame *hold(uint32_t number)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(world.pool, page_id_of(SPACE, number), BUFFER_EXCLUSIVE,
                         BUFFER_HINT_NORMAL, &frame));
    return frame;
}

/* The page has been changed as `expected` says. */
static void let_go(struct buffer_frame *frame, uint32_t number)
{
    uint8_t *page = buffer_page(world.pool, frame);
    buffer_mark_dirty(world.pool, frame, 0);
    page_set_lsn(expected_page(number),
                 fake_redo_append(&world.redo, (struct fake_frame){.count = 0}));
    memcpy(page + 4, expected_page(number) + 4, world.page_bytes - 4);
    buffer_unfix(world.pool, frame, BUFFER_EXCLUSIVE);
}

static void make_page(uint32_t number)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix_new(world.pool, page_id_of(SPACE, number), &frame));
    page_init(expected_page(number), world.page_bytes, page_id_of(SPACE, number), PAGE_TYPE_BLOB);
    buffer_begin_page(world.pool, frame);
    memcpy(buffer_page(world.pool, frame), expected_page(number), world.page_bytes);
    let_go(frame, number);
}

/* Set some bytes, move some, or count one up: what comes back to what it was, too. */
static void change_bytes(uint32_t number, struct rng *rng)
{
    uint8_t *body = expected_page(number) + PAGE_HEADER_BYTES;
    size_t body_bytes = world.page_bytes - PAGE_HEADER_BYTES;
    size_t size = 1 + rng_below(rng, rng_below(rng, 8) == 0 ? 2000 : 20);
    size_t from = rng_below(rng, body_bytes - size);
    size_t to = rng_below(rng, body_bytes - size);
    switch (rng_below(rng, 4)) {
    case 0:
        memset(body + to, (int)rng_below(rng, 3), size);
        break;
    case 1:
        memmove(body + to, body + from, size);
        break;
    default:
        body[to] = (uint8_t)(body[to] ^ 1);
    }
}

static void change_page(uint32_t number, struct rng *rng)
{
    struct buffer_frame *frame = hold(number);
    if (rng_below(rng, 16) != 0) /* else somebody forgets it */
        buffer_begin_change(world.pool, frame);
    for (uint64_t changes = rng_below(rng, 4); changes-- > 0;)
        change_bytes(number, rng);
    let_go(frame, number);
}

/* ---- Judging ---- */

static void assert_file_is_right(void)
{
    uint8_t *page = malloc(world.page_bytes);
    for (uint32_t i = 0; i < PAGES; i++) {
        ASSERT_OK(io_file_close(world.table));
        world.table = file_open(world.system, "/table", 0);
        ASSERT_OK(io_read(world.table, page, world.page_bytes, (uint64_t)i * world.page_bytes));
        ASSERT_OK(io_file_close(world.table));
        world.table = file_open(world.system, "/table", IO_OPEN_DIRECT);
        assert_int_equal(page_verify(page, world.page_bytes, page_id_of(SPACE, i), UINT64_MAX),
                         PAGE_GOOD);
        assert_memory_equal(page + 4, expected_page(i) + 4, world.page_bytes - 4);
    }
    free(page);
}

static void fail_some(struct rng *rng)
{
    struct fault_plan plans[] = {
        {.kind = FAULT_SHORT, .targets = FAULT_WRITES, .first = 1 + rng_below(rng, 12)},
        {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 2 + rng_below(rng, 12)},
    };
    fault_set_plans(world.faults, plans, ARRAY_COUNT(plans));
    buffer_flush(world.pool, UINT64_MAX);
    fault_set_plans(world.faults, NULL, 0);
}

static void live(uint32_t page_bytes, enum buffer_doublewrite doublewrite, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed + page_bytes);
    open_world(page_bytes, doublewrite);
    for (uint32_t i = 0; i < PAGES; i++)
        make_page(i);
    for (unsigned round = 0; round < 60; round++) {
        for (uint64_t changes = rng_below(&rng, 40); changes-- > 0;)
            change_page((uint32_t)rng_below(&rng, PAGES), &rng);
        if (rng_below(&rng, 8) == 0)
            make_page((uint32_t)rng_below(&rng, PAGES));
        if (rng_below(&rng, 4) == 0)
            fail_some(&rng);
        if (rng_below(&rng, 6) == 0) /* young pages move to other frames */
            ASSERT_OK(buffer_resize(world.pool, pool_bytes(FRAMES_FEW)));
        else if (rng_below(&rng, 4) == 0)
            ASSERT_OK(buffer_resize(world.pool, pool_bytes(FRAMES)));
        ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
        assert_file_is_right();
    }
    close_world();
}

static void test_every_change_reaches_the_file(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    for (unsigned run = 0; run < test_runs(1); run++)
        for (uint32_t page_bytes = PAGE_SIZE_MIN; page_bytes <= PAGE_SIZE_MAX; page_bytes *= 2) {
            live(page_bytes, BUFFER_DOUBLEWRITE_ON, seed + run);
            live(page_bytes, BUFFER_DOUBLEWRITE_OFF, seed + run);
        }
}

/* ---- How much is written ---- */

static uint64_t written(enum io_class class)
{
    struct io_counters *counters = malloc(sizeof(*counters));
    io_system_counters(world.system, class, counters);
    uint64_t bytes = counters->bytes_written;
    free(counters);
    return bytes;
}

struct cost {
    uint64_t doublewrite;
    uint64_t in_place;
};

/* What it costs to flip bytes of a page that has been written, and read again if `cold`. */
static struct cost cost_of(const size_t *at, unsigned count, bool cold)
{
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    if (cold)
        buffer_discard(world.pool, SPACE, 5);
    struct buffer_frame *frame = hold(5);
    buffer_begin_change(world.pool, frame);
    for (unsigned i = 0; i < count; i++)
        expected_page(5)[at[i]] ^= 1;
    let_go(frame, 5);
    struct cost cost = {written(IO_CLASS_DOUBLEWRITE), written(IO_CLASS_TABLE)};
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    cost.doublewrite = written(IO_CLASS_DOUBLEWRITE) - cost.doublewrite;
    cost.in_place = written(IO_CLASS_TABLE) - cost.in_place;
    return cost;
}

static void test_little_is_written_of_a_small_change(void **state)
{
    (void)state;
    static const struct {
        unsigned count;
        size_t at[4];
        uint64_t in_place;
    } cases[] = {
        {0, {0}, 4096},                     /* the LSN alone */
        {1, {100}, 4096},                   /* in the first sector */
        {1, {4095}, 4096},                  /* in the first block's last */
        {1, {4096}, 2 * 4096},              /* its neighbour goes along */
        {1, {8192}, 3 * 4096},              /* over a gap */
        {1, {16383}, 2 * 4096},             /* two requests */
        {3, {5000, 9000, 13000}, 4 * 4096}, /* all */
    };
    open_world(16384, BUFFER_DOUBLEWRITE_ON);
    for (uint32_t i = 0; i < PAGES; i++)
        make_page(i);
    cost_of(cases[0].at, 0, false); /* the first batch makes the doublewrite file */
    for (unsigned i = 0; i < 2 * ARRAY_COUNT(cases); i++) {
        bool cold = i % 2 != 0;
        struct cost cost = cost_of(cases[i / 2].at, cases[i / 2].count, cold);
        assert_int_equal(cost.in_place, cases[i / 2].in_place);
        assert_int_equal(cost.doublewrite, 2 * 4096); /* the header, and sectors up to a block */
    }
    close_world();
}

/* After a write that failed, what lies there is not known: all is written. */
static void test_after_a_failed_write_the_page_is_written_whole(void **state)
{
    (void)state;
    static const size_t at[] = {100};
    open_world(16384, BUFFER_DOUBLEWRITE_ON);
    for (uint32_t i = 0; i < PAGES; i++)
        make_page(i);
    cost_of(at, 1, false);
    for (uint64_t first = 1; first <= 2; first++) { /* the doublewrite file's, that in place */
        struct fault_plan plan = {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = first};
        struct buffer_frame *frame = hold(5);
        buffer_begin_change(world.pool, frame);
        expected_page(5)[100] ^= 1;
        let_go(frame, 5);
        fault_set_plans(world.faults, &plan, 1);
        assert_int_equal(buffer_flush(world.pool, UINT64_MAX), FIRN_E_IO);
        fault_set_plans(world.faults, NULL, 0);
        struct cost cost = {written(IO_CLASS_DOUBLEWRITE), written(IO_CLASS_TABLE)};
        ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
        assert_int_equal(written(IO_CLASS_TABLE) - cost.in_place, 16384);
        assert_int_equal(written(IO_CLASS_DOUBLEWRITE) - cost.doublewrite, 4096 + 16384);
        assert_file_is_right();
    }
    close_world();
}

static void test_a_page_that_the_log_begins_is_written_once(void **state)
{
    (void)state;
    open_world(16384, BUFFER_DOUBLEWRITE_ON);
    for (uint32_t i = 0; i < PAGES; i++)
        make_page(i);
    uint64_t before = written(IO_CLASS_DOUBLEWRITE);
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    make_page(7); /* again */
    ASSERT_OK(buffer_flush(world.pool, UINT64_MAX));
    assert_int_equal(written(IO_CLASS_DOUBLEWRITE), before);
    assert_file_is_right();
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_change_reaches_the_file),
        cmocka_unit_test(test_little_is_written_of_a_small_change),
        cmocka_unit_test(test_after_a_failed_write_the_page_is_written_whole),
        cmocka_unit_test(test_a_page_that_the_log_begins_is_written_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
