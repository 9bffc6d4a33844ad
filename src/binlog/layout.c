/*
 * Laying out: from groups in their order to bytes in files.
 *
 * What a group becomes follows from its place and its events alone, so laying it out once more
 * changes nothing. That is what recovery, and whoever tries again after a failure, relies on.
 */
#include "binlog/binlog_internal.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/park.h"

/* ---- The file ---- */

void layout_close_file(struct binlog *binlog)
{
    if (binlog->file != NULL)
        (void)io_file_close(binlog->file);
    binlog->file = NULL;
    binlog->file_number = 0;
}

static firn_rc open_named(struct binlog *binlog, uint64_t file, unsigned flags,
                          struct io_file **opened)
{
    char name[FILE_NAME_BYTES];
    char *path = binlog_path(binlog->options.directory, file_name(file, name));
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = io_file_open(binlog->options.system, IO_CLASS_BINLOG, path, flags, opened);
    memory_free(path);
    return rc;
}

firn_rc layout_open_file(struct binlog *binlog, uint64_t file)
{
    struct io_file *opened;
    if (binlog->file != NULL && binlog->file_number == file)
        return FIRN_OK;
    ASSERT(binlog->stage.size_bytes == 0 && !binlog->needs_sync);
    FIRN_TRY(open_named(binlog, file, 0, &opened));
    layout_close_file(binlog);
    binlog->file = opened;
    binlog->file_number = file;
    return FIRN_OK;
}

/* ---- Staging ---- */

firn_rc layout_write(struct binlog *binlog)
{
    struct stage *stage = &binlog->stage;
    if (stage->size_bytes == 0)
        return FIRN_OK;
    binlog->needs_sync = true;
    FIRN_TRY(io_write(binlog->file, stage->bytes, stage->size_bytes, stage->offset));
    stage->size_bytes = 0;
    return FIRN_OK;
}

/* Put bytes into the current file at an offset; as a rule that is where the last ones ended. */
static firn_rc stage_bytes(struct binlog *binlog, uint64_t offset, struct span bytes)
{
    struct stage *stage = &binlog->stage;
    if (stage->size_bytes > 0 && (stage->offset + stage->size_bytes != offset ||
                                  stage->size_bytes + bytes.size_bytes > STAGE_BYTES))
        FIRN_TRY(layout_write(binlog));
    if (bytes.size_bytes > STAGE_BYTES) {
        binlog->needs_sync = true;
        return io_write(binlog->file, bytes.bytes, bytes.size_bytes, offset);
    }
    if (stage->size_bytes == 0)
        stage->offset = offset;
    memcpy(stage->bytes + stage->size_bytes, bytes.bytes, bytes.size_bytes);
    stage->size_bytes += bytes.size_bytes;
    return FIRN_OK;
}

/* A failed sync is never tried again: what it was for is only in the redo log from then on. */
static firn_rc sync_file(struct binlog *binlog)
{
    FIRN_TRY(layout_write(binlog));
    if (!binlog->needs_sync)
        return FIRN_OK;
    firn_rc rc = io_sync(binlog->file, IO_SYNC_DATA);
    if (rc != FIRN_OK) {
        atomic_store_explicit(&binlog->failed, true, memory_order_release);
        return rc;
    }
    binlog->needs_sync = false;
    return FIRN_OK;
}

/* ---- Another file ---- */

static firn_rc end_file(struct binlog *binlog, const struct group_place *place)
{
    uint8_t rotate[ROTATE_BYTES];
    if (place->rotate_offset == 0 || place->file - 1 < binlog->first_file)
        return FIRN_OK; /* there was none before, or it is not needed any more */
    FIRN_TRY(layout_open_file(binlog, place->file - 1));
    rotate_put(rotate, place->rotate_offset, place->file);
    FIRN_TRY(stage_bytes(binlog, place->rotate_offset, span_of(rotate, sizeof rotate)));
    return sync_file(binlog);
}

static firn_rc fill_file(struct binlog *binlog, const struct group_place *place)
{
    uint8_t header[FILE_HEADER_BYTES];
    place_header(header, place, binlog->options.environment);
    FIRN_TRY(stage_bytes(binlog, 0, span_of(header, sizeof header)));
    FIRN_TRY(sync_file(binlog));
    FIRN_TRY(index_write(binlog, binlog->first_file == 0 ? place->file : binlog->first_file,
                         place->file));
    binlog->files_written++;
    return index_expire(binlog, place->time_us);
}

