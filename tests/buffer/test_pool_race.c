/*
 * Races that matter, made to happen: a test's function runs in the middle of one thread's work.
 */
#include "buffer/pool_fixture.h"

#include "base/inject.h"

#include <pthread.h>
#include <sched.h>

enum { FRAMES = 24, PAGES = 80 };

static struct pool_world world;

/* What runs at which point, once; points it passes itself are left alone. */
static struct {
    const char *point;
    void (*act)(void);
    atomic_uint acts_left;
    atomic_bool acting;
} plan;

static void reached(const char *point, void *context)
{
    (void)context;
    if (plan.act == NULL || plan.acting || strcmp(point, plan.point) != 0 || plan.acts_left == 0)
        return;
    plan.acts_left--;
    plan.acting = true;
    plan.act();
    plan.acting = false;
}

/* Do something once at a point; release builds have none. */
static void plan_at(const char *point, void (*act)(void))
{
    plan.point = point;
    plan.act = act;
    plan.acts_left = 1;
}

static int setup(void **state)
{
    (void)state;
    world_open(&world, FRAMES, PAGES);
    plan.act = NULL;
    inject_set(reached, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    inject_set(NULL, NULL);
    world_close(&world);
    return 0;
}

static struct buffer_frame *fix_page(uint32_t page_no, enum buffer_mode mode)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(world.pool, page_id(page_no), mode, BUFFER_HINT_NORMAL, &frame));
    return frame;
}

/* No frame is lost, none is in two places. */
static void assert_frames_complete(void)
{
    struct buffer_counters counters = pool_counters(world.pool);
    assert_int_equal(counters.pages_data + counters.pages_free, counters.pages_total);
}

/* ---- Eviction against fix ---- */

static void push_out_page_7(void)
{
    for (uint32_t i = 0; map_find(world.pool, page_id(7)) != NULL; i++) {
        assert_true(i < 10 * PAGES);
        if (i % PAGES != 7)
            pool_word(world.pool, i % PAGES);
    }
}

static void a_page_evicted_between_finding_and_pinning_is_read_again(void **state)
{
    (void)state;
    if (!test_has_injection())
        skip();
    assert_int_equal(pool_word(world.pool, 7), 7);
    plan_at("buffer-fix-found", push_out_page_7);
    assert_int_equal(pool_word(world.pool, 7), 7);
    assert_int_equal(plan.acts_left, 0);
    assert_frames_complete();
}

static struct buffer_frame *victims[FRAMES * 2];
static unsigned victim_count;

/* The lists are locked here: who fixes a page that is in the pool must not need them. */
static void pin_everything(void)
{
    for (uint32_t i = 0; i < PAGES; i++)
        if (map_find(world.pool, page_id(i)) != NULL)
            victims[victim_count++] = fix_page(i, BUFFER_PIN);
}

static void a_page_pinned_while_it_is_being_evicted_stays(void **state)
{
    (void)state;
    if (!test_has_injection())
        skip();
    struct buffer_frame *frame;
    uint32_t total = (uint32_t)pool_counters(world.pool).pages_total;
    victim_count = 0;
    for (uint32_t i = 0; i < total; i++)
        pool_word(world.pool, i);
    plan_at("buffer-claim", pin_everything);
    assert_int_equal(
        buffer_fix(world.pool, page_id(PAGES - 1), BUFFER_PIN, BUFFER_HINT_NORMAL, &frame),
        FIRN_E_BUSY);
    ASSERT_TEXT("buffer_pool_size");
    assert_int_equal(victim_count, total);
    for (unsigned i = 0; i < victim_count; i++) {
        buffer_latch(world.pool, victims[i], BUFFER_SHARED);
        assert_int_equal(page_word(world.pool, victims[i]),
                         page_id_number(buffer_page_id(victims[i])));
        buffer_unlatch(world.pool, victims[i], BUFFER_SHARED);
        buffer_unfix(world.pool, victims[i], BUFFER_PIN);
    }
    assert_int_equal(pool_word(world.pool, PAGES - 1), PAGES - 1);
    assert_frames_complete();
}

/* ---- Two who want one page ---- */

static pthread_t other;
static firn_rc other_rc;
static char other_text[256];

static void *fix_page_9(void *argument)
{
    (void)argument;
    struct buffer_frame *frame;
    other_rc = buffer_fix(world.pool, page_id(9), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame);
    if (other_rc == FIRN_OK)
        buffer_unfix(world.pool, frame, BUFFER_SHARED);
    else
        snprintf(other_text, sizeof(other_text), "%s", firn_error_text());
    return NULL;
}

static void wait_for_pins(uint32_t page_no, unsigned pins)
{
    struct buffer_frame *frame = map_find(world.pool, page_id(page_no));
    assert_non_null(frame);
    while (state_pins(atomic_load(&frame->state)) < pins)
        sched_yield();
}

static void let_another_want_page_9(void)
{
    assert_int_equal(pthread_create(&other, NULL, fix_page_9, NULL), 0);
    wait_for_pins(9, 2);
}

