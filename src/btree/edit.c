/*
 * Changing one key: find its leaf, decide, and do it in one mini-transaction.
 *
 * A decision is made with the leaf latched. Where it needs more than the leaf (room, a large value
 * to be read, written or freed), what it was about is remembered, the latch is given back, the rest
 * is seen to, and the leaf is visited again: the decision still counts if what it was about is
 * still there. What the key behind was cannot be remembered like that, so a decision about it is
 * made anew at each visit.
 */
#include "btree/btree_internal.h"

#include "base/check.h"
#include "btree/blob_internal.h"

#include <inttypes.h>

/* What a visit to the leaf found that must be done before the next. */
enum step {
    STEP_DONE,          /* nothing: the operation has ended */
    STEP_READ_OLD,      /* a large old value is asked for */
    STEP_READ_NEXT,     /* the key behind is, and its leaf could not be had */
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

/* Does the session hold the large value that a cell is of? */
static bool old_is_read(const struct btree_write *write, struct span cell)
{
    return write->old_is_read &&
           span_compare(cell, span_of(write->old_read, write->old_read_bytes)) == 0;
}

/* Ask the caller what to do. */
static firn_rc decide(struct btree_session *session, struct btree_write *write,
                      const struct slotted_cell *old)
{
    const struct btree_edit *edit = write->edit;
    struct btree_old shown;
    if (old != NULL) {
        btree_show(write->tree, old, &shown);
        if (shown.is_large && edit->wants_old)
            shown.value = span_of(session->value.bytes, write->old_value_bytes);
    }
    firn_rc rc = FIRN_OK;
    write->new = (struct btree_new){.is_cell = false};
    write->action = edit->decide(old != NULL ? &shown : NULL, &write->new, &rc, edit->context);
    write->decided = rc == FIRN_OK;
    write->asked_next = session->place.asked;
    write->cell_value = write->new.value;
    write->cell_flags = write->new.is_cell ? SLOTTED_EXTERNAL : 0;
    if (rc == FIRN_OK && write->action == BTREE_PUT && write->new.is_cell &&
        !btree_cell_is_sound(write->tree, write->cell_value))
        rc = rc_raise(FIRN_E_INVALID,
                      "%zu bytes that are no cell of a large value were to be put into index "
                      "%" PRIu64 " as one",
                      write->cell_value.size_bytes, write->tree->index_id);
    return rc;
}

/* Make a decision about the key behind anew. Sets whether it came to the same: then what has been
 * prepared for it still counts. */
static firn_rc decide_again(struct btree_session *session, struct btree_write *write,
                            const struct slotted_cell *old, bool *same)
{
    struct btree_write before = *write;
    firn_rc rc = decide(session, write, old);
    if (rc == BTREE_AGAIN)
        *write = before;
    FIRN_TRY(rc);
    *same = write->action == before.action && write->new.is_cell == before.new.is_cell &&
            write->new.value.bytes == before.new.value.bytes &&
            write->new.value.size_bytes == before.new.value.size_bytes;
    if (*same) {
        write->cell_value = before.cell_value;
        write->cell_flags = before.cell_flags;
    }
    return FIRN_OK;
}

/* Does carrying a decision out leave the old value's chain to nobody? */
static bool frees_chain(const struct btree_write *write, unsigned old_flags, struct span old_cell)
{
    struct btree_reference old;
    struct btree_reference new;
    if (!(old_flags & SLOTTED_EXTERNAL) || write->edit->keeps_chain)
        return false;
    if (write->action != BTREE_PUT || !write->new.is_cell)
        return true;
    btree_reference_get(old_cell, &old);
    btree_reference_get(write->new.value, &new);
    return !btree_reference_equals(&old, &new);
}

/* What does the decision need beside the leaf? */
static enum step find_step(const struct btree_write *write, const struct slotted_cell *old,
                           const uint8_t *leaf, uint32_t page_size_bytes, unsigned slot)
{
    bool puts = write->action == BTREE_PUT;
    if (puts && !write->chain_written && !write->new.is_cell &&
        write->key.size_bytes + write->new.value.size_bytes > slotted_cell_max(page_size_bytes))
        return STEP_WRITE_CHAIN;
    if (old != NULL && write->claim.frame == NULL && frees_chain(write, old->flags, old->value))
        return STEP_CLAIM;
    if (!puts)
        return STEP_DONE;
    size_t size_bytes = write->cell_value.size_bytes;
    if (old != NULL && size_bytes <= old->value.size_bytes)
        return STEP_DONE;
    bool fits = old != NULL ? slotted_can_update(leaf, page_size_bytes, slot, size_bytes)
                            : slotted_cost(leaf, write->key.size_bytes, size_bytes) <=
                                  slotted_free_bytes(leaf, page_size_bytes);
    return fits ? STEP_DONE : STEP_SPLIT;
}

firn_rc btree_write_prepare(struct btree_session *session, struct btree_write *write)
{
    return write->claim.frame != NULL ? btree_claim_lock(session, &write->claim) : FIRN_OK;
}

firn_rc btree_write_accompany(struct btree_session *session, struct btree_write *write)
{
    const struct btree_edit *edit = write->edit;
    if (edit->companion == NULL)
        return FIRN_OK;
    /* The register of limbo stands behind leaves in the order of latches. */
    session->place.tries |= write->claim.frame != NULL;
    firn_rc rc = edit->companion(&session->mtr, edit->context);
    session->place.wanted = rc == BTREE_AGAIN;
    FIRN_TRY(rc);
    if (write->chain_written) /* it may have written the head */
        memcpy(write->chain_cell, write->new.value.bytes, write->tree->head_bytes);
    return FIRN_OK;
}

void btree_write_chains(struct btree_session *session, struct btree_write *write)
{
    struct btree_claim *claim = &write->claim;
    struct btree_limbo_entry entry = {.kind = BTREE_LIMBO_NONE};
    struct span old_cell = span_of(session->old_cell, write->old_size_bytes);
    if (claim->frame == NULL)
        return;
    write->frees_old = write->old_exists && frees_chain(write, write->old_flags, old_cell);
    if (write->frees_old)
        btree_limbo_name(write->tree, old_cell, &entry);
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
    FIRN_TRY(btree_write_accompany(session, write));
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

firn_rc btree_write_confirm(struct btree_session *session, struct btree_write *write,
                            const uint8_t *leaf, unsigned slot, bool found)
{
    struct slotted_cell cell;
    bool same = false;
    if (!write->asked_next)
        return FIRN_OK;
    ENSURE(!found || slotted_cell(leaf, session->page_size_bytes, slot, &cell));
    FIRN_TRY(decide_again(session, write, found ? &cell : NULL, &same));
    write->decided = same;
    return same ? FIRN_OK : BTREE_AGAIN;
}

/* Have a decision that counts, or find out what stands in its way. */
static firn_rc have_decision(struct btree_session *session, struct btree_write *write,
                             const uint8_t *leaf, unsigned slot, const struct slotted_cell *old,
                             enum step *step)
{
    FIRN_TRY(btree_place_foresee(session));
    if (btree_write_holds(session, write, leaf, slot, old != NULL))
        return btree_write_confirm(session, write, leaf, slot, old != NULL);
    write->decided = false;
    if (write->chain_written) {
        *step = STEP_DISCARD_CHAIN;
        return FIRN_OK;
    }
    if (old != NULL && old->flags & SLOTTED_EXTERNAL && write->edit->wants_old &&
        !old_is_read(write, old->value)) {
        write->old_read_bytes = btree_cell_copy(old->value, write->old_read).size_bytes;
        write->old_is_read = false;
        *step = STEP_READ_OLD;
        return FIRN_OK;
    }
    return decide(session, write, old);
}

/* Carry out a decision, or find out what it needs first. */
static firn_rc follow_decision(struct btree_session *session, struct btree_write *write,
                               struct mtr_page *leaf, unsigned slot, const struct slotted_cell *old,
                               struct visit *visit)
{
    uint32_t page_size_bytes = session->page_size_bytes;
    if (write->action == BTREE_KEEP || (write->action == BTREE_DELETE && old == NULL))
        return FIRN_OK;
    visit->step = find_step(write, old, leaf->bytes, page_size_bytes, slot);
    if (visit->step == STEP_DONE) {
        bool shrinks = write->action == BTREE_DELETE ||
                       (old != NULL && write->cell_value.size_bytes < old->value.size_bytes);
        size_t free_bytes = shrinks ? slotted_free_bytes(leaf->bytes, page_size_bytes) : 0;
        firn_rc rc = carry_out(session, write, leaf, slot, old);
        visit->carried_out = rc == FIRN_OK;
        if (rc == FIRN_OK && shrinks)
            visit->wants_merge = btree_wants_merge(leaf->bytes, page_size_bytes, free_bytes);
        if (rc != BTREE_AGAIN)
            return rc;
        visit->step = STEP_READ_NEXT;
    }
    remember_old(session, write, old);
    return FIRN_OK;
}

/* Decide about the key in its latched leaf, and carry it out if nothing else is needed. */
static firn_rc work_on_leaf(struct btree_session *session, struct btree_write *write,
                            struct mtr_page *leaf, struct visit *visit)
{
    uint32_t page_size_bytes = session->page_size_bytes;
    unsigned slot;
    struct slotted_cell cell;
    bool found = slotted_search(leaf->bytes, page_size_bytes, write->key, &slot);
    const struct slotted_cell *old = found ? &cell : NULL;
    if (found && !slotted_cell(leaf->bytes, page_size_bytes, slot, &cell))
        return btree_raise_corrupt(write->tree, page_id_number(leaf->page_id),
                                   "has a damaged cell");
    btree_place_enter(session, write->tree, leaf->bytes, slot + found);
    firn_rc rc = have_decision(session, write, leaf->bytes, slot, old, &visit->step);
    if (rc == BTREE_AGAIN) {
        visit->step = STEP_READ_NEXT;
        return FIRN_OK;
    }
    FIRN_TRY(rc);
    return visit->step == STEP_DONE ? follow_decision(session, write, leaf, slot, old, visit)
                                    : FIRN_OK;
}

static firn_rc visit_leaf(struct btree_session *session, struct btree_write *write,
                          struct visit *visit, uint64_t *end_lsn)
{
    struct mtr *mtr = &session->mtr;
    struct buffer_frame *leaf;
    *visit = (struct visit){.step = STEP_DONE};
    FIRN_TRY(mtr_begin(mtr, mtr_cost(slotted_cell_max(session->page_size_bytes)) +
                                btree_claim_cost() + write->edit->companion_log_bytes));
    firn_rc rc = btree_latch_leaf(write->tree, write->key, BUFFER_EXCLUSIVE, &leaf);
    if (rc == FIRN_OK)
        rc = work_on_leaf(session, write, mtr_take(mtr, leaf), visit);
    /* A value that was there already is committed too: its log may not be durable yet. What stands
     * on the right is held until then. */
    if (visit->carried_out)
        rc = mtr_commit(mtr, end_lsn);
    else
        mtr_abandon(mtr);
    btree_place_leave(session);
    return rc;
}

/* Put the new value into a chain, which is in limbo until the leaf refers to it. */
static firn_rc write_chain(struct btree_session *session, struct btree *tree,
                           struct btree_write *write)
{
    struct btree_reference reference;
    uint32_t tail = PAGE_NONE;
    if (write->claim.frame == NULL)
        FIRN_TRY(btree_claim(session, tree->space, 1, &write->claim));
    FIRN_TRY(
        btree_chain_write(session, tree, write->new.value, &write->claim, 0, &tail, &reference));
    write->cell_value = btree_cell_put(tree, write->new.value, &reference, write->chain_cell);
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
        rc = btree_chain_read_seen(tree, span_of(write->old_read, write->old_read_bytes),
                                   &session->value, &write->old_value_bytes, &write->old_failure);
        write->old_is_read = rc == FIRN_OK;
        return rc == BTREE_AGAIN ? FIRN_OK : rc;
    case STEP_READ_NEXT:
        return btree_place_read(session, tree);
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
        return rc == BTREE_AGAIN ? btree_place_read(session, tree) : rc;
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

/* Zeroing all of it would cost as much as the rest of a put's bookkeeping. */
static void begin_write(struct btree_write *write, struct btree *tree, struct span key,
                        const struct btree_edit *edit)
{
    write->tree = tree;
    write->key = key;
    write->edit = edit;
    write->decided = false;
    write->asked_next = false;
    write->old_exists = false;
    write->old_is_read = false;
    write->old_failure.rc = FIRN_OK;
    write->claim.frame = NULL;
    write->chain_written = false;
    write->frees_old = false;
    write->is_done = false;
}

firn_rc btree_edit(struct btree_session *session, struct btree *tree, struct span key,
                   const struct btree_edit *edit, uint64_t *end_lsn)
{
    struct btree_write write;
    begin_write(&write, tree, key, edit);
    struct visit visit = {.wants_merge = false};
    uint64_t lsn = 0;
    firn_rc rc = btree_check_key(tree, key);
    /* Each round but the last was made vain by somebody else's change of this key or leaf, or has
     * brought the operation a step nearer to its end. */
    for (bool done = false; rc == FIRN_OK && !done;) {
        rc = visit_leaf(session, &write, &visit, &lsn);
        if (rc == FIRN_OK)
            rc = take_step(session, tree, &write, visit.step, &lsn, &done);
    }
    btree_place_end(session);
    clean_up(session, &write);
    if (visit.wants_merge)
        (void)btree_rebalance(session, tree, key); /* trouble there is not this operation's */
    if (end_lsn != NULL && rc == FIRN_OK)
        *end_lsn = lsn;
    return rc;
}

/* ---- Decisions that need no caller ---- */

static enum btree_action decide_put(const struct btree_old *old, struct btree_new *new, firn_rc *rc,
                                    void *context)
{
    (void)old;
    (void)rc;
    new->value = *(const struct span *)context;
    return BTREE_PUT;
}

static enum btree_action decide_insert(const struct btree_old *old, struct btree_new *new,
                                       firn_rc *rc, void *context)
{
    new->value = *(const struct span *)context;
    if (old == NULL)
        return BTREE_PUT;
    *rc = FIRN_E_EXISTS;
    return BTREE_KEEP;
}

static enum btree_action decide_delete(const struct btree_old *old, struct btree_new *new,
                                       firn_rc *rc, void *context)
{
    (void)new;
    (void)context;
    if (old != NULL)
        return BTREE_DELETE;
    *rc = FIRN_E_NOT_FOUND;
    return BTREE_KEEP;
}

firn_rc btree_put(struct btree_session *session, struct btree *tree, struct span key,
                  struct span value, uint64_t *end_lsn)
{
    struct btree_edit edit = {.decide = decide_put, .context = &value};
    return btree_edit(session, tree, key, &edit, end_lsn);
}

firn_rc btree_insert(struct btree_session *session, struct btree *tree, struct span key,
                     struct span value, uint64_t *end_lsn)
{
    struct btree_edit edit = {.decide = decide_insert, .context = &value};
    return btree_edit(session, tree, key, &edit, end_lsn);
}

firn_rc btree_delete(struct btree_session *session, struct btree *tree, struct span key,
                     uint64_t *end_lsn)
{
    static const struct btree_edit edit = {.decide = decide_delete};
    return btree_edit(session, tree, key, &edit, end_lsn);
}
