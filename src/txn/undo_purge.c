/*
 * Purge: logs are passed in the order in which they were written, each segment's by one thread at a
 * time, and pages that have no other log are freed.
 */
#include "txn/undo_set_internal.h"

#include "base/check.h"

unsigned undo_segment_count(const struct undo_set *set)
{
    struct undo_set *own = (struct undo_set *)set; /* for its mutex */
    undo_lock(own);
    unsigned count = set->segment_count;
    undo_unlock(own);
    return count;
}

/* Become the owner of a segment's head. No error text. */
static firn_rc claim(struct undo_set *set, unsigned index, struct undo_segment **segment)
{
    firn_rc rc = FIRN_OK;
    undo_lock(set);
    struct undo_segment *found = index < set->segment_count ? set->segments[index] : NULL;
    if (found == NULL)
        rc = FIRN_E_NOT_FOUND;
    else if (found->claimed)
        rc = FIRN_E_BUSY;
    else
        found->claimed = true;
    undo_unlock(set);
    *segment = found;
    return rc;
}

static void unclaim(struct undo_set *set, struct undo_segment *segment)
{
    undo_lock(set);
    ASSERT(segment->claimed);
    segment->claimed = false;
    undo_unlock(set);
}

/* @return a segment that the caller has claimed */
static struct undo_segment *claimed(struct undo_set *set, unsigned index)
{
    undo_lock(set);
    struct undo_segment *segment = set->segments[index];
    undo_unlock(set);
    ENSURE(segment != NULL && segment->claimed);
    return segment;
}

static firn_rc find_finished(struct undo_set *set, struct undo_segment *segment,
                             struct undo_finished *finished)
{
    struct undo_log_head log = {0};
    /* Pairs with undo_mark: most segments have nothing to purge, and that costs no page. */
    if (atomic_load_explicit(&segment->logs, memory_order_acquire) == 0)
        return FIRN_E_NOT_FOUND;
    FIRN_TRY(undo_segment_first(set, segment, &log));
    if (log.state != UNDO_COMMITTED && log.state != UNDO_ROLLED_BACK)
        return FIRN_E_NOT_FOUND;
    segment->end = log.end;
    segment->ended_number = log.number;
    *finished = (struct undo_finished){
        .txn_id = log.txn_id,
        .number = log.number,
        .has_work = log.state == UNDO_COMMITTED && (log.flags & UNDO_FLAG_HAS_WORK) != 0,
        .last = undo_pointer_of(segment->space, log.last),
    };
    return FIRN_OK;
}

firn_rc undo_purge_first(struct undo_set *set, unsigned segment, struct undo_finished *finished)
{
    struct undo_segment *found;
    FIRN_TRY(claim(set, segment, &found));
    firn_rc rc = find_finished(set, found, finished);
    if (rc != FIRN_OK)
        unclaim(set, found);
    return rc;
}

firn_rc undo_purge_done(struct undo_set *set, struct mtr *mtr, unsigned segment)
{
    struct undo_segment *found = claimed(set, segment);
    found->first = found->end;
    if (found->ended_number > found->purged_number)
        found->purged_number = found->ended_number;
    atomic_fetch_sub_explicit(&found->logs, 1, memory_order_relaxed);
    firn_rc rc = undo_segment_free_passed(set, mtr, found);
    unclaim(set, found);
    return rc;
}

void undo_purge_leave(struct undo_set *set, unsigned segment)
{
    unclaim(set, claimed(set, segment));
}

/* ---- Giving back ---- */

/* Take a segment that is claimed out of those that are free, if it is and has nothing in it. */
static bool take_empty(struct undo_set *set, struct undo_segment *segment)
{
    bool taken = false;
    undo_lock(set);
    if (!segment->in_use && segment->head_page == segment->tail_page &&
        atomic_load_explicit(&segment->logs, memory_order_relaxed) == 0) {
        struct undo_segment **link = &set->free;
        while (*link != segment)
            link = &(*link)->next_free;
        *link = segment->next_free;
        segment->in_use = true;
        set->in_use++;
        taken = true;
    }
    undo_unlock(set);
    return taken;
}

/* Free what one segment does not need any more. It is claimed. */
static firn_rc tidy(struct undo_set *set, struct mtr *mtr, struct undo_segment *segment,
                    uint64_t min_bytes)
{
    firn_rc rc = undo_segment_free_passed(set, mtr, segment);
    bool in_the_way = (uint64_t)segment->head_page * set->page_size_bytes >= min_bytes;
    if (rc == FIRN_OK && in_the_way && take_empty(set, segment)) {
        rc = undo_segment_give_up(set, mtr, segment);
        if (rc == FIRN_OK)
            return FIRN_OK; /* there is nothing to unclaim */
        undo_lock(set);
        undo_segment_release(set, segment);
        undo_unlock(set);
    }
    unclaim(set, segment);
    return rc;
}

/* What undo_truncate looks for among all tablespaces. */
struct file_size {
    uint32_t space;
    uint32_t pages;
    uint32_t used;
};

static firn_rc find_size(const struct space_info *info, void *context)
{
    struct file_size *size = context;
    if (info->space == size->space)
        *size = (struct file_size){info->space, info->pages, info->pages_used};
    return FIRN_OK;
}

static firn_rc shrink(struct undo_set *set, struct mtr *mtr, uint32_t space, uint64_t min_bytes,
                      uint64_t *pages)
{
    struct file_size size = {.space = space};
    uint64_t given_back;
    FIRN_TRY(space_each(set->spaces, find_size, &size));
    /* Not a checkpoint for less than an extent. */
    if ((uint64_t)size.pages * set->page_size_bytes <= min_bytes ||
        size.pages - size.used < SPACE_EXTENT_PAGES)
        return FIRN_OK;
    FIRN_TRY(space_shrink(set->spaces, mtr, space, &given_back));
    *pages += given_back;
    return FIRN_OK;
}

firn_rc undo_truncate(struct undo_set *set, struct mtr *mtr, uint64_t min_bytes, uint64_t *pages)
{
    uint64_t given_back = 0;
    for (unsigned i = 0; i < undo_segment_count(set); i++) {
        struct undo_segment *segment;
        if (claim(set, i, &segment) == FIRN_OK)
            FIRN_TRY(tidy(set, mtr, segment, min_bytes));
    }
    for (unsigned i = 0; i < set->space_count; i++)
        FIRN_TRY(shrink(set, mtr, set->tablespaces[i].space, min_bytes, &given_back));
    *pages = given_back;
    return FIRN_OK;
}
