#include "bench/device_check.h"

#include "base/check.h"
#include "base/histogram.h"
#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK_BYTES = 16384,    /* the engine's page */
    STREAM_BYTES = 1048576, /* of a request of a sequential row */
    STREAM_DEPTH = 4,
    SYNCS = 200,
    DIP_SLOTS = 100, /* how finely a dip is looked at: slots in its length */
};

static const uint64_t SEED = 1;

/* ---- One load ---- */

struct run {
    struct model_device *device;
    const struct device_load *load;
    struct rng rng;
    uint64_t span_blocks;
    uint64_t next_block;
    uint64_t bytes;
    struct histogram *latency_ns;
};

static void prepare(struct run *run, struct model_io *io)
{
    const struct device_load *load = run->load;
    bool write = load->write_percent == 100 ||
                 (load->write_percent > 0 && rng_below(&run->rng, 100) < load->write_percent);
    uint64_t block = run->next_block;
    if (load->sequential)
        run->next_block = (block + 1) % run->span_blocks;
    else
        block = rng_below(&run->rng, run->span_blocks);
    io->op = write ? IO_OP_WRITE : IO_OP_READ;
    io->offset = block * load->block_bytes;
    io->size_bytes = load->block_bytes;
}

/* Measuring begins with the first completion after the warm-up and ends with the last one counted.
 */
static firn_rc run_loop(struct run *run, struct model_io *ios, uint64_t *now_ns,
                        uint64_t *elapsed_ns)
{
    unsigned measured = 0;
    unsigned pending = run->load->depth;
    uint64_t start_ns = *now_ns;
    for (unsigned i = 0; i < run->load->depth; i++) {
        prepare(run, &ios[i]);
        FIRN_TRY(model_device_submit(run->device, &ios[i], *now_ns));
    }
    while (pending > 0) {
        *now_ns = model_device_next(run->device);
        struct model_io *done = model_device_advance(run->device, *now_ns);
        while (done != NULL) {
            struct model_io *next = done->next;
            bool warm = run->bytes < run->load->warm_bytes;
            run->bytes += done->size_bytes;
            if (warm) {
                start_ns = done->done_ns;
            } else if (measured < run->load->requests) {
                histogram_record(run->latency_ns, done->done_ns - done->arrive_ns);
                measured++;
                *elapsed_ns = done->done_ns - start_ns;
            }
            if (measured < run->load->requests) {
                prepare(run, done);
                FIRN_TRY(model_device_submit(run->device, done, *now_ns));
            } else {
                pending--;
            }
            done = next;
        }
    }
    return FIRN_OK;
}

firn_rc device_run(struct model_device *device, const struct device_load *load, uint64_t *now_ns,
                   struct device_rates *rates)
{
    firn_rc rc = FIRN_OK;
    uint64_t span = load->span_bytes != 0 ? load->span_bytes : model_device_capacity(device);
    struct run run = {.device = device, .load = load, .span_blocks = span / load->block_bytes};
    uint64_t elapsed_ns = 0;
    rng_init(&run.rng, load->seed);
    struct model_io *ios = memory_zalloc(load->depth, sizeof(*ios));
    run.latency_ns = memory_alloc(sizeof(*run.latency_ns));
    if (ios == NULL || run.latency_ns == NULL)
        FIRN_TRY_GOTO(rc_raise(FIRN_E_NOMEM, "no memory to measure a device model"), done);
    histogram_reset(run.latency_ns);
    FIRN_TRY_GOTO(run_loop(&run, ios, now_ns, &elapsed_ns), done);
    double seconds = (double)elapsed_ns / 1e9;
    rates->iops = (double)load->requests / seconds;
    rates->mib_s = rates->iops * load->block_bytes / 1048576;
    rates->mean_us = histogram_mean(run.latency_ns) / 1e3;
    rates->p99_us = (double)histogram_percentile(run.latency_ns, 99) / 1e3;
done:
    memory_free(run.latency_ns);
    memory_free(ios);
    return rc;
}

