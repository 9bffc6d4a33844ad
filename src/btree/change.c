/*
 * Changing one key: find its leaf, decide, and do it in one mini-transaction.
 *
 * A decision is made with the leaf latched. Where it needs more than the leaf (room, a large value
 * to be read, written or freed), what it was about is remembered, the latch is given back, the rest
 * is seen to, and the leaf is visited again: the decision still counts if what it was about is
 * still there.
 */
#include "btree/btree_internal.h"

#include "base/check.h"
#include "btree/blob_internal.h"

/* What a visit to the leaf found that must be done before the next. */
enum step {
    STEP_DONE,          /* nothing: the operation has ended */
    STEP_READ_OLD,      /* a large old value is asked for */
    STEP_CLAIM,         /* the old value's chain will need a place in limbo */
    STEP_WRITE_CHAIN,   /* the new value is too large for the leaf */
    STEP_DISCARD_CHAIN, /* it was, but another decision has to be made */
    STEP_SPLIT,         /* no room */
};

struct visit {
    enum step step;
    bool carried_out;
    bool wants_merge;
};

bool btree_write_holds(const struct btree_session *session, const struct btree_write *write,
                       const uint8_t *leaf, unsigned slot, bool found)
{
    struct slotted_cell cell;
    if (!write->decided || found != write->old_exists)
        return false;
    if (!found)
        return true;
    ENSURE(slotted_cell(leaf, session->page_size_bytes, slot, &cell));
    return cell.flags == write->old_flags && cell.value.size_bytes == write->old_size_bytes &&
           memcmp(cell.value.bytes, session->old_cell, write->old_size_bytes) == 0;
}

/* Remember what a decision was about. */
static void remember_old(struct btree_session *session, struct btree_write *write,
                         const struct slotted_cell *old)
{
    write->old_exists = old != NULL;
    if (old == NULL)
        return;
    write->old_flags = old->flags;
    write->old_size_bytes = old->value.size_bytes;
    memcpy(session->old_cell, old->value.bytes, old->value.size_bytes);
}

/* Does the session hold the large value that a cell refers to? */
static bool old_is_read(const struct btree_write *write, const struct slotted_cell *cell)
{
    struct btree_reference reference;
    btree_reference_get(cell->value, &reference);
    return write->old_is_read && btree_reference_equals(&reference, &write->old_read);
}

/* Ask the caller what to do. */
static firn_rc decide(struct btree_session *session, struct btree_write *write,
                      const struct slotted_cell *old)
{
    struct span shown = {NULL, 0};
    if (old != NULL && old->flags & SLOTTED_EXTERNAL) {
        struct btree_reference reference;
        btree_reference_get(old->value, &reference);
        shown = span_of(write->wants_old ? session->value.bytes : NULL, reference.size_bytes);
    } else if (old != NULL) {
        shown = span_of(write->wants_old ? old->value.bytes : NULL, old->value.size_bytes);
    }
    firn_rc rc = FIRN_OK;
    write->action = write->decide(old != NULL ? &shown : NULL, &write->value, &rc, write->context);
    write->decided = true;
    write->cell_value = write->value;
    write->cell_flags = 0;
    return rc;
}

/* What does the decision need beside the leaf? */
static enum step find_step(const struct btree_write *write, const struct slotted_cell *old,
                           const uint8_t *leaf, uint32_t page_size_bytes, unsigned slot)
{
    bool puts = write->action == BTREE_PUT;
    if (puts && !write->chain_written &&
        write->key.size_bytes + write->value.size_bytes > slotted_cell_max(page_size_bytes))
        return STEP_WRITE_CHAIN;
    if (old != NULL && old->flags & SLOTTED_EXTERNAL && write->claim.frame == NULL)
        return STEP_CLAIM;
    if (!puts)
        return STEP_DONE;
    size_t size_bytes = write->cell_value.size_bytes;
    bool fits = old != NULL ? slotted_can_update(leaf, page_size_bytes, slot, size_bytes)
                            : slotted_cost(leaf, write->key.size_bytes, size_bytes) <=
                                  slotted_free_bytes(leaf, page_size_bytes);
    return fits ? STEP_DONE : STEP_SPLIT;
}

