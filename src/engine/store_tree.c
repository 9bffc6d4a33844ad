/*
 * Trees by name. The catalog is a B+tree in the system tablespace; README.md says why no crash
 * leaves a tree by half.
 */
#include "engine/store_internal.h"

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* Keys of the catalog begin with what they are about. */
enum { KEY_COUNTER = 0, KEY_TREE = 1 };

/* An entry, byte by byte (FORMAT.md). */
enum {
    ENTRY_VERSION_AT = 0,
    ENTRY_STATE_AT = 1,
    ENTRY_FLAGS_AT = 2,
    ENTRY_SPACE_AT = 4,
    ENTRY_ROOT_AT = 8,
    ENTRY_INDEX_AT = 16,
    ENTRY_BYTES = 24,

    ENTRY_VERSION = 1,
    ENTRY_SHARED = 1,
};

enum {
    ERROR_TEXT_BYTES = 512,
    FREE_LIST_MAX = 1 << 20, /* pages of a dropped tree that are remembered at once */
};

/* ---- Entries ---- */

struct tree_key {
    uint8_t bytes[1 + SPACE_NAME_MAX];
    size_t size_bytes;
};

static struct span tree_key(const char *name, struct tree_key *key)
{
    key->bytes[0] = KEY_TREE;
    key->size_bytes = 1 + strlen(name);
    ASSERT(key->size_bytes <= sizeof(key->bytes));
    memcpy(key->bytes + 1, name, key->size_bytes - 1);
    return span_of(key->bytes, key->size_bytes);
}

static firn_rc put_entry(struct store *store, const struct store_tree *tree, uint64_t *end_lsn)
{
    struct tree_key key;
    uint8_t entry[ENTRY_BYTES] = {0};
    entry[ENTRY_VERSION_AT] = ENTRY_VERSION;
    entry[ENTRY_STATE_AT] = (uint8_t)tree->state;
    entry[ENTRY_FLAGS_AT] = tree->shared ? ENTRY_SHARED : 0;
    put_u32(entry + ENTRY_SPACE_AT, tree->space);
    put_u32(entry + ENTRY_ROOT_AT, tree->root_page);
    put_u64(entry + ENTRY_INDEX_AT, tree->index_id);
    return btree_put(store->session, store->catalog, tree_key(tree->name, &key),
                     span_of(entry, sizeof(entry)), end_lsn);
}

static firn_rc delete_entry(struct store *store, const char *name)
{
    struct tree_key key;
    uint64_t end_lsn;
    firn_rc rc = btree_delete(store->session, store->catalog, tree_key(name, &key), &end_lsn);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static firn_rc raise_entry(const char *what)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "the catalog has an entry that makes no sense (%s); restore the environment "
                    "from a backup",
                    what);
}

static firn_rc parse_entry(struct span value, struct store_tree *tree)
{
    const uint8_t *entry = value.bytes;
    if (value.size_bytes != 0 && entry[ENTRY_VERSION_AT] > ENTRY_VERSION)
        return rc_raise(FIRN_E_UNSUPPORTED,
                        "the catalog's entry of tree %s has version %u and this firn knows "
                        "versions up to %d: use the newer firn that wrote it",
                        tree->name, entry[ENTRY_VERSION_AT], ENTRY_VERSION);
    if (value.size_bytes != ENTRY_BYTES || entry[ENTRY_VERSION_AT] != ENTRY_VERSION ||
        entry[ENTRY_STATE_AT] < STORE_TREE_CREATING || entry[ENTRY_STATE_AT] > STORE_TREE_DROPPING)
        return raise_entry(tree->name);
    tree->state = (enum store_tree_state)entry[ENTRY_STATE_AT];
    tree->shared = entry[ENTRY_FLAGS_AT] & ENTRY_SHARED;
    tree->space = get_u32(entry + ENTRY_SPACE_AT);
    tree->root_page = get_u32(entry + ENTRY_ROOT_AT);
    tree->index_id = get_u64(entry + ENTRY_INDEX_AT);
    return FIRN_OK;
}

/* Ids that a crash wastes are not missed. */
static firn_rc next_index_id(struct store *store, uint64_t *index_id)
{
    static const uint8_t key[] = {KEY_COUNTER};
    uint8_t number[8];
    struct span value;
    uint64_t next = STORE_CATALOG_INDEX + 1;
    firn_rc rc = btree_get(store->session, store->catalog, span_of(key, sizeof(key)), &value);
    if (rc == FIRN_OK && value.size_bytes != sizeof(number))
        return raise_entry("the counter of index ids");
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        return rc;
    if (rc == FIRN_OK)
        next = get_u64(value.bytes);
    put_u64(number, next + 1);
    FIRN_TRY(btree_put(store->session, store->catalog, span_of(key, sizeof(key)),
                       span_of(number, sizeof(number)), NULL));
    *index_id = next;
    return FIRN_OK;
}

