/*
 * Trees by name: making, finding and dropping them. README.md says why no crash leaves one by half.
 */
#include "engine/store_internal.h"

#include "base/check.h"
#include "base/futex.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum {
    ERROR_TEXT_BYTES = 512,
    FREE_LIST_MAX = 1 << 20, /* pages of a dropped tree that are remembered at once */
};

/* ---- The list in memory ---- */

static firn_rc raise_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory for the list of trees");
}

static void close_handle(struct store_tree *tree)
{
    if (tree->tree != NULL)
        btree_close(tree->tree);
    tree->tree = NULL;
}

static void free_tree(struct store_tree *tree)
{
    close_handle(tree);
    memory_free(tree->name);
    memory_free(tree);
}

static firn_rc open_handle(struct store *store, struct store_tree *tree)
{
    FIRN_TRY(btree_open(&store->base, tree->space, tree->root_page, tree->index_id, &tree->tree));
    if (tree->versioned)
        btree_set_head(tree->tree, TXN_HEAD_BYTES);
    return FIRN_OK;
}

static struct store_tree *new_tree(const char *name)
{
    size_t size_bytes = strlen(name) + 1;
    struct store_tree *tree = memory_zalloc(1, sizeof(*tree));
    char *copy = memory_alloc(size_bytes);
    if (tree == NULL || copy == NULL) {
        memory_free(tree);
        memory_free(copy);
        return NULL;
    }
    memcpy(copy, name, size_bytes);
    tree->name = copy;
    tree->state = STORE_TREE_CREATING;
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

struct store_tree *store_tree_find(const struct store *store, const char *name)
{
    size_t place = tree_place(store, name);
    bool found = place < store->tree_count && strcmp(store->trees[place]->name, name) == 0;
    return found ? store->trees[place] : NULL;
}

/* @return the place of the first tree whose id is at or above it */
static size_t id_place(const struct store *store, uint64_t index_id)
{
    size_t low = 0;
    size_t high = store->tree_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (store->trees_by_id[middle]->index_id < index_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct store_tree *store_tree_by_id(const struct store *store, uint64_t index_id)
{
    size_t place = id_place(store, index_id);
    bool found = place < store->tree_count && store->trees_by_id[place]->index_id == index_id;
    return found ? store->trees_by_id[place] : NULL;
}

static bool grow_list(struct store_tree ***list, size_t capacity)
{
    struct store_tree **trees = memory_realloc(*list, capacity * sizeof(struct store_tree *));
    if (trees != NULL)
        *list = trees;
    return trees != NULL;
}

static firn_rc reserve_place(struct store *store)
{
    if (store->tree_count < store->tree_capacity)
        return FIRN_OK;
    size_t capacity = store->tree_capacity == 0 ? 16 : 2 * store->tree_capacity;
    if (!grow_list(&store->trees, capacity) || !grow_list(&store->trees_by_id, capacity))
        return raise_memory();
    store->tree_capacity = capacity;
    return FIRN_OK;
}

static void insert_at(struct store_tree **list, size_t count, size_t place, struct store_tree *tree)
{
    memmove(list + place + 1, list + place, (count - place) * sizeof(*list));
    list[place] = tree;
}

static void remove_at(struct store_tree **list, size_t count, size_t place)
{
    memmove(list + place, list + place + 1, (count - place - 1) * sizeof(*list));
}

firn_rc store_tree_add(struct store *store, const char *name, uint64_t index_id,
                       struct store_tree **tree)
{
    FIRN_TRY(reserve_place(store));
    struct store_tree *made = new_tree(name);
    if (made == NULL)
        return raise_memory();
    made->index_id = index_id;
    insert_at(store->trees, store->tree_count, tree_place(store, made->name), made);
    insert_at(store->trees_by_id, store->tree_count, id_place(store, index_id), made);
    store->tree_count++;
    *tree = made;
    return FIRN_OK;
}

static void forget_tree(struct store *store, struct store_tree *tree)
{
    size_t place = tree_place(store, tree->name);
    ASSERT(place < store->tree_count && store->trees[place] == tree);
    remove_at(store->trees, store->tree_count, place);
    remove_at(store->trees_by_id, store->tree_count, id_place(store, tree->index_id));
    store->tree_count--;
    free_tree(tree);
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
static firn_rc free_page(struct store *store, uint32_t space, uint32_t page_no, uint64_t owner)
{
    struct mtr *mtr = btree_session_mtr(store->session);
    struct mtr_page *page;
    FIRN_TRY(mtr_begin(mtr, SPACE_LOG_MAX_BYTES + mtr_cost(0)));
    firn_rc rc = mtr_fix_new(mtr, page_id_of(space, page_no), &page);
    if (rc == FIRN_OK)
        rc = space_free(store->spaces, mtr, page, owner);
    if (rc == FIRN_OK)
        return mtr_commit(mtr, NULL);
    mtr_abandon(mtr);
    return rc;
}

/* The pages of a tree that shares its tablespace are found by their owner, not by walking: so it
   does not matter how much of the tree is there. */
static firn_rc free_pages(struct store *store, uint32_t space, uint64_t owner)
{
    struct page_list list = {.owner = owner, .more = true};
    firn_rc rc = FIRN_OK;
    list.pages = memory_alloc(FREE_LIST_MAX * sizeof(*list.pages));
    if (list.pages == NULL)
        return raise_memory();
    while (list.more && rc == FIRN_OK) {
        list.count = 0;
        list.more = false;
        rc = space_each_page(store->spaces, space, collect_page, &list);
        if (list.more)
            rc = FIRN_OK;
        for (size_t i = 0; i < list.count && rc == FIRN_OK; i++)
            rc = free_page(store, space, list.pages[i], owner);
    }
    memory_free(list.pages);
    return rc;
}

static bool is_guest_of(const struct store_tree *tree, const struct store_tree *host)
{
    return tree->guest && !host->guest && !host->shared && tree->space == host->space;
}

/* A tree in another one's tablespace, with a handle or any; NULL: there is none any more. */
static struct store_tree *find_guest(const struct store *store, const struct store_tree *host,
                                     bool is_open)
{
    for (size_t i = 0; i < store->tree_count; i++)
        if (is_guest_of(store->trees[i], host) && (!is_open || store->trees[i]->tree != NULL))
            return store->trees[i];
    return NULL;
}

/* The file, then the entries of the trees that were in it: where it is gone, so are they. */
static firn_rc remove_file(struct store *store, const struct store_tree *tree)
{
    uint32_t space;
    struct store_tree *guest;
    firn_rc rc = space_find(store->spaces, tree->name, &space);
    if (rc == FIRN_OK)
        rc = space_drop(store->spaces, btree_session_mtr(store->session), space);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        return rc;
    while ((guest = find_guest(store, tree, false)) != NULL) {
        FIRN_TRY(store_catalog_delete(store, guest->name));
        forget_tree(store, guest);
    }
    return FIRN_OK;
}

/* Pages, or the file, then the entry. May be repeated from any point. */
static firn_rc remove_tree(struct store *store, const struct store_tree *tree)
{
    if (tree->shared || tree->guest)
        FIRN_TRY(free_pages(store, tree->space, tree->index_id));
    else
        FIRN_TRY(remove_file(store, tree));
    return store_catalog_delete(store, tree->name);
}

static firn_rc make_content(struct store *store, struct store_tree *tree)
{
    struct mtr *mtr = btree_session_mtr(store->session);
    uint64_t end_lsn;
    if (!tree->shared && !tree->guest)
        FIRN_TRY(space_create(store->spaces, mtr, IO_CLASS_TABLE, tree->name, &tree->space));
    FIRN_TRY(btree_create(store->session, tree->space, tree->index_id, &tree->root_page));
    FIRN_TRY(open_handle(store, tree));
    tree->state = STORE_TREE_LIVE;
    FIRN_TRY(store_catalog_put(store, tree, &end_lsn));
    return redo_flush(store->redo, end_lsn, REDO_FLUSH_SYNC);
}

/*
 * The entry says first that something is coming, so that a crash leaves nothing unknown. Where a
 * tablespace could not be made its file may be there all the same, or come back with the next
 * recovery: then the entry stays until that is over.
 *
 * @param gone  set: nothing is left of it
 */
static firn_rc create_tree(struct store *store, struct store_tree *tree, bool *gone)
{
    char text[ERROR_TEXT_BYTES];
    *gone = true;
    FIRN_TRY(store_catalog_put(store, tree, NULL));
    firn_rc rc = make_content(store, tree);
    if (rc == FIRN_OK)
        return rc;
    snprintf(text, sizeof(text), "%s", firn_error_text());
    close_handle(tree);
    tree->state = STORE_TREE_CREATING;
    bool file_is_known = tree->shared || tree->space != SPACE_SYSTEM; /* a guest's is its host's */
    *gone = file_is_known && remove_tree(store, tree) == FIRN_OK;
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

/* @param host  in whose tablespace it is to lie, or NULL */
static firn_rc make_tree(struct store *store, const char *name, unsigned flags,
                         const struct store_tree *host, struct store_tree **tree)
{
    FIRN_TRY(check_name(name));
    bool shared = flags & STORE_TREE_SHARED;
    if (!shared && host == NULL)
        FIRN_TRY(check_file_is_free(store, name));
    struct store_tree *made;
    uint64_t index_id;
    bool gone;
    FIRN_TRY(store_catalog_next_index(store, &index_id));
    FIRN_TRY(store_tree_add(store, name, index_id, &made));
    made->shared = shared;
    made->versioned = flags & STORE_TREE_VERSIONED;
    made->guest = host != NULL;
    if (made->guest)
        made->space = host->space;
    made->unrecorded = flags & STORE_TREE_UNRECORDED;
    firn_rc rc = create_tree(store, made, &gone);
    if (rc == FIRN_OK)
        *tree = made;
    else if (gone)
        forget_tree(store, made);
    return rc;
}

firn_rc store_open_tree(struct store *store, struct store_tree *tree)
{
    if (tree->tree != NULL)
        return FIRN_OK;
    return open_handle(store, tree);
}

static firn_rc raise_no_tree(const char *name)
{
    return rc_raise(FIRN_E_NOT_FOUND, "there is no tree \"%s\"; 'firn stat' lists them", name);
}

static firn_rc get_tree(struct store *store, const char *name, unsigned flags, struct btree **tree)
{
    struct store_tree *found = store_tree_find(store, name);
    bool create = flags & STORE_TREE_CREATE;
    if (!create && (found == NULL || found->state != STORE_TREE_LIVE))
        return raise_no_tree(name);
    if (found != NULL && found->state != STORE_TREE_LIVE)
        return rc_raise(FIRN_E_BUSY,
                        "what a failure left of an earlier tree \"%s\" is still there: close the "
                        "environment and open it again, which removes that",
                        name);
    if (found == NULL)
        FIRN_TRY(make_tree(store, name, flags, NULL, &found));
    bool versioned = flags & STORE_TREE_VERSIONED;
    if (create && found->versioned != versioned)
        return rc_raise(FIRN_E_INVALID, "tree \"%s\" %s: use it as it was made, or another name",
                        name, versioned ? "is not for transactions" : "is for transactions");
    FIRN_TRY(store_open_tree(store, found));
    *tree = found->tree;
    return FIRN_OK;
}

firn_rc store_tree(struct store *store, const char *name, unsigned flags, struct btree **tree)
{
    lock_take(&store->tree_mutex);
    firn_rc rc = get_tree(store, name, flags, tree);
    lock_give(&store->tree_mutex);
    return rc;
}

static firn_rc make_guest(struct store *store, const char *name, const char *host_name,
                          unsigned flags, struct btree **tree)
{
    const struct store_tree *host = store_tree_find(store, host_name);
    struct store_tree *made;
    if (host == NULL || host->state != STORE_TREE_LIVE)
        return raise_no_tree(host_name);
    if (host->shared || host->guest)
        return rc_raise(FIRN_E_INVALID, "tree \"%s\" has no file of its own for others to lie in",
                        host_name);
    if (store_tree_find(store, name) != NULL)
        return rc_raise(FIRN_E_EXISTS, "there is a tree \"%s\" already", name);
    FIRN_TRY(make_tree(store, name, flags, host, &made));
    *tree = made->tree;
    return FIRN_OK;
}

firn_rc store_make_guest(struct store *store, const char *name, const char *host, unsigned flags,
                         struct btree **tree)
{
    lock_take(&store->tree_mutex);
    firn_rc rc = make_guest(store, name, host, flags, tree);
    lock_give(&store->tree_mutex);
    return rc;
}

/* Transactions' background work is about it just now. */
static void wait_for_pins(struct store *store, const struct store_tree *tree)
{
    while (tree->pins > 0) {
        uint32_t seen = atomic_load_explicit(&store->unpinned, memory_order_acquire);
        lock_give(&store->tree_mutex);
        futex_wait(&store->unpinned, seen);
        lock_take(&store->tree_mutex);
    }
}

/* Nobody finds a tree that is being dropped; those that had found it are waited for. */
static void withdraw(struct store *store, struct store_tree *tree)
{
    struct store_tree *guest;
    wait_for_pins(store, tree);
    close_handle(tree);
    for (size_t i = 0; i < store->tree_count; i++)
        if (is_guest_of(store->trees[i], tree))
            store->trees[i]->state = STORE_TREE_DROPPING;
    while ((guest = find_guest(store, tree, true)) != NULL) {
        wait_for_pins(store, guest);
        close_handle(guest);
    }
}

/* Where removing fails, what is left stays listed, so that nobody takes its name. */
static firn_rc drop_tree(struct store *store, const char *name)
{
    uint64_t end_lsn;
    struct store_tree *tree = store_tree_find(store, name);
    if (tree == NULL || tree->state != STORE_TREE_LIVE)
        return raise_no_tree(name);
    tree->state = STORE_TREE_DROPPING;
    firn_rc rc = store_catalog_put(store, tree, &end_lsn);
    if (rc != FIRN_OK) {
        tree->state = STORE_TREE_LIVE;
        return rc;
    }
    withdraw(store, tree);
    FIRN_TRY(redo_flush(store->redo, end_lsn, REDO_FLUSH_SYNC));
    FIRN_TRY(remove_tree(store, tree));
    forget_tree(store, tree);
    return FIRN_OK;
}

firn_rc store_drop_tree(struct store *store, const char *name)
{
    lock_take(&store->tree_mutex);
    firn_rc rc = drop_tree(store, name);
    lock_give(&store->tree_mutex);
    return rc;
}

/* The trees as they are now: the function may make others. */
firn_rc store_each_tree(struct store *store, store_tree_visit *visit, void *context)
{
    firn_rc rc = FIRN_OK;
    size_t count = 0;
    lock_take(&store->tree_mutex);
    struct store_tree **trees = memory_alloc((store->tree_count + 1) * sizeof(*trees));
    if (trees == NULL)
        rc = raise_memory();
    for (size_t i = 0; rc == FIRN_OK && i < store->tree_count; i++) {
        if (store->trees[i]->state != STORE_TREE_LIVE)
            continue;
        trees[count] = store->trees[i];
        rc = store_open_tree(store, trees[count++]);
    }
    lock_give(&store->tree_mutex);
    for (size_t i = 0; i < count && rc == FIRN_OK; i++) {
        const struct store_tree *tree = trees[i];
        struct store_tree_info info = {tree->name,  tree->shared,    tree->guest,
                                       tree->space, tree->root_page, tree->index_id};
        rc = visit(&info, tree->tree, context);
    }
    memory_free(trees);
    return rc;
}

void store_trees_close(struct store *store)
{
    for (size_t i = 0; i < store->tree_count; i++)
        free_tree(store->trees[i]);
    memory_free(store->trees);
    memory_free(store->trees_by_id);
    store->trees = NULL;
    store->trees_by_id = NULL;
    store->tree_count = 0;
    store->tree_capacity = 0;
    if (store->catalog != NULL)
        btree_close(store->catalog);
    store->catalog = NULL;
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

static firn_rc collect_temporary(const struct space_info *info, void *context)
{
    return info->class == IO_CLASS_TEMPORARY ? collect_space(info, context) : FIRN_OK;
}

/* What lies in temporary tablespaces is nobody's once the run that made them is over. Their first
   pages say that they are such, and of this environment (space_scan). */
static firn_rc drop_temporary(struct store *store)
{
    struct space_list list = {0};
    struct mtr *mtr = btree_session_mtr(store->session);
    firn_rc rc = space_each(store->spaces, collect_temporary, &list);
    for (size_t i = 0; i < list.count && rc == FIRN_OK; i++)
        rc = space_drop(store->spaces, mtr, list.spaces[i]);
    memory_free(list.spaces);
    return rc;
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

/* Trees with a file first: what lies in it goes with it. */
static struct store_tree *find_unfinished(const struct store *store)
{
    struct store_tree *guest = NULL;
    for (size_t i = 0; i < store->tree_count; i++) {
        struct store_tree *tree = store->trees[i];
        if (tree->state != STORE_TREE_LIVE && !tree->guest)
            return tree;
        if (tree->state != STORE_TREE_LIVE)
            guest = tree;
    }
    return guest;
}

/* Limbo first: what lies there has an owner that may be about to go. */
firn_rc store_trees_recover(struct store *store)
{
    struct store_tree *tree;
    FIRN_TRY(drop_temporary(store));
    FIRN_TRY(clear_limbos(store));
    while ((tree = find_unfinished(store)) != NULL) {
        FIRN_TRY(remove_tree(store, tree));
        forget_tree(store, tree);
    }
    return FIRN_OK;
}
