/*
 * The binary log of an environment: opening, what a crash left to decide, the thread, closing.
 */
#include "binlog/binlog_internal.h"

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/park.h"

#include <errno.h>
#include <string.h>
#include <time.h>

void binlog_options_init(struct binlog_options *options)
{
    *options = (struct binlog_options){.server_id = 1,
                                       .max_bytes = UINT64_C(1) << 30,
                                       .cache_bytes = 256 << 10,
                                       .expire_s = 30 * 24 * 3600,
                                       .thread = true};
}

/* ---- Opening ---- */

static void fill_recorder(struct binlog *binlog)
{
    group_fill_recorder(&binlog->recorder);
    commit_fill_recorder(&binlog->recorder);
    if (binlog->options.is_separate)
        binlog->recorder.in_order = separate_in_order;
    binlog->recorder.context = binlog;
}

firn_rc binlog_open(const struct binlog_options *options, struct binlog **binlog)
{
    struct binlog *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the binary log");
    made->options = *options;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_mutex_init(&made->layout_mutex, NULL);
    pthread_mutex_init(&made->turn_mutex, NULL);
    pthread_mutex_init(&made->thread_mutex, NULL);
    pthread_cond_init(&made->thread_wake, NULL);
    fill_recorder(made);
    firn_rc rc = FIRN_OK;
    made->stage.bytes = memory_alloc(STAGE_BYTES);
    if (made->stage.bytes == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "no memory for the binary log");
    if (rc == FIRN_OK)
        rc = index_load(options->system, options->directory, &made->first_file, &made->last_file);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND) {
        binlog_close(made);
        return rc;
    }
    *binlog = made;
    return FIRN_OK;
}

const struct txn_recorder *binlog_recorder(struct binlog *binlog)
{
    return binlog != NULL && binlog->options.records ? &binlog->recorder : NULL;
}

/* ---- What a crash left prepared ---- */

struct prepared {
    uint64_t *ids;
    struct span *xids; /* copies */
    uint8_t (*names)[TXN_XID_MAX];
    bool *found; /* in the binary log */
    size_t count;
    size_t capacity;
};

static firn_rc count_prepared(struct span xid, uint64_t id, void *context)
{
    struct prepared *list = context;
    (void)xid;
    (void)id;
    list->capacity++;
    return FIRN_OK;
}

static firn_rc take_prepared(struct span xid, uint64_t id, void *context)
{
    struct prepared *list = context;
    size_t i = list->count++;
    list->ids[i] = id;
    memcpy(list->names[i], xid.bytes, xid.size_bytes);
    list->xids[i] = span_of(list->names[i], xid.size_bytes);
    return FIRN_OK;
}

static void prepared_free(struct prepared *list)
{
    memory_free(list->ids);
    memory_free(list->xids);
    memory_free(list->names);
    memory_free(list->found);
}

/* Nobody else has a session yet, so there are no more of them the second time. */
static firn_rc list_prepared(struct txn_set *transactions, struct prepared *list)
{
    *list = (struct prepared){.count = 0};
    FIRN_TRY(txn_each_prepared(transactions, count_prepared, list));
    list->ids = memory_alloc((list->capacity + 1) * sizeof *list->ids);
    list->xids = memory_alloc((list->capacity + 1) * sizeof *list->xids);
    list->names = memory_alloc((list->capacity + 1) * sizeof *list->names);
    list->found = memory_zalloc(list->capacity + 1, sizeof *list->found);
    firn_rc rc = FIRN_OK;
    if (list->ids == NULL || list->xids == NULL || list->names == NULL || list->found == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "no memory for the list of prepared transactions");
    if (rc == FIRN_OK)
        rc = txn_each_prepared(transactions, take_prepared, list);
    if (rc != FIRN_OK)
        prepared_free(list);
    return rc;
}

/* What the binary log has is committed; what only it knows and has not, is rolled back; what a user
   has prepared waits for him. */
static firn_rc decide_prepared(struct txn_set *transactions, const struct prepared *list)
{
    struct txn_session *session;
    FIRN_TRY(txn_session_open(transactions, &session));
    firn_rc rc = FIRN_OK;
    for (size_t i = 0; i < list->count && rc == FIRN_OK; i++) {
        if (list->found[i])
            rc = txn_commit_recorded(session, list->xids[i]);
        else if (txn_xid_is_own(list->xids[i]))
            rc = txn_rollback_prepared(session, list->xids[i]);
    }
    txn_session_close(session);
    return rc;
}

static bool is_prepared(const struct prepared *list, uint64_t txn_id)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->ids[i] == txn_id)
            return !list->found[i];
    return false;
}

