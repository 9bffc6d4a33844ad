/*
 * dictionary_internal.h -- which tables there are: a tree without versions in the system
 * tablespace. FORMAT.md has the bytes.
 *
 * Each change of an entry is one put, atomic and logged in order. Whoever calls has the set's DDL
 * mutex, but for dictionary_put_count.
 */
#ifndef FIRN_TABLE_DICTIONARY_INTERNAL_H
#define FIRN_TABLE_DICTIONARY_INTERNAL_H

#include "table/table_internal.h"

/** How far a table has come. Only live ones exist for anybody outside. */
enum dictionary_state {
    DICTIONARY_CREATING = 1, /* trees may be there already */
    DICTIONARY_LIVE = 2,
    DICTIONARY_DROPPING = 3, /* trees may be there still */
    DICTIONARY_RENAMING = 4, /* it is there, under this name or, if there is an entry with its id
                                that is live, under that one's */
};

enum {
    DICTIONARY_STEM_MAX = 120,
    DICTIONARY_TREE_NAME_MAX = DICTIONARY_STEM_MAX + 32,
};

struct dictionary_entry {
    enum dictionary_state state;
    bool is_system; /* in the system tablespace */
    uint64_t table_id;
    uint64_t
        left_id; /* what is not the table's any more, or not yet: of this id, if it is not 0, */
    uint16_t left_number; /* the tree of this number; 0: all trees */
    uint16_t next_number; /* of an index that is added */
    unsigned index_count;
    uint16_t numbers[SCHEMA_INDEXES_MAX]; /* of its trees, by index */
    char stem[DICTIONARY_STEM_MAX + 1];   /* what its trees' names begin with */
    struct span schema;
};

/** Find the dictionary's tree. @param create  make it if there is none */
firn_rc dictionary_open(struct table_set *set, bool create);

/** Make the name of one of a table's trees. @return name */
const char *dictionary_tree_name(const struct dictionary_entry *entry, unsigned index,
                                 char name[DICTIONARY_TREE_NAME_MAX]);

/** Choose what the names of a table's trees begin with: the table's, where a file may be called so.
 */
void dictionary_choose_stem(struct dictionary_entry *entry, const char *table_name);

/** Take an id that no table has had. */
firn_rc dictionary_next_id(struct table_set *set, uint64_t *table_id);

/** Get an entry. @param entry  set on success; the schema is valid until the dictionary's next call
 * @return FIRN_OK; FIRN_E_NOT_FOUND without an error text; FIRN_E_CORRUPT, FIRN_E_UNSUPPORTED */
firn_rc dictionary_get(struct table_set *set, const char *name, struct dictionary_entry *entry);

/** Write an entry. @param is_durable  on return it is so */
firn_rc dictionary_put(struct table_set *set, const char *name,
                       const struct dictionary_entry *entry, bool is_durable);

/** Remove an entry; it need not be there. */
firn_rc dictionary_delete(struct table_set *set, const char *name);

/** Remove the counters of a table, which need not be there. Without an entry nobody looks for them,
 * and the id is not used again. */
firn_rc dictionary_delete_counts(struct table_set *set, uint64_t table_id);

/** Call a function for each entry, by name; it changes nothing. */
typedef firn_rc dictionary_visit(const char *name, const struct dictionary_entry *entry,
                                 void *context);
firn_rc dictionary_each(struct table_set *set, dictionary_visit *visit, void *context);

/** Note that a table refers to another one, or does not any more. It may be noted when it is not
 * so; it is never so without being noted. */
firn_rc dictionary_put_child(struct table_set *set, const char *parent, const char *child);
firn_rc dictionary_delete_child(struct table_set *set, const char *parent, const char *child);

/** Call a function for each table that is noted so. */
firn_rc dictionary_each_child(struct table_set *set, const char *parent, table_visit *visit,
                              void *context);

/** Read a counter; 0 if it has never been written. */
firn_rc dictionary_get_count(struct table_set *set, uint64_t table_id, enum table_count count,
                             uint64_t *number);

/** Write a counter, in any session. */
firn_rc dictionary_put_count(struct table_set *set, struct btree_session *session,
                             uint64_t table_id, enum table_count count, uint64_t number);

/* ---- table_ddl.c ---- */

/** Make a table's trees. */
firn_rc table_make_trees(struct table_set *set, const struct dictionary_entry *entry);

/** Take away what a change of a table has left; then the entry says so. */
firn_rc table_remove_left(struct table_set *set, const char *name, struct dictionary_entry *entry);

/** The same when a change has failed: what stays is for the next opening. @return rc, its sentence
 * raised again */
firn_rc table_undo_left(struct table_set *set, const char *name, struct dictionary_entry *entry,
                        firn_rc rc);

/** FIRN_E_EXISTS, FIRN_E_BUSY: a table has the name. */
firn_rc table_check_name_is_free(struct table_set *set, const char *name);

/** FIRN_E_MISUSE: nothing may be written. */
firn_rc table_require_writable(const struct table_set *set);

/** Get a table that is there. @param entry  its schema's bytes are those of `schema`
 * @param schema  set on success; schema_free. FIRN_E_NOT_FOUND */
firn_rc table_find_live(struct table_set *set, const char *name, struct dictionary_entry *entry,
                        struct table_schema **schema);

#endif
