/*
 * Locking reads, gaps, waits and savepoints: scripts (script.h) that say of each statement what it
 * must do.
 */
#include "script.h"

#include "base/inject.h"

enum {
    RC = 1 << TXN_READ_COMMITTED,
    RR = 1 << TXN_REPEATABLE_READ,
    SER = 1 << TXN_SERIALIZABLE,
    ALL = RC | RR | SER,
};

struct lock_case {
    const char *name;
    unsigned levels;
    const char *steps; /* on the rows 10:1,30:3,50:5 */
    const char *final; /* the rows at the end; NULL: as they were */
};

static const struct lock_case locking_reads[] = {
    {"FOR UPDATE excludes FOR SHARE", ALL,
     "T1 lock 10 => 1; T2 share 10 => waits; T1 commit; T2 goes on => 1; T2 commit", NULL},
    {"FOR SHARE goes together, and both hold off FOR UPDATE", ALL,
     "T1 share 10 => 1; T2 share 10 => 1; T3 lock 10 => waits; T1 commit; T3 goes on => waits; "
     "T2 commit; T3 goes on => 1; T3 commit",
     NULL},
    {"who comes later waits behind who waits", ALL,
     "T1 share 10 => 1; T2 lock 10 => waits; T3 share 10 => waits; T1 commit; T2 goes on => 1; "
     "T3 goes on => waits; T2 commit; T3 goes on => 1; T3 commit",
     NULL},
    {"plain reads pass locks by", RC,
     "T1 lock 10 => 1; T1 put 10 2 => ok; T2 get 10 => 1; T1 commit; T2 get 10 => 2; T2 commit",
     "10:2,30:3,50:5"},
    {"plain reads pass locks by, at their moment", RR,
     "T1 lock 10 => 1; T1 put 10 2 => ok; T2 get 10 => 1; T1 commit; T2 get 10 => 1; T2 commit",
     "10:2,30:3,50:5"},
    {"plain reads are locking reads", SER,
     "T1 put 10 2 => ok; T2 get 10 => waits; T1 rollback; T2 goes on => 1; T2 commit", NULL},
    {"unless the transaction only reads", SER,
     "T1 put 10 2 => ok; T2 read-only; T2 get 10 => 1; T2 scan 10 50 => 10:1,30:3,50:5; T1 commit; "
     "T2 get 10 => 1; T3 insert 20 2 => ok; T3 commit; T2 scan 10 50 => 10:1,30:3,50:5; T2 commit",
     "10:2,20:2,30:3,50:5"},
    {"NOWAIT, and the transaction lives on", ALL,
     "T1 lock 10 => 1; T2 lock 10 nowait => busy; T2 share 10 nowait => busy; T2 get 30 => 3; "
     "T1 commit; T2 lock 10 nowait => 1; T2 put 10 7 => ok; T2 commit",
     "10:7,30:3,50:5"},
    {"NOWAIT of a row that somebody has changed", ALL,
     "T1 put 10 2 => ok; T2 lock 10 nowait => busy; T2 lock-scan 10 50 nowait => busy; T1 "
     "rollback; "
     "T2 lock 10 nowait => 1; T2 commit",
     NULL},
    {"NOWAIT behind somebody who waits", ALL,
     "T1 share 10 => 1; T2 lock 10 => waits; T3 share 10 nowait => busy; T1 commit; "
     "T2 goes on => 1; T2 commit",
     NULL},
    {"SKIP LOCKED", ALL,
     "T1 lock 10 => 1; T2 lock 10 skip => busy; T2 lock-scan 10 50 skip => 30:3,50:5; T1 commit; "
     "T2 lock-scan 10 50 skip => 10:1,30:3,50:5; T2 commit",
     NULL},
    {"SKIP LOCKED backward", ALL,
     "T1 lock 30 => 3; T2 back-lock-scan 10 50 skip => 50:5,10:1; T1 commit; T2 commit", NULL},
    {"SKIP LOCKED, of rows that somebody has changed, deleted, inserted", ALL,
     "T1 put 10 2 => ok; T1 delete 30 => ok; T1 insert 40 4 => ok; "
     "T2 lock-scan 10 50 skip => 50:5; T1 rollback; T2 commit",
     NULL},
    {"SKIP LOCKED passes by what is shared, FOR SHARE does not", ALL,
     "T1 share 10 => 1; T2 share-scan 10 30 skip => 10:1,30:3; T2 commit; "
     "T3 lock-scan 10 20 skip => none; T3 commit; T1 commit",
     NULL},
};

