/*
 * Inserting, updating and deleting rows.
 *
 * The row goes first, then the entries of secondary indexes in their order, then what foreign keys
 * lead to: so who finds the row locked need not look further, and duplicates are told of in the
 * order that SQL users know. What
 * fails is taken back to where the call began, by the transaction, which knows each change of each
 * tree.
 */
#include "table/table_internal.h"

#include <stdio.h>

enum { ERROR_TEXT_BYTES = 1024 };

static bool is_set(const uint64_t *set, unsigned column)
{
    return set[column / 64] >> column % 64 & 1;
}

/* ---- Statements ---- */

/* Begin a change: it can be taken back from here. */
static firn_rc begin(struct table_session *session, const struct table *table,
                     struct txn_savepoint *savepoint)
{
    FIRN_TRY(txn_savepoint(session->txn, savepoint));
    return table_session_fit(session, table->schema);
}

/* End it. Where taking back fails, that is what the caller must know: the transaction is to be
   rolled back. */
static firn_rc end(struct table_session *session, const struct txn_savepoint *savepoint, firn_rc rc)
{
    char text[ERROR_TEXT_BYTES];
    if (rc == FIRN_OK || rc == FIRN_E_NOT_FOUND)
        return rc;
    snprintf(text, sizeof text, "%s", firn_error_text());
    FIRN_TRY(txn_rollback_to(session->txn, savepoint));
    return rc_raise(rc, "%s", text);
}

/* ---- Rows and entries ---- */

static firn_rc encode_row(struct table_session *session, const struct table_schema *schema,
                          struct span *row)
{
    size_t size;
    FIRN_TRY(row_size(schema, session->new_values, &size));
    FIRN_TRY(table_bytes_reserve(&session->new_row, size + ROW_SLACK_BYTES));
    *row = span_of(session->new_row.bytes,
                   row_encode(schema, session->new_values, session->new_row.bytes));
    return FIRN_OK;
}

static firn_rc encode_key(struct table_session *session, const struct table_schema *schema,
                          struct span *key)
{
    struct key_result result;
    const struct table_index *primary = &schema->indexes[0];
    FIRN_TRY(key_encode(schema, primary, session->new_values, primary->part_count, session->new_key,
                        &result));
    *key = span_of(session->new_key, result.size_bytes);
    return FIRN_OK;
}

static firn_rc insert_row(struct table_session *session, struct table *table, struct span key,
                          struct span row)
{
    firn_rc rc = txn_insert(session->txn, table->trees[0], key, row);
    return rc == FIRN_E_EXISTS
               ? table_raise_duplicate(session, table->schema, 0, session->new_values)
               : rc;
}

static firn_rc insert_entry(struct table_session *session, struct table *table, unsigned index,
                            const struct table_entry *entry)
{
    const struct table_schema *schema = table->schema;
    firn_rc rc = txn_insert(session->txn, table->trees[index], entry->key, entry->payload);
    if (rc != FIRN_E_EXISTS)
        return rc;
    if (entry->payload.size_bytes == 0 && !schema->indexes[index].is_unique)
        return table_raise_unlike(schema, &schema->indexes[index],
                                  "a new row has an entry already");
    return table_raise_duplicate(session, schema, index, session->new_values);
}

static firn_rc delete_entry(struct table_session *session, struct table *table, unsigned index,
                            const struct table_entry *entry)
{
    firn_rc rc = txn_delete(session->txn, table->trees[index], entry->key);
    return rc == FIRN_E_NOT_FOUND
               ? table_raise_unlike(table->schema, &table->schema->indexes[index],
                                    "a row has no entry")
               : rc;
}

/* ---- Inserting ---- */

static firn_rc draw_auto(struct table_session *session, struct table *table, struct value *value,
                         uint64_t *number)
{
    const struct column *column = &table->schema->columns[table->schema->auto_column];
    uint64_t reserved;
    FIRN_TRY(table_counter_reserve(session, table, 1, number, &reserved));
    *value = value_uint(*number);
    return value_check(column, value);
}

static firn_rc complete_column(struct table_session *session, struct table *table, unsigned c,
                               const struct value *given, uint64_t *generated)
{
    const struct table_schema *schema = table->schema;
    const struct column *column = &schema->columns[c];
    struct value *value = &session->new_values[c];
    bool is_auto = c == schema->auto_column;
    if (given != NULL)
        *value = *given;
    else
        *value = value_null();
    if (is_auto && value->kind == VALUE_NULL)
        return draw_auto(session, table, value, generated);
    if (given == NULL) {
        struct value_now now = {0};
        if (column->spec.default_kind == COLUMN_DEFAULT_NOW)
            now = table_session_now(session);
        return value_default(column, &now, value);
    }
    FIRN_TRY(value_check(column, value));
    return is_auto ? table_counter_see(session, table, value) : FIRN_OK;
}