firn_rc btree_write_prepare(struct btree_session *session, struct btree_write *write)
{
    return write->claim.frame != NULL ? btree_claim_lock(session, &write->claim) : FIRN_OK;
}

void btree_write_chains(struct btree_session *session, struct btree_write *write)
{
    struct btree_claim *claim = &write->claim;
    struct btree_limbo_entry entry = {.kind = BTREE_LIMBO_NONE};
    if (claim->frame == NULL)
        return;
    write->frees_old = write->old_exists && write->old_flags & SLOTTED_EXTERNAL;
    if (write->frees_old) {
        struct btree_reference old;
        btree_reference_get(span_of(session->old_cell, write->old_size_bytes), &old);
        entry = (struct btree_limbo_entry){
            .kind = BTREE_LIMBO_CHAIN,
            .first_page = old.first_page,
            .page_count = old.page_count,
            .index_id = write->index_id,
            .stamp = old.stamp,
        };
    }
    btree_claim_set(session, claim, 0, &entry);
    write->is_done = true;
}

/* How many bytes two values of one size have in common at their beginnings. */
static size_t same_at_front(const uint8_t *left, const uint8_t *right, size_t size_bytes)
{
    size_t at = 0;
    while (at + 8 <= size_bytes && get_u64(left + at) == get_u64(right + at))
        at += 8;
    while (at < size_bytes && left[at] == right[at])
        at++;
    return at;
}

static size_t same_at_back(const uint8_t *left, const uint8_t *right, size_t size_bytes)
{
    size_t left_bytes = size_bytes;
    while (left_bytes >= 8 && get_u64(left + left_bytes - 8) == get_u64(right + left_bytes - 8))
        left_bytes -= 8;
    while (left_bytes > 0 && left[left_bytes - 1] == right[left_bytes - 1])
        left_bytes--;
    return size_bytes - left_bytes;
}

/* Replace a value by one of the same size where only a part differs, and log no more than that.
 * Returns false where that saves nothing. */
static bool patch_value(struct mtr *mtr, struct mtr_page *leaf, unsigned slot,
                        const struct slotted_cell *old, struct span value, unsigned flags)
{
    enum { PATCH_OVERHEAD_BYTES = 8 };
    size_t size_bytes = value.size_bytes;
    if (old->flags != flags || old->value.size_bytes != size_bytes)
        return false;
    size_t begin = same_at_front(old->value.bytes, value.bytes, size_bytes);
    if (begin == size_bytes)
        return true; /* it is there already */
    size_t end = size_bytes - same_at_back(old->value.bytes, value.bytes, size_bytes);
    if (end - begin + PATCH_OVERHEAD_BYTES >= size_bytes)
        return false;
    mtr_patch(mtr, leaf, slot, begin, span_of(value.bytes + begin, end - begin));
    return true;
}

/* Carry out a decision that the leaf alone has room for. */
static firn_rc carry_out(struct btree_session *session, struct btree_write *write,
                         struct mtr_page *leaf, unsigned slot, const struct slotted_cell *old)
{
    struct mtr *mtr = &session->mtr;
    FIRN_TRY(btree_write_prepare(session, write));
    if (write->claim.frame != NULL)
        remember_old(session, write, old);
    if (write->action == BTREE_DELETE)
        mtr_delete(mtr, leaf, slot);
    else if (old == NULL)
        mtr_insert(mtr, leaf, slot, write->key, write->cell_value, write->cell_flags);
    else if (!patch_value(mtr, leaf, slot, old, write->cell_value, write->cell_flags))
        mtr_update(mtr, leaf, slot, write->cell_value, write->cell_flags);
    btree_write_chains(session, write);
    return FIRN_OK;
}

