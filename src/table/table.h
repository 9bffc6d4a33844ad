/*
 * table.h -- tables: rows with indexes, in transactions.
 *
 * A table is a schema (schema.h) over one versioned tree for each index. The first has the rows:
 * key is the primary key or the hidden row id, payload the row (row.h). The others have keys
 * (key.h) that lead to it. Since each tree has versions by itself (src/txn), reading an index alone
 * needs no look at the rows, and neither rolling back nor purging knows what a table is.
 *
 * A session belongs to one thread at a time. It reads and writes in the transaction that its
 * txn_session has open. What a call returns stays valid until the session's next call, unless said
 * otherwise. Handles of tables are shared by threads.
 *
 * README.md has the rules.
 */
#ifndef FIRN_TABLE_TABLE_H
#define FIRN_TABLE_TABLE_H

#include "base/finding.h"
#include "table/key.h"
#include "table/row.h"
#include "txn/txn.h"

struct table_set;     /* the tables of an environment: its dictionary */
struct table;         /* an open table */
struct table_session; /* a thread's way in */

/* ---- What tables stand on ---- */

enum table_tree_place {
    TABLE_TREE_OWN,    /* in a tablespace of its own, which has the tree's name */
    TABLE_TREE_GUEST,  /* in that of another tree */
    TABLE_TREE_SYSTEM, /* in the system tablespace */
};

/** How trees are made, found and dropped, by names that are never used twice for versioned ones.
 * Each call is atomic and durable, or is undone when the environment is opened next. Any thread. */
struct table_storage {
    /** @param host  the other tree, for TABLE_TREE_GUEST  @param tree  set on success; as of find
     */
    firn_rc (*make)(const char *name, enum table_tree_place place, const char *host, bool versioned,
                    struct btree **tree, void *context);
    /** @param tree  set on success; valid until it is dropped. FIRN_E_NOT_FOUND */
    firn_rc (*find)(const char *name, struct btree **tree, void *context);
    /** Drop a tree, and its guests with it. FIRN_E_NOT_FOUND */
    firn_rc (*drop)(const char *name, void *context);
    void *context;
};

struct table_set_options {
    const struct btree_base *base;
    struct txn_set *transactions;
    struct table_storage storage;
    uint32_t page_size_bytes;
    bool read_only; /* nothing may be written: what a crash left by half stays */
};

/**
 * Open the dictionary and finish what was left by half: tables that were being made or dropped go.
 * The dictionary's tree is made with the first table.
 *
 * @param set  set on success; table_set_close
 * @return FIRN_OK; FIRN_E_CORRUPT, FIRN_E_UNSUPPORTED (a newer version's entry), ...
 */
firn_rc table_set_open(const struct table_set_options *options, struct table_set **set);

/** Before closing in good order, with all tables and sessions closed: note which autoincrement
 * numbers were given out, so that the next opening goes on without a gap. What cannot be noted is a
 * gap and a warning. */
void table_set_keep_counters(struct table_set *set);

/** All tables and sessions are closed. Writes nothing. NULL is allowed. */
void table_set_close(struct table_set *set);

/* ---- Tables ---- */

enum table_place {
    TABLE_OWN_FILE, /* one file for the table and its indexes (innodb_file_per_table) */
    TABLE_SYSTEM,   /* in the system tablespace */
};

/**
 * Make a table. Durable on return.
 *
 * @return FIRN_OK; FIRN_E_EXISTS (name); FIRN_E_INVALID (description: schema_create);
 *         FIRN_E_UNSUPPORTED (foreign keys); FIRN_E_BUSY (what a failure left of a table of that
 *         name goes at the next opening); FIRN_E_NOSPACE, ... After a failure nothing of it is
 *         there, at the latest when the environment is opened next.
 */
firn_rc table_create(struct table_set *set, const struct table_spec *spec, enum table_place place);

/** Drop a table that nobody has open. Durable on return. What transactions have not committed in
 * it is gone with it. FIRN_E_NOT_FOUND; FIRN_E_BUSY: somebody has it open */
firn_rc table_drop(struct table_set *set, const char *name);

/* Changes of a table that nobody has open: FIRN_E_BUSY otherwise. Each is durable on return, and
 * after a crash it is there wholly or not at all. FIRN_E_NOT_FOUND: no such table. Rows that
 * transactions have not committed are changed with the others. */

/** Give a table another name. The file keeps its name. FIRN_E_EXISTS; FIRN_E_INVALID;
 * FIRN_E_UNSUPPORTED: it has foreign keys, or others refer to it */
firn_rc table_rename(struct table_set *set, const char *name, const char *new_name);

/** Take all rows away; numbers begin anew. FIRN_E_CONSTRAINT: another table refers to it */
firn_rc table_truncate(struct table_set *set, const char *name);

