/*
 * Reading one row: by its primary key, or by that of another unique index.
 */
#include "table/table_internal.h"

static firn_rc fit_found_key(struct table_session *session, const struct table_schema *schema)
{
    FIRN_TRY(table_session_fit(session, schema));
    return table_bytes_reserve(&session->found_key, key_room(schema));
}

firn_rc table_key(struct table_session *session, struct table *table, const struct value *values,
                  struct span *key)
{
    const struct table_schema *schema = table->schema;
    const struct table_index *primary = &schema->indexes[0];
    size_t size;
    FIRN_TRY(fit_found_key(session, schema));
    FIRN_TRY(table_prefix_form(session, schema, primary, values, primary->part_count,
                               session->found_key.bytes, &size));
    *key = span_of(session->found_key.bytes, size);
    return FIRN_OK;
}

/* Read what is wanted of the row under a primary key. */
static firn_rc read_row(struct table_session *session, struct table *table, struct span key,
                        const uint64_t *wanted, enum txn_lock lock, enum txn_wait wait)
{
    struct span bytes;
    struct row_view view;
    FIRN_TRY(txn_get(session->txn, table->trees[0], key, lock, wait, &bytes));
    FIRN_TRY(row_open(table->schema, key, bytes, &view));
    return row_read_set(&view, wanted, session->found_values);
}

static firn_rc require_unique(const struct table_schema *schema, unsigned index,
                              const struct value *values)
{
    if (index >= schema->index_count || !schema->indexes[index].is_unique)
        return rc_raise(FIRN_E_MISUSE, "table %s: there is no unique index %u to get a row by",
                        schema->name, index);
    const struct table_index *unique = &schema->indexes[index];
    for (unsigned p = 0; p < unique->declared_count; p++)
        if (values[unique->parts[p].column].kind == VALUE_NULL)
            return rc_raise(FIRN_E_MISUSE, "table %s, index %s: NULL leads to any number of rows",
                            schema->name, unique->name);
    return FIRN_OK;
}

/* By way of a secondary index: its entry has the rest of the key, and that has the primary key. */
static firn_rc read_by_index(struct table_session *session, struct table *table, unsigned index,
                             const uint64_t *wanted, enum txn_lock lock, enum txn_wait wait,
                             struct span declared, struct span *key)
{
    const struct table_schema *schema = table->schema;
    const struct table_index *unique = &schema->indexes[index];
    struct table_entry entry = {.key = declared};
    struct span whole;
    uint64_t parts;
    size_t size;
    FIRN_TRY(txn_get(session->txn, table->trees[index], declared, lock, wait, &entry.payload));
    FIRN_TRY(table_entry_key(schema, &entry, session->old_entry, &whole));
    FIRN_TRY(key_primary_of(schema, unique, whole, session->found_key.bytes, &size));
    *key = span_of(session->found_key.bytes, size);
    if (lock != TXN_LOCK_EXCLUSIVE && table_index_covers(schema, unique, wanted, &parts))
        return key_read(schema, unique, whole, parts, session->room, session->found_values);
    firn_rc rc = read_row(session, table, *key, wanted, lock, wait);
    return rc == FIRN_E_NOT_FOUND ? table_raise_unlike(schema, unique, "an entry has no row") : rc;
}

firn_rc table_get(struct table_session *session, struct table *table, unsigned index,
                  const struct value *values, const uint64_t *wanted, enum txn_lock lock,
                  enum txn_wait wait, struct table_row *row)
{
    const struct table_schema *schema = table->schema;
    struct span key;
    size_t size;
    FIRN_TRY(require_unique(schema, index, values));
    FIRN_TRY(fit_found_key(session, schema));
    uint8_t *to = index == 0 ? session->found_key.bytes : session->new_entry;
    const struct table_index *unique = &schema->indexes[index];
    FIRN_TRY(table_prefix_form(session, schema, unique, values, unique->declared_count, to, &size));
    key = span_of(to, size);
    if (index == 0)
        FIRN_TRY(read_row(session, table, key, wanted, lock, wait));
    else
        FIRN_TRY(read_by_index(session, table, index, wanted, lock, wait, key, &key));
    *row = (struct table_row){key, session->found_values};
    return FIRN_OK;
}