/* What the autoincrement column is to have comes last: no number is drawn for a row that is refused
   for its other values. */
static firn_rc complete(struct table_session *session, struct table *table,
                        const struct value *values, const uint64_t *given, uint64_t *generated)
{
    const struct table_schema *schema = table->schema;
    unsigned auto_column = schema->auto_column;
    for (unsigned c = 0; c < schema->column_count; c++) {
        bool is_given = given == NULL || is_set(given, c);
        if (c != auto_column)
            FIRN_TRY(complete_column(session, table, c, is_given ? &values[c] : NULL, generated));
    }
    if (auto_column != SCHEMA_NONE) {
        bool is_given = given == NULL || is_set(given, auto_column);
        FIRN_TRY(complete_column(session, table, auto_column,
                                 is_given ? &values[auto_column] : NULL, generated));
    }
    if (schema->row_id_column != SCHEMA_NONE) {
        uint64_t row_id;
        FIRN_TRY(table_counter_row_id(session, table, &row_id));
        session->new_values[schema->row_id_column] = value_uint(row_id);
    }
    return FIRN_OK;
}

static firn_rc insert(struct table_session *session, struct table *table)
{
    const struct table_schema *schema = table->schema;
    struct span key;
    struct span row;
    FIRN_TRY(encode_key(session, schema, &key));
    FIRN_TRY(encode_row(session, schema, &row));
    FIRN_TRY(insert_row(session, table, key, row));
    for (unsigned i = 1; i < schema->index_count; i++) {
        struct table_entry entry;
        FIRN_TRY(table_entry_form(schema, &schema->indexes[i], session->new_values,
                                  session->new_entry, &entry));
        FIRN_TRY(insert_entry(session, table, i, &entry));
    }
    return table_foreign_check_parents(session, table, NULL);
}

firn_rc table_insert(struct table_session *session, struct table *table, const struct value *values,
                     const uint64_t *given, uint64_t *generated)
{
    struct txn_savepoint savepoint;
    uint64_t number = 0;
    FIRN_TRY(begin(session, table, &savepoint));
    FIRN_TRY(complete(session, table, values, given, &number));
    FIRN_TRY(end(session, &savepoint, insert(session, table)));
    if (generated != NULL)
        *generated = number;
    return FIRN_OK;
}

/* ---- The row that is there ---- */

/* Keep a row that is about to change, and read it. */
static firn_rc keep_old(struct table_session *session, const struct table_schema *schema,
                        struct span key, struct span row)
{
    struct row_view view;
    FIRN_TRY(table_bytes_reserve(&session->old_row, row.size_bytes));
    memcpy(session->old_row.bytes, row.bytes, row.size_bytes);
    session->old_row.size_bytes = row.size_bytes;
    FIRN_TRY(row_open(schema, key, span_of(session->old_row.bytes, row.size_bytes), &view));
    return row_read_set(&view, NULL, session->old_values);
}

/* ---- Updating ---- */

struct update {
    struct table_session *session;
    const struct table_schema *schema;
    struct span key;
    const uint64_t *changed;
};

/* The new values that do not change are the old ones; a hidden row id never does. */
static void merge(const struct update *update)
{
    struct table_session *session = update->session;
    for (unsigned c = 0; c < update->schema->live_count; c++)
        if (c >= update->schema->column_count || !is_set(update->changed, c))
            session->new_values[c] = session->old_values[c];
}

static enum btree_action decide_update(const struct span *old, struct span *payload, firn_rc *rc,
                                       void *context)
{
    const struct update *update = context;
    *rc = old == NULL ? FIRN_E_NOT_FOUND
                      : keep_old(update->session, update->schema, update->key, *old);
    if (*rc == FIRN_OK) {
        merge(update);
        *rc = encode_row(update->session, update->schema, payload);
    }
    return *rc == FIRN_OK ? BTREE_PUT : BTREE_KEEP;
}

static bool changes_part(const struct table_index *index, const uint64_t *changed)
{
    for (unsigned p = 0; p < index->part_count; p++)
        if (is_set(changed, index->parts[p].column))
            return true;
    return false;
}

/* Where a new primary key is to be made, the row must be known before: it is locked and read, and
   put under its new key unless that is the same. */
