/*
 * Power cuts in trees: splits, merges, large values and bulk builds, cut at any step of what the
 * disk is asked for. What was acknowledged is there, the rest is there up to some operation and not
 * beyond it, and no page belongs to nobody.
 */
#include "base/inject.h"
#include "btree/btree_model.h"

#include "mtr/mtr.h"

enum {
    OPERATIONS = 60,
    PENDING_MAX = 16,
    PREPARED_ROWS = 300,
    VALUE_BYTES_MAX = 40 * PAGE_SIZE_MIN,
};

/* What an operation did to a key, so that it can be undone in the model. */
struct undo {
    uint8_t key[16];
    size_t key_bytes;
    bool existed;
    uint64_t number;
    size_t value_bytes;
};

struct trial {
    struct world world;
    struct model model;
    struct rng rng;
    uint64_t numbers;
    struct undo pending[PENDING_MAX]; /* operations that nobody has been promised */
    unsigned pending_count;
    uint64_t lsn;  /* of the last */
    bool is_large; /* values are chains, as a rule */
    uint8_t *value;
};

static size_t draw_value_bytes(struct trial *trial)
{
    static const size_t most[] = {100, 100, 100, 700, 3 * PAGE_SIZE_MIN, VALUE_BYTES_MAX};
    uint64_t kind = rng_below(&trial->rng, ARRAY_COUNT(most));
    return rng_below(&trial->rng, most[trial->is_large ? ARRAY_COUNT(most) - 1 : kind]);
}

static struct span draw_key(struct trial *trial, uint8_t key[16])
{
    memset(key, 'k', 8);
    put_u64(key + 8, htobe64(rng_below(&trial->rng, PREPARED_ROWS * 2)));
    return span_of(key, 16);
}

static void note_pending(struct trial *trial, struct span key)
{
    bool found;
    size_t at = model_find(&trial->model, key, &found);
    struct undo *undo = &trial->pending[trial->pending_count++];
    *undo = (struct undo){.key_bytes = key.size_bytes, .existed = found};
    memcpy(undo->key, key.bytes, key.size_bytes);
    if (found) {
        undo->number = trial->model.entries[at].number;
        undo->value_bytes = trial->model.entries[at].value_bytes;
    }
}

static void undo_last(struct trial *trial)
{
    struct undo *undo = &trial->pending[--trial->pending_count];
    struct span key = span_of(undo->key, undo->key_bytes);
    bool found;
    size_t at = model_find(&trial->model, key, &found);
    if (undo->existed)
        model_put(&trial->model, key, undo->number, undo->value_bytes);
    else if (found)
        model_delete(&trial->model, at);
}

/* Make durable what was done. */
static firn_rc acknowledge(struct trial *trial)
{
    FIRN_TRY(redo_flush(trial->world.base.redo, trial->lsn, REDO_FLUSH_SYNC));
    trial->pending_count = 0;
    return FIRN_OK;
}

/* An operation that fails for want of power may have happened. */
static firn_rc do_operation(struct trial *trial, unsigned puts)
{
    struct world *world = &trial->world;
    uint8_t key_bytes[16];
    struct span key = draw_key(trial, key_bytes);
    bool found;
    size_t at = model_find(&trial->model, key, &found);
    bool puts_now = !found || rng_below(&trial->rng, 100) < puts;
    note_pending(trial, key);
    if (puts_now) {
        uint64_t number = trial->numbers++;
        size_t size = draw_value_bytes(trial);
        model_put(&trial->model, key, number, size);
        FIRN_TRY(btree_put(world->session, world->tree, key,
                           world_value(trial->value, size, number, 0), &trial->lsn));
    } else {
        model_delete(&trial->model, at);
        FIRN_TRY(btree_delete(world->session, world->tree, key, &trial->lsn));
    }
    switch (rng_below(&trial->rng, 8)) {
    case 0: /* let pages reach the disk before and between operations */
        FIRN_TRY(buffer_flush(world->base.pool, UINT64_MAX));
        return acknowledge(trial);
    case 1:
        FIRN_TRY(buffer_flush(world->base.pool, UINT64_MAX));
        return redo_checkpoint(world->base.redo, buffer_clean_lsn(world->base.pool));
    case 2:
    case 3:
    case 4:
        return acknowledge(trial);
    default:
        return trial->pending_count == PENDING_MAX ? acknowledge(trial) : FIRN_OK;
    }
}

static struct span entry_value(struct trial *trial, size_t at)
{
    const struct model_entry *entry = &trial->model.entries[at];
    return world_value(trial->value, entry->value_bytes, entry->number, 0);
}