/* Files of events that nobody will commit, and files that the index does not name any more. */
static firn_rc remove_stray(struct binlog *binlog, const char *name, void *context)
{
    uint64_t file = file_number_of(name);
    uint64_t txn_id = group_file_txn(name);
    bool is_stray =
        (file != 0 && file < binlog->first_file) || (txn_id != 0 && !is_prepared(context, txn_id));
    if (!is_stray)
        return FIRN_OK;
    char *path = binlog_path(binlog->options.directory, name);
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = io_remove(binlog->options.system, path);
    memory_free(path);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static firn_rc settle_prepared(struct binlog *binlog, struct txn_set *transactions)
{
    struct prepared list;
    FIRN_TRY(list_prepared(transactions, &list));
    firn_rc rc = recover_end(binlog, list.count > 0);
    if (rc == FIRN_OK)
        rc = recover_find(binlog, list.ids, list.count, list.found);
    if (rc == FIRN_OK)
        rc = decide_prepared(transactions, &list);
    if (rc == FIRN_OK && binlog->options.records)
        rc = index_each_entry(binlog, remove_stray, &list);
    prepared_free(&list);
    return rc;
}

/* ---- The thread ---- */

static struct timespec next_look(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LAY_OUT_INTERVAL_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    return until;
}

/* Whoever has no room in the log because of it hears of a failure; here it is told once. */
static void *lay_out(void *context)
{
    struct binlog *binlog = context;
    bool was_right = true;
    pthread_mutex_lock(&binlog->thread_mutex);
    while (!binlog->thread_stops) {
        struct timespec until = next_look();
        pthread_cond_timedwait(&binlog->thread_wake, &binlog->thread_mutex, &until);
        if (binlog->thread_stops)
            break;
        pthread_mutex_unlock(&binlog->thread_mutex);
        bool is_right = binlog_tick(binlog) == FIRN_OK;
        if (was_right && !is_right)
            log_warning("the binary log waits to be laid out: %s", firn_error_text());
        was_right = is_right;
        pthread_mutex_lock(&binlog->thread_mutex);
    }
    pthread_mutex_unlock(&binlog->thread_mutex);
    return NULL;
}

static void stop_thread(struct binlog *binlog)
{
    if (!binlog->thread_runs)
        return;
    pthread_mutex_lock(&binlog->thread_mutex);
    binlog->thread_stops = true;
    pthread_cond_signal(&binlog->thread_wake);
    pthread_mutex_unlock(&binlog->thread_mutex);
    pthread_join(binlog->thread, NULL);
    binlog->thread_runs = false;
}

firn_rc binlog_begin(struct binlog *binlog, struct txn_set *transactions)
{
    const struct binlog_options *options = &binlog->options;
    binlog->synced_ns = clock_now(io_system_clock(options->system));
    FIRN_TRY(settle_prepared(binlog, transactions));
    if (!options->thread || !options->records || options->is_separate)
        return FIRN_OK;
    int error = pthread_create(&binlog->thread, NULL, lay_out, binlog);
    if (error != 0)
        return rc_raise_errno(error, "cannot start the thread of the binary log");
    binlog->thread_runs = true;
    return FIRN_OK;
}

/* ---- Closing ---- */

void binlog_close(struct binlog *binlog)
{
    if (binlog == NULL)
        return;
    stop_thread(binlog);
    if (binlog->is_held)
        redo_release(binlog->options.redo, &binlog->holds[binlog->hold]);
    while (binlog->first != NULL) {
        struct binlog_group *group = binlog->first;
        binlog->first = group->next;
        group_free(group, false);
    }
    while (binlog->leftover != NULL) {
        struct binlog_group *group = binlog->leftover;
        binlog->leftover = group->next;
        group_free(group, false);
    }
    group_free_spares(binlog);
    layout_close_file(binlog);
    memory_free(binlog->stage.bytes);
    pthread_mutex_destroy(&binlog->mutex);
    pthread_mutex_destroy(&binlog->layout_mutex);
    pthread_mutex_destroy(&binlog->turn_mutex);
    pthread_mutex_destroy(&binlog->thread_mutex);
    pthread_cond_destroy(&binlog->thread_wake);
    memory_free(binlog);
}

/* ---- For people ---- */

void binlog_rotate(struct binlog *binlog)
{
    pthread_mutex_lock(&binlog->mutex);
    binlog->tail.wants_rotation = true;
    pthread_mutex_unlock(&binlog->mutex);
}

firn_rc binlog_purge(struct binlog *binlog, uint64_t file)
{
    firn_rc rc;
    lock_take(&binlog->layout_mutex);
    if (file > binlog->last_file)
        rc = rc_raise(FIRN_E_INVALID,
                      "the binary log in %s has files up to %llu, so those before %llu cannot be "
                      "removed",
                      binlog->options.directory, (unsigned long long)binlog->last_file,
                      (unsigned long long)file);
    else
        rc = index_purge(binlog, file);
    lock_give(&binlog->layout_mutex);
    return rc;
}

uint64_t binlog_last_number(struct binlog *binlog)
{
    pthread_mutex_lock(&binlog->mutex);
    uint64_t number = binlog->tail.last_number;
    pthread_mutex_unlock(&binlog->mutex);
    return number;
}

void binlog_counters(struct binlog *binlog, struct binlog_counters *counters)
{
    lock_take(&binlog->layout_mutex);
    uint64_t files_written = binlog->files_written;
    lock_give(&binlog->layout_mutex);
    pthread_mutex_lock(&binlog->mutex);
    *counters = (struct binlog_counters){.groups = binlog->groups,
                                         .bytes = binlog->group_bytes,
                                         .files_written = files_written,
                                         .spilled = binlog->spilled,
                                         .file = binlog->tail.file,
                                         .position = binlog->tail.offset};
    pthread_mutex_unlock(&binlog->mutex);
}
