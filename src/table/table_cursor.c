/*
 * Cursors over an index: a cursor over its tree's keys, and the rows that these lead to.
 */
#include "table/table_internal.h"

#include "base/memory.h"

/* Where a range ends, as bytes that keys are compared with. */
struct bound {
    uint8_t *bytes;
    size_t size_bytes; /* may be 0: columns of length 0 have keys without bytes */
    bool is_set;
    bool is_endless; /* it is behind all keys */
};

struct table_cursor {
    struct table_session *session;
    struct table *table;
    unsigned index;
    enum txn_lock lock;
    enum txn_wait wait;
    struct txn_cursor *keys;
    uint64_t wanted[ROW_SET_WORDS];
    bool wants_all;
    bool is_covered; /* the index has all that is wanted: */
    uint64_t parts;
    struct bound lower; /* the first key within */
    struct bound upper; /* the first key beyond */
    struct span primary;
    struct value *values;

    /* Room for a key each. */
    uint8_t *sought;
    uint8_t *prefix;
    uint8_t *whole;
    uint8_t *primary_bytes;
    uint8_t *room;
};

enum { KEYS = 7 };

/* ---- Opening ---- */

static firn_rc allocate(struct table_cursor *cursor)
{
    const struct table_schema *schema = cursor->table->schema;
    size_t room = key_room(schema);
    uint8_t *bytes = memory_alloc(KEYS * room);
    cursor->values = memory_zalloc(schema->live_count, sizeof *cursor->values);
    cursor->sought = bytes;
    if (bytes == NULL || cursor->values == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a cursor");
    cursor->whole = bytes + room;
    cursor->primary_bytes = bytes + 2 * room;
    cursor->room = bytes + 3 * room;
    cursor->lower.bytes = bytes + 4 * room;
    cursor->upper.bytes = bytes + 5 * room;
    cursor->prefix = bytes + 6 * room;
    return table_session_fit(cursor->session, schema);
}

firn_rc table_cursor_open(struct table_session *session, struct table *table, unsigned index,
                          const uint64_t *wanted, enum txn_lock lock, enum txn_wait wait,
                          struct table_cursor **cursor)
{
    const struct table_schema *schema = table->schema;
    firn_rc rc;
    if (index >= schema->index_count)
        return rc_raise(FIRN_E_MISUSE, "table %s has no index %u", schema->name, index);
    struct table_cursor *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a cursor");
    made->session = session;
    made->table = table;
    made->index = index;
    made->lock = lock;
    made->wait = wait;
    made->wants_all = wanted == NULL;
    if (wanted != NULL)
        memcpy(made->wanted, wanted, sizeof made->wanted);
    made->is_covered = index != 0 && lock != TXN_LOCK_EXCLUSIVE &&
                       table_index_covers(schema, &schema->indexes[index], wanted, &made->parts);
    FIRN_TRY_GOTO(allocate(made), failed);
    FIRN_TRY_GOTO(txn_cursor_open(session->txn, table->trees[index], lock, wait, &made->keys),
                  failed);
    *cursor = made;
    return FIRN_OK;
failed:
    table_cursor_close(made);
    return rc;
}

void table_cursor_close(struct table_cursor *cursor)
{
    if (cursor == NULL)
        return;
    txn_cursor_close(cursor->keys);
    memory_free(cursor->sought);
    memory_free(cursor->values);
    memory_free(cursor);
}

/* ---- Bounds ---- */

static firn_rc form_prefix(struct table_cursor *cursor, const struct value *values,
                           unsigned part_count, uint8_t *to, size_t *size_bytes)
{
    const struct table_schema *schema = cursor->table->schema;
    FIRN_TRY(table_session_fit(cursor->session, schema));
    return table_prefix_form(cursor->session, schema, &schema->indexes[cursor->index], values,
                             part_count, to, size_bytes);
}

/* @param beyond  the first key behind all that begin so, else the first of them */
static firn_rc set_bound(struct table_cursor *cursor, struct bound *bound,
                         const struct value *values, unsigned part_count, bool beyond)
{
    bound->is_set = false;
    bound->is_endless = false;
    if (values == NULL)
        return FIRN_OK;
    FIRN_TRY(form_prefix(cursor, values, part_count, bound->bytes, &bound->size_bytes));
    if (beyond)
        bound->size_bytes = key_after(bound->bytes, bound->size_bytes);
    bound->is_endless = beyond && bound->size_bytes == 0;
    bound->is_set = true;
    return FIRN_OK;
}

firn_rc table_cursor_set_lower(struct table_cursor *cursor, const struct value *values,
                               unsigned part_count, bool inclusive)
{
    return set_bound(cursor, &cursor->lower, values, part_count, !inclusive);
}

firn_rc table_cursor_set_upper(struct table_cursor *cursor, const struct value *values,
                               unsigned part_count, bool inclusive)
{
    return set_bound(cursor, &cursor->upper, values, part_count, inclusive);
}

/* @return whether a key is at the bound or behind it */
static bool reaches(const struct bound *bound, struct span key)
{
    return !bound->is_endless && span_compare(key, span_of(bound->bytes, bound->size_bytes)) >= 0;
}

static bool is_within(const struct table_cursor *cursor, struct span key, bool forward)
{
    if (forward)
        return !cursor->upper.is_set || !reaches(&cursor->upper, key);
    return !cursor->lower.is_set || reaches(&cursor->lower, key);
}

/* ---- Rows ---- */

static const uint64_t *wanted_of(const struct table_cursor *cursor)
{
    return cursor->wants_all ? NULL : cursor->wanted;
}

static firn_rc read_payload(struct table_cursor *cursor, struct span row)
{
    struct row_view view;
    FIRN_TRY(row_open(cursor->table->schema, cursor->primary, row, &view));
    return row_read_set(&view, wanted_of(cursor), cursor->values);
}

/* By way of an entry of a secondary index. FIRN_E_NOT_FOUND: the row is locked, and to be passed
   over. */
static firn_rc take_by_entry(struct table_cursor *cursor)
{
    struct table_session *session = cursor->session;
    const struct table_schema *schema = cursor->table->schema;
    const struct table_index *index = &schema->indexes[cursor->index];
    struct table_entry entry = {.key = txn_cursor_key(cursor->keys)};
    struct span whole;
    struct span row;
    size_t size;
    FIRN_TRY(txn_cursor_payload(cursor->keys, &entry.payload));
    FIRN_TRY(table_entry_key(schema, &entry, cursor->whole, &whole));
    FIRN_TRY(key_primary_of(schema, index, whole, cursor->primary_bytes, &size));
    cursor->primary = span_of(cursor->primary_bytes, size);
    if (cursor->is_covered)
        return key_read(schema, index, whole, cursor->parts, cursor->room, cursor->values);
    firn_rc rc = txn_get(session->txn, cursor->table->trees[0], cursor->primary, cursor->lock,
                         cursor->wait, &row);
    if (rc == FIRN_E_NOT_FOUND)
        return table_raise_unlike(schema, index, "an entry has no row");
    if (rc == FIRN_E_BUSY && cursor->wait == TXN_SKIP_LOCKED)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(rc);
    return read_payload(cursor, row);
}

static firn_rc take(struct table_cursor *cursor)
{
    struct span row;
    if (cursor->index != 0)
        return take_by_entry(cursor);
    cursor->primary = txn_cursor_key(cursor->keys);
    FIRN_TRY(txn_cursor_payload(cursor->keys, &row));
    return read_payload(cursor, row);
}

/* Looked at before the row is, which may have to be waited for. */
static bool begins_so(const struct table_cursor *cursor, size_t prefix_bytes)
{
    struct span key = txn_cursor_key(cursor->keys);
    return key.size_bytes >= prefix_bytes && memcmp(key.bytes, cursor->prefix, prefix_bytes) == 0;
}

/* From where the keys stand on to a row that can be taken, within the range and with keys that
   begin with the prefix. */
static firn_rc settle(struct table_cursor *cursor, bool forward, size_t prefix_bytes)
{
    for (;;) {
        if (!is_within(cursor, txn_cursor_key(cursor->keys), forward) ||
            !begins_so(cursor, prefix_bytes))
            return FIRN_E_NOT_FOUND;
        firn_rc rc = take(cursor);
        if (rc != FIRN_E_NOT_FOUND)
            return rc;
        FIRN_TRY(forward ? txn_cursor_next(cursor->keys) : txn_cursor_prev(cursor->keys));
    }
}

/* ---- Moving ---- */

static struct span bytes_of(const struct bound *bound)
{
    return span_of(bound->bytes, bound->size_bytes);
}

static firn_rc seek_first(struct table_cursor *cursor)
{
    if (!cursor->lower.is_set)
        return txn_cursor_seek(cursor->keys, BTREE_SEEK_FIRST, span_of(NULL, 0));
    if (cursor->lower.is_endless)
        return FIRN_E_NOT_FOUND;
    return txn_cursor_seek(cursor->keys, BTREE_SEEK_AT_OR_AFTER, bytes_of(&cursor->lower));
}

static firn_rc seek_last(struct table_cursor *cursor)
{
    if (!cursor->upper.is_set || cursor->upper.is_endless)
        return txn_cursor_seek(cursor->keys, BTREE_SEEK_LAST, span_of(NULL, 0));
    return txn_cursor_seek(cursor->keys, BTREE_SEEK_BEFORE, bytes_of(&cursor->upper));
}

/* Behind all keys that begin with what is sought, or on the last of them. */
static firn_rc seek_end(struct table_cursor *cursor, size_t size, bool forward)
{
    size_t after = key_after(cursor->sought, size);
    if (after > 0)
        return txn_cursor_seek(cursor->keys, forward ? BTREE_SEEK_AT_OR_AFTER : BTREE_SEEK_BEFORE,
                               span_of(cursor->sought, after));
    return forward ? FIRN_E_NOT_FOUND
                   : txn_cursor_seek(cursor->keys, BTREE_SEEK_LAST, span_of(NULL, 0));
}

static firn_rc seek_keys(struct table_cursor *cursor, enum table_seek seek, size_t size)
{
    struct span sought = span_of(cursor->sought, size);
    switch (seek) {
    case TABLE_SEEK_FIRST:
        return seek_first(cursor);
    case TABLE_SEEK_LAST:
        return seek_last(cursor);
    case TABLE_SEEK_EXACT:
    case TABLE_SEEK_AT_OR_AFTER:
        return txn_cursor_seek(cursor->keys, BTREE_SEEK_AT_OR_AFTER, sought);
    case TABLE_SEEK_AFTER:
        return seek_end(cursor, size, true);
    case TABLE_SEEK_BEFORE:
        return txn_cursor_seek(cursor->keys, BTREE_SEEK_BEFORE, sought);
    default:
        return seek_end(cursor, size, false);
    }
}

static bool is_backward(enum table_seek seek)
{
    return seek == TABLE_SEEK_LAST || seek == TABLE_SEEK_EXACT_LAST ||
           seek == TABLE_SEEK_AT_OR_BEFORE || seek == TABLE_SEEK_BEFORE;
}

firn_rc table_cursor_seek(struct table_cursor *cursor, enum table_seek seek,
                          const struct value *values, unsigned part_count)
{
    bool is_exact = seek == TABLE_SEEK_EXACT || seek == TABLE_SEEK_EXACT_LAST;
    size_t size = 0;
    if (seek != TABLE_SEEK_FIRST && seek != TABLE_SEEK_LAST)
        FIRN_TRY(form_prefix(cursor, values, part_count, cursor->sought, &size));
    /* Seeking may turn what is sought into what is behind it. */
    memcpy(cursor->prefix, cursor->sought, size);
    FIRN_TRY(seek_keys(cursor, seek, size));
    return settle(cursor, !is_backward(seek), is_exact ? size : 0);
}

firn_rc table_cursor_next(struct table_cursor *cursor)
{
    FIRN_TRY(txn_cursor_next(cursor->keys));
    return settle(cursor, true, 0);
}

firn_rc table_cursor_prev(struct table_cursor *cursor)
{
    FIRN_TRY(txn_cursor_prev(cursor->keys));
    return settle(cursor, false, 0);
}

struct table_row table_cursor_row(const struct table_cursor *cursor)
{
    return (struct table_row){cursor->primary, cursor->values};
}