/* ---- The list in memory ---- */

static firn_rc raise_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory for the list of trees");
}

static void free_tree(struct store_tree *tree)
{
    if (tree == NULL)
        return;
    if (tree->tree != NULL)
        btree_close(tree->tree);
    memory_free(tree->name);
    memory_free(tree);
}

static struct store_tree *new_tree(const char *name, size_t length)
{
    struct store_tree *tree = memory_zalloc(1, sizeof(*tree));
    char *copy = memory_alloc(length + 1);
    if (tree == NULL || copy == NULL) {
        memory_free(tree);
        memory_free(copy);
        return NULL;
    }
    memcpy(copy, name, length);
    copy[length] = '\0';
    tree->name = copy;
    tree->space = SPACE_SYSTEM;
    tree->root_page = PAGE_NONE;
    return tree;
}

/* @return the place of the first tree whose name is at or above it */
static size_t tree_place(const struct store *store, const char *name)
{
    size_t low = 0;
    size_t high = store->tree_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(store->trees[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct store_tree *find_tree(const struct store *store, const char *name)
{
    size_t place = tree_place(store, name);
    bool found = place < store->tree_count && strcmp(store->trees[place]->name, name) == 0;
    return found ? store->trees[place] : NULL;
}

static firn_rc reserve_place(struct store *store)
{
    if (store->tree_count < store->tree_capacity)
        return FIRN_OK;
    size_t capacity = store->tree_capacity == 0 ? 16 : 2 * store->tree_capacity;
    struct store_tree **trees =
        memory_realloc(store->trees, capacity * sizeof(struct store_tree *));
    if (trees == NULL)
        return raise_memory();
    store->trees = trees;
    store->tree_capacity = capacity;
    return FIRN_OK;
}

/* There is a place for it. */
static void list_tree(struct store *store, struct store_tree *tree)
{
    size_t place = tree_place(store, tree->name);
    ASSERT(store->tree_count < store->tree_capacity);
    memmove(store->trees + place + 1, store->trees + place,
            (store->tree_count - place) * sizeof(struct store_tree *));
    store->trees[place] = tree;
    store->tree_count++;
}

static void unlist_tree(struct store *store, const struct store_tree *tree)
{
    size_t place = tree_place(store, tree->name);
    ASSERT(place < store->tree_count && store->trees[place] == tree);
    store->tree_count--;
    memmove(store->trees + place, store->trees + place + 1,
            (store->tree_count - place) * sizeof(struct store_tree *));
}

/* ---- Making and removing what an entry stands for ---- */

struct page_list {
    uint64_t owner;
    uint32_t *pages;
    size_t count;
    bool more;
};

static firn_rc collect_page(uint32_t page_no, uint64_t owner, void *context)
{
    struct page_list *list = context;
    if (owner != list->owner)
        return FIRN_OK;
    list->more = list->count == FREE_LIST_MAX;
    if (list->more)
        return FIRN_E_BUSY;
    list->pages[list->count++] = page_no;
    return FIRN_OK;
}

/* One page at a time, so that what can fail comes before any change. Its bytes do not matter: a
   damaged tree can be dropped. */
static firn_rc free_page(struct store *store, uint32_t page_no, uint64_t owner)
{
    struct mtr *mtr = btree_session_mtr(store->session);
    struct mtr_page *page;
    FIRN_TRY(mtr_begin(mtr, SPACE_LOG_MAX_BYTES + mtr_cost(0)));
    firn_rc rc = mtr_fix_new(mtr, page_id_of(SPACE_SYSTEM, page_no), &page);
    if (rc == FIRN_OK)
        rc = space_free(store->spaces, mtr, page, owner);
    if (rc == FIRN_OK)
        return mtr_commit(mtr, NULL);
    mtr_abandon(mtr);
    return rc;
}

/* A shared tree's pages are found by their owner, not by walking: so it does not matter how much of
   the tree is there. */
static firn_rc free_pages(struct store *store, uint64_t owner)
{
    struct page_list list = {.owner = owner, .more = true};
    firn_rc rc = FIRN_OK;
    list.pages = memory_alloc(FREE_LIST_MAX * sizeof(*list.pages));
    if (list.pages == NULL)
        return raise_memory();
    while (list.more && rc == FIRN_OK) {
        list.count = 0;
        list.more = false;
        rc = space_each_page(store->spaces, SPACE_SYSTEM, collect_page, &list);
        if (list.more)
            rc = FIRN_OK;
        for (size_t i = 0; i < list.count && rc == FIRN_OK; i++)
            rc = free_page(store, list.pages[i], owner);
    }
    memory_free(list.pages);
    return rc;
}

/* Pages, or the file, then the entry. May be repeated from any point. */
static firn_rc remove_tree(struct store *store, const struct store_tree *tree)
{
    uint32_t space;
    if (tree->shared) {
        FIRN_TRY(free_pages(store, tree->index_id));
    } else {
        firn_rc rc = space_find(store->spaces, tree->name, &space);
        if (rc == FIRN_OK)
            rc = space_drop(store->spaces, btree_session_mtr(store->session), space);
        if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
            return rc;
    }
    return delete_entry(store, tree->name);
}

static firn_rc make_content(struct store *store, struct store_tree *tree)
{
    struct mtr *mtr = btree_session_mtr(store->session);
    uint64_t end_lsn;
    if (!tree->shared)
        FIRN_TRY(space_create(store->spaces, mtr, IO_CLASS_TABLE, tree->name, &tree->space));
    FIRN_TRY(btree_create(store->session, tree->space, tree->index_id, &tree->root_page));
    FIRN_TRY(btree_open(&store->base, tree->space, tree->root_page, tree->index_id, &tree->tree));
    tree->state = STORE_TREE_LIVE;
    FIRN_TRY(put_entry(store, tree, &end_lsn));
    return redo_flush(store->redo, end_lsn, REDO_FLUSH_SYNC);
}

/* The entry says first that something is coming, so that a crash leaves nothing unknown. */
static firn_rc create_tree(struct store *store, struct store_tree *tree)
{
    char text[ERROR_TEXT_BYTES];
    tree->state = STORE_TREE_CREATING;
    FIRN_TRY(next_index_id(store, &tree->index_id));
    FIRN_TRY(put_entry(store, tree, NULL));
    firn_rc rc = make_content(store, tree);
    if (rc == FIRN_OK)
        return rc;
    snprintf(text, sizeof(text), "%s", firn_error_text());
    if (tree->tree != NULL)
        btree_close(tree->tree);
    tree->tree = NULL;
    (void)remove_tree(store, tree);
    return rc_raise(rc, "%s", text);
}

/* ---- Names ---- */

static firn_rc check_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > SPACE_NAME_MAX)
        return rc_raise(FIRN_E_INVALID, "a tree's name has 1 to %d bytes, not %zu", SPACE_NAME_MAX,
                        length);
    for (const char *c = name; *c != '\0'; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                      (*c >= '0' && *c <= '9') || (unsigned char)*c >= 0x80;
        if (!letter && strchr("_-.$", *c) == NULL)
            return rc_raise(FIRN_E_INVALID,
                            "\"%s\" cannot be a tree's name: it may have letters, digits, "
                            "\"_\", \"-\", \".\" and \"$\"",
                            name);
    }
    if (name[0] == '.' || strcmp(name, STORE_SYSTEM_SPACE) == 0)
        return rc_raise(FIRN_E_INVALID, "\"%s\" cannot be a tree's name: choose another one", name);
    return FIRN_OK;
}

/* A file of that name would be taken for what a crash left of the creation. */
static firn_rc check_file_is_free(struct store *store, const char *name)
{
    uint32_t space;
    firn_rc rc = space_find(store->spaces, name, &space);
    if (rc == FIRN_OK)
        return rc_raise(FIRN_E_EXISTS,
                        "%s/%s.firn is there already and belongs to no tree: move it away",
                        store_class_directory(store, IO_CLASS_TABLE), name);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static firn_rc make_tree(struct store *store, const char *name, unsigned flags,
                         struct store_tree **tree)
{
    FIRN_TRY(check_name(name));
    bool shared = flags & STORE_TREE_SHARED;
    if (!shared)
        FIRN_TRY(check_file_is_free(store, name));
    FIRN_TRY(reserve_place(store));
    struct store_tree *made = new_tree(name, strlen(name));
    if (made == NULL)
        return raise_memory();
    made->shared = shared;
    firn_rc rc = create_tree(store, made);
    if (rc != FIRN_OK) {
        free_tree(made);
        return rc;
    }
    list_tree(store, made);
    *tree = made;
    return FIRN_OK;
}

firn_rc store_open_tree(struct store *store, struct store_tree *tree)
{
    if (tree->tree != NULL)
        return FIRN_OK;
    return btree_open(&store->base, tree->space, tree->root_page, tree->index_id, &tree->tree);
}

static firn_rc get_tree(struct store *store, const char *name, unsigned flags, struct btree **tree)
{
    struct store_tree *found = find_tree(store, name);
    if (found == NULL && !(flags & STORE_TREE_CREATE))
        return rc_raise(FIRN_E_NOT_FOUND, "there is no tree \"%s\"; 'firn stat' lists them", name);
    if (found == NULL)
        FIRN_TRY(make_tree(store, name, flags, &found));
    FIRN_TRY(store_open_tree(store, found));
    *tree = found->tree;
    return FIRN_OK;
}

firn_rc store_tree(struct store *store, const char *name, unsigned flags, struct btree **tree)
{
    pthread_mutex_lock(&store->tree_mutex);
    firn_rc rc = get_tree(store, name, flags, tree);
    pthread_mutex_unlock(&store->tree_mutex);
    return rc;
}

static firn_rc drop_tree(struct store *store, const char *name)
{
    uint64_t end_lsn;
    struct store_tree *tree = find_tree(store, name);
    if (tree == NULL)
        return rc_raise(FIRN_E_NOT_FOUND, "there is no tree \"%s\"; 'firn stat' lists them", name);
    tree->state = STORE_TREE_DROPPING;
    firn_rc rc = put_entry(store, tree, &end_lsn);
    if (rc != FIRN_OK) {
        tree->state = STORE_TREE_LIVE;
        return rc;
    }
    unlist_tree(store, tree);
    rc = redo_flush(store->redo, end_lsn, REDO_FLUSH_SYNC);
    if (rc == FIRN_OK)
        rc = remove_tree(store, tree);
    free_tree(tree);
    return rc;
}

firn_rc store_drop_tree(struct store *store, const char *name)
{
    pthread_mutex_lock(&store->tree_mutex);
    firn_rc rc = drop_tree(store, name);
    pthread_mutex_unlock(&store->tree_mutex);
    return rc;
}

/* The trees as they are now: the function may make others. */
firn_rc store_each_tree(struct store *store, store_tree_visit *visit, void *context)
{
    firn_rc rc = FIRN_OK;
    size_t count = 0;
    pthread_mutex_lock(&store->tree_mutex);
    struct store_tree **trees = memory_alloc((store->tree_count + 1) * sizeof(*trees));
    if (trees == NULL)
        rc = raise_memory();
    while (rc == FIRN_OK && count < store->tree_count) {
        trees[count] = store->trees[count];
        rc = store_open_tree(store, trees[count++]);
    }
    pthread_mutex_unlock(&store->tree_mutex);
    for (size_t i = 0; i < count && rc == FIRN_OK; i++) {
        const struct store_tree *tree = trees[i];
        struct store_tree_info info = {tree->name, tree->shared, tree->space, tree->root_page,
                                       tree->index_id};
        rc = visit(&info, tree->tree, context);
    }
    memory_free(trees);
    return rc;
}

/* ---- The catalog ---- */

firn_rc store_catalog_create(struct store *store)
{
    struct mtr *mtr = btree_session_mtr(store->session);
    uint32_t space;
    uint32_t root_page;
    FIRN_TRY(space_create(store->spaces, mtr, IO_CLASS_SYSTEM, STORE_SYSTEM_SPACE, &space));
    ENSURE(space == SPACE_SYSTEM);
    FIRN_TRY(btree_create(store->session, SPACE_SYSTEM, STORE_CATALOG_INDEX, &root_page));
    FIRN_TRY(mtr_begin(mtr, SPACE_LOG_MAX_BYTES));
    firn_rc rc = space_set_entry(store->spaces, mtr, SPACE_SYSTEM, root_page);
    if (rc != FIRN_OK) {
        mtr_abandon(mtr);
        return rc;
    }
    FIRN_TRY(mtr_commit(mtr, NULL));
    return btree_open(&store->base, SPACE_SYSTEM, root_page, STORE_CATALOG_INDEX, &store->catalog);
}

void store_catalog_close(struct store *store)
{
    for (size_t i = 0; i < store->tree_count; i++)
        free_tree(store->trees[i]);
    memory_free(store->trees);
    store->trees = NULL;
    store->tree_count = 0;
    store->tree_capacity = 0;
    if (store->catalog != NULL)
        btree_close(store->catalog);
    store->catalog = NULL;
}

static firn_rc take_entry(struct store *store, struct span key, struct span value)
{
    if (key.size_bytes < 2 || key.size_bytes > 1 + SPACE_NAME_MAX || key.bytes[0] != KEY_TREE ||
        memchr(key.bytes, '\0', key.size_bytes) != NULL)
        return raise_entry("a name");
    FIRN_TRY(reserve_place(store));
    struct store_tree *tree = new_tree((const char *)key.bytes + 1, key.size_bytes - 1);
    if (tree == NULL)
        return raise_memory();
    firn_rc rc = parse_entry(value, tree);
    if (rc == FIRN_OK)
        list_tree(store, tree);
    else
        free_tree(tree);
    return rc;
}

static firn_rc read_catalog(struct store *store)
{
    static const uint8_t first[] = {KEY_TREE};
    struct btree_cursor *cursor = NULL;
    struct span value;
    FIRN_TRY(btree_cursor_open(&store->base, store->catalog, &cursor));
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_AT_OR_AFTER, span_of(first, sizeof(first)));
    while (rc == FIRN_OK) {
        rc = btree_cursor_value(cursor, &value);
        if (rc == FIRN_OK)
            rc = take_entry(store, btree_cursor_key(cursor), value);
        if (rc == FIRN_OK)
            rc = btree_cursor_next(cursor);
    }
    btree_cursor_close(cursor);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* A tablespace that no entry knows is not removed: it may be somebody's data, put back from a
   backup. */
static firn_rc judge_space(const struct space_info *info, void *context)
{
    const struct store *store = context;
    const struct store_tree *tree = find_tree(store, info->name);
    if (info->space != SPACE_SYSTEM && (tree == NULL || tree->shared))
        log_warning("%s belongs to no tree of the environment: it is left alone", info->path);
    return FIRN_OK;
}

static firn_rc check_tree_file(struct store *store, const struct store_tree *tree)
{
    uint32_t space;
    if (tree->shared || tree->state != STORE_TREE_LIVE)
        return FIRN_OK;
    firn_rc rc = space_find(store->spaces, tree->name, &space);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s/%s.firn, the file of tree %s, is missing: put it back, or restore the "
                        "environment from a backup",
                        store_class_directory(store, IO_CLASS_TABLE), tree->name, tree->name);
    if (rc == FIRN_OK && space != tree->space)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s/%s.firn is another tablespace (number %u) than that of tree %s (number "
                        "%u): put the right file back",
                        store_class_directory(store, IO_CLASS_TABLE), tree->name, space, tree->name,
                        tree->space);
    return rc;
}

firn_rc store_catalog_open(struct store *store)
{
    uint32_t space;
    uint32_t root_page;
    firn_rc rc = space_find(store->spaces, STORE_SYSTEM_SPACE, &space);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s/" STORE_SYSTEM_SPACE ".firn is missing: put it back, or restore the "
                        "environment from a backup",
                        store_class_directory(store, IO_CLASS_SYSTEM));
    FIRN_TRY(rc);
    FIRN_TRY(space_entry(store->spaces, SPACE_SYSTEM, &root_page));
    FIRN_TRY(
        btree_open(&store->base, SPACE_SYSTEM, root_page, STORE_CATALOG_INDEX, &store->catalog));
    FIRN_TRY(read_catalog(store));
    for (size_t i = 0; i < store->tree_count; i++)
        FIRN_TRY(check_tree_file(store, store->trees[i]));
    return space_each(store->spaces, judge_space, store);
}

