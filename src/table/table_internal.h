/*
 * table_internal.h -- the set of tables, open tables, sessions.
 */
#ifndef FIRN_TABLE_TABLE_INTERNAL_H
#define FIRN_TABLE_TABLE_INTERNAL_H

#include "table/autoincrement.h"
#include "table/table.h"

#include "base/park.h"

#include <stdatomic.h>

struct table_children;

/** The two numbers that a table counts; they are in keys of the dictionary. */
enum table_count {
    TABLE_COUNT_AUTO = 0,
    TABLE_COUNT_ROW_ID = 1,
    TABLE_COUNTS,
};

/** A number that never goes back. What is on disk is ahead of what is given out, by steps. */
struct table_counter {
    pthread_mutex_t mutex;
    _Atomic uint64_t last; /* the largest given out or seen; written under the mutex */
    uint64_t limit;        /* on disk */
};

struct table {
    struct table_set *set;
    uint64_t id;
    unsigned users; /* with the set's mutex */
    struct table_schema *schema;
    struct table_counter counters[TABLE_COUNTS];
    _Atomic(struct table_children *) children; /* tables that refer to it; NULL: not known yet */
    struct btree *trees[];                     /* by index */
};

struct table_set {
    struct table_set_options options;
    pthread_mutex_t ddl_mutex;     /* one change of the dictionary, or first opening of a table, at
                                      a time; protects the session */
    struct btree_session *session; /* of the dictionary */
    struct btree *dictionary;      /* NULL: there has been no table yet */
    _Atomic uint64_t foreign_version; /* of who refers to whom; changes under the DDL mutex */

    pthread_mutex_t mutex; /* protects all below; taken last, nothing is waited for behind it */
    struct table **tables; /* that have been opened, by name */
    size_t table_count;
    size_t table_capacity;
};

/** Memory that grows. */
struct table_bytes {
    uint8_t *bytes;
    size_t size_bytes;
    size_t capacity_bytes;
};

struct table_session {
    struct table_set *set;
    struct txn_session *txn;
    uint64_t auto_offset;
    uint64_t auto_increment;
    struct value_now now;
    bool has_now;
    unsigned duplicate;
    struct table_session *deeper; /* for what foreign keys lead to; same transaction */
    unsigned depth;

    /* Scratch, so that operations allocate nothing once they have run. */
    struct table_bytes found_key; /* table_key, table_get: a primary key */
    size_t key_capacity_bytes;    /* of each of these */
    uint8_t *new_key;
    uint8_t *old_entry; /* keys of secondary indexes */
    uint8_t *new_entry;
    uint8_t *room; /* bytes read from keys */
    unsigned value_capacity;
    struct value *found_values;
    struct value *old_values;
    struct value *new_values;
    struct value *seek_values;
    struct value *assigned; /* what children get */
    struct table_bytes old_row;
    struct table_bytes new_row;
};

/* ---- table_session.c ---- */

/** Make room for what a table's rows and keys need. FIRN_E_NOMEM */
firn_rc table_session_fit(struct table_session *session, const struct table_schema *schema);

/** Make room for so many bytes; what is there may be lost. FIRN_E_NOMEM */
firn_rc table_bytes_reserve(struct table_bytes *bytes, size_t size_bytes);

/** @return what "now" is. */
struct value_now table_session_now(const struct table_session *session);

/* ---- table_entry.c: what an index has of a row ---- */

/** What stands in an index's tree for a row. */
struct table_entry {
    struct span key;
    struct span payload; /* of a unique index: the rest of the key, unless a part is NULL */
};

/** Make a row's entry in a secondary index. @param to  room for key_room; the entry points there */
firn_rc table_entry_form(const struct table_schema *schema, const struct table_index *index,
                         const struct value *values, uint8_t *to, struct table_entry *entry);

/** Put the whole key that an entry stands for together. @param to  room for key_room
 * @return the key; FIRN_E_CORRUPT if it is longer than any key */
