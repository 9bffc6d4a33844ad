#include "redo/redo_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

/* ---- Opening and closing ---- */

static firn_rc open_memory(struct redo *redo)
{
    redo->buffer_size_bytes = redo_buffer_bytes(redo->options.buffer_size_bytes);
    redo->directory = memory_copy_text(redo->options.directory);
    redo->buffer = memory_alloc_aligned(redo->buffer_size_bytes, REDO_BLOCK_BYTES);
    redo->stage = memory_alloc_aligned(REDO_STAGE_BYTES, REDO_BLOCK_BYTES);
    if (redo->directory == NULL || redo->buffer == NULL || redo->stage == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a log buffer of %llu bytes",
                        (unsigned long long)redo->buffer_size_bytes);
    redo->options.directory = redo->directory;
    memset(redo->buffer, 0, redo->buffer_size_bytes);
    return FIRN_OK;
}

static firn_rc give_back(struct redo *redo)
{
    firn_rc rc = redo_files_close(redo->files);
    pthread_cond_destroy(&redo->thread_wakes);
    pthread_mutex_destroy(&redo->limit_mutex);
    pthread_mutex_destroy(&redo->mutex);
    memory_free(redo->stage);
    memory_free(redo->buffer);
    memory_free(redo->directory);
    memory_free(redo);
    return rc;
}

firn_rc redo_open(const struct redo_options *options, struct redo **redo)
{
    FIRN_TRY(redo_check_options(options));
    struct redo *made = memory_alloc_aligned(sizeof(*made), alignof(struct redo));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to open the log");
    memset(made, 0, sizeof(*made));
    made->options = *options;
    made->clock = io_system_clock(options->system);
    pthread_mutex_init(&made->mutex, NULL);
    pthread_mutex_init(&made->limit_mutex, NULL);
    pthread_cond_init(&made->thread_wakes, NULL);
    atomic_init(&made->reserved_lsn, UINT64_MAX);
    atomic_init(&made->limit_lsn, UINT64_MAX);
    atomic_init(&made->repeated_lsn, UINT64_MAX);
    firn_rc rc;
    FIRN_TRY_GOTO(open_memory(made), failed);
    FIRN_TRY_GOTO(redo_files_open(made), failed);
    FIRN_TRY_GOTO(redo_checkpoint_read(made), failed);
    atomic_init(&made->checkpoint_lsn, made->checkpoint.lsn);
    atomic_init(&made->free_lsn, made->checkpoint.lsn);
    atomic_init(&made->durable_lsn, made->checkpoint.lsn);
    *redo = made;
    return FIRN_OK;
failed:
    (void)give_back(made);
    return rc;
}

/* ---- The flush thread ---- */

static void *flush_thread(void *context)
{
    struct redo *redo = context;
    pthread_mutex_lock(&redo->mutex);
    while (!redo->thread_stops) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&redo->thread_wakes, &redo->mutex, &until);
        if (redo->thread_stops)
            break;
        pthread_mutex_unlock(&redo->mutex);
        /* Whoever commits next hears of a failure. */
        (void)redo_tick(redo);
        pthread_mutex_lock(&redo->mutex);
    }
    pthread_mutex_unlock(&redo->mutex);
    return NULL;
}

static firn_rc start_thread(struct redo *redo)
{
    if (!redo->options.flush_thread)
        return FIRN_OK;
    int error = pthread_create(&redo->thread, NULL, flush_thread, redo);
    if (error != 0)
        return rc_raise_errno(error, "cannot start the log's flush thread");
    redo->has_thread = true;
    return FIRN_OK;
}

firn_rc redo_close(struct redo *redo)
{
    if (redo == NULL)
        return FIRN_OK;
    if (redo->has_thread) {
        pthread_mutex_lock(&redo->mutex);
        redo->thread_stops = true;
        pthread_cond_signal(&redo->thread_wakes);
        pthread_mutex_unlock(&redo->mutex);
        pthread_join(redo->thread, NULL);
    }
    return give_back(redo);
}

/* ---- From reading to appending ---- */

void redo_repeated(struct redo *redo, uint64_t end_lsn)
{
    atomic_store_explicit(&redo->repeated_lsn, end_lsn, memory_order_relaxed);
}