/* Is the tree's content the model's? */
static bool content_is_right(struct trial *trial)
{
    struct world *world = &trial->world;
    struct btree_cursor *cursor;
    struct span value;
    bool right = true;
    size_t at = 0;
    ASSERT_OK(btree_cursor_open(&world->base, world->tree, &cursor));
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (; rc == FIRN_OK && right; at++, rc = btree_cursor_next(cursor)) {
        right = at < trial->model.count &&
                span_compare(btree_cursor_key(cursor), model_key(&trial->model, at)) == 0;
        if (right)
            ASSERT_OK(btree_cursor_value(cursor, &value));
        right = right && span_compare(value, entry_value(trial, at)) == 0;
    }
    btree_cursor_close(cursor);
    return right && at == trial->model.count;
}

/* Recover, through further cuts, and judge. */
static void recover_and_judge(struct trial *trial, bool cuts_recovery)
{
    struct world *world = &trial->world;
    struct btree_shape shape;
    world_die(world);
    for (unsigned cuts = 0;; cuts++) {
        if (sim_disk_is_cut(world->options.disk))
            sim_disk_restore(world->options.disk);
        if (cuts_recovery && cuts < 3)
            sim_disk_cut_after(world->options.disk, 1 + rng_below(&trial->rng, 12),
                               (enum sim_cut)rng_below(&trial->rng, 4), rng_next(&trial->rng));
        firn_rc rc = world_recover(world, rng_next(&trial->rng));
        sim_disk_cut_after(world->options.disk, 0, SIM_CUT_DROP, 0);
        if (rc == FIRN_OK)
            break;
        if (!sim_disk_is_cut(world->options.disk))
            ASSERT_OK(rc);
        test_count(TEST_CUTS, 1);
    }
    if (sim_disk_is_cut(world->options.disk)) { /* at the last moment */
        world_die(world);
        ASSERT_OK(world_recover(world, 1));
    }
    world_check(world, &shape);
    while (!content_is_right(trial)) {
        if (trial->pending_count == 0)
            fail_msg("what was acknowledged is not what is there");
        undo_last(trial);
    }
    trial->pending_count = 0;
}

static void trial_init(struct trial *trial, uint64_t seed)
{
    *trial = (struct trial){.numbers = 0};
    rng_init(&trial->rng, seed);
    trial->value = malloc(VALUE_BYTES_MAX);
}

static void trial_end(struct trial *trial)
{
    model_free(&trial->model);
    free(trial->value);
    world_drop(&trial->world);
}

/* An environment with some rows, all durable and checkpointed, whose process is dead. */
static void prepare(struct trial *trial, uint64_t seed)
{
    trial_init(trial, seed);
    world_make(&trial->world, &(struct world_options){.pool_pages = 200});
    while (trial->model.count < PREPARED_ROWS)
        ASSERT_OK(do_operation(trial, 100));
    ASSERT_OK(buffer_flush(trial->world.base.pool, UINT64_MAX));
    ASSERT_OK(redo_checkpoint(trial->world.base.redo, buffer_clean_lsn(trial->world.base.pool)));
    trial->pending_count = 0;
    world_die(&trial->world);
}

/* The same rows on a copy of the disk. */
static void trial_clone(struct trial *trial, const struct trial *prepared, uint64_t seed)
{
    trial_init(trial, seed);
    trial->world = world_clone(&prepared->world);
    trial->numbers = prepared->numbers;
    for (size_t i = 0; i < prepared->model.count; i++)
        model_put(&trial->model, model_key(&prepared->model, i), prepared->model.entries[i].number,
                  prepared->model.entries[i].value_bytes);
    ASSERT_OK(world_recover(&trial->world, seed));
}

/* Between the mini-transactions of one operation, let the log become durable up to there. */
static void flush_between_steps(const char *point, void *context)
{
    struct trial *trial = context;
    struct redo *redo = trial->world.base.redo;
    if (strcmp(point, "btree-limbo-step") == 0 && rng_below(&trial->rng, 8) == 0)
        (void)redo_flush(redo, redo_reserved_lsn(redo), REDO_FLUSH_SYNC);
}

/* Work until the power goes. Returns false if it stayed. */
static bool work_until_cut(struct trial *trial, uint64_t steps, enum sim_cut cut)
{
    unsigned puts = rng_below(&trial->rng, 2) == 0 ? 70 : 20;
    firn_rc rc = FIRN_OK;
    sim_disk_cut_after(trial->world.options.disk, steps, cut, rng_next(&trial->rng));
    inject_set(flush_between_steps, trial);
    for (unsigned i = 0; i < OPERATIONS && rc == FIRN_OK; i++)
        rc = do_operation(trial, puts);
    inject_set(NULL, NULL);
    bool was_cut = sim_disk_is_cut(trial->world.options.disk);
    if (!was_cut)
        ASSERT_OK(rc);
    test_count(TEST_CUTS, was_cut);
    sim_disk_cut_after(trial->world.options.disk, 0, SIM_CUT_DROP, 0);
    return was_cut;
}

