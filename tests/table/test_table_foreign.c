/*
 * Foreign keys: what they forbid, what they lead to, by themselves and against a model, and between
 * transactions.
 */
#include "table/table_world.h"

#include <pthread.h>

enum { ID, PARENT, COLUMNS };

static const struct part_spec id_part = {.column = "id"};
static const struct part_spec parent_part = {.column = "parent"};
static const struct index_spec by_id = {.is_unique = true, .parts = &id_part, .part_count = 1};
static const struct index_spec by_parent = {
    .name = "by_parent", .parts = &parent_part, .part_count = 1};
static const char *const parent_column = "parent";
static const char *const id_column = "id";

struct play {
    struct world world;
    struct table_session *session;
    struct table_session *other;
};

static void make_play(struct play *play)
{
    table_world_init(&play->world, disk_make(), 1, 4096);
    ASSERT_OK(table_world_open(&play->world));
    ASSERT_OK(table_session_open(tables_of(&play->world), &play->session));
    ASSERT_OK(table_session_open(tables_of(&play->world), &play->other));
}

static void end_play(struct play *play)
{
    table_session_close(play->session);
    table_session_close(play->other);
    const char *wrong = table_world_wrong(&play->world, NULL);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    table_world_close(&play->world);
}

/* A table with an id and a parent's id, which is a foreign key unless `parent` is NULL. */
static firn_rc make_table(struct play *play, const char *name, const char *parent,
                          enum foreign_action on_delete, enum foreign_action on_update)
{
    const struct column_spec columns[COLUMNS] = {
        {.name = "id", .type = COLUMN_INT},
        {.name = "parent",
         .type = COLUMN_INT,
         .is_nullable = true,
         .default_kind = COLUMN_DEFAULT_CONSTANT,
         .default_value = {.kind = VALUE_INT, .i = 99}},
    };
    const struct foreign_spec foreign = {.name = "fk",
                                         .columns = &parent_column,
                                         .parent = parent,
                                         .parent_columns = &id_column,
                                         .column_count = 1,
                                         .on_delete = on_delete,
                                         .on_update = on_update};
    const struct table_spec spec = {.name = name,
                                    .columns = columns,
                                    .column_count = COLUMNS,
                                    .primary = &by_id,
                                    .indexes = &by_parent,
                                    .index_count = 1,
                                    .foreigns = &foreign,
                                    .foreign_count = parent != NULL ? 1 : 0};
    return table_create(tables_of(&play->world), &spec, TABLE_OWN_FILE);
}

static struct table *open_table(struct play *play, const char *name)
{
    struct table *table;
    ASSERT_OK(table_open(tables_of(&play->world), name, &table));
    return table;
}

static void begin(struct table_session *session, enum txn_isolation isolation)
{
    ASSERT_OK(txn_begin(table_session_txn(session), isolation, false));
}

static void commit(struct table_session *session)
{
    ASSERT_OK(txn_commit(table_session_txn(session)));
}

enum { NOBODY = -1 };

static struct value parent_value(int parent)
{
    return parent == NOBODY ? value_null() : value_int(parent);
}

static firn_rc add(struct table_session *session, struct table *table, int id, int parent)
{
    struct value values[COLUMNS] = {value_int(id), parent_value(parent)};
    return table_insert(session, table, values, NULL, NULL);
}

static firn_rc drop_row(struct table_session *session, struct table *table, int id)
{
    struct value values[COLUMNS] = {value_int(id)};
    struct span key;
    FIRN_TRY(table_key(session, table, values, &key));
    return table_delete(session, table, key);
}

static firn_rc change(struct table_session *session, struct table *table, int id, unsigned column,
                      struct value to)
{
    struct value values[COLUMNS] = {value_int(id)};
    uint64_t changed[ROW_SET_WORDS] = {0};
    struct span key;
    FIRN_TRY(table_key(session, table, values, &key));
    values[column] = to;
    set_column(changed, column);
    return table_update(session, table, key, values, changed);
}

