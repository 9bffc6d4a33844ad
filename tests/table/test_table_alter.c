/*
 * Changing tables: what is there afterwards, and after power cuts at steps of each change.
 */
#include "table/table_load.h"

struct play {
    struct world world;
    struct table_session *session;
    struct table *table;
};

static void open_play(struct play *play, const char *name)
{
    ASSERT_OK(table_open(tables_of(&play->world), name, &play->table));
    ASSERT_OK(table_session_open(tables_of(&play->world), &play->session));
}

static void close_play(struct play *play)
{
    table_session_close(play->session);
    table_close(play->table);
}

/* A table "first" with some rows. */
static void make_rows(struct world *world, enum table_place place)
{
    struct table_spec spec = load_spec("first");
    struct play play = {.world = *world};
    ASSERT_OK(table_create(tables_of(world), &spec, place));
    open_play(&play, "first");
    ASSERT_OK(txn_begin(table_session_txn(play.session), TXN_READ_COMMITTED, false));
    for (unsigned row = 0; row < LOAD_ROWS; row++)
        ASSERT_OK(load_set(play.session, play.table, row, LOAD_GONE, row * 10));
    ASSERT_OK(txn_commit(table_session_txn(play.session)));
    close_play(&play);
}

static void make_play(struct play *play, enum table_place place)
{
    table_world_init(&play->world, disk_make(), 1, 4096);
    ASSERT_OK(table_world_open(&play->world));
    make_rows(&play->world, place);
}

static void end_play(struct play *play, const char *name)
{
    const char *wrong = table_world_wrong(&play->world, name);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    table_world_close(&play->world);
}

static unsigned count_rows(struct play *play)
{
    int64_t found[LOAD_ROWS];
    unsigned count = 0;
    ASSERT_OK(load_read(play->session, play->table, found));
    for (unsigned row = 0; row < LOAD_ROWS; row++)
        count += found[row] != LOAD_GONE;
    return count;
}

static void a_table_in_use_is_not_changed(void **state)
{
    (void)state;
    struct play play;
    make_play(&play, TABLE_OWN_FILE);
    struct table_set *set = tables_of(&play.world);
    open_play(&play, "first");
    assert_int_equal(table_truncate(set, "first"), FIRN_E_BUSY);
    assert_int_equal(table_rename(set, "first", "other"), FIRN_E_BUSY);
    assert_int_equal(table_drop_index(set, "first", "by_text"), FIRN_E_BUSY);
    close_play(&play);
    assert_int_equal(table_truncate(set, "none"), FIRN_E_NOT_FOUND);
    assert_int_equal(table_drop_column(set, "first", "value"), FIRN_E_INVALID);
    end_play(&play, "first");
}

static void a_column_comes_and_goes_without_touching_rows(void **state)
{
    (void)state;
    struct play play;
    const struct column_spec column = {.name = "more",
                                       .type = COLUMN_INT,
                                       .default_kind = COLUMN_DEFAULT_CONSTANT,
                                       .default_value = {.kind = VALUE_INT, .i = 77}};
    struct value values[LOAD_COLUMNS + 1] = {value_int(5)};
    struct table_row row;
    make_play(&play, TABLE_OWN_FILE);
    struct table_set *set = tables_of(&play.world);
    ASSERT_OK(table_add_column(set, "first", &column, LOAD_COLUMNS, NULL));
    table_world_reopen(&play.world);
    set = tables_of(&play.world);
    open_play(&play, "first");
    ASSERT_OK(txn_begin(table_session_txn(play.session), TXN_READ_COMMITTED, false));
    ASSERT_OK(table_get(play.session, play.table, 0, values, NULL, TXN_LOCK_NONE, TXN_WAIT, &row));
    assert_int_equal(row.values[LOAD_COLUMNS].i, 77);
    assert_int_equal(row.values[LOAD_VALUE].i, 50);
    ASSERT_OK(txn_commit(table_session_txn(play.session)));
    close_play(&play);
    ASSERT_OK(table_drop_column(set, "first", "more"));
    open_play(&play, "first");
    assert_int_equal(table_schema(play.table)->column_count, LOAD_COLUMNS);
    assert_int_equal(count_rows(&play), LOAD_ROWS);
    close_play(&play);
    end_play(&play, "first");
}

