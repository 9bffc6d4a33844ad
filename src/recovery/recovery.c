#include "recovery/recovery_internal.h"

#include "base/check.h"
#include "base/clock.h"

#include <string.h>

#define PROGRESS_INTERVAL_NS (100 * NS_PER_MS)

struct recovery {
    const struct recovery_options *options;
    struct recovery_result result;
    struct workers workers;
    struct torn_pages torn;
    struct batch batch;
    uint64_t batch_limit_bytes;
    uint64_t from_lsn;
    const char *phase;
    uint64_t done_bytes;
    uint64_t total_bytes;
    uint64_t told_ns; /* when progress was told last */
};

/* ---- Progress ---- */

static void tell(struct recovery *recovery)
{
    if (recovery->options->progress == NULL)
        return;
    struct recovery_progress progress = {
        .phase = recovery->phase,
        .done_bytes = recovery->done_bytes,
        .total_bytes = recovery->total_bytes > recovery->done_bytes ? recovery->total_bytes
                                                                    : recovery->done_bytes,
    };
    recovery->options->progress(&progress, recovery->options->progress_context);
    recovery->told_ns = clock_now(clock_real());
}

static void tell_now_and_then(void *context)
{
    struct recovery *recovery = context;
    if (recovery->options->progress != NULL &&
        clock_now(clock_real()) - recovery->told_ns >= PROGRESS_INTERVAL_NS)
        tell(recovery);
}

static void enter_phase(struct recovery *recovery, const char *phase)
{
    recovery->phase = phase;
    tell(recovery);
}

/* ---- Records ---- */

/* Have what has been gathered applied. Each batch goes through the files the other way: what the
   last one ended with is still in the pool. */
static firn_rc apply_batch(struct recovery *recovery)
{
    workers_give(&recovery->workers, &recovery->batch);
    FIRN_TRY(workers_wait(&recovery->workers, tell_now_and_then, recovery));
    batch_clear(&recovery->batch);
    recovery->batch.downward = !recovery->batch.downward;
    return FIRN_OK;
}

static firn_rc take_record(struct recovery *recovery, const struct change *change, uint64_t end_lsn)
{
    recovery->result.records++;
    if (change->op < CHANGE_PAGE_LAST)
        return batch_add(&recovery->batch, change, end_lsn);
    if (change->op == CHANGE_BINLOG)
        return recovery->options->binlog == NULL
                   ? FIRN_OK
                   : recovery->options->binlog(change, recovery->options->binlog_context);
    /* Records that wait for a tablespace that goes find it gone later. */
    return space_redo(recovery->options->spaces, change, end_lsn);
}

static firn_rc take_frame(struct recovery *recovery, struct span body, uint64_t end_lsn)
{
    struct change change;
    firn_rc rc;
    recovery->result.frames++;
    while ((rc = change_next(&body, &change)) == FIRN_OK)
        FIRN_TRY(take_record(recovery, &change, end_lsn));
    if (rc != FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "the log's frame that ends at LSN %llu is whole, but this program cannot "
                        "read what is in it",
                        (unsigned long long)end_lsn);
    /* Never within a frame: of its records a page gets all or none at a time. */
    if (recovery->batch.charged_bytes >= recovery->batch_limit_bytes)
        FIRN_TRY(apply_batch(recovery));
    return FIRN_OK;
}

static firn_rc repeat_log(struct recovery *recovery, struct redo_reader *reader)
{
    struct span body;
    uint64_t lsn, end_lsn;
    firn_rc rc;
    recovery->total_bytes = redo_reader_bytes_ahead(reader);
    enter_phase(recovery, "applying");
    while ((rc = redo_reader_next(reader, &body, &lsn, &end_lsn)) == FIRN_OK) {
        /* Without anything to repeat, all had been synced. */
        if (recovery->result.frames == 0)
            FIRN_TRY(space_sync(recovery->options->spaces));
        FIRN_TRY(take_frame(recovery, body, end_lsn));
        recovery->result.end_lsn = end_lsn;
        recovery->done_bytes = end_lsn - recovery->from_lsn;
        if ((recovery->result.frames & 1023) == 0)
            tell_now_and_then(recovery);
    }
    if (rc != FIRN_E_NOT_FOUND)
        return rc;
    return apply_batch(recovery);
}