/* ---- The table ---- */

static firn_rc run_fresh(const struct model_spec *spec, const struct device_load *load,
                         struct device_rates *rates)
{
    struct model_device *device = NULL;
    FIRN_TRY(model_device_open(spec, SEED, &device));
    uint64_t now_ns = 0;
    firn_rc rc = device_run(device, load, &now_ns, rates);
    model_device_close(device);
    return rc;
}

/* Enough to fill every buffer and to bring the controller's sweep into its stride. The controller's
   cache keeps pages: a smaller write takes the room of one. */
static uint64_t fill_bytes(const struct model_spec *spec, uint32_t block_bytes)
{
    uint64_t page = block_bytes < BLOCK_BYTES ? BLOCK_BYTES : block_bytes;
    uint64_t controller = spec->cache_bytes / 4 * 5 / page * block_bytes;
    if (spec->kind == MODEL_SSD)
        return controller + 2 * spec->ssd.write_buffer_bytes * spec->members;
    bool caches = spec->disk.write_cache && spec->cache_bytes == 0;
    return controller + (caches ? 2 * spec->disk.write_cache_bytes * spec->members : 0);
}

static firn_rc add_row(const struct model_spec *spec, const struct device_load *load,
                       struct device_check *check)
{
    ASSERT(check->row_count < DEVICE_CHECK_ROWS_MAX);
    struct device_check_row *row = &check->rows[check->row_count];
    row->load = *load;
    row->load.seed = SEED;
    if (load->write_percent > 0)
        row->load.warm_bytes = fill_bytes(spec, load->block_bytes);
    FIRN_TRY(run_fresh(spec, &row->load, &row->rates));
    check->row_count++;
    return FIRN_OK;
}

static firn_rc add_random_rows(const struct model_spec *spec, uint32_t block_bytes,
                               struct device_check *check)
{
    static const unsigned depths[] = {1, 8, 32, 128};
    for (unsigned percent = 0; percent <= 100; percent += 100)
        for (unsigned i = 0; i < ARRAY_COUNT(depths); i++) {
            /* Pauses are rare: writes are watched through a good number of them. */
            bool paused = percent > 0 && spec->kind == MODEL_SSD && spec->ssd.gc_pause_mib > 0;
            struct device_load load = {.write_percent = percent,
                                       .block_bytes = block_bytes,
                                       .depth = depths[i],
                                       .requests = paused ? 500000000 / block_bytes : 8000};
            FIRN_TRY(add_row(spec, &load, check));
        }
    return FIRN_OK;
}

static firn_rc add_sequential_rows(const struct model_spec *spec, struct device_check *check)
{
    for (unsigned percent = 0; percent <= 100; percent += 100) {
        struct device_load one = {.write_percent = percent,
                                  .sequential = true,
                                  .block_bytes = BLOCK_BYTES,
                                  .depth = 1,
                                  .requests = 12000};
        struct device_load many = {.write_percent = percent,
                                   .sequential = true,
                                   .block_bytes = STREAM_BYTES,
                                   .depth = STREAM_DEPTH,
                                   .requests = 1000};
        FIRN_TRY(add_row(spec, &one, check));
        FIRN_TRY(add_row(spec, &many, check));
    }
    return FIRN_OK;
}

static struct model_io *wait_for(struct model_device *device, uint64_t *now_ns)
{
    struct model_io *done = NULL;
    while (done == NULL) {
        *now_ns = model_device_next(device);
        done = model_device_advance(device, *now_ns);
    }
    return done;
}