enum { ABSENT = -2 };

static int parent_of(struct table_session *session, struct table *table, int id)
{
    struct value values[COLUMNS] = {value_int(id)};
    struct table_row row;
    firn_rc rc = table_get(session, table, 0, values, NULL, TXN_LOCK_NONE, TXN_WAIT, &row);
    if (rc == FIRN_E_NOT_FOUND)
        return ABSENT;
    ASSERT_OK(rc);
    return row.values[PARENT].kind == VALUE_NULL ? NOBODY : (int)row.values[PARENT].i;
}

/* ---- One thing at a time ---- */

static void a_child_needs_its_parent(void **state)
{
    (void)state;
    struct play play;
    make_play(&play);
    ASSERT_OK(make_table(&play, "p", NULL, 0, 0));
    ASSERT_OK(make_table(&play, "c", "p", FOREIGN_RESTRICT, FOREIGN_RESTRICT));
    struct table *p = open_table(&play, "p");
    struct table *c = open_table(&play, "c");
    begin(play.session, TXN_READ_COMMITTED);
    ASSERT_OK(add(play.session, p, 1, NOBODY));
    assert_int_equal(add(play.session, c, 10, 2), FIRN_E_CONSTRAINT);
    assert_non_null(strstr(firn_error_text(), "fk"));
    assert_int_equal(parent_of(play.session, c, 10), ABSENT);
    ASSERT_OK(add(play.session, c, 10, 1));
    ASSERT_OK(add(play.session, c, 11, NOBODY));
    assert_int_equal(change(play.session, c, 11, PARENT, value_int(3)), FIRN_E_CONSTRAINT);
    assert_int_equal(parent_of(play.session, c, 11), NOBODY);
    assert_int_equal(drop_row(play.session, p, 1), FIRN_E_CONSTRAINT);
    assert_int_equal(change(play.session, p, 1, ID, value_int(5)), FIRN_E_CONSTRAINT);
    ASSERT_OK(change(play.session, p, 1, PARENT, value_int(7))); /* nobody refers to that */
    ASSERT_OK(change(play.session, c, 10, PARENT, value_null()));
    ASSERT_OK(drop_row(play.session, p, 1));
    commit(play.session);
    table_close(p);
    table_close(c);
    end_play(&play);
}

static void what_cannot_be_a_foreign_key_is_refused(void **state)
{
    (void)state;
    struct play play;
    make_play(&play);
    assert_int_equal(make_table(&play, "c", "p", 0, 0), FIRN_E_NOT_FOUND);
    const struct column_spec columns[] = {{.name = "id", .type = COLUMN_BIGINT}};
    struct table_spec spec = {
        .name = "p", .columns = columns, .column_count = 1, .primary = &by_id};
    ASSERT_OK(table_create(tables_of(&play.world), &spec, TABLE_SYSTEM));
    assert_int_equal(make_table(&play, "c", "p", 0, 0), FIRN_E_INVALID);
    assert_non_null(strstr(firn_error_text(), "unlike types"));
    spec.name = "q";
    spec.primary = NULL;
    ASSERT_OK(table_create(tables_of(&play.world), &spec, TABLE_SYSTEM));
    assert_int_equal(make_table(&play, "c", "q", 0, 0), FIRN_E_INVALID);
    assert_non_null(strstr(firn_error_text(), "unique"));
    end_play(&play);
}

static void a_table_that_others_refer_to_is_not_dropped(void **state)
{
    (void)state;
    struct play play;
    make_play(&play);
    ASSERT_OK(make_table(&play, "p", "p", FOREIGN_RESTRICT, FOREIGN_RESTRICT));
    ASSERT_OK(make_table(&play, "c", "p", FOREIGN_RESTRICT, FOREIGN_RESTRICT));
    assert_int_equal(table_drop(tables_of(&play.world), "p"), FIRN_E_CONSTRAINT);
    ASSERT_OK(table_drop(tables_of(&play.world), "c"));
    struct table *p = open_table(&play, "p");
    begin(play.session, TXN_READ_COMMITTED);
    ASSERT_OK(add(play.session, p, 1, 1)); /* itself */
    ASSERT_OK(drop_row(play.session, p, 1));
    commit(play.session);
    table_close(p);
    ASSERT_OK(table_drop(tables_of(&play.world), "p"));
    end_play(&play);
}

