/*
 * Changing tables that are there: names, columns, indexes, all rows at once.
 *
 * The entry of the dictionary is what counts, and is replaced by one put. What a change no longer
 * needs, or has made ahead and not used yet, is what the entry says is left; opening takes it away.
 */
#include "table/dictionary_internal.h"

#include "base/log.h"

/** A table that nobody uses, about to be changed. */
struct alteration {
    struct table_set *set;
    const char *name;
    struct dictionary_entry entry;
    struct table_schema *schema;
    struct table_schema *altered; /* what it is to be, or NULL */
};

/* ---- Beginnings and ends ---- */

static firn_rc open_alteration(struct alteration *alter)
{
    FIRN_TRY(table_find_live(alter->set, alter->name, &alter->entry, &alter->schema));
    FIRN_TRY(table_withdraw(alter->set, alter->name));
    return table_remove_left(alter->set, alter->name, &alter->entry);
}

/* The change is done and durable; what is in the way of nobody may stay a while. */
static void clean_up(struct alteration *alter)
{
    if (table_remove_left(alter->set, alter->name, &alter->entry) != FIRN_OK)
        log_warning("what table %s does not need any more goes when the environment is opened "
                    "next: %s",
                    alter->name, firn_error_text());
}

typedef firn_rc alter_function(struct alteration *alter, const void *wanted);

static firn_rc run(struct table_set *set, const char *name, alter_function *change,
                   const void *wanted)
{
    struct alteration alter = {.set = set, .name = name};
    FIRN_TRY(table_require_writable(set));
    lock_take(&set->ddl_mutex);
    firn_rc rc = open_alteration(&alter);
    if (rc == FIRN_OK)
        rc = change(&alter, wanted);
    if (rc == FIRN_OK)
        clean_up(&alter);
    lock_give(&set->ddl_mutex);
    schema_free(alter.altered);
    schema_free(alter.schema);
    return rc;
}

/* Put the altered description in the old one's place. */
static firn_rc put_altered(struct alteration *alter)
{
    alter->entry.schema = alter->altered->bytes;
    return dictionary_put(alter->set, alter->name, &alter->entry, true);
}

/* ---- Columns: rows stay as they are ---- */

struct new_column {
    const struct column_spec *spec;
    unsigned position;
    const struct value_now *now;
};

static firn_rc add_column(struct alteration *alter, const void *wanted)
{
    const struct new_column *column = wanted;
    FIRN_TRY(schema_add_column(alter->schema, column->spec, column->position, column->now,
                               &alter->altered));
    return put_altered(alter);
}

firn_rc table_add_column(struct table_set *set, const char *name, const struct column_spec *column,
                         unsigned position, const struct value_now *now)
{
    struct new_column wanted = {column, position, now};
    return run(set, name, add_column, &wanted);
}

static firn_rc drop_column(struct alteration *alter, const void *wanted)
{
    FIRN_TRY(schema_drop_column(alter->schema, wanted, &alter->altered));
    return put_altered(alter);
}

firn_rc table_drop_column(struct table_set *set, const char *name, const char *column)
{
    return run(set, name, drop_column, column);
}

/* ---- Indexes ---- */

static firn_rc drop_index(struct alteration *alter, const void *wanted)
{
    struct dictionary_entry *entry = &alter->entry;
    FIRN_TRY(schema_drop_index(alter->schema, wanted, &alter->altered));
    FIRN_TRY(table_foreign_may_alter(alter->set, alter->altered));
    unsigned number = schema_find_index(alter->schema, wanted);
    entry->left_id = entry->table_id;
    entry->left_number = entry->numbers[number];
    entry->index_count--;
    for (unsigned i = number; i < entry->index_count; i++)
        entry->numbers[i] = entry->numbers[i + 1];
    return put_altered(alter);
}

firn_rc table_drop_index(struct table_set *set, const char *name, const char *index)
{
    return run(set, name, drop_index, index);
}

/* ---- Names ---- */

/* The old entry stays until the new one is there; opening finds out which of the two counts. */
static firn_rc rename_table(struct alteration *alter, const void *wanted)
{
    struct table_set *set = alter->set;
    const char *name = wanted;
    FIRN_TRY(table_check_name_is_free(set, name));
    FIRN_TRY(table_foreign_may_rename(set, alter->schema));
    FIRN_TRY(schema_rename(alter->schema, name, &alter->altered));
    alter->entry.state = DICTIONARY_RENAMING;
    FIRN_TRY(dictionary_put(set, alter->name, &alter->entry, false));
    struct dictionary_entry renamed = alter->entry;
    renamed.state = DICTIONARY_LIVE;
    renamed.schema = alter->altered->bytes;
    firn_rc rc = dictionary_put(set, name, &renamed, true);
    if (rc == FIRN_OK)
        return dictionary_delete(set, alter->name);
    alter->entry.state = DICTIONARY_LIVE;
    (void)dictionary_put(set, alter->name, &alter->entry, false);
    return rc;
}

firn_rc table_rename(struct table_set *set, const char *name, const char *new_name)
{
    return run(set, name, rename_table, new_name);
}

/* ---- All rows at once ---- */

/* New trees take the place of the old ones. */
static firn_rc truncate_table(struct alteration *alter, const void *wanted)
{
    struct table_set *set = alter->set;
    struct dictionary_entry *entry = &alter->entry;
    uint64_t old_id = entry->table_id;
    (void)wanted;
    FIRN_TRY(table_foreign_may_drop(set, alter->name));
    FIRN_TRY(dictionary_next_id(set, &entry->left_id));
    struct dictionary_entry made = *entry;
    made.table_id = entry->left_id;
    FIRN_TRY(dictionary_put(set, alter->name, entry, false));
    firn_rc rc = table_make_trees(set, &made);
    if (rc == FIRN_OK) {
        made.left_id = old_id;
        rc = dictionary_put(set, alter->name, &made, true);
    }
    if (rc != FIRN_OK)
        return table_undo_left(set, alter->name, entry, rc);
    *entry = made;
    return FIRN_OK;
}

firn_rc table_truncate(struct table_set *set, const char *name)
{
    return run(set, name, truncate_table, NULL);
}
