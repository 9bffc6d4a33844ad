/*
 * cleaner.c -- the cleaner: rounds of making free frames, writing what the log asks for and taking
 * checkpoints; the thread that does them, and those who wait for it.
 *
 * With a thread everybody else only asks for rounds: one thread that writes batches serves a device
 * better than many that write single pages, and who waits for it holds no lock but page latches,
 * for which the cleaner never waits.
 */
#include "buffer/writer_internal.h"

#include "base/clock.h"

#include <signal.h>
#include <string.h>

enum {
    FREE_MIN = 4,         /* frames kept free, at least ... */
    FREE_MAX_PART = 8,    /* ... and at most this part of the pool ... */
    FREE_USUAL_PART = 32, /* ... this part, if it is no more than FREE_USUAL_MAX ... */
    FREE_USUAL_MAX = 1024,
    FREE_AHEAD_MS = 50,     /* ... or what comes in in such a time */
    CHECKPOINT_PART = 64,   /* of the ring: what a checkpoint gains as a rule */
    RATE_NS_MIN = 10000000, /* shorter times say nothing about how fast pages come in */
    IDLE_NS = 1000000000,
    FEW_PAGES = 32, /* not worth three syncs, until FEW_NS have passed */
    FEW_NS = 1000000000,
    BATCH_NS = 100000000, /* how long a batch may take: others may have to wait for it */
    BATCH_PAGES_MIN = 8,
    BATCH_PAGES_USUAL = 32, /* until it is known how long they take */
    POLL_NS = 1000000,      /* where virtual time must be waited for */
    EMPTY_ROUNDS_MAX = 2,   /* without a free frame, before there is none to be had */
};

/* ---- A round ---- */

/* Frames to be kept free: what comes in while the cleaner is about something else. */
static void settle_free_target(struct buffer_writer *writer, uint64_t now_ns)
{
    struct buffer_pool *pool = writer->pool;
    uint32_t frames = atomic_load_explicit(&pool->frame_count, memory_order_relaxed);
    uint32_t entered = atomic_load_explicit(&pool->entered, memory_order_relaxed);
    uint64_t target = frames / FREE_USUAL_PART;
    target = target < FREE_USUAL_MAX ? target : FREE_USUAL_MAX;
    uint64_t elapsed_ns = now_ns - writer->last_entered_ns;
    if (writer->last_entered_ns != 0 && elapsed_ns >= RATE_NS_MIN) {
        uint64_t ahead =
            (entered - writer->last_entered) * (FREE_AHEAD_MS * NS_PER_MS) / elapsed_ns;
        target = ahead > target ? ahead : target;
    }
    if (writer->last_entered_ns == 0 || elapsed_ns >= RATE_NS_MIN) {
        writer->last_entered = entered;
        writer->last_entered_ns = now_ns;
        target = target < frames / FREE_MAX_PART ? target : frames / FREE_MAX_PART;
        target = target > FREE_MIN ? target : FREE_MIN;
        atomic_store_explicit(&writer->free_target, (uint32_t)target, memory_order_relaxed);
    }
}

/* What the pace asks for. With a thread, which goes on asking, it also says how far the log may
   grow; nobody would raise a limit otherwise. */
static struct pace_order ask_pace(struct buffer_writer *writer, uint64_t now_ns)
{
    struct buffer_pool *pool = writer->pool;
    const struct buffer_options *options = &pool->options;
    struct pace_ages ages;
    flush_list_ages(pool, &ages);
    struct pace_input input = {
        .now_ns = now_ns,
        .clean_lsn = buffer_clean_lsn(pool), /* before the other, which it does not exceed */
        .capacity_bytes = redo_capacity_bytes(options->redo),
        .ages = &ages,
        .pages_dirty = atomic_load_explicit(&writer->dirty.count, memory_order_relaxed),
        .pages_total = atomic_load_explicit(&pool->frame_count, memory_order_relaxed),
        .io_capacity = options->io_capacity,
        .io_capacity_max = options->io_capacity_max,
        .dirty_percent_max = options->dirty_percent_max,
    };
    input.reserved_lsn = redo_reserved_lsn(options->redo);
    struct pace_order order = pace_step(&writer->pace, &input);
    if (writer->cleaner.has_thread && writer->stopped.rc == FIRN_OK)
        redo_set_limit(options->redo, order.limit_lsn, order.limit_bytes_s);
    return order;
}