static const struct lock_case waits[] = {
    {"after the wait what is there by then is changed", RC,
     "T1 add 10 1 => ok; T2 add 10 1 => waits; T1 commit; T2 goes on => ok; T2 commit",
     "10:3,30:3,50:5"},
    {"after the wait there is a conflict", RR | SER,
     "T1 add 10 1 => ok; T2 add 10 1 => waits; T1 commit; T2 goes on => conflict",
     "10:2,30:3,50:5"},
    {"no conflict with who rolled back", ALL,
     "T1 add 10 1 => ok; T2 add 10 5 => waits; T1 rollback; T2 goes on => ok; T2 commit",
     "10:6,30:3,50:5"},
    {"no conflict with who only locked", ALL,
     "T1 lock 10 => 1; T2 add 10 5 => waits; T1 commit; T2 goes on => ok; T2 commit",
     "10:6,30:3,50:5"},
    {"conflicts without a wait", RR | SER,
     "T1 get 50 => 5; T2 get 50 => 5; T3 put 10 2 => ok; T3 delete 30 => ok; T3 insert 40 4 => ok; "
     "T3 commit; T1 put 10 7 => conflict; T2 put 30 7 => conflict",
     "10:2,40:4,50:5"},
    {"conflict with an insert", RR | SER,
     "T1 get 10 => 1; T2 insert 40 4 => ok; T2 commit; T1 insert 40 7 => conflict; "
     "T3 get 40 => 4; T3 commit",
     "10:1,30:3,40:4,50:5"},
    {"conflicts of locking reads", RR | SER,
     "T1 get 50 => 5; T2 get 50 => 5; T3 put 10 2 => ok; T3 delete 30 => ok; T3 commit; "
     "T1 share 10 => conflict; T2 lock 30 => conflict",
     "10:2,50:5"},
    {"a locking scan locks the rows of its snapshot", RR,
     "T1 get 10 => 1; T2 insert 40 4 => ok; T2 commit; T1 lock-scan 10 50 => 10:1,30:3,50:5; "
     "T3 put 40 7 => ok; T3 commit; T1 commit",
     "10:1,30:3,40:7,50:5"},
    {"each statement sees what is committed by then", RC,
     "T1 scan 10 50 => 10:1,30:3,50:5; T2 insert 20 2 => ok; T2 delete 30 => ok; "
     "T1 scan 10 50 => 10:1,30:3,50:5; T2 commit; T1 scan 10 50 => 10:1,20:2,50:5; T1 commit",
     "10:1,20:2,50:5"},
    {"a row that was deleted meanwhile", RC,
     "T1 delete 10 => ok; T2 lock 10 => waits; T3 add 10 1 => waits; T1 commit; T2 goes on => "
     "none; "
     "T2 commit; T3 goes on => ok; T3 commit",
     "30:3,50:5"},
    {"an insert waits for one of the same key", ALL,
     "T1 insert 20 2 => ok; T2 insert 20 7 => waits; T1 rollback; T2 goes on => ok; T2 commit",
     "10:1,20:7,30:3,50:5"},
    {"and may find it there", RC,
     "T1 insert 20 2 => ok; T2 insert 20 7 => waits; T1 commit; T2 goes on => exists; "
     "T2 put 30 7 => ok; T2 commit",
     "10:1,20:2,30:7,50:5"},
    {"a limit fails the statement alone", ALL,
     "T1 lock 10 => 1; T2 put 50 7 => ok; T2 put 10 7 limit => limit; T2 put 30 7 => ok; T2 "
     "commit; "
     "T1 commit",
     "10:1,30:7,50:7"},
    {"so does a cancel", ALL,
     "T1 lock 10 => 1; T2 get 50 => 5; T2 lock 10 => waits; T2 cancel; T2 goes on => cancelled; "
     "T2 put 30 7 => ok; T2 commit; T1 commit",
     "10:1,30:7,50:5"},
    {"a deadlock takes who closed it", ALL,
     "T1 lock 10 => 1; T2 lock 30 => 3; T1 lock 30 => waits; T2 lock 10 => deadlock; "
     "T1 goes on => 3; T1 commit",
     NULL},
    {"or who has changed least", ALL,
     "T1 lock 10 => 1; T2 put 30 7 => ok; T1 lock 30 => waits; T2 lock 10 => 1; "
     "T1 goes on => deadlock; T2 commit",
     "10:1,30:7,50:5"},
    {"a deadlock of three", ALL,
     "T1 lock 10 => 1; T2 lock 30 => 3; T3 lock 50 => 5; T1 lock 30 => waits; T2 lock 50 => waits; "
     "T3 lock 10 => deadlock; T2 goes on => 5; T2 commit; T1 goes on => 3; T1 commit",
     NULL},
    {"two who share and both want to write", ALL,
     "T1 share 10 => 1; T2 share 10 => 1; T1 put 10 7 => waits; T2 put 10 8 => deadlock; "
     "T1 goes on => ok; T1 commit",
     "10:7,30:3,50:5"},
};