static firn_rc move_row(const struct update *update, struct table *table)
{
    struct table_session *session = update->session;
    const struct table_schema *schema = update->schema;
    struct span old;
    struct span key;
    struct span row;
    FIRN_TRY(
        txn_get(session->txn, table->trees[0], update->key, TXN_LOCK_EXCLUSIVE, TXN_WAIT, &old));
    FIRN_TRY(keep_old(session, schema, update->key, old));
    merge(update);
    FIRN_TRY(encode_key(session, schema, &key));
    FIRN_TRY(encode_row(session, schema, &row));
    if (span_compare(key, update->key) == 0)
        return txn_put(session->txn, table->trees[0], key, row);
    FIRN_TRY(txn_delete(session->txn, table->trees[0], update->key));
    return insert_row(session, table, key, row);
}

static firn_rc update_entry(struct table_session *session, struct table *table, unsigned i)
{
    const struct table_index *index = &table->schema->indexes[i];
    struct table_entry old;
    struct table_entry new;
    FIRN_TRY(table_entry_form(table->schema, index, session->old_values, session->old_entry, &old));
    FIRN_TRY(table_entry_form(table->schema, index, session->new_values, session->new_entry, &new));
    if (span_compare(old.key, new.key) != 0) {
        FIRN_TRY(delete_entry(session, table, i, &old));
        return insert_entry(session, table, i, &new);
    }
    if (span_compare(old.payload, new.payload) == 0)
        return FIRN_OK;
    return txn_put(session->txn, table->trees[i], new.key, new.payload);
}

static firn_rc update_row(struct update *update, struct table *table)
{
    struct table_session *session = update->session;
    const struct table_schema *schema = update->schema;
    if (changes_part(&schema->indexes[0], update->changed))
        FIRN_TRY(move_row(update, table));
    else
        FIRN_TRY(txn_change(session->txn, table->trees[0], update->key, decide_update, update));
    for (unsigned i = 1; i < schema->index_count; i++)
        if (changes_part(&schema->indexes[i], update->changed))
            FIRN_TRY(update_entry(session, table, i));
    FIRN_TRY(table_foreign_check_parents(session, table, update->changed));
    return table_foreign_follow(session, table, update->changed);
}

/* Judge what is to change, before anything is looked at. */
static firn_rc take_changes(struct table_session *session, struct table *table,
                            const struct value *values, const uint64_t *changed)
{
    const struct table_schema *schema = table->schema;
    for (unsigned c = 0; c < schema->column_count; c++) {
        if (!is_set(changed, c))
            continue;
        session->new_values[c] = values[c];
        FIRN_TRY(value_check(&schema->columns[c], &session->new_values[c]));
        if (c == schema->auto_column)
            FIRN_TRY(table_counter_see(session, table, &session->new_values[c]));
    }
    return FIRN_OK;
}

firn_rc table_update(struct table_session *session, struct table *table, struct span key,
                     const struct value *values, const uint64_t *changed)
{
    struct update update = {
        .session = session, .schema = table->schema, .key = key, .changed = changed};
    struct txn_savepoint savepoint;
    FIRN_TRY(begin(session, table, &savepoint));
    FIRN_TRY(take_changes(session, table, values, changed));
    return end(session, &savepoint, update_row(&update, table));
}

/* ---- Deleting ---- */

static enum btree_action decide_delete(const struct span *old, struct span *payload, firn_rc *rc,
                                       void *context)
{
    const struct update *update = context;
    (void)payload;
    *rc = old == NULL ? FIRN_E_NOT_FOUND
                      : keep_old(update->session, update->schema, update->key, *old);
    return *rc == FIRN_OK ? BTREE_DELETE : BTREE_KEEP;
}

static firn_rc delete_row(struct update *update, struct table *table)
{
    struct table_session *session = update->session;
    const struct table_schema *schema = update->schema;
    bool has_children;
    FIRN_TRY(table_has_children(table, &has_children));
    if (schema->index_count == 1 && !has_children)
        return txn_delete(session->txn, table->trees[0], update->key);
    FIRN_TRY(txn_change(session->txn, table->trees[0], update->key, decide_delete, update));
    for (unsigned i = 1; i < schema->index_count; i++) {
        struct table_entry entry;
        FIRN_TRY(table_entry_form(schema, &schema->indexes[i], session->old_values,
                                  session->old_entry, &entry));
        FIRN_TRY(delete_entry(session, table, i, &entry));
    }
    return table_foreign_follow(session, table, NULL);
}

firn_rc table_delete(struct table_session *session, struct table *table, struct span key)
{
    struct update update = {.session = session, .schema = table->schema, .key = key};
    struct txn_savepoint savepoint;
    FIRN_TRY(begin(session, table, &savepoint));
    return end(session, &savepoint, delete_row(&update, table));
}
