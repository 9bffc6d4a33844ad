/*
 * The dictionary's bytes.
 */
#include "table/dictionary_internal.h"

#include "base/check.h"
#include "base/endian.h"
#include "base/memory.h"

#include <stdio.h>

static const char dictionary_name[] = "firn.dictionary";

/* What keys begin with. */
enum { KEY_NEXT_ID = 0, KEY_TABLE = 1, KEY_COUNT = 2, KEY_CHILD = 3 };

/* An entry, byte by byte; FORMAT.md. */
enum {
    ENTRY_VERSION_AT = 0,
    ENTRY_STATE_AT = 1,
    ENTRY_FLAGS_AT = 2,
    ENTRY_INDEXES_AT = 4,
    ENTRY_NEXT_NUMBER_AT = 6,
    ENTRY_ID_AT = 8,
    ENTRY_LEFT_ID_AT = 16,
    ENTRY_LEFT_NUMBER_AT = 24,
    ENTRY_STEM_BYTES_AT = 26,
    ENTRY_NUMBERS_AT = 28, /* 2 bytes each, then the stem, then the schema */

    ENTRY_VERSION = 1,
    ENTRY_SYSTEM = 1, /* flag */
};

/* ---- Keys ---- */

struct name_key {
    uint8_t bytes[1 + SCHEMA_NAME_BYTES_MAX];
};

/* FIRN_E_NOT_FOUND for a name that no table can have. */
static firn_rc name_key(const char *name, struct name_key *key, struct span *bytes)
{
    size_t length = strlen(name);
    if (length > SCHEMA_NAME_BYTES_MAX)
        return FIRN_E_NOT_FOUND;
    key->bytes[0] = KEY_TABLE;
    memcpy(key->bytes + 1, name, length);
    *bytes = span_of(key->bytes, 1 + length);
    return FIRN_OK;
}

enum { COUNT_KEY_BYTES = 10 };

/* Ids order as numbers, so that a table's counters stand together. */
static struct span count_key(uint64_t table_id, enum table_count count,
                             uint8_t key[COUNT_KEY_BYTES])
{
    uint64_t id = htobe64(table_id);
    key[0] = KEY_COUNT;
    memcpy(key + 1, &id, sizeof id);
    key[9] = (uint8_t)count;
    return span_of(key, COUNT_KEY_BYTES);
}

/* ---- Names of trees ---- */

static bool may_be_in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (unsigned char)c >= 0x80 || c == '_' || c == '-' || c == '.' || c == '$';
}

/* Not cut off within a character of UTF-8. */
static size_t stem_bytes(const char *name)
{
    size_t length = strlen(name);
    if (length <= DICTIONARY_STEM_MAX)
        return length;
    length = DICTIONARY_STEM_MAX;
    while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
        length--;
    return length;
}

void dictionary_choose_stem(struct dictionary_entry *entry, const char *table_name)
{
    size_t length = stem_bytes(table_name);
    for (size_t i = 0; i < length; i++) {
        char c = table_name[i];
        entry->stem[i] = may_be_in_name(c) ? c : '_';
        if (c == '/')
            entry->stem[i] = '.';
    }
    if (length > 0 && entry->stem[0] == '.')
        entry->stem[0] = '_';
    entry->stem[length] = '\0';
}

/* The id keeps names apart, and what stands before it tells people which table it is. The last
   sign that is no digit keeps tables' names and indexes' apart. */
const char *dictionary_tree_name(const struct dictionary_entry *entry, unsigned index,
                                 char name[DICTIONARY_TREE_NAME_MAX])
{
    int size = index == 0 ? snprintf(name, DICTIONARY_TREE_NAME_MAX, "%s.%llu", entry->stem,
                                     (unsigned long long)entry->table_id)
                          : snprintf(name, DICTIONARY_TREE_NAME_MAX, "%s.%llu-%u", entry->stem,
                                     (unsigned long long)entry->table_id, entry->numbers[index]);
    ENSURE(size > 0 && size < DICTIONARY_TREE_NAME_MAX);
    return name;
}

/* ---- The tree ---- */