/* A tree of rows that refer to rows of their own table. */
static void cascades_go_down_and_no_further_than_they_may(void **state)
{
    (void)state;
    struct play play;
    make_play(&play);
    ASSERT_OK(make_table(&play, "t", "t", FOREIGN_CASCADE, FOREIGN_CASCADE));
    struct table *t = open_table(&play, "t");
    begin(play.session, TXN_REPEATABLE_READ);
    ASSERT_OK(add(play.session, t, 0, NOBODY));
    for (int id = 1; id < 14; id++)
        ASSERT_OK(add(play.session, t, id, (id - 1) / 2));
    ASSERT_OK(drop_row(play.session, t, 1));
    for (int id = 0; id < 14; id++) {
        bool is_below = id == 1 || id == 3 || id == 4 || (id >= 7 && id <= 10);
        assert_int_equal(parent_of(play.session, t, id), is_below  ? ABSENT
                                                         : id == 0 ? NOBODY
                                                                   : (id - 1) / 2);
    }
    ASSERT_OK(change(play.session, t, 2, ID, value_int(50)));
    assert_int_equal(parent_of(play.session, t, 5), 50);
    assert_int_equal(parent_of(play.session, t, 6), 50);
    commit(play.session);
    begin(play.session, TXN_REPEATABLE_READ);
    for (int id = 100; id < 120; id++)
        ASSERT_OK(add(play.session, t, id, id == 100 ? NOBODY : id - 1));
    assert_int_equal(drop_row(play.session, t, 100), FIRN_E_CONSTRAINT); /* too deep */
    for (int id = 100; id < 120; id++)
        assert_int_equal(parent_of(play.session, t, id), id == 100 ? NOBODY : id - 1);
    ASSERT_OK(drop_row(play.session, t, 110));
    ASSERT_OK(drop_row(play.session, t, 100));
    commit(play.session);
    table_close(t);
    end_play(&play);
}

static void a_cascade_that_meets_a_refusal_leaves_nothing(void **state)
{
    (void)state;
    struct play play;
    make_play(&play);
    ASSERT_OK(make_table(&play, "a", NULL, 0, 0));
    ASSERT_OK(make_table(&play, "b", "a", FOREIGN_CASCADE, FOREIGN_CASCADE));
    ASSERT_OK(make_table(&play, "c", "b", FOREIGN_RESTRICT, FOREIGN_RESTRICT));
    struct table *a = open_table(&play, "a");
    struct table *b = open_table(&play, "b");
    struct table *c = open_table(&play, "c");
    begin(play.session, TXN_SERIALIZABLE);
    ASSERT_OK(add(play.session, a, 1, NOBODY));
    ASSERT_OK(add(play.session, b, 1, 1));
    ASSERT_OK(add(play.session, b, 2, 1));
    ASSERT_OK(add(play.session, c, 1, 2));
    assert_int_equal(drop_row(play.session, a, 1), FIRN_E_CONSTRAINT);
    assert_int_equal(parent_of(play.session, a, 1), NOBODY);
    assert_int_equal(parent_of(play.session, b, 1), 1);
    assert_int_equal(parent_of(play.session, b, 2), 1);
    ASSERT_OK(drop_row(play.session, c, 1));
    ASSERT_OK(drop_row(play.session, a, 1));
    assert_int_equal(parent_of(play.session, b, 2), ABSENT);
    commit(play.session);
    table_close(a);
    table_close(b);
    table_close(c);
    end_play(&play);
}

