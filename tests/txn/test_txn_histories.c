/*
 * Random histories: threads run transactions over lists and registers, what they did and saw is
 * written down, and the judge of histories (history.h) says whether their isolation level allows
 * it. On a simulated disk whose power is cut in the middle of them, and on real files beside purge
 * threads. Then the same with layers that are broken on purpose, which must be found out.
 */
#include "history_load.h"

#include "base/inject.h"

enum { CANARY_ROUNDS = 60 };

/* Purge, where the store has no threads for it. */
static void *janitor_main(void *context)
{
    struct field *field = context;
    while (!atomic_load(&field->is_over)) {
        (void)txn_tick(store_transactions(field->world.store));
        clock_pause(clock_real(), 200 * NS_PER_US);
    }
    return NULL;
}

/* ---- A round ---- */

static void yield_now_and_then(const char *point, void *context)
{
    static _Thread_local uint32_t state;
    (void)point;
    (void)context;
    state = state * 1664525 + 1013904223;
    if (state >> 29 == 0)
        sched_yield();
}

static void run_workers(struct field *field, uint64_t seed)
{
    static struct worker workers[SESSIONS];
    pthread_t threads[SESSIONS], janitor;
    atomic_store(&field->is_over, false);
    atomic_store(&field->progress, 0);
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct worker *worker = &workers[i];
        memset(worker, 0, sizeof *worker);
        worker->field = field;
        worker->number = i;
        worker->log = &field->history.logs[i];
        rng_init(&worker->rng, seed * 101 + i);
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, worker), 0);
    }
    assert_int_equal(pthread_create(&janitor, NULL, janitor_main, field), 0);
    for (unsigned i = 0; i < SESSIONS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&field->is_over, true);
    pthread_join(janitor, NULL);
    for (unsigned i = 0; i < SESSIONS; i++)
        if (workers[i].has_failed)
            fail_msg("session %u: %s", i + 1, workers[i].wrong);
}

static firn_rc open_field(struct field *field)
{
    FIRN_TRY(world_open(&field->world));
    return store_tree(field->world.store, "h", STORE_TREE_CREATE | STORE_TREE_VERSIONED,
                      &field->tree);
}

/* ---- The end of a round ---- */

struct decisions {
    char names[SESSIONS][32];
    unsigned count;
};

static firn_rc note_prepared(struct span xid, uint64_t id, void *context)
{
    struct decisions *decisions = context;
    (void)id;
    ENSURE(decisions->count < SESSIONS && xid.size_bytes < sizeof decisions->names[0]);
    memcpy(decisions->names[decisions->count++], xid.bytes, xid.size_bytes);
    return FIRN_OK;
}

/* Somebody decides about what a crash left prepared: either is right. */
static void decide_prepared(struct txn_set *set, struct txn_session *session, struct rng *rng)
{
    struct decisions decisions = {.count = 0};
    ASSERT_OK(txn_each_prepared(set, note_prepared, &decisions));
    for (unsigned i = 0; i < decisions.count; i++) {
        struct span name = span_of_text(decisions.names[i]);
        if (rng_below(rng, 2) == 0)
            ASSERT_OK(txn_commit_prepared(session, name));
        else
            ASSERT_OK(txn_rollback_prepared(session, name));
    }
}

static void read_end_row(struct field *field, struct txn_cursor *cursor)
{
    static int64_t elements[ELEMENTS_MAX];
    struct span payload, key = txn_cursor_key(cursor);
    char text[32] = "", kind;
    unsigned round, number;
    memcpy(text, key.bytes, key.size_bytes < sizeof text - 1 ? key.size_bytes : sizeof text - 1);
    ASSERT_OK(txn_cursor_payload(cursor, &payload));
    assert_int_equal(sscanf(text, "%u/%c%u", &round, &kind, &number), 3);
    if (round != field->round || strchr(text, 'g') != NULL)
        return;
    if (kind == 'r') {
        history_final_value(&field->history, number, (int64_t)get_u64(payload.bytes));
        return;
    }
    size_t count = read_elements(number, payload, elements);
    assert_true(count != SIZE_MAX);
    history_final_list(&field->history, number, elements, count);
}

static void read_end(struct field *field, struct rng *rng)
{
    struct txn_set *set = store_transactions(field->world.store);
    struct txn_session *session;
    struct txn_cursor *cursor;
    ASSERT_OK(txn_settle(set));
    ASSERT_OK(txn_session_open(set, &session));
    decide_prepared(set, session, rng);
    ASSERT_OK(txn_begin(session, TXN_REPEATABLE_READ, true));
    ASSERT_OK(txn_cursor_open(session, field->tree, TXN_LOCK_NONE, TXN_WAIT, &cursor));
    firn_rc rc = txn_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (; rc == FIRN_OK; rc = txn_cursor_next(cursor))
        read_end_row(field, cursor);
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    txn_cursor_close(cursor);
    ASSERT_OK(txn_commit(session));
    txn_session_close(session);
    if (field->history.final_count == 0) /* all is lost, and that is to be judged */
        history_final_value(&field->history, 0, 0);
}

