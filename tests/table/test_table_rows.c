/*
 * What users of tables are promised, one thing at a time.
 */
#include "table/table_world.h"

enum { ID, NAME, MAIL, AGE, NOTE, PEOPLE_COLUMNS };

enum { BY_ID, BY_MAIL, BY_NAME_AGE };

static const struct column_spec people_columns[PEOPLE_COLUMNS] = {
    {.name = "id", .type = COLUMN_INT, .is_autoincrement = true},
    {.name = "name", .type = COLUMN_VARCHAR, .length = 20, .collation = COLLATION_UTF8MB4_BIN},
    {.name = "mail",
     .type = COLUMN_VARCHAR,
     .length = 40,
     .collation = COLLATION_ASCII_GENERAL_CI,
     .is_nullable = true},
    {.name = "age",
     .type = COLUMN_TINYINT,
     .is_unsigned = true,
     .default_kind = COLUMN_DEFAULT_CONSTANT,
     .default_value = {.kind = VALUE_UINT, .u = 18}},
    {.name = "note", .type = COLUMN_BLOB, .is_nullable = true},
};

static const struct table_spec people = {
    .name = "shop/people",
    .columns = people_columns,
    .column_count = PEOPLE_COLUMNS,
    .primary = &(const struct index_spec){.is_unique = true,
                                          .parts = &(const struct part_spec){.column = "id"},
                                          .part_count = 1},
    .indexes =
        (const struct index_spec[]){
            {.name = "mail",
             .is_unique = true,
             .parts = &(const struct part_spec){.column = "mail"},
             .part_count = 1},
            {.name = "name_age",
             .parts = (const struct part_spec[]){{.column = "name"},
                                                 {.column = "age", .is_descending = true}},
             .part_count = 2},
        },
    .index_count = 2,
};

struct shop {
    struct world world;
    struct table *table;
    struct table_session *session;
    struct table_session *other;
};

static void open_people(struct shop *shop)
{
    ASSERT_OK(table_open(tables_of(&shop->world), people.name, &shop->table));
    ASSERT_OK(table_session_open(tables_of(&shop->world), &shop->session));
    ASSERT_OK(table_session_open(tables_of(&shop->world), &shop->other));
}

static void close_people(struct shop *shop)
{
    table_session_close(shop->session);
    table_session_close(shop->other);
    table_close(shop->table);
}

static void make_shop(struct shop *shop)
{
    table_world_init(&shop->world, disk_make(), 1, 4096);
    ASSERT_OK(table_world_open(&shop->world));
    ASSERT_OK(table_create(tables_of(&shop->world), &people, TABLE_OWN_FILE));
    open_people(shop);
}

static void end_shop(struct shop *shop)
{
    close_people(shop);
    const char *wrong = table_world_wrong(&shop->world, people.name);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    table_world_close(&shop->world);
}

static void begin(struct table_session *session)
{
    ASSERT_OK(txn_begin(table_session_txn(session), TXN_READ_COMMITTED, false));
}

static void commit(struct table_session *session)
{
    ASSERT_OK(txn_commit(table_session_txn(session)));
}

/* id 0: the next one; age below 0: its default; mail NULL: NULL */
static firn_rc add(struct shop *shop, int64_t id, const char *name, const char *mail, int64_t age,
                   uint64_t *drawn)
{
    struct value values[PEOPLE_COLUMNS] = {
        [ID] = id != 0 ? value_int(id) : value_null(),
        [NAME] = name != NULL ? value_text(name) : value_null(),
        [MAIL] = mail != NULL ? value_text(mail) : value_null(),
        [AGE] = value_int(age),
    };
    uint64_t given[ROW_SET_WORDS] = {0};
    set_column(given, ID);
    set_column(given, NAME);
    set_column(given, MAIL);
    if (age >= 0)
        set_column(given, AGE);
    return table_insert(shop->session, shop->table, values, given, drawn);
}