/* The file before is whole, and this one has its header, before the index names it. */
static firn_rc make_file(struct binlog *binlog, const struct group_place *place)
{
    struct io_file *made;
    FIRN_TRY(open_named(binlog, place->file, IO_OPEN_CREATE | IO_OPEN_TRUNCATE, &made));
    layout_close_file(binlog);
    binlog->file = made;
    binlog->file_number = place->file;
    firn_rc rc = fill_file(binlog, place);
    if (rc == FIRN_OK)
        return rc;
    /* The next try begins with the file before. */
    binlog->stage.size_bytes = 0;
    binlog->needs_sync = false;
    layout_close_file(binlog);
    return rc;
}

static firn_rc begin_file(struct binlog *binlog, const struct group_place *place)
{
    FIRN_TRY(end_file(binlog, place));
    if (binlog->last_file < place->file)
        return make_file(binlog, place);
    return layout_open_file(binlog, place->file);
}

/* ---- Groups ---- */

static firn_rc stage_inline(struct binlog *binlog, uint64_t offset, struct span events,
                            struct digest *digest)
{
    digest_add(digest, events);
    return stage_bytes(binlog, offset, events);
}

static firn_rc stage_from_file(struct binlog *binlog, uint64_t offset, uint64_t size_bytes,
                               struct io_file *file, struct digest *digest)
{
    enum { PIECE_BYTES = 64 << 10 };
    uint8_t *piece = memory_alloc(PIECE_BYTES);
    firn_rc rc = FIRN_OK;
    if (piece == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to lay out a group of the binary log");
    for (uint64_t done = 0; done < size_bytes && rc == FIRN_OK;) {
        uint64_t rest = size_bytes - done;
        size_t step = rest < PIECE_BYTES ? (size_t)rest : PIECE_BYTES;
        rc = io_read(file, piece, step, done);
        if (rc == FIRN_OK)
            rc = stage_inline(binlog, offset + done, span_of(piece, step), digest);
        done += step;
    }
    memory_free(piece);
    return rc;
}

firn_rc layout_group(struct binlog *binlog, const struct group_place *place, struct span events,
                     struct io_file *events_file)
{
    struct digest digest = {.at = 0};
    uint8_t begin[BEGIN_BYTES], commit[COMMIT_BYTES];
    if (place->offset == FILE_HEADER_BYTES)
        FIRN_TRY(begin_file(binlog, place));
    else
        FIRN_TRY(layout_open_file(binlog, place->file));
    place_begin(begin, place);
    FIRN_TRY(stage_bytes(binlog, place->offset, span_of(begin, sizeof begin)));
    uint64_t offset = place->offset + BEGIN_BYTES;
    FIRN_TRY(events_file == NULL
                 ? stage_inline(binlog, offset, events, &digest)
                 : stage_from_file(binlog, offset, place->events_bytes, events_file, &digest));
    if (!digest_is_whole(&digest))
        return rc_raise(FIRN_E_CORRUPT,
                        "the events of transaction %llu, which are to go into the binary log in "
                        "%s, are damaged",
                        (unsigned long long)place->txn_id, binlog->options.directory);
    place_commit(commit, place, &digest);
    return stage_bytes(binlog, offset + place->events_bytes, span_of(commit, sizeof commit));
}

/* ---- The queue ---- */

static struct binlog_group *next_durable(struct binlog *binlog)
{
    uint64_t durable_lsn = redo_durable_lsn(binlog->options.redo);
    pthread_mutex_lock(&binlog->mutex);
    struct binlog_group *group = binlog->first;
    if (group != NULL && group->end_lsn > durable_lsn)
        group = NULL;
    pthread_mutex_unlock(&binlog->mutex);
    return group;
}

/* Only who has the layout mutex takes groups away, so the first is still the first. */
static void take_first(struct binlog *binlog)
{
    pthread_mutex_lock(&binlog->mutex);
    struct binlog_group *group = binlog->first;
    binlog->first = group->next;
    if (binlog->first == NULL)
        binlog->last = NULL;
    binlog->queued_bytes -= group->size_bytes;
    pthread_mutex_unlock(&binlog->mutex);
    if (binlog->unsynced_lsn == 0)
        binlog->unsynced_lsn = group->hold_lsn;
    if (group->file == NULL) {
        group_free(group, true);
        return;
    }
    group->next = binlog->leftover;
    binlog->leftover = group;
}

/* What is durable in the redo log, and nothing else: after a crash the files would have groups of
   transactions that never were. */
firn_rc layout_durable(struct binlog *binlog)
{
    struct binlog_group *group;
    if (atomic_load_explicit(&binlog->failed, memory_order_acquire))
        return binlog_raise_failed(binlog);
    while ((group = next_durable(binlog)) != NULL) {
        FIRN_TRY(layout_group(binlog, &group->place,
                              span_of(group->bytes + RECORD_BYTES, group->size_bytes),
                              group->file));
        take_first(binlog);
    }
    return layout_write(binlog);
}

/* ---- Syncs ---- */

/* What has been synced is held no longer; what is queued, is: the new hold comes before the old
   one goes. */
static void move_hold(struct binlog *binlog)
{
    struct redo *redo = binlog->options.redo;
    pthread_mutex_lock(&binlog->mutex);
    if (binlog->is_held) {
        struct redo_hold *old = &binlog->holds[binlog->hold];
        uint64_t next_lsn = binlog->first != NULL ? binlog->first->hold_lsn : binlog->noted_lsn;
        binlog->is_held = next_lsn != 0;
        if (binlog->is_held) {
            binlog->hold = 1 - binlog->hold;
            binlog->holds[binlog->hold].lsn = next_lsn;
            redo_hold(redo, &binlog->holds[binlog->hold]);
        }
        redo_release(redo, old);
    }
    pthread_mutex_unlock(&binlog->mutex);
}

static void remove_leftover(struct binlog *binlog)
{
    while (binlog->leftover != NULL) {
        struct binlog_group *group = binlog->leftover;
        binlog->leftover = group->next;
        group_free(group, true);
    }
}

firn_rc layout_sync(struct binlog *binlog)
{
    if (atomic_load_explicit(&binlog->failed, memory_order_acquire))
        return binlog_raise_failed(binlog);
    FIRN_TRY(sync_file(binlog));
    binlog->synced_ns = clock_now(io_system_clock(binlog->options.system));
    binlog->unsynced_lsn = 0;
    move_hold(binlog);
    remove_leftover(binlog);
    return FIRN_OK;
}

static bool sync_is_due(struct binlog *binlog)
{
    struct redo *redo = binlog->options.redo;
    uint64_t now_ns = clock_now(io_system_clock(binlog->options.system));
    if (binlog->unsynced_lsn == 0)
        return false;
    return now_ns - binlog->synced_ns >= SYNC_INTERVAL_MS * NS_PER_MS ||
           redo_reserved_lsn(redo) - binlog->unsynced_lsn >= redo_capacity_bytes(redo) / SYNC_SHARE;
}

firn_rc binlog_tick(struct binlog *binlog)
{
    if (binlog == NULL)
        return FIRN_OK;
    lock_take(&binlog->layout_mutex);
    firn_rc rc = layout_durable(binlog);
    if (rc == FIRN_OK && sync_is_due(binlog))
        rc = layout_sync(binlog);
    lock_give(&binlog->layout_mutex);
    return rc;
}

static uint64_t queued_lsn(struct binlog *binlog)
{
    pthread_mutex_lock(&binlog->mutex);
    uint64_t lsn = binlog->last != NULL ? binlog->last->end_lsn : 0;
    pthread_mutex_unlock(&binlog->mutex);
    return lsn;
}

firn_rc binlog_flush(struct binlog *binlog)
{
    if (binlog == NULL)
        return FIRN_OK;
    uint64_t lsn = queued_lsn(binlog);
    if (lsn != 0)
        FIRN_TRY(redo_flush(binlog->options.redo, lsn, REDO_FLUSH_SYNC));
    lock_take(&binlog->layout_mutex);
    firn_rc rc = layout_durable(binlog);
    if (rc == FIRN_OK && binlog->unsynced_lsn != 0)
        rc = layout_sync(binlog);
    lock_give(&binlog->layout_mutex);
    return rc;
}
