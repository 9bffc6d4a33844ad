/*
 * Making and dropping tables.
 *
 * A table is an entry of the dictionary and several trees, and nothing changes all of them at once.
 * So the entry says what is under way before the first tree is made, and goes when the last one has
 * gone. Whatever a crash leaves, opening finds an entry that is not live and takes away what it
 * names.
 */
#include "table/dictionary_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>

enum { ERROR_TEXT_BYTES = 1024 };

/* ---- Trees ---- */

firn_rc table_make_trees(struct table_set *set, const struct dictionary_entry *entry)
{
    const struct table_storage *storage = &set->options.storage;
    char host[DICTIONARY_TREE_NAME_MAX];
    char name[DICTIONARY_TREE_NAME_MAX];
    struct btree *tree;
    dictionary_tree_name(entry, 0, host);
    FIRN_TRY(storage->make(host, entry->is_system ? TABLE_TREE_SYSTEM : TABLE_TREE_OWN, NULL, true,
                           &tree, storage->context));
    for (unsigned i = 1; i < entry->index_count; i++)
        FIRN_TRY(storage->make(dictionary_tree_name(entry, i, name),
                               entry->is_system ? TABLE_TREE_SYSTEM : TABLE_TREE_GUEST, host, true,
                               &tree, storage->context));
    return FIRN_OK;
}