static struct span key_of(struct shop *shop, int64_t id)
{
    struct value values[PEOPLE_COLUMNS] = {[ID] = value_int(id)};
    struct span key;
    ASSERT_OK(table_key(shop->session, shop->table, values, &key));
    return key;
}

static firn_rc set_age(struct shop *shop, int64_t id, int64_t age)
{
    struct value values[PEOPLE_COLUMNS] = {[AGE] = value_int(age)};
    uint64_t changed[ROW_SET_WORDS] = {0};
    set_column(changed, AGE);
    return table_update(shop->session, shop->table, key_of(shop, id), values, changed);
}

static firn_rc get_by_mail(struct table_session *session, struct table *table, const char *mail,
                           enum txn_lock lock, enum txn_wait wait, struct table_row *row)
{
    struct value values[PEOPLE_COLUMNS] = {[MAIL] = value_text(mail)};
    return table_get(session, table, BY_MAIL, values, NULL, lock, wait, row);
}

static void assert_said(const char *first, const char *second)
{
    if (strstr(firn_error_text(), first) == NULL || strstr(firn_error_text(), second) == NULL)
        fail_msg("\"%s\" does not say %s and %s", firn_error_text(), first, second);
}

/* ---- Rows ---- */

static void a_duplicate_is_told_with_key_and_value(void **state)
{
    (void)state;
    struct shop shop;
    make_shop(&shop);
    begin(shop.session);
    ASSERT_OK(add(&shop, 7, "ada", "ada@x.org", 36, NULL));
    assert_int_equal(add(&shop, 7, "bob", NULL, 20, NULL), FIRN_E_EXISTS);
    assert_said("'7'", "PRIMARY");
    assert_int_equal(table_session_duplicate(shop.session), BY_ID);
    assert_int_equal(add(&shop, 8, "bob", "ADA@x.org", 20, NULL), FIRN_E_EXISTS);
    assert_said("'ADA@x.org'", "mail");
    assert_int_equal(table_session_duplicate(shop.session), BY_MAIL);
    /* What failed left nothing, and the transaction goes on. */
    ASSERT_OK(add(&shop, 8, "bob", "bob@x.org", 20, NULL));
    commit(shop.session);
    end_shop(&shop);
}

static void nulls_do_not_collide(void **state)
{
    (void)state;
    struct shop shop;
    make_shop(&shop);
    begin(shop.session);
    ASSERT_OK(add(&shop, 1, "a", NULL, 1, NULL));
    ASSERT_OK(add(&shop, 2, "a", NULL, 1, NULL));
    commit(shop.session);
    end_shop(&shop);
}

static void a_value_that_does_not_fit_is_told_by_column(void **state)
{
    (void)state;
    struct shop shop;
    make_shop(&shop);
    begin(shop.session);
    assert_int_equal(add(&shop, 1, NULL, NULL, 1, NULL), FIRN_E_INVALID);
    assert_said("name", "NULL");
    assert_int_equal(add(&shop, 1, "a name of more than twenty", NULL, 1, NULL), FIRN_E_INVALID);
    assert_said("name", "too long");
    assert_int_equal(add(&shop, 1, "a", NULL, 256, NULL), FIRN_E_INVALID);
    assert_said("age", "out of range");
    ASSERT_OK(add(&shop, 1, "a", NULL, 255, NULL));
    assert_int_equal(set_age(&shop, 1, 300), FIRN_E_INVALID);
    assert_said("age", "out of range");
    commit(shop.session);
    end_shop(&shop);
}

static void what_is_not_given_gets_its_default(void **state)
{
    (void)state;
    struct shop shop;
    struct table_row row;
    make_shop(&shop);
    begin(shop.session);
    ASSERT_OK(add(&shop, 1, "a", "a@x", -1, NULL));
    ASSERT_OK(get_by_mail(shop.session, shop.table, "a@x", TXN_LOCK_NONE, TXN_WAIT, &row));
    assert_int_equal(row.values[AGE].u, 18);
    assert_int_equal(row.values[NOTE].kind, VALUE_NULL);
    commit(shop.session);
    end_shop(&shop);
}