static firn_rc measure_syncs(const struct model_spec *spec, struct device_check *check)
{
    firn_rc rc = FIRN_OK;
    struct model_device *device = NULL;
    struct rng rng;
    uint64_t now_ns = 0;
    uint64_t sync_ns = 0;
    uint64_t both_ns = 0;
    rng_init(&rng, SEED);
    FIRN_TRY(model_device_open(spec, SEED, &device));
    uint64_t blocks = model_device_capacity(device) / BLOCK_BYTES;
    for (unsigned i = 0; i < SYNCS; i++) {
        struct model_io write = {.op = IO_OP_WRITE,
                                 .offset = rng_below(&rng, blocks) * BLOCK_BYTES,
                                 .size_bytes = BLOCK_BYTES};
        struct model_io sync = {.op = IO_OP_SYNC_DATA};
        /* Not in step with the platter. */
        now_ns += rng_below(&rng, 20 * NS_PER_MS);
        FIRN_TRY_GOTO(model_device_submit(device, &write, now_ns), done);
        wait_for(device, &now_ns);
        FIRN_TRY_GOTO(model_device_submit(device, &sync, now_ns), done);
        wait_for(device, &now_ns);
        sync_ns += sync.done_ns - sync.arrive_ns;
        both_ns += sync.done_ns - write.arrive_ns;
    }
    check->sync_us = (double)sync_ns / SYNCS / 1e3;
    check->write_sync_us = (double)both_ns / SYNCS / 1e3;
done:
    model_device_close(device);
    return rc;
}

/* ---- Dips ---- */

/* Count in slots what random writes complete around the end of the first period: from one dip's
   length before the dip to one after it. */
static firn_rc count_slots(const struct model_spec *spec, unsigned *counts, uint64_t first_ns,
                           uint64_t slot_ns)
{
    firn_rc rc = FIRN_OK;
    enum { DEPTH = 8 };
    struct model_io ios[DEPTH];
    struct model_device *device = NULL;
    uint64_t end_ns = first_ns + 3 * DIP_SLOTS * slot_ns;
    uint64_t now_ns = first_ns;
    struct device_load load = {.write_percent = 100, .block_bytes = BLOCK_BYTES};
    FIRN_TRY(model_device_open(spec, SEED, &device));
    struct run run = {.device = device,
                      .load = &load,
                      .span_blocks = model_device_capacity(device) / BLOCK_BYTES};
    rng_init(&run.rng, SEED);
    for (unsigned i = 0; i < DEPTH; i++) {
        ios[i] = (struct model_io){0};
        prepare(&run, &ios[i]);
        FIRN_TRY_GOTO(model_device_submit(device, &ios[i], now_ns), done);
    }
    while (now_ns < end_ns) {
        struct model_io *io = wait_for(device, &now_ns);
        while (io != NULL && now_ns < end_ns) {
            struct model_io *next = io->next;
            counts[(now_ns - first_ns) / slot_ns]++;
            prepare(&run, io);
            FIRN_TRY_GOTO(model_device_submit(device, io, now_ns), done);
            io = next;
        }
    }
done:
    model_device_close(device);
    return rc;
}

static firn_rc find_dip(const struct model_spec *spec, struct device_check *check)
{
    unsigned counts[3 * DIP_SLOTS] = {0};
    const struct model_ssd *ssd = &spec->ssd;
    if (spec->kind != MODEL_SSD || ssd->dip_period_s == 0)
        return FIRN_OK;
    uint64_t slot_ns = (uint64_t)(ssd->dip_length_s / DIP_SLOTS * 1e9);
    double first_s = ssd->dip_period_s - 2 * ssd->dip_length_s;
    uint64_t first_ns = first_s > 0 ? (uint64_t)(first_s * 1e9) : 0;
    FIRN_TRY(count_slots(spec, counts, first_ns, slot_ns));
    /* The beginning, with an empty buffer, is faster than usual. */
    double before = 0;
    for (unsigned i = DIP_SLOTS / 5; i < DIP_SLOTS / 2; i++)
        before += counts[i];
    before /= DIP_SLOTS / 2 - DIP_SLOTS / 5;
    double threshold = before * (1 + ssd->dip_speed) / 2;
    unsigned begin = DIP_SLOTS / 2;
    while (begin < 3 * DIP_SLOTS && counts[begin] >= threshold)
        begin++;
    unsigned end = begin;
    double during = 0;
    while (end < 3 * DIP_SLOTS && counts[end] < threshold)
        during += counts[end++];
    struct device_check_dip *dip = &check->dip;
    dip->found = end > begin && end < 3 * DIP_SLOTS;
    if (dip->found) {
        dip->start_s = (double)(first_ns + begin * slot_ns) / 1e9;
        dip->length_s = (double)((end - begin) * slot_ns) / 1e9;
        dip->rate_share = during / (end - begin) / before;
    }
    return FIRN_OK;
}