static const struct lock_case gaps[] = {
    {"phantom by insert", SER,
     "T1 scan 10 40 => 10:1,30:3; T2 insert 20 2 => waits; T3 insert 40 4 => waits; "
     "T1 scan 10 40 => 10:1,30:3; T1 commit; T2 goes on => ok; T3 goes on => ok; T2 commit; "
     "T3 commit",
     "10:1,20:2,30:3,40:4,50:5"},
    {"phantom by moving a row into the range", SER,
     "T1 scan 10 20 => 10:1; T2 delete 50 => ok; T2 insert 15 5 => waits; T1 commit; "
     "T2 goes on => ok; T2 commit",
     "10:1,15:5,30:3"},
    {"backward", SER,
     "T1 back-scan 20 40 => 30:3; T2 insert 20 2 => waits; T3 insert 40 4 => waits; "
     "T4 insert 60 6 => ok; T4 commit; T1 back-scan 20 40 => 30:3; T1 commit; T2 goes on => ok; "
     "T3 goes on => ok; T2 rollback; T3 rollback",
     "10:1,30:3,50:5,60:6"},
    {"an empty range", SER,
     "T1 scan 35 45 => none; T2 insert 40 4 => waits; T1 commit; T2 goes on => ok; T2 rollback",
     NULL},
    {"an empty range, backward", SER,
     "T1 back-scan 35 45 => none; T2 insert 40 4 => waits; T1 commit; T2 goes on => ok; T2 "
     "rollback",
     NULL},
    {"behind the last row", SER,
     "T1 scan 60 90 => none; T2 insert 70 7 => waits; T3 insert 990 9 => waits; "
     "T4 insert 40 4 => ok; T4 rollback; T1 commit; T2 goes on => ok; T3 goes on => ok; "
     "T2 rollback; T3 rollback",
     NULL},
    {"behind the last row, backward", SER,
     "T1 back-scan 60 90 => none; T2 insert 70 7 => waits; T1 commit; T2 goes on => ok; T2 "
     "rollback",
     NULL},
    {"in front of the first row", SER,
     "T1 scan 1 5 => none; T2 insert 2 2 => waits; T1 commit; T2 goes on => ok; T2 rollback", NULL},
    {"in front of the first row, backward", SER,
     "T1 back-scan 1 5 => none; T2 insert 2 2 => waits; T1 commit; T2 goes on => ok; T2 rollback",
     NULL},
    {"one row that is not there", SER,
     "T1 get 20 => none; T2 insert 20 2 => waits; T3 insert 25 2 => ok; T3 rollback; "
     "T1 get 20 => none; T1 commit; T2 goes on => ok; T2 rollback",
     NULL},
    {"other gaps are free", SER,
     "T1 scan 30 40 => 30:3; T2 insert 20 2 => ok; T2 insert 60 6 => ok; T2 commit; T1 commit",
     "10:1,20:2,30:3,50:5,60:6"},
    {"weaker levels lock no gaps", RC | RR,
     "T1 lock-scan 10 40 => 10:1,30:3; T1 lock 20 => none; T2 insert 20 2 => ok; "
     "T2 insert 40 4 => ok; T2 commit; T1 commit",
     "10:1,20:2,30:3,40:4,50:5"},
    {"one's own gap is no hindrance, and is split", SER,
     "T1 scan 10 50 => 10:1,30:3,50:5; T1 insert 20 2 => ok; T1 scan 10 50 => 10:1,20:2,30:3,50:5; "
     "T2 insert 15 1 => waits; T3 insert 25 2 => waits; T1 commit; T2 goes on => ok; "
     "T3 goes on => ok; T2 rollback; T3 rollback",
     "10:1,20:2,30:3,50:5"},
    {"one's own insert taken back leaves the gap locked", SER,
     "T1 scan 10 50 => 10:1,30:3,50:5; T1 savepoint; T1 insert 20 2 => ok; T1 back => ok; "
     "T2 insert 15 1 => waits; T3 insert 25 2 => waits; T1 commit; T2 goes on => ok; "
     "T3 goes on => ok; T2 rollback; T3 rollback",
     NULL},
    {"two who lock a gap and both want to insert", SER,
     "T1 scan 10 50 => 10:1,30:3,50:5; T2 scan 10 50 => 10:1,30:3,50:5; T1 insert 20 2 => waits; "
     "T2 insert 40 4 => deadlock; T1 goes on => ok; T1 commit",
     "10:1,20:2,30:3,50:5"},
    {"purge of a row that bears a gap lock", SER,
     "T3 delete 30 => ok; T3 commit; T1 scan 10 50 => 10:1,50:5; T1 purge; T2 insert 20 2 => "
     "waits; "
     "T3 insert 40 4 => waits; T4 insert 30 3 => waits; T1 commit; T2 goes on => ok; "
     "T3 goes on => ok; T4 goes on => ok; T2 rollback; T3 rollback; T4 rollback",
     "10:1,50:5"},
    {"purge of a row that was looked for", SER,
     "T3 delete 30 => ok; T3 commit; T1 get 30 => none; T1 purge; T4 insert 30 3 => waits; "
     "T1 commit; T4 goes on => ok; T4 rollback",
     "10:1,50:5"},
    {"rollback of a row that bears a gap lock", SER,
     "T2 insert 40 4 => ok; T1 scan 31 35 => waits; T2 rollback; T1 goes on => none; "
     "T3 insert 35 3 => waits; T4 insert 45 4 => waits; T1 commit; T3 goes on => ok; "
     "T4 goes on => ok; T3 rollback; T4 rollback",
     NULL},
    {"going back over a row that bears a gap lock", SER,
     "T2 savepoint; T2 insert 40 4 => ok; T1 scan 31 35 => waits; T2 back => ok; "
     "T1 goes on => waits; T2 commit; T1 goes on => none; T3 insert 35 3 => waits; T1 commit; "
     "T3 goes on => ok; T3 rollback",
     NULL},
    {"a scan waits for an insert that is taken back", SER,
     "T2 insert 20 2 => ok; T1 scan 10 15 => waits; T2 rollback; T1 goes on => 10:1; "
     "T3 insert 20 2 => waits; T1 commit; T3 goes on => ok; T3 rollback",
     NULL},
    {"deletes that find nothing have read that", SER,
     "T1 delete 20 => none; T2 insert 20 2 => waits; T1 commit; T2 goes on => ok; T2 rollback",
     NULL},
    {"so have changes that find nothing", SER,
     "T1 add 20 1 => ok; T2 insert 20 2 => waits; T1 commit; T2 goes on => ok; T2 rollback", NULL},
    {"and inserts that find a row", SER,
     "T1 insert 10 7 => exists; T2 delete 10 => waits; T3 get 10 => waits; T1 commit; "
     "T2 goes on => ok; T2 rollback; T3 goes on => 1; T3 commit",
     NULL},
    {"and deletes that find a deleted row", SER,
     "T1 get 10 => 1; T3 delete 30 => ok; T3 commit; T2 delete 30 => none; T3 insert 30 3 => "
     "waits; "
     "T2 commit; T3 goes on => ok; T3 commit; T1 commit",
     NULL},
    {"weaker levels keep nothing of these", RC | RR,
     "T1 delete 20 => none; T1 insert 10 7 => exists; T2 insert 20 2 => ok; T2 delete 10 => ok; "
     "T2 commit; T1 commit",
     "20:2,30:3,50:5"},
};

