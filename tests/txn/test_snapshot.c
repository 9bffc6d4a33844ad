/*
 * Snapshots by one thread: each answer is compared with a list of all commits. The ring is tiny, so
 * nearly every id is evicted from it, many of them while they are open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/snapshot_internal.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "repeat.h"

#include <string.h>

#define ASSERT_OK(call) assert_int_equal(call, FIRN_OK)

enum { IDS_MAX = 3000, PLACES = 6, OPEN_MAX = 40 };

struct model_place {
    struct snapshot *snapshot;
    bool is_open;
    uint64_t number;
};

struct model {
    struct snapshot_set *set;
    uint64_t first_id;
    uint64_t next_id;
    uint64_t newest;
    uint64_t numbers[IDS_MAX]; /* by id - first_id; 0: open */
    uint64_t open[OPEN_MAX];
    size_t open_count;
    struct rng *failing; /* NULL: there is memory for all ids that are drawn */
    struct model_place places[PLACES];
};

static void model_begin(struct model *model, uint64_t first_id, uint32_t ring_ids)
{
    memset(model, 0, sizeof(*model));
    model->first_id = model->next_id = first_id;
    model->newest = 7;
    struct snapshot_options options = {.next_id = first_id, .last_number = 7, .ring_ids = ring_ids};
    ASSERT_OK(snapshot_set_open(&options, &model->set));
    for (size_t i = 0; i < PLACES; i++)
        ASSERT_OK(snapshot_new(model->set, &model->places[i].snapshot));
}

static void model_end(struct model *model)
{
    for (size_t i = 0; i < PLACES; i++)
        snapshot_free(model->places[i].snapshot);
    snapshot_set_close(model->set);
}

/* @return false if there was no memory */
static bool model_draw(struct model *model)
{
    uint64_t id;
    if (model->failing != NULL)
        memory_fail_after((long)rng_below(model->failing, 3));
    firn_rc rc = snapshot_draw_id(model->set, &id);
    memory_fail_after(-1);
    if (rc == FIRN_E_NOMEM)
        return false;
    ASSERT_OK(rc);
    assert_int_equal(id, model->next_id);
    assert_int_equal(snapshot_next_id(model->set), id + 1);
    model->next_id++;
    model->open[model->open_count++] = id;
    return true;
}

static firn_rc expect_number(uint64_t number, void *context)
{
    assert_int_equal(number, *(uint64_t *)context + 1);
    return FIRN_OK;
}

static void model_commit(struct model *model, size_t which)
{
    uint64_t id = model->open[which];
    uint64_t number;
    model->open[which] = model->open[--model->open_count];
    assert_true(snapshot_is_active(model->set, id));
    ASSERT_OK(snapshot_commit(model->set, id, expect_number, &model->newest, &number));
    assert_int_equal(number, ++model->newest);
    model->numbers[id - model->first_id] = number;
    assert_false(snapshot_is_active(model->set, id));
    assert_int_equal(snapshot_number_of(model->set, id), number);
}

static void model_take(struct model *model, struct model_place *place)
{
    snapshot_take(place->snapshot);
    place->is_open = true;
    place->number = model->newest;
    assert_int_equal(snapshot_number(place->snapshot), model->newest);
}

static uint64_t model_horizon(const struct model *model)
{
    uint64_t horizon = model->newest;
    for (size_t i = 0; i < PLACES; i++)
        if (model->places[i].is_open && model->places[i].number < horizon)
            horizon = model->places[i].number;
    return horizon;
}

static void check_place(const struct model *model, const struct model_place *place)
{
    uint64_t low = snapshot_low(place->snapshot);
    for (uint64_t id = model->first_id; id < model->next_id; id++) {
        uint64_t number = model->numbers[id - model->first_id];
        bool sees = number != 0 && number <= place->number;
        if (snapshot_sees(place->snapshot, id) != sees)
            fail_msg("a snapshot of number %llu %s id %llu, committed as %llu",
                     (unsigned long long)place->number, sees ? "misses" : "sees",
                     (unsigned long long)id, (unsigned long long)number);
        assert_true(sees || id >= low);
    }
    assert_true(snapshot_sees(place->snapshot, 0));
    assert_false(snapshot_sees(place->snapshot, model->next_id));
}

