#include "base/check.h"
#include "base/units.h"
#include "bench/survey.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Where the verdict draws its lines. A commit is a write with its sync: where no cache is volatile
   the sync alone has nothing to do. It is judged by what stands behind it: a protected cache
   answers in tens of microseconds, flash without one in milliseconds, a disk in turns. */
static const double COMMIT_IMPOSSIBLE_US = 5; /* less than a command takes to reach any device */
static const double COMMIT_CACHED_US = 50;    /* faster than flash can be programmed */
static const double COMMIT_GOOD_US = 500;
static const double COMMIT_FAIR_US = 5000;
static const double DISK_TURN_US = 2000; /* half a turn at 15,000 rpm */
static const double DISK_READ_US = 1500; /* no arm moves and waits for its sector in less */
static const double COMMITS_WANTED = 10000;
static const double READS_GOOD_PER_S = 20000;
static const double READS_FAIR_PER_S = 2000;
static const double SATURATED_SHARE = 0.9;   /* of the best rate */
static const double STEADY_VARIATION = 0.15; /* of a rate that is called steady */
static const double FALLEN_SHARE = 0.75;     /* end against start */
static const double BUSY_MAX_PERCENT = 93;
static const double OTHER_MAX_PERCENT = 25;
static const double STEAL_MAX_PERCENT = 5;

static const unsigned DEPTHS[] = {1, 2, 4, 8, 16, 32, 64, 128};

/* A number in a sentence. */
typedef char number_text[UNITS_TEXT_BYTES];

