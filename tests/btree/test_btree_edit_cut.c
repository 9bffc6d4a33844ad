/*
 * Power cuts in edits with companions: what the ledger counts and what the tree holds are of the
 * same moment, whatever was cut; cells that were kept are whole, and can be put back or freed, also
 * when that was cut off.
 */
#include "base/inject.h"
#include "btree/btree_ledger.h"

enum { OPERATIONS = 60, PENDING_MAX = 16, PREPARED_ROWS = 200, UNIVERSE = 400 };

/* What a key had before an operation, and how far the ledger came with it. */
struct undo {
    uint64_t count; /* of the ledger, if it happened */
    uint64_t key;
    bool existed;
    uint64_t number;
    size_t value_bytes;
};

struct trial {
    struct ledger ledger;
    struct undo pending[PENDING_MAX]; /* what nobody has been promised */
    unsigned pending_count;
    uint64_t promised; /* the ledger's count that is durable for sure */
};

static uint64_t ledger_count(struct ledger *ledger)
{
    struct note notes[LEDGER_NOTES];
    return ledger_read(ledger, notes);
}

static firn_rc acknowledge(struct trial *trial)
{
    struct redo *redo = trial->ledger.world.base.redo;
    uint64_t count = ledger_count(&trial->ledger);
    FIRN_TRY(redo_flush(redo, redo_reserved_lsn(redo), REDO_FLUSH_SYNC));
    trial->promised = count;
    trial->pending_count = 0;
    return FIRN_OK;
}

static void note_pending(struct trial *trial, uint64_t key)
{
    struct model *model = &trial->ledger.model;
    uint8_t bytes[WORLD_KEY_BYTES];
    bool found;
    size_t at = model_find(model, ledger_key(bytes, key), &found);
    struct undo *undo = &trial->pending[trial->pending_count++];
    *undo = (struct undo){.count = ledger_count(&trial->ledger) + 1, .key = key, .existed = found};
    if (found) {
        undo->number = model->entries[at].number;
        undo->value_bytes = model->entries[at].value_bytes;
    }
}

static void undo_last(struct trial *trial)
{
    struct model *model = &trial->ledger.model;
    const struct undo *undo = &trial->pending[--trial->pending_count];
    uint8_t bytes[WORLD_KEY_BYTES];
    struct span key = ledger_key(bytes, undo->key);
    bool found;
    size_t at = model_find(model, key, &found);
    if (undo->existed)
        model_put(model, key, undo->number, undo->value_bytes);
    else if (found)
        model_delete(model, at);
}

/* An operation that fails for want of power may have happened. */
static firn_rc do_operation(struct trial *trial, unsigned puts)
{
    struct ledger *ledger = &trial->ledger;
    struct buffer_pool *pool = ledger->world.base.pool;
    struct ledger_operation operation;
    ledger_draw(ledger, puts, &operation);
    if (operation.what != LEDGER_PURGE)
        note_pending(trial, operation.key);
    ledger_follow(&operation);
    FIRN_TRY(ledger_try(&operation, ledger->world.session));
    switch (rng_below(&ledger->rng, 8)) {
    case 0: /* let pages reach the disk */
        FIRN_TRY(buffer_flush(pool, UINT64_MAX));
        return acknowledge(trial);
    case 1:
        FIRN_TRY(buffer_flush(pool, UINT64_MAX));
        return redo_checkpoint(ledger->world.base.redo, buffer_clean_lsn(pool));
    case 2:
    case 3:
        return acknowledge(trial);
    default:
        return trial->pending_count == PENDING_MAX ? acknowledge(trial) : FIRN_OK;
    }
}

/* Between the mini-transactions of one operation, let the log become durable up to there. */
static void flush_between_steps(const char *point, void *context)
{
    struct trial *trial = context;
    struct redo *redo = trial->ledger.world.base.redo;
    if (strcmp(point, "btree-limbo-step") == 0 && rng_below(&trial->ledger.rng, 8) == 0)
        (void)redo_flush(redo, redo_reserved_lsn(redo), REDO_FLUSH_SYNC);
}

/* Work until the power goes. Returns false if it stayed. */
static bool work_until_cut(struct trial *trial, uint64_t steps, enum sim_cut cut)
{
    struct ledger *ledger = &trial->ledger;
    struct sim_disk *disk = ledger->world.options.disk;
    unsigned puts = rng_below(&ledger->rng, 2) == 0 ? 60 : 30;
    firn_rc rc = FIRN_OK;
    sim_disk_cut_after(disk, steps, cut, rng_next(&ledger->rng));
    inject_set(flush_between_steps, trial);
    for (unsigned i = 0; i < OPERATIONS && rc == FIRN_OK; i++)
        rc = do_operation(trial, puts);
    inject_set(NULL, NULL);
    bool was_cut = sim_disk_is_cut(disk);
    if (!was_cut)
        ASSERT_OK(rc);
    sim_disk_cut_after(disk, 0, SIM_CUT_DROP, 0);
    return was_cut;
}

