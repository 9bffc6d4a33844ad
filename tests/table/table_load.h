/*
 * table_load.h -- a load of transactions and of tables that come and go, and the model that judges
 * what a crash left of it.
 *
 * Each transaction changes several rows of one table with two secondary indexes, so that what is
 * there is the state after some number of transactions or it is wrong. Beside it a second table is
 * made and dropped again and again.
 */
#ifndef FIRN_TESTS_TABLE_LOAD_H
#define FIRN_TESTS_TABLE_LOAD_H

#include "table/table_world.h"

enum { LOAD_ROWS = 24, LOAD_TXNS_MAX = 120, LOAD_GONE = -1 };

/** What the second table is known to be. */
enum load_table { LOAD_TABLE_ABSENT, LOAD_TABLE_THERE, LOAD_TABLE_UNKNOWN };

struct load {
    struct rng rng;
    unsigned begun; /* transactions whose commit was begun */
    unsigned acked;
    int64_t states[LOAD_TXNS_MAX + 1][LOAD_ROWS]; /* after so many transactions */
    enum load_table second;
};

static inline void load_init(struct load *load, uint64_t seed)
{
    *load = (struct load){.begun = 0};
    rng_init(&load->rng, seed);
    for (unsigned row = 0; row < LOAD_ROWS; row++)
        load->states[0][row] = LOAD_GONE;
}

enum { LOAD_ID, LOAD_VALUE, LOAD_TEXT, LOAD_COLUMNS };

static const struct column_spec load_columns[LOAD_COLUMNS] = {
    {.name = "id", .type = COLUMN_INT},
    {.name = "value", .type = COLUMN_BIGINT},
    {.name = "text", .type = COLUMN_VARCHAR, .length = 2000, .collation = COLLATION_LATIN1_BIN},
};

static inline struct table_spec load_spec(const char *name)
{
    static const struct part_spec parts[] = {{.column = "id"},
                                             {.column = "value", .is_descending = true},
                                             {.column = "text", .prefix = 12}};
    static const struct index_spec primary = {
        .is_unique = true, .parts = &parts[0], .part_count = 1};
    static const struct index_spec indexes[] = {
        {.name = "by_value", .is_unique = true, .parts = &parts[1], .part_count = 1},
        {.name = "by_text", .parts = &parts[2], .part_count = 1},
    };
    return (struct table_spec){.name = name,
                               .columns = load_columns,
                               .column_count = LOAD_COLUMNS,
                               .primary = &primary,
                               .indexes = indexes,
                               .index_count = 2};
}

/** The row that has a value: all else follows from it. */
static inline void load_row(unsigned row, int64_t value, char text[2001],
                            struct value values[LOAD_COLUMNS])
{
    size_t size = (size_t)(20 + value * 7 % 60 + (value % 10 == 3 ? 1900 : 0));
    for (size_t i = 0; i < size; i++)
        text[i] = (char)('a' + ((size_t)value * 31 + i * i) % 26);
    text[size] = '\0';
    values[LOAD_ID] = value_int(row);
    values[LOAD_VALUE] = value_int(value);
    values[LOAD_TEXT] = value_text(text);
}

static inline firn_rc load_set(struct table_session *session, struct table *table, unsigned row,
                               int64_t old, int64_t new)
{
    char text[2001];
    struct value values[LOAD_COLUMNS];
    uint64_t changed[ROW_SET_WORDS] = {0};
    struct span key;
    load_row(row, new == LOAD_GONE ? 0 : new, text, values);
    if (old == LOAD_GONE)
        return new == LOAD_GONE ? FIRN_OK : table_insert(session, table, values, NULL, NULL);
    FIRN_TRY(table_key(session, table, values, &key));
    if (new == LOAD_GONE)
        return table_delete(session, table, key);
    set_column(changed, LOAD_VALUE);
    set_column(changed, LOAD_TEXT);
    return table_update(session, table, key, values, changed);
}

/** The next transaction; what it leaves is noted before it commits. */
static inline firn_rc load_transaction(struct load *load, struct table_session *session,
                                       struct table *table)
{
    struct txn_session *txn = table_session_txn(session);
    unsigned number = load->begun + 1;
    const int64_t *before = load->states[load->begun];
    int64_t *after = load->states[number];
    assert_true(number <= LOAD_TXNS_MAX);
    memcpy(after, before, LOAD_ROWS * sizeof *after);
    FIRN_TRY(txn_begin(txn, TXN_REPEATABLE_READ, false));
    firn_rc rc = FIRN_OK;
    for (unsigned i = 0; i < 4 && rc == FIRN_OK; i++) {
        unsigned row = (unsigned)rng_below(&load->rng, LOAD_ROWS);
        int64_t new = rng_below(&load->rng, 4) == 0 ? LOAD_GONE : (int64_t)number * 8 + i;
        rc = load_set(session, table, row, after[row], new);
        after[row] = new;
    }
    bool give_up = rng_below(&load->rng, 6) == 0;
    if (rc != FIRN_OK || give_up) {
        char text[512];
        snprintf(text, sizeof text, "%s", firn_error_text());
        firn_rc rollback_rc = txn_rollback(txn);
        return rc != FIRN_OK ? rc_raise(rc, "%s", text) : rollback_rc;
    }
    load->begun = number;
    FIRN_TRY(txn_commit(txn));
    load->acked = number;
    return FIRN_OK;
}