static void a_row_that_is_gone_is_found_by_no_index(void **state)
{
    (void)state;
    struct shop shop;
    struct table_row row;
    make_shop(&shop);
    begin(shop.session);
    ASSERT_OK(add(&shop, 1, "a", "a@x", 5, NULL));
    commit(shop.session);
    begin(shop.session);
    ASSERT_OK(table_delete(shop.session, shop.table, key_of(&shop, 1)));
    assert_int_equal(get_by_mail(shop.session, shop.table, "a@x", TXN_LOCK_NONE, TXN_WAIT, &row),
                     FIRN_E_NOT_FOUND);
    assert_int_equal(table_delete(shop.session, shop.table, key_of(&shop, 1)), FIRN_E_NOT_FOUND);
    assert_int_equal(set_age(&shop, 1, 6), FIRN_E_NOT_FOUND);
    ASSERT_OK(add(&shop, 2, "b", "a@x", 5, NULL)); /* its unique value is free */
    commit(shop.session);
    end_shop(&shop);
}

static void large_values_come_back_whole(void **state)
{
    (void)state;
    struct shop shop;
    struct table_row row;
    static uint8_t note[200000];
    uint64_t changed[ROW_SET_WORDS] = {0};
    make_shop(&shop);
    for (size_t i = 0; i < sizeof note; i++)
        note[i] = (uint8_t)(i * 7 + i / 255);
    begin(shop.session);
    ASSERT_OK(add(&shop, 1, "a", "a@x", 5, NULL));
    set_column(changed, NOTE);
    struct value values[PEOPLE_COLUMNS] = {[NOTE] = value_bytes(span_of(note, sizeof note))};
    ASSERT_OK(table_update(shop.session, shop.table, key_of(&shop, 1), values, changed));
    ASSERT_OK(set_age(&shop, 1, 6));
    ASSERT_OK(get_by_mail(shop.session, shop.table, "a@x", TXN_LOCK_NONE, TXN_WAIT, &row));
    assert_int_equal(row.values[AGE].u, 6);
    assert_int_equal(row.values[NOTE].bytes.size_bytes, sizeof note);
    assert_memory_equal(row.values[NOTE].bytes.bytes, note, sizeof note);
    commit(shop.session);
    end_shop(&shop);
}

static void a_misuse_is_told(void **state)
{
    (void)state;
    struct shop shop;
    struct table_row row;
    struct table_cursor *cursor;
    struct value nulls[PEOPLE_COLUMNS] = {0};
    uint64_t number;
    make_shop(&shop);
    assert_int_equal(add(&shop, 1, "a", NULL, 1, NULL), FIRN_E_MISUSE); /* no transaction */
    begin(shop.session);
    assert_int_equal(table_get(shop.session, shop.table, BY_NAME_AGE, nulls, NULL, TXN_LOCK_NONE,
                               TXN_WAIT, &row),
                     FIRN_E_MISUSE);
    assert_int_equal(
        table_get(shop.session, shop.table, BY_MAIL, nulls, NULL, TXN_LOCK_NONE, TXN_WAIT, &row),
        FIRN_E_MISUSE);
    assert_int_equal(
        table_cursor_open(shop.session, shop.table, 3, NULL, TXN_LOCK_NONE, TXN_WAIT, &cursor),
        FIRN_E_MISUSE);
    ASSERT_OK(table_cursor_open(shop.session, shop.table, BY_MAIL, NULL, TXN_LOCK_NONE, TXN_WAIT,
                                &cursor));
    assert_int_equal(table_cursor_seek(cursor, TABLE_SEEK_EXACT, nulls, 0), FIRN_E_MISUSE);
    assert_int_equal(table_cursor_seek(cursor, TABLE_SEEK_EXACT, nulls, 2), FIRN_E_MISUSE);
    table_cursor_close(cursor);
    assert_int_equal(table_autoincrement_reserve(shop.session, shop.table, 1, &number, &number),
                     FIRN_OK);
    commit(shop.session);
    end_shop(&shop);
}

