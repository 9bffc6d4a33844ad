#include "bench/meter.h"

#include "base/check.h"
#include "base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* An interval has slots for twice its planned length, so that one closed late keeps its silences;
   what comes later still falls into the last slot. */
enum {
    SLOTS = 2 * METER_SLOTS,
    SLOT_WORDS = SLOTS / 64,
    SILENCES_MAX = SLOTS / 2 + 1, /* every other slot, and one that began earlier */
    CACHE_LINE_BYTES = 64,
};
static_assert(METER_SLOTS % 64 == 0, "a slot is a bit in a row of whole words");

#define INTERVAL_MIN_NS (10 * NS_PER_MS)

/* What one worker did in the open interval. */
struct meter_part {
    uint64_t start_ns; /* clock time */
    uint64_t slots[SLOT_WORDS];
    struct meter_kind_data kinds[];
};

/* The mutex covers everything below it but `spare`, which is the reporter's and always empty. */
struct meter_worker {
    _Alignas(CACHE_LINE_BYTES) pthread_mutex_t mutex;
    struct meter_part *part;
    _Atomic uint64_t operations; /* since meter_start; read without the mutex */
    struct meter_part *spare;

    uint64_t slot_ns;
    unsigned kind_count;
    bool open_loop;
};

struct meter {
    struct clock *clock;
    const char *kinds[METER_KINDS_MAX];
    unsigned kind_count;
    unsigned worker_count;
    uint64_t slot_ns;
    uint64_t silence_min_ns;
    struct meter_worker *workers;

    /* The reporter's. */
    uint64_t origin_ns;           /* clock time of meter_start */
    uint64_t closed_ns;           /* end of the last interval, since meter_start */
    uint64_t silent_since_ns;     /* end of the last activity seen, since meter_start */
    uint64_t slots[SLOT_WORDS];   /* all workers' of the interval being closed */
    uint64_t carried[SLOT_WORDS]; /* completed after the interval's end, recorded before it */
    struct meter_interval *interval;
    struct meter_interval *total;
    struct meter_silence silences[SILENCES_MAX];
};

/* Only what is not zero is written: most buckets of a histogram are never touched, and pages that
   nobody touches cost nothing. */
static void kinds_init_zeroed(struct meter_kind_data *kinds, unsigned count)
{
    for (unsigned k = 0; k < count; k++) {
        atomic_init(&kinds[k].latency_ns.min, UINT64_MAX);
        atomic_init(&kinds[k].response_ns.min, UINT64_MAX);
    }
}

static struct meter_part *part_make(unsigned kind_count)
{
    struct meter_part *part = memory_zalloc(1, sizeof(*part) + kind_count * sizeof(part->kinds[0]));
    if (part != NULL)
        kinds_init_zeroed(part->kinds, kind_count);
    return part;
}

static struct meter_interval *interval_make(unsigned kind_count)
{
    struct meter_interval *interval =
        memory_zalloc(1, sizeof(*interval) + kind_count * sizeof(interval->kinds[0]));
    if (interval != NULL)
        kinds_init_zeroed(interval->kinds, kind_count);
    return interval;
}

static void kinds_clear(struct meter_kind_data *kinds, unsigned count)
{
    for (unsigned k = 0; k < count; k++) {
        kinds[k].bytes = 0;
        histogram_clear(&kinds[k].latency_ns);
        histogram_clear(&kinds[k].response_ns);
    }
}

static void kinds_merge(struct meter_kind_data *into, const struct meter_kind_data *from,
                        unsigned count)
{
    for (unsigned k = 0; k < count; k++) {
        into[k].bytes += from[k].bytes;
        histogram_merge(&into[k].latency_ns, &from[k].latency_ns);
        histogram_merge(&into[k].response_ns, &from[k].response_ns);
    }
}

static void part_clear(struct meter_part *part, unsigned kind_count)
{
    for (unsigned i = 0; i < SLOT_WORDS; i++)
        part->slots[i] = 0;
    kinds_clear(part->kinds, kind_count);
}

static firn_rc check_options(const struct meter_options *options, unsigned *kind_count)
{
    unsigned kinds = 0;
    while (kinds < METER_KINDS_MAX && options->kinds[kinds] != NULL)
        kinds++;
    if (kinds == 0)
        return rc_raise(FIRN_E_INVALID, "a meter needs at least one kind of operation");
    if (options->workers == 0)
        return rc_raise(FIRN_E_INVALID, "a meter needs at least one worker");
    if (options->interval_ns < INTERVAL_MIN_NS)
        return rc_raise(FIRN_E_INVALID,
                        "an interval of %.3f ms is too short to be measured; take 10 ms or more",
                        (double)options->interval_ns / 1e6);
    *kind_count = kinds;
    return FIRN_OK;
}