static bool is_recovering(const struct buffer_writer *writer)
{
    return redo_reserved_lsn(writer->pool->options.redo) == UINT64_MAX;
}

/* What a checkpoint must gain to be worth its syncs. */
static uint64_t checkpoint_gain(const struct buffer_writer *writer, bool is_urged)
{
    bool all_clean = atomic_load_explicit(&writer->dirty.count, memory_order_relaxed) == 0;
    if (is_urged || all_clean)
        return 1;
    return redo_capacity_bytes(writer->pool->options.redo) / CHECKPOINT_PART;
}

static void take_checkpoint(struct writer_run *run, bool is_urged)
{
    if (writer_checkpoint(run, checkpoint_gain(run->writer, is_urged)))
        cleaner_tell(run->writer);
}

void cleaner_between(struct writer_run *run)
{
    struct buffer_writer *writer = run->writer;
    writer_make_free(run, buffer_free_low(writer->pool));
    if (!writer->cleaner.has_thread || writer->stopped.rc != FIRN_OK || is_recovering(writer))
        return;
    ask_pace(writer, clock_now(writer->cleaner.clock));
    take_checkpoint(run, false);
}

/* A slow device gets smaller batches. */
void cleaner_measured(struct buffer_writer *writer, unsigned pages, uint64_t took_ns)
{
    if (pages < BATCH_PAGES_MIN)
        return;
    uint64_t fitting = pages * (uint64_t)BATCH_NS / (took_ns + 1);
    uint64_t most = writer->batch_pages + writer->batch_pages / 2;
    fitting = fitting < most ? fitting : most; /* shorter at once, longer step by step */
    fitting = fitting < BATCH_PAGES_MAX ? fitting : BATCH_PAGES_MAX;
    writer->batch_pages = fitting > BATCH_PAGES_MIN ? (unsigned)fitting : BATCH_PAGES_MIN;
    pace_measured(&writer->pace, pages, took_ns);
}

/* A few pages now and then would cost as many syncs as many pages. */
static bool is_worth_it(const struct buffer_writer *writer, unsigned pages, uint64_t now_ns)
{
    unsigned most = batch_pages_max(writer->pool);
    return pages >= (FEW_PAGES < most ? FEW_PAGES : most) ||
           (pages > 0 && now_ns - writer->last_wrote_ns >= FEW_NS);
}

/* @param is_urged  somebody waits for room in the log: a batch whatever the pace says
   @return when the next round is due, from now */
static uint64_t do_round(struct writer_run *run, bool is_urged)
{
    struct buffer_writer *writer = run->writer;
    uint64_t now_ns = clock_now(writer->cleaner.clock);
    settle_free_target(writer, now_ns);
    writer_make_free(run, atomic_load_explicit(&writer->free_target, memory_order_relaxed));
    if (writer->stopped.rc != FIRN_OK || is_recovering(writer))
        return IDLE_NS;
    struct pace_order order = ask_pace(writer, now_ns);
    bool writes = is_urged || is_worth_it(writer, order.pages, now_ns);
    if (writes) {
        unsigned written;
        writer_write_oldest(run, UINT64_MAX, is_urged ? BATCH_PAGES_MAX : order.pages, &written);
        pace_written(&writer->pace, written);
        writer->last_wrote_ns = now_ns;
    }
    take_checkpoint(run, is_urged);
    if (run->error.rc != FIRN_OK)
        return IDLE_NS;
    return writes && is_worth_it(writer, (unsigned)writer->pace.due_pages, now_ns) ? 0
                                                                                   : order.next_ns;
}

/* ---- Waiting ---- */

static void to_timespec(struct clock *clock, uint64_t wait_ns, struct timespec *until)
{
    uint64_t real_ns = (uint64_t)((double)wait_ns / clock_scale(clock));
    clock_gettime(CLOCK_MONOTONIC, until);
    real_ns += (uint64_t)until->tv_nsec;
    until->tv_sec += (time_t)(real_ns / NS_PER_S);
    until->tv_nsec = (long)(real_ns % NS_PER_S);
}

/* Wait for a condition, no longer than until a deadline of the clock; the mutex is held. Virtual
   time passes only for who waits on the clock. */