static const struct lock_case savepoints[] = {
    {"what was locked stays locked", ALL,
     "T1 savepoint; T1 lock 10 => 1; T1 back => ok; T2 lock 10 nowait => busy; T1 commit; T2 "
     "commit",
     NULL},
    {"what was changed stays locked", ALL,
     "T1 savepoint; T1 put 10 7 => ok; T1 back => ok; T1 get 10 => 1; T2 put 10 8 => waits; "
     "T1 commit; T2 goes on => ok; T2 commit",
     "10:8,30:3,50:5"},
    {"what was deleted stays locked", ALL,
     "T1 savepoint; T1 delete 10 => ok; T1 back => ok; T1 get 10 => 1; T2 delete 10 => waits; "
     "T1 rollback; T2 goes on => ok; T2 commit",
     "30:3,50:5"},
    {"what was inserted stays locked", ALL,
     "T1 savepoint; T1 insert 20 2 => ok; T1 back => ok; T1 get 20 => none; "
     "T2 insert 20 7 => waits; T1 commit; T2 goes on => ok; T2 commit",
     "10:1,20:7,30:3,50:5"},
    {"who has waited goes on waiting", ALL,
     "T1 savepoint; T1 put 10 7 => ok; T2 put 10 8 => waits; T1 back => ok; T2 goes on => waits; "
     "T1 put 10 9 => ok; T1 rollback; T2 goes on => ok; T2 commit",
     "10:8,30:3,50:5"},
    {"what was done before stays done", ALL,
     "T1 put 10 7 => ok; T1 savepoint; T1 put 10 8 => ok; T1 put 30 8 => ok; T1 back => ok; "
     "T1 get 10 => 7; T1 get 30 => 3; T1 commit",
     "10:7,30:3,50:5"},
    {"going back to the beginning, and again", ALL,
     "T1 savepoint; T1 put 10 7 => ok; T1 back => ok; T1 put 10 8 => ok; T1 back => ok; "
     "T1 put 30 9 => ok; T1 commit",
     "10:1,30:9,50:5"},
};