/** Add a column without touching rows. Parameters and errors as schema_add_column. */
firn_rc table_add_column(struct table_set *set, const char *name, const struct column_spec *column,
                         unsigned position, const struct value_now *now);

/** Drop a column without touching rows. Errors as schema_drop_column. */
firn_rc table_drop_column(struct table_set *set, const char *name, const char *column);

/** Drop a secondary index. Errors as schema_drop_index; FIRN_E_CONSTRAINT: another table's foreign
 * key needs it */
firn_rc table_drop_index(struct table_set *set, const char *name, const char *index);

/** @param table  set on success; table_close. FIRN_E_NOT_FOUND, FIRN_E_CORRUPT, ... Any thread. */
firn_rc table_open(struct table_set *set, const char *name, struct table **table);

/** Give a handle back; no cursor on it is open. NULL is allowed. */
void table_close(struct table *table);

/** Call a function for the name of each table, ascending; it opens tables, but makes and drops
 * none. Stops when it does not return FIRN_OK. */
typedef firn_rc table_visit(const char *name, void *context);
firn_rc table_each(struct table_set *set, table_visit *visit, void *context);

/** @return the schema; it lives as long as the handle. */
const struct table_schema *table_schema(const struct table *table);

/** @return the tree of an index, for figures. */
struct btree *table_tree(const struct table *table, unsigned index);

/* ---- Sessions ---- */

/** @param session  set on success; table_session_close. FIRN_E_NOMEM */
firn_rc table_session_open(struct table_set *set, struct table_session **session);

/** Rolls back what is open; its cursors are closed before. NULL is allowed. */
void table_session_close(struct table_session *session);

/** @return the session's transactions: txn_begin, txn_commit, txn_statement, ...; its own. */
struct txn_session *table_session_txn(struct table_session *session);

/** auto_increment_offset and auto_increment_increment, 1 to 65535 each; 1 and 1 at first. */
void table_session_set_autoincrement(struct table_session *session, uint64_t offset,
                                     uint64_t increment);

/** What "now" is for default values from here on; NULL: the clock's time, in UTC. */
void table_session_set_now(struct table_session *session, const struct value_now *now);

/** @return the index whose key was there already, after FIRN_E_EXISTS from a change of a row. */
unsigned table_session_duplicate(const struct table_session *session);

/* ---- Changing rows ----
 *
 * Each call is one statement's share: if it fails, nothing of it stays, and the transaction lives
 * on, except after FIRN_E_CONFLICT, FIRN_E_DEADLOCK and failures of the device, after which it is
 * to be rolled back. Values are by column and are judged as value_check does; their bytes are
 * neither memory that the session has returned nor needed after the call.
 */

/**
 * Insert a row.
 *
 * The autoincrement column gets the next number if it is not given or NULL; so does the hidden row
 * id.
 *
 * @param values     column_count of them
 * @param given      ROW_SET_WORDS words: which are given, the others get their defaults; NULL: all
 * @param generated  set on success: the number drawn for the autoincrement column, or 0; or NULL
 * @return FIRN_OK; FIRN_E_EXISTS naming index and value; FIRN_E_INVALID naming the column and what
 *         it takes, or the key that gets too long; FIRN_E_CONSTRAINT naming the foreign key:
 *         there is no row that it refers to; as txn_change
 */
firn_rc table_insert(struct table_session *session, struct table *table, const struct value *values,
                     const uint64_t *given, uint64_t *generated);

/**
 * Change columns of a row. It is locked and taken as it is now. Rows that refer to it become what
 * their foreign keys say.
 *
 * @param key      its primary key: table_key, or of a struct table_row
 * @param values   by column; those changed are looked at
 * @param changed  ROW_SET_WORDS words: which columns get their value
 * @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text; as table_insert
 */
firn_rc table_update(struct table_session *session, struct table *table, struct span key,
                     const struct value *values, const uint64_t *changed);

/** Delete a row; rows that refer to it become what their foreign keys say. @return FIRN_OK;
 * FIRN_E_NOT_FOUND, without an error text; FIRN_E_CONSTRAINT: a row refers to it; as txn_change */
firn_rc table_delete(struct table_session *session, struct table *table, struct span key);

/**
 * Reserve numbers of the autoincrement column for rows to come.
 *
 * @param wanted    at least 1
 * @param first     set on success: the first; the next ones are the session's increment further
 * @param reserved  set on success: how many; fewer where the column's range ends
 * @return FIRN_OK; FIRN_E_INVALID: it takes no larger value; FIRN_E_MISUSE: there is no such column
 */
firn_rc table_autoincrement_reserve(struct table_session *session, struct table *table,
                                    uint64_t wanted, uint64_t *first, uint64_t *reserved);

/** Have the next number be at least this one (ALTER TABLE ... AUTO_INCREMENT=n); it never goes
 * back. Errors as above. */
firn_rc table_autoincrement_raise(struct table_session *session, struct table *table,
                                  uint64_t next);

