/*
 * Holding a table's indexes against its rows, as of one snapshot.
 *
 * Looking up each row's entries would cost a descent for each. Instead the rows are read once and
 * each index once: from both sides comes a number of entries and the sum of their hashes, under a
 * secret that nobody knows. Only where these differ is each entry looked for.
 */
#include "table/table_internal.h"

#include "base/hash.h"
#include "base/memory.h"

struct tally {
    uint64_t count;
    uint64_t sum; /* of hashes */
};

struct check {
    struct table_session *session;
    struct table *table;
    const struct table_schema *schema;
    finding_report *report;
    void *context;
    struct hash_key hash;
    struct table_check_result result;
    struct tally rows[SCHEMA_INDEXES_MAX]; /* what the rows say of each index */
    uint8_t *whole;                        /* room for a key */
};

static void tell(struct check *check, const char *text)
{
    struct finding where = {
        .severity = FINDING_DAMAGE, .page = FINDING_NOWHERE, .offset = FINDING_NOWHERE};
    check->result.problems++;
    finding_tell(check->report, check->context, where, "%s", text);
}

/* What is damaged is told, and the check goes on. */
static firn_rc tell_damage(struct check *check, firn_rc rc)
{
    if (rc != FIRN_E_CORRUPT)
        return rc;
    tell(check, firn_error_text());
    return FIRN_OK;
}

/* ---- Walking ---- */

typedef firn_rc entry_visit(struct check *check, unsigned index, const struct table_entry *entry);