/* ---- Between transactions ---- */

static void a_child_that_came_after_the_snapshot_counts(void **state)
{
    (void)state;
    struct play play;
    make_play(&play);
    ASSERT_OK(make_table(&play, "p", NULL, 0, 0));
    ASSERT_OK(make_table(&play, "c", "p", FOREIGN_RESTRICT, FOREIGN_RESTRICT));
    struct table *p = open_table(&play, "p");
    struct table *c = open_table(&play, "c");
    begin(play.session, TXN_READ_COMMITTED);
    ASSERT_OK(add(play.session, p, 1, NOBODY));
    commit(play.session);
    begin(play.other, TXN_REPEATABLE_READ);
    assert_int_equal(parent_of(play.other, p, 1), NOBODY);
    begin(play.session, TXN_READ_COMMITTED);
    ASSERT_OK(add(play.session, c, 1, 1));
    commit(play.session);
    assert_int_equal(parent_of(play.other, c, 1), ABSENT); /* not seen, but there */
    assert_int_equal(drop_row(play.other, p, 1), FIRN_E_CONSTRAINT);
    /* And so does a parent that came after it. */
    begin(play.session, TXN_READ_COMMITTED);
    ASSERT_OK(add(play.session, p, 2, NOBODY));
    commit(play.session);
    ASSERT_OK(add(play.other, c, 2, 2));
    commit(play.other);
    table_close(p);
    table_close(c);
    end_play(&play);
}

struct racer {
    struct play *play;
    struct table *p;
    struct table *c;
    struct rng rng;
    pthread_t thread;
    bool adds;
    char wrong[300];
};

enum { RACES = 150, RACE_PARENTS = 4 };

/* Parents come and go, children too, whatever the others do. */
static firn_rc race_once(struct racer *racer, struct table_session *session)
{
    int id = (int)rng_below(&racer->rng, RACE_PARENTS);
    int child = (int)rng_below(&racer->rng, 20);
    switch (rng_below(&racer->rng, 4)) {
    case 0:
        return add(session, racer->p, id, NOBODY);
    case 1:
        return drop_row(session, racer->p, id);
    case 2:
        return drop_row(session, racer->c, child);
    default:
        return add(session, racer->c, child, id);
    }
}

static void *race(void *context)
{
    struct racer *racer = context;
    struct table_session *session;
    if (table_session_open(tables_of(&racer->play->world), &session) != FIRN_OK)
        return NULL;
    for (unsigned i = 0; i < RACES && racer->wrong[0] == '\0'; i++) {
        struct txn_session *txn = table_session_txn(session);
        firn_rc rc = txn_begin(txn, (enum txn_isolation)rng_below(&racer->rng, 3), false);
        for (unsigned step = 0; step < 2 && rc == FIRN_OK; step++) {
            rc = race_once(racer, session);
            if (rc == FIRN_E_EXISTS || rc == FIRN_E_NOT_FOUND || rc == FIRN_E_CONSTRAINT)
                rc = FIRN_OK;
        }
        firn_rc end_rc = rc == FIRN_OK ? txn_commit(txn) : txn_rollback(txn);
        bool is_expected = rc == FIRN_OK || rc == FIRN_E_DEADLOCK || rc == FIRN_E_CONFLICT;
        if (!is_expected || end_rc != FIRN_OK)
            snprintf(racer->wrong, sizeof racer->wrong, "%d %d: %s", rc, end_rc, firn_error_text());
    }
    table_session_close(session);
    return NULL;
}