static void an_index_goes_with_its_pages(void **state)
{
    (void)state;
    for (int place = TABLE_OWN_FILE; place <= TABLE_SYSTEM; place++) {
        struct play play;
        make_play(&play, (enum table_place)place);
        ASSERT_OK(table_drop_index(tables_of(&play.world), "first", "by_text"));
        open_play(&play, "first");
        assert_int_equal(table_schema(play.table)->index_count, 2);
        assert_int_equal(count_rows(&play), LOAD_ROWS);
        close_play(&play);
        table_world_reopen(&play.world);
        end_play(&play, "first");
    }
}

static void a_table_gets_another_name(void **state)
{
    (void)state;
    struct play play;
    struct table_spec spec = load_spec("third");
    make_play(&play, TABLE_OWN_FILE);
    struct table_set *set = tables_of(&play.world);
    ASSERT_OK(table_create(set, &spec, TABLE_SYSTEM));
    assert_int_equal(table_rename(set, "first", "third"), FIRN_E_EXISTS);
    ASSERT_OK(table_rename(set, "first", "other"));
    assert_int_equal(table_open(set, "first", &play.table), FIRN_E_NOT_FOUND);
    open_play(&play, "other");
    assert_string_equal(table_schema(play.table)->name, "other");
    assert_int_equal(count_rows(&play), LOAD_ROWS);
    close_play(&play);
    end_play(&play, "other");
}

static void a_truncated_table_is_empty_and_usable(void **state)
{
    (void)state;
    for (int place = TABLE_OWN_FILE; place <= TABLE_SYSTEM; place++) {
        struct play play;
        make_play(&play, (enum table_place)place);
        ASSERT_OK(table_truncate(tables_of(&play.world), "first"));
        open_play(&play, "first");
        assert_int_equal(count_rows(&play), 0);
        ASSERT_OK(txn_begin(table_session_txn(play.session), TXN_READ_COMMITTED, false));
        ASSERT_OK(load_set(play.session, play.table, 3, LOAD_GONE, 30));
        ASSERT_OK(txn_commit(table_session_txn(play.session)));
        close_play(&play);
        table_world_reopen(&play.world);
        open_play(&play, "first");
        assert_int_equal(count_rows(&play), 1);
        close_play(&play);
        end_play(&play, "first");
    }
}

/* ---- Cuts ---- */

enum { CHANGES = 6, CUTS_A_CHANGE = 8 };

static firn_rc change(struct table_set *set, unsigned number)
{
    static const struct column_spec column = {
        .name = "more", .type = COLUMN_INT, .is_nullable = true};
    switch (number) {
    case 0:
        return table_add_column(set, "first", &column, 0, NULL);
    case 1:
        return table_drop_index(set, "first", "by_text");
    case 2:
        return table_rename(set, "first", "other");
    case 3:
        return table_truncate(set, "first");
    case 4:
        return table_drop(set, "first");
    default:
        return table_drop_column(set, "first", "text");
    }
}

/* What is there: whether the change is, and how many rows. */
struct found {
    bool is_there;
    const char *name;
    unsigned columns;
    unsigned indexes;
    unsigned rows;
};