/* ---- The whole ---- */

/* A page that is newer than the log has lost its log, or is not of this environment. */
static firn_rc check_not_ahead(const struct recovery *recovery)
{
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        const struct applier *applier = &recovery->workers.appliers[i];
        if (applier->newest_lsn > recovery->result.end_lsn)
            return rc_raise(FIRN_E_CORRUPT,
                            "page %u of tablespace %u was changed at LSN %llu, but the log ends "
                            "at %llu: the log's files are older than the tables; restore a backup",
                            page_id_number(applier->newest_page_id),
                            page_id_space(applier->newest_page_id),
                            (unsigned long long)applier->newest_lsn,
                            (unsigned long long)recovery->result.end_lsn);
    }
    return FIRN_OK;
}

static void sum_up(struct recovery *recovery)
{
    struct recovery_result *result = &recovery->result;
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        result->records_applied += recovery->workers.appliers[i].records_applied;
        result->pages += recovery->workers.appliers[i].pages_changed;
    }
    result->log_bytes = result->end_lsn - recovery->from_lsn;
    result->was_clean = result->frames == 0;
}

/* Small chunks waste less of a little memory, large ones cost less. */
static void settle_memory(struct recovery *recovery)
{
    const struct recovery_options *options = recovery->options;
    unsigned parts = options->threads > 1 ? 2 * options->threads : 1;
    if (parts > PARTS_MAX)
        parts = PARTS_MAX;
    uint64_t limit = options->memory_bytes;
    recovery->batch_limit_bytes = limit > BATCH_MIN_BYTES ? limit : BATCH_MIN_BYTES;
    uint64_t chunk = recovery->batch_limit_bytes / (8 * parts);
    chunk = chunk < CHUNK_MIN_BYTES ? CHUNK_MIN_BYTES : chunk;
    chunk = chunk > CHUNK_MAX_BYTES ? CHUNK_MAX_BYTES : chunk;
    recovery->batch.part_count = parts;
    recovery->batch.chunk_bytes = (size_t)chunk;
}

static firn_rc run(struct recovery *recovery)
{
    const struct recovery_options *options = recovery->options;
    struct redo_reader *reader;
    enter_phase(recovery, "doublewrite");
    FIRN_TRY(buffer_doublewrite_repair(options->pool, &recovery->result.pages_repaired));
    enter_phase(recovery, "reading the log");
    FIRN_TRY(redo_reader_open(options->redo, recovery->from_lsn, &reader));
    firn_rc rc = repeat_log(recovery, reader);
    redo_reader_close(reader);
    FIRN_TRY(rc);
    FIRN_TRY(torn_raise(&recovery->torn, options->spaces));
    FIRN_TRY(check_not_ahead(recovery));
    sum_up(recovery);
    redo_repeated(options->redo, recovery->result.end_lsn);
    return FIRN_OK;
}

firn_rc recovery_run(const struct recovery_options *options, struct recovery_result *result)
{
    uint64_t from_lsn = redo_checkpoint_lsn(options->redo);
    struct recovery recovery = {
        .options = options,
        .from_lsn = from_lsn,
        .result = {.end_lsn = from_lsn},
    };
    settle_memory(&recovery);
    torn_init(&recovery.torn);
    firn_rc rc = workers_open(&recovery.workers, options, from_lsn, &recovery.torn);
    if (rc == FIRN_OK) {
        rc = run(&recovery);
        workers_close(&recovery.workers);
        batch_free(&recovery.batch);
        tell(&recovery);
    }
    torn_free(&recovery.torn);
    if (rc == FIRN_OK)
        *result = recovery.result;
    return rc;
}
