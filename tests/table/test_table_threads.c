/*
 * Threads change the same rows and want the same unique values, under every isolation level, while
 * purge runs and readers hold each index against the rows.
 */
#include "table/table_load.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WRITERS = 3, READERS = 1, TXNS = 120, VALUES = 60 };

struct crowd {
    struct world world;
    struct table *table;
    atomic_bool is_over;
    atomic_uint commits;
    atomic_uint retries;
};

struct member {
    struct crowd *crowd;
    struct rng rng;
    pthread_t thread;
    char wrong[300]; /* empty: nothing */
};

static void note(struct member *member, firn_rc rc)
{
    snprintf(member->wrong, sizeof member->wrong, "%d: %s", rc, firn_error_text());
}

/* What transactions that meet must put up with. */
static bool is_retried(firn_rc rc)
{
    return rc == FIRN_E_DEADLOCK || rc == FIRN_E_CONFLICT || rc == FIRN_E_LOCK_WAIT;
}

/* Change a row, whatever it is; that it is there, or is not, or that another row has the value is
   no failure. */
static firn_rc change_any(struct member *member, struct table_session *session)
{
    struct table *table = member->crowd->table;
    unsigned row = (unsigned)rng_below(&member->rng, LOAD_ROWS);
    int64_t value = (int64_t)rng_below(&member->rng, VALUES);
    unsigned kind = (unsigned)rng_below(&member->rng, 4);
    firn_rc rc;
    if (kind == 0)
        rc = load_set(session, table, row, LOAD_GONE, value);
    else
        rc = load_set(session, table, row, value, kind == 1 ? LOAD_GONE : value);
    return rc == FIRN_E_EXISTS || rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static void *write_rows(void *context)
{
    struct member *member = context;
    struct table_session *session;
    if (table_session_open(tables_of(&member->crowd->world), &session) != FIRN_OK)
        return NULL;
    struct txn_session *txn = table_session_txn(session);
    for (unsigned i = 0; i < TXNS && member->wrong[0] == '\0'; i++) {
        enum txn_isolation isolation = (enum txn_isolation)rng_below(&member->rng, 3);
        firn_rc rc = txn_begin(txn, isolation, false);
        for (unsigned change = 0; change < 3 && rc == FIRN_OK; change++) {
            rc = txn_statement(txn);
            if (rc == FIRN_OK)
                rc = change_any(member, session);
        }
        bool keep = rc == FIRN_OK && rng_below(&member->rng, 5) != 0;
        firn_rc end_rc = keep ? txn_commit(txn) : txn_rollback(txn);
        atomic_fetch_add(keep ? &member->crowd->commits : &member->crowd->retries, 1);
        if ((rc != FIRN_OK && !is_retried(rc)) || end_rc != FIRN_OK)
            note(member, rc != FIRN_OK ? rc : end_rc);
    }
    table_session_close(session);
    return NULL;
}

/* Count rows by way of an index; rows that it does not lead to are told by the cursor itself. */
static firn_rc count_rows(struct table_session *session, struct table *table, unsigned index,
                          uint64_t *count, int64_t *sum)
{
    struct table_cursor *cursor;
    *count = 0;
    *sum = 0;
    FIRN_TRY(table_cursor_open(session, table, index, NULL, TXN_LOCK_NONE, TXN_WAIT, &cursor));
    firn_rc rc = table_cursor_seek(cursor, TABLE_SEEK_FIRST, NULL, 0);
    while (rc == FIRN_OK) {
        const struct value *values = table_cursor_row(cursor).values;
        ++*count;
        *sum += (values[LOAD_ID].i + 1) * (values[LOAD_VALUE].i + 7);
        rc = table_cursor_next(cursor);
    }
    table_cursor_close(cursor);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static void *read_rows(void *context)
{
    struct member *member = context;
    struct table_session *session;
    if (table_session_open(tables_of(&member->crowd->world), &session) != FIRN_OK)
        return NULL;
    while (!atomic_load(&member->crowd->is_over) && member->wrong[0] == '\0') {
        uint64_t count[3];
        int64_t sum[3];
        firn_rc rc = txn_begin(table_session_txn(session), TXN_REPEATABLE_READ, true);
        for (unsigned i = 0; i < 3 && rc == FIRN_OK; i++)
            rc = count_rows(session, member->crowd->table, i, &count[i], &sum[i]);
        (void)txn_commit(table_session_txn(session));
        if (rc != FIRN_OK)
            note(member, rc);
        else if (count[0] != count[1] || count[0] != count[2] || sum[0] != sum[1] ||
                 sum[0] != sum[2])
            snprintf(member->wrong, sizeof member->wrong, "indexes show unlike rows");
    }
    table_session_close(session);
    return NULL;
}

static void threads_leave_indexes_that_agree_with_rows(void **state)
{
    (void)state;
    uint64_t seed = test_seed(31);
    unsigned runs = test_runs(1);
    struct crowd *crowd = calloc(1, sizeof *crowd);
    struct member members[WRITERS + READERS] = {0};
    struct table_spec spec = load_spec("first");
    table_world_init(&crowd->world, disk_make(), seed, 4096);
    crowd->world.options.background_threads = true;
    crowd->world.options.flush_log_at_commit = REDO_FLUSH_NONE;
    ASSERT_OK(table_world_open(&crowd->world));
    ASSERT_OK(table_create(tables_of(&crowd->world), &spec, TABLE_OWN_FILE));
    ASSERT_OK(table_open(tables_of(&crowd->world), "first", &crowd->table));
    for (unsigned run = 0; run < runs; run++) {
        atomic_store(&crowd->is_over, false);
        for (unsigned i = 0; i < ARRAY_COUNT(members); i++) {
            members[i].crowd = crowd;
            rng_init(&members[i].rng, seed * 100 + run * 10 + i);
            assert_int_equal(pthread_create(&members[i].thread, NULL,
                                            i < WRITERS ? write_rows : read_rows, &members[i]),
                             0);
        }
        for (unsigned i = 0; i < ARRAY_COUNT(members); i++) {
            if (i == WRITERS)
                atomic_store(&crowd->is_over, true);
            pthread_join(members[i].thread, NULL);
        }
        for (unsigned i = 0; i < ARRAY_COUNT(members); i++)
            if (members[i].wrong[0] != '\0')
                fail_msg("thread %u: %s", i, members[i].wrong);
        const char *wrong = table_world_wrong(&crowd->world, "first");
        if (wrong != NULL)
            fail_msg("%s", wrong);
    }
    print_message("# %u commits, %u given up\n", atomic_load(&crowd->commits),
                  atomic_load(&crowd->retries));
    assert_true(atomic_load(&crowd->commits) > 0);
    table_close(crowd->table);
    table_world_close(&crowd->world);
    free(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_leave_indexes_that_agree_with_rows),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
