/*
 * Committing together: a group gets its place while nobody else can commit, and is queued to be
 * laid out.
 */
#include "binlog/binlog_internal.h"

#include "base/check.h"
#include "mtr/mtr.h"

#include <time.h>

/* ---- Places ---- */

static uint64_t now_us(const struct binlog *binlog)
{
    struct timespec now;
    if (binlog->options.time_us != NULL)
        return binlog->options.time_us();
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* A group begins a new file where it would go beyond the limit; a file has one group at least. */
static bool begins_file(const struct binlog *binlog, const struct group_place *place)
{
    const struct tail *tail = &binlog->tail;
    if (tail->file == 0)
        return true;
    return tail->offset > FILE_HEADER_BYTES &&
           (tail->wants_rotation ||
            tail->offset + GROUP_FRAME_BYTES + place->events_bytes > binlog->options.max_bytes);
}

void commit_place(struct binlog *binlog, struct binlog_group *group)
{
    const struct tail *tail = &binlog->tail;
    struct group_place *place = &group->place;
    place->file = tail->file;
    place->offset = tail->offset;
    place->rotate_offset = 0;
    place->number = tail->last_number + 1;
    /* Times ascend, so that a time says a place; clocks may be set back. */
    if (place->time_us < tail->last_time_us)
        place->time_us = tail->last_time_us;
    if (begins_file(binlog, place)) {
        place->file = tail->file + 1;
        place->offset = FILE_HEADER_BYTES;
        place->rotate_offset = tail->file == 0 ? 0 : tail->offset;
    }
}

void commit_advance(struct binlog *binlog, const struct group_place *place)
{
    struct tail *tail = &binlog->tail;
    if (place->file != tail->file)
        tail->wants_rotation = false;
    tail->file = place->file;
    tail->offset = group_end(place);
    tail->last_number = place->number;
    tail->last_time_us = place->time_us;
    binlog->groups++;
    binlog->group_bytes += GROUP_FRAME_BYTES + place->events_bytes;
    binlog->spilled += place->kind == RECORD_FILE;
}

/* ---- Committing ---- */

firn_rc binlog_raise_failed(const struct binlog *binlog)
{
    return rc_raise(FIRN_E_STOPPED,
                    "the binary log in %s could not be synced, so nothing is committed any more: "
                    "see to the device, then close the environment and open it again",
                    binlog->options.directory);
}

static uint64_t queued_bytes(struct binlog *binlog)
{
    pthread_mutex_lock(&binlog->mutex);
    uint64_t bytes = binlog->queued_bytes;
    pthread_mutex_unlock(&binlog->mutex);
    return bytes;
}

/* Groups come faster than they are laid out: whoever brings more helps. */
static firn_rc make_room(struct binlog *binlog)
{
    if (queued_bytes(binlog) <= QUEUED_MAX_BYTES)
        return FIRN_OK;
    FIRN_TRY(binlog_tick(binlog));
    return queued_bytes(binlog) <= QUEUED_MAX_BYTES ? FIRN_OK : binlog_flush(binlog);
}

static firn_rc begin_commit(void *recording, size_t *log_bytes)
{
    struct binlog_group *group = recording;
    struct binlog *binlog = group->binlog;
    *log_bytes = 0;
    group_rewind(group, group->kept_bytes);
    if (group->kept_bytes == 0)
        return FIRN_OK;
    if (atomic_load_explicit(&binlog->failed, memory_order_acquire))
        return binlog_raise_failed(binlog);
    FIRN_TRY(make_room(binlog));
    bool is_large = group->file != NULL || group->size_bytes > BINLOG_CACHE_MAX_BYTES;
    if (is_large)
        FIRN_TRY(binlog->options.is_separate ? group_spill(group) : group_make_durable(group));
    group->place = (struct group_place){.kind = is_large ? RECORD_FILE : RECORD_INLINE,
                                        .server_id = binlog->options.server_id,
                                        .time_us = now_us(binlog),
                                        .txn_id = group->txn_id,
                                        .events_bytes = group_events_bytes(group)};
    *log_bytes = mtr_cost(RECORD_BYTES + group->size_bytes);
    return FIRN_OK;
}

/* The record's place in the log is not known yet; it is not before what is reserved now. While
   there is no hold no checkpoint goes beyond that, either. */
static void hold_log(struct binlog *binlog, struct binlog_group *group)
{
    group->hold_lsn = redo_reserved_lsn(binlog->options.redo);
    binlog->noted_lsn = group->hold_lsn;
    if (binlog->is_held)
        return;
    binlog->holds[binlog->hold].lsn = group->hold_lsn;
    redo_hold(binlog->options.redo, &binlog->holds[binlog->hold]);
    binlog->is_held = true;
}

static void note(void *recording, struct mtr *mtr)
{
    struct binlog_group *group = recording;
    struct binlog *binlog = group->binlog;
    pthread_mutex_lock(&binlog->mutex);
    commit_place(binlog, group);
    hold_log(binlog, group);
    pthread_mutex_unlock(&binlog->mutex);
    record_put(group->bytes, &group->place);
    mtr_note(mtr, CHANGE_BINLOG, 0, span_of(group->bytes, RECORD_BYTES + group->size_bytes));
}

static void end_commit(void *recording, bool is_committed, uint64_t end_lsn)
{
    struct binlog_group *group = recording;
    struct binlog *binlog = group->binlog;
    pthread_mutex_lock(&binlog->mutex);
    binlog->noted_lsn = 0;
    if (!is_committed) { /* the log has stopped; a hold may stay, and so may a file, which the next
                            opening knows whether anybody needs */
        pthread_mutex_unlock(&binlog->mutex);
        group_free(group, false);
        return;
    }
    commit_advance(binlog, &group->place);
    group->end_lsn = end_lsn;
    group->next = NULL;
    if (binlog->last != NULL)
        binlog->last->next = group;
    else
        binlog->first = group;
    binlog->last = group;
    binlog->queued_bytes += group->size_bytes;
    pthread_mutex_unlock(&binlog->mutex);
}

void commit_fill_recorder(struct txn_recorder *recorder)
{
    recorder->begin_commit = begin_commit;
    recorder->note = note;
    recorder->end_commit = end_commit;
}