uint64_t redo_page_limit(const struct redo *redo)
{
    uint64_t reserved_lsn = redo_reserved_lsn(redo);
    return reserved_lsn != UINT64_MAX
               ? reserved_lsn
               : atomic_load_explicit(&redo->repeated_lsn, memory_order_relaxed);
}

/* Read on to the end, for callers that did not. */
static firn_rc find_end(struct redo *redo)
{
    struct redo_reader *reader;
    struct span body;
    uint64_t lsn, end_lsn;
    FIRN_TRY(redo_reader_open(redo, redo->checkpoint.lsn, &reader));
    firn_rc rc = FIRN_OK;
    while (rc == FIRN_OK)
        rc = redo_reader_next(reader, &body, &lsn, &end_lsn);
    redo_reader_close(reader);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* The block that appending begins in keeps what is in it. */
static firn_rc load_last_block(struct redo *redo)
{
    uint64_t begin = redo_block_floor(redo->end_lsn);
    uint64_t used = redo->end_lsn - begin;
    if (used == 0)
        return FIRN_OK;
    struct redo_piece piece = redo_locate(&redo->layout, begin, REDO_BLOCK_BYTES);
    FIRN_TRY(io_read(redo->files[piece.file], redo->stage, REDO_BLOCK_BYTES, piece.offset));
    memcpy(redo->buffer + begin % redo->buffer_size_bytes, redo->stage, used);
    return FIRN_OK;
}

static void begin_at_end(struct redo *redo)
{
    redo->start_lsn = redo->end_lsn;
    redo->sealed_epoch = redo->end_epoch;
    redo->epoch = redo->end_epoch + 1;
    redo->published_lsn = redo->end_lsn;
    atomic_store(&redo->kept_lsn, redo_block_floor(redo->end_lsn));
    atomic_store(&redo->written_lsn, redo->end_lsn);
    atomic_store(&redo->reserved_lsn, redo->end_lsn);
    /* Before it was read it was made durable (reader.c). */
    atomic_store(&redo->durable_lsn, redo->end_lsn);
}

/* The first frame of this life begins a new epoch. It is durable, as all that it follows, before
   any frame of that epoch is appended. */
static firn_rc append_control(struct redo *redo)
{
    uint8_t body[REDO_CONTROL_BYTES];
    struct redo_control control = {
        .epoch = redo->epoch,
        .in_flight_bytes = redo_in_flight_bytes(redo->options.buffer_size_bytes),
    };
    redo_put_control(body, &control);
    FIRN_TRY(redo_append_frame(redo, span_of(body, sizeof(body)), true, redo->sealed_epoch,
                               &redo->run_lsn));
    return redo_await(redo, REDO_GOAL_DURABLE, redo->run_lsn);
}

firn_rc redo_recovered(struct redo *redo, uint64_t end_lsn)
{
    ASSERT(atomic_load(&redo->reserved_lsn) == UINT64_MAX);
    if (!redo->end_is_known)
        FIRN_TRY(find_end(redo));
    if (end_lsn != redo->last_body_end)
        return rc_raise(FIRN_E_MISUSE, "the log ends at LSN %llu, not at %llu",
                        (unsigned long long)redo->last_body_end, (unsigned long long)end_lsn);
    FIRN_TRY(load_last_block(redo));
    FIRN_TRY(redo_files_finish(redo));
    FIRN_TRY(redo_checkpoint_repair(redo));
    begin_at_end(redo);
    firn_rc rc = append_control(redo);
    if (rc == FIRN_OK)
        rc = start_thread(redo);
    if (rc != FIRN_OK)
        atomic_store(&redo->reserved_lsn, UINT64_MAX);
    return rc;
}

/* ---- Another ring ---- */

bool redo_is_clean(const struct redo *redo)
{
    return redo->end_is_known && redo->end_lsn == redo->checkpoint.lsn;
}

static firn_rc check_is_clean(struct redo *redo)
{
    if (!redo->end_is_known)
        FIRN_TRY(find_end(redo));
    if (redo_is_clean(redo))
        return FIRN_OK;
    return rc_raise(FIRN_E_BUSY,
                    "the log in %s cannot be given other files: it was not closed cleanly; open it "
                    "with its old log_file_size and log_files, and close it",
                    redo->directory);
}

static firn_rc replace(struct redo *redo, const struct redo_options *options)
{
    struct redo_layout layout = {.number = redo->layout.number + 1,
                                 .origin_lsn = redo_block_floor(redo->checkpoint.lsn),
                                 .file_size_bytes = options->file_size_bytes,
                                 .file_count = options->file_count};
    struct redo_checkpoint checkpoint = {
        .log = layout.number,
        .number = redo->checkpoint.number + 1,
        .lsn = redo->checkpoint.lsn,
        .epoch = redo->checkpoint.epoch,
        .in_flight_bytes = redo_in_flight_bytes(options->buffer_size_bytes),
    };
    FIRN_TRY(redo_files_make(options, &layout, &checkpoint));
    FIRN_TRY(redo_files_close(redo->files));
    return redo_files_install(options, &layout);
}

firn_rc redo_resize(const struct redo_options *options)
{
    struct redo *redo;
    FIRN_TRY(redo_open(options, &redo));
    firn_rc rc = FIRN_OK;
    if (redo->layout.file_size_bytes != options->file_size_bytes ||
        redo->layout.file_count != options->file_count) {
        rc = check_is_clean(redo);
        if (rc == FIRN_OK)
            rc = redo_files_finish(redo);
        if (rc == FIRN_OK)
            rc = replace(redo, options);
    }
    firn_rc close_rc = redo_close(redo);
    return rc != FIRN_OK ? rc : close_rc;
}

/* ---- Telling ---- */

uint64_t redo_checkpoint_lsn(const struct redo *redo)
{
    return atomic_load_explicit(&redo->checkpoint_lsn, memory_order_seq_cst);
}

uint64_t redo_reserved_lsn(const struct redo *redo)
{
    return atomic_load_explicit(&redo->reserved_lsn, memory_order_seq_cst);
}

uint64_t redo_written_lsn(const struct redo *redo)
{
    return atomic_load_explicit(&redo->written_lsn, memory_order_seq_cst);
}

uint64_t redo_durable_lsn(const struct redo *redo)
{
    return atomic_load_explicit(&redo->durable_lsn, memory_order_seq_cst);
}

uint64_t redo_age_bytes(const struct redo *redo)
{
    uint64_t checkpoint = redo_checkpoint_lsn(redo); /* first: it is not beyond what is read next */
    uint64_t reserved = redo_reserved_lsn(redo);
    return reserved == UINT64_MAX ? 0 : reserved - checkpoint;
}

uint64_t redo_file_size_bytes(const struct redo *redo)
{
    return redo->layout.file_size_bytes;
}

uint32_t redo_file_count(const struct redo *redo)
{
    return redo->layout.file_count;
}

firn_rc redo_status(struct redo *redo)
{
    return redo_has_failed(redo) ? redo_raise_failure(redo) : FIRN_OK;
}

uint32_t redo_counter_number(void)
{
    static _Atomic uint32_t threads;
    static _Thread_local uint32_t number; /* from 1, so that 0 means none yet */
    if (number == 0)
        number = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % REDO_COUNTERS;
    return number - 1;
}

static uint64_t look(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void redo_counters(struct redo *redo, struct redo_counters *counters)
{
    *counters = (struct redo_counters){
        .frames = look(&redo->frames),
        .writes = look(&redo->writes),
        .written_bytes = look(&redo->written_bytes),
        .syncs = look(&redo->syncs),
        .checkpoints = look(&redo->checkpoints),
    };
    uint64_t reserved = redo_reserved_lsn(redo);
    if (reserved != UINT64_MAX)
        counters->bytes = reserved - redo->start_lsn;
    for (unsigned i = 0; i < REDO_COUNTERS; i++) {
        counters->commits += look(&redo->counters[i].commits);
        counters->buffer_waits += look(&redo->counters[i].buffer_waits);
        counters->space_waits += look(&redo->counters[i].space_waits);
        counters->limit_waits += look(&redo->counters[i].limit_waits);
    }
}
