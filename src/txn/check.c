/*
 * Judging what transactions have on disk.
 */
#include "txn/txn_internal.h"

struct check {
    const struct txn_check_visitor *visitor;
    const struct txn_trees *trees;
    struct btree *tree; /* the last one found: records of one transaction are about few trees */
    uint64_t index_id;
    struct version_cell cell;
    firn_rc rc;
};

static void tell_problem(const char *problem, void *context)
{
    const struct check *check = context;
    check->visitor->problem(problem, check->visitor->context);
}

static void tell_page(uint32_t space, uint32_t page_no, void *context)
{
    const struct check *check = context;
    check->visitor->undo_page(space, page_no, check->visitor->context);
}

static void tell_kept(uint32_t page_no, void *context)
{
    const struct check *check = context;
    check->visitor->kept_page(check->index_id, page_no, check->visitor->context);
}

static void let_go(struct check *check)
{
    if (check->tree != NULL)
        check->trees->release(check->tree, check->trees->context);
    check->tree = NULL;
}

/* The tree of a record; NULL if it has been dropped. */
static firn_rc find_tree(struct check *check, uint64_t index_id)
{
    if (check->tree != NULL && check->index_id == index_id)
        return FIRN_OK;
    let_go(check);
    check->index_id = index_id;
    firn_rc rc = check->trees->find(index_id, &check->tree, check->trees->context);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* A chain may be gone although its record is there: purge was cut off behind it, or it was put back
 * and replaced. Pages that are damaged tell so themselves. */
static firn_rc look_at_chain(struct check *check, const struct undo_change *change)
{
    struct version_cell *cell = &check->cell;
    FIRN_TRY(find_tree(check, change->index_id));
    if (check->tree == NULL)
        return FIRN_OK;
    FIRN_TRY(version_cell_of_record(cell, change));
    firn_rc rc =
        btree_chain_pages(check->tree, span_of(cell->bytes, cell->size_bytes), tell_kept, check);
    return rc == FIRN_E_CORRUPT ? FIRN_OK : rc;
}

static void look_at_record(struct span record, void *context)
{
    struct check *check = context;
    struct undo_change change;
    if (check->rc != FIRN_OK)
        return;
    if (undo_change_get(record, &change) != FIRN_OK)
        tell_problem("an undo record makes no sense", check);
    else if (change.frees_old)
        check->rc = look_at_chain(check, &change);
}

firn_rc txn_check(struct txn_set *set, const struct txn_check_visitor *visitor)
{
    struct check check = {
        .visitor = visitor,
        .trees = visitor->trees != NULL ? visitor->trees : &set->options.trees,
    };
    struct undo_check_visitor undo = {
        .problem = tell_problem, .seen = tell_page, .record = look_at_record, .context = &check};
    txn_pause(set);
    firn_rc rc = undo_check(set->undo, &undo);
    txn_resume(set);
    let_go(&check);
    version_cell_free(&check.cell);
    return rc == FIRN_OK || rc == FIRN_E_CORRUPT ? (check.rc != FIRN_OK ? check.rc : rc) : rc;
}