static firn_rc drop_tree(struct table_set *set, const struct dictionary_entry *entry,
                         unsigned index)
{
    const struct table_storage *storage = &set->options.storage;
    char name[DICTIONARY_TREE_NAME_MAX];
    firn_rc rc = storage->drop(dictionary_tree_name(entry, index, name), storage->context);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* The first tree takes its guests along. */
static firn_rc remove_trees(struct table_set *set, const struct dictionary_entry *entry)
{
    for (unsigned i = entry->is_system ? entry->index_count : 1; i-- > 0;)
        FIRN_TRY(drop_tree(set, entry, i));
    return FIRN_OK;
}

/* What a change of the table has left, or has made and not used. */
static firn_rc remove_left_trees(struct table_set *set, const struct dictionary_entry *entry)
{
    struct dictionary_entry left = *entry;
    left.table_id = entry->left_id;
    if (entry->left_id == 0)
        return FIRN_OK;
    if (entry->left_number == 0) {
        FIRN_TRY(remove_trees(set, &left));
        return dictionary_delete_counts(set, left.table_id);
    }
    left.numbers[1] = entry->left_number;
    return drop_tree(set, &left, 1);
}

firn_rc table_remove_left(struct table_set *set, const char *name, struct dictionary_entry *entry)
{
    if (entry->left_id == 0)
        return FIRN_OK;
    FIRN_TRY(remove_left_trees(set, entry));
    entry->left_id = 0;
    entry->left_number = 0;
    return dictionary_put(set, name, entry, false);
}

firn_rc table_undo_left(struct table_set *set, const char *name, struct dictionary_entry *entry,
                        firn_rc rc)
{
    char text[ERROR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", firn_error_text());
    (void)table_remove_left(set, name, entry);
    return rc_raise(rc, "%s", text);
}

/* Trees, then the entry. May be repeated from any point. */
static firn_rc remove_table(struct table_set *set, const char *name,
                            const struct dictionary_entry *entry)
{
    FIRN_TRY(remove_left_trees(set, entry));
    FIRN_TRY(remove_trees(set, entry));
    FIRN_TRY(dictionary_delete(set, name));
    return dictionary_delete_counts(set, entry->table_id);
}

/* ---- Making ---- */

firn_rc table_check_name_is_free(struct table_set *set, const char *name)
{
    struct dictionary_entry entry;
    firn_rc rc = dictionary_get(set, name, &entry);
    if (rc == FIRN_E_NOT_FOUND)
        return FIRN_OK;
    FIRN_TRY(rc);
    if (entry.state == DICTIONARY_LIVE)
        return rc_raise(FIRN_E_EXISTS, "there is a table %s already", name);
    return rc_raise(FIRN_E_BUSY,
                    "what a failure left of an earlier table %s is still there: close the "
                    "environment and open it again, which removes that",
                    name);
}

/* Who refers to whom is noted before the table is there, and as long as it is. */
static firn_rc note_parents(struct table_set *set, const struct table_schema *schema, bool refers)
{
    for (unsigned f = 0; f < schema->foreign_count; f++) {
        const char *parent = schema->foreigns[f].parent;
        FIRN_TRY(refers ? dictionary_put_child(set, parent, schema->name)
                        : dictionary_delete_child(set, parent, schema->name));
    }
    return FIRN_OK;
}

static firn_rc make_content(struct table_set *set, const struct table_schema *schema,
                            struct dictionary_entry *entry)
{
    FIRN_TRY(note_parents(set, schema, true));
    FIRN_TRY(table_make_trees(set, entry));
    entry->state = DICTIONARY_LIVE;
    FIRN_TRY(dictionary_put(set, schema->name, entry, true));
    if (schema->foreign_count > 0)
        atomic_fetch_add_explicit(&set->foreign_version, 1, memory_order_release);
    return FIRN_OK;
}

/* On failure what was made goes again; if that fails, at the next opening. */
static firn_rc create(struct table_set *set, const struct table_schema *schema,
                      enum table_place place)
{
    char text[ERROR_TEXT_BYTES];
    struct dictionary_entry entry = {.state = DICTIONARY_CREATING,
                                     .is_system = place == TABLE_SYSTEM,
                                     .index_count = schema->index_count,
                                     .next_number = schema->index_count,
                                     .schema = schema->bytes};
    FIRN_TRY(dictionary_open(set, true));
    FIRN_TRY(table_check_name_is_free(set, schema->name));
    FIRN_TRY(dictionary_next_id(set, &entry.table_id));
    dictionary_choose_stem(&entry, schema->name);
    for (unsigned i = 0; i < entry.index_count; i++)
        entry.numbers[i] = (uint16_t)i;
    FIRN_TRY(dictionary_put(set, schema->name, &entry, false));
    firn_rc rc = make_content(set, schema, &entry);
    if (rc == FIRN_OK)
        return FIRN_OK;
    snprintf(text, sizeof text, "%s", firn_error_text());
    (void)remove_table(set, schema->name, &entry);
    return rc_raise(rc, "%s", text);
}

firn_rc table_require_writable(const struct table_set *set)
{
    if (!set->options.read_only)
        return FIRN_OK;
    return rc_raise(FIRN_E_MISUSE, "the environment was opened to be read only");
}

firn_rc table_create(struct table_set *set, const struct table_spec *spec, enum table_place place)
{
    struct table_schema *schema;
    FIRN_TRY(table_require_writable(set));
    FIRN_TRY(schema_create(spec, set->options.page_size_bytes, &schema));
    struct table **parents = memory_zalloc(schema->foreign_count + 1U, sizeof *parents);
    firn_rc rc = parents != NULL ? table_foreign_open(set, schema, parents)
                                 : rc_raise(FIRN_E_NOMEM, "no memory to make table %s", spec->name);
    if (rc == FIRN_OK) {
        lock_take(&set->ddl_mutex);
        rc = create(set, schema, place);
        lock_give(&set->ddl_mutex);
    }
    for (unsigned f = 0; f < schema->foreign_count && parents != NULL; f++)
        table_close(parents[f]);
    memory_free(parents);
    schema_free(schema);
    return rc;
}

/* ---- Dropping ---- */

/* The entry first: from then on the table is gone, and what is left goes at the next opening if it
   cannot go now. */
static firn_rc drop_schema(struct table_set *set, const char *name, struct dictionary_entry *entry,
                           const struct table_schema *schema)
{
    FIRN_TRY(table_foreign_may_drop(set, name));
    FIRN_TRY(table_withdraw(set, name));
    entry->state = DICTIONARY_DROPPING;
    FIRN_TRY(dictionary_put(set, name, entry, true));
    if (schema->foreign_count > 0)
        atomic_fetch_add_explicit(&set->foreign_version, 1, memory_order_release);
    FIRN_TRY(remove_table(set, name, entry));
    return note_parents(set, schema, false);
}

firn_rc table_find_live(struct table_set *set, const char *name, struct dictionary_entry *entry,
                        struct table_schema **schema)
{
    firn_rc rc = dictionary_get(set, name, entry);
    if (rc == FIRN_E_NOT_FOUND || (rc == FIRN_OK && entry->state != DICTIONARY_LIVE))
        return rc_raise(FIRN_E_NOT_FOUND, "there is no table %s", name);
    FIRN_TRY(rc);
    FIRN_TRY(schema_decode(entry->schema, set->options.page_size_bytes, schema));
    entry->schema = (*schema)->bytes;
    return FIRN_OK;
}

static firn_rc drop(struct table_set *set, const char *name)
{
    struct dictionary_entry entry;
    struct table_schema *schema;
    FIRN_TRY(table_find_live(set, name, &entry, &schema));
    firn_rc rc = drop_schema(set, name, &entry, schema);
    schema_free(schema);
    return rc;
}

firn_rc table_drop(struct table_set *set, const char *name)
{
    FIRN_TRY(table_require_writable(set));
    lock_take(&set->ddl_mutex);
    firn_rc rc = drop(set, name);
    lock_give(&set->ddl_mutex);
    return rc;
}

/* ---- After a crash ---- */

struct unfinished {
    char *name; /* NULL: none was found */
    struct dictionary_entry entry;
};

static firn_rc take_unfinished(const char *name, const struct dictionary_entry *entry,
                               void *context)
{
    struct unfinished *found = context;
    bool is_whole = entry->state == DICTIONARY_LIVE && entry->left_id == 0;
    if (is_whole || found->name != NULL)
        return FIRN_OK;
    found->name = memory_copy_text(name);
    uint8_t *schema = memory_alloc(entry->schema.size_bytes + 1);
    found->entry = *entry;
    found->entry.schema.bytes = schema;
    if (found->name == NULL || schema == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the description of a table");
    memcpy(schema, entry->schema.bytes, entry->schema.size_bytes);
    return FIRN_OK;
}

static firn_rc look_for_id(const char *name, const struct dictionary_entry *entry, void *context)
{
    uint64_t *id = context;
    (void)name;
    if (entry->state == DICTIONARY_LIVE && entry->table_id == *id)
        *id = 0; /* found */
    return FIRN_OK;
}

/* Either the new entry is there, or the table has its old name. */
static firn_rc finish_renaming(struct table_set *set, struct unfinished *found)
{
    uint64_t id = found->entry.table_id;
    FIRN_TRY(dictionary_each(set, look_for_id, &id));
    if (id == 0)
        return dictionary_delete(set, found->name);
    found->entry.state = DICTIONARY_LIVE;
    return dictionary_put(set, found->name, &found->entry, false);
}

static firn_rc finish(struct table_set *set, struct unfinished *found)
{
    switch (found->entry.state) {
    case DICTIONARY_LIVE:
        return table_remove_left(set, found->name, &found->entry);
    case DICTIONARY_RENAMING:
        return finish_renaming(set, found);
    default:
        return remove_table(set, found->name, &found->entry);
    }
}

/* There are as many as were under way at a crash: one, and those whose removal failed before. */
firn_rc table_finish_ddl(struct table_set *set)
{
    for (;;) {
        struct unfinished found = {.name = NULL};
        firn_rc rc = dictionary_each(set, take_unfinished, &found);
        bool is_last = found.name == NULL;
        if (rc == FIRN_OK && !is_last)
            rc = finish(set, &found);
        memory_free(found.name);
        memory_free((void *)found.entry.schema.bytes);
        if (rc != FIRN_OK || is_last)
            return rc;
    }
}