firn_rc table_entry_key(const struct table_schema *schema, const struct table_entry *entry,
                        uint8_t *to, struct span *key);

/** @return whether an index has columns whole and readable.
 * @param wanted  NULL: all  @param parts  set: which parts of the key they are */
bool table_index_covers(const struct table_schema *schema, const struct table_index *index,
                        const uint64_t *wanted, uint64_t *parts);

/** Make the beginning of keys, of values that are judged first. @param to  room for key_room
 * @param size_bytes set on success. FIRN_E_INVALID; FIRN_E_MISUSE (part_count) */
firn_rc table_prefix_form(struct table_session *session, const struct table_schema *schema,
                          const struct table_index *index, const struct value *values,
                          unsigned part_count, uint8_t *to, size_t *size_bytes);

/** @return FIRN_E_EXISTS, raised: which values, in which index. */
firn_rc table_raise_duplicate(struct table_session *session, const struct table_schema *schema,
                              unsigned index, const struct value *values);

/** @return FIRN_E_CORRUPT, raised: index and rows do not agree. */
firn_rc table_raise_unlike(const struct table_schema *schema, const struct table_index *index,
                           const char *what);

/* ---- table_counter.c ---- */

/** Draw the next autoincrement numbers, as autoincrement_reserve. */
firn_rc table_counter_reserve(struct table_session *session, struct table *table, uint64_t wanted,
                              uint64_t *first, uint64_t *reserved);

/** Take notice of a number in a row. */
firn_rc table_counter_see(struct table_session *session, struct table *table,
                          const struct value *value);

/** Draw the next hidden row id. FIRN_E_INVALID: there are none left */
firn_rc table_counter_row_id(struct table_session *session, struct table *table, uint64_t *row_id);

/** Read a table's counters from the dictionary; write them as they are, ahead of nothing. Under the
 * DDL mutex. */
firn_rc table_counters_open(struct table *table);
firn_rc table_counters_keep(struct table *table);

/* ---- table_foreign.c ---- */

/** Open the tables that a new one refers to, and judge its foreign keys. @param parents  by foreign
 * key; set as far as it came; itself stays NULL. FIRN_E_INVALID, FIRN_E_NOT_FOUND */
firn_rc table_foreign_open(struct table_set *set, const struct table_schema *child,
                           struct table **parents);

/** FIRN_E_CONSTRAINT: another table refers to it. Under the DDL mutex. */
firn_rc table_foreign_may_drop(struct table_set *set, const char *name);

/** FIRN_E_CONSTRAINT: another table needs an index that is gone. Under the DDL mutex.
 * @param altered  what the table is to be */
firn_rc table_foreign_may_alter(struct table_set *set, const struct table_schema *altered);

/** FIRN_E_UNSUPPORTED: other tables' descriptions name it, or it has foreign keys. */
firn_rc table_foreign_may_rename(struct table_set *set, const struct table_schema *schema);

/** Do the session's new values refer to rows that are there? They are locked.
 * @param changed  columns; NULL: all. FIRN_E_CONSTRAINT: no */
firn_rc table_foreign_check_parents(struct table_session *session, struct table *table,
                                    const uint64_t *changed);

/** See to the children of a row that has been changed from the session's old values to the new
 * ones, or deleted. @param changed  columns; NULL: deleted. FIRN_E_CONSTRAINT: it may not be */
firn_rc table_foreign_follow(struct table_session *session, struct table *table,
                             const uint64_t *changed);

/** May rows of other tables refer to this one's? */
firn_rc table_has_children(struct table *table, bool *has);

/** Free a handle's lists. */
void table_children_free(struct table *table);

/* ---- table_set.c ---- */

/** Forget a table's handle; its counters are kept. Under the DDL mutex. FIRN_E_BUSY: somebody has
 * it open */
firn_rc table_withdraw(struct table_set *set, const char *name);

/* ---- table_ddl.c ---- */

/** Undo what was left by half: tables that were being made or dropped. */
firn_rc table_finish_ddl(struct table_set *set);

#endif
