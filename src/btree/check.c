/*
 * Judging a tree: every node against its parent and its neighbours, every large value whole.
 *
 * The subtrees of the root are handed out to threads. Each walks its subtrees from left to right
 * with a copy of one node a level, and remembers for every level where it began and ended, so that
 * the links between subtrees can be judged when all are done. A page that cannot be read is one
 * problem and a gap, not the end.
 */
#include "base/check.h"
#include "base/memory.h"
#include "btree/blob_internal.h"
#include "btree/btree_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    CHECK_AHEAD_PAGES = 32, /* children that are asked for together */
    CHECK_THREADS_MAX = 64,
    PROBLEM_BYTES = 512,
};

/** What was seen of a level between two points of it. */
struct check_run {
    bool any;
    bool gap_first; /* something before `first`, or behind `last`, could not be read */
    bool gap_last;
    uint32_t first;
    uint32_t first_prev;
    uint32_t last;
    uint32_t last_next;
};

struct check {
    struct btree *tree;
    const struct btree_check_options *options;
    const uint8_t *root; /* a copy */
    unsigned root_level;
    struct check_run *runs; /* root_level of them for each child of the root */
    atomic_uint next_child;
    pthread_mutex_t mutex; /* protects what follows, and problems are reported under it */
    uint64_t problems;
    firn_rc rc; /* the first failure that ends the check, and its sentence */
    char text[PROBLEM_BYTES];
    struct btree_shape shape;
};

struct check_walker {
    struct check *check;
    pthread_t thread;
    uint8_t *pages;         /* a copy of a node for each level, the root's included */
    struct check_run *runs; /* of the levels below the root, in the subtree that is being walked */
    struct btree_shape shape;
};

/** A node's range as its parent says it. */
struct check_range {
    uint32_t parent; /* the root's is itself */
    struct span lower;
    struct span upper;
    bool upper_is_open;
};

/* ---- Problems ---- */

static const char *file_of(const struct check *check)
{
    struct buffer_files files = space_files(check->tree->base.spaces);
    struct io_file *file;
    uint64_t offset;
    uint64_t page_id = page_id_of(check->tree->space, check->tree->root_page);
    return files.locate(files.context, page_id, &file, &offset) == FIRN_OK ? io_file_path(file)
                                                                           : "its file";
}

static void tell(struct check *check, uint32_t page_no, const char *text)
{
    struct finding finding = {
        .severity = FINDING_DAMAGE,
        .file = file_of(check),
        .page = page_no,
        .offset = (uint64_t)page_no * check->tree->page_size_bytes,
        .text = text,
    };
    pthread_mutex_lock(&check->mutex);
    check->problems++;
    check->options->report(&finding, check->options->context);
    pthread_mutex_unlock(&check->mutex);
}

