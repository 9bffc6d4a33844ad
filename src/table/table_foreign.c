/*
 * Foreign keys: rows that refer to rows.
 *
 * Both sides are judged when the row and its entries have been changed, by what is there now,
 * whatever the transaction's snapshot sees (txn_session_see_present). A new child locks its
 * parent's key shared; a parent that goes has locked its key by its change. So of a child that
 * comes and a parent that goes at once one waits for the other and then finds what it has done, and
 * gaps need no locks.
 *
 * What a change leads to is done in a session below, with scratch memory of its own and the same
 * transaction. README.md has the rules.
 */
#include "table/dictionary_internal.h"

#include "base/memory.h"

enum { DEPTH_MAX = 15 };

/* ---- Sessions below ---- */

static firn_rc go_deeper(struct table_session *session, struct table_session **inner)
{
    if (session->depth == DEPTH_MAX)
        return rc_raise(FIRN_E_CONSTRAINT,
                        "foreign keys lead from change to change more than %d times: change the "
                        "rows one by one",
                        DEPTH_MAX);
    if (session->deeper == NULL) {
        session->deeper = memory_zalloc(1, sizeof *session->deeper);
        if (session->deeper == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for a session");
        session->deeper->set = session->set;
        session->deeper->txn = session->txn;
        session->deeper->depth = session->depth + 1;
    }
    struct table_session *deeper = session->deeper;
    deeper->now = session->now;
    deeper->has_now = session->has_now;
    *inner = deeper;
    return FIRN_OK;
}

/* ---- What refers to what ---- */

/* The index that a foreign key leads to: unique, of just its columns. */
static unsigned parent_index(const struct table_schema *parent, const struct foreign_key *foreign)
{
    for (unsigned i = 0; i < parent->index_count; i++) {
        const struct table_index *index = &parent->indexes[i];
        unsigned p = 0;
        if (!index->is_unique || index->declared_count != foreign->column_count)
            continue;
        while (p < foreign->column_count && index->parts[p].prefix == 0 &&
               index->parts[p].column == schema_find_column(parent, foreign->parent_columns[p]))
            p++;
        if (p == foreign->column_count)
            return i;
    }
    return parent->index_count;
}

static firn_rc raise_foreign(const struct table_schema *child, const struct foreign_key *foreign,
                             const char *what)
{
    return rc_raise(FIRN_E_CONSTRAINT, "table %s, foreign key %s: %s", child->name, foreign->name,
                    what);
}

static bool is_alike(const struct column_spec *left, const struct column_spec *right)
{
    return left->type == right->type && left->is_unsigned == right->is_unsigned &&
           left->collation == right->collation && left->precision == right->precision &&
           left->scale == right->scale && left->second_digits == right->second_digits &&
           (left->type != COLUMN_BINARY || left->length == right->length);
}

static firn_rc judge_foreign(const struct table_schema *child, const struct foreign_key *foreign,
                             const struct table_schema *parent)
{
    unsigned index = parent_index(parent, foreign);
    bool sets_null =
        foreign->on_delete == FOREIGN_SET_NULL || foreign->on_update == FOREIGN_SET_NULL;
    if (index == parent->index_count)
        return rc_raise(
            FIRN_E_INVALID,
            "table %s, foreign key %s: table %s has no unique index of just the columns "
            "that it refers to, in their order",
            child->name, foreign->name, parent->name);
    for (unsigned i = 0; i < foreign->column_count; i++) {
        const struct column_spec *from = &child->columns[foreign->columns[i]].spec;
        const struct column_spec *to =
            &parent->columns[parent->indexes[index].parts[i].column].spec;
        if (!is_alike(from, to))
            return rc_raise(FIRN_E_INVALID,
                            "table %s, foreign key %s: columns %s and %s of table %s are of unlike "
                            "types",
                            child->name, foreign->name, from->name, to->name, parent->name);
        if (sets_null && !from->is_nullable)
            return rc_raise(
                FIRN_E_INVALID,
                "table %s, foreign key %s: column %s is to be set to NULL but takes none",
                child->name, foreign->name, from->name);
    }
    return FIRN_OK;
}

firn_rc table_foreign_open(struct table_set *set, const struct table_schema *child,
                           struct table **parents)
{
    for (unsigned f = 0; f < child->foreign_count; f++) {
        const struct foreign_key *foreign = &child->foreigns[f];
        bool is_itself = strcmp(foreign->parent, child->name) == 0;
        if (!is_itself)
            FIRN_TRY(table_open(set, foreign->parent, &parents[f]));
        FIRN_TRY(judge_foreign(child, foreign, is_itself ? child : parents[f]->schema));
    }
    return FIRN_OK;
}

/* ---- A row's parents ---- */

static bool is_set(const uint64_t *set, unsigned column)
{
    return set[column / 64] >> column % 64 & 1;
}

static bool has_null(const struct value *values, const uint16_t *columns, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (values[columns[i]].kind == VALUE_NULL)
            return true;
    return false;
}

/* Lock the key that a row refers to. Values that the parent's columns do not take are nobody's. */
static firn_rc lock_parent(struct table_session *inner, const struct foreign_key *foreign,
                           const struct value *values, struct table *parent)
{
    const struct table_schema *schema = parent->schema;
    unsigned number = parent_index(schema, foreign);
    struct span payload;
    size_t size;
    if (number == schema->index_count)
        return FIRN_E_NOT_FOUND;
    const struct table_index *index = &schema->indexes[number];
    FIRN_TRY(table_session_fit(inner, schema));
    for (unsigned i = 0; i < foreign->column_count; i++)
        inner->new_values[index->parts[i].column] = values[foreign->columns[i]];
    firn_rc rc = table_prefix_form(inner, schema, index, inner->new_values, foreign->column_count,
                                   inner->new_entry, &size);
    if (rc == FIRN_E_INVALID)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(rc);
    txn_session_see_present(inner->txn, true);
    rc = txn_get(inner->txn, parent->trees[number], span_of(inner->new_entry, size),
                 TXN_LOCK_SHARED, TXN_WAIT, &payload);
    txn_session_see_present(inner->txn, false);
    return rc;
}

static firn_rc check_parent(struct table_session *session, struct table *table,
                            const struct foreign_key *foreign)
{
    const struct table_schema *schema = table->schema;
    struct table_session *inner = NULL;
    struct table *parent;
    if (has_null(session->new_values, foreign->columns, foreign->column_count))
        return FIRN_OK;
    FIRN_TRY(go_deeper(session, &inner));
    firn_rc rc = table_open(session->set, foreign->parent, &parent);
    if (rc == FIRN_E_NOT_FOUND)
        return raise_foreign(schema, foreign, "the table that it refers to is missing");
    FIRN_TRY(rc);
    rc = lock_parent(inner, foreign, session->new_values, parent);
    table_close(parent);
    return rc == FIRN_E_NOT_FOUND
               ? raise_foreign(schema, foreign, "there is no row that the values refer to")
               : rc;
}

static bool changes_columns(const uint16_t *columns, unsigned count, const uint64_t *changed)
{
    for (unsigned i = 0; i < count; i++)
        if (changed == NULL || is_set(changed, columns[i]))
            return true;
    return false;
}

firn_rc table_foreign_check_parents(struct table_session *session, struct table *table,
                                    const uint64_t *changed)
{
    const struct table_schema *schema = table->schema;
    for (unsigned f = 0; f < schema->foreign_count; f++) {
        const struct foreign_key *foreign = &schema->foreigns[f];
        if (changes_columns(foreign->columns, foreign->column_count, changed))
            FIRN_TRY(check_parent(session, table, foreign));
    }
    return FIRN_OK;
}

/* ---- Which tables have children ---- */

/* A list never changes; who reads one that has been replaced finds no table that is gone, and
   misses none that has rows. Old ones stay until the handle goes. */
struct table_children {
    struct table_children *older;
    uint64_t version; /* the set's, when it was read */
    unsigned count;
    char *names[];
};

void table_children_free(struct table *table)
{
    struct table_children *list = atomic_load_explicit(&table->children, memory_order_relaxed);
    while (list != NULL) {
        struct table_children *older = list->older;
        for (unsigned i = 0; i < list->count; i++)
            memory_free(list->names[i]);
        memory_free(list);
        list = older;
    }
}

struct child_names {
    struct table_children *list;
    unsigned capacity;
};

static firn_rc collect_child(const char *name, void *context)
{
    struct child_names *names = context;
    if (names->list->count == names->capacity) {
        unsigned capacity = 2 * names->capacity;
        struct table_children *list =
            memory_realloc(names->list, sizeof *list + capacity * sizeof *list->names);
        if (list == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for a list of tables");
        names->list = list;
        names->capacity = capacity;
    }
    char *copy = memory_copy_text(name);
    if (copy == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a list of tables");
    names->list->names[names->list->count++] = copy;
    return FIRN_OK;
}

static uint64_t foreign_version(struct table_set *set)
{
    return atomic_load_explicit(&set->foreign_version, memory_order_acquire);
}

static firn_rc read_children(struct table *table)
{
    struct child_names names = {.capacity = 4};
    names.list = memory_zalloc(1, sizeof *names.list + names.capacity * sizeof *names.list->names);
    if (names.list == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a list of tables");
    firn_rc rc = dictionary_each_child(table->set, table->schema->name, collect_child, &names);
    struct table_children *list = names.list;
    if (rc != FIRN_OK) {
        for (unsigned i = 0; i < list->count; i++)
            memory_free(list->names[i]);
        memory_free(list);
        return rc;
    }
    list->version = foreign_version(table->set);
    list->older = atomic_load_explicit(&table->children, memory_order_relaxed);
    atomic_store_explicit(&table->children, list, memory_order_release);
    return FIRN_OK;
}

/* The set's version is raised under the mutex that lists are read under: equal is up to date. */
static firn_rc children_of(struct table *table, const struct table_children **children)
{
    struct table_set *set = table->set;
    *children = atomic_load_explicit(&table->children, memory_order_acquire);
    if (*children != NULL && (*children)->version == foreign_version(set))
        return FIRN_OK;
    lock_take(&set->ddl_mutex);
    *children = atomic_load_explicit(&table->children, memory_order_relaxed);
    firn_rc rc = FIRN_OK;
    if (*children == NULL || (*children)->version != foreign_version(set))
        rc = read_children(table);
    *children = atomic_load_explicit(&table->children, memory_order_relaxed);
    lock_give(&set->ddl_mutex);
    return rc;
}

firn_rc table_has_children(struct table *table, bool *has)
{
    const struct table_children *children;
    FIRN_TRY(children_of(table, &children));
    *has = children->count > 0;
    return FIRN_OK;
}

/* ---- A row's children ---- */

/** What becomes of the children of one row by one foreign key. */
struct action {
    struct table_session *inner;
    struct table *child;
    const struct foreign_key *foreign;
    enum foreign_action what;
    bool is_update;
    uint64_t columns[ROW_SET_WORDS]; /* of the child, that refer */
};

static firn_rc change_child(const struct action *action, struct span key)
{
    struct table_session *inner = action->inner;
    const struct foreign_key *foreign = action->foreign;
    if (action->what == FOREIGN_CASCADE && !action->is_update)
        return table_delete(inner, action->child, key);
    for (unsigned i = 0; i < foreign->column_count && action->what != FOREIGN_CASCADE; i++) {
        unsigned c = foreign->columns[i];
        struct value_now now = table_session_now(inner);
        inner->assigned[c] = value_null();
        if (action->what == FOREIGN_SET_DEFAULT)
            FIRN_TRY(value_default(&action->child->schema->columns[c], &now, &inner->assigned[c]));
    }
    return table_update(inner, action->child, key, inner->assigned, action->columns);
}

/* All children, as they are now. Those that are changed leave what the cursor walks over. */
static firn_rc change_children(const struct action *action, struct table_cursor *cursor)
{
    struct txn_session *txn = action->inner->txn;
    unsigned count = action->foreign->column_count;
    FIRN_TRY(table_cursor_set_upper(cursor, action->inner->found_values, count, true));
    txn_session_see_present(txn, true);
    firn_rc rc = table_cursor_seek(cursor, TABLE_SEEK_EXACT, action->inner->found_values, count);
    while (rc == FIRN_OK) {
        txn_session_see_present(txn, false);
        if (action->what == FOREIGN_RESTRICT || action->what == FOREIGN_NO_ACTION)
            return raise_foreign(action->child->schema, action->foreign,
                                 "rows refer to the row; change or delete them first");
        rc = change_child(action, table_cursor_row(cursor).key);
        if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
            return rc;
        txn_session_see_present(txn, true);
        rc = table_cursor_next(cursor);
    }
    txn_session_see_present(txn, false);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* @param values  of the parent: what the children refer to, and to what they are to refer */
static firn_rc act(struct action *action, const struct table_index *index,
                   const struct value *old_values, const struct value *new_values)
{
    struct table_session *inner = action->inner;
    const struct foreign_key *foreign = action->foreign;
    static const uint64_t nothing[ROW_SET_WORDS];
    struct table_cursor *cursor;
    bool refuses = action->what == FOREIGN_RESTRICT || action->what == FOREIGN_NO_ACTION;
    FIRN_TRY(table_session_fit(inner, action->child->schema));
    for (unsigned i = 0; i < foreign->column_count; i++) {
        unsigned from = foreign->columns[i];
        unsigned to = index->parts[i].column;
        action->columns[from / 64] |= UINT64_C(1) << from % 64;
        inner->found_values[from] = old_values[to];
        if (action->is_update)
            inner->assigned[from] = new_values[to];
        /* What the child's column does not take no child has. */
        struct value judged = old_values[to];
        if (value_check(&action->child->schema->columns[from], &judged) != FIRN_OK)
            return FIRN_OK;
    }
    FIRN_TRY(table_cursor_open(inner, action->child, foreign->index, nothing,
                               refuses ? TXN_LOCK_SHARED : TXN_LOCK_EXCLUSIVE, TXN_WAIT, &cursor));
    firn_rc rc = change_children(action, cursor);
    table_cursor_close(cursor);
    return rc;
}

/* Does the change leave what children refer to as it is? */
static firn_rc keeps_key(struct table_session *session, const struct table_schema *schema,
                         const struct table_index *index, const uint64_t *changed, bool *keeps)
{
    struct key_result old;
    struct key_result new;
    *keeps = true;
    for (unsigned p = 0; p < index->declared_count; p++)
        *keeps = *keeps && !is_set(changed, index->parts[p].column);
    if (*keeps)
        return FIRN_OK;
    FIRN_TRY(key_encode(schema, index, session->old_values, index->declared_count,
                        session->old_entry, &old));
    FIRN_TRY(key_encode(schema, index, session->new_values, index->declared_count,
                        session->new_entry, &new));
    *keeps = old.has_null || span_compare(span_of(session->old_entry, old.size_bytes),
                                          span_of(session->new_entry, new.size_bytes)) == 0;
    return FIRN_OK;
}

static firn_rc follow_foreign(struct table_session *session, struct table *table,
                              struct table *child, const struct foreign_key *foreign,
                              const uint64_t *changed)
{
    const struct table_schema *schema = table->schema;
    unsigned number = parent_index(schema, foreign);
    struct action action = {.child = child,
                            .foreign = foreign,
                            .is_update = changed != NULL,
                            .what = changed != NULL ? foreign->on_update : foreign->on_delete};
    bool keeps = false;
    if (number == schema->index_count)
        return FIRN_OK;
    const struct table_index *index = &schema->indexes[number];
    if (changed != NULL)
        FIRN_TRY(keeps_key(session, schema, index, changed, &keeps));
    for (unsigned p = 0; p < index->declared_count; p++)
        keeps = keeps || session->old_values[index->parts[p].column].kind == VALUE_NULL;
    if (keeps)
        return FIRN_OK;
    FIRN_TRY(go_deeper(session, &action.inner));
    return act(&action, index, session->old_values, session->new_values);
}

static firn_rc follow_child(struct table_session *session, struct table *table, const char *name,
                            const uint64_t *changed)
{
    struct table *child;
    firn_rc rc = table_open(session->set, name, &child);
    if (rc == FIRN_E_NOT_FOUND)
        return FIRN_OK; /* dropped, or never finished */
    FIRN_TRY(rc);
    const struct table_schema *schema = child->schema;
    for (unsigned f = 0; f < schema->foreign_count && rc == FIRN_OK; f++)
        if (strcmp(schema->foreigns[f].parent, table->schema->name) == 0)
            rc = follow_foreign(session, table, child, &schema->foreigns[f], changed);
    table_close(child);
    return rc;
}

firn_rc table_foreign_follow(struct table_session *session, struct table *table,
                             const uint64_t *changed)
{
    const struct table_children *children;
    FIRN_TRY(children_of(table, &children));
    for (unsigned i = 0; i < children->count; i++)
        FIRN_TRY(follow_child(session, table, children->names[i], changed));
    return FIRN_OK;
}

/* ---- Changing tables ---- */

struct referring {
    struct table_set *set;
    const char *parent;
    const struct table_schema *altered; /* what the parent is to be; NULL: it goes */
    char *child;                        /* a table that refers to what goes; NULL: none */
};

static bool refers(const struct referring *referring, const struct table_schema *child)
{
    const struct table_schema *altered = referring->altered;
    for (unsigned f = 0; f < child->foreign_count; f++) {
        const struct foreign_key *foreign = &child->foreigns[f];
        if (strcmp(foreign->parent, referring->parent) == 0 &&
            (altered == NULL || parent_index(altered, foreign) == altered->index_count))
            return true;
    }
    return false;
}

static firn_rc find_referring(const char *name, void *context)
{
    struct referring *referring = context;
    struct dictionary_entry entry;
    struct table_schema *schema;
    bool goes_itself = referring->altered == NULL && strcmp(name, referring->parent) == 0;
    if (referring->child != NULL || goes_itself)
        return FIRN_OK;
    firn_rc rc = table_find_live(referring->set, name, &entry, &schema);
    if (rc == FIRN_E_NOT_FOUND)
        return FIRN_OK; /* dropped, or never finished */
    FIRN_TRY(rc);
    bool found = refers(referring, schema);
    schema_free(schema);
    if (found && (referring->child = memory_copy_text(name)) == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the name of a table");
    return FIRN_OK;
}

static firn_rc look_for_referring(struct table_set *set, const char *name,
                                  const struct table_schema *altered, firn_rc verdict,
                                  const char *advice)
{
    struct referring referring = {.set = set, .parent = name, .altered = altered};
    FIRN_TRY(dictionary_each_child(set, name, find_referring, &referring));
    if (referring.child == NULL)
        return FIRN_OK;
    firn_rc rc =
        rc_raise(verdict, "table %s refers to table %s: %s", referring.child, name, advice);
    memory_free(referring.child);
    return rc;
}

firn_rc table_foreign_may_drop(struct table_set *set, const char *name)
{
    return look_for_referring(set, name, NULL, FIRN_E_CONSTRAINT, "drop that one first");
}

firn_rc table_foreign_may_alter(struct table_set *set, const struct table_schema *altered)
{
    return look_for_referring(set, altered->name, altered, FIRN_E_CONSTRAINT,
                              "its foreign key needs the index");
}

firn_rc table_foreign_may_rename(struct table_set *set, const struct table_schema *schema)
{
    if (schema->foreign_count > 0)
        return rc_raise(FIRN_E_UNSUPPORTED,
                        "table %s has foreign keys: a table is renamed without them only",
                        schema->name);
    return look_for_referring(set, schema->name, NULL, FIRN_E_UNSUPPORTED,
                              "it would have to refer to another name, which is not supported yet");
}