/* @return how many children there are; each has its parent */
static unsigned count_children(struct play *play, struct table *p, struct table *c)
{
    struct table_cursor *cursor;
    unsigned count = 0;
    begin(play->session, TXN_REPEATABLE_READ);
    begin(play->other, TXN_REPEATABLE_READ);
    ASSERT_OK(table_cursor_open(play->session, c, 0, NULL, TXN_LOCK_NONE, TXN_WAIT, &cursor));
    firn_rc rc = table_cursor_seek(cursor, TABLE_SEEK_FIRST, NULL, 0);
    for (; rc == FIRN_OK; rc = table_cursor_next(cursor), count++) {
        const struct value *parent = &table_cursor_row(cursor).values[PARENT];
        if (parent->kind != VALUE_NULL)
            assert_int_not_equal(parent_of(play->other, p, (int)parent->i), ABSENT);
    }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    table_cursor_close(cursor);
    commit(play->session);
    commit(play->other);
    return count;
}

static void no_race_leaves_a_child_without_parent(void **state)
{
    (void)state;
    static const enum foreign_action actions[] = {FOREIGN_RESTRICT, FOREIGN_CASCADE,
                                                  FOREIGN_SET_NULL};
    uint64_t seed = test_seed(41);
    for (unsigned a = 0; a < ARRAY_COUNT(actions); a++) {
        struct play play;
        struct racer racers[3] = {0};
        make_play(&play);
        ASSERT_OK(make_table(&play, "p", NULL, 0, 0));
        ASSERT_OK(make_table(&play, "c", "p", actions[a], actions[a]));
        struct table *p = open_table(&play, "p");
        struct table *c = open_table(&play, "c");
        for (unsigned i = 0; i < ARRAY_COUNT(racers); i++) {
            racers[i] = (struct racer){.play = &play, .p = p, .c = c};
            rng_init(&racers[i].rng, seed * 10 + a * 3 + i);
            assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
        }
        for (unsigned i = 0; i < ARRAY_COUNT(racers); i++)
            pthread_join(racers[i].thread, NULL);
        for (unsigned i = 0; i < ARRAY_COUNT(racers); i++)
            if (racers[i].wrong[0] != '\0')
                fail_msg("%s", racers[i].wrong);
        print_message("# %u children\n", count_children(&play, p, c));
        table_close(p);
        table_close(c);
        end_play(&play);
    }
}

/* ---- Against a model ---- */

enum { PARENTS = 6, CHILDREN = 16, OPERATIONS = 150, DEFAULT_PARENT = 99 };

struct model {
    bool parents[100];
    int children[CHILDREN]; /* a parent, NOBODY or ABSENT */
};

/* What becomes of the children of a parent; false: it is forbidden. */
static bool model_follow(struct model *model, enum foreign_action action, int parent, int to)
{
    bool forbidden = false;
    for (unsigned i = 0; i < CHILDREN; i++) {
        if (model->children[i] != parent)
            continue;
        switch (action) {
        case FOREIGN_CASCADE:
            model->children[i] = to;
            break;
        case FOREIGN_SET_NULL:
            model->children[i] = NOBODY;
            break;
        case FOREIGN_SET_DEFAULT:
            model->children[i] = DEFAULT_PARENT;
            forbidden = forbidden || !model->parents[DEFAULT_PARENT];
            break;
        default:
            forbidden = true;
        }
    }
    return !forbidden;
}

static void assert_done(struct model *model, const struct model *after, firn_rc rc, bool allowed)
{
    if (rc != (allowed ? FIRN_OK : FIRN_E_CONSTRAINT))
        fail_msg("%d (%s), but the model says %s", rc, firn_error_text(),
                 allowed ? "allowed" : "forbidden");
    if (allowed)
        *model = *after;
}

static int choose_parent(struct rng *rng)
{
    int parent = (int)rng_below(rng, PARENTS + 1);
    return parent == PARENTS ? DEFAULT_PARENT : parent;
}