static void a_cut_anywhere_keeps_what_was_acknowledged(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    struct trial prepared;
    prepare(&prepared, seed);
    for (unsigned run = 0, runs = test_runs(60); run < runs; run++) {
        struct trial trial;
        trial_clone(&trial, &prepared, seed + 1 + run);
        enum sim_cut cut = all_cuts[run % 4];
        trial.is_large = run % 8 >= 4;
        bool was_cut = work_until_cut(&trial, 1 + rng_below(&trial.rng, 150), cut);
        recover_and_judge(&trial, was_cut && run % 3 == 0);
        /* And life goes on. */
        for (unsigned i = 0; i < 20; i++)
            ASSERT_OK(do_operation(&trial, 50));
        trial_end(&trial);
    }
    model_free(&prepared.model);
    free(prepared.value);
    sim_disk_destroy(prepared.world.disk);
}

static void each_step_of_one_history_can_be_cut(void **state)
{
    (void)state;
    uint64_t seed = test_seed(2);
    struct trial prepared;
    bool was_cut = true;
    unsigned cuts = 0;
    prepare(&prepared, seed);
    /* By day each fifth step of it, by night all. */
    uint64_t stride = test_tries_all() ? 1 : 5;
    for (uint64_t step = 1 + seed % stride; was_cut; step += stride, cuts++) {
        struct trial trial;
        trial_clone(&trial, &prepared, seed);
        was_cut = work_until_cut(&trial, step, SIM_CUT_TEAR);
        recover_and_judge(&trial, false);
        trial_end(&trial);
    }
    assert_true(cuts > 10);
    model_free(&prepared.model);
    free(prepared.value);
    sim_disk_destroy(prepared.world.disk);
}

/* A build is there wholly or not at all. */
static void a_build_that_is_cut_off_leaves_nothing(void **state)
{
    (void)state;
    enum { ROWS = 600 };
    uint64_t seed = test_seed(3);
    bool was_cut = true;
    struct trial empty;
    trial_init(&empty, seed);
    world_make(&empty.world, &(struct world_options){.pool_pages = 64});
    ASSERT_OK(buffer_flush(empty.world.base.pool, UINT64_MAX));
    world_die(&empty.world);
    unsigned stride = test_tries_all() ? 3 : 29;
    for (uint64_t step = 1 + seed % stride; was_cut; step += stride) {
        struct trial trial;
        struct btree_build *build;
        uint8_t key[WORLD_KEY_BYTES];
        uint64_t lsn = 0;
        struct btree_shape shape;
        trial_clone(&trial, &empty, seed + step);
        struct world *world = &trial.world;
        sim_disk_cut_after(world->options.disk, step, SIM_CUT_TEAR, step);
        firn_rc rc = btree_build_begin(world->session, world->tree, 90, &build);
        if (rc == FIRN_OK) {
            for (uint64_t i = 0; i < ROWS && rc == FIRN_OK; i++) {
                size_t size = draw_value_bytes(&trial);
                rc =
                    btree_build_add(build, world_key(key, i), world_value(trial.value, size, i, 0));
            }
            if (rc == FIRN_OK)
                rc = btree_build_finish(build, &lsn);
            else
                btree_build_abandon(build);
        }
        if (rc == FIRN_OK)
            rc = redo_flush(world->base.redo, lsn, REDO_FLUSH_SYNC);
        was_cut = sim_disk_is_cut(world->options.disk);
        test_count(TEST_CUTS, was_cut);
        if (!was_cut)
            ASSERT_OK(rc);
        sim_disk_cut_after(world->options.disk, 0, SIM_CUT_DROP, 0);
        world_die(world);
        ASSERT_OK(world_recover(world, 1));
        world_check(world, &shape);
        if (rc == FIRN_OK)
            assert_int_equal(shape.rows, ROWS);
        else if (shape.rows != ROWS)
            assert_int_equal(world_tree_pages(world), 1);
        trial_end(&trial);
    }
    model_free(&empty.model);
    free(empty.value);
    sim_disk_destroy(empty.world.disk);
}

int main(void)
{
    mtr_verify_changes(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_anywhere_keeps_what_was_acknowledged),
        cmocka_unit_test(each_step_of_one_history_can_be_cut),
        cmocka_unit_test(a_build_that_is_cut_off_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