static struct found look(struct world *world)
{
    struct play play = {.world = *world};
    struct found found = {.name = "first"};
    firn_rc rc = table_open(tables_of(world), "first", &play.table);
    if (rc == FIRN_E_NOT_FOUND) {
        found.name = "other";
        rc = table_open(tables_of(world), "other", &play.table);
    }
    if (rc == FIRN_E_NOT_FOUND)
        return (struct found){.name = NULL};
    ASSERT_OK(rc);
    table_close(play.table);
    open_play(&play, found.name);
    found.is_there = true;
    found.columns = table_schema(play.table)->column_count;
    found.indexes = table_schema(play.table)->index_count;
    if (found.columns == LOAD_COLUMNS && found.indexes > 1)
        found.rows = count_rows(&play);
    close_play(&play);
    return found;
}

static bool is_alike(const struct found *left, const struct found *right)
{
    return left->is_there == right->is_there && left->columns == right->columns &&
           left->indexes == right->indexes && left->rows == right->rows &&
           (!left->is_there || strcmp(left->name, right->name) == 0);
}

/* @return steps that the change takes, 0 if it was cut */
static uint64_t change_with_cut(const struct sim_disk *base, unsigned number, uint64_t step,
                                enum sim_cut cut, struct found *found)
{
    struct world world;
    uint64_t steps = 0;
    table_world_init(&world, sim_disk_clone(base), step, 4096);
    ASSERT_OK(table_world_open(&world));
    uint64_t first = sim_disk_steps(world.disk);
    if (step > 0)
        sim_disk_cut_after(world.disk, step, cut, step * 7 + number);
    firn_rc rc = change(tables_of(&world), number);
    if (step == 0) {
        ASSERT_OK(rc);
        steps = sim_disk_steps(world.disk) - first;
    } else {
        if (!sim_disk_is_cut(world.disk))
            sim_disk_cut(world.disk, cut, step);
        world_count_cut(&world);
        world_restore(&world, step);
        ASSERT_OK(table_world_open(&world));
    }
    *found = look(&world);
    found->is_there = found->name != NULL;
    const char *wrong = table_world_wrong(&world, found->name);
    if (wrong != NULL)
        fail_msg("change %u, cut at step %llu: %s", number, (unsigned long long)step, wrong);
    world_end(&world);
    sim_disk_destroy(world.disk);
    return steps;
}

static void no_cut_leaves_half_a_change(void **state)
{
    (void)state;
    for (unsigned number = 0; number < CHANGES; number++) {
        struct world world;
        struct found before;
        struct found after;
        struct found found;
        table_world_init(&world, disk_make(), number, 4096);
        ASSERT_OK(table_world_open(&world));
        make_rows(&world, number % 2 == 0 ? TABLE_OWN_FILE : TABLE_SYSTEM);
        if (number == 5)
            ASSERT_OK(table_drop_index(tables_of(&world), "first", "by_text"));
        before = look(&world);
        ASSERT_OK(store_close(world.store));
        world.store = NULL;
        world_end(&world);
        uint64_t steps = change_with_cut(world.disk, number, 0, SIM_CUT_KEEP, &after);
        uint64_t stride = test_tries_all() || steps < CUTS_A_CHANGE ? 1 : steps / CUTS_A_CHANGE;
        assert_false(is_alike(&before, &after));
        for (uint64_t step = 1; step <= steps + 1; step += stride) {
            enum sim_cut cut = all_cuts[step % ARRAY_COUNT(all_cuts)];
            (void)change_with_cut(world.disk, number, step, cut, &found);
            if (!is_alike(&found, &before) && !is_alike(&found, &after))
                fail_msg("change %u, cut at step %llu: half of it is there", number,
                         (unsigned long long)step);
            if (step > steps)
                assert_true(is_alike(&found, &after)); /* it had been acknowledged */
        }
        sim_disk_destroy(world.disk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_in_use_is_not_changed),
        cmocka_unit_test(a_column_comes_and_goes_without_touching_rows),
        cmocka_unit_test(an_index_goes_with_its_pages),
        cmocka_unit_test(a_table_gets_another_name),
        cmocka_unit_test(a_truncated_table_is_empty_and_usable),
        cmocka_unit_test(no_cut_leaves_half_a_change),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