static void change_parents(struct play *play, struct model *model, struct table *p, struct rng *rng,
                           enum foreign_action on_delete, enum foreign_action on_update)
{
    struct model after = *model;
    int id = choose_parent(rng);
    int to = choose_parent(rng);
    if (!model->parents[id]) {
        after.parents[id] = true;
        assert_done(model, &after, add(play->session, p, id, NOBODY), true);
    } else if (rng_below(rng, 2) == 0) {
        after.parents[id] = false;
        bool allowed = model_follow(&after, on_delete, id, ABSENT);
        assert_done(model, &after, drop_row(play->session, p, id), allowed);
    } else if (!model->parents[to]) {
        after.parents[id] = false;
        after.parents[to] = true;
        bool allowed = model_follow(&after, on_update, id, to);
        assert_done(model, &after, change(play->session, p, id, ID, value_int(to)), allowed);
    }
}

static void change_children(struct play *play, struct model *model, struct table *c,
                            struct rng *rng)
{
    struct model after = *model;
    int id = (int)rng_below(rng, CHILDREN);
    int parent = rng_below(rng, 6) == 0 ? NOBODY : choose_parent(rng);
    bool allowed = parent == NOBODY || model->parents[parent];
    after.children[id] = parent;
    if (model->children[id] == ABSENT)
        assert_done(model, &after, add(play->session, c, id, parent), allowed);
    else if (rng_below(rng, 3) != 0)
        assert_done(model, &after, change(play->session, c, id, PARENT, parent_value(parent)),
                    allowed);
    else {
        after.children[id] = ABSENT;
        assert_done(model, &after, drop_row(play->session, c, id), true);
    }
}

static void play_actions(uint64_t seed, enum foreign_action on_delete,
                         enum foreign_action on_update)
{
    struct play play;
    struct model model = {.parents = {false}};
    struct model committed;
    struct rng rng;
    rng_init(&rng, seed);
    for (unsigned i = 0; i < CHILDREN; i++)
        model.children[i] = ABSENT;
    make_play(&play);
    ASSERT_OK(make_table(&play, "p", NULL, 0, 0));
    ASSERT_OK(make_table(&play, "c", "p", on_delete, on_update));
    struct table *p = open_table(&play, "p");
    struct table *c = open_table(&play, "c");
    committed = model;
    begin(play.session, TXN_REPEATABLE_READ);
    for (unsigned i = 0; i < OPERATIONS; i++) {
        if (rng_below(&rng, 3) == 0)
            change_parents(&play, &model, p, &rng, on_delete, on_update);
        else
            change_children(&play, &model, c, &rng);
        for (int id = 0; id < CHILDREN; id++)
            assert_int_equal(parent_of(play.session, c, id), model.children[id]);
        if (rng_below(&rng, 12) != 0)
            continue;
        if (rng_below(&rng, 3) == 0) {
            ASSERT_OK(txn_rollback(table_session_txn(play.session)));
            model = committed;
        } else {
            commit(play.session);
            committed = model;
        }
        begin(play.session, (enum txn_isolation)rng_below(&rng, 3));
    }
    commit(play.session);
    table_close(p);
    table_close(c);
    end_play(&play);
}

static void all_actions_do_what_they_say(void **state)
{
    (void)state;
    uint64_t seed = test_seed(43);
    for (int on_delete = FOREIGN_RESTRICT; on_delete <= FOREIGN_SET_DEFAULT; on_delete++)
        for (int on_update = FOREIGN_RESTRICT; on_update <= FOREIGN_SET_DEFAULT; on_update++)
            play_actions(seed * 100 + (unsigned)on_delete * 10 + (unsigned)on_update,
                         (enum foreign_action)on_delete, (enum foreign_action)on_update);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_needs_its_parent),
        cmocka_unit_test(what_cannot_be_a_foreign_key_is_refused),
        cmocka_unit_test(a_table_that_others_refer_to_is_not_dropped),
        cmocka_unit_test(cascades_go_down_and_no_further_than_they_may),
        cmocka_unit_test(a_cascade_that_meets_a_refusal_leaves_nothing),
        cmocka_unit_test(a_child_that_came_after_the_snapshot_counts),
        cmocka_unit_test(no_race_leaves_a_child_without_parent),
        cmocka_unit_test(all_actions_do_what_they_say),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