static firn_rc workers_make(struct meter *meter, bool open_loop)
{
    size_t size_bytes = meter->worker_count * sizeof(struct meter_worker);
    meter->workers = memory_alloc_aligned(size_bytes, CACHE_LINE_BYTES);
    if (meter->workers == NULL)
        return FIRN_E_NOMEM;
    for (unsigned i = 0; i < meter->worker_count; i++) {
        meter->workers[i] = (struct meter_worker){
            .slot_ns = meter->slot_ns, .kind_count = meter->kind_count, .open_loop = open_loop};
        pthread_mutex_init(&meter->workers[i].mutex, NULL);
    }
    for (unsigned i = 0; i < meter->worker_count; i++) {
        struct meter_worker *worker = &meter->workers[i];
        worker->part = part_make(meter->kind_count);
        worker->spare = part_make(meter->kind_count);
        if (worker->part == NULL || worker->spare == NULL)
            return FIRN_E_NOMEM;
    }
    return FIRN_OK;
}

firn_rc meter_open(const struct meter_options *options, struct meter **meter)
{
    unsigned kind_count = 0;
    FIRN_TRY(check_options(options, &kind_count));
    struct meter *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        goto no_memory;
    made->clock = options->clock;
    made->kind_count = kind_count;
    for (unsigned k = 0; k < kind_count; k++)
        made->kinds[k] = options->kinds[k];
    made->worker_count = options->workers;
    /* Rounded up: METER_SLOTS slots cover the planned length. */
    made->slot_ns = (options->interval_ns + METER_SLOTS - 1) / METER_SLOTS;
    made->silence_min_ns = options->silence_min_ns;
    made->interval = interval_make(kind_count);
    made->total = interval_make(kind_count);
    if (made->interval == NULL || made->total == NULL ||
        workers_make(made, options->open_loop) != FIRN_OK)
        goto no_memory;
    meter_start(made);
    *meter = made;
    return FIRN_OK;

no_memory:
    meter_close(made);
    return rc_raise(FIRN_E_NOMEM, "no memory to measure %u workers; run fewer threads",
                    options->workers);
}

void meter_close(struct meter *meter)
{
    if (meter == NULL)
        return;
    for (unsigned i = 0; meter->workers != NULL && i < meter->worker_count; i++) {
        pthread_mutex_destroy(&meter->workers[i].mutex);
        memory_free(meter->workers[i].part);
        memory_free(meter->workers[i].spare);
    }
    memory_free(meter->workers);
    memory_free(meter->total);
    memory_free(meter->interval);
    memory_free(meter);
}

struct meter_worker *meter_worker_at(struct meter *meter, unsigned number)
{
    ASSERT(number < meter->worker_count);
    return &meter->workers[number];
}