firn_rc dictionary_open(struct table_set *set, bool create)
{
    const struct table_storage *storage = &set->options.storage;
    if (set->dictionary != NULL)
        return FIRN_OK;
    firn_rc rc = storage->find(dictionary_name, &set->dictionary, storage->context);
    if (rc != FIRN_E_NOT_FOUND)
        return rc;
    if (!create)
        return FIRN_OK;
    return storage->make(dictionary_name, TABLE_TREE_SYSTEM, NULL, false, &set->dictionary,
                         storage->context);
}

static firn_rc raise_entry(const char *what)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "tree %s has an entry that makes no sense (%s); restore the environment from a "
                    "backup",
                    dictionary_name, what);
}

/* A number that stands under a key; 0 if there is none. */
static firn_rc get_number(struct table_set *set, struct span key, uint64_t *number)
{
    struct span value;
    if (set->dictionary == NULL) {
        *number = 0;
        return FIRN_OK;
    }
    firn_rc rc = btree_get(set->session, set->dictionary, key, &value);
    if (rc == FIRN_E_NOT_FOUND) {
        *number = 0;
        return FIRN_OK;
    }
    FIRN_TRY(rc);
    if (value.size_bytes != sizeof *number)
        return raise_entry("a counter");
    *number = get_u64(value.bytes);
    return FIRN_OK;
}

static firn_rc put_number(struct table_set *set, struct btree_session *session, struct span key,
                          uint64_t number)
{
    uint8_t bytes[sizeof number];
    put_u64(bytes, number);
    return btree_put(session, set->dictionary, key, span_of(bytes, sizeof bytes), NULL);
}

firn_rc dictionary_next_id(struct table_set *set, uint64_t *table_id)
{
    static const uint8_t key[] = {KEY_NEXT_ID};
    uint64_t last = 0;
    FIRN_TRY(get_number(set, span_of(key, sizeof key), &last));
    FIRN_TRY(put_number(set, set->session, span_of(key, sizeof key), last + 1));
    *table_id = last + 1;
    return FIRN_OK;
}

firn_rc dictionary_get_count(struct table_set *set, uint64_t table_id, enum table_count count,
                             uint64_t *number)
{
    uint8_t key[COUNT_KEY_BYTES];
    return get_number(set, count_key(table_id, count, key), number);
}

firn_rc dictionary_put_count(struct table_set *set, struct btree_session *session,
                             uint64_t table_id, enum table_count count, uint64_t number)
{
    uint8_t key[COUNT_KEY_BYTES];
    return put_number(set, session, count_key(table_id, count, key), number);
}

/* ---- Entries ---- */

static firn_rc parse_entry(const char *name, struct span value, struct dictionary_entry *entry)
{
    const uint8_t *bytes = value.bytes;
    if (value.size_bytes < ENTRY_NUMBERS_AT)
        return raise_entry(name);
    if (bytes[ENTRY_VERSION_AT] > ENTRY_VERSION)
        return rc_raise(FIRN_E_UNSUPPORTED,
                        "the dictionary's entry of table %s has version %u and this firn knows "
                        "versions up to %d: use the newer firn that wrote it",
                        name, bytes[ENTRY_VERSION_AT], ENTRY_VERSION);
    *entry = (struct dictionary_entry){
        .state = (enum dictionary_state)bytes[ENTRY_STATE_AT],
        .is_system = bytes[ENTRY_FLAGS_AT] & ENTRY_SYSTEM,
        .table_id = get_u64(bytes + ENTRY_ID_AT),
        .left_id = get_u64(bytes + ENTRY_LEFT_ID_AT),
        .left_number = get_u16(bytes + ENTRY_LEFT_NUMBER_AT),
        .next_number = get_u16(bytes + ENTRY_NEXT_NUMBER_AT),
        .index_count = get_u16(bytes + ENTRY_INDEXES_AT),
    };
    size_t stem = get_u16(bytes + ENTRY_STEM_BYTES_AT);
    size_t stem_at = ENTRY_NUMBERS_AT + 2 * (size_t)entry->index_count;
    if (bytes[ENTRY_VERSION_AT] != ENTRY_VERSION || entry->state < DICTIONARY_CREATING ||
        entry->state > DICTIONARY_RENAMING || entry->index_count == 0 ||
        entry->index_count > SCHEMA_INDEXES_MAX || stem > DICTIONARY_STEM_MAX ||
        stem_at + stem > value.size_bytes)
        return raise_entry(name);
    for (unsigned i = 0; i < entry->index_count; i++)
        entry->numbers[i] = get_u16(bytes + ENTRY_NUMBERS_AT + 2 * (size_t)i);
    memcpy(entry->stem, bytes + stem_at, stem);
    entry->stem[stem] = '\0';
    entry->schema = span_of(bytes + stem_at + stem, value.size_bytes - stem_at - stem);
    return FIRN_OK;
}

