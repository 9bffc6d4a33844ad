/*
 * Numbers that are never given out twice: autoincrement columns, hidden row ids.
 *
 * The dictionary has a number that is ahead of all that were given out, and is raised by steps
 * before a larger one is. The log keeps order, so whatever row a crash leaves, the number on disk
 * is above its. A crash skips what was left of a step; closing writes the number as it is.
 */
#include "table/dictionary_internal.h"

enum {
    STEP_MAX = 128,
    STEPS_MIN = 1024, /* of what is left of the column's range, a crash costs one in so many */
};

/* Move on to a number that is above the last one. With the counter's mutex. */
static firn_rc advance(struct table_session *session, struct table *table, enum table_count count,
                       uint64_t to, uint64_t most)
{
    struct table_counter *counter = &table->counters[count];
    if (to > counter->limit) {
        uint64_t step = (most - to) / STEPS_MIN;
        uint64_t limit = to + (step < STEP_MAX ? step : STEP_MAX);
        FIRN_TRY(dictionary_put_count(table->set, txn_session_btree(session->txn), table->id, count,
                                      limit));
        counter->limit = limit;
    }
    atomic_store_explicit(&counter->last, to, memory_order_relaxed);
    return FIRN_OK;
}

static uint64_t last_of(const struct table_counter *counter)
{
    return atomic_load_explicit(&counter->last, memory_order_relaxed);
}

static const struct column *auto_column(const struct table *table)
{
    return &table->schema->columns[table->schema->auto_column];
}

firn_rc table_counter_reserve(struct table_session *session, struct table *table, uint64_t wanted,
                              uint64_t *first, uint64_t *reserved)
{
    struct table_counter *counter = &table->counters[TABLE_COUNT_AUTO];
    const struct column *column = auto_column(table);
    uint64_t from;
    uint64_t count;
    lock_take(&counter->mutex);
    firn_rc rc = autoincrement_reserve(column, last_of(counter), session->auto_offset,
                                       session->auto_increment, wanted, &from, &count);
    if (rc == FIRN_OK)
        rc = advance(session, table, TABLE_COUNT_AUTO, from + (count - 1) * session->auto_increment,
                     autoincrement_max(column));
    lock_give(&counter->mutex);
    FIRN_TRY(rc);
    *first = from;
    *reserved = count;
    return FIRN_OK;
}

static firn_rc raise_to(struct table_session *session, struct table *table, uint64_t number)
{
    struct table_counter *counter = &table->counters[TABLE_COUNT_AUTO];
    firn_rc rc = FIRN_OK;
    if (number <= last_of(counter)) /* it only grows */
        return FIRN_OK;
    lock_take(&counter->mutex);
    if (number > last_of(counter))
        rc = advance(session, table, TABLE_COUNT_AUTO, number,
                     autoincrement_max(auto_column(table)));
    lock_give(&counter->mutex);
    return rc;
}

firn_rc table_counter_see(struct table_session *session, struct table *table,
                          const struct value *value)
{
    return raise_to(session, table, autoincrement_see(0, value));
}

firn_rc table_counter_row_id(struct table_session *session, struct table *table, uint64_t *row_id)
{
    struct table_counter *counter = &table->counters[TABLE_COUNT_ROW_ID];
    const struct table_schema *schema = table->schema;
    uint64_t most = autoincrement_max(&schema->columns[schema->row_id_column]);
    firn_rc rc;
    lock_take(&counter->mutex);
    uint64_t next = last_of(counter) + 1;
    if (last_of(counter) >= most)
        rc = rc_raise(FIRN_E_INVALID, "table %s has used up its hidden row ids; give it a key",
                      schema->name);
    else
        rc = advance(session, table, TABLE_COUNT_ROW_ID, next, most);
    lock_give(&counter->mutex);
    FIRN_TRY(rc);
    *row_id = next;
    return FIRN_OK;
}

static firn_rc require_auto(const struct table *table)
{
    if (table->schema->auto_column != SCHEMA_NONE)
        return FIRN_OK;
    return rc_raise(FIRN_E_MISUSE, "table %s has no autoincrement column", table->schema->name);
}

firn_rc table_autoincrement_reserve(struct table_session *session, struct table *table,
                                    uint64_t wanted, uint64_t *first, uint64_t *reserved)
{
    FIRN_TRY(require_auto(table));
    return table_counter_reserve(session, table, wanted == 0 ? 1 : wanted, first, reserved);
}

firn_rc table_autoincrement_raise(struct table_session *session, struct table *table, uint64_t next)
{
    FIRN_TRY(require_auto(table));
    uint64_t most = autoincrement_max(auto_column(table));
    if (next > most)
        return rc_raise(FIRN_E_INVALID,
                        "table %s: the autoincrement column takes values up to %llu",
                        table->schema->name, (unsigned long long)most);
    return next == 0 ? FIRN_OK : raise_to(session, table, next - 1);
}

firn_rc table_counters_open(struct table *table)
{
    for (unsigned count = 0; count < TABLE_COUNTS; count++) {
        struct table_counter *counter = &table->counters[count];
        FIRN_TRY(
            dictionary_get_count(table->set, table->id, (enum table_count)count, &counter->limit));
        atomic_store_explicit(&counter->last, counter->limit, memory_order_relaxed);
    }
    return FIRN_OK;
}

firn_rc table_counters_keep(struct table *table)
{
    struct table_set *set = table->set;
    for (unsigned count = 0; count < TABLE_COUNTS; count++) {
        struct table_counter *counter = &table->counters[count];
        uint64_t last = last_of(counter);
        if (last != counter->limit)
            FIRN_TRY(
                dictionary_put_count(set, set->session, table->id, (enum table_count)count, last));
        counter->limit = last;
    }
    return FIRN_OK;
}
