/*
 * Committing the classic way: transactions are prepared, and the redo log is synced; whoever finds
 * nobody at it leads: all groups that wait are written, the file is synced, and the transactions
 * are committed in the order of their groups. After a crash a prepared transaction is committed if
 * the binary log has its group.
 */
#include "binlog/binlog_internal.h"

#include "base/check.h"
#include "base/futex.h"

enum turn_state { TURN_WAITS, TURN_LEADS, TURN_IS_OVER };

struct separate_turn {
    struct separate_turn *next;
    struct binlog_group *group;
    firn_rc (*commit)(void *context);
    void *context;
    firn_rc rc;
    _Atomic uint32_t state;
};

/* ---- One file's part of what waits ---- */

/* Recovery looks into the last file only. So what is in the one before is durably committed first.
 */
static firn_rc settle_before_rotation(struct binlog *binlog)
{
    struct redo *redo = binlog->options.redo;
    return redo_flush(redo, redo_reserved_lsn(redo), REDO_FLUSH_SYNC);
}

/* Lay out groups as long as they go into one file. @param end  set: the first one left over */
static firn_rc lay_out_run(struct binlog *binlog, struct separate_turn *first,
                           struct separate_turn **end)
{
    struct separate_turn *turn = first;
    for (; turn != NULL; turn = turn->next) {
        struct binlog_group *group = turn->group;
        pthread_mutex_lock(&binlog->mutex);
        commit_place(binlog, group);
        pthread_mutex_unlock(&binlog->mutex);
        bool begins_file = group->place.offset == FILE_HEADER_BYTES;
        if (begins_file && turn != first)
            break;
        if (begins_file)
            FIRN_TRY(settle_before_rotation(binlog));
        FIRN_TRY(layout_group(binlog, &group->place,
                              span_of(group->bytes + RECORD_BYTES, group->size_bytes),
                              group->file));
        pthread_mutex_lock(&binlog->mutex);
        commit_advance(binlog, &group->place);
        pthread_mutex_unlock(&binlog->mutex);
    }
    *end = turn;
    return layout_sync(binlog);
}

/* What was written and not synced may be there after a crash or not, and so may be what it is
   about: from here on only the next opening can tell. */
static firn_rc write_run(struct binlog *binlog, struct separate_turn *first,
                         struct separate_turn **end)
{
    if (atomic_load_explicit(&binlog->failed, memory_order_acquire))
        return binlog_raise_failed(binlog);
    lock_take(&binlog->layout_mutex);
    firn_rc rc = lay_out_run(binlog, first, end);
    if (rc != FIRN_OK)
        atomic_store_explicit(&binlog->failed, true, memory_order_release);
    lock_give(&binlog->layout_mutex);
    return rc == FIRN_OK ? rc : FIRN_E_STOPPED;
}

/* ---- Leading ---- */

/* A turn is gone as soon as it is over: it is on its thread's stack. */
static void end_turn(struct separate_turn *turn, firn_rc rc)
{
    turn->rc = rc;
    atomic_store_explicit(&turn->state, TURN_IS_OVER, memory_order_seq_cst);
    futex_wake(&turn->state, 1);
}

static void lead(struct binlog *binlog, struct separate_turn *own)
{
    pthread_mutex_lock(&binlog->turn_mutex);
    struct separate_turn *turn = binlog->turns_first;
    binlog->turns_first = binlog->turns_last = NULL;
    pthread_mutex_unlock(&binlog->turn_mutex);
    while (turn != NULL) {
        struct separate_turn *end = NULL;
        firn_rc rc = write_run(binlog, turn, &end);
        while (turn != end) {
            struct separate_turn *next = turn->next;
            firn_rc commit_rc = rc == FIRN_OK ? turn->commit(turn->context) : rc;
            /* It has been written down and is not committed: nothing may be built upon that. */
            if (commit_rc != FIRN_OK)
                atomic_store_explicit(&binlog->failed, true, memory_order_release);
            if (turn == own)
                own->rc = commit_rc;
            else
                end_turn(turn, commit_rc);
            turn = next;
        }
    }
}

static void hand_over(struct binlog *binlog)
{
    pthread_mutex_lock(&binlog->turn_mutex);
    struct separate_turn *next = binlog->turns_first;
    binlog->is_led = next != NULL;
    pthread_mutex_unlock(&binlog->turn_mutex);
    if (next == NULL)
        return;
    atomic_store_explicit(&next->state, TURN_LEADS, memory_order_seq_cst);
    futex_wake(&next->state, 1);
}

/* @return whether the caller leads */
static bool line_up(struct binlog *binlog, struct separate_turn *turn)
{
    pthread_mutex_lock(&binlog->turn_mutex);
    if (binlog->turns_last != NULL)
        binlog->turns_last->next = turn;
    else
        binlog->turns_first = turn;
    binlog->turns_last = turn;
    bool leads = !binlog->is_led;
    binlog->is_led = true;
    pthread_mutex_unlock(&binlog->turn_mutex);
    return leads;
}

/* @return whether the caller has to lead now */
static bool wait_for_turn(struct separate_turn *turn)
{
    uint32_t state;
    while ((state = atomic_load_explicit(&turn->state, memory_order_seq_cst)) == TURN_WAITS)
        futex_wait(&turn->state, TURN_WAITS);
    return state == TURN_LEADS;
}

firn_rc separate_in_order(void *recording, firn_rc (*commit)(void *context), void *context)
{
    struct binlog_group *group = recording;
    struct binlog *binlog = group->binlog;
    struct separate_turn turn = {.group = group, .commit = commit, .context = context};
    bool leads = line_up(binlog, &turn);
    if (!leads)
        leads = wait_for_turn(&turn);
    if (leads) {
        lead(binlog, &turn);
        hand_over(binlog);
    }
    firn_rc rc = turn.rc;
    /* Whether anybody still needs a file of one that failed, the next opening knows. */
    group_free(group, rc == FIRN_OK);
    return rc == FIRN_E_STOPPED && atomic_load_explicit(&binlog->failed, memory_order_acquire)
               ? binlog_raise_failed(binlog)
               : rc;
}