/* ---- Running them ---- */

static void run_case(struct world *world, struct btree *tree, const struct lock_case *lock_case,
                     enum txn_isolation isolation)
{
    struct script *script = script_new();
    const char *final = lock_case->final != NULL ? lock_case->final : "10:1,30:3,50:5";
    struct txn_counters counters;
    print_message("# %s, level %d\n", lock_case->name, (int)isolation);
    script_set_rows(world, tree, "10:1,30:3,50:5");
    script_begin(script, world, tree);
    script->isolation = isolation;
    script->is_strict = true;
    script_run(script, lock_case->steps);
    assert_string_equal(script->final, final);
    free(script);
    txn_counters(store_transactions(world->store), &counters);
    assert_int_equal(counters.locks, 0);
}

static void run_cases(const struct lock_case *cases, size_t count)
{
    struct world world;
    struct btree *tree;
    script_open_world(&world, &tree);
    for (size_t i = 0; i < count; i++)
        for (int level = TXN_READ_COMMITTED; level <= TXN_SERIALIZABLE; level++)
            if ((cases[i].levels & 1U << level) != 0)
                run_case(&world, tree, &cases[i], (enum txn_isolation)level);
    script_close_world(&world);
}

static void test_locking_reads(void **state)
{
    (void)state;
    run_cases(locking_reads, ARRAY_COUNT(locking_reads));
}

