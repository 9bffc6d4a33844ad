/*
 * The check of everything: what the map says of each page, what lies there, and what is reached.
 */
#include "engine/store_check_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHECK_THREADS_MAX = 64, PROBLEM_BYTES = 1024 };

static const uint64_t TELL_NS = 100 * NS_PER_MS;

/* ---- Telling ---- */

static void tell_finding(const struct finding *finding, void *context)
{
    struct store_check *check = context;
    pthread_mutex_lock(&check->mutex);
    check->problems++;
    check->report(finding, check->context);
    pthread_mutex_unlock(&check->mutex);
}

void check_tell(struct store_check *check, const struct check_space *space, uint32_t page_no,
                const char *format, ...)
{
    char text[PROBLEM_BYTES];
    va_list arguments;
    struct finding finding = {
        .severity = FINDING_DAMAGE,
        .file = space == NULL ? NULL : space->path,
        .page = page_no == PAGE_NONE ? FINDING_NOWHERE : page_no,
        .offset = page_no == PAGE_NONE ? FINDING_NOWHERE
                                       : (uint64_t)page_no * check->store->env.page_size_bytes,
        .text = text,
    };
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    tell_finding(&finding, check);
}

void check_fail(struct store_check *check, firn_rc rc)
{
    pthread_mutex_lock(&check->mutex);
    if (check->rc == FIRN_OK) {
        check->rc = rc;
        snprintf(check->text, sizeof(check->text), "%s", firn_error_text());
    }
    pthread_mutex_unlock(&check->mutex);
}

void check_begin_phase(struct store_check *check, const char *phase, uint64_t total_bytes)
{
    check->phase = phase;
    check->total_bytes = total_bytes;
    atomic_store(&check->done_bytes, 0);
}

void check_advance(struct store_check *check, uint64_t size_bytes)
{
    uint64_t done =
        atomic_fetch_add_explicit(&check->done_bytes, size_bytes, memory_order_relaxed) +
        size_bytes;
    if (check->progress == NULL || pthread_mutex_trylock(&check->mutex) != 0)
        return;
    uint64_t now_ns = clock_now(clock_real());
    if (now_ns - check->told_ns >= TELL_NS) {
        struct recovery_progress progress = {check->phase, done, check->total_bytes};
        check->told_ns = now_ns;
        check->progress(&progress, check->context);
    }
    pthread_mutex_unlock(&check->mutex);
}

/* ---- What there is ---- */

static firn_rc raise_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory for the check");
}

static firn_rc take_space(const struct space_info *info, void *context)
{
    struct store_check *check = context;
    if (info->class == IO_CLASS_TEMPORARY) /* no tree of the catalog is in it */
        return FIRN_OK;
    if (check->space_count == check->space_capacity) {
        size_t capacity = check->space_capacity == 0 ? 16 : 2 * check->space_capacity;
        struct check_space *spaces = memory_realloc(check->spaces, capacity * sizeof(*spaces));
        if (spaces == NULL)
            return raise_memory();
        check->spaces = spaces;
        check->space_capacity = capacity;
    }
    struct check_space *space = &check->spaces[check->space_count++];
    *space = (struct check_space){.space = info->space, .class = info->class, .pages = info->pages};
    space->name = memory_copy_text(info->name);
    space->path = memory_copy_text(info->path);
    space->owners = memory_zalloc((size_t)info->pages + 1, sizeof(*space->owners));
    space->reached = memory_zalloc((size_t)info->pages / 8 + 1, sizeof(*space->reached));
    bool complete = space->name != NULL && space->path != NULL && space->owners != NULL &&
                    space->reached != NULL;
    return complete ? FIRN_OK : raise_memory();
}

static struct check_space *find_space(const struct store_check *check, uint32_t number)
{
    for (size_t i = 0; i < check->space_count; i++)
        if (check->spaces[i].space == number)
            return &check->spaces[i];
    return NULL;
}

static firn_rc take_tree(struct store_check *check, const char *name, struct btree *tree,
                         uint64_t index_id, uint32_t space)
{
    char *copy = memory_copy_text(name);
    if (copy == NULL)
        return raise_memory();
    check->trees[check->tree_count++] = (struct check_tree){copy, tree, index_id, space, false};
    return FIRN_OK;
}

static void tell_unopened(struct store_check *check, const struct store_tree *tree)
{
    const struct check_space *space = find_space(check, tree->space);
    check_tell(check, space, tree->root_page,
               "page %u of %s is to be the root of tree %s, which cannot be opened: %s",
               tree->root_page, space == NULL ? "a tablespace that is missing" : space->path,
               tree->name, firn_error_text());
}