/* ---- After a crash ---- */

struct space_list {
    uint32_t *spaces;
    size_t count;
    size_t capacity;
};

static firn_rc collect_space(const struct space_info *info, void *context)
{
    struct space_list *list = context;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        uint32_t *spaces = memory_realloc(list->spaces, capacity * sizeof(*spaces));
        if (spaces == NULL)
            return raise_memory();
        list->spaces = spaces;
        list->capacity = capacity;
    }
    list->spaces[list->count++] = info->space;
    return FIRN_OK;
}

static firn_rc clear_limbos(struct store *store)
{
    struct space_list list = {0};
    firn_rc rc = space_each(store->spaces, collect_space, &list);
    for (size_t i = 0; i < list.count && rc == FIRN_OK; i++)
        rc = btree_clear_limbo(store->session, list.spaces[i]);
    memory_free(list.spaces);
    return rc;
}

/* Limbo first: what lies there has an owner that may be about to go. */
firn_rc store_catalog_recover(struct store *store)
{
    FIRN_TRY(clear_limbos(store));
    for (size_t i = store->tree_count; i-- > 0;) {
        struct store_tree *tree = store->trees[i];
        if (tree->state == STORE_TREE_LIVE)
            continue;
        FIRN_TRY(remove_tree(store, tree));
        unlist_tree(store, tree);
        free_tree(tree);
    }
    return FIRN_OK;
}