/* ---- Autoincrement ---- */

static uint64_t draw(struct shop *shop, bool keep)
{
    uint64_t drawn = 0;
    begin(shop->session);
    ASSERT_OK(add(shop, 0, "a", NULL, 1, &drawn));
    if (keep)
        commit(shop->session);
    else
        ASSERT_OK(txn_rollback(table_session_txn(shop->session)));
    return drawn;
}

static void reopen_people(struct shop *shop, bool crash)
{
    close_people(shop);
    if (crash) {
        store_abandon(shop->world.store);
        shop->world.store = NULL;
        ASSERT_OK(table_world_open(&shop->world));
    } else {
        table_world_reopen(&shop->world);
    }
    open_people(shop);
}

static void no_number_is_given_twice(void **state)
{
    (void)state;
    struct shop shop;
    make_shop(&shop);
    assert_int_equal(draw(&shop, true), 1);
    assert_int_equal(draw(&shop, false), 2); /* a gap, as SQL users know it */
    assert_int_equal(draw(&shop, true), 3);
    reopen_people(&shop, false);
    assert_int_equal(draw(&shop, true), 4); /* closing leaves none */
    begin(shop.session);
    ASSERT_OK(table_delete(shop.session, shop.table, key_of(&shop, 4)));
    commit(shop.session);
    reopen_people(&shop, false);
    assert_int_equal(draw(&shop, true), 5); /* though no row has it any more */
    uint64_t last = 5;
    for (unsigned i = 0; i < 4; i++) {
        reopen_people(&shop, true);
        uint64_t drawn = draw(&shop, true);
        assert_true(drawn > last && drawn <= last + 200);
        last = drawn;
    }
    end_shop(&shop);
}

static void numbers_follow_what_rows_were_given(void **state)
{
    (void)state;
    struct shop shop;
    uint64_t first;
    uint64_t reserved;
    make_shop(&shop);
    begin(shop.session);
    ASSERT_OK(add(&shop, 5000, "a", NULL, 1, NULL));
    ASSERT_OK(add(&shop, -3, "a", NULL, 1, NULL));
    commit(shop.session);
    assert_int_equal(draw(&shop, true), 5001);
    reopen_people(&shop, true);
    assert_true(draw(&shop, true) > 5001);
    ASSERT_OK(table_autoincrement_raise(shop.session, shop.table, 9000));
    assert_int_equal(draw(&shop, true), 9000);
    ASSERT_OK(table_autoincrement_raise(shop.session, shop.table, 10));
    assert_int_equal(draw(&shop, true), 9001);
    table_session_set_autoincrement(shop.session, 3, 10);
    assert_int_equal(draw(&shop, true), 9003);
    assert_int_equal(draw(&shop, true), 9013);
    ASSERT_OK(table_autoincrement_reserve(shop.session, shop.table, 4, &first, &reserved));
    assert_int_equal(first, 9023);
    assert_int_equal(reserved, 4);
    assert_int_equal(draw(&shop, true), 9063);
    end_shop(&shop);
}

static void a_small_range_is_not_lost_in_crashes(void **state)
{
    (void)state;
    struct world world;
    const struct column_spec column = {
        .name = "n", .type = COLUMN_TINYINT, .is_autoincrement = true};
    const struct part_spec part = {.column = "n"};
    const struct index_spec primary = {.is_unique = true, .parts = &part, .part_count = 1};
    const struct table_spec spec = {
        .name = "small", .columns = &column, .column_count = 1, .primary = &primary};
    const struct value none = {.kind = VALUE_NULL};
    uint64_t last = 0;
    table_world_init(&world, disk_make(), 1, 4096);
    ASSERT_OK(table_world_open(&world));
    ASSERT_OK(table_create(tables_of(&world), &spec, TABLE_SYSTEM));
    for (unsigned i = 1; i <= 128; i++) {
        struct table_session *session;
        struct table *table;
        uint64_t drawn = 0;
        ASSERT_OK(table_session_open(tables_of(&world), &session));
        ASSERT_OK(table_open(tables_of(&world), "small", &table));
        begin(session);
        firn_rc rc = table_insert(session, table, &none, NULL, &drawn);
        assert_int_equal(rc, i <= 127 ? FIRN_OK : FIRN_E_INVALID);
        if (rc == FIRN_OK)
            assert_int_equal(drawn, ++last);
        commit(session);
        table_session_close(session);
        table_close(table);
        if (i % 20 == 0) {
            store_abandon(world.store);
            world.store = NULL;
            ASSERT_OK(table_world_open(&world));
        }
    }
    table_world_close(&world);
}

