/*
 * The set of tables: opening the dictionary, handles.
 */
#include "table/dictionary_internal.h"

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"

/* ---- The list of handles ---- */

/* @return the place of the first table whose name is at or above it */
static size_t place_of(const struct table_set *set, const char *name)
{
    size_t low = 0;
    size_t high = set->table_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(set->tables[middle]->schema->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct table *find(const struct table_set *set, const char *name)
{
    size_t place = place_of(set, name);
    bool found = place < set->table_count && strcmp(set->tables[place]->schema->name, name) == 0;
    return found ? set->tables[place] : NULL;
}

static firn_rc reserve_place(struct table_set *set)
{
    if (set->table_count < set->table_capacity)
        return FIRN_OK;
    size_t capacity = set->table_capacity == 0 ? 16 : 2 * set->table_capacity;
    struct table **tables = memory_realloc(set->tables, capacity * sizeof(struct table *));
    if (tables == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the list of tables");
    set->tables = tables;
    set->table_capacity = capacity;
    return FIRN_OK;
}

static void free_table(struct table *table)
{
    if (table == NULL)
        return;
    for (unsigned count = 0; count < TABLE_COUNTS; count++)
        pthread_mutex_destroy(&table->counters[count].mutex);
    table_children_free(table);
    schema_free(table->schema);
    memory_free(table);
}

/* ---- Opening tables ---- */

static firn_rc find_trees(struct table_set *set, const struct dictionary_entry *entry,
                          struct table *table)
{
    const struct table_storage *storage = &set->options.storage;
    char name[DICTIONARY_TREE_NAME_MAX];
    if (entry->index_count != table->schema->index_count)
        return rc_raise(FIRN_E_CORRUPT,
                        "table %s: the dictionary has %u trees for %u indexes; restore the "
                        "environment from a backup",
                        table->schema->name, entry->index_count, table->schema->index_count);
    for (unsigned i = 0; i < entry->index_count; i++) {
        dictionary_tree_name(entry, i, name);
        firn_rc rc = storage->find(name, &table->trees[i], storage->context);
        if (rc == FIRN_E_NOT_FOUND)
            return rc_raise(FIRN_E_CORRUPT,
                            "table %s: tree %s of index %s is missing; restore the environment "
                            "from a backup",
                            table->schema->name, name, table->schema->indexes[i].name);
        FIRN_TRY(rc);
    }
    return FIRN_OK;
}

static firn_rc make_handle(struct table_set *set, const char *name, struct table **table)
{
    struct dictionary_entry entry;
    firn_rc rc = dictionary_get(set, name, &entry);
    if (rc == FIRN_E_NOT_FOUND || (rc == FIRN_OK && entry.state != DICTIONARY_LIVE))
        return rc_raise(FIRN_E_NOT_FOUND, "there is no table %s", name);
    FIRN_TRY(rc);
    struct table *made = memory_zalloc(1, sizeof *made + entry.index_count * sizeof *made->trees);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to open table %s", name);
    made->set = set;
    made->id = entry.table_id;
    for (unsigned count = 0; count < TABLE_COUNTS; count++)
        pthread_mutex_init(&made->counters[count].mutex, NULL);
    FIRN_TRY_GOTO(schema_decode(entry.schema, set->options.page_size_bytes, &made->schema), failed);
    FIRN_TRY_GOTO(find_trees(set, &entry, made), failed);
    FIRN_TRY_GOTO(table_counters_open(made), failed);
    *table = made;
    return FIRN_OK;
failed:
    free_table(made);
    return rc;
}

/* One that is in the list, with one more user; or NULL. */
static struct table *use(struct table_set *set, const char *name)
{
    pthread_mutex_lock(&set->mutex);
    struct table *found = find(set, name);
    if (found != NULL)
        found->users++;
    pthread_mutex_unlock(&set->mutex);
    return found;
}

static firn_rc enter(struct table_set *set, struct table *table)
{
    pthread_mutex_lock(&set->mutex);
    firn_rc rc = reserve_place(set);
    if (rc == FIRN_OK) {
        size_t place = place_of(set, table->schema->name);
        memmove(set->tables + place + 1, set->tables + place,
                (set->table_count - place) * sizeof(struct table *));
        set->tables[place] = table;
        set->table_count++;
        table->users = 1;
    }
    pthread_mutex_unlock(&set->mutex);
    return rc;
}

static firn_rc open_first(struct table_set *set, const char *name, struct table **table)
{
    struct table *made = use(set, name); /* somebody may have been faster */
    if (made == NULL) {
        FIRN_TRY(make_handle(set, name, &made));
        firn_rc rc = enter(set, made);
        if (rc != FIRN_OK) {
            free_table(made);
            return rc;
        }
    }
    *table = made;
    return FIRN_OK;
}

firn_rc table_open(struct table_set *set, const char *name, struct table **table)
{
    struct table *found = use(set, name);
    if (found != NULL) {
        *table = found;
        return FIRN_OK;
    }
    lock_take(&set->ddl_mutex);
    firn_rc rc = open_first(set, name, table);
    lock_give(&set->ddl_mutex);
    return rc;
}

/* The handle stays for who opens the table next, and for its counters. */
void table_close(struct table *table)
{
    if (table == NULL)
        return;
    pthread_mutex_lock(&table->set->mutex);
    ASSERT(table->users > 0);
    table->users--;
    pthread_mutex_unlock(&table->set->mutex);
}

/* Numbers that cannot be kept leave a gap. */
firn_rc table_withdraw(struct table_set *set, const char *name)
{
    pthread_mutex_lock(&set->mutex);
    struct table *found = find(set, name);
    bool is_used = found != NULL && found->users > 0;
    if (found != NULL && !is_used) {
        size_t place = place_of(set, name);
        set->table_count--;
        memmove(set->tables + place, set->tables + place + 1,
                (set->table_count - place) * sizeof(struct table *));
    }
    pthread_mutex_unlock(&set->mutex);
    if (is_used)
        return rc_raise(FIRN_E_BUSY,
                        "table %s is in use: it can be changed or dropped when nobody has it open",
                        name);
    if (found != NULL)
        (void)table_counters_keep(found);
    free_table(found);
    return FIRN_OK;
}

const struct table_schema *table_schema(const struct table *table)
{
    return table->schema;
}

struct btree *table_tree(const struct table *table, unsigned index)
{
    return table->trees[index];
}

/* ---- Names ---- */

struct name_list {
    char **names;
    size_t count;
    size_t capacity;
};

static firn_rc collect_name(const char *name, const struct dictionary_entry *entry, void *context)
{
    struct name_list *list = context;
    if (entry->state != DICTIONARY_LIVE)
        return FIRN_OK;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        char **names = memory_realloc(list->names, capacity * sizeof *names);
        if (names == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for a list of tables");
        list->names = names;
        list->capacity = capacity;
    }
    char *copy = memory_copy_text(name);
    if (copy == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a list of tables");
    list->names[list->count++] = copy;
    return FIRN_OK;
}

firn_rc table_each(struct table_set *set, table_visit *visit, void *context)
{
    struct name_list list = {0};
    lock_take(&set->ddl_mutex);
    firn_rc rc = dictionary_each(set, collect_name, &list);
    lock_give(&set->ddl_mutex);
    for (size_t i = 0; i < list.count && rc == FIRN_OK; i++)
        rc = visit(list.names[i], context);
    for (size_t i = 0; i < list.count; i++)
        memory_free(list.names[i]);
    memory_free(list.names);
    return rc;
}

/* ---- The set ---- */

firn_rc table_set_open(const struct table_set_options *options, struct table_set **set)
{
    struct table_set *made = memory_zalloc(1, sizeof *made);
    firn_rc rc = FIRN_OK;
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the set of tables");
    made->options = *options;
    pthread_mutex_init(&made->ddl_mutex, NULL);
    pthread_mutex_init(&made->mutex, NULL);
    FIRN_TRY_GOTO(btree_session_open(options->base, &made->session), failed);
    FIRN_TRY_GOTO(dictionary_open(made, false), failed);
    if (!options->read_only)
        FIRN_TRY_GOTO(table_finish_ddl(made), failed);
    *set = made;
    return FIRN_OK;
failed:
    table_set_close(made);
    return rc;
}

void table_set_keep_counters(struct table_set *set)
{
    firn_rc rc = FIRN_OK;
    lock_take(&set->ddl_mutex);
    for (size_t i = 0; i < set->table_count && rc == FIRN_OK && !set->options.read_only; i++)
        rc = table_counters_keep(set->tables[i]);
    lock_give(&set->ddl_mutex);
    if (rc != FIRN_OK)
        log_warning("the next numbers of some tables' autoincrement columns will leave a gap: %s",
                    firn_error_text());
}

void table_set_close(struct table_set *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->table_count; i++)
        free_table(set->tables[i]);
    memory_free(set->tables);
    btree_session_close(set->session);
    pthread_mutex_destroy(&set->ddl_mutex);
    pthread_mutex_destroy(&set->mutex);
    memory_free(set);
}