/* A tree whose root is damaged is a problem, and the others are checked all the same. What a
   failure left of a tree that nobody has any more has pages, but nobody to reach them. */
static firn_rc list_trees(struct store_check *check)
{
    struct store *store = check->store;
    firn_rc rc;
    check->trees = memory_zalloc(store->tree_count + 1, sizeof(*check->trees));
    if (check->trees == NULL)
        return raise_memory();
    FIRN_TRY(take_tree(check, "(catalog)", store->catalog, STORE_CATALOG_INDEX, SPACE_SYSTEM));
    for (size_t i = 0; i < store->tree_count; i++) {
        struct store_tree *tree = store->trees[i];
        rc = tree->state == STORE_TREE_LIVE ? store_open_tree(store, tree) : FIRN_OK;
        if (rc == FIRN_E_CORRUPT || rc == FIRN_E_IO)
            tell_unopened(check, tree);
        else
            FIRN_TRY(rc);
        FIRN_TRY(take_tree(check, tree->name, tree->tree, tree->index_id, tree->space));
    }
    return FIRN_OK;
}

static void free_check(struct store_check *check)
{
    for (size_t i = 0; i < check->space_count; i++) {
        memory_free(check->spaces[i].name);
        memory_free(check->spaces[i].path);
        memory_free(check->spaces[i].owners);
        memory_free(check->spaces[i].reached);
    }
    for (size_t i = 0; i < check->tree_count; i++)
        memory_free(check->trees[i].name);
    memory_free(check->spaces);
    memory_free(check->trees);
    pthread_mutex_destroy(&check->mutex);
}

/* ---- Owners ---- */

struct owner_context {
    struct store_check *check;
    struct check_space *space;
    uint64_t last_id; /* most pages have the owner of the page before */
    uint32_t last_owner;
};

static uint32_t owner_of(const struct store_check *check, uint64_t id)
{
    if (id == 0)
        return CHECK_OWNER_SPACE;
    if (id == BTREE_LIMBO_OWNER)
        return CHECK_OWNER_LIMBO;
    if (id == TXN_UNDO_OWNER)
        return CHECK_OWNER_UNDO;
    for (size_t i = 0; i < check->tree_count; i++)
        if (check->trees[i].index_id == id)
            return CHECK_OWNER_CATALOG + (uint32_t)i;
    return CHECK_OWNER_UNKNOWN;
}

static firn_rc take_owner(uint32_t page_no, uint64_t id, void *context)
{
    struct owner_context *owners = context;
    if (id != owners->last_id) {
        owners->last_id = id;
        owners->last_owner = owner_of(owners->check, id);
    }
    if (page_no >= owners->space->pages) {
        check_tell(owners->check, owners->space, page_no,
                   "page %u of %s is allocated, but the file has only %u pages", page_no,
                   owners->space->path, owners->space->pages);
        return FIRN_OK;
    }
    owners->space->owners[page_no] = owners->last_owner;
    if (owners->last_owner == CHECK_OWNER_UNKNOWN)
        check_tell(owners->check, owners->space, page_no,
                   "page %u of %s is allocated to index %llu, which does not exist", page_no,
                   owners->space->path, (unsigned long long)id);
    return FIRN_OK;
}

/* A damaged map is a problem; then it is not known whose the pages are. */
static firn_rc check_map(struct store_check *check, struct check_space *space)
{
    struct owner_context owners = {.check = check, .space = space, .last_owner = CHECK_OWNER_SPACE};
    firn_rc rc = space_check(check->store->spaces, space->space, tell_finding, check);
    if (rc != FIRN_OK && rc != FIRN_E_CORRUPT && rc != FIRN_E_IO)
        return rc;
    rc = space_each_page(check->store->spaces, space->space, take_owner, &owners);
    space->owners_are_known = rc == FIRN_OK;
    if (rc == FIRN_E_CORRUPT || rc == FIRN_E_IO)
        check_tell(check, space, PAGE_NONE, "it is not known which pages of %s are in use: %s",
                   space->path, firn_error_text());
    else
        FIRN_TRY(rc);
    return FIRN_OK;
}

/* A tablespace without a tree was put there by somebody. */
static void check_belonging(struct store_check *check, const struct check_space *space)
{
    if (space->class == IO_CLASS_UNDO)
        return;
    for (size_t i = 0; i < check->tree_count; i++)
        if (check->trees[i].space == space->space)
            return;
    check_tell(
        check, space, PAGE_NONE,
        "%s belongs to no tree: move it away, or restore the system tablespace that knows it",
        space->path);
}