/* ---- The data sheet ---- */

/* The most a row of random requests does at any depth: a sheet's rates are such. */
static double best_iops(const struct device_check *check, unsigned write_percent,
                        uint32_t block_bytes)
{
    double best = 0;
    for (unsigned i = 0; i < check->row_count; i++) {
        const struct device_check_row *row = &check->rows[i];
        if (!row->load.sequential && row->load.write_percent == write_percent &&
            row->load.block_bytes == block_bytes && row->rates.iops > best)
            best = row->rates.iops;
    }
    return best;
}

static double stream_mib_s(const struct device_check *check, unsigned write_percent)
{
    for (unsigned i = 0; i < check->row_count; i++) {
        const struct device_load *load = &check->rows[i].load;
        if (load->sequential && load->write_percent == write_percent &&
            load->block_bytes == STREAM_BYTES)
            return check->rows[i].rates.mib_s;
    }
    ENSURE(false);
    return 0;
}

static double single_read_us(const struct device_check *check, uint32_t block_bytes)
{
    for (unsigned i = 0; i < check->row_count; i++) {
        const struct device_load *load = &check->rows[i].load;
        if (!load->sequential && load->write_percent == 0 && load->depth == 1 &&
            load->block_bytes == block_bytes)
            return check->rows[i].rates.mean_us;
    }
    ENSURE(false);
    return 0;
}

static void add_figure(struct device_check *check, const char *name, const char *unit, double sheet,
                       double model)
{
    if (sheet == 0)
        return;
    struct device_check_figure *figure = &check->figures[check->figure_count++];
    *figure =
        (struct device_check_figure){.name = name, .unit = unit, .sheet = sheet, .model = model};
    if (fabs(model / sheet - 1) > DEVICE_CHECK_TOLERANCE)
        check->passed = false;
}

static void compare(const struct model_sheet *sheet, struct device_check *check)
{
    uint32_t block = sheet->block_bytes;
    add_figure(check, "random reads", "/s", sheet->read_iops, best_iops(check, 0, block));
    add_figure(check, "random writes", "/s", sheet->write_iops, best_iops(check, 100, block));
    add_figure(check, "one random read", "us", sheet->read_us, single_read_us(check, block));
    add_figure(check, "sequential reads", "MiB/s", sheet->read_mib_s, stream_mib_s(check, 0));
    add_figure(check, "sequential writes", "MiB/s", sheet->write_mib_s, stream_mib_s(check, 100));
}

firn_rc device_check(const struct model_spec *spec, const struct model_sheet *sheet,
                     struct device_check *check)
{
    memset(check, 0, sizeof(*check));
    check->passed = true;
    struct model_spec steady = *spec;
    steady.ssd.dip_period_s = 0;
    if (sheet != NULL && sheet->block_bytes != BLOCK_BYTES)
        FIRN_TRY(add_random_rows(&steady, sheet->block_bytes, check));
    FIRN_TRY(add_random_rows(&steady, BLOCK_BYTES, check));
    FIRN_TRY(add_sequential_rows(&steady, check));
    FIRN_TRY(measure_syncs(&steady, check));
    FIRN_TRY(find_dip(spec, check));
    if (sheet != NULL)
        compare(sheet, check);
    return FIRN_OK;
}