/* ---- Reading rows ---- */

/** A row that was read. */
struct table_row {
    struct span key; /* its primary key; may be passed to table_update and table_delete */
    const struct value *values; /* by column; those wanted are set */
};

/**
 * Make a primary key from values.
 *
 * @param values  by column; those of the key are looked at
 * @param key     set on success; valid until the session's next call of table_key or table_get
 */
firn_rc table_key(struct table_session *session, struct table *table, const struct value *values,
                  struct span *key);

/**
 * Get the row that a unique index leads to.
 *
 * @param index   0: the primary key; or a unique one
 * @param values  by column; those of the index's declared parts are looked at, none of them NULL
 * @param wanted  ROW_SET_WORDS words: the columns to read; NULL: all. Where the index has them all,
 *                the row is not looked at, unless it is to be locked exclusively
 * @param row     set on success; its key stays as table_key's does
 * @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text; FIRN_E_MISUSE (the index is not unique,
 *         NULL); as txn_get
 */
firn_rc table_get(struct table_session *session, struct table *table, unsigned index,
                  const struct value *values, const uint64_t *wanted, enum txn_lock lock,
                  enum txn_wait wait, struct table_row *row);

/* ---- Cursors ---- */

struct table_cursor;

/**
 * Open a cursor over an index.
 *
 * @param wanted  ROW_SET_WORDS words: the columns to read; NULL: all. Of an index that has them
 * all, the rows are not looked at, unless they are to be locked exclusively
 * @param cursor  set on success; table_cursor_close, before the transaction ends
 */
firn_rc table_cursor_open(struct table_session *session, struct table *table, unsigned index,
                          const uint64_t *wanted, enum txn_lock lock, enum txn_wait wait,
                          struct table_cursor **cursor);

/** NULL is allowed. */
void table_cursor_close(struct table_cursor *cursor);

/**
 * Where to move to, by the beginning of a key: values of the index's first parts. "Before" and
 * "after" are in the index's order: descending parts have larger values before smaller ones. Of a
 * part with a prefix only that counts.
 */
enum table_seek {
    TABLE_SEEK_FIRST, /* the values are ignored: the range's first */
    TABLE_SEEK_LAST,
    TABLE_SEEK_EXACT,      /* the first that begins so, or none */
    TABLE_SEEK_EXACT_LAST, /* the last that begins so, or none */
    TABLE_SEEK_AT_OR_AFTER,
    TABLE_SEEK_AFTER, /* the first behind all that begin so */
    TABLE_SEEK_AT_OR_BEFORE,
    TABLE_SEEK_BEFORE,
};

/**
 * Have the cursor end at a bound: going forward at an upper one, backward at a lower one. With
 * locks, what stands right behind the bound may get locked, too. It holds until it is set anew.
 *
 * @param values      by column; NULL: there is no such bound
 * @param part_count  how many parts are looked at; as of table_cursor_seek
 * @param inclusive   rows that begin so are within
 */
firn_rc table_cursor_set_lower(struct table_cursor *cursor, const struct value *values,
                               unsigned part_count, bool inclusive);
firn_rc table_cursor_set_upper(struct table_cursor *cursor, const struct value *values,
                               unsigned part_count, bool inclusive);

/**
 * Move to a row.
 *
 * @param values      by column; not for FIRST and LAST
 * @param part_count  1 to the index's declared parts; of one that is not unique, to all its parts
 * @return FIRN_OK; FIRN_E_NOT_FOUND, without an error text; FIRN_E_INVALID (a value that the column
 *         does not take); as txn_cursor_seek
 */
firn_rc table_cursor_seek(struct table_cursor *cursor, enum table_seek seek,
                          const struct value *values, unsigned part_count);

/** Move on from a row. FIRN_E_NOT_FOUND, without an error text, at the end. */
firn_rc table_cursor_next(struct table_cursor *cursor);
firn_rc table_cursor_prev(struct table_cursor *cursor);

/** @return the row that the cursor was moved to last, if that succeeded; its key is valid until the
 * cursor moves. */
struct table_row table_cursor_row(const struct table_cursor *cursor);

/* ---- Judging ---- */

struct table_check_result {
    uint64_t rows;
    uint64_t entries; /* of all secondary indexes */
    uint64_t problems;
};

/**
 * Check a table as of one snapshot: every row and key, and that each row has its entry in each
 * secondary index and each entry its row. Others read and write meanwhile.
 *
 * @param session  with no transaction open
 * @param report   gets each problem
 * @param result   set, also when problems were told
 * @return FIRN_OK; FIRN_E_CORRUPT when problems were told; FIRN_E_NOMEM, FIRN_E_IO, ...
 */
firn_rc table_check(struct table_session *session, struct table *table, finding_report *report,
                    void *context, struct table_check_result *result);

#endif