static void check(const struct model *model)
{
    uint64_t horizon = model_horizon(model);
    assert_int_equal(snapshot_horizon(model->set), horizon);
    assert_int_equal(snapshot_newest(model->set), model->newest);
    struct snapshot_oldest oldest = {.number = UINT64_MAX};
    bool is_any_open = false;
    for (size_t i = 0; i < PLACES; i++) {
        assert_int_equal(snapshot_is_open(model->places[i].snapshot), model->places[i].is_open);
        is_any_open |= model->places[i].is_open;
        if (model->places[i].is_open)
            check_place(model, &model->places[i]);
    }
    assert_int_equal(snapshot_oldest(model->set, &oldest), is_any_open);
    if (is_any_open)
        assert_int_equal(oldest.number, horizon);
    for (uint64_t id = model->first_id; id < model->next_id; id++) {
        uint64_t number = model->numbers[id - model->first_id];
        uint64_t known = snapshot_number_of(model->set, id);
        if (known != number && (known != 1 || number == 0))
            fail_msg("id %llu is said to be committed as %llu instead of %llu",
                     (unsigned long long)id, (unsigned long long)known, (unsigned long long)number);
    }
}

static void step(struct model *model, struct rng *rng)
{
    struct model_place *place = &model->places[rng_below(rng, PLACES)];
    const struct model_place *other = &model->places[rng_below(rng, PLACES)];
    switch (rng_below(rng, 16)) {
    case 0:
        model_take(model, place);
        break;
    case 1:
        snapshot_end(place->snapshot);
        place->is_open = false;
        break;
    case 2:
        if (place == other || !other->is_open)
            break;
        snapshot_share(place->snapshot, other->snapshot);
        place->is_open = true;
        place->number = other->number;
        break;
    case 3: /* a place comes and goes */
        snapshot_free(place->snapshot);
        ASSERT_OK(snapshot_new(model->set, &place->snapshot));
        place->is_open = false;
        break;
    default:
        /* One transaction stays open for long, the others end in any order. */
        if (model->open_count < OPEN_MAX && rng_below(rng, 2) == 0)
            (void)model_draw(model);
        else if (model->open_count > 1)
            model_commit(model, 1 + rng_below(rng, model->open_count - 1));
        if (model->open_count > 0 && rng_below(rng, 300) == 0)
            model_commit(model, 0);
    }
}

static void run(uint64_t seed, uint32_t ring_ids, bool memory_fails)
{
    struct rng rng;
    struct model model;
    rng_init(&rng, seed);
    model_begin(&model, 1 + rng_below(&rng, 1000), ring_ids);
    model.failing = memory_fails ? &rng : NULL;
    for (unsigned i = 0; model.next_id < model.first_id + 1000; i++) {
        step(&model, &rng);
        if (i % 16 == 0)
            check(&model);
    }
    check(&model);
    model_end(&model);
}

static void each_snapshot_sees_what_was_committed_when_it_was_taken(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    unsigned runs = test_runs(12);
    for (unsigned i = 0; i < runs; i++)
        run(seed + i, 16U << (i % 4), false);
}

static void a_failed_allocation_changes_nothing(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1000);
    unsigned runs = test_runs(6);
    for (unsigned i = 0; i < runs; i++)
        run(seed + i, 16U << (i % 3), true);
}

static firn_rc refuse(uint64_t number, void *context)
{
    *(uint64_t *)context = number;
    return rc_raise(FIRN_E_STOPPED, "no");
}

static void a_commit_that_is_not_recorded_has_not_happened(void **state)
{
    (void)state;
    struct model model;
    uint64_t said;
    model_begin(&model, 1, 16);
    model_draw(&model);
    assert_int_equal(snapshot_commit(model.set, 1, refuse, &said, NULL), FIRN_E_STOPPED);
    assert_int_equal(said, 8);
    check(&model);
    model_commit(&model, 0);
    check(&model);
    model_end(&model);
}