/* ---- Reaching ---- */

struct reach_context {
    struct store_check *check;
    struct check_space *space;
    const char *name;
    uint32_t owner;
};

static void reach_page(uint32_t page_no, void *context)
{
    const struct reach_context *reach = context;
    struct check_space *space = reach->space;
    if (page_no >= space->pages) {
        check_tell(reach->check, space, page_no,
                   "tree %s reaches page %u of %s, which has only %u pages", reach->name, page_no,
                   space->path, space->pages);
        return;
    }
    unsigned char bit = (unsigned char)(1U << page_no % 8);
    if (atomic_fetch_or_explicit(&space->reached[page_no / 8], bit, memory_order_relaxed) & bit)
        check_tell(reach->check, space, page_no,
                   "page %u of %s is reached twice, the second time by tree %s", page_no,
                   space->path, reach->name);
    if (space->owners_are_known && space->owners[page_no] != reach->owner)
        check_tell(reach->check, space, page_no,
                   "page %u of %s is reached by tree %s, but is not allocated to it", page_no,
                   space->path, reach->name);
    check_advance(reach->check, reach->check->store->env.page_size_bytes);
}

static void tell_tree_problem(const struct finding *finding, void *context)
{
    const struct reach_context *reach = context;
    char text[PROBLEM_BYTES];
    struct finding named = *finding;
    snprintf(text, sizeof(text), "tree %s: %s", reach->name, finding->text);
    named.text = text;
    tell_finding(&named, reach->check);
}

static firn_rc check_tree(struct store_check *check, size_t number, uint64_t *rows)
{
    struct check_tree *tree = &check->trees[number];
    struct reach_context reach = {
        .check = check,
        .space = find_space(check, tree->space),
        .name = tree->name,
        .owner = CHECK_OWNER_CATALOG + (uint32_t)number,
    };
    struct btree_check_options options = {
        .threads = check->threads,
        .report = tell_tree_problem,
        .seen = reach_page,
        .context = &reach,
    };
    struct btree_shape shape;
    if (tree->tree == NULL || reach.space == NULL)
        return FIRN_OK;
    firn_rc rc = btree_check(tree->tree, &options, &shape);
    tree->is_whole = rc == FIRN_OK;
    if (rc != FIRN_OK && rc != FIRN_E_CORRUPT)
        return rc;
    if (number != 0)
        *rows += shape.rows;
    return FIRN_OK;
}

static firn_rc check_limbo(struct store_check *check, struct check_space *space)
{
    struct reach_context reach = {check, space, "(limbo)", CHECK_OWNER_LIMBO};
    firn_rc rc = btree_each_limbo_page(&check->store->base, space->space, reach_page, &reach);
    if (rc != FIRN_E_CORRUPT && rc != FIRN_E_IO)
        return rc;
    check_tell(check, space, PAGE_NONE, "the register of limbo in %s cannot be read: %s",
               space->path, firn_error_text());
    return FIRN_OK;
}

/* ---- Undo ---- */

static void tell_undo_problem(const char *problem, void *context)
{
    check_tell(context, NULL, PAGE_NONE, "%s", problem);
}

static void reach_undo_page(uint32_t space, uint32_t page_no, void *context)
{
    struct store_check *check = context;
    struct reach_context reach = {check, find_space(check, space), "(undo)", CHECK_OWNER_UNDO};
    if (reach.space != NULL)
        reach_page(page_no, &reach);
}

/* What an older version of a row needs. The tree may reach it as well. */
static void reach_kept_page(uint64_t index_id, uint32_t page_no, void *context)
{
    struct store_check *check = context;
    uint32_t owner = owner_of(check, index_id);
    if (owner == CHECK_OWNER_UNKNOWN)
        return;
    struct check_space *space = find_space(check, check->trees[owner - CHECK_OWNER_CATALOG].space);
    if (space == NULL || page_no >= space->pages)
        return;
    unsigned char bit = (unsigned char)(1U << page_no % 8);
    atomic_fetch_or_explicit(&space->reached[page_no / 8], bit, memory_order_relaxed);
}

/* Behind the trees, which tell what is reached twice. */
static firn_rc check_undo(struct store_check *check)
{
    struct txn_trees trees = {store_pin_tree, store_unpin_tree, check->store};
    struct txn_check_visitor visitor = {.problem = tell_undo_problem,
                                        .undo_page = reach_undo_page,
                                        .kept_page = reach_kept_page,
                                        .context = check,
                                        .trees = &trees};
    firn_rc rc = txn_check(check->store->transactions, &visitor);
    check->undo_is_whole = rc == FIRN_OK;
    return rc == FIRN_E_CORRUPT ? FIRN_OK : rc;
}