static void a_page_that_two_want_is_read_once(void **state)
{
    (void)state;
    if (!test_has_injection())
        skip();
    plan_at("buffer-read-published", let_another_want_page_9);
    assert_int_equal(pool_word(world.pool, 9), 9);
    pthread_join(other, NULL);
    assert_int_equal(other_rc, FIRN_OK);
    assert_int_equal(pool_counters(world.pool).pages_read, 1);
    assert_int_equal(pool_counters(world.pool).misses, 1);
}

static void a_failed_read_fails_for_all_who_waited_and_nobody_else(void **state)
{
    (void)state;
    if (!test_has_injection())
        skip();
    struct buffer_frame *frame;
    struct fault_plan fault = {.kind = FAULT_ERROR, .targets = FAULT_READS, .first = 1};
    fault_set_plans(world.faults, &fault, 1);
    plan_at("buffer-read-published", let_another_want_page_9);
    assert_int_equal(
        buffer_fix(world.pool, page_id(9), BUFFER_EXCLUSIVE, BUFFER_HINT_NORMAL, &frame),
        FIRN_E_IO);
    ASSERT_TEXT("page 9 of tablespace 3");
    pthread_join(other, NULL);
    assert_int_equal(other_rc, FIRN_E_IO);
    assert_non_null(strstr(other_text, "page 9 of tablespace 3"));
    assert_int_equal(pool_word(world.pool, 9), 9);
    assert_int_equal(pool_counters(world.pool).pages_data, 1);
    assert_frames_complete();
}

static atomic_uint asked;

/* Not there yet when it is asked for first, and somebody waits for it by then. */
static bool comes_to_exist(uint32_t page_no)
{
    assert_int_equal(page_no, 9);
    if (asked++ > 0)
        return true;
    let_another_want_page_9();
    return false;
}

static void read_ahead_that_came_too_early_fails_for_itself_only(void **state)
{
    (void)state;
    uint64_t id = page_id(9);
    asked = 0;
    world.files.exists = comes_to_exist;
    assert_int_equal(buffer_prefetch(world.pool, &id, 1), 0);
    pthread_join(other, NULL);
    assert_int_equal(other_rc, FIRN_OK);
    assert_int_equal(asked, 2);
    assert_frames_complete();
}

static void who_makes_a_page_anew_does_not_mind_that_its_reading_failed(void **state)
{
    (void)state;
    struct buffer_frame *frame = NULL;
    ASSERT_OK(sim_disk_rot(world.disk, "/t.firn", 9 * POOL_PAGE_BYTES + 100, 1));
    assert_int_equal(buffer_fix(world.pool, page_id(9), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame),
                     FIRN_E_CORRUPT);
    ASSERT_OK(buffer_fix_new(world.pool, page_id(9), &frame));
    page_init(buffer_page(world.pool, frame), POOL_PAGE_BYTES, page_id(9), PAGE_TYPE_BLOB);
    page_change(world.pool, frame, 99);
    buffer_unfix(world.pool, frame, BUFFER_EXCLUSIVE);
    assert_int_equal(pool_word(world.pool, 9), 99);
}

/* ---- Discarding ---- */

static void *discard_all(void *argument)
{
    (void)argument;
    buffer_discard(world.pool, POOL_SPACE, 0);
    return NULL;
}

static void discard_meanwhile(void)
{
    assert_int_equal(pthread_create(&other, NULL, discard_all, NULL), 0);
    wait_for_pins(9, 2);
}

static void discarding_waits_for_a_read_and_its_reader(void **state)
{
    (void)state;
    if (!test_has_injection())
        skip();
    pool_write(world.pool, 2, 22);
    plan_at("buffer-read-published", discard_meanwhile);
    assert_int_equal(pool_word(world.pool, 9), 9);
    pthread_join(other, NULL);
    struct buffer_counters counters = pool_counters(world.pool);
    assert_int_equal(counters.pages_data, 0);
    assert_int_equal(counters.pages_dirty, 0);
    assert_frames_complete();
    assert_int_equal(pool_word(world.pool, 2), 2); /* the change is forgotten */
}

static void discarding_takes_the_pages_that_are_meant(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        pool_write(world.pool, i, 100 + i);
    buffer_discard(world.pool, POOL_SPACE + 1, 0);
    assert_int_equal(pool_counters(world.pool).pages_dirty, 10);
    buffer_discard(world.pool, POOL_SPACE, 6);
    assert_int_equal(pool_counters(world.pool).pages_dirty, 6);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(pool_word(world.pool, i), i < 6 ? 100 + i : i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_page_evicted_between_finding_and_pinning_is_read_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_page_pinned_while_it_is_being_evicted_stays, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_page_that_two_want_is_read_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_read_fails_for_all_who_waited_and_nobody_else,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(discarding_waits_for_a_read_and_its_reader, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(read_ahead_that_came_too_early_fails_for_itself_only, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(who_makes_a_page_anew_does_not_mind_that_its_reading_failed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(discarding_takes_the_pages_that_are_meant, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