/* @return what is wrong; NULL: nothing. The caller's to free */
static char *judge_round(struct field *field)
{
    struct history_counts counts;
    const char *wrong = history_wrong(&field->history, field->judged, &counts);
    print_message("# %zu transactions, %zu committed, %zu in doubt, %zu dependencies\n",
                  counts.txns, counts.committed, counts.in_doubt, counts.edges);
    return wrong != NULL ? strdup(wrong) : NULL;
}

/* Lose the power, if it has not come to that yet, and come back. */
static firn_rc lose_power(struct field *field, struct rng *rng)
{
    sim_disk_cut(field->world.disk, field->broken == BROKEN_LOST_SYNC ? SIM_CUT_DROP : SIM_CUT_TEAR,
                 rng_next(rng));
    if (field->broken == BROKEN_NOTHING)
        world_count_cut(&field->world);
    world_restore(&field->world, rng_next(rng));
    field->history.is_crashed = true;
    return open_field(field);
}

/* Work, lose the power perhaps, look at what is there, judge. @return as judge_round */
static char *run_round(struct field *field, uint64_t seed, bool cuts)
{
    struct rng rng;
    rng_init(&rng, seed);
    history_init(&field->history);
    field->round++;
    field->may_lose_power = cuts;
    if (cuts && field->broken != BROKEN_LOST_SYNC)
        sim_disk_cut_after(field->world.disk, 50 + rng_below(&rng, 600),
                           all_cuts[rng_below(&rng, ARRAY_COUNT(all_cuts))], rng_next(&rng));
    run_workers(field, rng_next(&rng));
    firn_rc rc = cuts ? lose_power(field, &rng) : FIRN_OK;
    ASSERT_OK(rc);
    read_end(field, &rng);
    char *wrong = judge_round(field);
    history_free(&field->history);
    return wrong;
}

static struct field *make_field(struct sim_disk *disk, enum txn_isolation isolation,
                                enum history_level judged, enum broken broken, uint64_t seed)
{
    struct field *field = calloc(1, sizeof *field);
    world_init(&field->world, disk, seed);
    field->isolation = isolation;
    field->judged = judged;
    field->broken = broken;
    field->txns_a_session = 100;
    ASSERT_OK(open_field(field));
    if (broken == BROKEN_LOST_SYNC) { /* from now on; that it was made is synced */
        ASSERT_OK(store_close(field->world.store));
        field->world.options.canary_skip_log_sync = true;
        ASSERT_OK(open_field(field));
    }
    return field;
}

static void check_field(struct field *field)
{
    struct store_check_result result;
    char text[512] = "";
    ASSERT_OK(txn_tick(store_transactions(field->world.store)));
    firn_rc rc = store_check(field->world.store, 1, world_problem, text, NULL, &result);
    if (rc != FIRN_OK)
        fail_msg("%s", text[0] != '\0' ? text : firn_error_text());
}

/* ---- The store, at each level ---- */

/* What is wrong may be longer than what cmocka shows. */
static void blame(char *wrong)
{
    if (wrong == NULL)
        return;
    fprintf(stderr, "%s\n", wrong);
    free(wrong);
    fail_msg("the store does not keep what its level promises");
}

static void judge_level(enum txn_isolation isolation, enum history_level judged)
{
    uint64_t seed = test_seed(40 + (uint64_t)isolation);
    for (unsigned run = 0; run < test_runs(1); run++) {
        struct sim_disk *disk = disk_make();
        struct field *field = make_field(disk, isolation, judged, BROKEN_NOTHING, seed + run);
        for (unsigned round = 0; round < 5; round++) {
            blame(run_round(field, seed * 1000 + run * 10 + round, round > 0));
            check_field(field);
        }
        print_message("# %u transactions gave up\n", atomic_load(&field->given_up));
        world_end(&field->world);
        sim_disk_destroy(disk);
        free(field);
    }
}

static void test_read_committed(void **state)
{
    (void)state;
    judge_level(TXN_READ_COMMITTED, HISTORY_READ_COMMITTED);
}

static void test_repeatable_read_is_snapshot_isolation(void **state)
{
    (void)state;
    judge_level(TXN_REPEATABLE_READ, HISTORY_SNAPSHOT);
}

static void test_serializable(void **state)
{
    (void)state;
    judge_level(TXN_SERIALIZABLE, HISTORY_SERIALIZABLE);
}