/* Decide about the key in its latched leaf, and carry it out if nothing else is needed. */
static firn_rc work_on_leaf(struct btree_session *session, struct btree *tree,
                            struct btree_write *write, struct mtr_page *leaf, struct visit *visit)
{
    uint32_t page_size_bytes = session->page_size_bytes;
    unsigned slot;
    struct slotted_cell cell;
    const struct slotted_cell *old = NULL;
    bool found = slotted_search(leaf->bytes, page_size_bytes, write->key, &slot);
    if (found && !slotted_cell(leaf->bytes, page_size_bytes, slot, &cell))
        return btree_raise_corrupt(tree, page_id_number(leaf->page_id), "has a damaged cell");
    if (found)
        old = &cell;
    if (!btree_write_holds(session, write, leaf->bytes, slot, found)) {
        write->decided = false;
        visit->step = STEP_DISCARD_CHAIN;
        if (write->chain_written)
            return FIRN_OK;
        visit->step = STEP_READ_OLD;
        if (found && cell.flags & SLOTTED_EXTERNAL && write->wants_old &&
            !old_is_read(write, &cell)) {
            btree_reference_get(cell.value, &write->old_read);
            write->old_is_read = false;
            return FIRN_OK;
        }
        visit->step = STEP_DONE;
        FIRN_TRY(decide(session, write, old));
    }
    visit->step = STEP_DONE;
    if (write->action == BTREE_KEEP || (write->action == BTREE_DELETE && !found))
        return FIRN_OK;
    visit->step = find_step(write, old, leaf->bytes, page_size_bytes, slot);
    if (visit->step != STEP_DONE) {
        remember_old(session, write, old);
        return FIRN_OK;
    }
    size_t free_bytes = slotted_free_bytes(leaf->bytes, page_size_bytes);
    FIRN_TRY(carry_out(session, write, leaf, slot, old));
    visit->carried_out = true;
    visit->wants_merge = btree_wants_merge(leaf->bytes, page_size_bytes, free_bytes);
    return FIRN_OK;
}

static firn_rc visit_leaf(struct btree_session *session, struct btree *tree,
                          struct btree_write *write, struct visit *visit, uint64_t *end_lsn)
{
    struct mtr *mtr = &session->mtr;
    struct mtr_page *leaf;
    *visit = (struct visit){.step = STEP_DONE};
    FIRN_TRY(
        mtr_begin(mtr, mtr_cost(slotted_cell_max(session->page_size_bytes)) + btree_claim_cost()));
    firn_rc rc = btree_lock_leaf(tree, mtr, write->key, &leaf);
    if (rc == FIRN_OK)
        rc = work_on_leaf(session, tree, write, leaf, visit);
    /* A value that was there already is committed too: its log may not be durable yet. */
    if (visit->carried_out)
        return mtr_commit(mtr, end_lsn);
    mtr_abandon(mtr);
    return rc;
}

/* Put the new value into a chain, which is in limbo until the leaf refers to it. */
static firn_rc write_chain(struct btree_session *session, struct btree *tree,
                           struct btree_write *write)
{
    uint32_t tail = PAGE_NONE;
    if (write->claim.frame == NULL)
        FIRN_TRY(btree_claim(session, tree->space, 1, &write->claim));
    FIRN_TRY(
        btree_chain_write(session, tree, write->value, &write->claim, 0, &tail, &write->chain));
    btree_reference_put(write->chain_cell, &write->chain);
    write->cell_value = span_of(write->chain_cell, sizeof write->chain_cell);
    write->cell_flags = SLOTTED_EXTERNAL;
    write->chain_written = true;
    return FIRN_OK;
}