/* ---- Locks ---- */

static void a_locked_row_is_waited_for_refused_or_passed_over(void **state)
{
    (void)state;
    struct shop shop;
    struct table_row row;
    struct table_cursor *cursor;
    make_shop(&shop);
    begin(shop.session);
    ASSERT_OK(add(&shop, 1, "a", "a@x", 1, NULL));
    ASSERT_OK(add(&shop, 2, "a", "b@x", 2, NULL));
    ASSERT_OK(add(&shop, 3, "a", "c@x", 3, NULL));
    commit(shop.session);
    begin(shop.session);
    ASSERT_OK(set_age(&shop, 2, 9));
    begin(shop.other);
    assert_int_equal(
        get_by_mail(shop.other, shop.table, "b@x", TXN_LOCK_EXCLUSIVE, TXN_NOWAIT, &row),
        FIRN_E_BUSY);
    ASSERT_OK(get_by_mail(shop.other, shop.table, "b@x", TXN_LOCK_NONE, TXN_WAIT, &row));
    assert_int_equal(row.values[AGE].u, 2); /* what was committed */
    ASSERT_OK(table_cursor_open(shop.other, shop.table, BY_MAIL, NULL, TXN_LOCK_EXCLUSIVE,
                                TXN_SKIP_LOCKED, &cursor));
    ASSERT_OK(table_cursor_seek(cursor, TABLE_SEEK_FIRST, NULL, 0));
    assert_int_equal(table_cursor_row(cursor).values[ID].i, 1);
    ASSERT_OK(table_cursor_next(cursor));
    assert_int_equal(table_cursor_row(cursor).values[ID].i, 3);
    assert_int_equal(table_cursor_next(cursor), FIRN_E_NOT_FOUND);
    table_cursor_close(cursor);
    commit(shop.other);
    commit(shop.session);
    end_shop(&shop);
}

static void a_write_conflict_is_an_error_and_no_lost_update(void **state)
{
    (void)state;
    struct shop shop;
    struct table_row row;
    struct value ages[PEOPLE_COLUMNS] = {[AGE] = value_int(50)};
    uint64_t changed[ROW_SET_WORDS] = {0};
    set_column(changed, AGE);
    make_shop(&shop);
    begin(shop.session);
    ASSERT_OK(add(&shop, 1, "a", "a@x", 1, NULL));
    commit(shop.session);
    ASSERT_OK(txn_begin(table_session_txn(shop.other), TXN_REPEATABLE_READ, false));
    ASSERT_OK(get_by_mail(shop.other, shop.table, "a@x", TXN_LOCK_NONE, TXN_WAIT, &row));
    begin(shop.session);
    ASSERT_OK(set_age(&shop, 1, 30));
    commit(shop.session);
    assert_int_equal(table_update(shop.other, shop.table, key_of(&shop, 1), ages, changed),
                     FIRN_E_CONFLICT);
    ASSERT_OK(txn_rollback(table_session_txn(shop.other)));
    end_shop(&shop);
}

/* ---- Tables ---- */