static void wait_for(struct cleaner *cleaner, pthread_cond_t *condition, uint64_t deadline_ns)
{
    uint64_t now_ns = clock_now(cleaner->clock);
    if (deadline_ns <= now_ns)
        return;
    if (clock_is_virtual(cleaner->clock)) {
        uint64_t poll_ns = now_ns + POLL_NS;
        pthread_mutex_unlock(&cleaner->mutex);
        clock_wait_until(cleaner->clock, poll_ns < deadline_ns ? poll_ns : deadline_ns);
        pthread_mutex_lock(&cleaner->mutex);
        return;
    }
    struct timespec until;
    to_timespec(cleaner->clock, deadline_ns - now_ns, &until);
    pthread_cond_timedwait(condition, &cleaner->mutex, &until);
}

static void ask_locked(struct cleaner *cleaner)
{
    cleaner->is_asked = true;
    pthread_cond_signal(&cleaner->wake);
}

/* A mini-transaction has come to the log's limit. */
static void at_limit(void *context)
{
    struct cleaner *cleaner = context;
    pthread_mutex_lock(&cleaner->mutex);
    ask_locked(cleaner);
    pthread_mutex_unlock(&cleaner->mutex);
}

/* Wait until there is what is wanted, a free frame or a checkpoint that frees log, or a round that
   began after this call has ended without it. @return how that ended, raised */
static firn_rc await_round(struct buffer_writer *writer, bool frame_wanted)
{
    struct cleaner *cleaner = &writer->cleaner;
    const struct redo *redo = writer->pool->options.redo;
    firn_rc rc = FIRN_OK;
    uint64_t checkpoint_lsn = redo_checkpoint_lsn(redo);
    pthread_mutex_lock(&cleaner->mutex);
    uint64_t ticket = cleaner->begun + 1;
    cleaner->waiting++;
    while (cleaner->ended < ticket &&
           !(frame_wanted ? buffer_free_count(writer->pool) > 0
                          : redo_checkpoint_lsn(redo) > checkpoint_lsn)) {
        cleaner->is_urged |= !frame_wanted;
        ask_locked(cleaner);
        wait_for(cleaner, &cleaner->done, clock_now(cleaner->clock) + IDLE_NS);
    }
    cleaner->waiting--;
    if (cleaner->ended >= ticket && cleaner->last.rc != FIRN_OK)
        rc = rc_raise(cleaner->last.rc, "%s", cleaner->last.text);
    pthread_mutex_unlock(&cleaner->mutex);
    return rc;
}

void cleaner_tell(struct buffer_writer *writer)
{
    struct cleaner *cleaner = &writer->cleaner;
    pthread_mutex_lock(&cleaner->mutex);
    if (cleaner->waiting > 0)
        pthread_cond_broadcast(&cleaner->done);
    pthread_mutex_unlock(&cleaner->mutex);
}

void buffer_writer_wake(struct buffer_pool *pool)
{
    struct cleaner *cleaner = &pool->writer->cleaner;
    /* Not seen asleep while it falls asleep: it looks at the free frames again in a while, and who
       then finds none asks for a round. */
    if (!atomic_load_explicit(&cleaner->is_asleep, memory_order_relaxed) ||
        !atomic_exchange_explicit(&cleaner->is_asleep, false, memory_order_relaxed))
        return;
    pthread_mutex_lock(&cleaner->mutex);
    ask_locked(cleaner);
    pthread_mutex_unlock(&cleaner->mutex);
}

/* ---- The thread ---- */

/* @return false when the thread is to end */
static bool sleep_until_asked(struct cleaner *cleaner, uint64_t deadline_ns, bool *is_urged)
{
    pthread_mutex_lock(&cleaner->mutex);
    atomic_store_explicit(&cleaner->is_asleep, true, memory_order_relaxed);
    while (!cleaner->is_asked && !cleaner->is_stopping && clock_now(cleaner->clock) < deadline_ns)
        wait_for(cleaner, &cleaner->wake, deadline_ns);
    atomic_store_explicit(&cleaner->is_asleep, false, memory_order_relaxed);
    cleaner->is_asked = false;
    *is_urged = cleaner->is_urged;
    cleaner->is_urged = false;
    bool going = !cleaner->is_stopping;
    if (going)
        cleaner->begun++;
    pthread_mutex_unlock(&cleaner->mutex);
    return going;
}

static void end_round(struct cleaner *cleaner, firn_rc rc)
{
    pthread_mutex_lock(&cleaner->mutex);
    cleaner->ended = cleaner->begun;
    writer_keep_error(&cleaner->last, rc);
    pthread_cond_broadcast(&cleaner->done);
    pthread_mutex_unlock(&cleaner->mutex);
}