void meter_record(struct meter_worker *worker, unsigned kind, uint64_t scheduled_ns,
                  uint64_t start_ns, uint64_t done_ns, uint64_t bytes)
{
    ASSERT(kind < worker->kind_count);
    ASSERT(start_ns <= done_ns && scheduled_ns <= done_ns);
    pthread_mutex_lock(&worker->mutex);
    struct meter_part *part = worker->part;
    /* A worker may be held up between completion and here, while an interval is closed. */
    uint64_t offset_ns = done_ns > part->start_ns ? done_ns - part->start_ns : 0;
    uint64_t slot = offset_ns / worker->slot_ns;
    if (slot >= SLOTS)
        slot = SLOTS - 1;
    part->slots[slot / 64] |= UINT64_C(1) << slot % 64;
    struct meter_kind_data *data = &part->kinds[kind];
    data->bytes += bytes;
    histogram_record(&data->latency_ns, done_ns - start_ns);
    if (worker->open_loop)
        histogram_record(&data->response_ns, done_ns - scheduled_ns);
    atomic_store_explicit(&worker->operations,
                          atomic_load_explicit(&worker->operations, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    pthread_mutex_unlock(&worker->mutex);
}

/* Let every worker go on in its empty part; what was recorded is in the spares afterwards. */
static void swap_parts(struct meter *meter, uint64_t now_ns, bool restart)
{
    for (unsigned i = 0; i < meter->worker_count; i++) {
        struct meter_worker *worker = &meter->workers[i];
        worker->spare->start_ns = now_ns;
        pthread_mutex_lock(&worker->mutex);
        struct meter_part *full = worker->part;
        worker->part = worker->spare;
        if (restart)
            atomic_store_explicit(&worker->operations, 0, memory_order_relaxed);
        pthread_mutex_unlock(&worker->mutex);
        worker->spare = full;
    }
}

void meter_start(struct meter *meter)
{
    uint64_t now_ns = clock_now(meter->clock);
    swap_parts(meter, now_ns, true);
    for (unsigned i = 0; i < meter->worker_count; i++)
        part_clear(meter->workers[i].spare, meter->kind_count);
    kinds_clear(meter->interval->kinds, meter->kind_count);
    kinds_clear(meter->total->kinds, meter->kind_count);
    *meter->interval = (struct meter_interval){.silences = meter->silences};
    *meter->total = (struct meter_interval){0};
    for (unsigned i = 0; i < SLOT_WORDS; i++)
        meter->carried[i] = 0;
    meter->origin_ns = now_ns;
    meter->closed_ns = 0;
    meter->silent_since_ns = 0;
}

/* The first slot from `slot` on whose bit is `value`, or `count` if there is none. */
static unsigned slot_find(const uint64_t *slots, unsigned slot, unsigned count, bool value)
{
    while (slot < count) {
        uint64_t word = value ? slots[slot / 64] : ~slots[slot / 64];
        word >>= slot % 64;
        if (word != 0) {
            slot += (unsigned)__builtin_ctzll(word);
            return slot < count ? slot : count;
        }
        slot += 64 - slot % 64;
    }
    return count;
}

/* Take note of a silence up to end_ns, which ended there or goes on. */
static void note_silence(struct meter *meter, uint64_t end_ns, bool ended)
{
    struct meter_interval *interval = meter->interval;
    struct meter_silence silence = {meter->silent_since_ns, end_ns - meter->silent_since_ns};
    if (silence.length_ns > interval->silence_ns) {
        interval->silence_start_ns = silence.start_ns;
        interval->silence_ns = silence.length_ns;
    }
    if (silence.length_ns == 0 || silence.length_ns < meter->silence_min_ns)
        return;
    uint64_t inside_ns =
        end_ns - (silence.start_ns > interval->start_ns ? silence.start_ns : interval->start_ns);
    interval->silent_ns += inside_ns;
    if (ended)
        meter->silences[interval->silence_count++] = silence;
}

/* Find the silences of the interval that has just got its times; `count` slots lie in it. */
static void find_silences(struct meter *meter, unsigned count)
{
    const struct meter_interval *interval = meter->interval;
    uint64_t end_ns = interval->start_ns + interval->length_ns;
    unsigned slot = 0;
    while (slot < count) {
        unsigned busy = slot_find(meter->slots, slot, count, true);
        if (busy == count)
            break;
        uint64_t busy_ns = interval->start_ns + busy * meter->slot_ns;
        if (busy_ns > meter->silent_since_ns)
            note_silence(meter, busy_ns, true);
        slot = slot_find(meter->slots, busy, count, false);
        meter->silent_since_ns =
            slot == count ? end_ns : interval->start_ns + slot * meter->slot_ns;
    }
    if (end_ns > meter->silent_since_ns)
        note_silence(meter, end_ns, false);
}

/* Workers went on while the interval was being closed: what they completed after its end belongs
   to the next one's slots. */
static void carry_slots(struct meter *meter, unsigned count)
{
    for (unsigned i = 0; i < SLOT_WORDS; i++)
        meter->carried[i] = 0;
    for (unsigned slot = slot_find(meter->slots, count, SLOTS, true); slot < SLOTS;
         slot = slot_find(meter->slots, slot + 1, SLOTS, true)) {
        unsigned next = slot - count;
        meter->carried[next / 64] |= UINT64_C(1) << next % 64;
    }
}

static void collect_parts(struct meter *meter)
{
    for (unsigned w = 0; w < SLOT_WORDS; w++)
        meter->slots[w] = meter->carried[w];
    for (unsigned i = 0; i < meter->worker_count; i++) {
        struct meter_part *part = meter->workers[i].spare;
        for (unsigned w = 0; w < SLOT_WORDS; w++)
            meter->slots[w] |= part->slots[w];
        kinds_merge(meter->interval->kinds, part->kinds, meter->kind_count);
        part_clear(part, meter->kind_count);
    }
}

static void add_to_total(struct meter *meter)
{
    const struct meter_interval *interval = meter->interval;
    struct meter_interval *total = meter->total;
    total->length_ns = interval->start_ns + interval->length_ns;
    total->silent_ns += interval->silent_ns;
    if (interval->silence_ns > total->silence_ns) {
        total->silence_start_ns = interval->silence_start_ns;
        total->silence_ns = interval->silence_ns;
    }
    kinds_merge(total->kinds, interval->kinds, meter->kind_count);
}

const struct meter_interval *meter_tick(struct meter *meter)
{
    uint64_t now_ns = clock_now(meter->clock);
    swap_parts(meter, now_ns, false);
    struct meter_interval *interval = meter->interval;
    kinds_clear(interval->kinds, meter->kind_count);
    uint64_t elapsed_ns = now_ns - meter->origin_ns;
    *interval = (struct meter_interval){.start_ns = meter->closed_ns,
                                        .length_ns = elapsed_ns - meter->closed_ns,
                                        .silences = meter->silences};
    collect_parts(meter);
    uint64_t slots = (interval->length_ns + meter->slot_ns - 1) / meter->slot_ns;
    unsigned count = slots > SLOTS ? SLOTS : (unsigned)slots;
    find_silences(meter, count);
    carry_slots(meter, count);
    add_to_total(meter);
    meter->closed_ns = elapsed_ns;
    return interval;
}

const struct meter_interval *meter_total(const struct meter *meter)
{
    return meter->total;
}

unsigned meter_kind_count(const struct meter *meter)
{
    return meter->kind_count;
}

const char *meter_kind_name(const struct meter *meter, unsigned kind)
{
    ASSERT(kind < meter->kind_count);
    return meter->kinds[kind];
}

uint64_t meter_worker_operations(const struct meter_worker *worker)
{
    return atomic_load_explicit(&worker->operations, memory_order_relaxed);
}