/** Make the second table, or drop it. */
static inline firn_rc load_second(struct load *load, struct table_set *set)
{
    struct table_spec spec = load_spec("second");
    enum load_table before = load->second;
    enum table_place place = rng_below(&load->rng, 2) == 0 ? TABLE_OWN_FILE : TABLE_SYSTEM;
    load->second = LOAD_TABLE_UNKNOWN;
    if (before == LOAD_TABLE_THERE)
        FIRN_TRY(table_drop(set, "second"));
    else
        FIRN_TRY(table_create(set, &spec, place));
    load->second = before == LOAD_TABLE_THERE ? LOAD_TABLE_ABSENT : LOAD_TABLE_THERE;
    return FIRN_OK;
}

/** Open the store and the first table, which is made if it is not there. */
static inline firn_rc load_open(struct world *world, struct table **table)
{
    struct table_spec spec = load_spec("first");
    FIRN_TRY(table_world_open(world));
    firn_rc rc = table_create(tables_of(world), &spec, TABLE_OWN_FILE);
    if (rc == FIRN_E_EXISTS)
        rc = FIRN_OK;
    if (rc == FIRN_OK)
        rc = table_open(tables_of(world), "first", table);
    return rc;
}

/** Open, transactions with what happens beside them, close. @return the first failure; the store
 * may be open then */
static inline firn_rc load_run(struct world *world, struct load *load, unsigned txns)
{
    struct table_session *session = NULL;
    struct table *table = NULL;
    firn_rc rc = load_open(world, &table);
    if (rc == FIRN_OK)
        rc = table_session_open(tables_of(world), &session);
    for (unsigned i = 0; i < txns && rc == FIRN_OK; i++) {
        rc = load_transaction(load, session, table);
        if (rc == FIRN_OK && rng_below(&load->rng, 5) == 0)
            rc = load_second(load, tables_of(world));
        if (rc == FIRN_OK && rng_below(&load->rng, 8) == 0)
            rc = store_tick(world->store);
        if (rc == FIRN_OK && rng_below(&load->rng, 16) == 0)
            rc = store_checkpoint(world->store);
    }
    table_session_close(session);
    table_close(table);
    FIRN_TRY(rc);
    rc = store_close(world->store);
    world->store = NULL;
    return rc;
}

/* ---- Judging ---- */

static inline firn_rc load_read(struct table_session *session, struct table *table,
                                int64_t found[LOAD_ROWS])
{
    struct table_cursor *cursor;
    for (unsigned row = 0; row < LOAD_ROWS; row++)
        found[row] = LOAD_GONE;
    FIRN_TRY(txn_begin(table_session_txn(session), TXN_REPEATABLE_READ, true));
    FIRN_TRY(table_cursor_open(session, table, 1, NULL, TXN_LOCK_NONE, TXN_WAIT, &cursor));
    firn_rc rc = table_cursor_seek(cursor, TABLE_SEEK_FIRST, NULL, 0);
    while (rc == FIRN_OK) {
        struct table_row row = table_cursor_row(cursor);
        assert_in_range(row.values[LOAD_ID].i, 0, LOAD_ROWS - 1);
        found[row.values[LOAD_ID].i] = row.values[LOAD_VALUE].i;
        rc = table_cursor_next(cursor);
    }
    table_cursor_close(cursor);
    (void)txn_rollback(table_session_txn(session));
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/** The load goes on from what was found. @return NULL, or what is wrong */
static inline const char *load_judge_rows(struct load *load, const int64_t found[LOAD_ROWS])
{
    for (unsigned j = load->acked; j <= load->begun; j++)
        if (memcmp(found, load->states[j], LOAD_ROWS * sizeof *found) == 0) {
            load->begun = j;
            load->acked = j;
            return NULL;
        }
    return "the rows are no state between what was acknowledged and what was begun";
}

static inline const char *load_judge_second(struct load *load, struct table_set *set)
{
    struct table *table;
    firn_rc rc = table_open(set, "second", &table);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        return firn_error_text();
    enum load_table found = rc == FIRN_OK ? LOAD_TABLE_THERE : LOAD_TABLE_ABSENT;
    if (rc == FIRN_OK)
        table_close(table);
    bool as_known = load->second == LOAD_TABLE_UNKNOWN || load->second == found;
    load->second = found;
    return as_known ? NULL : "a table came back, or is gone";
}

/** Judge an open store. @return NULL, or what is wrong */
static inline const char *load_wrong(struct world *world, struct load *load)
{
    int64_t found[LOAD_ROWS];
    struct table_session *session;
    struct table *table;
    struct table_set *set = tables_of(world);
    firn_rc rc = table_open(set, "first", &table);
    if (rc == FIRN_E_NOT_FOUND && load->acked == 0)
        return table_world_wrong(world, NULL);
    if (rc != FIRN_OK || txn_settle(store_transactions(world->store)) != FIRN_OK ||
        table_session_open(set, &session) != FIRN_OK)
        return firn_error_text();
    rc = load_read(session, table, found);
    table_session_close(session);
    table_close(table);
    if (rc != FIRN_OK)
        return firn_error_text();
    const char *wrong = load_judge_rows(load, found);
    if (wrong == NULL)
        wrong = load_judge_second(load, set);
    if (wrong == NULL)
        wrong = table_world_wrong(world, "first");
    return wrong;
}

#endif