firn_rc dictionary_get(struct table_set *set, const char *name, struct dictionary_entry *entry)
{
    struct name_key key;
    struct span bytes;
    struct span value;
    if (set->dictionary == NULL)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(name_key(name, &key, &bytes));
    FIRN_TRY(btree_get(set->session, set->dictionary, bytes, &value));
    return parse_entry(name, value, entry);
}

static void write_entry(const struct dictionary_entry *entry, uint8_t *to)
{
    size_t stem = strlen(entry->stem);
    memset(to, 0, ENTRY_NUMBERS_AT);
    to[ENTRY_VERSION_AT] = ENTRY_VERSION;
    to[ENTRY_STATE_AT] = (uint8_t)entry->state;
    to[ENTRY_FLAGS_AT] = entry->is_system ? ENTRY_SYSTEM : 0;
    put_u16(to + ENTRY_INDEXES_AT, (uint16_t)entry->index_count);
    put_u16(to + ENTRY_NEXT_NUMBER_AT, entry->next_number);
    put_u64(to + ENTRY_ID_AT, entry->table_id);
    put_u64(to + ENTRY_LEFT_ID_AT, entry->left_id);
    put_u16(to + ENTRY_LEFT_NUMBER_AT, entry->left_number);
    put_u16(to + ENTRY_STEM_BYTES_AT, (uint16_t)stem);
    to += ENTRY_NUMBERS_AT;
    for (unsigned i = 0; i < entry->index_count; i++, to += 2)
        put_u16(to, entry->numbers[i]);
    memcpy(to, entry->stem, stem);
    memcpy(to + stem, entry->schema.bytes, entry->schema.size_bytes);
}