static void *clean(void *context)
{
    struct buffer_writer *writer = context;
    struct cleaner *cleaner = &writer->cleaner;
    struct io_queue *queues[WRITER_SYSTEMS_MAX] = {NULL};
    uint64_t wait_ns = 0;
    bool is_urged;
    clock_join(cleaner->clock);
    while (sleep_until_asked(cleaner, clock_now(cleaner->clock) + wait_ns, &is_urged)) {
        struct writer_run run;
        firn_rc rc = writer_run_begin(&run, writer, queues);
        wait_ns = IDLE_NS;
        if (rc == FIRN_OK) {
            wait_ns = do_round(&run, is_urged);
            rc = writer_run_end(&run);
        }
        end_round(cleaner, rc);
    }
    writer_close_queues(queues);
    clock_leave(cleaner->clock);
    return NULL;
}

void cleaner_init(struct buffer_writer *writer)
{
    struct cleaner *cleaner = &writer->cleaner;
    const struct buffer_options *options = &writer->pool->options;
    pthread_condattr_t attributes;
    cleaner->clock = buffer_clock(writer->pool);
    pthread_mutex_init(&cleaner->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&cleaner->wake, &attributes);
    pthread_cond_init(&cleaner->done, &attributes);
    pthread_condattr_destroy(&attributes);
    pace_init(&writer->pace, options->io_capacity_max);
    writer->batch_pages = BATCH_PAGES_USUAL;
    settle_free_target(writer, 0);
}

firn_rc cleaner_start(struct buffer_writer *writer)
{
    struct cleaner *cleaner = &writer->cleaner;
    if (!writer->pool->options.cleaner_thread)
        return FIRN_OK;
    cleaner->has_thread = true;
    redo_set_at_limit(writer->pool->options.redo, at_limit, cleaner);
    /* Signals are for the threads of whoever uses us. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&cleaner->thread, NULL, clean, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return FIRN_OK;
    cleaner->has_thread = false;
    redo_set_at_limit(writer->pool->options.redo, NULL, NULL);
    return rc_raise_errno(error, "cannot start the thread that writes dirty pages");
}

void cleaner_free(struct buffer_writer *writer)
{
    struct cleaner *cleaner = &writer->cleaner;
    if (cleaner->has_thread) {
        pthread_mutex_lock(&cleaner->mutex);
        cleaner->is_stopping = true;
        pthread_cond_signal(&cleaner->wake);
        pthread_mutex_unlock(&cleaner->mutex);
        pthread_join(cleaner->thread, NULL);
        redo_set_limit(writer->pool->options.redo, UINT64_MAX, 0);
        redo_set_at_limit(writer->pool->options.redo, NULL, NULL);
    }
    pthread_cond_destroy(&cleaner->done);
    pthread_cond_destroy(&cleaner->wake);
    pthread_mutex_destroy(&cleaner->mutex);
}

/* ---- What others ask of it ---- */

uint32_t buffer_free_low(const struct buffer_pool *pool)
{
    return atomic_load_explicit(&pool->writer->free_target, memory_order_relaxed) / 2;
}

static firn_rc raise_no_room(firn_rc rc)
{
    if (rc != FIRN_OK)
        return rc;
    return rc_raise(FIRN_E_BUSY, "every page of the buffer pool is in use: raise buffer_pool_size");
}

firn_rc buffer_writer_make_room(struct buffer_pool *pool)
{
    struct buffer_writer *writer = pool->writer;
    firn_rc rc = FIRN_OK;
    if (!writer->cleaner.has_thread) {
        struct writer_run run;
        FIRN_TRY(writer_run_begin(&run, writer, NULL));
        uint32_t free_frames = writer_make_free(&run, buffer_free_low(pool));
        rc = writer_run_end(&run);
        return free_frames > 0 ? FIRN_OK : raise_no_room(rc);
    }
    for (unsigned i = 0; i < EMPTY_ROUNDS_MAX && rc == FIRN_OK; i++) {
        rc = await_round(writer, true);
        if (buffer_free_count(pool) > 0)
            return FIRN_OK;
    }
    return raise_no_room(rc);
}

firn_rc buffer_clean(struct buffer_pool *pool)
{
    struct buffer_writer *writer = pool->writer;
    struct writer_run run;
    if (writer->cleaner.has_thread)
        return await_round(writer, false);
    FIRN_TRY(writer_run_begin(&run, writer, NULL));
    do_round(&run, true);
    return writer_run_end(&run);
}