static void names_are_taken_once_and_tables_in_use_stay(void **state)
{
    (void)state;
    struct shop shop;
    make_shop(&shop);
    struct table_set *set = tables_of(&shop.world);
    struct table *none;
    assert_int_equal(table_create(set, &people, TABLE_SYSTEM), FIRN_E_EXISTS);
    assert_int_equal(table_drop(set, people.name), FIRN_E_BUSY);
    assert_int_equal(table_drop(set, "nobody"), FIRN_E_NOT_FOUND);
    assert_int_equal(table_open(set, "nobody", &none), FIRN_E_NOT_FOUND);
    close_people(&shop);
    ASSERT_OK(table_drop(set, people.name));
    assert_int_equal(table_open(set, people.name, &none), FIRN_E_NOT_FOUND);
    ASSERT_OK(table_create(set, &people, TABLE_SYSTEM));
    open_people(&shop);
    assert_int_equal(draw(&shop, true), 1); /* another table */
    end_shop(&shop);
}

static void a_table_is_one_file(void **state)
{
    (void)state;
    struct shop shop;
    make_shop(&shop);
    assert_true(file_size(shop.world.system, "db/shop.people.1.firn") > 0);
    close_people(&shop);
    ASSERT_OK(table_drop(tables_of(&shop.world), people.name));
    assert_int_equal(file_size(shop.world.system, "db/shop.people.1.firn"), -1);
    const char *wrong = table_world_wrong(&shop.world, NULL);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    table_world_close(&shop.world);
}

static firn_rc count_table(const char *name, void *context)
{
    unsigned *count = context;
    assert_string_equal(name, people.name);
    ++*count;
    return FIRN_OK;
}

static void tables_are_listed(void **state)
{
    (void)state;
    struct shop shop;
    unsigned count = 0;
    make_shop(&shop);
    ASSERT_OK(table_each(tables_of(&shop.world), count_table, &count));
    assert_int_equal(count, 1);
    end_shop(&shop);
}

/* What changes trees behind the table's back. */
static void the_check_finds_rows_and_entries_that_do_not_agree(void **state)
{
    (void)state;
    struct shop shop;
    make_shop(&shop);
    begin(shop.session);
    ASSERT_OK(add(&shop, 1, "a", "a@x", 1, NULL));
    ASSERT_OK(add(&shop, 2, "b", "b@x", 1, NULL));
    commit(shop.session);
    struct txn_session *txn = table_session_txn(shop.session);
    struct btree *tree = table_tree(shop.table, BY_ID);
    uint8_t copy[32];
    struct span key = key_of(&shop, 2);
    size_t size = key.size_bytes;
    memcpy(copy, key.bytes, size);
    begin(shop.session);
    ASSERT_OK(txn_delete(txn, tree, span_of(copy, size)));
    commit(shop.session);
    const char *wrong = table_wrong(tables_of(&shop.world), people.name);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "an entry has no row"));
    begin(shop.session);
    ASSERT_OK(add(&shop, 2, "c", "c@x", 1, NULL));
    commit(shop.session);
    wrong = table_wrong(tables_of(&shop.world), people.name);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "an entry has other values than its row"));
    close_people(&shop);
    ASSERT_OK(table_drop(tables_of(&shop.world), people.name));
    table_world_close(&shop.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duplicate_is_told_with_key_and_value),
        cmocka_unit_test(nulls_do_not_collide),
        cmocka_unit_test(a_value_that_does_not_fit_is_told_by_column),
        cmocka_unit_test(what_is_not_given_gets_its_default),
        cmocka_unit_test(a_row_that_is_gone_is_found_by_no_index),
        cmocka_unit_test(large_values_come_back_whole),
        cmocka_unit_test(a_misuse_is_told),
        cmocka_unit_test(no_number_is_given_twice),
        cmocka_unit_test(numbers_follow_what_rows_were_given),
        cmocka_unit_test(a_small_range_is_not_lost_in_crashes),
        cmocka_unit_test(a_locked_row_is_waited_for_refused_or_passed_over),
        cmocka_unit_test(a_write_conflict_is_an_error_and_no_lost_update),
        cmocka_unit_test(names_are_taken_once_and_tables_in_use_stay),
        cmocka_unit_test(a_table_is_one_file),
        cmocka_unit_test(tables_are_listed),
        cmocka_unit_test(the_check_finds_rows_and_entries_that_do_not_agree),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