/* Real files, with all the threads that a store has. */
static void test_each_level_on_real_files(void **state)
{
    (void)state;
    uint64_t seed = test_seed(50);
    char directory[300];
    snprintf(directory, sizeof directory, "%s/db", scratch_make());
    struct field *field = calloc(1, sizeof *field);
    world_options(&field->world.options);
    field->world.options.directory = directory;
    field->world.options.background_threads = true;
    field->world.options.flush_log_at_commit = REDO_FLUSH_WRITE;
    field->txns_a_session = 250;
    ASSERT_OK(open_field(field));
    for (unsigned i = 0; i < 3 * test_runs(1); i++) {
        field->isolation = (enum txn_isolation)(i % 3);
        field->judged = (enum history_level)(i % 3);
        blame(run_round(field, seed + i, false));
    }
    check_field(field);
    ASSERT_OK(store_close(field->world.store));
    free(field);
    *strrchr(directory, '/') = '\0';
    scratch_remove(directory);
}

/* ---- Layers that are broken ---- */

/* Round after round until it is found out; what is said must be what is broken. */
static void find_out(enum txn_isolation isolation, enum history_level judged, enum broken broken,
                     const char *const *names, size_t name_count)
{
    uint64_t seed = test_seed(60);
    char *wrong = NULL;
    for (unsigned i = 0; i < CANARY_ROUNDS && wrong == NULL; i++) {
        struct sim_disk *disk = disk_make();
        struct field *field = make_field(disk, isolation, judged, broken, seed + i);
        wrong = run_round(field, seed * 77 + i, broken == BROKEN_LOST_SYNC);
        world_end(&field->world);
        sim_disk_destroy(disk);
        free(field);
    }
    assert_non_null(wrong);
    print_message("# %s\n", wrong);
    bool is_named = false;
    for (size_t i = 0; i < name_count; i++)
        is_named = is_named || strstr(wrong, names[i]) != NULL;
    assert_true(is_named);
    free(wrong);
}

static void test_dirty_reads_are_found_out(void **state)
{
    static const char *const names[] = {"G1a", "G1b", "G1c", "G-single", "nobody", "lost"};
    (void)state;
    find_out(TXN_READ_COMMITTED, HISTORY_READ_COMMITTED, BROKEN_DIRTY_READS, names,
             ARRAY_COUNT(names));
}

static void test_reading_without_a_snapshot_is_found_out(void **state)
{
    static const char *const names[] = {"G-single",     "P4",    "long fork",
                                        "does not see", "wrote", "lost"};
    (void)state;
    find_out(TXN_REPEATABLE_READ, HISTORY_SNAPSHOT, BROKEN_NO_SNAPSHOT, names, ARRAY_COUNT(names));
}

static void test_read_committed_is_no_snapshot_isolation(void **state)
{
    static const char *const names[] = {"G-single", "P4", "long fork"};
    (void)state;
    find_out(TXN_READ_COMMITTED, HISTORY_SNAPSHOT, BROKEN_WEAKER_LEVEL, names, ARRAY_COUNT(names));
}

static void test_snapshot_isolation_is_not_serializable(void **state)
{
    static const char *const names[] = {"write skew"};
    (void)state;
    find_out(TXN_REPEATABLE_READ, HISTORY_SERIALIZABLE, BROKEN_WEAKER_LEVEL, names,
             ARRAY_COUNT(names));
}

static void test_half_commits_are_found_out(void **state)
{
    static const char *const names[] = {"G1",        "G0",     "G-single", "P4",
                                        "long fork", "nobody", "lost"};
    (void)state;
    find_out(TXN_REPEATABLE_READ, HISTORY_SNAPSHOT, BROKEN_ATOMICITY, names, ARRAY_COUNT(names));
}

static void test_commits_that_are_not_synced_are_found_out(void **state)
{
    static const char *const names[] = {"lost commit"};
    (void)state;
    find_out(TXN_REPEATABLE_READ, HISTORY_SNAPSHOT, BROKEN_LOST_SYNC, names, ARRAY_COUNT(names));
}

/* From before the first thread of a store to behind the last. */
static int yield_at_injection_points(void **state)
{
    inject_set(yield_now_and_then, NULL);
    return world_quiet(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_committed),
        cmocka_unit_test(test_repeatable_read_is_snapshot_isolation),
        cmocka_unit_test(test_serializable),
        cmocka_unit_test(test_each_level_on_real_files),
        cmocka_unit_test(test_dirty_reads_are_found_out),
        cmocka_unit_test(test_reading_without_a_snapshot_is_found_out),
        cmocka_unit_test(test_read_committed_is_no_snapshot_isolation),
        cmocka_unit_test(test_snapshot_isolation_is_not_serializable),
        cmocka_unit_test(test_half_commits_are_found_out),
        cmocka_unit_test(test_commits_that_are_not_synced_are_found_out),
    };
    return cmocka_run_group_tests_name("txn_histories", tests, yield_at_injection_points, NULL);
}
