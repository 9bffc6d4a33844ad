#include "base/check.h"
#include "base/clock.h"
#include "bench/survey.h"

#include <stdio.h>

enum {
    PAGE_BYTES = 16 * 1024,
    LOG_BLOCK_BYTES = 4 * 1024,
    SEQUENTIAL_BYTES = 1024 * 1024,
    SYNC_THREADS = 8,
    MIXED_THREADS = 16,
    QUEUE_DEPTH = 8,   /* enough for any device in 1 MiB requests */
    STEADY_DEPTH = 32, /* what a page cleaner keeps under way */
};

/* One line of the plan: a phase, or a group of them with the number doubling up to x_max. */
struct plan_line {
    enum survey_work work;
    const char *name;  /* of a group: without the number */
    const char *group; /* NULL for one phase */
    const char *axis;
    unsigned threads, depth; /* 0 where the group's number stands in, or for synchronous calls */
    unsigned x_max;
    uint32_t block_bytes;
    double weight; /* share of the time, of each phase */
};

static const struct plan_line lines[] = {
    {SURVEY_APPEND, "append 4 KiB and sync", NULL, NULL, 1, 0, 0, LOG_BLOCK_BYTES, 6},
    {SURVEY_OVERWRITE, "overwrite 16 KiB and sync", NULL, NULL, 1, 0, 0, PAGE_BYTES, 6},
    {SURVEY_SYNC_MANY, "write 16 KiB and sync, 8 threads", NULL, NULL, SYNC_THREADS, 0, 0,
     PAGE_BYTES, 6},
    {SURVEY_SEQ_READ, "sequential read 1 MiB", NULL, NULL, 1, QUEUE_DEPTH, 0, SEQUENTIAL_BYTES, 8},
    {SURVEY_SEQ_WRITE, "sequential write 1 MiB", NULL, NULL, 1, QUEUE_DEPTH, 0, SEQUENTIAL_BYTES,
     8},
    {SURVEY_READ_THREADS, "random read", "random reads by threads", "threads", 0, 0, 64, PAGE_BYTES,
     3},
    {SURVEY_READ_DEPTH, "random read", "random reads by depth", "depth", 1, 0, 128, PAGE_BYTES, 3},
    {SURVEY_WRITE_THREADS, "random write", "random writes by threads", "threads", 0, 0, 64,
     PAGE_BYTES, 3},
    {SURVEY_WRITE_DEPTH, "random write", "random writes by depth", "depth", 1, 0, 128, PAGE_BYTES,
     3},
    {SURVEY_MIXED, "mixed reads and writes, 16 threads", NULL, NULL, MIXED_THREADS, 0, 0,
     PAGE_BYTES, 12},
    {SURVEY_STEADY, "steady random writes", NULL, NULL, 1, STEADY_DEPTH, 0, PAGE_BYTES, 64},
};

static double total_weight(void)
{
    double total = 0;
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        unsigned phases = 1;
        for (unsigned x = 1; x < lines[i].x_max; x *= 2)
            phases++;
        total += lines[i].weight * phases;
    }
    return total;
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* x is 0 outside groups. */
static struct survey_phase make_phase(const struct plan_line *line, unsigned x, uint64_t time_ns)
{
    struct survey_phase phase = {
        .work = line->work,
        .group = line->group,
        .axis = line->axis,
        .threads = line->threads == 0 ? x : line->threads,
        .depth = line->threads != 0 && x != 0 ? x : line->depth,
        .block_bytes = line->block_bytes,
    };
    uint64_t share_ns = (uint64_t)((double)time_ns * line->weight / total_weight());
    phase.warmup_ns = clamp(share_ns / 6, 0, NS_PER_S);
    phase.time_ns = share_ns - phase.warmup_ns;
    phase.interval_ns = clamp(phase.time_ns / 100, 10 * NS_PER_MS,
                              line->work == SURVEY_STEADY ? NS_PER_S / 2 : NS_PER_S / 10);
    if (x == 0)
        snprintf(phase.name, sizeof(phase.name), "%s", line->name);
    else if (line->threads == 0)
        snprintf(phase.name, sizeof(phase.name), "%s, %u thread%s", line->name, x,
                 x == 1 ? "" : "s");
    else
        snprintf(phase.name, sizeof(phase.name), "%s, depth %u", line->name, x);
    return phase;
}

unsigned survey_plan(uint64_t time_ns, struct survey_phase phases[SURVEY_PHASES_MAX])
{
    unsigned count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        if (lines[i].group == NULL)
            phases[count++] = make_phase(&lines[i], 0, time_ns);
        for (unsigned x = 1; x <= lines[i].x_max; x *= 2)
            phases[count++] = make_phase(&lines[i], x, time_ns);
    }
    ENSURE(count <= SURVEY_PHASES_MAX);
    return count;
}
