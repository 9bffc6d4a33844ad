#include "base/check.h"
#include "base/memory.h"
#include "bench/stats.h"
#include "bench/survey.h"

#include <stdio.h>

enum { MIXED_SYNC_EVERY = 100 };

void survey_config_files(const struct survey_target *target, bool log, struct fileio_config *config)
{
    fileio_config_defaults(config);
    config->directory = log ? target->log_directory : target->data_directory;
    config->file_num = log ? 1 : target->data_files;
    config->file_total_size = log ? target->log_bytes : target->data_bytes;
    config->extra_flags = log ? 0 : FILEIO_FLAG_DIRECT;
    config->io_backend = target->io_backend;
    config->device = target->device;
    config->time_scale = target->time_scale;
    config->rand_seed = target->seed;
    config->rand_type = DISTRIBUTION_UNIFORM;
}

static enum fileio_mode phase_mode(enum survey_work work)
{
    switch (work) {
    case SURVEY_APPEND:
        return FILEIO_SEQWR;
    case SURVEY_OVERWRITE:
    case SURVEY_SEQ_WRITE:
        return FILEIO_SEQREWR;
    case SURVEY_SEQ_READ:
        return FILEIO_SEQRD;
    case SURVEY_READ_THREADS:
    case SURVEY_READ_DEPTH:
        return FILEIO_RNDRD;
    case SURVEY_MIXED:
        return FILEIO_RNDRW;
    case SURVEY_SYNC_MANY:
    case SURVEY_WRITE_THREADS:
    case SURVEY_WRITE_DEPTH:
    case SURVEY_STEADY:
        return FILEIO_RNDWR;
    case SURVEY_WORK_COUNT:
        break;
    }
    check_failed("a phase's work", __FILE__, __LINE__);
}

void survey_config_phase(const struct survey_target *target, const struct survey_phase *phase,
                         struct fileio_config *config)
{
    bool append = phase->work == SURVEY_APPEND;
    survey_config_files(target, append, config);
    config->file_test_mode = (int)phase_mode(phase->work);
    config->file_io_mode = phase->depth == 0 ? FILEIO_SYNC : FILEIO_ASYNC;
    config->io_depth = phase->depth == 0 ? config->io_depth : phase->depth;
    config->file_block_size = phase->block_bytes;
    config->fsync_all =
        append || phase->work == SURVEY_OVERWRITE || phase->work == SURVEY_SYNC_MANY;
    config->fsync_mode = FILEIO_FDATASYNC;
    config->fsync_freq = phase->work == SURVEY_MIXED ? MIXED_SYNC_EVERY : 0;
    config->fsync_end = false;
    config->threads = phase->threads;
    config->events = 0;
    config->warmup_ns = phase->warmup_ns;
    config->time_ns = phase->time_ns;
    config->interval_ns = phase->interval_ns;
}

static struct survey_rate take_rate(const struct meter_kind_data *kind, double elapsed_s)
{
    const struct histogram *latency = &kind->latency_ns;
    if (latency->count == 0 || elapsed_s <= 0)
        return (struct survey_rate){0};
    return (struct survey_rate){
        .per_s = (double)latency->count / elapsed_s,
        .bytes_per_s = (double)kind->bytes / elapsed_s,
        .p50_us = (double)histogram_percentile(latency, 50) / 1e3,
        .p99_us = (double)histogram_percentile(latency, 99) / 1e3,
        .max_us = (double)latency->max / 1e3,
    };
}

static double median_of(double *values, size_t count)
{
    stats_sort(values, count);
    return stats_quantile_sorted(values, count, 0.5);
}

static firn_rc take_ends(const struct series *series, struct survey_outcome *outcome)
{
    size_t quarter = (series->count + 3) / 4;
    double *rates = memory_zalloc(quarter + 1, sizeof(*rates));
    if (rates == NULL)
        return rc_raise(FIRN_E_NOMEM, "not enough memory to sum up a phase");
    for (size_t i = 0; i < quarter; i++)
        rates[i] = series_rate(series, (unsigned)i, FILEIO_SYNCING);
    outcome->start_rate = median_of(rates, quarter);
    for (size_t i = 0; i < quarter; i++)
        rates[i] = series_rate(series, (unsigned)(series->count - quarter + i), FILEIO_SYNCING);
    outcome->end_rate = median_of(rates, quarter);
    memory_free(rates);
    return FIRN_OK;
}

firn_rc survey_take(const struct fileio_outcome *run, struct survey_outcome *outcome)
{
    const struct runner_outcome *r = &run->run;
    double elapsed_s = (double)r->elapsed_ns / 1e9;
    struct survey_outcome taken = {
        .measured = true,
        .read = take_rate(&r->total->kinds[FILEIO_READ], elapsed_s),
        .write = take_rate(&r->total->kinds[FILEIO_WRITE], elapsed_s),
        .sync = take_rate(&r->total->kinds[FILEIO_SYNCING], elapsed_s),
        .relative_variation = r->judgement.relative_variation,
        .longest_silence_ms = (double)r->judgement.longest_silence_ns / 1e6,
        .stalled_s = (double)r->judgement.stalled_ns / 1e9,
        .slowed_s = (double)r->judgement.slowed_ns / 1e9,
    };
    unsigned intervals = r->series->count;
    for (unsigned i = 0; i < intervals; i++) {
        const struct host_cpu_sample *cpu = &r->host[i].cpu;
        taken.cpu_idle_percent += (cpu->idle_percent + cpu->iowait_percent) / intervals;
        taken.cpu_steal_percent += cpu->steal_percent / intervals;
        taken.process_percent +=
            (cpu->process_user_percent + cpu->process_system_percent) / intervals;
    }
    snprintf(taken.judgement_text, sizeof(taken.judgement_text), "%s", r->judgement_text);
    FIRN_TRY(take_ends(r->series, &taken));
    *outcome = taken;
    return FIRN_OK;
}