/* See to what a visit to the leaf found missing. */
static firn_rc take_step(struct btree_session *session, struct btree *tree,
                         struct btree_write *write, enum step step, uint64_t *end_lsn, bool *done)
{
    firn_rc rc;
    *done = false;
    switch (step) {
    case STEP_DONE:
        *done = true;
        return FIRN_OK;
    case STEP_READ_OLD:
        rc = btree_chain_read_seen(tree, &write->old_read, &session->value, &write->old_failure);
        write->old_is_read = rc == FIRN_OK;
        return rc == BTREE_AGAIN ? FIRN_OK : rc;
    case STEP_CLAIM:
        return btree_claim(session, tree->space, 1, &write->claim);
    case STEP_WRITE_CHAIN:
        return write_chain(session, tree, write);
    case STEP_DISCARD_CHAIN:
        write->chain_written = false;
        return btree_claim_free_pages(session, &write->claim, 0);
    case STEP_SPLIT:
        rc = btree_split(session, tree, write, end_lsn);
        *done = rc == FIRN_OK;
        return rc == BTREE_AGAIN ? FIRN_OK : rc;
    }
    return FIRN_OK;
}

/* Free what the operation leaves to nobody. It has succeeded or failed by now; pages that cannot be
 * freed stay in limbo and are none the worse for it. */
static void clean_up(struct btree_session *session, struct btree_write *write)
{
    if (write->claim.frame == NULL)
        return;
    if (write->is_done && !write->frees_old)
        btree_claim_drop(session, &write->claim);
    else
        (void)btree_claim_end(session, &write->claim, 1);
}

firn_rc btree_change(struct btree_session *session, struct btree *tree, struct span key,
                     btree_decide *decide_function, bool wants_old, void *context,
                     uint64_t *end_lsn)
{
    struct btree_write write = {.key = key,
                                .index_id = tree->index_id,
                                .decide = decide_function,
                                .context = context,
                                .wants_old = wants_old};
    struct visit visit = {.wants_merge = false};
    uint64_t lsn = 0;
    firn_rc rc = btree_check_key(tree, key);
    /* Each round but the last was made vain by somebody else's change of this key or leaf, or has
     * brought the operation a step nearer to its end. */
    for (bool done = false; rc == FIRN_OK && !done;) {
        rc = visit_leaf(session, tree, &write, &visit, &lsn);
        if (rc == FIRN_OK)
            rc = take_step(session, tree, &write, visit.step, &lsn, &done);
    }
    clean_up(session, &write);
    if (visit.wants_merge)
        (void)btree_rebalance(session, tree, key); /* trouble there is not this operation's */
    if (end_lsn != NULL && rc == FIRN_OK)
        *end_lsn = lsn;
    return rc;
}

/* ---- Decisions that need no caller ---- */

static enum btree_action decide_put(const struct span *old, struct span *value, firn_rc *rc,
                                    void *context)
{
    (void)old;
    (void)rc;
    *value = *(const struct span *)context;
    return BTREE_PUT;
}

static enum btree_action decide_insert(const struct span *old, struct span *value, firn_rc *rc,
                                       void *context)
{
    *value = *(const struct span *)context;
    if (old == NULL)
        return BTREE_PUT;
    *rc = FIRN_E_EXISTS;
    return BTREE_KEEP;
}

static enum btree_action decide_delete(const struct span *old, struct span *value, firn_rc *rc,
                                       void *context)
{
    (void)value;
    (void)context;
    if (old != NULL)
        return BTREE_DELETE;
    *rc = FIRN_E_NOT_FOUND;
    return BTREE_KEEP;
}

firn_rc btree_put(struct btree_session *session, struct btree *tree, struct span key,
                  struct span value, uint64_t *end_lsn)
{
    return btree_change(session, tree, key, decide_put, false, &value, end_lsn);
}

firn_rc btree_insert(struct btree_session *session, struct btree *tree, struct span key,
                     struct span value, uint64_t *end_lsn)
{
    return btree_change(session, tree, key, decide_insert, false, &value, end_lsn);
}

firn_rc btree_delete(struct btree_session *session, struct btree *tree, struct span key,
                     uint64_t *end_lsn)
{
    return btree_change(session, tree, key, decide_delete, false, NULL, end_lsn);
}