static void test_what_waits_sees_and_how_waits_end(void **state)
{
    (void)state;
    run_cases(waits, ARRAY_COUNT(waits));
}

static void test_gaps_are_locked_by_serializable_reads(void **state)
{
    (void)state;
    run_cases(gaps, ARRAY_COUNT(gaps));
}

static void test_savepoints_keep_locks(void **state)
{
    (void)state;
    run_cases(savepoints, ARRAY_COUNT(savepoints));
}

/* ---- What happens between a cursor's steps ---- */

/* Somebody else's insert at a moment that an injection point names, once. */
struct intruder {
    const char *point;
    struct txn_session *session;
    struct btree *tree;
    long key;
    bool has_come;
    bool has_inserted;
};

static void intrude(const char *point, void *context)
{
    struct intruder *intruder = context;
    char text[8];
    uint8_t value[8] = {0};
    if (intruder->has_come || strcmp(point, intruder->point) != 0)
        return;
    intruder->has_come = true;
    ENSURE(txn_begin(intruder->session, TXN_SERIALIZABLE, false) == FIRN_OK);
    firn_rc rc = txn_insert(intruder->session, intruder->tree, script_key(intruder->key, text),
                            span_of(value, sizeof value));
    intruder->has_inserted = rc == FIRN_OK;
    ENSURE(rc == FIRN_OK || rc == FIRN_E_LOCK_WAIT);
    ENSURE(txn_commit(intruder->session) == FIRN_OK);
}

/* A scan of one key that is not there, while somebody inserts it: either he is held off, or the
 * scan has seen his row (and says conflict: it came after the snapshot). */
static void scan_beside_insert(struct world *world, struct btree *tree, enum btree_seek seek,
                               const char *point)
{
    struct txn_session *session;
    struct txn_cursor *cursor;
    char text[8];
    struct intruder intruder = {.point = point, .tree = tree, .key = 20};
    script_set_rows(world, tree, "10:1,30:3,50:5");
    ASSERT_OK(txn_session_open(store_transactions(world->store), &session));
    ASSERT_OK(txn_session_open(store_transactions(world->store), &intruder.session));
    txn_session_set_lock_wait(intruder.session, 0);
    ASSERT_OK(txn_begin(session, TXN_SERIALIZABLE, false));
    ASSERT_OK(txn_cursor_open(session, tree, TXN_LOCK_NONE, TXN_WAIT, &cursor));
    inject_set(intrude, &intruder);
    firn_rc rc = txn_cursor_seek(cursor, seek, script_key(20, text));
    inject_set(NULL, NULL);
    assert_true(intruder.has_come);
    if (intruder.has_inserted)
        assert_int_equal(rc, FIRN_E_CONFLICT);
    else if (seek == BTREE_SEEK_EXACT)
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
    else
        assert_int_equal(script_key_number(txn_cursor_key(cursor)),
                         seek == BTREE_SEEK_AT_OR_AFTER ? 30 : 10);
    /* And from here on he is held off in any case. */
    intruder.has_come = false;
    if (!intruder.has_inserted) {
        intrude(point, &intruder);
        assert_false(intruder.has_inserted);
    }
    txn_cursor_close(cursor);
    txn_session_close(intruder.session);
    txn_session_close(session);
}

static void test_no_key_comes_between_looking_and_locking(void **state)
{
    static const enum btree_seek seeks[] = {BTREE_SEEK_EXACT, BTREE_SEEK_AT_OR_AFTER,
                                            BTREE_SEEK_AT_OR_BEFORE};
    struct world world;
    struct btree *tree;
    (void)state;
    if (!test_has_injection())
        skip();
    script_open_world(&world, &tree);
    for (size_t i = 0; i < ARRAY_COUNT(seeks); i++)
        scan_beside_insert(&world, tree, seeks[i], "txn-cursor-sought");
    script_close_world(&world);
}

