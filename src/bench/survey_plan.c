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

/* One line of the plan: a phase; or a group of them, whose number of threads or depth doubles from
   1 up to x_max and ends the name. */
struct plan_line {
    enum survey_work work;
    const char *name;
    const char *group, *axis;
    unsigned threads, depth; /* of a group: the one that varies is 0 */
    unsigned x_max;          /* 0 for one phase */
    uint32_t block_bytes;
    double weight; /* share of the time, of each phase */
};

static const struct plan_line lines[] = {
    {.work = SURVEY_APPEND,
     .name = "append 4 KiB and sync",
     .threads = 1,
     .block_bytes = LOG_BLOCK_BYTES,
     .weight = 6},
    {.work = SURVEY_OVERWRITE,
     .name = "overwrite 16 KiB and sync",
     .threads = 1,
     .block_bytes = PAGE_BYTES,
     .weight = 6},
    {.work = SURVEY_SYNC_MANY,
     .name = "write 16 KiB and sync, 8 threads",
     .threads = SYNC_THREADS,
     .block_bytes = PAGE_BYTES,
     .weight = 6},
    {.work = SURVEY_SEQ_READ,
     .name = "sequential read 1 MiB",
     .threads = 1,
     .depth = QUEUE_DEPTH,
     .block_bytes = SEQUENTIAL_BYTES,
     .weight = 8},
    {.work = SURVEY_SEQ_WRITE,
     .name = "sequential write 1 MiB",
     .threads = 1,
     .depth = QUEUE_DEPTH,
     .block_bytes = SEQUENTIAL_BYTES,
     .weight = 8},
    {.work = SURVEY_READ_THREADS,
     .name = "random read",
     .group = "random reads by threads",
     .axis = "threads",
     .x_max = 64,
     .block_bytes = PAGE_BYTES,
     .weight = 3},
    {.work = SURVEY_READ_DEPTH,
     .name = "random read",
     .group = "random reads by depth",
     .axis = "depth",
     .threads = 1,
     .x_max = 128,
     .block_bytes = PAGE_BYTES,
     .weight = 3},
    {.work = SURVEY_WRITE_THREADS,
     .name = "random write",
     .group = "random writes by threads",
     .axis = "threads",
     .x_max = 64,
     .block_bytes = PAGE_BYTES,
     .weight = 3},
    {.work = SURVEY_WRITE_DEPTH,
     .name = "random write",
     .group = "random writes by depth",
     .axis = "depth",
     .threads = 1,
     .x_max = 128,
     .block_bytes = PAGE_BYTES,
     .weight = 3},
    {.work = SURVEY_MIXED,
     .name = "mixed reads and writes, 16 threads",
     .threads = MIXED_THREADS,
     .block_bytes = PAGE_BYTES,
     .weight = 12},
    {.work = SURVEY_STEADY,
     .name = "steady random writes",
     .threads = 1,
     .depth = STEADY_DEPTH,
     .block_bytes = PAGE_BYTES,
     .weight = 64},
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