static void report(struct check *check, uint32_t page_no, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void report(struct check *check, uint32_t page_no, const char *format, ...)
{
    char text[PROBLEM_BYTES];
    va_list arguments;
    int length =
        snprintf(text, sizeof(text), "page %" PRIu32 " of %s, a node of index %" PRIu64 ", ",
                 page_no, file_of(check), check->tree->index_id);
    va_start(arguments, format);
    if (length > 0 && (size_t)length < sizeof(text))
        vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
    va_end(arguments);
    tell(check, page_no, text);
}

/* A page that cannot be had is a problem of the tree: of the page that refers to it if the file has
   none of that number. Anything else ends the check. */
static firn_rc judge_failure(struct check *check, uint32_t referrer, uint32_t page_no, firn_rc rc)
{
    if (rc == FIRN_E_NOT_FOUND) {
        report(check, referrer, "refers to page %" PRIu32 ", which the file does not have",
               page_no);
        return FIRN_OK;
    }
    if (rc != FIRN_E_CORRUPT && rc != FIRN_E_IO)
        return rc;
    tell(check, page_no, firn_error_text());
    return FIRN_OK;
}

static firn_rc check_stop(const struct check *check)
{
    const atomic_bool *stop = check->options->stop;
    return stop != NULL && atomic_load_explicit(stop, memory_order_relaxed)
               ? rc_raise(FIRN_E_STOPPED, "the check was stopped")
               : FIRN_OK;
}

static void see(const struct check *check, uint32_t page_no)
{
    if (check->options->seen != NULL)
        check->options->seen(page_no, check->options->context);
}

/* ---- Links ---- */

/* Judge what comes behind a run, and make both one. */
static void join_runs(struct check *check, struct check_run *run, const struct check_run *next)
{
    if (!next->any) {
        run->gap_last |= next->gap_first;
        run->gap_first |= next->gap_first && !run->any;
        return;
    }
    if (!run->any) {
        bool gap = run->gap_last || next->gap_first;
        *run = *next;
        run->gap_first = gap;
        return;
    }
    if (!run->gap_last && !next->gap_first) {
        if (run->last_next != next->first)
            report(check, run->last,
                   "links to page %" PRIu32 " on its right, but page %" PRIu32 " stands there",
                   run->last_next, next->first);
        if (next->first_prev != run->last)
            report(check, next->first,
                   "links to page %" PRIu32 " on its left, but page %" PRIu32 " stands there",
                   next->first_prev, run->last);
    }
    run->last = next->last;
    run->last_next = next->last_next;
    run->gap_last = next->gap_last;
}

/* A subtree whose top cannot be read: nothing is known of its levels. */
static void leave_gap(struct check_walker *walker, unsigned level)
{
    static const struct check_run gap = {.gap_first = true, .gap_last = true};
    for (unsigned i = 0; i <= level && i < walker->check->root_level; i++)
        join_runs(walker->check, &walker->runs[i], &gap);
}

static void link_node(struct check_walker *walker, unsigned level, uint32_t page_no,
                      const struct slotted_bounds *bounds)
{
    struct check_run one = {
        .any = true,
        .first = page_no,
        .first_prev = bounds->prev,
        .last = page_no,
        .last_next = bounds->next,
    };
    if (level < walker->check->root_level)
        join_runs(walker->check, &walker->runs[level], &one);
    else if (bounds->prev != PAGE_NONE || bounds->next != PAGE_NONE)
        report(walker->check, page_no, "the root, has neighbours");
}

static void check_ends(struct check *check, const struct check_run *run)
{
    if (run->any && !run->gap_first && run->first_prev != PAGE_NONE)
        report(check, run->first, "the first of its level, links to page %" PRIu32 " on its left",
               run->first_prev);
    if (run->any && !run->gap_last && run->last_next != PAGE_NONE)
        report(check, run->last, "the last of its level, links to page %" PRIu32 " on its right",
               run->last_next);
}

/* ---- Large values ---- */

/* Where a chain is being followed. */
struct check_chain {
    uint32_t leaf;
    struct btree_reference reference;
    uint32_t page_no;
    uint64_t position;
};

/* @param fits  set on success: the page was read and is the right one */
static firn_rc check_chain_page(struct check_walker *walker, struct check_chain *chain, bool *fits)
{
    struct check *check = walker->check;
    struct btree *tree = check->tree;
    struct buffer_frame *frame;
    FIRN_TRY(check_stop(check));
    *fits = false;
    firn_rc rc = buffer_fix(tree->base.pool, page_id_of(tree->space, chain->page_no), BUFFER_SHARED,
                            BUFFER_HINT_SCAN, &frame);
    if (rc != FIRN_OK)
        return judge_failure(check, chain->leaf, chain->page_no, rc);
    const uint8_t *page = buffer_page(tree->base.pool, frame);
    *fits = btree_chain_has(tree, &chain->reference, chain->position, page);
    if (*fits) {
        see(check, chain->page_no);
        walker->shape.blob_pages++;
        chain->position += get_u32(page + BLOB_AT_LENGTH);
    } else {
        report(check, chain->leaf,
               "refers to a large value that page %" PRIu32 " is no part of, as it should be",
               chain->page_no);
    }
    chain->page_no = get_u32(page + BLOB_AT_NEXT);
    buffer_unfix(tree->base.pool, frame, BUFFER_SHARED);
    return FIRN_OK;
}

static firn_rc check_large(struct check_walker *walker, uint32_t leaf, struct span cell)
{
    struct check *check = walker->check;
    struct check_chain chain = {.leaf = leaf};
    btree_reference_get(cell, &chain.reference);
    const struct btree_reference *reference = &chain.reference;
    if (!btree_cell_is_sound(check->tree, cell)) {
        report(check, leaf, "has a reference to a large value that makes no sense");
        return FIRN_OK;
    }
    walker->shape.value_bytes += check->tree->head_bytes + reference->size_bytes;
    chain.page_no = reference->first_page;
    bool fits = true;
    /* The chain may go on: a bulk build links all its large values. */
    for (uint32_t i = 0; i < reference->page_count && fits; i++)
        FIRN_TRY(check_chain_page(walker, &chain, &fits));
    return FIRN_OK;
}

/* ---- Nodes ---- */

static firn_rc check_leaf(struct check_walker *walker, uint32_t page_no, const uint8_t *page)
{
    uint32_t page_size_bytes = walker->check->tree->page_size_bytes;
    struct btree_shape *shape = &walker->shape;
    unsigned count = slotted_count(page);
    size_t prefix_bytes = slotted_prefix(page, page_size_bytes).size_bytes;
    uint32_t next = slotted_next(page);
    shape->leaf_pages++;
    shape->rows += count;
    shape->free_bytes += slotted_free_bytes(page, page_size_bytes);
    shape->leaf_jumps += next != PAGE_NONE && next != page_no + 1;
    for (unsigned slot = 0; slot < count; slot++) {
        struct slotted_cell cell;
        ENSURE(slotted_cell(page, page_size_bytes, slot, &cell));
        shape->key_bytes += prefix_bytes + cell.suffix.size_bytes;
        if (cell.flags & SLOTTED_EXTERNAL)
            FIRN_TRY(check_large(walker, page_no, cell.value));
        else
            shape->value_bytes += cell.value.size_bytes;
    }
    return FIRN_OK;
}

/* @return whether the node may be gone into */
static bool check_node(struct check_walker *walker, uint32_t page_no, unsigned level,
                       const struct check_range *range, const uint8_t *page)
{
    struct check *check = walker->check;
    uint32_t page_size_bytes = check->tree->page_size_bytes;
    struct slotted_bounds bounds;
    char what[128];
    if (!btree_is_node(check->tree, page)) {
        report(check, page_no, "is not one: its parent refers to something else");
        return false;
    }
    if (slotted_check(page, page_size_bytes, what) != FIRN_OK) {
        report(check, page_no, "is damaged inside: %s", what);
        return false;
    }
    slotted_bounds(page, page_size_bytes, &bounds);
    if (bounds.level != level) {
        report(check, page_no, "says that its level is %u, but %u is right", bounds.level, level);
        return false;
    }
    link_node(walker, level, page_no, &bounds);
    if (span_compare(bounds.lower, range->lower) != 0)
        report(check, page_no, "has another lower fence than its parent says");
    if (bounds.upper_is_open != range->upper_is_open ||
        (!bounds.upper_is_open && span_compare(bounds.upper, range->upper) != 0))
        report(check, page_no, "has another upper fence than its parent says");
    if (level != 0 && slotted_count(page) == 0) {
        report(check, page_no, "is an inner node without children");
        return false;
    }
    return true;
}

/* Copy a node, so that nothing is latched while it is judged. @param there  set on success */
static firn_rc copy_node(struct check *check, uint32_t referrer, uint32_t page_no, uint8_t *copy,
                         bool *there)
{
    struct btree *tree = check->tree;
    struct buffer_frame *frame;
    *there = false;
    firn_rc rc = buffer_fix(tree->base.pool, page_id_of(tree->space, page_no), BUFFER_SHARED,
                            BUFFER_HINT_SCAN, &frame);
    if (rc != FIRN_OK)
        return judge_failure(check, referrer, page_no, rc);
    memcpy(copy, buffer_page(tree->base.pool, frame), tree->page_size_bytes);
    buffer_unfix(tree->base.pool, frame, BUFFER_SHARED);
    *there = true;
    return FIRN_OK;
}

/* ---- Walking ---- */

/* A key of a node and the next one are a child's range; they are copied, for spans of keys cut by
   the page's prefix would not do. */
struct check_keys {
    uint8_t *lower;
    uint8_t *upper;
};

static size_t walker_page_bytes(const struct btree *tree)
{
    return tree->page_size_bytes + 2 * slotted_key_max(tree->page_size_bytes);
}

static uint8_t *walker_page(const struct check_walker *walker, unsigned level)
{
    return walker->pages + level * walker_page_bytes(walker->check->tree);
}

/* @param room  for two keys */
static void child_range(const struct check *check, const uint8_t *page, unsigned slot,
                        uint8_t *room, struct check_range *range)
{
    uint32_t page_size_bytes = check->tree->page_size_bytes;
    uint8_t *upper = room + slotted_key_max(page_size_bytes);
    struct slotted_bounds bounds;
    slotted_bounds(page, page_size_bytes, &bounds);
    range->parent = page_number(page);
    range->lower = span_of(room, slotted_copy_key(page, page_size_bytes, slot, room));
    range->upper = bounds.upper;
    range->upper_is_open = bounds.upper_is_open;
    if (slot + 1 < slotted_count(page)) {
        range->upper = span_of(upper, slotted_copy_key(page, page_size_bytes, slot + 1, upper));
        range->upper_is_open = false;
    }
}

static void ask_for_children(const struct check *check, const uint8_t *page, unsigned from)
{
    struct btree *tree = check->tree;
    uint64_t ids[CHECK_AHEAD_PAGES];
    unsigned count = 0;
    for (unsigned slot = from; slot < slotted_count(page) && count < CHECK_AHEAD_PAGES; slot++)
        ids[count++] = page_id_of(tree->space, slotted_child_at(page, tree->page_size_bytes, slot));
    buffer_prefetch(tree->base.pool, ids, count);
}

static firn_rc walk(struct check_walker *walker, uint32_t page_no, unsigned level,
                    const struct check_range *range);

static firn_rc walk_children(struct check_walker *walker, const uint8_t *page, unsigned level)
{
    struct check *check = walker->check;
    uint32_t page_size_bytes = check->tree->page_size_bytes;
    uint8_t *room = walker_page(walker, level) + page_size_bytes;
    walker->shape.inner_pages++;
    for (unsigned slot = 0; slot < slotted_count(page); slot++) {
        struct check_range range;
        if (level == 1 && slot % CHECK_AHEAD_PAGES == 0)
            ask_for_children(check, page, slot);
        child_range(check, page, slot, room, &range);
        FIRN_TRY(walk(walker, slotted_child_at(page, page_size_bytes, slot), level - 1, &range));
    }
    return FIRN_OK;
}

/* Goes down a level with each call, so it ends whatever the pages say. */
static firn_rc walk(struct check_walker *walker, uint32_t page_no, unsigned level,
                    const struct check_range *range)
{
    uint8_t *page = walker_page(walker, level);
    bool there;
    FIRN_TRY(check_stop(walker->check));
    FIRN_TRY(copy_node(walker->check, range->parent, page_no, page, &there));
    if (there)
        see(walker->check, page_no);
    if (!there || !check_node(walker, page_no, level, range, page)) {
        leave_gap(walker, level);
        return FIRN_OK;
    }
    return level == 0 ? check_leaf(walker, page_no, page) : walk_children(walker, page, level);
}

static void add_shape(struct btree_shape *to, const struct btree_shape *from)
{
    to->inner_pages += from->inner_pages;
    to->leaf_pages += from->leaf_pages;
    to->blob_pages += from->blob_pages;
    to->rows += from->rows;
    to->key_bytes += from->key_bytes;
    to->value_bytes += from->value_bytes;
    to->free_bytes += from->free_bytes;
    to->leaf_jumps += from->leaf_jumps;
}

/* Take subtrees of the root until there are none. */
static firn_rc walk_subtrees(struct check_walker *walker)
{
    struct check *check = walker->check;
    uint32_t page_size_bytes = check->tree->page_size_bytes;
    uint8_t *room = walker_page(walker, check->root_level) + page_size_bytes;
    unsigned count = slotted_count(check->root);
    unsigned slot;
    while ((slot = atomic_fetch_add_explicit(&check->next_child, 1, memory_order_relaxed)) <
           count) {
        struct check_range range;
        walker->runs = check->runs + (size_t)slot * check->root_level;
        if (check->root_level == 1 && slot % CHECK_AHEAD_PAGES == 0)
            ask_for_children(check, check->root, slot);
        child_range(check, check->root, slot, room, &range);
        FIRN_TRY(walk(walker, slotted_child_at(check->root, page_size_bytes, slot),
                      check->root_level - 1, &range));
    }
    return FIRN_OK;
}

/* ---- The whole tree ---- */

static firn_rc walker_open(struct check *check, struct check_walker *walker)
{
    *walker = (struct check_walker){.check = check};
    walker->pages = memory_alloc((check->root_level + 1) * walker_page_bytes(check->tree));
    return walker->pages != NULL ? FIRN_OK : rc_raise(FIRN_E_NOMEM, "no memory to check a tree");
}

/* Fold in what a walker found; the others stop at their next subtree if it failed. */
static void walker_close(struct check_walker *walker, firn_rc rc)
{
    struct check *check = walker->check;
    pthread_mutex_lock(&check->mutex);
    if (rc != FIRN_OK && check->rc == FIRN_OK) {
        check->rc = rc;
        snprintf(check->text, sizeof(check->text), "%s", firn_error_text());
        atomic_store_explicit(&check->next_child, UINT_MAX / 2, memory_order_relaxed);
    }
    add_shape(&check->shape, &walker->shape);
    pthread_mutex_unlock(&check->mutex);
    memory_free(walker->pages);
}

static void *walker_run(void *context)
{
    struct check_walker *walker = context;
    walker_close(walker, walk_subtrees(walker));
    return NULL;
}

static void join_subtrees(struct check *check)
{
    for (unsigned level = 0; level < check->root_level; level++) {
        struct check_run whole = {.any = false};
        for (unsigned slot = 0; slot < slotted_count(check->root); slot++)
            join_runs(check, &whole, &check->runs[(size_t)slot * check->root_level + level]);
        check_ends(check, &whole);
    }
}

/* The calling thread is one of the walkers, so fewer threads than wanted are no failure. */
static firn_rc walk_in_parallel(struct check *check)
{
    struct check_walker walkers[CHECK_THREADS_MAX];
    unsigned wanted = check->options->threads;
    unsigned count = slotted_count(check->root);
    unsigned started = 0;
    if (wanted == 0 || wanted > CHECK_THREADS_MAX)
        wanted = wanted == 0 ? 1 : CHECK_THREADS_MAX;
    if (wanted > count)
        wanted = count;
    check->runs = memory_zalloc((size_t)count * check->root_level, sizeof(*check->runs));
    if (check->runs == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to check a tree");
    firn_rc rc = walker_open(check, &walkers[0]);
    while (rc == FIRN_OK && started + 1 < wanted) {
        struct check_walker *walker = &walkers[started + 1];
        if (walker_open(check, walker) != FIRN_OK)
            break;
        if (pthread_create(&walker->thread, NULL, walker_run, walker) != 0) {
            memory_free(walker->pages);
            break;
        }
        started++;
    }
    if (rc == FIRN_OK)
        walker_run(&walkers[0]);
    for (unsigned i = 1; i <= started; i++)
        pthread_join(walkers[i].thread, NULL);
    if (rc == FIRN_OK && check->rc != FIRN_OK)
        rc = rc_raise(check->rc, "%s", check->text);
    if (rc == FIRN_OK)
        join_subtrees(check);
    memory_free(check->runs);
    return rc;
}

/* The root decides how high the tree is. */
static firn_rc check_from_root(struct check *check, struct check_walker *walker, uint8_t *root)
{
    static const struct check_range everything = {.upper_is_open = true};
    uint32_t root_page = check->tree->root_page;
    bool there;
    FIRN_TRY(copy_node(check, root_page, root_page, root, &there));
    if (!there)
        return FIRN_OK;
    see(check, root_page);
    check->root_level = slotted_level(root);
    if (check->root_level >= BTREE_HEIGHT_MAX) {
        report(check, root_page, "the root, has a level that makes no sense");
        return FIRN_OK;
    }
    if (!check_node(walker, root_page, check->root_level, &everything, root))
        return FIRN_OK;
    check->shape.height = check->root_level + 1;
    if (check->root_level == 0) {
        firn_rc rc = check_leaf(walker, root_page, root);
        add_shape(&check->shape, &walker->shape);
        return rc;
    }
    check->shape.inner_pages++;
    return walk_in_parallel(check);
}

firn_rc btree_check(struct btree *tree, const struct btree_check_options *options,
                    struct btree_shape *shape)
{
    struct check check = {.tree = tree, .options = options};
    struct check_walker walker = {.check = &check};
    uint8_t *root = memory_alloc(tree->page_size_bytes);
    if (root == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to check a tree");
    check.root = root;
    pthread_mutex_init(&check.mutex, NULL);
    firn_rc rc = check_from_root(&check, &walker, root);
    pthread_mutex_destroy(&check.mutex);
    memory_free(root);
    *shape = check.shape;
    if (rc == FIRN_OK && check.problems != 0)
        rc = rc_raise(FIRN_E_CORRUPT, "index %" PRIu64 " has %" PRIu64 " problems", tree->index_id,
                      check.problems);
    return rc;
}