firn_rc dictionary_put(struct table_set *set, const char *name,
                       const struct dictionary_entry *entry, bool is_durable)
{
    struct name_key key;
    struct span key_bytes;
    uint64_t end_lsn = 0;
    size_t size = ENTRY_NUMBERS_AT + 2 * (size_t)entry->index_count + strlen(entry->stem) +
                  entry->schema.size_bytes;
    FIRN_TRY(name_key(name, &key, &key_bytes));
    uint8_t *bytes = memory_alloc(size);
    if (bytes == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the dictionary's entry of table %s", name);
    write_entry(entry, bytes);
    firn_rc rc =
        btree_put(set->session, set->dictionary, key_bytes, span_of(bytes, size), &end_lsn);
    memory_free(bytes);
    FIRN_TRY(rc);
    return is_durable ? redo_flush(set->options.base->redo, end_lsn, REDO_FLUSH_SYNC) : FIRN_OK;
}

firn_rc dictionary_delete(struct table_set *set, const char *name)
{
    struct name_key key;
    struct span bytes;
    FIRN_TRY(name_key(name, &key, &bytes));
    firn_rc rc = btree_delete(set->session, set->dictionary, bytes, NULL);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

firn_rc dictionary_delete_counts(struct table_set *set, uint64_t table_id)
{
    firn_rc rc = FIRN_OK;
    for (unsigned count = 0; count < TABLE_COUNTS && (rc == FIRN_OK || rc == FIRN_E_NOT_FOUND);
         count++) {
        uint8_t counter[COUNT_KEY_BYTES];
        rc = btree_delete(set->session, set->dictionary,
                          count_key(table_id, (enum table_count)count, counter), NULL);
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static firn_rc visit_entry(struct btree_cursor *cursor, dictionary_visit *visit, void *context)
{
    char name[SCHEMA_NAME_BYTES_MAX + 1];
    struct dictionary_entry entry;
    struct span value;
    struct span key = btree_cursor_key(cursor);
    if (key.size_bytes == 0 || key.bytes[0] != KEY_TABLE)
        return FIRN_E_NOT_FOUND;
    if (key.size_bytes > sizeof name)
        return raise_entry("a name");
    memcpy(name, key.bytes + 1, key.size_bytes - 1);
    name[key.size_bytes - 1] = '\0';
    FIRN_TRY(btree_cursor_value(cursor, &value));
    FIRN_TRY(parse_entry(name, value, &entry));
    return visit(name, &entry, context);
}

firn_rc dictionary_each(struct table_set *set, dictionary_visit *visit, void *context)
{
    static const uint8_t first[] = {KEY_TABLE};
    struct btree_cursor *cursor;
    if (set->dictionary == NULL)
        return FIRN_OK;
    FIRN_TRY(btree_cursor_open(set->options.base, set->dictionary, &cursor));
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_AT_OR_AFTER, span_of(first, sizeof first));
    while (rc == FIRN_OK) {
        rc = visit_entry(cursor, visit, context);
        if (rc == FIRN_OK)
            rc = btree_cursor_next(cursor);
    }
    btree_cursor_close(cursor);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* ---- Who refers to whom ---- */

struct child_key {
    uint8_t bytes[2 + 2 * SCHEMA_NAME_BYTES_MAX];
};

/* Names have no zero bytes. */
static struct span child_key(const char *parent, const char *child, struct child_key *key)
{
    size_t parent_bytes = strlen(parent);
    size_t child_bytes = strlen(child);
    ENSURE(parent_bytes <= SCHEMA_NAME_BYTES_MAX && child_bytes <= SCHEMA_NAME_BYTES_MAX);
    key->bytes[0] = KEY_CHILD;
    memcpy(key->bytes + 1, parent, parent_bytes + 1);
    memcpy(key->bytes + 2 + parent_bytes, child, child_bytes);
    return span_of(key->bytes, 2 + parent_bytes + child_bytes);
}

firn_rc dictionary_put_child(struct table_set *set, const char *parent, const char *child)
{
    struct child_key key;
    struct span bytes = child_key(parent, child, &key);
    if (bytes.size_bytes > btree_key_max(set->dictionary))
        return rc_raise(FIRN_E_INVALID,
                        "the names of table %s and of table %s, which it refers to, are too long "
                        "together",
                        child, parent);
    return btree_put(set->session, set->dictionary, bytes, span_of(NULL, 0), NULL);
}

firn_rc dictionary_delete_child(struct table_set *set, const char *parent, const char *child)
{
    struct child_key key;
    firn_rc rc = btree_delete(set->session, set->dictionary, child_key(parent, child, &key), NULL);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static firn_rc visit_child(struct btree_cursor *cursor, struct span begin, table_visit *visit,
                           void *context)
{
    char name[SCHEMA_NAME_BYTES_MAX + 1];
    struct span key = btree_cursor_key(cursor);
    if (key.size_bytes < begin.size_bytes || memcmp(key.bytes, begin.bytes, begin.size_bytes) != 0)
        return FIRN_E_NOT_FOUND;
    size_t size = key.size_bytes - begin.size_bytes;
    if (size >= sizeof name)
        return raise_entry("a name");
    memcpy(name, key.bytes + begin.size_bytes, size);
    name[size] = '\0';
    return visit(name, context);
}

firn_rc dictionary_each_child(struct table_set *set, const char *parent, table_visit *visit,
                              void *context)
{
    struct child_key key;
    struct span begin = child_key(parent, "", &key);
    struct btree_cursor *cursor;
    if (set->dictionary == NULL)
        return FIRN_OK;
    FIRN_TRY(btree_cursor_open(set->options.base, set->dictionary, &cursor));
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_AT_OR_AFTER, begin);
    while (rc == FIRN_OK) {
        rc = visit_child(cursor, begin, visit, context);
        if (rc == FIRN_OK)
            rc = btree_cursor_next(cursor);
    }
    btree_cursor_close(cursor);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}