/* ---- Cursors and one's own changes ---- */

static void test_a_cursor_forgets_what_was_undone(void **state)
{
    struct world world;
    struct btree *tree;
    struct txn_session *session;
    struct txn_cursor *cursor;
    struct txn_savepoint savepoint;
    struct span payload;
    char text[8];
    uint8_t value[8] = {7};
    (void)state;
    script_open_world(&world, &tree);
    for (int level = TXN_READ_COMMITTED; level <= TXN_SERIALIZABLE; level++) {
        script_set_rows(&world, tree, "10:1,30:3,50:5");
        ASSERT_OK(txn_session_open(store_transactions(world.store), &session));
        ASSERT_OK(txn_begin(session, (enum txn_isolation)level, false));
        ASSERT_OK(txn_savepoint(session, &savepoint));
        ASSERT_OK(txn_insert(session, tree, script_key(20, text), span_of(value, sizeof value)));
        ASSERT_OK(txn_put(session, tree, script_key(30, text), span_of(value, sizeof value)));
        ASSERT_OK(txn_cursor_open(session, tree, TXN_LOCK_NONE, TXN_WAIT, &cursor));
        ASSERT_OK(txn_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0)));
        ASSERT_OK(txn_rollback_to(session, &savepoint));
        ASSERT_OK(txn_cursor_next(cursor));
        assert_int_equal(script_key_number(txn_cursor_key(cursor)), 30);
        ASSERT_OK(txn_cursor_payload(cursor, &payload));
        assert_int_equal(script_value(payload), 3);
        txn_cursor_close(cursor);
        txn_session_close(session);
    }
    script_close_world(&world);
}

/* More is undone than there is memory for locks: going back must not fail for that, but under
 * serializable, where what was seen has to stay; then rolling back works. */
static void test_going_back_over_more_rows_than_can_be_locked(void **state)
{
    enum { MANY = 17000, LOCK_MEMORY_BYTES = 1 << 20 };
    struct sim_disk *disk = disk_make();
    struct world world;
    struct btree *tree;
    struct txn_session *session;
    struct txn_savepoint savepoint;
    struct txn_counters counters;
    char text[8];
    uint8_t value[8] = {7};
    (void)state;
    world_init(&world, disk, 1);
    world.options.lock_memory_bytes = LOCK_MEMORY_BYTES;
    ASSERT_OK(world_open(&world));
    ASSERT_OK(store_tree(world.store, "rows", STORE_TREE_CREATE | STORE_TREE_VERSIONED, &tree));
    ASSERT_OK(txn_session_open(store_transactions(world.store), &session));
    for (int level = TXN_READ_COMMITTED; level <= TXN_SERIALIZABLE; level++) {
        ASSERT_OK(txn_begin(session, (enum txn_isolation)level, false));
        ASSERT_OK(txn_savepoint(session, &savepoint));
        for (long key = 0; key < MANY; key++)
            ASSERT_OK(txn_put(session, tree, script_key(key, text), span_of(value, sizeof value)));
        firn_rc rc = txn_rollback_to(session, &savepoint);
        assert_int_equal(rc, level == TXN_SERIALIZABLE ? FIRN_E_NOMEM : FIRN_OK);
        if (rc == FIRN_OK)
            ASSERT_OK(txn_commit(session));
        else
            ASSERT_OK(txn_rollback(session));
        txn_counters(store_transactions(world.store), &counters);
        assert_int_equal(counters.locks, 0);
    }
    txn_session_close(session);
    script_close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locking_reads),
        cmocka_unit_test(test_what_waits_sees_and_how_waits_end),
        cmocka_unit_test(test_gaps_are_locked_by_serializable_reads),
        cmocka_unit_test(test_savepoints_keep_locks),
        cmocka_unit_test(test_no_key_comes_between_looking_and_locking),
        cmocka_unit_test(test_a_cursor_forgets_what_was_undone),
        cmocka_unit_test(test_going_back_over_more_rows_than_can_be_locked),
    };
    return cmocka_run_group_tests_name("txn_locking", tests, world_quiet, NULL);
}
