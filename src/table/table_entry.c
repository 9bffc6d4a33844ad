/*
 * What indexes have of a row.
 *
 * In a unique index the tree's key is the declared parts alone, and the rest of the key is the
 * payload: so the tree itself has each only once, whatever others have inserted or deleted and not
 * committed. With a NULL among them the whole key is the tree's, as in an index that is not unique;
 * the two kinds never meet, for they differ in that part's first byte.
 */
#include "table/table_internal.h"

#include "base/memory.h"

#include <stdio.h>

firn_rc table_entry_form(const struct table_schema *schema, const struct table_index *index,
                         const struct value *values, uint8_t *to, struct table_entry *entry)
{
    struct key_result key;
    FIRN_TRY(key_encode(schema, index, values, index->part_count, to, &key));
    size_t size = index->is_unique && !key.has_null ? key.declared_bytes : key.size_bytes;
    entry->key = span_of(to, size);
    entry->payload = span_of(to + size, key.size_bytes - size);
    return FIRN_OK;
}

firn_rc table_entry_key(const struct table_schema *schema, const struct table_entry *entry,
                        uint8_t *to, struct span *key)
{
    size_t size = entry->key.size_bytes + entry->payload.size_bytes;
    if (size > schema->key_bytes_max)
        return rc_raise(FIRN_E_CORRUPT,
                        "table %s: an entry of an index has %zu bytes, more than any key; run firn "
                        "check",
                        schema->name, size);
    memcpy(to, entry->key.bytes, entry->key.size_bytes);
    if (entry->payload.size_bytes > 0)
        memcpy(to + entry->key.size_bytes, entry->payload.bytes, entry->payload.size_bytes);
    *key = span_of(to, size);
    return FIRN_OK;
}

/* The part that has a column whole, to be read from keys; part_count if there is none. */
static unsigned part_with(const struct table_index *index, unsigned column)
{
    unsigned p = 0;
    while (p < index->part_count && (index->parts[p].column != column ||
                                     !index->parts[p].is_reversible || index->parts[p].prefix != 0))
        p++;
    return p;
}

bool table_index_covers(const struct table_schema *schema, const struct table_index *index,
                        const uint64_t *wanted, uint64_t *parts)
{
    uint64_t bits = 0;
    for (unsigned c = 0; c < schema->live_count; c++) {
        if (wanted != NULL && (wanted[c / 64] >> c % 64 & 1) == 0)
            continue;
        unsigned part = part_with(index, c);
        if (part == index->part_count)
            return false;
        bits |= UINT64_C(1) << part;
    }
    *parts = bits;
    return true;
}

firn_rc table_prefix_form(struct table_session *session, const struct table_schema *schema,
                          const struct table_index *index, const struct value *values,
                          unsigned part_count, uint8_t *to, size_t *size_bytes)
{
    struct key_result key;
    bool is_split = index->is_unique && index != &schema->indexes[0];
    unsigned most = is_split ? index->declared_count : index->part_count;
    if (part_count == 0 || part_count > most)
        return rc_raise(FIRN_E_MISUSE,
                        "table %s, index %s: a key begins with 1 to %u values, not with %u",
                        schema->name, index->name, most, part_count);
    for (unsigned p = 0; p < part_count; p++) {
        unsigned c = index->parts[p].column;
        session->seek_values[c] = values[c];
        FIRN_TRY(value_check(&schema->columns[c], &session->seek_values[c]));
    }
    FIRN_TRY(key_encode(schema, index, session->seek_values, part_count, to, &key));
    *size_bytes = key.size_bytes;
    return FIRN_OK;
}

/* ---- What is said ---- */

enum { SHOWN_BYTES = 64, SHOWN_ROOM = 512 };

/* A value for people, cut off where it is long. @return how many bytes were written */
static size_t show_value(const struct column *column, const struct value *value, char *to,
                         size_t room)
{
    char text[SHOWN_ROOM];
    struct value shown = *value;
    bool is_long = value->kind == VALUE_BYTES && column->spec.type != COLUMN_DECIMAL &&
                   value->bytes.size_bytes > SHOWN_BYTES;
    if (value->kind == VALUE_NULL)
        return (size_t)snprintf(to, room, "NULL");
    if (is_long)
        shown.bytes.size_bytes = SHOWN_BYTES;
    if (value_print_bound(column, &shown) > sizeof text)
        return (size_t)snprintf(to, room, "...");
    size_t size = value_print(column, &shown, text);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = '?';
    return (size_t)snprintf(to, room, "%.*s%s", (int)size, text, is_long ? "..." : "");
}

firn_rc table_raise_duplicate(struct table_session *session, const struct table_schema *schema,
                              unsigned index, const struct value *values)
{
    const struct table_index *found = &schema->indexes[index];
    char text[SHOWN_ROOM];
    size_t size = 0;
    session->duplicate = index;
    text[0] = '\0';
    for (unsigned p = 0; p < found->declared_count && size < sizeof text; p++) {
        unsigned c = found->parts[p].column;
        if (p > 0)
            size += (size_t)snprintf(text + size, sizeof text - size, "-");
        if (size < sizeof text)
            size += show_value(&schema->columns[c], &values[c], text + size, sizeof text - size);
    }
    return rc_raise(FIRN_E_EXISTS, "table %s: there is a row with '%s' in key %s already",
                    schema->name, text, found->name);
}

firn_rc table_raise_unlike(const struct table_schema *schema, const struct table_index *index,
                           const char *what)
{
    return rc_raise(FIRN_E_CORRUPT, "table %s, index %s: %s; run firn check", schema->name,
                    index->name, what);
}
