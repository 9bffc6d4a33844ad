#include "base/memory.h"
#include "bench/judge_internal.h"
#include "bench/stats.h"

#include <math.h>

enum { EVENTS_MIN = 3, GRAINS_MIN = 5 };

/* How far the median distance's deviation may reach, as a share of it. Few distances agree by
   chance more easily (three even more so than two: the middle one always agrees with itself). Of
   random events (Poisson) these limits let one run in thirty pass, with five events and more one
   in seventy, with ten one in five hundred. */
static double spread_limit(unsigned distances)
{
    return distances == 2   ? 0.03
           : distances == 3 ? 0.02
           : distances <= 5 ? 0.06
           : distances <= 9 ? 0.10
                            : 0.15;
}

static double median_length(const struct judge_events *events, double *scratch)
{
    for (unsigned i = 0; i < events->count; i++)
        scratch[i] = (double)events->items[i].length_ns;
    return stats_quantile(scratch, events->count, 0.5);
}

static double median_share(const struct judge_events *events, double *scratch)
{
    for (unsigned i = 0; i < events->count; i++)
        scratch[i] = events->items[i].rate_share;
    return stats_quantile(scratch, events->count, 0.5);
}

/* Fill what the distances between starts say. */
static void judge_distances(const struct judge_events *events, double *scratch,
                            struct judge_period *period)
{
    unsigned distances = events->count - 1;
    const struct judge_event *items = events->items;
    for (unsigned i = 0; i < distances; i++)
        scratch[i] = (double)(items[i + 1].start_ns - items[i].start_ns);
    double median = stats_quantile(scratch, distances, 0.5);
    for (unsigned i = 0; i < distances; i++)
        scratch[i] = fabs((double)(items[i + 1].start_ns - items[i].start_ns) - median);
    double deviation = stats_quantile(scratch, distances, 0.5);
    double grain = (double)events->grain_ns;
    period->found =
        median >= GRAINS_MIN * grain && deviation <= spread_limit(distances) * median + grain / 4;
    period->period_ns = (uint64_t)median;
    period->spread = median > 0 ? deviation / median : 0;
}

firn_rc judge_find_period(const struct judge_events *events, struct judge_period *period)
{
    *period = (struct judge_period){.events = events->count};
    if (events->count == 0)
        return FIRN_OK;
    double *scratch = memory_alloc(events->count * sizeof(*scratch));
    if (scratch == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge %u events", events->count);
    if (events->count >= EVENTS_MIN)
        judge_distances(events, scratch, period);
    period->length_ns = (uint64_t)median_length(events, scratch);
    period->rate_share = median_share(events, scratch);
    memory_free(scratch);
    return FIRN_OK;
}