__attribute__((format(printf, 4, 5))) static void say(struct survey_verdict *verdict,
                                                      enum survey_severity severity,
                                                      const char *topic, const char *format, ...)
{
    if (verdict->count == SURVEY_LINES_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    verdict->lines[verdict->count].severity = severity;
    verdict->lines[verdict->count].topic = topic;
    vsnprintf(verdict->lines[verdict->count].text, sizeof(verdict->lines[0].text), format,
              arguments);
    va_end(arguments);
    verdict->count++;
}

const struct survey_outcome *survey_find(const struct survey_findings *findings,
                                         enum survey_work work, unsigned x)
{
    for (unsigned i = 0; i < findings->count; i++) {
        const struct survey_phase *phase = &findings->phases[i];
        if (phase->work != work || !findings->outcomes[i].measured)
            continue;
        if (phase->group == NULL)
            return &findings->outcomes[i];
        bool by_depth = work == SURVEY_READ_DEPTH || work == SURVEY_WRITE_DEPTH;
        if (x == (by_depth ? phase->depth : phase->threads))
            return &findings->outcomes[i];
    }
    return NULL;
}

static const char *us_text(double us, number_text text)
{
    return units_format_duration(us * 1000, text);
}

static void judge_commits(const struct survey_findings *findings, struct survey_verdict *verdict)
{
    number_text rate, each, high, grow;
    const struct survey_outcome *redo = survey_find(findings, SURVEY_OVERWRITE, 0);
    const struct survey_outcome *append = survey_find(findings, SURVEY_APPEND, 0);
    if (redo == NULL || redo->sync.per_s <= 0)
        return;
    char group[160];
    double needed = ceil(COMMITS_WANTED / redo->sync.per_s);
    if (needed <= 1)
        snprintf(group, sizeof(group), "10 k commits/s need no group commit");
    else
        snprintf(group, sizeof(group),
                 "for 10 k commits/s a group commit must take %.0f along with each sync", needed);
    char growing[96] = "";
    if (append != NULL)
        snprintf(growing, sizeof(growing), " (%s/s into a growing file, as a binary log's)",
                 units_format_count(append->sync.per_s, grow));
    say(verdict, SURVEY_TELLS, "commits",
        "One thread that syncs each commit makes %s/s%s: %s each on average, p99 %s; %s.",
        units_format_count(redo->sync.per_s, rate), growing, us_text(1e6 / redo->sync.per_s, each),
        us_text(redo->write.p99_us, high), group);
}

static void judge_many_syncs(const struct survey_findings *findings, struct survey_verdict *verdict)
{
    number_text rate;
    const struct survey_outcome *redo = survey_find(findings, SURVEY_OVERWRITE, 0);
    const struct survey_outcome *many = survey_find(findings, SURVEY_SYNC_MANY, 0);
    if (redo == NULL || many == NULL || redo->sync.per_s <= 0)
        return;
    double ratio = many->sync.per_s / redo->sync.per_s;
    const char *meaning =
        ratio < 1.5 ? "syncs queue up: a second log on this device takes its syncs from the first"
        : ratio < 4 ? "syncs overlap in part: two logs on this device slow each other a little"
                    : "syncs overlap well: several logs may share this device";
    say(verdict, SURVEY_TELLS, "many syncs",
        "8 threads over 8 files reach %s syncs/s, %.1f times one thread's: %s.",
        units_format_count(many->sync.per_s, rate), ratio, meaning);
}

/** How a rate grows with depth. */
struct growth {
    const struct survey_rate *one, *best, *saturated;
    unsigned saturated_depth;
};

static bool find_growth(const struct survey_findings *findings, enum survey_work work,
                        struct growth *growth)
{
    const struct survey_rate *rates[ARRAY_COUNT(DEPTHS)] = {NULL};
    *growth = (struct growth){0};
    for (size_t i = 0; i < ARRAY_COUNT(DEPTHS); i++) {
        const struct survey_outcome *outcome = survey_find(findings, work, DEPTHS[i]);
        if (outcome == NULL)
            continue;
        rates[i] = work == SURVEY_READ_DEPTH ? &outcome->read : &outcome->write;
        if (growth->best == NULL || rates[i]->per_s > growth->best->per_s)
            growth->best = rates[i];
    }
    growth->one = rates[0];
    if (growth->one == NULL || growth->best->per_s <= 0)
        return false;
    for (size_t i = 0; growth->saturated == NULL; i++)
        if (rates[i] != NULL && rates[i]->per_s >= SATURATED_SHARE * growth->best->per_s) {
            growth->saturated = rates[i];
            growth->saturated_depth = DEPTHS[i];
        }
    return true;
}

static void judge_growth(const struct survey_findings *findings, enum survey_work work,
                         const char *topic, const char *noun, struct survey_verdict *verdict)
{
    number_text one, each, best, high;
    struct growth growth;
    if (!find_growth(findings, work, &growth))
        return;
    units_format_count(growth.one->per_s, one);
    us_text(growth.one->p50_us, each);
    units_format_count(growth.saturated->per_s, best);
    us_text(growth.saturated->p99_us, high);
    if (growth.saturated_depth == 1)
        say(verdict, SURVEY_TELLS, topic,
            "One %s at a time already gives all: %s/s, %s each (median); depth only adds waiting.",
            noun, one, each);
    else if (growth.saturated_depth == DEPTHS[ARRAY_COUNT(DEPTHS) - 1])
        say(verdict, SURVEY_TELLS, topic,
            "One %s at a time: %s/s, %s each (median); still rising at depth %u: %s/s, p99 %s.",
            noun, one, each, growth.saturated_depth, best, high);
    else
        say(verdict, SURVEY_TELLS, topic,
            "One %s at a time: %s/s, %s each (median); %.2g times that from depth %u on (%s/s, p99 "
            "%s), and more depth only adds waiting.",
            noun, one, each, growth.saturated->per_s / growth.one->per_s, growth.saturated_depth,
            best, high);
}

static void judge_sequential(const struct survey_findings *findings, struct survey_verdict *verdict)
{
    struct growth growth;
    const struct survey_outcome *read = survey_find(findings, SURVEY_SEQ_READ, 0);
    if (read == NULL || !find_growth(findings, SURVEY_READ_DEPTH, &growth))
        return;
    double ratio = read->read.bytes_per_s / growth.best->bytes_per_s;
    say(verdict, SURVEY_TELLS, "scans",
        "Reading in order is %.2g times as fast as random pages at their best: %s.", ratio,
        ratio >= 3 ? "order on disk and read-ahead pay" : "deep queues do as well as order");
}

static double phase_seconds(const struct survey_findings *findings, enum survey_work work)
{
    for (unsigned i = 0; i < findings->count; i++)
        if (findings->phases[i].work == work)
            return (double)findings->phases[i].time_ns / 1e9;
    return 0;
}

static void judge_steadiness(const struct survey_findings *findings, struct survey_verdict *verdict)
{
    number_text rate, start, end, time;
    const struct survey_outcome *steady = survey_find(findings, SURVEY_STEADY, 0);
    if (steady == NULL)
        return;
    snprintf(time, sizeof(time), "%.3g s", phase_seconds(findings, SURVEY_STEADY));
    units_format_count(steady->write.per_s, rate);
    units_format_count(steady->start_rate, start);
    units_format_count(steady->end_rate, end);
    if (steady->stalled_s > 0 || steady->slowed_s > 0)
        say(verdict, SURVEY_WARNS, "steadiness", "Random writes for %s, %s/s on average. %s", time,
            rate, steady->judgement_text);
    if (steady->end_rate < FALLEN_SHARE * steady->start_rate)
        say(verdict, SURVEY_WARNS, "steadiness",
            "Random writes fell from %s/s to %s/s within %s, as when a cache or write buffer "
            "fills. Count on the lower rate, and run longer (--time) to see where it ends.",
            start, end, time);
    else if (steady->stalled_s > 0 || steady->slowed_s > 0)
        return;
    else if (steady->relative_variation > STEADY_VARIATION)
        say(verdict, SURVEY_TELLS, "steadiness",
            "Random writes for %s: %s/s without a stall, but the rate wavers by %.0f %%.", time,
            rate, 100 * steady->relative_variation);
    else
        say(verdict, SURVEY_TELLS, "steadiness",
            "Random writes for %s: a steady %s/s (variation %.0f %%), no stall, no slowdown.", time,
            rate, 100 * steady->relative_variation);
}

/* Virtual disks say that they rotate, whatever they lie on. */
static bool is_virtual(const struct host_machine *machine)
{
    return machine->virtualization[0] != '\0' && strcmp(machine->virtualization, "none") != 0;
}

static bool lies_in_memory(const struct host_machine *machine)
{
    return strcmp(machine->file_system, "tmpfs") == 0 || strcmp(machine->file_system, "ramfs") == 0;
}

static bool has_no_barriers(const struct host_machine *machine)
{
    return strstr(machine->mount_options, "nobarrier") != NULL ||
           strstr(machine->mount_options, "barrier=0") != NULL;
}

static const char *redo_use(const struct survey_findings *findings,
                            const struct survey_outcome *redo)
{
    double each_us = 1e6 / redo->sync.per_s;
    if (findings->model == NULL &&
        (lies_in_memory(findings->machine) || has_no_barriers(findings->machine) ||
         redo->write.p50_us < COMMIT_IMPOSSIBLE_US))
        return "Not to be trusted: see durability.";
    if (each_us <= COMMIT_GOOD_US)
        return "Well suited.";
    if (each_us <= COMMIT_FAIR_US)
        return "Suited, with group commit.";
    return "Poorly suited: a controller with a protected cache, or a drive with power-loss "
           "protection, is what commits need.";
}

static void judge_use(const struct survey_findings *findings, struct survey_verdict *verdict)
{
    const struct survey_outcome *redo = survey_find(findings, SURVEY_OVERWRITE, 0);
    const struct survey_outcome *steady = survey_find(findings, SURVEY_STEADY, 0);
    struct growth growth;
    if (redo != NULL && redo->sync.per_s > 0)
        say(verdict, SURVEY_TELLS, "redo, binary log", "%s%s", redo_use(findings, redo),
            steady != NULL && steady->stalled_s > 0 ? " Its stalls will be every commit's stalls."
                                                    : "");
    if (find_growth(findings, SURVEY_READ_DEPTH, &growth))
        say(verdict, SURVEY_TELLS, "data files", "%s",
            growth.best->per_s >= READS_GOOD_PER_S
                ? "Well suited, also to data much larger than memory."
            : growth.best->per_s >= READS_FAIR_PER_S
                ? "Suited, if most page reads are found in the buffer pool."
                : "Poorly suited to random reads: the working set must fit the buffer pool, or the "
                  "data belong on flash.");
}

/* What makes syncs look better than they are. */
static void warn_of_syncs(const struct survey_findings *findings, struct survey_verdict *verdict)
{
    number_text each;
    const struct host_machine *machine = findings->machine;
    const struct survey_outcome *redo = survey_find(findings, SURVEY_OVERWRITE, 0);
    if (redo == NULL || redo->sync.per_s <= 0)
        return;
    const char *cache = machine->device_write_cache;
    us_text(redo->write.p50_us, each);
    if (lies_in_memory(machine))
        say(verdict, SURVEY_WARNS, "durability",
            "The files lie in memory (%s): this is no disk, and nothing survives a power cut.",
            machine->file_system);
    else if (has_no_barriers(machine))
        say(verdict, SURVEY_WARNS, "durability",
            "The file system is mounted without barriers: syncs do not empty the drive's cache. "
            "Unless that cache is protected, a power cut loses commits and breaks pages.");
    else if (redo->write.p50_us < COMMIT_IMPOSSIBLE_US)
        say(verdict, SURVEY_WARNS, "durability",
            "A synced write takes %s, less than any device needs to be told: something "
            "acknowledges "
            "before the bytes are safe. Do not trust commits on it.",
            each);
    else if (redo->write.p50_us < COMMIT_CACHED_US && strcmp(cache, "write through") != 0)
        say(verdict, SURVEY_WARNS, "durability",
            "A synced write takes %s, faster than flash is written: a cache answers%s. Make sure "
            "that it survives a power cut (battery, capacitors).",
            each, strcmp(cache, "write back") == 0 ? ", and the device calls it volatile" : "");
    else if (machine->device_rotational && !is_virtual(machine) &&
             redo->write.p50_us < DISK_TURN_US)
        say(verdict, SURVEY_WARNS, "durability",
            "A synced write takes %s on what the system calls a rotating disk, less than half a "
            "turn: a cache answers. Make sure that it survives a power cut (battery, capacitors).",
            each);
}

static void warn_of_caches(const struct survey_findings *findings, struct survey_verdict *verdict)
{
    number_text size, each;
    const struct host_machine *machine = findings->machine;
    const struct survey_outcome *one = survey_find(findings, SURVEY_READ_DEPTH, 1);
    units_format_size((double)findings->size_bytes, size);
    if (!findings->direct)
        say(verdict, SURVEY_WARNS, "page cache",
            "Direct I/O is refused here, so the page cache took part: reads may never have reached "
            "the device. Use --size of at least twice the memory.");
    if (is_virtual(machine))
        say(verdict, SURVEY_WARNS, "virtual machine",
            "Under %s neither the host's cache nor its other guests can be seen: %s may lie in the "
            "host's memory. Repeat at another hour, and with a larger --size.",
            machine->virtualization, size);
    else if (machine->device_rotational && findings->direct && one != NULL &&
             one->read.p50_us < DISK_READ_US)
        say(verdict, SURVEY_WARNS, "controller cache",
            "A random read takes %s on what the system calls a rotating disk: %s fit a cache on "
            "the way. Use --size of several times that cache.",
            us_text(one->read.p50_us, each), size);
}

/* The phase in which a share was largest. */
struct peak {
    double percent;
    const char *phase;
};

static void raise_peak(struct peak *peak, double percent, const char *phase)
{
    if (percent <= peak->percent)
        return;
    peak->percent = percent;
    peak->phase = phase;
}

static void warn_of_processors(const struct survey_findings *findings,
                               struct survey_verdict *verdict)
{
    double processors = fmax(1, findings->machine->processors);
    struct peak own = {0}, other = {0}, steal = {0};
    for (unsigned i = 0; i < findings->count; i++) {
        const struct survey_outcome *outcome = &findings->outcomes[i];
        const struct survey_phase *phase = &findings->phases[i];
        if (!outcome->measured)
            continue;
        raise_peak(&steal, outcome->cpu_steal_percent, phase->name);
        raise_peak(&other,
                   100 - outcome->cpu_idle_percent - outcome->cpu_steal_percent -
                       outcome->process_percent / processors,
                   phase->name);
        /* One thread can be the limit while other processors idle. */
        raise_peak(&own, outcome->process_percent / fmin(phase->threads, processors), phase->name);
    }
    if (steal.percent > STEAL_MAX_PERCENT)
        say(verdict, SURVEY_WARNS, "processors",
            "Up to %.0f %% of processor time went to other guests: latencies contain that waiting.",
            steal.percent);
    if (other.percent > OTHER_MAX_PERCENT)
        say(verdict, SURVEY_WARNS, "processors",
            "Other programs took up to %.0f %% of the processors (in \"%s\"): latencies contain "
            "waiting for them. Repeat on an idle machine.",
            other.percent, other.phase);
    if (own.percent > BUSY_MAX_PERCENT)
        say(verdict, SURVEY_WARNS, "processors",
            "The survey itself was busy all the time in \"%s\": that rate may be the processor's "
            "and not the device's.",
            own.phase);
}

void survey_judge(const struct survey_findings *findings, struct survey_verdict *verdict)
{
    verdict->count = 0;
    judge_use(findings, verdict);
    judge_commits(findings, verdict);
    judge_many_syncs(findings, verdict);
    judge_growth(findings, SURVEY_READ_DEPTH, "random reads", "read", verdict);
    judge_growth(findings, SURVEY_WRITE_DEPTH, "random writes", "write", verdict);
    judge_sequential(findings, verdict);
    judge_steadiness(findings, verdict);
    if (findings->model != NULL) {
        say(verdict, SURVEY_WARNS, "modelled",
            "These are the figures of the model %s, not of this machine's disk.", findings->model);
        return;
    }
    warn_of_syncs(findings, verdict);
    warn_of_caches(findings, verdict);
    warn_of_processors(findings, verdict);
}

json_t *survey_verdict_json(const struct survey_verdict *verdict)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < verdict->count; i++) {
        bool warns = verdict->lines[i].severity == SURVEY_WARNS;
        json_t *line = json_pack("{s:s, s:s, s:s}", "severity", warns ? "warns" : "tells", "topic",
                                 verdict->lines[i].topic, "text", verdict->lines[i].text);
        if (json_array_append_new(array, line) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}