static bool is_lost(const struct store_check *check, const struct check_space *space,
                    uint32_t page_no)
{
    uint32_t owner = space->owners[page_no];
    if (owner < CHECK_OWNER_LIMBO || owner == CHECK_OWNER_UNKNOWN ||
        atomic_load_explicit(&space->reached[page_no / 8], memory_order_relaxed) >> page_no % 8 & 1)
        return false;
    if (owner == CHECK_OWNER_UNDO)
        return check->undo_is_whole;
    return owner == CHECK_OWNER_LIMBO || check->trees[owner - CHECK_OWNER_CATALOG].is_whole;
}

static const char *owner_name(const struct store_check *check, uint32_t owner)
{
    if (owner == CHECK_OWNER_LIMBO)
        return "(limbo)";
    return owner == CHECK_OWNER_UNDO ? "(undo)" : check->trees[owner - CHECK_OWNER_CATALOG].name;
}

/* What a damaged tree does not reach says nothing new; what a whole one does not reach is lost. */
static void check_lost_pages(struct store_check *check, const struct check_space *space)
{
    for (uint32_t first = 0; space->owners_are_known && first < space->pages; first++) {
        uint32_t end = first;
        while (end < space->pages && is_lost(check, space, end) &&
               space->owners[end] == space->owners[first])
            end++;
        if (end == first)
            continue;
        const char *name = owner_name(check, space->owners[first]);
        check_tell(check, space, first,
                   "pages %u to %u of %s are allocated to tree %s, which does not reach them",
                   first, end - 1, space->path, name);
        first = end - 1;
    }
}

/* ---- The whole ---- */

static firn_rc check_trees(struct store_check *check, uint64_t *rows)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < check->space_count; i++)
        for (uint32_t page_no = 0; page_no < check->spaces[i].pages; page_no++)
            pages += check->spaces[i].owners[page_no] >= CHECK_OWNER_LIMBO;
    check_begin_phase(check, "walking trees", pages * check->store->env.page_size_bytes);
    for (size_t i = 0; i < check->tree_count; i++)
        FIRN_TRY(check_tree(check, i, rows));
    FIRN_TRY(check_undo(check));
    for (size_t i = 0; i < check->space_count; i++)
        FIRN_TRY(check_limbo(check, &check->spaces[i]));
    for (size_t i = 0; i < check->space_count; i++)
        check_lost_pages(check, &check->spaces[i]);
    return FIRN_OK;
}

/* What is dirty is written first, so that what is read from the devices is what is. */
static firn_rc check_all(struct store_check *check, struct store_check_result *result)
{
    if (!check->store->options.read_only)
        FIRN_TRY(buffer_flush(check->store->pool, UINT64_MAX));
    FIRN_TRY(space_each(check->store->spaces, take_space, check));
    FIRN_TRY(list_trees(check));
    for (size_t i = 0; i < check->space_count; i++) {
        check_belonging(check, &check->spaces[i]);
        FIRN_TRY(check_map(check, &check->spaces[i]));
    }
    FIRN_TRY(check_read_pages(check));
    return check_trees(check, &result->rows);
}

firn_rc store_check(struct store *store, unsigned threads, finding_report *report, void *context,
                    recovery_progress_function *progress, struct store_check_result *result)
{
    struct store_check check = {
        .store = store,
        .threads = threads == 0                  ? 1
                   : threads > CHECK_THREADS_MAX ? CHECK_THREADS_MAX
                                                 : threads,
        .report = report,
        .progress = progress,
        .context = context,
    };
    struct store_check_result found = {0};
    pthread_mutex_init(&check.mutex, NULL);
    txn_pause(store->transactions);
    lock_take(&store->tree_mutex);
    firn_rc rc = check_all(&check, &found);
    lock_give(&store->tree_mutex);
    txn_resume(store->transactions);
    if (rc == FIRN_OK && check.problems == 0) /* damaged trees have been told of */
        rc = check_tables(&check);
    found.spaces = check.space_count;
    found.pages = check.pages;
    found.trees = check.tree_count == 0 ? 0 : check.tree_count - 1;
    found.problems = check.problems;
    free_check(&check);
    *result = found;
    if (rc == FIRN_OK && found.problems != 0)
        rc = rc_raise(FIRN_E_CORRUPT, "the environment in %s has %llu problems",
                      store->directories[0].path, (unsigned long long)found.problems);
    return rc;
}