/* Recover, perhaps through further cuts. */
static void recover(struct trial *trial, bool cuts_recovery)
{
    struct world *world = &trial->ledger.world;
    struct rng *rng = &trial->ledger.rng;
    struct sim_disk *disk = world->options.disk;
    world_die(world);
    for (unsigned cuts = 0;; cuts++) {
        if (sim_disk_is_cut(disk))
            sim_disk_restore(disk);
        if (cuts_recovery && cuts < 3)
            sim_disk_cut_after(disk, 1 + rng_below(rng, 12), (enum sim_cut)rng_below(rng, 4),
                               rng_next(rng));
        firn_rc rc = world_recover(world, rng_next(rng));
        sim_disk_cut_after(disk, 0, SIM_CUT_DROP, 0);
        if (rc == FIRN_OK)
            break;
        if (!sim_disk_is_cut(disk))
            ASSERT_OK(rc);
    }
    if (sim_disk_is_cut(disk)) { /* at the last moment */
        world_die(world);
        ASSERT_OK(world_recover(world, 1));
    }
    ledger_open(&trial->ledger);
}

static void judge(struct trial *trial)
{
    struct btree_shape shape;
    uint64_t count = ledger_count(&trial->ledger);
    assert_true(count >= trial->promised);
    while (trial->pending_count > 0 && trial->pending[trial->pending_count - 1].count > count)
        undo_last(trial);
    trial->pending_count = 0;
    assert_true(ledger_content_is_right(&trial->ledger));
    ledger_resume(&trial->ledger);
    ledger_check(&trial->ledger, &shape);
    assert_int_equal(shape.rows, trial->ledger.model.count);
}

/* An environment with some rows, all durable, whose process is dead. */
static void prepare(struct trial *trial, uint64_t seed)
{
    *trial = (struct trial){.promised = 0};
    ledger_make(&trial->ledger, &(struct world_options){.pool_pages = 200}, UNIVERSE, seed);
    struct world *world = &trial->ledger.world;
    while (trial->ledger.model.count < PREPARED_ROWS)
        ASSERT_OK(do_operation(trial, 80));
    ASSERT_OK(acknowledge(trial));
    ASSERT_OK(buffer_flush(world->base.pool, UINT64_MAX));
    ASSERT_OK(redo_checkpoint(world->base.redo, buffer_clean_lsn(world->base.pool)));
    world_die(world);
}

/* The same on a copy of the disk. */
static void trial_clone(struct trial *trial, const struct trial *prepared, uint64_t seed)
{
    const struct model *model = &prepared->ledger.model;
    *trial = *prepared;
    trial->ledger.world = world_clone(&prepared->ledger.world);
    trial->ledger.model = (struct model){.count = 0};
    trial->ledger.value = malloc(LEDGER_VALUE_MAX);
    rng_init(&trial->ledger.rng, seed);
    for (size_t i = 0; i < model->count; i++)
        model_put(&trial->ledger.model, model_key(model, i), model->entries[i].number,
                  model->entries[i].value_bytes);
    ASSERT_OK(world_recover(&trial->ledger.world, seed));
    ledger_open(&trial->ledger);
}

static void prepared_end(struct trial *prepared)
{
    model_free(&prepared->ledger.model);
    free(prepared->ledger.value);
    sim_disk_destroy(prepared->ledger.world.disk);
}

static void a_cut_anywhere_leaves_tree_and_ledger_at_one_moment(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    struct trial prepared;
    unsigned cuts = 0;
    prepare(&prepared, seed);
    for (unsigned run = 0; run < 60 * test_runs(1); run++) {
        struct trial trial;
        trial_clone(&trial, &prepared, seed + 1 + run);
        bool was_cut =
            work_until_cut(&trial, 1 + rng_below(&trial.ledger.rng, 150), all_cuts[run % 4]);
        recover(&trial, was_cut && run % 3 == 0);
        judge(&trial);
        cuts += was_cut;
        for (unsigned i = 0; i < 20; i++) /* and life goes on */
            ASSERT_OK(do_operation(&trial, 50));
        ledger_end(&trial.ledger);
    }
    print_message("# %u cuts\n", cuts);
    assert_true(cuts > 30);
    prepared_end(&prepared);
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
    uint64_t stride = test_runs(1) > 1 ? 1 : 5;
    for (uint64_t step = 1 + seed % stride; was_cut; step += stride, cuts++) {
        struct trial trial;
        trial_clone(&trial, &prepared, seed);
        was_cut = work_until_cut(&trial, step, SIM_CUT_TEAR);
        recover(&trial, false);
        judge(&trial);
        ledger_end(&trial.ledger);
    }
    print_message("# %u cuts\n", cuts);
    assert_true(cuts > 10);
    prepared_end(&prepared);
}

int main(void)
{
    mtr_verify_changes(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_anywhere_leaves_tree_and_ledger_at_one_moment),
        cmocka_unit_test(each_step_of_one_history_can_be_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