static void ids_of_an_earlier_life_are_open_until_they_are_committed(void **state)
{
    (void)state;
    static const uint64_t adopted[] = {990, 17, 500, 999};
    struct snapshot_set *set;
    struct snapshot *snapshot;
    struct snapshot_options options = {.next_id = 1000, .last_number = 50, .ring_ids = 16};
    ASSERT_OK(snapshot_set_open(&options, &set));
    for (size_t i = 0; i < ARRAY_COUNT(adopted); i++)
        ASSERT_OK(snapshot_adopt_id(set, adopted[i]));
    assert_int_equal(snapshot_adopt_id(set, 1000), FIRN_E_INVALID);
    assert_int_equal(snapshot_adopt_id(set, 0), FIRN_E_INVALID);
    ASSERT_OK(snapshot_new(set, &snapshot));
    snapshot_take(snapshot);
    assert_int_equal(snapshot_low(snapshot), 17);
    uint64_t number;
    for (size_t i = 0; i < ARRAY_COUNT(adopted); i++) {
        assert_true(snapshot_is_active(set, adopted[i]));
        assert_true(snapshot_sees(snapshot, adopted[i] - 1));
        assert_false(snapshot_sees(snapshot, adopted[i]));
        ASSERT_OK(snapshot_commit(set, adopted[i], NULL, NULL, &number));
        assert_int_equal(number, 51 + i);
        assert_false(snapshot_sees(snapshot, adopted[i]));
    }
    snapshot_take(snapshot);
    assert_int_equal(snapshot_low(snapshot), 1000);
    for (size_t i = 0; i < ARRAY_COUNT(adopted); i++)
        assert_true(snapshot_sees(snapshot, adopted[i]));
    snapshot_free(snapshot);
    snapshot_set_close(set);
}

static void ids_have_48_bits(void **state)
{
    (void)state;
    struct snapshot_set *set;
    uint64_t id;
    struct snapshot_options options = {.next_id = TXN_ID_MAX - 1};
    ASSERT_OK(snapshot_set_open(&options, &set));
    ASSERT_OK(snapshot_draw_id(set, &id));
    ASSERT_OK(snapshot_draw_id(set, &id));
    assert_int_equal(id, TXN_ID_MAX);
    assert_int_equal(snapshot_draw_id(set, &id), FIRN_E_STOPPED);
    ASSERT_OK(snapshot_commit(set, TXN_ID_MAX, NULL, NULL, NULL));
    snapshot_set_close(set);
    options.next_id = 0;
    assert_int_equal(snapshot_set_open(&options, &set), FIRN_E_INVALID);
    options.next_id = TXN_ID_MAX + 1;
    assert_int_equal(snapshot_set_open(&options, &set), FIRN_E_INVALID);
}

/* What has been forgotten must be little: a snapshot that stays open while a million others come
 * and go costs what was open when it was taken. */
static void an_old_snapshot_keeps_exceptions_for_what_was_open(void **state)
{
    (void)state;
    struct model model;
    model_begin(&model, 100, 64);
    for (unsigned i = 0; i < 10; i++)
        model_draw(&model);
    model_take(&model, &model.places[0]);
    while (model.open_count > 0)
        model_commit(&model, 0);
    /* Eviction allocates for these ten ids, and never again. */
    for (unsigned i = 0; i < 200; i++) {
        model_draw(&model);
        model_commit(&model, 0);
    }
    check(&model);
    memory_fail_after(0);
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(model_draw(&model));
        model_commit(&model, 0);
    }
    memory_fail_after(-1);
    check(&model);
    model_end(&model);
}

static void opening_survives_every_failed_allocation(void **state)
{
    (void)state;
    struct snapshot_options options = {.next_id = 1};
    struct snapshot_set *set = NULL;
    for (long k = 0; k < 2; k++) {
        memory_fail_after(k);
        assert_int_equal(snapshot_set_open(&options, &set), FIRN_E_NOMEM);
        memory_fail_after(-1);
    }
    ASSERT_OK(snapshot_set_open(&options, &set));
    struct snapshot *snapshot;
    memory_fail_after(0);
    assert_int_equal(snapshot_new(set, &snapshot), FIRN_E_NOMEM);
    memory_fail_after(-1);
    snapshot_set_close(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_snapshot_sees_what_was_committed_when_it_was_taken),
        cmocka_unit_test(a_failed_allocation_changes_nothing),
        cmocka_unit_test(a_commit_that_is_not_recorded_has_not_happened),
        cmocka_unit_test(ids_of_an_earlier_life_are_open_until_they_are_committed),
        cmocka_unit_test(ids_have_48_bits),
        cmocka_unit_test(an_old_snapshot_keeps_exceptions_for_what_was_open),
        cmocka_unit_test(opening_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