static firn_rc visit_tree(struct check *check, unsigned index, struct txn_cursor *cursor,
                          entry_visit *visit)
{
    firn_rc rc = txn_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    while (rc == FIRN_OK) {
        struct table_entry entry = {.key = txn_cursor_key(cursor)};
        rc = txn_cursor_payload(cursor, &entry.payload);
        if (rc == FIRN_OK)
            rc = tell_damage(check, visit(check, index, &entry));
        if (rc == FIRN_OK)
            rc = txn_cursor_next(cursor);
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* A tree that cannot be read to its end is damaged, and the others are judged all the same. */
static firn_rc each_entry(struct check *check, unsigned index, entry_visit *visit)
{
    struct txn_cursor *cursor;
    FIRN_TRY(txn_cursor_open(check->session->txn, check->table->trees[index], TXN_LOCK_NONE,
                             TXN_WAIT, &cursor));
    firn_rc rc = tell_damage(check, visit_tree(check, index, cursor, visit));
    txn_cursor_close(cursor);
    return rc;
}

/* ---- Counting ---- */

static void count_entry(struct check *check, struct tally *tally, const struct table_entry *entry,
                        struct span whole)
{
    tally->count++;
    tally->sum += hash_64(&check->hash, whole.bytes, whole.size_bytes) ^ entry->key.size_bytes;
}

/* Read a row, all of it, and judge it by itself. Its values are those of a copy: they outlive the
   look at what else there is. */
static firn_rc read_row(struct check *check, struct span key, struct span row)
{
    const struct table_schema *schema = check->schema;
    const struct table_index *primary = &schema->indexes[0];
    struct table_session *session = check->session;
    struct row_view view;
    struct key_result made;
    FIRN_TRY(key_check(schema, primary, key));
    FIRN_TRY(table_bytes_reserve(&session->old_row, row.size_bytes));
    memcpy(session->old_row.bytes, row.bytes, row.size_bytes);
    FIRN_TRY(row_open(schema, key, span_of(session->old_row.bytes, row.size_bytes), &view));
    FIRN_TRY(row_check(&view));
    FIRN_TRY(row_read_set(&view, NULL, session->found_values));
    FIRN_TRY(key_encode(schema, primary, session->found_values, primary->part_count,
                        session->new_key, &made));
    if (span_compare(span_of(session->new_key, made.size_bytes), key) != 0)
        return table_raise_unlike(schema, primary, "a row stands under another row's key");
    return FIRN_OK;
}

static firn_rc count_row(struct check *check, unsigned index, const struct table_entry *row)
{
    const struct table_schema *schema = check->schema;
    struct table_session *session = check->session;
    (void)index;
    check->result.rows++;
    FIRN_TRY(read_row(check, row->key, row->payload));
    for (unsigned i = 1; i < schema->index_count; i++) {
        struct table_entry entry;
        FIRN_TRY(table_entry_form(schema, &schema->indexes[i], session->found_values,
                                  session->new_entry, &entry));
        size_t size = entry.key.size_bytes + entry.payload.size_bytes;
        count_entry(check, &check->rows[i], &entry, span_of(session->new_entry, size));
    }
    return FIRN_OK;
}

static firn_rc count_index_entry(struct check *check, unsigned index,
                                 const struct table_entry *entry)
{
    struct span whole;
    check->result.entries++;
    FIRN_TRY(table_entry_key(check->schema, entry, check->whole, &whole));
    count_entry(check, &check->rows[0], entry, whole);
    return key_check(check->schema, &check->schema->indexes[index], whole);
}

/* ---- Looking for what differs ---- */

static firn_rc find_entry(struct check *check, unsigned index, const struct table_entry *row)
{
    const struct table_schema *schema = check->schema;
    struct table_session *session = check->session;
    struct table_entry entry;
    struct span payload;
    (void)row;
    FIRN_TRY(table_entry_form(schema, &schema->indexes[index], session->found_values,
                              session->new_entry, &entry));
    firn_rc rc = txn_get(session->txn, check->table->trees[index], entry.key, TXN_LOCK_NONE,
                         TXN_WAIT, &payload);
    if (rc == FIRN_E_NOT_FOUND)
        return table_raise_unlike(schema, &schema->indexes[index], "a row has no entry");
    FIRN_TRY(rc);
    if (span_compare(payload, entry.payload) != 0)
        return table_raise_unlike(schema, &schema->indexes[index],
                                  "a row's entry leads to another row");
    return FIRN_OK;
}

/* Rows that are damaged have been told. */
static firn_rc find_row_entries(struct check *check, unsigned index, const struct table_entry *row)
{
    if (read_row(check, row->key, row->payload) != FIRN_OK)
        return FIRN_OK;
    (void)index;
    for (unsigned i = 1; i < check->schema->index_count; i++)
        FIRN_TRY(tell_damage(check, find_entry(check, i, row)));
    return FIRN_OK;
}

static firn_rc find_row(struct check *check, unsigned index, const struct table_entry *entry)
{
    const struct table_schema *schema = check->schema;
    const struct table_index *secondary = &schema->indexes[index];
    struct table_session *session = check->session;
    struct table_entry made;
    struct span whole;
    struct span row;
    size_t size;
    FIRN_TRY(table_entry_key(schema, entry, check->whole, &whole));
    FIRN_TRY(key_primary_of(schema, secondary, whole, session->old_entry, &size));
    struct span key = span_of(session->old_entry, size);
    firn_rc rc = txn_get(session->txn, check->table->trees[0], key, TXN_LOCK_NONE, TXN_WAIT, &row);
    if (rc == FIRN_E_NOT_FOUND)
        return table_raise_unlike(schema, secondary, "an entry has no row");
    FIRN_TRY(rc);
    if (read_row(check, key, row) != FIRN_OK)
        return FIRN_OK;
    FIRN_TRY(table_entry_form(schema, secondary, session->found_values, session->new_entry, &made));
    if (span_compare(made.key, entry->key) != 0 || span_compare(made.payload, entry->payload) != 0)
        return table_raise_unlike(schema, secondary, "an entry has other values than its row");
    return FIRN_OK;
}

/* ---- The whole ---- */

static firn_rc check_indexes(struct check *check)
{
    bool differs = false;
    FIRN_TRY(each_entry(check, 0, count_row));
    for (unsigned i = 1; i < check->schema->index_count; i++) {
        check->rows[0] = (struct tally){0}; /* what this index says */
        FIRN_TRY(each_entry(check, i, count_index_entry));
        if (check->rows[0].count == check->rows[i].count &&
            check->rows[0].sum == check->rows[i].sum)
            continue;
        differs = true;
        FIRN_TRY(each_entry(check, i, find_row));
    }
    return differs ? each_entry(check, 0, find_row_entries) : FIRN_OK;
}

firn_rc table_check(struct table_session *session, struct table *table, finding_report *report,
                    void *context, struct table_check_result *result)
{
    struct check check = {.session = session,
                          .table = table,
                          .schema = table->schema,
                          .report = report,
                          .context = context};
    FIRN_TRY(table_session_fit(session, table->schema));
    check.whole = memory_alloc(key_room(table->schema));
    if (check.whole == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to check table %s", table->schema->name);
    hash_key_init(&check.hash);
    firn_rc rc = txn_begin(session->txn, TXN_REPEATABLE_READ, true);
    if (rc == FIRN_OK) {
        rc = check_indexes(&check);
        (void)txn_rollback(session->txn);
    }
    memory_free(check.whole);
    *result = check.result;
    if (rc == FIRN_OK && check.result.problems > 0)
        return rc_raise(FIRN_E_CORRUPT, "table %s has %llu problems", table->schema->name,
                        (unsigned long long)check.result.problems);
    return rc;
}
